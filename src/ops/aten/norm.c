/* norm.c -- normalisations. Statistics are taken in double, two passes (mean, then squared distances). Weights, biases
 * and statistics may have another float type than x; the result has x's.
 *
 *     aten::native_layer_norm                     (x - mean) / sqrt(var + eps) weight + bias over the last axes (ONNX
 *                                                 LayerNormalization 17)
 *     aten::rms_norm                              x / sqrt(mean of x^2 + eps) weight + bias (ONNX RMSNormalization
 *                                                 23)
 *     aten::_native_batch_norm_legit_no_training  (x - mean[c]) / sqrt(var[c] + eps) weight[c] + bias[c] (ONNX
 *                                                 BatchNormalization 15)
 *     aten::native_group_norm                     layer norm over each group of channels (ONNX GroupNormalization 18)
 *     td::lrn                                     x / (bias + alpha / size sum of x^2 of neighbouring channels)^beta
 *                                                 (ONNX LRN 1)
 * Ba et al. 2016; Zhang, Sennrich 2019; Ioffe, Szegedy 2015; Wu, He 2018; Krizhevsky et al. 2012. */
#include "ops/common/kernel_priv.h"
#include "kernels/rows/rows.h"
#include "ops/common/epilogue_priv.h"
#include "ops/common/lower_priv.h"

#include <math.h>

/* `count` elements of a dense array, `step` apart, as double. */
static void load_steps(td_dtype dtype, const void *data, int64_t offset, int64_t step, int64_t count, double *to) {
  if (dtype == TD_F32)
    for (int64_t k = 0; k < count; k++) to[k] = (double)((const base_f32 *)data)[offset + k * step];
  else
    for (int64_t k = 0; k < count; k++) to[k] = base_load_f64(dtype, data, offset + k * step);
}
static void load_row(td_dtype dtype, const void *data, int64_t offset, int64_t count, double *to) {
  load_steps(dtype, data, offset, 1, count, to);
}

static double mean_of(const double *row, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; k++) sum += row[k];
  return sum / (double)count;
}

/* Mean of (x - center)^2. */
static double spread_of(const double *row, int64_t count, double center) {
  double sum = 0;
  for (int64_t k = 0; k < count; k++) sum += (row[k] - center) * (row[k] - center);
  return sum / (double)count;
}

static double element_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)in;
  (void)attrs;
  double count = 5;
  for (int32_t i = 0; i < out->type.rank; i++) count *= (double)out->type.dims[i];
  return count;
}

/* ---- layer norm and rms norm: x, weight?, bias? over the dimensions [axis, rank) ---- */

enum { STATS_DTYPE = KERN_LAYER_NORM_ATTRS };
static const ir_attr layer_attrs[] = {
    KERN_LAYER_NORM_LIST(OPS_ATTR_ROW){.name = "stats_dtype", .kind = BASE_ATTR_DTYPE, .i = TD_F32}};

/* Operand `i` broadcast to dims[axis..] of x as doubles. *row stays NULL when it is absent. */
static td_status layer_param(const base_call *call, uint32_t i, int32_t axis, int64_t count, const double **row) {
  const base_tensor *x = base_in(call, 0), *t = base_in(call, i);
  *row = NULL;
  if (!t) return TD_OK;
  int32_t rank = x->rank - axis, extra = t->rank > rank ? t->rank - rank : 0;
  base_tensor tail = *t;
  for (int32_t d = 0; d < extra; d++)
    if (t->dims[d] != 1) return ops_fail(call, "operand %u varies outside the normalised dimensions", i);
  tail.rank = t->rank - extra;
  for (int32_t d = 0; d < tail.rank; d++) {
    tail.dims[d] = t->dims[d + extra];
    tail.strides[d] = t->strides[d + extra];
    if (tail.dims[d] != 1 && tail.dims[d] != x->dims[x->rank - tail.rank + d]) {
      char text[200], own[200];
      return ops_fail(call, "operand %u, %s, does not broadcast to the normalised dimensions of %s", i,
                      base_tensor_describe(t, own, sizeof own), base_tensor_describe(x, text, sizeof text));
    }
  }
  double *to = base_call_scratch(call, (size_t)count, sizeof *to);
  if (!to) return base_no_memory(call->err, "scratch");
  int64_t strides[BASE_MAX_RANK], k = 0;
  const int64_t *at[] = {strides};
  base_walk w;
  ops_broadcast_strides(&tail, rank, x->dims + axis, strides);
  base_walk_start(&w, rank, x->dims + axis, 1, at);
  if (w.count) do
      to[k++] = base_load_f64(t->dtype, t->data, w.offset[0]);
    while (base_walk_next(&w));
  *row = to;
  return TD_OK;
}

