/* int8.c -- products of 8-bit integers are taken as such, with their scales, where a level has kernels for bytes:
 *
 *     mul(_to_copy(matmul_integer(q, W, zero)), mul(scale, s)) -> linear_i8(x, W, s)
 *     mul(_to_copy(conv_integer(q, W, zero)), mul(scale, s))   -> first(conv_i8(last(x), W, s))
 *     matmul(dequantize(q, scale, zero), dequantize(W))        -> the same
 *     where q, scale, zero = dynamic_quantize_linear(x)
 *     convolution(dequantize(q), dequantize(W), b)         -> first(conv_i8(last(q), W, b)), scales as attributes; of
 *                                                             a first layer q's f32 as it is, if nobody else needs q
 *     matmul(dequantize(q), dequantize(W)), gemm the same  -> linear_i8(q, W), of W transposed, too
 *     matmul(dequantize(a), dequantize(b))                 -> matmul_i8(a, b), or as int8_activations.c says
 *     qlinear_conv(...), qlinear_matmul(...)               -> the same with a result of 8 bits
 *     quantize(conv_i8(...)) or of linear_i8               -> the same with a result of 8 bits
 *
 * where weights may be quantised from f32, first and last permute as the pass channels_last says; int8_between.c has
 * what stands between products. Scales and zero points may be casts of constants.
 *
 * Requires: a verified graph; comes before constants are folded, which would make f32 of quantised weights. Keeps:
 * types. Breaks: nothing but rounding: sums are exact, their scales are multiplied in one order. */
#include "ir/eval.h"
#include "kernels/products/products.h"
#include "passes/int8_priv.h"

#include <math.h>
#include <string.h>

enum { X, W, X_ZERO, W_ZERO };

/* A product's weights: dense [n][k] with a scale each, and a bias in units of the scales of both operands. */
typedef struct weights {
  int64_t n, k;
  int8_t *values;
  float *scales;
  int32_t *bias; /* NULL: none */
  int64_t shift; /* still to be subtracted from all values */
} weights;

/* Where they come from: a constant, element (n, tap, channel) at n * n_step + tap + channel * channel_step, k being
 * tap * channels + channel. Zero points may be absent. */
typedef struct origin {
  const base_tensor *t, *scales, *zeros;
  int64_t n, taps, channels, n_step, channel_step;
} origin;

static const kern_row *row_of(const passes_edit *e) { return kern_select(KERN_LINEAR_I8, TD_I8, e->setting->isa); }

double passes_int8_number(const base_tensor *t, int64_t i) {
  return base_load_f64(t->dtype, t->data, base_tensor_numel(t) == 1 ? 0 : i);
}

static bool is_vector(const base_tensor *t, int64_t n) {
  const int64_t count = t ? base_tensor_numel(t) : 0;
  return t && base_tensor_contiguous(t) && (count == 1 || (t->rank == 1 && count == n));
}

bool passes_int8_find_optional(passes_edit *e, const ir_node_def *node, uint32_t index, const base_tensor **t) {
  const bool given = node->in_count > index && node->in[index].id;
  *t = given ? passes_constant(e, node, index) : NULL;
  return *t || !given;
}

bool passes_int8_is_bytes(td_dtype dtype) { return base_is_int(dtype) && base_dtype(dtype)->bits == 8; }

/* `count` bytes, `step` apart, less the zero point; false: one is outside of i8. */
static inline bool take_bytes(const uint8_t *from, int64_t step, int64_t count, bool is_signed, int zero, int8_t *to) {
  const int flip = is_signed ? 128 : 0; /* makes an unsigned number of a signed one */
  bool fits = true;
  for (int64_t i = 0; i < count; i++) {
    const int value = (from[i * step] ^ flip) - flip - zero;
    fits &= value >= INT8_MIN && value <= INT8_MAX;
    to[i] = (int8_t)value;
  }
  return fits;
}

/* Weights of one n, of channels [first, last). */
static bool take_channels(const origin *o, int64_t n, int64_t first, int64_t last, int zero, int8_t *to) {
  const bool is_signed = o->t->dtype == TD_I8;
  bool fits = true;
  for (int64_t tap = 0; tap < o->taps; tap++) {
    const uint8_t *from = (const uint8_t *)o->t->data + n * o->n_step + tap + first * o->channel_step;
    int8_t *at = to + tap * o->channels + first;
    fits &= o->channel_step == 1 ? take_bytes(from, 1, last - first, is_signed, zero, at)
                                 : take_bytes(from, o->channel_step, last - first, is_signed, zero, at);
  }
  return fits;
}

/* Weights less `zeros`, which stand for their n; false: one is outside of i8. Of a matrix [k, n] so many k are read at
 * once that the cache still has their lines when the next n is read. */
