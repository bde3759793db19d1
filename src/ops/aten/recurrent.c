/* recurrent.c -- td::rnn, td::lstm, td::gru: whole layers over time, with ONNX's operands and meaning. Summed in f32,
 * gates computed in double. Operands: x [time, batch, input], w [directions, gates * hidden, input], r [.., gates *
 * hidden, hidden], bias [.., 2 * gates * hidden], lengths [batch], h0 [directions, batch, hidden]; lstm: c0 like h0,
 * peepholes
 * [.., 3 * hidden]. Results: all states [time, directions, batch, hidden], last states like h0, last memory (lstm).
 * batch_first: x [batch, time, input], states [batch, time, directions, hidden], h0 [batch, directions, hidden].
 *
 *     td::rnn   h = f(W x + R h + b)
 *     td::lstm  i, o, f = sigmoid(..), c = f c + i tanh(..), h = o tanh(c) (Hochreiter, Schmidhuber 1997)
 *     td::gru   z, r = sigmoid(..), h = (1 - z) tanh(..) + z h (Cho et al. 2014)
 * ONNX RNN 7, LSTM 7, GRU 7. */
#include "ops/common/recurrent_priv.h"

#include <math.h>
#include <string.h>

enum { X, W, R, BIAS, LENGTHS, H0, C0, PEEPHOLES };
enum { DIRECTION, ACTIVATIONS, ALPHA, BETA, CLIP, BATCH_FIRST, INPUT_FORGET, LINEAR_BEFORE_RESET, QUANTISE };

/* activations: comma separated, per direction; alpha and beta: one number for each, NaN for its default.
 * quantise_activations: x as a whole, and the state of each sequence at each step, are rounded to 8 bits of their range
 * before they meet the weights (com.microsoft DynamicQuantizeLSTM). */
#define RECURRENT_ATTRS(default_activations)                                                                         \
  ATTR_STR("direction", "forward"), ATTR_STR("activations", default_activations), ATTR_FLOATS("alpha"),              \
      ATTR_FLOATS("beta"), ATTR_FLOAT("clip", 0), ATTR_BOOL("batch_first", false), ATTR_BOOL("input_forget", false), \
      ATTR_BOOL("linear_before_reset", false), ATTR_BOOL("quantise_activations", false)
static const ir_attr rnn_attrs[] = {RECURRENT_ATTRS("Tanh")};
static const ir_attr lstm_attrs[] = {RECURRENT_ATTRS("Sigmoid,Tanh,Tanh")};
static const ir_attr gru_attrs[] = {RECURRENT_ATTRS("Sigmoid,Tanh")};

static int64_t directions(const base_attrs *attrs) {
  return strcmp(base_attr_str(attrs, DIRECTION), "bidirectional") == 0 ? 2 : 1;
}

/* ---- shapes ---- */

static td_status check_dim(ir_infer *ctx, const char *what, base_dim got, base_dim wanted) {
  if (!base_dim_known(got) || !base_dim_known(wanted) || got == wanted) return TD_OK;
  return ir_infer_fail(ctx, "%s is %lld instead of %lld", what, (long long)got, (long long)wanted);
}

