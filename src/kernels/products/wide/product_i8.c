/* product_i8.c -- tiles of products of 8-bit integers, and what becomes of their sums. Each sum is exact, so neither
 * tiles nor chunks change a bit. */
#include "kernels/products/product_i8_priv.h"
#include "kernels/tasks_priv.h"

enum {
  PANELS = BYTES_PANELS,
  ROWS = 12,     /* of a tile, at most */
  FROM_ONE = 4,  /* rows that are found from one pointer */
  AHEAD = 512,   /* bytes by which weights are fetched: from the second-level cache, the hardware is late */
  FETCHED = 256, /* elements of f32 by which they are fetched: lines of a plane are as far apart as pictures are wide */
  CHUNK = 48,    /* rows that are gathered at once */
  FEW_STEPS = 16 /* of k, of tiles whose sums become bytes at once */
};

enum { SUMS = 6 * BYTES_PANELS /* of a tile: six rows, or fewer panels and more of them */ };

V_INLINE void multiply(const product_tile *t, int64_t row, vi *sum, const int rows, const int panels) {
  const int64_t words = t->blocks * t->words, x_pitch = t->a_pitch;
  const int32_t *start = t->start;
  const int8_t *w = t->b;
  V_FOR(r, rows) V_FOR(p, panels) sum[r * panels + p] = b_load_i32(start + p * V_LANES);
  for (int64_t run = 0; run < t->runs; run++) {
    const char *x[ROWS / FROM_ONE];
    V_FOR(i, (rows + FROM_ONE - 1) / FROM_ONE) {
      x[i] = (const char *)t->a[0] + (row + i * FROM_ONE) * x_pitch + t->run[run];
      __asm__("" : "+r"(x[i])); /* gcc 12 would have a register for each row, of which there are too few */
    }
    for (int64_t k = 0; k < words; k++, w += V_LANES * BYTES_DEPTH) {
      vi b[PANELS];
      V_FOR(p, panels) {
        b[p] = b_load(w + p * t->b_panel);
        __builtin_prefetch(w + p * t->b_panel + AHEAD);
      }
      V_FOR(r, rows) {
        int32_t some;
        memcpy(&some, x[r / FROM_ONE] + r % FROM_ONE * x_pitch, sizeof some);
        const vi a = vi_set(some);
        V_FOR(p, panels) sum[r * panels + p] = b_dot(sum[r * panels + p], a, b[p]);
      }
      V_FOR(i, (rows + FROM_ONE - 1) / FROM_ONE) x[i] += sizeof(int32_t);
    }
  }
}

V_TEMPLATE void tile(const product_tile *t, int64_t row, const int rows, const int panels) {
  vi sum[SUMS];
  int32_t *sums = (int32_t *)t->sums + row * BYTES_ROW;
  multiply(t, row, sum, rows, panels);
  V_FOR(r, rows) V_FOR(p, panels) b_store_i32(sums + r * BYTES_ROW + p * V_LANES, sum[r * panels + p]);
}

/* As many rows as there is a loop for, from `row` on, of `rows` that are left; gives their number. */
static int64_t run_tile(const product_tile *t, int64_t row, int64_t rows, int64_t panels) {
#define TRY_TILE(r, p)                \
  if (rows >= (r) && panels == (p)) { \
    tile(t, row, r, p);               \
    return r;                         \
  }
#if BYTES_BY_FOURS
  TRY_TILE(6, 4)
  TRY_TILE(2, 4)
  TRY_TILE(1, 4)
  TRY_TILE(6, 3)
  TRY_TILE(1, 3)
  TRY_TILE(12, 2) /* six rows of few panels are too few chains of sums for the latency of dot products */
  TRY_TILE(12, 1)
#endif
  TRY_TILE(6, 2)
  TRY_TILE(1, 2)
  TRY_TILE(6, 1)
  tile(t, row, 1, 1);
  return 1;
#undef TRY_TILE
}

void KERN_PART_NAME(i8_tiles)(const product_tile *t, int64_t rows, int64_t panels) {
  for (int64_t row = 0; row < rows;) row += run_tile(t, row, rows - row, panels);
}

