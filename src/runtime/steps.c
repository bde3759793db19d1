/* steps.c -- the executor: walks the line of steps. Every call was prepared when the session was made; here are only
 * the order, the sizes that running tells, and control flow. */
#include "runtime/copies_priv.h"
#include "runtime/parts_priv.h"
#include "runtime/steps_priv.h"
#include "sys/probe.h"

enum { COMPACT_ABOVE = 1 << 20 }; /* bytes a loop may leave in the tail before it tidies up */

static td_status named(run_frame *f, uint32_t number, td_status status) {
  return run_name_step(f->plan, number, status, &f->error);
}

/* Outputs in the tail start without memory; `define` or `run` gives it. */
static void clear_outputs(run_frame *f, const plan_step *step) {
  for (uint32_t i = 0; i < step->out_count; i++) {
    uint32_t slot = f->plan->operands.at[step->out + i];
    if (slot != PLAN_NONE && f->plan->slots.at[slot].place == PLAN_TAIL)
      f->values[slot] = (base_value){.kind = BASE_TENSOR};
  }
}

/* A view needs sizes but no memory: any address will do until `run` sets the real one. */
static void *no_memory_needed(void *memory, size_t bytes) {
  (void)bytes;
  return memory;
}

/* ---- threads ---- */

static void *worker_scratch(void *memory, size_t bytes) {
  return run_stack_take(&((run_worker *)memory)->scratch, bytes);
}

/* A step on several threads has outputs before it begins. */
static void *keep_nothing(void *memory, size_t bytes) {
  (void)memory;
  (void)bytes;
  return NULL;
}

void run_give_call(base_call *call, run_worker *worker) {
  call->err = &worker->err;
  call->memory = worker;
  call->keep = keep_nothing;
  call->lasts = NULL;
  call->scratch = worker_scratch;
}

/* ---- one step ---- */

/* The function of a step on what lies near. */
static td_status run_near_by(const run_session *s, uint32_t number, const base_call *call) {
  run_near near;
  return s->main.steps[number].run(run_near_call(s->plans.general->here.copies, call, &near));
}

static inline td_status run_here(const run_session *s, uint32_t number, const base_call *call) {
  if (s->plans.general->here.copies && s->main.steps[number].kind == PLAN_CALL) return run_near_by(s, number, call);
  return s->main.steps[number].run(call);
}

/* The clock of the threads' own time would leave interruptions out, but takes a system call: two microseconds on some
 * virtual machines, more than many steps. */
static td_status run_watched(const run_session *s, uint32_t number, const base_call *call, uint32_t thread,
                             uint64_t *spent) {
  const td_observer *o = &s->watch.observer;
  const uint32_t heard = s->plans.first_step + number;
  if (o->enter) o->enter(o->user, thread, heard);
  const uint64_t begin_ns = sys_clock_ns();
  const td_status status = run_here(s, number, call);
  const uint64_t end_ns = sys_clock_ns();
  if (o->part) o->part(o->user, thread, heard, begin_ns, end_ns);
  if (spent) *spent += end_ns - begin_ns;
  return status;
}

td_status run_function(const run_session *s, uint32_t number, const base_call *call, run_stack *scratch,
                       uint32_t thread, uint64_t *spent) {
  SYS_PROBE("step__begin", (uintptr_t)s, s->plans.first_step + number);
  const td_status status = s->watch.observed ? run_watched(s, number, call, thread, spent) : run_here(s, number, call);
  SYS_PROBE("step__end", (uintptr_t)s, s->plans.first_step + number);
  if (scratch->used) run_stack_cut(scratch, 0);
  return status;
}

/* On the caller's thread; run_call, which looks at the clock anyhow, tells the observer of the end. */
static td_status run_alone(run_frame *f, uint32_t number) {
  const run_session *s = f->session;
  const base_call *call = &f->steps[number].call;
  if (!s->watch.observed || f->thread) return run_function(s, number, call, &f->scratch, f->thread, NULL);
  if (s->watch.observer.enter) s->watch.observer.enter(s->watch.observer.user, 0, s->plans.first_step + number);
  SYS_PROBE("step__begin", (uintptr_t)s, s->plans.first_step + number);
  const td_status status = run_here(s, number, call);
  SYS_PROBE("step__end", (uintptr_t)s, s->plans.first_step + number);
  if (f->scratch.used) run_stack_cut(&f->scratch, 0);
  return status;
}

/* A step that threads share, and what one of them does. */
typedef struct shared_step {
  run_frame *frame;
  uint32_t number;
} shared_step;

