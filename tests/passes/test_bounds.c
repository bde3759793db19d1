/* Sizes that windows bound. */
#include "passes/change.h"

/* A view by a size that an exporter computes with truncation, from that of the input. */
#define COMPUTED_SIZE(LESS, CONV, SHAPE, VIEW, OF)                                            \
  "input %0 \"x\": f32[b, 1, h]\n"                                                            \
  "const %1: f32[2, 1, 5] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}\n"                                 \
  "const %2: i64[1] = {" LESS                                                                 \
  "}\nconst %3: i64[1] = {2}\nconst %4: i64[1] = {1}\n"                                       \
  "const %5: i64[1] = {-1}\n"                                                                 \
  "%6 = aten::convolution(%0, %1) {stride = [2]" CONV "\n%7 = td::shape(%0) {start = 2" SHAPE \
  "\n"                                                                                        \
  "%8 = aten::add(%7, %2)" OF "\n%9 = aten::div(%8, %3) {rounding_mode = \"trunc\"}" OF       \
  "\n"                                                                                        \
  "%10 = aten::add(%9, %4)" OF "\n%11 = aten::cat(%5, %10) {dim = 0}" VIEW "\noutput \"y\" %12\n"
#define OTHERS                                                                                          \
  ", padding = [], dilation = [], auto_pad = \"\", transposed = false, output_padding = [], groups = 1" \
  ", output_size = []}: f32[b, 2, add(div(add(h, 1), 2), -2)]"
#define PRINTED(LESS, TYPE) \
  COMPUTED_SIZE(LESS, OTHERS, ", end = 9223372036854775807}: i64[1]", VIEWED(TYPE), ": i64[1]")
#define VIEWED(TYPE) ": i64[2]\n%12 = aten::view(%6, %11) {zero_copies = false}: " TYPE

#define GUARD(LEAST) "guard " LEAST " <= h \"an image must be as large as the windows of convolutions over it\"\n"

static void windows_that_must_fit(void **state) {
  (void)state;
  expect_change("sizes", COMPUTED_SIZE("-5", "}", "}", "\n%12 = aten::view(%6, %11)", ""),
                PRINTED("-5", "f32[mul(2, b), add(div(add(h, 1), 2), -2)]") GUARD("5"), 4);
  /* an image of 5 gives -1 / 2, of which the floor is another number */
  expect_change("sizes", PRINTED("-6", "f32[$u2, $u3]"), PRINTED("-6", "f32[$u2, $u3]") GUARD("5"), 0);
}

/* A window in a branch, which may not run, bounds nothing. */
static void branches_ask_for_nothing(void **state) {
  (void)state;
  expect_same(
      "sizes",
      "input %0 \"x\": f32[1, 1, h]\n"
      "input %1 \"c\": bool[]\n"
      "const %2: f32[1, 1, 3] = {1, 2, 3}\n"
      "%3 = prim::If(%1): f32[1, 1, $u1] {\n"
      "  block() {\n"
      "    %4 = aten::convolution(%0, %2) {stride = [], padding = [], dilation = [], auto_pad = \"\", transposed = "
      "false, output_padding = [], groups = 1, output_size = []}: f32[1, 1, add(h, -2)]\n"
      "    yield %4\n"
      "  }\n"
      "  block() {\n"
      "    yield %0\n"
      "  }\n"
      "}\n"
      "output \"y\" %3\n");
}

/* By all backends with kernels, and said so that a caller knows what to give. */
static void small_images_are_refused(void **state) {
  (void)state;
  rig r;
  rig_open(&r, COMPUTED_SIZE("-5", "}", "}", "\n%12 = aten::view(%6, %11)", ""), "native");
  rig_feed(&r, 0, TD_F32, "1x1x4: 1");
  assert_int_equal(run_session_run(r.session, &r.err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(r.err.text, "as large as the windows"));
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(windows_that_must_fit),
                                     cmocka_unit_test(branches_ask_for_nothing),
                                     cmocka_unit_test(small_images_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
