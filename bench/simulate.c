/* simulate.c -- walks a plan over a machine that is not here, by what is measured on this one.
 *
 * Measured are every task that kernels cut the plan's steps into for each number of threads (record.h), the cost of
 * handing a step over to a second thread and back, and what two threads compute that one does not. The plan decides as
 * it would there on how many threads a step runs, and whether threads take shares of a batch; workers stand in the tree
 * that a pool on that machine would plant. walk.h puts this together. --check compares the result for one and two
 * threads with what is measured. */
#include "api/api_priv.h"
#include "bench/record.h"
#include "runtime/copies_priv.h"
#include "runtime/parts_priv.h"
#include "sys/topology.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_SIZE = 128, MOST_INPUTS = 8, JOBS = 50, TURNS = 160, LEAST_RUNS = 4, FURTHEST = 12 };

static const char usage[] =
    "usage: bench_simulate MODEL [OPTION]...\n"
    "  --machine TEXT|FILE  as treadle launch takes it (default: package:2 [numa] core:56 pu:1)\n"
    "  --threads N          of them at most (default: one per core)\n"
    "  --batch N            size of open first dimensions (default: 1)\n"
    "  --node-gbs X         bandwidth of a node's memory in GB/s (default: no limit)\n"
    "  --node-copies        weights in the memory of each node\n"
    "  --l3-mb X            of each L3 cache there in MB (default: this machine's)\n"
    "  --isa NAME           kernels of this level at most (default: the CPU's)\n"
    "  --seconds X          of measurement for each number of threads (default: 2)\n"
    "  --shares             how even tasks are on all threads, by what they write: nothing is measured\n"
    "  --check              the predictions for 1 and 2 threads against what is measured\n";

typedef struct options {
  const char *model, *machine, *isa;
  uint32_t threads;
  int64_t batch;
  double node_gbs, l3_mb, seconds;
  bool copies, check, shares;
} options;

typedef struct simulation {
  options o;
  base_arena *arena;
  sys_topology topology;
  run_cpus cpus; /* one of each core */
  walk_worker *workers;
  walk_machine machine;
  td_model *model;
  td_tensor inputs[MOST_INPUTS];
  walk_plan plan;
  recording recordings[WALK_MOST];
  walk_run runs[WALK_MOST];
} simulation;

static void check(td_status status, const td_error *err) {
  if (status == TD_OK) return;
  fprintf(stderr, "bench_simulate: %s%s%s\n", err->name, *err->name ? ": " : "", err->text);
  exit((int)status);
}

static void refuse(const char *text) {
  fprintf(stderr, "bench_simulate: %s\n%s", text, usage);
  exit(TD_BAD_ARGUMENT);
}

/* ---- options ---- */

static options read_options(int count, char **words) {
  static const struct option known[] = {{"machine", required_argument, NULL, 'm'},
                                        {"threads", required_argument, NULL, 't'},
                                        {"batch", required_argument, NULL, 'b'},
                                        {"node-gbs", required_argument, NULL, 'g'},
                                        {"node-copies", no_argument, NULL, 'c'},
                                        {"isa", required_argument, NULL, 'i'},
                                        {"seconds", required_argument, NULL, 's'},
                                        {"check", no_argument, NULL, 'k'},
                                        {"shares", no_argument, NULL, 'e'},
                                        {"l3-mb", required_argument, NULL, 'l'},
                                        {0}};
  options o = {.machine = "package:2 [numa] core:56 pu:1", .batch = 1, .seconds = 2};
  int64_t threads = 0;
  for (int letter; (letter = getopt_long(count, words, "", known, NULL)) != -1;) {
    const base_str text = base_str_of(optarg);
    bool right = letter != '?';
    if (letter == 'm') o.machine = optarg;
    if (letter == 'i') o.isa = optarg;
    if (letter == 't') right = base_str_int(text, &threads) && threads > 0;
    if (letter == 'b') right = base_str_int(text, &o.batch) && o.batch > 0;
    if (letter == 'l') right = (o.l3_mb = strtod(optarg, NULL)) > 0;
    if (letter == 'g') right = (o.node_gbs = strtod(optarg, NULL)) > 0;
    if (letter == 's') right = (o.seconds = strtod(optarg, NULL)) > 0;
    if (letter == 'c') o.copies = true;
    if (letter == 'k') o.check = true;
    if (letter == 'e') o.shares = true;
    if (!right) refuse("give each option a number above 0");
  }
  if (optind + 1 != count) refuse("give one model");
  o.model = words[optind];
  o.threads = (uint32_t)base_min_i64(threads, RUN_MOST_THREADS);
  return o;
}

