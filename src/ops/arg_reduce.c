/* arg_reduce.c -- along one dimension: the index of the largest or least element, running sums and products, softmax
 * and its relatives. An operand is read densely as [outer, length, inner]; a lane is one of the outer * inner rows. */
#include "ops/kernel_priv.h"

#include <math.h>

/* ---- lanes ---- */

typedef struct lanes {
  const void *data; /* dense; NULL: no elements */
  td_dtype dtype;
  int64_t outer, length, inner;
} lanes;

/* Dimensions [axis, end) make up one lane. */
static td_status lanes_start(const base_call *call, int64_t axis, int64_t end, lanes *l) {
  const base_tensor *in = base_in(call, 0);
  l->data = NULL;
  l->dtype = in->dtype;
  l->outer = l->length = l->inner = 1;
  for (int32_t i = 0; i < in->rank; i++) *(i < axis ? &l->outer : i < end ? &l->length : &l->inner) *= in->dims[i];
  if (base_tensor_numel(in) == 0) return TD_OK;
  l->data = ops_dense(call, 0);
  return l->data ? TD_OK : base_no_memory(call->err, "scratch");
}

static int64_t lane_offset(const lanes *l, int64_t lane) {
  return lane / l->inner * l->length * l->inner + lane % l->inner;
}

static int64_t axis_of(const base_tensor *t, int64_t axis) { return axis < 0 ? axis + t->rank : axis; }

/* ---- argmax, argmin ---- */

enum { ARG_DIM, ARG_KEEPDIM, ARG_LAST };
static const ir_attr arg_attrs[] = {ATTR_OPTIONAL("dim", BASE_ATTR_INT), ATTR_BOOL("keepdim", 0),
                                    ATTR_BOOL("select_last_index", 0)};

/* Does element b, later in the lane, take the place of a? NaN beats everything. */
static bool float_wins(double a, double b, bool largest, bool last) {
  if (isnan(a)) return last && isnan(b);
  if (isnan(b) || (largest ? b > a : b < a)) return true;
  return last && a == b;
}

static bool int_wins(int64_t a, int64_t b, td_dtype dtype, bool largest, bool last) {
  if (a == b) return last;
  bool greater = dtype == TD_U64 ? (uint64_t)b > (uint64_t)a : b > a;
  return greater == largest;
}

static int64_t arg_of_lane(const lanes *l, int64_t offset, bool largest, bool last) {
  td_dtype dtype = l->dtype;
  const void *data = l->data;
  int64_t best = 0;
  for (int64_t k = 1; k < l->length; k++) {
    int64_t a = offset + best * l->inner, b = offset + k * l->inner;
    bool wins = base_is_float(dtype)
                    ? float_wins(base_load_f64(dtype, data, a), base_load_f64(dtype, data, b), largest, last)
                    : int_wins(base_load_i64(dtype, data, a), base_load_i64(dtype, data, b), dtype, largest, last);
    if (wins) best = k;
  }
  return best;
}

static td_status arg_reference(const base_call *call, bool largest) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  bool whole = !base_attr_has(call->attrs, ARG_DIM) || in->rank == 0;
  int64_t axis = whole ? 0 : axis_of(in, base_attr_int(call->attrs, ARG_DIM));
  lanes l;
  TRY(lanes_start(call, axis, whole ? in->rank : axis + 1, &l));
  int64_t count = base_tensor_numel(out);
  if (count && l.length == 0) return ops_fail(call, "no element to choose from");
  for (int64_t lane = 0; lane < count; lane++)
    base_store_i64(out->dtype, out->data, lane,
                   arg_of_lane(&l, lane_offset(&l, lane), largest, base_attr_int(call->attrs, ARG_LAST)));
  return TD_OK;
}
static td_status argmax_reference(const base_call *call) { return arg_reference(call, true); }
static td_status argmin_reference(const base_call *call) { return arg_reference(call, false); }