static td_status infer_recurrent(ir_infer *ctx, int64_t gates) {
  const ir_type *x = &ir_in(ctx, X)->type, *w = &ir_in(ctx, W)->type, *r = &ir_in(ctx, R)->type;
  int64_t dirs = directions(ctx->attrs);
  bool batch_first = base_attr_int(ctx->attrs, BATCH_FIRST);
  if (x->dtype != TD_F32 && x->dtype != TD_F16 && x->dtype != TD_BF16)
    return base_fail(ctx->err, TD_UNSUPPORTED, NULL, -1, "%s: element type %s; f32, f16 and bf16 are supported",
                     ctx->op->name, td_dtype_name(x->dtype));
  if (x->rank == IR_UNRANKED || w->rank == IR_UNRANKED || r->rank == IR_UNRANKED) {
    for (uint32_t i = 0; i < ctx->out_count; i++) TRY(ir_out_unranked(ctx, i, x->dtype));
    return TD_OK;
  }
  if (x->rank != 3 || w->rank != 3 || r->rank != 3) return ir_infer_fail(ctx, "x, w and r must have rank 3");
  base_dim hidden = r->dims[2], time = x->dims[batch_first], batch = x->dims[!batch_first];
  TRY(check_dim(ctx, "the number of directions of w", w->dims[0], dirs));
  TRY(check_dim(ctx, "the number of directions of r", r->dims[0], dirs));
  TRY(check_dim(ctx, "the input size of w", w->dims[2], x->dims[2]));
  TRY(check_dim(ctx, "the gate size of w", w->dims[1], base_dim_mul(ctx->dims, hidden, gates)));
  TRY(check_dim(ctx, "the gate size of r", r->dims[1], base_dim_mul(ctx->dims, hidden, gates)));
  base_dim all[] = {time, dirs, batch, hidden}, all_batch[] = {batch, time, dirs, hidden};
  base_dim last[] = {batch_first ? batch : dirs, batch_first ? dirs : batch, hidden};
  TRY(ir_out(ctx, 0, x->dtype, 4, batch_first ? all_batch : all));
  for (uint32_t i = 1; i < ctx->out_count; i++) TRY(ir_out(ctx, i, x->dtype, 3, last));
  return TD_OK;
}
static td_status infer_rnn(ir_infer *ctx) { return infer_recurrent(ctx, 1); }
static td_status infer_lstm(ir_infer *ctx) { return infer_recurrent(ctx, 4); }
static td_status infer_gru(ir_infer *ctx) { return infer_recurrent(ctx, 3); }

/* ---- run ---- */

/* The layer: operands as dense f32 and sizes; and scratch that directions share. */
typedef struct layer {
  const base_f32 *in[8]; /* NULL: absent */
  const base_i64 *lengths;
  base_f32 *y; /* NULL: not wanted */
  base_f32 *last, *last_memory;
  int64_t time, batch, dirs, gates;
  bool batch_first;
  float *x;                        /* [time * batch, input] in the order of operand x, when quantised */
  float *sums_x;                   /* [time * batch, gates * hidden] */
  float *sums_h;                   /* [batch, gates * hidden] */
  float *state, *memory, *rounded; /* [batch, hidden] */
} layer;

static td_status check_numel(const base_call *call, uint32_t i, const char *what, int64_t wanted) {
  const base_tensor *t = base_in(call, i);
  if (!t || base_tensor_numel(t) == wanted) return TD_OK;
  return ops_fail(call, "%s has %lld elements instead of %lld", what, (long long)base_tensor_numel(t),
                  (long long)wanted);
}

static td_status open_layer(const base_call *call, layer *l, recurrence *r) {
  const base_tensor *x = base_in(call, X), *w = base_in(call, R);
  l->batch_first = base_attr_int(call->attrs, BATCH_FIRST);
  l->dirs = directions(call->attrs);
  l->gates = r->cell->gates;
  l->time = x->dims[l->batch_first];
  l->batch = x->dims[!l->batch_first];
  r->input = x->dims[2];
  r->hidden = w->dims[2];
  int64_t rows = l->dirs * l->gates * r->hidden, states = l->dirs * l->batch * r->hidden;
  TRY(check_numel(call, W, "w", rows * r->input));
  TRY(check_numel(call, R, "r", rows * r->hidden));
  TRY(check_numel(call, BIAS, "the bias", 2 * rows));
  TRY(check_numel(call, LENGTHS, "the sequence lengths", l->batch));
  TRY(check_numel(call, H0, "the initial state", states));
  TRY(check_numel(call, C0, "the initial memory", states));
  TRY(check_numel(call, PEEPHOLES, "the peepholes", l->dirs * 3 * r->hidden));
  for (uint32_t i = 0; i < 8; i++) {
    if (!base_in(call, i) || i == LENGTHS) continue;
    l->in[i] = ops_dense_f32(call, i);
    if (!l->in[i]) return base_no_memory(call->err, "scratch");
  }
  if (base_in(call, LENGTHS) && !(l->lengths = ops_dense_i64(call, LENGTHS)))
    return base_no_memory(call->err, "scratch");
  for (int64_t b = 0; l->lengths && b < l->batch; b++)
    if (l->lengths[b] < 0 || l->lengths[b] > l->time)
      return ops_fail(call, "a sequence length is outside [0, %lld]", (long long)l->time);
  return TD_OK;
}

