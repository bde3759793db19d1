/* session.c -- sessions: prepared calls, cached bindings, inputs and outputs. */
#include "runtime/runtime_priv.h"

#include <string.h>

static void *tail_keep(void *memory, size_t bytes) { return run_stack_take(&((run_session *)memory)->tail, bytes); }
static void *scratch_take(void *memory, size_t bytes) {
  return run_stack_take(&((run_session *)memory)->scratch, bytes);
}

static size_t key_length(const run_session *s) { return ((size_t)s->plan->inputs.count + 1) * (BASE_MAX_RANK + 1); }

/* Does slot i hold the same value (SHOW: the same address) as long as a binding is active? Found out on the way. */
static bool fixed_view(const plan_exe *plan, const plan_step *step, const bool *fixed) {
  const uint32_t *in = plan->operands.at + step->in;
  if (step->kind != PLAN_SHOW || step->defines || !fixed[in[0]]) return false;
  for (uint32_t k = 1; k < step->in_count; k++)
    if (in[k] != PLAN_NONE && plan->slots.at[in[k]].place != PLAN_CONST) return false;
  return true;
}

static bool any_slot(const plan_exe *plan, uint32_t at, uint32_t count, bool in_tail) {
  for (uint32_t i = at; i < at + count; i++) {
    uint32_t slot = plan->operands.at[i];
    if (slot != PLAN_NONE && (plan->slots.at[slot].place == PLAN_TAIL) == in_tail) return true;
  }
  return false;
}

static bool sizes_vary(const plan_exe *plan, const plan_step *step) {
  return any_slot(plan, step->in, step->in_count, true) && any_slot(plan, step->out, step->out_count, false);
}

static void prepare_step(run_session *s, uint32_t number, bool *fixed) {
  const plan_exe *plan = s->plan;
  const plan_step *step = &plan->steps.at[number];
  s->steps[number].kind = step->kind;
  if (step->kind != PLAN_CALL && step->kind != PLAN_SHOW) return;
  const plan_function *f = &plan->functions.at[step->function];
  s->steps[number] = (run_step){.kind = step->kind,
                                .run = f->run,
                                .defines = step->defines,
                                .varies = sizes_vary(plan, step),
                                .fixed = fixed_view(plan, step, fixed),
                                .call = {.attrs = plan_attrs(plan, step->attrs),
                                         .op = f->op,
                                         .in = (const base_value *const *)(s->pointers + step->in),
                                         .out = s->pointers + step->out,
                                         .in_count = step->in_count,
                                         .out_count = step->out_count,
                                         .err = &s->error,
                                         .memory = s,
                                         .keep = tail_keep,
                                         .scratch = scratch_take}};
  if (s->steps[number].fixed) fixed[plan->operands.at[step->out]] = true;
}

static td_status prepare_steps(run_session *s, td_error *err) {
  const plan_exe *plan = s->plan;
  bool *fixed = base_new(s->arena, bool, (size_t)plan->slots.count + 1);
  if (!fixed) return base_no_memory(err, "a session");
  for (uint32_t i = 0; i < plan->slots.count; i++)
    fixed[i] = plan->slots.at[i].place == PLAN_CONST || plan->slots.at[i].place == PLAN_ARENA;
  for (uint32_t i = 0; i < plan->operands.count; i++) {
    uint32_t slot = plan->operands.at[i];
    s->pointers[i] = slot == PLAN_NONE ? NULL : &s->values[slot];
  }
  for (uint32_t i = 0; i < plan->steps.count; i++) prepare_step(s, i, fixed);
  return TD_OK;
}

static bool allocate(run_session *s) {
  const plan_exe *plan = s->plan;
  size_t inputs = plan->inputs.count + 1;
  s->values = base_new(s->arena, base_value, (size_t)plan->slots.count + 1);
  s->pointers = base_new(s->arena, base_value *, (size_t)plan->operands.count + 1);
  s->steps = base_new(s->arena, run_step, (size_t)plan->steps.count + 1);
  s->spent = base_new(s->arena, uint64_t, (size_t)plan->steps.count + 1);
  s->inputs = base_new(s->arena, base_value, inputs);
  s->input_set = base_new(s->arena, bool, inputs);
  s->lists = base_new(s->arena, base_value *, inputs);
  s->list_caps = base_new(s->arena, size_t, inputs);
  s->key = base_new(s->arena, int64_t, key_length(s));
  return s->values && s->pointers && s->steps && s->spent && s->inputs && s->input_set && s->lists && s->list_caps &&
         s->key;
}

