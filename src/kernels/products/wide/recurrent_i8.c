/* recurrent_i8.c -- KERN_LSTM on 8 bits: the states' part of the gates in integers, which are exact. The state of each
 * sequence is rounded to 8 bits of its range for it, as ONNX's DynamicQuantizeLinear does; the inputs' part is made.
 * With q - zero a state and w - shift a weight, without their scales,
 *
 *     sum over k of (q - zero) (w - shift) = sum of q w - zero * sum of w - shift * sum of (q - zero)
 *
 * Sums of one panel's gates stay in registers, for all sequences of a block; of one sequence alone those of two panels,
 * since a product waits for the one before. */
#include "kernels/products/recurrent_priv.h"
#include "kernels/simd/bytes_priv.h"

#include <math.h>

enum { ROWS = RECURRENT_ROWS, PANELS = 2, GATES = 4, SUMS = (ROWS > PANELS ? ROWS : PANELS) * GATES };

/* Elements of x from one sequence to the next. */
static int64_t pitch_of(const recurrent_layer *l) { return kern_recurrent_tiled(l->hidden); }

/* Units from `i` on, zeros behind the last, which are in every range. */
static vf units(const recurrent_layer *l, const float *state, int64_t i) {
  return i + V_LANES <= l->hidden ? v_load(state + i) : v_load_n(state + i, l->hidden - i);
}

/* The state of a sequence as bytes. */
static void quantise_state(const recurrent_layer *l, const float *state, byte_x *to, recurrent_range *range) {
  vf low = v_zero(), high = v_zero();
  vi total = vi_set(0);
  int32_t lanes[V_LANES];
  for (int64_t i = 0; i < l->hidden; i += V_LANES) {
    low = v_min(units(l, state, i), low); /* of what is no number the other one */
    high = v_max(units(l, state, i), high);
  }
  kern_i8_scales s = {0};
  kern_i8_range(v_lowest(low), v_highest(high), &s);
  *range = (recurrent_range){.scale = isfinite(s.x_scale) ? s.x_scale : NAN, .zero = (int32_t)s.x_zero};
  const vf by = v_set(s.x_scale > 0 ? s.x_scale : 1), at = v_set(s.x_zero);
  for (int64_t i = 0; i < l->hidden; i += V_LANES) {
    const int64_t n = base_min_i64(V_LANES, l->hidden - i);
    const vf q = v_min(v_set(UINT8_MAX), v_max(v_add(v_round(v_div(units(l, state, i), by)), at), v_zero()));
    const vi bytes = v_to_int(q);
    b_store_x(to + i, bytes, n);
    total = vi_add(total, bytes);
  }
  b_store_i32(lanes, total);
  for (int64_t i = 0; i < V_LANES; i++) range->sum += lanes[i];
  range->sum -= (int32_t)(base_ceil_div(l->hidden, V_LANES) * V_LANES) * range->zero;
}

static void quantise_states(recurrent_block *k) {
  const recurrent_layer *l = k->l;
  for (int64_t row = 0; row < k->count; row++)
    quantise_state(l, k->state + row * l->padded, (byte_x *)(void *)k->halves + row * pitch_of(l), &k->ranges[row]);
}

/* The sums of `rows` sequences and `panels` panels from `panel` on: to[row][panel][gate]. */
V_TEMPLATE void multiply(const recurrent_block *k, int64_t panel, int rows, int panels, vi *to) {
  const recurrent_layer *l = k->l;
  const kern_i8_layout *of = &l->bytes;
  const int each = panels * GATES;
  const int64_t pitch = pitch_of(l) / BYTES_DEPTH;
  const int8_t *w = (const int8_t *)k->r + of->data + (k->direction * l->panels + panel) * GATES * of->panel_bytes;
  const int32_t *x = (const int32_t *)(const void *)k->halves; /* BYTES_DEPTH of them each */
  vi sum[SUMS];
  V_FOR(i, rows * each) sum[i] = vi_set(0);
  for (int64_t step = 0; step < of->steps; step++, w += V_LANES * BYTES_DEPTH) {
    vi columns[PANELS * GATES];
    V_FOR(j, each) columns[j] = b_load(w + j * of->panel_bytes);
    V_FOR(row, rows) {
      const vi value = vi_set(x[row * pitch + step]);
      V_FOR(j, each) sum[row * each + j] = b_dot(sum[row * each + j], value, columns[j]);
    }
  }
  V_FOR(i, rows * each) to[i] = sum[i];
}