static td_status take_layer(const base_call *call, layer *l, recurrence *r) {
  size_t states = (size_t)(l->batch * r->hidden), gates = (size_t)(l->gates * r->hidden), f = sizeof(float);
  l->y = base_out(call, 0) ? ops_take_f32(call, 0) : NULL;
  l->last = base_out(call, 1) ? ops_take_f32(call, 1) : NULL;
  l->last_memory = base_out(call, 2) ? ops_take_f32(call, 2) : NULL;
  l->sums_x = base_call_scratch(call, (size_t)(l->time * l->batch), gates * f);
  l->sums_h = base_call_scratch(call, (size_t)l->batch, gates * f);
  l->state = base_call_scratch(call, states, f);
  l->memory = base_call_scratch(call, states, f);
  l->rounded = base_call_scratch(call, states, f);
  l->x = r->quantise ? base_call_scratch(call, (size_t)(l->time * l->batch * r->input), f) : NULL;
  r->reset = base_call_scratch(call, (size_t)r->hidden, 2 * f);
  bool missing =
      (base_out(call, 0) && !l->y) || (base_out(call, 1) && !l->last) || (base_out(call, 2) && !l->last_memory);
  if (missing || !l->sums_x || !l->sums_h || !l->state || !l->memory || !l->rounded || !r->reset ||
      (r->quantise && !l->x))
    return base_no_memory(call->err, "scratch");
  return TD_OK;
}

/* The activations of direction `d`. */
static td_status read_activations(const base_call *call, int64_t d, recurrence *r) {
  const char *at = base_attr_str(call->attrs, ACTIVATIONS);
  uint32_t alphas, betas;
  const double *alpha = base_attr_floats(call->attrs, ALPHA, &alphas),
               *beta = base_attr_floats(call->attrs, BETA, &betas);
  int64_t per_direction = r->cell->activations;
  for (int64_t k = 0; k < (d + 1) * per_direction; k++) {
    size_t length = strcspn(at, ",");
    activation *a = &r->act[k % per_direction];
    if (!ops_activation_find(at, length, a)) return ops_fail(call, "unknown activation \"%.*s\"", (int)length, at);
    if (k < alphas && !isnan(alpha[k])) a->alpha = alpha[k];
    if (k < betas && !isnan(beta[k])) a->beta = beta[k];
    at += length + (at[length] == ',');
    if (!*at) at = base_attr_str(call->attrs, ACTIVATIONS); /* fewer names than directions ask for: the same again */
  }
  return TD_OK;
}

/* Rounds `count` numbers to 255 steps of their range (zero included), as DynamicQuantizeLinear does. */
static void round_to_bytes(const base_f32 *from, int64_t count, float *to) {
  float least = 0, most = 0;
  for (int64_t k = 0; k < count; k++) {
    least = fminf(least, from[k]);
    most = fmaxf(most, from[k]);
  }
  float scale = (most - least) / 255, zero = scale > 0 ? nearbyintf(fminf(fmaxf(-least / scale, 0), 255)) : 0;
  for (int64_t k = 0; k < count; k++)
    to[k] = scale > 0 ? (fminf(fmaxf(nearbyintf(from[k] / scale) + zero, 0), 255) - zero) * scale : 0;
}

/* sums_x = x w^T + biases, for all steps at once. A GRU that applies its reset after the product keeps the candidate's
 * state bias separate. */
static td_status multiply_inputs(const base_call *call, const layer *l, recurrence *r, int64_t d) {
  int64_t rows = l->time * l->batch, n = l->gates * r->hidden;
  const base_f32 *bias = l->in[BIAS] ? l->in[BIAS] + d * 2 * n : NULL, *x = l->in[X];
  bool separate = r->linear_before_reset && r->cell == &ops_cell_gru;
  r->state_bias = bias && separate ? bias + n + 2 * r->hidden : NULL;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < n; k++)
      l->sums_x[i * n + k] = bias ? bias[k] + (separate && k >= 2 * r->hidden ? 0 : bias[n + k]) : 0;
  if (r->quantise) {
    round_to_bytes(x, rows * r->input, l->x);
    x = l->x;
  }
  gemm_f32 g = {.m = rows,
                .n = n,
                .k = r->input,
                .a = x,
                .a_row = r->input,
                .a_column = 1,
                .b = l->in[W] + d * n * r->input,
                .b_row = 1,
                .b_column = r->input,
                .c = l->sums_x,
                .c_row = n};
  if (!ops_gemm_matrix_f32(call, &g)) return base_no_memory(call->err, "scratch");
  ops_gemm_f32(&g);
  return TD_OK;
}

