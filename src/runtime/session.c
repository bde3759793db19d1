/* session.c -- sessions: prepared calls, cached bindings, inputs and outputs.
 *
 * A session runs the general plan or a variant of it, as the sizes say that are bound: a binding knows whose it is, so
 * that a size that was seen costs one look-up. What steps need is ready for each plan (run_ready); inputs, outputs,
 * state and memory are the session's. */
#include "runtime/parts_priv.h"
#include "runtime/steps_priv.h"

#include <string.h>

#include "plan/file.h"
#include "sys/probe.h"

static size_t key_length(const run_session *s) {
  return ((size_t)plan_given_count(s->plans.general) + 1) * (BASE_MAX_RANK + 1);
}

static bool allocate(run_session *s) {
  const plan_exe *plan = s->plans.general;
  size_t inputs = plan->inputs.count + 1, steps = 0;
  for (uint32_t i = 0; i < plan_count(plan); i++) steps = base_max_size(steps, plan_at(plan, i)->steps.count);
  s->plans.ready = base_new(s->arena, run_ready, plan_count(plan));
  s->watch.spent = base_new(s->arena, uint64_t, steps + 1);
  s->given.inputs = base_new(s->arena, base_value, (size_t)plan_given_count(plan) + 1);
  s->given.set = base_new(s->arena, bool, inputs);
  s->targets.at = base_new(s->arena, run_target, (size_t)plan->outputs.count + 1);
  s->given.lists = base_new(s->arena, base_value *, inputs);
  s->given.list_caps = base_new(s->arena, size_t, inputs);
  s->bounds.key = base_new(s->arena, int64_t, key_length(s));
  return s->plans.ready && s->watch.spent && s->given.inputs && s->given.set && s->targets.at && s->given.lists &&
         s->given.list_caps && s->bounds.key;
}

/* ---- the plan in use ---- */

/* Plan number `variant` runs from now on. */
static void use(run_session *s, uint32_t variant) {
  run_frame *f = &s->main;
  const run_ready *to = &s->plans.ready[variant];
  s->plans.ready[s->plans.variant] = (run_ready){s->plan,  s->plans.first_step, f->values,     f->pointers,
                                                 f->steps, f->changes,          s->tasks.idle, s->tasks.frames};
  s->plans.variant = variant;
  s->plan = f->plan = to->plan;
  s->plans.first_step = to->first_step;
  f->values = to->values;
  f->pointers = to->pointers;
  f->steps = to->steps;
  f->changes = to->changes;
  s->tasks.idle = to->idle;
  s->tasks.frames = to->frames;
  s->bounds.active = NULL;
}

/* Prepares the steps of all plans, and uses the general one. */
static td_status prepare_plans(run_session *s, td_error *err) {
  uint32_t first_step = 0;
  for (uint32_t i = 0; i < plan_count(s->plans.general); i++) {
    s->plans.ready[i] = (run_ready){.plan = plan_at(s->plans.general, i), .first_step = first_step};
    first_step += s->plans.ready[i].plan->steps.count;
    if (i) use(s, i);
    TRY(run_prepare_frame(&s->main, s, s->arena, err));
  }
  use(s, 0);
  return TD_OK;
}

/* Between runs: a run has one set of functions. */
static void take_code(run_session *s) {
  const uint32_t before = s->main.changes;
  run_take_code(&s->main);
  for (uint32_t i = 0; s->main.changes != before && i < s->bounds.count; i++)
    if (s->bounds.at[i].variant == s->plans.variant) run_take_shared_code(s, &s->bounds.at[i]);
}

/* The same before a run, where another plan may have been in use. */
static void change_to(run_session *s, uint32_t variant) {
  if (s->plans.variant == variant) return;
  use(s, variant);
  if (s->plan->here.tier) take_code(s);
}

/* ---- opening ---- */

