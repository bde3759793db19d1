/* test_cut.c -- parts of graphs. */
#include "debug/debug.h"
#include "runtime/harness.h"

/* Every dimension of the size becomes smaller, of constants of any rank, and nothing else of them. */
static void sizes_of_constants_shrink(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena,
                                "input %0 \"x\": f32[2, 1, 1, 1, 1, 1, 1, 4]\n"
                                "const %1: f32[2, 1, 1, 1, 1, 1, 1, 4] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
                                "const %2: f32[4] = {1, 2, 3, 4}\n"
                                "%3 = aten::mul(%0, %1)\n"
                                "%4 = aten::add(%3, %2)\n"
                                "output \"y\" %4\n",
                                &base_libc_allocator);
  td_cut cut = {.size = sizeof cut, .size_from = 4, .size_to = 3};
  base_text text = {.allocator = &base_libc_allocator};
  td_error err = {0};
  if (debug_cut(graph, &cut, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(ir_print(graph, &text), TD_OK);
  assert_string_equal(text.at,
                      "input %0 \"x\": f32[2, 1, 1, 1, 1, 1, 1, 3]\n"
                      "const %1: f32[2, 1, 1, 1, 1, 1, 1, 3] = {1, 2, 3, 5, 6, 7}\n"
                      "const %2: f32[3] = {1, 2, 3}\n"
                      "%3 = aten::mul(%0, %1): f32[2, 1, 1, 1, 1, 1, 1, 3]\n"
                      "%4 = aten::add(%3, %2): f32[2, 1, 1, 1, 1, 1, 1, 3]\n"
                      "output \"y\" %4\n");
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_of_constants_shrink)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
