/* What is done to a join of convolutions is done to its parts. */
#include "passes/change.h"

#define CONV "stride = [1], padding = [0, 0], dilation = [1]"
#define HEAD                          \
  "input %0 \"x\": f32[n, 2, 4]\n"    \
  "const %1: f32[1, 2, 1] = {1, 2}\n" \
  "const %2: f32[2, 2, 1] = {3, 4, 5, 6}\n"

static void spread(const char *text, base_text *out, uint32_t *changes) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  *changes = 0;
  const td_status status = find_pass("spread")->run(graph, &(passes_setting){0}, changes, &err);
  if (status != TD_OK || ir_verify(graph, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(ir_print(graph, out), TD_OK);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void norms_and_activations(void **state) {
  (void)state;
  static const char text[] = HEAD
      "const %3: f32[3] = {1, 2, 3}\n"
      "%4 = aten::convolution(%0, %1) {" CONV
      "}\n"
      "%5 = aten::convolution(%0, %2) {" CONV
      "}\n"
      "%6 = aten::cat(%4, %5) {dim = 1}\n"
      "%7 = aten::_native_batch_norm_legit_no_training(%6, %3, %3, %3, %3)\n"
      "%8 = aten::silu(%7)\n"
      "output \"y\" %8\n";
  base_text out = {.allocator = &base_libc_allocator};
  uint32_t changes;
  spread(text, &out, &changes);
  assert_int_equal(changes, 2);
  assert_non_null(strstr(out.at, "= aten::cat(%"));
  assert_null(strstr(strstr(out.at, "= aten::cat(%"), "aten::silu")); /* nothing is behind the join */
  assert_non_null(strstr(out.at, "f32[2] = {2, 3}"));                 /* the second part's parameters */
  base_text_free(&out);
}

static void other_users_keep_the_join(void **state) {
  (void)state;
  expect_same("spread",
              "input %0 \"x\": f32[n, 2, 4]\n"
              "const %1: f32[1, 2, 1] = {1, 2}\n"
              "%2 = aten::convolution(%0, %1) {" CONV
              ", auto_pad = \"\", transposed = false, output_padding = [], groups = 1, output_size = []}: "
              "f32[n, 1, 4]\n"
              "%3 = aten::cat(%2, %0) {dim = 1}: f32[n, 3, 4]\n"
              "%4 = aten::relu(%3): f32[n, 3, 4]\n"
              "output \"y\" %4\n");
}

static void an_activation_moves_to_both_parts(void **state) {
  (void)state;
  expect_change("spread",
                HEAD "%4 = aten::convolution(%0, %1) {" CONV
                     "}\n"
                     "%5 = aten::convolution(%0, %2) {" CONV
                     "}\n"
                     "%6 = aten::cat(%4, %5) {dim = 1}\n"
                     "%7 = aten::silu(%6)\n"
                     "output \"y\" %7\n",
                "input %0 \"x\": f32[n, 2, 4]\n"
                "const %1: f32[1, 2, 1] = {1, 2}\n"
                "const %2: f32[2, 2, 1] = {3, 4, 5, 6}\n"
                "%3 = aten::convolution(%0, %1) {stride = [1], padding = [0, 0], dilation = [1], auto_pad = \"\", "
                "transposed = false, output_padding = [], groups = 1, output_size = []}: f32[n, 1, 4]\n"
                "%4 = aten::convolution(%0, %2) {stride = [1], padding = [0, 0], dilation = [1], auto_pad = \"\", "
                "transposed = false, output_padding = [], groups = 1, output_size = []}: f32[n, 2, 4]\n"
                "%5 = aten::silu(%3): f32[n, 1, 4]\n"
                "%6 = aten::silu(%4): f32[n, 2, 4]\n"
                "%7 = aten::cat(%5, %6) {dim = 1}: f32[n, 3, 4]\n"
                "output \"y\" %7\n",
                1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(norms_and_activations),
                                     cmocka_unit_test(other_users_keep_the_join),
                                     cmocka_unit_test(an_activation_moves_to_both_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
