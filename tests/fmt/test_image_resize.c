/* Resampling and preprocessing against their definitions. */
#include <math.h>

#include "check.h"

/* ---- the definition, in double ---- */

static double kernel(fmt_filter filter, double x) {
  x = fabs(x);
  if (filter == FMT_BILINEAR) return x < 1 ? 1 - x : 0;
  if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
  return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

/* Output i of `to` over `from` samples that stand `step` bytes apart. */
static double defined_line(const uint8_t *samples, int64_t step, int from, int to, fmt_filter filter, int i) {
  double sum = 0, weights = 0, scale = (double)from / to, stretch = fmax(scale, 1);
  if (from == to) return samples[i * step];
  for (int k = 0; k < from; k++) {
    double w = kernel(filter, (k + 0.5 - (i + 0.5) * scale) / stretch);
    sum += w * samples[k * step];
    weights += w;
  }
  return fmin(fmax(sum / weights, 0), 255);
}

/* Rows are rounded to 8 bits before columns see them. */
static double defined(const fmt_image *image, int width, int height, fmt_filter filter, int x, int y, int channel) {
  uint8_t column[32];
  for (int r = 0; r < image->height; r++)
    column[r] =
        (uint8_t)lround(defined_line(image->rgb + r * image->stride + channel, 3, image->width, width, filter, x));
  return defined_line(column, 1, image->height, height, filter, y);
}

static fmt_image make_image(uint8_t *rgb, int width, int height) {
  uint32_t state = 12345;
  for (int i = 0; i < 3 * width * height; i++) {
    state = state * 1664525 + 1013904223;
    rgb[i] = (uint8_t)(state >> 24);
  }
  return (fmt_image){.width = width, .height = height, .stride = 3 * width, .rgb = rgb};
}

static void resizing_follows_the_definition(void **state) {
  (void)state;
  static const int sizes[][4] = {{8, 6, 8, 6}, {8, 6, 4, 3},  {8, 6, 5, 5}, {8, 6, 16, 12}, {7, 11, 3, 20},
                                 {1, 1, 4, 4}, {13, 9, 1, 1}, {5, 5, 5, 9}, {5, 5, 9, 5},   {24, 24, 7, 7}};
  uint8_t rgb[3 * 24 * 24];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int filter = FMT_BILINEAR; filter <= FMT_BICUBIC; filter++) {
      base_arena *arena = base_arena_new(&base_libc_allocator);
      fmt_image image = make_image(rgb, sizes[i][0], sizes[i][1]), resized;
      int width = sizes[i][2], height = sizes[i][3], uneven = 0;
      assert_int_equal(fmt_image_resize(arena, &image, width, height, (fmt_filter)filter, &resized, NULL), TD_OK);
      assert_int_equal(resized.width, width);
      assert_int_equal(resized.height, height);
      for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
          for (int c = 0; c < 3; c++) {
            double wanted = defined(&image, width, height, (fmt_filter)filter, x, y, c);
            double got = resized.rgb[y * resized.stride + 3 * x + c];
            /* Half a step of rounding; more where rows end halfway between two bytes and 22-bit weights decide. */
            uneven += fabs(got - wanted) > 0.51;
            if (fabs(got - wanted) > 1.51) fail_msg("%d x %d, at %d %d: %g, not %g", width, height, x, y, got, wanted);
          }
      assert_true(uneven * 20 <= 3 * width * height);
      base_arena_free(arena);
    }
}

/* By hand: halving 0 0 255 255 over 4 taps of the stretched triangle (1/8 3/8 3/8 1/8, cut and normalised at the
 * edges). */
static void halving_by_hand(void **state) {
  (void)state;
  uint8_t rgb[12] = {0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255};
  fmt_image image = {.width = 4, .height = 1, .stride = 12, .rgb = rgb}, resized;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  assert_int_equal(fmt_image_resize(arena, &image, 2, 1, FMT_BILINEAR, &resized, NULL), TD_OK);
  assert_int_equal(resized.rgb[0], 36);  /* 255 * (1/8) / (7/8) = 36.4 */
  assert_int_equal(resized.rgb[3], 219); /* 255 * (6/7) = 218.6 */
  base_arena_free(arena);
}

/* A window is the same part of the whole. */
static void a_window_is_a_part_of_the_whole(void **state) {
  (void)state;
  uint8_t rgb[3 * 24 * 24];
  fmt_image image = make_image(rgb, 24, 17), whole, part;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  fmt_window window = {5, 3, 7, 9};
  assert_int_equal(fmt_image_resize(arena, &image, 40, 13, FMT_BICUBIC, &whole, NULL), TD_OK);
  assert_int_equal(fmt_image_resize_window(arena, &image, 40, 13, FMT_BICUBIC, &window, &part, NULL), TD_OK);
  for (int y = 0; y < 9; y++)
    assert_memory_equal(part.rgb + y * part.stride, whole.rgb + (y + 3) * whole.stride + 3 * 5, 3 * 7);
  window.left = 34;
  assert_int_equal(fmt_image_resize_window(arena, &image, 40, 13, FMT_BICUBIC, &window, &part, NULL), TD_BAD_ARGUMENT);
  base_arena_free(arena);
}

