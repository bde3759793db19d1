/* add_norm.c -- a sum and the layer norm of it are one step:
 *
 *     s = add(x, y), native_layer_norm(s, w, b)  ->  n, s = td::add_layer_norm(x, y, w, b)
 *
 * Requires: a verified graph; f32; x and y of one shape, w and b constant; after the pass that puts sums into
 * epilogues. Keeps: types. Breaks: bit equality. */
#include "passes/passes_priv.h"

#include <string.h>

/* A norm over the last axis alone, of which only the result is used. Its vectors are constants: they are needed where
 * the sum stands. */
static bool is_plain(const passes_edit *e, const ir_node_def *norm) {
  const ir_type *t = ir_type_of(e->graph, norm->in[0]);
  if (t->dtype != TD_F32 || t->rank < 1) return false;
  for (uint32_t i = 1; i < norm->out_count; i++)
    if (passes_uses(e, norm->out[i])) return false;
  for (uint32_t i = 1; i < norm->in_count; i++) {
    const ir_type *vector = norm->in[i].id ? ir_type_of(e->graph, norm->in[i]) : NULL;
    if (vector && (!passes_constant(e, norm, i) || vector->dtype != TD_F32 || vector->rank != 1 ||
                   vector->dims[0] != t->dims[t->rank - 1]))
      return false;
  }
  int64_t axis = passes_int(norm, "axis");
  return axis == -1 || axis == t->rank - 1;
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *found = ir_node_of(e->graph, id);
  if (found->op->id != OP_aten_native_layer_norm || !is_plain(e, found)) return TD_OK;
  const ir_node_def norm = *found, *sum = passes_producer(e, norm.in[0], OP_aten_add);
  if (!sum) return TD_OK;
  const ir_type *type = ir_type_of(e->graph, norm.in[0]);
  ir_value in[4] = {sum->in[0], sum->in[1]}, made;
  for (uint32_t i = 0; i < 2; i++)
    if (!ir_type_equal(ir_type_of(e->graph, in[i]), type)) return TD_OK;
  for (uint32_t i = 1; i < norm.in_count; i++) in[i + 1] = norm.in[i];
  ir_node sum_id = ir_value_of(e->graph, norm.in[0])->node;
  const base_arg eps = ARG_FLOAT("eps", passes_float(&norm, "eps"));
  /* In front of the sum, whose other users may stand before the norm. */
  const ir_new_node spec = {.in = in, .in_count = norm.in_count + 1, .out_count = 2, .args = &eps, .arg_count = 1};
  TRY(passes_add(e, sum_id, OP_td_add_layer_norm, spec, &norm, &made));
  ir_value whole = ir_node_of(e->graph, ir_value_of(e->graph, made)->node)->out[1];
  if (passes_uses(e, norm.in[0]) > 1) TRY(passes_take_place(e, sum_id, whole));
  return passes_take_place(e, id, made);
}

td_status passes_add_norm(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
