/* window.c -- sizes of sliding windows; the formulas are those of ONNX's Conv and pooling operators. */
#include "ops/common/window_priv.h"

#include <string.h>

td_status ops_window_check_list(ir_infer *ctx, uint32_t index, uint32_t length, bool positive) {
  uint32_t count;
  const int64_t *list = base_attr_ints(ctx->attrs, index, &count);
  const char *name = ctx->op->attrs[index].name;
  if (count && count != length) return ir_infer_fail(ctx, "%s has %u numbers instead of %u", name, count, length);
  for (uint32_t i = 0; i < count; i++)
    if (list[i] > INT32_MAX || (positive ? list[i] < 1 : list[i] < -INT32_MAX))
      return ir_infer_fail(ctx, "%s has the value %lld", name, (long long)list[i]);
  return TD_OK;
}

td_status ops_window_check(ir_infer *ctx, int32_t spatial) {
  if (spatial < 1 || spatial > WINDOW_MAX)
    return base_fail(ctx->err, TD_UNSUPPORTED, NULL, -1, "%s: %d spatial dimensions; 1 to 3 are supported",
                     ctx->op->name, spatial);
  TRY(ops_window_check_list(ctx, KERN_WINDOW_STRIDE, (uint32_t)spatial, true));
  TRY(ops_window_check_list(ctx, KERN_WINDOW_PADDING, 2 * (uint32_t)spatial, false));
  return ops_window_check_list(ctx, KERN_WINDOW_DILATION, (uint32_t)spatial, true);
}

base_dim ops_windows(base_dims *d, base_dim room, int64_t stride) {
  if (base_dim_known(room) && room < 0) return -1;
  return base_dim_add(d, base_dim_div(d, room, stride), 1);
}

base_dim ops_window_out(ir_infer *ctx, int32_t spatial, int32_t i, base_dim in, base_dim kernel, bool ceil) {
  base_dims *d = ctx->dims;
  int64_t stride = base_attr_int_at(ctx->attrs, KERN_WINDOW_STRIDE, i, 1),
          dilation = base_attr_int_at(ctx->attrs, KERN_WINDOW_DILATION, i, 1);
  base_dim extent = base_dim_add(d, base_dim_mul(d, base_dim_sub(d, kernel, 1), dilation), 1);
  if (*base_attr_str(ctx->attrs, KERN_WINDOW_AUTO_PAD))
    return extent == BASE_DIM_NONE ? BASE_DIM_NONE : base_dim_binary(d, BASE_DIM_CEILDIV, in, stride);
  int64_t begin = base_attr_int_at(ctx->attrs, KERN_WINDOW_PADDING, i, 0),
          end = base_attr_int_at(ctx->attrs, KERN_WINDOW_PADDING, spatial + i, 0);
  base_dim room = base_dim_sub(d, base_dim_add(d, in, base_dim_number(begin + end)), extent);
  if (!ceil) return ops_windows(d, room, stride);
  base_dim out = base_dim_add(d, base_dim_binary(d, BASE_DIM_CEILDIV, room, stride), 1);
  base_dim starts = base_dim_div(d, base_dim_add(d, in, base_dim_number(begin - 1)), stride);
  return base_dim_binary(d, BASE_DIM_MIN, out, base_dim_add(d, starts, 1));
}

void ops_window_make(const base_attrs *attrs, int32_t rank, const int64_t *in, const int64_t *kernel,
                     const int64_t *out, window *w) {
  *w = (window){.rank = rank, .in_size = 1, .out_size = 1, .kernel_size = 1};
  const char *same = base_attr_str(attrs, KERN_WINDOW_AUTO_PAD);
  for (int32_t k = 0; k < WINDOW_MAX; k++) {
    window_axis *a = &w->axis[k];
    int32_t i = k - (WINDOW_MAX - rank);
    *a = (window_axis){1, 1, 1, 1, 1, 0, 0};
    if (i < 0) continue;
    *a = (window_axis){.in = in[i],
                       .out = out[i],
                       .kernel = kernel[i],
                       .stride = base_attr_int_at(attrs, KERN_WINDOW_STRIDE, i, 1),
                       .dilation = base_attr_int_at(attrs, KERN_WINDOW_DILATION, i, 1),
                       .begin = base_attr_int_at(attrs, KERN_WINDOW_PADDING, i, 0),
                       .end = base_attr_int_at(attrs, KERN_WINDOW_PADDING, rank + i, 0)};
    if (*same) {
      int64_t pad = base_max_i64((a->out - 1) * a->stride + (a->kernel - 1) * a->dilation + 1 - a->in, 0);
      a->begin = strcmp(same, "same_upper") == 0 ? pad / 2 : pad - pad / 2;
      a->end = pad - a->begin;
    }
    w->in_size *= a->in;
    w->out_size *= a->out;
    if (!base_mul_i64(w->kernel_size, a->kernel, &w->kernel_size)) w->kernel_size = INT64_MAX;
  }
}

void ops_window_range(const window_axis *a, int64_t o, int64_t *first, int64_t *last) {
  int64_t start = o * a->stride - a->begin, room = a->in - start;
  *first = start >= 0 ? 0 : base_min_i64((-start + a->dilation - 1) / a->dilation, a->kernel);
  *last = room <= 0 ? 0 : base_min_i64((room + a->dilation - 1) / a->dilation, a->kernel);
  if (*last < *first) *last = *first;
}
