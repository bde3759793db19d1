/* bind.c -- numbers for sizes: symbols from the input shapes, then every slot's dims, then which steps run in parts,
 * then the arena. */
#include "plan/plan_priv.h"
#include "base/size.h"

#include <string.h>

static bool is_symbol(const base_dims *dims, base_dim d, int64_t *symbol) {
  if (base_dim_known(d) || d == BASE_DIM_NONE) return false;
  const base_dim_node *n = &dims->nodes.at[d - (BASE_DIM_NONE + 1)];
  *symbol = n->a;
  return n->op == BASE_DIM_SYMBOL;
}

static td_status bind_input(const plan_exe *plan, uint32_t index, const base_tensor *t, int64_t *symbols,
                            td_error *err) {
  const plan_port *port = &plan->inputs.at[index];
  const plan_slot *slot = &plan->slots.at[port->slot];
  for (int32_t k = 0; k < slot->rank; k++) {
    int64_t symbol;
    if (base_dim_known(slot->dims[k])) {
      if (slot->dims[k] == t->dims[k]) continue;
      return base_fail(err, TD_BAD_ARGUMENT, port->name, -1, "input %s: dimension %d is %lld, the model has %lld",
                       port->name, k, (long long)t->dims[k], (long long)slot->dims[k]);
    }
    if (!is_symbol(&plan->dims, slot->dims[k], &symbol)) continue;
    if (symbols[symbol] >= 0 && symbols[symbol] != t->dims[k])
      return base_fail(err, TD_BAD_ARGUMENT, port->name, -1,
                       "input %s: dimension %d (%s) is %lld here and %lld elsewhere", port->name, k,
                       plan->dims.symbols.at[symbol].name, (long long)t->dims[k], (long long)symbols[symbol]);
    symbols[symbol] = t->dims[k];
  }
  return TD_OK;
}

/* The name of the step that defines `slot`, for messages. */
static const char *definer(const plan_exe *plan, uint32_t slot) {
  for (uint32_t i = 0; i < plan->steps.count; i++)
    for (uint32_t k = 0; k < plan->steps.at[i].out_count; k++)
      if (plan->operands.at[plan->steps.at[i].out + k] == slot) return plan_name(plan, plan->steps.at[i].name);
  return "";
}

static td_status bind_slot(const plan_exe *plan, uint32_t index, const int64_t *symbols, base_tensor *t, size_t *bytes,
                           td_error *err) {
  const plan_slot *slot = &plan->slots.at[index];
  int64_t dims[BASE_MAX_RANK], count;
  for (int32_t k = 0; k < slot->rank; k++)
    if (!base_dim_eval(&plan->dims, slot->dims[k], symbols, &dims[k]) || dims[k] < 0)
      return base_fail(err, TD_BAD_ARGUMENT, definer(plan, index), -1,
                       "these input shapes do not fit the model: dimension %d of a result has no size", k);
  if (!base_numel(slot->rank, dims, &count) || !base_dtype_bytes(slot->dtype, count, bytes))
    return base_fail(err, TD_BAD_ARGUMENT, definer(plan, index), -1, "the size of a result overflows");
  *t = base_tensor_of(NULL, slot->dtype, slot->rank, dims);
  if (slot->place == PLAN_CONST) {
    memcpy(t->strides, slot->strides, sizeof t->strides);
    t->data = (char *)(uintptr_t)plan->segments.at[slot->segment].base + slot->offset;
  }
  return TD_OK;
}

/* A part has the strides of its whole, and begins inside it. */
static void place_part(const plan_exe *plan, uint32_t index, plan_binding *b) {
  const plan_slot *s = &plan->slots.at[index];
  const base_tensor *whole = &b->tensors[s->part_of];
  memcpy(b->tensors[index].strides, whole->strides, sizeof whole->strides);
  b->offsets[index] += (size_t)(s->part_at * whole->strides[s->part_axis]) * (base_dtype(s->dtype)->bits / 8u);
}

/* Steps that run in parts come again after their last: what they share with others lives as long as they do, and what
 * they alone use needs room for one part. */
static plan_interval interval_of(const plan_slot *root, size_t bytes, const plan_binding *b) {
  plan_interval it = {.first = root->first, .last = root->last, .bytes = bytes};
  const uint32_t first = b->parts_of[it.first], last = b->parts_of[it.last];
  if (first != PLAN_NONE && first == last) {
    const plan_parts *p = &b->parts.at[first];
    it.bytes = bytes / (size_t)p->samples * (size_t)p->part;
  } else {
    if (first != PLAN_NONE) it.first = b->parts.at[first].first;
    if (last != PLAN_NONE) it.last = b->parts.at[last].end - 1;
  }
  if (it.bytes == 0) it.bytes = 1;
  return it;
}

static td_status place_slots(const plan_exe *plan, const size_t *bytes, base_arena *arena, plan_binding *b,
                             td_error *err) {
  plan_interval *intervals = base_new(arena, plan_interval, (size_t)plan->slots.count + 1);
  uint32_t *owner = base_new(arena, uint32_t, (size_t)plan->slots.count + 1);
  if (!intervals || !owner) return base_no_memory(err, "a binding");
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->slots.count; i++) {
    const plan_slot *s = &plan->slots.at[i];
    if (s->place != PLAN_ARENA || s->root != i) continue;
    intervals[count] = interval_of(s, bytes[i], b);
    owner[count++] = i;
  }
  if (!plan_memory(arena, intervals, count, &b->arena_bytes, &b->arena_lower))
    return base_no_memory(err, "the memory plan");
  for (uint32_t i = 0; i < count; i++) b->offsets[owner[i]] = intervals[i].offset;
  for (uint32_t i = 0; i < plan->slots.count; i++)
    if (plan->slots.at[i].place == PLAN_ARENA) b->offsets[i] = b->offsets[plan->slots.at[i].root];
  for (uint32_t i = 0; i < plan->slots.count; i++)
    if (plan->slots.at[i].place == PLAN_ARENA && plan->slots.at[i].part_of != PLAN_NONE) place_part(plan, i, b);
  return TD_OK;
}

td_status plan_bind(const plan_exe *plan, const base_value *inputs, size_t cache, base_arena *arena, plan_binding *b,
                    td_error *err) {
  uint32_t slots = plan->slots.count, symbol_count = plan->dims.symbols.count;
  int64_t *symbols = base_new(arena, int64_t, (size_t)symbol_count + 1);
  size_t *bytes = base_new(arena, size_t, (size_t)slots + 1);
  *b = (plan_binding){.tensors = base_new(arena, base_tensor, (size_t)slots + 1),
                      .offsets = base_new(arena, size_t, (size_t)slots + 1)};
  if (!symbols || !bytes || !b->tensors || !b->offsets) return base_no_memory(err, "a binding");
  for (uint32_t i = 0; i < symbol_count; i++) symbols[i] = -1;
  for (uint32_t i = 0; i < plan->inputs.count; i++)
    if (inputs[i].kind == BASE_TENSOR) TRY(bind_input(plan, i, &inputs[i].tensor, symbols, err));
  for (uint32_t i = 0; i < slots; i++) {
    uint32_t place = plan->slots.at[i].place;
    if (place == PLAN_CONST || place == PLAN_ARENA || (place == PLAN_VIEW && plan->slots.at[i].rank >= 0))
      TRY(bind_slot(plan, i, symbols, &b->tensors[i], &bytes[i], err));
  }
  TRY(plan_find_parts(plan, symbols, bytes, cache, arena, b, err));
  return place_slots(plan, bytes, arena, b, err);
}