/* Statistics of no elements. */
static void fill_nan(const base_tensor *t) {
  for (int64_t k = 0; t && k < base_tensor_numel(t); k++) base_store_f64(t->dtype, t->data, k, (double)NAN);
}

/* Outputs: y, then (layer) mean and 1/deviation, or (rms) 1/root mean square. */
static td_status normalise_rows(const base_call *call, bool centered) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0), *mean = centered ? base_out(call, 1) : NULL,
                    *scale = base_out(call, centered ? 2 : 1);
  int64_t axis = base_attr_int(call->attrs, KERN_LAYER_NORM_AXIS), outer = 1, count = 1;
  double eps = base_attr_float(call->attrs, KERN_LAYER_NORM_EPS);
  if (axis < 0) axis += x->rank;
  if (base_tensor_numel(x) == 0) {
    fill_nan(mean);
    fill_nan(scale);
    return TD_OK;
  }
  for (int32_t i = 0; i < x->rank; i++) *(i < axis ? &outer : &count) *= x->dims[i];
  const void *data = ops_dense(call, 0);
  double *row = base_call_scratch(call, (size_t)count, sizeof *row);
  const double *weight, *bias;
  if (!data || !row) return base_no_memory(call->err, "scratch");
  TRY(layer_param(call, 1, (int32_t)axis, count, &weight));
  TRY(layer_param(call, 2, (int32_t)axis, count, &bias));
  for (int64_t r = 0; r < outer; r++) {
    load_row(x->dtype, data, r * count, count, row);
    double center = centered ? mean_of(row, count) : 0, inverse = 1 / sqrt(spread_of(row, count, center) + eps);
    for (int64_t k = 0; k < count; k++) row[k] = (row[k] - center) * inverse;
    for (int64_t k = 0; weight && k < count; k++) row[k] *= weight[k];
    for (int64_t k = 0; bias && k < count; k++) row[k] += bias[k];
    if (y) ops_row_put_f64(y, r * count, 1, count, row);
    if (mean) base_store_f64(mean->dtype, mean->data, r, center);
    if (scale) base_store_f64(scale->dtype, scale->data, r, inverse);
  }
  return TD_OK;
}
static td_status layer_norm_reference(const base_call *call) { return normalise_rows(call, true); }
static td_status rms_norm_reference(const base_call *call) { return normalise_rows(call, false); }

static td_status infer_layer_norm(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  td_dtype stats = (td_dtype)base_attr_int(ctx->attrs, STATS_DTYPE);
  int32_t axis;
  base_dim dims[BASE_MAX_RANK];
  if (!base_is_float(x->dtype))
    return ir_infer_fail(ctx, "operand of %s; a floating-point type is needed", td_dtype_name(x->dtype));
  TRY(ops_infer_same(ctx));
  if (x->rank == IR_UNRANKED) {
    for (uint32_t i = 1; i < ctx->out_count; i++) TRY(ir_out_unranked(ctx, i, stats));
    return TD_OK;
  }
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, KERN_LAYER_NORM_AXIS), x->rank, &axis));
  for (int32_t i = 0; i < x->rank; i++) dims[i] = i < axis ? x->dims[i] : 1;
  for (uint32_t i = 1; i < ctx->out_count; i++) TRY(ir_out(ctx, i, stats, x->rank, dims));
  return TD_OK;
}

static bool layer_keeps_samples(const ir_samples_query *query) {
  return !ops_is_first_dim(base_attr_int(query->attrs, KERN_LAYER_NORM_AXIS), query->rank);
}

/* Operand `i`, if it is there, has the dimensions [axis, rank) of x. */
static bool has_tail(const ir_kernel_query *query, uint32_t i) {
  if (i >= query->in_count || !query->in[i]) return true;
  const ir_type *x = &query->in[0]->type, *t = &query->in[i]->type;
  int64_t axis = base_attr_int(query->attrs, KERN_LAYER_NORM_AXIS);
  if (axis < 0) axis += x->rank;
  if (x->rank == IR_UNRANKED || t->rank != x->rank - axis) return false;
  for (int32_t d = 0; d < t->rank; d++)
    if (t->dims[d] != x->dims[axis + d]) return false;
  return true;
}
static const kern_row *layer_norm_kernel(const ir_kernel_query *query) {
  return has_tail(query, 1) && has_tail(query, 2) ? ops_kernel_f32(query, KERN_LAYER_NORM) : NULL;
}
static const kern_row *rms_norm_kernel(const ir_kernel_query *query) {
  return has_tail(query, 1) ? ops_kernel_f32(query, KERN_RMS_NORM) : NULL;
}

