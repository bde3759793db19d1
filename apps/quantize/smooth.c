/* smooth.c -- see smooth.h.
 *
 * x W = (x / s) (s W) for any s > 0 per channel. The division is folded into what made x where that ends in a product
 * and a sum with constants (norms do) and only matrix products read x; else a Mul does it, once for all that read x. */
#include "smooth.h"

#include <math.h>
#include <string.h>

#include "write.h"

static const char *const norms[] = {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", NULL};

/* ---- which tensors ---- */

/* The matrix of a product that can be smoothed, [k, n] or, with axis 0, [n, k]. */
static bool find_matrix(const quant_model *m, const quant_node *n, base_tensor *w, int32_t *axis) {
  return n->is_product && !quant_is_op(n, "Conv") && quant_product_weight(m, n, w, axis);
}

/* Is operand `operand` of the node a matrix that will be multiplied? */
static bool reads_matrix(const quant_node *n, uint32_t operand) {
  return operand == 1 && n->is_product && !quant_is_op(n, "Conv");
}

static int64_t depth_of(const base_tensor *w, int32_t axis) { return w->dims[1 - axis]; }

static quant_smoothed *smoothed_of(const quant_smoothing *s, const char *x) {
  for (uint32_t i = 0; i < s->at.count; i++)
    if (strcmp(s->at.at[i].x, x) == 0) return &s->at.at[i];
  return NULL;
}

/* Do only `n`, or with NULL only matrix products, read it? */
static bool read_by(const quant_model *m, const char *name, const quant_node *n) {
  for (uint32_t i = 0; i < m->outputs.count; i++)
    if (strcmp(m->outputs.at[i], name) == 0) return false;
  for (uint32_t i = 0; i < m->nodes.count; i++) {
    const quant_node *reader = &m->nodes.at[i];
    for (uint32_t k = 0; k < reader->in.count; k++)
      if (strcmp(reader->in.at[k], name) == 0 && (n ? reader != n : k != 0 || !reads_matrix(reader, 1))) return false;
  }
  return true;
}

/* The operand of `n` that is a constant with a number for each channel; -1: none. */
static int constant_of(const quant_model *m, const quant_node *n, int64_t channels) {
  for (int i = 0; i < 2; i++) {
    base_tensor t;
    if (quant_weight(m, quant_in(n, (uint32_t)i), &t) && t.rank == 1 && t.dims[0] == channels) return i;
  }
  return -1;
}

static bool scales_channels(const quant_model *m, const quant_node *n, int64_t channels) {
  if (quant_is_op(n, "Mul")) return constant_of(m, n, channels) >= 0;
  base_tensor t;
  if (!quant_is_of(n, norms) || n->out.count > 1 || !quant_weight(m, quant_in(n, 1), &t)) return false;
  const bool whole = t.rank == 1 && t.dims[0] == channels;
  if (!*quant_in(n, 2)) return whole;
  return whole && quant_weight(m, quant_in(n, 2), &t) && t.rank == 1 && t.dims[0] == channels;
}

/* What the factors of x may be folded into. */
static void find_producer(const quant_model *m, quant_smoothed *s) {
  const quant_node *n = quant_producer(m, s->x);
  if (!n || !read_by(m, s->x, NULL)) return;
  if (quant_is_op(n, "Add")) {
    const int constant = constant_of(m, n, s->channels);
    const char *in = constant < 0 ? "" : quant_in(n, 1 - (uint32_t)constant);
    const quant_node *scaled = *in ? quant_producer(m, in) : NULL;
    if (!scaled || !read_by(m, in, n) || !scales_channels(m, scaled, s->channels)) return;
    s->shifted = n;
    n = scaled;
  }
  if (scales_channels(m, n, s->channels)) s->behind = n;
  else s->shifted = NULL;
}

static td_status add_smoothed(quant_model *m, quant_smoothing *s, const char *x, int64_t channels, td_error *err) {
  quant_smoothed *to = base_vec_push(m->arena, &s->at);
  if (!to) return base_no_memory(err, "smoothing");
  *to = (quant_smoothed){.x = x, .channels = channels};
  to->to = base_arena_format(m->arena, "%s_smoothed", x);
  to->most = base_new(m->arena, float, (size_t)channels);
  to->weight_most = base_new(m->arena, float, (size_t)channels);
  to->by = base_new(m->arena, float, (size_t)channels);
  if (!to->to || !to->most || !to->weight_most || !to->by) return base_no_memory(err, "smoothing");
  find_producer(m, to);
  s->folded += to->behind != NULL;
  return TD_OK;
}

td_status quant_find_smoothed(quant_model *m, quant_smoothing *s, td_error *err) {
  base_tensor w;
  int32_t axis;
  for (uint32_t i = 0; i < m->nodes.count; i++) {
    const quant_node *n = &m->nodes.at[i];
    if (!find_matrix(m, n, &w, &axis)) continue;
    const int64_t channels = depth_of(&w, axis), columns = w.dims[axis];
    if (!smoothed_of(s, quant_in(n, 0))) TRY(add_smoothed(m, s, quant_in(n, 0), channels, err));
    quant_smoothed *to = smoothed_of(s, quant_in(n, 0));
    for (int64_t k = 0; k < channels; k++)
      for (int64_t c = 0; c < columns; c++) {
        const float x = ((const base_f32 *)w.data)[axis ? k * columns + c : c * channels + k];
        to->weight_most[k] = fmaxf(to->weight_most[k], fabsf(x));
      }
  }
  if (!s->at.count)
    return base_fail(
        err, TD_UNSUPPORTED, NULL, -1,
        "--smooth: no node is a MatMul or Gemm with a constant matrix of f32, whose operand it could smooth");
  return TD_OK;
}

/* ---- the model ---- */

static void set_factors(quant_smoothed *s, double alpha) {
  for (int64_t k = 0; k < s->channels; k++) {
    const double x = (double)s->most[k], w = (double)s->weight_most[k], by = pow(x, alpha) / pow(w, 1 - alpha);
    s->by[k] = x > 0 && w > 0 && by > 1e-20 && by < 1e20 ? (float)by : 1;
  }
}

/* A constant of the channels, divided: its new name. */
static const char *put_divided(quant_writer *w, const quant_smoothed *s, const quant_node *n, uint32_t operand) {
  const char *name = n->in.at[operand], *what = operand == 2 ? "bias_smoothed" : "scale_smoothed",
             *to = quant_name(w, n->out.at[0], what);
  float *values = base_new(w->m->arena, float, (size_t)s->channels);
  base_tensor t;
  if (!values || !quant_weight(w->m, name, &t)) {
    w->unnamed = true;
    return "";
  }
  for (int64_t k = 0; k < s->channels; k++) values[k] = ((const base_f32 *)t.data)[k] / s->by[k];
  quant_put_constant(w, to, TD_F32, 1, &s->channels, values);
  return to;
}

/* The product's matrix, [k, n] for MatMul and as it lies for Gemm, multiplied: its new name. */
static const char *put_multiplied(quant_writer *w, const quant_smoothed *s, const quant_node *n, base_tensor t,
                                  int32_t axis) {
  const char *to = quant_name(w, n->out.at[0], "weight_smoothed");
  const int64_t columns = t.dims[axis], count = base_tensor_numel(&t);
  base_tensor transposed;
  if (axis == 0 && quant_is_op(n, "MatMul")) {
    w->unnamed |= !quant_transpose(w->m, &t, &transposed);
    if (w->unnamed) return "";
    t = transposed;
    axis = 1;
  }
  float *values = base_new(w->m->arena, float, (size_t)count);
  if (!values) {
    w->unnamed = true;
    return "";
  }
  for (int64_t i = 0; i < count; i++)
    values[i] = ((const base_f32 *)t.data)[i] * s->by[axis ? i / columns : i % s->channels];
  quant_put_constant(w, to, TD_F32, 2, t.dims, values);
  return to;
}

/* Operands that are not as they were. */
static void replace_operands(quant_writer *w, const quant_smoothing *all, const quant_node *n, const char **in) {
  base_tensor t;
  int32_t axis;
  const quant_smoothed *s = find_matrix(w->m, n, &t, &axis) ? smoothed_of(all, quant_in(n, 0)) : NULL;
  if (s) {
    in[1] = put_multiplied(w, s, n, t, axis);
    if (!s->behind) in[0] = s->to;
  }
  for (uint32_t i = 0; i < all->at.count; i++) {
    s = &all->at.at[i];
    if (s->behind != n && s->shifted != n) continue;
    if (quant_is_of(n, norms)) {
      in[1] = put_divided(w, s, n, 1);
      if (*quant_in(n, 2)) in[2] = put_divided(w, s, n, 2);
    } else {
      const int constant = constant_of(w->m, n, s->channels);
      in[constant] = put_divided(w, s, n, (uint32_t)constant);
    }
  }
}

static void put_mul(quant_writer *w, const quant_smoothed *s) {
  const char *by = quant_name(w, s->to, "by");
  float *values = base_new(w->m->arena, float, (size_t)s->channels);
  w->unnamed |= !values;
  for (int64_t k = 0; values && k < s->channels; k++) values[k] = 1 / s->by[k];
  if (values) quant_put_constant(w, by, TD_F32, 1, &s->channels, values);
  quant_put_node(w, "Mul", "", QUANT_LIST(s->x, by), QUANT_LIST(s->to), NULL, 0);
}

static void put_muls(quant_writer *w, const quant_smoothing *all, const quant_node *n) {
  for (uint32_t i = 0; i < all->at.count; i++) {
    const quant_smoothed *s = &all->at.at[i];
    if (!s->behind && quant_producer(w->m, s->x) == n) put_mul(w, s);
  }
}

/* Does something other than operand 1 of a smoothed product read it? */
static bool is_needed(const quant_model *m, const char *name) {
  uint32_t readers = 0;
  for (uint32_t i = 0; i < m->outputs.count; i++)
    if (strcmp(m->outputs.at[i], name) == 0) return true;
  for (uint32_t i = 0; i < m->nodes.count; i++) {
    const quant_node *n = &m->nodes.at[i];
    for (uint32_t k = 0; k < n->in.count; k++) {
      if (strcmp(n->in.at[k], name) != 0) continue;
      readers++;
      if (!reads_matrix(n, k)) return true;
    }
  }
  return !readers;
}

static td_status put_smoothed_node(quant_writer *w, const void *user, const quant_node *n) {
  const quant_smoothing *s = user;
  const char **in = base_new(w->m->arena, const char *, (size_t)n->in.count + 1);
  if (!in) return base_no_memory(w->err, "a model");
  if (quant_is_op(n, "Transpose") && quant_is_constant(w->m, quant_in(n, 0)) && !is_needed(w->m, n->out.at[0]))
    return TD_OK;
  replace_operands(w, s, n, in);
  quant_put_again(w, n, in, NULL);
  put_muls(w, s, n);
  return TD_OK;
}

static bool keeps(quant_writer *w, const void *user, const char *initializer) {
  (void)user;
  return is_needed(w->m, initializer);
}

td_status quant_write_smoothed(quant_model *m, quant_smoothing *s, double alpha, base_text *out, td_error *err) {
  quant_writer w = {.m = m, .graph = {.allocator = out->allocator}, .added = {.allocator = out->allocator}, .err = err};
  for (uint32_t i = 0; i < s->at.count; i++) set_factors(&s->at.at[i], alpha);
  put_muls(&w, s, NULL); /* of the graph's inputs */
  return quant_put_model(&w, &(quant_edit){put_smoothed_node, keeps, s}, false, out);
}

void quant_keep_smoothed(quant_model *m, const quant_smoothing *s) {
  for (uint32_t i = 0; i < m->nodes.count; i++)
    for (uint32_t k = 0; k < s->at.count; k++)
      if (!s->at.at[k].behind && strcmp(m->nodes.at[i].label, s->at.at[k].to) == 0) m->nodes.at[i].kept = true;
}
