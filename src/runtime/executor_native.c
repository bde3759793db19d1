/* executor_native.c -- the threads of a pool: how they wait, and what they are told.
 *
 * A pool owns as many cores as it has threads: those of its workers and one more, which a caller brings. A session's
 * team (team.c) leads the workers that it has got: the caller walks the steps of a plan, and they follow it from one
 * shared step to the next, each by watching an order of its own:
 *
 *     caller    enter ─ step ─ step ─┬─ shared step ─┬─ step ─┬─ shared step ─┬─ leave
 *     worker 1  (wakes)     (spins)  └─ shared step ─┘ (spins)└─ shared step ─┘ (spins a little, sleeps)
 *
 * Steps of one thread cost nothing here. Orders go down a tree and ends come up it, so that no thread tells, or waits
 * for, more than a few others: workers beneath one L3 cache have a head, so have the caches of a memory node, and the
 * nodes of a package; up to WIDE of them stand side by side, more below each other.
 *
 * A worker that has not begun when whoever waits for it is through with its own share (it is still waking up, or
 * another process has its CPU) is not waited for, nor are those below it, which have not been told: tasks are taken by
 * whoever is there, so none are left then. Each worker's `state` settles with one compare-and-swap whether it takes
 * part in a step or comes too late. What one thread writes and another watches stands in cache lines of its own.
 *
 * Workers run tasks (crew.c), too, while no step is shared with them: so forks take no threads besides.
 *
 * Between inferences workers spin for a set time and then sleep; within one they sleep only when a step takes long. One
 * that no team has got sleeps at once. */
#include "base/team.h"
#include "runtime/executor_priv.h"
#include "sys/topology.h"

#include <stdio.h>
#include <string.h>

enum {
  LOOKS = 64,                /* at an order between two looks at the clock */
  YIELD_AFTER_NS = 50000,    /* others may need our CPU if nothing has happened for so long */
  SLEEP_IN_RUN_NS = 2000000, /* a step of one thread that takes longer pays for a sleep */
  WIDE = 8,                  /* workers that one thread tells and waits for */
};

/* A word of `order`: number of the order. A word of `state`: the same, and what became of the worker's part in it. */
static const uint64_t order_stop = UINT64_MAX;
enum { STATE_JOINED = 1, STATE_DONE, STATE_MISSED, STATE_SHIFT = 2 };

/* ---- orders ---- */

static void rouse(run_worker *w) {
  atomic_fetch_add(&w->wakes, 1);
  sys_wake(&w->wakes);
}

static uint32_t helpers_of(const run_pool *p) { return (p->threads < p->interop ? p->threads : p->interop) - 1; }

/* The crew, where it has a task that the worker may run; NULL: it has none. */
static run_crew *task_for(const run_worker *w) {
  run_crew *crew = atomic_load(&w->pool->crew);
  return crew && w - w->pool->workers <= (ptrdiff_t)helpers_of(w->pool) && run_crew_waits(crew, &w->tried) ? crew
                                                                                                           : NULL;
}

/* `asleep` is set before `order` and tasks are looked at once more, and who gives orders or puts a task does that
 * before looking at `asleep`: one of them sees the other. */
static void sleep_on(run_worker *w, uint64_t seen) {
  const uint32_t wakes = atomic_load(&w->wakes);
  atomic_store(&w->asleep, 1);
  if (atomic_load(&w->order) == seen && !task_for(w)) sys_wait(&w->wakes, wakes);
  atomic_store(&w->asleep, 0);
}

static void rouse_below(run_worker *above) {
  for (run_worker *w = above->below; w; w = w->beside)
    if (atomic_load(&w->asleep) && atomic_load_explicit(&w->team, memory_order_relaxed)) rouse(w);
}

/* There is a task. */
static void rouse_helpers(void *user) {
  run_pool *p = user;
  for (uint32_t i = 1; i <= helpers_of(p); i++)
    if (atomic_load(&p->workers[i].asleep)) rouse(&p->workers[i]);
}

static void give_order(run_worker *w, uint64_t number) {
  atomic_store(&w->order, number);
  if (atomic_load(&w->asleep)) rouse(w);
}

/* Does it take part in the team's job? Others' workers stand in the tree like glass: what is below them is above. */
static bool takes_part(const run_team *t, const run_worker *w) {
  return atomic_load_explicit(&w->team, memory_order_relaxed) == t && w->index < t->workers;
}

