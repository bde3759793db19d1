/* test_async.c -- runs with limits and runs in line, as a program uses them. */
/* ctest: threads */
#include "test.h"

#include <stdio.h>

#include <sys/resource.h>
#include <treadle/async.h>

#include "sys/sys.h"

enum { FLIGHT = 8, RUNS = 10000, IN = 16, OUT = 8 };

static td_model *load(void) {
  td_error err;
  td_model *model;
  if (td_model_load("builtin:layer:linear 4x16 out=8", NULL, &model, &err) != TD_OK) fail_msg("%s", err.text);
  return model;
}

static td_session *open_session(const td_model *model, uint32_t threads) {
  td_error err;
  td_session *session;
  const td_session_options options = {.size = sizeof options, .threads = threads};
  if (td_session_new(model, &options, &session, &err) != TD_OK) fail_msg("%s", err.text);
  return session;
}

static td_tensor rows(float *data, int64_t columns) {
  return (td_tensor){.dtype = TD_F32, .rank = 2, .dims = {4, columns}, .data = data};
}

static void fill(float *x, uint32_t run) {
  for (uint32_t i = 0; i < 4 * IN; i++) x[i] = (float)((run * 31 + i * 7) % 101) / 50 - 1;
}

/* Eight in flight, each with tensors of its own, against runs on the caller's thread. */
static void nothing_is_lost(void **state) {
  (void)state;
  static float x[FLIGHT][4 * IN], y[FLIGHT][4 * OUT], want[4 * OUT], same[4 * IN];
  td_error err;
  td_model *model = load();
  td_session *session = open_session(model, 2), *alone = open_session(model, 1);
  td_future *futures[FLIGHT] = {NULL};
  const td_tensor one_in = rows(same, IN), one_out = rows(want, OUT);
  const td_run_options plain = {
      .size = sizeof plain, .inputs = &one_in, .input_count = 1, .outputs = &one_out, .output_count = 1};
  for (uint32_t run = 0; run < RUNS + FLIGHT; run++) {
    const uint32_t at = run % FLIGHT;
    if (futures[at]) {
      assert_int_equal(td_wait(futures[at], 0, &err), TD_OK);
      fill(same, run - FLIGHT);
      assert_int_equal(td_session_run_with(alone, &plain, &err), TD_OK);
      assert_memory_equal(y[at], want, sizeof want);
      td_future_free(futures[at]);
    }
    futures[at] = NULL;
    if (run >= RUNS) continue;
    fill(x[at], run);
    memset(y[at], 0, sizeof y[at]);
    const td_tensor in = rows(x[at], IN), out = rows(y[at], OUT);
    const td_run_options line = {
        .size = sizeof line, .inputs = &in, .input_count = 1, .outputs = &out, .output_count = 1};
    assert_int_equal(td_session_run_async(session, &line, &futures[at], &err), TD_OK);
  }
  td_session_free(alone);
  td_session_free(session);
  td_model_free(model);
}

static void hold(void *user, td_status status, const td_error *err) {
  assert_true(status == TD_OK && !err);
  while (!__atomic_load_n((int *)user, __ATOMIC_ACQUIRE)) sys_yield();
}

static void a_busy_session_refuses(void **state) {
  (void)state;
  static float x[4 * IN];
  int go = 0;
  td_error err;
  td_tensor out;
  td_future *future;
  td_model *model = load();
  td_session *session = open_session(model, 1);
  const td_tensor in = rows(x, IN);
  const td_run_options line = {.size = sizeof line, .inputs = &in, .input_count = 1, .done = hold, .done_user = &go};
  assert_int_equal(td_session_run_async(session, &line, &future, &err), TD_OK);
  assert_int_equal(td_session_run(session, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "td_wait"));
  assert_int_equal(td_session_set_input(session, 0, &in, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_wait(future, 1, &err), TD_ANSWER_NO);
  __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
  assert_int_equal(td_wait(future, 0, &err), TD_OK);
  assert_int_equal(td_session_output(session, 0, &out, &err), TD_OK); /* no memory was given for it */
  assert_int_equal(td_session_run(session, &err), TD_OK);
  td_future_free(future);
  td_session_free(session);
  td_model_free(model);
}

static void limits_and_mistakes(void **state) {
  (void)state;
  static float x[4 * IN];
  td_error err;
  const int32_t cancelled = 1;
  td_model *model = load();
  td_session *session = open_session(model, 1);
  const td_tensor in = rows(x, IN), none = {.dtype = TD_F32, .rank = 9};
  td_run_options o = {.size = sizeof o, .inputs = &in, .input_count = 1, .deadline_ns = 1};
  assert_int_equal(td_session_run_with(session, &o, &err), TD_TIMED_OUT);
  assert_non_null(strstr(err.text, "deadline"));
  o.deadline_ns = 0;
  o.cancel = &cancelled;
  assert_int_equal(td_session_run_with(session, &o, &err), TD_CANCELLED);
  o.cancel = NULL;
  assert_int_equal(td_session_run_with(session, &o, &err), TD_OK);
  o.input_count = 3;
  assert_int_equal(td_session_run_with(session, &o, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_run_async(session, &o, NULL, &err), TD_BAD_ARGUMENT);
  o.inputs = &none;
  o.input_count = 1;
  assert_int_equal(td_session_run_async(session, &o, NULL, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_run_async(NULL, &o, NULL, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_wait(NULL, 0, &err), TD_BAD_ARGUMENT);
  td_future_free(NULL);
  td_future_cancel(NULL);
  td_session_free(session);
  td_model_free(model);
}

static void nap(void *user) {
  while (!__atomic_load_n((int *)user, __ATOMIC_ACQUIRE)) sys_yield();
}

/* A sanitizer, which has one of gcc's or clang's signs, maps memory of its own, and ends where it cannot. */
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { MEMORY_IS_BOUNDED = 0 };
#elif __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { MEMORY_IS_BOUNDED = 0 };
#else
enum { MEMORY_IS_BOUNDED = 1 };
#endif

/* Where no thread can be had the call says so, and the session still runs on its caller's. */
static void a_thread_that_cannot_start(void **state) {
  (void)state;
  static float x[4 * IN];
  td_error err;
  struct rlimit before;
  if (!MEMORY_IS_BOUNDED) return;
  td_model *model = load();
  td_session *session = open_session(model, 1);
  const td_tensor in = rows(x, IN);
  const td_run_options o = {.size = sizeof o, .inputs = &in, .input_count = 1};
  int go = 0;
  sys_thread others[64];
  int count = 0;
  getrlimit(RLIMIT_AS, &before);
  struct rlimit none = before;
  none.rlim_cur = 1 << 20; /* less than there is: no stack can be mapped */
  assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
  while (count < 64 && sys_thread_start(&others[count], nap, &go, NULL) == TD_OK) count++; /* stacks kept */
  const td_status status = td_session_run_async(session, &o, NULL, &err);
  setrlimit(RLIMIT_AS, &before);
  __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
  while (count) sys_thread_join(&others[--count]);
  assert_int_equal(status, TD_NO_RESOURCE);
  assert_int_equal(td_session_run_with(session, &o, &err), TD_OK);
  assert_int_equal(td_session_run_async(session, &o, NULL, &err), TD_OK);
  td_session_free(session);
  td_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost), cmocka_unit_test(a_busy_session_refuses),
                                     cmocka_unit_test(limits_and_mistakes),
                                     cmocka_unit_test(a_thread_that_cannot_start)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
