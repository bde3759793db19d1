/* lower_quantize.c -- quantised values: conversions, and com.microsoft's operators on quantised operands, which compute
 * in float between a dequantisation and a quantisation. */
#include "import/onnx/onnx_priv.h"

#include <string.h>

static ir_value emit_dequantize(onnx_node *n, ir_value x, ir_value scale, ir_value zero) {
  ir_value in[] = {x, scale, zero};
  return ONNX_EMIT_ARGS(n, "td::dequantize_linear", in, zero.id ? 3 : 2, ARG_INT("axis", 0),
                        ARG_DTYPE("dtype", onnx_type_dtype(n, scale)));
}

static ir_value emit_quantize(onnx_node *n, ir_value x, ir_value scale, ir_value zero, td_dtype dtype) {
  ir_value in[] = {x, scale, zero};
  return ONNX_EMIT_ARGS(n, "td::quantize_linear", in, zero.id ? 3 : 2, ARG_INT("axis", 0), ARG_DTYPE("dtype", dtype));
}

/* ---- conversions ---- */

/* Without a zero point: the type that output_dtype asks for, or `fallback`. */
static td_dtype asked_dtype(onnx_node *n, td_dtype fallback) {
  int64_t asked = onnx_attr_int(n, "output_dtype", 0);
  return asked ? onnx_dtype(n, asked) : fallback;
}

static void quantize(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)};
  td_dtype dtype = in[2].id ? onnx_type_dtype(n, in[2]) : asked_dtype(n, TD_U8);
  base_arg args[] = {ARG_INT("axis", onnx_attr_int(n, "axis", 1)),
                     ARG_INT("block_size", onnx_attr_int(n, "block_size", 0)), ARG_DTYPE("dtype", dtype),
                     ARG_BOOL("saturate", onnx_attr_int(n, "saturate", 1))};
  onnx_out(n, 0, onnx_emit(n, "td::quantize_linear", in, in[2].id ? 3 : 2, args, 4));
}

static void dequantize(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)};
  base_arg args[] = {ARG_INT("axis", onnx_attr_int(n, "axis", 1)),
                     ARG_INT("block_size", onnx_attr_int(n, "block_size", 0)),
                     ARG_DTYPE("dtype", asked_dtype(n, onnx_type_dtype(n, in[1])))};
  onnx_out(n, 0, onnx_emit(n, "td::dequantize_linear", in, in[2].id ? 3 : 2, args, 3));
}

/* ---- operators on quantised operands ---- */

/* The operand whose value, scale and zero point are inputs i, i + 1, i + 2. */
static ir_value operand(onnx_node *n, uint32_t i) {
  return emit_dequantize(n, onnx_in(n, i), onnx_in(n, i + 1), onnx_in(n, i + 2));
}

/* The result is quantised with inputs i and i + 1, to the type of the first operand. */
static void result(onnx_node *n, ir_value v, uint32_t i, td_dtype dtype) {
  ir_value zero = onnx_in(n, i + 1);
  onnx_out(n, 0, emit_quantize(n, v, onnx_in(n, i), zero, zero.id ? onnx_type_dtype(n, zero) : dtype));
}

static void unary_result(onnx_node *n, ir_value v) { result(n, v, 3, onnx_type_dtype(n, onnx_in(n, 0))); }

static void qlinear_binary(onnx_node *n) {
  const char *op = strcmp(onnx_op_type(n), "QLinearAdd") == 0 ? "aten::add" : "aten::mul";
  result(n, ONNX_EMIT(n, op, operand(n, 0), operand(n, 3)), 6, onnx_type_dtype(n, onnx_in(n, 0)));
}

static void qlinear_sigmoid(onnx_node *n) { unary_result(n, ONNX_EMIT(n, "aten::sigmoid", operand(n, 0))); }

static void qlinear_leaky_relu(onnx_node *n) {
  ir_value x = operand(n, 0);
  unary_result(
      n, ONNX_EMIT_ARGS(n, "aten::leaky_relu", &x, 1, ARG_FLOAT("negative_slope", onnx_attr_float(n, "alpha", 0.01f))));
}

/* The attribute opset tells which Softmax it was. */
static void qlinear_softmax(onnx_node *n) {
  ir_value x = operand(n, 0);
  bool flatten = onnx_attr_int(n, "opset", 13) < 13;
  unary_result(n, ONNX_EMIT_ARGS(n, "aten::_softmax", &x, 1, ARG_INT("dim", onnx_attr_int(n, "axis", -1)),
                                 ARG_BOOL("flatten", flatten)));
}

static void qlinear_reduce_mean(onnx_node *n) {
  ir_value x = operand(n, 0);
  uint32_t count;
  const int64_t *axes = onnx_attr_ints(n, "axes", &count);
  unary_result(n, ONNX_EMIT_ARGS(n, "aten::mean", &x, 1, ARG_INTS("dim", axes, count),
                                 ARG_BOOL("keepdim", onnx_attr_int(n, "keepdims", 1))));
}

/* Inputs: scale and zero point of the result, then (value, scale, zero point) of each operand. */
static void qlinear_concat(onnx_node *n) {
  uint32_t count = onnx_in_count(n) / 3; /* the last zero point may be absent */
  ir_value *in = onnx_alloc(n, (count + 1) * sizeof *in);
  if (!in) return;
  if (!count || onnx_in_count(n) == 3 * count)
    onnx_fail(n, TD_BAD_FILE, "operands come as value, scale and zero point");
  for (uint32_t i = 0; i < count; i++) in[i] = operand(n, 2 + 3 * i);
  ir_value joined = ONNX_EMIT_ARGS(n, "aten::cat", in, count, ARG_INT("dim", onnx_attr_int(n, "axis", 1)));
  result(n, joined, 0, onnx_type_dtype(n, onnx_in(n, 2)));
}

static void qlinear_where(onnx_node *n) {
  ir_value chosen = ONNX_EMIT(n, "aten::where", onnx_in(n, 0), operand(n, 1), operand(n, 4));
  result(n, chosen, 7, onnx_type_dtype(n, onnx_in(n, 1)));
}

ONNX_DECLARE(quantize);
const onnx_lowering onnx_lower_quantize[] = {
    {"", "QuantizeLinear", 10, quantize},
    {"", "DequantizeLinear", 10, dequantize},
    {"com.microsoft", "QuantizeLinear", 1, quantize},
    {"com.microsoft", "DequantizeLinear", 1, dequantize},
    {"com.microsoft", "QLinearAdd", 1, qlinear_binary},
    {"com.microsoft", "QLinearMul", 1, qlinear_binary},
    {"com.microsoft", "QLinearSigmoid", 1, qlinear_sigmoid},
    {"com.microsoft", "QLinearLeakyRelu", 1, qlinear_leaky_relu},
    {"com.microsoft", "QLinearSoftmax", 1, qlinear_softmax},
    {"com.microsoft", "QLinearReduceMean", 1, qlinear_reduce_mean},
    {"com.microsoft", "QLinearConcat", 1, qlinear_concat},
    {"com.microsoft", "QLinearWhere", 1, qlinear_where},
};
ONNX_TABLE(quantize);
