/* reduce.c -- reductions over a set of dimensions. The dimensions are the attribute `dim` (empty: all), or operand 1
 * where the model computes them (then `noop` tells what an empty one means: nothing is reduced). Sums run in double or
 * int64 in row-major order. An empty reduction gives the neutral element (least or largest value for amax and amin, NaN
 * for mean).
 *
 *     aten::sum, mean, prod, amax, amin, any, all  of the elements (ONNX ReduceSum 13, ...)
 *     aten::logsumexp                              log of the sum of exp(x) (ONNX ReduceLogSumExp 18)
 *     td::square_sum                               the sum of x^2 (ONNX ReduceSumSquare 18)
 *     td::log_sum                                  log of the sum of x (ONNX ReduceLogSum 18)
 *     aten::linalg_vector_norm                     (sum of |x|^ord)^(1/ord), ord 1, 2 or infinity (the maximum) (ONNX
 *                                                  ReduceL1, ReduceL2 18) */
#include "ops/common/kernel_priv.h"
#include "ops/common/lower_priv.h"

#include <math.h>
#include <string.h>

enum { ORD = KERN_REDUCE_ATTRS };
static const ir_attr reduce_attrs[] = {KERN_REDUCE_LIST(OPS_ATTR_ROW)};
static const ir_attr norm_attrs[] = {KERN_REDUCE_LIST(OPS_ATTR_ROW) ATTR_FLOAT("ord", 2)};

/* ---- bodies ---- */

/* What runs along: a value, and for logsumexp the largest element so far. */
typedef struct state {
  double value, largest;
} state;

typedef struct reduce_body {
  double start;
  void (*step)(state *s, const double *row, int64_t count);
  double (*finish)(const state *s, int64_t count); /* NULL: the value */
  int64_t (*int_start)(td_dtype dtype);            /* NULL: integers go as double */
  int64_t (*int_step)(int64_t value, int64_t element, td_dtype dtype);
} reduce_body;

#define STEP(NAME, EXPR)                                         \
  static void NAME(state *s, const double *row, int64_t count) { \
    double value = s->value;                                     \
    for (int64_t k = 0; k < count; k++) {                        \
      double a = row[k];                                         \
      value = (EXPR);                                            \
    }                                                            \
    s->value = value;                                            \
  }
STEP(sum_step, value + a)
STEP(abs_step, value + fabs(a))
STEP(square_step, value + a * a)
STEP(prod_step, value *a)
STEP(max_abs_step, fabs(a) > value || isnan(a) ? fabs(a) : value)
STEP(max_step, a > value || isnan(a) ? a : value)
STEP(min_step, a < value || isnan(a) ? a : value)

/* sum exp(x - largest), rescaled when the largest grows. */
static void logsumexp_step(state *s, const double *row, int64_t count) {
  double largest = s->largest;
  for (int64_t k = 0; k < count; k++)
    if (row[k] > largest || isnan(row[k])) largest = row[k];
  if (largest == -INFINITY) return;
  if (isinf(largest) || isnan(largest)) {
    s->largest = largest;
    s->value = 1;
    return;
  }
  double value = s->largest == -INFINITY ? 0 : s->value * exp(s->largest - largest);
  for (int64_t k = 0; k < count; k++) value += exp(row[k] - largest);
  s->value = value;
  s->largest = largest;
}

static double mean_finish(const state *s, int64_t count) { return s->value / (double)count; }
static double sqrt_finish(const state *s, int64_t count) {
  (void)count;
  return sqrt(s->value);
}
static double log_finish(const state *s, int64_t count) {
  (void)count;
  return log(s->value);
}
static double logsumexp_finish(const state *s, int64_t count) {
  (void)count;
  return s->largest == -INFINITY ? -INFINITY : s->largest + log(s->value);
}

static int64_t zero(td_dtype dtype) {
  (void)dtype;
  return 0;
}
static int64_t one(td_dtype dtype) {
  (void)dtype;
  return 1;
}
static int64_t least(td_dtype dtype) {
  const base_dtype_info *d = base_dtype(dtype);
  return d->is_signed ? (int64_t)(UINT64_MAX << (d->bits - 1)) : 0;
}
static int64_t largest(td_dtype dtype) {
  const base_dtype_info *d = base_dtype(dtype);
  if (dtype == TD_BOOL) return 1;
  return (int64_t)(UINT64_MAX >> (64 - d->bits + (d->is_signed ? 1 : 0)));
}