static bool take_weights(const origin *o, const base_tensor *zeros, int zero, const weights *w) {
  enum { CHANNELS = 256 };
  bool fits = true;
  for (int64_t first = 0; first < o->channels; first += CHANNELS)
    for (int64_t n = 0; n < w->n; n++) {
      const double own = zeros ? passes_int8_number(zeros, n) : zero;
      const int64_t last = base_min_i64(first + CHANNELS, o->channels);
      fits &= fabs(own) <= UINT8_MAX;
      fits &= take_channels(o, n, first, last, fits ? (int)own : 0, w->values + n * w->k);
    }
  return fits;
}

static bool are_alike(const base_tensor *t) {
  for (int64_t i = 1; i < base_tensor_numel(t); i++)
    if (passes_int8_number(t, i) != passes_int8_number(t, 0)) return false;
  return true;
}

/* Weights less their zero points; where i8 has no room for these, but all have one, it is w->shift or a part of it.
 * *fits: they are constants, and have room. */
static td_status read_weights(passes_edit *e, const origin *o, weights *w, bool *fits) {
  const base_tensor *t = o->t;
  *fits = t && base_tensor_contiguous(t) && passes_int8_is_bytes(t->dtype) && base_tensor_numel(t) > 0 &&
          base_tensor_numel(t) / o->n <= KERN_I8_MAX_K && (!o->zeros || is_vector(o->zeros, o->n)) &&
          is_vector(o->scales, o->n) && o->scales->dtype == TD_F32;
  if (!*fits) return TD_OK;
  *w = (weights){.k = o->taps * o->channels, .n = o->n};
  w->values = base_new(e->scratch, int8_t, (size_t)(w->n * w->k));
  w->scales = base_new(e->scratch, float, (size_t)w->n);
  if (!w->values || !w->scales) return base_no_memory(e->err, "weights");
  for (int64_t n = 0; n < w->n; n++) w->scales[n] = (float)passes_int8_number(o->scales, n);
  *fits = take_weights(o, o->zeros, 0, w);
  if (*fits || (o->zeros && !are_alike(o->zeros)) || w->k > KERN_I8_MAX_K / 2) return TD_OK;
  const int middle = t->dtype == TD_U8 ? 128 : 0;
  w->shift = (o->zeros ? (int64_t)passes_int8_number(o->zeros, 0) : 0) - middle;
  *fits = take_weights(o, NULL, middle, w);
  return TD_OK;
}

/* Of a matrix [k, n], or transposed. */
static origin origin_of_matrix(const base_tensor *t, bool transposed, const int8_stored *s) {
  const int64_t n = t->dims[!transposed], k = t->dims[transposed];
  return (origin){.t = t,
                  .scales = s->scales,
                  .zeros = s->zeros,
                  .n = n,
                  .taps = 1,
                  .channels = k,
                  .n_step = transposed ? k : 1,
                  .channel_step = transposed ? 1 : n};
}

static td_status pack(passes_edit *e, const weights *w, const kern_i8_layout *l, ir_value *packed) {
  uint8_t *to = base_arena_alloc_uncleared(e->graph->constants, (size_t)l->size, 64);
  if (!to) return base_no_memory(e->err, "packed weights");
  kern_pack_i8(l, w->values, w->scales, w->bias, to);
  const base_tensor t = base_tensor_of(to, TD_U8, 1, &l->size);
  return ir_add_constant(e->graph, &t, NULL, packed, e->err);
}

static td_status pack_matrix(passes_edit *e, const weights *w, ir_value *packed) {
  const kern_row *row = row_of(e);
  kern_i8_layout l;
  if (!kern_i8_layout_of(w->n, w->k, row->lanes, kern_i8_depth(row), &l))
    return base_no_memory(e->err, "packed weights");
  return pack(e, w, &l, packed);
}

/* ---- static: between dequantisations and quantisations ---- */

bool passes_int8_find_stored(passes_edit *e, ir_value v, int8_stored *s) {
  const ir_node_def *node = passes_dequantised(e, v);
  if (!node || passes_int(node, "block_size") || ir_type_of(e->graph, v)->dtype != TD_F32) return false;
  *s = (int8_stored){.q = node->in[0], .scales = passes_constant(e, node, 1), .axis = passes_int(node, "axis")};
  if (s->axis < 0) s->axis += ir_type_of(e->graph, v)->rank;
  return s->scales && passes_int8_find_optional(e, node, 2, &s->zeros);
}

/* Neither it nor what it is divided by leaves f32. */
static bool is_scale(double scale) { return scale > 0 && isfinite((float)scale) && isfinite(1 / (float)scale); }

bool passes_int8_scaled(const passes_edit *e, ir_value q, const base_tensor *scale, const base_tensor *zero,
                        int8_activation *a) {
  const ir_type *type = ir_type_of(e->graph, q);
  if (!scale || base_tensor_numel(scale) != 1 || (zero && base_tensor_numel(zero) != 1)) return false;
  *a = (int8_activation){q, type->dtype, passes_int8_number(scale, 0), zero ? (int64_t)passes_int8_number(zero, 0) : 0};
  return passes_int8_is_bytes(type->dtype) && type->rank > 0 && is_scale(a->scale);
}

