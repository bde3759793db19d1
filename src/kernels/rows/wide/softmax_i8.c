/* softmax_i8.c -- KERN_SOFTMAX_I8: td::softmax_i8, row by row: exponentials in f32 of how far bytes are below the
 * largest, their sum, and bytes of their shares. A softmax is the same below any number: where all exponentials of
 * bytes are normal numbers, 255 stands for the largest, which nobody need look for. */
#include "kernels/simd/bytes_priv.h"
#include "kernels/simd/wide/rows_priv.h"

enum { NEAR = 64 }; /* exp(-NEAR), and its share of a long row, are normal numbers */

typedef struct softmax {
  float x_scale, y_scale;
  vi flip; /* in each byte: 128 where x is signed */
  uint8_t x_flip;
  b_bytes bytes;
  int64_t n;
  float *kept; /* exponentials of a row */
} softmax;

/* Of a vector's bytes. */
static float largest_in(vi bytes) {
  bytes = b_max(bytes, vi_shr(bytes, 16));
  bytes = b_max(bytes, vi_shr(bytes, 8));
  return v_highest(v_from_int(vi_and(bytes, vi_set(255))));
}

static float largest_of(const softmax *s, const uint8_t *x) {
  enum { VECTOR = sizeof(vi) };
  vi largest = vi_set(0);
  uint8_t few[VECTOR];
  if (s->n < VECTOR) {
    memset(few, s->x_flip, sizeof few); /* the least there is */
    memcpy(few, x, (size_t)s->n);
    return largest_in(vi_xor(b_load_some(few, VECTOR), s->flip));
  }
  for (int64_t i = 0; i + VECTOR <= s->n; i += VECTOR)
    largest = b_max(largest, vi_xor(b_load_some(x + i, VECTOR), s->flip));
  return largest_in(b_max(largest, vi_xor(b_load_some(x + s->n - VECTOR, VECTOR), s->flip)));
}

V_INLINE vf exponential(const softmax *s, const uint8_t *x, int64_t n, vf largest) {
  const vi byte = vi_xor(b_widen(x, n), vi_set(s->x_flip));
  return v_exp_flush(v_mul(v_sub(v_from_int(byte), largest), v_set(s->x_scale)));
}

static float exponentials(const softmax *s, const uint8_t *x) {
  static const float place[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const vf largest = v_set(255 * s->x_scale < NEAR ? 255 : largest_of(s, x));
  vf total = v_zero();
  for (int64_t from = 0; from < s->n; from += ROW_PIECE) {
    const int64_t end = base_min_i64(s->n, from + ROW_PIECE);
    int64_t i = from;
    vf sum0 = v_zero(), sum1 = v_zero();
    for (; i + 2 * V_LANES <= end; i += 2 * V_LANES) {
      const vf e0 = exponential(s, x + i, V_LANES, largest), e1 = exponential(s, x + i + V_LANES, V_LANES, largest);
      v_store(s->kept + i, e0);
      v_store(s->kept + i + V_LANES, e1);
      sum0 = v_add(sum0, e0);
      sum1 = v_add(sum1, e1);
    }
    for (; i < end; i += V_LANES) {
      const int64_t left = base_min_i64(V_LANES, end - i);
      const vf e = exponential(s, x + i, left, largest);
      v_store(s->kept + i, e);
      sum0 = v_add(sum0, v_select(v_lt(v_load(place), v_set((float)left)), e, v_zero()));
    }
    total = v_add(total, v_add(sum0, sum1));
  }
  return v_sum(total);
}

static void run_row(const softmax *s, const uint8_t *x, uint8_t *to) {
  const vf by = v_set(1 / (exponentials(s, x) * s->y_scale)), most = v_set(INT16_MAX);
  for (int64_t i = 0; i < s->n; i += BYTES_ROW) {
    vi q[BYTES_PANELS];
    V_FOR(p, BYTES_PANELS) q[p] = v_to_int(v_min(v_mul(v_load(s->kept + i + p * V_LANES), by), most));
    b_narrow(to + i, q, &s->bytes, base_min_i64(BYTES_ROW, s->n - i), false);
  }
}

td_status KERN_PART_NAME(softmax_i8)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const bool is_signed = out->dtype == TD_I8;
  const int offset = is_signed ? 128 : 0, zero = (int)base_attr_int(call->attrs, KERN_SOFTMAX_I8_Y_ZERO);
  const int64_t n = x->dims[x->rank - 1], rows = n ? base_tensor_numel(out) / n : 0;
  const uint8_t flip = x->dtype == TD_I8 ? 128 : 0;
  const softmax s = {.x_scale = (float)base_attr_float(call->attrs, KERN_SOFTMAX_I8_X_SCALE),
                     .y_scale = (float)base_attr_float(call->attrs, KERN_SOFTMAX_I8_Y_SCALE),
                     .flip = vi_set((int32_t)(flip * 0x01010101u)),
                     .x_flip = flip,
                     .bytes = b_bytes_of(zero + offset, 0, 255, (uint8_t)offset),
                     .n = n,
                     .kept = base_call_scratch(call, (size_t)n + BYTES_ROW, sizeof *s.kept)};
  if (!s.kept) return base_no_memory(call->err, "scratch");
  memset(s.kept + n, 0, BYTES_ROW * sizeof *s.kept);
  int64_t each;
  const uint32_t tasks = row_tasks(rows, n, call->workers, &each);
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks))
    for (int64_t r = task * each; r < base_min_i64(rows, (task + 1) * each); r++)
      run_row(&s, (const uint8_t *)x->data + r * n, (uint8_t *)out->data + r * n);
  return TD_OK;
}
