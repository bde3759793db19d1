/* strassen.c -- the product of strassen_priv.h, in Winograd's form, which takes the fewest additions (Higham, Accuracy
 * and Stability of Numerical Algorithms, 2nd ed., 23.1). With A, B and C in quarters:
 *
 *     S1 = A21 + A22   S2 = S1 - A11   S3 = A11 - A21   S4 = A12 - S2
 *     T1 = B12 - B11   T2 = B22 - T1   T3 = B22 - B12   T4 = B21 - T2
 *
 *     X = A11 B11      C11 = X + A12 B21
 *     Y = S1 T1        X += S2 T2        C12 = X + Y + S4 B22
 *     X += S3 T3       C21 = X + A22 T4  C22 = X + Y
 *
 * The rows of a sample are cut into bands, and a band's halves are the rows of its quarters; where the number is odd
 * the last row of the upper half has zeros below it. A task is a band times a group of panels of the left half of B and
 * the group as far to the right in the other half. Each worker makes the sums S of a band it meets; a difference T of
 * two blocks of B is made by the first tile of its product in passing, and kept in L2 for the others. */
#include "kernels/products/strassen_priv.h"

enum { Q11, Q12, Q21, Q22, QUARTERS };
enum { S1, S2, S3, S4, SUMS };
enum {
  BAND = 400,         /* rows, at most: more share the work on T, fewer stay nearer */
  BLOCK_K = 400,      /* of each half of k, at most: blocks of B stay in L2 while the rows pass */
  SKEW = 4 * V_LANES, /* floats between the panels of T: at a pitch of 4 KiB all would lie in one set of L1 */
  LEAST_TASKS = 8     /* of a band; below it narrower groups are taken */
};

typedef struct layer {
  const gemm_product *g;
  int64_t half_k, half_panels, rows; /* rows of a sample */
  int64_t bands, groups, blocks;     /* of a sample's rows, of half the panels, of half of k */
  int64_t pairs, panels, block_k;    /* the most that a band, a group, a block has */
} layer;

/* Scratch of a worker. */
typedef struct worker {
  const layer *l;
  float *s;        /* of a band: [SUMS, pairs, half_k] */
  float *t, *more; /* two differences: panels of a block, SKEW apart */
  float *x, *y;    /* [pairs, columns of a group] */
  int64_t band;    /* that s holds; -1: none */
} worker;

/* Part of A or of B: `pitch` floats from row to row, or from panel to panel. */
typedef struct part {
  const float *data;
  int64_t pitch;
} part;

/* One block of k of one task. */
typedef struct block {
  const worker *w;
  int64_t pairs, below; /* rows in the upper half and in the lower one: as many, or one less */
  int64_t panels, k;
  part a[QUARTERS], s[SUMS], b[QUARTERS];
  float *c[QUARTERS];
  kern_epilogue e[QUARTERS];
  bool first, last;
  const float *next[2]; /* what the next group reads of either half of B meanwhile; NULL: there is none */
} block;

/* The right side of a product: a part of B, or from - minus, which is kept in `to`, panels of a block SKEW apart. */
typedef struct right_side {
  part from, minus;
  float *to; /* NULL: nothing is subtracted */
} right_side;

/* ---- sums ---- */

/* S1 to S4 of the rows [first, first + rows) of the product. */
static void add_quarters(const worker *w, int64_t first, int64_t rows) {
  const layer *l = w->l;
  const gemm_product *g = l->g;
  int64_t pairs = (rows + 1) / 2, half = l->half_k, pitch = l->pairs * half;
  for (int64_t r = 0; r < pairs; r++) {
    const float *above = g->a + (first + r) * g->a_pitch;
    const float *below = r + pairs < rows ? above + pairs * g->a_pitch : NULL;
    float *to = w->s + r * half;
    for (int64_t i = 0; i < half; i += V_LANES, to += V_LANES) {
      const vf a11 = v_load(above + i), a12 = v_load(above + half + i);
      const vf a21 = below ? v_load(below + i) : v_zero(), a22 = below ? v_load(below + half + i) : v_zero();
      const vf s1 = v_add(a21, a22), s2 = v_sub(s1, a11);
      v_store(to + S1 * pitch, s1);
      v_store(to + S2 * pitch, s2);
      v_store(to + S3 * pitch, v_sub(a11, a21));
      v_store(to + S4 * pitch, v_sub(a12, s2));
    }
  }
}

