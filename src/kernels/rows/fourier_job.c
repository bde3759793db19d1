/* fourier_job.c -- see fourier_job_priv.h. */
#include "kernels/rows/fourier_job_priv.h"

#include "base/error.h"

enum { TASK_POINTS = 256 /* of every lane, at least */ };

void kern_fourier_place(kern_fourier_job *j, int64_t first, int64_t n) {
  int64_t at[BASE_MAX_RANK], rest = first, x = 0, y = 0;
  for (int32_t d = j->rank - 1; d >= 0; d--) {
    at[d] = rest % j->dims[d];
    rest /= j->dims[d];
    x += at[d] * j->x.step[d];
    y += at[d] * j->y.step[d];
  }
  for (int64_t l = 0; l < j->lanes; l++) {
    j->x.at[l] = l < n ? x : j->x.at[0];
    j->y.at[l] = l < n ? y : j->y.at[0];
    for (int32_t d = j->rank - 1; d >= 0; d--) {
      x += j->x.step[d];
      y += j->y.step[d];
      if (++at[d] < j->dims[d]) break;
      x -= at[d] * j->x.step[d];
      y -= at[d] * j->y.step[d];
      at[d] = 0;
    }
  }
}

/* The table: operand `number`, or what this worker makes for itself where the length was not known before. */
static td_status find_table(const base_call *call, kern_fourier_job *j, uint32_t number) {
  const base_tensor *t = base_in(call, number);
  if (t && (t->dtype != TD_F32 || t->rank != 1 || t->dims[0] != j->f.count || t->strides[0] != 1))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "a table that is not one of %lld elements",
                     (long long)j->f.n);
  if (t) {
    j->table = t->data;
    return TD_OK;
  }
  float *table = base_call_scratch(call, (size_t)j->f.count, sizeof *table);
  double *room = base_call_scratch(call, (size_t)kern_fourier_room(&j->f), sizeof *room);
  if (!table || !room) return base_no_memory(call->err, "scratch");
  kern_fourier_fill(&j->f, table, room);
  j->table = table;
  return TD_OK;
}

static td_status find_room(const base_call *call, kern_fourier_job *j, int64_t level_lanes) {
  const kern_fourier *f = &j->f;
  const int64_t elements = base_max_i64(f->length, j->extends ? f->n : f->points) + 1,
                block = f->matrix ? base_max_i64(f->line[0].points, f->line[1].points) : 0;
  for (int i = 0; i < 2; i++) {
    j->buffer[i] = base_call_scratch(call, (size_t)elements, (size_t)j->lanes * 2 * sizeof(float));
    j->block[i] = base_call_scratch(call, (size_t)block, (size_t)level_lanes * 2 * sizeof(float));
    if (!j->buffer[i] || !j->block[i]) return base_no_memory(call->err, "scratch");
  }
  return TD_OK;
}

/* What is left to do for a job whose transform and rows are told. */
static td_status settle(const base_call *call, int64_t level_lanes, uint32_t table, kern_fourier_job *j) {
  j->rows = 1;
  for (int32_t d = 0; d < j->rank; d++) j->rows *= j->dims[d];
  j->lanes = j->f.matrix ? 1 : level_lanes;
  j->task_rows = base_max_i64(1, TASK_POINTS / j->f.points) * j->lanes;
  j->tasks = (j->rows + j->task_rows - 1) / j->task_rows;
  TRY(find_table(call, j, table));
  return find_room(call, j, level_lanes);
}

/* Neighbours along the axis are the parts of a number, where half as many are transformed. */
static void pair_up(kern_fourier_side *s) {
  s->part = s->element;
  s->element *= 2;
  s->parts = 2;
}

static kern_fourier_side side_of(const base_tensor *t, int32_t axis, int64_t parts) {
  return (kern_fourier_side){.data = t->data,
                             .element = t->strides[axis],
                             .part = t->strides[t->rank - 1],
                             .parts = parts,
                             .floats = t->dims[axis] * parts};
}

/* A whole number that an operand gives. */
static int64_t number(const base_call *call, uint32_t i, int64_t otherwise) {
  const base_tensor *t = base_in(call, i);
  return t && base_tensor_numel(t) == 1 ? base_load_i64(t->dtype, t->data, 0) : otherwise;
}

static td_status check_length(const base_call *call, int64_t n, int64_t parts) {
  if (n >= 1 && n <= KERN_FOURIER_MOST && (parts == 1 || parts == 2)) return TD_OK;
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1,
                   "a transform of %lld elements of %lld parts; of 1 to %d, of 1 "
                   "or 2 parts, it is supported",
                   (long long)n, (long long)parts, KERN_FOURIER_MOST);
}

