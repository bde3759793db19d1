/* fuzz_ir.c -- any bytes as the text of a graph: an answer, never a crash; what is read prints, and what is printed
 * reads back to the same text. */
#include <stdlib.h>

#include "fuzz/change_numbers.h"
#include "ops/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static float weights[64];
static const ir_segment segments[] = {{"weights", weights, sizeof weights}};

static void print_again(const ir_opset *ops, const base_text *text) {
  base_text again = {.allocator = &base_libc_allocator};
  ir_graph *graph = NULL;
  td_error err = {0};
  if (ir_parse(&base_libc_allocator, ops, text->at, text->length, segments, 1, &graph, &err) != TD_OK) abort();
  if (ir_print(graph, &again) != TD_OK) abort();
  if (!base_str_equal((base_str){again.at, again.length}, (base_str){text->at, text->length})) abort();
  ir_graph_free(graph);
  base_text_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static base_arena *volatile arena; /* one set for all inputs, kept where the leak checker sees it */
  static const ir_opset *ops;
  if (!ops) {
    arena = base_arena_new(&base_libc_allocator);
    ops = arena ? ops_set(arena) : NULL;
    if (!ops) return 0;
  }
  ir_graph *graph = NULL;
  td_error err = {0};
  td_status status = ir_parse(&base_libc_allocator, ops, (const char *)data, size, segments, 1, &graph, &err);
  if ((status == TD_OK) != (graph != NULL) || (status != TD_OK && !err.text[0])) abort();
  if (graph) {
    base_text text = {.allocator = &base_libc_allocator};
    if (ir_verify(graph, &err) != TD_OK) abort();
    if (ir_print(graph, &text) == TD_OK) print_again(ops, &text);
    base_text_free(&text);
  }
  ir_graph_free(graph);
  return 0;
}
