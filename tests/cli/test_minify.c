/* ctest: slow */
/* The smallest model that still fails the same way: faults are put into kernels (--inject), and looked for. */
#include "cli/fixture.h"

/* What PyTorch's own minifier is shown on: neg, maximum, cat. */
static const char story[] =
    "tdir 1\n"
    "input %0 \"a\": f32[1, 8]\n"
    "input %1 \"b\": f32[8390, 8]\n"
    "%2 = aten::neg(%0)  # \"node /neg (Neg)\"\n"
    "%3 = aten::maximum(%2, %1)  # \"node /max (Max)\"\n"
    "%4 = aten::cat(%3, %0) {dim = 0}  # \"node /cat (Concat)\"\n"
    "output \"y\" %4\n";

static uint32_t count_nodes(const char *graph) {
  uint32_t count = 0;
  for (const char *at = graph; (at = strstr(at, " = ")); at++) count += strncmp(at - 1, " = @", 4) != 0;
  return count;
}

/* Minifies the model with a fault; the graph that is left has at most `most` nodes, one of them `op`. What is left
 * shows the failure by its own script, from another folder. */
static void ends_at(fixture *f, const char *model, const char *options, const char *fault, const char *op,
                    uint32_t most) {
  const char *line = base_arena_format(f->arena, "minify %s --inject %s --output small %s", model, fault, options);
  outcome got = run(f, line);
  if (got.status != 0) fail_msg("%s\n%s%s", line, got.out, got.err);
  assert_holds(got.out, "truncate suffix");
  assert_holds(got.out, "granularity");
  const char *graph = slurp(f, "small/graph.tdir", NULL);
  assert_holds(graph, op);
  if (count_nodes(graph) > most) fail_msg("%s: more than %u nodes are left:\n%s", fault, most, graph);
  const char *script = base_arena_format(
      f->arena, "cd / && " NO_STACK " TREADLE=%s timeout 5 sh %s/small/run.sh >/dev/null 2>&1", f->treadle, f->folder);
  if (system(script) == 0) fail_msg("%s: the result does not fail", fault);
  assert_holds(slurp(f, "small/README.md", NULL), "run.sh");
  assert_holds(slurp(f, "small/environment.txt", NULL), "treadle ");
  assert_int_equal(system("rm -rf small"), 0);
}

static void the_story_ends_at_neg(void **state) {
  fixture *f = *state;
  static const char *const modes[] = {"compile", "wrong", "type", "nan", "crash", "hang"};
  save_text("story.tdir", story);
  assert_int_equal(run(f, "compare story.tdir").status, 0);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    ends_at(f, "story.tdir", i < 5 ? "" : "--time-limit 2", base_arena_format(f->arena, "neg:%s", modes[i]),
            "aten::neg", 1);
}

/* A chain of many nodes, one of them a neg. */
static void save_chain(const char *path, uint32_t count, uint32_t neg_at) {
  static const char *const ops[] = {"aten::sigmoid(%%%u)", "aten::mul(%%%u, %%1)", "aten::add(%%%u, %%1)",
                                    "aten::tanh(%%%u)"};
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "tdir 1\ninput %%0 \"x\": f32[n, 16]\nconst %%1: f32[1] = {0.75}\n");
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t from = i ? i + 1 : 0;
    fprintf(file, "%%%u = ", i + 2);
    fprintf(file, i == neg_at ? "aten::neg(%%%u)" : ops[i % 4], from);
    fprintf(file, "  # \"node /n%u (Op)\"\n", i);
  }
  fprintf(file, "output \"y\" %%%u\n", count + 1);
  assert_int_equal(fclose(file), 0);
}

static void a_thousand_nodes_become_few(void **state) {
  fixture *f = *state;
  save_chain("long.tdir", 1000, 613);
  ends_at(f, "long.tdir", "--time-limit 60", "neg:crash", "aten::neg", 3);
  ends_at(f, "long.tdir", "--time-limit 60", "neg:nan", "aten::neg", 3);
}

/* A constant becomes an input, so that sizes can shrink, and a constant again. */
static void constants_come_back(void **state) {
  fixture *f = *state;
  save_text("constant.tdir",
            "tdir 1\n"
            "input %0 \"x\": f32[4, 20]\n"
            "const %1: f32[20] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
            "%2 = aten::mul(%0, %1)  # \"node /mul (Mul)\"\n"
            "%3 = aten::tanh(%2)  # \"node /tanh (Tanh)\"\n"
            "output \"y\" %3\n");
  outcome got = run(f, "minify constant.tdir --inject mul:nan --output small");
  assert_int_equal(got.status, 0);
  assert_holds(got.out, "constants to inputs");
  assert_holds(got.out, "inputs to constants");
  assert_holds(slurp(f, "small/graph.tdir", NULL), "const %1: f32[1] = {1}");
  assert_int_equal(system("rm -rf small"), 0);
}

