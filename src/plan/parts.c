/* parts.c -- batches at binding, when sizes are known: which of their steps run in parts, and on what; and whether
 * threads take shares of the batch through them.
 *
 *     steps of a batch    0 1 2 3 4 5 6 7 8        a slot made and used up inside one run of parts (0..3) has room
 *     parts               └ 1 each┘ └ all ┘        for one part; what comes from outside or goes there is whole
 */
#include "plan/plan_priv.h"

#include <string.h>

typedef struct finder {
  const plan_exe *plan;
  const size_t *bytes; /* per slot */
  plan_means means;
  base_arena *arena;
  plan_binding *binding;
  bool *holds;    /* per slot: samples, in the batch at hand */
  uint32_t *seen; /* per slot: number of the walk that met it last */
  uint32_t walk;
} finder;

/* Is the memory of `slot` used by steps [first, end) alone? */
static bool is_inside(const plan_exe *plan, uint32_t slot, uint32_t first, uint32_t end) {
  const plan_slot *root = &plan->slots.at[plan->slots.at[slot].root];
  return root->place == PLAN_ARENA && root->first >= first && root->last < end;
}

static void load_step(const finder *f, const plan_batch *batch, int64_t samples, uint32_t number, plan_load *load) {
  const plan_step *s = &f->plan->steps.at[number];
  for (uint32_t i = 0; s->kind == PLAN_CALL && i < s->in_count + s->out_count; i++) {
    uint32_t slot = plan_operand(f->plan, s, i);
    if (slot == PLAN_NONE) continue;
    const double bytes = (double)f->bytes[slot];
    if (!f->holds[slot]) load->shared += bytes;
    else if (is_inside(f->plan, slot, batch->first, batch->end)) load->inner += bytes / (double)samples;
    else load->outer += bytes / (double)samples;
  }
}

/* What each step finds that earlier ones of the batch have left: by births and deaths first. */
static void load_passed(finder *f, const plan_batch *batch, int64_t samples, plan_load *loads) {
  f->walk++;
  for (uint32_t i = 0; i < batch->slot_count; i++) {
    const uint32_t root = f->plan->slots.at[f->plan->operands.at[batch->slots + i]].root;
    if (f->seen[root] == f->walk || !is_inside(f->plan, root, batch->first, batch->end)) continue;
    f->seen[root] = f->walk;
    const plan_slot *r = &f->plan->slots.at[root];
    const double bytes = (double)f->bytes[root] / (double)samples;
    loads[r->first + 1 - batch->first].passed += bytes;
    loads[r->last + 1 - batch->first].passed -= bytes;
  }
  for (uint32_t i = 1; i < batch->end - batch->first; i++) loads[i].passed += loads[i - 1].passed;
}

static plan_slice slice_of(const finder *f, const plan_batch *batch, const plan_parts *parts, bool shared,
                           uint32_t slot) {
  const bool own = shared && is_inside(f->plan, slot, batch->first, batch->end);
  const bool one = is_inside(f->plan, slot, parts->first, parts->end);
  int64_t rows = 1;
  const bool holds = base_dim_times(&f->plan->dims, f->plan->slots.at[slot].dims[0], batch->samples, &rows);
  BASE_ASSERT(holds);
  return (plan_slice){slot, one ? PLAN_ONE_PART : own ? PLAN_ONE_SHARE : PLAN_ALL, rows, own};
}

static td_status add_parts(finder *f, const plan_batch *batch, plan_parts parts, bool shared, td_error *err) {
  const plan_exe *plan = f->plan;
  size_t most = 0;
  for (uint32_t i = parts.first; i < parts.end; i++) most += plan->steps.at[i].in_count + plan->steps.at[i].out_count;
  plan_slice *slices = base_new(f->arena, plan_slice, most + 1);
  plan_parts *to = base_vec_push(f->arena, &f->binding->parts);
  if (!slices || !to) return base_no_memory(err, "a binding");
  f->walk++;
  for (uint32_t i = parts.first; i < parts.end; i++) {
    const plan_step *s = &plan->steps.at[i];
    f->binding->parts_of[i] = f->binding->parts.count - 1;
    for (uint32_t k = 0; k < s->in_count + s->out_count; k++) {
      const uint32_t slot = plan_operand(plan, s, k);
      if (slot == PLAN_NONE || !f->holds[slot] || f->seen[slot] == f->walk) continue;
      f->seen[slot] = f->walk;
      slices[parts.slice_count++] = slice_of(f, batch, &parts, shared, slot);
    }
  }
  parts.slices = slices;
  *to = parts;
  return TD_OK;
}

