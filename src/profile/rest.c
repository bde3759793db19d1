/* rest.c -- the time of threads in which they computed no step.
 *
 * Sums tell how much of it fell on steps that threads share. Whether it was before a thread's part or behind it, only
 * the parts themselves tell: those that the rings kept stand for all. */
#include "profile/profile_priv.h"

typedef struct edges {
  double late_ns, early_ns;
} edges;

/* Parts of a worker against those of the caller that are parts of the same step. Both stand in the order of time. */
static void add_edges(const prof_recorder *r, const prof_thread *worker, edges *e) {
  const prof_thread *caller = &r->threads[0];
  uint64_t at = prof_first_record(r, caller);
  for (uint64_t i = prof_first_record(r, worker); i < worker->written; i++) {
    const prof_record *w = prof_record_at(r, worker, i);
    while (at < caller->written && prof_record_at(r, caller, at)->end_ns < w->begin_ns) at++;
    if (at == caller->written) return;
    const prof_record *c = prof_record_at(r, caller, at);
    if (c->step != w->step || c->run != w->run) continue;
    if (w->begin_ns > c->begin_ns) e->late_ns += (double)(w->begin_ns - c->begin_ns);
    e->early_ns += w->end_ns < c->end_ns ? (double)(c->end_ns - w->end_ns) : (double)(w->end_ns - c->end_ns);
  }
}

static double at_least_0(double x) { return x > 0 ? x : 0; }

void prof_add_rest(const prof_recorder *r, td_profile_totals *t) {
  const uint32_t sharing = r->options.threads - r->options.crew;
  double waited_ns = 0, lost_ns = 0, alone_ns = 0, tasks_ns = 0;
  edges e = {0};
  for (uint32_t i = 0; i < r->options.steps; i++) {
    const double ns = (double)r->totals[i].caller_ns, self_ns = (double)r->threads[0].busy_ns[i];
    double busy_ns = 0;
    for (uint32_t k = 0; k < sharing; k++) busy_ns += (double)r->threads[k].busy_ns[i];
    for (uint32_t k = sharing; k < r->options.threads; k++) tasks_ns += (double)r->threads[k].busy_ns[i];
    if (busy_ns > self_ns) {
      waited_ns += ns - self_ns;
      lost_ns += (double)t->threads * ns - busy_ns;
    } else {
      alone_ns += ((double)t->threads - 1) * ns;
    }
  }
  t->single_ms = at_least_0(alone_ns - tasks_ns) * 1e-6;
  for (uint32_t i = 1; i < r->options.threads; i++) add_edges(r, &r->threads[i], &e);
  t->wait_ms = at_least_0(waited_ns * 1e-6);
  if (t->wait_ms > at_least_0(t->run_ms - t->self_ms)) t->wait_ms = at_least_0(t->run_ms - t->self_ms);
  t->between_ms = t->run_ms - t->self_ms - t->wait_ms;
  const double lost_ms = at_least_0(lost_ns * 1e-6), edge_ns = e.late_ns + e.early_ns;
  t->early_ms = edge_ns > 0 ? lost_ms * e.early_ns / edge_ns : 0;
  t->late_ms = lost_ms - t->early_ms;
}