static td_status infer_arg(ir_infer *ctx) {
  const ir_type *in = &ir_in(ctx, 0)->type;
  bool keep = base_attr_int(ctx->attrs, ARG_KEEPDIM), whole = !base_attr_has(ctx->attrs, ARG_DIM);
  if (whole && !keep) return ir_out(ctx, 0, TD_I64, 0, NULL);
  if (in->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, TD_I64);
  int32_t axis = 0, rank = 0;
  base_dim dims[BASE_MAX_RANK];
  if (!whole && in->rank) TRY(ir_axis(ctx, base_attr_int(ctx->attrs, ARG_DIM), in->rank, &axis));
  for (int32_t i = 0; i < in->rank; i++) {
    bool gone = whole || i == axis;
    if (!gone || keep) dims[rank++] = gone ? 1 : in->dims[i];
  }
  return ir_out(ctx, 0, TD_I64, rank, dims);
}

/* ---- cumsum, cumprod: operand 1 is the dimension (an integer of rank 0 or 1) ---- */

enum { EXCLUSIVE, REVERSE };
static const ir_attr scan_attrs[] = {ATTR_BOOL("exclusive", 0), ATTR_BOOL("reverse", 0)};

static void scan_lane(const lanes *l, const base_tensor *out, int64_t lane, bool product, bool exclusive,
                      bool reverse) {
  int64_t offset = lane_offset(l, lane), ivalue = product;
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
  lanes l;
  TRY(ops_read_ints(call, 1, 1, &axis, &count));
  if (count != 1 || axis < -in->rank || axis >= (in->rank ? in->rank : 1))
    return ops_fail(call, "the dimension is outside the rank %d", in->rank);
  axis = axis_of(in, axis);
  TRY(lanes_start(call, axis, axis + 1, &l));
  if (!l.data) return TD_OK;
  for (int64_t lane = 0; lane < l.outer * l.inner; lane++)
    scan_lane(&l, out, lane, product, base_attr_int(call->attrs, EXCLUSIVE), base_attr_int(call->attrs, REVERSE));
  return TD_OK;
}
static td_status cumsum_reference(const base_call *call) { return scan(call, false); }
static td_status cumprod_reference(const base_call *call) { return scan(call, true); }

static td_status infer_scan(ir_infer *ctx) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  if (!base_is_float(dtype) && !base_is_int(dtype))
    return ir_infer_fail(ctx, "operand of %s; a number is needed", td_dtype_name(dtype));
  return ops_infer_same(ctx);
}

/* ---- softmax: with `flatten` all dimensions from `dim` on are one ---- */

enum { SOFTMAX_DIM, SOFTMAX_FLATTEN };
static const ir_attr softmax_attrs[] = {ATTR_INT("dim", -1), ATTR_BOOL("flatten", 0)};

typedef void (*lane_fn)(double *lane, int64_t count);

static double largest_of(const double *lane, int64_t count) {
  double largest = -INFINITY;
  for (int64_t k = 0; k < count; k++)
    if (lane[k] > largest || isnan(lane[k])) largest = lane[k];
  return largest;
}

static void softmax_lane(double *lane, int64_t count) {
  double largest = largest_of(lane, count), sum = 0;
  for (int64_t k = 0; k < count; k++) sum += lane[k] = exp(lane[k] - largest);
  for (int64_t k = 0; k < count; k++) lane[k] /= sum;
}

static void log_softmax_lane(double *lane, int64_t count) {
  double largest = largest_of(lane, count), sum = 0;
  for (int64_t k = 0; k < count; k++) sum += exp(lane[k] - largest);
  double log_sum = log(sum);
  for (int64_t k = 0; k < count; k++) lane[k] = lane[k] - largest - log_sum;
}

static void hardmax_lane(double *lane, int64_t count) {
  int64_t best = 0;
  for (int64_t k = 1; k < count; k++)
    if (float_wins(lane[best], lane[k], true, false)) best = k;
  for (int64_t k = 0; k < count; k++) lane[k] = k == best;
}

