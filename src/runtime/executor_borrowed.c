/* executor_borrowed.c -- pools whose threads belong to OpenMP or TBB, which the program around may use for its own work
 * as well. Each shared step is a parallel region of theirs; no thread waits for us between two of them, none is kept on
 * a CPU, and which runs a worker's part is theirs to say. Forked tasks run on a crew's own threads. */
#include "runtime/executor_priv.h"
#include "runtime/parallel_priv.h"

td_status run_executor_open(run_pool *p, const char *name, td_error *err) {
  (void)name;
  (void)err;
  p->pins = false;
  for (p->threads = 1; p->threads < p->capacity; p->threads++)
    if (run_stack_open(&p->workers[p->threads].scratch, NULL) != TD_OK) break;
  return TD_OK;
}

void run_executor_close(run_pool *p) { (void)p; }

void run_executor_rouse(run_pool *p) { (void)p; }

typedef struct share {
  const run_team *team;
  run_worker *members[RUN_MOST_THREADS];
  char begins, ends; /* for the sanitizer */
} share;

static void run_part(void *user, uint32_t i) {
  share *s = user;
  RUN_TAKES(&s->begins);
  run_worker *w = s->members[i];
  w->status = s->team->job(s->team->user, w, s->team->workers);
  RUN_GIVES(&s->ends);
}

td_status run_executor_share(run_team *t, run_worker **failed) {
  share s;
  s.team = t;
  s.members[0] = &t->leader;
  for (uint32_t i = 1; i < t->pool->threads; i++) {
    run_worker *w = &t->pool->workers[i];
    if (atomic_load_explicit(&w->team, memory_order_relaxed) != t || w->index >= t->workers) continue;
    w->status = TD_OK;
    s.members[w->index] = w;
  }
  RUN_GIVES(&s.begins);
  if (t->workers > 1) run_parallel(t->workers, run_part, &s);
  else run_part(&s, 0);
  RUN_TAKES(&s.ends);
  *failed = NULL;
  for (uint32_t i = t->workers; i-- > 1;)
    if (s.members[i]->status != TD_OK) *failed = s.members[i];
  return t->leader.status;
}

run_helpers run_executor_helpers(run_pool *p) {
  (void)p;
  return (run_helpers){0};
}

bool run_executor_looks(const run_pool *p) {
  (void)p;
  return false;
}
