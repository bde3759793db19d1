/* linear.c -- KERN_LINEAR: td::linear on f32. Rows of few columns, as a classifier of two classes has, are sums of
 * products (dot_tile_priv.h): a panel would be mostly zeros. */
#include "kernels/products/dot_tile_priv.h"
#include "kernels/products/packing.h"
#include "kernels/products/strassen_priv.h"

enum { SUM_WORK = 8 };  /* least multiply-adds for which the lanes of a sum are added up */
enum { FEW = 4 };       /* columns that are brought in order sooner than one row of x is multiplied */
enum { FEW_ROWS = 16 }; /* of a task of few columns */

/* Is that half the work of a panel? The sizes of a sample alone decide: a sum's order may not depend on the batch. */
static bool few_columns(int64_t k, int64_t n) {
  return V_LANES > 1 && k % V_LANES == 0 && n <= FEW && 2 * n * (k / V_LANES + SUM_WORK) <= k;
}

static td_status multiply_few(const base_call *call, const gemm_product *g) {
  const base_tensor *w = base_in(call, 1);
  int64_t panel = base_attr_int(call->attrs, KERN_LINEAR_PANEL), tasks = (g->m + FEW_ROWS - 1) / FEW_ROWS;
  bool trans = base_attr_int(call->attrs, KERN_LINEAR_TRANS_W);
  const kern_matrix columns = {w->data, g->n, g->k, panel ? 1 : w->strides[!trans], panel ? panel : w->strides[trans]};
  float *b = base_call_scratch(call, (size_t)(g->n * g->k), sizeof *b);
  float *made = g->front ? base_call_scratch(call, FEW_ROWS * (size_t)g->k, sizeof *made) : NULL;
  if (!b || (g->front && !made)) return base_no_memory(call->err, "scratch");
  KERN_NAME(gemm_rows)(b, &columns);
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks)) {
    const float *rows[FEW_ROWS];
    int64_t first = task * FEW_ROWS, count = base_min_i64(FEW_ROWS, g->m - first);
    const kern_chain_tile front = {
        .sums = made, .pitch = g->k, .row = first, .row_step = 1, .rows = count, .columns = g->k};
    if (made) kern_chain_run(g->front->chain, &front);
    for (int64_t i = 0; i < count; i++) rows[i] = made ? made + i * g->k : g->a + (first + i) * g->a_pitch;
    const dot_tile t = {
        .a = rows, .runs = 1, .taps = 1, .k = g->k, .b = b, .c = g->c + first * g->c_pitch, .c_pitch = g->c_pitch};
    const kern_epilogue e = kern_epilogue_at(g->e, first, 0);
    KERN_NAME(dot_tile)(&t, count, g->n, &e);
  }
  return TD_OK;
}

/* The panels of a weight matrix that is not packed yet. */
static const float *pack_now(const base_call *call, int64_t k, int64_t n) {
  const base_tensor *w = base_in(call, 1);
  bool trans = base_attr_int(call->attrs, KERN_LINEAR_TRANS_W);
  size_t count;
  float *to = kern_pack_count(k, n, V_LANES, &count) ? base_call_scratch(call, count, sizeof *to) : NULL;
  const kern_matrix m = {w->data, k, n, w->strides[trans], w->strides[!trans]};
  if (to) KERN_NAME(packing).matrix(to, &m, NULL, V_LANES, 0, (n + V_LANES - 1) / V_LANES);
  return to;
}

td_status KERN_NAME(linear_by)(const base_call *call, const gemm_pairs *pairs) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  kern_epilogue e;
  gemm_front front = {.width = x->dims[x->rank - 1]};
  TRY(KERN_NAME(product_of)(call, &e, &front.chain));
  gemm_product g = {.m = 1,
                    .n = out->dims[out->rank - 1],
                    .k = pairs ? (front.width + 1) / 2 : front.width,
                    .a = x->data,
                    .a_pitch = kern_pitch(x),
                    .c = out->data,
                    .c_pitch = kern_pitch(out),
                    .pairs = pairs,
                    .e = &e};
  g.bf16 = gemm_bf16_of(call, &e);
  if (gemm_are_pairs(x, front.width, g.a_pitch)) g.a_pitch /= 2;
  else if (front.chain || pairs) g.front = &front;
  front.copied = x->dtype == TD_BF16;
  for (int32_t i = 0; i < x->rank - 1; i++) g.m *= x->dims[i];
  if (g.m == 0 || g.n == 0) return TD_OK;
  const td_dtype stored = base_in(call, 1)->dtype;
  gemm_narrow narrow = {.b = base_in(call, 1)->data,
                        .layout = &g.k,
                        .step = 1,
                        .lines = base_in(call, 1)->data,
                        .line_rows = 2,
                        .panel_bytes = g.k * V_LANES * (int64_t)sizeof(uint16_t)};
  if (stored != TD_F32 && !pairs) {
    KERN_NAME(gemm_halves)(stored, &narrow);
    g.narrow = &narrow;
  } else if (!pairs && few_columns(g.k, g.n)) return multiply_few(call, &g);
  g.b = base_attr_int(call->attrs, KERN_LINEAR_PANEL) ? base_in(call, 1)->data : pack_now(call, g.k, g.n);
  if (!g.b) return base_no_memory(call->err, "scratch");
  const int64_t rows = x->rank > 1 ? g.m / x->dims[0] : 1; /* of a sample */
  if (!g.front && !pairs && base_attr_int(call->attrs, KERN_LINEAR_STRASSEN) &&
      kern_strassen_pays(rows, g.n, g.k, V_LANES))
    return KERN_NAME(strassen)(call, &g, rows);
  return KERN_NAME(gemm_run)(call, &g);
}

td_status KERN_NAME(linear)(const base_call *call) { return KERN_NAME(linear_by)(call, NULL); }
