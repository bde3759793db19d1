/* norm.c -- KERN_LAYER_NORM and KERN_RMS_NORM of aten::native_layer_norm and aten::rms_norm, KERN_ADD_LAYER_NORM of
 * td::add_layer_norm: rows of x, and weight and bias of one row each. A row is read three times, the second and third
 * time from the first-level cache: mean, squared distances from it, result. */
#include "kernels/wide/rows_priv.h"

ROW_SUM(sum_of, v_zero(), x)
ROW_SUM(square_sum_of, v_zero(), v_mul(x, x))
ROW_SUM(spread_of, a, v_mul(v_sub(x, a), v_sub(x, a)))

typedef struct norm_param {
  const float *weight, *bias; /* NULL: absent */
  int64_t rows, length;
  double eps;
} norm_param;

V_INLINE vf affine(vf x, vf center, vf inverse, const vf *weight, const vf *bias) {
  vf y = v_mul(v_sub(x, center), inverse);
  if (weight) y = bias ? v_fma(y, *weight, *bias) : v_mul(y, *weight);
  else if (bias) y = v_add(y, *bias);
  return y;
}

V_INLINE void write_as(float *to, const float *from, int64_t n, float center, float inverse, const float *weight,
                       const float *bias) {
  const vf c = v_set(center), s = v_set(inverse);
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) {
    vf w = weight ? v_load(weight + i) : v_zero(), b = bias ? v_load(bias + i) : v_zero();
    v_store(to + i, affine(v_load(from + i), c, s, weight ? &w : NULL, bias ? &b : NULL));
  }
  if (i < n) {
    vf w = weight ? v_load_n(weight + i, n - i) : v_zero(), b = bias ? v_load_n(bias + i, n - i) : v_zero();
    v_store_n(to + i, affine(v_load_n(from + i, n - i), c, s, weight ? &w : NULL, bias ? &b : NULL), n - i);
  }
}

/* to = (from - center) * inverse * weight + bias; a loop for each choice of what is there. */
static void write_row(float *to, const float *from, const norm_param *p, float center, float inverse) {
  if (p->weight && p->bias) write_as(to, from, p->length, center, inverse, p->weight, p->bias);
  else if (p->weight) write_as(to, from, p->length, center, inverse, p->weight, NULL);
  else if (p->bias) write_as(to, from, p->length, center, inverse, NULL, p->bias);
  else write_as(to, from, p->length, center, inverse, NULL, NULL);
}

/* 1 / deviation, or 1 / root mean square, of a sum of squares. */
static float inverse_of(float sum, const norm_param *p) {
  return (float)(1 / sqrt((double)sum / (double)p->length + p->eps));
}

static float mean_of(const float *row, const norm_param *p) {
  return (float)((double)sum_of(row, p->length, v_zero()) / (double)p->length);
}

static const float *vector_of(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return t ? t->data : NULL;
}

/* Rows are the dimensions [axis, rank) of operand 0. */
static norm_param param_of(const base_call *call, int64_t axis, double eps, uint32_t weight) {
  const base_tensor *x = base_in(call, 0);
  norm_param p = {vector_of(call, weight), vector_of(call, weight + 1), 1, 1, eps};
  if (axis < 0) axis += x->rank;
  for (int32_t i = 0; i < x->rank; i++) *(i < axis ? &p.rows : &p.length) *= x->dims[i];
  return p;
}

enum { AXIS, EPS };

/* Statistics of rows without elements. */
static void fill_nan(const base_tensor *t) {
  for (int64_t i = 0; t && i < base_tensor_numel(t); i++) ((float *)t->data)[i] = NAN;
}

static td_status normalise(const base_call *call, bool centered) {
  const base_tensor *y = base_out(call, 0), *mean = centered ? base_out(call, 1) : NULL,
                    *scale = base_out(call, centered ? 2 : 1);
  norm_param p = param_of(call, base_attr_int(call->attrs, AXIS), base_attr_float(call->attrs, EPS), 1);
  const float *x = base_in(call, 0)->data;
  if (p.rows * p.length == 0) {
    if (call->worker == 0) {
      fill_nan(mean);
      fill_nan(scale);
    }
    return TD_OK;
  }
  int64_t each;
  uint32_t total = row_tasks(p.rows, p.length, &each);
  for (uint32_t task = base_call_first(call); task < total; task = base_call_next(call, task))
    for (int64_t r = task * each; r < base_min_i64(p.rows, (task + 1) * each); r++) {
      const float *row = x + r * p.length;
      float center = centered ? mean_of(row, &p) : 0;
      float squares = centered ? spread_of(row, p.length, v_set(center)) : square_sum_of(row, p.length, v_zero());
      float inverse = inverse_of(squares, &p);
      if (y) write_row((float *)y->data + r * p.length, row, &p, center, inverse);
      if (mean) ((float *)mean->data)[r] = center;
      if (scale) ((float *)scale->data)[r] = inverse;
    }
  return TD_OK;
}
td_status KERN_NAME(layer_norm)(const base_call *call) { return normalise(call, true); }
td_status KERN_NAME(rms_norm)(const base_call *call) { return normalise(call, false); }

static void add_rows(float *to, const float *x, const float *y, int64_t n) {
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store(to + i, v_add(v_load(x + i), v_load(y + i)));
  if (i < n) v_store_n(to + i, v_add(v_load_n(x + i, n - i), v_load_n(y + i, n - i)), n - i);
}

/* Outputs: the norm of x + y, and x + y itself, which may be unwanted. Either operand may be pitched. */
td_status KERN_NAME(add_layer_norm)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_in(call, 1), *out = base_out(call, 0), *sum = base_out(call, 1);
  norm_param p = param_of(call, -1, base_attr_float(call->attrs, 0), 2);
  if (p.rows * p.length == 0) return TD_OK;
  int64_t each, x_pitch = kern_pitch(x), y_pitch = kern_pitch(y);
  uint32_t total = row_tasks(p.rows, p.length, &each);
  for (uint32_t task = base_call_first(call); task < total; task = base_call_next(call, task))
    for (int64_t r = task * each; r < base_min_i64(p.rows, (task + 1) * each); r++) {
      float *to = (float *)out->data + r * p.length, *row = sum ? (float *)sum->data + r * p.length : to;
      add_rows(row, (const float *)x->data + r * x_pitch, (const float *)y->data + r * y_pitch, p.length);
      float center = mean_of(row, &p), squares = spread_of(row, p.length, v_set(center));
      write_row(to, row, &p, center, inverse_of(squares, &p));
    }
  return TD_OK;
}
