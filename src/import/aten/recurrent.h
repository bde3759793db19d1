/* recurrent.h -- recurrent layers: what lower_recurrent.c and stepped.c share. */
#ifndef IMPORT_ATEN_RECURRENT_H
#define IMPORT_ATEN_RECURRENT_H
#include "import/aten/aten_priv.h"

/* Part `i` of gates along the last axis. */
ir_value aten_gate(aten_args *c, ir_value all, int64_t parts, int64_t i);
/* A step of an LSTM: `all` is what its four gates get, *memory its cell state, which becomes the next one. */
ir_value aten_lstm_step(aten_args *c, ir_value all, ir_value *memory);
/* A step of a GRU: `xs` and `hs` are what its three gates get of the input and of the state `h`. */
ir_value aten_gru_step(aten_args *c, ir_value xs, ir_value hs, ir_value h);

/* One direction of a layer that is written out step by step. */
typedef struct aten_steps {
  aten_args *c;
  bool is_lstm, reverse;
  ir_value xs;              /* [time, batch, gates]: what the gates get of the input */
  ir_value weight, bias;    /* of the state; bias: none where there is none */
  const aten_value *packed; /* or packed ones of it, NULL: none */
  bool reduce_range;
  ir_value projection; /* [projected, hidden] of the new state; none: there is none */
  ir_value lengths;    /* [batch]; none: all are whole */
  ir_value h, memory;  /* first [batch, ...], then last states; no memory in a GRU */
} aten_steps;
/* Runs them; gives [time, batch, ...]. */
ir_value aten_run_steps(aten_steps *s);
#endif
