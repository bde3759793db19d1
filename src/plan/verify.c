/* verify.c -- is a plan what it should be? Nothing of it is believed: it may come from a file that somebody made up.
 * What is found here once is what binding and running count on without looking again. */
#include "base/size.h"
#include "plan/plan_priv.h"

#include <string.h>

enum { MOST_NESTED = 1000, MOST_NESTED_VALUES = 64 };

static td_status broken(td_error *err, const char *what, uint32_t index) {
  return base_fail(err, TD_BAD_FILE, NULL, -1, "the plan is damaged: %s %u", what, index);
}

static bool is_name(const plan_exe *plan, uint32_t name) { return name < plan->names.count; }
static bool is_slot(const plan_exe *plan, uint32_t slot) { return slot < plan->slots.count; }
static bool is_region(const plan_step *s) { return s->kind == PLAN_IF || s->kind == PLAN_LOOP || s->kind == PLAN_FORK; }
static bool is_call(const plan_step *s) { return s->kind == PLAN_CALL || s->kind == PLAN_SHOW; }

static td_status verify_names(const plan_exe *plan, td_error *err) {
  if (!plan->names.count || plan->names.at[0] || plan->names.at[plan->names.count - 1])
    return broken(err, "its texts, of bytes:", plan->names.count);
  for (uint32_t i = 0; i < plan->origins.count; i++)
    if (!is_name(plan, plan->origins.at[i])) return broken(err, "origin", i);
  if (plan->here.links.count != plan->functions.count || plan->here.bases.count != plan->segments.count)
    return broken(err, "its functions or segments, which have not been found:", plan->functions.count);
  return TD_OK;
}

/* ---- slots ---- */

static bool sound_type(const plan_exe *plan, td_dtype dtype, int32_t rank, const base_dim *dims) {
  if ((uint32_t)dtype >= TD_DTYPE_COUNT || rank < -1 || rank > BASE_MAX_RANK) return false;
  for (int32_t i = 0; i < rank; i++)
    if (!base_dim_in(&plan->dims, dims[i]) || (base_dim_known(dims[i]) && dims[i] < 0)) return false;
  return true;
}

/* Do all elements lie in the segment? Of elements of less than a byte and of strings: densely. */
static bool constant_fits(const plan_exe *plan, const plan_slot *s) {
  int64_t dims[BASE_MAX_RANK], dense[BASE_MAX_RANK], count, last = 0;
  size_t bytes;
  if (s->dtype == TD_INVALID || s->rank < 0 || s->segment >= plan->segments.count) return false;
  for (int32_t i = 0; i < s->rank; i++)
    if (!base_dim_known(dims[i] = s->dims[i])) return false;
  if (!base_numel(s->rank, dims, &count) || !base_dtype_bytes(s->dtype, count, &bytes)) return false;
  if (count == 0) return s->offset <= plan->segments.at[s->segment];
  base_strides(s->rank, dims, dense);
  const size_t bits = base_dtype(s->dtype)->bits;
  bool is_dense = true;
  for (int32_t i = 0; i < s->rank; i++) {
    int64_t reach;
    is_dense &= dims[i] < 2 || s->strides[i] == dense[i];
    if (dims[i] > 1 &&
        (s->strides[i] < 0 || !base_mul_i64(dims[i] - 1, s->strides[i], &reach) || !base_add_i64(last, reach, &last)))
      return false;
  }
  if (bits < 8 || s->dtype == TD_STRING)
    return is_dense && base_in_range(s->offset, bytes, plan->segments.at[s->segment]);
  return last < INT64_MAX && base_mul((size_t)last + 1, bits / 8, &bytes) &&
         base_in_range(s->offset, bytes, plan->segments.at[s->segment]);
}

static bool sound_part(const plan_exe *plan, const plan_slot *s) {
  if (s->part_of == PLAN_NONE) return true;
  if (!is_slot(plan, s->part_of) || s->part_axis < 0 || s->part_axis >= s->rank || s->part_at < 0) return false;
  const plan_slot *whole = &plan->slots.at[s->part_of];
  return whole->place == PLAN_ARENA && whole->part_of == PLAN_NONE && whole->rank == s->rank &&
         whole->dtype == s->dtype && base_dtype(s->dtype)->bits >= 8 && s->dtype != TD_STRING && s->root == whole->root;
}

