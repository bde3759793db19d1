/* resize.c -- td::resize(x, [roi], [scales], [sizes]): ONNX's Resize, one axis after the other (every mode is
 * separable). Of scales and sizes that are both given, the sizes are the result's, and the scales say where pixels lie.
 * An axis is a table of taps: for each output element, which input elements and how much of each. Computed in double;
 * integers are rounded half to even and saturated. Empty operands count as absent.
 *
 * y[o] = sum over t of weight[o, t] x[index[o, t]] along each axis; nearest, linear or cubic (Keys 1981). ONNX
 * Resize 10. */
#include "kernels/data/data.h"
#include "ops/common/kernel_priv.h"

#include <math.h>
#include <string.h>

static const ir_attr resize_attrs[] = {KERN_RESIZE_LIST(OPS_ATTR_ROW)};

/* ---- sizes ---- */

static bool is_given(const ir_infer *ctx, uint32_t i) {
  const ir_info *in = ir_in(ctx, i);
  return in && !(in->type.rank == 1 && in->type.dims[0] == 0);
}

/* A size from a real number; what no tensor has is none. */
static base_dim whole(double size) { return size >= 0 && size < 9e15 ? (base_dim)floor(size) : BASE_DIM_NONE; }

static base_dim scaled_dim(ir_infer *ctx, base_dim size, double scale) {
  if (base_dim_known(size)) return whole((double)((float)size * (float)scale));
  if (scale == floor(scale)) return base_dim_mul(ctx->dims, size, base_dim_number((int64_t)scale));
  double inverse = 1 / scale;
  return inverse < 1e9 && inverse == floor(inverse) ? base_dim_div(ctx->dims, size, (int64_t)inverse) : ir_fresh(ctx);
}

static td_status infer_scales(ir_infer *ctx, const ir_type *x, const int32_t *axes, uint32_t count, base_dim *dims) {
  const base_tensor *scales = ir_in(ctx, KERN_RESIZE_SCALES)->constant;
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

static td_status infer_sizes(ir_infer *ctx, const ir_type *x, const int32_t *axes, uint32_t count, base_dim *dims) {
  const base_dim *sizes;
  uint32_t given;
  const char *policy = base_attr_str(ctx->attrs, KERN_RESIZE_POLICY);
  bool known = ir_in_ints(ctx, KERN_RESIZE_SIZES, &sizes, &given), stretch = strcmp(policy, "stretch") == 0;
  bool numbers = known;
  if (known && given != count) return ir_infer_fail(ctx, "%u sizes for %u axes", given, count);
  for (uint32_t i = 0; known && i < count; i++) numbers &= base_dim_known(sizes[i]) && base_dim_known(x->dims[axes[i]]);
  double scale = !stretch && numbers ? kern_resize_common_scale(policy, x->dims, sizes, axes, count) : 1;
  for (uint32_t i = 0; i < count; i++) {
    base_dim size = x->dims[axes[i]];
    if (stretch) dims[axes[i]] = known ? sizes[i] : ir_fresh(ctx);
    else dims[axes[i]] = numbers ? whole(scale * (double)size + 0.5) : ir_fresh(ctx);
  }
  return TD_OK;
}

static td_status infer_resize(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, KERN_RESIZE_X)->type;
  int32_t axes[BASE_MAX_RANK];
  uint32_t count;
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (kern_resize_list(ctx->attrs, x->rank, axes, &count) != TD_OK)
    return ir_infer_fail(ctx, "axes do not fit rank %d", x->rank);
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  if (is_given(ctx, KERN_RESIZE_SIZES)) TRY(infer_sizes(ctx, x, axes, count, dims));
  else if (is_given(ctx, KERN_RESIZE_SCALES)) TRY(infer_scales(ctx, x, axes, count, dims));
  else return ir_infer_fail(ctx, "neither scales nor sizes are given");
  return ir_out(ctx, 0, x->dtype, x->rank, dims);
}

/* ---- run ---- */

