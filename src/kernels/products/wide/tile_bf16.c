/* tile_bf16.c -- the tile of gemm_tile_priv.h where `k` counts pairs of bf16 (pairs_priv.h), in A as in B. A few sizes
 * serve all numbers of rows and panels: a row or panel that is missing is the last one again, and is not stored. Each
 * sum is one chain along k, so that tiles change no bit. */
#include "kernels/products/gemm_priv.h"
#include "kernels/simd/pairs_priv.h"

enum { MOST_SUMS = 24, MOST_ROWS = 12, MOST_PANELS = 8 };

/* Rows and panels of a tile that are done together. */
typedef struct strip {
  const gemm_tile *t;
  const kern_epilogue *e; /* cheap, without scale and shift */
  const float *const *a;  /* row pointers of the first tap */
  const float *b;
  float *c; /* or `sums`, where C is bf16 */
  int64_t c_pitch;
  gemm_bf16 bf16;
  const float *row[MOST_ROWS], *panel[MOST_PANELS]; /* of the tap at work; those that are missing are the last again */
  int64_t rows, panels, columns;                    /* that there are */
  vf first[MOST_PANELS];                            /* sums begin with these or, where they go on, with those below */
  vf sums[MOST_SUMS];                               /* [row][panel] */
} strip;

/* So many row pointers stay in registers; more are read again for every k (gemm_tile.c). */
enum { POINTERS = 4 };

/* What the sums begin with. */
V_INLINE void start(vf *sum, const strip *s, const int rows, const int panels) {
  V_FOR(i, rows * panels) sum[i] = s->first[i % panels];
  if (s->t->more) V_FOR(i, rows * panels) sum[i] = s->sums[i];
}

/* `half`: the last panel is at most half full; half a vector takes half the time where a whole one passes in two. */
V_INLINE void multiply(vf *sum, strip *s, const int rows, const int panels, const bool half) {
  const gemm_tile *t = s->t;
  const int64_t end = t->k, step = t->ahead ? t->ahead_step : 0, skip = t->k * V_LANES + t->b_skip;
  const float *b[MOST_PANELS], *a[POINTERS], *ahead = t->ahead ? t->ahead : s->b;
  V_FOR(p, panels) b[p] = s->panel[p];
  for (int64_t tap = 0; tap < t->taps; tap++) {
    const float *const *row = s->a + tap * t->a_pitch;
    for (int64_t r = 0; r < rows; r++) s->row[r] = row[base_min_i64(r, s->rows - 1)] + t->a_first;
    if (rows <= POINTERS) V_FOR(r, rows) a[r] = s->row[r];
    for (int64_t k = 0, at = 0; k < end; k++, at += V_LANES, ahead += step) {
      if (rows > POINTERS) __asm__("" : : : "memory");
      V_OPAQUE(k); /* one index for all rows: compilers would step every pointer on its own */
      vf w[MOST_PANELS];
      __builtin_prefetch(ahead, 0, 2); /* a block of pixels ahead is too much for L1 */
      V_FOR(p, panels) w[p] = v_load(b[p] + at);
      V_FOR(r, rows) {
        const vf x = v_set((rows > POINTERS ? s->row[r] : a[r])[k]);
        V_FOR(p, panels) {
          const vf at_p = sum[r * panels + p];
          sum[r * panels + p] = half && p == panels - 1 ? p_dot_low(at_p, x, w[p]) : p_dot(at_p, x, w[p]);
        }
      }
    }
    V_FOR(p, panels) b[p] += skip;
  }
}

/* Sizes that may have half a panel, and those that finish their sums: of others it would be more code than it gains. */
#define HALVES(rows, panels) ((rows) * (panels) == MOST_SUMS && (panels) < 4)
#define FINISHES(rows, panels) ((rows) * (panels) == MOST_SUMS || (rows) == MOST_ROWS)

/* Sums of whole panels to C, through the epilogue. */
V_INLINE void finish(const vf *sum, const strip *s, const int rows, const int panels) {
  const kern_epilogue *e = s->e;
  const float *residual = e->residual;
  const uint16_t *residual_16 = s->bf16.residual;
  float limits[2], *c = s->c;
  uint16_t *c_16 = s->bf16.c;
  kern_epilogue_cheap(e, limits);
  const vf low = v_set(limits[0]), high = v_set(limits[1]);
  const bool early = e->act != KERN_ACT_none && !e->late, late = e->act != KERN_ACT_none && e->late,
             clamp = e->act == KERN_ACT_clamp;
  V_FOR(r, rows) {
    if (r >= s->rows) return;
    vf row[MOST_PANELS];
    V_FOR(p, panels) row[p] = sum[r * panels + p];
    if (early) V_FOR(p, panels) row[p] = v_max(low, row[p]);
    if (early && clamp) V_FOR(p, panels) row[p] = v_min(high, row[p]);
    if (residual) {
      V_FOR(p, panels) row[p] = v_add(row[p], v_load(residual + p * V_LANES));
      residual += e->residual_pitch;
      V_OPAQUE(residual);
    } else if (residual_16) {
      V_FOR(p, panels) row[p] = v_add(row[p], p_load_whole(residual_16 + p * V_LANES));
      residual_16 += s->bf16.residual_pitch;
      V_OPAQUE(residual_16);
    }
    if (late) V_FOR(p, panels) row[p] = v_max(low, row[p]);
    if (late && clamp) V_FOR(p, panels) row[p] = v_min(high, row[p]);
    if (c_16) {
      V_FOR(p, panels) p_store_whole(c_16 + p * V_LANES, row[p]);
      c_16 += s->bf16.c_pitch;
      V_OPAQUE(c_16);
      continue;
    }
    V_FOR(p, panels) v_store(c + p * V_LANES, row[p]);
    c += s->c_pitch;
    V_OPAQUE(c);
  }
}

