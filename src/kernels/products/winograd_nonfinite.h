/* winograd_nonfinite.h -- infinities and NaN in the inputs of td::winograd_conv. Its transforms would spread them over
 * whole tiles. So a tile that has some is made with zeros in their place, and what they make of the outputs whose
 * window sees them is added directly: these are not finite then, as a plain sum's are not, and no others. */
#ifndef KERNELS_WINOGRAD_NONFINITE_H
#define KERNELS_WINOGRAD_NONFINITE_H
#include "kernels/products/conv.h"

/* A tile of outputs, before the epilogue. */
typedef struct kern_winograd_outputs {
  const kern_conv *conv; /* `panel` is that of the weights */
  int64_t tile;          /* 2 or 4 */
  const base_f32 *x;     /* of the sample, x_pitch from pixel to pixel */
  int64_t x_pitch;
  const base_f32 *weights;               /* packed as pack_winograd.h says */
  int64_t plane, row, column;            /* of the first output */
  int64_t channel, channels;             /* those to be made */
  int64_t rows, columns;                 /* that exist, a dilation from one to the next */
  base_f32 *y;                           /* the first output's first channel */
  int64_t row_distance, column_distance; /* in elements, from output to output of the tile */
} kern_winograd_outputs;

/* Adds to the outputs what inputs that are not finite make of them. The weights are had back from the packed ones,
 * within rounding: the sign of an infinity is theirs. */
void kern_winograd_add_nonfinite(const kern_winograd_outputs *o);
#endif