bool passes_int8_activation_of(const passes_edit *e, ir_value q, const base_tensor *scale, const base_tensor *zero,
                               int8_activation *a) {
  return !passes_constant_value(e, q) && passes_int8_scaled(e, q, scale, zero, a);
}

bool passes_int8_find_activation(passes_edit *e, ir_value v, int8_activation *a) {
  int8_stored s;
  return passes_int8_find_stored(e, v, &s) && passes_int8_activation_of(e, s.q, s.scales, s.zeros, a);
}

bool passes_int8_find_bytes(passes_edit *e, ir_value v, int8_activation *a) {
  int8_stored s;
  return passes_int8_find_stored(e, v, &s) && passes_int8_scaled(e, s.q, s.scales, s.zeros, a);
}

bool passes_int8_find_channels(const passes_edit *e, const ir_node_def *node, const base_tensor *scales,
                               const base_tensor *zeros, int8_activation *a) {
  const ir_value q = node->op->id == OP_td_quantize_linear ? node->out[0] : node->in[0];
  const ir_type *type = ir_type_of(e->graph, q);
  if (type->rank < 3 || passes_int(node, "axis") != 1 || passes_int(node, "block_size") || scales->rank != 1 ||
      scales->dtype != TD_F32 || type->dims[1] != scales->dims[0] || passes_constant_value(e, q) ||
      (node->in_count > 2 && node->in[2].id && !zeros) || (zeros && !are_alike(zeros)))
    return false;
  *a = (int8_activation){q, type->dtype, 1, zeros ? (int64_t)passes_int8_number(zeros, 0) : 0};
  for (int64_t c = 0; c < scales->dims[0]; c++)
    if (!is_scale(passes_int8_number(scales, c))) return false;
  return passes_int8_is_bytes(type->dtype);
}

int64_t passes_int8_unsigned_zero(const int8_activation *a) { return a->zero + (a->dtype == TD_I8 ? 128 : 0); }

double passes_int8_largest(const int8_activation *a) {
  const int64_t zero = passes_int8_unsigned_zero(a);
  return (double)base_max_i64(zero, UINT8_MAX - zero);
}

td_status passes_int8_permute_channels(passes_edit *e, ir_node at, ir_value v, bool to_last, ir_value *out) {
  int64_t order[BASE_MAX_RANK];
  (to_last ? passes_order_last : passes_order_first)(ir_type_of(e->graph, v)->rank, order);
  return passes_permute(e, at, v, order, out);
}

/* Constant weights of bytes, their scales along `axis` or one for all. */
static bool find_weights(passes_edit *e, ir_value v, int64_t axis, int8_stored *s, const base_tensor **t) {
  if (!passes_int8_find_stored(e, v, s) || (base_tensor_numel(s->scales) != 1 && s->axis != axis)) return false;
  *t = passes_constant_value(e, s->q);
  return *t && base_tensor_numel(*t) > 0;
}

/* A product to be made: x, the weights, a bias of i32 among these or of f32 as an operand, the result. */
typedef struct product {
  int8_activation x;
  weights w;
  ir_value bias;
} product;

/* The integers that stand for a bias, where they are in units of the scales of x and the weights. */
static td_status take_bias(passes_edit *e, product *p, const base_tensor *t, const int8_stored *s) {
  bool fits = p->w.k <= KERN_I8_MAX_K / 4;
  int32_t *bias = base_new(e->scratch, int32_t, (size_t)p->w.n);
  if (!bias) return base_no_memory(e->err, "a bias");
  for (int64_t i = 0; i < p->w.n && fits; i++) {
    const double value = passes_int8_number(t, i) - (s->zeros ? passes_int8_number(s->zeros, i) : 0);
    fits =
        (float)passes_int8_number(s->scales, i) == (float)p->x.scale * p->w.scales[i] && fabs(value) <= INT8_MOST_BIAS;
    bias[i] = fits ? (int32_t)value : 0;
  }
  if (fits) p->w.bias = bias;
  return TD_OK;
}

/* A bias of n elements: none, a constant, or the dequantisation of one. *fits: it is one of these. */
static td_status make_bias(passes_edit *e, ir_value v, product *p, bool *fits) {
  const base_tensor *t = v.id ? passes_constant_value(e, v) : NULL;
  const int64_t n = p->w.n;
  int8_stored s = {0};
  *fits = true;
  p->bias = v;
  if (!v.id) return TD_OK;
  if (!t && passes_int8_find_stored(e, v, &s)) t = passes_constant_value(e, s.q);
  *fits = t && t->rank == 1 && t->dims[0] == n && base_tensor_contiguous(t) && (s.scales || t->dtype == TD_F32) &&
          (!s.scales || is_vector(s.scales, n)) && (!s.zeros || is_vector(s.zeros, n));
  if (!*fits || !s.scales) return TD_OK;
  TRY(take_bias(e, p, t, &s));
  p->bias = IR_NO_VALUE;
  if (p->w.bias) return TD_OK;
  float *to = base_arena_alloc_uncleared(e->graph->constants, (size_t)n * sizeof *to + 1, 64);
  if (!to) return base_no_memory(e->err, "a bias");
  for (int64_t i = 0; i < n; i++)
    to[i] = (float)((passes_int8_number(t, i) - (s.zeros ? passes_int8_number(s.zeros, i) : 0)) *
                    passes_int8_number(s.scales, i));
  const base_tensor made = base_tensor_of(to, TD_F32, 1, &n);
  return ir_add_constant(e->graph, &made, NULL, &p->bias, e->err);
}

