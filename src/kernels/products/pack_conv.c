/* pack_conv.c -- packing the weights of convolutions. */
#include "kernels/products/pack_conv.h"

#include <string.h>

enum { BLOCK = 16 }; /* channels: a line of floats of a 1x1 kernel */

int64_t kern_conv_shared(bool transposed, int64_t groups, int64_t group_out, int64_t group_in, int64_t panel) {
  if (transposed || group_out < 1 || group_out >= panel || panel % group_out != 0 || group_in > group_out) return 1;
  return groups % (panel / group_out) == 0 ? panel / group_out : 1;
}

bool kern_conv_packed_size(bool transposed, int64_t groups, int64_t group_out, int64_t taps, int64_t group_in,
                           int64_t panel, int64_t *count) {
  int64_t shared = kern_conv_shared(transposed, groups, group_out, group_in, panel);
  const int64_t sizes[] = {groups / shared, (group_out + panel - 1) / panel, taps, group_in, panel};
  return base_numel(5, sizes, count);
}

int64_t kern_row_channels(int64_t channels, int64_t across) {
  enum { PADDING = 8 };
  for (int64_t n = kern_pairs_depth(channels); n > 0 && n <= channels + PADDING && n <= INT32_MAX; n += 2)
    if (across > 0 && across <= INT32_MAX && kern_tiles_depth(n * across) == n * across) return n;
  return 0;
}

bool kern_rows_are_pairs(int64_t channels, int64_t across) {
  return kern_row_channels(channels, across) == kern_pairs_depth(channels);
}

static int64_t stored_rows(const kern_conv *c, int64_t count) {
  const int64_t across = c->axis[KERN_CONV_AXES - 1].kernel, numbers = kern_row_channels(c->group_in, across) * across;
  int64_t wanted;
  if (numbers == 0 || c->axis[KERN_CONV_AXES - 1].dilation != 1) return -1;
  const bool fits = kern_conv_packed_size(false, 1, c->group_out, c->taps / across, numbers, c->panel, &wanted);
  return fits && count == wanted ? numbers : -1;
}

int64_t kern_conv_pairs_shared(int64_t groups, int64_t group_out, int64_t group_in, int64_t panel, bool tiles) {
  if (groups == 1 || (group_out >= panel && group_in % 2 == 0)) return 1;
  const int64_t shared = kern_conv_shared(false, groups, group_out, group_in, panel);
  return tiles && shared > 1 ? shared : 0;
}

void kern_pack_shared_pairs(const float *from, int64_t taps, int64_t group_in, int64_t shared, int64_t panel,
                            int64_t stored, uint16_t *to) {
  const int64_t out = panel / shared;
  memset(to, 0, (size_t)(taps * stored * panel) * sizeof *to);
  for (int64_t tap = 0; tap < taps; tap++, to += stored * panel)
    for (int64_t k = 0; k < group_in; k++, from += panel)
      for (int64_t i = 0; i < panel; i++) {
        const int64_t row = i / out * group_in + k;
        to[(row / 2 * panel + i) * 2 + row % 2] = base_f32_to_bf16(from[i]);
      }
}

/* Channels in as packed pairs of bf16 have them where taps are no columns. */
static int64_t stored_pairs(const kern_conv *c, int64_t count) {
  int64_t wanted;
  const int64_t shared = kern_conv_pairs_shared(c->groups, c->group_out, c->group_in, c->panel, true);
  const bool fits =
      shared && kern_conv_packed_size(false, c->groups / shared, c->group_out * shared, c->taps, 1, c->panel, &wanted);
  return fits ? kern_pairs_stored(c->group_in * shared, wanted, count) : -1;
}

int64_t kern_conv_row_columns(const kern_conv *c, int64_t *count) {
  const kern_conv_axis *a = &c->axis[KERN_CONV_AXES - 1];
  int64_t columns;
  if (c->groups != 1 || c->channels_first || a->kernel < 2 || a->stride != 1 || a->dilation != 1 || c->panel < 1 ||
      !base_mul_i64(c->group_out, a->kernel, &columns) || columns > 2 * c->panel)
    return 0;
  const int64_t panels = base_ceil_div(columns, c->panel), before = base_ceil_div(c->group_out, c->panel) * a->kernel;
  const int64_t sizes[] = {panels, c->taps / a->kernel, kern_tiles_depth(c->group_in), c->panel};
  return 2 * panels <= before && base_numel(4, sizes, count) && stored_pairs(c, *count) < 0 ? columns : 0;
}

bool kern_conv_has_row_columns(const kern_conv *c, td_dtype dtype, int64_t count) {
  int64_t wanted;
  return dtype == TD_BF16 && kern_conv_row_columns(c, &wanted) && count == wanted;
}

void kern_pack_row_columns(const base_tensor *w, const base_f32 *scale, int64_t panel, int64_t stored, uint16_t *to) {
  const int64_t across = w->dims[w->rank - 1], columns = w->dims[0] * across, step = w->strides[w->rank - 1];
  int64_t rows = 1;
  for (int32_t i = 2; i < w->rank - 1; i++) rows *= w->dims[i];
  memset(to, 0, (size_t)(base_ceil_div(columns, panel) * rows * stored * panel) * sizeof *to);
  for (int64_t column = 0; column < columns; column++) {
    const int64_t out = column % w->dims[0], lane = column % panel;
    const base_f32 *from = (const base_f32 *)w->data + out * w->strides[0] + column / w->dims[0] * step;
    uint16_t *at = to + column / panel * rows * stored * panel;
    base_walk walk;
    const int64_t *strides[] = {w->strides + 2};
    base_walk_start(&walk, w->rank - 3, w->dims + 2, 1, strides);
    for (int64_t row = 0; row < rows; row++, base_walk_next(&walk), at += stored * panel)
      for (int64_t k = 0; k < w->dims[1]; k++)
        at[(k / 2 * panel + lane) * 2 + k % 2] =
            base_f32_to_bf16(from[walk.offset[0] + k * w->strides[1]] * (scale ? scale[out] : 1));
  }
}

