/* tile_bf16.c -- the tile of gemm_tile_priv.h where `k` counts pairs of bf16 (pairs_priv.h), in A as in B. Some sizes
 * serve all numbers of rows and panels: a row or panel that is missing is the last one again, and is not stored. Each
 * sum is one chain along k, so that tiles change no bit. */
#include "kernels/products/gemm_priv.h"
#include "kernels/products/pairs_panels_priv.h"

enum { MOST_SUMS = 24, MOST_ROWS = 12, MOST_PANELS = 8 };

/* Rows and panels that are done together, strip after strip along the columns. */
typedef struct strip {
  const gemm_tile *t;
  const kern_epilogue *e; /* of the tile */
  bool direct;            /* e is cheap, without scale and shift: whole strips meet it in their registers */
  int64_t rows, panels;   /* that there are */
  int64_t column, columns;
  const float *row[MOST_ROWS]; /* of the tap at work, where some are missing: these are the last one again */
  vf first[MOST_PANELS];       /* sums begin with these or, where they go on, with those below */
  vf sums[MOST_SUMS];          /* [row][panel], of a strip that leaves them, too */
} strip;

/* So many row pointers stay in registers, and those of one panel, most of whose loads they would be; else they are read
 * again for every k (gemm_tile.c). */
enum { POINTERS = 4 };
#define HOLDS(rows, panels) ((rows) <= POINTERS || (panels) == 1)

/* What the sums begin with; where they go on, with s->sums. */
V_INLINE void start(vf *sum, const strip *s, const int rows, const int panels) {
  V_FOR(i, rows * panels) sum[i] = s->first[i % panels];
  if (s->t->more) V_FOR(i, rows * panels) sum[i] = s->sums[i];
}

/* Of these one load in two would be that of a row's pointer: rows that stand as far from each other go by a few of them
 * instead, as one and two steps from one. */
#define EVEN(rows, panels, apart) ((rows) % 3 == 0 && (rows) > POINTERS && ((panels) == 1 || (apart)))

V_INLINE bool are_even(const float *const *row, const int rows) {
  enum { TOGETHER = 4 };
  typedef uintptr_t places __attribute__((vector_size(TOGETHER * sizeof(uintptr_t))));
  const uintptr_t first = (uintptr_t)row[0], step = (uintptr_t)row[1] - first;
  const places by = (places){0, 1, 2, 3} * step;
  places apart = {0};
  V_FOR(i, rows / TOGETHER) {
    places at;
    memcpy(&at, row + i * TOGETHER, sizeof at);
    apart |= at - by - (first + (uintptr_t)(i * TOGETHER) * step);
  }
  uintptr_t any = apart[0] | apart[1] | apart[2] | apart[3];
  V_FOR(i, rows % TOGETHER) any |= (uintptr_t)row[rows - 1 - i] - first - (uintptr_t)(rows - 1 - i) * step;
  return any == 0;
}

/* The products of one tap. */
V_INLINE void multiply_even(vf *sum, const gemm_tile *t, const float *const *row, const float *const *b,
                            const float *ahead, const int rows, const int panels) {
  const float *x[MOST_ROWS / 3], *w[2] = {b[0], b[panels - 1]};
  const int64_t step = row[1] - row[0], second = t->a_panel, ahead_step = t->ahead ? t->ahead_step : 0;
  V_FOR(r, rows / 3) x[r] = row[3 * r] + t->a_first;
  for (int64_t k = t->k; k > 0; k--) {
    V_OPAQUE(k);
    vf column[2];
    __builtin_prefetch(ahead, 0, 2);
    ahead += ahead_step;
    V_FOR(p, panels) column[p] = v_load(w[p]);
    V_FOR(r, rows) {
      const float *at = x[r / 3] + r % 3 * step;
      V_FOR(p, panels) sum[r * panels + p] = p_dot(sum[r * panels + p], v_set(at[p * second]), column[p]);
    }
    V_FOR(p, panels) w[p] += V_LANES;
    V_FOR(r, rows / 3) x[r]++;
  }
}

/* `half`: the last panel is at most half full; half a vector takes half the time where a whole one passes in two.
 * `apart`: panels are of groups (gemm_tile.a_panel). */
