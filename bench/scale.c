/* scale.c -- walks a plan over a machine that is not here, with what is measured on this one.
 *
 *     bench_scale MODEL [MACHINE [BATCH [SECONDS]]]
 *
 * MACHINE is what `treadle launch --machine` takes, "package:2 [numa] core:56 pu:1". Measured are each step's least
 * time on one thread, what it costs to hand a step over to a second thread, and the arithmetic and bandwidth of one and
 * two threads. The plan is asked on how many threads it would run each step there; a step on n of them takes the longer
 * of its time on one, divided, and its bytes at their bandwidth, and a hand-over for each level of the tree. Printed
 * are the whole time and the share of idle cores by threads, the prediction for one and two against what is measured,
 * and the steps that stop scaling. That a step's tasks come out even is assumed, and that each pair of cores has a
 * bandwidth of its own, as two have here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_priv.h"
#include "runtime/runtime_priv.h"
#include "sys/topology.h"

enum { OPEN_SIZE = 128, MOST_INPUTS = 8, JOBS = 200, WIDE = 8, SHOWN = 8 };
static const double idle_share = 0.15; /* of cores, from which on a step is named */

typedef struct measured {
  td_step step;
  double ms;        /* least of all runs, on one thread */
  double limit[2];  /* by bandwidth alone, on one and on two threads */
  uint32_t threads; /* that the plan gives it on the machine */
} measured;

typedef struct scale {
  td_model *model;
  td_session *alone;
  td_tensor inputs[MOST_INPUTS];
  measured *steps;
  uint32_t count;
  double between_ms;   /* of a run, in no step */
  double hand_over_ms; /* of a step */
  double per_thread;   /* arithmetic of each of two threads, of one alone */
  double *began;       /* per step of a run: the sum of its executions */
} scale;

static void check(td_status status, const td_error *err) {
  if (status == TD_OK) return;
  fprintf(stderr, "bench_scale: %s: %s\n", err->name, err->text);
  exit((int)status);
}

static void *get(size_t count, size_t bytes) {
  void *memory = calloc(count + 1, bytes);
  if (!memory) exit(TD_NO_RESOURCE);
  return memory;
}

static void make_inputs(scale *s, int64_t batch) {
  td_error err;
  td_value_info info = {.size = sizeof info};
  for (size_t i = 0; i < td_model_input_count(s->model) && i < MOST_INPUTS; i++) {
    check(td_model_input(s->model, i, &info, &err), &err);
    td_tensor *t = &s->inputs[i];
    size_t count = 1;
    *t = (td_tensor){.dtype = info.dtype, .rank = info.rank};
    for (int32_t k = 0; k < t->rank; k++)
      count *= (size_t)(t->dims[k] = info.dims[k] >= 0 ? info.dims[k] : k ? OPEN_SIZE : batch);
    t->data = get(count, 8);
    for (size_t e = 0; t->dtype == TD_F32 && e < count; e++) ((float *)t->data)[e] = (float)(e * 7 % 100) / 50 - 1;
  }
}

static td_session *open_session(scale *s, const td_session_options *options) {
  td_error err;
  td_session *session;
  check(td_session_new(s->model, options, &session, &err), &err);
  for (size_t i = 0; i < td_model_input_count(s->model); i++)
    check(td_session_set_input(session, i, &s->inputs[i], &err), &err);
  return session;
}

static double least_run_ms(td_session *session, double seconds) {
  td_error err;
  double least = 1e300;
  const uint64_t end = sys_clock_ns() + (uint64_t)(seconds * 1e9);
  do {
    const uint64_t began = sys_clock_ns();
    check(td_session_run(session, &err), &err);
    const double ms = (double)(sys_clock_ns() - began) * 1e-6;
    if (ms < least) least = ms;
  } while (sys_clock_ns() < end);
  return least;
}

static void add(void *user, uint32_t step, uint64_t ns) { ((scale *)user)->began[step] += (double)ns * 1e-6; }

