/* slice.c -- parts of an axis: slices with run-time bounds, and nearly equal pieces. Bounds are as in Python: negative
 * ones count from the end, those outside are clamped. With open sizes a bound that is an expression is taken to lie in
 * the axis; the reference checks that what comes out has the sizes that were promised.
 *
 *     aten::slice  y[k] = x[start + k step] (ONNX Slice 10)
 *     td::chunk    the index-th of `parts` pieces of x along dim (ONNX Split 18) */
#include "ops/common/move_priv.h"

enum { CHUNK_DIM, CHUNK_PARTS, CHUNK_INDEX, CHUNK_EVEN };
enum { MAX_BOUNDS = BASE_MAX_RANK }; /* one per axis */

static const ir_attr chunk_attrs[] = {{.name = "dim", .kind = BASE_ATTR_INT, .required = true},
                                      {.name = "parts", .kind = BASE_ATTR_INT, .required = true},
                                      {.name = "index", .kind = BASE_ATTR_INT, .required = true},
                                      ATTR_BOOL("even", 0)};

/* First element and count of the slice of an axis of `size`; step is not 0. */
static void slice_span(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first, int64_t *count) {
  int64_t least = step < 0 ? -1 : 0, most = step < 0 ? size - 1 : size;
  start = start < 0 ? base_max_i64(start + size, least) : base_min_i64(start, most);
  end = end < 0 ? base_max_i64(end + size, least) : base_min_i64(end, most);
  int64_t length = step < 0 ? start - end : end - start;
  uint64_t stride = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
  *count = length <= 0 ? 0 : (int64_t)(((uint64_t)length - 1) / stride) + 1;
  *first = *count ? start : 0;
}

/* A bound that is an expression, from the front. One that is a size, or a size less a number, is taken to lie in the
 * axis; -x is x from the end, or the front when x is 0; of the rest only running can tell the sign, and the result says
 * it with minima and maxima. */
static base_dim expression_bound(base_dims *dims, base_dim size, base_dim bound) {
  base_dim minus = base_dim_sub(dims, 0, bound);
  if (base_dim_not_negative(dims, base_dim_add(dims, bound, INT32_MAX)))
    return base_dim_binary(dims, BASE_DIM_MIN, bound, size);
  bool negative = base_dim_not_negative(dims, minus);
  base_dim below =
      base_dim_binary(dims, BASE_DIM_MIN, negative ? minus : base_dim_binary(dims, BASE_DIM_MAX, minus, 0), 1);
  base_dim from_end = base_dim_binary(dims, BASE_DIM_MAX, base_dim_add(dims, size, bound), 0);
  if (negative) return base_dim_mul(dims, from_end, below);
  base_dim at = base_dim_add(dims, bound, base_dim_mul(dims, size, below));
  return base_dim_binary(dims, BASE_DIM_MIN, base_dim_binary(dims, BASE_DIM_MAX, at, 0), size);
}

/* A bound where it or the size is open, from the front. */
static base_dim open_bound(base_dims *dims, base_dim size, base_dim bound) {
  if (!base_dim_known(bound)) return expression_bound(dims, size, bound);
  if (bound < 0) return base_dim_binary(dims, BASE_DIM_MAX, base_dim_add(dims, size, bound), 0);
  bool beyond = bound >= INT32_MAX; /* what exporters write for "to the end" */
  return beyond ? size : base_dim_binary(dims, BASE_DIM_MIN, bound, size);
}

/* a - b, not below 0. */
static base_dim distance(base_dims *dims, base_dim a, base_dim b) {
  return b == 0 ? a : base_dim_binary(dims, BASE_DIM_MAX, base_dim_sub(dims, a, b), 0);
}

