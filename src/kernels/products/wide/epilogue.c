/* epilogue.c -- epilogues on rows of sums that lie in L1. */
#include "kernels/products/epilogue_priv.h"
#include "kernels/kernels_priv.h"
#include "kernels/simd/math_priv.h"

/* One row of `other` for all, or (pitch not 0) one for each. */
static void add_rows(const float *other, int64_t other_pitch, float *first, int64_t pitch, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; r++, first += pitch, other += other_pitch) {
    int64_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) v_store(first + i, v_add(v_load(first + i), v_load(other + i)));
    if (i < n) v_store_n(first + i, v_add(v_load_n(first + i, n - i), v_load_n(other + i, n - i)), n - i);
  }
}

static void scale_rows(const float *scale, float *first, int64_t pitch, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; r++, first += pitch) {
    int64_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) v_store(first + i, v_mul(v_load(first + i), v_load(scale + i)));
    if (i < n) v_store_n(first + i, v_mul(v_load_n(first + i, n - i), v_load_n(scale + i, n - i)), n - i);
  }
}

/* Each part is a pass of its own over the block, so that absent parts cost nothing. */
void KERN_NAME(epilogue_rows)(const kern_epilogue *e, float *sums, int64_t pitch, int64_t rows, int64_t columns) {
  kern_act_rows act = e->act == KERN_ACT_none ? NULL : KERN_NAME(act_rows)[e->act];
  if (e->bias) add_rows(e->bias, 0, sums, pitch, rows, columns);
  if (act && !e->late) act(sums, pitch, rows, columns, e->a, e->b);
  if (e->residual) add_rows(e->residual, e->residual_pitch, sums, pitch, rows, columns);
  if (e->scale) scale_rows(e->scale, sums, pitch, rows, columns);
  if (e->shift) add_rows(e->shift, 0, sums, pitch, rows, columns);
  if (act && e->late) act(sums, pitch, rows, columns, e->a, e->b);
  kern_epilogue_chain(e, sums, pitch, rows, columns);
}

td_status KERN_NAME(product_of)(const base_call *call, kern_epilogue *e, kern_chain **front) {
  const bool in_front = kern_chain_in_front(call->attrs);
  *e = kern_epilogue_of(call);
  *front = NULL;
  return kern_chain_of(call, &KERN_NAME(fused_level), in_front ? front : &e->chain);
}

td_status KERN_NAME(epilogue_of)(const base_call *call, kern_epilogue *e) {
  kern_chain *front;
  TRY(KERN_NAME(product_of)(call, e, &front));
  return front ? base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "a chain in front of a kernel that takes none")
               : TD_OK;
}
