/* window_priv.h -- the sliding windows of convolutions and pools over 1 to 3 spatial dims, the last ones of operand 0.
 */
#ifndef OPS_WINDOW_PRIV_H
#define OPS_WINDOW_PRIV_H
#include "ops/common/ops_priv.h"

enum { WINDOW_MAX = 3 };

/* The first attributes of every windowed operator are KERN_WINDOW_LIST. `padding` lists begins, then ends; empty lists
 * mean 0, or 1 for stride and dilation. `auto_pad`: "" uses `padding`; "same_upper" and "same_lower" pad so that the
 * output has ceil(input / stride) elements, an odd one at the end or at the beginning. */

/* One spatial dim. Element k of output o's window is input element o * stride - begin + k * dilation. */
typedef struct window_axis {
  int64_t in, out, kernel, stride, dilation, begin, end;
} window_axis;

/* Missing dims in front are of size 1: every window has three. */
typedef struct window {
  window_axis axis[WINDOW_MAX];
  int32_t rank;
  int64_t in_size, out_size, kernel_size; /* products; the last saturates */
} window;

/* The lists above for `spatial` dims: checked lengths, positive strides and dilations. */
td_status ops_window_check(ir_infer *ctx, int32_t spatial);
/* Fails unless the list attribute `index` is empty or has `length` numbers of 32 bits, `positive` ones if so asked. */
td_status ops_window_check_list(ir_infer *ctx, uint32_t index, uint32_t length, bool positive);
/* Windows that fit where the first one leaves `room` elements; less than nothing, a size that is none, where it does
 * not fit itself: as PyTorch, an image smaller than a window is refused. */
base_dim ops_windows(base_dims *d, base_dim room, int64_t stride);
/* Output size of spatial dim `i`: windows that fit, with `ceil` also one that begins inside the input or left padding.
 */
base_dim ops_window_out(ir_infer *ctx, int32_t spatial, int32_t i, base_dim in, base_dim kernel, bool ceil);
/* The window at run time over the trailing `rank` dims; `in`, `kernel` and `out` have `rank` sizes. */
void ops_window_make(const base_attrs *attrs, int32_t rank, const int64_t *in, const int64_t *kernel,
                     const int64_t *out, window *w);
/* The half-open range of kernel elements that lie inside the input for output element `o`. */
void ops_window_range(const window_axis *a, int64_t o, int64_t *first, int64_t *last);
#endif
