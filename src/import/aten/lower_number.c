/* lower_number.c -- arithmetic on single numbers: folded where they are known, else operators on rank-0 values. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_float(const aten_value *v) { return v->kind == ATEN_FLOAT; }
static double f(const aten_value *v) {
  return v->kind == ATEN_FLOAT ? v->u.f : v->kind == ATEN_BOOL ? v->u.b : (double)v->u.i;
}
static int64_t i(const aten_value *v) {
  return v->kind == ATEN_BOOL ? v->u.b : v->kind == ATEN_FLOAT ? aten_whole(v->u.f) : v->u.i;
}

/* ---- two numbers ---- */

static int64_t wrap_add(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
static int64_t wrap_sub(int64_t x, int64_t y) { return (int64_t)((uint64_t)x - (uint64_t)y); }
static int64_t wrap_mul(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
static int64_t floor_div(int64_t x, int64_t y) {
  if (y == 0 || (x == INT64_MIN && y == -1)) return 0;
  int64_t q = x / y;
  return q - (x % y != 0 && (x < 0) != (y < 0));
}
static int64_t floor_mod(int64_t x, int64_t y) {
  return y == 0 || y == -1 ? 0 : wrap_sub(x, wrap_mul(floor_div(x, y), y));
}
static int64_t trunc_mod(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
static int64_t int_pow(int64_t x, int64_t y) {
  int64_t r = 1;
  for (; y > 0; y >>= 1, x = wrap_mul(x, x))
    if (y & 1) r = wrap_mul(r, x);
  return r;
}
static int64_t bit_and(int64_t x, int64_t y) { return x & y; }
static int64_t bit_or(int64_t x, int64_t y) { return x | y; }
static int64_t bit_xor(int64_t x, int64_t y) { return x ^ y; }
static int64_t shift_left(int64_t x, int64_t y) { return y < 0 || y > 63 ? 0 : (int64_t)((uint64_t)x << y); }
static int64_t shift_right(int64_t x, int64_t y) { return x >> (y < 0 || y > 63 ? 63 : y); }
static int64_t int_max(int64_t x, int64_t y) { return x > y ? x : y; }
static int64_t int_min(int64_t x, int64_t y) { return x < y ? x : y; }

static double add(double x, double y) { return x + y; }
static double sub(double x, double y) { return x - y; }
static double mul(double x, double y) { return x * y; }
static double div_f(double x, double y) { return x / y; }
static double float_floor_div(double x, double y) { return floor(x / y); }
static double float_mod(double x, double y) {
  double m = fmod(x, y);
  return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}
static double ceil_div(double x, double y) { return ceil(x / y); }

typedef struct binary_row {
  const char *name;
  int64_t (*whole)(int64_t, int64_t); /* NULL: whole numbers go as floats */
  double (*real)(double, double);     /* NULL: of whole numbers alone */
  const char *op, *mode;              /* of the graph; mode: of aten::div */
  bool is_power;                      /* whole to a negative power is a float */
} binary_row;
static const binary_row binary_rows[] = {
    {"add", wrap_add, add, "aten::add", NULL, false},
    {"sub", wrap_sub, sub, "aten::sub", NULL, false},
    {"mul", wrap_mul, mul, "aten::mul", NULL, false},
    {"div", NULL, div_f, "aten::div", NULL, false},
    {"floor_divide", floor_div, float_floor_div, "aten::div", "floor", false},
    {"ceil_divide", NULL, ceil_div, NULL, NULL, false},
    {"remainder", floor_mod, float_mod, "aten::remainder", NULL, false},
    {"fmod", NULL, fmod, "aten::fmod", NULL, false},
    {"int_fmod", trunc_mod, fmod, "aten::fmod", NULL, false},
    {"pow", int_pow, pow, "aten::pow", NULL, true},
    {"max", int_max, fmax, "aten::maximum", NULL, false},
    {"min", int_min, fmin, "aten::minimum", NULL, false},
    {"and", bit_and, NULL, "aten::bitwise_and", NULL, false},
    {"or", bit_or, NULL, "aten::bitwise_or", NULL, false},
    {"xor", bit_xor, NULL, "aten::bitwise_xor", NULL, false},
    {"lshift", shift_left, NULL, "aten::__lshift__", NULL, false},
    {"rshift", shift_right, NULL, "aten::__rshift__", NULL, false},
    {"atan2", NULL, atan2, "aten::atan2", NULL, false},
    {"copysign", NULL, copysign, NULL, NULL, false},
};

static const binary_row *find_binary(const char *name) {
  for (size_t k = 0; k < sizeof binary_rows / sizeof *binary_rows; k++)
    if (strcmp(binary_rows[k].name, name) == 0) return &binary_rows[k];
  return NULL;
}

static aten_value binary(aten *a, const char *name, const aten_value *x, const aten_value *y) {
  const binary_row *row = find_binary(name);
  bool logic = x->kind == ATEN_BOOL && y->kind == ATEN_BOOL && row && !row->real; /* and, or, xor */
  if (ir_build_failed(a->b)) return ATEN_NOTHING;
  bool real = row && (is_float(x) || is_float(y) || !row->whole);
  bool known = aten_is_known(x) && aten_is_known(y);
  if (known && row && row->is_power && !real && i(y) < 0) real = true;
  if (!row || (real && !row->real)) {
    ir_build_fail(a->b, TD_UNSUPPORTED, "%s of %s and %s", name, aten_kind_name(x), aten_kind_name(y));
    return ATEN_NOTHING;
  }
  if (known) {
    bool divides = row->whole == floor_div || row->whole == floor_mod || row->whole == trunc_mod || row->real == div_f;
    if (divides && f(y) == 0 && !(real && row->real == div_f && is_float(y))) {
      ir_build_fail(a->b, TD_UNSUPPORTED, "division by zero");
      return ATEN_NOTHING;
    }
    if (real) return aten_float(row->real(f(x), f(y)));
    return logic ? aten_bool(row->whole(i(x), i(y)) != 0) : aten_int(row->whole(i(x), i(y)));
  }
  if (!row->op) {
    ir_build_fail(a->b, TD_UNSUPPORTED, "%s of numbers that are known only when the model runs", name);
    return ATEN_NOTHING;
  }
  td_dtype d = logic ? TD_BOOL : real ? TD_F64 : TD_I64;
  ir_value in[] = {aten_number_value(a, x, d), aten_number_value(a, y, d)};
  const char *op = !logic                  ? row->op
                   : row->whole == bit_and ? "aten::logical_and"
                   : row->whole == bit_or  ? "aten::logical_or"
                                           : "aten::logical_xor";
  base_arg mode = ARG_STR("rounding_mode", row->mode ? row->mode : "");
  return aten_number(a, ir_emit(a->b, op, in, 2, &mode, row->mode ? 1 : 0));
}

aten_value aten_int_op(aten *a, const char *op, aten_value x, aten_value y) { return binary(a, op, &x, &y); }

/* Numbers of which one at least is complex. */
static aten_value complex_binary(aten_args *c, const aten_value *x, const aten_value *y) {
  const bool both = x->kind == ATEN_COMPLEX && y->kind == ATEN_COMPLEX;
  if (!both && !aten_is_known(x->kind == ATEN_COMPLEX ? y : x)) aten_refuse(c, "of numbers that only running tells");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  const double a = x->kind == ATEN_COMPLEX ? aten_complex_of(x).re : f(x), b = aten_complex_of(x).im,
               p = y->kind == ATEN_COMPLEX ? aten_complex_of(y).re : f(y), q = aten_complex_of(y).im,
               square = p * p + q * q;
  const struct {
    const char *name;
    double re, im;
  } results[] = {{"add", a + p, b + q},
                 {"sub", a - p, b - q},
                 {"mul", a * p - b * q, a * q + b * p},
                 {"div", (a * p + b * q) / square, (b * p - a * q) / square}};
  for (size_t i = 0; i < sizeof results / sizeof *results; i++)
    if (strcmp(results[i].name, c->row->data) == 0) return aten_complex(c->a, results[i].re, results[i].im);
  aten_refuse(c, "of complex numbers");
  return ATEN_NOTHING;
}

aten_value aten_lower_number_binary(aten_args *c) {
  const aten_value *x = &c->args[0], *y = &c->args[1];
  if (x->kind == ATEN_COMPLEX || y->kind == ATEN_COMPLEX) return complex_binary(c, x, y);
  return binary(c->a, c->row->data, x, y);
}

/* ---- comparisons ---- */

typedef struct compare_row {
  const char *name, *op;
  bool less, equal, greater;
} compare_row;
static const compare_row compare_rows[] = {
    {"eq", "aten::eq", false, true, false}, {"ne", "aten::ne", true, false, true},
    {"lt", "aten::lt", true, false, false}, {"le", "aten::le", true, true, false},
    {"gt", "aten::gt", false, false, true}, {"ge", "aten::ge", false, true, true}};

static const compare_row *find_compare(const char *name) {
  for (size_t k = 0; k < sizeof compare_rows / sizeof *compare_rows; k++)
    if (strcmp(compare_rows[k].name, name) == 0) return &compare_rows[k];
  return NULL;
}
static bool is_number(const aten_value *v) {
  return v->kind == ATEN_INT || v->kind == ATEN_FLOAT || v->kind == ATEN_BOOL;
}

/* One value of the domain against another; texts and lists compare too. */
static aten_value compare(aten *a, const compare_row *row, const aten_value *x, const aten_value *y) {
  if (is_number(x) && is_number(y)) {
    bool real = is_float(x) || is_float(y);
    if (aten_is_known(x) && aten_is_known(y)) {
      bool less = real ? f(x) < f(y) : i(x) < i(y), equal = real ? f(x) == f(y) : i(x) == i(y);
      bool greater = real ? f(x) > f(y) : i(x) > i(y);
      if (!less && !equal && !greater) return aten_bool(row->less && row->greater); /* NaN: only != holds */
      return aten_bool((less && row->less) || (equal && row->equal) || (greater && row->greater));
    }
    td_dtype d = real ? TD_F64 : TD_I64;
    return aten_number(a, aten_binary(a, row->op, aten_number_value(a, x, d), aten_number_value(a, y, d)));
  }
  bool texts = x->kind == ATEN_STR && y->kind == ATEN_STR && aten_is_known(x) && aten_is_known(y);
  if (texts && row->less != row->greater) {
    const base_str s = aten_str_of(x), t = aten_str_of(y);
    size_t n = s.length < t.length ? s.length : t.length;
    int order = n ? memcmp(s.at, t.at, n) : 0;
    if (!order) order = (s.length > t.length) - (s.length < t.length);
    return aten_bool((order < 0 && row->less) || (order == 0 && row->equal) || (order > 0 && row->greater));
  }
  if (row->less != row->greater) {
    ir_build_fail(a->b, TD_UNSUPPORTED, "%s of %s and %s", row->name, aten_kind_name(x), aten_kind_name(y));
    return ATEN_NOTHING;
  }
  return aten_bool(aten_same(x, y) == row->equal);
}

/* Two items of lists; tensors have one element, as PyTorch wants it. */
static aten_value same_items(aten *a, const aten_value *x, const aten_value *y) {
  if (x->kind != ATEN_TENSOR || y->kind != ATEN_TENSOR) return compare(a, find_compare("eq"), x, y);
  aten_value same = aten_call(a, "aten::eq", NULL, (aten_value[]){*x, *y}, 2, NULL, 0);
  return aten_call(a, "aten::Bool", NULL, &same, 1, NULL, 0);
}

/* Lists of numbers that only running knows are compared element by element. */
static aten_value compare_lists(aten *a, const compare_row *row, const aten_value *x, const aten_value *y) {
  const aten_list *p = x->u.list, *q = y->u.list;
  aten_value all = aten_bool(true);
  bool same = p->items.count == q->items.count;
  for (uint32_t k = 0; same && k < p->items.count; k++) {
    aten_value one = same_items(a, &p->items.at[k], &q->items.at[k]);
    all = aten_is_known(&one) && one.u.b ? all : aten_is_known(&all) && all.u.b ? one : binary(a, "and", &all, &one);
  }
  if (!same) all = aten_bool(false);
  if (row->equal) return all;
  return aten_is_known(&all) ? aten_bool(!all.u.b) : aten_number(a, IR_EMIT(a->b, "aten::logical_not", all.graph));
}

aten_value aten_is_among(aten *a, const aten_list *items, const aten_value *item) {
  aten_value any = aten_bool(false);
  for (uint32_t k = 0; k < items->items.count; k++) {
    aten_value one = compare(a, find_compare("eq"), &items->items.at[k], item);
    if (aten_is_known(&one) && one.u.b) return one;
    if (!aten_is_known(&one)) any = aten_is_known(&any) ? one : binary(a, "or", &any, &one);
  }
  return any;
}

aten_value aten_lower_number_compare(aten_args *c) {
  const compare_row *row = find_compare(c->row->data);
  const aten_value *x = &c->args[0], *y = &c->args[1];
  bool lists =
      (x->kind == ATEN_LIST || x->kind == ATEN_TUPLE) && y->kind == x->kind && aten_is_known(x) && aten_is_known(y);
  if (lists && row->less == row->greater) return compare_lists(c->a, row, x, y);
  return compare(c->a, row, x, y);
}

/* ---- one number ---- */

static double round_even(double x) { return nearbyint(x); }
static double negate(double x) { return -x; }

typedef struct unary_row {
  const char *name, *op;
  double (*real)(double);
  bool to_int; /* the result is an int */
  bool keeps;  /* of a whole number: a whole number */
} unary_row;
static const unary_row unary_rows[] = {
    {"neg", "aten::neg", negate, false, true},         {"abs", "aten::abs", fabs, false, true},
    {"ceil", "aten::ceil", ceil, true, true},          {"floor", "aten::floor", floor, true, true},
    {"round", "aten::round", round_even, false, true}, {"round_int", "aten::round", round_even, true, true},
    {"trunc", "aten::trunc", trunc, true, true},       {"sqrt", "aten::sqrt", sqrt, false, false},
    {"exp", "aten::exp", exp, false, false},           {"log", "aten::log", log, false, false},
    {"log2", "aten::log2", log2, false, false},        {"log10", "aten::log10", log10, false, false},
    {"log1p", "aten::log1p", log1p, false, false},     {"expm1", "aten::expm1", expm1, false, false},
    {"sin", "aten::sin", sin, false, false},           {"cos", "aten::cos", cos, false, false},
    {"tan", "aten::tan", tan, false, false},           {"asin", "aten::asin", asin, false, false},
    {"acos", "aten::acos", acos, false, false},        {"atan", "aten::atan", atan, false, false},
    {"sinh", "aten::sinh", sinh, false, false},        {"cosh", "aten::cosh", cosh, false, false},
    {"tanh", "aten::tanh", tanh, false, false},        {"erf", "aten::erf", erf, false, false}};

aten_value aten_lower_number_unary(aten_args *c) {
  const aten_value *x = &c->args[0];
  const unary_row *row = NULL;
  for (size_t k = 0; k < sizeof unary_rows / sizeof *unary_rows; k++)
    if (strcmp(unary_rows[k].name, c->row->data) == 0) row = &unary_rows[k];
  if (x->kind == ATEN_COMPLEX && row && row->real == negate)
    return aten_complex(c->a, -aten_complex_of(x).re, -aten_complex_of(x).im);
  if (!row || !is_number(x)) {
    aten_refuse(c, "of %s", aten_kind_name(x));
    return ATEN_NOTHING;
  }
  bool whole = !is_float(x);
  if (aten_is_known(x)) {
    if (whole && row->keeps)
      return aten_int(row->real == negate             ? wrap_sub(0, i(x))
                      : row->real == fabs && i(x) < 0 ? wrap_sub(0, i(x))
                                                      : i(x));
    double y = row->real(f(x));
    if (!row->to_int) return aten_float(y);
    return fabs(y) < 0x1p63 ? aten_int((int64_t)y) : aten_int(INT64_MAX);
  }
  bool stays = whole && row->keeps && row->real != negate && row->real != fabs;
  if (stays) return *x;
  ir_value v = aten_number_value(c->a, x, whole && row->keeps ? TD_I64 : TD_F64);
  v = IR_EMIT(c->b, row->op, v);
  return aten_number(c->a, row->to_int ? ir_build_cast(c->b, v, TD_I64) : v);
}

/* round(a, ndigits?): half to even, of the number scaled by a power of ten; without digits, or of an int, an int */
aten_value aten_lower_number_round(aten_args *c) {
  const bool has_digits = aten_has(c, 1), whole = !has_digits || !is_float(&c->args[0]);
  const int64_t digits = has_digits ? aten_get_int(c, 1) : 0;
  if (!is_float(&c->args[0]) && digits >= 0) return c->args[0];
  aten_value args[] = {c->args[0], aten_float(pow(10, fabs((double)digits)))};
  args[0] = binary(c->a, digits < 0 ? "div" : "mul", &args[0], &args[1]);
  args[0] = aten_call(c->a, "aten::round", "number", args, 1, NULL, 0);
  const aten_value y = binary(c->a, digits < 0 ? "mul" : "div", &args[0], &args[1]);
  return whole ? aten_call(c->a, "torch::sym_int", NULL, &y, 1, NULL, 0) : y;
}

aten_value aten_lower_number_not(aten_args *c) {
  const aten_value *x = &c->args[0];
  if (aten_is_known(x)) return aten_bool(!(x->kind == ATEN_BOOL ? x->u.b : f(x) != 0));
  return aten_number(c->a, IR_EMIT(c->b, "aten::logical_not", x->graph));
}

/* torch.sym_ite(cond, a, b) */
aten_value aten_lower_number_choose(aten_args *c) {
  const aten_value *cond = &c->args[0], *x = &c->args[1], *y = &c->args[2];
  if (aten_is_known(cond)) return (cond->kind == ATEN_BOOL ? cond->u.b : f(cond) != 0) ? *x : *y;
  if (x->kind == ATEN_TENSOR || y->kind == ATEN_TENSOR || x->kind != y->kind)
    aten_refuse(c, "of a %s and a %s", aten_kind_name(x), aten_kind_name(y));
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  td_dtype d = x->kind == ATEN_FLOAT ? TD_F64 : x->kind == ATEN_BOOL ? TD_BOOL : TD_I64;
  return aten_number(
      c->a, IR_EMIT(c->b, "aten::where", cond->graph, aten_number_value(c->a, x, d), aten_number_value(c->a, y, d)));
}
/* torch.sym_sum(numbers) */
aten_value aten_lower_number_sum(aten_args *c) {
  const aten_value *items = aten_items(c, 0);
  aten_value sum = aten_int(0);
  for (uint32_t k = 0; k < aten_list_count(c, 0) && !ir_build_failed(c->b); k++)
    sum = binary(c->a, "add", &sum, &items[k]);
  return sum;
}

/* isnan, isinf, isfinite of a float; data */
aten_value aten_lower_number_test(aten_args *c) {
  const aten_value *x = &c->args[0];
  const char *what = c->row->data;
  if (!aten_is_known(x)) aten_refuse(c, "of a number that is known only when the model runs");
  double v = f(x);
  return aten_bool(strcmp(what, "nan") == 0 ? isnan(v) : strcmp(what, "inf") == 0 ? isinf(v) : isfinite(v));
}

/* ---- conversions: int(), float(), bool(), complex ... of a number, a text, or a tensor of one element ---- */

static aten_value of_text(aten_args *c, char kind) {
  base_str s = aten_str_of(&c->args[0]);
  int64_t whole = 0;
  if (kind == 'i' && base_str_int(s, &whole)) return aten_int(whole);
  char *text = aten_alloc(c->a, s.length + 1);
  double real = 0;
  if (!text) return ATEN_NOTHING;
  if (s.length) memcpy(text, s.at, s.length);
  char *end = text;
  if (kind == 'f') real = strtod(text, &end);
  if (end != text && !*end) return aten_float(real);
  aten_refuse(c, "the text \"%s\" is no number", text);
  return ATEN_NOTHING;
}

/* data: "i", "f", "b", or "s": as it is (item) */
aten_value aten_lower_number_cast(aten_args *c) {
  static const td_dtype dtypes[] = {['i'] = TD_I64, ['f'] = TD_F64, ['b'] = TD_BOOL};
  const aten_value *x = &c->args[0];
  char kind = c->row->data[0];
  if (x->kind == ATEN_STR) return of_text(c, kind);
  if (x->kind == ATEN_TENSOR) {
    ir_value v = aten_in(c, 0);
    v = ir_build_to_scalar(c->b, v, aten_value_dtype(c->a, v), "the tensor");
    return aten_number(c->a, kind == 's' ? v : ir_build_cast(c->b, v, dtypes[(int)kind]));
  }
  if (kind == 's') return *x;
  if (!aten_is_known(x)) return aten_number(c->a, ir_build_cast(c->b, x->graph, dtypes[(int)kind]));
  if (kind == 'b') return aten_bool(f(x) != 0);
  if (kind == 'f') return aten_float(f(x));
  if (is_float(x) && !(fabs(x->u.f) < 0x1p63)) aten_refuse(c, "%g as an int", x->u.f);
  return aten_int(ir_build_failed(c->b) ? 0 : i(x));
}

/* ---- loops over ranges ---- */

/* (lo, hi, step): how many numbers a range has */
aten_value aten_lower_range_length(aten_args *c) {
  aten_value lo = c->args[0], hi = c->args[1], step = c->args[2], one = aten_int(1), zero = aten_int(0);
  if (!aten_is_known(&step)) aten_refuse(c, "the step must be known before the model runs");
  if (aten_is_known(&step) && step.u.i == 0) aten_refuse(c, "a step of 0");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  aten *a = c->a;
  aten_value away = step.u.i > 0 ? binary(a, "sub", &hi, &lo) : binary(a, "sub", &lo, &hi);
  aten_value by = aten_int(step.u.i > 0 ? step.u.i : -base_max_i64(step.u.i, -INT64_MAX)), n = away;
  if (by.u.i != 1) { /* steps behind the first number, and that */
    const aten_value rest = binary(a, "sub", &away, &one), steps = binary(a, "floor_divide", &rest, &by);
    n = binary(a, "add", &steps, &one);
  }
  return binary(a, "max", &n, &zero);
}
/* (index, start, step) */
aten_value aten_lower_derive_index(aten_args *c) {
  aten_value at = binary(c->a, "mul", &c->args[0], &c->args[2]);
  return binary(c->a, "add", &c->args[1], &at);
}

/* ---- of lists of numbers: min, max, sum, all, any; data ---- */
aten_value aten_lower_number_fold(aten_args *c) {
  uint32_t count = aten_list_count(c, 0);
  const aten_value *items = aten_items(c, 0);
  const char *how = c->row->data;
  aten_value r = strcmp(how, "and") == 0 ? aten_bool(true) : strcmp(how, "or") == 0 ? aten_bool(false) : aten_int(0);
  bool starts = strcmp(how, "max") == 0 || strcmp(how, "min") == 0;
  if (starts && !count) aten_refuse(c, "an empty list");
  for (uint32_t k = 0; k < count && !ir_build_failed(c->b); k++) {
    aten_value item = items[k];
    if (r.kind == ATEN_BOOL && item.kind != ATEN_BOOL) {
      aten_value zero = aten_int(0);
      item = compare(c->a, find_compare("ne"), &item, &zero);
    }
    r = starts && !k ? item : binary(c->a, how, &r, &item);
  }
  return r;
}
