/* lower_reduce.c -- reductions, softmax of the old kind, normalisations and losses. */
#include "import/onnx/onnx_priv.h"

#include <string.h>

/* ---- reductions ---- */

/* `ord`: of linalg_vector_norm, else 0. */
static const struct {
  const char *theirs, *ours;
  double ord;
} reductions[] = {
    {"ReduceSum", "aten::sum", 0},
    {"ReduceMean", "aten::mean", 0},
    {"ReduceMax", "aten::amax", 0},
    {"ReduceMin", "aten::amin", 0},
    {"ReduceProd", "aten::prod", 0},
    {"ReduceLogSum", "td::log_sum", 0},
    {"ReduceLogSumExp", "aten::logsumexp", 0},
    {"ReduceSumSquare", "td::square_sum", 0},
    {"ReduceL1", "aten::linalg_vector_norm", 1},
    {"ReduceL2", "aten::linalg_vector_norm", 2},
};

/* Axes are an attribute, or an input that the model may compute; known ones become the attribute. */
static void reduce(onnx_node *n) {
  size_t row = 0;
  while (row + 1 < sizeof reductions / sizeof *reductions && strcmp(reductions[row].theirs, onnx_op_type(n)) != 0)
    row++;
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1)};
  uint32_t axis_count = 0;
  const int64_t *axes = onnx_attr_ints(n, "axes", &axis_count);
  bool computed = in[1].id && !onnx_known_ints(n, in[1], &axes, &axis_count);
  base_arg args[] = {ARG_BOOL("keepdim", onnx_attr_int(n, "keepdims", 1)),
                     ARG_BOOL("noop", onnx_attr_int(n, "noop_with_empty_axes", 0)), ARG_INTS("dim", axes, axis_count),
                     ARG_FLOAT("ord", reductions[row].ord)};
  onnx_out(n, 0, onnx_emit(n, reductions[row].ours, in, computed ? 2 : 1, args, reductions[row].ord > 0 ? 4 : 3));
}

static void arg_reduce(onnx_node *n) {
  ir_value x = onnx_in(n, 0);
  const char *op = strcmp(onnx_op_type(n), "ArgMax") == 0 ? "aten::argmax" : "aten::argmin";
  int64_t axis = onnx_attr_int(n, "axis", 0), keep = onnx_attr_int(n, "keepdims", 1),
          last = onnx_attr_int(n, "select_last_index", 0);
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, op, &x, 1, ARG_INT("dim", axis), ARG_BOOL("keepdim", keep),
                          ARG_BOOL("select_last_index", last)));
}

/* Before version 13 all dimensions from `axis` (default 1) on are one. */
static void legacy_softmax(onnx_node *n) {
  static const char *const names[][2] = {
      {"Softmax", "aten::_softmax"}, {"LogSoftmax", "aten::_log_softmax"}, {"Hardmax", "td::hardmax"}};
  ir_value x = onnx_in(n, 0);
  int64_t axis = onnx_attr_int(n, "axis", 1);
  int32_t rank = onnx_type(n, x)->rank;
  bool last = axis == -1 || axis == rank - 1;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i][0], onnx_op_type(n)) == 0)
      onnx_out(n, 0,
               ONNX_EMIT_ARGS(n, names[i][1], &x, 1, ARG_INT("dim", last ? -1 : axis), ARG_BOOL("flatten", !last)));
}

/* ---- layer, rms, group, batch norm ---- */

/* Statistics are kept in float unless the model asks for another type. */
static td_dtype stash_type(onnx_node *n) { return onnx_dtype(n, onnx_attr_int(n, "stash_type", 1)); }

static void emit_norm(onnx_node *n, const char *op, uint32_t operands, uint32_t results) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)}, out[3];
  base_arg args[] = {ARG_INT("axis", onnx_attr_int(n, "axis", -1)),
                     ARG_FLOAT("eps", onnx_attr_float(n, "epsilon", 1e-5f)), ARG_DTYPE("stats_dtype", stash_type(n))};
  uint32_t count = onnx_out_count(n) < results ? onnx_out_count(n) : results;
  onnx_emit_many(n, op, in, operands, args, 3, out, count);
  for (uint32_t i = 0; i < count; i++) onnx_out(n, i, out[i]);
}
static void layer_norm(onnx_node *n) { emit_norm(n, "aten::native_layer_norm", 3, 3); }
static void rms_norm(onnx_node *n) { emit_norm(n, "aten::rms_norm", 2, 2); }

