/* lower_math.c -- elementwise operators that ATen spells otherwise, and the forms of old operator sets. */
#include "import/onnx/onnx_priv.h"

#include <string.h>

/* Rows "their name, our operator" for lowerings that several operators share. */
typedef struct name_pair {
  const char *theirs, *ours;
} name_pair;

#define OURS(n, pairs) ours_of((n), (pairs), sizeof(pairs) / sizeof *(pairs))
static const char *ours_of(const onnx_node *n, const name_pair *pairs, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(pairs[i].theirs, onnx_op_type(n)) == 0) return pairs[i].ours;
  return "";
}

static ir_value emit_div(onnx_node *n, ir_value a, ir_value b) {
  ir_value in[] = {a, b};
  bool whole = !base_is_float(onnx_type_dtype(n, a));
  return whole ? ONNX_EMIT_ARGS(n, "aten::div", in, 2, ARG_STR("rounding_mode", "trunc"))
               : onnx_emit(n, "aten::div", in, 2, NULL, 0);
}

/* `v` with `count` dimensions of size 1 behind its own. */
static ir_value add_trailing(onnx_node *n, ir_value v, int32_t count) {
  int64_t axes[BASE_MAX_RANK];
  if (onnx_failed(n) || count <= 0) return v;
  int32_t rank = onnx_rank(n, v);
  for (int32_t i = 0; i < count && i < BASE_MAX_RANK; i++) axes[i] = rank + i;
  return ONNX_EMIT(n, "aten::unsqueeze", v, onnx_ints(n, axes, (uint32_t)count));
}

/* Before version 7 the second operand broadcasts only if `broadcast` says so, and its dimensions line up with those of
 * the first from `axis` on (absent: at the end). */
static ir_value legacy_second(onnx_node *n) {
  ir_value b = onnx_in(n, 1);
  if (onnx_opset(n) >= 7 || !onnx_attr_int(n, "broadcast", 0) || !onnx_attr_has(n, "axis")) return b;
  int32_t rank = onnx_rank(n, onnx_in(n, 0)), own = onnx_rank(n, b);
  int64_t axis = onnx_axis(n, onnx_attr_int(n, "axis", 0), rank);
  return add_trailing(n, b, (int32_t)(rank - axis - own));
}

static void legacy_binary(onnx_node *n) {
  static const name_pair pairs[] = {
      {"Add", "aten::add"},         {"Sub", "aten::sub"},       {"Mul", "aten::mul"},
      {"And", "aten::logical_and"}, {"Or", "aten::logical_or"}, {"Xor", "aten::logical_xor"},
      {"Equal", "aten::eq"},        {"Greater", "aten::gt"},    {"Less", "aten::lt"}};
  onnx_out(n, 0, ONNX_EMIT(n, OURS(n, pairs), onnx_in(n, 0), legacy_second(n)));
}

static void divide(onnx_node *n) { onnx_out(n, 0, emit_div(n, onnx_in(n, 0), legacy_second(n))); }

/* The result has the base's type. Mixed operands meet in a type that holds both. */
static void power(onnx_node *n) {
  ir_value a = onnx_in(n, 0), b = legacy_second(n);
  td_dtype base = onnx_type_dtype(n, a), exponent = onnx_type_dtype(n, b), meet = base;
  if (base_is_float(base) && base_is_float(exponent))
    meet = base_dtype(base)->bits >= base_dtype(exponent)->bits ? base : exponent;
  else if (base_is_float(exponent)) meet = TD_F64;
  else if (!base_is_float(base) && base != exponent) meet = TD_I64;
  ir_value result = ONNX_EMIT(n, "aten::pow", onnx_cast(n, a, meet), onnx_cast(n, b, meet));
  onnx_out(n, 0, onnx_cast(n, result, base));
}

static void modulo(onnx_node *n) {
  const char *op = onnx_attr_int(n, "fmod", 0) ? "aten::fmod" : "aten::remainder";
  onnx_out(n, 0, ONNX_EMIT(n, op, onnx_in(n, 0), onnx_in(n, 1)));
}

/* Folds the inputs from left to right. */
static ir_value fold(onnx_node *n, const char *op) {
  ir_value result = onnx_in(n, 0);
  for (uint32_t i = 1; i < onnx_in_count(n); i++) result = ONNX_EMIT(n, op, result, onnx_in(n, i));
  return result;
}

static void variadic(onnx_node *n) {
  static const name_pair pairs[] = {{"Max", "aten::maximum"}, {"Min", "aten::minimum"}, {"Sum", "aten::add"}};
  onnx_out(n, 0, fold(n, OURS(n, pairs)));
}