static base_dim slice_size(ir_infer *ctx, base_dim size, base_dim start, base_dim end, int64_t step) {
  base_dims *dims = ctx->dims;
  if (base_dim_known(size) && base_dim_known(start) && base_dim_known(end)) {
    int64_t first, count;
    slice_span(size, start, end, step, &first, &count);
    return count;
  }
  if (step < 0) {
    bool whole =
        base_dim_known(start) && base_dim_known(end) && (start == -1 || start >= INT32_MAX) && end <= -INT32_MAX;
    return whole ? base_dim_binary(dims, BASE_DIM_CEILDIV, size, base_dim_number(-step)) : ir_fresh(ctx);
  }
  bool at_end = base_dim_known(end) && end >= INT32_MAX;
  if (at_end && base_dim_known(start) && start < 0) { /* the last -start */
    base_dim length = base_dim_binary(dims, BASE_DIM_MIN, base_dim_number(-start), size);
    return base_dim_binary(dims, BASE_DIM_CEILDIV, length, step);
  }
  base_dim length = distance(dims, open_bound(dims, size, end), open_bound(dims, size, start));
  return base_dim_binary(dims, BASE_DIM_CEILDIV, length, step);
}

typedef struct slice_ints {
  const base_dim *starts, *ends, *axes, *steps; /* axes, steps: NULL when absent */
  uint32_t count;
} slice_ints;

/* False: not known. */
static bool read_slice(ir_infer *ctx, slice_ints *s) {
  uint32_t ends, axes, steps;
  *s = (slice_ints){0};
  return ir_in_ints(ctx, 1, &s->starts, &s->count) && ir_in_ints(ctx, 2, &s->ends, &ends) && ends == s->count &&
         (!ir_in(ctx, 3) || (ir_in_ints(ctx, 3, &s->axes, &axes) && axes == s->count)) &&
         (!ir_in(ctx, 4) || (ir_in_ints(ctx, 4, &s->steps, &steps) && steps == s->count));
}

/* What can be said without the bounds: other axes keep their size. */
static td_status infer_open_slice(ir_infer *ctx) {
  ir_type type = ctx->in[0]->type;
  const ir_type *starts = &ctx->in[1]->type;
  const base_dim *axes = NULL;
  uint32_t count = 0;
  bool all = ir_in(ctx, 3) && !ir_in_ints(ctx, 3, &axes, &count);
  if (!ir_in(ctx, 3)) {
    all = starts->rank != 1 || !base_dim_known(starts->dims[0]);
    count = all ? 0 : (uint32_t)starts->dims[0];
  }
  for (int32_t i = 0; all && i < type.rank; i++) type.dims[i] = ir_fresh(ctx);
  for (uint32_t k = 0; k < count; k++) {
    int32_t axis;
    TRY(ir_axis(ctx, axes ? axes[k] : k, type.rank, &axis));
    type.dims[axis] = ir_fresh(ctx);
  }
  return ir_out(ctx, 0, type.dtype, type.rank, type.dims);
}

/* Contents of a slice, where everything about it is a number. */
static void slice_contents(ir_infer *ctx, const slice_ints *s) {
  const ir_type *x = &ctx->in[0]->type;
  int64_t strides[BASE_MAX_RANK], offset = 0;
  if (!ctx->arena || !ops_type_strides(x, strides)) return;
  for (uint32_t k = 0; k < s->count; k++) {
    if (!base_dim_known(s->starts[k]) || !base_dim_known(s->ends[k])) return;
    int64_t axis = !s->axes ? k : s->axes[k] < 0 ? s->axes[k] + x->rank : s->axes[k], step = s->steps ? s->steps[k] : 1;
    int64_t first, count;
    slice_span(x->dims[axis], s->starts[k], s->ends[k], step, &first, &count);
    if (!base_mul_i64(first, strides[axis], &first) || !base_add_i64(offset, first, &offset)) return;
    if (count <= 1) strides[axis] = 0;
    else if (!base_mul_i64(strides[axis], step, &strides[axis])) return;
  }
  ops_ints_shown(ctx, strides, offset);
}

static td_status infer_slice(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type;
  slice_ints s;
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (!read_slice(ctx, &s)) {
    if (!ctx->dims) return ir_infer_fail(ctx, "starts, ends, axes and steps have different lengths, or too many");
    return infer_open_slice(ctx);
  }
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  for (uint32_t k = 0; k < s.count; k++) {
    int32_t axis;
    TRY(ir_axis(ctx, s.axes ? s.axes[k] : k, x->rank, &axis));
    int64_t step = s.steps ? s.steps[k] : 1;
    if (step == 0 || !base_dim_known(step)) return ir_infer_fail(ctx, "a step of 0, or one that is not known");
    dims[axis] = slice_size(ctx, x->dims[axis], s.starts[k], s.ends[k], step);
  }
  TRY(ir_out(ctx, 0, x->dtype, x->rank, dims));
  slice_contents(ctx, &s);
  return TD_OK;
}