/* The states of `panels` panels from `panel` on, from such sums. */
static __attribute__((noinline)) void put_states(const recurrent_block *k, int64_t step, int64_t slot, int64_t panel,
                                                 int64_t panels, const vi *sums) {
  const recurrent_layer *l = k->l;
  for (int64_t p = 0; p < panels; p++) {
    const int64_t column = (k->direction * l->panels + panel + p) * GATES * V_LANES;
    const int32_t *const totals = (const int32_t *)k->r + column, *const shifts = totals + 2 * l->bytes.columns;
    const float *const scales = (const float *)k->r + l->bytes.columns + column;
    vf gates[ROWS * GATES];
    for (int64_t row = 0; row < k->count; row++) {
      const recurrent_range *range = &k->ranges[row];
      const float *inputs = k->sums + (slot * k->count + row) * l->width + (panel + p) * GATES * V_LANES;
      V_FOR(j, GATES) {
        const vi less = vi_add(b_multiply(b_load_i32(totals + j * V_LANES), vi_set(range->zero)),
                               b_multiply(b_load_i32(shifts + j * V_LANES), vi_set(range->sum)));
        const vf by = v_mul(v_load(scales + j * V_LANES), v_set(range->scale));
        const vf states = v_from_int(vi_sub(sums[(row * panels + p) * GATES + j], less));
        gates[row * GATES + j] = v_fma(states, by, v_load(inputs + j * V_LANES));
      }
    }
    KERN_NAME(lstm_states)(k, step, slot, panel + p, (const float *)(const void *)gates);
  }
}

typedef void product(const recurrent_block *k, int64_t panel, vi *to);
static void one_row(const recurrent_block *k, int64_t panel, vi *to) { multiply(k, panel, 1, PANELS, to); }
static void two_rows(const recurrent_block *k, int64_t panel, vi *to) { multiply(k, panel, 2, 1, to); }
static void some_rows(const recurrent_block *k, int64_t panel, vi *to) { multiply(k, panel, RECURRENT_SOME, 1, to); }
static void all_rows(const recurrent_block *k, int64_t panel, vi *to) { multiply(k, panel, ROWS, 1, to); }

/* Panels are walked to and fro: what was read last is still near. `one`: of a panel alone; a row behind those of the
 * block is scratch. */
static void run_step(const recurrent_block *k, int64_t step, int64_t slot, int64_t each, product *of, product *one) {
  const int64_t count = k->panel_end - k->panel;
  vi sums[SUMS];
  for (int64_t i = 0; i < count; i += each) {
    const int64_t panels = base_min_i64(each, count - i), at = slot % 2 ? k->panel_end - i - panels : k->panel + i;
    (panels == each ? of : one)(k, at, sums);
    put_states(k, step, slot, at, panels, sums);
  }
}

static void step_one(const recurrent_block *k, int64_t step, int64_t slot) {
  run_step(k, step, slot, PANELS, one_row, two_rows);
}
static void step_two(const recurrent_block *k, int64_t step, int64_t slot) {
  run_step(k, step, slot, 1, two_rows, NULL);
}
static void step_some(const recurrent_block *k, int64_t step, int64_t slot) {
  run_step(k, step, slot, 1, some_rows, NULL);
}
static void step_rows(const recurrent_block *k, int64_t step, int64_t slot) {
  run_step(k, step, slot, 1, all_rows, NULL);
}
static const recurrent_cell lstm = {.gates = GATES,
                                    .rows = ROWS,
                                    .prepare = quantise_states,
                                    .step = {{step_one}, {step_two}, {step_some}, {step_rows}}};

td_status KERN_PART_NAME(lstm_i8)(const base_call *call) { return KERN_NAME(recurrent_by)(call, &lstm); }
