/* Loops over rows of few elements: some of them are one row where results go on behind it, and operands do so or have
 * the same row again, which is dense or not; and where an operand has one number of each they are not. */
#include "passes/numbers.h"

#include <stdio.h>

static void expect_rows(const char *type, int length, int rows, const char *column) {
  char text[1024];
  const int n = snprintf(text, sizeof text,
                         "input %%0 \"x\": %s[3, %d, 7, 1]\ninput %%1 \"y\": %s[3, 1, %d, %d]\n"
                         "input %%2 \"c\": %s[%s]\n%%3 = aten::permute(%%0) {dims = [0, 2, 3, 1]}\n"
                         "%%4 = aten::mul(%%3, %%1)\n%%5 = aten::sub(%%4, %%1)\n%%6 = aten::mul(%%5, %%2)\n"
                         "%%7 = aten::abs(%%6)\n%%8 = aten::sub(%%7, %%3)\noutput \"z\" %%8\n",
                         type, length, type, rows, length, type, column);
  assert_true(n > 0 && (size_t)n < sizeof text);
  expect_same_numbers(text);
}

static void rows_of_few_elements(void **state) {
  (void)state;
  static const int lengths[] = {1, 2, 3, 5, 10, 15, 16, 17}, rows[] = {2, 15, 16, 17, 26, 63, 64, 90};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
      char column[32];
      (void)snprintf(column, sizeof column, "3, 7, %d, 1", rows[k]);
      expect_rows("f32", lengths[i], rows[k], "3, 1, 1, 1");
      if (k % 3 == 0) expect_rows("f32", lengths[i], rows[k], column);
      if (k % 3 == 1) expect_rows("f64", lengths[i], rows[k], "3, 1, 1, 1");
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_few_elements)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