static bool less(int64_t a, int64_t b, td_dtype dtype) { return dtype == TD_U64 ? (uint64_t)a < (uint64_t)b : a < b; }

#define INT_STEP(NAME, EXPR)                                      \
  static int64_t NAME(int64_t value, int64_t a, td_dtype dtype) { \
    (void)dtype;                                                  \
    return (int64_t)(EXPR);                                       \
  }
INT_STEP(sum_ints, (uint64_t)value + (uint64_t)a)
INT_STEP(abs_ints, (uint64_t)value + (a < 0 && dtype != TD_U64 ? 0 - (uint64_t)a : (uint64_t)a))
INT_STEP(square_ints, (uint64_t)value + (uint64_t)a * (uint64_t)a)
INT_STEP(prod_ints, (uint64_t)value *(uint64_t)a)
INT_STEP(max_ints, less(value, a, dtype) ? a : value)
INT_STEP(min_ints, less(a, value, dtype) ? a : value)
INT_STEP(any_ints, value || a)
INT_STEP(all_ints, value &&a)

/* ---- the loop ---- */

enum { CHUNK = 512 }; /* elements read at a time */

/* The dimensions to reduce, as a mask, from the attribute or operand 1. */
static bool reduced_mask(int32_t rank, const int64_t *dims, uint32_t count, bool noop, uint32_t *mask) {
  *mask = 0;
  if (count == 0) *mask = noop ? 0 : (1u << rank) - 1;
  for (uint32_t i = 0; i < count; i++) {
    if (dims[i] < -rank || dims[i] >= (rank ? rank : 1)) return false;
    if (rank) *mask |= 1u << (dims[i] < 0 ? dims[i] + rank : dims[i]);
  }
  return true;
}

static td_status call_mask(const base_call *call, uint32_t *mask) {
  const base_tensor *in = base_in(call, 0);
  uint32_t count;
  const int64_t *dims = base_attr_ints(call->attrs, KERN_REDUCE_DIM, &count);
  int64_t given[BASE_MAX_RANK];
  if (base_in(call, 1)) {
    TRY(ops_read_ints(call, 1, BASE_MAX_RANK, given, &count));
    dims = given;
  }
  if (!reduced_mask(in->rank, dims, count, base_attr_int(call->attrs, KERN_REDUCE_NOOP), mask))
    return ops_fail(call, "a dimension to reduce is outside the rank %d", in->rank);
  return TD_OK;
}

/* The kept dimensions and the reduced ones of the operand, each with its strides. */
typedef struct split {
  int32_t kept_rank, gone_rank;
  int64_t kept[BASE_MAX_RANK], kept_strides[BASE_MAX_RANK], gone[BASE_MAX_RANK], gone_strides[BASE_MAX_RANK];
  int64_t gone_count;
} split;

static void split_dims(const base_tensor *in, uint32_t mask, split *s) {
  memset(s, 0, sizeof *s);
  s->gone_count = 1;
  for (int32_t i = 0; i < in->rank; i++) {
    bool gone = mask >> i & 1;
    int32_t at = gone ? s->gone_rank++ : s->kept_rank++;
    (gone ? s->gone : s->kept)[at] = in->dims[i];
    (gone ? s->gone_strides : s->kept_strides)[at] = in->strides[i];
    if (gone) s->gone_count *= in->dims[i];
  }
}

static double reduce_one_f64(const reduce_body *body, const base_tensor *in, const split *s, int64_t offset) {
  state at = {body->start, -INFINITY};
  base_walk w;
  int64_t length, step;
  const int64_t *strides[] = {s->gone_strides};
  double row[CHUNK];
  base_walk_rows(&w, s->gone_rank, s->gone, 1, strides, &length, &step);
  if (w.count) do {
      for (int64_t k = 0; k < length; k += CHUNK) {
        int64_t n = base_min_i64(CHUNK, length - k);
        ops_row_get_f64(in, offset + w.offset[0] + k * step, step, n, row);
        body->step(&at, row, n);
      }
    } while (base_walk_next(&w));
  return body->finish ? body->finish(&at, s->gone_count) : at.value;
}

