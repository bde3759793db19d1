/* pack_winograd.c -- transforming and packing weights. A panel's channels are transformed side by side: loops over them
 * are the inner ones, and of constant length, so that compilers make vectors of them. */
#include "kernels/pack_winograd.h"

#include <math.h>
#include <string.h>

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

/* At point x a row of G is 1, x, x^2 over the product of x's distances to the other points. */
static const double p1 = KERN_WINOGRAD_P, p2 = KERN_WINOGRAD_P * KERN_WINOGRAD_P;
static const double q1 = KERN_WINOGRAD_Q, q2 = KERN_WINOGRAD_Q * KERN_WINOGRAD_Q;

static void transform_4(const channels *a, const channels *b, const channels *c, channels *to) {
  const double at_0 = 1 / (p2 * q2), at_p = 1 / (2 * p2 * (p2 - q2)), at_q = 1 / (2 * q2 * (q2 - p2));
  for (int i = 0; i < WIDE; i++) {
    double even_p = ((*a)[i] + p2 * (*c)[i]) * at_p, odd_p = p1 * (*b)[i] * at_p;
    double even_q = ((*a)[i] + q2 * (*c)[i]) * at_q, odd_q = q1 * (*b)[i] * at_q;
    to[0][i] = (*a)[i] * at_0;
    to[1][i] = even_p + odd_p;
    to[2][i] = even_p - odd_p;
    to[3][i] = even_q + odd_q;
    to[4][i] = even_q - odd_q;
    to[5][i] = (*c)[i];
  }
}

typedef void transform(const channels *a, const channels *b, const channels *c, channels *to);
static transform *transform_of(int64_t tile) { return tile == 2 ? transform_2 : transform_4; }

/* Channels in, of all planes of the kernel. */
static int64_t inputs_of(const base_tensor *w) { return w->dims[1] * (w->rank > 4 ? w->dims[2] : 1); }

/* The 3x3 kernels of up to WIDE channels, `step` apart, times their `scale` (NULL: 1); of the missing ones, zeros. */
static void gather(const base_tensor *w, const base_f32 *scale, int64_t first, int64_t step, int64_t in,
                   channels kernel[3][3]) {
  int64_t count = base_min_i64((w->dims[0] - first + step - 1) / step, WIDE);
  int64_t row = w->strides[w->rank - 2], column = w->strides[w->rank - 1];
  const base_f32 *from = (const base_f32 *)w->data + first * w->strides[0] + in % w->dims[1] * w->strides[1];
  if (w->rank > 4) from += in / w->dims[1] * w->strides[2];
  for (int r = 0; r < 3; r++)
    for (int c = 0; c < 3; c++)
      for (int64_t i = 0; i < WIDE; i++)
        kernel[r][c][i] = i < count ? (double)from[i * step * w->strides[0] + r * row + c * column] : 0;
  if (!scale) return;
  channels factor = {0};
  for (int64_t i = 0; i < count; i++) factor[i] = (double)scale[first + i * step];
  for (int k = 0; k < 9; k++)
    for (int i = 0; i < WIDE; i++) kernel[k / 3][k % 3][i] *= factor[i];
}

void kern_pack_winograd(const base_tensor *w, const base_f32 *scale, int64_t tile, int64_t panel, float *to) {
  transform *const turn = transform_of(tile);
  int64_t side = tile + 2, in = inputs_of(w), panels = (w->dims[0] + panel - 1) / panel;
  int64_t plane = panels * in * panel; /* floats of one element of U */
  for (int64_t p = 0; p < panels; p++)
    for (int64_t k = 0; k < in; k++)
      for (int64_t part = 0; part < panel; part += WIDE) {
        channels kernel[3][3], rows[3][SIDE], u[SIDE];
        gather(w, scale, p * panel + part, 1, k, kernel);
        for (int r = 0; r < 3; r++) turn(&kernel[r][0], &kernel[r][1], &kernel[r][2], rows[r]);
        int64_t count = base_min_i64(panel - part, WIDE);
        for (int64_t c = 0; c < side; c++) {
          turn(&rows[0][c], &rows[1][c], &rows[2][c], u);
          for (int64_t r = 0; r < side; r++) {
            float *at = to + (r * side + c) * plane + (p * in + k) * panel + part;
            for (int64_t i = 0; i < count; i++) at[i] = (float)u[r][i];
          }
        }
      }
}

