/* lifetime.c -- who lives when, and who takes whose place. A root is an arena slot that owns memory; views and in-place
 * results share it. What is defined outside a loop and used inside lives to the loop's end: the next iteration reads it
 * again. */
#include "plan/plan_priv.h"

/* The innermost loop around each step; PLAN_NONE: none. A region is not inside itself. */
static void find_loops(const plan_exe *plan, uint32_t *loop_of) {
  for (uint32_t i = 0; i < plan->steps.count; i++) loop_of[i] = PLAN_NONE;
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const plan_step *s = &plan->steps.at[i];
    if (s->kind != PLAN_LOOP) continue;
    for (uint32_t k = i + 1; k < s->next; k++) loop_of[k] = i; /* inner loops come later and overwrite */
  }
}

static void extend(plan_exe *plan, const uint32_t *loop_of, uint32_t slot, uint32_t step) {
  if (slot == PLAN_NONE) return;
  plan_slot *root = &plan->slots.at[plan->slots.at[slot].root];
  if (root->place != PLAN_ARENA) return;
  if (root->first == PLAN_NONE) root->first = root->last = step;
  uint32_t last = step;
  for (uint32_t loop = loop_of[step]; loop != PLAN_NONE && root->first <= loop; loop = loop_of[loop])
    last = plan->steps.at[loop].next - 1;
  if (last > root->last) root->last = last;
}

static void outlive_run(plan_exe *plan, uint32_t slot) {
  plan_slot *root = &plan->slots.at[plan->slots.at[slot].root];
  if (root->place == PLAN_ARENA) root->last = plan->steps.count;
}

static void set_lifetimes(plan_exe *plan, const uint32_t *loop_of) {
  for (uint32_t i = 0; i < plan->slots.count; i++) plan->slots.at[i].first = plan->slots.at[i].last = PLAN_NONE;
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const plan_step *s = &plan->steps.at[i];
    for (uint32_t k = 0; k < s->out_count; k++) extend(plan, loop_of, plan->operands.at[s->out + k], i);
    for (uint32_t k = 0; k < s->in_count; k++) extend(plan, loop_of, plan->operands.at[s->in + k], i);
    if (s->kind == PLAN_FORK)
      for (uint32_t k = 0; k < s->in_count; k++)
        extend(plan, loop_of, plan->operands.at[s->in + k], plan_last_of_task(plan, i));
    if (s->kind != PLAN_END) continue; /* results are written into the region's outputs here */
    const plan_step *region = &plan->steps.at[s->next];
    for (uint32_t k = 0; k < region->out_count; k++) extend(plan, loop_of, plan->operands.at[region->out + k], i);
  }
  for (uint32_t i = 0; i < plan->outputs.count; i++) outlive_run(plan, plan->outputs.at[i].slot);
  for (uint32_t i = 0; i < plan->states.count; i++) outlive_run(plan, plan->states.at[i].after);
  for (uint32_t i = 0; i < plan->slots.count; i++)
    if (plan->slots.at[i].first == PLAN_NONE) plan->slots.at[i].first = plan->slots.at[i].last = 0;
}

/* ---- in place ---- */

