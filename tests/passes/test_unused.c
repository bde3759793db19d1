/* Results that nobody uses. */
#include "passes/change.h"

/* The positions of maxima, which only a dead node reads, and which somebody reads. */
static void positions(void **state) {
  (void)state;
  expect_change(
      "unused",
      "input %0 \"x\": f32[1, 2, 4, 4]\n"
      "const %1: i64[] = {16}\n"
      "%2, %3 = td::max_pool(%0) {kernel_size = [2, 2], stride = [2, 2]}\n"
      "%4 = aten::remainder(%3, %1)\n"
      "%5, %6 = td::max_pool(%0) {kernel_size = [3, 3]}\n"
      "output \"a\" %2\noutput \"b\" %6\n",
      "input %0 \"x\": f32[1, 2, 4, 4]\n"
      "%1 = td::max_pool(%0) {stride = [2, 2], padding = [], dilation = [], auto_pad = \"\", kernel_size = "
      "[2, 2], ceil_mode = false, column_major_indices = false, channels_last = false}: f32[1, 2, 2, 2]\n"
      "%2, %3 = td::max_pool(%0) {stride = [], padding = [], dilation = [], auto_pad = \"\", kernel_size = "
      "[3, 3], ceil_mode = false, column_major_indices = false, channels_last = false}: f32[1, 2, 2, 2], i64[1, 2, 2, "
      "2]\n"
      "output \"a\" %1\n"
      "output \"b\" %3\n",
      2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(positions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
