/* lower_recurrent.c -- ONNX's RNN, LSTM and GRU, and com.microsoft's DynamicQuantizeLSTM. */
#include "import/onnx/onnx_priv.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { MAX_ACTIVATIONS = 6 };

/* Which parameters an activation takes; lists in the model hold only those, in order. */
static const struct {
  const char *name;
  bool alpha, beta;
} takes[] = {{"Affine", true, true},     {"LeakyRelu", true, false},  {"ThresholdedRelu", true, false},
             {"ScaledTanh", true, true}, {"HardSigmoid", true, true}, {"Elu", true, false}};

typedef struct activations {
  const char *names; /* comma separated */
  double alpha[MAX_ACTIVATIONS], beta[MAX_ACTIVATIONS];
  uint32_t count;
} activations;

static activations read_activations(onnx_node *n) {
  activations a = {.count = 0};
  uint32_t names, alphas, betas, alphas_used = 0, betas_used = 0;
  const char *const *name = onnx_attr_strs(n, "activations", &names);
  const double *alpha = onnx_attr_floats(n, "activation_alpha", &alphas),
               *beta = onnx_attr_floats(n, "activation_beta", &betas);
  if (names > MAX_ACTIVATIONS) {
    onnx_fail(n, TD_BAD_FILE, "%u activations", names);
    return a;
  }
  size_t bytes = 1;
  for (uint32_t i = 0; i < names; i++) bytes += strlen(name[i]) + 1;
  char *text = onnx_alloc(n, bytes);
  if (!text) return a;
  for (uint32_t i = 0; i < names; i++) {
    if (i) strcat(text, ",");
    strcat(text, name[i]);
    a.alpha[i] = a.beta[i] = NAN;
    for (size_t k = 0; k < sizeof takes / sizeof *takes; k++) {
      if (strcasecmp(takes[k].name, name[i]) != 0) continue;
      if (takes[k].alpha && alphas_used < alphas) a.alpha[i] = alpha[alphas_used++];
      if (takes[k].beta && betas_used < betas) a.beta[i] = beta[betas_used++];
    }
  }
  a.names = text;
  a.count = names;
  return a;
}

/* hidden_size, where it is given, is what the recurrent weights [directions, gates * hidden, hidden] say as well. */
static void check_hidden_size(onnx_node *n, ir_value weights) {
  const ir_type *w = weights.id ? onnx_type(n, weights) : NULL;
  const base_dim hidden = w && w->rank == 3 ? w->dims[2] : BASE_DIM_NONE;
  const int64_t told = onnx_attr_int(n, "hidden_size", 0);
  if (told && base_dim_known(hidden) && told != hidden)
    onnx_fail(n, TD_BAD_FILE, "hidden_size is %lld, and the recurrent weights are for %lld", (long long)told,
              (long long)hidden);
}

/* Emits `op` on `in` with the attributes that all three have, and binds its outputs. */
static void emit(onnx_node *n, const char *op, const ir_value *in, uint32_t in_count, bool quantise) {
  check_hidden_size(n, in_count > 2 ? in[2] : IR_NO_VALUE);
  activations a = read_activations(n);
  base_arg args[10];
  uint32_t count = 0;
  args[count++] = ARG_STR("direction", onnx_attr_str(n, "direction", "forward"));
  args[count++] = ARG_FLOAT("clip", onnx_attr_float(n, "clip", 0));
  args[count++] = ARG_BOOL("batch_first", onnx_attr_int(n, "layout", 0) != 0);
  args[count++] = ARG_BOOL("input_forget", onnx_attr_int(n, "input_forget", 0) != 0);
  args[count++] = ARG_BOOL("linear_before_reset", onnx_attr_int(n, "linear_before_reset", 0) != 0);
  args[count++] = ARG_BOOL("quantise_activations", quantise);
  if (a.count) {
    args[count++] = ARG_STR("activations", a.names);
    args[count++] = ARG_FLOATS("alpha", a.alpha, a.count);
    args[count++] = ARG_FLOATS("beta", a.beta, a.count);
  }
  ir_value out[3] = {IR_NO_VALUE, IR_NO_VALUE, IR_NO_VALUE};
  uint32_t outs = onnx_out_count(n) < 1 ? 1 : onnx_out_count(n) > 3 ? 3 : onnx_out_count(n);
  onnx_emit_many(n, op, in, in_count, args, count, out, outs);
  for (uint32_t i = 0; i < outs; i++)
    if (onnx_wants(n, i)) onnx_out(n, i, out[i]);
}

