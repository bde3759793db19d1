/* json.c -- what the document's texts, unions and numbers say. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "import/pt2/pt2_priv.h"

const char *pt2_text(const fmt_json *object, const char *key) { return fmt_json_text(fmt_json_get(object, key)); }

const fmt_json *pt2_union(const fmt_json *value, const char **tag) {
  *tag = "";
  const fmt_json *first = fmt_json_member(value, 0, tag);
  return first && value->count == 1 ? first : NULL;
}

bool pt2_int(const fmt_json *value, int64_t *number) {
  if (!fmt_json_is(value, FMT_JSON_INT)) return false;
  *number = value->u.i;
  return true;
}

bool pt2_float(const fmt_json *value, double *number) {
  static const struct {
    const char *name;
    double value;
  } names[] = {{"Infinity", (double)INFINITY}, {"-Infinity", -(double)INFINITY}, {"NaN", (double)NAN}};
  const char *text = fmt_json_text(value);
  const bool whole = fmt_json_is(value, FMT_JSON_INT), is_number = whole || fmt_json_is(value, FMT_JSON_FLOAT);
  if (is_number) *number = whole ? (double)value->u.i : value->u.f;
  for (size_t i = 0; text && i < sizeof names / sizeof *names; i++) {
    if (strcmp(text, names[i].name) != 0) continue;
    *number = names[i].value;
    return true;
  }
  return is_number;
}

void *pt2_alloc(pt2 *p, size_t bytes) {
  if (pt2_failed(p)) return NULL;
  void *memory = base_arena_alloc(p->arena, bytes ? bytes : 1);
  if (!memory) ir_build_take(&p->b, base_no_memory(p->b.err, "a program"));
  return memory;
}

const char *pt2_format(pt2 *p, const char *format, ...) {
  char text[512];
  va_list args;
  if (pt2_failed(p)) return "";
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const char *kept = base_arena_text(p->b.graph->arena, text);
  if (!kept) ir_build_take(&p->b, base_no_memory(p->b.err, "a name"));
  return kept ? kept : "";
}

/* The document has a numbering of its own; the rest of the program speaks c10's. */
enum { TYPE_COUNT = 36, NO_TYPE = 255 };
static const uint8_t scalar_types[TYPE_COUNT] = {
    NO_TYPE, 0,       1,       2,       3,       4,       5,       6,       7,       8,       9,       10,
    11,      15,      NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE,
    NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE, 27,      24,      23,      26,      25,      44,      28,      29};

int64_t pt2_scalar_type(pt2 *p, const fmt_json *value) {
  int64_t number = -1;
  if (pt2_int(value, &number) && number > 0 && number < TYPE_COUNT && scalar_types[number] != NO_TYPE)
    return scalar_types[number];
  pt2_fail(p, "there is no element type %lld", (long long)number);
  return 6;
}

void pt2_parse_json(pt2 *p, const char *what, const uint8_t *bytes, size_t size, const fmt_json **root) {
  if (!pt2_failed(p)) ir_build_take(&p->b, fmt_json_read(p->arena, what, bytes, size, root, p->b.err));
}
