/* image.c -- picture files: which decoder, and how large. Builds without the picture libraries tell what a file is, and
 * that they do not read it. */
#include "fmt/image_priv.h"

#include <string.h>

#ifdef FMT_NO_PICTURES
#define DECODER(function) NULL
#else
#define DECODER(function) function
#endif

typedef struct decoder_row {
  base_str magic;
  const char *name;
  td_status (*decode)(base_arena *arena, const void *bytes, size_t size, int64_t most_pixels, fmt_image *image,
                      td_error *err);
} decoder_row;

static const decoder_row decoders[] = {
    {{"\xff\xd8\xff", 3}, "JPEG", DECODER(fmt_jpeg_decode)},
    {{"\x89PNG\r\n\x1a\n", 8}, "PNG", DECODER(fmt_png_decode)},
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
  if (!decoder->decode)
    return base_fail(err, TD_UNSUPPORTED, NULL, -1,
                     "this build reads no %s files (TREADLE_PICTURES=OFF): give the numbers as .npy", decoder->name);
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
