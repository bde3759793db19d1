/* depthwise.c -- td::depthwise_conv: convolution of images that stand channels last where every channel meets a kernel
 * of its own (groups = channels in = channels out), f32, with an epilogue; x and the result may be bf16. Operands and
 * attributes: kernels/products/conv.h. Weights: [channels, 1, kernel...] (panel 0), or [taps, channels] (panel 1),
 * which is what kern_pack_conv makes of them as one group and one panel of all channels. */
#include "kernels/kernels.h"
#include "kernels/products/products.h"
#include "ops/common/conv_priv.h"

static const ir_attr depthwise_attrs[] = {KERN_CONV_LIST(OPS_ATTR_ROW) KERN_EPILOGUE_LIST(OPS_ATTR_ROW)};

/* ---- shapes ---- */

static td_status infer_depthwise_conv(ir_infer *ctx) {
  const ir_info *residual = ir_in(ctx, KERN_IN_RESIDUAL);
  if (residual && residual->type.dtype != TD_F32) return ir_infer_fail(ctx, "the residual must be f32");
  TRY(ops_infer_conv(ctx, NULL, true));
  const base_attrs *a = ctx->attrs;
  const ir_type *x = &ir_in(ctx, 0)->type, *w = &ir_in(ctx, 1)->type;
  int64_t channels = base_attr_int(a, KERN_CONV_CHANNELS), panel = base_attr_int(a, KERN_CONV_PANEL), taps = 1;
  if (base_attr_int(a, KERN_CONV_CHANNELS_FIRST) || panel > 1)
    return ir_infer_fail(ctx, "channels stand last, and panel is 0 or 1");
  if (base_attr_int(a, KERN_CONV_GROUPS) != base_max_i64(channels, 1) ||
      (x->rank != IR_UNRANKED && ops_dims_differ(x->dims[x->rank - 1], channels)))
    return ir_infer_fail(ctx, "groups, channels in and channels out are not equal");
  if (w->rank == IR_UNRANKED) return TD_OK;
  uint32_t spatial;
  const int64_t *kernel = base_attr_ints(a, KERN_CONV_KERNEL, &spatial);
  bool fits = w->rank == (panel ? 2 : (int32_t)spatial + 2) && !ops_dims_differ(w->dims[panel ? 1 : 0], channels);
  for (uint32_t i = 0; fits && i < spatial; i++)
    fits = base_mul_i64(taps, kernel[i], &taps) && (panel || !ops_dims_differ(w->dims[2 + i], kernel[i]));
  fits = fits && !ops_dims_differ(w->dims[panel ? 0 : 1], panel ? taps : 1);
  return fits ? TD_OK : ir_infer_fail(ctx, "the weights do not fit");
}

/* ---- run ---- */

const float *ops_plain_taps(const base_call *call, int64_t taps, int64_t channels, const base_f32 *w) {
  float *plain = base_call_scratch(call, (size_t)channels, (size_t)taps * sizeof *plain);
  for (int64_t channel = 0; plain && channel < channels; channel++)
    for (int64_t tap = 0; tap < taps; tap++) plain[channel * taps + tap] = w[tap * channels + channel];
  return plain;
}

static td_status depthwise_conv_reference(const base_call *call) {
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  kern_conv c;
  TRY(kern_conv_sizes(call, &c));
  const base_f32 *w = ops_dense_f32(call, 1);
  if (!w) return base_no_memory(call->err, "scratch");
  if (!c.panel) return ops_run_conv(call, &c, false, w);
  const float *plain = ops_plain_taps(call, c.taps, c.groups, w);
  return plain ? ops_run_conv(call, &c, false, plain) : base_no_memory(call->err, "scratch");
}

static const kern_row *depthwise_conv_kernel(const ir_kernel_query *query) {
  const bool narrow = kern_result_type(query->attrs) == TD_BF16, bf16 = narrow || query->in[0]->type.dtype == TD_BF16;
  if (base_attr_int(query->attrs, KERN_CONV_PANEL) != 1) return NULL;
  if (bf16 &&
      (!kern_depthwise_takes_bf16(query->attrs) || (narrow && base_attr_int(query->attrs, KERN_CONV_CHANNELS) % 2)))
    return NULL;
  return kern_select(KERN_DEPTHWISE, bf16 ? TD_BF16 : TD_F32, query->isa);
}