/* Steps that want parts of one size run together; all of a share at once is a size like others there. */
static td_status cut_batch(finder *f, const plan_batch *batch, const int64_t *part, int64_t samples, int64_t share,
                           td_error *err) {
  const uint32_t count = batch->end - batch->first, first = f->binding->parts.count;
  for (uint32_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && part[end] == part[i]; end++) continue;
    if (part[i] == samples) continue;
    const plan_parts parts = {
        .first = batch->first + i, .end = batch->first + end, .samples = samples, .part = part[i]};
    TRY(add_parts(f, batch, parts, share != samples, err));
  }
  if (share == samples) return TD_OK;
  plan_shares *shares = base_vec_push(f->arena, &f->binding->shares);
  if (!shares) return base_no_memory(err, "a binding");
  *shares = (plan_shares){.first = first, .end = f->binding->parts.count, .samples = samples, .share = share};
  return TD_OK;
}

static td_status split_batch(finder *f, const plan_batch *batch, int64_t samples, td_error *err) {
  const uint32_t count = batch->end - batch->first;
  plan_load *loads = base_new(f->arena, plan_load, (size_t)count + 1);
  int64_t *part = base_new(f->arena, int64_t, count);
  if (!loads || !part) return base_no_memory(err, "a binding");
  for (uint32_t i = 0; i < count; i++) load_step(f, batch, samples, batch->first + i, &loads[i]);
  load_passed(f, batch, samples, loads);
  int64_t share = plan_choose_share(loads, count, samples, f->means.threads);
  const double cache = (double)f->means.cache / (share ? f->means.threads : 1);
  if (!share) share = samples;
  if (!plan_choose_parts(f->arena, f->plan->here.speed, loads, count, share, cache, part))
    return base_no_memory(err, "a binding");
  return cut_batch(f, batch, part, samples, share, err);
}

td_status plan_find_parts(const plan_exe *plan, const int64_t *symbols, const size_t *bytes, plan_means means,
                          base_arena *arena, plan_binding *binding, td_error *err) {
  binding->parts_of = base_new(arena, uint32_t, (size_t)plan->steps.count + 1);
  if (!binding->parts_of) return base_no_memory(err, "a binding");
  memset(binding->parts_of, 0xff, ((size_t)plan->steps.count + 1) * sizeof *binding->parts_of);
  if (!plan->batches.count || !means.cache) return TD_OK;
  finder f = {.plan = plan,
              .bytes = bytes,
              .means = means,
              .arena = arena,
              .binding = binding,
              .holds = base_new(arena, bool, plan->slots.count),
              .seen = base_new(arena, uint32_t, plan->slots.count)};
  if (!f.holds || !f.seen) return base_no_memory(err, "a binding");
  for (uint32_t i = 0; i < plan->batches.count; i++) {
    const plan_batch *batch = &plan->batches.at[i];
    const uint32_t *slots = plan->operands.at + batch->slots;
    int64_t samples;
    if (!base_dim_eval(&plan->dims, batch->samples, symbols, &samples) || samples < 2) continue;
    for (uint32_t k = 0; k < batch->slot_count; k++) f.holds[slots[k]] = true;
    TRY(split_batch(&f, batch, samples, err));
    for (uint32_t k = 0; k < batch->slot_count; k++) f.holds[slots[k]] = false;
  }
  return TD_OK;
}

void plan_print_parts(const plan_binding *binding, base_text *text) {
  for (uint32_t i = 0; i < binding->parts.count; i++) {
    const plan_parts *p = &binding->parts.at[i];
    base_text_print(text, "parts steps %u..%u: %lld of %lld samples at a time\n", p->first, p->end - 1,
                    (long long)p->part, (long long)p->samples);
  }
}
