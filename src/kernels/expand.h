/* expand.h -- td::expand_depthwise: a 1x1 convolution that makes many channels of few, and the depthwise convolution
 * that alone reads them, in one step, so that the expanded image never reaches memory:
 *
 *     depthwise(act(x expand_w + expand_bias)), then the epilogue
 *
 * The window's padding is zeros of the expanded image. Operands: x [batch, height, width, channels in], the depthwise
 * weights [taps, channels], those of the epilogue, then the two below. Attributes 0 to KERN_CONV_ATTRS - 1 are those of
 * kernels/conv.h for the window, with groups 1; then the three below; the epilogue's are the last ones. */
#ifndef KERNELS_EXPAND_H
#define KERNELS_EXPAND_H
#include "kernels/conv.h"

enum {
  KERN_IN_EXPAND_W = KERN_EPILOGUE_END, /* panels of KERN_CONV_PANEL columns (pack.h) */
  KERN_IN_EXPAND_BIAS,                  /* [channels]; may be absent */
  KERN_EXPAND_END
};
enum {
  KERN_EXPAND_ACT = KERN_CONV_ATTRS, /* str: an activation of acts.def */
  KERN_EXPAND_ACT_A,                 /* floats: its parameters */
  KERN_EXPAND_ACT_B
};

/* Sizes of a call, as of a window over the expanded image: groups = channels. *depth: channels of x. TD_BAD_ARGUMENT:
 * operands do not fit each other. */
td_status kern_expand_of(const base_call *call, kern_conv *conv, int64_t *depth);
/* Is there a kernel for such a window, with panels of so many columns? It is told along each axis. */
bool kern_expand_has(int64_t kernel, int64_t stride, int64_t dilation, int64_t channels, int64_t panel);
/* Is one step likely to be faster than two? From the sizes of a sample's expanded image, by figures measured on one
 * core. */
bool kern_expand_pays(int64_t height, int64_t width);
#endif
