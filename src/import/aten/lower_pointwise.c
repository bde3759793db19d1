/* lower_pointwise.c -- arithmetic, comparisons and logic of each element: promotion by explicit casts, then one
 * operator. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <string.h>

static aten_mix mix_of(aten_args *c, uint32_t n) {
  aten_mix m = {0};
  for (uint32_t i = 0; i < n; i++) aten_mix_value(c->a, &m, &c->args[i]);
  return m;
}
static td_dtype common(aten_args *c, uint32_t n) {
  aten_mix m = mix_of(c, n);
  return aten_mix_result(&m);
}
static td_dtype float_of(td_dtype d) { return base_is_float(d) ? d : TD_F32; }
/* In what PyTorch computes operators of several steps whose results are of `d`: it rounds f16 and bf16 once, at the
 * end. */
static td_dtype between(td_dtype d) { return d == TD_F16 || d == TD_BF16 ? TD_F32 : d; }
static ir_value as(aten_args *c, uint32_t i, td_dtype d) { return aten_as(c->a, &c->args[i], d); }
static ir_value scalar(aten_args *c, ir_value like, double v) { return aten_scalar_like(c->a, like, v); }
static bool is_complex(const aten_value *v) { return aten_is_complex(v); }
/* One of the first two is a tensor, or a number, that is complex. */
static bool complex_operand(const aten_args *c) {
  for (int i = 0; i < 2; i++)
    if (is_complex(&c->args[i]) || c->args[i].kind == ATEN_COMPLEX) return true;
  return false;
}

/* ---- one operand ---- */

/* Of floats; integers become f32. */
aten_value aten_lower_unary_float(aten_args *c) {
  if (is_complex(&c->args[0])) return aten_complex_unary(c);
  ir_value x = aten_in(c, 0);
  x = ir_build_cast(c->b, x, float_of(aten_value_dtype(c->a, x)));
  return aten_ret(c, IR_EMIT(c->b, c->row->data, x));
}

/* Of any dtype, which stays; where the operator does not change whole numbers they are left alone. */
aten_value aten_lower_unary(aten_args *c) {
  if (is_complex(&c->args[0])) return aten_complex_unary(c);
  ir_value x = aten_in(c, 0);
  if (aten_value_dtype(c->a, x) == TD_BOOL) { /* sign is what it was; the rest are numbers */
    if (strcmp(c->row->data, "aten::sign") == 0) return aten_ret(c, x);
    x = ir_build_cast(c->b, x, TD_I64);
  }
  return aten_ret(c, IR_EMIT(c->b, c->row->data, x));
}

/* sign, sgn: of NaN 0 */
aten_value aten_lower_sign(aten_args *c) {
  aten_value y = aten_lower_unary(c);
  ir_value x = is_complex(&c->args[0]) ? IR_NO_VALUE : aten_in(c, 0);
  if (!x.id || !base_is_float(aten_value_dtype(c->a, x))) return y;
  return aten_ret(c,
                  IR_EMIT(c->b, "aten::where", IR_EMIT(c->b, "aten::isnan", x), scalar(c, x, 0), aten_read(c->a, &y)));
}

aten_value aten_lower_rounding(aten_args *c) {
  ir_value x = aten_in(c, 0);
  if (!base_is_float(aten_value_dtype(c->a, x))) return aten_ret(c, x);
  int64_t decimals = c->schema->count > 1 ? aten_get_int(c, 1) : 0;
  if (!decimals) return aten_ret(c, IR_EMIT(c->b, c->row->data, x));
  double by = pow(10, fabs((double)decimals));
  ir_value scaled = aten_with_scalar(c->a, decimals < 0 ? "aten::div" : "aten::mul", x, by);
  return aten_ret(
      c, aten_with_scalar(c->a, decimals < 0 ? "aten::mul" : "aten::div", IR_EMIT(c->b, c->row->data, scaled), by));
}

