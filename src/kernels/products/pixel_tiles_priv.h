/* pixel_tiles_priv.h -- products of many pixels with a few panels of weights, whose rows have one pitch.
 *
 *     to[pixel, column] = clamp(bias[column] + sum over k of x[pixel, k] w[k, column])
 *
 * Unlike those of gemm_tile_priv.h these tiles know their rows to have one pitch, few of them differ, and one call
 * makes all tiles of a run of pixels: for small depths, where what a tile costs besides its sums counts. A pixel's
 * elements lie side by side, or (`taps`) anywhere, at the same places for every pixel: in the planes under a window,
 * say.
 *
 * Every sum starts from the bias and goes along k, as those of gemm_tile_priv.h: bits depend on nothing else. */
#ifndef KERNELS_PIXEL_TILES_PRIV_H
#define KERNELS_PIXEL_TILES_PRIV_H
#include "kernels/simd/simd_priv.h"

enum { PIXEL_MAX_PANELS = 3, PIXEL_FETCH = V_LANES < 8 ? 2 * V_LANES : 16 };

typedef struct pixel_tiles {
  const float *x;           /* element 0 of the first pixel; with `taps` NULL */
  const float *const *taps; /* element k of pixel 0; NULL: x + k */
  int64_t skipped;          /* floats from there to the first pixel, with `taps` */
  int64_t x_pitch, depth;   /* floats from pixel to pixel; elements of a pixel */
  const float *w;           /* panels, one behind the other */
  const float *bias;        /* of whole panels */
  float low, high;          /* the limits of what comes out */
  float *to;
  int64_t to_pitch, pixels; /* at least one */
  int64_t last;             /* columns of the last panel that are stored, from 1 to V_LANES */
  /* What comes next, without `taps`: each tile fetches `depth` times PIXEL_FETCH floats of it, the last ones from
   * ahead + ahead_last on. */
  const float *ahead;
  int64_t ahead_last;
} pixel_tiles;

/* 1 <= panels <= PIXEL_MAX_PANELS. */
void KERN_NAME(pixel_tiles)(const pixel_tiles *p, int64_t panels);
/* The same where an element is a pair of bf16. */
void KERN_PART_NAME(pixel_pairs)(const pixel_tiles *p, int64_t panels);
#endif
