/* norm.c -- KERN_LAYER_NORM and KERN_RMS_NORM of aten::native_layer_norm and aten::rms_norm, KERN_ADD_LAYER_NORM of
 * td::add_layer_norm: rows of x, and weight and bias of one row each.
 *
 * A row is read once for its statistics and once, from the first-level cache, for the result; two rows at a time share
 * the loads of weight and bias. The variance comes from sums of d = x - pivot and of d^2 with a pivot per lane, the
 * mean of the lane's first elements: within some deviations of the mean, so that little cancels (Chan, Golub & LeVeque
 * 1983). */
#include "kernels/simd/wide/rows_priv.h"

enum { TOGETHER = 8 };

typedef struct norm_param {
  const float *weight, *bias; /* NULL: absent */
  int64_t rows, length;
  float eps;
  bool centered;
} norm_param;

/* y = (x - center) * inverse. */
typedef struct norm_stats {
  float center, inverse;
} norm_stats;

/* Where the elements of a row come from: x, or x + y, which then is put into `sum`. */
typedef struct row_source {
  const float *x, *y; /* y: NULL: x alone */
  float *sum;
} row_source;

V_INLINE vf element(row_source r, bool adds, int64_t i) {
  return adds ? v_add(v_load(r.x + i), v_load(r.y + i)) : v_load(r.x + i);
}
V_INLINE vf take(row_source r, bool adds, int64_t i) {
  vf x = element(r, adds, i);
  if (adds) v_store(r.sum + i, x);
  return x;
}
/* The first n lanes; `rest` behind them. */
V_INLINE vf take_n(row_source r, bool adds, int64_t i, int64_t n, vf rest) {
  vf x = row_load(r.x + i, n, rest);
  if (!adds) return x;
  x = v_add(x, row_load(r.y + i, n, v_zero()));
  row_store(r.sum + i, x, n);
  return x;
}

/* Sums over a row of d = x - pivot and of d^2, by lanes. */
typedef struct row_sums {
  vf pivot, sum, squares;
} row_sums;

/* Adds elements [i, end), ROW_PIECE at most. */
V_INLINE void add_piece(row_source r, bool adds, int64_t i, int64_t end, row_sums *s) {
  const vf pivot = s->pivot;
  vf s0 = v_zero(), s1 = s0, s2 = s0, s3 = s0, q0 = s0, q1 = s0, q2 = s0, q3 = s0;
  for (; i + 4 * V_LANES <= end; i += 4 * V_LANES) {
    vf d0 = v_sub(take(r, adds, i), pivot), d1 = v_sub(take(r, adds, i + V_LANES), pivot);
    vf d2 = v_sub(take(r, adds, i + 2 * V_LANES), pivot), d3 = v_sub(take(r, adds, i + 3 * V_LANES), pivot);
    s0 = v_add(s0, d0);
    s1 = v_add(s1, d1);
    s2 = v_add(s2, d2);
    s3 = v_add(s3, d3);
    q0 = v_fma(d0, d0, q0);
    q1 = v_fma(d1, d1, q1);
    q2 = v_fma(d2, d2, q2);
    q3 = v_fma(d3, d3, q3);
  }
  for (; i < end; i += V_LANES) {
    vf d = v_sub(take_n(r, adds, i, end - i, pivot), pivot);
    s0 = v_add(s0, d);
    q0 = v_fma(d, d, q0);
  }
  s->sum = v_add(s->sum, v_add(v_add(s0, s1), v_add(s2, s3)));
  s->squares = v_add(s->squares, v_add(v_add(q0, q1), v_add(q2, q3)));
}

V_INLINE vf pivot_of(row_source r, bool adds, int64_t n) {
  if (n < V_LANES) return adds ? v_add(v_load_n(r.x, n), v_load_n(r.y, n)) : v_load_n(r.x, n);
  if (n < 4 * V_LANES) return element(r, adds, 0);
  vf first = v_add(element(r, adds, 0), element(r, adds, V_LANES));
  vf second = v_add(element(r, adds, 2 * V_LANES), element(r, adds, 3 * V_LANES));
  return v_mul(v_add(first, second), v_set(0.25f));
}

