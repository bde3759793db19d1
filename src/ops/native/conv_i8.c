/* conv_i8.c -- td::conv_i8(x [batch, in..., channels in], w, bias?, residual?, scale?, shift?) -> [batch, out...,
 * channels]: a convolution of 8-bit integers, channels last; with `channels_first` x is f32, [batch, channels in,
 * in...] (kern_i8_takes_planes). What lies beside the image is x_zero, and sums
 * become results as those of td::linear_i8 do, or, with a residual of 8 bits, as kern_i8_direct has it. Passes make it;
 * attributes: kernels/products/conv.h, weights: kernels/products/pack_i8.h, with k = taps * channels of a group. Of f32
 * x is quantised, by its range where x_scale does not say how. */
#include "kernels/products/products.h"
#include "ops/common/conv_priv.h"
#include "ops/common/i8_priv.h"

static const ir_attr attrs[] = {KERN_CONV_LIST(OPS_ATTR_ROW) KERN_I8_LIST(OPS_ATTR_ROW)
                                    KERN_EPILOGUE_LIST(OPS_ATTR_ROW)};

/* The packed weights fit x, as far as sizes are known. */
static td_status check_weights(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type, *w = &ir_in(ctx, 1)->type;
  const kern_i8_scales s = kern_i8_scales_of(ctx->attrs);
  const bool planes = base_attr_int(ctx->attrs, KERN_CONV_CHANNELS_FIRST);
  const base_dim in = x->dims[planes ? 1 : x->rank - 1];
  kern_conv c;
  kern_i8_layout l;
  bool depthwise;
  if (w->rank != 1) return ir_infer_fail(ctx, "packed weights must be a vector");
  if (!base_dim_known(in)) return TD_OK;
  if (!kern_conv_window(ctx->attrs, x->rank, in, &c)) return ir_infer_fail(ctx, "a huge kernel");
  const kern_i8_window window = kern_i8_window_of(&c);
  if (!kern_i8_window_layout(&window, s.panel, s.depth, &l, &depthwise) ||
      (base_dim_known(w->dims[0]) && w->dims[0] != l.size))
    return ir_infer_fail(ctx, "the packed weights do not fit the image");
  return TD_OK;
}

/* kern_i8_takes_planes, as far as sizes are known. */
static bool sees_planes(const base_attrs *a, const ir_type *x) {
  kern_conv c;
  return x->rank >= 3 && kern_conv_window(a, x->rank, base_dim_known(x->dims[1]) ? x->dims[1] : 1, &c) &&
         kern_i8_takes_planes(&c);
}

static td_status infer(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  base_dim dims[BASE_MAX_RANK];
  td_dtype dtype;
  TRY(ops_i8_check_packed(ctx, &dtype));
  const bool planes = base_attr_int(ctx->attrs, KERN_CONV_CHANNELS_FIRST);
  if ((planes && x->dtype != TD_F32) || x->rank == IR_UNRANKED)
    return ir_infer_fail(ctx, "x must be f32 if its channels are first, and of a known rank");
  if (planes && !sees_planes(ctx->attrs, x))
    return ir_infer_fail(ctx, "an image with channels first needs windows that kernels read there");
  if (kern_chain_in_front(ctx->attrs)) return ir_infer_fail(ctx, "chains in front are not taken");
  TRY(ops_conv_dims(ctx, NULL, dims));
  TRY(check_weights(ctx));
  TRY(ir_out(ctx, 0, dtype, x->rank, dims));
  return ops_i8_infer_epilogue(ctx);
}

/* Where tap `tap` of output pixel `pixel` lies in an image, in pixels; -1: beside it. */
static int64_t place_of(const kern_conv *c, int64_t pixel, int64_t tap) {
  int64_t at = 0, step = 1;
  for (int32_t i = KERN_CONV_AXES - 1; i >= 0; i--) {
    const kern_conv_axis *a = &c->axis[i];
    const int64_t in = pixel % a->out * a->stride - a->begin + tap % a->kernel * a->dilation;
    if (in < 0 || in >= a->in) return -1;
    at += in * step;
    step *= a->in;
    pixel /= a->out;
    tap /= a->kernel;
  }
  return at;
}

