/* lower_recurrent.c -- recurrent layers, over whole sequences and packed ones, and cells. Packed rows (PackedSequence)
 * are computed as what they were packed of, with a length for each sequence. */
#include "import/aten/recurrent.h"

static ir_value optional(aten_args *c, uint32_t i) { return aten_has(c, i) ? aten_in(c, i) : IR_NO_VALUE; }

/* ---- layers ---- */

typedef struct cell_kind {
  const char *op;
  int64_t gates;
  int64_t order[4]; /* which of PyTorch's gates stands at each place of ours */
  const char *activations;
} cell_kind;
static const cell_kind kinds[] = {{"td::lstm", 4, {0, 3, 1, 2}, NULL},
                                  {"td::gru", 3, {1, 0, 2}, NULL},
                                  {"td::rnn", 1, {0}, "Tanh"},
                                  {"td::rnn", 1, {0}, "Relu"}};

/* Rows of gates in our order. */
static ir_value reorder(aten_args *c, const cell_kind *kind, ir_value w) {
  ir_value parts[4];
  if (kind->gates == 1) return w;
  for (int64_t g = 0; g < kind->gates; g++)
    parts[g] = IR_EMIT_ARGS(c->b, "td::chunk", &w, 1, ARG_INT("dim", 0), ARG_INT("parts", kind->gates),
                            ARG_INT("index", kind->order[g]), ARG_BOOL("even", true));
  return aten_cat(c->a, parts, (uint32_t)kind->gates, 0);
}

typedef struct layers {
  const cell_kind *kind;
  const ir_value *weights;  /* per layer and direction: w_ih, w_hh, b_ih?, b_hh?, w_hr? */
  const aten_value *packed; /* or these: weights packed for 8 bits, two of each, and whether they take 7 */
  uint32_t per, directions;
  bool has_biases, is_projected;
  ir_value h0, c0;  /* [layers * directions, batch, hidden] */
  ir_value lengths; /* [batch]; none: all are whole */
} layers;

static ir_value states(aten_args *c, const layers *l, ir_value all, uint32_t layer) {
  return all.id ? aten_slice(c->a, all, 0, layer * l->directions, (layer + 1) * l->directions, 1) : all;
}

/* Direction `d` of a layer that no operator computes. */
static aten_steps steps_of_layer(aten_args *c, const layers *l, uint32_t layer, uint32_t d, ir_value x) {
  const uint32_t at = layer * l->directions + d;
  aten_steps s = {.c = c, .is_lstm = l->kind == &kinds[0], .reverse = d == 1, .lengths = l->lengths};
  s.h = aten_select(c->a, l->h0, 0, at);
  if (s.is_lstm) s.memory = aten_select(c->a, l->c0, 0, at);
  if (l->packed) {
    const aten_value *parts = l->packed[at].u.list->items.at;
    s.packed = &parts[1];
    s.reduce_range = parts[2].u.b;
    s.xs = aten_linear_dynamic(c, x, &parts[0], s.reduce_range);
    return s;
  }
  const ir_value *w = l->weights + at * l->per;
  s.xs = aten_linear(c->a, x, w[0], l->has_biases ? w[2] : IR_NO_VALUE);
  s.weight = w[1];
  s.bias = l->has_biases ? w[3] : IR_NO_VALUE;
  s.projection = w[l->per - 1];
  return s;
}
static ir_value run_stepped(aten_args *c, const layers *l, uint32_t layer, ir_value x, ir_value *h, ir_value *cell) {
  ir_value y[2], last[2], memory[2];
  for (uint32_t d = 0; d < l->directions; d++) {
    aten_steps s = steps_of_layer(c, l, layer, d, x);
    y[d] = aten_run_steps(&s);
    last[d] = aten_unsqueeze(c->a, s.h, 0);
    memory[d] = s.is_lstm ? aten_unsqueeze(c->a, s.memory, 0) : IR_NO_VALUE;
  }
  *h = aten_cat(c->a, last, l->directions, 0);
  *cell = memory[0].id ? aten_cat(c->a, memory, l->directions, 0) : IR_NO_VALUE;
  return aten_cat(c->a, y, l->directions, -1);
}

