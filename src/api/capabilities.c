/* capabilities.c -- what this build knows, from the registries themselves. */
#include <string.h>

#include <treadle/experimental.h>

#include "compile/compile.h"
#include "import/import.h"
#include "ops/ops.h"
#include "passes/passes.h"

typedef struct writer {
  base_text text;
  bool first; /* in the object or array that is open */
} writer;

static void open_array(writer *w, const char *key) {
  base_text_print(&w->text, "%s\"%s\": [", w->text.length > 1 ? "],\n " : "", key);
  w->first = true;
}

/* Names of registries are plain ASCII without quotes or backslashes. */
static void add(writer *w, const char *name) {
  base_text_print(&w->text, "%s\"%s\"", w->first ? "" : ", ", name);
  w->first = false;
}

static void write_tables(writer *w) {
  uint32_t count;
  const compile_backend *backends = compile_backends(&count);
  open_array(w, "backends");
  for (uint32_t i = 0; i < count; i++) add(w, backends[i].name);
  const import_format *formats = import_formats(&count);
  open_array(w, "formats");
  for (uint32_t i = 0; i < count; i++) add(w, formats[i].name);
  open_array(w, "builtins");
  for (size_t i = 0; import_builtin_name(i); i++) add(w, import_builtin_name(i));
  const passes_row *passes = passes_list(&count);
  open_array(w, "passes");
  for (uint32_t i = 0; i < count; i++) add(w, passes[i].name);
  open_array(w, "kernels");
  for (uint32_t family = 0; family < KERN_FAMILY_COUNT; family++) {
    const char *last = ""; /* rows of several widths may share a function */
    const kern_row *row;
    for (uint32_t i = 0; (row = kern_row_at(i)); i++) {
      if (row->family != family || strcmp(row->name, last) == 0) continue;
      add(w, row->name);
      last = row->name;
    }
  }
}

static void write_names(writer *w, const char *key, const char *const *names, uint32_t count) {
  open_array(w, key);
  for (uint32_t i = 0; i < count; i++) add(w, names[i]);
}

static bool write_operators(writer *w, base_arena *arena) {
  const ir_opset *ops = ops_set(arena);
  const char **onnx, **torch;
  uint32_t onnx_count, torch_count;
  if (!ops || !import_onnx_names(ops, arena, &onnx, &onnx_count) || !import_torch_names(arena, &torch, &torch_count))
    return false;
  open_array(w, "operators");
  for (uint32_t i = 0; i < ops->count; i++) add(w, ops->ops[i]->name);
  write_names(w, "onnx_operators", onnx, onnx_count);
  write_names(w, "torch_operators", torch, torch_count);
  return true;
}

td_status td_capabilities(char *text, size_t size, size_t *length, td_error *err) {
  if ((!text && size) || !length) {
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_capabilities needs a place for the text and its length");
  }
  writer w = {.text = {.allocator = &base_libc_allocator}};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text_print(&w.text, "{");
  write_tables(&w);
  bool done = arena && write_operators(&w, arena);
  base_text_print(&w.text, "]}");
  base_arena_free(arena);
  done = done && !w.text.failed;
  if (done) {
    *length = w.text.length;
    size_t copied = size == 0 ? 0 : w.text.length < size ? w.text.length : size - 1;
    if (copied) memcpy(text, w.text.at, copied);
    if (size) text[copied] = 0;
  }
  base_text_free(&w.text);
  return done ? TD_OK : base_no_memory(err, "the capabilities");
}
