/* pixel_tile_priv.h -- a run of tiles of pixel_tiles_priv.h, for one number of panels. PIXEL_DOT(x, w, sum): what adds
 * products to a vector of sums. */
#ifndef KERNELS_WIDE_PIXEL_TILE_PRIV_H
#define KERNELS_WIDE_PIXEL_TILE_PRIV_H
#include "kernels/products/pixel_tiles_priv.h"

/* Sums, a row of the panels and an element of x fill the registers. */
#if V_REGISTERS == 32
enum { ROWS_1 = 14, ROWS_2 = 8, ROWS_3 = 6 };
#elif V_NATIVE
enum { ROWS_1 = 8, ROWS_2 = 6, ROWS_3 = 4 };
#else
enum { ROWS_1 = 2, ROWS_2 = 2, ROWS_3 = 2 };
#endif
enum { MOST_ROWS = 14 };

/* Tiles of `rows` pixels; the last one overlaps the one before it instead of being short. */
V_TEMPLATE void multiply(const pixel_tiles *of, const int rows, const int panels, const bool side_by_side) {
  const pixel_tiles p = *of;
  const int64_t panel = p.depth * V_LANES, thirds = (rows + 2) / 3;
  for (int64_t at = 0; at < p.pixels; at += rows) {
    at = base_min_i64(at, p.pixels - rows);
    const float *third[(MOST_ROWS + 2) / 3], *w = p.w;
    const float *ahead = p.ahead + base_min_i64(at / rows * p.depth * PIXEL_FETCH, p.ahead_last);
    const int64_t skipped = p.skipped + at * p.x_pitch;
    vf sum[MOST_ROWS * PIXEL_MAX_PANELS];
    if (side_by_side) V_FOR(i, thirds) third[i] = p.x + (at + 3 * i) * p.x_pitch;
    V_FOR(i, rows * panels) sum[i] = v_load(p.bias + i % panels * V_LANES);
    for (int64_t k = 0; k < p.depth; k++, w += V_LANES, ahead += PIXEL_FETCH) {
      if (side_by_side) __builtin_prefetch(ahead); /* loads are what AVX2 runs short of */
      if (!side_by_side) V_FOR(i, thirds) third[i] = i ? third[i - 1] + 3 * p.x_pitch : p.taps[k] + skipped;
      vf row[PIXEL_MAX_PANELS];
      V_FOR(i, panels) row[i] = v_load(w + i * panel);
      V_FOR(r, rows) {
        const vf x = v_set(third[r / 3][r % 3 * p.x_pitch]);
        V_FOR(i, panels) sum[r * panels + i] = PIXEL_DOT(x, row[i], sum[r * panels + i]);
      }
      if (side_by_side) V_FOR(i, thirds) {
          third[i]++;
          V_OPAQUE(third[i]);
        }
    }
    float *to = p.to + at * p.to_pitch;
    const vf low = v_set(of->low), high = v_set(of->high);
    V_FOR(r, rows) {
      V_FOR(i, panels) sum[r * panels + i] = v_min(high, v_max(low, sum[r * panels + i]));
      V_FOR(i, panels - 1) v_store(to + i * V_LANES, sum[r * panels + i]);
      if (p.last == V_LANES) v_store(to + (panels - 1) * V_LANES, sum[(r + 1) * panels - 1]);
      else v_store_n(to + (panels - 1) * V_LANES, sum[(r + 1) * panels - 1], p.last);
      to += p.to_pitch;
      V_OPAQUE(to);
    }
  }
}
#endif
