/* state.c -- session state: values that a run finds as the last one has left them.
 *
 * To the steps a state is memory that is handed in, like an input; what it becomes is in force when all steps are
 * through, so that a run that fails has changed nothing. A new value may be made of old ones (a window that moves on,
 * two states that change places): what may lie in the memory of states is copied to a second block first, and the
 * blocks change places at last, when nothing can fail any more. What lies elsewhere, and fits, goes straight into the
 * first.
 *
 * Nothing is copied where the plan allows it (plan_making): what grows, or is large, is made in the second block by the
 * step that makes it; and a cache whose size stays in the first, by a step that only appends to what is in use. */
#include "runtime/session_priv.h"
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

static base_value *value_of(const run_session *s, uint32_t index) {
  return &s->given.inputs[s->plan->inputs.count + index];
}

/* Has the second block of the state grow to `bytes` if it must: to the size of the first, and by half of that where it
 * outgrows that, too. */
static td_status make_room(run_session *s, uint32_t index, size_t bytes, td_error *err) {
  run_state *state = &s->states.at[index];
  if (state->spare && bytes <= state->spare_bytes) return TD_OK;
  const bool grows = state->block && bytes > state->block_bytes;
  const size_t as_first = state->block_bytes + (grows ? state->block_bytes / 2 : 0);
  const size_t room = base_max_size(base_max_size(bytes, ALIGN), as_first); /* nothing has an address, too */
  void *fresh = base_alloc(&s->allocator, room);
  if (!fresh) return base_no_memory(err, "session state");
  base_free(&s->allocator, state->spare, state->spare_bytes);
  state->spare = fresh;
  state->spare_bytes = room;
  s->targets.moved = true; /* a step may have written to the old one */
  return TD_OK;
}

/* Makes a copy of `value` in the second block of the state. */
static td_status prepare(run_session *s, uint32_t index, const base_value *value, td_error *err) {
  run_state *state = &s->states.at[index];
  size_t bytes = 0;
  if (!run_copy_bytes(value, &bytes))
    return base_no_memory(err, plan_name(s->plan, s->plan->states.at[index].port.name));
  TRY(make_room(s, index, bytes, err));
  char *at = state->spare;
  state->next = run_copy_value(value, &at);
  return TD_OK;
}

/* Puts what was prepared in force. */
static void commit(run_session *s, uint32_t index) {
  run_state *state = &s->states.at[index];
  void *block = state->block;
  const size_t bytes = state->block_bytes;
  state->block = state->spare;
  state->block_bytes = state->spare_bytes;
  state->spare = block;
  state->spare_bytes = bytes;
  *value_of(s, index) = state->next;
  s->given.moved = true;
}

/* All or none of what was prepared. */
static void commit_all(run_session *s) {
  for (uint32_t i = 0; i < s->plan->states.count; i++)
    if (s->states.at[i].way == RUN_OVER_SPARE || s->states.at[i].way == RUN_BESIDE) commit(s, i);
}

static bool same_sizes(const base_value *a, const base_tensor *t) {
  return a->kind == BASE_TENSOR && a->tensor.rank == t->rank &&
         memcmp(a->tensor.dims, t->dims, (size_t)t->rank * sizeof *t->dims) == 0;
}

/* ---- before a run ---- */

/* Below that, copying costs less than another block. */
enum { LARGE = 1 << 14 };

/* Where may the steps of the active binding make what the state becomes? */
static plan_making making_of(const run_session *s, uint32_t index) {
  const plan_exe *plan = s->plan;
  const uint32_t after = plan->states.at[index].after;
  const plan_making most =
      index < plan->here.making.count ? (plan_making)plan->here.making.at[index] : PLAN_MADE_ANYWHERE;
  if (most == PLAN_MADE_ANYWHERE) return most;
  const base_tensor *planned = &s->bounds.active->binding.tensors[after];
  const size_t bytes = base_tensor_bytes(planned);
  const bool stays = same_sizes(value_of(s, index), planned);
  if (most == PLAN_MADE_IN_PLACE && stays && bytes && !run_is_in_batch(plan, plan->slots.at[after].first)) return most;
  return bytes && (!stays || bytes >= LARGE) ? PLAN_MADE_BESIDE : PLAN_MADE_ANYWHERE;
}

bool run_places_states(const run_session *s) {
  for (uint32_t i = 0; i < s->plan->states.count; i++)
    if (s->states.at[i].made != PLAN_MADE_ANYWHERE || making_of(s, i) != PLAN_MADE_ANYWHERE) return true;
  return false;
}

