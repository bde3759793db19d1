/* Products of matrices that were flattened: which get their axes back. */
#include "passes/change.h"

static void rows_get_their_axes_back(void **state) {
  (void)state;
  expect_change("unflatten",
                "input %0 \"x\": f32[2, 3, 4, 5]\n"
                "input %1 \"w\": f32[5, 7]\n"
                "input %2 \"b\": f32[7]\n"
                "const %3: i64[2] = {24, 5}\n"
                "const %4: i64[4] = {2, 3, 4, 7}\n"
                "%5 = aten::view(%0, %3)\n"
                "%6 = aten::matmul(%5, %1)\n"
                "%7 = aten::add(%6, %2)\n"
                "%8 = aten::view(%7, %4)\n"
                "output \"y\" %8\n",
                "input %0 \"x\": f32[2, 3, 4, 5]\n"
                "input %1 \"w\": f32[5, 7]\n"
                "input %2 \"b\": f32[7]\n"
                "%3 = aten::matmul(%0, %1): f32[2, 3, 4, 7]\n"
                "%4 = aten::add(%3, %2): f32[2, 3, 4, 7]\n"
                "output \"y\" %4\n",
                1);
}

static void open_sizes_do_not_matter(void **state) {
  (void)state;
  expect_change("unflatten",
                "input %0 \"x\": f32[N, 3, 5]\n"
                "input %1 \"y\": f32[N, 5, 7]\n"
                "const %2: i64[4] = {-1, 1, 3, 5}\n"
                "const %3: i64[4] = {-1, 1, 5, 7}\n"
                "const %4: i64[3] = {-1, 3, 5}\n"
                "const %5: i64[3] = {-1, 5, 7}\n"
                "const %6: i64[4] = {-1, 1, 3, 7}\n"
                "%7 = aten::view(%0, %2)\n"
                "%8 = aten::view(%1, %3)\n"
                "%9 = aten::view(%7, %4)\n"
                "%10 = aten::view(%8, %5)\n"
                "%11 = aten::matmul(%9, %10)\n"
                "%12 = aten::view(%11, %6)\n"
                "output \"y\" %12\n",
                "input %0 \"x\": f32[N, 3, 5]\n"
                "input %1 \"y\": f32[N, 5, 7]\n"
                "const %2: i64[4] = {-1, 1, 3, 5}\n"
                "const %3: i64[4] = {-1, 1, 5, 7}\n"
                "%4 = aten::view(%0, %2) {zero_copies = false}: f32[N, 1, 3, 5]\n"
                "%5 = aten::view(%1, %3) {zero_copies = false}: f32[N, 1, 5, 7]\n"
                "%6 = aten::matmul(%4, %5): f32[N, 1, 3, 7]\n"
                "output \"y\" %6\n",
                1);
}

/* Another split of the rows; a product that something else reads; a factor that is no view. */
static void others_stay(void **state) {
  (void)state;
  expect_same("unflatten",
              "input %0 \"x\": f32[2, 6, 5]\n"
              "input %1 \"w\": f32[5, 7]\n"
              "const %2: i64[2] = {12, 5}\n"
              "const %3: i64[3] = {3, 4, 7}\n"
              "%4 = aten::view(%0, %2) {zero_copies = false}: f32[12, 5]\n"
              "%5 = aten::matmul(%4, %1): f32[12, 7]\n"
              "%6 = aten::view(%5, %3) {zero_copies = false}: f32[3, 4, 7]\n"
              "output \"y\" %6\n");
  expect_same("unflatten",
              "input %0 \"x\": f32[2, 6, 5]\n"
              "input %1 \"w\": f32[5, 7]\n"
              "const %2: i64[2] = {12, 5}\n"
              "const %3: i64[3] = {2, 6, 7}\n"
              "%4 = aten::view(%0, %2) {zero_copies = false}: f32[12, 5]\n"
              "%5 = aten::matmul(%4, %1): f32[12, 7]\n"
              "%6 = aten::view(%5, %3) {zero_copies = false}: f32[2, 6, 7]\n"
              "output \"y\" %6\n"
              "output \"z\" %5\n");
  expect_same("unflatten",
              "input %0 \"x\": f32[2, 3, 4, 5]\n"
              "input %1 \"y\": f32[6, 5, 7]\n"
              "const %2: i64[3] = {6, 4, 5}\n"
              "const %3: i64[4] = {2, 3, 4, 7}\n"
              "%4 = aten::view(%0, %2) {zero_copies = false}: f32[6, 4, 5]\n"
              "%5 = aten::matmul(%4, %1): f32[6, 4, 7]\n"
              "%6 = aten::view(%5, %3) {zero_copies = false}: f32[2, 3, 4, 7]\n"
              "output \"y\" %6\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_get_their_axes_back),
                                     cmocka_unit_test(open_sizes_do_not_matter), cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
