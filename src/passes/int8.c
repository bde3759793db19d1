/* int8.c -- products of 8-bit integers are taken as such, with their scales, where a level has kernels for bytes:
 *
 *     mul(_to_copy(matmul_integer(q, W, zero)), mul(scale, s)) -> linear_i8(x, W, s)
 *     where q, scale, zero = dynamic_quantize_linear(x)
 *     convolution(dequantize(q), dequantize(W), b)         -> first(conv_i8(last(q), W, b)), scales as attributes
 *     matmul(dequantize(q), dequantize(W)), gemm the same  -> linear_i8(q, W)
 *     quantize(conv_i8(...)) or of linear_i8               -> the same with a result of 8 bits
 *
 * where first and last permute as the pass channels_last says.
 * Requires: a verified graph; comes before constants are folded, which would make f32 of quantised weights. Keeps:
 * types. Breaks: nothing but rounding: sums are exact, their scales are multiplied in one order. */
#include "kernels/pack_i8.h"
#include "passes/passes_priv.h"

#include <math.h>

enum { X, W, X_ZERO, W_ZERO };

/* A product's weights: dense [n][k] with a scale each. */
typedef struct weights {
  int64_t n, k;
  int8_t *values;
  float *scales;
} weights;

/* Where they come from: a constant, element (n, tap, channel) at n * n_step + tap + channel * channel_step, k being
 * tap * channels + channel. Zero points may be absent. */
typedef struct origin {
  const base_tensor *t, *scales, *zeros;
  int64_t n, taps, channels, n_step, channel_step;
} origin;

static const kern_row *row_of(const passes_edit *e) { return kern_select(KERN_LINEAR_I8, TD_I8, e->setting->isa); }

/* Element `i` of one or of n numbers. */
static double number_at(const base_tensor *t, int64_t i) {
  return base_load_f64(t->dtype, t->data, base_tensor_numel(t) == 1 ? 0 : i);
}

static bool is_vector(const base_tensor *t, int64_t n) {
  const int64_t count = t ? base_tensor_numel(t) : 0;
  return t && base_tensor_contiguous(t) && (count == 1 || (t->rank == 1 && count == n));
}

/* Operand `index`, which may be absent: *t is NULL then. False: it is there and no constant. */
static bool find_optional(passes_edit *e, const ir_node_def *node, uint32_t index, const base_tensor **t) {
  const bool given = node->in_count > index && node->in[index].id;
  *t = given ? passes_constant(e, node, index) : NULL;
  return *t || !given;
}

static bool is_bytes(td_dtype dtype) { return base_is_int(dtype) && base_dtype(dtype)->bits == 8; }

/* Weights less their zero points. *fits: they are constants, and within i8. */
static td_status read_weights(passes_edit *e, const origin *o, weights *w, bool *fits) {
  const base_tensor *t = o->t;
  *fits = t && base_tensor_contiguous(t) && is_bytes(t->dtype) && base_tensor_numel(t) > 0 &&
          base_tensor_numel(t) / o->n <= KERN_I8_MAX_K && (!o->zeros || is_vector(o->zeros, o->n)) &&
          is_vector(o->scales, o->n) && o->scales->dtype == TD_F32;
  if (!*fits) return TD_OK;
  *w = (weights){.k = o->taps * o->channels, .n = o->n};
  w->values = base_new(e->scratch, int8_t, (size_t)(w->n * w->k));
  w->scales = base_new(e->scratch, float, (size_t)w->n);
  if (!w->values || !w->scales) return base_no_memory(e->err, "weights");
  for (int64_t n = 0; n < w->n; n++) {
    const double zero = o->zeros ? number_at(o->zeros, n) : 0;
    w->scales[n] = (float)number_at(o->scales, n);
    for (int64_t k = 0; k < w->k; k++) {
      const int64_t at = n * o->n_step + k / o->channels + k % o->channels * o->channel_step;
      const double value = base_load_f64(t->dtype, t->data, at) - zero;
      *fits &= value >= -128 && value <= 127;
      w->values[n * w->k + k] = (int8_t)(*fits ? value : 0);
    }
  }
  return TD_OK;
}