/* Packed weights as [channel][tap][channel in]. */
static int8_t *unpack(const base_call *call, const kern_conv *c, const kern_i8_layout *l, bool depthwise) {
  const uint8_t *packed = base_in(call, 1)->data;
  const kern_i8_window window = kern_i8_window_of(c);
  const int64_t size = c->taps * c->group_in, channels = c->groups * c->group_out;
  int8_t *w = base_call_scratch(call, (size_t)channels, (size_t)size);
  for (int64_t i = 0; w && i < channels * size; i++) {
    const int64_t n = i / size, k = i % size;
    w[i] = depthwise ? kern_i8_weight(l, packed, 0, n, kern_i8_depthwise_k(&window, l->depth, k))
                     : kern_i8_weight(l, packed, n / c->group_out, n % c->group_out, k);
  }
  return w;
}

/* A channel of weights `w`, which are of a group, at a pixel of an image. */
static int32_t sum_of(const kern_conv *c, const uint8_t *image, const int8_t *w, int64_t pixel, int64_t group,
                      const kern_i8_scales *s) {
  const int zero = (int)s->x_zero, shift = s->w_shift;
  int32_t sum = 0;
  for (int64_t tap = 0; tap < c->taps; tap++, w += c->group_in) {
    const int64_t at = place_of(c, pixel, tap);
    const uint8_t *from = image + (at * c->groups + group) * c->group_in;
    for (int64_t k = 0; k < c->group_in && at >= 0; k++) sum += (from[k] - zero) * (w[k] - shift);
  }
  return sum;
}

/* Integers of an image, channels last; NULL: no memory. */
static const uint8_t *values(const base_call *call, const kern_conv *c, kern_i8_scales *s) {
  const uint8_t *x = ops_i8_values(call, s);
  const int64_t channels = c->groups * c->group_in, count = c->batch * c->in_size * channels;
  if (!x || !c->channels_first) return x;
  uint8_t *to = base_call_scratch(call, (size_t)count, sizeof *to);
  for (int64_t i = 0; to && i < count; i++) {
    const int64_t pixel = i / channels, sample = pixel / c->in_size;
    to[i] = x[(sample * channels + i % channels) * c->in_size + pixel % c->in_size];
  }
  return to;
}

static td_status reference(const base_call *call) {
  const int64_t count = base_tensor_numel(base_out(call, 0));
  kern_i8_scales s = kern_i8_scales_of(call->attrs);
  kern_conv c;
  kern_i8_layout l;
  bool depthwise;
  if (count == 0) return TD_OK;
  TRY(kern_conv_sizes(call, &c));
  const kern_i8_window window = kern_i8_window_of(&c);
  if (!kern_i8_window_layout(&window, s.panel, s.depth, &l, &depthwise))
    return ops_fail(call, "the window is too large");
  const uint8_t *x = values(call, &c, &s);
  const int8_t *w = unpack(call, &c, &l, depthwise);
  int32_t *sums = base_call_scratch(call, (size_t)count, sizeof *sums);
  if (!x || !w || !sums) return base_no_memory(call->err, "scratch");
  const int64_t channels = c.groups * c.group_out, size = c.taps * c.group_in;
  for (int64_t i = 0; i < count; i++) {
    const int64_t pixel = i / channels, n = i % channels;
    const uint8_t *image = x + pixel / c.out_size * c.in_size * c.groups * c.group_in;
    sums[i] = sum_of(&c, image, w + n * size, pixel % c.out_size, n / c.group_out, &s);
  }
  return ops_i8_finish(call, &l, &s, sums);
}

