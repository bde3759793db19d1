/* conv_pixels_priv.h -- a form of KERN_CONV for layers where what a pixel costs besides its sums counts: few weights,
 * and pixels at one pitch. First layers read the image with channels first as it is (conv_image_priv.h); 1x1
 * convolutions read pixels. */
#ifndef KERNELS_CONV_PIXELS_PRIV_H
#define KERNELS_CONV_PIXELS_PRIV_H
#include "kernels/products/conv.h"
#include "kernels/simd/simd_priv.h"

/* Should a convolution be taken this way? From sizes alone. */
bool KERN_NAME(conv_pixels_fit)(const kern_conv *conv);
/* The call of KERN_CONV, of a convolution that fits; `weights` are packed. */
td_status KERN_NAME(conv_pixels)(const base_call *call, const kern_conv *conv, const float *weights);
#endif
