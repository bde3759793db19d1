/* join.c -- several tensors, or copies of one, side by side.
 *
 *     aten::cat     y = the operands, one after the other along dim (ONNX Concat 4)
 *     aten::repeat  y[i] = x[i mod dims of x] (ONNX Tile 6) */
#include "kernels/kernels.h"
#include "ops/common/move_priv.h"
#include "base/size.h"

static const ir_attr cat_attrs[] = {KERN_CAT_LIST(OPS_ATTR_ROW)};

/* ---- cat ---- */

/* Contents of vectors of sizes, one after the other. */
static void cat_contents(ir_infer *ctx) {
  if (!ctx->arena || !ctx->out_count || ctx->out[0].type.rank != 1 || !base_dim_known(ctx->out[0].type.dims[0])) return;
  if (ctx->out[0].type.dims[0] > IR_MAX_INTS) return;
  const base_dim *from;
  uint32_t n;
  for (uint32_t i = 0; i < ctx->in_count; i++)
    if (!ir_in_ints(ctx, i, &from, &n)) return;
  base_dim *to = ir_out_ints(ctx, 0, (uint32_t)ctx->out[0].type.dims[0]);
  for (uint32_t i = 0; to && i < ctx->in_count; i++) {
    if (!ir_in_ints(ctx, i, &from, &n)) return;
    for (uint32_t k = 0; k < n; k++) *to++ = from[k];
  }
}

static td_status infer_cat(ir_infer *ctx) {
  for (uint32_t i = 0; i < ctx->in_count; i++)
    if (!ir_in(ctx, i)) return ir_infer_fail(ctx, "operand %u is absent", i);
  ir_type type = ctx->in[0]->type;
  for (uint32_t i = 1; i < ctx->in_count; i++) TRY(ops_same_dtype(ctx, 0, i));
  if (ops_any_unranked(ctx)) return ir_out_unranked(ctx, 0, type.dtype);
  int32_t axis;
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, KERN_CAT_DIM), type.rank, &axis));
  for (uint32_t i = 1; i < ctx->in_count; i++) {
    const ir_type *next = &ctx->in[i]->type;
    if (next->rank != type.rank)
      return ir_infer_fail(ctx, "operand %u has rank %d, operand 0 has %d", i, next->rank, type.rank);
    for (int32_t d = 0; d < type.rank; d++) {
      if (d == axis) continue;
      bool known = base_dim_known(next->dims[d]), both = known && base_dim_known(type.dims[d]);
      if (both && next->dims[d] != type.dims[d])
        return ir_infer_fail(ctx, "dimension %d of operand %u is %lld, of operand 0 %lld", d, i,
                             (long long)next->dims[d], (long long)type.dims[d]);
      if (known) type.dims[d] = next->dims[d];
    }
    type.dims[axis] = base_dim_add(ctx->dims, type.dims[axis], next->dims[axis]);
  }
  TRY(ir_out(ctx, 0, type.dtype, type.rank, type.dims));
  cat_contents(ctx);
  return TD_OK;
}

static td_status cat_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  int64_t dim = base_attr_int(call->attrs, KERN_CAT_DIM), axis = dim < 0 ? dim + out->rank : dim, start = 0;
  for (uint32_t i = 0; i < call->in_count; i++) {
    const base_tensor *in = base_in(call, i);
    bool fits = in && in->rank == out->rank && in->dtype == out->dtype && in->dims[axis] <= out->dims[axis] - start;
    for (int32_t d = 0; fits && d < out->rank; d++) fits = d == axis || in->dims[d] == out->dims[d];
    char a[128] = "absent", b[128];
    if (!fits)
      return ops_fail(call, "operand %u is %s: it does not fit into %s", i,
                      in ? base_tensor_describe(in, a, sizeof a) : a, base_tensor_describe(out, b, sizeof b));
    ops_move_into(out, (int32_t)axis, start, in);
    start += in->dims[axis];
  }
  return start == out->dims[axis] ? TD_OK : ops_fail(call, "the operands do not fill the result");
}

static const kern_row *cat_kernel(const ir_kernel_query *query) {
  return kern_select(KERN_CAT, query->out->type.dtype, query->isa);
}

/* ---- repeat ---- */

static td_status infer_repeat(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type, *repeats = &ctx->in[1]->type;
  const base_dim *ints, *from;
  uint32_t count, n;
  base_dim dims[BASE_MAX_RANK];
  bool known = ir_in_ints(ctx, 1, &ints, &count);
  if (!known && repeats->rank == 1 && base_dim_known(repeats->dims[0])) count = (uint32_t)repeats->dims[0];
  else if (!known) return ir_out_unranked(ctx, 0, x->dtype);
  if (count > BASE_MAX_RANK) return ir_out(ctx, 0, x->dtype, (int32_t)count, NULL);
  int32_t rank = (int32_t)count;
  if (x->rank > rank) return ir_infer_fail(ctx, "%d repeats for rank %d", rank, x->rank);
  for (int32_t i = 0; i < rank; i++) {
    int32_t own = i - (rank - x->rank);
    bool open = !known || x->rank == IR_UNRANKED;
    dims[i] = open ? ir_fresh(ctx) : base_dim_mul(ctx->dims, own < 0 ? 1 : x->dims[own], ints[i]);
  }
  TRY(ir_out(ctx, 0, x->dtype, rank, dims));
  if (!ctx->arena || !ctx->out_count || rank != 1 || !base_dim_known(dims[0]) || dims[0] > IR_MAX_INTS) return TD_OK;
  if (!ir_in_ints(ctx, 0, &from, &n)) return TD_OK;
  base_dim *to = ir_out_ints(ctx, 0, (uint32_t)dims[0]);
  for (int64_t i = 0; to && i < dims[0]; i++) to[i] = from[i % n];
  return TD_OK;
}

