/* matmul.c -- KERN_MATMUL: aten::matmul and td::mix, and KERN_GEMM: td::gemm, on f32 of any strides. Neither operand is
 * known before the call, so a task packs the columns of B that it needs, and copies rows of A whose elements do not lie
 * side by side. Neighbouring tasks share their columns: who takes several of them packs once. */
#include "kernels/products/gemm_priv.h"
#include "kernels/products/matmul_priv.h"
#include "kernels/products/packing.h"
#include "kernels/simd/wide/transpose_priv.h"

enum { PACKED_FLOATS = 256 << 10 }; /* of B at a time, unless a group of panels is larger */
enum { LITTLE = 256 /* elements of A, in one of many products */, LITTLE_TASK = 1 << 14 /* multiplications */ };

/* What becomes of a finished chunk of C; NULL: nothing. */
typedef void (*finish_chunk)(const base_call *call, float *c, int64_t first_row, int64_t rows, int64_t first_column,
                             int64_t columns);

/* Strides of the batch dims of `t`, which has `matrix` more, as seen by the output's batch dims: 0 where they repeat.
 */
static void batch_strides(const base_tensor *t, const base_tensor *out, int32_t rank, int64_t *strides) {
  int32_t own = t->rank - 2;
  for (int32_t i = 0; i < rank; i++) {
    int32_t at = i - (rank - own);
    strides[i] = at < 0 || (t->dims[at] == 1 && out->dims[i] != 1) ? 0 : t->strides[at];
  }
}

/* Rows of batches are rows of one matrix where B is the same for them and they lie one pitch apart: B is packed once.
 * The last dims of batches go in that way, as many as can. */
static void merge_rows(matmul_batches *p) {
  int64_t row = p->a_row;
  for (int32_t i = p->rank - 1; p->m == 1 && i >= 0; i--)
    if (p->dims[i] != 1) {
      row = p->a_strides[i];
      break;
    }
  for (; p->rank > 0; p->rank--) {
    const int32_t last = p->rank - 1;
    if (p->dims[last] == 1) continue;
    if (p->b_strides[last] != 0 || p->a_strides[last] != row * p->m) return;
    p->a_row = row;
    p->m *= p->dims[last];
    p->count /= p->dims[last];
  }
}

matmul_batches KERN_NAME(matmul_batches)(const base_call *call) {
  const base_tensor *a = base_in(call, 0), *b = base_in(call, 1), *out = base_out(call, 0);
  int32_t ar = a->rank, br = b->rank;
  matmul_batches p = {.k = a->dims[ar - 1],
                      .a_column = a->strides[ar - 1],
                      .m = ar > 1 ? a->dims[ar - 2] : 1,
                      .a_row = ar > 1 ? a->strides[ar - 2] : 0,
                      .n = br > 1 ? b->dims[br - 1] : 1,
                      .b_row = b->strides[br > 1 ? br - 2 : 0],
                      .b_column = br > 1 ? b->strides[br - 1] : 1,
                      .rank = out->rank - (ar > 1) - (br > 1),
                      .count = 1,
                      .a = a->data,
                      .b = b->data,
                      .c = out->data};
  for (int32_t i = 0; i < p.rank; i++) p.count *= p.dims[i] = out->dims[i];
  batch_strides(a, out, p.rank, p.a_strides);
  batch_strides(b, out, p.rank, p.b_strides);
  if (p.count > 0) merge_rows(&p);
  return p;
}

/* One thread's share of the work. */
typedef struct worker {
  const base_call *call;
  const matmul_batches *p;
  gemm_grid grid;
  const gemm_pairs *pairs; /* NULL: elements are f32 */
  int64_t k;               /* elements of a row as tiles take them */
  float *a, *b;            /* scratch for a chunk of rows (NULL: A is read where it lies), and of columns */
  int64_t packed;          /* the task's batch and columns that b holds; -1: none */
  const float *taken;      /* the first of the rows that a holds; NULL: there are none */
  finish_chunk finish;
  kern_epilogue e;
} worker;