static void measure_steps(scale *s, double seconds) {
  td_error err;
  td_model_stats stats = {.size = sizeof stats};
  check(td_model_get_stats(s->model, &stats, &err), &err);
  s->count = stats.steps;
  s->steps = get(s->count, sizeof *s->steps);
  s->began = get(s->count, sizeof *s->began);
  s->alone = open_session(s, &(td_session_options){.size = sizeof(td_session_options), .threads = 1});
  check(td_session_run(s->alone, &err), &err);
  for (uint32_t i = 0; i < s->count; i++) {
    s->steps[i].step.size = sizeof(td_step);
    s->steps[i].ms = 1e300;
    check(td_session_get_step(s->alone, i, &s->steps[i].step, &err), &err);
  }
  check(td_session_observe(s->alone, &(td_observer){.size = sizeof(td_observer), .user = s, .end = add}, &err), &err);
  s->between_ms = 1e300;
  const uint64_t end = sys_clock_ns() + (uint64_t)(seconds * 1e9);
  do {
    memset(s->began, 0, s->count * sizeof *s->began);
    const uint64_t began = sys_clock_ns();
    check(td_session_run(s->alone, &err), &err);
    double rest = (double)(sys_clock_ns() - began) * 1e-6;
    for (uint32_t i = 0; i < s->count; i++) {
      rest -= s->began[i];
      if (s->began[i] < s->steps[i].ms) s->steps[i].ms = s->began[i];
    }
    if (rest < s->between_ms) s->between_ms = rest;
  } while (sys_clock_ns() < end);
  check(td_session_observe(s->alone, NULL, &err), &err);
}

/* ---- the machine at hand ---- */

/* Nothing, but that the caller waits for the other. */
static td_status meet(void *user, run_worker *worker, uint32_t workers) {
  _Atomic int *met = user;
  if (worker->index) atomic_fetch_add(met, 1);
  while (workers > 1 && !worker->index && !atomic_load(met)) {}
  return TD_OK;
}

/* Of a job that both threads take part in, as long as it lasts. */
static void measure_hand_over(scale *s) {
  td_error err;
  run_pool *pool;
  run_team *team;
  check(run_pool_new(2, 0, &base_libc_allocator, &pool, &err), &err);
  check(run_team_new(pool, 0, &team, &err), &err);
  run_team_enter(team, true);
  s->hand_over_ms = 1e300;
  for (int turn = 0; turn < 40; turn++) { /* the least: other work on the machine takes threads away */
    const uint64_t began = sys_clock_ns();
    for (int i = 0; i < JOBS; i++) {
      _Atomic int met = 0;
      check(run_team_share(team, 2, meet, &met, &err), &err);
    }
    const double ms = (double)(sys_clock_ns() - began) * 1e-6 / JOBS;
    if (ms < s->hand_over_ms) s->hand_over_ms = ms;
  }
  run_team_leave(team);
  run_team_free(team);
  run_pool_free(pool);
}

static void measure_machine(scale *s) {
  td_error err;
  static td_roofline roofline = {.size = sizeof roofline};
  const td_roofline_options options = {.size = sizeof options, .threads = 2, .seconds = 3};
  check(td_roofline_measure(&options, &roofline, &err), &err);
  const td_limits one = td_limits_of(&roofline, NULL, 1), two = td_limits_of(&roofline, NULL, 2);
  td_session_stats stats = {.size = sizeof stats};
  td_model_stats of_model = {.size = sizeof of_model};
  check(td_session_get_stats(s->alone, &stats, &err), &err);
  check(td_model_get_stats(s->model, &of_model, &err), &err);
  s->per_thread = two.peak / one.peak / 2;
  for (uint32_t i = 0; i < s->count; i++) {
    const td_step *step = &s->steps[i].step;
    const td_work work = {.const_bytes = step->const_bytes,
                          .read = step->read_bytes,
                          .written = step->write_bytes,
                          .footprint = (double)of_model.weights_bytes + (double)stats.arena_bytes};
    s->steps[i].limit[0] = td_limit_ms(&one, &work);
    s->steps[i].limit[1] = td_limit_ms(&two, &work);
  }
}

/* ---- the other one ---- */

/* On how many threads the plan would run each step where there are `threads`: its own choice, for which none need run.
 */
static void ask_plan(scale *s, uint32_t threads) {
  td_error err;
  td_pool *pool;
  check(td_pool_new(&(td_pool_options){.size = sizeof(td_pool_options), .threads = 1}, &pool, &err), &err);
  td_session *session = open_session(s, &(td_session_options){.size = sizeof(td_session_options), .pool = pool});
  session->run->team->most = threads;
  for (int turn = 0; turn < 2; turn++) check(td_session_run(session, &err), &err); /* who made what is known then */
  const run_bound *bound = session->run->active;
  for (uint32_t i = 0; i < s->count; i++) s->steps[i].threads = bound->threads[i] ? bound->threads[i] : 1;
  for (uint32_t k = 0; k < bound->binding.shares.count; k++) {
    const plan_shares *shares = &bound->binding.shares.at[k];
    const int64_t total = (shares->samples - 1) / shares->share + 1;
    const uint32_t first = bound->binding.parts.at[shares->first].first,
                   end = bound->binding.parts.at[shares->end - 1].end;
    for (uint32_t i = first; i < end; i++) s->steps[i].threads = (uint32_t)base_min_i64(threads, total);
  }
  td_session_free(session);
  td_pool_free(pool);
}