static int64_t reduce_one_i64(const reduce_body *body, const base_tensor *in, const split *s, int64_t offset) {
  int64_t value = body->int_start(in->dtype);
  base_walk w;
  const int64_t *strides[] = {s->gone_strides};
  base_walk_start(&w, s->gone_rank, s->gone, 1, strides);
  if (w.count) do
      value = body->int_step(value, base_load_i64(in->dtype, in->data, offset + w.offset[0]), in->dtype);
    while (base_walk_next(&w));
  return value;
}

static td_status reduce(const base_call *call, const reduce_body *body) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  uint32_t mask;
  split s;
  base_walk w;
  TRY(call_mask(call, &mask));
  split_dims(in, mask, &s);
  const int64_t *strides[] = {s.kept_strides};
  bool as_ints = !base_is_float(in->dtype) && body->int_step;
  base_walk_start(&w, s.kept_rank, s.kept, 1, strides);
  int64_t index = 0; /* the output is dense: its elements come in this order */
  if (w.count) do {
      if (as_ints) base_store_i64(out->dtype, out->data, index++, reduce_one_i64(body, in, &s, w.offset[0]));
      else base_store_f64(out->dtype, out->data, index++, reduce_one_f64(body, in, &s, w.offset[0]));
    } while (base_walk_next(&w));
  return TD_OK;
}

/* ---- inference ---- */

/* The dimensions are not known: with keepdim each size is what it was or 1; otherwise only their number tells the rank.
 */
static td_status infer_unknown_dims(ir_infer *ctx, td_dtype dtype) {
  const ir_type *in = &ir_in(ctx, 0)->type, *axes = &ir_in(ctx, 1)->type;
  bool keep = base_attr_int(ctx->attrs, KERN_REDUCE_KEEPDIM);
  int32_t rank = in->rank;
  base_dim dims[BASE_MAX_RANK];
  if (!keep) {
    bool counted = axes->rank == 1 && base_dim_known(axes->dims[0]) && axes->dims[0] > 0 && axes->dims[0] <= rank;
    if (!counted) return ir_out_unranked(ctx, 0, dtype);
    rank -= (int32_t)axes->dims[0];
  }
  for (int32_t i = 0; i < rank; i++) dims[i] = ir_fresh(ctx);
  return ir_out(ctx, 0, dtype, rank, dims);
}

static td_status infer_as(ir_infer *ctx, td_dtype dtype) {
  const ir_type *in = &ir_in(ctx, 0)->type;
  uint32_t count, mask;
  const int64_t *dims = base_attr_ints(ctx->attrs, KERN_REDUCE_DIM, &count);
  int64_t given[BASE_MAX_RANK];
  if (in->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, dtype);
  if (ir_in(ctx, 1)) {
    const base_dim *ints;
    if (!ir_in_ints(ctx, 1, &ints, &count)) return infer_unknown_dims(ctx, dtype);
    if (count > BASE_MAX_RANK) return ir_infer_fail(ctx, "%u dimensions to reduce", count);
    for (uint32_t i = 0; i < count; i++) {
      if (!base_dim_known(ints[i])) return infer_unknown_dims(ctx, dtype);
      given[i] = ints[i];
    }
    dims = given;
  }
  if (!reduced_mask(in->rank, dims, count, base_attr_int(ctx->attrs, KERN_REDUCE_NOOP), &mask))
    return ir_infer_fail(ctx, "a dimension to reduce is outside the rank %d", in->rank);
  bool keep = base_attr_int(ctx->attrs, KERN_REDUCE_KEEPDIM);
  int32_t rank = 0;
  base_dim result[BASE_MAX_RANK];
  for (int32_t i = 0; i < in->rank; i++) {
    bool gone = mask >> i & 1;
    if (!gone || keep) result[rank++] = gone ? 1 : in->dims[i];
  }
  return ir_out(ctx, 0, dtype, rank, result);
}

static td_status infer_same(ir_infer *ctx) { return infer_as(ctx, ir_in(ctx, 0)->type.dtype); }

static td_status infer_bool(ir_infer *ctx) { return infer_as(ctx, TD_BOOL); }

