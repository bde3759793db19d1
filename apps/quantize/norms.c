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

/* Of each node: what is folded into it, and whether it is folded itself. */
typedef struct foldings {
  folding *folded;
  bool *gone;
} foldings;

static td_status put_node(quant_writer *w, const void *user, const quant_node *n) {
  const foldings *all = user;
  const size_t i = (size_t)(n - w->m->nodes.at);
  if (all->folded[i].norm) return put_folded(w, n, &all->folded[i]);
  if (!all->gone[i]) fmt_put_bytes(&w->graph, GRAPH_NODE, n->bytes.at, fmt_wire_left(&n->bytes));
  return TD_OK;
}

/* Is the initializer read by nodes that are written as they were? */
static bool keeps(quant_writer *w, const void *user, const char *initializer) {
  const foldings *all = user;
  uint32_t readers = 0;
  for (uint32_t i = 0; i < w->m->nodes.count; i++)
    for (uint32_t k = 0; k < w->m->nodes.at[i].in.count; k++) {
      if (strcmp(w->m->nodes.at[i].in.at[k], initializer) != 0) continue;
      readers++;
      if (!all->gone[i] && !all->folded[i].norm) return true;
    }
  return !readers;
}

td_status quant_fold_norms(quant_model *m, base_text *out, bool *found, td_error *err) {
  const foldings all = {base_new(m->arena, folding, (size_t)m->nodes.count + 1),
                        base_new(m->arena, bool, (size_t)m->nodes.count + 1)};
  folding f;
  if (!all.folded || !all.gone) return base_no_memory(err, "a model");
  *found = false;
  for (uint32_t i = 0; i < m->nodes.count; i++) {
    const quant_node *norm = &m->nodes.at[i], *conv = quant_producer(m, quant_in(norm, 0));
    if (!fits(m, norm, conv, &f)) continue;
    all.folded[conv - m->nodes.at] = f;
    all.gone[i] = *found = true;
  }
  if (!*found) return TD_OK;
  quant_writer w = {.m = m, .graph = {.allocator = out->allocator}, .added = {.allocator = out->allocator}, .err = err};
  return quant_put_model(&w, &(quant_edit){put_node, keeps, &all}, false, out);
}
