/* conv_image.c -- the pointers of conv_image_priv.h. */
#include "kernels/products/conv_image_priv.h"

#include <string.h>

/* Elements of a window: two panels of weights for it stay in the first-level cache. Windows of a row: fewer, as of
 * patches, leave tiles half empty. */
enum { MOST_DEPTH = 192, LEAST_WIDTH = 16 };

bool kern_conv_image_fits(const kern_conv *c) {
  const kern_conv_axis *d = &c->axis[0], *h = &c->axis[1], *v = &c->axis[2];
  int64_t behind = (v->out - 1) * v->stride - v->begin + v->kernel - v->in;
  return c->channels_first && c->groups == 1 && d->in == 1 && d->out == 1 && d->kernel == 1 && d->begin == 0 &&
         h->dilation == 1 && v->dilation == 1 && v->begin <= v->kernel && behind <= v->kernel &&
         v->out >= LEAST_WIDTH && c->taps <= MOST_DEPTH && c->group_in <= MOST_DEPTH &&
         c->taps * c->group_in <= MOST_DEPTH;
}

td_status kern_conv_image_of(const base_call *call, const kern_conv *c, kern_conv_image *image) {
  const base_tensor *x = base_in(call, 0);
  const kern_conv_axis *v = &c->axis[2];
  *image = (kern_conv_image){.conv = c,
                             .x = x->data,
                             .sample = x->strides[0],
                             .plane = x->strides[1],
                             .line = x->strides[2],
                             .length = (v->out - 1) * v->stride + v->kernel,
                             .at_sample = -1};
  image->copied = v->begin > 0 || image->length - v->begin > v->in;
  size_t length = (size_t)image->length, lines = image->copied ? (size_t)(c->axis[1].kernel * c->group_in) : 0;
  image->row = base_call_scratch(call, (size_t)(c->taps * c->group_in), sizeof *image->row);
  image->zeros = base_call_scratch(call, length, sizeof(float));
  image->ring = base_call_scratch(call, lines, length * sizeof(float));
  if (!image->row || !image->zeros || !image->ring) return base_no_memory(call->err, "scratch");
  memset(image->zeros, 0, length * sizeof(float));
  memset(image->ring, 0, lines * length * sizeof(float)); /* copies leave the zeros around them alone */
  return TD_OK;
}

static float *slot(const kern_conv_image *image, int64_t line, int64_t channel) {
  const kern_conv *c = image->conv;
  return image->ring + (line % c->axis[1].kernel * c->group_in + channel) * image->length;
}

/* Lines [first, last) of the sample into the ring, but for those that are there. */
static void copy_lines(kern_conv_image *image, int64_t sample, int64_t first, int64_t last) {
  const kern_conv_axis *v = &image->conv->axis[2];
  int64_t from = base_max_i64(-v->begin, 0), to = base_max_i64(v->begin, 0);
  int64_t count = base_min_i64(v->in - from, image->length - to);
  for (int64_t line = base_max_i64(first, image->made); line < last && count > 0; line++)
    for (int64_t channel = 0; channel < image->conv->group_in; channel++)
      memcpy(slot(image, line, channel) + to,
             image->x + (sample * image->sample + channel * image->plane + line * image->line + from),
             (size_t)count * sizeof(float));
  image->made = base_max_i64(last, image->made);
}

void kern_conv_image_row(kern_conv_image *image, int64_t sample, int64_t row) {
  const kern_conv *c = image->conv;
  const kern_conv_axis *h = &c->axis[1], *v = &c->axis[2];
  int64_t top = row * h->stride - h->begin, end = base_min_i64(top + h->kernel, h->in);
  if (sample != image->at_sample || row < image->at_row) image->made = 0;
  image->at_sample = sample;
  image->at_row = row;
  if (image->copied) copy_lines(image, sample, base_max_i64(top, 0), end);
  const float **to = image->row;
  for (int64_t y = top; y < top + h->kernel; y++)
    for (int64_t tap = 0; tap < v->kernel; tap++)
      for (int64_t channel = 0; channel < c->group_in; channel++) {
        const float *plane = image->x + (sample * image->sample + channel * image->plane);
        const float *line = y < 0 || y >= h->in ? image->zeros
                            : image->copied     ? slot(image, y, channel)
                                                : plane + (y * image->line - v->begin);
        *to++ = line + tap;
      }
}
