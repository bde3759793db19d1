/* conv.h -- convolutions of images that stand channels last: the operands and attributes of td::conv and its relatives,
 * as kernels and references read them.
 *
 * Operands: x [batch, in..., channels in] (with `channels_first` [batch, channels in, in...]), weights, then those of
 * the epilogue. out[0] [batch, out..., channels]. 1 to 3 spatial dims. Attributes are those of
 * KERN_CONV_LIST (attrs.h); the epilogue's are the last ones. */
#ifndef KERNELS_CONV_H
#define KERNELS_CONV_H
#include "kernels/epilogue.h"

enum { KERN_CONV_AXES = 3 };
/* Most weights of a 1x1 convolution that kernels keep in L1, beside pixels that they read as these lie in memory. */
enum { KERN_CONV_FEW_WEIGHTS = 6144 };
/* Channels below which rows of a transposed convolution, written at a stride of pixels, are too short for more than
 * two instructions an element: vectors would be nearly empty. Such work is left unfused. */
enum { KERN_SHORT_ROWS = 8 };

/* Rows of taps of a depthwise window, planes merged, and taps of a row, for which strips of output pixels are made. */
enum { KERN_DEPTHWISE_ROWS = 32, KERN_DEPTHWISE_TAPS = 256 };

/* One spatial dim. Tap k of output o is input o * stride - begin + k * dilation; transposed, the other way around. */
typedef struct kern_conv_axis {
  int64_t in, out, kernel, stride, begin, dilation;
} kern_conv_axis;

typedef struct kern_conv {
  kern_conv_axis axis[KERN_CONV_AXES]; /* missing dims in front are of size 1 */
  int64_t batch, groups;
  int64_t group_in, group_out;     /* channels of a group */
  int64_t stored;                  /* channels in of a group that packed weights have (kern_conv_stored) */
  int64_t taps, in_size, out_size; /* products over the axes */
  int64_t panel;                   /* 0: not packed */
  bool channels_first;
  bool row_columns; /* packed weights have taps of a row as columns (pack_conv.h) */
} kern_conv;

/* What attributes say for an image of `rank` dims and of `channels` channels: the window and the groups, without sizes
 * of the image. False: the window has too many taps to be counted. */
bool kern_conv_window(const base_attrs *attrs, int32_t rank, int64_t channels, kern_conv *conv);
/* Sizes of a call: x, weights and output fit each other. Packed weights are those of pack_conv.h. `transposed`: weights
 * that are not packed are [channels in, channels / groups, kernel...] instead of [channels, channels in / groups,
 * kernel...]. TD_BAD_ARGUMENT: they do not fit. */
td_status kern_conv_of(const base_call *call, bool transposed, kern_conv *conv);
/* The same without a look at the weights, for operators that pack them in other ways. */
td_status kern_conv_sizes(const base_call *call, kern_conv *conv);
/* Is there a depthwise kernel that reads an image of bf16 under such a window, and writes an even number of channels as
 * that? */
bool kern_depthwise_takes_bf16(const base_attrs *attrs);
#endif
