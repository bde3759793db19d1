/* session.c -- sessions: the public face of the runtime's. */
#include "api/api_priv.h"

#include <string.h>
#include <treadle/experimental.h>

#include "base/size.h"

struct td_pool {
  td_allocator allocator;
  run_pool *run;
};

td_status td_pool_new(const td_pool_options *options, td_pool **pool, td_error *err) {
  td_pool_options o = {0};
  if (!pool) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_pool_new needs a place for the pool");
  TRY(api_read_options(&o, sizeof o, options, err));
  td_allocator allocator = o.allocator ? *o.allocator : base_libc_allocator;
  td_pool *p = base_alloc(&allocator, sizeof *p);
  if (!p) return base_no_memory(err, "a pool of threads");
  *p = (td_pool){.allocator = allocator};
  run_cpus cpus;
  td_status status = o.cpus ? run_find_cpus(o.cpus, o.smt, &p->allocator, &cpus, err) : TD_OK;
  const run_pool_options options_of = {
      .threads = o.threads, .spin_us = o.spin_us, .name = o.name, .cpus = o.cpus ? &cpus : NULL};
  if (status == TD_OK) status = run_pool_new_on(&options_of, &p->allocator, &p->run, err);
  if (status == TD_OK && o.interop_threads) run_pool_set_interop(p->run, o.interop_threads);
  if (status == TD_OK) *pool = p;
  else td_pool_free(p);
  return status;
}

td_status td_find_cpus(const char *cpus, int32_t smt, uint32_t *found, size_t room, size_t *count, td_error *err) {
  run_cpus all;
  if (!cpus || !count || (!found && room))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_find_cpus needs a text, and places for CPUs and their count");
  TRY(run_find_cpus(cpus, smt, &base_libc_allocator, &all, err));
  *count = all.count;
  for (size_t i = 0; i < all.count && i < room; i++) found[i] = all.at[i];
  return TD_OK;
}

run_pool *api_pool(const td_pool *pool) { return pool ? pool->run : NULL; }

void td_pool_free(td_pool *pool) {
  if (!pool) return;
  run_pool_free(pool->run);
  td_allocator allocator = pool->allocator;
  base_free(&allocator, pool, sizeof *pool);
}

td_status td_guest_new(td_pool *pool, td_guest **guest, td_error *err) {
  run_guest *made;
  if (!pool || !guest)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_guest_new needs a pool, and a place for the guest");
  TRY(run_guest_new(pool->run, &made, err));
  *guest = (td_guest *)made;
  return TD_OK;
}

void td_guest_enter(td_guest *guest) { run_guest_enter((run_guest *)guest); }
void td_guest_leave(td_guest *guest) { run_guest_leave((run_guest *)guest); }
void td_guest_free(td_guest *guest) { run_guest_free((run_guest *)guest); }

/* The pool of all sessions of the model that do not ask for threads of their own: they never compute on more threads
 * than there are cores. */
static td_status share_pool(const td_session *s, run_pool **pool, td_error *err) {
  td_model *m = (td_model *)(uintptr_t)s->model;
  run_pool *known = atomic_load(&m->pool), *fresh;
  *pool = known;
  if (known) return TD_OK;
  TRY(run_pool_new(0, 0, &m->allocator, &fresh, err));
  *pool = fresh;
  if (atomic_compare_exchange_strong(&m->pool, &known, fresh)) return TD_OK;
  *pool = known; /* another thread was sooner */
  run_pool_free(fresh);
  return TD_OK;
}

