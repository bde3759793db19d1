/* image_resize.c -- resampling as Pillow does it (its Resample.c defines the numbers): separable, rows first, weights
 * normalised in double and rounded to 22 fractional bits, sums rounded to 8 bits after each direction. */
#include "fmt/image.h"

#include <math.h>

enum { WEIGHT_BITS = 22 };

static double bilinear(double x) {
  x = fabs(x);
  return x < 1 ? 1 - x : 0;
}

/* Keys 1981, a = -0.5. */
static double bicubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

typedef struct filter_row {
  double support; /* the filter is zero beyond */
  double (*at)(double x);
} filter_row;

static const filter_row filters[] = {[FMT_BILINEAR] = {1, bilinear}, [FMT_BICUBIC] = {2, bicubic}};

/* What one direction needs: output i is the sum of `count[i]` inputs from `first[i]` times weights[i * taps ...]. The
 * outputs are those from `begin` on of all that the direction has. */
typedef struct resampling {
  int32_t begin, outputs, taps;
  int32_t *first, *count, *weights;
} resampling;

/* The weights of one output: `values` has room for them in double. */
static void weigh(const filter_row *filter, int32_t from, double scale, double stretch, int32_t i, double *values,
                  resampling *r) {
  double support = filter->support * stretch, center = (r->begin + i + 0.5) * scale, sum = 0;
  int32_t first = (int32_t)fmax(center - support + 0.5, 0);
  int32_t end = (int32_t)fmin(center + support + 0.5, from);
  for (int32_t k = 0; k < end - first; k++) sum += values[k] = filter->at((k + first - center + 0.5) * (1 / stretch));
  for (int32_t k = 0; k < end - first; k++) {
    double weight = sum != 0 ? values[k] / sum : values[k];
    r->weights[(int64_t)i * r->taps + k] = (int32_t)(weight * (1 << WEIGHT_BITS) + (weight < 0 ? -0.5 : 0.5));
  }
  r->first[i] = first;
  r->count[i] = end - first;
}

static bool resampling_make(base_arena *arena, int32_t from, int32_t to, fmt_filter kind, int32_t begin,
                            int32_t outputs, resampling *r) {
  const filter_row *filter = &filters[kind];
  double scale = (double)from / to, stretch = scale < 1 ? 1 : scale;
  *r = (resampling){.begin = begin, .outputs = outputs, .taps = (int32_t)ceil(filter->support * stretch) * 2 + 1};
  r->first = base_new(arena, int32_t, (size_t)outputs);
  r->count = base_new(arena, int32_t, (size_t)outputs);
  r->weights = base_new(arena, int32_t, (size_t)outputs * (size_t)r->taps);
  double *values = base_new(arena, double, (size_t)r->taps);
  if (!r->first || !r->count || !r->weights || !values) return false;
  for (int32_t i = 0; i < outputs; i++) weigh(filter, from, scale, stretch, i, values, r);
  return true;
}

/* A sum of bytes times weights fits 32 bits: the weights' absolute values add up to less than twice 1 << WEIGHT_BITS.
 */
static uint8_t rounded(int32_t sum) {
  sum = sum < 0 ? 0 : sum >> WEIGHT_BITS;
  return (uint8_t)(sum > 255 ? 255 : sum);
}

/* Rows `top`, top + 1, ... of `from`. */
static void resample_rows(const fmt_image *from, int32_t top, const resampling *r, const fmt_image *to) {
  for (int32_t y = 0; y < to->height; y++) {
    for (int32_t x = 0; x < to->width; x++) {
      const uint8_t *at = from->rgb + (top + y) * from->stride + 3 * (int64_t)r->first[x];
      const int32_t *weights = r->weights + (int64_t)x * r->taps;
      int32_t red = 1 << (WEIGHT_BITS - 1), green = red, blue = red;
      for (int32_t k = 0; k < r->count[x]; k++) {
        red += at[3 * k] * weights[k];
        green += at[3 * k + 1] * weights[k];
        blue += at[3 * k + 2] * weights[k];
      }
      uint8_t *put = to->rgb + y * to->stride + 3 * (int64_t)x;
      put[0] = rounded(red);
      put[1] = rounded(green);
      put[2] = rounded(blue);
    }
  }
}

