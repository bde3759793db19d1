/* winograd.c -- td::winograd_conv: a convolution of images or volumes that stand channels last by a 3x3 kernel, or by
 * some planes of one, stride 1 and any dilation within a plane, f32, with an epilogue, whose weights are
 * transformed and packed (kernels/products/pack_winograd.h). Operands and attributes: kernels/products/conv.h, and
 * `tile`, 2 or 4: the side of the square of outputs that are computed together.
 *
 * The reference is the definition: in double, Y = At [sum over channels of U * (Bt d B)] A for each tile of the image,
 * where d is the tile's input, 0 outside the image, and * is element by element (Lavin and Gray 2015);
 * elements of d that are not finite are added as kernels/products/winograd_nonfinite.h says. */
#include "kernels/kernels.h"
#include "kernels/products/products.h"
#include "ops/common/conv_priv.h"

#include <math.h>
#include <string.h>

enum { SIDE = 6 };
static const ir_attr winograd_attrs[] = {KERN_CONV_LIST(OPS_ATTR_ROW) KERN_WINOGRAD_LIST(OPS_ATTR_ROW)
                                             KERN_EPILOGUE_LIST(OPS_ATTR_ROW)};

/* ---- shapes ---- */

/* Entries of the last two dimensions are within [1, most]; an empty list is all ones. */
static bool within(const base_attrs *a, uint32_t index, int64_t most) {
  uint32_t count;
  const int64_t *list = base_attr_ints(a, index, &count);
  for (uint32_t i = count > 2 ? count - 2 : 0; i < count; i++)
    if (list[i] < 1 || list[i] > most) return false;
  return true;
}

