/* Values that only products of bf16 read. */
#include "passes/change.h"

#define INPUTS                         \
  "input %0 \"x\": f32[n, 7, 7, 32]\n" \
  "input %1 \"w\": bf16[1024]\n"       \
  "input %2 \"wide\": bf16[9216]\n"    \
  "input %3 \"matrix\": bf16[1024]\n"
#define CONV "channels = 32, panel = 16"
#define REST                                                                                                  \
  "groups = 1, channels = 32, panel = 16, channels_first = false, act = \"none\", act_a = 0, act_b = 0, act_" \
  "late = false"

static void a_value_is_stored_as_its_readers_take_it(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx512_amx"), "bf16_between",
      INPUTS "%5 = td::conv(%0, %1) {kernel = [1, 1], " CONV
             "}\n"
             "%6 = td::conv(%5, %2) {kernel = [3, 3], padding = [1, 1, 1, 1], " CONV
             "}\n"
             "%7 = td::linear(%6, %3) {n = 32, panel = 16, pairs = true}\n"
             "output \"y\" %7\n",
      INPUTS
      "%4 = td::conv(%0, %1) {kernel = [1, 1], stride = [], padding = [], dilation = [], " REST
      ", result = bf16, in_front = false}: bf16[n, 7, 7, 32]\n"
      "%5 = td::conv(%4, %2) {kernel = [3, 3], stride = [], padding = [1, 1, 1, 1], dilation = [], " REST
      ", result = bf16, in_front = false}: bf16[n, 7, 7, 32]\n"
      "%6 = td::linear(%5, %3) {trans_w = false, n = 32, panel = 16, strassen = false, pairs = true, act = \"none\", "
      "act_a = 0, act_b = 0, act_late = false, in_front = false}: f32[n, 7, 7, 32]\n"
      "output \"y\" %6\n",
      2);
}

