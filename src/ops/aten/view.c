/* view.c -- permute, expand, flip, unflatten: a choice of elements by strides alone. Each says once what it shows (an
 * ops_show); its alias and its copy both come from that.
 *
 *     aten::permute    y[i in the order of dims] = x[i] (ONNX Transpose 1)
 *     aten::expand     y[i] = x[i, or 0 where x has size 1] (ONNX Expand 8)
 *     aten::flip       y[k] = x[size - 1 - k] (PyTorch flip)
 *     aten::unflatten  one axis as several, whose product it is (PyTorch unflatten) */
#include "ops/common/move_priv.h"

enum { DIMS }; /* permute, flip */

enum { UNFLATTEN_DIM, UNFLATTEN_SIZES };

static const ir_attr dims_attrs[] = {ATTR_INTS("dims")};
static const ir_attr unflatten_attrs[] = {{.name = "dim", .kind = BASE_ATTR_INT, .required = true},
                                          {.name = "sizes", .kind = BASE_ATTR_INTS, .required = true}};

/* ---- permute ---- */

/* The axis that becomes axis i of the result; without the attribute they are reversed. False: no permutation. */
static bool permutation(const base_attrs *attrs, int32_t rank, int32_t *order) {
  uint32_t count;
  const int64_t *dims = base_attr_ints(attrs, DIMS, &count);
  bool seen[BASE_MAX_RANK] = {false};
  if (count && count != (uint32_t)rank) return false;
  for (int32_t i = 0; i < rank; i++) {
    int64_t axis = !count ? rank - 1 - i : dims[i] < 0 ? dims[i] + rank : dims[i];
    if (axis < 0 || axis >= rank || seen[axis]) return false;
    seen[axis] = true;
    order[i] = (int32_t)axis;
  }
  return true;
}

static td_status infer_permute(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type;
  uint32_t count;
  int32_t order[BASE_MAX_RANK];
  base_dim dims[BASE_MAX_RANK];
  base_attr_ints(ctx->attrs, DIMS, &count);
  if (x->rank == IR_UNRANKED) {
    if (!count || count > BASE_MAX_RANK) return ir_out_unranked(ctx, 0, x->dtype);
    for (uint32_t i = 0; i < count; i++) dims[i] = ir_fresh(ctx);
    return ir_out(ctx, 0, x->dtype, (int32_t)count, dims);
  }
  if (!permutation(ctx->attrs, x->rank, order))
    return ir_infer_fail(ctx, "the axes are no permutation of %d axes", x->rank);
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[order[i]];
  TRY(ir_out(ctx, 0, x->dtype, x->rank, dims));
  int64_t dense[BASE_MAX_RANK], strides[BASE_MAX_RANK];
  if (!ops_type_strides(x, dense)) return TD_OK;
  for (int32_t i = 0; i < x->rank; i++) strides[i] = dense[order[i]];
  ops_ints_shown(ctx, strides, 0);
  return TD_OK;
}

static bool permute_keeps_samples(const ir_samples_query *query) {
  int32_t order[BASE_MAX_RANK];
  return permutation(query->attrs, query->rank, order) && order[0] == 0;
}

static td_status permute_show(const base_call *call, base_tensor *shown, int64_t *offset) {
  const base_tensor *x = base_in(call, 0);
  int32_t order[BASE_MAX_RANK];
  (void)offset;
  if (!permutation(call->attrs, x->rank, order))
    return ops_fail(call, "the axes are no permutation of %d axes", x->rank);
  for (int32_t i = 0; i < x->rank; i++) {
    shown->dims[i] = x->dims[order[i]];
    shown->strides[i] = x->strides[order[i]];
  }
  return TD_OK;
}

/* ---- expand ---- */

static td_status infer_expand(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type, *shape = &ctx->in[1]->type;
  const base_dim *ints;
  uint32_t count;
  base_dim dims[BASE_MAX_RANK];
  bool known = ir_in_ints(ctx, 1, &ints, &count);
  if (!known && shape->rank == 1 && base_dim_known(shape->dims[0])) count = (uint32_t)shape->dims[0];
  else if (!known) return ir_out_unranked(ctx, 0, x->dtype);
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (count > BASE_MAX_RANK) return ir_out(ctx, 0, x->dtype, (int32_t)count, NULL);
  for (int32_t i = 0; i < (int32_t)count; i++) {
    int32_t own = i - ((int32_t)count - x->rank);
    bool fixed = own >= 0 && base_dim_known(x->dims[own]) && x->dims[own] != 1;
    dims[i] = known ? (ints[i] == -1 ? 1 : ints[i]) : fixed ? x->dims[own] : ir_fresh(ctx);
  }
  int32_t rank;
  if (!ops_broadcast_dims(ctx->dims, x->rank, x->dims, (int32_t)count, dims, &rank, dims))
    return ir_infer_fail(ctx, "the input does not broadcast to the shape");
  TRY(ir_out(ctx, 0, x->dtype, rank, dims));
  int64_t dense[BASE_MAX_RANK], strides[BASE_MAX_RANK];
  if (!ops_type_strides(x, dense)) return TD_OK;
  for (int32_t i = 0; i < rank; i++) {
    int32_t own = i - (rank - x->rank);
    strides[i] = own < 0 || x->dims[own] == 1 ? 0 : dense[own];
  }
  ops_ints_shown(ctx, strides, 0);
  return TD_OK;
}

