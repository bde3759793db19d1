/* page.c -- one HTML page that needs nothing but itself: page.html, with the profile's data in the place of one line.
 */
#include <string.h>

#include "fmt/zip.h"
#include "profile/profile_priv.h"

/* Text between quotes of a script: "</" would end it early. */
static void put_safe(prof_out *out, const char *text, size_t length) {
  prof_put(out, "\"");
  for (size_t i = 0; i < length; i++) {
    const unsigned char c = (unsigned char)text[i];
    if (c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&') prof_print(out, "\\u%04x", c);
    else base_text_add(&out->text, text + i, 1);
  }
  prof_put(out, "\"");
}

static void put_text(prof_out *out, const char *text) {
  const base_str s = base_str_of(text);
  put_safe(out, s.at, s.length);
}

/* ",[name,name...]" of all nodes that a step stands for. */
static void put_origins(const prof_source *source, uint32_t step, prof_out *out) {
  prof_put(out, ",[");
  for (size_t i = 0; i < prof_origin_count(source, step); i++) {
    const base_str name = prof_origin(source, step, i);
    prof_put(out, i ? "," : "");
    put_safe(out, name.at, name.length);
  }
  prof_put(out, "]");
}

/* [name, op, kernel, calls, ns, least ns of a run, busy ns, flop, bytes, limit ns, class, [nodes], self ns, bytes of
 * the arena in use]: of all runs, but flop, bytes and limit of one execution. */
static void put_steps(const prof_source *source, const uint64_t *live, prof_out *out) {
  const prof_recorder *r = source->recorder;
  for (uint32_t i = 0; i < r->options.steps; i++) {
    const td_step *s = &source->steps[i];
    const prof_total *total = &r->totals[i];
    const base_str node = prof_node_name(s);
    uint64_t busy = 0;
    for (uint32_t k = 0; k < r->options.threads; k++) busy += r->threads[k].busy_ns[i];
    prof_put(out, i ? ",\n[" : "\n[");
    put_safe(out, node.at, node.length);
    prof_put(out, ",");
    put_text(out, s->op);
    prof_put(out, ",");
    put_text(out, s->kernel);
    prof_print(out, ",%llu,%llu,%llu,%llu,%.0f,%.0f,%.0f,", (unsigned long long)total->calls,
               (unsigned long long)total->ns, (unsigned long long)total->least_ns, (unsigned long long)busy, s->flops,
               prof_step_bytes(s), 1e6 * prof_step_limit_ms(source, i));
    put_text(out, prof_class_of(s->op));
    put_origins(source, i, out);
    prof_print(out, ",%llu,%llu]", (unsigned long long)r->threads[0].busy_ns[i], (unsigned long long)live[i]);
  }
}

/* The last run: its length, and per thread a list [step, begin, ns, step, begin, ns ...]. */
static void put_last_run(const prof_source *source, prof_out *out) {
  const prof_recorder *r = source->recorder;
  const prof_run run = r->runs ? r->last[(r->runs - 1) % PROF_RUNS] : (prof_run){0};
  prof_print(out, "\"last\": {\"ns\": %llu, \"threads\": [", (unsigned long long)(run.end_ns - run.begin_ns));
  for (uint32_t i = 0; i < r->options.threads; i++) {
    const prof_thread *t = &r->threads[i];
    bool some = false;
    prof_put(out, i ? ",\n[" : "\n[");
    for (uint64_t k = prof_first_record(r, t); k < t->written; k++) {
      const prof_record *record = prof_record_at(r, t, k);
      if ((uint64_t)record->run + 1 != r->runs || record->begin_ns < run.begin_ns) continue;
      prof_print(out, "%s%u,%llu,%llu", some ? "," : "", record->step,
                 (unsigned long long)(record->begin_ns - run.begin_ns),
                 (unsigned long long)(record->end_ns - record->begin_ns));
      some = true;
    }
    prof_put(out, "]");
  }
  prof_put(out, "]}");
}

/* null or [peak, [[read, capacity] of each level]]: of the roofline's plot. */
static void put_roof(const prof_source *source, prof_out *out) {
  if (!source->limits) {
    prof_put(out, "\"roof\": null");
    return;
  }
  prof_print(out, "\"roof\": [%.0f, [", source->limits->peak);
  for (int level = TD_L1; level <= TD_DRAM; level++)
    prof_print(out, "%s[%.0f, %.0f]", level ? ", " : "", source->limits->read[level], source->limits->capacity[level]);
  prof_put(out, "]]");
}

/* "memory": [bytes of the arena, the least any plan needs, [first, last, offset, bytes, ...]]. */
static void put_memory(const prof_source *source, prof_out *out) {
  prof_print(out, "\"memory\": [%llu, %llu, [", (unsigned long long)source->arena_bytes,
             (unsigned long long)source->arena_lower);
  for (uint32_t i = 0; i < source->block_count; i++) {
    const prof_block *b = &source->blocks[i];
    prof_print(out, "%s%u,%u,%llu,%llu", i ? "," : "", b->first, b->last, (unsigned long long)b->offset,
               (unsigned long long)b->bytes);
  }
  prof_put(out, "]]");
}

static void put_data(const prof_source *source, const uint64_t *live, prof_out *out) {
  const td_profile_totals t = prof_totals(source);
  prof_put(out, "const data = {\"model\": ");
  put_text(out, source->model);
  prof_put(out, ", \"machine\": ");
  put_text(out, source->machine);
  prof_print(out, ", \"runs\": %llu, \"threads\": %u, \"run_ms\": %.6f, \"step_ms\": %.6f, \"busy_ms\": %.6f, ",
             (unsigned long long)t.runs, t.threads, t.run_ms, t.step_ms, t.busy_ms);
  prof_print(out, "\"limit_ms\": %.6f,\n", t.limit_ms);
  put_roof(source, out);
  prof_put(out, ",\n");
  put_last_run(source, out);
  prof_put(out, ",\n");
  put_memory(source, out);
  prof_put(out, ",\n\"steps\": [");
  put_steps(source, live, out);
  prof_put(out, "]};\n");
}

#include "profile/page.inc" /* page.html, deflated: packed_page of PAGE_BYTES */

/* The page as text in the arena. */
static const char *unpack_page(base_arena *arena) {
  char *text = base_arena_alloc(arena, PAGE_BYTES + 1);
  if (!text || fmt_inflate(packed_page, sizeof packed_page, (uint8_t *)text, PAGE_BYTES, NULL) != TD_OK) return NULL;
  text[PAGE_BYTES] = '\0';
  return text;
}

static bool put_page(const prof_source *source, base_arena *arena, prof_out *out) {
  static const char place[] = "@data@\n";
  const uint64_t *live = prof_live_bytes(source, arena);
  const char *text = live ? unpack_page(arena) : NULL, *data = text ? strstr(text, place) : NULL;
  if (!data) return false;
  base_text_add(&out->text, text, (size_t)(data - text));
  put_data(source, live, out);
  prof_put(out, data + strlen(place));
  return true;
}

td_status prof_write_page(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                          prof_out *out, td_error *err) {
  (void)view;
  base_arena *arena = base_arena_new(allocator);
  const bool done = arena && put_page(source, arena, out);
  base_arena_free(arena);
  return done ? TD_OK : base_no_memory(err, "the page of a profile");
}
