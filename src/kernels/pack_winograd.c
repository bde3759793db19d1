/* pack_winograd.c -- transforming and packing weights. A panel's channels are transformed side by side: loops over them
 * are the inner ones, and of constant length, so that compilers make vectors of them. */
#include "kernels/pack_winograd.h"

#include <math.h>

enum { SIDE = 6, WIDE = 16 }; /* elements of a transformed row at most; channels side by side */
typedef double channels[WIDE];

bool kern_winograd_packed_size(int64_t tile, int64_t out, int64_t in, int64_t panel, int64_t *count) {
  if (out < 0 || in < 0 || panel < 1 || out > INT64_MAX - panel) return false;
  return base_mul_i64((out + panel - 1) / panel, panel, count) && base_mul_i64(*count, in, count) &&
         base_mul_i64(*count, (tile + 2) * (tile + 2), count);
}

/* to = G from, of vectors of 3. */
static void transform_2(const channels *a, const channels *b, const channels *c, channels *to) {
  for (int i = 0; i < WIDE; i++) {
    double sum = (*a)[i] + (*c)[i];
    to[0][i] = (*a)[i];
    to[1][i] = (sum + (*b)[i]) * 0.5;
    to[2][i] = (sum - (*b)[i]) * 0.5;
    to[3][i] = (*c)[i];
  }
}

static void transform_4(const channels *a, const channels *b, const channels *c, channels *to) {
  for (int i = 0; i < WIDE; i++) {
    double sum = (*a)[i] + (*c)[i], wide = (*a)[i] * (1.0 / 24) + (*c)[i] * (1.0 / 6), odd = (*b)[i] * (1.0 / 12);
    to[0][i] = (*a)[i] * 0.25;
    to[1][i] = (sum + (*b)[i]) * (-1.0 / 6);
    to[2][i] = (sum - (*b)[i]) * (-1.0 / 6);
    to[3][i] = wide + odd;
    to[4][i] = wide - odd;
    to[5][i] = (*c)[i];
  }
}

/* The 3x3 kernels of up to WIDE channels; of the missing ones, zeros. */
static void gather(const base_tensor *w, int64_t first, int64_t in, channels kernel[3][3]) {
  int64_t count = base_min_i64(w->dims[0] - first, WIDE);
  const base_f32 *from = (const base_f32 *)w->data + first * w->strides[0] + in * w->strides[1];
  for (int r = 0; r < 3; r++)
    for (int c = 0; c < 3; c++)
      for (int64_t i = 0; i < WIDE; i++)
        kernel[r][c][i] = i < count ? (double)from[i * w->strides[0] + r * w->strides[2] + c * w->strides[3]] : 0;
}

void kern_pack_winograd(const base_tensor *w, int64_t tile, int64_t panel, float *to) {
  void (*transform)(const channels *, const channels *, const channels *, channels *) =
      tile == 2 ? transform_2 : transform_4;
  int64_t side = tile + 2, in = w->dims[1], panels = (w->dims[0] + panel - 1) / panel;
  int64_t plane = panels * in * panel; /* floats of one element of U */
  for (int64_t p = 0; p < panels; p++)
    for (int64_t k = 0; k < in; k++)
      for (int64_t part = 0; part < panel; part += WIDE) {
        channels kernel[3][3], rows[3][SIDE], u[SIDE];
        gather(w, p * panel + part, k, kernel);
        for (int r = 0; r < 3; r++) transform(&kernel[r][0], &kernel[r][1], &kernel[r][2], rows[r]);
        int64_t count = base_min_i64(panel - part, WIDE);
        for (int64_t c = 0; c < side; c++) {
          transform(&rows[0][c], &rows[1][c], &rows[2][c], u);
          for (int64_t r = 0; r < side; r++) {
            float *at = to + (r * side + c) * plane + (p * in + k) * panel + part;
            for (int64_t i = 0; i < count; i++) at[i] = (float)u[r][i];
          }
        }
      }
}

/* ---- which tile ---- */

/* All in multiply-adds at the peak of a core; measured on Zen 4 with AVX-512 and AVX2, at 64 to 512 channels of 56x56
 * to 7x7. */
static const double direct_share = 0.92, product_share = 0.97; /* of the peak */
static const double sum_cost = 3;                              /* of writing a sum of a product and reading it again */
static const double element_cost = 6;                          /* of an element of a transform, on either side */
static const double byte_cost = 1.85;   /* of weights from memory; in part this is hidden under the sums */
static const double step_cost = 200000; /* of what is between the tasks */
static const double gain = 0.85;        /* what the smaller time must be of the other one to be worth its rounding */

static double winograd_cost(int64_t tile, double height, double width, double in, double out) {
  double t = (double)tile, elements = (t + 2) * (t + 2);
  double tiles = ceil(height / t) * ceil(width / t), products = tiles * elements * out;
  return products * (in + sum_cost) / product_share + tiles * elements * (in + out) * element_cost +
         elements * in * out * sizeof(float) * byte_cost + step_cost;
}

int64_t kern_winograd_tile(int64_t height, int64_t width, int64_t in, int64_t out, int64_t panel) {
  const int64_t few = 16; /* channels, below which a tile's products are too short */
  if (height < 1 || width < 1 || in < few || out < few || panel < 1) return 0;
  double h = (double)height, w = (double)width, c = (double)in, m = ceil((double)out / (double)panel) * (double)panel;
  double direct = h * w * 9 * c * m / direct_share + 9 * c * m * sizeof(float) * byte_cost;
  double two = winograd_cost(2, h, w, c, m), four = winograd_cost(4, h, w, c, m);
  return fmin(two, four) > gain * direct ? 0 : four <= two ? 4 : 2;
}