V_INLINE row_sums sums_as(row_source r, bool adds, const norm_param *p) {
  const int64_t n = p->length;
  row_sums s = {p->centered ? pivot_of(r, adds, n) : v_zero(), v_zero(), v_zero()};
  for (int64_t i = 0; i < n; i += ROW_PIECE) add_piece(r, adds, i, base_min_i64(i + ROW_PIECE, n), &s);
  return s;
}
static row_sums sums_of(const float *row, const norm_param *p) { return sums_as((row_source){.x = row}, false, p); }
static row_sums sums_of_both(row_source r, const norm_param *p) { return sums_as(r, true, p); }

/* Of `rows` <= TOGETHER rows. Each step is taken for all of them before the next: it is the latency of a step that
 * costs, and rows do not wait for each other. */
static void stats_of(const row_sums *sums, int rows, const norm_param *p, norm_stats *stats) {
  static const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const float n = (float)p->length;
  /* elements of each lane: where there are none, pivot and sum are 0 */
  const vf count = v_add(v_set((float)(p->length / V_LANES)), v_load_n(ones, p->length % V_LANES));
  float squares[TOGETHER];
  for (int k = 0; k < rows; k++)
    stats[k].center = p->centered ? v_sum(v_fma(count, sums[k].pivot, sums[k].sum)) / n : 0;
  for (int k = 0; k < rows; k++) {
    const row_sums *s = &sums[k];
    vf e = v_sub(s->pivot, v_set(stats[k].center)), moved = v_mul(e, v_fma(count, e, v_add(s->sum, s->sum)));
    squares[k] = v_sum(p->centered ? v_add(s->squares, moved) : s->squares);
  }
  for (int k = 0; k < rows; k++) stats[k].inverse = 1 / sqrtf(squares[k] / n + p->eps);
}

V_INLINE vf affine(vf x, vf center, vf inverse, const vf *weight, const vf *bias) {
  vf y = v_mul(v_sub(x, center), inverse);
  if (weight) y = bias ? v_fma(y, *weight, *bias) : v_mul(y, *weight);
  else if (bias) y = v_add(y, *bias);
  return y;
}

/* `rows` <= 2 rows, as affine says. */
V_INLINE void write_as(float *const *to, const float *const *from, int rows, int64_t n, const norm_stats *stats,
                       const float *weight, const float *bias) {
  const vf c0 = v_set(stats[0].center), s0 = v_set(stats[0].inverse), c1 = v_set(stats[rows - 1].center),
           s1 = v_set(stats[rows - 1].inverse);
  const float *x0 = from[0], *x1 = from[rows - 1];
  float *y0 = to[0], *y1 = to[rows - 1];
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) {
    vf w = weight ? v_load(weight + i) : v_zero(), b = bias ? v_load(bias + i) : v_zero();
    v_store(y0 + i, affine(v_load(x0 + i), c0, s0, weight ? &w : NULL, bias ? &b : NULL));
    if (rows > 1) v_store(y1 + i, affine(v_load(x1 + i), c1, s1, weight ? &w : NULL, bias ? &b : NULL));
  }
  if (i == n) return;
  vf w = weight ? v_load_n(weight + i, n - i) : v_zero(), b = bias ? v_load_n(bias + i, n - i) : v_zero();
  v_store_n(y0 + i, affine(v_load_n(x0 + i, n - i), c0, s0, weight ? &w : NULL, bias ? &b : NULL), n - i);
  if (rows > 1) v_store_n(y1 + i, affine(v_load_n(x1 + i, n - i), c1, s1, weight ? &w : NULL, bias ? &b : NULL), n - i);
}

/* A loop for each choice of what is there. */
V_INLINE void write_some(float *const *to, const float *const *from, int rows, const norm_param *p,
                         const norm_stats *stats) {
  if (p->weight && p->bias) write_as(to, from, rows, p->length, stats, p->weight, p->bias);
  else if (p->weight) write_as(to, from, rows, p->length, stats, p->weight, NULL);
  else if (p->bias) write_as(to, from, rows, p->length, stats, NULL, p->bias);
  else write_as(to, from, rows, p->length, stats, NULL, NULL);
}
static void write_rows(float *const *to, const float *const *from, int rows, const norm_param *p,
                       const norm_stats *stats) {
  int r = 0;
  for (; r + 2 <= rows; r += 2) write_some(to + r, from + r, 2, p, stats + r);
  if (r < rows) write_some(to + r, from + r, 1, p, stats + r);
}

/* Rows whose statistics are taken together; they stay in the first-level cache. */
static int64_t rows_together(const norm_param *p) { return p->length <= 512 ? TOGETHER : p->length <= 1024 ? 4 : 2; }

static const float *vector_of(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return t ? t->data : NULL;
}