static void lower(onnx_node *n, const char *op, uint32_t most) {
  ir_value in[8];
  uint32_t count = onnx_in_count(n) < most ? onnx_in_count(n) : most;
  for (uint32_t i = 0; i < count; i++) in[i] = onnx_in(n, i);
  emit(n, op, in, count, false);
}
static void lower_rnn(onnx_node *n) { lower(n, "td::rnn", 6); }
static void lower_lstm(onnx_node *n) { lower(n, "td::lstm", 8); }
static void lower_gru(onnx_node *n) { lower(n, "td::gru", 6); }

/* A constant scale or zero point for each direction, or for each of its columns: as dequantize_linear takes it. */
static ir_value point_of(onnx_node *n, ir_value v) {
  const base_tensor *t = onnx_constant_of(n, v);
  if (!t || t->rank != 2 || !base_tensor_contiguous(t)) return v;
  const int64_t dims[] = {t->dims[0], 1, t->dims[1]};
  const base_tensor columns = base_tensor_of(t->data, t->dtype, 3, dims);
  return onnx_constant(n, &columns);
}

/* Constant weights with constant scales stay bytes (the pass recurrent_i8); none: they are others. */
static ir_value dequantise_constant(onnx_node *n, uint32_t weights, ir_value scale, ir_value zero) {
  const base_tensor *w = onnx_constant_of(n, onnx_in(n, weights)), *s = onnx_constant_of(n, scale),
                    *z = onnx_constant_of(n, zero);
  if (!w || !s || w->rank != 3 || (s->rank != 1 && s->rank != 2) || (zero.id && (!z || z->rank != s->rank)))
    return IR_NO_VALUE;
  const int64_t columns = s->rank == 2;
  const ir_value in[] = {onnx_in(n, weights), point_of(n, scale), zero.id ? point_of(n, zero) : IR_NO_VALUE};
  const base_arg args[] = {ARG_INT("axis", columns), ARG_INT("block_size", columns ? w->dims[1] : 0),
                           ARG_DTYPE("dtype", TD_F32)};
  return onnx_emit(n, "td::dequantize_linear", in, zero.id ? 3 : 2, args, 3);
}

/* Weights i8 or u8 [directions, input, 4 * hidden] with one scale and zero point per direction or per column. */
static ir_value dequantise(onnx_node *n, uint32_t weights, uint32_t scale, uint32_t zero) {
  static const int64_t order[] = {0, 2, 1};
  ir_value s = onnx_in(n, scale), z = onnx_in(n, zero);
  ir_value w = dequantise_constant(n, weights, s, z);
  if (w.id) return ONNX_EMIT_ARGS(n, "aten::permute", &w, 1, ARG_INTS("dims", order, 3));
  w = onnx_cast(n, onnx_in(n, weights), TD_F32);
  int64_t rows[] = {1}, both[] = {1, 2};
  bool per_column = onnx_rank(n, s) == 2;
  ir_value at = per_column ? onnx_ints(n, rows, 1) : onnx_ints(n, both, 2);
  if (z.id) w = ONNX_EMIT(n, "aten::sub", w, ONNX_EMIT(n, "aten::unsqueeze", onnx_cast(n, z, TD_F32), at));
  w = ONNX_EMIT(n, "aten::mul", w, ONNX_EMIT(n, "aten::unsqueeze", s, at));
  return ONNX_EMIT_ARGS(n, "aten::permute", &w, 1, ARG_INTS("dims", order, 3));
}

static void lower_dynamic_quantize_lstm(onnx_node *n) {
  ir_value in[8];
  for (uint32_t i = 0; i < 8; i++) in[i] = onnx_in(n, i);
  in[1] = dequantise(n, 1, 8, 9);
  in[2] = dequantise(n, 2, 10, 11);
  emit(n, "td::lstm", in, 8, true);
}

ONNX_DECLARE(recurrent);
const onnx_lowering onnx_lower_recurrent[] = {
    {"", "RNN", 1, lower_rnn},
    {"", "LSTM", 1, lower_lstm},
    {"", "GRU", 1, lower_gru},
    {"com.microsoft", "DynamicQuantizeLSTM", 1, lower_dynamic_quantize_lstm},
};
ONNX_TABLE(recurrent);
