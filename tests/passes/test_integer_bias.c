/* Biases of integers go behind the scales of products. */
#include "passes/numbers.h"

#define HEAD                                        \
  "input %0 \"x\": f32[n, 2, 5, 5]\n"               \
  "input %1 \"bias\": i32[1, 3, 1, 1]\n"            \
  "const %2: u8[3, 2, 1, 1] = {1, 2, 3, 4, 5, 6}\n" \
  "const %3: f32[] = {0.5}\n"                       \
  "%4, %5, %6 = td::dynamic_quantize_linear(%0)\n"  \
  "%7 = td::conv_integer(%4, %2, %6)\n"             \
  "%8 = aten::mul(%5, %3)\n"

static void a_bias_goes_behind_the_scale(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx2"), "integer_bias",
      HEAD
      "%9 = aten::add(%1, %7)\n"
      "%10 = aten::_to_copy(%9) {dtype = f32}\n"
      "%11 = aten::mul(%8, %10)\n"
      "output \"y\" %11\n",
      "input %0 \"x\": f32[n, 2, 5, 5]\n"
      "input %1 \"bias\": i32[1, 3, 1, 1]\n"
      "const %2: u8[3, 2, 1, 1] = {1, 2, 3, 4, 5, 6}\n"
      "const %3: f32[] = {0.5}\n"
      "%4, %5, %6 = td::dynamic_quantize_linear(%0) {reduce_range = false, least = 0}: u8[n, 2, 5, 5], f32[], u8[]\n"
      "%7 = td::conv_integer(%4, %2, %6) {stride = [], padding = [], dilation = [], auto_pad = \"\", transposed = "
      "false, output_padding = [], groups = 1, output_size = []}: i32[n, 3, 5, 5]\n"
      "%8 = aten::mul(%5, %3): f32[]\n"
      "%9 = aten::_to_copy(%7) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[n, 3, 5, 5]\n"
      "%10 = aten::mul(%9, %8): f32[n, 3, 5, 5]\n"
      "%11 = aten::_to_copy(%1) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[1, 3, 1, 1]\n"
      "%12 = aten::mul(%11, %8): f32[1, 3, 1, 1]\n"
      "%13 = aten::add(%10, %12): f32[n, 3, 5, 5]\n"
      "output \"y\" %13\n",
      1);
}

static void so_does_that_of_a_matrix(void **state) {
  (void)state;
  expect_change_at(level_of("avx2"), "integer_bias",
                   "input %0 \"a\": u8[n, 4]\n"
                   "input %1 \"b\": u8[4, 3]\n"
                   "input %2 \"bias\": i32[3]\n"
                   "input %3 \"scale\": f32[]\n"
                   "%4 = td::matmul_integer(%0, %1)\n"
                   "%5 = aten::add(%4, %2)\n"
                   "%6 = aten::_to_copy(%5) {dtype = f32}\n"
                   "%7 = aten::mul(%6, %3)\n"
                   "output \"y\" %7\n",
                   "input %0 \"a\": u8[n, 4]\n"
                   "input %1 \"b\": u8[4, 3]\n"
                   "input %2 \"bias\": i32[3]\n"
                   "input %3 \"scale\": f32[]\n"
                   "%4 = td::matmul_integer(%0, %1): i32[n, 3]\n"
                   "%5 = aten::_to_copy(%4) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[n, 3]\n"
                   "%6 = aten::mul(%5, %3): f32[n, 3]\n"
                   "%7 = aten::_to_copy(%2) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[3]\n"
                   "%8 = aten::mul(%7, %3): f32[3]\n"
                   "%9 = aten::add(%6, %8): f32[n, 3]\n"
                   "output \"y\" %9\n",
                   1);
}

/* A sum that others read, too, and that of other integers. */
static void others_stay(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx2"), "integer_bias",
      HEAD
      "%9 = aten::add(%1, %7)\n"
      "%10 = aten::_to_copy(%9) {dtype = f32}\n"
      "%11 = aten::mul(%8, %10)\n"
      "output \"y\" %11\noutput \"sums\" %7\n",
      "input %0 \"x\": f32[n, 2, 5, 5]\n"
      "input %1 \"bias\": i32[1, 3, 1, 1]\n"
      "const %2: u8[3, 2, 1, 1] = {1, 2, 3, 4, 5, 6}\n"
      "const %3: f32[] = {0.5}\n"
      "%4, %5, %6 = td::dynamic_quantize_linear(%0) {reduce_range = false, least = 0}: u8[n, 2, 5, 5], f32[], u8[]\n"
      "%7 = td::conv_integer(%4, %2, %6) {stride = [], padding = [], dilation = [], auto_pad = \"\", transposed = "
      "false, output_padding = [], groups = 1, output_size = []}: i32[n, 3, 5, 5]\n"
      "%8 = aten::mul(%5, %3): f32[]\n"
      "%9 = aten::add(%1, %7): i32[n, 3, 5, 5]\n"
      "%10 = aten::_to_copy(%9) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[n, 3, 5, 5]\n"
      "%11 = aten::mul(%8, %10): f32[n, 3, 5, 5]\n"
      "output \"y\" %11\n"
      "output \"sums\" %7\n",
      0);
  expect_change_at(level_of("avx2"), "integer_bias",
                   "input %0 \"a\": i32[3]\n"
                   "input %1 \"scale\": f32[]\n"
                   "%2 = aten::add(%0, %0)\n"
                   "%3 = aten::_to_copy(%2) {dtype = f32}\n"
                   "%4 = aten::mul(%3, %1)\n"
                   "output \"y\" %4\n",
                   "input %0 \"a\": i32[3]\n"
                   "input %1 \"scale\": f32[]\n"
                   "%2 = aten::add(%0, %0): i32[3]\n"
                   "%3 = aten::_to_copy(%2) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[3]\n"
                   "%4 = aten::mul(%3, %1): f32[3]\n"
                   "output \"y\" %4\n",
                   0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bias_goes_behind_the_scale),
      cmocka_unit_test(so_does_that_of_a_matrix),
      cmocka_unit_test(others_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