/* r transposed once, so that every step reads its rows densely. */
static td_status transpose_state_weights(const base_call *call, const layer *l, recurrence *r, int64_t d) {
  int64_t n = l->gates * r->hidden;
  float *to = base_call_scratch(call, (size_t)n, (size_t)r->hidden * sizeof *to);
  if (!to) return base_no_memory(call->err, "scratch");
  const base_f32 *from = l->in[R] + d * n * r->hidden;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < r->hidden; k++) to[k * n + i] = from[i * r->hidden + k];
  r->state_weights = to;
  return TD_OK;
}

/* Row of sequence b in h0, c0 and the last states. */
static int64_t state_row(const layer *l, int64_t d, int64_t b) {
  return l->batch_first ? b * l->dirs + d : d * l->batch + b;
}

static void multiply_states(const layer *l, const recurrence *r) {
  int64_t n = l->gates * r->hidden;
  const float *state = l->state;
  for (int64_t k = 0; k < l->batch * n; k++) l->sums_h[k] = 0;
  if (r->quantise) {
    for (int64_t b = 0; b < l->batch; b++)
      round_to_bytes(l->state + b * r->hidden, r->hidden, l->rounded + b * r->hidden);
    state = l->rounded;
  }
  gemm_f32 g = {.m = l->batch,
                .n = n,
                .k = r->hidden,
                .a = state,
                .a_row = r->hidden,
                .a_column = 1,
                .b = r->state_weights,
                .b_row = n,
                .b_column = 1,
                .c = l->sums_h,
                .c_row = n};
  ops_gemm_f32(&g);
}

static void run_step(const layer *l, const recurrence *r, int64_t d, int64_t step, bool reverse) {
  int64_t n = l->gates * r->hidden, hidden = r->hidden;
  multiply_states(l, r);
  for (int64_t b = 0; b < l->batch; b++) {
    int64_t length = l->lengths ? l->lengths[b] : l->time;
    bool inside = step < length;
    int64_t t = reverse && inside ? length - 1 - step : step, row = l->batch_first ? b * l->time + t : t * l->batch + b;
    float *state = l->state + b * hidden;
    if (inside) r->cell->step(r, l->sums_x + row * n, l->sums_h + b * n, state, l->memory + b * hidden);
    if (!l->y) continue;
    base_f32 *y = l->y + (l->batch_first ? row * l->dirs + d : (t * l->dirs + d) * l->batch + b) * hidden;
    for (int64_t k = 0; k < hidden; k++) y[k] = inside ? state[k] : 0;
  }
}

static td_status run_direction(const base_call *call, const layer *l, recurrence *r, int64_t d) {
  int64_t hidden = r->hidden;
  bool reverse = d == 1 || strcmp(base_attr_str(call->attrs, DIRECTION), "reverse") == 0;
  TRY(read_activations(call, d, r));
  TRY(multiply_inputs(call, l, r, d));
  TRY(transpose_state_weights(call, l, r, d));
  r->peepholes = l->in[PEEPHOLES] ? l->in[PEEPHOLES] + d * 3 * hidden : NULL;
  for (int64_t b = 0; b < l->batch; b++)
    for (int64_t k = 0; k < hidden; k++) {
      int64_t from = state_row(l, d, b) * hidden + k;
      l->state[b * hidden + k] = l->in[H0] ? l->in[H0][from] : 0;
      l->memory[b * hidden + k] = l->in[C0] ? l->in[C0][from] : 0;
    }
  for (int64_t step = 0; step < l->time; step++) run_step(l, r, d, step, reverse);
  for (int64_t b = 0; b < l->batch; b++)
    for (int64_t k = 0; k < hidden; k++) {
      int64_t to = state_row(l, d, b) * hidden + k;
      if (l->last) l->last[to] = l->state[b * hidden + k];
      if (l->last_memory) l->last_memory[to] = l->memory[b * hidden + k];
    }
  return TD_OK;
}

