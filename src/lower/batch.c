/* batch.c -- finds the steps of a plan that work sample by sample, and may so run on parts of a batch.
 *
 * Such a step has results whose dimension 0 is the number of samples, or some rows of each, as windows of images are,
 * and says in its operator's descriptor which operands it reads a sample of per sample of its results (held operands);
 * it reads the others in whole (shared ones). Steps that follow each other form a batch while the samples are as many,
 * and running them part by part changes nothing: what one of them makes is not shared by another, and nothing is both
 * held and shared. Views of neither kind stand beside the batch.
 *
 * Only floating-point samples count: what is computed with sizes is none, and stays where its contents are read. */
#include "lower/lower_priv.h"

typedef struct search {
  plan_exe *plan;
  base_dim samples;               /* of the batch at hand */
  uint32_t number;                /* of the batch at hand: what the marks below are */
  uint32_t *held, *shared;        /* per slot */
  uint32_t *written, *read_whole; /* per root: results are in its memory; others than its samples are read there */
} search;

enum { MOST_CONSTANTS = 8 };

/* Those of the step's operands that are constants; how many are asked about. */
static uint32_t constants_of(const plan_exe *plan, const plan_step *s, base_tensor *tensors, const base_tensor **at) {
  const uint32_t count = s->in_count < MOST_CONSTANTS ? s->in_count : MOST_CONSTANTS;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t number = plan->operands.at[s->in + i];
    const plan_slot *slot = number == PLAN_NONE ? NULL : &plan->slots.at[number];
    at[i] = slot && slot->place == PLAN_CONST ? &tensors[i] : NULL;
    if (!at[i]) continue;
    tensors[i] =
        (base_tensor){.data = (void *)(uintptr_t)plan_constant(plan, slot), .dtype = slot->dtype, .rank = slot->rank};
    memcpy(tensors[i].dims, slot->dims, sizeof tensors[i].dims);
    memcpy(tensors[i].strides, slot->strides, sizeof tensors[i].strides);
  }
  return count;
}

/* What the step's operator says of its operands; 0: it does not work sample by sample. */
static uint8_t held_operands(const plan_exe *plan, const plan_step *s) {
  if ((s->kind != PLAN_CALL && s->kind != PLAN_SHOW) || s->defines || !s->in_count || !s->out_count) return 0;
  const ir_op *op = plan->here.links.at[s->function].op;
  const uint32_t x = plan->operands.at[s->in];
  if (x == PLAN_NONE || plan->slots.at[x].rank < 1) return 0;
  if (!op) return 1; /* a copy */
  if (op->flags & IR_OP_ELEMENTWISE) return UINT8_MAX;
  if (!op->keeps_samples) return op->by_sample;
  base_tensor tensors[MOST_CONSTANTS];
  const base_tensor *constants[MOST_CONSTANTS];
  const ir_samples_query query = {.attrs = plan_attrs(plan, s->attrs),
                                  .rank = plan->slots.at[x].rank,
                                  .count = constants_of(plan, s, tensors, constants),
                                  .constants = constants};
  return op->keeps_samples(&query) ? op->by_sample : 0;
}

static bool is_elementwise(const plan_exe *plan, const plan_step *s) {
  const ir_op *op = plan->here.links.at[s->function].op;
  return op && op->flags & IR_OP_ELEMENTWISE;
}

/* Does the step keep the order of all elements? Then what is a sample's stays that, in as many rows as it takes. */
static bool keeps_order(const plan_exe *plan, const plan_step *s) {
  const ir_op *op = plan->here.links.at[s->function].op;
  return op && op->flags & IR_OP_VIEW_DENSE;
}