/* ---- the machine that is not here ---- */

/* The first CPU of each core that is allowed, in the order in which a pool takes them. */
static void choose_cpus(simulation *s) {
  for (uint32_t i = 0; i < s->topology.count && s->cpus.count < RUN_MOST_THREADS; i++) {
    const sys_cpu *cpu = &s->topology.cpus[i];
    if (cpu->allowed && cpu->thread == 0) s->cpus.at[s->cpus.count++] = cpu->number;
  }
  if (!s->cpus.count) refuse("the machine has no CPU that may be used: see its `allowed` statement");
  if (s->o.threads && s->o.threads < s->cpus.count) s->cpus.count = s->o.threads;
}

/* As a pool plants it there: one is made, and ended before it runs anything. */
static void plant(simulation *s) {
  td_error err;
  run_pool *pool;
  const run_pool_options o = {.threads = s->cpus.count, .cpus = &s->cpus};
  record_machine = &s->topology;
  check(run_pool_new_on(&o, &base_libc_allocator, &pool, &err), &err);
  record_machine = NULL;
  if (pool->threads < s->cpus.count) refuse("the system refuses so many threads; give fewer --threads");
  for (uint32_t i = 0; i < s->cpus.count; i++) {
    const run_worker *w = &pool->workers[i];
    s->workers[i] = (walk_worker){.below = w->below ? (uint32_t)(w->below - pool->workers) : WALK_NONE,
                                  .beside = w->beside ? (uint32_t)(w->beside - pool->workers) : WALK_NONE,
                                  .node = sys_topology_find(&s->topology, s->cpus.at[i])->node};
  }
  run_pool_free(pool);
}

static void make_machine(simulation *s) {
  td_error err;
  check(sys_topology_load(s->o.machine, s->arena, &s->topology, &err), &err);
  choose_cpus(s);
  s->workers = record_get(s->cpus.count, sizeof *s->workers);
  plant(s);
  s->machine.workers = s->workers;
  s->machine.count = s->cpus.count;
  s->machine.node_per_ns = s->o.node_gbs;
}

/* ---- the machine at hand ---- */

/* Nothing, but that the caller waits for the other. */
static td_status meet(void *user, run_worker *worker, uint32_t workers) {
  _Atomic int *met = user;
  if (worker->index) atomic_fetch_add(met, 1);
  while (workers > 1 && !worker->index && !atomic_load(met)) {}
  return TD_OK;
}

/* Of a job that both threads take part in, as long as it lasts: there and back. The least, since other work on the
 * machine takes threads away. */
static double measure_hand_over(double seconds) {
  td_error err;
  run_pool *pool;
  run_team *team;
  double least = 1e300;
  check(run_pool_new(2, 0, &base_libc_allocator, &pool, &err), &err);
  check(run_team_new(pool, 0, &team, &err), &err);
  run_team_enter(team, true);
  const uint64_t end = sys_clock_ns() + (uint64_t)(seconds * 1e9);
  for (int turn = 0; turn < TURNS && (!turn || sys_clock_ns() < end); turn++) {
    const uint64_t began = sys_clock_ns();
    for (int i = 0; i < JOBS; i++) {
      _Atomic int met = 0;
      check(run_team_share(team, 2, meet, &met, &err), &err);
    }
    const double ns = (double)(sys_clock_ns() - began) / JOBS;
    if (ns < least) least = ns;
  }
  run_team_leave(team);
  run_team_free(team);
  run_pool_free(pool);
  return least;
}

/* Between two threads a cache line goes four times: order, answer, end, and what the job writes. */
static void measure_machine(simulation *s) {
  td_error err;
  static td_roofline roofline = {.size = sizeof roofline};
  const td_roofline_options o = {.size = sizeof o, .threads = 2, .seconds = s->o.seconds};
  const double hand_over_ns = measure_hand_over(s->o.seconds);
  check(td_roofline_measure(&o, &roofline, &err), &err);
  const td_limits one = td_limits_of(&roofline, NULL, 1), two = td_limits_of(&roofline, NULL, 2);
  s->machine.tell_ns = hand_over_ns / 2;
  s->machine.line_ns = hand_over_ns / 4;
  s->machine.per_thread = two.peak / one.peak / 2;
  if (s->machine.per_thread > 1) s->machine.per_thread = 1; /* each had its core: the rest is noise */
  printf("here: hand-over and return %.2f us, each of two threads computes at %.0f %% of one\n", 1e-3 * hand_over_ns,
         100 * s->machine.per_thread);
}

