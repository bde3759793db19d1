/* import.c -- chooses the front end. */
#include "import/import.h"

#include <string.h>

#define FORMAT(name, tell)                                                                                \
  bool import_##name##_sniff(const void *bytes, size_t size);                                             \
  td_status import_##name##_load(const import_source *source, const ir_opset *ops, const td_allocator *a, \
                                 ir_graph **graph, td_error *err);
#include "import/formats.def"
#undef FORMAT
void import_torchscript_tell(const import_source *source, base_arena *arena, const char **texts, uint32_t count);

#define FORMAT(name, tell) {#name, import_##name##_sniff, import_##name##_load, tell},
static const import_format formats[] = {
#include "import/formats.def"
};
#undef FORMAT

/* ", onnx, pt2, ..." */
#define FORMAT(name, tell) ", " #name
static const char format_list[] =
#include "import/formats.def"
    ;
#undef FORMAT
static const char *const format_names = format_list + 2;

enum { FORMAT_COUNT = sizeof formats / sizeof *formats };

const import_format *import_formats(uint32_t *count) {
  *count = FORMAT_COUNT;
  return formats;
}

static const import_format *find_format(const import_source *source) {
  for (uint32_t i = 0; i < FORMAT_COUNT; i++) {
    const import_format *f = &formats[i];
    if (source->format ? strcmp(source->format, f->name) == 0 : f->sniff(source->bytes, source->size)) return f;
  }
  return NULL;
}

td_status import_model(const import_source *source, const ir_opset *ops, const td_allocator *a, ir_graph **graph,
                       td_error *err) {
  import_source s = *source;
  if (!s.file) s.file = "model";
  const import_format *format = find_format(&s);
  if (format) return format->load(&s, ops, a, graph, err);
  if (s.format)
    return base_fail(err, TD_BAD_ARGUMENT, s.file, -1, "there is no model format called \"%s\"; known: %s", s.format,
                     format_names);
  if (s.size == 0) return base_fail(err, TD_BAD_FILE, s.file, 0, "the file is empty");
  return base_fail(err, TD_BAD_FILE, s.file, 0,
                   "this is no model: the bytes are in no format that is known (%s); a file of weights (.pth, "
                   ".safetensors) goes with a builtin: model, as its weights",
                   format_names);
}

void import_tell(const import_source *source, base_arena *arena, const char **texts, uint32_t count) {
  import_source s = *source;
  if (!s.file) s.file = "model";
  const import_format *format = find_format(&s);
  if (format && format->tell) format->tell(&s, arena, texts, count);
}
