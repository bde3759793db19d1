/* parts.c -- steps that run on a few samples of a batch at a time.
 *
 * While they do, the values of their slots are tensors of one part: dimension 0 is its number of samples, and where the
 * memory holds the whole batch, the data begin at its first sample. Before and after they are those of the whole batch,
 * as sizes are checked and views are made for all parts at once. */
#include "runtime/parts_priv.h"
#include "runtime/steps_priv.h"

td_status run_prepare_parts(run_bound *bound, td_error *err) {
  size_t most = 0;
  for (uint32_t i = 0; i < bound->binding.parts.count; i++)
    if (bound->binding.parts.at[i].slice_count > most) most = bound->binding.parts.at[i].slice_count;
  bound->wholes = base_new(bound->arena, void *, most + 1);
  return bound->wholes ? TD_OK : base_no_memory(err, "a binding");
}

td_status run_prepare_range(run_session *s, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; i++) {
    if (s->main.steps[i].kind == PLAN_SHOW) TRY(run_call(&s->main, i, NULL));
    else TRY(run_check(&s->main, i));
  }
  return TD_OK;
}

void run_range_begins(run_session *s, uint32_t first, uint32_t end) {
  for (uint32_t i = first; s->watch.observed && i < end; i++) {
    s->watch.spent[i] = 0;
    if (s->main.steps[i].kind == PLAN_CALL && s->watch.observer.begin)
      s->watch.observer.begin(s->watch.observer.user, s->plans.first_step + i);
  }
}

void run_range_ends(run_session *s, uint32_t first, uint32_t end) {
  for (uint32_t i = first; s->watch.observed && s->watch.observer.end && i < end; i++)
    if (s->main.steps[i].kind == PLAN_CALL)
      s->watch.observer.end(s->watch.observer.user, s->plans.first_step + i, s->watch.spent[i]);
}

static void slice(run_session *s, const plan_parts *p, int64_t at, int64_t samples) {
  for (uint32_t i = 0; i < p->slice_count; i++) {
    base_tensor *t = &s->main.values[p->slices[i].slot].tensor;
    t->dims[0] = samples * p->slices[i].rows;
    t->data = s->bounds.active->wholes[i];
    if (p->slices[i].extent == PLAN_ALL && at) t->data = base_at(t, at * p->slices[i].rows * t->strides[0]);
  }
}

td_status run_parts(run_session *s, const plan_parts *p) {
  TRY(run_prepare_range(s, p->first, p->end));
  for (uint32_t i = 0; i < p->slice_count; i++)
    s->bounds.active->wholes[i] = s->main.values[p->slices[i].slot].tensor.data;
  run_range_begins(s, p->first, p->end);
  td_status status = TD_OK;
  for (int64_t at = 0, samples; status == TD_OK && at < p->samples; at += samples) {
    samples = p->part < p->samples - at ? p->part : p->samples - at;
    slice(s, p, at, samples);
    for (uint32_t i = p->first; status == TD_OK && i < p->end; i++)
      if (s->main.steps[i].kind == PLAN_CALL) status = run_call(&s->main, i, &s->watch.spent[i]);
  }
  slice(s, p, 0, p->samples);
  if (status == TD_OK) run_range_ends(s, p->first, p->end);
  return status;
}

size_t run_kept_bytes(const sys_machine *machine, uint32_t caches, uint32_t threads) {
  const bool near = machine->l3_bytes > 0 && machine->l3_bytes <= RUN_LARGEST_L3;
  return near ? (size_t)machine->l3_bytes / RUN_KEPT_SHARE * caches : (size_t)machine->l2_bytes * threads;
}

size_t run_find_cache(run_pool *pool) {
  sys_machine machine;
  sys_caches_read(&machine);
  return run_kept_bytes(&machine, pool ? run_pool_caches(pool) : 1, pool ? run_pool_threads(pool) : 1);
}

/* Inputs and states of the sizes that the plan knows; NULL: it does not know all, or out of memory. */
static base_value *known_inputs(const plan_exe *plan, base_arena *arena) {
  base_value *inputs = base_new(arena, base_value, (size_t)plan_given_count(plan) + 1);
  for (uint32_t i = 0; inputs && i < plan_given_count(plan); i++) {
    const plan_slot *slot = &plan->slots.at[plan_given(plan, i)->slot];
    if (slot->rank < 0) return NULL;
    for (int32_t k = 0; k < slot->rank; k++)
      if (!base_dim_known(slot->dims[k])) return NULL;
    inputs[i] = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(NULL, slot->dtype, slot->rank, slot->dims)};
  }
  return inputs;
}

void run_print_parts(const plan_exe *plan, const td_allocator *allocator, base_text *text) {
  base_arena *arena = plan->batches.count ? base_arena_new(allocator) : NULL;
  const base_value *inputs = arena ? known_inputs(plan, arena) : NULL;
  plan_binding binding;
  td_error unused;
  if (inputs && plan_bind(plan, inputs, (plan_means){run_find_cache(NULL), 1}, arena, &binding, &unused) == TD_OK)
    plan_print_parts(&binding, text);
  base_arena_free(arena);
}
