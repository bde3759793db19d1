/* kernel_priv.h -- the choice of kernels that many operators share; of ir_op.kernel. */
#ifndef OPS_KERNEL_PRIV_H
#define OPS_KERNEL_PRIV_H
#include "kernels/kernels.h"
#include "ops/common/ops_priv.h"

/* The row of `family` if all operands that are there, and all outputs, are f32; else NULL. */
const kern_row *ops_kernel_f32(const ir_kernel_query *query, kern_family family);
/* Operand `i` is there and known to have one element. */
bool ops_kernel_single(const ir_kernel_query *query, uint32_t i);

/* ops_kernel_<function> of each UNARY and BINARY of scalar.def: ops_kernel_f32 of its family. */
#define UNARY(family, function, types, work, value) const kern_row *ops_kernel_##function(const ir_kernel_query *query);
#define BINARY(family, function, types, work, value) \
  const kern_row *ops_kernel_##function(const ir_kernel_query *query);
#include "base/scalar.def"
#endif
