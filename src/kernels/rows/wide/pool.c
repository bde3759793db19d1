/* pool.c -- KERN_MAX_POOL, KERN_AVG_POOL: windows over [N, spatial..., C], vectors along C; KERN_PLANE_MEAN: the mean
 * of each plane of [N, C, spatial...]. A window's elements are taken in row-major order, whatever the channel. A task
 * is some rows of the output, or of a row some of its channels. */
#include "kernels/simd/simd_priv.h"

#include "base/size.h"
#include "kernels/rows/rows.h"
#include "kernels/tasks_priv.h"

enum { BLOCK = 4, MOST = 8 }; /* vectors of channels at a time */
enum { MANY_CHANNELS = 256 }; /* pixels so wide are no stream: the more lines of each at a time, the better */

typedef struct pool {
  kern_pool_axis axis[KERN_POOL_AXES];
  const float *x;
  float *y;
  int64_t batch, channels, in_size;
  bool count_padding;
  int64_t inside, outside; /* along the last axis: windows in between lie in the image */
} pool;

static pool open_pool(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  pool p = {.x = x->data,
            .y = y->data,
            .batch = x->dims[0],
            .channels = x->dims[x->rank - 1],
            .in_size = 1,
            .count_padding = base_attr_int(call->attrs, KERN_POOL_OWN) != 0};
  kern_pool_axes_of(call, p.axis);
  for (int32_t k = 0; k < KERN_POOL_AXES; k++) p.in_size *= p.axis[k].in;
  const kern_pool_axis *v = &p.axis[KERN_POOL_AXES - 1];
  const int64_t room = v->in + v->begin - (v->kernel - 1) * v->dilation - 1;
  p.inside = base_max_i64(base_min_i64((v->begin + v->stride - 1) / v->stride, v->out), 0);
  p.outside = base_max_i64(room < 0 ? 0 : base_min_i64(room / v->stride + 1, v->out), p.inside);
  return p;
}

/* ---- windows ---- */

/* What is kept of the elements so far: the larger one, NaN above all; or their sum. */
V_TEMPLATE vf larger(vf best, vf x) { return v_select(v_eq(x, x), v_max(x, best), x); }
V_TEMPLATE vf sum(vf total, vf x) { return v_add(total, x); }

typedef struct window {
  const float *at; /* the image's element 0 of the first channel */
  kern_pool_span span[KERN_POOL_AXES];
} window;

/* Vectors, `lanes` lanes of each, so many floats apart: channels of a window, or of windows beside each other. */
typedef struct block {
  int64_t lanes, apart, to_apart;
} block;

V_TEMPLATE void reduce(int vectors, block b, const pool *p, const window *w, bool mean, vf *acc) {
  const kern_pool_span *d = &w->span[0], *h = &w->span[1], *v = &w->span[2];
  int64_t step = p->axis[2].dilation * p->channels;
  for (int64_t i = d->first; i < d->last; i++) {
    int64_t plane = (d->start + i * p->axis[0].dilation) * p->axis[1].in;
    for (int64_t j = h->first; j < h->last; j++) {
      int64_t row = (plane + h->start + j * p->axis[1].dilation) * p->axis[2].in + v->start;
      const float *at = w->at + row * p->channels + v->first * step;
      for (int64_t k = v->first; k < v->last; k++, at += step) {
        V_UNROLL
        for (int u = 0; u < vectors; u++) {
          const float *from = at + u * b.apart;
          vf x = b.lanes == V_LANES ? v_load(from) : v_load_n(from, b.lanes);
          acc[u] = mean ? sum(acc[u], x) : larger(acc[u], x);
        }
      }
    }
  }
}

V_TEMPLATE void pool_block(int vectors, block b, const pool *p, const window *w, bool mean, float divisor, float *to) {
  vf acc[MOST], divide = v_set(divisor), inverse = v_set(1 / divisor);
  uint32_t bits;
  memcpy(&bits, &divisor, sizeof bits);
  const bool exact = (bits & 0x007fffff) == 0; /* a power of 2: the product is the quotient */
  V_UNROLL
  for (int u = 0; u < vectors; u++) acc[u] = mean ? v_zero() : v_set(-INFINITY);
  reduce(vectors, b, p, w, mean, acc);
  V_UNROLL
  for (int u = 0; u < vectors; u++) {
    vf value = !mean ? acc[u] : exact ? v_mul(acc[u], inverse) : v_div(acc[u], divide);
    if (b.lanes == V_LANES) v_store(to + u * b.to_apart, value);
    else v_store_n(to + u * b.to_apart, value, b.lanes);
  }
}

/* So many vectors at a time of channels [c, last), as long as there are as many: the first that is left. */
V_TEMPLATE int64_t pool_blocks(int vectors, const pool *p, window *w, bool mean, float divisor, int64_t c, int64_t last,
                               float *to) {
  for (const float *image = w->at - c; c + vectors * V_LANES <= last; c += vectors * V_LANES) {
    pool_block(vectors, (block){V_LANES, V_LANES, V_LANES}, p, w, mean, divisor, to + c);
    w->at = image + c + vectors * V_LANES;
  }
  return c;
}

/* Elements of the window by which a mean divides. */
static float count_of(const pool *p, const window *w) {
  double count = 1;
  for (int i = 0; i < KERN_POOL_AXES; i++)
    count *= (double)(p->count_padding ? w->span[i].reach : w->span[i].last - w->span[i].first);
  return (float)count;
}