static td_status expand_show(const base_call *call, base_tensor *shown, int64_t *offset) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  int64_t shape[BASE_MAX_RANK];
  uint32_t count;
  (void)offset;
  TRY(ops_read_ints(call, 1, BASE_MAX_RANK, shape, &count));
  bool fits = x->rank <= out->rank && (int32_t)count <= out->rank;
  for (int32_t i = 1; fits && i <= out->rank; i++) {
    int64_t size = out->dims[out->rank - i], own = i <= x->rank ? x->dims[x->rank - i] : 1;
    int64_t asked = i <= (int32_t)count ? shape[(int32_t)count - i] : 1;
    fits = (own == 1 || own == size) && (asked == size || asked == 1 || asked == -1);
  }
  char a[128], b[128];
  if (!fits)
    return ops_fail(call, "%s does not expand to %s", base_tensor_describe(x, a, sizeof a),
                    base_tensor_describe(out, b, sizeof b));
  shown->rank = out->rank;
  for (int32_t i = 0; i < out->rank; i++) shown->dims[i] = out->dims[i];
  ops_broadcast_strides(x, out->rank, out->dims, shown->strides);
  return TD_OK;
}

/* ---- flip ---- */

static td_status flip_show(const base_call *call, base_tensor *shown, int64_t *offset) {
  uint32_t count;
  const int64_t *dims = base_attr_ints(call->attrs, DIMS, &count);
  for (uint32_t i = 0; i < count; i++) {
    int64_t axis = dims[i] < 0 ? dims[i] + shown->rank : dims[i];
    if (axis < 0 || axis >= shown->rank)
      return ops_fail(call, "axis %lld does not fit rank %d", (long long)dims[i], shown->rank);
    if (shown->dims[axis] == 0) continue;
    *offset += (shown->dims[axis] - 1) * shown->strides[axis];
    shown->strides[axis] = -shown->strides[axis];
  }
  return TD_OK;
}

/* ---- unflatten ---- */

static td_status infer_unflatten(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type;
  uint32_t count;
  const int64_t *sizes = base_attr_ints(ctx->attrs, UNFLATTEN_SIZES, &count);
  base_dim dims[BASE_MAX_RANK], product = 1;
  int32_t axis;
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, UNFLATTEN_DIM), x->rank, &axis));
  if (count < 1 || count > (uint32_t)(BASE_MAX_RANK + 1 - x->rank))
    return ir_infer_fail(ctx, "%u sizes; at least one, and at most %d axes in all", count, BASE_MAX_RANK);
  for (uint32_t i = 0; i < count; i++) {
    if (sizes[i] < 0) return ir_infer_fail(ctx, "size %lld is negative", (long long)sizes[i]);
    product = base_dim_mul(ctx->dims, product, base_dim_number(sizes[i]));
    dims[axis + (int32_t)i] = sizes[i];
  }
  if (base_dim_known(x->dims[axis]) && x->dims[axis] != product)
    return ir_infer_fail(ctx, "axis %d of %lld elements does not split into sizes whose product is %lld", axis,
                         (long long)x->dims[axis], (long long)product);
  for (int32_t i = 0; i < x->rank; i++)
    if (i != axis) dims[i < axis ? i : i + (int32_t)count - 1] = x->dims[i];
  TRY(ir_out(ctx, 0, x->dtype, x->rank - 1 + (int32_t)count, dims));
  ops_ints_same(ctx, 0);
  return TD_OK;
}

static td_status unflatten_show(const base_call *call, base_tensor *shown, int64_t *offset) {
  const base_tensor *x = base_in(call, 0);
  uint32_t count;
  const int64_t *sizes = base_attr_ints(call->attrs, UNFLATTEN_SIZES, &count);
  int64_t dim = base_attr_int(call->attrs, UNFLATTEN_DIM), axis = dim < 0 ? dim + x->rank : dim, product = 1;
  (void)offset;
  for (uint32_t i = 0; i < count; i++) product *= sizes[i];
  if (product != x->dims[axis]) return ops_fail(call, "%lld elements do not split", (long long)x->dims[axis]);
  shown->rank = x->rank - 1 + (int32_t)count;
  for (int32_t i = shown->rank - 1, own = x->rank - 1; i >= 0; i--) {
    bool split = i >= axis && i < axis + (int32_t)count, last = i == axis + (int32_t)count - 1;
    shown->dims[i] = split ? sizes[i - axis] : x->dims[own];
    shown->strides[i] = split && !last ? shown->strides[i + 1] * shown->dims[i + 1] : x->strides[own];
    if (!split || i == axis) own--;
  }
  return TD_OK;
}

