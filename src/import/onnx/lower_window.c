/* lower_window.c -- ONNX's convolutions and pools. auto_pad becomes explicit padding (VALID) or the operator's own
 * attribute (SAME_*), because the sizes it depends on may be open. */
#include "import/onnx/fused_priv.h"

#include <string.h>

/* Arguments of a windowed operator under construction. */
typedef struct window_args {
  base_arg at[12];
  uint32_t count;
} window_args;

static void add(window_args *args, base_arg arg) { args->at[args->count++] = arg; }

/* A list attribute under our name; left out when the model does. */
static void add_ints(onnx_node *n, window_args *args, const char *theirs, const char *ours) {
  uint32_t count;
  const int64_t *ints = onnx_attr_ints(n, theirs, &count);
  if (count) add(args, ARG_INTS(ours, ints, count));
}

static void add_padding(onnx_node *n, window_args *args) {
  const char *mode = onnx_attr_str(n, "auto_pad", "NOTSET");
  if (strcmp(mode, "SAME_UPPER") == 0) add(args, ARG_STR("auto_pad", "same_upper"));
  else if (strcmp(mode, "SAME_LOWER") == 0) add(args, ARG_STR("auto_pad", "same_lower"));
  else if (strcmp(mode, "NOTSET") == 0 || !*mode) add_ints(n, args, "pads", "padding");
  else if (strcmp(mode, "VALID") != 0) onnx_fail(n, TD_BAD_FILE, "auto_pad is \"%s\"", mode);
}

static window_args window_of(onnx_node *n) {
  window_args args = {.count = 0};
  add_ints(n, &args, "strides", "stride");
  add_ints(n, &args, "dilations", "dilation");
  add_padding(n, &args);
  return args;
}

/* kernel_shape only repeats what the weights say. */
static void check_kernel(onnx_node *n, ir_value weights) {
  uint32_t count;
  const int64_t *kernel = onnx_attr_ints(n, "kernel_shape", &count);
  const ir_type *w = onnx_type(n, weights);
  if (!count || w->rank == IR_UNRANKED) return;
  if (w->rank != (int32_t)count + 2) {
    onnx_fail(n, TD_BAD_FILE, "kernel_shape has %u sizes but the weights have rank %d", count, w->rank);
    return;
  }
  for (uint32_t i = 0; i < count; i++)
    if (base_dim_known(w->dims[2 + i]) && w->dims[2 + i] != kernel[i])
      onnx_fail(n, TD_BAD_FILE, "kernel_shape says %lld where the weights have %lld", (long long)kernel[i],
                (long long)w->dims[2 + i]);
}

static window_args conv_args(onnx_node *n, ir_value weights) {
  check_kernel(n, weights);
  window_args args = window_of(n);
  add(&args, ARG_INT("groups", onnx_attr_int(n, "group", 1)));
  return args;
}

static ir_value convolve(onnx_node *n, ir_value x, ir_value w) {
  window_args args = conv_args(n, w);
  ir_value in[] = {x, w, onnx_in(n, 2)};
  return onnx_emit(n, "aten::convolution", in, onnx_has(n, 2) ? 3 : 2, args.at, args.count);
}

static void lower_conv(onnx_node *n) { onnx_out(n, 0, convolve(n, onnx_in(n, 0), onnx_in(n, 1))); }

/* A fourth input is added before the activation. */
static void lower_fused_conv(onnx_node *n) {
  uint32_t count;
  const double *params = onnx_attr_floats(n, "activation_params", &count);
  ir_value y = convolve(n, onnx_in(n, 0), onnx_in(n, 1));
  if (onnx_has(n, 3)) y = ONNX_EMIT(n, "aten::add", y, onnx_in(n, 3));
  onnx_out(n, 0, onnx_activate(n, y, params, count));
}

/* Weights with channels last as others have them: constant ones, which kernels pack, in memory of their own. */
static ir_value weights_second(onnx_node *n, ir_value w) {
  static const int32_t order[] = {0, 3, 1, 2};
  const base_tensor *t = onnx_constant_of(n, w);
  if (!t || t->rank != 4) return onnx_channels_second(n, w);
  base_tensor moved = *t;
  for (int32_t i = 0; i < 4; i++) {
    moved.dims[i] = t->dims[order[i]];
    moved.strides[i] = t->strides[order[i]];
  }
  void *to = onnx_alloc(n, base_tensor_bytes(t) + 1);
  if (!to) return w;
  base_tensor_pack(to, &moved);
  moved = base_tensor_of(to, t->dtype, 4, moved.dims);
  return onnx_constant(n, &moved);
}

