/* plan.c -- building, checking and printing a plan. */
#include "plan/plan.h"
#include "base/size.h"

#include <string.h>

plan_exe *plan_new(const td_allocator *allocator) {
  base_arena *arena = base_arena_new(allocator);
  plan_exe *plan = arena ? base_new(arena, plan_exe, 1) : NULL;
  char *empty = plan ? base_vec_push(arena, &plan->names) : NULL;
  if (!empty) {
    base_arena_free(arena);
    return NULL;
  }
  plan->arena = arena;
  return plan;
}

void plan_free(plan_exe *plan) {
  if (plan && plan->code) plan->release_code(plan->code);
  if (plan) base_arena_free(plan->arena);
}

uint32_t plan_add_name(plan_exe *plan, const char *text) {
  if (!text || !*text) return 0;
  const base_str key = base_str_of(text);
  const uint32_t *known = base_map_get(&plan->known_names, key);
  if (known) return *known;
  uint32_t start = plan->names.count;
  for (size_t i = 0; i <= key.length; i++) {
    char *to = base_vec_push(plan->arena, &plan->names);
    if (!to) return PLAN_NONE;
    *to = text[i];
  }
  /* The names move when they grow, but stay in the arena where they were. */
  const base_str kept = {plan->names.at + start, key.length};
  return base_map_put(&plan->known_names, plan->arena, kept, start, NULL) ? start : PLAN_NONE;
}

uint32_t plan_add_attrs(plan_exe *plan, const base_attrs *attrs) {
  uint32_t start = plan->params.count, units = (attrs->bytes + 7) / 8;
  for (uint32_t i = 0; i < units; i++) {
    uint64_t *to = base_vec_push(plan->arena, &plan->params);
    if (!to) return PLAN_NONE;
    size_t left = attrs->bytes - i * 8u;
    memcpy(to, (const char *)attrs + i * 8u, left < 8 ? left : 8);
  }
  return start;
}

uint32_t plan_add_operands(plan_exe *plan, const uint32_t *slots, uint32_t count) {
  uint32_t start = plan->operands.count;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t *to = base_vec_push(plan->arena, &plan->operands);
    if (!to) return PLAN_NONE;
    *to = slots[i];
  }
  return start;
}

td_status plan_add_function(plan_exe *plan, const plan_function *f, const plan_symbols *symbols, uint32_t *index,
                            td_error *err) {
  for (*index = 0; *index < plan->functions.count; ++*index)
    if (memcmp(&plan->functions.at[*index], f, sizeof *f) == 0) return TD_OK;
  plan_function *to = base_vec_push(plan->arena, &plan->functions);
  const plan_link *link = to ? base_vec_push(plan->arena, &plan->links) : NULL;
  if (!link) return base_no_memory(err, "a function");
  *to = *f;
  return plan_link_function(plan, *index, symbols, err);
}

uint32_t plan_add_segment(plan_exe *plan, const void *base, uint64_t bytes) {
  uint64_t *to = base_vec_push(plan->arena, &plan->segments);
  const void **at = to ? base_vec_push(plan->arena, &plan->bases) : NULL;
  if (!at) return PLAN_NONE;
  *to = bytes;
  *at = base;
  return plan->segments.count - 1;
}

static td_status broken(td_error *err, const char *what, uint32_t index) {
  return base_fail(err, TD_INTERNAL, NULL, -1, "the plan is damaged: %s %u", what, index);
}

static td_status verify_operands(const plan_exe *plan, const plan_step *s, uint32_t number, td_error *err) {
  if (!base_in_range(s->in, s->in_count, plan->operands.count) ||
      !base_in_range(s->out, s->out_count, plan->operands.count))
    return broken(err, "operands of step", number);
  for (uint32_t i = 0; i < s->in_count + s->out_count; i++) {
    uint32_t slot = plan->operands.at[i < s->in_count ? s->in + i : s->out + (i - s->in_count)];
    if (slot != PLAN_NONE && slot >= plan->slots.count) return broken(err, "an operand of step", number);
  }
  return TD_OK;
}

static td_status verify_slots(const plan_exe *plan, td_error *err) {
  for (uint32_t i = 0; i < plan->slots.count; i++) {
    const plan_slot *s = &plan->slots.at[i];
    if (s->root >= plan->slots.count || s->place > PLAN_TAIL || s->rank > BASE_MAX_RANK || s->name >= plan->names.count)
      return broken(err, "slot", i);
    if (s->place == PLAN_ARENA && s->part_of != PLAN_NONE &&
        (s->part_of >= plan->slots.count || plan->slots.at[s->part_of].place != PLAN_ARENA || s->part_axis < 0 ||
         s->part_axis >= s->rank || plan->slots.at[s->part_of].rank != s->rank || s->part_at < 0))
      return broken(err, "part of a slot", i);
    if (s->place == PLAN_CONST && s->segment >= plan->segments.count) return broken(err, "constant slot", i);
  }
  return TD_OK;
}