/* to[outer, out, inner] from from[outer, in, inner]. */
static void apply(const kern_resize_axis *a, double extrapolation, int64_t outer, int64_t inner, const base_f64 *from,
                  double *to) {
  for (int64_t i = 0; i < outer; i++) {
    for (int64_t o = 0; o < a->out; o++, to += inner) {
      for (int64_t k = 0; k < inner; k++) to[k] = a->outside[o] ? extrapolation : 0;
      for (int64_t tap = 0; !a->outside[o] && tap < a->per_output; tap++) {
        const base_f64 *row = from + (i * a->in + a->index[o * a->per_output + tap]) * inner;
        double weight = a->weight[o * a->per_output + tap];
        for (int64_t k = 0; weight != 0 && k < inner; k++) to[k] += weight * row[k];
      }
    }
  }
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
  const base_tensor *x = base_in(call, KERN_RESIZE_X), *y = base_out(call, 0);
  const double extrapolation = base_attr_float(call->attrs, KERN_RESIZE_EXTRAPOLATION);
  kern_resize_axis axes[BASE_MAX_RANK];
  uint32_t count;
  int64_t dims[BASE_MAX_RANK];
  if (base_tensor_numel(y) == 0) return TD_OK;
  if (base_tensor_numel(x) == 0) return ops_fail(call, "cannot enlarge an image without elements");
  TRY(kern_resize_axes(call, axes, &count));
  const base_f64 *from = ops_dense_f64(call, KERN_RESIZE_X);
  if (!from) return base_no_memory(call->err, "scratch");
  memcpy(dims, x->dims, sizeof dims);
  for (uint32_t i = 0; i < count; i++) {
    const kern_resize_axis *a = &axes[i];
    int64_t outer = 1, inner = 1;
    for (int32_t k = 0; k < a->axis; k++) outer *= dims[k];
    for (int32_t k = a->axis + 1; k < x->rank; k++) inner *= dims[k];
    double *to = base_call_scratch(call, (size_t)(outer * a->out), (size_t)inner * sizeof *to);
    if (!to) return base_no_memory(call->err, "scratch");
    apply(a, extrapolation, outer, inner, from, to);
    from = to;
    dims[a->axis] = a->out;
  }
  return finish(call, from);
}

/* Is the last axis not among those that change? */
static bool keeps_last(const ir_kernel_query *query) {
  const ir_info *given = query->in_count > KERN_RESIZE_SCALES ? query->in[KERN_RESIZE_SCALES] : NULL;
  const base_tensor *scales = given ? given->constant : NULL;
  const ir_type *x = &query->in[KERN_RESIZE_X]->type;
  int32_t axes[BASE_MAX_RANK];
  uint32_t count;
  if (x->rank < 1 || (given && !scales) || kern_resize_list(query->attrs, x->rank, axes, &count) != TD_OK) return false;
  for (uint32_t i = 0; scales && base_tensor_numel(scales) == count && i < count; i++)
    if (axes[i] == x->rank - 1 && base_load_f64(scales->dtype, scales->data, i * scales->strides[0]) != 1) return false;
  return x->dims[x->rank - 1] == query->out->type.dims[x->rank - 1];
}

/* Kernels move pairs of bf16. */
static bool moves_pairs(const ir_kernel_query *query) {
  const base_dim last = query->in[KERN_RESIZE_X]->type.dims[query->in[KERN_RESIZE_X]->type.rank - 1];
  return keeps_last(query) && base_dim_known(last) && last % 2 == 0 &&
         strcmp(base_attr_str(query->attrs, KERN_RESIZE_MODE), "nearest") == 0 &&
         strcmp(base_attr_str(query->attrs, KERN_RESIZE_POLICY), "stretch") == 0 &&
         strcmp(base_attr_str(query->attrs, KERN_RESIZE_COORDINATES), "tf_crop_and_resize") != 0;
}

static const kern_row *resize_kernel(const ir_kernel_query *query) {
  const td_dtype dtype = query->in[KERN_RESIZE_X] ? query->in[KERN_RESIZE_X]->type.dtype : TD_INVALID;
  const bool takes =
      dtype == TD_F32 || (dtype == TD_BF16 && query->in[KERN_RESIZE_X]->type.rank > 0 && moves_pairs(query));
  return takes ? kern_select(KERN_RESIZE, dtype, query->isa) : NULL;
}

/* ---- test cases ---- */

static bool case_scales(ir_case *c, const double *scales, int64_t count) {
  if (!ops_case_absent(c) || !ops_case_in(c, TD_F32, 1, &count, OPS_UNIT, 1)) return false;
  for (int64_t i = 0; i < count; i++) base_store_f64(TD_F32, c->in[2].data, i, scales[i]);
  return true;
}

static const double up[] = {1, 1, 2, 3}, down[] = {0.6, 0.7};
static const int64_t last_two[] = {2, 3}, sizes[] = {1, 2, 7, 3};

