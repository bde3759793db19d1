/* special.c -- rare functions of one or two elements: td::special and td::special_pair name theirs, which are PyTorch's
 * without "special_"; the next float towards another; mantissa and exponent; divisors of whole numbers.
 *
 *     aten::gcd, lcm   the largest common divisor, least common multiple of |x|, |y|
 *     aten::frexp      x = mantissa 2^exponent, 1/2 <= |mantissa| < 1
 *     aten::nextafter  the float next to x in the direction of y
 * All of PyTorch: its torch.special, gcd, lcm, frexp, nextafter. */
#include "ops/common/lower_priv.h"
#include "ops/common/ops_priv.h"
#include "ops/common/special_priv.h"

#include <math.h>
#include <string.h>

enum { FUNCTION };
static const ir_attr function_attrs[] = {{.name = "function", .kind = BASE_ATTR_STR, .required = true}};

static const struct {
  const char *name;
  ops_function function;
} singles[] = {{"airy_ai", ops_airy_ai},
               {"bessel_j0", j0},
               {"bessel_j1", j1},
               {"bessel_y0", y0},
               {"bessel_y1", y1},
               {"digamma", ops_digamma},
               {"erfc", erfc},
               {"erfcx", ops_erfcx},
               {"erfinv", ops_erfinv},
               {"i0", ops_i0},
               {"i0e", ops_i0e},
               {"i1", ops_i1},
               {"i1e", ops_i1e},
               {"lgamma", ops_lgamma},
               {"log_ndtr", ops_log_ndtr},
               {"modified_bessel_i0", ops_i0},
               {"modified_bessel_i1", ops_i1},
               {"modified_bessel_k0", ops_k0},
               {"modified_bessel_k1", ops_k1},
               {"ndtri", ops_ndtri},
               {"scaled_modified_bessel_k0", ops_k0e},
               {"scaled_modified_bessel_k1", ops_k1e},
               {"spherical_bessel_j0", ops_spherical_j0}};
static const struct {
  const char *name;
  ops_function2 function;
} pairs[] = {{"igamma", ops_igamma}, {"igammac", ops_igammac}, {"polygamma", ops_polygamma}, {"zeta", ops_zeta}};

/* Functions and polynomials of one name. NULL: there is none. */
static ops_function find_single(const char *name) {
  for (size_t i = 0; i < OPS_COUNT(singles); i++)
    if (strcmp(singles[i].name, name) == 0) return singles[i].function;
  return NULL;
}
static ops_function2 find_pair(const char *name) {
  for (size_t i = 0; i < OPS_COUNT(pairs); i++)
    if (strcmp(pairs[i].name, name) == 0) return pairs[i].function;
  return NULL;
}

static void single_map(const void *user, int64_t count, const double *const *in, double *out) {
  const ops_function *f = user;
  for (int64_t k = 0; k < count; k++) out[k] = (*f)(in[0][k]);
}
static void pair_map(const void *user, int64_t count, const double *const *in, double *out) {
  const ops_function2 *f = user;
  for (int64_t k = 0; k < count; k++) out[k] = (*f)(in[0][k], in[1][k]);
}
static void polynomial_map(const void *user, int64_t count, const double *const *in, double *out) {
  for (int64_t k = 0; k < count; k++) out[k] = ops_polynomial_at(user, in[0][k], in[1][k]);
}

static td_status single_reference(const base_call *call) {
  ops_function f = find_single(base_attr_str(call->attrs, FUNCTION));
  return ops_elementwise_f64(call, 1, single_map, &f);
}
static td_status pair_reference(const base_call *call) {
  const char *name = base_attr_str(call->attrs, FUNCTION);
  ops_function2 f = find_pair(name);
  if (f) return ops_elementwise_f64(call, 2, pair_map, &f);
  return ops_elementwise_f64(call, 2, polynomial_map, ops_find_polynomial(name));
}

static bool lower_single(const ir_kernel_query *query, loop_build *b) {
  return strcmp(base_attr_str(query->attrs, FUNCTION), "erfc") == 0 && ops_lower_erfc(query, b);
}