static td_status verify_slots(const plan_exe *plan, td_error *err) {
  for (uint32_t i = 0; i < plan->slots.count; i++) {
    const plan_slot *s = &plan->slots.at[i];
    if (s->place > PLAN_TAIL || !sound_type(plan, s->dtype, s->rank, s->dims) || !is_name(plan, s->name) ||
        !is_slot(plan, s->root) || plan->slots.at[s->root].root != s->root)
      return broken(err, "slot", i);
    if (s->place == PLAN_CONST && !constant_fits(plan, s)) return broken(err, "constant slot", i);
    if (s->place != PLAN_ARENA) continue;
    if (s->dtype == TD_INVALID || s->rank < 0 || s->first > s->last || s->last > plan->steps.count ||
        plan->slots.at[s->root].place != PLAN_ARENA)
      return broken(err, "planned slot", i);
    if (!sound_part(plan, s)) return broken(err, "part of a slot", i);
  }
  return TD_OK;
}

/* ---- steps ---- */

static td_status verify_operands(const plan_exe *plan, uint32_t at, uint32_t count, uint32_t number, td_error *err) {
  if (!base_in_range(at, count, plan->operands.count)) return broken(err, "operands of step", number);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t slot = plan->operands.at[at + i];
    if (slot != PLAN_NONE && !is_slot(plan, slot)) return broken(err, "an operand of step", number);
  }
  return TD_OK;
}

static bool has_all(const plan_exe *plan, uint32_t at, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (plan->operands.at[at + i] == PLAN_NONE) return false;
  return true;
}

/* How many operands and results each kind has, and where results may be: bit i is place i. */
static bool sound_shape(const plan_exe *plan, const plan_step *s) {
  enum { MADE = 1 << PLAN_ARENA | 1 << PLAN_TAIL, SHOWN = 1 << PLAN_VIEW | 1 << PLAN_TAIL };
  static const uint8_t places[] = {[PLAN_CALL] = MADE, [PLAN_SHOW] = SHOWN, [PLAN_IF] = MADE,   [PLAN_LOOP] = MADE,
                                   [PLAN_END] = 0,     [PLAN_FORK] = SHOWN, [PLAN_WAIT] = SHOWN};
  bool tail = false;
  for (uint32_t i = 0; i < s->out_count; i++) {
    const uint32_t slot = plan->operands.at[s->out + i];
    if (slot == PLAN_NONE) continue;
    if (!(places[s->kind] >> plan->slots.at[slot].place & 1)) return false;
    tail |= plan->slots.at[slot].place == PLAN_TAIL;
  }
  if (is_call(s) && s->defines != tail) return false;
  if (s->kind == PLAN_CALL) return true;
  if (s->kind == PLAN_SHOW)
    return s->in_count && has_all(plan, s->in, 1) && s->out_count == 1 && has_all(plan, s->out, 1);
  if (s->kind == PLAN_IF) return s->in_count == 1 && has_all(plan, s->in, 1);
  if (s->kind == PLAN_END) return s->out_count == 0 && has_all(plan, s->in, s->in_count);
  if (s->kind == PLAN_LOOP)
    return s->out_count && s->in_count == s->out_count + 1 && has_all(plan, s->in + 2, s->in_count - 2) &&
           has_all(plan, s->out + 1, s->out_count - 1);
  return (s->kind == PLAN_FORK || (s->in_count == 1 && has_all(plan, s->in, 1))) && s->out_count == 1 &&
         has_all(plan, s->out, 1);
}

