/* image.c -- picture files: which decoder, how large, and PNG through libspng. */
#include "fmt/image_priv.h"

#include <spng.h>
#include <string.h>

typedef struct decoder_row {
  base_str magic;
  td_status (*decode)(base_arena *arena, const void *bytes, size_t size, int64_t most_pixels, fmt_image *image,
                      td_error *err);
} decoder_row;

static const decoder_row decoders[] = {
    {{"\xff\xd8\xff", 3}, fmt_jpeg_decode},
    {{"\x89PNG\r\n\x1a\n", 8}, fmt_png_decode},
};

static const decoder_row *decoder_of(const void *bytes, size_t size) {
  for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++) {
    base_str magic = decoders[i].magic;
    if (size >= magic.length && memcmp(bytes, magic.at, magic.length) == 0) return &decoders[i];
  }
  return NULL;
}

bool fmt_image_sniff(const void *bytes, size_t size) { return decoder_of(bytes, size) != NULL; }

td_status fmt_image_decode(base_arena *arena, const void *bytes, size_t size, int64_t most_pixels, fmt_image *image,
                           td_error *err) {
  const decoder_row *decoder = decoder_of(bytes, size);
  if (!decoder) return base_fail(err, TD_BAD_FILE, NULL, 0, "is neither a JPEG nor a PNG file");
  return decoder->decode(arena, bytes, size, base_min_i64(most_pixels, FMT_IMAGE_MOST_PIXELS), image, err);
}

td_status fmt_image_make(base_arena *arena, uint32_t width, uint32_t height, int64_t most_pixels, fmt_image *image,
                         td_error *err) {
  int64_t pixels = (int64_t)width * height;
  if (pixels < 1 || pixels > most_pixels)
    return base_fail(err, TD_BAD_FILE, NULL, -1,
                     "the picture is %u x %u; at least 1 and at most %lld pixels are decoded", width, height,
                     (long long)most_pixels);
  *image = (fmt_image){.width = (int32_t)width, .height = (int32_t)height, .stride = 3 * (int64_t)width};
  image->rgb = base_arena_alloc(arena, (size_t)pixels * 3);
  return image->rgb ? TD_OK : base_no_memory(err, "a picture");
}

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