/* ---- batch norm: x [n, c, ...], weight?, bias?, mean, var, each [c] ---- */

/* Does the norm go along the row? Only its first result can be had. */
static bool norms_row(const ir_kernel_query *query, const loop_build *b) {
  const int32_t rank = query->in[0]->type.rank;
  int64_t axis = base_attr_int(query->attrs, KERN_LAYER_NORM_AXIS);
  if (axis < 0) axis += rank;
  return rank == b->program.rank && b->program.row_axes > 0 && !b->program.behind && axis == rank - b->program.row_axes;
}

/* x over the root of the mean of its squares, times weight, plus bias. */
static void lower_normalised(const ir_kernel_query *query, loop_build *b, uint16_t x) {
  const uint16_t sum = loop_reduce(b, BASE_COMBINE_SUM, loop_unary(b, BASE_SCALAR_square, x));
  const uint16_t mean = loop_binary(b, BASE_SCALAR_div, sum, loop_length(b));
  const uint16_t eps = loop_number(b, base_attr_float(query->attrs, KERN_LAYER_NORM_EPS));
  const uint16_t scale = loop_unary(b, BASE_SCALAR_rsqrt, loop_binary(b, BASE_SCALAR_add, mean, eps));
  b->out = loop_binary(b, BASE_SCALAR_mul, x, scale);
  if (b->in_count > 1 && b->in[1] != LOOP_NONE) b->out = loop_binary(b, BASE_SCALAR_mul, b->out, b->in[1]);
  if (b->in_count > 2 && b->in[2] != LOOP_NONE) b->out = loop_binary(b, BASE_SCALAR_add, b->out, b->in[2]);
}

static bool lower_layer_norm(const ir_kernel_query *query, loop_build *b) {
  if (!norms_row(query, b) || loop_is_row(b, b->in[0])) return false;
  const uint16_t sum = loop_reduce(b, BASE_COMBINE_SUM, b->in[0]);
  const uint16_t mean = loop_binary(b, BASE_SCALAR_div, sum, loop_length(b));
  lower_normalised(query, b, loop_binary(b, BASE_SCALAR_sub, b->in[0], mean));
  return true;
}

static bool lower_rms_norm(const ir_kernel_query *query, loop_build *b) {
  if (!norms_row(query, b) || loop_is_row(b, b->in[0])) return false;
  lower_normalised(query, b, b->in[0]);
  return true;
}

static const ir_attr batch_attrs[] = {ATTR_FLOAT("eps", 1e-5)};

/* Operand `i` has one element per channel. */
static td_status per_channel(const base_call *call, uint32_t i, int64_t channels, const base_f64 **values) {
  const base_tensor *t = base_in(call, i);
  *values = NULL;
  if (!t) return TD_OK;
  if (base_tensor_numel(t) != channels)
    return ops_fail(call, "operand %u has %lld elements for %lld channels", i, (long long)base_tensor_numel(t),
                    (long long)channels);
  *values = ops_dense_f64(call, i);
  return *values ? TD_OK : base_no_memory(call->err, "scratch");
}

/* y = (x - center) * scale + shift, `count` elements from `offset` on, `step` apart. */
static void affine_row(const base_tensor *y, const void *x, int64_t offset, int64_t step, int64_t count, double center,
                       double scale, double shift) {
  int64_t end = offset + count * step;
  if (y->dtype == TD_F32) {
    const base_f32 *from = x;
    base_f32 *to = y->data;
    for (int64_t k = offset; k < end; k += step) to[k] = (float)(((double)from[k] - center) * scale + shift);
    return;
  }
  for (int64_t k = offset; k < end; k += step)
    base_store_f64(y->dtype, y->data, k, (base_load_f64(y->dtype, x, k) - center) * scale + shift);
}

/* Elements of one channel of one sample: dims past the second. */
static int64_t plane_of(const base_tensor *x) {
  int64_t plane = 1;
  for (int32_t i = 2; i < x->rank; i++) plane *= x->dims[i];
  return plane;
}

static td_status batch_norm_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  if (base_tensor_numel(x) == 0) return TD_OK;
  int64_t channels = x->rank > 1 ? x->dims[1] : 1, plane = plane_of(x), samples = x->rank ? x->dims[0] : 1;
  double eps = base_attr_float(call->attrs, 0);
  const base_f64 *weight, *bias, *mean, *var;
  TRY(per_channel(call, 1, channels, &weight));
  TRY(per_channel(call, 2, channels, &bias));
  TRY(per_channel(call, 3, channels, &mean));
  TRY(per_channel(call, 4, channels, &var));
  const void *data = ops_dense(call, 0);
  if (!data) return base_no_memory(call->err, "scratch");
  for (int64_t n = 0; n < samples; n++)
    for (int64_t c = 0; c < channels; c++)
      affine_row(y, data, (n * channels + c) * plane, 1, plane, mean[c], (weight ? weight[c] : 1) / sqrt(var[c] + eps),
                 bias ? bias[c] : 0);
  return TD_OK;
}

