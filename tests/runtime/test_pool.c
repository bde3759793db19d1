/* test_pool.c -- pools of threads: shared steps under many runs, errors, sleep, two sessions and one pool. */
/* ctest: threads */
#include "base/lack.h"
#include "base/team.h"
#include "runtime/harness.h"
#include "runtime/pool_priv.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint32_t counts[] = {1, 2, 3, 4, 8, 64};
enum { COUNTS = 6, TASKS = 40 };

static run_team *open_team(run_pool *pool, uint32_t weight) {
  run_team *team;
  assert_int_equal(run_team_new(pool, weight, &team, NULL), TD_OK);
  return team;
}

static run_pool *open_pool(uint32_t threads, uint32_t spin_us) {
  run_pool *pool;
  assert_int_equal(run_pool_new(threads, spin_us, &base_libc_allocator, &pool, NULL), TD_OK);
  return pool;
}

/* ---- the pool alone ---- */

typedef struct tally {
  uint32_t taken[TASKS]; /* how often each task was done */
  uint64_t plain;        /* written by task 0 of each job, without a lock: the sanitizer sees a missing hand-over */
} tally;

static td_status count_tasks(void *user, run_worker *worker, uint32_t workers) {
  tally *t = user;
  assert_true(worker->index < workers);
  const base_call call = run_team_call(worker, workers, &(base_call){0});
  for (int64_t i = base_call_first(&call, TASKS); i < TASKS; i = base_call_next(&call, i, TASKS)) {
    t->taken[i]++;
    if (i == 0) t->plain++;
  }
  return TD_OK;
}

static void each_task_is_done_once(void **state) {
  (void)state;
  for (size_t c = 0; c <= COUNTS; c++) {
    run_pool *pool = open_pool(c < COUNTS ? counts[c] : 40, 20); /* so many: orders go down a tree */
    const uint32_t most = run_pool_threads(pool) + 1;
    assert_true(run_pool_threads(pool) >= 1 && run_pool_threads(pool) <= 64);
    run_team *team = open_team(pool, 0);
    tally t = {0};
    uint32_t jobs = 0;
    for (uint32_t run = 0; run < 60; run++) {
      run_team_enter(team, run % 2);
      assert_int_equal(run_team_threads(team), run_pool_threads(pool)); /* nobody else wants them */
      for (uint32_t step = 0; step < 1 + run % 7; step++, jobs++)
        assert_int_equal(run_team_share(team, 1 + (run + step) % most, count_tasks, &t, NULL), TD_OK);
      run_team_leave(team);
      if (run % 20 == 0) usleep(2000); /* long enough for all to fall asleep */
    }
    for (uint32_t i = 0; i < TASKS; i++) assert_int_equal(t.taken[i], jobs);
    assert_int_equal(t.plain, jobs);
    run_team_free(team);
    run_pool_free(pool);
  }
}

typedef struct trap {
  uint32_t task; /* the one that fails */
  td_error *err; /* of the caller */
} trap;

static td_status fail_at(void *user, run_worker *worker, uint32_t workers) {
  const trap *t = user;
  const base_call call = run_team_call(worker, workers, &(base_call){0});
  for (int64_t i = base_call_first(&call, TASKS); i < TASKS; i = base_call_next(&call, i, TASKS)) {
    sched_yield(); /* let others come to a task */
    if (i == t->task)
      return base_fail(worker->index == 0 ? t->err : &worker->err, TD_UNSUPPORTED, NULL, -1, "task %d", (int)i);
  }
  return TD_OK;
}

static void an_error_of_a_worker_comes_out(void **state) {
  (void)state;
  run_pool *pool = open_pool(4, 50);
  run_team *team = open_team(pool, 0);
  tally t = {0};
  run_team_enter(team, true);
  for (uint32_t bad = 0; bad < TASKS; bad++) {
    td_error err = {0};
    trap at = {bad, &err};
    char text[32];
    snprintf(text, sizeof text, "task %u", bad);
    assert_int_equal(run_team_share(team, 4, fail_at, &at, &err), TD_UNSUPPORTED);
    assert_string_equal(err.text, text);
    assert_int_equal(run_team_share(team, 4, count_tasks, &t, &err), TD_OK); /* and it is over */
  }
  run_team_leave(team);
  assert_int_equal(t.taken[TASKS - 1], TASKS);
  run_team_free(team);
  run_pool_free(pool);
}