/* What is not whole leaves its sums, without the epilogue. */
V_TEMPLATE void run(strip *s, const int rows, const int panels) {
  vf sum[MOST_SUMS];
  start(sum, s, rows, panels);
  const bool half = s->panels == panels && s->columns <= (panels - 1) * V_LANES + V_LANES / 2;
  if (HALVES(rows, panels) && half) multiply(sum, s, rows, panels, true);
  else multiply(sum, s, rows, panels, false);
  if (FINISHES(rows, panels) && s->columns == panels * V_LANES) finish(sum, s, rows, panels);
  else V_FOR(i, rows * panels) s->sums[i] = sum[i];
}

/* The smallest first. */
#define SIZES(X) X(1, 4) X(1, 8) X(3, 4) X(12, 1) X(12, 2) X(8, 3) X(6, 4)
#define SIZED(rows, panels) \
  static void run_##rows##x##panels(strip *s) { run(s, rows, panels); }
#define SIZE(rows, panels) {run_##rows##x##panels, rows, panels},
SIZES(SIZED)
static const struct {
  void (*run)(strip *s);
  uint8_t rows, panels;
} sizes[] = {SIZES(SIZE)};

enum { WHOLE = sizeof(float), HALF = sizeof(uint16_t) };

/* Fetches what sums will meet: the products hide the way. */
static void fetch(const void *at, int64_t pitch, int64_t rows, int64_t bytes) {
  enum { CACHE_LINE = 64 };
  const char *line = at;
  for (int64_t r = 0; r < rows; r++, line += pitch)
    for (int64_t i = 0; i < bytes; i += CACHE_LINE) __builtin_prefetch(line + i, 1);
}

/* What the sums of a tile with `wide` panels begin with. */
static void begin(strip *s, int64_t wide) {
  for (int64_t p = 0, n = s->columns; p < wide; p++, n -= V_LANES)
    s->first[p] = s->e->bias && n > 0 ? v_load_n(s->e->bias + p * V_LANES, base_min_i64(n, V_LANES)) : v_zero();
  const float *c = s->c;
  for (int64_t r = 0; s->t->more && r < s->rows; r++, c += s->c_pitch)
    for (int64_t p = 0, n = s->columns; n > 0; p++, n -= V_LANES)
      s->sums[r * wide + p] = v_add(s->first[p], v_load_n(c + p * V_LANES, base_min_i64(n, V_LANES)));
}

/* Sums that were left, to C. */
static void store(const strip *s, int64_t wide) {
  float *c = s->c;
  for (int64_t r = 0; r < s->rows; r++, c += s->c_pitch)
    for (int64_t p = 0, n = s->columns; n > 0; p++, n -= V_LANES)
      v_store_n(c + p * V_LANES, s->sums[r * wide + p], base_min_i64(n, V_LANES));
}

/* A residual of bf16, widened. */
static void widen(const strip *s, vf *to, int64_t wide) {
  const gemm_bf16 *b = &s->bf16;
  const uint16_t *from = b->residual;
  for (int64_t r = 0; r < s->rows; r++, from += b->residual_pitch)
    for (int64_t p = 0, n = s->columns; n > 0; p++, n -= V_LANES)
      to[r * wide + p] = p_load(from + p * V_LANES, base_min_i64(n, V_LANES));
}

/* s->sums to a C of bf16. */
static void round_sums(const strip *s, int64_t wide) {
  const gemm_bf16 *b = &s->bf16;
  uint16_t *c = b->c;
  for (int64_t r = 0; r < s->rows; r++, c += b->c_pitch)
    for (int64_t p = 0, n = s->columns; n > 0; p++, n -= V_LANES)
      p_store(c + p * V_LANES, s->sums[r * wide + p], base_min_i64(n, V_LANES));
}

