/* What f32 makes of bytes between quantised products becomes tables, sums, products and means of bytes. */
#include "passes/int8_ops.h"

#define SCALES                   \
  "const %1: f32[] = {0.0625}\n" \
  "const %2: u8[] = {128}\n"     \
  "const %3: f32[] = {0.03125}\n"
#define BACK(to, from, scale) "%" to " = td::dequantize_linear(%" from ", " scale ", %2) {dtype = f32}\n"
#define QUANTISE(to, from, scale) "%" to " = td::quantize_linear(%" from ", " scale ", %2) {dtype = u8}\n"

/* x * sigmoid(x), the sigmoid quantised: one table, in whose making a constant, a limit and two scales have a part. */
static void pointwise_work_on_one_tensor_is_a_table(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": u8[2, 3, 5, 9]\n" SCALES
      "const %4: f32[1, 1, 1, 1] = {0.75}\n"
      "const %5: f32[] = {-2.5}\n"
      "const %14: u8[] = {140}\n" BACK("15", "14", "%1") BACK("6", "0", "%1")
      "%7 = aten::sigmoid(%6)\n" QUANTISE("8", "7", "%3") BACK("9", "8", "%3")
      "%10 = aten::mul(%6, %9)\n"
      "%16 = aten::add(%10, %15)\n"
      "%11 = aten::mul(%16, %4)\n"
      "%12 = aten::clamp(%11, %5)\n" QUANTISE("13", "12", "%1") "output \"y\" %13\n";
  expect_same_numbers_on_levels(text);
  EXPECT_OPS(text, {"td::lookup_i8", 1}, {"aten::mul", 0}, {"td::quantize_linear", 0}, {"td::dequantize_linear", 0});
}

/* Signed bytes, and a table behind a table that others read, too. */
static void tables_join(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": i8[70]\n"
      "const %1: f32[] = {0.0625}\n"
      "const %2: i8[] = {-3}\n"
      "%3 = td::dequantize_linear(%0, %1, %2) {dtype = f32}\n"
      "%4 = aten::relu(%3)\n"
      "%5 = td::quantize_linear(%4, %1, %2) {dtype = i8}\n"
      "%6 = td::dequantize_linear(%5, %1, %2) {dtype = f32}\n"
      "%7 = aten::exp(%6)\n"
      "%8 = td::quantize_linear(%7, %1, %2) {dtype = i8}\n"
      "output \"y\" %5\n"
      "output \"z\" %8\n";
  expect_same_numbers_on_levels(text);
  EXPECT_OPS(text, {"td::lookup_i8", 2}, {"aten::exp", 0}, {"td::dequantize_linear", 0});
}

/* What depends on two tensors, or on a constant for each channel, is no table. */
static void other_work_stays(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": u8[1, 3, 4, 4]\ninput %100 \"z\": u8[1, 3, 4, 4]\n" SCALES
      "const %4: f32[1, 3, 1, 1] = {0.75, 0.5, 0.25}\n" BACK("6", "0", "%1")
          BACK("7", "100", "%1") "%8 = aten::mul(%6, %4)\n" QUANTISE(
              "9", "8", "%1") "%10 = aten::sub(%6, %7)\n" QUANTISE("11", "10",
                                                                   "%1") "output \"a\" %9\noutput \"b\" %11\n";
  expect_same_numbers_on_levels(text);
  EXPECT_OPS(text, {"td::lookup_i8", 0}, {"aten::mul", 1}, {"aten::sub", 1});
}