static int64_t widest_chunk(int64_t total, int64_t parts) { return gemm_split(total, parts, 1); }

static bool take_scratch(worker *w) {
  const matmul_batches *p = w->p;
  const gemm_grid *g = &w->grid;
  int64_t rows = gemm_split(p->m, g->tiles, 1) * widest_chunk(g->tiles, g->row_chunks);
  int64_t panels = gemm_split(g->panels, g->groups, 1) * widest_chunk(g->groups, g->column_chunks);
  size_t a, b;
  const bool takes = w->pairs || p->a_column != 1;
  if (!kern_pack_count(w->k, panels * V_LANES, V_LANES, &b) || !base_mul((size_t)rows, (size_t)p->k, &a)) return false;
  w->b = base_call_scratch(w->call, b, sizeof *w->b);
  if (w->b && takes) w->a = base_call_scratch(w->call, a, sizeof *w->a);
  return w->b && (w->a || !takes);
}

/* Rows of A as tiles take them, one behind the other. */
static void take_rows(worker *w, const float *a, int64_t rows) {
  const matmul_batches *p = w->p;
  if (!w->a || a == w->taken) return;
  const bool lies = p->a_column == 1;
  if (!lies) KERN_NAME(gemm_rows)(w->a, &(kern_matrix){a, rows, p->k, p->a_row, p->a_column});
  if (w->pairs) gemm_round_rows(w->pairs, w->a, lies ? a : w->a, lies ? p->a_row : p->k, rows, p->k);
  w->taken = a;
}

/* Rows of one batch times a chunk of columns. */
static void run_task(worker *w, int64_t batch, int64_t row_chunk, int64_t column_chunk) {
  const matmul_batches *p = w->p;
  gemm_grid g = w->grid;
  int64_t group = gemm_split(g.groups, g.column_chunks, column_chunk),
          last_group = gemm_split(g.groups, g.column_chunks, column_chunk + 1);
  int64_t tile = gemm_split(g.tiles, g.row_chunks, row_chunk),
          last_tile = gemm_split(g.tiles, g.row_chunks, row_chunk + 1);
  int64_t column = gemm_split(g.panels, g.groups, group) * V_LANES;
  int64_t columns = base_min_i64(p->n, gemm_split(g.panels, g.groups, last_group) * V_LANES) - column;
  int64_t row = gemm_split(p->m, g.tiles, tile), rows = gemm_split(p->m, g.tiles, last_tile) - row;
  int64_t key = batch * g.column_chunks + column_chunk;
  if (w->packed != key) {
    const float *b = p->b + matmul_offset(p, p->b_strides, batch) + column * p->b_column;
    const kern_matrix m = {b, p->k, columns, p->b_row, p->b_column};
    if (w->pairs) w->pairs->matrix(w->b, &m);
    else KERN_NAME(packing).matrix(w->b, &m, NULL, V_LANES, 0, (columns + V_LANES - 1) / V_LANES);
    w->packed = key;
  }
  const float *a = p->a + matmul_offset(p, p->a_strides, batch) + row * p->a_row;
  take_rows(w, a, rows);
  const kern_epilogue e = kern_epilogue_at(&w->e, batch * p->m + row, column);
  float *c = p->c + (batch * p->m + row) * p->n + column;
  const gemm_product product = {.m = rows,
                                .n = columns,
                                .k = w->k,
                                .a = w->a ? w->a : a,
                                .a_pitch = w->a ? w->k : p->a_row,
                                .b = w->b,
                                .c = c,
                                .c_pitch = p->n,
                                .pairs = w->pairs,
                                .e = &e};
  g.panels = gemm_split(g.panels, g.groups, last_group) - gemm_split(g.panels, g.groups, group);
  g.groups = last_group - group;
  g.tiles = last_tile - tile;
  g.row_chunks = g.column_chunks = 1;
  KERN_NAME(gemm_task)(&product, &g, 0);
  if (w->finish) w->finish(w->call, c, row, rows, column, columns);
}

/* ---- many products of little ---- */

