/* matmul_i8.c -- KERN_MATMUL_I8: td::matmul_i8 by dot instructions. Neither operand is known before the call: a task
 * packs the columns of W that it needs as weights are (pack_i8.h), and neighbouring tasks share them. Dot instructions
 * take signed weights, so the bytes of W are b + 128 or b as they are stored, and with z what the zero point is of b
 *
 *     sum over k of (x - x_zero) (b - z) = sum x b  - x_zero (sum b - k z)  - z sum x
 *
 * whose second term is what a column's sums begin with, and whose third one is a row's. */
#include "kernels/products/matmul_priv.h"
#include "kernels/products/product_i8_priv.h"
#include "kernels/tasks_priv.h"

enum {
  CHUNK = 48, /* rows of x that are taken at once */
  FOUR = sizeof(int32_t),
  RUN = FOUR * V_LANES, /* bytes of a column that are packed at once */
  DOT = V_LANES * BYTES_DEPTH
};

typedef struct product {
  i8_product p;
  i8_finish f;
  matmul_batches at; /* whose elements are bytes */
  uint8_t *w;        /* columns of a batch, packed; p.w */
  byte_x *rows;      /* a chunk of x as tiles read it, p.l.steps * BYTES_DEPTH apart; NULL: it is read where it lies */
  int32_t *row_start;
  int32_t zero;           /* of signed weights */
  uint8_t x_flip, w_flip; /* 128 where the one is signed, the other is not; else 0 */
} product;

static const uint8_t *batch_of(const void *first, const product *own, const int64_t *strides, int64_t batch) {
  return (const uint8_t *)first + matmul_offset(&own->at, strides, batch);
}

/* ---- columns of W ---- */

/* Four bytes of each column of a panel, as a dot instruction reads them; two of them in each of two where it takes two,
 * the second of which may be behind the panel. */
V_INLINE void store_fours(int8_t *to, vi fours) {
  int32_t lanes[V_LANES];
  b_store_i32(lanes, fours);
  for (int64_t i = 0; i < V_LANES; i++)
    for (int64_t part = 0; part < FOUR / BYTES_DEPTH; part++)
      memcpy(to + part * DOT + i * BYTES_DEPTH, (const int8_t *)&lanes[i] + part * BYTES_DEPTH, BYTES_DEPTH);
}

/* Columns that lie side by side. */
static void pack_rows(const product *own, const uint8_t *from, int64_t columns, int8_t *to) {
  const int64_t k = own->at.k, row = own->at.b_row;
  const vi none = vi_set(own->w_flip), flip = vi_set((int32_t)(own->w_flip * 0x01010101u));
  for (int64_t i = 0; i < k; i += FOUR, to += RUN) {
    vi fours = vi_set(0);
    for (int64_t j = FOUR - 1; j >= 0; j--)
      fours = vi_or(vi_shl(fours, 8), i + j < k ? b_widen(from + (i + j) * row, columns) : none);
    store_fours(to, vi_xor(fours, flip));
  }
}

/* Elements [i, i + RUN) of a column, behind the last one what becomes 0. */
V_INLINE vf load_run(const product *own, const uint8_t *column, int64_t i) {
  const int64_t n = base_min_i64(RUN, own->at.k - i), row = own->at.b_row;
  uint8_t some[RUN];
  vf run;
  if (row == 1 && n == RUN) {
    memcpy(&run, column + i, sizeof run);
    return run;
  }
  memset(some, own->w_flip, sizeof some);
  if (row == 1) memcpy(some, column + i, (size_t)n);
  else
    for (int64_t j = 0; j < n; j++) some[j] = column[(i + j) * row];
  memcpy(&run, some, sizeof run);
  return run;
}

static void pack_columns(const product *own, const uint8_t *from, int64_t columns, int8_t *to) {
  const vi flip = vi_set((int32_t)(own->w_flip * 0x01010101u));
  for (int64_t i = 0; i < own->at.k; i += RUN) {
    vf square[V_LANES];
    for (int64_t c = 0; c < V_LANES; c++)
      square[c] = c < columns ? load_run(own, from + c * own->at.b_column, i) : v_zero();
    v_transpose(square);
    for (int64_t j = 0; j < V_LANES && i + j * FOUR < own->at.k; j++, to += RUN)
      store_fours(to, vi_xor(v_as_int(square[j]), flip));
  }
}

static void pack_panel(product *own, const uint8_t *batch, int64_t panel) {
  const kern_i8_layout *l = &own->p.l;
  const uint8_t *from = batch + panel * V_LANES * own->at.b_column;
  const int64_t columns = base_min_i64(V_LANES, l->n - panel * V_LANES);
  int8_t *to = (int8_t *)own->w + l->data + panel * l->panel_bytes;
  byte_x one[DOT];
  vi sum = vi_set(-(int32_t)own->at.k * own->zero);
  (own->at.b_column == 1 ? pack_rows : pack_columns)(own, from, columns, to);
  for (int64_t i = 0; i < DOT; i++) one[i] = 1;
  const vi ones = b_load_x(one);
  for (int64_t i = 0; i < l->steps; i++) sum = b_dot(sum, ones, b_load(to + i * DOT));
  b_store_i32((int32_t *)(void *)own->w + panel * V_LANES, sum);
}

/* ---- rows of x ---- */

static void copy_row(const product *own, const uint8_t *from, byte_x *to) {
  const int64_t k = own->at.k, step = own->at.a_column;
  if (step == 1) I8_NAME(i8_copy)(own->x_flip, from, k, to);
  for (int64_t i = 0; step != 1 && i < k; i++) to[i] = from[i * step] ^ own->x_flip;
  for (int64_t i = k; i < own->p.l.steps * BYTES_DEPTH; i++) to[i] = 0;
}