static void absurd_sizes_are_refused(void **state) {
  (void)state;
  uint8_t rgb[3] = {1, 2, 3};
  fmt_image image = {.width = 1, .height = 1, .stride = 3, .rgb = rgb}, resized;
  fmt_image oblong = {.width = 1 << 24, .height = 1, .stride = 3 << 24, .rgb = rgb};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_tensor tensor;
  assert_int_equal(fmt_image_resize(arena, &image, 0, 1, FMT_BICUBIC, &resized, NULL), TD_BAD_ARGUMENT);
  assert_int_equal(fmt_image_resize(arena, &image, 1, -1, FMT_BICUBIC, &resized, NULL), TD_BAD_ARGUMENT);
  assert_int_equal(fmt_image_resize(arena, &image, INT32_MAX, INT32_MAX, FMT_BICUBIC, &resized, NULL), TD_BAD_ARGUMENT);
  assert_int_equal(fmt_image_preprocess(arena, &oblong, "imagenet", NULL, &tensor, NULL), TD_BAD_ARGUMENT);
  td_error err = {0};
  assert_int_equal(fmt_image_preprocess(arena, &image, "vgg", NULL, &tensor, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "imagenet, efficientnet_lite"));
  base_arena_free(arena);
}

static float value_at(const base_tensor *tensor, int channel, int y, int x) {
  return ((const float *)tensor->data)[(channel * 224 + y) * 224 + x];
}

/* Pictures whose pixels tell where they are, of sizes that are cut but not resized. */
static void presets_cut_the_centre(void **state) {
  (void)state;
  const struct {
    const char *preset;
    int width, height, left, top;
  } cases[] = {
      {"efficientnet_lite", 256, 256, 16, 16}, {"efficientnet_lite", 259, 256, 18, 16},
      {"efficientnet_lite", 256, 258, 16, 17}, {"efficientnet_lite", 257, 256, 17, 16},
      {"imagenet", 256, 256, 16, 16},          {"imagenet", 259, 256, 18, 16},
      {"imagenet", 257, 256, 16, 16},          {"imagenet", 256, 258, 16, 17},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    static uint8_t rgb[260 * 260 * 3];
    fmt_image image = {.width = cases[i].width, .height = cases[i].height, .stride = 3 * cases[i].width, .rgb = rgb};
    for (int y = 0; y < image.height; y++)
      for (int x = 0; x < image.width; x++) {
        uint8_t *pixel = rgb + y * image.stride + 3 * x;
        pixel[0] = (uint8_t)x;
        pixel[1] = (uint8_t)y;
        pixel[2] = 77;
      }
    base_arena *arena = base_arena_new(&base_libc_allocator);
    base_tensor tensor;
    assert_int_equal(fmt_image_preprocess(arena, &image, cases[i].preset, NULL, &tensor, NULL), TD_OK);
    assert_int_equal(tensor.rank, 4);
    assert_int_equal(base_tensor_numel(&tensor), 3 * 224 * 224);
    bool lite = cases[i].preset[0] == 'e';
    for (int x = 0; x < 224; x += 223) {
      float red = (float)(x + cases[i].left), green = (float)(x + cases[i].top);
      float wanted_red = lite ? (red - 127) / 128 : (red / 255 - 0.485f) / 0.229f;
      float wanted_green = lite ? (green - 127) / 128 : (green / 255 - 0.456f) / 0.224f;
      float wanted_blue = lite ? -50.0f / 128 : (77.0f / 255 - 0.406f) / 0.225f;
      assert_true(value_at(&tensor, 0, 5, x) == wanted_red);
      assert_true(value_at(&tensor, 1, x, 5) == wanted_green);
      assert_true(value_at(&tensor, 2, x, x) == wanted_blue);
    }
    base_arena_free(arena);
  }
}

static void a_single_pixel_fills_the_input(void **state) {
  (void)state;
  uint8_t rgb[3] = {255, 0, 127};
  const int64_t dims[] = {1, 3, 224, 224};
  const fmt_image_input input = {TD_F32, 4, dims};
  fmt_image image = {.width = 1, .height = 1, .stride = 3, .rgb = rgb};
  for (size_t i = 0; fmt_image_preset_name(i); i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    base_tensor tensor;
    assert_int_equal(fmt_image_preprocess(arena, &image, fmt_image_preset_name(i), &input, &tensor, NULL), TD_OK);
    for (int c = 0; c < 3; c++) assert_true(value_at(&tensor, c, 0, 0) == value_at(&tensor, c, 223, 223));
    base_arena_free(arena);
  }
}

