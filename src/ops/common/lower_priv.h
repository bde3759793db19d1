/* lower_priv.h -- what operators share that lower to fused loops; of ir_op.lower. */
#ifndef OPS_LOWER_PRIV_H
#define OPS_LOWER_PRIV_H
#include "loop/loop.h"
#include "ops/common/ops_priv.h"

/* ops_lower_<function> of each row of scalar.def: the function of the operator's first operands, without numbers. */
#define UNARY(family, function, types, work, value) \
  bool ops_lower_##function(const ir_kernel_query *query, loop_build *b);
#define BINARY(family, function, types, work, value) \
  bool ops_lower_##function(const ir_kernel_query *query, loop_build *b);
#define PURE(function, operands, types, gives, work, value) \
  bool ops_lower_##function(const ir_kernel_query *query, loop_build *b);
#define PLAIN(function, operands, types, work, value) \
  bool ops_lower_##function(const ir_kernel_query *query, loop_build *b);
#include "base/scalar.def"
/* The function of operand 0, its numbers the operator's attributes in order. */
bool ops_lower_with_attributes(const ir_kernel_query *query, loop_build *b, base_scalar function);
/* The function of operands 1 and 0. */
bool ops_lower_swapped(loop_build *b, base_scalar function);
/* Operand `i` is a constant of one element, *number. */
bool ops_lower_number(const ir_kernel_query *query, uint32_t i, double *number);
/* Does a reduction over `dims` (of `count`; none: all) of an operand of `rank` go along the row of the loop? */
bool ops_lower_is_row(const loop_build *b, int32_t rank, const int64_t *dims, uint32_t count);
/* The loop's scan of operand 0 along `axis`, which must be its row; `how`: BASE_SCAN_*. Sums and products of f32 are
 * made in f64: so they are as close as one element's, however long the row. */
bool ops_lower_scan(const ir_kernel_query *query, loop_build *b, int64_t axis, base_combine combine, uint32_t how);
#endif
