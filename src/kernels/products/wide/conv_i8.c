/* conv_i8.c -- KERN_CONV_I8: td::conv_i8 by dot instructions. Windows of one pixel are rows of a matrix; others are
 * read from an image that has what lies beside x around. */
#include "kernels/products/wide/bytes_image_priv.h"

enum { COPY_CYCLES = 4, COPY_BYTES = 32 }; /* of a copy, beside one for each so many bytes; about */

static bool sees_own_pixel(const kern_conv *c) {
  bool own = c->groups == 1;
  for (int32_t i = 0; i < KERN_CONV_AXES; i++)
    own &= c->axis[i].kernel == 1 && c->axis[i].stride == 1 && c->axis[i].begin == 0 && c->axis[i].in == c->axis[i].out;
  return own;
}

/* Each output pixel had better have pixels of its own: shared ones are copied once, but tiles run over what windows
 * have more than a line of output. In cycles of an output pixel, two dot instructions in each. */
static bool should_gather(const bytes_image *p) {
  const kern_conv *c = &p->image.c;
  const kern_conv_axis *y = &c->axis[1], *x = &c->axis[2];
  if (must_gather(x)) return true;
  const double beside = (double)((x->kernel - 1) / x->stride) / (double)x->out;
  const double dots = (double)(p->i8.l.group_panels * p->i8.l.steps) / 2 * beside;
  const double channels = (double)c->group_in / COPY_BYTES, kernel = (double)x->kernel, stride = (double)x->stride;
  const double own = c->groups == 1 ? COPY_CYCLES + kernel * channels : kernel * (COPY_CYCLES + channels);
  const double shared = stride * (c->groups == 1 ? channels : COPY_CYCLES + channels);
  return dots > (double)y->stride * (own - shared);
}

td_status KERN_PART_NAME(conv_i8)(const base_call *call) {
  bytes_image p = {.i8 = product_of(call), .image.multiply = KERN_PART_NAME(i8_tiles)};
  const kern_conv *c = &p.image.c;
  bool depthwise;
  TRY(kern_conv_sizes(call, &p.image.c));
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(layout_window(c, &p.i8, &depthwise));
  TRY(find_scales(&p, !depthwise && sees_own_pixel(c)));
  if (depthwise) return KERN_PART_NAME(i8_depthwise)(&p.i8, c, p.i8.type == TD_I8 ? 128 : 0);
  if (sees_own_pixel(c)) {
    p.i8.m = c->batch * c->out_size;
    p.i8.x_pitch = c->group_in;
    return KERN_PART_NAME(i8_multiply)(&p.i8);
  }
  p.image.gathered = should_gather(&p);
  return multiply_image(call, &p, false);
}
