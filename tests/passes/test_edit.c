/* Uses of values stay what they are, however a pass writes its edits down. */
#include "passes/change.h"
#include "passes/passes_priv.h"

static void check_uses(const passes_edit *e) {
  uint32_t *counts = calloc(e->graph->values.count, sizeof *counts);
  assert_non_null(counts);
  ir_count_uses(e->graph, counts);
  for (uint32_t v = 1; v < e->graph->values.count; v++) assert_int_equal(passes_uses(e, (ir_value){v}), counts[v]);
  free(counts);
}

/* neg(x) becomes relu(abs(x)), each written over the operand of the one before; its operand has another user. */
static td_status over_operand(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  ir_value v = node->in[0];
  if (strcmp(node->op->name, "aten::neg") != 0) return TD_OK;
  const ir_new_node spec = {.in = &v, .in_count = 1};
  TRY(passes_add(e, id, OP_aten_abs, spec, NULL, &v));
  TRY(passes_add(e, id, OP_aten_relu, spec, NULL, &v));
  check_uses(e);
  return passes_take_place(e, id, v);
}

/* exp(x) in the place of neg(x), and then a product of what neg(x) was: that is read no more, exp(x) is. */
static td_status of_replaced(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  ir_value old = node->out[0], anew, product;
  if (strcmp(node->op->name, "aten::neg") != 0) return TD_OK;
  TRY(passes_add(e, id, OP_aten_exp, (ir_new_node){.in = node->in, .in_count = 1}, NULL, &anew));
  TRY(passes_replace(e, old, anew));
  const uint32_t uses = passes_uses(e, anew);
  TRY(passes_add(e, id, OP_aten_mul, (ir_new_node){.in = (ir_value[]){old, old}, .in_count = 2}, NULL, &product));
  assert_int_equal(passes_uses(e, anew), uses + 2);
  assert_int_equal(passes_uses(e, old), 0);
  passes_drop(e, product);
  assert_int_equal(passes_uses(e, anew), uses);
  ++*e->changes;
  return TD_OK;
}

static void uses_stay_true(void **state) {
  (void)state;
  static td_status (*const visits[])(passes_edit * e, ir_node id) = {over_operand, of_replaced};
  for (size_t i = 0; i < sizeof visits / sizeof *visits; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph = parse_graph(arena,
                                  "input %0 \"x\": f32[2]\n"
                                  "%1 = aten::exp(%0)\n"
                                  "%2 = aten::neg(%1)\n"
                                  "%3 = aten::add(%1, %2)\n"
                                  "output \"y\" %3\noutput \"z\" %2\n",
                                  &base_libc_allocator);
    td_error err;
    uint32_t changes = 0;
    assert_int_equal(passes_each(graph, &(passes_setting){0}, &changes, &err, visits[i]), TD_OK);
    assert_int_equal(changes, 1);
    if (ir_verify(graph, &err) != TD_OK) fail_msg("%s", err.text);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(uses_stay_true)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
