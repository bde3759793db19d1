/* arg_reduce.c -- along one dimension: the index of the largest or least element, and running sums and products.
 *
 *     aten::argmax, argmin   the k with the largest, least x[k] (ONNX ArgMax, ArgMin 13)
 *     aten::cumsum, cumprod  y[k] = sum, product of x[0..k] (ONNX CumSum 11, CumProd 26) */
#include "ops/common/kernel_priv.h"
#include "ops/common/lanes_priv.h"
#include "ops/common/lower_priv.h"

#include <math.h>

/* ---- argmax, argmin ---- */

static const ir_attr arg_attrs[] = {KERN_ARG_LIST(OPS_ATTR_ROW)};

static bool int_wins(int64_t a, int64_t b, td_dtype dtype, bool largest, bool last) {
  if (a == b) return last;
  bool greater = dtype == TD_U64 ? (uint64_t)b > (uint64_t)a : b > a;
  return greater == largest;
}

static int64_t arg_of_lane(const ops_lanes *l, int64_t offset, bool largest, bool last) {
  td_dtype dtype = l->dtype;
  const void *data = l->data;
  int64_t best = 0;
  for (int64_t k = 1; k < l->length; k++) {
    int64_t a = offset + best * l->inner, b = offset + k * l->inner;
    bool wins = base_is_float(dtype)
                    ? ops_float_wins(base_load_f64(dtype, data, a), base_load_f64(dtype, data, b), largest, last)
                    : int_wins(base_load_i64(dtype, data, a), base_load_i64(dtype, data, b), dtype, largest, last);
    if (wins) best = k;
  }
  return best;
}

static td_status arg_reference(const base_call *call, bool largest) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  bool whole = !base_attr_has(call->attrs, KERN_ARG_DIM) || in->rank == 0;
  int64_t axis = whole ? 0 : ops_axis_of(in, base_attr_int(call->attrs, KERN_ARG_DIM));
  ops_lanes l;
  TRY(ops_lanes_start(call, axis, whole ? in->rank : axis + 1, &l));
  int64_t count = base_tensor_numel(out);
  if (count && l.length == 0) return ops_fail(call, "no element to choose from");
  for (int64_t lane = 0; lane < count; lane++)
    base_store_i64(out->dtype, out->data, lane,
                   arg_of_lane(&l, ops_lane_offset(&l, lane), largest, base_attr_int(call->attrs, KERN_ARG_LAST)));
  return TD_OK;
}
static td_status argmax_reference(const base_call *call) { return arg_reference(call, true); }
static td_status argmin_reference(const base_call *call) { return arg_reference(call, false); }

static const kern_row *arg_kernel(const ir_kernel_query *query, kern_family family) {
  return query->in[0]->type.dtype == TD_F32 ? kern_select(family, TD_F32, query->isa) : NULL;
}
static const kern_row *argmax_kernel(const ir_kernel_query *query) { return arg_kernel(query, KERN_ARGMAX); }
static const kern_row *argmin_kernel(const ir_kernel_query *query) { return arg_kernel(query, KERN_ARGMIN); }

static td_status infer_arg(ir_infer *ctx) {
  const ir_type *in = &ir_in(ctx, 0)->type;
  bool keep = base_attr_int(ctx->attrs, KERN_ARG_KEEPDIM), whole = !base_attr_has(ctx->attrs, KERN_ARG_DIM);
  if (whole && !keep) return ir_out(ctx, 0, TD_I64, 0, NULL);
  if (in->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, TD_I64);
  int32_t axis = 0, rank = 0;
  base_dim dims[BASE_MAX_RANK];
  if (!whole && in->rank) TRY(ir_axis(ctx, base_attr_int(ctx->attrs, KERN_ARG_DIM), in->rank, &axis));
  for (int32_t i = 0; i < in->rank; i++) {
    bool gone = whole || i == axis;
    if (!gone || keep) dims[rank++] = gone ? 1 : in->dims[i];
  }
  return ir_out(ctx, 0, TD_I64, rank, dims);
}

/* ---- cumsum, cumprod: operand 1 is the dimension (an integer of rank 0 or 1) ---- */

enum { EXCLUSIVE, REVERSE };
static const ir_attr scan_attrs[] = {ATTR_BOOL("exclusive", 0), ATTR_BOOL("reverse", 0)};

static void scan_lane(const ops_lanes *l, const base_tensor *out, int64_t lane, bool product, bool exclusive,
                      bool reverse) {
  int64_t offset = ops_lane_offset(l, lane), ivalue = product;
  double value = product;
  bool is_float = base_is_float(out->dtype);
  for (int64_t k = 0; k < l->length; k++) {
    int64_t at = offset + (reverse ? l->length - 1 - k : k) * l->inner;
    double before = value;
    int64_t ibefore = ivalue;
    if (is_float) {
      double x = base_load_f64(out->dtype, l->data, at);
      value = product ? value * x : value + x;
      base_store_f64(out->dtype, out->data, at, exclusive ? before : value);
    } else {
      uint64_t x = (uint64_t)base_load_i64(out->dtype, l->data, at);
      ivalue = (int64_t)(product ? (uint64_t)ivalue * x : (uint64_t)ivalue + x);
      base_store_i64(out->dtype, out->data, at, exclusive ? ibefore : ivalue);
    }
  }
}

