/* pool.c -- pooling over the 1 to 3 spatial dims of [N, C, in...], or with `channels_last` of [N, in..., C]: maximum
 * (with indices), mean and p-norm of each window, and the inverse of the first. An empty `kernel_size` is the whole
 * input: global pooling. Padding is never an element: it does not win a maximum and counts in a mean only with
 * `count_include_pad`. Indices count elements of [N, C, in...] in either layout. Computed in double and rounded once.
 *
 *     td::max_pool, avg_pool  maximum, mean of the window (ONNX MaxPool 8, AveragePool 7)
 *     td::lp_pool             (sum of |x|^p of the window)^(1/p) (ONNX LpPool 1)
 *     td::avg_pool_i8         mean of dequantised values, quantised again (com.microsoft QLinearAveragePool 1)
 *     td::max_unpool          0, and x[k] at index k (ONNX MaxUnpool 9) */
#include "kernels/rows/rows.h"
#include "kernels/kernels.h"
#include "ops/common/window_priv.h"

#include <math.h>
#include <string.h>

#define POOL_ATTR_ROWS(...) KERN_WINDOW_LIST(OPS_ATTR_ROW) KERN_POOL_LIST(OPS_ATTR_ROW, __VA_ARGS__)
static const ir_attr max_attrs[] = {POOL_ATTR_ROWS(BOOL, "column_major_indices", false)};
static const ir_attr mean_attrs[] = {POOL_ATTR_ROWS(BOOL, "count_include_pad", false)};
static const ir_attr mean_i8_attrs[] = {POOL_ATTR_ROWS(BOOL, "count_include_pad", false)
                                            KERN_AVG_I8_LIST(OPS_ATTR_ROW)};
static const ir_attr norm_attrs[] = {POOL_ATTR_ROWS(FLOAT, "p", 2)};
static const ir_attr unpool_attrs[] = {KERN_WINDOW_LIST(OPS_ATTR_ROW) ATTR_INTS("kernel_size")};

/* The first spatial dim, and the dim of channels. */
static int32_t first_spatial(const base_attrs *attrs) { return base_attr_int(attrs, KERN_POOL_CHANNELS_LAST) ? 1 : 2; }
static int32_t channel_dim(const base_attrs *attrs, int32_t rank) {
  return base_attr_int(attrs, KERN_POOL_CHANNELS_LAST) ? rank - 1 : 1;
}

static td_status check_kernel(ir_infer *ctx, int64_t size) {
  if (size >= 1 && size <= INT32_MAX) return TD_OK;
  return ir_infer_fail(ctx, "a kernel of size %lld", (long long)size);
}

static td_status infer_pool(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  uint32_t kernels;
  const int64_t *kernel = base_attr_ints(ctx->attrs, KERN_POOL_KERNEL, &kernels);
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  int32_t spatial = x->rank - 2, first = first_spatial(ctx->attrs);
  TRY(ops_window_check(ctx, spatial));
  if (kernels && kernels != (uint32_t)spatial)
    return ir_infer_fail(ctx, "a kernel of %u sizes for %d spatial dimensions", kernels, spatial);
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  for (int32_t i = 0; i < spatial; i++) {
    base_dim in = x->dims[first + i];
    if (kernels) TRY(check_kernel(ctx, kernel[i]));
    dims[first + i] =
        ops_window_out(ctx, spatial, i, in, kernels ? kernel[i] : in, base_attr_int(ctx->attrs, KERN_POOL_CEIL));
  }
  return ir_out(ctx, 0, x->dtype, x->rank, dims);
}