static td_status verify_step(const plan_exe *plan, uint32_t number, td_error *err) {
  const plan_step *s = &plan->steps.at[number];
  if (s->kind > PLAN_WAIT) return broken(err, "the kind of step", number);
  TRY(verify_operands(plan, s->in, s->in_count, number, err));
  TRY(verify_operands(plan, s->out, s->out_count, number, err));
  if (!sound_shape(plan, s)) return broken(err, "what goes into step", number);
  if (is_call(s) && s->function >= plan->functions.count) return broken(err, "the function of step", number);
  if (!is_name(plan, s->name) || !base_in_range(s->origins, s->origin_count, plan->origins.count))
    return broken(err, "the name of step", number);
  if (s->attrs == PLAN_NONE) return TD_OK;
  if (s->attrs >= plan->params.count ||
      !base_attrs_valid(plan_attrs(plan, s->attrs), ((size_t)plan->params.count - s->attrs) * sizeof(uint64_t)))
    return broken(err, "the attributes of step", number);
  return TD_OK;
}

/* ---- order: every value is made before it is used, and what a block makes is seen in it alone ---- */

typedef struct walk {
  const plan_exe *plan;
  bool *made;      /* per slot */
  uint32_t *stack; /* slots that are made, the last on top: a block takes its own away again */
  uint32_t count;
  td_error *err;
} walk;

static bool make(walk *w, uint32_t slot) {
  if (slot == PLAN_NONE) return true;
  if (w->made[slot]) return false;
  w->made[slot] = true;
  w->stack[w->count++] = slot;
  return true;
}

/* What a join gives is made by making its parts; so are parts of it that are joins. */
static bool make_result(walk *w, uint32_t slot) {
  if (!make(w, slot)) return false;
  const uint32_t whole = slot == PLAN_NONE ? PLAN_NONE : w->plan->slots.at[slot].part_of;
  return whole == PLAN_NONE || w->plan->slots.at[slot].place != PLAN_ARENA || w->made[whole] || make(w, whole);
}

static bool is_made(const walk *w, uint32_t slot) {
  const plan_slot *s = &w->plan->slots.at[slot];
  return w->made[slot] || s->place == PLAN_CONST ||
         (s->place == PLAN_ARENA && s->part_of != PLAN_NONE && w->made[s->part_of]);
}

static bool all_made(const walk *w, uint32_t at, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t slot = w->plan->operands.at[at + i];
    if (slot != PLAN_NONE && !is_made(w, slot)) return false;
  }
  return true;
}

static td_status walk_steps(walk *w, uint32_t first, uint32_t end, uint32_t depth);

/* The number of an iteration is written as an i64 of rank 0. */
static bool is_counter(const plan_exe *plan, uint32_t slot) {
  return slot == PLAN_NONE || (plan->slots.at[slot].place == PLAN_ARENA && plan->slots.at[slot].dtype == TD_I64 &&
                               plan->slots.at[slot].rank == 0);
}

static bool sound_block(const plan_exe *plan, const plan_step *region, const plan_block *b) {
  if (!base_in_range(b->params, b->param_count, plan->operands.count) ||
      !base_in_range(b->results, b->result_count, plan->operands.count))
    return false;
  if (region->kind == PLAN_IF) return !b->param_count && b->result_count == region->out_count;
  if (region->kind == PLAN_FORK) return b->result_count > 0;
  return b->params == region->out && b->param_count == region->out_count && b->result_count == region->out_count &&
         is_counter(plan, plan->operands.at[b->params]);
}

/* Block `index` of the region, whose steps begin at *at, which is moved behind its END. */
static td_status walk_block(walk *w, uint32_t number, uint32_t index, uint32_t *at, uint32_t depth) {
  const plan_exe *plan = w->plan;
  const plan_step *region = &plan->steps.at[number];
  const plan_block *b = &plan->blocks.at[index];
  if (b->first != *at || b->end < b->first || b->end >= region->next || !sound_block(plan, region, b))
    return broken(w->err, "block", index);
  const plan_step *last = &plan->steps.at[b->end];
  if (last->kind != PLAN_END || last->next != number || last->block != index || last->in != b->results ||
      last->in_count != b->result_count)
    return broken(w->err, "the end of block", index);
  for (uint32_t i = 0; region->kind == PLAN_FORK && i < b->param_count; i++) {
    const uint32_t slot = plan->operands.at[b->params + i];
    if (slot >= plan->slots.count || !is_made(w, slot)) return broken(w->err, "what is copied for block", index);
  }
  const uint32_t before = w->count;
  TRY(walk_steps(w, b->first, b->end, depth + 1));
  if (!all_made(w, b->results, b->result_count)) return broken(w->err, "the results of block", index);
  while (w->count > before) w->made[w->stack[--w->count]] = false;
  *at = b->end + 1;
  return TD_OK;
}