/* ---- behind the sums ---- */

/* Sums of one row, in place: in f32, scaled, and with a cheap epilogue done. `at`: the first column, among those of
 * panels. */
static void scale_row(const i8_finish *f, int64_t at, int64_t column, float *row, int64_t n) {
  const vf low = v_set(f->limits[0]), high = v_set(f->limits[1]);
  for (int64_t i = 0; i < n; i += V_LANES) {
    const int64_t lanes = base_min_i64(V_LANES, n - i);
    vf t = v_mul(v_from_int(v_as_int(v_load(row + i))), v_load(f->scales + at + i));
    if (f->cheap && f->e.bias) t = v_add(t, v_load_n(f->e.bias + column + i, lanes));
    if (f->cheap) t = v_min(high, v_max(low, t));
    v_store(row + i, t);
  }
}

static void store_row(const i8_finish *f, const float *row, int64_t n, void *out, int64_t at) {
  const kern_i8_scales *s = &f->p->s;
  if (s->y_scale == 0) {
    memcpy((float *)out + at, row, (size_t)n * sizeof *row);
    return;
  }
  const vf by = v_set(1 / s->y_scale), zero = v_set(s->y_zero), least = v_set(s->least), most = v_set(s->most);
  for (int64_t i = 0; i < n; i += V_LANES) {
    const vf q = v_add(v_round(v_mul(v_load(row + i), by)), zero);
    b_store((uint8_t *)out + at + i, v_to_int(v_min(v_max(q, least), most)), base_min_i64(V_LANES, n - i));
  }
}

/* One row of `n` sums, their scales and offsets, what is added to them (or NULL), and where their bytes go. */
typedef struct sums_row {
  const int32_t *sums;
  const float *scales, *offsets;
  const uint8_t *residual;
  int64_t n;
  uint8_t *to;
} sums_row;

/* What is known of rows at compile time: a residual is added, to sums as they are; i8_finish.plain; i8_finish.whole;
 * rows have BYTES_ROW columns; the residual is unsigned; i8_finish.known. */
enum { ADDS = 1, PLAIN = 2, WHOLE = 4, FULL = 8, UNSIGNED = 16, UNROUNDED = 32, LAST = 64 };

/* Scales and offsets of a row's columns, the same in all rows; whatever lies behind them. */
typedef struct row_factors {
  vf scales[PANELS], offsets[PANELS];
} row_factors;

V_INLINE row_factors factors_of(const sums_row *row) {
  row_factors c;
  V_FOR(p, PANELS) c.scales[p] = v_load(row->scales + p * V_LANES), c.offsets[p] = v_load(row->offsets + p * V_LANES);
  return c;
}

V_INLINE void narrow_row(const i8_finish *f, const sums_row *row, const row_factors *c, const b_bytes *bytes,
                         const int form) {
  const vf most = v_set(INT16_MAX), least_t = v_set(f->d.least_t), most_t = v_set(f->d.most_t);
  const vf t_by = v_set(f->d.t_by), r_by = v_set(f->d.r_by);
  const vi flip = vi_set(f->residual_flip), r_zero = vi_set((int32_t)f->p->s.r_zero);
  const int64_t n = form & (WHOLE | FULL) ? BYTES_ROW : row->n;
  vi q[PANELS];
  V_FOR(p, PANELS) {
    q[p] = vi_set(0);
    if (p * V_LANES >= n) continue;
    vf t = v_fma(v_from_int(b_load_i32(row->sums + p * V_LANES)), c->scales[p], c->offsets[p]);
    if (form & ADDS) {
      vi r = b_widen(row->residual + p * V_LANES, base_min_i64(V_LANES, n - p * V_LANES));
      if (!(form & UNSIGNED)) r = vi_xor(r, flip);
      if (!(form & UNROUNDED)) t = v_mul(v_max(v_min(v_round(t), most_t), least_t), t_by);
      t = v_fma(v_from_int(vi_sub(r, r_zero)), r_by, t);
    }
    q[p] = v_to_int(form & PLAIN ? t : v_min(t, most)); /* too small ones become the least integer */
  }
  if (form & WHOLE) b_narrow_whole(row->to, q, bytes, form & LAST ? f->known : 0, BYTES_ROW, form & PLAIN);
  else b_narrow(row->to, q, bytes, n, form & PLAIN);
}

