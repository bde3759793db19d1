/* between_i8.c -- what stands between products of 8-bit integers: KERN_LOOKUP_I8 (any function of a byte), KERN_ADD_I8
 * and KERN_MUL_I8 of two operands that broadcast, KERN_AVG_POOL_I8 over [N, spatial..., C]. Their numbers are those of
 * ops/native/between_i8.c and ops/aten/pool.c, operation by operation. */
#include "kernels/rows/rows.h"
#include "kernels/simd/bytes_priv.h"

enum { TASK = 1 << 15 /* elements */ };
_Static_assert((int)BYTES_ROW <= (int)KERN_BETWEEN_MOST, "an operand of one element is too short");

td_status KERN_PART_NAME(lookup_i8)(const base_call *call) {
  const uint8_t *from = base_in(call, 0)->data;
  uint8_t *to = base_out(call, 0)->data;
  const int64_t count = base_tensor_numel(base_out(call, 0)), tasks = (count + TASK - 1) / TASK;
  uint32_t numbers;
  const b_table t = b_table_of((const uint8_t *)base_attr_ints(call->attrs, KERN_LOOKUP_TABLE, &numbers));
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks)) {
    const int64_t end = base_min_i64(count, (task + 1) * TASK);
    for (int64_t i = task * TASK; i < end; i += B_TABLED)
      b_lookup(to + i, from + i, &t, base_min_i64(B_TABLED, end - i));
  }
  return TD_OK;
}

static void row(const kern_binary_i8 *b, const uint8_t *const *in, const int64_t *step, int64_t n, uint8_t *to) {
  const vf x_zero = v_set(b->zero[0]), y_zero = v_set(b->zero[1]), x_by = v_set(b->by[0]), y_by = v_set(b->by[1]);
  const vi x_flip = vi_set(b->flip[0]), y_flip = vi_set(b->flip[1]);
  const b_bytes bytes = b_bytes_of(b->y_zero + b->y_flip, b->least + b->y_flip, b->most + b->y_flip, b->y_flip);
  for (int64_t i = 0; i < n; i += BYTES_ROW) {
    vi q[BYTES_PANELS];
    V_FOR(p, BYTES_PANELS) {
      const int64_t at = p * V_LANES, lanes = base_max_i64(base_min_i64(V_LANES, n - i - at), 0);
      const vi first = b_widen(in[0] + i * step[0] + at, lanes), second = b_widen(in[1] + i * step[1] + at, lanes);
      const vf x = v_sub(v_from_int(vi_xor(first, x_flip)), x_zero);
      const vf y = v_sub(v_from_int(vi_xor(second, y_flip)), y_zero);
      const vf t = b->adds ? v_fma(x, x_by, v_mul(y, y_by)) : v_mul(v_mul(x, y), x_by);
      q[p] = v_to_int(v_min(t, v_set(INT16_MAX))); /* too small ones become the least integer */
    }
    b_narrow(to + i, q, &bytes, base_min_i64(BYTES_ROW, n - i), false);
  }
}

td_status KERN_PART_NAME(add_i8)(const base_call *call) { return kern_run_binary_i8(call, true, row); }
td_status KERN_PART_NAME(mul_i8)(const base_call *call) { return kern_run_binary_i8(call, false, row); }

/* sums += a window's elements, from channel `c` on; n channels, or with `whole` BYTES_ROW of them. */
V_TEMPLATE void add_window(const kern_mean_i8 *m, const uint8_t *image, const kern_pool_span *s, int64_t n, vi *sums,
                           const bool whole) {
  const kern_pool_axis *a = m->axis;
  const vi flip = vi_set((int32_t)(m->flip * 0x01010101U));
  const int64_t channels = whole ? BYTES_ROW : n;
  int64_t left = B_SUMMED;
  b_sums some = b_sums_zero();
  for (int64_t i = s[0].first; i < s[0].last; i++)
    for (int64_t j = s[1].first; j < s[1].last; j++) {
      const int64_t above = (s[0].start + i * a[0].dilation) * a[1].in + s[1].start + j * a[1].dilation;
      const uint8_t *from = image + (above * a[2].in + s[2].start + s[2].first * a[2].dilation) * m->channels;
      for (int64_t k = s[2].first; k < s[2].last; k++, from += a[2].dilation * m->channels) {
        b_sums_add(&some, from, channels, flip);
        if (--left) continue;
        b_sums_to(&some, sums);
        some = b_sums_zero();
        left = B_SUMMED;
      }
    }
  b_sums_to(&some, sums);
}

static void mean(const kern_mean_i8 *m, const uint8_t *image, const kern_pool_span *s, int64_t n, uint8_t *to) {
  const b_bytes bytes = b_bytes_of(m->y_zero + m->y_flip, 0, 255, m->y_flip);
  int64_t elements = 1, reach = 1;
  for (int i = 0; i < KERN_POOL_AXES; i++) elements *= s[i].last - s[i].first, reach *= s[i].reach;
  const vf by = v_set(kern_mean_i8_by(m, m->count_padding ? reach : elements));
  for (int64_t c = 0; c < n; c += BYTES_ROW) {
    const int64_t some = base_min_i64(BYTES_ROW, n - c);
    vi sums[BYTES_PANELS], q[BYTES_PANELS];
    V_FOR(p, BYTES_PANELS) sums[p] = vi_set(-(int32_t)elements * m->zero);
    if (some == BYTES_ROW) add_window(m, image + c, s, some, sums, true);
    else add_window(m, image + c, s, some, sums, false);
    V_FOR(p, BYTES_PANELS) q[p] = v_to_int(v_min(v_mul(v_from_int(sums[p]), by), v_set(INT16_MAX)));
    b_narrow_whole(to + c, q, &bytes, 0, some, false);
  }
}

td_status KERN_PART_NAME(avg_pool_i8)(const base_call *call) { return kern_run_mean_i8(call, BYTES_ROW, mean); }
