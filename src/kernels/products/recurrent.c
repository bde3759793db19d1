/* recurrent.c -- packing of recurrent weights. */
#include "kernels/products/recurrent.h"

#include "base/size.h"
#include "kernels/products/pack.h"

#include <string.h>

static bool count_of(const kern_recurrent *r, int64_t each, size_t *count) {
  int64_t n;
  if (r->directions < 0 || r->hidden < 0 || r->panel < 1 || each < 0) return false;
  int64_t panels = r->hidden / r->panel + (r->hidden % r->panel != 0);
  if (!base_mul_i64(r->directions, panels, &n) || !base_mul_i64(n, r->panel, &n) || !base_mul_i64(n, each, &n))
    return false;
  *count = (size_t)n;
  return true;
}

bool kern_recurrent_count(const kern_recurrent *r, int64_t k, size_t *count) {
  int64_t each;
  return base_mul_i64(r->gates, k, &each) && count_of(r, each, count);
}

enum { TILE_ROWS = KERN_RECURRENT_TILE_ROWS };
bool kern_recurrent_tile_count(const kern_recurrent *r, int64_t k, size_t *count) {
  return k >= 0 && k <= INT64_MAX - TILE_ROWS && kern_recurrent_count(r, kern_recurrent_tiled(k), count);
}

bool kern_recurrent_bias_count(const kern_recurrent *r, size_t *count) {
  return count_of(r, KERN_RECURRENT_BIASES, count);
}

bool kern_recurrent_peephole_count(const kern_recurrent *r, size_t *count) {
  return count_of(r, KERN_RECURRENT_PEEPHOLES, count);
}

static float element(const base_tensor *t, int64_t offset) { return ((const base_f32 *)t->data)[offset]; }

int64_t kern_recurrent_columns(const kern_recurrent *r) {
  return r->directions * r->gates * ((r->hidden + r->panel - 1) / r->panel * r->panel);
}

int64_t kern_recurrent_row(const kern_recurrent *r, int64_t column) {
  const int64_t of_direction = kern_recurrent_columns(r) / r->directions, wide = r->gates * r->panel;
  const int64_t at = column % of_direction, unit = at / wide * r->panel + at % r->panel, gate = at % wide / r->panel;
  return unit < r->hidden ? (column / of_direction * r->gates + gate) * r->hidden + unit : -1;
}

bool kern_recurrent_bytes(const kern_recurrent *r, int64_t k, int64_t depth, kern_i8_layout *l) {
  size_t count;
  bool depthwise;
  if (!kern_recurrent_count(r, k, &count) || r->directions < 1) return false;
  const kern_i8_window matrix = {r->directions, k, kern_recurrent_columns(r) / r->directions, {1, 1, 1}};
  return kern_i8_window_layout(&matrix, r->panel, depth, l, &depthwise) && !depthwise;
}

/* All gates of a panel's units, of row k of a direction. */
static void pack_row(float *to, const kern_recurrent *r, const base_tensor *w, int64_t d, int64_t first, int64_t k) {
  for (int64_t gate = 0; gate < r->gates; gate++)
    for (int64_t unit = first; unit < first + r->panel; unit++) {
      int64_t row = gate * r->hidden + unit;
      const int64_t at = d * w->strides[0] + row * w->strides[1] + k * w->strides[2];
      *to++ = unit < r->hidden ? kern_normal(element(w, at)) : 0;
    }
}

void kern_recurrent_pack(float *to, const kern_recurrent *r, const base_tensor *w) {
  for (int64_t d = 0; d < r->directions; d++)
    for (int64_t first = 0; first < r->hidden; first += r->panel)
      for (int64_t k = 0; k < w->dims[2]; k++, to += r->gates * r->panel) pack_row(to, r, w, d, first, k);
}

void kern_recurrent_pack_matrix(float *to, const kern_recurrent *r, const base_tensor *w) {
  for (int64_t k = 0; k < w->dims[2]; k++)
    for (int64_t d = 0; d < r->directions; d++)
      for (int64_t first = 0; first < r->hidden; first += r->panel, to += r->gates * r->panel)
        pack_row(to, r, w, d, first, k);
}

static int64_t panels_of(const kern_recurrent *r) { return r->directions * ((r->hidden + r->panel - 1) / r->panel); }

/* Where a number of row k stands among the tiles of a panel. */
static int64_t place_in_tiles(const kern_recurrent *r, int64_t k, int64_t gate, int64_t unit) {
  const int64_t tile = k / TILE_ROWS * r->gates + gate, pair = tile * (TILE_ROWS / 2) + k % TILE_ROWS / 2;
  return (pair * r->panel + unit) * 2 + k % 2;
}

void kern_recurrent_narrow(uint16_t *to, const kern_recurrent *r, int64_t k, const float *from) {
  const int64_t size = kern_recurrent_tiled(k) * r->gates * r->panel;
  memset(to, 0, (size_t)(panels_of(r) * size) * sizeof *to);
  for (int64_t panel = 0; panel < panels_of(r); panel++, to += size)
    for (int64_t row = 0; row < k; row++)
      for (int64_t gate = 0; gate < r->gates; gate++)
        for (int64_t unit = 0; unit < r->panel; unit++)
          to[place_in_tiles(r, row, gate, unit)] = base_f32_to_bf16(*from++);
}

void kern_recurrent_widen(float *to, const kern_recurrent *r, int64_t k, const base_tensor *tiles) {
  const int64_t size = kern_recurrent_tiled(k) * r->gates * r->panel;
  for (int64_t panel = 0; panel < panels_of(r); panel++)
    for (int64_t row = 0; row < k; row++)
      for (int64_t gate = 0; gate < r->gates; gate++)
        for (int64_t unit = 0; unit < r->panel; unit++)
          *to++ = (float)base_load_f64(tiles->dtype, tiles->data,
                                       (panel * size + place_in_tiles(r, row, gate, unit)) * tiles->strides[0]);
}

void kern_recurrent_pack_bias(float *to, const kern_recurrent *r, bool separate, const base_tensor *bias) {
  int64_t padded = (r->hidden + r->panel - 1) / r->panel * r->panel, all = r->gates * r->hidden;
  size_t count = (size_t)(r->directions * padded * KERN_RECURRENT_BIASES);
  for (size_t i = 0; i < count; i++) to[i] = 0;
  for (int64_t d = 0; d < r->directions; d++)
    for (int64_t row = 0; row < all; row++) {
      int64_t gate = row / r->hidden, unit = row % r->hidden, at = d * bias->strides[0];
      float *panel = to + (d * padded + unit / r->panel * r->panel) * KERN_RECURRENT_BIASES + unit % r->panel;
      float input = element(bias, at + row * bias->strides[1]),
            state = element(bias, at + (all + row) * bias->strides[1]);
      bool own = separate && gate == r->gates - 1;
      panel[gate * r->panel] = own ? input : input + state;
      if (own) panel[(gate + 1) * r->panel] = state;
    }
}

void kern_recurrent_pack_peepholes(float *to, const kern_recurrent *r, const base_tensor *peepholes) {
  for (int64_t d = 0; d < r->directions; d++)
    for (int64_t first = 0; first < r->hidden; first += r->panel)
      for (int64_t gate = 0; gate < KERN_RECURRENT_PEEPHOLES; gate++)
        for (int64_t unit = first; unit < first + r->panel; unit++) {
          const int64_t at = d * peepholes->strides[0] + (gate * r->hidden + unit) * peepholes->strides[1];
          *to++ = unit < r->hidden ? element(peepholes, at) : 0;
        }
}
