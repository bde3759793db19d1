/* test_queue.c -- runs that end early, in loops, tasks, parts and shares of a batch; runs in line beside the caller. */
/* ctest: threads */
#include "base/team.h"
#include "runtime/harness.h"
#include "runtime/session_priv.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Without an end while "go" is true: in the run's own line, and in a task. */
static const char endless_loop[] =
    "input %0 \"go\": bool[]\n"
    "input %1 \"x\": f32[n]\n"
    "const %2: bool[] = {1}\n"
    "%3 = prim::Loop(-, %2, %1): f32[n] {\n"
    "  block(%4: i64[], %5: f32[n]) {\n"
    "    %6 = aten::add(%5, %1)\n"
    "    yield %0, %6\n"
    "  }\n"
    "}\n"
    "output \"y\" %3\n";
static const char endless_task[] =
    "input %0 \"go\": bool[]\n"
    "input %1 \"x\": f32[n]\n"
    "const %2: bool[] = {1}\n"
    "%7 = prim::fork(): future(f32[n]) {\n"
    "  block() {\n"
    "    %3 = prim::Loop(-, %2, %1): f32[n] {\n"
    "      block(%4: i64[], %5: f32[n]) {\n"
    "        %6 = aten::add(%5, %1)\n"
    "        yield %0, %6\n"
    "      }\n"
    "    }\n"
    "    yield %3\n"
    "  }\n"
    "}\n"
    "%8 = prim::wait(%7): f32[n]\n"
    "output \"y\" %8\n";

enum { SOON_NS = 3000000 };

static void *cancel_soon(void *word) {
  usleep(SOON_NS / 1000);
  __atomic_store_n((int32_t *)word, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* Both ends of an endless run, and one that is not, on the same session. */
static void ends(rig *r, run_session *session) {
  int32_t word = 0;
  pthread_t thread;
  bool go = true;
  float x[] = {1, 2, 3};
  const base_value *y;
  const base_value inputs[] = {{.kind = BASE_TENSOR, .tensor = base_tensor_of(&go, TD_BOOL, 0, NULL)},
                               {.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 1, (int64_t[]){3})}};
  for (uint32_t i = 0; i < 2; i++) assert_int_equal(run_set_input(session, i, &inputs[i], &r->err), TD_OK);
  const run_until late = {.deadline_ns = sys_clock_ns() + SOON_NS};
  assert_int_equal(run_session_run_until(session, late, &r->err), TD_TIMED_OUT);
  assert_non_null(strstr(r->err.text, "deadline"));
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &word), 0);
  assert_int_equal(run_session_run_until(session, (run_until){.cancel = {&word}}, &r->err), TD_CANCELLED);
  pthread_join(thread, NULL);
  assert_int_equal(run_output(session, 0, &y, &r->err), TD_BAD_ARGUMENT);
  go = false;
  word = 0;
  const run_until far = {.deadline_ns = sys_clock_ns() + 60000000000u, .cancel = {&word}};
  assert_int_equal(run_session_run_until(session, far, &r->err), TD_OK);
  assert_int_equal(run_output(session, 0, &y, &r->err), TD_OK);
  assert_true(((const float *)y->tensor.data)[2] == 6);
}

static void endless_runs_end(void **state) {
  (void)state;
  const char *const texts[] = {endless_loop, endless_task}, *const backends[] = {"eager", "native"};
  for (int t = 0; t < 2; t++)
    for (int b = 0; b < 2; b++) {
      rig r;
      run_pool *pool;
      run_session *session;
      rig_open(&r, texts[t], backends[b]);
      ends(&r, r.session);
      assert_int_equal(run_pool_new(2, 50, &r.allocator, &pool, &r.err), TD_OK);
      run_pool_set_interop(pool, 3);
      assert_int_equal(run_session_new(r.plan, &r.allocator, pool, &session, &r.err), TD_OK);
      session->tasks.force = true;
      ends(&r, session);
      run_session_free(session);
      run_pool_free(pool);
      rig_close(&r);
    }
}

/* ---- at every step ---- */

static const char batch[] =
    "input %0 \"x\": f32[n, 4096, 2]\n"
    "const %1: f32[2, 2] = {0.5, -0.25, 0.125, 0.75}\n"
    "%2 = td::linear(%0, %1) {trans_w = false, n = 2, panel = 0, act = \"relu\", act_a = 0.0, act_b = 0.0, "
    "act_late = false, in_front = false}\n"
    "%3 = aten::sin(%2)\n"
    "%4 = aten::add(%3, %2)\n"
    "%5 = aten::sigmoid(%4)\n"
    "output \"y\" %5\n";

typedef struct countdown {
  _Atomic int32_t left;
  int32_t word;
} countdown;

static void count(void *user, uint32_t thread, uint32_t step) {
  (void)thread;
  (void)step;
  countdown *c = user;
  if (atomic_fetch_sub(&c->left, 1) == 1) __atomic_store_n(&c->word, 1, __ATOMIC_RELEASE);
}