static void get_lane(const lanes *l, int64_t offset, double *lane) {
  if (l->dtype == TD_F32)
    for (int64_t k = 0; k < l->length; k++) lane[k] = (double)((const base_f32 *)l->data)[offset + k * l->inner];
  else
    for (int64_t k = 0; k < l->length; k++) lane[k] = base_load_f64(l->dtype, l->data, offset + k * l->inner);
}

static td_status run_lanes(const base_call *call, lane_fn body) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  int64_t axis = axis_of(in, base_attr_int(call->attrs, SOFTMAX_DIM));
  lanes l;
  TRY(lanes_start(call, axis, base_attr_int(call->attrs, SOFTMAX_FLATTEN) ? in->rank : axis + 1, &l));
  if (!l.data) return TD_OK;
  double *lane = base_call_scratch(call, (size_t)l.length, sizeof *lane);
  if (!lane) return base_no_memory(call->err, "scratch");
  for (int64_t k = 0; k < l.outer * l.inner; k++) {
    int64_t offset = lane_offset(&l, k);
    get_lane(&l, offset, lane);
    body(lane, l.length);
    ops_row_put_f64(out, offset, l.inner, l.length, lane);
  }
  return TD_OK;
}
static td_status softmax_reference(const base_call *call) { return run_lanes(call, softmax_lane); }
static td_status log_softmax_reference(const base_call *call) { return run_lanes(call, log_softmax_lane); }
static td_status hardmax_reference(const base_call *call) { return run_lanes(call, hardmax_lane); }

static td_status infer_softmax(ir_infer *ctx) {
  const ir_type *in = &ir_in(ctx, 0)->type;
  int32_t axis;
  if (!base_is_float(in->dtype))
    return ir_infer_fail(ctx, "operand of %s; a floating-point type is needed", td_dtype_name(in->dtype));
  if (in->rank > 0) TRY(ir_axis(ctx, base_attr_int(ctx->attrs, SOFTMAX_DIM), in->rank, &axis));
  return ops_infer_same(ctx);
}

static bool softmax_keeps_samples(const base_attrs *attrs, int32_t rank) {
  return !ops_is_first_dim(base_attr_int(attrs, SOFTMAX_DIM), rank);
}

static const kern_row *softmax_kernel(const ir_kernel_query *query) { return ops_kernel_f32(query, KERN_SOFTMAX); }
static const kern_row *log_softmax_kernel(const ir_kernel_query *query) {
  return ops_kernel_f32(query, KERN_LOG_SOFTMAX);
}

static double softmax_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)in;
  (void)attrs;
  double count = 5;
  for (int32_t i = 0; i < out->type.rank; i++) count *= (double)out->type.dims[i];
  return count;
}

/* ---- cases ---- */

static bool arg_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_BF16, TD_I64, TD_U64};
  if (number >= 4 * OPS_COUNT(dtypes)) return false;
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

/* Lanes side by side, special values, and rows past a piece of a sum. */
static bool softmax_columns_cases(ir_case *c, uint32_t number) {
  switch (number) {
    case 0: ops_case_arg(c, ARG_INT("dim", 1)); return ops_case_in(c, TD_F32, OPS_DIMS(2, 7, 37), OPS_NORMAL, 5);
    case 1: ops_case_arg(c, ARG_INT("dim", 0)); return ops_case_in(c, TD_F32, OPS_DIMS(5, 3), OPS_SPECIAL, 6);
    case 2: return ops_case_in(c, TD_F32, OPS_DIMS(64, 3), OPS_SPECIAL, 7);
    case 3: return ops_case_in(c, TD_F32, OPS_DIMS(2, 5003), OPS_NORMAL, 8);
    default: return false;
  }
}

