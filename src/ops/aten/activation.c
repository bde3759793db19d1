/* activation.c -- activation functions with parameters, which are attributes. Computed in double and rounded once, or
 * in float where that gives the same bits.
 *
 *     aten::leaky_relu  x if x >= 0, else negative_slope x (ONNX LeakyRelu 1)
 *     aten::elu         scale x if x > 0, else alpha scale (exp(input_scale x) - 1) (ONNX Elu 1; Clevert et al. 2015)
 *     td::hard_sigmoid  min(max(alpha x + beta, 0), 1) (ONNX HardSigmoid 1)
 *     td::shrink        x + bias if x < -lambd, x - bias if x > lambd, else 0 (ONNX Shrink 9)
 *     aten::threshold   x if x > threshold, else value (ONNX ThresholdedRelu 10)
 *     aten::gelu        x Phi(x), Phi the normal distribution, or its tanh approximation ONNX Gelu 20; Hendrycks,
 *                       Gimpel 2016 */
#include "ops/common/kernel_priv.h"
#include "ops/common/lower_priv.h"

#include <math.h>
#include <string.h>

enum { FIRST, SECOND, THIRD }; /* attributes, in table order */

/* A body: `p` are the operator's float attributes in table order. */
#define BODY(NAME, EXPR)                                                                    \
  static void NAME(const void *user, int64_t count, const double *const *in, double *out) { \
    const double *p = user;                                                                 \
    (void)p;                                                                                \
    for (int64_t k = 0; k < count; k++) {                                                   \
      double a = in[0][k];                                                                  \
      out[k] = (EXPR);                                                                      \
    }                                                                                       \
  }
BODY(leaky_relu, a < 0 ? a * p[FIRST] : a)
BODY(elu, a > 0 || isnan(a) ? a * p[SECOND] : p[FIRST] * p[SECOND] * expm1(a * p[THIRD]))
BODY(hard_sigmoid, isnan(a) ? a : fmin(fmax(p[FIRST] * a + p[SECOND], 0), 1))
BODY(shrink, a<-p[FIRST] ? a + p[SECOND] : a> p[FIRST] ? a - p[SECOND] : 0)
BODY(threshold, a > p[FIRST] || isnan(a) ? a : p[SECOND])
BODY(gelu_none, 0.5 * a * (1 + erf(a * 0.70710678118654752440)))
BODY(gelu_tanh, 0.5 * a * (1 + tanh(0.79788456080286535588 * (a + 0.044715 * a * a * a))))

static td_status run(const base_call *call, ops_map_f64 map) {
  double p[3] = {0};
  for (uint32_t i = 0; i < call->attrs->count && i < 3; i++) p[i] = base_attr_float(call->attrs, i);
  return ops_elementwise_f64(call, 1, map, p);
}

static void leaky_relu_floats(const void *user, int64_t count, const base_f32 *const *in, base_f32 *restrict out) {
  const float slope = *(const float *)user;
  const base_f32 *x = in[0];
  for (int64_t k = 0; k < count; k++) out[k] = x[k] < 0 ? x[k] * slope : x[k];
}

static td_status leaky_relu_reference(const base_call *call) {
  float slope = (float)base_attr_float(call->attrs, FIRST);
  if (base_out(call, 0)->dtype == TD_F32) return ops_elementwise_f32(call, 1, leaky_relu_floats, &slope);
  return run(call, leaky_relu);
}
static td_status elu_reference(const base_call *call) { return run(call, elu); }
static td_status hard_sigmoid_reference(const base_call *call) { return run(call, hard_sigmoid); }
static td_status shrink_reference(const base_call *call) { return run(call, shrink); }
static td_status threshold_reference(const base_call *call) { return run(call, threshold); }
static td_status gelu_reference(const base_call *call) {
  bool by_tanh = strcmp(base_attr_str(call->attrs, FIRST), "tanh") == 0;
  return ops_elementwise_f64(call, 1, by_tanh ? gelu_tanh : gelu_none, NULL);
}

static const kern_row *elu_kernel(const ir_kernel_query *query) {
  return base_attr_float(query->attrs, THIRD) >= 0 ? ops_kernel_elu(query) : NULL;
}
static const kern_row *gelu_kernel(const ir_kernel_query *query) {
  bool by_tanh = strcmp(base_attr_str(query->attrs, FIRST), "tanh") == 0;
  return ops_kernel_f32(query, by_tanh ? KERN_GELU_TANH : KERN_GELU);
}

static bool lower_leaky_relu(const ir_kernel_query *query, loop_build *b) {
  return ops_lower_with_attributes(query, b, BASE_SCALAR_leaky_relu);
}
static bool lower_hard_sigmoid(const ir_kernel_query *query, loop_build *b) {
  return ops_lower_with_attributes(query, b, BASE_SCALAR_hard_sigmoid);
}
static bool lower_threshold(const ir_kernel_query *query, loop_build *b) {
  return ops_lower_with_attributes(query, b, BASE_SCALAR_threshold);
}
static bool lower_elu(const ir_kernel_query *query, loop_build *b) {
  const double scale = base_attr_float(query->attrs, SECOND), by = base_attr_float(query->attrs, THIRD);
  const double numbers[] = {base_attr_float(query->attrs, FIRST) * scale, scale, by};
  b->out = loop_scalar(b, BASE_SCALAR_elu, b->in[0], LOOP_NONE, LOOP_NONE, numbers, 3);
  return by >= 0;
}
static bool lower_gelu(const ir_kernel_query *query, loop_build *b) {
  const bool by_tanh = strcmp(base_attr_str(query->attrs, FIRST), "tanh") == 0;
  return by_tanh ? ops_lower_gelu_tanh(query, b) : ops_lower_gelu(query, b);
}

