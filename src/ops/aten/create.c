/* create.c -- tensors made from sizes and single numbers.
 *
 *     aten::arange  start + k step, k = 0 .. count - 1 (ONNX Range 11)
 *     aten::full    one value of a given shape (ONNX ConstantOfShape 9)
 *     td::eye_like  1 where column - row = diagonal, else 0 (ONNX EyeLike 9)
 *     td::one_hot   y[.., k, ..] = on where k = x, else off (ONNX OneHot 9) */
#include "ops/common/move_priv.h"
#include "base/size.h"

#include <math.h>

enum { EYE_DTYPE, EYE_DIAGONAL };
enum { ONE_HOT_DIM };

static const ir_attr eye_attrs[] = {ATTR_OPTIONAL("dtype", BASE_ATTR_DTYPE), ATTR_INT("diagonal", 0)};
static const ir_attr one_hot_attrs[] = {ATTR_INT("dim", -1)};

/* ---- arange ---- */

/* ceil((limit - start) / step), at least 0. False: no such number. */
static bool float_count(double start, double limit, double step, int64_t *count) {
  double n = ceil((limit - start) / step);
  if (!(fabs(n) < 0x1p62) || step == 0) return false;
  *count = n > 0 ? (int64_t)n : 0;
  return true;
}

static td_status infer_float_range(ir_infer *ctx, base_dim *count) {
  double value[3];
  *count = BASE_DIM_NONE;
  for (uint32_t i = 0; i < 3; i++) {
    const base_tensor *t = ctx->in[i]->constant;
    if (!t) {
      *count = ir_fresh(ctx);
      return TD_OK;
    }
    if (base_tensor_numel(t) != 1) return ir_infer_fail(ctx, "operand %u is no single number", i);
    value[i] = base_load_f64(t->dtype, t->data, 0);
  }
  int64_t n;
  if (!float_count(value[0], value[1], value[2], &n))
    return ir_infer_fail(ctx, "from %g to %g by %g", value[0], value[1], value[2]);
  *count = n;
  return TD_OK;
}

/* Sizes: an end that is an expression is taken to lie behind the start. */
static td_status infer_int_range(ir_infer *ctx, base_dim *count) {
  const base_dim *v[3];
  uint32_t n;
  for (uint32_t i = 0; i < 3; i++) {
    if (ir_in_ints(ctx, i, &v[i], &n) && n == 1) continue;
    *count = ir_fresh(ctx);
    return TD_OK;
  }
  base_dim start = *v[0], limit = *v[1], step = *v[2];
  if (step == 0) return ir_infer_fail(ctx, "a step of 0");
  if (!base_dim_known(step)) {
    *count = ir_fresh(ctx);
    return TD_OK;
  }
  base_dim length = step > 0 ? base_dim_sub(ctx->dims, limit, start) : base_dim_sub(ctx->dims, start, limit);
  *count = base_dim_binary(ctx->dims, BASE_DIM_CEILDIV, length, step > 0 ? step : -step);
  if (start != 0 || base_dim_known(limit)) *count = base_dim_binary(ctx->dims, BASE_DIM_MAX, *count, 0);
  if (!base_dim_known(*count) || !base_dim_known(start) || *count > IR_MAX_INTS) return TD_OK;
  base_dim *ints = ir_out_ints(ctx, 0, (uint32_t)*count);
  for (int64_t i = 0; ints && i < *count; i++) ints[i] = base_dim_number(start + i * step);
  return TD_OK;
}

static td_status infer_arange(ir_infer *ctx) {
  base_dim count;
  TRY(ops_same_dtype(ctx, 0, 1));
  TRY(ops_same_dtype(ctx, 0, 2));
  td_dtype dtype = ctx->in[0]->type.dtype;
  TRY(base_is_float(dtype) ? infer_float_range(ctx, &count) : infer_int_range(ctx, &count));
  return ir_out(ctx, 0, dtype, 1, &count);
}

static td_status arange_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  for (uint32_t i = 0; i < 3; i++)
    if (base_tensor_numel(base_in(call, i)) != 1) return ops_fail(call, "operand %u is no single number", i);
  if (base_is_float(out->dtype)) {
    double start = base_load_f64(out->dtype, base_in(call, 0)->data, 0);
    double step = base_load_f64(out->dtype, base_in(call, 2)->data, 0);
    for (int64_t i = 0; i < out->dims[0]; i++) base_store_f64(out->dtype, out->data, i, start + (double)i * step);
    return TD_OK;
  }
  uint64_t start = (uint64_t)base_load_i64(out->dtype, base_in(call, 0)->data, 0);
  uint64_t step = (uint64_t)base_load_i64(out->dtype, base_in(call, 2)->data, 0);
  base_i64 *whole = out->dtype == TD_I64 ? out->data : NULL; /* the usual type: positions in long signals */
  for (int64_t i = 0; whole && i < out->dims[0]; i++) whole[i] = (int64_t)(start + (uint64_t)i * step);
  for (int64_t i = 0; !whole && i < out->dims[0]; i++)
    base_store_i64(out->dtype, out->data, i, (int64_t)(start + (uint64_t)i * step));
  return TD_OK;
}

