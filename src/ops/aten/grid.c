/* grid.c -- td::grid_sample(x, grid): values of images [N, C, in...] of 1 to 3 spatial dims at the positions of a grid
 * [N, out..., dims], coordinates in [-1, 1], x first; and td::affine_grid(theta, size), which makes such grids. Every
 * mode is separable: a position is up to four taps per axis. */
#include "ops/common/ops_priv.h"

#include <math.h>
#include <string.h>

enum { MODE, PADDING, ALIGN_CORNERS };
static const ir_attr sample_attrs[] = {ATTR_STR("mode", "linear"), ATTR_STR("padding", "zeros"),
                                       ATTR_BOOL("align_corners", false)};
static const ir_attr affine_attrs[] = {ATTR_BOOL("align_corners", false)};
enum { MAX_AXES = 3, MAX_TAPS = 4 };

static td_status infer_sample(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type, *grid = &ir_in(ctx, 1)->type;
  if (x->rank == IR_UNRANKED || grid->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (x->rank < 3 || x->rank > 2 + MAX_AXES || grid->rank != x->rank)
    return base_fail(ctx->err, TD_UNSUPPORTED, NULL, -1, "%s: an image of rank %d with a grid of rank %d",
                     ctx->op->name, x->rank, grid->rank);
  base_dim axes = grid->dims[grid->rank - 1], dims[BASE_MAX_RANK] = {x->dims[0], x->dims[1]};
  if (base_dim_known(axes) && axes != x->rank - 2)
    return ir_infer_fail(ctx, "grid rows of %lld coordinates", (long long)axes);
  for (int32_t i = 2; i < x->rank; i++) dims[i] = grid->dims[i - 1];
  return ir_out(ctx, 0, x->dtype, x->rank, dims);
}

typedef enum grid_mode { GRID_NEAREST, GRID_LINEAR, GRID_CUBIC } grid_mode;
typedef enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION } grid_padding;

typedef struct sampler {
  grid_mode mode;
  grid_padding padding;
  bool align;
} sampler;

/* The taps of one axis; an index of -1 is padding that counts as zero. */
typedef struct axis_taps {
  int32_t count;
  int64_t index[MAX_TAPS];
  double weight[MAX_TAPS];
} axis_taps;

static double reflect(double x, double least, double most) {
  double range = most - least, beyond = x < least ? least - x : x > most ? x - most : -1;
  if (beyond < 0) return x;
  if (range <= 0) return least;
  double turns = floor(beyond / range), rest = beyond - turns * range;
  bool from_least = (x < least) == (fmod(turns, 2) == 0);
  return from_least ? least + rest : most - rest;
}

static double clamp(double x, double least, double most) { return x < least ? least : x > most ? most : x; }

static int64_t pad_index(const sampler *s, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  if (s->padding == GRID_ZEROS) return -1;
  double place = (double)at;
  if (s->padding == GRID_REFLECTION)
    place = reflect(place, s->align ? 0 : -0.5, s->align ? (double)size - 1 : (double)size - 0.5);
  return (int64_t)clamp(trunc(place), 0, (double)size - 1);
}

