/* linear_amx.c -- KERN_LINEAR on 16 bits by tiles of AMX: td::linear whose weights are pairs of bf16 (pack.h). Rows of
 * x are rounded a chunk at a time, and cut along k into blocks of one size, so that the order of a row's sum follows
 * from k alone. The instruction adds the pairs of a block in f32, in an order of its own, and takes subnormal numbers
 * for zero (Intel SDM vol. 2, TDPBF16PS). */
#include "kernels/amx_priv.h"
#include "kernels/gemm_priv.h"
#include "kernels/wide/narrow_priv.h"

enum {
  MOST_ROWS = 2 * AMX_ROWS,
  PANELS = 4,              /* whose sums go through the epilogue at once */
  SUMS = PANELS * V_LANES, /* floats of a row of these */
  CHUNK = 128,             /* rows that are rounded at once */
  TASKS = 16               /* that a product is cut into where its rows are few */
};

typedef struct product {
  kern_epilogue e;
  kern_chain *front;      /* makes rows of x; NULL: they are there */
  int64_t m, n, k, pairs; /* pairs: of a row of x or a column of w */
  int64_t blocks, words;  /* of k; pairs of a block, at most AMX_ROWS */
  const float *x;
  int64_t x_pitch;
  const uint32_t *w; /* [panel][pair][V_LANES] */
  float *out;
  int64_t out_pitch;
  float *made;    /* rows of k by `front` */
  uint32_t *rows; /* rounded ones, blocks * words each */
} product;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static void round_rows(const product *p, int64_t first, int64_t count) {
  const int64_t width = p->blocks * p->words * 2;
  const kern_chain_tile t = {
      .sums = p->made, .pitch = p->k, .row = first, .row_step = 1, .rows = count, .columns = p->k};
  if (p->front) kern_chain_run(p->front, &t);
  uint16_t *to = (uint16_t *)(void *)p->rows;
  for (int64_t r = 0; r < count; r++, to += width) {
    write_bf16(to, p->front ? p->made + r * p->k : p->x + (first + r) * p->x_pitch, p->k);
    memset(to + p->k, 0, (size_t)(width - p->k) * sizeof *to);
  }
}

/* The last block of a panel, which may lack pairs. */
static const uint32_t *padded(const product *p, const uint32_t *b, uint32_t *to) {
  const int64_t there = p->pairs - (p->blocks - 1) * p->words;
  if (there == p->words) return b;
  memcpy(to, b, (size_t)(there * V_LANES) * sizeof *to);
  memset(to + there * V_LANES, 0, (size_t)((p->words - there) * V_LANES) * sizeof *to);
  return to;
}

/* One or two tiles of rows from `a` on times one or two panels. */
V_TEMPLATE void multiply(const product *p, const uint32_t *a, int64_t panel, float *sums, const int tall,
                         const int wide) {
  _Alignas(64) uint32_t last[2][AMX_ROWS * V_LANES];
  const int64_t a_row = p->blocks * p->words, a_pitch = a_row * (int64_t)sizeof *a, step = p->words * V_LANES;
  const uint32_t *b = p->w + panel * p->pairs * V_LANES, *next = b + p->pairs * V_LANES;
  AMX_ZERO(0);
  if (wide > 1) AMX_ZERO(1);
  if (tall > 1) AMX_ZERO(2);
  if (tall > 1 && wide > 1) AMX_ZERO(3);
  for (int64_t i = 0; i < p->blocks; i++, a += p->words, b += step, next += step) {
    const bool ends = i + 1 == p->blocks;
    AMX_LOAD(6, ends ? padded(p, b, last[0]) : b, AMX_BYTES);
    AMX_LOAD(4, a, a_pitch);
    AMX_DOT_BF16(0, 4, 6);
    if (tall > 1) AMX_LOAD(5, a + AMX_ROWS * a_row, a_pitch);
    if (tall > 1) AMX_DOT_BF16(2, 5, 6);
    if (wide > 1) AMX_LOAD(7, ends ? padded(p, next, last[1]) : next, AMX_BYTES);
    if (wide > 1) AMX_DOT_BF16(1, 4, 7);
    if (wide > 1 && tall > 1) AMX_DOT_BF16(3, 5, 7);
  }
  AMX_STORE(0, sums, SUMS * sizeof *sums);
  if (wide > 1) AMX_STORE(1, sums + V_LANES, SUMS * sizeof *sums);
  if (tall > 1) AMX_STORE(2, sums + AMX_ROWS * SUMS, SUMS * sizeof *sums);
  if (tall > 1 && wide > 1) AMX_STORE(3, sums + AMX_ROWS * SUMS + V_LANES, SUMS * sizeof *sums);
}