/* ---- the model ---- */

static void make_inputs(simulation *s) {
  td_error err;
  td_value_info info = {.size = sizeof info};
  bool open = s->o.batch == 1;
  if (td_model_input_count(s->model) > MOST_INPUTS) refuse("the model has too many inputs for this program");
  for (size_t i = 0; i < td_model_input_count(s->model); i++) {
    check(td_model_input(s->model, i, &info, &err), &err);
    td_tensor *t = &s->inputs[i];
    size_t count = 1;
    *t = (td_tensor){.dtype = info.dtype, .rank = info.rank};
    for (int32_t k = 0; k < t->rank; k++) {
      t->dims[k] = info.dims[k] >= 0 ? info.dims[k] : k ? OPEN_SIZE : s->o.batch;
      open |= !k && info.dims[k] < 0;
      count *= (size_t)t->dims[k];
    }
    t->data = record_get(count, 8);
    for (size_t e = 0; t->dtype == TD_F32 && e < count; e++) ((float *)t->data)[e] = (float)(e * 7 % 100) / 50 - 1;
  }
  if (!open) refuse("the model's inputs have no open first dimension: leave out --batch");
}

static td_session *open_session(const simulation *s, const td_session_options *o) {
  td_error err;
  td_session *session;
  check(td_session_new(s->model, o, &session, &err), &err);
  for (size_t i = 0; i < td_model_input_count(s->model); i++)
    check(td_session_set_input(session, i, &s->inputs[i], &err), &err);
  return session;
}

static void load_model(simulation *s) {
  td_error err;
  const td_load_options o = {.size = sizeof o, .isa = s->o.isa, .node_copies = s->o.copies ? s->o.machine : NULL};
  check(td_model_load(s->o.model, &o, &s->model, &err), &err);
  make_inputs(s);
}

/* ---- recordings ---- */

/* What plans count on in the caches there that so many threads have. */
static size_t find_cache(const simulation *s, uint32_t threads) {
  sys_machine caches_of;
  sys_caches_read(&caches_of);
  if (s->o.l3_mb > 0) caches_of.l3_bytes = (uint64_t)(s->o.l3_mb * 1e6);
  const uint32_t caches =
      sys_topology_caches(&s->topology, s->cpus.at, threads < s->cpus.count ? threads : s->cpus.count);
  return run_kept_bytes(&caches_of, caches, threads);
}

/* A session whose plan counts on so many threads, of which the caller's alone is there. `pool` of one, or NULL. */
static td_session *open_alone(const simulation *s, td_pool *pool, uint32_t threads) {
  td_error err;
  td_session *session =
      open_session(s, &(td_session_options){.size = sizeof(td_session_options), .pool = pool, .threads = !pool});
  if (pool) session->run->threads.team->most = threads;
  if (pool && session->run->bounds.cache) session->run->bounds.cache = find_cache(s, threads);
  for (int turn = 0; turn < 2; turn++) check(td_session_run(session, &err), &err); /* who made what is known then */
  return session;
}

static void name_steps(simulation *s, td_session *session) {
  td_error err;
  const uint32_t count = session->run->plan->steps.count, regions = session->run->plan->batches.count;
  s->plan.steps = count + regions;
  s->plan.names = record_get(s->plan.steps, sizeof *s->plan.names);
  for (uint32_t i = 0; i < s->plan.steps; i++) {
    td_step step = {.size = sizeof step};
    char *text = base_arena_alloc(s->arena, 256);
    if (i < count) check(td_session_get_step(session, i, &step, &err), &err);
    if (!text) exit(TD_NO_RESOURCE);
    if (i < count) snprintf(text, 256, "%.120s (%.60s)", step.name, *step.op ? step.op : step.kernel);
    else snprintf(text, 256, "shares of batch %u", i - count);
    s->plan.names[i] = text;
  }
}

/* The session's arena: where it begins, and who has its blocks. */
typedef struct holding {
  const char *base;
  size_t bytes;
  uint16_t *holders;
} holding;

