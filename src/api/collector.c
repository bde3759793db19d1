/* collector.c -- ranges for the profilers of others: the public face of profile/ranges.h. */
#include <treadle/experimental.h>

#include <string.h>

#include "api/api_priv.h"
#include "profile/ranges.h"

struct td_collector {
  prof_collector *inner;
};

td_status td_collector_open(const char *library, td_collector **collector, td_error *err) {
  if (!library || !collector)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_collector_open needs a library and a place for the collector");
  td_collector *c = base_alloc(&base_libc_allocator, sizeof *c);
  if (!c) return base_no_memory(err, "a collector");
  const td_status status = prof_collector_open(&base_libc_allocator, library, &c->inner, err);
  if (status != TD_OK) base_free(&base_libc_allocator, c, sizeof *c);
  else *collector = c;
  return status;
}

void td_collector_close(td_collector *collector) {
  if (!collector) return;
  prof_collector_close(collector->inner);
  base_free(&base_libc_allocator, collector, sizeof *collector);
}

void td_range_push(td_collector *collector, const char *name) {
  if (collector && name) prof_range_push(collector->inner, name);
}
void td_range_pop(td_collector *collector) {
  if (collector) prof_range_pop(collector->inner);
}
void td_mark(td_collector *collector, const char *name) {
  if (collector && name) prof_mark(collector->inner, name);
}

void td_collector_pause(td_collector *collector) {
  if (collector) prof_pause(collector->inner);
}

void td_collector_resume(td_collector *collector) {
  if (collector) prof_resume(collector->inner);
}

/* ---- the steps of a session ---- */

/* "aten::convolution"; what fused loops compute only their kernel's name tells, what moves control has neither. */
static const char *step_name(const plan_exe *plan, const plan_step *step) {
  const bool calls = step->kind == PLAN_CALL || step->kind == PLAN_SHOW;
  if (!calls) return "control";
  const plan_link *f = &plan->here.links.at[step->function];
  const ir_op *op = f->op;
  return op && !(op->flags & IR_OP_LOOP) ? op->name : f->name;
}

/* Names of all steps in `text`, each with a NUL behind it; at[i]: where that of step i begins. */
static td_status make_names(const td_session *session, bool shapes, base_text *text, size_t *at, td_error *err) {
  for (uint32_t i = 0; i < session->model->stats.steps; i++) {
    uint32_t number;
    const plan_exe *plan = api_plan_of(session->model, i, &number);
    const char *name = step_name(plan, &plan->steps.at[number]);
    at[i] = text->length;
    base_text_add(text, name, strlen(name));
    if (shapes) base_text_add(text, " ", 1);
    if (shapes) api_print_dims(session, i, text);
    base_text_add(text, "", 1);
  }
  return text->failed ? base_no_memory(err, "names of steps") : TD_OK;
}

static td_status watch(td_session *session, prof_collector *collector, bool shapes, base_arena *arena, base_text *text,
                       td_error *err) {
  const uint32_t steps = session->model->stats.steps;
  size_t *at = base_new(arena, size_t, steps + (size_t)1);
  const char **names = base_new(arena, const char *, steps + (size_t)1);
  if (!at || !names) return base_no_memory(err, "names of steps");
  TRY(make_names(session, shapes, text, at, err));
  for (uint32_t i = 0; i < steps; i++) names[i] = text->at + at[i];
  const td_observer inner = run_observer(session->run);
  td_observer observer;
  TRY(prof_watch(collector, names, steps, &inner, &observer, err));
  run_observe(session->run, &observer);
  return TD_OK;
}

td_status td_session_collect(td_session *session, td_collector *collector, int32_t shapes, td_error *err) {
  if (!session) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_collect needs a session");
  if (!collector) return td_session_observe(session, NULL, err);
  if (shapes && !run_slot(session->run, 0))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "sizes are known after a run; call td_session_run");
  base_arena *arena = base_arena_new(&session->allocator);
  if (!arena) return base_no_memory(err, "names of steps");
  base_text text = {.allocator = &session->allocator};
  const td_status status = watch(session, collector->inner, shapes, arena, &text, err);
  base_text_free(&text);
  base_arena_free(arena);
  return status;
}
