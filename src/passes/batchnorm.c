/* batchnorm.c -- folds an inference batch norm into the convolution before it:
 *
 *     (w * x + b - mean) * s + beta  =  (w s) * x + (b - mean) s + beta,   s = gamma / sqrt(variance + eps)
 *
 * and makes of one over rows [n, channels] a product and a sum, in front of views that keep the channels, where the
 * matrix product that made the rows can take them in:
 *
 *     batch_norm(view(x))  ->  view(x * s + (beta - mean s))
 *
 * Requires: a verified graph; weights, bias and statistics constant; the convolution's result used by the norm alone.
 * Keeps: types, origins of both nodes. Breaks: bit equality (weights are rounded again); the folded weights are a copy.
 * Where weights will be packed, the pass that packs them (prepack.c) scales them on the way, and the copy is not made:
 * until then their elements are not there (ir_graph.scaled).
 */
#include "passes/passes_priv.h"

#include <math.h>
#include <string.h>

enum { ALIGN = 64 };
enum { NORM_PARAMS = 5 };        /* with x: weight, bias, mean, variance */
enum { VIEWS = 4, VIEW_IN = 4 }; /* that are passed by; operands of one */

static int attr_index(const ir_op *op, const char *name) {
  for (int i = 0; i < op->attr_count; i++)
    if (strcmp(op->attrs[i].name, name) == 0) return i;
  return -1;
}

static const base_tensor *constant(const ir_graph *g, const ir_node_def *node, uint32_t i) {
  return i < node->in_count && node->in[i].id ? ir_value_of(g, node->in[i])->info.constant : NULL;
}

static bool is_absent(const ir_node_def *node, uint32_t i) { return i >= node->in_count || !node->in[i].id; }

static bool can_fold(const ir_graph *g, const ir_node_def *conv, const ir_node_def *norm, const uint32_t *uses) {
  if (!conv->op || conv->op->id != OP_aten_convolution || uses[conv->out[0].id] != 1) return false;
  if (base_attr_int(conv->attrs, (uint32_t)attr_index(conv->op, "transposed"))) return false;
  const base_tensor *w = constant(g, conv, 1);
  if (!w || !base_is_float(w->dtype) || (!is_absent(conv, 2) && !constant(g, conv, 2))) return false;
  for (uint32_t i = 1; i < NORM_PARAMS; i++) {
    const base_tensor *t = constant(g, norm, i);
    if (!is_absent(norm, i) && (!t || t->rank != 1 || t->dims[0] != w->dims[0] || !base_is_float(t->dtype)))
      return false;
  }
  return constant(g, norm, 3) && constant(g, norm, 4);
}

static double element(const base_tensor *t, int64_t i, double absent) {
  if (t && t->dtype == TD_F32) return ((const base_f32 *)t->data)[i * t->strides[0]];
  return t ? base_load_f64(t->dtype, t->data, i * t->strides[0]) : absent;
}

typedef struct folding {
  ir_graph *graph;
  base_arena *scratch;
  char *room; /* for folded weights, separate from all else: its pages are not touched where the elements come later */
  size_t left;
  td_error *err;
} folding;

/* More than enough for every weight that may be folded. */
static td_status make_room(folding *f) {
  const ir_graph *g = f->graph;
  for (uint32_t n = 1; n < g->nodes.count; n++) {
    const ir_node_def *node = &g->nodes.at[n];
    const bool norm = node->op && node->op->id == OP_aten__native_batch_norm_legit_no_training;
    const ir_node by = norm ? ir_value_of(g, node->in[0])->node : (ir_node){0};
    const base_tensor *w = by.id && ir_node_of(g, by)->op ? constant(g, ir_node_of(g, by), 1) : NULL;
    if (w && !base_add(f->left, base_tensor_bytes(w) + ALIGN, &f->left))
      return base_no_memory(f->err, "folded weights");
  }
  f->room = base_arena_alloc_uncleared(g->arena, f->left + 1, ALIGN);
  return f->room ? TD_OK : base_no_memory(f->err, "folded weights");
}