static td_status walk_region(walk *w, uint32_t number, uint32_t depth) {
  const plan_step *s = &w->plan->steps.at[number];
  const uint32_t blocks = s->kind == PLAN_IF ? 2 : 1;
  uint32_t at = number + 1;
  if (depth > MOST_NESTED) return broken(w->err, "regions in regions at step", number);
  if (s->next <= number || s->next > w->plan->steps.count || !base_in_range(s->block, blocks, w->plan->blocks.count))
    return broken(w->err, "the region at step", number);
  for (uint32_t i = 0; s->kind == PLAN_LOOP && i < s->out_count; i++)
    if (!make(w, w->plan->operands.at[s->out + i])) return broken(w->err, "what is made twice, at step", number);
  for (uint32_t b = 0; b < blocks; b++) TRY(walk_block(w, number, s->block + b, &at, depth));
  return at == s->next ? TD_OK : broken(w->err, "the region at step", number);
}

static td_status walk_steps(walk *w, uint32_t first, uint32_t end, uint32_t depth) {
  for (uint32_t i = first; i < end;) {
    const plan_step *s = &w->plan->steps.at[i];
    if (s->kind == PLAN_END) return broken(w->err, "an end outside its block, at step", i);
    if (!all_made(w, s->in, s->in_count)) return broken(w->err, "what is used before it is made, at step", i);
    if (is_region(s)) TRY(walk_region(w, i, depth));
    for (uint32_t k = 0; s->kind != PLAN_LOOP && k < s->out_count; k++)
      if (!make_result(w, w->plan->operands.at[s->out + k])) return broken(w->err, "what is made twice, at step", i);
    i = is_region(s) ? s->next : i + 1;
    if (i > end) return broken(w->err, "a region that outlasts its block, at step", i);
  }
  return TD_OK;
}

/* ---- ports ---- */

static td_status verify_port(const plan_exe *plan, const plan_port *port, const char *what, uint32_t index,
                             td_error *err) {
  if (!is_name(plan, port->name) || !is_slot(plan, port->slot) || port->kind >= PLAN_PORT_KIND_COUNT ||
      port->takes > BASE_OBJECT || !sound_type(plan, port->dtype, port->rank, port->dims))
    return broken(err, what, index);
  if (port->is_complex > 1 ||
      (port->is_complex && (!base_is_float(port->dtype) || port->rank < 1 || port->dims[port->rank - 1] != 2)))
    return broken(err, what, index);
  const plan_slot *slot = &plan->slots.at[port->slot];
  /* What a run is given is held against the port, and steps are chosen by the slot. */
  const bool same = port->kind == PLAN_TENSOR_PORT && port->takes == BASE_TENSOR && port->dtype == slot->dtype;
  return same || slot->dtype == TD_INVALID ? TD_OK : broken(err, what, index);
}

static td_status verify_ports(walk *w, td_error *err) {
  const plan_exe *plan = w->plan;
  for (uint32_t i = 0; i < plan_given_count(plan); i++) {
    const plan_port *port = plan_given(plan, i);
    TRY(verify_port(plan, port, "input", i, err));
    if (plan->slots.at[port->slot].place != PLAN_INPUT || !make(w, port->slot) ||
        (port->fallback != PLAN_NONE &&
         (!is_slot(plan, port->fallback) || plan->slots.at[port->fallback].place != PLAN_CONST)))
      return broken(err, "input", i);
  }
  return TD_OK;
}

