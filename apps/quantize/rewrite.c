/* rewrite.c -- the file again: what is quantised between its nodes, weights of 8 and 4 bits, all else as it stands.
 *
 * Static: a tensor that a product reads, or that passes from one operator of `between` to another, is followed by
 * QuantizeLinear and DequantizeLinear; a weight, and a bias in units of both scales, by DequantizeLinear. What only an
 * activation reads, or a sum with a constant, is quantised behind these: there it is the product's own rounding; and so
 * is one operand of a sum that alone reads what a product gives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "write.h"

enum { ELEMENT_F32 = 1 };

/* ---- which nodes, which tensors ---- */

static const char *const between[] = {
    "Conv",    "MatMul",  "Gemm",        "Relu",      "Clip",        "LeakyRelu",         "Add",
    "Mul",     "Sigmoid", "HardSigmoid", "HardSwish", "AveragePool", "MaxPool",           "Concat",
    "Flatten", "Reshape", "Transpose",   "Squeeze",   "Unsqueeze",   "GlobalAveragePool", NULL};
static const char *const limits[] = {"Relu", "Clip", NULL}; /* a part of the product in front */

td_status quant_find(quant_model *m, quant_mode mode, quant_ranges *ranges, td_error *err) {
  base_tensor w;
  int32_t axis;
  for (uint32_t i = 0; i < m->nodes.count; i++) {
    quant_node *n = &m->nodes.at[i];
    n->is_product = quant_product_weight(m, n, &w, &axis) && (mode == QUANT_STATIC || !quant_is_op(n, "Conv"));
    if (mode != QUANT_STATIC || !quant_is_of(n, between)) continue;
    for (uint32_t k = 0; k < n->in.count + n->out.count; k++) {
      const char *name = k < n->in.count ? n->in.at[k] : n->out.at[k - n->in.count];
      if (quant_is_constant(m, name) || base_map_get(&ranges->index, base_str_of(name))) continue;
      quant_range *r = base_vec_push(m->arena, &ranges->at);
      if (!r || !base_map_put(&ranges->index, m->arena, base_str_of(name), ranges->at.count - 1, NULL))
        return base_no_memory(err, "tensors to measure");
      r->name = name;
    }
  }
  return TD_OK;
}

/* ---- writing ---- */

static bool is_taken(quant_writer *w, const quant_node *n) {
  return !n->kept && (!w->recipe->alone || w->recipe->alone == n);
}

/* Is the product written anew? Static ones need to know what x was. */
static bool narrows(quant_writer *w, const quant_node *n) {
  return n->is_product && is_taken(w, n) &&
         (w->recipe->mode != QUANT_STATIC || quant_range_of(w->recipe->ranges, quant_in(n, 0)));
}

/* A transposition of weights whose products have them as their own. */
static bool is_gone(quant_writer *w, const quant_node *turn) {
  bool read = !quant_is_op(turn, "Transpose") || turn->out.count != 1 || !quant_is_constant(w->m, quant_in(turn, 0));
  uint32_t readers = 0;
  for (uint32_t i = 0; i < w->m->nodes.count && !read; i++)
    for (uint32_t k = 0; k < w->m->nodes.at[i].in.count; k++) {
      if (strcmp(w->m->nodes.at[i].in.at[k], turn->out.at[0]) != 0) continue;
      readers++;
      read |= k != 1 || !narrows(w, &w->m->nodes.at[i]);
    }
  for (uint32_t i = 0; i < w->m->outputs.count && !read; i++) read = strcmp(w->m->outputs.at[i], turn->out.at[0]) == 0;
  return !read && readers > 0;
}

/* ---- static: between nodes ---- */

/* Marks products, and what a chain of operators of `between` joins to one: where no product is narrow, 8 bits in
 * between cost what they save. */
