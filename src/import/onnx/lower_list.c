/* lower_list.c -- sequences and optionals whose ONNX form is more than a renaming. */
#include "import/onnx/onnx_priv.h"

static void sequence_empty(onnx_node *n) {
  td_dtype dtype = onnx_dtype(n, onnx_attr_int(n, "dtype", 1));
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "td::list_new", NULL, 0, ARG_DTYPE("dtype", dtype)));
}

/* The attribute `type` tells what an empty optional would hold; nothing depends on it. */
static void optional(onnx_node *n) {
  ir_value in = onnx_in(n, 0);
  onnx_out(n, 0, onnx_emit(n, "td::optional_new", &in, onnx_has(n, 0), NULL, 0));
}

static void identity(onnx_node *n) { onnx_out(n, 0, onnx_in(n, 0)); }

ONNX_DECLARE(list);
const onnx_lowering onnx_lower_list[] = {
    {"", "SequenceEmpty", 11, sequence_empty},
    {"", "Optional", 15, optional},
    {"", "Identity", 1, identity},
};
ONNX_TABLE(list);
