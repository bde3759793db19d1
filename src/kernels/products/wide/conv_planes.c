/* conv_planes.c -- the tiles of conv_planes_priv.h: for every number of channels as many vectors of pixels as fill the
 * registers with sums, beside a row of pixels and a weight. */
#include "kernels/products/wide/planes_level_priv.h"
#include "kernels/products/epilogue_priv.h"
#include "kernels/simd/math_priv.h"

#if V_REGISTERS == 32
enum { VECTORS_1 = 12, VECTORS_2 = 9, VECTORS_3 = 7, VECTORS_4 = 6 };
#else
enum { VECTORS_1 = 8, VECTORS_2 = 5, VECTORS_3 = 3, VECTORS_4 = 3 };
#endif

V_INLINE void multiply(const kern_planes_tiles *t, int64_t at, const int channels, const int vectors) {
  vf sum[KERN_PLANES_CHANNELS * VECTORS_4 > VECTORS_1 ? KERN_PLANES_CHANNELS * VECTORS_4 : VECTORS_1];
  const int64_t *offsets = t->offsets, *end = offsets + t->depth;
  const float *x = t->x + at, *w = t->w;
  V_FOR(i, channels * vectors) sum[i] = v_set(t->bias[i / vectors]);
  for (; offsets < end; offsets++, w += channels) {
    const float *from = x + *offsets;
    vf pixels[VECTORS_1];
    V_FOR(i, vectors) pixels[i] = v_load(from + i * V_LANES);
    V_FOR(c, channels) {
      const vf weight = v_keep(v_set(w[c]));
      V_FOR(i, vectors) sum[c * vectors + i] = v_fma(weight, pixels[i], sum[c * vectors + i]);
    }
  }
  float *to = t->to + at;
  V_FOR(i, channels * vectors) v_store(to + i / vectors * t->pitch + i % vectors * V_LANES, sum[i]);
}

/* The last tile overlaps the one before it, or goes over the end. */
#define TILES(n)                                                                      \
  static void tiles_##n(const kern_planes_tiles *t) {                                 \
    const int64_t step = VECTORS_##n * V_LANES;                                       \
    for (int64_t m = 0; m < t->count; m += step)                                      \
      multiply(t, base_max_i64(base_min_i64(m, t->count - step), 0), n, VECTORS_##n); \
  }
TILES(1)
TILES(2)
TILES(3)
TILES(4)

static void epilogue(const kern_epilogue *e, int64_t row, float *sums, int64_t pitch, int64_t rows, int64_t columns) {
  const kern_epilogue at = kern_epilogue_at(e, row, 0);
  KERN_NAME(epilogue_rows)(&at, sums, pitch, rows, columns);
}

static void turn(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t rows, int64_t columns) {
  KERN_NAME(fused_level).turn(to, to_step, from, from_step, rows, columns, 0);
}

const kern_planes_level KERN_NAME(planes_level) = {
    .lanes = V_LANES,
    .pixels = {VECTORS_1 * V_LANES, VECTORS_2 *V_LANES, VECTORS_3 *V_LANES, VECTORS_4 *V_LANES},
    .tiles = {tiles_1, tiles_2, tiles_3, tiles_4},
    .turn = turn,
    .epilogue_of = KERN_NAME(epilogue_of),
    .epilogue = epilogue,
    .act = KERN_NAME(act_rows),
};
