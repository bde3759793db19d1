/* lower_reduce.c -- sums, extremes, norms, statistics, sorting and running sums along dimensions. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <string.h>

static td_dtype float_of(td_dtype d) { return base_is_float(d) ? d : TD_F32; }

/* Dimensions to reduce: from a list, an int or None, made non-negative; none: all. */
typedef struct axes {
  int64_t dims[BASE_MAX_RANK];
  uint32_t count;
} axes;

static axes axes_of(aten_args *c, ir_value x, uint32_t i) {
  axes a = {.count = 0};
  uint32_t count = 1;
  int64_t one = 0;
  const int64_t *dims = &one;
  if (!aten_has(c, i)) return a;
  if (c->args[i].kind == ATEN_LIST) dims = aten_get_ints(c, i, &count);
  else one = aten_get_int(c, i);
  int32_t rank = aten_rank(c->a, x);
  for (uint32_t k = 0; k < count && rank && k < BASE_MAX_RANK && !ir_build_failed(c->b); k++)
    a.dims[a.count++] = ir_build_axis(c->b, dims[k], rank);
  return a;
}

static ir_value reduce(aten_args *c, const char *op, ir_value x, const axes *a, bool keep) {
  return IR_EMIT_ARGS(c->b, op, &x, 1, ARG_INTS("dim", a->dims, a->count), ARG_BOOL("keepdim", keep));
}

static bool flag(aten_args *c, const char *name) {
  int64_t i = aten_position(c, name);
  return i >= 0 && aten_get_bool(c, (uint32_t)i);
}
static td_dtype dtype_or(aten_args *c, td_dtype fallback) {
  int64_t i = aten_position(c, "dtype");
  if (i < 0) i = aten_position(c, "output_dtype");
  return i >= 0 ? aten_get_dtype(c, (uint32_t)i, fallback) : fallback;
}
static axes named_axes(aten_args *c, ir_value x) {
  int64_t i = aten_position(c, "dim");
  if (i < 0) i = aten_position(c, "dims"); /* of prims */
  return i >= 0 ? axes_of(c, x, (uint32_t)i) : (axes){.count = 0};
}

/* ---- sums ---- */

/* data: the operator. Whole numbers are added as i64. */
aten_value aten_lower_sum(aten_args *c) {
  ir_value x = aten_in(c, 0);
  td_dtype d = aten_value_dtype(c->a, x);
  x = ir_build_cast(c->b, x, dtype_or(c, base_is_float(d) ? d : TD_I64));
  axes a = named_axes(c, x);
  return aten_ret(c, reduce(c, c->row->data, x, &a, flag(c, "keepdim")));
}

/* nansum, nanmean (data): NaN counts as nothing */
aten_value aten_lower_nansum(aten_args *c) {
  ir_value x = aten_in(c, 0), odd;
  td_dtype d = aten_value_dtype(c->a, x);
  x = ir_build_cast(c->b, x, dtype_or(c, base_is_float(d) ? d : TD_I64));
  axes a = named_axes(c, x);
  bool keep = flag(c, "keepdim"), mean = c->row->data != NULL;
  if (!base_is_float(aten_value_dtype(c->a, x)))
    return aten_ret(c, reduce(c, mean ? "aten::mean" : "aten::sum", x, &a, keep));
  odd = IR_EMIT(c->b, "aten::isnan", x);
  ir_value sum = reduce(c, "aten::sum", IR_EMIT(c->b, "aten::where", odd, aten_scalar_like(c->a, x, 0), x), &a, keep);
  if (!mean) return aten_ret(c, sum);
  ir_value fine = ir_build_cast(c->b, IR_EMIT(c->b, "aten::logical_not", odd), aten_value_dtype(c->a, x));
  return aten_ret(c, aten_binary(c->a, "aten::div", sum, reduce(c, "aten::sum", fine, &a, keep)));
}

aten_value aten_lower_mean(aten_args *c) {
  ir_value x = aten_in(c, 0);
  x = ir_build_cast(c->b, x, dtype_or(c, aten_value_dtype(c->a, x)));
  if (!base_is_float(aten_value_dtype(c->a, x))) aten_refuse(c, "a mean of whole numbers");
  axes a = named_axes(c, x);
  return aten_ret(c, reduce(c, "aten::mean", x, &a, flag(c, "keepdim")));
}

