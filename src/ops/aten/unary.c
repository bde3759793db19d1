/* unary.c -- functions of one element without parameters: computed in double and rounded once (f32 in float where that
 * gives the same bits). Those that have an integer meaning take integers too; the rest need a float operand.
 *
 * erf(x) = 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x; sigmoid 1 / (1 + exp(-x)); silu x sigmoid(x);
 * mish x tanh(log(1 + exp(x))) (Misra 2019); hardswish x min(max(x + 3, 0), 6) / 6; softplus log(1 + exp(x));
 * softsign x / (1 + |x|); rsqrt 1 / sqrt(x); expm1 exp(x) - 1; log1p log(1 + x); round half to even; relu max(x, 0);
 * all others as in C's math.h. PyTorch's operators of these names; ONNX names and versions are in the lists. */
#include "ops/common/kernel_priv.h"
#include "ops/common/lower_priv.h"

#include <math.h>

typedef struct unary_body {
  ops_map_f32 s; /* or NULL: by way of f */
  ops_map_f64 f;
  ops_map_i64 i; /* or NULL. `user` is not NULL for unsigned types */
} unary_body;

static double sign_f(double a) { return isnan(a) ? a : (a > 0) - (a < 0); }
static double relu_f(double a) { return a > 0 || isnan(a) ? a : 0; }
/* Without overflow of exp on either side. */
static double sigmoid_f(double a) { return a >= 0 ? 1 / (1 + exp(-a)) : exp(a) / (1 + exp(a)); }
static double softplus_f(double a) { return fmax(a, 0) + log1p(exp(-fabs(a))); }
static double square_f(double a) { return a * a; }
static double negate_f(double a) { return -a; }
static double reciprocal_f(double a) { return 1 / a; }
static double rsqrt_f(double a) { return 1 / sqrt(a); }
static double softsign_f(double a) { return a / (1 + fabs(a)); }
static double silu_f(double a) { return a * sigmoid_f(a); }
static double mish_f(double a) { return a * tanh(softplus_f(a)); }
static double hardswish_f(double a) { return a * fmin(fmax(a / 6 + 0.5, 0), 1); }

static int64_t abs_i(int64_t a, bool is_unsigned) { return is_unsigned || a >= 0 ? a : (int64_t)(0 - (uint64_t)a); }
static int64_t neg_i(int64_t a, bool is_unsigned) {
  (void)is_unsigned;
  return (int64_t)(0 - (uint64_t)a);
}
static int64_t sign_i(int64_t a, bool is_unsigned) { return is_unsigned ? a != 0 : (a > 0) - (a < 0); }
static int64_t relu_i(int64_t a, bool is_unsigned) { return is_unsigned || a > 0 ? a : 0; }
static int64_t square_i(int64_t a, bool is_unsigned) {
  (void)is_unsigned;
  return (int64_t)((uint64_t)a * (uint64_t)a);
}
static int64_t same_i(int64_t a, bool is_unsigned) {
  (void)is_unsigned;
  return a;
}

/* X(operator, double function, ONNX name or NULL, its first version): floats only, without a kernel. */
#define PLAIN_LIST(X)         \
  X(acos, acos, "Acos", 7)    \
  X(acosh, acosh, "Acosh", 9) \
  X(asin, asin, "Asin", 7)    \
  X(asinh, asinh, "Asinh", 9) \
  X(atan, atan, "Atan", 7)    \
  X(atanh, atanh, "Atanh", 9) \
  X(cos, cos, "Cos", 7)       \
  X(cosh, cosh, "Cosh", 9)    \
  X(expm1, expm1, NULL, 0)    \
  X(log10, log10, NULL, 0)    \
  X(log1p, log1p, NULL, 0)    \
  X(log2, log2, NULL, 0)      \
  X(sin, sin, "Sin", 7)       \
  X(sinh, sinh, "Sinh", 9)    \
  X(tan, tan, "Tan", 7)

/* The same, each with ops_kernel_<operator>. */
#define FLOAT_LIST(X)                          \
  X(erf, erf, "Erf", 9)                        \
  X(exp, exp, "Exp", 1)                        \
  X(log, log, "Log", 1)                        \
  X(reciprocal, reciprocal_f, "Reciprocal", 1) \
  X(rsqrt, rsqrt_f, NULL, 0)                   \
  X(sigmoid, sigmoid_f, "Sigmoid", 1)          \
  X(tanh, tanh, "Tanh", 1)                     \
  X(silu, silu_f, NULL, 0)                     \
  X(mish, mish_f, "Mish", 18)                  \
  X(hardswish, hardswish_f, "HardSwish", 14)   \
  X(softplus, softplus_f, "Softplus", 1)

/* X(operator, inference, double function, integer function, float expression of a, ONNX name, version): same in float.
 */
