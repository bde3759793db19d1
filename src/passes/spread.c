/* spread.c -- what is done to a join of products is done to its parts, where weights and epilogues take it:
 *
 *     batch_norm(cat(conv(x), conv(y)))  -> cat(batch_norm(conv(x)), batch_norm(conv(y)))
 *     silu(cat(conv(x), conv(y)))        -> cat(silu(conv(x)), silu(conv(y)))
 *
 * Requires: a verified graph; parts and join used here alone; parts of known length. Keeps: types, numbers. Breaks:
 * nothing. */
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_PARTS = 16, NORM_OPERANDS = 5, MAX_OPERANDS = 4 };
/* One operand and numbers. */
static bool is_unary(const passes_edit *e, const ir_node_def *node) {
  if (!(node->op->flags & IR_OP_ELEMENTWISE) || !node->op->lower || node->out_count != 1 || node->in_count < 1 ||
      node->in_count > MAX_OPERANDS)
    return false;
  for (uint32_t i = 1; i < node->in_count; i++) {
    const base_tensor *t = passes_constant(e, node, i);
    if (node->in[i].id && (!t || base_tensor_numel(t) != 1)) return false;
  }
  return true;
}

/* Is `v`, for one user alone, a convolution, or what is done to one? */
static bool is_of_product(passes_edit *e, ir_value v) {
  for (int steps = 0; steps < 4 && passes_uses(e, v) == 1; steps++) {
    if (passes_producer(e, v, OP_aten_convolution)) return true;
    const ir_node made_by = ir_value_of(e->graph, v)->node;
    const ir_node_def *node = made_by.id ? ir_node_of(e->graph, made_by) : NULL;
    if (!node || !node->op || (node->op->id != OP_aten__native_batch_norm_legit_no_training && !is_unary(e, node)))
      return false;
    ir_refresh(e->graph, made_by);
    v = node->in[0];
  }
  return false;
}

/* The join that gives `v`; NULL: none, or not one of products alone. */
static const ir_node_def *join_of_products(passes_edit *e, ir_value v, int32_t *axis) {
  const ir_node_def *join = passes_only_producer(e, v, OP_aten_cat);
  const ir_type *type = ir_type_of(e->graph, v);
  if (!join || join->in_count > MAX_PARTS || type->rank <= 0) return NULL;
  const int64_t dim = base_attr_int(join->attrs, KERN_CAT_DIM);
  *axis = (int32_t)(dim < 0 ? dim + type->rank : dim);
  for (uint32_t i = 0; i < join->in_count; i++) {
    const ir_type *part = ir_type_of(e->graph, join->in[i]);
    if (part->rank != type->rank || !base_dim_known(part->dims[*axis]) || !is_of_product(e, join->in[i])) return NULL;
  }
  return join;
}

/* Elements [first, first + count) of each parameter of a batch norm. False: one is no constant of as many as there are
 * channels. */
static td_status part_of_norm(passes_edit *e, const ir_node_def *norm, int64_t first, int64_t count, int64_t channels,
                              ir_value *in, bool *done) {
  for (uint32_t i = 1; i < norm->in_count && i < NORM_OPERANDS; i++) {
    in[i] = norm->in[i];
    if (!in[i].id) continue;
    const base_tensor *t = passes_constant(e, norm, i);
    *done = t && t->rank == 1 && t->dims[0] == channels && base_dtype(t->dtype)->bits >= 8;
    if (!*done) return TD_OK;
    base_tensor part = *t;
    part.data = base_at(t, first * t->strides[0]);
    part.dims[0] = count;
    TRY(ir_add_constant(e->graph, &part, NULL, &in[i], e->err));
  }
  return TD_OK;
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def node = *ir_node_of(e->graph, id);
  const bool norms = node.op->id == OP_aten__native_batch_norm_legit_no_training;
  int32_t axis = 0;
  if (!norms && !is_unary(e, &node)) return TD_OK;
  const ir_node_def *found = join_of_products(e, node.in[0], &axis);
  if (!found || (norms && (axis != 1 || node.in_count > NORM_OPERANDS))) return TD_OK;
  const ir_node_def join = *found;
  const int64_t channels = ir_type_of(e->graph, node.in[0])->dims[axis];
  ir_value parts[MAX_PARTS], in[NORM_OPERANDS], out;
  base_arg args[IR_NODE_ARGS];
  const uint32_t arg_count = ir_node_args(&node, args);
  int64_t first = 0;
  for (uint32_t i = 0; i < join.in_count; i++) {
    const int64_t count = ir_type_of(e->graph, join.in[i])->dims[axis];
    bool done = true;
    for (uint32_t k = 1; k < node.in_count; k++) in[k] = node.in[k];
    if (norms) TRY(part_of_norm(e, &node, first, count, channels, in, &done));
    if (!done) return TD_OK; /* of the first part: nothing was added */
    in[0] = join.in[i];
    const ir_new_node spec = {.in = in, .in_count = node.in_count, .args = args, .arg_count = arg_count};
    TRY(passes_add(e, id, node.op->id, spec, NULL, &parts[i]));
    first += count;
  }
  TRY(passes_add(
      e, id, OP_aten_cat,
      (ir_new_node){.in = parts, .in_count = join.in_count, .args = (base_arg[]){ARG_INT("dim", axis)}, .arg_count = 1},
      &join, &out));
  return passes_take_place(e, id, out);
}

td_status passes_spread(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
