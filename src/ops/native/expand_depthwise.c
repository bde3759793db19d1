/* expand_depthwise.c -- td::expand_depthwise: a convolution and the depthwise convolution that alone reads it, f32,
 * with packed weights and an epilogue: a 1x1 one of an image that stands channels last, or a first layer's. The pass
 * `expand` makes it. Operands and attributes: kernels/products/expand.h. */
#include "kernels/products/products.h"
#include "kernels/kernels.h"
#include "ops/common/conv_priv.h"
#include "ops/common/window_priv.h"

static const ir_attr expand_attrs[] = {KERN_CONV_LIST(OPS_ATTR_ROW) KERN_EXPAND_LIST(OPS_ATTR_ROW)
                                           KERN_EPILOGUE_LIST(OPS_ATTR_ROW)};

/* ---- shapes ---- */

static bool is_first_layer(const base_attrs *a) {
  uint32_t count;
  base_attr_ints(a, KERN_EXPAND_KERNEL, &count);
  return count > 0;
}

/* Taps of the expansion; -1: too many. */
static int64_t expansion_taps(const base_attrs *a) {
  int64_t taps;
  bool fits =
      base_mul_i64(base_attr_int_at(a, KERN_EXPAND_KERNEL, 0, 1), base_attr_int_at(a, KERN_EXPAND_KERNEL, 1, 1), &taps);
  return fits ? taps : -1;
}

static td_status check_expansion(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  const ir_info *w = ir_in(ctx, KERN_IN_EXPAND_W), *bias = ir_in(ctx, KERN_IN_EXPAND_BIAS);
  int64_t channels = base_attr_int(ctx->attrs, KERN_CONV_CHANNELS), panel = base_attr_int(ctx->attrs, KERN_CONV_PANEL);
  if (kern_act_find(base_attr_str(ctx->attrs, KERN_EXPAND_ACT)) == KERN_ACT_COUNT)
    return ir_infer_fail(ctx, "there is no such activation");
  const bool pairs = w && w->type.dtype == TD_BF16;
  if (!w || (w->type.dtype != TD_F32 && !(pairs && !is_first_layer(ctx->attrs))) ||
      (bias && bias->type.dtype != TD_F32))
    return ir_infer_fail(ctx, "the weights and the bias of the expansion must be f32");
  bool fits = w->type.rank == IR_UNRANKED || w->type.rank == 1;
  base_dim depth = x->rank == IR_UNRANKED ? 0 : x->dims[is_first_layer(ctx->attrs) ? 1 : x->rank - 1];
  if (fits && x->rank != IR_UNRANKED && w->type.rank == 1 && base_dim_known(depth)) {
    int64_t count, taps = expansion_taps(ctx->attrs);
    if (pairs) depth = kern_pairs_depth(depth);
    fits = taps > 0 && kern_conv_packed_size(false, 1, channels, taps, depth, panel, &count) &&
           !ops_dims_differ(w->type.dims[0], count);
  }
  if (bias && bias->type.rank != IR_UNRANKED)
    fits = fits && bias->type.rank == 1 && !ops_dims_differ(bias->type.dims[0], channels);
  return fits ? TD_OK : ir_infer_fail(ctx, "the weights or the bias of the expansion do not fit");
}

/* Pixels of the expanded image along axis `i` of two. */
static base_dim expanded_dim(base_dims *d, const base_attrs *a, int32_t i, base_dim in) {
  int64_t pads = base_attr_int_at(a, KERN_EXPAND_PADDING, i, 0) + base_attr_int_at(a, KERN_EXPAND_PADDING, 2 + i, 0);
  base_dim room = base_dim_add(d, in, base_dim_number(pads - base_attr_int_at(a, KERN_EXPAND_KERNEL, i, 1)));
  return ops_windows(d, room, base_attr_int_at(a, KERN_EXPAND_STRIDE, i, 1));
}