static td_status infer_winograd_conv(ir_infer *ctx) {
  TRY(ops_infer_conv(ctx, NULL, false));
  const base_attrs *a = ctx->attrs;
  const ir_type *x = &ir_in(ctx, 0)->type, *w = &ir_in(ctx, 1)->type;
  int64_t tile = base_attr_int(a, KERN_WINOGRAD_TILE), groups = base_attr_int(a, KERN_CONV_GROUPS), count;
  uint32_t spatial;
  const int64_t *kernel = base_attr_ints(a, KERN_CONV_KERNEL, &spatial);
  if (tile != 2 && tile != 4) return ir_infer_fail(ctx, "tile is %lld, not 2 or 4", (long long)tile);
  const int64_t depth = spatial == 3 ? kernel[0] : 1;
  if (spatial < 2 || spatial > 3 || kernel[spatial - 2] != 3 || kernel[spatial - 1] != 3 || depth < 1 ||
      depth > KERN_WINOGRAD_DEPTH || !within(a, KERN_CONV_STRIDE, 1) ||
      !within(a, KERN_CONV_DILATION, KERN_WINOGRAD_DILATION) || groups < 1 ||
      base_attr_int(a, KERN_CONV_CHANNELS) % groups != 0 || base_attr_int(a, KERN_CONV_PANEL) < 1 ||
      base_attr_int(a, KERN_CONV_CHANNELS_FIRST))
    return ir_infer_fail(ctx,
                         "it takes packed kernels of 3x3, at most %d planes of them, stride 1 and a dilation of at "
                         "most %d within a plane, groups of equal size, and channels last",
                         KERN_WINOGRAD_DEPTH, KERN_WINOGRAD_DILATION);
  if (x->rank == IR_UNRANKED || w->rank == IR_UNRANKED || !base_dim_known(x->dims[x->rank - 1])) return TD_OK;
  int64_t inputs;
  bool fits = x->dims[x->rank - 1] % groups == 0 && base_mul_i64(x->dims[x->rank - 1] / groups, depth, &inputs) &&
              kern_winograd_packed_size(tile, groups, base_attr_int(a, KERN_CONV_CHANNELS) / groups, inputs,
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

/* The tile of an output plane: outputs of a group of channels, a dilation apart from `row`, `column` on. */
typedef struct tile_at {
  int64_t plane, row, column, tile, group;
} tile_at;

/* Its input d of every tap in depth and channel, transformed: v[tap][channel][element]. */
static void transform_inputs(const kern_conv *c, const base_f32 *x, const tile_at *t, double *v) {
  const kern_conv_axis *depth = &c->axis[0], *h = &c->axis[1], *w = &c->axis[2];
  int64_t side = t->tile + 2;
  for (int64_t k = 0; k < depth->kernel * c->group_in; k++, v += side * side) {
    double d[SIDE * SIDE];
    int64_t plane = t->plane * depth->stride - depth->begin + k / c->group_in * depth->dilation;
    for (int64_t i = 0; i < side * side; i++) {
      int64_t y = t->row - h->begin + i / side * h->dilation, z = t->column - w->begin + i % side * w->dilation;
      bool inside = plane >= 0 && plane < depth->in && y >= 0 && y < h->in && z >= 0 && z < w->in;
      int64_t pixel = (plane * h->in + y) * w->in + z;
      d[i] = inside ? (double)x[(pixel * c->groups + t->group) * c->group_in + k % c->group_in] : 0;
      if (!isfinite(d[i])) d[i] = 0;
    }
    sandwich(t->tile == 2 ? input_2 : input_4, side, side, d, v);
  }
}

static void write_tile(const kern_conv *c, const base_f32 *u, const double *v, const tile_at *t, base_f32 *y) {
  const kern_conv_axis *h = &c->axis[1], *w = &c->axis[2];
  int64_t side = t->tile + 2, in = c->axis[0].kernel * c->group_in, out = c->group_out, p = c->panel;
  int64_t area = side * side, shared = kern_conv_shared(false, c->groups, out, in, p), panels = (out + p - 1) / p;
  int64_t plane = c->groups / shared * panels * in * p;
  u += t->group / shared * panels * in * p + t->group % shared * out;
  for (int64_t m = 0; m < out; m++) {
    double sums[SIDE * SIDE], result[SIDE * SIDE];
    for (int64_t e = 0; e < area; e++) {
      const double *from = v + e;
      const base_f32 *weight = u + e * plane + m / p * in * p + m % p;
      double sum = 0;
      for (int64_t k = 0; k < in; k++) sum += from[k * area] * (double)weight[k * p];
      sums[e] = sum;
    }
    sandwich(t->tile == 2 ? output_2 : output_4, t->tile, side, sums, result);
    for (int64_t i = 0; i < t->tile * t->tile; i++) {
      int64_t r = t->row + i / t->tile * h->dilation, s = t->column + i % t->tile * w->dilation;
      int64_t pixel = (t->plane * h->out + r) * w->out + s;
      if (r < h->out && s < w->out) y[(pixel * c->groups + t->group) * out + m] = (float)result[i];
    }
  }
}

/* What inputs that are not finite make of the tile, in all channels. */
static void add_nonfinite(const kern_conv *c, const base_f32 *x, const base_f32 *u, const tile_at *t, base_f32 *y) {
  const kern_conv_axis *h = &c->axis[1], *w = &c->axis[2];
  const int64_t channels = c->groups * c->group_out;
  kern_winograd_add_nonfinite(
      &(kern_winograd_outputs){.conv = c,
                               .tile = t->tile,
                               .x = x,
                               .x_pitch = c->groups * c->group_in,
                               .weights = u,
                               .plane = t->plane,
                               .row = t->row,
                               .column = t->column,
                               .channels = channels,
                               .rows = base_min_i64(t->tile, (h->out - t->row + h->dilation - 1) / h->dilation),
                               .columns = base_min_i64(t->tile, (w->out - t->column + w->dilation - 1) / w->dilation),
                               .y = y + ((t->plane * h->out + t->row) * w->out + t->column) * channels,
                               .row_distance = h->dilation * w->out * channels,
                               .column_distance = w->dilation * channels});
}

static td_status winograd_conv_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  if (base_tensor_numel(out) == 0) return TD_OK;
  kern_conv c;
  TRY(kern_conv_sizes(call, &c));
  const kern_conv_axis *h = &c.axis[1], *w = &c.axis[2];
  tile_at t = {.tile = base_attr_int(call->attrs, KERN_WINOGRAD_TILE)};
  int64_t side = t.tile + 2;
  const base_f32 *x = ops_dense_f32(call, 0), *u = ops_dense_f32(call, 1);
  double *v = base_call_scratch(call, (size_t)(c.group_in * c.axis[0].kernel), (size_t)(side * side) * sizeof *v);
  if (!x || !u || !v) return base_no_memory(call->err, "scratch");
  base_f32 *y = out->data;
  /* Tiles begin at each phase of the dilation, and every `tile` outputs of it. */
  for (int64_t n = 0; n < c.batch; n++)
    for (t.plane = 0; t.plane < c.axis[0].out; t.plane++)
      for (t.row = 0; t.row < h->out; t.row++)
        for (t.column = 0; t.column < w->out; t.column++) {
          if (t.row / h->dilation % t.tile != 0 || t.column / w->dilation % t.tile != 0) continue;
          const base_f32 *from = x + n * c.in_size * c.groups * c.group_in;
          base_f32 *to = y + n * c.out_size * c.groups * c.group_out;
          for (t.group = 0; t.group < c.groups; t.group++) {
            transform_inputs(&c, from, &t, v);
            write_tile(&c, u, v, &t, to);
          }
          add_nonfinite(&c, from, u, &t, to);
        }
  return ops_apply_epilogue(call, y);
}

static const kern_row *winograd_conv_kernel(const ir_kernel_query *query) {
  const kern_row *row = kern_select(KERN_WINOGRAD, TD_F32, query->isa);
  return row && base_attr_int(query->attrs, KERN_CONV_PANEL) == row->lanes ? row : NULL;
}

/* ---- test cases ---- */

/* Sizes in front of the plane's: `planes`, 0 where there is no such dimension, and what the window does along it. */
typedef struct winograd_case {
  int64_t batch, height, width, channels, out_channels;
  int64_t padding[4]; /* within a plane */
  uint32_t parts;     /* of the epilogue: BIAS, ... */
  kern_act act;
  bool late;
  int64_t planes, depth, stride, front, back; /* stride and padding in depth */
  int64_t dilation[3];                        /* 0: 1 */
  int64_t groups;                             /* 0: 1 */
} winograd_case;

#define PAD_1 .padding = {1, 1, 1, 1}
#define VOLUME .planes = 5, .depth = 3, .stride = 1, .front = 1, .back = 1

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
    {2, 13, 9, 7, 35, PAD_1, .parts = BIAS | RESIDUAL | CHAIN, .act = KERN_ACT_relu},
    {0, 4, 4, 8, 8, PAD_1, .parts = BIAS},
    {1, 4, 4, 0, 8, PAD_1, .parts = BIAS, .act = KERN_ACT_relu},
    {1, 4, 4, 8, 0, PAD_1},
    /* volumes */
    {2, 8, 7, 18, 33, PAD_1, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu, .late = true, VOLUME},
    {1, 5, 4, 6, 17, PAD_1, .parts = BIAS, .planes = 19, .depth = 3, .stride = 1, .front = 1, .back = 1},
    {1, 6, 9, 16, 16, .parts = SCALE | SHIFT, .act = KERN_ACT_silu, .planes = 6, .depth = 2, .stride = 2},
    {1, 4, 4, 3, 8, PAD_1, .parts = BIAS, .planes = 3, .depth = 1, .stride = 1},
    {1, 4, 5, 4, 9, PAD_1, .planes = 2, .depth = 3, .stride = 1, .front = 4, .back = 3, .dilation = {2}},
    {1, 4, 5, 4, 9, PAD_1, .planes = 9, .depth = 8, .stride = 3, .front = 2, .back = -1},
    {1, 4, 5, 4, 9, PAD_1, .parts = BIAS, .planes = 0, .depth = 3, .stride = 1, .front = 2, .back = 2},
    /* dilated */
    {2, 11, 9, 17, 18, .padding = {2, 2, 2, 2}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_gelu, .dilation = {0, 2, 2}},
    {1, 9, 8, 5, 16, .padding = {3, 1, 0, 4}, .parts = BIAS, .act = KERN_ACT_relu, .dilation = {0, 3, 1}},
    {1, 3, 4, 5, 7, .padding = {5, 5, 7, 7}, .parts = BIAS | RESIDUAL, .late = true, .dilation = {0, 5, 7}},
    {1, 6, 6, 5, 7, .padding = {2, 2, 3, 3}, .parts = BIAS, VOLUME, .dilation = {1, 2, 3}},
    {2, 7, 6, 5, 18, .padding = {2, 2, 3, 3}, .parts = SCALE | CHAIN, VOLUME, .dilation = {1, 2, 3}},
    /* groups */
    {2, 9, 7, 48, 48, PAD_1, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu, .late = true, .groups = 3},
    {1, 6, 7, 120, 120, PAD_1, .parts = BIAS, .act = KERN_ACT_silu, .groups = 5},
    {1, 5, 5, 10, 35, PAD_1, .parts = BIAS | RESIDUAL | SCALE | CHAIN, .groups = 5},
    {1, 5, 6, 6, 200, PAD_1, .parts = BIAS, .act = KERN_ACT_relu, .groups = 2},
    {2, 4, 5, 21, 14, PAD_1, .parts = BIAS, VOLUME, .dilation = {1, 2, 1}, .groups = 7},
    {1, 4, 4, 0, 6, PAD_1, .parts = BIAS, .groups = 2},
    {2, 9, 10, 64, 64, PAD_1, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu, .late = true, .groups = 16},
    {1, 7, 9, 96, 192, PAD_1, .parts = BIAS | SCALE, .act = KERN_ACT_silu, .groups = 24},
    {1, 5, 6, 32, 64, .parts = BIAS, .planes = 4, .depth = 2, .stride = 1, .front = 1, .dilation = {1, 2, 1},
     .groups = 16},
};

