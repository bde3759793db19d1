/* crew.c -- threads that run tasks, the oldest first, from one queue. Tasks that somebody else has begun meanwhile
 * stand in it until they are met. The workers of a pool, while no step is shared with them, take from it too. */
#include "base/team.h"
#include "runtime/crew_priv.h"
#include "runtime/session_priv.h"

#include <string.h>

enum { SPIN_NS = 20000 };

typedef struct member {
  run_crew *crew;
  uint32_t thread;
  sys_thread handle;
} member;

struct run_crew {
  td_allocator allocator;
  uint32_t count, capacity;
  member *members;
  run_helpers helpers;
  atomic_flag lock; /* of the queue */
  run_task *first, *last;
  _Atomic uint32_t queued;       /* how many stand in it */
  _Atomic uint32_t news, asleep; /* tasks put so far, which is what members sleep on; members that do */
  _Atomic bool ends;
};

static void lock(run_crew *c) {
  while (atomic_flag_test_and_set_explicit(&c->lock, memory_order_acquire)) base_pause();
}
static void unlock(run_crew *c) { atomic_flag_clear_explicit(&c->lock, memory_order_release); }

/* Takes what stands behind `before` (NULL: first) out of the queue. */
static void unlink_task(run_crew *c, run_task *before, run_task *task) {
  if (before) before->next = task->next;
  else c->first = task->next;
  if (c->last == task) c->last = before;
  atomic_fetch_sub(&c->queued, 1);
}

/* One more thread for the session's tasks, if it may have it. With the lock. */
static bool join_session(run_session *s) {
  if (atomic_load(&s->tasks.helping) >= atomic_load(&s->tasks.most_helping)) return false;
  atomic_fetch_add(&s->tasks.helping, 1);
  return true;
}

/* Has whoever asks a thread of the session's already, or does it get one? */
static bool may_run(const run_task *task, const run_session *session) {
  return session ? task->session == session && task->free : join_session(task->session);
}

/* `session` NULL: any task of any that may have one more thread. */
static run_task *take(run_crew *c, const run_session *session) {
  run_task *found = NULL;
  lock(c);
  for (run_task *before = NULL, *task = c->first, *next; task && !found; task = next) {
    next = task->next;
    const bool waits = atomic_load_explicit(&task->state, memory_order_acquire) == RUN_TASK_QUEUED;
    if (waits && !may_run(task, session)) {
      before = task;
      continue;
    }
    if (waits && run_claim_task(task)) {
      found = task;
      task->helped = !session;
    } else if (waits && !session) {
      atomic_fetch_sub(&task->session->tasks.helping, 1);
    }
    unlink_task(c, before, task);
  }
  unlock(c);
  return found;
}

run_task *run_crew_take(run_crew *crew, const run_session *session) { return crew ? take(crew, session) : NULL; }

void run_crew_put(run_crew *c, run_task *task) {
  lock(c);
  task->next = NULL;
  if (c->last) c->last->next = task;
  else c->first = task;
  c->last = task;
  atomic_fetch_add(&c->queued, 1);
  unlock(c);
  atomic_fetch_add(&c->news, 1);
  if (atomic_load(&c->asleep)) sys_wake(&c->news);
  if (c->helpers.count) c->helpers.wake(c->helpers.user);
}

bool run_crew_waits(const run_crew *c, const uint32_t *tried) {
  return atomic_load(&c->queued) != 0 && atomic_load(&c->news) != *tried;
}

/* Who has run a task comes back for the next: nobody else need be told that its session has a thread to spare. */
bool run_crew_help(run_crew *c, uint32_t thread, uint32_t *tried) {
  const uint32_t seen = atomic_load(&c->news);
  run_task *task = take(c, NULL);
  if (task) run_execute_task(task, thread);
  else *tried = seen;
  return task != NULL;
}

void run_crew_forget(run_crew *c, const run_session *session) {
  lock(c);
  for (run_task *before = NULL, *task = c->first, *next; task; task = next) {
    next = task->next;
    if (task->session == session) unlink_task(c, before, task);
    else before = task;
  }
  unlock(c);
}

/* `asleep` rises before `news` is looked at once more, and who puts a task changes `news` first: one sees the other. */
static void rest(run_crew *c, uint32_t seen) {
  const uint64_t began = sys_clock_ns();
  while (sys_clock_ns() - began < SPIN_NS) {
    if (atomic_load(&c->news) != seen) return;
    base_pause();
  }
  atomic_fetch_add(&c->asleep, 1);
  if (atomic_load(&c->news) == seen) sys_wait(&c->news, seen);
  atomic_fetch_sub(&c->asleep, 1);
}

/* `news` is read before all that it tells of: whoever ends the crew sets `ends` first. */
static void work(void *user) {
  const member *m = user;
  for (;;) {
    const uint32_t seen = atomic_load(&m->crew->news);
    if (atomic_load(&m->crew->ends)) return;
    run_task *task = take(m->crew, NULL);
    if (task) run_execute_task(task, m->thread);
    else rest(m->crew, seen);
  }
}

run_crew *run_crew_new(uint32_t count, uint32_t first, const run_helpers *helpers, const td_allocator *allocator) {
  run_crew *c = base_alloc(allocator, sizeof *c);
  member *members = c ? base_alloc(allocator, (count + (size_t)1) * sizeof *members) : NULL;
  if (!members) {
    base_free(allocator, c, sizeof *c);
    return NULL;
  }
  memset(c, 0, sizeof *c);
  if (helpers) c->helpers = *helpers;
  c->allocator = *allocator;
  c->members = members;
  c->capacity = count;
  atomic_flag_clear(&c->lock);
  for (; c->count < count; c->count++) {
    members[c->count] = (member){.crew = c, .thread = first + c->count};
    if (sys_thread_start(&members[c->count].handle, work, &members[c->count], NULL) != TD_OK) break;
  }
  if (run_crew_size(c)) return c;
  run_crew_free(c);
  return NULL;
}

void run_crew_free(run_crew *c) {
  if (!c) return;
  atomic_store(&c->ends, true);
  atomic_fetch_add(&c->news, 1);
  sys_wake(&c->news);
  for (uint32_t i = 0; i < c->count; i++) sys_thread_join(&c->members[i].handle);
  const td_allocator allocator = c->allocator;
  base_free(&allocator, c->members, (c->capacity + (size_t)1) * sizeof *c->members);
  base_free(&allocator, c, sizeof *c);
}

uint32_t run_crew_size(const run_crew *c) { return c ? c->helpers.count + c->count : 0; }