static td_status slice_show(const base_call *call, base_tensor *shown, int64_t *offset) {
  int64_t starts[MAX_BOUNDS], ends[MAX_BOUNDS], axes[MAX_BOUNDS], steps[MAX_BOUNDS];
  uint32_t count, end_count, axis_count, step_count;
  TRY(ops_read_ints(call, 1, MAX_BOUNDS, starts, &count));
  TRY(ops_read_ints(call, 2, MAX_BOUNDS, ends, &end_count));
  TRY(ops_read_ints(call, 3, MAX_BOUNDS, axes, &axis_count));
  TRY(ops_read_ints(call, 4, MAX_BOUNDS, steps, &step_count));
  bool has_axes = base_in(call, 3), has_steps = base_in(call, 4);
  if (end_count != count || (has_axes && axis_count != count) || (has_steps && step_count != count))
    return ops_fail(call, "starts, ends, axes and steps have different lengths");
  for (uint32_t k = 0; k < count; k++) {
    int64_t axis = !has_axes     ? k
                   : axes[k] < 0 ? axes[k] + shown->rank
                                 : axes[k],
            step = has_steps ? steps[k] : 1, first;
    if (axis < 0 || axis >= shown->rank || step == 0)
      return ops_fail(call, "axis %lld or step %lld does not fit", (long long)axis, (long long)step);
    slice_span(shown->dims[axis], starts[k], ends[k], step, &first, &shown->dims[axis]);
    *offset += first * shown->strides[axis];
    shown->strides[axis] = shown->dims[axis] > 1 ? shown->strides[axis] * step : 0;
  }
  return TD_OK;
}

/* ---- chunk ---- */

/* Start and length of piece `index` of `parts` nearly equal ones: the last ones are smaller, or empty. */
static void chunk_span(int64_t size, int64_t parts, int64_t index, int64_t *first, int64_t *count) {
  int64_t each = size / parts + (size % parts != 0);
  *first = base_min_i64(index * each, size);
  *count = base_min_i64(each, size - *first);
}

static td_status infer_chunk(ir_infer *ctx) {
  ir_type type = ctx->in[0]->type;
  int64_t parts = base_attr_int(ctx->attrs, CHUNK_PARTS), index = base_attr_int(ctx->attrs, CHUNK_INDEX);
  bool even = base_attr_int(ctx->attrs, CHUNK_EVEN) != 0;
  if (parts < 1 || parts > INT32_MAX || index < 0 || index >= parts)
    return ir_infer_fail(ctx, "piece %lld of %lld", (long long)index, (long long)parts);
  if (type.rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, type.dtype);
  int32_t axis;
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, CHUNK_DIM), type.rank, &axis));
  base_dim size = type.dims[axis];
  int64_t first = 0, count = 0;
  if (base_dim_known(size)) {
    if (even && size % parts)
      return ir_infer_fail(ctx, "a dimension of %lld does not divide into %lld equal parts", (long long)size,
                           (long long)parts);
    chunk_span(size, parts, index, &first, &count);
    type.dims[axis] = count;
  } else {
    base_dim each = base_dim_binary(ctx->dims, even ? BASE_DIM_FLOORDIV : BASE_DIM_CEILDIV, size, parts);
    base_dim rest = distance(ctx->dims, size, base_dim_mul(ctx->dims, each, index));
    type.dims[axis] = even ? each : base_dim_binary(ctx->dims, BASE_DIM_MIN, each, rest);
  }
  TRY(ir_out(ctx, 0, type.dtype, type.rank, type.dims));
  slice_contents(ctx, &(slice_ints){&first, &(base_dim){first + count}, &(base_dim){axis}, NULL, 1});
  return TD_OK;
}