/* Rows from the first on. */
#define NARROW(name, form)                                                             \
  static void narrow_##name(const i8_finish *f, const sums_row *first, int64_t rows) { \
    const b_bytes bytes = f->bytes; /* bytes that are stored could be it */            \
    const row_factors c = factors_of(first);                                           \
    const int64_t pitch = f->p->out_pitch, residual_pitch = f->residual_pitch;         \
    sums_row row = *first;                                                             \
    for (int64_t r = 0; r < rows; r++, row.sums += BYTES_ROW, row.to += pitch) {       \
      narrow_row(f, &row, &c, &bytes, form);                                           \
      if ((form)&ADDS) row.residual += residual_pitch;                                 \
    }                                                                                  \
  }
NARROW(sums, ADDS)
NARROW(sums_full, ADDS | PLAIN | FULL | UNSIGNED)
NARROW(unrounded, ADDS | UNROUNDED)
NARROW(unrounded_full, ADDS | UNROUNDED | PLAIN | FULL | UNSIGNED)
NARROW(any, 0)
NARROW(plain, PLAIN)
NARROW(plain_full, PLAIN | FULL)
NARROW(whole, WHOLE)
NARROW(whole_plain, WHOLE | PLAIN)
NARROW(whole_last, WHOLE | LAST)

/* Rows of so few columns that several follow one another in as many bytes as become such at once: `columns` vectors of
 * each. Those that are missing in the end are the last one again. */
V_TEMPLATE void narrow_packed(const i8_finish *f, const sums_row *first, int64_t rows, const int columns) {
  const int together = PANELS / columns;
  const vf most = v_set(INT16_MAX);
  const b_bytes bytes = f->bytes;
  vf scales[PANELS], offsets[PANELS];
  V_FOR(p, columns) scales[p] = v_load(first->scales + p * V_LANES);
  V_FOR(p, columns) offsets[p] = v_load(first->offsets + p * V_LANES);
  for (int64_t r = 0; r < rows; r += together) {
    const int64_t left = base_min_i64(rows - r, together);
    const int32_t *sums = first->sums + r * BYTES_ROW;
    vi q[PANELS];
    V_FOR(i, together) {
      V_FOR(p, columns) {
        const vf t = v_fma(v_from_int(b_load_i32(sums + p * V_LANES)), scales[p], offsets[p]);
        q[i * columns + p] = v_to_int(v_min(t, most));
      }
      sums += i + 1 < left ? BYTES_ROW : 0;
    }
    b_narrow(first->to + r * columns * V_LANES, q, &bytes, left * columns * V_LANES, false);
  }
}
static void narrow_singles(const i8_finish *f, const sums_row *first, int64_t rows) {
  narrow_packed(f, first, rows, 1);
}
static void narrow_pairs(const i8_finish *f, const sums_row *first, int64_t rows) { narrow_packed(f, first, rows, 2); }

static void narrow_rows(const i8_finish *f, const float *sums, int64_t row, int64_t rows, int64_t lane, int64_t to,
                        int64_t n) {
  const sums_row first = {.sums = (const int32_t *)(const void *)sums,
                          .scales = f->scales + lane,
                          .offsets = f->offsets + lane,
                          .residual = f->d.residual ? f->residual + row * f->residual_pitch + to : NULL,
                          .n = n,
                          .to = (uint8_t *)base_out(f->p->call, 0)->data + row * f->p->out_pitch + to};
  const bool full = f->plain && n == BYTES_ROW;
  const bool quick = full && !f->residual_flip;
  if (first.residual && !f->d.rounds) (quick ? narrow_unrounded_full : narrow_unrounded)(f, &first, rows);
  else if (first.residual) (quick ? narrow_sums_full : narrow_sums)(f, &first, rows);
  else if (f->known) narrow_whole_last(f, &first, rows);
  else if (f->whole) (f->plain ? narrow_whole_plain : narrow_whole)(f, &first, rows);
  else if (full) narrow_plain_full(f, &first, rows);
  else if (n == f->p->out_pitch && n == V_LANES) narrow_singles(f, &first, rows);
  else if (n == f->p->out_pitch && n == 2 * V_LANES && PANELS > 2) narrow_pairs(f, &first, rows);
  else (f->plain ? narrow_plain : narrow_any)(f, &first, rows);
}