static td_status find_near(quant_writer *w, td_error *err) {
  const quant_model *m = w->m;
  bool changed = true;
  w->near = base_new(m->arena, bool, (size_t)m->nodes.count + 1);
  w->biased = base_new(m->arena, bool, (size_t)m->nodes.count + 1);
  if (!w->near || !w->biased) return base_no_memory(err, "a model");
  for (uint32_t i = 0; i < m->nodes.count; i++) w->near[i] = narrows(w, &m->nodes.at[i]);
  while (changed) {
    changed = false;
    for (uint32_t i = 0; i < m->nodes.count; i++) {
      const quant_node *n = &m->nodes.at[i];
      for (uint32_t k = 0; k < n->in.count && is_taken(w, n) && quant_is_of(n, between); k++) {
        const quant_node *from = quant_producer(m, n->in.at[k]);
        if (!from || !is_taken(w, from) || !quant_is_of(from, between)) continue;
        bool *other = &w->near[from - m->nodes.at];
        if (*other == w->near[i]) continue;
        *other = w->near[i] = changed = true;
      }
    }
  }
  return TD_OK;
}

/* Does the node read its operand `name` in 8 bits? */
static bool reads_bytes(quant_writer *w, const quant_node *n, const char *name) {
  if (!is_taken(w, n) || !quant_is_of(n, between)) return false;
  if (quant_is_op(n, "MatMul") || quant_is_op(n, "Gemm") || quant_is_op(n, "Conv"))
    return n->is_product && strcmp(quant_in(n, 0), name) == 0;
  return !w->recipe->alone;
}

static bool adds_constant(quant_writer *w, const quant_node *n) {
  return quant_is_op(n, "Add") && (quant_is_constant(w->m, quant_in(n, 0)) || quant_is_constant(w->m, quant_in(n, 1)));
}

/* Is `name` a product's result that nobody but one sum reads? */
static bool is_summed(quant_writer *w, const char *name) {
  const quant_node *producer = quant_producer(w->m, name);
  return producer && narrows(w, producer) && quant_readers(w->m, name) == 1;
}

/* Is it the operand of a sum that is added as it is? Of two that could be, the first one. */
static bool stays_in_sum(quant_writer *w, const quant_node *sum, const char *name) {
  const char *first = quant_in(sum, 0), *second = quant_in(sum, 1);
  if (!quant_is_op(sum, "Add") || adds_constant(w, sum) || !is_summed(w, name)) return false;
  return strcmp(first, name) == 0 || (strcmp(second, name) == 0 && !is_summed(w, first));
}

static bool is_quantised(quant_writer *w, const char *name, const quant_node *producer) {
  uint32_t readers = 0, limited = 0, products = 0, others = 0;
  if (!quant_range_of(w->recipe->ranges, name)) return false;
  for (uint32_t i = 0; i < w->m->nodes.count; i++) {
    const quant_node *n = &w->m->nodes.at[i];
    for (uint32_t k = 0; k < n->in.count; k++) {
      if (strcmp(n->in.at[k], name) != 0) continue;
      others += !reads_bytes(w, n, name);
      if (!reads_bytes(w, n, name)) continue;
      readers++;
      products += n->is_product;
      limited += quant_is_of(n, limits) || adds_constant(w, n) || stays_in_sum(w, n, name);
    }
  }
  if (products) return true;
  const bool from_product = producer && (producer->is_product || quant_is_op(producer, "Add"));
  if (from_product && readers == 1 && limited == 1 && !others) return false;
  return readers > 0 && producer && w->near[producer - w->m->nodes.at] && is_taken(w, producer) &&
         quant_is_of(producer, between) && !w->recipe->alone;
}

static void put_quantised(quant_writer *w, const char *name, const quant_node *producer) {
  if (w->recipe->mode != QUANT_STATIC || !is_quantised(w, name, producer)) return;
  const quant_range *r = quant_range_of(w->recipe->ranges, name);
  const char *scale = quant_name(w, name, "scale"), *zero = quant_name(w, name, "zero_point"),
             *q = quant_name(w, name, "quantized"), *back = quant_name(w, name, "dequantized");
  float s = r->scale;
  uint8_t z = (uint8_t)r->zero;
  quant_put_constant(w, scale, TD_F32, 0, NULL, &s);
  quant_put_constant(w, zero, TD_U8, 0, NULL, &z);
  quant_put_node(w, "QuantizeLinear", "", QUANT_LIST(name, scale, zero), QUANT_LIST(q), NULL, 0);
  quant_put_node(w, "DequantizeLinear", "", QUANT_LIST(q, scale, zero), QUANT_LIST(back), NULL, 0);
}

/* ---- weights ---- */

