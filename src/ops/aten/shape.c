/* shape.c -- sizes as values, and operators that keep the order of the elements: view, flatten, squeeze, unsqueeze.
 * Sizes that go in and out of them stay expressions.
 *
 *     td::shape, aten::sym_numel  the sizes of x, their product (ONNX Shape, Size 1)
 *     aten::view, td::flatten     x with other sizes of the same product (ONNX Reshape 5, Flatten 1)
 *     aten::squeeze, unsqueeze    axes of size 1 removed, added (ONNX Squeeze, Unsqueeze 1) */
#include "ops/common/move_priv.h"
#include "base/size.h"
#include "kernels/kernels.h"

#include <string.h>

enum { SHAPE_START, SHAPE_END }; /* td::shape */
enum { VIEW_ZERO_COPIES };       /* aten::view */
enum { FLATTEN_AXIS };           /* td::flatten */

static const ir_attr shape_attrs[] = {ATTR_INT("start", 0), ATTR_INT("end", INT64_MAX)};
static const ir_attr view_attrs[] = {ATTR_BOOL("zero_copies", 0)};
static const ir_attr flatten_attrs[] = {ATTR_INT("axis", 1)};

/* ---- shape, numel ---- */

/* Dimensions [from, to) that the attributes ask for; out of range is clamped. */
static void shape_span(const base_attrs *attrs, int32_t rank, int32_t *from, int32_t *to) {
  int64_t start = base_attr_int(attrs, SHAPE_START), end = base_attr_int(attrs, SHAPE_END);
  start = base_max_i64(0, base_min_i64(start < 0 ? start + rank : start, rank));
  end = base_max_i64(start, base_min_i64(end < 0 ? end + rank : end, rank));
  *from = (int32_t)start;
  *to = (int32_t)end;
}

static td_status infer_shape(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type;
  base_dim count = 0;
  int32_t from, to;
  if (x->rank == IR_UNRANKED) {
    count = ir_fresh(ctx);
    return ir_out(ctx, 0, TD_I64, 1, &count);
  }
  shape_span(ctx->attrs, x->rank, &from, &to);
  count = to - from;
  TRY(ir_out(ctx, 0, TD_I64, 1, &count));
  base_dim *ints = ir_out_ints(ctx, 0, (uint32_t)(to - from));
  for (int32_t i = from; ints && i < to; i++) ints[i - from] = x->dims[i];
  return TD_OK;
}

static td_status shape_reference(const base_call *call) {
  int32_t from, to;
  shape_span(call->attrs, base_in(call, 0)->rank, &from, &to);
  for (int32_t i = from; i < to; i++)
    base_store_i64(TD_I64, base_out(call, 0)->data, i - from, base_in(call, 0)->dims[i]);
  return TD_OK;
}

static td_status infer_numel(ir_infer *ctx) {
  TRY(ir_out(ctx, 0, TD_I64, 0, NULL));
  if (ctx->in[0]->type.rank == IR_UNRANKED) return TD_OK;
  base_dim count = ir_numel(ctx, &ctx->in[0]->type);
  base_dim *ints = count == BASE_DIM_NONE ? NULL : ir_out_ints(ctx, 0, 1);
  if (ints) ints[0] = count;
  return TD_OK;
}

static td_status numel_reference(const base_call *call) {
  base_store_i64(TD_I64, base_out(call, 0)->data, 0, base_tensor_numel(base_in(call, 0)));
  return TD_OK;
}

/* ---- view, flatten ---- */

/* The result when the contents of the sizes operand are not known. */
static td_status infer_from_length(ir_infer *ctx, uint32_t i) {
  const ir_type *shape = &ctx->in[i]->type;
  base_dim dims[BASE_MAX_RANK];
  if (shape->rank != 1 || !base_dim_known(shape->dims[0]) || shape->dims[0] > BASE_MAX_RANK || !ctx->dims)
    return ir_out_unranked(ctx, 0, ctx->in[0]->type.dtype);
  for (int64_t k = 0; k < shape->dims[0]; k++) dims[k] = ir_fresh(ctx);
  return ir_out(ctx, 0, ctx->in[0]->type.dtype, (int32_t)shape->dims[0], dims);
}

