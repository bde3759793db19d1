/* rewrite.c -- the file again: what is quantised between its nodes, weights of 8 and 4 bits, all else as it stands.
 *
 * Static: a tensor that a product reads, or that passes from one operator of `between` to another, is followed by
 * QuantizeLinear and DequantizeLinear; a weight, and a bias in units of both scales, by DequantizeLinear. What only an
 * activation reads, or a sum with a constant, is quantised behind these: there it is the product's own rounding. */
#include "quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_GRAPH = 7, MODEL_OPSET = 8, GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_OUTPUT = 12, NODE_INPUT = 1 };
enum { ATTRIBUTE_INT = 2, ATTRIBUTE_FLOAT = 1, ELEMENT_F32 = 1 };

/* ---- which nodes, which tensors ---- */

static const char *const between[] = {
    "Conv",    "MatMul",  "Gemm",        "Relu",      "Clip",        "LeakyRelu",         "Add",
    "Mul",     "Sigmoid", "HardSigmoid", "HardSwish", "AveragePool", "MaxPool",           "Concat",
    "Flatten", "Reshape", "Transpose",   "Squeeze",   "Unsqueeze",   "GlobalAveragePool", NULL};
static const char *const limits[] = {"Relu", "Clip", NULL}; /* a part of the product in front */

static bool is_of(const quant_node *n, const char *const *list) {
  while (*list && strcmp(n->op, *list) != 0) list++;
  return *list && (!*n->domain || strcmp(n->domain, "ai.onnx") == 0);
}

static bool is_op(const quant_node *n, const char *op) { return is_of(n, (const char *const[]){op, NULL}); }

static bool is_constant(const quant_model *m, const char *name) {
  return !*name || base_map_get(&m->weights, base_str_of(name)) != NULL;
}

static const quant_node *producer_of(const quant_model *m, const char *name) {
  for (uint32_t i = 0; i < m->nodes.count; i++)
    for (uint32_t k = 0; k < m->nodes.at[i].out.count; k++)
      if (strcmp(m->nodes.at[i].out.at[k], name) == 0) return &m->nodes.at[i];
  return NULL;
}

/* The matrix or window of a product, also behind a transposition; `axis`: of what comes out. Gemm: as a linear layer is
 * written. */
static bool find_weight(const quant_model *m, const quant_node *n, base_tensor *w, int32_t *axis) {
  const bool conv = is_op(n, "Conv"), gemm = is_op(n, "Gemm");
  if ((!conv && !gemm && !is_op(n, "MatMul")) || is_constant(m, quant_in(n, 0))) return false;
  if (gemm && (quant_int(n, "transA", 0) || quant_float(n, "alpha", 1) != 1 || quant_float(n, "beta", 1) != 1))
    return false;
  const bool direct = quant_weight(m, quant_in(n, 1), w);
  const quant_node *turn = direct ? NULL : producer_of(m, quant_in(n, 1));
  const bool transposed = turn && is_op(n, "MatMul") && is_op(turn, "Transpose") && quant_last(turn, "perm", 0) == 0;
  if (!direct && !(transposed && quant_weight(m, quant_in(turn, 0), w))) return false;
  *axis = conv || transposed || (gemm && quant_int(n, "transB", 0)) ? 0 : 1;
  return base_tensor_numel(w) > 0 && (conv ? w->rank >= 3 : w->rank == 2);
}

td_status quant_find(quant_model *m, quant_mode mode, quant_ranges *ranges, td_error *err) {
  base_tensor w;
  int32_t axis;
  for (uint32_t i = 0; i < m->nodes.count; i++) {
    quant_node *n = &m->nodes.at[i];
    n->is_product = find_weight(m, n, &w, &axis) && (mode == QUANT_STATIC || !is_op(n, "Conv"));
    if (mode != QUANT_STATIC || !is_of(n, between)) continue;
    for (uint32_t k = 0; k < n->in.count + n->out.count; k++) {
      const char *name = k < n->in.count ? n->in.at[k] : n->out.at[k - n->in.count];
      if (is_constant(m, name) || base_map_get(&ranges->index, base_str_of(name))) continue;
      quant_range *r = base_vec_push(m->arena, &ranges->at);
      if (!r || !base_map_put(&ranges->index, m->arena, base_str_of(name), ranges->at.count - 1, NULL))
        return base_no_memory(err, "tensors to measure");
      r->name = name;
    }
  }
  return TD_OK;
}

/* ---- writing ---- */

typedef struct writer {
  const quant_model *m;
  const quant_recipe *recipe;
  base_text graph, added; /* initializers */
  td_error *err;
} writer;