static td_status unflatten_view(const base_call *call) { return ops_show_view(call, unflatten_show); }
static td_status unflatten_reference(const base_call *call) { return ops_show_reference(call, unflatten_show); }
static td_status permute_view(const base_call *call) { return ops_show_view(call, permute_show); }
static td_status permute_reference(const base_call *call) { return ops_show_reference(call, permute_show); }
static td_status expand_view(const base_call *call) { return ops_show_view(call, expand_show); }
static td_status expand_reference(const base_call *call) { return ops_show_reference(call, expand_show); }
static td_status flip_view(const base_call *call) { return ops_show_view(call, flip_show); }
static td_status flip_reference(const base_call *call) { return ops_show_reference(call, flip_show); }

/* ---- cases ---- */

static bool permute_cases(ir_case *c, uint32_t number) {
  static const int64_t orders[][3] = {{0, 1, 2}, {2, 0, 1}, {1, 0, 2}, {0, -1, 1}};
  static const td_dtype dtypes[] = {TD_F32, TD_U8, TD_I4, TD_F64, TD_BF16};
  if (number > OPS_COUNT(orders) + 1) return false;
  if (number > OPS_COUNT(orders)) return ops_case_in(c, TD_F32, OPS_DIMS(3, 3), OPS_NORMAL, number); /* the same type */
  if (number < OPS_COUNT(orders)) ops_case_arg(c, ARG_INTS("dims", orders[number], 3));
  return ops_case_in(c, dtypes[number], OPS_DIMS(2, 3, 5), OPS_NORMAL, number);
}

static bool expand_cases(ir_case *c, uint32_t number) {
  static const int64_t shapes[][4] = {{2, 3, 4, 5}, {2, 1, -1, 1}, {0, 1, 1, 7}, {1, 1, 1, 1}};
  if (number >= OPS_COUNT(shapes)) return false;
  return ops_case_in(c, number == 1 ? TD_U4 : TD_F32, OPS_DIMS(3, 1, 1 + 4 * (number < 1)), OPS_NORMAL, number) &&
         ops_case_ints(c, shapes[number], 4);
}

static bool flip_cases(ir_case *c, uint32_t number) {
  static const int64_t axes[][2] = {{0, 1}, {-1, 0}, {1, -3}};
  if (number >= OPS_COUNT(axes)) return false;
  ops_case_arg(c, ARG_INTS("dims", axes[number], 2));
  return ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 5), OPS_NORMAL, number);
}

static bool unflatten_cases(ir_case *c, uint32_t number) {
  static const struct {
    int64_t dim, sizes[3];
    uint32_t count;
  } rows[] = {{2, {2, 6}, 2}, {-1, {3, 2, 2}, 3}, {1, {5}, 1}, {0, {1, 2, 1}, 3}, {-2, {1, 5}, 2}};
  if (number >= OPS_COUNT(rows)) return false;
  ops_case_arg(c, ARG_INT("dim", rows[number].dim));
  ops_case_arg(c, ARG_INTS("sizes", rows[number].sizes, rows[number].count));
  return ops_case_in(c, number ? TD_F32 : TD_U8, OPS_DIMS(2, 5, 12), OPS_NORMAL, number);
}

static const ir_alias permute_aliases[] = {{"onnx", "Transpose", 1, "perm=dims"}};
static const ir_alias expand_aliases[] = {{"onnx", "Expand", 8, NULL}};

OPS_DECLARE(view);
const ir_op ops_view[] = {
    /* (x): axis i of the result is axis dims[i] of x; reversed without dims */
    {.id = OPERATOR(aten, permute),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_VIEW,
     .attrs = dims_attrs,
     .attr_count = OPS_COUNT(dims_attrs),
     .by_sample = 1,
     .keeps_samples = permute_keeps_samples,
     .infer = infer_permute,
     .reference = permute_reference,
     .view = permute_view,
     .aliases = permute_aliases,
     .alias_count = OPS_COUNT(permute_aliases)},
    /* (x, sizes): x broadcast with a tensor of those sizes; -1 keeps that of x */
    {.id = OPERATOR(aten, expand),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_VIEW,
     .infer = infer_expand,
     .reference = expand_reference,
     .view = expand_view,
     .aliases = expand_aliases,
     .alias_count = OPS_COUNT(expand_aliases)},
    /* (x): reversed along dims */
    {.id = OPERATOR(aten, flip),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_VIEW,
     .attrs = dims_attrs,
     .attr_count = OPS_COUNT(dims_attrs),
     .infer = ops_infer_same,
     .reference = flip_reference,
     .view = flip_view},
    /* (x): axis dim as several, row-major, whose sizes multiply to its own; unlike a view of any strides */
    {.id = OPERATOR(aten, unflatten),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_VIEW,
     .attrs = unflatten_attrs,
     .attr_count = OPS_COUNT(unflatten_attrs),
     .by_sample = 1,
     .infer = infer_unflatten,
     .reference = unflatten_reference,
     .view = unflatten_view},
};
OPS_TABLE(view);
OPS_CASES(view) = {
    {OP_aten_permute, permute_cases},
    {OP_aten_expand, expand_cases},
    {OP_aten_flip, flip_cases},
    {OP_aten_unflatten, unflatten_cases},
    {0},
};
