/* Recurrent layers with constant weights get packed ones, each result in the place of its own: in memory that was used
 * before, where what lies behind the last result is no result. With tiles an LSTM has its inputs multiplied before.
 * What they compute, tests/kernels/test_recurrent.c and the operators' cases see. */
#include "base/limited.h"
#include "passes/change.h"

#include <string.h>

enum { MOST = 1 << 24 };

static void *used_alloc(void *user, size_t bytes, size_t align) {
  void *memory = limited_alloc(user, bytes, align);
  return memory ? memset(memory, 0x55, bytes) : NULL;
}

static void expect_packed(const char *text, const char *name, uint32_t outputs) {
  limited memory = {.counting = {.inner = &base_libc_allocator}, .most = MOST};
  const td_allocator allocator = {&memory, used_alloc, limited_free};
  const passes_setting setting = {.isa = level_of("avx2")};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &allocator);
  td_error err;
  uint32_t changes = 0, packed = 0;
  if (find_pass("recurrent")->run(graph, &setting, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  assert_int_equal(changes, 1);
  for (uint32_t i = 1; i < graph->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(graph, (ir_node){i});
    if (!node->op || strcmp(node->op->name, name) != 0) continue;
    packed++;
    assert_int_equal(node->out_count, outputs);
    for (uint32_t k = 0; k < outputs; k++)
      assert_int_equal(ir_block_of(graph, graph->top)->results.at[k].id, node->out[k].id);
  }
  assert_int_equal(packed, 1);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void a_result_is_replaced_by_its_own(void **state) {
  (void)state;
  expect_packed(
      "input %0 \"x\": f32[2, 1, 2]\n"
      "const %1: f32[1, 4, 2] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
      "const %2: f32[1, 4, 1] = {9, 10, 11, 12}\n"
      "%3, %4, %5 = td::lstm(%0, %1, %2)\n"
      "output \"y\" %3\noutput \"h\" %4\noutput \"c\" %5\n",
      "td::lstm_packed", 3);
  expect_packed(
      "input %0 \"x\": f32[2, 1, 2]\n"
      "const %1: f32[1, 3, 2] = {1, 2, 3, 4, 5, 6}\n"
      "const %2: f32[1, 3, 1] = {7, 8, 9}\n"
      "%3, %4 = td::gru(%0, %1, %2)\n"
      "output \"y\" %3\noutput \"h\" %4\n",
      "td::gru_packed", 2);
}

/* Those of a panel's units side by side, gate by gate. */
static void peepholes_are_packed(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx2"), "recurrent",
      "input %0 \"x\": f32[n, 2, 1]\n"
      "const %1: f32[1, 8, 1] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
      "const %2: f32[1, 8, 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}\n"
      "const %3: f32[1, 6] = {1, 2, 3, 4, 5, 6}\n"
      "%4 = td::lstm(%0, %1, %2, -, -, -, -, %3)\n"
      "output \"y\" %4\n",
      "input %0 \"x\": f32[n, 2, 1]\n"
      "const %1: f32[32] = {1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 5, 6, 0, 0, 0, 0, 0, 0, 7, 8, 0, 0, 0, 0, "
      "0, 0}\n"
      "const %2: f32[64] = {1, 3, 0, 0, 0, 0, 0, 0, 5, 7, 0, 0, 0, 0, 0, 0, 9, 11, 0, 0, 0, 0, 0, 0, 13, 15, 0, 0, 0, "
      "0, 0, 0, 2, 4, 0, 0, 0, 0, 0, 0, 6, 8, 0, 0, 0, 0, 0, 0, 10, 12, 0, 0, 0, 0, 0, 0, 14, 16, 0, 0, 0, 0, 0, 0}\n"
      "const %3: f32[24] = {1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 5, 6, 0, 0, 0, 0, 0, 0}\n"
      "%4 = td::lstm_packed(%0, %1, %2, -, -, -, -, %3) {hidden = 2, panel = 8, directions = 1, reverse = false, "
      "batch_first = false, depth = 0}: f32[n, 1, 2, 2]\n"
      "output \"y\" %4\n",
      1);
}

/* Panels are sixteen units wide: an LSTM's product with its inputs, of all steps, takes tiles of bf16. */
#define UNIT(weight) #weight ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0"
#define GATES(a, b, c, d) UNIT(a) ", " UNIT(b) ", " UNIT(c) ", " UNIT(d)
static const char lstm[] =
    "input %0 \"x\": f32[n, 2, 2]\n"
    "const %1: f32[1, 4, 2] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
    "const %2: f32[1, 4, 1] = {9, 10, 11, 12}\n"
    "const %3: f32[1, 8] = {1, 2, 3, 4, 10, 20, 30, 40}\n"
    "%4 = td::lstm(%0, %1, %2, %3)\n"
    "output \"y\" %4\n";
static void inputs_are_a_product_of_their_own(void **state) {
  (void)state;
  const passes_setting setting = {.isa = level_of("avx512_amx"), .precision = KERN_PRECISION_BF16};
  expect_change_with(&setting, "recurrent", lstm,
                     "input %0 \"x\": f32[n, 2, 2]\n"
                     "const %1: f32[2, 64] = {" GATES(1, 3, 5, 7) ", " GATES(2, 4, 6, 8) "}\n"
                     "const %2: f32[64] = {" GATES(11, 22, 33, 44) "}\n"
                     "const %3: f32[64] = {" GATES(9, 10, 11, 12) "}\n"
                     "%4 = td::linear(%0, %1, %2) {trans_w = false, n = 64, panel = 0, strassen = false, "
                     "pairs = false, act = \"none\", act_a = 0, act_b = 0, act_late = false, in_front = false}"
                     ": f32[n, 2, 64]\n"
                     "%5 = td::lstm_packed(%4, -, %3, -, -, -) {hidden = 1, panel = 16, directions = 1, "
                     "reverse = false, batch_first = false, depth = 0}: f32[n, 1, 2, 1]\n"
                     "output \"y\" %5\n",
                     1);
}

/* The type of r of an LSTM of so many units over `batch` sequences. */
static td_dtype states_of(const char *level, const char *batch, int hidden) {
  const passes_setting setting = {.isa = level_of(level), .precision = KERN_PRECISION_BF16};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = {.allocator = &base_libc_allocator};
  base_text_print(&text, "input %%0 \"x\": f32[8, %s, 1]\nconst %%1: f32[1, %d, 1] = {", batch, 4 * hidden);
  for (int i = 0; i < 4 * hidden; i++) base_text_print(&text, i ? ", 1" : "1");
  base_text_print(&text, "}\nconst %%2: f32[1, %d, %d] = {", 4 * hidden, hidden);
  for (int i = 0; i < 4 * hidden * hidden; i++) base_text_print(&text, i ? ", 1" : "1");
  base_text_print(&text, "}\n%%3 = td::lstm(%%0, %%1, %%2)\noutput \"y\" %%3\n");
  ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  td_dtype type = TD_INVALID;
  assert_int_equal(find_pass("recurrent")->run(graph, &setting, &changes, &err), TD_OK);
  for (uint32_t i = 1; i < graph->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(graph, (ir_node){i});
    if (node->op && strcmp(node->op->name, "td::lstm_packed") == 0) type = ir_type_of(graph, node->in[2])->dtype;
  }
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
  return type;
}

static void states_take_tiles_where_they_are_many(void **state) {
  (void)state;
  static const char *const levels[] = {"avx512_amx", "avx512_bf16"};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    assert_int_equal(states_of(levels[i], "1", 64), TD_F32);
    assert_int_equal(states_of(levels[i], "1", 96), TD_BF16);
    assert_int_equal(states_of(levels[i], "2", 47), TD_F32);
    assert_int_equal(states_of(levels[i], "2", 48), TD_BF16);
    assert_int_equal(states_of(levels[i], "n", 48), TD_BF16);
  }
  if (!has_pairs("avx512")) assert_int_equal(states_of("avx512", "n", 48), TD_F32);
}

