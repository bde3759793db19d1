/* lower_window.c -- convolutions, pools and the normalisations over channels. */
#include "import/aten/aten_priv.h"

#include <string.h>

/* ---- lists of one number per spatial dimension ---- */

typedef struct per_axis {
  int64_t at[3];
} per_axis;

/* Argument i for `spatial` dimensions: one number for all, or as many; an empty list gives `fallback`. */
static per_axis per_axis_of(aten_args *c, uint32_t i, int32_t spatial, int64_t fallback) {
  per_axis p = {{fallback, fallback, fallback}};
  uint32_t count;
  const int64_t *v = aten_get_ints(c, i, &count);
  if (count && count != 1 && count != (uint32_t)spatial) aten_refuse(c, "%u numbers for %d dimensions", count, spatial);
  for (int32_t k = 0; k < spatial && count && !ir_build_failed(c->b); k++) p.at[k] = v[count == 1 ? 0 : k];
  return p;
}
static void both_sides(const per_axis *p, int32_t spatial, int64_t *pads) {
  for (int32_t k = 0; k < spatial; k++) pads[k] = pads[spatial + k] = p->at[k];
}

/* ---- convolution ---- */

typedef struct conv {
  per_axis stride, dilation, output_padding;
  int64_t pads[6], groups;
  bool transposed;
  int32_t spatial;
} conv;

/* x [N, C, ...], or without N. Of no channels PyTorch makes none, whatever the weights say. */
static ir_value convolve(aten_args *c, ir_value x, ir_value w, ir_value bias, const conv *v) {
  if (ir_build_failed(c->b)) return IR_NO_VALUE;
  bool single = aten_rank(c->a, x) == v->spatial + 1;
  if (single) x = aten_unsqueeze(c->a, x, 0);
  uint32_t n = (uint32_t)v->spatial;
  base_arg args[] = {ARG_INTS("stride", v->stride.at, n),     ARG_INTS("padding", v->pads, 2 * n),
                     ARG_INTS("dilation", v->dilation.at, n), ARG_INT("groups", v->groups),
                     ARG_BOOL("transposed", v->transposed),   ARG_INTS("output_padding", v->output_padding.at, n)};
  ir_value y =
      ir_emit(c->b, "aten::convolution", (ir_value[]){x, w, bias}, bias.id ? 3 : 2, args, v->transposed ? 6 : 4);
  const aten_value channels = aten_size(c->a, x, 1);
  if (aten_is_known(&channels) && channels.u.i == 0) y = aten_slice(c->a, y, 1, 0, 0, 1);
  return single ? aten_squeeze(c->a, y, 0) : y;
}
static int32_t spatial_of(aten_args *c) {
  int32_t spatial = aten_rank_in(c, 1) - 2;
  if (spatial < 1 || spatial > 3) aten_refuse(c, "weights of rank %d", spatial + 2);
  return ir_build_failed(c->b) ? 1 : spatial;
}
static ir_value optional(aten_args *c, uint32_t i) { return aten_has(c, i) ? aten_in(c, i) : IR_NO_VALUE; }

