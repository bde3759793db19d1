/* fused.c -- parts of com.microsoft's fused operators. */
#include "import/onnx/fused_priv.h"

#include <string.h>

static ir_value clip(onnx_node *n, ir_value v, double least, double most) {
  td_dtype d = onnx_type_dtype(n, v);
  return ONNX_EMIT(n, "aten::clamp", v, onnx_scalar(n, d, least), onnx_scalar(n, d, most));
}

ir_value onnx_activate(onnx_node *n, ir_value v, const double *params, uint32_t count) {
  const char *name = onnx_attr_str(n, "activation", "");
  if (!*name) return v;
  if (strcmp(name, "Relu") == 0) return ONNX_EMIT(n, "aten::relu", v);
  if (strcmp(name, "Sigmoid") == 0) return ONNX_EMIT(n, "aten::sigmoid", v);
  if (strcmp(name, "Tanh") == 0) return ONNX_EMIT(n, "aten::tanh", v);
  if (strcmp(name, "HardSwish") == 0) return ONNX_EMIT(n, "aten::hardswish", v);
  if (strcmp(name, "LeakyRelu") == 0)
    return ONNX_EMIT_ARGS(n, "aten::leaky_relu", &v, 1, ARG_FLOAT("negative_slope", count > 0 ? params[0] : 0.01));
  if (strcmp(name, "HardSigmoid") == 0)
    return ONNX_EMIT_ARGS(n, "td::hard_sigmoid", &v, 1, ARG_FLOAT("alpha", count > 0 ? params[0] : 0.2),
                          ARG_FLOAT("beta", count > 1 ? params[1] : 0.5));
  if (strcmp(name, "Clip") == 0 && count == 2) return clip(n, v, params[0], params[1]);
  onnx_fail(n, TD_UNSUPPORTED, "the activation \"%s\" is not supported here", name);
  return v;
}

/* Moves axis `from` to place `to`. */
static ir_value move_axis(onnx_node *n, ir_value v, int32_t from, int32_t to) {
  int64_t dims[BASE_MAX_RANK] = {0};
  int32_t rank = onnx_rank(n, v), axis = 0;
  if (onnx_failed(n)) return IR_NO_VALUE;
  if (from < 0) from += rank;
  if (to < 0) to += rank;
  for (int32_t i = 0; i < rank; i++) {
    if (i == to) {
      dims[i] = from;
      continue;
    }
    if (axis == from) axis++;
    dims[i] = axis++;
  }
  return ONNX_EMIT_ARGS(n, "aten::permute", &v, 1, ARG_INTS("dims", dims, rank));
}

ir_value onnx_channels_second(onnx_node *n, ir_value v) { return move_axis(n, v, -1, 1); }
ir_value onnx_channels_last(onnx_node *n, ir_value v) { return move_axis(n, v, 1, -1); }

ir_value onnx_dequantise(onnx_node *n, ir_value x, ir_value scale, ir_value zero) {
  ir_value in[] = {x, scale, zero};
  return ONNX_EMIT_ARGS(n, "td::dequantize_linear", in, zero.id ? 3 : 2, ARG_INT("axis", 0),
                        ARG_DTYPE("dtype", TD_F32));
}

ir_value onnx_quantise(onnx_node *n, ir_value x, ir_value scale, ir_value zero, td_dtype dtype) {
  ir_value in[] = {x, scale, zero};
  return ONNX_EMIT_ARGS(n, "td::quantize_linear", in, zero.id ? 3 : 2, ARG_INT("axis", 0), ARG_DTYPE("dtype", dtype));
}

ir_value onnx_axis_size(onnx_node *n, ir_value v, int64_t axis) {
  return ONNX_EMIT_ARGS(n, "td::shape", &v, 1, ARG_INT("start", axis), ARG_INT("end", axis + 1));
}

ir_value onnx_count_to(onnx_node *n, ir_value size) {
  static const int64_t first = 0;
  const ir_value ends[] = {onnx_scalar(n, TD_I64, 0), ONNX_EMIT(n, "aten::squeeze", size, onnx_ints(n, &first, 1)),
                           onnx_scalar(n, TD_I64, 1)};
  return onnx_emit(n, "aten::arange", ends, 3, NULL, 0);
}