/* x and its weights are a product, which the pass int8 takes; r is packed bytes, a direction's scale is each column's.
 */
#define LINE(value, zero) value ", " zero ", " zero ", " zero ", " zero ", " zero ", " zero ", " zero
#define LINES(a, b, c, d, zero) LINE(#a, #zero) ", " LINE(#b, #zero) ", " LINE(#c, #zero) ", " LINE(#d, #zero)
#define WORDS(a, b, c, d) \
  LINE(a, "0, 0, 0, 0") ", " LINE(b, "0, 0, 0, 0") ", " LINE(c, "0, 0, 0, 0") ", " LINE(d, "0, 0, 0, 0")
#define PAIRS(a, b, c, d) LINE(a, "0, 0") ", " LINE(b, "0, 0") ", " LINE(c, "0, 0") ", " LINE(d, "0, 0")
#define WORD(byte) byte ", 0, 0, 0"
#define HALF "0, 0, 0, 63" /* 0.5 */
static const char quantised[] =
    "input %0 \"x\": f32[n, 2, 2]\n"
    "const %1: i8[1, 2, 4] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
    "const %2: u8[1, 1, 4] = {138, 148, 158, 168}\n"
    "const %3: f32[1, 1, 4] = {0.5, 0.25, 2, 4}\n"
    "const %4: f32[1] = {0.5}\n"
    "const %5: u8[1] = {130}\n"
    "const %6: f32[1, 8] = {1, 2, 3, 4, 10, 20, 30, 40}\n"
    "%7 = td::dequantize_linear(%1, %3) {block_size = 2, dtype = f32}\n"
    "%8 = aten::permute(%7) {dims = [0, 2, 1]}\n"
    "%9 = td::dequantize_linear(%2, %4, %5) {axis = 0, dtype = f32}\n"
    "%10 = aten::permute(%9) {dims = [0, 2, 1]}\n"
    "%11 = td::lstm(%0, %8, %10, %6) {quantise_activations = true}\n"
    "output \"y\" %11\n";
