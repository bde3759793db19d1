/* pt2.c -- the torch.export front end: an archive or a document in memory to a verified graph. */
#include <string.h>

#include "import/pt2/pt2_priv.h"

bool import_pt2_sniff(const void *bytes, size_t size);
td_status import_pt2_load(const import_source *source, const ir_opset *ops, const td_allocator *a, ir_graph **graph,
                          td_error *err);

enum { LOOK_AHEAD = 1 << 16 };

static bool holds(const char *bytes, size_t size, const char *what) {
  size_t length = strlen(what);
  for (const char *at = bytes; size >= length; at++, size--) {
    const char *next = memchr(at, what[0], size - length + 1);
    if (!next) return false;
    size -= (size_t)(next - at);
    at = next;
    if (memcmp(at, what, length) == 0) return true;
  }
  return false;
}

bool import_pt2_sniff(const void *bytes, size_t size) {
  const char *start = bytes;
  if (size && start[0] == '{') return holds(start, size < LOOK_AHEAD ? size : LOOK_AHEAD, "\"graph_module\"");
  const base_str names = fmt_zip_directory(bytes, size);
  return holds(names.at, names.length, "/archive_format") ||
         holds(names.at, names.length, "serialized_exported_program.json");
}

static size_t memory_limit(size_t file_bytes) {
  size_t limit;
  if (__builtin_mul_overflow(file_bytes, (size_t)IMPORT_MEMORY_FACTOR, &limit)) limit = SIZE_MAX / 2;
  return limit > SIZE_MAX / 2 ? SIZE_MAX / 2 : limit + IMPORT_MEMORY_FLOOR;
}

static void load(pt2 *p) {
  ir_graph *g = p->b.graph;
  ir_segment *segment = base_vec_push(g->arena, &g->segments);
  const char *file = base_arena_text(g->arena, p->source->file);
  if (!segment || !file) {
    ir_build_take(&p->b, base_no_memory(p->b.err, "a graph"));
    return;
  }
  *segment = (ir_segment){.name = file, .base = p->source->bytes, .bytes = p->source->size};
  pt2_open(p);
  p->a = pt2_failed(p) ? NULL : aten_new(&(aten_options){.build = &p->b, .arena = p->arena});
  if (p->a) pt2_run(p);
  if (!pt2_failed(p) && !p->begin_anew) ir_build_take(&p->b, ir_verify(g, p->b.err));
}

/* Imports once. *again: buffers were found to be written, and noted in `written`. */
static td_status attempt(const import_source *source, const ir_opset *ops, const td_allocator *a, base_arena *names,
                         base_map *written, ir_graph **graph, bool *again, td_error *err) {
  ir_graph *g = ir_graph_new(a, ops);
  base_arena *arena = g ? base_arena_new_brief(a) : NULL;
  if (!arena) {
    ir_graph_free(g);
    return base_no_memory(err, "a graph");
  }
  pt2 p = {.source = source,
           .arena = arena,
           .b = ir_build_of(g, err),
           .written = written,
           .written_arena = names,
           .memory_limit = memory_limit(source->size)};
  load(&p);
  td_status status = p.b.status;
  pt2_close(&p);
  /* What memory was lacking for can look like something that is not there. */
  if (base_arena_failed(arena) || base_arena_failed(g->arena)) status = base_no_memory(err, "a graph");
  base_arena_free(arena);
  *again = status == TD_OK && p.begin_anew;
  if (status == TD_OK && !*again) *graph = g;
  else ir_graph_free(g);
  return status;
}

td_status import_pt2_load(const import_source *source, const ir_opset *ops, const td_allocator *a, ir_graph **graph,
                          td_error *err) {
  td_error own = {0};
  td_error *to = err ? err : &own;
  base_arena *names = base_arena_new(a);
  base_map written = {0};
  bool again = true;
  *graph = NULL;
  td_status status = names ? TD_OK : base_no_memory(to, "a graph");
  for (int i = 0; i < 2 && again && status == TD_OK; i++)
    status = attempt(source, ops, a, names, &written, graph, &again, to);
  if (status == TD_OK && !*graph) status = base_fail(to, TD_INTERNAL, source->file, -1, "a buffer was not made state");
  base_arena_free(names);
  return status == TD_OK ? TD_OK : base_error_name(to, status, "%s", source->file);
}