static run_session *open_batch(rig *r, run_pool *pool, float *x) {
  run_session *s;
  const base_value in = {.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 3, (int64_t[]){8, 4096, 2})};
  assert_int_equal(run_session_new(r->plan, &r->allocator, pool, &s, &r->err), TD_OK);
  s->bounds.cache = 100 * 1024; /* three values of a sample: parts and shares are made */
  assert_int_equal(run_set_input(s, 0, &in, &r->err), TD_OK);
  return s;
}

/* Whichever part of a step begins last before the word is set: the run ends, unless that was the last of all; and the
 * next run gives what it always does. */
static void any_step_may_be_the_last(void **state) {
  (void)state;
  enum { VALUES = 8 * 4096 * 2, MOST = 400 };
  static float x[VALUES], want[VALUES];
  for (int i = 0; i < VALUES; i++) x[i] = (float)(i % 977) / 500 - 1;
  for (uint32_t threads = 1; threads <= 2; threads++) {
    rig r;
    run_pool *pool;
    const base_value *y;
    sys_machine machine;
    sys_cpu_read(&machine);
    rig_open_as(
        &r, batch, NULL,
        &(compile_setting){
            .backend = compile_find_backend("native"), .isa = machine.isa | BASE_ISA_VECTOR, .options.alone = "*"});
    assert_int_equal(run_pool_new(threads, 50, &r.allocator, &pool, &r.err), TD_OK);
    run_session *s = open_batch(&r, pool, x);
    int cancelled = 0, whole = 0;
    for (int32_t at = 1; at < MOST && whole < 3; at++) {
      countdown c = {.left = at};
      run_observe(s, &(td_observer){.user = &c, .enter = count});
      const td_status status = run_session_run_until(s, (run_until){.cancel = {&c.word}}, &r.err);
      if (status == TD_OK) whole++;
      else assert_int_equal(status, TD_CANCELLED);
      cancelled += status == TD_CANCELLED;
      run_observe(s, NULL);
      assert_int_equal(run_session_run(s, &r.err), TD_OK);
      assert_int_equal(run_output(s, 0, &y, &r.err), TD_OK);
      if (at == 1 && threads == 1) memcpy(want, y->tensor.data, sizeof want);
      assert_memory_equal(y->tensor.data, want, sizeof want);
    }
    assert_true(cancelled > 8 && whole == 3); /* there are more than four steps: it ran in parts */
    run_session_free(s);
    run_pool_free(pool);
    rig_close(&r);
  }
}

/* ---- in line ---- */

static const char doubling[] =
    "input %0 \"x\": f32[n]\n"
    "%1 = aten::add(%0, %0)\n"
    "output \"y\" %1\n";

static td_status told(const td_model *model, td_status status, td_error *err) {
  (void)model;
  if (status != TD_OK) snprintf(err->name, sizeof err->name, "told");
  return status;
}

enum { FLIGHT = 8, LENGTH = 5 };

typedef struct client {
  float x[FLIGHT][LENGTH], y[FLIGHT][LENGTH];
  uint32_t next; /* run that is over next */
  int bad;       /* results out of order */
} client;

static void in_order(void *user, td_status status, const td_error *err) {
  client *c = user;
  const float *y = c->y[c->next % FLIGHT];
  if (status != TD_OK || err) c->bad++;
  for (int i = 0; i < LENGTH; i++)
    if (y[i] != 2 * ((float)c->next + (float)i)) c->bad++;
  c->next++;
}

static run_future *put(run_queue *q, client *c, uint32_t run, int event) {
  run_request *request;
  const int64_t dims[] = {LENGTH};
  run_future *f = run_queue_take(q, &request);
  if (!f) return NULL;
  for (int i = 0; i < LENGTH; i++) c->x[run % FLIGHT][i] = (float)run + (float)i;
  request->inputs[0] = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(c->x[run % FLIGHT], TD_F32, 1, dims)};
  request->outputs[0] = base_tensor_of(c->y[run % FLIGHT], TD_F32, 1, dims);
  request->input_count = request->output_count = 1;
  request->done = in_order;
  request->user = c;
  request->event = event;
  run_queue_put(f);
  return f;
}

static void interrupt(int number) { (void)number; }

static void *storm(void *stop) {
  while (!__atomic_load_n((int32_t *)stop, __ATOMIC_ACQUIRE)) {
    kill(getpid(), SIGCHLD);
    usleep(50);
  }
  return NULL;
}