/* The operand's tensor, where it is one in the arena that may lie in a core's caches. */
static const base_tensor *operand_at(const run_session *session, uint32_t operand) {
  const plan_exe *plan = session->plan;
  const uint32_t slot = plan->operands.at[operand];
  if (slot == PLAN_NONE || session->main.values[slot].kind != BASE_TENSOR) return NULL;
  const base_tensor *t = &session->main.values[slot].tensor;
  if (plan->slots.at[plan->slots.at[slot].root].place != PLAN_ARENA || !t->data) return NULL;
  return (double)base_tensor_bytes(t) > plan->here.speed->own_bytes ? NULL : t;
}

static holding hold(const run_session *session) {
  const char *first = NULL, *end = NULL;
  for (uint32_t i = 0; i < session->plan->operands.count; i++) {
    const base_tensor *t = operand_at(session, i);
    if (!t) continue;
    const char *at = t->data;
    if (!first || at < first) first = at;
    if (!end || at + base_tensor_bytes(t) > end) end = at + base_tensor_bytes(t);
  }
  holding h = {.base = first, .bytes = first ? (size_t)(end - first) : 0};
  h.holders = record_get(h.bytes / WALK_LINE + 1, sizeof *h.holders);
  memset(h.holders, 0xff, (h.bytes / WALK_LINE + 1) * sizeof *h.holders); /* WALK_NOBODY */
  return h;
}

/* Bytes of the call's operands and results that another core has than the one that reads or writes them. */
static double find_far(const run_session *session, const holding *h, const walk_call *c) {
  const plan_step *step = &session->plan->steps.at[c->step];
  const bool across = c->writers && walk_is_across(c->writers, c->lines, c->workers);
  double far = 0;
  for (uint32_t i = 0; i < step->in_count + step->out_count; i++) {
    const bool is_in = i < step->in_count;
    const base_tensor *t = operand_at(session, is_in ? step->in + i : step->out + i - step->in_count);
    if (!t) continue;
    const size_t first = (size_t)((const char *)t->data - h->base) / WALK_LINE,
                 lines = base_tensor_bytes(t) / WALK_LINE;
    const uint16_t *writers = i == step->in_count && c->lines == lines ? c->writers : NULL;
    far += is_in ? walk_read(h->holders + first, lines, c->workers, across)
                 : walk_write(h->holders + first, lines, c->workers, writers);
  }
  return far;
}

/* Bytes of a step's operands, for each of its calls its part. */
static void weigh_calls(const simulation *s, td_session *session, recording *r) {
  td_error err;
  uint32_t *calls = record_get(s->plan.steps, sizeof *calls);
  const holding h = hold(session->run);
  for (uint32_t k = 0; k < r->count; k++) calls[r->calls[k].step]++;
  for (uint32_t k = 0; k < 2 * r->count; k++) { /* the first time finds what a run leaves to the next */
    walk_call *c = &r->calls[k % r->count];
    td_step step = {.size = sizeof step};
    if (c->step >= r->steps) continue;
    check(td_session_get_step(session, c->step, &step, &err), &err);
    c->bytes = (step.const_bytes + step.read_bytes + step.write_bytes) / calls[c->step];
    c->far_bytes = find_far(session->run, &h, c) / calls[c->step];
  }
  free(h.holders);
  free(calls);
}

static void record(simulation *s, uint32_t threads) {
  td_error err;
  td_pool *pool;
  recording *r = &s->recordings[s->plan.count];
  double rest_ns = 1e300;
  check(td_pool_new(&(td_pool_options){.size = sizeof(td_pool_options), .threads = 1}, &pool, &err), &err);
  td_session *session = open_alone(s, pool, threads);
  if (!s->plan.count) name_steps(s, session);
  s->machine.far_per_ns = session->run->plan->here.speed->far_per_ns;
  record_open(r, session->run, threads);
  const uint64_t end = sys_clock_ns() + (uint64_t)(s->o.seconds * 1e9);
  do {
    const uint64_t began = sys_clock_ns();
    record_begin(r);
    check(td_session_run(session, &err), &err);
    record_end(r);
    const double ns = (double)(sys_clock_ns() - began) - r->spent_ns;
    if (ns < rest_ns) rest_ns = ns;
  } while (!s->o.shares && (sys_clock_ns() < end || r->runs < LEAST_RUNS));
  if (!s->plan.count && !s->o.shares) s->plan.between_ns = rest_ns;
  (s->o.shares ? record_count : record_watch)(r);
  record_begin(r);
  check(td_session_run(session, &err), &err);
  record_end(r);
  record_stop(r);
  weigh_calls(s, session, r);
  s->runs[s->plan.count++] = (walk_run){threads, r->calls, r->count};
  td_session_free(session);
  td_pool_free(pool);
}

