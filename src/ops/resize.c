/* resize.c -- td::resize(x, [roi], [scales], [sizes]): ONNX's Resize, one axis after the other (every mode is
 * separable). An axis is a table of taps: for each output element, which input elements and how much of each. Computed
 * in double; integers are rounded half to even and saturated. Empty operands count as absent. */
#include "ops/ops_priv.h"

#include <math.h>
#include <string.h>

enum { X, ROI, SCALES, SIZES };
enum { MODE, COORDINATES, NEAREST, CUBIC_A, EXCLUDE_OUTSIDE, EXTRAPOLATION, ANTIALIAS, POLICY, AXES };
static const ir_attr resize_attrs[] = {
    ATTR_STR("mode", "nearest"),   ATTR_STR("coordinates", "half_pixel"), ATTR_STR("nearest", "round_prefer_floor"),
    ATTR_FLOAT("cubic_a", -0.75),  ATTR_BOOL("exclude_outside", false),   ATTR_FLOAT("extrapolation", 0),
    ATTR_BOOL("antialias", false), ATTR_STR("policy", "stretch"),         ATTR_INTS("axes")}; /* empty: all */

/* ---- sizes ---- */

static bool is_given(const ir_infer *ctx, uint32_t i) {
  const ir_info *in = ir_in(ctx, i);
  return in && !(in->type.rank == 1 && in->type.dims[0] == 0);
}

/* Which axis each number of scales, sizes and roi belongs to; no axis twice. */
static td_status read_axes(const base_attrs *attrs, int32_t rank, int32_t *axes, uint32_t *count) {
  uint32_t given;
  const int64_t *list = base_attr_ints(attrs, AXES, &given);
  uint64_t seen = 0;
  *count = given ? given : (uint32_t)rank;
  if (*count > (uint32_t)rank) return TD_BAD_FILE;
  for (uint32_t i = 0; i < *count; i++) {
    int64_t axis = given ? list[i] : (int64_t)i;
    if (axis < -rank || axis >= rank) return TD_BAD_FILE;
    axes[i] = (int32_t)(axis < 0 ? axis + rank : axis);
    if (seen >> axes[i] & 1) return TD_BAD_FILE;
    seen |= (uint64_t)1 << axes[i];
  }
  return TD_OK;
}

/* A size from a real number; what no tensor has is none. */
static base_dim whole(double size) { return size >= 0 && size < 9e15 ? (base_dim)floor(size) : BASE_DIM_NONE; }

static base_dim scaled_dim(ir_infer *ctx, base_dim size, double scale) {
  if (base_dim_known(size)) return whole((double)((float)size * (float)scale));
  if (scale == floor(scale)) return base_dim_mul(ctx->dims, size, base_dim_number((int64_t)scale));
  double inverse = 1 / scale;
  return inverse == floor(inverse) ? base_dim_div(ctx->dims, size, (int64_t)inverse) : ir_fresh(ctx);
}

static td_status infer_scales(ir_infer *ctx, const ir_type *x, const int32_t *axes, uint32_t count, base_dim *dims) {
  const base_tensor *scales = ir_in(ctx, SCALES)->constant;
  if (scales && scales->rank > 1) return ir_infer_fail(ctx, "the scales must be a vector");
  if (scales && base_tensor_numel(scales) != count)
    return ir_infer_fail(ctx, "%lld scales for %u axes", (long long)base_tensor_numel(scales), count);
  for (uint32_t i = 0; i < count; i++) {
    double scale = scales ? base_load_f64(scales->dtype, scales->data, i * (scales->rank ? scales->strides[0] : 0)) : 0;
    if (scales && !(scale > 0 && scale < 1e9)) return ir_infer_fail(ctx, "a scale of %g", scale);
    dims[axes[i]] = scales ? scaled_dim(ctx, x->dims[axes[i]], scale) : ir_fresh(ctx);
  }
  return TD_OK;
}

