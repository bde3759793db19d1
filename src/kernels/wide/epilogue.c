/* epilogue.c -- epilogues on rows of sums that lie in L1. */
#include "kernels/epilogue_priv.h"
#include "kernels/math_priv.h"

/* row = act(row + bias) or the like: each part is one pass, so that absent parts cost nothing. */
static void add_row(float *row, const float *other, int64_t n) {
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store(row + i, v_add(v_load(row + i), v_load(other + i)));
  v_store_n(row + i, v_add(v_load_n(row + i, n - i), v_load_n(other + i, n - i)), n - i);
}

static void scale_row(float *row, const float *scale, int64_t n) {
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store(row + i, v_mul(v_load(row + i), v_load(scale + i)));
  v_store_n(row + i, v_mul(v_load_n(row + i, n - i), v_load_n(scale + i, n - i)), n - i);
}

void KERN_NAME(epilogue_rows)(const kern_epilogue *e, float *sums, int64_t pitch, int64_t rows, int64_t columns) {
  kern_act_row act = e->act == KERN_ACT_none ? NULL : KERN_NAME(act_rows)[e->act];
  for (int64_t i = 0; i < rows; i++) {
    float *row = sums + i * pitch;
    if (e->bias) add_row(row, e->bias, columns);
    if (act && !e->late) act(row, columns, e->a, e->b);
    if (e->residual) add_row(row, e->residual + i * e->residual_pitch, columns);
    if (e->scale) scale_row(row, e->scale, columns);
    if (e->shift) add_row(row, e->shift, columns);
    if (act && e->late) act(row, columns, e->a, e->b);
  }
}