/* Order and values, with signals that interrupt every wait; and memory does not grow with runs. */
static void many_in_flight(void **state) {
  (void)state;
  enum { RUNS = 10000 };
  rig r;
  run_queue *q;
  static client c;
  run_future *futures[FLIGHT] = {NULL};
  int32_t stop = 0;
  pthread_t thread;
  struct sigaction before;
  const struct sigaction handle = {.sa_handler = interrupt}; /* without SA_RESTART */
  c = (client){.next = 0};
  rig_open(&r, doubling, "native");
  sigaction(SIGCHLD, &handle, &before);
  assert_int_equal(pthread_create(&thread, NULL, storm, &stop), 0);
  assert_int_equal(run_queue_new(r.session, told, NULL, &q, &r.err), TD_OK);
  size_t live = 0;
  for (uint32_t run = 0; run < RUNS + FLIGHT; run++) {
    run_future *old = futures[run % FLIGHT];
    if (old) assert_int_equal(run_future_wait(old, 0, &r.err), TD_OK);
    run_future_free(old);
    futures[run % FLIGHT] = run < RUNS ? put(q, &c, run, 0) : NULL;
    if (run == 4 * FLIGHT) live = r.counting.live;
  }
  assert_true(r.counting.live <= live + FLIGHT); /* how many futures are kept to be used again depends on the moment */
  assert_int_equal(c.next, RUNS);
  assert_int_equal(c.bad, 0);
  assert_false(run_queue_busy(q));
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  sigaction(SIGCHLD, &before, NULL);
  run_queue_free(q);
  rig_close(&r);
}

/* An event loop hears of each run; a future that nobody holds is computed all the same. */
static void events(void **state) {
  (void)state;
  rig r;
  run_queue *q;
  static client c;
  uint64_t over = 0;
  const int event = eventfd(0, 0);
  c = (client){.next = 0};
  assert_true(event > 0);
  rig_open(&r, doubling, "native");
  assert_int_equal(run_queue_new(r.session, told, NULL, &q, &r.err), TD_OK);
  for (uint32_t run = 0; run < FLIGHT; run++) run_future_free(put(q, &c, run, event));
  while (over < FLIGHT) {
    uint64_t more;
    assert_int_equal(read(event, &more, sizeof more), sizeof more);
    over += more;
  }
  assert_int_equal(over, FLIGHT);
  assert_int_equal(c.bad, 0);
  run_queue_free(q);
  close(event);
  rig_close(&r);
}

static void endless(run_request *request, const bool *go, float *x) {
  request->inputs[0] =
      (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of((void *)(uintptr_t)go, TD_BOOL, 0, NULL)};
  request->inputs[1] = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 1, (int64_t[]){1})};
  request->input_count = 2;
}

/* One that runs, one in line, and one whose deadline passes there; what the queue's end leaves. */
static void futures_are_cancelled(void **state) {
  (void)state;
  static const bool yes = true, no = false;
  rig r;
  run_queue *q;
  run_future *f[4];
  float x[] = {1};
  rig_open(&r, endless_loop, "native");
  assert_int_equal(run_queue_new(r.session, told, NULL, &q, &r.err), TD_OK);
  for (int i = 0; i < 4; i++) {
    run_request *request;
    f[i] = run_queue_take(q, &request);
    assert_non_null(f[i]);
    endless(request, i == 1 ? &no : &yes, x);
    if (i == 2) request->until.deadline_ns = sys_clock_ns() + 1;
    run_queue_put(f[i]);
  }
  assert_true(run_queue_busy(q));
  assert_int_equal(run_future_wait(f[0], sys_clock_ns() + SOON_NS, &r.err), TD_ANSWER_NO);
  run_future_cancel(f[0]);
  run_future_cancel(f[1]);
  assert_int_equal(run_future_wait(f[0], 0, &r.err), TD_CANCELLED);
  assert_int_equal(run_future_wait(f[1], 0, &r.err), TD_CANCELLED);
  assert_string_equal(r.err.name, "told");
  assert_int_equal(run_future_wait(f[2], 0, &r.err), TD_TIMED_OUT);
  run_queue_free(q);
  assert_int_equal(run_future_wait(f[3], 1, &r.err), TD_CANCELLED); /* outlives the queue */
  for (int i = 0; i < 4; i++) run_future_free(f[i]);
  rig_close(&r);
}

/* An error of the run, not of the call; and the queue goes on. */
static void errors_come_with_the_future(void **state) {
  (void)state;
  rig r;
  run_queue *q;
  run_request *request;
  static client c;
  int64_t wrong[] = {1};
  c = (client){.next = 0};
  rig_open(&r, doubling, "native");
  assert_int_equal(run_queue_new(r.session, told, NULL, &q, &r.err), TD_OK);
  run_future *bad = run_queue_take(q, &request);
  request->inputs[0] = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(wrong, TD_I64, 1, (int64_t[]){1})};
  request->input_count = 1;
  run_queue_put(bad);
  run_future *good = put(q, &c, 0, 0);
  assert_int_equal(run_future_wait(bad, 0, &r.err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(r.err.text, "takes f32"));
  assert_int_equal(run_future_wait(good, 0, &r.err), TD_OK);
  assert_int_equal(c.bad, 0);
  run_future_free(bad);
  run_future_free(good);
  run_queue_free(q);
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(endless_runs_end),      cmocka_unit_test(any_step_may_be_the_last),
      cmocka_unit_test(many_in_flight),        cmocka_unit_test(events),
      cmocka_unit_test(futures_are_cancelled), cmocka_unit_test(errors_come_with_the_future)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