static td_status verify_results(const walk *w, td_error *err) {
  const plan_exe *plan = w->plan;
  for (uint32_t i = 0; i < plan->outputs.count; i++) {
    const plan_port *port = &plan->outputs.at[i];
    TRY(verify_port(plan, port, "output", i, err));
    if (!is_made(w, port->slot)) return broken(err, "output", i);
  }
  for (uint32_t i = 0; i < plan->states.count; i++) {
    const uint32_t after = plan->states.at[i].after;
    if (!is_slot(plan, after) || !is_made(w, after)) return broken(err, "state", i);
  }
  return TD_OK;
}

/* One first value with all that it holds, from *at on, which is moved behind it. */
static bool sound_initial(const plan_exe *plan, uint32_t *at, uint32_t depth) {
  if (*at >= plan->initials.count || depth > MOST_NESTED_VALUES) return false;
  const plan_initial *v = &plan->initials.at[(*at)++];
  const bool constant = v->slot != PLAN_NONE;
  if (v->kind > BASE_OBJECT || constant != (v->kind == BASE_TENSOR) || (v->count && !base_holds_values(v->kind)) ||
      (constant && (!is_slot(plan, v->slot) || plan->slots.at[v->slot].place != PLAN_CONST)))
    return false;
  for (uint32_t i = 0; i < v->count; i++)
    if (!sound_initial(plan, at, depth + 1)) return false;
  return true;
}

static td_status verify_states(const plan_exe *plan, td_error *err) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < plan->states.count; i++)
    if (plan->states.at[i].initial != next || !sound_initial(plan, &next, 0))
      return broken(err, "the first value of state", i);
  return TD_OK;
}

static td_status verify_guards(const plan_exe *plan, td_error *err) {
  for (uint32_t i = 0; i < plan->guards.count; i++) {
    const plan_guard *g = &plan->guards.at[i];
    if (g->relation >= BASE_RELATION_COUNT || !is_name(plan, g->text) || !base_dim_in(&plan->dims, g->left) ||
        !base_dim_in(&plan->dims, g->right))
      return broken(err, "the condition", i);
  }
  return TD_OK;
}

static td_status verify_batches(const plan_exe *plan, td_error *err) {
  for (uint32_t i = 0; i < plan->batches.count; i++) {
    const plan_batch *b = &plan->batches.at[i];
    if (b->first >= b->end || b->end > plan->steps.count || (i && b->first < plan->batches.at[i - 1].end) ||
        !base_in_range(b->slots, b->slot_count, plan->operands.count) || !base_dim_in(&plan->dims, b->samples))
      return broken(err, "batch", i);
    for (uint32_t k = 0; k < b->slot_count; k++) {
      const uint32_t slot = plan->operands.at[b->slots + k];
      if (!is_slot(plan, slot) || plan->slots.at[slot].rank < 1) return broken(err, "a slot of batch", i);
    }
  }
  return TD_OK;
}

static td_status verify_order(const plan_exe *plan, base_arena *scratch, td_error *err) {
  walk w = {.plan = plan,
            .made = base_new(scratch, bool, (size_t)plan->slots.count + 1),
            .stack = base_new(scratch, uint32_t, (size_t)plan->slots.count + 1),
            .err = err};
  if (!w.made || !w.stack) return base_no_memory(err, "a plan");
  TRY(verify_ports(&w, err));
  TRY(walk_steps(&w, 0, plan->steps.count, 0));
  return verify_results(&w, err);
}

td_status plan_verify(const plan_exe *plan, td_error *err) {
  TRY(verify_names(plan, err));
  TRY(verify_slots(plan, err));
  TRY(verify_batches(plan, err));
  for (uint32_t i = 0; i < plan->steps.count; i++) TRY(verify_step(plan, i, err));
  TRY(verify_states(plan, err));
  TRY(verify_guards(plan, err));
  base_arena *scratch = base_arena_new(base_arena_allocator(plan->arena));
  const td_status status = scratch ? verify_order(plan, scratch, err) : base_no_memory(err, "a plan");
  base_arena_free(scratch);
  return status;
}
