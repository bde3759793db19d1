/* infer.c -- inference rules that operators share. */
#include "ops/common/ops_priv.h"

td_status ops_infer_same(ir_infer *ctx) { return ir_out_like(ctx, 0, 0, TD_INVALID); }

td_status ops_infer_same_bool(ir_infer *ctx) { return ir_out_like(ctx, 0, 0, TD_BOOL); }

bool ops_any_unranked(const ir_infer *ctx) {
  for (uint32_t i = 0; i < ctx->in_count; i++)
    if (ctx->in[i] && ctx->in[i]->type.kind == IR_TENSOR && ctx->in[i]->type.rank == IR_UNRANKED) return true;
  return false;
}

td_status ops_same_dtype(ir_infer *ctx, uint32_t a, uint32_t b) {
  const ir_info *x = ir_in(ctx, a), *y = ir_in(ctx, b);
  if (!x || !y || x->type.dtype == y->type.dtype) return TD_OK;
  return ir_infer_fail(ctx, "operands %u and %u differ in element type: %s and %s", a, b, td_dtype_name(x->type.dtype),
                       td_dtype_name(y->type.dtype));
}

bool ops_broadcast_dims(base_dims *dims, int32_t a_rank, const base_dim *a, int32_t b_rank, const base_dim *b,
                        int32_t *rank, base_dim *out) {
  int32_t r = a_rank > b_rank ? a_rank : b_rank;
  base_dim result[BASE_MAX_RANK];
  for (int32_t i = 0; i < r; i++) {
    int32_t ai = i - (r - a_rank), bi = i - (r - b_rank);
    base_dim x = ai >= 0 ? a[ai] : 1, y = bi >= 0 ? b[bi] : 1;
    result[i] = base_dim_binary(dims, BASE_DIM_BROADCAST, x, y);
    if (result[i] == BASE_DIM_NONE) return false;
  }
  *rank = r;
  for (int32_t i = 0; i < r; i++) out[i] = result[i];
  return true;
}

td_status ops_infer_broadcast(ir_infer *ctx, uint32_t n, td_dtype dtype) {
  int32_t rank = 0;
  base_dim dims[BASE_MAX_RANK];
  for (uint32_t i = 0; i < n; i++) {
    const ir_info *in = ir_in(ctx, i);
    if (!in) continue;
    if (in->type.rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, dtype);
    if (!ops_broadcast_dims(ctx->dims, rank, dims, in->type.rank, in->type.dims, &rank, dims))
      return ir_infer_fail(ctx, "shapes do not broadcast");
  }
  return ir_out(ctx, 0, dtype, rank, dims);
}

void ops_ints_binary(ir_infer *ctx, base_dim_op op) {
  const base_dim *a, *b;
  uint32_t an, bn;
  const ir_type *out = &ctx->out[0].type;
  if (!ctx->arena || out->rank > 1 || out->rank < 0 || !base_is_int(out->dtype)) return;
  if (!ir_in_ints(ctx, 0, &a, &an) || !ir_in_ints(ctx, 1, &b, &bn)) return;
  uint32_t n = an > bn ? an : bn;
  if ((an != n && an != 1) || (bn != n && bn != 1)) return;
  base_dim result[IR_MAX_INTS];
  for (uint32_t i = 0; i < n; i++) {
    result[i] = base_dim_binary(ctx->dims, op, a[an == 1 ? 0 : i], b[bn == 1 ? 0 : i]);
    if (result[i] == BASE_DIM_NONE) return;
  }
  base_dim *to = ir_out_ints(ctx, 0, n);
  for (uint32_t i = 0; to && i < n; i++) to[i] = result[i];
}

void ops_ints_same(ir_infer *ctx, uint32_t in) {
  const base_dim *ints;
  uint32_t count;
  if (!ctx->arena || !ctx->out_count || base_is_float(ctx->out[0].type.dtype) || !ir_in_ints(ctx, in, &ints, &count))
    return;
  base_dim *to = ir_out_ints(ctx, 0, count);
  for (uint32_t i = 0; to && i < count; i++) to[i] = ints[i];
}
