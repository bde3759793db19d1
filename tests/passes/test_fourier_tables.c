/* Transforms of a known length get their table of roots of unity as a constant operand (pass fourier); others stay. */
#include "passes/numbers.h"

/* The first has no operand behind x: what counts its operations once read behind them. */
static void known_lengths_get_a_table(void **state) {
  (void)state;
  expect_change("fourier",
                "input %0 \"x\": f32[2, 4, 2]\n"
                "%1 = td::dft(%0) {onesided = false, inverse = true}\n"
                "output \"y\" %1\n",
                "input %0 \"x\": f32[2, 4, 2]\n"
                "const %1: f32[6] = {1, -0, 1, -0, 1, -0}\n"
                "%2 = td::dft(%0, -, -, %1) {inverse = true, onesided = false}: f32[2, 4, 2]\n"
                "output \"y\" %2\n",
                1);
  /* a length and an axis that operands say, of open batches */
  expect_change("fourier",
                "input %0 \"x\": f32[n, 6, 1]\n"
                "const %1: i64[] = {2}\n"
                "const %2: i64[] = {1}\n"
                "%3 = td::dft(%0, %1, %2) {onesided = true}\n"
                "output \"y\" %3\n",
                "input %0 \"x\": f32[n, 6, 1]\n"
                "const %1: i64[] = {2}\n"
                "const %2: i64[] = {1}\n"
                "const %3: f32[2] = {-0, -0.5}\n"
                "%4 = td::dft(%0, %1, %2, %3) {inverse = false, onesided = true}: f32[n, 2, 2]\n"
                "output \"y\" %4\n",
                1);
  expect_change("fourier",
                "input %0 \"x\": f32[2, 8]\n"
                "const %1: i64[] = {2}\n"
                "const %2: f32[2] = {1, 2}\n"
                "%3 = td::stft(%0, %1, %2) {onesided = true}\n"
                "output \"y\" %3\n",
                "input %0 \"x\": f32[2, 8]\n"
                "const %1: i64[] = {2}\n"
                "const %2: f32[2] = {1, 2}\n"
                "const %3: f32[2] = {-0, -0.5}\n"
                "%4 = td::stft(%0, %1, %2, -, %3) {onesided = true}: f32[2, 4, 2, 2]\n"
                "output \"y\" %4\n",
                1);
}

/* An open length, one that the model computes, another type. */
static void others_stay(void **state) {
  (void)state;
  static const char *const texts[] = {
      "input %0 \"x\": f32[2, n, 2]\n"
      "%1 = td::dft(%0) {inverse = false, onesided = false}: f32[2, n, 2]\n"
      "output \"y\" %1\n",
      "input %0 \"x\": f32[2, 4, 2]\n"
      "input %1 \"length\": i64[]\n"
      "%2 = td::dft(%0, %1) {inverse = false, onesided = false}: f32[2, s0, 2]\n"
      "output \"y\" %2\n",
      "input %0 \"x\": f64[2, 4, 2]\n"
      "%1 = td::dft(%0) {inverse = false, onesided = false}: f64[2, 4, 2]\n"
      "output \"y\" %1\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) expect_same("fourier", texts[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known_lengths_get_a_table), cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
