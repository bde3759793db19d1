/* test_places.c -- joins whose operands are made in their places, views that need no copy: the same values as on eager,
 * and no steps that only move. */
#include "runtime/harness.h"

/* Steps that run a function with `name` in its name. */
static uint32_t count_steps(const rig *r, const char *name) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < r->plan->steps.count; i++) {
    const plan_step *s = &r->plan->steps.at[i];
    count += s->kind == PLAN_CALL && strstr(r->plan->here.links.at[s->function].name, name) != NULL;
  }
  return count;
}

/* Runs `text` on both backends with x = 0, 1, 2, ... of dims `x`; leaves the native one in *r. */
static void run_both(rig *r, const char *text, const char *x) {
  rig truth;
  rig_open(&truth, text, "eager");
  rig_open(r, text, "native");
  rig_feed(&truth, 0, TD_F32, x);
  rig_feed(r, 0, TD_F32, x);
  for (int run = 0; run < 2; run++) {
    rig_run(&truth);
    rig_run(r);
    for (uint32_t i = 0; i < r->plan->outputs.count; i++) {
      const base_tensor *want = rig_output(&truth, i), *got = rig_output(r, i);
      assert_int_equal(base_tensor_bytes(want), base_tensor_bytes(got));
      assert_memory_equal(want->data, got->data, base_tensor_bytes(want)); /* small integers: exact */
    }
  }
  rig_close(&truth);
}

#define LINEAR \
  "{trans_w = false, n = 3, panel = 0, act = \"none\", act_a = 0.0, act_b = 0.0, act_late = false, in_front = false}"

/* Each layer joins what was joined before and what it made: one place for all, and no step that joins. */
static void dense_layers(void **state) {
  (void)state;
  rig r;
  run_both(&r,
           "input %0 \"x\": f32[n, 2]\n"
           "const %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
           "const %2: f32[3, 3] = {1, 0, 1, 0, 1, 0, 2, 1, 0}\n"
           "const %3: f32[6, 3] = {1, 0, 1, 0, 1, 0, 2, 1, 0, 1, 1, 1, 0, 0, 1, 2, 0, 0}\n"
           "%4 = td::linear(%0, %1) " LINEAR
           "\n"
           "%5 = td::linear(%4, %2) " LINEAR
           "\n"
           "%6 = aten::cat(%4, %5) {dim = -1}\n"
           "%7 = td::linear(%6, %3) " LINEAR
           "\n"
           "%8 = aten::cat(%4, %5, %7) {dim = -1}\n"
           "output \"y\" %8\n",
           "3x2: 0");
  assert_int_equal(count_steps(&r, "cat"), 0);
  assert_int_equal(count_steps(&r, "copy"), 0);
  assert_int_equal(r.plan->steps.count, 3);
  rig_feed(&r, 0, TD_F32, "1x2: 1 0");
  rig_run(&r);
  expect_output(&r, 0, "1x9: 1 2 3 7 5 1 16 12 13");
  rig_close(&r);
}

/* Parts of whole rows are dense: any step can make and read them. */
static void rows_below_each_other(void **state) {
  (void)state;
  rig r;
  run_both(&r,
           "input %0 \"x\": f32[2, 3]\n"
           "%1 = aten::relu(%0)\n"
           "%2 = aten::neg(%0)\n"
           "%3 = aten::cat(%1, %2) {dim = 0}\n"
           "%4 = aten::flip(%1) {dims = [0]}\n"
           "%5 = aten::cat(%3, %4, %2) {dim = 0}\n"
           "output \"y\" %5\n"
           "output \"z\" %3\n",
           "2x3: 1");
  assert_int_equal(count_steps(&r, "cat"), 0);
  rig_close(&r);
}

