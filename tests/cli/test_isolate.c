/* A child's time is what it computes: one that waits its turn on a busy machine is not ended, one that never ends is.
 */
/* ctest: slow */
#include "test.h"

#include <time.h>
#include <unistd.h>

#include "common/isolate.h"

static int64_t own_ns(void) {
  struct timespec t = {0};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void compute(void *user, void *result) {
  (void)user;
  const int64_t end = own_ns() + 2000000;
  while (own_ns() < end) ++*(volatile int *)result;
}

/* Some 3 seconds, of which it has the processor for a twentieth. */
static void compute_now_and_then(void *user, void *result) {
  for (int i = 0; i < 60; i++) {
    compute(user, result);
    nanosleep(&(struct timespec){.tv_nsec = 48000000}, NULL);
  }
}

static void compute_forever(void *user, void *result) {
  for (;;) compute(user, result);
}

static void wait_forever(void *user, void *result) {
  (void)user, (void)result;
  for (;;) pause();
}

static void exit_badly(void *user, void *result) {
  (void)user, (void)result;
  exit(3);
}

static app_end end_of(void (*work)(void *user, void *result), unsigned limit_s) {
  int count = 0;
  app_end end;
  td_error err;
  assert_int_equal(app_run_isolated(work, NULL, &count, sizeof count, limit_s, &end, &err), TD_OK);
  assert_true(work == wait_forever || work == exit_badly || count > 0); /* it comes back, however the child ended */
  return end;
}

static void waiting_for_a_turn_is_no_time(void **state) {
  (void)state;
  const app_end end = end_of(compute_now_and_then, 1);
  assert_true(end.done);
  assert_false(end.late);
}

static void what_never_ends_is_ended(void **state) {
  (void)state;
  assert_true(end_of(compute_forever, 1).late);
  assert_true(end_of(wait_forever, 1).late);
}

static void other_ends_are_told(void **state) {
  (void)state;
  assert_true(end_of(compute, 1).done);
  assert_true(end_of(compute, 0).done);
  assert_int_equal(end_of(exit_badly, 1).exit_code, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(waiting_for_a_turn_is_no_time),
                                     cmocka_unit_test(what_never_ends_is_ended), cmocka_unit_test(other_ends_are_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
