/* image.h -- pictures: JPEG and PNG to 8-bit RGB, resampling, and the preprocessing that networks were trained with.
 *
 * Memory: decoding takes 3 bytes per pixel in the arena, besides what libjpeg or libspng take while they run. */
#ifndef FMT_IMAGE_H
#define FMT_IMAGE_H
#include "base/base.h"

/* Rows from the top, pixels from the left, bytes red, green, blue; `stride` bytes from row to row. Sizes are at
 * least 1. */
typedef struct fmt_image {
  int32_t width, height;
  int64_t stride;
  uint8_t *rgb;
} fmt_image;

/* More pixels than this are never decoded or made by resampling. */
enum { FMT_IMAGE_MOST_PIXELS = 1 << 26 };

/* True when the bytes begin like a JPEG or PNG file. */
bool fmt_image_sniff(const void *bytes, size_t size);
/* Decodes a whole file; pixels are in `arena`. Gray and palette become RGB, 16-bit samples keep their high byte, alpha
 * is dropped (as training pipelines do), colour profiles and orientation are ignored. TD_BAD_FILE: neither format,
 * damaged, cut short, more than `most_pixels`. TD_UNSUPPORTED: CMYK. */
td_status fmt_image_decode(base_arena *arena, const void *bytes, size_t size, int64_t most_pixels, fmt_image *image,
                           td_error *err);

typedef enum fmt_filter { FMT_BILINEAR, FMT_BICUBIC } fmt_filter;
/* Resamples to width x height into `arena` as Pillow does, bit for bit: the filter (bicubic: Keys, a = -0.5) is
 * stretched when the picture shrinks; rows first, then columns, rounded to 8 bits after each. TD_BAD_ARGUMENT: sizes
 * below 1 or too many pixels. */
td_status fmt_image_resize(base_arena *arena, const fmt_image *image, int32_t width, int32_t height, fmt_filter filter,
                           fmt_image *resized, td_error *err);
typedef struct fmt_window {
  int32_t left, top, width, height;
} fmt_window;
/* The same, of which only `window` is wanted and computed: however oblong the picture, the work is the window's. */
td_status fmt_image_resize_window(base_arena *arena, const fmt_image *image, int32_t width, int32_t height,
                                  fmt_filter filter, const fmt_window *window, fmt_image *resized, td_error *err);
/* A view of the rectangle, which must lie inside the picture. */
fmt_image fmt_image_crop(const fmt_image *image, int32_t left, int32_t top, int32_t width, int32_t height);

/* The names of the presets, in order; NULL after the last. */
const char *fmt_image_preset_name(size_t index);
/* The network's input that a picture is to become: [3,H,W] or [1,3,H,W], the same with the channels last, or with one
 * channel, which is gray. Dimensions of any size are -1. */
typedef struct fmt_image_input {
  td_dtype dtype;
  int32_t rank; /* -1: not known, [1,3,H,W] */
  const int64_t *dims;
} fmt_image_input;

/* The picture as that input (NULL: f32[1,3,H,W] of any size) by the preset `name`, in `arena`:
 *   "imagenet"           as small as it covers 8/7 of the input, bilinear, then the centre; (byte / 255 - mean) /
 *                        deviation (torchvision)
 *   "efficientnet_lite"  the centre of 7/8 of what has the input's proportions, bicubic; (byte - 127) / 128
 *   "raw"                the whole picture, bilinear; byte / 255, of integers the byte itself
 * Where the input may be of any size, it is 224 x 224, and by "raw" the picture's own.
 * TD_BAD_ARGUMENT: an unknown preset (the error lists them), an input that is no picture. */
td_status fmt_image_preprocess(base_arena *arena, const fmt_image *image, const char *name,
                               const fmt_image_input *input, base_tensor *tensor, td_error *err);
#endif