static td_status infer_floats(ir_infer *ctx, uint32_t operands) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  if (!base_is_float(dtype))
    return ir_infer_fail(ctx, "operand of %s; a floating-point type is needed", td_dtype_name(dtype));
  if (operands > 1) TRY(ops_same_dtype(ctx, 0, 1));
  return ops_infer_broadcast(ctx, operands, dtype);
}
static td_status infer_single(ir_infer *ctx) {
  const char *name = base_attr_str(ctx->attrs, FUNCTION);
  return find_single(name) ? infer_floats(ctx, 1) : ir_infer_fail(ctx, "there is no function \"%s\"", name);
}
static td_status infer_pair(ir_infer *ctx) {
  const char *name = base_attr_str(ctx->attrs, FUNCTION);
  if (!find_pair(name) && !ops_find_polynomial(name)) return ir_infer_fail(ctx, "there is no function \"%s\"", name);
  return infer_floats(ctx, 2);
}

/* ---- nextafter: of the operands' own type, whose bit patterns of one sign are in order ---- */

static double step_towards(td_dtype dtype, double from, double to) {
  uint64_t bits = 0;
  if (isnan(from) || isnan(to)) return NAN;
  if (from == to) return to;
  base_store_f64(dtype, &bits, 0, from == 0 ? to : from);
  const uint64_t sign = (uint64_t)1 << (base_dtype(dtype)->bits - 1);
  if (from == 0) bits = (bits & sign) | 1;
  else bits += (from < to) == (from > 0) ? 1 : UINT64_MAX;
  return base_load_f64(dtype, &bits, 0);
}
static void nextafter_map(const void *user, int64_t count, const double *const *in, double *out) {
  const td_dtype *dtype = user;
  for (int64_t k = 0; k < count; k++) out[k] = step_towards(*dtype, in[0][k], in[1][k]);
}
static td_status nextafter_reference(const base_call *call) {
  return ops_elementwise_f64(call, 2, nextafter_map, &base_out(call, 0)->dtype);
}
static td_status infer_nextafter(ir_infer *ctx) { return infer_floats(ctx, 2); }

/* ---- frexp ---- */

static td_status frexp_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *mantissa = base_out(call, 0), *exponent = base_out(call, 1);
  const base_f64 *from = ops_dense_f64(call, 0);
  if (!from) return base_no_memory(call->err, "scratch");
  for (int64_t k = 0; k < base_tensor_numel(x); k++) {
    int power = 0;
    double part = frexp(from[k], &power);
    if (mantissa) base_store_f64(mantissa->dtype, mantissa->data, k, part);
    if (exponent) base_store_i64(TD_I32, exponent->data, k, isfinite(part) ? power : 0);
  }
  return TD_OK;
}
static td_status infer_frexp(ir_infer *ctx) {
  TRY(infer_floats(ctx, 1));
  return ir_out_like(ctx, 1, 0, TD_I32);
}

/* ---- gcd, lcm ---- */

static uint64_t size_of(int64_t a) { return a < 0 ? 0 - (uint64_t)a : (uint64_t)a; }
static uint64_t divisor(int64_t a, int64_t b) {
  uint64_t x = size_of(a), y = size_of(b);
  while (y) {
    uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}
static void gcd_map(const void *user, int64_t count, const int64_t *const *in, int64_t *out) {
  (void)user;
  for (int64_t k = 0; k < count; k++) out[k] = (int64_t)divisor(in[0][k], in[1][k]);
}
static void lcm_map(const void *user, int64_t count, const int64_t *const *in, int64_t *out) {
  (void)user;
  for (int64_t k = 0; k < count; k++) {
    uint64_t by = divisor(in[0][k], in[1][k]);
    out[k] = by ? (int64_t)(size_of(in[0][k]) / by * size_of(in[1][k])) : 0;
  }
}
static td_status gcd_reference(const base_call *call) { return ops_elementwise_i64(call, 2, gcd_map, NULL); }
static td_status lcm_reference(const base_call *call) { return ops_elementwise_i64(call, 2, lcm_map, NULL); }

static td_status infer_whole(ir_infer *ctx) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  if (!base_is_int(dtype) || dtype == TD_U64)
    return ir_infer_fail(ctx, "operand of %s; integers of at most 63 bits are needed", td_dtype_name(dtype));
  TRY(ops_same_dtype(ctx, 0, 1));
  return ops_infer_broadcast(ctx, 2, dtype);
}

/* ---- cases ---- */

static const td_dtype float_dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16};

