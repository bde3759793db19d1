/* record.c -- what a session's observer notes while runs last.
 *
 * Every thread adds to memory of its own: the time it was busy with each step, and a ring of its newest parts. What the
 * caller's clock says of whole steps and runs is the caller's. So nothing is shared, and nothing waits. Sums hold
 * everything that was recorded; only rings forget. */
#include <math.h>
#include <string.h>

#include "profile/profile_priv.h"
#include "sys/sys.h"

/* ---- the schedule ---- */

/* Is run `number` since the schedule began to be recorded? Warm-up runs are watched but not kept. */
static bool wanted(const prof_options *o, uint64_t number) {
  if (number < o->skip) return false;
  if (o->active == 0) return true;
  const uint64_t cycle = (uint64_t)o->wait + o->warmup + o->active, passed = number - o->skip;
  return (o->repeat == 0 || passed / cycle < o->repeat) && passed % cycle >= (uint64_t)o->wait + o->warmup;
}

/* ---- what the session calls ---- */

static void step_ends(void *user, uint32_t step, uint64_t ns) {
  prof_recorder *r = user;
  if (!r->keep || step >= r->options.steps) return;
  prof_total *t = &r->totals[step];
  t->ns += ns;
  t->caller_ns += ns;
  t->run_ns += ns;
  t->calls++;
}

static void part_ends(void *user, uint32_t thread, uint32_t step, uint64_t begin_ns, uint64_t end_ns) {
  prof_recorder *r = user;
  if (!r->keep || thread >= r->options.threads || step >= r->options.steps) return;
  prof_thread *t = &r->threads[thread];
  t->busy_ns[step] += end_ns - begin_ns;
  if (t->task_ns) {
    t->task_ns[step] += end_ns - begin_ns;
    t->task_calls[step]++;
  }
  const uint64_t number = t->written++;
  if (r->options.records)
    t->records[number % r->options.records] = (prof_record){
        .begin_ns = begin_ns, .end_ns = end_ns, .step = step, .run = (uint32_t)r->runs, .cpu = sys_cpu_now()};
}

/* What threads ran in tasks, each step of which is theirs alone: they are through before the run ends. */
static void add_tasks(prof_recorder *r) {
  for (uint32_t i = r->options.threads - r->options.crew; i < r->options.threads; i++) {
    const prof_thread *thread = &r->threads[i];
    for (uint32_t k = 0; k < r->options.steps; k++) {
      r->totals[k].ns += thread->task_ns[k];
      r->totals[k].run_ns += thread->task_ns[k];
      r->totals[k].calls += thread->task_calls[k];
      thread->task_ns[k] = thread->task_calls[k] = 0;
    }
  }
}

static void run_ends(void *user, uint64_t begin_ns, uint64_t end_ns) {
  prof_recorder *r = user;
  if (r->keep) {
    add_tasks(r);
    for (uint32_t i = 0; i < r->options.steps; i++) {
      prof_total *t = &r->totals[i];
      if (t->run_ns && (t->least_ns == 0 || t->run_ns < t->least_ns)) t->least_ns = t->run_ns;
      t->squares += (double)t->run_ns * (double)t->run_ns;
      t->run_ns = 0;
    }
    r->last[r->runs % PROF_RUNS] = (prof_run){begin_ns, end_ns};
    r->runs++;
    r->run_ns += end_ns - begin_ns;
  }
  r->keep = wanted(&r->options, ++r->started);
}

td_observer prof_observer(prof_recorder *recorder) {
  return (td_observer){
      .size = sizeof(td_observer), .user = recorder, .end = step_ends, .part = part_ends, .run = run_ends};
}

/* ---- memory ---- */

/* One block: the recorder, runs, totals, threads, and per thread its times and its ring; of those that run tasks, also
 * what they did in the run that lasts. False: it would be too large
 * to count. */
