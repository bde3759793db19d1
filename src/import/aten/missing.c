/* missing.c -- what a program needs and is not there, collected over all of it and reported in one sentence. */
#include "import/aten/aten_priv.h"

#include <string.h>

struct aten_missing {
  const char *what, *first, *reason;
  uint32_t calls;
};

void aten_note_missing(aten *a, const char *what, const char *where, const char *reason) {
  if (ir_build_failed(a->b)) return;
  if (!where) where = a->b->frame ? a->b->frame->name : "?";
  const char *key = base_arena_format(a->arena, "%s\x1f%s", what, reason ? reason : "");
  const char *shown = base_arena_text(a->arena, what), *place = base_arena_text(a->arena, where);
  const char *why = reason ? base_arena_text(a->arena, reason) : NULL;
  if (!key || !shown || !place || (reason && !why)) goto no_memory;
  const uint32_t *at = base_map_get(&a->missing_ops, base_str_of(key));
  if (at) {
    a->missing.at[*at].calls++;
    return;
  }
  struct aten_missing *m = base_vec_push(a->arena, &a->missing);
  if (!m || !base_map_put(&a->missing_ops, a->arena, base_str_of(key), a->missing.count - 1, NULL)) goto no_memory;
  *m = (struct aten_missing){.what = shown, .first = place, .reason = why, .calls = 1};
  return;
no_memory:
  ir_build_take(a->b, base_no_memory(a->b->err, "the list of missing operators"));
}

void aten_report_missing(aten *a) {
  uint32_t count = a->missing.count, shown = 0;
  if (!count || ir_build_failed(a->b)) return;
  base_text text = {.allocator = base_arena_allocator(a->arena)};
  base_text_print(&text, count == 1 ? "1 operator is not supported: " : "%u operators are not supported: ", count);
  for (; shown < count && text.length < 1400; shown++) {
    const struct aten_missing *m = &a->missing.at[shown];
    base_text_print(&text, "%s%s (%u %s, first %s%s%s)", shown ? ", " : "", m->what, m->calls,
                    m->calls == 1 ? "call" : "calls", m->first, m->reason ? "; " : "", m->reason ? m->reason : "");
  }
  if (shown < count) base_text_print(&text, " and %u more", count - shown);
  if (text.failed) ir_build_take(a->b, base_no_memory(a->b->err, "an error"));
  else ir_build_fail(a->b, TD_UNSUPPORTED, "%s", text.at);
  base_text_free(&text);
}
