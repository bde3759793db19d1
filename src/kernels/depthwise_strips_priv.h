/* depthwise_strips_priv.h -- strips of a depthwise convolution: up to 8 output pixels of one row, over some channels.
 *
 * An input vector is loaded once and added to all the sums of the strip that it belongs to, while a tap row's weights
 * stay in registers. Input lines lie anywhere, each with a pointer of its own; pixels of the input, taps of the weights
 * and pixels of the output each have a pitch. Taps outside the image are left out by a bit mask of the strip's input
 * columns and by leaving out tap rows. The last strip of a row, and the last vector of the channels, overlap their
 * neighbours instead of being short.
 *
 *     const depthwise_form *form = KERN_NAME(depthwise_form)(&conv);
 *     depthwise_strip s = {.lines = ..., .w = ..., .rows = ..., ...};
 *     depthwise_set_columns(&s, form, &conv.axis[2], o);
 *     form->run(&s);
 *
 * Any sum is taken over its taps in order, those outside left out: bits depend on nothing else. */
#ifndef KERNELS_DEPTHWISE_STRIPS_PRIV_H
#define KERNELS_DEPTHWISE_STRIPS_PRIV_H
#include "kernels/conv.h"
#include "kernels/simd_priv.h"

/* Of a window that has a form. */
enum { DEPTHWISE_MAX_ROWS = 16 };

typedef struct depthwise_strip {
  const float *const *lines; /* pixel 0 of the input line under each tap row inside the image */
  const float *w, *bias;     /* w: of the first of those tap rows; bias may be NULL */
  float *y;
  int64_t rows;     /* tap rows inside the image */
  int64_t at;       /* floats from pixel 0 of a line to the first pixel's first tap: negative outside of the image */
  uint32_t columns; /* bit j: input column j of the strip is inside the image */
  int64_t in_pitch, w_pitch, out_pitch; /* floats from pixel to pixel, tap to tap */
  int64_t channels;                     /* at least V_LANES */
  bool limited;                         /* what comes out is at least `low` and at most `high` */
  float low, high;
} depthwise_strip;

typedef struct depthwise_form {
  uint8_t taps, stride, width; /* of a row of taps; pixels of a strip */
  void (*run)(const depthwise_strip *s);
} depthwise_form;
/* The strips that cover a row with the fewest pixels; NULL: there are none for this window, or too few channels. */
const depthwise_form *KERN_NAME(depthwise_form)(const kern_conv *c);

/* The range of taps that lie inside the image for output `o`. */
V_INLINE void depthwise_inside(const kern_conv_axis *a, int64_t o, int64_t *first, int64_t *last) {
  int64_t start = o * a->stride - a->begin, room = a->in - start;
  *first = start >= 0 ? 0 : base_min_i64((-start + a->dilation - 1) / a->dilation, a->kernel);
  *last = room <= 0 ? 0 : base_min_i64((room + a->dilation - 1) / a->dilation, a->kernel);
  *last = base_max_i64(*first, *last);
}

/* Sets what depends on the strip's first output column `o`; needs in_pitch. */
V_INLINE void depthwise_set_columns(depthwise_strip *s, const depthwise_form *form, const kern_conv_axis *v,
                                    int64_t o) {
  int64_t start = o * v->stride - v->begin, count = (form->width - 1) * form->stride + form->taps;
  int64_t first = base_min_i64(base_max_i64(-start, 0), count);
  int64_t last = base_min_i64(base_max_i64(v->in - start, first), count);
  s->at = start * s->in_pitch;
  s->columns = (uint32_t)((1u << last) - (1u << first));
}
#endif
