/* What follows a transposed convolution reads its operands at the pixels that are written, which lie a stride apart:
 * behind channels that fill panels, and behind those that are sums along the channels in. */
#include "passes/numbers.h"

#define UP(channels, stride)                                      \
  "input %0 \"x\": f32[2, 24, 3, 5]\n"                            \
  "input %1 \"w\": f32[24, " channels ", " stride ", " stride     \
  "]\n"                                                           \
  "input %2 \"v\": f32[24, " channels ", " stride ", " stride     \
  "]\n"                                                           \
  "%3 = aten::convolution(%0, %2) {stride = [" stride ", " stride \
  "], transposed = true}\n"                                       \
  "%4 = aten::convolution(%0, %1) {stride = [" stride ", " stride \
  "], transposed = true}\n"                                       \
  "%5 = aten::sub(%4, %3)\n%6 = aten::sigmoid(%5)\n%7 = aten::mul(%6, %3)\noutput \"y\" %7\n"

static void operands_are_read_in_place(void **state) {
  (void)state;
  expect_same_numbers(UP("1", "2"));
  expect_same_numbers(UP("3", "2"));
  expect_same_numbers(UP("1", "3"));
  expect_same_numbers(UP("17", "2"));
  expect_same_numbers(UP("32", "3"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(operands_are_read_in_place)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
