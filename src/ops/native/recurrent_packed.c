/* recurrent_packed.c -- td::lstm_packed, td::gru_packed, td::rnn_packed: td::lstm, td::gru and td::rnn (recurrent.c)
 * with weights as kernels/products/recurrent.h packs them, ONNX's default activations (of an rnn, `relu` too) and
 * nothing more: no clipping. Operands: x [time, batch, input], w, r and bias packed (of an LSTM or GRU without w, x is
 * the sums of its inputs and bias, of all directions, and of a bias what a GRU adds before the reset gate alone counts;
 * its r may be tiles of bf16, or of an LSTM 8 bits, which meet states rounded to 8 bits), h0 [directions, batch,
 * hidden], for an LSTM c0 like h0 (others leave it out), lengths [batch] of whole numbers, of an LSTM packed peepholes.
 * Behind its length a sequence has states of zeros, and keeps its last. Results: all states [time, directions, batch,
 * hidden], last states like h0, last memory (lstm). batch_first: x [batch, time, input], states [batch, time,
 * directions, hidden], h0 [batch, directions, hidden]. `reverse`: the one direction runs from the last step to the
 * first; of two directions the second does. Computed in double, states rounded each step. */
#include "kernels/kernels.h"
#include "kernels/products/products.h"
#include "ops/common/ops_priv.h"

#include <math.h>

enum { X, W, R, BIAS, H0, C0, LENGTHS, PEEPHOLES, OPERANDS };
static const ir_attr lstm_attrs[] = {KERN_RECURRENT_LIST(OPS_ATTR_ROW) KERN_LSTM_LIST(OPS_ATTR_ROW)};
static const ir_attr gru_attrs[] = {KERN_RECURRENT_LIST(OPS_ATTR_ROW) KERN_GRU_LIST(OPS_ATTR_ROW)};
static const ir_attr rnn_attrs[] = {KERN_RECURRENT_LIST(OPS_ATTR_ROW) KERN_RNN_LIST(OPS_ATTR_ROW)};

/* ---- sizes ---- */

static kern_recurrent layout_of(const base_attrs *attrs, int64_t gates) {
  return (kern_recurrent){base_attr_int(attrs, KERN_RECURRENT_DIRECTIONS), gates,
                          base_attr_int(attrs, KERN_RECURRENT_HIDDEN), base_attr_int(attrs, KERN_RECURRENT_PANEL)};
}

/* Elements of r. */
static bool count_states(const base_attrs *attrs, const kern_recurrent *r, td_dtype type, size_t *count) {
  kern_i8_layout bytes;
  if (type == TD_F32) return kern_recurrent_count(r, r->hidden, count);
  if (type == TD_BF16) return kern_recurrent_tile_count(r, r->hidden, count);
  if (!kern_recurrent_bytes(r, r->hidden, base_attr_int(attrs, KERN_LSTM_DEPTH), &bytes)) return false;
  *count = (size_t)bytes.size;
  return true;
}

/* An operand's numbers of elements agree, as far as they are known. */
static td_status check_count(ir_infer *ctx, uint32_t i, const char *what, bool counted, size_t count) {
  if (!ir_in(ctx, i)) return TD_OK;
  int64_t known = ir_known_count(&ir_in(ctx, i)->type);
  if (counted && (known < 0 || (size_t)known == count)) return TD_OK;
  return ir_infer_fail(ctx, "the packed %s has %lld elements where its sizes ask for others", what, (long long)known);
}

/* An initial state is as large as a last one. */
static td_status check_state(ir_infer *ctx, uint32_t i, const base_dim *dims) {
  const ir_info *in = ir_in(ctx, i);
  if (!in || in->type.rank == IR_UNRANKED) return TD_OK;
  if (in->type.rank != 3) return ir_infer_fail(ctx, "an initial state must have rank 3");
  for (int32_t k = 0; k < 3; k++)
    if (base_dim_known(in->type.dims[k]) && base_dim_known(dims[k]) && in->type.dims[k] != dims[k])
      return ir_infer_fail(ctx, "an initial state has %lld as dimension %d instead of %lld",
                           (long long)in->type.dims[k], k, (long long)dims[k]);
  return TD_OK;
}

