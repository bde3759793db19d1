/* Activations quantised to bytes with a sign: which ones lose it, and which keep it. */
#include "passes/numbers.h"

/* A zero point that is given, one that is not, scales of each channel, and a value that two read. */
static void a_sign_is_moved_into_zero_points(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx2"), "unsigned_bytes",
      "input %0 \"x\": f32[2, 3]\n"
      "const %1: f32[] = {0.5}\n"
      "const %2: i8[] = {-128}\n"
      "const %3: f32[3] = {0.5, 1, 2}\n"
      "const %4: i8[3] = {0, 5, -7}\n"
      "const %5: i8[] = {3}\n"
      "%6 = td::quantize_linear(%0, %1, %2) {dtype = i8}\n"
      "%7 = td::dequantize_linear(%6, %1, %2) {dtype = f32}\n"
      "%8 = td::dequantize_linear(%6, %1, %5) {dtype = f32}\n"
      "%9 = td::quantize_linear(%7, %3, %4) {axis = 1, dtype = i8}\n"
      "%10 = td::dequantize_linear(%9, %3, %4) {axis = 1, dtype = f32}\n"
      "%11 = td::quantize_linear(%8, %1) {dtype = i8}\n"
      "%12 = td::dequantize_linear(%11, %1) {dtype = f32}\n"
      "output \"a\" %10\n"
      "output \"b\" %12\n",
      "input %0 \"x\": f32[2, 3]\n"
      "const %1: f32[] = {0.5}\n"
      "const %2: u8[] = {0}\n"
      "const %3: u8[] = {0}\n"
      "const %4: u8[] = {131}\n"
      "const %5: f32[3] = {0.5, 1, 2}\n"
      "const %6: u8[3] = {128, 133, 121}\n"
      "const %7: u8[3] = {128, 133, 121}\n"
      "const %8: u8[] = {128}\n"
      "const %9: u8[] = {128}\n"
      "%10 = td::quantize_linear(%0, %1, %2) {axis = 1, block_size = 0, dtype = u8, saturate = true}: u8[2, 3]\n"
      "%11 = td::dequantize_linear(%10, %1, %3) {axis = 1, block_size = 0, dtype = f32}: f32[2, 3]\n"
      "%12 = td::dequantize_linear(%10, %1, %4) {axis = 1, block_size = 0, dtype = f32}: f32[2, 3]\n"
      "%13 = td::quantize_linear(%11, %5, %6) {axis = 1, block_size = 0, dtype = u8, saturate = true}: u8[2, 3]\n"
      "%14 = td::dequantize_linear(%13, %5, %7) {axis = 1, block_size = 0, dtype = f32}: f32[2, 3]\n"
      "%15 = td::quantize_linear(%12, %1, %8) {axis = 1, block_size = 0, dtype = u8, saturate = true}: u8[2, 3]\n"
      "%16 = td::dequantize_linear(%15, %1, %9) {axis = 1, block_size = 0, dtype = f32}: f32[2, 3]\n"
      "output \"a\" %14\n"
      "output \"b\" %16\n",
      4);
}

