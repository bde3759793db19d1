/* depthwise_bf16.c -- KERN_DEPTHWISE on 16 bits, between products of pairs of bf16. */
#include "kernels/products/depthwise_strips_priv.h"
#include "kernels/simd/pairs_priv.h"

static void narrow(float *to, const float *from, int64_t n) { p_round_row((uint16_t *)(void *)to, from, n); }

td_status KERN_PART_NAME(depthwise_bf16)(const base_call *call) { return KERN_NAME(depthwise_by)(call, narrow); }
