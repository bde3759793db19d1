/* picture.h -- small picture files, made by the encoders of the libraries. */
#ifndef TESTS_FMT_PICTURE_H
#define TESTS_FMT_PICTURE_H
#include "check.h"

#include <jpeglib.h>
#include <spng.h>

typedef struct made_file {
  unsigned char *bytes;
  unsigned long size;
} made_file;

/* Samples as PNG keeps them (16 bits: high byte first). */
static inline made_file make_png(uint32_t width, uint32_t height, uint8_t color_type, uint8_t depth,
                                 const void *samples, size_t bytes) {
  struct spng_ihdr header = {.width = width, .height = height, .bit_depth = depth, .color_type = color_type};
  struct spng_plte palette = {.n_entries = 2, .entries = {{10, 20, 30, 0}, {200, 100, 50, 0}}};
  spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1);
  assert_int_equal(spng_set_ihdr(png, &header), 0);
  if (color_type == SPNG_COLOR_TYPE_INDEXED) assert_int_equal(spng_set_plte(png, &palette), 0);
  assert_int_equal(spng_encode_image(png, samples, bytes, SPNG_FMT_RAW, SPNG_ENCODE_FINALIZE), 0);
  int code;
  size_t size;
  unsigned char *file = spng_get_png_buffer(png, &size, &code);
  assert_non_null(file);
  spng_ctx_free(png);
  return (made_file){file, size};
}

/* `components` 1 (gray), 3 (RGB) or 4 (CMYK). */
static inline made_file make_jpeg(uint32_t width, uint32_t height, int components, bool progressive,
                                  const uint8_t *samples) {
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr manager;
  made_file file = {NULL, 0};
  jpeg.err = jpeg_std_error(&manager);
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, &file.bytes, &file.size);
  jpeg.image_width = width;
  jpeg.image_height = height;
  jpeg.input_components = components;
  jpeg.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < height) {
    JSAMPROW row = (JSAMPROW)(uintptr_t)(samples + (size_t)jpeg.next_scanline * width * (size_t)components);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  return file;
}
#endif
