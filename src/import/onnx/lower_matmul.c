/* lower_matmul.c -- ONNX's and com.microsoft's matrix products in floats. */
#include "import/onnx/onnx_priv.h"

/* alpha A B + beta C. Before opset 7 C had to be told to broadcast; the rule itself was the same. */
static void lower_gemm(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)};
  base_arg args[] = {ARG_FLOAT("alpha", onnx_attr_float(n, "alpha", 1)), ARG_FLOAT("beta", onnx_attr_float(n, "beta", 1)),
                     ARG_BOOL("trans_a", onnx_attr_int(n, "transA", 0) != 0),
                     ARG_BOOL("trans_b", onnx_attr_int(n, "transB", 0) != 0)};
  onnx_out(n, 0, onnx_emit(n, "td::gemm", in, onnx_has(n, 2) ? 3 : 2, args, 4));
}

ONNX_DECLARE(matmul);
const onnx_lowering onnx_lower_matmul[] = {
    {"", "Gemm", 1, lower_gemm},
};
ONNX_TABLE(matmul);