static void *take_room(folding *f, size_t bytes) {
  bytes = (bytes + ALIGN) / ALIGN * ALIGN;
  if (bytes > f->left) return base_arena_alloc_uncleared(f->graph->arena, bytes, ALIGN);
  void *at = f->room;
  f->room += bytes;
  f->left -= bytes;
  return at;
}

static void scale_floats(float *to, const base_f32 *from, int64_t count, float scale) {
  for (int64_t i = 0; i < count; i++) to[i] = from[i] * scale;
}

void passes_scale(void *graph, uint32_t i) {
  const ir_scaled *s = &((const ir_graph *)graph)->scaled.at[i];
  const int64_t channels = s->from.dims[0], each = channels ? base_tensor_numel(&s->from) / channels : 0;
  for (int64_t c = 0; c < channels; c++)
    scale_floats(s->to + c * each, (const base_f32 *)s->from.data + c * each, each, s->scale[c]);
}

const ir_scaled *passes_scaled_of(const ir_graph *graph, const base_tensor *w) {
  for (uint32_t i = 0; i < graph->scaled.count; i++)
    if (graph->scaled.at[i].to == w->data) return &graph->scaled.at[i];
  return NULL;
}

/* Weights of another type, or not dense, at once. */
static void scale_any(const base_tensor *from, const base_tensor *to, const double *scale) {
  const int64_t count = base_tensor_numel(to), each = count ? count / to->dims[0] : 0;
  base_tensor_pack(to->data, from);
  for (int64_t k = 0; k < count; k++)
    base_store_f64(to->dtype, to->data, k, base_load_f64(to->dtype, to->data, k) * scale[k / each]);
}

static td_status scale_weights(folding *f, const base_tensor *from, const base_tensor *to, const double *scale) {
  const int64_t channels = to->dims[0];
  if (from->dtype != TD_F32 || !base_tensor_contiguous(from)) {
    scale_any(from, to, scale);
    return TD_OK;
  }
  ir_scaled *s = base_vec_push(f->graph->arena, &f->graph->scaled);
  float *factors = base_new(f->graph->arena, float, (size_t)channels + 1);
  if (!s || !factors) return base_no_memory(f->err, "folded weights");
  const ir_scaled *before = NULL; /* of another norm */
  for (ir_scaled *other = f->graph->scaled.at; other < s && !before; other++)
    if (other->to == from->data) before = other;
  for (int64_t c = 0; c < channels; c++) factors[c] = (float)scale[c] * (before ? before->scale[c] : 1);
  *s = (ir_scaled){.to = to->data, .from = before ? before->from : *from, .scale = factors};
  return TD_OK;
}

/* The folded weights and bias, dense, in the graph's arena; the elements of the weights may come later. */
static td_status fold_numbers(folding *f, const ir_node_def *conv, const ir_node_def *norm, base_tensor *w,
                              base_tensor *b) {
  const ir_graph *g = f->graph;
  const base_tensor *old = constant(g, conv, 1), *bias = constant(g, conv, 2), *param[NORM_PARAMS];
  const double eps = base_attr_float(norm->attrs, (uint32_t)attr_index(norm->op, "eps"));
  const int64_t channels = old->dims[0];
  void *data = take_room(f, base_tensor_bytes(old));
  void *offset = base_arena_alloc(g->arena, (size_t)channels * sizeof(double) + 1);
  double *scales = base_new(f->scratch, double, (size_t)channels + 1);
  if (!data || !offset || !scales) return base_no_memory(f->err, "folded weights");
  *w = base_tensor_of(data, old->dtype, old->rank, old->dims);
  *b = base_tensor_of(offset, old->dtype, 1, &channels);
  for (uint32_t i = 1; i < NORM_PARAMS; i++) param[i] = constant(g, norm, i);
  for (int64_t c = 0; c < channels; c++) {
    const double scale = element(param[1], c, 1) / sqrt(element(param[4], c, 1) + eps);
    const double mean = element(param[3], c, 0), beta = element(param[2], c, 0);
    scales[c] = scale;
    base_store_f64(b->dtype, offset, c, (element(bias, c, 0) - mean) * scale + beta);
  }
  return scale_weights(f, old, w, scales);
}

