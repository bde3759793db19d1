/* expand.h -- td::expand_depthwise: a convolution that makes many channels of few, and the depthwise convolution that
 * alone reads them, in one step, so that the expanded image never reaches memory:
 *
 *     depthwise(act(conv(x, expand_w) + expand_bias)), then the epilogue
 *
 * The first one is 1x1, over channels that stand last; or, where it has a kernel, a first layer's, of an image with
 * channels first.
 *
 * The window's padding is zeros of the expanded image. Operands: x [batch, height, width, channels in] or [batch,
 * channels in, height, width], the depthwise weights [taps, channels], those of the epilogue, then the two below.
 * Attributes are those of kernels/products/conv.h for the window, with groups 1; then those of KERN_EXPAND_LIST
 * (attrs.h); the epilogue's are the last ones. */
#ifndef KERNELS_EXPAND_H
#define KERNELS_EXPAND_H
#include "kernels/products/conv.h"

enum {
  /* Panels of KERN_CONV_PANEL columns (pack.h); or of pairs of bf16 for a 1x1 one: x is rounded to that, too, and may
   * be bf16. So may the result be, of either. */
  KERN_IN_EXPAND_W = KERN_EPILOGUE_END,
  KERN_IN_EXPAND_BIAS, /* [channels]; may be absent */
  KERN_EXPAND_END
};
/* Sizes of a call: of the window over the expanded image, with groups = channels, and of the convolution that makes
 * it. TD_BAD_ARGUMENT: operands do not fit each other. */
td_status kern_expand_of(const base_call *call, kern_conv *window, kern_conv *maker);
/* Pixels of the expanded image along axis `i` of two, where x has `in`. */
int64_t kern_expand_out(const base_attrs *attrs, int32_t i, int64_t in);
/* Is there a kernel for such a window, with panels of so many columns? It is told along each axis. */
bool kern_expand_has(int64_t kernel, int64_t stride, int64_t dilation, int64_t channels, int64_t panel);
/* Is one step likely to be faster than two? From the sizes of a sample's expanded image, by figures measured on one
 * core. */
bool kern_expand_pays(int64_t height, int64_t width);
/* The same where a first layer with so many elements in its window makes the image. */
bool kern_expand_pays_first(int64_t depth, int64_t height, int64_t width);
#endif