/* One for each sequence. */
static td_status check_lengths(ir_infer *ctx, base_dim batch) {
  const ir_info *in = ir_in(ctx, LENGTHS);
  if (!in) return TD_OK;
  if (in->type.dtype != TD_I64 && in->type.dtype != TD_I32) return ir_infer_fail(ctx, "lengths are not i64 or i32");
  if (in->type.rank == IR_UNRANKED) return TD_OK;
  if (in->type.rank != 1) return ir_infer_fail(ctx, "lengths must have rank 1");
  if (base_dim_known(batch) && base_dim_known(in->type.dims[0]) && batch != in->type.dims[0])
    return ir_infer_fail(ctx, "%lld sequences have %lld lengths", (long long)batch, (long long)in->type.dims[0]);
  return TD_OK;
}

static td_status infer_packed(ir_infer *ctx, int64_t gates) {
  const ir_type *x = &ir_in(ctx, X)->type;
  kern_recurrent r = layout_of(ctx->attrs, gates);
  bool batch_first = base_attr_int(ctx->attrs, KERN_RECURRENT_BATCH_FIRST);
  size_t count = 0;
  for (uint32_t i = 0; i < ctx->in_count; i++) {
    if (i == LENGTHS || !ir_in(ctx, i)) continue;
    const td_dtype type = ir_in(ctx, i)->type.dtype;
    if (type != TD_F32 && !(i == R && ((gates > 1 && type == TD_BF16) || (gates == 4 && type == TD_U8))))
      return ir_infer_fail(ctx, "operand %u is not f32", i);
  }
  if (gates < 4 && (ir_in(ctx, C0) || ir_in(ctx, PEEPHOLES))) return ir_infer_fail(ctx, "an LSTM alone has a memory");
  if (!ir_in(ctx, R)) return ir_infer_fail(ctx, "there are no weights of states");
  if (r.hidden < 1 || r.hidden > INT32_MAX || r.panel < 1 || r.panel > INT32_MAX || r.directions < 1 ||
      r.directions > 2)
    return ir_infer_fail(ctx, "hidden, panel or directions is out of range");
  if (x->rank == IR_UNRANKED) {
    for (uint32_t i = 0; i < ctx->out_count; i++) TRY(ir_out_unranked(ctx, i, TD_F32));
    return TD_OK;
  }
  if (x->rank != 3) return ir_infer_fail(ctx, "x must have rank 3");
  if (!ir_in(ctx, W)) {
    if (gates < 3 || (gates == 4 && ir_in(ctx, BIAS)) || ops_dims_differ(x->dims[2], kern_recurrent_columns(&r)))
      return ir_infer_fail(ctx, "x is not the sums of its inputs");
  } else if (base_dim_known(x->dims[2])) {
    bool counted = kern_recurrent_count(&r, x->dims[2], &count);
    TRY(check_count(ctx, W, "w", counted, count));
  }
  if (ir_in(ctx, R)->type.dtype == TD_U8 && ir_in(ctx, W))
    return ir_infer_fail(ctx, "r of 8 bits with weights of inputs");
  bool counted = count_states(ctx->attrs, &r, ir_in(ctx, R)->type.dtype, &count);
  TRY(check_count(ctx, R, "r", counted, count));
  counted = kern_recurrent_bias_count(&r, &count);
  TRY(check_count(ctx, BIAS, "bias", counted, count));
  counted = kern_recurrent_peephole_count(&r, &count);
  TRY(check_count(ctx, PEEPHOLES, "peepholes", counted, count));
  base_dim time = x->dims[batch_first], batch = x->dims[!batch_first], dirs = r.directions, hidden = r.hidden;
  base_dim all[] = {time, dirs, batch, hidden}, all_batch[] = {batch, time, dirs, hidden};
  base_dim last[] = {batch_first ? batch : dirs, batch_first ? dirs : batch, hidden};
  TRY(check_state(ctx, H0, last));
  TRY(check_state(ctx, C0, last));
  TRY(check_lengths(ctx, batch));
  TRY(ir_out(ctx, 0, TD_F32, 4, batch_first ? all_batch : all));
  for (uint32_t i = 1; i < ctx->out_count; i++) TRY(ir_out(ctx, i, TD_F32, 3, last));
  return TD_OK;
}
static td_status infer_lstm(ir_infer *ctx) { return infer_packed(ctx, 4); }
static td_status infer_gru(ir_infer *ctx) { return infer_packed(ctx, 3); }
static td_status infer_rnn(ir_infer *ctx) { return infer_packed(ctx, 1); }

/* ---- run ---- */

