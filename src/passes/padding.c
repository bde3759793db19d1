/* padding.c -- zeros around an image that a convolution reads are its own padding, and taps that meet nothing else go:
 *
 *     convolution(constant_pad_nd(x, pads))  ->  convolution(x) {padding = pads + padding}
 *     max_pool(constant_pad_nd(relu(x), pads))  ->  max_pool(relu(x)) {padding = pads + padding}
 *     convolution(x, w)                      ->  convolution(x, some taps of w) {padding = what these reach beside x}
 *
 * Images that are smaller than a window, as that of a large rate of dilation, have such taps. In a largest of numbers
 * that are not negative zeros count as nothing does, -inf in any; each window has an element of the image.
 *
 * Requires: a verified graph; pads known, not negative, over spatial dimensions; sizes of the image known, and weights
 * constant. Keeps: types, numbers. Breaks: nothing. */
#include "passes/passes_priv.h"

#include <math.h>
#include <string.h>

enum { PADS = 1, VALUE = 2, AXES = 3, SPATIAL = 3 };

static int64_t int_at(const base_tensor *t, int64_t i) {
  return base_load_i64(t->dtype, t->data, t->rank ? i * t->strides[0] : 0);
}

/* What the pad puts there; NaN: not known. */
static double pad_value(const passes_edit *e, const ir_node_def *pad) {
  double value = 0;
  if (pad->in_count <= VALUE || !pad->in[VALUE].id) return 0;
  return passes_number(e, pad->in[VALUE], &value) ? value : NAN;
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

/* The convolution of `x` and `w` instead, with this padding, in its place. */
static td_status rebuild(passes_edit *e, ir_node id, ir_value x, ir_value w, const int64_t *padding, uint32_t spatial,
                         const ir_node_def *also) {
  const ir_node_def conv = *ir_node_of(e->graph, id); /* the graph's nodes move */
  base_arg args[IR_NODE_ARGS];
  const uint32_t count = ir_node_args(&conv, args);
  ir_value in[] = {x, w, conv.in_count > 2 ? conv.in[2] : IR_NO_VALUE}, made;
  *passes_arg(args, count, "padding") = ARG_INTS("padding", padding, 2 * spatial);
  const ir_new_node spec = {.in = in, .in_count = conv.in_count, .args = args, .arg_count = count};
  TRY(passes_add(e, id, conv.op->id, spec, also, &made));
  return passes_take_place(e, id, made);
}

static td_status take_zeros(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def *pad = passes_producer(e, node->in[0], OP_aten_constant_pad_nd);
  const int32_t rank = ir_type_of(e->graph, node->in[0])->rank, spatial = rank - 2;
  int64_t padding[2 * SPATIAL] = {0};
  if (!pad || spatial < 1 || spatial > SPATIAL || pad_value(e, pad) != 0 || !read_padding(e, pad, rank, padding))
    return TD_OK;
  uint32_t own;
  const int64_t *have = passes_ints(node, "padding", &own);
  for (uint32_t i = 0; i < own && i < 2 * (uint32_t)spatial; i++)
    if (!base_add_i64(padding[i], have[i], &padding[i])) return TD_OK;
  return rebuild(e, id, pad->in[0], node->in[1], padding, (uint32_t)spatial, pad);
}

/* Is no element of `v` below zero? */
static bool is_positive(passes_edit *e, ir_value v) {
  double least;
  const ir_node_def *clamp = passes_producer(e, v, OP_aten_clamp);
  if (passes_producer(e, v, OP_aten_relu)) return true;
  return clamp && clamp->in_count > 1 && passes_number(e, clamp->in[1], &least) && least >= 0;
}

static td_status take_least(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def *pad = passes_producer(e, node->in[0], OP_aten_constant_pad_nd);
  const int32_t rank = ir_type_of(e->graph, node->in[0])->rank, spatial = rank - 2;
  int64_t padding[2 * SPATIAL] = {0};
  if (!pad || spatial < 1 || spatial > SPATIAL || !read_padding(e, pad, rank, padding)) return TD_OK;
  const double value = pad_value(e, pad);
  const ir_value x = pad->in[0];
  const bool one_result = node->out_count < 2 || !passes_uses(e, node->out[1]);
  if (!one_result || passes_int(node, "ceil_mode") || (value != -INFINITY && !(value == 0 && is_positive(e, x))))
    return TD_OK;
  for (uint32_t i = 0; i < 2 * (uint32_t)spatial; i++) {
    const uint32_t axis = i % (uint32_t)spatial;
    if (!base_add_i64(padding[i], passes_int_at(node, "padding", i, 0), &padding[i])) return TD_OK;
    if (padding[i] >= passes_int_at(node, "kernel_size", axis, 1) || passes_int_at(node, "dilation", axis, 1) != 1)
      return TD_OK;
  }
  return rebuild(e, id, x, IR_NO_VALUE, padding, (uint32_t)spatial, pad);
}

/* An axis of a window and of the image under it. */
typedef struct axis {
  int64_t in, out, stride, dilation, before, behind; /* these two: padding */
  int64_t first, taps;
} axis;

/* False: a size is open, or one that no image has. */
static bool read_axis(const ir_node_def *conv, const ir_type *x, const ir_type *y, const base_tensor *w, uint32_t i,
                      axis *a) {
  const uint32_t spatial = (uint32_t)w->rank - 2;
  *a = (axis){.in = x->dims[2 + i],
              .out = y->dims[2 + i],
              .stride = passes_int_at(conv, "stride", i, 1),
              .dilation = passes_int_at(conv, "dilation", i, 1),
              .before = passes_int_at(conv, "padding", i, 0),
              .behind = passes_int_at(conv, "padding", spatial + i, 0),
              .taps = w->dims[2 + i]};
  const int64_t sizes[] = {a->in, a->out, a->stride, a->dilation, a->before, a->behind, a->taps};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    if (sizes[k] < 0 || sizes[k] > INT32_MAX) return false;
  return a->out > 0 && a->stride > 0 && a->dilation > 0;
}

/* Leaves out the first taps and the last ones from which no element of the output sees one of the image. */
static bool cut_taps(axis *a) {
  const int64_t taps = a->taps;
  for (; a->taps > 1 && a->before >= a->dilation && (a->out - 1) * a->stride < a->before; a->first++, a->taps--)
    a->before -= a->dilation;
  for (; a->taps > 1 && a->behind >= a->dilation && (a->taps - 1) * a->dilation - a->before >= a->in; a->taps--)
    a->behind -= a->dilation;
  return a->taps < taps;
}

/* The taps of `some`, which shows a part of `w`, as weights of their own. */
static td_status take_taps(passes_edit *e, const base_tensor *w, base_tensor some, ir_value *made) {
  const ir_scaled *later = passes_scaled_of(e->graph, w); /* then w's elements are not there yet */
  base_tensor dense = base_tensor_of(NULL, w->dtype, w->rank, some.dims);
  const int64_t count = base_tensor_numel(&dense);
  dense.data = base_arena_alloc_uncleared(e->graph->constants, base_tensor_bytes(&dense) + 1, 64);
  if (!dense.data) return base_no_memory(e->err, "weights");
  if (later) some.data = (char *)later->from.data + ((char *)some.data - (char *)w->data);
  base_tensor_pack(dense.data, &some);
  for (int64_t i = 0; later && i < count; i++) ((float *)dense.data)[i] *= later->scale[i / (count / w->dims[0])];
  return ir_add_constant(e->graph, &dense, NULL, made, e->err);
}

static td_status drop_taps(passes_edit *e, ir_node id, const ir_node_def *node) {
  const base_tensor *w = passes_constant(e, node, 1);
  const ir_type *x = ir_type_of(e->graph, node->in[0]), *y = ir_type_of(e->graph, node->out[0]);
  if (!w || w->rank != x->rank || w->rank < 3 || w->rank > 2 + SPATIAL) return TD_OK;
  const uint32_t spatial = (uint32_t)w->rank - 2;
  base_tensor some = *w;
  int64_t padding[2 * SPATIAL];
  bool fewer = false;
  for (uint32_t i = 0; i < spatial; i++) {
    axis a;
    if (!read_axis(node, x, y, w, i, &a)) return TD_OK;
    fewer |= cut_taps(&a);
    padding[i] = a.before;
    padding[spatial + i] = a.behind;
    some.dims[2 + i] = a.taps;
    some.data = base_at(&some, a.first * some.strides[2 + i]);
  }
  if (!fewer) return TD_OK;
  ir_value taken;
  TRY(take_taps(e, w, some, &taken));
  return rebuild(e, id, node->in[0], taken, padding, spatial, NULL);
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  if (node->op->id == OP_td_max_pool && !*passes_str(node, "auto_pad")) return take_least(e, id, node);
  if (node->op->id != OP_aten_convolution || passes_int(node, "transposed") || *passes_str(node, "auto_pad"))
    return TD_OK;
  return passes_producer(e, node->in[0], OP_aten_constant_pad_nd) ? take_zeros(e, id, node) : drop_taps(e, id, node);
}

td_status passes_padding(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