/* 1, 2, 4, ..., all of the first node, ..., all. */
static void record_all(simulation *s) {
  uint32_t node = 1;
  while (node < s->machine.count && s->workers[node].node == s->workers[0].node) node++;
  for (uint32_t threads = 1, next; s->plan.count < WALK_MOST; threads = next) {
    record(s, threads);
    if (threads == s->machine.count) return;
    for (next = 1; next <= threads;) next *= 2;
    if (threads < node && next > node) next = node;
    if (next > s->machine.count) next = s->machine.count;
  }
}

/* ---- what is printed ---- */

static double least_run_ns(td_session *session, double seconds) {
  td_error err;
  double least = 1e300;
  const uint64_t end = sys_clock_ns() + (uint64_t)(seconds * 1e9);
  do {
    const uint64_t began = sys_clock_ns();
    check(td_session_run(session, &err), &err);
    const double ns = (double)(sys_clock_ns() - began);
    if (ns < least) least = ns;
  } while (sys_clock_ns() < end);
  return least;
}

/* Of a run on two threads: what a step is predicted and measured to take. */
typedef struct step_check {
  double predicted_ns, measured_ns;
  double now_ns; /* in the run in progress */
  uint32_t step;
} step_check;

typedef struct run_check {
  step_check *steps;
  uint32_t count;
  double least_ns;
} run_check;

static void see_step(void *user, uint32_t step, uint64_t ns) {
  const run_check *c = user;
  c->steps[step].now_ns += (double)ns;
}

/* Steps of the fastest run count: in it nobody was late. */
static void see_run(void *user, uint64_t begin_ns, uint64_t end_ns) {
  run_check *c = user;
  const double ns = (double)(end_ns - begin_ns);
  const bool fastest = c->least_ns == 0 || ns < c->least_ns;
  if (fastest) c->least_ns = ns;
  for (uint32_t i = 0; i < c->count; i++) {
    if (fastest) c->steps[i].measured_ns = c->steps[i].now_ns;
    c->steps[i].now_ns = 0;
  }
}

static double astray_ns(const step_check *c) {
  return c->measured_ns == 0 ? 0 : fabs(c->predicted_ns - c->measured_ns);
}

static int by_error(const void *a, const void *b) {
  const double x = astray_ns(a), y = astray_ns(b);
  return (x < y) - (x > y);
}

/* The steps whose predictions are furthest from what an observer sees. */
static void compare_steps(const simulation *s, td_session *session) {
  td_error err;
  const walk_run *run = &s->runs[1];
  step_check *checks = record_get(s->plan.steps, sizeof *checks);
  int64_t *taken = record_get(s->machine.count, sizeof *taken);
  run_check all = {.steps = checks, .count = s->plan.steps};
  const td_observer observer = {.size = sizeof observer, .user = &all, .end = see_step, .run = see_run};
  for (uint32_t i = 0; i < s->plan.steps; i++) checks[i].step = i;
  for (uint32_t i = 0; i < run->count; i++) {
    walk_times times;
    if (!walk_call_times(&s->machine, run->threads, &run->calls[i], taken, &times)) exit(TD_NO_RESOURCE);
    checks[run->calls[i].step].predicted_ns += times.ns;
  }
  check(td_session_observe(session, &observer, &err), &err);
  least_run_ns(session, s->o.seconds);
  check(td_session_observe(session, NULL, &err), &err);
  qsort(checks, s->plan.steps, sizeof *checks, by_error);
  printf("predicted us  measured us  of two threads, furthest first\n");
  for (uint32_t i = 0; i < s->plan.steps && i < FURTHEST && checks[i].measured_ns > 0; i++)
    printf("%12.1f %12.1f  %s\n", 1e-3 * checks[i].predicted_ns, 1e-3 * checks[i].measured_ns,
           s->plan.names[checks[i].step]);
  free(taken);
  free(checks);
}

static void compare(const simulation *s) {
  td_session *sessions[2];
  double measured[2] = {1e300, 1e300};
  for (uint32_t i = 0; i < 2; i++)
    sessions[i] = open_session(s, &(td_session_options){.size = sizeof(td_session_options), .threads = i + 1});
  for (int turn = 0; turn < 6; turn++) { /* in turns: other work on the machine hits both */
    const double ns = least_run_ns(sessions[turn % 2], s->o.seconds);
    if (ns < measured[turn % 2]) measured[turn % 2] = ns;
  }
  for (uint32_t i = 0; i < 2 && i < s->plan.count; i++) {
    const double ns = walk_run_ns(&s->machine, &s->plan, &s->runs[i]);
    printf("%u thread%s: predicted %.3f ms, measured %.3f ms, ratio %.2f\n", i + 1, i ? "s" : "", 1e-6 * ns,
           1e-6 * measured[i], ns / measured[i]);
  }
  if (s->plan.count > 1) compare_steps(s, sessions[1]);
  for (uint32_t i = 0; i < 2; i++) td_session_free(sessions[i]);
}