/* Folds known sizes to one number: shapes become element counts. */
static td_status infer_folding(ir_infer *ctx, base_dim_op op, base_dim start) {
  const base_dim *ints;
  uint32_t count;
  TRY(infer_same(ctx));
  const ir_type *in = &ir_in(ctx, 0)->type;
  if (!ctx->arena || in->rank != 1 || ctx->out[0].type.rank > 1 || !ir_in_ints(ctx, 0, &ints, &count)) return TD_OK;
  bool whole = ctx->out[0].type.rank == 0 || (ctx->out[0].type.dims[0] == 1);
  if (!whole || count == 0 || base_is_float(in->dtype)) return TD_OK;
  for (uint32_t k = 0; k < count; k++) start = base_dim_binary(ctx->dims, op, start, ints[k]);
  base_dim *to = start == BASE_DIM_NONE ? NULL : ir_out_ints(ctx, 0, 1);
  if (to) *to = start;
  return TD_OK;
}
static td_status infer_sum(ir_infer *ctx) { return infer_folding(ctx, BASE_DIM_ADD, 0); }
static td_status infer_prod(ir_infer *ctx) { return infer_folding(ctx, BASE_DIM_MUL, 1); }

/* ---- kernels: over neighbouring dimensions, on f32 ---- */

/* Which dimensions go, where that is known. */
static bool known_mask(const ir_kernel_query *query, uint32_t *mask) {
  const ir_type *in = &query->in[0]->type;
  const base_tensor *given = query->in_count > 1 && query->in[1] ? query->in[1]->constant : NULL;
  uint32_t count;
  const int64_t *dims = base_attr_ints(query->attrs, KERN_REDUCE_DIM, &count);
  int64_t ints[BASE_MAX_RANK];
  if (in->rank == IR_UNRANKED) return false;
  if (query->in_count > 1 && query->in[1]) {
    if (!given || given->dtype != TD_I64 || given->rank > 1 || base_tensor_numel(given) > BASE_MAX_RANK) return false;
    count = (uint32_t)base_tensor_numel(given);
    for (uint32_t i = 0; i < count; i++)
      ints[i] = base_load_i64(TD_I64, given->data, i * (given->rank ? given->strides[0] : 0));
    dims = ints;
  }
  return reduced_mask(in->rank, dims, count, base_attr_int(query->attrs, KERN_REDUCE_NOOP), mask);
}

static const kern_row *kernel_for(const ir_kernel_query *query, kern_family family) {
  const ir_type *in = &query->in[0]->type;
  uint32_t mask, runs = 0;
  if (in->dtype != TD_F32 || query->out[0].type.dtype != TD_F32 || !known_mask(query, &mask)) return NULL;
  bool before = false;
  for (int32_t i = 0; i < in->rank; i++) {
    bool goes = mask >> i & 1;
    if (in->dims[i] == 1) continue;
    runs += goes && !before;
    before = goes;
  }
  return runs < 2 ? kern_select(family, TD_F32, query->isa) : NULL;
}

#define REDUCE(family, function, ...) \
  static const kern_row *kernel_##function(const ir_kernel_query *query) { return kernel_for(query, KERN_##family); }
#include "kernels/reduce.def"
#undef REDUCE

/* Sum and its like, along the row of a loop: of the elements, or of their squares. */
static bool lower_reduction(const ir_kernel_query *query, loop_build *b, base_combine combine, bool squares) {
  const int32_t rank = query->in[0]->type.rank;
  uint32_t mask, count = 0;
  int64_t dims[BASE_MAX_RANK];
  if (!known_mask(query, &mask) || mask == 0 || loop_is_row(b, b->in[0])) return false;
  for (int32_t axis = 0; axis < rank; axis++)
    if (mask >> axis & 1) dims[count++] = axis;
  if (!ops_lower_is_row(b, rank, dims, count)) return false;
  b->out = loop_reduce(b, combine, squares ? loop_unary(b, BASE_SCALAR_square, b->in[0]) : b->in[0]);
  return true;
}
static bool lower_sum(const ir_kernel_query *query, loop_build *b) {
  return lower_reduction(query, b, BASE_COMBINE_SUM, false);
}
static bool lower_square_sum(const ir_kernel_query *query, loop_build *b) {
  return lower_reduction(query, b, BASE_COMBINE_SUM, true);
}
static bool lower_prod(const ir_kernel_query *query, loop_build *b) {
  return lower_reduction(query, b, BASE_COMBINE_PROD, false);
}

