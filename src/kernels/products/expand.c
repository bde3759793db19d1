/* expand.c -- reading the sizes of td::expand_depthwise from a call, and where it pays. */
#include "kernels/products/expand.h"
#include "kernels/products/pack.h"

enum { LEAST_PIXELS = 64 };
enum { FIRST_DEPTH = 32, FIRST_WIDTH = 64 };

int64_t kern_expand_out(const base_attrs *a, int32_t i, int64_t in) {
  int64_t pads = base_attr_int_at(a, KERN_EXPAND_PADDING, i, 0) + base_attr_int_at(a, KERN_EXPAND_PADDING, 2 + i, 0);
  int64_t room = in + pads - base_attr_int_at(a, KERN_EXPAND_KERNEL, i, 1);
  return room < 0 ? 0 : room / base_attr_int_at(a, KERN_EXPAND_STRIDE, i, 1) + 1;
}

/* Axes 1 and 2 of the convolution over x, whose first spatial dim is `first`. */
static bool read_maker(const base_call *call, int32_t first, kern_conv *m) {
  const base_attrs *a = call->attrs;
  const base_tensor *x = base_in(call, 0);
  m->taps = m->in_size = m->out_size = 1;
  m->axis[0] = (kern_conv_axis){1, 1, 1, 1, 0, 1};
  for (int32_t i = 0; i < 2; i++) {
    kern_conv_axis *axis = &m->axis[1 + i];
    *axis = (kern_conv_axis){.in = x->dims[first + i],
                             .out = kern_expand_out(a, i, x->dims[first + i]),
                             .kernel = base_attr_int_at(a, KERN_EXPAND_KERNEL, i, 1),
                             .stride = base_attr_int_at(a, KERN_EXPAND_STRIDE, i, 1),
                             .begin = base_attr_int_at(a, KERN_EXPAND_PADDING, i, 0),
                             .dilation = 1};
    if (!base_mul_i64(m->taps, axis->kernel, &m->taps) || !base_mul_i64(m->in_size, axis->in, &m->in_size) ||
        !base_mul_i64(m->out_size, axis->out, &m->out_size))
      return false;
  }
  return true;
}

td_status kern_expand_of(const base_call *call, kern_conv *window, kern_conv *maker) {
  const base_tensor *x = base_in(call, 0), *w = base_in(call, 1), *expand = base_in(call, KERN_IN_EXPAND_W);
  uint32_t sizes;
  base_attr_ints(call->attrs, KERN_EXPAND_KERNEL, &sizes);
  bool first = sizes > 0;
  *maker = (kern_conv){.groups = 1, .channels_first = first};
  bool fits = x->rank == 4 && read_maker(call, first ? 2 : 1, maker);
  if (fits) {
    maker->batch = x->dims[0];
    maker->group_in = x->dims[first ? 1 : 3];
    const int64_t made[] = {maker->batch, maker->axis[1].out, maker->axis[2].out, maker->group_in};
    const base_value image = {.kind = BASE_TENSOR, .tensor = base_tensor_of(NULL, TD_F32, 4, made)};
    const base_value *in[] = {&image};
    base_call second = *call;
    second.in = in;
    second.in_count = 1;
    TRY(kern_conv_sizes(&second, window));
    maker->group_out = window->group_out;
    maker->panel = window->panel;
  }
  int64_t depth;
  size_t count;
  fits = fits && window->groups == 1 && maker->panel > 0 && base_mul_i64(maker->taps, maker->group_in, &depth) &&
         kern_pack_count(expand && expand->dtype == TD_BF16 ? kern_pairs_depth(depth) : depth, maker->group_out,
                         maker->panel, &count) &&
         expand && expand->rank == 1 && (size_t)expand->dims[0] == count && w->rank == 2 &&
         w->dims[0] == window->taps && w->dims[1] == maker->group_out;
  if (!fits) return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "an expanded image and its weights do not fit");
  window->groups = maker->group_out;
  window->group_in = window->group_out = 1;
  return TD_OK;
}

bool kern_expand_has(int64_t kernel, int64_t stride, int64_t dilation, int64_t channels, int64_t panel) {
  return (kernel == 3 || kernel == 5) && (stride == 1 || stride == 2) && dilation == 1 && channels >= panel;
}

/* Small images with their many channels are better read from the second-level cache than made block by block. */
bool kern_expand_pays(int64_t height, int64_t width) { return (double)height * (double)width > LEAST_PIXELS; }

/* With few elements in a window the image's way through memory is much of what it costs; rows must be long enough
 * to pay for their pointers. */
bool kern_expand_pays_first(int64_t depth, int64_t height, int64_t width) {
  return depth <= FIRST_DEPTH && width >= FIRST_WIDTH && kern_expand_pays(height, width);
}
