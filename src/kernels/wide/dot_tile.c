/* dot_tile.c -- the tile of dot_tile_priv.h, some rows at a time: as many chains of multiply-adds. */
#include "kernels/dot_tile_priv.h"
#include "kernels/epilogue_priv.h"

enum { ROWS = 4 };

/* A sum through a cheap epilogue, in the order of epilogue.h. */
V_INLINE float finish(const kern_epilogue *e, const float limits[2], int64_t row, int64_t column, float x) {
  if (e->bias) x += e->bias[column];
  for (int late = 0; late < 2; late++) {
    if (late && e->residual) x += e->residual[row * e->residual_pitch + column];
    if (late && e->scale) x *= e->scale[column];
    if (late && e->shift) x += e->shift[column];
    if (late != e->late) continue;
    x = limits[0] > x ? limits[0] : x;
    x = limits[1] < x ? limits[1] : x;
  }
  return x;
}

/* Sums of `rows` rows, from *a on, with a column. Taps of whole vectors are one long one: the order stays. */
V_INLINE void dot(const dot_tile *t, const float *const *a, const float *b, float *to, const int rows) {
  int64_t rest = t->k % V_LANES, k = rest ? t->k : t->taps * t->k, taps = rest ? t->taps : 1;
  vf sums[ROWS];
  V_FOR(r, rows) sums[r] = v_zero();
  for (int64_t run = 0; run < t->runs; run++, a += t->a_pitch)
    for (int64_t tap = 0; tap < taps; tap++) {
      int64_t at = tap * k, end = at + k - rest;
      for (; at < end; at += V_LANES, b += V_LANES) {
        vf w = v_load(b);
        V_FOR(r, rows) sums[r] = v_fma(v_load(a[r] + at), w, sums[r]);
      }
      if (!rest) continue;
      vf w = v_load(b);
      b += V_LANES;
      V_FOR(r, rows) sums[r] = v_fma(v_load_n(a[r] + at, rest), w, sums[r]);
    }
  V_FOR(r, rows) to[r] = v_sum(sums[r]);
}

void KERN_NAME(dot_tile)(const dot_tile *t, int64_t rows, int64_t columns, const kern_epilogue *e) {
  static const kern_epilogue none = {.act = KERN_ACT_none};
  int64_t depth = t->runs * t->taps * kern_dot_pitch(t->k);
  float limits[2], sums[ROWS];
  bool cheap = kern_epilogue_cheap(e, limits);
  for (int64_t r = 0, count; r < rows; r += count) {
    count = rows - r >= ROWS ? ROWS : 1;
    for (int64_t i = 0; i < columns; i++) {
      if (count == ROWS) dot(t, t->a + r, t->b + i * depth, sums, ROWS);
      else dot(t, t->a + r, t->b + i * depth, sums, 1);
      for (int64_t k = 0; k < count; k++)
        t->c[(r + k) * t->c_pitch + i] = finish(cheap ? e : &none, limits, r + k, i, sums[k]);
    }
  }
  if (!cheap) KERN_NAME(epilogue_rows)(e, t->c, t->c_pitch, rows, columns);
}