/* Cubic convolution (Keys 1981) with a = -0.75. */
static double cubic(double x) {
  const double a = -0.75;
  x = fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static void make_taps(const sampler *s, double coordinate, int64_t size, axis_taps *t) {
  double length = (double)size;
  double x = (double)(float)(s->align ? (coordinate + 1) / 2 * (length - 1) : ((coordinate + 1) * length - 1) / 2);
  if (!(fabs(x) < 1e9)) x = isnan(x) || x < 0 ? -1e9 : 1e9;
  if (s->mode == GRID_NEAREST) x = nearbyint(x);
  double least = s->align ? 0 : -0.5, most = s->align ? length - 1 : length - 0.5;
  if (s->padding == GRID_BORDER && s->mode != GRID_CUBIC) x = clamp(x, 0, length - 1); /* cubic pads each tap */
  if (s->padding == GRID_REFLECTION) x = reflect(x, least, most);
  int64_t below = s->mode == GRID_NEAREST ? (int64_t)x : (int64_t)floor(x);
  t->count = s->mode == GRID_NEAREST ? 1 : s->mode == GRID_LINEAR ? 2 : 4;
  for (int32_t k = 0; k < t->count; k++) {
    int64_t at = below + k - (s->mode == GRID_CUBIC);
    double distance = x - (double)at;
    t->weight[k] = s->mode == GRID_NEAREST ? 1 : s->mode == GRID_LINEAR ? 1 - fabs(distance) : cubic(distance);
    t->index[k] = pad_index(s, at, size);
  }
}

static double sample(const axis_taps *t, const int64_t *in, const base_f64 *plane) {
  double sum = 0;
  for (int32_t i = 0; i < t[0].count; i++)
    for (int32_t j = 0; j < t[1].count; j++)
      for (int32_t k = 0; k < t[2].count; k++) {
        if (t[0].index[i] < 0 || t[1].index[j] < 0 || t[2].index[k] < 0) continue;
        sum += t[0].weight[i] * t[1].weight[j] * t[2].weight[k] *
               plane[(t[0].index[i] * in[1] + t[1].index[j]) * in[2] + t[2].index[k]];
      }
  return sum;
}

static td_status read_sampler(const base_call *call, sampler *s) {
  static const char *const modes[] = {"nearest", "linear", "cubic"}, *const paddings[] = {"zeros", "border",
                                                                                          "reflection"};
  const char *mode = base_attr_str(call->attrs, MODE), *padding = base_attr_str(call->attrs, PADDING);
  int m = 0, p = 0;
  while (m < 3 && strcmp(modes[m], mode) != 0) m++;
  while (p < 3 && strcmp(paddings[p], padding) != 0) p++;
  if (m == 3 || p == 3) return ops_fail(call, "unknown mode \"%s\" or padding \"%s\"", mode, padding);
  *s = (sampler){(grid_mode)m, (grid_padding)p, base_attr_int(call->attrs, ALIGN_CORNERS)};
  return TD_OK;
}

static td_status sample_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *g = base_in(call, 1), *y = base_out(call, 0);
  int32_t axes = x->rank - 2;
  sampler s = {0};
  TRY(read_sampler(call, &s));
  const base_f64 *from = ops_dense_f64(call, 0), *grid = ops_dense_f64(call, 1);
  base_f64 *to = ops_take_f64(call, 0);
  if (!from || !grid || !to) return base_no_memory(call->err, "scratch");
  if (base_tensor_numel(y) == 0) return TD_OK;
  int64_t in[MAX_AXES] = {1, 1, 1}, plane = 1, positions = 1, channels = x->dims[1];
  for (int32_t i = 0; i < axes; i++) {
    in[MAX_AXES - axes + i] = x->dims[2 + i];
    plane *= x->dims[2 + i];
    positions *= y->dims[2 + i];
  }
  if (g->dims[0] != x->dims[0] || g->dims[g->rank - 1] != axes || plane == 0)
    return ops_fail(call, "image and grid do not fit");
  for (int64_t i = 0; i < x->dims[0] * positions; i++) {
    axis_taps taps[MAX_AXES];
    for (int32_t k = 0; k < MAX_AXES; k++) taps[k] = (axis_taps){.count = 1, .weight = {1}};
    for (int32_t k = 0; k < axes; k++)
      make_taps(&s, grid[i * axes + axes - 1 - k], x->dims[2 + k], &taps[MAX_AXES - axes + k]);
    for (int64_t c = 0; c < channels; c++) {
      int64_t image = i / positions * channels + c;
      to[image * positions + i % positions] = sample(taps, in, from + image * plane);
    }
  }
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

static bool cases_sample(ir_case *c, uint32_t number) {
  static const char *const modes[] = {"nearest", "linear", "cubic"}, *const paddings[] = {"zeros", "border",
                                                                                          "reflection"};
  if (number >= 20) return false;
  ops_case_arg(c, ARG_STR("mode", modes[number % 3]));
  ops_case_arg(c, ARG_STR("padding", paddings[number / 3 % 3]));
  ops_case_arg(c, ARG_BOOL("align_corners", number >= 9));
  if (number >= 18)
    return ops_case_in(c, TD_F32, OPS_DIMS(1, 2, 3, 2, 4), OPS_NORMAL, 1) &&
           ops_case_in(c, TD_F32, OPS_DIMS(1, 2, 1, 3, 3), OPS_NORMAL, 2);
  return ops_case_in(c, TD_F32, OPS_DIMS(2, 1, 4, 5), OPS_NORMAL, 1) &&
         ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 2, 2), OPS_NORMAL, 2);
}

