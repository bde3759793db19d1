/* batchnorm.c -- folds an inference batch norm into the convolution before it:
 *
 *     (w * x + b - mean) * s + beta  =  (w s) * x + (b - mean) s + beta,   s = gamma / sqrt(variance + eps)
 *
 * Requires: a verified graph; weights, bias and statistics constant; the convolution's result used by the norm alone.
 * Keeps: types, origins of both nodes. Breaks: bit equality (weights are rounded again); the folded weights are a copy.
 */
#include "passes/passes_priv.h"

#include <math.h>
#include <string.h>

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
  if (!conv->op || strcmp(conv->op->name, "aten::convolution") != 0 || uses[conv->out[0].id] != 1) return false;
  if (base_attr_int(conv->attrs, (uint32_t)attr_index(conv->op, "transposed"))) return false;
  const base_tensor *w = constant(g, conv, 1);
  if (!w || !base_is_float(w->dtype) || (!is_absent(conv, 2) && !constant(g, conv, 2))) return false;
  for (uint32_t i = 1; i < 5; i++) {
    const base_tensor *t = constant(g, norm, i);
    if (!is_absent(norm, i) && (!t || t->rank != 1 || t->dims[0] != w->dims[0] || !base_is_float(t->dtype)))
      return false;
  }
  return constant(g, norm, 3) && constant(g, norm, 4);
}

static double element(const base_tensor *t, int64_t i, double absent) {
  return t ? base_load_f64(t->dtype, t->data, i * t->strides[0]) : absent;
}

/* Weights that are to be scaled by output channel, once all folds are known: several threads share that. */
typedef struct job {
  base_tensor from, to; /* `to` is dense */
  const double *scale;
} job;

typedef struct folding {
  ir_graph *graph;
  base_arena *scratch;
  BASE_VEC(job) jobs;
  td_error *err;
} folding;

static void scale_floats(float *to, const base_f32 *from, int64_t count, double scale) {
  for (int64_t i = 0; i < count; i++) to[i] = (float)(from[i] * scale);
}

static void do_job(void *jobs, uint32_t index) {
  const job *j = &((const job *)jobs)[index];
  const int64_t channels = j->to.dims[0], each = channels ? base_tensor_numel(&j->to) / channels : 0;
  const bool floats = j->to.dtype == TD_F32, straight = floats && base_tensor_contiguous(&j->from);
  if (!straight) base_tensor_pack(j->to.data, &j->from);
  const void *from = straight ? j->from.data : j->to.data;
  for (int64_t c = 0; floats && c < channels; c++)
    scale_floats((float *)j->to.data + c * each, (const base_f32 *)from + c * each, each, j->scale[c]);
  for (int64_t k = 0; !floats && k < channels * each; k++)
    base_store_f64(j->to.dtype, j->to.data, k, base_load_f64(j->to.dtype, j->to.data, k) * j->scale[k / each]);
}

/* The folded weights and bias, dense, in the graph's arena; the weights are filled by a job. */
static td_status fold_numbers(folding *f, const ir_node_def *conv, const ir_node_def *norm, base_tensor *w,
                              base_tensor *b) {
  const ir_graph *g = f->graph;
  const base_tensor *old = constant(g, conv, 1), *bias = constant(g, conv, 2);
  const double eps = base_attr_float(norm->attrs, (uint32_t)attr_index(norm->op, "eps"));
  const int64_t channels = old->dims[0];
  void *data = base_arena_alloc_uncleared(g->arena, base_tensor_bytes(old) + 1, 64);
  void *offset = base_arena_alloc(g->arena, (size_t)channels * sizeof(double) + 1);
  double *scales = base_new(f->scratch, double, (size_t)channels + 1);
  job *j = base_vec_push(f->scratch, &f->jobs);
  if (!data || !offset || !scales || !j) return base_no_memory(f->err, "folded weights");
  *w = base_tensor_of(data, old->dtype, old->rank, old->dims);
  *b = base_tensor_of(offset, old->dtype, 1, &channels);
  *j = (job){.from = *old, .to = *w, .scale = scales};
  for (int64_t c = 0; c < channels; c++) {
    scales[c] = element(constant(g, norm, 1), c, 1) / sqrt(element(constant(g, norm, 4), c, 1) + eps);
    double moved =
        (element(bias, c, 0) - element(constant(g, norm, 3), c, 0)) * scales[c] + element(constant(g, norm, 2), c, 0);
    base_store_f64(b->dtype, offset, c, moved);
  }
  return TD_OK;
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
    if (!norm->op || strcmp(norm->op->name, "aten::_native_batch_norm_legit_no_training") != 0) continue;
    ir_refresh(g, (ir_node){n});
    ir_node conv = ir_value_of(g, norm->in[0])->node;
    if (!conv.id || !can_fold(g, ir_node_of(g, conv), norm, uses)) continue;
    uses[ir_node_of(g, conv)->out[0].id] = uses[norm->out[0].id]; /* whose users it gets */
    TRY(fold(f, conv, (ir_node){n}));
    ++*changes;
  }
  return TD_OK;
}

td_status passes_batchnorm(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  folding f = {.graph = graph, .scratch = base_arena_new(base_arena_allocator(graph->arena)), .err = err};
  uint32_t *uses = f.scratch ? base_new(f.scratch, uint32_t, graph->values.count) : NULL;
  td_status status = uses ? TD_OK : base_no_memory(err, "batch norm folding");
  if (uses) {
    ir_count_uses(graph, uses);
    status = visit(&f, uses, changes);
    if (status == TD_OK) passes_share(setting, f.jobs.count, do_job, f.jobs.at);
    if (status == TD_OK) ir_settle(graph);
  }
  base_arena_free(f.scratch);
  return status;
}
