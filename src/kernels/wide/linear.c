/* linear.c -- KERN_LINEAR: td::linear on f32. */
#include "kernels/gemm_priv.h"

enum { TRANS_W, COLUMNS, PANEL }; /* attributes */

/* The panels of a weight matrix that is not packed yet. */
static const float *pack_now(const base_call *call, int64_t k, int64_t n) {
  const base_tensor *w = base_in(call, 1);
  bool trans = base_attr_int(call->attrs, TRANS_W);
  size_t count;
  float *to = kern_pack_count(k, n, V_LANES, &count) ? base_call_scratch(call, count, sizeof *to) : NULL;
  if (to) KERN_NAME(gemm_pack)(to, &(kern_matrix){w->data, k, n, w->strides[trans], w->strides[!trans]});
  return to;
}

td_status KERN_NAME(linear)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const kern_epilogue e = kern_epilogue_of(call);
  gemm_product g = {.m = 1,
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
  const gemm_grid grid = KERN_NAME(gemm_grid)(g.m, g.n, g.k);
  int64_t tasks = grid.row_chunks * grid.column_chunks;
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks))
    KERN_NAME(gemm_task)(&g, &grid, task);
  return TD_OK;
}