td_status run_session_new(const plan_exe *plan, const td_allocator *allocator, run_pool *pool, run_session **session,
                          td_error *err) {
  base_arena *arena = base_arena_new(allocator);
  run_session *s = arena ? base_new(arena, run_session, 1) : NULL;
  if (!s) {
    base_arena_free(arena);
    return base_no_memory(err, "a session");
  }
  s->plan = plan;
  s->allocator = *allocator;
  s->arena = arena;
  s->pool = pool;
  if (plan->batches.count) s->cache = run_find_cache();
  td_status status = allocate(s) ? TD_OK : base_no_memory(err, "a session");
  if (status == TD_OK) status = run_stack_open(&s->scratch, err);
  if (status == TD_OK && (plan->needs_tail || plan->aligned_inputs)) status = run_stack_open(&s->tail, err);
  if (status == TD_OK) status = prepare_steps(s, err);
  if (status == TD_OK) *session = s;
  else run_session_free(s);
  return status;
}

void run_session_free(run_session *s) {
  if (!s) return;
  for (uint32_t i = 0; i < s->bound_count; i++) base_arena_free(s->bounds[i].arena);
  for (uint32_t i = 0; s->lists && s->list_caps && i < s->plan->inputs.count; i++)
    base_free(&s->allocator, s->lists[i], s->list_caps[i] * sizeof(base_value));
  base_free(&s->allocator, s->memory, s->memory_bytes);
  run_stack_close(&s->tail);
  run_stack_close(&s->scratch);
  base_arena_free(s->arena);
}

/* ---- inputs ---- */

static td_status check_tensor(const plan_port *port, const plan_slot *slot, const base_tensor *t, td_error *err) {
  char text[128];
  if (slot->rank >= 0 && t->rank != slot->rank)
    return base_fail(err, TD_BAD_ARGUMENT, port->name, -1, "input %s is %s, of rank %d; the model takes rank %d",
                     port->name, base_tensor_describe(t, text, sizeof text), t->rank, slot->rank);
  for (int32_t i = 0; i < slot->rank; i++)
    if (base_dim_known(slot->dims[i]) && slot->dims[i] != t->dims[i])
      return base_fail(err, TD_BAD_ARGUMENT, port->name, -1, "input %s is %s; the model has %lld as dimension %d",
                       port->name, base_tensor_describe(t, text, sizeof text), (long long)slot->dims[i], i);
  return TD_OK;
}

/* The tensors in a list or an optional. */
static td_status check_items(const plan_port *port, const base_value *value, td_error *err) {
  char text[128];
  if (value->kind == BASE_TENSOR && port->item != TD_INVALID && value->tensor.dtype != port->item)
    return base_fail(err, TD_BAD_ARGUMENT, port->name, -1, "input %s was given %s; the model takes %s", port->name,
                     base_tensor_describe(&value->tensor, text, sizeof text), td_dtype_name(port->item));
  for (int64_t i = 0; value->kind == BASE_LIST && i < value->list.count; i++)
    TRY(check_items(port, &value->list.items[i], err));
  return TD_OK;
}

static td_status check_kind(const plan_port *port, base_kind kind, td_error *err) {
  bool optional = strcmp(port->kind, "optional") == 0, list = port->of_lists || strcmp(port->kind, "list") == 0;
  if (kind == (list ? BASE_LIST : BASE_TENSOR) || (optional && kind == BASE_NOTHING)) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, port->name, -1, "input %s takes %s%s", port->name,
                   list ? "a list" : "a tensor", optional ? ", or nothing" : "");
}

td_status run_set_input(run_session *s, uint32_t index, const base_value *value, td_error *err) {
  if (index >= s->plan->inputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no input %u; the model has %u", index,
                     s->plan->inputs.count);
  const plan_port *port = &s->plan->inputs.at[index];
  TRY(check_kind(port, value->kind, err));
  TRY(check_items(port, value, err));
  if (value->kind == BASE_TENSOR) TRY(check_tensor(port, &s->plan->slots.at[port->slot], &value->tensor, err));
  s->inputs[index] = *value;
  s->input_set[index] = s->inputs_moved = true;
  return TD_OK;
}