/* conv1d, conv2d, conv3d (input, weight, bias?, stride, padding or its name, dilation, groups) */
aten_value aten_lower_conv(aten_args *c) {
  conv v = {.spatial = spatial_of(c)};
  v.stride = per_axis_of(c, 3, v.spatial, 1);
  v.dilation = per_axis_of(c, 5, v.spatial, 1);
  v.groups = aten_get_int(c, 6);
  ir_value w = aten_in(c, 1);
  if (c->args[4].kind == ATEN_STR) {
    const ir_type type = *ir_build_type(c->b, w);
    bool same = strcmp(aten_get_str(c, 4), "same") == 0;
    for (int32_t k = 0; same && k < v.spatial; k++) { /* an odd one goes behind */
      int64_t all = 0;
      if (!base_dim_known(type.dims[2 + k])) aten_refuse(c, "the kernel's size must be known");
      else if (!base_mul_i64(v.dilation.at[k], type.dims[2 + k] - 1, &all)) aten_refuse(c, "a kernel of this size");
      v.pads[k] = all / 2;
      v.pads[v.spatial + k] = all - all / 2;
    }
  } else {
    per_axis p = per_axis_of(c, 4, v.spatial, 0);
    both_sides(&p, v.spatial, v.pads);
  }
  return aten_ret(c, convolve(c, aten_in(c, 0), w, optional(c, 2), &v));
}
/* (input, weight, bias?, stride, padding, output_padding, groups, dilation) */
aten_value aten_lower_conv_transpose(aten_args *c) {
  conv v = {.spatial = spatial_of(c), .transposed = true};
  v.stride = per_axis_of(c, 3, v.spatial, 1);
  per_axis p = per_axis_of(c, 4, v.spatial, 0);
  both_sides(&p, v.spatial, v.pads);
  v.output_padding = per_axis_of(c, 5, v.spatial, 0);
  v.groups = aten_get_int(c, 6);
  v.dilation = per_axis_of(c, 7, v.spatial, 1);
  return aten_ret(c, convolve(c, aten_in(c, 0), aten_in(c, 1), optional(c, 2), &v));
}
/* (input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups, ...) */
aten_value aten_lower_convolution(aten_args *c) {
  conv v = {.spatial = spatial_of(c)};
  v.stride = per_axis_of(c, 3, v.spatial, 1);
  per_axis p = per_axis_of(c, 4, v.spatial, 0);
  both_sides(&p, v.spatial, v.pads);
  v.dilation = per_axis_of(c, 5, v.spatial, 1);
  v.transposed = aten_get_bool(c, 6);
  v.output_padding = per_axis_of(c, 7, v.spatial, 0);
  v.groups = aten_get_int(c, 8);
  return aten_ret(c, convolve(c, aten_in(c, 0), aten_in(c, 1), optional(c, 2), &v));
}

/* ---- pools ---- */

/* x as [N, C, ...] around `op`; PyTorch's pools take it without N too. */
static void pool(aten_args *c, const char *op, ir_value x, int32_t spatial, const base_arg *args, uint32_t count,
                 ir_value *out, uint32_t outs) {
  bool single = aten_rank(c->a, x) == spatial + 1;
  if (single) x = aten_unsqueeze(c->a, x, 0);
  ir_emit_many(c->b, op, &x, 1, args, count, out, outs);
  for (uint32_t i = 0; single && i < outs; i++) out[i] = aten_squeeze(c->a, out[i], 0);
}
static int32_t pool_rank(aten_args *c) { /* "..pool2d.." */
  const char *at = strstr(c->name, "pool");
  return at && at[4] >= '1' && at[4] <= '3' ? at[4] - '0' : 2;
}

/* Positions count within a channel in PyTorch, over the whole tensor in ours. */
static ir_value within_channel(aten_args *c, ir_value x, int32_t n, ir_value positions) {
  aten_value area = aten_int(1);
  for (int32_t i = 0; i < n; i++) area = aten_int_op(c->a, "mul", area, aten_size(c->a, x, -1 - i));
  return aten_binary(c->a, "aten::remainder", positions, aten_number_value(c->a, &area, TD_I64));
}

/* (self, kernel_size, stride, padding, dilation, ceil_mode); data: also the positions. */
aten_value aten_lower_max_pool(aten_args *c) {
  int32_t n = pool_rank(c);
  ir_value x = aten_in(c, 0), out[2];
  per_axis kernel = per_axis_of(c, 1, n, 1), stride = kernel, padding = per_axis_of(c, 3, n, 0),
           dilation = per_axis_of(c, 4, n, 1);
  int64_t pads[6];
  if (aten_list_count(c, 2)) stride = per_axis_of(c, 2, n, 1);
  both_sides(&padding, n, pads);
  base_arg args[] = {ARG_INTS("kernel_size", kernel.at, n), ARG_INTS("stride", stride.at, n),
                     ARG_INTS("padding", pads, 2 * n), ARG_INTS("dilation", dilation.at, n),
                     ARG_BOOL("ceil_mode", aten_get_bool(c, 5))};
  pool(c, "td::max_pool", x, n, args, 5, out, c->row->data ? 2 : 1);
  if (!c->row->data) return aten_ret(c, out[0]);
  out[1] = within_channel(c, x, n, out[1]);
  return aten_ret_many(c, out, 2);
}

