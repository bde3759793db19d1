/* tasks.c -- tasks: the blocks of FORK steps, which may run beside the steps behind them.
 *
 * A future is a value whose one item is the result of its task, and the first member of it. A task that pays for a
 * hand-over is prepared in a frame of its own and put in the queue of the pool's crew; else it runs where it stands.
 * Its result, or its error, is copied out of the frame when it ends, so that the frame serves the next one at once; it
 * stays until the next run.
 *
 * Nobody waits for ever: a task that nobody has begun is run by the first who waits for it. While one that another
 * thread has begun is waited for, the waiting thread may run others, but only such that no future goes into: these wait
 * for nothing but what they fork themselves, and so for nothing that is halted below them on the same thread. */
#include "base/team.h"
#include "runtime/steps_priv.h"

#include <string.h>

enum { SPIN_NS = 20000, FRAMES_PER_THREAD = 4, LARGE_RESULT = 1 << 16 /* bytes */ };

static const plan_block *block_of(const run_frame *f, uint32_t step) {
  return &f->plan->blocks.at[f->plan->steps.at[step].block];
}

/* ---- memory of the run ---- */

static void lock(run_session *s) {
  while (atomic_flag_test_and_set_explicit(&s->tasks.lock, memory_order_acquire)) base_pause();
}
static void unlock(run_session *s) { atomic_flag_clear_explicit(&s->tasks.lock, memory_order_release); }

static void *take_memory(run_session *s, size_t bytes) {
  lock(s);
  void *memory = run_stack_take(&s->tasks.results, bytes ? bytes : 1);
  unlock(s);
  return memory;
}

static run_task *new_task(run_frame *f, uint32_t step) {
  run_session *s = f->session;
  run_task *task = take_memory(s, sizeof *task);
  if (!task) return NULL;
  *task = (run_task){.session = s, .step = step, .free = f->plan->steps.at[step].free};
  atomic_store_explicit(&task->state, RUN_TASK_RUNNING, memory_order_relaxed);
  lock(s);
  task->older = s->tasks.newest;
  s->tasks.newest = task;
  unlock(s);
  return task;
}

/* ---- frames ---- */

static void free_frame(run_frame *f) {
  run_close_frame(f);
  base_arena_free(f->arena);
}

/* NULL: out of memory. */
static run_frame *new_frame(run_session *s) {
  td_error unused;
  base_arena *arena = base_arena_new(&s->allocator);
  run_frame *f = arena ? base_new(arena, run_frame, 1) : NULL;
  if (!f) {
    base_arena_free(arena);
    return NULL;
  }
  td_status status = run_prepare_frame(f, s, arena, &unused);
  f->arena = arena;
  f->known = status == TD_OK ? base_new(arena, uint8_t, (size_t)s->plan->steps.count + 1) : NULL;
  if (status == TD_OK) status = f->known ? run_stack_open(&f->tail, &unused) : TD_NO_RESOURCE;
  if (status == TD_OK) status = run_stack_open(&f->scratch, &unused);
  if (status == TD_OK) return f;
  free_frame(f);
  return NULL;
}

static void give_frame(run_frame *f) {
  run_session *s = f->session;
  if (f->tail.used) run_stack_cut(&f->tail, 0);
  f->error = (td_error){0};
  lock(s);
  f->next = s->tasks.idle;
  s->tasks.idle = f;
  unlock(s);
}

/* NULL: there are enough, or there is no memory for one more: the task had better run where it stands. */
static run_frame *take_frame(run_session *s) {
  lock(s);
  run_frame *f = s->tasks.idle;
  if (f) s->tasks.idle = f->next;
  const bool more = !f && s->tasks.frames < FRAMES_PER_THREAD * (run_crew_size(s->tasks.crew) + 1);
  s->tasks.frames += more;
  unlock(s);
  if (!more) return f;
  f = new_frame(s);
  if (f) return f;
  lock(s);
  s->tasks.frames--;
  unlock(s);
  return NULL;
}

/* What the last task took may be made by the next one, in the frame's own memory. */
static void forget_taken(run_frame *f) {
  const plan_step *step = &f->plan->steps.at[f->filled_for];
  for (uint32_t i = 0; step->kind == PLAN_FORK && i < step->in_count; i++)
    run_reset_value(f, f->session->bounds.active, f->plan->operands.at[step->in + i]);
}

