/* winograd.c -- td::winograd_conv: a convolution of images that stand channels last by a 3x3 kernel, stride 1, one
 * group, f32, with an epilogue, whose weights are transformed and packed (kernels/pack_winograd.h). Operands and
 * attributes: kernels/conv.h, and `tile`, 2 or 4: the side of the square of outputs that are computed together.
 *
 * The reference is the definition: in double, Y = At [sum over channels of U * (Bt d B)] A for each tile of the image,
 * where d is the tile's input, 0 outside the image, and * is element by element (Lavin and Gray 2015). */
#include "kernels/kernels.h"
#include "kernels/pack_winograd.h"
#include "ops/common/conv_priv.h"

enum { SIDE = 6 };
static const ir_attr winograd_attrs[] = {
    CONV_IMAGE_ATTR_ROWS, {.name = "tile", .kind = BASE_ATTR_INT, .required = true}, EPILOGUE_ATTR_ROWS};

/* ---- shapes ---- */

/* The list is empty, or 1 everywhere. */
static bool all_ones(const base_attrs *a, uint32_t index) {
  uint32_t count;
  const int64_t *list = base_attr_ints(a, index, &count);
  for (uint32_t i = 0; i < count; i++)
    if (list[i] != 1) return false;
  return true;
}

static td_status infer_winograd_conv(ir_infer *ctx) {
  TRY(ops_infer_conv(ctx, NULL));
  const base_attrs *a = ctx->attrs;
  const ir_type *x = &ir_in(ctx, 0)->type, *w = &ir_in(ctx, 1)->type;
  int64_t tile = base_attr_int(a, KERN_WINOGRAD_TILE), count;
  uint32_t spatial;
  const int64_t *kernel = base_attr_ints(a, KERN_CONV_KERNEL, &spatial);
  if (tile != 2 && tile != 4) return ir_infer_fail(ctx, "tile is %lld, not 2 or 4", (long long)tile);
  if (spatial != 2 || kernel[0] != 3 || kernel[1] != 3 || !all_ones(a, KERN_CONV_STRIDE) ||
      !all_ones(a, KERN_CONV_DILATION) || base_attr_int(a, KERN_CONV_GROUPS) != 1 ||
      base_attr_int(a, KERN_CONV_PANEL) < 1 || base_attr_int(a, KERN_CONV_CHANNELS_FIRST))
    return ir_infer_fail(ctx, "it takes packed 3x3 kernels of stride 1, one group, and channels last");
  if (x->rank == IR_UNRANKED || w->rank == IR_UNRANKED || !base_dim_known(x->dims[3])) return TD_OK;
  bool fits = kern_winograd_packed_size(tile, base_attr_int(a, KERN_CONV_CHANNELS), x->dims[3],
                                        base_attr_int(a, KERN_CONV_PANEL), &count) &&
              w->rank == 1 && !ops_dims_differ(w->dims[0], count);
  return fits ? TD_OK : ir_infer_fail(ctx, "the packed weights do not fit the image");
}

/* ---- run ---- */

/* The matrices of F(2, 3) and F(4, 3): Bt [side, side] of inputs, At [tile, side] of sums. */
static const double input_2[] = {1, 0, -1, 0, 0, 1, 1, 0, 0, -1, 1, 0, 0, 1, 0, -1};
static const double output_2[] = {1, 1, 1, 0, 0, 1, -1, -1};
/* At point x a row of Bt is the polynomial whose roots are the other finite points; At holds the powers of the points.
 */
#define P (double)KERN_WINOGRAD_P
#define Q (double)KERN_WINOGRAD_Q
static const double input_4[] = {P * P * Q * Q,
                                 0,
                                 -(P *P + Q * Q),
                                 0,
                                 1,
                                 0,
                                 0,
                                 -P *Q *Q,
                                 -Q *Q,
                                 P,
                                 1,
                                 0,
                                 0,
                                 P *Q *Q,
                                 -Q *Q,
                                 -P,
                                 1,
                                 0,
                                 0,
                                 -Q *P *P,
                                 -P *P,
                                 Q,
                                 1,
                                 0,
                                 0,
                                 Q *P *P,
                                 -P *P,
                                 -Q,
                                 1,
                                 0,
                                 0,
                                 P *P *Q *Q,
                                 0,
                                 -(P *P + Q * Q),
                                 0,
                                 1};