/* Threads for a session whose plan has steps for several. */
static td_status find_pool(td_session *s, const td_session_options *o, run_pool **pool, td_error *err) {
  bool parallel = false, forks = false;
  for (uint32_t k = 0; k < plan_count(s->model->plan); k++) {
    const plan_exe *plan = plan_at(s->model->plan, k);
    for (uint32_t i = 0; i < plan->here.links.count; i++) parallel |= plan->here.links.at[i].parallel;
    for (uint32_t i = 0; i < plan->steps.count; i++) forks |= plan->steps.at[i].kind == PLAN_FORK;
  }
  const uint32_t interop = !forks ? 1 : o->interop_threads ? o->interop_threads : o->threads;
  *pool = api_pool(o->pool);
  if (o->pool || ((!parallel || o->threads == 1) && interop == 1)) return TD_OK;
  if (!o->threads && !o->spin_us && !o->interop_threads && parallel) return share_pool(s, pool, err);
  TRY(run_pool_new(parallel ? o->threads : 1, o->spin_us, &s->allocator, &s->own, err));
  run_pool_set_interop(s->own, interop ? interop : run_usable_threads());
  *pool = s->own;
  return TD_OK;
}

td_status api_check_runs_here(const td_model *model, td_error *err) {
  if (!model->lacks) return TD_OK;
  return base_fail(err, TD_UNSUPPORTED, model->path, -1,
                   "this model was compiled for CPUs with %s, which this one lacks: it can be saved, not run",
                   model->plan->level);
}

td_status td_session_new(const td_model *model, const td_session_options *options, td_session **session,
                         td_error *err) {
  td_session_options o = {0};
  if (!model || !session)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_new needs a model and a place for the session");
  TRY(api_read_options(&o, sizeof o, options, err));
  TRY(api_check_runs_here(model, err));
  td_session *s = base_alloc(&model->allocator, sizeof *s);
  if (!s) return base_no_memory(err, "a session");
  *s = (td_session){.allocator = model->allocator, .model = model};
  atomic_flag_clear(&s->making_queue);
  run_pool *pool;
  td_status status = find_pool(s, &o, &pool, err);
  if (status == TD_OK) status = run_session_new(model->plan, &s->allocator, pool, &s->run, err);
  if (status == TD_OK && o.pool && o.threads) run_session_set_most(s->run, o.threads);
  if (status == TD_OK && o.weight) run_session_set_weight(s->run, o.weight);
  if (status == TD_OK && o.print) run_hear_prints(s->run, o.print, o.print_user);
  if (status == TD_OK) *session = s;
  else td_session_free(s);
  return status;
}

void td_session_free(td_session *session) {
  if (!session) return;
  run_queue_free(session->queue);
  run_session_free(session->run);
  run_pool_free(session->own);
  td_allocator allocator = session->allocator;
  base_free(&allocator, session, sizeof *session);
}

td_status api_check_session(const td_session *session, const char *function, td_error *err) {
  if (!session) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%s needs a session", function);
  if (!run_queue_busy(session->queue)) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                   "%s while asynchronous runs of the session are under way: wait for them with td_wait", function);
}

td_status api_value(const td_tensor *t, base_value *value, td_error *err) {
  if (!t) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a tensor is needed");
  int64_t count;
  size_t bytes;
  if (t->rank < 0 || t->rank > TD_MAX_RANK)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a tensor of rank %d; at most %d is supported", t->rank,
                     TD_MAX_RANK);
  if (!base_numel(t->rank, t->dims, &count) || !base_dtype_bytes(t->dtype, count, &bytes))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "a tensor with a negative or overflowing size, or no element type");
  if (!t->data && bytes) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a tensor without data");
  static const int64_t nothing = 0; /* an address for tensors without elements: to steps, NULL says out of memory */
  void *data = t->data ? t->data : (void *)(uintptr_t)&nothing;
  *value = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(data, t->dtype, t->rank, t->dims)};
  return TD_OK;
}

void api_to_tensor(const base_tensor *t, td_tensor *tensor) {
  *tensor = (td_tensor){.dtype = t->dtype, .rank = t->rank, .data = t->data};
  memcpy(tensor->dims, t->dims, sizeof tensor->dims);
}