static td_status infer_float(ir_infer *ctx) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  if (!base_is_float(dtype))
    return ir_infer_fail(ctx, "operand of %s; a floating-point type is needed", td_dtype_name(dtype));
  return ops_infer_same(ctx);
}

static td_status infer_shrink(ir_infer *ctx) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  if (!base_is_float(dtype) && !base_is_int(dtype))
    return ir_infer_fail(ctx, "operand of %s; a number is needed", td_dtype_name(dtype));
  return ops_infer_same(ctx);
}

static td_status infer_gelu(ir_infer *ctx) {
  const char *approximate = base_attr_str(ctx->attrs, FIRST);
  if (strcmp(approximate, "none") != 0 && strcmp(approximate, "tanh") != 0)
    return ir_infer_fail(ctx, "approximate \"%s\" is neither none nor tanh", approximate);
  return infer_float(ctx);
}

static bool cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16};
  if (number >= 3 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 3];
  if (number % 3 == 0) return ops_case_in(c, d, OPS_DIMS(0, 2), OPS_NORMAL, 1);
  return number % 3 == 1 ? ops_case_in(c, d, OPS_DIMS(7, 13), OPS_SPECIAL, 2)
                         : ops_case_in(c, d, OPS_DIMS(5, 1, 3), OPS_NORMAL, 3);
}

static bool gelu_cases(ir_case *c, uint32_t number) {
  ops_case_arg(c, ARG_STR("approximate", number % 2 ? "tanh" : "none"));
  return cases(c, number / 2);
}

static const ir_attr leaky_relu_attrs[] = {ATTR_FLOAT("negative_slope", 0.01)};
static const ir_attr elu_attrs[] = {KERN_ELU_LIST(OPS_ATTR_ROW)};
static const ir_attr hard_sigmoid_attrs[] = {ATTR_FLOAT("alpha", 0.2f), ATTR_FLOAT("beta", 0.5)};
static const ir_attr shrink_attrs[] = {ATTR_FLOAT("lambd", 0.5), ATTR_FLOAT("bias", 0)};
static const ir_attr threshold_attrs[] = {ATTR_FLOAT("threshold", 1), ATTR_FLOAT("value", 0)};
static const ir_attr gelu_attrs[] = {ATTR_STR("approximate", "none")};

static const ir_alias leaky_relu_aliases[] = {{"onnx", "LeakyRelu", 1, "alpha=negative_slope"}};
static const ir_alias elu_aliases[] = {{"onnx", "Elu", 1, NULL}};
static const ir_alias hard_sigmoid_aliases[] = {{"onnx", "HardSigmoid", 1, NULL}};
static const ir_alias shrink_aliases[] = {{"onnx", "Shrink", 9, NULL}};
static const ir_alias threshold_aliases[] = {{"onnx", "ThresholdedRelu", 1, "alpha=threshold"}};
static const ir_alias gelu_aliases[] = {{"onnx", "Gelu", 20, NULL}, {"com.microsoft", "Gelu", 1, NULL}};

/* atol: what x (1 + erf(x / sqrt 2)) / 2 loses in float where the sum cancels. */
#define ROW(NAME, SPACE, OP, INFER, KERNEL, LOWER)                                                                    \
  {                                                                                                                   \
    .id = OPERATOR(SPACE, OP), .min_in = 1, .max_in = 1, .out_count = 1, .flags = IR_OP_ELEMENTWISE | IR_OP_IN_PLACE, \
    .attrs = NAME##_attrs, .attr_count = OPS_COUNT(NAME##_attrs), .infer = INFER, .reference = NAME##_reference,      \
    .kernel = KERNEL, .lower = LOWER, .rtol = 1e-6f, .atol = 4e-7f, .aliases = NAME##_aliases,                        \
    .alias_count = OPS_COUNT(NAME##_aliases)                                                                          \
  }
OPS_DECLARE(activation);
const ir_op ops_activation[] = {
    ROW(leaky_relu, aten, leaky_relu, infer_float, ops_kernel_leaky_relu, lower_leaky_relu),
    ROW(elu, aten, elu, infer_float, elu_kernel, lower_elu),
    ROW(hard_sigmoid, td, hard_sigmoid, infer_float, ops_kernel_hard_sigmoid, lower_hard_sigmoid),
    ROW(shrink, td, shrink, infer_shrink, NULL, NULL),
    ROW(threshold, aten, threshold, infer_float, ops_kernel_threshold, lower_threshold),
    ROW(gelu, aten, gelu, infer_gelu, gelu_kernel, lower_gelu),
};
OPS_TABLE(activation);
OPS_CASES(activation) = {
    {OP_aten_leaky_relu, cases},
    {OP_aten_elu, cases},
    {OP_td_hard_sigmoid, cases},
    {OP_td_shrink, cases},
    {OP_aten_threshold, cases},
    {OP_aten_gelu, gelu_cases},
    {0},
};