static td_status infer_float(ir_infer *ctx) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  if (!base_is_float(dtype))
    return ir_infer_fail(ctx, "operand of %s; a floating-point type is needed", td_dtype_name(dtype));
  return ops_infer_same(ctx);
}

/* Fails when operands 1.. do not fit the channels of x, where both are known. */
static td_status infer_batch_norm(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  if (ctx->in_count < 5 || !ir_in(ctx, 3) || !ir_in(ctx, 4)) return ir_infer_fail(ctx, "mean and variance are needed");
  for (uint32_t i = 1; i < ctx->in_count && x->rank > 1; i++) {
    const ir_info *p = ir_in(ctx, i);
    if (p && p->type.rank == 1 && base_dim_known(p->type.dims[0]) && base_dim_known(x->dims[1]) &&
        p->type.dims[0] != x->dims[1])
      return ir_infer_fail(ctx, "operand %u has %lld elements for %lld channels", i, (long long)p->type.dims[0],
                           (long long)x->dims[1]);
  }
  return infer_float(ctx);
}

static td_status infer_with_channels(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  if (x->rank != IR_UNRANKED && x->rank < 2) return ir_infer_fail(ctx, "operand of rank %d has no channels", x->rank);
  return infer_float(ctx);
}

/* ---- group norm: x [n, c, ...], or with channels_last [n, ..., c], weight?, bias?: one element per channel, or one
 * per group; moments?: td::group_moments(x) with channels_last, which are x's own then ---- */

/* num_groups 0: a group per channel (instance norm). act: of f32. */
static const ir_attr group_attrs[] = {KERN_GROUP_NORM_LIST(OPS_ATTR_ROW)};
enum { MOMENTS = 3 };

/* weight and bias of channel c; `per_group` has one per `width` channels. */
typedef struct group_param {
  const base_f64 *at;
  int64_t width;
  double fallback;
} group_param;

static td_status group_param_of(const base_call *call, uint32_t i, int64_t channels, int64_t groups, double fallback,
                                group_param *p) {
  const base_tensor *t = base_in(call, i);
  bool by_group = t && base_tensor_numel(t) == groups && groups != channels;
  p->width = by_group ? channels / groups : 1;
  p->fallback = fallback;
  return per_channel(call, i, by_group ? groups : channels, &p->at);
}

static double param_at(const group_param *p, int64_t channel) {
  return p->at ? p->at[channel / p->width] : p->fallback;
}

static td_status infer_group_norm(ir_infer *ctx) {
  if (base_attr_has(ctx->attrs, KERN_GROUP_NORM_ACT)) {
    const char *act = base_attr_str(ctx->attrs, KERN_GROUP_NORM_ACT);
    if (kern_act_find(act) == KERN_ACT_COUNT ||
        (ir_in(ctx, 0)->type.dtype != TD_F32 && !base_attr_has(ctx->attrs, KERN_GROUP_NORM_RESULT)))
      return ir_infer_fail(ctx, "there is no activation '%s' of this type", act);
    if (!base_attr_has(ctx->attrs, KERN_GROUP_NORM_ACT_A) || !base_attr_has(ctx->attrs, KERN_GROUP_NORM_ACT_B))
      return ir_infer_fail(ctx, "act needs act_a and act_b");
  }
  TRY(infer_with_channels(ctx));
  const ir_info *moments = ir_in(ctx, MOMENTS);
  if (moments && (!base_attr_int(ctx->attrs, KERN_GROUP_NORM_LAST) || moments->type.dtype != TD_F32 ||
                  (moments->type.rank != IR_UNRANKED && moments->type.rank != 4)))
    return ir_infer_fail(ctx, "moments are those of td::group_moments, of an image that stands channels last");
  if (!base_attr_has(ctx->attrs, KERN_GROUP_NORM_RESULT)) return TD_OK;
  const td_dtype x = ir_in(ctx, 0)->type.dtype, result = (td_dtype)base_attr_int(ctx->attrs, KERN_GROUP_NORM_RESULT);
  if ((x != TD_F32 && x != TD_BF16) || (result != TD_F32 && result != TD_BF16))
    return ir_infer_fail(ctx, "its result cannot be %s", td_dtype_name(result));
  ctx->out[0].type.dtype = result;
  return TD_OK;
}