/* A range is that of all samples. */
static bool keeps_samples(const ir_samples_query *query) { return kern_i8_scales_of(query->attrs).x_scale > 0; }

static const kern_row *kernel(const ir_kernel_query *query) { return ops_i8_kernel(KERN_CONV_I8, query); }

/* ---- cases ---- */

typedef struct shape {
  int64_t batch, channels, out, groups, in[2], kernel[2], stride, dilation, padding[4];
} shape;

static bool cases(ir_case *c, uint32_t number) {
  static const shape shapes[] = {{1, 16, 24, 1, {7, 7}, {1, 1}, 1, 1, {0}},
                                 {2, 5, 3, 1, {4, 3}, {1, 1}, 1, 1, {0}},
                                 {1, 8, 33, 1, {9, 8}, {3, 3}, 1, 1, {1, 1, 1, 1}},
                                 {2, 3, 16, 1, {11, 9}, {7, 5}, 2, 1, {3, 2, 3, 2}},
                                 {1, 64, 70, 1, {5, 6}, {3, 3}, 1, 1, {1, 1, 1, 1}},
                                 {1, 6, 4, 2, {6, 7}, {3, 2}, 1, 2, {0, 1, 2, 0}},
                                 {1, 4, 4, 4, {5, 5}, {3, 3}, 2, 1, {1, 1, 1, 1}},
                                 {1, 32, 64, 1, {9, 9}, {1, 1}, 2, 1, {0}},
                                 {0, 4, 4, 1, {5, 5}, {3, 3}, 1, 1, {0}},
                                 {1, 20, 130, 1, {13, 12}, {1, 1}, 1, 1, {0}},
                                 {2, 64, 64, 64, {5, 9}, {3, 3}, 1, 1, {1, 1, 1, 1}},
                                 {1, 83, 83, 83, {6, 11}, {3, 3}, 2, 1, {0, 1, 1, 2}},
                                 {1, 24, 24, 24, {7, 7}, {5, 5}, 1, 2, {4, 4, 4, 4}},
                                 {1, 3, 3, 3, {4, 140}, {2, 7}, 1, 1, {0, 3, 0, 3}},
                                 {2, 3, 64, 1, {19, 21}, {7, 7}, 2, 1, {3, 3, 2, 3}},
                                 {1, 70, 80, 1, {40, 41}, {3, 3}, 1, 1, {1, 1, 1, 1}},
                                 {1, 12, 48, 2, {9, 33}, {3, 3}, 1, 1, {1, 1, 1, 1}},
                                 {1, 10, 20, 1, {12, 9}, {3, 2}, 2, 2, {1, 1, 1, 1}},
                                 {2, 3, 17, 1, {12, 12}, {4, 4}, 2, 1, {0}},
                                 {1, 5, 7, 1, {11, 10}, {2, 1}, 2, 1, {1, 0, 1, 0}},
                                 {1, 16, 48, 1, {13, 13}, {1, 1}, 1, 1, {0}},
                                 {2, 32, 32, 32, {5, 10}, {3, 3}, 1, 1, {1, 1, 1, 1}},
                                 {1, 40, 44, 1, {9, 9}, {3, 3}, 2, 1, {1, 1, 1, 1}},
                                 {1, 20, 112, 1, {7, 5}, {1, 1}, 1, 1, {0}},
                                 {1, 8, 8, 8, {6, 16}, {3, 5}, 1, 2, {2, 3, 0, 5}},
                                 {1, 9, 36, 1, {5, 5}, {1, 1}, 1, 1, {0}},
                                 {1, 16, 16, 16, {4, 68}, {3, 3}, 1, 1, {1, 0, 1, 2}}};
  static const shape planes[] = {{2, 3, 64, 1, {19, 21}, {7, 7}, 2, 1, {3, 3, 2, 3}},
                                 {1, 3, 40, 1, {6, 300}, {3, 3}, 2, 1, {1, 1, 0, 0}},
                                 {1, 1, 5, 1, {4, 30}, {2, 3}, 1, 1, {0, -1, 1, 2}},
                                 {2, 4, 130, 1, {8, 12}, {2, 2}, 2, 1, {0}},
                                 {1, 2, 16, 1, {1, 3}, {3, 9}, 1, 1, {1, 6, 1, 6}}};
  static const int64_t steps[][2] = {{1, 1}, {2, 2}};
  enum { ADDED = 1 << 30 }; /* a residual of 8 bits */
  static const uint32_t parts[] = {BIAS, 0, BIAS | RESIDUAL, ADDED, 0};
  enum { FIRST = 2 * OPS_I8_FORMS, BYTES = 4 * OPS_I8_FORMS }; /* variants of ops_case_i8 whose x is of 8 bits */
  const uint32_t first = BYTES * OPS_COUNT(shapes), plane = number < first ? 0 : number - first;
  const shape *s = number < first ? &shapes[number / BYTES] : &planes[plane / OPS_I8_FORMS % OPS_COUNT(planes)];
  if (plane >= OPS_I8_FORMS * OPS_COUNT(planes)) return false;
  const int64_t last[] = {s->batch, s->in[0], s->in[1], s->channels},
                front[] = {s->batch, s->channels, s->in[0], s->in[1]}, *x = number < first ? last : front;
  int64_t y[4] = {s->batch, 0, 0, s->out};
  for (int i = 0; i < 2; i++)
    y[1 + i] = (s->in[i] + s->padding[i] + s->padding[2 + i] - (s->kernel[i] - 1) * s->dilation - 1) / s->stride + 1;
  ops_case_arg(c, ARG_INTS("kernel", s->kernel, 2));
  ops_case_arg(c, ARG_INTS("stride", steps[s->stride - 1], 2));
  ops_case_arg(c, ARG_INTS("padding", s->padding, 4));
  ops_case_arg(c, ARG_INTS("dilation", steps[s->dilation - 1], 2));
  ops_case_arg(c, ARG_INT("groups", s->groups));
  ops_case_arg(c, ARG_INT("channels", s->out));
  if (number >= first) ops_case_arg(c, ARG_BOOL("channels_first", true));
  const kern_i8_window window = {
      s->groups, s->channels / s->groups, s->out / s->groups, {1, s->kernel[0], s->kernel[1]}};
  const uint32_t variant = number < first ? FIRST + number % BYTES : OPS_I8_FORMS + plane % OPS_I8_FORMS;
  const uint32_t part = number < first ? parts[number / BYTES % OPS_COUNT(parts)] : BIAS;
  if (!ops_case_i8(c, &window, 4, x, variant)) return false;
  const bool adds = part == ADDED && c->in[0].dtype != TD_F32; /* results are bytes */
  return (adds ? ops_case_i8_residual(c, 4, y, number % 4 < 2) : true) &&
         ops_case_epilogue(c, adds ? 0 : part & (BIAS | RESIDUAL), number % 3 ? KERN_ACT_relu : KERN_ACT_clamp, adds, 4,
                           y);
}

OPS_DECLARE(conv_i8);
const ir_op ops_conv_i8[] = {
    {.id = OPERATOR(td, conv_i8),
     .min_in = 2,
     .max_in = KERN_CHAIN_END,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN | IR_OP_EPILOGUE,
     .attrs = attrs,
     .attr_count = OPS_COUNT(attrs),
     .by_sample = 1 | RESIDUAL | CHAIN,
     .keeps_samples = keeps_samples,
     .infer = infer,
     .reference = reference,
     .kernel = kernel,
     .flops = ops_flops_conv,
     .rtol = 1e-5f,
     .atol = 1e-5f},
};
OPS_TABLE(conv_i8);
OPS_CASES(conv_i8) = {
    {OP_td_conv_i8, cases},
    {0},
};