/* Composites of floats, by name. */
static ir_value exp2_of(aten_args *c, ir_value x) { return aten_binary(c->a, "aten::pow", scalar(c, x, 2), x); }
static ir_value frac_of(aten_args *c, ir_value x) {
  return aten_binary(c->a, "aten::sub", x, IR_EMIT(c->b, "aten::trunc", x));
}
static ir_value deg2rad_of(aten_args *c, ir_value x) {
  return aten_with_scalar(c->a, "aten::mul", x, 3.14159265358979323846 / 180);
}
static ir_value rad2deg_of(aten_args *c, ir_value x) {
  return aten_with_scalar(c->a, "aten::mul", x, 180 / 3.14159265358979323846);
}
static ir_value sinc_of(aten_args *c, ir_value x) {
  ir_value by = aten_with_scalar(c->a, "aten::mul", x, 3.14159265358979323846);
  ir_value zero = aten_with_scalar(c->a, "aten::eq", x, 0);
  ir_value wave = aten_binary(c->a, "aten::div", IR_EMIT(c->b, "aten::sin", by), by);
  return IR_EMIT(c->b, "aten::where", zero, scalar(c, x, 1), wave);
}
/* -softplus(-x) */
static ir_value log_sigmoid_of(aten_args *c, ir_value x) {
  return IR_EMIT(c->b, "aten::neg", IR_EMIT(c->b, "aten::softplus", IR_EMIT(c->b, "aten::neg", x)));
}
static ir_value tanhshrink_of(aten_args *c, ir_value x) {
  return aten_binary(c->a, "aten::sub", x, IR_EMIT(c->b, "aten::tanh", x));
}

/* -x log x above 0, 0 at 0, -inf below */
static ir_value entr_of(aten_args *c, ir_value x) {
  ir_value y = IR_EMIT(c->b, "aten::neg", aten_binary(c->a, "aten::mul", x, IR_EMIT(c->b, "aten::log", x)));
  y = IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::lt", x, 0), scalar(c, x, -INFINITY), y);
  return IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::eq", x, 0), scalar(c, x, 0), y);
}
aten_value aten_lower_composite(aten_args *c) {
  static const struct {
    const char *name;
    ir_value (*make)(aten_args *c, ir_value x);
  } rows[] = {{"exp2", exp2_of}, {"frac", frac_of}, {"deg2rad", deg2rad_of},         {"rad2deg", rad2deg_of},
              {"sinc", sinc_of}, {"entr", entr_of}, {"log_sigmoid", log_sigmoid_of}, {"tanhshrink", tanhshrink_of}};
  ir_value x = aten_in(c, 0);
  x = ir_build_cast(c->b, x, float_of(aten_value_dtype(c->a, x)));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, c->row->data) == 0) return aten_ret(c, rows[i].make(c, x));
  aten_refuse(c, "it has no lowering");
  return ATEN_NOTHING;
}

static ir_value all_like(aten_args *c, ir_value x, bool value) {
  return aten_full(c->a, aten_shape(c->a, x), ir_build_scalar(c->b, TD_BOOL, value));
}

/* isnan, isinf, isfinite, isposinf, isneginf, signbit: whole numbers are finite. */
aten_value aten_lower_is_special(aten_args *c) {
  const char *what = c->row->data;
  ir_value x = aten_in(c, 0);
  bool finite = strcmp(what, "finite") == 0;
  if (strcmp(what, "signbit") == 0 && !ir_build_failed(c->b))
    return aten_ret(c, aten_with_scalar(c->a, "aten::lt", x, 0));
  if (!base_is_float(aten_value_dtype(c->a, x))) return aten_ret(c, all_like(c, x, finite));
  if (strcmp(what, "nan") == 0) return aten_ret(c, IR_EMIT(c->b, "aten::isnan", x));
  if (strcmp(what, "posinf") == 0) return aten_ret(c, aten_with_scalar(c->a, "aten::eq", x, INFINITY));
  if (strcmp(what, "neginf") == 0) return aten_ret(c, aten_with_scalar(c->a, "aten::eq", x, -INFINITY));
  ir_value inf = IR_EMIT(c->b, "aten::isinf", x);
  if (!finite) return aten_ret(c, inf);
  ir_value odd = aten_binary(c->a, "aten::logical_or", inf, IR_EMIT(c->b, "aten::isnan", x));
  return aten_ret(c, IR_EMIT(c->b, "aten::logical_not", odd));
}

aten_value aten_lower_logical_not(aten_args *c) {
  return aten_ret(c, IR_EMIT(c->b, "aten::logical_not", aten_in(c, 0)));
}