/* Values of the active binding, and in front of the task what it takes from the steps around it. */
static td_status fill_frame(run_frame *to, const run_frame *from, uint32_t number) {
  run_take_code(to);
  run_session *s = from->session;
  const plan_step *step = &s->plan->steps.at[number];
  const plan_block *block = block_of(from, number);
  if (to->binding != s->bounds.activated) {
    memset(to->known, 0, s->plan->steps.count);
    TRY(run_activate_frame(to, s->bounds.active, &to->error));
    to->binding = s->bounds.activated;
  } else {
    forget_taken(to);
  }
  to->filled_for = number;
  for (uint32_t i = block->first; i < block->end; i++) to->known[i] &= (uint8_t)~RUN_SHOWN;
  for (uint32_t i = 0; i < step->in_count; i++) {
    const uint32_t slot = s->plan->operands.at[step->in + i];
    to->values[slot] = from->values[slot];
    to->values[slot].list.room = NULL; /* others may add to the same list */
  }
  for (uint32_t i = 0; i < block->param_count; i++) {
    const uint32_t slot = s->plan->operands.at[block->params + i];
    TRY(run_keep(to, &from->values[slot], &to->values[slot]));
  }
  return TD_OK;
}

/* ---- the end of a task ---- */

/* Is the memory of `slot` that of a value which steps [first, end) alone make and use? */
static bool made_within(const plan_exe *plan, uint32_t slot, uint32_t first, uint32_t end) {
  const plan_slot *root = &plan->slots.at[slot];
  return root->place == PLAN_ARENA && root->root == slot && root->part_of == PLAN_NONE && root->first >= first &&
         root->last <= end;
}

/* Large results are made where they stay, among the results of tasks: the memory of their roots is there this time. */
static td_status place_results(run_frame *f, const plan_block *block) {
  const run_bound *bound = f->session->bounds.active;
  for (uint32_t i = 0; i < block->result_count; i++) {
    const uint32_t root = f->plan->slots.at[f->plan->operands.at[block->results + i]].root;
    if (!made_within(f->plan, root, block->first, block->end)) continue;
    const size_t bytes = base_tensor_bytes(&bound->binding.tensors[root]);
    if (bytes < LARGE_RESULT) continue;
    char *memory = take_memory(f->session, bytes);
    if (!memory) return base_no_memory(&f->error, "the result of a task");
    for (uint32_t k = 0; k < f->plan->slots.count; k++)
      if (f->plan->slots.at[k].place == PLAN_ARENA && f->plan->slots.at[k].root == root)
        f->values[k].tensor.data = memory + (bound->binding.offsets[k] - bound->binding.offsets[root]);
    for (uint32_t k = block->first; k < block->end; k++) f->known[k] &= (uint8_t)~RUN_SHOWN;
  }
  return TD_OK;
}

/* Does all of the value lie among the results of tasks already, dense? */
static bool stays(const run_session *s, const base_value *value) {
  return value->kind == BASE_TENSOR && base_tensor_contiguous(&value->tensor) &&
         run_stack_holds(&s->tasks.results, value->tensor.data, 0);
}

static td_status keep_result(run_frame *f, run_task *task) {
  const plan_block *block = block_of(f, task->step);
  const uint32_t *slots = f->plan->operands.at + block->results;
  base_value whole = {.kind = BASE_NOTHING};
  size_t bytes = 0;
  base_value *items = NULL;
  if (block->result_count == 1) {
    whole = f->values[slots[0]];
  } else {
    items = take_memory(f->session, (block->result_count + (size_t)1) * sizeof *items);
    if (!items) return base_no_memory(&f->error, "the result of a task");
    for (uint32_t i = 0; i < block->result_count; i++) items[i] = f->values[slots[i]];
    whole = (base_value){.kind = BASE_TUPLE, .list = {.items = items, .count = block->result_count}};
  }
  if (stays(f->session, &whole)) {
    task->value = whole;
    return TD_OK;
  }
  if (!run_copy_bytes(&whole, &bytes)) return base_no_memory(&f->error, "the result of a task");
  char *memory = take_memory(f->session, bytes);
  if (!memory) return base_no_memory(&f->error, "the result of a task");
  task->value = run_copy_value(&whole, &memory);
  return TD_OK;
}

