/* Forms in which tools write quantised models: weights of f32 that are quantised where they are used, biases of f32,
 * scales for each channel of an image, zero points at the end of a type. */
#include "passes/int8_ops.h"

/* Of a convolution's weights and its bias, 2^-12 of which are a unit of its sums. */
static void weights_are_quantised_where_they_are_used(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": u8[2, 3, 7, 9]\n"
      "const %1: f32[] = {0.0625}\n"
      "const %2: u8[] = {128}\n"
      "const %3: f32[2, 3, 1, 2] = {0.01, -0.02, 0.3, -0.4, 0.05, 0.6, -0.7, 0.8, -0.09, 0.1, -1, 0.127}\n"
      "const %4: f32[2] = {0.00390625, 0.0078125}\n"
      "const %5: i8[2] = {0, 0}\n"
      "const %6: f32[2] = {0.00073242188, -1.25}\n"
      "%7 = td::dequantize_linear(%0, %1, %2) {dtype = f32}\n"
      "%8 = td::quantize_linear(%3, %4, %5) {axis = 0, dtype = i8}\n"
      "%9 = td::dequantize_linear(%8, %4, %5) {axis = 0, dtype = f32}\n"
      "%10 = aten::convolution(%7, %9, %6)\n"
      "%11 = aten::relu(%10)\n"
      "%12 = td::quantize_linear(%11, %1, %2) {dtype = u8}\n"
      "%13 = td::dequantize_linear(%12, %1, %2) {dtype = f32}\n"
      "output \"y\" %13\n";
  expect_same_numbers_on_levels(text);
  EXPECT_OPS(text, {"td::conv_i8", 1}, {"aten::convolution", 0}, {"td::quantize_linear", 0}, {"aten::relu", 0});
}

/* As training for few bits leaves them: weights within limits, and four bits of a byte. */
static void weights_and_activations_have_limits(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": u8[2, 3, 7, 9]\n"
      "const %1: f32[] = {0.0625}\n"
      "const %2: u8[] = {128}\n"
      "const %3: i8[2, 3, 1, 2] = {1, -2, 9, -12, 5, 6, -7, 8, -9, 0, 3, 7}\n"
      "const %4: f32[2] = {0.00390625, 0.0078125}\n"
      "const %5: i8[2] = {0, 0}\n"
      "const %6: i8[] = {-7}\n"
      "const %7: i8[] = {7}\n"
      "const %8: u8[] = {0}\n"
      "const %9: u8[] = {15}\n"
      "%10 = td::dequantize_linear(%0, %1, %2) {dtype = f32}\n"
      "%11 = aten::clamp(%3, %6, %7)\n"
      "%12 = td::dequantize_linear(%11, %4, %5) {axis = 0, dtype = f32}\n"
      "%13 = aten::convolution(%10, %12)\n"
      "%14 = aten::relu(%13)\n"
      "%15 = td::quantize_linear(%14, %1, %8) {dtype = u8}\n"
      "%16 = aten::clamp(%15, %8, %9)\n"
      "%17 = td::dequantize_linear(%16, %1, %8) {dtype = f32}\n"
      "output \"y\" %17\n";
  expect_same_numbers_on_levels(text);
  EXPECT_OPS(text, {"td::conv_i8", 1}, {"aten::convolution", 0});
}