#define EXACT_LIST(X)                                                                       \
  X(abs, infer_number, fabs, abs_i, fabsf(a), "Abs", 1)                                     \
  X(neg, infer_neg, negate_f, neg_i, -a, "Neg", 1)                                          \
  X(sign, infer_number, sign_f, sign_i, a != a ? a : (float)((a > 0) - (a < 0)), "Sign", 9) \
  X(relu, infer_number, relu_f, relu_i, a > 0 || a != a ? a : 0, "Relu", 1)                 \
  X(square, infer_number, square_f, square_i, a *a, NULL, 0)                                \
  X(ceil, infer_number, ceil, same_i, ceilf(a), "Ceil", 1)                                  \
  X(floor, infer_number, floor, same_i, floorf(a), "Floor", 1)                              \
  X(round, infer_number, nearbyint, same_i, nearbyintf(a), "Round", 11)                     \
  X(trunc, infer_number, trunc, same_i, truncf(a), NULL, 0)

#define FLOAT_BODY(NAME, F, ALIAS, SINCE)                                                                             \
  static void NAME##_map(const void *user, int64_t count, const double *const *in, double *out) {                     \
    (void)user;                                                                                                       \
    for (int64_t k = 0; k < count; k++) out[k] = F(in[0][k]);                                                         \
  }                                                                                                                   \
  static td_status NAME##_reference(const base_call *call) { return ops_elementwise_f64(call, 1, NAME##_map, NULL); } \
  static const ir_alias NAME##_aliases[] = {{"onnx", ALIAS, SINCE, NULL}};

static td_status run(const base_call *call, const unary_body *body) {
  static const char unsigned_mark = 0;
  td_dtype dtype = base_out(call, 0)->dtype;
  if (dtype == TD_F32 && body->s) return ops_elementwise_f32(call, 1, body->s, NULL);
  if (base_is_float(dtype)) return ops_elementwise_f64(call, 1, body->f, NULL);
  return ops_elementwise_i64(call, 1, body->i, base_dtype(dtype)->is_signed ? NULL : &unsigned_mark);
}

#define EXACT_BODY(NAME, INFER, F, I, S, ALIAS, SINCE)                                                            \
  static void NAME##_map(const void *user, int64_t count, const double *const *in, double *out) {                 \
    (void)user;                                                                                                   \
    for (int64_t k = 0; k < count; k++) out[k] = F(in[0][k]);                                                     \
  }                                                                                                               \
  static void NAME##_ints(const void *user, int64_t count, const int64_t *const *in, int64_t *out) {              \
    for (int64_t k = 0; k < count; k++) out[k] = I(in[0][k], user != NULL);                                       \
  }                                                                                                               \
  static void NAME##_floats(const void *user, int64_t count, const base_f32 *const *in, base_f32 *restrict out) { \
    (void)user;                                                                                                   \
    const base_f32 *x = in[0];                                                                                    \
    for (int64_t k = 0; k < count; k++) {                                                                         \
      float a = x[k];                                                                                             \
      out[k] = (S);                                                                                               \
    }                                                                                                             \
  }                                                                                                               \
  static td_status NAME##_reference(const base_call *call) {                                                      \
    static const unary_body body = {NAME##_floats, NAME##_map, NAME##_ints};                                      \
    return run(call, &body);                                                                                      \
  }                                                                                                               \
  static const ir_alias NAME##_aliases[] = {{"onnx", ALIAS, SINCE, NULL}};

PLAIN_LIST(FLOAT_BODY)
FLOAT_LIST(FLOAT_BODY)
FLOAT_BODY(sqrt, sqrt, "Sqrt", 1)
FLOAT_BODY(softsign, softsign_f, "Softsign", 1)
EXACT_LIST(EXACT_BODY)

/* ---- tests of an element, and bits ---- */

static void isnan_map(const void *user, int64_t count, const double *const *in, double *out) {
  (void)user;
  for (int64_t k = 0; k < count; k++) out[k] = isnan(in[0][k]);
}

enum { DETECT_NEGATIVE, DETECT_POSITIVE };
static const ir_attr isinf_attrs[] = {ATTR_BOOL("detect_negative", 1), ATTR_BOOL("detect_positive", 1)};

static void isinf_map(const void *user, int64_t count, const double *const *in, double *out) {
  const base_attrs *attrs = user;
  bool negative = base_attr_int(attrs, DETECT_NEGATIVE), positive = base_attr_int(attrs, DETECT_POSITIVE);
  for (int64_t k = 0; k < count; k++)
    out[k] = (negative && in[0][k] == -INFINITY) || (positive && in[0][k] == INFINITY);
}

static void not_map(const void *user, int64_t count, const double *const *in, double *out) {
  (void)user;
  for (int64_t k = 0; k < count; k++) out[k] = in[0][k] == 0;
}

