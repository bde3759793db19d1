/* winograd_nonfinite.c -- what infinities and NaN make of a tile; on any CPU, as it is rare. */
#include "kernels/products/winograd_nonfinite.h"

#include <math.h>

#include "kernels/products/pack_winograd.h"

/* w = sum of factor[i] * u[index[i]] along one axis: of the rows of G (winograd_weights_priv.h) those of 0 and infinity
 * hold the outer taps alone, those of the first pair of points differ by the middle one. */
typedef struct taken {
  int64_t index[2];
  double factor[2]; /* the second is 0 where one is enough */
} taken;

static taken take(int64_t tile, int64_t tap) {
  const double p = KERN_WINOGRAD_P, p2 = p * p, q2 = KERN_WINOGRAD_Q * KERN_WINOGRAD_Q;
  if (tap == 2) return (taken){{tile + 1, 0}, {1, 0}};
  if (tap == 0) return (taken){{0, 0}, {tile == 4 ? p2 * q2 : 1, 0}};
  const double middle = tile == 4 ? p * (p2 - q2) : 1;
  return (taken){{1, 2}, {middle, -middle}};
}

/* Where element 0 of the weights of output channel `channel` and input k of its group, tap in depth and channel, is. */
static int64_t weight_place(const kern_conv *c, int64_t channel, int64_t k, int64_t *element_distance) {
  const int64_t inputs = c->axis[0].kernel * c->group_in;
  const int64_t shared = kern_conv_shared(false, c->groups, c->group_out, inputs, c->panel);
  const int64_t out = shared * c->group_out, panels = (out + c->panel - 1) / c->panel, in_product = channel % out;
  *element_distance = c->groups / shared * panels * inputs * c->panel;
  return ((channel / out * panels + in_product / c->panel) * inputs + k) * c->panel + in_product % c->panel;
}

static float weight_of(const kern_winograd_outputs *o, int64_t channel, int64_t k, int64_t row, int64_t column) {
  const taken down = take(o->tile, row), across = take(o->tile, column);
  int64_t distance;
  const base_f32 *u = o->weights + weight_place(o->conv, channel, k, &distance);
  double sum = 0;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) {
      const double factor = down.factor[i] * across.factor[j];
      if (factor != 0) sum += factor * (double)u[(down.index[i] * (o->tile + 2) + across.index[j]) * distance];
    }
  return (float)sum;
}

/* Input k of group `group` is x at pixel [row, column] of the tile's inputs. */
static void add_input(const kern_winograd_outputs *o, int64_t group, int64_t k, int64_t row, int64_t column, float x) {
  const kern_conv *c = o->conv;
  const int64_t first = base_max_i64(group * c->group_out, o->channel);
  const int64_t end = base_min_i64((group + 1) * c->group_out, o->channel + o->channels);
  for (int64_t i = base_max_i64(row - 2, 0); i <= row && i < o->rows; i++)
    for (int64_t j = base_max_i64(column - 2, 0); j <= column && j < o->columns; j++) {
      base_f32 *y = o->y + i * o->row_distance + j * o->column_distance - o->channel;
      for (int64_t m = first; m < end; m++) y[m] += x * weight_of(o, m, k, row - i, column - j);
    }
}

void kern_winograd_add_nonfinite(const kern_winograd_outputs *o) {
  const kern_conv *c = o->conv;
  const kern_conv_axis *d = &c->axis[0], *h = &c->axis[1], *w = &c->axis[2];
  const int64_t side = o->tile + 2;
  const int64_t first = o->channel / c->group_out, last = (o->channel + o->channels - 1) / c->group_out;
  for (int64_t i = 0; i < d->kernel * side * side; i++) {
    const int64_t tap = i / side / side, row = i / side % side, column = i % side;
    const int64_t z = o->plane * d->stride - d->begin + tap * d->dilation;
    const int64_t y = o->row - h->begin + row * h->dilation, x = o->column - w->begin + column * w->dilation;
    if (z < 0 || z >= d->in || y < 0 || y >= h->in || x < 0 || x >= w->in) continue;
    const base_f32 *pixel = o->x + ((z * h->in + y) * w->in + x) * o->x_pitch;
    for (int64_t k = first * c->group_in; k < (last + 1) * c->group_in; k++)
      if (!isfinite(pixel[k]))
        add_input(o, k / c->group_in, tap * c->group_in + k % c->group_in, row, column, pixel[k]);
  }
}