void KERN_PART_NAME(i8_finish)(const i8_finish *f, float *sums, int64_t row, int64_t rows, int64_t group,
                               int64_t column, int64_t n) {
  const i8_product *p = f->p;
  const int64_t lane = group * p->l.group_panels * V_LANES + column, to = group * p->l.n + column;
  if (f->direct) {
    narrow_rows(f, sums, row, rows, lane, to, n);
    return;
  }
  for (int64_t r = 0; r < rows; r++) scale_row(f, lane, to, sums + r * BYTES_ROW, n);
  if (!f->cheap) {
    const kern_epilogue e = kern_epilogue_at(&f->e, row, to);
    KERN_NAME(epilogue_rows)(&e, sums, BYTES_ROW, rows, n);
  }
  for (int64_t r = 0; r < rows; r++)
    store_row(f, sums + r * BYTES_ROW, n, base_out(p->call, 0)->data, (row + r) * p->out_pitch + to);
}

void KERN_PART_NAME(i8_columns)(i8_finish *f) {
  const i8_product *p = f->p;
  const int64_t count = p->l.columns;
  const base_i32 *sums = (const base_i32 *)(const void *)p->w, *bias = sums + 2 * count;
  const base_f32 *w_scales = (const base_f32 *)(const void *)(sums + count);
  /* of a sum, without its start */
  const float largest = 255.0F * (f->row_start || p->s.w_shift ? 256 : 128) * (float)p->l.k;
  const float *given = f->direct && f->e.bias ? f->e.bias : NULL;
  const int64_t wide = p->l.group_panels * V_LANES;
  int64_t channel = 0;
  bool fits = true;
  for (int64_t i = 0; i < count; i++) {
    f->start[i] = bias[i] - (int32_t)p->s.x_zero * sums[i];
    f->scales[i] = p->s.x_scale * w_scales[i] / (f->direct ? f->d.over : 1);
    f->offsets[i] = given && i % wide < p->l.n ? given[channel++] / f->d.over : 0;
    fits &= (largest + fabsf((float)f->start[i])) * fabsf(f->scales[i]) + fabsf(f->offsets[i]) < 0x1p30F;
  }
  if (f->d.residual && f->d.rounds) fits = 256 * f->d.t_by < 0x1p30F;
  if (f->d.residual) fits &= 256 * f->d.r_by < 0x1p30F;
  const int offset = p->s.least < 0 ? 128 : 0;
  f->plain = fits && offset == 0 && f->d.least <= 0 && f->d.most >= 255;
}

td_status KERN_PART_NAME(i8_finish_of)(const i8_product *p, i8_finish *f) {
  const base_tensor *residual = base_in(p->call, KERN_IN_RESIDUAL);
  const size_t count = (size_t)p->l.columns;
  *f = (i8_finish){.p = p,
                   .start = base_call_scratch(p->call, count, sizeof *f->start),
                   .scales = base_call_scratch(p->call, count + BYTES_ROW, sizeof *f->scales),
                   .offsets = base_call_scratch(p->call, count + BYTES_ROW, sizeof *f->offsets)};
  if (!f->start || !f->scales || !f->offsets) return base_no_memory(p->call->err, "scratch");
  TRY(KERN_NAME(epilogue_of)(p->call, &f->e));
  f->direct = kern_i8_is_direct(p->call->attrs, kern_i8_operands(p->call), &f->d);
  f->cheap = kern_epilogue_cheap(&f->e, f->limits) && !f->e.residual && !f->e.scale && !f->e.shift && !f->e.chain;
  const int offset = p->s.least < 0 ? 128 : 0;
  KERN_PART_NAME(i8_columns)(f);
  f->bytes = b_bytes_of((int)p->s.y_zero + offset, (int)f->d.least + offset, (int)f->d.most + offset, (uint8_t)offset);
  if (!residual) return TD_OK;
  f->residual = residual->data;
  f->residual_pitch = kern_pitch(residual);
  f->residual_flip = residual->dtype == TD_I8 ? 128 : 0;
  return TD_OK;
}