static void mean(onnx_node *n) {
  ir_value sum = fold(n, "aten::add");
  onnx_out(n, 0, emit_div(n, sum, onnx_scalar(n, onnx_type_dtype(n, sum), onnx_in_count(n))));
}

static void legacy_clip(onnx_node *n) {
  ir_value x = onnx_in(n, 0), none = IR_NO_VALUE;
  td_dtype dtype = onnx_type_dtype(n, x);
  ir_value low = onnx_attr_has(n, "min") ? onnx_scalar(n, dtype, onnx_attr_float(n, "min", 0)) : none;
  ir_value high = onnx_attr_has(n, "max") ? onnx_scalar(n, dtype, onnx_attr_float(n, "max", 0)) : none;
  onnx_out(n, 0, ONNX_EMIT(n, "aten::clamp", x, low, high));
}

static void shift(onnx_node *n) {
  const char *direction = onnx_attr_str(n, "direction", "");
  bool left = strcmp(direction, "LEFT") == 0;
  if (!left && strcmp(direction, "RIGHT") != 0)
    onnx_fail(n, TD_BAD_FILE, "direction \"%s\" is neither LEFT nor RIGHT", direction);
  onnx_out(n, 0, ONNX_EMIT(n, left ? "aten::__lshift__" : "aten::__rshift__", onnx_in(n, 0), onnx_in(n, 1)));
}

/* Before version 7 the slope has one element per channel (dimension 1), or one. */
static void prelu(onnx_node *n) {
  ir_value x = onnx_in(n, 0), slope = onnx_in(n, 1);
  const ir_type *type = onnx_type(n, slope);
  if (onnx_opset(n) < 7 && type->rank == 1 && type->dims[0] != 1) slope = add_trailing(n, slope, onnx_rank(n, x) - 2);
  onnx_out(n, 0, ONNX_EMIT(n, "td::prelu", x, slope));
}

static void selu(onnx_node *n) {
  bool old = onnx_opset(n) < 6; /* version 1 had rounder constants */
  double alpha = onnx_attr_float(n, "alpha", old ? 1.6732 : 1.67326319217681884765625);
  double gamma = onnx_attr_float(n, "gamma", old ? 1.0507 : 1.05070102214813232421875);
  ir_value x = onnx_in(n, 0);
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "aten::elu", &x, 1, ARG_FLOAT("alpha", alpha), ARG_FLOAT("scale", gamma)));
}

static void celu(onnx_node *n) {
  double alpha = onnx_attr_float(n, "alpha", 1);
  ir_value x = onnx_in(n, 0);
  if (alpha == 0) onnx_fail(n, TD_BAD_FILE, "alpha must not be zero");
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "aten::elu", &x, 1, ARG_FLOAT("alpha", alpha), ARG_FLOAT("input_scale", 1 / alpha)));
}

/* x * sigmoid(alpha * x) of input 0 */
static ir_value emit_swish(onnx_node *n, double alpha) {
  ir_value x = onnx_in(n, 0);
  if (alpha == 1) return ONNX_EMIT(n, "aten::silu", x);
  ir_value scaled = ONNX_EMIT(n, "aten::mul", x, onnx_scalar(n, onnx_type_dtype(n, x), alpha));
  return ONNX_EMIT(n, "aten::mul", x, ONNX_EMIT(n, "aten::sigmoid", scaled));
}
static void swish(onnx_node *n) { onnx_out(n, 0, emit_swish(n, onnx_attr_float(n, "alpha", 1))); }
static void quick_gelu(onnx_node *n) { onnx_out(n, 0, emit_swish(n, onnx_attr_float(n, "alpha", 1.702f))); }
static void swiglu(onnx_node *n) {
  onnx_out(n, 0, ONNX_EMIT(n, "aten::mul", emit_swish(n, onnx_attr_float(n, "alpha", 1)), onnx_in(n, 1)));
}

/* gelu(x + bias); the bias may be absent. */
static void emit_bias_gelu(onnx_node *n, const char *approximate) {
  ir_value x = onnx_in(n, 0);
  if (onnx_has(n, 1)) x = ONNX_EMIT(n, "aten::add", x, onnx_in(n, 1));
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "aten::gelu", &x, 1, ARG_STR("approximate", approximate)));
}
static void fast_gelu(onnx_node *n) { emit_bias_gelu(n, "tanh"); }
static void bias_gelu(onnx_node *n) { emit_bias_gelu(n, "none"); }

static void bias_add(onnx_node *n) { onnx_out(n, 0, fold(n, "aten::add")); }

/* ---- casts ---- */