static bool is_taken(const writer *w, const quant_node *n) {
  return !n->kept && (!w->recipe->alone || w->recipe->alone == n);
}

/* Is the product written anew? Static ones need to know what x was. */
static bool narrows(const writer *w, const quant_node *n) {
  return n->is_product && is_taken(w, n) &&
         (w->recipe->mode != QUANT_STATIC || quant_range_of(w->recipe->ranges, quant_in(n, 0)));
}

/* A transposition of weights whose products have them as their own. */
static bool is_gone(const writer *w, const quant_node *turn) {
  bool read = !is_op(turn, "Transpose") || turn->out.count != 1 || !is_constant(w->m, quant_in(turn, 0));
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

static void put_attribute(base_text *node, const char *name, int64_t value) {
  base_text a = {.allocator = node->allocator};
  fmt_put_str(&a, 1, name);
  fmt_put_int(&a, 3, value);
  fmt_put_int(&a, 20, ATTRIBUTE_INT);
  fmt_put_bytes(node, 5, a.at, a.length);
  base_text_free(&a);
}

typedef struct number {
  const char *name;
  int64_t value;
} number;

/* A node of our own, named after its first result. */
static void put_node(writer *w, const char *op, const char *domain, const char *const *in, const char *const *out,
                     const number *numbers, uint32_t count) {
  base_text node = {.allocator = w->graph.allocator};
  for (; *in; in++) fmt_put_str(&node, 1, *in);
  for (const char *const *o = out; *o; o++) fmt_put_str(&node, 2, *o);
  fmt_put_str(&node, 3, *out);
  fmt_put_str(&node, 4, op);
  for (uint32_t i = 0; i < count; i++) put_attribute(&node, numbers[i].name, numbers[i].value);
  if (*domain) fmt_put_str(&node, 7, domain);
  w->graph.failed |= node.failed;
  fmt_put_bytes(&w->graph, GRAPH_NODE, node.at, node.length);
  base_text_free(&node);
}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void put_constant(writer *w, const char *name, td_dtype dtype, int32_t rank, const int64_t *dims, void *data) {
  base_text t = {.allocator = w->graph.allocator};
  const base_tensor tensor = base_tensor_of(data, dtype, rank, dims);
  fmt_put_tensor_proto(&t, name, &tensor);
  w->added.failed |= t.failed;
  fmt_put_bytes(&w->added, GRAPH_INITIALIZER, t.at, t.length);
  base_text_free(&t);
}

static const char *name_of(const writer *w, const char *tensor, const char *what) {
  const char *name = base_arena_format(w->m->arena, "%s_%s", tensor, what);
  return name ? name : "";
}

/* ---- static: between nodes ---- */

/* Does the node read its operand `name` in 8 bits? */
static bool reads_bytes(const writer *w, const quant_node *n, const char *name) {
  if (!is_taken(w, n) || !is_of(n, between)) return false;
  if (is_op(n, "MatMul") || is_op(n, "Gemm") || is_op(n, "Conv"))
    return n->is_product && strcmp(quant_in(n, 0), name) == 0;
  return !w->recipe->alone;
}

static bool adds_constant(const writer *w, const quant_node *n) {
  return is_op(n, "Add") && (is_constant(w->m, quant_in(n, 0)) || is_constant(w->m, quant_in(n, 1)));
}

static bool is_quantised(const writer *w, const char *name, const quant_node *producer) {
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
      limited += is_of(n, limits) || adds_constant(w, n);
    }
  }
  if (products) return true;
  const bool from_product = producer && (producer->is_product || is_op(producer, "Add"));
  if (from_product && readers == 1 && limited == 1 && !others) return false;
  return readers > 0 && producer && is_taken(w, producer) && is_of(producer, between) && !w->recipe->alone;
}

static void put_quantised(writer *w, const char *name, const quant_node *producer) {
  if (w->recipe->mode != QUANT_STATIC || !is_quantised(w, name, producer)) return;
  const quant_range *r = quant_range_of(w->recipe->ranges, name);
  const char *scale = name_of(w, name, "scale"), *zero = name_of(w, name, "zero_point"),
             *q = name_of(w, name, "quantized"), *back = name_of(w, name, "dequantized");
  float s = r->scale;
  uint8_t z = (uint8_t)r->zero;
  put_constant(w, scale, TD_F32, 0, NULL, &s);
  put_constant(w, zero, TD_U8, 0, NULL, &z);
  put_node(w, "QuantizeLinear", "", LIST(name, scale, zero), LIST(q), NULL, 0);
  put_node(w, "DequantizeLinear", "", LIST(q, scale, zero), LIST(back), NULL, 0);
}

