/* test_pool.c -- pools of threads: shared steps under many runs, errors, sleep, two sessions and one pool. */
/* ctest: threads */
#include "base/lack.h"
#include "runtime/harness.h"
#include "runtime/runtime_priv.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static const uint32_t counts[] = {1, 2, 3, 4, 8};
enum { COUNTS = 5, TASKS = 40 };

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
  const base_call call = run_pool_call(worker, workers, &(base_call){0});
  for (int64_t i = base_call_first(&call, TASKS); i < TASKS; i = base_call_next(&call, i, TASKS)) {
    t->taken[i]++;
    if (i == 0) t->plain++;
  }
  return TD_OK;
}

static void each_task_is_done_once(void **state) {
  (void)state;
  for (size_t c = 0; c < COUNTS; c++) {
    run_pool *pool = open_pool(counts[c], 20);
    assert_true(run_pool_threads(pool) >= 1 && run_pool_threads(pool) <= counts[c]);
    tally t = {0};
    uint32_t jobs = 0;
    for (uint32_t run = 0; run < 60; run++) {
      assert_true(run_pool_enter(pool));
      for (uint32_t step = 0; step < 1 + run % 7; step++, jobs++)
        assert_int_equal(run_pool_share(pool, 1 + (run + step) % 9, count_tasks, &t, NULL), TD_OK);
      run_pool_leave(pool);
      if (run % 20 == 0) usleep(2000); /* long enough for all to fall asleep */
    }
    for (uint32_t i = 0; i < TASKS; i++) assert_int_equal(t.taken[i], jobs);
    assert_int_equal(t.plain, jobs);
    run_pool_free(pool);
  }
}

typedef struct trap {
  uint32_t task; /* the one that fails */
  td_error *err; /* of the caller */
} trap;

static td_status fail_at(void *user, run_worker *worker, uint32_t workers) {
  const trap *t = user;
  const base_call call = run_pool_call(worker, workers, &(base_call){0});
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
  tally t = {0};
  assert_true(run_pool_enter(pool));
  for (uint32_t bad = 0; bad < TASKS; bad++) {
    td_error err = {0};
    trap at = {bad, &err};
    char text[32];
    snprintf(text, sizeof text, "task %u", bad);
    assert_int_equal(run_pool_share(pool, 4, fail_at, &at, &err), TD_UNSUPPORTED);
    assert_string_equal(err.text, text);
    assert_int_equal(run_pool_share(pool, 4, count_tasks, &t, &err), TD_OK); /* and it is over */
  }
  run_pool_leave(pool);
  assert_int_equal(t.taken[TASKS - 1], TASKS);
  run_pool_free(pool);
}

static void one_at_a_time(void **state) {
  (void)state;
  run_pool *pool = open_pool(2, 0);
  assert_true(run_pool_enter(pool));
  assert_false(run_pool_enter(pool));
  run_pool_leave(pool);
  assert_true(run_pool_enter(pool));
  run_pool_leave(pool);
  run_pool_free(pool);
}

static void a_pool_ends_at_any_time(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 12; i++) {
    run_pool *pool = open_pool(1 + i % 4, i % 2 ? 1 : 100000);
    tally t = {0};
    if (i % 3) {
      assert_true(run_pool_enter(pool));
      assert_int_equal(run_pool_share(pool, 4, count_tasks, &t, NULL), TD_OK);
      run_pool_leave(pool);
    }
    if (i % 2) usleep(3000); /* asleep, not only spinning */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_task_is_done_once), cmocka_unit_test(an_error_of_a_worker_comes_out),
      cmocka_unit_test(one_at_a_time),          cmocka_unit_test(a_pool_ends_at_any_time),
      cmocka_unit_test(lack_of_memory),         cmocka_unit_test(bits_do_not_depend_on_threads),
      cmocka_unit_test(sessions_share_a_pool),  cmocka_unit_test(a_failing_step_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
