/* pool.c -- the threads of a pool: how they wait, what they are told, and where they are kept.
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
#include "runtime/crew_priv.h"
#include "runtime/pool_priv.h"
#include "sys/topology.h"

#include <stdio.h>
#include <string.h>

enum {
  LOOKS = 64,                /* at an order between two looks at the clock */
  YIELD_AFTER_NS = 50000,    /* others may need our CPU if nothing has happened for so long */
  SLEEP_IN_RUN_NS = 2000000, /* a step of one thread that takes longer is worth a sleep */
  DEFAULT_SPIN_US = 100,
  QUOTA_SPIN_US = 50, /* at most, where waiting uses up a quota */
  WIDE = 8,           /* workers that one thread tells and waits for */
  LOOK_AROUND_NS = 1000000000,
};

/* A word of `order`: number of the order. A word of `state`: the same, and what became of the worker's part in it. */
static const uint64_t order_stop = UINT64_MAX;
enum { STATE_JOINED = 1, STATE_DONE, STATE_MISSED, STATE_SHIFT = 2 };

void run_pool_lock(run_pool *p) {
  while (atomic_flag_test_and_set_explicit(&p->lock, memory_order_acquire)) sys_yield();
}
void run_pool_unlock(run_pool *p) { atomic_flag_clear_explicit(&p->lock, memory_order_release); }

/* ---- orders ---- */

static void rouse(run_worker *w) {
  atomic_fetch_add(&w->wakes, 1);
  sys_wake(&w->wakes);
}

static uint32_t helpers_of(const run_pool *p) { return (p->threads < p->interop ? p->threads : p->interop) - 1; }

/* The crew, where it has a task that the worker may run; NULL: it has none. */
static run_crew *task_for(const run_worker *w) {
  run_crew *crew = atomic_load(&w->pool->crew);
  return crew && w - w->pool->workers <= (ptrdiff_t)helpers_of(w->pool) && run_crew_waits(crew) ? crew : NULL;
}

/* `asleep` is set before `order` and tasks are looked at once more, and who gives orders or puts a task does that
 * before looking at `asleep`: one of them sees the other. */
static void sleep_on(run_worker *w, uint64_t seen) {
  const uint32_t wakes = atomic_load(&w->wakes);
  atomic_store(&w->asleep, 1);
  if (atomic_load(&w->order) == seen && !task_for(w)) sys_wait(&w->wakes, wakes);
  atomic_store(&w->asleep, 0);
}

