/* common.c -- common subexpressions: of nodes with one operator, equal operands and equal attributes the first one
 * stays. Small constants are equal where their contents are. Requires: a verified graph. Keeps: types, order of
 * evaluation. Breaks: nothing. Nodes of a nested block see those of the blocks around it, never those of a sibling;
 * random operators and regions are left alone. */
#include "passes/passes_priv.h"

#include <string.h>

enum { SMALL_BYTES = 1 << 12 }; /* of a constant that is compared */

typedef struct merging {
  ir_graph *g;
  base_arena *arena;
  base_map nodes, constants; /* the first one of each kind */
  uint32_t *changes;
  td_error *err;
} merging;

/* The first constant that is equal to `v`; `v` of everything else. Id 0: out of memory. */
static ir_value first_equal(merging *m, ir_value v) {
  const base_tensor *t = v.id ? ir_value_of(m->g, v)->info.constant : NULL;
  if (!t || t->dtype == TD_STRING || !base_tensor_contiguous(t) || base_tensor_bytes(t) > SMALL_BYTES) return v;
  const int64_t type[2] = {t->dtype, t->rank};
  const size_t sizes = (size_t)t->rank * sizeof *t->dims, data = base_tensor_bytes(t);
  char *at = base_arena_alloc(m->arena, sizeof type + sizes + data);
  if (!at) return IR_NO_VALUE;
  memcpy(at, type, sizeof type);
  if (sizes) memcpy(at + sizeof type, t->dims, sizes);
  if (data) memcpy(at + sizeof type + sizes, t->data, data);
  const base_str key = {at, sizeof type + sizes + data};
  const uint32_t *found = base_map_get(&m->constants, key);
  if (found) return (ir_value){*found};
  return base_map_put(&m->constants, m->arena, key, v.id, NULL) ? v : IR_NO_VALUE;
}

/* What makes two nodes equal, as bytes for the map: operator, operand ids, attributes, number of results. */
static base_str key_of(merging *m, const ir_node_def *node) {
  size_t operands = node->in_count * sizeof(ir_value), attrs = node->attrs ? node->attrs->bytes : 0;
  size_t bytes = sizeof node->op + sizeof(uint32_t) + operands + attrs;
  char *at = base_arena_alloc(m->arena, bytes), *to = at;
  if (!at) return (base_str){NULL, 0};
  memcpy(to, &node->op, sizeof node->op);
  to += sizeof node->op;
  memcpy(to, &node->out_count, sizeof node->out_count);
  to += sizeof node->out_count;
  for (uint32_t i = 0; i < node->in_count; i++, to += sizeof(ir_value)) {
    const ir_value v = first_equal(m, node->in[i]);
    if (node->in[i].id && !v.id) return (base_str){NULL, 0};
    memcpy(to, &v, sizeof v);
  }
  if (attrs) memcpy(to, node->attrs, attrs);
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

static td_status visit(merging *m, ir_block block) {
  ir_graph *g = m->g;
  for (uint32_t i = 0; i < ir_block_of(g, block)->nodes.count; i++) {
    ir_node id = ir_block_of(g, block)->nodes.at[i];
    ir_refresh(g, id);
    const ir_node_def *node = ir_node_of(g, id);
    for (uint32_t b = 0; b < node->block_count; b++) TRY(visit(m, node->blocks[b]));
    if (node->op->flags & (IR_OP_REGION | IR_OP_RANDOM | IR_OP_EFFECT)) continue;
    base_str key = key_of(m, node);
    if (!key.at) return base_no_memory(m->err, "common subexpressions");
    uint32_t *first = base_map_get(&m->nodes, key);
    if (first && in_scope(g, block, ir_node_of(g, (ir_node){*first})->parent)) {
      TRY(merge(g, (ir_node){*first}, id, m->err));
      ++*m->changes;
    } else if (!base_map_put(&m->nodes, m->arena, key, id.id, NULL))
      return base_no_memory(m->err, "common subexpressions");
  }
  return TD_OK;
}

td_status passes_common(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  (void)setting;
  merging m = {.g = graph, .arena = base_arena_new(base_arena_allocator(graph->arena)), .changes = changes, .err = err};
  if (!m.arena) return base_no_memory(err, "common subexpressions");
  const td_status status = visit(&m, graph->top);
  if (status == TD_OK) ir_settle(graph);
  base_arena_free(m.arena);
  return status;
}