/* A matrix [k, n], or transposed, or windows [n, ...], as i8 with a scale for each n. */
typedef struct narrow {
  int64_t n, k;
  int8_t *values; /* as the weights lie */
  float *scales;
} narrow;

enum { MOST_BIAS = 1 << 29 }; /* in units of both scales; sums of products have the rest of i32 */

float quant_least_scale(const quant_model *m, const quant_ranges *ranges, const quant_node *node, int64_t n) {
  const quant_range *x = ranges ? quant_range_of(ranges, quant_in(node, 0)) : NULL;
  base_tensor t;
  if (!x || quant_is_op(node, "MatMul") || !quant_weight(m, quant_in(node, 2), &t) || t.rank != 1 || n >= t.dims[0])
    return 0;
  return fabsf(((const base_f32 *)t.data)[n]) / (x->scale * (MOST_BIAS / 2)); /* half: a shift may come to it */
}

float quant_round_nearest(const base_tensor *w, int32_t axis, int64_t n, float least, int8_t *rounded) {
  const int64_t k = base_tensor_numel(w) / w->dims[axis];
  float most = 0;
  for (int64_t i = 0; i < k; i++) most = fmaxf(most, fabsf((float)quant_weight_at(w, axis, n, i)));
  const float own = most >= 1e-30f && isfinite(most) ? most / 127 : 1,
              scale = isfinite(least) ? fmaxf(own, least) : own;
  for (int64_t i = 0; i < k; i++)
    rounded[i] = (int8_t)fminf(fmaxf(nearbyintf((float)quant_weight_at(w, axis, n, i) / scale), -127), 127);
  return scale;
}

static bool narrow_weights(quant_writer *w, const quant_node *node, const base_tensor *t, int32_t axis, narrow *q) {
  const int64_t count = base_tensor_numel(t);
  q->n = t->dims[axis];
  q->k = count / q->n;
  q->values = base_new(w->m->arena, int8_t, (size_t)count);
  q->scales = base_new(w->m->arena, float, (size_t)q->n);
  int8_t *nearest = base_new(w->m->arena, int8_t, (size_t)q->k);
  if (!q->values || !q->scales || !nearest) return false;
  const int64_t step = axis == 0 ? 1 : q->n, first = axis == 0 ? q->k : 1;
  for (int64_t n = 0; n < q->n; n++) {
    q->scales[n] = quant_round_nearest(t, axis, n, quant_least_scale(w->m, w->recipe->ranges, node, n), nearest);
    const int8_t *from = node->rounded ? node->rounded + n * q->k : nearest;
    for (int64_t k = 0; k < q->k; k++) q->values[n * first + k * step] = from[k];
  }
  return true;
}

/* The weights of 8 bits, dequantised: the name of that; NULL: out of memory. */
static const char *put_weights(quant_writer *w, const quant_node *n, const base_tensor *t, int32_t axis, narrow *q) {
  const char *label = n->out.at[0], *values = quant_name(w, label, "weight_quantized"),
             *scales = quant_name(w, label, "weight_scale"), *back = quant_name(w, label, "weight_dequantized");
  if (!narrow_weights(w, n, t, axis, q)) return NULL;
  quant_put_constant(w, values, TD_I8, t->rank, t->dims, q->values);
  quant_put_constant(w, scales, TD_F32, 1, &q->n, q->scales);
  quant_put_node(w, "DequantizeLinear", "", QUANT_LIST(values, scales), QUANT_LIST(back), &(quant_number){"axis", axis},
                 1);
  return back;
}

/* A bias in units of the scales of x and the weights; NULL: as it is. */
static const char *put_bias(quant_writer *w, const quant_node *n, const narrow *q) {
  base_tensor t;
  const char *label = n->out.at[0], *name = quant_in(n, 2);
  const float x_scale = quant_range_of(w->recipe->ranges, quant_in(n, 0))->scale;
  if (*name ? !quant_weight(w->m, name, &t) || t.rank != 1 || t.dims[0] != q->n : !n->shift) return NULL;
  int32_t *values = base_new(w->m->arena, int32_t, (size_t)q->n);
  float *scales = base_new(w->m->arena, float, (size_t)q->n);
  if (!values || !scales) return NULL;
  for (int64_t i = 0; i < q->n; i++) {
    scales[i] = x_scale * q->scales[i];
    const double given = *name ? (double)((const base_f32 *)t.data)[i] : 0, shift = n->shift ? (double)n->shift[i] : 0;
    const double value = nearbyint((given + shift) / (double)scales[i]);
    if (!(fabs(value) <= MOST_BIAS)) return NULL;
    values[i] = (int32_t)value;
  }
  const char *quantised = quant_name(w, label, "bias_quantized"), *scale = quant_name(w, label, "bias_scale"),
             *back = quant_name(w, label, "bias_dequantized");
  quant_put_constant(w, quantised, TD_I32, 1, &q->n, values);
  quant_put_constant(w, scale, TD_F32, 1, &q->n, scales);
  quant_put_node(w, "DequantizeLinear", "", QUANT_LIST(quantised, scale), QUANT_LIST(back), &(quant_number){"axis", 0},
                 1);
  return back;
}

