/* scan.c -- what has been seen so far along one dimension: the largest or least element and where it stood last, and
 * the logarithm of the sum of exponentials. NaN stays once it was seen.
 *
 *     aten::cummax, cummin  y[k] = largest, least of x[0..k], and its index (PyTorch cummax, cummin)
 *     aten::logcumsumexp    y[k] = log of the sum of exp(x[j]), j = 0..k (PyTorch logcumsumexp) */
#include "ops/common/lanes_priv.h"
#include "ops/common/lower_priv.h"

#include <math.h>

enum { DIM };
static const ir_attr scan_attrs[] = {ATTR_INT("dim", -1)};

/* Lanes along the attribute's dimension; of rank 0 one lane of one element. */
static td_status lanes_of(const base_call *call, ops_lanes *l) {
  const base_tensor *in = base_in(call, 0);
  int64_t axis = in->rank ? ops_axis_of(in, base_attr_int(call->attrs, DIM)) : 0;
  return ops_lanes_start(call, axis, in->rank ? axis + 1 : 0, l);
}

static bool whole_wins(td_dtype dtype, int64_t a, int64_t b, bool largest) {
  if (a == b) return true;
  bool greater = dtype == TD_U64 ? (uint64_t)b > (uint64_t)a : b > a;
  return greater == largest;
}

static td_status extreme(const base_call *call, bool largest) {
  const base_tensor *values = base_out(call, 0), *positions = base_out(call, 1);
  ops_lanes l;
  TRY(lanes_of(call, &l));
  if (!l.data) return TD_OK;
  bool is_float = base_is_float(l.dtype);
  for (int64_t lane = 0; lane < l.outer * l.inner; lane++) {
    int64_t offset = ops_lane_offset(&l, lane), best = 0;
    for (int64_t k = 0; k < l.length; k++) {
      int64_t at = offset + k * l.inner, held = offset + best * l.inner;
      bool wins =
          is_float
              ? ops_float_wins(base_load_f64(l.dtype, l.data, held), base_load_f64(l.dtype, l.data, at), largest, true)
              : whole_wins(l.dtype, base_load_i64(l.dtype, l.data, held), base_load_i64(l.dtype, l.data, at), largest);
      if (wins) best = k;
      held = offset + best * l.inner;
      if (positions) base_store_i64(TD_I64, positions->data, at, best);
      if (values && is_float) base_store_f64(l.dtype, values->data, at, base_load_f64(l.dtype, l.data, held));
      else if (values) base_store_i64(l.dtype, values->data, at, base_load_i64(l.dtype, l.data, held));
    }
  }
  return TD_OK;
}
static td_status cummax_reference(const base_call *call) { return extreme(call, true); }
static td_status cummin_reference(const base_call *call) { return extreme(call, false); }

static td_status logcumsumexp_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  ops_lanes l;
  TRY(lanes_of(call, &l));
  if (!l.data) return TD_OK;
  for (int64_t lane = 0; lane < l.outer * l.inner; lane++) {
    double largest = -INFINITY, sum = 0; /* of exp(x - largest) */
    for (int64_t k = 0; k < l.length; k++) {
      int64_t at = ops_lane_offset(&l, lane) + k * l.inner;
      double x = base_load_f64(l.dtype, l.data, at);
      if (x > largest) {
        sum = sum * exp(largest - x) + 1;
        largest = x;
      } else sum += x == largest ? x != -INFINITY : exp(x - largest);
      base_store_f64(out->dtype, out->data, at, isinf(largest) ? largest + (isnan(sum) ? NAN : 0) : largest + log(sum));
    }
  }
  return TD_OK;
}

static bool lower_cummax(const ir_kernel_query *query, loop_build *b) {
  return ops_lower_scan(query, b, base_attr_int(query->attrs, DIM), BASE_COMBINE_MAX, 0);
}
static bool lower_cummin(const ir_kernel_query *query, loop_build *b) {
  return ops_lower_scan(query, b, base_attr_int(query->attrs, DIM), BASE_COMBINE_MIN, 0);
}
static bool lower_logcumsumexp(const ir_kernel_query *query, loop_build *b) {
  return ops_lower_scan(query, b, base_attr_int(query->attrs, DIM), BASE_COMBINE_LOG_ADD, 0);
}

static td_status axis_fits(ir_infer *ctx) {
  int32_t axis, rank = ir_in(ctx, 0)->type.rank;
  return rank > 0 ? ir_axis(ctx, base_attr_int(ctx->attrs, DIM), rank, &axis) : TD_OK;
}
static td_status infer_extreme(ir_infer *ctx) {
  TRY(axis_fits(ctx));
  TRY(ops_infer_same(ctx));
  return ir_out_like(ctx, 1, 0, TD_I64);
}
static td_status infer_float(ir_infer *ctx) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  if (!base_is_float(dtype))
    return ir_infer_fail(ctx, "operand of %s; a floating-point type is needed", td_dtype_name(dtype));
  TRY(axis_fits(ctx));
  return ops_infer_same(ctx);
}

static bool cases(ir_case *c, td_dtype dtype, uint32_t number) {
  ops_case_arg(c, ARG_INT("dim", number % 3 == 2 ? 0 : number % 3 == 1 ? -2 : -1));
  if (number == 3) return ops_case_in(c, dtype, 0, NULL, OPS_NORMAL, number);
  if (number == 4) return ops_case_in(c, dtype, OPS_DIMS(2, 0, 3), OPS_NORMAL, number);
  return ops_case_in(c, dtype, OPS_DIMS(3, 7, 5), number == 1 ? OPS_SPECIAL : OPS_NORMAL, number);
}
static bool extreme_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_BF16, TD_I64, TD_U64, TD_BOOL};
  return number < 5 * OPS_COUNT(dtypes) && cases(c, dtypes[number / 5], number % 5);
}
static bool float_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16};
  return number < 5 * OPS_COUNT(dtypes) && cases(c, dtypes[number / 5], number % 5);
}

OPS_DECLARE(scan);
const ir_op ops_scan[] = {
    /* (x) -> values, positions; of equal ones the last */
    {.id = OPERATOR(aten, cummax),
     .min_in = 1,
     .max_in = 1,
     .out_count = 2,
     .attrs = scan_attrs,
     .attr_count = OPS_COUNT(scan_attrs),
     .infer = infer_extreme,
     .reference = cummax_reference,
     .lower = lower_cummax},
    {.id = OPERATOR(aten, cummin),
     .min_in = 1,
     .max_in = 1,
     .out_count = 2,
     .attrs = scan_attrs,
     .attr_count = OPS_COUNT(scan_attrs),
     .infer = infer_extreme,
     .reference = cummin_reference,
     .lower = lower_cummin},
    {.id = OPERATOR(aten, logcumsumexp),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = scan_attrs,
     .attr_count = OPS_COUNT(scan_attrs),
     .infer = infer_float,
     .reference = logcumsumexp_reference,
     .lower = lower_logcumsumexp,
     .rtol = 1e-5f},
};
OPS_TABLE(scan);
OPS_CASES(scan) = {
    {OP_aten_cummax, extreme_cases},
    {OP_aten_cummin, extreme_cases},
    {OP_aten_logcumsumexp, float_cases},
    {0},
};