static td_status infer_mean_i8(ir_infer *ctx) {
  const base_attrs *a = ctx->attrs;
  const td_dtype x = ir_in(ctx, 0)->type.dtype;
  const bool is_signed = base_attr_int(a, KERN_AVG_SIGNED) != 0;
  const int64_t x_zero = base_attr_int(a, KERN_AVG_X_ZERO), y_zero = base_attr_int(a, KERN_AVG_Y_ZERO),
                y_least = is_signed ? -128 : 0;
  const float x_scale = (float)base_attr_float(a, KERN_AVG_X_SCALE),
              y_scale = (float)base_attr_float(a, KERN_AVG_Y_SCALE);
  if ((x != TD_U8 && x != TD_I8) || !base_attr_int(a, KERN_POOL_CHANNELS_LAST))
    return ir_infer_fail(ctx, "x must be of 8 bits, channels last");
  if (!isfinite(x_scale / y_scale) || x_zero < 0 || x_zero > 255 || y_zero < y_least || y_zero > y_least + 255)
    return ir_infer_fail(ctx, "a scale or zero point is out of range");
  TRY(infer_pool(ctx));
  ctx->out[0].type.dtype = is_signed ? TD_I8 : TD_U8;
  return TD_OK;
}

static td_status infer_max_pool(ir_infer *ctx) {
  TRY(infer_pool(ctx));
  if (ctx->out_count > 1) {
    ctx->out[1].type = ctx->out[0].type;
    ctx->out[1].type.dtype = TD_I64;
  }
  return TD_OK;
}

static void make_window(const base_call *call, window *w) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0) ? base_out(call, 0) : base_out(call, 1);
  uint32_t kernels;
  const int64_t *kernel = base_attr_ints(call->attrs, KERN_POOL_KERNEL, &kernels);
  const int64_t *in = x->dims + first_spatial(call->attrs), *out = y->dims + first_spatial(call->attrs);
  ops_window_make(call->attrs, x->rank - 2, in, kernels ? kernel : in, out, w);
}

/* One window of an input plane: the elements that lie inside, and how many its share of input and padding holds. An
 * element of a plane is `step` behind the one before. */
typedef struct spot {
  int64_t *at;
  int64_t count, step;
  double padded;
} spot;

static void place(const window *w, int64_t output, spot *s) {
  int64_t first[WINDOW_MAX], last[WINDOW_MAX], start[WINDOW_MAX];
  s->count = 0;
  s->padded = 1;
  for (int i = WINDOW_MAX; i-- > 0;) {
    const window_axis *a = &w->axis[i];
    int64_t o = output % a->out;
    output /= a->out;
    ops_window_range(a, o, &first[i], &last[i]);
    start[i] = o * a->stride - a->begin;
    s->padded *= (double)base_min_i64(a->kernel, (a->in + a->end - start[i] + a->dilation - 1) / a->dilation);
  }
  for (int64_t d = first[0]; d < last[0]; d++) {
    for (int64_t h = first[1]; h < last[1]; h++) {
      int64_t row = (start[0] + d * w->axis[0].dilation) * w->axis[1].in + start[1] + h * w->axis[1].dilation;
      for (int64_t v = first[2]; v < last[2]; v++)
        s->at[s->count++] = row * w->axis[2].in + start[2] + v * w->axis[2].dilation;
    }
  }
}

typedef struct window_sum {
  double value;
  int64_t at; /* element of the input plane, for a maximum */
} window_sum;
typedef window_sum (*pool_body)(const base_call *call, const spot *s, const base_f64 *plane);

/* The first of equal elements wins; NaN wins over all. */
static window_sum max_body(const base_call *call, const spot *s, const base_f64 *plane) {
  (void)call;
  if (!s->count) return (window_sum){-INFINITY, 0};
  window_sum best = {plane[s->at[0] * s->step], s->at[0]};
  for (int64_t k = 1; k < s->count && !isnan(best.value); k++) {
    double value = plane[s->at[k] * s->step];
    if (value > best.value || isnan(value)) best = (window_sum){value, s->at[k]};
  }
  return best;
}

static window_sum mean_body(const base_call *call, const spot *s, const base_f64 *plane) {
  double sum = 0;
  for (int64_t k = 0; k < s->count; k++) sum += plane[s->at[k] * s->step];
  return (window_sum){sum / (base_attr_int(call->attrs, KERN_POOL_OWN) ? s->padded : (double)s->count), 0};
}

static window_sum norm_body(const base_call *call, const spot *s, const base_f64 *plane) {
  double p = base_attr_float(call->attrs, KERN_POOL_OWN), sum = 0;
  for (int64_t k = 0; k < s->count; k++) {
    double value = plane[s->at[k] * s->step];
    sum += p == 2 ? value * value : pow(fabs(value), p);
  }
  return (window_sum){p == 2 ? sqrt(sum) : pow(sum, 1 / p), 0};
}

