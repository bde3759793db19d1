/* pad.c -- the KERN_*_PAD: borders around a dense tensor of 32-bit elements (data.h). Along the last axis that changes,
 * what is inside of a row is one run; what is outside goes pixel by pixel, a pixel being all dimensions behind. */
#include "kernels/simd/simd_priv.h"

#include "base/size.h"
#include "kernels/data/data.h"
#include "kernels/tasks_priv.h"

enum { TASK_ELEMENTS = 1 << 15 };

typedef struct job {
  const float *x;
  float *y;
  const kern_pad_tables *t;
  const int64_t *out_dims;
  int64_t step[BASE_MAX_RANK];      /* rows of x from one to the next along the axes in front of that of rows */
  int32_t axis;                     /* the last one that changes */
  int64_t inner, rows, row, in_row; /* elements of a pixel; rows of y; elements of one, and of one of x */
  float fill;
  bool fills; /* outside is the fill */
} job;

/* A row of y: its place along the axes in front, and the row of x that the first d of them lead to; < 0: none. */
typedef struct place {
  int64_t at[BASE_MAX_RANK], line[BASE_MAX_RANK + 1];
} place;

/* Whole vectors, the last of which overlaps the one in front. Those of a long run are stored where they are aligned; of
 * short ones, row by row as long as each other, the same number each time is faster. */
static void copy_run(float *to, const float *from, int64_t n) {
  if (n < V_LANES) {
    v_store_n(to, v_load_n(from, n), n);
    return;
  }
  const int64_t shift = (int64_t)((uintptr_t)to / sizeof *to % V_LANES);
  v_store(to, v_load(from));
  for (int64_t i = n > 8 * V_LANES ? V_LANES - shift : V_LANES; i + V_LANES <= n; i += V_LANES)
    v_store(to + i, v_load(from + i));
  v_store(to + n - V_LANES, v_load(from + n - V_LANES));
}

static void fill_run(float *to, float value, int64_t n) {
  const vf all = v_set(value);
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store(to + i, all);
  if (n >= V_LANES) v_store(to + n - V_LANES, all);
  else
    for (; i < n; i++) to[i] = value;
}

/* Pixels [first, last) of a row, which lie outside. */
static void border(const job *j, float *to, const float *from, int64_t first, int64_t last) {
  const int64_t *table = j->t->table[j->axis], inner = j->inner;
  if (first == last) return;
  if (j->fills) fill_run(to + first * inner, j->fill, (last - first) * inner);
  else if (inner == 1)
    for (int64_t i = first; i < last; i++) to[i] = from[table[i]];
  else
    for (int64_t i = first; i < last; i++) copy_run(to + i * inner, from + table[i] * inner, inner);
}

static void run_row(const job *j, float *to, int64_t line) {
  if (line < 0) {
    fill_run(to, j->fill, j->row);
    return;
  }
  const float *from = j->x + line * j->in_row;
  const int64_t first = j->t->first[j->axis], last = j->t->last[j->axis];
  border(j, to, from, 0, first);
  if (last > first)
    copy_run(to + first * j->inner, from + j->t->table[j->axis][first] * j->inner, (last - first) * j->inner);
  border(j, to, from, last, j->row / j->inner);
}

/* Finds where the axes from `axis` on lead. */
static void find_line(const job *j, place *p, int32_t axis) {
  for (int32_t d = axis; d < j->axis; d++) {
    const int64_t at = j->t->table[d][p->at[d]];
    p->line[d + 1] = p->line[d] < 0 || at < 0 ? -1 : p->line[d] + at * j->step[d];
  }
}

static void run_rows(const job *j, int64_t first, int64_t count) {
  place p = {.line = {0}};
  int64_t rest = first;
  for (int32_t d = j->axis; d-- > 0; rest /= j->out_dims[d]) p.at[d] = rest % j->out_dims[d];
  find_line(j, &p, 0);
  float *to = j->y + first * j->row;
  for (int64_t i = 0; i < count; i++, to += j->row) {
    run_row(j, to, p.line[j->axis]);
    int32_t d = j->axis - 1;
    for (; d >= 0 && ++p.at[d] == j->out_dims[d]; d--) p.at[d] = 0;
    find_line(j, &p, d < 0 ? 0 : d);
  }
}

/* The axis of rows: the last that changes, or the first one. */
static void describe(const base_call *call, job *j) {
  const base_tensor *x = base_in(call, KERN_PAD_X), *y = base_out(call, 0);
  j->x = x->data;
  j->y = y->data;
  j->out_dims = y->dims;
  for (int32_t d = 1; d < x->rank; d++)
    if (x->dims[d] != y->dims[d] || j->t->first[d] != 0 || j->t->last[d] != y->dims[d]) j->axis = d;
  j->inner = j->rows = 1;
  for (int32_t d = j->axis + 1; d < x->rank; d++) j->inner *= x->dims[d];
  for (int32_t d = 0; d < j->axis; d++) j->rows *= y->dims[d];
  int64_t step = 1;
  for (int32_t d = j->axis; d-- > 0; step *= x->dims[d]) j->step[d] = step;
  j->row = y->dims[j->axis] * j->inner;
  j->in_row = x->dims[j->axis] * j->inner;
}

static td_status run(const base_call *call, const kern_pad *pad) {
  const base_tensor *x = base_in(call, KERN_PAD_X), *value = pad->map ? NULL : base_in(call, KERN_PAD_VALUE);
  kern_pad_tables t;
  job j = {.t = &t, .fills = !pad->map};
  TRY(kern_pad_read(call, pad, &t));
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  if (value && base_tensor_numel(value) > 0) j.fill = *(const float *)value->data;
  if (x->rank == 0) {
    *(float *)base_out(call, 0)->data = *(const float *)x->data;
    return TD_OK;
  }
  describe(call, &j);
  const int64_t each = base_max_i64(1, kern_task_size(TASK_ELEMENTS, call->workers) / j.row),
                total = (j.rows + each - 1) / each;
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    run_rows(&j, task * each, base_min_i64(each, j.rows - task * each));
  return TD_OK;
}

td_status KERN_NAME(constant_pad)(const base_call *call) { return run(call, &kern_pad_constant); }
td_status KERN_NAME(reflection_pad)(const base_call *call) { return run(call, &kern_pad_reflection); }
td_status KERN_NAME(replication_pad)(const base_call *call) { return run(call, &kern_pad_replication); }
td_status KERN_NAME(circular_pad)(const base_call *call) { return run(call, &kern_pad_circular); }
