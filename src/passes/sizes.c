/* sizes.c -- what windows ask of open sizes: an image that is smaller than a window is refused, by a condition of the
 * graph, so its size is never less, and neither are sizes that are computed from it. Where no dividend is negative,
 * truncation is the floor:
 *
 *     h, with a window of 5 over h:  trunc((h - 5) / 2) + 1  -> floor((h - 5) / 2) + 1, the size of a result
 *
 * so exporters compute sizes from those of inputs, and views by them. Requires: a verified graph without unused
 * nodes. Keeps: everything but what is known of types and of contents. Breaks: nothing. */
#include "passes/passes_priv.h"

/* A branch that does not run asks for nothing. */
static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  bool *raised = e->user;
  if (node->op->id != OP_aten_convolution || node->parent.id != e->graph->top.id || passes_int(node, "transposed") ||
      *passes_str(node, "auto_pad"))
    return TD_OK;
  const ir_type *t = ir_type_of(e->graph, node->out[0]);
  for (int32_t i = 2; i < t->rank; i++) *raised |= base_dim_at_least(&e->graph->dims, t->dims[i], 1);
  return TD_OK;
}

static td_status add_conditions(ir_graph *g, td_error *err) {
  for (uint32_t i = 0; i < g->dims.symbols.count; i++) {
    const base_symbol symbol = g->dims.symbols.at[i];
    if (symbol.least < 1) continue;
    const base_guard guard = {.left = symbol.least,
                              .right = base_dim_symbol(&g->dims, symbol.name),
                              .relation = BASE_LE,
                              .text = "an image must be as large as the windows of convolutions over it"};
    TRY(ir_add_guard(g, &guard, err));
  }
  return TD_OK;
}

td_status passes_sizes(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  bool raised = false;
  uint32_t better = 0;
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &raised};
  TRY(passes_walk(&e, visit, NULL));
  if (!raised) return TD_OK;
  TRY(add_conditions(graph, err));
  TRY(ir_simplify_sizes(graph, &better, err));
  *changes += better;
  return TD_OK;
}