/* Of no elements the ends of the type: loops have those of 32 bits and more. */
static bool has_ends(const ir_kernel_query *query) {
  const base_dtype_info *dtype = base_dtype(query->in[0]->type.dtype);
  return dtype->is_float || dtype->bits >= 32 || !dtype->is_signed;
}
static bool lower_amax(const ir_kernel_query *query, loop_build *b) {
  return has_ends(query) && lower_reduction(query, b, BASE_COMBINE_MAX, false);
}
static bool lower_amin(const ir_kernel_query *query, loop_build *b) {
  return has_ends(query) && lower_reduction(query, b, BASE_COMBINE_MIN, false);
}
static bool lower_any(const ir_kernel_query *query, loop_build *b) {
  b->in[0] = loop_cast(b, b->in[0], BASE_TYPE_BOOL);
  return lower_reduction(query, b, BASE_COMBINE_MAX, false);
}
static bool lower_all(const ir_kernel_query *query, loop_build *b) {
  b->in[0] = loop_cast(b, b->in[0], BASE_TYPE_BOOL);
  return lower_reduction(query, b, BASE_COMBINE_MIN, false);
}
static bool lower_mean(const ir_kernel_query *query, loop_build *b) {
  if (!lower_sum(query, b)) return false;
  b->out = loop_binary(b, BASE_SCALAR_div, b->out, loop_length(b));
  return true;
}
static bool lower_log_sum(const ir_kernel_query *query, loop_build *b) {
  if (!lower_sum(query, b)) return false;
  b->out = loop_unary(b, BASE_SCALAR_log, b->out);
  return true;
}

/* log(sum(exp(x - m))) + m, m the largest element, or 0 where that is not finite. */
static bool lower_logsumexp(const ir_kernel_query *query, loop_build *b) {
  const uint16_t x = b->in[0];
  if (!base_is_float(query->in[0]->type.dtype) || !lower_amax(query, b)) return false;
  const uint16_t finite =
      loop_binary(b, BASE_SCALAR_lt, loop_unary(b, BASE_SCALAR_abs, b->out), loop_number(b, INFINITY));
  const uint16_t m = loop_scalar(b, BASE_SCALAR_where, finite, b->out, loop_number(b, 0), NULL, 0);
  const uint16_t power = loop_unary(b, BASE_SCALAR_exp, loop_binary(b, BASE_SCALAR_sub, x, m));
  const uint16_t sum = loop_reduce(b, BASE_COMBINE_SUM, power);
  b->out = loop_binary(b, BASE_SCALAR_add, m, loop_unary(b, BASE_SCALAR_log, sum));
  return true;
}

/* Of order 1, 2 or infinity. Squares of f32 are added in f64, where none is too large or too small. */
static bool lower_norm(const ir_kernel_query *query, loop_build *b) {
  const double ord = base_attr_float(query->attrs, ORD);
  if (ord == 2) {
    const base_type type = loop_type_of(b, b->in[0]);
    if (type == BASE_TYPE_F32) b->in[0] = loop_cast(b, b->in[0], BASE_TYPE_F64);
    if (!lower_square_sum(query, b)) return false;
    b->out = loop_cast(b, loop_unary(b, BASE_SCALAR_sqrt, b->out), type);
    return true;
  }
  if ((ord != 1 && ord != INFINITY) || !b->program.row_axes) return false;
  b->in[0] = loop_unary(b, BASE_SCALAR_abs, b->in[0]);
  if (!lower_reduction(query, b, ord == 1 ? BASE_COMBINE_SUM : BASE_COMBINE_MAX, false)) return false;
  if (ord == INFINITY) b->out = loop_binary(b, BASE_SCALAR_maximum, b->out, loop_number(b, 0)); /* of no elements */
  return true;
}

/* ---- cases ---- */

