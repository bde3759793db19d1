/* linear.c -- KERN_LINEAR: td::linear on f32. */
#include "kernels/epilogue_priv.h"
#include "kernels/gemm_tile_priv.h"
#include "kernels/pack.h"

enum { TRANS_W, COLUMNS, PANEL }; /* attributes */

/* C[m, n] = A[m, k] B[k, n] and an epilogue; B in panels. */
typedef struct product {
  int64_t m, n, k;
  const float *a;
  int64_t a_pitch;
  const float *b;
  float *c;
  int64_t c_pitch;
  const kern_epilogue *e;
} product;

/* Rows [m0, m1) of panels [p0, p1), at most GEMM_MAX_PANELS. */
static void tile_rows(const product *g, int64_t m0, int64_t m1, int64_t p0, int64_t p1) {
  int64_t panels = p1 - p0, most = gemm_max_rows(panels), parts = (m1 - m0 + most - 1) / most;
  const float *rows[GEMM_MAX_ROWS];
  gemm_tile t = {.a = rows,
                 .taps = 1,
                 .k = g->k,
                 .b = g->b + p0 * V_LANES * g->k,
                 .b_panel = g->k * V_LANES,
                 .c_pitch = g->c_pitch,
                 .columns = base_min_i64(panels * V_LANES, g->n - p0 * V_LANES)};
  for (int64_t i = 0; i < parts; i++) {
    int64_t from = m0 + gemm_split(m1 - m0, parts, i), to = m0 + gemm_split(m1 - m0, parts, i + 1);
    for (int64_t r = from; r < to; r++) rows[r - from] = g->a + r * g->a_pitch;
    t.c = g->c + from * g->c_pitch + p0 * V_LANES;
    const kern_epilogue e = kern_epilogue_at(g->e, from, p0 * V_LANES);
    KERN_NAME(gemm_tile)(&t, to - from, panels, &e);
  }
}

/* The panels of a weight matrix that is not packed yet. */
static const float *pack_now(const base_call *call, int64_t k, int64_t n) {
  const base_tensor *w = base_in(call, 1);
  bool trans = base_attr_int(call->attrs, TRANS_W);
  int64_t panels = (n + V_LANES - 1) / V_LANES;
  size_t count;
  float *to = kern_pack_count(k, n, V_LANES, &count) ? base_call_scratch(call, count, sizeof *to) : NULL;
  if (to) kern_pack(to, &(kern_matrix){w->data, k, n, w->strides[trans], w->strides[!trans]}, V_LANES, 0, panels);
  return to;
}

td_status KERN_NAME(linear)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const kern_epilogue e = kern_epilogue_of(call);
  product g = {.m = 1,
               .n = out->dims[out->rank - 1],
               .k = x->dims[x->rank - 1],
               .a = x->data,
               .a_pitch = kern_pitch(x),
               .c = out->data,
               .c_pitch = kern_pitch(out),
               .e = &e};
  for (int32_t i = 0; i < x->rank - 1; i++) g.m *= x->dims[i];
  if (g.m == 0 || g.n == 0) return TD_OK;
  g.b = base_attr_int(call->attrs, PANEL) ? base_in(call, 1)->data : pack_now(call, g.k, g.n);
  if (!g.b) return base_no_memory(call->err, "scratch");
  int64_t panels = (g.n + V_LANES - 1) / V_LANES, groups = (panels + GEMM_MAX_PANELS - 1) / GEMM_MAX_PANELS;
  for (uint32_t task = base_call_first(call); task < groups; task = base_call_next(call, task))
    tile_rows(&g, 0, g.m, gemm_split(panels, groups, task), gemm_split(panels, groups, task + 1));
  return TD_OK;
}