/* Image [N, H, W, C] and weights [M, H, W, C / groups]. */
static void lower_nhwc_conv(onnx_node *n) {
  ir_value y = convolve(n, onnx_channels_second(n, onnx_in(n, 0)), weights_second(n, onnx_in(n, 1)));
  if (onnx_has(n, 3)) y = ONNX_EMIT(n, "aten::add", y, onnx_channels_second(n, onnx_in(n, 3)));
  onnx_out(n, 0, onnx_channels_last(n, onnx_activate(n, y, NULL, 0)));
}

/* output_shape lists the spatial sizes; some writers put batch and channels in front. */
static void lower_conv_transpose(onnx_node *n) {
  window_args args = conv_args(n, onnx_in(n, 1));
  uint32_t sizes;
  const int64_t *size = onnx_attr_ints(n, "output_shape", &sizes);
  int32_t rank = onnx_rank(n, onnx_in(n, 1));
  if (sizes && (int32_t)sizes == rank) size += 2, sizes -= 2;
  if (sizes) add(&args, ARG_INTS("output_size", size, sizes));
  add_ints(n, &args, "output_padding", "output_padding");
  add(&args, ARG_BOOL("transposed", true));
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)};
  onnx_out(n, 0, onnx_emit(n, "aten::convolution", in, onnx_has(n, 2) ? 3 : 2, args.at, args.count));
}

static void lower_deform_conv(onnx_node *n) {
  window_args args = conv_args(n, onnx_in(n, 1));
  add(&args, ARG_INT("offset_groups", onnx_attr_int(n, "offset_group", 1)));
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2), onnx_in(n, 3), onnx_in(n, 4)};
  onnx_out(n, 0, onnx_emit(n, "td::deform_conv", in, onnx_has(n, 4) ? 5 : onnx_has(n, 3) ? 4 : 3, args.at, args.count));
}

static void lower_conv_integer(onnx_node *n) {
  window_args args = conv_args(n, onnx_in(n, 1));
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2), onnx_in(n, 3)};
  onnx_out(n, 0, onnx_emit(n, "td::conv_integer", in, 4, args.at, args.count));
}

/* x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias. */
static void lower_qlinear_conv(onnx_node *n) {
  window_args args = conv_args(n, onnx_in(n, 3));
  ir_value in[9];
  for (uint32_t i = 0; i < 9; i++) in[i] = onnx_in(n, i);
  onnx_out(n, 0, onnx_emit(n, "td::qlinear_conv", in, onnx_has(n, 8) ? 9 : 8, args.at, args.count));
}

/* ---- pools ---- */

static window_args pool_args(onnx_node *n) {
  window_args args = window_of(n);
  uint32_t count;
  onnx_attr_ints(n, "kernel_shape", &count);
  if (!count) onnx_fail(n, TD_BAD_FILE, "kernel_shape is missing");
  add_ints(n, &args, "kernel_shape", "kernel_size");
  if (onnx_attr_has(n, "ceil_mode")) add(&args, ARG_BOOL("ceil_mode", onnx_attr_int(n, "ceil_mode", 0) != 0));
  return args;
}

static void lower_max_pool(onnx_node *n) {
  window_args args = pool_args(n);
  add(&args, ARG_BOOL("column_major_indices", onnx_attr_int(n, "storage_order", 0) != 0));
  ir_value in = onnx_in(n, 0), out[2];
  uint32_t outs = onnx_wants(n, 1) ? 2 : 1;
  onnx_emit_many(n, "td::max_pool", &in, 1, args.at, args.count, out, outs);
  for (uint32_t i = 0; i < outs; i++) onnx_out(n, i, out[i]);
}

static ir_value average(onnx_node *n, ir_value x) {
  window_args args = pool_args(n);
  add(&args, ARG_BOOL("count_include_pad", onnx_attr_int(n, "count_include_pad", 0) != 0));
  return onnx_emit(n, "td::avg_pool", &x, 1, args.at, args.count);
}