/* Columns about a vector and a block, several neighbouring dimensions, rows past a piece of a sum. */
static bool long_cases(ir_case *c, uint32_t number) {
  static const int64_t first[] = {0}, second[] = {1}, middle[] = {2, 1}, last[] = {-1};
  switch (number) {
    case 0:
      ops_case_arg(c, ARG_INTS("dim", second, 1));
      return ops_case_in(c, TD_F32, OPS_DIMS(2, 49, 37), OPS_NORMAL, 6);
    case 1:
      ops_case_arg(c, ARG_INTS("dim", first, 1));
      return ops_case_in(c, TD_F32, OPS_DIMS(13, 1100), OPS_NORMAL, 7);
    case 2:
      ops_case_arg(c, ARG_INTS("dim", middle, 2));
      return ops_case_in(c, TD_F32, OPS_DIMS(3, 5, 7, 16), OPS_NORMAL, 8);
    case 3: ops_case_arg(c, ARG_INTS("dim", last, 1)); return ops_case_in(c, TD_F32, OPS_DIMS(2, 5003), OPS_NORMAL, 9);
    case 4: ops_case_arg(c, ARG_INTS("dim", last, 1)); return ops_case_in(c, TD_F32, OPS_DIMS(31, 3), OPS_SPECIAL, 10);
    case 5: ops_case_arg(c, ARG_INTS("dim", first, 1)); return ops_case_in(c, TD_F32, OPS_DIMS(11, 5), OPS_SPECIAL, 11);
    default: return false;
  }
}

static bool cases_of(ir_case *c, uint32_t number, const td_dtype *dtypes, uint32_t dtype_count) {
  static const int64_t last[] = {-1}, first[] = {0}, outer[] = {0, 2};
  if (number >= 5 * dtype_count) return dtypes[0] == TD_F32 && long_cases(c, number - 5 * dtype_count);
  td_dtype d = dtypes[number / 5];
  switch (number % 5) {
    case 0: return ops_case_in(c, d, OPS_DIMS(3, 5, 7), OPS_NORMAL, 1);
    case 1: ops_case_arg(c, ARG_INTS("dim", last, 1)); return ops_case_in(c, d, OPS_DIMS(7, 601), OPS_NORMAL, 2);
    case 2:
      ops_case_arg(c, ARG_INTS("dim", first, 1));
      ops_case_arg(c, ARG_BOOL("keepdim", 1));
      return ops_case_in(c, d, OPS_DIMS(0, 3), OPS_NORMAL, 3);
    case 3: ops_case_arg(c, ARG_INTS("dim", outer, 2)); return ops_case_in(c, d, OPS_DIMS(2, 3, 5), OPS_SPECIAL, 4);
    default: return ops_case_in(c, d, 0, NULL, OPS_NORMAL, 5);
  }
}

static bool number_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_I64, TD_I8, TD_U64};
  return cases_of(c, number, dtypes, OPS_COUNT(dtypes));
}

static bool bool_cases(ir_case *c, uint32_t number) { return cases_of(c, number, (const td_dtype[]){TD_BOOL}, 1); }

static double flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)out;
  (void)attrs;
  double count = 1;
  for (int32_t i = 0; i < in[0]->type.rank; i++) count *= (double)in[0]->type.dims[i];
  return count;
}

/* X(name, operator, infer, cases, kernel or NULL, lowering or NULL, start, step, finish, integer start, integer step)
 */
#define LIST(X)                                                                                                       \
  X(sum, aten, sum, infer_sum, number_cases, kernel_sum, lower_sum, 0, sum_step, NULL, zero, sum_ints)                \
  X(mean, aten, mean, infer_same, number_cases, kernel_mean, lower_mean, 0, sum_step, mean_finish, NULL, NULL)        \
  X(prod, aten, prod, infer_prod, number_cases, NULL, lower_prod, 1, prod_step, NULL, one, prod_ints)                 \
  X(amax, aten, amax, infer_same, number_cases, kernel_amax, lower_amax, -INFINITY, max_step, NULL, least, max_ints)  \
  X(amin, aten, amin, infer_same, number_cases, kernel_amin, lower_amin, INFINITY, min_step, NULL, largest, min_ints) \
  X(any, aten, any, infer_bool, bool_cases, NULL, lower_any, 0, sum_step, NULL, zero, any_ints)                       \
  X(all, aten, all, infer_bool, bool_cases, NULL, lower_all, 1, prod_step, NULL, one, all_ints)                       \
  X(logsumexp, aten, logsumexp, infer_same, number_cases, NULL, lower_logsumexp, 0, logsumexp_step, logsumexp_finish, \
    NULL, NULL)                                                                                                       \
  X(square_sum, td, square_sum, infer_same, number_cases, kernel_square_sum, lower_square_sum, 0, square_step, NULL,  \
    zero, square_ints)                                                                                                \
  X(log_sum, td, log_sum, infer_same, number_cases, NULL, lower_log_sum, 0, sum_step, log_finish, NULL, NULL)

