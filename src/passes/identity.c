/* identity.c -- removes nodes that give back their operand: copies, casts to the same type, views to the same shape,
 * permutations that move nothing, pads of nothing, slices of all.
 * Requires: a verified graph. Keeps: every value's type and contents. Breaks: nothing. */
#include "passes/passes_priv.h"

#include <string.h>

static bool never_mind(const ir_graph *g, const ir_node_def *node) {
  (void)g, (void)node;
  return true;
}

/* dims attribute 0 is 0, 1, 2, ...; an empty one reverses the axes. */
static bool is_identity_order(const ir_graph *g, const ir_node_def *node) {
  uint32_t count;
  (void)g;
  const int64_t *order = base_attr_ints(node->attrs, 0, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i] != (int64_t)i) return false;
  return count > 0;
}

/* Operand 1, how much is added at each end, is zeros. */
static bool pads_nothing(const ir_graph *g, const ir_node_def *node) {
  const base_tensor *pads = node->in_count > 1 && node->in[1].id ? ir_value_of(g, node->in[1])->info.constant : NULL;
  const int64_t count = pads ? base_tensor_numel(pads) : 0;
  int64_t i = 0;
  while (i < count && base_load_i64(pads->dtype, pads->data, i) == 0) i++;
  return pads && i == count;
}

/* Operand 4, by how much positions differ, is ones: as many elements as there are, then, are all of them. */
static bool takes_in_order(const ir_graph *g, const ir_node_def *node) {
  enum { STEPS = 4 };
  const bool has = node->in_count > STEPS && node->in[STEPS].id;
  const base_tensor *steps = has ? ir_value_of(g, node->in[STEPS])->info.constant : NULL;
  for (int64_t i = 0; steps && i < base_tensor_numel(steps); i++)
    if (base_load_i64(steps->dtype, steps->data, i * steps->strides[0]) != 1) return false;
  return steps || !has;
}

/* Operators that give back operand 0 when the types agree and `also` holds. */
static const struct {
  ir_op_id op;
  bool (*also)(const ir_graph *g, const ir_node_def *node);
} rows[] = {
    {OP_aten__to_copy, never_mind},          {OP_aten_view, never_mind},      {OP_aten_expand, never_mind},
    {OP_aten_permute, is_identity_order},    {OP_aten_squeeze, never_mind},   {OP_aten_unsqueeze, never_mind},
    {OP_aten_constant_pad_nd, pads_nothing}, {OP_aten_slice, takes_in_order},
};

static bool is_identity(const ir_graph *g, const ir_node_def *node) {
  if (node->in_count == 0 || !node->in[0].id || node->out_count != 1) return false;
  const ir_type *in = ir_type_of(g, node->in[0]), *out = ir_type_of(g, node->out[0]);
  if (in->kind != IR_TENSOR || in->rank == IR_UNRANKED || !ir_type_equal(in, out)) return false;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (node->op->id == rows[i].op) return rows[i].also(g, node);
  return false;
}

td_status passes_identity(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  (void)setting;
  td_status status = TD_OK;
  for (uint32_t n = 1; status == TD_OK && n < graph->nodes.count; n++) {
    ir_node_def *node = &graph->nodes.at[n];
    if (!node->op || !is_identity(graph, node)) continue;
    status = ir_replace_value(graph, node->out[0], node->in[0], err);
    ir_remove_node(graph, (ir_node){n});
    ++*changes;
  }
  if (status == TD_OK) ir_settle(graph);
  return status;
}
