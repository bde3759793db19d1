/* group_norm_amx.c -- KERN_GROUP_NORM on 16 bits, between products by tiles of AMX. */
#include "kernels/rows/group_norm_priv.h"
#include "kernels/simd/pairs_priv.h"

static void narrow(uint16_t *to, const float *from, int64_t n) { p_round_row(to, from, n); }

td_status KERN_PART_NAME(group_norm_bf16_amx)(const base_call *call) { return KERN_NAME(group_norm_by)(call, narrow); }
td_status KERN_PART_NAME(group_moments_bf16_amx)(const base_call *call) { return KERN_NAME(group_moments)(call); }
