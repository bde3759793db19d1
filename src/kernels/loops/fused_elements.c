/* fused_elements.c -- the functions of scalar.def an element at a time: of types that the wide interpreter has no
 * vectors for, and functions that no vectors have. Small rather than fast: floats go through one function per row in
 * double, whole numbers through one loop per row and width; what generated code does often it does in vectors of its
 * own. */
#include "kernels/loops/loops.h"

#include <math.h>
#include <string.h>

/* ---- floats: in double, rounded once ---- */

/* clang-format off */
#define v_set(x) (x)
#define v_zero() 0.0
#define v_abs(x) fabs(x)
#define v_ceil(x) ceil(x)
#define v_floor(x) floor(x)
#define v_round(x) nearbyint(x)
#define v_sqrt(x) sqrt(x)
#define v_exp(x) exp(x)
#define v_exp_flush(x) exp(x)
#define v_log(x) log(x)
#define v_log2(x) log2(x)
#define v_log10(x) log10(x)
#define v_erf(x) erf(x)
#define v_tanh(x) tanh(x)
#define v_expm1(x) expm1(x)
#define v_expm1_low(x) expm1(x)
#define v_log1p(x) log1p(x)
#define v_sin(x) sin(x)
#define v_cos(x) cos(x)
#define v_acos(x) acos(x)
#define v_asin(x) asin(x)
#define v_atan(x) atan(x)
#define v_atan2(x, y) atan2(x, y)
#define v_cosh(x) cosh(x)
#define v_sinh(x) sinh(x)
#define v_erfc(x) erfc(x)
#define v_neg(x) (-(x))
#define v_add(x, y) ((x) + (y))
#define v_sub(x, y) ((x) - (y))
#define v_mul(x, y) ((x) * (y))
#define v_div(x, y) ((x) / (y))
#define v_over(x, y) ((x) / (y))
#define v_eq(x, y) ((x) == (y))
#define v_lt(x, y) ((x) < (y))
#define v_le(x, y) ((x) <= (y))
#define v_min(x, y) ((x) < (y) ? (x) : (y))
#define v_max(x, y) ((x) > (y) ? (x) : (y))
#define v_select(m, x, y) ((m) ? (x) : (y))
#define v_copysign(x, y) copysign(x, y)
#define v_truth(m) ((m) ? 1.0 : 0.0)
#define v_untruth(m) ((m) ? 0.0 : 1.0)
#define v_div_trunc(x, y) trunc((x) / (y))
#define v_fmod(x, y) fmod(x, y)
#define v_pow(x, y) pow(x, y)
/* clang-format on */

static double v_logaddexp(double x, double y) {
  const double most = x != x || x > y ? x : y, distance = fabs(x - y);
  return most - most == 0 ? most + log1p(exp(-distance)) : most;
}

/* As v_max(limit, x) and v_min(limit, x): a NaN in x is let through. */
static double v_clamp(double low, double high, double x) {
  const double least = x < low ? low : x;
  return least > high ? high : least;
}
static double v_round_f16(double x) { return base_f16_to_f32(base_f64_to_f16(x)); }
static double v_round_bf16(double x) { return base_bf16_to_f32(base_f64_to_bf16(x)); }
static double v_relu(double x) { return x < 0 ? 0 : x; }
static double v_leaky_relu(double a, double x) { return x < 0 ? a * x : x; }
static double v_sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double v_silu(double x) { return x * v_sigmoid(x); }
static double v_softplus(double x) { return (x > 0 ? x : x == x ? 0 : x) + log1p(exp(-fabs(x))); }
static double v_mish(double x) { return x * tanh(v_softplus(x)); }
static double v_softsign(double x) { return x / (1 + fabs(x)); }
static double v_hard_sigmoid(double a, double b, double x) { return v_clamp(0, 1, a * x + b); }
static double v_hardswish(double x) { return x * v_clamp(0, 1, x / 6 + 0.5); }
static double v_gelu(double x) { return 0.5 * x * (1 + erf(x * 0.70710678118654752440)); }
static double v_gelu_tanh(double x) {
  const double inner = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + tanh(inner));
}
static double v_remainder(double x, double y) {
  const double rest = fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
/* Floor of the exact quotient: x / y may round up to the next whole number. */
static double v_div_floor(double x, double y) {
  const double q = (x - v_remainder(x, y)) / y, f = floor(q);
  return y == 0 ? x / y : q - f > 0.5 ? f + 1 : f;
}

typedef double (*float_fn)(double x, double y, double z, const double *p);
#define FUNCTION(function, value)                                                 \
  static double float_##function(double x, double y, double z, const double *p) { \
    const double a = p[0], b = p[1], c = p[2];                                    \
    (void)x, (void)y, (void)z, (void)a, (void)b, (void)c;                         \
    return value;                                                                 \
  }
