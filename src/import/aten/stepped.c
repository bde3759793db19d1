/* stepped.c -- recurrent layers that no operator computes (LSTMs with projections, weights packed for products of 8-bit
 * integers), written out as a loop over their steps. */
#include "import/aten/recurrent.h"

ir_value aten_gate(aten_args *c, ir_value all, int64_t parts, int64_t i) {
  return IR_EMIT_ARGS(c->b, "td::chunk", &all, 1, ARG_INT("dim", -1), ARG_INT("parts", parts), ARG_INT("index", i),
                      ARG_BOOL("even", true));
}

ir_value aten_lstm_step(aten_args *c, ir_value all, ir_value *memory) {
  ir_value in = IR_EMIT(c->b, "aten::sigmoid", aten_gate(c, all, 4, 0)),
           forget = IR_EMIT(c->b, "aten::sigmoid", aten_gate(c, all, 4, 1));
  ir_value next = IR_EMIT(c->b, "aten::tanh", aten_gate(c, all, 4, 2)),
           show = IR_EMIT(c->b, "aten::sigmoid", aten_gate(c, all, 4, 3));
  *memory = aten_binary(c->a, "aten::add", aten_binary(c->a, "aten::mul", forget, *memory),
                        aten_binary(c->a, "aten::mul", in, next));
  return aten_binary(c->a, "aten::mul", show, IR_EMIT(c->b, "aten::tanh", *memory));
}

ir_value aten_gru_step(aten_args *c, ir_value xs, ir_value hs, ir_value h) {
  ir_value reset =
      IR_EMIT(c->b, "aten::sigmoid", aten_binary(c->a, "aten::add", aten_gate(c, xs, 3, 0), aten_gate(c, hs, 3, 0)));
  ir_value keep =
      IR_EMIT(c->b, "aten::sigmoid", aten_binary(c->a, "aten::add", aten_gate(c, xs, 3, 1), aten_gate(c, hs, 3, 1)));
  ir_value next = aten_binary(c->a, "aten::add", aten_gate(c, xs, 3, 2),
                              aten_binary(c->a, "aten::mul", reset, aten_gate(c, hs, 3, 2)));
  next = IR_EMIT(c->b, "aten::tanh", next);
  ir_value away = aten_binary(c->a, "aten::sub", h, next);
  return aten_binary(c->a, "aten::add", next, aten_binary(c->a, "aten::mul", keep, away));
}

static ir_value number_of(aten_args *c, ir_value v, int64_t dim) {
  aten_value size = aten_size(c->a, v, dim);
  return aten_number_value(c->a, &size, TD_I64);
}

/* The number of the step that iteration `i` takes. */
static ir_value step_number(const aten_steps *s, ir_value i) {
  aten_args *c = s->c;
  if (!s->reverse) return i;
  return aten_binary(c->a, "aten::sub", aten_with_scalar(c->a, "aten::sub", number_of(c, s->xs, 0), 1), i);
}

/* carried: the state, and the memory of an LSTM; collected: the state. Sequences that are over keep theirs. */
static void step(ir_build *b, ir_build_loop *l, ir_value i, const ir_value *carried, ir_value *results) {
  const aten_steps *s = l->user;
  aten_args *c = s->c;
  ir_value t = step_number(s, i), memory = s->is_lstm ? carried[1] : IR_NO_VALUE;
  ir_value in[] = {s->xs, aten_reshape(c->a, t, (int64_t[]){1}, 1)};
  ir_value xs = aten_squeeze(c->a, IR_EMIT_ARGS(b, "aten::index_select", in, 2, ARG_INT("dim", 0)), 0);
  ir_value hs = s->packed ? aten_linear_dynamic(c, carried[0], s->packed, s->reduce_range)
                          : aten_linear(c->a, carried[0], s->weight, s->bias);
  ir_value h = s->is_lstm ? aten_lstm_step(c, aten_binary(c->a, "aten::add", xs, hs), &memory)
                          : aten_gru_step(c, xs, hs, carried[0]);
  if (s->projection.id) h = aten_linear(c->a, h, s->projection, IR_NO_VALUE);
  if (s->lengths.id) {
    ir_value there = aten_unsqueeze(c->a, aten_binary(c->a, "aten::lt", t, s->lengths), 1);
    h = IR_EMIT(b, "aten::where", there, h, carried[0]);
    if (s->is_lstm) memory = IR_EMIT(b, "aten::where", there, memory, carried[1]);
  }
  uint32_t n = 0;
  results[n++] = IR_NO_VALUE;
  results[n++] = h;
  if (s->is_lstm) results[n++] = memory;
  results[n] = h;
}

ir_value aten_run_steps(aten_steps *s) {
  aten_args *c = s->c;
  const ir_value initial[] = {s->h, s->memory};
  ir_build_loop l = {.body = step,
                     .user = s,
                     .trips = number_of(c, s->xs, 0),
                     .initial = initial,
                     .carried = s->is_lstm ? 2 : 1,
                     .collected = 1};
  if (ir_build_failed(c->b)) return IR_NO_VALUE;
  ir_build_run_loop(c->b, &l);
  if (ir_build_failed(c->b)) return IR_NO_VALUE;
  ir_value all = ir_build_stacked(c->b, &l, 0, 0);
  s->h = l.outs[0];
  if (s->is_lstm) s->memory = l.outs[1];
  const int64_t axis = 0;
  return s->reverse ? IR_EMIT_ARGS(c->b, "aten::flip", &all, 1, ARG_INTS("dims", &axis, 1)) : all;
}