/* Scale and bias are one per group at version 18, one per channel from 21 on; the operator tells by their size. */
static void group_norm(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)};
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "aten::native_group_norm", in, 3, ARG_INT("num_groups", onnx_attr_int(n, "num_groups", 1)),
                          ARG_FLOAT("eps", onnx_attr_float(n, "epsilon", 1e-5f))));
}

static ir_value emit_batch_norm(onnx_node *n, ir_value mean, ir_value variance) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2), mean, variance};
  return ONNX_EMIT_ARGS(n, "aten::_native_batch_norm_legit_no_training", in, 5,
                        ARG_FLOAT("eps", onnx_attr_float(n, "epsilon", 1e-5f)));
}

static ir_value emit_mean(onnx_node *n, ir_value x, const int64_t *axes, uint32_t count, bool keep) {
  return ONNX_EMIT_ARGS(n, "aten::mean", &x, 1, ARG_INTS("dim", axes, count), ARG_BOOL("keepdim", keep));
}

/* kept * momentum + seen * (1 - momentum) */
static ir_value running(onnx_node *n, ir_value kept, ir_value seen, double momentum) {
  td_dtype dtype = onnx_type_dtype(n, kept);
  ir_value old = ONNX_EMIT(n, "aten::mul", kept, onnx_scalar(n, dtype, momentum));
  ir_value new = ONNX_EMIT(n, "aten::mul", onnx_cast(n, seen, dtype), onnx_scalar(n, dtype, 1 - momentum));
  return ONNX_EMIT(n, "aten::add", old, new);
}

/* Before version 9, spatial = 0: statistics per position [c, d...], which broadcast against x. */
static ir_value emit_positional_norm(onnx_node *n, ir_value mean, ir_value variance) {
  ir_value eps = onnx_scalar(n, onnx_type_dtype(n, variance), onnx_attr_float(n, "epsilon", 1e-5f));
  ir_value inverse = ONNX_EMIT(n, "aten::rsqrt", ONNX_EMIT(n, "aten::add", variance, eps));
  ir_value normal = ONNX_EMIT(n, "aten::mul", ONNX_EMIT(n, "aten::sub", onnx_in(n, 0), mean), inverse);
  return ONNX_EMIT(n, "aten::add", ONNX_EMIT(n, "aten::mul", normal, onnx_in(n, 1)), onnx_in(n, 2));
}

/* Does it take the statistics of this batch? Before version 14 whoever names those as outputs says so, before version
 * 7 unless `is_test` says otherwise. */
static bool batch_norm_trains(onnx_node *n) {
  bool named = false;
  for (uint32_t i = 1; i < onnx_out_count(n); i++) named |= onnx_wants(n, i);
  if (onnx_opset(n) >= 14) return onnx_attr_int(n, "training_mode", 0);
  return named && !(onnx_opset(n) < 7 && onnx_attr_int(n, "is_test", 0));
}

/* Results 3 and 4, which versions before 14 keep for gradients, are not made: it is an error to read them, and so it is
 * to read any statistics where it does not train. */
static void batch_norm(onnx_node *n) {
  ir_value x = onnx_in(n, 0), mean = onnx_in(n, 3), variance = onnx_in(n, 4);
  const bool spatial = onnx_opset(n) >= 9 || onnx_attr_int(n, "spatial", 1), trains = batch_norm_trains(n);
  int64_t axes[BASE_MAX_RANK] = {0};
  uint32_t count = 1;
  if (trains) {
    const int32_t rank = onnx_rank(n, x);
    const double momentum = onnx_attr_float(n, "momentum", 0.9f);
    for (int32_t i = 2; i < rank && spatial; i++) axes[count++] = i;
    ir_value distance = ONNX_EMIT(n, "aten::sub", x, emit_mean(n, x, axes, count, true));
    mean = emit_mean(n, x, axes, count, false);
    variance = emit_mean(n, ONNX_EMIT(n, "aten::mul", distance, distance), axes, count, false);
    if (onnx_wants(n, 1)) onnx_out(n, 1, running(n, onnx_in(n, 3), mean, momentum));
    if (onnx_wants(n, 2)) onnx_out(n, 2, running(n, onnx_in(n, 4), variance, momentum));
  }
  onnx_out(n, 0, spatial ? emit_batch_norm(n, mean, variance) : emit_positional_norm(n, mean, variance));
}