/* The sums of windows that may hang over the end: norms of the positive and the negative part. */
static ir_value window_sums(aten_args *c, ir_value x, int32_t n, const base_arg *window) {
  ir_value part[] = {IR_EMIT(c->b, "aten::relu", x), IR_EMIT(c->b, "aten::relu", IR_EMIT(c->b, "aten::neg", x))};
  base_arg args[5];
  memcpy(args, window, 4 * sizeof *args);
  args[4] = ARG_FLOAT("p", 1);
  for (uint32_t i = 0; i < 2; i++) pool(c, "td::lp_pool", part[i], n, args, 5, &part[i], 1);
  return aten_binary(c->a, "aten::sub", part[0], part[1]);
}
/* (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override?); whole numbers are cut off */
aten_value aten_lower_avg_pool(aten_args *c) {
  int32_t n = pool_rank(c);
  ir_value x = aten_in(c, 0), y;
  td_dtype own = aten_value_dtype(c->a, x);
  if (!base_is_float(own)) x = ir_build_cast(c->b, x, TD_F64);
  per_axis kernel = per_axis_of(c, 1, n, 1), stride = kernel, padding = per_axis_of(c, 3, n, 0);
  int64_t pads[6];
  if (aten_list_count(c, 2)) stride = per_axis_of(c, 2, n, 1);
  both_sides(&padding, n, pads);
  bool divisor = c->schema->count > 6 && aten_has(c, 6);
  base_arg args[] = {ARG_INTS("kernel_size", kernel.at, n), ARG_INTS("stride", stride.at, n),
                     ARG_INTS("padding", pads, 2 * n), ARG_BOOL("ceil_mode", aten_get_bool(c, 4)),
                     ARG_BOOL("count_include_pad", divisor || aten_get_bool(c, 5))};
  bool hangs_over = divisor && aten_get_bool(c, 4);
  if (hangs_over) y = window_sums(c, x, n, args);
  else pool(c, "td::avg_pool", x, n, args, 5, &y, 1);
  double area = 1;
  for (int32_t i = 0; i < n && !hangs_over; i++) area *= (double)kernel.at[i];
  if (divisor) y = aten_with_scalar(c->a, "aten::mul", y, area / aten_get_float(c, 6));
  return aten_ret(c, base_is_float(own) ? y : ir_build_cast(c->b, IR_EMIT(c->b, "aten::trunc", y), own));
}

enum { MAX_BINS = 4096, MAX_SIZE = 1 << 16 };

/* One axis cut into `bins` ranges [i n / bins, ceil((i + 1) n / bins)): the largest of each, side by side, and where it
 * stood: `both` holds elements and their positions, before and after. */
static void largest_of_bins(aten_args *c, ir_value *both, int64_t dim, int64_t size, int64_t bins) {
  ir_value *parts[] = {aten_alloc(c->a, (size_t)bins * sizeof **parts),
                       aten_alloc(c->a, (size_t)bins * sizeof **parts)};
  for (int64_t i = 0; parts[0] && parts[1] && i < bins; i++) {
    int64_t from = i * size / bins, to = ((i + 1) * size + bins - 1) / bins;
    ir_value part[] = {aten_slice(c->a, both[0], dim, from, to, 1), aten_slice(c->a, both[1], dim, from, to, 1)};
    ir_value at = IR_EMIT_ARGS(c->b, "aten::argmax", part, 1, ARG_INT("dim", dim), ARG_BOOL("keepdim", true));
    parts[0][i] = IR_EMIT_ARGS(c->b, "aten::amax", part, 1, ARG_INTS("dim", &dim, 1), ARG_BOOL("keepdim", true));
    parts[1][i] = IR_EMIT_ARGS(c->b, "aten::gather", ((ir_value[]){part[1], at}), 2, ARG_INT("dim", dim));
  }
  for (uint32_t k = 0; k < 2 && parts[0] && parts[1]; k++) both[k] = aten_cat(c->a, parts[k], (uint32_t)bins, dim);
}
/* The number of each element within its channel, as x is shaped. */
static ir_value numbered(aten_args *c, ir_value x, int32_t n, const per_axis *size) {
  int64_t area;
  if (!base_numel(n, size->at, &area)) aten_refuse(c, "too many elements");
  if (ir_build_failed(c->b)) return x;
  ir_value at = IR_EMIT(c->b, "aten::arange", ir_build_int(c->b, 0), ir_build_int(c->b, area), ir_build_int(c->b, 1));
  return aten_expand(c->a, aten_reshape(c->a, at, size->at, (uint32_t)n), aten_shape(c->a, x));
}
/* Averages as a product with a matrix: one operator whatever the number of bins. */
static ir_value average_bins(aten_args *c, ir_value x, int64_t dim, int64_t size, int64_t bins) {
  float *m = ir_build_alloc(c->b, (size_t)(size * bins) * sizeof *m);
  for (int64_t i = 0; m && i < bins; i++) {
    int64_t from = i * size / bins, to = ((i + 1) * size + bins - 1) / bins;
    for (int64_t k = from; k < to; k++) m[k * bins + i] = 1.0f / (float)(to - from);
  }
  if (!m) return IR_NO_VALUE;
  base_tensor t = base_tensor_of(m, TD_F32, 2, (int64_t[]){size, bins});
  ir_value w = ir_build_cast(c->b, ir_build_constant(c->b, &t), aten_value_dtype(c->a, x));
  return aten_swap(c->a, IR_EMIT(c->b, "aten::matmul", aten_swap(c->a, x, dim, -1), w), dim, -1);
}

