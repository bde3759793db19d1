/* unflatten.c -- products of matrices whose leading axes were flattened for them get these axes back, as PyTorch's
 * decompositions (torch.compile, run_decompositions) have taken them away:
 *
 *     view(add?(matmul(view(x), W), b))  ->  add?(matmul(x, W), b)       x [d..., k], flattened to [rows, k]
 *     view(matmul(view(x), view(y)))     ->  matmul(x, y)                x [d..., m, k], y [d..., k, n] to [batch, .,
 * .]
 *
 * so that what stands around them is seen as the model has it. Requires: a verified graph; products used by the view
 * alone. Keeps: types, numbers. Breaks: nothing. */
#include "passes/passes_priv.h"

static bool is_tensor(const ir_type *t, int32_t rank) { return t->kind == IR_TENSOR && t->rank == rank; }

static bool same_leading(const ir_type *a, const ir_type *b, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

/* What `v` was before its leading axes were flattened to those of `type`, with its last `kept` axes; none: it is no
 * such view. */
static ir_value before_view(passes_edit *e, ir_value v, const ir_type *type, int32_t kept) {
  const ir_type flat = *ir_type_of(e->graph, v);
  const ir_node_def *view = passes_producer(e, v, OP_aten_view);
  const ir_type *x = view ? ir_type_of(e->graph, view->in[0]) : NULL;
  if (!x || !is_tensor(x, type->rank) || !same_leading(x, type, type->rank - kept)) return IR_NO_VALUE;
  for (int32_t i = 1; i <= kept; i++)
    if (x->dims[x->rank - i] != flat.dims[flat.rank - i]) return IR_NO_VALUE;
  return view->in[0];
}

/* op(in[0], in[1]) in front of `at`. */
static td_status add(passes_edit *e, ir_node at, ir_op_id op, const ir_value *in, const ir_node_def *also,
                     ir_value *out) {
  ir_value made; /* `out` may be an operand */
  TRY(passes_add(e, at, op, (ir_new_node){.in = in, .in_count = 2}, also, &made));
  *out = made;
  return TD_OK;
}

/* In the place of the view `id`, where the result has its type. */
static td_status settle(passes_edit *e, ir_node id, ir_value made) {
  const ir_type *want = ir_type_of(e->graph, ir_node_of(e->graph, id)->out[0]);
  if (ir_type_equal(ir_type_of(e->graph, made), want)) return passes_take_place(e, id, made);
  passes_drop(e, made);
  return TD_OK;
}

static td_status unflatten_rows(passes_edit *e, ir_node id, const ir_node_def *matmul, const ir_node_def *bias,
                                ir_value row) {
  const ir_type *type = ir_type_of(e->graph, ir_node_of(e->graph, id)->out[0]);
  const ir_node_def product = *matmul, sum = bias ? *bias : product; /* nodes move when one is added */
  ir_value in[2] = {before_view(e, product.in[0], type, 1), product.in[1]};
  if (!in[0].id || !is_tensor(ir_type_of(e->graph, in[1]), 2)) return TD_OK;
  TRY(add(e, id, OP_aten_matmul, in, &product, &in[0]));
  in[1] = row;
  if (bias) TRY(add(e, id, OP_aten_add, in, &sum, &in[0]));
  return settle(e, id, in[0]);
}

static td_status unflatten_batch(passes_edit *e, ir_node id, const ir_node_def *matmul) {
  const ir_type *type = ir_type_of(e->graph, ir_node_of(e->graph, id)->out[0]);
  const ir_node_def product = *matmul;
  ir_value in[2], made;
  for (uint32_t i = 0; i < 2; i++) {
    in[i] = before_view(e, product.in[i], type, 2);
    if (!in[i].id) return TD_OK;
  }
  TRY(add(e, id, OP_aten_matmul, in, &product, &made));
  return settle(e, id, made);
}

/* The operand of an addition that is a row for all rows; none: there is none. */
static ir_value bias_row(const passes_edit *e, const ir_node_def *add, uint32_t product) {
  const ir_value row = add->in[1 - product];
  return is_tensor(ir_type_of(e->graph, row), 1) ? row : IR_NO_VALUE;
}

static td_status visit_view(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_value flat = node->in[0];
  const ir_type type = *ir_type_of(e->graph, node->out[0]), from = *ir_type_of(e->graph, flat);
  if (type.rank < 3) return TD_OK;
  const ir_node_def *matmul = passes_only_producer(e, flat, OP_aten_matmul), *sum = NULL;
  if (is_tensor(&from, 3) && matmul) return unflatten_batch(e, id, matmul);
  if (!is_tensor(&from, 2)) return TD_OK;
  ir_value row = IR_NO_VALUE;
  if (!matmul && (sum = passes_only_producer(e, flat, OP_aten_add)))
    for (uint32_t i = 0; i < 2 && !matmul; i++) {
      row = bias_row(e, sum, i);
      matmul = row.id ? passes_only_producer(e, sum->in[i], OP_aten_matmul) : NULL;
    }
  return matmul ? unflatten_rows(e, id, matmul, sum, row) : TD_OK;
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_aten_view, visit_view}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_unflatten(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
