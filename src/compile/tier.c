/* tier.c -- machine code that comes while the plan runs already: a thread of the plan's own has it compiled, file by
 * file, and hands over the functions of each file as it is there. Sessions take them between their runs
 * (runtime/frame.c). The plan ends the thread, and the compilers that it waits for, when it goes. */
#include "codegen/codegen.h"
#include "compile/compile_priv.h"
#include "sys/code.h"
#include "sys/sys.h"

typedef struct tier {
  td_allocator own;
  base_arena *arena; /* of the thread once it runs: everything here, and what compiling takes */
  plan_exe *plan;    /* whose tables stand still by then */
  codegen_kernel *kernels;
  plan_generated *made; /* per kernel */
  uint32_t count;
  codegen_setting setting;
  void (*warn)(void *user, const char *text);
  void *warn_user;
  codegen_code *code; /* of the thread, until `done` */
  sys_thread thread;
  bool started;
  _Atomic bool stop, done;
} tier;

/* ---- the thread ---- */

/* The kernels have their functions: all functions of the plan that go by their names get them. */
static void hand_over(void *user, const codegen_kernel *kernels, uint32_t count) {
  tier *t = user;
  plan_tier *to = t->plan->here.tier;
  for (uint32_t i = 0; i < count; i++) {
    plan_generated *made = &t->made[&kernels[i] - t->kernels];
    *made = (plan_generated){kernels[i].run, kernels[i].body};
    for (uint32_t f = 0; f < t->plan->functions.count; f++) {
      const plan_function *function = &t->plan->functions.at[f];
      if (function->role == PLAN_GENERATED && strcmp(plan_name(t->plan, function->code), kernels[i].name) == 0)
        atomic_store_explicit(&to->at[f], made, memory_order_release);
    }
  }
  atomic_fetch_sub_explicit(&to->waiting, count, memory_order_relaxed);
  atomic_fetch_add_explicit(&to->changes, 1, memory_order_release);
}

static void work(void *user) {
  tier *t = user;
  td_error err = {0};
  const td_status status = codegen_load(t->kernels, t->count, &t->setting, t->arena, &t->code, &err);
  const bool stopped = atomic_load_explicit(&t->stop, memory_order_relaxed);
  if (status != TD_OK && !stopped && t->warn) t->warn(t->warn_user, err.text);
  atomic_store_explicit(&t->plan->here.tier->waiting, 0, memory_order_release);
  atomic_store_explicit(&t->done, true, memory_order_release);
}

/* ---- its owner ---- */

static void release(void *user) {
  tier *t = user;
  atomic_store_explicit(&t->stop, true, memory_order_relaxed);
  if (t->started) sys_thread_join(&t->thread);
  codegen_free(t->code);
  base_arena_free(t->arena);
  const td_allocator own = t->own;
  base_free(&own, t, sizeof *t);
}

static bool locate(const void *user, const char *name, plan_code *place) {
  const tier *t = user;
  if (!atomic_load_explicit(&t->done, memory_order_acquire) || !t->code) return false;
  const codegen_place *found = codegen_find_place(t->code, name);
  if (found) *place = (plan_code){found->at, found->bytes, found->source, found->line};
  return found && found->at;
}

/* A copy that needs nothing of the graph or plan that it was found in. */
static bool copy_kernel(base_arena *arena, const codegen_kernel *from, codegen_kernel *to) {
  *to = *from;
  const char **origins = base_new(arena, const char *, (size_t)from->origin_count + 1);
  to->program = base_arena_copy(arena, from->program, sizeof *from->program);
  to->name = base_arena_text(arena, from->name);
  if (from->from && to->program)
    to->from = base_arena_copy(arena, from->from, from->program->count * sizeof *from->from);
  if (!origins || !to->program || !to->name || (from->from && !to->from)) return false;
  for (uint32_t i = 0; i < from->origin_count; i++)
    if (!(origins[i] = base_arena_text(arena, from->origins[i]))) return false;
  to->origins = origins;
  return true;
}

static bool fill(tier *t, const compile_code *c) {
  const compile_setting *s = c->setting;
  const uint32_t threads = sys_threads_read();
  t->kernels = base_new(t->arena, codegen_kernel, c->kernels.count);
  t->made = base_new(t->arena, plan_generated, c->kernels.count);
  t->setting = (codegen_setting){.cc = base_arena_text(t->arena, s->options.cc),
                                 .cache = base_arena_text(t->arena, s->options.cache),
                                 .isa = s->isa,
                                 .jobs = threads > 1 ? threads - 1 : 1, /* somebody is waiting for an answer */
                                 .limit_ms = s->options.cc_limit_ms,
                                 .stop = &t->stop,
                                 .made = hand_over,
                                 .made_user = t};
  if (!t->kernels || !t->made || !t->setting.cc || !t->setting.cache) return false;
  for (; t->count < c->kernels.count; t->count++)
    if (!copy_kernel(t->arena, &c->kernels.at[t->count], &t->kernels[t->count])) return false;
  return true;
}

td_status compile_make_tier(compile_code *c, bool *tiered) {
  const compile_setting *s = c->setting;
  *tiered = s->options.tiered && !s->options.strict && !s->options.for_file && !s->coded && !s->options.edited;
  if (!*tiered) return TD_OK;
  const td_allocator *allocator = base_arena_allocator(c->plan->arena);
  plan_tier *shared = base_new(c->plan->arena, plan_tier, 1);
  tier *t = shared ? base_alloc(allocator, sizeof *t) : NULL;
  if (!t) return base_no_memory(c->err, "code");
  *t = (tier){.own = *allocator, .plan = c->plan, .warn = s->options.warn, .warn_user = s->options.warn_user};
  t->arena = base_arena_new(allocator);
  if (!t->arena || !fill(t, c)) {
    release(t);
    return base_no_memory(c->err, "code");
  }
  atomic_store_explicit(&shared->waiting, t->count, memory_order_relaxed);
  c->plan->here.tier = shared;
  c->plan->here.code = t;
  c->plan->here.release_code = release;
  c->plan->here.locate_code = locate;
  return TD_OK;
}

td_status compile_start_tier(plan_exe *plan, td_error *err) {
  tier *t = plan->here.code;
  td_error unused;
  if (!plan->here.tier) return TD_OK;
  void *at = base_arena_array(plan->arena, (size_t)plan->functions.count + 1, sizeof *plan->here.tier->at);
  if (!at) return base_no_memory(err, "code");
  plan->here.tier->at = at;
  t->started = sys_thread_start(&t->thread, work, t, &unused) == TD_OK;
  if (!t->started) work(t); /* no thread is to be had: then now */
  return TD_OK;
}