/* Products of no more than a vector of columns, and of so few rows that to cut them into tiles would take longer. */
static bool is_little(const matmul_batches *p) { return p->count > 1 && p->m * p->k <= LITTLE && p->n <= V_LANES; }

/* C = A B where B has one column, as a product of one row: C^T = B^T A^T. */
static matmul_batches as_row(const matmul_batches *p) {
  matmul_batches t = *p;
  t.m = 1, t.n = p->m;
  t.a = p->b, t.b = p->a;
  t.a_column = p->b_row, t.b_row = p->a_column, t.b_column = p->a_row;
  memcpy(t.a_strides, p->b_strides, sizeof t.a_strides);
  memcpy(t.b_strides, p->a_strides, sizeof t.b_strides);
  return t;
}

V_INLINE void multiply_little(const matmul_batches *p, const float *a, const float *b, int64_t b_row, float *c,
                              const bool whole) {
  for (int64_t i = 0; i < p->m; i++, a += p->a_row, c += p->n) {
    vf sum = v_zero();
    for (int64_t k = 0; k < p->k; k++) {
      const float *row = b + k * b_row;
      sum = v_fma(v_set(a[k * p->a_column]), whole ? v_load(row) : v_load_n(row, p->n), sum);
    }
    if (whole) v_store(c, sum);
    else v_store_n(c, sum, p->n);
  }
}

/* Batches [first, end). `transposed`: room for k vectors. */
static void run_little(const matmul_batches *p, int64_t first, int64_t end, float *transposed) {
  int32_t last = p->rank - 1;
  const float *a = NULL, *b = NULL;
  while (last > 0 && p->dims[last] == 1) last--;
  float *c = p->c + first * p->m * p->n;
  for (int64_t i = first; i < end; i++, c += p->m * p->n) {
    const bool next = i > first && i % p->dims[last];
    a = next ? a + p->a_strides[last] : p->a + matmul_offset(p, p->a_strides, i);
    b = next ? b + p->b_strides[last] : p->b + matmul_offset(p, p->b_strides, i);
    const bool lies = p->b_column == 1;
    if (!lies && p->b_row == 1) KERN_NAME(transpose_block)(transposed, V_LANES, b, p->b_column, p->k, p->n, 0);
    else if (!lies) {
      const kern_matrix m = {b, p->k, p->n, p->b_row, p->b_column};
      KERN_NAME(packing).matrix(transposed, &m, NULL, V_LANES, 0, (p->n + V_LANES - 1) / V_LANES);
    }
    if (p->n == V_LANES) multiply_little(p, a, lies ? b : transposed, lies ? p->b_row : V_LANES, c, true);
    else multiply_little(p, a, lies ? b : transposed, lies ? p->b_row : V_LANES, c, false);
  }
}

static td_status run_many(const base_call *call, const matmul_batches *p, kern_chain *chain) {
  const matmul_batches q = p->n == 1 && p->m <= V_LANES ? as_row(p) : *p;
  const int64_t each = base_max_i64(1, LITTLE_TASK / base_max_i64(1, p->m * p->n * p->k));
  const int64_t total = (p->count + each - 1) / each;
  float *transposed = base_call_scratch(call, (size_t)p->k, V_LANES * sizeof *transposed);
  if (!transposed) return base_no_memory(call->err, "scratch");
  for (int64_t t = base_call_first(call, total); t < total; t = base_call_next(call, t, total)) {
    const int64_t first = t * each, end = base_min_i64(p->count, first + each);
    run_little(&q, first, end, transposed);
    if (chain)
      kern_chain_run(chain, &(kern_chain_tile){.sums = p->c + first * p->m * p->n,
                                               .pitch = p->n,
                                               .row = first * p->m,
                                               .row_step = 1,
                                               .rows = (end - first) * p->m,
                                               .columns = p->n});
  }
  return TD_OK;
}