td_status run_session_new(const plan_exe *plan, const td_allocator *allocator, run_pool *pool, run_session **session,
                          td_error *err) {
  TRY(plan_check_constants(plan, err));
  base_arena *arena = base_arena_new(allocator);
  run_session *s = arena ? base_new(arena, run_session, 1) : NULL;
  if (!s) {
    base_arena_free(arena);
    return base_no_memory(err, "a session");
  }
  bool batches = false, tail = false;
  for (uint32_t i = 0; i < plan_count(plan); i++) {
    batches |= plan_at(plan, i)->batches.count > 0;
    tail |= plan_at(plan, i)->needs_tail || plan_at(plan, i)->aligned_inputs;
  }
  s->plans.general = s->plan = plan;
  s->allocator = *allocator;
  s->arena = arena;
  s->threads.pool = pool;
  if (batches) s->bounds.cache = run_find_cache(pool);
  td_status status = allocate(s) ? TD_OK : base_no_memory(err, "a session");
  if (status == TD_OK && pool) status = run_team_new(pool, 1, &s->threads.team, err);
  if (status == TD_OK) status = run_stack_open(&s->main.scratch, err);
  if (status == TD_OK && tail) status = run_stack_open(&s->main.tail, err);
  if (status == TD_OK) status = prepare_plans(s, err);
  if (status == TD_OK) status = run_open_tasks(s, err);
  if (status == TD_OK) status = run_open_states(s, err);
  if (status == TD_OK) *session = s;
  else run_session_free(s);
  return status;
}

void run_session_free(run_session *s) {
  if (!s) return;
  for (uint32_t i = 0; i < s->bounds.count; i++) base_arena_free(s->bounds.at[i].arena);
  for (uint32_t i = 0; s->given.lists && s->given.list_caps && i < s->plan->inputs.count; i++)
    base_free(&s->allocator, s->given.lists[i], s->given.list_caps[i] * sizeof(base_value));
  run_close_states(s);
  run_close_tasks(s);
  run_close_frame(&s->main);
  run_team_free(s->threads.team);
  base_arena_free(s->arena);
}

/* ---- inputs ---- */

/* `what` an error speaks of: an input, or a state. */
static td_status check_tensor(const plan_exe *plan, const plan_port *port, const char *what, const base_tensor *t,
                              td_error *err) {
  const plan_slot *slot = &plan->slots.at[port->slot];
  const char *name = plan_name(plan, port->name);
  char text[128];
  if (slot->rank >= 0 && t->rank != slot->rank)
    return base_fail(err, TD_BAD_ARGUMENT, name, -1, "%s %s is %s, of rank %d; the model takes rank %d", what, name,
                     base_tensor_describe(t, text, sizeof text), t->rank, slot->rank);
  for (int32_t i = 0; i < slot->rank; i++)
    if (base_dim_known(slot->dims[i]) && slot->dims[i] != t->dims[i])
      return base_fail(err, TD_BAD_ARGUMENT, name, -1, "%s %s is %s; the model has %lld as dimension %d", what, name,
                       base_tensor_describe(t, text, sizeof text), (long long)slot->dims[i], i);
  return TD_OK;
}

/* The tensors in a list or an optional. */
static td_status check_items(const plan_exe *plan, const plan_port *port, const char *what, const base_value *value,
                             td_error *err) {
  const char *name = plan_name(plan, port->name);
  char text[128];
  if (value->kind == BASE_TENSOR && port->dtype != TD_INVALID && value->tensor.dtype != port->dtype)
    return base_fail(err, TD_BAD_ARGUMENT, name, -1, "%s %s was given %s; the model takes %s", what, name,
                     base_tensor_describe(&value->tensor, text, sizeof text), td_dtype_name(port->dtype));
  for (int64_t i = 0; value->kind == BASE_LIST && i < value->list.count; i++)
    TRY(check_items(plan, port, what, &value->list.items[i], err));
  return TD_OK;
}

static td_status check_kind(const plan_exe *plan, const plan_port *port, const char *what, base_kind kind,
                            td_error *err) {
  static const char *const kinds[] = {"nothing", "a tensor", "a list", "a tuple", "a dict", "an object", "a future"};
  const bool optional = port->kind == PLAN_OPTIONAL_PORT;
  if (kind == port->takes || (optional && kind == BASE_NOTHING)) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, plan_name(plan, port->name), -1, "%s %s takes %s%s", what,
                   plan_name(plan, port->name), kinds[port->takes], optional ? ", or nothing" : "");
}

static bool strided(const base_value *value) {
  return value->kind == BASE_TENSOR && !base_tensor_contiguous(&value->tensor);
}

td_status run_check_given(const plan_exe *plan, uint32_t index, const base_value *value, td_error *err) {
  const plan_port *port = plan_given(plan, index);
  const char *what = index < plan->inputs.count ? "input" : "state";
  TRY(check_kind(plan, port, what, value->kind, err));
  TRY(check_items(plan, port, what, value, err));
  return value->kind == BASE_TENSOR ? check_tensor(plan, port, what, &value->tensor, err) : TD_OK;
}

