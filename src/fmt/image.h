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
/* The picture as the network's input by the preset `name`, f32[1,3,side,side] in `arena`:
 *   "imagenet"           shorter edge to 256 bilinear, centre 224, (byte / 255 - mean) / deviation (torchvision)
 *   "efficientnet_lite"  centre square of 7/8 of the shorter edge, bicubic to 224, (byte - 127) / 128
 * TD_BAD_ARGUMENT: an unknown preset (the error lists them). */
td_status fmt_image_preprocess(base_arena *arena, const fmt_image *image, const char *name, base_tensor *tensor,
                               td_error *err);
#endif
