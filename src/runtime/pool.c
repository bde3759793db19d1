/* pool.c -- the threads of a pool.
 *
 * The caller is worker 0 and leads: it walks the steps of a plan, and the others follow it from one shared step to the
 * next by watching `order`, which changes with every step that is shared out:
 *
 *     caller    enter ─ step ─ step ─┬─ shared step ─┬─ step ─┬─ shared step ─┬─ leave
 *     worker 1  (wakes)     (spins)  └─ shared step ─┘ (spins)└─ shared step ─┘ (spins a little, sleeps)
 *
 * Steps of one thread cost nothing here. A worker that has not begun when the caller is through with its own share (it
 * is still waking up, or another process has its CPU) is not waited for: tasks are taken by whoever is there, so none
 * are left then. Each worker's `state` settles with one compare-and-swap whether it takes part in a step or comes too
 * late. What the caller writes, what all write and what one worker writes stand in cache lines of their own.
 *
 * Between inferences workers spin for a set time and then sleep; within one they sleep only when a step takes long. */
#include "base/team.h"
#include "runtime/crew_priv.h"
#include "runtime/runtime_priv.h"

#include <string.h>

enum {
  LINE = 64,
  LOOKS = 64,                /* at `order` between two looks at the clock */
  YIELD_AFTER_NS = 50000,    /* others may need our CPU if nothing has happened for so long */
  SLEEP_IN_RUN_NS = 2000000, /* a step of one thread that takes longer is worth a sleep */
  DEFAULT_SPIN_US = 100,
  MOST_THREADS = 1024
};

/* A word of `order`: number of the order, what it is, and how many workers it is for. */
enum { ORDER_WORKERS = 0xfff, ORDER_RUNNING = 0x1000, ORDER_STOP = 0x2000, ORDER_SHIFT = 16 };
/* A word of `state`: number of the order, and what became of the worker's part in it. */
enum { STATE_JOINED = 1, STATE_DONE, STATE_MISSED, STATE_SHIFT = 2 };

struct run_pool {
  td_allocator allocator;
  uint32_t threads, capacity; /* the caller's included; there is room for */
  bool crowded;               /* more threads than CPUs: who waits lets others run */
  uint64_t spin_ns;           /* between inferences */
  run_worker *workers;
  base_lane *lanes;                      /* one per worker */
  _Alignas(LINE) _Atomic uint64_t order; /* written by the caller, as are the next four before it */
  run_job job;
  void *user;
  uint64_t number;                        /* of the last order */
  uint32_t jobs;                          /* since the lanes were clear */
  _Alignas(LINE) _Atomic uint32_t asleep; /* workers that sleep or are about to; they write */
  _Atomic uint32_t wakes;                 /* what they sleep on; written by the caller */
  _Alignas(LINE) atomic_flag taken;       /* by a session that runs */
  atomic_flag making_crew;
  uint32_t interop; /* threads that run tasks, the caller's included */
  run_crew *crew;
};

static uint64_t order_number(uint64_t order) { return order >> ORDER_SHIFT; }

/* ---- a worker ---- */

/* `asleep` rises before `order` is looked at once more, and the caller changes `order` before it looks at `asleep`: one
 * of them sees the other. */
static void sleep_on(run_pool *p, uint64_t seen) {
  uint32_t wakes = atomic_load(&p->wakes);
  atomic_fetch_add(&p->asleep, 1);
  if (atomic_load(&p->order) == seen) sys_wait(&p->wakes, wakes);
  atomic_fetch_sub(&p->asleep, 1);
}

static uint64_t next_order(run_pool *p, uint64_t seen) {
  const uint64_t patience = seen & ORDER_RUNNING ? SLEEP_IN_RUN_NS : p->spin_ns;
  uint64_t began = 0;
  for (uint32_t looks = 1;; looks++) {
    uint64_t order = atomic_load_explicit(&p->order, memory_order_acquire);
    if (order != seen) return order;
    base_pause();
    if (looks % LOOKS && !p->crowded) continue;
    uint64_t now = sys_clock_ns();
    if (began == 0) began = now;
    if (now - began >= patience) {
      sleep_on(p, seen);
      began = 0;
    } else if (p->crowded || now - began >= YIELD_AFTER_NS) {
      sys_yield();
    }
  }
}

