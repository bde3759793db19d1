/* scales.c -- quantisations with a scale for each element of an axis other than the last one, in the form that loops
 * read:
 *
 *     quantize(x, scale [c], zero [c]; axis) -> quantize(x, scale [c, 1...], zero [c, 1...]; axis), dequantize the same
 *
 * Requires: a verified graph; a known rank; comes behind int8 and fold, which know such weights by their vectors.
 * Keeps: everything. Breaks: nothing. */
#include "passes/passes_priv.h"

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def node = *ir_node_of(e->graph, id);
  if (node.op->id != OP_td_quantize_linear && node.op->id != OP_td_dequantize_linear) return TD_OK;
  const ir_type *x = ir_type_of(e->graph, node.in[0]), *scale = ir_type_of(e->graph, node.in[1]);
  const int64_t axis = passes_int(&node, "axis") + (passes_int(&node, "axis") < 0 ? x->rank : 0);
  if (x->rank < 2 || scale->rank != 1 || scale->dims[0] == 1 || axis < 0 || axis >= x->rank - 1 ||
      passes_int(&node, "block_size"))
    return TD_OK;
  int64_t dims[BASE_MAX_RANK] = {-1};
  for (int64_t i = 1; i < x->rank - axis; i++) dims[i] = 1;
  ir_value in[3] = {node.in[0]}, sizes, made;
  base_arg args[2 * IR_NODE_ARGS];
  TRY(ir_add_ints(e->graph, dims, (uint32_t)(x->rank - axis), &sizes, e->err));
  for (uint32_t i = 1; i < node.in_count; i++) {
    const ir_value view[] = {node.in[i], sizes};
    if (node.in[i].id) TRY(passes_add(e, id, OP_aten_view, (ir_new_node){.in = view, .in_count = 2}, NULL, &in[i]));
  }
  const ir_new_node spec = {.in = in, .in_count = node.in_count, .args = args, .arg_count = ir_node_args(&node, args)};
  TRY(passes_add(e, id, node.op->id, spec, NULL, &made));
  return passes_take_place(e, id, made);
}

td_status passes_scales(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