/* all, any; of u8 the result is u8 in PyTorch */
aten_value aten_lower_all(aten_args *c) {
  ir_value x = aten_in(c, 0);
  td_dtype d = aten_value_dtype(c->a, x);
  x = ir_build_cast(c->b, x, TD_BOOL);
  axes a = named_axes(c, x);
  ir_value y = reduce(c, c->row->data, x, &a, flag(c, "keepdim"));
  return aten_ret(c, d == TD_U8 ? ir_build_cast(c->b, y, TD_U8) : y);
}

aten_value aten_lower_count_nonzero(aten_args *c) {
  ir_value x = ir_build_cast(c->b, ir_build_cast(c->b, aten_in(c, 0), TD_BOOL), TD_I64);
  axes a = named_axes(c, x);
  return aten_ret(c, reduce(c, "aten::sum", x, &a, false));
}

aten_value aten_lower_logsumexp(aten_args *c) {
  ir_value x = aten_in(c, 0);
  x = ir_build_cast(c->b, x, float_of(aten_value_dtype(c->a, x)));
  axes a = named_axes(c, x);
  return aten_ret(c, reduce(c, "aten::logsumexp", x, &a, flag(c, "keepdim")));
}

/* ---- extremes ---- */

aten_value aten_lower_amax(aten_args *c) {
  ir_value x = aten_in(c, 0);
  axes a = named_axes(c, x);
  return aten_ret(c, reduce(c, c->row->data, x, &a, flag(c, "keepdim")));
}

/* Index of an extreme; without a dim of the flattened tensor. */
static ir_value arg_of(aten_args *c, const char *op, ir_value x, const axes *a, bool keep) {
  int32_t rank = aten_rank(c->a, x);
  if (a->count && rank) return IR_EMIT_ARGS(c->b, op, &x, 1, ARG_INT("dim", a->dims[0]), ARG_BOOL("keepdim", keep));
  ir_value flat = aten_reshape(c->a, x, (int64_t[]){-1}, 1);
  ir_value y = IR_EMIT_ARGS(c->b, op, &flat, 1, ARG_INT("dim", 0), ARG_BOOL("keepdim", false));
  int64_t ones[BASE_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) ones[i] = 1;
  return keep && rank ? aten_reshape(c->a, y, ones, (uint32_t)rank) : y;
}
aten_value aten_lower_argmax(aten_args *c) {
  ir_value x = aten_in(c, 0);
  axes a = axes_of(c, x, 1);
  return aten_ret(c, arg_of(c, c->row->data, x, &a, aten_get_bool(c, 2)));
}

/* max and min: (self), (self, other), (self, dim, keepdim); data: "max" or "min" */
aten_value aten_lower_max(aten_args *c) {
  bool max = strcmp(c->row->data, "max") == 0;
  if (c->schema->count == 2) {
    aten_mix m = {0};
    for (uint32_t i = 0; i < 2; i++) aten_mix_value(c->a, &m, &c->args[i]);
    td_dtype d = aten_mix_result(&m);
    return aten_ret(c, aten_binary(c->a, max ? "aten::maximum" : "aten::minimum", aten_as(c->a, &c->args[0], d),
                                   aten_as(c->a, &c->args[1], d)));
  }
  ir_value x = aten_in(c, 0);
  axes a = named_axes(c, x);
  bool keep = flag(c, "keepdim");
  const char *op = max ? "aten::amax" : "aten::amin";
  ir_value value = aten_value_dtype(c->a, x) == TD_BOOL ? reduce(c, max ? "aten::any" : "aten::all", x, &a, keep)
                                                        : reduce(c, op, x, &a, keep);
  if (c->schema->count == 1) return aten_ret(c, value);
  ir_value index = arg_of(c, max ? "aten::argmax" : "aten::argmin", x, &a, keep);
  return aten_ret_many(c, (ir_value[]){value, index}, 2);
}

aten_value aten_lower_aminmax(aten_args *c) {
  ir_value x = aten_in(c, 0);
  axes a = named_axes(c, x);
  bool keep = flag(c, "keepdim");
  return aten_ret_many(c, (ir_value[]){reduce(c, "aten::amin", x, &a, keep), reduce(c, "aten::amax", x, &a, keep)}, 2);
}

