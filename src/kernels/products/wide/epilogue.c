/* epilogue.c -- epilogues on rows of sums that lie in L1. */
#include "kernels/products/epilogue_priv.h"
#include "kernels/kernels_priv.h"
#include "kernels/simd/math_priv.h"

#ifdef KERN_SMALL
enum { TOGETHER = 1 };
#else
enum { TOGETHER = 2 }; /* vectors, so that it costs little to ask what there is */
#endif

V_TEMPLATE vf load(const float *from, int64_t lanes, const bool whole) {
  return whole ? v_load(from) : v_load_n(from, lanes);
}

/* All of an epilogue but an activation that takes more than limits, in one pass over some vectors, the last of them of
 * `lanes`: a load that follows a masked store has to wait for it. */
V_TEMPLATE void finish(const kern_epilogue *e, const float *limits, const float *residual, float *sums, int64_t at,
                       int64_t lanes, const int count, const bool whole) {
  const vf low = v_set(limits[0]), high = v_set(limits[1]);
  vf t[TOGETHER];
#define EACH(condition, value) \
  if (condition) V_UNROLL      \
  for (int i = 0; i < count; i++) t[i] = value
#define PART(from) load((from) + at + i * V_LANES, lanes, whole)
  EACH(true, PART(sums));
  EACH(e->bias, v_add(t[i], PART(e->bias)));
  EACH(!e->late, v_min(high, v_max(low, t[i])));
  EACH(residual, v_add(t[i], PART(residual)));
  EACH(e->scale, v_mul(t[i], PART(e->scale)));
  EACH(e->shift, v_add(t[i], PART(e->shift)));
  EACH(e->late, v_min(high, v_max(low, t[i])));
#undef PART
#undef EACH
  V_UNROLL
  for (int i = 0; i < count; i++) {
    if (whole) v_store(sums + at + i * V_LANES, t[i]);
    else v_store_n(sums + at, t[i], lanes);
  }
}

static bool has_parts(const kern_epilogue *e) { return e->bias || e->residual || e->scale || e->shift; }

/* All rows of some columns, then the next: the row that follows a masked store may have to wait for it, too. */
static void finish_rows(const kern_epilogue *e, const float *limits, float *sums, int64_t pitch, int64_t rows,
                        int64_t n) {
  if (!has_parts(e)) return;
  for (int64_t i = 0, count; i < n; i += count * V_LANES) {
    const float *residual = e->residual;
    float *at = sums;
    count = TOGETHER > 1 && i + TOGETHER * V_LANES <= n ? TOGETHER : 1;
    for (int64_t r = 0; r < rows; r++, at += pitch) {
      if (TOGETHER > 1 && count > 1) finish(e, limits, residual, at, i, V_LANES, TOGETHER, true);
      else if (i + V_LANES <= n) finish(e, limits, residual, at, i, V_LANES, 1, true);
      else finish(e, limits, residual, at, i, n - i, 1, false);
      if (residual) residual += e->residual_pitch;
    }
  }
}

/* Rows that lie one behind the other are one: a row that follows a masked store would have to wait for it. */
void KERN_NAME(epilogue_act)(const kern_epilogue *e, float *sums, int64_t pitch, int64_t rows, int64_t columns) {
  if (pitch == columns) columns *= rows, pitch *= rows, rows = rows > 0;
  (e->near ? KERN_NAME(act_rows_near) : KERN_NAME(act_rows))[e->act](sums, pitch, rows, columns, e->a, e->b);
}

void KERN_NAME(epilogue_rows)(const kern_epilogue *e, float *sums, int64_t pitch, int64_t rows, int64_t columns) {
  float limits[2];
  const bool cheap = kern_epilogue_cheap(e, limits);
  if (cheap && has_parts(e)) {
    finish_rows(e, limits, sums, pitch, rows, columns);
  } else if (e->act != KERN_ACT_none) {
    kern_epilogue before = *e, after = *e;
    if (e->late) after = (kern_epilogue){.bias = NULL};
    else before = (kern_epilogue){.bias = e->bias}, after.bias = NULL;
    finish_rows(&before, limits, sums, pitch, rows, columns);
    KERN_NAME(epilogue_act)(e, sums, pitch, rows, columns);
    finish_rows(&after, limits, sums, pitch, rows, columns);
  }
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