static void bitwise_not_ints(const void *user, int64_t count, const int64_t *const *in, int64_t *out) {
  const bool *is_bool = user;
  for (int64_t k = 0; k < count; k++) out[k] = *is_bool ? !in[0][k] : ~in[0][k];
}

static td_status isnan_reference(const base_call *call) { return ops_elementwise_f64(call, 1, isnan_map, NULL); }
static td_status isinf_reference(const base_call *call) { return ops_elementwise_f64(call, 1, isinf_map, call->attrs); }
static td_status not_reference(const base_call *call) { return ops_elementwise_f64(call, 1, not_map, NULL); }
static td_status bitwise_not_reference(const base_call *call) {
  bool is_bool = base_out(call, 0)->dtype == TD_BOOL;
  return ops_elementwise_i64(call, 1, bitwise_not_ints, &is_bool);
}

/* ---- inference ---- */

static td_status needs(ir_infer *ctx, bool holds, const char *what) {
  return holds ? TD_OK
               : ir_infer_fail(ctx, "operand of %s; %s is needed", td_dtype_name(ir_in(ctx, 0)->type.dtype), what);
}

static td_status infer_float(ir_infer *ctx) {
  TRY(needs(ctx, base_is_float(ir_in(ctx, 0)->type.dtype), "a floating-point type"));
  return ops_infer_same(ctx);
}

static td_status infer_number(ir_infer *ctx) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  TRY(needs(ctx, base_is_float(dtype) || base_is_int(dtype), "a number"));
  return ops_infer_same(ctx);
}

static td_status infer_neg(ir_infer *ctx) {
  const base_dim *ints;
  uint32_t count;
  TRY(infer_number(ctx));
  if (!ctx->arena || !ir_in_ints(ctx, 0, &ints, &count)) return TD_OK;
  base_dim negated[IR_MAX_INTS];
  for (uint32_t k = 0; k < count; k++) {
    negated[k] = base_dim_sub(ctx->dims, 0, ints[k]);
    if (negated[k] == BASE_DIM_NONE) return TD_OK;
  }
  base_dim *to = ir_out_ints(ctx, 0, count);
  for (uint32_t k = 0; to && k < count; k++) to[k] = negated[k];
  return TD_OK;
}

static td_status infer_bits(ir_infer *ctx) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  TRY(needs(ctx, base_is_int(dtype) || dtype == TD_BOOL, "an integer type"));
  return ops_infer_same(ctx);
}

/* ---- cases ---- */

static bool shapes(ir_case *c, td_dtype dtype, uint32_t number) {
  switch (number) {
    case 0: return ops_case_in(c, dtype, 0, NULL, OPS_NORMAL, 1);
    case 1: return ops_case_in(c, dtype, OPS_DIMS(0, 3), OPS_NORMAL, 2);
    case 2: return ops_case_in(c, dtype, OPS_DIMS(7, 13), OPS_SPECIAL, 3);
    case 3: return ops_case_in(c, dtype, OPS_DIMS(3, 1, 17), OPS_NORMAL, 4);
    default: return ops_case_in(c, dtype, OPS_DIMS(331), OPS_SPECIAL, 5);
  }
}

static bool float_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16};
  return number < 5 * OPS_COUNT(dtypes) && shapes(c, dtypes[number / 5], number % 5);
}

static bool number_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_I64, TD_I8, TD_U64, TD_U8};
  return number < 5 * OPS_COUNT(dtypes) && shapes(c, dtypes[number / 5], number % 5);
}

static bool bit_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_I64, TD_I8, TD_U16, TD_BOOL};
  return number < 5 * OPS_COUNT(dtypes) && shapes(c, dtypes[number / 5], number % 5);
}

static const ir_alias isnan_aliases[] = {{"onnx", "IsNaN", 9, NULL}};
static const ir_alias isinf_aliases[] = {{"onnx", "IsInf", 10, NULL}};
static const ir_alias not_aliases[] = {{"onnx", "Not", 1, NULL}};
static const ir_alias bitwise_not_aliases[] = {{"onnx", "BitwiseNot", 18, NULL}};

/* ---- as loops ---- */

static bool lower_not(const ir_kernel_query *query, loop_build *b) {
  b->in[0] = loop_cast(b, b->in[0], BASE_TYPE_BOOL);
  return ops_lower_bitwise_not(query, b);
}

static bool lower_isnan(const ir_kernel_query *query, loop_build *b) {
  b->in[1] = b->in[0];
  return ops_lower_ne(query, b);
}

static bool lower_isinf(const ir_kernel_query *query, loop_build *b) {
  const bool negative = base_attr_int(query->attrs, DETECT_NEGATIVE);
  const bool positive = base_attr_int(query->attrs, DETECT_POSITIVE), both = negative && positive;
  const bool is_float = base_is_float(query->in[0]->type.dtype);
  const uint16_t x = both ? loop_unary(b, BASE_SCALAR_abs, b->in[0]) : b->in[0];
  b->out = loop_binary(b, BASE_SCALAR_eq, x, loop_number(b, positive ? INFINITY : -INFINITY));
  return is_float && (positive || negative) && b->out != LOOP_NONE;
}

