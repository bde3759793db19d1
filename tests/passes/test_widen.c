/* What is of half precision is computed in f32, and rounded where it may overflow. */
#include "passes/numbers.h"

static void products_are_taken_in_f32(void **state) {
  (void)state;
  expect_change("widen",
                "input %0 \"x\": f16[n, 2]\n"
                "const %1: f16[2, 2] = {1, 2, 3, 4}\n"
                "%2 = aten::matmul(%0, %1)\n"
                "output \"y\" %2\n",
                "input %0 \"x\": f16[n, 2]\n"
                "const %1: f32[2, 2] = {1, 2, 3, 4}\n"
                "%2 = aten::_to_copy(%0) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[n, 2]\n"
                "%3 = aten::matmul(%2, %1): f32[n, 2]\n"
                "%4 = aten::_to_copy(%3) {dtype = f16, saturate = true, round_mode = \"up\"}: f16[n, 2]\n"
                "output \"y\" %4\n",
                1);
  expect_same("widen",
              "input %0 \"x\": f32[3, 2]\n"
              "input %1 \"w\": f32[2, 2]\n"
              "input %2 \"a\": f64[2, 2]\n"
              "input %3 \"h\": f16[2, 2]\n"
              "%4 = aten::matmul(%0, %1): f32[3, 2]\n"
              "%5 = aten::matmul(%2, %2): f64[2, 2]\n"
              "%6 = aten::floor(%3): f16[2, 2]\n"
              "output \"a\" %4\noutput \"b\" %5\noutput \"c\" %6\n");
}

/* Sums whose numbers halves hold, so that no rounding differs. */
static void numbers_stay(void **state) {
  (void)state;
  static const char *const types[] = {"f16", "bf16"};
  for (int i = 0; i < 6; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"x\": %s[%d, 3, 2]\n"
             "const %%1: %s[2, 3] = {1, 0, 0, 0, 2, -1}\n"
             "%%2 = aten::matmul(%%0, %%1)\n"
             "output \"y\" %%2\n",
             types[i % 2], i / 2, types[i % 2]);
    expect_same_numbers(text);
  }
}

static void pools_are_taken_in_f32(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"x\": %s[2, 3, 6, 5]\n"
             "%%1 = td::%s(%%0) {kernel_size = [2, 2]}\n"
             "output \"y\" %%1\n",
             i % 2 ? "bf16" : "f16", i / 2 ? "max_pool" : "avg_pool");
    expect_same_numbers(text);
  }
}

#define CAST(out, in, type) \
  out " = aten::_to_copy(" in ") {dtype = " type ", saturate = true, round_mode = \"up\"}: " type "[3]\n"

/* A rectifier cannot overflow, nor what turns its sign; a square can. */
static void what_may_overflow_is_rounded(void **state) {
  (void)state;
  expect_change("widen",
                "input %0 \"x\": f16[3]\n"
                "%1 = aten::relu(%0)\n"
                "%2 = aten::neg(%1)\n"
                "%3 = aten::square(%2)\n"
                "%4 = aten::neg(%3)\n"
                "output \"y\" %4\n",
                "input %0 \"x\": f16[3]\n" /* clang-format off */
                CAST("%1", "%0", "f32")
                "%2 = aten::relu(%1): f32[3]\n"
                "%3 = aten::neg(%2): f32[3]\n"
                "%4 = aten::square(%3): f32[3]\n"
                CAST("%5", "%4", "f16")
                CAST("%6", "%5", "f32")
                "%7 = aten::neg(%6): f32[3]\n"
                CAST("%8", "%7", "f16")
                "output \"y\" %8\n", /* clang-format on */
                4);
}

