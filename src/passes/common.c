/* common.c -- common subexpressions: of nodes with one operator, equal operands and equal attributes the first one
 * stays. Requires: a verified graph. Keeps: types, order of evaluation. Breaks: nothing. Nodes of a nested block see
 * those of the blocks around it, never those of a sibling; random operators and regions are left alone. */
#include "passes/passes_priv.h"

#include <string.h>

/* What makes two nodes equal, as bytes for the map: operator, operand ids, attributes, number of results. */
static base_str key_of(const ir_node_def *node, base_arena *arena) {
  size_t operands = node->in_count * sizeof(ir_value), attrs = node->attrs ? node->attrs->bytes : 0;
  size_t bytes = sizeof node->op + sizeof(uint32_t) + operands + attrs;
  char *at = base_arena_alloc(arena, bytes), *to = at;
  if (!at) return (base_str){NULL, 0};
  memcpy(to, &node->op, sizeof node->op);
  to += sizeof node->op;
  memcpy(to, &node->out_count, sizeof node->out_count);
  to += sizeof node->out_count;
  if (operands) memcpy(to, node->in, operands);
  if (attrs) memcpy(to + operands, node->attrs, attrs);
  return (base_str){at, bytes};
}

static bool in_scope(const ir_graph *g, ir_block inner, ir_block outer) {
  while (inner.id != outer.id && ir_block_of(g, inner)->owner.id)
    inner = ir_node_of(g, ir_block_of(g, inner)->owner)->parent;
  return inner.id == outer.id;
}

static td_status merge(ir_graph *g, ir_node keep, ir_node drop, td_error *err) {
  for (uint32_t i = 0; i < ir_node_of(g, drop)->out_count; i++)
    TRY(ir_replace_value(g, ir_node_of(g, drop)->out[i], ir_node_of(g, keep)->out[i], err));
  ir_remove_node(g, drop);
  return TD_OK;
}

static td_status visit(ir_graph *g, ir_block block, base_map *seen, base_arena *arena, uint32_t *changes,
                       td_error *err) {
  for (uint32_t i = 0; i < ir_block_of(g, block)->nodes.count; i++) {
    ir_node id = ir_block_of(g, block)->nodes.at[i];
    ir_refresh(g, id);
    const ir_node_def *node = ir_node_of(g, id);
    for (uint32_t b = 0; b < node->block_count; b++) TRY(visit(g, node->blocks[b], seen, arena, changes, err));
    if (node->op->flags & (IR_OP_REGION | IR_OP_RANDOM | IR_OP_EFFECT)) continue;
    base_str key = key_of(node, arena);
    if (!key.at) return base_no_memory(err, "common subexpressions");
    uint32_t *first = base_map_get(seen, key);
    if (first && in_scope(g, block, ir_node_of(g, (ir_node){*first})->parent)) {
      TRY(merge(g, (ir_node){*first}, id, err));
      ++*changes;
    } else if (!base_map_put(seen, arena, key, id.id, NULL)) return base_no_memory(err, "common subexpressions");
  }
  return TD_OK;
}

td_status passes_common(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  (void)setting;
  base_arena *arena = base_arena_new(base_arena_allocator(graph->arena));
  if (!arena) return base_no_memory(err, "common subexpressions");
  base_map seen = {0};
  td_status status = visit(graph, graph->top, &seen, arena, changes, err);
  if (status == TD_OK) ir_settle(graph);
  base_arena_free(arena);
  return status;
}