/* `y` = what the product gave, and its bias. */
static void put_sum(quant_writer *w, const quant_node *n, const char *product) {
  if (*quant_in(n, 2))
    quant_put_node(w, "Add", "", QUANT_LIST(product, quant_in(n, 2)), QUANT_LIST(n->out.at[0]), NULL, 0);
}

static bool put_dynamic(quant_writer *w, const quant_node *n, const base_tensor *t, int32_t axis) {
  const char *label = n->out.at[0], *values = quant_name(w, label, "weight_quantized"),
             *scales = quant_name(w, label, "weight_scale"), *q = quant_name(w, label, "input_quantized"),
             *scale = quant_name(w, label, "input_scale"), *zero = quant_name(w, label, "input_zero_point"),
             *sums = quant_name(w, label, "sums"), *sums_f32 = quant_name(w, label, "sums_f32"),
             *both = quant_name(w, label, "scales"),
             *product = *quant_in(n, 2) ? quant_name(w, label, "product") : label;
  base_tensor transposed = *t;
  narrow small;
  if ((axis == 0 && !quant_transpose(w->m, t, &transposed)) || !narrow_weights(w, n, &transposed, 1, &small))
    return false;
  quant_put_constant(w, values, TD_I8, 2, transposed.dims, small.values);
  quant_put_constant(w, scales, TD_F32, 1, &small.n, small.scales);
  quant_put_node(w, "DynamicQuantizeLinear", "", QUANT_LIST(quant_in(n, 0)), QUANT_LIST(q, scale, zero), NULL, 0);
  quant_put_node(w, "MatMulInteger", "", QUANT_LIST(q, values, zero), QUANT_LIST(sums), NULL, 0);
  quant_put_node(w, "Cast", "", QUANT_LIST(sums), QUANT_LIST(sums_f32), &(quant_number){"to", ELEMENT_F32}, 1);
  quant_put_node(w, "Mul", "", QUANT_LIST(scale, scales), QUANT_LIST(both), NULL, 0);
  quant_put_node(w, "Mul", "", QUANT_LIST(sums_f32, both), QUANT_LIST(product), NULL, 0);
  put_sum(w, n, product);
  return true;
}

/* com.microsoft.MatMulNBits: 4 bits, 8 stands for 0. */
static bool put_int4(quant_writer *w, const quant_node *n, const base_tensor *t, int32_t axis) {
  const char *label = n->out.at[0], *values = quant_name(w, label, "weight_quantized"),
             *scale = quant_name(w, label, "weight_scale"),
             *product = *quant_in(n, 2) ? quant_name(w, label, "product") : label;
  const int64_t block = w->recipe->block, columns = t->dims[axis], k = t->dims[1 - axis],
                blocks = (k + block - 1) / block, dims[] = {columns, blocks, block / 2}, count = columns * blocks;
  uint8_t *to = base_new(w->m->arena, uint8_t, (size_t)(count * block / 2));
  float *scales = base_new(w->m->arena, float, (size_t)count);
  if (!to || !scales) return false;
  for (int64_t i = 0; i < count; i++) {
    const int64_t column = i / blocks, first = i % blocks * block;
    float most = 0, x[256];
    for (int64_t j = 0; j < block; j++) {
      const int64_t at = first + j;
      x[j] = at >= k ? 0 : ((const base_f32 *)t->data)[axis ? at * columns + column : column * k + at];
      if (fabsf(x[j]) > fabsf(most)) most = x[j];
    }
    scales[i] = most / -8;
    for (int64_t j = 0; j < block; j++) {
      const float q = most == 0 ? 0 : nearbyintf(x[j] / scales[i]);
      to[(i * block + j) / 2] |= (uint8_t)((int)fminf(fmaxf(q + 8, 0), 15) << j % 2 * 4);
    }
  }
  const quant_number numbers[] = {{"K", k}, {"N", columns}, {"bits", 4}, {"block_size", block}};
  quant_put_constant(w, values, TD_U8, 3, dims, to);
  quant_put_constant(w, scale, TD_F32, 1, &count, scales);
  quant_put_node(w, "MatMulNBits", "com.microsoft", QUANT_LIST(quant_in(n, 0), values, scale), QUANT_LIST(product),
                 numbers, 4);
  put_sum(w, n, product);
  return true;
}