/* A gate: the mean of each channel, through a sigmoid, times the image; a limited sum; a join of two scales. */
static void gates_sums_and_joins_stay_in_bytes(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": u8[2, 5, 4, 8]\ninput %100 \"z\": u8[2, 5, 4, 8]\n" SCALES
      "const %4: f32[] = {-1}\nconst %5: f32[] = {3}\n" BACK("6", "0", "%1") "%7 = td::avg_pool(%6)\n" QUANTISE(
          "8", "7", "%3") BACK("9", "8", "%3") "%10 = aten::sigmoid(%9)\n" QUANTISE("11", "10", "%3") BACK("12", "11",
                                                                                                            "%3")
          "%13 = aten::mul(%6, %12)\n" QUANTISE("14", "13", "%1") BACK("15", "14", "%1") BACK("16", "100", "%3")
              "%17 = aten::add(%15, %16)\n"
              "%18 = aten::clamp(%17, %4, %5)\n" QUANTISE("19", "18", "%1") BACK("20", "19", "%1")
                  "%21 = aten::cat(%20, %16) {dim = 1}\n" QUANTISE("22", "21", "%3") BACK("23", "22", "%3")
                      "%24 = aten::mean(%23) {dim = [2, 3], keepdim = true}\n" QUANTISE("25", "24", "%1")
                          "%26 = td::avg_pool(%23) {kernel_size = [2, 2], stride = [2, 2], padding = [1, 1, 1, 1]}\n"
      QUANTISE("27", "26", "%1") "output \"a\" %25\noutput \"b\" %27\n";
  expect_same_numbers_on_levels(text);
  EXPECT_OPS(text, {"td::avg_pool_i8", 3}, {"td::mul_i8", 1}, {"td::add_i8", 1}, {"td::lookup_i8", 3},
             {"aten::clamp", 0}, {"td::dequantize_linear", 0});
}

/* A window that may see nothing, or a mean over other axes: as it is. */
static void means_of_nothing_stay(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": u8[1, 3, 5, 5]\n" SCALES BACK("6", "0", "%1")
          "%7 = td::avg_pool(%6) {kernel_size = [2, 2], stride = [1, 1], padding = [2, 2, 2, 2]}\n" QUANTISE(
              "8", "7", "%3") "%9 = aten::mean(%6) {dim = [1], keepdim = true}\n" QUANTISE("10", "9", "%3")
              "output \"a\" %8\noutput \"b\" %10\n";
  EXPECT_OPS(text, {"td::avg_pool_i8", 0}, {"td::avg_pool", 1}, {"aten::mean", 1});
}

/* Rows of a table of embeddings are picked as bytes. */
static void rows_are_picked_as_bytes(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": i64[2, 3]\n" SCALES
      "const %4: u8[4, 5] = {1, 2, 3, 4, 5, 250, 9, 8, 7, 6, 0, 255, 128, 127, 129, 11, 12, 13, 14, 15}\n"
      "const %5: i64[] = {4}\n"
      "%6 = aten::remainder(%0, %5)\n" BACK("7", "4", "%1") "%8 = aten::index_select(%7, %6) {dim = 0}\n" QUANTISE(
          "9", "8", "%1") "output \"y\" %9\n";
  expect_same_numbers_on_levels(text);
  EXPECT_OPS(text, {"aten::index_select", 1}, {"td::dequantize_linear", 0}, {"td::quantize_linear", 0});
}

/* A convolution whose result leaves as f32, through work that becomes its chain: it has the most attributes of all. */
static void a_convolution_takes_a_chain(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": u8[1, 2, 5, 5]\n" SCALES
      "const %4: i8[2, 2, 1, 1] = {1, -2, 3, -4}\n"
      "const %5: f32[2] = {0.25, 0.5}\n" BACK("6", "0", "%1")
      "%7 = td::dequantize_linear(%4, %5) {axis = 0, dtype = f32}\n"
      "%8 = aten::convolution(%6, %7)\n"
      "%9 = aten::sin(%8)\n"
      "%10 = aten::mul(%9, %8)\n"
      "output \"y\" %10\n";
  expect_same_numbers_on_levels(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pointwise_work_on_one_tensor_is_a_table),
                                     cmocka_unit_test(tables_join),
                                     cmocka_unit_test(other_work_stays),
                                     cmocka_unit_test(gates_sums_and_joins_stay_in_bytes),
                                     cmocka_unit_test(means_of_nothing_stay),
                                     cmocka_unit_test(rows_are_picked_as_bytes),
                                     cmocka_unit_test(a_convolution_takes_a_chain)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