/* A quarter of C (+)= x, or x + y. */
static void add_sums(const block *b, int quarter, const float *y) {
  const float *x = b->w->x;
  float *c = b->c[quarter];
  int64_t rows = quarter < Q21 ? b->pairs : b->below, pitch = b->w->l->g->c_pitch, columns = b->panels * V_LANES;
  for (int64_t r = 0; r < rows; r++, c += pitch)
    for (int64_t i = 0; i < columns; i += V_LANES) {
      vf sum = v_load(x + r * columns + i);
      if (y) sum = v_add(sum, v_load(y + r * columns + i));
      v_store(c + i, b->first ? sum : v_add(v_load(c + i), sum));
    }
}

/* ---- products ---- */

/* The tile of gemm_tile_priv.h whose rows of B are differences, which it keeps. */
V_INLINE void subtract_tile(const gemm_tile *t, const right_side *right, const int rows, const int panels) {
  vf sums[GEMM_MAX_ROWS * GEMM_MAX_PANELS], row[GEMM_MAX_PANELS];
  const float *a[GEMM_MAX_ROWS], *from = right->from.data, *minus = right->minus.data;
  const int64_t end = t->k, pitch = t->k * V_LANES + SKEW, from_pitch = right->from.pitch,
                minus_pitch = right->minus.pitch;
  float *to = right->to;
  V_FOR(r, rows) a[r] = t->a[r];
  V_FOR(i, rows * panels) {
    const float *c = t->c + i / panels * t->c_pitch + i % panels * V_LANES;
    sums[i] = t->more ? v_load(c) : v_zero();
  }
  for (int64_t k = 0; k < end; k++, from += V_LANES, minus += V_LANES, to += V_LANES) {
    V_OPAQUE(k);
    V_FOR(p, panels) {
      row[p] = v_sub(v_load(from + p * from_pitch), v_load(minus + p * minus_pitch));
      v_store(to + p * pitch, row[p]);
    }
    V_FOR(i, rows * panels) sums[i] = v_fma(v_set(a[i / panels][k]), row[i % panels], sums[i]);
  }
  V_FOR(i, rows * panels) v_store(t->c + i / panels * t->c_pitch + i % panels * V_LANES, sums[i]);
}

/* One for every number of panels, of as many rows as gemm_max_rows says. */
#define TILE(rows, panels) \
  static void subtract_##panels(const gemm_tile *t, const right_side *r) { subtract_tile(t, r, rows, panels); }
#define ENTRY(rows, panels) subtract_##panels,
GEMM_WHOLE_TILES(TILE)
static void (*const subtract[GEMM_MAX_PANELS])(const gemm_tile *t, const right_side *r) = {GEMM_WHOLE_TILES(ENTRY)};

