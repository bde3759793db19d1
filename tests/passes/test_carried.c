/* What loops carry without changing it: where it is read, and what stays. */
#include "passes/change.h"

/* A weight that is carried as it is, and one that comes from outside as it was at first. */
static void kept_values_are_read_from_outside(void **state) {
  (void)state;
  expect_change("carried",
                "input %0 \"n\": i64[]\n"
                "input %1 \"x\": f32[2]\n"
                "input %2 \"w\": f32[2]\n"
                "%3, %4, %5 = prim::Loop(%0, -, %2, %1, %2): f32[2], f32[2], f32[2] {\n"
                "  block(%6: i64[], %7: f32[2], %8: f32[2], %9: f32[2]) {\n"
                "    %10 = aten::lt(%6, %0)\n"
                "    %11 = aten::mul(%8, %7)\n"
                "    %12 = aten::add(%11, %9)\n"
                "    yield %10, %7, %12, %2\n"
                "  }\n"
                "}\n"
                "%13 = aten::add(%3, %4)\n"
                "output \"y\" %13\n"
                "output \"w2\" %5\n",
                "input %0 \"n\": i64[]\n"
                "input %1 \"x\": f32[2]\n"
                "input %2 \"w\": f32[2]\n"
                "%3 = prim::Loop(%0, -, %1): f32[2] {\n"
                "  block(%4: i64[], %5: f32[2]) {\n"
                "    %6 = aten::lt(%4, %0): bool[]\n"
                "    %7 = aten::mul(%5, %2): f32[2]\n"
                "    %8 = aten::add(%7, %2): f32[2]\n"
                "    yield %6, %8\n"
                "  }\n"
                "}\n"
                "%9 = aten::add(%2, %3): f32[2]\n"
                "output \"y\" %9\n"
                "output \"w2\" %2\n",
                2);
}

/* One that begins as another does, and becomes that one. */
static void a_value_may_become_a_kept_one(void **state) {
  (void)state;
  expect_change("carried",
                "input %0 \"n\": i64[]\n"
                "input %1 \"w\": f32[2]\n"
                "%2, %3, %4 = prim::Loop(%0, -, %1, %1, %1): f32[2], f32[2], f32[2] {\n"
                "  block(%5: i64[], %6: f32[2], %7: f32[2], %8: f32[2]) {\n"
                "    %9 = aten::lt(%5, %0)\n"
                "    %10 = aten::mul(%7, %8)\n"
                "    yield %9, %6, %6, %10\n"
                "  }\n"
                "}\n"
                "output \"y\" %3\n"
                "output \"z\" %4\n",
                "input %0 \"n\": i64[]\n"
                "input %1 \"w\": f32[2]\n"
                "%2 = prim::Loop(%0, -, %1): f32[2] {\n"
                "  block(%3: i64[], %4: f32[2]) {\n"
                "    %5 = aten::lt(%3, %0): bool[]\n"
                "    %6 = aten::mul(%1, %4): f32[2]\n"
                "    yield %5, %6\n"
                "  }\n"
                "}\n"
                "output \"y\" %1\n"
                "output \"z\" %2\n",
                2);
}

/* What rounds exchange or change. */
static void others_stay(void **state) {
  (void)state;
  expect_change("carried",
                "input %0 \"n\": i64[]\n"
                "input %1 \"x\": f32[2]\n"
                "input %2 \"w\": f32[2]\n"
                "%3, %4 = prim::Loop(%0, -, %1, %2): f32[2], f32[2] {\n"
                "  block(%5: i64[], %6: f32[2], %7: f32[2]) {\n"
                "    %8 = aten::lt(%5, %0)\n"
                "    yield %8, %7, %6\n"
                "  }\n"
                "}\n"
                "output \"y\" %3\n",
                "input %0 \"n\": i64[]\n"
                "input %1 \"x\": f32[2]\n"
                "input %2 \"w\": f32[2]\n"
                "%3, %4 = prim::Loop(%0, -, %1, %2): f32[2], f32[2] {\n"
                "  block(%5: i64[], %6: f32[2], %7: f32[2]) {\n"
                "    %8 = aten::lt(%5, %0): bool[]\n"
                "    yield %8, %7, %6\n"
                "  }\n"
                "}\n"
                "output \"y\" %3\n",
                0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kept_values_are_read_from_outside),
      cmocka_unit_test(a_value_may_become_a_kept_one),
      cmocka_unit_test(others_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