#define ONE_TO_ONE .min_in = 1, .max_in = 1, .out_count = 1
#define UNARY_FLAGS (IR_OP_ELEMENTWISE | IR_OP_IN_PLACE)
#define ALIASES(NAME, SINCE) .aliases = NAME##_aliases, .alias_count = (SINCE) ? 1 : 0
/* Kernels may take results below this for 0. */
#define FLUSHED 1e-30f
#define FLOAT_PARTS(NAME, SINCE)                                                                                     \
  .id = OPERATOR(aten, NAME), ONE_TO_ONE, .flags = UNARY_FLAGS, .infer = infer_float, .reference = NAME##_reference, \
  .rtol = 1e-6f, .atol = FLUSHED, ALIASES(NAME, SINCE)
#define PLAIN_ROW(NAME, F, ALIAS, SINCE) {FLOAT_PARTS(NAME, SINCE), .lower = ops_lower_##NAME},
#define FLOAT_ROW(NAME, F, ALIAS, SINCE) \
  {FLOAT_PARTS(NAME, SINCE), .kernel = ops_kernel_##NAME, .lower = ops_lower_##NAME},
#define EXACT_ROW(NAME, INFER, F, I, S, ALIAS, SINCE) \
  {.id = OPERATOR(aten, NAME),                        \
   ONE_TO_ONE,                                        \
   .flags = UNARY_FLAGS,                              \
   .infer = INFER,                                    \
   .reference = NAME##_reference,                     \
   .kernel = ops_kernel_##NAME,                       \
   .lower = ops_lower_##NAME,                         \
   ALIASES(NAME, SINCE)},
OPS_DECLARE(unary);
const ir_op ops_unary[] = {
    PLAIN_LIST(PLAIN_ROW) FLOAT_LIST(FLOAT_ROW) EXACT_LIST(EXACT_ROW){.id = OPERATOR(aten, sqrt),
                                                                      ONE_TO_ONE,
                                                                      .flags = UNARY_FLAGS,
                                                                      .infer = infer_float,
                                                                      .reference = sqrt_reference,
                                                                      .kernel = ops_kernel_sqrt,
                                                                      .lower = ops_lower_sqrt,
                                                                      ALIASES(sqrt, 1)},
    {.id = OPERATOR(td, softsign),
     ONE_TO_ONE,
     .flags = UNARY_FLAGS,
     .infer = infer_float,
     .reference = softsign_reference,
     .kernel = ops_kernel_softsign,
     .lower = ops_lower_softsign,
     .rtol = 1e-6f,
     ALIASES(softsign, 1)},
    {.id = OPERATOR(aten, isnan),
     ONE_TO_ONE,
     .flags = IR_OP_ELEMENTWISE,
     .infer = ops_infer_same_bool,
     .reference = isnan_reference,
     .lower = lower_isnan,
     ALIASES(isnan, 1)},
    {.id = OPERATOR(aten, isinf),
     ONE_TO_ONE,
     .flags = IR_OP_ELEMENTWISE,
     .attrs = isinf_attrs,
     .attr_count = OPS_COUNT(isinf_attrs),
     .infer = ops_infer_same_bool,
     .reference = isinf_reference,
     .lower = lower_isinf,
     ALIASES(isinf, 1)},
    {.id = OPERATOR(aten, logical_not),
     ONE_TO_ONE,
     .flags = IR_OP_ELEMENTWISE,
     .infer = ops_infer_same_bool,
     .reference = not_reference,
     .lower = lower_not,
     ALIASES(not, 1)},
    {.id = OPERATOR(aten, bitwise_not),
     ONE_TO_ONE,
     .flags = UNARY_FLAGS,
     .infer = infer_bits,
     .reference = bitwise_not_reference,
     .lower = ops_lower_bitwise_not,
     ALIASES(bitwise_not, 1)},
};
OPS_TABLE(unary);
#define FLOAT_CASES(NAME, ...) {OP_aten_##NAME, float_cases},
#define NUMBER_CASES(NAME, ...) {OP_aten_##NAME, number_cases},
OPS_CASES(unary) = {
    {OP_aten_sqrt, float_cases},
    {OP_td_softsign, float_cases},
    {OP_aten_isnan, number_cases},
    {OP_aten_isinf, number_cases},
    {OP_aten_logical_not, number_cases},
    {OP_aten_bitwise_not, bit_cases},
    PLAIN_LIST(FLOAT_CASES) FLOAT_LIST(FLOAT_CASES) EXACT_LIST(NUMBER_CASES){0},
};