/* Product of the dims that are not skipped, but for the first `zeros` of size 0. */
static base_dim product(ir_infer *ctx, int32_t rank, const base_dim *dims, const bool *skip, int32_t zeros) {
  base_dim n = 1;
  for (int32_t i = 0; i < rank; i++) {
    if (skip[i] || (dims[i] == 0 && zeros-- > 0)) continue;
    n = base_dim_mul(ctx->dims, n, dims[i]);
  }
  return n;
}

static int32_t count_zeros(int32_t rank, const base_dim *dims, const bool *skip) {
  int32_t n = 0;
  for (int32_t i = 0; i < rank; i++) n += !skip[i] && dims[i] == 0;
  return n;
}

/* Fills in the open size, or checks the element count where there is none. Sizes that are copied, and zeros on both
 * sides, cancel: an empty batch has a shape too. */
static td_status complete(ir_infer *ctx, int32_t rank, base_dim *dims, const bool *copied, int32_t open) {
  const ir_type *x = &ctx->in[0]->type;
  bool known[BASE_MAX_RANK];
  memcpy(known, copied, sizeof known);
  if (open >= 0) known[open] = true;
  int32_t from_zeros = count_zeros(x->rank, x->dims, copied), to_zeros = count_zeros(rank, dims, known);
  int32_t zeros = from_zeros < to_zeros ? from_zeros : to_zeros;
  base_dim all = product(ctx, x->rank, x->dims, copied, zeros), rest = product(ctx, rank, dims, known, zeros);
  if (base_dim_known(all) && base_dim_known(rest)) {
    bool none[BASE_MAX_RANK] = {false}, empty = count_zeros(x->rank, x->dims, none) && count_zeros(rank, dims, none);
    bool fits = open < 0 ? all == rest || empty : rest != 0 && all % rest == 0;
    if (!fits)
      return ir_infer_fail(ctx, "%lld elements do not fill a shape of %lld%s", (long long)all, (long long)rest,
                           open < 0 ? "" : " times a whole number");
    if (open >= 0) dims[open] = all / rest;
    return TD_OK;
  }
  if (open < 0) return TD_OK;
  dims[open] = base_dim_div(ctx->dims, all, rest);
  if (dims[open] == BASE_DIM_NONE) dims[open] = ir_fresh(ctx);
  return TD_OK;
}

static td_status infer_view(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type;
  const base_dim *shape;
  uint32_t count;
  if (!ir_in_ints(ctx, 1, &shape, &count)) return infer_from_length(ctx, 1);
  if (count > BASE_MAX_RANK) return ir_out(ctx, 0, x->dtype, (int32_t)count, NULL);
  bool zero_copies = base_attr_int(ctx->attrs, VIEW_ZERO_COPIES) != 0, copied[BASE_MAX_RANK] = {false};
  base_dim dims[BASE_MAX_RANK];
  int32_t open = -1;
  for (int32_t i = 0; i < (int32_t)count; i++) {
    dims[i] = shape[i];
    if (shape[i] == 0 && zero_copies) {
      if (x->rank != IR_UNRANKED && i >= x->rank)
        return ir_infer_fail(ctx, "size %d of the shape is to be copied, but the input has only %d", i, x->rank);
      dims[i] = x->rank == IR_UNRANKED ? ir_fresh(ctx) : x->dims[i];
      copied[i] = true;
    } else if (shape[i] == -1) {
      if (open >= 0) return ir_infer_fail(ctx, "two sizes of the shape are open");
      open = i;
    }
  }
  if (x->rank != IR_UNRANKED) TRY(complete(ctx, (int32_t)count, dims, copied, open));
  else if (open >= 0) dims[open] = ir_fresh(ctx);
  TRY(ir_out(ctx, 0, x->dtype, (int32_t)count, dims));
  ops_ints_same(ctx, 0);
  return TD_OK;
}

