/* softmax.c -- softmax and its relatives along one dimension; with `flatten` all dimensions from `dim` on are one.
 *
 *     aten::_softmax      exp(x[k] - max) / sum of exp(x - max) (ONNX Softmax 13)
 *     aten::_log_softmax  x[k] - max - log of the sum of exp(x - max) (ONNX LogSoftmax 13)
 *     td::hardmax         1 at the first maximum, else 0 (ONNX Hardmax 13) */
#include "ops/common/kernel_priv.h"
#include "ops/common/lanes_priv.h"
#include "ops/common/lower_priv.h"

#include <math.h>

static const ir_attr softmax_attrs[] = {KERN_SOFTMAX_LIST(OPS_ATTR_ROW)};

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
    if (ops_float_wins(lane[best], lane[k], true, false)) best = k;
  for (int64_t k = 0; k < count; k++) lane[k] = k == best;
}

static void get_lane(const ops_lanes *l, int64_t offset, double *lane) {
  if (l->dtype == TD_F32)
    for (int64_t k = 0; k < l->length; k++) lane[k] = (double)((const base_f32 *)l->data)[offset + k * l->inner];
  else
    for (int64_t k = 0; k < l->length; k++) lane[k] = base_load_f64(l->dtype, l->data, offset + k * l->inner);
}

static td_status run_lanes(const base_call *call, lane_fn body) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  int64_t axis = ops_axis_of(in, base_attr_int(call->attrs, KERN_SOFTMAX_DIM));
  ops_lanes l;
  TRY(ops_lanes_start(call, axis, base_attr_int(call->attrs, KERN_SOFTMAX_FLATTEN) ? in->rank : axis + 1, &l));
  if (!l.data) return TD_OK;
  double *lane = base_call_scratch(call, (size_t)l.length, sizeof *lane);
  if (!lane) return base_no_memory(call->err, "scratch");
  for (int64_t k = 0; k < l.outer * l.inner; k++) {
    int64_t offset = ops_lane_offset(&l, k);
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
  if (in->rank > 0) TRY(ir_axis(ctx, base_attr_int(ctx->attrs, KERN_SOFTMAX_DIM), in->rank, &axis));
  return ops_infer_same(ctx);
}

static bool softmax_keeps_samples(const ir_samples_query *query) {
  return !ops_is_first_dim(base_attr_int(query->attrs, KERN_SOFTMAX_DIM), query->rank);
}

static const kern_row *softmax_kernel(const ir_kernel_query *query) { return ops_kernel_f32(query, KERN_SOFTMAX); }
static const kern_row *log_softmax_kernel(const ir_kernel_query *query) {
  return ops_kernel_f32(query, KERN_LOG_SOFTMAX);
}

/* x less the largest of the row. */
static uint16_t lower_shifted(const ir_kernel_query *query, loop_build *b) {
  const int64_t dim = base_attr_int(query->attrs, KERN_SOFTMAX_DIM);
  if (base_attr_int(query->attrs, KERN_SOFTMAX_FLATTEN) || !ops_lower_is_row(b, query->in[0]->type.rank, &dim, 1))
    return LOOP_NONE;
  return loop_binary(b, BASE_SCALAR_sub, b->in[0], loop_reduce(b, BASE_COMBINE_MAX, b->in[0]));
}

static bool lower_softmax(const ir_kernel_query *query, loop_build *b) {
  const uint16_t shifted = lower_shifted(query, b);
  if (shifted == LOOP_NONE) return false;
  const uint16_t power = loop_unary(b, BASE_SCALAR_exp_flush, shifted);
  const uint16_t scale = loop_unary(b, BASE_SCALAR_reciprocal, loop_reduce(b, BASE_COMBINE_SUM, power));
  b->out = loop_binary(b, BASE_SCALAR_mul, power, scale);
  return true;
}

static bool lower_log_softmax(const ir_kernel_query *query, loop_build *b) {
  const uint16_t shifted = lower_shifted(query, b);
  if (shifted == LOOP_NONE) return false;
  const uint16_t sum = loop_reduce(b, BASE_COMBINE_SUM, loop_unary(b, BASE_SCALAR_exp_flush, shifted));
  b->out = loop_binary(b, BASE_SCALAR_sub, shifted, loop_unary(b, BASE_SCALAR_log, sum));
  return true;
}

static double softmax_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)in;
  (void)attrs;
  double count = 5;
  for (int32_t i = 0; i < out->type.rank; i++) count *= (double)out->type.dims[i];
  return count;
}

/* ---- cases ---- */

/* Lanes side by side, special values, and rows past a piece of a sum. */
static bool softmax_columns_cases(ir_case *c, uint32_t number) {
  switch (number) {
    case 0: ops_case_arg(c, ARG_INT("dim", 1)); return ops_case_in(c, TD_F32, OPS_DIMS(2, 7, 37), OPS_NORMAL, 5);
    case 1: ops_case_arg(c, ARG_INT("dim", 0)); return ops_case_in(c, TD_F32, OPS_DIMS(5, 3), OPS_SPECIAL, 6);
    case 2: return ops_case_in(c, TD_F32, OPS_DIMS(64, 3), OPS_SPECIAL, 7);
    case 3: return ops_case_in(c, TD_F32, OPS_DIMS(2, 5003), OPS_NORMAL, 8);
    case 4: ops_case_arg(c, ARG_INT("dim", 1)); return ops_case_in(c, TD_F32, OPS_DIMS(3, 21, 4), OPS_NORMAL, 9);
    case 5: ops_case_arg(c, ARG_INT("dim", 1)); return ops_case_in(c, TD_F32, OPS_DIMS(5, 7, 8), OPS_SPECIAL, 10);
    case 6: ops_case_arg(c, ARG_INT("dim", 0)); return ops_case_in(c, TD_F32, OPS_DIMS(33, 2), OPS_SPECIAL, 11);
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

OPS_DECLARE(softmax);
const ir_op ops_softmax[] = {
    {.id = OPERATOR(aten, _softmax),
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
     .lower = lower_softmax,
     .flops = softmax_flops,
     .rtol = 1e-5f,
     .aliases = softmax_aliases,
     .alias_count = OPS_COUNT(softmax_aliases)},
    {.id = OPERATOR(aten, _log_softmax),
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
     .lower = lower_log_softmax,
     .flops = softmax_flops,
     .rtol = 1e-5f,
     .atol = 1e-6f,
     .aliases = log_softmax_aliases,
     .alias_count = OPS_COUNT(log_softmax_aliases)},
    {.id = OPERATOR(td, hardmax),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = softmax_attrs,
     .attr_count = OPS_COUNT(softmax_attrs),
     .infer = infer_softmax,
     .reference = hardmax_reference,
     .aliases = hardmax_aliases,
     .alias_count = OPS_COUNT(hardmax_aliases)},
};
OPS_TABLE(softmax);
OPS_CASES(softmax) = {
    {OP_aten__softmax, softmax_cases},
    {OP_aten__log_softmax, softmax_cases},
    {OP_td_hardmax, softmax_cases},
    {0},
};