/* What is kept from run to run becomes an input with a default, and an output. */
static void state_is_cut(void **state) {
  fixture *f = *state;
  save_text("state.tdir",
            "tdir 1\n"
            "const %9: f32[1] = {0.5}\n"
            "input %0 \"x\": f32[1, 8]\n"
            "state %1 \"x\": f32[1] = %9\n"
            "%2 = aten::exp(%1)  # \"node /exp (Exp)\"\n"
            "%3 = aten::add(%0, %2)  # \"node /add (Add)\"\n"
            "%4 = aten::neg(%3)  # \"node /neg (Neg)\"\n"
            "%5 = aten::abs(%4)  # \"node /abs (Abs)\"\n"
            "output \"y\" %5\n"
            "store %1 = %2\n");
  ends_at(f, "state.tdir", "", "neg:wrong", "aten::neg", 1);
  ends_at(f, "state.tdir", "", "exp:crash", "aten::exp", 3); /* with its constant and its default */
}

#define TEN "1, -2, 3, -4, 5, -6, 7, -8, 9, -10"
#define THIRTY TEN ", " TEN ", " TEN

/* A graph of operators that ONNX has says the same as an ONNX file; what it has no name for is said. */
static void graphs_become_onnx(void **state) {
  fixture *f = *state;
  save_text("many.tdir",
            "tdir 1\n"
            "input %0 \"x\": f32[2, 4, 6, 6]\n"
            "const %1: f32[3, 4, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}\n"
            "const %2: f32[3] = {0.5, -0.5, 1}\n"
            "const %3: i64[2] = {2, -1}\n"
            "const %4: f32[6] = {1, 2, 3, 1, 2, 3}\n"
            "const %5: i64[1] = {1}\n"
            "const %6: i64[1] = {3}\n"
            "%10 = aten::convolution(%0, %1, %2) {stride = [2, 1], padding = [0, 0, 0, 0]}  # \"node /conv (Conv)\"\n"
            "%11 = aten::relu(%10)\n"
            "%12 = aten::native_layer_norm(%11, %4) {eps = 0.001}\n"
            "%13 = aten::mean(%12) {dim = [1], keepdim = true}\n"
            "%14 = aten::sub(%12, %13)\n"
            "%15 = aten::cat(%14, %11) {dim = 2}\n"
            "%16 = aten::_softmax(%15) {dim = -1}\n"
            "%17 = aten::leaky_relu(%14) {negative_slope = 0.2}\n"
            "%18 = aten::sum(%17) {dim = [2, 3]}\n"
            "%19 = aten::view(%16, %3)\n"
            "%20 = aten::slice(%19, %5, %6, %5)\n"
            "%21 = aten::_to_copy(%20) {dtype = f64}\n"
            "%22 = aten::gelu(%18)\n"
            "const %30: f32[5, 6] = {" THIRTY
            "}\n"
            "const %31: f32[5] = {1, 2, 3, 4, 5}\n"
            "const %32: f32[1, 8, 5] = {" THIRTY ", " TEN
            "}\n"
            "const %33: f32[1, 8, 2] = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1}\n"
            "const %34: i64[3] = {1, 2, 6}\n"
            "const %35: f32[1] = {0.5}\n"
            "const %36: f32[0] = {}\n"
            "const %37: f32[3] = {1, 2, 1}\n"
            "%40 = aten::full(%34, %35)\n"
            "%41 = aten::silu(%40)\n"
            "%42 = td::linear(%41, %30, %31) {trans_w = true, n = 5}  # \"node /fc (Gemm)\"\n"
            "%43, %44, %45 = td::lstm(%42, %32, %33)\n"
            "%46 = td::resize(%42, %36, %37) {mode = \"linear\", coordinates = \"asymmetric\"}\n"
            "%47 = aten::argmax(%46) {dim = 1}\n"
            "%48 = aten::remainder(%47, %5)\n"
            "%49, %50 = aten::topk(%46, %5) {dim = 1}\n"
            "output \"a\" %21\n"
            "output \"b\" %22\n"
            "output \"c\" %43\n"
            "output \"d\" %48\n"
            "output \"e\" %49\n");
  outcome got = run(f, "inspect many.tdir --stage imported --save many.onnx");
  if (got.status != 0) fail_msg("%s", got.err);
  got = run(f, "compare many.tdir many.onnx --backends eager,eager --rtol 1e-6 --atol 1e-6");
  if (got.status != 0) fail_msg("%s%s", got.out, got.err);
  assert_holds(got.out, "same");
  assert_int_equal(run(f, "inspect many.tdir --save other.onnx").status, 2); /* not the graph as imported */
  save_text("own.tdir",
            "tdir 1\ninput %0 \"x\": f32[2, 8]\n%1 = aten::rsqrt(%0)  # \"node /own (Own)\"\noutput \"y\" %1\n");
  got = run(f, "inspect own.tdir --stage imported --save own.onnx");
  assert_int_equal(got.status, 4);
  assert_holds(got.err, "ONNX has no name for aten::rsqrt");
  save_text("story.tdir", story);
  assert_int_equal(run(f, "minify story.tdir --inject neg:wrong --output small").status, 0);
  assert_holds(slurp(f, "small/README.md", NULL), "`graph.onnx`");
  assert_int_equal(run(f, "compare small/graph.tdir small/graph.onnx").status, 0);
  assert_int_equal(system("rm -rf small"), 0);
}

