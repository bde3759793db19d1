/* dot_tile.c -- the tile of dot_tile_priv.h, some rows at a time: as many chains of multiply-adds. */
#include "kernels/dot_tile_priv.h"
#include "kernels/epilogue_priv.h"

enum { ROWS = 4 };

/* `rows` rows, from *a on, times a column. */
V_INLINE void dot(const dot_tile *t, const float *const *a, const float *b, float *c, const int rows) {
  int64_t whole = t->k / V_LANES * V_LANES, rest = t->k - whole;
  vf sums[ROWS];
  V_FOR(r, rows) sums[r] = v_zero();
  for (int64_t run = 0; run < t->runs; run++, a += t->a_pitch)
    for (int64_t tap = 0; tap < t->taps; tap++) {
      int64_t at = tap * t->k, end = at + whole;
      for (; at < end; at += V_LANES, b += V_LANES) {
        vf w = v_load(b);
        V_FOR(r, rows) sums[r] = v_fma(v_load(a[r] + at), w, sums[r]);
      }
      if (!rest) continue;
      vf w = v_load(b);
      b += V_LANES;
      V_FOR(r, rows) sums[r] = v_fma(v_load_n(a[r] + at, rest), w, sums[r]);
    }
  V_FOR(r, rows) c[r * t->c_pitch] = v_sum(sums[r]);
}

void KERN_NAME(dot_tile)(const dot_tile *t, int64_t rows, int64_t columns, const kern_epilogue *e) {
  int64_t depth = t->runs * t->taps * kern_dot_pitch(t->k), r = 0;
  for (; r + ROWS <= rows; r += ROWS)
    for (int64_t i = 0; i < columns; i++) dot(t, t->a + r, t->b + i * depth, t->c + r * t->c_pitch + i, ROWS);
  for (; r < rows; r++)
    for (int64_t i = 0; i < columns; i++) dot(t, t->a + r, t->b + i * depth, t->c + r * t->c_pitch + i, 1);
  KERN_NAME(epilogue_rows)(e, t->c, t->c_pitch, rows, columns);
}