/* Where all ranges are alike it is a pool with that kernel. */
static bool regular_pool(aten_args *c, ir_value x, int32_t n, const per_axis *size, const per_axis *out, bool max,
                         ir_value *y) { /* y: of max also the positions */
  per_axis kernel;
  for (int32_t i = 0; i < n; i++) {
    if (out->at[i] < 1 || size->at[i] % out->at[i]) return false;
    kernel.at[i] = size->at[i] / out->at[i];
    if (!kernel.at[i]) return false;
  }
  base_arg args[] = {ARG_INTS("kernel_size", kernel.at, n), ARG_INTS("stride", kernel.at, n)};
  pool(c, max ? "td::max_pool" : "td::avg_pool", x, n, args, 2, y, max ? 2 : 1);
  return true;
}

/* adaptive_avg_poolNd, adaptive_max_poolNd (self, output_size); data "max" */
aten_value aten_lower_adaptive_pool(aten_args *c) {
  int32_t n = pool_rank(c);
  bool max = c->row->data && strcmp(c->row->data, "max") == 0, one = true, known = true, irregular = false;
  ir_value x = aten_in(c, 0), both[2] = {IR_NO_VALUE, IR_NO_VALUE};
  const aten_value *items = aten_items(c, 1);
  uint32_t count = aten_list_count(c, 1);
  per_axis size, out;
  if (count != 1 && count != (uint32_t)n) aten_refuse(c, "%u output sizes for %d dimensions", count, n);
  for (int32_t i = 0; i < n && !ir_build_failed(c->b); i++) {
    aten_value s = aten_size(c->a, x, i - n), o = items[count == 1 ? 0 : i];
    if (o.kind == ATEN_NONE) o = s;
    known = known && aten_is_known(&s);
    if (!aten_is_known(&o)) aten_refuse(c, "the output size must be known before the model runs");
    size.at[i] = s.u.i;
    out.at[i] = o.u.i;
    one = one && o.u.i == 1;
  }
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  if (one) pool(c, max ? "td::max_pool" : "td::avg_pool", x, n, NULL, 0, both, max ? 2 : 1);
  else if (!known) {
    aten_refuse(c, "the input's size must be known before the model runs, unless the output has one element");
    return ATEN_NOTHING;
  } else if (!regular_pool(c, x, n, &size, &out, max, both)) {
    irregular = true;
    both[0] = x;
    if (max) both[1] = numbered(c, x, n, &size);
    for (int32_t i = n; i-- > 0 && !ir_build_failed(c->b);) {
      int64_t dim = aten_rank(c->a, x) - n + i;
      if (out.at[i] > MAX_BINS || out.at[i] < 1 || size.at[i] > MAX_SIZE)
        aten_refuse(c, "%lld output elements of %lld", (long long)out.at[i], (long long)size.at[i]);
      else if (size.at[i] == out.at[i]) continue;
      else if (max) largest_of_bins(c, both, dim, size.at[i], out.at[i]);
      else both[0] = average_bins(c, both[0], dim, size.at[i], out.at[i]);
    }
  }
  if (!max) return aten_ret(c, both[0]);
  if (!irregular) both[1] = within_channel(c, x, n, both[1]);
  return aten_ret_many(c, both, 2);
}

/* ---- normalisation ---- */

