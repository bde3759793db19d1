/* conv_i8.c -- KERN_CONV_I8: td::conv_i8. The elements that a pixel of the result is made of are gathered, tap by tap;
 * where a window lies in an image as a run of memory, a row of it at once. What lies beside the image is x_zero. */
#include "kernels/conv.h"
#include "kernels/product_i8_priv.h"

typedef struct i8_window {
  kern_conv c;
  int64_t pixel; /* elements of one of x */
  uint8_t flip;  /* i8_copy */
  bool runs;     /* taps along the last axis are side by side */
} i8_window;

/* Taps of the last axis, of a row of the image that starts at `row` (NULL: beside it), for output `o`. */
V_INLINE void gather_taps(const i8_product *p, const i8_window *w, const uint8_t *row, int64_t o, byte_x *to) {
  const kern_conv_axis *a = &w->c.axis[KERN_CONV_AXES - 1];
  const int64_t first = o * a->stride - a->begin, channels = w->c.group_in, run = a->kernel * channels;
  if (row && w->runs && first >= 0 && first + a->kernel <= a->in) {
    KERN_PART_NAME(i8_copy)(w->flip, row + first * w->pixel, run, to);
    return;
  }
  for (int64_t tap = 0; tap < a->kernel; tap++, to += channels) {
    const int64_t i = first + tap * a->dilation;
    if (row && i >= 0 && i < a->in) KERN_PART_NAME(i8_copy)(w->flip, row + i * w->pixel, channels, to);
    else
      for (int64_t k = 0; k < channels; k++) to[k] = (byte_x)p->s.x_zero;
  }
}

/* Runs of `run` elements, at most B_COPIED, that lie in the image, one for each of `count` pixels. */
static void gather_runs(const i8_window *w, const uint8_t *from, int64_t run, int64_t count, int64_t pitch,
                        byte_x *to) {
  const int64_t step = w->c.axis[KERN_CONV_AXES - 1].stride * w->pixel;
  if (run <= 16) /* which b_copy tells from longer ones */
    for (int64_t i = 0; i < count; i++) b_copy(to + i * pitch, from + i * step, w->flip, run);
  else
    for (int64_t i = 0; i < count; i++) b_copy(to + i * pitch, from + i * step, w->flip, run);
}

/* Taps of a row as above for outputs [o, o + count). */
static void gather_outputs(const i8_product *p, const i8_window *w, const uint8_t *row, int64_t o, int64_t count,
                           int64_t pitch, byte_x *to) {
  const kern_conv_axis *a = &w->c.axis[KERN_CONV_AXES - 1];
  const int64_t run = a->kernel * w->c.group_in, space = a->in - a->kernel + a->begin;
  const bool runs = row && w->runs && run > 0 && run <= B_COPIED && space >= 0;
  /* outputs [first, last) whose window lies in the image */
  const int64_t first = runs ? base_max_i64(o, base_ceil_div(a->begin, a->stride)) : o + count;
  const int64_t last = runs ? base_min_i64(o + count, space / a->stride + 1) : o + count;
  int64_t i = o;
  for (; i < base_min_i64(first, o + count); i++) gather_taps(p, w, row, i, to + (i - o) * pitch);
  if (i < last) {
    gather_runs(w, row + (i * a->stride - a->begin) * w->pixel, run, last - i, pitch, to + (i - o) * pitch);
    i = last;
  }
  for (; i < o + count; i++) gather_taps(p, w, row, i, to + (i - o) * pitch);
}

/* `count` pixels side by side in one row of the result, from `pixel` on, `pitch` apart: a row of taps at a time. */
static void gather_row(const i8_product *p, const i8_window *w, const uint8_t *image, int64_t pixel, int64_t count,
                       int64_t pitch, byte_x *to) {
  const kern_conv_axis *a = w->c.axis;
  const int64_t o2 = pixel % a[2].out, o1 = pixel / a[2].out % a[1].out, o0 = pixel / a[2].out / a[1].out;
  for (int64_t r = 0; r < a[0].kernel * a[1].kernel; r++, to += a[2].kernel * w->c.group_in) {
    const int64_t i0 = o0 * a[0].stride - a[0].begin + r / a[1].kernel * a[0].dilation;
    const int64_t i1 = o1 * a[1].stride - a[1].begin + r % a[1].kernel * a[1].dilation;
    const bool inside = i0 >= 0 && i0 < a[0].in && i1 >= 0 && i1 < a[1].in;
    const uint8_t *row = inside ? image + (i0 * a[1].in + i1) * a[2].in * w->pixel : NULL;
    gather_outputs(p, w, row, o2, count, pitch, to);
  }
}

static void gather(const i8_product *p, int64_t group, int64_t first, int64_t count, byte_x *to) {
  const i8_window *w = p->user;
  const int64_t pitch = p->l.steps * BYTES_DEPTH, width = w->c.axis[KERN_CONV_AXES - 1].out;
  for (int64_t i = first, n; i < first + count; i += n, to += n * pitch) {
    const int64_t image = i / w->c.out_size * w->c.in_size * w->pixel + group * w->c.group_in;
    n = base_min_i64(width - i % width, first + count - i);
    for (int64_t k = 0; k < n * pitch; k += pitch)
      for (int64_t rest = p->l.k; rest < pitch; rest++) to[k + rest] = 0;
    gather_row(p, w, (const uint8_t *)p->x + image, i % w->c.out_size, n, pitch, to);
  }
}

static bool sees_own_pixel(const kern_conv *c) {
  bool own = c->groups == 1;
  for (int32_t i = 0; i < KERN_CONV_AXES; i++)
    own &= c->axis[i].kernel == 1 && c->axis[i].stride == 1 && c->axis[i].begin == 0 && c->axis[i].in == c->axis[i].out;
  return own;
}

td_status KERN_PART_NAME(conv_i8)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  bool depthwise;
  i8_window w;
  TRY(kern_conv_sizes(call, &w.c));
  w.pixel = w.c.groups * w.c.group_in;
  w.flip = x->dtype == TD_I8 ? 128 : 0;
  w.runs = w.c.groups == 1 && w.c.axis[KERN_CONV_AXES - 1].dilation == 1;
  i8_product p = {.call = call,
                  .s = kern_i8_scales_of(call->attrs),
                  .w = base_in(call, 1)->data,
                  .m = w.c.batch * w.c.out_size,
                  .gather = gather,
                  .user = &w,
                  .x = x->data,
                  .x_pitch = w.pixel,
                  .out_pitch = kern_pitch(out)};
  if (base_tensor_numel(out) == 0) return TD_OK;
  const kern_i8_window sizes = kern_i8_window_of(&w.c);
  if (!kern_i8_window_layout(&sizes, p.s.panel, p.s.depth, &p.l, &depthwise))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::conv_i8: the window is too large");
  if (depthwise) return KERN_PART_NAME(i8_depthwise)(&p, &w.c, w.flip);
  const bool lies =
      sees_own_pixel(&w.c) && x->dtype == TD_U8 && sizeof(byte_x) == 1 && p.l.k == p.l.steps * BYTES_DEPTH;
  if (lies) p.gather = NULL;
  return KERN_PART_NAME(i8_multiply)(&p);
}
