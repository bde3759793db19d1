/* team.c -- who has which thread of a pool.
 *
 * The pool is the one owner of its cores. While one team runs, it has all that it takes. While several run, each has
 * its caller's thread, and of the threads that are left a share by weight: so no more threads compute than there are
 * cores, unless there are more callers. A team that has too many gives them up at its next shared step, one that has
 * too few takes those that nobody has, or whose team does not run; it keeps them from one run to the next until
 * somebody else wants them. Nobody waits for a thread. What a session forks (crew.c) is run by no more threads than its
 * team has.
 *
 * Where runs of several sessions alternate quickly, a thread that went to and fro would be woken for each of them: only
 * when a team has been alone for a while does it take what others had. */
#include <string.h>

#include "runtime/executor_priv.h"

enum { CALM_NS = 300000, STANDARD_WEIGHT = 1 };

/* Teams that their weights would give more than the most that they take have that, and leave the rest to others. Of
 * what is shared by weight: threads beside the teams' own, and the weights of those that share them. */
static void sate(const run_pool *p, uint64_t *rest, uint64_t *weight) {
  for (run_team *t = p->teams; t; t = t->next) t->sated = false;
  for (bool again = true; again;) {
    again = false;
    for (run_team *t = p->teams; t; t = t->next) {
      if (t->sated || (t->most - 1) * *weight > t->weight * *rest) continue;
      t->sated = again = true;
      *rest -= t->most - 1;
      *weight -= t->weight;
    }
  }
}

/* Each has one thread. Of the others those up to the line that its weight draws, less those before it. */
static uint32_t share_of(const run_team *t) {
  const run_pool *p = t->pool;
  const uint32_t count = atomic_load_explicit(&p->active, memory_order_relaxed), limit = p->limit;
  if (count < 2 || limit <= count) return count < 2 ? limit : 1;
  uint64_t before = 0, rest = limit - count, weight = p->weight;
  sate(p, &rest, &weight);
  if (t->sated) return t->most;
  for (const run_team *other = p->teams; other != t; other = other->next) before += other->sated ? 0 : other->weight;
  return 1 + (uint32_t)((before + t->weight) * rest / weight - before * rest / weight);
}

static void give(run_worker *w, run_team *to) {
  run_team *from = atomic_load_explicit(&w->team, memory_order_relaxed);
  if (from && from != to) from->seen = 0;
  atomic_store_explicit(&w->team, to, memory_order_relaxed);
}

/* Nobody's that others who run now have no share in, or one whose team may not come back soon. */
static bool can_take(const run_worker *w, bool alone, bool calm) {
  const run_team *owner = atomic_load_explicit(&w->team, memory_order_relaxed);
  return owner ? !owner->runs && calm : !alone || calm;
}

static bool is_calm(const run_pool *p) { return !p->crowd_ns || sys_clock_ns() - p->crowd_ns >= CALM_NS; }

/* With the lock, between jobs. */
static void settle(run_team *t) {
  run_pool *p = t->pool;
  const uint32_t share = share_of(t), target = share < t->most ? share : t->most;
  uint32_t own = 1;
  for (uint32_t i = 1; i < p->threads; i++) own += atomic_load_explicit(&p->workers[i].team, memory_order_relaxed) == t;
  const bool calm = own < target && is_calm(p), alone = atomic_load_explicit(&p->active, memory_order_relaxed) < 2;
  t->count = 1;
  for (uint32_t i = 1; i < p->threads; i++) {
    run_worker *w = &p->workers[i];
    if (own < target && can_take(w, alone, calm)) {
      give(w, t);
      own++;
    }
    if (atomic_load_explicit(&w->team, memory_order_relaxed) != t) continue;
    if (t->count < target) w->index = t->count++;
    else give(w, NULL);
  }
  t->seen = t->count == target ? atomic_load_explicit(&p->changes, memory_order_relaxed) : 0;
}

/* The caller computes too: a worker that is kept on its CPU goes where there is none. */
static void make_way(run_team *t) {
  run_pool *p = t->pool;
  const uint32_t here = p->pins ? sys_cpu_now() : UINT32_MAX, vacant = p->workers[0].cpu;
  if (here == UINT32_MAX || here == vacant) return;
  for (uint32_t i = 1; i < p->threads; i++) {
    run_worker *w = &p->workers[i];
    if (w->cpu != here || atomic_load_explicit(&w->team, memory_order_relaxed) != t) continue;
    if (!sys_thread_move(&w->thread, vacant)) return;
    w->cpu = vacant;
    p->workers[0].cpu = here;
    return;
  }
}