static void lower_average_pool(onnx_node *n) { onnx_out(n, 0, average(n, onnx_in(n, 0))); }

static void lower_lp_pool(onnx_node *n) {
  window_args args = pool_args(n);
  add(&args, ARG_FLOAT("p", (double)onnx_attr_int(n, "p", 2)));
  ir_value in = onnx_in(n, 0);
  onnx_out(n, 0, onnx_emit(n, "td::lp_pool", &in, 1, args.at, args.count));
}

static void lower_max_unpool(onnx_node *n) {
  window_args args = pool_args(n);
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)};
  onnx_out(n, 0, onnx_emit(n, "td::max_unpool", in, onnx_has(n, 2) ? 3 : 2, args.at, args.count));
}

/* Pools have kernels over images; over one axis a reduction is faster. */
static void global(onnx_node *n, const char *pool, const char *reduction) {
  static const int64_t axis = 2;
  ir_value x = onnx_in(n, 0);
  bool line = onnx_rank(n, x) == 3;
  onnx_out(n, 0,
           line ? ONNX_EMIT_ARGS(n, reduction, &x, 1, ARG_INTS("dim", &axis, 1), ARG_BOOL("keepdim", true))
                : ONNX_EMIT(n, pool, x));
}
static void lower_global_max(onnx_node *n) { global(n, "td::max_pool", "aten::amax"); }
static void lower_global_average(onnx_node *n) { global(n, "td::avg_pool", "aten::mean"); }
static void lower_global_lp(onnx_node *n) {
  ir_value in = onnx_in(n, 0);
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "td::lp_pool", &in, 1, ARG_FLOAT("p", (double)onnx_attr_int(n, "p", 2))));
}

/* x, x_scale, x_zero, y_scale, y_zero: the mean is taken in float. */
static void quantised_pool(onnx_node *n, bool global) {
  bool last = onnx_attr_int(n, "channels_last", 0);
  ir_value x = onnx_dequantise(n, onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2));
  if (last) x = onnx_channels_second(n, x);
  ir_value y = global ? ONNX_EMIT(n, "td::avg_pool", x) : average(n, x);
  if (last) y = onnx_channels_last(n, y);
  onnx_out(n, 0, onnx_quantise(n, y, onnx_in(n, 3), onnx_in(n, 4), onnx_type_dtype(n, onnx_in(n, 0))));
}
static void lower_qlinear_pool(onnx_node *n) { quantised_pool(n, false); }
static void lower_qlinear_global_pool(onnx_node *n) { quantised_pool(n, true); }

static void lower_nhwc_max_pool(onnx_node *n) {
  window_args args = pool_args(n);
  ir_value in = onnx_channels_second(n, onnx_in(n, 0));
  onnx_out(n, 0, onnx_channels_last(n, onnx_emit(n, "td::max_pool", &in, 1, args.at, args.count)));
}

ONNX_DECLARE(window);
const onnx_lowering onnx_lower_window[] = {
    {"", "Conv", 1, lower_conv},
    {"", "ConvTranspose", 1, lower_conv_transpose},
    {"", "DeformConv", 19, lower_deform_conv},
    {"", "ConvInteger", 10, lower_conv_integer},
    {"", "QLinearConv", 10, lower_qlinear_conv},
    {"", "MaxPool", 1, lower_max_pool},
    {"", "AveragePool", 1, lower_average_pool},
    {"", "LpPool", 1, lower_lp_pool},
    {"", "MaxUnpool", 9, lower_max_unpool},
    {"", "GlobalMaxPool", 1, lower_global_max},
    {"", "GlobalAveragePool", 1, lower_global_average},
    {"", "GlobalLpPool", 1, lower_global_lp},
    {"com.microsoft", "FusedConv", 1, lower_fused_conv},
    {"com.microsoft", "NhwcFusedConv", 1, lower_nhwc_conv},
    {"com.microsoft", "NhwcConv", 1, lower_nhwc_conv},
    {"com.microsoft", "NhwcMaxPool", 1, lower_nhwc_max_pool},
    {"com.microsoft", "QLinearAveragePool", 1, lower_qlinear_pool},
    {"com.microsoft", "QLinearGlobalAveragePool", 1, lower_qlinear_global_pool},
};
ONNX_TABLE(window);