/* How many values of the graph become bf16. */
static void expect_changes(const char *level, const char *text, uint32_t expected) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  const passes_setting setting = {.isa = level_of(level), .precision = KERN_PRECISION_BF16};
  if (find_pass("bf16_between")->run(graph, &setting, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  assert_int_equal(changes, expected);
  ir_graph_free(graph);
  base_arena_free(arena);
}

#define FIRST INPUTS "%5 = td::conv(%0, %1) {kernel = [1, 1], " CONV "}\n"
#define SECOND "%6 = td::conv(%5, %1) {kernel = [1, 1], " CONV "}\n"
#define LAST "output \"y\" %7\n"

/* Weights of few bits, 16 columns of 8 rows, whose other operand is rounded to bf16, or is the sum of two. */
#define FEW_BITS(bits)                                                           \
  "input %0 \"x\": f32[1, 16, 8]\ninput %1 \"w\": u8[128]\n"                     \
  "%2 = td::linear_nbits(%0, %1) {n = 8, bits = 4, block_size = 8, panel = 16, " \
  "pairs = true, x_bits = " bits                                                 \
  "}\n"                                                                          \
  "%3 = td::linear_nbits(%2, %1) {n = 8, bits = 4, block_size = 8, panel = 16, " \
  "pairs = true, x_bits = 8}\noutput \"y\" %3\n"

static void weights_of_few_bits_count_as_pairs(void **state) {
  (void)state;
  expect_changes("avx512_amx", FEW_BITS("8"), 1);
  expect_changes("avx512_amx", FEW_BITS("16"), 0);
  expect_changes("avx512_bf16", FEW_BITS("8"), 0);
}

static void residuals_are_read_so_too(void **state) {
  (void)state;
  static const char sum[] = FIRST SECOND "%7 = td::conv(%6, %1, -, %5) {kernel = [1, 1], " CONV "}\n" LAST;
  expect_changes("avx512_amx", sum, 2);
  expect_changes("avx512_bf16", sum, 2);
  expect_changes("avx2", sum, has_pairs("avx2") ? 2 : 0);
}

static void so_are_maxima_of_windows(void **state) {
  (void)state;
#define POOL(out, in) "%" #out " = td::max_pool(%" #in ") {kernel_size = [2, 2], channels_last = true}\n"
  expect_changes("avx512_amx",
                 FIRST POOL(6, 5) POOL(7, 6) "%8 = td::conv(%7, %1) {kernel = [1, 1], " CONV "}\noutput \"y\" %8\n", 3);
  expect_changes("avx512_amx", FIRST POOL(6, 5) POOL(7, 6) LAST, 0);
  expect_changes("avx512_amx", INPUTS POOL(6, 0) "%7 = td::conv(%6, %1) {kernel = [1, 1], " CONV "}\n" LAST, 0);
  expect_changes("avx512_bf16", FIRST POOL(6, 5) "%7 = td::conv(%6, %1) {kernel = [1, 1], " CONV "}\n" LAST, 2);
}

#define WEIGHTS_64 "input %4 \"w64\": bf16[2048]\n"
#define PART(out, in) "%" #out " = td::conv(%" #in ", %1) {kernel = [1, 1], " CONV "}\n"
#define JOIN(out, a, b) "%" #out " = aten::cat(%" #a ", %" #b ") {dim = 3}\n"
#define READS(out, in) "%" #out " = td::conv(%" #in ", %4) {kernel = [1, 1], " CONV "}\n"
static void so_are_parts_of_concatenations(void **state) {
  (void)state;
  const char *level = "avx512_bf16";
  expect_changes(level, INPUTS WEIGHTS_64 PART(5, 0) PART(6, 5) JOIN(7, 5, 6) READS(8, 7) "output \"y\" %8\n", 3);
  /* a part that is the graph's, and what only such a concatenation read */
  expect_changes(level, INPUTS WEIGHTS_64 PART(5, 0) JOIN(7, 5, 0) READS(8, 7) "output \"y\" %8\n", 0);
  expect_changes(level,
                 INPUTS WEIGHTS_64 PART(5, 0) POOL(6, 5) POOL(7, 0) JOIN(8, 6, 7) READS(9, 8) "output \"y\" %9\n", 0);
  /* another reads the part, or the whole */
  expect_changes(
      level, INPUTS WEIGHTS_64 PART(5, 0) PART(6, 0) JOIN(7, 5, 6) READS(8, 7) "output \"y\" %8\noutput \"z\" %6\n", 0);
  expect_changes(
      level, INPUTS WEIGHTS_64 PART(5, 0) PART(6, 0) JOIN(7, 5, 6) READS(8, 7) "output \"y\" %8\noutput \"z\" %7\n", 0);
}

static void so_are_slices(void **state) {
  (void)state;
#define WHERE(first, end, axis) \
  "const %20: i64[1] = {" #first "}\nconst %21: i64[1] = {" #end "}\nconst %22: i64[1] = {" #axis "}\n"
#define SLICE(out, in) "%" #out " = aten::slice(%" #in ", %20, %21, %22)\n"
#define HALVES "input %4 \"half\": bf16[512]\n"
#define HALF(out, in) "%" #out " = td::conv(%" #in ", %4) {kernel = [1, 1], " CONV "}\n"
  const char *level = "avx512_bf16";
  expect_changes(level, INPUTS HALVES WHERE(16, 32, 3) PART(5, 0) SLICE(6, 5) HALF(7, 6) LAST, 2);
  expect_changes(level, INPUTS HALVES WHERE(16, 32, -1) PART(5, 0) SLICE(6, 5) HALF(7, 6) "output \"z\" %5\n" LAST, 0);
  expect_changes(level, INPUTS HALVES WHERE(15, 31, 3) PART(5, 0) SLICE(6, 5) HALF(7, 6) LAST, 0);
  expect_changes(level, INPUTS WHERE(1, 4, 1) PART(5, 0) SLICE(6, 5) PART(7, 6) LAST, 2);
}

static void so_are_images_of_expansions(void **state) {
  (void)state;
#define EXPAND(out, in, w, channels)                                \
  "%" #out " = td::expand_depthwise(%" #in ", %4, -, -, -, -, %" #w \
  ") {kernel = [3, 3], padding = [1, 1, 1, 1], "                    \
  "channels = " #channels ", panel = 16}\n"
#define WINDOW(channels) "input %4 \"window\": f32[9, " #channels "]\n"
  const char *level = "avx512_bf16";
  expect_changes(level, FIRST WINDOW(32) EXPAND(6, 5, 1, 32) "%7 = td::conv(%6, %1) {kernel = [1, 1], " CONV "}\n" LAST,
                 2);
  expect_changes("avx512_amx", FIRST WINDOW(32) EXPAND(6, 5, 1, 32) "output \"y\" %6\n", 1);
  expect_changes(level, FIRST WINDOW(32) EXPAND(6, 5, 1, 32) "output \"y\" %6\n", 1);
}

/* Those of a depthwise convolution, where the image is so large that bytes are what it waits for. */
static void so_are_large_images_under_windows(void **state) {
  (void)state;
#define IMAGE(size)                                                      \
  "input %0 \"x\": f32[n, " #size ", " #size                             \
  ", 32]\ninput %1 \"w\": bf16[1024]\ninput %4 \"window\": f32[9, 32]\n" \
  "%5 = td::conv(%0, %1) {kernel = [1, 1], " CONV "}\n"
#define UNDER(out, in, stride)                                                                                \
  "%" #out " = td::depthwise_conv(%" #in ", %4) {kernel = [3, 3], padding = [1, 1, 1, 1], stride = [" #stride \
  ", " #stride "], groups = 32, channels = 32, panel = 1}\n"
  const char *level = "avx512_amx";
  expect_changes(level, IMAGE(100) UNDER(6, 5, 1) PART(7, 6) LAST, 2);
  expect_changes(level, IMAGE(100) UNDER(6, 5, 2) PART(7, 6) LAST, 1); /* its result is small */
  expect_changes(level, IMAGE(90) UNDER(6, 5, 1) PART(7, 6) LAST, 0);
  expect_changes(level, IMAGE(k) UNDER(6, 5, 1) PART(7, 6) LAST, 2); /* open: as large as usual pictures */
  expect_changes(level, IMAGE(100) UNDER(7, 5, 1) LAST, 1);
  expect_changes(level, IMAGE(100) UNDER(7, 5, 1) "output \"z\" %5\n" LAST, 0);
  expect_changes("avx512_bf16", IMAGE(100) UNDER(6, 5, 1) PART(7, 6) LAST, 2);
  expect_changes("avx512", IMAGE(100) UNDER(7, 5, 1) LAST, 0); /* no kernel */
}

#define NORM(out, in, more) \
  "%" #out " = aten::native_group_norm(%" #in ") {num_groups = 4, channels_last = true" more "}\n"
static void so_are_large_images_of_norms(void **state) {
  (void)state;
  const char *level = "avx512_amx";
  expect_changes(level, IMAGE(100) NORM(6, 5, "") PART(7, 6) LAST, 2);
  expect_changes(level, IMAGE(100) NORM(6, 5, ", act = \"relu\", act_a = 0, act_b = 0") PART(7, 6) LAST, 2);
  expect_changes(level, IMAGE(100) NORM(7, 5, "") LAST, 2); /* its result says that it is f32 */
  expect_changes(level, IMAGE(100) NORM(6, 5, "") NORM(8, 6, "") PART(7, 8) LAST, 3);
  expect_changes(level, IMAGE(90) NORM(6, 5, "") PART(7, 6) LAST, 0);
  expect_changes("avx512_bf16", IMAGE(100) NORM(6, 5, "") PART(7, 6) LAST, 0);
}

static void so_are_borders_and_repetitions(void **state) {
  (void)state;
#define TABLES                                                                                    \
  "const %10: i64[8] = {0, 1, 1, 0, 0, 1, 1, 0}\nconst %11: i64[8] = {0, 1, 1, 1, 0, 1, 1, -1}\n" \
  "const %12: f32[4] = {1, 2, 2, 1}\n"
#define MIRROR(out, in, pads) "%" #out " = aten::reflection_pad(%" #in ", %" #pads ")\n"
#define LARGER(out, in, mode) "%" #out " = td::resize(%" #in ", -, %12) {mode = \"" mode "\"}\n"
  const char *level = "avx512_amx";
  expect_changes(level, INPUTS TABLES PART(5, 0) MIRROR(6, 5, 10) PART(7, 6) LAST, 2);
  expect_changes(level, INPUTS TABLES PART(5, 0) MIRROR(6, 5, 11) PART(7, 6) LAST, 0);
  expect_changes(level, INPUTS TABLES PART(5, 0) LARGER(6, 5, "nearest") PART(7, 6) LAST, 2);
  expect_changes(level, INPUTS TABLES PART(5, 0) LARGER(6, 5, "linear") PART(7, 6) LAST, 0);
  expect_changes(level, INPUTS TABLES PART(5, 0) LARGER(6, 5, "nearest") MIRROR(8, 6, 10) PART(7, 8) LAST, 3);
  expect_changes(level, INPUTS TABLES MIRROR(6, 0, 10) PART(7, 6) LAST, 0);
  /* by way of a mover to a norm */
  expect_changes(level, IMAGE(100) TABLES MIRROR(6, 5, 10) NORM(7, 6, "") LAST, 3);
}

#define RUN_PASS(name) \
  if (find_pass(name)->run(graph, &setting, &changes, &err) != TD_OK) fail_msg("%s", err.text)

/* Results of loops of a graph that are bf16, behind the passes fuse and this one. */
static uint32_t narrow_results(const char *level, const char *text) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0, count = 0;
  const passes_setting setting = {
      .isa = level_of(level), .precision = KERN_PRECISION_BF16, .fuse = {.isa = level_of(level), .compiled = true}};
  RUN_PASS("fuse");
  RUN_PASS("bf16_between");
  if (ir_verify(graph, &err) != TD_OK) fail_msg("%s", err.text);
  const ir_block_def *top = ir_block_of(graph, graph->top);
  for (uint32_t i = 0; i < top->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(graph, top->nodes.at[i]);
    for (uint32_t k = 0; node->op && node->op->id == OP_td_fused && k < node->out_count; k++)
      count += ir_type_of(graph, node->out[k])->dtype == TD_BF16;
  }
  ir_graph_free(graph);
  base_arena_free(arena);
  return count;
}