/* ---- test cases ---- */

typedef struct depthwise_case {
  int32_t spatial;
  int64_t batch, channels;
  int64_t in[3], kernel[3], stride[3], dilation[3], padding[6];
  uint32_t parts; /* of the epilogue: BIAS, ... */
  kern_act act;
  bool late;
} depthwise_case;

#define PLANE(h, w, k, s) .in = {(h), (w)}, .kernel = {(k), (k)}, .stride = {(s), (s)}, .dilation = {1, 1}
#define PAD(n) .padding = {(n), (n), (n), (n)}

static const depthwise_case table[] = {
    /* as in networks: 3x3, 5x5, 7x7; widths of full, short and overlapping strips */
    {2, 1, 32, PLANE(9, 14, 3, 1), PAD(1), .parts = BIAS, .act = KERN_ACT_clamp},
    {2, 1, 33, PLANE(5, 16, 3, 1), PAD(1), .parts = BIAS, .act = KERN_ACT_relu},
    {2, 2, 96, PLANE(8, 16, 3, 2), .padding = {0, 0, 1, 1}, .parts = BIAS, .act = KERN_ACT_silu},
    {2, 1, 72, PLANE(7, 15, 3, 2), PAD(1), .parts = BIAS, .act = KERN_ACT_hardswish},
    {2, 1, 48, PLANE(7, 7, 5, 1), PAD(2), .parts = BIAS, .act = KERN_ACT_silu},
    {2, 2, 17, PLANE(6, 9, 5, 2), PAD(2), .parts = BIAS},
    {2, 1, 70, PLANE(7, 7, 7, 1), PAD(3), .parts = BIAS},
    {2, 1, 200, PLANE(4, 10, 7, 1), PAD(3)},
    {2, 1, 40, PLANE(5, 28, 5, 1), PAD(2), .parts = BIAS, .act = KERN_ACT_relu},
    {2, 1, 24, PLANE(5, 17, 7, 1), .padding = {3, 2, 0, 3}, .parts = BIAS},
    {2, 1, 144, PLANE(3, 2, 3, 1), PAD(1), .parts = BIAS | RESIDUAL | SCALE | SHIFT, .act = KERN_ACT_relu,
     .late = true},
    {2, 1, 20, PLANE(4, 4, 3, 1), PAD(1), .parts = BIAS | RESIDUAL, .act = KERN_ACT_gelu},
    {2, 1, 16, PLANE(1, 1, 5, 1), PAD(2), .parts = SCALE | SHIFT, .act = KERN_ACT_tanh},
    /* pixels of so large a pitch that they are copied; widths that no strip fits */
    {2, 2, 512, PLANE(6, 19, 3, 1), PAD(1), .parts = BIAS | SCALE | SHIFT, .act = KERN_ACT_relu},
    {2, 1, 1024, PLANE(5, 9, 5, 2), .padding = {2, 1, 3, 2}, .parts = BIAS | RESIDUAL | SCALE, .act = KERN_ACT_clamp},
    {2, 1, 512, .in = {9, 7}, .kernel = {3, 4}, .stride = {2, 1}, .dilation = {2, 3}, .padding = {3, 5, 1, 4},
     .parts = BIAS | SHIFT, .act = KERN_ACT_relu, .late = true},
    {2, 1, 1536, PLANE(4, 3, 3, 1), .padding = {-1, 4, 2, -1}, .parts = SCALE},
    /* lines of bf16 of which a ring has fewer than a task's rows see; without padding, the last one of a window skipped
     */
    {2, 1, 48, .in = {26, 340}, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, PAD(1), .parts = BIAS,
     .act = KERN_ACT_silu},
    {2, 1, 34, .in = {40, 300}, .kernel = {2, 3}, .stride = {3, 1}, .dilation = {1, 1}, .parts = BIAS | SCALE},
    /* only padding under some windows; negative padding; none */
    {2, 1, 16, PLANE(2, 3, 3, 1), PAD(5), .parts = BIAS},
    {2, 1, 24, PLANE(4, 15, 3, 1), PAD(2), .parts = BIAS},
    {2, 1, 24, PLANE(9, 12, 3, 2), .padding = {-1, -2, 0, -1}, .parts = BIAS, .act = KERN_ACT_leaky_relu},
    {2, 1, 40, PLANE(8, 11, 3, 1), .parts = BIAS, .act = KERN_ACT_relu},
    /* general strips: dilated, long, large and strided windows, narrower than a vector, volumes */
    {2, 1, 40, .in = {9, 23}, .kernel = {5, 5}, .stride = {1, 1}, .dilation = {2, 2}, PAD(4), .parts = BIAS,
     .act = KERN_ACT_hardswish},
    {2, 1, 12, .in = {6, 20}, .kernel = {1, 11}, .stride = {1, 1}, .dilation = {1, 1}, .padding = {0, 5, 0, 5},
     .parts = BIAS},
    {2, 2, 24, .in = {20, 9}, .kernel = {11, 1}, .stride = {1, 1}, .dilation = {1, 1}, .padding = {5, 0, 5, 0},
     .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu},
    {2, 1, 21, PLANE(17, 18, 9, 2), PAD(4), .parts = BIAS, .act = KERN_ACT_silu},
    {2, 1, 65, PLANE(7, 7, 11, 1), PAD(5), .parts = BIAS},
    {2, 1, 33, PLANE(30, 30, 31, 1), PAD(15)},
    {3, 2, 18, .in = {4, 5, 9}, .kernel = {3, 3, 3}, .stride = {1, 1, 1}, .dilation = {1, 1, 1},
     .padding = {1, 1, 1, 1, 1, 1}, .parts = BIAS, .act = KERN_ACT_relu},
    {3, 1, 34, .in = {5, 7, 8}, .kernel = {5, 3, 2}, .stride = {2, 2, 1}, .dilation = {1, 2, 3},
     .padding = {2, 1, 3, 2, 2, 0}, .parts = BIAS},
    /* rows of taps that are cut into shorter ones; volumes by strips made for the window, or for a pixel of each plane
     */
    {2, 1, 33, PLANE(11, 23, 9, 1), PAD(4), .parts = BIAS | SCALE, .act = KERN_ACT_relu},
    {2, 2, 19, .in = {6, 40}, .kernel = {2, 25}, .stride = {2, 1}, .dilation = {2, 1}, .padding = {1, 9, 2, 14},
     .parts = BIAS},
    {2, 1, 20, .in = {3, 35}, .kernel = {3, 21}, .stride = {1, 1}, .dilation = {1, 1}, .padding = {2, -1, 1, 3}},
    {3, 2, 20, .in = {4, 6, 31}, .kernel = {3, 3, 3}, .stride = {1, 1, 1}, .dilation = {1, 1, 1},
     .padding = {1, 1, 1, 1, 1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_silu},
    {3, 1, 35, .in = {5, 7, 19}, .kernel = {2, 5, 5}, .stride = {1, 2, 2}, .dilation = {2, 1, 1},
     .padding = {0, 2, 2, 2, 2, 2}, .parts = BIAS, .act = KERN_ACT_clamp},
    {3, 1, 18, .in = {3, 5, 33}, .kernel = {2, 3, 9}, .stride = {1, 1, 1}, .dilation = {1, 1, 1},
     .padding = {0, 1, 4, 1, 1, 4}},
    {3, 2, 24, .in = {7, 5, 6}, .kernel = {5, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1},
     .padding = {2, 0, 0, 2, 0, 0}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu},
    {3, 1, 9, .in = {6, 3, 4}, .kernel = {3, 1, 1}, .stride = {2, 1, 1}, .dilation = {1, 1, 1},
     .padding = {1, 0, 0, 1, 0, 0}, .parts = BIAS},
    /* long windows of signals, also where each strip has taps outside, or some have nothing else */
    {1, 1, 9, .in = {50}, .kernel = {35}, .stride = {2}, .dilation = {1}, .padding = {17, 17}, .parts = BIAS},
    {1, 2, 70, .in = {90}, .kernel = {33}, .stride = {1}, .dilation = {1}, .padding = {16, 16}, .act = KERN_ACT_relu},
    {1, 1, 40, .in = {61}, .kernel = {87}, .stride = {1}, .dilation = {2}, .padding = {86, 86}, .parts = BIAS},
    {1, 1, 21, .in = {9}, .kernel = {51}, .stride = {3}, .dilation = {1}, .padding = {60, 40}, .parts = BIAS},
    {2, 1, 16, .in = {5, 80}, .kernel = {3, 64}, .stride = {1, 1}, .dilation = {1, 1}, .padding = {1, 32, 1, 32}},
    /* pixel by pixel: too many rows or taps */
    {2, 1, 20, .in = {45, 3}, .kernel = {40, 1}, .stride = {1, 1}, .dilation = {1, 1}, .padding = {3, 0, 5, 0},
     .parts = BIAS},
    {1, 1, 9, .in = {70}, .kernel = {260}, .stride = {2}, .dilation = {1}, .padding = {120, 130}, .parts = BIAS},
    /* few channels, other kernels, strides and dilations, 1 and 3 dims */
    {2, 2, 3, PLANE(6, 7, 3, 1), PAD(1), .parts = BIAS, .act = KERN_ACT_relu},
    {2, 1, 1, PLANE(5, 5, 3, 2), PAD(1)},
    {2, 1, 37, .in = {9, 8}, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {2, 2}, PAD(2), .parts = BIAS,
     .act = KERN_ACT_silu},
    {2, 1, 80, .in = {10, 9}, .kernel = {3, 2}, .stride = {3, 2}, .dilation = {2, 3}, .padding = {2, 0, 1, 4}},
    {2, 1, 19, .in = {9, 10}, .kernel = {2, 3}, .stride = {2, 1}, .dilation = {3, 1}, PAD(1), .parts = BIAS},
    {2, 1, 18, .in = {7, 9}, .kernel = {4, 5}, .stride = {3, 2}, .dilation = {1, 1}, .parts = BIAS,
     .act = KERN_ACT_sigmoid},
    {2, 1, 64, .in = {8, 8}, .kernel = {9, 9}, .stride = {1, 1}, .dilation = {1, 1}, PAD(4), .parts = BIAS},
    {1, 2, 34, .in = {21}, .kernel = {5}, .stride = {1}, .dilation = {1}, .padding = {2, 2}, .parts = BIAS,
     .act = KERN_ACT_gelu},
    {1, 1, 6, .in = {9}, .kernel = {4}, .stride = {2}, .dilation = {2}, .padding = {3, 1}},
    {3, 1, 21, .in = {3, 4, 5}, .kernel = {2, 3, 3}, .stride = {1, 2, 1}, .dilation = {1, 1, 1},
     .padding = {1, 1, 1, 0, 1, 1}, .parts = BIAS, .act = KERN_ACT_relu},
    /* neighbouring pixels in a vector */
    {2, 2, 8, .in = {6, 18}, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, PAD(1), .parts = BIAS,
     .act = KERN_ACT_hardswish},
    {2, 1, 8, .in = {9, 40}, .kernel = {5, 5}, .stride = {2, 1}, .dilation = {1, 1}, PAD(2), .parts = SCALE | SHIFT,
     .act = KERN_ACT_relu},
    {2, 2, 4, .in = {9, 32}, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {2, 3}, .padding = {2, 3, 2, 3}},
    {2, 1, 2, .in = {5, 16}, .kernel = {3, 7}, .stride = {1, 1}, .dilation = {1, 1}, .padding = {1, 3, 1, 3},
     .parts = BIAS | RESIDUAL},
    {1, 1, 4, .in = {61}, .kernel = {31}, .stride = {1}, .dilation = {1}, .padding = {33, 0}, .parts = BIAS},
    /* nothing */
    {2, 0, 16, PLANE(4, 4, 3, 1), PAD(1), .parts = BIAS},
    {2, 2, 33, PLANE(8, 17, 3, 1), PAD(1), .parts = BIAS | CHAIN, .act = KERN_ACT_relu},
    {2, 2, 21, PLANE(17, 18, 9, 2), PAD(4), .parts = BIAS | RESIDUAL | CHAIN},
    {2, 1, 16, PLANE(0, 3, 1, 1), PAD(1), .parts = BIAS},
    {2, 1, 0, PLANE(4, 4, 3, 1), PAD(1)},
};

static bool add_weights(ir_case *c, const depthwise_case *s, bool packed, uint64_t seed) {
  int64_t dims[5] = {s->channels, 1, s->kernel[0], s->kernel[1], s->kernel[2]}, taps = 1;
  for (int32_t i = 0; i < s->spatial; i++) taps *= s->kernel[i];
  if (!ops_case_in(c, TD_F32, s->spatial + 2, dims, OPS_NORMAL, seed)) return false;
  if (!packed) return true;
  float *to = base_new(c->arena, float, (size_t)(taps * s->channels) + 1);
  if (!to) return false;
  if (s->channels) kern_pack_conv(&c->in[1], NULL, false, 1, s->channels, to);
  c->in[1] = base_tensor_of(to, TD_F32, 2, (int64_t[]){taps, s->channels});
  return true;
}

static bool cases_depthwise_conv(ir_case *c, uint32_t number) {
  enum { BF16_FORMS = 3 }; /* x, the result, both */
  const uint32_t plain = 2 * OPS_COUNT(table), form = number < plain ? 0 : 1 + number % BF16_FORMS;
  if (number >= plain + BF16_FORMS * OPS_COUNT(table)) return false;
  const depthwise_case *s = &table[number < plain ? number / 2 : (number - plain) / BF16_FORMS];
  int32_t n = s->spatial;
  int64_t x[5] = {s->batch}, y[5] = {s->batch};
  for (int32_t i = 0; i < n; i++) {
    x[1 + i] = s->in[i];
    int64_t room = s->in[i] + s->padding[i] + s->padding[n + i] - (s->kernel[i] - 1) * s->dilation[i] - 1;
    y[1 + i] = room / s->stride[i] + 1;
  }
  x[1 + n] = y[1 + n] = s->channels;
  if (!ops_case_in(c, TD_F32, n + 2, x, OPS_NORMAL, number) || !add_weights(c, s, form || number % 2, number + 1))
    return false;
  ops_case_arg(c, ARG_INTS("kernel", s->kernel, n));
  ops_case_arg(c, ARG_INTS("stride", s->stride, n));
  ops_case_arg(c, ARG_INTS("padding", s->padding, 2 * n));
  ops_case_arg(c, ARG_INTS("dilation", s->dilation, n));
  ops_case_arg(c, ARG_INT("groups", base_max_i64(s->channels, 1)));
  ops_case_arg(c, ARG_INT("channels", s->channels));
  ops_case_arg(c, ARG_INT("panel", form || number % 2));
  const uint32_t which = (form & 1 ? BF16_X : 0) | (form & 2 ? BF16_RESULT : 0);
  return ops_case_epilogue(c, s->parts, s->act, s->late, n + 2, y) && ops_case_bf16(c, which, s->parts);
}

OPS_DECLARE(depthwise);
const ir_op ops_depthwise[] = {
    {.id = OPERATOR(td, depthwise_conv),
     .min_in = 2,
     .max_in = KERN_CHAIN_END,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN | IR_OP_EPILOGUE,
     .attrs = depthwise_attrs,
     .attr_count = OPS_COUNT(depthwise_attrs),
     .by_sample = 1 | RESIDUAL | CHAIN,
     .infer = infer_depthwise_conv,
     .reference = depthwise_conv_reference,
     .kernel = depthwise_conv_kernel,
     .flops = ops_flops_conv,
     .rtol = 1e-4f,
     .atol = 1e-4f},
};
OPS_TABLE(depthwise);
OPS_CASES(depthwise) = {
    {OP_td_depthwise_conv, cases_depthwise_conv},
    {0},
};
