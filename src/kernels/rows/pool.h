/* pool.h -- td::max_pool and td::avg_pool: attributes of KERN_WINDOW_LIST, then of KERN_POOL_LIST. */
#ifndef KERNELS_POOL_H
#define KERNELS_POOL_H

#include "base/base.h"
#include "kernels/attrs.h"

enum { KERN_POOL_AXES = 3 };

/* One spatial dim: element k of output o's window is input element o * stride - begin + k * dilation. */
typedef struct kern_pool_axis {
  int64_t in, out, kernel, stride, begin, end, dilation;
} kern_pool_axis;
/* The axes of a call whose x is [N, spatial..., C]; missing ones in front are of size 1. axis: KERN_POOL_AXES. */
void kern_pool_axes_of(const base_call *call, kern_pool_axis *axis);

/* The elements [first, last) of a window that lie inside the input, from input element `start` on; `reach`: as many as
 * lie in input and padding. */
typedef struct kern_pool_span {
  int64_t first, last, start, reach;
} kern_pool_span;
kern_pool_span kern_pool_span_of(const kern_pool_axis *a, int64_t o);
#endif