/* One layer over x [time, batch, input] -> [time, batch, directions * hidden]. */
static ir_value run_layer(aten_args *c, const layers *l, uint32_t layer, ir_value x, ir_value *h, ir_value *cell) {
  ir_value w[2], r[2], b[2], out[3];
  if (l->packed || l->is_projected) return run_stepped(c, l, layer, x, h, cell);
  for (uint32_t d = 0; d < l->directions; d++) {
    const ir_value *at = l->weights + (layer * l->directions + d) * l->per;
    w[d] = aten_unsqueeze(c->a, reorder(c, l->kind, at[0]), 0);
    r[d] = aten_unsqueeze(c->a, reorder(c, l->kind, at[1]), 0);
    if (!l->has_biases) continue;
    ir_value both[] = {reorder(c, l->kind, at[2]), reorder(c, l->kind, at[3])};
    b[d] = aten_unsqueeze(c->a, aten_cat(c->a, both, 2, 0), 0);
  }
  ir_value in[] = {x,
                   aten_cat(c->a, w, l->directions, 0),
                   aten_cat(c->a, r, l->directions, 0),
                   l->has_biases ? aten_cat(c->a, b, l->directions, 0) : IR_NO_VALUE,
                   l->lengths,
                   states(c, l, l->h0, layer),
                   states(c, l, l->c0, layer)};
  base_arg args[3];
  uint32_t n = 0;
  bool lstm = l->kind == &kinds[0], gru = l->kind == &kinds[1];
  args[n++] = ARG_STR("direction", l->directions == 2 ? "bidirectional" : "forward");
  if (gru) args[n++] = ARG_BOOL("linear_before_reset", true);
  if (l->kind->activations)
    args[n++] = ARG_STR("activations",
                        l->directions == 2 ? (l->kind == &kinds[2] ? "Tanh,Tanh" : "Relu,Relu") : l->kind->activations);
  ir_emit_many(c->b, l->kind->op, in, lstm ? 7 : 6, args, n, out, lstm ? 3 : 2);
  *h = out[1];
  *cell = lstm ? out[2] : IR_NO_VALUE;
  if (l->directions == 1) return aten_squeeze(c->a, out[0], 1);
  ir_value y = aten_permute(c->a, out[0], (int64_t[]){0, 2, 1, 3}, 4), shape = aten_shape(c->a, y);
  ir_value parts[] = {aten_slice(c->a, shape, 0, 0, 2, 1), ir_build_ints(c->b, (int64_t[]){-1}, 1)};
  return IR_EMIT(c->b, "aten::view", y, aten_cat(c->a, parts, 2, 0));
}

enum { MAX_LAYERS = 256 };

/* Cells of packed weights: (of the input, of the state, whether they take 7 bits). */
static const aten_value *packed_cells(aten_args *c, uint32_t i, uint32_t *count) {
  const aten_value *items = aten_items(c, i);
  *count = aten_list_count(c, i);
  for (uint32_t k = 0; k < *count; k++)
    if (items[k].kind != ATEN_TUPLE || items[k].u.list->items.count != 3) aten_refuse(c, "cells of an unknown form");
  return items;
}

/* What the calls say of layers whose weights and states stand at `hx`, `hx` + 1 and so on. */
static layers read_layers(aten_args *c, uint32_t hx, uint32_t *n) {
  layers l = {.kind = &kinds[c->row->data[0] - '0']};
  uint32_t count, hidden;
  const int64_t wanted = aten_get_int(c, hx + 3);
  const bool packed = c->row->data[1] == 'q';
  if (packed) l.packed = packed_cells(c, hx + 1, &count);
  else l.weights = aten_get_tensors(c, hx + 1, &count);
  l.has_biases = aten_get_bool(c, hx + 2);
  l.directions = aten_get_bool(c, hx + 6) ? 2 : 1;
  l.per = packed ? 1 : l.has_biases ? 4 : 2;
  l.is_projected = wanted >= 1 && wanted <= MAX_LAYERS && l.kind == &kinds[0] && !packed &&
                   count == (uint64_t)wanted * l.directions * (l.per + 1u);
  if (l.is_projected) l.per++;
  if (l.kind == &kinds[0]) {
    ir_value *both = aten_get_tensors(c, hx, &hidden);
    if (hidden != 2) aten_refuse(c, "%u states", hidden);
    else l.h0 = both[0], l.c0 = both[1];
  } else l.h0 = aten_in(c, hx);
  if (aten_get_bool(c, hx + 5) && aten_get_float(c, hx + 4) != 0) aten_refuse(c, "training drops elements at random");
  if (wanted < 1 || wanted > MAX_LAYERS || count != (uint64_t)wanted * l.directions * l.per)
    aten_refuse(c, "%u weights for %lld layers", count, (long long)wanted);
  *n = (uint32_t)wanted;
  return l;
}

