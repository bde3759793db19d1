/* fuzz_torchscript.c -- any bytes as a TorchScript archive; or, where they do not begin like one, as the source text of
 * an archive's module, so that programs are reached without a zip around them. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/change_numbers.h"
#include "fmt/fmt.h"
#include "import/import.h"
#include "ops/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool add(fmt_zip_writer *w, const char *name, const void *bytes, size_t size) {
  return fmt_zip_add(w, name, bytes, size, NULL) == TD_OK;
}

static base_text wrap(const uint8_t *data, size_t size) {
  static const char root[] = "\x80\2c__torch__\nNet\n)\x81}X\1\0\0\0nK\3sb.", constants[] = "\x80\2).";
  base_text out = {.allocator = &base_libc_allocator};
  fmt_zip_writer w = {.out = &out, .directory = {.allocator = &base_libc_allocator}};
  bool fits = add(&w, "n/data.pkl", root, sizeof root - 1) &&
              add(&w, "n/constants.pkl", constants, sizeof constants - 1) && add(&w, "n/version", "10\n", 3) &&
              add(&w, "n/code/__torch__.py", data, size);
  if (fmt_zip_finish(&w, NULL) != TD_OK || !fits) out.length = 0;
  return out;
}

/* Origins of a sound model, and any text as one. */
static void tell(const import_source *source, const ir_graph *graph) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const uint32_t nodes = graph ? graph->nodes.count : 1;
  const char **texts = arena ? base_new(arena, const char *, nodes + 1) : NULL;
  uint32_t count = 0;
  for (uint32_t i = 1; texts && i < nodes; i++)
    if (graph->nodes.at[i].op) texts[count++] = ir_node_name(&graph->nodes.at[i]);
  char *any = texts ? base_arena_slice(arena, source->bytes, source->size) : NULL;
  if (any) {
    texts[count++] = any;
    texts[count++] = "code/__torch__.py:1:99999999 code/.py:0:0";
    import_tell(source, arena, texts, count);
  }
  base_arena_free(arena);
}

static void import(const void *bytes, size_t size, uint32_t inputs, const ir_opset *ops) {
  static const td_input_spec specs[2] = {{.dtype = TD_F32, .rank = 2, .dims = {-1, 3}}, {.dtype = TD_I64}};
  import_source source = {.bytes = bytes,
                          .size = size,
                          .format = "torchscript",
                          .inputs = specs,
                          .input_count = inputs,
                          .brief = size % 3 != 0};
  ir_graph *graph = NULL;
  td_error err = {0};
  td_status status = import_model(&source, ops, &base_libc_allocator, &graph, &err);
  if ((status == TD_OK) != (graph != NULL) || (status != TD_OK && !err.text[0])) abort();
  if (status == TD_INTERNAL) abort();
  tell(&source, graph);
  ir_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const ir_opset *ops;
  if (!ops) {
    static base_arena *volatile arena; /* one set for all inputs, kept where the leak checker sees it */
    arena = base_arena_new(&base_libc_allocator);
    ops = arena ? ops_set(arena) : NULL;
    if (!ops) return 0;
  }
  if (size > 4 && memcmp(data, "PK", 2) == 0) {
    import(data, size, 1 + size % 2, ops);
    return 0;
  }
  base_text zip = wrap(data, size);
  for (uint32_t inputs = 1; zip.length && inputs <= 2; inputs++) import(zip.at, zip.length, inputs, ops); /* one fits */
  base_text_free(&zip);
  return 0;
}
