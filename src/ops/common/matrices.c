/* matrices.c -- see matrices_priv.h. */
#include "ops/common/matrices_priv.h"

ops_matrices ops_matrices_of(const base_tensor *t) {
  ops_matrices m = {1, t->dims[t->rank - 2], t->dims[t->rank - 1]};
  for (int32_t i = 0; i < t->rank - 2; i++) m.count *= t->dims[i];
  return m;
}

td_status ops_infer_matrices(ir_infer *ctx, uint32_t i, bool square) {
  const ir_type *x = &ir_in(ctx, i)->type;
  if (!base_is_float(x->dtype))
    return ir_infer_fail(ctx, "operand %u of %s; a floating-point type is needed", i, td_dtype_name(x->dtype));
  if (x->rank == IR_UNRANKED) return TD_OK;
  if (x->rank < 2) return ir_infer_fail(ctx, "operand %u of rank %d; matrices are needed", i, x->rank);
  base_dim rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  if (square && ops_dims_differ(rows, columns))
    return ir_infer_fail(ctx, "matrices of %lld by %lld are not square", (long long)rows, (long long)columns);
  return TD_OK;
}

td_status ops_out_matrices(ir_infer *ctx, uint32_t out, td_dtype dtype, uint32_t count, const base_dim *tail) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  base_dim dims[BASE_MAX_RANK];
  int32_t rank = x->rank - 2;
  for (int32_t i = 0; i < rank; i++) dims[i] = x->dims[i];
  for (uint32_t i = 0; i < count; i++) dims[rank++] = tail[i];
  return ir_out(ctx, out, dtype, rank, dims);
}

td_status ops_check_square(const base_call *call, const ops_matrices *m) {
  return m->rows == m->columns
             ? TD_OK
             : ops_fail(call, "matrices of %lld by %lld are not square", (long long)m->rows, (long long)m->columns);
}

base_dim ops_least_dim(const ir_infer *ctx, base_dim a, base_dim b) {
  return a == b ? a : base_dim_binary(ctx->dims, BASE_DIM_MIN, a, b);
}

double ops_cubic_flops(const ir_info *const *in, double by) {
  const ir_type *x = &in[0]->type;
  double n = (double)x->dims[x->rank - 1], count = by * n * n * n * 2 / 3;
  for (int32_t i = 0; i < x->rank - 2; i++) count *= (double)x->dims[i];
  return count;
}