void passes_int8_product_args(const kern_row *row, const int8_activation *x, const int8_activation *y, base_arg *args) {
  args[0] = ARG_INT("panel8", row->lanes);
  args[1] = ARG_INT("depth", kern_i8_depth(row));
  args[2] = ARG_FLOAT("x_scale", x->scale);
  args[3] = ARG_INT("x_zero", passes_int8_unsigned_zero(x));
  args[4] = ARG_FLOAT("y_scale", y ? y->scale : 0);
  args[5] = ARG_INT("y_zero", y ? y->zero : 0);
  args[6] = ARG_BOOL("y_signed", y && y->dtype == TD_I8);
}

static td_status add_linear(passes_edit *e, ir_node id, const ir_node_def *node, const product *p,
                            const int8_activation *y) {
  ir_value in[3] = {p->x.q, IR_NO_VALUE, p->bias}, made;
  base_arg args[2 + INT8_PRODUCT_ARGS] = {ARG_INT("n", p->w.n), ARG_INT("w_shift", p->w.shift)};
  TRY(pack_matrix(e, &p->w, &in[1]));
  passes_int8_product_args(row_of(e), &p->x, y, args + 2);
  const ir_new_node spec = {.in = in, .in_count = in[2].id ? 3 : 2, .args = args, .arg_count = 2 + INT8_PRODUCT_ARGS};
  TRY(passes_add(e, id, OP_td_linear_i8, spec, node, &made));
  return passes_take_place(e, id, made);
}

/* Weights of a matrix [k, n], or transposed, as a product's operand or what that is a transposition of. */
static bool find_matrix(passes_edit *e, ir_value v, bool transposed, origin *from) {
  static const int64_t swap[] = {1, 0};
  const ir_node_def *permute = passes_producer(e, v, OP_aten_permute);
  const base_tensor *t;
  int64_t order[BASE_MAX_RANK];
  int8_stored s;
  if (permute && passes_order(permute, ir_type_of(e->graph, v)->rank, order) && ir_type_of(e->graph, v)->rank == 2 &&
      memcmp(order, swap, sizeof swap) == 0)
    v = permute->in[0], transposed = !transposed;
  if (!find_weights(e, v, !transposed, &s, &t) || t->rank != 2) return false;
  *from = origin_of_matrix(t, transposed, &s);
  return true;
}

/* x that is quantised by its range at run time, as attributes of a product say. */
static int8_activation ranged_of(const ir_node_def *quantise) {
  return (int8_activation){.q = quantise->in[0],
                           .dtype = TD_F32,
                           .scale = 0 - passes_float(quantise, "least"),
                           .zero = passes_int(quantise, "reduce_range") ? KERN_I8_REDUCED_STEPS : 0};
}
static bool is_ranged(const int8_activation *x) { return x->dtype == TD_F32; }

/* The scale or zero point that `v` is, in another type or shape. */
static ir_value point_of(passes_edit *e, ir_value v) {
  const ir_node_def *node;
  while ((node = passes_producer(e, v, OP_aten__to_copy)) || (node = passes_producer(e, v, OP_aten_view)))
    v = node->in[0];
  return v;
}

/* quantize(x, scale, zero) with what a dynamic_quantize_linear finds of the same x, by 8 bits. */
static bool find_quantised_apart(passes_edit *e, const ir_node_def *dequantise, int8_activation *x) {
  const ir_node_def *node = passes_producer(e, dequantise->in[0], OP_td_quantize_linear);
  if (!node || node->in_count < 3) return false;
  const ir_node_def quantise = *node;
  const ir_value scale = point_of(e, quantise.in[1]), zero = point_of(e, quantise.in[2]);
  const bool alike = point_of(e, dequantise->in[1]).id == scale.id && point_of(e, dequantise->in[2]).id == zero.id;
  const ir_node made_by = ir_value_of(e->graph, scale)->node;
  const ir_node_def *found = alike && made_by.id ? ir_node_of(e->graph, made_by) : NULL;
  if (!found || found->op->id != OP_td_dynamic_quantize_linear || found->in[0].id != quantise.in[0].id ||
      found->out[1].id != scale.id || found->out[2].id != zero.id || passes_int(found, "reduce_range"))
    return false;
  *x = ranged_of(found);
  return true;
}

