/* Products of 8-bit integers are taken in f32, in parts whose sums it holds. */
#include "passes/numbers.h"

static void a_product_is_taken_in_f32(void **state) {
  (void)state;
  expect_change("integers",
                "input %0 \"x\": u8[n, 2]\n"
                "input %1 \"zero\": u8[]\n"
                "const %2: i8[2, 2] = {1, -2, 3, 4}\n"
                "const %3: i8[1] = {1}\n"
                "%4 = td::matmul_integer(%0, %2, %1, %3)\n"
                "output \"y\" %4\n",
                "input %0 \"x\": u8[n, 2]\n"
                "input %1 \"zero\": u8[]\n"
                "const %2: f32[2, 2] = {0, -3, 2, 3}\n"
                "%3 = aten::_to_copy(%0) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[n, 2]\n"
                "%4 = aten::_to_copy(%1) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[]\n"
                "%5 = aten::sub(%3, %4): f32[n, 2]\n"
                "%6 = aten::matmul(%5, %2): f32[n, 2]\n"
                "%7 = aten::_to_copy(%6) {dtype = i32, saturate = true, round_mode = \"up\"}: i32[n, 2]\n"
                "output \"y\" %7\n",
                1);
}

static void matrices_that_are_no_constants_stay(void **state) {
  (void)state;
  expect_same("integers",
              "input %0 \"x\": u8[3, 2]\n"
              "input %1 \"w\": i8[2, 2]\n"
              "input %2 \"zeros\": u8[3]\n"
              "const %3: i8[2, 2] = {1, 2, 3, 4}\n"
              "%4 = td::matmul_integer(%0, %1): i32[3, 2]\n"
              "%5 = td::matmul_integer(%0, %3, %2): i32[3, 2]\n"
              "output \"a\" %4\noutput \"b\" %5\n");
}

/* The largest sums there are, in one part, two and more; x takes values from 0 to 255. */
static void numbers_stay(void **state) {
  (void)state;
  static const int depths[] = {1, 512, 515, 1040};
  for (int i = 0; i < 4; i++) {
    static char text[32768];
    int at = snprintf(text, sizeof text,
                      "input %%0 \"x\": f32[3, %d]\n"
                      "const %%1: u8[] = {%d}\n"
                      "const %%2: f32[] = {127.5}\n"
                      "const %%3: i8[%d, 3] = {",
                      depths[i], i % 2 ? 255 : 0, depths[i]);
    for (int k = 0; k < depths[i]; k++)
      at += snprintf(text + at, sizeof text - (size_t)at, "%s-128, 127, %d", k ? ", " : "", k * 37 % 256 - 128);
    snprintf(text + at, sizeof text - (size_t)at,
             "}\n"
             "%%4 = aten::mul(%%0, %%2)\n"
             "%%5 = aten::add(%%4, %%2)\n"
             "%%6 = aten::_to_copy(%%5) {dtype = u8}\n"
             "%%7 = td::matmul_integer(%%6, %%3, %%1)\n"
             "output \"y\" %%7\n");
    expect_same_numbers(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_product_is_taken_in_f32),
                                     cmocka_unit_test(matrices_that_are_no_constants_stay),
                                     cmocka_unit_test(numbers_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
