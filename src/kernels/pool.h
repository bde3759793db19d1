/* pool.h -- where td::max_pool and td::avg_pool keep their attributes. */
#ifndef KERNELS_POOL_H
#define KERNELS_POOL_H

enum {
  KERN_POOL_STRIDE,
  KERN_POOL_PADDING, /* ints, begins, then ends; empty: 0 */
  KERN_POOL_DILATION,
  KERN_POOL_AUTO_PAD, /* "", "same_upper", "same_lower" */
  KERN_POOL_KERNEL,   /* ints; empty: the whole input */
  KERN_POOL_CEIL,
  KERN_POOL_OWN, /* avg_pool: count_include_pad; max_pool: of no concern to kernels */
  KERN_POOL_CHANNELS_LAST
};
enum { KERN_POOL_AXES = 3 };
#endif