/* One direction of the layer, its weights at their start. */
typedef struct direction {
  const base_f32 *x, *w, *r, *bias, *peepholes;
  int64_t time, batch, input, hidden, gates, panel, index, count;
  bool backward, batch_first, linear_before_reset, relu, quantise;
  const base_i64 *lengths;                  /* NULL: all are `time` */
  double *state, *memory, *sums, *products; /* [hidden], and per gate [4 * hidden] */
  double *rounded;                          /* [hidden] */
} direction;

/* Sum over k of row[k] and the packed weight of a gate of `unit`; `of` counts the rows k. */
static double product(const direction *d, const base_f32 *w, int64_t of, int64_t gate, int64_t unit, const base_f32 *x,
                      const double *state) {
  const base_f32 *panel = w + unit / d->panel * of * d->gates * d->panel + gate * d->panel + unit % d->panel;
  double sum = 0;
  for (int64_t k = 0; k < of; k++) sum += (x ? (double)x[k] : state[k]) * (double)panel[k * d->gates * d->panel];
  return sum;
}

/* Where x that is sums has that of a gate of `unit`. */
static int64_t sum_of(const direction *d, int64_t gate, int64_t unit) {
  return d->input / d->count * d->index + (unit / d->panel * d->gates + gate) * d->panel + unit % d->panel;
}

static double bias_of(const direction *d, int64_t gate, int64_t unit) {
  int64_t at = (unit / d->panel * KERN_RECURRENT_BIASES + gate) * d->panel + unit % d->panel;
  return d->bias ? (double)d->bias[at] : 0;
}