/* As many rows as a tile has, times BYTES_PANELS panels, that become bytes from its registers: of few steps of k the
 * way through memory takes as long as the products. Of sums as narrow_plain_full takes them. */
static void narrow_tile(const i8_finish *f, const product_tile *t, int64_t lane, uint8_t *to) {
  enum { ROWS_OF_TILE = SUMS / PANELS };
  const b_bytes bytes = f->bytes;
  const int64_t pitch = f->p->out_pitch;
  vi sum[SUMS];
  vf scales[PANELS], offsets[PANELS];
  multiply(t, 0, sum, ROWS_OF_TILE, PANELS);
  V_FOR(p, PANELS) scales[p] = v_load(f->scales + lane + p * V_LANES);
  V_FOR(p, PANELS) offsets[p] = v_load(f->offsets + lane + p * V_LANES);
  V_FOR(r, ROWS_OF_TILE) {
    vi q[PANELS];
    V_FOR(p, PANELS) q[p] = v_to_int(v_fma(v_from_int(sum[r * PANELS + p]), scales[p], offsets[p]));
    b_narrow(to + r * pitch, q, &bytes, BYTES_ROW, true);
  }
}

/* ---- rows of x ---- */

/* round(x / scale). A division takes as long as five products: one is done only where the product with 1 / scale, which
 * is less than 1e-4 off within +-512, comes so near to a half that it could round otherwise. What lies beyond is no
 * byte in either way. */
V_INLINE vf rounded_quotient(vf x, vf scale, vf by, const bool by_product) {
  if (!by_product) return v_round(v_div(x, scale));
  const vf t = v_mul(x, by), near = v_round(t);
  return v_any(v_lt(v_set(0.4998F), v_abs(v_sub(t, near)))) ? v_round(v_div(x, scale)) : near;
}

void KERN_PART_NAME(i8_quantise)(const kern_i8_scales *s, const float *from, int64_t n, byte_x *to) {
  const vf scale = v_set(s->x_scale), zero = v_set(s->x_zero), least = v_zero(), most = v_set(255);
  const vf by = v_set(1 / s->x_scale);
  const bool by_product = fabsf(s->x_scale) > 0x1p-100F && fabsf(s->x_scale) < 0x1p100F; /* and so is 1 / scale */
  for (int64_t i = 0; i < n; i += V_LANES) {
    const int64_t lanes = base_min_i64(V_LANES, n - i);
    __builtin_prefetch(from + i + FETCHED);
    const vf q = v_add(rounded_quotient(v_load_n(from + i, lanes), scale, by, by_product), zero);
    b_store_x(to + i, v_to_int(v_min(v_max(q, least), most)), lanes);
  }
}

void KERN_PART_NAME(i8_copy)(uint8_t flip, const uint8_t *from, int64_t n, byte_x *to) {
  for (int64_t i = 0; i < n; i += B_COPIED) b_copy(to + i, from + i, flip, base_min_i64(B_COPIED, n - i));
}

void KERN_PART_NAME(i8_find_range)(const float *x, int64_t count, kern_i8_scales *s) {
  enum { CHAINS = 4 };
  vf low[CHAINS], high[CHAINS];
  V_FOR(j, CHAINS) low[j] = high[j] = v_zero();
  int64_t i = 0;
  for (; i + CHAINS * V_LANES <= count; i += CHAINS * V_LANES) V_FOR(j, CHAINS) {
      const vf a = v_load(x + i + j * V_LANES);
      low[j] = v_min(a, low[j]); /* of what is no number the other one */
      high[j] = v_max(a, high[j]);
    }
  for (; i < count; i += V_LANES) {
    const vf a = v_load_n(x + i, base_min_i64(V_LANES, count - i));
    low[0] = v_min(a, low[0]);
    high[0] = v_max(a, high[0]);
  }
  V_FOR(j, CHAINS) low[0] = v_min(low[j], low[0]), high[0] = v_max(high[j], high[0]);
  kern_i8_range(v_lowest(low[0]), v_highest(high[0]), s);
}

