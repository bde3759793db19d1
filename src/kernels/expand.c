/* expand.c -- reading the sizes of td::expand_depthwise from a call, and where it pays. */
#include "kernels/expand.h"
#include "kernels/pack.h"

enum { LEAST_PIXELS = 64 };

td_status kern_expand_of(const base_call *call, kern_conv *c, int64_t *depth) {
  TRY(kern_conv_sizes(call, c));
  const base_tensor *w = base_in(call, 1), *expand = base_in(call, KERN_IN_EXPAND_W);
  size_t count;
  bool fits = c->groups == 1 && c->panel > 0 && kern_pack_count(c->group_in, c->group_out, c->panel, &count) &&
              expand && expand->rank == 1 && (size_t)expand->dims[0] == count && w->rank == 2 &&
              w->dims[0] == c->taps && w->dims[1] == c->group_out;
  if (!fits) return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "an expanded image and its weights do not fit");
  *depth = c->group_in;
  c->groups = c->group_out;
  c->group_in = c->group_out = 1;
  return TD_OK;
}

bool kern_expand_has(int64_t kernel, int64_t stride, int64_t dilation, int64_t channels, int64_t panel) {
  return (kernel == 3 || kernel == 5) && (stride == 1 || stride == 2) && dilation == 1 && channels > panel;
}

/* Small images with their many channels are better read from the second-level cache than made block by block. */
bool kern_expand_pays(int64_t height, int64_t width) { return (double)height * (double)width > LEAST_PIXELS; }