static bool holds_samples(const plan_exe *plan, uint32_t slot, base_dim samples) {
  const plan_slot *s = &plan->slots.at[slot];
  int64_t rows;
  return plan->slots.at[s->root].place != PLAN_TAIL && s->rank >= 1 &&
         base_dim_times(&plan->dims, s->dims[0], samples, &rows) && base_is_float(s->dtype) &&
         base_dtype(s->dtype)->bits >= 8 && !(s->place == PLAN_ARENA && s->part_of != PLAN_NONE && s->part_axis == 0);
}

/* Is operand `i` of the step held? False: it is shared. *fits: it is surely one of both. */
static bool is_held(const search *f, const plan_step *s, uint8_t held, uint32_t i, bool *fits) {
  const uint32_t slot = f->plan->operands.at[s->in + i], out = f->plan->operands.at[s->out];
  const plan_slot *x = &f->plan->slots.at[slot];
  const int32_t rank = f->plan->slots.at[out].rank;
  const bool alike = x->rank >= 1 && rank >= 1 && x->dims[0] == f->plan->slots.at[out].dims[0];
  *fits = x->place != PLAN_TAIL;
  if (!(held >> (i < 7 ? i : 7) & 1)) return false;
  if (holds_samples(f->plan, slot, f->samples) && (alike || (i == 0 && keeps_order(f->plan, s))) &&
      (x->rank == rank || (i == 0 && !is_elementwise(f->plan, s))))
    return true;
  const bool broadcast = (i > 0 || is_elementwise(f->plan, s)) && (x->rank < rank || x->dims[0] == 1);
  *fits &= x->rank >= 0 && broadcast;
  return false;
}

/* Does a sample of the slot lie in that sample of its root? So do parts of joins along another axis. */
static bool keeps_its_sample(const search *f, uint32_t slot) {
  const plan_slot *s = &f->plan->slots.at[slot];
  const base_dim rows = s->rank >= 1 ? s->dims[0] : BASE_DIM_NONE;
  while (slot != s->root && s->place == PLAN_ARENA && s->part_of != PLAN_NONE && s->part_axis > 0) {
    slot = s->part_of;
    s = &f->plan->slots.at[slot];
  }
  return slot == s->root && s->rank >= 1 && s->dims[0] == rows;
}

/* A view made before the batch may see any elements of its memory as one sample: nothing may be written there. */
static bool add_held(search *f, uint32_t slot) {
  const uint32_t root = f->plan->slots.at[slot].root;
  const bool foreign = f->held[slot] != f->number && !keeps_its_sample(f, slot);
  if (f->shared[slot] == f->number || (foreign && f->written[root] == f->number)) return false;
  if (foreign) f->read_whole[root] = f->number;
  f->held[slot] = f->number;
  return true;
}

static bool add_shared(search *f, uint32_t slot) {
  const uint32_t root = f->plan->slots.at[slot].root;
  if (f->held[slot] == f->number || f->written[root] == f->number) return false;
  f->shared[slot] = f->read_whole[root] = f->number;
  return true;
}

static bool add_operands(search *f, const plan_step *s, uint8_t held) {
  for (uint32_t i = 0; i < s->in_count; i++) {
    const uint32_t slot = f->plan->operands.at[s->in + i];
    bool fits;
    if (slot == PLAN_NONE) continue;
    if (is_held(f, s, held, i, &fits) ? !add_held(f, slot) : !fits || !add_shared(f, slot)) return false;
  }
  return true;
}

static bool add_results(search *f, const plan_step *s) {
  for (uint32_t i = 0; i < s->out_count; i++) {
    const uint32_t slot = f->plan->operands.at[s->out + i];
    if (slot == PLAN_NONE) continue;
    const uint32_t root = f->plan->slots.at[slot].root;
    if (!holds_samples(f->plan, slot, f->samples) || f->plan->slots.at[slot].rank < 2 ||
        f->read_whole[root] == f->number)
      return false;
    f->held[slot] = f->number;
    if (s->kind == PLAN_CALL) f->written[root] = f->number;
  }
  return true;
}