/* What `v` is the dequantisation of, where that is quantised by its range at run time. */
static bool find_ranged(passes_edit *e, ir_value v, int8_activation *x) {
  const ir_node_def *node = passes_dequantised(e, v);
  if (!node || node->in_count < 3 || ir_type_of(e->graph, v)->dtype != TD_F32) return false;
  const ir_node_def dequantise = *node;
  const ir_node_def *q = passes_producer(e, dequantise.in[0], OP_td_dynamic_quantize_linear);
  const bool whole = q && dequantise.in[1].id == q->out[1].id && dequantise.in[2].id == q->out[2].id;
  if (whole) *x = ranged_of(q);
  return (whole || find_quantised_apart(e, &dequantise, x)) && ir_type_of(e->graph, x->q)->rank > 0 && x->scale <= 0 &&
         isfinite((float)x->scale);
}

static td_status make_linear(passes_edit *e, ir_node id, const ir_node_def *node, bool transposed) {
  const ir_node_def matmul = *node;
  origin from;
  product p;
  bool fits;
  const bool biased = matmul.in_count > 2 && matmul.in[2].id, dynamic = find_ranged(e, matmul.in[0], &p.x);
  if ((!dynamic && !passes_int8_find_activation(e, matmul.in[0], &p.x)) || (dynamic && biased) ||
      !find_matrix(e, matmul.in[1], transposed, &from))
    return TD_OK;
  TRY(read_weights(e, &from, &p.w, &fits));
  if (fits) TRY(make_bias(e, matmul.in_count > 2 ? matmul.in[2] : IR_NO_VALUE, &p, &fits));
  return fits ? add_linear(e, id, &matmul, &p, NULL) : TD_OK;
}

static td_status visit_matmul(passes_edit *e, ir_node id, const ir_node_def *node) {
  int8_activation b;
  return passes_int8_find_activation(e, node->in[1], &b) ? passes_int8_visit_activations(e, id, node)
                                                         : make_linear(e, id, node, false);
}

static td_status visit_gemm(passes_edit *e, ir_node id, const ir_node_def *node) {
  const bool plain = !passes_int(node, "trans_a") && passes_float(node, "alpha") == 1 &&
                     (node->in_count < 3 || !node->in[2].id || passes_float(node, "beta") == 1);
  return plain ? make_linear(e, id, node, passes_int(node, "trans_b")) : TD_OK;
}

/* ---- QLinear nodes: the same with scales, zero points and the result's as operands ---- */

enum { Q_X, Q_X_SCALE, Q_X_ZERO, Q_W, Q_W_SCALE, Q_W_ZERO, Q_Y_SCALE, Q_Y_ZERO, Q_BIAS };

/* x, the weights and the result of a node with such operands; a bias of i32 is in units of both scales. */
static bool find_qlinear(passes_edit *e, const ir_node_def *node, product *p, int8_stored *s, int8_activation *y) {
  const base_tensor *x_zero, *y_zero, *bias;
  *s = (int8_stored){.q = node->in[Q_W], .scales = passes_constant(e, node, Q_W_SCALE)};
  p->bias = IR_NO_VALUE;
  return s->scales && passes_int8_find_optional(e, node, Q_W_ZERO, &s->zeros) && passes_constant(e, node, Q_W) &&
         passes_int8_find_optional(e, node, Q_X_ZERO, &x_zero) &&
         passes_int8_find_optional(e, node, Q_Y_ZERO, &y_zero) && passes_int8_find_optional(e, node, Q_BIAS, &bias) &&
         (!bias || bias->dtype == TD_I32) &&
         passes_int8_activation_of(e, node->in[Q_X], passes_constant(e, node, Q_X_SCALE), x_zero, &p->x) &&
         passes_int8_activation_of(e, node->out[0], passes_constant(e, node, Q_Y_SCALE), y_zero, y);
}

static td_status take_integers(passes_edit *e, const ir_node_def *node, product *p, bool *fits) {
  const base_tensor *t = passes_constant(e, node, Q_BIAS);
  if (!t || !*fits) return TD_OK;
  int32_t *bias = base_new(e->scratch, int32_t, (size_t)p->w.n);
  if (!bias) return base_no_memory(e->err, "a bias");
  *fits = t->rank == 1 && t->dims[0] == p->w.n && base_tensor_contiguous(t) && p->w.k <= KERN_I8_MAX_K / 4;
  for (int64_t i = 0; i < p->w.n && *fits; i++) {
    bias[i] = (int32_t)passes_int8_number(t, i);
    *fits = bias[i] <= INT8_MOST_BIAS && bias[i] >= -INT8_MOST_BIAS;
  }
  p->w.bias = bias;
  return TD_OK;
}

/* Windows as they are. */
static bool is_convertible(const ir_node_def *node, const base_tensor *t) {
  const int64_t groups = passes_int(node, "groups");
  return t->rank >= 3 && t->rank <= 5 && !passes_int(node, "transposed") && groups > 0 && t->dims[0] % groups == 0;
}

