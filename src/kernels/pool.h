/* pool.h -- td::max_pool and td::avg_pool: attributes of KERN_WINDOW_LIST, then of KERN_POOL_LIST. */
#ifndef KERNELS_POOL_H
#define KERNELS_POOL_H

#include "kernels/attrs.h"

enum { KERN_POOL_AXES = 3 };
#endif
