/* convolution.c -- aten::convolution over 1 to 3 spatial dims: x [N, C, in...], w [M, C / groups, kernel...]
 * (transposed: [C, M / groups, kernel...]), bias [M]. f16 and bf16 are summed in f32 and rounded once; sums of
 * integers wrap, as PyTorch's do. `output_size` (transposed only) fixes the output's size and distributes the padding
 * that this takes; `auto_pad` says to which side the odd one goes.
 *
 * y[n, m, o] = bias[m] + sum over c, t of w[m, c, t] x[n, c, o stride - padding + t dilation], c over the channels
 * of m's group, t over the window; transposed: the gradient of that. PyTorch's convolution; ONNX Conv 1,
 * ConvTranspose 1. */
#include "ops/common/convolution_priv.h"

#include <string.h>

#define CONV_T float
#define CONV_U base_f32
#define CONV(name) name##_f32
#include "ops/common/convolution_body_priv.h"
#undef CONV_T
#undef CONV_U
#undef CONV
#define CONV_T double
#define CONV_U base_f64
#define CONV(name) name##_f64
#include "ops/common/convolution_body_priv.h"
#undef CONV_T
#undef CONV_U
#undef CONV
#define CONV_T uint64_t
#define CONV_U base_u64
#define CONV(name) name##_u64
#include "ops/common/convolution_body_priv.h"

static const ir_attr conv_attrs[] = {CONV_ATTR_ROWS};

/* ---- shapes ---- */

static base_dim transposed_out(ir_infer *ctx, int32_t spatial, int32_t i, base_dim in, base_dim kernel) {
  base_dims *d = ctx->dims;
  const base_attrs *a = ctx->attrs;
  int64_t fixed = base_attr_int_at(a, CONV_OUTPUT_SIZE, i, -1), stride = base_attr_int_at(a, KERN_WINDOW_STRIDE, i, 1);
  /* The usual ones, which enlarge by the stride, are that: in * stride. */
  base_dim enlarged = base_dim_mul(d, in, stride);
  base_dim reach = base_dim_mul(d, base_dim_sub(d, kernel, 1), base_attr_int_at(a, KERN_WINDOW_DILATION, i, 1));
  base_dim more = base_dim_add(d, reach, base_dim_number(1 + base_attr_int_at(a, CONV_OUTPUT_PADDING, i, 0) - stride));
  base_dim all = base_dim_add(d, enlarged, more);
  if (fixed >= 0) return all == BASE_DIM_NONE ? BASE_DIM_NONE : fixed;
  if (*base_attr_str(a, KERN_WINDOW_AUTO_PAD)) return base_dim_binary(d, BASE_DIM_MIN, enlarged, all);
  int64_t padding =
      base_attr_int_at(a, KERN_WINDOW_PADDING, i, 0) + base_attr_int_at(a, KERN_WINDOW_PADDING, spatial + i, 0);
  return base_dim_add(d, enlarged, base_dim_sub(d, more, base_dim_number(padding)));
}

static td_status check_channels(ir_infer *ctx, base_dim channels, base_dim rows, base_dim weight_in, int64_t groups) {
  bool transposed = base_attr_int(ctx->attrs, CONV_TRANSPOSED);
  if (groups < 1 || groups > INT32_MAX) return ir_infer_fail(ctx, "groups is %lld", (long long)groups);
  if (!base_dim_known(channels) || !base_dim_known(rows) || !base_dim_known(weight_in)) return TD_OK;
  int64_t expected;
  if (transposed) expected = rows;
  else if (!base_mul_i64(weight_in, groups, &expected)) expected = -1;
  if (channels != expected || rows % groups != 0)
    return ir_infer_fail(ctx, "%lld input channels do not fit weights of %lld by %lld channels in %lld groups",
                         (long long)channels, (long long)rows, (long long)weight_in, (long long)groups);
  return TD_OK;
}

td_status ops_infer_convolution(ir_infer *ctx, uint32_t x_index, uint32_t w_index, td_dtype dtype) {
  const ir_type *x = &ir_in(ctx, x_index)->type, *w = &ir_in(ctx, w_index)->type;
  if (x->rank == IR_UNRANKED && w->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, dtype);
  int32_t rank = x->rank == IR_UNRANKED ? w->rank : x->rank, spatial = rank - 2;
  TRY(ops_window_check(ctx, spatial));
  TRY(ops_window_check_list(ctx, CONV_OUTPUT_PADDING, (uint32_t)spatial, false));
  TRY(ops_window_check_list(ctx, CONV_OUTPUT_SIZE, (uint32_t)spatial, false));
  if (x->rank == IR_UNRANKED || w->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, dtype);
  if (w->rank != rank)
    return ir_infer_fail(ctx, "an image of rank %d and weights of rank %d do not fit", rank, w->rank);
  int64_t groups = base_attr_int(ctx->attrs, CONV_GROUPS);
  TRY(check_channels(ctx, x->dims[1], w->dims[0], w->dims[1], groups));
  bool transposed = base_attr_int(ctx->attrs, CONV_TRANSPOSED);
  base_dim dims[BASE_MAX_RANK] = {x->dims[0], transposed ? base_dim_mul(ctx->dims, w->dims[1], groups) : w->dims[0]};
  for (int32_t i = 0; i < spatial; i++)
    dims[2 + i] = transposed ? transposed_out(ctx, spatial, i, x->dims[2 + i], w->dims[2 + i])
                             : ops_window_out(ctx, spatial, i, x->dims[2 + i], w->dims[2 + i], false);
  return ir_out(ctx, 0, dtype, rank, dims);
}

