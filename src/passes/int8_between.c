/* int8_between.c -- what stands between quantised products stays in 8 bits:
 *
 *     quantize(conv_i8(...)), linear_i8, matmul_i8  -> the same with a result of 8 bits
 *     quantize(relu(conv_i8(...))), clamp the same  -> the same with limits
 *     quantize(dequantize(conv_i8(...)) + dequantize(r))   -> the same with a residual of 8 bits
 *     quantize(conv_i8(...) + dequantize(r))        -> the same, sums are not rounded before
 *     quantize(conv_i8(...)) by a scale for each channel   -> the same with these in its scales
 *     batch_norm(conv_i8(...))                      -> the same with its factors in the scales, its shifts in the bias
 *     max_pool(dequantize(q)), views the same       -> dequantize(max_pool(q))
 *     embedding(dequantize(W), i), gathers the same -> dequantize(embedding(W, i))
 *     cat(dequantize(a), dequantize(b)) of one scale -> dequantize(cat(a, b))
 *     quantize(dequantize(q)) of one scale          -> q
 *
 * Rules of the pass int8. What is kept: types; numbers, but for the rounding that kern_i8_direct (pack_i8.h) tells, and
 * that of a norm's shifts to the unit of the sums. */
#include "kernels/products/products.h"
#include "passes/int8_priv.h"

#include <math.h>
#include <string.h>

/* ---- what a quantisation reads ---- */

/* A product of bytes, as it is or, of an image, behind the permutation of its channels: a copy, for nodes move. */
typedef struct product {
  ir_node_def node;
  bool image;
} product;

static bool find_product(passes_edit *e, ir_value v, product *p) {
  const ir_node_def *node = passes_only_producer(e, v, OP_td_linear_i8);
  if (!node) node = passes_only_producer(e, v, OP_td_matmul_i8);
  const ir_value image = node || passes_uses(e, v) != 1 ? IR_NO_VALUE : passes_source_last(e, v);
  p->image = image.id != 0;
  if (p->image) node = passes_only_producer(e, image, OP_td_conv_i8);
  if (node) p->node = *node;
  return node != NULL;
}

static bool is_plain(const product *p) {
  return strcmp(passes_str(&p->node, "act"), "none") == 0 && p->node.in_count <= KERN_IN_RESIDUAL;
}

/* The limits that an activation sets: `v` is what it limits then. False: they cannot be told. */
static bool find_limits(passes_edit *e, ir_value *v, base_arg *act, uint32_t *count) {
  const ir_node_def *relu = passes_only_producer(e, *v, OP_aten_relu),
                    *clamp = relu ? NULL : passes_only_producer(e, *v, OP_aten_clamp);
  double low = -INFINITY, high = INFINITY;
  *count = 0;
  if (!relu && !clamp) return true;
  if (clamp && ((clamp->in_count > 1 && clamp->in[1].id && !passes_number(e, clamp->in[1], &low)) ||
                (clamp->in_count > 2 && clamp->in[2].id && !passes_number(e, clamp->in[2], &high)) || !(low <= high)))
    return false;
  *v = (relu ? relu : clamp)->in[0];
  act[0] = ARG_STR("act", relu ? "relu" : "clamp");
  act[1] = ARG_FLOAT("act_a", relu ? 0 : low);
  act[2] = ARG_FLOAT("act_b", relu ? 0 : high);
  *count = 3;
  return true;
}

/* The product anew in place of `id`, with these operands and changed attributes. */
static td_status rebuild(passes_edit *e, ir_node id, const product *p, const ir_value *in, uint32_t in_count,
                         const base_arg *changed, uint32_t changes) {
  base_arg args[2 * IR_NODE_ARGS];
  const uint32_t count = ir_node_args(&p->node, args);
  for (uint32_t i = 0; i < changes; i++) *passes_arg(args, count, changed[i].name) = changed[i];
  ir_value made;
  const ir_new_node spec = {.in = in, .in_count = in_count, .args = args, .arg_count = count};
  TRY(passes_add(e, id, p->node.op->id, spec, &p->node, &made));
  if (p->image) TRY(passes_int8_permute_channels(e, id, made, false, &made));
  return passes_take_place(e, id, made);
}

