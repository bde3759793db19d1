/* Views in front of loops: permutations, reshapes that keep what broadcasts together, and operands that need no expand.
 */
#include "passes/change.h"

static void permutations_go_in_front(void **state) {
  (void)state;
  expect_change("lift",
                "input %0 \"x\": f32[2, 3, n]\n"
                "input %1 \"y\": f32[3, 1]\n"
                "%2 = aten::mul(%0, %1)\n"
                "%3 = aten::tanh(%2)\n"
                "%4 = aten::permute(%3) {dims = [0, 2, 1]}\n"
                "%5 = aten::relu(%4)\n"
                "output \"z\" %5\n",
                "input %0 \"x\": f32[2, 3, n]\n"
                "input %1 \"y\": f32[3, 1]\n"
                "const %2: i64[1] = {0}\n"
                "%3 = aten::permute(%0) {dims = [0, 2, 1]}: f32[2, n, 3]\n"
                "%4 = aten::unsqueeze(%1, %2): f32[1, 3, 1]\n"
                "%5 = aten::permute(%4) {dims = [0, 2, 1]}: f32[1, 1, 3]\n"
                "%6 = aten::mul(%3, %5): f32[2, n, 3]\n"
                "%7 = aten::tanh(%6): f32[2, n, 3]\n"
                "%8 = aten::relu(%7): f32[2, n, 3]\n"
                "output \"z\" %8\n",
                2);
}

static void reshapes_go_in_front(void **state) {
  (void)state;
  expect_change("lift",
                "input %0 \"x\": f32[6, 3, n]\n"
                "input %1 \"y\": f32[3, 1]\n"
                "input %2 \"m\": f32[2, 3, 1, 1]\n"
                "const %3: i64[4] = {2, 3, 3, -1}\n"
                "%4 = aten::mul(%0, %1)\n"
                "%5 = aten::view(%4, %3)\n"
                "%6 = aten::add(%5, %2)\n"
                "output \"z\" %6\n",
                "input %0 \"x\": f32[6, 3, n]\n"
                "input %1 \"y\": f32[3, 1]\n"
                "input %2 \"m\": f32[2, 3, 1, 1]\n"
                "const %3: i64[4] = {2, 3, 3, -1}\n"
                "%4 = aten::view(%0, %3) {zero_copies = false}: f32[2, 3, 3, n]\n"
                "%5 = aten::mul(%4, %1): f32[2, 3, 3, n]\n"
                "%6 = aten::add(%5, %2): f32[2, 3, 3, n]\n"
                "output \"z\" %6\n",
                1);
}

/* Part of a merged axis broadcasts; the value has another user; the operand is no dense one. */
static void what_stays(void **state) {
  (void)state;
  expect_same("lift",
              "input %0 \"x\": f32[2, 3, n]\n"
              "input %1 \"y\": f32[3, 1]\n"
              "const %2: i64[2] = {6, -1}\n"
              "%3 = aten::mul(%0, %1): f32[2, 3, n]\n"
              "%4 = aten::view(%3, %2) {zero_copies = false}: f32[6, n]\n"
              "%5 = aten::relu(%4): f32[6, n]\n"
              "output \"z\" %5\n");
  expect_same("lift",
              "input %0 \"x\": f32[2, n]\n"
              "%1 = aten::tanh(%0): f32[2, n]\n"
              "%2 = aten::permute(%1) {dims = [1, 0]}: f32[n, 2]\n"
              "%3 = aten::relu(%2): f32[n, 2]\n"
              "output \"y\" %1\noutput \"z\" %3\n");
  expect_same("lift",
              "input %0 \"x\": f32[2, 3, n]\n"
              "const %1: i64[2] = {6, -1}\n"
              "%2 = aten::permute(%0) {dims = [1, 0, 2]}: f32[3, 2, n]\n"
              "%3 = aten::tanh(%2): f32[3, 2, n]\n"
              "%4 = aten::view(%3, %1) {zero_copies = false}: f32[6, n]\n"
              "%5 = aten::relu(%4): f32[6, n]\n"
              "output \"z\" %5\n");
}

/* A permutation in front of a view would be a copy: the loop writes it. */
static void copies_become_loops(void **state) {
  (void)state;
  expect_change("lift",
                "input %0 \"x\": f32[2, 3, n]\n"
                "const %1: i64[2] = {6, -1}\n"
                "%2 = aten::tanh(%0)\n"
                "%3 = aten::permute(%2) {dims = [1, 0, 2]}\n"
                "%4 = aten::view(%3, %1)\n"
                "output \"z\" %4\n",
                "input %0 \"x\": f32[2, 3, n]\n"
                "const %1: i64[2] = {6, -1}\n"
                "%2 = aten::permute(%0) {dims = [1, 0, 2]}: f32[3, 2, n]\n"
                "%3 = aten::tanh(%2): f32[3, 2, n]\n"
                "%4 = aten::view(%3, %1) {zero_copies = false}: f32[6, n]\n"
                "output \"z\" %4\n",
                1);
}

static void expands_go(void **state) {
  (void)state;
  expect_change("lift",
                "input %0 \"x\": f32[2, 3, 4]\n"
                "input %1 \"y\": f32[3, 1]\n"
                "const %2: i64[3] = {2, 3, 4}\n"
                "%3 = aten::expand(%1, %2)\n"
                "%4 = aten::add(%0, %3)\n"
                "%5 = aten::relu(%3)\n"
                "output \"z\" %4\noutput \"r\" %5\n",
                "input %0 \"x\": f32[2, 3, 4]\n"
                "input %1 \"y\": f32[3, 1]\n"
                "const %2: i64[3] = {2, 3, 4}\n"
                "%3 = aten::expand(%1, %2): f32[2, 3, 4]\n"
                "%4 = aten::add(%0, %1): f32[2, 3, 4]\n"
                "%5 = aten::relu(%3): f32[2, 3, 4]\n"
                "output \"z\" %4\noutput \"r\" %5\n",
                1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(permutations_go_in_front), cmocka_unit_test(reshapes_go_in_front),
                                     cmocka_unit_test(what_stays), cmocka_unit_test(copies_become_loops),
                                     cmocka_unit_test(expands_go)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
