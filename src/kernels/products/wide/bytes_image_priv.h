/* bytes_image_priv.h -- convolutions of bytes as products of an image (image_product_priv.h): runs are rows of taps,
 * which lie side by side in x. Where they do not, or where that takes less time, each output pixel has its own. */
#ifndef KERNELS_BYTES_IMAGE_PRIV_H
#define KERNELS_BYTES_IMAGE_PRIV_H
#include "kernels/products/image_product_priv.h"
#include "kernels/products/product_i8_priv.h"

typedef struct bytes_image {
  image_product image; /* the first, so that its functions know the others */
  i8_product i8;
  i8_finish f;
  uint8_t flip; /* i8_copy */
} bytes_image;

enum { PLANE_PIECE = 256, THREE = 3 }; /* pixels that are quantised at once; channels of a picture */

static void fill(const bytes_image *p, int64_t n, byte_x *to) {
  const byte_x zero = (byte_x)p->i8.s.x_zero;
  if (sizeof *to == 1) memset(to, zero, (size_t)n);
  for (int64_t i = 0; sizeof *to > 1 && i < n; i++) to[i] = zero;
}

/* `count` runs of n elements, `step` and `pitch` elements apart. */
static void copy_runs(const bytes_image *p, const uint8_t *from, int64_t step, int64_t n, int64_t count, int64_t pitch,
                      byte_x *to) {
  if (n <= 16) /* which b_copy tells from longer ones */
    for (int64_t i = 0; i < count; i++) b_copy(to + i * pitch, from + i * step, p->flip, n);
  else if (n <= B_COPIED)
    for (int64_t i = 0; i < count; i++) b_copy(to + i * pitch, from + i * step, p->flip, n);
  else
    for (int64_t i = 0; i < count; i++) I8_NAME(i8_copy)(p->flip, from + i * step, n, to + i * pitch);
}

/* Pixels [first, last) of a line that output pixels share, and where they go: what lies beside x is around them. */
static byte_x *pad_line(const bytes_image *p, const char *from, void *line, int64_t *first, int64_t *last) {
  const kern_conv_axis *a = &p->image.c.axis[2];
  const int64_t channels = p->image.c.group_in, pixels = p->image.line * a->stride;
  byte_x *to = line;
  *first = from ? base_min_i64(base_max_i64(a->begin, 0), pixels) : pixels;
  *last = base_max_i64(base_min_i64(a->in + a->begin, pixels), *first);
  fill(p, *first * channels, to);
  fill(p, (pixels - *last) * channels, to + *last * channels);
  return to + *first * channels;
}

static void take_line(const image_product *image, const char *from, int64_t phase, void *line) {
  const bytes_image *p = (const bytes_image *)image;
  const int64_t channels = image->c.group_in;
  int64_t first, last;
  byte_x *to = pad_line(p, from, line, &first, &last);
  (void)phase;
  if (last == first) return;
  const uint8_t *x = (const uint8_t *)from + (first - image->c.axis[2].begin) * image->x_pixel;
  if (image->x_pixel == channels) I8_NAME(i8_copy)(p->flip, x, (last - first) * channels, to);
  else copy_runs(p, x, image->x_pixel, channels, last - first, channels, to);
}

/* The same from planes of f32, which are quantised piece by piece. */
static void quantise_planes(const image_product *image, const char *from, int64_t phase, void *line) {
  const bytes_image *p = (const bytes_image *)image;
  const int64_t channels = image->c.group_in;
  int64_t first, last;
  byte_x *to = pad_line(p, from, line, &first, &last);
  (void)phase;
  for (int64_t i = first, n; i < last; i += n, to += n * channels) {
    byte_x piece[THREE][PLANE_PIECE];
    n = base_min_i64(PLANE_PIECE, last - i);
    for (int64_t c = 0; c < channels; c++) {
      const float *plane = (const float *)from + c * image->c.in_size + i - image->c.axis[2].begin;
      byte_x *of = piece[channels == THREE ? c : 0];
      I8_NAME(i8_quantise)(&p->i8.s, plane, n, of);
      for (int64_t k = 0; channels != THREE && k < n; k++) to[k * channels + c] = of[k];
    }
    for (int64_t k = 0; channels == THREE && k < n; k += V_LANES)
      b_store_threes(to + k * THREE, piece[0] + k, piece[1] + k, piece[2] + k, base_min_i64(V_LANES, n - k));
  }
}

