/* test_texts.c -- the passes that make loops, and move them into products, by the text before and after. Numbers of a
 * loop's program change with the list of functions: its own text stands for them. */
#include "passes/change.h"

static const passes_setting setting = {.isa = BASE_ISA_VECTOR, .fuse = {.isa = BASE_ISA_VECTOR, .compiled = true}};

static void run_pass(ir_graph *graph, const char *name, uint32_t expected) {
  td_error err;
  for (int again = 0; again < 2; again++) {
    uint32_t changes = 0;
    if (find_pass(name)->run(graph, &setting, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
      fail_msg("%s", err.text);
    assert_int_equal(changes, again ? 0 : expected);
  }
}

/* Cuts the numbers out of the lists that loops have as attributes. */
static void cut_programs(char *text) {
  for (char *at = text; (at = strstr(at, " = [")); at++) {
    const bool is_loop = at - text >= 7 && (memcmp(at - 7, "program", 7) == 0 || memcmp(at - 5, " from", 5) == 0 ||
                                            memcmp(at - 5, "chain", 5) == 0);
    char *end = strchr(at, ']');
    if (is_loop) memmove(at + 4, end, strlen(end) + 1);
  }
}

static void expect_text(const char *made, const char *wanted) {
  if (strcmp(made, wanted) == 0) return;
  fprintf(stderr, "gives:\n%s---\nnot:\n%s---\n", made, wanted);
  fail_msg("another text came out");
}

/* The passes (second NULL: one) turn `before` into `after`, with these loops; both mean the same. */
static void expect_loops(const char *first, const char *second, const char *before, const char *after,
                         const char *loops) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, before, &base_libc_allocator);
  base_text text = {.allocator = &base_libc_allocator}, own = {.allocator = &base_libc_allocator};
  td_error err;
  run_pass(graph, first, 1);
  if (second) run_pass(graph, second, 1);
  assert_int_equal(ir_print(graph, &text), TD_OK);
  expect_same_meaning(before, text.at);
  cut_programs(text.at);
  expect_text(text.at, after);
  assert_int_equal(fuse_print(graph, &setting.fuse, &own, &err), TD_OK);
  expect_text(own.at, loops);
  base_text_free(&own);
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void operators_become_a_loop(void **state) {
  (void)state;
  expect_loops("fuse", NULL,
               "input %0 \"x\": f32[n, 37]\n"
               "input %1 \"w\": f32[37]\n"
               "%2 = aten::mul(%0, %1)\n"
               "%3 = aten::neg(%2)\n"
               "output \"y\" %3\n",
               "input %0 \"x\": f32[n, 37]\n"
               "input %1 \"w\": f32[37]\n"
               "%2 = td::fused(%0, %1) {program = [], from = []}: f32[n, 37]\n"
               "output \"y\" %2\n",
               "# loop 0: \n"
               "#   operand 0: f32[n, 37] \"x\"\n"
               "#   operand 1: f32[37] \"w\"\n"
               "#   result 0: f32[n, 37]\n"
               "fused rank 2 row 0 {\n"
               "  %0 = load 0\n"
               "  %1 = load 1\n"
               "  %2 = mul(%0, %1)\n"
               "  %3 = neg(%2)\n"
               "  store 0 %3 f32\n"
               "}\n");
}

static void a_loop_moves_into_its_product(void **state) {
  (void)state;
  expect_loops(
      "fuse", "chain",
      "input %0 \"x\": f32[4, 8]\n"
      "input %1 \"w\": f32[8, 4]\n"
      "input %2 \"v\": f32[4]\n"
      "%3 = td::linear(%0, %1) {n = 4}\n"
      "%4 = aten::mul(%3, %2)\n"
      "%5 = aten::neg(%4)\n"
      "output \"y\" %5\n",
      "input %0 \"x\": f32[4, 8]\n"
      "input %1 \"w\": f32[8, 4]\n"
      "input %2 \"v\": f32[4]\n"
      "%3 = td::linear(%0, %1, -, -, -, -, %2) {trans_w = false, n = 4, panel = 0, strassen = false, pairs = "
      "false, act = \"none\", act_a = 0, act_b = 0, act_late = false, in_front = false, chain = []}: f32[4, 4]\n"
      "output \"y\" %3\n",
      "# chain behind \n"
      "#   fused rank 2 row 0 {\n"
      "#     %0 = load 0\n"
      "#     %1 = load 1\n"
      "#     %2 = mul(%0, %1)\n"
      "#     %3 = neg(%2)\n"
      "#     store 0 %3 f32\n"
      "#   }\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(operators_become_a_loop),
                                     cmocka_unit_test(a_loop_moves_into_its_product)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
