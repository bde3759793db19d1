/* shares.c -- threads that take shares of a batch through steps in parts, each for itself.
 *
 * A thread needs nobody else from the first step of its share to the last, and what it writes it alone reads again: it
 * works in memory of its own, on values and calls of its own. The session's values stand still meanwhile: they say
 * where the memory of all samples, or of the first thread, begins. */
#include "runtime/parts_priv.h"
#include "runtime/steps_priv.h"

#include <string.h>

/* What a thread has for itself. */
typedef struct desk {
  run_worker *worker; /* who sits there; NULL: the caller, or nobody yet */
  size_t memory;      /* from the first thread's to its own */
  run_stack *scratch;
  td_error *err;
  base_value *values;    /* per slice of all parts */
  base_value **pointers; /* operands of all steps */
  base_call *calls;      /* per step */
  uint64_t *spent;       /* per step: ns, in the job at hand */
  uint64_t end_ns;       /* when it was through, where somebody observes */
  uint32_t thread;
} desk;

struct run_shares {
  const plan_shares *plan;
  const plan_parts *parts; /* the first of them */
  uint32_t first, end;     /* steps */
  desk *desks;             /* per thread */
};

/* ---- once per binding ---- */

/* Points a call's operands to the thread's values, where it has any. `at`: room for them, moved on. */
static base_value **point(const run_session *s, const uint32_t *slots, uint32_t count, base_value *const *own,
                          base_value ***at) {
  base_value **pointers = *at;
  for (uint32_t i = 0; i < count; i++)
    pointers[i] = slots[i] == PLAN_NONE ? NULL : own[slots[i]] ? own[slots[i]] : &s->main.values[slots[i]];
  *at += count;
  return pointers;
}

/* `own`: scratch, per slot. Slots of several parts have a value for each. */
static void prepare_calls(const run_session *s, const run_shares *h, desk *d, base_value **own) {
  const plan_exe *plan = s->plan;
  base_value **at = d->pointers, *value = d->values;
  for (const plan_parts *p = h->parts; p < h->parts + (h->plan->end - h->plan->first); p++) {
    memset(own, 0, plan->slots.count * sizeof *own);
    for (uint32_t i = 0; i < p->slice_count; i++) own[p->slices[i].slot] = value++;
    for (uint32_t i = p->first; i < p->end; i++) {
      const plan_step *step = &plan->steps.at[i];
      base_call *call = &d->calls[i - h->first];
      *call = s->main.steps[i].call;
      call->in = (const base_value *const *)point(s, plan->operands.at + step->in, step->in_count, own, &at);
      call->out = point(s, plan->operands.at + step->out, step->out_count, own, &at);
    }
  }
}

/* The first thread is the session's, the others are those of its team, which change. */
static void seat(const run_shares *h, desk *d, run_worker *worker) {
  if (d->worker == worker) return;
  d->worker = worker;
  d->scratch = &worker->scratch;
  d->err = &worker->err;
  for (uint32_t i = 0; i < h->end - h->first; i++) run_give_call(&d->calls[i], worker);
}

static td_status prepare_desk(run_session *s, run_shares *h, uint32_t thread, base_value **own, base_arena *arena,
                              td_error *err) {
  desk *d = &h->desks[thread];
  size_t values = 0, pointers = 0, steps = h->end - h->first;
  for (uint32_t i = 0; i < h->plan->end - h->plan->first; i++) values += h->parts[i].slice_count;
  for (uint32_t i = h->first; i < h->end; i++)
    pointers += s->plan->steps.at[i].in_count + s->plan->steps.at[i].out_count;
  *d = (desk){.thread = thread,
              .memory = thread * h->plan->own_bytes,
              .scratch = &s->main.scratch,
              .err = &s->main.error,
              .values = base_new(arena, base_value, values + 1),
              .pointers = base_new(arena, base_value *, pointers + 1),
              .calls = base_new(arena, base_call, steps),
              .spent = base_new(arena, uint64_t, steps)};
  if (!d->values || !d->pointers || !d->calls || !d->spent) return base_no_memory(err, "a binding");
  prepare_calls(s, h, d, own);
  return TD_OK;
}

td_status run_prepare_shares(run_session *s, run_bound *bound, td_error *err) {
  const plan_binding *b = &bound->binding;
  if (!b->shares.count) return TD_OK;
  const uint32_t threads = run_most_threads(s);
  base_value **own = base_new(bound->arena, base_value *, s->plan->slots.count);
  bound->shares = base_new(bound->arena, run_shares, b->shares.count);
  if (!own || !bound->shares) return base_no_memory(err, "a binding");
  for (uint32_t i = 0; i < b->shares.count; i++) {
    run_shares *h = &bound->shares[i];
    const plan_shares *plan = &b->shares.at[i];
    *h = (run_shares){.plan = plan,
                      .parts = &b->parts.at[plan->first],
                      .first = b->parts.at[plan->first].first,
                      .end = b->parts.at[plan->end - 1].end,
                      .desks = base_new(bound->arena, desk, threads)};
    if (!h->desks) return base_no_memory(err, "a binding");
    for (uint32_t k = 0; k < threads; k++) TRY(prepare_desk(s, h, k, own, bound->arena, err));
  }
  bound->most_threads = (uint16_t)threads;
  return TD_OK;
}

void run_take_shared_code(run_session *s, run_bound *bound) {
  const uint32_t threads = bound->binding.shares.count ? run_most_threads(s) : 0;
  for (uint32_t i = 0; i < bound->binding.shares.count; i++) {
    const run_shares *h = &bound->shares[i];
    for (uint32_t d = 0; d < threads; d++)
      for (uint32_t k = h->first; k < h->end; k++) h->desks[d].calls[k - h->first].code = s->main.steps[k].call.code;
  }
}

