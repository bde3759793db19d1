/* image_preset.c -- what was done to pictures before a network saw them in training, as a table. */
#include "fmt/image.h"

#include <string.h>

/* Cut a centre square, then resize it; or resize the shorter edge, then cut the centre. */
typedef struct preset {
  const char *name;
  bool crop_first;
  int32_t
      margin; /* crop_first: the square has side / (side + margin) of the shorter edge; else what is cut off `side` */
  fmt_filter filter;
  float divisor, mean[3], deviation[3]; /* (byte / divisor - mean) / deviation */
} preset;

enum { SIDE = 224 };

static const preset presets[] = {
    {"imagenet", false, 32, FMT_BILINEAR, 255, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
    {"efficientnet_lite", true, 32, FMT_BICUBIC, 1, {127, 127, 127}, {128, 128, 128}},
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

/* The training code of EfficientNet rounds half a pixel up. */
static int32_t half_up(int32_t spare) { return (spare + 1) / 2; }

static td_status crop_then_resize(base_arena *scratch, const preset *p, const fmt_image *image, fmt_image *square,
                                  td_error *err) {
  int64_t edge = base_min_i64(image->width, image->height);
  int32_t side = (int32_t)base_max_i64(edge * SIDE / (SIDE + p->margin), 1);
  fmt_image cut = fmt_image_crop(image, half_up(image->width - side), half_up(image->height - side), side, side);
  return fmt_image_resize(scratch, &cut, SIDE, SIDE, p->filter, square, err);
}

/* torchvision rounds half a pixel to even. */
static int32_t half_even(int32_t spare) { return spare / 2 + (spare % 4 == 3); }

static td_status resize_then_crop(base_arena *scratch, const preset *p, const fmt_image *image, fmt_image *square,
                                  td_error *err) {
  int64_t edge = base_min_i64(image->width, image->height), wanted = SIDE + p->margin;
  int64_t width = wanted * image->width / edge, height = wanted * image->height / edge;
  if (width > INT32_MAX || height > INT32_MAX)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a picture of %d x %d is too oblong", image->width, image->height);
  fmt_window centre = {half_even((int32_t)width - SIDE), half_even((int32_t)height - SIDE), SIDE, SIDE};
  return fmt_image_resize_window(scratch, image, (int32_t)width, (int32_t)height, p->filter, &centre, square, err);
}

fmt_image fmt_image_crop(const fmt_image *image, int32_t left, int32_t top, int32_t width, int32_t height) {
  return (fmt_image){.width = width,
                     .height = height,
                     .stride = image->stride,
                     .rgb = image->rgb + top * image->stride + 3 * (int64_t)left};
}

static void normalise(const preset *p, const fmt_image *square, float *values) {
  for (int c = 0; c < 3; c++)
    for (int32_t y = 0; y < SIDE; y++)
      for (int32_t x = 0; x < SIDE; x++)
        *values++ = ((float)square->rgb[y * square->stride + 3 * x + c] / p->divisor - p->mean[c]) / p->deviation[c];
}

td_status fmt_image_preprocess(base_arena *arena, const fmt_image *image, const char *name, base_tensor *tensor,
                               td_error *err) {
  const preset *p;
  fmt_image square;
  TRY(find_preset(name, &p, err));
  base_arena *scratch = base_arena_new(base_arena_allocator(arena));
  float *values = base_new(arena, float, (size_t)3 * SIDE * SIDE);
  if (!scratch || !values) {
    base_arena_free(scratch);
    return base_no_memory(err, "a picture");
  }
  td_status status = (p->crop_first ? crop_then_resize : resize_then_crop)(scratch, p, image, &square, err);
  if (status == TD_OK) {
    normalise(p, &square, values);
    *tensor = base_tensor_of(values, TD_F32, 4, (const int64_t[]){1, 3, SIDE, SIDE});
  }
  base_arena_free(scratch);
  return status;
}