/* ---- weights and their bias ---- */

/* The layout of the weights that a convolution has. False: channels of its image are not known. */
static bool find_layout(const passes_edit *e, const ir_node_def *conv, kern_i8_layout *l) {
  const ir_type *x = ir_type_of(e->graph, conv->in[0]);
  const base_dim channels = x->dims[passes_int(conv, "channels_first") ? 1 : x->rank - 1];
  kern_conv c;
  bool depthwise;
  if (!base_dim_known(channels) || !kern_conv_window(conv->attrs, x->rank, channels, &c)) return false;
  const kern_i8_window window = kern_i8_window_of(&c);
  return kern_i8_window_layout(&window, passes_int(conv, "panel8"), passes_int(conv, "depth"), l, &depthwise);
}

/* x_scale w (sum + bias) a + d = x_scale w a (sum + bias + d / (x_scale w a)), w the scale of a channel's weights: the
 * last term is rounded to an integer. False: x_scale is found at each call, or a channel has no such term in range; and
 * the bias is as it was. */
static bool add_shifts(const kern_i8_layout *l, double x_scale, const base_f32 *scales, const float *shift,
                       base_i32 *bias) {
  const int64_t channels = l->groups * l->n;
  if (x_scale <= 0) return false;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t c = 0; c < channels; c++) {
      const int64_t at = kern_i8_column(l, c);
      const double sum = bias[at] + nearbyint(shift[c] / (x_scale * scales[at]));
      if (!(fabs(sum) <= INT8_MOST_BIAS)) return false; /* in the first pass, which changes nothing */
      if (pass) bias[at] = (int32_t)sum;
    }
  return true;
}

/* A convolution's weights again: their scales times `factors`, and these shifts (NULL: none) in the bias. *whole false:
 * they are not there. *packed of id 0: nothing is known of the weights. */
static td_status repack(passes_edit *e, const ir_node_def *conv, const float *factors, const float *shifts,
                        ir_value *packed, bool *whole) {
  const base_tensor *from = passes_constant(e, conv, 1);
  kern_i8_layout l;
  *packed = IR_NO_VALUE;
  if (!find_layout(e, conv, &l) || l.k > KERN_I8_MAX_K / 4 || !from || base_tensor_numel(from) != l.size) return TD_OK;
  uint8_t *to = base_arena_alloc_uncleared(e->graph->constants, (size_t)l.size, 64);
  if (!to) return base_no_memory(e->err, "packed weights");
  memcpy(to, from->data, (size_t)l.size);
  base_f32 *scales = (base_f32 *)(void *)to + l.columns;
  base_i32 *bias = (base_i32 *)(void *)to + 2 * l.columns;
  for (int64_t c = 0; c < l.groups * l.n; c++) scales[kern_i8_column(&l, c)] *= factors[c];
  *whole = !shifts || add_shifts(&l, passes_float(conv, "x_scale"), scales, shifts, bias);
  const base_tensor t = base_tensor_of(to, TD_U8, 1, &l.size);
  return ir_add_constant(e->graph, &t, NULL, packed, e->err);
}

/* ---- quantisations ---- */

static td_status quantize_product(passes_edit *e, ir_node id, const int8_activation *y, ir_value from,
                                  const base_arg *limits, uint32_t limit_count, bool *done) {
  product p;
  base_arg args[6];
  if (!find_product(e, from, &p) || ir_type_of(e->graph, p.node.out[0])->dtype != TD_F32) return TD_OK;
  if (limit_count && !is_plain(&p)) return TD_OK;
  for (uint32_t i = 0; i < limit_count; i++) args[i] = limits[i];
  args[limit_count] = ARG_FLOAT("y_scale", y->scale);
  args[limit_count + 1] = ARG_INT("y_zero", y->zero);
  args[limit_count + 2] = ARG_BOOL("y_signed", y->dtype == TD_I8);
  *done = true;
  return rebuild(e, id, &p, p.node.in, p.node.in_count, args, limit_count + 3);
}