/* The node with other operands; NULL among them: as it was. */
static void put_again(writer *w, const quant_node *n, const char *const *in) {
  base_text node = {.allocator = w->graph.allocator};
  uint32_t index = 0;
  td_error ignored;
  for (fmt_wire wire = n->bytes; fmt_wire_more(&wire);) {
    const uint8_t *from = wire.at;
    fmt_field f;
    if (fmt_wire_next(&wire, &f, &ignored) != TD_OK) break;
    const char *other = f.number == NODE_INPUT && index < n->in.count ? in[index++] : NULL;
    if (other) fmt_put_str(&node, NODE_INPUT, other);
    else base_text_add(&node, (const char *)from, (size_t)(wire.at - from));
  }
  w->graph.failed |= node.failed;
  fmt_put_bytes(&w->graph, GRAPH_NODE, node.at, node.length);
  base_text_free(&node);
}

/* ---- weights ---- */

/* A matrix [k, n], or transposed, or windows [n, ...], as i8 with a scale for each n. */
typedef struct narrow {
  int64_t n, k;
  int8_t *values; /* as the weights lie */
  float *scales;
} narrow;

static bool narrow_weights(const writer *w, const base_tensor *t, int32_t axis, narrow *q) {
  const base_f32 *x = t->data;
  const int64_t count = base_tensor_numel(t);
  q->n = t->dims[axis];
  q->k = count / q->n;
  q->values = base_new(w->m->arena, int8_t, (size_t)count);
  q->scales = base_new(w->m->arena, float, (size_t)q->n);
  if (!q->values || !q->scales) return false;
  const int64_t step = axis == 0 ? 1 : q->n, first = axis == 0 ? q->k : 1;
  for (int64_t n = 0; n < q->n; n++) {
    float most = 0;
    for (int64_t k = 0; k < q->k; k++) most = fmaxf(most, fabsf(x[n * first + k * step]));
    q->scales[n] = most >= 1e-30f && isfinite(most) ? most / 127 : 1;
    for (int64_t k = 0; k < q->k; k++)
      q->values[n * first + k * step] =
          (int8_t)fminf(fmaxf(nearbyintf(x[n * first + k * step] / q->scales[n]), -127), 127);
  }
  return true;
}

/* The weights of 8 bits, dequantised: the name of that; NULL: out of memory. */
static const char *put_weights(writer *w, const char *label, const base_tensor *t, int32_t axis, narrow *q) {
  const char *values = name_of(w, label, "weight_quantized"), *scales = name_of(w, label, "weight_scale"),
             *back = name_of(w, label, "weight_dequantized");
  if (!narrow_weights(w, t, axis, q)) return NULL;
  put_constant(w, values, TD_I8, t->rank, t->dims, q->values);
  put_constant(w, scales, TD_F32, 1, &q->n, q->scales);
  put_node(w, "DequantizeLinear", "", LIST(values, scales), LIST(back), &(number){"axis", axis}, 1);
  return back;
}

/* A bias in units of the scales of x and the weights; NULL: as it is. */
static const char *put_bias(writer *w, const char *label, const char *name, float x_scale, const narrow *q) {
  base_tensor t;
  if (!quant_weight(w->m, name, &t) || t.rank != 1 || t.dims[0] != q->n) return NULL;
  int32_t *values = base_new(w->m->arena, int32_t, (size_t)q->n);
  float *scales = base_new(w->m->arena, float, (size_t)q->n);
  if (!values || !scales) return NULL;
  for (int64_t i = 0; i < q->n; i++) {
    scales[i] = x_scale * q->scales[i];
    const double value = nearbyint((double)((const base_f32 *)t.data)[i] / (double)scales[i]);
    if (!(fabs(value) <= 1 << 29)) return NULL;
    values[i] = (int32_t)value;
  }
  const char *quantised = name_of(w, label, "bias_quantized"), *scale = name_of(w, label, "bias_scale"),
             *back = name_of(w, label, "bias_dequantized");
  put_constant(w, quantised, TD_I32, 1, &q->n, values);
  put_constant(w, scale, TD_F32, 1, &q->n, scales);
  put_node(w, "DequantizeLinear", "", LIST(quantised, scale), LIST(back), &(number){"axis", 0}, 1);
  return back;
}

/* [k, n] from [n, k]. */
static bool turn(const writer *w, const base_tensor *t, base_tensor *transposed) {
  const int64_t n = t->dims[0], k = t->dims[1], dims[] = {k, n};
  float *to = base_new(w->m->arena, float, (size_t)(n * k));
  if (!to) return false;
  for (int64_t i = 0; i < n * k; i++) to[i % k * n + i / k] = ((const base_f32 *)t->data)[i];
  *transposed = base_tensor_of(to, TD_F32, 2, dims);
  return true;
}