/* What a gate of `unit` sees of the memory; `gate`: i, o, f. */
static double peep(const direction *d, int64_t gate, int64_t unit) {
  const int64_t at = (unit / d->panel * KERN_RECURRENT_PEEPHOLES + gate) * d->panel + unit % d->panel;
  return d->peepholes ? (double)d->peepholes[at] * d->memory[unit] : 0;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void lstm_step(const direction *d) {
  for (int64_t u = 0; u < d->hidden; u++) {
    const double *s = d->sums + u, *p = d->products + u;
    int64_t n = d->hidden;
    double in = sigmoid(s[0] + p[0] + peep(d, 0, u)), forget = sigmoid(s[2 * n] + p[2 * n] + peep(d, 2, u));
    d->memory[u] = (double)(float)(forget * d->memory[u] + in * tanh(s[3 * n] + p[3 * n]));
    d->state[u] = (double)(float)(sigmoid(s[n] + p[n] + peep(d, 1, u)) * tanh(d->memory[u]));
  }
}

/* `memory` holds the reset state. */
static void gru_step(const direction *d) {
  int64_t n = d->hidden;
  double *s = d->sums, *p = d->products;
  for (int64_t u = 0; u < n; u++) {
    double reset = sigmoid(s[n + u] + p[n + u]);
    d->memory[u] = reset * d->state[u];
    p[2 * n + u] = reset * (p[2 * n + u] + bias_of(d, 3, u));
  }
  for (int64_t u = 0; !d->linear_before_reset && u < n; u++) p[2 * n + u] = product(d, d->r, n, 2, u, NULL, d->memory);
  for (int64_t u = 0; u < n; u++) {
    double z = sigmoid(s[u] + p[u]), candidate = tanh(s[2 * n + u] + p[2 * n + u]);
    d->state[u] = (double)(float)((1 - z) * candidate + z * d->state[u]);
  }
}

static void rnn_step(const direction *d) {
  for (int64_t u = 0; u < d->hidden; u++) {
    const double sum = d->sums[u] + d->products[u];
    d->state[u] = (double)(float)(d->relu ? (sum < 0 ? 0 : sum) : tanh(sum));
  }
}

/* The state to 255 steps of its range, in f32, as kernels do. */
static void quantise_state(const direction *d) {
  float low = 0, high = 0;
  for (int64_t u = 0; u < d->hidden; u++) {
    low = fminf(low, (float)d->state[u]);
    high = fmaxf(high, (float)d->state[u]);
  }
  kern_i8_scales s = {0};
  kern_i8_range(low, high, &s);
  for (int64_t u = 0; u < d->hidden; u++) {
    const float q = fminf(fmaxf(nearbyintf((float)d->state[u] / s.x_scale) + s.x_zero, 0), UINT8_MAX);
    d->rounded[u] = s.x_scale > 0 ? (double)((q - s.x_zero) * s.x_scale) : 0;
  }
}

static void run_sequence(const base_call *call, const direction *d, int64_t b, const base_f32 *h0, const base_f32 *c0,
                         void (*step)(const direction *d)) {
  int64_t row = d->batch_first ? b * d->count + d->index : d->index * d->batch + b;
  const int64_t length = d->lengths ? d->lengths[b] : d->time;
  base_f32 *y = base_out(call, 0) ? base_out(call, 0)->data : NULL;
  for (int64_t u = 0; u < d->hidden; u++) {
    d->state[u] = h0 ? (double)h0[row * d->hidden + u] : 0;
    d->memory[u] = c0 ? (double)c0[row * d->hidden + u] : 0;
  }
  for (int64_t i = 0; i < d->time; i++) {
    const bool inside = i < length;
    int64_t t = d->backward && inside ? length - 1 - i : i;
    const base_f32 *x = d->x + (d->batch_first ? b * d->time + t : t * d->batch + b) * d->input;
    if (inside && d->quantise) quantise_state(d);
    for (int64_t gate = 0; inside && gate < d->gates; gate++)
      for (int64_t u = 0; u < d->hidden; u++) {
        d->sums[gate * d->hidden + u] =
            d->w ? bias_of(d, gate, u) + product(d, d->w, d->input, gate, u, x, NULL) : (double)x[sum_of(d, gate, u)];
        d->products[gate * d->hidden + u] =
            product(d, d->r, d->hidden, gate, u, NULL, d->quantise ? d->rounded : d->state);
      }
    if (inside) step(d);
    int64_t at = d->batch_first ? (b * d->time + t) * d->count + d->index : (t * d->count + d->index) * d->batch + b;
    for (int64_t u = 0; y && u < d->hidden; u++) y[at * d->hidden + u] = inside ? (float)d->state[u] : 0;
  }
  for (uint32_t i = 1; i <= 2; i++) {
    base_f32 *last = base_out(call, i) ? base_out(call, i)->data : NULL;
    for (int64_t u = 0; last && u < d->hidden; u++)
      last[row * d->hidden + u] = (float)(i == 1 ? d->state[u] : d->memory[u]);
  }
}

static td_status check_operand(const base_call *call, uint32_t i, size_t wanted) {
  if (!base_in(call, i) || (size_t)base_tensor_numel(base_in(call, i)) == wanted) return TD_OK;
  return ops_fail(call, "operand %u has %lld elements instead of %zu", i,
                  (long long)base_tensor_numel(base_in(call, i)), wanted);
}

static td_status check_operands(const base_call *call, const kern_recurrent *layout, int64_t input, int64_t batch) {
  size_t w, r, bias, peepholes, states = (size_t)(layout->directions * batch * layout->hidden);
  if (!kern_recurrent_count(layout, input, &w) || !count_states(call->attrs, layout, base_in(call, R)->dtype, &r) ||
      !kern_recurrent_bias_count(layout, &bias) || !kern_recurrent_peephole_count(layout, &peepholes))
    return ops_fail(call, "the weights are too large");
  TRY(check_operand(call, W, w));
  TRY(check_operand(call, R, r));
  TRY(check_operand(call, BIAS, bias));
  TRY(check_operand(call, PEEPHOLES, peepholes));
  TRY(check_operand(call, H0, states));
  TRY(check_operand(call, LENGTHS, (size_t)batch));
  return check_operand(call, C0, states);
}

/* R of bytes as f32 with their scales. */
static void widen_bytes(float *to, const base_call *call, const kern_recurrent *layout) {
  const uint8_t *r = base_in(call, R)->data;
  const int64_t wide = layout->gates * layout->panel;
  kern_i8_layout l;
  if (!kern_recurrent_bytes(layout, layout->hidden, base_attr_int(call->attrs, KERN_LSTM_DEPTH), &l)) return;
  const base_f32 *scales = (const base_f32 *)(const void *)r + l.columns;
  const base_i32 *shifts = (const base_i32 *)(const void *)r + 2 * l.columns;
  for (int64_t panel = 0; panel < l.columns / wide; panel++)
    for (int64_t k = 0; k < layout->hidden; k++)
      for (int64_t i = 0, column = panel * wide; i < wide; i++, column++)
        *to++ = (float)(kern_i8_weight(&l, r, column / l.n, column % l.n, k) - shifts[column]) * scales[column];
}

/* R as f32; NULL: no memory. */
static const base_f32 *states_of(const base_call *call, const kern_recurrent *layout) {
  size_t count;
  if (base_in(call, R)->dtype == TD_F32) return ops_dense_f32(call, R);
  if (!kern_recurrent_count(layout, layout->hidden, &count)) return NULL;
  float *wide = base_call_scratch(call, count, sizeof *wide);
  if (wide && base_in(call, R)->dtype == TD_BF16) kern_recurrent_widen(wide, layout, layout->hidden, base_in(call, R));
  else if (wide) widen_bytes(wide, call, layout);
  return wide;
}

static td_status run_packed(const base_call *call, int64_t gates, void (*step)(const direction *d)) {
  const base_tensor *x = base_in(call, X);
  kern_recurrent layout = layout_of(call->attrs, gates);
  bool batch_first = base_attr_int(call->attrs, KERN_RECURRENT_BATCH_FIRST);
  const base_f32 *in[OPERANDS] = {NULL};
  direction d = {.time = x->dims[batch_first],
                 .batch = x->dims[!batch_first],
                 .input = x->dims[2],
                 .hidden = layout.hidden,
                 .gates = gates,
                 .panel = layout.panel,
                 .count = layout.directions,
                 .batch_first = batch_first,
                 .linear_before_reset = gates == 3 && base_attr_int(call->attrs, KERN_GRU_LINEAR_BEFORE_RESET),
                 .quantise = base_in(call, R)->dtype == TD_U8,
                 .relu = gates == 1 && base_attr_int(call->attrs, KERN_RNN_RELU)};
  TRY(check_operands(call, &layout, d.input, d.batch));
  for (uint32_t i = 0; i < OPERANDS; i++)
    if (i != LENGTHS && base_in(call, i) && !(in[i] = i == R ? states_of(call, &layout) : ops_dense_f32(call, i)))
      return base_no_memory(call->err, "scratch");
  if (base_in(call, LENGTHS) && !(d.lengths = ops_dense_i64(call, LENGTHS)))
    return base_no_memory(call->err, "scratch");
  for (int64_t b = 0; d.lengths && b < d.batch; b++)
    if (d.lengths[b] < 0 || d.lengths[b] > d.time)
      return ops_fail(call, "a sequence length is outside [0, %lld]", (long long)d.time);
  d.state = base_call_scratch(call, (size_t)d.hidden, 11 * sizeof *d.state);
  if (!d.state) return base_no_memory(call->err, "scratch");
  d.memory = d.state + d.hidden;
  d.sums = d.memory + d.hidden;
  d.products = d.sums + 4 * d.hidden;
  d.rounded = d.products + 4 * d.hidden;
  int64_t padded = (d.hidden + d.panel - 1) / d.panel * d.panel;
  for (d.index = 0; d.index < d.count; d.index++) {
    d.backward = d.index == 1 || base_attr_int(call->attrs, KERN_RECURRENT_REVERSE);
    d.x = in[X];
    d.w = in[W] ? in[W] + d.index * padded * gates * d.input : NULL;
    d.r = in[R] + d.index * padded * gates * d.hidden;
    d.peepholes = in[PEEPHOLES] ? in[PEEPHOLES] + d.index * padded * KERN_RECURRENT_PEEPHOLES : NULL;
    d.bias = in[BIAS] ? in[BIAS] + d.index * padded * KERN_RECURRENT_BIASES : NULL;
    for (int64_t b = 0; b < d.batch; b++) run_sequence(call, &d, b, in[H0], in[C0], step);
  }
  return TD_OK;
}
static td_status lstm_reference(const base_call *call) { return run_packed(call, 4, lstm_step); }
static td_status gru_reference(const base_call *call) { return run_packed(call, 3, gru_step); }
static td_status rnn_reference(const base_call *call) { return run_packed(call, 1, rnn_step); }

/* ---- kernels ---- */

static const kern_row *kernel_of(const ir_kernel_query *query, kern_family family, td_dtype r, int64_t vectors) {
  const kern_row *row = kern_select(family, r, query->isa);
  return row && row->lanes * vectors == base_attr_int(query->attrs, KERN_RECURRENT_PANEL) ? row : NULL;
}
static bool has_states_of(const ir_kernel_query *query, td_dtype type) {
  return query->in[R] && query->in[R]->type.dtype == type;
}
/* Those of tiles or bytes take no weights of inputs; a GRU's, the form whose candidate's product comes before the reset
 * gate. */
static const kern_row *lstm_kernel(const ir_kernel_query *query) {
  if (has_states_of(query, TD_F32)) return kernel_of(query, KERN_LSTM, TD_F32, 1);
  if (query->in[W]) return NULL;
  if (has_states_of(query, TD_BF16)) return kernel_of(query, KERN_LSTM, TD_BF16, 1);
  const kern_row *row = kernel_of(query, KERN_LSTM, TD_I8, 1);
  return row && kern_i8_depth(row) == base_attr_int(query->attrs, KERN_LSTM_DEPTH) ? row : NULL;
}
static const kern_row *gru_kernel(const ir_kernel_query *query) {
  if (has_states_of(query, TD_F32)) return kernel_of(query, KERN_GRU, TD_F32, 1);
  const bool fits = !query->in[W] && base_attr_int(query->attrs, KERN_GRU_LINEAR_BEFORE_RESET);
  return fits ? kernel_of(query, KERN_GRU, TD_BF16, 1) : NULL;
}
static const kern_row *rnn_kernel(const ir_kernel_query *query) {
  return kernel_of(query, KERN_RNN, TD_F32, KERN_PLAIN_VECTORS);
}

/* Two per multiplication and addition with the weights, at each step. */
static double packed_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)out;
  const ir_type *x = &in[X]->type;
  const bool bytes = in[R]->type.dtype == TD_U8;
  const kern_recurrent layout = layout_of(attrs, 4);
  const int64_t w = in[W] ? ir_known_count(&in[W]->type) : 0,
                r = bytes ? kern_recurrent_columns(&layout) * layout.hidden : ir_known_count(&in[R]->type);
  if (x->rank != 3 || w < 0 || r < 0) return 0;
  return base_dim_known(x->dims[0]) && base_dim_known(x->dims[1])
             ? 2.0 * (double)x->dims[0] * (double)x->dims[1] * ((double)w + (double)r)
             : 0;
}

