/* ctest: memory */
/* Pictures: each form of PNG and JPEG gives the colours that went in, hostile files give errors. */
#include "picture.h"

static fmt_image decode(base_arena *arena, made_file file) {
  fmt_image image;
  td_error err = {0};
  td_status status = fmt_image_decode(arena, file.bytes, file.size, 1 << 20, &image, &err);
  if (status != TD_OK) fail_msg("%s", err.text);
  free(file.bytes);
  return image;
}

static void expect_pixel(const fmt_image *image, int32_t x, int32_t y, const uint8_t *rgb) {
  assert_memory_equal(image->rgb + y * image->stride + 3 * x, rgb, 3);
}

static void every_form_of_png_becomes_rgb(void **state) {
  (void)state;
  const struct {
    uint8_t color_type, depth;
    uint8_t samples[16]; /* 2 x 1 pixels */
    size_t bytes;
    uint8_t first[3], second[3];
  } cases[] = {
      {SPNG_COLOR_TYPE_TRUECOLOR, 8, {1, 2, 3, 4, 5, 6}, 6, {1, 2, 3}, {4, 5, 6}},
      {SPNG_COLOR_TYPE_GRAYSCALE, 8, {7, 255}, 2, {7, 7, 7}, {255, 255, 255}},
      {SPNG_COLOR_TYPE_GRAYSCALE, 1, {0x40}, 1, {0, 0, 0}, {255, 255, 255}},
      {SPNG_COLOR_TYPE_GRAYSCALE, 16, {9, 255, 10, 0}, 4, {9, 9, 9}, {10, 10, 10}},
      {SPNG_COLOR_TYPE_INDEXED, 8, {1, 0}, 2, {200, 100, 50}, {10, 20, 30}},
      {SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, 8, {9, 0, 10, 128}, 4, {9, 9, 9}, {10, 10, 10}},
      {SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 8, {1, 2, 3, 0, 4, 5, 6, 255}, 8, {1, 2, 3}, {4, 5, 6}},
      {SPNG_COLOR_TYPE_TRUECOLOR, 16, {1, 0, 2, 9, 3, 0, 4, 0, 5, 0, 6, 200}, 12, {1, 2, 3}, {4, 5, 6}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    fmt_image image =
        decode(arena, make_png(2, 1, cases[i].color_type, cases[i].depth, cases[i].samples, cases[i].bytes));
    assert_int_equal(image.width, 2);
    assert_int_equal(image.height, 1);
    expect_pixel(&image, 0, 0, cases[i].first);
    expect_pixel(&image, 1, 0, cases[i].second);
    base_arena_free(arena);
  }
}

/* One colour over the whole picture survives JPEG up to rounding. */
static void every_form_of_jpeg_becomes_rgb(void **state) {
  (void)state;
  enum { WIDTH = 11, HEIGHT = 9 };
  uint8_t samples[WIDTH * HEIGHT * 3];
  for (int form = 0; form < 3; form++) {
    int components = form == 0 ? 1 : 3;
    const uint8_t color[] = {200, components == 1 ? 200 : 60, components == 1 ? 200 : 90};
    for (size_t i = 0; i < sizeof samples; i++) samples[i] = color[i % 3];
    base_arena *arena = base_arena_new(&base_libc_allocator);
    fmt_image image = decode(arena, make_jpeg(WIDTH, HEIGHT, components, form == 2, samples));
    assert_int_equal(image.width, WIDTH);
    assert_int_equal(image.height, HEIGHT);
    for (int i = 0; i < WIDTH * HEIGHT * 3; i++) assert_in_range(image.rgb[i], color[i % 3] - 3, color[i % 3] + 3);
    base_arena_free(arena);
  }
}

static td_status refuse(const void *bytes, size_t size, int64_t most_pixels, const char *reason) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  fmt_image image;
  td_error err = {0};
  td_status status = fmt_image_decode(arena, bytes, size, most_pixels, &image, &err);
  if (!strstr(err.text, reason)) fail_msg("\"%s\" does not say \"%s\"", err.text, reason);
  base_arena_free(arena);
  return status;
}

