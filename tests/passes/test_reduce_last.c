/* Reductions that have no kernel run along the last axes. */
#include "passes/numbers.h"

static void reductions_run_along_the_last_axes(void **state) {
  (void)state;
  expect_change("reduce_last",
                "input %0 \"x\": f32[2, 17, 5]\n"
                "%1 = aten::prod(%0) {dim = [1]}\n"
                "output \"y\" %1\n",
                "input %0 \"x\": f32[2, 17, 5]\n"
                "%1 = aten::permute(%0) {dims = [0, 2, 1]}: f32[2, 5, 17]\n"
                "%2 = aten::prod(%1) {dim = [-1], keepdim = false, noop = false}: f32[2, 5]\n"
                "output \"y\" %2\n",
                1);
  expect_change("reduce_last",
                "input %0 \"x\": f32[n, 4, 5]\n"
                "%1 = aten::logsumexp(%0) {dim = [0, -2], keepdim = true}\n"
                "output \"y\" %1\n",
                "input %0 \"x\": f32[n, 4, 5]\n"
                "const %1: i64[2] = {0, 1}\n"
                "%2 = aten::permute(%0) {dims = [2, 0, 1]}: f32[5, n, 4]\n"
                "%3 = aten::logsumexp(%2) {dim = [-2, -1], keepdim = false, noop = false}: f32[5]\n"
                "%4 = aten::unsqueeze(%3, %1): f32[1, 1, 5]\n"
                "output \"y\" %4\n",
                1);
}

/* Of a few elements, which loops reduce where they stand, with and without the axis; of none; and axes apart. */
static void few_stay_where_they_are(void **state) {
  (void)state;
  static const char *const kept[] = {"", ", keepdim = true"}, *const axes[] = {"0", "1", "-2", "0, 2"};
  static const char *const names[] = {"prod", "logsumexp", "amax"};
  for (int i = 0; i < 48; i++) {
    const int size = i < 16 ? i / 8 * 3 : 3 + i / 8 % 2 * 3; /* of none the others are infinite */
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[%d, %d, 5]\n"
             "%%1 = aten::%s(%%0) {dim = [%s]%s}\n"
             "output \"y\" %%1\n",
             i % 2 ? 2 : size, i % 2 ? size : 4, names[i / 16], axes[i % 4], kept[i / 4 % 2]);
    expect_same_numbers(text);
  }
  expect_same("reduce_last",
              "input %0 \"x\": f32[n, 2, 5]\n"
              "%1 = aten::prod(%0) {dim = [-2], keepdim = true, noop = false}: f32[n, 1, 5]\n"
              "output \"y\" %1\n");
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
                                     cmocka_unit_test(few_stay_where_they_are),
                                     cmocka_unit_test(what_has_a_kernel_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
