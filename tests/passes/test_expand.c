/* Expansions that only a depthwise convolution reads, with panels of eight columns. */
#include "passes/change.h"

#define INPUT "input %0 \"x\": f32[n, 40, 40, 1]\n"
#define WEIGHTS                 \
  "input %1 \"w\": f32[16]\n"   \
  "input %2 \"bias\": f32[9]\n" \
  "input %3 \"window\": f32[9, 9]\n"
#define EXPANSION "%4 = td::conv(%0, %1, %2) {kernel = [1, 1], channels = 9, panel = 8, act = \"relu\"}\n"
#define WINDOW(stride)                                                  \
  "%5 = td::depthwise_conv(%4, %3) {kernel = [3, 3], stride = [" stride \
  "], padding = [1, 1, 1, 1], groups = 9, "                             \
  "channels = 9, panel = 1, act = \"clamp\", act_b = 6}\n"

static void an_expansion_is_made_where_it_is_read(void **state) {
  (void)state;
  expect_change_at(level_of("avx2"), "expand", INPUT WEIGHTS EXPANSION WINDOW("2, 2") "output \"y\" %5\n",
                   INPUT WEIGHTS
                   "%4 = td::expand_depthwise(%0, %3, -, -, -, -, %1, %2) {kernel = [3, 3], stride = [2, 2], padding = "
                   "[1, 1, 1, 1], dilation = [], groups = 1, channels = 9, panel = 8, channels_first = false, "
                   "expand_act = \"relu\", expand_act_a = 0, expand_act_b = 0, expand_kernel = [], expand_stride = [], "
                   "expand_padding = [], act = \"clamp\", act_a = 0, act_b = 6, act_late = "
                   "false, in_front = false}: f32[n, 20, 20, 9]\n"
                   "output \"y\" %4\n",
                   1);
}

#define PLANES                            \
  "input %0 \"x\": f32[n, 1, 130, 130]\n" \
  "input %1 \"w\": f32[64]\n"             \
  "input %2 \"window\": f32[9, 9]\n"

/* A first layer, of planes: its window becomes the expansion's. */
static void a_first_layer_is_made_where_it_is_read(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx2"), "expand",
      PLANES
      "%3 = td::conv(%0, %1) {kernel = [2, 2], stride = [2, 2], channels = 9, panel = 8, channels_first = true}\n"
      "%4 = td::depthwise_conv(%3, %2) {kernel = [3, 3], padding = [1, 1, 1, 1], groups = 9, channels = 9, panel = 1}\n"
      "output \"y\" %4\n",
      PLANES
      "%3 = td::expand_depthwise(%0, %2, -, -, -, -, %1) {kernel = [3, 3], stride = [], padding = [1, 1, 1, 1], "
      "dilation = [], groups = 1, channels = 9, panel = 8, channels_first = false, expand_act = \"none\", expand_act_a "
      "= 0, expand_act_b = 0, expand_kernel = [2, 2], expand_stride = [2, 2], expand_padding = [], act = \"none\", "
      "act_a = 0, act_b = 0, act_late = false, in_front = false}: f32[n, 65, 65, 9]\n"
      "output \"y\" %3\n",
      1);
}

static void expect_changes(uint32_t isa, const char *text, uint32_t expected) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  assert_int_equal(find_pass("expand")->run(graph, &(passes_setting){.isa = isa}, &changes, &err), TD_OK);
  assert_int_equal(changes, expected);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void expect_none(uint32_t isa, const char *text) { expect_changes(isa, text, 0); }

/* Weights that are pairs of bf16, where a kernel takes them; not those of tiles. */
static void pairs_are_too(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[n, 40, 40, 32]\n"
      "input %1 \"w\": bf16[512]\n"
      "input %2 \"window\": f32[9, 16]\n"
      "%3 = td::conv(%0, %1) {kernel = [1, 1], channels = 16, panel = 16}\n"
      "%4 = td::depthwise_conv(%3, %2) {kernel = [3, 3], padding = [1, 1, 1, 1], groups = 16, "
      "channels = 16, panel = 1}\n"
      "output \"y\" %4\n";
  expect_changes(level_of("avx512_bf16"), text, 1);
  expect_none(level_of("avx512_bf16") | level_of("avx512_amx"), text);
  expect_changes(level_of("avx512"), text, has_pairs("avx512"));
}

/* As those of usual pictures. */
static void images_of_open_sizes_are_too(void **state) {
  (void)state;
  expect_changes(level_of("avx2"),
                 "input %0 \"x\": f32[n, h, w, 1]\n" WEIGHTS EXPANSION WINDOW("1, 1") "output \"y\" %5\n", 1);
}

static void others_stay(void **state) {
  (void)state;
  /* somebody else reads it; a window without a kernel; a residual; a level without kernels */
  expect_none(level_of("avx2"), INPUT WEIGHTS EXPANSION WINDOW("1, 1") "output \"y\" %5\noutput \"z\" %4\n");
  expect_none(level_of("avx2"), INPUT WEIGHTS EXPANSION WINDOW("3, 3") "output \"y\" %5\n");
  expect_none(
      level_of("avx2"), INPUT WEIGHTS
      "input %6 \"r\": f32[n, 40, 40, 9]\n"
      "%4 = td::conv(%0, %1, %2, %6) {kernel = [1, 1], channels = 9, panel = 8}\n" WINDOW("1, 1") "output \"y\" %5\n");
  expect_none(0, INPUT WEIGHTS EXPANSION WINDOW("1, 1") "output \"y\" %5\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_expansion_is_made_where_it_is_read), cmocka_unit_test(a_first_layer_is_made_where_it_is_read),
      cmocka_unit_test(pairs_are_too), cmocka_unit_test(images_of_open_sizes_are_too), cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
