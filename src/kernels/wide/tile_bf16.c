/* tile_bf16.c -- the tile of gemm_tile_priv.h where `k` counts pairs of bf16 (pairs_priv.h), in A as in B. A few sizes
 * serve all numbers of rows and panels: a row or panel that is missing is the last one again, and is not stored. Each
 * sum is one chain along k, so that tiles change no bit. */
#include "kernels/pairs_priv.h"

enum { MOST_SUMS = 24, MOST_ROWS = 12, MOST_PANELS = 8 };

/* Sums of a strip, [row][panel], of a tile that has `panels` of them; those of one tap are added at a time. */
typedef struct strip {
  const gemm_tile *t;
  const float *const *a; /* row pointers of the first tap */
  const float *b;
  int64_t rows, panels; /* that there are */
  const float *row[MOST_ROWS], *panel[MOST_PANELS], *ahead;
  int64_t step;
  vf sums[MOST_SUMS];
} strip;

/* So many row pointers stay in registers; more are read again for every k (gemm_tile.c). */
enum { POINTERS = 4 };

V_TEMPLATE void multiply(strip *s, const int rows, const int panels) {
  const int64_t end = s->t->k, step = s->step;
  const float *b[MOST_PANELS], *a[POINTERS], *ahead = s->ahead;
  vf sum[MOST_SUMS];
  V_FOR(i, rows * panels) sum[i] = s->sums[i];
  V_FOR(p, panels) b[p] = s->panel[p];
  if (rows <= POINTERS) V_FOR(r, rows) a[r] = s->row[r];
  for (int64_t k = 0, at = 0; k < end; k++, at += V_LANES, ahead += step) {
    if (rows > POINTERS) __asm__("" : : : "memory");
    V_OPAQUE(k); /* one index for all rows: compilers would step every pointer on its own */
    vf w[MOST_PANELS];
    __builtin_prefetch(ahead, 0, 2); /* a block of pixels ahead is too much for L1 */
    V_FOR(p, panels) w[p] = v_load(b[p] + at);
    V_FOR(r, rows) {
      const vf x = v_set((rows > POINTERS ? s->row[r] : a[r])[k]);
      V_FOR(p, panels) sum[r * panels + p] = p_dot(sum[r * panels + p], x, w[p]);
    }
  }
  V_FOR(i, rows * panels) s->sums[i] = sum[i];
  s->ahead = ahead;
}

/* The smallest first. */
#define SIZES(X) X(1, 4) X(1, 8) X(4, 2) X(3, 4) X(12, 2) X(8, 3) X(6, 4)
#define SIZED(rows, panels) \
  static void multiply_##rows##x##panels(strip *s) { multiply(s, rows, panels); }
#define SIZE(rows, panels) {multiply_##rows##x##panels, rows, panels},
SIZES(SIZED)
static const struct {
  void (*multiply)(strip *s);
  uint8_t rows, panels;
} sizes[] = {SIZES(SIZE)};

/* Mostly they are whole, which is faster without a mask. */
V_INLINE vf load_some(const float *p, int64_t n) { return n < V_LANES ? v_load_n(p, n) : v_load(p); }
V_INLINE void store_some(float *p, vf a, int64_t n) {
  if (n < V_LANES) v_store_n(p, a, n);
  else v_store(p, a);
}

/* What the sums begin with. */
static void start(strip *s, const float *bias, const float *c, int64_t columns, int64_t rows, int64_t wide) {
  vf first[MOST_PANELS];
  for (int64_t p = 0; p < wide; p++) {
    const int64_t n = columns - p * V_LANES;
    first[p] = bias && n > 0 ? load_some(bias + p * V_LANES, n) : v_zero();
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t p = 0; p < wide; p++) s->sums[r * wide + p] = first[p];
  if (!s->t->more) return;
  for (int64_t r = 0; r < s->rows; r++, c += s->t->c_pitch)
    for (int64_t p = 0, n; (n = columns - p * V_LANES) > 0; p++)
      s->sums[r * wide + p] = v_add(first[p], load_some(c + p * V_LANES, n));
}

/* Fetches what sums will meet: the products hide the way. */
static void fetch(const float *at, int64_t pitch, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; r++, at += pitch)
    for (int64_t n = 0; n < columns; n += V_LANES) __builtin_prefetch(at + n, 1);
}

