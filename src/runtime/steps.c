/* steps.c -- the executor: walks the line of steps. Every call was prepared when the session was made; here are only
 * the order, the sizes that running tells, and control flow. */
#include "runtime/runtime_priv.h"

enum { COMPACT_ABOVE = 1 << 20 }; /* bytes a loop may leave in the tail before it tidies up */

static td_status named(run_session *s, const plan_step *step, td_status status) {
  return base_error_name(&s->error, status, "%s", plan_name(s->plan, step->name));
}

/* Outputs in the tail start without memory; `define` or `run` gives it. */
static void clear_outputs(run_session *s, const plan_step *step) {
  for (uint32_t i = 0; i < step->out_count; i++) {
    uint32_t slot = s->plan->operands.at[step->out + i];
    if (slot != PLAN_NONE && s->plan->slots.at[slot].place == PLAN_TAIL)
      s->values[slot] = (base_value){.kind = BASE_TENSOR};
  }
}

/* A view needs sizes but no memory: any address will do until `run` sets the real one. */
static void *no_memory_needed(void *memory, size_t bytes) {
  (void)bytes;
  return memory;
}

/* ---- threads ---- */

/* What one thread does in a nanosecond, roughly; and the least work of a thread that pays for two hand-overs (0.3 us)
 * and for data that another core has in its caches. */
static const double flops_per_ns = 50, bytes_per_ns = 10, least_ns_per_thread = 5000;

/* On how many threads is the step worth running? Decided by the step's sizes and the machine; the results are the same
 * on any number. */
static uint16_t threads_for(const run_session *s, const plan_function *f, const base_call *call) {
  double flops, bytes;
  if (!s->pool || !f->parallel || !f->work) return 1;
  f->work(call, &flops, &bytes);
  double ns = flops / flops_per_ns > bytes / bytes_per_ns ? flops / flops_per_ns : bytes / bytes_per_ns;
  double worth = ns / least_ns_per_thread, most = run_pool_threads(s->pool);
  return worth < 1 ? 1 : (uint16_t)(worth < most ? worth : most);
}

void run_gather_team(run_session *s) {
  if (s->team == RUN_UNDECIDED) s->team = run_pool_enter(s->pool) ? RUN_TOGETHER : RUN_ALONE;
}

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
  call->scratch = worker_scratch;
}

static td_status run_part(void *user, run_worker *worker, uint32_t workers) {
  const run_step *step = user;
  base_call call = run_pool_call(worker, workers, &step->call);
  if (worker->index == 0) return step->run(&call);
  run_give_call(&call, worker);
  td_status status = step->run(&call);
  if (worker->scratch.used) run_stack_cut(&worker->scratch, 0);
  return status;
}

/* ---- one step ---- */

/* What is done once per binding, or, where operands or outputs are in the tail, every time: sizes first. */
static td_status find_sizes(run_session *s, const plan_step *step, uint32_t number) {
  const plan_function *f = &s->plan->functions.at[step->function];
  const base_call *call = &s->steps[number].call;
  if (step->defines) {
    clear_outputs(s, step);
    base_call sizes = *call;
    if (step->kind == PLAN_SHOW) sizes.keep = no_memory_needed;
    if (f->define) TRY(f->define(&sizes));
  }
  if ((s->steps[number].varies || !(s->active->known[number] & RUN_CHECKED)) && f->check) TRY(f->check(call));
  s->active->known[number] |= RUN_CHECKED;
  return TD_OK;
}

td_status run_check(run_session *s, uint32_t number) {
  const plan_step *step = &s->plan->steps.at[number];
  if (!step->defines && !s->steps[number].varies && s->active->known[number] & RUN_CHECKED) return TD_OK;
  const td_status status = find_sizes(s, step, number);
  return status == TD_OK ? TD_OK : named(s, step, status);
}

/* Then how many threads they are worth. */
static void assign_threads(run_session *s, uint32_t number) {
  const plan_function *f = &s->plan->functions.at[s->plan->steps.at[number].function];
  run_bound *bound = s->active;
  const uint16_t threads = threads_for(s, f, &s->steps[number].call);
  bound->threads[number] = threads;
  if (threads > bound->most_threads) bound->most_threads = threads;
}