static void what_is_of_bytes_is_packed_bytes(void **state) {
  (void)state;
  expect_change_with(&(passes_setting){.isa = level_of("avx2")}, "recurrent_i8", quantised,
                     "input %0 \"x\": f32[n, 2, 2]\n"
                     "const %1: i8[2, 32] = {" LINES(1, 2, 3, 4, 0) ", " LINES(5, 6, 7, 8, 0) "}\n"
                     "const %2: f32[32] = {" LINES(0.5, 0.25, 2, 4, 1) "}\n"
                     "const %3: i8[32] = {" LINES(0, 0, 0, 0, 0) "}\n"
                     "const %4: f32[32] = {" LINES(11, 22, 33, 44, 0) "}\n"
                     "const %5: u8[448] = {" WORDS(WORD("10"), WORD("20"), WORD("30"), WORD("40")) ", "
                     WORDS(HALF, HALF, HALF, HALF) ", " WORDS(WORD("2"), WORD("2"), WORD("2"), WORD("2")) ", "
                     PAIRS("10, 0", "20, 0", "30, 0", "40, 0") "}\n"
                     "%6, %7, %8 = td::dynamic_quantize_linear(%0) {reduce_range = false, least = 0}: u8[n, 2, 2], "
                     "f32[], u8[]\n"
                     "%9 = td::dequantize_linear(%6, %7, %8) {axis = 1, block_size = 0, dtype = f32}: f32[n, 2, 2]\n"
                     "%10 = td::dequantize_linear(%1, %2, %3) {axis = 1, block_size = 0, dtype = f32}: f32[2, 32]\n"
                     "%11 = aten::matmul(%9, %10): f32[n, 2, 32]\n"
                     "%12 = aten::add(%11, %4): f32[n, 2, 32]\n"
                     "%13 = td::lstm_packed(%12, -, %5, -, -, -) {hidden = 1, panel = 8, directions = 1, "
                     "reverse = false, batch_first = false, depth = 2}: f32[n, 1, 2, 1]\n"
                     "output \"y\" %13\n",
                     1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_result_is_replaced_by_its_own), cmocka_unit_test(peepholes_are_packed),
      cmocka_unit_test(inputs_are_a_product_of_their_own), cmocka_unit_test(states_take_tiles_where_they_are_many),
      cmocka_unit_test(what_is_of_bytes_is_packed_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
