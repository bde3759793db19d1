/* Sums in front of layer norms. */
#include "passes/numbers.h"

static void sums_join_norms(void **state) {
  (void)state;
  expect_change("add_norm",
                "input %0 \"x\": f32[n, 4]\n"
                "input %1 \"y\": f32[n, 4]\n"
                "const %2: f32[4] = {1, 2, 3, 4}\n"
                "%3 = aten::add(%0, %1)\n"
                "%4 = aten::relu(%3)\n"
                "%5 = aten::native_layer_norm(%3, %2) {eps = 0.5}\n"
                "%6 = aten::add(%4, %5)\n"
                "%7 = aten::native_layer_norm(%6, -, %2) {axis = 1, eps = 0.5}\n"
                "output \"a\" %7\n",
                "input %0 \"x\": f32[n, 4]\n"
                "input %1 \"y\": f32[n, 4]\n"
                "const %2: f32[4] = {1, 2, 3, 4}\n"
                "%3, %4 = td::add_layer_norm(%0, %1, %2) {eps = 0.5}: f32[n, 4], f32[n, 4]\n"
                "%5 = aten::relu(%4): f32[n, 4]\n"
                "%6, %7 = td::add_layer_norm(%5, %3, -, %2) {eps = 0.5}: f32[n, 4], f32[n, 4]\n"
                "output \"a\" %6\n",
                3);
}

static void numbers_stay(void **state) {
  (void)state;
  expect_same_numbers(
      "input %0 \"x\": f32[3, 7]\ninput %1 \"y\": f32[3, 7]\n"
      "%2 = aten::add(%0, %1)\n%3 = aten::native_layer_norm(%2) {eps = 0.01}\n%4 = aten::mul(%2, %3)\noutput \"z\" "
      "%4\n");
}

static void others_stay(void **state) {
  (void)state;
  expect_same("add_norm",
              "input %0 \"x\": f32[2, 4]\n"
              "input %1 \"y\": f32[4]\n"
              "%2 = aten::add(%0, %1): f32[2, 4]\n"
              "%3 = aten::native_layer_norm(%2) {axis = -1, eps = 0.5, stats_dtype = f32}: f32[2, 4]\n"
              "%4 = aten::add(%3, %0): f32[2, 4]\n"
              "%5 = aten::native_layer_norm(%4) {axis = 0, eps = 0.5, stats_dtype = f32}: f32[2, 4]\n"
              "output \"a\" %5\n");
  /* The sum stands where the norm's vector is not there yet. */
  expect_same("add_norm",
              "input %0 \"x\": f32[2, 4]\n"
              "input %1 \"w\": f32[4]\n"
              "%2 = aten::add(%0, %0): f32[2, 4]\n"
              "%3 = aten::relu(%1): f32[4]\n"
              "%4 = aten::native_layer_norm(%2, %3) {axis = -1, eps = 0.5, stats_dtype = f32}: f32[2, 4]\n"
              "output \"a\" %4\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_join_norms),
      cmocka_unit_test(numbers_stay),
      cmocka_unit_test(others_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