void run_team_enter(run_team *t, bool wake) {
  run_pool *p = t->pool;
  run_pool_lock(p);
  run_team **last = &p->teams;
  while (*last) last = &(*last)->next;
  *last = t;
  t->next = NULL;
  t->runs = true;
  p->weight += t->weight;
  const bool alone = atomic_fetch_add(&p->active, 1) == 0;
  const uint32_t changes = atomic_fetch_add(&p->changes, 1) + 1;
  if (!alone) p->crowd_ns = sys_clock_ns();
  if (alone && t->seen && t->count == (p->limit < t->most ? p->limit : t->most)) t->seen = changes; /* as it was */
  else settle(t);
  make_way(t);
  run_pool_unlock(p);
  if (wake && t->count > 1) run_executor_rouse(p);
}

void run_team_leave(run_team *t) {
  run_pool *p = t->pool;
  run_pool_lock(p);
  run_team **at = &p->teams;
  while (*at != t) at = &(*at)->next;
  *at = t->next;
  t->runs = false;
  p->weight -= t->weight;
  if (atomic_fetch_sub(&p->active, 1) > 1) p->crowd_ns = sys_clock_ns();
  atomic_fetch_add(&p->changes, 1);
  run_pool_unlock(p);
}

uint32_t run_team_threads(run_team *t) {
  run_pool *p = t->pool;
  if (!run_executor_looks(p)) run_pool_look_around(p, sys_clock_ns());
  if (t->seen != atomic_load_explicit(&p->changes, memory_order_relaxed)) {
    run_pool_lock(p);
    settle(t);
    run_pool_unlock(p);
  }
  return t->count;
}

/* What lanes hold of older jobs counts for nothing, as long as numbers of jobs differ. */
static void next_job(run_team *t) {
  if (++t->jobs < BASE_JOBS) return;
  t->jobs = 1;
  for (uint32_t i = 0; i < t->pool->capacity; i++) {
    atomic_store_explicit(&t->lanes[i].word, 0, memory_order_relaxed);
    atomic_store_explicit(&t->lanes[i].piece, 0, memory_order_relaxed);
  }
}

td_status run_team_share(run_team *t, uint32_t workers, run_job job, void *user, td_error *err) {
  BASE_ASSERT(job && workers > 0 && t->runs);
  const uint32_t most = run_team_threads(t);
  t->workers = workers < most ? workers : most;
  t->job = job;
  t->user = user;
  next_job(t);
  run_worker *failed;
  const td_status status = run_executor_share(t, &failed);
  if (status != TD_OK || !failed) return status;
  *err = failed->err;
  return failed->status;
}

base_call run_team_call(const run_worker *worker, uint32_t workers, const base_call *step) {
  const run_team *t = atomic_load_explicit(&worker->team, memory_order_relaxed);
  base_call call = *step;
  call.worker = worker->index;
  call.workers = workers;
  call.job = t->jobs;
  call.lanes = t->lanes;
  return call;
}

td_status run_team_new(run_pool *pool, uint32_t weight, run_team **team, td_error *err) {
  run_team *t = base_alloc(&pool->allocator, sizeof *t);
  base_lane *lanes = base_alloc(&pool->allocator, pool->capacity * sizeof *lanes);
  if (!t || !lanes) {
    base_free(&pool->allocator, t, sizeof *t);
    base_free(&pool->allocator, lanes, pool->capacity * sizeof *lanes);
    return base_no_memory(err, "a session");
  }
  memset(t, 0, sizeof *t);
  memset(lanes, 0, pool->capacity * sizeof *lanes);
  t->pool = t->leader.pool = pool;
  atomic_store(&t->leader.team, t);
  t->weight = weight ? weight : STANDARD_WEIGHT;
  t->most = pool->threads;
  t->count = 1;
  t->lanes = lanes;
  *team = t;
  return TD_OK;
}

void run_team_free(run_team *t) {
  if (!t) return;
  run_pool *p = t->pool;
  run_pool_lock(p);
  for (uint32_t i = 1; i < p->threads; i++)
    if (atomic_load_explicit(&p->workers[i].team, memory_order_relaxed) == t) give(&p->workers[i], NULL);
  run_pool_unlock(p);
  base_free(&p->allocator, t->lanes, p->capacity * sizeof *t->lanes);
  base_free(&p->allocator, t, sizeof *t);
}

/* ---- guests: teams of their caller alone ---- */

td_status run_guest_new(run_pool *pool, run_guest **guest, td_error *err) {
  TRY(run_team_new(pool, STANDARD_WEIGHT, guest, err));
  (*guest)->most = 1;
  return TD_OK;
}

void run_guest_enter(run_guest *guest) {
  if (guest) run_team_enter(guest, false);
}

void run_guest_leave(run_guest *guest) {
  if (guest) run_team_leave(guest);
}

void run_guest_free(run_guest *guest) { run_team_free(guest); }
