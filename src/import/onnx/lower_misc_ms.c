/* lower_misc_ms.c -- com.microsoft's fusions that are a few plain operators. */
#include "import/onnx/onnx_priv.h"

#include <string.h>

/* Elements [start, end) of the last axis. */
static ir_value last_axis(onnx_node *n, ir_value v, int64_t start, int64_t end) {
  int64_t starts[] = {start}, ends[] = {end}, axes[] = {onnx_rank(n, v) - 1};
  return ONNX_EMIT(n, "aten::slice", v, onnx_ints(n, starts, 1), onnx_ints(n, ends, 1), onnx_ints(n, axes, 1));
}

/* Real and imaginary parts along the last axis; ComplexMulConj multiplies by the conjugate of the second operand. */
static void complex_product(onnx_node *n) {
  bool conjugate = strcmp(onnx_op_type(n), "ComplexMulConj") == 0;
  ir_value a = onnx_in(n, 0), b = onnx_in(n, 1);
  ir_value ar = last_axis(n, a, 0, 1), ai = last_axis(n, a, 1, 2), br = last_axis(n, b, 0, 1),
           bi = last_axis(n, b, 1, 2);
  if (conjugate) bi = ONNX_EMIT(n, "aten::neg", bi);
  ir_value parts[] = {ONNX_EMIT(n, "aten::sub", ONNX_EMIT(n, "aten::mul", ar, br), ONNX_EMIT(n, "aten::mul", ai, bi)),
                      ONNX_EMIT(n, "aten::add", ONNX_EMIT(n, "aten::mul", ar, bi), ONNX_EMIT(n, "aten::mul", ai, br))};
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "aten::cat", parts, 2, ARG_INT("dim", -1)));
}

/* After the bias the first half of a row is multiplied by the GELU of the second. */
static void bias_split_gelu(onnx_node *n) {
  ir_value x = ONNX_EMIT(n, "aten::add", onnx_in(n, 0), onnx_in(n, 1));
  const ir_type *t = onnx_type(n, x);
  base_dim size = t->rank > 0 ? t->dims[t->rank - 1] : BASE_DIM_NONE;
  if (!base_dim_known(size) || size % 2 != 0) {
    onnx_fail(n, TD_UNSUPPORTED, "rows of an unknown or odd size");
    return;
  }
  ir_value gate = last_axis(n, x, size / 2, size);
  onnx_out(n, 0, ONNX_EMIT(n, "aten::mul", last_axis(n, x, 0, size / 2), ONNX_EMIT(n, "aten::gelu", gate)));
}

/* The bias has the rank of the scores, with sizes of 1 where it broadcasts, or lacks leading dims. */
static void bias_softmax(onnx_node *n) {
  ir_value x = ONNX_EMIT(n, "aten::add", onnx_in(n, 0), onnx_in(n, 1));
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "aten::_softmax", &x, 1, ARG_INT("dim", onnx_attr_int(n, "axis", 1)),
                          ARG_BOOL("flatten", true)));
}

ONNX_DECLARE(misc_ms);
const onnx_lowering onnx_lower_misc_ms[] = {
    {"com.microsoft", "ComplexMul", 1, complex_product},
    {"com.microsoft", "ComplexMulConj", 1, complex_product},
    {"com.microsoft", "BiasSplitGelu", 1, bias_split_gelu},
    {"com.microsoft", "BiasSoftmax", 1, bias_softmax},
};
ONNX_TABLE(misc_ms);