/* Of a matrix [k, n], or transposed. */
static origin origin_of_matrix(const base_tensor *t, bool transposed) {
  const int64_t n = t->dims[!transposed], k = t->dims[transposed];
  return (origin){
      .t = t, .n = n, .taps = 1, .channels = k, .n_step = transposed ? k : 1, .channel_step = transposed ? 1 : n};
}

static td_status pack(passes_edit *e, const weights *w, int64_t groups, ir_value *packed) {
  const kern_row *row = row_of(e);
  kern_i8_layout l;
  if (!kern_i8_layout_of(groups, w->n / groups, w->k, row->lanes, kern_i8_depth(row), &l))
    return base_no_memory(e->err, "packed weights");
  uint8_t *to = base_arena_alloc_uncleared(e->graph->constants, (size_t)l.size, 64);
  if (!to) return base_no_memory(e->err, "packed weights");
  kern_pack_i8(&l, w->values, w->scales, false, to);
  const base_tensor t = base_tensor_of(to, TD_U8, 1, &l.size);
  return ir_add_constant(e->graph, &t, NULL, packed, e->err);
}

/* ---- dynamic ---- */

/* The factor of `mul` that is the constant scale of the weights, where the other one is `scale`; NULL: there is none.
 */
static const base_tensor *weight_scales(passes_edit *e, ir_value v, ir_value scale) {
  const ir_node_def *mul = passes_producer(e, v, "aten::mul");
  for (uint32_t side = 0; mul && side < 2; side++)
    if (mul->in[side].id == scale.id) return passes_constant(e, mul, 1 - side);
  return NULL;
}

/* The product of integers that operand `side` of a multiplication casts, and the node that quantises its x. */
static bool find_dynamic(passes_edit *e, const ir_node_def *mul, uint32_t side, ir_node_def *product,
                         ir_node_def *quantise) {
  const ir_node_def *cast = passes_only_producer(e, mul->in[side], "aten::_to_copy");
  const ir_node_def *found = cast ? passes_only_producer(e, cast->in[0], "td::matmul_integer") : NULL;
  const ir_node_def *q = found ? passes_producer(e, found->in[X], "td::dynamic_quantize_linear") : NULL;
  if (!q || passes_int(q, "reduce_range") || found->in_count <= X_ZERO || found->in[X_ZERO].id != q->out[2].id ||
      ir_type_of(e->graph, mul->in[side])->dtype != TD_F32 || ir_type_of(e->graph, q->in[0])->rank < 1)
    return false;
  *product = *found;
  *quantise = *q;
  return true;
}

static td_status visit_mul(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def mul = *node;
  ir_node_def product, quantise;
  for (uint32_t side = 0; side < 2; side++) {
    if (!find_dynamic(e, &mul, side, &product, &quantise)) continue;
    const base_tensor *w = passes_constant(e, &product, W),
                      *scales = weight_scales(e, mul.in[1 - side], quantise.out[1]);
    const base_tensor *zeros;
    weights read;
    bool fits = false;
    if (!w || w->rank != 2 || base_tensor_numel(w) == 0 || !scales || !find_optional(e, &product, W_ZERO, &zeros))
      return TD_OK;
    origin from = origin_of_matrix(w, false);
    from.scales = scales, from.zeros = zeros;
    TRY(read_weights(e, &from, &read, &fits));
    if (!fits) return TD_OK;
    ir_value in[2] = {quantise.in[0]}, made;
    TRY(pack(e, &read, 1, &in[1]));
    const kern_row *row = row_of(e);
    const base_arg args[] = {ARG_INT("n", read.n), ARG_INT("panel8", row->lanes), ARG_INT("depth", kern_i8_depth(row))};
    const ir_new_node spec = {.in = in, .in_count = 2, .args = args, .arg_count = 3};
    TRY(passes_add(e, id, "td::linear_i8", spec, &product, &made));
    return passes_take_place(e, id, made);
  }
  return TD_OK;
}

