/* Loops behind a join work on its parts. */
#include "passes/change.h"

static void halves_that_are_turned(void **state) {
  (void)state;
  expect_change("join_last",
                "input %0 \"q\": f32[n, 4]\ninput %1 \"sin\": f32[4]\n"
                "const %2: i64[1] = {0}\nconst %3: i64[1] = {1}\nconst %4: i64[1] = {4}\n"
                "%5 = aten::slice(%0, %2, %3, %3)\n%6 = aten::slice(%0, %3, %4, %3)\n"
                "%7 = aten::neg(%6)\n%8 = aten::cat(%7, %5) {dim = -1}\n%9 = aten::mul(%8, %1)\n"
                "%10 = aten::add(%9, %0)\noutput \"y\" %10\n",
                "input %0 \"q\": f32[n, 4]\n"
                "input %1 \"sin\": f32[4]\n"
                "const %2: i64[1] = {0}\n"
                "const %3: i64[1] = {1}\n"
                "const %4: i64[1] = {4}\n"
                "const %5: i64[1] = {0}\n"
                "const %6: i64[1] = {3}\n"
                "const %7: i64[1] = {0}\n"
                "const %8: i64[1] = {3}\n"
                "const %9: i64[1] = {4}\n"
                "const %10: i64[1] = {0}\n"
                "const %11: i64[1] = {0}\n"
                "const %12: i64[1] = {3}\n"
                "const %13: i64[1] = {1}\n"
                "const %14: i64[1] = {3}\n"
                "const %15: i64[1] = {4}\n"
                "const %16: i64[1] = {1}\n"
                "%17 = aten::slice(%0, %2, %3, %3): f32[n, 1]\n"
                "%18 = aten::slice(%0, %3, %4, %3): f32[n, 3]\n"
                "%19 = aten::neg(%18): f32[n, 3]\n"
                "%20 = aten::slice(%1, %5, %6, %7): f32[3]\n"
                "%21 = aten::mul(%19, %20): f32[n, 3]\n"
                "%22 = aten::slice(%1, %8, %9, %10): f32[1]\n"
                "%23 = aten::mul(%17, %22): f32[n, 1]\n"
                "%24 = aten::slice(%0, %11, %12, %13): f32[n, 3]\n"
                "%25 = aten::add(%21, %24): f32[n, 3]\n"
                "%26 = aten::slice(%0, %14, %15, %16): f32[n, 1]\n"
                "%27 = aten::add(%23, %26): f32[n, 1]\n"
                "%28 = aten::cat(%25, %27) {dim = 1}: f32[n, 4]\n"
                "output \"y\" %28\n",
                2);
}

static void other_users_and_broadcasts(void **state) {
  (void)state;
  /* the join itself is a result */
  expect_same("join_last",
              "input %0 \"x\": f32[n, 1]\n"
              "input %1 \"y\": f32[n, 2]\n"
              "%2 = aten::cat(%0, %1) {dim = 1}: f32[n, 3]\n"
              "%3 = aten::relu(%2): f32[n, 3]\n"
              "output \"a\" %2\noutput \"b\" %3\n");
  /* an operand of open size may be one element that broadcasts, even far behind */
  expect_same("join_last",
              "input %0 \"x\": f32[1]\n"
              "input %1 \"y\": f32[2]\n"
              "input %2 \"z\": f32[n]\n"
              "input %3 \"w\": f32[3]\n"
              "%4 = aten::cat(%0, %1) {dim = 0}: f32[3]\n"
              "%5 = aten::neg(%2): f32[n]\n"
              "%6 = aten::add(%5, %3): f32[3]\n"
              "%7 = aten::mul(%4, %6): f32[3]\n"
              "output \"y\" %7\n");
  /* one element that broadcasts along the axis */
  expect_same("join_last",
              "input %0 \"x\": f32[n, 3]\n"
              "input %1 \"y\": f32[1, 3]\n"
              "input %2 \"z\": f32[5, 3]\n"
              "%3 = aten::cat(%1) {dim = 0}: f32[1, 3]\n"
              "%4 = aten::add(%3, %2): f32[5, 3]\n"
              "output \"b\" %4\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(halves_that_are_turned),
                                     cmocka_unit_test(other_users_and_broadcasts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
