/* branches.c -- a sum of convolutions of one image is one convolution, whose kernel is the sum of theirs:
 *
 *     add(convolution(x, W, b), convolution(x, V, c))  ->  convolution(x, W + V, b + c)
 *     .. and batch_norm(x), and x                      ->  .. its scale, or 1, in the centre of W
 *
 * of windows of different sizes too (1x1, 1x3 and 3x1 beside 3x3), dilated or not, where each tap of all falls on one
 * of a largest among them. That one is read anyway, so what is not finite goes nowhere where it did not go before.
 *
 * Requires: a verified graph; f32, constant weights; each branch read by the sum alone; strides and groups that agree;
 * after the passes that fold norms and padding into convolutions. Keeps: types, origins of all. Breaks: bit equality
 * (weights are rounded again, and the rest of the sum comes behind). */
#include "passes/passes_priv.h"

#include <string.h>

enum { MOST = 16, SPATIAL = 3 }; /* operands of a sum */
enum { X, W, BIAS };

/* An operand of a sum, and how it makes a channel of it from an image. */
typedef struct branch {
  ir_value value, image;
  ir_node node;                  /* none: the image itself, unless that is found to be so */
  base_tensor w;                 /* data NULL: a window of one pixel, of a channel its own */
  const base_f32 *scale, *shift; /* of channels; NULL: 1, 0 */
  int64_t groups, kernel[SPATIAL], stride[SPATIAL], dilation[SPATIAL], padding[SPATIAL];
  int64_t *place; /* of its taps among those of the largest window */
} branch;

typedef struct sum {
  passes_edit *e;
  ir_node at;
  int32_t spatial;
  branch all[MOST];
  uint32_t count;
  double number; /* among its operands */
  const branch *largest;
  bool in[MOST]; /* goes into it */
  float *to;     /* the new weights */
} sum;

/* ---- what the operands are ---- */

static const base_f32 *floats(const base_tensor *t, int64_t count) {
  return t && t->dtype == TD_F32 && t->rank == 1 && t->dims[0] == count && base_tensor_contiguous(t) ? t->data : NULL;
}

static void read_convolution(const sum *s, const ir_node_def *node, branch *b) {
  const passes_edit *e = s->e;
  const base_tensor *w = passes_constant(e, node, W), *bias = passes_constant(e, node, BIAS);
  const bool biased = node->in_count > BIAS && node->in[BIAS].id;
  if (!w || w->dtype != TD_F32 || !base_tensor_contiguous(w) || w->rank != s->spatial + 2 ||
      passes_int(node, "transposed") || *passes_str(node, "auto_pad") || (biased && !floats(bias, w->dims[0])))
    return;
  const ir_scaled *later = passes_scaled_of(e->graph, w);
  b->w = later ? later->from : *w;
  b->scale = later ? (const base_f32 *)later->scale : NULL;
  b->shift = biased ? floats(bias, w->dims[0]) : NULL;
  b->image = node->in[X];
  b->groups = passes_int(node, "groups");
  for (uint32_t i = 0; i < (uint32_t)s->spatial; i++) {
    b->kernel[i] = w->dims[2 + i];
    b->stride[i] = passes_int_at(node, "stride", i, 1);
    b->dilation[i] = passes_int_at(node, "dilation", i, 1);
    b->padding[i] = passes_int_at(node, "padding", i, 0);
  }
}

static td_status read_norm(const sum *s, const ir_node_def *node, branch *b) {
  const base_dim channels = ir_type_of(s->e->graph, node->in[X])->dims[1];
  base_tensor vectors[2];
  bool fits = base_dim_known(channels);
  if (fits) TRY(passes_norm_vectors(s->e, node, channels, vectors, &fits));
  if (!fits) return TD_OK;
  b->image = node->in[X];
  b->scale = vectors[0].data;
  b->shift = vectors[1].data;
  return TD_OK;
}