void KERN_PART_NAME(i8_to_bytes)(const kern_i8_scales *s, const float *from, int64_t count, uint8_t *to) {
  enum { PIECE = 256 };
  for (int64_t i = 0, n; i < count; i += n) {
    byte_x piece[PIECE];
    n = base_min_i64(PIECE, count - i);
    KERN_PART_NAME(i8_quantise)(s, from + i, n, sizeof *piece == 1 ? (byte_x *)(void *)(to + i) : piece);
    for (int64_t k = 0; sizeof *piece > 1 && k < n; k++) to[i + k] = (uint8_t)piece[k];
  }
}

td_status KERN_PART_NAME(i8_find_bytes)(i8_product *p) {
  const int64_t count = base_tensor_numel(base_in(p->call, 0));
  uint8_t *to = base_call_scratch(p->call, (size_t)count, sizeof *to);
  if (!to) return base_no_memory(p->call->err, "scratch");
  KERN_PART_NAME(i8_to_bytes)(&p->s, p->x, count, to);
  p->x = to;
  p->type = TD_U8;
  return TD_OK;
}

/* ---- tasks ---- */

void KERN_PART_NAME(i8_add_to_rows)(float *sums, const int32_t *add, int64_t rows, int64_t panels) {
  int32_t *row = (int32_t *)(void *)sums;
  for (int64_t r = 0; r < rows; r++, row += BYTES_ROW)
    for (int64_t i = 0; i < panels * V_LANES; i += V_LANES)
      b_store_i32(row + i, vi_add(b_load_i32(row + i), vi_set(add[r])));
}

static __attribute__((noinline)) int32_t sum_of(const byte_x *x, int64_t n) {
  const vi ones = b_ones();
  vi sums = vi_set(0);
  int32_t lanes[V_LANES], sum = 0;
  int64_t i = 0;
  for (; i + V_LANES * BYTES_DEPTH <= n; i += V_LANES * BYTES_DEPTH) sums = b_dot(sums, b_load_x(x + i), ones);
  b_store_i32(lanes, sums);
  for (int64_t k = 0; k < V_LANES; k++) sum += lanes[k];
  for (; i < n; i++) sum += x[i];
  return sum;
}

void KERN_PART_NAME(i8_shifts)(const i8_product *p, const product_tile *t, int64_t n, int64_t rows, int32_t *to) {
  for (int64_t row = 0; row < rows; row++) {
    const char *x = (const char *)t->a[0] + row * t->a_pitch;
    int32_t sum = -(int32_t)(n * t->runs) * (int32_t)p->s.x_zero;
    for (int64_t run = 0; run < t->runs; run++) sum += sum_of((const byte_x *)(const void *)(x + t->run[run]), n);
    to[row] = -p->s.w_shift * sum;
  }
}

void KERN_PART_NAME(i8_multiply_rows)(const i8_finish *f, const byte_x *x, int64_t x_pitch, int64_t first,
                                      int64_t count, int64_t panel, int64_t end) {
  static const int64_t run[] = {0};
  const i8_product *p = f->p;
  while (panel < end) {
    const int64_t panels = base_min_i64(PANELS, end - panel);
    const int64_t columns = base_min_i64(panels * V_LANES, p->l.n - panel * V_LANES);
    const bool at_once = f->direct && f->plain && !f->d.residual && !f->row_start && columns == BYTES_ROW &&
                         p->l.steps <= FEW_STEPS && p->l.groups == 1;
    for (int64_t row = 0, rows; row < count; row += rows) {
      _Alignas(64) float sums[BYTES_ROWS * BYTES_ROW];
      const product_tile t = {.a = {x + row * x_pitch},
                              .a_pitch = x_pitch * (int64_t)sizeof *x,
                              .run = run,
                              .runs = 1,
                              .blocks = p->l.steps,
                              .words = 1,
                              .b = p->w + p->l.data + panel * p->l.panel_bytes,
                              .b_panel = p->l.panel_bytes,
                              .start = f->start + panel * V_LANES,
                              .sums = sums};
      rows = base_min_i64(at_once ? SUMS / PANELS : BYTES_ROWS, count - row);
      if (at_once && rows == SUMS / PANELS) {
        uint8_t *to = (uint8_t *)base_out(p->call, 0)->data + (first + row) * p->out_pitch + panel * V_LANES;
        narrow_tile(f, &t, panel * V_LANES, to);
        continue;
      }
      KERN_PART_NAME(i8_tiles)(&t, rows, panels);
      if (f->row_start) KERN_PART_NAME(i8_add_to_rows)(sums, f->row_start + row, rows, panels);
      KERN_PART_NAME(i8_finish)(f, sums, first + row, rows, 0, panel * V_LANES, columns);
    }
    panel += panels;
  }
}