td_status td_session_set_input(td_session *session, size_t index, const td_tensor *tensor, td_error *err) {
  TRY(api_check_session(session, "td_session_set_input", err));
  base_value value;
  TRY(api_value(tensor, &value, err));
  return run_set_input(session->run, index > UINT32_MAX ? UINT32_MAX : (uint32_t)index, &value, err);
}

/* Do all elements lie within an address space of each other? */
static bool reachable(const base_tensor *t) {
  int64_t reach = 0;
  const int64_t bytes = (int64_t)base_dtype(t->dtype)->bits / 8;
  for (int32_t k = 0; k < t->rank; k++) {
    int64_t step = t->strides[k], far;
    if (t->dims[k] < 2) continue;
    if (step == INT64_MIN || __builtin_mul_overflow(step < 0 ? -step : step, t->dims[k] - 1, &far) ||
        __builtin_mul_overflow(far, bytes, &far) || __builtin_add_overflow(reach, far, &reach))
      return false;
  }
  return true;
}

td_status td_session_set_input_strided(td_session *session, size_t index, const td_tensor *tensor,
                                       const int64_t *strides, td_error *err) {
  TRY(api_check_session(session, "td_session_set_input_strided", err));
  base_value value;
  TRY(api_value(tensor, &value, err));
  if (!strides && tensor->rank > 0)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_set_input_strided needs the strides");
  for (int32_t k = 0; k < tensor->rank; k++)
    if (tensor->dims[k] > 1) value.tensor.strides[k] = strides[k];
  const bool dense = base_tensor_contiguous(&value.tensor);
  if (!dense && base_dtype(tensor->dtype)->bits < 8)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a tensor of %s must be dense", td_dtype_name(tensor->dtype));
  if (!reachable(&value.tensor))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a tensor whose strides go beyond the address space");
  return run_set_input(session->run, index > UINT32_MAX ? UINT32_MAX : (uint32_t)index, &value, err);
}

td_status td_session_clear_input(td_session *session, size_t index, td_error *err) {
  TRY(api_check_session(session, "td_session_clear_input", err));
  return run_clear_input(session->run, index > UINT32_MAX ? UINT32_MAX : (uint32_t)index, err);
}

td_status td_session_set_input_list(td_session *session, size_t index, const td_tensor *items, size_t count,
                                    td_error *err) {
  TRY(api_check_session(session, "td_session_set_input_list", err));
  if (index >= session->model->plan->inputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no input %zu; the model has %u", index,
                     session->model->plan->inputs.count);
  base_value nothing = {.kind = BASE_NOTHING};
  bool optional = session->model->plan->inputs.at[index].kind == PLAN_OPTIONAL_PORT;
  if (!items && optional) return run_set_input(session->run, (uint32_t)index, &nothing, err);
  if (!items && count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_set_input_list needs the %zu tensors", count);
  base_value checked;
  for (size_t i = 0; i < count; i++) TRY(api_value(&items[i], &checked, err));
  base_value *values = run_list_items(session->run, (uint32_t)index, count);
  if (!values) return base_no_memory(err, "a list input");
  for (size_t i = 0; i < count; i++) TRY(api_value(&items[i], &values[i], err));
  base_value list = {.kind = BASE_LIST, .list = {.items = values, .count = (int64_t)count}};
  return run_set_input(session->run, (uint32_t)index, &list, err);
}

td_status td_session_bind_output(td_session *session, size_t index, const td_tensor *tensor, td_error *err) {
  TRY(api_check_session(session, "td_session_bind_output", err));
  base_value value;
  if (tensor) TRY(api_value(tensor, &value, err));
  return run_bind_output(session->run, index > UINT32_MAX ? UINT32_MAX : (uint32_t)index, tensor ? &value.tensor : NULL,
                         err);
}

td_status td_session_predict_output(td_session *session, size_t index, td_tensor *tensor, td_error *err) {
  TRY(api_check_session(session, "td_session_predict_output", err));
  if (!tensor)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_predict_output needs a place for the tensor");
  base_tensor planned;
  bool known;
  TRY(run_predict_output(session->run, index > UINT32_MAX ? UINT32_MAX : (uint32_t)index, &planned, &known, err));
  if (known) api_to_tensor(&planned, tensor);
  return known ? TD_OK : TD_ANSWER_NO;
}

td_status td_session_run(td_session *session, td_error *err) {
  TRY(api_check_session(session, "td_session_run", err));
  return api_tell_error(session->model, run_session_run(session->run, err), err);
}

static td_status output(td_session *session, size_t index, const base_value **value, td_error *err) {
  if (!session) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "an output needs a session");
  return run_output(session->run, index > UINT32_MAX ? UINT32_MAX : (uint32_t)index, value, err);
}

