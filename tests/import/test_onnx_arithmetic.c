/* test_onnx_arithmetic.c -- what elementwise operators, reductions and norms of old and new operator sets become. */
#include "import/onnx_build.h"

/* One node over inputs "x" (f32 [2, 3, 4]) and "b" (of `b_rank`, `b_dims`), at `opset`; `attrs` is consumed. */
static base_text one_node(int64_t opset, const char *op, const char *in, const char *out, int32_t b_rank,
                          const int64_t *b_dims, base_text *attrs) {
  base_text g = message(), m = message();
  put_input(&g, "x", DIMS(2, 3, 4));
  if (b_rank >= 0) put_input(&g, "b", b_rank, b_dims);
  put_node_as(&g, 1, "", op, "", in, out, attrs);
  put_output(&g, "y");
  fmt_put_int(&m, 1, 8);
  put(&m, 7, &g);
  put_opset(&m, 8, "", opset);
  return m;
}

static base_text attr_int(const char *name, int64_t value) {
  base_text a = message();
  put_attr_int(&a, name, value);
  return a;
}

/* Before version 7 the second operand lines up with the first from `axis` on. */
static void broadcast_by_axis(void **state) {
  (void)state;
  base_text attrs = attr_int("broadcast", 1);
  put_attr_int(&attrs, "axis", 1);
  base_text m = one_node(6, "Add", "x,b", "y", DIMS(3), &attrs);
  expect_text(&m,
              "input %0 \"x\": f32[2, 3, 4]\n"
              "input %1 \"b\": f32[3]\n"
              "const %2: i64[1] = {1}\n"
              "%3 = aten::unsqueeze(%1, %2): f32[3, 1]  # \"Add_0 (Add)\"\n"
              "%4 = aten::add(%0, %3): f32[2, 3, 4]  # \"Add_0 (Add)\"\n"
              "output \"y\" %4\n");
}

static void softmax_of_flattened_dimensions(void **state) {
  (void)state;
  base_text attrs = attr_int("axis", 1), m = one_node(11, "Softmax", "x", "y", -1, NULL, &attrs);
  expect_text(&m,
              "input %0 \"x\": f32[2, 3, 4]\n"
              "%1 = aten::_softmax(%0) {dim = 1, flatten = true}: f32[2, 3, 4]  # \"Softmax_0 (Softmax)\"\n"
              "output \"y\" %1\n");
  attrs = attr_int("axis", 1);
  m = one_node(13, "Softmax", "x", "y", -1, NULL, &attrs);
  expect_text(&m,
              "input %0 \"x\": f32[2, 3, 4]\n"
              "%1 = aten::_softmax(%0) {dim = 1, flatten = false}: f32[2, 3, 4]  # \"Softmax_0 (Softmax)\"\n"
              "output \"y\" %1\n");
}

/* Axes that the model computes: without keepdims even the rank is open. */
static void computed_axes(void **state) {
  (void)state;
  base_text g = message(), m = message(), attrs = attr_int("keepdims", 0);
  put_input(&g, "x", DIMS(2, 3, 4));
  put_value_as(&g, 11, "b", 7, DIMS(-1));
  put_node_as(&g, 1, "", "ReduceSum", "", "x,b", "y", &attrs);
  put_output(&g, "y");
  fmt_put_int(&m, 1, 8);
  put(&m, 7, &g);
  put_opset(&m, 8, "", 13);
  expect_text(
      &m,
      "input %0 \"x\": f32[2, 3, 4]\n"
      "input %1 \"b\": i64[\"b.0\"]\n"
      "%2 = aten::sum(%0, %1) {dim = [], keepdim = false, noop = false}: f32[...]  # \"ReduceSum_0 (ReduceSum)\"\n"
      "output \"y\" %2\n");
}

static void clip_bounds_as_attributes(void **state) {
  (void)state;
  base_text attrs = message();
  put_attr_float(&attrs, "max", 6);
  base_text m = one_node(6, "Clip", "x", "y", -1, NULL, &attrs);
  expect_text(&m,
              "input %0 \"x\": f32[2, 3, 4]\n"
              "const %1: f32[] = {6}\n"
              "%2 = aten::clamp(%0, -, %1): f32[2, 3, 4]  # \"Clip_0 (Clip)\"\n"
              "output \"y\" %2\n");
}

