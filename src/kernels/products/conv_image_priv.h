/* conv_image_priv.h -- windows over an image that stands channels first, where nothing is brought into another order:
 * for a row of windows there is one pointer per element of the window, to where the row's first window has it. The next
 * window has all of them a stride further on:
 *
 *     element k of window o:  row[k][o * stride]          k counts taps, then channels, as packed weights do
 *
 * Lines are read where they lie. Where windows reach over their ends they are copied, with zeros around; lines outside
 * of the image are a line of zeros. For first layers: planes, one group, small windows. */
#ifndef KERNELS_CONV_IMAGE_PRIV_H
#define KERNELS_CONV_IMAGE_PRIV_H
#include "kernels/products/conv.h"

typedef struct kern_conv_image {
  const kern_conv *conv;
  const float *x;
  int64_t sample, plane, line; /* floats from sample to sample, channel to channel, line to line */
  int64_t length;              /* floats that a row of windows sees of a line */
  bool copied;                 /* of lines with zeros around, in a ring */
  const float **row;           /* the pointers of a row: taps * channels */
  float *zeros, *ring;         /* [line % kernel height][channel][length] */
  int64_t at_sample, at_row;   /* that the pointers are of */
  int64_t made;                /* its lines from here on are not in the ring */
} kern_conv_image;

/* Can (and should) a convolution be taken this way? From sizes alone. */
bool kern_conv_image_fits(const kern_conv *conv);
/* An image of the call's operand 0, under the windows of `conv`, which must outlive it; its memory is the call's
 * scratch. TD_OUT_OF_MEMORY. */
td_status kern_conv_image_of(const base_call *call, const kern_conv *conv, kern_conv_image *image);
/* Sets image->row to output row `row` of a sample. One row after the other costs least. */
void kern_conv_image_row(kern_conv_image *image, int64_t sample, int64_t row);
#endif
