/* depthwise_amx.c -- KERN_DEPTHWISE on 16 bits, between products by tiles of AMX. */
#include "kernels/products/depthwise_strips_priv.h"
#include "kernels/simd/pairs_priv.h"

static void narrow(float *to, const float *from, int64_t n) { p_round_row((uint16_t *)(void *)to, from, n); }

td_status KERN_PART_NAME(depthwise_bf16_amx)(const base_call *call) { return KERN_NAME(depthwise_by)(call, narrow); }