static td_status run_part(void *user, run_worker *worker, uint32_t workers) {
  const shared_step *step = user;
  run_frame *f = step->frame;
  base_call call = run_team_call(worker, workers, &f->steps[step->number].call);
  if (worker->index) run_give_call(&call, worker);
  return run_function(f->session, step->number, &call, worker->index ? &worker->scratch : &f->scratch, worker->index,
                      NULL);
}

/* Kernels count on the types that they were chosen for, and on how elements lie: dense, but for what they take; views
 * on how what they show lies. */
static bool suits(const plan_slot *slot, const base_value *value, uint32_t may) {
  const base_tensor *t = &value->tensor;
  if (value->kind != BASE_TENSOR) return slot->dtype == TD_INVALID;
  return (slot->dtype == TD_INVALID || slot->dtype == t->dtype) && (slot->rank < 0 || slot->rank == t->rank) &&
         (may & PLAN_STRIDED || base_tensor_contiguous(t) || (may & PLAN_PITCHED && base_tensor_pitched(t)));
}

static td_status check_operands(run_frame *f, const plan_step *step, const plan_link *link) {
  const uint32_t count = step->kind == PLAN_SHOW ? 1 : step->in_count + step->out_count;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t slot = plan_operand(f->plan, step, i);
    if (slot == PLAN_NONE) continue;
    const plan_slot *s = &f->plan->slots.at[slot];
    if (i >= step->in_count && s->place == PLAN_TAIL && !f->values[slot].tensor.data) continue; /* not there yet */
    if (!suits(s, &f->values[slot], i < step->in_count ? link->takes : link->gives))
      return base_fail(&f->error, TD_INTERNAL, NULL, -1, "%s: operand %u is not what the plan says", link->name, i);
  }
  return TD_OK;
}

/* What is done once per binding, or, where operands or outputs are in the tail, every time: sizes first. */
static td_status find_sizes(run_frame *f, const plan_step *step, uint32_t number) {
  const plan_link *function = &f->plan->here.links.at[step->function];
  const base_call *call = &f->steps[number].call;
  if (step->defines) {
    clear_outputs(f, step);
    base_call sizes = *call;
    if (step->kind == PLAN_SHOW) sizes.keep = no_memory_needed;
    if (function->define) TRY(function->define(&sizes));
  }
  TRY(check_operands(f, step, function));
  if ((f->steps[number].varies || !(f->known[number] & RUN_CHECKED)) && function->check) TRY(function->check(call));
  f->known[number] |= RUN_CHECKED;
  return TD_OK;
}

td_status run_check(run_frame *f, uint32_t number) {
  const plan_step *step = &f->plan->steps.at[number];
  if (!step->defines && !f->steps[number].varies && f->known[number] & RUN_CHECKED) return TD_OK;
  const td_status status = find_sizes(f, step, number);
  return status == TD_OK ? TD_OK : named(f, number, status);
}

/* How many threads compute the step: those that pay, where they can be had. A task has its own thread alone. */
static uint16_t gather_threads(run_frame *f, uint32_t number) {
  run_session *s = f->session;
  run_bound *bound = s->bounds.active;
  if (f->thread || atomic_load_explicit(&s->tasks.beside, memory_order_relaxed)) return 1;
  if (f->steps[number].defines || f->steps[number].varies || !bound->threads[number]) {
    bound->threads[number] = run_threads_for(f, number);
    if (bound->threads[number] > bound->most_threads) bound->most_threads = bound->threads[number];
  }
  if (bound->threads[number] < 2) return 1;
  const uint32_t there = run_team_threads(s->threads.team);
  return there < bound->threads[number] ? (uint16_t)there : bound->threads[number];
}

/* *threads: on how many it ran; 0: it need not run. */
static td_status call_step(run_frame *f, uint32_t number, uint16_t *threads) {
  run_step *step = &f->steps[number];
  *threads = 0;
  if (f->known[number] & RUN_SHOWN) return TD_OK;
  TRY(run_check(f, number));
  *threads = gather_threads(f, number);
  shared_step shared = {f, number};
  const td_status status = *threads > 1
                               ? run_team_share(f->session->threads.team, *threads, run_part, &shared, &f->error)
                               : run_alone(f, number);
  if (status != TD_OK) return named(f, number, status);
  if (step->fixed) f->known[number] |= RUN_SHOWN;
  return TD_OK;
}