/* One scale for all axes, that of the axis it grows least (not_larger) or most. */
static double common_scale(const char *policy, const int64_t *in, const int64_t *wanted, const int32_t *axes,
                           uint32_t count) {
  bool least = strcmp(policy, "not_larger") == 0;
  double scale = least ? INFINITY : 0;
  for (uint32_t i = 0; i < count; i++) {
    double own = (double)wanted[i] / (double)in[axes[i]];
    scale = least ? fmin(scale, own) : fmax(scale, own);
  }
  return scale;
}

static td_status infer_sizes(ir_infer *ctx, const ir_type *x, const int32_t *axes, uint32_t count, base_dim *dims) {
  const base_dim *sizes;
  uint32_t given;
  const char *policy = base_attr_str(ctx->attrs, POLICY);
  bool known = ir_in_ints(ctx, SIZES, &sizes, &given), stretch = strcmp(policy, "stretch") == 0, numbers = known;
  if (known && given != count) return ir_infer_fail(ctx, "%u sizes for %u axes", given, count);
  for (uint32_t i = 0; known && i < count; i++) numbers &= base_dim_known(sizes[i]) && base_dim_known(x->dims[axes[i]]);
  double scale = !stretch && numbers ? common_scale(policy, x->dims, sizes, axes, count) : 1;
  for (uint32_t i = 0; i < count; i++) {
    base_dim size = x->dims[axes[i]];
    if (stretch) dims[axes[i]] = known ? sizes[i] : ir_fresh(ctx);
    else dims[axes[i]] = numbers ? whole(scale * (double)size + 0.5) : ir_fresh(ctx);
  }
  return TD_OK;
}

static td_status infer_resize(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, X)->type;
  int32_t axes[BASE_MAX_RANK];
  uint32_t count;
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (read_axes(ctx->attrs, x->rank, axes, &count) != TD_OK)
    return ir_infer_fail(ctx, "axes do not fit rank %d", x->rank);
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  if (is_given(ctx, SIZES)) TRY(infer_sizes(ctx, x, axes, count, dims));
  else if (is_given(ctx, SCALES)) TRY(infer_scales(ctx, x, axes, count, dims));
  else return ir_infer_fail(ctx, "neither scales nor sizes are given");
  return ir_out(ctx, 0, x->dtype, x->rank, dims);
}

/* ---- coordinates ---- */

/* Coordinates are computed in f32, as every engine that models were exported for does: in double a scale such as 0.6f
 * lands on the other side of a pixel's edge. */
typedef struct resize_axis {
  int64_t in, out;
  float scale, roi_start, roi_end;
} resize_axis;

static float resized(const resize_axis *a) { return a->scale * (float)a->in; }
static float half_pixel(const resize_axis *a, float y) { return (y + 0.5f) / a->scale - 0.5f; }
static float half_pixel_symmetric(const resize_axis *a, float y) {
  return (float)a->in / 2 * (1 - (float)a->out / resized(a)) + half_pixel(a, y);
}
static float pytorch_half_pixel(const resize_axis *a, float y) { return resized(a) == 1 ? -0.5f : half_pixel(a, y); }
static float align_corners(const resize_axis *a, float y) {
  return resized(a) == 1 ? 0 : y * (float)(a->in - 1) / (resized(a) - 1);
}
static float asymmetric(const resize_axis *a, float y) { return y / a->scale; }
static float tf_half_pixel_for_nn(const resize_axis *a, float y) { return (y + 0.5f) / a->scale; }
static float tf_crop_and_resize(const resize_axis *a, float y) {
  float size = a->roi_end - a->roi_start, last = (float)(a->in - 1);
  float inside = resized(a) == 1 ? size * last / 2 : y * size * last / (resized(a) - 1);
  return inside + a->roi_start * last;
}

typedef float (*coordinate_fn)(const resize_axis *a, float y);
static const struct {
  const char *name;
  coordinate_fn at;
} coordinates[] = {{"half_pixel", half_pixel},
                   {"half_pixel_symmetric", half_pixel_symmetric},
                   {"pytorch_half_pixel", pytorch_half_pixel},
                   {"align_corners", align_corners},
                   {"asymmetric", asymmetric},
                   {"tf_half_pixel_for_nn", tf_half_pixel_for_nn},
                   {"tf_crop_and_resize", tf_crop_and_resize}};