/* ---- statistics ---- */

/* How many elements are reduced, as rank 0 of the dtype of x. */
static ir_value count_of(aten_args *c, ir_value x, const axes *a) {
  if (!a->count) return ir_build_cast(c->b, aten_numel(c->a, x), aten_value_dtype(c->a, x));
  aten_value n = aten_int(1);
  for (uint32_t i = 0; i < a->count; i++) n = aten_int_op(c->a, "mul", n, aten_size(c->a, x, a->dims[i]));
  return aten_number_value(c->a, &n, aten_value_dtype(c->a, x));
}

static ir_value variance(aten_args *c, ir_value x, const axes *a, bool keep, double correction) {
  ir_value center = reduce(c, "aten::mean", x, a, true), away = aten_binary(c->a, "aten::sub", x, center);
  ir_value square = aten_binary(c->a, "aten::mul", away, away);
  if (correction == 0) return reduce(c, "aten::mean", square, a, keep);
  ir_value n = aten_with_scalar(c->a, "aten::sub", count_of(c, x, a), correction);
  n = aten_binary(c->a, "aten::maximum", n, aten_scalar_like(c->a, n, 0));
  return aten_binary(c->a, "aten::div", reduce(c, "aten::sum", square, a, keep), n);
}

/* var, std and their forms; data: "var", "std", "var_mean", "std_mean" */
aten_value aten_lower_var(aten_args *c) {
  ir_value x = aten_in(c, 0);
  axes a = named_axes(c, x);
  int64_t correction = aten_position(c, "correction");
  double less = correction >= 0 ? (aten_has(c, (uint32_t)correction) ? aten_get_float(c, (uint32_t)correction) : 1)
                                : flag(c, "unbiased");
  bool keep = flag(c, "keepdim");
  td_dtype d = aten_value_dtype(c->a, x);
  if (d == TD_F16 || d == TD_BF16) x = ir_build_cast(c->b, x, TD_F32); /* sums of squares do not fit f16 */
  ir_value v = variance(c, x, &a, keep, less);
  if (c->row->data[0] == 's') v = IR_EMIT(c->b, "aten::sqrt", v);
  v = ir_build_cast(c->b, v, d);
  if (!strstr(c->row->data, "mean")) return aten_ret(c, v);
  return aten_ret_many(c, (ir_value[]){v, ir_build_cast(c->b, reduce(c, "aten::mean", x, &a, keep), d)}, 2);
}

/* ---- norms ---- */

