/* walk.c -- see walk.h. Workers take tasks by the library's own base_call_take, each when it is free. Orders go down
 * the tree and ends come up it as in runtime/executor_native.c. */
#include "bench/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double idle_share = 0.15; /* of cores, from which on a step is named */
static const double worth = 0.25;      /* a step that gains less of what cores are added stops scaling */

typedef struct worker {
  base_call call;
  double ordered, begun, at; /* when it was told, has told those below it, is free for the next task */
  bool ended;
} worker;

typedef struct walk {
  const walk_machine *machine;
  const walk_call *call;
  worker *workers;
  uint32_t count; /* that take part */
  double cold_ns; /* of a worker's first task: the first of all shows what it is to find nothing in the caches */
  double busy_ns;
} walk;

/* ---- orders and ends ---- */

/* Orders to those below `above`, from `at` on; workers who take no part stand in the tree like glass. When they are
 * written. */
static double tell(walk *w, uint32_t above, double at) {
  for (uint32_t i = w->machine->workers[above].below; i != WALK_NONE; i = w->machine->workers[i].beside) {
    if (i >= w->count) at = tell(w, i, at);
    else w->workers[i].ordered = at += w->machine->line_ns;
  }
  return at;
}

/* Each stands behind those above it: trees of pools are planted so. */
static void begin_all(walk *w) {
  for (uint32_t i = 0; i < w->count; i++) {
    worker *self = &w->workers[i];
    self->begun = tell(w, i, i ? self->ordered + w->machine->tell_ns : 0);
    self->at = self->begun + w->call->before_ns;
  }
}

/* When worker `i` and all below it who have begun in time are through; others have missed it. */
static double end_of(const walk *w, uint32_t i, double at) {
  for (uint32_t k = w->machine->workers[i].below; k != WALK_NONE; k = w->machine->workers[k].beside) {
    if (k >= w->count) {
      at = end_of(w, k, at);
      continue;
    }
    const worker *below = &w->workers[k];
    if (below->begun > at) continue;
    const double seen = end_of(w, k, below->at + w->call->after_ns) + w->machine->tell_ns;
    at = (seen > at ? seen : at) + w->machine->line_ns;
  }
  return at;
}

/* ---- tasks ---- */

