/* Products with weights of 4, 8 and 16 bits keep them so. */
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

static void blocks_have_scales_and_zero_points(void **state) {
  (void)state;
  expect_nbits(
      "input %0 \"x\": f32[3, 20]\n"
      "const %1: u8[2, 2, 8] = {" BYTES_16 ", " BYTES_16
      "}\n"
      "const %2: f32[2, 2] = {0.0078125, 0.015625, -0.0078125, 0.00390625}\n"
      "const %3: u8[2, 1] = {113, 38}\n"
      "const %4: f32[2] = {0.5, -1}\n"
      "%5 = td::matmul_nbits(%0, %1, %2, %3, %4) {k = 20, n = 2, bits = 4, block_size = 16}\n"
      "%6 = aten::relu(%5)\noutput \"y\" %6\n");
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

/* A matrix of 512 x 512 numbers, i * `step` apart, as it is stored. */
static base_tensor stored(base_arena *arena, double step, kern_precision precision) {
  enum { SIDE = 512 };
  base_text text = {.allocator = &base_libc_allocator};
  base_text_print(&text, "input %%0 \"x\": f32[2, %d]\nconst %%1: f32[%d, %d] = {", SIDE, SIDE, SIDE);
  for (int i = 0; i < SIDE * SIDE; i++) base_text_print(&text, "%s%.9g", i ? ", " : "", (i % 255 - 127) * step);
  base_text_print(&text, "}\n%%2 = td::linear(%%0, %%1) {n = %d}\noutput \"y\" %%2\n", SIDE);
  ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  const passes_setting setting = {.isa = level_of("avx2"), .precision = precision};
  if (find_pass("prepack")->run(graph, &setting, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
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
    const base_tensor t = stored(arena, rows[i].step, rows[i].precision);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_have_scales_and_zero_points), cmocka_unit_test(rows_may_be_in_another_order),
      cmocka_unit_test(dequantised_matrices_are_not_widened), cmocka_unit_test(weights_are_rounded_once_to_16_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