/* Can the product that `v`, for one user alone, shows take a residual? Nothing in between, and the type is y's; `t`: of
 * its result of 8 bits, its scale 0 where that is f32. */
static bool takes_residual(passes_edit *e, ir_value v, td_dtype y, int8_activation *t, product *p) {
  if (passes_uses(e, v) != 1) return false;
  const bool bytes = passes_int8_find_activation(e, v, t);
  if (!bytes) *t = (int8_activation){.q = v, .dtype = TD_F32};
  if ((bytes && t->dtype != y) || !find_product(e, t->q, p) || ir_type_of(e->graph, p->node.out[0])->dtype != t->dtype)
    return false;
  return is_plain(p) && p->node.op->id != OP_td_matmul_i8 && passes_float(&p->node, "y_scale") == t->scale &&
         passes_int(&p->node, "y_zero") == t->zero;
}

static td_status quantize_sum(passes_edit *e, ir_node id, const int8_activation *y, ir_value from,
                              const base_arg *limits, uint32_t limit_count, bool *done) {
  const ir_node_def *found = passes_only_producer(e, from, OP_aten_add);
  if (!found) return TD_OK;
  const ir_node_def sum = *found;
  for (uint32_t side = 0; side < 2; side++) {
    int8_activation t, r;
    product p;
    if (!passes_int8_find_activation(e, sum.in[1 - side], &r) || !takes_residual(e, sum.in[side], y->dtype, &t, &p) ||
        !ir_type_equal(ir_type_of(e->graph, sum.in[0]), ir_type_of(e->graph, sum.in[1])))
      continue;
    base_arg args[] = {ARG_FLOAT("t_scale", t.scale),
                       ARG_INT("t_zero", t.zero),
                       ARG_FLOAT("r_scale", r.scale),
                       ARG_INT("r_zero", passes_int8_unsigned_zero(&r)),
                       ARG_FLOAT("y_scale", y->scale),
                       ARG_INT("y_zero", y->zero),
                       ARG_BOOL("y_signed", y->dtype == TD_I8),
                       ARG_BOOL("act_late", limit_count > 0),
                       {0},
                       {0},
                       {0}};
    for (uint32_t i = 0; i < limit_count; i++) args[8 + i] = limits[i];
    ir_value in[KERN_IN_RESIDUAL + 1] = {p.node.in[0], p.node.in[1], IR_NO_VALUE, r.q};
    if (p.node.in_count > KERN_IN_BIAS) in[KERN_IN_BIAS] = p.node.in[KERN_IN_BIAS];
    if (p.image) TRY(passes_int8_permute_channels(e, id, r.q, true, &in[KERN_IN_RESIDUAL]));
    *done = true;
    return rebuild(e, id, &p, in, KERN_IN_RESIDUAL + 1, args, 8 + limit_count);
  }
  return TD_OK;
}

/* Do the limits leave all of what y holds, whatever the channel? */
static bool are_beyond(const int8_activation *y, const base_tensor *scales, const base_arg *limits, uint32_t count) {
  const double least = (y->dtype == TD_I8 ? INT8_MIN : 0) - (double)y->zero, most = least + UINT8_MAX;
  const bool relu = count && strcmp(limits[0].str, "relu") == 0;
  for (int64_t c = 0; count && c < base_tensor_numel(scales); c++) {
    const double scale = passes_int8_number(scales, c);
    if (nearbyint(limits[1].f / scale) > least || (!relu && nearbyint(limits[2].f / scale) < most)) return false;
  }
  return true;
}

