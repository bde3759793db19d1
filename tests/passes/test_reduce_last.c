/* Reductions that have no kernel run along the last axes. */
#include "passes/change.h"

static void reductions_run_along_the_last_axes(void **state) {
  (void)state;
  expect_change("reduce_last",
                "input %0 \"x\": f32[2, 4, 5]\n"
                "%1 = aten::prod(%0) {dim = [1]}\n"
                "output \"y\" %1\n",
                "input %0 \"x\": f32[2, 4, 5]\n"
                "%1 = aten::permute(%0) {dims = [0, 2, 1]}: f32[2, 5, 4]\n"
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
                                     cmocka_unit_test(what_has_a_kernel_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