static td_status chunk_show(const base_call *call, base_tensor *shown, int64_t *offset) {
  int64_t dim = base_attr_int(call->attrs, CHUNK_DIM), axis = dim < 0 ? dim + shown->rank : dim, first;
  int64_t parts = base_attr_int(call->attrs, CHUNK_PARTS);
  if (axis < 0 || axis >= shown->rank) return ops_fail(call, "axis %lld does not fit", (long long)dim);
  if (base_attr_int(call->attrs, CHUNK_EVEN) && shown->dims[axis] % parts)
    return ops_fail(call, "a dimension of %lld does not divide into %lld equal parts", (long long)shown->dims[axis],
                    (long long)parts);
  chunk_span(shown->dims[axis], parts, base_attr_int(call->attrs, CHUNK_INDEX), &first, &shown->dims[axis]);
  *offset = first * shown->strides[axis];
  return TD_OK;
}

/* Axes are told, and none is the first one. */
static bool slice_keeps_samples(const ir_samples_query *query) {
  enum { AXES = 3 };
  const base_tensor *axes = query->count > AXES ? query->constants[AXES] : NULL;
  for (int64_t i = 0; axes && i < base_tensor_numel(axes); i++)
    if (ops_is_first_dim(base_load_i64(axes->dtype, axes->data, i * axes->strides[0]), query->rank)) return false;
  return axes && axes->rank == 1;
}

static bool chunk_keeps_samples(const ir_samples_query *query) {
  return !ops_is_first_dim(base_attr_int(query->attrs, CHUNK_DIM), query->rank);
}

static td_status slice_view(const base_call *call) { return ops_show_view(call, slice_show); }
static td_status slice_reference(const base_call *call) { return ops_show_reference(call, slice_show); }
static td_status chunk_view(const base_call *call) { return ops_show_view(call, chunk_show); }
static td_status chunk_reference(const base_call *call) { return ops_show_reference(call, chunk_show); }

/* ---- cases ---- */

static bool slice_cases(ir_case *c, uint32_t number) {
  static const struct {
    int64_t starts[2], ends[2], axes[2], steps[2];
  } rows[] = {
      {{0, 1}, {3, 4}, {0, 2}, {1, 1}},
      {{-1, INT64_MAX}, {INT64_MIN, -4}, {1, -1}, {-2, -1}},
      {{5, -100}, {100, 3}, {0, 1}, {1, 3}},
      {{2, 0}, {1, INT32_MAX}, {2, 1}, {1, INT64_MAX}},
  };
  static const td_dtype dtypes[] = {TD_F32, TD_U4, TD_F64, TD_BOOL};
  if (number >= OPS_COUNT(rows)) return false;
  return ops_case_in(c, dtypes[number], OPS_DIMS(3, 5, 7), OPS_NORMAL, number) &&
         ops_case_ints(c, rows[number].starts, 2) && ops_case_ints(c, rows[number].ends, 2) &&
         ops_case_ints(c, rows[number].axes, 2) && ops_case_ints(c, rows[number].steps, 2);
}

static bool chunk_cases(ir_case *c, uint32_t number) {
  if (number >= 8) return false;
  ops_case_arg(c, ARG_INT("dim", -1));
  ops_case_arg(c, ARG_INT("parts", 4));
  ops_case_arg(c, ARG_INT("index", number % 4));
  return ops_case_in(c, number % 2 ? TD_F32 : TD_I4, OPS_DIMS(3, number < 4 ? 5 : 11), OPS_NORMAL, number);
}

OPS_DECLARE(slice);
const ir_op ops_slice[] = {
    /* (x, starts, ends, axes?, steps?): i64 vectors of equal length; axes are 0, 1, ... and steps 1 when absent */
    {.id = OPERATOR(aten, slice),
     .min_in = 3,
     .max_in = 5,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_VIEW,
     .infer = infer_slice,
     .reference = slice_reference,
     .view = slice_view,
     .by_sample = 1,
     .keeps_samples = slice_keeps_samples},
    /* (x): piece `index` of `parts` along dim, of ceil(size / parts) elements but for the last; even: all must be equal
     */
    {.id = OPERATOR(td, chunk),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_VIEW,
     .attrs = chunk_attrs,
     .attr_count = OPS_COUNT(chunk_attrs),
     .infer = infer_chunk,
     .reference = chunk_reference,
     .view = chunk_view,
     .by_sample = 1,
     .keeps_samples = chunk_keeps_samples},
};
OPS_TABLE(slice);
OPS_CASES(slice) = {
    {OP_aten_slice, slice_cases},
    {OP_td_chunk, chunk_cases},
    {0},
};