static ir_value batch_norm(aten_args *c, ir_value x, uint32_t weight, uint32_t mean, double eps) {
  ir_value in[] = {x, optional(c, weight), optional(c, weight + 1), aten_in(c, mean), aten_in(c, mean + 1)};
  return IR_EMIT_ARGS(c->b, "aten::_native_batch_norm_legit_no_training", in, 5, ARG_FLOAT("eps", eps));
}
/* With the statistics of the batch itself: `means` and `variances` of its channels. */
static ir_value batch_norm_itself(aten_args *c, ir_value x, double eps, ir_value *means, ir_value *variances) {
  int64_t dims[BASE_MAX_RANK];
  uint32_t n = 0;
  int32_t rank = aten_rank(c->a, x);
  for (int32_t i = 0; i < rank; i++)
    if (i != 1) dims[n++] = i;
  ir_value mean = IR_EMIT_ARGS(c->b, "aten::mean", &x, 1, ARG_INTS("dim", dims, n), ARG_BOOL("keepdim", true));
  ir_value away = aten_binary(c->a, "aten::sub", x, mean), square = aten_binary(c->a, "aten::mul", away, away);
  ir_value var = IR_EMIT_ARGS(c->b, "aten::mean", &square, 1, ARG_INTS("dim", dims, n), ARG_BOOL("keepdim", false));
  ir_value in[] = {x, optional(c, 1), optional(c, 2), aten_reshape(c->a, mean, (int64_t[]){-1}, 1), var};
  *means = in[3];
  *variances = var;
  return IR_EMIT_ARGS(c->b, "aten::_native_batch_norm_legit_no_training", in, 5, ARG_FLOAT("eps", eps));
}
/* (input, weight?, bias?, mean?, var?, training, momentum, eps, cudnn): with the statistics of the batch where there
 * are no others */