/* (self, float? nan, float? posinf, float? neginf) */
aten_value aten_lower_nan_to_num(aten_args *c) {
  ir_value x = aten_in(c, 0);
  td_dtype d = aten_value_dtype(c->a, x);
  if (!base_is_float(d)) return aten_ret(c, x);
  double largest = d == TD_F64    ? 1.79769313486231570815e308
                   : d == TD_F16  ? 65504
                   : d == TD_BF16 ? 0x1.fep127
                                  : 0x1.fffffep127;
  double nan = aten_has(c, 1) ? aten_get_float(c, 1) : 0;
  double most = aten_has(c, 2) ? aten_get_float(c, 2) : largest,
         least = aten_has(c, 3) ? aten_get_float(c, 3) : -largest;
  ir_value y = IR_EMIT(c->b, "aten::where", IR_EMIT(c->b, "aten::isnan", x), scalar(c, x, nan), x);
  y = IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::eq", x, INFINITY), scalar(c, x, most), y);
  return aten_ret(
      c, IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::eq", x, -INFINITY), scalar(c, x, least), y));
}

/* ---- two operands ---- */

aten_value aten_lower_binary(aten_args *c) {
  if (complex_operand(c)) return aten_complex_binary(c);
  td_dtype d = common(c, 2);
  return aten_ret(c, aten_binary(c->a, c->row->data, as(c, 0, d), as(c, 1, d)));
}

/* Integers become f32. */
aten_value aten_lower_binary_float(aten_args *c) {
  td_dtype d = float_of(common(c, 2));
  return aten_ret(c, aten_binary(c->a, c->row->data, as(c, 0, d), as(c, 1, d)));
}

/* add, sub, rsub with alpha; data: the operator, "r" in front when operands change places. */
aten_value aten_lower_add(aten_args *c) {
  if (complex_operand(c)) return aten_complex_binary(c);
  bool reversed = c->row->data[0] == 'r';
  const char *op = reversed ? c->row->data + 1 : c->row->data;
  td_dtype d = common(c, 2);
  const aten_value *alpha = &c->args[2];
  bool one = alpha->graph.id == 0 &&
             (alpha->kind == ATEN_INT ? alpha->u.i == 1 : alpha->kind == ATEN_FLOAT && alpha->u.f == 1);
  ir_value x = as(c, reversed ? 1 : 0, d), y = as(c, reversed ? 0 : 1, d);
  if (!one) { /* PyTorch rounds alpha to d, but not what it multiplies */
    const td_dtype long_type = between(d);
    x = ir_build_cast(c->b, x, long_type);
    y = aten_binary(c->a, "aten::mul", ir_build_cast(c->b, y, long_type),
                    ir_build_cast(c->b, aten_get_number(c, 2, d), long_type));
  }
  if (d == TD_BOOL) /* of truth values: or; - is refused by PyTorch */
    return aten_ret(c, aten_binary(c->a, "aten::logical_or", x, y));
  return aten_ret(c, ir_build_cast(c->b, aten_binary(c->a, op, x, y), d));
}

/* Is `number` known, and none of its digits lost in `d`? */
static bool is_short(aten_args *c, ir_value number, td_dtype d) {
  const double *known;
  uint32_t count;
  uint16_t room;
  if (!ir_build_known_floats(c->b, number, &known, &count) || count != 1) return false;
  base_store_f64(d, &room, 0, *known);
  return base_load_f64(d, &room, 0) == *known;
}

/* The first operand by a second one that is a number or of rank 0, in f16 or bf16: PyTorch computes in f32, with the
 * number as it is, and rounds once. (It rounds a first operand before.) None: the number is as good in `d`. */
static ir_value by_number(aten_args *c, const char *op, td_dtype d) {
  const aten_value *given = &c->args[1];
  const bool tensor = given->kind == ATEN_TENSOR && !given->u.tensor->number;
  if ((d != TD_F16 && d != TD_BF16) || ir_build_failed(c->b)) return IR_NO_VALUE;
  if (tensor &&
      (ir_build_type(c->b, aten_read(c->a, given))->rank != 0 || aten_value_dtype(c->a, aten_read(c->a, given)) == d))
    return IR_NO_VALUE;
  const ir_value number = as(c, 1, TD_F32);
  if (ir_build_failed(c->b) || is_short(c, number, d)) return IR_NO_VALUE;
  const ir_value x = ir_build_cast(c->b, as(c, 0, d), TD_F32);
  return ir_build_cast(c->b, aten_binary(c->a, op, x, number), d);
}

aten_value aten_lower_mul(aten_args *c) {
  if (complex_operand(c)) return aten_complex_binary(c);
  td_dtype d = common(c, 2);
  const ir_value whole = by_number(c, "aten::mul", d);
  if (whole.id) return aten_ret(c, whole);
  return aten_ret(c, aten_binary(c->a, d == TD_BOOL ? "aten::logical_and" : "aten::mul", as(c, 0, d), as(c, 1, d)));
}

/* Division of two values of one dtype, rounded as `mode` says; "" is true division. */
static ir_value divide(aten_args *c, ir_value x, ir_value y, const char *mode) {
  ir_value in[] = {x, y};
  if (!mode[0]) return IR_EMIT(c->b, "aten::div", x, y);
  return IR_EMIT_ARGS(c->b, "aten::div", in, 2, ARG_STR("rounding_mode", mode));
}

/* (self, other, *, rounding_mode?); data: whole numbers stay such */
aten_value aten_lower_div(aten_args *c) {
  if (complex_operand(c)) return aten_complex_binary(c);
  const char *mode = c->schema->count > 2 ? aten_get_str(c, 2) : "";
  td_dtype d = common(c, 2);
  if (!mode[0] && c->version > 0 && c->version < 4 && !base_is_float(d)) mode = "trunc"; /* upgrader */
  if (!mode[0] && c->row->data && !base_is_float(d)) mode = "trunc";                     /* of prims */
  if (!mode[0]) {
    d = float_of(d);
    const ir_value whole = by_number(c, "aten::div", d);
    if (whole.id) return aten_ret(c, whole);
  }
  return aten_ret(c, divide(c, as(c, 0, d), as(c, 1, d), mode));
}

aten_value aten_lower_floor_divide(aten_args *c) {
  td_dtype d = common(c, 2);
  return aten_ret(c, divide(c, as(c, 0, d), as(c, 1, d), "floor"));
}

aten_value aten_lower_compare(aten_args *c) {
  if (complex_operand(c)) return aten_complex_compare(c);
  td_dtype d = common(c, 2);
  return aten_ret(c, aten_binary(c->a, c->row->data, as(c, 0, d), as(c, 1, d)));
}

/* Of truth values of any dtype. */
aten_value aten_lower_logical(aten_args *c) {
  td_dtype d = common(c, 2);
  return aten_ret(c, aten_binary(c->a, c->row->data, as(c, 0, d), as(c, 1, d)));
}

/* and, or, xor of integers or truth values; data: "and" ... */
aten_value aten_lower_bitwise(aten_args *c) {
  td_dtype d = common(c, 2);
  const char *op = base_arena_format(c->a->arena, "aten::%s_%s", d == TD_BOOL ? "logical" : "bitwise", c->row->data);
  if (!op) ir_build_take(c->b, base_no_memory(c->b->err, "a name"));
  return aten_ret(c, aten_binary(c->a, op, as(c, 0, d), as(c, 1, d)));
}
aten_value aten_lower_bitwise_not(aten_args *c) {
  ir_value x = aten_in(c, 0);
  return aten_ret(c,
                  IR_EMIT(c->b, aten_value_dtype(c->a, x) == TD_BOOL ? "aten::logical_not" : "aten::bitwise_not", x));
}

/* A power that is one multiplication or root away is written so: exact, and cheap. */
static ir_value simple_power(aten_args *c, ir_value x, double e) {
  bool whole = !base_is_float(aten_value_dtype(c->a, x));
  if (e == 2) return IR_EMIT(c->b, "aten::mul", x, x);
  if (e == 1) return x;
  if (whole) return IR_NO_VALUE;
  if (e == 0.5) return IR_EMIT(c->b, "aten::sqrt", x);
  if (e == -0.5) return IR_EMIT(c->b, "aten::rsqrt", x);
  if (e == -1) return IR_EMIT(c->b, "aten::reciprocal", x);
  if (e == 3) return IR_EMIT(c->b, "aten::mul", IR_EMIT(c->b, "aten::mul", x, x), x);
  return IR_NO_VALUE;
}

aten_value aten_lower_pow(aten_args *c) {
  if (complex_operand(c)) return aten_complex_pow(c);
  td_dtype d = common(c, 2);
  if (d == TD_BOOL) d = TD_I64;
  const aten_value *e = &c->args[1];
  ir_value x = as(c, 0, d);
  if ((e->kind == ATEN_INT || e->kind == ATEN_FLOAT) && aten_is_known(e) && !ir_build_failed(c->b)) {
    ir_value y = simple_power(c, x, aten_get_float(c, 1));
    if (y.id) return aten_ret(c, y);
  }
  return aten_ret(c, aten_binary(c->a, "aten::pow", x, as(c, 1, d)));
}
aten_value aten_lower_float_power(aten_args *c) {
  return aten_ret(c, aten_binary(c->a, "aten::pow", as(c, 0, TD_F64), as(c, 1, TD_F64)));
}

/* m sqrt(1 + (n / m)^2), m the larger of the two: squares of large numbers are none. Infinite where one is, whatever
 * the other. */
aten_value aten_lower_hypot(aten_args *c) {
  const td_dtype d = common(c, 2), long_type = between(d);
  ir_value x = IR_EMIT(c->b, "aten::abs", ir_build_cast(c->b, as(c, 0, d), long_type));
  ir_value y = IR_EMIT(c->b, "aten::abs", ir_build_cast(c->b, as(c, 1, d), long_type));
  ir_value most = aten_binary(c->a, "aten::maximum", x, y);
  ir_value share = aten_binary(c->a, "aten::div", aten_binary(c->a, "aten::minimum", x, y), most);
  ir_value root = aten_with_scalar(c->a, "aten::add", aten_binary(c->a, "aten::mul", share, share), 1);
  root = aten_binary(c->a, "aten::mul", most, IR_EMIT(c->b, "aten::sqrt", root));
  root = IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::eq", most, 0), most, root);
  ir_value infinite =
      aten_binary(c->a, "aten::logical_or", IR_EMIT(c->b, "aten::isinf", x), IR_EMIT(c->b, "aten::isinf", y));
  root = IR_EMIT(c->b, "aten::where", infinite, scalar(c, root, INFINITY), root);
  return aten_ret(c, ir_build_cast(c->b, root, d));
}

/* x log(y), 0 where x is 0 and y no NaN; data: the logarithm */
aten_value aten_lower_xlogy(aten_args *c) {
  td_dtype d = float_of(common(c, 2));
  ir_value x = as(c, 0, d), y = as(c, 1, d);
  ir_value product = aten_binary(c->a, "aten::mul", x, IR_EMIT(c->b, c->row->data, y));
  ir_value zero = aten_with_scalar(c->a, "aten::eq", x, 0);
  ir_value fine = IR_EMIT(c->b, "aten::logical_not", IR_EMIT(c->b, "aten::isnan", y));
  return aten_ret(
      c, IR_EMIT(c->b, "aten::where", aten_binary(c->a, "aten::logical_and", zero, fine), scalar(c, x, 0), product));
}

/* The number where the other is NaN; data: the operator for the rest */
aten_value aten_lower_fmax(aten_args *c) {
  td_dtype d = common(c, 2);
  ir_value x = as(c, 0, d), y = as(c, 1, d), m = aten_binary(c->a, c->row->data, x, y);
  if (!base_is_float(d)) return aten_ret(c, m);
  m = IR_EMIT(c->b, "aten::where", IR_EMIT(c->b, "aten::isnan", x), y, m);
  return aten_ret(c, IR_EMIT(c->b, "aten::where", IR_EMIT(c->b, "aten::isnan", y), x, m));
}

aten_value aten_lower_copysign(aten_args *c) {
  td_dtype d = float_of(common(c, 2));
  ir_value x = IR_EMIT(c->b, "aten::abs", as(c, 0, d)), y = as(c, 1, d);
  /* the sign of -0 is that of its reciprocal */
  ir_value negative = aten_binary(c->a, "aten::logical_or", aten_with_scalar(c->a, "aten::lt", y, 0),
                                  aten_with_scalar(c->a, "aten::lt", IR_EMIT(c->b, "aten::reciprocal", y), 0));
  return aten_ret(c, IR_EMIT(c->b, "aten::where", negative, IR_EMIT(c->b, "aten::neg", x), x));
}

aten_value aten_lower_heaviside(aten_args *c) {
  td_dtype d = common(c, 2);
  ir_value x = as(c, 0, d), y = as(c, 1, d);
  ir_value step = ir_build_cast(c->b, aten_with_scalar(c->a, "aten::gt", x, 0), d);
  return aten_ret(c, IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::eq", x, 0), y, step));
}

/* log(exp x + exp y); data: exp, log */
aten_value aten_lower_logaddexp(aten_args *c) {
  bool two = c->row->data[0] == '2';
  td_dtype d = float_of(common(c, 2));
  ir_value x = as(c, 0, d), y = as(c, 1, d), m = aten_binary(c->a, "aten::maximum", x, y);
  ir_value low = aten_binary(c->a, "aten::minimum", x, y);
  ir_value away = aten_binary(c->a, "aten::sub", low, m);
  ir_value e = two ? exp2_of(c, away) : IR_EMIT(c->b, "aten::exp", away);
  ir_value rest =
      two ? IR_EMIT(c->b, "aten::log2", aten_with_scalar(c->a, "aten::add", e, 1)) : IR_EMIT(c->b, "aten::log1p", e);
  ir_value same =
      aten_binary(c->a, "aten::logical_and", aten_binary(c->a, "aten::eq", x, y), IR_EMIT(c->b, "aten::isinf", x));
  return aten_ret(c, IR_EMIT(c->b, "aten::where", same, x, aten_binary(c->a, "aten::add", m, rest)));
}

/* self + weight (end - self), from the nearer side */
aten_value aten_lower_lerp(aten_args *c) {
  ir_value x = aten_in(c, 0), end = aten_in(c, 1);
  const td_dtype d = aten_value_dtype(c->a, x), long_type = between(d);
  x = ir_build_cast(c->b, x, long_type);
  end = ir_build_cast(c->b, end, long_type);
  ir_value w = as(c, 2, long_type), away = aten_binary(c->a, "aten::sub", end, x);
  ir_value near = aten_binary(c->a, "aten::add", x, aten_binary(c->a, "aten::mul", w, away));
  ir_value rest = aten_binary(c->a, "aten::sub", aten_scalar_like(c->a, x, 1), w);
  ir_value far = aten_binary(c->a, "aten::sub", end, aten_binary(c->a, "aten::mul", away, rest));
  ir_value small = aten_with_scalar(c->a, "aten::lt", IR_EMIT(c->b, "aten::abs", w), 0.5);
  return aten_ret(c, ir_build_cast(c->b, IR_EMIT(c->b, "aten::where", small, near, far), d));
}

/* self + value t1 t2, or t1 / t2; data: the operator */
aten_value aten_lower_addcmul(aten_args *c) {
  td_dtype d = common(c, 3);
  bool divides = strcmp(c->row->data, "aten::div") == 0;
  if (divides) d = float_of(d);
  const td_dtype long_type = between(d);
  ir_value in[3];
  for (uint32_t i = 0; i < 3; i++) in[i] = ir_build_cast(c->b, as(c, i, d), long_type);
  ir_value product = aten_binary(c->a, c->row->data, in[1], in[2]);
  product = aten_binary(c->a, "aten::mul", product, aten_get_number(c, 3, long_type));
  return aten_ret(c, ir_build_cast(c->b, aten_binary(c->a, "aten::add", in[0], product), d));
}

/* (self, min?, max?) of numbers or tensors */
aten_value aten_lower_clamp(aten_args *c) {
  uint32_t n = c->schema->count;
  td_dtype d = common(c, n);
  ir_value x = as(c, 0, d), low = IR_NO_VALUE, high = IR_NO_VALUE;
  bool only_max = strcmp(c->row->data, "max") == 0;
  if (aten_has(c, 1)) *(only_max ? &high : &low) = as(c, 1, d);
  if (n > 2 && aten_has(c, 2)) high = as(c, 2, d);
  bool wide = (low.id && ir_build_rank(c->b, low)) || (high.id && ir_build_rank(c->b, high));
  if (!wide) return aten_ret(c, IR_EMIT(c->b, "aten::clamp", x, low, high));
  if (low.id) x = aten_binary(c->a, "aten::maximum", x, low);
  if (high.id) x = aten_binary(c->a, "aten::minimum", x, high);
  return aten_ret(c, x);
}

/* (condition, self, other) */
aten_value aten_lower_where(aten_args *c) {
  aten_mix m = {0};
  ir_value condition = ir_build_cast(c->b, aten_in(c, 0), TD_BOOL);
  for (uint32_t i = 1; i < 3; i++) aten_mix_value(c->a, &m, &c->args[i]);
  td_dtype d = aten_mix_result(&m);
  return aten_ret(c, IR_EMIT(c->b, "aten::where", condition, as(c, 1, d), as(c, 2, d)));
}

/* (self, mask, value) */
aten_value aten_lower_masked_fill(aten_args *c) {
  ir_value x = aten_in(c, 0), mask = ir_build_cast(c->b, aten_in(c, 1), TD_BOOL);
  return aten_ret(c, IR_EMIT(c->b, "aten::where", mask, as(c, 2, aten_value_dtype(c->a, x)), x));
}

/* |self - other| <= atol + rtol |other|, elementwise; data "all": of all elements */
aten_value aten_lower_isclose(aten_args *c) {
  td_dtype d = common(c, 2);
  double rtol = aten_get_float(c, 2), atol = aten_get_float(c, 3);
  ir_value x = as(c, 0, d), y = as(c, 1, d), same = aten_binary(c->a, "aten::eq", x, y);
  td_dtype f = float_of(d);
  ir_value xf = ir_build_cast(c->b, x, f), yf = ir_build_cast(c->b, y, f);
  ir_value away = IR_EMIT(c->b, "aten::abs", aten_binary(c->a, "aten::sub", xf, yf));
  ir_value bound = aten_with_scalar(c->a, "aten::add",
                                    aten_with_scalar(c->a, "aten::mul", IR_EMIT(c->b, "aten::abs", yf), rtol), atol);
  ir_value near = aten_binary(c->a, "aten::logical_and", aten_binary(c->a, "aten::le", away, bound),
                              aten_with_scalar(c->a, "aten::lt", away, INFINITY));
  if (aten_get_bool(c, 4))
    near = aten_binary(
        c->a, "aten::logical_or", near,
        aten_binary(c->a, "aten::logical_and", IR_EMIT(c->b, "aten::isnan", xf), IR_EMIT(c->b, "aten::isnan", yf)));
  near = aten_binary(c->a, "aten::logical_or", same, near);
  if (!c->row->data) return aten_ret(c, near);
  return aten_number(c->a, IR_EMIT_ARGS(c->b, "aten::all", &near, 1, ARG_BOOL("keepdim", false)));
}

/* ---- activations ---- */

#define SELU_ALPHA 1.6732632423543772848170429916717
#define SELU_SCALE 1.0507009873554804934193349852946

/* (self, ...): one operand of floats, attributes of their own. */
aten_value aten_lower_relu6(aten_args *c) {
  ir_value x = aten_in(c, 0);
  return aten_ret(c, IR_EMIT(c->b, "aten::clamp", x, scalar(c, x, 0), scalar(c, x, 6)));
}
aten_value aten_lower_hardtanh(aten_args *c) {
  ir_value x = aten_in(c, 0);
  td_dtype d = aten_value_dtype(c->a, x);
  return aten_ret(c, IR_EMIT(c->b, "aten::clamp", x, aten_get_number(c, 1, d), aten_get_number(c, 2, d)));
}
static ir_value elu(aten_args *c, double alpha, double scale, double input_scale) {
  ir_value x = aten_in(c, 0);
  return IR_EMIT_ARGS(c->b, "aten::elu", &x, 1, ARG_FLOAT("alpha", alpha), ARG_FLOAT("scale", scale),
                      ARG_FLOAT("input_scale", input_scale));
}
aten_value aten_lower_elu(aten_args *c) {
  return aten_ret(c, elu(c, aten_get_float(c, 1), aten_get_float(c, 2), aten_get_float(c, 3)));
}
aten_value aten_lower_selu(aten_args *c) { return aten_ret(c, elu(c, SELU_ALPHA, SELU_SCALE, 1)); }
aten_value aten_lower_celu(aten_args *c) {
  double alpha = aten_get_float(c, 1);
  return aten_ret(c, elu(c, alpha, 1, 1 / alpha));
}
aten_value aten_lower_leaky_relu(aten_args *c) {
  ir_value x = aten_in(c, 0);
  return aten_ret(c, IR_EMIT_ARGS(c->b, "aten::leaky_relu", &x, 1, ARG_FLOAT("negative_slope", aten_get_float(c, 1))));
}
aten_value aten_lower_rrelu(aten_args *c) {
  ir_value x = aten_in(c, 0);
  if (aten_get_bool(c, 3)) aten_refuse(c, "training draws random slopes");
  double slope = (aten_get_float(c, 1) + aten_get_float(c, 2)) / 2;
  return aten_ret(c, IR_EMIT_ARGS(c->b, "aten::leaky_relu", &x, 1, ARG_FLOAT("negative_slope", slope)));
}
/* One slope, or one per channel of dimension 1. */
aten_value aten_lower_prelu(aten_args *c) {
  ir_value x = aten_in(c, 0), slope = aten_in(c, 1);
  int32_t rank = aten_rank(c->a, x);
  int64_t dims[BASE_MAX_RANK];
  if (rank > 2 && aten_rank(c->a, slope) == 1 && !ir_build_failed(c->b)) {
    for (int32_t i = 0; i < rank - 1; i++) dims[i] = i ? 1 : -1;
    slope = aten_reshape(c->a, slope, dims, (uint32_t)rank - 1);
  }
  return aten_ret(c, aten_binary(c->a, "td::prelu", x, slope));
}
aten_value aten_lower_gelu(aten_args *c) {
  ir_value x = aten_in(c, 0);
  const char *approximate = c->schema->count > 1 ? aten_get_str(c, 1) : "none";
  if (c->version > 0 && c->version < 10) approximate = "none"; /* upgrader */
  return aten_ret(c, IR_EMIT_ARGS(c->b, "aten::gelu", &x, 1, ARG_STR("approximate", approximate)));
}
aten_value aten_lower_softplus(aten_args *c) {
  ir_value x = aten_in(c, 0);
  double beta = aten_get_float(c, 1), threshold = aten_get_float(c, 2);
  ir_value scaled = beta == 1 ? x : aten_with_scalar(c->a, "aten::mul", x, beta);
  ir_value y = IR_EMIT(c->b, "aten::softplus", scaled);
  if (beta != 1) y = aten_with_scalar(c->a, "aten::div", y, beta);
  if (threshold >= 20) return aten_ret(c, y); /* there it is x in every float type that is computed in */
  return aten_ret(c, IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::gt", scaled, threshold), x, y));
}
aten_value aten_lower_hardsigmoid(aten_args *c) {
  ir_value x = aten_in(c, 0);
  return aten_ret(c,
                  IR_EMIT_ARGS(c->b, "td::hard_sigmoid", &x, 1, ARG_FLOAT("alpha", 1.0 / 6), ARG_FLOAT("beta", 0.5)));
}
/* data "hard": x outside of [-lambd, lambd], else 0; "soft": nearer to 0 by lambd */
aten_value aten_lower_shrink(aten_args *c) {
  ir_value x = aten_in(c, 0);
  double lambd = aten_get_float(c, 1);
  bool soft = strcmp(c->row->data, "soft") == 0;
  return aten_ret(
      c, IR_EMIT_ARGS(c->b, "td::shrink", &x, 1, ARG_FLOAT("lambd", lambd), ARG_FLOAT("bias", soft ? lambd : 0)));
}
aten_value aten_lower_threshold(aten_args *c) {
  ir_value x = aten_in(c, 0);
  td_dtype d = aten_value_dtype(c->a, x);
  ir_value stays = aten_binary(c->a, "aten::gt", x, aten_get_number(c, 1, d));
  return aten_ret(c, IR_EMIT(c->b, "aten::where", stays, x, aten_get_number(c, 2, d)));
}
aten_value aten_lower_glu(aten_args *c) {
  ir_value x = aten_in(c, 0), half[2];
  int64_t dim = aten_get_int(c, 1);
  for (int64_t i = 0; i < 2; i++)
    half[i] = IR_EMIT_ARGS(c->b, "td::chunk", &x, 1, ARG_INT("dim", dim), ARG_INT("parts", 2), ARG_INT("index", i),
                           ARG_BOOL("even", true));
  return aten_ret(c, aten_binary(c->a, "aten::mul", half[0], IR_EMIT(c->b, "aten::sigmoid", half[1])));
}
/* log(x / (1 - x)), x kept in [eps, 1 - eps] */
aten_value aten_lower_logit(aten_args *c) {
  ir_value x = aten_in(c, 0);
  x = ir_build_cast(c->b, x, float_of(aten_value_dtype(c->a, x)));
  if (aten_has(c, 1)) {
    double eps = aten_get_float(c, 1);
    ir_value low = scalar(c, x, eps), high = scalar(c, x, 1 - eps);
    if (eps <= 0.5) x = IR_EMIT(c->b, "aten::clamp", x, low, high);
    else x = IR_EMIT(c->b, "aten::where", aten_binary(c->a, "aten::lt", x, low), low, high); /* they cross */
  }
  ir_value rest = aten_binary(c->a, "aten::sub", scalar(c, x, 1), x);
  return aten_ret(c, IR_EMIT(c->b, "aten::log", aten_binary(c->a, "aten::div", x, rest)));
}

/* (self, p, train): inference leaves it out. */
aten_value aten_lower_dropout(aten_args *c) {
  if (aten_get_bool(c, 2) && aten_get_float(c, 1) != 0) aten_refuse(c, "training drops elements at random");
  return c->args[0];
}
