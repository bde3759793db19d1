/* image_preset.c -- what was done to pictures before a network saw them in training, as a table. */
#include "fmt/image.h"

#include <math.h>
#include <string.h>

/* What becomes of the sizes: a centre square cut, then resized; the shorter edge resized, then the centre cut; or the
 * whole resized. */
typedef enum fit { CROP_FIRST, RESIZE_FIRST, WHOLE } fit;

typedef struct preset {
  const char *name;
  fit fit;
  fmt_filter filter;
  float divisor, mean[3], deviation[3]; /* (byte / divisor - mean) / deviation, where the input has floats */
} preset;

/* Sides of inputs that may have any size; what is cut off them in proportion is MARGIN. */
enum { SIDE = 224, MARGIN = 32 };

static const preset presets[] = {
    {"imagenet", RESIZE_FIRST, FMT_BILINEAR, 255, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
    {"efficientnet_lite", CROP_FIRST, FMT_BICUBIC, 1, {127, 127, 127}, {128, 128, 128}},
    {"raw", WHOLE, FMT_BILINEAR, 255, {0, 0, 0}, {1, 1, 1}},
};
enum { PRESETS = sizeof presets / sizeof *presets };

const char *fmt_image_preset_name(size_t index) { return index < PRESETS ? presets[index].name : NULL; }

static td_status find_preset(const char *name, const preset **found, td_error *err) {
  char names[256] = "";
  for (size_t i = 0; i < PRESETS; i++) {
    *found = &presets[i];
    if (strcmp(name, presets[i].name) == 0) return TD_OK;
    strncat(names, i ? ", " : "", sizeof names - strlen(names) - 1);
    strncat(names, presets[i].name, sizeof names - strlen(names) - 1);
  }
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no preprocessing called %s; there are: %s", name, names);
}

/* ---- sizes ---- */

/* The training code of EfficientNet rounds half a pixel up. */
static int32_t half_up(int64_t spare) { return (int32_t)((spare + 1) / 2); }

/* torchvision rounds half a pixel to even. */
static int32_t half_even(int64_t spare) { return (int32_t)(spare / 2 + (spare % 4 == 3)); }

/* The largest rectangle of the wanted proportions, less the margin. */
static td_status crop_then_resize(base_arena *scratch, fmt_filter filter, const fmt_image *image, int32_t width,
                                  int32_t height, fmt_image *resized, td_error *err) {
  const int64_t edge = base_min_i64((int64_t)image->width * height, (int64_t)image->height * width);
  const int32_t cut_width = (int32_t)base_max_i64(edge / height * SIDE / (SIDE + MARGIN), 1);
  const int32_t cut_height = (int32_t)base_max_i64(edge / width * SIDE / (SIDE + MARGIN), 1);
  const fmt_image cut = fmt_image_crop(image, half_up(image->width - cut_width), half_up(image->height - cut_height),
                                       cut_width, cut_height);
  return fmt_image_resize(scratch, &cut, width, height, filter, resized, err);
}

/* The picture as small as it covers what is wanted and the margin. */
static td_status resize_then_crop(base_arena *scratch, fmt_filter filter, const fmt_image *image, int32_t width,
                                  int32_t height, fmt_image *resized, td_error *err) {
  const int64_t need_width = (int64_t)round(width * (double)(SIDE + MARGIN) / SIDE);
  const int64_t need_height = (int64_t)round(height * (double)(SIDE + MARGIN) / SIDE);
  const bool wide = image->width * need_height >= image->height * need_width;
  const int64_t whole_width = wide ? need_height * image->width / image->height : need_width;
  const int64_t whole_height = wide ? need_height : need_width * image->height / image->width;
  if (whole_width > INT32_MAX || whole_height > INT32_MAX)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a picture of %d x %d is too oblong", image->width, image->height);
  const fmt_window centre = {half_even(whole_width - width), half_even(whole_height - height), width, height};
  return fmt_image_resize_window(scratch, image, (int32_t)whole_width, (int32_t)whole_height, filter, &centre, resized,
                                 err);
}

fmt_image fmt_image_crop(const fmt_image *image, int32_t left, int32_t top, int32_t width, int32_t height) {
  return (fmt_image){.width = width,
                     .height = height,
                     .stride = image->stride,
                     .rgb = image->rgb + top * image->stride + 3 * (int64_t)left};
}

static td_status fit_picture(base_arena *scratch, const preset *p, const fmt_image *image, int32_t width,
                             int32_t height, fmt_image *fitted, td_error *err) {
  if (p->fit == CROP_FIRST) return crop_then_resize(scratch, p->filter, image, width, height, fitted, err);
  if (p->fit == RESIZE_FIRST) return resize_then_crop(scratch, p->filter, image, width, height, fitted, err);
  return fmt_image_resize(scratch, image, width, height, p->filter, fitted, err);
}

/* ---- the input ---- */

/* Where the input has its channels, rows and columns: axes of its dims. */
typedef struct layout {
  int32_t channel, row, column;
  int64_t channels; /* 3, or 1: gray */
} layout;

static bool may_be(int64_t dim, int64_t size) { return dim < 0 || dim == size; }

static td_status find_layout(const fmt_image_input *input, layout *l, td_error *err) {
  const int32_t first = input->rank - 3;
  const int64_t *dims = input->dims;
  bool found = first == 0 || (first == 1 && may_be(dims[0], 1));
  *l = (layout){first, first + 1, first + 2, 3};
  if (found && dims[first] != 3) {
    if (dims[first + 2] == 3) *l = (layout){first + 2, first, first + 1, 3};
    else if (dims[first] == 1) l->channels = 1;
    else if (dims[first + 2] == 1) *l = (layout){first + 2, first, first + 1, 1};
    else found = dims[first] < 0;
  }
  if (found) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                   "a picture becomes an input of [3,H,W] or [1,3,H,W], or with channels last or one channel, and this "
                   "one has another shape; give the numbers as .npy");
}