/* Of channels [first, first + width) of a sample, from those of the parts of its plane. */
static td_status join_moments(const base_call *call, int64_t sample, int64_t first, int64_t width, double *center,
                              double *spread) {
  const base_tensor *x = base_in(call, 0), *t = base_in(call, MOMENTS);
  const int64_t channels = x->dims[x->rank - 1], plane = base_tensor_numel(x) / x->dims[0] / channels;
  const base_f32 *moments = ops_dense_f32(call, MOMENTS);
  if (!moments) return base_no_memory(call->err, "scratch");
  if (t->dims[0] != x->dims[0] || t->dims[1] < 1 || t->dims[2] != 2 || t->dims[3] != channels)
    return ops_fail(call, "operand %d has no moments of operand 0", MOMENTS);
  double mean = 0, squares = 0;
  for (int pass = 0; pass < 2; pass++, *center = mean)
    for (int64_t part = 0; part < t->dims[1]; part++) {
      const base_f32 *at = moments + (sample * t->dims[1] + part) * 2 * channels + first;
      const double rows =
          (double)(kern_moments_start(plane, t->dims[1], part + 1) - kern_moments_start(plane, t->dims[1], part));
      for (int64_t c = 0; c < width && rows > 0; c++) {
        const double d = (double)at[c] - *center;
        if (pass) squares += (double)at[channels + c] + rows * d * d;
        else mean += rows * (double)at[c] / (double)(plane * width);
      }
    }
  *spread = squares / (double)(plane * width);
  return TD_OK;
}

static void activate(const base_call *call, const base_tensor *y) {
  const kern_act_of act = kern_act_at(call->attrs, KERN_GROUP_NORM_ACT);
  base_f32 *to = y->data;
  for (int64_t i = 0; act.act != KERN_ACT_none && i < base_tensor_numel(y); i++)
    to[i] = (float)kern_act_apply(act.act, (double)act.a, (double)act.b, (double)to[i]);
}

static td_status group_norm_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0), *y = out;
  bool last = base_attr_int(call->attrs, KERN_GROUP_NORM_LAST),
       wide = base_attr_has(call->attrs, KERN_GROUP_NORM_RESULT);
  int64_t channels = x->dims[last ? x->rank - 1 : 1], groups = base_attr_int(call->attrs, KERN_GROUP_NORM_GROUPS);
  if (base_tensor_numel(x) == 0) return TD_OK;
  if (groups == 0) groups = channels;
  if (groups < 1 || channels % groups)
    return ops_fail(call, "%lld channels do not make %lld groups", (long long)channels, (long long)groups);
  int64_t plane = base_tensor_numel(x) / x->dims[0] / channels, width = channels / groups, count = width * plane;
  int64_t step = last ? channels : 1, next = last ? 1 : plane; /* from element to element, from channel to channel */
  group_param weight, bias;
  TRY(group_param_of(call, 1, channels, groups, 1, &weight));
  TRY(group_param_of(call, 2, channels, groups, 0, &bias));
  const void *data = wide ? (const void *)ops_dense_f32(call, 0) : ops_dense(call, 0);
  double *row = base_call_scratch(call, (size_t)count, sizeof *row);
  float *floats = wide ? base_call_scratch(call, (size_t)base_tensor_numel(x), sizeof *floats) : NULL;
  if (!data || !row || (wide && !floats)) return base_no_memory(call->err, "scratch");
  const base_tensor rounded_later = base_tensor_of(floats, TD_F32, x->rank, x->dims);
  if (wide) y = &rounded_later;
  for (int64_t lane = 0; lane < x->dims[0] * groups; lane++) {
    int64_t first = lane % groups * width, offset = lane / groups * channels * plane + first * next;
    for (int64_t w = 0; w < width; w++) load_steps(y->dtype, data, offset + w * next, step, plane, row + w * plane);
    double center = mean_of(row, count), spread = spread_of(row, count, center);
    if (base_in(call, MOMENTS)) TRY(join_moments(call, lane / groups, first, width, &center, &spread));
    double inverse = 1 / sqrt(spread + base_attr_float(call->attrs, KERN_GROUP_NORM_EPS));
    for (int64_t w = 0; w < width; w++)
      affine_row(y, data, offset + w * next, step, plane, center, inverse * param_at(&weight, first + w),
                 param_at(&bias, first + w));
  }
  activate(call, y);
  if (wide) base_convert(out->dtype, out->data, TD_F32, floats, base_tensor_numel(x), false);
  return TD_OK;
}

static bool takes_f32(const ir_kernel_query *query, uint32_t i) {
  const ir_info *info = i < query->in_count ? query->in[i] : NULL;
  return !info || info->type.dtype == TD_F32;
}