/* All layers over x [time, batch, input]: out[0], and the last states in out[1], out[2]. */
static void run_layers(aten_args *c, const layers *l, uint32_t n, ir_value x, ir_value out[3]) {
  ir_value h[MAX_LAYERS], cells[MAX_LAYERS];
  for (uint32_t i = 0; i < n; i++) x = run_layer(c, l, i, x, &h[i], &cells[i]);
  out[0] = x;
  out[1] = aten_cat(c->a, h, n, 0);
  if (l->kind == &kinds[0]) out[2] = aten_cat(c->a, cells, n, 0);
}

/* lstm.input(input, hx[], params[], has_biases, num_layers, dropout, train, bidirectional, batch_first), gru.input,
 * rnn_tanh.input, rnn_relu.input (hx a tensor); data: position in `kinds` */
aten_value aten_lower_rnn(aten_args *c) {
  uint32_t n;
  layers l = read_layers(c, 1, &n);
  bool lstm = l.kind == &kinds[0], batch_first = aten_get_bool(c, 8);
  ir_value x = aten_in(c, 0), out[3];
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  bool single = aten_rank(c->a, x) == 2;
  if (single) {
    x = aten_unsqueeze(c->a, x, 1);
    l.h0 = aten_unsqueeze(c->a, l.h0, 1);
    if (lstm) l.c0 = aten_unsqueeze(c->a, l.c0, 1);
  } else if (batch_first) x = aten_swap(c->a, x, 0, 1);
  run_layers(c, &l, n, x, out);
  if (single) out[0] = aten_squeeze(c->a, out[0], 1);
  else if (batch_first) out[0] = aten_swap(c->a, out[0], 0, 1);
  for (uint32_t i = 1; single && i < (lstm ? 3u : 2u); i++) out[i] = aten_squeeze(c->a, out[i], 1);
  aten_value result = aten_ret_many(c, out, lstm ? 3 : 2);
  if (result.kind == ATEN_TUPLE && result.u.list->items.count && result.u.list->items.at[0].kind == ATEN_TENSOR)
    result.u.list->items.at[0].u.tensor->dense = ATEN_UNSURE;
  return result;
}

/* ---- packed sequences ---- */

static ir_value count_up(aten_args *c, ir_value to) {
  return IR_EMIT(c->b, "aten::arange", ir_build_int(c->b, 0), to, ir_build_int(c->b, 1));
}

static ir_value size_of(aten_args *c, ir_value v, int64_t dim) {
  aten_value size = aten_size(c->a, v, dim);
  return aten_number_value(c->a, &size, TD_I64);
}

/* [time, batch]: is step t there of sequence b? */
static ir_value steps_of(aten_args *c, ir_value time, ir_value lengths) {
  return aten_binary(c->a, "aten::lt", aten_unsqueeze(c->a, count_up(c, time), 1), aten_unsqueeze(c->a, lengths, 0));
}

/* The rows of x [time, batch, ...] that are there, step after step; what they were made of is remembered. */
static ir_value pack(aten_args *c, ir_value x, ir_value lengths, ir_value there) {
  ir_value rest = aten_slice(c->a, aten_shape(c->a, x), 0, 2, INT64_MAX, 1);
  ir_value shape[] = {ir_build_ints(c->b, (int64_t[]){-1}, 1), rest};
  ir_value rows = IR_EMIT(c->b, "aten::view", x, aten_cat(c->a, shape, 2, 0));
  ir_value in[] = {rows, aten_reshape(c->a, there, (int64_t[]){-1}, 1)};
  ir_value data = IR_EMIT_ARGS(c->b, "td::compress", in, 2, ARG_INT("dim", 0));
  aten_packed *kept = ir_build_failed(c->b) ? NULL : base_vec_push(c->a->arena, &c->a->packed);
  if (kept) *kept = (aten_packed){data, x, lengths, c->a->rollbacks};
  return data;
}

/* [time, batch, ...], and the lengths, of packed rows: those they were made of, or else put back by the numbers of rows
 * of each step. */