/* As of a depthwise convolution over the expanded image. */
static td_status infer_window(ir_infer *ctx) {
  const ir_info *x = ir_in(ctx, 0);
  TRY(ops_window_check_list(ctx, KERN_EXPAND_KERNEL, 2, true));
  TRY(ops_window_check_list(ctx, KERN_EXPAND_STRIDE, 2, true));
  TRY(ops_window_check_list(ctx, KERN_EXPAND_PADDING, 4, false));
  uint32_t strides, paddings;
  base_attr_ints(ctx->attrs, KERN_EXPAND_STRIDE, &strides);
  base_attr_ints(ctx->attrs, KERN_EXPAND_PADDING, &paddings);
  if (!is_first_layer(ctx->attrs) && (strides || paddings))
    return ir_infer_fail(ctx, "only a first layer has a stride and padding");
  const ir_info *w = ir_in(ctx, KERN_IN_EXPAND_W), *residual = ir_in(ctx, KERN_IN_RESIDUAL);
  if (residual && residual->type.dtype != TD_F32) return ir_infer_fail(ctx, "the residual must be f32");
  if (!is_first_layer(ctx->attrs) || x->type.rank == IR_UNRANKED) {
    if (x->type.dtype == TD_BF16 && !(w && w->type.dtype == TD_BF16))
      return ir_infer_fail(ctx, "an image of bf16 for weights of f32");
    return ops_infer_conv(ctx, NULL, true);
  }
  if (x->type.rank != 4) return ir_infer_fail(ctx, "it takes planes");
  ir_info image = *x;
  for (int32_t i = 0; i < 2; i++) image.type.dims[1 + i] = expanded_dim(ctx->dims, ctx->attrs, i, x->type.dims[2 + i]);
  image.type.dims[3] = x->type.dims[1];
  const ir_info *in[KERN_EXPAND_END] = {&image};
  for (uint32_t i = 1; i < ctx->in_count; i++) in[i] = ctx->in[i];
  const ir_info *const *given = ctx->in;
  ctx->in = in;
  td_status status = ops_infer_conv(ctx, NULL, true);
  ctx->in = given;
  return status;
}

static td_status infer_expand_depthwise(ir_infer *ctx) {
  TRY(infer_window(ctx));
  const base_attrs *a = ctx->attrs;
  const ir_type *w = &ir_in(ctx, 1)->type;
  int64_t taps = 1;
  uint32_t spatial;
  const int64_t *kernel = base_attr_ints(a, KERN_CONV_KERNEL, &spatial);
  if (spatial != 2 || base_attr_int(a, KERN_CONV_GROUPS) != 1 || base_attr_int(a, KERN_CONV_PANEL) < 1 ||
      base_attr_int(a, KERN_CONV_CHANNELS_FIRST))
    return ir_infer_fail(ctx, "it takes planes, packed weights, one group, and channels last");
  bool fits = base_mul_i64(kernel[0], kernel[1], &taps);
  if (w->rank != IR_UNRANKED)
    fits = fits && w->rank == 2 && !ops_dims_differ(w->dims[0], taps) &&
           !ops_dims_differ(w->dims[1], base_attr_int(a, KERN_CONV_CHANNELS));
  return fits ? check_expansion(ctx) : ir_infer_fail(ctx, "the weights do not fit");
}

/* ---- run ---- */

/* What a pixel of the expanded image is made of, in the order of the weights. */
static void collect(const kern_conv *m, const base_f32 *x, int64_t pixel, base_f32 *to) {
  const kern_conv_axis *h = &m->axis[1], *v = &m->axis[2];
  int64_t sample = pixel / m->out_size, row = pixel % m->out_size / v->out, column = pixel % v->out;
  for (int64_t i = 0; i < h->kernel; i++)
    for (int64_t j = 0; j < v->kernel; j++)
      for (int64_t c = 0; c < m->group_in; c++) {
        int64_t y = row * h->stride - h->begin + i, z = column * v->stride - v->begin + j;
        bool inside = y >= 0 && y < h->in && z >= 0 && z < v->in;
        int64_t at = y * v->in + z;
        at = m->channels_first ? (sample * m->group_in + c) * m->in_size + at
                               : (sample * m->in_size + at) * m->group_in + c;
        *to++ = inside ? x[at] : 0;
      }
}

/* Weights from pairs, as panels of floats. */
static const base_f32 *part_pairs(const base_call *call, const kern_conv *m, const base_f32 *w) {
  const int64_t depth = m->group_in, wide = (m->group_out + m->panel - 1) / m->panel, panel = m->panel;
  base_f32 *panels = base_call_scratch(call, (size_t)(wide * depth), (size_t)panel * sizeof *panels);
  if (!panels || !w) return NULL;
  for (int64_t i = 0; i < wide * depth; i++)
    for (int64_t n = 0; n < panel; n++) {
      const int64_t pair = i / depth * (kern_pairs_depth(depth) / 2) + i % depth / 2;
      panels[i * panel + n] = w[(pair * panel + n) * 2 + i % depth % 2];
    }
  return panels;
}