td_status run_find_end(const run_until *u, td_error *err) {
  for (int i = 0; i < 2; i++)
    if (u->cancel[i] && __atomic_load_n(u->cancel[i], __ATOMIC_ACQUIRE))
      return base_fail(err, TD_CANCELLED, NULL, -1, "the run was cancelled");
  if (u->deadline_ns && sys_clock_ns() >= u->deadline_ns)
    return base_fail(err, TD_TIMED_OUT, NULL, -1, "the run's deadline has passed");
  return TD_OK;
}

td_status run_end_at(const run_session *s, uint32_t number, td_error *err) {
  const td_status status = run_find_end(&s->now.until, err);
  return status == TD_OK ? TD_OK : run_name_step(s->plan, number, status, err);
}

/* Of tasks that run on other threads the observer hears by their parts alone. */
td_status run_call(run_frame *f, uint32_t number, uint64_t *spent) {
  const td_observer *o = &f->session->watch.observer;
  const uint32_t heard = f->session->plans.first_step + number;
  uint16_t threads;
  TRY(run_go_on(f->session, number, &f->error));
  if (!f->session->watch.observed || f->thread) return call_step(f, number, &threads);
  if (!spent && o->begin) o->begin(o->user, heard);
  const uint64_t begin_ns = sys_clock_ns();
  const td_status status = call_step(f, number, &threads);
  const uint64_t end_ns = sys_clock_ns();
  if (threads == 1 && o->part) o->part(o->user, 0, heard, begin_ns, end_ns);
  TRY(status);
  if (spent) *spent += end_ns - begin_ns;
  else if (o->end) o->end(o->user, heard, end_ns - begin_ns);
  return TD_OK;
}

