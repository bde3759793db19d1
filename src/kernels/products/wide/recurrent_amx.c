/* recurrent_amx.c -- KERN_LSTM and KERN_GRU on 16 bits: the states' part of the gates by tiles of AMX, the inputs' part
 * is made.
 *
 * The rows of a tile are the states of a block's sequences as two numbers of bf16 each, whose products are added: of
 * the sums, r alone is rounded. A tile of B is a gate of 32 rows of r, and is read once for all of them. */
#include "kernels/products/recurrent_priv.h"
#include "kernels/simd/amx_priv.h"

enum { MOST_GATES = 4, TILE_BYTES = AMX_ROWS * AMX_BYTES };

/* sums[row] += second[row] + inputs[row] */
static void add_rows(float *sums, const float *second, const float *inputs, int64_t pitch, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; row++, sums += n, second += n, inputs += pitch)
    for (int64_t i = 0; i < n; i += V_LANES)
      v_store(sums + i, v_add(v_load(inputs + i), v_add(v_load(sums + i), v_load(second + i))));
}

/* The candidate's inputs are added behind the reset gate; its bias is here. */
static void add_rows_of_gru(float *sums, const float *second, const float *inputs, int64_t pitch, int64_t rows,
                            const float *bias) {
  const vf candidate = bias ? v_load(bias + 3 * V_LANES) : v_zero();
  for (int64_t row = 0; row < rows; row++, sums += 3 * V_LANES, second += 3 * V_LANES, inputs += pitch) {
    add_rows(sums, second, inputs, 0, 1, 2 * V_LANES);
    v_store(sums + 2 * V_LANES, v_add(candidate, v_add(v_load(sums + 2 * V_LANES), v_load(second + 2 * V_LANES))));
  }
}

V_TEMPLATE void multiply(const int gates, const uint16_t *halves, int64_t pitch, const char *r, float *sums) {
  const char *a = (const char *)halves;
  const int64_t row = pitch * (int64_t)sizeof *halves, to_row = gates * AMX_COLUMNS * (int64_t)sizeof *sums;
  AMX_ZERO(0);
  AMX_ZERO(1);
  AMX_ZERO(2);
  if (gates > 3) AMX_ZERO(3);
  for (const char *end = a + row; a < end; a += AMX_BYTES, r += gates * TILE_BYTES) {
    AMX_LOAD(4, a, row);
    AMX_LOAD(6, r, AMX_BYTES);
    AMX_DOT_BF16(0, 4, 6);
    AMX_LOAD(7, r + TILE_BYTES, AMX_BYTES);
    AMX_DOT_BF16(1, 4, 7);
    AMX_LOAD(6, r + 2 * TILE_BYTES, AMX_BYTES);
    AMX_DOT_BF16(2, 4, 6);
    if (gates > 3) AMX_LOAD(7, r + 3 * TILE_BYTES, AMX_BYTES);
    if (gates > 3) AMX_DOT_BF16(3, 4, 7);
  }
  AMX_STORE(0, sums, to_row);
  AMX_STORE(1, sums + AMX_COLUMNS, to_row);
  AMX_STORE(2, sums + 2 * AMX_COLUMNS, to_row);
  if (gates > 3) AMX_STORE(3, sums + 3 * AMX_COLUMNS, to_row);
}

/* Panels are walked to and fro: what was read last is still near. */
static void run_step(const recurrent_block *k, int64_t step, int64_t slot) {
  _Alignas(64) float sums[AMX_ROWS * MOST_GATES * AMX_COLUMNS];
  const recurrent_layer *l = k->l;
  const bool gru = l->gates == 3;
  const int64_t pitch = kern_recurrent_tiled(l->hidden), wide = l->gates * V_LANES,
                panel = pitch * wide * (int64_t)sizeof *k->halves;
  const float *second = sums + k->count * wide;
  amx_begin(2 * k->count, AMX_BYTES / 4);
  for (int64_t i = k->panel; i < k->panel_end; i++) {
    const int64_t at = slot % 2 ? k->panel + k->panel_end - 1 - i : i;
    const char *r = (const char *)k->r + at * panel;
    const float *inputs = k->sums + slot * k->count * l->width + at * wide;
    const float *bias = k->bias ? k->bias + at * KERN_RECURRENT_BIASES * V_LANES : NULL;
    if (gru) multiply(3, k->halves, pitch, r, sums);
    else multiply(4, k->halves, pitch, r, sums);
    if (gru) add_rows_of_gru(sums, second, inputs, l->width, k->count, bias);
    else add_rows(sums, second, inputs, l->width, k->count, wide);
    if (gru) KERN_NAME(gru_states)(k, step, slot, at, sums);
    else KERN_NAME(lstm_states)(k, step, slot, at, sums);
  }
  amx_end();
}

enum { SEQUENCES = AMX_ROWS / 2 };
#define CELL(count)                                                                                       \
  {                                                                                                       \
    .gates = (count), .rows = SEQUENCES, .rests = true, .prepare = KERN_NAME(recurrent_halves), .step = { \
      {run_step},                                                                                         \
      {run_step},                                                                                         \
      {run_step},                                                                                         \
      {run_step}                                                                                          \
    }                                                                                                     \
  }
static const recurrent_cell lstm = CELL(4), gru = CELL(3);

td_status KERN_PART_NAME(lstm_bf16_amx)(const base_call *call) { return KERN_NAME(recurrent_by)(call, &lstm); }
td_status KERN_PART_NAME(gru_bf16_amx)(const base_call *call) { return KERN_NAME(recurrent_by)(call, &gru); }
