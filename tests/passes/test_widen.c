/* Products of half precision are taken in f32. */
#include "passes/numbers.h"

static void products_are_taken_in_f32(void **state) {
  (void)state;
  expect_change("widen",
                "input %0 \"x\": f16[n, 2]\n"
                "const %1: f16[2, 2] = {1, 2, 3, 4}\n"
                "%2 = aten::matmul(%0, %1)\n"
                "output \"y\" %2\n",
                "input %0 \"x\": f16[n, 2]\n"
                "const %1: f32[2, 2] = {1, 2, 3, 4}\n"
                "%2 = aten::_to_copy(%0) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[n, 2]\n"
                "%3 = aten::matmul(%2, %1): f32[n, 2]\n"
                "%4 = aten::_to_copy(%3) {dtype = f16, saturate = true, round_mode = \"up\"}: f16[n, 2]\n"
                "output \"y\" %4\n",
                1);
  expect_same("widen",
              "input %0 \"x\": f32[3, 2]\n"
              "input %1 \"w\": f32[2, 2]\n"
              "input %2 \"a\": f64[2, 2]\n"
              "input %3 \"h\": f16[2, 2]\n"
              "%4 = aten::matmul(%0, %1): f32[3, 2]\n"
              "%5 = aten::matmul(%2, %2): f64[2, 2]\n"
              "%6 = aten::mul(%3, %3): f16[2, 2]\n"
              "output \"a\" %4\noutput \"b\" %5\noutput \"c\" %6\n");
}

/* Sums whose numbers halves hold, so that no rounding differs. */
static void numbers_stay(void **state) {
  (void)state;
  static const char *const types[] = {"f16", "bf16"};
  for (int i = 0; i < 6; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"x\": %s[%d, 3, 2]\n"
             "const %%1: %s[2, 3] = {1, 0, 0, 0, 2, -1}\n"
             "%%2 = aten::matmul(%%0, %%1)\n"
             "output \"y\" %%2\n",
             types[i % 2], i / 2, types[i % 2]);
    expect_same_numbers(text);
  }
}

static void pools_are_taken_in_f32(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"x\": %s[2, 3, 6, 5]\n"
             "%%1 = td::%s(%%0) {kernel_size = [2, 2]}\n"
             "output \"y\" %%1\n",
             i % 2 ? "bf16" : "f16", i / 2 ? "max_pool" : "avg_pool");
    expect_same_numbers(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_taken_in_f32), cmocka_unit_test(numbers_stay),
                                     cmocka_unit_test(pools_are_taken_in_f32)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