static ir_value norm(aten_args *c, ir_value x, double ord, const axes *a, bool keep) {
  if (ord == 1 || ord == 2)
    return IR_EMIT_ARGS(c->b, "aten::linalg_vector_norm", &x, 1, ARG_INTS("dim", a->dims, a->count),
                        ARG_BOOL("keepdim", keep), ARG_FLOAT("ord", ord));
  if (ord == 0) {
    ir_value some = ir_build_cast(c->b, aten_with_scalar(c->a, "aten::ne", x, 0), aten_value_dtype(c->a, x));
    return reduce(c, "aten::sum", some, a, keep);
  }
  if (!isinf(ord)) { /* powers and their sum do not fit the 16-bit types */
    const td_dtype dtype = aten_value_dtype(c->a, x);
    x = ir_build_cast(c->b, x, dtype == TD_F64 ? TD_F64 : TD_F32);
    ir_value power = aten_with_scalar(c->a, "aten::pow", IR_EMIT(c->b, "aten::abs", x), ord);
    ir_value root = aten_with_scalar(c->a, "aten::pow", reduce(c, "aten::sum", power, a, keep), 1 / ord);
    return ir_build_cast(c->b, root, dtype);
  }
  return reduce(c, ord > 0 ? "aten::amax" : "aten::amin", IR_EMIT(c->b, "aten::abs", x), a, keep);
}
/* norm, linalg_vector_norm, frobenius_norm; None as p: 2 */
aten_value aten_lower_norm(aten_args *c) {
  ir_value x = aten_is_complex(&c->args[0]) ? aten_complex_size(c, &c->args[0]) : aten_in(c, 0);
  x = ir_build_cast(c->b, x, dtype_or(c, float_of(aten_value_dtype(c->a, x))));
  int64_t p = aten_position(c, "p") >= 0 ? aten_position(c, "p") : aten_position(c, "ord");
  if (p >= 0 && c->args[p].kind == ATEN_STR) aten_refuse(c, "matrix norms by name");
  double ord = p >= 0 && aten_has(c, (uint32_t)p) ? aten_get_float(c, (uint32_t)p) : 2;
  axes a = named_axes(c, x);
  return aten_ret(c, norm(c, x, ord, &a, flag(c, "keepdim")));
}
/* self / max(norm, eps): torch._weight_norm (v, g, dim) */
aten_value aten_lower_weight_norm(aten_args *c) {
  ir_value v = aten_in(c, 0), g = aten_in(c, 1);
  int64_t dim = aten_get_int(c, 2);
  int32_t rank = aten_rank(c->a, v);
  axes a = {.count = 0};
  for (int32_t i = 0; i < rank; i++)
    if (i != dim && dim != -1) a.dims[a.count++] = i;
  ir_value n = norm(c, v, 2, &a, dim != -1);
  return aten_ret(c, aten_binary(c->a, "aten::mul", v, aten_binary(c->a, "aten::div", g, n)));
}
/* The p-norm of the difference along the last axis; (x1, x2, p, eps, keepdim) */
aten_value aten_lower_pairwise_distance(aten_args *c) {
  const aten_value from = ATEN_CALL(c, "aten::add", ATEN_CALL(c, "aten::sub", c->args[0], c->args[1]), c->args[3]);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  ir_value away = aten_read(c->a, &from);
  axes a = {.dims = {aten_rank(c->a, away) - 1}, .count = 1};
  return aten_ret(c, norm(c, away, aten_get_float(c, 2), &a, aten_get_bool(c, 4)));
}
/* dist(self, other, p) */
aten_value aten_lower_dist(aten_args *c) {
  axes all = {.count = 0};
  return aten_ret(
      c, norm(c, aten_binary(c->a, "aten::sub", aten_in(c, 0), aten_in(c, 1)), aten_get_float(c, 2), &all, false));
}
/* (x1 [.., p, m], x2 [.., r, m], p, ...) */
aten_value aten_lower_cdist(aten_args *c) {
  ir_value x = aten_unsqueeze(c->a, aten_in(c, 0), -2), y = aten_unsqueeze(c->a, aten_in(c, 1), -3);
  ir_value away = aten_binary(c->a, "aten::sub", x, y);
  axes a = {.dims = {aten_rank(c->a, away) - 1}, .count = 1};
  return aten_ret(c, norm(c, away, aten_get_float(c, 2), &a, false));
}
/* _pdist_forward(self [n, m], p): distances of each row to those behind it */
aten_value aten_lower_pdist(aten_args *c) {
  ir_value x = aten_in(c, 0);
  ir_value away = aten_binary(c->a, "aten::sub", aten_unsqueeze(c->a, x, 1), aten_unsqueeze(c->a, x, 0));
  axes last = {.dims = {2}, .count = 1};
  ir_value y = norm(c, away, aten_is_empty(c->a, x) ? 2 : aten_get_float(c, 1), &last, false); /* no axis: 0 */
  ir_value later = aten_full(c->a, aten_shape(c->a, y), ir_build_scalar(c->b, TD_BOOL, 1));
  later = IR_EMIT(c->b, "aten::triu", later, ir_build_ints(c->b, (int64_t[]){1}, 1));
  ir_value in[] = {aten_reshape(c->a, y, (int64_t[]){-1}, 1), aten_reshape(c->a, later, (int64_t[]){-1}, 1)};
  return aten_ret(c, IR_EMIT_ARGS(c->b, "td::compress", in, 2, ARG_INT("dim", 0)));
}
/* embedding_renorm(self, indices, max_norm, norm_type): rows that are named, and longer than that, shortened to it */
aten_value aten_lower_embedding_renorm(aten_args *c) {
  ir_value x = aten_in(c, 0),
           at = aten_reshape(c->a, ir_build_cast(c->b, aten_in(c, 1), TD_I64), (int64_t[]){-1, 1}, 2);
  double most = aten_get_float(c, 2);
  axes last = {.dims = {1}, .count = 1};
  ir_value n = norm(c, x, aten_get_float(c, 3), &last, true), rows = aten_slice(c->a, aten_shape(c->a, x), 0, 0, 1, 1);
  ir_value named = aten_full(c->a, rows, ir_build_scalar(c->b, TD_I64, 0));
  ir_value ones = aten_full(c->a, aten_slice(c->a, aten_shape(c->a, at), 0, 0, 1, 1), ir_build_scalar(c->b, TD_I64, 1));
  named = IR_EMIT_ARGS(c->b, "td::scatter_nd", ((ir_value[]){named, at, ones}), 3, ARG_STR("reduce", "none"));
  named = aten_unsqueeze(c->a, ir_build_cast(c->b, named, TD_BOOL), 1);
  ir_value by =
      aten_binary(c->a, "aten::div", aten_scalar_like(c->a, n, most), aten_with_scalar(c->a, "aten::add", n, 1e-7));
  named = aten_binary(c->a, "aten::logical_and", named, aten_with_scalar(c->a, "aten::gt", n, most));
  by = IR_EMIT(c->b, "aten::where", named, by, aten_scalar_like(c->a, n, 1));
  return aten_ret(c, aten_binary(c->a, "aten::mul", x, by));
}
/* (x1, x2, dim, eps) */
aten_value aten_lower_cosine_similarity(aten_args *c) {
  const td_dtype d = aten_promote_types(aten_dtype_in(c, 0), aten_dtype_in(c, 1)); /* whatever the ranks are */
  ir_value x = ir_build_cast(c->b, aten_in(c, 0), d), y = ir_build_cast(c->b, aten_in(c, 1), d);
  double eps = aten_get_float(c, 3);
  ir_value product = aten_binary(c->a, "aten::mul", x, y);
  axes a = axes_of(c, product, 2);
  if (aten_rank(c->a, x) != aten_rank(c->a, y)) {
    x = aten_expand(c->a, x, aten_shape(c->a, product));
    y = aten_expand(c->a, y, aten_shape(c->a, product));
  }
  ir_value nx = norm(c, x, 2, &a, true), ny = norm(c, y, 2, &a, true);
  nx = aten_binary(c->a, "aten::maximum", nx, aten_scalar_like(c->a, nx, eps));
  ny = aten_binary(c->a, "aten::maximum", ny, aten_scalar_like(c->a, ny, eps));
  product =
      aten_binary(c->a, "aten::mul", aten_binary(c->a, "aten::div", x, nx), aten_binary(c->a, "aten::div", y, ny));
  return aten_ret(c, reduce(c, "aten::sum", product, &a, false));
}

