/* record.c -- see record.h. */
#include "bench/record.h"
#include "plan/bind.h"
#include "sys/topology.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOKS = 1000, LONG_NS = 20000 };

/* The names that the linker gives to what is wrapped, and to what wraps it. */
int64_t __real_base_call_take(const base_call *call, int64_t total);
int64_t __wrap_base_call_take(const base_call *call, int64_t total);
void __real_base_team_do(const base_call *call, base_piece_fn piece, const void *user);
void __wrap_base_team_do(const base_call *call, base_piece_fn piece, const void *user);
uint32_t __real_sys_cpu_now(void);
uint32_t __wrap_sys_cpu_now(void);
td_status __real_sys_topology_read(const char *root, base_arena *arena, sys_topology *topology, td_error *err);
td_status __wrap_sys_topology_read(const char *root, base_arena *arena, sys_topology *topology, td_error *err);

_Thread_local uint32_t record_cpu = UINT32_MAX;
_Thread_local const sys_topology *record_machine;
static _Thread_local recording *now; /* kernels know nothing of it */

void *record_get(size_t count, size_t bytes) {
  void *memory = calloc(count + 1, bytes);
  if (memory) return memory;
  fprintf(stderr, "bench_simulate: out of memory; ask for a smaller --batch or fewer --threads\n");
  exit(TD_NO_RESOURCE);
}

uint32_t __wrap_sys_cpu_now(void) { return record_cpu != UINT32_MAX ? record_cpu : __real_sys_cpu_now(); }

td_status __wrap_sys_topology_read(const char *root, base_arena *arena, sys_topology *topology, td_error *err) {
  if (!record_machine) return __real_sys_topology_read(root, arena, topology, err);
  *topology = *record_machine;
  return TD_OK;
}

/* ---- clocks ---- */

