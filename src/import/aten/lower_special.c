/* lower_special.c -- rare functions of elements, what was seen so far along a dimension, histograms, and what counts or
 * repeats elements. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <string.h>

static td_dtype float_of(td_dtype d) { return base_is_float(d) ? d : TD_F32; }
static ir_value line(aten_args *c, ir_value x) { return aten_reshape(c->a, x, (int64_t[]){-1}, 1); }
static td_dtype common(aten_args *c) {
  aten_mix m = {0};
  for (uint32_t i = 0; i < 2; i++) aten_mix_value(c->a, &m, &c->args[i]);
  return aten_mix_result(&m);
}

/* ---- functions of elements; data: their name ---- */

aten_value aten_lower_special(aten_args *c) {
  ir_value x = aten_in(c, 0);
  x = ir_build_cast(c->b, x, float_of(aten_value_dtype(c->a, x)));
  return aten_ret(c, IR_EMIT_ARGS(c->b, "td::special", &x, 1, ARG_STR("function", c->row->data)));
}
aten_value aten_lower_special_pair(aten_args *c) {
  td_dtype d = float_of(common(c));
  ir_value in[] = {aten_as(c->a, &c->args[0], d), aten_as(c->a, &c->args[1], d)};
  return aten_ret(c, IR_EMIT_ARGS(c->b, "td::special_pair", in, 2, ARG_STR("function", c->row->data)));
}
/* Phi(x) = erfc(-x / sqrt 2) / 2 */
aten_value aten_lower_ndtr(aten_args *c) {
  ir_value x = aten_in(c, 0);
  x = ir_build_cast(c->b, x, float_of(aten_value_dtype(c->a, x)));
  x = aten_with_scalar(c->a, "aten::mul", x, -0.70710678118654752440);
  ir_value y = IR_EMIT_ARGS(c->b, "td::special", &x, 1, ARG_STR("function", "erfc"));
  return aten_ret(c, aten_with_scalar(c->a, "aten::mul", y, 0.5));
}
/* The logarithm of the multivariate gamma function (self, p): sums of lgamma at p points half a step apart. */
aten_value aten_lower_mvlgamma(aten_args *c) {
  ir_value x = aten_in(c, 0), sum = IR_NO_VALUE;
  int64_t p = aten_get_int(c, 1);
  if (p < 1 || p > 1000) aten_refuse(c, "p of %lld", (long long)p);
  x = ir_build_cast(c->b, x, float_of(aten_value_dtype(c->a, x)));
  for (int64_t i = 0; i < p && !ir_build_failed(c->b); i++) {
    ir_value at = aten_with_scalar(c->a, "aten::sub", x, 0.5 * (double)i);
    at = IR_EMIT_ARGS(c->b, "td::special", &at, 1, ARG_STR("function", "lgamma"));
    sum = sum.id ? aten_binary(c->a, "aten::add", sum, at) : at;
  }
  if (!sum.id) return ATEN_NOTHING;
  return aten_ret(c, aten_with_scalar(c->a, "aten::add", sum, (double)(p * (p - 1)) / 4 * log(3.14159265358979323846)));
}
aten_value aten_lower_frexp(aten_args *c) {
  ir_value x = aten_in(c, 0), out[2];
  ir_emit_many(c->b, "aten::frexp", &x, 1, NULL, 0, out, 2);
  return aten_ret_many(c, out, 2);
}

/* ---- so far; data: the operator ---- */

aten_value aten_lower_scan_extreme(aten_args *c) {
  ir_value x = aten_in(c, 0), out[2];
  base_arg arg = ARG_INT("dim", aten_get_int(c, 1));
  ir_emit_many(c->b, c->row->data, &x, 1, &arg, 1, out, 2);
  return aten_ret_many(c, out, 2);
}
aten_value aten_lower_logcumsumexp(aten_args *c) {
  ir_value x = aten_in(c, 0);
  return aten_ret(c, IR_EMIT_ARGS(c->b, "aten::logcumsumexp", &x, 1, ARG_INT("dim", aten_get_int(c, 1))));
}

/* ---- counts ---- */

