/* test_call.c -- tasks shared out among workers: each once, whoever takes them, a worker's own first. */
#include "test.h"

#include "base/base.h"

enum { WORKERS = 3, MOST = 40 };

static base_call call_of(base_lane *lanes, uint32_t worker, uint32_t job) {
  return (base_call){.worker = worker, .workers = WORKERS, .job = job, .lanes = lanes};
}

/* Alone, a call takes all tasks in their order. */
static void all_in_order(void **state) {
  (void)state;
  const base_call call = {.workers = 1};
  int64_t expected = 0;
  for (int64_t t = base_call_first(&call, 5); t < 5; t = base_call_next(&call, t, 5)) assert_int_equal(t, expected++);
  assert_int_equal(expected, 5);
}

/* Job after job, without anybody clearing the lanes: workers take turns of lengths that differ. */
static void each_once(void **state) {
  (void)state;
  base_lane lanes[WORKERS] = {0};
  for (uint32_t job = 1; job < 4 * MOST; job++) {
    const int64_t total = job % MOST;
    uint32_t taken[MOST] = {0};
    for (int64_t left = total, turn = 0; left > 0; turn++) {
      const base_call call = call_of(lanes, (uint32_t)(turn * 7 + job) % WORKERS, job);
      const int64_t task = base_call_take(&call, total);
      assert_in_range(task, 0, total - 1);
      assert_int_equal(taken[task]++, 0);
      left--;
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
      const base_call call = call_of(lanes, w, job);
      assert_true(base_call_take(&call, total) >= total);
    }
  }
}

/* What one worker takes in turns with the others is a range; those who are through take what is left of the rest. */
static void own_tasks_first(void **state) {
  (void)state;
  static const int64_t expected[WORKERS][5] = {{0, 1, 2, 3, 10}, {4, 5, 6, 7, 11}, {8, 9}};
  base_lane lanes[WORKERS] = {0};
  for (uint32_t i = 0; i < 5; i++)
    for (uint32_t w = 0; w < WORKERS; w++) {
      const base_call call = call_of(lanes, w, 9);
      if (w < 2 || i < 2) assert_int_equal(base_call_take(&call, 11), expected[w][i]);
    }
}

/* As in a loop of a kernel that nobody else has come to. */
static void a_worker_alone_takes_all(void **state) {
  (void)state;
  static const int64_t expected[] = {4, 5, 6, 7, 8, 9, 0, 1, 2, 3};
  base_lane lanes[WORKERS] = {0};
  const base_call call = call_of(lanes, 1, 5);
  uint32_t i = 0;
  for (int64_t t = base_call_first(&call, 10); t < 10; t = base_call_next(&call, t, 10))
    assert_int_equal(t, expected[i++]);
  assert_int_equal(i, 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_in_order), cmocka_unit_test(each_once),
                                     cmocka_unit_test(own_tasks_first), cmocka_unit_test(a_worker_alone_takes_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