/* Threads of the team, once those that go to and fro are let go. */
static uint32_t settled(run_team *team) {
  usleep(1000);
  return run_team_threads(team);
}

/* Of 8 threads each running team has its own and a share of the rest; together they are never more. */
static void shares_by_weight(void **state) {
  (void)state;
  run_pool *pool = open_pool(8, 0);
  run_team *even[] = {open_team(pool, 1), open_team(pool, 1)}, *heavy = open_team(pool, 4);
  if (run_pool_threads(pool) < 8) skip(); /* the system refuses threads */
  run_team_enter(even[0], false);
  assert_int_equal(run_team_threads(even[0]), 8);
  run_team_enter(even[1], false);
  assert_int_equal(run_team_threads(even[1]), 1); /* the other one has not given anything back yet */
  assert_int_equal(run_team_threads(even[0]), 4);
  assert_int_equal(run_team_threads(even[1]), 4); /* nobody has them now, and they are its share */
  run_team_enter(heavy, false);
  const uint32_t one = run_team_threads(even[0]), two = run_team_threads(even[1]), most = run_team_threads(heavy);
  assert_true(one + two + most == 8 && one < 3 && two < 3 && most > 4);
  run_team_leave(even[0]);
  run_team_leave(even[1]);
  assert_true(run_team_threads(heavy) < 8); /* they may come back soon */
  assert_int_equal(settled(heavy), 8);
  run_team_leave(heavy);
  run_team_enter(even[0], true);
  assert_int_equal(settled(even[0]), 8); /* from one that does not run */
  run_team_leave(even[0]);
  run_team_free(heavy);
  for (int i = 0; i < 2; i++) run_team_free(even[i]);
  run_pool_free(pool);
}

/* What a team does not take of its share others have, by their weights. */
static void shares_that_are_not_taken(void **state) {
  (void)state;
  run_pool *pool = open_pool(8, 0);
  run_team *few = open_team(pool, 5), *one = open_team(pool, 0), *light = open_team(pool, 1),
           *heavy = open_team(pool, 3);
  if (run_pool_threads(pool) < 8) skip(); /* the system refuses threads */
  few->most = 2;
  one->most = 1;
  run_team_enter(few, false);
  assert_int_equal(run_team_threads(few), 2); /* alone, too */
  run_team_enter(light, false);
  assert_int_equal(settled(light), 6);
  run_team_enter(one, false);
  assert_int_equal(run_team_threads(one), 1);
  assert_int_equal(settled(light), 5);
  run_team_enter(heavy, false);
  assert_int_equal(run_team_threads(light), 1); /* of the three that are left a quarter beside its own */
  assert_int_equal(settled(heavy), 4);
  assert_int_equal(run_team_threads(few), 2);
  run_team *const all[] = {few, one, light, heavy};
  for (int i = 0; i < 4; i++) {
    run_team_leave(all[i]);
    run_team_free(all[i]);
  }
  run_pool_free(pool);
}

static void guests_take_a_core(void **state) {
  (void)state;
  run_pool *pool = open_pool(4, 0);
  run_team *team = open_team(pool, 1);
  run_guest *guests[2];
  if (run_pool_threads(pool) < 4) skip(); /* the system refuses threads */
  for (int i = 0; i < 2; i++) assert_int_equal(run_guest_new(pool, &guests[i], NULL), TD_OK);
  run_team_enter(team, false);
  assert_int_equal(run_team_threads(team), 4);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 2; i++) run_guest_enter(guests[i]);
    assert_int_equal(run_team_threads(team), 2);
    run_guest_leave(guests[0]);
    assert_int_equal(settled(team), 3);
    run_guest_leave(guests[1]);
    assert_int_equal(settled(team), 4);
  }
  run_team_leave(team);
  for (int i = 0; i < 2; i++) run_guest_free(guests[i]);
  run_guest_enter(NULL);
  run_guest_leave(NULL);
  run_guest_free(NULL);
  run_team_free(team);
  run_pool_free(pool);
}

typedef struct crowd {
  run_pool *pool;
  uint32_t weight;
  _Atomic int32_t *computing, *most;
} crowd;

static td_status count_threads(void *user, run_worker *worker, uint32_t workers) {
  const crowd *c = user;
  (void)worker;
  (void)workers;
  const int32_t now = atomic_fetch_add(c->computing, 1) + 1;
  for (int32_t most = atomic_load(c->most); now > most && !atomic_compare_exchange_weak(c->most, &most, now);) {}
  for (int i = 0; i < 50; i++) base_pause();
  atomic_fetch_sub(c->computing, 1);
  return TD_OK;
}

