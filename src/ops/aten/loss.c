/* loss.c -- losses: negative log-likelihood.
 *
 *     aten::nll_loss_nd  -weight[t] x[n, t, ..], t = target[n, ..]; none, sum, or mean = sum / sum of weights
 * PyTorch nll_loss_nd; ONNX NegativeLogLikelihoodLoss 13. */
#include "ops/common/ops_priv.h"

#include <string.h>

/* ---- aten::nll_loss_nd(x [n, c, d...], target [n, d...], weight [c]?): -weight * x at the target class ---- */

enum { REDUCTION, IGNORE };
static const ir_attr nll_attrs[] = {ATTR_STR("reduction", "mean"), ATTR_OPTIONAL("ignore_index", BASE_ATTR_INT)};

/* Sums losses and weights; writes single losses where `each` is not NULL. */
static td_status nll_sum(const base_call *call, const base_tensor *each, double *loss, double *weights) {
  const base_tensor *x = base_in(call, 0);
  const base_i64 *target = ops_dense_i64(call, 1);
  const base_f64 *weight = ops_dense_f64(call, 2);
  const void *data = ops_dense(call, 0);
  if (!target || !data || (base_in(call, 2) && !weight)) return base_no_memory(call->err, "scratch");
  int64_t classes = x->dims[1], count = base_tensor_numel(base_in(call, 1)), plane = 1;
  bool ignores = base_attr_has(call->attrs, IGNORE);
  for (int32_t i = 2; i < x->rank; i++) plane *= x->dims[i];
  for (int64_t k = 0; k < count; k++) {
    int64_t label = target[k];
    bool ignored = ignores && label == base_attr_int(call->attrs, IGNORE);
    if (!ignored && (label < 0 || label >= classes))
      return ops_fail(call, "class %lld is outside [0, %lld)", (long long)label, (long long)classes);
    double w = ignored ? 0 : weight ? weight[label] : 1;
    double value = ignored ? 0 : -w * base_load_f64(x->dtype, data, (k / plane * classes + label) * plane + k % plane);
    if (each) base_store_f64(each->dtype, each->data, k, value);
    *loss += value;
    *weights += w;
  }
  return TD_OK;
}

static td_status nll_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0), *x = base_in(call, 0), *target = base_in(call, 1),
                    *weight = base_in(call, 2);
  const char *reduction = base_attr_str(call->attrs, REDUCTION);
  bool whole = strcmp(reduction, "none") != 0;
  double loss = 0, weights = 0;
  if (x->rank < 2 || target->rank != x->rank - 1) return ops_fail(call, "the target must have the rank of x less one");
  for (int32_t i = 0; i < target->rank; i++)
    if (target->dims[i] != x->dims[i ? i + 1 : 0]) return ops_fail(call, "x and target differ in dimension %d", i);
  if (weight && base_tensor_numel(weight) != x->dims[1]) return ops_fail(call, "there must be one weight per class");
  TRY(nll_sum(call, whole ? NULL : out, &loss, &weights));
  if (whole) base_store_f64(out->dtype, out->data, 0, strcmp(reduction, "mean") == 0 ? loss / weights : loss);
  return TD_OK;
}

static td_status infer_nll(ir_infer *ctx) {
  const char *reduction = base_attr_str(ctx->attrs, REDUCTION);
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  if (!base_is_float(dtype) || !base_is_int(ir_in(ctx, 1)->type.dtype))
    return ir_infer_fail(ctx, "x must be float, the target integer");
  if (strcmp(reduction, "none") == 0) return ir_out_like(ctx, 0, 1, dtype);
  if (strcmp(reduction, "mean") == 0 || strcmp(reduction, "sum") == 0) return ir_out(ctx, 0, dtype, 0, NULL);
  return ir_infer_fail(ctx, "reduction \"%s\" is none of none, mean, sum", reduction);
}

static bool nll_cases(ir_case *c, uint32_t number) {
  static const char *const reductions[] = {"none", "mean", "sum"};
  if (number >= 6) return false;
  ops_case_arg(c, ARG_STR("reduction", reductions[number % 3]));
  ops_case_arg(c, ARG_INT("ignore_index", 1));
  return ops_case_in(c, TD_F32, OPS_DIMS(2, 6, 3), OPS_NORMAL, 1) &&
         ops_case_in(c, TD_I64, OPS_DIMS(2, 3), OPS_INDEX, 2) &&
         (number < 3 || ops_case_in(c, TD_F32, OPS_DIMS(6), OPS_UNIT, 3));
}

OPS_DECLARE(loss);
const ir_op ops_loss[] = {
    {.id = OPERATOR(aten, nll_loss_nd),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .attrs = nll_attrs,
     .attr_count = OPS_COUNT(nll_attrs),
     .infer = infer_nll,
     .reference = nll_reference,
     .rtol = 1e-5f},
};
OPS_TABLE(loss);
OPS_CASES(loss) = {
    {OP_aten_nll_loss_nd, nll_cases},
    {0},
};