/* ---- cases ---- */

static const struct packed_case {
  int64_t time, batch, input, hidden, directions;
  bool bias, states, reverse, batch_first, linear_before_reset, lengths;
} packed_rows[] = {
    {4, 2, 5, 3, 1, false, false, false, false, false, false},
    {3, 1, 7, 17, 1, true, true, false, false, true, false},
    {5, 3, 4, 16, 2, true, true, false, false, false, false},
    {2, 7, 3, 33, 1, true, false, true, true, true, false},
    {1, 1, 31, 64, 1, true, true, false, false, false, false},
    {9, 13, 1, 8, 2, false, true, false, true, true, false},
    {0, 2, 5, 9, 1, true, true, false, false, false, false},
    {3, 0, 5, 9, 2, true, true, false, false, true, false},
    {70, 1, 2, 200, 1, true, false, false, false, false, false},
    {67, 1, 3, 150, 2, true, true, false, true, true, true},
    {3, 5, 0, 24, 2, true, true, false, true, true, false},
    {16, 1, 20, 40, 2, true, true, false, false, true, false},
    {41, 1, 5, 17, 1, true, true, true, true, false, false},
    {27, 7, 1, 33, 1, false, true, false, false, true, false},
    {21, 1, 6, 20, 2, true, true, false, false, true, true},
    {9, 13, 4, 17, 2, true, true, false, true, false, true},
    {6, 5, 3, 8, 1, false, false, true, false, true, true},
    {30, 3, 3, 33, 1, true, true, false, true, true, true},
    {0, 2, 3, 5, 1, true, true, false, false, true, true},
};
static const int64_t packed_panels[] = {1, 4, 8, 16, 5};

