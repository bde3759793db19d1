/* epilogue_priv.h -- an epilogue on rows of sums in memory, for wide kernels. The matrix tiles apply what is cheap in
 * their registers and leave the rest to these rows. */
#ifndef KERNELS_EPILOGUE_PRIV_H
#define KERNELS_EPILOGUE_PRIV_H
#include "kernels/loops/loops.h"
#include "kernels/simd/simd_priv.h"

/* The epilogue of columns `column`... of rows `row`... of an output: its vectors start there. */
V_INLINE kern_epilogue kern_epilogue_at(const kern_epilogue *e, int64_t row, int64_t column) {
  kern_epilogue at = *e;
  if (e->bias) at.bias += column;
  if (e->scale) at.scale += column;
  if (e->shift) at.shift += column;
  if (e->residual) at.residual += row * e->residual_pitch + column;
  at.row += row;
  at.column += column;
  return at;
}
/* From the output's rows of an epilogue on, every `step`-th one. */
V_INLINE void kern_epilogue_stride(kern_epilogue *e, int64_t step) {
  e->residual_pitch *= step;
  e->row_step *= step;
}
/* The chain alone, on sums that are through all else. */
V_INLINE void kern_epilogue_chain(const kern_epilogue *e, float *sums, int64_t pitch, int64_t rows, int64_t columns) {
  if (e->chain)
    kern_chain_run(e->chain, &(kern_chain_tile){sums, pitch, e->row, e->row_step, rows, e->column, columns});
}
/* Can the activation be had for two instructions? limits: what v_min(high, v_max(low, x)) makes of it. */
V_INLINE bool kern_epilogue_cheap(const kern_epilogue *e, float limits[2]) {
  limits[0] = e->act == KERN_ACT_clamp ? e->a : e->act == KERN_ACT_relu ? 0 : -INFINITY;
  limits[1] = e->act == KERN_ACT_clamp ? e->b : INFINITY;
  return e->act == KERN_ACT_none || e->act == KERN_ACT_relu || e->act == KERN_ACT_clamp;
}
/* Reads the call's epilogue. A chain takes scratch of the call. */
td_status KERN_NAME(epilogue_of)(const base_call *call, kern_epilogue *e);
/* The same of a kernel that takes a chain in front of its product: *front; NULL: there is none. */
td_status KERN_NAME(product_of)(const base_call *call, kern_epilogue *e, kern_chain **front);
/* Its activation alone, in place. */
void KERN_NAME(epilogue_act)(const kern_epilogue *e, float *sums, int64_t pitch, int64_t rows, int64_t columns);
/* The whole epilogue, in place, on `rows` rows of `columns` sums; e's vectors start at the first of them. */
void KERN_NAME(epilogue_rows)(const kern_epilogue *e, float *sums, int64_t pitch, int64_t rows, int64_t columns);
#endif
