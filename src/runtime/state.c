/* state.c -- session state: values that a run finds as the last one has left them.
 *
 * To the steps a state is memory that is handed in, like an input; what it becomes is copied out of the run's memory
 * when all steps are through, so that a run that fails has changed nothing. A new value may be made of old ones (a
 * window that moves on, two states that change places): what may lie in the memory of states is copied to a second
 * block first, and the blocks change places at last, when nothing can fail any more. What lies elsewhere, and fits,
 * goes straight into the first. */
#include "runtime/runtime_priv.h"
#include "base/size.h"

#include <string.h>

enum { ALIGN = 64 };

/* ---- deep copies: one block for all of a value ---- */

static bool add_bytes(size_t more, size_t *bytes) {
  return more <= SIZE_MAX - ALIGN && base_add(*bytes, (more + ALIGN - 1) / ALIGN * ALIGN, bytes);
}

static bool string_bytes(const base_tensor *t, size_t *bytes) {
  base_walk w;
  const int64_t *strides[] = {t->strides};
  base_walk_start(&w, t->rank, t->dims, 1, strides);
  for (int64_t i = 0; i < w.count; i++, base_walk_next(&w))
    if (!base_add(*bytes, ((const td_string *)t->data)[w.offset[0]].length, bytes)) return false;
  return add_bytes(0, bytes);
}

/* Adds the bytes that a copy takes. False: overflow. */
bool run_copy_bytes(const base_value *value, size_t *bytes) {
  if (value->kind == BASE_TENSOR) {
    size_t text = 0;
    if (value->tensor.dtype == TD_STRING && !string_bytes(&value->tensor, &text)) return false;
    return add_bytes(base_tensor_bytes(&value->tensor), bytes) && add_bytes(text, bytes);
  }
  if (!base_holds_values(value->kind) || value->kind == BASE_FUTURE) return true;
  size_t array;
  if (!base_mul((size_t)value->list.count, sizeof(base_value), &array) || !add_bytes(array, bytes)) return false;
  for (int64_t i = 0; i < value->list.count; i++)
    if (!run_copy_bytes(&value->list.items[i], bytes)) return false;
  return true;
}

static void *cut(char **at, size_t bytes) {
  char *piece = *at;
  if (bytes) *at += (bytes + ALIGN - 1) / ALIGN * ALIGN; /* there may be no memory at all for nothing */
  return piece;
}

static void copy_strings(const base_tensor *t, char **at) {
  td_string *strings = t->data;
  size_t used = 0;
  char *text = *at;
  for (int64_t i = 0; i < base_tensor_numel(t); i++) {
    if (strings[i].length) memcpy(text + used, strings[i].at, strings[i].length);
    strings[i].at = text + used;
    used += strings[i].length;
  }
  cut(at, used);
}

/* Copies `from` to `*at` on, which is moved on. */
base_value run_copy_value(const base_value *from, char **at) {
  base_value to = {.kind = from->kind};
  if (from->kind == BASE_FUTURE) return *from;
  if (from->kind == BASE_TENSOR) {
    const base_tensor *t = &from->tensor;
    to.tensor = base_tensor_of(cut(at, base_tensor_bytes(t)), t->dtype, t->rank, t->dims);
    base_tensor_pack(to.tensor.data, t);
    if (t->dtype == TD_STRING) copy_strings(&to.tensor, at);
  } else if (base_holds_values(from->kind)) {
    const size_t count = (size_t)from->list.count;
    to.list = (base_list){.items = cut(at, count * sizeof(base_value)), .count = from->list.count};
    for (size_t i = 0; i < count; i++) to.list.items[i] = run_copy_value(&from->list.items[i], at);
  }
  return to;
}

/* ---- changing states ---- */

static base_value *value_of(const run_session *s, uint32_t index) { return &s->inputs[s->plan->inputs.count + index]; }

/* Makes a copy of `value` in the second block of the state, which grows if it must. */
static td_status prepare(run_session *s, uint32_t index, const base_value *value, td_error *err) {
  run_state *state = &s->states[index];
  size_t bytes = 0;
  if (!run_copy_bytes(value, &bytes))
    return base_no_memory(err, plan_name(s->plan, s->plan->states.at[index].port.name));
  if (bytes > state->spare_bytes) {
    const size_t room = state->block_bytes ? base_max_size(bytes, state->block_bytes + state->block_bytes / 2) : bytes;
    void *fresh = base_alloc(&s->allocator, room);
    if (!fresh) return base_no_memory(err, "session state");
    base_free(&s->allocator, state->spare, state->spare_bytes);
    state->spare = fresh;
    state->spare_bytes = room;
  }
  char *at = state->spare;
  state->next = run_copy_value(value, &at);
  return TD_OK;
}

/* Puts what was prepared in force. */
static void commit(run_session *s, uint32_t index) {
  run_state *state = &s->states[index];
  void *block = state->block;
  const size_t bytes = state->block_bytes;
  state->block = state->spare;
  state->block_bytes = state->spare_bytes;
  state->spare = block;
  state->spare_bytes = bytes;
  *value_of(s, index) = state->next;
  s->inputs_moved = true;
}