static aten_packed unpack(aten_args *c, ir_value data, ir_value batch_sizes) {
  for (uint32_t i = c->a->packed.count; i > 0; i--) {
    const aten_packed *p = &c->a->packed.at[i - 1];
    if (p->data.id == data.id && p->rollbacks == c->a->rollbacks) return *p;
  }
  const int64_t first = 0;
  ir_value batch = aten_select(c->a, batch_sizes, 0, 0), time = size_of(c, batch_sizes, 0);
  ir_value there =
      aten_binary(c->a, "aten::lt", aten_unsqueeze(c->a, count_up(c, batch), 0), aten_unsqueeze(c->a, batch_sizes, 1));
  ir_value ones = ir_build_cast(c->b, there, TD_I64), flat = aten_reshape(c->a, ones, (int64_t[]){-1}, 1);
  ir_value at = aten_with_scalar(c->a, "aten::sub", IR_EMIT(c->b, "aten::cumsum", flat, ir_build_int(c->b, 0)), 1);
  at = aten_binary(c->a, "aten::maximum", at, ir_build_int(c->b, 0));
  ir_value rows = IR_EMIT_ARGS(c->b, "aten::index_select", ((ir_value[]){data, at}), 2, ARG_INT("dim", 0));
  ir_value shape[] = {aten_unsqueeze(c->a, time, 0), aten_unsqueeze(c->a, batch, 0),
                      aten_slice(c->a, aten_shape(c->a, data), 0, 1, INT64_MAX, 1)};
  aten_packed made = {.data = data, .rollbacks = c->a->rollbacks};
  made.padded = IR_EMIT(c->b, "aten::view", rows, aten_cat(c->a, shape, 3, 0));
  made.lengths = IR_EMIT_ARGS(c->b, "aten::sum", &ones, 1, ARG_INTS("dim", &first, 1), ARG_BOOL("keepdim", false));
  return made;
}

static void refuse_where(aten_args *c, ir_value any, const char *message) {
  ir_value all = aten_reshape(c->a, any, (int64_t[]){-1}, 1);
  all = IR_EMIT_ARGS(c->b, "aten::any", &all, 1, ARG_INTS("dim", (int64_t[]){0}, 1), ARG_BOOL("keepdim", false));
  IR_EMIT_ARGS(c->b, "td::refuse", &all, 1, ARG_STR("message", message));
}

/* _pack_padded_sequence(input, lengths, batch_first) -> data, batch_sizes */
aten_value aten_lower_pack_padded(aten_args *c) {
  ir_value x = aten_in(c, 0), lengths = ir_build_cast(c->b, aten_in(c, 1), TD_I64);
  if (aten_get_bool(c, 2)) x = aten_swap(c->a, x, 0, 1);
  const int64_t batch = 1;
  ir_value time = size_of(c, x, 0), there = steps_of(c, time, lengths);
  refuse_where(c, aten_with_scalar(c->a, "aten::lt", lengths, 1), "Length of all samples has to be greater than 0");
  refuse_where(c, aten_binary(c->a, "aten::gt", lengths, time), "a length is greater than there are steps");
  refuse_where(c,
               aten_binary(c->a, "aten::gt", aten_slice(c->a, lengths, 0, 1, INT64_MAX, 1),
                           aten_slice(c->a, lengths, 0, 0, -1, 1)),
               "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True");
  ir_value ones = ir_build_cast(c->b, there, TD_I64);
  ir_value sizes = IR_EMIT_ARGS(c->b, "aten::sum", &ones, 1, ARG_INTS("dim", &batch, 1), ARG_BOOL("keepdim", false));
  ir_value in[] = {sizes, aten_with_scalar(c->a, "aten::gt", sizes, 0)};
  ir_value out[] = {pack(c, x, lengths, there), IR_EMIT_ARGS(c->b, "td::compress", in, 2, ARG_INT("dim", 0))};
  return aten_ret_many(c, out, 2);
}