/* The result seen with each dimension as (repeat, size) is the input with strides of 0 for the repeats: one move. */
static td_status repeat_reference(const base_call *call) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  int64_t repeats[BASE_MAX_RANK];
  uint32_t count;
  TRY(ops_read_ints(call, 1, BASE_MAX_RANK, repeats, &count));
  base_tensor from = *in, to = *out;
  int64_t lead[BASE_MAX_RANK], lead_strides[BASE_MAX_RANK], none[BASE_MAX_RANK] = {0};
  if ((int32_t)count != out->rank || in->rank > out->rank)
    return ops_fail(call, "%u repeats for rank %d", count, in->rank);
  for (int32_t i = 0; i < out->rank; i++) {
    int32_t own = i - (out->rank - in->rank);
    int64_t size = own < 0 ? 1 : in->dims[own], expected;
    if (repeats[i] < 0 || !base_mul_i64(repeats[i], size, &expected) || expected != out->dims[i])
      return ops_fail(call, "%lld repeats of %lld where %lld was expected", (long long)repeats[i], (long long)size,
                      (long long)out->dims[i]);
    lead[i] = repeats[i];
    lead_strides[i] = size * out->strides[i];
    to.dims[i] = size;
    from.strides[i] = own < 0 ? 0 : in->strides[own];
  }
  from.rank = to.rank = out->rank;
  base_walk w;
  base_walk_start(&w, out->rank, lead, 2, (const int64_t *const[]){lead_strides, none});
  if (!w.count || base_tensor_numel(in) == 0) return TD_OK;
  do ops_move(&to, w.offset[0], &from, 0);
  while (base_walk_next(&w));
  return TD_OK;
}

/* ---- cases ---- */

static bool cat_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_I4, TD_U2, TD_F64, TD_U8, TD_F16};
  static const int64_t large[] = {7, 19, 33}; /* rows and parts about the width of a vector, several tasks */
  if (number >= OPS_COUNT(dtypes) + 3) return false;
  if (number >= OPS_COUNT(dtypes)) {
    int64_t axis = (int64_t)(number - OPS_COUNT(dtypes)), dims[3];
    ops_case_arg(c, ARG_INT("dim", axis));
    for (int64_t i = 0; i < 5; i++) {
      for (int k = 0; k < 3; k++) dims[k] = large[k] * (k == axis ? 1 + 20 * (i % 3) : 1);
      if (!ops_case_in(c, TD_F32, 3, dims, OPS_NORMAL, (uint64_t)i)) return false;
    }
    return true;
  }
  td_dtype d = dtypes[number];
  ops_case_arg(c, ARG_INT("dim", (int64_t)number % 2 ? 1 : -1));
  return ops_case_in(c, d, OPS_DIMS(3, 2), OPS_NORMAL, 1) && ops_case_in(c, d, OPS_DIMS(3, 0), OPS_NORMAL, 2) &&
         ops_case_in(c, d, OPS_DIMS(3, 5), OPS_NORMAL, 3);
}

static bool repeat_cases(ir_case *c, uint32_t number) {
  static const int64_t repeats[][2] = {{1, 1}, {2, 3}, {0, 2}, {5, 1}};
  static const td_dtype dtypes[] = {TD_F32, TD_I4, TD_F64, TD_U8};
  if (number >= OPS_COUNT(repeats)) return false;
  return (number % 2 ? ops_case_in(c, dtypes[number], OPS_DIMS(3), OPS_NORMAL, 1)
                     : ops_case_in(c, dtypes[number], OPS_DIMS(2, 3), OPS_NORMAL, 2)) &&
         ops_case_ints(c, repeats[number], 2);
}

static bool cat_keeps_samples(const ir_samples_query *query) {
  return !ops_is_first_dim(base_attr_int(query->attrs, KERN_CAT_DIM), query->rank);
}

OPS_DECLARE(join);
const ir_op ops_join[] = {
    /* (x...): along dim */
    {.id = OPERATOR(aten, cat),
     .flags = IR_OP_JOIN,
     .min_in = 1,
     .max_in = IR_VARIADIC,
     .out_count = 1,
     .strings = 255,
     .attrs = cat_attrs,
     .attr_count = OPS_COUNT(cat_attrs),
     .by_sample = 255,
     .keeps_samples = cat_keeps_samples,
     .infer = infer_cat,
     .reference = cat_reference,
     .kernel = cat_kernel},
    /* (x, repeats): copies per dimension; more repeats than dimensions add dimensions in front */
    {.id = OPERATOR(aten, repeat),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .strings = 1,
     .infer = infer_repeat,
     .reference = repeat_reference},
};
OPS_TABLE(join);
OPS_CASES(join) = {
    {OP_aten_cat, cat_cases},
    {OP_aten_repeat, repeat_cases},
    {0},
};