/* ---- static: between dequantisations and quantisations ---- */

/* What dequantize_linear makes a value of, with constant scales. */
typedef struct stored {
  ir_value q;
  const base_tensor *scales, *zeros; /* zeros may be absent */
  int64_t axis;
} stored;

static bool find_stored(passes_edit *e, ir_value v, stored *s) {
  const ir_node_def *node = v.id ? passes_producer(e, v, "td::dequantize_linear") : NULL;
  if (!node || passes_int(node, "block_size") || ir_type_of(e->graph, v)->dtype != TD_F32) return false;
  *s = (stored){.q = node->in[0], .scales = passes_constant(e, node, 1), .axis = passes_int(node, "axis")};
  if (s->axis < 0) s->axis += ir_type_of(e->graph, v)->rank;
  return s->scales && find_optional(e, node, 2, &s->zeros);
}

/* An activation: one scale, above 0, and bytes; what a product's attributes say of it. */
static bool find_activation(passes_edit *e, ir_value v, stored *s, double *scale, int64_t *zero) {
  if (!find_stored(e, v, s) || base_tensor_numel(s->scales) != 1) return false;
  const ir_type *type = ir_type_of(e->graph, s->q);
  *scale = number_at(s->scales, 0);
  *zero = (s->zeros ? (int64_t)number_at(s->zeros, 0) : 0) + (type->dtype == TD_I8 ? 128 : 0);
  return is_bytes(type->dtype) && type->rank > 0 && !passes_constant_value(e, s->q) && *scale > 0 && isfinite(*scale);
}

/* Constant weights of bytes, their scales along `axis` or one for all. */
static bool find_weights(passes_edit *e, ir_value v, int64_t axis, stored *s, const base_tensor **t) {
  if (!find_stored(e, v, s) || (base_tensor_numel(s->scales) != 1 && s->axis != axis)) return false;
  *t = passes_constant_value(e, s->q);
  return *t && base_tensor_numel(*t) > 0;
}

/* A bias of n elements: none, a constant, or the dequantisation of one. *fits: it is one of these. */
static td_status make_bias(passes_edit *e, ir_value v, int64_t n, ir_value *bias, bool *fits) {
  const base_tensor *t = v.id ? passes_constant_value(e, v) : NULL;
  stored s = {0};
  *fits = true;
  *bias = v;
  if (!v.id) return TD_OK;
  if (!t && find_stored(e, v, &s)) t = passes_constant_value(e, s.q);
  *fits = t && t->rank == 1 && t->dims[0] == n && base_tensor_contiguous(t) && (s.scales || t->dtype == TD_F32) &&
          (!s.scales || is_vector(s.scales, n)) && (!s.zeros || is_vector(s.zeros, n));
  if (!*fits || !s.scales) return TD_OK;
  float *to = base_arena_alloc_uncleared(e->graph->constants, (size_t)n * sizeof *to + 1, 64);
  if (!to) return base_no_memory(e->err, "a bias");
  for (int64_t i = 0; i < n; i++)
    to[i] = (float)((number_at(t, i) - (s.zeros ? number_at(s.zeros, i) : 0)) * number_at(s.scales, i));
  const base_tensor made = base_tensor_of(to, TD_F32, 1, &n);
  return ir_add_constant(e->graph, &made, NULL, bias, e->err);
}