const run_shares *run_shares_at(const run_session *s, uint32_t parts) {
  const plan_binding *b = &s->bounds.active->binding;
  for (uint32_t i = 0; i < b->shares.count; i++)
    if (parts >= b->shares.at[i].first && parts < b->shares.at[i].end) return &s->bounds.active->shares[i];
  return NULL;
}

/* ---- a run ---- */

typedef struct job {
  run_session *session;
  const run_shares *shares;
} job;

/* The values of a part's slices: samples from `at` on of the share that begins at `first`. */
static void slice(const run_session *s, const plan_parts *p, const desk *d, base_value *values, int64_t first,
                  int64_t at, int64_t samples) {
  for (uint32_t i = 0; i < p->slice_count; i++) {
    const plan_slice *piece = &p->slices[i];
    const int64_t skip = piece->extent == PLAN_ALL ? first + at : piece->extent == PLAN_ONE_SHARE ? at : 0;
    base_tensor *t = &values[i].tensor;
    values[i] = s->main.values[piece->slot];
    t->dims[0] = samples * piece->rows;
    if (piece->own) t->data = (char *)t->data + d->memory;
    if (skip) t->data = base_at(t, skip * piece->rows * t->strides[0]);
  }
}

static td_status call_steps(const job *j, const plan_parts *p, desk *d) {
  const run_session *s = j->session;
  for (uint32_t i = p->first; i < p->end; i++) {
    const uint32_t k = i - j->shares->first;
    if (s->main.steps[i].kind != PLAN_CALL) continue;
    TRY(run_go_on(s, i, d->err));
    const td_status status = run_function(s, i, &d->calls[k], d->scratch, d->thread, &d->spent[k]);
    if (status != TD_OK) return run_name_step(s->plan, i, status, d->err);
  }
  return TD_OK;
}

/* Samples [first, first + the share's) through all parts. */
static td_status run_share(const job *j, desk *d, int64_t first) {
  const plan_shares *plan = j->shares->plan;
  const int64_t left = plan->samples - first, samples = plan->share < left ? plan->share : left;
  base_value *values = d->values;
  for (uint32_t i = 0; i < plan->end - plan->first; i++) {
    const plan_parts *p = &j->shares->parts[i];
    for (int64_t at = 0; at < samples; at += p->part) {
      slice(j->session, p, d, values, first, at, p->part < samples - at ? p->part : samples - at);
      TRY(call_steps(j, p, d));
    }
    values += p->slice_count;
  }
  return TD_OK;
}

/* The shares that a thread comes to. */
static td_status run_thread(const job *j, uint32_t thread, const base_call *lanes) {
  const plan_shares *plan = j->shares->plan;
  const int64_t total = (plan->samples - 1) / plan->share + 1;
  desk *d = &j->shares->desks[thread];
  memset(d->spent, 0, (j->shares->end - j->shares->first) * sizeof *d->spent);
  for (int64_t t = base_call_first(lanes, total); t < total; t = base_call_next(lanes, t, total))
    TRY(run_share(j, d, t * plan->share));
  if (j->session->watch.observed) d->end_ns = sys_clock_ns();
  return TD_OK;
}

static td_status run_worker_thread(void *user, run_worker *worker, uint32_t workers) {
  const base_call lanes = run_team_call(worker, workers, &(base_call){0});
  const job *j = user;
  if (worker->index) seat(j->shares, &j->shares->desks[worker->index], worker);
  return run_thread(j, worker->index, &lanes);
}

/* What all threads computed of step `i`, and how much more an even part of it is than the caller's own. */
static double shared_ns(const run_shares *h, uint32_t threads, uint32_t i, double *lack) {
  double all = 0;
  for (uint32_t k = 0; k < threads; k++) all += (double)h->desks[k].spent[i - h->first];
  *lack = all / threads - (double)h->desks[0].spent[i - h->first];
  if (*lack < 0) *lack = 0;
  return all;
}

/* A step takes what the caller's thread computed of it, and a part of that thread's wait for the others: first what it
 * lacks of an even part, then by what all threads computed. So steps add up to the time that passed. */
static void add_up(run_session *s, const run_shares *h, uint32_t threads) {
  const double waited = (double)(sys_clock_ns() - h->desks[0].end_ns);
  double all = 0, lacks = 0, lack;
  for (uint32_t i = h->first; i < h->end; i++) {
    all += shared_ns(h, threads, i, &lack);
    lacks += lack;
  }
  const double first = lacks > waited ? waited / lacks : 1, rest = all > 0 ? (waited - first * lacks) / all : 0;
  for (uint32_t i = h->first; i < h->end; i++) {
    const double ns = shared_ns(h, threads, i, &lack) * rest + first * lack;
    s->watch.spent[i] = h->desks[0].spent[i - h->first] + (ns > 0 ? (uint64_t)ns : 0);
  }
}

td_status run_all_shares(run_session *s, const run_shares *h, uint32_t *end) {
  job j = {s, h};
  *end = h->end;
  TRY(run_prepare_range(s, h->first, h->end));
  run_range_begins(s, h->first, h->end);
  const uint32_t threads = run_team_threads(s->threads.team);
  TRY(threads > 1 ? run_team_share(s->threads.team, threads, run_worker_thread, &j, &s->main.error)
                  : run_thread(&j, 0, &(base_call){0}));
  if (s->watch.observed) add_up(s, h, threads);
  run_range_ends(s, h->first, h->end);
  return TD_OK;
}
