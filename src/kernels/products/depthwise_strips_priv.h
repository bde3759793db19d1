/* depthwise_strips_priv.h -- strips of a depthwise convolution: up to 14 output pixels of one row, over some channels.
 *
 * An input vector is loaded once and added to all the sums of the strip that it belongs to, while a tap row's weights
 * stay in registers. Input lines lie anywhere, each with a pointer of its own; pixels of the input, taps of the weights
 * and pixels of the output each have a pitch. Taps outside the image are left out by a bit mask of the strip's input
 * columns and by leaving out tap rows. Windows that no strip is made for, dilated ones, and few channels
 * have general strips, which load an input vector for each of its taps; away from the image's ends longer rows of taps
 * are cut into such that strips are made for. The last strip of a row, and the last vector of the channels, overlap
 * their neighbours instead of being short.
 *
 *     kern_epilogue rest;
 *     depthwise_part part = {
 *         .conv = &conv, .form = KERN_NAME(depthwise_form)(&conv), .x = ..., .ring = ..., .line = ...};
 *     part.strip = (depthwise_strip){.w = ..., .y = ..., .in_pitch = ...};
 *     KERN_NAME(depthwise_rows)(&part, row, end);
 *
 * Any sum is taken over its taps in order, those outside left out: bits depend on nothing else. */
#ifndef KERNELS_DEPTHWISE_STRIPS_PRIV_H
#define KERNELS_DEPTHWISE_STRIPS_PRIV_H
#include "kernels/products/conv.h"
#include "kernels/products/epilogue_priv.h"

typedef struct depthwise_strip {
  const float *const *lines; /* pixel 0 of the input line under each tap row inside the image */
  const float *w, *bias;     /* w: of the first tap; bias may be NULL */
  float *y;
  const float *const *w_rows; /* weights of each of those tap rows */
  int64_t rows;               /* tap rows inside the image */
  int64_t at;       /* floats from pixel 0 of a line to the first pixel's first tap: negative outside of the image */
  uint32_t columns; /* bit j: input column j of the strip is inside the image */
  const kern_conv_axis *across; /* general forms: the row of taps; bit i of inside[t]: pixel i's tap t is inside */
  const uint32_t *inside;
  bool whole;                           /* all of them */
  int64_t in_pitch, w_pitch, out_pitch; /* floats from pixel to pixel, tap to tap */
  int64_t channels;                     /* at least V_LANES; general forms take fewer */
  bool limited;                         /* what comes out is at least `low` and at most `high` */
  float low, high;
  const float *scale, *shift; /* by which it is then multiplied, and what is added to it; NULL: neither */
} depthwise_strip;

/* The strip's vectors but for the weights, from channel `c` on. */
V_TEMPLATE void depthwise_from_channel(depthwise_strip *s, int64_t c) {
  if (s->bias) s->bias += c;
  if (s->scale) s->scale += c;
  if (s->shift) s->shift += c;
}

typedef struct depthwise_form {
  uint8_t taps, stride, width; /* of a row of taps, 0: any, with any dilation; pixels of a strip */
  void (*run)(const depthwise_strip *s);
  /* Of general forms, where none of the row's taps lies outside: by strips made for `part` of them; 0: there is none.
   */
  uint8_t part;
  void (*run_parts)(const depthwise_strip *s);
} depthwise_form;
/* The strips that cover a row with the fewest pixels: those made for the window, or general ones; NULL: it is too
 * large.
 */
const depthwise_form *KERN_NAME(depthwise_form)(const kern_conv *c);

/* The range of taps that lie inside the image for output `o`. */
V_TEMPLATE void depthwise_inside(const kern_conv_axis *a, int64_t o, int64_t *first, int64_t *last) {
  int64_t start = o * a->stride - a->begin, before = base_max_i64(-start, 0), room = base_max_i64(a->in - start, 0);
  if (a->dilation > 1) { /* divisions cost as much as a strip of few channels */
    before = (before + a->dilation - 1) / a->dilation;
    room = (room + a->dilation - 1) / a->dilation;
  }
  *first = base_min_i64(before, a->kernel);
  *last = base_max_i64(*first, base_min_i64(room, a->kernel));
}

/* Some channels of one sample. */
typedef struct depthwise_part {
  const kern_conv *conv;
  const depthwise_form *form;
  depthwise_strip strip; /* w: of the first tap; y: of the sample's first pixel; what strips differ in: not set */
  const float *x;        /* line i of the input is the ((i - first) % ring)-th one here */
  int64_t first, ring;
  int64_t line;              /* floats from one to the next */
  const kern_epilogue *rest; /* of the sample's first pixel; NULL: what strips do is all */
  /* Rounds n floats to bf16, n even; each strip is made at strip.y then, and stored so from y_16 on, where the sample's
   * first pixel is. NULL: results are floats. */
  void (*narrow)(float *to, const float *from, int64_t n);
  uint16_t *y_16;
  int64_t pitch_16;
} depthwise_part;

/* What strips do of the epilogue in `rest`, which keeps the remainder; *last: its chain, for blocks of rows, as a call
 * for each strip would cost much of what the strip does. False: there is no remainder. */
V_TEMPLATE bool depthwise_take_epilogue(kern_epilogue *rest, depthwise_strip *s, kern_epilogue *last) {
  float limits[2];
  const bool active = rest->act != KERN_ACT_none, scaled = rest->scale || rest->shift;
  const bool whole = kern_epilogue_cheap(rest, limits) && !rest->residual && !(scaled && active && rest->late);
  s->limited = whole && active;
  s->low = s->limited ? limits[0] : -INFINITY;
  s->high = s->limited ? limits[1] : INFINITY;
  s->bias = rest->bias;
  s->scale = whole ? rest->scale : NULL;
  s->shift = whole ? rest->shift : NULL;
  *last = (kern_epilogue){.act = KERN_ACT_none, .chain = rest->chain, .row_step = 1};
  rest->bias = NULL;
  rest->chain = NULL;
  return !whole;
}
/* The chain on output rows [row, end) of a sample's channels from `channel` on, as many as p has. */
V_TEMPLATE void depthwise_finish(const kern_epilogue *last, const depthwise_part *p, int64_t sample, int64_t row,
                                 int64_t end, int64_t channel) {
  const kern_conv *c = p->conv;
  const int64_t first = row * c->axis[2].out, pixels = end * c->axis[2].out - first;
  if (!last->chain || pixels <= 0) return;
  const kern_epilogue at = kern_epilogue_at(last, sample * c->out_size + first, channel);
  kern_epilogue_chain(&at, p->strip.y + first * p->strip.out_pitch, p->strip.out_pitch, pixels, p->strip.channels);
}
/* Fetches the weights of `channels` channels, whose lines are too far from each other for the hardware prefetcher. */
V_TEMPLATE void depthwise_fetch(const float *w, int64_t taps, int64_t pitch, int64_t channels) {
  for (int64_t t = 0; t < taps; t++, w += pitch)
    for (int64_t c = 0; c < channels; c += 16) __builtin_prefetch(w + c);
}
/* Output rows [row, end), planes merged. */
void KERN_NAME(depthwise_rows)(const depthwise_part *p, int64_t row, int64_t end);
/* td::depthwise_conv; x, the result or both are bf16 where there is `narrow`, as a depthwise_part has it. */
td_status KERN_NAME(depthwise_by)(const base_call *call, void (*narrow)(float *to, const float *from, int64_t n));
#endif
