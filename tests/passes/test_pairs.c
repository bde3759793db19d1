/* Products of two activations in bf16. */
#include "passes/change.h"

/* How many products become such. */
static void expect_pairs(const char *level, kern_precision precision, const char *keep, const char *text,
                         uint32_t expected) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0, again = 0;
  const passes_setting setting = {.isa = level_of(level), .precision = precision, .keep_f32 = keep};
  if (find_pass("pairs")->run(graph, &setting, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK ||
      find_pass("pairs")->run(graph, &setting, &again, &err) != TD_OK)
    fail_msg("%s", err.text);
  assert_int_equal(changes, expected);
  assert_int_equal(again, 0);
  ir_graph_free(graph);
  base_arena_free(arena);
}

#define MATMUL(a, b) \
  "input %0 \"a\": f32[" a "]\ninput %1 \"b\": f32[" b "]\n%2 = aten::matmul(%0, %1)  # \"scores\"\noutput \"y\" %2\n"

static void products_of_samples_are_rounded(void **state) {
  (void)state;
  const passes_setting setting = {.isa = level_of("avx512_amx"), .precision = KERN_PRECISION_BF16};
  expect_change_of_text(&setting, "pairs", MATMUL("n, 16, 32", "n, 32, 20"),
                        "input %0 \"a\": f32[n, 16, 32]\ninput %1 \"b\": f32[n, 32, 20]\n"
                        "%2 = aten::matmul(%0, %1) {pairs = true}: f32[n, 16, 20]  # \"scores\"\noutput \"y\" %2\n",
                        1);
  expect_pairs("avx512_amx", KERN_PRECISION_BF16, NULL, MATMUL("n, 16, 32", "32, 20"), 1);
  expect_pairs("avx512_bf16", KERN_PRECISION_BF16, NULL, MATMUL("n, 32, 32", "n, 32, 128"), 1);
  expect_pairs("avx512_amx", KERN_PRECISION_BF16, NULL, MATMUL("n, m, 32", "n, 32, 20"), 1); /* open: many */
  expect_pairs("avx512_amx", KERN_PRECISION_BF16, NULL,
               "input %0 \"x\": f32[n, 16, 20]\ninput %1 \"w\": f32[24, 16]\n%2 = td::mix(%1, %0)\noutput \"y\" %2\n",
               1);
}

static void others_stay(void **state) {
  (void)state;
  static const char product[] = MATMUL("n, 16, 32", "n, 32, 20");
  expect_pairs("avx512_amx", KERN_PRECISION_F32, NULL, product, 0);
  expect_pairs("avx512", KERN_PRECISION_BF16, NULL, product, 0); /* no kernel of such vectors */
  /* few, or little of the right operand, without tiles */
  expect_pairs("avx512_bf16", KERN_PRECISION_BF16, NULL, product, 0);
  expect_pairs("avx512_bf16", KERN_PRECISION_BF16, NULL, MATMUL("n, 31, 64", "n, 64, 64"), 0);
  expect_pairs("avx512_bf16", KERN_PRECISION_BF16, NULL, MATMUL("n, 64, 31", "n, 31, 640"), 0);
  expect_pairs("avx512_bf16", KERN_PRECISION_BF16, NULL, MATMUL("n, 64, 640", "n, 640, 31"), 0);
  expect_pairs("avx512_bf16", KERN_PRECISION_BF16, NULL, MATMUL("n, 49, 32", "n, 32, 127"), 0);
  expect_pairs("avx512_amx", KERN_PRECISION_BF16, "scores", product, 0);
  /* rows that may be samples; few; a size that data define; no floats of 32 bits */
  expect_pairs("avx512_amx", KERN_PRECISION_BF16, NULL, MATMUL("16, 32", "32, 20"), 0);
  expect_pairs("avx512_amx", KERN_PRECISION_BF16, NULL, MATMUL("n, 15, 32", "n, 32, 20"), 0);
  expect_pairs("avx512_amx", KERN_PRECISION_BF16, NULL, MATMUL("n, 16, 32", "n, 32, 15"), 0);
  expect_pairs("avx512_amx", KERN_PRECISION_BF16, NULL, MATMUL("n, 16, 15", "n, 15, 20"), 0);
  expect_pairs("avx512_amx", KERN_PRECISION_BF16, NULL,
               "input %0 \"a\": f32[16, 64, 32]\ninput %1 \"b\": f32[16, 32, 20]\ninput %2 \"which\": bool[64]\n"
               "const %3: i64[1] = {-1}\n%4 = aten::nonzero(%2)\n%5 = aten::view(%4, %3)\n"
               "%6 = aten::index_select(%0, %5) {dim = 1}\n%7 = aten::matmul(%6, %1)\noutput \"y\" %7\n",
               0);
  expect_pairs("avx512_amx", KERN_PRECISION_BF16, NULL,
               "input %0 \"a\": f64[n, 16, 32]\ninput %1 \"b\": f64[n, 32, 20]\n%2 = aten::matmul(%0, %1)\n"
               "output \"y\" %2\n",
               0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_samples_are_rounded), cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
