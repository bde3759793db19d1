/* pool_amx.c -- KERN_MAX_POOL of bf16 between products by tiles of AMX. */
#include "kernels/rows/wide/pool_bf16_priv.h"

td_status KERN_PART_NAME(max_pool_bf16_amx)(const base_call *call) { return pool_bf16(call); }