/* ---- td::affine_grid(theta [N, axes, axes + 1], size [axes + 2]) ---- */

static td_status infer_affine(ir_infer *ctx) {
  const ir_type *theta = &ir_in(ctx, 0)->type;
  const base_dim *size;
  uint32_t count;
  bool known = ir_in_ints(ctx, 1, &size, &count);
  int32_t axes;
  if (known) axes = (int32_t)count - 2;
  else if (theta->rank == 3 && base_dim_known(theta->dims[1])) axes = (int32_t)base_min_i64(theta->dims[1], 9);
  else return ir_out_unranked(ctx, 0, theta->dtype);
  if (axes != 2 && axes != 3) return ir_infer_fail(ctx, "grids of 2 or 3 dimensions are supported, not %d", axes);
  base_dim dims[5];
  dims[0] = known ? size[0] : ir_fresh(ctx);
  for (int32_t i = 0; i < axes; i++) dims[1 + i] = known ? size[2 + i] : ir_fresh(ctx);
  dims[1 + axes] = axes;
  return ir_out(ctx, 0, theta->dtype, axes + 2, dims);
}

static td_status affine_reference(const base_call *call) {
  const base_tensor *theta = base_in(call, 0), *y = base_out(call, 0);
  bool align = base_attr_int(call->attrs, 0);
  int64_t axes = y->dims[y->rank - 1], positions = 1;
  if (theta->rank != 3 || theta->dims[0] != y->dims[0] || theta->dims[1] != axes || theta->dims[2] != axes + 1)
    return ops_fail(call, "theta has not the shape [N, %lld, %lld]", (long long)axes, (long long)axes + 1);
  const base_f64 *t = ops_dense_f64(call, 0);
  base_f64 *to = ops_take_f64(call, 0);
  if (!t || !to) return base_no_memory(call->err, "scratch");
  if (base_tensor_numel(y) == 0) return TD_OK;
  for (int64_t i = 0; i < axes; i++) positions *= y->dims[1 + i];
  for (int64_t p = 0; p < y->dims[0] * positions; p++) {
    double at[MAX_AXES + 1] = {0};
    int64_t rest = p % positions;
    for (int64_t i = axes; i-- > 0; rest /= y->dims[1 + i]) { /* the last dim is x, coordinate 0 */
      double size = (double)y->dims[1 + i], index = (double)(rest % y->dims[1 + i]);
      at[axes - 1 - i] = !align ? (2 * index + 1) / size - 1 : size > 1 ? 2 * index / (size - 1) - 1 : 0;
    }
    at[axes] = 1;
    for (int64_t k = 0; k < axes; k++) {
      double sum = 0;
      for (int64_t i = 0; i <= axes; i++) sum += t[(p / positions * axes + k) * (axes + 1) + i] * at[i];
      to[p * axes + k] = sum;
    }
  }
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

static bool cases_affine(ir_case *c, uint32_t number) {
  static const int64_t flat[] = {2, 1, 3, 4}, solid[] = {1, 2, 2, 3, 4};
  if (number >= 3) return false;
  ops_case_arg(c, ARG_BOOL("align_corners", number == 1));
  if (number == 2) return ops_case_in(c, TD_F32, OPS_DIMS(1, 3, 4), OPS_NORMAL, 1) && ops_case_ints(c, solid, 5);
  return ops_case_in(c, TD_F32, OPS_DIMS(2, 2, 3), OPS_NORMAL, 1) && ops_case_ints(c, flat, 4);
}

static const ir_alias affine_aliases[] = {{"onnx", "AffineGrid", 20, NULL}};

OPS_DECLARE(grid);
const ir_op ops_grid[] = {
    {.name = "td::grid_sample",
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = sample_attrs,
     .attr_count = OPS_COUNT(sample_attrs),
     .infer = infer_sample,
     .reference = sample_reference,
     .rtol = 1e-5f,
     .atol = 1e-6f,
     .cases = cases_sample},
    {.name = "td::affine_grid",
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = affine_attrs,
     .attr_count = OPS_COUNT(affine_attrs),
     .infer = infer_affine,
     .reference = affine_reference,
     .rtol = 1e-5f,
     .atol = 1e-6f,
     .cases = cases_affine,
     .aliases = affine_aliases,
     .alias_count = OPS_COUNT(affine_aliases)},
};
OPS_TABLE(grid);