static const double output_4[] = {1, 1,    1,    1,    1,    0, 0, P,       -P,       Q,       -Q,       0,
                                  0, P *P, P *P, Q *Q, Q *Q, 0, 0, P *P *P, -P *P *P, Q *Q *Q, -Q *Q *Q, 1};

/* to [rows, rows] = m from mt, for m [rows, side] and from [side, side]. */
static void sandwich(const double *m, int64_t rows, int64_t side, const double *from, double *to) {
  double half[SIDE * SIDE];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < side; c++) {
      double sum = 0;
      for (int64_t k = 0; k < side; k++) sum += m[r * side + k] * from[k * side + c];
      half[r * side + c] = sum;
    }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < rows; c++) {
      double sum = 0;
      for (int64_t k = 0; k < side; k++) sum += half[r * side + k] * m[c * side + k];
      to[r * rows + c] = sum;
    }
}

/* The tile's input d of every channel, transformed: v[channel][element]. */
static void transform_inputs(const kern_conv *c, const base_f32 *x, int64_t row, int64_t column, int64_t tile,
                             double *v) {
  const kern_conv_axis *h = &c->axis[1], *w = &c->axis[2];
  int64_t side = tile + 2;
  for (int64_t k = 0; k < c->group_in; k++, v += side * side) {
    double d[SIDE * SIDE];
    for (int64_t i = 0; i < side * side; i++) {
      int64_t y = row - h->begin + i / side, z = column - w->begin + i % side;
      bool inside = y >= 0 && y < h->in && z >= 0 && z < w->in;
      d[i] = inside ? (double)x[(y * w->in + z) * c->group_in + k] : 0;
    }
    sandwich(tile == 2 ? input_2 : input_4, side, side, d, v);
  }
}

static void write_tile(const kern_conv *c, const base_f32 *u, const double *v, int64_t row, int64_t column,
                       int64_t tile, base_f32 *y) {
  int64_t side = tile + 2, in = c->group_in, out = c->group_out, p = c->panel, plane = (out + p - 1) / p * in * p;
  for (int64_t m = 0; m < out; m++) {
    double sums[SIDE * SIDE], result[SIDE * SIDE];
    for (int64_t e = 0; e < side * side; e++) {
      sums[e] = 0;
      for (int64_t k = 0; k < in; k++)
        sums[e] += v[k * side * side + e] * (double)u[e * plane + (m / p * in + k) * p + m % p];
    }
    sandwich(tile == 2 ? output_2 : output_4, tile, side, sums, result);
    for (int64_t i = 0; i < tile * tile; i++) {
      int64_t r = row + i / tile, s = column + i % tile;
      if (r < c->axis[1].out && s < c->axis[2].out) y[(r * c->axis[2].out + s) * out + m] = (float)result[i];
    }
  }
}

static td_status winograd_conv_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  if (base_tensor_numel(out) == 0) return TD_OK;
  kern_conv c;
  TRY(kern_conv_sizes(call, &c));
  int64_t tile = base_attr_int(call->attrs, KERN_WINOGRAD_TILE), side = tile + 2;
  const base_f32 *x = ops_dense_f32(call, 0), *u = ops_dense_f32(call, 1);
  double *v = base_call_scratch(call, (size_t)c.group_in, (size_t)(side * side) * sizeof *v);
  if (!x || !u || !v) return base_no_memory(call->err, "scratch");
  base_f32 *y = out->data;
  for (int64_t n = 0; n < c.batch; n++)
    for (int64_t row = 0; row < c.axis[1].out; row += tile)
      for (int64_t column = 0; column < c.axis[2].out; column += tile) {
        transform_inputs(&c, x + n * c.in_size * c.group_in, row, column, tile, v);
        write_tile(&c, u, v, row, column, tile, y + n * c.out_size * c.group_out);
      }
  return ops_apply_epilogue(call, y);
}

static const kern_row *winograd_conv_kernel(const ir_kernel_query *query) {
  const kern_row *row = kern_select(KERN_WINOGRAD, TD_F32, query->isa);
  return row && base_attr_int(query->attrs, KERN_CONV_PANEL) == row->lanes ? row : NULL;
}

/* ---- test cases ---- */