static td_status call_step(run_session *s, uint32_t number) {
  run_step *step = &s->steps[number];
  run_bound *bound = s->active;
  if (bound->known[number] & RUN_SHOWN) return TD_OK;
  TRY(run_check(s, number));
  if (step->defines || step->varies || !bound->threads[number]) assign_threads(s, number);
  if (bound->threads[number] > 1) run_gather_team(s);
  td_status status = bound->threads[number] > 1 && s->team == RUN_TOGETHER
                         ? run_pool_share(s->pool, bound->threads[number], run_part, step, &s->error)
                         : step->run(&step->call);
  if (s->scratch.used) run_stack_cut(&s->scratch, 0);
  if (status != TD_OK) return named(s, &s->plan->steps.at[number], status);
  if (step->fixed) bound->known[number] |= RUN_SHOWN;
  return TD_OK;
}

/* The thread's clock takes a system call: it is read outside of what the other one measures. */
run_watch run_watch_start(void) {
  const uint64_t thread_ns = sys_thread_clock_ns();
  return (run_watch){sys_clock_ns(), thread_ns};
}

uint64_t run_watch_ns(const run_watch *w, bool alone) {
  const uint64_t ns = sys_clock_ns() - w->clock_ns, own = alone ? sys_thread_clock_ns() - w->thread_ns : ns;
  return own < ns ? own : ns;
}

static bool runs_alone(const run_session *s, uint32_t number) {
  return s->team != RUN_TOGETHER || s->active->threads[number] < 2;
}

td_status run_call(run_session *s, uint32_t number) {
  if (!s->observed) return call_step(s, number);
  if (s->observer.begin) s->observer.begin(s->observer.user, number);
  const run_watch watch = run_watch_start();
  TRY(call_step(s, number));
  const uint64_t ns = run_watch_ns(&watch, runs_alone(s, number));
  if (s->observer.end) s->observer.end(s->observer.user, number, ns);
  return TD_OK;
}

