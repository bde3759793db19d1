/* Every built-in model builds, and has the parameters and the output of the published one. */
#include "test.h"

#include "import/import.h"
#include "ops/ops.h"

/* `numbers` is what torchvision's and transformers' state_dicts hold, without num_batches_tracked; sizes of the output
 * after the batch, 0 past the last. */
static const struct {
  const char *name;
  int64_t tensors, numbers, output[3];
} rows[] = {
    {"efficientnet_lite0", 247, 4694024, {1000}},
    {"resnet18", 102, 11699112, {1000}},
    {"resnet50", 267, 25610152, {1000}},
    {"mobilenet_v2", 262, 3538984, {1000}},
    {"mobilenet_v3_small", 210, 2554968, {1000}},
    {"efficientnet_b0", 311, 5330564, {1000}},
    {"densenet121", 606, 8062504, {1000}},
    {"convnext_tiny", 182, 28589128, {1000}},
    {"vit_b_16", 152, 86567656, {1000}},
    {"bert_base", 199, 109482240, {128, 768}},
    {"bert_base_s384", 199, 109482240, {384, 768}},
    {"distilbert", 100, 66362880, {128, 768}},
    {"minilm_l6", 103, 22713216, {128, 384}},
    {"mobilebert", 1113, 24844544, {128, 512}},
    {"dlrm", 42, 5696897, {1}},
    {"fused_chain", 3, 1536, {512}},
    {"conv_relu", 2, 4785, {33, 24, 49}},
    {"small_lstm", 6, 33410, {64, 2}},
};
enum { ROWS = sizeof rows / sizeof *rows };

static ir_graph *build(const ir_opset *ops, const char *name) {
  const import_builtin_source source = {.name = name};
  ir_graph *graph;
  td_error err;
  if (import_builtin(&source, ops, &base_libc_allocator, &graph, &err) != TD_OK) fail_msg("%s: %s", name, err.text);
  return graph;
}

static void every_model_is_as_published(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const ir_opset *ops = ops_set(arena);
  for (size_t r = 0; r < ROWS; r++) {
    ir_graph *graph = build(ops, rows[r].name);
    int64_t tensors = 0, numbers = 0;
    for (uint32_t i = 1; i < graph->values.count; i++) {
      const ir_value_def *def = &graph->values.at[i];
      if (!def->info.constant || !def->name) continue;
      tensors++;
      numbers += base_tensor_numel(def->info.constant);
    }
    const ir_block_def *top = ir_block_of(graph, graph->top);
    const ir_type *type = ir_type_of(graph, top->results.at[0]);
    if (tensors != rows[r].tensors || numbers != rows[r].numbers)
      fail_msg("%s: %lld parameters of %lld numbers", rows[r].name, (long long)tensors, (long long)numbers);
    assert_int_equal(type->dtype, TD_F32);
    for (int32_t i = 1; i < type->rank; i++) assert_int_equal(type->dims[i], rows[r].output[i - 1]);
    assert_true(type->rank == 4 || rows[r].output[type->rank - 1] == 0);
    ir_graph_free(graph);
  }
  base_arena_free(arena);
}

static void every_model_is_in_the_table(void **state) {
  (void)state;
  size_t count = 0;
  while (import_builtin_name(count)) count++;
  assert_int_equal(count, ROWS);
  for (size_t i = 0; i < ROWS; i++) assert_string_equal(import_builtin_name(i), rows[i].name);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_model_is_in_the_table),
                                     cmocka_unit_test(every_model_is_as_published)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