/* Of rows that are for other types alone, or for several at once, there is nothing. */
#define IF_FLOAT(X, ...) X(__VA_ARGS__)
#define IF_NUMBER(X, ...) X(__VA_ARGS__)
#define IF_WHOLE(X, ...)
#define IF_BITS(X, ...)
#define IF_ANY(X, ...)
#define UNARY(family, function, types, work, value) IF_##types(FUNCTION, function, value)
#define BINARY(family, function, types, work, value) IF_##types(FUNCTION, function, value)
#define PURE(function, operands, types, gives, work, value) IF_##types(FUNCTION, function, value)
#define PLAIN(function, operands, types, work, value) IF_##types(FUNCTION, function, value)
#include "base/scalar.def"

static const float_fn float_functions[BASE_SCALAR_COUNT] = {
#define FUNCTION_ROW(function) [BASE_SCALAR_##function] = float_##function,
#define UNARY(family, function, types, work, value) IF_##types(FUNCTION_ROW, function)
#define BINARY(family, function, types, work, value) IF_##types(FUNCTION_ROW, function)
#define PURE(function, operands, types, gives, work, value) IF_##types(FUNCTION_ROW, function)
#define PLAIN(function, operands, types, work, value) IF_##types(FUNCTION_ROW, function)
#include "base/scalar.def"
};

#define FLOAT_LOOPS(name, type, rounded)                                                                          \
  static void name(float_fn f, bool truth, const double *p, void *out, const kern_fused_source *in, int64_t n) {  \
    const type *x = in[0].at, *y = in[1].at, *z = in[2].at;                                                       \
    for (int64_t i = 0; i < n; i++) {                                                                             \
      const double value = f((double)x[i * in[0].step], (double)y[i * in[1].step], (double)z[i * in[2].step], p); \
      if (truth) ((int32_t *)out)[i] = -(value != 0);                                                             \
      else ((type *)out)[i] = (rounded)value;                                                                     \
    }                                                                                                             \
  }
FLOAT_LOOPS(apply_f32, base_f32, float)
FLOAT_LOOPS(apply_f64, base_f64, double)

/* ---- whole numbers: in int64; those of 32 bits are cut, and wrap so ---- */