static void take_part(run_worker *w, uint64_t order) {
  const uint64_t number = order_number(order);
  uint64_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
  if (state >> STATE_SHIFT >= number) return; /* missed it, and perhaps others since */
  if (!atomic_compare_exchange_strong(&w->state, &state, number << STATE_SHIFT | STATE_JOINED)) return;
  BASE_ASSERT((state & ((1 << STATE_SHIFT) - 1)) != STATE_JOINED); /* its last part is done, or was missed */
  w->status = w->pool->job(w->pool->user, w, order & ORDER_WORKERS);
  atomic_store_explicit(&w->state, number << STATE_SHIFT | STATE_DONE, memory_order_release);
}

static void work(void *user) {
  run_worker *w = user;
  for (uint64_t order = 0;;) {
    order = next_order(w->pool, order);
    if (order & ORDER_STOP) return;
    if (w->index < (order & ORDER_WORKERS)) take_part(w, order);
  }
}

/* ---- the caller ---- */

static void give_order(run_pool *p, uint64_t what) {
  atomic_store(&p->order, ++p->number << ORDER_SHIFT | what);
  if (atomic_load(&p->asleep) == 0) return;
  atomic_fetch_add(&p->wakes, 1);
  sys_wake(&p->wakes);
}

/* The caller computes too: a worker that was kept on its CPU goes where the caller was before. */
static void make_way(run_pool *p) {
  uint32_t here = sys_cpu_now(), before = p->workers[0].cpu;
  if (here == before || p->crowded) return;
  p->workers[0].cpu = here;
  for (uint32_t i = 1; i < p->threads; i++)
    if (p->workers[i].cpu == here && sys_thread_move(&p->workers[i].thread, before)) p->workers[i].cpu = before;
}

bool run_pool_enter(run_pool *p) {
  if (atomic_flag_test_and_set_explicit(&p->taken, memory_order_acquire)) return false;
  make_way(p);
  give_order(p, ORDER_RUNNING);
  return true;
}

void run_pool_leave(run_pool *p) {
  atomic_store_explicit(&p->order, ++p->number << ORDER_SHIFT, memory_order_release); /* who sleeps, sleeps on */
  atomic_flag_clear_explicit(&p->taken, memory_order_release);
}

/* Has `w` done its part of the order? False: it had not begun, and will not. */
static bool await(run_pool *p, run_worker *w) {
  uint64_t state = atomic_load_explicit(&w->state, memory_order_acquire), began = 0;
  while (state >> STATE_SHIFT != p->number)
    if (atomic_compare_exchange_weak(&w->state, &state, p->number << STATE_SHIFT | STATE_MISSED)) return false;
  for (uint32_t looks = 1; state != (p->number << STATE_SHIFT | STATE_DONE); looks++) {
    BASE_ASSERT(state == (p->number << STATE_SHIFT | STATE_JOINED));
    base_pause();
    state = atomic_load_explicit(&w->state, memory_order_acquire);
    if (looks % LOOKS && !p->crowded) continue;
    uint64_t now = sys_clock_ns();
    if (began == 0) began = now;
    if (p->crowded || now - began >= YIELD_AFTER_NS) sys_yield();
  }
  return true;
}

/* What lanes hold of older jobs counts for nothing, as long as numbers of jobs differ. */
static void next_job(run_pool *p) {
  if (++p->jobs < BASE_JOBS) return;
  p->jobs = 1;
  for (uint32_t i = 0; i < p->threads; i++) {
    atomic_store_explicit(&p->lanes[i].word, 0, memory_order_relaxed);
    atomic_store_explicit(&p->lanes[i].piece, 0, memory_order_relaxed);
  }
}

td_status run_pool_share(run_pool *p, uint32_t workers, run_job job, void *user, td_error *err) {
  BASE_ASSERT(job && workers > 0); /* of the session that has entered */
  if (workers > p->threads) workers = p->threads;
  p->job = job;
  p->user = user;
  next_job(p);
  give_order(p, ORDER_RUNNING | workers);
  td_status status = job(user, &p->workers[0], workers);
  for (uint32_t i = 1; i < workers; i++) {
    run_worker *w = &p->workers[i];
    if (!await(p, w) || w->status == TD_OK || status != TD_OK) continue;
    status = w->status;
    *err = w->err;
  }
  return status;
}

base_call run_pool_call(const run_worker *worker, uint32_t workers, const base_call *step) {
  base_call call = *step;
  call.worker = worker->index;
  call.workers = workers;
  call.job = worker->pool->jobs;
  call.lanes = worker->pool->lanes;
  return call;
}

