/* carried.c -- what a loop carries from round to round without changing it is read from outside:
 *
 *     prim::Loop(n, go, v, w) { block(i, a, b) { ... f(a, b) ... yield go, c, b } }
 *  -> prim::Loop(n, go, v) { block(i, a) { ... f(a, w) ... yield go, c } }, and w in place of the second result
 *
 * Exporters of recurrent layers carry their weights so, which are constants then.
 *
 * Requires: a verified graph. Keeps: everything. Breaks: nothing. */
#include "passes/passes_priv.h"

enum { TRIPS, CONDITION, CARRIED };

/* Does the loop give carried value `i` on as it got it, in every round? */
static bool is_kept(const ir_graph *g, const ir_node_def *loop, uint32_t i) {
  const ir_block_def *body = ir_block_of(g, loop->blocks[0]);
  const ir_value result = body->results.at[1 + i], initial = loop->in[CARRIED + i];
  return (result.id == body->params.at[1 + i].id || result.id == initial.id) &&
         ir_type_of(g, initial)->kind == IR_TENSOR;
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def node = *ir_node_of(e->graph, id);
  for (uint32_t i = 0; node.op->id == OP_prim_Loop && i < node.out_count; i++) {
    if (!is_kept(e->graph, &node, i)) continue;
    TRY(passes_replace(e, ir_block_of(e->graph, node.blocks[0])->params.at[1 + i], node.in[CARRIED + i]));
    TRY(passes_replace(e, node.out[i], node.in[CARRIED + i]));
    ++*e->changes;
  }
  return TD_OK;
}

/* What nobody reads from a loop any more. A value may have become kept by the others: that one is still read, and next.
 */
static td_status drop(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  for (uint32_t i = node->op->id == OP_prim_Loop ? node->out_count : 0; i-- > 0;) {
    const ir_value inside = ir_block_of(e->graph, node->blocks[0])->params.at[1 + i];
    if (is_kept(e->graph, node, i) && !passes_uses(e, inside) && !passes_uses(e, node->out[i]))
      ir_drop_carried(e->graph, id, i);
  }
  return TD_OK;
}

td_status passes_carried(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  for (;;) {
    const uint32_t before = *changes;
    TRY(passes_each(graph, setting, changes, err, visit));
    if (*changes == before) return TD_OK;
    TRY(passes_each(graph, setting, changes, err, drop));
  }
}