/* The taps of output pixels [o, end) of a line, tap by tap. */
static void gather_taps(const bytes_image *p, const uint8_t *from, int64_t o, int64_t end, byte_x *to) {
  const kern_conv_axis *a = &p->image.c.axis[2];
  const int64_t channels = p->image.c.group_in, pitch = p->image.channels, x_pixel = p->image.x_pixel;
  for (int64_t tap = 0; tap < a->kernel; tap++, to += channels) {
    const int64_t at = tap * a->dilation - a->begin; /* of output pixel 0 */
    const int64_t first = base_min_i64(base_max_i64(base_ceil_div(-at, a->stride), o), end);
    const int64_t last = base_max_i64(base_min_i64(base_ceil_div(a->in - at, a->stride), end), first);
    for (int64_t i = o; i < end; i++)
      if (i < first || i >= last) fill(p, channels, to + (i - o) * pitch);
    if (first == last) continue;
    copy_runs(p, from + (first * a->stride + at) * x_pixel, a->stride * x_pixel, channels, last - first, pitch,
              to + (first - o) * pitch);
  }
}

/* A line of output pixels' own: rows of taps at once where they lie in x side by side. */
static void gather_line(const image_product *image, const char *from, int64_t phase, void *to_image) {
  const bytes_image *p = (const bytes_image *)image;
  const kern_conv_axis *a = &image->c.axis[2];
  const int64_t channels = image->c.group_in, pitch = image->channels, line = image->line;
  const bool runs = a->dilation == 1 && image->x_pixel == channels && a->in >= a->kernel - a->begin;
  const int64_t first = runs ? base_min_i64(base_max_i64(base_ceil_div(a->begin, a->stride), 0), line) : line;
  const int64_t inside = runs ? (a->in - a->kernel + a->begin) / a->stride + 1 : line;
  const int64_t last = base_max_i64(base_min_i64(inside, line), first);
  const uint8_t *x = (const uint8_t *)from;
  byte_x *to = to_image;
  (void)phase;
  if (!from) {
    fill(p, line * pitch, to);
    return;
  }
  gather_taps(p, x, 0, first, to);
  gather_taps(p, x, last, line, to + last * pitch);
  if (first == last) return;
  copy_runs(p, x + (first * a->stride - a->begin) * channels, a->stride * channels, a->kernel * channels, last - first,
            pitch, to + first * pitch);
}

/* Pixels that are lines of their own. */
static void take_pixels(const image_product *image, const char *from, int64_t count, void *to) {
  const bytes_image *p = (const bytes_image *)image;
  const uint8_t *x = (const uint8_t *)from;
  const int64_t pitch = image->channels;
  if (image->x_pixel == pitch) I8_NAME(i8_copy)(p->flip, x, count * pitch, to);
  else copy_runs(p, x, image->x_pixel, image->c.group_in, count, pitch, to);
}

static void add_shifts(const image_product *image, const product_tile *t, int64_t rows, int64_t panels) {
  enum { MOST_ROWS = 32 };
  const bytes_image *p = (const bytes_image *)image;
  int32_t shifts[MOST_ROWS];
  BASE_ASSERT(rows <= MOST_ROWS);
  I8_NAME(i8_shifts)(&p->i8, t, image->c.group_in * image->c.axis[2].kernel, rows, shifts);
  I8_NAME(i8_add_to_rows)(t->sums, shifts, rows, panels);
}