static int by_length(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* What the first task takes more than most. False: out of memory. */
static bool find_cold(walk *w) {
  const walk_call *c = w->call;
  if (c->count < 2 || c->rounds || w->machine->counted) return true;
  const size_t bytes = (size_t)c->count * sizeof *c->task_ns;
  double *sorted = base_alloc(&base_libc_allocator, bytes);
  if (!sorted) return false;
  memcpy(sorted, c->task_ns, bytes);
  qsort(sorted, (size_t)c->count, sizeof *sorted, by_length);
  const double cold_ns = c->task_ns[0] - sorted[(c->count - 1) / 2];
  if (cold_ns > 0) w->cold_ns = cold_ns;
  base_free(&base_libc_allocator, sorted, bytes);
  return true;
}

static worker *first_free(const walk *w) {
  worker *first = NULL;
  for (uint32_t i = 0; i < w->count; i++) {
    worker *self = &w->workers[i];
    if (!self->ended && (!first || self->at < first->at)) first = self;
  }
  return first;
}

/* Shares all tasks out; when the last ends. */
static double take_all(walk *w, double per_thread, int64_t *taken) {
  double last = 0;
  for (worker *self; (self = first_free(w));) {
    const int64_t task = base_call_take(&self->call, w->call->count);
    self->ended = task >= w->call->count;
    if (self->ended) continue;
    const double cold_ns = task && !taken[self->call.worker]++ ? w->cold_ns : 0;
    taken[self->call.worker] += !task;
    self->at += (w->call->task_ns[task] + cold_ns) / per_thread;
    w->busy_ns += w->call->task_ns[task] + cold_ns;
    if (self->at > last) last = self->at;
  }
  return last;
}

/* Who meets in rounds has a part of its own in each. */
static double take_own(walk *w, double per_thread, int64_t *taken) {
  double longest = 0;
  for (uint32_t i = 0; i < w->count && i < w->call->count; i++) {
    const double ns = w->call->task_ns[i] / per_thread;
    taken[i] = w->call->rounds;
    w->workers[i].at += ns;
    w->busy_ns += w->call->task_ns[i];
    if (ns > longest) longest = ns;
  }
  return longest;
}

/* One job of new lanes. */
static void open_job(walk *w, base_lane *lanes) {
  memset(lanes, 0, w->count * sizeof *lanes);
  for (uint32_t i = 0; i < w->count; i++)
    w->workers[i] = (worker){.call = {.worker = i, .workers = w->count, .job = 1, .lanes = lanes}};
}

static uint32_t count_nodes(const walk *w) {
  uint32_t nodes = 1;
  for (uint32_t i = 1; i < w->count; i++) nodes += w->machine->workers[i].node != w->machine->workers[i - 1].node;
  return nodes;
}

static void share_out(walk *w, base_lane *lanes, int64_t *taken, walk_times *times) {
  const walk_machine *m = w->machine;
  const walk_call *c = w->call;
  double (*const take)(walk *, double, int64_t *) = c->rounds ? take_own : take_all;
  open_job(w, lanes);
  times->tasks_ns = take(w, 1, taken);
  times->busy_ns = w->busy_ns;
  memset(taken, 0, w->count * sizeof *taken);
  open_job(w, lanes);
  begin_all(w);
  take(w, m->per_thread, taken);
  times->ns = end_of(w, 0, w->workers[0].at + c->after_ns) + c->rounds * (2 * m->tell_ns + w->count * m->line_ns);
  if (m->far_per_ns > 0) times->ns += c->far_bytes / (m->far_per_ns * w->count);
  const double moving = m->node_per_ns > 0 ? c->bytes / (m->node_per_ns * count_nodes(w)) : 0;
  if (moving > times->ns) times->ns = moving;
}

bool walk_call_times(const walk_machine *m, uint32_t threads, const walk_call *c, int64_t *taken, walk_times *times) {
  walk w = {.machine = m, .call = c, .count = c->workers < threads ? c->workers : threads};
  *times = (walk_times){.least = INT64_MAX};
  memset(taken, 0, threads * sizeof *taken);
  if (w.count < 2) {
    for (int64_t i = 0; i < c->count; i++) times->busy_ns += c->task_ns[i];
    times->tasks_ns = times->busy_ns;
    times->ns = c->before_ns + times->busy_ns + c->after_ns;
    if (m->far_per_ns > 0) times->ns += c->far_bytes / m->far_per_ns;
    taken[0] = c->count;
  } else {
    w.workers = base_alloc(&base_libc_allocator, w.count * sizeof *w.workers);
    base_lane *lanes = base_alloc(&base_libc_allocator, w.count * sizeof *lanes);
    const bool there = w.workers && lanes && find_cold(&w);
    if (there) share_out(&w, lanes, taken, times);
    base_free(&base_libc_allocator, w.workers, w.count * sizeof *w.workers);
    base_free(&base_libc_allocator, lanes, w.count * sizeof *lanes);
    if (!there) return false;
  }
  for (uint32_t i = 0; i < threads; i++) {
    times->least = taken[i] < times->least ? taken[i] : times->least;
    times->most = taken[i] > times->most ? taken[i] : times->most;
  }
  return true;
}

/* ---- who has which memory ---- */

/* Of lines that are dealt out from front to back. */
static uint16_t passer(size_t i, size_t count, uint32_t workers) { return (uint16_t)(i * workers / count); }

double walk_write(uint16_t *holders, size_t count, uint32_t workers, const uint16_t *writers) {
  double far = 0;
  for (size_t i = 0; i < count; i++) {
    const uint16_t self = writers && writers[i] != WALK_NOBODY ? writers[i] : passer(i, count, workers);
    if (holders[i] != self && holders[i] != WALK_NOBODY) far += WALK_LINE;
    holders[i] = self;
  }
  return far;
}

double walk_read(uint16_t *holders, size_t count, uint32_t workers, bool whole) {
  double far = 0;
  for (size_t i = 0; i < count; i++) {
    const uint16_t self = passer(i, count, workers), holder = holders[i];
    const bool several = whole && workers > 1;
    if (holder == WALK_SEVERAL || (holder == self && !several)) continue; /* who has read it has it, mostly */
    if (holder == WALK_NOBODY) holders[i] = several ? WALK_SEVERAL : self;
    if (holder == WALK_NOBODY) continue;
    far += WALK_LINE * (several ? workers - (holder < workers) : 1);
    holders[i] = WALK_SEVERAL;
  }
  return far;
}

bool walk_is_across(const uint16_t *writers, size_t count, uint32_t workers) {
  size_t changes = 0;
  for (size_t i = 1; i < count; i++) changes += writers[i] != writers[i - 1];
  return changes > 2 * (size_t)workers;
}

/* ---- a whole run ---- */

/* What the calls of a step add up to. */
typedef struct row {
  double ns[WALK_MOST], tasks_ns[WALK_MOST], busy_ns[WALK_MOST]; /* per run */
  uint32_t calls, workers;                                       /* of the last run, as are the next */
  int64_t tasks, least, most;
} row;

static void add_call(row *r, uint32_t run, const walk_call *c, const walk_times *t, bool last) {
  r->ns[run] += t->ns;
  r->tasks_ns[run] += t->tasks_ns;
  r->busy_ns[run] += t->busy_ns;
  if (!last) return;
  if (!r->calls++) r->least = t->least;
  r->workers = c->workers > r->workers ? c->workers : r->workers;
  r->tasks = c->count > r->tasks ? c->count : r->tasks;
  r->least = t->least < r->least ? t->least : r->least;
  r->most = t->most > r->most ? t->most : r->most;
}

static bool fill_rows(const walk_machine *m, const walk_plan *p, row *rows) {
  int64_t *taken = base_alloc(&base_libc_allocator, m->count * sizeof *taken);
  bool there = taken != NULL;
  for (uint32_t i = 0; there && i < p->count; i++)
    for (uint32_t k = 0; there && k < p->runs[i].count; k++) {
      const walk_call *c = &p->runs[i].calls[k];
      walk_times times;
      there = walk_call_times(m, p->runs[i].threads, c, taken, &times);
      if (there) add_call(&rows[c->step], i, c, &times, i + 1 == p->count);
    }
  base_free(&base_libc_allocator, taken, m->count * sizeof *taken);
  return there;
}

double walk_run_ns(const walk_machine *m, const walk_plan *p, const walk_run *run) {
  int64_t *taken = base_alloc(&base_libc_allocator, m->count * sizeof *taken);
  double ns = taken ? p->between_ns : -1;
  for (uint32_t k = 0; ns >= 0 && k < run->count; k++) {
    walk_times times;
    ns = walk_call_times(m, run->threads, &run->calls[k], taken, &times) ? ns + times.ns : -1;
  }
  base_free(&base_libc_allocator, taken, m->count * sizeof *taken);
  return ns;
}

/* ---- what is printed ---- */

static double idle_of(const row *r, uint32_t run, uint32_t threads) {
  return r->tasks_ns[run] > 0 ? 1 - r->busy_ns[run] / (threads * r->tasks_ns[run]) : 0;
}

/* The number of threads from which on more cores gain too little; runs in which it is a part of shares do not count. */
static uint32_t stop_of(const walk_plan *p, const row *r) {
  uint32_t before = 0;
  while (before + 1 < p->count && r->ns[before] <= 0) before++;
  for (uint32_t i = before + 1; i < p->count; i++) {
    const double added = (double)p->runs[i].threads / p->runs[before].threads - 1;
    if (r->ns[i] <= 0) continue;
    if (r->ns[before] < r->ns[i] * (1 + worth * added)) break;
    before = i;
  }
  return p->runs[before].threads;
}

static void print_runs(const walk_plan *p, const row *rows, base_text *text) {
  double alone = 0;
  base_text_print(text, "threads        ms  speed-up  cores idle\n");
  for (uint32_t i = 0; i < p->count; i++) {
    const uint32_t threads = p->runs[i].threads;
    double ns = p->between_ns, busy = 0;
    for (uint32_t k = 0; k < p->steps; k++) {
      ns += rows[k].ns[i];
      busy += rows[k].busy_ns[i];
    }
    if (!i) alone = ns;
    const double idle = 1 - busy / (ns * threads);
    base_text_print(text, "%7u %9.3f %9.2f  %8.0f %%\n", threads, ns * 1e-6, alone / ns, 100 * (idle > 0 ? idle : 0));
  }
}

static void print_rows(const walk_plan *p, const row *rows, base_text *text) {
  const uint32_t last = p->count - 1, threads = p->runs[last].threads;
  base_text_print(text, "\non %u threads:\n      us  calls  tasks  workers     each   idle  speed-up  stops at\n",
                  threads);
  for (uint32_t k = 0; k < p->steps; k++) {
    const row *r = &rows[k];
    char each[32], gain[32] = "-";
    if (!r->calls) continue;
    snprintf(each, sizeof each, "%lld-%lld", (long long)r->least, (long long)r->most);
    if (r->ns[0] > 0 && r->ns[last] > 0) snprintf(gain, sizeof gain, "%.1f", r->ns[0] / r->ns[last]);
    base_text_print(text, "%8.1f %6u %6lld %8u %8s %4.0f %% %9s %9u  %s\n", r->ns[last] * 1e-3, r->calls,
                    (long long)r->tasks, r->workers, each, 100 * idle_of(r, last, threads), gain, stop_of(p, r),
                    p->names[k]);
  }
}

/* Steps whose tasks leave too many cores idle, by the numbers of their workers and tasks alone. */
static void print_idle(const walk_plan *p, const row *rows, base_text *text) {
  const uint32_t last = p->count - 1, threads = p->runs[last].threads;
  uint32_t count = 0, all = 0;
  double ns = 0, total = p->between_ns, alone = 0;
  for (uint32_t k = 0; k < p->steps; k++) {
    total += rows[k].ns[last];
    all += rows[k].calls > 0;
    if (idle_of(&rows[k], last, threads) <= idle_share) continue;
    count++;
    ns += rows[k].ns[last];
    alone += rows[k].ns[0];
  }
  base_text_print(text, "\n%u of %u steps leave more than %.0f %% of %u cores idle", count, all, 100 * idle_share,
                  threads);
  if (count && last) base_text_print(text, ": %.1f %% of the time there", 100 * ns / total);
  double one = p->between_ns;
  for (uint32_t k = 0; k < p->steps; k++) one += rows[k].ns[0];
  if (count && last) base_text_print(text, ", %.1f %% of it on one thread", 100 * alone / one);
  base_text_print(text, "\n");
}

static void print_stops(const walk_plan *p, const row *rows, base_text *text) {
  const uint32_t last = p->count - 1;
  double total = p->between_ns;
  for (uint32_t k = 0; k < p->steps; k++) total += rows[k].ns[last];
  for (uint32_t i = 0; i < p->count; i++) {
    uint32_t count = 0;
    double ns = 0;
    for (uint32_t k = 0; k < p->steps; k++) {
      if (!rows[k].calls || stop_of(p, &rows[k]) != p->runs[i].threads) continue;
      count++;
      ns += rows[k].ns[last];
    }
    if (count && i < last)
      base_text_print(text, "%u steps stop scaling at %u threads: %.1f %% of the time\n", count, p->runs[i].threads,
                      100 * ns / total);
    else if (count) base_text_print(text, "%u steps scale to %u threads\n", count, p->runs[i].threads);
  }
}

static void print_all(const walk_plan *p, const row *rows, base_text *text) {
  print_runs(p, rows, text);
  print_rows(p, rows, text);
  print_idle(p, rows, text);
  print_stops(p, rows, text);
}

static void print_shares(const walk_plan *p, const row *rows, base_text *text) {
  const uint32_t last = p->count - 1, threads = p->runs[last].threads;
  base_text_print(text, "on %u threads:\ncalls  tasks  workers     each   idle\n", threads);
  for (uint32_t k = 0; k < p->steps; k++) {
    const row *r = &rows[k];
    char each[32];
    if (!r->calls) continue;
    snprintf(each, sizeof each, "%lld-%lld", (long long)r->least, (long long)r->most);
    base_text_print(text, "%5u %6lld %8u %8s %4.0f %%  %s\n", r->calls, (long long)r->tasks, r->workers, each,
                    100 * idle_of(r, last, threads), p->names[k]);
  }
  print_idle(p, rows, text);
}

static bool print_by(void (*print)(const walk_plan *, const row *, base_text *), const walk_machine *m,
                     const walk_plan *p, base_text *text) {
  BASE_ASSERT(p->count && p->count <= WALK_MOST);
  row *rows = base_alloc(&base_libc_allocator, (p->steps + (size_t)1) * sizeof *rows);
  bool there = rows != NULL;
  if (there) {
    memset(rows, 0, (p->steps + (size_t)1) * sizeof *rows);
    there = fill_rows(m, p, rows);
  }
  if (there) print(p, rows, text);
  base_free(&base_libc_allocator, rows, (p->steps + (size_t)1) * sizeof *rows);
  return there && !text->failed;
}

bool walk_print(const walk_machine *m, const walk_plan *p, base_text *text) { return print_by(print_all, m, p, text); }

bool walk_print_shares(const walk_machine *m, const walk_plan *p, base_text *text) {
  return print_by(print_shares, m, p, text);
}
