/* pad.c -- the KERN_*_PAD: borders around a dense tensor of 32-bit elements (pad.h). Along the last axis that changes,
 * what is inside of a row is one run; what is outside goes pixel by pixel, a pixel being all dimensions behind. */
#include "kernels/simd_priv.h"

#include "base/size.h"
#include "kernels/pad.h"

enum { TASK_ELEMENTS = 1 << 15 };

typedef struct job {
  const float *x;
  float *y;
  const kern_pad_tables *t;
  const int64_t *in_dims, *out_dims;
  int32_t axis;                     /* the last one that changes */
  int64_t inner, rows, row, in_row; /* elements of a pixel; rows of y; elements of one, and of one of x */
  float fill;
} job;

static void copy_run(float *to, const float *from, int64_t n) {
  if (n > 8 * V_LANES) {
    memcpy(to, from, (size_t)n * sizeof *to);
    return;
  }
  for (; n >= V_LANES; n -= V_LANES, to += V_LANES, from += V_LANES) v_store(to, v_load(from));
  v_store_n(to, v_load_n(from, n), n);
}

static void fill_run(float *to, vf value, int64_t n) {
  for (; n >= V_LANES; n -= V_LANES, to += V_LANES) v_store(to, value);
  v_store_n(to, value, n);
}

/* Pixels [first, last) of a row, one by one. */
static void border(const job *j, float *to, const float *from, int64_t first, int64_t last) {
  const int64_t *table = j->t->table[j->axis], inner = j->inner;
  for (int64_t i = first; i < last; i++) {
    if (table[i] < 0) fill_run(to + i * inner, v_set(j->fill), inner);
    else if (inner == 1) to[i] = from[table[i]];
    else copy_run(to + i * inner, from + table[i] * inner, inner);
  }
}

static void run_row(const job *j, int64_t row) {
  int64_t line = 0, step = 1, rest = row;
  bool inside = true;
  float *to = j->y + row * j->row;
  for (int32_t d = j->axis - 1; d >= 0; d--) {
    int64_t at = j->t->table[d][rest % j->out_dims[d]];
    inside &= at >= 0;
    line += at * step;
    step *= j->in_dims[d];
    rest /= j->out_dims[d];
  }
  if (!inside) {
    fill_run(to, v_set(j->fill), j->row);
    return;
  }
  const float *from = j->x + line * j->in_row;
  const int64_t first = j->t->first[j->axis], last = j->t->last[j->axis];
  border(j, to, from, 0, first);
  if (last > first)
    copy_run(to + first * j->inner, from + j->t->table[j->axis][first] * j->inner, (last - first) * j->inner);
  border(j, to, from, last, j->row / j->inner);
}

/* The axis of rows: the last that changes, or the first one. */
static void describe(const base_call *call, job *j) {
  const base_tensor *x = base_in(call, KERN_PAD_X), *y = base_out(call, 0);
  j->x = x->data;
  j->y = y->data;
  j->in_dims = x->dims;
  j->out_dims = y->dims;
  for (int32_t d = 1; d < x->rank; d++)
    if (x->dims[d] != y->dims[d] || j->t->first[d] != 0 || j->t->last[d] != y->dims[d]) j->axis = d;
  j->inner = j->rows = 1;
  for (int32_t d = j->axis + 1; d < x->rank; d++) j->inner *= x->dims[d];
  for (int32_t d = 0; d < j->axis; d++) j->rows *= y->dims[d];
  j->row = y->dims[j->axis] * j->inner;
  j->in_row = x->dims[j->axis] * j->inner;
}

static td_status run(const base_call *call, const kern_pad *pad) {
  const base_tensor *x = base_in(call, KERN_PAD_X), *value = pad->map ? NULL : base_in(call, KERN_PAD_VALUE);
  kern_pad_tables t;
  job j = {.t = &t};
  TRY(kern_pad_read(call, pad, &t));
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  if (value && base_tensor_numel(value) > 0) j.fill = *(const float *)value->data;
  if (x->rank == 0) {
    *(float *)base_out(call, 0)->data = *(const float *)x->data;
    return TD_OK;
  }
  describe(call, &j);
  const int64_t each = base_max_i64(1, TASK_ELEMENTS / j.row), total = (j.rows + each - 1) / each;
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t row = task * each; row < base_min_i64(j.rows, (task + 1) * each); row++) run_row(&j, row);
  return TD_OK;
}

td_status KERN_NAME(constant_pad)(const base_call *call) { return run(call, &kern_pad_constant); }
td_status KERN_NAME(reflection_pad)(const base_call *call) { return run(call, &kern_pad_reflection); }
td_status KERN_NAME(replication_pad)(const base_call *call) { return run(call, &kern_pad_replication); }
td_status KERN_NAME(circular_pad)(const base_call *call) { return run(call, &kern_pad_circular); }
