/* tdir.c -- the text of a graph as a model file; see README.md. */
#include "import/import.h"

#include <string.h>

bool import_tdir_sniff(const void *bytes, size_t size);
td_status import_tdir_load(const import_source *source, const ir_opset *ops, const td_allocator *a, ir_graph **graph,
                           td_error *err);

static const char opening[] = "tdir 1\n";
static const char keyword[] = "weights ";

bool import_tdir_sniff(const void *bytes, size_t size) {
  return size >= 5 && memcmp(bytes, "tdir ", 5) == 0; /* of other versions too: load says what is wrong */
}

/* `weights "NAME" BYTES`, and the file of that name. *at goes behind the line. */
static td_status open_weights(const import_source *s, base_arena *arena, const char **at, ir_segment *segment,
                              td_error *err) {
  const char *text = s->bytes, *end = text + s->size, *line = *at;
  size_t length, size = 0;
  int64_t least;
  *at += strlen(keyword) + 1;
  char *name = (*at)[-1] == '"' ? base_text_unquote(arena, at, end, &length) : NULL;
  if (base_arena_failed(arena)) return base_no_memory(err, "a name");
  const char *stop = name ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
  if (!stop || **at != ' ' || !base_str_int((base_str){*at + 1, (size_t)(stop - *at - 1)}, &least) || least < 0)
    return base_fail(err, TD_BAD_FILE, s->file, line - text, "expected: weights \"NAME\" BYTES");
  if (!length || strlen(name) != length || strchr(name, '/') || strcmp(name, "..") == 0)
    return base_fail(err, TD_BAD_FILE, s->file, line - text, "weights are in a file of the same folder, not in '%s'",
                     name);
  if (!s->open)
    return base_fail(err, TD_UNSUPPORTED, s->file, line - text,
                     "the weights are in a file of their own, %s: load the model from its path", name);
  const void *bytes = NULL;
  TRY(s->open(s->user, name, &bytes, &size, err));
  if (size < (uint64_t)least)
    return base_fail(err, TD_BAD_FILE, name, (int64_t)size, "%lld bytes of weights were written and %zu are there",
                     (long long)least, size);
  *segment = (ir_segment){"weights", bytes, size};
  *at = stop + 1;
  return TD_OK;
}

/* The lines in front of the graph. */
static td_status read_head(const import_source *s, base_arena *arena, const char **at, ir_segment *segment,
                           td_error *err) {
  const char *text = s->bytes;
  if (s->size < strlen(opening) || memcmp(text, opening, strlen(opening)) != 0)
    return base_fail(err, TD_BAD_FILE, s->file, 0, "this is no graph of version 1: the first line must be \"tdir 1\"");
  *at = text + strlen(opening);
  const base_str rest = {*at, s->size - strlen(opening)};
  if (rest.length <= strlen(keyword) || !base_str_starts(rest, keyword)) return TD_OK;
  return open_weights(s, arena, at, segment, err);
}

td_status import_tdir_load(const import_source *source, const ir_opset *ops, const td_allocator *a, ir_graph **graph,
                           td_error *err) {
  const char *text = source->bytes, *at = NULL;
  td_error unused, *problem = err ? err : &unused;
  ir_segment segment = {0};
  base_arena *arena = base_arena_new(a);
  if (!arena) return base_no_memory(err, "a graph");
  td_status status = read_head(source, arena, &at, &segment, problem);
  base_arena_free(arena);
  TRY(status);
  problem->offset = -1;
  status = ir_parse(a, ops, at, source->size - (size_t)(at - text), &segment, segment.base != NULL, graph, problem);
  if (status != TD_OK && problem->offset >= 0) problem->offset += at - text;
  return base_error_name(problem, status, "%s", source->file);
}
