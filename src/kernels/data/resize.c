/* resize.c -- see data.h. Coordinates are computed in f32, as every engine that models were exported for does: in
 * double a scale such as 0.6f lands on the other side of a pixel's edge. */
#include "kernels/data/data.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

td_status kern_resize_list(const base_attrs *attrs, int32_t rank, int32_t *axes, uint32_t *count) {
  uint32_t given;
  const int64_t *list = base_attr_ints(attrs, KERN_RESIZE_AXES, &given);
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

double kern_resize_common_scale(const char *policy, const int64_t *in, const int64_t *wanted, const int32_t *axes,
                                uint32_t count) {
  bool least = strcmp(policy, "not_larger") == 0;
  double scale = least ? INFINITY : 0;
  for (uint32_t i = 0; i < count; i++) {
    double own = (double)wanted[i] / (double)in[axes[i]];
    scale = least ? fmin(scale, own) : fmax(scale, own);
  }
  return scale;
}

/* ---- coordinates ---- */

typedef struct resize_axis {
  int64_t in, out;
  double scale, roi_start, roi_end; /* numbers of f32, unless fine */
  bool fine;
} resize_axis;

/* Positions are computed step by step in f32, as engines do whose nearest neighbours must be found; between elements of
 * f64 in f64. */
static double cut(const resize_axis *a, double value) { return a->fine ? value : (double)(float)value; }

static double resized(const resize_axis *a) { return cut(a, a->scale * cut(a, (double)a->in)); }
static double past(const resize_axis *a, double y) { return cut(a, cut(a, y + 0.5) / a->scale); }
static double half_pixel(const resize_axis *a, double y) { return cut(a, past(a, y) - 0.5); }
static double half_pixel_symmetric(const resize_axis *a, double y) {
  const double share = cut(a, 1 - cut(a, cut(a, (double)a->out) / resized(a)));
  return cut(a, cut(a, cut(a, (double)a->in) / 2 * share) + half_pixel(a, y));
}
static double pytorch_half_pixel(const resize_axis *a, double y) { return resized(a) == 1 ? -0.5 : half_pixel(a, y); }
static double align_corners(const resize_axis *a, double y) {
  return resized(a) == 1 ? 0 : cut(a, cut(a, y * cut(a, (double)a->in - 1)) / cut(a, resized(a) - 1));
}
static double asymmetric(const resize_axis *a, double y) { return cut(a, y / a->scale); }
static double tf_crop_and_resize(const resize_axis *a, double y) {
  const double size = cut(a, a->roi_end - a->roi_start), last = cut(a, (double)a->in - 1);
  const double inside =
      resized(a) == 1 ? cut(a, size * last) / 2 : cut(a, cut(a, cut(a, y * size) * last) / cut(a, resized(a) - 1));
  return cut(a, inside + cut(a, a->roi_start * last));
}

typedef double (*coordinate_fn)(const resize_axis *a, double y);
static const struct {
  const char *name;
  coordinate_fn at;
} coordinates[] = {{"half_pixel", half_pixel},
                   {"half_pixel_symmetric", half_pixel_symmetric},
                   {"pytorch_half_pixel", pytorch_half_pixel},
                   {"align_corners", align_corners},
                   {"asymmetric", asymmetric},
                   {"tf_half_pixel_for_nn", past},
                   {"tf_crop_and_resize", tf_crop_and_resize}};

static double prefer_floor(double x) { return ceil(x - 0.5); }
static double prefer_ceil(double x) { return floor(x + 0.5); }
static const struct {
  const char *name;
  double (*round)(double x);
} nearest_modes[] = {
    {"round_prefer_floor", prefer_floor}, {"round_prefer_ceil", prefer_ceil}, {"floor", floor}, {"ceil", ceil}};

/* ---- taps ---- */

static td_status resize_fail(const base_call *call, const char *format, ...) BASE_PRINTF(2, 3);
static td_status resize_fail(const base_call *call, const char *format, ...) {
  char text[160];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::resize: %s", text);
}

typedef struct taps {
  int64_t per_output;
  int64_t *index;
  double *weight;
  bool *outside;
} taps;

typedef struct sampling {
  coordinate_fn at;
  double (*round)(double x); /* nearest */
  int support;               /* 0: nearest, 1: linear, 2: cubic */
  double cubic_a;
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
  double x = s->at(a, cut(a, (double)o)), stretch = s->antialias && a->scale < 1 ? a->scale : 1, sum = 0;
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
  if (!(stretch > 1e-9)) return resize_fail(call, "a scale of %g is too small", (double)a->scale);
  t->per_output = s->support == 0 ? 1 : 2 - 2 * ((int64_t)floor(-s->support / stretch) + 1);
  if (t->per_output > 2 * s->support * (a->in + 2) + 8)
    return resize_fail(call, "a scale of %g is too small", (double)a->scale);
  t->index = base_call_scratch(call, (size_t)a->out, (size_t)t->per_output * sizeof *t->index);
  t->weight = base_call_scratch(call, (size_t)a->out, (size_t)t->per_output * sizeof *t->weight);
  t->outside = base_call_scratch(call, (size_t)a->out, sizeof *t->outside);
  if (!t->index || !t->weight || !t->outside) return base_no_memory(call->err, "scratch");
  for (int64_t o = 0; o < a->out; o++) make_row(s, a, o, t);
  return TD_OK;
}

/* ---- of a call ---- */

static td_status read_sampling(const base_call *call, sampling *s) {
  const base_attrs *attrs = call->attrs;
  const char *mode = base_attr_str(attrs, KERN_RESIZE_MODE), *at = base_attr_str(attrs, KERN_RESIZE_COORDINATES),
             *round = base_attr_str(attrs, KERN_RESIZE_NEAREST);
  *s = (sampling){.support = strcmp(mode, "nearest") == 0  ? 0
                             : strcmp(mode, "linear") == 0 ? 1
                             : strcmp(mode, "cubic") == 0  ? 2
                                                           : -1,
                  .cubic_a = base_attr_float(attrs, KERN_RESIZE_CUBIC_A),
                  .exclude_outside = base_attr_int(attrs, KERN_RESIZE_EXCLUDE_OUTSIDE),
                  .antialias = base_attr_int(attrs, KERN_RESIZE_ANTIALIAS),
                  .extrapolates = strcmp(at, "tf_crop_and_resize") == 0};
  for (size_t i = 0; i < sizeof coordinates / sizeof *coordinates; i++)
    if (strcmp(coordinates[i].name, at) == 0) s->at = coordinates[i].at;
  for (size_t i = 0; i < sizeof nearest_modes / sizeof *nearest_modes; i++)
    if (strcmp(nearest_modes[i].name, round) == 0) s->round = nearest_modes[i].round;
  if (s->support < 0 || !s->at || !s->round)
    return resize_fail(call, "unknown mode \"%s\", \"%s\" or \"%s\"", mode, at, round);
  return TD_OK;
}

static const base_tensor *given(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return t && base_tensor_numel(t) > 0 ? t : NULL;
}

static double element(const base_tensor *t, int64_t i) {
  return base_load_f64(t->dtype, t->data, t->rank ? i * t->strides[0] : 0);
}

/* The scale of axis number i: given, or that of the sizes. */
static double scale_of(const base_call *call, const int32_t *axes, uint32_t count, uint32_t i) {
  const base_tensor *x = base_in(call, KERN_RESIZE_X), *y = base_out(call, 0), *sizes = given(call, KERN_RESIZE_SIZES);
  const base_tensor *scales = given(call, KERN_RESIZE_SCALES);
  const char *policy = base_attr_str(call->attrs, KERN_RESIZE_POLICY);
  if (scales) return element(scales, i); /* with sizes too: those say how much of it there is */
  if (strcmp(policy, "stretch") == 0) return (double)y->dims[axes[i]] / (double)x->dims[axes[i]];
  int64_t wanted[BASE_MAX_RANK];
  for (uint32_t k = 0; k < count; k++) wanted[k] = base_load_i64(sizes->dtype, sizes->data, k * sizes->strides[0]);
  return kern_resize_common_scale(policy, x->dims, wanted, axes, count);
}

static td_status check_roi(const base_call *call, uint32_t count) {
  const base_tensor *roi = given(call, KERN_RESIZE_ROI);
  if (strcmp(base_attr_str(call->attrs, KERN_RESIZE_COORDINATES), "tf_crop_and_resize") != 0) return TD_OK;
  if (!roi || roi->rank != 1 || roi->dims[0] != 2 * (int64_t)count)
    return resize_fail(call, "roi must list %u starts and ends", count);
  return TD_OK;
}

td_status kern_resize_axes(const base_call *call, kern_resize_axis *made, uint32_t *made_count) {
  const base_tensor *x = base_in(call, KERN_RESIZE_X), *y = base_out(call, 0);
  sampling s;
  int32_t axes[BASE_MAX_RANK];
  uint32_t count;
  *made_count = 0;
  if (kern_resize_list(call->attrs, x->rank, axes, &count) != TD_OK)
    return resize_fail(call, "axes do not fit rank %d", x->rank);
  TRY(read_sampling(call, &s));
  TRY(check_roi(call, count));
  const base_tensor *roi = s.extrapolates ? given(call, KERN_RESIZE_ROI) : NULL;
  for (uint32_t i = 0; i < count; i++) {
    int32_t axis = axes[i];
    resize_axis a = {.in = x->dims[axis], .out = y->dims[axis], .roi_end = 1, .fine = s.support && x->dtype == TD_F64};
    a.scale = cut(&a, scale_of(call, axes, count, i));
    if (roi) a.roi_start = cut(&a, element(roi, i)), a.roi_end = cut(&a, element(roi, count + i));
    if (a.in == a.out && a.scale == 1 && a.roi_start == 0 && a.roi_end == 1) continue;
    taps t = {0};
    TRY(make_taps(call, &s, &a, &t));
    made[(*made_count)++] = (kern_resize_axis){.axis = axis,
                                               .in = a.in,
                                               .out = a.out,
                                               .per_output = t.per_output,
                                               .index = t.index,
                                               .weight = t.weight,
                                               .outside = t.outside};
  }
  return TD_OK;
}
