/* norms.c -- batch norms in the weights of the convolutions that they stand behind, for a norm in between would keep
 * what the convolution gives from being of 8 bits:
 *
 *     (w * x + b - mean) s + beta = (w s) * x + (b - mean) s + beta,   s = gamma / sqrt(variance + epsilon) */
#include "norms.h"

#include <math.h>
#include <string.h>

enum { GAMMA = 1, BETA, MEAN, VARIANCE, PARAMS };

/* A norm, and the convolution that alone it reads. */
typedef struct folding {
  const quant_node *norm;
  base_tensor w, b, param[PARAMS]; /* b: rank 0, there is none */
} folding;

static bool is_vector(const quant_model *m, const char *name, int64_t n, base_tensor *t) {
  return quant_weight(m, name, t) && t->rank == 1 && t->dims[0] == n;
}

/* Can this norm be folded? `conv`: the node whose result it reads. */
static bool fits(const quant_model *m, const quant_node *norm, const quant_node *conv, folding *f) {
  static const char *const norms[] = {"BatchNormalization", NULL};
  *f = (folding){.norm = norm};
  if (!quant_is_of(norm, norms) || norm->out.count != 1 || norm->in.count != PARAMS ||
      quant_int(norm, "training_mode", 0) || !conv || !quant_is_op(conv, "Conv") || conv->out.count != 1 ||
      quant_readers(m, conv->out.at[0]) != 1 || !quant_weight(m, quant_in(conv, 1), &f->w) || f->w.rank < 3)
    return false;
  const char *bias = quant_in(conv, 2);
  bool all = !*bias || is_vector(m, bias, f->w.dims[0], &f->b);
  for (uint32_t i = GAMMA; i < PARAMS; i++) all = all && is_vector(m, quant_in(norm, i), f->w.dims[0], &f->param[i]);
  return all;
}

static double at(const base_tensor *t, int64_t i) { return (double)((const base_f32 *)t->data)[i]; }

/* The convolution with the norm's weights, under the name of the norm's result. */
static td_status put_folded(quant_writer *w, const quant_node *conv, const folding *f) {
  const int64_t n = f->w.dims[0], count = base_tensor_numel(&f->w), each = n ? count / n : 0;
  const double epsilon = (double)quant_float(f->norm, "epsilon", 1e-5f);
  float *weights = base_new(w->m->arena, float, (size_t)count + 1), *bias = base_new(w->m->arena, float, (size_t)n + 1);
  const char **in = base_new(w->m->arena, const char *, (size_t)conv->in.count + 2);
  const char *label = f->norm->out.at[0];
  if (!weights || !bias || !in) return base_no_memory(w->err, "a model");
  for (int64_t c = 0; c < n; c++) {
    const double by = at(&f->param[GAMMA], c) / sqrt(at(&f->param[VARIANCE], c) + epsilon);
    for (int64_t k = 0; k < each; k++) weights[c * each + k] = (float)(at(&f->w, c * each + k) * by);
    bias[c] = (float)(((f->b.data ? at(&f->b, c) : 0) - at(&f->param[MEAN], c)) * by + at(&f->param[BETA], c));
  }
  in[1] = quant_name(w, label, "weight");
  in[2] = quant_name(w, label, "bias");
  quant_put_constant(w, in[1], TD_F32, f->w.rank, f->w.dims, weights);
  quant_put_constant(w, in[2], TD_F32, 1, &n, bias);
  quant_put_again(w, conv, in, label);
  return TD_OK;
}

/* Is the initializer read by nodes that are written as they were? */
static bool is_needed(const quant_model *m, const folding *folded, const bool *gone, const char *name) {
  uint32_t readers = 0;
  for (uint32_t i = 0; i < m->nodes.count; i++)
    for (uint32_t k = 0; k < m->nodes.at[i].in.count; k++) {
      if (strcmp(m->nodes.at[i].in.at[k], name) != 0) continue;
      readers++;
      if (!gone[i] && !folded[i].norm) return true;
    }
  return !readers;
}

static td_status put_graph(quant_writer *w, const folding *folded, const bool *gone) {
  uint32_t node = 0, initializer = 0;
  for (fmt_wire wire = quant_graph(w->m); fmt_wire_more(&wire);) {
    const uint8_t *from = wire.at;
    fmt_field f;
    TRY(fmt_wire_next(&wire, &f, w->err));
    const bool is_node = f.number == GRAPH_NODE, is_weight = f.number == GRAPH_INITIALIZER;
    if (is_node && folded[node].norm) TRY(put_folded(w, &w->m->nodes.at[node], &folded[node]));
    else if (is_node ? !gone[node]
                     : !is_weight || is_needed(w->m, folded, gone, quant_initializer_name(w->m, initializer)))
      base_text_add(&w->graph, (const char *)from, (size_t)(wire.at - from));
    node += is_node;
    initializer += is_weight;
  }
  return TD_OK;
}

td_status quant_fold_norms(quant_model *m, base_text *out, bool *found, td_error *err) {
  folding *folded = base_new(m->arena, folding, (size_t)m->nodes.count + 1), f;
  bool *gone = base_new(m->arena, bool, (size_t)m->nodes.count + 1);
  if (!folded || !gone) return base_no_memory(err, "a model");
  *found = false;
  for (uint32_t i = 0; i < m->nodes.count; i++) {
    const quant_node *norm = &m->nodes.at[i], *conv = quant_producer(m, quant_in(norm, 0));
    if (!fits(m, norm, conv, &f)) continue;
    folded[conv - m->nodes.at] = f;
    gone[i] = *found = true;
  }
  if (!*found) return TD_OK;
  quant_writer w = {.m = m, .graph = {.allocator = out->allocator}, .added = {.allocator = out->allocator}, .err = err};
  const td_status status = put_graph(&w, folded, gone);
  if (status == TD_OK) return quant_put_model(&w, false, out);
  base_text_free(&w.graph);
  base_text_free(&w.added);
  return status;
}
