/* frame.c -- what walking steps needs: a value per slot, and every call prepared. */
#include "runtime/session_priv.h"

static void *tail_keep(void *memory, size_t bytes) { return run_stack_take(&((run_frame *)memory)->tail, bytes); }
static void *scratch_take(void *memory, size_t bytes) { return run_stack_take(&((run_frame *)memory)->scratch, bytes); }

/* In the tail, or among the results of tasks: in neither is anything written twice in a run. */
static bool tail_lasts(void *memory, const void *data) {
  const run_frame *f = memory;
  return run_stack_holds(&f->tail, data, 0) || run_stack_holds(&f->session->tasks.results, data, 0);
}

/* Does slot i hold the same value (SHOW: the same address) as long as a binding is active? Found out on the way. */
static bool fixed_view(const plan_exe *plan, const plan_step *step, const bool *fixed) {
  const uint32_t *in = plan->operands.at + step->in;
  if (step->kind != PLAN_SHOW || step->defines || !fixed[in[0]]) return false;
  for (uint32_t k = 1; k < step->in_count; k++)
    if (in[k] != PLAN_NONE && plan->slots.at[in[k]].place != PLAN_CONST) return false;
  return true;
}

static bool any_slot(const plan_exe *plan, uint32_t at, uint32_t count, bool in_tail) {
  for (uint32_t i = at; i < at + count; i++) {
    uint32_t slot = plan->operands.at[i];
    if (slot != PLAN_NONE && (plan->slots.at[slot].place == PLAN_TAIL) == in_tail) return true;
  }
  return false;
}

static bool sizes_vary(const plan_exe *plan, const plan_step *step) {
  return any_slot(plan, step->in, step->in_count, true) && any_slot(plan, step->out, step->out_count, false);
}

static void print_text(const base_call *call, const char *text, size_t length) {
  const run_frame *f = call->memory;
  f->session->watch.hears(f->session->watch.hears_user, text, length);
}

void run_hear_prints(run_session *s, run_hear hear, void *user) {
  s->watch.hears = hear;
  s->watch.hears_user = user;
  for (uint32_t k = 0; k < plan_count(s->plans.general); k++) {
    run_step *steps = k == s->plans.variant ? s->main.steps : s->plans.ready[k].steps;
    for (uint32_t i = 0; i < s->plans.ready[k].plan->steps.count; i++) steps[i].call.print = hear ? print_text : NULL;
  }
}

static void prepare_step(run_frame *f, uint32_t number, bool *fixed, base_arena *arena) {
  const plan_exe *plan = f->plan;
  const plan_step *step = &plan->steps.at[number];
  f->steps[number].kind = step->kind;
  if (step->kind != PLAN_CALL && step->kind != PLAN_SHOW) return;
  const plan_link *function = &plan->here.links.at[step->function];
  const base_attrs *attrs = plan_attrs(plan, step->attrs);
  f->steps[number] = (run_step){.kind = step->kind,

                                .run = function->run,
                                .function = step->function,
                                .defines = step->defines,
                                .varies = sizes_vary(plan, step),
                                .fixed = fixed_view(plan, step, fixed),
                                .call = {.attrs = attrs,
                                         .op = function->op,
                                         .tuning = plan->here.tuning,
                                         .program = function->program ? function->program(attrs, arena) : NULL,
                                         .code = function->code,
                                         .in = (const base_value *const *)(f->pointers + step->in),
                                         .out = f->pointers + step->out,
                                         .in_count = step->in_count,
                                         .out_count = step->out_count,
                                         .err = &f->error,
                                         .memory = f,
                                         .keep = tail_keep,
                                         .scratch = scratch_take,
                                         .lasts = tail_lasts,
                                         .print = f->session->watch.hears ? print_text : NULL}};
  if (f->steps[number].fixed) fixed[plan->operands.at[step->out]] = true;
}

void run_take_code(run_frame *f) {
  plan_tier *tier = f->plan->here.tier;
  const uint32_t changes = tier ? atomic_load_explicit(&tier->changes, memory_order_acquire) : 0;
  if (f->changes == changes) return;
  f->changes = changes;
  for (uint32_t i = 0; i < f->plan->steps.count; i++) {
    run_step *step = &f->steps[i];
    if (step->kind != PLAN_CALL) continue;
    const plan_generated *code = atomic_load_explicit(&tier->at[step->function], memory_order_acquire);
    if (!code) continue;
    if (code->run) step->run = code->run;
    step->call.code = code->body;
  }
}

td_status run_prepare_frame(run_frame *f, run_session *s, base_arena *arena, td_error *err) {
  const plan_exe *plan = s->plan;
  f->session = s;
  f->plan = plan;
  f->values = base_new(arena, base_value, (size_t)plan->slots.count + 1);
  f->pointers = base_new(arena, base_value *, (size_t)plan->operands.count + 1);
  f->steps = base_new(arena, run_step, (size_t)plan->steps.count + 1);
  bool *fixed = base_new(arena, bool, (size_t)plan->slots.count + 1);
  if (!f->values || !f->pointers || !f->steps || !fixed) return base_no_memory(err, "a session");
  for (uint32_t i = 0; i < plan->slots.count; i++)
    fixed[i] = plan->slots.at[i].place == PLAN_CONST || plan->slots.at[i].place == PLAN_ARENA;
  for (uint32_t i = 0; i < plan->operands.count; i++) {
    const uint32_t slot = plan->operands.at[i];
    f->pointers[i] = slot == PLAN_NONE ? NULL : &f->values[slot];
  }
  for (uint32_t i = 0; i < plan->steps.count; i++) prepare_step(f, i, fixed, arena);
  return TD_OK;
}

static td_status grow_memory(run_frame *f, size_t bytes, td_error *err) {
  if (bytes <= f->memory_bytes) return TD_OK;
  base_free(&f->session->allocator, f->memory, f->memory_bytes); /* first: never more than the largest takes */
  f->memory = base_alloc(&f->session->allocator, bytes);
  f->memory_bytes = f->memory ? bytes : 0;
  return f->memory ? TD_OK : base_no_memory(err, "the arena of a session");
}

void run_reset_value(run_frame *f, const run_bound *bound, uint32_t slot) {
  f->values[slot] = (base_value){.kind = BASE_TENSOR, .tensor = bound->binding.tensors[slot]};
  if (f->plan->slots.at[slot].place == PLAN_ARENA)
    f->values[slot].tensor.data = f->memory + bound->binding.offsets[slot];
}

td_status run_activate_frame(run_frame *f, const run_bound *bound, td_error *err) {
  TRY(grow_memory(f, bound->binding.arena_bytes, err));
  for (uint32_t i = 0; i < f->plan->steps.count; i++) f->known[i] &= (uint8_t)~RUN_SHOWN;
  for (uint32_t i = 0; i < f->plan->slots.count; i++) run_reset_value(f, bound, i);
  return TD_OK;
}

void run_close_frame(run_frame *f) {
  if (!f->session) return;
  base_free(&f->session->allocator, f->memory, f->memory_bytes);
  run_stack_close(&f->tail);
  run_stack_close(&f->scratch);
}
