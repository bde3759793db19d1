/* Products with constant matrices, what moves into their epilogues, and in which order. */
#include "passes/change.h"

static void products_become_linear(void **state) {
  (void)state;
  expect_change("linear",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                "const %2: f32[1, 3] = {1, 2, 3}\n"
                "const %3: f32[4, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                "%4 = aten::matmul(%0, %1)\n"
                "%5 = td::gemm(%0, %1, %2)\n"
                "%6 = td::gemm(%5, %3) {trans_b = true}\n"
                "output \"a\" %4\noutput \"b\" %6\n",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                "const %2: f32[3] = {1, 2, 3}\n"
                "const %3: f32[4, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                "%4 = td::linear(%0, %1) {trans_w = false, n = 3, panel = 0, strassen = false, pairs = false, act = "
                "\"none\", act_a = "
                "0, act_b = 0, "
                "act_late = false, in_front = false}: f32[n, 3]\n"
                "%5 = td::linear(%0, %1, %2) {trans_w = false, n = 3, panel = 0, strassen = false, pairs = false, act "
                "= \"none\", "
                "act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[n, 3]\n"
                "%6 = td::linear(%5, %3) {trans_w = true, n = 4, panel = 0, strassen = false, pairs = false, act = "
                "\"none\", act_a = "
                "0, act_b = 0, "
                "act_late = false, in_front = false}: f32[n, 4]\n"
                "output \"a\" %4\n"
                "output \"b\" %6\n",
                3);
  expect_change("linear", /* as PyTorch's layers keep their weights, where these are too large to be turned at once */
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
                "%2 = aten::permute(%1) {dims = [1, 0]}\n"
                "%3 = aten::matmul(%0, %2)\n"
                "output \"a\" %3\n",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
                "%2 = td::linear(%0, %1) {trans_w = true, n = 3, panel = 0, strassen = false, pairs = false, act = "
                "\"none\", act_a = "
                "0, act_b = 0, "
                "act_late = false, in_front = false}: f32[n, 3]\n"
                "output \"a\" %2\n",
                1);
}

static void other_products_stay(void **state) {
  (void)state;
  uint32_t changes = 0;
  static const char *const texts[] = {
      "input %0 \"x\": f32[n, 2]\ninput %1 \"w\": f32[2, 3]\n%2 = aten::matmul(%0, %1)\noutput \"y\" %2\n",
      "input %0 \"x\": f32[2]\nconst %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n%2 = aten::matmul(%0, %1)\noutput \"y\" %2\n",
      "input %0 \"x\": f64[n, 2]\nconst %1: f64[2, 2] = {1, 2, 3, 4}\n%2 = aten::matmul(%0, %1)\noutput \"y\" %2\n",
      "input %0 \"x\": f32[n, 2]\nconst %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
      "%2 = td::gemm(%0, %1) {alpha = 2}\noutput \"y\" %2\n",
      "input %0 \"x\": f32[2, n]\nconst %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
      "%2 = td::gemm(%0, %1) {trans_a = true}\noutput \"y\" %2\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph = parse_graph(arena, texts[i], &base_libc_allocator);
    td_error err;
    assert_int_equal(find_pass("linear")->run(graph, &(passes_setting){0}, &changes, &err), TD_OK);
    assert_int_equal(changes, 0);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

/* What a batch norm leaves goes behind an activation, and in front of its own. */
static void scale_and_shift_go_in_at_once(void **state) {
  (void)state;
  expect_change("epilogue",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[2, 2] = {1, 2, 3, 4}\n"
                "const %2: f32[2] = {2, 4}\n"
                "const %3: f32[2] = {10, 20}\n"
                "%4 = td::linear(%0, %1) {n = 2}\n"
                "%5 = aten::relu(%4)\n"
                "%6 = td::scale_shift(%5, %2, %3)\n"
                "%7 = td::scale_shift(%6, %2, %3)\n"
                "output \"y\" %7\n",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[2, 2] = {1, 2, 3, 4}\n"
                "const %2: f32[2] = {4, 16}\n"
                "const %3: f32[2] = {30, 100}\n"
                "%4 = td::linear(%0, %1, -, -, %2, %3) {trans_w = false, n = 2, panel = 0, strassen = false, pairs = "
                "false, act = "
                "\"relu\", act_a = 0, act_b = 0, act_late = false, in_front = false}: f32[n, 2]\n"
                "output \"y\" %4\n",
                3);
  expect_change("epilogue",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[2, 2] = {1, 2, 3, 4}\n"
                "const %2: f32[2] = {2, 4}\n"
                "const %3: f32[2] = {10, 20}\n"
                "%4 = td::linear(%0, %1) {n = 2}\n"
                "%5 = td::scale_shift(%4, %2, %3) {act = \"relu\"}\n"
                "%6 = td::scale_shift(%5, %2, %3)\n"
                "output \"y\" %6\n",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[2, 2] = {1, 2, 3, 4}\n"
                "const %2: f32[2] = {2, 4}\n"
                "const %3: f32[2] = {10, 20}\n"
                "const %4: f32[2] = {2, 4}\n"
                "const %5: f32[2] = {10, 20}\n"
                "%6 = td::linear(%0, %1, -, -, %2, %3) {trans_w = false, n = 2, panel = 0, strassen = false, pairs = "
                "false, act = "
                "\"relu\", act_a = 0, act_b = 0, act_late = true, in_front = false}: f32[n, 2]\n"
                "%7 = td::scale_shift(%6, %4, %5) {act = \"none\"}: f32[n, 2]\n"
                "output \"y\" %7\n",
                1);
}

static void bias_and_activation_come_first(void **state) {
  (void)state;
  expect_change("epilogue",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                "const %2: f32[3] = {1, 2, 3}\n"
                "const %3: f32[] = {10}\n"
                "%4 = td::linear(%0, %1) {n = 3}\n"
                "%5 = aten::add(%4, %2)\n"
                "%6 = aten::add(%3, %5)\n"
                "%7 = aten::relu(%6)\n"
                "output \"y\" %7\n",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                "const %2: f32[3] = {11, 12, 13}\n"
                "%3 = td::linear(%0, %1, %2) {trans_w = false, n = 3, panel = 0, strassen = false, pairs = false, act "
                "= \"relu\", "
                "act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[n, 3]\n"
                "output \"y\" %3\n",
                3);
}

static void a_residual_then_scale_shift_and_activation(void **state) {
  (void)state;
  expect_change("epilogue",
                "input %0 \"x\": f32[n, 2]\n"
                "input %1 \"r\": f32[n, 3]\n"
                "const %2: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                "const %3: f32[3] = {1, 2, 3}\n"
                "const %4: f32[3] = {4, 5, 6}\n"
                "const %5: f32[] = {0}\n"
                "const %6: f32[] = {6}\n"
                "%7 = td::linear(%0, %2, %3) {n = 3}\n"
                "%8 = aten::add(%7, %1)\n"
                "%9 = aten::mul(%8, %4)\n"
                "%10 = aten::add(%9, %3)\n"
                "%11 = aten::clamp(%10, %5, %6)\n"
                "output \"y\" %11\n",
                "input %0 \"x\": f32[n, 2]\n"
                "input %1 \"r\": f32[n, 3]\n"
                "const %2: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                "const %3: f32[3] = {1, 2, 3}\n"
                "const %4: f32[3] = {4, 5, 6}\n"
                "const %5: f32[3] = {1, 2, 3}\n"
                "%6 = td::linear(%0, %2, %3, %1, %4, %5) {trans_w = false, n = 3, panel = 0, strassen = false, pairs = "
                "false, act = "
                "\"clamp\", act_a = "
                "0, act_b = 6, act_late = true, in_front = false}: f32[n, 3]\n"
                "output \"y\" %6\n",
                4);
}

static void an_activation_in_front_of_a_residual(void **state) {
  (void)state;
  expect_change("epilogue",
                "input %0 \"x\": f32[n, 2]\n"
                "input %1 \"r\": f32[n, 3]\n"
                "const %2: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                "%3 = td::linear(%0, %2) {n = 3}\n"
                "%4 = aten::gelu(%3)\n"
                "%5 = aten::add(%1, %4)\n"
                "%6 = aten::relu(%5)\n"
                "output \"y\" %6\n",
                "input %0 \"x\": f32[n, 2]\n"
                "input %1 \"r\": f32[n, 3]\n"
                "const %2: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                "%3 = td::linear(%0, %2, -, %1) {trans_w = false, n = 3, panel = 0, strassen = false, pairs = false, "
                "act = \"gelu\", "
                "act_a = 0, act_b = "
                "0, act_late = false, in_front = false}: f32[n, 3]\n"
                "%4 = aten::relu(%3): f32[n, 3]\n"
                "output \"y\" %4\n",
                2);
}

static void what_others_use_stays(void **state) {
  (void)state;
  expect_change("epilogue",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                "%2 = td::linear(%0, %1) {n = 3}\n"
                "%3 = aten::relu(%2)\n"
                "%4 = aten::add(%2, %3)\n"
                "output \"y\" %4\n",
                "input %0 \"x\": f32[n, 2]\n"
                "const %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                "%2 = td::linear(%0, %1) {trans_w = false, n = 3, panel = 0, strassen = false, pairs = false, act = "
                "\"none\", act_a = "
                "0, act_b = 0, "
                "act_late = false, in_front = false}: f32[n, 3]\n"
                "%3 = aten::relu(%2): f32[n, 3]\n"
                "%4 = aten::add(%2, %3): f32[n, 3]\n"
                "output \"y\" %4\n",
                0);
}

static void weights_are_packed_for_the_level(void **state) {
  (void)state;
  if (!machine_has("avx2")) return;
  expect_change_at(level_of("avx2"), "prepack",
                   "input %0 \"x\": f32[n, 2]\n"
                   "const %1: f32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
                   "%2 = td::linear(%0, %1) {n = 3, trans_w = true}\n"
                   "output \"y\" %2\n",
                   "input %0 \"x\": f32[n, 2]\n"
                   "const %1: f32[16] = {1, 3, 5, 0, 0, 0, 0, 0, 2, 4, 6, 0, 0, 0, 0, 0}\n"
                   "%2 = td::linear(%0, %1) {trans_w = false, n = 3, panel = 8, strassen = false, pairs = false, act = "
                   "\"none\", act_a = "
                   "0, act_b = 0, "
                   "act_late = false, in_front = false}: f32[n, 3]\n"
                   "output \"y\" %2\n",
                   1);
}

/* Rows of a channel or two, a stride apart, would leave vectors nearly empty: what is cheap goes in all the same. */
static void activations_stay_behind_short_rows(void **state) {
  (void)state;
  static const struct {
    int channels;
    const char *act;
    bool goes;
  } cases[] = {{1, "sigmoid", false}, {7, "tanh", false}, {8, "sigmoid", true}, {1, "relu", true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[768];
    uint32_t changes = 0;
    td_error err;
    base_arena *arena = base_arena_new(&base_libc_allocator);
    const int n = cases[i].channels;
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[1, 4, 4, 2]\n"
             "input %%1 \"w\": f32[2, %d, 2, 2]\n"
             "%%2 = td::conv_transpose(%%0, %%1) {kernel = [2, 2], stride = [2, 2], padding = [0, 0, 0, 0], dilation = "
             "[1, 1], groups = 1, channels = %d, panel = 0, channels_first = false, output_padding = [0, 0]}\n"
             "%%3 = aten::%s(%%2)\n"
             "output \"y\" %%3\n",
             n, n, cases[i].act);
    ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
    assert_int_equal(find_pass("epilogue")->run(graph, &(passes_setting){0}, &changes, &err), TD_OK);
    assert_int_equal(changes, cases[i].goes);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

/* A rounding to f16 that stands between a product and its activation is one with it. */
static void roundings_go_in(void **state) {
  (void)state;
#define LINEAR                                                                        \
  "input %%0 \"x\": f32[n, 2]\nconst %%1: f32[2, 2] = {1, 2, 3, 4}\n"                 \
  "%%2 = td::linear(%%0, %%1) {trans_w = false, n = 2, panel = 0, strassen = false, " \
  "pairs = false, act = "
  static const char *const rows[][2] = {{"relu", "\"clamp_f16\", act_a = 0, act_b = inf"},
                                        {"silu", "\"silu_f16\", act_a = 0, act_b = 0"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char before[1024], after[1024];
    snprintf(before, sizeof before,
             LINEAR
             "\"none\"}\n%%3 = aten::_to_copy(%%2) {dtype = f16}\n"
             "%%4 = aten::_to_copy(%%3) {dtype = f32}\n%%5 = aten::%s(%%4)\noutput \"y\" %%5\n",
             rows[i][0]);
    snprintf(after, sizeof after, LINEAR "%s, act_late = false, in_front = false}: f32[n, 2]\noutput \"y\" %%2\n",
             rows[i][1]);
    expect_change("epilogue", before, after, 2);
  }
#undef LINEAR
}

static void norms_take_an_activation(void **state) {
  (void)state;
  static const char model[] =
      "input %0 \"x\": f32[n, 4, 3]\n"
      "%1 = aten::native_group_norm(%0) {num_groups = 2}\n"
      "%2 = aten::leaky_relu(%1) {negative_slope = 0.25}\n"
      "output \"y\" %2\n";
  expect_change_at(
      level_of("avx2"), "epilogue", model,
      "input %0 \"x\": f32[n, 4, 3]\n"
      "%1 = aten::native_group_norm(%0) {num_groups = 2, eps = 1.0000000000000001e-05, channels_last = false, "
      "act = \"leaky_relu\", act_a = 0.25, act_b = 0}: f32[n, 4, 3]\n"
      "output \"y\" %1\n",
      1);
  uint32_t changes = 0;
  static const char *const texts[] = {
      "input %0 \"x\": f64[n, 4, 3]\n%1 = aten::native_group_norm(%0)\n%2 = aten::relu(%1)\noutput \"y\" %2\n",
      "input %0 \"x\": f32[n, 4, 3]\n%1 = aten::native_group_norm(%0)\n%2 = aten::relu(%1)\n"
      "output \"y\" %2\noutput \"z\" %1\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph = parse_graph(arena, texts[i], &base_libc_allocator);
    td_error err;
    const passes_setting setting = {.isa = level_of("avx2")};
    assert_int_equal(find_pass("epilogue")->run(graph, &setting, &changes, &err), TD_OK);
    assert_int_equal(changes, 0);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(norms_take_an_activation),
      cmocka_unit_test(products_become_linear),
      cmocka_unit_test(other_products_stay),
      cmocka_unit_test(scale_and_shift_go_in_at_once),
      cmocka_unit_test(bias_and_activation_come_first),
      cmocka_unit_test(a_residual_then_scale_shift_and_activation),
      cmocka_unit_test(an_activation_in_front_of_a_residual),
      cmocka_unit_test(what_others_use_stays),
      cmocka_unit_test(weights_are_packed_for_the_level),
      cmocka_unit_test(roundings_go_in),
      cmocka_unit_test(activations_stay_behind_short_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