static bool softmax_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16};
  if (number >= 4 * OPS_COUNT(dtypes)) return softmax_columns_cases(c, number - 4 * OPS_COUNT(dtypes));
  td_dtype d = dtypes[number / 4];
  ops_case_arg(c, ARG_INT("dim", number % 4 == 3 ? 1 : -1));
  ops_case_arg(c, ARG_BOOL("flatten", number % 4 == 3));
  switch (number % 4) {
    case 0: return ops_case_in(c, d, OPS_DIMS(7, 601), OPS_NORMAL, 1);
    case 1: return ops_case_in(c, d, OPS_DIMS(3, 0), OPS_NORMAL, 2);
    case 2: return ops_case_in(c, d, OPS_DIMS(13, 1), OPS_NORMAL, 3);
    default: return ops_case_in(c, d, OPS_DIMS(2, 3, 5), OPS_NORMAL, 4);
  }
}

static const ir_alias softmax_aliases[] = {{"onnx", "Softmax", 13, "axis=dim"}};
static const ir_alias log_softmax_aliases[] = {{"onnx", "LogSoftmax", 13, "axis=dim"}};
static const ir_alias hardmax_aliases[] = {{"onnx", "Hardmax", 13, "axis=dim"}};
static const ir_alias cumsum_aliases[] = {{"onnx", "CumSum", 11, NULL}};
static const ir_alias cumprod_aliases[] = {{"onnx", "CumProd", 26, NULL}};

OPS_DECLARE(arg_reduce);
const ir_op ops_arg_reduce[] = {
    {.name = "aten::argmax",
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = arg_attrs,
     .attr_count = OPS_COUNT(arg_attrs),
     .infer = infer_arg,
     .reference = argmax_reference,
     .cases = arg_cases},
    {.name = "aten::argmin",
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = arg_attrs,
     .attr_count = OPS_COUNT(arg_attrs),
     .infer = infer_arg,
     .reference = argmin_reference,
     .cases = arg_cases},
    {.name = "aten::cumsum",
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = scan_attrs,
     .attr_count = OPS_COUNT(scan_attrs),
     .infer = infer_scan,
     .reference = cumsum_reference,
     .rtol = 1e-5f,
     .cases = scan_cases,
     .aliases = cumsum_aliases,
     .alias_count = OPS_COUNT(cumsum_aliases)},
    {.name = "aten::cumprod",
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = scan_attrs,
     .attr_count = OPS_COUNT(scan_attrs),
     .infer = infer_scan,
     .reference = cumprod_reference,
     .rtol = 1e-5f,
     .cases = scan_cases,
     .aliases = cumprod_aliases,
     .alias_count = OPS_COUNT(cumprod_aliases)},
    {.name = "aten::_softmax",
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = softmax_attrs,
     .attr_count = OPS_COUNT(softmax_attrs),
     .by_sample = 1,
     .keeps_samples = softmax_keeps_samples,
     .infer = infer_softmax,
     .reference = softmax_reference,
     .kernel = softmax_kernel,
     .flops = softmax_flops,
     .rtol = 1e-5f,
     .cases = softmax_cases,
     .aliases = softmax_aliases,
     .alias_count = OPS_COUNT(softmax_aliases)},
    {.name = "aten::_log_softmax",
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = softmax_attrs,
     .attr_count = OPS_COUNT(softmax_attrs),
     .by_sample = 1,
     .keeps_samples = softmax_keeps_samples,
     .infer = infer_softmax,
     .reference = log_softmax_reference,
     .kernel = log_softmax_kernel,
     .flops = softmax_flops,
     .rtol = 1e-5f,
     .atol = 1e-6f,
     .cases = softmax_cases,
     .aliases = log_softmax_aliases,
     .alias_count = OPS_COUNT(log_softmax_aliases)},
    {.name = "td::hardmax",
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = softmax_attrs,
     .attr_count = OPS_COUNT(softmax_attrs),
     .infer = infer_softmax,
     .reference = hardmax_reference,
     .cases = softmax_cases,
     .aliases = hardmax_aliases,
     .alias_count = OPS_COUNT(hardmax_aliases)},
};
OPS_TABLE(arg_reduce);