/* An operator that waits for memory becomes a loop that reads and stores bf16. */
static void so_are_large_images_of_loops(void **state) {
  (void)state;
  const char *level = "avx512_amx";
#define SUM(out, a, b) "%" #out " = aten::add(%" #a ", %" #b ")\n"
#define TWO(size) IMAGE(size) "%6 = td::conv(%0, %1) {kernel = [1, 1], " CONV "}\n"
  expect_changes(level, TWO(100) SUM(8, 5, 6) PART(7, 8) LAST, 3);
  expect_changes(level, TWO(100) SUM(7, 5, 6) LAST, 3); /* it reads bf16 */
  expect_changes(level, TWO(100) SUM(8, 5, 6) SUM(9, 8, 5) PART(7, 9) LAST, 4);
  expect_changes(level, TWO(100) SUM(8, 5, 6) PART(7, 8) "output \"z\" %8\n" LAST, 3);
  expect_changes(level, TWO(90) SUM(8, 5, 6) PART(7, 8) LAST, 0);
  expect_changes(level, IMAGE(100) "const %10: f32[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, "
                                 "3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5}\n" SUM(8, 5, 10) PART(7, 8) LAST,
                 0); /* it also reads a number of each channel */
  expect_changes("avx512_bf16", TWO(100) SUM(8, 5, 6) PART(7, 8) LAST, 0);
  /* two results, of which one is an output as it is */
#define LOOP SUM(8, 5, 6) "%9 = aten::sigmoid(%8)\n%10 = aten::mul(%9, %5)\n"
  assert_int_equal(narrow_results(level, TWO(100) LOOP PART(7, 10) LAST), 1);
  assert_int_equal(narrow_results(level, TWO(100) LOOP PART(7, 10) "%11 = td::conv(%9, %1) {kernel = [1, 1], " CONV
                                                                   "}\noutput \"z\" %11\n" LAST),
                   2);
  assert_int_equal(narrow_results(level, TWO(100) LOOP PART(7, 10) "output \"z\" %9\n" LAST), 1);
  assert_int_equal(narrow_results("avx512_bf16", TWO(100) LOOP PART(7, 10) LAST), 0);
}