td_status run_set_input(run_session *s, uint32_t index, const base_value *value, td_error *err) {
  if (index >= s->plans.general->inputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no input %u; the model has %u", index,
                     s->plans.general->inputs.count);
  TRY(run_check_given(s->plans.general, index, value, err));
  if (strided(value) && !s->main.tail.base) TRY(run_stack_open(&s->main.tail, err));
  s->given.inputs[index] = *value;
  s->given.set[index] = s->given.moved = true;
  return TD_OK;
}

td_status run_clear_input(run_session *s, uint32_t index, td_error *err) {
  if (index >= s->plans.general->inputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no input %u; the model has %u", index,
                     s->plans.general->inputs.count);
  s->given.set[index] = false;
  return TD_OK;
}

base_value *run_list_items(run_session *s, uint32_t index, size_t count) {
  if (s->given.inputs[index].kind == BASE_LIST) s->given.set[index] = false; /* its items go */
  if (count > s->given.list_caps[index] || !s->given.lists[index]) {
    size_t bytes;
    if (__builtin_mul_overflow(count + 1, sizeof(base_value), &bytes)) return NULL;
    base_value *items = base_alloc(&s->allocator, bytes);
    if (!items) return NULL;
    base_free(&s->allocator, s->given.lists[index], s->given.list_caps[index] * sizeof(base_value));
    s->given.lists[index] = items;
    s->given.list_caps[index] = count + 1;
  }
  return s->given.lists[index];
}

static td_status fill_defaults(run_session *s, td_error *err) {
  for (uint32_t i = 0; i < s->plans.general->inputs.count; i++) {
    const plan_port *port = &s->plans.general->inputs.at[i];
    if (s->given.set[i]) continue;
    if (port->fallback == PLAN_NONE)
      return base_fail(err, TD_BAD_ARGUMENT, plan_name(s->plans.general, port->name), -1, "input %s was not set",
                       plan_name(s->plans.general, port->name));
    const plan_slot *slot = &s->plans.general->slots.at[port->fallback];
    int64_t dims[BASE_MAX_RANK];
    for (int32_t k = 0; k < slot->rank; k++) dims[k] = slot->dims[k];
    void *data = (void *)(uintptr_t)plan_constant(s->plans.general, slot);
    s->given.inputs[i] =
        (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(data, slot->dtype, slot->rank, dims)};
    TRY(run_check_given(s->plans.general, i, &s->given.inputs[i], err));
    s->given.set[i] = s->given.moved = true;
  }
  return TD_OK;
}

/* ---- bindings ---- */

static void write_key(const run_session *s, int64_t *key) {
  size_t n = 0;
  memset(key, 0, key_length(s) * sizeof *key);
  for (uint32_t i = 0; i < plan_given_count(s->plans.general); i++) {
    const base_value *v = &s->given.inputs[i];
    int32_t rank = v->kind == BASE_TENSOR ? v->tensor.rank : -1;
    key[n++] = rank;
    for (int32_t k = 0; k < rank; k++) key[n++] = v->tensor.dims[k];
  }
}

static td_status bind(run_session *s, run_bound *bound, td_error *err) {
  const plan_means means = {s->bounds.cache, run_most_threads(s)};
  TRY(plan_choose_variant(s->plans.general, s->given.inputs, bound->arena, &bound->variant, err));
  change_to(s, bound->variant);
  bound->key = base_arena_copy(bound->arena, s->bounds.key, key_length(s) * sizeof *s->bounds.key);
  bound->known = base_new(bound->arena, uint8_t, (size_t)s->plan->steps.count + 1);
  bound->threads = base_new(bound->arena, uint16_t, (size_t)s->plan->steps.count + 1);
  bound->spread = base_new(bound->arena, bool, (size_t)s->plan->slots.count + 1);
  if (!bound->key || !bound->known || !bound->threads || !bound->spread) return base_no_memory(err, "a binding");
  TRY(plan_bind(s->plan, s->given.inputs, means, bound->arena, &bound->binding, err));
  TRY(run_prepare_parts(bound, err));
  return run_prepare_shares(s, bound, err);
}

