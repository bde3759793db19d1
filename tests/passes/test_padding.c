/* Zeros around an image: which convolutions take them in, and which pads stay. */
#include "passes/numbers.h"

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

/* Zeros of what is not negative, and -inf of anything. */
static void least_ones_are_of_no_account(void **state) {
  (void)state;
  expect_change(
      "padding",
      "input %0 \"x\": f32[1, 1, 4, 4]\n"
      "const %1: i64[8] = {0, 0, 1, 1, 0, 0, 0, 1}\n"
      "const %2: f32[] = {-inf}\n"
      "%3 = aten::relu(%0)\n"
      "%4 = aten::constant_pad_nd(%3, %1)\n"
      "%5 = td::max_pool(%4) {kernel_size = [3, 3], padding = [0, 0, 1, 0]}\n"
      "%6 = aten::constant_pad_nd(%0, %1, %2)\n"
      "%7 = td::max_pool(%6) {kernel_size = [3, 3]}\n"
      "output \"y\" %5\n"
      "output \"z\" %7\n",
      "input %0 \"x\": f32[1, 1, 4, 4]\n"
      "%1 = aten::relu(%0): f32[1, 1, 4, 4]\n"
      "%2 = td::max_pool(%1) {stride = [], padding = [1, 1, 1, 1], dilation = [], auto_pad = \"\", kernel_size = [3, "
      "3], ceil_mode = false, column_major_indices = false, channels_last = false}: f32[1, 1, 4, 4]\n"
      "%3 = td::max_pool(%0) {stride = [], padding = [1, 1, 0, 1], dilation = [], auto_pad = \"\", kernel_size = [3, "
      "3], ceil_mode = false, column_major_indices = false, channels_last = false}: f32[1, 1, 3, 4]\n"
      "output \"y\" %2\n"
      "output \"z\" %3\n",
      2);
}

/* Negative ones, another value, windows of zeros alone, or with gaps, or beyond the end. */
static void other_pools_stay(void **state) {
  (void)state;
  static const struct {
    const char *made, *pads, *value, *dilation, *ceil, *padded, *result;
  } cases[] = {{"tanh", "1", "0", "", "false", "7", "5, 4"},
               {"relu", "1", "0.5", "", "false", "7", "5, 4"},
               {"relu", "3", "0", "", "false", "9", "7, 4"},
               {"relu", "1", "0", "2, 2", "false", "7", "3, 2"},
               {"relu", "1", "0", "", "true", "7", "5, 4"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1024];
    snprintf(
        text, sizeof text,
        "input %%0 \"x\": f32[1, 1, 6, 6]\n"
        "const %%1: i64[8] = {0, 0, %s, 0, 0, 0, 0, 0}\n"
        "const %%2: f32[] = {%s}\n"
        "%%3 = aten::%s(%%0): f32[1, 1, 6, 6]\n"
        "%%4 = aten::constant_pad_nd(%%3, %%1, %%2): f32[1, 1, %s, 6]\n"
        "%%5 = td::max_pool(%%4) {stride = [], padding = [], dilation = [%s], auto_pad = \"\", kernel_size = [3, 3], "
        "ceil_mode = %s, column_major_indices = false, channels_last = false}: f32[1, 1, %s]\n"
        "output \"y\" %%5\n",
        cases[i].pads, cases[i].value, cases[i].made, cases[i].padded, cases[i].dilation, cases[i].ceil,
        cases[i].result);
    expect_same("padding", text);
  }
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

/* A rate of dilation beyond the image leaves the tap in the middle; one below it, and an open size, all of them. */
#define CONVOLUTION(size, weights, padding, dilation, result)                                       \
  "input %0 \"x\": f32[1, 1, " size "]\n" weights                                                   \
  "%2 = aten::convolution(%0, %1) {stride = [1, 2], padding = [" padding "], dilation = [" dilation \
  "], auto_pad = \"\", transposed = false, output_padding = [], groups = 1, "                       \
  "output_size = []}: f32[1, 1, " result "]\noutput \"y\" %2\n"
#define NINE "const %1: f32[1, 1, 3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9}\n"

static void taps_beside_a_small_image_go(void **state) {
  (void)state;
  expect_change("padding", CONVOLUTION("4, 5", NINE, "5, 4, 5, 6", "5, 4", "4, 4"),
                CONVOLUTION("4, 5", "const %1: f32[1, 1, 1, 3] = {4, 5, 6}\n", "0, 4, 0, 6", "5, 4", "4, 4"), 1);
  expect_change("padding", CONVOLUTION("4, 5", NINE, "4, 5, 4, 5", "4, 5", "4, 3"),
                CONVOLUTION("4, 5", "const %1: f32[1, 1, 1, 1] = {5}\n", "0, 0, 0, 0", "4, 5", "4, 3"), 1);
  /* what is padded is never less than nothing */
  expect_change("padding", CONVOLUTION("4, 5", NINE, "9, 1, 1, 2", "4, 3", "6, 1"),
                CONVOLUTION("4, 5", "const %1: f32[1, 1, 2, 3] = {4, 5, 6, 7, 8, 9}\n", "5, 1, 1, 2", "4, 3", "6, 1"),
                1);
  static const char below[] = CONVOLUTION("4, 5", NINE, "3, 3, 3, 3", "3, 3", "4, 3");
  expect_change("padding", below, below, 0);
  static const char open[] = CONVOLUTION("h, 5", NINE, "5, 4, 5, 4", "5, 4", "h, 3");
  expect_change("padding", open, open, 0);
  expect_same_numbers(CONVOLUTION("4, 5", NINE, "5, 4, 5, 6", "5, 4", "4, 4"));
}

/* Weights that a norm was folded into: their elements are made later. */
static void taps_of_scaled_weights_are_scaled(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[2, 2, 1, 1]\n"
      "const %1: f32[2, 1, 3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -2, -3, -4, -5, -6, -7, -8, -9}\n"
      "const %2: f32[2] = {3, -7}\nconst %3: f32[2] = {1, 2}\nconst %4: f32[2] = {4, 16}\n"
      "%5 = aten::convolution(%0, %1) {padding = [1, 1, 1, 1], groups = 2}\n"
      "%6 = aten::_native_batch_norm_legit_no_training(%5, %2, %3, %3, %4) {eps = 0}\noutput \"y\" %6\n";
  const passes_setting setting = {.isa = level_of("avx2"), .kernels = true};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0, checked = 0;
  assert_int_equal(find_pass("batchnorm")->run(graph, &setting, &changes, &err), TD_OK);
  assert_int_equal(graph->scaled.count, 1);
  assert_int_equal(find_pass("padding")->run(graph, &setting, &changes, &err), TD_OK);
  assert_int_equal(changes, 2);
  for (uint32_t n = 1; n < graph->nodes.count; n++) {
    const ir_node_def *node = &graph->nodes.at[n];
    if (!node->op) continue;
    const float *w = ir_value_of(graph, node->in[1])->info.constant->data;
    assert_true(w[0] == 7.5f && w[1] == 8.75f);
    checked++;
  }
  assert_int_equal(checked, 1);
  ir_graph_free(graph);
  base_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(taps_beside_a_small_image_go),
                                     cmocka_unit_test(taps_of_scaled_weights_are_scaled),
                                     cmocka_unit_test(zeros_become_padding),
                                     cmocka_unit_test(named_axes_are_found),
                                     cmocka_unit_test(other_pads_stay),
                                     cmocka_unit_test(least_ones_are_of_no_account),
                                     cmocka_unit_test(other_pools_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