static bool same_size(const plan_slot *a, const plan_slot *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

/* The slot whose memory `slot` uses now: while places are taken, a root may itself have moved into another. Paths are
 * halved on the way, so that a long chain of steps in one place stays cheap. */
static uint32_t current_root(plan_exe *plan, uint32_t slot) {
  plan_slot *slots = plan->slots.at;
  while (slots[slot].root != slot) {
    slots[slot].root = slots[slots[slot].root].root;
    slot = slots[slot].root;
  }
  return slot;
}

/* Is operand `k` one of a mask (plan_link.in_place)? */
static bool is_of(uint32_t mask, uint32_t k) { return mask >> (k < 31 ? k : 31) & 1; }

/* Does the step read memory of `in` but by operands of the mask that are `in` itself? */
static bool reads_besides(plan_exe *plan, const plan_step *s, uint32_t in, uint32_t mask) {
  for (uint32_t k = 0; k < s->in_count; k++) {
    const uint32_t other = plan->operands.at[s->in + k];
    const bool same = other == in && is_of(mask, k);
    if (other != PLAN_NONE && !same && current_root(plan, other) == current_root(plan, in)) return true;
  }
  return false;
}

/* May the output `out` of step `number` be written over operand slot `in`? Its memory must die here, be all its own,
 * and be read by no other operand, nor by `in` as one that is not of the mask. */
static bool can_replace(plan_exe *plan, uint32_t number, uint32_t in, uint32_t out, uint32_t mask) {
  if (in == PLAN_NONE || plan->slots.at[in].place != PLAN_ARENA || plan->slots.at[in].part_of != PLAN_NONE ||
      !same_size(&plan->slots.at[in], &plan->slots.at[out]))
    return false;
  return plan->slots.at[current_root(plan, in)].last == number &&
         !reads_besides(plan, &plan->steps.at[number], in, mask);
}

/* Step behind `i` in the same block. */
static uint32_t behind(const plan_exe *plan, uint32_t i) {
  const plan_step *s = &plan->steps.at[i];
  const bool region = s->kind == PLAN_IF || s->kind == PLAN_LOOP || s->kind == PLAN_FORK;
  return region ? s->next : i + 1;
}

/* Does any of steps [first, end] but by the operand `but` read memory of `root`, or go on beside them? */
static bool is_read(plan_exe *plan, uint32_t first, uint32_t end, uint32_t root, uint32_t but) {
  for (uint32_t i = first; i <= end; i++) {
    const plan_step *s = &plan->steps.at[i];
    if (s->kind == PLAN_FORK || s->kind == PLAN_WAIT) return true;
    for (uint32_t k = 0; k < s->in_count; k++) {
      const uint32_t slot = plan->operands.at[s->in + k];
      if (slot != PLAN_NONE && slot != but && current_root(plan, slot) == root) return true;
    }
  }
  return false;
}

/* May step `number` write what the innermost loop carries, `in`, anew in its place? It must be what the next turn finds
 * as the same value, and the last that is read of the old one in this turn. */
static bool renews_carried(plan_exe *plan, uint32_t loop, uint32_t number, uint32_t in, uint32_t out) {
  if (loop == PLAN_NONE || in == PLAN_NONE || plan->slots.at[in].place != PLAN_ARENA || plan->slots.at[in].root != in ||
      !same_size(&plan->slots.at[in], &plan->slots.at[out]))
    return false;
  const plan_block *b = &plan->blocks.at[plan->steps.at[loop].block];
  uint32_t i = b->first, k = 1;
  while (i < number) i = behind(plan, i);
  while (k < b->param_count && plan->operands.at[b->params + k] != in) k++;
  if (i != number || k >= b->param_count || plan->operands.at[b->results + k] != out) return false;
  for (uint32_t fork = b->first; fork < number; fork++)
    if (plan->steps.at[fork].kind == PLAN_FORK) return false;
  return !is_read(plan, number, number, in, in) && !is_read(plan, number + 1, b->end, in, out);
}

/* Whose place the result may take: a mask of operands. */
static uint32_t allows_in_place(const plan_exe *plan, const plan_step *s) {
  if (s->kind != PLAN_CALL || s->out_count != 1 || s->defines) return 0;
  return plan->here.links.at[s->function].in_place;
}

static void take_places(plan_exe *plan, const uint32_t *loop_of) {
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const plan_step *s = &plan->steps.at[i];
    const uint32_t mask = allows_in_place(plan, s);
    if (!mask) continue;
    uint32_t out = plan->operands.at[s->out];
    if (out == PLAN_NONE || plan->slots.at[out].place != PLAN_ARENA || plan->slots.at[out].root != out) continue;
    for (uint32_t k = 0; k < s->in_count; k++) {
      uint32_t in = plan->operands.at[s->in + k];
      const bool renews = mask == UINT32_MAX && renews_carried(plan, loop_of[i], i, in, out);
      if (!is_of(mask, k) || (!can_replace(plan, i, in, out, mask) && !renews)) continue;
      uint32_t root = current_root(plan, in);
      if (plan->slots.at[out].last > plan->slots.at[root].last) plan->slots.at[root].last = plan->slots.at[out].last;
      plan->slots.at[out].root = root;
      break;
    }
  }
  for (uint32_t i = 0; i < plan->slots.count; i++) plan->slots.at[i].root = current_root(plan, i);
}

/* ---- outputs in the memory of inputs ---- */