/* ---- softmax ---- */

/* (self, dim, dtype?) or (self, dim, half_to_float) */
aten_value aten_lower_softmax(aten_args *c) {
  ir_value x = aten_in(c, 0);
  td_dtype d = dtype_or(c, aten_value_dtype(c->a, x));
  if (flag(c, "half_to_float")) d = TD_F32;
  x = ir_build_cast(c->b, x, d);
  if (aten_rank(c->a, x) == 0) {
    ir_value one = aten_reshape(c->a, x, (int64_t[]){1}, 1);
    one = IR_EMIT_ARGS(c->b, c->row->data, &one, 1, ARG_INT("dim", 0));
    return aten_ret(c, aten_reshape(c->a, one, NULL, 0));
  }
  return aten_ret(c, IR_EMIT_ARGS(c->b, c->row->data, &x, 1, ARG_INT("dim", aten_get_int(c, 1))));
}

/* _safe_softmax: rows of -inf alone give 0 */
aten_value aten_lower_safe_softmax(aten_args *c) {
  aten_value y = aten_lower_softmax(c);
  ir_value x = aten_in(c, 0);
  axes a = axes_of(c, x, 1);
  ir_value none = aten_with_scalar(c->a, "aten::eq", x, -INFINITY);
  none = reduce(c, "aten::all", none, &a, true);
  ir_value soft = aten_read(c->a, &y);
  return aten_ret(c, IR_EMIT(c->b, "aten::where", none, aten_scalar_like(c->a, soft, 0), soft));
}