/* bincount(self, weights?, minlength): one place for each number up to the largest one */
aten_value aten_lower_bincount(aten_args *c) {
  if (aten_is_empty(c->a, aten_in(c, 0))) { /* counts, even with weights */
    const aten_value shape = aten_list_of(c->a, &c->args[2], 1);
    return ATEN_CALL(c, "aten::full", shape, aten_int(0));
  }
  ir_value x = ir_build_cast(c->b, line(c, aten_in(c, 0)), TD_I64), least = aten_int_value(c, 2);
  ir_value most = aten_cat(c->a, (ir_value[]){x, line(c, aten_with_scalar(c->a, "aten::sub", least, 1))}, 2, 0);
  most = IR_EMIT_ARGS(c->b, "aten::amax", &most, 1, ARG_INTS("dim", (int64_t[]){0}, 1), ARG_BOOL("keepdim", 1));
  ir_value weights = aten_has(c, 1) ? line(c, aten_in(c, 1)) : IR_NO_VALUE;
  if (weights.id && aten_value_dtype(c->a, weights) != TD_F32) weights = ir_build_cast(c->b, weights, TD_F64);
  td_dtype d = weights.id ? aten_value_dtype(c->a, weights) : TD_I64;
  ir_value one = ir_build_scalar(c->b, d, 1), none = ir_build_scalar(c->b, d, 0);
  if (!weights.id) weights = aten_full(c->a, aten_shape(c->a, x), one);
  ir_value counts = aten_full(c->a, aten_with_scalar(c->a, "aten::add", most, 1), none);
  return aten_ret(c, IR_EMIT_ARGS(c->b, "td::scatter_nd", ((ir_value[]){counts, aten_unsqueeze(c->a, x, 1), weights}),
                                  3, ARG_STR("reduce", "add")));
}

/* [least, largest] of x, or what the program gives; where they are one, `more` to both sides. */
static ir_value range_of(aten_args *c, ir_value x, const double *given, double more) {
  ir_value ends[2];
  td_dtype d = aten_value_dtype(c->a, x);
  for (uint32_t i = 0; i < 2; i++) {
    if (given) ends[i] = line(c, ir_build_scalar(c->b, d, given[i]));
    else {
      ir_value all = aten_cat(c->a, (ir_value[]){x, line(c, ir_build_scalar(c->b, d, i ? -INFINITY : INFINITY))}, 2, 0);
      ends[i] = IR_EMIT_ARGS(c->b, i ? "aten::amax" : "aten::amin", &all, 1, ARG_INTS("dim", (int64_t[]){0}, 1),
                             ARG_BOOL("keepdim", 1));
      ir_value none = IR_EMIT(c->b, "aten::isinf", ends[i]); /* no element: 0 */
      ends[i] = IR_EMIT(c->b, "aten::where", none, ir_build_scalar(c->b, d, 0), ends[i]);
    }
  }
  ir_value same = aten_binary(c->a, "aten::eq", ends[0], ends[1]);
  for (uint32_t i = 0; i < 2; i++)
    ends[i] =
        IR_EMIT(c->b, "aten::where", same, aten_with_scalar(c->a, "aten::add", ends[i], i ? more : -more), ends[i]);
  return aten_cat(c->a, ends, 2, 0);
}

/* histc(self, bins, min, max); equal ends: those of the elements */
aten_value aten_lower_histc(aten_args *c) {
  ir_value x = line(c, aten_in(c, 0));
  td_dtype own = aten_value_dtype(c->a, x);
  double ends[] = {aten_get_float(c, 2), aten_get_float(c, 3)};
  x = ir_build_cast(c->b, x, float_of(own));
  ir_value in[] = {x, range_of(c, x, ends[0] == ends[1] ? NULL : ends, 1)};
  ir_value y = IR_EMIT_ARGS(c->b, "aten::histc", in, 2, ARG_INT("bins", aten_get_int(c, 1)));
  return aten_ret(c, ir_build_cast(c->b, y, own));
}

