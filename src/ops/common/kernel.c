/* kernel.c -- the choice of kernels that many operators share. */
#include "ops/common/kernel_priv.h"

const kern_row *ops_kernel_f32(const ir_kernel_query *query, kern_family family) {
  for (uint32_t i = 0; i < query->in_count; i++)
    if (query->in[i] && query->in[i]->type.dtype != TD_F32) return NULL;
  for (uint32_t i = 0; i < query->out_count; i++) { /* of a saved plan, results that nobody wants have no type */
    const td_dtype dtype = query->out[i].type.dtype;
    if (dtype != TD_F32 && dtype != TD_INVALID) return NULL;
  }
  return kern_select(family, TD_F32, query->isa);
}

bool ops_kernel_single(const ir_kernel_query *query, uint32_t i) {
  if (i >= query->in_count || !query->in[i] || query->in[i]->type.rank == IR_UNRANKED) return false;
  for (int32_t d = 0; d < query->in[i]->type.rank; d++)
    if (query->in[i]->type.dims[d] != 1) return false;
  return true;
}

#define UNARY(family, function, types, work, value) \
  const kern_row *ops_kernel_##function(const ir_kernel_query *query) { return ops_kernel_f32(query, KERN_##family); }
#define BINARY(family, function, types, work, value) UNARY(family, function, types, work, value)
#include "base/scalar.def"