static void *run_in_a_crowd(void *user) {
  crowd *c = user;
  run_team *team = open_team(c->pool, c->weight);
  for (int run = 0; run < 60; run++) {
    tally t = {0};
    run_team_enter(team, true);
    for (uint32_t step = 0; step < 9; step++) {
      assert_int_equal(run_team_share(team, 6, count_threads, c, NULL), TD_OK);
      assert_int_equal(run_team_share(team, 6, count_tasks, &t, NULL), TD_OK);
    }
    run_team_leave(team);
    for (uint32_t i = 0; i < TASKS; i++) assert_int_equal(t.taken[i], 9);
    if (run % 16 == 0) usleep(1500);
  }
  run_team_free(team);
  return NULL;
}

/* Teams that come and go on their own threads: each task is done once, and threads that change hands do no harm. While
 * a step that began before another team is not over, there may be as many more as that one has. */
static void teams_side_by_side(void **state) {
  (void)state;
  enum { TEAMS = 3 };
  _Atomic int32_t computing = 0, most = 0;
  run_pool *pool = open_pool(6, 50);
  pthread_t threads[TEAMS];
  crowd crowds[TEAMS];
  for (uint32_t i = 0; i < TEAMS; i++) {
    crowds[i] = (crowd){pool, i + 1, &computing, &most};
    assert_int_equal(pthread_create(&threads[i], NULL, run_in_a_crowd, &crowds[i]), 0);
  }
  for (int i = 0; i < TEAMS; i++) pthread_join(threads[i], NULL);
  assert_true(atomic_load(&most) <= 6 + TEAMS - 1);
  run_pool_free(pool);
}

/* Affinity that changes while the process runs is noticed by a worker that waits, or, when all of them sleep since one
 * CPU was left, by who leads a team. */
static void affinity_changes(void **state) {
  (void)state;
  cpu_set_t all, one;
  run_pool *pool = open_pool(2, 100000);
  run_team *team = open_team(pool, 0);
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  if (run_pool_threads(pool) < 2 || CPU_COUNT(&all) < 2) skip();
  pool->look_ns = 1000;
  CPU_ZERO(&one);
  for (size_t i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &all) && CPU_COUNT(&one) == 0) CPU_SET(i, &one);
  run_team_enter(team, true);
  for (int shrunk = 1; shrunk >= 0; shrunk--) {
    assert_int_equal(sched_setaffinity(0, sizeof all, shrunk ? &one : &all), 0);
    for (int i = 0; i < 2000 && run_team_threads(team) != (shrunk ? 1 : 2); i++) {
      tally t = {0};
      assert_int_equal(run_team_share(team, 2, count_tasks, &t, NULL), TD_OK);
      usleep(1000);
    }
    assert_int_equal(run_team_threads(team), shrunk ? 1 : 2);
    for (int i = 0; i < 200 && shrunk && !atomic_load(&pool->workers[1].asleep); i++) usleep(1000);
  }
  run_team_leave(team);
  run_team_free(team);
  run_pool_free(pool);
}

/* ---- a quota that changes ---- */

enum { LEFT_OUT = 77 };

static bool put(const char *folder, const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  if (!file) return false;
  const bool written = fputs(text, file) >= 0;
  return fclose(file) == 0 && written;
}

/* As a control group says it by version 2 and by version 1. 0: no limit. */
static bool put_quota(const char *folder, int percent) {
  char two[32] = "max 100000", one[32] = "-1", path[64];
  if (percent) snprintf(two, sizeof two, "%d 100000", 1000 * percent);
  if (percent) snprintf(one, sizeof one, "%d", 1000 * percent);
  bool done = put(folder, "cpu.max", two);
  static const char *const places[] = {"cpu", "cpu,cpuacct", "cpuacct,cpu"};
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, places[i]);
    mkdir(path, 0755);
    done = done && put(path, "cpu.cfs_quota_us", one) && put(path, "cpu.cfs_period_us", "100000");
  }
  return done;
}

/* In front of this process's own group, whose files it may not write in most containers, are files of ours from now
 * on. False: the system lets nobody do that here, or has no groups. */