static void order_below(const run_team *t, run_worker *above) {
  for (run_worker *w = above->below; w; w = w->beside)
    if (takes_part(t, w)) give_order(w, atomic_load_explicit(&w->order, memory_order_relaxed) + 1);
    else order_below(t, w);
}

/* Has `w` done its part of its last order? False: it had not begun, and will not. */
static bool await(run_worker *w) {
  const run_pool *p = w->pool;
  const uint64_t number = atomic_load_explicit(&w->order, memory_order_relaxed);
  uint64_t state = atomic_load_explicit(&w->state, memory_order_acquire), began = 0;
  while (state >> STATE_SHIFT != number)
    if (atomic_compare_exchange_weak(&w->state, &state, number << STATE_SHIFT | STATE_MISSED)) return false;
  for (uint32_t looks = 1; state != (number << STATE_SHIFT | STATE_DONE); looks++) {
    BASE_ASSERT(state == (number << STATE_SHIFT | STATE_JOINED));
    base_pause();
    state = atomic_load_explicit(&w->state, memory_order_acquire);
    if (looks % LOOKS && !p->crowded) continue;
    const uint64_t now = sys_clock_ns();
    if (began == 0) began = now;
    if (p->crowded || now - began >= YIELD_AFTER_NS) sys_yield();
  }
  return true;
}

static run_worker *lower(run_worker *a, run_worker *b) { return a && (!b || a->index < b->index) ? a : b; }

static run_worker *await_below(const run_team *t, run_worker *above) {
  run_worker *failed = NULL;
  for (run_worker *w = above->below; w; w = w->beside)
    if (!takes_part(t, w)) failed = lower(failed, await_below(t, w));
    else if (await(w)) failed = lower(failed, w->failed);
  return failed;
}

/* ---- a worker ---- */

static uint64_t patience_of(const run_worker *w) {
  const run_pool *p = w->pool;
  if (!atomic_load_explicit(&w->team, memory_order_relaxed)) return 0;
  return atomic_load_explicit(&p->active, memory_order_relaxed) ? SLEEP_IN_RUN_NS : p->spin_ns;
}

/* Tasks are run under the numbers behind those of workers, so that an observer tells them from parts of shared steps.
 */
static uint64_t next_order(run_worker *w, uint64_t seen) {
  run_pool *p = w->pool;
  uint64_t began = 0;
  for (uint32_t looks = 1;; looks++) {
    const uint64_t order = atomic_load_explicit(&w->order, memory_order_acquire);
    if (order != seen) return order;
    run_crew *crew = task_for(w);
    if (crew && run_crew_help(crew, p->threads + (uint32_t)(w - p->workers) - 1, &w->tried)) {
      began = 0;
      continue;
    }
    base_pause();
    if (looks % LOOKS && !p->crowded) continue;
    const uint64_t now = sys_clock_ns();
    run_pool_look_around(p, now);
    if (began == 0) began = now;
    if (now - began >= patience_of(w)) {
      sleep_on(w, seen);
      rouse_below(w);
      began = 0;
    } else if (p->crowded || now - began >= YIELD_AFTER_NS) {
      sys_yield();
    }
  }
}

static void take_part(run_worker *w, uint64_t number) {
  uint64_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
  if (state >> STATE_SHIFT >= number) return; /* missed it, and perhaps others since */
  if (!atomic_compare_exchange_strong(&w->state, &state, number << STATE_SHIFT | STATE_JOINED)) return;
  BASE_ASSERT((state & ((1 << STATE_SHIFT) - 1)) != STATE_JOINED); /* its last part is done, or was missed */
  const run_team *t = atomic_load_explicit(&w->team, memory_order_relaxed);
  order_below(t, w);
  w->status = t->job(t->user, w, t->workers);
  w->failed = await_below(t, w);
  if (w->status != TD_OK) w->failed = w;
  atomic_store_explicit(&w->state, number << STATE_SHIFT | STATE_DONE, memory_order_release);
}

static void work(void *user) {
  run_worker *w = user;
  for (uint64_t order = 0;;) {
    order = next_order(w, order);
    if (order == order_stop) return;
    take_part(w, order);
  }
}

/* ---- the tree ---- */

/* What a worker's CPU lies in, from the smallest on: L3 cache, memory node, package, machine; and is it the first of
 * all that lie there? */
