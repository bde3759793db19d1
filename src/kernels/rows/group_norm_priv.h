/* group_norm_priv.h -- the kernel of group norms, of which x or the result may be bf16. */
#ifndef KERNELS_GROUP_NORM_PRIV_H
#define KERNELS_GROUP_NORM_PRIV_H
#include "kernels/simd/simd_priv.h"

/* `narrow` rounds n floats; NULL: all is f32. With channels first all is f32. */
td_status KERN_NAME(group_norm_by)(const base_call *call, void (*narrow)(uint16_t *to, const float *from, int64_t n));
#endif