/* The luminance of ITU-R 601, rounded as Pillow does. */
static uint8_t sample_of(const uint8_t *rgb, const layout *l, int64_t channel) {
  if (l->channels == 3) return rgb[channel];
  return (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

/* A byte has 256 values, so that each division is made once for a colour, not once for a pixel. */
static void fill_channel(const preset *p, const fmt_image *image, const layout *l, int64_t c, bool bytes,
                         const base_tensor *t) {
  float table[256];
  for (int i = 0; i < 256; i++) table[i] = bytes ? (float)i : ((float)i / p->divisor - p->mean[c]) / p->deviation[c];
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *row = image->rgb + y * image->stride;
    const int64_t at = c * t->strides[l->channel] + y * t->strides[l->row];
    const int64_t step = t->strides[l->column];
    for (int32_t x = 0; x < image->width; x++) {
      const float value = table[sample_of(row + 3 * (int64_t)x, l, c)];
      if (t->dtype == TD_F32) ((float *)t->data)[at + x * step] = value;
      else base_store_f64(t->dtype, t->data, at + x * step, (double)value);
    }
  }
}

static void fill(const preset *p, const fmt_image *image, const layout *l, const base_tensor *t) {
  const bool bytes = !base_is_float(t->dtype);
  for (int64_t c = 0; c < l->channels; c++) fill_channel(p, image, l, c, bytes, t);
}

static td_status make_tensor(base_arena *arena, const fmt_image_input *input, const int64_t *dims, base_tensor *tensor,
                             td_error *err) {
  int64_t count;
  size_t bytes;
  void *data = base_numel(input->rank, dims, &count) && base_dtype_bytes(input->dtype, count, &bytes)
                   ? base_arena_alloc_aligned(arena, bytes, 64)
                   : NULL;
  if (!data) return base_no_memory(err, "a picture");
  *tensor = base_tensor_of(data, input->dtype, input->rank, dims);
  return TD_OK;
}

static const int64_t any_size[] = {1, 3, -1, -1};

td_status fmt_image_preprocess(base_arena *arena, const fmt_image *image, const char *name,
                               const fmt_image_input *input, base_tensor *tensor, td_error *err) {
  const fmt_image_input usual = {TD_F32, 4, any_size};
  const preset *p;
  layout l;
  fmt_image fitted;
  int64_t dims[TD_MAX_RANK];
  if (!input || input->rank < 0) input = &usual;
  TRY(find_preset(name, &p, err));
  TRY(find_layout(input, &l, err));
  if (p->fit != WHOLE && (l.channels != 3 || !base_is_float(input->dtype)))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%s makes floats of three colours: this input needs raw", name);
  memcpy(dims, input->dims, sizeof *dims * (size_t)input->rank);
  if (input->rank == 4) dims[0] = 1;
  dims[l.channel] = l.channels;
  if (dims[l.row] < 0) dims[l.row] = p->fit == WHOLE ? image->height : SIDE;
  if (dims[l.column] < 0) dims[l.column] = p->fit == WHOLE ? image->width : SIDE;
  if (dims[l.row] < 1 || dims[l.column] < 1 || dims[l.row] > FMT_IMAGE_MOST_PIXELS / dims[l.column])
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "the input is no picture: %lld x %lld pixels",
                     (long long)dims[l.column], (long long)dims[l.row]);
  base_arena *scratch = base_arena_new(base_arena_allocator(arena));
  td_status status = scratch ? make_tensor(arena, input, dims, tensor, err) : base_no_memory(err, "a picture");
  if (status == TD_OK)
    status = fit_picture(scratch, p, image, (int32_t)dims[l.column], (int32_t)dims[l.row], &fitted, err);
  if (status == TD_OK) fill(p, &fitted, &l, tensor);
  base_arena_free(scratch);
  return status;
}