static void emit_cast(onnx_node *n, td_dtype dtype) {
  ir_value x = onnx_in(n, 0);
  bool saturate = onnx_attr_int(n, "saturate", 1);
  const char *round_mode = onnx_attr_str(n, "round_mode", "up");
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "aten::_to_copy", &x, 1, ARG_DTYPE("dtype", dtype), ARG_BOOL("saturate", saturate),
                          ARG_STR("round_mode", round_mode)));
}

/* Version 1 spells the type out. */
static void legacy_cast(onnx_node *n) {
  static const struct {
    const char *name;
    td_dtype dtype;
  } types[] = {{"FLOAT", TD_F32},  {"UINT8", TD_U8},   {"INT8", TD_I8},      {"UINT16", TD_U16},  {"INT16", TD_I16},
               {"INT32", TD_I32},  {"INT64", TD_I64},  {"BOOL", TD_BOOL},    {"FLOAT16", TD_F16}, {"DOUBLE", TD_F64},
               {"UINT32", TD_U32}, {"UINT64", TD_U64}, {"STRING", TD_STRING}};
  const char *to = onnx_attr_str(n, "to", "");
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(types[i].name, to) != 0) continue;
    emit_cast(n, types[i].dtype);
    return;
  }
  onnx_fail(n, TD_UNSUPPORTED, "the element type \"%s\" is not supported", to);
}

static void cast(onnx_node *n) { emit_cast(n, onnx_dtype(n, onnx_attr_int(n, "to", 0))); }
static void cast_like(onnx_node *n) { emit_cast(n, onnx_type_dtype(n, onnx_in(n, 1))); }

/* ---- dropout: what inference does ---- */

/* True everywhere, with the dimensions of x. */
static ir_value all_true(onnx_node *n, ir_value x) {
  ir_value any = ONNX_EMIT(n, "aten::isnan", x);
  return ONNX_EMIT(n, "aten::eq", any, any);
}

/* From version 12 on the training flag is an input, which the model may compute. */
static bool surely_inference(onnx_node *n) {
  const int64_t *training;
  uint32_t count;
  return onnx_opset(n) < 12 || !onnx_has(n, 2) ||
         (onnx_known_ints(n, onnx_in(n, 2), &training, &count) && count == 1 && !training[0]);
}

static void dropout(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)}, out[2];
  if (!surely_inference(n)) {
    onnx_emit_many(n, "td::dropout", in, 3, NULL, 0, out, 2);
    for (uint32_t i = 0; i < 2; i++) onnx_out(n, i, out[i]);
    return;
  }
  onnx_out(n, 0, in[0]);
  if (!onnx_wants(n, 1)) return;
  ir_value mask = all_true(n, in[0]);
  onnx_out(n, 1, onnx_opset(n) < 10 ? onnx_cast(n, mask, onnx_type_dtype(n, in[0])) : mask);
}

static void trilu(onnx_node *n) {
  const char *op = onnx_attr_int(n, "upper", 1) ? "aten::triu" : "aten::tril";
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1)};
  onnx_out(n, 0, onnx_emit(n, op, in, in[1].id ? 2 : 1, NULL, 0));
}

ONNX_DECLARE(math);
const onnx_lowering onnx_lower_math[] = {
    {"", "Add", 1, legacy_binary},
    {"", "Sub", 1, legacy_binary},
    {"", "Mul", 1, legacy_binary},
    {"", "And", 1, legacy_binary},
    {"", "Or", 1, legacy_binary},
    {"", "Xor", 1, legacy_binary},
    {"", "Equal", 1, legacy_binary},
    {"", "Greater", 1, legacy_binary},
    {"", "Less", 1, legacy_binary},
    {"", "Div", 1, divide},
    {"", "Pow", 1, power},
    {"", "Mod", 10, modulo},
    {"", "Max", 1, variadic},
    {"", "Min", 1, variadic},
    {"", "Sum", 1, variadic},
    {"", "Mean", 1, mean},
    {"", "Clip", 1, legacy_clip},
    {"", "BitShift", 11, shift},
    {"", "PRelu", 1, prelu},
    {"", "Selu", 1, selu},
    {"", "Celu", 12, celu},
    {"", "Swish", 24, swish},
    {"", "SwiGLU", 28, swiglu},
    {"", "Cast", 1, legacy_cast},
    {"", "Cast", 6, cast},
    {"", "CastLike", 15, cast_like},
    {"", "Dropout", 1, dropout},
    {"", "Trilu", 14, trilu},
    {"com.microsoft", "Trilu", 1, trilu},
    {"com.microsoft", "QuickGelu", 1, quick_gelu},
    {"com.microsoft", "FastGelu", 1, fast_gelu},
    {"com.microsoft", "BiasGelu", 1, bias_gelu},
    {"com.microsoft", "BiasAdd", 1, bias_add},
};
ONNX_TABLE(math);
