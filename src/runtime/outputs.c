/* outputs.c -- outputs in memory of the caller's.
 *
 * The memory of an output that lies in the arena may as well lie elsewhere: the root of its slot, and all that shares
 * the root's memory, moves to the target for the runs to come. Where that cannot be, because the output is a constant,
 * a part of something larger, of a size that only running can tell, or its target holds an input that is still to be
 * read, it is copied at the end of a run. */
#include "runtime/session_priv.h"

#include <string.h>

/* ---- binding ---- */

static const char *output_name(const run_session *s, uint32_t index) {
  return plan_name(s->plan, s->plan->outputs.at[index].name);
}

static td_status check_sizes(const char *name, const base_tensor *memory, td_dtype dtype, int32_t rank,
                             const int64_t *dims, td_error *err) {
  char have[128];
  base_tensor_describe(memory, have, sizeof have);
  if (memory->dtype != dtype)
    return base_fail(err, TD_BAD_ARGUMENT, name, -1, "output %s is %s, and cannot go to memory for %s", name,
                     td_dtype_name(dtype), have);
  if (memory->rank != rank)
    return base_fail(err, TD_BAD_ARGUMENT, name, -1, "output %s has rank %d, and cannot go to memory for %s", name,
                     rank, have);
  for (int32_t k = 0; k < rank; k++)
    if (dims[k] >= 0 && dims[k] != memory->dims[k])
      return base_fail(err, TD_BAD_ARGUMENT, name, -1,
                       "output %s has %lld as dimension %d, and cannot go to memory for %s", name, (long long)dims[k],
                       k, have);
  return TD_OK;
}

static td_status check_target(const run_session *s, uint32_t index, const base_tensor *memory, td_error *err) {
  const plan_port *port = &s->plans.general->outputs.at[index];
  const plan_slot *slot = &s->plans.general->slots.at[port->slot];
  const char *name = output_name(s, index);
  if (port->kind != PLAN_TENSOR_PORT)
    return base_fail(err, TD_BAD_ARGUMENT, name, -1, "output %s is no tensor, but %s: it cannot be bound to memory",
                     name, plan_port_kind_name(port));
  if (memory->dtype == TD_STRING)
    return base_fail(err, TD_BAD_ARGUMENT, name, -1, "strings cannot be bound to memory: output %s", name);
  if (slot->dtype == TD_INVALID || slot->rank < 0) return TD_OK; /* the run will tell */
  int64_t dims[BASE_MAX_RANK];
  for (int32_t k = 0; k < slot->rank; k++) dims[k] = base_dim_known(slot->dims[k]) ? slot->dims[k] : -1;
  return check_sizes(name, memory, slot->dtype, slot->rank, dims, err);
}

td_status run_bind_output(run_session *s, uint32_t index, const base_tensor *memory, td_error *err) {
  if (index >= s->plan->outputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no output %u; the model has %u", index,
                     s->plan->outputs.count);
  run_target *target = &s->targets.at[index];
  if (memory) TRY(check_target(s, index, memory, err));
  s->targets.count += (memory != NULL) - (uint32_t)target->bound;
  if (target->bound || memory) s->now.ran = false; /* what is there may not be the last run's */
  target->bound = memory != NULL;
  if (memory) target->value = (base_value){.kind = BASE_TENSOR, .tensor = *memory};
  s->targets.moved = true;
  return TD_OK;
}

td_status run_predict_output(run_session *s, uint32_t index, base_tensor *tensor, bool *known, td_error *err) {
  if (index >= s->plan->outputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no output %u; the model has %u", index,
                     s->plan->outputs.count);
  s->now.ran = false;
  TRY(run_take_inputs(s, err));
  const uint32_t slot = s->plan->outputs.at[index].slot;
  const plan_slot *def = &s->plan->slots.at[slot];
  *known = def->place != PLAN_TAIL && def->dtype != TD_INVALID && def->rank >= 0;
  if (!*known) return TD_OK;
  const base_tensor *planned = &s->bounds.active->binding.tensors[slot];
  *tensor = base_tensor_of(NULL, planned->dtype, planned->rank, planned->dims);
  return TD_OK;
}

/* ---- placing ---- */

/* Bytes [low, end) that a tensor's elements lie in. */
static void extent(const base_tensor *t, uintptr_t *low, uintptr_t *end) {
  *low = *end = (uintptr_t)t->data;
  for (int32_t k = 0; k < t->rank; k++)
    if (t->dims[k] == 0) return;
  const size_t bits = base_dtype(t->dtype)->bits;
  if (bits < 8) {
    *end += base_tensor_bytes(t);
    return;
  }
  for (int32_t k = 0; k < t->rank; k++) {
    const int64_t reach = (t->dims[k] - 1) * t->strides[k] * (int64_t)(bits / 8);
    if (reach < 0) *low -= (uintptr_t)-reach;
    else *end += (uintptr_t)reach;
  }
  *end += bits / 8;
}

static bool overlap(const base_tensor *a, const base_tensor *b) {
  uintptr_t low[2], end[2];
  extent(a, &low[0], &end[0]);
  extent(b, &low[1], &end[1]);
  return low[0] < end[1] && low[1] < end[0];
}

static bool overlaps_value(const base_tensor *memory, const base_value *value) {
  if (value->kind == BASE_TENSOR) return overlap(memory, &value->tensor);
  for (int64_t i = 0; value->kind == BASE_LIST && i < value->list.count; i++)
    if (overlaps_value(memory, &value->list.items[i])) return true;
  return false;
}

/* Is an input but `renewed` (PLAN_NONE: none) in the memory? */
static bool holds_input(const run_session *s, const base_tensor *memory, uint32_t renewed) {
  for (uint32_t i = 0; i < s->plan->inputs.count; i++)
    if (i != renewed && overlaps_value(memory, &s->given.inputs[i])) return true;
  return false;
}