/* Rows [first, first + count) of x as a tile reads them, l.steps * l.depth apart. */
static void copy_rows(const i8_product *p, int64_t first, int64_t count, byte_x *to) {
  const int64_t pitch = p->l.steps * BYTES_DEPTH;
  for (int64_t i = 0; i < count; i++, to += pitch) {
    const int64_t at = (first + i) * p->x_pitch;
    for (int64_t k = p->l.k; k < pitch; k++) to[k] = 0;
    if (p->type == TD_F32) KERN_PART_NAME(i8_quantise)(&p->s, (const float *)p->x + at, p->l.k, to);
    else KERN_PART_NAME(i8_copy)(p->type == TD_I8 ? 128 : 0, (const uint8_t *)p->x + at, p->l.k, to);
  }
}

td_status KERN_PART_NAME(i8_multiply)(const i8_product *p) {
  static const int64_t run[] = {0};
  const int64_t chunks = base_ceil_div(p->m, CHUNK), chunk = base_ceil_div(p->m, chunks);
  const int64_t panels = p->l.group_panels, quads = base_ceil_div(panels, PANELS), pitch = p->l.steps * BYTES_DEPTH;
  const int64_t work = chunk * base_max_i64(p->l.steps, 1) * panels;
  const int64_t wanted = base_min_i64(kern_tasks_wanted(p->call->workers) / chunks, panels / PANELS);
  const int64_t parts = base_max_i64(1, base_min_i64(wanted, work / kern_task_size(KERN_TASK_WORK, p->call->workers)));
  const int64_t tasks = chunks * parts;
  const bool lies = p->type == TD_U8 && sizeof(byte_x) == 1 && p->l.k == pitch;
  const int64_t x_pitch = lies ? p->x_pitch : pitch;
  i8_finish f;
  TRY(KERN_PART_NAME(i8_finish_of)(p, &f));
  byte_x *rows = lies ? NULL : base_call_scratch(p->call, (size_t)(chunk * pitch), sizeof *rows);
  int32_t *shifts = p->s.w_shift ? base_call_scratch(p->call, (size_t)chunk, sizeof *shifts) : NULL;
  if ((!lies && !rows) || (p->s.w_shift && !shifts)) return base_no_memory(p->call->err, "scratch");
  f.row_start = shifts;
  int64_t copied = -1;
  for (int64_t task = base_call_first(p->call, tasks); task < tasks; task = base_call_next(p->call, task, tasks)) {
    const int64_t which = task / parts, part = task % parts, first = which * chunk;
    const int64_t count = base_min_i64(chunk, p->m - first);
    const byte_x *x = lies ? (const byte_x *)p->x + first * x_pitch : rows;
    if (!lies && which != copied) copy_rows(p, first, count, rows);
    if (shifts && which != copied) {
      const product_tile t = {.a = {x}, .a_pitch = x_pitch * (int64_t)sizeof *x, .run = run, .runs = 1};
      KERN_PART_NAME(i8_shifts)(p, &t, p->l.k, count, shifts);
    }
    copied = which;
    const int64_t panel = quads * part / parts * PANELS, end = quads * (part + 1) / parts * PANELS;
    KERN_PART_NAME(i8_multiply_rows)(&f, x, x_pitch, first, count, panel, base_min_i64(end, panels));
  }
  return TD_OK;
}
