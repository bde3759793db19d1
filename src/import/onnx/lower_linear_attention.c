/* lower_linear_attention.c -- operators, ONNX's and com.microsoft's, of models that carry a state from token to token:
 * linear attention, convolutions over the tokens before, and their gates and norms. */
#include "import/onnx/onnx_priv.h"

#include <math.h>
#include <string.h>

/* Attributes of CUDA's kernels alone, or of windows of states, at any but these values. */
static void refuse_others(onnx_node *n) {
  static const struct {
    const char *name;
    int64_t value;
  } rows[] = {{"state_window", 0}, {"state_update_capacity", 0}, {"state_channels_last", -1},
              {"state_length", 0}, {"input_channel_offset", 0},  {"input_channels", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (onnx_attr_int(n, rows[i].name, rows[i].value) != rows[i].value)
      onnx_fail(n, TD_UNSUPPORTED, "%s is not supported", rows[i].name);
}

static ir_value silu(onnx_node *n, ir_value v) { return ONNX_EMIT(n, "aten::silu", v); }

static bool is_silu(const char *name) { return strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0; }

/* ---- CausalConvWithState ---- */

/* [batch, rows, ...] to [batch, channels, rows], and back to the sizes of `like`. */
static ir_value rows_last(onnx_node *n, ir_value v) {
  static const int64_t flat[] = {0, 0, -1};
  const ir_value in[] = {v, onnx_ints(n, flat, 3)};
  const ir_value rows = ONNX_EMIT_ARGS(n, "aten::view", in, 2, ARG_BOOL("zero_copies", true));
  return ONNX_EMIT_ARGS(n, "aten::permute", &rows, 1, ARG_INTS("dims", ((int64_t[]){0, 2, 1}), 3));
}
static ir_value rows_second(onnx_node *n, ir_value v, ir_value like) {
  const ir_type *t = onnx_type(n, like);
  int64_t sizes[BASE_MAX_RANK] = {0, 0, -1};
  for (int32_t i = 3; i < t->rank; i++) {
    if (!base_dim_known(t->dims[i]) || !base_dim_known(t->dims[2]))
      onnx_fail(n, TD_UNSUPPORTED, "channels of open sizes are not supported");
    else sizes[i] = t->dims[i];
  }
  if (onnx_failed(n) || t->rank < 3) return v;
  const ir_value rows = ONNX_EMIT_ARGS(n, "aten::permute", &v, 1, ARG_INTS("dims", ((int64_t[]){0, 2, 1}), 3));
  if (t->rank == 3) return rows;
  sizes[2] = t->dims[2];
  const ir_value in[] = {rows, onnx_ints(n, sizes, (uint32_t)t->rank)};
  return ONNX_EMIT_ARGS(n, "aten::view", in, 2, ARG_BOOL("zero_copies", true));
}

/* x [batch, channels, rows] behind what came before it, of which `before` positions are met; zeros without a past. */
static ir_value behind_past(onnx_node *n, ir_value x, ir_value past, int64_t before) {
  if (past.id) return ONNX_EMIT_ARGS(n, "aten::cat", ((ir_value[]){past, x}), 2, ARG_INT("dim", -1));
  const int64_t pads[] = {0, 0, before, 0, 0, 0};
  const ir_value in[] = {x, onnx_ints(n, pads, 6), onnx_scalar(n, onnx_type_dtype(n, x), 0)};
  return onnx_emit(n, "aten::constant_pad_nd", in, 3, NULL, 0);
}

static void causal_conv(onnx_node *n) {
  ir_value x = onnx_in(n, 0), w = onnx_in(n, 1), past = onnx_in(n, 3), all, y;
  const ir_type *kernel = onnx_type(n, w);
  const int64_t dilation = onnx_attr_int(n, "dilation", 1);
  const bool rows_first = onnx_attr_int(n, "channels_last", 0);
  const char *activation = onnx_attr_str(n, "activation", "none");
  int64_t before = 0;
  refuse_others(n);
  if (onnx_attr_int(n, "ndim", 1) != 1) onnx_fail(n, TD_UNSUPPORTED, "ndim above 1 is not supported");
  if (kernel->rank != 3 || !base_dim_known(kernel->dims[0]) || !base_dim_known(kernel->dims[2]))
    onnx_fail(n, TD_UNSUPPORTED, "weights of open sizes are not supported");
  if (onnx_failed(n)) return;
  if (dilation < 1 || kernel->dims[2] < 1 || !base_mul_i64(kernel->dims[2] - 1, dilation, &before) ||
      before > INT32_MAX)
    onnx_fail(n, TD_BAD_FILE, "a kernel of %lld, dilated by %lld", (long long)kernel->dims[2], (long long)dilation);
  if (strcmp(activation, "none") != 0 && !is_silu(activation))
    onnx_fail(n, TD_UNSUPPORTED, "activation \"%s\" is not supported", activation);
  all = behind_past(n, rows_first ? rows_last(n, x) : x, past.id && rows_first ? rows_last(n, past) : past, before);
  const ir_value in[] = {all, w, onnx_in(n, 2)};
  const base_arg args[] = {ARG_INTS("dilation", &dilation, 1), ARG_INT("groups", kernel->dims[0])};
  y = onnx_emit(n, "aten::convolution", in, onnx_has(n, 2) ? 3 : 2, args, 2);
  if (is_silu(activation)) y = silu(n, y);
  onnx_out(n, 0, rows_first ? rows_second(n, y, x) : y);
  if (!onnx_wants(n, 1)) return;
  const int64_t begin = before ? -before : INT64_MAX, end = INT64_MAX, axis = 2;
  const ir_value state =
      ONNX_EMIT(n, "aten::slice", all, onnx_ints(n, &begin, 1), onnx_ints(n, &end, 1), onnx_ints(n, &axis, 1));
  onnx_out(n, 1, rows_first ? rows_second(n, state, x) : state);
}

/* ---- LinearAttention ---- */

/* query, key, value, past state, decay (of the logarithm), beta */
static void linear_attention(onnx_node *n) {
  enum { QUERY, KEY, VALUE, PAST, KEEP, BETA, OPERANDS };
  static const struct {
    const char *rule;
    bool keep, beta;
  } rules[] = {{"linear", false, false}, {"gated", true, false}, {"delta", false, true}, {"gated_delta", true, true}};
  const char *rule = onnx_attr_str(n, "update_rule", "gated_delta");
  const int64_t heads = onnx_attr_int(n, "kv_num_heads", 0), query_heads = onnx_attr_int(n, "q_num_heads", 0);
  double scale = onnx_attr_float(n, "scale", 0);
  ir_value in[OPERANDS] = {IR_NO_VALUE}, out[2];
  const td_dtype dtype = onnx_type_dtype(n, onnx_in(n, QUERY)),
                 state = onnx_has(n, PAST) ? onnx_type_dtype(n, onnx_in(n, PAST)) : dtype;
  size_t row = 0;
  uint32_t count = OPERANDS;
  while (row < sizeof rules / sizeof *rules && strcmp(rules[row].rule, rule) != 0) row++;
  refuse_others(n);
  if (row == sizeof rules / sizeof *rules) onnx_fail(n, TD_BAD_FILE, "update_rule is \"%s\"", rule);
  for (uint32_t i = 0; i < OPERANDS && !onnx_failed(n); i++) {
    const bool used = i == KEEP ? rules[row].keep : i == BETA ? rules[row].beta : true;
    if (onnx_has(n, i) && used) in[i] = onnx_cast(n, onnx_in(n, i), TD_F32);
    if (used && i != PAST && !in[i].id) onnx_fail(n, TD_BAD_FILE, "rule %s needs input %u", rule, i);
  }
  if (onnx_failed(n)) return;
  const ir_type *q = onnx_type(n, in[QUERY]);
  if (scale == 0 && (q->rank != 3 || !base_dim_known(q->dims[2]) || query_heads < 1 || q->dims[2] < query_heads))
    onnx_fail(n, TD_UNSUPPORTED, "queries of open sizes need a scale");
  else if (scale == 0) scale = 1 / sqrt((double)(q->dims[2] / query_heads));
  if (in[KEEP].id) in[KEEP] = ONNX_EMIT(n, "aten::exp", in[KEEP]);
  while (count > VALUE + 1 && !in[count - 1].id) count--;
  const base_arg args[] = {ARG_INT("heads", heads), ARG_INT("query_heads", query_heads), ARG_FLOAT("scale", scale)};
  onnx_emit_many(n, "td::linear_attention", in, count, args, 3, out, 2);
  for (uint32_t i = 0; i < 2; i++)
    if (onnx_wants(n, i)) onnx_out(n, i, onnx_cast(n, out[i], i ? state : dtype));
}

/* decay = decay_scale softplus(a + dt_bias); beta = sigmoid(b) */
static void attention_gate(onnx_node *n) {
  const td_dtype dtype = onnx_type_dtype(n, onnx_in(n, 0));
  const ir_value a = ONNX_EMIT(n, "aten::add", onnx_cast(n, onnx_in(n, 0), TD_F32), onnx_in(n, 1));
  onnx_out(n, 0, onnx_cast(n, ONNX_EMIT(n, "aten::mul", ONNX_EMIT(n, "aten::softplus", a), onnx_in(n, 2)), dtype));
  if (onnx_wants(n, 1)) onnx_out(n, 1, ONNX_EMIT(n, "aten::sigmoid", onnx_in(n, 3)));
}

/* ---- norms and sums with gates ---- */

/* Groups of the scale's size, each by its own root mean square, times the gate. In f32. */
static void gated_rms_norm(onnx_node *n) {
  const ir_value x = onnx_in(n, 0);
  const ir_type *t = onnx_type(n, x), *scale = onnx_type(n, onnx_in(n, 1));
  const td_dtype dtype = t->dtype;
  const char *activation = onnx_attr_str(n, "activation", "silu");
  ir_value sizes = ONNX_EMIT(n, "td::shape", x), flat = onnx_cast(n, x, TD_F32);
  if (!is_silu(activation) && strcmp(activation, "sigmoid") != 0)
    onnx_fail(n, TD_UNSUPPORTED, "activation \"%s\" is not supported", activation);
  if (scale->rank != 1 || !base_dim_known(scale->dims[0])) onnx_fail(n, TD_UNSUPPORTED, "a scale of an open size");
  if (onnx_failed(n)) return;
  const int64_t groups[] = {-1, scale->dims[0]};
  const ir_value rows = ONNX_EMIT(n, "aten::view", flat, onnx_ints(n, groups, 2));
  const ir_value in[] = {rows, onnx_cast(n, onnx_in(n, 1), TD_F32)};
  ir_value y = ONNX_EMIT_ARGS(n, "aten::rms_norm", in, 2, ARG_FLOAT("eps", onnx_attr_float(n, "epsilon", 1e-5f)));
  const ir_value gate = onnx_cast(n, onnx_in(n, 2), TD_F32);
  y = ONNX_EMIT(n, "aten::view", y, sizes);
  y = ONNX_EMIT(n, "aten::mul", y, is_silu(activation) ? silu(n, gate) : ONNX_EMIT(n, "aten::sigmoid", gate));
  onnx_out(n, 0, onnx_cast(n, y, dtype));
}

static void gated_add(onnx_node *n) {
  if (onnx_has(n, 3)) onnx_fail(n, TD_UNSUPPORTED, "gate_weight is not supported");
  onnx_out(n, 0, ONNX_EMIT(n, "aten::add", onnx_in(n, 0), ONNX_EMIT(n, "aten::mul", onnx_in(n, 1), onnx_in(n, 2))));
}

ONNX_DECLARE(linear_attention);
const onnx_lowering onnx_lower_linear_attention[] = {
    {"", "CausalConvWithState", 27, causal_conv},
    {"", "LinearAttention", 27, linear_attention},
    {"com.microsoft", "CausalConvWithState", 1, causal_conv},
    {"com.microsoft", "LinearAttention", 1, linear_attention},
    {"com.microsoft", "LinearAttentionGate", 1, attention_gate},
    {"com.microsoft", "GatedRMSNorm", 1, gated_rms_norm},
    {"com.microsoft", "GatedAdd", 1, gated_add},
};
ONNX_TABLE(linear_attention);