static td_status infer_flatten(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type;
  base_dim dims[2] = {1, 1};
  if (x->rank == IR_UNRANKED) {
    for (int i = 0; i < 2; i++) dims[i] = ir_fresh(ctx);
    return ir_out(ctx, 0, x->dtype, 2, dims);
  }
  int64_t axis = base_attr_int(ctx->attrs, FLATTEN_AXIS);
  if (axis < -x->rank || axis > x->rank)
    return ir_infer_fail(ctx, "axis %lld is outside [%d, %d]", (long long)axis, -x->rank, x->rank);
  if (axis < 0) axis += x->rank;
  for (int32_t i = 0; i < x->rank; i++) dims[i >= axis] = base_dim_mul(ctx->dims, dims[i >= axis], x->dims[i]);
  return ir_out(ctx, 0, x->dtype, 2, dims);
}

static td_status same_count(const base_call *call) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  char a[128], b[128];
  return base_tensor_numel(in) == base_tensor_numel(out)
             ? TD_OK
             : ops_fail(call, "%s cannot be viewed as %s", base_tensor_describe(in, a, sizeof a),
                        base_tensor_describe(out, b, sizeof b));
}

static td_status reorder_nothing_view(const base_call *call) {
  TRY(same_count(call));
  base_tensor *out = base_out(call, 0);
  out->data = base_in(call, 0)->data;
  base_strides(out->rank, out->dims, out->strides);
  return TD_OK;
}

static td_status reorder_nothing(const base_call *call) {
  TRY(same_count(call));
  base_tensor_pack(base_out(call, 0)->data, base_in(call, 0));
  return TD_OK;
}

/* Of operands that are not dense. */
static const kern_row *reorder_nothing_kernel(const ir_kernel_query *query) {
  return kern_select(KERN_RESHAPE, query->out->type.dtype, query->isa);
}

/* ---- squeeze, unsqueeze ---- */

/* Marks `axes` (negative: from the end) in mask[rank]. False when one does not fit or stands twice. */
static bool mark_axes(const int64_t *axes, uint32_t count, int32_t rank, bool *mask) {
  memset(mask, 0, BASE_MAX_RANK * sizeof *mask);
  if (rank > BASE_MAX_RANK) return false;
  for (uint32_t i = 0; i < count; i++) {
    int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank || mask[axis]) return false;
    mask[axis] = true;
  }
  return true;
}

static td_status infer_squeeze(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type;
  const base_dim *axes = NULL;
  uint32_t count = 0;
  bool mask[BASE_MAX_RANK] = {false}, all = !ir_in(ctx, 1);
  if (x->rank == IR_UNRANKED || (!all && !ir_in_ints(ctx, 1, &axes, &count))) return ir_out_unranked(ctx, 0, x->dtype);
  if (!all && !mark_axes(axes, count, x->rank, mask)) return ir_infer_fail(ctx, "the axes do not fit rank %d", x->rank);
  base_dim dims[BASE_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < x->rank; i++) {
    if (all && !base_dim_known(x->dims[i])) return ir_out_unranked(ctx, 0, x->dtype);
    if (mask[i] && base_dim_known(x->dims[i]) && x->dims[i] != 1)
      return ir_infer_fail(ctx, "dimension %d has size %lld, not 1", i, (long long)x->dims[i]);
    if (!mask[i] && !(all && x->dims[i] == 1)) dims[rank++] = x->dims[i];
  }
  TRY(ir_out(ctx, 0, x->dtype, rank, dims));
  ops_ints_same(ctx, 0);
  return TD_OK;
}

static td_status squeeze_show(const base_call *call, base_tensor *shown, int64_t *offset) {
  int64_t axes[BASE_MAX_RANK];
  uint32_t count;
  bool mask[BASE_MAX_RANK], all = !base_in(call, 1);
  (void)offset;
  TRY(ops_read_ints(call, 1, BASE_MAX_RANK, axes, &count));
  if (!mark_axes(axes, count, shown->rank, mask)) return ops_fail(call, "the axes do not fit rank %d", shown->rank);
  int32_t rank = 0;
  for (int32_t i = 0; i < shown->rank; i++) {
    if (mask[i] && shown->dims[i] != 1)
      return ops_fail(call, "dimension %d has size %lld, not 1", i, (long long)shown->dims[i]);
    if (mask[i] || (all && shown->dims[i] == 1)) continue;
    shown->dims[rank] = shown->dims[i];
    shown->strides[rank++] = shown->strides[i];
  }
  shown->rank = rank;
  return TD_OK;
}

