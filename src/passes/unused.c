/* unused.c -- leaves out what nobody uses before other passes count uses: nodes, and results that an operator makes
 * only when it is asked to, such as the positions of a maximum, which no kernel makes. Requires: a verified graph.
 * Keeps: every value that an output depends on, origins. Breaks: nothing. */
#include "passes/passes_priv.h"

static td_status visit_max_pool(passes_edit *e, ir_node id, const ir_node_def *node) {
  if (node->out_count < 2 || passes_uses(e, node->out[1])) return TD_OK;
  base_arg args[IR_NODE_ARGS];
  const uint32_t count = ir_node_args(node, args);
  ir_value made;
  TRY(passes_add(
      e, id, node->op->id,
      (ir_new_node){.in = node->in, .in_count = node->in_count, .out_count = 1, .args = args, .arg_count = count}, NULL,
      &made));
  return passes_take_place(e, id, made);
}

static const passes_rule rules[] = {{OP_td_max_pool, visit_max_pool}};

static td_status visit(passes_edit *e, ir_node id) {
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_unused(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  TRY(passes_dead(graph, setting, changes, err));
  return passes_each(graph, setting, changes, err, visit);
}