static bool replace_groups(const char *folder) {
  return (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
         mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && put_quota(folder, 150) &&
         mount(folder, "/sys/fs/cgroup", NULL, MS_BIND, NULL) == 0 && sys_process_share().quota_cpus == 1.5;
}

/* Fewer threads and more again, in runs that go on meanwhile. The exit status. */
static int follow_quota(const char *folder) {
  static const struct {
    int percent;
    uint32_t threads;
  } steps[] = {{100, 1}, {200, 2}, {150, 1}, {0, 2}, {50, 1}, {250, 2}};
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return LEFT_OUT;
  if (!replace_groups(folder) || !put_quota(folder, 0)) return LEFT_OUT;
  run_pool *pool = open_pool(2, 1000);
  run_team *team = open_team(pool, 0);
  if (run_pool_threads(pool) < 2) return LEFT_OUT;
  pool->look_ns = 1000;
  run_team_enter(team, true);
  for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
    if (!put_quota(folder, steps[k].percent)) return 2;
    for (int i = 0; i < 5000 && run_team_threads(team) != steps[k].threads; i++) {
      tally t = {0};
      if (run_team_share(team, 2, count_tasks, &t, NULL) != TD_OK) return 3;
      for (uint32_t task = 0; task < TASKS; task++)
        if (t.taken[task] != 1) return 4;
      usleep(1000);
    }
    if (run_team_threads(team) != steps[k].threads) return 10 + (int)k;
  }
  run_team_leave(team);
  run_team_free(team);
  run_pool_free(pool);
  return 0;
}

/* The first test: none has made threads before it forks. */
static void quota_changes(void **state) {
  (void)state;
  char folder[] = "/tmp/treadle-quota-XXXXXX", command[64];
  int status = -1;
  assert_non_null(mkdtemp(folder));
  const pid_t child = fork();
  if (child == 0) _exit(follow_quota(folder));
  assert_int_equal(waitpid(child, &status, 0), child);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == LEFT_OUT) {
    print_message("left out: one CPU alone, no control groups, or no mounts of a process's own\n");
    skip();
  }
  if (status != 0) fail_msg("status %x", (unsigned)status);
}

static void a_pool_ends_at_any_time(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 12; i++) {
    run_pool *pool = open_pool(1 + i % 4, i % 2 ? 1 : 100000);
    run_team *team = open_team(pool, 0);
    tally t = {0};
    if (i % 3) {
      run_team_enter(team, true);
      assert_int_equal(run_team_share(team, 4, count_tasks, &t, NULL), TD_OK);
      run_team_leave(team);
    }
    if (i % 2) usleep(3000); /* asleep, not only spinning */
    run_team_free(team);
    run_pool_free(pool);
  }
  run_pool_free(NULL);
}

static td_status pool_within(const td_allocator *allocator, void *user) {
  (void)user;
  run_pool *pool = NULL;
  const td_status status = run_pool_new(2, 0, allocator, &pool, NULL);
  run_pool_free(pool);
  return status;
}

static void lack_of_memory(void **state) {
  (void)state;
  assert_true(fail_each_allocation(pool_within, NULL, false) >= 3);
}

/* ---- sessions ---- */

/* Row r of the output is the sum of row r of the input, each element times r: a task per row. */
static td_status sum_rows(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  float *row_sums = base_call_scratch(call, (size_t)x->dims[1], sizeof *row_sums);
  if (!row_sums) return base_no_memory(call->err, "scratch");
  for (int64_t r = base_call_first(call, x->dims[0]); r < x->dims[0]; r = base_call_next(call, r, x->dims[0])) {
    const float *row = (const float *)x->data + r * x->dims[1];
    float sum = 0;
    for (int64_t i = 0; i < x->dims[1]; i++) row_sums[i] = row[i] * (float)r;
    for (int64_t i = 0; i < x->dims[1]; i++) sum += row_sums[i];
    for (int64_t i = 0; i < y->dims[1]; i++) ((float *)y->data)[r * y->dims[1] + i] = row[i] / (1 + sum * sum);
    if (row[0] < 0) return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "row %d is negative", (int)r);
  }
  return TD_OK;
}

static void much_work(const base_call *call, double *flops, double *bytes) {
  (void)call;
  *flops = *bytes = 1e9;
}

static bool find_operator(const void *user, const char *name, plan_operator *found) {
  (void)user;
  *found = (plan_operator){.work = much_work};
  return strcmp(name, "sum") == 0;
}

static bool find_kernel(const void *user, const char *name, plan_kernel *found) {
  (void)user;
  *found = (plan_kernel){.run = sum_rows, .parallel = true};
  return strcmp(name, "sum_rows") == 0;
}

