/* gemm_tile.c -- the tiles of gemm_tile_priv.h: one function for every number of rows and panels. Their loops over
 * sums are flat and unrolled (clang unrolls no loop around one of a single round), so that every sum has a register of
 * its own. */
#include "kernels/products/epilogue_priv.h"
#include "kernels/products/gemm_tile_priv.h"

/* Masked stores are cheap: a last panel that is not whole needs no copy. Of one that is at most half full, half vectors
 * are multiplied, which takes half the time where a whole one passes in two halves. */
enum { MASKED = V_MASKED };
V_INLINE vf load_part(const float *row, int p, int panels, int64_t last) {
  return MASKED && p == panels - 1 ? v_load_n(row + p * V_LANES, last) : v_load(row + p * V_LANES);
}

/* Where the row of sum `i` begins, `at` being where that of the one before did. Rows are stepped along: the pointers of
 * all of them would be held, in memory, from one walk to the next. */
V_INLINE int64_t row_of(int i, int64_t at, int64_t pitch, const int panels) {
  if (i == 0 || i % panels) return at;
  at += pitch;
  V_OPAQUE(at);
  return at;
}

V_INLINE void activate(vf *sums, const kern_epilogue *e, const int count) {
  if (e->act == KERN_ACT_none) return;
  float limits[2];
  kern_epilogue_cheap(e, limits);
  const vf low = v_set(limits[0]), high = v_set(limits[1]);
  V_FOR(i, count) sums[i] = v_max(low, sums[i]);
  if (e->act == KERN_ACT_clamp) V_FOR(i, count) sums[i] = v_min(high, sums[i]);
}

/* What is done with sums in registers, those of `column` and so on: `e` is cheap. */
V_INLINE void finish(vf *sums, const kern_epilogue *e, int64_t column, const int rows, const int panels, int64_t last) {
  const int count = rows * panels;
  bool done = false; /* all but what is late: a loop, so that a tile has the code that activates once */
  int64_t at = column;
  for (;; done = true) {
    V_OPAQUE(done);
    if (e->late == done) activate(sums, e, count);
    if (done) return;
    if (e->residual) V_FOR(i, count) {
        at = row_of(i, at, e->residual_pitch, panels);
        sums[i] = v_add(sums[i], load_part(e->residual + at, i % panels, panels, last));
      }
    if (e->scale) V_FOR(i, count) sums[i] = v_mul(sums[i], load_part(e->scale + column, i % panels, panels, last));
    if (e->shift) V_FOR(i, count) sums[i] = v_add(sums[i], load_part(e->shift + column, i % panels, panels, last));
  }
}

/* So many row pointers stay in registers; more of them are read from the table again for every k, which costs less than
 * what gcc does: it keeps them in vector registers and moves them over. */
enum { POINTERS = MASKED ? 8 : GEMM_MAX_ROWS };

/* Sums += the products of `steps` rows of B, from b on, and elements of A from k on, `unit` apart. For each of them a
 * line `ahead` is fetched, `step` floats behind the one before; in a round of several steps so are those of B `b_ahead`
 * further on. */
V_INLINE void multiply_rows(vf *sums, const float *const *a, const float *const *table, int64_t k, const float *b,
                            int64_t b_panel, int64_t b_ahead, const float *ahead, int64_t step, const int steps,
                            const int unit, const int rows, const int panels, const bool half, const bool far) {
  V_FOR(u, steps) {
    if (rows > POINTERS) __asm__("" : : : "memory"); /* they are read again, not kept */
    if (far) __builtin_prefetch(ahead + u * step, 0, 2);
    else __builtin_prefetch(ahead + u * step);
    if (steps > 1 && panels > 2) V_FOR(p, panels) __builtin_prefetch(b + p * b_panel + u * V_LANES + b_ahead);
    vf row[GEMM_THIN_PANELS];
    V_FOR(p, panels) row[p] = v_load(b + p * b_panel + u * V_LANES);
    V_FOR(i, rows * panels) {
      const float *from = rows > POINTERS ? table[i / panels] : a[i / panels];
      const bool low = half && i % panels == panels - 1;
      const vf x = v_set(from[k + u * unit]);
      sums[i] = low ? v_fma_low(x, row[i % panels], sums[i]) : v_fma(x, row[i % panels], sums[i]);
    }
  }
}