/* _pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length) -> padded, lengths */
aten_value aten_lower_pad_packed(aten_args *c) {
  ir_value sizes = aten_in(c, 1);
  const aten_packed p = unpack(c, aten_in(c, 0), sizes);
  const bool whole = c->args[4].kind == ATEN_INT && aten_is_known(&c->args[4]) && c->args[4].u.i <= 0;
  ir_value total = whole ? size_of(c, sizes, 0) : aten_int_value(c, 4), steps = count_up(c, total);
  ir_value last = aten_with_scalar(c->a, "aten::sub", size_of(c, p.padded, 0), 1);
  ir_value in[] = {p.padded, aten_binary(c->a, "aten::minimum", steps, last)};
  ir_value rows = IR_EMIT_ARGS(c->b, "aten::index_select", in, 2, ARG_INT("dim", 0));
  ir_value there = steps_of(c, total, p.lengths);
  refuse_where(c, aten_binary(c->a, "aten::gt", p.lengths, total),
               "Expected total_length to be at least the length of the longest sequence in input");
  for (int32_t i = aten_rank(c->a, p.padded); i > 2 && !ir_build_failed(c->b); i--)
    there = aten_unsqueeze(c->a, there, -1);
  ir_value number = aten_get_number(c, 3, aten_value_dtype(c->a, rows));
  ir_value y = IR_EMIT(c->b, "aten::where", there, rows, number);
  return aten_ret_many(c, (ir_value[]){aten_get_bool(c, 2) ? aten_swap(c->a, y, 0, 1) : y, p.lengths}, 2);
}

/* [layers * directions, batch, hidden], of the batch of x */
static ir_value of_batch(aten_args *c, ir_value state, ir_value x) {
  ir_value shape = aten_shape(c->a, state);
  ir_value sizes[] = {aten_slice(c->a, shape, 0, 0, 1, 1), aten_slice(c->a, aten_shape(c->a, x), 0, 1, 2, 1),
                      aten_slice(c->a, shape, 0, 2, 3, 1)};
  return IR_EMIT(c->b, "aten::view", state, aten_cat(c->a, sizes, 3, 0));
}

/* lstm.data(data, batch_sizes, hx[], params[], has_biases, num_layers, dropout, train, bidirectional), gru.data,
 * rnn_tanh.data, rnn_relu.data */
aten_value aten_lower_rnn_packed(aten_args *c) {
  uint32_t n;
  layers l = read_layers(c, 2, &n);
  const bool lstm = l.kind == &kinds[0];
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  const aten_packed p = unpack(c, aten_in(c, 0), aten_in(c, 1));
  l.lengths = p.lengths;
  l.h0 = of_batch(c, l.h0, p.padded);
  if (lstm) l.c0 = of_batch(c, l.c0, p.padded);
  ir_value out[3];
  run_layers(c, &l, n, p.padded, out);
  out[0] = pack(c, out[0], p.lengths, steps_of(c, size_of(c, p.padded, 0), p.lengths));
  return aten_ret_many(c, out, lstm ? 3 : 2);
}

/* ---- cells ---- */

/* lstm_cell(input, hx[], w_ih, w_hh, b_ih?, b_hh?) */
aten_value aten_lower_lstm_cell(aten_args *c) {
  uint32_t count;
  ir_value x = aten_in(c, 0), *hx = aten_get_tensors(c, 1, &count);
  if (count != 2) {
    aten_refuse(c, "%u states", count);
    return ATEN_NOTHING;
  }
  ir_value all = aten_binary(c->a, "aten::add", aten_linear(c->a, x, aten_in(c, 2), optional(c, 4)),
                             aten_linear(c->a, hx[0], aten_in(c, 3), optional(c, 5)));
  ir_value memory = hx[1], h = aten_lstm_step(c, all, &memory);
  return aten_ret_many(c, (ir_value[]){h, memory}, 2);
}
/* gru_cell(input, hx, w_ih, w_hh, b_ih?, b_hh?) */
aten_value aten_lower_gru_cell(aten_args *c) {
  ir_value h = aten_in(c, 1), xs = aten_linear(c->a, aten_in(c, 0), aten_in(c, 2), optional(c, 4)),
           hs = aten_linear(c->a, h, aten_in(c, 3), optional(c, 5));
  return aten_ret(c, aten_gru_step(c, xs, hs, h));
}
/* rnn_tanh_cell, rnn_relu_cell; data: the activation */
aten_value aten_lower_rnn_cell(aten_args *c) {
  ir_value xs = aten_linear(c->a, aten_in(c, 0), aten_in(c, 2), optional(c, 4)),
           hs = aten_linear(c->a, aten_in(c, 1), aten_in(c, 3), optional(c, 5));
  return aten_ret(c, IR_EMIT(c->b, c->row->data, aten_binary(c->a, "aten::add", xs, hs)));
}