static bool case_packed(ir_case *c, const kern_recurrent *r, int64_t k, uint64_t seed) {
  int64_t rows[] = {r->directions, r->gates * r->hidden, k};
  size_t count;
  ir_case plain = {.arena = c->arena};
  if (!kern_recurrent_count(r, k, &count) || !ops_case_in(&plain, TD_F32, 3, rows, OPS_UNIT, seed)) return false;
  float *weights = plain.in[0].data; /* within the square root of k, so that gates do not saturate */
  for (int64_t i = 0; i < base_tensor_numel(&plain.in[0]); i++)
    weights[i] = (weights[i] - 0.5f) * 4 / sqrtf((float)(k + 1));
  int64_t packed = (int64_t)count;
  if (!ops_case_in(c, TD_F32, 1, &packed, OPS_UNIT, seed)) return false;
  kern_recurrent_pack(c->in[c->in_count - 1].data, r, &plain.in[0]);
  return true;
}

/* The last operand, packed, as tiles. */
static bool case_tiles(ir_case *c, const kern_recurrent *r) {
  base_tensor *t = &c->in[c->in_count - 1];
  size_t count;
  if (!kern_recurrent_tile_count(r, r->hidden, &count)) return false;
  uint16_t *tiles = base_arena_alloc_aligned(c->arena, count * sizeof *tiles + 1, 64);
  if (!tiles) return false;
  kern_recurrent_narrow(tiles, r, r->hidden, t->data);
  *t = base_tensor_of(tiles, TD_BF16, 1, &(int64_t){(int64_t)count});
  return true;
}