/* In whole numbers, and then f32: round(sum of (x - x_zero) * (x_scale / (y_scale * count))) + y_zero. */
static window_sum mean_i8_body(const base_call *call, const spot *s, const base_f64 *plane) {
  const kern_mean_i8 m = kern_mean_i8_of(call);
  const double zero = m.zero - m.flip, least = 0 - m.y_flip;
  double sum = 0;
  for (int64_t k = 0; k < s->count; k++) sum += plane[s->at[k] * s->step] - zero;
  const float mean = nearbyintf((float)sum * kern_mean_i8_by(&m, m.count_padding ? (int64_t)s->padded : s->count));
  return (window_sum){fmin(fmax((double)mean + m.y_zero, least), least + 255), 0};
}

/* Index of plane element `at` counted with the first spatial dim fastest. */
static int64_t column_major(const window *w, int64_t at) {
  int64_t index = 0, size = w->in_size;
  for (int i = WINDOW_MAX; i-- > 0;) {
    size /= w->axis[i].in;
    index += at % w->axis[i].in * size;
    at /= w->axis[i].in;
  }
  return index;
}

static td_status run_pool(const base_call *call, pool_body body, bool with_indices) {
  const base_tensor *x = base_in(call, 0);
  window w;
  if (base_tensor_numel(base_out(call, 0) ? base_out(call, 0) : base_out(call, 1)) == 0) return TD_OK;
  make_window(call, &w);
  const base_f64 *from = ops_dense_f64(call, 0);
  base_f64 *to = base_out(call, 0) ? ops_take_f64(call, 0) : NULL;
  base_i64 *indices = with_indices && base_out(call, 1) ? base_out(call, 1)->data : NULL;
  spot s = {.at = base_call_scratch(call, (size_t)base_min_i64(w.kernel_size, w.in_size), sizeof *s.at)};
  if (!from || (base_out(call, 0) && !to) || !s.at) return base_no_memory(call->err, "scratch");
  bool columns = indices && base_attr_int(call->attrs, KERN_POOL_OWN),
       last = base_attr_int(call->attrs, KERN_POOL_CHANNELS_LAST);
  int64_t channels = x->dims[channel_dim(call->attrs, x->rank)];
  s.step = last ? channels : 1;
  for (int64_t o = 0; o < w.out_size; o++) {
    place(&w, o, &s);
    for (int64_t plane = 0; plane < x->dims[0] * channels; plane++) {
      int64_t n = plane / channels, c = plane % channels;
      window_sum sum = body(call, &s, from + (last ? n * w.in_size * channels + c : plane * w.in_size));
      int64_t at = last ? (n * w.out_size + o) * channels + c : plane * w.out_size + o;
      if (to) to[at] = sum.value;
      if (indices) indices[at] = plane * w.in_size + (columns ? column_major(&w, sum.at) : sum.at);
    }
  }
  if (to) ops_put(call, 0, TD_F64, to);
  return TD_OK;
}
static td_status max_reference(const base_call *call) { return run_pool(call, max_body, true); }
static td_status mean_reference(const base_call *call) { return run_pool(call, mean_body, false); }
static td_status mean_i8_reference(const base_call *call) { return run_pool(call, mean_i8_body, false); }
static td_status norm_reference(const base_call *call) { return run_pool(call, norm_body, false); }

/* ---- kernels ---- */

static const kern_row *max_kernel(const ir_kernel_query *query) {
  const td_dtype dtype = query->in[0]->type.dtype;
  const bool taken = dtype == TD_F32 || dtype == TD_U8 || dtype == TD_I8 || dtype == TD_BF16;
  if (query->out_count > 1 || !base_attr_int(query->attrs, KERN_POOL_CHANNELS_LAST) || !taken) return NULL;
  return kern_select(KERN_MAX_POOL, dtype, query->isa);
}