static td_status infer_convolution(ir_infer *ctx) {
  TRY(ops_same_dtype(ctx, 0, 1));
  TRY(ops_same_dtype(ctx, 0, 2));
  return ops_infer_convolution(ctx, 0, 1, ir_in(ctx, 0)->type.dtype);
}

/* ---- run ---- */

/* Begin padding of a transposed convolution whose output size is given. */
static void place_transposed(const base_attrs *attrs, convolution *c) {
  const char *same = base_attr_str(attrs, KERN_WINDOW_AUTO_PAD);
  uint32_t sized;
  base_attr_ints(attrs, CONV_OUTPUT_SIZE, &sized);
  if (!*same && !sized) return;
  for (int32_t k = WINDOW_MAX - c->window.rank; k < WINDOW_MAX; k++) {
    window_axis *a = &c->window.axis[k];
    int64_t more = base_attr_int_at(attrs, CONV_OUTPUT_PADDING, k - (WINDOW_MAX - c->window.rank), 0);
    int64_t pad = base_max_i64(a->stride * (a->in - 1) + more + (a->kernel - 1) * a->dilation + 1 - a->out, 0);
    a->begin = strcmp(same, "same_upper") == 0 ? pad / 2 : pad - pad / 2;
    a->end = pad - a->begin;
  }
}

td_status ops_convolution_make(const base_call *call, const base_tensor *x, const base_tensor *w, const base_tensor *y,
                               convolution *c) {
  int64_t groups = base_attr_int(call->attrs, CONV_GROUPS);
  bool transposed = base_attr_int(call->attrs, CONV_TRANSPOSED);
  if (w->rank != x->rank || y->rank != x->rank || (transposed ? w->dims[0] : w->dims[1] * groups) != x->dims[1] ||
      x->dims[1] % groups != 0 || y->dims[1] % groups != 0)
    return ops_fail(call, "%lld input channels do not fit the weights", (long long)x->dims[1]);
  *c = (convolution){.batch = x->dims[0],
                     .groups = groups,
                     .group_in = x->dims[1] / groups,
                     .group_out = y->dims[1] / groups,
                     .transposed = transposed};
  ops_window_make(call->attrs, x->rank - 2, x->dims + 2, w->dims + 2, y->dims + 2, &c->window);
  if (transposed) place_transposed(call->attrs, c);
  return TD_OK;
}

/* Every output element starts as its channel's bias, or zero. */
static td_status start_with_bias(const base_call *call, td_dtype dtype, void *y) {
  const base_tensor *out = base_out(call, 0), *bias = base_in(call, 2);
  int64_t channels = out->dims[1], size = 1;
  if (bias && (bias->rank != 1 || bias->dims[0] != channels))
    return ops_fail(call, "the bias has not one element per channel");
  for (int32_t i = 2; i < out->rank; i++) size *= out->dims[i];
  for (int64_t i = 0; i < out->dims[0] * channels; i++) {
    const int64_t at = bias ? i % channels * bias->strides[0] : 0;
    const double value = bias && dtype != TD_I64 ? base_load_f64(bias->dtype, bias->data, at) : 0;
    const int64_t whole = bias && dtype == TD_I64 ? base_load_i64(bias->dtype, bias->data, at) : 0;
    for (int64_t k = 0; k < size; k++) {
      if (dtype == TD_F32) ((base_f32 *)y)[i * size + k] = (float)value;
      else if (dtype == TD_F64) ((base_f64 *)y)[i * size + k] = value;
      else ((base_i64 *)y)[i * size + k] = whole;
    }
  }
  return TD_OK;
}