bool run_is_in_batch(const plan_exe *plan, uint32_t step) {
  for (uint32_t i = 0; i < plan->batches.count; i++)
    if (step >= plan->batches.at[i].first && step < plan->batches.at[i].end) return true;
  return false;
}

/* The input that the step of output `index` may overwrite with it, where it has just this memory; else PLAN_NONE. */
static uint32_t renewed_input(const run_session *s, uint32_t index, const base_tensor *memory) {
  const plan_exe *plan = s->plan;
  const uint32_t i = index < plan->here.renewed.count ? plan->here.renewed.at[index] : PLAN_NONE;
  if (i == PLAN_NONE || s->given.inputs[i].kind != BASE_TENSOR) return PLAN_NONE;
  const base_tensor *in = &s->given.inputs[i].tensor;
  const bool same =
      in->data == memory->data && base_tensor_bytes(in) == base_tensor_bytes(memory) && base_tensor_contiguous(in);
  return same && !run_is_in_batch(plan, plan->slots.at[plan->outputs.at[index].slot].first) ? i : PLAN_NONE;
}

static td_status check_apart(const run_session *s, uint32_t index, td_error *err) {
  for (uint32_t i = 0; i < index; i++)
    if (s->targets.at[i].bound && overlap(&s->targets.at[i].value.tensor, &s->targets.at[index].value.tensor))
      return base_fail(err, TD_BAD_ARGUMENT, output_name(s, index), -1,
                       "outputs %s and %s are bound to the same memory", output_name(s, i), output_name(s, index));
  return TD_OK;
}

static bool aligned(const base_tensor *t) { return (uintptr_t)t->data % (base_dtype(t->dtype)->bits / 8u) == 0; }

/* May the memory of root `root`, an arena slot, be that of the target `index` instead? */
static bool movable(const run_session *s, uint32_t index, uint32_t root, const base_tensor *memory) {
  const plan_slot *slot = &s->plan->slots.at[root];
  const size_t bytes = base_tensor_bytes(memory);
  return slot->place == PLAN_ARENA && slot->root == root && slot->part_of == PLAN_NONE && bytes &&
         base_tensor_bytes(&s->bounds.active->binding.tensors[root]) == bytes && base_dtype(slot->dtype)->bits >= 8 &&
         aligned(memory) && !holds_input(s, memory, renewed_input(s, index, memory));
}

void run_move_root(run_session *s, uint32_t root, char *to) {
  const size_t *offsets = s->bounds.active->binding.offsets;
  for (uint32_t i = 0; i < s->plan->slots.count; i++)
    if (s->plan->slots.at[i].place == PLAN_ARENA && s->plan->slots.at[i].root == root)
      s->main.values[i].tensor.data = to + (offsets[i] - offsets[root]);
}

/* Does an output before `index` that is placed have the same root? */
static bool root_is_taken(const run_session *s, uint32_t index, uint32_t root) {
  for (uint32_t i = 0; i < index; i++)
    if (s->targets.at[i].placed && s->plan->slots.at[s->plan->outputs.at[i].slot].root == root) return true;
  return false;
}

static td_status place(run_session *s, uint32_t index, td_error *err) {
  const uint32_t slot = s->plan->outputs.at[index].slot, root = s->plan->slots.at[slot].root;
  const plan_slot *def = &s->plan->slots.at[slot];
  base_tensor *memory = &s->targets.at[index].value.tensor;
  if (def->place != PLAN_TAIL && def->dtype != TD_INVALID && def->rank >= 0) {
    const base_tensor *planned = &s->bounds.active->binding.tensors[slot];
    TRY(check_sizes(output_name(s, index), memory, planned->dtype, planned->rank, planned->dims, err));
  }
  TRY(check_apart(s, index, err));
  if (!movable(s, index, root, memory) || root_is_taken(s, index, root)) return TD_OK;
  s->targets.at[index].placed = true;
  run_move_root(s, root, memory->data);
  return TD_OK;
}

td_status run_place_outputs(run_session *s, td_error *err) {
  for (uint32_t i = 0; i < s->plan->steps.count; i++) s->bounds.active->known[i] &= (uint8_t)~RUN_SHOWN;
  for (uint32_t i = 0; i < s->plan->outputs.count; i++) {
    const uint32_t root = s->plan->slots.at[s->plan->outputs.at[i].slot].root;
    if (s->plan->slots.at[root].place == PLAN_ARENA)
      run_move_root(s, root, s->main.memory + s->bounds.active->binding.offsets[root]);
    s->targets.at[i].placed = false;
  }
  for (uint32_t i = 0; i < s->plan->outputs.count; i++)
    if (s->targets.at[i].bound) TRY(place(s, i, err));
  return TD_OK;
}

/* ---- delivering ---- */

td_status run_deliver_outputs(run_session *s, td_error *err) {
  for (uint32_t i = 0; i < s->plan->outputs.count; i++) {
    const plan_port *port = &s->plan->outputs.at[i];
    const char *name = output_name(s, i);
    const base_value *from = &s->main.values[port->slot];
    const base_tensor *to = &s->targets.at[i].value.tensor;
    if (!s->targets.at[i].bound || (s->targets.at[i].placed && from->tensor.data == to->data)) continue;
    if (from->kind != BASE_TENSOR)
      return base_fail(err, TD_BAD_ARGUMENT, name, -1, "output %s is empty, and cannot go to memory", name);
    TRY(check_sizes(name, to, from->tensor.dtype, from->tensor.rank, from->tensor.dims, err));
    base_tensor_pack(to->data, &from->tensor);
  }
  return TD_OK;
}
