/* binary.c -- arithmetic on two broadcast operands. Floats are computed in double and rounded once (f32 in float where
 * that gives the same bits); integers wrap. Division: floats divide; integers need a rounding mode ("trunc" or
 * "floor"). Division of an integer by zero gives zero.
 *
 *     aten::add, sub, mul     x + y, x - y, x y (ONNX Add, Sub, Mul 7)
 *     aten::div               x / y, or its floor, or cut toward 0 (ONNX Div 7)
 *     aten::remainder, fmod   x - y floor(x / y), x - y trunc(x / y) (ONNX Mod 10)
 *     aten::pow, atan2        x^y, the angle of the point (y, x) (ONNX Pow 7)
 *     aten::maximum, minimum  the larger, the smaller; NaN if either is NaN (ONNX Max, Min 8)
 *     td::prelu               x if x >= 0, else slope x (ONNX PRelu 7; He et al. 2015) */
#include "ops/common/kernel_priv.h"
#include "ops/common/lower_priv.h"

#include <math.h>
#include <string.h>

typedef struct binary_body {
  ops_map_f32 s; /* or NULL: by way of f */
  ops_map_f64 f;
  ops_map_i64 i; /* or NULL: floats only. `user` is not NULL for u64, whose elements come as their bits */
} binary_body;

#define BODY_S(NAME, EXPR)                                                                               \
  static void NAME(const void *user, int64_t count, const base_f32 *const *in, base_f32 *restrict out) { \
    (void)user;                                                                                          \
    const base_f32 *x = in[0], *y = in[1];                                                               \
    for (int64_t k = 0; k < count; k++) {                                                                \
      float a = x[k], b = y[k];                                                                          \
      out[k] = (EXPR);                                                                                   \
    }                                                                                                    \
  }
#define BODY_F(NAME, EXPR)                                                                  \
  static void NAME(const void *user, int64_t count, const double *const *in, double *out) { \
    (void)user;                                                                             \
    for (int64_t k = 0; k < count; k++) {                                                   \
      double a = in[0][k], b = in[1][k];                                                    \
      out[k] = (EXPR);                                                                      \
    }                                                                                       \
  }
#define BODY_I(NAME, EXPR)                                                                    \
  static void NAME(const void *user, int64_t count, const int64_t *const *in, int64_t *out) { \
    bool is_u64 = user != NULL;                                                               \
    (void)is_u64;                                                                             \
    for (int64_t k = 0; k < count; k++) {                                                     \
      int64_t a = in[0][k], b = in[1][k];                                                     \
      out[k] = (int64_t)(EXPR);                                                               \
    }                                                                                         \
  }

static bool less(int64_t a, int64_t b, bool is_u64) { return is_u64 ? (uint64_t)a < (uint64_t)b : a < b; }