/* x as the expansion multiplies it. */
static const base_f32 *image_of(const base_call *call) {
  return base_in(call, KERN_IN_EXPAND_W)->dtype == TD_BF16 ? ops_rounded_f32(call, 0) : ops_dense_f32(call, 0);
}

/* The expanded image, dense. */
static td_status expand(const base_call *call, const kern_conv *m, float *to) {
  const base_f32 *x = image_of(call), *w = ops_dense_f32(call, KERN_IN_EXPAND_W), *bias = NULL;
  if (base_in(call, KERN_IN_EXPAND_W)->dtype == TD_BF16) w = part_pairs(call, m, w);
  if (base_in(call, KERN_IN_EXPAND_BIAS)) {
    bias = ops_dense_f32(call, KERN_IN_EXPAND_BIAS);
    if (!bias) return base_no_memory(call->err, "scratch");
  }
  int64_t depth = m->taps * m->group_in;
  base_f32 *elements = base_call_scratch(call, (size_t)depth, sizeof *elements);
  if (!x || !w || !elements) return base_no_memory(call->err, "scratch");
  kern_act act = kern_act_find(base_attr_str(call->attrs, KERN_EXPAND_ACT));
  double a = base_attr_float(call->attrs, KERN_EXPAND_ACT_A), b = base_attr_float(call->attrs, KERN_EXPAND_ACT_B);
  for (int64_t pixel = 0; pixel < m->batch * m->out_size; pixel++) {
    collect(m, x, pixel, elements);
    for (int64_t n = 0; n < m->group_out; n++) {
      const base_f32 *column = w + n / m->panel * depth * m->panel + n % m->panel;
      double sum = bias ? (double)bias[n] : 0;
      for (int64_t k = 0; k < depth; k++) sum += (double)elements[k] * (double)column[k * m->panel];
      *to++ = (float)kern_act_apply(act, a, b, sum);
    }
  }
  return TD_OK;
}

/* Expands, then is td::depthwise_conv's reference on that image. */
static td_status expand_depthwise_reference(const base_call *call) {
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  kern_conv c, maker;
  int64_t count;
  TRY(kern_expand_of(call, &c, &maker));
  const base_f32 *w = ops_dense_f32(call, 1);
  const int64_t dims[] = {c.batch, c.axis[1].in, c.axis[2].in, c.groups};
  const float *plain = w ? ops_plain_taps(call, c.taps, c.groups, w) : NULL;
  float *expanded = base_numel(4, dims, &count) ? base_call_scratch(call, (size_t)count, sizeof *expanded) : NULL;
  if (!plain || !expanded) return base_no_memory(call->err, "scratch");
  TRY(expand(call, &maker, expanded));
  const base_value image = {.kind = BASE_TENSOR, .tensor = base_tensor_of(expanded, TD_F32, 4, dims)};
  const base_value *in[KERN_EXPAND_END] = {&image};
  for (uint32_t i = 1; i < call->in_count; i++) in[i] = call->in[i];
  base_call second = *call;
  second.in = in;
  return ops_run_conv(&second, &c, false, plain);
}

/* Numbers of bf16 are read and stored in pairs. */
static bool takes_numbers(const ir_kernel_query *query) {
  const ir_type *x = &query->in[0]->type;
  const bool whole = x->dtype != TD_BF16 || (base_dim_known(x->dims[x->rank - 1]) && x->dims[x->rank - 1] % 2 == 0);
  const bool wide =
      kern_result_type(query->attrs) == TD_F32 || base_attr_int(query->attrs, KERN_CONV_CHANNELS) % 2 == 0;
  return whole && wide;
}

static const kern_row *expand_depthwise_kernel(const ir_kernel_query *query) {
  const base_attrs *a = query->attrs;
  const ir_info *w = query->in_count > KERN_IN_EXPAND_W ? query->in[KERN_IN_EXPAND_W] : NULL;
  const bool pairs = kern_result_type(query->attrs) == TD_BF16 || (w && w->type.dtype == TD_BF16);
  const kern_row *row = w ? kern_select(KERN_EXPAND_DEPTHWISE, pairs ? TD_BF16 : TD_F32, query->isa) : NULL;
  if (!row || !takes_numbers(query)) return NULL;
  for (int32_t i = 0; i < 2; i++)
    if (!kern_expand_has(base_attr_int_at(a, KERN_CONV_KERNEL, i, 0), base_attr_int_at(a, KERN_CONV_STRIDE, i, 1),
                         base_attr_int_at(a, KERN_CONV_DILATION, i, 1), base_attr_int(a, KERN_CONV_CHANNELS),
                         row->lanes))
      return NULL;
  return base_attr_int(a, KERN_CONV_PANEL) == row->lanes ? row : NULL;
}