td_status run_place_states(run_session *s, td_error *err) {
  const plan_binding *b = &s->bounds.active->binding;
  for (uint32_t i = 0; i < s->plan->states.count; i++) {
    run_state *state = &s->states.at[i];
    const uint32_t after = s->plan->states.at[i].after;
    const plan_making making = making_of(s, i);
    if (making == PLAN_MADE_BESIDE) TRY(make_room(s, i, base_tensor_bytes(&b->tensors[after]), err));
    if (i < s->plan->here.making.count && s->plan->here.making.at[i] != PLAN_MADE_ANYWHERE)
      run_move_root(s, after,
                    making == PLAN_MADE_IN_PLACE ? state->block
                    : making == PLAN_MADE_BESIDE ? state->spare
                                                 : s->main.memory + b->offsets[after]);
    state->made = making;
  }
  return TD_OK;
}

/* ---- after a run ---- */

static run_way find_way(const run_session *s, uint32_t index) {
  const plan_state *state = &s->plan->states.at[index];
  const plan_slot *slot = &s->plan->slots.at[state->after];
  const base_value *value = &s->main.values[state->after];
  const plan_making made = s->states.at[index].made;
  if (state->after == state->port.slot || made == PLAN_MADE_IN_PLACE) return RUN_STAYS;
  if (made == PLAN_MADE_BESIDE) return RUN_BESIDE;
  const uint32_t place = s->plan->slots.at[slot->root].place;
  const bool elsewhere = place == PLAN_ARENA || place == PLAN_CONST;
  const bool fits = value->kind == BASE_TENSOR && same_sizes(value_of(s, index), &value->tensor);
  return elsewhere && fits && slot->dtype != TD_STRING ? RUN_STRAIGHT : RUN_OVER_SPARE;
}

static void store_straight(run_session *s, uint32_t index, const base_tensor *from) {
  base_tensor_pack(value_of(s, index)->tensor.data, from);
  s->states.copied += base_tensor_bytes(from);
}

td_status run_store_states(run_session *s) {
  const plan_exe *plan = s->plan;
  s->states.copied = 0;
  for (uint32_t i = 0; i < plan->states.count; i++) {
    const base_value *value = &s->main.values[plan->states.at[i].after];
    TRY(run_check_given(s->plans.general, plan->inputs.count + i, value, &s->main.error));
    s->states.at[i].way = find_way(s, i);
    if (s->states.at[i].way == RUN_BESIDE) s->states.at[i].next = *value;
    if (s->states.at[i].way != RUN_OVER_SPARE) continue;
    TRY(prepare(s, i, value, &s->main.error));
    size_t bytes = 0;
    run_copy_bytes(value, &bytes);
    s->states.copied += bytes;
  }
  for (uint32_t i = 0; i < plan->states.count; i++)
    if (s->states.at[i].way == RUN_STRAIGHT) store_straight(s, i, &s->main.values[plan->states.at[i].after].tensor);
  commit_all(s);
  return TD_OK;
}

/* ---- on request ---- */

td_status run_reset_states(run_session *s, td_error *err) {
  for (uint32_t i = 0; i < s->plan->states.count; i++) {
    const base_value *initial = &s->states.at[i].initial;
    const bool fits = initial->kind == BASE_TENSOR && initial->tensor.dtype != TD_STRING &&
                      same_sizes(value_of(s, i), &initial->tensor);
    s->states.at[i].way = fits ? RUN_STRAIGHT : RUN_OVER_SPARE;
    if (!fits) TRY(prepare(s, i, initial, err));
  }
  for (uint32_t i = 0; i < s->plan->states.count; i++)
    if (s->states.at[i].way == RUN_STRAIGHT)
      base_tensor_pack(value_of(s, i)->tensor.data, &s->states.at[i].initial.tensor);
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
  TRY(run_check_given(s->plans.general, s->plan->inputs.count + index, value, err));
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
  s->states.at = base_new(s->arena, run_state, s->plan->states.count);
  if (!s->states.at) return base_no_memory(err, "session state");
  for (uint32_t i = 0; i < s->plan->states.count; i++) {
    TRY(read_initial(s, &at, &s->states.at[i].initial, err));
    TRY(run_check_given(s->plan, s->plan->inputs.count + i, &s->states.at[i].initial, err));
  }
  return run_reset_states(s, err);
}

uint64_t run_state_bytes(const run_session *s) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < s->plan->states.count; i++)
    bytes += s->states.at[i].block_bytes + s->states.at[i].spare_bytes;
  return bytes;
}

void run_close_states(run_session *s) {
  for (uint32_t i = 0; s->states.at && i < s->plan->states.count; i++) {
    base_free(&s->allocator, s->states.at[i].block, s->states.at[i].block_bytes);
    base_free(&s->allocator, s->states.at[i].spare, s->states.at[i].spare_bytes);
  }
}