/* A scale for each channel, as depthwise convolutions take them: it is in those of the weights of the product before,
 * whose result has the scale 1. */
static td_status quantize_channels(passes_edit *e, ir_node id, const ir_node_def *node, const base_tensor *scales) {
  product p;
  base_arg limits[3];
  uint32_t limit_count;
  int8_activation y;
  ir_value from = node->in[0], in[3];
  bool whole;
  const base_tensor *zeros = passes_constant(e, node, 2);
  const int64_t channels = base_tensor_numel(scales);
  if (!passes_int8_find_channels(e, node, scales, zeros, &y) || !find_limits(e, &from, limits, &limit_count) ||
      !are_beyond(&y, scales, limits, limit_count) || !find_product(e, from, &p) || !p.image || !is_plain(&p) ||
      p.node.in_count > KERN_IN_BIAS + 1 || ir_type_of(e->graph, p.node.out[0])->dtype != TD_F32 ||
      !(passes_float(&p.node, "x_scale") > 0) || passes_int(&p.node, "channels") != channels)
    return TD_OK;
  const bool biased = p.node.in_count > KERN_IN_BIAS && p.node.in[KERN_IN_BIAS].id;
  const base_tensor *bias = biased ? passes_constant(e, &p.node, KERN_IN_BIAS) : NULL;
  if (biased && (!bias || base_tensor_numel(bias) != channels)) return TD_OK;
  float *factors = base_new(e->scratch, float, (size_t)channels),
        *own = base_new(e->graph->constants, float, (size_t)channels);
  if (!factors || !own) return base_no_memory(e->err, "scales");
  for (int64_t c = 0; c < channels; c++) {
    factors[c] = (float)(1 / passes_int8_number(scales, c));
    own[c] = bias ? (float)passes_int8_number(bias, c) * factors[c] : 0;
  }
  const base_tensor shifts = base_tensor_of(own, TD_F32, 1, &channels);
  in[0] = p.node.in[0];
  TRY(repack(e, &p.node, factors, NULL, &in[1], &whole));
  if (!in[1].id) return TD_OK;
  TRY(ir_add_constant(e->graph, &shifts, NULL, &in[KERN_IN_BIAS], e->err));
  const base_arg args[] = {ARG_FLOAT("y_scale", 1), ARG_INT("y_zero", y.zero), ARG_BOOL("y_signed", y.dtype == TD_I8)};
  return rebuild(e, id, &p, in, biased ? 3 : 2, args, 3);
}

td_status passes_int8_visit_quantize(passes_edit *e, ir_node id, const ir_node_def *node) {
  const base_tensor *zeros, *scale = passes_constant(e, node, 1);
  int8_activation y, x;
  base_arg limits[3];
  uint32_t limit_count;
  ir_value from = node->in[0];
  bool done = false;
  if (scale && base_tensor_numel(scale) > 1) return quantize_channels(e, id, node, scale);
  if (!passes_int8_find_optional(e, node, 2, &zeros) || !passes_int8_activation_of(e, node->out[0], scale, zeros, &y) ||
      ir_type_of(e->graph, from)->dtype != TD_F32)
    return TD_OK;
  if (passes_int8_find_activation(e, from, &x) && x.dtype == y.dtype && x.scale == y.scale && x.zero == y.zero)
    return passes_take_place(e, id, x.q);
  if (!find_limits(e, &from, limits, &limit_count)) return passes_int8_between(e, id, &y, from, limits, limit_count);
  TRY(quantize_product(e, id, &y, from, limits, limit_count, &done));
  if (!done) TRY(quantize_sum(e, id, &y, from, limits, limit_count, &done));
  return done ? TD_OK : passes_int8_between(e, id, &y, from, limits, limit_count);
}

/* ---- batch norms ---- */