static double known_or_1(base_dim d) { return base_dim_known(d) ? (double)d : 1; }

/* Every pixel of the expanded image meets the expansion's weights, and every element of the result the taps. */
static double flops_expand_depthwise(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  const ir_type *x = &in[0]->type, *y = &out->type;
  if (x->rank != 4) return 0;
  bool first = is_first_layer(attrs);
  double expansion = 2 * (double)base_attr_int(attrs, KERN_CONV_CHANNELS) * (double)expansion_taps(attrs), taps = 2;
  expansion *= known_or_1(x->dims[0]) * known_or_1(x->dims[first ? 1 : 3]);
  for (int32_t i = 0; i < 2; i++) {
    base_dim dim = x->dims[(first ? 2 : 1) + i];
    expansion *= base_dim_known(dim) ? (double)kern_expand_out(attrs, i, dim) : 1;
  }
  for (int32_t i = 0; i < 4; i++) taps *= known_or_1(y->dims[i]);
  for (int32_t i = 0; i < 2; i++) taps *= (double)base_attr_int_at(attrs, KERN_CONV_KERNEL, i, 1);
  return expansion + taps;
}

/* ---- test cases ---- */

typedef struct expand_case {
  int64_t batch, height, width, depth, channels, kernel, stride;
  int64_t padding[4];
  kern_act expand_act;
  uint32_t parts; /* of the epilogue: BIAS, ... */
  kern_act act;
  bool late, no_expand_bias;
  int64_t first_kernel[2], first_stride, first_padding[4]; /* of a first layer; kernel 0: 1x1 */
} expand_case;

#define PAD(n) .padding = {(n), (n), (n), (n)}
#define ACT(name) KERN_ACT_##name
#define FIRST(h, w, stride, pad) \
  .first_kernel = {(h), (w)}, .first_stride = (stride), .first_padding = {(pad), (pad), (pad), (pad)}