/* A case without a dimension in front has the last two entries of lists alone. */
static bool is_volume(const winograd_case *s) { return s->depth > 0; }

static int64_t groups_of(const winograd_case *s) { return s->groups ? s->groups : 1; }

static bool add_weights(ir_case *c, const winograd_case *s, int64_t tile, int64_t panel, uint64_t seed) {
  const int64_t groups = groups_of(s), in = s->channels / groups;
  const int64_t flat[] = {s->out_channels, in, 3, 3}, deep[] = {s->out_channels, in, s->depth, 3, 3};
  int64_t count, inputs = in * (is_volume(s) ? s->depth : 1);
  if (!ops_case_in(c, TD_F32, is_volume(s) ? 5 : 4, is_volume(s) ? deep : flat, OPS_NORMAL, seed) ||
      !kern_winograd_packed_size(tile, groups, s->out_channels / groups, inputs, panel, &count))
    return false;
  float *to = base_new(c->arena, float, (size_t)count + 1);
  if (!to) return false;
  kern_pack_winograd(&c->in[1], NULL, groups, tile, panel, to);
  c->in[1] = base_tensor_of(to, TD_F32, 1, &count);
  return true;
}

static int64_t out_size(int64_t in, int64_t padding, int64_t kernel, int64_t dilation, int64_t stride) {
  return (in + padding - (kernel - 1) * dilation - 1) / stride + 1;
}

