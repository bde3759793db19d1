/* pixel_tiles_bf16.c -- the tiles of pixel_tiles_priv.h where an element is a pair of bf16 (pairs_priv.h). */
#include "kernels/simd/pairs_priv.h"
#define PIXEL_DOT(x, w, sum) p_dot(sum, x, w)
#include "kernels/products/wide/pixel_tile_priv.h"

#define PANELS(n, rows)                              \
  static void run_##n(const pixel_tiles *p) {        \
    if (p->pixels < (rows)) multiply(p, 1, n, true); \
    else multiply(p, rows, n, true);                 \
  }
PANELS(1, ROWS_1)
PANELS(2, ROWS_2)
PANELS(3, ROWS_3)

void KERN_PART_NAME(pixel_pairs)(const pixel_tiles *p, int64_t panels) {
  static void (*const run[])(const pixel_tiles *p) = {run_1, run_2, run_3};
  run[panels - 1](p);
}