V_INLINE void multiply(vf *sum, strip *s, const int rows, const int panels, const bool half, const bool apart) {
  const gemm_tile *t = s->t;
  const float *from = t->b + s->column / V_LANES * t->b_panel, *b[MOST_PANELS], *a[MOST_ROWS],
              *ahead = t->ahead ? t->ahead : from, *const *row = t->a;
  const int64_t end = t->a_first + t->k, step = t->ahead ? t->ahead_step : 0, b_skip = t->b_skip;
  V_FOR(p, panels) b[p] = from + base_min_i64(p, s->panels - 1) * t->b_panel;
  int64_t at = 0;
  for (int64_t tap = 0; tap < t->taps; tap++, row += t->a_pitch, at += b_skip) {
    const float *const *table = row;
    if (s->rows < rows && !t->a_whole) {
      for (int64_t r = 0; r < rows; r++) s->row[r] = row[base_min_i64(r, s->rows - 1)];
      table = s->row;
    }
    if (EVEN(rows, panels, apart) && are_even(table, rows)) {
      const float *const panel[] = {b[0] + at, b[panels - 1] + at};
      multiply_even(sum, t, table, panel, ahead, rows, panels);
      at += t->k * V_LANES;
      ahead += t->k * step;
      continue;
    }
    if (HOLDS(rows, panels)) V_FOR(r, rows) a[r] = table[r];
    for (int64_t k = t->a_first; k < end; k++, at += V_LANES, ahead += step) {
      if (!HOLDS(rows, panels)) __asm__("" : : : "memory");
      V_OPAQUE(k); /* one index for all rows: compilers would step every pointer on its own */
      vf w[MOST_PANELS];
      __builtin_prefetch(ahead, 0, 2); /* a block of pixels ahead is too much for L1 */
      V_FOR(p, panels) w[p] = v_load(b[p] + at);
      V_FOR(r, rows) {
        const float *x = (HOLDS(rows, panels) ? a[r] : table[r]) + k;
        const vf first = v_set(*x);
        V_FOR(p, panels) {
          const vf at_p = sum[r * panels + p], x_p = apart && p ? v_set(x[t->a_panel]) : first;
          sum[r * panels + p] = half && p == panels - 1 ? p_dot_low(at_p, x_p, w[p]) : p_dot(at_p, x_p, w[p]);
        }
      }
    }
  }
}

/* Sizes that may have half a panel: of others it would be more code than it gains. */
#define HALVES(rows, panels) ((rows) * (panels) == MOST_SUMS && (panels) < 4)

/* Adds rows that lie in memory to rows of sums, and stores these: `there` are, the last panel has `last` columns. Steps
 * along rows: the pointers of all of them would be held, in memory. */
#define ROWS_IN(type, load, load_part, store, store_part)                                                         \
  V_INLINE void add_##type(vf *sum, const type *from, int64_t pitch, int64_t there, int64_t last, const int rows, \
                           const int panels) {                                                                    \
    V_FOR(r, rows) {                                                                                              \
      vf *at = sum + r * panels;                                                                                  \
      if (r < there) {                                                                                            \
        V_FOR(p, panels - 1) at[p] = v_add(at[p], load(from + p * V_LANES));                                      \
        at[panels - 1] = v_add(at[panels - 1], load_part(from + (panels - 1) * V_LANES, last));                   \
      }                                                                                                           \
      from += pitch;                                                                                              \
      V_OPAQUE(from);                                                                                             \
    }                                                                                                             \
  }                                                                                                               \
  V_INLINE void store_##type(const vf *sum, type *to, int64_t pitch, int64_t there, int64_t last, const int rows, \
                             const int panels) {                                                                  \
    V_FOR(r, rows) {                                                                                              \
      const vf *at = sum + r * panels;                                                                            \
      if (r < there) {                                                                                            \
        V_FOR(p, panels - 1) store(to + p * V_LANES, at[p]);                                                      \
        store_part(to + (panels - 1) * V_LANES, at[panels - 1], last);                                            \
      }                                                                                                           \
      to += pitch;                                                                                                \
      V_OPAQUE(to);                                                                                               \
    }                                                                                                             \
  }
ROWS_IN(float, v_load, v_load_n, v_store, v_store_n)
ROWS_IN(uint16_t, p_load_whole, p_load, p_store_whole, p_store)
#undef ROWS_IN

/* Rows of sums, from row `at` of the strip on, to C, through the epilogue; the last panel has `last` columns. The loop
 * has the code that activates once. */
V_INLINE void finish(vf *sum, const strip *s, int64_t at, int64_t last, const int rows, const int panels) {
  const gemm_bf16 *b = &s->t->bf16;
  const kern_epilogue *e = s->e;
  const int64_t there = s->rows - at;
  float limits[2];
  kern_epilogue_cheap(e, limits);
  const vf low = v_set(limits[0]), high = v_set(limits[1]);
  for (bool done = false;; done = true) {
    V_OPAQUE(done);
    if (e->late == done && e->act != KERN_ACT_none) {
      V_FOR(i, rows * panels) sum[i] = v_max(low, sum[i]);
      if (e->act == KERN_ACT_clamp) V_FOR(i, rows * panels) sum[i] = v_min(high, sum[i]);
    }
    if (done) break;
    if (e->residual)
      add_float(sum, e->residual + at * e->residual_pitch + s->column, e->residual_pitch, there, last, rows, panels);
    else if (b->residual)
      add_uint16_t(sum, b->residual + at * b->residual_pitch + s->column, b->residual_pitch, there, last, rows, panels);
  }
  if (b->c) store_uint16_t(sum, b->c + at * b->c_pitch + s->column, b->c_pitch, there, last, rows, panels);
  else store_float(sum, s->t->c + at * s->t->c_pitch + s->column, s->t->c_pitch, there, last, rows, panels);
}

