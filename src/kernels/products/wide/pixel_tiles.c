/* pixel_tiles.c -- the tiles of pixel_tiles_priv.h: one function for every number of panels, with as many rows as fill
 * the registers. */
#define PIXEL_DOT(x, w, sum) v_fma(x, w, sum)
#include "kernels/products/wide/pixel_tile_priv.h"

#define PANELS(n, rows)                                        \
  static void run_##n(const pixel_tiles *p) {                  \
    if (p->taps && p->pixels < rows) multiply(p, 1, n, false); \
    else if (p->taps) multiply(p, rows, n, false);             \
    else if (p->pixels < rows) multiply(p, 1, n, true);        \
    else multiply(p, rows, n, true);                           \
  }
PANELS(1, ROWS_1)
PANELS(2, ROWS_2)
PANELS(3, ROWS_3)

void KERN_NAME(pixel_tiles)(const pixel_tiles *p, int64_t panels) {
  static void (*const run[])(const pixel_tiles *p) = {run_1, run_2, run_3};
  run[panels - 1](p);
}
