/* image_png.c -- PNG through libspng. */
#include "fmt/image_priv.h"

#include <spng.h>

/* Deflate shrinks to 1/1032 at best: a file that claims more is a lie, found before memory is taken for it. */
static bool png_plausible(const struct spng_ihdr *header, size_t size) {
  static const uint8_t samples[] = {1, 0, 3, 1, 2, 0, 4}; /* per pixel, by colour type */
  uint64_t bits = (uint64_t)header->bit_depth * samples[header->color_type % 7] * header->width;
  return ((bits + 7) / 8 + 1) * header->height / 1032 <= size;
}

static td_status png_fail(int code, td_error *err) {
  td_status status = code == SPNG_EMEM ? TD_NO_RESOURCE : TD_BAD_FILE;
  return base_fail(err, status, NULL, -1, "the PNG file is damaged: %s", spng_strerror(code));
}

static td_status png_decode(spng_ctx *png, base_arena *arena, const void *bytes, size_t size, int64_t most_pixels,
                            fmt_image *image, td_error *err) {
  struct spng_ihdr header;
  spng_set_crc_action(png, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  spng_set_chunk_limits(png, size, size);
  int code = spng_set_png_buffer(png, bytes, size);
  if (code == 0) code = spng_get_ihdr(png, &header);
  if (code) return png_fail(code, err);
  if (!png_plausible(&header, size))
    return base_fail(err, TD_BAD_FILE, NULL, 16, "the file is too short for a picture of %u x %u", header.width,
                     header.height);
  TRY(fmt_image_make(arena, header.width, header.height, most_pixels, image, err));
  code = spng_decode_image(png, image->rgb, (size_t)image->stride * header.height, SPNG_FMT_RGB8, 0);
  return code ? png_fail(code, err) : TD_OK;
}

td_status fmt_png_decode(base_arena *arena, const void *bytes, size_t size, int64_t most_pixels, fmt_image *image,
                         td_error *err) {
  spng_ctx *png = spng_ctx_new(0);
  if (!png) return base_no_memory(err, "a PNG decoder");
  td_status status = png_decode(png, arena, bytes, size, most_pixels, image, err);
  spng_ctx_free(png);
  return status;
}