/* t says where the sums go and what is fetched meanwhile. */
static void multiply(const block *b, gemm_tile t, const part *left, int64_t rows, const right_side *right,
                     const kern_epilogue *e) {
  const float *table[GEMM_MAX_ROWS];
  int64_t most = gemm_max_rows(b->panels), done = 0;
  float *c = t.c;
  t.a = table;
  t.taps = 1;
  t.k = b->k;
  t.columns = b->panels * V_LANES;
  t.b = right->from.data;
  t.b_panel = right->from.pitch;
  if (right->to) {
    for (; done < most; done++) table[done] = left->data + done * left->pitch;
    subtract[b->panels - 1](&t, right);
    if (e) KERN_NAME(epilogue_rows)(e, c, t.c_pitch, done, t.columns);
    t.b = right->to;
    t.b_panel = b->k * V_LANES + SKEW;
  }
  int64_t tiles = (rows - done + most - 1) / most;
  t.ahead_step = tiles ? (t.columns + tiles - 1) / tiles : 0;
  for (int64_t i = 1; i <= tiles; i++) {
    int64_t from = done + gemm_split(rows - done, tiles, i - 1), to = done + gemm_split(rows - done, tiles, i);
    for (int64_t r = from; r < to; r++) table[r - from] = left->data + r * left->pitch;
    t.c = c + from * t.c_pitch;
    const kern_epilogue at = e ? kern_epilogue_at(e, from, 0) : (kern_epilogue){.act = KERN_ACT_none};
    KERN_NAME(gemm_tile)(&t, to - from, b->panels, e ? &at : NULL);
    if (t.ahead) t.ahead += t.ahead_step * t.k;
  }
}

/* A tile that fetches one of the four portions of what the next group reads; none: -1. */
static gemm_tile fetching(const block *b, int portion) {
  const float *next = portion < 0 ? NULL : b->next[portion / 2];
  return (gemm_tile){.ahead = next ? next + portion % 2 * b->k * b->panels * V_LANES : NULL};
}

/* x or y, or what goes on from it. */
static void multiply_into(const block *b, float *to, bool more, int portion, part left, right_side right) {
  gemm_tile t = fetching(b, portion);
  t.c = to;
  t.c_pitch = b->panels * V_LANES;
  t.more = more;
  multiply(b, t, &left, b->pairs, &right, NULL);
}

/* Onto what a quarter of C has by now; its epilogue with the last block. */
static void multiply_onto(const block *b, int quarter, int portion, part left, right_side right) {
  gemm_tile t = fetching(b, portion);
  t.c = b->c[quarter];
  t.c_pitch = b->w->l->g->c_pitch;
  t.more = true;
  multiply(b, t, &left, quarter < Q21 ? b->pairs : b->below, &right, b->last ? &b->e[quarter] : NULL);
}

static void run_block(const block *k) {
  const part *a = k->a, *s = k->s, *b = k->b, t = {k->w->t, k->k * V_LANES + SKEW};
  float *x = k->w->x, *y = k->w->y;
  multiply_into(k, x, false, 0, a[Q11], (right_side){.from = b[Q11]});
  add_sums(k, Q11, NULL);
  multiply_onto(k, Q11, 1, a[Q12], (right_side){.from = b[Q21]});
  multiply_into(k, y, false, 2, s[S1], (right_side){b[Q12], b[Q11], k->w->t});
  multiply_into(k, x, true, 3, s[S2], (right_side){b[Q22], t, k->w->t});
  add_sums(k, Q12, y);
  multiply_onto(k, Q12, -1, s[S4], (right_side){.from = b[Q22]});
  multiply_into(k, x, true, -1, s[S3], (right_side){b[Q22], b[Q12], k->w->more});
  add_sums(k, Q21, NULL);
  multiply_onto(k, Q21, -1, a[Q22], (right_side){b[Q21], t, k->w->t});
  add_sums(k, Q22, y);
  if (k->last) KERN_NAME(epilogue_rows)(&k->e[Q22], k->c[Q22], k->w->l->g->c_pitch, k->below, k->panels * V_LANES);
}

/* ---- tasks ---- */