run_worker *run_pool_worker(run_pool *p, uint32_t index) { return &p->workers[index]; }

uint32_t run_pool_threads(const run_pool *p) { return p->threads; }

size_t run_pool_scratch(const run_pool *p) {
  size_t bytes = 0;
  for (uint32_t i = 1; i < p->threads; i++)
    bytes += atomic_load_explicit(&p->workers[i].scratch.peak, memory_order_relaxed);
  return bytes;
}

/* ---- making and ending ---- */

/* Threads that do not start are done without. */
static void start_workers(run_pool *p, uint32_t wanted) {
  uint32_t cpus[MOST_THREADS];
  uint32_t cpu_count = sys_allowed_cpus(cpus, MOST_THREADS);
  uint32_t here = sys_cpu_now(), first = 0;
  p->crowded = wanted > cpu_count;
  /* From the caller's CPU on, so that small pools of several processes do not meet on the same CPUs. */
  for (uint32_t i = 0; i < cpu_count; i++)
    if (cpus[i] == here) first = i;
  for (uint32_t i = 0; i < wanted; i++)
    p->workers[i] =
        (run_worker){.pool = p, .index = i, .cpu = i < cpu_count ? cpus[(first + i) % cpu_count] : UINT32_MAX};
  for (p->threads = 1; p->threads < wanted; p->threads++) {
    run_worker *w = &p->workers[p->threads];
    if (run_stack_open(&w->scratch, NULL) != TD_OK) return;
    if (sys_thread_start(&w->thread, work, w, NULL) != TD_OK) {
      run_stack_close(&w->scratch);
      return;
    }
    if (!p->crowded) sys_thread_move(&w->thread, w->cpu);
  }
}

td_status run_pool_new(uint32_t threads, uint32_t spin_us, const td_allocator *allocator, run_pool **pool,
                       td_error *err) {
  uint32_t wanted = threads ? threads : sys_threads_read();
  if (wanted > MOST_THREADS) wanted = MOST_THREADS;
  run_pool *p = base_alloc(allocator, sizeof *p);
  run_worker *workers = base_alloc(allocator, wanted * sizeof *workers);
  base_lane *lanes = base_alloc(allocator, wanted * sizeof *lanes);
  if (!p || !workers || !lanes) {
    base_free(allocator, p, sizeof *p);
    base_free(allocator, workers, wanted * sizeof *workers);
    base_free(allocator, lanes, wanted * sizeof *lanes);
    return base_no_memory(err, "a pool of threads");
  }
  memset(p, 0, sizeof *p);
  memset(lanes, 0, wanted * sizeof *lanes);
  p->allocator = *allocator;
  p->capacity = wanted;
  p->spin_ns = (uint64_t)(spin_us ? spin_us : DEFAULT_SPIN_US) * 1000;
  p->workers = workers;
  p->lanes = lanes;
  atomic_flag_clear(&p->taken);
  atomic_flag_clear(&p->making_crew);
  start_workers(p, wanted);
  p->interop = p->threads;
  *pool = p;
  return TD_OK;
}

uint32_t run_usable_threads(void) { return sys_threads_read(); }

void run_pool_set_interop(run_pool *p, uint32_t threads) {
  p->interop = threads < MOST_THREADS ? threads : MOST_THREADS;
}

run_crew *run_pool_crew(run_pool *p) {
  while (atomic_flag_test_and_set_explicit(&p->making_crew, memory_order_acquire)) sys_yield();
  if (!p->crew && p->interop > 1) p->crew = run_crew_new(p->interop - 1, p->threads, &p->allocator);
  run_crew *crew = p->crew;
  atomic_flag_clear_explicit(&p->making_crew, memory_order_release);
  return crew;
}

void run_pool_free(run_pool *p) {
  if (!p) return;
  run_crew_free(p->crew);
  give_order(p, ORDER_STOP);
  for (uint32_t i = 1; i < p->threads; i++) {
    sys_thread_join(&p->workers[i].thread);
    run_stack_close(&p->workers[i].scratch);
  }
  td_allocator allocator = p->allocator;
  base_free(&allocator, p->workers, p->capacity * sizeof *p->workers);
  base_free(&allocator, p->lanes, p->capacity * sizeof *p->lanes);
  base_free(&allocator, p, sizeof *p);
}