enum { LEVELS = 4 };
typedef struct place {
  uint32_t in[LEVELS];
  bool heads[LEVELS];
} place;

static void find_places(run_pool *p, place *places) {
  base_arena *arena = p->capacity > WIDE ? base_arena_new(&p->allocator) : NULL;
  sys_topology topology;
  memset(places, 0, p->capacity * sizeof *places);
  if (arena && sys_topology_read("", arena, &topology, NULL) == TD_OK) {
    run_pool_count_caches(p, &topology);
    for (uint32_t i = 0; i < p->capacity; i++) {
      const sys_cpu *cpu = sys_topology_find(&topology, p->workers[i].cpu);
      if (cpu) places[i] = (place){.in = {cpu->l3, cpu->node, cpu->package, 0}};
    }
  }
  base_arena_free(arena);
}

/* The worker above number `i`: of those before it in the smallest place that it shares with any, heads of the places
 * therein, one that has few below it. */
static uint32_t find_above(const place *places, uint32_t i) {
  for (int level = 0; level < LEVELS; level++) {
    uint32_t heads[RUN_MOST_THREADS / WIDE + 1], count = 0;
    for (uint32_t k = 0; k < i; k++) {
      if (places[k].in[level] != places[i].in[level] || (level && !places[k].heads[level - 1])) continue;
      if (count < sizeof heads / sizeof *heads) heads[count] = k;
      count++;
    }
    if (count) return heads[(count - 1) / WIDE];
  }
  return 0;
}

static void find_heads(place *places, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    for (int level = 0; level < LEVELS; level++) {
      places[i].heads[level] = true;
      for (uint32_t k = 0; k < i && places[i].heads[level]; k++)
        places[i].heads[level] = places[k].in[level] != places[i].in[level];
    }
}

/* Before the threads start. */
static td_status plant(run_pool *p, td_error *err) {
  const size_t bytes = p->capacity * sizeof(place);
  place *places = base_alloc(&p->allocator, bytes);
  if (!places) return base_no_memory(err, "a pool of threads");
  find_places(p, places);
  find_heads(places, p->capacity);
  for (uint32_t i = p->capacity; i-- > 1;) { /* from the last on: the first are told first */
    run_worker *w = &p->workers[i], *above = &p->workers[find_above(places, i)];
    w->beside = above->below;
    above->below = w;
  }
  base_free(&p->allocator, places, bytes);
  return TD_OK;
}

/* Threads that do not start are done without. Part of a CPU's time is better had on any CPU that is free. */
static void start_workers(run_pool *p, const char *name) {
  for (p->threads = 1; p->threads < p->capacity; p->threads++) {
    run_worker *w = &p->workers[p->threads];
    char text[32];
    if (run_stack_open(&w->scratch, NULL) != TD_OK) return;
    if (sys_thread_start(&w->thread, work, w, NULL) != TD_OK) {
      run_stack_close(&w->scratch);
      return;
    }
    snprintf(text, sizeof text, "%.10s/%u", name ? name : "treadle", p->threads);
    sys_thread_name(&w->thread, text);
    if (p->pins) sys_thread_move(&w->thread, w->cpu);
  }
}

/* ---- what pools and teams ask ---- */

td_status run_executor_open(run_pool *p, const char *name, td_error *err) {
  TRY(plant(p, err));
  start_workers(p, name);
  return TD_OK;
}

void run_executor_close(run_pool *p) {
  for (uint32_t i = 1; i < p->threads; i++) give_order(&p->workers[i], order_stop);
  for (uint32_t i = 1; i < p->threads; i++) sys_thread_join(&p->workers[i].thread);
}

void run_executor_rouse(run_pool *p) { rouse_below(&p->workers[0]); }

td_status run_executor_share(run_team *t, run_worker **failed) {
  run_worker *top = &t->pool->workers[0];
  order_below(t, top);
  const td_status status = t->job(t->user, &t->leader, t->workers);
  *failed = await_below(t, top);
  return status;
}

run_helpers run_executor_helpers(run_pool *p) {
  return (run_helpers){.count = helpers_of(p), .wake = rouse_helpers, .user = p};
}

/* Where the limit leaves workers out, all of them may sleep. */
bool run_executor_looks(const run_pool *p) {
  return atomic_load_explicit(&p->limit, memory_order_relaxed) >= p->threads;
}
