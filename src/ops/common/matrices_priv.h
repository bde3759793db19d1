/* matrices_priv.h -- operands as rows of matrices: the last two dimensions, all others in front. */
#ifndef OPS_MATRICES_PRIV_H
#define OPS_MATRICES_PRIV_H
#include "ops/common/ops_priv.h"

typedef struct ops_matrices {
  int64_t count, rows, columns;
} ops_matrices;
ops_matrices ops_matrices_of(const base_tensor *t); /* of rank 2 and more */

/* Fails unless operand `i` is a float of rank 2 or more (or of no known rank); with `square`, unless rows may equal
 * columns. */
td_status ops_infer_matrices(ir_infer *ctx, uint32_t i, bool square);
/* Output `out` has the leading dimensions of operand 0, which is ranked, and then `tail`. */
td_status ops_out_matrices(ir_infer *ctx, uint32_t out, td_dtype dtype, uint32_t count, const base_dim *tail);
/* Sizes that inference with numbers has seen may still come otherwise: fails where `m` is not square. */
td_status ops_check_square(const base_call *call, const ops_matrices *m);
/* The least of two sizes. */
base_dim ops_least_dim(const ir_infer *ctx, base_dim a, base_dim b);
/* (2/3) n^3 for each n by n matrix of operand 0, times `by`. */
double ops_cubic_flops(const ir_info *const *in, double by);
#endif