/* (x - mean) / (deviation + 1e-9), as the operator's definition has it. */
static void mean_variance_norm(onnx_node *n) {
  static const int64_t usual[] = {0, 2, 3};
  ir_value x = onnx_in(n, 0);
  uint32_t count;
  const int64_t *axes = onnx_attr_ints(n, "axes", &count);
  if (!onnx_attr_has(n, "axes")) {
    axes = usual;
    count = 3;
  }
  ir_value distance = ONNX_EMIT(n, "aten::sub", x, emit_mean(n, x, axes, count, true));
  ir_value variance = emit_mean(n, ONNX_EMIT(n, "aten::mul", distance, distance), axes, count, true);
  ir_value deviation =
      ONNX_EMIT(n, "aten::add", ONNX_EMIT(n, "aten::sqrt", variance), onnx_scalar(n, onnx_type_dtype(n, x), 1e-9));
  onnx_out(n, 0, ONNX_EMIT(n, "aten::div", distance, deviation));
}

/* x / norm along one axis; a norm of zero leaves zeros. */
static void lp_norm(onnx_node *n) {
  ir_value x = onnx_in(n, 0);
  int64_t p = onnx_attr_int(n, "p", 2), axis = onnx_attr_int(n, "axis", -1);
  if (p != 1 && p != 2) onnx_fail(n, TD_BAD_FILE, "p is %lld; 1 and 2 are defined", (long long)p);
  ir_value norm = ONNX_EMIT_ARGS(n, "aten::linalg_vector_norm", &x, 1, ARG_INTS("dim", &axis, 1),
                                 ARG_BOOL("keepdim", 1), ARG_FLOAT("ord", (double)p));
  td_dtype dtype = onnx_type_dtype(n, x);
  ir_value is_zero = ONNX_EMIT(n, "aten::eq", norm, onnx_scalar(n, dtype, 0));
  onnx_out(n, 0, ONNX_EMIT(n, "aten::div", x, ONNX_EMIT(n, "aten::where", is_zero, onnx_scalar(n, dtype, 1), norm)));
}

/* ---- losses ---- */

static ir_value emit_loss(onnx_node *n, ir_value log_probabilities) {
  ir_value in[] = {log_probabilities, onnx_in(n, 1), onnx_in(n, 2)};
  base_arg args[] = {ARG_STR("reduction", onnx_attr_str(n, "reduction", "mean")),
                     ARG_INT("ignore_index", onnx_attr_int(n, "ignore_index", 0))};
  return onnx_emit(n, "aten::nll_loss_nd", in, in[2].id ? 3 : 2, args, onnx_attr_has(n, "ignore_index") ? 2 : 1);
}

static void nll_loss(onnx_node *n) { onnx_out(n, 0, emit_loss(n, onnx_in(n, 0))); }

static void cross_entropy(onnx_node *n) {
  ir_value x = onnx_in(n, 0);
  ir_value log_probabilities = ONNX_EMIT_ARGS(n, "aten::_log_softmax", &x, 1, ARG_INT("dim", 1));
  onnx_out(n, 0, emit_loss(n, log_probabilities));
  if (onnx_wants(n, 1)) onnx_out(n, 1, log_probabilities);
}

ONNX_DECLARE(reduce);
const onnx_lowering onnx_lower_reduce[] = {
    {"", "ReduceSum", 1, reduce},
    {"", "ReduceMean", 1, reduce},
    {"", "ReduceMax", 1, reduce},
    {"", "ReduceMin", 1, reduce},
    {"", "ReduceProd", 1, reduce},
    {"", "ReduceLogSum", 1, reduce},
    {"", "ReduceL1", 1, reduce},
    {"", "ReduceLogSumExp", 1, reduce},
    {"", "ReduceSumSquare", 1, reduce},
    {"", "ReduceL2", 1, reduce},
    {"", "ArgMax", 1, arg_reduce},
    {"", "ArgMin", 1, arg_reduce},
    {"", "Softmax", 1, legacy_softmax},
    {"", "LogSoftmax", 1, legacy_softmax},
    {"", "Hardmax", 1, legacy_softmax},
    {"", "LayerNormalization", 1, layer_norm},
    {"", "RMSNormalization", 23, rms_norm},
    {"", "SimplifiedLayerNormalization", 1, rms_norm},
    {"", "GroupNormalization", 18, group_norm},
    {"", "BatchNormalization", 1, batch_norm},
    {"", "MeanVarianceNormalization", 9, mean_variance_norm},
    {"", "LpNormalization", 1, lp_norm},
    {"", "NegativeLogLikelihoodLoss", 12, nll_loss},
    {"", "SoftmaxCrossEntropyLoss", 12, cross_entropy},
};
ONNX_TABLE(reduce);