static plan_port port_of(plan_exe *plan, const char *name, uint32_t slot) {
  return (plan_port){.name = plan_add_name(plan, name),
                     .slot = slot,
                     .fallback = PLAN_NONE,
                     .takes = BASE_TENSOR,
                     .dtype = TD_F32,
                     .rank = 2,
                     .dims = {50, 33}};
}

static uint32_t add_slot(plan_exe *plan, plan_place place, uint32_t first, uint32_t last) {
  plan_slot *s = base_vec_push(plan->arena, &plan->slots);
  assert_non_null(s);
  *s = (plan_slot){
      .place = place, .dtype = TD_F32, .rank = 2, .dims = {50, 33}, .part_of = PLAN_NONE, .first = first, .last = last};
  s->root = plan->slots.count - 1;
  return s->root;
}

/* y = sum_rows applied `length` times to x. */
static plan_exe *chain_plan(uint32_t length) {
  plan_exe *plan = plan_new(&base_libc_allocator);
  assert_non_null(plan);
  const plan_symbols symbols = {.find_operator = find_operator, .find_kernel = find_kernel};
  const plan_function f = {
      .op = plan_add_name(plan, "sum"), .role = PLAN_KERNEL, .kernel = plan_add_name(plan, "sum_rows")};
  uint32_t function;
  td_error err;
  assert_int_equal(plan_add_function(plan, &f, &symbols, &function, &err), TD_OK);
  uint32_t from = add_slot(plan, PLAN_INPUT, 0, 0);
  *base_vec_push(plan->arena, &plan->inputs) = port_of(plan, "x", from);
  for (uint32_t i = 0; i < length; i++) {
    uint32_t to = add_slot(plan, PLAN_ARENA, i, i + 1);
    plan_step *step = base_vec_push(plan->arena, &plan->steps);
    *step = (plan_step){.kind = PLAN_CALL,
                        .function = function,
                        .attrs = PLAN_NONE,
                        .in = plan_add_operands(plan, &from, 1),
                        .in_count = 1,
                        .out = plan_add_operands(plan, &to, 1),
                        .out_count = 1,
                        .name = plan_add_name(plan, "sum")};
    from = to;
  }
  *base_vec_push(plan->arena, &plan->outputs) = port_of(plan, "y", from);
  assert_int_equal(plan_verify(plan, &err), TD_OK);
  return plan;
}

enum { VALUES = 50 * 33 };
typedef struct chain {
  const plan_exe *plan;
  run_pool *pool;
  uint32_t runs;
  float first, out[VALUES];
} chain;

static void run_chain(chain *c) {
  static const int64_t dims[] = {50, 33};
  float in[VALUES];
  for (int i = 0; i < VALUES; i++) in[i] = c->first + (float)((i * 7919) % 1000) / 1000;
  base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(in, TD_F32, 2, dims)};
  const base_value *out;
  run_session *session;
  td_error err;
  assert_int_equal(run_session_new(c->plan, &base_libc_allocator, c->pool, &session, &err), TD_OK);
  assert_int_equal(run_set_input(session, 0, &value, &err), TD_OK);
  for (uint32_t i = 0; i < c->runs; i++) {
    if (run_session_run(session, &err) != TD_OK) fail_msg("%s", err.text);
    assert_int_equal(run_output(session, 0, &out, &err), TD_OK);
    if (i == 0) memcpy(c->out, out->tensor.data, sizeof c->out);
    else assert_memory_equal(c->out, out->tensor.data, sizeof c->out);
  }
  if (c->pool) assert_int_equal(run_session_stats(session).threads, run_pool_threads(c->pool));
  run_session_free(session);
}

static void bits_do_not_depend_on_threads(void **state) {
  (void)state;
  plan_exe *plan = chain_plan(9);
  chain alone = {.plan = plan, .runs = 1, .first = 0.5f};
  run_chain(&alone);
  for (size_t c = 0; c < COUNTS; c++) {
    chain shared = {.plan = plan, .pool = open_pool(counts[c], 100), .runs = 25, .first = 0.5f};
    run_chain(&shared);
    assert_memory_equal(shared.out, alone.out, sizeof alone.out);
    run_pool_free(shared.pool);
  }
  plan_free(plan);
}

static void *run_on_a_thread(void *user) {
  run_chain(user);
  return NULL;
}