base_value *run_list_items(run_session *s, uint32_t index, size_t count) {
  if (s->inputs[index].kind == BASE_LIST) s->input_set[index] = false; /* its items go */
  if (count > s->list_caps[index] || !s->lists[index]) {
    size_t bytes;
    if (__builtin_mul_overflow(count + 1, sizeof(base_value), &bytes)) return NULL;
    base_value *items = base_alloc(&s->allocator, bytes);
    if (!items) return NULL;
    base_free(&s->allocator, s->lists[index], s->list_caps[index] * sizeof(base_value));
    s->lists[index] = items;
    s->list_caps[index] = count + 1;
  }
  return s->lists[index];
}

static td_status fill_defaults(run_session *s, td_error *err) {
  for (uint32_t i = 0; i < s->plan->inputs.count; i++) {
    const plan_port *port = &s->plan->inputs.at[i];
    if (s->input_set[i]) continue;
    if (port->fallback == PLAN_NONE)
      return base_fail(err, TD_BAD_ARGUMENT, port->name, -1, "input %s was not set", port->name);
    const plan_slot *slot = &s->plan->slots.at[port->fallback];
    int64_t dims[BASE_MAX_RANK];
    for (int32_t k = 0; k < slot->rank; k++) dims[k] = slot->dims[k];
    void *data = (char *)(uintptr_t)s->plan->segments.at[slot->segment].base + slot->offset;
    s->inputs[i] = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(data, slot->dtype, slot->rank, dims)};
    s->input_set[i] = s->inputs_moved = true;
  }
  return TD_OK;
}

/* ---- bindings ---- */

static void write_key(const run_session *s, int64_t *key) {
  size_t n = 0;
  memset(key, 0, key_length(s) * sizeof *key);
  for (uint32_t i = 0; i < s->plan->inputs.count; i++) {
    const base_value *v = &s->inputs[i];
    int32_t rank = v->kind == BASE_TENSOR ? v->tensor.rank : -1;
    key[n++] = rank;
    for (int32_t k = 0; k < rank; k++) key[n++] = v->tensor.dims[k];
  }
}

static td_status new_bound(run_session *s, run_bound *bound, td_error *err) {
  const plan_means means = {s->cache, s->pool ? run_pool_threads(s->pool) : 1};
  *bound = (run_bound){.arena = base_arena_new(&s->allocator)};
  if (!bound->arena) return base_no_memory(err, "a binding");
  bound->key = base_arena_copy(bound->arena, s->key, key_length(s) * sizeof *s->key);
  bound->known = base_new(bound->arena, uint8_t, (size_t)s->plan->steps.count + 1);
  bound->threads = base_new(bound->arena, uint16_t, (size_t)s->plan->steps.count + 1);
  td_status status = bound->key && bound->known && bound->threads
                         ? plan_bind(s->plan, s->inputs, means, bound->arena, &bound->binding, err)
                         : base_no_memory(err, "a binding");
  if (status == TD_OK) status = run_prepare_parts(bound, err);
  if (status == TD_OK) status = run_prepare_shares(s, bound, err);
  if (status != TD_OK) base_arena_free(bound->arena);
  return status;
}

/* The binding for the shapes at hand: one seen before, or a new one in the place of the least recently used. */
static td_status find_bound(run_session *s, run_bound **found, td_error *err) {
  write_key(s, s->key);
  run_bound *oldest = &s->bounds[0];
  for (uint32_t i = 0; i < s->bound_count; i++) {
    run_bound *b = &s->bounds[i];
    if (memcmp(b->key, s->key, key_length(s) * sizeof *s->key) == 0) {
      *found = b;
      return TD_OK;
    }
    if (b->used < oldest->used) oldest = b;
  }
  run_bound fresh;
  TRY(new_bound(s, &fresh, err));
  run_bound *place = s->bound_count < RUN_BINDINGS ? &s->bounds[s->bound_count++] : oldest;
  if (place->arena) base_arena_free(place->arena);
  if (s->active == place) s->active = NULL;
  *place = fresh;
  *found = place;
  return TD_OK;
}

static td_status grow_memory(run_session *s, size_t bytes, td_error *err) {
  if (bytes <= s->memory_bytes) return TD_OK;
  char *memory = base_alloc(&s->allocator, bytes);
  if (!memory) return base_no_memory(err, "the arena of a session");
  base_free(&s->allocator, s->memory, s->memory_bytes);
  s->memory = memory;
  s->memory_bytes = bytes;
  s->active = NULL;
  return TD_OK;
}

