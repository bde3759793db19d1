/* gemm_tile.c -- the tiles of gemm_tile_priv.h: one function for every number of rows and panels. Their loops over
 * sums are unrolled, so that every sum has a register of its own. */
#include "kernels/epilogue_priv.h"
#include "kernels/gemm_tile_priv.h"

#define EACH(i, n) _Pragma("GCC unroll 24") for (int i = 0; i < (n); i++)

/* What is done with sums in registers: `e` is cheap, or absent. */
V_INLINE void finish(vf *sums, const gemm_tile *t, const kern_epilogue *e, const int rows, const int panels) {
  float limits[2];
  kern_epilogue_cheap(e, limits);
  const vf low = v_set(limits[0]), high = v_set(limits[1]);
  bool act = e->act != KERN_ACT_none;
  if (e->bias) EACH(p, panels) {
      vf bias = v_load(e->bias + p * V_LANES);
      EACH(r, rows) sums[r * panels + p] = v_add(sums[r * panels + p], bias);
    }
  if (act && !e->late) EACH(i, rows * panels) sums[i] = v_min(high, v_max(low, sums[i]));
  if (e->residual) EACH(r, rows) EACH(p, panels) {
      const float *from = e->residual + r * e->residual_pitch + p * V_LANES;
      sums[r * panels + p] = v_add(sums[r * panels + p], v_load(from));
    }
  if (e->scale) EACH(p, panels) {
      vf scale = v_load(e->scale + p * V_LANES);
      EACH(r, rows) sums[r * panels + p] = v_mul(sums[r * panels + p], scale);
    }
  if (e->shift) EACH(p, panels) {
      vf shift = v_load(e->shift + p * V_LANES);
      EACH(r, rows) sums[r * panels + p] = v_add(sums[r * panels + p], shift);
    }
  if (act && e->late) EACH(i, rows * panels) sums[i] = v_min(high, v_max(low, sums[i]));
  (void)t;
}

V_INLINE void multiply(vf *sums, const gemm_tile *t, const int rows, const int panels, const bool ahead) {
  const float *b = t->b;
  const float *const *table = t->a;
  for (int64_t tap = 0; tap < t->taps; tap++, table += rows, b += t->b_skip) {
    const float *a[GEMM_MAX_ROWS];
    EACH(r, rows) a[r] = table[r];
    for (int64_t k = 0; k < t->k; k++, b += V_LANES) {
      vf row[GEMM_MAX_PANELS];
      if (ahead) __builtin_prefetch(b + t->ahead);
      EACH(p, panels) row[p] = v_load(b + p * t->b_panel);
      EACH(r, rows) {
        vf x = v_set(a[r][k]);
        EACH(p, panels) sums[r * panels + p] = v_fma(x, row[p], sums[r * panels + p]);
      }
    }
  }
}

V_INLINE void tile(const gemm_tile *t, const kern_epilogue *e, const int rows, const int panels, const bool ahead) {
  vf sums[GEMM_MAX_ROWS * GEMM_MAX_PANELS];
  EACH(i, rows * panels) sums[i] = v_zero();
  if (t->more) EACH(r, rows) EACH(p, panels) sums[r * panels + p] = v_load(t->c + r * t->c_pitch + p * V_LANES);
  multiply(sums, t, rows, panels, ahead);
  if (e) finish(sums, t, e, rows, panels);
  EACH(r, rows) EACH(p, panels) v_store(t->c + r * t->c_pitch + p * V_LANES, sums[r * panels + p]);
}

typedef void (*tile_function)(const gemm_tile *t, const kern_epilogue *e);

#define TILE(rows, panels) \
  static void tile_##rows##x##panels(const gemm_tile *t, const kern_epilogue *e) { tile(t, e, rows, panels, false); }
#define NAME(rows, panels) tile_##rows##x##panels,
#define ROWS_2(X, p) X(1, p) X(2, p)
#define ROWS_3(X, p) ROWS_2(X, p) X(3, p)
#define ROWS_4(X, p) ROWS_3(X, p) X(4, p)
#define ROWS_6(X, p) ROWS_4(X, p) X(5, p) X(6, p)
#define ROWS_8(X, p) ROWS_6(X, p) X(7, p) X(8, p)
#define ROWS_12(X, p) ROWS_8(X, p) X(9, p) X(10, p) X(11, p) X(12, p)
#define ROWS_24(X, p) \
  ROWS_12(X, p)       \
  X(13, p) X(14, p) X(15, p) X(16, p) X(17, p) X(18, p) X(19, p) X(20, p) X(21, p) X(22, p) X(23, p) X(24, p)