static void keep_error(run_frame *f, run_task *task) {
  task->error = take_memory(f->session, sizeof *task->error);
  if (task->error) *task->error = f->error;
}

/* Runs the block in `f`, whose values are those of the task. */
static void run_block(run_frame *f, run_task *task) {
  const plan_block *block = block_of(f, task->step);
  task->status = place_results(f, block);
  if (task->status == TD_OK) task->status = run_steps(f, block->first, block->end);
  if (task->status == TD_OK) task->status = keep_result(f, task);
  if (task->status != TD_OK) keep_error(f, task);
}

/* The last that is done with it: who waits may end the run. */
static void tell(run_task *task) {
  atomic_store_explicit(&task->state, RUN_TASK_DONE, memory_order_release);
  sys_wake(&task->state);
}

void run_execute_task(run_task *task, uint32_t thread) {
  run_frame *f = task->frame;
  f->thread = thread;
  run_block(f, task);
  if (task->helped) atomic_fetch_sub(&f->session->tasks.helping, 1);
  atomic_fetch_sub(&f->session->tasks.beside, 1);
  give_frame(f);
  tell(task);
}

static void run_here(run_frame *f, run_task *task) {
  const size_t mark = f->tail.used;
  run_block(f, task);
  run_stack_cut(&f->tail, mark);
  f->error = (td_error){0};
  atomic_store_explicit(&task->state, RUN_TASK_DONE, memory_order_release);
}

/* ---- does a task pay? ---- */

/* About how long the steps [first, end) take on one thread: where sizes are open, or iterations, a guess. */
static double steps_ns(const run_session *s, uint32_t first, uint32_t end) {
  const base_speed *speed = s->plan->here.speed;
  double ns = 0;
  for (uint32_t i = first; i < end;) {
    const plan_step *step = &s->plan->steps.at[i];
    const run_step *prepared = &s->main.steps[i];
    if (step->kind == PLAN_LOOP) ns += BASE_ITERATIONS * steps_ns(s, i + 1, step->next);
    ns += speed->step_ns;
    if (step->kind == PLAN_CALL && !prepared->varies && !prepared->defines)
      ns += run_estimate_ns(speed, &s->plan->here.links.at[step->function], &prepared->call);
    i = step->kind == PLAN_LOOP ? step->next : i + 1;
  }
  return ns;
}

void run_weigh_tasks(run_session *s) {
  for (uint32_t i = 0; s->tasks.crew && i < s->plan->steps.count; i++)
    if (s->plan->steps.at[i].kind == PLAN_FORK)
      s->tasks.pays[i] =
          s->tasks.force || steps_ns(s, i + 1, s->plan->steps.at[i].next) >= s->plan->here.speed->task_ns;
}

/* ---- steps ---- */

/* While tasks run beside it a session computes its other steps on the caller's thread alone, so the rest of its team's
 * share of the cores is theirs; and what the pool was told to have for tasks beyond its own. What tasks fork goes by
 * what the caller has found last. */
static bool may_have_help(run_frame *f) {
  run_session *s = f->session;
  if (!f->thread) {
    const uint32_t threads = s->threads.pool->threads, interop = s->threads.pool->interop;
    const uint32_t beyond = interop > threads ? interop - threads : 0;
    atomic_store(&s->tasks.most_helping, run_team_threads(s->threads.team) - 1 + beyond);
  }
  return atomic_load(&s->tasks.most_helping) > 0;
}

td_status run_fork(run_frame *f, uint32_t number) {
  run_session *s = f->session;
  run_task *task = new_task(f, number);
  if (!task) return base_no_memory(&f->error, "a task");
  f->values[f->plan->operands.at[f->plan->steps.at[number].out]] =
      (base_value){.kind = BASE_FUTURE, .list = {.items = &task->value, .count = 1}};
  task->frame = s->tasks.crew && s->tasks.pays[number] && may_have_help(f) ? take_frame(s) : NULL;
  if (task->frame && fill_frame(task->frame, f, number) == TD_OK) {
    atomic_fetch_add(&s->tasks.beside, 1);
    atomic_store_explicit(&task->state, RUN_TASK_QUEUED, memory_order_release);
    run_crew_put(s->tasks.crew, task);
    return TD_OK;
  }
  if (task->frame) give_frame(task->frame);
  run_here(f, task);
  return TD_OK;
}