/* `y` = what the product gave, and its bias. */
static void put_sum(writer *w, const quant_node *n, const char *product) {
  if (*quant_in(n, 2)) put_node(w, "Add", "", LIST(product, quant_in(n, 2)), LIST(n->out.at[0]), NULL, 0);
}

static bool put_dynamic(writer *w, const quant_node *n, const base_tensor *t, int32_t axis) {
  const char *label = n->out.at[0], *values = name_of(w, label, "weight_quantized"),
             *scales = name_of(w, label, "weight_scale"), *q = name_of(w, label, "input_quantized"),
             *scale = name_of(w, label, "input_scale"), *zero = name_of(w, label, "input_zero_point"),
             *sums = name_of(w, label, "sums"), *sums_f32 = name_of(w, label, "sums_f32"),
             *both = name_of(w, label, "scales"), *product = *quant_in(n, 2) ? name_of(w, label, "product") : label;
  base_tensor transposed = *t;
  narrow small;
  if ((axis == 0 && !turn(w, t, &transposed)) || !narrow_weights(w, &transposed, 1, &small)) return false;
  put_constant(w, values, TD_I8, 2, transposed.dims, small.values);
  put_constant(w, scales, TD_F32, 1, &small.n, small.scales);
  put_node(w, "DynamicQuantizeLinear", "", LIST(quant_in(n, 0)), LIST(q, scale, zero), NULL, 0);
  put_node(w, "MatMulInteger", "", LIST(q, values, zero), LIST(sums), NULL, 0);
  put_node(w, "Cast", "", LIST(sums), LIST(sums_f32), &(number){"to", ELEMENT_F32}, 1);
  put_node(w, "Mul", "", LIST(scale, scales), LIST(both), NULL, 0);
  put_node(w, "Mul", "", LIST(sums_f32, both), LIST(product), NULL, 0);
  put_sum(w, n, product);
  return true;
}

/* com.microsoft.MatMulNBits: 4 bits, 8 stands for 0. */
static bool put_int4(writer *w, const quant_node *n, const base_tensor *t, int32_t axis) {
  const char *label = n->out.at[0], *values = name_of(w, label, "weight_quantized"),
             *scale = name_of(w, label, "weight_scale"),
             *product = *quant_in(n, 2) ? name_of(w, label, "product") : label;
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
  const number numbers[] = {{"K", k}, {"N", columns}, {"bits", 4}, {"block_size", block}};
  put_constant(w, values, TD_U8, 3, dims, to);
  put_constant(w, scale, TD_F32, 1, &count, scales);
  put_node(w, "MatMulNBits", "com.microsoft", LIST(quant_in(n, 0), values, scale), LIST(product), numbers, 4);
  put_sum(w, n, product);
  return true;
}

static bool put_product(writer *w, const quant_node *n, const char **in) {
  base_tensor t;
  int32_t axis;
  narrow q;
  if (!find_weight(w->m, n, &t, &axis)) return true;
  if (w->recipe->mode == QUANT_DYNAMIC) return put_dynamic(w, n, &t, axis);
  if (w->recipe->mode == QUANT_INT4) return put_int4(w, n, &t, axis);
  base_tensor transposed = t;
  if (axis == 0 && is_op(n, "MatMul")) {
    if (!turn(w, &t, &transposed)) return false;
    t = transposed;
    axis = 1;
  }
  in[1] = put_weights(w, n->out.at[0], &t, axis, &q);
  if (!in[1]) return false;
  if (w->recipe->mode == QUANT_STATIC && *quant_in(n, 2))
    in[2] = put_bias(w, n->out.at[0], quant_in(n, 2), quant_range_of(w->recipe->ranges, quant_in(n, 0))->scale, &q);
  return true;
}

static td_status put_one(writer *w, const quant_node *n) {
  const char **in = base_new(w->m->arena, const char *, (size_t)n->in.count + 1);
  if (!in) return base_no_memory(w->err, "a model");
  for (uint32_t i = 0; i < n->in.count && w->recipe->mode == QUANT_STATIC; i++)
    if (*n->in.at[i] && reads_bytes(w, n, n->in.at[i]) && is_quantised(w, n->in.at[i], producer_of(w->m, n->in.at[i])))
      in[i] = name_of(w, n->in.at[i], "dequantized");
  const bool taken = narrows(w, n);
  if (is_gone(w, n)) return TD_OK;
  if (taken && !put_product(w, n, in)) return base_no_memory(w->err, "a model");
  if (!taken || (w->recipe->mode != QUANT_DYNAMIC && w->recipe->mode != QUANT_INT4)) put_again(w, n, in);
  for (uint32_t i = 0; i < n->out.count; i++) put_quantised(w, n->out.at[i], n);
  return TD_OK;
}

