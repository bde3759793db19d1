/* Reductions that have no kernel run along the last axes. */
#include "passes/numbers.h"

static void reductions_run_along_the_last_axes(void **state) {
  (void)state;
  expect_change("reduce_last",
                "input %0 \"x\": f32[2, 9, 5]\n"
                "%1 = aten::prod(%0) {dim = [1]}\n"
                "output \"y\" %1\n",
                "input %0 \"x\": f32[2, 9, 5]\n"
                "%1 = aten::permute(%0) {dims = [0, 2, 1]}: f32[2, 5, 9]\n"
                "%2 = aten::prod(%1) {dim = [-1], keepdim = false, noop = false}: f32[2, 5]\n"
                "output \"y\" %2\n",
                1);
  expect_change("reduce_last",
                "input %0 \"x\": f32[2, 4, 5]\n"
                "%1 = aten::logsumexp(%0) {dim = [0, -2], keepdim = true}\n"
                "output \"y\" %1\n",
                "input %0 \"x\": f32[2, 4, 5]\n"
                "const %1: i64[2] = {0, 1}\n"
                "%2 = aten::permute(%0) {dims = [2, 0, 1]}: f32[5, 2, 4]\n"
                "%3 = aten::logsumexp(%2) {dim = [-2, -1], keepdim = false, noop = false}: f32[5]\n"
                "%4 = aten::unsqueeze(%3, %1): f32[1, 1, 5]\n"
                "output \"y\" %4\n",
                1);
}

/* Of a few parts, with and without the axis; none; of whole numbers, which wrap, and open sizes as before. */
static void products_of_few_are_multiplied(void **state) {
  (void)state;
  static const char *const kept[] = {"", ", keepdim = true"}, *const axes[] = {"0", "1", "-2"};
  for (int i = 0; i < 24; i++) {
    const int size = i / 6 * 3 % 9; /* 0, 3, 6, 0 */
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[%d, %d, 5]\n"
             "%%1 = aten::prod(%%0) {dim = [%s]%s}\n"
             "output \"y\" %%1\n",
             i % 3 ? 2 : size, i % 3 ? size : 4, axes[i % 3], kept[i / 3 % 2]);
    expect_same_numbers(text);
  }
  expect_change("reduce_last",
                "input %0 \"x\": f32[n, 2, 5]\n"
                "%1 = aten::prod(%0) {dim = [-2], keepdim = true}\n"
                "output \"y\" %1\n",
                "input %0 \"x\": f32[n, 2, 5]\n"
                "const %1: i64[1] = {0}\n"
                "const %2: i64[1] = {1}\n"
                "const %3: i64[1] = {1}\n"
                "const %4: i64[1] = {1}\n"
                "const %5: i64[1] = {1}\n"
                "const %6: i64[1] = {2}\n"
                "const %7: i64[1] = {1}\n"
                "const %8: i64[1] = {1}\n"
                "%9 = aten::slice(%0, %1, %2, %3, %4): f32[n, 1, 5]\n"
                "%10 = aten::slice(%0, %5, %6, %7, %8): f32[n, 1, 5]\n"
                "%11 = aten::mul(%9, %10): f32[n, 1, 5]\n"
                "output \"y\" %11\n",
                1);
}

static void what_has_a_kernel_stays(void **state) {
  (void)state;
  expect_same("reduce_last",
              "input %0 \"x\": f32[2, 4, 5]\n"
              "%1 = aten::sum(%0) {dim = [1], keepdim = false, noop = false}: f32[2, 5]\n"
              "%2 = aten::prod(%0) {dim = [-1], keepdim = false, noop = false}: f32[2, 4]\n"
              "%3 = aten::prod(%0) {dim = [], keepdim = false, noop = false}: f32[]\n"
              "output \"y\" %1\n"
              "output \"z\" %2\n"
              "output \"p\" %3\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reductions_run_along_the_last_axes),
                                     cmocka_unit_test(products_of_few_are_multiplied),
                                     cmocka_unit_test(what_has_a_kernel_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
