/* Group norms that are written over a view. */
#include "passes/numbers.h"

static void a_spelt_norm_becomes_one(void **state) {
  (void)state;
  expect_change("group_norm",
                "input %0 \"x\": f32[2, 6, 4, 5]\n"
                "const %1: i64[3] = {2, 3, -1}\n"
                "const %2: f32[3] = {1, 1, 1}\n"
                "const %3: f32[3] = {0, 0, 0}\n"
                "const %4: f32[6, 1, 1] = {1, 2, 3, 4, 5, 6}\n"
                "const %5: f32[1, 6, 1, 1] = {6, 5, 4, 3, 2, 1}\n"
                "const %6: i64[4] = {2, 6, 4, 5}\n"
                "%7 = aten::view(%0, %1)\n"
                "%8 = aten::native_group_norm(%7, %2, %3) {num_groups = 0, eps = 0.5}\n"
                "%9 = aten::view(%8, %6)\n"
                "%10 = aten::mul(%9, %4)\n"
                "%11 = aten::add(%5, %10)\n"
                "output \"y\" %11\n",
                "input %0 \"x\": f32[2, 6, 4, 5]\n"
                "const %1: f32[6] = {1, 2, 3, 4, 5, 6}\n"
                "const %2: f32[6] = {6, 5, 4, 3, 2, 1}\n"
                "%3 = aten::native_group_norm(%0, %1, %2) {num_groups = 3, eps = 0.5, channels_last = false}: "
                "f32[2, 6, 4, 5]\n"
                "output \"y\" %3\n",
                3);
}

/* x of two samples, its parts and the norm over them with these operands, and how it is shown as x again. */
#define SPELT(parts, norm, shape)                                                                 \
  "input %0 \"x\": f32[2, 6, 4, 5]\n"                                                             \
  "const %1: i64[3] = {" parts                                                                    \
  "}\nconst %2: f32[3] = {1, 1, 1}\nconst %3: f32[3] = {0, 0, 0}\nconst %4: f32[3] = {1, 2, 1}\n" \
  "const %5: i64[4] = {" shape                                                                    \
  "}\nconst %6: f32[6, 1, 1] = {1, 2, 3, 4, 5, 6}\n%7 = aten::view(%0, "                          \
  "%1)\n%8 = aten::native_group_norm(%7" norm "}\n%9 = aten::view(%8, %5)\n"

static void numbers_stay(void **state) {
  (void)state;
  expect_same_numbers(SPELT(
      "2, 3, -1", ") {eps = 0.01",
      "2, 6, 4, 5") "%10 = aten::mul(%9, %6)\n%11 = aten::add(%10, "
                    "%6)\noutput \"y\" %11\n");
  expect_same_numbers(SPELT(
      "2, 3, -1", ", %2, %3) {eps = 0.01",
      "2, 6, 4, 5") "%10 = aten::add(%9, %6)\noutput \"y\" "
                    "%10\n");
}

/* How many nodes the pass changes. */
static void expect_changes(const char *text, uint32_t expected) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  const passes_setting setting = {0};
  if (find_pass("group_norm")->run(graph, &setting, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  assert_int_equal(changes, expected);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void others_stay(void **state) {
  (void)state;
  expect_changes(SPELT("2, 3, -1", ") {eps = 0.5", "2, 6, 4, 5") "output \"y\" %9\n", 1);
  expect_changes(SPELT("2, 3, -1", ") {num_groups = 3, eps = 0.5", "2, 6, 4, 5") "output \"y\" %9\n", 1);
  /* its own weights; groups of its parts; another shape; samples that are parts; another reader */
  expect_changes(SPELT("2, 3, -1", ", %4) {eps = 0.5", "2, 6, 4, 5") "output \"y\" %9\n", 0);
  expect_changes(SPELT("2, 3, -1", ", %2, %4) {eps = 0.5", "2, 6, 4, 5") "output \"y\" %9\n", 0);
  expect_changes(SPELT("2, 3, -1", ") {num_groups = 1, eps = 0.5", "2, 6, 4, 5") "output \"y\" %9\n", 0);
  expect_changes(SPELT("2, 3, -1", ") {eps = 0.5", "2, 6, 5, 4") "output \"y\" %9\n", 0);
  expect_changes(SPELT("1, 6, -1", ") {eps = 0.5", "2, 6, 4, 5") "output \"y\" %9\n", 0);
  expect_changes(SPELT("2, 4, -1", ") {eps = 0.5", "2, 6, 4, 5") "output \"y\" %9\n", 0);
  expect_changes(SPELT("2, 3, -1", ") {eps = 0.5", "2, 6, 4, 5") "output \"y\" %9\noutput \"z\" %8\n", 0);
  /* vectors of another axis; a sum in front of the product; a product of two norms */
  expect_changes(
      "input %0 \"x\": f32[2, 6, 6, 6]\nconst %1: f32[6, 1] = {1, 2, 3, 4, 5, 6}\n"
      "%2 = aten::native_group_norm(%0)\n%3 = aten::mul(%2, %1)\noutput \"y\" %3\n",
      0);
  expect_changes(
      "input %0 \"x\": f32[2, 6, 6, 6]\nconst %1: f32[6, 1, 1] = {1, 2, 3, 4, 5, 6}\n"
      "%2 = aten::native_group_norm(%0)\n%3 = aten::add(%2, %1)\n%4 = aten::mul(%3, %1)\noutput \"y\" %4\n",
      1);
  expect_changes(
      "input %0 \"x\": f32[2, 6, 6, 6]\n%1 = aten::native_group_norm(%0)\n%2 = aten::mul(%1, %1)\n"
      "output \"y\" %2\n",
      0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_spelt_norm_becomes_one), cmocka_unit_test(numbers_stay),
                                     cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