static void sessions_share_a_pool(void **state) {
  (void)state;
  enum { SESSIONS = 3 };
  plan_exe *plan = chain_plan(5);
  run_pool *pool = open_pool(3, 30);
  chain alone[SESSIONS], shared[SESSIONS];
  pthread_t threads[SESSIONS];
  for (int i = 0; i < SESSIONS; i++) {
    alone[i] = (chain){.plan = plan, .runs = 1, .first = (float)i};
    shared[i] = (chain){.plan = plan, .pool = pool, .runs = 40, .first = (float)i};
    run_chain(&alone[i]);
  }
  for (int i = 0; i < SESSIONS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run_on_a_thread, &shared[i]), 0);
  for (int i = 0; i < SESSIONS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < SESSIONS; i++) assert_memory_equal(shared[i].out, alone[i].out, sizeof alone[i].out);
  run_pool_free(pool);
  plan_free(plan);
}

static void a_failing_step_is_named(void **state) {
  (void)state;
  static const int64_t dims[] = {50, 33};
  float in[VALUES] = {0};
  in[31 * 33] = -1;
  base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(in, TD_F32, 2, dims)};
  plan_exe *plan = chain_plan(3);
  run_pool *pool = open_pool(4, 30);
  run_session *session;
  td_error err;
  assert_int_equal(run_session_new(plan, &base_libc_allocator, pool, &session, &err), TD_OK);
  assert_int_equal(run_set_input(session, 0, &value, &err), TD_OK);
  for (int i = 0; i < 30; i++) {
    in[31 * 33] = i % 2 ? 1 : -1;
    assert_int_equal(run_session_run(session, &err), i % 2 ? TD_OK : TD_UNSUPPORTED);
    if (i % 2) continue;
    assert_string_equal(err.text, "row 31 is negative; step 0, graph node sum, kernel sum_rows");
    assert_string_equal(err.name, "sum");
  }
  run_session_free(session);
  run_pool_free(pool);
  plan_free(plan);
}

/* Without a pool; what a task writes is there behind the call. */
static void note_task(void *arg, uint32_t i) { ((uint32_t *)arg)[i] += i + 1; }

static void jobs_without_a_pool(void **state) {
  (void)state;
  enum { MOST = 1000 };
  for (uint32_t count = 0; count <= MOST; count = count ? count * 10 : 1) {
    uint32_t done[MOST + 1] = {0};
    run_in_parallel(count, note_task, done);
    for (uint32_t i = 0; i <= MOST; i++) assert_int_equal(done[i], i < count ? i + 1 : 0);
  }
}

/* Eight cores to a cache: of threads, not of all CPUs that a pool may use; CPUs that nobody knows count for nothing. */
static void caches_of_a_pool_are_counted(void **state) {
  (void)state;
  static const struct {
    uint32_t threads, first, step, caches;
  } pools[] = {{4, 0, 1, 1},   {8, 0, 1, 1},    {9, 0, 1, 2},  {112, 0, 1, 14},
               {14, 0, 8, 14}, {16, 104, 1, 1}, {3, 112, 1, 1}};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  sys_topology machine;
  assert_int_equal(sys_topology_load("package:2 l3:7 core:8 pu:1", arena, &machine, NULL), TD_OK);
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
    uint32_t cpus[112];
    for (uint32_t k = 0; k < 112; k++) cpus[k] = pools[i].first + k * pools[i].step;
    run_pool pool = {.capacity = pools[i].threads, .cpus = cpus, .cpu_count = 112};
    run_pool_count_caches(&pool, &machine);
    assert_int_equal(run_pool_caches(&pool), pools[i].caches);
  }
  base_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(quota_changes),
                                     cmocka_unit_test(each_task_is_done_once),
                                     cmocka_unit_test(jobs_without_a_pool),
                                     cmocka_unit_test(an_error_of_a_worker_comes_out),
                                     cmocka_unit_test(shares_by_weight),
                                     cmocka_unit_test(shares_that_are_not_taken),
                                     cmocka_unit_test(guests_take_a_core),
                                     cmocka_unit_test(teams_side_by_side),
                                     cmocka_unit_test(affinity_changes),
                                     cmocka_unit_test(a_pool_ends_at_any_time),
                                     cmocka_unit_test(lack_of_memory),
                                     cmocka_unit_test(bits_do_not_depend_on_threads),
                                     cmocka_unit_test(sessions_share_a_pool),
                                     cmocka_unit_test(a_failing_step_is_named),
                                     cmocka_unit_test(caches_of_a_pool_are_counted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
