/* retype.c -- a graph that computes with numbers of another type: in f64, rounding all but vanishes. */
#include <string.h>

#include "debug/debug.h"

static td_status infer_block(ir_graph *g, ir_block block, td_error *err) {
  for (uint32_t i = 0; i < ir_block_of(g, block)->nodes.count; i++) {
    const ir_node node = ir_block_of(g, block)->nodes.at[i];
    const ir_node_def *def = ir_node_of(g, node);
    bool changed;
    td_status status = ir_infer_again(g, node, &changed, err);
    for (uint32_t b = 0; status == TD_OK && b < ir_node_of(g, node)->block_count; b++)
      status = infer_block(g, ir_node_of(g, node)->blocks[b], err);
    if (status != TD_OK) return base_error_name(err, status, "%s", ir_node_name(def));
  }
  return TD_OK;
}

td_status debug_infer_again(ir_graph *graph, td_error *err) { return infer_block(graph, graph->top, err); }

/* `t` with elements of type `to`, dense, in the graph's arena. */
static td_status convert(ir_graph *g, const base_tensor *t, td_dtype to, base_tensor *made, td_error *err) {
  int64_t count = base_tensor_numel(t);
  size_t bytes;
  *made = base_tensor_of(NULL, to, t->rank, t->dims);
  if (!base_dtype_bytes(to, count, &bytes)) return base_fail(err, TD_NO_RESOURCE, NULL, -1, "a constant is too large");
  made->data = base_arena_alloc(g->arena, bytes ? bytes : 1);
  if (!made->data) return base_no_memory(err, "a constant");
  base_walk w;
  const int64_t *strides[] = {t->strides};
  base_walk_start(&w, t->rank, t->dims, 1, strides);
  for (int64_t i = 0; i < w.count; i++, base_walk_next(&w)) {
    if (base_is_float(t->dtype) || base_is_float(to))
      base_store_f64(to, made->data, i, base_load_f64(t->dtype, t->data, w.offset[0]));
    else base_store_i64(to, made->data, i, base_load_i64(t->dtype, t->data, w.offset[0]));
  }
  return TD_OK;
}

static td_status retype_constants(ir_graph *g, td_dtype from, td_dtype to, td_error *err) {
  for (uint32_t v = 1; v < g->values.count; v++) {
    const base_tensor *old = g->values.at[v].info.constant;
    if (!old || old->dtype != from) continue;
    base_tensor *fresh = base_new(g->arena, base_tensor, 1);
    if (!fresh) return base_no_memory(err, "a constant");
    TRY(convert(g, old, to, fresh, err));
    g->values.at[v].info.constant = fresh;
    g->values.at[v].info.type.dtype = to;
  }
  return TD_OK;
}

/* What regions carry, and lists hold, says its types itself. */
static void retype_type(base_arena *arena, ir_type *type, td_dtype from, td_dtype to) {
  if (type->kind == IR_TENSOR && type->dtype == from) type->dtype = to;
  const uint32_t count = ir_type_elems(type);
  ir_type *elems = count ? base_arena_copy(arena, type->elem, count * sizeof *elems) : NULL;
  for (uint32_t i = 0; elems && i < count; i++) retype_type(arena, &elems[i], from, to);
  if (elems) type->elem = elems;
}

static td_status retype_attrs(ir_graph *g, ir_node_def *node, td_dtype from, td_dtype to, td_error *err) {
  bool named = false;
  for (uint32_t i = 0; node->attrs && i < node->attrs->count; i++)
    named |= node->attrs->at[i].kind == BASE_ATTR_DTYPE && node->attrs->at[i].u.i == (int64_t)from;
  if (!named) return TD_OK;
  base_attrs *attrs = base_arena_copy(g->arena, node->attrs, node->attrs->bytes);
  if (!attrs) return base_no_memory(err, "attributes");
  for (uint32_t i = 0; i < attrs->count; i++)
    if (attrs->at[i].kind == BASE_ATTR_DTYPE && attrs->at[i].u.i == (int64_t)from) attrs->at[i].u.i = to;
  node->attrs = attrs;
  return TD_OK;
}

td_status debug_retype(ir_graph *g, td_dtype from, td_dtype to, td_error *err) {
  TRY(retype_constants(g, from, to, err));
  for (uint32_t v = 1; v < g->values.count; v++)
    if (!g->values.at[v].info.constant) retype_type(g->arena, &g->values.at[v].info.type, from, to);
  if (base_arena_failed(g->arena)) return base_no_memory(err, "types");
  for (uint32_t n = 1; n < g->nodes.count; n++)
    if (g->nodes.at[n].op) TRY(retype_attrs(g, &g->nodes.at[n], from, to, err));
  return debug_infer_again(g, err);
}
