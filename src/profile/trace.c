/* trace.c -- the Trace Event Format (JSON object form) that Perfetto and chrome://tracing read, with the names and
 * categories of PyTorch's traces: a run is "ProfilerStep#N" (user_annotation), a thread's part of a step is the
 * operator (cpu_op), and within it the kernel. Times are microseconds since the first run shown, with three decimals,
 * so that a double keeps nanoseconds.
 *
 * Invariant, checked while writing: slices of one thread are nested or disjoint. */
#include <stdio.h>

#include "profile/profile_priv.h"

typedef struct trace {
  const prof_source *source;
  prof_out *out;
  uint64_t base_ns;
  bool some;            /* an event was written: the next one needs a comma */
  uint64_t events;      /* runs and parts of steps so far */
  const uint64_t *live; /* bytes of the arena in use, per step */
  uint64_t shown;       /* the last count of them that was written */
} trace;

/* Thread 0 would be the idle task's; the caller is the main thread of process 1, as its number says. */
static void begin_event(trace *t, char phase, uint32_t thread) {
  prof_print(t->out, "%s{\"ph\": \"%c\", \"pid\": 1, \"tid\": %u", t->some ? ",\n" : "\n", phase, thread + 1);
  t->some = true;
}

static void put_span(trace *t, uint64_t begin_ns, uint64_t end_ns) {
  const uint64_t at = begin_ns - t->base_ns, ns = end_ns - begin_ns;
  prof_print(t->out, ", \"ts\": %llu.%03llu, \"dur\": %llu.%03llu", (unsigned long long)(at / 1000),
             (unsigned long long)(at % 1000), (unsigned long long)(ns / 1000), (unsigned long long)(ns % 1000));
}

static void put_meta(trace *t, uint32_t thread, const char *name, const char *key, const char *value) {
  begin_event(t, 'M', thread);
  prof_print(t->out, ", \"ts\": 0, \"name\": \"%s\", \"args\": {\"%s\": ", name, key);
  prof_quote(t->out, value);
  prof_put(t->out, "}}");
}

static void put_thread_name(trace *t, uint32_t thread) {
  char name[32];
  snprintf(name, sizeof name, thread ? "worker %u" : "caller", thread);
  put_meta(t, thread, "thread_name", "name", name);
  begin_event(t, 'M', thread);
  prof_print(t->out, ", \"ts\": 0, \"name\": \"thread_sort_index\", \"args\": {\"sort_index\": %u}}", thread);
}

static void put_run(trace *t, uint64_t number, const prof_run *run) {
  begin_event(t, 'X', 0);
  prof_print(t->out, ", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%llu\"", (unsigned long long)number);
  put_span(t, run->begin_ns, run->end_ns);
  prof_print(t->out, ", \"args\": {\"Ev Idx\": %llu}}", (unsigned long long)t->events++);
}

static const char *or_control(const char *name) { return name && *name ? name : "control"; }

static void put_origins(trace *t, uint32_t step) {
  prof_put(t->out, ", \"Origins\": [");
  for (size_t i = 0; i < prof_origin_count(t->source, step); i++) {
    const base_str node = prof_origin(t->source, step, i);
    prof_put(t->out, i ? ", " : "");
    base_text_quote(&t->out->text, node.at, node.length);
  }
  prof_put(t->out, "]");
}

static void put_part(trace *t, uint32_t thread, const prof_record *record) {
  const td_step *s = &t->source->steps[record->step];
  const base_str node = prof_node_name(s);
  begin_event(t, 'X', thread);
  prof_put(t->out, ", \"cat\": \"cpu_op\", \"name\": ");
  prof_quote(t->out, or_control(s->op));
  put_span(t, record->begin_ns, record->end_ns);
  prof_print(t->out, ", \"args\": {\"External id\": %u, \"Ev Idx\": %llu, \"Module Hierarchy\": ", record->step,
             (unsigned long long)t->events++);
  base_text_quote(&t->out->text, node.at, node.length);
  put_origins(t, record->step);
  if (t->source->print_dims) {
    prof_put(t->out, ", \"Input Dims\": ");
    t->source->print_dims(t->source->user, record->step, &t->out->text);
    prof_put(t->out, ", \"Input type\": ");
    t->source->print_types(t->source->user, record->step, &t->out->text);
  }
  prof_put(t->out, ", \"Kernel\": ");
  prof_quote(t->out, or_control(s->kernel));
  prof_print(t->out, ", \"flop\": %.0f, \"bytes\": %.0f, \"limit us\": %.3f, \"cpu\": %u}}", s->flops,
             prof_step_bytes(s), 1e3 * prof_step_limit_ms(t->source, record->step), record->cpu);
  begin_event(t, 'X', thread);
  prof_put(t->out, ", \"cat\": \"kernel\", \"name\": ");
  prof_quote(t->out, or_control(s->kernel));
  put_span(t, record->begin_ns, record->end_ns);
  prof_put(t->out, "}");
}