void run_pool_rouse(run_worker *above) {
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

void run_pool_order(const run_team *t, run_worker *above) {
  for (run_worker *w = above->below; w; w = w->beside)
    if (takes_part(t, w)) give_order(w, atomic_load_explicit(&w->order, memory_order_relaxed) + 1);
    else run_pool_order(t, w);
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

run_worker *run_pool_await(const run_team *t, run_worker *above) {
  run_worker *failed = NULL;
  for (run_worker *w = above->below; w; w = w->beside)
    if (!takes_part(t, w)) failed = lower(failed, run_pool_await(t, w));
    else if (await(w)) failed = lower(failed, w->failed);
  return failed;
}

/* ---- a worker ---- */

void run_pool_look_around(run_pool *p, uint64_t now) {
  uint64_t last = atomic_load_explicit(&p->looked_ns, memory_order_relaxed);
  if (now - last < p->look_ns || !atomic_compare_exchange_strong(&p->looked_ns, &last, now)) return;
  uint32_t cpus[RUN_MOST_THREADS];
  const sys_share share = sys_process_share();
  if (share.cpus == p->share.cpus && share.mark == p->share.mark && share.quota_cpus == p->share.quota_cpus) return;
  const uint32_t count = sys_process_cpus(cpus, RUN_MOST_THREADS);
  run_pool_lock(p);
  p->share = share;
  run_pool_settle_cpus(p, cpus, count);
  run_pool_unlock(p);
}

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
    if (crew) {
      run_crew_help(crew, p->threads + (uint32_t)(w - p->workers) - 1);
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
      run_pool_rouse(w);
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
  run_pool_order(t, w);
  w->status = t->job(t->user, w, t->workers);
  w->failed = run_pool_await(t, w);
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

static void find_places(const run_pool *p, place *places) {
  base_arena *arena = p->capacity > WIDE ? base_arena_new(&p->allocator) : NULL;
  sys_topology topology;
  memset(places, 0, p->capacity * sizeof *places);
  if (arena && sys_topology_read("", arena, &topology, NULL) == TD_OK)
    for (uint32_t i = 0; i < p->capacity; i++) {
      const sys_cpu *cpu = sys_topology_find(&topology, p->workers[i].cpu);
      if (cpu) places[i] = (place){.in = {cpu->l3, cpu->node, cpu->package, 0}};
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

/* ---- CPUs ---- */

/* Threads that the CPUs and the quota allow; a pool that was made for more than that is not held to it. */
static uint32_t find_limit(const run_pool *p, uint32_t cpus) {
  const uint32_t now = sys_usable_threads(cpus, p->share.quota_cpus);
  return p->crowded || now >= p->threads ? p->threads : now;
}

void run_pool_settle_cpus(run_pool *p, const uint32_t *cpus, uint32_t count) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < p->cpu_count; i++) {
    bool there = false;
    for (uint32_t k = 0; k < count; k++) there |= cpus[k] == p->cpus[i];
    if (!there) continue;
    const uint32_t cpu = p->cpus[i];
    p->cpus[i] = p->cpus[kept]; /* those that are left stand in front; others may come back */
    p->cpus[kept++] = cpu;
  }
  for (uint32_t i = 0; p->pins && i < p->threads && kept; i++) {
    p->workers[i].cpu = p->cpus[i % kept];
    if (i) sys_thread_move(&p->workers[i].thread, p->workers[i].cpu);
  }
  atomic_store_explicit(&p->limit, find_limit(p, kept ? kept : count), memory_order_relaxed);
  atomic_fetch_add(&p->changes, 1);
}

/* From the caller's CPU on, so that small pools of several processes do not meet on the same CPUs. */
static void turn_cpus(run_pool *p, const uint32_t *cpus) {
  const uint32_t here = sys_cpu_now();
  uint32_t first = 0;
  for (uint32_t i = 0; i < p->cpu_count; i++)
    if (cpus[i] == here) first = i;
  for (uint32_t i = 0; i < p->cpu_count; i++) p->cpus[i] = cpus[(first + i) % p->cpu_count];
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

/* ---- making and ending ---- */

static void free_pool(run_pool *p) {
  const td_allocator allocator = p->allocator;
  base_free(&allocator, p->workers, p->capacity * sizeof *p->workers);
  base_free(&allocator, p->cpus, p->cpu_count * sizeof *p->cpus);
  base_free(&allocator, p, sizeof *p);
}

static td_status fill_pool(run_pool *p, const run_pool_options *o, const uint32_t *cpus, td_error *err) {
  p->workers = base_alloc(&p->allocator, p->capacity * sizeof *p->workers);
  p->cpus = base_alloc(&p->allocator, p->cpu_count * sizeof *p->cpus);
  if (!p->workers || !p->cpus) return base_no_memory(err, "a pool of threads");
  turn_cpus(p, cpus);
  memset(p->workers, 0, p->capacity * sizeof *p->workers);
  for (uint32_t i = 0; i < p->capacity; i++) {
    p->workers[i].pool = p;
    p->workers[i].cpu = i < p->cpu_count ? p->cpus[i] : UINT32_MAX;
  }
  p->crowded = p->capacity > p->cpu_count;
  p->pins = !p->crowded && (p->share.quota_cpus <= 0 || p->share.quota_cpus >= p->cpu_count ||
                            p->share.quota_cpus == (double)(uint32_t)p->share.quota_cpus);
  TRY(plant(p, err));
  start_workers(p, o->name);
  p->interop = p->threads;
  p->limit = p->threads;
  return TD_OK;
}

td_status run_pool_new_on(const run_pool_options *o, const td_allocator *allocator, run_pool **pool, td_error *err) {
  uint32_t allowed[RUN_MOST_THREADS];
  const uint32_t *cpus = o->cpus ? o->cpus->at : allowed;
  const uint32_t count = o->cpus ? o->cpus->count : sys_allowed_cpus(allowed, RUN_MOST_THREADS);
  const sys_share share = sys_process_share();
  const uint32_t wanted = o->threads ? o->threads : sys_usable_threads(count, share.quota_cpus);
  run_pool *p = base_alloc(allocator, sizeof *p);
  if (!p) return base_no_memory(err, "a pool of threads");
  memset(p, 0, sizeof *p);
  p->allocator = *allocator;
  p->share = share;
  p->capacity = wanted < RUN_MOST_THREADS ? wanted : RUN_MOST_THREADS;
  p->cpu_count = count ? count : 1;
  p->look_ns = LOOK_AROUND_NS;
  p->looked_ns = sys_clock_ns();
  p->changes = 1;
  uint64_t spin_us = o->spin_us ? o->spin_us : DEFAULT_SPIN_US;
  if (share.quota_cpus > 0 && spin_us > QUOTA_SPIN_US) spin_us = QUOTA_SPIN_US;
  p->spin_ns = spin_us * 1000;
  atomic_flag_clear(&p->lock);
  atomic_flag_clear(&p->making_crew);
  if (!count) allowed[0] = 0;
  const td_status status = fill_pool(p, o, cpus, err);
  if (status == TD_OK) *pool = p;
  else free_pool(p);
  return status;
}

td_status run_pool_new(uint32_t threads, uint32_t spin_us, const td_allocator *allocator, run_pool **pool,
                       td_error *err) {
  return run_pool_new_on(&(run_pool_options){.threads = threads, .spin_us = spin_us}, allocator, pool, err);
}

void run_pool_free(run_pool *p) {
  if (!p) return;
  BASE_ASSERT(!p->teams);
  for (uint32_t i = 1; i < p->threads; i++) give_order(&p->workers[i], order_stop);
  for (uint32_t i = 1; i < p->threads; i++) {
    sys_thread_join(&p->workers[i].thread);
    run_stack_close(&p->workers[i].scratch);
  }
  run_crew_free(p->crew);
  free_pool(p);
}

/* ---- what others ask ---- */

uint32_t run_usable_threads(void) { return sys_threads_read(); }

uint32_t run_pool_threads(const run_pool *p) { return p->threads; }

size_t run_pool_scratch(const run_pool *p) {
  size_t bytes = 0;
  for (uint32_t i = 1; i < p->threads; i++)
    bytes += atomic_load_explicit(&p->workers[i].scratch.peak, memory_order_relaxed);
  return bytes;
}

void run_pool_set_interop(run_pool *p, uint32_t threads) {
  p->interop = threads < RUN_MOST_THREADS ? threads : RUN_MOST_THREADS;
}

run_crew *run_pool_crew(run_pool *p) {
  while (atomic_flag_test_and_set_explicit(&p->making_crew, memory_order_acquire)) sys_yield();
  run_crew *crew = atomic_load(&p->crew);
  if (!crew && p->interop > 1) {
    const run_helpers helpers = {.count = helpers_of(p), .wake = rouse_helpers, .user = p};
    crew = run_crew_new(p->interop - 1 - helpers.count, p->threads + helpers.count, &helpers, &p->allocator);
    atomic_store(&p->crew, crew);
  }
  atomic_flag_clear_explicit(&p->making_crew, memory_order_release);
  return crew;
}
