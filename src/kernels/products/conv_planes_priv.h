/* conv_planes_priv.h -- a form of KERN_CONV for few channels out, which leave lanes of a panel empty: lanes go along
 * pixels of the result instead. What is written once per level is the tiles (products/wide/conv_planes.c). */
#ifndef KERNELS_CONV_PLANES_PRIV_H
#define KERNELS_CONV_PLANES_PRIV_H
#include "kernels/products/conv.h"
#include "kernels/loops/loops.h"

enum { KERN_PLANES_CHANNELS = 4 }; /* most of a tile */

/* `count` neighbouring pixels m of up to KERN_PLANES_CHANNELS channels, each to a row of `to`, of pitch `pitch`:
 *
 *     to[channel][m] = bias[channel] + sum over k of w[k][channel] * x[offsets[k] + m]
 *
 * A chain of multiply-adds along k. Pixels come in tiles of the level's `pixels`: reads and writes whole ones. */
typedef struct kern_planes_tiles {
  const float *x;
  const int64_t *offsets;
  int64_t depth;
  const float *w, *bias;
  float *to;
  int64_t pitch, count;
} kern_planes_tiles;

typedef struct kern_planes_level {
  int32_t lanes, pixels[KERN_PLANES_CHANNELS]; /* of a vector; of a tile of 1, 2... channels, of 1 the most */
  void (*tiles[KERN_PLANES_CHANNELS])(const kern_planes_tiles *t);
  /* to[i * to_step + k] = from[k * from_step + i], i < rows, k < columns */
  void (*turn)(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t rows, int64_t columns);
  td_status (*epilogue_of)(const base_call *call, kern_epilogue *e);
  /* What `e` says of the output's rows from `row` on. */
  void (*epilogue)(const kern_epilogue *e, int64_t row, float *sums, int64_t pitch, int64_t rows, int64_t columns);
  /* By kern_act: the activation, in place, on `rows` rows of n floats. */
  void (*const *act)(float *first, int64_t pitch, int64_t rows, int64_t n, float a, float b);
} kern_planes_level;

/* Should a convolution be taken this way? From sizes alone. */
bool kern_conv_planes_fit(const kern_conv *conv, const kern_planes_level *level);
/* The call of KERN_CONV, of a convolution that fits; `weights` are packed in panels of the level's lanes. */
td_status kern_conv_planes(const base_call *call, const kern_conv *conv, const float *weights,
                           const kern_planes_level *level);
#endif