/* ---- running ---- */

aten_value aten_lower_cumsum(aten_args *c) {
  ir_value x = aten_in(c, 0);
  td_dtype d = aten_value_dtype(c->a, x);
  x = ir_build_cast(c->b, x, dtype_or(c, base_is_float(d) ? d : TD_I64));
  if (aten_rank(c->a, x) == 0) return aten_ret(c, x);
  return aten_ret(c, IR_EMIT(c->b, c->row->data, x, ir_build_int(c->b, aten_get_int(c, 1))));
}

/* ---- in order ---- */

static ir_value at_least_1d(aten_args *c, ir_value x) {
  return aten_rank(c->a, x) ? x : aten_reshape(c->a, x, (int64_t[]){1}, 1);
}

/* (self, k, dim, largest, sorted) */
aten_value aten_lower_topk(aten_args *c) {
  ir_value x = aten_in(c, 0), out[2], k = aten_reshape(c->a, aten_int_value(c, 1), (int64_t[]){1}, 1);
  bool scalar = aten_rank(c->a, x) == 0;
  x = at_least_1d(c, x);
  base_arg args[] = {ARG_INT("dim", aten_get_int(c, 2)), ARG_INT("largest", aten_get_bool(c, 3)), ARG_INT("sorted", 1)};
  ir_emit_many(c->b, "aten::topk", (ir_value[]){x, k}, 2, args, 3, out, 2);
  for (uint32_t i = 0; scalar && i < 2; i++) out[i] = aten_reshape(c->a, out[i], NULL, 0);
  return aten_ret_many(c, out, 2);
}

static void sort(aten_args *c, ir_value x, int64_t dim, bool descending, ir_value *out) {
  bool scalar = aten_rank(c->a, x) == 0;
  x = at_least_1d(c, x);
  base_arg args[] = {ARG_INT("dim", dim), ARG_INT("descending", descending)};
  ir_emit_many(c->b, "aten::sort", &x, 1, args, 2, out, 2);
  for (uint32_t i = 0; scalar && i < 2; i++) out[i] = aten_reshape(c->a, out[i], NULL, 0);
}
/* sort, argsort, msort: (self, dim, descending) with or without `stable`; data "arg": the positions alone */
aten_value aten_lower_sort(aten_args *c) {
  ir_value out[2];
  int64_t dim = aten_position(c, "dim");
  sort(c, aten_in(c, 0), dim >= 0 ? aten_get_int(c, (uint32_t)dim) : 0, flag(c, "descending"), out);
  if (strcmp(c->row->data, "arg") == 0) return aten_ret(c, out[1]);
  if (strcmp(c->row->data, "first") == 0) return aten_ret(c, out[0]);
  return aten_ret_many(c, out, 2);
}