/* weight and bias have one element per channel. */
static const kern_row *group_norm_kernel(const ir_kernel_query *query) {
  const ir_type *x = &query->in[0]->type;
  if (x->rank == IR_UNRANKED) return NULL;
  base_dim channels = x->dims[base_attr_int(query->attrs, KERN_GROUP_NORM_LAST) ? x->rank - 1 : 1];
  for (uint32_t i = 1; i < query->in_count && i < MOMENTS; i++) {
    const ir_info *p = query->in[i];
    if (p && (p->type.rank != 1 || p->type.dims[0] != channels)) return NULL;
  }
  const bool narrow = query->out->type.dtype == TD_BF16;
  if (!base_attr_has(query->attrs, KERN_GROUP_NORM_RESULT) || (x->dtype == TD_F32 && !narrow))
    return ops_kernel_f32(query, KERN_GROUP_NORM);
  const bool takes = base_attr_int(query->attrs, KERN_GROUP_NORM_LAST) && takes_f32(query, 1) && takes_f32(query, 2);
  return takes ? kern_select(KERN_GROUP_NORM, TD_BF16, query->isa) : NULL;
}

/* ---- local response normalisation over channels (AlexNet): x / (bias + alpha / size * sum of squares)^beta ---- */

enum { LRN_SIZE, LRN_ALPHA, LRN_BETA, LRN_BIAS };
static const ir_attr lrn_attrs[] = {{.name = "size", .kind = BASE_ATTR_INT, .required = true},
                                    ATTR_FLOAT("alpha", 1e-4f),
                                    ATTR_FLOAT("beta", 0.75),
                                    ATTR_FLOAT("bias", 1)};

static td_status lrn_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  if (base_tensor_numel(x) == 0) return TD_OK;
  int64_t channels = x->dims[1], plane = plane_of(x), size = base_attr_int(call->attrs, LRN_SIZE);
  double alpha = base_attr_float(call->attrs, LRN_ALPHA) / (double)size, beta = base_attr_float(call->attrs, LRN_BETA),
         bias = base_attr_float(call->attrs, LRN_BIAS);
  const void *data = ops_dense(call, 0);
  double *row = base_call_scratch(call, (size_t)plane, sizeof *row),
         *sum = base_call_scratch(call, (size_t)plane, sizeof *sum);
  if (!data || !row || !sum) return base_no_memory(call->err, "scratch");
  for (int64_t lane = 0; lane < x->dims[0] * channels; lane++) {
    int64_t c = lane % channels, first = base_max_i64(0, c - (size - 1) / 2),
            last = base_min_i64(channels - 1, c + size / 2);
    for (int64_t k = 0; k < plane; k++) sum[k] = 0;
    for (int64_t from = first; from <= last; from++) {
      load_row(x->dtype, data, (lane - c + from) * plane, plane, row);
      for (int64_t k = 0; k < plane; k++) sum[k] += row[k] * row[k];
    }
    load_row(x->dtype, data, lane * plane, plane, row);
    for (int64_t k = 0; k < plane; k++) row[k] /= pow(bias + alpha * sum[k], beta);
    ops_row_put_f64(y, lane * plane, 1, plane, row);
  }
  return TD_OK;
}

static td_status infer_lrn(ir_infer *ctx) {
  if (base_attr_int(ctx->attrs, LRN_SIZE) < 1) return ir_infer_fail(ctx, "size must be at least 1");
  return infer_with_channels(ctx);
}

/* ---- cases ---- */

static const td_dtype case_dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16};

static bool layer_cases(ir_case *c, uint32_t number) {
  static const int64_t tails[] = {1, 16, 127, 768, 5000};
  if (number >= 3 * OPS_COUNT(case_dtypes)) { /* lengths about a vector, and past a piece of a sum */
    number -= 3 * OPS_COUNT(case_dtypes);
    if (number >= sizeof tails / sizeof *tails) return false;
    return ops_case_in(c, TD_F32, OPS_DIMS(2, 3, tails[number]), OPS_NORMAL, 6) &&
           ops_case_in(c, TD_F32, OPS_DIMS(tails[number]), OPS_NORMAL, 7);
  }
  td_dtype d = case_dtypes[number / 3];
  if (number % 3 == 0)
    return ops_case_in(c, d, OPS_DIMS(3, 61), OPS_NORMAL, 1) && ops_case_in(c, d, OPS_DIMS(61), OPS_NORMAL, 2);
  if (number % 3 == 1) {
    ops_case_arg(c, ARG_INT("axis", 1));
    return ops_case_in(c, d, OPS_DIMS(2, 3, 5), OPS_NORMAL, 3);
  }
  return ops_case_in(c, d, OPS_DIMS(0, 7), OPS_NORMAL, 4) && ops_case_in(c, d, OPS_DIMS(7), OPS_NORMAL, 5);
}

