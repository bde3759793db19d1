/* matmul_bf16.c -- KERN_MATMUL on 16 bits: both operands, of any strides, are rounded to bf16, sums are f32. */
#include "kernels/products/gemm_priv.h"

td_status KERN_PART_NAME(matmul_bf16)(const base_call *call) {
  return KERN_NAME(matmul_by)(call, &KERN_PART_NAME(gemm_pairs));
}