static td_status verify_blocks(const plan_exe *plan, td_error *err) {
  for (uint32_t i = 0; i < plan->blocks.count; i++) {
    const plan_block *b = &plan->blocks.at[i];
    if (b->first > b->end || b->end >= plan->steps.count || plan->steps.at[b->end].kind != PLAN_END ||
        !base_in_range(b->params, b->param_count, plan->operands.count) ||
        !base_in_range(b->results, b->result_count, plan->operands.count))
      return broken(err, "block", i);
  }
  return TD_OK;
}

static td_status verify_batches(const plan_exe *plan, td_error *err) {
  for (uint32_t i = 0; i < plan->batches.count; i++) {
    const plan_batch *b = &plan->batches.at[i];
    if (b->first >= b->end || b->end > plan->steps.count || (i && b->first < plan->batches.at[i - 1].end) ||
        !base_in_range(b->slots, b->slot_count, plan->operands.count))
      return broken(err, "batch", i);
    for (uint32_t k = 0; k < b->slot_count; k++) {
      const uint32_t slot = plan->operands.at[b->slots + k];
      if (slot >= plan->slots.count || plan->slots.at[slot].rank < 1) return broken(err, "a slot of batch", i);
    }
  }
  return TD_OK;
}

static td_status verify_ports(const plan_exe *plan, td_error *err) {
  for (uint32_t i = 0; i < plan_given_count(plan); i++) {
    const plan_port *port = plan_given(plan, i);
    if (port->slot >= plan->slots.count || (port->fallback != PLAN_NONE && port->fallback >= plan->slots.count))
      return broken(err, "input", i);
  }
  for (uint32_t i = 0; i < plan->outputs.count; i++)
    if (plan->outputs.at[i].slot >= plan->slots.count) return broken(err, "output", i);
  return TD_OK;
}

/* Every first value ends where the next one begins. */
static td_status verify_states(const plan_exe *plan, td_error *err) {
  uint64_t next = 0;
  for (uint32_t i = 0; i < plan->states.count; i++) {
    const plan_state *state = &plan->states.at[i];
    if (state->after >= plan->slots.count || state->initial != next) return broken(err, "state", i);
    for (uint64_t end = next + 1; next < end; next++) {
      if (next >= plan->initials.count) return broken(err, "the first value of state", i);
      const plan_initial *v = &plan->initials.at[next];
      end += v->count;
      const bool constant = v->slot != PLAN_NONE, holds = base_holds_values(v->kind);
      if (v->kind > BASE_FUTURE || constant != (v->kind == BASE_TENSOR) || (v->count && !holds) ||
          (constant && (v->slot >= plan->slots.count || plan->slots.at[v->slot].place != PLAN_CONST)))
        return broken(err, "the first value of state", i);
    }
  }
  return TD_OK;
}

static td_status verify_guards(const plan_exe *plan, td_error *err) {
  for (uint32_t i = 0; i < plan->guards.count; i++) {
    const plan_guard *g = &plan->guards.at[i];
    if (g->relation >= BASE_RELATION_COUNT || g->text >= plan->names.count) return broken(err, "the condition", i);
  }
  return TD_OK;
}

td_status plan_verify(const plan_exe *plan, td_error *err) {
  TRY(verify_slots(plan, err));
  TRY(verify_blocks(plan, err));
  TRY(verify_batches(plan, err));
  TRY(verify_ports(plan, err));
  TRY(verify_states(plan, err));
  TRY(verify_guards(plan, err));
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const plan_step *s = &plan->steps.at[i];
    bool calls = s->kind == PLAN_CALL || s->kind == PLAN_SHOW,
         region = s->kind == PLAN_IF || s->kind == PLAN_LOOP || s->kind == PLAN_FORK;
    TRY(verify_operands(plan, s, i, err));
    if (calls && s->function >= plan->functions.count) return broken(err, "the function of step", i);
    if (region && (s->next <= i || s->next > plan->steps.count || s->block >= plan->blocks.count))
      return broken(err, "the region at step", i);
    if (s->name >= plan->names.count || (s->attrs != PLAN_NONE && s->attrs >= plan->params.count))
      return broken(err, "the name or attributes of step", i);
  }
  return TD_OK;
}