td_status passes_int8_visit_norm(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def norm = *node;
  base_tensor vectors[2];
  product p;
  ir_value in[3];
  bool fits, whole;
  if (!find_product(e, norm.in[0], &p) || !p.image || !is_plain(&p) || p.node.in_count > KERN_IN_BIAS ||
      ir_type_of(e->graph, p.node.out[0])->dtype != TD_F32)
    return TD_OK;
  const int64_t channels = passes_int(&p.node, "channels");
  TRY(passes_norm_vectors(e, &norm, channels, vectors, &fits));
  if (!fits) return TD_OK;
  in[0] = p.node.in[0];
  TRY(repack(e, &p.node, vectors[0].data, vectors[1].data, &in[1], &whole));
  if (!in[1].id) return TD_OK;
  if (!whole) TRY(ir_add_constant(e->graph, &vectors[1], NULL, &in[2], e->err));
  return rebuild(e, id, &p, in, whole ? 2 : 3, NULL, 0);
}

/* ---- what moves elements, or takes the largest of some ---- */

/* `v`, of the scale of the dequantisation that gave `like`, in place of `id`. */
static td_status dequantize_at(passes_edit *e, ir_node id, ir_value like, ir_value v) {
  const ir_node_def dequantize = *passes_dequantised(e, like);
  ir_value in[3], made;
  base_arg args[2 * IR_NODE_ARGS];
  for (uint32_t i = 0; i < dequantize.in_count; i++) in[i] = dequantize.in[i];
  in[0] = v;
  const ir_new_node spec = {
      .in = in, .in_count = dequantize.in_count, .args = args, .arg_count = ir_node_args(&dequantize, args)};
  TRY(passes_add(e, id, dequantize.op->id, spec, NULL, &made));
  return passes_take_place(e, id, made);
}

/* The node again over bytes. */
static td_status move_bytes(passes_edit *e, ir_node id, const ir_node_def *node, const ir_value *in) {
  const ir_value like = node->in[0];
  base_arg *args = base_new(e->scratch, base_arg, (size_t)node->op->attr_count + 1);
  ir_value made;
  if (!args) return base_no_memory(e->err, "a pass");
  const ir_new_node spec = {.in = in, .in_count = node->in_count, .args = args, .arg_count = ir_node_args(node, args)};
  TRY(passes_add(e, id, node->op->id, spec, NULL, &made));
  return dequantize_at(e, id, like, made);
}

td_status passes_int8_visit_mover(passes_edit *e, ir_node id, const ir_node_def *node) {
  int8_activation x;
  ir_value in[8];
  bool typed = false; /* it reads bits as another type */
  for (uint32_t i = 0; i < node->op->attr_count; i++) typed |= node->op->attrs[i].kind == BASE_ATTR_DTYPE;
  const bool rows = node->op->flags & IR_OP_LOOKUP; /* of a constant, too: a table of embeddings */
  if (typed || node->in_count > 8 || !(rows ? passes_int8_find_bytes : passes_int8_find_activation)(e, node->in[0], &x))
    return TD_OK;
  for (uint32_t i = 1; i < node->out_count; i++)
    if (passes_uses(e, node->out[i])) return TD_OK;
  for (uint32_t i = 0; i < node->in_count; i++) in[i] = i ? node->in[i] : x.q;
  return move_bytes(e, id, node, in);
}

td_status passes_int8_visit_cat(passes_edit *e, ir_node id, const ir_node_def *node) {
  int8_activation first, x;
  ir_value *in = base_new(e->scratch, ir_value, (size_t)node->in_count + 1);
  if (!in) return base_no_memory(e->err, "a pass");
  for (uint32_t i = 0; i < node->in_count; i++) {
    if (!passes_int8_find_activation(e, node->in[i], &x)) return TD_OK;
    if (i == 0) first = x;
    if (x.dtype != first.dtype || x.scale != first.scale || x.zero != first.zero) return TD_OK;
    in[i] = x.q;
  }
  return node->in_count ? move_bytes(e, id, node, in) : TD_OK;
}