/* r of bytes, some of them of unsigned numbers. */
static bool case_bytes(ir_case *c, const kern_recurrent *r, int64_t depth, uint32_t number) {
  kern_i8_layout l;
  if (!kern_recurrent_bytes(r, r->hidden, depth, &l)) return false;
  const int64_t columns = l.groups * l.n, count = columns * l.k;
  int8_t *w = base_new(c->arena, int8_t, (size_t)count);
  float *scales = base_new(c->arena, float, (size_t)columns);
  int32_t *shifts = base_new(c->arena, int32_t, (size_t)columns);
  uint8_t *to = base_arena_alloc_aligned(c->arena, (size_t)l.size, 64);
  if (!w || !scales || !shifts || !to) return false;
  for (int64_t i = 0; i < count; i++) w[i] = (int8_t)(i * 89 % 251 - 125);
  for (int64_t i = 0; i < columns; i++) {
    scales[i] = (float)(i % 5 + 1) / (400 * sqrtf((float)l.k));
    shifts[i] = number % 2 ? (int32_t)(i % 7 * 40 - 128) : 0;
  }
  kern_pack_i8(&l, w, scales, shifts, to);
  c->in[c->in_count++] = base_tensor_of(to, TD_U8, 1, &l.size);
  return true;
}

static bool case_bias(ir_case *c, const kern_recurrent *r, bool separate) {
  int64_t rows[] = {r->directions, 2 * r->gates * r->hidden};
  size_t count;
  ir_case plain = {.arena = c->arena};
  if (!kern_recurrent_bias_count(r, &count) || !ops_case_in(&plain, TD_F32, 2, rows, OPS_NORMAL, 4)) return false;
  int64_t packed = (int64_t)count;
  if (!ops_case_in(c, TD_F32, 1, &packed, OPS_UNIT, 4)) return false;
  kern_recurrent_pack_bias(c->in[c->in_count - 1].data, r, separate, &plain.in[0]);
  return true;
}

static bool case_peepholes(ir_case *c, const kern_recurrent *r) {
  size_t count;
  ir_case plain = {.arena = c->arena};
  if (!kern_recurrent_peephole_count(r, &count) ||
      !ops_case_in(&plain, TD_F32, OPS_DIMS(r->directions, KERN_RECURRENT_PEEPHOLES * r->hidden), OPS_NORMAL, 6))
    return false;
  float *weights = plain.in[0].data; /* small: what they add to a gate grows from step to step */
  for (int64_t i = 0; i < base_tensor_numel(&plain.in[0]); i++) weights[i] *= 0.1f;
  while (c->in_count < PEEPHOLES)
    if (!ops_case_absent(c)) return false;
  const int64_t packed = (int64_t)count;
  if (!ops_case_in(c, TD_F32, 1, &packed, OPS_UNIT, 6)) return false;
  kern_recurrent_pack_peepholes(c->in[c->in_count - 1].data, r, &plain.in[0]);
  return true;
}