/* Weights [channels, channels of a group, kernel...] as the kernel has them. */
static td_status pack_windows(passes_edit *e, const base_tensor *t, int64_t groups, const weights *w, ir_value *packed,
                              bool *fits) {
  const kern_row *row = row_of(e);
  const int64_t depth = kern_i8_depth(row);
  kern_i8_window window = {groups, t->dims[1], t->dims[0] / groups, {1, 1, 1}};
  kern_i8_layout l;
  bool depthwise;
  for (int32_t i = 2; i < t->rank; i++) window.kernel[3 - t->rank + i] = t->dims[i];
  *fits = kern_i8_window_layout(&window, row->lanes, depth, &l, &depthwise);
  if (!*fits || !depthwise) return *fits ? pack(e, w, &l, packed) : TD_OK;
  weights arranged = *w;
  arranged.k = l.k;
  arranged.values = base_new(e->scratch, int8_t, (size_t)(w->n * l.k));
  if (!arranged.values) return base_no_memory(e->err, "weights");
  for (int64_t n = 0; n < w->n; n++)
    for (int64_t tap = 0; tap < w->k; tap++)
      arranged.values[n * l.k + kern_i8_depthwise_k(&window, depth, tap)] = w->values[n * w->k + tap];
  return pack(e, &arranged, &l, packed);
}

/* The image of f32 whose bytes a convolution's x are, where it can quantise that itself and nobody else needs them. */
static bool find_planes(passes_edit *e, const product *p, const kern_conv *c, ir_value *x) {
  const ir_node_def *quantize = passes_only_producer(e, p->x.q, OP_td_quantize_linear);
  const base_tensor *zeros, *scale = quantize ? passes_constant(e, quantize, 1) : NULL;
  int8_activation a;
  if (!scale || !passes_int8_find_optional(e, quantize, 2, &zeros) || !kern_i8_takes_planes(c) ||
      !passes_int8_activation_of(e, p->x.q, scale, zeros, &a) || a.scale != p->x.scale || a.zero != p->x.zero ||
      ir_type_of(e->graph, quantize->in[0])->dtype != TD_F32)
    return false;
  *x = quantize->in[0];
  return true;
}

static td_status add_conv(passes_edit *e, ir_node id, const ir_node_def *node, const base_tensor *t, const product *p,
                          const int8_activation *y) {
  const uint32_t spatial = (uint32_t)t->rank - 2;
  int64_t stride[3], dilation[3], padding[6];
  bool fits;
  if (!passes_find_padding(e, node, t->dims + 2, spatial, padding)) return TD_OK;
  for (uint32_t i = 0; i < spatial; i++) {
    stride[i] = passes_int_at(node, "stride", i, 1);
    dilation[i] = passes_int_at(node, "dilation", i, 1);
  }
  const int64_t groups = passes_int(node, "groups");
  const kern_conv window = {
      .groups = groups,
      .group_in = t->dims[1],
      .axis[KERN_CONV_AXES - 1] = {
          .kernel = t->dims[t->rank - 1], .stride = stride[spatial - 1], .dilation = dilation[spatial - 1]}};
  ir_value in[3] = {IR_NO_VALUE, IR_NO_VALUE, p->bias}, made;
  const bool planes = is_ranged(&p->x) ? kern_i8_takes_planes(&window) : find_planes(e, p, &window, &in[0]);
  if (is_ranged(&p->x)) in[0] = p->x.q;
  base_arg args[8 + INT8_PRODUCT_ARGS] = {ARG_INTS("kernel", t->dims + 2, spatial),
                                          ARG_INTS("stride", stride, spatial),
                                          ARG_INTS("padding", padding, 2 * spatial),
                                          ARG_INTS("dilation", dilation, spatial),
                                          ARG_INT("groups", groups),
                                          ARG_INT("channels", t->dims[0]),
                                          ARG_BOOL("channels_first", planes),
                                          ARG_INT("w_shift", p->w.shift)};
  TRY(pack_windows(e, t, groups, &p->w, &in[1], &fits));
  if (!fits) return TD_OK;
  if (!planes) TRY(passes_int8_permute_channels(e, id, p->x.q, true, &in[0]));
  passes_int8_product_args(row_of(e), &p->x, y, args + 8);
  const ir_new_node spec = {.in = in, .in_count = in[2].id ? 3 : 2, .args = args, .arg_count = 8 + INT8_PRODUCT_ARGS};
  TRY(passes_add(e, id, OP_td_conv_i8, spec, node, &made));
  TRY(passes_int8_permute_channels(e, id, made, false, &made));
  return passes_take_place(e, id, made);
}

static origin origin_of_windows(const base_tensor *t, const int8_stored *s) {
  const int64_t size = base_tensor_numel(t) / t->dims[0], taps = size / t->dims[1];
  return (origin){.t = t,
                  .scales = s->scales,
                  .zeros = s->zeros,
                  .n = t->dims[0],
                  .taps = taps,
                  .channels = t->dims[1],
                  .n_step = size,
                  .channel_step = taps};
}