static double prefer_floor(double x) { return ceil(x - 0.5); }
static double prefer_ceil(double x) { return floor(x + 0.5); }
static const struct {
  const char *name;
  double (*round)(double x);
} nearest_modes[] = {
    {"round_prefer_floor", prefer_floor}, {"round_prefer_ceil", prefer_ceil}, {"floor", floor}, {"ceil", ceil}};

/* ---- taps ---- */

typedef struct taps {
  int64_t per_output;
  int64_t *index; /* [out, per_output] */
  double *weight;
  bool *outside; /* [out]: takes the extrapolation value */
} taps;

typedef struct sampling {
  coordinate_fn at;
  double (*round)(double x); /* nearest */
  int support;               /* 0: nearest, 1: linear, 2: cubic */
  double cubic_a, extrapolation;
  bool exclude_outside, antialias, extrapolates;
} sampling;

/* Linear and cubic convolution kernels (Keys 1981). */
static double kernel(const sampling *s, double t) {
  double x = fabs(t), a = s->cubic_a;
  if (s->support == 1) return x < 1 ? 1 - x : 0;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static void make_row(const sampling *s, const resize_axis *a, int64_t o, taps *t) {
  double x = (double)s->at(a, (float)o), stretch = s->antialias && a->scale < 1 ? (double)a->scale : 1, sum = 0;
  int64_t *index = t->index + o * t->per_output, last = a->in - 1;
  double *weight = t->weight + o * t->per_output;
  t->outside[o] = s->extrapolates && (x < 0 || x > (double)last);
  if (!(fabs(x) < 1e15)) x = 0;
  if (s->support == 0) {
    *index = base_max_i64(0, base_min_i64(last, (int64_t)s->round(x)));
    *weight = 1;
    return;
  }
  /* An even number of taps around x; of an integer x the left neighbour counts as the one below. */
  int64_t first = (int64_t)ceil(x) - t->per_output / 2;
  for (int64_t k = 0; k < t->per_output; k++) {
    int64_t at = first + k;
    weight[k] = kernel(s, ((double)at - x) * stretch);
    if (s->exclude_outside && (at < 0 || at > last)) weight[k] = 0;
    index[k] = base_max_i64(0, base_min_i64(last, at));
    sum += weight[k];
  }
  for (int64_t k = 0; (s->antialias || s->exclude_outside) && sum != 0 && k < t->per_output; k++) weight[k] /= sum;
}

static td_status make_taps(const base_call *call, const sampling *s, const resize_axis *a, taps *t) {
  double stretch = s->antialias && a->scale < 1 ? (double)a->scale : 1;
  if (!(stretch > 1e-9)) return ops_fail(call, "a scale of %g is too small", (double)a->scale);
  t->per_output = s->support == 0 ? 1 : 2 - 2 * ((int64_t)floor(-s->support / stretch) + 1);
  if (t->per_output > 2 * s->support * (a->in + 2) + 8)
    return ops_fail(call, "a scale of %g is too small", (double)a->scale);
  t->index = base_call_scratch(call, (size_t)a->out, (size_t)t->per_output * sizeof *t->index);
  t->weight = base_call_scratch(call, (size_t)a->out, (size_t)t->per_output * sizeof *t->weight);
  t->outside = base_call_scratch(call, (size_t)a->out, sizeof *t->outside);
  if (!t->index || !t->weight || !t->outside) return base_no_memory(call->err, "scratch");
  for (int64_t o = 0; o < a->out; o++) make_row(s, a, o, t);
  return TD_OK;
}

/* to[outer, out, inner] from from[outer, in, inner]. */
static void apply(const taps *t, const sampling *s, const resize_axis *a, int64_t outer, int64_t inner,
                  const base_f64 *from, double *to) {
  for (int64_t i = 0; i < outer; i++) {
    for (int64_t o = 0; o < a->out; o++, to += inner) {
      for (int64_t k = 0; k < inner; k++) to[k] = t->outside[o] ? s->extrapolation : 0;
      for (int64_t tap = 0; !t->outside[o] && tap < t->per_output; tap++) {
        const base_f64 *row = from + (i * a->in + t->index[o * t->per_output + tap]) * inner;
        double weight = t->weight[o * t->per_output + tap];
        for (int64_t k = 0; weight != 0 && k < inner; k++) to[k] += weight * row[k];
      }
    }
  }
}

/* ---- run ---- */

static td_status read_sampling(const base_call *call, sampling *s) {
  const base_attrs *attrs = call->attrs;
  const char *mode = base_attr_str(attrs, MODE), *at = base_attr_str(attrs, COORDINATES),
             *round = base_attr_str(attrs, NEAREST);
  *s = (sampling){.support = strcmp(mode, "nearest") == 0  ? 0
                             : strcmp(mode, "linear") == 0 ? 1
                             : strcmp(mode, "cubic") == 0  ? 2
                                                           : -1,
                  .cubic_a = base_attr_float(attrs, CUBIC_A),
                  .extrapolation = base_attr_float(attrs, EXTRAPOLATION),
                  .exclude_outside = base_attr_int(attrs, EXCLUDE_OUTSIDE),
                  .antialias = base_attr_int(attrs, ANTIALIAS),
                  .extrapolates = strcmp(at, "tf_crop_and_resize") == 0};
  for (size_t i = 0; i < sizeof coordinates / sizeof *coordinates; i++)
    if (strcmp(coordinates[i].name, at) == 0) s->at = coordinates[i].at;
  for (size_t i = 0; i < sizeof nearest_modes / sizeof *nearest_modes; i++)
    if (strcmp(nearest_modes[i].name, round) == 0) s->round = nearest_modes[i].round;
  if (s->support < 0 || !s->at || !s->round)
    return ops_fail(call, "unknown mode \"%s\", \"%s\" or \"%s\"", mode, at, round);
  return TD_OK;
}

static const base_tensor *given(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return t && base_tensor_numel(t) > 0 ? t : NULL;
}

static double element(const base_tensor *t, int64_t i) {
  return base_load_f64(t->dtype, t->data, t->rank ? i * t->strides[0] : 0);
}

/* The scale of axis number i: given, or that of its sizes. */
static double scale_of(const base_call *call, const int32_t *axes, uint32_t count, uint32_t i) {
  const base_tensor *x = base_in(call, X), *y = base_out(call, 0), *sizes = given(call, SIZES);
  const char *policy = base_attr_str(call->attrs, POLICY);
  if (!sizes) return element(given(call, SCALES), i);
  if (strcmp(policy, "stretch") == 0) return (double)y->dims[axes[i]] / (double)x->dims[axes[i]];
  int64_t wanted[BASE_MAX_RANK];
  for (uint32_t k = 0; k < count; k++) wanted[k] = base_load_i64(sizes->dtype, sizes->data, k * sizes->strides[0]);
  return common_scale(policy, x->dims, wanted, axes, count);
}

static td_status check_roi(const base_call *call, uint32_t count) {
  const base_tensor *roi = given(call, ROI);
  if (strcmp(base_attr_str(call->attrs, COORDINATES), "tf_crop_and_resize") != 0) return TD_OK;
  if (!roi || roi->rank != 1 || roi->dims[0] != 2 * (int64_t)count)
    return ops_fail(call, "roi must list %u starts and ends", count);
  return TD_OK;
}

static td_status finish(const base_call *call, const base_f64 *from) {
  const base_tensor *y = base_out(call, 0);
  int64_t count = base_tensor_numel(y);
  if (base_is_float(y->dtype)) {
    base_convert(y->dtype, y->data, TD_F64, from, count, false);
    return TD_OK;
  }
  double *rounded = base_call_scratch(call, (size_t)count, sizeof *rounded);
  if (!rounded) return base_no_memory(call->err, "scratch");
  for (int64_t k = 0; k < count; k++) rounded[k] = nearbyint(from[k]);
  base_convert(y->dtype, y->data, TD_F64, rounded, count, false);
  return TD_OK;
}

static td_status resize_reference(const base_call *call) {
  const base_tensor *x = base_in(call, X), *y = base_out(call, 0);
  sampling s;
  int32_t axes[BASE_MAX_RANK];
  uint32_t count;
  int64_t dims[BASE_MAX_RANK];
  if (base_tensor_numel(y) == 0) return TD_OK;
  if (base_tensor_numel(x) == 0) return ops_fail(call, "cannot enlarge an image without elements");
  if (read_axes(call->attrs, x->rank, axes, &count) != TD_OK) return ops_fail(call, "axes do not fit rank %d", x->rank);
  TRY(read_sampling(call, &s));
  TRY(check_roi(call, count));
  const base_tensor *roi = s.extrapolates ? given(call, ROI) : NULL;
  const base_f64 *from = ops_dense_f64(call, X);
  if (!from) return base_no_memory(call->err, "scratch");
  memcpy(dims, x->dims, sizeof dims);
  for (uint32_t i = 0; i < count; i++) {
    int32_t axis = axes[i];
    resize_axis a = {
        .in = x->dims[axis], .out = y->dims[axis], .scale = (float)scale_of(call, axes, count, i), .roi_end = 1};
    if (roi) a.roi_start = (float)element(roi, i), a.roi_end = (float)element(roi, count + i);
    if (a.in == a.out && a.scale == 1 && a.roi_start == 0 && a.roi_end == 1) continue;
    int64_t outer = 1, inner = 1;
    for (int32_t k = 0; k < axis; k++) outer *= dims[k];
    for (int32_t k = axis + 1; k < x->rank; k++) inner *= dims[k];
    taps t = {0};
    TRY(make_taps(call, &s, &a, &t));
    double *to = base_call_scratch(call, (size_t)(outer * a.out), (size_t)inner * sizeof *to);
    if (!to) return base_no_memory(call->err, "scratch");
    apply(&t, &s, &a, outer, inner, from, to);
    from = to;
    dims[axis] = a.out;
  }
  return finish(call, from);
}

static bool case_scales(ir_case *c, const double *scales, int64_t count) {
  if (!ops_case_absent(c) || !ops_case_in(c, TD_F32, 1, &count, OPS_UNIT, 1)) return false;
  for (int64_t i = 0; i < count; i++) base_store_f64(TD_F32, c->in[2].data, i, scales[i]);
  return true;
}

static bool cases_resize(ir_case *c, uint32_t number) {
  static const double up[] = {1, 1, 2, 3}, down[] = {0.6, 0.7};
  static const int64_t last[] = {2, 3}, sizes[] = {1, 2, 7, 3};
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_U8};
  if (number >= 4 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 4];
  if (!ops_case_in(c, d, OPS_DIMS(1, 2, 5, 4), OPS_NORMAL, number)) return false;
  switch (number % 4) {
    case 0: ops_case_arg(c, ARG_STR("coordinates", "asymmetric")); return case_scales(c, up, 4);
    case 1:
      ops_case_arg(c, ARG_STR("mode", "linear"));
      ops_case_arg(c, ARG_BOOL("antialias", true));
      ops_case_arg(c, ARG_INTS("axes", last, 2));
      return case_scales(c, down, 2);
    case 2:
      ops_case_arg(c, ARG_STR("mode", "cubic"));
      ops_case_arg(c, ARG_BOOL("exclude_outside", true));
      return ops_case_absent(c) && ops_case_absent(c) && ops_case_ints(c, sizes, 4);
    default:
      ops_case_arg(c, ARG_STR("mode", "linear"));
      ops_case_arg(c, ARG_STR("coordinates", "align_corners"));
      return ops_case_absent(c) && ops_case_absent(c) && ops_case_ints(c, sizes, 4);
  }
}

OPS_DECLARE(resize);
const ir_op ops_resize[] = {
    {.name = "td::resize",
     .min_in = 1,
     .max_in = 4,
     .out_count = 1,
     .attrs = resize_attrs,
     .attr_count = OPS_COUNT(resize_attrs),
     .infer = infer_resize,
     .reference = resize_reference,
     .rtol = 1e-5f,
     .atol = 1e-6f,
     .cases = cases_resize},
};
OPS_TABLE(resize);
