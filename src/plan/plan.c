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
  plan->here.label = "";
  plan->here.speed = &base_speed_default;
  return plan;
}

void plan_free(plan_exe *plan) {
  for (uint32_t i = 0; plan && i < plan->here.variants.count; i++) plan_free(plan->here.variants.at[i]);
  if (plan && plan->here.code) plan->here.release_code(plan->here.code);
  if (plan) base_arena_free(plan->arena);
}

uint32_t plan_add_name(plan_exe *plan, const char *text) {
  if (!text || !*text) return 0;
  const base_str key = base_str_of(text);
  const uint32_t *known = base_map_get(&plan->here.known_names, key);
  if (known) return *known;
  uint32_t start = plan->names.count;
  while (plan->names.cap - start <= key.length) {
    char *larger = base_vec_grow(plan->arena, plan->names.at, &plan->names.cap, 1);
    if (!larger) return PLAN_NONE;
    plan->names.at = larger;
  }
  memcpy(plan->names.at + start, text, key.length + 1);
  plan->names.count += (uint32_t)key.length + 1;
  /* The names move when they grow, but stay in the arena where they were. */
  const base_str kept = {plan->names.at + start, key.length};
  return base_map_put(&plan->here.known_names, plan->arena, kept, start, NULL) ? start : PLAN_NONE;
}

plan_exe *plan_retold(const plan_exe *plan, base_arena *arena, const char *const *texts) {
  plan_exe *to = base_arena_copy(arena, plan, sizeof *plan);
  uint32_t *origins = base_new(arena, uint32_t, (size_t)plan->origins.count + 1);
  plan_step *steps = base_arena_copy(arena, plan->steps.at, plan->steps.count * sizeof *steps);
  char *names = base_arena_copy(arena, plan->names.at, plan->names.count);
  if (!to || !origins || !steps || !names) return NULL;
  to->arena = arena;
  to->here.known_names = (base_map){0};
  to->names.at = names;
  to->names.cap = to->names.count;
  for (uint32_t i = 0; i < plan->origins.count; i++)
    if ((origins[i] = plan_add_name(to, texts[i])) == PLAN_NONE) return NULL;
  for (uint32_t i = 0; i < plan->steps.count; i++)
    if (steps[i].origin_count) steps[i].name = origins[steps[i].origins];
  to->origins.at = origins;
  to->steps.at = steps;
  return to;
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
  const plan_link *link = to ? base_vec_push(plan->arena, &plan->here.links) : NULL;
  if (!link) return base_no_memory(err, "a function");
  *to = *f;
  return plan_link_function(plan, *index, symbols, err);
}

bool plan_code_of(const plan_exe *plan, const plan_step *step, plan_code *code) {
  if (step->kind != PLAN_CALL || !plan->here.locate_code) return false;
  const plan_function *f = &plan->functions.at[step->function];
  return f->role == PLAN_GENERATED && plan->here.locate_code(plan->here.code, plan_name(plan, f->code), code);
}

uint32_t plan_add_segment(plan_exe *plan, const void *base, uint64_t bytes) {
  uint64_t *to = base_vec_push(plan->arena, &plan->segments);
  const void **at = to ? base_vec_push(plan->arena, &plan->here.bases) : NULL;
  if (!at) return PLAN_NONE;
  *to = bytes;
  *at = base;
  return plan->segments.count - 1;
}