static int64_t divide_trunc(int64_t a, int64_t b, bool is_u64) {
  if (b == 0) return 0;
  if (is_u64) return (int64_t)((uint64_t)a / (uint64_t)b);
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t modulo_trunc(int64_t a, int64_t b, bool is_u64) {
  if (b == 0 || b == -1) return is_u64 && b ? (uint64_t)a == UINT64_MAX ? 0 : a : 0;
  return is_u64 ? (int64_t)((uint64_t)a % (uint64_t)b) : a % b;
}

static int64_t divide_floor(int64_t a, int64_t b, bool is_u64) {
  int64_t q = divide_trunc(a, b, is_u64);
  return q - (!is_u64 && modulo_trunc(a, b, is_u64) != 0 && (a < 0) != (b < 0));
}

/* The sign of the divisor. */
static int64_t modulo_floor(int64_t a, int64_t b, bool is_u64) {
  int64_t r = modulo_trunc(a, b, is_u64);
  return !is_u64 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double modulo_floor_f(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Floor of the exact quotient: a / b may round up to the next integer. */
static double divide_floor_f(double a, double b) {
  if (b == 0) return a / b;
  double q = (a - modulo_floor_f(a, b)) / b, f = floor(q);
  return q - f > 0.5 ? f + 1 : f;
}

/* By squaring; a negative exponent gives zero but for bases 1 and -1. */
static int64_t power(int64_t base, int64_t exponent, bool is_u64) {
  uint64_t result = 1, b = (uint64_t)base, e = (uint64_t)exponent;
  if (!is_u64 && exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  for (; e; e >>= 1, b *= b)
    if (e & 1) result *= b;
  return (int64_t)result;
}

static double maximum_f(double a, double b) { return a > b || isnan(a) ? a : b; }
static double minimum_f(double a, double b) { return a < b || isnan(a) ? a : b; }

BODY_S(add_s, a + b)
BODY_F(add_f, a + b)
BODY_I(add_i, (uint64_t)a + (uint64_t)b)
BODY_S(sub_s, a - b)
BODY_F(sub_f, a - b)
BODY_I(sub_i, (uint64_t)a - (uint64_t)b)
BODY_S(mul_s, a *b)
BODY_F(mul_f, a *b)
BODY_I(mul_i, (uint64_t)a *(uint64_t)b)
BODY_S(div_s, a / b)
BODY_F(div_f, a / b)
BODY_F(div_trunc_f, trunc(a / b))
BODY_I(div_trunc_i, divide_trunc(a, b, is_u64))
BODY_F(div_floor_f, divide_floor_f(a, b))
BODY_I(div_floor_i, divide_floor(a, b, is_u64))
BODY_F(remainder_f, modulo_floor_f(a, b))
BODY_I(remainder_i, modulo_floor(a, b, is_u64))
BODY_F(fmod_f, fmod(a, b))
BODY_I(fmod_i, modulo_trunc(a, b, is_u64))
BODY_F(pow_f, pow(a, b))
BODY_I(pow_i, power(a, b, is_u64))
BODY_S(maximum_s, a > b || isnan(a) ? a : b)
BODY_F(maximum_b, maximum_f(a, b))
BODY_I(maximum_i, less(a, b, is_u64) ? b : a)
BODY_S(minimum_s, a < b || isnan(a) ? a : b)
BODY_F(minimum_b, minimum_f(a, b))
BODY_I(minimum_i, less(a, b, is_u64) ? a : b)
BODY_F(atan2_f, atan2(a, b))
BODY_S(prelu_s, a < 0 ? a * b : a)
BODY_F(prelu_f, a < 0 ? a * b : a)
BODY_I(prelu_i, !is_u64 && a < 0 ? a * b : a)

static td_status run(const base_call *call, const binary_body *body) {
  static const char u64_mark = 0;
  td_dtype dtype = base_out(call, 0)->dtype;
  if (dtype == TD_F32 && body->s) return ops_elementwise_f32(call, 2, body->s, NULL);
  if (base_is_float(dtype)) return ops_elementwise_f64(call, 2, body->f, NULL);
  return ops_elementwise_i64(call, 2, body->i, dtype == TD_U64 ? &u64_mark : NULL);
}

#define REFERENCE(NAME, ...)                                 \
  static td_status NAME##_reference(const base_call *call) { \
    static const binary_body body = {__VA_ARGS__};           \
    return run(call, &body);                                 \
  }
REFERENCE(add, add_s, add_f, add_i)
REFERENCE(sub, sub_s, sub_f, sub_i)
REFERENCE(mul, mul_s, mul_f, mul_i)
REFERENCE(remainder, NULL, remainder_f, remainder_i)
REFERENCE(fmod, NULL, fmod_f, fmod_i)
REFERENCE(pow, NULL, pow_f, pow_i)
REFERENCE(maximum, maximum_s, maximum_b, maximum_i)
REFERENCE(minimum, minimum_s, minimum_b, minimum_i)
REFERENCE(atan2, NULL, atan2_f, NULL)
REFERENCE(prelu, prelu_s, prelu_f, prelu_i)

static const ir_attr div_attrs[] = {ATTR_STR("rounding_mode", "")};

static td_status div_reference(const base_call *call) {
  static const binary_body exact = {div_s, div_f, NULL}, truncated = {NULL, div_trunc_f, div_trunc_i},
                           floored = {NULL, div_floor_f, div_floor_i};
  const char *mode = base_attr_str(call->attrs, 0);
  return run(call, !*mode ? &exact : strcmp(mode, "trunc") == 0 ? &truncated : &floored);
}

static td_status infer_arithmetic(ir_infer *ctx) {
  TRY(ops_same_dtype(ctx, 0, 1));
  return ops_infer_broadcast(ctx, 2, ir_in(ctx, 0)->type.dtype);
}

#define INFER_ON_SIZES(NAME, OP)                 \
  static td_status infer_##NAME(ir_infer *ctx) { \
    TRY(infer_arithmetic(ctx));                  \
    ops_ints_binary(ctx, OP);                    \
    return TD_OK;                                \
  }
INFER_ON_SIZES(add, BASE_DIM_ADD)
INFER_ON_SIZES(sub, BASE_DIM_SUB)
INFER_ON_SIZES(mul, BASE_DIM_MUL)
INFER_ON_SIZES(remainder, BASE_DIM_MOD)
INFER_ON_SIZES(maximum, BASE_DIM_MAX)
INFER_ON_SIZES(minimum, BASE_DIM_MIN)

/* Where truncation and floor agree, as they do on sizes. */
static bool never_negative(ir_infer *ctx, uint32_t i) {
  const base_dim *ints;
  uint32_t count;
  if (!ir_in_ints(ctx, i, &ints, &count)) return false;
  for (uint32_t k = 0; k < count; k++)
    if (!base_dim_not_negative(ctx->dims, ints[k])) return false;
  return true;
}

static td_status infer_div(ir_infer *ctx) {
  const char *mode = base_attr_str(ctx->attrs, 0);
  bool floors = strcmp(mode, "floor") == 0;
  if (*mode && !floors && strcmp(mode, "trunc") != 0) return ir_infer_fail(ctx, "rounding_mode \"%s\" is none", mode);
  TRY(infer_arithmetic(ctx));
  if (base_is_float(ctx->out[0].type.dtype)) return TD_OK;
  if (!*mode) return ir_infer_fail(ctx, "integers need a rounding_mode");
  if (ctx->arena && (floors || (never_negative(ctx, 0) && never_negative(ctx, 1))))
    ops_ints_binary(ctx, BASE_DIM_FLOORDIV);
  return TD_OK;
}

static td_status infer_fmod(ir_infer *ctx) {
  TRY(infer_arithmetic(ctx));
  if (ctx->arena && never_negative(ctx, 0) && never_negative(ctx, 1)) ops_ints_binary(ctx, BASE_DIM_MOD);
  return TD_OK;
}

static td_status infer_floats(ir_infer *ctx) {
  if (!base_is_float(ir_in(ctx, 0)->type.dtype)) return ir_infer_fail(ctx, "operands must be floating-point");
  return infer_arithmetic(ctx);
}

/* Shapes of the two operands: alike, with a scalar, a row, a column, planes, both stretched. */
static bool operand_cases(ir_case *c, td_dtype d, uint32_t number) {
  switch (number) {
    case 0: return ops_case_in(c, d, 0, NULL, OPS_NORMAL, 1) && ops_case_in(c, d, OPS_DIMS(3), OPS_NORMAL, 2);
    case 1:
      return ops_case_in(c, d, OPS_DIMS(2, 1, 5), OPS_SPECIAL, 3) && ops_case_in(c, d, OPS_DIMS(3, 1), OPS_SPECIAL, 4);
    case 2: return ops_case_in(c, d, OPS_DIMS(0, 3), OPS_NORMAL, 5) && ops_case_in(c, d, OPS_DIMS(1), OPS_NORMAL, 6);
    case 3:
      return ops_case_in(c, d, OPS_DIMS(7, 13), OPS_NORMAL, 7) && ops_case_in(c, d, OPS_DIMS(7, 13), OPS_NORMAL, 8);
    case 4:
      return ops_case_in(c, d, OPS_DIMS(3, 5, 37), OPS_NORMAL, 9) &&
             ops_case_in(c, d, 1, (int64_t[]){37}, OPS_NORMAL, 10);
    case 5:
      return ops_case_in(c, d, OPS_DIMS(3, 5, 37), OPS_NORMAL, 11) && ops_case_in(c, d, OPS_DIMS(5, 1), OPS_NORMAL, 12);
    default:
      return ops_case_in(c, d, OPS_DIMS(2, 1, 3, 19), OPS_SPECIAL, 13) &&
             ops_case_in(c, d, OPS_DIMS(5, 1, 19), OPS_SPECIAL, 14);
  }
}

enum { OPERAND_CASES = 7 };
static const td_dtype case_dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16, TD_I64, TD_I32, TD_U8, TD_U64};

static bool cases(ir_case *c, uint32_t number) {
  return number < OPERAND_CASES * OPS_COUNT(case_dtypes) &&
         operand_cases(c, case_dtypes[number / OPERAND_CASES], number % OPERAND_CASES);
}

static bool div_cases(ir_case *c, uint32_t number) {
  static const char *const modes[] = {"trunc", "floor"};
  if (number < OPERAND_CASES) return operand_cases(c, TD_F32, number);
  number -= OPERAND_CASES;
  ops_case_arg(c, ARG_STR("rounding_mode", modes[number % 2]));
  return cases(c, number / 2);
}

static bool pow_cases(ir_case *c, uint32_t number) {
  static const float exponents[] = {2, 3, -1, 0.5f};
  if (number >= OPS_COUNT(exponents)) return cases(c, number - OPS_COUNT(exponents));
  if (!ops_case_in(c, TD_F32, OPS_DIMS(3, 37), OPS_NORMAL, 15) || !ops_case_in(c, TD_F32, 0, NULL, OPS_NORMAL, 16))
    return false;
  *(float *)c->in[1].data = exponents[number];
  return true;
}

static bool float_cases(ir_case *c, uint32_t number) { return number < 4 * OPERAND_CASES && cases(c, number); }

/* ---- kernels ---- */

static const kern_row *div_kernel(const ir_kernel_query *query) {
  return *base_attr_str(query->attrs, 0) ? NULL : ops_kernel_div(query);
}

static bool lower_div(const ir_kernel_query *query, loop_build *b) {
  const char *mode = base_attr_str(query->attrs, 0);
  if (!*mode) return ops_lower_div(query, b);
  return strcmp(mode, "trunc") == 0 ? ops_lower_div_trunc(query, b) : ops_lower_div_floor(query, b);
}

/* Powers that are a function of one operand. */
static const struct {
  double exponent;
  kern_family family;
  base_scalar function;
} powers[] = {{2, KERN_SQUARE, BASE_SCALAR_square},
              {3, KERN_CUBE, BASE_SCALAR_cube},
              {-1, KERN_RECIPROCAL, BASE_SCALAR_reciprocal},
              {0.5, KERN_POW_HALF, BASE_SCALAR_pow_half}};

/* The row of `powers` for a constant exponent, of one element; its number of rows: there is none. */
static size_t find_power(const ir_kernel_query *query) {
  const base_tensor *exponent = query->in[1]->constant;
  size_t i = 0;
  if (!exponent || !base_is_float(exponent->dtype) || !ops_kernel_single(query, 1)) return OPS_COUNT(powers);
  const double value = base_load_f64(exponent->dtype, exponent->data, 0);
  while (i < OPS_COUNT(powers) && value != powers[i].exponent) i++;
  return i;
}

static const kern_row *pow_kernel(const ir_kernel_query *query) {
  const size_t i = find_power(query);
  return i < OPS_COUNT(powers) ? ops_kernel_f32(query, powers[i].family) : NULL;
}

static bool lower_pow(const ir_kernel_query *query, loop_build *b) {
  const size_t i = find_power(query);
  if (i == OPS_COUNT(powers)) return ops_lower_pow(query, b);
  b->out = loop_unary(b, powers[i].function, b->in[0]);
  return b->out != LOOP_NONE;
}

static const ir_alias add_aliases[] = {{"onnx", "Add", 7, NULL}};
static const ir_alias sub_aliases[] = {{"onnx", "Sub", 7, NULL}};
static const ir_alias mul_aliases[] = {{"onnx", "Mul", 7, NULL}};

#define BINARY_FLAGS (IR_OP_ELEMENTWISE | IR_OP_IN_PLACE)
#define SYMMETRIC_FLAGS (BINARY_FLAGS | IR_OP_COMMUTATIVE)
OPS_DECLARE(binary);
const ir_op ops_binary[] = {
    {.id = OPERATOR(aten, add),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = SYMMETRIC_FLAGS,
     .infer = infer_add,
     .reference = add_reference,
     .kernel = ops_kernel_add,
     .lower = ops_lower_add,
     .aliases = add_aliases,
     .alias_count = OPS_COUNT(add_aliases)},
    {.id = OPERATOR(aten, sub),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = BINARY_FLAGS,
     .infer = infer_sub,
     .reference = sub_reference,
     .kernel = ops_kernel_sub,
     .lower = ops_lower_sub,
     .aliases = sub_aliases,
     .alias_count = OPS_COUNT(sub_aliases)},
    {.id = OPERATOR(aten, mul),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = SYMMETRIC_FLAGS,
     .infer = infer_mul,
     .reference = mul_reference,
     .kernel = ops_kernel_mul,
     .lower = ops_lower_mul,
     .aliases = mul_aliases,
     .alias_count = OPS_COUNT(mul_aliases)},
    {.id = OPERATOR(aten, div),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = BINARY_FLAGS,
     .attrs = div_attrs,
     .attr_count = OPS_COUNT(div_attrs),
     .infer = infer_div,
     .reference = div_reference,
     .kernel = div_kernel,
     .lower = lower_div},
    {.id = OPERATOR(aten, remainder),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = BINARY_FLAGS,
     .infer = infer_remainder,
     .reference = remainder_reference,
     .lower = ops_lower_remainder},
    {.id = OPERATOR(aten, fmod),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = BINARY_FLAGS,
     .infer = infer_fmod,
     .reference = fmod_reference,
     .lower = ops_lower_fmod},
    {.id = OPERATOR(aten, pow),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = BINARY_FLAGS,
     .infer = infer_arithmetic,
     .reference = pow_reference,
     .kernel = pow_kernel,
     .lower = lower_pow,
     .rtol = 1e-6f},
    {.id = OPERATOR(aten, maximum),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = SYMMETRIC_FLAGS,
     .infer = infer_maximum,
     .reference = maximum_reference,
     .kernel = ops_kernel_maximum,
     .lower = ops_lower_maximum},
    {.id = OPERATOR(aten, minimum),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = SYMMETRIC_FLAGS,
     .infer = infer_minimum,
     .reference = minimum_reference,
     .kernel = ops_kernel_minimum,
     .lower = ops_lower_minimum},
    {.id = OPERATOR(aten, atan2),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = BINARY_FLAGS,
     .infer = infer_floats,
     .reference = atan2_reference,
     .lower = ops_lower_atan2,
     .rtol = 1e-6f},
    {.id = OPERATOR(td, prelu),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = BINARY_FLAGS,
     .infer = infer_arithmetic,
     .reference = prelu_reference,
     .kernel = ops_kernel_prelu,
     .lower = ops_lower_prelu},
};
OPS_TABLE(binary);
OPS_CASES(binary) = {
    {OP_aten_add, cases},       {OP_aten_sub, cases},         {OP_aten_mul, cases},     {OP_aten_div, div_cases},
    {OP_aten_remainder, cases}, {OP_aten_fmod, cases},        {OP_aten_pow, pow_cases}, {OP_aten_maximum, cases},
    {OP_aten_minimum, cases},   {OP_aten_atan2, float_cases}, {OP_td_prelu, cases},     {0},
};
