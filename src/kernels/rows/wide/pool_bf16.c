/* pool_bf16.c -- KERN_MAX_POOL of bf16 between products of pairs. */
#include "kernels/rows/wide/pool_bf16_priv.h"

td_status KERN_PART_NAME(max_pool_bf16)(const base_call *call) { return pool_bf16(call); }
