/* phases.c -- a transposed convolution to few channels leaves most lanes of a vector empty; one that makes all pixels
 * of a stride at once, as channels, does not:
 *
 *     conv_transpose(x, W)  ->  slice(view(conv(x, V)))     x [N, L, C], V [stride * channels, C, kernel / stride]
 *
 * In bf16 this pays for more channels, too, as plain convolutions have products of pairs.
 *
 * Output stride * i + r is the sum of x[i - m] with W[r + stride * m]: channel (r, c) of pixel i of a plain
 * convolution. Of channels last its pixels, phase by phase, are those of the result as they lie; of images (two strides
 * that are equal) rows of them are put side by side, by td::depth_to_space where these are short. What is before and
 * behind the padding is cut off.
 *
 * Requires: constant weights that are not packed; the kernel a multiple of the stride, so that each phase reads as much
 * (what is not finite stays where it was); one group, no dilation, no residual; known sizes, unless the kernel is the
 * stride. Keeps: types, origins. Breaks: bit equality. */
#include "kernels/kernels.h"
#include "kernels/products/products.h"
#include "passes/passes_priv.h"

#include <math.h>
#include <string.h>

enum { W = 1, AXES = 2 };
enum { MOVED = 2 };    /* products of vectors that take as long as an element that is moved to its place */
enum { LONG_ROW = 8 }; /* channels, at least, that copies move as rows; fewer td::depth_to_space moves one by one */

typedef struct phases {
  passes_edit *e;
  ir_node at;
  ir_node_def node; /* as it was: the graph's nodes move */
  uint32_t spatial;
  int64_t stride[AXES], taps[AXES], begin[AXES], end[AXES]; /* of a phase; what is cut off */
  int64_t channels, all;                                    /* of the result; of all phases */
  ir_value conv, made;                                      /* what makes it; what it is */
} phases;

/* ---- where it can be, and pays ---- */

static bool read_axes(phases *p, const base_tensor *w) {
  const ir_node_def *node = &p->node;
  p->channels = p->all = w->dims[1];
  for (uint32_t i = 0; i < p->spatial; i++) {
    p->stride[i] = passes_int_at(node, "stride", i, 1);
    p->taps[i] = w->dims[2 + i] / p->stride[i];
    p->begin[i] = passes_int_at(node, "padding", i, 0);
    p->end[i] = passes_int_at(node, "padding", p->spatial + i, 0) - passes_int_at(node, "output_padding", i, 0);
    if (p->taps[i] * p->stride[i] != w->dims[2 + i] || p->taps[i] < 1 || p->begin[i] < 0 || p->end[i] < 0 ||
        !base_mul_i64(p->all, p->stride[i], &p->all) || p->all > INT32_MAX)
      return false;
  }
  return p->spatial == 1 || p->stride[0] == p->stride[1];
}

/* Are there, for each pixel of x, at least a quarter less products of vectors; of images by as many as pay for
 * bringing a pixel's elements to their places? Those of bf16 take a part of the time, and a plain convolution alone
 * has them. */
static bool pays(const phases *p, const base_tensor *w, int64_t lanes) {
  const kern_row *pairs = kern_select(KERN_CONV, TD_BF16, p->e->setting->isa);
  const bool narrow =
      pairs && pairs->lanes == lanes && passes_precision(p->e, &p->node) == KERN_PRECISION_BF16; /* as prepack asks */
  const double after = ceil((double)p->all / (double)lanes) / (narrow ? kern_pairs_speed(pairs) : 1);
  double before = ceil((double)p->channels / (double)lanes), each = (double)w->dims[0];
  for (uint32_t i = 0; i < p->spatial; i++) {
    before *= (double)p->stride[i];
    each *= (double)p->taps[i];
  }
  return 4 * after <= 3 * before && (p->spatial == 1 || (before - after) * each >= MOVED * (double)p->all);
}

static bool fits(phases *p, const base_tensor *w) {
  const kern_row *row = kern_select(KERN_CONV_TRANSPOSE, TD_F32, p->e->setting->isa);
  const ir_node_def *node = &p->node;
  if (!row || !w || w->dtype != TD_F32 || !base_tensor_contiguous(w) || w->rank < 3 || w->rank > 2 + AXES ||
      passes_int(node, "groups") != 1 || passes_int(node, "panel") || !passes_all_are(node, "dilation", 1))
    return false;
  p->spatial = (uint32_t)w->rank - 2;
  for (uint32_t i = KERN_IN_BIAS; i < node->in_count; i++) {
    const base_tensor *vector = passes_constant(p->e, node, i);
    if (node->in[i].id && (i == KERN_IN_RESIDUAL || !vector || vector->dtype != TD_F32)) return false;
  }
  return base_tensor_numel(w) > 0 && read_axes(p, w) && pays(p, w, row->lanes);
}