static const expand_case table[] = {
    /* as in networks; several chunks of rows, blocks of channels and bands */
    {1, 20, 30, 16, 96, 3, 2, PAD(1), ACT(clamp), BIAS, ACT(clamp)},
    {2, 14, 14, 24, 144, 3, 1, PAD(1), ACT(clamp), BIAS, ACT(clamp)},
    {1, 23, 56, 5, 72, 3, 1, PAD(1), ACT(relu), BIAS, ACT(relu)},
    {1, 28, 28, 40, 240, 5, 2, PAD(2), ACT(silu), BIAS, ACT(silu)},
    {1, 14, 14, 17, 112, 5, 1, PAD(2), ACT(hardswish), BIAS, ACT(hardswish)},
    {2, 7, 7, 33, 100, 3, 1, PAD(1), ACT(silu), BIAS | RESIDUAL | SCALE | SHIFT, ACT(relu), .late = true},
    {1, 45, 112, 3, 40, 3, 2, .padding = {0, 0, 1, 1}, ACT(clamp), BIAS, ACT(none)},
    /* channels of a vector, of one and a part, of fewer than a vector */
    {1, 6, 9, 7, 16, 3, 1, PAD(1), ACT(relu), BIAS, ACT(relu)},
    {1, 5, 8, 4, 17, 3, 1, PAD(1), ACT(gelu), BIAS, ACT(gelu)},
    {1, 9, 5, 6, 19, 5, 1, PAD(2), ACT(none), 0, ACT(none), .no_expand_bias = true},
    {1, 4, 6, 8, 5, 3, 1, PAD(1), ACT(relu), BIAS, ACT(relu)},
    {2, 3, 3, 2, 1, 3, 2, PAD(1), ACT(relu), BIAS, ACT(none)},
    /* only padding under some windows; negative padding; none; one pixel */
    {1, 2, 3, 9, 32, 3, 1, PAD(5), ACT(sigmoid), BIAS, ACT(none)},
    {1, 9, 12, 5, 24, 3, 2, .padding = {-1, -2, 0, -1}, ACT(sigmoid), BIAS, ACT(leaky_relu)},
    {1, 8, 11, 3, 34, 3, 1, .expand_act = ACT(tanh), .parts = BIAS | RESIDUAL, .act = ACT(relu), .late = true},
    {3, 1, 1, 12, 48, 5, 1, PAD(2), ACT(hardswish), SCALE | SHIFT, ACT(hardswish)},
    {1, 1, 1, 1, 16, 3, 2, PAD(1), ACT(relu), BIAS, ACT(relu)},
    /* first layers: padded, in place, cropped; a sample of several bands, rows longer than a piece; nothing */
    {2, 45, 67, 3, 32, 3, 1, PAD(1), ACT(clamp), BIAS, ACT(clamp), FIRST(3, 3, 2, 1)},
    {1, 20, 33, 4, 24, 3, 2, PAD(1), ACT(hardswish), BIAS, ACT(relu), FIRST(3, 2, 1, 0)},
    {1, 19, 230, 3, 40, 5, 1, PAD(2), ACT(silu), BIAS | RESIDUAL, ACT(silu), FIRST(2, 3, 2, -1)},
    {1, 90, 24, 1, 17, 3, 1, PAD(1), ACT(relu), BIAS, ACT(none), FIRST(5, 4, 1, 3)},
    {2, 3, 2, 3, 20, 3, 1, PAD(1), ACT(none), 0, ACT(none), .no_expand_bias = true, FIRST(3, 3, 2, 2)},
    {1, 8, 8, 0, 32, 3, 1, PAD(1), ACT(sigmoid), BIAS, ACT(relu), FIRST(3, 3, 1, 1)},
    {1, 0, 9, 3, 32, 3, 1, PAD(1), ACT(relu), BIAS, ACT(relu), FIRST(3, 3, 1, 2)},
    /* windows without a kernel */
    {1, 9, 9, 6, 20, 7, 1, PAD(3), ACT(relu), BIAS, ACT(relu)},
    {1, 10, 7, 6, 20, 3, 3, PAD(1), ACT(relu), BIAS, ACT(relu)},
    /* nothing */
    {0, 4, 4, 3, 16, 3, 1, PAD(1), ACT(relu), BIAS, ACT(relu)},
    {1, 4, 4, 0, 32, 3, 1, PAD(1), ACT(sigmoid), BIAS, ACT(relu)},
    {1, 4, 4, 3, 0, 3, 1, PAD(1), ACT(relu), 0, ACT(relu)},
    {1, 0, 0, 3, 40, 3, 1, PAD(5), ACT(sigmoid), BIAS, ACT(relu)},
};

/* `dims` of weights as a model has them, packed as one group with panels of so many columns, for operand `i`. */
static bool pack_weights(ir_case *c, uint32_t i, const int64_t *dims, int64_t panel, uint64_t seed) {
  int64_t count;
  if (!ops_case_in(c, TD_F32, 4, dims, OPS_NORMAL, seed) ||
      !kern_conv_packed_size(false, 1, dims[0], dims[2] * dims[3], dims[1], panel, &count))
    return false;
  float *to = base_new(c->arena, float, (size_t)count + 1);
  if (!to) return false;
  if (dims[0]) kern_pack_conv(&c->in[i], NULL, false, 1, panel, to);
  c->in[i] = base_tensor_of(to, TD_F32, 1, &count);
  return true;
}

/* Pixels of the expanded image along axis `i` of two. */
static int64_t case_expanded(const expand_case *s, int i, int64_t in) {
  if (!s->first_kernel[0]) return in;
  return (in + s->first_padding[i] + s->first_padding[2 + i] - s->first_kernel[i]) / s->first_stride + 1;
}

/* The expansion's weights as pairs. */
static bool case_pairs(ir_case *c, const expand_case *s, int64_t panel) {
  base_tensor *w = &c->in[KERN_IN_EXPAND_W];
  const int64_t wide = (s->channels + panel - 1) / panel, stored = kern_pairs_depth(s->depth),
                count = wide * panel * stored;
  uint16_t *pairs = base_new(c->arena, uint16_t, (size_t)count + 1);
  if (!pairs) return false;
  kern_pack_pairs(w->data, s->depth, wide, panel, stored, pairs);
  *w = base_tensor_of(pairs, TD_BF16, 1, &count);
  return true;
}