#if defined KERN_LEVEL_avx512
#define TILES(X) \
  {ROWS_24(X, 1)}, {ROWS_12(X, 2)}, {ROWS_8(X, 3)}, { ROWS_6(X, 4) }
ROWS_24(TILE, 1)
ROWS_12(TILE, 2)
ROWS_8(TILE, 3)
ROWS_6(TILE, 4)
#elif defined KERN_LEVEL_avx2
#define TILES(X) \
  {ROWS_12(X, 1)}, {ROWS_6(X, 2)}, { ROWS_4(X, 3) }
ROWS_12(TILE, 1)
ROWS_6(TILE, 2)
ROWS_4(TILE, 3)
#elif defined KERN_LEVEL_vector
#define TILES(X) \
  { ROWS_2(X, 1) }
ROWS_2(TILE, 1)
#else
#define TILES(X) \
  {ROWS_12(X, 1)}, {ROWS_6(X, 2)}, {ROWS_4(X, 3)}, { ROWS_3(X, 4) }
ROWS_12(TILE, 1)
ROWS_6(TILE, 2)
ROWS_4(TILE, 3)
ROWS_3(TILE, 4)
#endif
    static const tile_function tiles[GEMM_MAX_PANELS][GEMM_MAX_ROWS] = {TILES(NAME)};

/* Tiles of two panels that fetch ahead: the fetch takes a register that the others need. */
#if defined KERN_LEVEL_avx512 || defined KERN_LEVEL_avx2
#define TILE_AHEAD(rows, panels) \
  static void ahead_##rows##x##panels(const gemm_tile *t, const kern_epilogue *e) { tile(t, e, rows, panels, true); }
#define NAME_AHEAD(rows, panels) ahead_##rows##x##panels,
#if defined KERN_LEVEL_avx512
ROWS_12(TILE_AHEAD, 2)
static const tile_function fetching[] = {ROWS_12(NAME_AHEAD, 2)};
#else
ROWS_6(TILE_AHEAD, 2)
static const tile_function fetching[] = {ROWS_6(NAME_AHEAD, 2)};
#endif
static tile_function choose(const gemm_tile *t, int64_t rows, int64_t panels) {
  return t->ahead && panels == 2 ? fetching[rows - 1] : tiles[panels - 1][rows - 1];
}
#else
static tile_function choose(const gemm_tile *t, int64_t rows, int64_t panels) {
  (void)t;
  return tiles[panels - 1][rows - 1];
}
#endif

/* A tile whose last panel is not whole goes through a copy that is, and an epilogue that is not cheap through memory.
 */
void KERN_NAME(gemm_tile)(const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e) {
  float limits[2];
  int64_t pitch = panels * V_LANES;
  tile_function run = choose(t, rows, panels);
  bool cheap = !e || kern_epilogue_cheap(e, limits);
  if (t->columns == pitch) {
    run(t, cheap ? e : NULL);
    if (!cheap) KERN_NAME(epilogue_rows)(e, t->c, t->c_pitch, rows, t->columns);
    return;
  }
  float whole[GEMM_MAX_ROWS * GEMM_MAX_PANELS * V_LANES];
  gemm_tile copy = *t;
  copy.c = whole;
  copy.c_pitch = pitch;
  size_t bytes = (size_t)t->columns * sizeof(float);
  for (int64_t r = 0; t->more && r < rows; r++) {
    memset(whole + r * pitch, 0, (size_t)pitch * sizeof(float));
    memcpy(whole + r * pitch, t->c + r * t->c_pitch, bytes);
  }
  run(&copy, NULL);
  if (e) KERN_NAME(epilogue_rows)(e, whole, pitch, rows, t->columns);
  for (int64_t r = 0; r < rows; r++) memcpy(t->c + r * t->c_pitch, whole + r * pitch, bytes);
}