/* What multiplies bytes and makes some of it changes both; its weights stay. */
static void products_of_bytes_change_over(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx2"), "unsigned_bytes",
      "input %0 \"x\": f32[2, 3]\n"
      "const %1: f32[] = {0.5}\n"
      "const %2: i8[] = {-1}\n"
      "const %3: i8[3, 2] = {1, 2, -3, 4, 5, 6}\n"
      "const %4: i8[] = {0}\n"
      "const %5: i8[2, 1] = {1, -2}\n"
      "%6 = td::quantize_linear(%0, %1, %2) {dtype = i8}\n"
      "%7 = td::qlinear_matmul(%6, %1, %2, %3, %1, %4, %1, %2)\n"
      "%8 = td::qlinear_matmul(%7, %1, %2, %5, %1, %4, %1, %2)\n"
      "output \"y\" %8\n",
      "input %0 \"x\": f32[2, 3]\n"
      "const %1: f32[] = {0.5}\n"
      "const %2: u8[] = {127}\n"
      "const %3: u8[] = {127}\n"
      "const %4: i8[3, 2] = {1, 2, -3, 4, 5, 6}\n"
      "const %5: i8[] = {0}\n"
      "const %6: u8[] = {127}\n"
      "const %7: u8[] = {127}\n"
      "const %8: i8[2, 1] = {1, -2}\n"
      "const %9: i8[] = {-1}\n"
      "%10 = td::quantize_linear(%0, %1, %2) {axis = 1, block_size = 0, dtype = u8, saturate = true}: u8[2, 3]\n"
      "%11 = td::qlinear_matmul(%10, %1, %3, %4, %1, %5, %1, %6): u8[2, 2]\n"
      "%12 = td::qlinear_matmul(%11, %1, %7, %8, %1, %5, %1, %9): i8[2, 1]\n"
      "output \"y\" %12\n",
      1);
}

/* Weights, what is an output, what others read, zero points that are not known, bytes without a sign. */
static void others_keep_it(void **state) {
  (void)state;
  static const char *const texts[] = {
      "const %0: f32[2] = {1, 2}\n"
      "const %1: f32[] = {0.5}\n"
      "%2 = td::quantize_linear(%0, %1) {axis = 1, block_size = 0, dtype = i8, saturate = true}: i8[2]\n"
      "%3 = td::dequantize_linear(%2, %1) {axis = 1, block_size = 0, dtype = f32}: f32[2]\n"
      "output \"y\" %3\n",
      "input %0 \"x\": f32[2]\n"
      "const %1: f32[] = {0.5}\n"
      "%2 = td::quantize_linear(%0, %1) {axis = 1, block_size = 0, dtype = i8, saturate = true}: i8[2]\n"
      "%3 = td::dequantize_linear(%2, %1) {axis = 1, block_size = 0, dtype = f32}: f32[2]\n"
      "output \"y\" %3\n"
      "output \"q\" %2\n",
      "input %0 \"x\": f32[2]\n"
      "input %1 \"zero\": i8[]\n"
      "const %2: f32[] = {0.5}\n"
      "%3 = td::quantize_linear(%0, %2, %1) {axis = 1, block_size = 0, dtype = i8, saturate = true}: i8[2]\n"
      "%4 = td::dequantize_linear(%3, %2, %1) {axis = 1, block_size = 0, dtype = f32}: f32[2]\n"
      "output \"y\" %4\n",
      "input %0 \"x\": f32[2]\n"
      "const %1: f32[] = {0.5}\n"
      "const %2: u8[] = {3}\n"
      "%3 = td::quantize_linear(%0, %1, %2) {axis = 1, block_size = 0, dtype = u8, saturate = true}: u8[2]\n"
      "%4 = td::dequantize_linear(%3, %1, %2) {axis = 1, block_size = 0, dtype = f32}: f32[2]\n"
      "output \"y\" %4\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    expect_change_at(level_of("avx2"), "unsigned_bytes", texts[i], texts[i], 0);
}

/* Without kernels of bytes nothing is gained. */
static void levels_without_bytes_stay(void **state) {
  (void)state;
  expect_same("unsigned_bytes",
              "input %0 \"x\": f32[2]\n"
              "const %1: f32[] = {0.5}\n"
              "%2 = td::quantize_linear(%0, %1) {axis = 1, block_size = 0, dtype = i8, saturate = true}: i8[2]\n"
              "%3 = td::dequantize_linear(%2, %1) {axis = 1, block_size = 0, dtype = f32}: f32[2]\n"
              "output \"y\" %3\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_sign_is_moved_into_zero_points),
                                     cmocka_unit_test(products_of_bytes_change_over), cmocka_unit_test(others_keep_it),
                                     cmocka_unit_test(levels_without_bytes_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
