/* Activations and norms in the spellings of exporters: each becomes one operator, and gives the numbers that it gave.
 */
#include "passes/numbers.h"

typedef struct spelling {
  const char *op; /* that is there afterwards */
  const char *steps;
} spelling;

#define CONSTANTS                                     \
  "input %0 \"x\": f32[3, 8]\n"                       \
  "const %1: f32[] = {0.5}\n"                         \
  "const %2: f32[] = {1}\n"                           \
  "const %3: f32[1] = {1.4142135}\n"                  \
  "const %4: f32[] = {0.70710677}\n"                  \
  "const %5: f32[] = {2}\n"                           \
  "const %6: f32[] = {3}\n"                           \
  "const %7: f32[] = {0.044715}\n"                    \
  "const %8: f32[] = {0.7978846}\n"                   \
  "const %9: f32[] = {0}\n"                           \
  "const %10: f32[] = {6}\n"                          \
  "const %11: f32[8] = {1, 2, 3, 4, 5, 6, 7, 8}\n"    \
  "const %12: f32[1, 8] = {3, 1, 4, 1, 5, 9, 2, 6}\n" \
  "const %13: f32[] = {1e-5}\n"                       \
  "const %14: i64[1] = {-1}\n"

static const spelling activations[] = {
    {"aten::gelu",
     "%20 = aten::div(%0, %3)\n%21 = aten::erf(%20)\n%22 = aten::add(%21, %2)\n"
     "%23 = aten::mul(%0, %22)\n%24 = aten::mul(%23, %1)\n"},
    {"aten::gelu",
     "%20 = aten::mul(%4, %0)\n%21 = aten::erf(%20)\n%22 = aten::add(%2, %21)\n"
     "%23 = aten::mul(%0, %1)\n%24 = aten::mul(%22, %23)\n"},
    {"aten::gelu",
     "%20 = aten::mul(%4, %0)\n%21 = aten::erf(%20)\n%22 = aten::mul(%21, %1)\n"
     "%23 = aten::add(%22, %1)\n%24 = aten::mul(%23, %0)\n"},
    {"aten::gelu",
     "%20 = aten::div(%0, %3)\n%21 = aten::erf(%20)\n%22 = aten::add(%21, %2)\n"
     "%23 = aten::mul(%22, %0)\n%24 = aten::div(%23, %5)\n"},
    {"\"tanh\"",
     "%20 = aten::pow(%0, %6)\n%21 = aten::mul(%20, %7)\n%22 = aten::add(%0, %21)\n"
     "%23 = aten::mul(%22, %8)\n%25 = aten::tanh(%23)\n%26 = aten::add(%25, %2)\n"
     "%27 = aten::mul(%1, %0)\n%24 = aten::mul(%27, %26)\n"},
    {"\"tanh\"",
     "%20 = aten::mul(%0, %0)\n%21 = aten::mul(%20, %7)\n%22 = aten::add(%21, %2)\n"
     "%23 = aten::mul(%0, %8)\n%28 = aten::mul(%23, %22)\n%25 = aten::tanh(%28)\n"
     "%26 = aten::add(%25, %2)\n%27 = aten::mul(%0, %26)\n%24 = aten::mul(%27, %1)\n"},
    {"aten::silu", "%20 = aten::sigmoid(%0)\n%24 = aten::mul(%0, %20)\n"},
    {"aten::hardswish", "%20 = td::hard_sigmoid(%0) {alpha = 0.16666667, beta = 0.5}\n%24 = aten::mul(%20, %0)\n"},
    {"aten::hardswish",
     "%20 = aten::add(%0, %6)\n%21 = aten::clamp(%20, %9, %10)\n%22 = aten::div(%21, %10)\n"
     "%24 = aten::mul(%0, %22)\n"},
    {"aten::hardswish",
     "%20 = aten::add(%0, %6)\n%21 = aten::clamp(%20, %9, %10)\n%22 = aten::mul(%0, %21)\n"
     "%24 = aten::div(%22, %10)\n"},
    {"aten::mish", "%20 = aten::softplus(%0)\n%21 = aten::tanh(%20)\n%24 = aten::mul(%0, %21)\n"},
};

