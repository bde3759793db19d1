/* conv_image_priv.h -- td::conv of images that kern_conv_image_fits, a form of KERN_CONV. */
#ifndef KERNELS_CONV_IMAGE_PRIV_H
#define KERNELS_CONV_IMAGE_PRIV_H
#include "kernels/conv_image.h"
#include "kernels/simd_priv.h"

/* The call of KERN_CONV; `weights` are packed. Whole panels of channels only. */
td_status KERN_NAME(conv_image)(const base_call *call, const kern_conv *conv, const float *weights);
#endif