/* What a tile does not do as it stores its sums: s->c has them, without an epilogue but for the bias. */
static void finish_later(strip *s, const kern_epilogue *e, int64_t wide, bool whole_columns) {
  vf residual[MOST_SUMS];
  kern_epilogue rest = *e;
  if (!whole_columns && !s->bf16.c) store(s, wide);
  rest.bias = NULL;
  rest.chain = NULL;
  if (s->bf16.residual) {
    widen(s, residual, wide);
    rest.residual = (const float *)residual;
    rest.residual_pitch = wide * V_LANES;
  }
  KERN_NAME(epilogue_rows)(&rest, s->c, s->c_pitch, s->rows, s->columns);
  if (s->bf16.c) round_sums(s, wide);
}

/* Rows [first, first + s->rows) of the tile. */
static void run_strip(strip *s, const kern_epilogue *whole, int64_t first, int64_t column) {
  const gemm_tile *t = s->t;
  const kern_epilogue none = {.act = KERN_ACT_none}, e = whole ? kern_epilogue_at(whole, first, column) : none;
  const kern_epilogue start = {.act = KERN_ACT_none, .bias = e.bias};
  const gemm_bf16 bf16 = gemm_bf16_at(&t->bf16, first, column);
  float limits[2];
  s->columns = base_min_i64(t->columns - column, s->panels * V_LANES);
  size_t size = 0;
  while (sizes[size].rows < s->rows || sizes[size].panels < s->panels) size++;
  const int64_t wide = sizes[size].panels;
  const bool whole_columns = FINISHES(sizes[size].rows, wide) && s->columns == wide * V_LANES;
  const bool direct = whole_columns && kern_epilogue_cheap(&e, limits) && !e.scale && !e.shift;
  s->e = direct ? &e : &start;
  s->bf16 = direct ? bf16 : (gemm_bf16){0};
  s->c = bf16.c ? (float *)s->sums : t->c + first * t->c_pitch + column;
  s->c_pitch = bf16.c ? wide * V_LANES : t->c_pitch;
  for (int64_t p = 0; p < wide; p++) s->panel[p] = s->b + base_min_i64(p, s->panels - 1) * t->b_panel;
  begin(s, wide);
  if (bf16.c) fetch(bf16.c, bf16.c_pitch * HALF, s->rows, s->columns * HALF);
  else fetch(s->c, t->c_pitch * WHOLE, s->rows, s->columns * WHOLE);
  if (bf16.residual) fetch(bf16.residual, bf16.residual_pitch * HALF, s->rows, s->columns * HALF);
  if (e.residual) fetch(e.residual, e.residual_pitch * WHOLE, s->rows, s->columns * WHOLE);
  sizes[size].run(s);
  s->bf16 = bf16;
  if (!direct) finish_later(s, &e, wide, whole_columns);
}

static void tile(const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e) {
  for (int64_t column = 0; column < t->columns; column += panels * V_LANES)
    for (int64_t first = 0; first < rows; first += MOST_ROWS) {
      strip s; /* an initializer would clear its sums, which takes as long as some hundred products */
      s.t = t;
      s.a = t->a + first;
      s.b = t->b + column / V_LANES * t->b_panel;
      s.rows = base_min_i64(MOST_ROWS, rows - first);
      s.panels = panels;
      run_strip(&s, e, first, column);
    }
  if (e) kern_epilogue_chain(e, t->c, t->c_pitch, rows, t->columns);
}

/* `to` may begin between two words (depthwise_strips_priv.h). */
static void narrow(float *to, const float *from, int64_t n) {
  for (; n >= 2 * V_LANES; n -= 2 * V_LANES, from += 2 * V_LANES, to += V_LANES) v_store(to, p_narrow(from));
  if (n <= 0) return;
  float some[2 * V_LANES] = {0};
  memcpy(some, from, (size_t)n * sizeof *some);
  const vf pairs = p_narrow(some);
  memcpy(to, &pairs, (size_t)((n + 1) / 2) * sizeof *to);
}

static void from_planes(float *to, const float *from, int64_t plane, int64_t planes, int64_t pixels) {
  const int64_t pairs = (planes + 1) / 2;
  for (int64_t i = 0; i < pixels; i += V_LANES, to += V_LANES * pairs)
    for (int64_t pair = 0; pair < pairs; pair++) {
      const int64_t n = base_min_i64(pixels - i, V_LANES);
      const float *at = from + 2 * pair * plane + i;
      const words first = of_16((lanes_u16)p_round(v_load_n(at, n)));
      const words second = 2 * pair + 1 < planes ? of_16((lanes_u16)p_round(v_load_n(at + plane, n))) : (words){0};
      const words both = first | second << 16;
      float some[V_LANES];
      memcpy(some, &both, sizeof some);
      for (int64_t k = 0; k < n; k++) to[k * pairs + pair] = some[k];
    }
}

const gemm_pairs KERN_PART_NAME(gemm_pairs) = {tile, narrow, KERN_PART_NAME(pixel_pairs), from_planes};
