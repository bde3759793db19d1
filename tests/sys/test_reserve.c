/* Address space, the clock, threads. */
/* ctest: threads */
#include "test.h"

#include <stdio.h>

#include "sys/sys.h"

static void reserved_memory_is_zero_and_lazy(void **state) {
  (void)state;
  size_t bytes = (size_t)1 << 32;
  sys_memory before, after;
  assert_true(sys_memory_now(&before));
  char *memory = sys_reserve(&bytes);
  assert_non_null(memory);
  assert_true(bytes >= SYS_RESERVE_LEAST);
  assert_int_equal(memory[bytes - 1], 0);
  assert_true(sys_memory_now(&after));
  assert_true(after.anon_bytes < before.anon_bytes + (16 << 20));
  sys_release(memory, bytes);
  sys_release(NULL, 0);
}

static void what_is_given_back_reads_as_zero(void **state) {
  (void)state;
  size_t bytes = (size_t)1 << 16;
  unsigned char *memory = sys_reserve(&bytes);
  assert_non_null(memory);
  memset(memory, 7, bytes);
  sys_give_back(memory + 1, bytes - 2); /* partial pages at both ends stay */
  assert_int_equal(memory[0], 7);
  assert_int_equal(memory[bytes - 1], 7);
  assert_int_equal(memory[bytes / 2], 0);
  sys_give_back(memory + 1, 10);
  assert_int_equal(memory[5], 7);
  sys_release(memory, bytes);
}

static void too_much_becomes_less(void **state) {
  (void)state;
  size_t bytes = SIZE_MAX;
  void *memory = sys_reserve(&bytes);
  assert_non_null(memory);
  assert_true(bytes < SIZE_MAX);
  sys_release(memory, bytes);
  bytes = 0;
  assert_null(sys_reserve(&bytes));
}

static void add_one(void *user) { ++*(int *)user; }

static void threads_run_and_end(void **state) {
  (void)state;
  sys_thread threads[4];
  int counts[4] = {0};
  uint64_t start = sys_clock_ns();
  for (int i = 0; i < 4; i++) assert_int_equal(sys_thread_start(&threads[i], add_one, &counts[i], NULL), TD_OK);
  for (int i = 0; i < 4; i++) sys_thread_join(&threads[i]);
  for (int i = 0; i < 4; i++) assert_int_equal(counts[i], 1);
  assert_true(sys_clock_ns() >= start);
}

static void pin_twice(void *user) {
  bool *results = user;
  results[0] = sys_thread_pin(0);
  results[1] = !sys_thread_pin(1); /* of what is allowed now there is no second one */
}

static void threads_keep_to_a_cpu(void **state) {
  (void)state;
  sys_thread thread;
  bool results[2] = {false};
  assert_int_equal(sys_thread_start(&thread, pin_twice, results, NULL), TD_OK);
  sys_thread_join(&thread);
  assert_true(results[0] && results[1]);
}

static void huge_pages_are_a_wish(void **state) {
  (void)state;
  size_t bytes = SYS_RESERVE_LEAST;
  char *memory = sys_reserve(&bytes);
  assert_non_null(memory);
  sys_want_huge_pages(memory + 1, bytes - 1);
  sys_want_huge_pages(memory + 1, 1);
  memory[bytes - 1] = 1;
  assert_int_equal(memory[0], 0);
  sys_release(memory, bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reserved_memory_is_zero_and_lazy),
      cmocka_unit_test(what_is_given_back_reads_as_zero),
      cmocka_unit_test(too_much_becomes_less),
      cmocka_unit_test(threads_run_and_end),
      cmocka_unit_test(threads_keep_to_a_cpu),
      cmocka_unit_test(huge_pages_are_a_wish),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
