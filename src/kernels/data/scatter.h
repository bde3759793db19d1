/* scatter.h -- which scatters there is a kernel for. */
#ifndef KERNELS_SCATTER_H
#define KERNELS_SCATTER_H
#include "base/base.h"

/* Is there one for elements of `dtype` that are combined as `reduce` says ("none", "add", ...)? */
bool kern_scatter_has(const char *reduce, td_dtype dtype);
#endif