static bool batch_cases(ir_case *c, uint32_t number) {
  if (number >= 2 * OPS_COUNT(case_dtypes)) return false;
  td_dtype d = case_dtypes[number / 2];
  bool ok = number % 2 ? ops_case_in(c, d, OPS_DIMS(3, 5), OPS_NORMAL, 1)
                       : ops_case_in(c, d, OPS_DIMS(2, 5, 3, 7), OPS_NORMAL, 2);
  for (uint64_t i = 0; ok && i < 4; i++) ok = ops_case_in(c, d, OPS_DIMS(5), i == 3 ? OPS_POSITIVE : OPS_NORMAL, 3 + i);
  return ok;
}

static void case_act(ir_case *c, kern_act act) {
  ops_case_arg(c, ARG_STR("act", kern_act_name(act)));
  ops_case_arg(c, ARG_FLOAT("act_a", -0.5));
  ops_case_arg(c, ARG_FLOAT("act_b", 0.75));
}

/* With moments: any ones, so that these and no others are what is taken. */
static bool parts_case(ir_case *c, uint32_t number) {
  static const struct {
    int64_t dims[4], groups, parts;
  } rows[] = {{{2, 8, 8, 32}, 4, 3}, {{1, 9, 7, 40}, 0, 4},  {{2, 5, 1, 131}, 1, 7},   {{1, 40, 48, 16}, 16, 5},
              {{3, 3, 3, 2}, 1, 16}, {{1, 16, 12, 1}, 0, 2}, {{1, 20, 20, 64}, 32, 6}, {{0, 3, 3, 4}, 2, 2}};
  const uint32_t row = number / 4, form = number % 4;
  if (row >= OPS_COUNT(rows)) return false;
  const int64_t *dims = rows[row].dims, of_channel[] = {dims[3]}, moments[] = {dims[0], rows[row].parts, 2, dims[3]};
  if (row % 2) case_act(c, row % 4 == 1 ? KERN_ACT_relu : KERN_ACT_silu);
  ops_case_arg(c, ARG_INT("num_groups", rows[row].groups));
  ops_case_arg(c, ARG_BOOL("channels_last", true));
  if (form == 1) ops_case_arg(c, ARG_DTYPE("result", TD_F32));
  return ops_case_in(c, TD_F32, 4, dims, OPS_NORMAL, number) && ops_case_in(c, TD_F32, 1, of_channel, OPS_NORMAL, 2) &&
         ops_case_in(c, TD_F32, 1, of_channel, OPS_NORMAL, 3) && ops_case_in(c, TD_F32, 4, moments, OPS_POSITIVE, 4) &&
         ops_case_bf16(c, (form & 1 ? BF16_X : 0) | (form & 2 ? BF16_RESULT : 0), 0);
}

static bool group_cases(ir_case *c, uint32_t number) {
  static const int64_t groups[] = {0, 1, 2, 6};
  static const kern_act acts[] = {KERN_ACT_relu, KERN_ACT_silu, KERN_ACT_leaky_relu, KERN_ACT_clamp};
  enum { PLAIN = 6, SMALL = 8 * OPS_COUNT(case_dtypes), ALL = SMALL + PLAIN * (1 + OPS_COUNT(acts)), BF16 = 3 };
  enum { PARTS = ALL + BF16 * PLAIN };
  if (number >= PARTS) return parts_case(c, number - PARTS);
  if (number >= ALL) { /* x, the result or both are bf16 */
    const uint32_t form = (number - ALL) % BF16 + 1;
    return group_cases(c, SMALL + PLAIN * (number % 2) + (number - ALL) / BF16) &&
           (form & 2 || (ops_case_arg(c, ARG_DTYPE("result", TD_F32)), true)) &&
           ops_case_bf16(c, (form & 1 ? BF16_X : 0) | (form & 2 ? BF16_RESULT : 0), 0);
  }
  if (number >= SMALL) { /* blocks of channels, sums of several pieces; then with activations */
    number -= SMALL;
    if (number >= PLAIN * (1 + OPS_COUNT(acts))) return false;
    if (number >= PLAIN) case_act(c, acts[number / PLAIN - 1]);
    number %= PLAIN;
    ops_case_arg(c, ARG_INT("num_groups", number % 2 ? 0 : number == 4 ? 17 : 20));
    ops_case_arg(c, ARG_BOOL("channels_last", number / 2 > 0));
    if (number >= 4) return ops_case_in(c, TD_F32, OPS_DIMS(2, 131, 136), OPS_NORMAL, 4);
    return number / 2 ? ops_case_in(c, TD_F32, OPS_DIMS(2, 67, 40), OPS_NORMAL, 4)
                      : ops_case_in(c, TD_F32, OPS_DIMS(2, 40, 67), OPS_NORMAL, 4);
  }
  td_dtype d = case_dtypes[number / 8];
  bool last = number / 4 % 2;
  ops_case_arg(c, ARG_INT("num_groups", groups[number % 4]));
  ops_case_arg(c, ARG_BOOL("channels_last", last));
  const int64_t dims[] = {2, last ? 3 : 6, last ? 5 : 3, last ? 6 : 5};
  return ops_case_in(c, d, 4, dims, OPS_NORMAL, 1) && ops_case_in(c, d, OPS_DIMS(6), OPS_NORMAL, 2) &&
         ops_case_in(c, d, OPS_DIMS(6), OPS_NORMAL, 3);
}

