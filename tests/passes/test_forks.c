/* Tasks that are too small for a thread: they run where they are forked; what is large, unknown or may fail stays. */
#include "passes/change.h"

static void small_ones_go(void **state) {
  (void)state;
  expect_change("forks",
                "input %0 \"x\": f32[4]\n"
                "%1 = prim::fork(): future(tuple(f32[4], f32[4])) {\n"
                "  block() {\n"
                "    %2 = aten::neg(%0)\n"
                "    %3 = prim::fork(): future(f32[4]) {\n"
                "      block() {\n"
                "        %4 = aten::abs(%2)\n"
                "        yield %4\n"
                "      }\n"
                "    }\n"
                "    %5 = prim::wait(%3)\n"
                "    yield %2, %5\n"
                "  }\n"
                "}\n"
                "%6 = prim::wait(%1)\n"
                "%7 = td::tuple_at(%6) {index = 1}\n"
                "%8 = prim::wait(%1)\n"
                "%9 = td::tuple_at(%8) {index = 0}\n"
                "%10 = aten::add(%7, %9)\n"
                "output \"y\" %10\n",
                "input %0 \"x\": f32[4]\n"
                "%1 = aten::neg(%0): f32[4]\n"
                "%2 = aten::abs(%1): f32[4]\n"
                "%3 = aten::add(%2, %1): f32[4]\n"
                "output \"y\" %3\n",
                5);
}

/* A list of futures of a loop becomes a list of what they give. */
static void small_ones_go_from_lists(void **state) {
  (void)state;
  expect_change("forks",
                "input %0 \"n\": i64[]\n"
                "input %1 \"x\": f32[2]\n"
                "const %2: bool[] = {1}\n"
                "%3 = td::list_new()\n"
                "%4 = prim::Loop(%0, -, %3): list(future(f32[2])) {\n"
                "  block(%5: i64[], %6: list(future(f32[2]))) {\n"
                "    %7 = prim::fork(): future(f32[2]) {\n"
                "      block() {\n"
                "        %8 = aten::neg(%1)\n"
                "        yield %8\n"
                "      }\n"
                "    }\n"
                "    %9 = aten::append(%6, %7)\n"
                "    yield %2, %9\n"
                "  }\n"
                "}\n"
                "%10 = td::list_at(%4, %0)\n"
                "%11 = prim::wait(%10)\n"
                "output \"y\" %11\n",
                "input %0 \"n\": i64[]\n"
                "input %1 \"x\": f32[2]\n"
                "const %2: bool[] = {1}\n"
                "%3 = td::list_new(): list(invalid[...])\n"
                "%4 = prim::Loop(%0, -, %3): list(f32[2]) {\n"
                "  block(%5: i64[], %6: list(f32[2])) {\n"
                "    %7 = aten::neg(%1): f32[2]\n"
                "    %8 = aten::append(%6, %7): list(f32[2])\n"
                "    yield %2, %8\n"
                "  }\n"
                "}\n"
                "%9 = td::list_at(%4, %0): f32[2]\n"
                "output \"y\" %9\n",
                2);
}

#define ONE_TASK(type, op, result)  \
  "%1 = prim::fork(): future(" type \
  ") {\n"                           \
  "  block() {\n"                   \
  "    %2 = " op "(%0): " result    \
  "\n"                              \
  "    yield %2\n"                  \
  "  }\n"                           \
  "}\n"

static void what_stays(void **state) {
  (void)state;
  expect_same("forks", "input %0 \"x\": f32[4096, 4096]\n" ONE_TASK("f32[4096, 4096]", "aten::exp", "f32[4096, 4096]")
                       "%3 = prim::wait(%1): f32[4096, 4096]\n"
                       "output \"y\" %3\n");
  expect_same("forks", "input %0 \"x\": f32[n]\n" ONE_TASK("f32[n]", "aten::exp", "f32[n]")
                       "%3 = prim::wait(%1): f32[n]\n"
                       "output \"y\" %3\n");
  /* waited for only in a branch: an error of the task might come out without it */
  expect_same("forks",
              "input %0 \"x\": f32[4]\n"
              "input %1 \"c\": bool[]\n"
              "%2 = prim::fork(): future(bool[]) {\n"
              "  block() {\n"
              "    %3 = prim::RaiseException() {message = \"no\"}: bool[]\n"
              "    yield %3\n"
              "  }\n"
              "}\n"
              "%4 = prim::If(%1): bool[] {\n"
              "  block() {\n"
              "    %5 = prim::wait(%2): bool[]\n"
              "    yield %5\n"
              "  }\n"
              "  block() {\n"
              "    yield %1\n"
              "  }\n"
              "}\n"
              "output \"y\" %4\n");
}

/* A machine whose steps take a millisecond had better hand even a small task over. */
static void machines_differ(void **state) {
  (void)state;
  base_speed slow = base_speed_default;
  slow.step_ns = 1e6;
  const base_speed *const speeds[] = {NULL, &base_speed_default, &slow};
  for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
    const passes_setting setting = {.speed = speeds[i]};
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph = parse_graph(arena,
                                  "input %0 \"x\": f32[4]\n" ONE_TASK("f32[4]", "aten::exp", "f32[4]")
                                  "%3 = prim::wait(%1): f32[4]\n"
                                  "output \"y\" %3\n",
                                  &base_libc_allocator);
    uint32_t changes = 0;
    td_error err;
    assert_int_equal(find_pass("forks")->run(graph, &setting, &changes, &err), TD_OK);
    assert_int_equal(changes > 0, speeds[i] != &slow);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_ones_go),
      cmocka_unit_test(small_ones_go_from_lists),
      cmocka_unit_test(what_stays),
      cmocka_unit_test(machines_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