/* Until the task is done: by this thread, if nobody has begun it. */
static void await(run_frame *f, run_task *task) {
  uint64_t began = 0;
  for (;;) {
    uint32_t state = atomic_load_explicit(&task->state, memory_order_acquire);
    if (state == RUN_TASK_DONE) return;
    if (state == RUN_TASK_QUEUED) {
      if (run_claim_task(task)) run_execute_task(task, f->thread);
      continue;
    }
    run_task *other = run_crew_take(f->session->tasks.crew, f->session);
    if (other) {
      run_execute_task(other, f->thread);
      continue;
    }
    if (!began) began = sys_clock_ns();
    if (sys_clock_ns() - began < SPIN_NS) base_pause();
    else sys_wait(&task->state, RUN_TASK_RUNNING);
  }
}

static td_status take_result(run_frame *f, const run_task *task, uint32_t slot) {
  base_value *to = &f->values[slot];
  if (f->plan->slots.at[slot].place == PLAN_TAIL) {
    *to = task->value;
    return TD_OK;
  }
  const base_tensor *from = &task->value.tensor;
  bool same = task->value.kind == BASE_TENSOR && from->rank == to->tensor.rank && from->dtype == to->tensor.dtype;
  for (int32_t i = 0; same && i < from->rank; i++) same = from->dims[i] == to->tensor.dims[i];
  if (!same) return base_fail(&f->error, TD_BAD_ARGUMENT, NULL, -1, "a task gives another size than was planned");
  to->tensor.data = from->data;
  return TD_OK;
}

td_status run_wait(run_frame *f, uint32_t number) {
  const plan_step *step = &f->plan->steps.at[number];
  const base_value *future = &f->values[f->plan->operands.at[step->in]];
  if (future->kind != BASE_FUTURE)
    return base_fail(&f->error, TD_BAD_ARGUMENT, NULL, -1, "there is no task to wait for");
  run_task *task = (run_task *)(void *)future->list.items;
  await(f, task);
  if (task->status == TD_OK) return take_result(f, task, f->plan->operands.at[step->out]);
  if (!task->error) return base_no_memory(&f->error, "the error of a task");
  f->error = *task->error;
  return task->status;
}

/* ---- runs and sessions ---- */

/* Those that nobody has begun will not run any more; the others are waited for. They may fork new ones meanwhile. */
void run_end_tasks(run_session *s) {
  for (bool all = false; !all;) {
    lock(s);
    run_task *task = s->tasks.newest;
    unlock(s);
    all = true;
    for (; task; task = task->older) {
      if (run_claim_task(task)) {
        task->status = TD_INTERNAL;
        atomic_fetch_sub(&s->tasks.beside, 1);
        give_frame(task->frame);
        tell(task);
      }
      while (atomic_load_explicit(&task->state, memory_order_acquire) == RUN_TASK_RUNNING) {
        all = false;
        sys_wait(&task->state, RUN_TASK_RUNNING);
      }
    }
  }
  if (s->tasks.crew) run_crew_forget(s->tasks.crew, s);
  s->tasks.newest = NULL;
}

td_status run_open_tasks(run_session *s, td_error *err) {
  bool any = false;
  size_t steps = 0;
  for (uint32_t k = 0; k < plan_count(s->plans.general); k++) {
    const plan_exe *plan = plan_at(s->plans.general, k);
    for (uint32_t i = 0; i < plan->steps.count; i++) any |= plan->steps.at[i].kind == PLAN_FORK;
    steps = base_max_size(steps, plan->steps.count);
  }
  atomic_flag_clear(&s->tasks.lock);
  if (!any) return TD_OK;
  TRY(run_stack_open(&s->tasks.results, err));
  s->tasks.pays = base_new(s->arena, bool, steps);
  if (!s->tasks.pays) return base_no_memory(err, "a session");
  if (s->threads.pool) s->tasks.crew = run_pool_crew(s->threads.pool);
  return TD_OK;
}

static void free_frames(run_frame *f) {
  while (f) {
    run_frame *next = f->next;
    free_frame(f);
    f = next;
  }
}

void run_close_tasks(run_session *s) {
  free_frames(s->tasks.idle);
  for (uint32_t i = 0; s->plans.ready && i < plan_count(s->plans.general); i++)
    if (i != s->plans.variant) free_frames(s->plans.ready[i].idle);
  run_stack_close(&s->tasks.results);
}
