/* test_plan.c -- views of a plan. */
#include "runtime/harness.h"

/* Each step is called what it is told to be, and the plan itself as before; one without steps has a view, too. */
static void other_origins_are_told(void **state) {
  (void)state;
  static const char *const graphs[] = {"input %0 \"x\": f32[2]\noutput \"y\" %0\n",
                                       "input %0 \"x\": f32[2]\n"
                                       "%1 = aten::neg(%0)  # \"a\"\n"
                                       "%2 = aten::abs(%1)  # \"b\"\n"
                                       "%3 = aten::exp(%2)  # \"c\"\n"
                                       "%4 = aten::neg(%3)  # \"d\"\n"
                                       "%5 = aten::abs(%4)  # \"e\"\n"
                                       "output \"y\" %5\n"};
  static const char *const before[] = {"a", "b", "c", "d", "e"}, *const after[] = {"first", "2", "3", "4", "last"};
  for (uint32_t g = 0; g < 2; g++) {
    rig r;
    rig_open(&r, graphs[g], "eager");
    const uint32_t count = 5 * g;
    assert_int_equal(r.plan->origins.count, count);
    const plan_exe *told = plan_retold(r.plan, r.arena, after);
    assert_non_null(told);
    for (uint32_t i = 0; i < count; i++) {
      const plan_step *s = &r.plan->steps.at[i], *t = &told->steps.at[i];
      assert_int_equal(t->kind, s->kind);
      assert_string_equal(plan_origin(r.plan, s, 0), before[i]);
      assert_string_equal(plan_origin(told, t, 0), after[i]);
      assert_string_equal(plan_name(told, t->name), after[i]);
    }
    rig_close(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(other_origins_are_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
