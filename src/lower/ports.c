/* ports.c -- what a plan takes and keeps: ports of inputs and outputs, session state and its first values. */
#include "lower/lower_priv.h"

static uint32_t port_kind(const ir_type *type) {
  static const uint8_t kinds[IR_KIND_COUNT] = {[IR_LIST] = PLAN_LIST_PORT,
                                               [IR_OPTIONAL] = PLAN_OPTIONAL_PORT,
                                               [IR_TUPLE] = PLAN_TUPLE_PORT,
                                               [IR_DICT] = PLAN_DICT_PORT,
                                               [IR_CLASS] = PLAN_CLASS_PORT};
  return kinds[type->kind];
}

/* base_kind of the values of a type, nothing aside. */
static uint32_t value_kind(const ir_type *type) {
  static const uint8_t holders[IR_KIND_COUNT] = {
      [IR_LIST] = BASE_LIST, [IR_TUPLE] = BASE_TUPLE, [IR_DICT] = BASE_DICT, [IR_CLASS] = BASE_OBJECT};
  while (type->kind == IR_OPTIONAL && type->elem) type = type->elem;
  return holders[type->kind] ? holders[type->kind] : BASE_TENSOR;
}

td_status lower_describe_port(lowering *l, const ir_type *type, const char *name, plan_port *port) {
  const ir_type *item = type;
  while (item->kind > IR_BOOL && item->elem) item = item->elem;
  const bool tensors = item->kind <= IR_BOOL;
  *port = (plan_port){.name = plan_add_name(l->plan, name),
                      .kind = port_kind(type),
                      .takes = value_kind(type),
                      .dtype = tensors ? item->dtype : TD_INVALID,
                      .rank = tensors ? item->rank : -1,
                      .fallback = PLAN_NONE};
  for (int32_t i = 0; i < port->rank; i++) port->dims[i] = item->dims[i];
  return port->name == PLAN_NONE ? base_no_memory(l->err, "a name") : TD_OK;
}

td_status lower_given(lowering *l, ir_value v, plan_port *port) {
  TRY(lower_describe_port(l, ir_type_of(l->graph, v), ir_value_of(l->graph, v)->name, port));
  return lower_slot_for(l, v, PLAN_INPUT, &port->slot);
}

/* ---- session state ---- */

/* The slot of a first value; where all its elements are the same, one is kept. */
static td_status initial_slot(lowering *l, ir_value v, uint32_t *index) {
  const base_tensor *t = ir_value_of(l->graph, v)->info.constant;
  const size_t bytes = base_dtype(t->dtype)->bits / 8u;
  bool repeats = bytes && t->dtype != TD_STRING && base_tensor_numel(t) > 1;
  for (int32_t i = 0; i < t->rank; i++) repeats &= t->dims[i] < 2 || t->strides[i] == 0;
  if (!repeats || l->slot_of[v.id] != PLAN_NONE) return lower_use(l, v, index);
  TRY(lower_slot_for(l, v, PLAN_CONST, index));
  void *data = base_arena_alloc_uncleared(l->graph->constants, bytes, 64);
  const uint32_t segment = data ? plan_add_segment(l->plan, data, bytes) : PLAN_NONE;
  if (segment == PLAN_NONE) return base_no_memory(l->err, "a constant");
  memcpy(data, t->data, bytes);
  plan_slot *slot = &l->plan->slots.at[*index];
  slot->segment = segment;
  memcpy(slot->strides, t->strides, sizeof slot->strides);
  l->layout[*index] = LOWER_STRIDED;
  return TD_OK;
}

static td_status lower_initial(lowering *l, const ir_type *type, const ir_initial *initial) {
  plan_initial *to = base_vec_push(l->plan->arena, &l->plan->initials);
  if (!to) return base_no_memory(l->err, "session state");
  while (type->kind == IR_OPTIONAL && type->elem) type = type->elem;
  *to = (plan_initial){.slot = PLAN_NONE, .kind = initial->list ? value_kind(type) : BASE_NOTHING};
  if (initial->value.id) {
    to->kind = BASE_TENSOR;
    return initial_slot(l, initial->value, &to->slot);
  }
  to->count = initial->count;
  const uint32_t elems = ir_type_elems(type);
  const ir_type unknown = ir_unranked(TD_INVALID);
  for (uint32_t i = 0; i < initial->count; i++)
    TRY(lower_initial(l, elems ? &type->elem[i % elems] : &unknown, &initial->items[i]));
  return TD_OK;
}

td_status lower_state(lowering *l, uint32_t index) {
  plan_state *state = base_vec_push(l->plan->arena, &l->plan->states);
  if (!state) return base_no_memory(l->err, "session state");
  state->initial = l->plan->initials.count;
  const ir_value v = ir_state_before(l->graph, index);
  TRY(lower_initial(l, ir_type_of(l->graph, v), &l->graph->states.at[index]));
  return lower_given(l, v, &state->port);
}