/* Channels [first, last) of one output pixel. */
V_TEMPLATE void pool_pixel(const pool *p, window *w, bool mean, int64_t first, int64_t last, float *to) {
  const float *image = w->at, count = count_of(p, w);
  int64_t c = first;
  w->at += c;
  if (mean && p->channels >= MANY_CHANNELS) c = pool_blocks(MOST, p, w, mean, count, c, last, to);
  c = pool_blocks(BLOCK, p, w, mean, count, c, last, to);
  c = pool_blocks(2, p, w, mean, count, c, last, to);
  c = pool_blocks(1, p, w, mean, count, c, last, to);
  if (c < last) pool_block(1, (block){last - c, V_LANES, V_LANES}, p, w, mean, count, to + c);
  w->at = image;
}

/* The same of BLOCK output pixels beside each other, whose windows differ in their place alone. */
V_TEMPLATE void pool_pixels(const pool *p, window *w, bool mean, int64_t first, int64_t last, float *to) {
  const float *image = w->at, count = count_of(p, w);
  block b = {V_LANES, p->axis[2].stride * p->channels, p->channels};
  int64_t c = first;
  for (; c + V_LANES <= last; c += V_LANES) {
    w->at = image + c;
    pool_block(BLOCK, b, p, w, mean, count, to + c);
  }
  b.lanes = last - c;
  w->at = image + c;
  if (c < last) pool_block(BLOCK, b, p, w, mean, count, to + c);
  w->at = image;
}

/* Output row `row` of all rows of the batch. */
V_TEMPLATE void pool_row(const pool *p, bool mean, int64_t row, int64_t first, int64_t last) {
  const kern_pool_axis *d = &p->axis[0], *h = &p->axis[1], *v = &p->axis[2];
  int64_t plane = row / h->out;
  window w = {.at = p->x + plane / d->out * p->in_size * p->channels,
              .span = {kern_pool_span_of(d, plane % d->out), kern_pool_span_of(h, row % h->out)}};
  float *to = p->y + row * v->out * p->channels;
  const int64_t several = last - first < BLOCK * V_LANES ? (p->outside - p->inside) / BLOCK * BLOCK : 0;
  for (int64_t o = 0; o < v->out; o++) {
    if (o == p->inside && several) {
      w.span[2] = kern_pool_span_of(v, o);
      for (; o < p->inside + several; o += BLOCK, w.span[2].start += BLOCK * v->stride)
        pool_pixels(p, &w, mean, first, last, to + o * p->channels);
    }
    if (o == v->out) break;
    w.span[2] = kern_pool_span_of(v, o);
    pool_pixel(p, &w, mean, first, last, to + o * p->channels);
  }
}

V_TEMPLATE td_status run(const base_call *call, bool mean) {
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  const pool p = open_pool(call);
  const int64_t rows = p.batch * p.axis[0].out * p.axis[1].out;
  int64_t width = MOST * V_LANES, each;
  kern_pool_tasks(p.axis, rows, p.channels, call->workers, &width, &each);
  const int64_t parts = base_ceil_div(p.channels, width), tasks = base_ceil_div(rows, each) * parts;
  for (int64_t t = base_call_first(call, tasks); t < tasks; t = base_call_next(call, t, tasks)) {
    int64_t part = t % parts * width, row = t / parts * each;
    for (int64_t end = base_min_i64(row + each, rows); row < end; row++)
      pool_row(&p, mean, row, part, base_min_i64(part + width, p.channels));
  }
  return TD_OK;
}

td_status KERN_NAME(max_pool)(const base_call *call) { return run(call, false); }
td_status KERN_NAME(avg_pool)(const base_call *call) { return run(call, true); }

/* ---- planes ---- */

static float plane_sum(const float *x, int64_t count) {
  vf acc[BLOCK] = {v_zero(), v_zero(), v_zero(), v_zero()};
  int64_t i = 0;
  for (; i + BLOCK * V_LANES <= count; i += BLOCK * V_LANES) {
    V_UNROLL
    for (int u = 0; u < BLOCK; u++) acc[u] = v_add(acc[u], v_load(x + i + u * V_LANES));
  }
  for (; i < count; i += V_LANES) acc[0] = v_add(acc[0], v_load_n(x + i, base_min_i64(V_LANES, count - i)));
  return v_sum(v_add(v_add(acc[0], acc[1]), v_add(acc[2], acc[3])));
}

td_status KERN_NAME(plane_mean)(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  const float *from = x->data;
  float *to = base_out(call, 0)->data;
  int64_t planes = x->dims[0] * x->dims[1];
  if (planes == 0) return TD_OK;
  int64_t size = base_tensor_numel(x) / planes;
  int64_t each = base_min_i64(
      planes, base_max_i64(1, kern_task_size(KERN_POOL_TASK_ELEMENTS, call->workers) / base_max_i64(size, 1)));
  int64_t tasks = (planes + each - 1) / each;
  for (int64_t t = base_call_first(call, tasks); t < tasks; t = base_call_next(call, t, tasks))
    for (int64_t i = t * each; i < base_min_i64((t + 1) * each, planes); i++)
      to[i] = plane_sum(from + i * size, size) / (float)size;
  return TD_OK;
}