/* What the input is tells sizes, order of axes, type and colours. */
static void inputs_tell_the_form(void **state) {
  (void)state;
  uint8_t rgb[4 * 2 * 3];
  for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(10 * i);
  const fmt_image image = {.width = 4, .height = 2, .stride = 12, .rgb = rgb};
  const struct {
    const char *preset;
    td_dtype dtype;
    int32_t rank;
    int64_t dims[4], want[4];
    int64_t at; /* an element, and what it is */
    double value;
  } cases[] = {
      {"raw", TD_F32, 4, {-1, 3, -1, -1}, {1, 3, 2, 4}, 3 + 8, 100 / 255.0},
      {"raw", TD_F32, 3, {3, -1, -1}, {3, 2, 4}, 3 + 8, 100 / 255.0},
      {"raw", TD_U8, 3, {-1, -1, -1}, {3, 2, 4}, 3 + 8, 100},
      {"raw", TD_U8, 4, {1, -1, -1, 3}, {1, 2, 4, 3}, 3 * 3 + 1, 100},
      {"raw", TD_I32, 3, {2, 4, 3}, {2, 4, 3}, 3 * 3 + 1, 100},
      {"raw", TD_U8, 3, {1, -1, -1}, {1, 2, 4}, 1, (30 * 19595 + 40 * 38470 + 50 * 7471 + 0x8000) >> 16},
      {"raw", TD_F64, 4, {1, 2, 4, 1}, {1, 2, 4, 1}, 0, ((10 * 38470 + 20 * 7471 + 0x8000) >> 16) / 255.0},
      {"imagenet", TD_F32, 4, {1, 3, 7, 14}, {1, 3, 7, 14}, 0, NAN},
      {"imagenet", TD_F32, 4, {1, 14, 7, 3}, {1, 14, 7, 3}, 0, NAN},
      {"efficientnet_lite", TD_F32, 4, {1, 3, 10, 20}, {1, 3, 10, 20}, 0, NAN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    const fmt_image_input input = {cases[i].dtype, cases[i].rank, cases[i].dims};
    base_tensor t;
    td_error err = {0};
    if (fmt_image_preprocess(arena, &image, cases[i].preset, &input, &t, &err) != TD_OK) fail_msg("%s", err.text);
    assert_int_equal(t.dtype, cases[i].dtype);
    assert_int_equal(t.rank, cases[i].rank);
    assert_memory_equal(t.dims, cases[i].want, sizeof *t.dims * (size_t)t.rank);
    if (!isnan(cases[i].value)) assert_true(fabs(base_load_f64(t.dtype, t.data, cases[i].at) - cases[i].value) < 1e-6);
    base_arena_free(arena);
  }
}

static void inputs_that_are_no_pictures(void **state) {
  (void)state;
  uint8_t rgb[3] = {0};
  const fmt_image image = {.width = 1, .height = 1, .stride = 3, .rgb = rgb};
  const struct {
    const char *preset, *says;
    td_dtype dtype;
    int32_t rank;
    int64_t dims[5];
  } cases[] = {
      {"raw", "another shape", TD_F32, 2, {3, 4}},
      {"raw", "another shape", TD_F32, 4, {2, 3, 4, 4}},
      {"raw", "another shape", TD_F32, 4, {1, 4, 4, 4}},
      {"raw", "another shape", TD_F32, 5, {1, 1, 3, 4, 4}},
      {"raw", "another shape", TD_F32, 0, {0}},
      {"raw", "no picture", TD_F32, 4, {1, 3, 0, 4}},
      {"raw", "no picture", TD_F32, 4, {1, 3, INT64_MAX, INT64_MAX}},
      {"imagenet", "needs raw", TD_U8, 4, {1, 3, 4, 4}},
      {"imagenet", "needs raw", TD_F32, 4, {1, 1, 28, 28}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    const fmt_image_input input = {cases[i].dtype, cases[i].rank, cases[i].dims};
    base_tensor t;
    td_error err = {0};
    assert_int_equal(fmt_image_preprocess(arena, &image, cases[i].preset, &input, &t, &err), TD_BAD_ARGUMENT);
    if (!strstr(err.text, cases[i].says)) fail_msg("%s", err.text);
    base_arena_free(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(resizing_follows_the_definition),
      cmocka_unit_test(halving_by_hand),
      cmocka_unit_test(absurd_sizes_are_refused),
      cmocka_unit_test(presets_cut_the_centre),
      cmocka_unit_test(a_window_is_a_part_of_the_whole),
      cmocka_unit_test(a_single_pixel_fills_the_input),
      cmocka_unit_test(inputs_tell_the_form),
      cmocka_unit_test(inputs_that_are_no_pictures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
