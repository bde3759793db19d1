/* async.c -- runs with limits, and runs beside their caller. A td_future is the runtime's. */
#include "api/api_priv.h"
#include <treadle/async.h>

static td_status read_options(const td_model *m, const td_run_options *options, td_run_options *o, td_error *err) {
  const plan_exe *plan = m->plan;
  *o = (td_run_options){0};
  TRY(api_read_options(o, sizeof *o, options, err));
  if (o->input_count > plan->inputs.count || (o->input_count && !o->inputs))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%zu tensors are given for %u inputs", o->input_count,
                     plan->inputs.count);
  if (o->output_count > plan->outputs.count || (o->output_count && !o->outputs))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%zu tensors are given for %u outputs", o->output_count,
                     plan->outputs.count);
  return TD_OK;
}

static run_until limits(const td_run_options *o) {
  return (run_until){.deadline_ns = o->deadline_ns, .cancel = {o->cancel}};
}

/* ---- on the caller's thread ---- */

static td_status bind(td_session *s, const td_run_options *o, td_error *err) {
  for (size_t i = 0; i < o->input_count; i++)
    if (o->inputs[i].dtype != TD_INVALID) TRY(td_session_set_input(s, i, &o->inputs[i], err));
  for (size_t i = 0; i < o->output_count; i++)
    if (o->outputs[i].dtype != TD_INVALID) TRY(td_session_bind_output(s, i, &o->outputs[i], err));
  return TD_OK;
}

td_status td_session_run_with(td_session *session, const td_run_options *options, td_error *err) {
  td_run_options o;
  TRY(api_check_session(session, "td_session_run_with", err));
  TRY(read_options(session->model, options, &o, err));
  td_status status = bind(session, &o, err);
  if (status == TD_OK)
    status = api_tell_error(session->model, run_session_run_until(session->run, limits(&o), err), err);
  for (size_t i = 0; i < o.output_count; i++)
    if (o.outputs[i].dtype != TD_INVALID) run_bind_output(session->run, (uint32_t)i, NULL, NULL);
  return status;
}

/* ---- in line ---- */

/* The first to come starts the thread; calls may come from any. */
static td_status find_queue(td_session *s, run_queue **queue, td_error *err) {
  while (atomic_flag_test_and_set_explicit(&s->making_queue, memory_order_acquire)) sys_yield();
  const td_status status = s->queue ? TD_OK : run_queue_new(s->run, api_tell_error, s->model, &s->queue, err);
  *queue = s->queue;
  atomic_flag_clear_explicit(&s->making_queue, memory_order_release);
  return status;
}

td_status api_fill_request(const td_model *model, const td_run_options *options, run_request *r, td_error *err) {
  td_run_options o;
  TRY(read_options(model, options, &o, err));
  r->input_count = (uint32_t)o.input_count;
  r->output_count = (uint32_t)o.output_count;
  for (size_t i = 0; i < o.input_count; i++) {
    r->inputs[i] = (base_value){.kind = BASE_NOTHING};
    if (o.inputs[i].dtype != TD_INVALID) TRY(api_value(&o.inputs[i], &r->inputs[i], err));
  }
  for (size_t i = 0; i < o.output_count; i++) {
    base_value memory = {.tensor = {.dtype = TD_INVALID}};
    if (o.outputs[i].dtype != TD_INVALID) TRY(api_value(&o.outputs[i], &memory, err));
    r->outputs[i] = memory.tensor;
  }
  r->until = limits(&o);
  r->done = o.done;
  r->user = o.done_user;
  r->event = o.event;
  return TD_OK;
}

td_status td_session_run_async(td_session *session, const td_run_options *options, td_future **future, td_error *err) {
  run_queue *queue;
  run_request *request;
  if (!session) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_run_async needs a session");
  TRY(find_queue(session, &queue, err));
  run_future *f = run_queue_take(queue, &request);
  if (!f) return base_no_memory(err, "a run in line");
  const td_status status = api_fill_request(session->model, options, request, err);
  if (status == TD_OK) run_queue_put(f);
  if (status == TD_OK && future) *future = (td_future *)(void *)f;
  else run_future_free(f);
  return status;
}

td_status td_wait(td_future *future, uint64_t until_ns, td_error *err) {
  if (!future) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_wait needs a future");
  return run_future_wait((run_future *)(void *)future, until_ns, err);
}

void td_future_cancel(td_future *future) {
  if (future) run_future_cancel((run_future *)(void *)future);
}

void td_future_free(td_future *future) { run_future_free((run_future *)(void *)future); }