static bool single_cases(ir_case *c, uint32_t number) {
  if (number >= 2 * OPS_COUNT(singles)) return false;
  ops_case_arg(c, ARG_STR("function", singles[number / 2].name));
  return ops_case_in(c, float_dtypes[number % 4], OPS_DIMS(3, 1, 17), number % 2 ? OPS_SPECIAL : OPS_NORMAL, number);
}

static bool pair_cases(ir_case *c, uint32_t number) {
  static const char *const names[] = {"igamma",
                                      "igammac",
                                      "zeta",
                                      "polygamma",
                                      "legendre_polynomial_p",
                                      "hermite_polynomial_h",
                                      "shifted_chebyshev_polynomial_v",
                                      "laguerre_polynomial_l"};
  if (number >= 2 * OPS_COUNT(names)) return false;
  ops_case_arg(c, ARG_STR("function", names[number / 2]));
  td_dtype d = float_dtypes[number % 4];
  if (number % 2)
    return ops_case_in(c, d, OPS_DIMS(7, 13), OPS_SPECIAL, number) && ops_case_in(c, d, 0, NULL, OPS_INDEX, 1);
  return ops_case_in(c, d, OPS_DIMS(5, 1), OPS_POSITIVE, number) && ops_case_in(c, d, OPS_DIMS(6), OPS_INDEX, number);
}

static bool nextafter_cases(ir_case *c, uint32_t number) {
  if (number >= 8) return false;
  td_dtype d = float_dtypes[number % 4];
  return ops_case_in(c, d, OPS_DIMS(7, 13), OPS_SPECIAL, number) &&
         ops_case_in(c, d, OPS_DIMS(13), number / 4 ? OPS_NORMAL : OPS_SPECIAL, number + 1);
}

static bool frexp_cases(ir_case *c, uint32_t number) {
  return number < 4 && ops_case_in(c, float_dtypes[number], OPS_DIMS(7, 13), OPS_SPECIAL, number);
}

static bool whole_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_I64, TD_I32, TD_U8};
  if (number >= 2 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 2];
  return ops_case_in(c, d, OPS_DIMS(3, 5), OPS_SPECIAL, number) &&
         ops_case_in(c, d, OPS_DIMS(5), number % 2 ? OPS_NORMAL : OPS_SPECIAL, number + 1);
}

OPS_DECLARE(special);
const ir_op ops_special[] = {
    {.id = OPERATOR(td, special),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .flags = IR_OP_ELEMENTWISE | IR_OP_IN_PLACE,
     .attrs = function_attrs,
     .attr_count = OPS_COUNT(function_attrs),
     .infer = infer_single,
     .reference = single_reference,
     .lower = lower_single,
     .rtol = 1e-6f},
    {.id = OPERATOR(td, special_pair),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = IR_OP_ELEMENTWISE | IR_OP_IN_PLACE,
     .attrs = function_attrs,
     .attr_count = OPS_COUNT(function_attrs),
     .infer = infer_pair,
     .reference = pair_reference,
     .rtol = 1e-6f},
    {.id = OPERATOR(aten, nextafter),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = IR_OP_ELEMENTWISE | IR_OP_IN_PLACE,
     .infer = infer_nextafter,
     .reference = nextafter_reference},
    /* (x) -> mantissa in [0.5, 1), exponent (i32) */
    {.id = OPERATOR(aten, frexp),
     .min_in = 1,
     .max_in = 1,
     .out_count = 2,
     .infer = infer_frexp,
     .reference = frexp_reference},
    {.id = OPERATOR(aten, gcd),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = IR_OP_ELEMENTWISE | IR_OP_IN_PLACE | IR_OP_COMMUTATIVE,
     .infer = infer_whole,
     .reference = gcd_reference},
    {.id = OPERATOR(aten, lcm),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = IR_OP_ELEMENTWISE | IR_OP_IN_PLACE | IR_OP_COMMUTATIVE,
     .infer = infer_whole,
     .reference = lcm_reference},
};
OPS_TABLE(special);
OPS_CASES(special) = {
    {OP_td_special, single_cases},
    {OP_td_special_pair, pair_cases},
    {OP_aten_nextafter, nextafter_cases},
    {OP_aten_frexp, frexp_cases},
    {OP_aten_gcd, whole_cases},
    {OP_aten_lcm, whole_cases},
    {0},
};
