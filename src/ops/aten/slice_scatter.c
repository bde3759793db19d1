/* slice_scatter.c -- aten::slice_scatter: a copy of x with the slice of one axis replaced. What writes through a view
 * (x[:, 2:5] = y) becomes it.
 *
 * y = x, but y[start + k step] = src[k]. PyTorch slice_scatter. */
#include "ops/common/move_priv.h"

enum { DIM };
static const ir_attr attrs[] = {ATTR_INT("dim", 0)};

static td_status infer_slice_scatter(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type, *src = &ir_in(ctx, 1)->type;
  int32_t axis;
  TRY(ops_same_dtype(ctx, 0, 1));
  if (x->rank == IR_UNRANKED || src->rank == IR_UNRANKED) return ir_out_like(ctx, 0, 0, TD_INVALID);
  if (x->rank != src->rank)
    return ir_infer_fail(ctx, "a slice of rank %d into a tensor of rank %d", src->rank, x->rank);
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, DIM), x->rank, &axis));
  for (int32_t i = 0; i < x->rank; i++)
    if (i != axis && ops_dims_differ(x->dims[i], src->dims[i]))
      return ir_infer_fail(ctx, "dimension %d is %lld in the slice and %lld in the tensor", i, (long long)src->dims[i],
                           (long long)x->dims[i]);
  return ir_out_like(ctx, 0, 0, TD_INVALID);
}

/* A bound as in Python: from the end where negative, kept inside. */
static int64_t bound(int64_t at, int64_t size) { return at < 0 ? base_max_i64(at + size, 0) : base_min_i64(at, size); }

static td_status slice_scatter_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *src = base_in(call, 1), *out = base_out(call, 0);
  int64_t dim = base_attr_int(call->attrs, DIM), axis = dim < 0 ? dim + x->rank : dim, at[3] = {0, 0, 1};
  uint32_t count;
  for (uint32_t i = 0; i < 3; i++) {
    if (!base_in(call, 2 + i)) continue;
    TRY(ops_read_ints(call, 2 + i, 1, &at[i], &count));
    if (count != 1) return ops_fail(call, "a bound has %u elements", count);
  }
  if (axis < 0 || axis >= x->rank || src->rank != x->rank || at[2] < 1)
    return ops_fail(call, "axis %lld or step %lld does not fit", (long long)dim, (long long)at[2]);
  int64_t start = bound(at[0], x->dims[axis]), end = bound(at[1], x->dims[axis]);
  int64_t length = end > start ? (end - start - 1) / at[2] + 1 : 0;
  for (int32_t i = 0; i < x->rank; i++)
    if (src->dims[i] != (i == axis ? length : x->dims[i]))
      return ops_fail(call, "dimension %d of the slice is %lld, where %lld are replaced", i, (long long)src->dims[i],
                      (long long)(i == axis ? length : x->dims[i]));
  if (out->data == src->data) return TD_OK; /* made in the place of a slice that is all of x */
  if (out->data != x->data) ops_move(out, 0, x, 0);
  base_tensor part = *out;
  part.dims[axis] = length;
  if (length > 1) part.strides[axis] *= at[2]; /* else the step may be any number */
  if (base_tensor_numel(&part)) ops_move(&part, start * out->strides[axis], src, 0);
  return TD_OK;
}

static bool slice_scatter_cases(ir_case *c, uint32_t number) {
  static const struct {
    td_dtype dtype;
    int64_t dim, start, end, step, length;
  } rows[] = {{TD_F32, 1, 1, 4, 1, 3},         {TD_I64, -1, 0, INT64_MAX, 2, 4}, {TD_F32, 0, -1, INT64_MAX, 1, 1},
              {TD_BOOL, 1, 4, 2, 1, 0},        {TD_F16, 2, -7, -1, 5, 2},        {TD_U4, 1, 0, 5, 1, 5},
              {TD_F64, 0, 0, INT64_MAX, 1, 3}, {TD_F32, 2, 6, 100, 3, 1}};
  if (number >= OPS_COUNT(rows)) return false;
  int64_t dims[] = {3, 5, 7};
  ops_case_arg(c, ARG_INT("dim", rows[number].dim));
  if (!ops_case_in(c, rows[number].dtype, 3, dims, OPS_NORMAL, number)) return false;
  dims[rows[number].dim < 0 ? rows[number].dim + 3 : rows[number].dim] = rows[number].length;
  return ops_case_in(c, rows[number].dtype, 3, dims, OPS_NORMAL, number + 20) &&
         ops_case_ints(c, &rows[number].start, 1) && ops_case_ints(c, &rows[number].end, 1) &&
         ops_case_ints(c, &rows[number].step, 1);
}

OPS_DECLARE(slice_scatter);
const ir_op ops_slice_scatter[] = {
    /* (x, src, start, end, step?): x with x[start:end:step] along dim replaced by src; bounds of one element, as
     * Python's */
    {.id = OPERATOR(aten, slice_scatter),
     .min_in = 4,
     .max_in = 5,
     .out_count = 1,
     .strings = 3,
     .flags = IR_OP_IN_PLACE,
     .attrs = attrs,
     .attr_count = OPS_COUNT(attrs),
     .infer = infer_slice_scatter,
     .reference = slice_scatter_reference},
};
OPS_TABLE(slice_scatter);
OPS_CASES(slice_scatter) = {
    {OP_aten_slice_scatter, slice_scatter_cases},
    {0},
};