/* ---- how near ---- */

/* What noise of size 1 has, squared, in the transformed inputs: sums of squares along the rows of Bt. */
static void spread_in(int64_t tile, double *to) {
  const double far = p2 * p2 * q2 * q2 + (p2 + q2) * (p2 + q2) + 1;
  const double at_p = (1 + p2) * (1 + q2 * q2), at_q = (1 + q2) * (1 + p2 * p2);
  const double rows[][SIDE] = {{2, 2, 2, 2}, {far, at_p, at_p, at_q, at_q, far}};
  memcpy(to, rows[tile == 4], sizeof rows[0]);
}

/* How much of a sum's error, squared, reaches the outputs: sums of squares along the columns of At. */
static void spread_out(int64_t tile, double *to) {
  const double at_p = 1 + p2 + p2 * p2 + p2 * p2 * p2, at_q = 1 + q2 + q2 * q2 + q2 * q2 * q2;
  const double columns[][SIDE] = {{1, 2, 2, 1}, {1, at_p, at_p, at_q, at_q, 1}};
  memcpy(to, columns[tile == 4], sizeof columns[0]);
}

static const double transform_roundings = 10; /* of weights, inputs and sums, in those of a step along the channels */

/* Squares, in units of a rounding: of the partial sums of each element along the channels, and of those of plain sums
 * of the same weights. */
typedef struct sums {
  channels whole[SIDE * SIDE], partial[SIDE * SIDE], plain_whole, plain_partial;
} sums;

static void add_input(sums *s, channels kernel[3][3], transform *turn, int64_t side) {
  channels rows[3][SIDE], u[SIDE];
  for (int r = 0; r < 3; r++) {
    turn(&kernel[r][0], &kernel[r][1], &kernel[r][2], rows[r]);
    for (int c = 0; c < 3; c++)
      for (int i = 0; i < WIDE; i++) {
        s->plain_whole[i] += kernel[r][c][i] * kernel[r][c][i];
        s->plain_partial[i] += kernel[r][c][i] != 0 ? s->plain_whole[i] : 0;
      }
  }
  for (int64_t c = 0; c < side; c++) {
    turn(&rows[0][c], &rows[1][c], &rows[2][c], u);
    for (int64_t r = 0; r < side; r++)
      for (int i = 0; i < WIDE; i++) {
        s->whole[r * side + c][i] += u[r][i] * u[r][i];
        s->partial[r * side + c][i] += s->whole[r * side + c][i];
      }
  }
}

/* The mean square error over a tile's outputs, of the channel in lane i. */
static double mean_error(const sums *s, int64_t tile, int i) {
  const int64_t side = tile + 2;
  double in[SIDE], out[SIDE], all = 0;
  spread_in(tile, in);
  spread_out(tile, out);
  for (int64_t r = 0; r < side; r++)
    for (int64_t c = 0; c < side; c++) {
      const int64_t at = r * side + c;
      all += out[r] * out[c] * in[r] * in[c] * (s->partial[at][i] + transform_roundings * s->whole[at][i]);
    }
  return all / (double)(tile * tile);
}

