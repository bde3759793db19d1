/* ctest: slow */
/* test_loop_groups.c -- how many loops a graph becomes, and how many of the operators that could be in one, or move
 * data, are unfused: of models, and of the forms that index arithmetic takes in them. A join that --why lists may be
 * made in place: see join.c. */
#include "compile/compile.h"
#include "fuse/fuse.h"
#include "kernels/loops/loops.h"
#include "ops/ops.h"
#include "runtime/harness.h"
#include "treadle/treadle.h"

static uint32_t count_of(const char *text, const char *what) {
  uint32_t count = 0;
  for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) count++;
  return count;
}

static void expect_counts(const char *name, const char *text, uint32_t loops, uint32_t alone) {
  const uint32_t found = count_of(text, "# loop "), left = count_of(text, "# unfused: ");
  if (found == loops && left == alone) return;
  fprintf(stderr, "%s:\n%s\n", name, text);
  fail_msg("%s: %u loops and %u operators alone, not %u and %u", name, found, left, loops, alone);
}

typedef struct sample {
  const char *name, *text;
  uint32_t loops, alone;
} sample;

static const sample samples[] = {
    {"weights of corners: short rows, of which many points have one of each",
     "input %0 \"x\": f32[512, 1, 3]\ninput %1 \"c\": f32[8, 3]\n"
     "%2 = aten::mul(%0, %1)\n%3 = aten::add(%2, %1)\n%4 = aten::prod(%3) {dim = [-1]}\noutput \"z\" %4\n",
     1, 0},
    {"the same of few points: few short rows repeat, and are no loop with their product",
     "input %0 \"x\": f32[12, 1, 3]\ninput %1 \"c\": f32[8, 3]\n"
     "%2 = aten::mul(%0, %1)\n%3 = aten::add(%2, %1)\n%4 = aten::prod(%3) {dim = [-1]}\noutput \"z\" %4\n",
     2, 0},
    {"distances of points, the nearest so far",
     "input %0 \"points\": f32[n, 256, 3]\ninput %1 \"from\": f32[n, 1, 3]\ninput %2 \"nearest\": f32[n, 256]\n"
     "const %3: f32[] = {2}\n%4 = aten::sub(%0, %1)\n%5 = aten::pow(%4, %3)\n%6 = aten::sum(%5) {dim = [-1]}\n"
     "%7 = aten::minimum(%6, %2)\noutput \"z\" %7\n",
     1, 0},
    {"the mean of colours along channels, and what it is taken from",
     "input %0 \"x\": f32[n, 3, 64, 64]\ninput %1 \"w\": f32[3, 1, 1]\n%2 = aten::mul(%0, %1)\n"
     "%3 = aten::mean(%2) {dim = [1], keepdim = true}\n%4 = aten::sub(%0, %3)\noutput \"z\" %4\n",
     1, 0},
    {"a sum along many channels has a kernel, which adds in another order",
     "input %0 \"x\": f32[n, 32, 64, 64]\n%2 = aten::abs(%0)\n%3 = aten::mean(%2) {dim = [1], keepdim = true}\n"
     "%4 = aten::sub(%0, %3)\noutput \"z\" %4\n",
     0, 3},
    {"sums of tokens from the last one on, of more of them than it: an axis that is not the last",
     "input %0 \"x\": f32[n, 64, 48]\nconst %1: i64[] = {1}\n%2 = aten::tanh(%0)\n"
     "%3 = aten::cumsum(%2, %1) {reverse = true, exclusive = true}\n%4 = aten::logcumsumexp(%2) {dim = 1}\n"
     "%5 = aten::sub(%3, %4)\noutput \"z\" %5\n",
     1, 0},
    {"a chain",
     "input %0 \"x\": f32[n, 37]\ninput %1 \"y\": f32[37]\n"
     "%2 = aten::add(%0, %1)\n%3 = aten::mul(%2, %0)\n%4 = aten::relu(%3)\noutput \"z\" %4\n",
     1, 0},
    {"a norm of vectors, spelled out with an expand",
     "input %0 \"x\": f32[4, 3, 64, 32]\nconst %1: i64[4] = {4, 3, 64, 32}\nconst %2: f32[] = {1e-12}\n"
     "%3 = aten::linalg_vector_norm(%0) {dim = [-1], keepdim = true}\n%4 = aten::clamp(%3, %2)\n"
     "%5 = aten::expand(%4, %1)\n%6 = aten::div(%0, %5)\noutput \"z\" %6\n",
     1, 0},
    {"scores of windows, a mask between reshapes, softmax",
     "input %0 \"s\": f32[8, 3, 64, 64]\ninput %1 \"bias\": f32[1, 3, 64, 64]\ninput %2 \"mask\": f32[2, 1, 64, 64]\n"
     "const %3: i64[5] = {4, 2, 3, 64, 64}\nconst %4: i64[4] = {8, 3, 64, 64}\n"
     "%5 = aten::add(%0, %1)\n%6 = aten::view(%5, %3)\n%7 = aten::add(%6, %2)\n%8 = aten::view(%7, %4)\n"
     "%9 = aten::_softmax(%8)\noutput \"z\" %9\n",
     1, 0},
    {"the gate of tokens: one half is seen transposed",
     "input %0 \"u\": f32[n, 64, 48]\ninput %1 \"v\": f32[n, 48, 64]\n"
     "%2 = aten::permute(%1) {dims = [0, 2, 1]}\n%3 = aten::mul(%0, %2)\noutput \"z\" %3\n",
     1, 0},
    {"windows of an image behind an activation: the loop writes their order",
     "input %0 \"x\": f32[1, 56, 56, 96]\nconst %1: i64[6] = {1, 7, 8, 7, 8, 96}\nconst %2: i64[3] = {49, 64, 96}\n"
     "%3 = aten::tanh(%0)\n%4 = aten::view(%3, %1)\n%5 = aten::permute(%4) {dims = [0, 1, 3, 2, 4, 5]}\n"
     "%6 = aten::view(%5, %2)\noutput \"z\" %6\n",
     1, 0},
    {"turned positions: halves joined",
     "input %0 \"q\": f32[1, 8, n, 64]\ninput %1 \"cos\": f32[n, 64]\ninput %2 \"sin\": f32[n, 64]\n"
     "const %3: i64[1] = {0}\nconst %4: i64[1] = {32}\nconst %5: i64[1] = {64}\nconst %6: i64[1] = {3}\n"
     "%7 = aten::slice(%0, %3, %4, %6)\n%8 = aten::slice(%0, %4, %5, %6)\n%9 = aten::neg(%8)\n"
     "%10 = aten::cat(%9, %7) {dim = 3}\n%11 = aten::mul(%0, %1)\n%12 = aten::mul(%10, %2)\n"
     "%13 = aten::add(%11, %12)\noutput \"z\" %13\n",
     2, 1},
    {"what no epilogue has behind a product, and a gate: its chain",
     "input %0 \"x\": f32[n, 12, 4]\ninput %1 \"gate\": f32[n, 1, 3]\n"
     "const %2: f32[4, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n%3 = aten::matmul(%0, %2)\n"
     "%4 = aten::mish(%3)\n%5 = aten::mul(%4, %1)\noutput \"z\" %5\n",
     0, 0},
    {"scores of queries and keys, scaled and masked: the chain of their product",
     "input %0 \"q\": f32[n, 4, 12, 8]\ninput %1 \"k\": f32[n, 4, 8, 12]\ninput %2 \"mask\": f32[n, 1, 1, 12]\n"
     "const %3: f32[] = {0.125}\n%4 = aten::matmul(%0, %1)\n%5 = aten::mul(%4, %3)\n%6 = aten::add(%5, %2)\n"
     "%7 = aten::sigmoid(%6)\noutput \"z\" %7\n",
     0, 0},
    {"a product with a vector has no rows for a chain",
     "input %0 \"x\": f32[n, 12, 8]\ninput %1 \"v\": f32[8]\n%2 = aten::matmul(%0, %1)\n%3 = aten::mish(%2)\n"
     "%4 = aten::mul(%3, %3)\noutput \"z\" %4\n",
     1, 0},
    {"a product that others read, too: a loop behind it",
     "input %0 \"x\": f32[n, 4]\nconst %2: f32[4, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
     "%3 = aten::matmul(%0, %2)\n%4 = aten::mish(%3)\n%5 = aten::softplus(%4)\noutput \"z\" %5\noutput \"y\" %3\n",
     1, 0},
    {"a product whose loop has two results: both are the chain's",
     "input %0 \"x\": f32[n, 12, 4]\ninput %1 \"gate\": f32[n, 1, 3]\n"
     "const %2: f32[4, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n%3 = aten::matmul(%0, %2)\n"
     "%4 = aten::mish(%3)\n%5 = aten::mul(%4, %1)\noutput \"z\" %5\noutput \"y\" %4\n",
     0, 0},
    {"the same, of more than caches keep: a loop, which writes past them",
     "input %0 \"x\": f32[4096, 16]\ninput %1 \"w\": f32[16, 1024]\ninput %2 \"gate\": f32[1024]\n"
     "%3 = aten::matmul(%0, %1)\n%4 = aten::mish(%3)\n%5 = aten::mul(%4, %2)\noutput \"z\" %5\noutput \"y\" %4\n",
     1, 0},
    {"one operator behind few elements of a product: its kernel is done before a chain is set up",
     "input %0 \"x\": f32[8, 4]\nconst %2: f32[4, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
     "%3 = aten::matmul(%0, %2)\n%4 = aten::softplus(%3)\noutput \"z\" %4\n",
     0, 1},
    {"the mask of a sequence, of whole numbers and truth, spelled out; scores over another space",
     "input %0 \"attention_mask\": i64[n, 1, 32, 32]\ninput %1 \"later\": bool[1, 1, 32, 32]\n"
     "input %2 \"scores\": f32[n, 4, 32, 32]\nconst %3: i64[] = {0}\nconst %4: f32[] = {-3.4e38}\n"
     "const %5: f32[] = {0}\n%6 = aten::eq(%0, %3)\n%7 = aten::bitwise_or(%6, %1)\n%8 = aten::where(%7, %4, %5)\n"
     "%9 = aten::add(%2, %8)\n%10 = aten::_softmax(%9)\noutput \"z\" %10\n",
     1, 0},
    {"the same mask for many heads: computing it in each would cost more than it saves",
     "input %0 \"attention_mask\": i64[8, 1, 32, 32]\ninput %2 \"scores\": f32[8, 64, 32, 32]\n"
     "const %3: i64[] = {0}\nconst %4: f32[] = {-3.4e38}\nconst %5: f32[] = {0}\n%6 = aten::eq(%0, %3)\n"
     "%8 = aten::where(%6, %4, %5)\n%9 = aten::add(%2, %8)\n%10 = aten::_softmax(%9)\noutput \"z\" %10\n",
     2, 0},
    {"scales of channels, read by two loops that a product parts",
     "input %0 \"x\": f32[2, 16, 8]\ninput %1 \"a\": f32[16, 1]\ninput %2 \"b\": f32[16, 1]\n"
     "const %3: f32[8, 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}\n%4 = aten::add(%1, %2)\n"
     "%5 = aten::relu(%4)\n%6 = aten::mul(%0, %5)\n%7 = aten::abs(%6)\n%8 = aten::matmul(%7, %3)\n"
     "%9 = aten::_softmax(%8)\n%10 = aten::sub(%9, %5)\noutput \"z\" %10\n",
     2, 0},
    {"the same scales, and one who reads them is no loop: they are in memory",
     "input %0 \"x\": f32[n, 16, 8]\ninput %1 \"a\": f32[16, 8]\ninput %2 \"b\": f32[16, 8]\n"
     "const %3: f32[8, 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}\n%4 = aten::add(%1, %2)\n"
     "%5 = aten::relu(%4)\n%6 = aten::mul(%0, %5)\n%7 = aten::abs(%6)\n%8 = aten::matmul(%5, %3)\n"
     "output \"z\" %7\noutput \"y\" %8\n",
     2, 0},
    {"embeddings of words and of kinds of tokens, positions, and the norm of their sum",
     "input %0 \"ids\": i64[n, 3]\ninput %1 \"kinds\": i64[n, 3]\ninput %8 \"w\": f32[4]\ninput %9 \"b\": f32[4]\n"
     "input %10 \"positions\": f32[1, 3, 4]\nconst %2: f32[3, 4] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}\n"
     "const %3: f32[2, 4] = {0, 1, 2, 3, 4, 5, 6, 7}\n%4 = aten::index_select(%2, %0) {dim = 0}\n"
     "%5 = aten::index_select(%3, %1) {dim = 0}\n%6 = aten::add(%4, %5)\n%11 = aten::add(%6, %10)\n"
     "%7 = aten::native_layer_norm(%11, %8, %9)\noutput \"z\" %7\n",
     1, 0},
    {"scores of content and of positions, each taken from where its own index tells",
     "input %0 \"scores\": f32[n, 32, 32]\ninput %1 \"positions\": f32[n, 32, 64]\n"
     "input %2 \"at\": i64[n, 32, 32]\n%3 = aten::gather(%1, %2) {dim = -1}\n%4 = aten::add(%0, %3)\n"
     "%5 = aten::_softmax(%4)\noutput \"z\" %5\n",
     1, 0},
    {"rotary positions: whole numbers, made again in the loop of sine and cosine, which is over another space",
     "input %0 \"positions\": i64[n, 16, 1]\ninput %1 \"frequencies\": f32[32]\nconst %2: i64[] = {1}\n"
     "%3 = aten::add(%0, %2)\n%4 = aten::_to_copy(%3) {dtype = f32}\n%5 = aten::mul(%4, %1)\n%6 = aten::cos(%5)\n"
     "%7 = aten::sin(%5)\noutput \"cos\" %6\noutput \"sin\" %7\n",
     1, 0},
    {"layer norm of a sum, and the sum",
     "input %0 \"x\": f32[n, 256]\ninput %1 \"y\": f32[n, 256]\ninput %2 \"w\": f32[256]\ninput %3 \"b\": f32[256]\n"
     "%4 = aten::add(%0, %1)\n%5 = aten::native_layer_norm(%4, %2, %3)\n%6 = aten::gelu(%5)\n%7 = aten::add(%6, %4)\n"
     "output \"z\" %7\n",
     1, 0},
};

