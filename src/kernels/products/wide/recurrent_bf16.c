/* recurrent_bf16.c -- KERN_LSTM and KERN_GRU on 16 bits: the states' part of the gates by pairs of bf16, to which
 * states are rounded for it alone; the inputs' part is made. Sums of one panel's gates stay in registers, for all
 * sequences of a block; of one sequence alone those of two panels, since a product waits for the one before. */
#include "kernels/products/recurrent_priv.h"
#include "kernels/simd/pairs_priv.h"

enum { ROWS = RECURRENT_ROWS, PANELS = 2, MOST_GATES = 4, TILE_PAIRS = KERN_RECURRENT_TILE_ROWS / 2 };
enum { SUMS = (ROWS > PANELS ? ROWS : PANELS) * MOST_GATES };

/* Sums begin with those of the inputs; a GRU's candidate, whose inputs are added behind the reset gate, with its bias.
 */
V_TEMPLATE vf first_sum(const recurrent_block *k, int64_t slot, int row, int64_t panel, int gates, int gate) {
  const recurrent_layer *l = k->l;
  const int64_t sequence = slot * k->count + base_min_i64(row, k->count - 1);
  if (gates == 3 && gate == 2)
    return k->bias ? v_load(k->bias + (panel * KERN_RECURRENT_BIASES + 3) * V_LANES) : v_zero();
  return v_load(k->sums + sequence * l->width + (panel * gates + gate) * V_LANES);
}

/* The sums of `rows` sequences and `panels` panels from `panel` on: to[row][panel][gate]. */
V_TEMPLATE void multiply(const recurrent_block *k, int64_t slot, int64_t panel, int rows, int panels, int gates,
                         vf *to) {
  const int64_t pitch = kern_recurrent_tiled(k->l->hidden), whole = pitch * gates * V_LANES;
  const int each = panels * gates;
  const uint16_t *r = (const uint16_t *)k->r + panel * whole;
  const float *a = (const float *)(const void *)k->halves; /* a pair is as wide as one */
  vf sum[SUMS];
  V_FOR(row, rows) V_FOR(j, each) sum[row * each + j] = first_sum(k, slot, row, panel + j / gates, gates, j % gates);
  for (int64_t tile = 0; tile < pitch / KERN_RECURRENT_TILE_ROWS; tile++, r += gates * TILE_PAIRS * 2 * V_LANES)
    for (int64_t pair = 0; pair < TILE_PAIRS; pair++, a++) {
      vf column[PANELS * MOST_GATES];
      V_FOR(j, each) {
        const int64_t at = j / gates * whole + (j % gates * TILE_PAIRS + pair) * 2 * V_LANES;
        column[j] = v_load((const float *)(const void *)(r + at));
      }
      V_FOR(row, rows) {
        const vf value = v_set(a[row * (pitch / 2)]);
        V_FOR(j, each) sum[row * each + j] = p_dot(sum[row * each + j], value, column[j]);
      }
    }
  V_FOR(i, rows * each) to[i] = sum[i];
}

/* Panels are walked to and fro: what was read last is still near. */
V_TEMPLATE void run_step(const recurrent_block *k, int64_t step, int64_t slot, int rows, int gates) {
  const int each = rows == 1 ? PANELS : 1;
  const int64_t count = k->panel_end - k->panel;
  vf sums[SUMS];
  for (int64_t i = 0; i < count; i += each) {
    const int64_t panels = base_min_i64(each, count - i), at = slot % 2 ? k->panel_end - i - panels : k->panel + i;
    if (each == 1 || panels == each) multiply(k, slot, at, rows, each, gates, sums);
    else multiply(k, slot, at, rows, 1, gates, sums);
    for (int64_t p = 0; p < panels; p++) {
      const float *of = (const float *)(const void *)(sums + p * gates);
      if (gates == 3) KERN_NAME(gru_states)(k, step, slot, at + p, of);
      else KERN_NAME(lstm_states)(k, step, slot, at + p, of);
    }
  }
}

#define STEPS(cell, count)                                                                                            \
  static void cell##_one(const recurrent_block *k, int64_t step, int64_t slot) { run_step(k, step, slot, 1, count); } \
  static void cell##_two(const recurrent_block *k, int64_t step, int64_t slot) { run_step(k, step, slot, 2, count); } \
  static void cell##_some(const recurrent_block *k, int64_t step, int64_t slot) {                                     \
    run_step(k, step, slot, RECURRENT_SOME, count);                                                                   \
  }                                                                                                                   \
  static void cell##_rows(const recurrent_block *k, int64_t step, int64_t slot) {                                     \
    run_step(k, step, slot, ROWS, count);                                                                             \
  }                                                                                                                   \
  static const recurrent_cell cell = {.gates = (count),                                                               \
                                      .rows = ROWS,                                                                   \
                                      .prepare = KERN_NAME(recurrent_halves),                                         \
                                      .step = {{cell##_one}, {cell##_two}, {cell##_some}, {cell##_rows}}};
STEPS(lstm, 4)
STEPS(gru, 3)

td_status KERN_PART_NAME(lstm_bf16)(const base_call *call) { return KERN_NAME(recurrent_by)(call, &lstm); }
td_status KERN_PART_NAME(gru_bf16)(const base_call *call) { return KERN_NAME(recurrent_by)(call, &gru); }