static td_status infer_unsqueeze(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type;
  const base_dim *axes;
  uint32_t count;
  bool mask[BASE_MAX_RANK];
  if (x->rank == IR_UNRANKED || !ir_in_ints(ctx, 1, &axes, &count)) return ir_out_unranked(ctx, 0, x->dtype);
  int32_t rank = x->rank + (int32_t)count;
  if (rank > BASE_MAX_RANK) return ir_out(ctx, 0, x->dtype, rank, NULL);
  if (!mark_axes(axes, count, rank, mask)) return ir_infer_fail(ctx, "the axes do not fit rank %d", rank);
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0, from = 0; i < rank; i++) dims[i] = mask[i] ? 1 : x->dims[from++];
  TRY(ir_out(ctx, 0, x->dtype, rank, dims));
  ops_ints_same(ctx, 0);
  return TD_OK;
}

static td_status unsqueeze_show(const base_call *call, base_tensor *shown, int64_t *offset) {
  const base_tensor *x = base_in(call, 0);
  int64_t axes[BASE_MAX_RANK];
  uint32_t count;
  bool mask[BASE_MAX_RANK];
  (void)offset;
  TRY(ops_read_ints(call, 1, BASE_MAX_RANK, axes, &count));
  shown->rank = x->rank + (int32_t)count;
  if (!mark_axes(axes, count, shown->rank, mask)) return ops_fail(call, "the axes do not fit rank %d", shown->rank);
  for (int32_t i = 0, from = 0; i < shown->rank; i++) {
    shown->dims[i] = mask[i] ? 1 : x->dims[from];
    shown->strides[i] = mask[i] ? 0 : x->strides[from];
    from += !mask[i];
  }
  return TD_OK;
}

static td_status squeeze_view(const base_call *call) { return ops_show_view(call, squeeze_show); }
static td_status squeeze_reference(const base_call *call) { return ops_show_reference(call, squeeze_show); }
static td_status unsqueeze_view(const base_call *call) { return ops_show_view(call, unsqueeze_show); }
static td_status unsqueeze_reference(const base_call *call) { return ops_show_reference(call, unsqueeze_show); }

/* ---- cases ---- */

static bool shape_cases(ir_case *c, uint32_t number) {
  static const int64_t spans[][2] = {{0, INT64_MAX}, {1, 2}, {-1, INT64_MAX}, {-9, -1}, {2, 1}};
  if (number >= OPS_COUNT(spans)) return false;
  ops_case_arg(c, ARG_INT("start", spans[number][0]));
  ops_case_arg(c, ARG_INT("end", spans[number][1]));
  return ops_case_in(c, TD_F32, OPS_DIMS(2, 0, 5), OPS_NORMAL, number);
}

static bool numel_cases(ir_case *c, uint32_t number) {
  if (number == 0) return ops_case_in(c, TD_U8, 0, NULL, OPS_NORMAL, 1);
  return number == 1 && ops_case_in(c, TD_F16, OPS_DIMS(3, 5), OPS_NORMAL, 2);
}

static bool view_cases(ir_case *c, uint32_t number) {
  static const int64_t shapes[][3] = {{5, 3, 2}, {0, -1, 1}, {-1, 5, 1}, {1, 30, 1}};
  if (number >= OPS_COUNT(shapes)) return false;
  ops_case_arg(c, ARG_BOOL("zero_copies", 1));
  return ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 5), OPS_NORMAL, number) && ops_case_ints(c, shapes[number], 3);
}

static bool flatten_cases(ir_case *c, uint32_t number) {
  static const int64_t axes[] = {0, 1, 3, -1, -3};
  if (number >= OPS_COUNT(axes)) return false;
  ops_case_arg(c, ARG_INT("axis", axes[number]));
  return ops_case_in(c, TD_F16, OPS_DIMS(2, 3, 5), OPS_NORMAL, number);
}