static bool add_operands(ir_case *c, const expand_case *s, int64_t panel, uint64_t seed) {
  bool first = s->first_kernel[0] > 0;
  const int64_t last[] = {s->batch, s->height, s->width, s->depth},
                planes[] = {s->batch, s->depth, s->height, s->width};
  const int64_t *x = first ? planes : last, taps[] = {s->channels, 1, s->kernel, s->kernel};
  int64_t height = case_expanded(s, 0, s->height), width = case_expanded(s, 1, s->width);
  const int64_t y[] = {s->batch, (height + s->padding[0] + s->padding[2] - s->kernel) / s->stride + 1,
                       (width + s->padding[1] + s->padding[3] - s->kernel) / s->stride + 1, s->channels};
  if (!ops_case_in(c, TD_F32, 4, x, OPS_NORMAL, seed) ||
      !pack_weights(c, 1, taps, base_max_i64(s->channels, 1), seed + 1))
    return false;
  c->in[1] = base_tensor_of(c->in[1].data, TD_F32, 2, (int64_t[]){s->kernel * s->kernel, s->channels});
  if (!ops_case_epilogue(c, s->parts, s->act, s->late, 4, y)) return false;
  while (c->in_count < KERN_IN_EXPAND_W)
    if (!ops_case_absent(c)) return false;
  const int64_t expand_w[] = {s->channels, s->depth, first ? s->first_kernel[0] : 1, first ? s->first_kernel[1] : 1};
  return pack_weights(c, KERN_IN_EXPAND_W, expand_w, panel, seed + 2) &&
         (s->no_expand_bias || ops_case_in(c, TD_F32, 1, &s->channels, OPS_NORMAL, seed + 3));
}

static bool cases_expand_depthwise(ir_case *c, uint32_t number) {
  static const int64_t panels[] = {1, 4, 8, 16, 4, 16, 4, 16}; /* the last four of pairs, two with values of bf16 */
  if (number >= OPS_COUNT(panels) * OPS_COUNT(table)) return false;
  const expand_case *s = base_arena_copy(c->arena, &table[number / OPS_COUNT(panels)], sizeof *s);
  if (!s) return false;
  int64_t panel = panels[number % OPS_COUNT(panels)];
  const int64_t sizes[] = {s->kernel, s->kernel, s->stride, s->stride, s->first_stride, s->first_stride};
  int64_t *lists = base_arena_copy(c->arena, sizes, sizeof sizes);
  if (!lists) return false;
  ops_case_arg(c, ARG_INTS("kernel", lists, 2));
  ops_case_arg(c, ARG_INTS("stride", lists + 2, 2));
  ops_case_arg(c, ARG_INTS("padding", s->padding, 4));
  ops_case_arg(c, ARG_INT("channels", s->channels));
  ops_case_arg(c, ARG_INT("panel", panel));
  ops_case_arg(c, ARG_STR("expand_act", kern_act_name(s->expand_act)));
  if (s->first_kernel[0]) {
    ops_case_arg(c, ARG_INTS("expand_kernel", s->first_kernel, 2));
    ops_case_arg(c, ARG_INTS("expand_stride", lists + 4, 2));
    ops_case_arg(c, ARG_INTS("expand_padding", s->first_padding, 4));
  }
  if (s->expand_act == ACT(clamp)) ops_case_arg(c, ARG_FLOAT("expand_act_b", 0.75));
  const uint32_t kind = number % OPS_COUNT(panels);
  if (!add_operands(c, s, panel, number)) return false;
  if (s->first_kernel[0] && kind >= 6) return ops_case_bf16(c, BF16_RESULT, s->parts);
  if (kind < 4 || s->first_kernel[0]) return true;
  return case_pairs(c, s, panel) && (kind < 6 || ops_case_bf16(c, BF16_X | BF16_RESULT, s->parts));
}

OPS_DECLARE(expand_depthwise);
const ir_op ops_expand_depthwise[] = {
    {.id = OPERATOR(td, expand_depthwise),
     .min_in = 2,
     .max_in = KERN_EXPAND_END + BASE_PROGRAM_OPERANDS - 1,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN,
     .attrs = expand_attrs,
     .attr_count = OPS_COUNT(expand_attrs),
     .by_sample = 1 | RESIDUAL | CHAIN,
     .infer = infer_expand_depthwise,
     .reference = expand_depthwise_reference,
     .kernel = expand_depthwise_kernel,
     .flops = flops_expand_depthwise,
     .rtol = 1e-4f,
     .atol = 1e-4f},
};
OPS_TABLE(expand_depthwise);
OPS_CASES(expand_depthwise) = {
    {OP_td_expand_depthwise, cases_expand_depthwise},
    {0},
};