static td_status make_linear(passes_edit *e, ir_node id, const ir_node_def *node, bool transposed) {
  const ir_node_def product = *node;
  const base_tensor *t;
  stored x, s;
  double scale;
  int64_t zero;
  weights w;
  bool fits;
  if (!find_activation(e, product.in[0], &x, &scale, &zero) || !find_weights(e, product.in[1], !transposed, &s, &t) ||
      t->rank != 2)
    return TD_OK;
  origin from = origin_of_matrix(t, transposed);
  from.scales = s.scales, from.zeros = s.zeros;
  ir_value in[3] = {x.q}, made;
  TRY(make_bias(e, product.in_count > 2 ? product.in[2] : IR_NO_VALUE, from.n, &in[2], &fits));
  if (fits) TRY(read_weights(e, &from, &w, &fits));
  if (!fits) return TD_OK;
  TRY(pack(e, &w, 1, &in[1]));
  const base_arg args[] = {ARG_INT("n", w.n), ARG_INT("panel8", row_of(e)->lanes),
                           ARG_INT("depth", kern_i8_depth(row_of(e))), ARG_FLOAT("x_scale", scale),
                           ARG_INT("x_zero", zero)};
  const ir_new_node spec = {.in = in, .in_count = in[2].id ? 3 : 2, .args = args, .arg_count = 5};
  TRY(passes_add(e, id, "td::linear_i8", spec, &product, &made));
  return passes_take_place(e, id, made);
}

static td_status visit_matmul(passes_edit *e, ir_node id, const ir_node_def *node) {
  return make_linear(e, id, node, false);
}

static td_status visit_gemm(passes_edit *e, ir_node id, const ir_node_def *node) {
  const bool plain = !passes_int(node, "trans_a") && passes_float(node, "alpha") == 1 &&
                     (node->in_count < 3 || !node->in[2].id || passes_float(node, "beta") == 1);
  return plain ? make_linear(e, id, node, passes_int(node, "trans_b")) : TD_OK;
}

/* Channels of an image to the end, or back. */
static td_status permute_channels(passes_edit *e, ir_node at, ir_value v, bool to_last, ir_value *out) {
  int64_t order[BASE_MAX_RANK];
  (to_last ? passes_order_last : passes_order_first)(ir_type_of(e->graph, v)->rank, order);
  return passes_permute(e, at, v, order, out);
}

/* Windows as they are; depthwise ones have kernels of f32 alone. */
static bool is_convertible(const ir_node_def *node, const base_tensor *t) {
  const int64_t groups = passes_int(node, "groups");
  return t->rank >= 3 && t->rank <= 5 && !passes_int(node, "transposed") && !*passes_str(node, "auto_pad") &&
         (groups == 1 || (groups > 0 && t->dims[1] > 1 && t->dims[0] % groups == 0));
}

static td_status add_conv(passes_edit *e, ir_node id, const ir_node_def *node, const base_tensor *t, base_arg *args,
                          ir_value *in, ir_value *made) {
  const uint32_t spatial = (uint32_t)t->rank - 2;
  int64_t stride[3], dilation[3], padding[6];
  for (uint32_t i = 0; i < 2 * spatial; i++) {
    padding[i] = passes_int_at(node, "padding", i, 0);
    if (i >= spatial) continue;
    stride[i] = passes_int_at(node, "stride", i, 1);
    dilation[i] = passes_int_at(node, "dilation", i, 1);
  }
  args[4] = ARG_INTS("kernel", t->dims + 2, spatial);
  args[5] = ARG_INTS("stride", stride, spatial);
  args[6] = ARG_INTS("padding", padding, 2 * spatial);
  args[7] = ARG_INTS("dilation", dilation, spatial);
  args[8] = ARG_INT("groups", passes_int(node, "groups"));
  args[9] = ARG_INT("channels", t->dims[0]);
  TRY(permute_channels(e, id, in[0], true, &in[0]));
  const ir_new_node spec = {.in = in, .in_count = in[2].id ? 3 : 2, .args = args, .arg_count = 10};
  return passes_add(e, id, "td::conv_i8", spec, node, made);
}

