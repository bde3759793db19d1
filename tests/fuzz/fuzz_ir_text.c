/* fuzz_ir_text.c -- any bytes as the text form of a graph: an error with a text, or a graph that prints and is
 * verified. */
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const ir_opset *ops;
  static float weights[64];
  static const ir_segment segments[] = {{"weights", weights, sizeof weights}};
  if (!ops) {
    static base_arena *volatile arena; /* one set for all inputs, kept where the leak checker sees it */
    arena = base_arena_new(&base_libc_allocator);
    ops = arena ? ops_set(arena) : NULL;
    if (!ops) return 0;
  }
  ir_graph *graph = NULL;
  td_error err = {0};
  td_status status = ir_parse(&base_libc_allocator, ops, (const char *)data, size, segments, 1, &graph, &err);
  if ((status == TD_OK) != (graph != NULL) || (status != TD_OK && !err.text[0])) abort();
  if (!graph) return 0;
  base_text text = {.allocator = &base_libc_allocator};
  if (ir_verify(graph, &err) != TD_OK || ir_print(graph, &text) != TD_OK) abort();
  base_text_free(&text);
  ir_graph_free(graph);
  return 0;
}