/* A batch norm whose results are `outs` and of which the graph gives `result`; its statistics are "b". `attr` may be
 * NULL. */
static base_text batch_norm(int64_t opset, int32_t b_rank, const int64_t *b_dims, const char *outs, const char *attr,
                            int64_t value, const char *result) {
  base_text g = message(), m = message(), attrs = attr ? attr_int(attr, value) : message();
  put_input(&g, "x", DIMS(2, 3, 4));
  put_input(&g, "b", b_rank, b_dims);
  put_node_as(&g, 1, "", "BatchNormalization", "", "x,b,b,b,b", outs, &attrs);
  put_output(&g, result);
  fmt_put_int(&m, 1, 8);
  put(&m, 7, &g);
  put_opset(&m, 8, "", opset);
  return m;
}

/* How often the graph of the model (consumed) says `word`. */
static uint32_t count_in(base_text *model, const char *word) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = message();
  ir_graph *graph;
  td_error err;
  uint32_t count = 0;
  if (import_bytes(model->at, model->length, NULL, NULL, arena, &graph, &err) != TD_OK)
    fail_msg("%s: %s", err.name, err.text);
  assert_int_equal(ir_print(graph, &text), TD_OK);
  for (const char *at = text.at; (at = strstr(at, word)); at++) count++;
  base_text_free(&text);
  base_text_free(model);
  ir_graph_free(graph);
  base_arena_free(arena);
  return count;
}

/* Before version 14 the results that it names tell whether a batch norm trains. */
static void batch_norms_that_train(void **state) {
  (void)state;
  static const struct {
    int64_t opset;
    const char *outs, *attr;
    int64_t value;
    uint32_t trains;
  } cases[] = {
      {6, "y", NULL, 0, 0},         {6, "y,m,v,s,t", NULL, 0, 1}, {6, "y,m,v,s,t", "is_test", 1, 0},
      {9, "y,m,v,s,t", NULL, 0, 1}, {9, "y", NULL, 0, 0},         {13, "y,,v", NULL, 0, 1},
      {13, "y,,", NULL, 0, 0},      {14, "y,m", NULL, 0, 0},      {15, "y", "training_mode", 1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    base_text m = batch_norm(cases[i].opset, DIMS(3), cases[i].outs, cases[i].attr, cases[i].value, "y");
    assert_int_equal(count_in(&m, "aten::mean(%0) {dim = [0, 2], keepdim = false"), cases[i].trains);
  }
  base_text m = batch_norm(9, DIMS(3), "y,m,v,s,t", NULL, 0, "v"); /* b * 0.9 + variance * 0.1 */
  assert_int_equal(count_in(&m, ": f32[] = {0.89999"), 2);
  m = batch_norm(8, DIMS(3, 4), "y,m,v", "spatial", 0, "y"); /* of each position */
  assert_int_equal(count_in(&m, "aten::mean(%0) {dim = [0], keepdim = false"), 1);
  m = batch_norm(9, DIMS(3), "y,m,v,s,t", NULL, 0, "s");
  expect_error(&m, TD_UNSUPPORTED, "s", "optional output");
}

static void refused(void **state) {
  (void)state;
  base_text m = one_node(13, "Sub", "x,b", "y", DIMS(5), NULL);
  expect_error(&m, TD_BAD_FILE, "Sub_0", "broadcast");
  base_text attrs = attr_int("axis", 3);
  m = one_node(13, "Softmax", "x", "y", -1, NULL, &attrs);
  expect_error(&m, TD_BAD_FILE, "Softmax_0", "axis 3");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(broadcast_by_axis),      cmocka_unit_test(softmax_of_flattened_dimensions),
      cmocka_unit_test(computed_axes),          cmocka_unit_test(clip_bounds_as_attributes),
      cmocka_unit_test(batch_norms_that_train), cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