static bool same_dims(const base_tensor *a, const base_tensor *b) {
  if (a->rank != b->rank || a->dtype != b->dtype) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

/* Memory that outlives the steps around it: the tail, and constants. */
static bool lasting(const plan_exe *plan, uint32_t slot) {
  uint32_t place = plan->slots.at[plan->slots.at[slot].root].place;
  return place == PLAN_TAIL || place == PLAN_CONST;
}

td_status run_assign(run_frame *f, uint32_t target, uint32_t source) {
  const base_value *from = &f->values[source];
  base_value *to = &f->values[target];
  if (from == to) return TD_OK;
  if (f->plan->slots.at[target].place == PLAN_TAIL) {
    bool strided =
        from->kind == BASE_TENSOR && !base_tensor_contiguous(&from->tensor); /* the plan takes it for dense */
    if (strided || !lasting(f->plan, source)) return run_keep(f, from, to);
    *to = *from;
    return TD_OK;
  }
  if (from->kind != BASE_TENSOR || !same_dims(&to->tensor, &from->tensor)) {
    char want[96], have[96];
    return base_fail(&f->error, TD_BAD_ARGUMENT, NULL, -1, "a branch or loop body gives %s where %s was planned",
                     from->kind == BASE_TENSOR ? base_tensor_describe(&from->tensor, have, sizeof have) : "no tensor",
                     base_tensor_describe(&to->tensor, want, sizeof want));
  }
  if (to->tensor.data != from->tensor.data) base_tensor_copy(&to->tensor, &from->tensor); /* else made in its place */
  return TD_OK;
}

static bool truth(const base_value *value) { return base_load_i64(value->tensor.dtype, value->tensor.data, 0) != 0; }

static td_status one_element(run_frame *f, uint32_t slot, const char *what) {
  const base_value *v = &f->values[slot];
  if (v->kind == BASE_TENSOR && base_tensor_numel(&v->tensor) == 1) return TD_OK;
  return base_fail(&f->error, TD_BAD_ARGUMENT, NULL, -1, "%s is not a single element", what);
}

static td_status run_if(run_frame *f, const plan_step *step) {
  uint32_t cond = f->plan->operands.at[step->in];
  TRY(one_element(f, cond, "the condition"));
  const plan_block *block = &f->plan->blocks.at[step->block + (truth(&f->values[cond]) ? 0 : 1)];
  TRY(run_steps(f, block->first, block->end));
  for (uint32_t i = 0; i < step->out_count; i++) {
    uint32_t out = f->plan->operands.at[step->out + i];
    if (out != PLAN_NONE) TRY(run_assign(f, out, f->plan->operands.at[block->results + i]));
  }
  return TD_OK;
}

typedef struct loop_state {
  const plan_block *block;
  const uint32_t *carried, *results; /* slots; results[0] is the condition */
  uint32_t count;                    /* of carried */
  size_t mark, live;                 /* tail: where the loop began, bytes after it tidied up last */
} loop_state;

static td_status loop_start(run_frame *f, const plan_step *step, int64_t *trips, bool *go, loop_state *l) {
  const plan_exe *plan = f->plan;
  const uint32_t *in = plan->operands.at + step->in;
  l->block = &plan->blocks.at[step->block];
  l->carried = plan->operands.at + l->block->params + 1;
  l->results = plan->operands.at + l->block->results;
  l->count = l->block->param_count - 1;
  *trips = INT64_MAX;
  *go = true;
  if (in[0] != PLAN_NONE) {
    TRY(one_element(f, in[0], "the number of iterations"));
    *trips = base_load_i64(f->values[in[0]].tensor.dtype, f->values[in[0]].tensor.data, 0);
  }
  if (in[1] != PLAN_NONE) {
    TRY(one_element(f, in[1], "the loop condition"));
    *go = truth(&f->values[in[1]]);
  }
  for (uint32_t i = 0; i < l->count; i++) TRY(run_assign(f, l->carried[i], in[2 + i]));
  l->mark = l->live = f->tail.used;
  return TD_OK;
}

static bool holds_strings(const base_value *value) {
  if (value->kind == BASE_TENSOR) return value->tensor.dtype == TD_STRING;
  bool found = false;
  for (int64_t i = 0; base_holds_values(value->kind) && !found && i < value->list.count; i++)
    found = holds_strings(&value->list.items[i]);
  return found;
}

/* Hands the body's results over to the next iteration. A result never lies in another carried slot: the compiler put a
 * copy between where it would. */
static td_status loop_turn(run_frame *f, loop_state *l, bool *go) {
  TRY(one_element(f, l->results[0], "the loop condition"));
  *go = truth(&f->values[l->results[0]]);
  for (uint32_t i = 0; i < l->count; i++) TRY(run_assign(f, l->carried[i], l->results[1 + i]));
  if (f->tail.used - l->mark < COMPACT_ABOVE + 2 * (l->live - l->mark)) return TD_OK;
  for (uint32_t i = 0; i < l->count; i++) {
    if (!holds_strings(&f->values[l->carried[i]])) continue;
    l->live = SIZE_MAX / 4; /* their bytes may lie anywhere in the tail: never tidy up */
    return TD_OK;
  }
  if (run_should_compact(f, l->carried, l->count, l->mark)) TRY(run_compact(f, l->carried, l->count, l->mark));
  l->live = f->tail.used;
  return TD_OK;
}

static td_status run_loop(run_frame *f, const plan_step *step, uint32_t self) {
  loop_state l;
  int64_t trips;
  bool go;
  TRY(loop_start(f, step, &trips, &go, &l));
  uint32_t number = f->plan->operands.at[l.block->params];
  for (int64_t i = 0; i < trips && go; i++) {
    TRY(run_go_on(f->session, self, &f->error));
    if (number != PLAN_NONE) base_store_i64(f->values[number].tensor.dtype, f->values[number].tensor.data, 0, i);
    TRY(run_steps(f, l.block->first, l.block->end));
    TRY(loop_turn(f, &l, &go));
  }
  return TD_OK;
}

td_status run_steps(run_frame *f, uint32_t first, uint32_t end) {
  const plan_binding *binding = &f->session->bounds.active->binding;
  for (uint32_t i = first; i < end;) {
    if (binding->parts_of[i] != PLAN_NONE) {
      const plan_parts *parts = &binding->parts.at[binding->parts_of[i]];
      const run_shares *shares = run_shares_at(f->session, binding->parts_of[i]);
      TRY(shares ? run_all_shares(f->session, shares, &i) : run_parts(f->session, parts));
      if (!shares) i = parts->end;
      continue;
    }
    if (f->steps[i].kind == PLAN_CALL || f->steps[i].kind == PLAN_SHOW) {
      TRY(run_call(f, i, NULL));
      i++;
      continue;
    }
    const plan_step *step = &f->plan->steps.at[i];
    const td_status status = step->kind == PLAN_IF     ? run_if(f, step)
                             : step->kind == PLAN_LOOP ? run_loop(f, step, i)
                             : step->kind == PLAN_FORK ? run_fork(f, i)
                                                       : run_wait(f, i);
    if (status != TD_OK) return named(f, i, status);
    i = step->kind == PLAN_WAIT ? i + 1 : step->next;
  }
  return TD_OK;
}