static bool put_product(quant_writer *w, const quant_node *n, const char **in) {
  base_tensor t;
  int32_t axis;
  narrow q;
  if (!quant_product_weight(w->m, n, &t, &axis)) return true;
  if (w->recipe->mode == QUANT_DYNAMIC) return put_dynamic(w, n, &t, axis);
  if (w->recipe->mode == QUANT_INT4) return put_int4(w, n, &t, axis);
  base_tensor transposed = t;
  if (axis == 0 && quant_is_op(n, "MatMul")) {
    if (!quant_transpose(w->m, &t, &transposed)) return false;
    t = transposed;
    axis = 1;
  }
  in[1] = put_weights(w, n, &t, axis, &q);
  if (!in[1]) return false;
  if (w->recipe->mode == QUANT_STATIC && n->in.count <= 3) {
    const char *bias = put_bias(w, n, &q);
    if (bias) in[2] = bias;
    w->biased[n - w->m->nodes.at] = bias != NULL;
  }
  return true;
}

static td_status put_one(quant_writer *w, const void *user, const quant_node *n) {
  (void)user;
  const char **in = base_new(w->m->arena, const char *, (size_t)n->in.count + 1);
  if (!in) return base_no_memory(w->err, "a model");
  for (uint32_t i = 0; i < n->in.count && w->recipe->mode == QUANT_STATIC; i++)
    if (*n->in.at[i] && reads_bytes(w, n, n->in.at[i]) &&
        is_quantised(w, n->in.at[i], quant_producer(w->m, n->in.at[i])))
      in[i] = quant_name(w, n->in.at[i], "dequantized");
  const bool taken = narrows(w, n);
  if (is_gone(w, n)) return TD_OK;
  if (taken && !put_product(w, n, in)) return base_no_memory(w->err, "a model");
  if (!taken || (w->recipe->mode != QUANT_DYNAMIC && w->recipe->mode != QUANT_INT4)) quant_put_again(w, n, in, NULL);
  for (uint32_t i = 0; i < n->out.count; i++) put_quantised(w, n->out.at[i], n);
  return TD_OK;
}

/* ---- files ---- */

/* Is the initializer still read by what was written? */
static bool is_read(quant_writer *w, const void *user, const char *name) {
  (void)user;
  for (uint32_t i = 0; i < w->m->nodes.count; i++) {
    const quant_node *n = &w->m->nodes.at[i];
    for (uint32_t k = 0; k < n->in.count; k++)
      if (strcmp(n->in.at[k], name) == 0 && !(k == 1 && narrows(w, n)) && !(k == 2 && w->biased && w->biased[i]) &&
          !is_gone(w, n))
        return true;
  }
  return false;
}

td_status quant_write(const quant_model *m, const quant_recipe *recipe, base_text *out, td_error *err) {
  quant_writer w = {.m = m,
                    .recipe = recipe,
                    .graph = {.allocator = out->allocator},
                    .added = {.allocator = out->allocator},
                    .err = err};
  if (recipe->mode == QUANT_STATIC) TRY(find_near(&w, err));
  for (uint32_t i = 0; recipe->ranges && i < recipe->ranges->at.count; i++) /* of the graph's inputs */
    if (!quant_producer(m, recipe->ranges->at.at[i].name)) put_quantised(&w, recipe->ranges->at.at[i].name, NULL);
  return quant_put_model(&w, &(quant_edit){put_one, is_read, NULL}, recipe->mode == QUANT_INT4, out);
}
