/* pack_winograd.c -- transforming and packing weights on any CPU (packing.h has levels' own), how near the result is,
 * and which tile pays. */
#define WEIGHTS_LANES 2
#include "kernels/products/winograd_weights_priv.h"

#include <math.h>
#include <string.h>

enum { SIDE = WEIGHTS_SIDE, LANES = WEIGHTS_LANES };

bool kern_winograd_packed_size(int64_t tile, int64_t groups, int64_t out, int64_t in, int64_t panel, int64_t *count) {
  if (groups < 1 || out < 0 || in < 0 || panel < 1 || out > INT64_MAX - panel) return false;
  const int64_t shared = kern_conv_shared(false, groups, out, in, panel);
  return base_mul_i64((out + panel - 1) / panel, panel, count) && base_mul_i64(*count, in, count) &&
         base_mul_i64(*count, groups / shared, count) && base_mul_i64(*count, (tile + 2) * (tile + 2), count);
}

/* Channels in, of all planes of the kernel. */
static int64_t inputs_of(const base_tensor *w) { return w->dims[1] * (w->rank > 4 ? w->dims[2] : 1); }

/* The 3x3 kernels of up to LANES channels below `end`, every `step`-th, times their `scale` (NULL: 1); of the missing
 * ones, zeros. */
static void gather(const base_tensor *w, const base_f32 *scale, int64_t first, int64_t end, int64_t step, int64_t in,
                   weights_lanes kernel[9]) {
  int64_t count = base_min_i64((end - first + step - 1) / step, LANES);
  int64_t row = w->strides[w->rank - 2], column = w->strides[w->rank - 1];
  const base_f32 *from = (const base_f32 *)w->data + first * w->strides[0] + in % w->dims[1] * w->strides[1];
  if (w->rank > 4) from += in / w->dims[1] * w->strides[2];
  for (int i = 0; i < LANES; i++) {
    const base_f32 *own = from + i * step * w->strides[0];
    const double factor = scale && i < count ? (double)scale[first + i * step] : 1;
    for (int k = 0; k < 9; k++) kernel[k][i] = i < count ? (double)own[k / 3 * row + k % 3 * column] * factor : 0;
  }
}

void kern_pack_winograd(const base_tensor *w, const base_f32 *scale, int64_t groups, int64_t tile, int64_t panel,
                        float *to) {
  const int64_t side = tile + 2, in = inputs_of(w);
  const int64_t products = groups / kern_conv_shared(false, groups, w->dims[0] / groups, in, panel);
  const int64_t out = w->dims[0] / products, panels = (out + panel - 1) / panel;
  const int64_t plane = products * panels * in * panel; /* floats of one element of U */
  for (int64_t p = 0; p < products * panels; p++)
    for (int64_t k = 0; k < in; k++)
      for (int64_t part = 0; part < panel; part += LANES) {
        const int64_t product = p / panels, first = product * out + p % panels * panel + part;
        weights_lanes kernel[9], u[WEIGHTS_ELEMENTS];
        gather(w, scale, first, (product + 1) * out, 1, k, kernel);
        weights_transform(kernel, u, tile);
        int64_t count = base_min_i64(panel - part, LANES);
        for (int64_t e = 0; e < side * side; e++) {
          float *at = to + e * plane + (p * in + k) * panel + part;
          for (int64_t i = 0; i < count; i++) at[i] = kern_normal((float)u[e][i]);
        }
      }
}

/* ---- how near ---- */

static const double p2 = KERN_WINOGRAD_P * KERN_WINOGRAD_P, q2 = KERN_WINOGRAD_Q * KERN_WINOGRAD_Q;

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
  weights_lanes whole[SIDE * SIDE], partial[SIDE * SIDE], plain_whole, plain_partial;
} sums;

