/* Products with weights of 4, 8 and 16 bits keep them so. */
#include "kernels/products/products.h"
#include "passes/numbers.h"

/* On every level of this machine; those with kernels take the product as one. */
static void expect_nbits(const char *text) {
  expect_same_numbers_on_levels(text);
  const passes_setting setting = {.isa = level_of("avx2")};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  assert_int_equal(find_pass("nbits")->run(graph, &setting, &changes, &err), TD_OK);
  assert_int_equal(changes, 1);
  ir_graph_free(graph);
  base_arena_free(arena);
}

#define BYTES_8 "1, 35, 69, 103, 37, 71, 105, 39"
#define BYTES_16 BYTES_8 ", " BYTES_8

/* `x` makes %6, `y` takes %5. */
#define PRODUCT(x, asks, y)                                                 \
  x "const %1: u8[2, 2, 8] = {" BYTES_16 ", " BYTES_16                      \
    "}\n"                                                                   \
    "const %2: f32[2, 2] = {0.0078125, 0.015625, -0.0078125, 0.00390625}\n" \
    "const %3: u8[2, 1] = {113, 38}\n"                                      \
    "const %4: f32[2] = {0.5, -1}\n"                                        \
    "%5 = td::matmul_nbits(%6, %1, %2, %3, %4) {k = 20, n = 2, bits = 4, block_size = 16" asks "}\n" y
#define RELU "%7 = aten::relu(%5)\noutput \"y\" %7\n"
#define BLOCKS_OF_16(asks) PRODUCT("input %6 \"x\": f32[3, 20]\n", asks, RELU)

static void blocks_have_scales_and_zero_points(void **state) {
  (void)state;
  expect_nbits(BLOCKS_OF_16(""));
  expect_nbits(BLOCKS_OF_16(", x_bits = 16"));
  expect_nbits(PRODUCT("input %6 \"x\": f32[1, 35, 20]\n", ", x_bits = 16", RELU));
}

/* Sums of a block, before its scale, would not be. */
static void large_numbers_stay_finite(void **state) {
  (void)state;
  expect_nbits(PRODUCT("input %0 \"x\": f32[1, 16, 20]\nconst %8: f32[] = {3e37}\n%6 = aten::mul(%0, %8)\n",
                       ", x_bits = 16", "%7 = aten::isinf(%5)\noutput \"y\" %7\n"));
}

