/* Sinks of td::group_query_attention: scores that take their share of a row's weights and give no value. */
#include "runtime/harness.h"

#include <math.h>

#define MODEL(sinks, count)                                                                                      \
  "input %0 \"q\": f32[1, 1, 2]\n"                                                                               \
  "input %1 \"k\": f32[1, 1, 1]\n"                                                                               \
  "input %2 \"v\": f32[1, 1, 1]\n"                                                                               \
  "const %3: i64[1] = {0}\n"                                                                                     \
  "const %4: i64[1] = {1}\n"                                                                                     \
  "const %5: f32[" count "] = {" sinks                                                                           \
  "}\n"                                                                                                          \
  "%6, %7, %8 = td::group_query_attention(%0, %1, %2, -, -, %3, %4, -, -, -, -, %5) {heads = 2, kv_heads = 1}\n" \
  "output \"y\" %6\n"

static void feed(rig *r) {
  rig_feed(r, 0, TD_F32, "1x1x2: 0 0");
  rig_feed(r, 1, TD_F32, "1x1x1: 5");
  rig_feed(r, 2, TD_F32, "1x1x1: 8");
}

/* One key whose score is 0, so that it weighs 1; sinks weigh 1 and 3. */
static void sinks_take_their_share(void **state) {
  (void)state;
  rig r;
  rig_open(&r, MODEL("0, 1.0986123", "2"), "eager");
  feed(&r);
  rig_run(&r);
  const float *y = rig_output(&r, 0)->data;
  assert_float_equal(y[0], 4, 1e-5f);
  assert_float_equal(y[1], 2, 1e-5f);
  rig_close(&r);
}

static void there_is_one_sink_per_head(void **state) {
  (void)state;
  rig r;
  rig_open(&r, MODEL("0, 0, 0", "3"), "eager");
  feed(&r);
  assert_int_equal(run_session_run(r.session, &r.err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(r.err.text, "there is not one sink per head"));
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sinks_take_their_share),
                                     cmocka_unit_test(there_is_one_sink_per_head)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