/* Of images with channels first there is one for the mean of whole planes. */
static const kern_row *mean_kernel(const ir_kernel_query *query) {
  uint32_t kernels, pads, dilations;
  base_attr_ints(query->attrs, KERN_POOL_KERNEL, &kernels);
  base_attr_ints(query->attrs, KERN_WINDOW_PADDING, &pads);
  base_attr_ints(query->attrs, KERN_WINDOW_DILATION, &dilations);
  if (query->in[0]->type.dtype != TD_F32) return NULL;
  if (base_attr_int(query->attrs, KERN_POOL_CHANNELS_LAST)) return kern_select(KERN_AVG_POOL, TD_F32, query->isa);
  bool whole = !kernels && !pads && !dilations && !*base_attr_str(query->attrs, KERN_WINDOW_AUTO_PAD);
  return whole ? kern_select(KERN_PLANE_MEAN, TD_F32, query->isa) : NULL;
}

static const kern_row *mean_i8_kernel(const ir_kernel_query *query) {
  return kern_select(KERN_AVG_POOL_I8, TD_I8, query->isa);
}

/* ---- td::max_unpool(x, indices, [sizes]) ---- */

static td_status infer_unpool(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  const base_dim *sizes;
  uint32_t count, kernels;
  const int64_t *kernel = base_attr_ints(ctx->attrs, KERN_POOL_KERNEL, &kernels);
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  int32_t spatial = x->rank - 2;
  TRY(ops_window_check(ctx, spatial));
  for (uint32_t i = 0; i < kernels; i++) TRY(check_kernel(ctx, kernel[i]));
  if (ir_in(ctx, 2)) {
    if (ir_in_ints(ctx, 2, &sizes, &count)) {
      if (count != (uint32_t)x->rank) return ir_infer_fail(ctx, "%u output sizes for rank %d", count, x->rank);
      return ir_out(ctx, 0, x->dtype, x->rank, sizes);
    }
    base_dim open[BASE_MAX_RANK];
    for (int32_t i = 0; i < x->rank; i++) open[i] = ir_fresh(ctx);
    return ir_out(ctx, 0, x->dtype, x->rank, open);
  }
  if (kernels != (uint32_t)spatial)
    return ir_infer_fail(ctx, "a kernel of %u sizes for %d dimensions", kernels, spatial);
  base_dim dims[BASE_MAX_RANK] = {x->dims[0], x->dims[1]};
  for (int32_t i = 0; i < spatial; i++) {
    int64_t stride = base_attr_int_at(ctx->attrs, KERN_WINDOW_STRIDE, i, 1);
    int64_t more = kernel[i] - base_attr_int_at(ctx->attrs, KERN_WINDOW_PADDING, i, 0) -
                   base_attr_int_at(ctx->attrs, KERN_WINDOW_PADDING, spatial + i, 0);
    base_dim span = base_dim_mul(ctx->dims, base_dim_sub(ctx->dims, x->dims[2 + i], 1), stride);
    dims[2 + i] = base_dim_add(ctx->dims, span, base_dim_number(more));
  }
  return ir_out(ctx, 0, x->dtype, x->rank, dims);
}

/* Indices count over the output that kernel, stride and padding imply; larger given sizes only add room, in which each
 * element keeps its coordinates. */
