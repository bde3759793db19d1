/* fuzz_onnx.c -- any bytes as an ONNX model, without external files: an answer, never a crash. */
#include <stdlib.h>

#include "import/import.h"
#include "ops/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const ir_opset *ops;
  if (!ops) {
    static base_arena *volatile arena; /* one set for all inputs, kept where the leak checker sees it */
    arena = base_arena_new(&base_libc_allocator);
    ops = arena ? ops_set(arena) : NULL;
    if (!ops) return 0;
  }
  import_source source = {.bytes = data, .size = size, .format = "onnx"};
  ir_graph *graph = NULL;
  td_error err = {0};
  td_status status = import_model(&source, ops, &base_libc_allocator, &graph, &err);
  if ((status == TD_OK) != (graph != NULL) || (status != TD_OK && !err.text[0])) abort();
  ir_graph_free(graph);
  return 0;
}