/* Few products do not hide a loop over rows. */
#define FINISHES(rows, panels) ((rows) * (panels) == MOST_SUMS || (rows) * (panels) == 16 || (rows) == MOST_ROWS)
#define FINISH(most, panels)                                                                   \
  static void finish_##panels(strip *s, int64_t last) {                                        \
    for (int64_t r = 0; r < s->rows; r++) finish(s->sums + r * panels, s, r, last, 1, panels); \
  }
GEMM_WHOLE_TILES(FINISH)
#define ENTRY(most, panels) finish_##panels,
static void (*const finish_rows[])(strip *s, int64_t last) = {GEMM_WHOLE_TILES(ENTRY)};

enum { WHOLE = sizeof(float), HALF = sizeof(uint16_t) };

/* Fetches what sums will meet: the products hide the way. */
V_INLINE void fetch_rows(const void *at, int64_t pitch, int64_t rows, int64_t bytes) {
  enum { CACHE_LINE = 64 };
  const char *line = at;
  for (int64_t r = 0; r < rows; r++, line += pitch)
    for (int64_t i = 0; i < bytes; i += CACHE_LINE) __builtin_prefetch(line + i, 1);
}
static void fetch(const strip *s) {
  const gemm_tile *t = s->t;
  const gemm_bf16 *b = &t->bf16;
  if (b->c) fetch_rows(b->c + s->column, b->c_pitch * HALF, s->rows, s->columns * HALF);
  else fetch_rows(t->c + s->column, t->c_pitch * WHOLE, s->rows, s->columns * WHOLE);
  if (b->residual) fetch_rows(b->residual + s->column, b->residual_pitch * HALF, s->rows, s->columns * HALF);
  if (s->e->residual) fetch_rows(s->e->residual + s->column, s->e->residual_pitch * WHOLE, s->rows, s->columns * WHOLE);
}

/* The strip of `column`, and what its `wide` panels begin with. */
static void begin(strip *s, int64_t column, int64_t wide) {
  s->column = column;
  s->columns = base_min_i64(s->t->columns - column, s->panels * V_LANES);
  const float *bias = s->e->bias ? s->e->bias + column : NULL;
  const vf none = v_set(s->t->more ? -0.0f : 0); /* x + -0 is x, of any x */
  for (int64_t p = 0, n = s->columns; p < wide; p++, n -= V_LANES)
    s->first[p] = !bias || n <= 0 ? none : n < V_LANES ? v_load_n(bias + p * V_LANES, n) : v_load(bias + p * V_LANES);
  const float *c = s->t->c + column;
  for (int64_t r = 0; s->t->more && r < s->rows; r++, c += s->t->c_pitch)
    for (int64_t p = 0, n = s->columns; n > 0; p++, n -= V_LANES)
      s->sums[r * wide + p] = v_add(s->first[p], v_load_n(c + p * V_LANES, base_min_i64(n, V_LANES)));
  fetch(s);
}

static void finish_later(strip *s, int64_t wide);

V_TEMPLATE void run(strip *s, const int rows, const int panels, const bool apart) {
  for (int64_t column = 0; column < s->t->columns; column += s->panels * V_LANES) {
    vf sum[MOST_SUMS];
    begin(s, column, panels);
    start(sum, s, rows, panels);
    const bool half = s->panels == panels && s->columns <= (panels - 1) * V_LANES + V_LANES / 2;
    if (HALVES(rows, panels) && half && !apart) multiply(sum, s, rows, panels, true, false);
    else multiply(sum, s, rows, panels, false, apart);
    const int64_t last = s->columns - (panels - 1) * V_LANES;
    const bool direct = panels <= GEMM_MAX_PANELS && s->direct && last > 0;
    if (FINISHES(rows, panels) && direct) {
      finish(sum, s, 0, last, rows, panels);
      continue;
    }
    V_FOR(i, rows * panels) s->sums[i] = sum[i];
    if (direct) finish_rows[(panels - 1) % GEMM_MAX_PANELS](s, last);
    else finish_later(s, panels);
  }
}