static td_status unpool_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  uint32_t kernels;
  const int64_t *kernel = base_attr_ints(call->attrs, KERN_POOL_KERNEL, &kernels);
  if (base_tensor_numel(y) == 0) return TD_OK;
  int64_t natural[BASE_MAX_RANK], count = base_tensor_numel(y), room = 1;
  for (int32_t i = 0; i < y->rank; i++) {
    natural[i] = x->dims[i];
    if (i >= 2 && (uint32_t)i - 2 < kernels)
      natural[i] = (x->dims[i] - 1) * base_attr_int_at(call->attrs, KERN_WINDOW_STRIDE, i - 2, 1) + kernel[i - 2] -
                   base_attr_int_at(call->attrs, KERN_WINDOW_PADDING, i - 2, 0) -
                   base_attr_int_at(call->attrs, KERN_WINDOW_PADDING, y->rank - 4 + i, 0);
    if (natural[i] < 0) return ops_fail(call, "the padding of dimension %d is larger than its windows", i);
    if (natural[i] > y->dims[i])
      return ops_fail(call, "output size %lld of dimension %d is too small", (long long)y->dims[i], i);
    room *= natural[i];
  }
  const base_f64 *from = ops_dense_f64(call, 0);
  const base_i64 *indices = ops_dense_i64(call, 1);
  base_f64 *to = ops_take_f64(call, 0);
  if (!from || !indices || !to) return base_no_memory(call->err, "scratch");
  if (base_tensor_numel(base_in(call, 1)) != base_tensor_numel(x))
    return ops_fail(call, "indices and values differ in shape");
  for (int64_t k = 0; k < count; k++) to[k] = 0;
  for (int64_t k = 0; k < base_tensor_numel(x); k++) {
    int64_t rest = indices[k], at = 0;
    if (rest < 0 || rest >= room)
      return ops_fail(call, "index %lld is outside the output of %lld elements", (long long)rest, (long long)room);
    for (int32_t i = y->rank; i-- > 0; rest /= natural[i]) at += rest % natural[i] * y->strides[i];
    to[at] = from[k];
  }
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

/* ---- cases ---- */

/* Sizes about the width of a vector, windows that hang over every edge, and special values among the elements. */
static const struct pool_case {
  int32_t spatial;
  int64_t channels, in[3], kernel[3], stride[3], padding[6], dilation[3]; /* kernel[0] 0: the whole input */
  bool ceil, own;
  const char *auto_pad;
  ops_fill fill;
  int64_t batch;
} pool_rows[] = {
    {2, 3, {5, 4}, {0}, {0}, {0}, {0}, .batch = 2},
    {2, 2, {6, 7}, {3, 3}, {2, 2}, {1, 0, 1, 1}, {0}, .ceil = true, .batch = 1},
    {1, 1, {9}, {2}, {0}, {0}, {2}, .batch = 2},
    {2, 1, {4, 5}, {3, 3}, {0}, {0}, {0}, .auto_pad = "same_upper", .batch = 1},
    {2, 2, {4, 4}, {2, 2}, {0}, {0}, {0}, .batch = 0},
    {2, 17, {9, 8}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {0}, .own = true, .batch = 2},
    {2, 64, {7, 11}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {0}, .batch = 1},
    {2, 33, {7, 7}, {0}, {0}, {0}, {0}, .batch = 3},
    {3, 5, {4, 5, 6}, {2, 3, 2}, {2, 1, 2}, {0, 1, 1, 1, 1, 0}, {0}, .batch = 1},
    {2, 40, {6, 6}, {2, 2}, {2, 2}, {0}, {0}, .fill = OPS_SPECIAL, .batch = 1},
    {1, 16, {13}, {5}, {1}, {2, 2}, {0}, .own = true, .batch = 1},
    {2, 4, {5, 5}, {3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}, .ceil = true, .batch = 1},
    {2, 0, {5, 5}, {3, 3}, {1, 1}, {0}, {0}, .batch = 1},
};