int64_t kern_conv_stored(bool transposed, const kern_conv *c, td_dtype dtype, int64_t count) {
  int64_t wanted;
  if (dtype == TD_BF16 && c->channels_first) return !transposed && c->groups == 1 ? stored_rows(c, count) : -1;
  if (dtype == TD_BF16 && transposed) return -1;
  if (dtype == TD_BF16 && kern_conv_has_row_columns(c, dtype, count)) return kern_tiles_depth(c->group_in);
  if (dtype == TD_BF16) return stored_pairs(c, count);
  const bool fits = kern_conv_packed_size(transposed, c->groups, c->group_out, c->taps, c->group_in, c->panel, &wanted);
  return fits && count == wanted ? c->group_in : -1;
}

/* One row of taps of a panel. */
static void pack_row(const base_tensor *w, const base_f32 *from, const base_f32 *scale, int64_t columns, int64_t panel,
                     uint16_t *to) {
  const int64_t across = w->dims[w->rank - 1], channels = kern_row_channels(w->dims[1], across);
  for (int64_t i = 0; i < columns; i++)
    for (int64_t x = 0; x < across; x++)
      for (int64_t c = 0; c < w->dims[1]; c++) {
        const int64_t k = x * channels + c;
        const float t = from[i * w->strides[0] + c * w->strides[1] + x * w->strides[w->rank - 1]];
        to[(k / 2 * panel + i) * 2 + k % 2] = base_f32_to_bf16(t * (scale ? scale[i] : 1));
      }
}

void kern_pack_rows(const base_tensor *w, const base_f32 *scale, int64_t panel, uint16_t *to) {
  const int64_t across = w->dims[w->rank - 1], size = kern_row_channels(w->dims[1], across) * across * panel;
  int64_t rows = 1;
  for (int32_t i = 2; i < w->rank - 1; i++) rows *= w->dims[i];
  for (int64_t first = 0; first < w->dims[0]; first += panel) {
    base_walk walk;
    const int64_t *strides[] = {w->strides + 2};
    const base_f32 *from = (const base_f32 *)w->data + first * w->strides[0];
    base_walk_start(&walk, w->rank - 3, w->dims + 2, 1, strides);
    for (int64_t row = 0; row < rows; row++, base_walk_next(&walk), to += size) {
      memset(to, 0, (size_t)size * sizeof *to);
      pack_row(w, from + walk.offset[0], scale ? scale + first : NULL, base_min_i64(panel, w->dims[0] - first), panel,
               to);
    }
  }
}

/* One group's weights. */
typedef struct weights {
  int64_t group_in, group_out, taps;
  int64_t in_stride, out_stride;
  const base_f32 *scale; /* of the group's channels out; NULL: none */
} weights;

/* Channels [c0, c1) of one tap of a panel, whose first channel out is number `first`. */
static void pack_block(const weights *w, const base_f32 *from, int64_t c0, int64_t c1, int64_t first, int64_t columns,
                       int64_t panel, float *to) {
  for (int64_t i = 0; i < columns; i++) {
    const base_f32 *row = from + i * w->out_stride;
    const float scale = w->scale ? w->scale[first + i] : 1;
    for (int64_t c = c0; c < c1; c++) to[c * panel + i] = kern_normal(row[c * w->in_stride] * scale);
  }
}

/* All taps of a block of channels before the next block: what they read lies side by side, and stays in L1. */
static void pack_panel(const weights *w, const base_tensor *t, const base_f32 *from, int64_t first, int64_t columns,
                       int64_t panel, float *to) {
  base_walk walk;
  const int64_t *strides[] = {t->strides + 2};
  for (int64_t c = 0; c < w->group_in; c += BLOCK) {
    base_walk_start(&walk, t->rank - 2, t->dims + 2, 1, strides);
    for (int64_t tap = 0; tap < w->taps; tap++, base_walk_next(&walk))
      pack_block(w, from + walk.offset[0], c, base_min_i64(c + BLOCK, w->group_in), first, columns, panel,
                 to + tap * w->group_in * panel);
  }
}

void kern_pack_conv(const base_tensor *w, const base_f32 *scale, bool transposed, int64_t groups, int64_t panel,
                    float *to) {
  weights g = {.taps = 1, .in_stride = w->strides[!transposed], .out_stride = w->strides[transposed]};
  g.group_in = transposed ? w->dims[0] / groups : w->dims[1];
  g.group_out = transposed ? w->dims[1] : w->dims[0] / groups;
  for (int32_t i = 2; i < w->rank; i++) g.taps *= w->dims[i];
  int64_t shared = kern_conv_shared(transposed, groups, g.group_out, g.group_in, panel);
  int64_t group_stride = w->dims[0] / groups * w->strides[0];
  for (int64_t i = 0; i < groups; i++) {
    g.scale = scale ? scale + i * g.group_out : NULL;
    for (int64_t first = 0; first < g.group_out; first += panel) {
      int64_t columns = base_min_i64(panel, g.group_out - first), lane = i % shared * g.group_out;
      if (columns < panel && shared == 1) memset(to, 0, (size_t)(g.taps * g.group_in * panel) * sizeof *to);
      pack_panel(&g, w, (const base_f32 *)w->data + i * group_stride + first * g.out_stride, first, columns, panel,
                 to + lane);
      if (shared == 1 || (i + 1) % shared == 0) to += g.taps * g.group_in * panel;
    }
  }
}