static void print(const simulation *s) {
  base_text text = {.allocator = &base_libc_allocator};
  if (!(s->o.shares ? walk_print_shares : walk_print)(&s->machine, &s->plan, &text)) exit(TD_NO_RESOURCE);
  printf("there: %u cores, %u nodes\n\n%s", s->machine.count, s->topology.nodes, text.at);
  base_free(text.allocator, text.at, text.cap);
}

/* ---- weights ---- */

/* The node whose memory has the byte that some worker reads. */
static uint32_t node_of(const simulation *s, const run_copies *c, const void *at) {
  const char *byte = at;
  if (!c) return s->workers[0].node; /* where they were loaded */
  for (uint32_t i = 0; i < c->node_count; i++)
    if (c->nodes[i].memory && byte >= c->nodes[i].memory && byte < c->nodes[i].memory + c->nodes[i].bytes)
      return c->nodes[i].number;
  return c->nodes[c->own].number;
}

/* Bytes of constants that a step's kernel reads on the CPU that the system says we run on: all, and those far away. */
static void add_weights(const simulation *s, const run_session *session, uint32_t number, uint32_t node, double *sum) {
  const plan_exe *plan = session->plan;
  const plan_step *step = &plan->steps.at[number];
  const base_call *call = &session->main.steps[number].call;
  run_near near;
  if (step->kind != PLAN_CALL) return;
  if (session->plans.general->here.copies) call = run_near_call(session->plans.general->here.copies, call, &near);
  for (uint32_t i = 0; i < step->in_count; i++) {
    const uint32_t slot = plan->operands.at[step->in + i];
    if (slot == PLAN_NONE || plan->slots.at[plan->slots.at[slot].root].place != PLAN_CONST) continue;
    if (call->in[i]->kind != BASE_TENSOR) continue;
    const double bytes = (double)base_tensor_bytes(&call->in[i]->tensor);
    sum[0] += bytes;
    if (node_of(s, session->plans.general->here.copies, call->in[i]->tensor.data) != node) sum[1] += bytes;
  }
}

/* Which worker reads weights from which node: those of a node read alike, as is checked. */
static void print_weights(const simulation *s) {
  td_session *session = open_alone(s, NULL, 1);
  double before[2] = {0};
  printf("\nweights that a worker reads in a run:\n");
  for (uint32_t w = 0; w < s->machine.count; w++) {
    const uint32_t node = s->workers[w].node;
    double sum[2] = {0};
    record_cpu = s->cpus.at[w];
    for (uint32_t i = 0; i < session->run->plan->steps.count; i++) add_weights(s, session->run, i, node, sum);
    record_cpu = UINT32_MAX;
    if (w && s->workers[w - 1].node == node && sum[1] == before[1]) continue;
    printf("from worker %u on, of node %u: %.3f MiB, of them %.3f MiB from other nodes\n", w, node, sum[0] / 1048576,
           sum[1] / 1048576);
    before[1] = sum[1];
  }
  td_session_free(session);
}

int main(int count, char **words) {
  static simulation s;
  s.o = read_options(count, words);
  s.arena = base_arena_new(&base_libc_allocator);
  if (!s.arena) return TD_NO_RESOURCE;
  s.plan.runs = s.runs;
  make_machine(&s);
  load_model(&s);
  s.machine.counted = s.o.shares;
  s.machine.per_thread = 1;
  if (s.o.shares) {
    record(&s, s.machine.count);
  } else {
    measure_machine(&s);
    record_all(&s);
  }
  if (s.o.check) compare(&s);
  print(&s);
  print_weights(&s);
  for (uint32_t i = 0; i < s.plan.count; i++) record_free(&s.recordings[i]);
  td_model_free(s.model);
  base_arena_free(s.arena);
  free(s.workers);
  free((void *)s.plan.names);
  for (size_t i = 0; i < MOST_INPUTS; i++) free(s.inputs[i].data);
  return 0;
}