/* Of the first `types` of these. */
static bool cases_pool_of(ir_case *c, uint32_t number, uint32_t types, const char *own) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_U8, TD_I8, TD_BF16};
  enum { ROWS = OPS_COUNT(pool_rows) };
  if (number >= 2 * ROWS * types) return false;
  const struct pool_case *p = &pool_rows[number % ROWS];
  bool last = number / ROWS % 2;
  int32_t n = p->spatial;
  int64_t dims[5] = {p->batch};
  dims[last ? n + 1 : 1] = p->channels;
  memcpy(dims + (last ? 1 : 2), p->in, (size_t)n * sizeof *dims);
  if (p->kernel[0]) ops_case_arg(c, ARG_INTS("kernel_size", p->kernel, n));
  if (p->stride[0]) ops_case_arg(c, ARG_INTS("stride", p->stride, n));
  if (p->dilation[0]) ops_case_arg(c, ARG_INTS("dilation", p->dilation, n));
  if (p->auto_pad) ops_case_arg(c, ARG_STR("auto_pad", p->auto_pad));
  else ops_case_arg(c, ARG_INTS("padding", p->padding, 2 * n));
  if (p->ceil) ops_case_arg(c, ARG_BOOL("ceil_mode", true));
  if (p->own && own) ops_case_arg(c, ARG_BOOL(own, true));
  if (last) ops_case_arg(c, ARG_BOOL("channels_last", true));
  return ops_case_in(c, dtypes[number / (2 * ROWS)], n + 2, dims, p->fill, number);
}
static bool cases_max(ir_case *c, uint32_t number) { return cases_pool_of(c, number, 6, "column_major_indices"); }
static bool cases_mean(ir_case *c, uint32_t number) { return cases_pool_of(c, number, 3, "count_include_pad"); }
static bool cases_mean_i8(ir_case *c, uint32_t number) {
  enum { ROWS = OPS_COUNT(pool_rows) };
  const bool to_signed = number % 3 == 1;
  if (number >= 2 * ROWS ||
      !cases_pool_of(c, number / ROWS * 2 * ROWS + ROWS + number % ROWS + 6 * ROWS, 5, "count_include_pad"))
    return false;
  ops_case_arg(c, ARG_FLOAT("x_scale", 0.031));
  ops_case_arg(c, ARG_INT("x_zero", 101));
  ops_case_arg(c, ARG_FLOAT("y_scale", 0.017));
  ops_case_arg(c, ARG_INT("y_zero", to_signed ? -9 : 77));
  ops_case_arg(c, ARG_BOOL("y_signed", to_signed));
  return true;
}
static bool cases_norm(ir_case *c, uint32_t number) { return cases_pool_of(c, number, 3, NULL); }

static bool cases_unpool(ir_case *c, uint32_t number) {
  static const int64_t two[] = {2}, sizes[] = {1, 1, 8}, at[] = {1, 2, 5};
  if (number >= 2) return false;
  ops_case_arg(c, ARG_INTS("kernel_size", two, 1));
  ops_case_arg(c, ARG_INTS("stride", two, 1));
  if (!ops_case_in(c, TD_F32, OPS_DIMS(1, 1, 3), OPS_NORMAL, 1) || !ops_case_ints(c, at, 3)) return false;
  c->in[1] = base_tensor_of(c->in[1].data, TD_I64, OPS_DIMS(1, 1, 3));
  return number == 0 || ops_case_ints(c, sizes, 3);
}

OPS_DECLARE(pool);
const ir_op ops_pool[] = {
    {.id = OPERATOR(td, max_pool),
     .min_in = 1,
     .max_in = 1,
     .out_count = 2,
     .attrs = max_attrs,
     .attr_count = OPS_COUNT(max_attrs),
     .by_sample = 1,
     .infer = infer_max_pool,
     .reference = max_reference,
     .kernel = max_kernel},
    {.id = OPERATOR(td, avg_pool),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = mean_attrs,
     .attr_count = OPS_COUNT(mean_attrs),
     .by_sample = 1,
     .infer = infer_pool,
     .reference = mean_reference,
     .kernel = mean_kernel,
     .rtol = 1e-5f,
     .atol = 1e-6f},
    {.id = OPERATOR(td, avg_pool_i8),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = mean_i8_attrs,
     .attr_count = OPS_COUNT(mean_i8_attrs),
     .by_sample = 1,
     .infer = infer_mean_i8,
     .reference = mean_i8_reference,
     .kernel = mean_i8_kernel},
    {.id = OPERATOR(td, lp_pool),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = norm_attrs,
     .attr_count = OPS_COUNT(norm_attrs),
     .by_sample = 1,
     .infer = infer_pool,
     .reference = norm_reference,
     .rtol = 1e-5f,
     .atol = 1e-6f},
    {.id = OPERATOR(td, max_unpool),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .attrs = unpool_attrs,
     .attr_count = OPS_COUNT(unpool_attrs),
     .infer = infer_unpool,
     .reference = unpool_reference},
};
OPS_TABLE(pool);
OPS_CASES(pool) = {
    {OP_td_max_pool, cases_max}, {OP_td_avg_pool, cases_mean},     {OP_td_avg_pool_i8, cases_mean_i8},
    {OP_td_lp_pool, cases_norm}, {OP_td_max_unpool, cases_unpool}, {0},
};