static td_status activate(run_session *s, run_bound *bound, td_error *err) {
  TRY(grow_memory(s, bound->binding.arena_bytes, err));
  if (s->active == bound) return TD_OK;
  for (uint32_t i = 0; i < s->plan->steps.count; i++) bound->known[i] &= (uint8_t)~RUN_SHOWN;
  for (uint32_t i = 0; i < s->plan->slots.count; i++) {
    const plan_slot *slot = &s->plan->slots.at[i];
    s->values[i] = (base_value){.kind = BASE_TENSOR, .tensor = bound->binding.tensors[i]};
    if (slot->place == PLAN_ARENA) s->values[i].tensor.data = s->memory + bound->binding.offsets[i];
  }
  s->active = bound;
  return TD_OK;
}

/* ---- running ---- */

static bool unaligned(const base_value *value) {
  const base_tensor *t = &value->tensor;
  return value->kind == BASE_TENSOR && t->dtype != TD_STRING && base_dtype(t->dtype)->bits > 8 &&
         (uintptr_t)t->data % (base_dtype(t->dtype)->bits / 8u) != 0;
}

/* What the caller has set since the last run; most callers set new contents of the same shapes, or nothing. */
static td_status take_inputs(run_session *s, td_error *err) {
  run_bound *bound;
  TRY(fill_defaults(s, err));
  if (s->active && !s->inputs_moved) return TD_OK;
  TRY(find_bound(s, &bound, err));
  TRY(activate(s, bound, err));
  s->any_unaligned = false;
  for (uint32_t i = 0; i < s->plan->inputs.count; i++) {
    s->values[s->plan->inputs.at[i].slot] = s->inputs[i];
    s->any_unaligned |= unaligned(&s->inputs[i]);
  }
  s->any_unaligned &= s->plan->aligned_inputs;
  s->inputs_moved = false;
  return TD_OK;
}

/* Inputs that the caller holds at odd addresses are copied to where their elements are aligned: `tail` is not in use
 * yet. */
static td_status align_inputs(run_session *s, td_error *err) {
  for (uint32_t i = 0; i < s->plan->inputs.count; i++) {
    const base_value *from = &s->inputs[i];
    if (!unaligned(from)) continue;
    base_value *to = &s->values[s->plan->inputs.at[i].slot];
    to->tensor.data = run_stack_take(&s->tail, base_tensor_bytes(&from->tensor));
    if (!to->tensor.data) return base_no_memory(err, "an input");
    memcpy(to->tensor.data, from->tensor.data, base_tensor_bytes(&from->tensor));
  }
  return TD_OK;
}

td_status run_session_run(run_session *s, td_error *err) {
  s->ran = false;
  TRY(take_inputs(s, err));
  if (s->tail.used) run_stack_cut(&s->tail, 0);
  if (s->any_unaligned) TRY(align_inputs(s, err));
  s->active->used = ++s->runs;
  s->team = s->pool ? RUN_UNDECIDED : RUN_ALONE;
  if (s->active->most_threads > 1) run_gather_team(s); /* early: it takes time to wake */
  td_status status = run_steps(s, 0, s->plan->steps.count);
  if (s->team == RUN_TOGETHER) run_pool_leave(s->pool);
  s->ran = status == TD_OK;
  if (s->ran) return TD_OK;
  if (err) *err = s->error;
  s->error = (td_error){0};
  return status;
}

td_status run_output(const run_session *s, uint32_t index, const base_value **value, td_error *err) {
  if (index >= s->plan->outputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no output %u; the model has %u", index,
                     s->plan->outputs.count);
  if (!s->ran)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "there is no output yet: the last run failed or never was; call td_session_run");
  *value = &s->values[s->plan->outputs.at[index].slot];
  return TD_OK;
}

run_stats run_session_stats(const run_session *s) {
  run_stats stats = {.tail_peak = s->tail.peak + s->scratch.peak, .runs = s->runs, .threads = 1};
  if (s->pool) {
    stats.tail_peak += run_pool_scratch(s->pool);
    stats.threads = run_pool_threads(s->pool);
  }
  if (s->active) {
    stats.threads = s->active->most_threads > 1 ? s->active->most_threads : 1;
    stats.arena_bytes = s->active->binding.arena_bytes;
    stats.arena_lower = s->active->binding.arena_lower;
  }
  return stats;
}

void run_observe(run_session *s, const td_observer *observer) {
  s->observed = observer != NULL;
  s->observer = observer ? *observer : (td_observer){0};
}

const base_value *run_slot(const run_session *s, uint32_t slot) { return s->ran ? &s->values[slot] : NULL; }
