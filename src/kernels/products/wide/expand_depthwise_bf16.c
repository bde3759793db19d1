/* expand_depthwise_bf16.c -- KERN_EXPAND_DEPTHWISE on 16 bits: the expansion's weights are pairs of bf16, its image is
 * rounded to that, too. */
#include "kernels/products/gemm_priv.h"

td_status KERN_PART_NAME(expand_depthwise_bf16)(const base_call *call) {
  return KERN_NAME(expand_depthwise_by)(call, &KERN_PART_NAME(gemm_pairs));
}
