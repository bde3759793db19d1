/* Scatters to boxes become joins, and give the numbers that they gave; others stay. */
#include "passes/numbers.h"

#define X "input %0 \"x\": f32[2, 4, 5]\n"
#define OUT(reduce) "%9 = td::scatter_nd(%0, %8, %1) {reduce = \"" reduce "\"}\noutput \"y\" %9\n"

static const char *const boxes[] = {
    /* x[:, 1:3] = u, as exporters write indices: counted along one axis each, repeated along the others */
    X
    "input %1 \"u\": f32[2, 2, 5]\n"
    "const %2: i64[2, 1, 1] = {0, 1}\nconst %3: i64[2, 1] = {1, 2}\nconst %4: i64[5] = {0, 1, 2, 3, 4}\n"
    "const %5: i64[3] = {2, 2, 5}\nconst %6: i64[1] = {-1}\n"
    "%20 = aten::expand(%2, %5)\n%21 = aten::expand(%3, %5)\n%22 = aten::expand(%4, %5)\n"
    "%23 = aten::unsqueeze(%20, %6)\n%24 = aten::unsqueeze(%21, %6)\n%25 = aten::unsqueeze(%22, %6)\n"
    "%8 = aten::cat(%23, %24, %25) {dim = -1}\n" OUT("none"),
    /* all of x, and whole rows of the last axis */
    X
    "input %1 \"u\": f32[2, 4, 5]\n"
    "const %8: i64[2, 4, 2] = {0, 0, 0, 1, 0, 2, 0, 3, 1, 0, 1, 1, 1, 2, 1, 3}\n" OUT("none"),
    /* x[1, -2:] = u: one number, counted from the end */
    X "input %1 \"u\": f32[2, 5]\nconst %8: i64[2, 2] = {1, -2, 1, -1}\n" OUT("none"),
    /* x[:, 2, 3] = u */
    X "input %1 \"u\": f32[2]\nconst %8: i64[2, 3] = {0, 2, 3, 1, 2, 3}\n" OUT("none"),
    /* x[0:1, 2:4, 4:] = u, with an axis of one element in between */
    X "input %1 \"u\": f32[1, 2, 1, 1]\nconst %8: i64[1, 2, 1, 1, 3] = {0, 2, 4, 0, 3, 4}\n" OUT("none"),
    /* one element */
    X "input %1 \"u\": f32[]\nconst %8: i32[3] = {1, 0, 4}\n" OUT("none"),
};

static const char *const others[] = {
    X "input %1 \"u\": f32[2, 5]\nconst %8: i64[2, 2] = {1, 3, 1, 1}\n" OUT("none"), /* not in a row */
    X "input %1 \"u\": f32[2, 5]\nconst %8: i64[2, 2] = {0, 0, 1, 1}\n" OUT("none"), /* a diagonal */
    X "input %1 \"u\": f32[2, 5]\nconst %8: i64[2, 2] = {1, 1, 1, 1}\n" OUT("none"), /* one row twice */
    X "input %1 \"u\": f32[2, 5]\nconst %8: i64[2, 2] = {1, 1, 1, 2}\n" OUT("add"),  /* added */
    X "input %1 \"u\": f32[2, 2, 5]\nconst %8: i64[2, 2, 2] = {0, 1, 1, 1, 0, 2, 1, 2}\n" OUT("none"), /* turned */
    X "input %1 \"u\": f32[1, 5]\ninput %8 \"i\": i64[1, 2]\n" OUT("none"),                            /* not known */
};

static uint32_t scatters_left(const char *text) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  if (find_pass("scatter")->run(graph, &(passes_setting){0}, &changes, &err) != TD_OK ||
      ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  base_text printed = {.allocator = &base_libc_allocator};
  assert_int_equal(ir_print(graph, &printed), TD_OK);
  uint32_t left = count_of(printed.at, "td::scatter_nd");
  base_text_free(&printed);
  ir_graph_free(graph);
  base_arena_free(arena);
  return left;
}

static void boxes_are_joined(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
    assert_int_equal(scatters_left(boxes[i]), 0);
    expect_same_numbers(boxes[i]);
  }
}

static void other_indices_stay(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_int_equal(scatters_left(others[i]), 1);
  for (size_t i = 0; i + 1 < sizeof others / sizeof *others; i++) expect_same_numbers(others[i]);
}

/* What is outside fails when it runs, not before. */
static void outside(void **state) {
  (void)state;
  assert_int_equal(scatters_left(X "input %1 \"u\": f32[2, 5]\nconst %8: i64[2, 2] = {1, 3, 1, 4}\n" OUT("none")), 1);
  assert_int_equal(
      scatters_left(
          X "input %1 \"u\": f32[5]\nconst %8: i64[1, 2] = {-9223372036854775807, 9223372036854775807}\n" OUT("none")),
      1);
}

static void the_last_rows_of_a_box(void **state) {
  (void)state;
  expect_change("scatter", X "input %1 \"u\": f32[2, 5]\nconst %8: i64[2, 2] = {1, -2, 1, -1}\n" OUT("none"),
                "input %0 \"x\": f32[2, 4, 5]\n"
                "input %1 \"u\": f32[2, 5]\n"
                "const %2: i64[3] = {1, 2, 5}\n"
                "const %3: i64[1] = {1}\n"
                "const %4: i64[1] = {2}\n"
                "const %5: i64[1] = {0}\n"
                "const %6: i64[1] = {0}\n"
                "const %7: i64[1] = {1}\n"
                "const %8: i64[1] = {0}\n"
                "const %9: i64[1] = {0}\n"
                "const %10: i64[1] = {2}\n"
                "const %11: i64[1] = {1}\n"
                "%12 = aten::view(%1, %2) {zero_copies = false}: f32[1, 2, 5]\n"
                "%13 = aten::slice(%0, %3, %4, %5): f32[1, 4, 5]\n"
                "%14 = aten::slice(%0, %6, %7, %8): f32[1, 4, 5]\n"
                "%15 = aten::slice(%13, %9, %10, %11): f32[1, 2, 5]\n"
                "%16 = aten::cat(%15, %12) {dim = 1}: f32[1, 4, 5]\n"
                "%17 = aten::cat(%14, %16) {dim = 0}: f32[2, 4, 5]\n"
                "output \"y\" %17\n",
                1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(boxes_are_joined), cmocka_unit_test(other_indices_stay),
                                     cmocka_unit_test(outside), cmocka_unit_test(the_last_rows_of_a_box)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