/* An image with a scale for each channel, of which a depthwise convolution makes another: *scales. */
static bool find_depthwise(passes_edit *e, const ir_node_def *conv, int8_activation *x, const base_tensor **scales) {
  const ir_node_def *node = passes_dequantised(e, conv->in[0]);
  const ir_type *w = ir_type_of(e->graph, conv->in[1]);
  *scales = node ? passes_constant(e, node, 1) : NULL;
  return *scales && passes_int8_find_channels(e, node, *scales, passes_constant(e, node, 2), x) && w->rank >= 3 &&
         w->dims[1] == 1 && w->dims[0] == passes_int(conv, "groups");
}

static td_status visit_convolution(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def conv = *node;
  const base_tensor *t, *channels = NULL;
  int8_stored s;
  product p;
  bool fits;
  if ((!find_ranged(e, conv.in[0], &p.x) && !passes_int8_find_activation(e, conv.in[0], &p.x) &&
       !find_depthwise(e, &conv, &p.x, &channels)) ||
      !find_weights(e, conv.in[1], 0, &s, &t) || !is_convertible(&conv, t) ||
      ir_type_of(e->graph, p.x.q)->rank != t->rank)
    return TD_OK;
  const origin from = origin_of_windows(t, &s);
  TRY(read_weights(e, &from, &p.w, &fits));
  for (int64_t c = 0; channels && fits && c < p.w.n; c++) p.w.scales[c] *= (float)passes_int8_number(channels, c);
  if (fits) TRY(make_bias(e, conv.in_count > 2 ? conv.in[2] : IR_NO_VALUE, &p, &fits));
  return fits ? add_conv(e, id, &conv, t, &p, NULL) : TD_OK;
}

/* ---- products of integers, whose x is quantised by its range ---- */

/* The factor of `mul` that is the constant scale of the weights, where the other one is `scale`; NULL: there is none.
 */
static const base_tensor *weight_scales(passes_edit *e, ir_value v, ir_value scale) {
  const ir_node_def *mul = passes_producer(e, v, OP_aten_mul);
  for (uint32_t side = 0; mul && side < 2; side++)
    if (mul->in[side].id == scale.id) return passes_constant(e, mul, 1 - side);
  return NULL;
}

/* The product of integers that operand `side` of a multiplication casts, and the node that quantises its x. */
static bool find_dynamic(passes_edit *e, const ir_node_def *mul, uint32_t side, ir_node_def *integers,
                         ir_node_def *quantise) {
  const ir_node_def *cast = passes_only_producer(e, mul->in[side], OP_aten__to_copy), *found = NULL;
  if (cast) found = passes_only_producer(e, cast->in[0], OP_td_matmul_integer);
  if (cast && !found) found = passes_only_producer(e, cast->in[0], OP_td_conv_integer);
  const ir_node_def *q = found ? passes_producer(e, found->in[X], OP_td_dynamic_quantize_linear) : NULL;
  if (!q || found->in_count <= X_ZERO || found->in[X_ZERO].id != q->out[2].id ||
      ir_type_of(e->graph, mul->in[side])->dtype != TD_F32 || ir_type_of(e->graph, q->in[0])->rank < 1)
    return false;
  *integers = *found;
  *quantise = *q;
  return true;
}

/* Scales of n channels of a result, one or a vector, `behind` axes behind it: as a vector. */
static bool take_scales(const base_tensor *t, int64_t n, int32_t behind, base_tensor *scales) {
  const int64_t count = base_tensor_numel(t);
  *scales = base_tensor_of(t->data, t->dtype, 1, &count);
  return base_tensor_contiguous(t) &&
         (count == 1 || (count == n && t->rank > behind && t->dims[t->rank - 1 - behind] == n));
}

static td_status visit_mul(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def mul = *node;
  ir_node_def integers, quantise;
  uint32_t side = 0;
  while (side < 2 && !find_dynamic(e, &mul, side, &integers, &quantise)) side++;
  if (side == 2) return TD_OK;
  const base_tensor *w = passes_constant(e, &integers, W), *by = weight_scales(e, mul.in[1 - side], quantise.out[1]),
                    *zeros;
  const bool windows = integers.op->id == OP_td_conv_integer;
  base_tensor scales;
  bool fits;
  if (!w || !by || base_tensor_numel(w) == 0 || !passes_int8_find_optional(e, &integers, W_ZERO, &zeros) ||
      (windows ? !is_convertible(&integers, w) || ir_type_of(e->graph, quantise.in[0])->rank != w->rank : w->rank != 2))
    return TD_OK;
  const int8_stored s = {.scales = &scales, .zeros = zeros};
  const origin from = windows ? origin_of_windows(w, &s) : origin_of_matrix(w, false, &s);
  product p = {.x = ranged_of(&quantise), .bias = IR_NO_VALUE};
  if (!take_scales(by, from.n, windows ? w->rank - 2 : 0, &scales)) return TD_OK;
  TRY(read_weights(e, &from, &p.w, &fits));
  if (!fits) return TD_OK;
  return windows ? add_conv(e, id, &integers, w, &p, NULL) : add_linear(e, id, &integers, &p, NULL);
}

