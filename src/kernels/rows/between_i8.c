/* between_i8.c -- td::add_i8, td::mul_i8, td::avg_pool_i8: what no level has a part in. */
#include "kernels/rows/rows.h"
#include "kernels/loops/elementwise_priv.h"
#include "kernels/tasks_priv.h"

#include <string.h>

enum { TASK = 1 << 15 /* elements */, MOST_WINDOW = 1 << 23 /* elements whose sum i32 holds */ };

static uint8_t flip_of(const base_tensor *t) { return t->dtype == TD_I8 ? 128 : 0; }

/* ---- sums and products ---- */

kern_binary_i8 kern_binary_i8_of(const base_call *call, bool adds) {
  static const uint32_t scale[] = {KERN_BINARY_A_SCALE, KERN_BINARY_B_SCALE};
  const base_attrs *a = call->attrs;
  const float y_scale = (float)base_attr_float(a, KERN_BINARY_Y_SCALE);
  kern_binary_i8 b = {.adds = adds,
                      .y_flip = flip_of(base_out(call, 0)),
                      .y_zero = (int)base_attr_int(a, KERN_BINARY_Y_ZERO),
                      .least = (int)base_attr_int(a, KERN_BINARY_LEAST),
                      .most = (int)base_attr_int(a, KERN_BINARY_MOST)};
  for (uint32_t k = 0; k < 2; k++) {
    b.flip[k] = flip_of(base_in(call, k));
    b.zero[k] = (float)base_attr_int(a, scale[k] + 1);
    b.by[k] = (float)base_attr_float(a, scale[k]);
  }
  if (!adds) b.by[0] *= b.by[1];
  b.by[0] /= y_scale;
  b.by[1] /= y_scale;
  return b;
}

typedef struct job {
  const base_call *call;
  kern_binary_i8 b;
  elementwise_space at;
  kern_binary_i8_row row;
} job;

static void run_rows(const job *j, int64_t plane, int64_t first, int64_t end) {
  const int64_t n = j->at.length;
  uint8_t *to = (uint8_t *)base_out(j->call, 0)->data + (plane * j->at.rows + first) * n, spread[2][KERN_BETWEEN_MOST];
  int64_t offset[ELEMENTWISE_OPERANDS];
  kern_elementwise_offsets(&j->at, 2, plane, first, offset);
  for (int64_t r = first; r < end; r++, to += n) {
    const uint8_t *in[2];
    for (uint32_t k = 0; k < 2; k++) {
      in[k] = (const uint8_t *)base_in(j->call, k)->data + offset[k];
      offset[k] += j->at.pitch[k];
      if (j->at.step[k]) continue;
      memset(spread[k], *in[k], sizeof spread[k]);
      in[k] = spread[k];
    }
    j->row(&j->b, in, j->at.step, n, to);
  }
}

td_status kern_run_binary_i8(const base_call *call, bool adds, kern_binary_i8_row row) {
  job j = {.call = call, .b = kern_binary_i8_of(call, adds), .row = row};
  kern_elementwise_space(call, 2, &j.at);
  const int64_t all = j.at.length ? j.at.planes * j.at.rows : 0;
  const int64_t each = base_max_i64(1, TASK / base_max_i64(j.at.length, 1)), tasks = (all + each - 1) / each;
  for (int64_t t = base_call_first(call, tasks); t < tasks; t = base_call_next(call, t, tasks))
    for (int64_t at = t * each, end = base_min_i64(all, at + each), last; at < end; at = last) {
      const int64_t plane = at / j.at.rows, first = plane * j.at.rows;
      last = base_min_i64(end, first + j.at.rows);
      run_rows(&j, plane, at - first, last - first);
    }
  return TD_OK;
}

/* ---- means over windows ---- */

kern_mean_i8 kern_mean_i8_of(const base_call *call) {
  const base_attrs *a = call->attrs;
  const base_tensor *x = base_in(call, 0);
  return (kern_mean_i8){.channels = x->dims[x->rank - 1],
                        .flip = flip_of(x),
                        .y_flip = flip_of(base_out(call, 0)),
                        .zero = (int)base_attr_int(a, KERN_AVG_X_ZERO),
                        .y_zero = (int)base_attr_int(a, KERN_AVG_Y_ZERO),
                        .x_scale = (float)base_attr_float(a, KERN_AVG_X_SCALE),
                        .y_scale = (float)base_attr_float(a, KERN_AVG_Y_SCALE),
                        .count_padding = base_attr_int(a, KERN_POOL_OWN) != 0};
}

float kern_mean_i8_by(const kern_mean_i8 *m, int64_t count) {
  return m->x_scale / (m->y_scale * (float)base_max_i64(count, 1));
}

td_status kern_run_mean_i8(const base_call *call, int64_t width, kern_mean_i8_pixel pixel) {
  kern_mean_i8 m = kern_mean_i8_of(call);
  kern_pool_axes_of(call, m.axis);
  const kern_pool_axis *a = m.axis;
  const int64_t rows = a[0].out * a[1].out, all = base_in(call, 0)->dims[0] * rows;
  const int64_t blocks = base_ceil_div(m.channels, width), image = a[0].in * a[1].in * a[2].in * m.channels;
  /* Channels are parted where rows are fewer than workers need. */
  const int64_t parts = base_min_i64(blocks, base_ceil_div(kern_tasks_wanted(call->workers), base_max_i64(all, 1)));
  const int64_t tasks = all * parts;
  if (base_min_i64(a[0].kernel, a[0].in) * base_min_i64(a[1].kernel, a[1].in) * base_min_i64(a[2].kernel, a[2].in) >
      MOST_WINDOW)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::avg_pool_i8: the window is too large");
  for (int64_t t = base_call_first(call, tasks); t < tasks; t = base_call_next(call, t, tasks)) {
    const int64_t at = t / parts, row = at % rows, part = t % parts;
    const int64_t c = blocks * part / parts * width;
    const int64_t n = base_min_i64(m.channels, blocks * (part + 1) / parts * width) - c;
    kern_pool_span s[] = {kern_pool_span_of(&a[0], row / a[1].out), kern_pool_span_of(&a[1], row % a[1].out), {0}};
    const uint8_t *from = (const uint8_t *)base_in(call, 0)->data + at / rows * image + c;
    uint8_t *to = (uint8_t *)base_out(call, 0)->data + at * a[2].out * m.channels + c;
    for (int64_t o = 0; o < a[2].out; o++, to += m.channels) {
      s[2] = kern_pool_span_of(&a[2], o);
      pixel(&m, from, s, n, to);
    }
  }
  return TD_OK;
}