#define DEFINE(NAME, SPACE, OP, INFER, CASES, KERNEL, LOWER, START, ...) \
  static td_status NAME##_reference(const base_call *call) {             \
    static const reduce_body body = {(double)(START), __VA_ARGS__};      \
    return reduce(call, &body);                                          \
  }
LIST(DEFINE)

static td_status norm_reference(const base_call *call) {
  static const reduce_body sum_of_abs = {0, abs_step, NULL, zero, abs_ints},
                           euclidean = {0, square_step, sqrt_finish, NULL, NULL},
                           largest_abs = {0, max_abs_step, NULL, NULL, NULL};
  double ord = base_attr_float(call->attrs, ORD);
  return reduce(call, ord == 1 ? &sum_of_abs : ord == 2 ? &euclidean : &largest_abs);
}

static td_status infer_norm(ir_infer *ctx) {
  double ord = base_attr_float(ctx->attrs, ORD);
  if (ord != 1 && ord != 2 && ord != INFINITY)
    return ir_infer_fail(ctx, "a norm of order %g; 1, 2 and infinity are supported", ord);
  return infer_same(ctx);
}

static bool norm_cases(ir_case *c, uint32_t number) {
  static const double orders[] = {1, 2, INFINITY};
  ops_case_arg(c, ARG_FLOAT("ord", orders[number % 3]));
  return number_cases(c, number / 3);
}

/* Axes are told, and none is the first one. */
static bool reduce_keeps_samples(const ir_samples_query *query) {
  uint32_t dims;
  const int64_t *dim = base_attr_ints(query->attrs, KERN_REDUCE_DIM, &dims);
  bool keeps = dims > 0 && query->count < 2;
  for (uint32_t i = 0; i < dims; i++) keeps &= !ops_is_first_dim(dim[i], query->rank);
  return keeps;
}

/* What a sum of elements of order 1 in f32 may be off where it comes to little. */
#define CANCELS 1e-5f
#define ROW(NAME, SPACE, OP, INFER, CASES, KERNEL, LOWER, ...) \
  {.id = OPERATOR(SPACE, OP),                                  \
   .min_in = 1,                                                \
   .max_in = 2,                                                \
   .out_count = 1,                                             \
   .attrs = reduce_attrs,                                      \
   .attr_count = OPS_COUNT(reduce_attrs),                      \
   .infer = INFER,                                             \
   .reference = NAME##_reference,                              \
   .kernel = KERNEL,                                           \
   .lower = LOWER,                                             \
   .by_sample = 1,                                             \
   .keeps_samples = reduce_keeps_samples,                      \
   .flops = flops,                                             \
   .rtol = 1e-5f,                                              \
   .atol = CANCELS},
OPS_DECLARE(reduce);
const ir_op ops_reduce[] = {
    LIST(ROW){.id = OPERATOR(aten, linalg_vector_norm),
              .min_in = 1,
              .max_in = 2,
              .out_count = 1,
              .attrs = norm_attrs,
              .attr_count = OPS_COUNT(norm_attrs),
              .infer = infer_norm,
              .reference = norm_reference,
              .by_sample = 1,
              .keeps_samples = reduce_keeps_samples,
              .flops = flops,
              .lower = lower_norm,
              .rtol = 1e-5f},
};
OPS_TABLE(reduce);
#define CASES_ROW(NAME, SPACE, OP, INFER, CASES, ...) {OP_##SPACE##_##OP, CASES},
OPS_CASES(reduce) = {
    LIST(CASES_ROW){OP_aten_linalg_vector_norm, norm_cases},
    {0},
};