static void run_tiles(const product *p, const uint32_t *a, int64_t rows, int64_t panel, int64_t panels, float *sums) {
  if (p->blocks == 0) {
    memset(sums, 0, (size_t)(rows * SUMS) * sizeof *sums);
    return;
  }
  for (int64_t i = 0; i < panels; i += 2, sums += 2 * V_LANES) {
    const bool wide = panels - i > 1, tall = rows > AMX_ROWS;
    if (wide && tall) multiply(p, a, panel + i, sums, 2, 2);
    else if (tall) multiply(p, a, panel + i, sums, 2, 1);
    else if (wide) multiply(p, a, panel + i, sums, 1, 2);
    else multiply(p, a, panel + i, sums, 1, 1);
  }
}

/* Rows [first, first + count), which are rounded, times panels [panel, end). Tiles have as many rows each, so that the
 * last one may begin with `done` rows of the one before. */
static void multiply_rows(const product *p, int64_t first, int64_t count, int64_t panel, int64_t end) {
  const int64_t tall = ceil_div(count, ceil_div(count, MOST_ROWS)), row_words = p->blocks * p->words;
  if (p->blocks > 0) amx_begin(tall, p->words);
  for (; panel < end; panel += PANELS) {
    const int64_t panels = base_min_i64(PANELS, end - panel), column = panel * V_LANES;
    const int64_t columns = base_min_i64(panels * V_LANES, p->n - column);
    for (int64_t row = 0, done; row < count; row += tall - done) {
      _Alignas(64) float sums[MOST_ROWS * SUMS];
      const int64_t from = base_min_i64(row, count - tall);
      done = row - from;
      run_tiles(p, p->rows + from * row_words, tall, panel, panels, sums);
      float *result = sums + done * SUMS, *to = p->out + (first + row) * p->out_pitch + column;
      const kern_epilogue e = kern_epilogue_at(&p->e, first + row, column);
      KERN_NAME(epilogue_rows)(&e, result, SUMS, tall - done, columns);
      for (int64_t r = 0; r < tall - done; r++)
        memcpy(to + r * p->out_pitch, result + r * SUMS, (size_t)columns * sizeof *to);
    }
  }
}

td_status KERN_PART_NAME(linear_bf16_amx)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  product p = {.m = 1,
               .n = out->dims[out->rank - 1],
               .k = x->dims[x->rank - 1],
               .x = x->data,
               .x_pitch = kern_pitch(x),
               .w = base_in(call, 1)->data,
               .out = out->data,
               .out_pitch = kern_pitch(out)};
  TRY(KERN_NAME(product_of)(call, &p.e, &p.front));
  for (int32_t i = 0; i < x->rank - 1; i++) p.m *= x->dims[i];
  if (p.m == 0 || p.n == 0) return TD_OK;
  p.pairs = ceil_div(p.k, 2);
  p.blocks = ceil_div(p.pairs, AMX_ROWS);
  p.words = p.blocks ? ceil_div(p.pairs, p.blocks) : 0;
  const int64_t chunks = ceil_div(p.m, CHUNK), chunk = ceil_div(p.m, chunks), panels = ceil_div(p.n, V_LANES);
  const int64_t wides = ceil_div(panels, PANELS), parts = base_min_i64(ceil_div(TASKS, chunks), wides);
  p.rows = base_call_scratch(call, (size_t)chunk, (size_t)(p.blocks * p.words) * sizeof *p.rows);
  p.made = p.front ? base_call_scratch(call, (size_t)chunk, (size_t)p.k * sizeof *p.made) : NULL;
  if (!p.rows || (p.front && !p.made)) return base_no_memory(call->err, "scratch");
  int64_t rounded = -1;
  const int64_t tasks = chunks * parts;
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks)) {
    const int64_t first = task / parts * chunk, part = task % parts, count = base_min_i64(chunk, p.m - first);
    if (first != rounded) round_rows(&p, first, count);
    rounded = first;
    multiply_rows(&p, first, count, gemm_split(wides, parts, part) * PANELS,
                  base_min_i64(panels, gemm_split(wides, parts, part + 1) * PANELS));
  }
  amx_end();
  return TD_OK;
}