static td_status visit_convolution(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def conv = *node;
  const base_tensor *t;
  stored x, s;
  double scale;
  int64_t zero;
  weights w;
  bool fits;
  if (!find_activation(e, conv.in[0], &x, &scale, &zero) || !find_weights(e, conv.in[1], 0, &s, &t) ||
      !is_convertible(&conv, t) || ir_type_of(e->graph, x.q)->rank != t->rank)
    return TD_OK;
  ir_value in[3] = {x.q}, made;
  TRY(make_bias(e, conv.in_count > 2 ? conv.in[2] : IR_NO_VALUE, t->dims[0], &in[2], &fits));
  const int64_t size = base_tensor_numel(t) / t->dims[0], taps = size / t->dims[1];
  const origin from = {.t = t,
                       .scales = s.scales,
                       .zeros = s.zeros,
                       .n = t->dims[0],
                       .taps = taps,
                       .channels = t->dims[1],
                       .n_step = size,
                       .channel_step = taps};
  if (fits) TRY(read_weights(e, &from, &w, &fits));
  if (!fits) return TD_OK;
  TRY(pack(e, &w, passes_int(&conv, "groups"), &in[1]));
  base_arg args[10] = {ARG_INT("panel8", row_of(e)->lanes), ARG_INT("depth", kern_i8_depth(row_of(e))),
                       ARG_FLOAT("x_scale", scale), ARG_INT("x_zero", zero)};
  TRY(add_conv(e, id, &conv, t, args, in, &made));
  TRY(permute_channels(e, id, made, false, &made));
  return passes_take_place(e, id, made);
}

/* The product of f32 that a quantisation alone reads: as it is, or a convolution behind its permutation. */
static const ir_node_def *find_product(passes_edit *e, ir_value v, bool *image) {
  const ir_node_def *node = passes_only_producer(e, v, "td::linear_i8");
  const ir_node_def *turned = node ? NULL : passes_only_producer(e, v, "aten::permute");
  *image = turned != NULL;
  return turned ? passes_only_producer(e, turned->in[0], "td::conv_i8") : node;
}

static td_status visit_quantize(passes_edit *e, ir_node id, const ir_node_def *node) {
  const td_dtype dtype = ir_type_of(e->graph, node->out[0])->dtype;
  const base_tensor *scale = passes_constant(e, node, 1);
  const base_tensor *zeros;
  bool image;
  const ir_node_def *found = find_product(e, node->in[0], &image);
  if (!found || !is_bytes(dtype) || !scale || base_tensor_numel(scale) != 1 || !find_optional(e, node, 2, &zeros) ||
      (zeros && base_tensor_numel(zeros) != 1) || ir_type_of(e->graph, found->out[0])->dtype != TD_F32 ||
      !(number_at(scale, 0) > 0) || !isfinite((float)(1 / number_at(scale, 0))))
    return TD_OK;
  const ir_node_def product = *found;
  base_arg args[2 * IR_NODE_ARGS];
  const uint32_t count = ir_node_args(&product, args);
  *passes_arg(args, count, "y_scale") = ARG_FLOAT("y_scale", number_at(scale, 0));
  *passes_arg(args, count, "y_zero") = ARG_INT("y_zero", zeros ? (int64_t)number_at(zeros, 0) : 0);
  *passes_arg(args, count, "y_signed") = ARG_BOOL("y_signed", dtype == TD_I8);
  ir_value made;
  const ir_new_node spec = {.in = product.in, .in_count = product.in_count, .args = args, .arg_count = count};
  TRY(passes_add(e, id, product.op->name, spec, &product, &made));
  if (image) TRY(permute_channels(e, id, made, false, &made));
  return passes_take_place(e, id, made);
}

static const passes_rule rules[] = {{"aten::mul", visit_mul},
                                    {"aten::matmul", visit_matmul},
                                    {"td::gemm", visit_gemm},
                                    {"aten::convolution", visit_convolution},
                                    {"td::quantize_linear", visit_quantize}};

static td_status visit(passes_edit *e, ir_node id) {
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_int8(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  if (!kern_select(KERN_LINEAR_I8, TD_I8, setting->isa)) return TD_OK;
  return passes_each(graph, setting, changes, err, visit);
}