/* ---- the convolution ---- */

/* A vector of the channels, or one number, once for each phase. */
static td_status repeat(const phases *p, ir_value *v) {
  const base_tensor *t = passes_constant_value(p->e, *v);
  if (!t || base_tensor_numel(t) != p->channels || t->rank < 1) return TD_OK;
  float *to = base_new(p->e->graph->arena, float, (size_t)p->all);
  if (!to) return base_no_memory(p->e->err, "a convolution's phases");
  for (int64_t i = 0; i < p->all; i++) to[i] = ((const base_f32 *)t->data)[i % p->channels * t->strides[t->rank - 1]];
  const base_tensor all = base_tensor_of(to, TD_F32, 1, &p->all);
  return ir_add_constant(p->e->graph, &all, NULL, v, p->e->err);
}

/* From [inputs, channels, kernel...] to [phase..., channels, inputs, taps...]: the last tap is phase 0's first. */
static td_status split_weights(const phases *p, const base_tensor *w, ir_value *v) {
  const int64_t inputs = w->dims[0], height = p->spatial > 1 ? w->dims[2] : 1, width = w->dims[w->rank - 1];
  const uint32_t last = p->spatial - 1;
  const int64_t down = p->spatial > 1 ? p->stride[0] : 1, rows = height / down, right = p->stride[last];
  const base_f32 *from = w->data;
  float *to = base_arena_alloc_uncleared(p->e->graph->arena, base_tensor_bytes(w), 64);
  if (!to) return base_no_memory(p->e->err, "a convolution's phases");
  for (int64_t i = 0; i < inputs * p->channels; i++)
    for (int64_t y = 0; y < height; y++)
      for (int64_t x = 0; x < width; x++) {
        const int64_t c = (y % down * right + x % right) * p->channels + i % p->channels;
        const int64_t tap = (rows - 1 - y / down) * p->taps[last] + p->taps[last] - 1 - x / right;
        to[(c * inputs + i / p->channels) * rows * p->taps[last] + tap] = from[(i * height + y) * width + x];
      }
  int64_t dims[2 + AXES] = {p->all, inputs};
  for (uint32_t i = 0; i < p->spatial; i++) dims[2 + i] = p->taps[i];
  const base_tensor split = base_tensor_of(to, TD_F32, w->rank, dims);
  return ir_add_constant(p->e->graph, &split, NULL, v, p->e->err);
}

static td_status add_convolution(const phases *p, const base_tensor *w, ir_value *made) {
  const int64_t ones[AXES] = {1, 1};
  int64_t padding[2 * AXES];
  base_arg args[IR_NODE_ARGS];
  ir_value in[KERN_EPILOGUE_END] = {p->node.in[0]};
  uint32_t count = ir_node_args(&p->node, args);
  for (uint32_t i = 0; i < 2 * p->spatial; i++) padding[i] = p->taps[i % p->spatial] - 1;
  *passes_arg(args, count, "kernel") = ARG_INTS("kernel", p->taps, p->spatial);
  *passes_arg(args, count, "stride") = ARG_INTS("stride", ones, p->spatial);
  *passes_arg(args, count, "padding") = ARG_INTS("padding", padding, 2 * p->spatial);
  passes_arg(args, count, "channels")->i = p->all;
  *passes_arg(args, count, "output_padding") = args[count - 1]; /* which td::conv has not */
  TRY(split_weights(p, w, &in[W]));
  for (uint32_t i = KERN_IN_BIAS; i < p->node.in_count; i++) {
    in[i] = p->node.in[i];
    TRY(repeat(p, &in[i]));
  }
  const ir_new_node spec = {.in = in, .in_count = p->node.in_count, .args = args, .arg_count = count - 1};
  return passes_add(p->e, p->at, OP_td_conv, spec, NULL, made);
}

/* ---- its result ---- */

static td_status permute(const phases *p, const int64_t *order, uint32_t rank, ir_value *v) {
  const base_arg dims = ARG_INTS("dims", order, rank);
  const ir_new_node spec = {.in = v, .in_count = 1, .args = &dims, .arg_count = 1};
  return passes_add(p->e, p->at, OP_aten_permute, spec, NULL, v);
}