/* Sums to C, from its column on, through what of an epilogue is cheap. */
static void finish(const strip *s, const kern_epilogue *e, const float limits[2], float *c, int64_t columns,
                   int64_t wide) {
  const float *residual = e->residual;
  const int64_t pitch = s->t->c_pitch, residual_pitch = e->residual_pitch;
  const vf low = v_set(limits[0]), high = v_set(limits[1]), least = v_set(-INFINITY), most = v_set(INFINITY);
  const vf low_1 = e->late ? least : low, high_1 = e->late ? most : high;
  const vf low_2 = e->late ? low : least, high_2 = e->late ? high : most;
  for (int64_t r = 0; r < s->rows; r++, c += pitch) {
    const vf *sums = s->sums + r * wide;
    for (int64_t p = 0, n = columns; n > 0; p++, n -= V_LANES) {
      vf sum = v_min(high_1, v_max(low_1, sums[p]));
      if (residual) sum = v_add(sum, load_some(residual + p * V_LANES, n));
      store_some(c + p * V_LANES, v_min(high_2, v_max(low_2, sum)), n);
    }
    if (residual) residual += residual_pitch;
  }
}

/* Rows [first, first + s->rows) of the tile. */
static void run_strip(strip *s, const kern_epilogue *whole, int64_t first, int64_t column) {
  const gemm_tile *t = s->t;
  const int64_t columns = base_min_i64(t->columns - column, s->panels * V_LANES);
  const kern_epilogue e = whole ? kern_epilogue_at(whole, first, column) : (kern_epilogue){.act = KERN_ACT_none};
  float *c = t->c + first * t->c_pitch + column, limits[2];
  size_t size = 0;
  while (sizes[size].rows < s->rows || sizes[size].panels < s->panels) size++;
  const int64_t rows = sizes[size].rows, wide = sizes[size].panels;
  start(s, e.bias, c, columns, rows, wide);
  fetch(c, t->c_pitch, s->rows, columns);
  if (e.residual) fetch(e.residual, e.residual_pitch, s->rows, columns);
  for (int64_t p = 0; p < wide; p++) s->panel[p] = s->b + base_min_i64(p, s->panels - 1) * t->b_panel;
  s->ahead = t->ahead ? t->ahead : s->b;
  s->step = t->ahead ? t->ahead_step : 0;
  for (int64_t tap = 0; tap < t->taps; tap++) {
    const float *const *row = s->a + tap * t->a_pitch;
    for (int64_t r = 0; r < rows; r++) s->row[r] = row[base_min_i64(r, s->rows - 1)] + t->a_first;
    sizes[size].multiply(s);
    for (int64_t p = 0; p < wide; p++) s->panel[p] += t->k * V_LANES + t->b_skip;
  }
  const kern_epilogue none = {.act = KERN_ACT_none};
  const bool direct = kern_epilogue_cheap(&e, limits) && !e.scale && !e.shift;
  if (!direct) kern_epilogue_cheap(&none, limits);
  finish(s, direct ? &e : &none, limits, c, columns, wide);
  if (direct) return;
  kern_epilogue rest = e;
  rest.bias = NULL;
  rest.chain = NULL;
  KERN_NAME(epilogue_rows)(&rest, c, t->c_pitch, s->rows, columns);
}

static void tile(const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e) {
  for (int64_t column = 0; column < t->columns; column += panels * V_LANES)
    for (int64_t first = 0; first < rows; first += MOST_ROWS) {
      strip s = {.t = t,
                 .a = t->a + first,
                 .b = t->b + column / V_LANES * t->b_panel,
                 .rows = base_min_i64(MOST_ROWS, rows - first),
                 .panels = panels};
      run_strip(&s, e, first, column);
    }
  if (e) kern_epilogue_chain(e, t->c, t->c_pitch, rows, t->columns);
}

static void narrow(float *to, const float *from, int64_t n) {
  for (; n > 0; n -= 2 * V_LANES, from += 2 * V_LANES, to += V_LANES) {
    float some[2 * V_LANES] = {0};
    if (n >= 2 * V_LANES) v_store(to, p_narrow(from));
    else {
      memcpy(some, from, (size_t)n * sizeof *some);
      v_store_n(to, p_narrow(some), (n + 1) / 2);
    }
  }
}

const gemm_pairs KERN_PART_NAME(gemm_pairs) = {tile, narrow};