/* Tiles that fill the registers have a short loop unrolled: what counts and branches takes places of multiply-adds. */
enum { STEPS = 4, UNROLLED_SUMS = MASKED ? 16 : 8, PACKED_SUMS = 20 };
/* The lines of fewer rows fall into one set of the cache without harm. */
#define PACKED_TILE(rows, panels) (GEMM_PACKS(panels) && (rows) * (panels) >= PACKED_SUMS)
/* Of fewer sums what is fetched beside them is little: all of it goes to the first-level cache. */
enum { FAR_SUMS = 8 };
#define FAR_TILE(rows, panels) ((panels) > 1 && (rows) * (panels) >= FAR_SUMS)

/* `half`: the last panel is at most half full; `packed`: rows are. */
V_INLINE void multiply(vf *sums, const gemm_tile *t, const float *b, const int rows, const int panels, const bool half,
                       const bool far, const bool packed) {
  const int unit = packed ? GEMM_PACKED_ROWS : 1;
  const float *ahead = t->ahead ? t->ahead : b;
  const int64_t step = t->ahead ? t->ahead_step : 0, b_panel = t->b_panel, b_skip = t->b_skip, taps = t->taps,
                first = t->a_first * unit, end = first + t->k * unit, a_pitch = t->a_pitch,
                unrolled = t->rolled ? 0 : end;
  const int steps = !half && MASKED && rows * panels >= UNROLLED_SUMS ? (panels > 3 ? STEPS / 2 : STEPS) : 1;
  const float *const *table = t->a;
  for (int64_t tap = 0; tap < taps; tap++, table += a_pitch, b += b_skip) {
    const float *a[GEMM_MAX_ROWS];
    int64_t k = first;
    V_FOR(r, rows) a[r] = packed ? t->packed + r : table[r];
    /* One index for all rows: compilers would step every pointer on its own. */
    for (; steps > 1 && k + steps * unit <= unrolled; k += steps * unit, b += steps * V_LANES, ahead += steps * step) {
      V_OPAQUE(k);
      multiply_rows(sums, a, table, k, b, b_panel, t->b_ahead, ahead, step, steps, unit, rows, panels, half, far);
    }
    for (; k < end; k += unit, b += V_LANES, ahead += step) {
      V_OPAQUE(k);
      multiply_rows(sums, a, table, k, b, b_panel, 0, ahead, step, 1, unit, rows, panels, half, far);
    }
  }
}

/* Fetches what the tile will touch only when its sums are done: the products hide the way to it. */
V_INLINE void fetch_rows(const float *from, int64_t pitch, const int rows, const int panels) {
  enum { LINE = 64 / sizeof(float) };
  int64_t row = rows;
  do {
    V_OPAQUE(row); /* stays a loop: it is a part of many tiles, and what takes time is not here */
    V_FOR(i, (panels * V_LANES + LINE - 1) / LINE) __builtin_prefetch(from + i * LINE, 1);
    from += pitch;
  } while (--row);
}

V_INLINE void strip(const gemm_tile *t, const kern_epilogue *e, int64_t column, const int rows, const int panels) {
  vf sums[GEMM_MAX_ROWS * GEMM_MAX_PANELS];
  const int count = rows * panels;
  const int64_t last = base_min_i64(t->columns - column - (panels - 1) * V_LANES, V_LANES);
  const float *bias = e && e->bias ? e->bias + column : NULL;
  float *c = t->c + column;
  const vf none = v_set(t->more ? -0.0f : 0); /* x + -0 is x, of any x */
  V_FOR(i, count) sums[i] = none;
  if (bias) V_FOR(i, count) sums[i] = load_part(bias, i % panels, panels, last);
  int64_t at = 0;
  if (t->more) V_FOR(i, count) {
      at = row_of(i, at, t->c_pitch, panels);
      sums[i] = v_add(load_part(c + at, i % panels, panels, last), sums[i]);
    }
  if (e) fetch_rows(c, t->c_pitch, rows, panels);
  if (e && e->residual) fetch_rows(e->residual + column, e->residual_pitch, rows, panels);
  const float *b = t->b + column / V_LANES * t->b_panel;
  if (MASKED && last <= V_LANES / 2) multiply(sums, t, b, rows, panels, true, false, false);
  else if (PACKED_TILE(rows, panels) && t->packed) multiply(sums, t, b, rows, panels, false, false, true);
  else multiply(sums, t, b, rows, panels, false, FAR_TILE(rows, panels), false);
  if (e) finish(sums, e, column, rows, panels, last);
  at = 0;
  V_FOR(i, count) {
    at = row_of(i, at, t->c_pitch, panels);
    float *to = c + at + i % panels * V_LANES;
    if (MASKED && i % panels == panels - 1) v_store_n(to, sums[i], last);
    else v_store(to, sums[i]);
  }
}

