/* histogram.c -- how many elements lie between edges, and between which edges elements lie.
 *
 *     aten::histc        y[b] = number of x in bin b of equal width (PyTorch histc)
 *     td::histogram      y[b] = sum of weights of x in [edge b, edge b + 1) (PyTorch histogram)
 *     td::search_sorted  y = number of edges below x (right: not above x) (PyTorch searchsorted) */
#include "base/size.h"
#include "ops/common/ops_priv.h"

#include <math.h>
#include <string.h>

/* ---- aten::histc (x [n], range [2]) {bins} -> counts, as x's type: bins of one width; what lies outside is left out
 */

static const ir_attr histc_attrs[] = {ATTR_INT("bins", 100)};

static td_status histc_reference(const base_call *call) {
  const base_f64 *x = ops_dense_f64(call, 0), *range = ops_dense_f64(call, 1);
  int64_t bins = base_attr_int(call->attrs, 0);
  double *counts = base_call_scratch(call, (size_t)bins, sizeof *counts);
  if (!x || !range || !counts) return base_no_memory(call->err, "scratch");
  if (base_tensor_numel(base_in(call, 1)) != 2) return ops_fail(call, "a range has two ends");
  memset(counts, 0, (size_t)bins * sizeof *counts);
  double low = range[0], high = range[1];
  if (!isfinite(low) || !isfinite(high)) return ops_fail(call, "the range [%g, %g] is not finite", low, high);
  if (low > high) return ops_fail(call, "the range ends at %g, below its begin %g", high, low);
  for (int64_t k = 0; k < base_tensor_numel(base_in(call, 0)); k++) {
    if (!(x[k] >= low && x[k] <= high)) continue;
    int64_t bin = high > low ? (int64_t)((x[k] - low) * (double)bins / (high - low)) : 0;
    counts[base_min_i64(bin, bins - 1)]++;
  }
  ops_put(call, 0, TD_F64, counts);
  return TD_OK;
}
static td_status needs_floats(ir_infer *ctx, uint32_t operands) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  if (!base_is_float(dtype))
    return ir_infer_fail(ctx, "operand of %s; a floating-point type is needed", td_dtype_name(dtype));
  for (uint32_t i = 0; i < operands; i++) {
    const ir_info *in = ir_in(ctx, i);
    if (in && in->type.rank > 1)
      return ir_infer_fail(ctx, "operand %u of rank %d; a vector is needed", i, in->type.rank);
    TRY(ops_same_dtype(ctx, 0, i));
  }
  return TD_OK;
}
static td_status infer_histc(ir_infer *ctx) {
  int64_t bins = base_attr_int(ctx->attrs, 0);
  TRY(needs_floats(ctx, 2));
  if (bins < 1 || bins > INT32_MAX) return ir_infer_fail(ctx, "%lld bins", (long long)bins);
  return ir_out(ctx, 0, ir_in(ctx, 0)->type.dtype, 1, &bins);
}

/* ---- td::histogram (x [n], edges [b + 1] ascending, weight [n]?) -> sums [b]; the last bin has both its edges ---- */

static td_status histogram_reference(const base_call *call) {
  const base_tensor *weight = base_in(call, 2);
  const base_f64 *x = ops_dense_f64(call, 0), *edges = ops_dense_f64(call, 1), *w = ops_dense_f64(call, 2);
  int64_t count = base_tensor_numel(base_in(call, 0)), bins = base_tensor_numel(base_in(call, 1)) - 1;
  if (bins < 0) return ops_fail(call, "there is no edge");
  if (weight && base_tensor_numel(weight) != count)
    return ops_fail(call, "%lld elements, other weights", (long long)count);
  double *sums = base_call_scratch(call, (size_t)bins, sizeof *sums);
  if (!x || !edges || (weight && !w) || !sums) return base_no_memory(call->err, "scratch");
  memset(sums, 0, (size_t)bins * sizeof *sums);
  for (int64_t k = 0; k < count && bins; k++) {
    if (!(x[k] >= edges[0] && x[k] <= edges[bins])) continue;
    int64_t low = 0, high = bins; /* edges[low] <= x, and x < edges[high] or high is the last */
    while (high - low > 1) {
      int64_t middle = low + (high - low) / 2;
      if (x[k] >= edges[middle]) low = middle;
      else high = middle;
    }
    sums[low] += w ? w[k] : 1;
  }
  ops_put(call, 0, TD_F64, sums);
  return TD_OK;
}
static td_status infer_histogram(ir_infer *ctx) {
  const ir_type *edges = &ir_in(ctx, 1)->type;
  TRY(needs_floats(ctx, 3));
  if (edges->rank == IR_UNRANKED) return ir_out(ctx, 0, edges->dtype, 1, (base_dim[]){ir_fresh(ctx)});
  if (edges->rank != 1) return ir_infer_fail(ctx, "edges of rank %d", edges->rank);
  if (base_dim_known(edges->dims[0]) && edges->dims[0] < 1) return ir_infer_fail(ctx, "there is no edge");
  base_dim bins = base_dim_sub(ctx->dims, edges->dims[0], 1);
  return ir_out(ctx, 0, edges->dtype, 1, &bins);
}

/* ---- td::search_sorted (edges [.., m] ascending, x) {right} -> i64: how many edges lie below each element of x, or,
 * with `right`, not above it; NaN is above all. One row of edges for all of x, or one for each row of x. ---- */

static const ir_attr search_attrs[] = {ATTR_BOOL("right", 0)};

