/* conv_bf16.c -- KERN_CONV on 16 bits: td::conv whose weights are pairs of bf16, its image rounded to that, too. */
#include "kernels/products/gemm_priv.h"

td_status KERN_PART_NAME(conv_bf16)(const base_call *call) {
  return KERN_NAME(conv_by)(call, &KERN_PART_NAME(gemm_pairs));
}