static const spelling norms[] = {
    {"aten::native_layer_norm(%0, %1, %2)",
     "%20 = aten::mean(%0, %14) {keepdim = true}\n%21 = aten::sub(%0, %20)\n%22 = aten::pow(%21, %5)\n"
     "%23 = aten::mean(%22) {dim = [1], keepdim = true}\n%25 = aten::add(%23, %13)\n%26 = aten::sqrt(%25)\n"
     "%27 = aten::div(%21, %26)\n%28 = aten::mul(%27, %11)\n%24 = aten::add(%28, %12)\n"},
    {"aten::native_layer_norm(%0, -, %1)",
     "%20 = aten::mean(%0, %14) {keepdim = true}\n%21 = aten::sub(%0, %20)\n%22 = aten::mul(%21, %21)\n"
     "%23 = aten::mean(%22) {dim = [-1], keepdim = true}\n%25 = aten::add(%13, %23)\n%26 = aten::rsqrt(%25)\n"
     "%27 = aten::mul(%26, %21)\n%24 = aten::add(%11, %27)\n"},
    {"aten::rms_norm(%0, %1)",
     "%20 = aten::pow(%0, %5)\n%21 = aten::mean(%20, %14) {keepdim = true}\n%22 = aten::add(%21, %13)\n"
     "%23 = aten::sqrt(%22)\n%25 = aten::reciprocal(%23)\n%26 = aten::mul(%0, %25)\n%24 = aten::mul(%11, %26)\n"},
    {"aten::_softmax(%0)",
     "%20 = aten::amax(%0, %14) {keepdim = true}\n%21 = aten::sub(%0, %20)\n%22 = aten::exp(%21)\n"
     "%23 = aten::sum(%22, %14) {keepdim = true}\n%24 = aten::div(%22, %23)\n"},
    {"aten::_softmax(%0) {dim = 1",
     "%20 = aten::amax(%0, %14) {keepdim = true}\n%21 = aten::sub(%0, %20)\n%24 = aten::_softmax(%21) {dim = 1}\n"},
    {"aten::_log_softmax(%0) {dim = -1",
     "%20 = aten::amax(%0) {dim = [-1], keepdim = true}\n%21 = aten::sub(%0, %20)\n"
     "%24 = aten::_log_softmax(%21) {dim = -1}\n"},
};

/* The pass and `dead` leave `nodes` nodes, one of them with these words. */
static void expect_operator(const char *pass, const char *text, const char *words, uint32_t nodes) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  const passes_setting setting = {0};
  if (find_pass(pass)->run(graph, &setting, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  assert_int_equal(find_pass("dead")->run(graph, &setting, &changes, &err), TD_OK);
  base_text printed = {.allocator = &base_libc_allocator};
  assert_int_equal(ir_print(graph, &printed), TD_OK);
  if (count_of(printed.at, words) != 1 || ir_block_of(graph, graph->top)->nodes.count != nodes)
    fail_msg("no %s in\n%s", words, printed.at);
  base_text_free(&printed);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void expect_spelling(const char *pass, const spelling *s) {
  char text[2048];
  snprintf(text, sizeof text, "%s%soutput \"y\" %%24\n", CONSTANTS, s->steps);
  expect_operator(pass, text, s->op, 1);
  expect_same_numbers(text);
}

static void every_activation_is_found(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) expect_spelling("activation", &activations[i]);
}

/* The largest along another axis, of something else, of all, and a shift that is rounded. */
static void other_shifts_stay(void **state) {
  (void)state;
  static const char *const steps[] = {
      "%2 = aten::amax(%0) {dim = [1], keepdim = true}\n%3 = aten::sub(%0, %2)\n%4 = aten::_softmax(%3) {dim = 0}\n",
      "%2 = aten::amax(%0) {dim = [0], keepdim = true}\n%3 = aten::sub(%0, %2)\n%4 = aten::_softmax(%3) {dim = 1}\n",
      "%2 = aten::amax(%1) {dim = [1], keepdim = true}\n%3 = aten::sub(%0, %2)\n%4 = aten::_softmax(%3) {dim = 1}\n",
      "%2 = aten::amax(%0) {dim = [0, 1], keepdim = true}\n%3 = aten::sub(%0, %2)\n%4 = aten::_softmax(%3) {dim = 1}\n",
      "%2 = aten::amax(%0) {dim = [1], keepdim = true}\n%3 = aten::add(%0, %2)\n%4 = aten::_softmax(%3) {dim = 1}\n",
  };
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    char text[512];
    snprintf(text, sizeof text, "input %%0 \"x\": f32[4, 4]\ninput %%1 \"z\": f32[4, 4]\n%soutput \"y\" %%4\n",
             steps[i]);
    expect_operator("norm", text, "aten::amax", 3);
  }
}