static bool block_size(const prof_options *o, size_t *bytes) {
  const size_t each[] = {sizeof(prof_run), sizeof(prof_total), sizeof(prof_thread), sizeof(uint64_t),
                         sizeof(prof_record)};
  const size_t count[] = {PROF_RUNS, o->steps, o->threads, ((size_t)o->threads + 2 * (size_t)o->crew) * o->steps,
                          (size_t)o->threads * o->records};
  *bytes = sizeof(prof_recorder);
  for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
    size_t part;
    if (!base_mul(count[i], each[i], &part) || !base_add(*bytes, part, bytes) || !base_add(*bytes, 64, bytes))
      return false;
  }
  return true;
}

static void *take(char **at, size_t bytes) {
  char *taken = (char *)(((uintptr_t)*at + 63) & ~(uintptr_t)63);
  *at = taken + bytes;
  return taken;
}

prof_recorder *prof_recorder_new(const td_allocator *allocator, const prof_options *options) {
  const prof_options *o = options;
  size_t bytes;
  if (!block_size(o, &bytes)) return NULL;
  prof_recorder *r = base_alloc(allocator, bytes);
  if (!r) return NULL;
  memset(r, 0, bytes); /* also touches every page, so that no run has to */
  char *at = (char *)(r + 1);
  r->allocator = *allocator;
  r->bytes = bytes;
  r->options = *o;
  r->last = take(&at, PROF_RUNS * sizeof *r->last);
  r->totals = take(&at, o->steps * sizeof *r->totals);
  r->threads = take(&at, o->threads * sizeof *r->threads);
  uint64_t *busy = take(&at, ((size_t)o->threads + 2 * (size_t)o->crew) * o->steps * sizeof *busy);
  uint64_t *tasks = busy + (size_t)o->threads * o->steps;
  prof_record *records = take(&at, (size_t)o->threads * o->records * sizeof *records);
  for (uint32_t i = 0; i < o->threads; i++) {
    r->threads[i].busy_ns = busy + (size_t)i * o->steps;
    r->threads[i].records = records + (size_t)i * o->records;
    if (i < o->threads - o->crew) continue;
    r->threads[i].task_ns = tasks;
    r->threads[i].task_calls = tasks + o->steps;
    tasks += 2 * (size_t)o->steps;
  }
  r->keep = wanted(o, 0);
  return r;
}

void prof_recorder_free(prof_recorder *recorder) {
  if (!recorder) return;
  const td_allocator allocator = recorder->allocator;
  base_free(&allocator, recorder, recorder->bytes);
}

void prof_recorder_clear(prof_recorder *recorder) {
  prof_recorder *r = recorder;
  memset(r->totals, 0, r->options.steps * sizeof *r->totals);
  for (uint32_t i = 0; i < r->options.threads; i++) {
    memset(r->threads[i].busy_ns, 0, r->options.steps * sizeof(uint64_t));
    r->threads[i].written = 0;
    if (r->threads[i].task_ns) memset(r->threads[i].task_ns, 0, 2 * r->options.steps * sizeof(uint64_t));
  }
  r->started = r->runs = r->run_ns = 0;
  r->keep = wanted(&r->options, 0);
}

/* ---- reading ---- */

uint64_t prof_first_record(const prof_recorder *r, const prof_thread *t) {
  return t->written > r->options.records ? t->written - r->options.records : 0;
}

td_profile_step prof_step(const prof_recorder *r, uint32_t step) {
  const prof_total *total = &r->totals[step];
  td_profile_step s = {.size = sizeof s,
                       .calls = total->calls,
                       .ns = total->ns,
                       .self_ns = r->threads[0].busy_ns[step],
                       .least_ns = total->least_ns};
  for (uint32_t i = 0; i < r->options.threads; i++) s.busy_ns += r->threads[i].busy_ns[step];
  const double runs = r->runs ? (double)r->runs : 1, mean = (double)s.ns / runs;
  const double variance = total->squares / runs - mean * mean;
  s.spread_ns = variance > 0 ? sqrt(variance) : 0;
  return s;
}

bool prof_step_ran(const prof_recorder *r, uint32_t step) {
  bool ran = r->totals[step].calls > 0;
  for (uint32_t i = 0; i < r->options.threads; i++) ran |= r->threads[i].busy_ns[step] > 0;
  return ran;
}

const prof_record *prof_record_at(const prof_recorder *r, const prof_thread *t, uint64_t number) {
  return &t->records[number % r->options.records];
}