/* ---- full ---- */

static td_status infer_full(ir_infer *ctx) {
  const base_dim *dims, *value;
  uint32_t rank, count;
  td_dtype dtype = ctx->in[1]->type.dtype;
  const ir_type *shape = &ctx->in[0]->type;
  if (!ir_in_ints(ctx, 0, &dims, &rank)) {
    base_dim fresh[BASE_MAX_RANK];
    if (shape->rank != 1 || !base_dim_known(shape->dims[0]) || shape->dims[0] > BASE_MAX_RANK)
      return ir_out_unranked(ctx, 0, dtype);
    for (int64_t i = 0; i < shape->dims[0]; i++) fresh[i] = ir_fresh(ctx);
    return ir_out(ctx, 0, dtype, (int32_t)shape->dims[0], fresh);
  }
  TRY(ir_out(ctx, 0, dtype, (int32_t)rank, dims));
  if (rank > 1 || base_is_float(dtype) || !ctx->arena || !ir_in_ints(ctx, 1, &value, &count) || count != 1)
    return TD_OK;
  base_dim size = rank ? dims[0] : 1;
  if (!base_dim_known(size) || size > IR_MAX_INTS) return TD_OK;
  base_dim *ints = ir_out_ints(ctx, 0, (uint32_t)size);
  for (int64_t i = 0; ints && i < size; i++) ints[i] = value[0];
  return TD_OK;
}

static td_status full_reference(const base_call *call) {
  const base_tensor *value = base_in(call, 1), *out = base_out(call, 0);
  if (base_tensor_numel(value) != 1) return ops_fail(call, "the value is no single element");
  ops_fill_with(out, value->data, 0);
  return TD_OK;
}

/* ---- eye ---- */

static td_status infer_eye(ir_infer *ctx) {
  td_dtype dtype = base_attr_has(ctx->attrs, EYE_DTYPE) ? (td_dtype)base_attr_int(ctx->attrs, EYE_DTYPE) : TD_INVALID;
  int32_t rank = ctx->in[0]->type.rank;
  if (rank != IR_UNRANKED && rank != 2) return ir_infer_fail(ctx, "the input has rank %d, not 2", rank);
  return ir_out_like(ctx, 0, 0, dtype);
}

static td_status eye_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  int64_t diagonal = base_attr_int(call->attrs, EYE_DIAGONAL);
  for (int64_t r = 0; r < out->dims[0]; r++)
    for (int64_t c = 0; c < out->dims[1]; c++)
      base_store_f64(out->dtype, out->data, r * out->dims[1] + c, c - r == diagonal);
  return TD_OK;
}

/* ---- one_hot ---- */

static td_status infer_one_hot(ir_infer *ctx) {
  const ir_type *at = &ctx->in[0]->type;
  td_dtype dtype = ctx->in[2]->type.dtype;
  const base_dim *depth;
  uint32_t count;
  if (at->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, dtype);
  if (at->rank == BASE_MAX_RANK) return ir_out(ctx, 0, dtype, at->rank + 1, NULL);
  int32_t axis;
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, ONE_HOT_DIM), at->rank + 1, &axis));
  bool known = ir_in_ints(ctx, 1, &depth, &count) && count == 1;
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0, from = 0; i <= at->rank; i++)
    dims[i] = i != axis ? at->dims[from++] : known ? depth[0] : ir_fresh(ctx);
  return ir_out(ctx, 0, dtype, at->rank + 1, dims);
}