td_status run_call_part(run_session *s, uint32_t number) {
  if (!s->observed) return call_step(s, number);
  const run_watch watch = run_watch_start();
  TRY(call_step(s, number));
  s->spent[number] += run_watch_ns(&watch, runs_alone(s, number));
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

td_status run_assign(run_session *s, uint32_t target, uint32_t source) {
  const base_value *from = &s->values[source];
  base_value *to = &s->values[target];
  if (from == to) return TD_OK;
  if (s->plan->slots.at[target].place == PLAN_TAIL) {
    bool strided =
        from->kind == BASE_TENSOR && !base_tensor_contiguous(&from->tensor); /* the plan takes it for dense */
    if (strided || !lasting(s->plan, source)) return run_keep(s, from, to);
    *to = *from;
    return TD_OK;
  }
  if (from->kind != BASE_TENSOR || !same_dims(&to->tensor, &from->tensor)) {
    char want[96], have[96];
    return base_fail(&s->error, TD_BAD_ARGUMENT, NULL, -1, "a branch or loop body gives %s where %s was planned",
                     from->kind == BASE_TENSOR ? base_tensor_describe(&from->tensor, have, sizeof have) : "no tensor",
                     base_tensor_describe(&to->tensor, want, sizeof want));
  }
  base_tensor_copy(&to->tensor, &from->tensor);
  return TD_OK;
}

static bool truth(const base_value *value) { return base_load_i64(value->tensor.dtype, value->tensor.data, 0) != 0; }

static td_status one_element(run_session *s, uint32_t slot, const char *what) {
  const base_value *v = &s->values[slot];
  if (v->kind == BASE_TENSOR && base_tensor_numel(&v->tensor) == 1) return TD_OK;
  return base_fail(&s->error, TD_BAD_ARGUMENT, NULL, -1, "%s is not a single element", what);
}

static td_status run_if(run_session *s, const plan_step *step) {
  uint32_t cond = s->plan->operands.at[step->in];
  TRY(one_element(s, cond, "the condition"));
  const plan_block *block = &s->plan->blocks.at[step->block + (truth(&s->values[cond]) ? 0 : 1)];
  TRY(run_steps(s, block->first, block->end));
  for (uint32_t i = 0; i < step->out_count; i++) {
    uint32_t out = s->plan->operands.at[step->out + i];
    if (out != PLAN_NONE) TRY(run_assign(s, out, s->plan->operands.at[block->results + i]));
  }
  return TD_OK;
}

typedef struct loop_state {
  const plan_block *block;
  const uint32_t *carried, *results; /* slots; results[0] is the condition */
  uint32_t count;                    /* of carried */
  size_t mark, live;                 /* tail: where the loop began, bytes after it tidied up last */
} loop_state;

static td_status loop_start(run_session *s, const plan_step *step, int64_t *trips, bool *go, loop_state *l) {
  const plan_exe *plan = s->plan;
  const uint32_t *in = plan->operands.at + step->in;
  l->block = &plan->blocks.at[step->block];
  l->carried = plan->operands.at + l->block->params + 1;
  l->results = plan->operands.at + l->block->results;
  l->count = l->block->param_count - 1;
  *trips = INT64_MAX;
  *go = true;
  if (in[0] != PLAN_NONE) {
    TRY(one_element(s, in[0], "the number of iterations"));
    *trips = base_load_i64(s->values[in[0]].tensor.dtype, s->values[in[0]].tensor.data, 0);
  }
  if (in[1] != PLAN_NONE) {
    TRY(one_element(s, in[1], "the loop condition"));
    *go = truth(&s->values[in[1]]);
  }
  for (uint32_t i = 0; i < l->count; i++) TRY(run_assign(s, l->carried[i], in[2 + i]));
  l->mark = l->live = s->tail.used;
  return TD_OK;
}

static bool holds_strings(const base_value *value) {
  if (value->kind == BASE_TENSOR) return value->tensor.dtype == TD_STRING;
  bool found = false;
  for (int64_t i = 0; value->kind == BASE_LIST && !found && i < value->list.count; i++)
    found = holds_strings(&value->list.items[i]);
  return found;
}

/* Hands the body's results over to the next iteration. A result never lies in another carried slot: the compiler put a
 * copy between where it would. */
static td_status loop_turn(run_session *s, loop_state *l, bool *go) {
  TRY(one_element(s, l->results[0], "the loop condition"));
  *go = truth(&s->values[l->results[0]]);
  for (uint32_t i = 0; i < l->count; i++) TRY(run_assign(s, l->carried[i], l->results[1 + i]));
  if (s->tail.used - l->mark < COMPACT_ABOVE + 2 * (l->live - l->mark)) return TD_OK;
  for (uint32_t i = 0; i < l->count; i++) {
    if (!holds_strings(&s->values[l->carried[i]])) continue;
    l->live = SIZE_MAX / 4; /* their bytes may lie anywhere in the tail: never tidy up */
    return TD_OK;
  }
  TRY(run_compact(s, l->carried, l->count, l->mark));
  l->live = s->tail.used;
  return TD_OK;
}

static td_status run_loop(run_session *s, const plan_step *step) {
  loop_state l;
  int64_t trips;
  bool go;
  TRY(loop_start(s, step, &trips, &go, &l));
  uint32_t number = s->plan->operands.at[l.block->params];
  for (int64_t i = 0; i < trips && go; i++) {
    if (number != PLAN_NONE) base_store_i64(s->values[number].tensor.dtype, s->values[number].tensor.data, 0, i);
    TRY(run_steps(s, l.block->first, l.block->end));
    TRY(loop_turn(s, &l, &go));
  }
  return TD_OK;
}

td_status run_steps(run_session *s, uint32_t first, uint32_t end) {
  const plan_binding *binding = &s->active->binding;
  for (uint32_t i = first; i < end;) {
    if (binding->parts_of[i] != PLAN_NONE) {
      const plan_parts *parts = &binding->parts.at[binding->parts_of[i]];
      const run_shares *shares = run_shares_at(s, binding->parts_of[i]);
      TRY(shares ? run_all_shares(s, shares, &i) : run_parts(s, parts));
      if (!shares) i = parts->end;
      continue;
    }
    if (s->steps[i].kind == PLAN_CALL || s->steps[i].kind == PLAN_SHOW) {
      TRY(run_call(s, i));
      i++;
      continue;
    }
    const plan_step *step = &s->plan->steps.at[i];
    td_status status = step->kind == PLAN_IF ? run_if(s, step) : run_loop(s, step);
    if (status != TD_OK) return named(s, step, status);
    i = step->next;
  }
  return TD_OK;
}