static int64_t wrapped(uint64_t x) { return (int64_t)x; }
static int64_t whole_rest(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
static int64_t whole_quotient(int64_t x, int64_t y) {
  if (y == 0) return 0;
  return y == -1 ? wrapped(0 - (uint64_t)x) : x / y;
}
static int64_t whole_floor(int64_t x, int64_t y) {
  return whole_quotient(x, y) - (whole_rest(x, y) != 0 && (x < 0) != (y < 0));
}
static int64_t whole_remainder(int64_t x, int64_t y) {
  const int64_t rest = whole_rest(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
static int64_t whole_power(int64_t x, int64_t y) {
  uint64_t power = 1, base = (uint64_t)x;
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  for (uint64_t rest = (uint64_t)y; rest; rest >>= 1, base *= base)
    if (rest & 1) power *= base;
  return wrapped(power);
}

#undef v_abs
#undef v_neg
#undef v_add
#undef v_sub
#undef v_mul
#undef v_truth
#undef v_untruth
#undef v_div_trunc
#undef v_fmod
#undef v_pow
#define v_abs(x) ((x) < 0 ? wrapped(0 - (uint64_t)(x)) : (x))
#define v_neg(x) wrapped(0 - (uint64_t)(x))
#define v_add(x, y) wrapped((uint64_t)(x) + (uint64_t)(y))
#define v_sub(x, y) wrapped((uint64_t)(x) - (uint64_t)(y))
#define v_mul(x, y) wrapped((uint64_t)(x) * (uint64_t)(y))
#define v_relu(x) v_max(x, 0)
#define v_truth(m) (-(int64_t)(m))
#define v_untruth(m) ((int64_t)(m)-1)
#define v_bit_and(x, y) ((x) & (y))
#define v_bit_or(x, y) ((x) | (y))
#define v_bit_xor(x, y) ((x) ^ (y))
#define v_bit_not(x) (~(x))
#define v_shift_left(x, y) ((uint64_t)(y) > 63 ? 0 : wrapped((uint64_t)(x) << (y)))
#define v_shift_right(x, y) ((x) >> ((uint64_t)(y) > 63 ? 63 : (y)))
#define v_div_floor(x, y) whole_floor(x, y)
#define v_div_trunc(x, y) whole_quotient(x, y)
#define v_remainder(x, y) whole_remainder(x, y)
#define v_fmod(x, y) whole_rest(x, y)
#define v_pow(x, y) whole_power(x, y)

typedef void (*whole_loop)(void *out, const kern_fused_source *in, int64_t n);
#define WHOLE_LOOP(name, type, result, value)                               \
  static void name(void *to, const kern_fused_source *in, int64_t n) {      \
    result *out = to;                                                       \
    const type *from_x = in[0].at, *from_y = in[1].at;                      \
    for (int64_t i = 0; i < n; i++) {                                       \
      const int64_t x = from_x[i * in[0].step], y = from_y[i * in[1].step]; \
      (void)y;                                                              \
      out[i] = (result)(value);                                             \
    }                                                                       \
  }
typedef base_i64 SAME; /* of i64; of i32 both are words */
typedef base_i32 TRUTH;
#define WHOLE_LOOPS(function, narrow, wide, value)       \
  WHOLE_LOOP(narrow_##function, base_i32, narrow, value) \
  WHOLE_LOOP(wide_##function, base_i64, wide, value)
#undef IF_FLOAT
#undef IF_WHOLE
#undef IF_BITS
#define IF_FLOAT(X, ...)
#define IF_WHOLE(X, ...) X(__VA_ARGS__)
#define IF_BITS(X, ...) X(__VA_ARGS__)
#define UNARY(family, function, types, work, value) IF_##types(WHOLE_LOOPS, function, base_i32, base_i64, value)
#define BINARY(family, function, types, work, value) IF_##types(WHOLE_LOOPS, function, base_i32, base_i64, value)
#define PURE(function, operands, types, gives, work, value) IF_##types(WHOLE_LOOPS, function, base_i32, gives, value)
#define PLAIN(function, operands, types, work, value) IF_##types(WHOLE_LOOPS, function, base_i32, base_i64, value)
#include "base/scalar.def"

static const struct {
  whole_loop narrow, wide;
} whole_loops[BASE_SCALAR_COUNT] = {
#define BOTH(function) [BASE_SCALAR_##function] = {narrow_##function, wide_##function},
#define UNARY(family, function, types, work, value) IF_##types(BOTH, function)
#define BINARY(family, function, types, work, value) IF_##types(BOTH, function)
#define PURE(function, operands, types, gives, work, value) IF_##types(BOTH, function)
#define PLAIN(function, operands, types, work, value) IF_##types(BOTH, function)
#include "base/scalar.def"
};

/* ---- between types ---- */

/* Toward zero, and at the ends of the type; a NaN is 0. */
static int64_t whole_of(double x) { return base_load_i64(TD_F64, &x, 0); }
static int32_t narrow_of(double x) {
  const int64_t whole = whole_of(x);
  return (int32_t)(whole < INT32_MIN ? INT32_MIN : whole > INT32_MAX ? INT32_MAX : whole);
}

#define CAST(name, from_type, to_type, value)                          \
  static void name(void *to, const kern_fused_source *in, int64_t n) { \
    const from_type *from = in[0].at;                                  \
    to_type *out = to;                                                 \
    for (int64_t i = 0; i < n; i++) {                                  \
      const from_type x = from[i * in[0].step];                        \
      out[i] = (to_type)(value);                                       \
    }                                                                  \
  }
CAST(f32_to_f64, base_f32, base_f64, x)
CAST(f32_to_i32, base_f32, base_i32, narrow_of((double)x))
CAST(f32_to_i64, base_f32, base_i64, whole_of((double)x))
CAST(f32_to_bool, base_f32, base_i32, -(x != 0))
CAST(f64_to_f32, base_f64, base_f32, x)
CAST(f64_to_i32, base_f64, base_i32, narrow_of(x))
CAST(f64_to_i64, base_f64, base_i64, whole_of(x))
CAST(f64_to_bool, base_f64, base_i32, -(x != 0))
CAST(i32_to_f32, base_i32, base_f32, x)
CAST(i32_to_f64, base_i32, base_f64, x)
CAST(i32_to_i64, base_i32, base_i64, x)
CAST(i32_to_bool, base_i32, base_i32, -(x != 0))
CAST(i64_to_f32, base_i64, base_f32, x)
CAST(i64_to_f64, base_i64, base_f64, x)
CAST(i64_to_i32, base_i64, base_i32, x)
CAST(i64_to_bool, base_i64, base_i32, -(x != 0))
CAST(bool_to_f32, base_i32, base_f32, x & 1)
CAST(bool_to_f64, base_i32, base_f64, x & 1)
CAST(bool_to_i32, base_i32, base_i32, x & 1)
CAST(bool_to_i64, base_i32, base_i64, x & 1)
static const whole_loop casts[BASE_TYPE_COUNT][BASE_TYPE_COUNT] = {
    {NULL, f32_to_f64, f32_to_i32, f32_to_i64, f32_to_bool},
    {f64_to_f32, NULL, f64_to_i32, f64_to_i64, f64_to_bool},
    {i32_to_f32, i32_to_f64, NULL, i32_to_i64, i32_to_bool},
    {i64_to_f32, i64_to_f64, i64_to_i32, NULL, i64_to_bool},
    {bool_to_f32, bool_to_f64, bool_to_i32, bool_to_i64, NULL}};

#define CHOOSE(name, type)                                                                              \
  static void name(void *to, const kern_fused_source *in, int64_t n) {                                  \
    const base_i32 *x = in[0].at;                                                                       \
    const type *y = in[1].at, *z = in[2].at;                                                            \
    type *out = to;                                                                                     \
    for (int64_t i = 0; i < n; i++) out[i] = x[i * in[0].step] ? y[i * in[1].step] : z[i * in[2].step]; \
  }
CHOOSE(choose_narrow, base_u32)
CHOOSE(choose_wide, base_u64)

void kern_fused_apply(uint32_t function, uint32_t from, uint32_t to, const double *p, void *out,
                      const kern_fused_source *in, int64_t n) {
  const bool wide = base_type_is_wide((base_type)from);
  if (function == BASE_SCALAR_cast) casts[from][to](out, in, n);
  else if (function == BASE_SCALAR_where) (wide ? choose_wide : choose_narrow)(out, in, n);
  else if (base_type_is_float((base_type)from))
    (wide ? apply_f64 : apply_f32)(float_functions[function], to == BASE_TYPE_BOOL, p, out, in, n);
  else (wide ? whole_loops[function].wide : whole_loops[function].narrow)(out, in, n);
}

/* ---- reductions ---- */

typedef union number {
  float f32;
  double f64;
  int64_t i64;
  int32_t i32;
} number;

static double nan_max(double a, double b) { return a == a && !(a > b) ? b : a; }
static double nan_min(double a, double b) { return a == a && !(a < b) ? b : a; }
/* *total and the elements of x, one behind the other, as far as they have come in `out`, where that is wanted, as
 * BASE_SCAN_* say. */
#define COMBINE(name, type, value)                                                                \
  static void name(void *total, const kern_fused_source *x, void *out, int64_t n, uint32_t how) { \
    const type *from = x->at;                                                                     \
    type a = *(type *)total, *to = out;                                                           \
    for (int64_t k = 0; k < n; k++) {                                                             \
      const int64_t i = how & BASE_SCAN_REVERSE ? n - 1 - k : k;                                  \
      const type b = from[i * x->step], before = a;                                               \
      a = (type)(value);                                                                          \
      if (to) to[i] = how & BASE_SCAN_EXCLUSIVE ? before : a;                                     \
    }                                                                                             \
    *(type *)total = a;                                                                           \
  }
COMBINE(sum_f32, base_f32, a + b)
COMBINE(max_f32, base_f32, (float)nan_max((double)a, (double)b))
COMBINE(min_f32, base_f32, (float)nan_min((double)a, (double)b))
COMBINE(prod_f32, base_f32, a *b)
COMBINE(sum_f64, base_f64, a + b)
COMBINE(max_f64, base_f64, nan_max(a, b))
COMBINE(min_f64, base_f64, nan_min(a, b))
COMBINE(prod_f64, base_f64, a *b)
COMBINE(sum_i32, base_i32, v_add(a, b))
COMBINE(max_i32, base_i32, v_max(a, b))
COMBINE(min_i32, base_i32, v_min(a, b))
COMBINE(prod_i32, base_i32, v_mul(a, b))
COMBINE(sum_i64, base_i64, v_add(a, b))
COMBINE(max_i64, base_i64, v_max(a, b))
COMBINE(min_i64, base_i64, v_min(a, b))
COMBINE(prod_i64, base_i64, v_mul(a, b))
COMBINE(log_add_f64, base_f64, v_logaddexp(a, b))
COMBINE(any_bool, base_i32, a | b)
COMBINE(all_bool, base_i32, a &b)

typedef void (*combine_fn)(void *total, const kern_fused_source *x, void *out, int64_t n, uint32_t how);
static const struct {
  number start;
  combine_fn run;
} combines[BASE_TYPE_COUNT][BASE_COMBINE_COUNT] = {
    [BASE_TYPE_F32] = {{{.f32 = 0}, sum_f32},
                       {{.f32 = -INFINITY}, max_f32},
                       {{.f32 = INFINITY}, min_f32},
                       {{.f32 = 1}, prod_f32}},
    [BASE_TYPE_F64] = {{{.f64 = 0}, sum_f64},
                       {{.f64 = -INFINITY}, max_f64},
                       {{.f64 = INFINITY}, min_f64},
                       {{.f64 = 1}, prod_f64},
                       {{.f64 = -INFINITY}, log_add_f64}},
    [BASE_TYPE_I32] = {{{.i32 = 0}, sum_i32},
                       {{.i32 = INT32_MIN}, max_i32},
                       {{.i32 = INT32_MAX}, min_i32},
                       {{.i32 = 1}, prod_i32}},
    [BASE_TYPE_I64] = {{{.i64 = 0}, sum_i64},
                       {{.i64 = INT64_MIN}, max_i64},
                       {{.i64 = INT64_MAX}, min_i64},
                       {{.i64 = 1}, prod_i64}},
    [BASE_TYPE_BOOL] = {[BASE_COMBINE_MAX] = {{.i32 = 0}, any_bool}, [BASE_COMBINE_MIN] = {{.i32 = -1}, all_bool}}};

void kern_fused_combine(uint32_t combine, uint32_t type, void *total, const kern_fused_source *x, int64_t n) {
  if (x) combines[type][combine].run(total, x, NULL, n, 0);
  else memcpy(total, &combines[type][combine].start, base_type_is_wide((base_type)type) ? 8 : 4);
}

void kern_fused_scan(const base_program_op *op, void *total, const kern_fused_source *x, void *out, int64_t n) {
  combines[op->type][op->function].run(total, x, out, n, op->in[1]);
}