/* Between a convolution and a depthwise one, a limit beyond what bytes hold; and one within, which stays. */
static void channels_have_scales(void **state) {
  (void)state;
  static const char form[] =
      "input %%0 \"x\": u8[2, 3, 7, 9]\n"
      "const %%1: f32[] = {0.0625}\n"
      "const %%2: u8[] = {128}\n"
      "const %%3: i8[2, 3, 1, 1] = {1, -2, 3, 104, 105, 6}\n"
      "const %%4: i8[2, 1, 3, 3] = {9, 8, -7, 6, -5, 4, 3, -2, 1, 1, 2, 3, 4, 5, 6, 7, 8, -9}\n"
      "const %%5: f32[2] = {0.00390625, 0.0078125}\n"
      "const %%6: i8[2] = {0, 0}\n"
      "const %%7: f32[2] = {0.015625, 0.0078125}\n"
      "const %%8: u8[2] = {0, 0}\n"
      "const %%9: f32[2] = {2, -0.5}\n"
      "const %%10: f32[] = {0}\n"
      "const %%11: f32[] = {%s}\n"
      "%%12 = td::dequantize_linear(%%0, %%1, %%2) {dtype = f32}\n"
      "%%13 = td::dequantize_linear(%%3, %%5, %%6) {axis = 0, dtype = f32}\n"
      "%%14 = aten::convolution(%%12, %%13, %%9)\n"
      "%%15 = aten::clamp(%%14, %%10, %%11)\n"
      "%%16 = td::quantize_linear(%%15, %%7, %%8) {axis = 1, dtype = u8}\n"
      "%%17 = td::dequantize_linear(%%16, %%7, %%8) {axis = 1, dtype = f32}\n"
      "%%18 = td::dequantize_linear(%%4, %%5, %%6) {axis = 0, dtype = f32}\n"
      "%%19 = aten::convolution(%%17, %%18, %%9) {groups = 2}\n"
      "%%20 = td::quantize_linear(%%19, %%1, %%2) {dtype = u8}\n"
      "output \"y\" %%20\n";
  for (int within = 0; within < 2; within++) {
    char text[sizeof form + 8];
    snprintf(text, sizeof text, form, within ? "1.5" : "6");
    expect_same_numbers_on_levels(text);
    if (within) EXPECT_OPS(text, {"td::conv_i8", 2}, {"aten::clamp", 1}, {"td::quantize_linear", 1});
    else EXPECT_OPS(text, {"td::conv_i8", 2}, {"aten::clamp", 0}, {"td::quantize_linear", 0});
  }
}

/* Loops that know a scale add every zero point, the least of a type among them. */
static void zero_points_at_the_ends_are_added(void **state) {
  (void)state;
  static const struct {
    const char *type, *zero;
  } rows[] = {{"i8", "-128"}, {"i8", "127"}, {"u8", "0"}, {"u8", "255"}, {"i16", "-32768"}, {"u16", "65535"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[3, 50]\nconst %%1: f32[] = {0.0078125}\nconst %%2: %s[] = {%s}\n"
             "%%3 = td::quantize_linear(%%0, %%1, %%2) {dtype = %s}\n"
             "%%4 = td::dequantize_linear(%%3, %%1, %%2) {dtype = f32}\noutput \"q\" %%3\noutput \"y\" %%4\n",
             rows[i].type, rows[i].zero, rows[i].type);
    expect_same_numbers_on_levels(text);
  }
}

static void scales_along_an_axis_are_broadcast(void **state) {
  (void)state;
  expect_change("scales",
                "input %0 \"x\": f32[2, 3, n, 5]\n"
                "const %1: f32[3] = {1, 2, 3}\n"
                "const %2: u8[3] = {4, 5, 6}\n"
                "%3 = td::quantize_linear(%0, %1, %2) {axis = -3, dtype = u8}\n"
                "%4 = td::quantize_linear(%0, %1, %2) {axis = 3, dtype = u8}\n"
                "output \"y\" %3\noutput \"z\" %4\n",
                "input %0 \"x\": f32[2, 3, n, 5]\n"
                "const %1: f32[3] = {1, 2, 3}\n"
                "const %2: i64[3] = {-1, 1, 1}\n"
                "const %3: u8[3] = {4, 5, 6}\n"
                "%4 = aten::view(%1, %2) {zero_copies = false}: f32[3, 1, 1]\n"
                "%5 = aten::view(%3, %2) {zero_copies = false}: u8[3, 1, 1]\n"
                "%6 = td::quantize_linear(%0, %4, %5) {axis = -3, block_size = 0, dtype = u8, saturate = true}: "
                "u8[2, 3, n, 5]\n"
                "%7 = td::quantize_linear(%0, %1, %3) {axis = 3, block_size = 0, dtype = u8, saturate = true}: "
                "u8[2, 3, n, 5]\n"
                "output \"y\" %6\noutput \"z\" %7\n",
                1);
  expect_same_numbers_on_levels(
      "input %0 \"x\": f32[2, 3, 4, 5]\n"
      "const %1: f32[3] = {1, 2, 3}\n"
      "const %2: u8[3] = {4, 5, 6}\n"
      "%3 = td::quantize_linear(%0, %1, %2) {axis = 1, dtype = u8}\n"
      "%4 = td::dequantize_linear(%3, %1) {axis = 1, dtype = f32}\n"
      "output \"y\" %3\noutput \"z\" %4\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weights_and_activations_have_limits),
      cmocka_unit_test(weights_are_quantised_where_they_are_used), cmocka_unit_test(channels_have_scales),
      cmocka_unit_test(zero_points_at_the_ends_are_added), cmocka_unit_test(scales_along_an_axis_are_broadcast)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
