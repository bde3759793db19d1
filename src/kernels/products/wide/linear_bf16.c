/* linear_bf16.c -- KERN_LINEAR on 16 bits: td::linear whose weights are pairs of bf16, x rounded to that, too. */
#include "kernels/products/gemm_priv.h"

td_status KERN_PART_NAME(linear_bf16)(const base_call *call) {
  return KERN_NAME(linear_by)(call, &KERN_PART_NAME(gemm_pairs));
}
