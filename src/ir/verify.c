/* verify.c -- the invariants of graph.h, checked. */
#include "ir/graph.h"

#include <string.h>

enum scope { UNDEFINED, VISIBLE, CLOSED /* its block has ended */ };

typedef struct checker {
  const ir_graph *g;
  uint8_t *defined; /* per value: a scope */
  td_error *err;
} checker;

static td_status broken(checker *c, const ir_node_def *node, const char *what, uint32_t index) {
  return base_fail(c->err, TD_INTERNAL, node && node->origins.count ? node->origins.names[0] : NULL, -1,
                   "the graph is damaged: %s: %s %u", node && node->op ? node->op->name : "block", what, index);
}

static bool usable(const checker *c, ir_value v) {
  if (v.id >= c->g->values.count) return false;
  return c->defined[v.id] == VISIBLE || (ir_value_of(c->g, v)->info.constant && !ir_value_of(c->g, v)->node.id);
}

static td_status define(checker *c, const ir_node_def *node, ir_value v, uint32_t index) {
  if (!v.id || v.id >= c->g->values.count || c->defined[v.id] != UNDEFINED)
    return broken(c, node, "defines a bad value as", index);
  c->defined[v.id] = VISIBLE;
  return TD_OK;
}

static td_status check_type(checker *c, const ir_node_def *node, const ir_type *t, uint32_t index) {
  bool tensor = t->kind == IR_TENSOR;
  if (t->kind >= IR_KIND_COUNT || (tensor && (t->rank < IR_UNRANKED || t->rank > BASE_MAX_RANK)))
    return broken(c, node, "bad type of output", index);
  if (tensor && (t->dtype <= TD_INVALID || t->dtype >= TD_DTYPE_COUNT))
    return broken(c, node, "no element type of output", index);
  for (int32_t i = 0; tensor && i < t->rank; i++)
    if (t->dims[i] == BASE_DIM_NONE) return broken(c, node, "a size is missing of output", index);
  return TD_OK;
}

static td_status check_block(checker *c, ir_block block);

/* What a nested block defines is seen by nobody after it. */
static void close_block(checker *c, const ir_block_def *block) {
  for (uint32_t i = 0; i < block->params.count; i++) c->defined[block->params.at[i].id] = CLOSED;
  for (uint32_t i = 0; i < block->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(c->g, block->nodes.at[i]);
    for (uint32_t k = 0; k < node->out_count; k++) c->defined[node->out[k].id] = CLOSED;
  }
}

/* The number of an iteration is written as an i64 of rank 0. */
static bool is_counter(const ir_type *type) {
  return type->kind == IR_TENSOR && type->dtype == TD_I64 && type->rank == 0;
}

static td_status check_region(checker *c, const ir_node_def *node) {
  if (!(node->op->flags & IR_OP_REGION))
    return node->block_count ? broken(c, node, "has blocks:", node->block_count) : TD_OK;
  bool loops = strcmp(node->op->name, "prim::Loop") == 0;
  if (node->block_count != (loops ? 1u : 2u)) return broken(c, node, "wrong number of blocks:", node->block_count);
  for (uint32_t b = 0; b < node->block_count; b++) {
    const ir_block_def *block = ir_block_of(c->g, node->blocks[b]);
    uint32_t results = node->out_count + (loops ? 1 : 0), params = loops ? node->out_count + 1 : 0;
    if (block->results.count != results || block->params.count != params)
      return broken(c, node, "wrong signature of block", b);
    if (loops && node->in_count != node->out_count + 2)
      return broken(c, node, "wrong number of operands:", node->in_count);
    if (loops && !is_counter(ir_type_of(c->g, block->params.at[0])))
      return broken(c, node, "no iteration number in block", b);
    TRY(check_block(c, node->blocks[b]));
    close_block(c, block);
  }
  return TD_OK;
}

static td_status check_node(checker *c, ir_node id, ir_block parent) {
  if (!id.id || id.id >= c->g->nodes.count) return broken(c, NULL, "no such node", id.id);
  const ir_node_def *node = ir_node_of(c->g, id);
  if (!node->op || node->parent.id != parent.id) return broken(c, node, "misplaced node", id.id);
  for (uint32_t i = 0; i < node->in_count; i++)
    if (node->in[i].id && !usable(c, node->in[i])) return broken(c, node, "uses before its definition operand", i);
  for (uint32_t i = 0; i < node->op->min_in && !(node->op->flags & IR_OP_REGION); i++)
    if (i >= node->in_count || !node->in[i].id) return broken(c, node, "is without operand", i);
  TRY(check_region(c, node));
  for (uint32_t i = 0; i < node->out_count; i++) {
    TRY(define(c, node, node->out[i], i));
    TRY(check_type(c, node, ir_type_of(c->g, node->out[i]), i));
  }
  return TD_OK;
}

static td_status check_block(checker *c, ir_block block) {
  const ir_block_def *def = ir_block_of(c->g, block);
  for (uint32_t i = 0; i < def->params.count; i++) TRY(define(c, NULL, def->params.at[i], i));
  for (uint32_t i = 0; i < def->nodes.count; i++) TRY(check_node(c, def->nodes.at[i], block));
  for (uint32_t i = 0; i < def->results.count; i++)
    if (!usable(c, def->results.at[i])) return broken(c, NULL, "uses before its definition result", i);
  return TD_OK;
}

/* One per input, a constant of its element type or none. */
static td_status check_defaults(checker *c) {
  const ir_block_def *top = ir_block_of(c->g, c->g->top);
  if (c->g->input_defaults.count != top->params.count) return broken(c, NULL, "defaults:", c->g->input_defaults.count);
  for (uint32_t i = 0; i < top->params.count; i++) {
    ir_value v = c->g->input_defaults.at[i];
    if (!v.id) continue;
    const ir_type *type = ir_type_of(c->g, top->params.at[i]);
    const base_tensor *t = v.id < c->g->values.count ? ir_value_of(c->g, v)->info.constant : NULL;
    if (!t || type->kind != IR_TENSOR || type->dtype != t->dtype || (type->rank >= 0 && type->rank != t->rank))
      return broken(c, NULL, "bad default of input", i);
  }
  return TD_OK;
}

td_status ir_verify(const ir_graph *g, td_error *err) {
  const td_allocator *allocator = base_arena_allocator(g->arena);
  checker c = {.g = g, .err = err, .defined = base_alloc(allocator, g->values.count)};
  if (!c.defined) return base_no_memory(err, "the verifier");
  memset(c.defined, 0, g->values.count);
  td_status status = check_block(&c, g->top);
  if (status == TD_OK) status = check_defaults(&c);
  if (status == TD_OK && g->output_names.count != ir_block_of(g, g->top)->results.count)
    status = broken(&c, NULL, "outputs without names:", g->output_names.count);
  base_free(allocator, c.defined, g->values.count);
  return status;
}
