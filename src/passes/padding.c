/* padding.c -- zeros around an image that a convolution reads are its own padding:
 *
 *     convolution(constant_pad_nd(x, pads))  ->  convolution(x) {padding = pads + padding}
 *
 * Requires: a verified graph; pads known, not negative, over spatial dimensions. Keeps: types, numbers. Breaks:
 * nothing. */
#include "passes/passes_priv.h"

#include <string.h>

enum { PADS = 1, VALUE = 2, AXES = 3, SPATIAL = 3 };

static int64_t int_at(const base_tensor *t, int64_t i) {
  return base_load_i64(t->dtype, t->data, t->rank ? i * t->strides[0] : 0);
}

static bool pads_zeros(const passes_edit *e, const ir_node_def *pad) {
  double value = 0;
  bool given = pad->in_count > VALUE && pad->in[VALUE].id;
  return !given || (passes_number(e, pad->in[VALUE], &value) && value == 0);
}

/* What `pad` puts in front of and behind the spatial dimensions of a tensor of `rank`, in padding[2 * (rank - 2)].
 * False: not known, or it pads other ones. */
static bool read_padding(const passes_edit *e, const ir_node_def *pad, int32_t rank, int64_t *padding) {
  const base_tensor *pads = passes_constant(e, pad, PADS), *axes = passes_constant(e, pad, AXES);
  const int32_t spatial = rank - 2;
  const bool named = pad->in_count > AXES && pad->in[AXES].id;
  if (!pads || pads->rank > 1 || (named && (!axes || axes->rank > 1))) return false;
  const int64_t count = base_tensor_numel(pads) / 2;
  if (base_tensor_numel(pads) != 2 * count || count != (named ? base_tensor_numel(axes) : rank)) return false;
  for (int64_t i = 0; i < count; i++) {
    int64_t axis = named ? int_at(axes, i) : i, begin = int_at(pads, i), end = int_at(pads, count + i);
    if (axis < 0) axis += rank;
    if (axis < 2 ? begin || end : begin < 0 || end < 0 || begin > INT32_MAX || end > INT32_MAX) return false;
    if (axis < 2) continue;
    padding[axis - 2] = begin;
    padding[axis - 2 + spatial] = end;
  }
  return true;
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  if (node->op->id != OP_aten_convolution || passes_int(node, "transposed") || *passes_str(node, "auto_pad"))
    return TD_OK;
  const ir_node_def *pad = passes_producer(e, node->in[0], OP_aten_constant_pad_nd);
  const int32_t rank = ir_type_of(e->graph, node->in[0])->rank, spatial = rank - 2;
  int64_t padding[2 * SPATIAL] = {0};
  if (!pad || spatial < 1 || spatial > SPATIAL || !pads_zeros(e, pad) || !read_padding(e, pad, rank, padding))
    return TD_OK;
  uint32_t own;
  const int64_t *have = passes_ints(node, "padding", &own);
  for (uint32_t i = 0; i < own && i < 2 * (uint32_t)spatial; i++)
    if (!base_add_i64(padding[i], have[i], &padding[i])) return TD_OK;
  base_arg args[IR_NODE_ARGS];
  const ir_node_def conv = *node; /* the graph's nodes move */
  uint32_t count = ir_node_args(&conv, args);
  ir_value in[3] = {pad->in[0]}, made;
  for (uint32_t i = 1; i < conv.in_count; i++) in[i] = conv.in[i];
  *passes_arg(args, count, "padding") = ARG_INTS("padding", padding, 2 * (uint32_t)spatial);
  const ir_new_node spec = {.in = in, .in_count = conv.in_count, .args = args, .arg_count = count};
  TRY(passes_add(e, id, conv.op->id, spec, pad, &made));
  return passes_take_place(e, id, made);
}

td_status passes_padding(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
