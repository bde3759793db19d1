/* softmax.c -- KERN_SOFTMAX and KERN_LOG_SOFTMAX of aten::_softmax and aten::_log_softmax. Lanes lie along rows, or,
 * where dimensions follow, side by side: then a vector holds V_LANES of them, or all there are of several rows. */
#include "kernels/simd/wide/rows_priv.h"

static float largest_of(const float *row, int64_t n) {
  const vf least = v_set(-INFINITY);
  vf best0 = least, best1 = least;
  int64_t i = 0;
  for (; i + 2 * V_LANES <= n; i += 2 * V_LANES) {
    best0 = v_max(best0, v_load(row + i));
    best1 = v_max(best1, v_load(row + i + V_LANES));
  }
  for (; i < n; i += V_LANES) best0 = v_max(best0, v_load_or(row + i, base_min_i64(V_LANES, n - i), least));
  return v_highest(v_max(best0, best1));
}

/* to = exp(row - a); gives the sum. NaN, lost by largest_of, comes back here. */
static float exponentials(float *to, const float *row, int64_t n, float largest) {
  const vf a = v_set(largest), least = v_set(-INFINITY);
  vf total = v_zero();
  for (int64_t from = 0; from < n; from += ROW_PIECE) {
    int64_t i = from, end = base_min_i64(n, from + ROW_PIECE);
    vf sum0 = v_zero(), sum1 = v_zero();
    for (; i + 2 * V_LANES <= end; i += 2 * V_LANES) {
      vf e0 = v_exp_flush(v_sub(v_load(row + i), a)), e1 = v_exp_flush(v_sub(v_load(row + i + V_LANES), a));
      v_store(to + i, e0);
      v_store(to + i + V_LANES, e1);
      sum0 = v_add(sum0, e0);
      sum1 = v_add(sum1, e1);
    }
    for (; i < end; i += V_LANES) {
      int64_t left = base_min_i64(V_LANES, end - i);
      vf e = v_exp_flush(v_sub(v_load_or(row + i, left, least), a));
      v_store_n(to + i, e, left);
      sum0 = v_add(sum0, e);
    }
    total = v_add(total, v_add(sum0, sum1));
  }
  return v_sum(total);
}

ROW_SUM(exponential_sum, v_set(-INFINITY), v_exp_flush(v_sub(x, a)))

static void softmax_row(float *to, const float *row, int64_t n) {
  const vf scale = v_set(1 / exponentials(to, row, n, largest_of(row, n)));
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store(to + i, v_mul(v_load(to + i), scale));
  if (i < n) v_store_n(to + i, v_mul(v_load_n(to + i, n - i), scale), n - i);
}

static void log_softmax_row(float *to, const float *row, int64_t n) {
  float largest = largest_of(row, n);
  const vf a = v_set(largest), b = v_set(logf(exponential_sum(row, n, a)));
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store(to + i, v_sub(v_sub(v_load(row + i), a), b));
  if (i < n) v_store_n(to + i, v_sub(v_sub(v_load_n(row + i, n - i), a), b), n - i);
}

/* The combination of lanes whose numbers are the same modulo `inner`, a power of two, in each of them. */
#define FOLD(name, combine)                                                \
  static vf name(vf a, int64_t inner) {                                    \
    for (int64_t apart = V_LANES / 2; apart >= inner; apart /= 2) {        \
      int32_t other[V_LANES];                                              \
      vi from;                                                             \
      for (int32_t i = 0; i < V_LANES; i++) other[i] = i ^ (int32_t)apart; \
      memcpy(&from, other, sizeof from);                                   \
      a = combine(a, v_permute(a, from));                                  \
    }                                                                      \
    return a;                                                              \
  }
FOLD(fold_largest, v_max)
FOLD(fold_sum, v_add)

/* `width` <= V_LANES lanes side by side, elements of a lane `inner` apart, up to `count` in all. `woven`: there are no
 * other lanes, and a vector holds as many steps of all of them as fit. */
V_INLINE void softmax_columns(float *to, const float *from, int64_t count, int64_t inner, int64_t width, bool logarithm,
                              const bool woven) {
  const int64_t step = woven ? V_LANES : inner;
  const vf least = v_set(-INFINITY);
  vf largest = least, sum = v_zero();
#define LANES(i) (woven ? base_min_i64(V_LANES, count - (i)) : width)
  for (int64_t i = 0; i < count; i += step) largest = v_max(largest, row_load(from + i, LANES(i), least));
  if (woven) largest = fold_largest(largest, inner);
  for (int64_t i = 0; i < count; i += step) {
    vf e = v_exp_flush(v_sub(row_load(from + i, LANES(i), least), largest));
    if (!logarithm) row_store(to + i, e, LANES(i));
    sum = v_add(sum, e);
  }
  if (woven) sum = fold_sum(sum, inner);
  vf factor = logarithm ? v_log(sum) : v_div(v_set(1), sum);
  for (int64_t i = 0; i < count; i += step) {
    vf y = logarithm ? v_sub(v_sub(row_load(from + i, LANES(i), least), largest), factor)
                     : v_mul(row_load(to + i, LANES(i), least), factor);
    row_store(to + i, y, LANES(i));
  }
#undef LANES
}

typedef struct lanes {
  const float *in;
  float *out;
  int64_t outer, length, inner;
} lanes;

/* Lanes so few that their number divides a vector's are woven. */
static void run_columns(const lanes *l, const base_call *call, bool logarithm) {
  const bool woven = l->inner < V_LANES && V_LANES % l->inner == 0;
  const int64_t row = l->length * l->inner;
  int64_t blocks = (l->inner + V_LANES - 1) / V_LANES, each;
  uint32_t total = row_tasks(l->outer * blocks, woven ? row : l->length * V_LANES, call->workers, &each);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t b = task * each; b < base_min_i64(l->outer * blocks, (task + 1) * each); b++) {
      const int64_t first = b % blocks * V_LANES, offset = b / blocks * row + first;
      const int64_t count = row - first, width = base_min_i64(V_LANES, l->inner - first);
      if (woven) softmax_columns(l->out + offset, l->in + offset, count, l->inner, width, logarithm, true);
      else softmax_columns(l->out + offset, l->in + offset, count, l->inner, width, logarithm, false);
    }
}

static td_status run(const base_call *call, bool logarithm) {
  const base_tensor *in = base_in(call, 0);
  int64_t axis = base_attr_int(call->attrs, KERN_SOFTMAX_DIM), each;
  bool flatten = base_attr_int(call->attrs, KERN_SOFTMAX_FLATTEN);
  lanes l = {in->data, base_out(call, 0)->data, 1, 1, 1};
  if (axis < 0) axis += in->rank;
  for (int32_t i = 0; i < in->rank; i++)
    *(i < axis ? &l.outer : i == axis || flatten ? &l.length : &l.inner) *= in->dims[i];
  if (l.outer * l.length * l.inner == 0) return TD_OK;
  if (l.inner > 1) {
    run_columns(&l, call, logarithm);
    return TD_OK;
  }
  uint32_t total = row_tasks(l.outer, l.length, call->workers, &each);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t r = task * each; r < base_min_i64(l.outer, (task + 1) * each); r++)
      (logarithm ? log_softmax_row : softmax_row)(l.out + r * l.length, l.in + r * l.length, l.length);
  return TD_OK;
}
td_status KERN_NAME(softmax)(const base_call *call) { return run(call, false); }
td_status KERN_NAME(log_softmax)(const base_call *call) { return run(call, true); }