static bool cases_of(ir_case *c, uint32_t number, int64_t gates) {
  const uint32_t count = OPS_COUNT(packed_rows) * OPS_COUNT(packed_panels);
  const uint32_t kind = number / count;
  const bool sums = kind == 1 || kind == 2 || kind == 4;        /* x is the sums of inputs */
  const bool tiles = kind == 2 || kind == 3, bytes = kind == 4; /* r is bf16; is of 8 bits */
  if (kind > (gates == 4 ? 4 : gates > 1 ? 3 : 0)) return false;
  const struct packed_case *p = &packed_rows[number % OPS_COUNT(packed_rows)];
  const int64_t vectors = gates == 1 ? KERN_PLAIN_VECTORS : 1;
  const uint32_t panels = number % count / OPS_COUNT(packed_rows);
  const kern_recurrent r = {p->directions, gates, p->hidden, bytes ? 8 << panels % 2 : packed_panels[panels] * vectors};
  const int64_t depth = 2 << (panels + panels / 2) % 2; /* (8, 2), (16, 4), (8, 4), (16, 2), (8, 2) */
  ops_case_arg(c, ARG_INT("hidden", r.hidden));
  ops_case_arg(c, ARG_INT("panel", r.panel));
  ops_case_arg(c, ARG_INT("directions", r.directions));
  ops_case_arg(c, ARG_BOOL("reverse", p->reverse));
  ops_case_arg(c, ARG_BOOL("batch_first", p->batch_first));
  if (bytes) ops_case_arg(c, ARG_INT("depth", depth));
  if (gates == 3) ops_case_arg(c, ARG_BOOL("linear_before_reset", p->linear_before_reset));
  if (gates == 1) ops_case_arg(c, ARG_BOOL("relu", p->linear_before_reset));
  int64_t outer = p->batch_first ? p->batch : p->time, inner = p->batch_first ? p->time : p->batch;
  int64_t first = p->batch_first ? p->batch : p->directions, second = p->batch_first ? p->directions : p->batch;
  const int64_t columns = sums ? kern_recurrent_columns(&r) : p->input;
  if (!ops_case_in(c, TD_F32, OPS_DIMS(outer, inner, columns), OPS_NORMAL, number) ||
      !(sums ? ops_case_absent(c) : case_packed(c, &r, p->input, 2)) ||
      !(bytes ? case_bytes(c, &r, depth, number) : case_packed(c, &r, p->hidden, 3)) || (tiles && !case_tiles(c, &r)))
    return false;
  if (!(p->bias && (gates == 3 || !sums) ? case_bias(c, &r, gates == 3 && p->linear_before_reset) : ops_case_absent(c)))
    return false;
  for (int64_t i = 0; p->states && i < (gates == 4 ? 2 : 1); i++) /* h0, and c0 of an LSTM */
    if (!ops_case_in(c, TD_F32, OPS_DIMS(first, second, p->hidden), OPS_NORMAL, 5)) return false;
  const bool peepholes = gates == 4 && number % 3 == 1;
  if (!p->lengths) return !peepholes || case_peepholes(c, &r);
  int64_t lengths[16];
  for (int64_t b = 0; b < p->batch; b++) lengths[b] = (b * 7 + 5 + number) % (p->time + 1);
  while (c->in_count < LENGTHS)
    if (!ops_case_absent(c)) return false;
  return ops_case_ints(c, lengths, (uint32_t)p->batch) && (!peepholes || case_peepholes(c, &r));
}
static bool cases_lstm(ir_case *c, uint32_t number) { return cases_of(c, number, 4); }
static bool cases_gru(ir_case *c, uint32_t number) { return cases_of(c, number, 3); }
static bool cases_rnn(ir_case *c, uint32_t number) { return cases_of(c, number, 1); }

OPS_DECLARE(recurrent_packed);
const ir_op ops_recurrent_packed[] = {
    {.id = OPERATOR(td, lstm_packed),
     .min_in = 1,
     .max_in = OPERANDS,
     .out_count = 3,
     .attrs = lstm_attrs,
     .attr_count = OPS_COUNT(lstm_attrs),
     .infer = infer_lstm,
     .reference = lstm_reference,
     .kernel = lstm_kernel,
     .flops = packed_flops,
     .rtol = 1e-4f,
     .atol = 1e-5f,
     .rounded = 1e-2f},
    {.id = OPERATOR(td, gru_packed),
     .min_in = 1,
     .max_in = PEEPHOLES,
     .out_count = 2,
     .attrs = gru_attrs,
     .attr_count = OPS_COUNT(gru_attrs),
     .infer = infer_gru,
     .reference = gru_reference,
     .kernel = gru_kernel,
     .flops = packed_flops,
     .rtol = 1e-4f,
     .atol = 1e-5f,
     .rounded = 1e-2f},
    {.id = OPERATOR(td, rnn_packed),
     .min_in = 3,
     .max_in = PEEPHOLES,
     .out_count = 2,
     .attrs = rnn_attrs,
     .attr_count = OPS_COUNT(rnn_attrs),
     .infer = infer_rnn,
     .reference = rnn_reference,
     .kernel = rnn_kernel,
     .flops = packed_flops,
     .rtol = 1e-4f,
     .atol = 1e-5f},
};
OPS_TABLE(recurrent_packed);
OPS_CASES(recurrent_packed) = {
    {OP_td_lstm_packed, cases_lstm},
    {OP_td_gru_packed, cases_gru},
    {OP_td_rnn_packed, cases_rnn},
    {0},
};
