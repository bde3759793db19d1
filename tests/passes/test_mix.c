/* Products of what is turned and turned back: which get their weights in front, and which stay. */
#include "passes/change.h"

#define HEAD                        \
  "input %0 \"x\": f32[n, 3, 16]\n" \
  "const %1: f32[3, 2] = {1, 2, 3, 4, 5, 6}\n"

static void tokens_are_mixed(void **state) {
  (void)state;
  expect_change("mix",
                HEAD
                "const %2: f32[2] = {7, 8}\n"
                "%3 = aten::relu(%0)\n"
                "%4 = aten::permute(%3) {dims = [0, 2, 1]}\n"
                "%5 = td::linear(%4, %1) {n = 2}\n"
                "%6 = aten::add(%2, %5)\n"
                "%7 = aten::gelu(%6)\n"
                "%8 = aten::permute(%7) {dims = [0, 2, 1]}\n"
                "output \"y\" %8\n",
                "input %0 \"x\": f32[n, 3, 16]\n"
                "const %1: f32[2, 3] = {1, 3, 5, 2, 4, 6}\n"
                "const %2: f32[2, 1] = {7, 8}\n"
                "%3 = aten::relu(%0): f32[n, 3, 16]\n"
                "%4 = td::mix(%1, %3): f32[n, 2, 16]\n"
                "%5 = aten::add(%2, %4): f32[n, 2, 16]\n"
                "%6 = aten::gelu(%5) {approximate = \"none\"}: f32[n, 2, 16]\n"
                "output \"y\" %6\n",
                1);
}

static void two_layers_of_tokens(void **state) {
  (void)state;
  expect_change("mix",
                HEAD
                "const %2: f32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
                "const %3: f32[3] = {7, 8, 9}\n"
                "%4 = aten::relu(%0)\n"
                "%5 = aten::permute(%4) {dims = [0, 2, 1]}\n"
                "%6 = td::linear(%5, %1) {n = 2}\n"
                "%7 = aten::relu(%6)\n"
                "%8 = td::linear(%7, %2, %3) {n = 3, trans_w = true}\n"
                "%9 = aten::permute(%8) {dims = [0, -1, 1]}\n"
                "output \"y\" %9\n",
                "input %0 \"x\": f32[n, 3, 16]\n"
                "const %1: f32[2, 3] = {1, 3, 5, 2, 4, 6}\n"
                "const %2: f32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
                "const %3: f32[3, 1] = {7, 8, 9}\n"
                "%4 = aten::relu(%0): f32[n, 3, 16]\n"
                "%5 = td::mix(%1, %4): f32[n, 2, 16]\n"
                "%6 = aten::relu(%5): f32[n, 2, 16]\n"
                "%7 = td::mix(%2, %6): f32[n, 3, 16]\n"
                "%8 = aten::add(%7, %3): f32[n, 3, 16]\n"
                "output \"y\" %8\n",
                1);
}

/* An image that stands channels first; what others use on the way; another order; few columns. */
static void others_stay(void **state) {
  (void)state;
#define LINEAR                                                                                                  \
  "{trans_w = false, n = 2, panel = 0, strassen = false, pairs = false, act = \"none\", act_a = 0, act_b = 0, " \
  "act_late = false, "                                                                                          \
  "in_front = false}"
#define TOKENS                                                 \
  "const %1: f32[3, 2] = {1, 2, 3, 4, 5, 6}\n"                 \
  "%2 = aten::relu(%0): f32[2, 3, 16]\n"                       \
  "%3 = aten::permute(%2) {dims = [0, 2, 1]}: f32[2, 16, 3]\n" \
  "%4 = td::linear(%3, %1) " LINEAR ": f32[2, 16, 2]\n"
  expect_same("mix",
              "input %0 \"x\": f32[2, 3, 4, 4]\n"
              "const %1: i64[3] = {2, 3, 16}\n"
              "const %2: f32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
              "%3 = aten::view(%0, %1) {zero_copies = false}: f32[2, 3, 16]\n"
              "%4 = aten::permute(%3) {dims = [0, 2, 1]}: f32[2, 16, 3]\n"
              "%5 = td::linear(%4, %2) " LINEAR
              ": f32[2, 16, 2]\n"
              "%6 = aten::permute(%5) {dims = [0, 2, 1]}: f32[2, 2, 16]\n"
              "output \"y\" %6\n");
  expect_same("mix", "input %0 \"x\": f32[2, 3, 16]\n" TOKENS
                     "%5 = aten::permute(%4) {dims = [0, 2, 1]}: f32[2, 2, 16]\n"
                     "output \"y\" %5\noutput \"z\" %4\n");
  expect_same("mix", "input %0 \"x\": f32[2, 3, 16]\n" TOKENS
                     "%5 = aten::permute(%4) {dims = [1, 2, 0]}: f32[16, 2, 2]\n"
                     "output \"y\" %5\n");
}

/* Sizes that do not fit are named as they are. */
static void sizes_are_named(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"w\": f32[5, 4]\ninput %1 \"x\": f32[2, 3, 7]\n%2 = td::mix(%0, %1)\noutput \"y\" %2\n";
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = NULL;
  td_error err = {0};
  assert_int_not_equal(ir_parse(&base_libc_allocator, ops_set(arena), text, sizeof text - 1, NULL, 0, &graph, &err),
                       TD_OK);
  if (!strstr(err.text, "weights have 4 columns, x has 3 rows")) fail_msg("%s", err.text);
  base_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_are_mixed), cmocka_unit_test(two_layers_of_tokens),
                                     cmocka_unit_test(others_stay), cmocka_unit_test(sizes_are_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