/* A size of 0 is that of `v`. */
static td_status view(const phases *p, const int64_t *sizes, uint32_t rank, ir_value *v) {
  const base_arg copies = ARG_BOOL("zero_copies", true);
  ir_value in[] = {*v, IR_NO_VALUE};
  TRY(ir_add_ints(p->e->graph, sizes, rank, &in[1], p->e->err));
  const ir_new_node spec = {.in = in, .in_count = 2, .args = &copies, .arg_count = 1};
  return passes_add(p->e, p->at, OP_aten_view, spec, NULL, v);
}

/* Rows of a phase's pixels, whose channels and neighbours across lie together, are moved as they are. */
static td_status interleave_rows(const phases *p, ir_value *v) {
  static const int64_t order[] = {0, 1, 3, 2, 4, 5};
  const ir_type *type = ir_type_of(p->e->graph, *v);
  const int64_t apart[] = {0, 0, 0, p->stride[0], p->stride[1], p->channels};
  const int64_t together[] = {0, type->dims[1] * p->stride[0], type->dims[2] * p->stride[1], p->channels};
  TRY(view(p, apart, 6, v));
  TRY(permute(p, order, 6, v));
  return view(p, together, 4, v);
}

/* Phases side by side, channels last before and after. */
static td_status interleave(const phases *p, ir_value *v) {
  static const int64_t first[] = {0, 3, 1, 2}, last[] = {0, 2, 3, 1};
  const ir_type *type = ir_type_of(p->e->graph, *v);
  if (p->spatial == 1) return view(p, (const int64_t[]){0, -1, p->channels}, 3, v);
  const bool known = base_dim_known(type->dims[1]) && base_dim_known(type->dims[2]);
  if (known && p->channels >= LONG_ROW) return interleave_rows(p, v);
  const base_arg args[] = {ARG_INT("blocksize", p->stride[0]), ARG_STR("mode", "DCR")};
  TRY(permute(p, first, 4, v));
  const ir_new_node spec = {.in = v, .in_count = 1, .args = args, .arg_count = 2};
  TRY(passes_add(p->e, p->at, OP_td_depth_to_space, spec, NULL, v));
  return permute(p, last, 4, v);
}

/* What stands for p->node now; none: its size comes out otherwise. */
static td_status place(const phases *p, ir_value v, ir_value *made) {
  const ir_type type = *ir_type_of(p->e->graph, p->node.out[0]);
  TRY(interleave(p, &v));
  for (uint32_t i = 0; i < p->spatial; i++)
    if (p->begin[i] || p->end[i])
      TRY(passes_slice(p->e, p->at, v, 1 + i, p->begin[i], p->end[i] ? -p->end[i] : INT64_MAX, &v));
  *made = v;
  if (ir_type_equal(ir_type_of(p->e->graph, v), &type)) return TD_OK;
  passes_drop(p->e, v);
  *made = IR_NO_VALUE;
  return TD_OK;
}

static td_status visit_transposed(passes_edit *e, ir_node id, const ir_node_def *node) {
  phases p = {.e = e, .at = id, .node = *node};
  const base_tensor *w = passes_constant(e, node, W);
  if (!fits(&p, w)) return TD_OK;
  TRY(add_convolution(&p, w, &p.conv));
  TRY(place(&p, p.conv, &p.made));
  if (!p.made.id) return TD_OK;
  *(phases *)e->user = p;
  return passes_take_place(e, id, p.made);
}

/* What is done to each element of the result alone comes before it is moved: there it lies densely, and by the sums. */
static td_status visit_activation(passes_edit *e, ir_node id, const ir_node_def *node) {
  phases *last = e->user;
  if (!last->made.id || node->in_count != 1 || node->out_count != 1 || node->in[0].id != last->made.id ||
      passes_uses(e, last->made) != 1 || node->parent.id != last->node.parent.id ||
      !ir_type_equal(ir_type_of(e->graph, node->out[0]), ir_type_of(e->graph, last->made)))
    return TD_OK;
  const ir_node_def act = *node;
  base_arg args[IR_NODE_ARGS];
  const ir_new_node spec = {.in = &last->conv, .in_count = 1, .args = args, .arg_count = ir_node_args(&act, args)};
  last->at = id;
  TRY(passes_add(e, id, act.op->id, spec, &act, &last->conv));
  TRY(place(last, last->conv, &last->made));
  return last->made.id ? passes_take_place(e, id, last->made) : TD_OK;
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  if (node->op->id == OP_td_conv_transpose) return visit_transposed(e, id, node);
  return node->op->flags & IR_OP_ELEMENTWISE ? visit_activation(e, id, node) : TD_OK;
}

td_status passes_phases(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  phases last = {.made = IR_NO_VALUE};
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &last};
  return passes_walk(&e, visit, NULL);
}