static bool small_cases(ir_case *c, td_dtype d, uint32_t number) {
  if (!ops_case_in(c, d, OPS_DIMS(1, 2, 5, 4), OPS_NORMAL, number)) return false;
  switch (number % 4) {
    case 0: ops_case_arg(c, ARG_STR("coordinates", "asymmetric")); return case_scales(c, up, 4);
    case 1:
      ops_case_arg(c, ARG_STR("mode", "linear"));
      ops_case_arg(c, ARG_BOOL("antialias", true));
      ops_case_arg(c, ARG_INTS("axes", last_two, 2));
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

/* Images with channels first and last, volumes, one axis of several; wider than vectors, and enlarged and shrunk. */
static const struct {
  int32_t rank;
  int64_t in[5], out[5];
  const char *mode, *coordinates;
  bool antialias;
  ops_fill fill;
} large[] = {
    {4, {2, 3, 7, 19}, {2, 3, 14, 38}, "nearest", "asymmetric", false, OPS_NORMAL},
    {4, {1, 2, 5, 33}, {1, 2, 17, 70}, "linear", "half_pixel", false, OPS_SPECIAL},
    {4, {1, 3, 40, 50}, {1, 3, 9, 21}, "cubic", "half_pixel", true, OPS_NORMAL},
    {4, {2, 6, 5, 37}, {2, 13, 11, 37}, "linear", "pytorch_half_pixel", false, OPS_NORMAL},
    {4, {1, 6, 5, 3}, {1, 13, 11, 3}, "cubic", "half_pixel", false, OPS_NORMAL},
    {4, {1, 4, 5, 80}, {1, 8, 10, 80}, "nearest", "asymmetric", false, OPS_SPECIAL},
    {5, {1, 2, 3, 4, 9}, {1, 2, 6, 7, 20}, "linear", "half_pixel", false, OPS_NORMAL},
    {5, {1, 3, 4, 5, 18}, {1, 5, 8, 9, 18}, "linear", "align_corners", false, OPS_NORMAL},
    {3, {2, 3, 41}, {2, 3, 97}, "linear", "half_pixel_symmetric", false, OPS_NORMAL},
    {3, {2, 9, 20}, {2, 4, 20}, "linear", "half_pixel", true, OPS_NORMAL},
    {2, {5, 6}, {5, 6}, "linear", "half_pixel", false, OPS_NORMAL},
};

/* Of bf16, by sizes and by scales: pairs along the last axis, any bits among them; none of them; a last axis that
 * changes; numbers that are mixed. */
static bool bf16_case(ir_case *c, uint32_t number) {
  static const struct {
    int64_t in[4], out[4];
    double scale; /* of the last axis */
    const char *mode;
  } pairs[] = {
      {{2, 4, 5, 34}, {2, 8, 11, 34}, 1, "nearest"},  {{1, 9, 7, 700}, {1, 4, 14, 700}, 1, "nearest"},
      {{1, 4, 5, 33}, {1, 8, 11, 33}, 1, "nearest"},  {{1, 4, 5, 16}, {1, 8, 11, 32}, 2, "nearest"},
      {{1, 3, 4, 2}, {1, 6, 8, 2}, 1.125, "nearest"}, {{1, 3, 4, 16}, {1, 6, 8, 16}, 1, "linear"},
  };
  if (number >= 2 * OPS_COUNT(pairs)) return false;
  const int64_t *in = pairs[number / 2].in, *out = pairs[number / 2].out;
  double scales[] = {1, 0, 0, pairs[number / 2].scale};
  for (int i = 1; i < 3; i++) scales[i] = (double)out[i] / (double)in[i];
  ops_case_arg(c, ARG_STR("mode", pairs[number / 2].mode));
  if (!ops_case_in(c, TD_BF16, 4, in, OPS_SPECIAL, number)) return false;
  return number % 2 ? case_scales(c, scales, 4) : ops_case_absent(c) && ops_case_absent(c) && ops_case_ints(c, out, 4);
}

static bool cases_resize(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_U8};
  const uint32_t small = 4 * OPS_COUNT(dtypes);
  if (number < small) return small_cases(c, dtypes[number / 4], number);
  number -= small;
  if (number >= OPS_COUNT(large)) return bf16_case(c, number - OPS_COUNT(large));
  ops_case_arg(c, ARG_STR("mode", large[number].mode));
  ops_case_arg(c, ARG_STR("coordinates", large[number].coordinates));
  ops_case_arg(c, ARG_BOOL("antialias", large[number].antialias));
  return ops_case_in(c, TD_F32, large[number].rank, large[number].in, large[number].fill, number) &&
         ops_case_absent(c) && ops_case_absent(c) && ops_case_ints(c, large[number].out, (uint32_t)large[number].rank);
}

/* The first axis is scaled by 1. Sizes would name how many samples there are in all. */
static bool resize_keeps_samples(const ir_samples_query *query) {
  enum { SCALES = 2, SIZES = 3 };
  uint32_t axes;
  base_attr_ints(query->attrs, KERN_RESIZE_AXES, &axes);
  if (axes || strcmp(base_attr_str(query->attrs, KERN_RESIZE_COORDINATES), "tf_crop_and_resize") == 0) return false;
  const base_tensor *scales = query->count > SCALES && query->count <= SIZES ? query->constants[SCALES] : NULL;
  return scales && scales->rank == 1 && scales->dims[0] == query->rank &&
         base_load_f64(scales->dtype, scales->data, 0) == 1;
}

OPS_DECLARE(resize);
const ir_op ops_resize[] = {
    {.id = OPERATOR(td, resize),
     .min_in = 1,
     .max_in = 4,
     .out_count = 1,
     .attrs = resize_attrs,
     .attr_count = OPS_COUNT(resize_attrs),
     .infer = infer_resize,
     .reference = resize_reference,
     .kernel = resize_kernel,
     .by_sample = 1,
     .keeps_samples = resize_keeps_samples,
     .rtol = 1e-5f,
     .atol = 1e-5f},
};
OPS_TABLE(resize);
OPS_CASES(resize) = {
    {OP_td_resize, cases_resize},
    {0},
};
