/* Moments of group norms by parts: of large images that stand channels last, and numbers stay. */
#include "passes/numbers.h"

#define IMAGE(size) "input %0 \"x\": f32[n, " size ", 64, 16]\nconst %1: f32[16] = {" SIXTEEN "}\n"
#define SIXTEEN "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16"
#define ACT "act = \"relu\", act_a = 0, act_b = 0}"
#define NORM(operands, last) \
  "native_group_norm(" operands ") {num_groups = 4, eps = 0.5, channels_last = " last ", " ACT

static void large_images_have_parts(void **state) {
  (void)state;
  static const char before[] = IMAGE("80") "%2 = aten::" NORM("%0, %1", "true") ": f32[n, 80, 64, 16]\n"
                                           "output \"y\" %2\n";
  static const char after[] = IMAGE("80") "%2 = td::group_moments(%0) {parts = 10}: f32[n, 10, 2, 16]\n"
                                          "%3 = aten::" NORM("%0, %1, -, %2", "true") ": f32[n, 80, 64, 16]\n"
                                          "output \"y\" %3\n";
  expect_change_at(level_of("avx2"), "moments", before, after, 1);
}

static void others_stay(void **state) {
  (void)state;
  static const char *const texts[] = {
      IMAGE("63") "%2 = aten::" NORM("%0, %1", "true") ": f32[n, 63, 64, 16]\noutput \"y\" %2\n", /* small */
      IMAGE("h") "%2 = aten::" NORM("%0, %1", "true") ": f32[n, h, 64, 16]\noutput \"y\" %2\n",   /* of any size */
      "input %0 \"x\": f32[n, 16, 80, 64]\n"                                                      /* channels first */
      "%1 = aten::" NORM("%0", "false") ": f32[n, 16, 80, 64]\noutput \"y\" %1\n",
      "input %0 \"x\": f32[n, 80, 64, 16]\nconst %1: f32[4] = {1, 2, 3, 4}\n" /* a weight for each group */
      "%2 = aten::" NORM("%0, %1", "true") ": f32[n, 80, 64, 16]\noutput \"y\" %2\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    expect_change_at(level_of("avx2"), "moments", texts[i], texts[i], 0);
}

static void numbers_stay(void **state) {
  (void)state;
  expect_same_numbers(
      "input %0 \"x\": f32[1, 32, 64, 32]\n"
      "%1 = aten::native_group_norm(%0) {num_groups = 8, channels_last = true}\noutput \"y\" %1\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(large_images_have_parts), cmocka_unit_test(others_stay),
                                     cmocka_unit_test(numbers_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