static uint64_t thread_clock_ns(void) {
  struct timespec at;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

/* That of the thread leaves interruptions out, but is a system call: it is for tasks that are long beside that. */
static uint64_t clock_ns(const recording *r) { return r->long_tasks ? thread_clock_ns() : sys_clock_ns(); }

/* Since `r->last_ns`, without what looking costs. */
static double passed_ns(const recording *r) {
  const double ns = (double)(clock_ns(r) - r->last_ns) - r->clock_ns[r->long_tasks];
  return ns > 0 ? ns : 0;
}

static void measure_clocks(recording *r) {
  for (int kind = 0; kind < 2; kind++) {
    r->clock_ns[kind] = 1e9;
    r->long_tasks = kind;
    for (int i = 0; i < LOOKS; i++) {
      const uint64_t began = clock_ns(r);
      r->clock_ns[kind] = fmin(r->clock_ns[kind], (double)(clock_ns(r) - began));
    }
  }
}

/* ---- what is wrapped ---- */

/* The least of all runs: other work on the machine only adds. */
static void keep_least(const recording *r, double *least, double ns) {
  if (!r->watched && (r->fresh || ns < *least)) *least = ns;
}

static void set_count(recording *r, int64_t count) {
  walk_call *c = &r->calls[r->at];
  if (!c->task_ns) {
    c->count = count;
    c->task_ns = record_get((size_t)count, sizeof *c->task_ns);
  } else if (c->count != count) {
    fprintf(stderr,
            "bench_simulate: step %u has %lld tasks, and had %lld in the run before; its sizes depend on data\n",
            c->step, (long long)count, (long long)c->count);
    exit(TD_UNSUPPORTED);
  }
}

/* The worker whose range has the task. */
static uint16_t owner_of(const walk_call *c, int64_t task) {
  const int64_t each = c->count / c->workers, more = c->count % c->workers, wide = more * (each + 1);
  return (uint16_t)(task < wide ? task / (each + 1) : more + (task - wide) / each);
}

enum { BLANK = 0xa5 }; /* hardly a kernel writes that eight times in a row */

/* A line is of who writes its first bytes: others may write the rest. */
static bool is_blank(const char *line) {
  uint64_t first;
  memcpy(&first, line, sizeof first);
  return first == 0x0101010101010101u * BLANK;
}

/* The first result, where its memory is no operand's. */
static const base_tensor *watched_result(const base_call *call) {
  const base_tensor *y = base_out(call, 0);
  if (!y || call->out[0]->kind != BASE_TENSOR || !y->data) return NULL;
  const char *first = y->data, *end = first + base_tensor_bytes(y);
  for (uint32_t i = 0; i < call->in_count; i++) {
    const base_tensor *x = base_in(call, i);
    const char *at = x ? x->data : NULL;
    if (at && at < end && at + base_tensor_bytes(x) > first) return NULL;
  }
  return y;
}

/* Lines that the last task has written are its worker's. */
static void see_lines(recording *r) {
  walk_call *c = &r->calls[r->at];
  if (!r->watched || !c->writers || r->task < 0 || c->rounds) return;
  for (size_t i = 0; i < c->lines; i++) {
    if (c->writers[i] != WALK_NOBODY || is_blank(r->result + i * WALK_LINE)) continue;
    c->writers[i] = owner_of(c, r->task);
    if (r->counted) c->task_ns[r->task]++;
  }
}

static void count_none(walk_call *c, bool writers) {
  for (int64_t i = 0; i < c->count; i++) c->task_ns[i] = !writers;
  c->before_ns = c->after_ns = 0;
}

static void watch_call(recording *r, const base_call *call) {
  walk_call *c = &r->calls[r->at];
  const base_tensor *y = r->watched && c->workers > 1 && c->count > 1 ? watched_result(call) : NULL;
  if (r->watched && r->counted) count_none(c, y != NULL);
  if (!y) return;
  r->result = y->data;
  c->lines = base_tensor_bytes(y) / WALK_LINE;
  c->writers = record_get(c->lines, sizeof *c->writers);
  memset(c->writers, 0xff, c->lines * sizeof *c->writers); /* WALK_NOBODY */
  memset(y->data, BLANK, c->lines * WALK_LINE);
}

/* Tasks in their order, as one thread takes them. */
int64_t __wrap_base_call_take(const base_call *call, int64_t total) {
  recording *r = now;
  if (!r || call->lanes != r->lanes) return __real_base_call_take(call, total);
  walk_call *c = &r->calls[r->at];
  const double ns = passed_ns(r);
  if (r->task < 0) {
    set_count(r, total);
    keep_least(r, &c->before_ns, ns);
  } else {
    keep_least(r, &c->task_ns[r->task], ns);
    see_lines(r);
  }
  r->task++;
  r->last_ns = clock_ns(r);
  return r->task;
}

/* Each worker's pieces of all rounds are one task; those of a call that has tasks are of the one it is at. */
void __wrap_base_team_do(const base_call *call, base_piece_fn piece, const void *user) {
  recording *r = now;
  if (!r || call->lanes != r->lanes) {
    __real_base_team_do(call, piece, user);
    return;
  }
  walk_call *c = &r->calls[r->at];
  if (r->task >= 0 && !r->in_rounds) {
    for (uint32_t i = 0; i < call->workers; i++) piece(user, i, call->workers);
    return;
  }
  if (r->task < 0) {
    set_count(r, call->workers);
    memset(c->task_ns, 0, call->workers * sizeof *c->task_ns);
    c->rounds = 0;
    keep_least(r, &c->before_ns, passed_ns(r));
    r->task = 0;
    r->in_rounds = true;
  }
  for (uint32_t i = 0; i < call->workers; i++) {
    r->last_ns = clock_ns(r);
    piece(user, i, call->workers);
    c->task_ns[i] += passed_ns(r);
  }
  c->rounds++;
  r->last_ns = clock_ns(r);
}

/* ---- calls ---- */

static bool is_long(const walk_call *c) {
  double ns = 0;
  for (int64_t i = 0; i < c->count; i++) ns += c->task_ns[i];
  return ns > LONG_NS * (double)c->count;
}

static void begin_call(recording *r, uint32_t step, uint32_t workers) {
  const bool seen = r->at < r->count;
  if (r->count == r->capacity) {
    walk_call *calls = record_get(2 * (size_t)r->capacity, sizeof *calls);
    memcpy(calls, r->calls, r->count * sizeof *calls);
    free(r->calls);
    r->calls = calls;
    r->capacity *= 2;
  }
  walk_call *c = &r->calls[r->at];
  r->fresh = r->runs < 2;
  r->long_tasks = seen && is_long(c);
  if (!seen) {
    *c = (walk_call){.step = step, .workers = workers};
    r->count++;
  } else if (c->step != step || c->workers != workers) {
    fprintf(stderr, "bench_simulate: step %u ran where step %u did in the run before; its path depends on data\n", step,
            c->step);
    exit(TD_UNSUPPORTED);
  }
  r->task = -1;
  r->in_rounds = false;
}

/* What took no task is one. */
static void end_call(recording *r) {
  walk_call *c = &r->calls[r->at];
  const double ns = passed_ns(r);
  if (r->task < 0) {
    set_count(r, 1);
    keep_least(r, &c->task_ns[0], ns);
  } else {
    keep_least(r, &c->after_ns, ns);
  }
  r->task = -1;
  r->at++;
}

static td_status call_shared(recording *r, const base_call *call) {
  const uint32_t threads = r->session->bounds.active->threads[r->step];
  base_call own = *call;
  own.lanes = r->lanes; /* of one thread, too: its time is that of its tasks */
  if (threads > 1) {
    own.worker = 0;
    own.workers = threads;
  }
  begin_call(r, r->step, threads ? threads : 1);
  watch_call(r, call);
  const uint64_t began = sys_clock_ns();
  r->last_ns = clock_ns(r);
  const td_status status = r->real[r->step](&own);
  end_call(r);
  r->spent_ns += (double)(sys_clock_ns() - began);
  return status;
}

/* ---- shares of a batch: each is a task, of all steps ---- */

static const plan_shares *shares_of(const recording *r, uint32_t *number) {
  const plan_binding *b = &r->session->bounds.active->binding;
  const uint32_t parts = b->parts_of[r->step];
  for (uint32_t i = 0; parts != PLAN_NONE && i < b->shares.count; i++) {
    *number = i;
    if (parts >= b->shares.at[i].first && parts < b->shares.at[i].end) return &b->shares.at[i];
  }
  return NULL;
}

/* Calls of the share that begins at sample `first`. */
static uint32_t calls_of(const recording *r, const plan_shares *shares, int64_t first) {
  const int64_t samples = base_min_i64(shares->share, shares->samples - first);
  uint32_t calls = 0;
  for (uint32_t i = shares->first; i < shares->end; i++) {
    const plan_parts *p = &r->session->bounds.active->binding.parts.at[i];
    uint32_t steps = 0;
    for (uint32_t k = p->first; k < p->end; k++) steps += r->session->main.steps[k].kind == PLAN_CALL;
    calls += steps * (uint32_t)((samples - 1) / p->part + 1);
  }
  return calls;
}

static td_status call_in_share(recording *r, const plan_shares *shares, uint32_t number, const base_call *call) {
  const int64_t total = (shares->samples - 1) / shares->share + 1;
  if (!r->left && r->task < 0) {
    begin_call(r, r->steps + number, r->threads);
    set_count(r, total);
    r->task = 0;
  }
  if (!r->left) {
    r->left = calls_of(r, shares, r->task * shares->share);
    r->share_ns = 0;
  }
  const uint64_t began = sys_clock_ns();
  r->last_ns = clock_ns(r);
  const td_status status = r->real[r->step](call);
  r->share_ns += passed_ns(r);
  r->spent_ns += (double)(sys_clock_ns() - began);
  if (--r->left) return status;
  keep_least(r, &r->calls[r->at].task_ns[r->task], r->share_ns);
  if (++r->task < total) return status;
  r->task = -1;
  r->at++;
  return status;
}

/* In the place of a step's function. */
static td_status call_step(const base_call *call) {
  uint32_t number;
  const plan_shares *shares = shares_of(now, &number);
  return shares ? call_in_share(now, shares, number, call) : call_shared(now, call);
}

/* ---- runs ---- */

static void enter(void *user, uint32_t thread, uint32_t step) {
  recording *r = user;
  (void)thread;
  r->step = step - r->session->plans.first_step;
}

void record_open(recording *r, run_session *s, uint32_t threads) {
  *r = (recording){.session = s, .threads = threads, .capacity = 64, .steps = s->plan->steps.count};
  r->calls = record_get(r->capacity, sizeof *r->calls);
  r->real = record_get(r->steps, sizeof *r->real);
  r->lanes = aligned_alloc(_Alignof(base_lane), threads * sizeof *r->lanes);
  if (!r->lanes) exit(TD_NO_RESOURCE);
  memset(r->lanes, 0, threads * sizeof *r->lanes);
  for (uint32_t i = 0; i < r->steps; i++) {
    r->real[i] = s->main.steps[i].run;
    if (s->main.steps[i].kind == PLAN_CALL) s->main.steps[i].run = call_step;
  }
  measure_clocks(r);
  s->watch.observer = (td_observer){.size = sizeof(td_observer), .user = r, .enter = enter};
  s->watch.observed = true;
}

void record_begin(recording *r) {
  r->at = 0;
  r->task = -1;
  r->spent_ns = 0;
  now = r;
}

void record_end(recording *r) {
  now = NULL;
  r->runs++;
  r->watched = false;
}

void record_watch(recording *r) { r->watched = true; }

void record_count(recording *r) { r->watched = r->counted = true; }

void record_stop(recording *r) {
  for (uint32_t i = 0; i < r->steps; i++) r->session->main.steps[i].run = r->real[i];
  r->session->watch.observed = false;
  free(r->lanes);
  free(r->real);
  r->lanes = NULL;
  r->real = NULL;
}

void record_free(recording *r) {
  for (uint32_t i = 0; i < r->count; i++) {
    free(r->calls[i].task_ns);
    free(r->calls[i].writers);
  }
  free(r->calls);
}