/* What cannot be made in its place is copied there: inputs, constants, what stands there twice, other axes. */
static void copies_where_needed(void **state) {
  (void)state;
  static const char *const texts[] = {
      "input %0 \"x\": f32[2, 3]\nconst %1: f32[2, 1] = {7, 8}\n%2 = aten::neg(%0)\n"
      "%3 = aten::cat(%0, %2, %2, %1) {dim = 1}\noutput \"y\" %3\n",
      "input %0 \"x\": f32[2, 3]\n%1 = aten::neg(%0)\n%2 = aten::abs(%1)\n"
      "%3 = aten::cat(%1, %2) {dim = 0}\n%4 = aten::cat(%2, %1) {dim = 0}\noutput \"y\" %3\noutput \"z\" %4\n",
      "input %0 \"x\": f32[2, 3]\n%1 = aten::neg(%0)\n%2 = aten::cat(%1, %1) {dim = 0}\n"
      "%3 = aten::cat(%2, %2) {dim = 1}\noutput \"y\" %3\noutput \"part\" %1\n",
      "input %0 \"x\": f32[2, 3]\n%1 = aten::permute(%0) {dims = [1, 0]}\n%2 = aten::neg(%1)\n"
      "%3 = aten::cat(%2, %1) {dim = 0}\n%4 = aten::_softmax(%2) {dim = 1}\n%5 = aten::relu(%3)\noutput \"y\" %5\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    rig r;
    run_both(&r, texts[i], "2x3: 1");
    rig_close(&r);
  }
}

/* A part lives as long as its whole: nothing is written over it, though it is used for the last time before. */
static void parts_are_not_overwritten(void **state) {
  (void)state;
  rig r;
  run_both(&r,
           "input %0 \"x\": f32[2, 3]\n"
           "%1 = aten::neg(%0)\n"
           "%2 = aten::abs(%0)\n"
           "%3 = aten::cat(%1, %2) {dim = 0}\n"
           "%4 = aten::relu(%1)\n"
           "%5 = aten::neg(%2)\n"
           "%6 = aten::add(%4, %5)\n"
           "%7 = aten::relu(%3)\n"
           "output \"y\" %6\n"
           "output \"z\" %7\n",
           "2x3: 1");
  rig_close(&r);
}

/* In a loop the whole is made anew at each turn. */
static void joins_in_loops(void **state) {
  (void)state;
  rig r;
  run_both(&r,
           "input %0 \"x\": f32[2, 3]\n"
           "const %1: i64[] = {3}\n"
           "const %2: bool[] = {1}\n"
           "%3 = prim::Loop(%1, -, %0): f32[2, 3] {\n"
           "  block(%4: i64[], %5: f32[2, 3]) {\n"
           "    %6 = aten::neg(%5)\n"
           "    %7 = aten::relu(%5)\n"
           "    %8 = aten::cat(%6, %7) {dim = 0}\n"
           "    %9 = aten::sum(%8) {dim = [0], keepdim = true}\n"
           "    %10 = aten::add(%9, %5)\n"
           "    yield %2, %10\n"
           "  }\n"
           "}\n"
           "output \"y\" %3\n",
           "2x3: 1");
  assert_int_equal(count_steps(&r, "cat"), 0);
  rig_close(&r);
}

/* A view whose elements lie densely, or in rows of one pitch, goes to a kernel as it is. */
static void views_as_they_are(void **state) {
  (void)state;
  static const struct {
    const char *view;
    uint32_t copies;
  } cases[] = {{"aten::permute(%3) {dims = [1, 0, 2]}", 0}, /* moves a dimension of one element */
               {"aten::permute(%3) {dims = [0, 2, 1]}", 1},
               {"td::chunk(%3) {dim = 1, parts = 3, index = 2}", 0},  /* whole rows */
               {"td::chunk(%6) {dim = 2, parts = 2, index = 1}", 0}}; /* parts of rows */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[640];
    rig r;
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[1, 3, 3]\n"
             "const %%1: f32[3, 3] = {1, 0, 1, 0, 1, 0, 2, 1, 0}\n"
             "const %%2: f32[3, 6] = {1, 0, 1, 0, 1, 0, 2, 1, 0, 1, 1, 1, 0, 0, 1, 2, 0, 0}\n"
             "%%3 = aten::neg(%%0)\n"
             "%%6 = aten::matmul(%%3, %%2)\n"
             "%%4 = %s\n"
             "%%5 = td::linear(%%4, %%1) " LINEAR
             "\n"
             "output \"y\" %%5\n",
             cases[i].view);
    run_both(&r, text, "1x3x3: 1");
    assert_int_equal(count_steps(&r, "copy"), cases[i].copies);
    rig_close(&r);
  }
}

/* Parts of channels of images of open sizes are rows of a pitch whatever these are; parts along an open axis, and what
 * a number reaches that is farther than the sizes tried, are copied. */
