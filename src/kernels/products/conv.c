/* conv.c -- reading the sizes of a convolution from a call. */
#include "kernels/products/conv.h"
#include "kernels/products/pack_conv.h"

static td_status misfit(const base_call *call) {
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "a convolution's image, weights and result do not fit");
}

bool kern_conv_window(const base_attrs *a, int32_t rank, int64_t channels, kern_conv *c) {
  const int64_t groups = base_attr_int(a, KERN_CONV_GROUPS);
  *c = (kern_conv){.groups = groups,
                   .group_in = channels / groups,
                   .group_out = base_attr_int(a, KERN_CONV_CHANNELS) / groups,
                   .taps = 1,
                   .panel = base_attr_int(a, KERN_CONV_PANEL),
                   .channels_first = base_attr_int(a, KERN_CONV_CHANNELS_FIRST) != 0};
  for (int32_t k = 0; k < KERN_CONV_AXES; k++) {
    const int32_t i = k - (KERN_CONV_AXES - (rank - 2));
    kern_conv_axis *axis = &c->axis[k];
    *axis = (kern_conv_axis){1, 1, 1, 1, 0, 1};
    if (i < 0) continue;
    axis->kernel = base_attr_int_at(a, KERN_CONV_KERNEL, i, 1);
    axis->stride = base_attr_int_at(a, KERN_CONV_STRIDE, i, 1);
    axis->begin = base_attr_int_at(a, KERN_CONV_PADDING, i, 0);
    axis->dilation = base_attr_int_at(a, KERN_CONV_DILATION, i, 1);
    if (!base_mul_i64(c->taps, axis->kernel, &c->taps)) return false;
  }
  return true;
}

static bool read_sizes(const base_tensor *x, const base_tensor *y, kern_conv *c) {
  c->in_size = c->out_size = 1;
  for (int32_t k = KERN_CONV_AXES - (x->rank - 2), i = 0; k < KERN_CONV_AXES; k++, i++) {
    kern_conv_axis *axis = &c->axis[k];
    axis->in = x->dims[(c->channels_first ? 2 : 1) + i];
    axis->out = y->dims[1 + i];
    if (!base_mul_i64(c->in_size, axis->in, &c->in_size) || !base_mul_i64(c->out_size, axis->out, &c->out_size))
      return false;
  }
  return true;
}

td_status kern_conv_sizes(const base_call *call, kern_conv *c) {
  const base_attrs *a = call->attrs;
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  const int64_t groups = base_attr_int(a, KERN_CONV_GROUPS), channels = base_attr_int(a, KERN_CONV_CHANNELS);
  if (x->rank < 3 || x->rank > 2 + KERN_CONV_AXES || y->rank != x->rank || y->dims[0] != x->dims[0] ||
      y->dims[y->rank - 1] != channels)
    return misfit(call);
  const int64_t in_channels = x->dims[base_attr_int(a, KERN_CONV_CHANNELS_FIRST) ? 1 : x->rank - 1];
  if (in_channels % groups != 0 || channels % groups != 0 || !kern_conv_window(a, x->rank, in_channels, c) ||
      !read_sizes(x, y, c))
    return misfit(call);
  c->batch = x->dims[0];
  return TD_OK;
}

td_status kern_conv_of(const base_call *call, bool transposed, kern_conv *c) {
  TRY(kern_conv_sizes(call, c));
  const base_tensor *x = base_in(call, 0), *w = base_in(call, 1);
  if (c->panel > 0) {
    c->stored = w->rank == 1 ? kern_conv_stored(transposed, c, w->dtype, w->dims[0]) : -1;
    c->row_columns = c->stored >= 0 && kern_conv_has_row_columns(c, w->dtype, w->dims[0]);
    return c->stored < 0 ? misfit(call) : TD_OK;
  }
  int64_t rows = c->groups * (transposed ? c->group_in : c->group_out);
  bool fits = w->rank == x->rank && w->dims[0] == rows && w->dims[1] == (transposed ? c->group_out : c->group_in);
  for (int32_t i = 2; fits && i < w->rank; i++)
    fits = w->dims[i] == base_attr_int_at(call->attrs, KERN_CONV_KERNEL, i - 2, 0);
  return fits ? TD_OK : misfit(call);
}

bool kern_depthwise_takes_bf16(const base_attrs *a) {
  uint32_t spatial;
  const int64_t *kernel = base_attr_ints(a, KERN_CONV_KERNEL, &spatial);
  if (spatial < 1 || spatial > 2) return false;
  const int64_t rows = spatial > 1 ? kernel[0] : 1, taps = kernel[spatial - 1];
  return rows <= KERN_DEPTHWISE_ROWS && taps <= KERN_DEPTHWISE_TAPS && rows * taps > 1;
}