/* `alone`: as td_load_options.alone. */
static void expect_loops(const sample *one, const char *alone) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, one->text, &base_libc_allocator);
  base_text text = {.allocator = &base_libc_allocator};
  sys_machine machine;
  td_error err;
  sys_machine_read(&machine);
  const compile_setting setting = {.backend = compile_find_backend(NULL),
                                   .isa = machine.isa | BASE_ISA_VECTOR,
                                   .options.cc = "cc",
                                   .options.cache = "unused",
                                   .options.alone = alone};
  if (compile_explain_loops(graph, &setting, true, &base_libc_allocator, &text, &err) != TD_OK)
    fail_msg("%s: %s", one->name, err.text);
  expect_counts(one->name, text.at, one->loops, one->alone);
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void samples_become_loops(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) expect_loops(&samples[i], NULL);
}

/* Where computing is dear, positions become numbers in a loop of their own, not again for each frequency. */
static void machines_differ(void **state) {
  (void)state;
  base_speed slow = base_speed_default;
  slow.flops_per_ns = 1e-3;
  const base_speed *const speeds[] = {NULL, &base_speed_default, &slow};
  static const uint32_t loops[] = {1, 1, 2};
  for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
    const fuse_setting setting = {.isa = BASE_ISA_VECTOR, .compiled = true, .speed = speeds[i]};
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph =
        parse_graph(arena,
                    "input %0 \"positions\": i64[4, 1, 16]\ninput %1 \"frequencies\": f32[32, 1]\n"
                    "const %2: i64[] = {1}\n%3 = aten::add(%0, %2)\n%4 = aten::_to_copy(%3) {dtype = f32}\n"
                    "%5 = aten::mul(%4, %1)\n%6 = aten::cos(%5)\n%7 = aten::sin(%5)\n"
                    "output \"cos\" %6\noutput \"sin\" %7\n",
                    &base_libc_allocator);
    td_error err;
    uint32_t changes = 0;
    assert_int_equal(fuse_groups(graph, &setting, &changes, &err), TD_OK);
    assert_int_equal(changes, loops[i]);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

/* Rows of less than KERN_FUSED_SHORT elements are computed across, many at a time. */
static void few_elements_go_across(void **state) {
  (void)state;
  for (int n = KERN_FUSED_SHORT - 1; n <= KERN_FUSED_SHORT; n++) {
    const fuse_setting setting = {.isa = BASE_ISA_VECTOR, .compiled = true};
    base_arena *arena = base_arena_new(&base_libc_allocator);
    base_text text = {.allocator = &base_libc_allocator};
    ir_graph *graph = parse_graph(arena,
                                  base_arena_format(arena,
                                                    "input %%0 \"x\": f32[512, %d]\n%%1 = aten::abs(%%0)\n"
                                                    "%%2 = aten::sum(%%1) {dim = [-1], keepdim = true}\n"
                                                    "%%3 = aten::sub(%%0, %%2)\noutput \"z\" %%3\n",
                                                    n),
                                  &base_libc_allocator);
    td_error err;
    uint32_t changes = 0;
    assert_int_equal(fuse_groups(graph, &setting, &changes, &err), TD_OK);
    assert_int_equal(changes, 1);
    assert_int_equal(fuse_print(graph, &setting, &text, &err), TD_OK);
    if ((strstr(text.at, " across") != NULL) != (n < KERN_FUSED_SHORT)) fail_msg("%d:\n%s", n, text.at);
    base_text_free(&text);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

/* What is told to stand alone does; of operators that have no kernel of their own each is a loop. */
static void told_to_stand_alone(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[n, 37]\ninput %1 \"y\": f32[37]\n"
      "%2 = aten::add(%0, %1)  # \"node /a (Add)\"\n%3 = aten::mul(%2, %0)  # \"node /b (Mul)\"\n"
      "%4 = aten::relu(%3)  # \"node /c (Relu)\"\noutput \"z\" %4\n";
  expect_loops(&(sample){"all joined", text, 1, 0}, NULL);
  expect_loops(&(sample){"others' names", text, 1, 0}, "/d,/e");
  expect_loops(&(sample){"the last alone", text, 1, 1}, "/c");
  expect_loops(&(sample){"the one between alone", text, 0, 3}, "x,/b");
  expect_loops(&(sample){"all alone", text, 0, 3}, "*");
}

/* What is told to go behind no product is a loop of its own, joined as it would be. */
static void told_to_stay_loops(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[n, 4]\nconst %1: f32[4, 4] = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}\n"
      "%2 = aten::matmul(%0, %1)  # \"node /p (MatMul)\"\n%3 = aten::tanh(%2)  # \"node /a (Tanh)\"\n"
      "%4 = aten::mul(%3, %2)  # \"node /b (Mul)\"\n%5 = aten::mul(%4, %0)  # \"node /c (Mul)\"\noutput \"z\" %5\n";
  expect_loops(&(sample){"a chain", text, 0, 0}, NULL);
  expect_loops(&(sample){"others' names", text, 0, 0}, "chain=/p,chain=/d");
  expect_loops(&(sample){"a loop", text, 1, 0}, "chain=/b");
  expect_loops(&(sample){"any loop", text, 1, 0}, "chain=*");
}

/* Loops, and unfused operators: each of them for a reason that --why gives. */
static void models_become_loops(void **state) {
  (void)state;
  static const sample models[] = {{"builtin:small_lstm", NULL, 0, 1},  {"builtin:mobilenet_v3_small", NULL, 0, 9},
                                  {"builtin:minilm_l6", NULL, 2, 12},  {"builtin:dlrm", NULL, 0, 29},
                                  {"builtin:fused_chain", NULL, 1, 0}, {"builtin:efficientnet_b0", NULL, 0, 16}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    const td_load_options options = {.size = sizeof options, .backend = "interp"};
    td_model *model;
    td_error err;
    char *text;
    if (td_model_load(models[i].name, &options, &model, &err) != TD_OK) fail_msg("%s", err.text);
    assert_int_equal(td_model_print(model, "why", "text", &text, &err), TD_OK);
    if (strstr(models[i].name, "mobilenet"))
      assert_non_null(strstr(text, "aten::mul, its result is small enough to stay in cache"));
    for (const char *at = text; (at = strstr(at, "# unfused: ")); at++)
      assert_non_null(strstr(at, ", ")); /* a reason */
    expect_counts(models[i].name, text, models[i].loops, models[i].alone);
    td_text_free(model, text);
    td_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(samples_become_loops), cmocka_unit_test(machines_differ),
                                     cmocka_unit_test(told_to_stand_alone),  cmocka_unit_test(few_elements_go_across),
                                     cmocka_unit_test(told_to_stay_loops),   cmocka_unit_test(models_become_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
