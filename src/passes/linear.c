/* linear.c -- products with a constant matrix become td::linear, the operator whose weights can be packed:
 *
 *     matmul(x, W)          -> linear(x, W)
 *     matmul(x, permute(W)) -> linear(x, W)            as PyTorch's layers keep it; transposed when it is packed
 *     gemm(x, W, c)         -> linear(x, W, bias)      alpha and beta 1, c a row
 *
 * Requires: a verified graph. Keeps: types, numbers. Breaks: nothing: the weights stay where they are. */
#include "passes/passes_priv.h"

#include <string.h>

static bool is_f32(const base_tensor *t, int32_t rank) { return t && t->dtype == TD_F32 && t->rank == rank; }

static td_status make_linear(passes_edit *e, ir_node at, const ir_value *in, uint32_t in_count, bool transposed) {
  const base_tensor *w = passes_constant_value(e, in[1]);
  const base_arg args[] = {ARG_BOOL("trans_w", transposed), ARG_INT("n", w->dims[transposed ? 0 : 1])};
  ir_value made;
  TRY(passes_add(e, at, OP_td_linear, (ir_new_node){.in = in, .in_count = in_count, .args = args, .arg_count = 2}, NULL,
                 &made));
  return passes_take_place(e, at, made);
}

static td_status visit_matmul(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]);
  if (x->rank < 2 || passes_constant(e, node, 0)) return TD_OK;
  if (is_f32(passes_constant(e, node, 1), 2)) return make_linear(e, id, node->in, 2, false);
  const ir_value in[2] = {node->in[0], passes_transposed(e, node->in[1])};
  if (!in[1].id || !is_f32(passes_constant_value(e, in[1]), 2)) return TD_OK;
  return make_linear(e, id, in, 2, true);
}

/* C as a bias: one row of n. */
static td_status bias_of(passes_edit *e, const ir_node_def *node, int64_t n, ir_value *bias, bool *fits) {
  *bias = IR_NO_VALUE;
  *fits = true;
  if (node->in_count < 3 || !node->in[2].id) return TD_OK;
  const base_tensor *c = passes_constant(e, node, 2);
  *fits = passes_float(node, "beta") == 1 && c && c->dtype == TD_F32 && c->rank >= 1 && base_tensor_numel(c) == n &&
          c->dims[c->rank - 1] == n;
  if (!*fits) return TD_OK;
  *bias = node->in[2];
  if (c->rank == 1) return TD_OK;
  base_tensor row = *c;
  row.rank = 1;
  row.dims[0] = n;
  row.strides[0] = c->strides[c->rank - 1];
  return ir_add_constant(e->graph, &row, NULL, bias, e->err);
}

static td_status visit_gemm(passes_edit *e, ir_node id, const ir_node_def *node) {
  const base_tensor *w = passes_constant(e, node, 1);
  bool transposed = passes_int(node, "trans_b"), fits;
  if (!is_f32(w, 2) || passes_int(node, "trans_a") || passes_float(node, "alpha") != 1) return TD_OK;
  ir_value in[3] = {node->in[0], node->in[1]};
  TRY(bias_of(e, node, w->dims[transposed ? 0 : 1], &in[2], &fits));
  return fits ? make_linear(e, id, in, in[2].id ? 3 : 2, transposed) : TD_OK;
}

static const passes_rule rules[] = {PASSES_PRODUCTS(visit_matmul, visit_gemm)};

static td_status visit(passes_edit *e, ir_node id) {
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_linear(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