/* Rows of a transform along `axis` of tensors whose last axis holds parts. */
static void count_rows(kern_fourier_job *j, const base_tensor *x, const base_tensor *y, int32_t axis) {
  for (int32_t d = 0; d + 1 < x->rank; d++) {
    if (d == axis) continue;
    j->x.step[j->rank] = x->strides[d];
    j->y.step[j->rank] = y->strides[d];
    j->dims[j->rank++] = x->dims[d];
  }
}

td_status kern_fourier_dft(const base_call *call, int64_t level_lanes, kern_fourier_job *j) {
  const base_tensor *x = base_in(call, KERN_DFT_X), *y = base_out(call, 0);
  const int64_t given = number(call, KERN_DFT_AXIS, -2), axis = given < 0 ? given + x->rank : given,
                parts = x->dims[x->rank - 1];
  const bool inverse = base_attr_int(call->attrs, KERN_DFT_INVERSE),
             onesided = base_attr_int(call->attrs, KERN_DFT_ONESIDED);
  *j = (kern_fourier_job){.inverse = inverse, .onesided = onesided};
  if (axis < 0 || axis >= x->rank - 1)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "axis %lld of rank %d", (long long)given, x->rank);
  const int64_t in = x->dims[axis], n = number(call, KERN_DFT_LENGTH, inverse && onesided ? 2 * (in - 1) : in),
                bins = onesided && !inverse ? n / 2 + 1 : n;
  TRY(check_length(call, n, parts));
  if (y->dims[axis] != bins || y->dims[y->rank - 1] != 2 - (inverse && onesided))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "a result of %lld elements, %lld are made",
                     (long long)y->dims[axis], (long long)bins);
  if (base_tensor_numel(y) == 0) return TD_OK;
  j->f = kern_fourier_of(n, kern_fourier_halves(n, parts, inverse, onesided));
  j->extends = j->f.half && !inverse && !onesided;
  j->real = parts == 1;
  j->x = side_of(x, (int32_t)axis, parts);
  j->y = side_of(y, (int32_t)axis, y->dims[y->rank - 1]);
  j->x.floats = base_min_i64(in, inverse && onesided ? n / 2 + 1 : n) * parts;
  if (j->f.half) pair_up(inverse ? &j->y : &j->x);
  count_rows(j, x, y, (int32_t)axis);
  return settle(call, level_lanes, KERN_DFT_TABLE, j);
}

td_status kern_fourier_stft(const base_call *call, int64_t level_lanes, kern_fourier_job *j) {
  const base_tensor *x = base_in(call, KERN_STFT_SIGNAL), *y = base_out(call, 0), *w = base_in(call, KERN_STFT_WINDOW);
  const int64_t step = number(call, KERN_STFT_STEP, 0), parts = x->rank == 3 ? x->dims[2] : 1, length = x->dims[1],
                n = number(call, KERN_STFT_LENGTH, w ? base_tensor_numel(w) : 0), frames = y->dims[1];
  const bool onesided = base_attr_int(call->attrs, KERN_STFT_ONESIDED);
  *j = (kern_fourier_job){.onesided = onesided, .rank = 2, .dims = {y->dims[0], frames}};
  TRY(check_length(call, n, parts));
  if (w && (w->rank != 1 || w->dims[0] != n))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "the window has %lld elements, a frame %lld",
                     (long long)base_tensor_numel(w), (long long)n);
  if (base_tensor_numel(y) == 0) return TD_OK;
  if (step < 1 || y->dims[2] != (onesided ? n / 2 + 1 : n) || n > length || frames - 1 > (length - n) / step)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1,
                     "%lld frames of %lld elements, a hop of %lld, do not fit %lld", (long long)frames, (long long)n,
                     (long long)step, (long long)length);
  j->f = kern_fourier_of(n, kern_fourier_halves(n, parts, false, onesided));
  j->extends = j->f.half && !onesided;
  j->real = parts == 1;
  j->x = side_of(x, 1, parts);
  j->y = side_of(y, 2, 2);
  j->x.floats = n * parts;
  if (j->f.half) pair_up(&j->x);
  j->x.step[0] = x->strides[0], j->x.step[1] = step * x->strides[1];
  j->y.step[0] = y->strides[0], j->y.step[1] = y->strides[1];
  if (w) j->window = w->data, j->window_step = w->strides[0];
  return settle(call, level_lanes, KERN_STFT_TABLE, j);
}