static td_status new_bound(run_session *s, run_bound *bound, td_error *err) {
  *bound = (run_bound){.arena = base_arena_new(&s->allocator)};
  if (!bound->arena) return base_no_memory(err, "a binding");
  const td_status status = bind(s, bound, err);
  if (status != TD_OK) base_arena_free(bound->arena);
  return status;
}

/* The binding for the shapes at hand: one seen before, or a new one in the place of the least recently used. */
static td_status find_bound(run_session *s, run_bound **found, td_error *err) {
  write_key(s, s->bounds.key);
  run_bound *oldest = &s->bounds.at[0];
  for (uint32_t i = 0; i < s->bounds.count; i++) {
    run_bound *b = &s->bounds.at[i];
    if (memcmp(b->key, s->bounds.key, key_length(s) * sizeof *s->bounds.key) == 0) {
      *found = b;
      return TD_OK;
    }
    if (b->used < oldest->used) oldest = b;
  }
  run_bound fresh;
  TRY(new_bound(s, &fresh, err));
  run_bound *place = s->bounds.count < RUN_BINDINGS ? &s->bounds.at[s->bounds.count++] : oldest;
  if (place->arena) base_arena_free(place->arena);
  if (s->bounds.active == place) s->bounds.active = NULL;
  *place = fresh;
  *found = place;
  return TD_OK;
}

static td_status activate(run_session *s, run_bound *bound, td_error *err) {
  change_to(s, bound->variant);
  if (s->bounds.active == bound && bound->binding.arena_bytes <= s->main.memory_bytes) return TD_OK;
  s->bounds.active = NULL;
  s->main.known = bound->known;
  TRY(run_activate_frame(&s->main, bound, err));
  s->bounds.active = bound;
  s->bounds.activated++;
  return TD_OK;
}

/* ---- running ---- */

/* Can steps read it where the caller holds it? */
static bool suits(const run_session *s, const base_value *value) {
  const base_tensor *t = &value->tensor;
  if (strided(value)) return false;
  return !s->plan->aligned_inputs || value->kind != BASE_TENSOR || t->dtype == TD_STRING ||
         base_dtype(t->dtype)->bits <= 8 || (uintptr_t)t->data % (base_dtype(t->dtype)->bits / 8u) == 0;
}

/* Most callers set new contents of the same shapes, or nothing. */
td_status run_take_inputs(run_session *s, td_error *err) {
  run_bound *bound;
  TRY(fill_defaults(s, err));
  if (s->bounds.active && !s->given.moved) return TD_OK;
  TRY(find_bound(s, &bound, err));
  TRY(activate(s, bound, err));
  s->given.any_unsuited = false;
  for (uint32_t i = 0; i < plan_given_count(s->plan); i++) {
    s->main.values[plan_given(s->plan, i)->slot] = s->given.inputs[i];
    s->given.any_unsuited |= !suits(s, &s->given.inputs[i]);
  }
  run_weigh_tasks(s);
  s->given.moved = false;
  s->targets.moved |= s->targets.count > 0 || run_places_states(s); /* an input may lie in a target now */
  return TD_OK;
}

/* Inputs that are not dense, or at odd addresses, are copied: `tail` is not in use yet. */
static td_status copy_inputs(run_session *s, td_error *err) {
  for (uint32_t i = 0; i < s->plan->inputs.count; i++) {
    const base_value *from = &s->given.inputs[i];
    if (suits(s, from)) continue;
    const base_tensor *t = &from->tensor;
    const size_t bytes = base_tensor_bytes(t);
    void *data = run_stack_take(&s->main.tail, bytes ? bytes : 1);
    if (!data) return base_no_memory(err, "an input");
    base_tensor_pack(data, t);
    s->main.values[s->plan->inputs.at[i].slot].tensor = base_tensor_of(data, t->dtype, t->rank, t->dims);
  }
  return TD_OK;
}

/* From inputs that are taken to outputs and states. */
static td_status run_once(run_session *s) {
  if (s->main.tail.high || s->main.tail.warm) run_stack_begin(&s->main.tail);
  if (s->tasks.results.high || s->tasks.results.warm) run_stack_begin(&s->tasks.results);
  if (s->given.any_unsuited) TRY(copy_inputs(s, &s->main.error));
  if (s->targets.moved) TRY(run_place_outputs(s, &s->main.error));
  if (s->targets.moved) TRY(run_place_states(s, &s->main.error));
  s->targets.moved = false;
  s->bounds.active->used = ++s->now.runs;
  if (s->threads.team)
    run_team_enter(s->threads.team, s->bounds.active->most_threads > 1); /* early: it takes time to wake */
  const td_status status = run_steps(&s->main, 0, s->plan->steps.count);
  if (s->tasks.newest) run_end_tasks(s);
  if (s->threads.team) run_team_leave(s->threads.team);
  TRY(status);
  if (s->targets.count) TRY(run_deliver_outputs(s, &s->main.error));
  return run_store_states(s);
}