/* Counts, or their density: divided by their sum and the widths. */
static aten_value histogram(aten_args *c, ir_value x, ir_value edges, ir_value weight, bool density) {
  ir_value in[] = {x, edges, weight.id ? line(c, weight) : weight};
  ir_value y = IR_EMIT_ARGS(c->b, "td::histogram", in, 3);
  if (density) {
    ir_value sum = IR_EMIT_ARGS(c->b, "aten::sum", &y, 1, ARG_BOOL("keepdim", 0));
    ir_value width = aten_binary(c->a, "aten::sub", aten_slice(c->a, edges, 0, 1, INT64_MAX, 1),
                                 aten_slice(c->a, edges, 0, 0, -1, 1));
    y = aten_binary(c->a, "aten::div", aten_binary(c->a, "aten::div", y, sum), width);
  }
  return aten_ret_many(c, (ir_value[]){y, edges}, 2);
}
/* (self, bins, *, weight?, density) */
aten_value aten_lower_histogram(aten_args *c) {
  return histogram(c, line(c, aten_in(c, 0)), aten_in(c, 1), aten_has(c, 2) ? aten_in(c, 2) : IR_NO_VALUE,
                   aten_get_bool(c, 3));
}
/* (self, bins, *, range?, weight?, density): edges at equal distances, from both ends so that they meet */
aten_value aten_lower_histogram_count(aten_args *c) {
  ir_value x = line(c, aten_in(c, 0));
  td_dtype d = aten_value_dtype(c->a, x);
  int64_t bins = aten_get_int(c, 1);
  double ends[2] = {0};
  const aten_value *items = aten_items(c, 2);
  if (bins < 1 || bins > INT32_MAX || (aten_has(c, 2) && aten_list_count(c, 2) != 2)) aten_refuse(c, "these bins");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  for (uint32_t i = 0; i < 2 && aten_has(c, 2); i++)
    ends[i] = items[i].kind == ATEN_INT ? (double)items[i].u.i : items[i].u.f;
  ir_value range = range_of(c, x, aten_has(c, 2) ? ends : NULL, 0.5);
  ir_value at =
      IR_EMIT(c->b, "aten::arange", ir_build_int(c->b, 0), ir_build_int(c->b, bins + 1), ir_build_int(c->b, 1));
  ir_value low = aten_slice(c->a, range, 0, 0, 1, 1), high = aten_slice(c->a, range, 0, 1, 2, 1);
  ir_value step = aten_with_scalar(c->a, "aten::div", aten_binary(c->a, "aten::sub", high, low), (double)bins);
  ir_value up = ir_build_cast(c->b, at, d),
           down = aten_binary(c->a, "aten::sub", ir_build_scalar(c->b, d, (double)bins), up);
  up = aten_binary(c->a, "aten::add", low, aten_binary(c->a, "aten::mul", step, up));
  down = aten_binary(c->a, "aten::sub", high, aten_binary(c->a, "aten::mul", step, down));
  ir_value first = aten_with_scalar(c->a, "aten::lt", at, (double)(bins + 1) / 2);
  return histogram(c, x, IR_EMIT(c->b, "aten::where", first, up, down), aten_has(c, 3) ? aten_in(c, 3) : IR_NO_VALUE,
                   aten_get_bool(c, 4));
}

/* ---- chosen by numbers drawn ---- */