/* Of an infinity and of what is near it a clamp makes its bound, unless that is infinite itself. */
static void what_saturates_takes_numbers_that_f16_lacks(void **state) {
  (void)state;
#define CLAMPED(BOUND, MORE)                                                 \
  "input %0 \"x\": f16[3]\nconst %1: f16[] = {0}\nconst %2: f16[] = {" BOUND \
  "}\n"                                                                      \
  "%3 = aten::square(%0)\n%4 = aten::clamp(%3, %1, %2)\n" MORE
  static const struct {
    const char *text;
    int casts; /* that round, and that widen */
  } rows[] = {{CLAMPED("6", "output \"y\" %4\n"), 2},
              {CLAMPED("inf", "output \"y\" %4\n"), 4},
              {CLAMPED("6", "%5 = aten::square(%4)\n%6 = aten::tanh(%5)\noutput \"y\" %6\n"), 2},
              /* silu is one operator where both of its readers take the same */
              {CLAMPED("6", "%5 = aten::sigmoid(%3)\n%6 = aten::mul(%4, %5)\noutput \"y\" %6\n"), 5}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int casts = 0;
    base_text text = {.allocator = &base_libc_allocator};
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph = parse_graph(arena, rows[i].text, &base_libc_allocator);
    uint32_t changes = 0;
    td_error err;
    if (find_pass("widen")->run(graph, &(passes_setting){0}, &changes, &err) != TD_OK) fail_msg("%s", err.text);
    assert_int_equal(ir_print(graph, &text), TD_OK);
    for (const char *at = text.at; (at = strstr(at, "_to_copy")) != NULL; at++) casts++;
    if (casts != rows[i].casts) fail_msg("%d casts: %s", casts, text.at);
    if (i < 2) expect_same_numbers(rows[i].text); /* the others are nearer to exact ones */
    base_text_free(&text);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

/* What the model rounds and goes on with in f32 is rounded. */
static void own_casts_stay(void **state) {
  (void)state;
  expect_same("widen",
              "input %0 \"x\": f32[3]\n" /* clang-format off */
              "%1 = aten::sigmoid(%0): f32[3]\n"
              CAST("%2", "%1", "f16")
              CAST("%3", "%2", "f32")
              "%4 = aten::neg(%3): f32[3]\n"
              "output \"y\" %4\n"); /* clang-format on */
}
#undef CAST

/* 300 squared is no f16, its tenth would be one. */
static void what_overflows_stays_infinite(void **state) {
  (void)state;
  static const char *const rungs[] = {"eager", "aot_eager", "interp", "native"};
  static const char *const text =
      "input %0 \"x\": f16[2, 3]\n"
      "const %1: f16[] = {0.0999755859375}\n"
      "%2 = aten::mul(%0, %0)\n"
      "%3 = aten::mul(%2, %1)\n"
      "%4 = aten::add(%3, %3)\n"
      "output \"y\" %4\n";
  const special large = {.input = 0, .at = -1, .value = 300};
  for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++) {
    rig r;
    rig_open(&r, text, rungs[i]);
    if (!try_numbers(&r, &large)) fail_msg("%s", r.err.text);
    const base_tensor *y = rig_output(&r, 0);
    for (int64_t k = 0; k < 6; k++) assert_true(isinf(base_load_f64(y->dtype, y->data, k)));
    rig_close(&r);
  }
}

/* Several results, operators that have kernels for f32 alone, constants that are moved. */
static void others_are_taken_in_f32(void **state) {
  (void)state;
  static const char *const texts[] = {
      "input %%0 \"x\": %s[3, 2, 2]\n"
      "const %%1: %s[1, 4, 2] = {0.5, -0.25, 0.125, 1, -0.5, 0.75, 0.25, -1}\n"
      "const %%2: %s[1, 4, 1] = {0.5, -0.5, 0.25, 1}\n"
      "%%3, %%4, %%5 = td::lstm(%%0, %%1, %%2)\n"
      "output \"y\" %%3\noutput \"h\" %%4\noutput \"c\" %%5\n",
      "input %%0 \"q\": %s[1, 2, 3, 4]\ninput %%1 \"k\": %s[1, 2, 5, 4]\ninput %%2 \"v\": %s[1, 2, 5, 4]\n"
      "%%3 = aten::scaled_dot_product_attention(%%0, %%1, %%2)\noutput \"y\" %%3\n",
      "input %%0 \"x\": %s[2, 2]\nconst %%1: %s[3, 2] = {1, 2, 3, 4, 5, 6}\n"
      "%%2 = aten::permute(%%1) {dims = [1, 0]}\n%%3 = aten::matmul(%%0, %%2)\noutput \"y\" %%3\n",
  };
  static const char *const types[] = {"f16", "bf16"};
  for (size_t i = 0; i < 2 * sizeof texts / sizeof *texts; i++) {
    char text[1024];
    const char *t = types[i % 2];
    snprintf(text, sizeof text, texts[i / 2], t, t, t);
    expect_same_numbers(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_taken_in_f32),
                                     cmocka_unit_test(numbers_stay),
                                     cmocka_unit_test(pools_are_taken_in_f32),
                                     cmocka_unit_test(what_may_overflow_is_rounded),
                                     cmocka_unit_test(what_overflows_stays_infinite),
                                     cmocka_unit_test(own_casts_stay),
                                     cmocka_unit_test(what_saturates_takes_numbers_that_f16_lacks),
                                     cmocka_unit_test(others_are_taken_in_f32)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