static td_status one_hot_reference(const base_call *call) {
  const base_tensor *index = base_in(call, 0), *values = base_in(call, 2), *out = base_out(call, 0);
  int64_t dim = base_attr_int(call->attrs, ONE_HOT_DIM), axis = dim < 0 ? dim + out->rank : dim, inner = 1;
  if (base_tensor_numel(values) != 2) return ops_fail(call, "the values are not two: off and on");
  const base_i64 *at = ops_dense_i64(call, 0);
  const void *off_on = ops_dense(call, 2);
  if (!at || !off_on) return base_no_memory(call->err, "scratch");
  int64_t depth = out->dims[axis], count = base_tensor_numel(index);
  if (base_tensor_numel(out) == 0) return TD_OK;
  for (int32_t i = (int32_t)axis; i < index->rank; i++) inner *= index->dims[i];
  ops_fill_with(out, off_on, 0);
  for (int64_t i = 0; i < count; i++) {
    int64_t where = at[i] < 0 ? at[i] + depth : at[i];
    if (where < 0 || where >= depth) continue; /* all off: not an error */
    ops_move_run(out->dtype, out->data, (i / inner * depth + where) * inner + i % inner, off_on, 1, 1);
  }
  return TD_OK;
}

/* ---- cases ---- */

static bool scalar_case(ir_case *c, td_dtype dtype, double value) {
  void *data = base_arena_alloc(c->arena, 8);
  if (!data) return false;
  base_store_f64(dtype, data, 0, value);
  c->in[c->in_count++] = base_tensor_of(data, dtype, 0, NULL);
  return true;
}

static bool arange_cases(ir_case *c, uint32_t number) {
  static const struct {
    td_dtype dtype;
    double start, limit, step;
  } rows[] = {{TD_I64, 0, 7, 1},     {TD_I64, 5, -4, -3}, {TD_I32, 3, 3, 1},
              {TD_F32, 0.5, 2, 0.3}, {TD_F64, 1, 0, 0.5}, {TD_I16, 4, 1, 2}};
  if (number >= OPS_COUNT(rows)) return false;
  return scalar_case(c, rows[number].dtype, rows[number].start) &&
         scalar_case(c, rows[number].dtype, rows[number].limit) &&
         scalar_case(c, rows[number].dtype, rows[number].step);
}

static bool full_cases(ir_case *c, uint32_t number) {
  static const int64_t dims[] = {2, 3, 5};
  static const td_dtype dtypes[] = {TD_F32, TD_I4, TD_BOOL, TD_I64};
  if (number >= OPS_COUNT(dtypes)) return false;
  return ops_case_ints(c, dims, number) && scalar_case(c, dtypes[number], 1);
}

static bool eye_cases(ir_case *c, uint32_t number) {
  if (number >= 5) return false;
  ops_case_arg(c, ARG_INT("diagonal", (int64_t)number - 2));
  if (number % 2) ops_case_arg(c, ARG_DTYPE("dtype", TD_F16));
  return ops_case_in(c, TD_I32, OPS_DIMS(3, number == 4 ? 0 : 4), OPS_NORMAL, number);
}

static bool one_hot_cases(ir_case *c, uint32_t number) {
  static const int64_t depths[] = {5, 1, 0};
  if (number >= OPS_COUNT(depths)) return false;
  ops_case_arg(c, ARG_INT("dim", (int64_t)number - 1));
  return ops_case_in(c, TD_I64, OPS_DIMS(2, 7), OPS_NORMAL, number) && ops_case_ints(c, &depths[number], 1) &&
         ops_case_in(c, TD_F32, OPS_DIMS(2), OPS_INDEX, 0);
}

OPS_DECLARE(create);
const ir_op ops_create[] = {
    /* (start, limit, step): single elements of one type */
    {.id = OPERATOR(aten, arange),
     .min_in = 3,
     .max_in = 3,
     .out_count = 1,
     .infer = infer_arange,
     .reference = arange_reference},
    /* (sizes, value) */
    {.id = OPERATOR(aten, full),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .strings = 2,
     .infer = infer_full,
     .reference = full_reference},
    /* (x): ones on a diagonal (above the main one where positive), sizes and element type of the matrix x */
    {.id = OPERATOR(td, eye_like),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = eye_attrs,
     .attr_count = OPS_COUNT(eye_attrs),
     .infer = infer_eye,
     .reference = eye_reference},
    /* (index, depth, values): values are [off, on]; dim is the new axis; an index outside of the depth is all off */
    {.id = OPERATOR(td, one_hot),
     .min_in = 3,
     .max_in = 3,
     .out_count = 1,
     .strings = 4,
     .attrs = one_hot_attrs,
     .attr_count = OPS_COUNT(one_hot_attrs),
     .infer = infer_one_hot,
     .reference = one_hot_reference},
};
OPS_TABLE(create);
OPS_CASES(create) = {
    {OP_aten_arange, arange_cases},
    {OP_aten_full, full_cases},
    {OP_td_eye_like, eye_cases},
    {OP_td_one_hot, one_hot_cases},
    {0},
};
