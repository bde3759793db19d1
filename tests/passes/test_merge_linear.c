/* Products that give one attention its queries, keys and values, in panels of AVX2. */
#include "passes/numbers.h"

#define X                                                                                  \
  "input %0 \"x\": f32[2, 3, 2]\n"                                                         \
  "input %1 \"other\": f32[2, 3, 2]\n"                                                     \
  "const %2: f32[2, 8] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}\n"        \
  "const %3: f32[8, 2] = {0.5, -1, 2, -0.25, 1.5, -3, 0.75, -2, 1, 2, 3, 4, 5, 6, 7, 8}\n" \
  "const %4: f32[8] = {0.5, 1, -1, 2, 0.25, -2, 4, -0.5}\n"
#define SPLIT " {dim = 2, sizes = [2, 4]}\n"

static const char three[] = X
    "%5 = td::linear(%0, %2) {n = 8}\n"
    "%6 = td::linear(%0, %3, %4) {n = 8, trans_w = true}\n"
    "%7 = td::linear(%0, %2, %4, -, %4, %4) {n = 8}\n"
    "%8 = aten::unflatten(%5)" SPLIT "%9 = aten::unflatten(%6)" SPLIT "%10 = aten::unflatten(%7)" SPLIT
    "%11 = td::attention(%8, %9, %10) {scale = 0.5}\noutput \"y\" %11\n";

static const char two[] = X
    "%5 = td::linear(%1, %2) {n = 8}\n"
    "%6 = td::linear(%0, %2) {n = 8}\n"
    "%7 = td::linear(%0, %3) {n = 8, trans_w = true}\n"
    "%8 = aten::unflatten(%5)" SPLIT "%9 = aten::unflatten(%6)" SPLIT "%10 = aten::unflatten(%7)" SPLIT
    "%11 = td::attention(%8, %9, %10) {scale = 0.5}\noutput \"y\" %11\n";

static void three_parts_become_one(void **state) {
  (void)state;
  if (!machine_has("avx2")) return;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, three, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  if (find_pass("merge_linear")->run(graph, &(passes_setting){.isa = level_of("avx2")}, &changes, &err) != TD_OK ||
      ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  assert_int_equal(changes, 3);
  base_text text = {.allocator = &base_libc_allocator};
  assert_int_equal(ir_print(graph, &text), TD_OK);
  const char *product = strstr(text.at, "%13 = td::linear(%0, %2, %3) {trans_w = false, n = 24, panel = 8");
  if (!product || count_of(text.at, "td::linear") != 1 || count_of(text.at, "aten::slice(%13, ") != 3 ||
      !strstr(
          text.at,
          "const %2: f32[48] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0.5, 2, 1.5, 0.75, 1, 3, 5, 7, "
          "-1, -0.25, -3, -2, 2, 4, 6, 8, 0.5, 2, -3, 8, 1.25, -12, 28, -4, 4.5, 10, -11, 24, 3.25, -28, 60, -8}\n") ||
      !strstr(text.at,
              "const %3: f32[24] = {0, 0, 0, 0, 0, 0, 0, 0, 0.5, 1, -1, 2, 0.25, -2, 4, -0.5, 0.75, 2, 0, 6, "
              "0.3125, 2, 20, -0.25}\n"))
    fail_msg("%s", text.at);
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void numbers_stay(void **state) {
  (void)state;
  expect_same_numbers(three);
  expect_same_numbers(two);
}

static uint32_t changes_of(const char *text) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  assert_int_equal(find_pass("merge_linear")->run(graph, &(passes_setting){.isa = level_of("avx2")}, &changes, &err),
                   TD_OK);
  ir_graph_free(graph);
  base_arena_free(arena);
  return changes;
}

static void others_stay(void **state) {
  (void)state;
  if (!machine_has("avx2")) return;
  assert_int_equal(changes_of(two), 2);
  /* an output of its own, an activation, one input each */
  assert_int_equal(
      changes_of(X "%5 = td::linear(%0, %2) {n = 8}\n%6 = td::linear(%0, %2) {n = 8, act = \"relu\"}\n"
                   "%8 = aten::unflatten(%5)" SPLIT "%9 = aten::unflatten(%6)" SPLIT "%10 = aten::unflatten(%6)" SPLIT
                   "%11 = td::attention(%8, %9, %10)\noutput \"y\" %11\noutput \"k\" %5\n"),
      0);
  assert_int_equal(changes_of(X "%5 = td::linear(%0, %2) {n = 8}\n%6 = td::linear(%1, %2) {n = 8}\n"
                                "%8 = aten::unflatten(%5)" SPLIT "%9 = aten::unflatten(%6)" SPLIT
                                "%11 = td::attention(%8, %9, %9)\noutput \"y\" %11\n"),
                   0);
}

static void two_products_become_one(void **state) {
  (void)state;
  if (!machine_has("avx2")) return;
  expect_change_with(&(passes_setting){.isa = level_of("avx2")}, "merge_linear", two,
                     "input %0 \"x\": f32[2, 3, 2]\n"
                     "input %1 \"other\": f32[2, 3, 2]\n"
                     "const %2: f32[2, 8] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}\n"
                     "const %3: f32[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0.5, 2, 1.5, 0.75, "
                     "1, 3, 5, 7, -1, -0.25, -3, -2, 2, 4, 6, 8}\n"
                     "const %4: i64[1] = {0}\n"
                     "const %5: i64[1] = {8}\n"
                     "const %6: i64[1] = {2}\n"
                     "const %7: i64[1] = {8}\n"
                     "const %8: i64[1] = {16}\n"
                     "const %9: i64[1] = {2}\n"
                     "%10 = td::linear(%1, %2) {trans_w = false, n = 8, panel = 0, strassen = false, pairs = false, "
                     "act = \"none\", act_a = 0, act_b = 0, act_late = false, in_front = false}: f32[2, 3, 8]\n"
                     "%11 = td::linear(%0, %3) {trans_w = false, n = 16, panel = 8, strassen = false, pairs = false, "
                     "act = \"none\", act_a = 0, act_b = 0, act_late = false, in_front = false}: f32[2, 3, 16]\n"
                     "%12 = aten::slice(%11, %4, %5, %6): f32[2, 3, 8]\n"
                     "%13 = aten::slice(%11, %7, %8, %9): f32[2, 3, 8]\n"
                     "%14 = aten::unflatten(%10) {dim = 2, sizes = [2, 4]}: f32[2, 3, 2, 4]\n"
                     "%15 = aten::unflatten(%12) {dim = 2, sizes = [2, 4]}: f32[2, 3, 2, 4]\n"
                     "%16 = aten::unflatten(%13) {dim = 2, sizes = [2, 4]}: f32[2, 3, 2, 4]\n"
                     "%17 = td::attention(%14, %15, %16) {scale = 0.5, causal = false, safe = 0, replaces = 0, pairs = "
                     "false, left = -1, softcap = 0}: f32[2, 3, 2, 4]\n"
                     "output \"y\" %17\n",
                     2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(three_parts_become_one),
      cmocka_unit_test(numbers_stay),
      cmocka_unit_test(others_stay),
      cmocka_unit_test(two_products_become_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