aten_value aten_lower_batch_norm(aten_args *c) {
  ir_value x = aten_in(c, 0);
  double eps = aten_get_float(c, 7);
  bool training = aten_get_bool(c, 5), running = aten_has(c, 3);
  if (training && running) aten_refuse(c, "training changes the running statistics");
  ir_value mean, var;
  return aten_ret(c, running ? batch_norm(c, x, 1, 3, eps) : batch_norm_itself(c, x, eps, &mean, &var));
}
/* (input, weight?, bias?, training, momentum, eps) -> y, and of each channel mean, rstd */
aten_value aten_lower_batch_norm_no_stats(aten_args *c) {
  ir_value mean, var;
  double eps = aten_get_float(c, 5);
  ir_value y = batch_norm_itself(c, aten_in(c, 0), eps, &mean, &var);
  ir_value rstd = IR_EMIT(c->b, "aten::rsqrt", aten_with_scalar(c->a, "aten::add", var, eps));
  return aten_ret_many(c, (ir_value[]){y, mean, rstd}, 3);
}
/* max_unpool2d(self, indices, output_size), max_unpool3d(.., stride, padding): elements back at their positions */
aten_value aten_lower_max_unpool(aten_args *c) {
  ir_value x = aten_in(c, 0), index = aten_in(c, 1), size = aten_ints_value(c, 2);
  int32_t n = strstr(c->name, "3d") ? 3 : 2, rank = aten_rank(c->a, x);
  ir_value lead = aten_slice(c->a, aten_shape(c->a, x), 0, 0, rank - n, 1),
           any = ir_build_ints(c->b, (int64_t[]){-1}, 1);
  ir_value shape = aten_cat(c->a, (ir_value[]){lead, size}, 2, 0), flat = aten_cat(c->a, (ir_value[]){lead, any}, 2, 0);
  ir_value zeros = IR_EMIT(c->b, "aten::view", aten_full(c->a, shape, aten_scalar_like(c->a, x, 0)), flat);
  ir_value in[] = {zeros, IR_EMIT(c->b, "aten::view", index, flat), IR_EMIT(c->b, "aten::view", x, flat)};
  ir_value y = IR_EMIT_ARGS(c->b, "aten::scatter", in, 3, ARG_INT("dim", -1));
  return aten_ret(c, IR_EMIT(c->b, "aten::view", y, shape));
}
/* (input, weight?, bias?, mean, var, momentum, eps) -> y, empty, empty */
aten_value aten_lower_batch_norm_no_training(aten_args *c) {
  ir_value y = batch_norm(c, aten_in(c, 0), 1, 3, aten_get_float(c, 6));
  ir_value none = aten_full(c->a, ir_build_ints(c->b, (int64_t[]){0}, 1), aten_scalar_like(c->a, y, 0));
  return aten_ret_many(c, (ir_value[]){y, none, none}, 3);
}
/* layer_norm(input, normalized_shape, weight?, bias?, eps, ...); data: native_layer_norm, with mean and rstd */
aten_value aten_lower_layer_norm(aten_args *c) {
  ir_value in[] = {aten_in(c, 0), optional(c, 2), optional(c, 3)}, out[3];
  const ir_value wide = in[1].id ? in[1] : in[2].id ? in[2] : in[0]; /* weights of f32 beside fewer bits */
  uint32_t dims = aten_list_count(c, 1);
  if (c->args[1].kind != ATEN_LIST) dims = 1;
  base_arg args[] = {ARG_INT("axis", -(int64_t)dims), ARG_FLOAT("eps", aten_get_float(c, 4)),
                     ARG_DTYPE("stats_dtype", aten_value_dtype(c->a, wide))};
  ir_emit_many(c->b, "aten::native_layer_norm", in, 3, args, c->row->data ? 3 : 2, out, c->row->data ? 3 : 1);
  return c->row->data ? aten_ret_many(c, out, 3) : aten_ret(c, out[0]);
}
/* rms_norm(input, normalized_shape, weight?, eps?) */
aten_value aten_lower_rms_norm(aten_args *c) {
  ir_value x = aten_in(c, 0), in[] = {x, optional(c, 2)};
  td_dtype d = aten_value_dtype(c->a, x);
  double eps = aten_has(c, 3) ? aten_get_float(c, 3)
               : d == TD_F64  ? 0x1p-52
               : d == TD_F32  ? 0x1p-23
               : d == TD_F16  ? 0x1p-10
                              : 0x1p-7;
  base_arg args[] = {ARG_INT("axis", -(int64_t)aten_list_count(c, 1)), ARG_FLOAT("eps", eps)};
  return aten_ret(c, ir_emit(c->b, "aten::rms_norm", in, 2, args, 2));
}
static ir_value group_norm(aten_args *c, ir_value x, ir_value w, ir_value bias, int64_t groups, double eps) {
  return IR_EMIT_ARGS(c->b, "aten::native_group_norm", ((ir_value[]){x, w, bias}), 3, ARG_INT("num_groups", groups),
                      ARG_FLOAT("eps", eps));
}
/* group_norm(input, num_groups, weight?, bias?, eps, ...) */
aten_value aten_lower_group_norm(aten_args *c) {
  return aten_ret(
      c, group_norm(c, aten_in(c, 0), optional(c, 2), optional(c, 3), aten_get_int(c, 1), aten_get_float(c, 4)));
}
/* native_group_norm(input, weight?, bias?, N, C, HxW, group, eps) -> y, mean, rstd (these two are not made) */
aten_value aten_lower_native_group_norm(aten_args *c) {
  ir_value y = group_norm(c, aten_in(c, 0), optional(c, 1), optional(c, 2), aten_get_int(c, 6), aten_get_float(c, 7));
  ir_value x = aten_in(c, 0), stats[3], out[3] = {y};
  const aten_value sizes[] = {aten_size(c->a, x, 0), c->args[6], aten_int(-1)};
  ir_value rows = IR_EMIT(c->b, "aten::view", x, aten_vector(c->a, sizes, 3));
  const base_arg args[] = {ARG_INT("axis", -1), ARG_FLOAT("eps", aten_get_float(c, 7)),
                           ARG_DTYPE("stats_dtype", aten_value_dtype(c->a, x))};
  ir_emit_many(c->b, "aten::native_layer_norm", &rows, 1, args, 3, stats, 3);
  for (uint32_t i = 1; i < 3; i++) out[i] = aten_squeeze(c->a, stats[i], 2);
  return aten_ret_many(c, out, 3);
}
/* instance_norm(input, weight?, bias?, mean?, var?, use_input_stats, momentum, eps, cudnn) */
aten_value aten_lower_instance_norm(aten_args *c) {
  ir_value x = aten_in(c, 0);
  if (!aten_get_bool(c, 5)) return aten_ret(c, batch_norm(c, x, 1, 3, aten_get_float(c, 7)));
  aten_value channels = aten_size(c->a, x, 1);
  if (!aten_is_known(&channels)) aten_refuse(c, "the number of channels must be known");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  return aten_ret(c, group_norm(c, x, optional(c, 1), optional(c, 2), channels.u.i, aten_get_float(c, 7)));
}
