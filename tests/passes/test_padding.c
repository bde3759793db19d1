/* Zeros around an image: which convolutions take them in, and which pads stay. */
#include "passes/change.h"

#define HEAD                          \
  "input %0 \"x\": f32[1, 1, 4, 4]\n" \
  "const %1: f32[1, 1, 2, 2] = {1, 2, 3, 4}\n"

static void zeros_become_padding(void **state) {
  (void)state;
  expect_change("padding",
                HEAD
                "const %2: i64[8] = {0, 0, 1, 2, 0, 0, 3, 0}\n"
                "%3 = aten::constant_pad_nd(%0, %2)\n"
                "%4 = aten::convolution(%3, %1) {padding = [1, 0, 0, 1]}\n"
                "output \"y\" %4\n",
                HEAD
                "%2 = aten::convolution(%0, %1) {stride = [], padding = [2, 2, 3, 1], dilation = [], auto_pad = "
                "\"\", transposed = false, output_padding = [], groups = 1, output_size = []}: f32[1, 1, 8, 6]\n"
                "output \"y\" %2\n",
                1);
}

static void named_axes_are_found(void **state) {
  (void)state;
  expect_change("padding",
                HEAD
                "const %2: i64[2] = {1, 1}\n"
                "const %3: f32[] = {0}\n"
                "const %4: i64[1] = {-1}\n"
                "%5 = aten::constant_pad_nd(%0, %2, %3, %4)\n"
                "%6 = aten::convolution(%5, %1)\n"
                "output \"y\" %6\n",
                HEAD
                "%2 = aten::convolution(%0, %1) {stride = [], padding = [0, 1, 0, 1], dilation = [], auto_pad = "
                "\"\", transposed = false, output_padding = [], groups = 1, output_size = []}: f32[1, 1, 3, 5]\n"
                "output \"y\" %2\n",
                1);
}

/* Another value, other dimensions, cropping, transposed convolutions. */
static void other_pads_stay(void **state) {
  (void)state;
  static const struct {
    const char *dims, *pads, *value, *attrs, *result;
  } cases[] = {{"1, 1, 5, 4", "0, 0, 1, 0, 0, 0, 0, 0", "1", "false", "1, 1, 4, 3"},
               {"2, 1, 4, 4", "1, 0, 0, 0, 0, 0, 0, 0", "0", "false", "2, 1, 3, 3"},
               {"1, 1, 3, 4", "0, 0, -1, 0, 0, 0, 0, 0", "0", "false", "1, 1, 2, 3"},
               {"1, 1, 5, 4", "0, 0, 1, 0, 0, 0, 0, 0", "0", "true", "1, 1, 6, 5"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[1, 1, 4, 4]\n"
             "const %%1: i64[8] = {%s}\n"
             "const %%2: f32[] = {%s}\n"
             "const %%3: f32[1, 1, 2, 2] = {1, 2, 3, 4}\n"
             "%%4 = aten::constant_pad_nd(%%0, %%1, %%2): f32[%s]\n"
             "%%5 = aten::convolution(%%4, %%3) {stride = [], padding = [], dilation = [], auto_pad = \"\", "
             "transposed = %s, output_padding = [], groups = 1, output_size = []}: f32[%s]\n"
             "output \"y\" %%5\n",
             cases[i].pads, cases[i].value, cases[i].dims, cases[i].attrs, cases[i].result);
    expect_same("padding", text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(zeros_become_padding), cmocka_unit_test(named_axes_are_found),
                                     cmocka_unit_test(other_pads_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