/* The element at `index` (rank 0) of the sorted axis, and its position. */
static aten_value order_statistic(aten_args *c, ir_value x, int64_t dim, aten_value index, bool keep, bool both) {
  ir_value out[2], gathered[2];
  sort(c, x, dim, false, out);
  bool scalar = aten_rank(c->a, x) == 0;
  for (uint32_t i = 0; i < 2; i++) {
    ir_value at = aten_vector(c->a, &index, 1);
    gathered[i] =
        scalar ? out[i] : IR_EMIT_ARGS(c->b, "aten::index_select", ((ir_value[]){out[i], at}), 2, ARG_INT("dim", dim));
    if (!keep && !scalar) gathered[i] = aten_squeeze(c->a, gathered[i], dim);
  }
  return both ? aten_ret_many(c, gathered, 2) : aten_ret(c, gathered[0]);
}
/* (self), (self, dim, keepdim): the lower one of two in the middle */
aten_value aten_lower_median(aten_args *c) {
  ir_value x = aten_in(c, 0);
  bool all = c->schema->count == 1;
  if (all && aten_is_empty(c->a, x)) return aten_ret(c, aten_scalar_like(c->a, x, NAN));
  if (all) x = aten_reshape(c->a, x, (int64_t[]){-1}, 1);
  axes a = named_axes(c, x);
  int64_t dim = a.count ? a.dims[0] : 0;
  aten_value n = aten_rank(c->a, x) ? aten_size(c->a, x, dim) : aten_int(1);
  n = aten_int_op(c->a, "floor_divide", aten_int_op(c->a, "sub", n, aten_int(1)), aten_int(2));
  return order_statistic(c, x, dim, n, flag(c, "keepdim"), !all);
}
/* (self), (self, dim, keepdim): of what is no NaN, which sorting puts last */
aten_value aten_lower_nanmedian(aten_args *c) {
  ir_value x = aten_in(c, 0), out[2];
  bool all = c->schema->count == 1;
  if (!base_is_float(aten_value_dtype(c->a, x)) || aten_is_empty(c->a, x)) return aten_lower_median(c);
  if (all) x = aten_reshape(c->a, x, (int64_t[]){-1}, 1);
  bool scalar = aten_rank(c->a, x) == 0, keep = flag(c, "keepdim");
  axes a = named_axes(c, x);
  int64_t dim = a.count ? a.dims[0] : 0;
  x = at_least_1d(c, x);
  ir_value fine = ir_build_cast(c->b, IR_EMIT(c->b, "aten::logical_not", IR_EMIT(c->b, "aten::isnan", x)), TD_I64);
  axes along = {.dims = {dim}, .count = 1};
  ir_value n = aten_with_scalar(c->a, "aten::sub", reduce(c, "aten::sum", fine, &along, true), 1);
  n = aten_binary(c->a, "aten::maximum", n, ir_build_int(c->b, 0));
  n = IR_EMIT_ARGS(c->b, "aten::div", ((ir_value[]){n, ir_build_int(c->b, 2)}), 2, ARG_STR("rounding_mode", "floor"));
  sort(c, x, dim, false, out);
  for (uint32_t i = 0; i < 2; i++) {
    out[i] = IR_EMIT_ARGS(c->b, "aten::gather", ((ir_value[]){out[i], n}), 2, ARG_INT("dim", dim));
    if (scalar || !keep || all) out[i] = aten_squeeze(c->a, out[i], dim);
  }
  return all ? aten_ret(c, out[0]) : aten_ret_many(c, out, 2);
}
/* (self, dim, keepdim) */
aten_value aten_lower_mode(aten_args *c) {
  ir_value x = aten_in(c, 0), out[2];
  base_arg arg = ARG_INT("dim", aten_get_int(c, 1));
  ir_emit_many(c->b, "aten::mode", &x, 1, &arg, 1, out, 2);
  for (uint32_t i = 0; i < 2 && aten_rank(c->a, x) && !aten_get_bool(c, 2); i++)
    out[i] = aten_squeeze(c->a, out[i], aten_get_int(c, 1));
  return aten_ret_many(c, out, 2);
}
/* (self, k, dim, keepdim) */
aten_value aten_lower_kthvalue(aten_args *c) {
  ir_value x = aten_in(c, 0);
  axes a = axes_of(c, x, 2);
  return order_statistic(c, x, a.count ? a.dims[0] : 0, aten_int_op(c->a, "sub", c->args[1], aten_int(1)),
                         aten_get_bool(c, 3), true);
}

/* Differences of neighbours: (self, n, dim, prepend?, append?) */
aten_value aten_lower_diff(aten_args *c) {
  ir_value x = aten_in(c, 0), parts[3];
  int64_t times = aten_get_int(c, 1), dim = ir_build_axis(c->b, aten_get_int(c, 2), aten_rank(c->a, x));
  uint32_t n = 0;
  if (aten_has(c, 3)) parts[n++] = aten_in(c, 3);
  parts[n++] = x;
  if (aten_has(c, 4)) parts[n++] = aten_in(c, 4);
  x = aten_cat(c->a, parts, n, dim);
  if (times > 64) aten_refuse(c, "differences of order %lld", (long long)times);
  for (int64_t i = 0; i < times && !ir_build_failed(c->b); i++) {
    ir_value next = aten_slice(c->a, x, dim, 1, INT64_MAX, 1), here = aten_slice(c->a, x, dim, 0, -1, 1);
    bool is_bool = aten_value_dtype(c->a, x) == TD_BOOL;
    x = aten_binary(c->a, is_bool ? "aten::logical_xor" : "aten::sub", next, here);
  }
  return aten_ret(c, x);
}