/* randperm(n, ...): the order of numbers that were drawn */
aten_value aten_lower_randperm(aten_args *c) {
  ir_value shape = line(c, aten_int_value(c, 0)), out[2];
  ir_value drawn = IR_EMIT_ARGS(c->b, "aten::rand", &shape, 1, ARG_DTYPE("dtype", TD_F64));
  base_arg args[] = {ARG_INT("dim", 0), ARG_INT("descending", 0)};
  ir_emit_many(c->b, "aten::sort", &drawn, 1, args, 2, out, 2);
  int64_t dtype = aten_position(c, "dtype");
  return aten_ret(c, ir_build_cast(c->b, out[1], dtype < 0 ? TD_I64 : aten_get_dtype(c, (uint32_t)dtype, TD_I64)));
}
/* bernoulli(self), bernoulli.p(self, p): 1 with these probabilities, else 0 */
aten_value aten_lower_bernoulli(aten_args *c) {
  ir_value x = aten_in(c, 0), shape = aten_shape(c->a, x);
  int64_t p = aten_position(c, "p");
  ir_value likely = p < 0 ? ir_build_cast(c->b, x, TD_F64) : aten_get_number(c, (uint32_t)p, TD_F64);
  ir_value drawn = IR_EMIT_ARGS(c->b, "aten::rand", &shape, 1, ARG_DTYPE("dtype", TD_F64));
  return aten_ret(c, ir_build_cast(c->b, aten_binary(c->a, "aten::lt", drawn, likely), aten_value_dtype(c->a, x)));
}
/* randint(low?, high, size, *, dtype) and randint_like(self, low?, high, *, dtype?): of low, low + 1, ... high - 1 */
aten_value aten_lower_randint(aten_args *c) {
  int64_t low = aten_position(c, "low"), size = aten_position(c, "size"), dtype = aten_position(c, "dtype");
  ir_value shape = size < 0 ? aten_shape(c->a, aten_in(c, 0)) : aten_ints_value(c, (uint32_t)size);
  td_dtype usual = size < 0 ? aten_dtype_in(c, 0) : TD_I64;
  ir_value first = low < 0 ? ir_build_scalar(c->b, TD_I64, 0) : aten_int_value(c, (uint32_t)low);
  ir_value count = aten_binary(c->a, "aten::sub", aten_int_value(c, (uint32_t)aten_position(c, "high")), first);
  ir_value drawn = IR_EMIT_ARGS(c->b, "aten::rand", &shape, 1, ARG_DTYPE("dtype", TD_F64));
  drawn = aten_binary(c->a, "aten::mul", drawn, ir_build_cast(c->b, count, TD_F64));
  ir_value y = aten_binary(c->a, "aten::add", ir_build_cast(c->b, IR_EMIT(c->b, "aten::floor", drawn), TD_I64), first);
  return aten_ret(c, ir_build_cast(c->b, y, aten_get_dtype(c, (uint32_t)dtype, usual)));
}
/* native_dropout(input, p, train?) -> result, what was kept */
aten_value aten_lower_native_dropout(aten_args *c) {
  ir_value x = aten_in(c, 0), shape = aten_shape(c->a, x);
  double p = aten_get_float(c, 1);
  if ((aten_has(c, 2) && !aten_get_bool(c, 2)) || p == 0)
    return aten_ret_many(c, (ir_value[]){x, aten_full(c->a, shape, ir_build_scalar(c->b, TD_BOOL, 1))}, 2);
  ir_value drawn = IR_EMIT_ARGS(c->b, "aten::rand", &shape, 1, ARG_DTYPE("dtype", TD_F32));
  ir_value kept = aten_with_scalar(c->a, "aten::ge", drawn, p);
  ir_value scaled = aten_with_scalar(c->a, "aten::mul", x, p == 1 ? 0 : 1 / (1 - p));
  return aten_ret_many(c, (ir_value[]){IR_EMIT(c->b, "aten::where", kept, scaled, aten_scalar_like(c->a, x, 0)), kept},
                       2);
}

/* ---- products ---- */

/* _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim): their product, summed */
aten_value aten_lower_trilinear(aten_args *c) {
  ir_value y = IR_NO_VALUE;
  uint32_t count;
  for (uint32_t i = 0; i < 3; i++) {
    ir_value x = aten_in(c, i);
    const int64_t *dims = aten_get_ints(c, 3 + i, &count);
    for (uint32_t k = 0; k < count && !ir_build_failed(c->b); k++) x = aten_unsqueeze(c->a, x, dims[k]);
    y = y.id ? aten_binary(c->a, "aten::mul", y, x) : x;
  }
  const int64_t *dims = aten_get_ints(c, 6, &count);
  if (!count) return aten_ret(c, y);
  return aten_ret(c, IR_EMIT_ARGS(c->b, "aten::sum", &y, 1, ARG_INTS("dim", dims, count), ARG_BOOL("keepdim", 0)));
}