static void what_is_no_picture_is_refused(void **state) {
  (void)state;
  uint8_t samples[4 * 16 * 16] = {0};
  assert_int_equal(refuse("GIF89a", 6, 99, "neither"), TD_BAD_FILE);
  assert_int_equal(refuse("", 0, 99, "neither"), TD_BAD_FILE);
  assert_false(fmt_image_sniff("\x89PNG", 4));
  made_file png = make_png(16, 16, SPNG_COLOR_TYPE_TRUECOLOR, 8, samples, 768);
  assert_true(fmt_image_sniff(png.bytes, png.size));
  assert_int_equal(refuse(png.bytes, png.size, 255, "16 x 16"), TD_BAD_FILE);
  assert_int_equal(refuse(png.bytes, png.size - 24, 256, "damaged"), TD_BAD_FILE);
  free(png.bytes);
  made_file cmyk = make_jpeg(16, 16, 4, false, samples);
  assert_int_equal(refuse(cmyk.bytes, cmyk.size, 256, "CMYK"), TD_UNSUPPORTED);
  free(cmyk.bytes);
  for (int progressive = 0; progressive < 2; progressive++) {
    made_file jpeg = make_jpeg(16, 16, 3, progressive, samples);
    assert_int_equal(refuse(jpeg.bytes, jpeg.size, 255, "16 x 16"), TD_BAD_FILE);
    assert_int_equal(refuse(jpeg.bytes, jpeg.size - 4, 256, "cut short"), TD_BAD_FILE);
    assert_int_equal(refuse(jpeg.bytes, 20, 256, "JPEG"), TD_BAD_FILE);
    free(jpeg.bytes);
  }
}

/* A header that claims 8192 x 8192 pixels over a file of 60 bytes: no memory is taken for them. */
static void a_lying_header_takes_no_memory(void **state) {
  (void)state;
  static const uint8_t lie[] =
      "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x20\0\0\0\x20\0\x08\x02\0\0\0\xdf\x73\x44\x76\0\0\0\0IDAT\x35\xaf\x06\x1e";
  base_counting counting = {.inner = &base_libc_allocator};
  td_allocator allocator = base_counting_allocator(&counting);
  base_arena *arena = base_arena_new(&allocator);
  fmt_image image;
  assert_int_equal(fmt_image_decode(arena, lie, sizeof lie - 1, INT64_MAX, &image, NULL), TD_BAD_FILE);
  assert_true(counting.peak_bytes < 1 << 20);
  base_arena_free(arena);
}

static td_status read_picture(const td_allocator *allocator, const uint8_t *bytes, size_t size, td_error *err) {
  base_arena *arena = base_arena_new(allocator);
  if (!arena) return base_no_memory(err, "an arena");
  fmt_image image;
  base_tensor tensor;
  td_status status = fmt_image_decode(arena, bytes, size, 1 << 16, &image, err);
  if (status == TD_OK) status = fmt_image_preprocess(arena, &image, "efficientnet_lite", NULL, &tensor, err);
  base_arena_free(arena);
  return status;
}

static void damage_and_lack_of_memory_are_errors(void **state) {
  (void)state;
  uint8_t samples[9 * 3 * 3];
  for (size_t i = 0; i < sizeof samples; i++) samples[i] = (uint8_t)(i * 37);
  const made_file files[] = {make_png(9, 3, SPNG_COLOR_TYPE_TRUECOLOR, 8, samples, sizeof samples),
                             make_png(9, 3, SPNG_COLOR_TYPE_INDEXED, 8, (uint8_t[27]){1, 0, 1}, 27),
                             make_jpeg(9, 3, 3, true, samples)};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    for (size_t cut = 0; cut < files[i].size; cut++) read_exact(read_picture, files[i].bytes, cut);
    for (size_t at = 0; at < files[i].size; at++) {
      files[i].bytes[at] ^= 0xff;
      read_exact(read_picture, files[i].bytes, files[i].size);
      files[i].bytes[at] ^= 0xff;
    }
    read_without_memory(read_picture, files[i].bytes, files[i].size);
    free(files[i].bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_form_of_png_becomes_rgb),        cmocka_unit_test(every_form_of_jpeg_becomes_rgb),
      cmocka_unit_test(what_is_no_picture_is_refused),        cmocka_unit_test(a_lying_header_takes_no_memory),
      cmocka_unit_test(damage_and_lack_of_memory_are_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
