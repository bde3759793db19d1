/* pool.c -- pools: how many threads one has, on which CPUs they are kept, and what changes of the process do to that.
 * Who the threads are is the executor's. */
#include "runtime/executor_priv.h"

#include <string.h>

enum {
  DEFAULT_SPIN_US = 100,
  QUOTA_SPIN_US = 50, /* at most, where waiting uses up a quota */
  LOOK_AROUND_NS = 1000000000,
};

void run_pool_lock(run_pool *p) {
  while (atomic_flag_test_and_set_explicit(&p->lock, memory_order_acquire)) sys_yield();
}
void run_pool_unlock(run_pool *p) { atomic_flag_clear_explicit(&p->lock, memory_order_release); }

/* ---- CPUs ---- */

void run_pool_look_around(run_pool *p, uint64_t now) {
  uint64_t last = atomic_load_explicit(&p->looked_ns, memory_order_relaxed);
  if (now - last < p->look_ns || !atomic_compare_exchange_strong(&p->looked_ns, &last, now)) return;
  uint32_t cpus[RUN_MOST_THREADS];
  const sys_share share = sys_process_share();
  run_pool_lock(p); /* a look that takes long meets the next one */
  if (share.cpus != p->share.cpus || share.mark != p->share.mark || share.quota_cpus != p->share.quota_cpus) {
    p->share = share;
    run_pool_settle_cpus(p, cpus, sys_process_cpus(cpus, RUN_MOST_THREADS));
  }
  run_pool_unlock(p);
}

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
  p->pins = sys_keeps_threads(p->capacity, p->cpu_count, p->share.quota_cpus);
  TRY(run_executor_open(p, o->name, err));
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
  p->named = o->cpus != NULL;
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
  run_executor_close(p);
  for (uint32_t i = 1; i < p->threads; i++) run_stack_close(&p->workers[i].scratch);
  run_crew_free(p->crew);
  free_pool(p);
}

/* ---- what others ask ---- */

uint32_t run_usable_threads(void) { return sys_threads_read(); }

uint32_t run_pool_threads(const run_pool *p) { return p->threads; }

void run_pool_count_caches(run_pool *p, const sys_topology *machine) {
  const uint32_t cpus = p->capacity < p->cpu_count ? p->capacity : p->cpu_count;
  const uint32_t caches = sys_topology_caches(machine, p->cpus, cpus);
  atomic_store(&p->caches, caches ? caches : 1);
}

uint32_t run_pool_caches(run_pool *p) {
  enum { FEW_CPUS = 4 }; /* lie in one L3 cache on any machine */
  const bool few = p->capacity <= FEW_CPUS || p->cpu_count <= FEW_CPUS;
  const uint32_t known = few ? 1 : atomic_load(&p->caches);
  base_arena *arena = known ? NULL : base_arena_new(&p->allocator);
  sys_topology machine;
  if (arena && sys_topology_read("", arena, &machine, NULL) == TD_OK) {
    run_pool_lock(p); /* who sees another affinity changes the CPUs */
    run_pool_count_caches(p, &machine);
    run_pool_unlock(p);
  }
  base_arena_free(arena);
  const uint32_t caches = known ? known : atomic_load(&p->caches);
  return caches ? caches : 1;
}

size_t run_pool_scratch(const run_pool *p) {
  size_t bytes = 0;
  for (uint32_t i = 1; i < p->threads; i++)
    bytes += atomic_load_explicit(&p->workers[i].scratch.peak, memory_order_relaxed);
  return bytes;
}

void run_pool_keep(run_pool *p, const sys_thread *thread) {
  run_pool_lock(p);
  if (p->named) sys_thread_keep(thread, p->cpus, p->cpu_count);
  run_pool_unlock(p);
}

void run_pool_set_interop(run_pool *p, uint32_t threads) {
  p->interop = threads < RUN_MOST_THREADS ? threads : RUN_MOST_THREADS;
}

run_crew *run_pool_crew(run_pool *p) {
  while (atomic_flag_test_and_set_explicit(&p->making_crew, memory_order_acquire)) sys_yield();
  run_crew *crew = atomic_load(&p->crew);
  if (!crew && p->interop > 1) {
    const run_helpers helpers = run_executor_helpers(p);
    crew = run_crew_new(p->interop - 1 - helpers.count, p->threads + helpers.count, &helpers, &p->allocator);
    atomic_store(&p->crew, crew);
  }
  atomic_flag_clear_explicit(&p->making_crew, memory_order_release);
  return crew;
}