V_INLINE void tile(const gemm_tile *t, const kern_epilogue *e, const int rows, const int panels) {
  for (int64_t column = 0; column < t->columns; column += panels * V_LANES) strip(t, e, column, rows, panels);
}

/* Builds for checks take the number of rows at run time: the same loops, compiled in a fifth of the time. */
#if defined GEMM_ROLLED
#define SIZED static __attribute__((noinline, unused))
#else
#define SIZED V_INLINE
#endif
#define EACH_PANELS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define PANELS(panels) \
  SIZED void panels_##panels(const gemm_tile *t, const kern_epilogue *e, const int rows) { tile(t, e, rows, panels); }
EACH_PANELS(PANELS)

typedef void (*tile_function)(const gemm_tile *t, const kern_epilogue *e);

#define TILE(rows, panels) \
  static void tile_##rows##x##panels(const gemm_tile *t, const kern_epilogue *e) { panels_##panels(t, e, rows); }
#define ENTRY(rows, panels) [panels - 1][rows - 1] = tile_##rows##x##panels,
#define ROWS_2(X, p) X(1, p) X(2, p)
#define ROWS_3(X, p) ROWS_2(X, p) X(3, p)
#define ROWS_4(X, p) ROWS_3(X, p) X(4, p)
#define ROWS_6(X, p) ROWS_4(X, p) X(5, p) X(6, p)
#define ROWS_8(X, p) ROWS_6(X, p) X(7, p) X(8, p)
#define ROWS_12(X, p) ROWS_8(X, p) X(9, p) X(10, p) X(11, p) X(12, p)
#if V_REGISTERS == 32
#define TILES(X) ROWS_12(X, 1) ROWS_12(X, 2) ROWS_8(X, 3) ROWS_6(X, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8)
#elif V_NATIVE
#define TILES(X) ROWS_12(X, 1) ROWS_6(X, 2) ROWS_4(X, 3) X(1, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8)
#else
#define TILES(X) ROWS_6(X, 1) ROWS_4(X, 2)
#endif
TILES(TILE)
static const tile_function tiles[GEMM_THIN_PANELS][GEMM_MAX_ROWS] = {TILES(ENTRY)};

/* The last strip, from `column` on, by way of a copy whose last panel is whole. */
static void run_whole(tile_function run, const gemm_tile *t, int64_t column, int64_t rows, int64_t panels,
                      const float *bias) {
  float whole[GEMM_MAX_ROWS * GEMM_MAX_PANELS * V_LANES], whole_bias[GEMM_THIN_PANELS * V_LANES];
  const kern_epilogue start = {.act = KERN_ACT_none, .bias = bias ? whole_bias : NULL};
  gemm_tile copy = *t;
  float *c = t->c + column;
  copy.b += column / V_LANES * copy.b_panel;
  copy.c = whole;
  copy.c_pitch = copy.columns = panels * V_LANES;
  size_t bytes = (size_t)(t->columns - column) * sizeof(float);
  memset(whole_bias, 0, sizeof whole_bias);
  if (bias) memcpy(whole_bias, bias + column, bytes);
  if (t->more) {
    memset(whole, 0, sizeof whole);
    for (int64_t r = 0; r < rows; r++) memcpy(whole + r * copy.c_pitch, c + r * t->c_pitch, bytes);
  }
  run(&copy, &start);
  for (int64_t r = 0; r < rows; r++) memcpy(c + r * t->c_pitch, whole + r * copy.c_pitch, bytes);
}

/* Sums start from the bias on every way, so that the bits are the same on all. */
void KERN_NAME(gemm_tile)(const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e) {
  float limits[2];
  tile_function run = tiles[panels - 1][rows - 1];
  bool direct = MASKED || t->columns % V_LANES == 0;
  if (direct && (!e || kern_epilogue_cheap(e, limits))) {
    run(t, e);
    if (e) kern_epilogue_chain(e, t->c, t->c_pitch, rows, t->columns);
    return;
  }
  const kern_epilogue start = {.act = KERN_ACT_none, .bias = e ? e->bias : NULL};
  gemm_tile whole = *t;
  if (!direct) whole.columns = (t->columns - 1) / (panels * V_LANES) * (panels * V_LANES);
  run(&whole, &start);
  if (!direct) run_whole(run, t, whole.columns, rows, panels, start.bias);
  if (!e) return;
  kern_epilogue rest = *e;
  rest.bias = NULL;
  KERN_NAME(epilogue_rows)(&rest, t->c, t->c_pitch, rows, t->columns);
}