static int32_t sum_of(const byte_x *row, int64_t k) {
  static const int8_t one[DOT] = {[0 ... DOT - 1] = 1};
  const vi ones = b_load(one);
  int32_t lanes[V_LANES], all = 0;
  vi sum = vi_set(0);
  for (int64_t i = 0; i < k; i += DOT) {
    const int64_t n = base_min_i64(DOT, k - i);
    const vi some = b_load_some((const uint8_t *)(row + i), n * (int64_t)sizeof *row);
    sum = b_dot(sum, some, ones);
  }
  b_store_i32(lanes, sum);
  for (int64_t i = 0; i < V_LANES; i++) all += lanes[i];
  return all;
}

/* Rows [first, first + count) of a batch as tiles read them, *pitch elements apart. */
static const byte_x *take_rows(const product *own, int64_t batch, int64_t first, int64_t count, int64_t *pitch) {
  const matmul_batches *at = &own->at;
  const uint8_t *from = batch_of(at->a, own, at->a_strides, batch) + first * at->a_row;
  const byte_x *rows = own->rows ? own->rows : (const byte_x *)from;
  *pitch = own->rows ? own->p.l.steps * BYTES_DEPTH : at->a_row;
  for (int64_t i = 0; own->rows && i < count; i++) copy_row(own, from + i * at->a_row, own->rows + i * *pitch);
  for (int64_t i = 0; own->zero && i < count; i++) own->row_start[i] = -own->zero * sum_of(rows + i * *pitch, at->k);
  return rows;
}

/* ---- tasks ---- */

static td_status begin(const base_call *call, product *own) {
  const base_tensor *x = base_in(call, 0), *w = base_in(call, 1), *out = base_out(call, 0);
  const kern_i8_layout *l = &own->p.l;
  *own = (product){.at = KERN_NAME(matmul_batches)(call),
                   .x_flip = x->dtype == TD_I8 ? 128 : 0,
                   .w_flip = w->dtype == TD_U8 ? 128 : 0,
                   .zero = (int32_t)base_attr_int(call->attrs, KERN_MATMUL_I8_ZERO) - 128};
  own->p = (i8_product){
      .call = call, .s = kern_i8_scales_of(call->attrs), .m = own->at.m, .out_pitch = out->dims[out->rank - 1]};
  if (!kern_i8_layout_of(own->at.n, own->at.k, V_LANES, BYTES_DEPTH, &own->p.l) || own->at.k > KERN_MATMUL_I8_MAX_K)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::matmul_i8: %lld elements a row", (long long)own->at.k);
  const int64_t pitch = l->steps * BYTES_DEPTH;
  const bool lies = !own->x_flip && sizeof(byte_x) == 1 && own->at.a_column == 1 && own->at.k == pitch;
  own->w = base_call_scratch(call, (size_t)l->size + RUN, 1);
  own->row_start = base_call_scratch(call, CHUNK, sizeof *own->row_start);
  if (!lies) own->rows = base_call_scratch(call, (size_t)(CHUNK * pitch), sizeof *own->rows);
  if (!own->w || !own->row_start || (!lies && !own->rows)) return base_no_memory(call->err, "scratch");
  memset(own->w, 0, (size_t)l->data);
  float *scales = (float *)(void *)own->w + l->columns;
  for (int64_t i = 0; i < l->columns; i++) scales[i] = (float)base_attr_float(call->attrs, KERN_MATMUL_I8_SCALE);
  own->p.w = own->w;
  TRY(I8_NAME(i8_finish_of)(&own->p, &own->f));
  if (own->zero) own->f.row_start = own->row_start;
  return TD_OK;
}

td_status KERN_PART_NAME(matmul_i8)(const base_call *call) {
  product own;
  TRY(begin(call, &own));
  const matmul_batches *at = &own.at;
  const int64_t batches = at->count, m = at->m, panels = own.p.l.group_panels;
  if (m == 0 || at->n == 0 || batches == 0) return TD_OK;
  const int64_t chunks = base_ceil_div(m, CHUNK), chunk = base_ceil_div(m, chunks),
                quads = base_ceil_div(panels, BYTES_PANELS);
  const int64_t work = chunk * base_max_i64(own.p.l.steps, 1) * panels;
  const uint32_t workers = call->workers;
  const int64_t wanted = base_min_i64(kern_tasks_wanted(workers) / (batches * chunks), panels / BYTES_PANELS);
  const int64_t parts = base_max_i64(1, base_min_i64(wanted, work / kern_task_size(KERN_TASK_WORK, workers)));
  const int64_t tasks = batches * parts * chunks;
  int64_t packed = -1;
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks)) {
    const int64_t batch = task / chunks / parts, part = task / chunks % parts, first = task % chunks * chunk;
    const int64_t count = base_min_i64(chunk, m - first), panel = quads * part / parts * BYTES_PANELS,
                  end = base_min_i64(panels, quads * (part + 1) / parts * BYTES_PANELS);
    const uint8_t *w = batch_of(at->b, &own, at->b_strides, batch);
    for (int64_t i = panel; task / chunks != packed && i < end; i++) pack_panel(&own, w, i);
    if (task / chunks != packed) I8_NAME(i8_columns)(&own.f);
    packed = task / chunks;
    int64_t pitch;
    const byte_x *rows = take_rows(&own, batch, first, count, &pitch);
    I8_NAME(i8_multiply_rows)(&own.f, rows, pitch, batch * m + first, count, panel, end);
  }
  return TD_OK;
}