static td_status run_recurrent(const base_call *call, const cell *c) {
  double clip = base_attr_float(call->attrs, CLIP);
  recurrence r = {.cell = c,
                  .clip = clip > 0 ? clip : INFINITY,
                  .input_forget = base_attr_int(call->attrs, INPUT_FORGET),
                  .linear_before_reset = base_attr_int(call->attrs, LINEAR_BEFORE_RESET),
                  .quantise = base_attr_int(call->attrs, QUANTISE)};
  layer l = {0};
  TRY(open_layer(call, &l, &r));
  if (l.batch == 0 || r.hidden == 0) return TD_OK;
  TRY(take_layer(call, &l, &r));
  for (int64_t d = 0; d < l.dirs; d++) TRY(run_direction(call, &l, &r, d));
  if (l.y) ops_put(call, 0, TD_F32, l.y);
  if (l.last) ops_put(call, 1, TD_F32, l.last);
  if (l.last_memory) ops_put(call, 2, TD_F32, l.last_memory);
  return TD_OK;
}
static td_status rnn_reference(const base_call *call) { return run_recurrent(call, &ops_cell_rnn); }
static td_status lstm_reference(const base_call *call) { return run_recurrent(call, &ops_cell_lstm); }
static td_status gru_reference(const base_call *call) { return run_recurrent(call, &ops_cell_gru); }

/* ---- cases ---- */

static bool cases_of(ir_case *c, uint32_t number, int64_t gates, bool memory) {
  static const int64_t lengths[] = {2, 4};
  if (number >= 4) return false;
  int64_t d = number == 2 ? 2 : 1, hidden = 3, w[] = {d, gates * hidden, 5}, r[] = {d, gates * hidden, hidden};
  int64_t bias[] = {d, 2 * gates * hidden}, state[] = {d, 2, hidden}, peephole[] = {d, 3 * hidden};
  if (number == 1) ops_case_arg(c, ARG_STR("direction", "reverse"));
  if (number == 2) ops_case_arg(c, ARG_STR("direction", "bidirectional"));
  if (number == 3) ops_case_arg(c, ARG_FLOAT("clip", 0.5));
  if (number == 3) ops_case_arg(c, ARG_BOOL("linear_before_reset", true));
  if (!ops_case_in(c, TD_F32, OPS_DIMS(4, 2, 5), OPS_NORMAL, 1) || !ops_case_in(c, TD_F32, 3, w, OPS_NORMAL, 2) ||
      !ops_case_in(c, TD_F32, 3, r, OPS_NORMAL, 3))
    return false;
  if (number == 0) return true;
  if (!ops_case_in(c, TD_F32, 2, bias, OPS_NORMAL, 4) || !ops_case_ints(c, lengths, 2) ||
      !ops_case_in(c, TD_F32, 3, state, OPS_NORMAL, 5))
    return false;
  return !memory ||
         (ops_case_in(c, TD_F32, 3, state, OPS_NORMAL, 6) && ops_case_in(c, TD_F32, 2, peephole, OPS_NORMAL, 7));
}
static bool cases_rnn(ir_case *c, uint32_t number) { return cases_of(c, number, 1, false); }
static bool cases_lstm(ir_case *c, uint32_t number) { return cases_of(c, number, 4, true); }
static bool cases_gru(ir_case *c, uint32_t number) { return cases_of(c, number, 3, false); }

OPS_DECLARE(recurrent);
const ir_op ops_recurrent[] = {
    {.id = OPERATOR(td, rnn),
     .min_in = 3,
     .max_in = 6,
     .out_count = 2,
     .attrs = rnn_attrs,
     .attr_count = OPS_COUNT(rnn_attrs),
     .infer = infer_rnn,
     .reference = rnn_reference,
     .rtol = 1e-4f,
     .atol = 1e-5f},
    {.id = OPERATOR(td, lstm),
     .min_in = 3,
     .max_in = 8,
     .out_count = 3,
     .attrs = lstm_attrs,
     .attr_count = OPS_COUNT(lstm_attrs),
     .infer = infer_lstm,
     .reference = lstm_reference,
     .rtol = 1e-4f,
     .atol = 1e-5f},
    {.id = OPERATOR(td, gru),
     .min_in = 3,
     .max_in = 6,
     .out_count = 2,
     .attrs = gru_attrs,
     .attr_count = OPS_COUNT(gru_attrs),
     .infer = infer_gru,
     .reference = gru_reference,
     .rtol = 1e-4f,
     .atol = 1e-5f},
};
OPS_TABLE(recurrent);
OPS_CASES(recurrent) = {
    {OP_td_rnn, cases_rnn},
    {OP_td_lstm, cases_lstm},
    {OP_td_gru, cases_gru},
    {0},
};