static td_status convolution_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  convolution c;
  if (base_tensor_numel(out) == 0) return TD_OK;
  TRY(ops_convolution_make(call, base_in(call, 0), base_in(call, 1), out, &c));
  if (out->dtype != TD_F64 && base_is_float(out->dtype)) {
    const base_f32 *x = ops_dense_f32(call, 0), *w = ops_dense_f32(call, 1);
    base_f32 *y = ops_take_f32(call, 0);
    if (!x || !w || !y) return base_no_memory(call->err, "scratch");
    TRY(start_with_bias(call, TD_F32, y));
    TRY(ops_convolve_f32(call, &c, x, w, y));
    ops_put(call, 0, TD_F32, y);
    return TD_OK;
  }
  if (!base_is_float(out->dtype)) {
    const base_i64 *x = ops_dense_i64(call, 0), *w = ops_dense_i64(call, 1);
    base_i64 *y = ops_take_i64(call, 0);
    if (!x || !w || !y) return base_no_memory(call->err, "scratch");
    TRY(start_with_bias(call, TD_I64, y));
    TRY(ops_convolve_u64(call, &c, (const base_u64 *)x, (const base_u64 *)w, (base_u64 *)y));
    ops_put(call, 0, TD_I64, y);
    return TD_OK;
  }
  const base_f64 *x = ops_dense_f64(call, 0), *w = ops_dense_f64(call, 1);
  base_f64 *y = ops_take_f64(call, 0);
  if (!x || !w || !y) return base_no_memory(call->err, "scratch");
  TRY(start_with_bias(call, TD_F64, y));
  TRY(ops_convolve_f64(call, &c, x, w, y));
  ops_put(call, 0, TD_F64, y);
  return TD_OK;
}

static double product_of(const ir_type *t, int32_t first) {
  double n = 1;
  for (int32_t i = first; i < t->rank; i++) n *= base_dim_known(t->dims[i]) ? (double)t->dims[i] : 1;
  return n;
}

static double flops_convolution(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  const ir_type *x = &in[0]->type, *w = &in[1]->type;
  if (base_attr_int(attrs, CONV_TRANSPOSED)) return 2 * product_of(x, 0) * product_of(w, 1);
  return 2 * product_of(&out->type, 0) * product_of(w, 1);
}

static bool cases_convolution(ir_case *c, uint32_t number) {
  static const int64_t two[] = {2, 2}, pads[] = {1, 0, 2, 1}, odd[] = {1, 0};
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16};
  if (number >= 6 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 6];
  switch (number % 6) {
    case 0:
      return ops_case_in(c, d, OPS_DIMS(2, 3, 7), OPS_NORMAL, 1) && ops_case_in(c, d, OPS_DIMS(5, 3, 3), OPS_NORMAL, 2);
    case 1:
      ops_case_arg(c, ARG_INTS("stride", two, 2));
      ops_case_arg(c, ARG_INTS("padding", pads, 4));
      return ops_case_in(c, d, OPS_DIMS(1, 3, 7, 9), OPS_NORMAL, 3) &&
             ops_case_in(c, d, OPS_DIMS(4, 3, 3, 2), OPS_NORMAL, 4) && ops_case_in(c, d, OPS_DIMS(4), OPS_NORMAL, 5);
    case 2:
      ops_case_arg(c, ARG_INT("groups", 4));
      ops_case_arg(c, ARG_STR("auto_pad", "same_lower"));
      return ops_case_in(c, d, OPS_DIMS(2, 4, 5, 17), OPS_NORMAL, 6) &&
             ops_case_in(c, d, OPS_DIMS(8, 1, 2, 4), OPS_NORMAL, 7);
    case 3:
      return ops_case_in(c, d, OPS_DIMS(1, 2, 3, 4, 5), OPS_NORMAL, 8) &&
             ops_case_in(c, d, OPS_DIMS(3, 2, 2, 1, 3), OPS_NORMAL, 9);
    case 4:
      ops_case_arg(c, ARG_BOOL("transposed", true));
      ops_case_arg(c, ARG_INTS("stride", two, 2));
      ops_case_arg(c, ARG_INTS("padding", pads, 4));
      ops_case_arg(c, ARG_INTS("output_padding", odd, 2));
      ops_case_arg(c, ARG_INT("groups", 2));
      return ops_case_in(c, d, OPS_DIMS(2, 4, 3, 5), OPS_NORMAL, 10) &&
             ops_case_in(c, d, OPS_DIMS(4, 3, 3, 3), OPS_NORMAL, 11) && ops_case_in(c, d, OPS_DIMS(6), OPS_NORMAL, 12);
    default:
      return ops_case_in(c, d, OPS_DIMS(0, 2, 5), OPS_NORMAL, 13) &&
             ops_case_in(c, d, OPS_DIMS(3, 2, 2), OPS_NORMAL, 14);
  }
}

OPS_DECLARE(convolution);
const ir_op ops_convolution[] = {
    {.id = OPERATOR(aten, convolution),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .attrs = conv_attrs,
     .attr_count = OPS_COUNT(conv_attrs),
     .infer = infer_convolution,
     .reference = convolution_reference,
     .flops = flops_convolution,
     .rtol = 1e-4f,
     .atol = 1e-5f},
};
OPS_TABLE(convolution);
OPS_CASES(convolution) = {
    {OP_aten_convolution, cases_convolution},
    {0},
};