static void finish_image(const image_product *image, float *sums, int64_t pixel, int64_t rows, int64_t group,
                         int64_t column, int64_t columns) {
  I8_NAME(i8_finish)(&((const bytes_image *)image)->f, sums, pixel, rows, group, column, columns);
}

static bool must_gather(const kern_conv_axis *a) { return a->kernel == 1 || a->dilation != 1 || a->stride > a->kernel; }

/* What follows from sizes and layout. `merged`: image_merge_lines. */
static td_status multiply_image(const base_call *call, bytes_image *p, bool merged) {
  const kern_i8_layout *l = &p->i8.l;
  image_product *image = &p->image;
  const kern_conv_axis *a = image->c.axis;
  const int64_t run = image->c.group_in * a[2].kernel, stored = l->steps / l->runs * l->depth;
  p->flip = p->i8.type == TD_I8 ? 128 : 0;
  image->size = sizeof(byte_x);
  image->weights = BYTES_DEPTH;
  image->rows = true;
  image->blocks = l->blocks;
  image->words = l->blocks ? l->steps / l->runs / l->blocks : 0;
  image->x = p->i8.x;
  image->x_group = image->c.group_in * (base_dtype(p->i8.type)->bits / 8);
  image->x_pixel = image->c.groups * image->x_group;
  image->x_line = a[2].in * image->x_pixel;
  image->x_plane = a[1].in * image->x_line;
  image->x_sample = a[0].in * image->x_plane;
  if (image->c.channels_first) { /* lines of the first plane */
    image->x_line = a[2].in * (int64_t)sizeof(float);
    image->x_plane = a[1].in * image->x_line;
    image->x_sample = image->c.group_in * a[0].in * image->x_plane;
    image->gathered = false;
    image->take = quantise_planes;
  }
  image->lies = merged && p->i8.type == TD_U8 && run == stored && sizeof(byte_x) == 1;
  image->channels = image->lies       ? image->x_pixel
                    : image->gathered ? KERN_PART_NAME(image_spread)(run, sizeof(byte_x))
                                      : image->c.group_in;
  image->w = (const char *)p->i8.w + l->data;
  if (!image->take && merged) image->take_pixels = take_pixels;
  if (!image->take) image->take = image->gathered ? gather_line : take_line;
  image->finish = finish_image;
  if (p->i8.s.w_shift) image->add = add_shifts;
  KERN_PART_NAME(image_cut)(image, call->workers);
  TRY(I8_NAME(i8_finish_of)(&p->i8, &p->f));
  image->start = p->f.start;
  return KERN_PART_NAME(image_run)(call, image);
}

static i8_product product_of(const base_call *call) {
  return (i8_product){.call = call,
                      .s = kern_i8_scales_of(call->attrs),
                      .w = base_in(call, 1)->data,
                      .type = base_in(call, 0)->dtype,
                      .x = base_in(call, 0)->data,
                      .out_pitch = kern_pitch(base_out(call, 0))};
}

/* Of f32 the scales, where its range tells them; and bytes, unless planes or (`rows`) rows of it are quantised as they
 * are read. */
static td_status find_scales(bytes_image *p, bool rows) {
  if (p->i8.type != TD_F32) return TD_OK;
  const base_tensor *x = base_in(p->i8.call, 0);
  if (p->i8.s.x_scale <= 0) I8_NAME(i8_find_range)(x->data, base_tensor_numel(x), &p->i8.s);
  return rows || p->image.c.channels_first ? TD_OK : I8_NAME(i8_find_bytes)(&p->i8);
}

static td_status layout_window(const kern_conv *c, i8_product *p, bool *depthwise) {
  const kern_i8_window sizes = kern_i8_window_of(c);
  if (kern_i8_window_layout(&sizes, p->s.panel, p->s.depth, &p->l, depthwise)) return TD_OK;
  return base_fail(p->call->err, TD_BAD_ARGUMENT, NULL, -1, "td::conv_i8: the window is too large");
}
#endif