/* How many results of a run have memory of `root`? */
static uint32_t count_results(plan_exe *plan, uint32_t root) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->outputs.count; i++) count += current_root(plan, plan->outputs.at[i].slot) == root;
  for (uint32_t i = 0; i < plan->states.count; i++) count += current_root(plan, plan->states.at[i].after) == root;
  return count;
}

static bool has_fork(const plan_exe *plan) {
  for (uint32_t i = 0; i < plan->steps.count; i++)
    if (plan->steps.at[i].kind == PLAN_FORK) return true;
  return false;
}

/* The step that makes the result in `slot`, an arena root, where that may take the place of an operand; else NULL. */
static const plan_step *maker(const plan_exe *plan, uint32_t slot) {
  const plan_slot *to = &plan->slots.at[slot];
  if (to->place != PLAN_ARENA || to->root != slot || to->part_of != PLAN_NONE) return NULL;
  const plan_step *s = &plan->steps.at[to->first];
  return allows_in_place(plan, s) && plan->operands.at[s->out] == slot ? s : NULL;
}

/* May it, the result in `slot`, have the memory of `in`, that a run is given? `s` may write it there, and nothing reads
 * it behind that. */
static bool renews(plan_exe *plan, const plan_step *s, uint32_t slot, uint32_t in) {
  const plan_slot *to = &plan->slots.at[slot];
  const uint32_t mask = allows_in_place(plan, s);
  uint32_t k = 0;
  while (k < s->in_count && !(is_of(mask, k) && plan->operands.at[s->in + k] == in)) k++;
  return k < s->in_count && plan->slots.at[in].place == PLAN_INPUT && plan->slots.at[in].dtype == to->dtype &&
         !reads_besides(plan, s, in, mask) && !is_read(plan, to->first + 1, plan->steps.count - 1, in, PLAN_NONE) &&
         !count_results(plan, in);
}

/* The input whose memory the output in `slot` may have where a caller binds both to the same. */
static uint32_t find_renewed(plan_exe *plan, uint32_t slot) {
  const plan_step *s = maker(plan, slot);
  for (uint32_t i = 0; s && i < plan->inputs.count; i++)
    if (renews(plan, s, slot, plan->inputs.at[i].slot)) return i;
  return PLAN_NONE;
}

/* A run that fails leaves a state as it was: a step that would write over it must be one that only appends. */
static plan_making find_making(plan_exe *plan, const plan_state *state, bool forks) {
  const plan_slot *after = &plan->slots.at[state->after];
  if (after->place != PLAN_ARENA || after->root != state->after || after->part_of != PLAN_NONE ||
      after->dtype == TD_STRING || base_dtype(after->dtype)->bits < 8 || count_results(plan, state->after) != 1)
    return PLAN_MADE_ANYWHERE;
  const plan_step *s = forks ? NULL : maker(plan, state->after);
  const bool in_place =
      s && plan->here.links.at[s->function].appends && renews(plan, s, state->after, state->port.slot);
  return in_place ? PLAN_MADE_IN_PLACE : PLAN_MADE_BESIDE;
}

static td_status find_all_renewed(plan_exe *plan, td_error *err) {
  const bool forks = has_fork(plan);
  plan->here.renewed.count = plan->here.making.count = 0;
  for (uint32_t i = 0; i < plan->states.count; i++) {
    uint32_t *making = base_vec_push(plan->arena, &plan->here.making);
    if (!making) return base_no_memory(err, "the plan");
    *making = find_making(plan, &plan->states.at[i], forks);
  }
  if (forks) return TD_OK;
  for (uint32_t i = 0; i < plan->outputs.count; i++) {
    uint32_t *renewed = base_vec_push(plan->arena, &plan->here.renewed);
    if (!renewed) return base_no_memory(err, "the plan");
    *renewed = find_renewed(plan, plan->outputs.at[i].slot);
  }
  return TD_OK;
}

td_status plan_find_lifetimes(plan_exe *plan, base_arena *scratch, td_error *err) {
  uint32_t *loop_of = base_new(scratch, uint32_t, (size_t)plan->steps.count + 1);
  if (!loop_of) return base_no_memory(err, "lifetimes");
  find_loops(plan, loop_of);
  set_lifetimes(plan, loop_of);
  if (!plan->in_place) return TD_OK;
  take_places(plan, loop_of);
  return find_all_renewed(plan, err);
}