/* The quarters of `rows` rows from `row` on and of a group of panels, at the first block. */
static block first_block(const worker *w, int64_t row, int64_t rows, int64_t group) {
  const layer *l = w->l;
  const gemm_product *g = l->g;
  int64_t panel = gemm_split(l->half_panels, l->groups, group);
  block b = {.w = w,
             .pairs = (rows + 1) / 2,
             .below = rows / 2,
             .panels = gemm_split(l->half_panels, l->groups, group + 1) - panel};
  for (int q = 0; q < QUARTERS; q++) {
    int64_t lower = q / 2, right = q % 2, first = row + lower * b.pairs,
            column = (panel + right * l->half_panels) * V_LANES;
    b.a[q] = (part){g->a + first * g->a_pitch + right * l->half_k, g->a_pitch};
    b.b[q] = (part){g->b + column * g->k + lower * l->half_k * V_LANES, g->k * V_LANES};
    b.c[q] = g->c + first * g->c_pitch + column;
    b.e[q] = kern_epilogue_at(g->e, first, column);
  }
  for (int s = 0; s < SUMS; s++) b.s[s] = (part){w->s + s * l->pairs * l->half_k, l->half_k};
  return b;
}

static void run_task(worker *w, int64_t band, int64_t group) {
  const layer *l = w->l;
  int64_t row = gemm_split(l->rows, l->bands, band % l->bands);
  int64_t rows = gemm_split(l->rows, l->bands, band % l->bands + 1) - row;
  row += band / l->bands * l->rows;
  if (w->band != band) add_quarters(w, row, rows);
  w->band = band;
  block b = first_block(w, row, rows, group);
  for (int64_t i = 0, k = 0; i < l->blocks; i++, k += b.k) {
    b.k = gemm_split(l->half_k, l->blocks, i + 1) - k;
    b.first = i == 0;
    b.last = i + 1 == l->blocks;
    /* The panels of the next group lie behind these; each block fetches as much as it reads. */
    for (int side = 0; side < 2 && group + 1 < l->groups; side++)
      b.next[side] = b.b[side].data + b.panels * b.b[side].pitch + (2 * b.panels - 1) * k * V_LANES;
    run_block(&b);
    for (int q = 0; q < QUARTERS; q++) b.a[q].data += b.k, b.b[q].data += b.k * V_LANES;
    for (int s = 0; s < SUMS; s++) b.s[s].data += b.k;
  }
}

static layer describe(const gemm_product *g, int64_t rows) {
  layer l = {.g = g, .half_k = g->k / 2, .half_panels = g->n / V_LANES / 2, .rows = rows};
  l.bands = (rows + BAND - 1) / BAND;
  l.blocks = (l.half_k + BLOCK_K - 1) / BLOCK_K;
  int64_t width = GEMM_MAX_PANELS;
  while (width > 2 && l.half_panels < LEAST_TASKS * width) width--;
  l.groups = (l.half_panels + width - 1) / width;
  l.pairs = (gemm_split(rows, l.bands, 1) + 1) / 2;
  l.panels = gemm_split(l.half_panels, l.groups, 1);
  l.block_k = gemm_split(l.half_k, l.blocks, 1);
  return l;
}

static float *take(const base_call *call, int64_t rows, int64_t columns) {
  return base_call_scratch(call, (size_t)rows * (size_t)columns, sizeof(float));
}

static bool take_scratch(const base_call *call, worker *w) {
  const layer *l = w->l;
  w->s = take(call, SUMS * l->pairs, l->half_k);
  w->t = take(call, l->panels, l->block_k * V_LANES + SKEW);
  w->more = take(call, l->panels, l->block_k * V_LANES + SKEW);
  w->x = take(call, l->pairs, l->panels * V_LANES);
  w->y = take(call, l->pairs, l->panels * V_LANES);
  return w->s && w->t && w->more && w->x && w->y;
}

td_status KERN_NAME(strassen)(const base_call *call, const gemm_product *g, int64_t rows) {
  const layer l = describe(g, rows);
  worker w = {.l = &l, .band = -1};
  if (!take_scratch(call, &w)) return base_no_memory(call->err, "scratch");
  int64_t total = g->m / rows * l.bands * l.groups;
  for (int64_t i = base_call_first(call, total); i < total; i = base_call_next(call, i, total))
    run_task(&w, i / l.groups, i % l.groups);
  return TD_OK;
}