static td_status merge_origins(ir_graph *g, ir_node_def *conv, const ir_node_def *norm, td_error *err) {
  uint32_t count = conv->origins.count + norm->origins.count;
  const char **names = base_new(g->arena, const char *, count + 1);
  if (!names) return base_no_memory(err, "origins");
  for (uint32_t i = 0; i < conv->origins.count; i++) names[i] = conv->origins.names[i];
  for (uint32_t i = 0; i < norm->origins.count; i++) names[conv->origins.count + i] = norm->origins.names[i];
  conv->origins = (ir_origins){names, count};
  return TD_OK;
}

static td_status fold(folding *f, ir_node conv_id, ir_node norm_id) {
  ir_graph *g = f->graph;
  td_error *err = f->err;
  base_tensor w, b;
  ir_value in[3] = {ir_node_of(g, conv_id)->in[0]};
  TRY(fold_numbers(f, ir_node_of(g, conv_id), ir_node_of(g, norm_id), &w, &b));
  TRY(ir_add_constant(g, &w, NULL, &in[1], err));
  TRY(ir_add_constant(g, &b, NULL, &in[2], err));
  ir_value *operands = base_arena_copy(g->arena, in, sizeof in);
  if (!operands) return base_no_memory(err, "folded weights");
  ir_node_def *conv = ir_node_of(g, conv_id), *norm = ir_node_of(g, norm_id);
  conv->in = operands;
  conv->in_count = 3;
  TRY(merge_origins(g, conv, norm, err));
  TRY(ir_replace_value(g, norm->out[0], conv->out[0], err));
  ir_remove_node(g, norm_id);
  return TD_OK;
}

static td_status visit(folding *f, uint32_t *uses, uint32_t *changes) {
  ir_graph *g = f->graph;
  for (uint32_t n = 1; n < g->nodes.count; n++) {
    ir_node_def *norm = &g->nodes.at[n];
    if (!norm->op || norm->op->id != OP_aten__native_batch_norm_legit_no_training) continue;
    ir_refresh(g, (ir_node){n});
    ir_node conv = ir_value_of(g, norm->in[0])->node;
    if (!conv.id || !can_fold(g, ir_node_of(g, conv), norm, uses)) continue;
    uses[ir_node_of(g, conv)->out[0].id] = uses[norm->out[0].id]; /* whose users it gets */
    TRY(fold(f, conv, (ir_node){n}));
    ++*changes;
  }
  return TD_OK;
}

/* Nobody looks at weights before they are packed. */
static bool may_come_later(const passes_setting *setting) {
  return setting->kernels && !base_str_listed(setting->disabled, "prepack") && !setting->seen && !setting->spoil;
}

static td_status fold_all(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  folding f = {.graph = graph, .scratch = base_arena_new(base_arena_allocator(graph->arena)), .err = err};
  uint32_t *uses = f.scratch ? base_new(f.scratch, uint32_t, graph->values.count) : NULL;
  td_status status = uses ? TD_OK : base_no_memory(err, "batch norm folding");
  if (uses) {
    ir_count_uses(graph, uses);
    status = make_room(&f);
    if (status == TD_OK) status = visit(&f, uses, changes);
    if (status == TD_OK && !may_come_later(setting)) {
      passes_share(setting, graph->scaled.count, passes_scale, graph);
      graph->scaled.count = 0;
    }
    if (status == TD_OK) ir_settle(graph);
  }
  base_arena_free(f.scratch);
  return status;
}

/* ---- norms that no convolution took in ---- */