double kern_winograd_error(const base_tensor *w, int64_t tile) {
  enum { MOST = 2 * WIDE };
  const int64_t step = (w->dims[0] + MOST - 1) / MOST;
  double worst = 0;
  for (int64_t first = 0; first < w->dims[0]; first += step * WIDE) {
    sums s = {0};
    for (int64_t k = 0; k < inputs_of(w); k++) {
      channels kernel[3][3];
      gather(w, NULL, first, step, k, kernel);
      add_input(&s, kernel, transform_of(tile), tile + 2);
    }
    for (int i = 0; i < WIDE; i++)
      if (!isfinite(s.plain_partial[i])) return INFINITY;
      else if (s.plain_partial[i] > 0) worst = fmax(worst, mean_error(&s, tile, i) / s.plain_partial[i]);
  }
  return sqrt(worst);
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

/* The tiles of a plane. */
static double tiles_of(const kern_winograd_layer *l, int64_t tile) {
  double h = (double)l->dilation[0], w = (double)l->dilation[1], t = (double)tile;
  return h * w * ceil(ceil((double)l->height / h) / t) * ceil(ceil((double)l->width / w) / t);
}

static double winograd_cost(const kern_winograd_layer *l, int64_t tile, double out) {
  double elements = (double)((tile + 2) * (tile + 2)), in = (double)l->channels_in, depth = (double)l->depth * in;
  double tiles = (double)l->planes * tiles_of(l, tile), products = tiles * elements * out;
  return products * (depth + sum_cost) / product_share + tiles * elements * (in + out) * element_cost +
         elements * depth * out * sizeof(float) * byte_cost + step_cost;
}

/* Of the taps along an axis, the share that td::conv does: where a window reaches past the image on either side, those
 * that lie outside are left out. */
static double live_share(int64_t size, int64_t dilation) {
  return 4 * dilation < size ? 1 : 1 - fmin((double)dilation / (double)size, 1) * 2 / 3;
}

static double direct_cost(const kern_winograd_layer *l, double out) {
  double weights = 9 * (double)l->depth * (double)l->channels_in * out;
  double live = live_share(l->height, l->dilation[0]) * live_share(l->width, l->dilation[1]);
  double pixels = (double)l->planes * (double)l->height * (double)l->width;
  return pixels * live * weights / direct_share + weights * sizeof(float) * byte_cost;
}

/* What tile 2 or 4 saves of td::conv's time; 0: too little to be worth its rounding. */
static double saving(const kern_winograd_layer *l, int64_t panel, int64_t tile) {
  const int64_t few = 16; /* channels, below which a tile's products are too short */
  if (l->planes < 1 || l->height < 1 || l->width < 1 || l->channels_in < few || l->channels < few || l->depth < 1 ||
      l->depth > KERN_WINOGRAD_DEPTH || panel < 1)
    return 0;
  double out = ceil((double)l->channels / (double)panel) * (double)panel;
  double direct = direct_cost(l, out), cost = winograd_cost(l, tile, out);
  return cost > gain * direct ? 0 : direct - cost;
}

int64_t kern_winograd_tile(const kern_winograd_layer *l, int64_t panel, int64_t widest) {
  double two = saving(l, panel, 2), four = widest < 4 ? 0 : saving(l, panel, 4);
  return fmax(two, four) <= 0 ? 0 : four >= two ? 4 : 2;
}

/* ---- which layers, where memory is short ---- */

static double more_bytes(const kern_winograd_layer *l, int64_t tile) {
  double weights = (double)l->depth * (double)l->channels_in * (double)l->channels;
  return tile ? weights * (double)((tile + 2) * (tile + 2) - 9) * sizeof(float) : 0;
}

/* What a byte saves where the choice moves on to `tile`; 0: nothing, or there is no room. */
static double worth(const kern_winograd_choice *c, int64_t tile, double room) {
  double bytes = more_bytes(&c->layer, tile) - more_bytes(&c->layer, c->tile);
  if (tile <= c->tile || tile > c->widest || bytes > room) return 0;
  double before = c->tile ? saving(&c->layer, c->panel, c->tile) : 0;
  return (saving(&c->layer, c->panel, tile) - before) / fmax(bytes, 1);
}

void kern_winograd_choose(kern_winograd_choice *choices, uint32_t count, double bytes) {
  for (uint32_t i = 0; i < count; i++) choices[i].tile = 0;
  for (;;) {
    double most = 0;
    uint32_t best = 0;
    int64_t best_tile = 0;
    for (uint32_t i = 0; i < count; i++)
      for (int64_t tile = 2; tile <= 4; tile += 2) {
        double now = worth(&choices[i], tile, bytes);
        if (now > most) most = now, best = i, best_tile = tile;
      }
    if (!best_tile) return;
    bytes -= more_bytes(&choices[best].layer, best_tile) - more_bytes(&choices[best].layer, choices[best].tile);
    choices[best].tile = best_tile;
  }
}