static bool lrn_cases(ir_case *c, uint32_t number) {
  if (number >= 2 * OPS_COUNT(case_dtypes)) return false;
  ops_case_arg(c, ARG_INT("size", number % 2 ? 3 : 4));
  return ops_case_in(c, case_dtypes[number / 2], OPS_DIMS(2, 7, 3, 2), OPS_NORMAL, number);
}

static const ir_alias lrn_aliases[] = {{"onnx", "LRN", 1, NULL}};
static const ir_alias instance_aliases[] = {{"onnx", "InstanceNormalization", 1, "epsilon=eps"}};

OPS_DECLARE(norm);
const ir_op ops_norm[] = {
    {.id = OPERATOR(aten, native_layer_norm),
     .min_in = 1,
     .max_in = 3,
     .out_count = 3,
     .attrs = layer_attrs,
     .attr_count = OPS_COUNT(layer_attrs),
     .by_sample = 1,
     .keeps_samples = layer_keeps_samples,
     .infer = infer_layer_norm,
     .reference = layer_norm_reference,
     .kernel = layer_norm_kernel,
     .lower = lower_layer_norm,
     .flops = element_flops,
     .rtol = 1e-5f,
     .atol = 1e-6f},
    {.id = OPERATOR(aten, rms_norm),
     .min_in = 1,
     .max_in = 2,
     .out_count = 2,
     .attrs = layer_attrs,
     .attr_count = OPS_COUNT(layer_attrs),
     .by_sample = 1,
     .keeps_samples = layer_keeps_samples,
     .infer = infer_layer_norm,
     .reference = rms_norm_reference,
     .kernel = rms_norm_kernel,
     .lower = lower_rms_norm,
     .flops = element_flops,
     .rtol = 1e-5f,
     .atol = 1e-6f},
    {.id = OPERATOR(aten, _native_batch_norm_legit_no_training),
     .min_in = 1,
     .max_in = 5,
     .out_count = 1,
     .attrs = batch_attrs,
     .attr_count = OPS_COUNT(batch_attrs),
     .by_sample = 1,
     .infer = infer_batch_norm,
     .reference = batch_norm_reference,
     .flops = element_flops,
     .rtol = 1e-5f,
     .atol = 1e-6f},
    {.id = OPERATOR(aten, native_group_norm),
     .min_in = 1,
     .max_in = 4,
     .out_count = 1,
     .attrs = group_attrs,
     .attr_count = OPS_COUNT(group_attrs),
     .by_sample = 1 | 1 << MOMENTS,
     .infer = infer_group_norm,
     .reference = group_norm_reference,
     .kernel = group_norm_kernel,
     .flops = element_flops,
     .rtol = 1e-5f,
     .atol = 1e-6f,
     .aliases = instance_aliases,
     .alias_count = OPS_COUNT(instance_aliases)},
    {.id = OPERATOR(td, lrn),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = lrn_attrs,
     .attr_count = OPS_COUNT(lrn_attrs),
     .by_sample = 1,
     .infer = infer_lrn,
     .reference = lrn_reference,
     .flops = element_flops,
     .rtol = 1e-5f,
     .aliases = lrn_aliases,
     .alias_count = OPS_COUNT(lrn_aliases)},
};
OPS_TABLE(norm);
OPS_CASES(norm) = {
    {OP_aten_native_layer_norm, layer_cases},
    {OP_aten_rms_norm, layer_cases},
    {OP_aten__native_batch_norm_legit_no_training, batch_cases},
    {OP_aten_native_group_norm, group_cases},
    {OP_td_lrn, lrn_cases},
    {0},
};
