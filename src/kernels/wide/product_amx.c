/* product_amx.c -- KERN_LINEAR_I8 and KERN_CONV_I8 by tiles of AMX (image_amx_priv.h): the image has bytes, and runs
 * are rows of taps, which lie side by side in x. Where they do not, or a window has one pixel of a line, each output
 * pixel has its own. Sums are finished as those of dot instructions. */
#include "kernels/image_amx_priv.h"
#include "kernels/product_i8_priv.h"

_Static_assert((int)AMX_WIDTH == (int)BYTES_ROW, "rows of sums are as long");

typedef struct product {
  amx_product amx; /* the first, so that its functions know the others */
  i8_product i8;
  i8_finish f;
  uint8_t flip; /* i8_copy */
} product;

/* ---- the image of a block ---- */

static void fill(const product *p, int64_t pixels, uint8_t *to) {
  memset(to, (int)p->i8.s.x_zero, (size_t)(pixels * p->amx.c.group_in));
}

/* A line of which output pixels share pixels. */
static void take_line(const amx_product *amx, const char *from, int64_t phase, void *image) {
  const product *p = (const product *)amx;
  const kern_conv_axis *a = &amx->c.axis[2];
  const int64_t channels = amx->c.group_in, pixels = amx->line * a->stride;
  const int64_t first = from ? base_min_i64(base_max_i64(a->begin, 0), pixels) : pixels;
  const int64_t last = base_max_i64(base_min_i64(a->in + a->begin, pixels), first);
  uint8_t *to = image;
  (void)phase;
  fill(p, first, to);
  fill(p, pixels - last, to + last * channels);
  if (last == first) return;
  from += (first - a->begin) * amx->x_pixel;
  to += first * channels;
  const bool dense = amx->x_pixel == channels;
  const int64_t count = dense ? 1 : last - first, size = dense ? (last - first) * channels : channels;
  for (int64_t i = 0; i < count; i++, from += amx->x_pixel, to += channels)
    I8_NAME(i8_copy)(p->flip, (const uint8_t *)from, size, to);
}

/* A line of output pixels' own. */
static void gather_line(const amx_product *amx, const char *from, int64_t phase, void *image) {
  const product *p = (const product *)amx;
  const kern_conv_axis *a = &amx->c.axis[2];
  const int64_t channels = amx->c.group_in;
  (void)phase;
  for (int64_t o = 0; o < amx->line; o++) {
    uint8_t *to = (uint8_t *)image + o * amx->channels;
    for (int64_t tap = 0; tap < a->kernel; tap++, to += channels) {
      const int64_t i = o * a->stride - a->begin + tap * a->dilation;
      if (!from || i < 0 || i >= a->in) fill(p, 1, to);
      else I8_NAME(i8_copy)(p->flip, (const uint8_t *)from + i * amx->x_pixel, channels, to);
    }
  }
}

static void quantise_line(const amx_product *amx, const char *from, int64_t phase, void *image) {
  (void)phase;
  I8_NAME(i8_quantise)(&((const product *)amx)->i8.s, (const float *)from, amx->c.group_in, image);
}

/* ---- the operators ---- */

static void finish(const amx_product *amx, float *sums, int64_t pixel, int64_t rows, int64_t group, int64_t column,
                   int64_t columns) {
  I8_NAME(i8_finish)(&((const product *)amx)->f, sums, pixel, rows, group, column, columns);
}

static td_status multiply(const base_call *call, product *p) {
  const base_tensor *x = base_in(call, 0);
  const kern_i8_layout *l = &p->i8.l;
  amx_product *amx = &p->amx;
  const bool merged = KERN_PART_NAME(amx_merge_lines)(&amx->c);
  const kern_conv_axis *a = amx->c.axis;
  const int64_t run = amx->c.group_in * a[2].kernel, stored = l->steps / l->runs * l->depth;
  p->flip = x->dtype == TD_I8 ? 128 : 0;
  amx->size = 1;
  amx->rows = true;
  amx->gathered = a[2].kernel == 1 || a[2].dilation != 1 || a[2].stride > a[2].kernel;
  amx->blocks = l->blocks;
  amx->words = l->blocks ? l->steps / l->runs / l->blocks : 0;
  amx->x = x->data;
  amx->x_group = amx->c.group_in * (base_dtype(x->dtype)->bits / 8);
  amx->x_pixel = amx->c.groups * amx->x_group;
  amx->x_line = a[2].in * amx->x_pixel;
  amx->x_plane = a[1].in * amx->x_line;
  amx->x_sample = a[0].in * amx->x_plane;
  amx->lies = merged && x->dtype == TD_U8 && run == stored;
  amx->channels = amx->lies ? amx->x_pixel : amx->gathered ? KERN_PART_NAME(amx_spread)(run, 1) : amx->c.group_in;
  amx->w = (const char *)p->i8.w + l->data;
  amx->take = x->dtype == TD_F32 ? quantise_line : amx->gathered ? gather_line : take_line;
  amx->multiply = KERN_PART_NAME(amx_u8);
  amx->finish = finish;
  KERN_PART_NAME(amx_product_cut)(amx);
  TRY(I8_NAME(i8_finish_of)(&p->i8, &p->f));
  amx->start = p->f.start;
  return KERN_PART_NAME(amx_product_run)(call, amx);
}

static i8_product product_of(const base_call *call) {
  return (i8_product){.call = call,
                      .s = kern_i8_scales_of(call->attrs),
                      .w = base_in(call, 1)->data,
                      .out_pitch = kern_pitch(base_out(call, 0))};
}

td_status KERN_PART_NAME(linear_i8_amx)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const int64_t k = x->dims[x->rank - 1], n = out->dims[out->rank - 1];
  const kern_conv_axis one = {1, 1, 1, 1, 0, 1};
  product p = {
      .i8 = product_of(call),
      .amx.c = {
          .axis = {one, one, one}, .batch = 1, .groups = 1, .group_in = k, .group_out = n, .taps = 1, .out_size = 1}};
  for (int32_t i = 0; i < x->rank - 1; i++) p.amx.c.out_size *= x->dims[i];
  if (p.amx.c.out_size == 0 || n == 0) return TD_OK;
  if (!kern_i8_layout_of(n, k, p.i8.s.panel, p.i8.s.depth, &p.i8.l))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::linear_i8: %lld elements a row", (long long)k);
  if (p.i8.s.x_scale == 0) I8_NAME(i8_find_range)(x->data, p.amx.c.out_size * k, &p.i8.s);
  return multiply(call, &p);
}

td_status KERN_PART_NAME(conv_i8_amx)(const base_call *call) {
  product p = {.i8 = product_of(call)};
  bool depthwise;
  TRY(kern_conv_sizes(call, &p.amx.c));
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  const kern_i8_window sizes = kern_i8_window_of(&p.amx.c);
  if (!kern_i8_window_layout(&sizes, p.i8.s.panel, p.i8.s.depth, &p.i8.l, &depthwise))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::conv_i8: the window is too large");
  return depthwise ? I8_NAME(conv_i8)(call) : multiply(call, &p);
}