static void add_input(sums *s, const weights_lanes kernel[9], int64_t tile) {
  const int64_t side = tile + 2;
  weights_lanes u[WEIGHTS_ELEMENTS];
  for (int k = 0; k < 9; k++) {
    const weights_lanes one = kernel[k];
    s->plain_whole += one * one;
    for (int i = 0; i < LANES; i++) s->plain_partial[i] += one[i] != 0 ? s->plain_whole[i] : 0;
  }
  weights_transform(kernel, u, tile);
  for (int64_t e = 0; e < side * side; e++) {
    const weights_lanes one = u[e];
    s->whole[e] += one * one;
    s->partial[e] += s->whole[e];
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
  enum { MOST = 32 };
  const int64_t step = (w->dims[0] + MOST - 1) / MOST;
  double worst = 0;
  for (int64_t first = 0; first < w->dims[0]; first += step * LANES) {
    sums s = {0};
    for (int64_t k = 0; k < inputs_of(w); k++) {
      weights_lanes kernel[9];
      gather(w, NULL, first, w->dims[0], step, k, kernel);
      add_input(&s, kernel, tile);
    }
    for (int i = 0; i < LANES; i++)
      if (!isfinite(s.plain_partial[i])) return INFINITY;
      else if (s.plain_partial[i] > 0) worst = fmax(worst, mean_error(&s, tile, i) / s.plain_partial[i]);
  }
  return sqrt(worst);
}

/* ---- which tile ---- */

/* All in multiply-adds at the peak of a core; measured on Zen 4 with AVX-512 and AVX2 and on Zen 5, at 64 to 512
 * channels, and at 8 to 128 of a group, of 56x56 to 7x7. */
static const double direct_share = 0.92, product_share = 0.97; /* of the peak */
static const double shared_share = 0.55;                       /* of td::conv where groups share panels */
static const double sum_cost = 6;                              /* of writing a sum of a product and reading it again */
static const double element_cost = 10;                         /* of an element of a transform, on either side */
static const double byte_cost = 5.5;    /* of weights from memory, which the sums hide if they take longer */
static const double step_cost = 200000; /* of what is between the tasks */
static const double gain = 0.85;        /* largest share of the other time for which its rounding is accepted */

/* The tiles of a plane. */
static double tiles_of(const kern_winograd_layer *l, int64_t tile) {
  double h = (double)l->dilation[0], w = (double)l->dilation[1], t = (double)tile;
  return h * w * ceil(ceil((double)l->height / h) / t) * ceil(ceil((double)l->width / w) / t);
}

static double winograd_cost(const kern_winograd_layer *l, int64_t tile, double out) {
  double elements = (double)((tile + 2) * (tile + 2)), in = (double)l->channels_in, depth = (double)l->depth * in;
  double tiles = (double)l->planes * tiles_of(l, tile), products = tiles * elements * out;
  return fmax(products * (depth + sum_cost) / product_share, elements * depth * out * sizeof(float) * byte_cost) +
         tiles * elements * (in * (double)l->groups + out) * element_cost + step_cost;
}

/* Of the taps along an axis, the share that td::conv does: where a window reaches past the image on either side, those
 * that lie outside are left out. */
static double live_share(int64_t size, int64_t dilation) {
  return 4 * dilation < size ? 1 : 1 - fmin((double)dilation / (double)size, 1) * 2 / 3;
}

static double direct_cost(const kern_winograd_layer *l, double out, double share) {
  double weights = 9 * (double)l->depth * (double)l->channels_in * out;
  double live = live_share(l->height, l->dilation[0]) * live_share(l->width, l->dilation[1]);
  double pixels = (double)l->planes * (double)l->height * (double)l->width;
  return fmax(pixels * live * weights / share, weights * (double)l->direct_bytes * byte_cost);
}

/* What tile 2 or 4 saves of td::conv's time; 0: too little for its rounding. */
static double saving(const kern_winograd_layer *l, int64_t panel, int64_t tile) {
  if (l->planes < 1 || l->height < 1 || l->width < 1 || l->channels_in < 1 || l->channels < 1 || l->depth < 1 ||
      l->depth > KERN_WINOGRAD_DEPTH || l->groups < 1 || panel < 1)
    return 0;
  const int64_t shared = kern_conv_shared(false, l->groups, l->channels, l->depth * l->channels_in, panel);
  const int64_t few = shared > 1 ? 8 : 16; /* channels, below which a tile's products are too short */
  if (l->channels_in < few || l->channels < few) return 0;
  double out = (double)(l->groups / shared) * ceil((double)l->channels / (double)panel) * (double)panel;
  const double share = (shared > 1 ? shared_share : direct_share) * l->direct_speed;
  double direct = direct_cost(l, out, share), cost = winograd_cost(l, tile, out);
  return cost > gain * direct ? 0 : direct - cost;
}

int64_t kern_winograd_tile(const kern_winograd_layer *l, int64_t panel, int64_t widest) {
  double two = saving(l, panel, 2), four = widest < 4 ? 0 : saving(l, panel, 4);
  return fmax(two, four) <= 0 ? 0 : four >= two ? 4 : 2;
}

/* ---- which layers, where memory is short ---- */

static double more_bytes(const kern_winograd_layer *l, int64_t tile) {
  double weights = (double)l->depth * (double)l->channels_in * (double)(l->groups * l->channels);
  return tile ? weights * (double)((tile + 2) * (tile + 2) - 9) * sizeof(float) : 0;
}

/* What a byte saves where the choice moves on to `tile`; 0: nothing, or there is no room. */
static double saving_per_byte(const kern_winograd_choice *c, int64_t tile, double room) {
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
        double now = saving_per_byte(&choices[i], tile, bytes);
        if (now > most) most = now, best = i, best_tile = tile;
      }
    if (!best_tile) return;
    bytes -= more_bytes(&choices[best].layer, best_tile) - more_bytes(&choices[best].layer, choices[best].tile);
    choices[best].tile = best_tile;
  }
}
