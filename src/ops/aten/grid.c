/* grid.c -- td::grid_sample(x, grid): values of images [N, C, in...] of 1 to 3 spatial dims at the positions of a grid
 * [N, out..., dims], coordinates in [-1, 1], x first; and td::affine_grid(theta, size), which makes such grids.
 *
 *     td::grid_sample  y[n, c, p] = sum of weights of taps times x[n, c, tap], taps around grid[n, p] (ONNX
 *                      GridSample 16)
 *     td::affine_grid  grid[p] = theta (p, 1), p the positions of the result in [-1, 1] (ONNX AffineGrid 20) */
#include "kernels/data/data.h"
#include "ops/common/kernel_priv.h"

static const ir_attr sample_attrs[] = {KERN_GRID_LIST(OPS_ATTR_ROW)};
static const ir_attr affine_attrs[] = {ATTR_BOOL("align_corners", false)};
enum { MAX_AXES = KERN_GRID_AXES };

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

static double sample(const kern_grid_taps *t, const int64_t *in, const base_f64 *plane) {
  double sum = 0;
  for (int32_t i = 0; i < t[0].count; i++)
    for (int32_t j = 0; j < t[1].count; j++)
      for (int32_t k = 0; k < t[2].count; k++)
        sum += t[0].weight[i] * t[1].weight[j] * t[2].weight[k] *
               plane[(t[0].index[i] * in[1] + t[1].index[j]) * in[2] + t[2].index[k]];
  return sum;
}

static td_status sample_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  int32_t axes = x->rank - 2;
  kern_grid how;
  const base_f64 *from = ops_dense_f64(call, 0), *grid = ops_dense_f64(call, 1);
  base_f64 *to = ops_take_f64(call, 0);
  if (!from || !grid || !to) return base_no_memory(call->err, "scratch");
  if (base_tensor_numel(y) == 0) return TD_OK;
  TRY(kern_grid_read(call, &how));
  int64_t in[MAX_AXES] = {1, 1, 1}, plane = 1, positions = 1, channels = x->dims[1];
  for (int32_t i = 0; i < axes; i++) {
    in[MAX_AXES - axes + i] = x->dims[2 + i];
    plane *= x->dims[2 + i];
    positions *= y->dims[2 + i];
  }
  for (int64_t i = 0; i < x->dims[0] * positions; i++) {
    kern_grid_taps taps[MAX_AXES];
    for (int32_t k = 0; k < MAX_AXES; k++) taps[k] = (kern_grid_taps){.count = 1, .weight = {1}};
    for (int32_t k = 0; k < axes; k++)
      kern_grid_place(&how, grid[i * axes + axes - 1 - k], x->dims[2 + k], &taps[MAX_AXES - axes + k]);
    for (int64_t c = 0; c < channels; c++) {
      int64_t image = i / positions * channels + c;
      to[image * positions + i % positions] = sample(taps, in, from + image * plane);
    }
  }
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

static const kern_row *sample_kernel(const ir_kernel_query *query) {
  const td_dtype dtype = query->in[0]->type.dtype, grid = query->in[1]->type.dtype;
  const bool fits = (dtype == TD_F32 || dtype == TD_F64) && (grid == TD_F32 || grid == TD_F64);
  return fits ? kern_select(KERN_GRID_SAMPLE, dtype, query->isa) : NULL;
}

/* Each mode with each padding, over one, some and more channels than a block; then other ranks, few positions, and
 * coordinates that are no numbers. */
static bool cases_sample(ir_case *c, uint32_t number) {
  static const char *const modes[] = {"nearest", "linear", "cubic"}, *const paddings[] = {"zeros", "border",
                                                                                          "reflection"};
  static const int64_t channels[] = {1, 7, 19};
  static const struct {
    int32_t rank;
    int64_t x[5], grid[5];
    ops_fill fill;
  } more[] = {{5, {1, 2, 3, 2, 4}, {1, 2, 1, 3, 3}, OPS_NORMAL},
              {5, {2, 7, 3, 2, 4}, {2, 2, 3, 3, 3}, OPS_NORMAL},
              {3, {2, 7, 6}, {2, 5, 1}, OPS_NORMAL},
              {4, {1, 35, 7, 9}, {1, 1, 2, 2}, OPS_NORMAL},
              {4, {2, 7, 4, 5}, {2, 6, 5, 2}, OPS_SPECIAL},
              {4, {1, 1, 1, 1}, {1, 9, 3, 2}, OPS_SPECIAL},
              {4, {1, 2, 3, 2}, {1, 70, 70, 2}, OPS_NORMAL}};
  const uint32_t squares = 18;
  const td_dtype dtype = number % 5 == 4 ? TD_F64 : TD_F32, of_grid = number % 5 > 2 ? TD_F64 : TD_F32;
  if (number >= squares + OPS_COUNT(more)) return false;
  ops_case_arg(c, ARG_STR("mode", modes[number % 3]));
  ops_case_arg(c, ARG_STR("padding", paddings[number / 3 % 3]));
  ops_case_arg(c, ARG_BOOL("align_corners", number / 9 % 2));
  if (number >= squares)
    return ops_case_in(c, dtype, more[number - squares].rank, more[number - squares].x, OPS_NORMAL, 1) &&
           ops_case_in(c, of_grid, more[number - squares].rank, more[number - squares].grid,
                       more[number - squares].fill, 2);
  return ops_case_in(c, dtype, OPS_DIMS(2, channels[(number + number / 3) % 3], 4, 5), OPS_NORMAL, 1) &&
         ops_case_in(c, of_grid, OPS_DIMS(2, 3, 4, 2), OPS_NORMAL, 2);
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

/* Of a place: its coordinates and the weights of its taps; of an element: the sum over these. */
static double sample_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)attrs;
  const int64_t coordinates = ir_known_count(&in[1]->type), elements = ir_known_count(&out->type);
  const int32_t spatial = out->type.rank - 2;
  if (coordinates < 0 || elements < 0 || spatial < 1) return 0;
  return (double)(1 << spatial) * (16.0 * (double)coordinates / spatial + 2.0 * (double)elements);
}

OPS_DECLARE(grid);
const ir_op ops_grid[] = {
    {.id = OPERATOR(td, grid_sample),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = sample_attrs,
     .attr_count = OPS_COUNT(sample_attrs),
     .infer = infer_sample,
     .reference = sample_reference,
     .kernel = sample_kernel,
     .flops = sample_flops,
     .rtol = 1e-5f,
     .atol = 1e-6f},
    {.id = OPERATOR(td, affine_grid),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = affine_attrs,
     .attr_count = OPS_COUNT(affine_attrs),
     .infer = infer_affine,
     .reference = affine_reference,
     .rtol = 1e-5f,
     .atol = 1e-6f,
     .aliases = affine_aliases,
     .alias_count = OPS_COUNT(affine_aliases)},
};
OPS_TABLE(grid);
OPS_CASES(grid) = {
    {OP_td_grid_sample, cases_sample},
    {OP_td_affine_grid, cases_affine},
    {0},
};