static td_status visit_qlinear_conv(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def conv = *node;
  const base_tensor *t = passes_constant(e, node, Q_W);
  int8_activation y;
  int8_stored s;
  product p;
  bool fits;
  if (!find_qlinear(e, node, &p, &s, &y) || !base_tensor_numel(t) || !is_convertible(&conv, t) ||
      ir_type_of(e->graph, p.x.q)->rank != t->rank)
    return TD_OK;
  const origin from = origin_of_windows(t, &s);
  TRY(read_weights(e, &from, &p.w, &fits));
  TRY(take_integers(e, &conv, &p, &fits));
  return fits ? add_conv(e, id, &conv, t, &p, &y) : TD_OK;
}

static td_status visit_qlinear_matmul(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def matmul = *node;
  const base_tensor *t = passes_constant(e, node, Q_W);
  int8_activation y;
  int8_stored s;
  product p;
  bool fits;
  if (!t) return passes_int8_visit_qlinear_activations(e, id, node);
  if (!find_qlinear(e, node, &p, &s, &y) || t->rank != 2 || !base_tensor_numel(t)) return TD_OK;
  const origin from = origin_of_matrix(t, false, &s);
  TRY(read_weights(e, &from, &p.w, &fits));
  TRY(take_integers(e, &matmul, &p, &fits));
  return fits ? add_linear(e, id, &matmul, &p, &y) : TD_OK;
}

/* ---- constants that are to be known now ---- */

enum { MOST_CAST = 1 << 16 }; /* elements: of a scale or zero point for each channel, not of weights */

static td_status evaluate(passes_edit *e, ir_node id, const ir_node_def *node) {
  enum { OPERANDS = 3 };
  base_value in[OPERANDS], out;
  const base_value *at[OPERANDS];
  td_error ignored;
  for (uint32_t i = 0; i < node->in_count; i++) {
    const base_tensor *t = i < OPERANDS ? passes_constant(e, node, i) : NULL;
    if (!t) return TD_OK;
    in[i] = (base_value){.kind = BASE_TENSOR, .tensor = *t};
    at[i] = &in[i];
  }
  const td_status status = ir_evaluate(node->op, node->attrs, at, node->in_count, e->graph->arena, &out, 1, &ignored);
  if (status == TD_NO_RESOURCE) return base_no_memory(e->err, "a scale");
  if (status != TD_OK) return TD_OK; /* it fails when it runs */
  ir_value made;
  TRY(ir_add_constant(e->graph, &out.tensor, NULL, &made, e->err));
  return passes_take_place(e, id, made);
}

/* Scales and zero points of another type. */
static td_status visit_cast(passes_edit *e, ir_node id, const ir_node_def *node) {
  const base_tensor *t = passes_constant(e, node, 0);
  return t && base_tensor_numel(t) <= MOST_CAST ? evaluate(e, id, node) : TD_OK;
}

/* Weights of f32 that are quantised where they are used, as tools write them that train with that. */
static td_status visit_quantize(passes_edit *e, ir_node id, const ir_node_def *node) {
  return passes_constant(e, node, 0) ? evaluate(e, id, node) : passes_int8_visit_quantize(e, id, node);
}

/* Weights within limits of their own, as trained quantisation of few bits has them. */
static td_status visit_clamp(passes_edit *e, ir_node id, const ir_node_def *node) {
  const base_tensor *t = passes_constant(e, node, 0);
  return t && base_dtype(t->dtype)->bits == 8 ? evaluate(e, id, node) : TD_OK;
}

static const passes_rule rules[] = {{OP_aten_mul, visit_mul},
                                    {OP_aten_clamp, visit_clamp},
                                    {OP_aten__to_copy, visit_cast},
                                    PASSES_PRODUCTS(visit_matmul, visit_gemm),
                                    {OP_aten_convolution, visit_convolution},
                                    {OP_td_qlinear_conv, visit_qlinear_conv},
                                    {OP_td_qlinear_matmul, visit_qlinear_matmul},
                                    {OP_aten__native_batch_norm_legit_no_training, passes_int8_visit_norm},
                                    {OP_td_max_pool, passes_int8_visit_mover},
                                    {OP_td_quantize_linear, visit_quantize}};

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  if (node->op->flags & IR_OP_JOIN) return passes_int8_visit_cat(e, id, node);
  if (node->op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE | IR_OP_LOOKUP)) return passes_int8_visit_mover(e, id, node);
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_int8(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  if (!kern_select(KERN_LINEAR_I8, TD_I8, setting->isa)) return TD_OK;
  return passes_each(graph, setting, changes, err, visit);
}