td_status td_session_output(td_session *session, size_t index, td_tensor *tensor, td_error *err) {
  const base_value *value;
  if (!tensor) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_output needs a place for the tensor");
  TRY(output(session, index, &value, err));
  if (value->kind != BASE_TENSOR)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "output %zu is %s; see td_session_output_count", index,
                     value->kind == BASE_LIST ? "a list" : "empty");
  api_to_tensor(&value->tensor, tensor);
  return TD_OK;
}

td_status td_session_output_count(td_session *session, size_t index, size_t *count, td_error *err) {
  const base_value *value;
  if (!count) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_output_count needs a place for the count");
  TRY(output(session, index, &value, err));
  *count = value->kind == BASE_LIST ? (size_t)value->list.count : value->kind == BASE_TENSOR ? 1 : 0;
  return TD_OK;
}

td_status td_session_output_item(td_session *session, size_t index, size_t item, td_tensor *tensor, td_error *err) {
  const base_value *value;
  if (!tensor) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_output_item needs a place for the tensor");
  TRY(output(session, index, &value, err));
  if (value->kind == BASE_TENSOR && item == 0) {
    api_to_tensor(&value->tensor, tensor);
    return TD_OK;
  }
  if (value->kind != BASE_LIST || item >= (size_t)value->list.count || value->list.items[item].kind != BASE_TENSOR)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "output %zu has no tensor %zu", index, item);
  api_to_tensor(&value->list.items[item].tensor, tensor);
  return TD_OK;
}

td_status td_session_reset(td_session *session, td_error *err) {
  TRY(api_check_session(session, "td_session_reset", err));
  return run_reset_states(session->run, err);
}

td_status td_session_state(td_session *session, size_t index, td_tensor *tensor, td_error *err) {
  const base_value *value;
  if (!session || !tensor)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_state needs a session and a place for the tensor");
  TRY(run_state_value(session->run, index > UINT32_MAX ? UINT32_MAX : (uint32_t)index, &value, err));
  if (value->kind != BASE_TENSOR)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "state %zu is %s", index,
                     value->kind == BASE_NOTHING ? "empty" : "a list");
  api_to_tensor(&value->tensor, tensor);
  return TD_OK;
}

td_status td_session_set_state(td_session *session, size_t index, const td_tensor *tensor, td_error *err) {
  TRY(api_check_session(session, "td_session_set_state", err));
  base_value value;
  TRY(api_value(tensor, &value, err));
  return run_set_state(session->run, index > UINT32_MAX ? UINT32_MAX : (uint32_t)index, &value, err);
}

td_status td_session_get_stats(const td_session *session, td_session_stats *stats, td_error *err) {
  if (!session || !stats)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_get_stats needs a session and a struct");
  run_stats s = run_session_stats(session->run);
  td_session_stats all = {.arena_bytes = s.arena_bytes,
                          .arena_lower = s.arena_lower,
                          .tail_bytes = s.tail_peak,
                          .runs = s.runs,
                          .threads = s.threads,
                          .state_bytes = s.state_bytes,
                          .state_copied = s.state_copied};
  return api_write_stats(stats, &all, sizeof all, err);
}