static void others_stay(void **state) {
  (void)state;
  /* an output; another reader; a bias; a matrix that is none of pairs; a chain in front, and one behind */
  expect_changes("avx512_amx", FIRST "%7 = td::conv(%5, %1) {kernel = [1, 1], " CONV "}\noutput \"z\" %5\n" LAST, 0);
  expect_changes("avx512_amx",
                 FIRST "%7 = td::conv(%5, %1) {kernel = [1, 1], " CONV "}\n%8 = aten::relu(%5)\noutput \"z\" %8\n" LAST,
                 0);
  expect_changes("avx512_amx", FIRST "%7 = td::linear(%5, %3) {n = 32, panel = 16}\n" LAST, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_value_is_stored_as_its_readers_take_it),
                                     cmocka_unit_test(weights_of_few_bits_count_as_pairs),
                                     cmocka_unit_test(residuals_are_read_so_too),
                                     cmocka_unit_test(so_are_maxima_of_windows),
                                     cmocka_unit_test(so_are_parts_of_concatenations),
                                     cmocka_unit_test(so_are_slices),
                                     cmocka_unit_test(so_are_images_of_expansions),
                                     cmocka_unit_test(so_are_large_images_under_windows),
                                     cmocka_unit_test(so_are_large_images_of_norms),
                                     cmocka_unit_test(so_are_borders_and_repetitions),
                                     cmocka_unit_test(so_are_large_images_of_loops),
                                     cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