/* Masks of one row for all queries, which ONNX Runtime does not spread, get one for each. */
static void masks_have_rows(void **state) {
  fixture *f = *state;
  static const char *const masks[] = {"f32[1, 1, 1, 4] = {0, -1, 0, -100}", "bool[1, 4] = {1, 1, 0, 1}"};
  for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
    save_text("attention.tdir",
              base_arena_format(f->arena,
                                "tdir 1\ninput %%0 \"q\": f32[2, 3, 8]\ninput %%1 \"k\": f32[2, 4, 8]\n"
                                "const %%2: %s\n"
                                "%%3 = aten::scaled_dot_product_attention(%%0, %%1, %%1, %%2) "
                                "{heads = 2, kv_heads = 2}\noutput \"y\" %%3\n",
                                masks[i]));
    outcome got = run(f, "inspect attention.tdir --stage imported --save attention.onnx");
    if (got.status != 0) fail_msg("%s", got.err);
    got = run(f, "inspect attention.onnx --stage imported");
    assert_holds(got.out, i ? "bool[3, 4]" : "f32[1, 1, 3, 4]");
    got = run(f, "compare attention.tdir attention.onnx --backends eager,eager --rtol 1e-6 --atol 1e-6");
    if (got.status != 0) fail_msg("%s%s", got.out, got.err);
  }
}

static void scripts_decide(void **state) {
  fixture *f = *state;
  save_text("story.tdir", story);
  const char *line = base_arena_format(f->arena, "minify story.tdir --output small --cmd '! grep -q maximum \"$1\"'");
  outcome got = run(f, line);
  assert_int_equal(got.status, 0);
  const char *graph = slurp(f, "small/graph.tdir", NULL);
  assert_holds(graph, "aten::maximum");
  assert_int_equal(count_nodes(graph), 1);
  assert_int_equal(system("rm -rf small"), 0);
}

static void what_does_not_fail_is_refused(void **state) {
  fixture *f = *state;
  save_text("story.tdir", story);
  outcome got = run(f, "minify story.tdir --output small");
  assert_int_equal(got.status, 2);
  assert_holds(got.err, "nothing to look for");
  got = run(f, "minify story.tdir --output small --crash --inject neg:wrong");
  assert_int_equal(got.status, 2);
  got = run(f, "minify story.tdir --output small --accuracy --inject neg:compile");
  assert_int_equal(got.status, 2);
  static const char *const nowhere[] = {"run story.tdir --inject gelu:wrong", "compare story.tdir --inject gelu:wrong",
                                        "run story.tdir --backend eager --inject neg:wrong",
                                        "run whole.tdir --inject neg:nan"};
  static const char *const whole[] = {"u8", "i8", "u16", "i16", "i32", "i64"};
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
    save_text("whole.tdir", base_arena_format(f->arena,
                                              "tdir 1\ninput %%0 \"a\": %s[64]\n%%1 = aten::mul(%%0, %%0)\n"
                                              "%%2 = aten::neg(%%1)  # \"node /neg (Neg)\"\noutput \"y\" %%2\n",
                                              whole[i]));
    got = run(f, "compare whole.tdir --inject neg:wrong");
    if (got.status != 1) fail_msg("%s: %s%s", whole[i], got.out, got.err);
  }
  for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
    got = run(f, nowhere[i]);
    if (got.status != 2 || !strstr(got.err, "puts in nothing")) fail_msg("%s: %s", nowhere[i], got.err);
  }
  assert_int_equal(run(f, "run story.tdir --inject neg:wrong --debug-dir seen").status, 0);
  assert_holds(slurp(f, "seen/options.txt", NULL), "inject neg:wrong\n");
  got = run(f, "run story.tdir --inject neg:sideways");
  assert_int_equal(got.status, 2);
  assert_holds(got.err, "OPERATOR:MODE");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_story_ends_at_neg), cmocka_unit_test(a_thousand_nodes_become_few),
      cmocka_unit_test(state_is_cut),          cmocka_unit_test(graphs_become_onnx),
      cmocka_unit_test(constants_come_back),   cmocka_unit_test(masks_have_rows),
      cmocka_unit_test(scripts_decide),        cmocka_unit_test(what_does_not_fail_is_refused),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
