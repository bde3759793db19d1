/* image_priv.h -- the decoders behind fmt_image_decode. */
#ifndef FMT_IMAGE_PRIV_H
#define FMT_IMAGE_PRIV_H
#include "fmt/image.h"

/* An image of these sizes with room for its pixels. TD_BAD_FILE: a size of 0 or more than `most_pixels`. */
td_status fmt_image_make(base_arena *arena, uint32_t width, uint32_t height, int64_t most_pixels, fmt_image *image,
                         td_error *err);
td_status fmt_jpeg_decode(base_arena *arena, const void *bytes, size_t size, int64_t most_pixels, fmt_image *image,
                          td_error *err);
td_status fmt_png_decode(base_arena *arena, const void *bytes, size_t size, int64_t most_pixels, fmt_image *image,
                         td_error *err);
#endif
