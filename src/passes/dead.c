/* dead.c -- removes nodes whose results nobody uses, but for those with an effect.
 * Requires: a verified graph. Keeps: every value that an output depends on, origins. Breaks: nothing. */
#include "passes/passes_priv.h"

/* An operator with an effect, or a region around one. */
static bool has_effect(const ir_graph *g, const ir_node_def *node) {
  if (node->op && node->op->flags & IR_OP_EFFECT) return true;
  for (uint32_t b = 0; b < node->block_count; b++) {
    const ir_block_def *block = ir_block_of(g, node->blocks[b]);
    for (uint32_t i = 0; i < block->nodes.count; i++)
      if (has_effect(g, ir_node_of(g, block->nodes.at[i]))) return true;
  }
  return false;
}

static bool is_dead(const ir_graph *g, const ir_node_def *node, const uint32_t *uses) {
  for (uint32_t i = 0; i < node->out_count; i++)
    if (uses[node->out[i].id]) return false;
  return !has_effect(g, node);
}

/* Gives back the uses that a removed node made, nested blocks included. */
static void drop_uses(const ir_graph *g, const ir_node_def *node, uint32_t *uses) {
  for (uint32_t i = 0; i < node->in_count; i++) uses[node->in[i].id]--;
  for (uint32_t b = 0; b < node->block_count; b++) {
    const ir_block_def *block = ir_block_of(g, node->blocks[b]);
    for (uint32_t i = 0; i < block->results.count; i++) uses[block->results.at[i].id]--;
    for (uint32_t i = 0; i < block->nodes.count; i++) drop_uses(g, ir_node_of(g, block->nodes.at[i]), uses);
  }
}

static void sweep(ir_graph *g, ir_block block, uint32_t *uses, uint32_t *changes) {
  ir_block_def *def = ir_block_of(g, block);
  for (uint32_t i = def->nodes.count; i-- > 0;) {
    ir_node id = def->nodes.at[i];
    ir_node_def *node = ir_node_of(g, id);
    if (is_dead(g, node, uses)) {
      drop_uses(g, node, uses);
      ir_remove_node(g, id);
      ++*changes;
      continue;
    }
    for (uint32_t b = 0; b < node->block_count; b++) sweep(g, node->blocks[b], uses, changes);
  }
}

td_status passes_dead(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  (void)setting;
  base_arena *scratch = base_arena_new(base_arena_allocator(graph->arena));
  uint32_t *uses = scratch ? base_new(scratch, uint32_t, graph->values.count) : NULL;
  if (uses) {
    ir_count_uses(graph, uses);
    sweep(graph, graph->top, uses, changes);
    ir_settle(graph);
  }
  base_arena_free(scratch);
  return uses ? TD_OK : base_no_memory(err, "dead code removal");
}
