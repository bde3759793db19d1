/* channels_last_priv.h -- a line of an image from channels first to channels last. */
#ifndef KERNELS_CHANNELS_LAST_PRIV_H
#define KERNELS_CHANNELS_LAST_PRIV_H
#include "kernels/simd/simd_priv.h"

/* to[pixel * channels + channel] = from[channel * pitch + pixel]. Up to CHANNELS_LAST_BEHIND floats behind the line are
 * overwritten. */
enum { CHANNELS_LAST_BEHIND = 3 };
void KERN_NAME(channels_last)(float *to, const float *from, int64_t pitch, int64_t channels, int64_t pixels);
#endif