static td_status scan(const base_call *call, bool product) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  int64_t axis;
  uint32_t count;
  ops_lanes l;
  TRY(ops_read_ints(call, 1, 1, &axis, &count));
  if (count != 1 || axis < -in->rank || axis >= (in->rank ? in->rank : 1))
    return ops_fail(call, "the dimension is outside the rank %d", in->rank);
  axis = ops_axis_of(in, axis);
  TRY(ops_lanes_start(call, axis, axis + 1, &l));
  if (!l.data) return TD_OK;
  for (int64_t lane = 0; lane < l.outer * l.inner; lane++)
    scan_lane(&l, out, lane, product, base_attr_int(call->attrs, EXCLUSIVE), base_attr_int(call->attrs, REVERSE));
  return TD_OK;
}
static td_status cumsum_reference(const base_call *call) { return scan(call, false); }
static td_status cumprod_reference(const base_call *call) { return scan(call, true); }

static bool lower_scan(const ir_kernel_query *query, loop_build *b, base_combine combine) {
  const base_tensor *axis = query->in[1] ? query->in[1]->constant : NULL;
  if (!axis || !base_is_int(axis->dtype) || base_tensor_numel(axis) != 1) return false;
  const uint32_t how = (base_attr_int(query->attrs, EXCLUSIVE) ? BASE_SCAN_EXCLUSIVE : 0) |
                       (base_attr_int(query->attrs, REVERSE) ? BASE_SCAN_REVERSE : 0);
  const int64_t at = base_load_i64(axis->dtype, axis->data, 0), rank = query->in[0]->type.rank;
  return at >= -rank && at < rank && ops_lower_scan(query, b, at, combine, how);
}
static bool lower_cumsum(const ir_kernel_query *query, loop_build *b) { return lower_scan(query, b, BASE_COMBINE_SUM); }
static bool lower_cumprod(const ir_kernel_query *query, loop_build *b) {
  return lower_scan(query, b, BASE_COMBINE_PROD);
}

static td_status infer_scan(ir_infer *ctx) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  if (!base_is_float(dtype) && !base_is_int(dtype))
    return ir_infer_fail(ctx, "operand of %s; a number is needed", td_dtype_name(dtype));
  return ops_infer_same(ctx);
}
/* ---- cases ---- */

/* Rows and columns of vectors: of special numbers, and of whole ones, many of them equal. */
static bool arg_vector_cases(ir_case *c, uint32_t number) {
  if (number >= 8) return false;
  ops_case_arg(c, ARG_INT("dim", number & 1 ? 1 : -1));
  if (number & 2) ops_case_arg(c, ARG_BOOL("select_last_index", 1));
  if (!ops_case_in(c, TD_F32, OPS_DIMS(3, 21, 171), number & 4 ? OPS_SPECIAL : OPS_NORMAL, number)) return false;
  float *x = c->in[0].data;
  for (int64_t i = 0; !(number & 4) && i < base_tensor_numel(&c->in[0]); i++) x[i] = rintf(x[i]);
  return true;
}

static bool arg_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_BF16, TD_I64, TD_U64};
  if (number >= 4 * OPS_COUNT(dtypes)) return arg_vector_cases(c, number - 4 * OPS_COUNT(dtypes));
  td_dtype d = dtypes[number / 4];
  if (number % 4) ops_case_arg(c, ARG_INT("dim", number % 4 == 1 ? -1 : 0));
  if (number % 4 == 2) ops_case_arg(c, ARG_BOOL("keepdim", 1));
  if (number % 4 == 3) ops_case_arg(c, ARG_BOOL("select_last_index", 1));
  return ops_case_in(c, d, OPS_DIMS(5, 1, 7), number % 4 == 1 ? OPS_SPECIAL : OPS_NORMAL, number);
}

static bool scan_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_I64, TD_I32};
  if (number >= 4 * OPS_COUNT(dtypes)) return false;
  ops_case_arg(c, ARG_BOOL("exclusive", number & 1));
  ops_case_arg(c, ARG_BOOL("reverse", number >> 1 & 1));
  return ops_case_in(c, dtypes[number / 4], OPS_DIMS(3, 5, 2), OPS_NORMAL, number) &&
         ops_case_ints(c, (int64_t[]){number % 2 ? -2 : 0}, 1);
}
static const ir_alias cumsum_aliases[] = {{"onnx", "CumSum", 11, NULL}};
static const ir_alias cumprod_aliases[] = {{"onnx", "CumProd", 26, NULL}};

OPS_DECLARE(arg_reduce);
const ir_op ops_arg_reduce[] = {
    {.id = OPERATOR(aten, argmax),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = arg_attrs,
     .attr_count = OPS_COUNT(arg_attrs),
     .infer = infer_arg,
     .reference = argmax_reference,
     .kernel = argmax_kernel},
    {.id = OPERATOR(aten, argmin),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = arg_attrs,
     .attr_count = OPS_COUNT(arg_attrs),
     .infer = infer_arg,
     .reference = argmin_reference,
     .kernel = argmin_kernel},
    {.id = OPERATOR(aten, cumsum),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = scan_attrs,
     .attr_count = OPS_COUNT(scan_attrs),
     .infer = infer_scan,
     .reference = cumsum_reference,
     .lower = lower_cumsum,
     .rtol = 1e-5f,
     .aliases = cumsum_aliases,
     .alias_count = OPS_COUNT(cumsum_aliases)},
    {.id = OPERATOR(aten, cumprod),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = scan_attrs,
     .attr_count = OPS_COUNT(scan_attrs),
     .infer = infer_scan,
     .reference = cumprod_reference,
     .lower = lower_cumprod,
     .rtol = 1e-5f,
     .aliases = cumprod_aliases,
     .alias_count = OPS_COUNT(cumprod_aliases)},
};
OPS_TABLE(arg_reduce);
OPS_CASES(arg_reduce) = {
    {OP_aten_argmax, arg_cases},
    {OP_aten_argmin, arg_cases},
    {OP_aten_cumsum, scan_cases},
    {OP_aten_cumprod, scan_cases},
    {0},
};