/* One row of `count` bytes, a tile of sums at a time, so that neighbours are summed side by side. */
static void resample_row(const uint8_t *at, int64_t stride, const int32_t *weights, int32_t taps, int64_t count,
                         uint8_t *put) {
  enum { TILE = 256 };
  int32_t sums[TILE];
  for (int64_t begin = 0; begin < count; begin += TILE) {
    const int64_t width = count - begin < TILE ? count - begin : TILE;
    for (int64_t x = 0; x < width; x++) sums[x] = 1 << (WEIGHT_BITS - 1);
    for (int32_t k = 0; k < taps; k++) {
      const uint8_t *row = at + k * stride + begin;
      for (int64_t x = 0; x < width; x++) sums[x] += row[x] * weights[k];
    }
    for (int64_t x = 0; x < width; x++) put[begin + x] = rounded(sums[x]);
  }
}

/* `from` holds the rows from `top` on. */
static void resample_columns(const fmt_image *from, int32_t top, const resampling *r, const fmt_image *to) {
  for (int32_t y = 0; y < to->height; y++)
    resample_row(from->rgb + (r->first[y] - top) * from->stride, from->stride, r->weights + (int64_t)y * r->taps,
                 r->count[y], 3 * (int64_t)to->width, to->rgb + y * to->stride);
}

static bool make(base_arena *arena, int32_t width, int32_t height, fmt_image *image) {
  *image = (fmt_image){.width = width, .height = height, .stride = 3 * (int64_t)width};
  image->rgb = base_arena_alloc(arena, (size_t)image->stride * (size_t)height);
  return image->rgb != NULL;
}

/* A direction whose size stays has the weight 1 and nothing else: its samples come out as they are. */
static bool resize(base_arena *arena, base_arena *scratch, const fmt_image *image, int32_t width, int32_t height,
                   fmt_filter filter, const fmt_window *window, fmt_image *resized) {
  resampling across, down;
  fmt_image rows;
  if (!resampling_make(scratch, image->width, width, filter, window->left, window->width, &across) ||
      !resampling_make(scratch, image->height, height, filter, window->top, window->height, &down))
    return false;
  int32_t last = window->height - 1, top = down.first[0], end = down.first[last] + down.count[last];
  if (!make(scratch, window->width, end - top, &rows) || !make(arena, window->width, window->height, resized))
    return false;
  resample_rows(image, top, &across, &rows);
  resample_columns(&rows, top, &down, resized);
  return true;
}

td_status fmt_image_resize_window(base_arena *arena, const fmt_image *image, int32_t width, int32_t height,
                                  fmt_filter filter, const fmt_window *window, fmt_image *resized, td_error *err) {
  bool inside = width >= 1 && height >= 1 && window->left >= 0 && window->top >= 0 && window->width >= 1 &&
                window->height >= 1 && window->left <= width - window->width && window->top <= height - window->height;
  if (!inside || base_max_i64(window->height, image->height) > FMT_IMAGE_MOST_PIXELS / window->width)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "a picture of %d x %d cannot be resized to %d x %d: too small or too large", image->width,
                     image->height, width, height);
  base_arena *scratch = base_arena_new(base_arena_allocator(arena));
  bool made = scratch && resize(arena, scratch, image, width, height, filter, window, resized);
  base_arena_free(scratch);
  return made ? TD_OK : base_no_memory(err, "a resized picture");
}

td_status fmt_image_resize(base_arena *arena, const fmt_image *image, int32_t width, int32_t height, fmt_filter filter,
                           fmt_image *resized, td_error *err) {
  fmt_window whole = {0, 0, width, height};
  return fmt_image_resize_window(arena, image, width, height, filter, &whole, resized, err);
}
