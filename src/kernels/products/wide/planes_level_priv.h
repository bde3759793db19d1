/* planes_level_priv.h -- a form of KERN_CONV for few channels out (conv_planes_priv.h), for levels whose panels are
 * wide: narrow ones leave few lanes empty. */
#ifndef KERNELS_WIDE_PLANES_LEVEL_PRIV_H
#define KERNELS_WIDE_PLANES_LEVEL_PRIV_H
#include "kernels/products/conv_planes_priv.h"
#include "kernels/simd/simd_priv.h"

#if V_NATIVE
#define CONV_PLANES 1
extern const kern_planes_level KERN_NAME(planes_level);
#else
#define CONV_PLANES 0
#endif
#endif