/* ---- files ---- */

/* Copies the model with another graph, and a set of operators more. */
static void put_model(const quant_model *m, const base_text *graph, bool microsoft, base_text *out) {
  td_error ignored;
  for (fmt_wire wire = m->file; fmt_wire_more(&wire);) {
    const uint8_t *from = wire.at;
    fmt_field f;
    if (fmt_wire_next(&wire, &f, &ignored) != TD_OK) return;
    if (f.number == MODEL_GRAPH) fmt_put_bytes(out, MODEL_GRAPH, graph->at, graph->length);
    else base_text_add(out, (const char *)from, (size_t)(wire.at - from));
  }
  if (!microsoft) return;
  base_text set = {.allocator = out->allocator};
  fmt_put_str(&set, 1, "com.microsoft");
  fmt_put_int(&set, 2, 1);
  fmt_put_bytes(out, MODEL_OPSET, set.at, set.length);
  base_text_free(&set);
}

static fmt_wire graph_of(const quant_model *m) {
  td_error ignored;
  fmt_field f = {0};
  for (fmt_wire wire = m->file; fmt_wire_more(&wire);)
    if (fmt_wire_next(&wire, &f, &ignored) == TD_OK && f.number == MODEL_GRAPH) break;
  return f.bytes;
}

/* Is the initializer still read by what was written? */
static bool is_read(const writer *w, const char *name) {
  for (uint32_t i = 0; i < w->m->nodes.count; i++) {
    const quant_node *n = &w->m->nodes.at[i];
    for (uint32_t k = 0; k < n->in.count; k++)
      if (strcmp(n->in.at[k], name) == 0 && !(k == 1 && narrows(w, n)) && !is_gone(w, n)) return true;
  }
  return false;
}

static const char *initializer_name(const quant_model *m, uint32_t i) {
  for (uint32_t s = 0; s < m->weights.cap; s++)
    if (m->weights.slots[s].used && m->weights.slots[s].value == i) return m->weights.slots[s].key.at;
  return "";
}

td_status quant_write(const quant_model *m, const quant_recipe *recipe, base_text *out, td_error *err) {
  writer w = {.m = m,
              .recipe = recipe,
              .graph = {.allocator = out->allocator},
              .added = {.allocator = out->allocator},
              .err = err};
  td_status status = TD_OK;
  uint32_t node = 0, initializer = 0;
  for (uint32_t i = 0; recipe->ranges && i < recipe->ranges->at.count; i++) /* of the graph's inputs */
    if (!producer_of(m, recipe->ranges->at.at[i].name)) put_quantised(&w, recipe->ranges->at.at[i].name, NULL);
  for (fmt_wire wire = graph_of(m); fmt_wire_more(&wire) && status == TD_OK;) {
    const uint8_t *from = wire.at;
    fmt_field f;
    status = fmt_wire_next(&wire, &f, err);
    if (status != TD_OK) break;
    if (f.number == GRAPH_NODE) status = put_one(&w, &m->nodes.at[node++]);
    else if (f.number != GRAPH_INITIALIZER || is_read(&w, initializer_name(m, initializer)))
      base_text_add(&w.graph, (const char *)from, (size_t)(wire.at - from));
    initializer += f.number == GRAPH_INITIALIZER;
  }
  base_text_add(&w.graph, w.added.at, w.added.length);
  if (status == TD_OK) put_model(m, &w.graph, recipe->mode == QUANT_INT4, out);
  if (status == TD_OK && (w.graph.failed || w.added.failed || out->failed)) status = base_no_memory(err, "a model");
  base_text_free(&w.graph);
  base_text_free(&w.added);
  return status;
}

void quant_write_tapped(const quant_model *m, const char *const *names, uint32_t count, base_text *out) {
  const fmt_wire wire = graph_of(m);
  base_text graph = {.allocator = out->allocator};
  base_text_add(&graph, (const char *)wire.at, fmt_wire_left(&wire));
  for (uint32_t i = 0; i < count; i++) {
    base_text value = {.allocator = out->allocator};
    fmt_put_str(&value, 1, names[i]);
    fmt_put_bytes(&graph, GRAPH_OUTPUT, value.at, value.length);
    base_text_free(&value);
  }
  out->failed |= graph.failed;
  put_model(m, &graph, false, out);
  base_text_free(&graph);
}