/* A view of what the batch does not make, and no sample: views are made once, before the first part runs. */
static bool is_beside(const search *f, const plan_step *s) {
  if (s->kind != PLAN_SHOW || s->defines || s->out_count != 1) return false;
  for (uint32_t i = 0; i < s->in_count + s->out_count; i++) {
    const uint32_t slot = plan_operand(f->plan, s, i);
    if (slot == PLAN_NONE) continue;
    const plan_slot *x = &f->plan->slots.at[slot];
    const uint32_t place = f->plan->slots.at[x->root].place;
    if (x->place == PLAN_TAIL || place == PLAN_TAIL || f->written[x->root] == f->number || f->held[slot] == f->number ||
        holds_samples(f->plan, slot, f->samples))
      return false;
  }
  return true;
}

/* Takes the step into the batch at hand. False: it does not belong there, and the marks are void now. */
static bool add_step(search *f, const plan_step *s) {
  if (is_beside(f, s)) return true;
  const uint8_t held = held_operands(f->plan, s);
  return held && f->plan->operands.at[s->out] != PLAN_NONE && add_operands(f, s, held) && add_results(f, s);
}

/* Begins a batch with the step. */
static bool start_batch(search *f, const plan_step *s) {
  const uint32_t out = s->out_count ? f->plan->operands.at[s->out] : PLAN_NONE;
  if (out == PLAN_NONE || f->plan->slots.at[out].rank < 2) return false;
  f->samples = f->plan->slots.at[out].dims[0];
  f->number++;
  return f->samples != 0 && f->samples != 1 && add_step(f, s);
}

/* The slots that hold samples in steps [first, end), each once. A step that did not fit has marked none of those that
 * do not: whoever is marked as held is no view beside, and nobody is both held and shared. */
static td_status close_batch(search *f, uint32_t first, uint32_t end, uint32_t *listed, td_error *err) {
  plan_exe *plan = f->plan;
  plan_batch *batch = base_vec_push(plan->arena, &plan->batches);
  if (!batch) return base_no_memory(err, "a batch");
  *batch = (plan_batch){.first = first, .end = end, .samples = f->samples, .slots = plan->operands.count};
  for (uint32_t i = first; i < end; i++) {
    const plan_step *s = &plan->steps.at[i];
    for (uint32_t k = 0; k < s->in_count + s->out_count; k++) {
      const uint32_t slot = plan_operand(plan, s, k);
      if (slot == PLAN_NONE || listed[slot] == f->number || f->held[slot] != f->number) continue;
      listed[slot] = f->number;
      if (plan_add_operands(plan, &slot, 1) == PLAN_NONE) return base_no_memory(err, "a batch");
    }
  }
  batch->slot_count = plan->operands.count - batch->slots;
  return TD_OK;
}

td_status lower_find_batches(plan_exe *plan, base_arena *scratch, td_error *err) {
  const size_t slots = (size_t)plan->slots.count + 1;
  uint32_t *listed = base_new(scratch, uint32_t, slots);
  search f = {.plan = plan,
              .held = base_new(scratch, uint32_t, slots),
              .shared = base_new(scratch, uint32_t, slots),
              .written = base_new(scratch, uint32_t, slots),
              .read_whole = base_new(scratch, uint32_t, slots)};
  if (!listed || !f.held || !f.shared || !f.written || !f.read_whole) return base_no_memory(err, "the batches");
  uint32_t task_end = 0; /* steps of tasks run as they are, on one thread */
  for (uint32_t first = 0, end; first < plan->steps.count; first = end) {
    end = first + 1;
    if (plan->steps.at[first].kind == PLAN_FORK && plan->steps.at[first].next > task_end)
      task_end = plan->steps.at[first].next;
    if (first < task_end || !start_batch(&f, &plan->steps.at[first])) continue;
    while (end < plan->steps.count && add_step(&f, &plan->steps.at[end])) end++;
    if (end - first > 1) TRY(close_batch(&f, first, end, listed, err));
  }
  return TD_OK;
}