static void every_norm_is_found(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) expect_spelling("norm", &norms[i]);
}

/* Other constants, another x, results that others use. */
static void others_stay(void **state) {
  (void)state;
  static const struct {
    const char *pass, *steps;
  } rows[] = {
      {"activation",
       "%20 = aten::div(%0, %5)\n%21 = aten::erf(%20)\n%22 = aten::add(%21, %2)\n"
       "%23 = aten::mul(%0, %22)\n%24 = aten::mul(%23, %1)\n"},
      {"activation", "%20 = aten::exp(%0)\n%21 = aten::sigmoid(%20)\n%24 = aten::mul(%0, %21)\n"},
      {"activation", "%20 = aten::sigmoid(%0)\n%21 = aten::mul(%0, %20)\n%24 = aten::add(%21, %20)\n"},
      {"activation", "%20 = aten::sigmoid(%0)\n%24 = aten::mul(%20, %12)\n"},
      {"norm",
       "%20 = aten::mean(%0) {dim = [0], keepdim = true}\n%21 = aten::sub(%0, %20)\n%22 = aten::mul(%21, %21)\n"
       "%23 = aten::mean(%22) {dim = [0], keepdim = true}\n%25 = aten::add(%13, %23)\n%26 = aten::rsqrt(%25)\n"
       "%24 = aten::mul(%26, %21)\n"},
      {"norm", "%20 = aten::exp(%0)\n%21 = aten::sum(%20, %14) {keepdim = true}\n%24 = aten::div(%20, %21)\n"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[2048];
    snprintf(text, sizeof text, "%s%soutput \"y\" %%24\n", CONSTANTS, rows[i].steps);
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
    td_error err;
    uint32_t changes = 0;
    assert_int_equal(find_pass(rows[i].pass)->run(graph, &(passes_setting){0}, &changes, &err), TD_OK);
    if (changes) fail_msg("changed: %s", text);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

static void an_activation_by_its_text(void **state) {
  (void)state;
  expect_change("activation",
                "input %0 \"x\": f32[3, 8]\n"
                "%1 = aten::sigmoid(%0)\n"
                "%2 = aten::mul(%0, %1)\n"
                "output \"y\" %2\n",
                "input %0 \"x\": f32[3, 8]\n"
                "%1 = aten::silu(%0): f32[3, 8]\n"
                "output \"y\" %1\n",
                1);
}

static void a_norm_by_its_text(void **state) {
  (void)state;
  expect_change("norm",
                "input %0 \"x\": f32[3, 8]\n"
                "const %1: f32[] = {2}\n"
                "const %2: f32[] = {0.0009765625}\n"
                "%3 = aten::pow(%0, %1)\n"
                "%4 = aten::mean(%3) {dim = [1], keepdim = true}\n"
                "%5 = aten::add(%4, %2)\n"
                "%6 = aten::rsqrt(%5)\n"
                "%7 = aten::mul(%0, %6)\n"
                "output \"y\" %7\n",
                "input %0 \"x\": f32[3, 8]\n"
                "%1 = aten::rms_norm(%0) {axis = -1, eps = 0.0009765625, stats_dtype = f32}: f32[3, 8]\n"
                "output \"y\" %1\n",
                1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_activation_is_found), cmocka_unit_test(every_norm_is_found),
      cmocka_unit_test(other_shifts_stay),         cmocka_unit_test(others_stay),
      cmocka_unit_test(an_activation_by_its_text), cmocka_unit_test(a_norm_by_its_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
