/* pool.c -- KERN_MAX_POOL of 8 bits: td::max_pool over [N, spatial..., C], a row of the result at a time: the
 * maxima of the rows of x that it sees, then those of their pixels. Loops along channels are left to the compiler. And
 * the axes of windows, for all kernels of pools. */
#include "kernels/rows/rows.h"
#include "kernels/kernels_priv.h"
#include "kernels/tasks_priv.h"

#include <math.h>
#include <string.h>

enum { FEW_ROWS = 16, MOST_CHANNELS = 512 };

static void open_axis(const base_attrs *attrs, int32_t i, int32_t spatial, kern_pool_axis *a) {
  const char *same = base_attr_str(attrs, KERN_WINDOW_AUTO_PAD);
  a->kernel = base_attr_int_at(attrs, KERN_POOL_KERNEL, i, a->in);
  a->stride = base_attr_int_at(attrs, KERN_WINDOW_STRIDE, i, 1);
  a->dilation = base_attr_int_at(attrs, KERN_WINDOW_DILATION, i, 1);
  a->begin = base_attr_int_at(attrs, KERN_WINDOW_PADDING, i, 0);
  a->end = base_attr_int_at(attrs, KERN_WINDOW_PADDING, spatial + i, 0);
  if (!*same) return;
  int64_t pad = base_max_i64((a->out - 1) * a->stride + (a->kernel - 1) * a->dilation + 1 - a->in, 0);
  a->begin = strcmp(same, "same_upper") == 0 ? pad / 2 : pad - pad / 2;
  a->end = pad - a->begin;
}

void kern_pool_axes_of(const base_call *call, kern_pool_axis *axis) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  for (int32_t k = 0; k < KERN_POOL_AXES; k++) {
    const int32_t i = k - (KERN_POOL_AXES + 2 - x->rank);
    axis[k] = (kern_pool_axis){1, 1, 1, 1, 0, 0, 1};
    if (i < 0) continue;
    axis[k].in = x->dims[1 + i];
    axis[k].out = y->dims[1 + i];
    open_axis(call->attrs, i, x->rank - 2, &axis[k]);
  }
}

/* Elements of a window that lie in `room` elements of the input. A division takes as long as vectors of a window do. */
static int64_t elements_in(const kern_pool_axis *a, int64_t room) {
  return base_min_i64(a->kernel, a->dilation == 1 ? room : base_ceil_div(room, a->dilation));
}

kern_pool_span kern_pool_span_of(const kern_pool_axis *a, int64_t o) {
  const int64_t start = o * a->stride - a->begin, room = a->in - start;
  const int64_t first = start >= 0 ? 0 : elements_in(a, -start), last = room <= 0 ? 0 : elements_in(a, room);
  return (kern_pool_span){first, base_max_i64(first, last), start, elements_in(a, room + a->end)};
}

void kern_pool_tasks(const kern_pool_axis *a, int64_t rows, int64_t channels, uint32_t workers, int64_t *width,
                     int64_t *each) {
  const int64_t blocks = base_ceil_div(channels, *width), few = *width;
  *width = rows < FEW_ROWS ? few : MOST_CHANNELS;
  const int64_t parts = base_ceil_div(channels, *width);
  const double work = (double)a[0].kernel * (double)a[1].kernel * (double)a[2].kernel * (double)a[2].out *
                      (double)base_min_i64(channels, *width);
  const double least = (double)kern_task_size(KERN_POOL_TASK_ELEMENTS, workers);
  *each = base_min_i64(rows, base_max_i64(1, (int64_t)(least / fmax(work, 1)))); /* 0: an empty input */
  const int64_t cuts = base_ceil_div(rows, *each);
  if (rows >= 2 * (int64_t)workers || workers <= KERN_FEW_WORKERS) {
    const kern_cuts c = {.maps = parts, .size = rows, .tile = rows, .row = 4, .least = 1, .most = rows, .cuts = cuts};
    *each = base_ceil_div(rows, kern_even_cuts(&c, workers));
  } else {
    const kern_cuts c = {
        .maps = rows, .size = blocks, .tile = blocks, .row = 4, .least = 1, .most = blocks, .cuts = parts};
    *width = base_ceil_div(blocks, kern_even_cuts(&c, workers)) * few;
    *each = 1;
  }
}

/* ---- bytes ---- */

static void larger_u8(uint8_t *restrict to, const uint8_t *restrict from, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = to[i] > from[i] ? to[i] : from[i];
}

static void larger_i8(int8_t *restrict to, const int8_t *restrict from, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = to[i] > from[i] ? to[i] : from[i];
}

typedef struct bytes_pool {
  kern_pool_axis axis[KERN_POOL_AXES];
  int64_t channels;
  bool is_signed;
  uint8_t *maxima; /* of the rows that a row of the result sees */
} bytes_pool;

static void take_larger(const bytes_pool *p, uint8_t *to, const uint8_t *from, int64_t n) {
  if (p->is_signed) larger_i8((int8_t *)to, (const int8_t *)from, n);
  else larger_u8(to, from, n);
}

/* Row `row` of the result of an image. */
static void pool_row(const bytes_pool *p, const uint8_t *image, int64_t row, uint8_t *to) {
  const kern_pool_axis *a = p->axis;
  const kern_pool_span d = kern_pool_span_of(&a[0], row / a[1].out), h = kern_pool_span_of(&a[1], row % a[1].out);
  const int64_t line = a[2].in * p->channels, least = p->is_signed ? 128 : 0;
  memset(p->maxima, (int)least, (size_t)line);
  memset(to, (int)least, (size_t)(a[2].out * p->channels));
  for (int64_t i = d.first; i < d.last; i++)
    for (int64_t j = h.first; j < h.last; j++) {
      const int64_t at = (d.start + i * a[0].dilation) * a[1].in + h.start + j * a[1].dilation;
      take_larger(p, p->maxima, image + at * line, line);
    }
  for (int64_t o = 0; o < a[2].out; o++, to += p->channels) {
    const kern_pool_span v = kern_pool_span_of(&a[2], o);
    for (int64_t k = v.first; k < v.last; k++)
      take_larger(p, to, p->maxima + (v.start + k * a[2].dilation) * p->channels, p->channels);
  }
}

td_status kern_max_pool_8(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  bytes_pool p = {.channels = x->dims[x->rank - 1], .is_signed = x->dtype == TD_I8};
  kern_pool_axes_of(call, p.axis);
  const int64_t in_size = p.axis[0].in * p.axis[1].in * p.axis[2].in, rows = p.axis[0].out * p.axis[1].out;
  const int64_t tasks = base_tensor_numel(y) ? x->dims[0] * rows : 0;
  p.maxima = base_call_scratch(call, (size_t)(p.axis[2].in * p.channels), 1);
  if (!p.maxima) return base_no_memory(call->err, "scratch");
  for (int64_t t = base_call_first(call, tasks); t < tasks; t = base_call_next(call, t, tasks))
    pool_row(&p, (const uint8_t *)x->data + t / rows * in_size * p.channels, t % rows,
             (uint8_t *)y->data + t * p.axis[2].out * p.channels);
  return TD_OK;
}
