/* dot_tile.c -- the tile of dot_tile_priv.h, some rows and columns at a time: as many chains of multiply-adds, and a
 * load for several of them. */
#include "kernels/products/dot_tile_priv.h"
#include "kernels/products/epilogue_priv.h"

enum { ROWS = DOT_TILE_ROWS, COLUMNS = 3 };

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

/* Sums of `rows` rows, from *a on, with `columns` columns, `depth` apart: to[row][column]. Taps of whole vectors are
 * one long one: the order stays. */
V_INLINE void dot(const dot_tile *t, const float *const *a, const float *b, int64_t depth, float *to, const int rows,
                  const int columns) {
  int64_t rest = t->k % V_LANES, k = rest ? t->k : t->taps * t->k, taps = rest ? t->taps : 1;
  vf sums[ROWS * COLUMNS], w[COLUMNS];
  V_FOR(i, rows * columns) sums[i] = v_zero();
  for (int64_t run = 0; run < t->runs; run++, a += t->a_pitch)
    for (int64_t tap = 0; tap < taps; tap++) {
      int64_t at = tap * k, end = at + k - rest;
      for (; at < end; at += V_LANES, b += V_LANES) {
        V_FOR(c, columns) w[c] = v_load(b + c * depth);
        vf x = v_zero();
        V_FOR(i, rows * columns) {
          if (i % columns == 0) x = v_keep(v_load(a[i / columns] + at)); /* not once per column */
          sums[i] = v_fma(x, w[i % columns], sums[i]);
        }
      }
      if (!rest) continue;
      V_FOR(c, columns) w[c] = v_load(b + c * depth);
      b += V_LANES;
      V_FOR(i, rows * columns) sums[i] = v_fma(v_load_n(a[i / columns] + at, rest), w[i % columns], sums[i]);
    }
  V_FOR(i, rows * columns) to[i / columns * COLUMNS + i % columns] = v_sum(sums[i]);
}

typedef void (*dot_function)(const dot_tile *t, const float *const *a, const float *b, int64_t depth, float *to);
#define DOT(rows, columns)                                                                                    \
  static void dot_##rows##x##columns(const dot_tile *t, const float *const *a, const float *b, int64_t depth, \
                                     float *to) {                                                             \
    dot(t, a, b, depth, to, rows, columns);                                                                   \
  }
DOT(1, 1)
DOT(1, 2)
DOT(1, 3)
DOT(4, 1)
DOT(4, 2)
DOT(4, 3)
static const dot_function one[] = {dot_1x1, dot_1x2, dot_1x3}, four[] = {dot_4x1, dot_4x2, dot_4x3};
#if DOT_TILE_EIGHT
DOT(8, 1)
DOT(8, 2)
DOT(8, 3)
static const dot_function most[] = {dot_8x1, dot_8x2, dot_8x3};
#else
#define most four
#endif

void KERN_NAME(dot_tile)(const dot_tile *t, int64_t rows, int64_t columns, const kern_epilogue *e) {
  static const kern_epilogue none = {.act = KERN_ACT_none};
  int64_t depth = t->runs * t->taps * kern_dot_pitch(t->k);
  float limits[2], sums[ROWS * COLUMNS];
  bool cheap = kern_epilogue_cheap(e, limits);
  for (int64_t r = 0, count; r < rows; r += count) {
    count = rows - r >= ROWS ? ROWS : rows - r >= 4 ? 4 : 1;
    const dot_function *forms = count == ROWS ? most : count == 4 ? four : one;
    for (int64_t i = 0, some; i < columns; i += some) {
      some = base_min_i64(columns - i, COLUMNS);
      forms[some - 1](t, t->a + r, t->b + i * depth, depth, sums);
      for (int64_t k = 0; k < count * some; k++)
        t->c[(r + k / some) * t->c_pitch + i + k % some] =
            finish(cheap ? e : &none, limits, r + k / some, i + k % some, sums[k / some * COLUMNS + k % some]);
    }
  }
  if (!cheap) KERN_NAME(epilogue_rows)(e, t->c, t->c_pitch, rows, columns);
  else kern_epilogue_chain(e, t->c, t->c_pitch, rows, columns);
}
