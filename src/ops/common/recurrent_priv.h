/* recurrent_priv.h -- what the recurrent cells and the loop over time share. */
#ifndef OPS_RECURRENT_PRIV_H
#define OPS_RECURRENT_PRIV_H
#include "ops/common/gemm_priv.h"

/* A gate's function with its parameters. */
typedef struct activation {
  double (*f)(double x, double alpha, double beta);
  double alpha, beta;
} activation;

/* Finds an activation by its ONNX name (any case); false when there is none. `alpha` and `beta` get the defaults. */
bool ops_activation_find(const char *name, size_t length, activation *a);

typedef struct recurrence recurrence;

/* One cell: how many gates its weights hold, and one step of one sequence. `x` and `h` hold the gates' sums of input
 * and state; `state` and `memory` (LSTM) are updated in place. */
typedef struct cell {
  int32_t gates, activations;
  void (*step)(const recurrence *r, float *x, float *h, float *state, float *memory);
} cell;

/* One direction of one layer. */
struct recurrence {
  const cell *cell;
  activation act[3];
  double clip; /* of the activations' inputs; infinite: none */
  int64_t input, hidden;
  bool linear_before_reset, input_forget, quantise;
  const float *state_weights; /* [hidden, gates * hidden] */
  const base_f32 *peepholes;  /* [3 * hidden] or NULL */
  const base_f32 *state_bias; /* of the last gate, where linear_before_reset keeps it separate; [hidden] or NULL */
  float *reset;               /* scratch of a GRU: [2 * hidden] */
};

extern const cell ops_cell_rnn, ops_cell_lstm, ops_cell_gru;
#endif
