/* fork.c -- what a task takes from the steps around its fork.
 *
 * A task may run on another thread while the steps behind its fork go on, until the wait for it. What it reads must
 * stay so long: memory of the arena is kept for it (lifetime.c). Where that cannot be said in steps, because the next
 * turn of a loop would write there or because the fork is in a task that may end before, it is copied when the task
 * begins; so is what lies in a tail. */
#include "plan/plan_priv.h"

#include <string.h>

typedef struct capture {
  plan_exe *plan;
  uint32_t *inside; /* per slot: number of the fork in whose block it is made, plus one */
  uint32_t *taken;  /* per slot: number of the fork that was seen to take it last, plus one */
  uint32_t *born;   /* per root: the first step that writes there */
  uint32_t *found;
} capture;

/* The innermost region around each of steps [first, end); they are gone through from outside in. */
static uint32_t region_around(const plan_exe *plan, uint32_t step) {
  uint32_t region = PLAN_NONE;
  for (uint32_t i = 0; i < step; i++) {
    const plan_step *s = &plan->steps.at[i];
    const bool regions = s->kind == PLAN_IF || s->kind == PLAN_LOOP || s->kind == PLAN_FORK;
    if (regions && s->next > step) region = i;
  }
  return region;
}

/* The block that the step stands in: its END, or the end of the plan. */
static uint32_t block_end(const plan_exe *plan, uint32_t step) {
  for (uint32_t i = step; i < plan->steps.count;) {
    const plan_step *s = &plan->steps.at[i];
    if (s->kind == PLAN_END) return i;
    i = s->kind == PLAN_IF || s->kind == PLAN_LOOP || s->kind == PLAN_FORK ? s->next : i + 1;
  }
  return plan->steps.count;
}

/* The wait that surely follows: in the same block as the fork. PLAN_NONE: there is none. */
static uint32_t sure_wait(const plan_exe *plan, uint32_t fork) {
  const uint32_t future = plan->operands.at[plan->steps.at[fork].out], end = block_end(plan, fork);
  for (uint32_t i = plan->steps.at[fork].next; i < end;) {
    const plan_step *s = &plan->steps.at[i];
    if (s->kind == PLAN_WAIT && plan->operands.at[s->in] == future) return i;
    i = s->kind == PLAN_IF || s->kind == PLAN_LOOP || s->kind == PLAN_FORK ? s->next : i + 1;
  }
  return PLAN_NONE;
}

uint32_t plan_last_of_task(const plan_exe *plan, uint32_t fork) {
  const uint32_t wait = sure_wait(plan, fork);
  return wait == PLAN_NONE ? plan->steps.count - 1 : wait;
}

/* The outermost region of a kind around the step; PLAN_NONE: there is none. */
static uint32_t outermost(const plan_exe *plan, uint32_t step, uint32_t kind) {
  uint32_t found = PLAN_NONE;
  for (uint32_t r = region_around(plan, step); r != PLAN_NONE; r = region_around(plan, r))
    if (plan->steps.at[r].kind == kind) found = r;
  return found;
}

static bool needs_copy(const capture *c, uint32_t fork, uint32_t slot) {
  const plan_exe *plan = c->plan;
  const uint32_t root = plan->slots.at[slot].root, place = plan->slots.at[root].place;
  if (plan->slots.at[slot].place == PLAN_TAIL && place != PLAN_INPUT && place != PLAN_CONST) return true;
  if (place != PLAN_ARENA && place != PLAN_TAIL) return false; /* it stays through the run */
  if (place == PLAN_TAIL || outermost(plan, fork, PLAN_FORK) != PLAN_NONE) return true;
  const uint32_t loop = outermost(plan, fork, PLAN_LOOP);
  return sure_wait(plan, fork) == PLAN_NONE && loop != PLAN_NONE && c->born[root] >= loop;
}

/* Lists what the steps of the fork's block read and do not make. */
static uint32_t list_taken(capture *c, uint32_t fork) {
  const plan_exe *plan = c->plan;
  const uint32_t end = plan->steps.at[fork].next;
  uint32_t count = 0;
  for (uint32_t i = fork + 1; i < end; i++)
    for (uint32_t k = 0; k < plan->steps.at[i].out_count; k++) {
      const uint32_t slot = plan->operands.at[plan->steps.at[i].out + k];
      if (slot != PLAN_NONE) c->inside[slot] = fork + 1;
    }
  for (uint32_t i = fork + 1; i < end; i++)
    for (uint32_t k = 0; k < plan->steps.at[i].in_count; k++) {
      const uint32_t slot = plan->operands.at[plan->steps.at[i].in + k];
      if (slot == PLAN_NONE || c->inside[slot] == fork + 1 || c->taken[slot] == fork + 1 ||
          plan->slots.at[slot].place == PLAN_CONST)
        continue;
      c->taken[slot] = fork + 1;
      c->found[count++] = slot;
    }
  return count;
}

static td_status find_captures(capture *c, uint32_t fork, td_error *err) {
  plan_exe *plan = c->plan;
  const uint32_t count = list_taken(c, fork);
  const uint32_t in = plan_add_operands(plan, c->found, count);
  bool free = true;
  uint32_t copied = 0;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t slot = c->found[i];
    free &= plan->slots.at[slot].dtype != TD_INVALID; /* a list may hold futures */
    if (needs_copy(c, fork, slot)) c->found[copied++] = slot;
  }
  const uint32_t params = plan_add_operands(plan, c->found, copied);
  if ((count && in == PLAN_NONE) || (copied && params == PLAN_NONE)) return base_no_memory(err, "a fork");
  plan_step *step = &plan->steps.at[fork];
  step->in = in;
  step->in_count = count;
  step->free = free;
  plan->blocks.at[step->block].params = params;
  plan->blocks.at[step->block].param_count = copied;
  return TD_OK;
}

td_status plan_find_captures(plan_exe *plan, base_arena *scratch, td_error *err) {
  bool any = false;
  for (uint32_t i = 0; i < plan->steps.count; i++) any |= plan->steps.at[i].kind == PLAN_FORK;
  if (!any) return TD_OK;
  const size_t slots = (size_t)plan->slots.count + 1;
  capture c = {.plan = plan,
               .inside = base_new(scratch, uint32_t, slots),
               .taken = base_new(scratch, uint32_t, slots),
               .born = base_new(scratch, uint32_t, slots),
               .found = base_new(scratch, uint32_t, slots)};
  if (!c.inside || !c.taken || !c.born || !c.found) return base_no_memory(err, "a fork");
  memset(c.born, 0xff, slots * sizeof *c.born);
  for (uint32_t i = 0; i < plan->steps.count; i++)
    for (uint32_t k = 0; k < plan->steps.at[i].out_count; k++) {
      const uint32_t slot = plan->operands.at[plan->steps.at[i].out + k];
      const uint32_t root = slot == PLAN_NONE ? PLAN_NONE : plan->slots.at[slot].root;
      if (root != PLAN_NONE && c.born[root] == PLAN_NONE) c.born[root] = i;
    }
  for (uint32_t i = plan->steps.count; i-- > 0;) /* inner ones first: what they take, the outer ones must have */
    if (plan->steps.at[i].kind == PLAN_FORK) TRY(find_captures(&c, i, err));
  return TD_OK;
}