td_status run_session_run_until(run_session *s, run_until until, td_error *err) {
  s->now.ran = false;
  s->now.until = until;
  s->now.ends_early = until.deadline_ns || until.cancel[0] || until.cancel[1];
  if (s->plan->here.tier) take_code(s);
  TRY(run_take_inputs(s, err));
  const uint64_t begin_ns = s->watch.observer.run ? sys_clock_ns() : 0;
  s->watch.running = true;
  SYS_PROBE("inference__begin", (uintptr_t)s, s->now.runs);
  const td_status status = run_once(s);
  SYS_PROBE("inference__end", (uintptr_t)s, status);
  s->watch.running = false;
  if (s->watch.observer.run) s->watch.observer.run(s->watch.observer.user, begin_ns, sys_clock_ns());
  s->now.ran = status == TD_OK;
  if (s->now.ran) return TD_OK;
  if (err) *err = s->main.error;
  s->main.error = (td_error){0};
  return status;
}

td_status run_session_run(run_session *s, td_error *err) { return run_session_run_until(s, (run_until){0}, err); }

td_status run_output(const run_session *s, uint32_t index, const base_value **value, td_error *err) {
  if (index >= s->plan->outputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no output %u; the model has %u", index,
                     s->plan->outputs.count);
  if (!s->now.ran)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "there is no output yet: the last run failed or never was; call td_session_run");
  *value = s->targets.at[index].bound ? &s->targets.at[index].value : &s->main.values[s->plan->outputs.at[index].slot];
  if ((*value)->kind == BASE_TENSOR && !base_tensor_contiguous(&(*value)->tensor))
    return base_fail(err, TD_INTERNAL, NULL, -1, "output %u is not dense, as the plan has to make it", index);
  return TD_OK;
}

uint32_t run_session_crew(const run_session *s) { return run_crew_size(s->tasks.crew); }

/* Tasks run under numbers behind those of the pool's threads. */
uint32_t run_session_threads(const run_session *s) {
  return s->tasks.crew ? run_pool_threads(s->threads.pool) + run_crew_size(s->tasks.crew) : run_most_threads(s);
}

run_stats run_session_stats(const run_session *s) {
  run_stats stats = {.tail_peak = s->main.tail.peak + s->main.scratch.peak,
                     .runs = s->now.runs,
                     .threads = 1,
                     .state_bytes = run_state_bytes(s),
                     .state_copied = s->states.copied};
  if (s->threads.pool) {
    stats.tail_peak += run_pool_scratch(s->threads.pool);
    stats.threads = run_most_threads(s);
  }
  if (s->bounds.active) {
    stats.threads = s->bounds.active->most_threads > 1 ? s->bounds.active->most_threads : 1;
    stats.arena_bytes = s->bounds.active->binding.arena_bytes;
    stats.arena_lower = s->bounds.active->binding.arena_lower;
  }
  return stats;
}

uint32_t run_most_threads(const run_session *s) { return s->threads.team ? s->threads.team->most : 1; }

void run_session_set_most(run_session *s, uint32_t threads) {
  if (s->threads.team && threads < s->threads.team->most) s->threads.team->most = threads;
}

void run_session_set_weight(run_session *s, uint32_t weight) {
  if (s->threads.team) s->threads.team->weight = weight;
}

void run_observe(run_session *s, const td_observer *observer) {
  s->watch.observed = observer != NULL;
  s->watch.observer = observer ? *observer : (td_observer){0};
}

const plan_exe *run_plan_in_use(const run_session *s) { return s->plan; }

const plan_binding *run_active_binding(const run_session *s) {
  return s->bounds.active ? &s->bounds.active->binding : NULL;
}

td_observer run_observer(const run_session *s) { return s->watch.observer; }

const base_value *run_slot(const run_session *s, uint32_t slot) {
  return s->now.ran || s->watch.running ? &s->main.values[slot] : NULL;
}