static td_status run(const base_call *call, const matmul_batches *p, const gemm_pairs *pairs, finish_chunk finish) {
  if (p->m == 0 || p->n == 0 || p->count == 0) return TD_OK;
  worker w = {.call = call,
              .p = p,
              .pairs = pairs,
              .k = pairs ? kern_pairs_depth(p->k) / 2 : p->k,
              .packed = -1,
              .finish = finish,
              .e = {.act = KERN_ACT_none, .row_step = 1}};
  w.grid = KERN_NAME(gemm_grid)(call, p->m, p->n, w.k);
  if (!finish && call->attrs && call->attrs->count) TRY(kern_chain_of(call, &KERN_NAME(fused_level), &w.e.chain));
  if (!pairs && is_little(p)) return run_many(call, p, w.e.chain);
  gemm_grid *g = &w.grid;
  if (p->count > 1) g->row_chunks = 1;
  double floats = (double)w.k * (double)p->n;
  g->column_chunks = (int64_t)fmin((double)g->groups, floats / PACKED_FLOATS + (p->count == 1 ? 4 : 1));
  if (!take_scratch(&w)) return base_no_memory(call->err, "scratch");
  int64_t each = g->row_chunks * g->column_chunks, total = each * p->count;
  for (int64_t i = base_call_first(call, total); i < total; i = base_call_next(call, i, total))
    run_task(&w, i / each, i % g->row_chunks, i % each / g->row_chunks);
  return TD_OK;
}

td_status KERN_NAME(matmul_by)(const base_call *call, const gemm_pairs *pairs) {
  const matmul_batches p = KERN_NAME(matmul_batches)(call);
  return run(call, &p, pairs, NULL);
}

td_status KERN_NAME(matmul)(const base_call *call) { return KERN_NAME(matmul_by)(call, NULL); }

/* ---- td::gemm ---- */

static void finish_gemm(const base_call *call, float *c, int64_t first_row, int64_t rows, int64_t first_column,
                        int64_t columns) {
  const base_tensor *add = base_in(call, 2), *out = base_out(call, 0);
  const vf alpha = v_set((float)base_attr_float(call->attrs, KERN_GEMM_ALPHA));
  const float beta = (float)base_attr_float(call->attrs, KERN_GEMM_BETA);
  int64_t pitch = out->dims[1], row_stride = 0, stride = 0;
  if (add && add->rank > 0 && add->dims[add->rank - 1] > 1) stride = add->strides[add->rank - 1];
  if (add && add->rank > 1 && add->dims[0] > 1) row_stride = add->strides[0];
  for (int64_t i = 0; i < rows; i++) {
    float *row = c + i * pitch;
    const float *from = add ? (const float *)add->data + (first_row + i) * row_stride + first_column * stride : NULL;
    for (int64_t j = 0; j < columns; j += V_LANES) {
      int64_t n = base_min_i64(V_LANES, columns - j);
      vf sum = v_mul(alpha, v_load_n(row + j, n));
      if (from && stride == 1) sum = v_add(sum, v_mul(v_set(beta), v_load_n(from + j, n)));
      if (from && stride == 0) sum = v_add(sum, v_set(beta * *from));
      v_store_n(row + j, sum, n);
      for (int64_t l = 0; from && stride != 0 && stride != 1 && l < n; l++) row[j + l] += beta * from[(j + l) * stride];
    }
  }
}

td_status KERN_NAME(gemm)(const base_call *call) {
  const base_tensor *a = base_in(call, 0), *b = base_in(call, 1), *out = base_out(call, 0);
  bool ta = base_attr_int(call->attrs, KERN_GEMM_TRANS_A), tb = base_attr_int(call->attrs, KERN_GEMM_TRANS_B);
  const matmul_batches p = {.m = out->dims[0],
                            .n = out->dims[1],
                            .k = a->dims[!ta],
                            .count = 1,
                            .a_row = a->strides[ta],
                            .a_column = a->strides[!ta],
                            .b_row = b->strides[tb],
                            .b_column = b->strides[!tb],
                            .a = a->data,
                            .b = b->data,
                            .c = out->data};
  return run(call, &p, NULL, finish_gemm);
}