#define SEARCH(NAME, T)                                                          \
  static int64_t search_##NAME(const T *edges, int64_t count, T x, bool right) { \
    int64_t low = 0;                                                             \
    while (low < count) {                                                        \
      const int64_t middle = low + (count - low) / 2;                            \
      const bool above = right ? edges[middle] > x : edges[middle] >= x;         \
      if (above) count = middle;                                                 \
      else low = middle + 1;                                                     \
    }                                                                            \
    return low;                                                                  \
  }
SEARCH(f64, base_f64)
SEARCH(i64, base_i64)

static td_status search_reference(const base_call *call) {
  const base_tensor *edges = base_in(call, 0), *x = base_in(call, 1);
  const bool right = base_attr_int(call->attrs, 0), floats = base_is_float(edges->dtype);
  const int64_t m = edges->dims[edges->rank - 1], count = base_tensor_numel(x);
  const int64_t row = edges->rank > 1 ? x->dims[x->rank - 1] : count;
  const base_f64 *edges_f = floats ? ops_dense_f64(call, 0) : NULL, *x_f = floats ? ops_dense_f64(call, 1) : NULL;
  const base_i64 *edges_i = floats ? NULL : ops_dense_i64(call, 0), *x_i = floats ? NULL : ops_dense_i64(call, 1);
  base_i64 *out = ops_take_i64(call, 0);
  if (!out || (floats ? !edges_f || !x_f : !edges_i || !x_i)) return base_no_memory(call->err, "scratch");
  for (int32_t i = 0; i + 1 < edges->rank; i++)
    if (edges->dims[i] != x->dims[i])
      return ops_fail(call, "%lld rows of edges for %lld", (long long)edges->dims[i], (long long)x->dims[i]);
  for (int64_t k = 0; k < count; k++) {
    const int64_t at = edges->rank > 1 ? k / row * m : 0;
    out[k] = floats ? search_f64(edges_f + at, m, x_f[k], right) : search_i64(edges_i + at, m, x_i[k], right);
  }
  ops_put(call, 0, TD_I64, out);
  return TD_OK;
}
static td_status infer_search(ir_infer *ctx) {
  const ir_type *edges = &ir_in(ctx, 0)->type, *x = &ir_in(ctx, 1)->type;
  TRY(ops_same_dtype(ctx, 0, 1));
  if (ops_any_unranked(ctx)) return ir_out_like(ctx, 0, 1, TD_I64);
  if (edges->rank < 1 || (edges->rank > 1 && edges->rank != x->rank))
    return ir_infer_fail(ctx, "edges of rank %d for elements of rank %d", edges->rank, x->rank);
  for (int32_t i = 0; i + 1 < edges->rank; i++)
    if (ops_dims_differ(edges->dims[i], x->dims[i])) return ir_infer_fail(ctx, "other rows of edges than of elements");
  return ir_out_like(ctx, 0, 1, TD_I64);
}
static bool search_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_I64, TD_F16, TD_I32};
  if (number >= 12) return false;
  const td_dtype d = dtypes[number % 4];
  ops_case_arg(c, ARG_BOOL("right", number / 4 == 1));
  if (number / 4 < 2)
    return ops_case_in(c, d, OPS_DIMS(number ? 5 : 0), OPS_INDEX, 1) &&
           ops_case_in(c, d, OPS_DIMS(4, 7), number % 4 ? OPS_NORMAL : OPS_SPECIAL, number);
  return ops_case_in(c, d, OPS_DIMS(2, 3), OPS_INDEX, 1) && ops_case_in(c, d, OPS_DIMS(2, 9), OPS_NORMAL, number);
}

static bool histc_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16};
  if (number >= 6) return false;
  td_dtype d = dtypes[number % 3];
  ops_case_arg(c, ARG_INT("bins", number % 2 ? 7 : 1));
  return ops_case_in(c, d, OPS_DIMS(number == 5 ? 0 : 31), number == 4 ? OPS_SPECIAL : OPS_NORMAL, number) &&
         ops_case_in(c, d, OPS_DIMS(2), OPS_INDEX, number);
}
static bool histogram_cases(ir_case *c, uint32_t number) {
  if (number >= 6) return false;
  td_dtype d = number % 2 ? TD_F64 : TD_F32;
  return ops_case_in(c, d, OPS_DIMS(31), number == 5 ? OPS_SPECIAL : OPS_POSITIVE, number) &&
         ops_case_in(c, d, OPS_DIMS(1 + number), OPS_INDEX, number) &&
         (number < 3 || ops_case_in(c, d, OPS_DIMS(31), OPS_NORMAL, number + 1));
}

OPS_DECLARE(histogram);
const ir_op ops_histogram[] = {
    {.id = OPERATOR(aten, histc),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = histc_attrs,
     .attr_count = OPS_COUNT(histc_attrs),
     .infer = infer_histc,
     .reference = histc_reference},
    {.id = OPERATOR(td, histogram),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .infer = infer_histogram,
     .reference = histogram_reference,
     .rtol = 1e-6f},
    {.id = OPERATOR(td, search_sorted),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = search_attrs,
     .attr_count = OPS_COUNT(search_attrs),
     .infer = infer_search,
     .reference = search_reference},
};
OPS_TABLE(histogram);
OPS_CASES(histogram) = {
    {OP_aten_histc, histc_cases},
    {OP_td_histogram, histogram_cases},
    {OP_td_search_sorted, search_cases},
    {0},
};