td_status passes_norm_vectors(passes_edit *e, const ir_node_def *norm, int64_t channels, base_tensor *vectors,
                              bool *fits) {
  const base_tensor *param[NORM_PARAMS] = {NULL};
  const double eps = passes_float(norm, "eps");
  *fits = true;
  for (uint32_t i = 1; *fits && i < NORM_PARAMS; i++) {
    param[i] = constant(e->graph, norm, i);
    *fits = is_absent(norm, i) ? i < 3 : param[i] && param[i]->rank == 1 && param[i]->dims[0] == channels;
  }
  if (!*fits) return TD_OK;
  float *scale = base_new(e->graph->arena, float, (size_t)channels + 1);
  float *shift = base_new(e->graph->arena, float, (size_t)channels + 1);
  if (!scale || !shift) return base_no_memory(e->err, "a batch norm");
  for (int64_t c = 0; c < channels; c++) {
    const double factor = element(param[1], c, 1) / sqrt(element(param[4], c, 1) + eps);
    scale[c] = (float)factor;
    shift[c] = (float)(element(param[2], c, 0) - element(param[3], c, 0) * factor);
  }
  vectors[0] = base_tensor_of(scale, TD_F32, 1, &channels);
  vectors[1] = base_tensor_of(shift, TD_F32, 1, &channels);
  return TD_OK;
}

td_status passes_affine(passes_edit *e, ir_node at, ir_value x, const base_tensor *vectors, ir_value *out) {
  static const ir_op_id ops[] = {OP_aten_mul, OP_aten_add};
  ir_value in[2] = {x};
  for (uint32_t i = 0; i < 2; i++) {
    TRY(ir_add_constant(e->graph, &vectors[i], NULL, &in[1], e->err));
    TRY(passes_add(e, at, ops[i], (ir_new_node){.in = in, .in_count = 2}, NULL, out));
    in[0] = *out;
  }
  return TD_OK;
}

/* The view that shows `v`, for one user alone, with the last axis of what it is of; NULL: there is none. */
static const ir_node_def *view_of_rows(const passes_edit *e, ir_value v) {
  const ir_node made_by = ir_value_of(e->graph, v)->node;
  const ir_node_def *node = made_by.id ? ir_node_of(e->graph, made_by) : NULL;
  if (!node || !node->op || !(node->op->flags & IR_OP_VIEW_DENSE) || node->out_count != 1 || node->in_count > VIEW_IN ||
      passes_uses(e, v) != 1)
    return NULL;
  ir_refresh(e->graph, made_by);
  const ir_type *type = ir_type_of(e->graph, v), *from = ir_type_of(e->graph, node->in[0]);
  return from->kind == IR_TENSOR && from->rank > 0 && from->dims[from->rank - 1] == type->dims[type->rank - 1] ? node
                                                                                                               : NULL;
}

/* `x`, whose last axis are the channels, scaled in front of up to `depth` views. */
static td_status scale_rows(passes_edit *e, ir_node at, ir_value x, const base_tensor *vectors, int depth,
                            ir_value *out) {
  const ir_node_def *found = depth ? view_of_rows(e, x) : NULL;
  if (!found) return passes_affine(e, at, x, vectors, out);
  const ir_node_def view = *found; /* nodes move when one is added */
  ir_value in[VIEW_IN];
  base_arg args[IR_NODE_ARGS];
  for (uint32_t i = 1; i < view.in_count; i++) in[i] = view.in[i];
  TRY(scale_rows(e, at, view.in[0], vectors, depth - 1, &in[0]));
  const ir_new_node spec = {.in = in, .in_count = view.in_count, .args = args, .arg_count = ir_node_args(&view, args)};
  return passes_add(e, at, view.op->id, spec, &view, out);
}

static td_status visit_norm(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *type = ir_type_of(e->graph, node->in[0]);
  base_tensor vectors[2];
  bool fits;
  ir_value made;
  if (type->rank != 2 || type->dtype != TD_F32 || !base_dim_known(type->dims[1]) || type->dims[1] < 1) return TD_OK;
  TRY(passes_norm_vectors(e, node, type->dims[1], vectors, &fits));
  if (!fits) return TD_OK;
  TRY(scale_rows(e, id, ir_node_of(e->graph, id)->in[0], vectors, VIEWS, &made));
  return passes_take_place(e, id, made);
}

static td_status visit_rest(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_aten__native_batch_norm_legit_no_training, visit_norm}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_batchnorm(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  TRY(fold_all(graph, setting, changes, err));
  return passes_each(graph, setting, changes, err, visit_rest);
}