/* The fewest that the model or the caller asks for, where kernels have them; of a node that is kept none. */
static void x_has_as_many_bits_as_are_asked_for(void **state) {
  (void)state;
  static const struct {
    const char *model;
    kern_precision precision;
    const char *keep;
    int64_t expected, without; /* with VNNI, without */
  } rows[] = {{BLOCKS_OF_16(""), KERN_PRECISION_F32, NULL, 32, 32},
              {BLOCKS_OF_16(""), KERN_PRECISION_BF16, NULL, 16, 32},
              {BLOCKS_OF_16(""), KERN_PRECISION_F16, NULL, 16, 32},
              {BLOCKS_OF_16(""), KERN_PRECISION_INT8, NULL, 8, 8},
              {BLOCKS_OF_16(", x_bits = 16"), KERN_PRECISION_F32, NULL, 16, 32},
              {BLOCKS_OF_16(", x_bits = 16"), KERN_PRECISION_INT8, NULL, 8, 8},
              {BLOCKS_OF_16(", x_bits = 8"), KERN_PRECISION_BF16, NULL, 8, 8},
              {BLOCKS_OF_16(", x_bits = 16"), KERN_PRECISION_F32, "five", 32, 32},
              {BLOCKS_OF_16(", x_bits = 8"), KERN_PRECISION_INT8, "five", 32, 32}};
  static const char *const levels[] = {"avx2", "avx512_vnni"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows * 2; i++) {
    const passes_setting setting = {
        .isa = level_of(levels[i % 2]), .precision = rows[i / 2].precision, .keep_f32 = rows[i / 2].keep};
    const kern_row *row = kern_select(KERN_LINEAR_NBITS_I8, TD_I8, setting.isa);
    const bool pairs = row && row->signature == KERN_OF_FOURS;
    base_arena *arena = base_arena_new(&base_libc_allocator);
    base_text text = {.allocator = &base_libc_allocator};
    const char *named = strchr(strstr(rows[i / 2].model, "%5"), '}');
    base_text_print(&text, "%.*s  # \"five\"%s", (int)(named + 1 - rows[i / 2].model), rows[i / 2].model, named + 1);
    ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
    td_error err;
    uint32_t changes = 0;
    assert_int_equal(find_pass("nbits")->run(graph, &setting, &changes, &err), TD_OK);
    base_text_free(&text);
    text = (base_text){.allocator = &base_libc_allocator};
    assert_int_equal(ir_print(graph, &text), TD_OK);
    const char *said = strstr(text.at, "x_bits = ");
    assert_int_equal(said ? strtol(said + 9, NULL, 10) : 32, pairs ? rows[i / 2].expected : rows[i / 2].without);
    base_text_free(&text);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

/* Where there are tiles, they multiply x as one bf16 or two if it may be of fewer bits, and rows enough are known. */
static void tiles_take_pairs_where_rows_are_known(void **state) {
  (void)state;
  static const struct {
    const char *x, *asks;
    kern_precision precision;
    int expected; /* bits; 0: blocks of whole numbers, or f32 */
  } rows[] = {{"[1, 16, 16]", "", KERN_PRECISION_BF16, 8},
              {"[1, 16, 16]", "", KERN_PRECISION_INT8, 8},
              {"[1, 16, 16]", "", KERN_PRECISION_F16, 16},
              {"[1, 16, 16]", "", KERN_PRECISION_F32, 0},
              {"[1, 16, 16]", ", x_bits = 16", KERN_PRECISION_F32, 16},
              {"[1, 16, 16]", ", x_bits = 16, bf16 = true", KERN_PRECISION_F32, 8},
              {"[n, 4, 4, 16]", "", KERN_PRECISION_BF16, 8},
              {"[1, 15, 16]", "", KERN_PRECISION_BF16, 0},
              {"[16, 16]", "", KERN_PRECISION_BF16, 0},
              {"[2, n, 16]", "", KERN_PRECISION_BF16, 0}};
  static const char *const levels[] = {"avx512_amx", "avx2"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows * 2; i++) {
    const passes_setting setting = {.isa = level_of(levels[i % 2]), .precision = rows[i / 2].precision};
    base_arena *arena = base_arena_new(&base_libc_allocator);
    base_text text = {.allocator = &base_libc_allocator};
    base_text_print(&text,
                    "input %%0 \"x\": f32%s\nconst %%1: u8[2, 1, 8] = {" BYTES_16
                    "}\nconst %%2: f32[2, 1] = {0.0078125, 0.015625}\n"
                    "%%3 = td::matmul_nbits(%%0, %%1, %%2) {k = 16, n = 2, bits = 4, block_size = 16%s}\n"
                    "output \"y\" %%3\n",
                    rows[i / 2].x, rows[i / 2].asks);
    ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
    td_error err;
    uint32_t changes = 0;
    assert_int_equal(find_pass("nbits")->run(graph, &setting, &changes, &err), TD_OK);
    base_text_free(&text);
    text = (base_text){.allocator = &base_libc_allocator};
    assert_int_equal(ir_print(graph, &text), TD_OK);
    const bool tiles = kern_select(KERN_LINEAR_NBITS, TD_BF16, setting.isa) != NULL;
    const char *pairs = rows[i / 2].expected == 8 ? "x_bits = 8, pairs = true" : "x_bits = 16, pairs = true";
    assert_int_equal(strstr(text.at, rows[i / 2].expected ? pairs : "pairs = true") != NULL,
                     tiles && rows[i / 2].expected);
    base_text_free(&text);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

/* As GPTQ leaves them: each row names its block. */
static void rows_may_be_in_another_order(void **state) {
  (void)state;
  expect_nbits(
      "input %0 \"x\": f32[2, 16]\n"
      "const %1: u8[1, 2, 8] = {" BYTES_16
      "}\n"
      "const %2: f32[1, 2] = {0.0078125, 0.015625}\n"
      "const %3: i32[16] = {0, 1, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0}\n"
      "%4 = td::matmul_nbits(%0, %1, %2, -, -, %3) {k = 16, n = 1, bits = 8, block_size = 8}\n"
      "output \"y\" %4\n");
}

static void dequantised_matrices_are_not_widened(void **state) {
  (void)state;
  expect_nbits(
      "input %0 \"x\": f32[2, 16]\n"
      "const %1: i8[16, 1] = {" BYTES_8
      ", 1, 2, 3, 4, 5, 6, 7, 8}\n"
      "const %2: f32[2, 1] = {0.0078125, 0.015625}\n"
      "const %3: i8[2, 1] = {3, -100}\n"
      "%4 = td::dequantize_linear(%1, %2, %3) {axis = 0, block_size = 8, dtype = f32}\n"
      "%5 = aten::matmul(%0, %4)\noutput \"y\" %5\n");
  expect_nbits(
      "input %0 \"x\": f32[2, 5]\n"
      "const %1: u8[2, 5] = {1, 200, 3, 4, 255, 0, 7, 8, 9, 10}\n"
      "const %2: f32[2] = {0.0078125, 0.015625}\n"
      "const %3: f32[2] = {1, 2}\n"
      "%4 = td::dequantize_linear(%1, %2) {axis = 0, dtype = f32}\n"
      "%5 = td::gemm(%0, %4, %3) {trans_b = true}\noutput \"y\" %5\n");
}

/* `count` numbers, i * `step` apart, as a product has them stored: the graph is `before`, they, and `after`. */
static base_tensor stored(base_arena *arena, const passes_setting *setting, const char *before, int count, double step,
                          const char *after) {
  base_text text = {.allocator = &base_libc_allocator};
  base_text_print(&text, "%s", before);
  for (int i = 0; i < count; i++) base_text_print(&text, "%s%.9g", i ? ", " : "", (i % 255 - 127) * step);
  base_text_print(&text, "%s", after);
  ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  if (find_pass("prepack")->run(graph, setting, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  const ir_value y = ir_block_of(graph, graph->top)->results.at[0];
  const ir_value w = ir_node_of(graph, ir_value_of(graph, y)->node)->in[1];
  const base_tensor *t = ir_value_of(graph, w)->info.constant;
  base_tensor copy = *t;
  copy.data = base_arena_alloc(arena, base_tensor_bytes(t));
  memcpy(copy.data, t->data, base_tensor_bytes(t));
  base_text_free(&text);
  ir_graph_free(graph);
  return copy;
}

/* In panels of 8 columns. The relative error of a bf16 is at most 2^-8, of an f16 2^-11. */
static void weights_are_rounded_once_to_16_bits(void **state) {
  (void)state;
  if (!machine_has("avx2")) skip();
  static const struct {
    kern_precision precision;
    td_dtype dtype;
    double step, error;
  } rows[] = {{KERN_PRECISION_F32, TD_F32, 0.1, 0x1p-24}, {KERN_PRECISION_BF16, TD_BF16, 0.1, 0x1p-8},
              {KERN_PRECISION_F16, TD_F16, 0.1, 0x1p-11}, {KERN_PRECISION_F32, TD_BF16, 0x1p-5, 0},
              {KERN_PRECISION_F32, TD_F16, 0x1.2p-5, 0},  {KERN_PRECISION_INT8, TD_F32, 0.1, 0x1p-24}};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const passes_setting setting = {.isa = level_of("avx2"), .precision = rows[i].precision};
    const base_tensor t = stored(arena, &setting, "input %0 \"x\": f32[2, 512]\nconst %1: f32[512, 512] = {", 512 * 512,
                                 rows[i].step, "}\n%2 = td::linear(%0, %1) {n = 512}\noutput \"y\" %2\n");
    assert_int_equal(t.dtype, rows[i].dtype);
    for (int k = 0; k < 512; k++)
      for (int n = 0; n < 512; n++) {
        const double want = ((k * 512 + n) % 255 - 127) * rows[i].step;
        const double got = base_load_f64(t.dtype, t.data, (n / 8 * 512 + k) * 8 + n % 8);
        if (fabs(got - want) > rows[i].error * fabs(want)) fail_msg("[%d, %d]: %g, not %g", k, n, got, want);
      }
  }
  base_arena_free(arena);
}

static void nodes_that_are_kept_stay_f32(void **state) {
  (void)state;
  if (!machine_has("avx2")) skip();
  static const struct {
    const char *keep;
    td_dtype dtype;
  } rows[] = {{NULL, TD_BF16},       {"", TD_BF16},        {"a.dense", TD_F32},
              {"b,a.dense", TD_F32}, {"dense,a", TD_BF16}, {"a.dens", TD_BF16}};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const passes_setting setting = {
        .isa = level_of("avx2"), .precision = KERN_PRECISION_BF16, .keep_f32 = rows[i].keep};
    const base_tensor t =
        stored(arena, &setting, "input %0 \"x\": f32[2, 512]\nconst %1: f32[512, 512] = {", 512 * 512, 0.1,
               "}\n%2 = td::linear(%0, %1) {n = 512}  # \"a.dense (Linear)\"\noutput \"y\" %2\n");
    assert_int_equal(t.dtype, rows[i].dtype);
  }
  base_arena_free(arena);
}

/* What is packed some rows and channels at a time is what it is at once. */
static void are_pairs(const char *level) {
  const uint32_t isa = level_of(level);
  const passes_setting setting = {.isa = isa, .precision = KERN_PRECISION_BF16, .math = KERN_MATH_EXACT};
  const kern_row *row = kern_select(KERN_LINEAR, TD_BF16, isa);
  enum { K = 131, N = 40, TAPS = 9, COUNT = N * K * TAPS };
  static float numbers[COUNT], panels[2 * COUNT];
  static uint16_t pairs[2 * COUNT];
  if (!row) skip();
  const int64_t depth = kern_pairs_depth_of(row, K);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  for (int i = 0; i < COUNT; i++) numbers[i] = (float)((i % 255 - 127) * 0.1);
  const int64_t in_panel = row->lanes, count = (N + in_panel - 1) / in_panel, dims[] = {N, K, 3, 3};
  const base_tensor kernel = base_tensor_of(numbers, TD_F32, 4, dims);
  base_tensor t = stored(arena, &setting, "input %0 \"x\": f32[2, 131]\nconst %1: f32[131, 40] = {", N * K, 0.1,
                         "}\n%2 = td::linear(%0, %1) {n = 40}\noutput \"y\" %2\n");
  kern_pack(panels, &(kern_matrix){numbers, K, N, N, 1}, NULL, in_panel, 0, count);
  kern_pack_pairs(panels, K, count, in_panel, depth, pairs);
  assert_int_equal(t.dtype, TD_BF16);
  assert_int_equal(base_tensor_numel(&t), count * depth * in_panel);
  assert_memory_equal(t.data, pairs, base_tensor_bytes(&t));
  t = stored(arena, &setting, "input %0 \"x\": f32[1, 5, 6, 131]\nconst %1: f32[40, 131, 3, 3] = {", COUNT, 0.1,
             "}\n%2 = td::conv(%0, %1) {kernel = [3, 3], channels = 40}\noutput \"y\" %2\n");
  kern_pack_conv(&kernel, NULL, false, 1, in_panel, panels);
  kern_pack_pairs(panels, K, count * TAPS, in_panel, depth, pairs);
  assert_int_equal(t.dtype, TD_BF16);
  assert_int_equal(base_tensor_numel(&t), count * TAPS * depth * in_panel);
  assert_memory_equal(t.data, pairs, base_tensor_bytes(&t));
  base_arena_free(arena);
}

static void weights_of_products_of_bf16_are_pairs(void **state) {
  (void)state;
  are_pairs(machine_has("avx512_bf16") ? "avx512_bf16" : "vector");
}

static void those_for_tiles_fill_whole_blocks(void **state) {
  (void)state;
  const char *level = machine_has("avx512_amx") ? "avx512_amx" : "vector_tiles";
  if (!machine_has(level)) skip(); /* a release on a CPU without tiles */
  are_pairs(level);
}

static void bytes_stand_in_panels(void **state) {
  (void)state;
  if (!machine_has("avx2")) return;
  expect_change_with(
      &(passes_setting){.isa = level_of("avx2")}, "nbits",
      "input %0 \"x\": f32[2, 8]\n"
      "const %1: u8[1, 1, 8] = {" BYTES_8
      "}\n"
      "const %2: f32[1, 1] = {0.0078125}\n"
      "%3 = td::matmul_nbits(%0, %1, %2) {k = 8, n = 1, bits = 8, block_size = 8}\n"
      "output \"y\" %3\n",
      "input %0 \"x\": f32[2, 8]\n"
      "const %1: u8[96] = {0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
      "0, 0, 1, 35, 69, 103, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 37, "
      "71, 105, 39, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}\n"
      "%2 = td::linear_nbits(%0, %1) {n = 1, bits = 8, block_size = 8, panel = 8, zeros = false, x_bits = 32, pairs = "
      "false, act = "
      "\"none\", act_a = 0, act_b = 0, act_late = false, in_front = false}: f32[2, 1]\n"
      "output \"y\" %2\n",
      1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_have_scales_and_zero_points),
                                     cmocka_unit_test(large_numbers_stay_finite),
                                     cmocka_unit_test(x_has_as_many_bits_as_are_asked_for),
                                     cmocka_unit_test(tiles_take_pairs_where_rows_are_known),
                                     cmocka_unit_test(rows_may_be_in_another_order),
                                     cmocka_unit_test(dequantised_matrices_are_not_widened),
                                     cmocka_unit_test(weights_are_rounded_once_to_16_bits),
                                     cmocka_unit_test(nodes_that_are_kept_stay_f32),
                                     cmocka_unit_test(weights_of_products_of_bf16_are_pairs),
                                     cmocka_unit_test(those_for_tiles_fill_whole_blocks),
                                     cmocka_unit_test(bytes_stand_in_panels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