/* A list that lasts as long as the case. */
static bool add_list(ir_case *c, const char *name, const int64_t *list, uint32_t count) {
  int64_t *kept = base_new(c->arena, int64_t, count);
  if (kept) memcpy(kept, list, count * sizeof *kept);
  ops_case_arg(c, ARG_INTS(name, kept, count));
  return kept != NULL;
}

static bool cases_winograd_conv(ir_case *c, uint32_t number) {
  static const int64_t panels[] = {1, 4, 8, 16};
  if (number >= 2 * OPS_COUNT(panels) * OPS_COUNT(table)) return false;
  const winograd_case *s = &table[number / 2 / OPS_COUNT(panels)];
  int64_t tile = number % 2 ? 2 : 4, panel = panels[number / 2 % OPS_COUNT(panels)];
  const uint32_t spatial = is_volume(s) ? 3 : 2, skip = 3 - spatial;
  const int64_t kernel[] = {s->depth, 3, 3}, stride[] = {s->stride, 1, 1};
  int64_t dilation[3], x[5] = {s->batch, s->planes, s->height, s->width, s->channels};
  int64_t padding[6] = {s->front, s->padding[0], s->padding[1], s->back, s->padding[2], s->padding[3]};
  for (int i = 0; i < 3; i++) dilation[i] = s->dilation[i] ? s->dilation[i] : 1;
  int64_t y[5] = {s->batch,
                  is_volume(s) ? out_size(s->planes, s->front + s->back, s->depth, dilation[0], s->stride) : 1,
                  out_size(s->height, s->padding[0] + s->padding[2], 3, dilation[1], 1),
                  out_size(s->width, s->padding[1] + s->padding[3], 3, dilation[2], 1), s->out_channels};
  if (skip) {
    memmove(x + 1, x + 2, 3 * sizeof *x);
    memmove(y + 1, y + 2, 3 * sizeof *y);
    memmove(padding, s->padding, sizeof s->padding);
  }
  if (!ops_case_in(c, TD_F32, (int32_t)spatial + 2, x, OPS_NORMAL, number) ||
      !add_weights(c, s, tile, panel, number + 1))
    return false;
  if (!add_list(c, "kernel", kernel + skip, spatial) || !add_list(c, "stride", stride + skip, spatial) ||
      !add_list(c, "padding", padding, 2 * spatial) || !add_list(c, "dilation", dilation + skip, spatial))
    return false;
  ops_case_arg(c, ARG_INT("groups", groups_of(s)));
  ops_case_arg(c, ARG_INT("channels", s->out_channels));
  ops_case_arg(c, ARG_INT("panel", panel));
  ops_case_arg(c, ARG_INT("tile", tile));
  return ops_case_epilogue(c, s->parts, s->act, s->late, (int32_t)spatial + 2, y);
}

OPS_DECLARE(winograd);
const ir_op ops_winograd[] = {
    {.id = OPERATOR(td, winograd_conv),
     .min_in = 2,
     .max_in = KERN_CHAIN_END,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN,
     .attrs = winograd_attrs,
     .attr_count = OPS_COUNT(winograd_attrs),
     .by_sample = 1 | RESIDUAL | CHAIN,
     .infer = infer_winograd_conv,
     .reference = winograd_conv_reference,
     .kernel = winograd_conv_kernel,
     .flops = ops_flops_conv,
     .rtol = 1e-4f,
     .atol = 1e-3f},
};
OPS_TABLE(winograd);
OPS_CASES(winograd) = {
    {OP_td_winograd_conv, cases_winograd_conv},
    {0},
};