/* A counter of the arena's use changes where a step begins. */
static void put_counter(trace *t, const prof_record *record) {
  if (t->live[record->step] == t->shown) return;
  const uint64_t at = record->begin_ns - t->base_ns;
  t->shown = t->live[record->step];
  begin_event(t, 'C', 0);
  prof_print(t->out, ", \"name\": \"arena\", \"ts\": %llu.%03llu, \"args\": {\"bytes\": %llu}}",
             (unsigned long long)(at / 1000), (unsigned long long)(at % 1000), (unsigned long long)t->shown);
}

static td_status put_thread(trace *t, uint32_t number, td_error *err) {
  const prof_recorder *r = t->source->recorder;
  const prof_thread *thread = &r->threads[number];
  uint64_t end_ns = 0;
  for (uint64_t i = prof_first_record(r, thread); i < thread->written; i++) {
    const prof_record *record = prof_record_at(r, thread, i);
    if (record->begin_ns < end_ns || record->end_ns < record->begin_ns)
      return base_fail(err, TD_INTERNAL, NULL, -1, "parts of steps overlap on thread %u; the trace would not nest",
                       number);
    end_ns = record->end_ns;
    if (record->begin_ns < t->base_ns) continue;
    if (number == 0) put_counter(t, record);
    put_part(t, prof_thread_of(r, number), record);
  }
  return TD_OK;
}

/* The oldest run that is still noted and whose parts no thread has lost. */
static uint64_t first_run(const prof_recorder *r) {
  uint64_t first = r->runs > PROF_RUNS ? r->runs - PROF_RUNS : 0;
  for (uint32_t i = 0; i < r->options.threads; i++) {
    const prof_thread *thread = &r->threads[i];
    const uint64_t oldest = prof_first_record(r, thread);
    if (oldest == 0 || thread->written == oldest) continue;
    const uint64_t run = prof_record_at(r, thread, oldest)->run + (uint64_t)1; /* part of its own run may be gone */
    if (run > first) first = run;
  }
  return first;
}

static td_status write_trace(const prof_source *source, const uint64_t *live, prof_out *out, td_error *err) {
  const prof_recorder *r = source->recorder;
  const uint64_t first = first_run(r);
  if (first >= r->runs)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "no whole run fits the records that were kept; ask for more (td_profile_options.records)");
  trace t = {.source = source, .out = out, .base_ns = r->last[first % PROF_RUNS].begin_ns, .live = live};
  prof_print(out,
             "{\"schemaVersion\": 1, \"deviceProperties\": [], \"displayTimeUnit\": \"ns\", \"baseTimeNanoseconds\": "
             "%llu, \"traceEvents\": [",
             (unsigned long long)t.base_ns);
  put_meta(&t, 0, "process_name", "name", source->model);
  put_meta(&t, 0, "process_labels", "labels", source->machine);
  for (uint32_t i = 0; i < r->options.threads; i++)
    if (r->threads[i].written || i == 0) put_thread_name(&t, prof_thread_of(r, i));
  for (uint64_t i = first; i < r->runs; i++) put_run(&t, i, &r->last[i % PROF_RUNS]);
  for (uint32_t i = 0; i < r->options.threads; i++) TRY(put_thread(&t, i, err));
  prof_put(out, "\n], \"traceName\": ");
  prof_quote(out, source->model);
  prof_put(out, "}\n");
  return TD_OK;
}

td_status prof_write_trace(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                           prof_out *out, td_error *err) {
  (void)view;
  base_arena *arena = base_arena_new(allocator);
  const uint64_t *live = arena ? prof_live_bytes(source, arena) : NULL;
  const td_status status = live ? write_trace(source, live, out, err) : base_no_memory(err, "a trace");
  base_arena_free(arena);
  return status;
}