static void views_of_open_sizes(void **state) {
  (void)state;
#define PART(first, end, axis)                                                                \
  "input %0 \"x\": f32[n, h, w, 4]\nconst %1: i64[1] = {" first "}\nconst %2: i64[1] = {" end \
  "}\n"                                                                                       \
  "const %3: i64[1] = {" axis "}\n%4 = aten::relu(%0)\n%5 = aten::slice(%4, %1, %2, %3)\n"
#define CONV(channels, weights)                      \
  "const %6: f32[2, " channels ", 1, 1] = {" weights \
  "}\n"                                              \
  "%7 = td::conv(%5, %6) {kernel = [1, 1], channels = 2}\noutput \"y\" %7\n"
  static const struct {
    const char *text;
    uint32_t copies;
  } rows[] = {{PART("1", "3", "3") CONV("2", "1, 2, 3, 4"), 0},
              {PART("0", "9223372036854775807", "1") CONV("4", "1, 2, 3, 4, 5, 6, 7, 8"), 0},
              {PART("0", "2", "1") CONV("4", "1, 2, 3, 4, 5, 6, 7, 8"), 1},
              {PART("0", "20000", "2") CONV("4", "1, 2, 3, 4, 5, 6, 7, 8"), 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rig r;
    run_both(&r, rows[i].text, "2x3x2x4: 1");
    assert_int_equal(count_steps(&r, "copy"), rows[i].copies);
    rig_close(&r);
  }
}

/* A size that falls where others grow, 12 / n, says nothing where it is 0, and h / 4 nothing where it is 1: the
 * permutation moves more than one element elsewhere. */
static void sizes_that_fall(void **state) {
  (void)state;
  rig r;
  run_both(&r,
           "input %0 \"x\": f32[n, h]\n"
           "const %1: f32[12, 1] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}\n"
           "const %2: f32[2, 6] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
           "const %3: i64[1] = {0}\nconst %4: i64[1] = {9223372036854775807}\n"
           "const %5: i64[1] = {1}\nconst %6: i64[1] = {4}\nconst %7: i64[1] = {-1}\n"
           "%8 = aten::slice(%0, %3, %4, %5, %6)\n"
           "%9 = aten::sum(%8) {dim = [0]}\n"
           "%10 = aten::mul(%9, %1)\n"
           "%11 = td::shape(%8) {end = 1}\n%12 = td::shape(%8) {start = 1}\n"
           "%13 = aten::cat(%11, %7, %12) {dim = 0}\n"
           "%14 = aten::view(%10, %13)\n"
           "%15 = aten::permute(%14) {dims = [0, 2, 1]}\n"
           "%16 = td::linear(%15, %2) {trans_w = true, n = 2}\n"
           "output \"y\" %16\n",
           "2x5: 1");
  rig_close(&r);
}

/* A result takes the place of an operand only where no other operand reads that memory otherwise. */
static void operands_are_read_before_they_are_written(void **state) {
  (void)state;
  rig r;
  run_both(&r,
           "input %0 \"x\": f32[16, 16]\n"
           "const %1: i64[1] = {0}\n"
           "const %2: i64[1] = {1}\n"
           "%3 = aten::cumsum(%0, %2)\n"
           "%4 = aten::slice(%3, %1, %2, %1)\n"
           "%5 = aten::add(%3, %4)\n"
           "output \"y\" %5\n",
           "16x16: 1");
  rig_close(&r);
}

/* Bounds of a view may have any whole type: how it lies is asked without memory to convert them in. */
static void bounds_of_narrow_types(void **state) {
  (void)state;
  rig r;
  run_both(&r,
           "input %0 \"x\": f32[2, 5]\n"
           "const %1: i32[1] = {1}\n"
           "const %2: i32[1] = {-1}\n"
           "const %3: i8[1] = {1}\n"
           "%4 = aten::neg(%0)\n"
           "%5 = aten::slice(%4, %1, %2, %3)\n"
           "%6 = aten::abs(%5)\n"
           "output \"y\" %5\n"
           "output \"z\" %6\n",
           "2x5: 1");
  expect_output(&r, 0, "2x3: -2 -3 -4 -7 -8 -9");
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dense_layers),           cmocka_unit_test(rows_below_each_other),
      cmocka_unit_test(copies_where_needed),    cmocka_unit_test(parts_are_not_overwritten),
      cmocka_unit_test(joins_in_loops),         cmocka_unit_test(views_as_they_are),
      cmocka_unit_test(views_of_open_sizes),    cmocka_unit_test(sizes_that_fall),
      cmocka_unit_test(bounds_of_narrow_types), cmocka_unit_test(operands_are_read_before_they_are_written)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