/* The smallest first. Rows of an image are cut into tiles of some fewer than the most. */
#if V_REGISTERS == 32
#define SIZES(X) \
  X(1, 4) X(1, 8) X(3, 4) X(12, 1) X(8, 2) X(4, 4) X(6, 3) X(10, 2) X(5, 4) X(7, 3) X(12, 2) X(8, 3) X(6, 4)
#else
#define SIZES(X) X(1, 2) X(6, 1) X(4, 2)
#endif
#define SIZED(rows, panels) \
  static void run_##rows##x##panels(strip *s) { run(s, rows, panels, false); }
#define SIZE(rows, panels) {run_##rows##x##panels, rows, panels},
SIZES(SIZED)
static const struct {
  void (*run)(strip *s);
  uint8_t rows, panels;
} sizes[] = {SIZES(SIZE)};

static void run_apart(strip *s) { run(s, GEMM_PAIR_ROWS, 2, true); }

/* Sums that were left, to C. */
static void store(const strip *s, int64_t wide) {
  float *c = s->t->c + s->column;
  for (int64_t r = 0; r < s->rows; r++, c += s->t->c_pitch)
    for (int64_t p = 0, n = s->columns; n > 0; p++, n -= V_LANES)
      v_store_n(c + p * V_LANES, s->sums[r * wide + p], base_min_i64(n, V_LANES));
}

/* A residual of bf16, widened. */
static void widen(const strip *s, vf *to, int64_t wide) {
  const gemm_bf16 *b = &s->t->bf16;
  const uint16_t *from = b->residual + s->column;
  for (int64_t r = 0; r < s->rows; r++, from += b->residual_pitch)
    for (int64_t p = 0, n = s->columns; n > 0; p++, n -= V_LANES)
      to[r * wide + p] = p_load(from + p * V_LANES, base_min_i64(n, V_LANES));
}

/* s->sums to a C of bf16. */
static void round_sums(const strip *s, int64_t wide) {
  const gemm_bf16 *b = &s->t->bf16;
  uint16_t *c = b->c + s->column;
  for (int64_t r = 0; r < s->rows; r++, c += b->c_pitch)
    for (int64_t p = 0, n = s->columns; n > 0; p++, n -= V_LANES)
      p_store(c + p * V_LANES, s->sums[r * wide + p], base_min_i64(n, V_LANES));
}

/* The epilogue of a strip that left its sums, but for the bias. */
static void finish_later(strip *s, int64_t wide) {
  const gemm_tile *t = s->t;
  vf residual[MOST_SUMS];
  kern_epilogue rest = kern_epilogue_at(s->e, 0, s->column);
  if (!t->bf16.c) store(s, wide);
  rest.bias = NULL;
  rest.chain = NULL;
  if (t->bf16.residual) {
    widen(s, residual, wide);
    rest.residual = (const float *)residual;
    rest.residual_pitch = wide * V_LANES;
  }
  float *c = t->bf16.c ? (float *)s->sums : t->c + s->column;
  KERN_NAME(epilogue_rows)(&rest, c, t->bf16.c ? wide * V_LANES : t->c_pitch, s->rows, s->columns);
  if (t->bf16.c) round_sums(s, wide);
}

static void tile(const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e) {
  static const kern_epilogue none = {.act = KERN_ACT_none};
  float limits[2];
  size_t size = 0;
  while (sizes[size].rows < rows || sizes[size].panels < panels) size++;
  strip s; /* an initializer would clear its sums, which takes as long as some hundred products */
  s.t = t;
  s.e = e ? e : &none;
  s.direct = kern_epilogue_cheap(s.e, limits) && !s.e->scale && !s.e->shift;
  s.rows = rows;
  s.panels = panels;
  (t->a_panel ? run_apart : sizes[size].run)(&s);
  if (e) kern_epilogue_chain(e, t->c, t->c_pitch, rows, t->columns);
}

/* `to` may begin between two words (depthwise_strips_priv.h). */
static void narrow(float *to, const float *from, int64_t n) {
  for (; n >= 2 * V_LANES; n -= 2 * V_LANES, from += 2 * V_LANES, to += V_LANES) v_store(to, p_narrow(from));
  if (n <= 0) return;
  const vf low = v_load_n(from, base_min_i64(n, V_LANES));
  const vf high = n > V_LANES ? v_load_n(from + V_LANES, n - V_LANES) : v_zero();
  v_store_n(to, p_round_two(low, high), (n + 1) / 2);
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

static void matrix(float *to, const kern_matrix *m) {
  pairs_pack(m, 0, base_ceil_div(m->n, V_LANES), kern_pairs_depth(m->k) / 2, to);
}

const gemm_pairs KERN_PART_NAME(gemm_pairs) = {tile, narrow, KERN_PART_NAME(pixel_pairs), from_planes, matrix};