typedef struct winograd_case {
  int64_t batch, height, width, channels, out_channels;
  int64_t padding[4];
  uint32_t parts; /* of the epilogue: BIAS, ... */
  kern_act act;
  bool late;
} winograd_case;

#define PAD_1 .padding = {1, 1, 1, 1}

static const winograd_case table[] = {
    {1, 8, 8, 16, 32, PAD_1, .parts = BIAS, .act = KERN_ACT_relu},
    {1, 14, 14, 33, 65, PAD_1, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu, .late = true},
    {3, 7, 7, 24, 48, PAD_1, .parts = BIAS | RESIDUAL | SCALE | SHIFT, .act = KERN_ACT_silu},
    {1, 30, 27, 5, 17, PAD_1, .parts = BIAS, .act = KERN_ACT_clamp},
    {2, 5, 9, 64, 16, .parts = BIAS, .act = KERN_ACT_hardswish},
    {1, 6, 4, 3, 33, .padding = {2, 0, 1, 3}, .parts = SCALE | SHIFT},
    {1, 9, 10, 17, 8, .padding = {-1, 0, 1, -2}, .parts = BIAS, .act = KERN_ACT_gelu},
    {1, 1, 2, 40, 130, .padding = {4, 5, 3, 2}, .act = KERN_ACT_sigmoid},
    {1, 1, 1, 1, 1, PAD_1, .parts = BIAS, .act = KERN_ACT_tanh},
    {0, 4, 4, 8, 8, PAD_1, .parts = BIAS},
    {1, 4, 4, 0, 8, PAD_1, .parts = BIAS, .act = KERN_ACT_relu},
    {1, 4, 4, 8, 0, PAD_1},
    {1, 0, 4, 8, 8, PAD_1},
};

static bool add_weights(ir_case *c, const winograd_case *s, int64_t tile, int64_t panel, uint64_t seed) {
  int64_t dims[] = {s->out_channels, s->channels, 3, 3}, count;
  if (!ops_case_in(c, TD_F32, 4, dims, OPS_NORMAL, seed) ||
      !kern_winograd_packed_size(tile, s->out_channels, s->channels, panel, &count))
    return false;
  float *to = base_new(c->arena, float, (size_t)count + 1);
  if (!to) return false;
  kern_pack_winograd(&c->in[1], tile, panel, to);
  c->in[1] = base_tensor_of(to, TD_F32, 1, &count);
  return true;
}

static bool cases_winograd_conv(ir_case *c, uint32_t number) {
  static const int64_t kernel[] = {3, 3}, panels[] = {1, 8, 16};
  if (number >= 2 * OPS_COUNT(panels) * OPS_COUNT(table)) return false;
  const winograd_case *s = &table[number / 2 / OPS_COUNT(panels)];
  int64_t tile = number % 2 ? 2 : 4, panel = panels[number / 2 % OPS_COUNT(panels)];
  const int64_t x[] = {s->batch, s->height, s->width, s->channels};
  const int64_t y[] = {s->batch, s->height + s->padding[0] + s->padding[2] - 2,
                       s->width + s->padding[1] + s->padding[3] - 2, s->out_channels};
  if (!ops_case_in(c, TD_F32, 4, x, OPS_NORMAL, number) || !add_weights(c, s, tile, panel, number + 1)) return false;
  ops_case_arg(c, ARG_INTS("kernel", kernel, 2));
  ops_case_arg(c, ARG_INTS("padding", s->padding, 4));
  ops_case_arg(c, ARG_INT("channels", s->out_channels));
  ops_case_arg(c, ARG_INT("panel", panel));
  ops_case_arg(c, ARG_INT("tile", tile));
  return ops_case_epilogue(c, s->parts, s->act, s->late, 4, y);
}

OPS_DECLARE(winograd);
const ir_op ops_winograd[] = {
    {.name = "td::winograd_conv",
     .min_in = 2,
     .max_in = KERN_EPILOGUE_END,
     .out_count = 1,
     .attrs = winograd_attrs,
     .attr_count = OPS_COUNT(winograd_attrs),
     .by_sample = 1 | RESIDUAL,
     .infer = infer_winograd_conv,
     .reference = winograd_conv_reference,
     .kernel = winograd_conv_kernel,
     .flops = ops_flops_conv,
     .rtol = 1e-4f,
     .atol = 1e-3f,
     .cases = cases_winograd_conv},
};
OPS_TABLE(winograd);