/* Rows are the dimensions [axis, rank) of operand 0; weight and bias, operands `weight` and the next, are one each. */
static td_status param_of(const base_call *call, int64_t axis, double eps, uint32_t weight, bool centered,
                          norm_param *p) {
  const base_tensor *x = base_in(call, 0);
  *p = (norm_param){vector_of(call, weight), vector_of(call, weight + 1), 1, 1, (float)eps, centered};
  if (axis < 0) axis += x->rank;
  for (int32_t i = 0; i < x->rank; i++) *(i < axis ? &p->rows : &p->length) *= x->dims[i];
  for (uint32_t i = weight; i < weight + 2; i++)
    if (base_in(call, i) && base_tensor_numel(base_in(call, i)) != p->length)
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "operand %u does not fit rows of %lld elements", i,
                       (long long)p->length);
  return TD_OK;
}

/* Statistics of rows without elements. */
static void fill_nan(const base_tensor *t) {
  for (int64_t i = 0; t && i < base_tensor_numel(t); i++) ((float *)t->data)[i] = NAN;
}

static td_status normalise(const base_call *call, bool centered) {
  const base_tensor *y = base_out(call, 0), *mean = centered ? base_out(call, 1) : NULL,
                    *scale = base_out(call, centered ? 2 : 1);
  const float *x = base_in(call, 0)->data;
  norm_param p;
  TRY(param_of(call, base_attr_int(call->attrs, KERN_LAYER_NORM_AXIS),
               base_attr_float(call->attrs, KERN_LAYER_NORM_EPS), 1, centered, &p));
  if (p.rows * p.length == 0) {
    if (base_call_first(call, 1) == 0) {
      fill_nan(mean);
      fill_nan(scale);
    }
    return TD_OK;
  }
  int64_t each, together = rows_together(&p);
  uint32_t total = row_tasks(p.rows, p.length, call->workers, &each);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t r = task * each, end = base_min_i64(p.rows, r + each); r < end; r += together) {
      int rows = (int)base_min_i64(together, end - r);
      const float *from[TOGETHER];
      float *to[TOGETHER];
      row_sums sums[TOGETHER];
      norm_stats stats[TOGETHER];
      for (int k = 0; k < rows; k++) {
        from[k] = x + (r + k) * p.length;
        to[k] = y ? (float *)y->data + (r + k) * p.length : NULL;
        sums[k] = sums_of(from[k], &p);
      }
      stats_of(sums, rows, &p, stats);
      for (int k = 0; k < rows; k++) {
        if (mean) ((float *)mean->data)[r + k] = stats[k].center;
        if (scale) ((float *)scale->data)[r + k] = stats[k].inverse;
      }
      if (y) write_rows(to, from, rows, &p, stats);
    }
  return TD_OK;
}
td_status KERN_NAME(layer_norm)(const base_call *call) { return normalise(call, true); }
td_status KERN_NAME(rms_norm)(const base_call *call) { return normalise(call, false); }

/* Outputs: the norm of x + y, and x + y itself, which may be unwanted. Either operand may be pitched. */
td_status KERN_NAME(add_layer_norm)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_in(call, 1), *out = base_out(call, 0), *sum = base_out(call, 1);
  norm_param p;
  TRY(param_of(call, -1, base_attr_float(call->attrs, KERN_ADD_NORM_EPS), 2, true, &p));
  if (p.rows * p.length == 0) return TD_OK;
  int64_t each, together = rows_together(&p), x_pitch = kern_pitch(x), y_pitch = kern_pitch(y);
  uint32_t total = row_tasks(p.rows, p.length, call->workers, &each);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t r = task * each, end = base_min_i64(p.rows, r + each); r < end; r += together) {
      int rows = (int)base_min_i64(together, end - r);
      float *to[TOGETHER];
      const float *from[TOGETHER];
      row_sums sums[TOGETHER];
      norm_stats stats[TOGETHER];
      for (int k = 0; k < rows; k++) {
        to[k] = (float *)out->data + (r + k) * p.length;
        float *row = sum ? (float *)sum->data + (r + k) * p.length : to[k];
        sums[k] = sums_of_both(
            (row_source){(const float *)x->data + (r + k) * x_pitch, (const float *)y->data + (r + k) * y_pitch, row},
            &p);
        from[k] = row;
      }
      stats_of(sums, rows, &p, stats);
      write_rows(to, from, rows, &p, stats);
    }
  return TD_OK;
}
