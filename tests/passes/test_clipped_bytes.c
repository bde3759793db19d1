/* Limits of quantised numbers: where they go, and which ones stay. */
#include "passes/numbers.h"

#define HEAD                    \
  "input %0 \"x\": f32[2, 3]\n" \
  "const %1: f32[] = {0.5}\n"   \
  "const %2: u8[] = {1}\n"      \
  "const %3: u8[] = {0}\n"      \
  "const %4: u8[] = {15}\n"

/* Four bits in eight; a relu in front is a limit, too. */
static void limits_are_those_of_the_numbers(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx2"), "clipped_bytes",
      HEAD
      "%5 = aten::relu(%0)\n"
      "%6 = td::quantize_linear(%5, %1, %2) {dtype = u8}\n"
      "%7 = aten::clamp(%6, %3, %4)\n"
      "%8 = td::dequantize_linear(%7, %1, %2) {dtype = f32}\n"
      "%9 = td::quantize_linear(%0, %1, %2) {dtype = u8}\n"
      "%10 = aten::clamp(%9, %3, %4)\n"
      "%11 = td::dequantize_linear(%10, %1, %2) {dtype = f32}\n"
      "output \"a\" %8\n"
      "output \"b\" %11\n",
      "input %0 \"x\": f32[2, 3]\n"
      "const %1: f32[] = {0}\n"
      "const %2: f32[] = {7}\n"
      "const %3: f32[] = {0.5}\n"
      "const %4: u8[] = {1}\n"
      "const %5: f32[] = {-0.5}\n"
      "const %6: f32[] = {7}\n"
      "%7 = aten::clamp(%0, %1, %2): f32[2, 3]\n"
      "%8 = td::quantize_linear(%7, %3, %4) {axis = 1, block_size = 0, dtype = u8, saturate = true}: u8[2, 3]\n"
      "%9 = td::dequantize_linear(%8, %3, %4) {axis = 1, block_size = 0, dtype = f32}: f32[2, 3]\n"
      "%10 = aten::clamp(%0, %5, %6): f32[2, 3]\n"
      "%11 = td::quantize_linear(%10, %3, %4) {axis = 1, block_size = 0, dtype = u8, saturate = true}: u8[2, 3]\n"
      "%12 = td::dequantize_linear(%11, %3, %4) {axis = 1, block_size = 0, dtype = f32}: f32[2, 3]\n"
      "output \"a\" %9\n"
      "output \"b\" %12\n",
      2);
}

/* Where bytes have no other numbers there is no limit. */
static void limits_of_the_type_go(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx2"), "clipped_bytes",
      "input %0 \"x\": f32[2, 3]\n"
      "const %1: f32[] = {0.5}\n"
      "const %2: i8[] = {-128}\n"
      "const %3: i8[] = {127}\n"
      "%4 = td::quantize_linear(%0, %1) {dtype = i8}\n"
      "%5 = aten::clamp(%4, %2, %3)\n"
      "%6 = td::dequantize_linear(%5, %1) {dtype = f32}\n"
      "output \"y\" %6\n",
      "input %0 \"x\": f32[2, 3]\n"
      "const %1: f32[] = {0.5}\n"
      "%2 = td::quantize_linear(%0, %1) {axis = 1, block_size = 0, dtype = i8, saturate = true}: i8[2, 3]\n"
      "%3 = td::dequantize_linear(%2, %1) {axis = 1, block_size = 0, dtype = f32}: f32[2, 3]\n"
      "output \"y\" %3\n",
      1);
}

/* What another reads without limits, scales that are not known, or several, small floats, numbers that nobody
 * quantised. */
static void others_stay(void **state) {
  (void)state;
  static const char *const texts[] = {
      HEAD
      "%5 = td::quantize_linear(%0, %1, %2) {axis = 1, block_size = 0, dtype = u8, saturate = true}: u8[2, 3]\n"
      "%6 = aten::clamp(%5, %3, %4): u8[2, 3]\n"
      "output \"y\" %6\n"
      "output \"q\" %5\n",
      "input %0 \"x\": f32[2, 3]\n"
      "input %1 \"scale\": f32[]\n"
      "const %2: u8[] = {3}\n"
      "const %3: u8[] = {15}\n"
      "%4 = td::quantize_linear(%0, %1, %2) {axis = 1, block_size = 0, dtype = u8, saturate = true}: u8[2, 3]\n"
      "%5 = aten::clamp(%4, %2, %3): u8[2, 3]\n"
      "output \"y\" %5\n",
      "input %0 \"x\": f32[2, 3]\n"
      "const %1: f32[3] = {0.5, 1, 2}\n"
      "const %2: u8[3] = {3, 4, 5}\n"
      "const %3: u8[] = {6}\n"
      "const %4: u8[] = {15}\n"
      "%5 = td::quantize_linear(%0, %1, %2) {axis = 1, block_size = 0, dtype = u8, saturate = true}: u8[2, 3]\n"
      "%6 = aten::clamp(%5, %3, %4): u8[2, 3]\n"
      "output \"y\" %6\n",
      "input %0 \"x\": f32[2, 3]\n"
      "const %1: f32[] = {0.5}\n"
      "const %2: f8e4m3fn[] = {-192}\n"
      "const %3: f8e4m3fn[] = {192}\n"
      "%4 = td::quantize_linear(%0, %1) {axis = 1, block_size = 0, dtype = f8e4m3fn, saturate = true}: f8e4m3fn[2, 3]\n"
      "%5 = aten::clamp(%4, %2, %3): f8e4m3fn[2, 3]\n"
      "output \"y\" %5\n",
      "input %0 \"x\": u8[2, 3]\n"
      "const %1: u8[] = {3}\n"
      "const %2: u8[] = {15}\n"
      "%3 = aten::clamp(%0, %1, %2): u8[2, 3]\n"
      "output \"y\" %3\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    expect_change_at(level_of("avx2"), "clipped_bytes", texts[i], texts[i], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(limits_are_those_of_the_numbers),
                                     cmocka_unit_test(limits_of_the_type_go), cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