/* All or none of what was prepared. */
static void commit_all(run_session *s) {
  for (uint32_t i = 0; i < s->plan->states.count; i++)
    if (s->states[i].way == RUN_OVER_SPARE) commit(s, i);
}

/* ---- after a run ---- */

static bool same_sizes(const base_value *a, const base_value *b) {
  return a->kind == BASE_TENSOR && b->kind == BASE_TENSOR && a->tensor.rank == b->tensor.rank &&
         memcmp(a->tensor.dims, b->tensor.dims, (size_t)a->tensor.rank * sizeof *a->tensor.dims) == 0;
}

static run_way find_way(const run_session *s, uint32_t index) {
  const plan_state *state = &s->plan->states.at[index];
  const plan_slot *slot = &s->plan->slots.at[state->after];
  if (state->after == state->port.slot) return RUN_STAYS;
  const uint32_t place = s->plan->slots.at[slot->root].place;
  const bool elsewhere = place == PLAN_ARENA || place == PLAN_CONST;
  const bool fits = same_sizes(value_of(s, index), &s->main.values[state->after]);
  return elsewhere && fits && slot->dtype != TD_STRING ? RUN_STRAIGHT : RUN_OVER_SPARE;
}

td_status run_store_states(run_session *s) {
  const plan_exe *plan = s->plan;
  for (uint32_t i = 0; i < plan->states.count; i++) {
    const base_value *value = &s->main.values[plan->states.at[i].after];
    TRY(run_check_given(s->general, plan->inputs.count + i, value, &s->main.error));
    s->states[i].way = find_way(s, i);
    if (s->states[i].way == RUN_OVER_SPARE) TRY(prepare(s, i, value, &s->main.error));
  }
  for (uint32_t i = 0; i < plan->states.count; i++)
    if (s->states[i].way == RUN_STRAIGHT)
      base_tensor_pack(value_of(s, i)->tensor.data, &s->main.values[plan->states.at[i].after].tensor);
  commit_all(s);
  return TD_OK;
}

/* ---- on request ---- */

td_status run_reset_states(run_session *s, td_error *err) {
  for (uint32_t i = 0; i < s->plan->states.count; i++) {
    s->states[i].way = RUN_OVER_SPARE;
    TRY(prepare(s, i, &s->states[i].initial, err));
  }
  commit_all(s);
  return TD_OK;
}

static td_status check_index(const run_session *s, uint32_t index, td_error *err) {
  if (index < s->plan->states.count) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no state %u; the model has %u", index,
                   s->plan->states.count);
}

td_status run_state_value(const run_session *s, uint32_t index, const base_value **value, td_error *err) {
  TRY(check_index(s, index, err));
  *value = value_of(s, index);
  return TD_OK;
}

td_status run_set_state(run_session *s, uint32_t index, const base_value *value, td_error *err) {
  TRY(check_index(s, index, err));
  TRY(run_check_given(s->general, s->plan->inputs.count + index, value, err));
  TRY(prepare(s, index, value, err));
  commit(s, index);
  return TD_OK;
}

/* ---- with the session ---- */

static base_value constant_value(const plan_exe *plan, uint32_t index) {
  const plan_slot *slot = &plan->slots.at[index];
  base_tensor t = base_tensor_of((void *)(uintptr_t)plan_constant(plan, slot), slot->dtype, slot->rank, slot->dims);
  memcpy(t.strides, slot->strides, sizeof t.strides);
  return (base_value){.kind = BASE_TENSOR, .tensor = t};
}

/* Reads a first value from *at on, which is moved behind it. */
static td_status read_initial(run_session *s, uint32_t *at, base_value *value, td_error *err) {
  const plan_initial *initial = &s->plan->initials.at[(*at)++];
  *value = (base_value){.kind = (base_kind)initial->kind};
  if (initial->slot != PLAN_NONE) *value = constant_value(s->plan, initial->slot);
  if (!base_holds_values(value->kind)) return TD_OK;
  value->list.count = initial->count;
  value->list.items = base_new(s->arena, base_value, (size_t)initial->count + 1);
  if (!value->list.items) return base_no_memory(err, "session state");
  for (uint32_t i = 0; i < initial->count; i++) TRY(read_initial(s, at, &value->list.items[i], err));
  return TD_OK;
}

td_status run_open_states(run_session *s, td_error *err) {
  uint32_t at = 0;
  if (!s->plan->states.count) return TD_OK;
  s->states = base_new(s->arena, run_state, s->plan->states.count);
  if (!s->states) return base_no_memory(err, "session state");
  for (uint32_t i = 0; i < s->plan->states.count; i++) {
    TRY(read_initial(s, &at, &s->states[i].initial, err));
    TRY(run_check_given(s->plan, s->plan->inputs.count + i, &s->states[i].initial, err));
  }
  return run_reset_states(s, err);
}

void run_close_states(run_session *s) {
  for (uint32_t i = 0; s->states && i < s->plan->states.count; i++) {
    base_free(&s->allocator, s->states[i].block, s->states[i].block_bytes);
    base_free(&s->allocator, s->states[i].spare, s->states[i].spare_bytes);
  }
}
