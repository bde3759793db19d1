/* Which convolutions become products when their weights are packed. */
#include "passes/change.h"

enum { CHANNELS = 192 };

/* One convolution of 192 to 192 channels; the operator in its place after prepack. */
static void expect_op(const char *input, const char *kernel, const char *rest, kern_math math, const char *op) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = {.allocator = &base_libc_allocator};
  bool wide = strcmp(kernel, "1, 1") != 0;
  int taps = wide ? 2 : 1;
  base_text_print(&text, "input %%0 \"x\": f32[n, %s, %d]\nconst %%1: f32[%d, %d, 1, %d] = {", input, CHANNELS,
                  CHANNELS, CHANNELS, taps);
  for (int i = 0; i < CHANNELS * CHANNELS * taps; i++) base_text_print(&text, i ? ", %d" : "%d", i % 7);
  base_text_print(&text, "}\n%%2 = td::conv(%%0, %%1) {kernel = [%s], channels = %d%s}\noutput \"y\" %%2\n", kernel,
                  CHANNELS, rest);
  ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  if (find_pass("prepack")->run(graph, &(passes_setting){.math = math}, &changes, &err) != TD_OK ||
      ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  const ir_value y = ir_block_of(graph, graph->top)->results.at[0];
  assert_string_equal(ir_node_of(graph, ir_value_of(graph, y)->node)->op->name, op);
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void pixels_times_a_matrix_are_a_product(void **state) {
  (void)state;
  expect_op("8, 8", "1, 1", ", act = \"relu\"", KERN_MATH_FAST, "td::linear");
}

static void others_stay_convolutions(void **state) {
  (void)state;
  expect_op("8, 8", "1, 1", "", KERN_MATH_DEFAULT, "td::conv");
  expect_op("8, 8", "1, 1", "", KERN_MATH_EXACT, "td::conv");
  expect_op("7, 9", "1, 1", "", KERN_MATH_FAST, "td::conv"); /* too few pixels */
  expect_op("8, m", "1, 1", "", KERN_MATH_FAST, "td::conv");
  expect_op("4611686018427387904, 4", "1, 1", "", KERN_MATH_FAST, "td::conv"); /* too many to count */
  expect_op("8, 8", "1, 2", "", KERN_MATH_FAST, "td::conv");
  expect_op("8, 8", "1, 1", ", padding = [1, 1, 1, 1]", KERN_MATH_FAST, "td::conv");
  expect_op("16, 16", "1, 1", ", stride = [2, 2]", KERN_MATH_FAST, "td::conv");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pixels_times_a_matrix_are_a_product),
                                     cmocka_unit_test(others_stay_convolutions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