/* One that is neither convolution nor norm may be the image of another. */
static td_status add_branch(sum *s, ir_value v) {
  static const branch pixel = {.kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
  ir_graph *g = s->e->graph;
  branch *b = &s->all[s->count++];
  *b = pixel;
  b->value = b->image = v;
  const ir_node made_by = ir_value_of(g, v)->node;
  if (!made_by.id || passes_uses(s->e, v) != 1) return TD_OK;
  const ir_node_def *node = ir_node_of(g, made_by);
  if (!node->op || node->parent.id != ir_node_of(g, s->at)->parent.id) return TD_OK;
  ir_refresh(g, made_by);
  if (node->op->id == OP_aten_convolution) read_convolution(s, node, b);
  if (node->op->id == OP_aten__native_batch_norm_legit_no_training) TRY(read_norm(s, node, b));
  if (b->image.id != v.id) b->node = made_by;
  return TD_OK;
}

/* The operands of an add, and of those that it alone reads. False: one of them broadcasts, and is no number, or they
 * are too many. */
static td_status gather(sum *s, const ir_node_def *node, bool *fits) {
  const ir_type *type = ir_type_of(s->e->graph, node->out[0]);
  for (uint32_t i = 0; i < 2 && *fits; i++) {
    double number;
    if (passes_number(s->e, node->in[i], &number)) {
      s->number += number;
      continue;
    }
    const ir_node_def *inner = passes_only_producer(s->e, node->in[i], OP_aten_add);
    *fits = s->count < MOST && ir_type_equal(ir_type_of(s->e->graph, node->in[i]), type);
    if (*fits && inner) TRY(gather(s, inner, fits));
    else if (*fits) TRY(add_branch(s, node->in[i]));
  }
  return TD_OK;
}

/* ---- which of them agree ---- */

/* Where the first tap of `b` falls on axis `i` of the largest window, and how far from it the next ones. */
static bool align(const branch *largest, const branch *b, int32_t i, int64_t *first, int64_t *step) {
  const int64_t away = largest->padding[i] - b->padding[i];
  *first = away / largest->dilation[i];
  *step = b->kernel[i] > 1 ? b->dilation[i] / largest->dilation[i] : 1;
  return *first >= 0 && *first * largest->dilation[i] == away && b->stride[i] == largest->stride[i] &&
         (b->kernel[i] == 1 || *step * largest->dilation[i] == b->dilation[i]) &&
         *first + (b->kernel[i] - 1) * *step < largest->kernel[i];
}

static bool goes_into(const sum *s, const branch *largest, const branch *b) {
  int64_t first, step;
  if (b->image.id != largest->image.id || (b->w.data && b->groups != largest->groups)) return false;
  if (!b->w.data && largest->w.dims[0] != largest->w.dims[1] * largest->groups) return false;
  for (int32_t i = 0; i < s->spatial; i++)
    if (!align(largest, b, i, &first, &step)) return false;
  return true;
}

/* The convolution into which most others go, if that saves one of them, or a norm. */
static bool choose_largest(sum *s) {
  uint32_t most = 1;
  for (uint32_t i = 0; i < s->count; i++) {
    uint32_t steps = 0;
    for (uint32_t k = 0; k < s->count && s->all[i].w.data; k++)
      steps += s->all[k].node.id && goes_into(s, &s->all[i], &s->all[k]);
    if (steps <= most) continue;
    most = steps;
    s->largest = &s->all[i];
  }
  for (uint32_t i = 0; i < s->count && s->largest; i++) s->in[i] = goes_into(s, s->largest, &s->all[i]);
  return s->largest;
}

/* ---- the new weights ---- */

static int64_t taps_of(const sum *s, const branch *b) {
  int64_t taps = 1;
  for (int32_t i = 0; i < s->spatial; i++) taps *= b->kernel[i];
  return taps;
}

static td_status find_places(const sum *s, branch *b) {
  const int64_t taps = taps_of(s, b);
  b->place = base_new(s->e->scratch, int64_t, (size_t)taps + 1);
  if (!b->place) return base_no_memory(s->e->err, "a sum of convolutions");
  for (int64_t tap = 0; tap < taps; tap++) {
    int64_t rest = tap, each = 1, first, step;
    for (int32_t i = s->spatial; i-- > 0; rest /= b->kernel[i], each *= s->largest->kernel[i]) {
      align(s->largest, b, i, &first, &step);
      b->place[tap] += (first + rest % b->kernel[i] * step) * each;
    }
  }
  return TD_OK;
}

/* Adds weights of output channel `c` to to[inputs, taps of the largest window]. */
static void add_weights(const sum *s, const branch *b, int64_t c, float *to) {
  const int64_t inputs = s->largest->w.dims[1], taps = taps_of(s, s->largest), own = taps_of(s, b);
  const float scale = b->scale ? b->scale[c] : 1;
  if (!b->w.data) {
    to[c % inputs * taps + b->place[0]] += scale;
    return;
  }
  const base_f32 *from = (const base_f32 *)b->w.data + c * inputs * own;
  for (int64_t i = 0; i < inputs; i++)
    for (int64_t tap = 0; tap < own; tap++) to[i * taps + b->place[tap]] += from[i * own + tap] * scale;
}

static void sum_weights(void *arg, uint32_t c) {
  const sum *s = arg;
  const int64_t each = s->largest->w.dims[1] * taps_of(s, s->largest);
  float *to = s->to + c * each;
  memset(to, 0, (size_t)each * sizeof *to);
  for (uint32_t i = 0; i < s->count; i++)
    if (s->in[i]) add_weights(s, &s->all[i], c, to);
}

static td_status sum_constants(sum *s, ir_value *in) {
  ir_graph *g = s->e->graph;
  const base_tensor *w = &s->largest->w;
  float *bias = base_new(g->arena, float, (size_t)w->dims[0] + 1);
  s->to = base_arena_alloc_uncleared(g->arena, base_tensor_bytes(w) + 1, 64);
  if (!bias || !s->to) return base_no_memory(s->e->err, "a sum of convolutions");
  for (uint32_t i = 0; i < s->count; i++)
    if (s->in[i]) TRY(find_places(s, &s->all[i]));
  passes_share(s->e->setting, (uint32_t)w->dims[0], sum_weights, s);
  for (int64_t c = 0; c < w->dims[0]; c++) {
    double all = s->number;
    for (uint32_t i = 0; i < s->count; i++) all += s->in[i] && s->all[i].shift ? s->all[i].shift[c] : 0;
    bias[c] = (float)all;
  }
  const base_tensor weights = base_tensor_of(s->to, TD_F32, w->rank, w->dims);
  const base_tensor biases = base_tensor_of(bias, TD_F32, 1, w->dims);
  TRY(ir_add_constant(g, &weights, NULL, &in[W], s->e->err));
  return ir_add_constant(g, &biases, NULL, &in[BIAS], s->e->err);
}

static td_status rebuild(sum *s) {
  passes_edit *e = s->e;
  const ir_node_def conv = *ir_node_of(e->graph, s->largest->node);
  base_arg args[IR_NODE_ARGS];
  ir_value in[] = {s->largest->image, IR_NO_VALUE, IR_NO_VALUE}, made;
  TRY(sum_constants(s, in));
  const ir_new_node spec = {.in = in, .in_count = 3, .args = args, .arg_count = ir_node_args(&conv, args)};
  TRY(passes_add(e, s->at, conv.op->id, spec, &conv, &made));
  for (uint32_t i = 0; i < s->count; i++) {
    ir_value both[] = {made, s->all[i].value};
    if (!s->in[i]) TRY(passes_add(e, s->at, OP_aten_add, (ir_new_node){.in = both, .in_count = 2}, NULL, &made));
  }
  return passes_take_place(e, s->at, made);
}

static td_status visit_add(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *type = ir_type_of(e->graph, node->out[0]);
  sum s = {.e = e, .at = id, .spatial = type->rank - 2};
  bool fits = type->dtype == TD_F32 && s.spatial >= 1 && s.spatial <= SPATIAL;
  if (fits) TRY(gather(&s, node, &fits));
  return fits && choose_largest(&s) ? rebuild(&s) : TD_OK;
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_aten_add, visit_add}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_branches(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