static double levels_of(uint32_t threads) {
  double levels = 0;
  for (uint32_t reach = 1; reach < threads; reach *= WIDE) levels++;
  return levels;
}

static double step_ms(const scale *s, const measured *m) {
  if (m->threads < 2) return m->ms;
  const double moving = m->limit[1] * 2 / m->threads, computing = m->ms / (m->threads * s->per_thread);
  return (computing > moving ? computing : moving) + s->hand_over_ms * levels_of(m->threads);
}

/* The whole run; *idle: the share of all cores' time in steps in which they have nothing to do. */
static double predict(scale *s, uint32_t threads, double *idle) {
  double all = 0, busy = 0;
  ask_plan(s, threads);
  for (uint32_t i = 0; i < s->count; i++) {
    all += step_ms(s, &s->steps[i]);
    busy += s->steps[i].ms;
  }
  *idle = 1 - busy / (all * threads);
  return all + s->between_ms;
}

static int by_loss(const void *a, const void *b) {
  const measured *x = a, *y = b;
  return (x->ms < y->ms) - (x->ms > y->ms);
}

static void print_stops(scale *s, uint32_t threads) {
  double all = 0;
  uint32_t shown = 0;
  for (uint32_t i = 0; i < s->count; i++) all += step_ms(s, &s->steps[i]);
  for (uint32_t i = 0; i < s->count; i++) s->steps[i].ms = step_ms(s, &s->steps[i]);
  qsort(s->steps, s->count, sizeof *s->steps, by_loss);
  printf("steps that leave more than %.0f %% of %u cores idle, and take the most:\n", 100 * idle_share, threads);
  for (uint32_t i = 0; i < s->count && shown < SHOWN; i++) {
    const measured *m = &s->steps[i];
    if (m->threads >= (1 - idle_share) * threads || m->ms <= 0) continue;
    printf("  %5.1f %%  on %3u threads  %s (%s)\n", 100 * m->ms / all, m->threads, m->step.name, m->step.op);
    shown++;
  }
}

int main(int count, char **words) {
  td_error err;
  scale s = {0};
  sys_topology machine;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const double seconds = count > 4 ? atof(words[4]) : 2;
  double idle;
  if (count < 2 || !arena || seconds <= 0) {
    fprintf(stderr, "usage: bench_scale MODEL [MACHINE [BATCH [SECONDS]]]\n");
    return TD_BAD_ARGUMENT;
  }
  check(sys_topology_load(count > 2 ? words[2] : "core:2 pu:1", arena, &machine, &err), &err);
  check(td_model_load(words[1], NULL, &s.model, &err), &err);
  make_inputs(&s, count > 3 ? atoll(words[3]) : 1);
  measure_steps(&s, seconds);
  measure_hand_over(&s);
  td_session *both = open_session(&s, &(td_session_options){.size = sizeof(td_session_options), .threads = 2});
  double one = 1e300, two = 1e300;
  for (int turn = 0; turn < 3; turn++) { /* in turns: other work on the machine hits both */
    const double a = least_run_ms(s.alone, seconds / 3), b = least_run_ms(both, seconds / 3);
    one = a < one ? a : one;
    two = b < two ? b : two;
  }
  measure_machine(&s);
  printf("hand-over %.2f us, a second thread computes at %.0f %%\n", 1e3 * s.hand_over_ms, 100 * s.per_thread);
  const double alone = predict(&s, 1, &idle);
  for (uint32_t threads = 1; threads <= 2; threads++) {
    const double ms = predict(&s, threads, &idle), was = threads == 1 ? one : two;
    printf("%u threads: %.4g ms predicted, %.4g measured (%+.1f %%)\n", threads, ms, was, 100 * (ms / was - 1));
  }
  for (uint32_t threads = 4; threads < machine.cores * 2; threads *= 2) {
    const uint32_t n = threads < machine.cores ? threads : machine.cores;
    const double ms = predict(&s, n, &idle);
    printf("%u threads: %.4g ms, %.2f times as fast as one, %.0f %% of the cores' time idle\n", n, ms, alone / ms,
           100 * idle);
    if (n == machine.cores) print_stops(&s, n);
  }
  td_session_free(both);
  td_session_free(s.alone);
  td_model_free(s.model);
  base_arena_free(arena);
  return 0;
}