static bool squeeze_cases(ir_case *c, uint32_t number) {
  static const int64_t axes[][2] = {{0, 2}, {-2, 0}};
  if (number > OPS_COUNT(axes)) return false;
  if (!ops_case_in(c, TD_I16, OPS_DIMS(1, 3, 1, 5), OPS_NORMAL, number)) return false;
  return number == OPS_COUNT(axes) || ops_case_ints(c, axes[number], 2);
}

static bool unsqueeze_cases(ir_case *c, uint32_t number) {
  static const int64_t axes[][2] = {{0, 3}, {-1, 1}, {2, -4}};
  if (number >= OPS_COUNT(axes)) return false;
  return ops_case_in(c, TD_F32, OPS_DIMS(3, 0), OPS_NORMAL, number) && ops_case_ints(c, axes[number], 2);
}

static const ir_alias shape_aliases[] = {{"onnx", "Shape", 1, NULL}};
static const ir_alias numel_aliases[] = {{"onnx", "Size", 1, NULL}};
static const ir_alias flatten_aliases[] = {{"onnx", "Flatten", 1, NULL}};
static const ir_alias unsqueeze_aliases[] = {{"com.microsoft", "ExpandDims", 1, NULL}};

OPS_DECLARE(shape);
const ir_op ops_shape[] = {
    /* (x) -> i64 vector: sizes of the dimensions [start, end) */
    {.id = OPERATOR(td, shape),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .attrs = shape_attrs,
     .attr_count = OPS_COUNT(shape_attrs),
     .infer = infer_shape,
     .reference = shape_reference,
     .aliases = shape_aliases,
     .alias_count = OPS_COUNT(shape_aliases)},
    /* (x) -> i64: number of elements */
    {.id = OPERATOR(aten, sym_numel),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .infer = infer_numel,
     .reference = numel_reference,
     .aliases = numel_aliases,
     .alias_count = OPS_COUNT(numel_aliases)},
    /* (x, sizes): one size may be -1, the one that fits; zero_copies: a size of 0 is that of x */
    {.id = OPERATOR(aten, view),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_VIEW_DENSE,
     .attrs = view_attrs,
     .attr_count = OPS_COUNT(view_attrs),
     .by_sample = 1,
     .infer = infer_view,
     .reference = reorder_nothing,
     .kernel = reorder_nothing_kernel,
     .view = reorder_nothing_view},
    /* (x): a matrix of the dimensions before axis by those from it on */
    {.id = OPERATOR(td, flatten),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_VIEW_DENSE,
     .attrs = flatten_attrs,
     .attr_count = OPS_COUNT(flatten_attrs),
     .by_sample = 1,
     .infer = infer_flatten,
     .reference = reorder_nothing,
     .kernel = reorder_nothing_kernel,
     .view = reorder_nothing_view,
     .aliases = flatten_aliases,
     .alias_count = OPS_COUNT(flatten_aliases)},
    /* (x, axes?): without axes every dimension of size 1 goes */
    {.id = OPERATOR(aten, squeeze),
     .min_in = 1,
     .max_in = 2,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_VIEW,
     .by_sample = 1,
     .infer = infer_squeeze,
     .reference = squeeze_reference,
     .view = squeeze_view},
    /* (x, axes): axes of the result */
    {.id = OPERATOR(aten, unsqueeze),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_VIEW,
     .by_sample = 1,
     .infer = infer_unsqueeze,
     .reference = unsqueeze_reference,
     .view = unsqueeze_view,
     .aliases = unsqueeze_aliases,
     .alias_count = OPS_COUNT(unsqueeze_aliases)},
};
OPS_TABLE(shape);
OPS_CASES(shape) = {
    {OP_td_shape, shape_cases},
    {OP_aten_sym_numel, numel_cases},
    {OP_aten_view, view_cases},
    {OP_td_flatten, flatten_cases},
    {OP_aten_squeeze, squeeze_cases},
    {OP_aten_unsqueeze, unsqueeze_cases},
    {0},
};
