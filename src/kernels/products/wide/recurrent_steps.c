/* recurrent_steps.c -- the sums of inputs, the pieces of them woven into walks over r, and the cells
 * (recurrent_priv.h). */
#include "kernels/simd/math_priv.h"
#include "kernels/products/recurrent_priv.h"

typedef recurrent_layer layer;
typedef recurrent_block block;
/* One sequence alone walks PANELS panels at once: the sums of one are too few to hide the latency of a
 * multiplication. */
enum { ROWS = RECURRENT_ROWS, SOME = RECURRENT_SOME, PANELS = 2, GATES_MAX = 4 };
/* The sums of a piece and of a panel need 12 registers; a second panel makes better use of them. */
enum { WEAVE = V_REGISTERS == 32 };
/* Two sequences have a walk of their own where a block computes more than one in vain. */
enum { PAIRS = SOME > 3 };
/* Steps of a chunk (recurrent_priv.h). */
enum { SHORT = RECURRENT_SHORT_STEPS, LONG = RECURRENT_LONG_STEPS };
enum { SUMS_MAX = ROWS > PANELS ? ROWS *GATES_MAX : PANELS *GATES_MAX };

/* Side by side in registers: `panels` panels, `pitch` floats apart, `width` vectors in a row of each, of which the
 * first `gates` are read. */
typedef struct columns {
  int panels, gates, width;
  int64_t pitch;
} columns;

/* acc[row][panel][gate] += sum over k of a[row][k] b[panel][k][gate]. */
V_TEMPLATE void multiply(int rows, columns c, const float *const *a, const float *b, int64_t k, vf *acc) {
  const int each = c.panels * c.gates;
  for (int64_t i = 0; i < k; i++, b += c.width * V_LANES) {
    vf column[PANELS * GATES_MAX];
    V_UNROLL
    for (int j = 0; j < each; j++) column[j] = v_load(b + j / c.gates * c.pitch + j % c.gates * V_LANES);
    V_UNROLL
    for (int row = 0; row < rows; row++) {
      vf value = v_set(a[row][i]);
      V_UNROLL
      for (int j = 0; j < each; j++) acc[row * each + j] = v_fma(value, column[j], acc[row * each + j]);
    }
  }
}

/* ---- inputs ---- */

/* The inputs' part of one panel for `count` rows from row `first` of the chunk on. */
V_TEMPLATE void input_tile(int rows, int gates, const block *k, int64_t panel, int64_t step, int64_t first,
                           int64_t count) {
  const layer *l = k->l;
  const float *a[ROWS], *bias = k->bias ? k->bias + panel * KERN_RECURRENT_BIASES * l->units : NULL;
  vf acc[ROWS * GATES_MAX];
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    a[row] = recurrent_input(k, base_min_i64(first + row, first + count - 1), step);
    V_UNROLL
    for (int g = 0; g < gates; g++) acc[row * gates + g] = bias ? v_load(bias + g * V_LANES) : v_zero();
  }
  multiply(rows, (columns){1, gates, gates, 0}, a, k->w + panel * l->input * gates * V_LANES, l->input, acc);
  float *to = k->sums + first * l->width + panel * gates * V_LANES;
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    if (row >= count) break;
    V_UNROLL
    for (int g = 0; g < gates; g++) v_store(to + row * l->width + g * V_LANES, acc[row * gates + g]);
  }
}

V_TEMPLATE void multiply_inputs(int gates, const block *k, int64_t step, int64_t steps) {
  const int64_t rows = steps * k->count;
  for (int64_t panel = k->panel; panel < k->panel_end; panel++) {
    for (int64_t first = 0; first < rows; first += ROWS) {
      int64_t count = base_min_i64(ROWS, rows - first);
      if (count == 1) input_tile(1, gates, k, panel, step, first, 1);
      else input_tile(ROWS, gates, k, panel, step, first, count);
    }
  }
}

/* ---- pieces ---- */

/* The same piece of every panel: one gate of some rows of w, for the `steps` of a chunk. Pointers are of panel 0. */
typedef struct piece {
  int steps;
  const float *x, *w; /* x: transposed */
  int64_t count;      /* rows of w */
  int64_t w_panel;    /* floats from panel to panel */
  const float *from;  /* the sums that it adds to, from_step floats from step to step */
  int64_t from_step, from_panel;
  float *to;
  int64_t to_step, to_panel;
} piece;

/* The rows of w are cut in parts, so that there is a piece for each step of a chunk, if not for the last. */
V_TEMPLATE int piece_parts(int gates, int steps) { return steps / gates; }

/* Piece `number` for the chunk of `steps` from `step` on. */
V_TEMPLATE piece piece_of(int gates, int steps, const block *k, int64_t step, int64_t number) {
  static const float zeros[V_LANES];
  const layer *l = k->l;
  const int64_t parts = piece_parts(gates, steps), gate = number / parts, part = number % parts;
  int64_t row = l->input * part / parts, pitch = l->width;
  piece p = {.steps = steps,
             .x = k->transposed + row * V_LANES + step % V_LANES,
             .w = k->w + (row * gates + gate) * V_LANES,
             .count = l->input * (part + 1) / parts - row,
             .w_panel = l->input * gates * V_LANES,
             .from = zeros,
             .to = k->sums + step % (2 * steps) * pitch + gate * V_LANES,
             .to_step = pitch,
             .to_panel = gates * V_LANES};
  if (part > 0) p.from = p.to, p.from_step = p.to_step, p.from_panel = p.to_panel;
  else if (k->bias) p.from = k->bias + gate * V_LANES, p.from_panel = KERN_RECURRENT_BIASES * l->units;
  return p;
}

/* x of V_LANES steps from `step` on, a multiple of that; zeros behind the last. */
static void turn(const block *k, int64_t step) {
  const layer *l = k->l;
  int64_t steps = base_min_i64(V_LANES, k->time - step), i = 0;
  int64_t pitch = l->x->strides[l->batch_first] * (k->backward ? -1 : 1);
  const float *x = recurrent_input(k, 0, step);
  for (; steps == V_LANES && i + V_LANES <= l->input; i += V_LANES)
    v_transpose_square(k->transposed + i * V_LANES, V_LANES, x + i, pitch);
  for (; i < l->input; i++)
    for (int64_t row = 0; row < V_LANES; row++) k->transposed[i * V_LANES + row] = row < steps ? x[row * pitch + i] : 0;
}

/* sums[step] += x[step] w for a row of w. */
V_TEMPLATE void add_inputs(int steps, const float *x, const float *w, vf *sums) {
  vf column = v_keep(v_load(w));
  V_FOR(step, steps) sums[step] = v_fma(v_set(x[step]), column, sums[step]);
}

V_TEMPLATE void add_states(int gates, const float *state, const float *r, vf *acc) {
  vf value = v_set(*state);
  V_FOR(g, gates) acc[g] = v_fma(value, v_load(r + g * V_LANES), acc[g]);
}

/* A piece of a panel, and beside it the product of one sequence's state with a panel of r: k rows of `width` vectors,
 * of which the first `gates` are read. As many rows of r follow one of w as there are parts. */
V_TEMPLATE void multiply_beside(int gates, int width, const float *state, const float *r, int64_t k, vf *acc,
                                const piece *p, int64_t panel) {
  const int steps = p->steps, each = piece_parts(width, steps), pitch = width * V_LANES;
  const float *x = p->x, *w = p->w + panel * p->w_panel, *from = p->from + panel * p->from_panel;
  float *to = p->to + panel * p->to_panel;
  vf sums[LONG];
  V_FOR(step, steps) sums[step] = v_load(from + step * p->from_step);
  int64_t both = base_min_i64(k / each, p->count);
  for (int64_t i = 0; i < both; i++, x += V_LANES, w += pitch) {
    V_FOR(j, each) add_states(gates, state + j, r + j * pitch, acc);
    add_inputs(steps, x, w, sums);
    state += each, r += each * pitch;
  }
  for (int64_t i = both * each; i < k; i++, r += pitch) add_states(gates, state++, r, acc);
  for (int64_t i = both; i < p->count; i++, x += V_LANES, w += pitch) add_inputs(steps, x, w, sums);
  V_FOR(step, steps) v_store(to + step * p->to_step, sums[step]);
}

/* All pieces of the first chunk. */
V_TEMPLATE void first_pieces(int gates, int steps, const block *k) {
  for (int64_t number = 0; number < gates * piece_parts(gates, steps); number++) {
    const piece p = piece_of(gates, steps, k, 0, number);
    for (int64_t panel = k->panel; panel < k->panel_end; panel++)
      multiply_beside(0, gates, NULL, NULL, 0, NULL, &p, panel);
  }
}

/* ---- cells ---- */

/* Some panels of a block at one step, whose sums are the `slot`th. `beside`: the piece to do with them, or NULL. */
typedef struct place {
  const block *k;
  int64_t slot, step, panel;
  const piece *beside;
} place;

/* Where row `row` of the block finds its sums of inputs for the `i`th panel of the place. */
V_TEMPLATE const float *sums_of(const place *at, int row, int i) {
  const layer *l = at->k->l;
  int64_t sequence = at->slot * at->k->count + base_min_i64(row, at->k->count - 1);
  return at->k->sums + sequence * l->width + (at->panel + i) * l->gates * V_LANES;
}

/* The state of `unit` and those behind it. */
V_TEMPLATE void put_state(const place *at, int row, int64_t unit, vf state) {
  const block *k = at->k;
  const layer *l = k->l;
  v_store(k->next + row * l->padded + unit, state);
  if (!l->y || row >= k->count || unit >= l->hidden) return;
  const int64_t b = k->first + row, t = recurrent_time(k, row, at->step);
  int64_t states =
      l->batch_first ? (b * l->time + t) * l->dirs + k->direction : (t * l->dirs + k->direction) * l->batch + b;
  float *y = l->y + states * l->hidden + unit;
  if (unit + V_LANES <= l->hidden) v_store(y, state);
  else v_store_n(y, state, l->hidden - unit);
}

/* acc += states times `gates` of the `width` gates of r, from gate `first` on. */
V_TEMPLATE void multiply_states(int rows, int panels, int first, int gates, int width, const place *at,
                                const float *states, vf *acc) {
  const layer *l = at->k->l;
  const columns c = {panels, gates, width, l->hidden * width * V_LANES};
  const float *r = (const float *)at->k->r + at->panel * c.pitch + first * V_LANES, *a[ROWS];
  V_FOR(row, rows) a[row] = states + row * l->padded;
  if (at->beside) multiply_beside(gates, width, states, r, l->hidden, acc, at->beside, at->panel);
  else multiply(rows, c, a, r, l->hidden, acc);
}

/* The sums of those gates: inputs' part and states' part. */
V_TEMPLATE void gate_sums(int rows, int panels, int first, int gates, int width, const place *at, const float *states,
                          vf *acc) {
  V_FOR(i, rows * panels) {
    const float *sums = sums_of(at, i / panels, i % panels) + first * V_LANES;
    V_FOR(g, gates) acc[i * gates + g] = v_load(sums + g * V_LANES);
  }
  multiply_states(rows, panels, first, gates, width, at, states, acc);
}

/* d = 1 + exp(-x), x bounded so that a product of two of them is finite. With d of x, sigmoid(x) = 1 / d; with d of
 * 2 x, tanh(x) = (2 - d) / d. Within 3e-7, absolutely. */
V_TEMPLATE vf gate(vf x) {
  const vf most = v_set(43);
  vf near = v_min(most, v_max(v_neg(most), x)), power, p = v_exp_neg_parts(near, near, &power);
  return v_fma(power, p, v_set(1));
}
V_TEMPLATE vf gate_twice(vf x) { return gate(v_add(x, x)); }
V_TEMPLATE vf over(vf d) { return v_sub(v_set(2), d); }
V_TEMPLATE vf sigmoid_of(vf x) { return v_div(v_set(1), gate(x)); }
V_TEMPLATE vf tanh_of(vf x) {
  vf d = gate_twice(x);
  return v_div(over(d), d);
}

/* The cells of several rows are computed from sums in memory, in a loop that all numbers of rows and panels share:
 * beside their products the stores are nothing, and the code of a cell is long. Those of one row are `inlined` where
 * they take a share of its product that is to be seen. `sums`: [rows][panels][gates]. */
typedef void cells_of(const place *at, int rows, int panels, const vf *sums);
V_TEMPLATE void put_cells(const place *at, int rows, int panels, int gates, const vf *acc, cells_of *of) {
  vf sums[SUMS_MAX];
  V_FOR(i, rows * panels * gates) sums[i] = acc[i];
  const place alone = {at->k, at->slot, at->step, at->panel, NULL}; /* what is beside stays known to the compiler */
  of(&alone, rows, panels, sums);
}
#define CELLS(cell, gates, inlined)                                                                      \
  static __attribute__((noinline)) void cell##s(const place *at, int rows, int panels, const vf *sums) { \
    for (int row = 0; row < rows; row++)                                                                 \
      for (int i = 0; i < panels; i++) cell(at, row, i, sums + (row * panels + i) * (gates));            \
  }                                                                                                      \
  V_TEMPLATE void put_##cell##s(const place *at, int rows, int panels, const vf *acc) {                  \
    if (rows > 1 || !(inlined)) put_cells(at, rows, panels, gates, acc, cell##s);                        \
    else V_FOR(i, panels) cell(at, 0, i, acc + i * (gates));                                             \
  }

/* What a gate sees of the memory. */
V_TEMPLATE vf peep(const float *peepholes, int number, vf memory, vf sum) {
  return peepholes ? v_fma(v_load(peepholes + number * V_LANES), memory, sum) : sum;
}

/* The states of the V_LANES units of row `row` and the `i`th panel of the place, from the sums of their gates. */
V_TEMPLATE void lstm_cell(const place *at, int row, int i, const vf *sums) {
  const int64_t unit = (at->panel + i) * V_LANES;
  float *memory = at->k->memory + row * at->k->l->padded + unit;
  const float *p = at->k->peepholes ? at->k->peepholes + unit * KERN_RECURRENT_PEEPHOLES : NULL;
  const vf before = v_load(memory);
  vf in = gate(peep(p, 0, before, sums[0])), forget = gate(peep(p, 2, before, sums[2]));
  vf candidate = gate_twice(sums[3]), added = v_div(over(candidate), v_mul(in, candidate));
  vf c = v_add(v_div(before, forget), added), bent = gate_twice(c), out = gate(peep(p, 1, c, sums[1]));
  v_store(memory, c);
  put_state(at, row, unit, v_div(over(bent), v_mul(out, bent)));
}
CELLS(lstm_cell, 4, false)

void KERN_NAME(lstm_states)(const block *k, int64_t step, int64_t slot, int64_t panel, const float *sums) {
  const place at = {k, slot, step, panel, NULL};
  lstm_cells(&at, (int)k->count, 1, (const vf *)(const void *)sums);
}

/* The states of plain units, KERN_PLAIN_VECTORS vectors of them to a panel. */
static __attribute__((noinline)) void plain_cells(const place *at, int rows, int panels, const vf *sums) {
  const layer *l = at->k->l;
  const int each = panels * KERN_PLAIN_VECTORS;
  for (int i = 0; i < rows * each; i++)
    put_state(at, i / each, at->panel * l->units + i % each * V_LANES,
              l->relu ? v_max(v_zero(), sums[i]) : tanh_of(sums[i]));
}

/* Panels of four gates, or of four vectors of plain units. */
V_TEMPLATE void lstm_panels(int rows, int panels, const place *at) {
  vf acc[SUMS_MAX];
  gate_sums(rows, panels, 0, 4, 4, at, at->k->state, acc);
  if (at->k->l->plain) put_cells(at, rows, panels, 4, acc, plain_cells);
  else put_lstm_cells(at, rows, panels, acc);
}

/* (1 - z) candidate + z state */
V_TEMPLATE vf gru_blend(vf z, vf candidate, vf state) { return v_fma(z, v_sub(state, candidate), candidate); }

V_TEMPLATE void gru_cell(const place *at, int row, int i, const vf *sums) {
  const int64_t unit = (at->panel + i) * V_LANES;
  vf inputs = v_load(sums_of(at, row, i) + 2 * V_LANES);
  vf z = sigmoid_of(sums[0]), reset = sigmoid_of(sums[1]);
  vf candidate = tanh_of(v_fma(reset, sums[2], inputs));
  put_state(at, row, unit, gru_blend(z, candidate, v_load(at->k->state + row * at->k->l->padded + unit)));
}
CELLS(gru_cell, 3, true)
void KERN_NAME(gru_states)(const block *k, int64_t step, int64_t slot, int64_t panel, const float *sums) {
  const place at = {k, slot, step, panel, NULL};
  gru_cells(&at, (int)k->count, 1, (const vf *)(const void *)sums);
}

/* The candidate's state product is taken before the reset gate. */
V_TEMPLATE void gru_panels(int rows, int panels, const place *at) {
  const block *k = at->k;
  vf acc[SUMS_MAX];
  V_FOR(i, rows * panels) {
    const float *sums = sums_of(at, i / panels, i % panels);
    const float *bias = k->bias ? k->bias + ((at->panel + i % panels) * KERN_RECURRENT_BIASES + 3) * V_LANES : NULL;
    acc[i * 3] = v_load(sums);
    acc[i * 3 + 1] = v_load(sums + V_LANES);
    acc[i * 3 + 2] = bias ? v_load(bias) : v_zero();
  }
  multiply_states(rows, panels, 0, 3, 3, at, k->state, acc);
  put_gru_cells(at, rows, panels, acc);
}

/* The reset gate comes first: z and the reset state of all panels, */
V_TEMPLATE void reset_cell(const place *at, int row, int i, const vf *sums) {
  const block *k = at->k;
  const int64_t unit = row * k->l->padded + (at->panel + i) * V_LANES;
  v_store(k->memory + unit, sigmoid_of(sums[0]));
  v_store(k->kept + unit, v_mul(sigmoid_of(sums[1]), v_load(k->state + unit)));
}
CELLS(reset_cell, 2, false)
V_TEMPLATE void gru_reset_panels(int rows, int panels, const place *at) {
  vf acc[SUMS_MAX];
  gate_sums(rows, panels, 0, 2, 3, at, at->k->state, acc);
  put_reset_cells(at, rows, panels, acc);
}

/* then the candidates. */
V_TEMPLATE void candidate_cell(const place *at, int row, int i, const vf *sums) {
  const block *k = at->k;
  const int64_t first = (at->panel + i) * V_LANES, unit = row * k->l->padded + first;
  vf candidate = tanh_of(sums[0]);
  put_state(at, row, first, gru_blend(v_load(k->memory + unit), candidate, v_load(k->state + unit)));
}
CELLS(candidate_cell, 1, false)
V_TEMPLATE void gru_candidate_panels(int rows, int panels, const place *at) {
  vf acc[SUMS_MAX];
  gate_sums(rows, panels, 2, 1, 3, at, at->k->kept, acc);
  put_candidate_cells(at, rows, panels, acc);
}

/* The block's panels at one step. They are walked to and fro: what was read last is still in the first-level cache,
 * which r often exceeds. */
typedef void panels_of(int rows, int panels, const place *at);
V_TEMPLATE void walk(int rows, const block *k, int64_t step, int64_t slot, panels_of *of) {
  const int each = rows == 1 ? PANELS : 1;
  const int64_t first = k->panel, end = k->panel_end;
  int64_t i = first;
  for (; i + each <= end; i += each)
    of(rows, each, &(place){k, slot, step, slot % 2 ? first + end - each - i : i, NULL});
  for (; i < end; i++) of(rows, 1, &(place){k, slot, step, slot % 2 ? first + end - 1 - i : i, NULL});
}

/* Is there a piece for the next chunk to do beside `step`? Then it is *p. */
V_TEMPLATE bool has_piece(int gates, int steps, const block *k, int64_t step, piece *p) {
  int64_t number = step % steps, next = step - number + steps;
  if (next >= k->time || number >= gates * piece_parts(gates, steps)) return false;
  *p = piece_of(gates, steps, k, next, number);
  return true;
}

/* The block's panels of one sequence, with the piece beside each. */
V_TEMPLATE void walk_beside(const piece *p, const block *k, int64_t step, int64_t slot, panels_of *of) {
  const int64_t first = k->panel, end = k->panel_end;
  for (int64_t i = first; i < end; i++) of(1, 1, &(place){k, slot, step, step % 2 ? first + end - 1 - i : i, p});
}

static void lstm_inputs(const block *k, int64_t step, int64_t steps) { multiply_inputs(4, k, step, steps); }
static void lstm_one(const block *k, int64_t step, int64_t slot) { walk(1, k, step, slot, lstm_panels); }
static void lstm_pair(const block *k, int64_t step, int64_t slot) { walk(2, k, step, slot, lstm_panels); }
static void lstm_some(const block *k, int64_t step, int64_t slot) { walk(SOME, k, step, slot, lstm_panels); }
static void lstm_many(const block *k, int64_t step, int64_t slot) { walk(ROWS, k, step, slot, lstm_panels); }
V_TEMPLATE void lstm_step_woven(int steps, const block *k, int64_t step, int64_t slot) {
  piece p;
  if (has_piece(4, steps, k, step, &p)) walk_beside(&p, k, step, slot, lstm_panels);
  else lstm_one(k, step, slot);
}
static void lstm_woven(const block *k, int64_t step, int64_t slot) { lstm_step_woven(SHORT, k, step, slot); }
static void lstm_woven_long(const block *k, int64_t step, int64_t slot) { lstm_step_woven(LONG, k, step, slot); }
static void lstm_begin(const block *k, int64_t step, int64_t steps) {
  (void)step;
  if (steps == SHORT) first_pieces(4, SHORT, k);
  else first_pieces(4, LONG, k);
}
const recurrent_cell KERN_NAME(lstm_cell) = {
    .gates = 4,
    .rows = ROWS,
    .inputs = lstm_inputs,
    .step = {{lstm_one}, {PAIRS ? lstm_pair : lstm_many}, {SOME < ROWS ? lstm_some : lstm_many}, {lstm_many}},
    .turn = turn,
    .begin = WEAVE ? lstm_begin : NULL,
    .woven = {{WEAVE ? lstm_woven : NULL}, {WEAVE ? lstm_woven_long : NULL}}};

/* The first phase of a step; all of it where the candidate's product comes before the reset gate. */
V_TEMPLATE void gru_step(int rows, const block *k, int64_t step, int64_t slot) {
  if (k->l->linear_before_reset) walk(rows, k, step, slot, gru_panels);
  else walk(rows, k, step, slot, gru_reset_panels);
}
static void gru_inputs(const block *k, int64_t step, int64_t steps) { multiply_inputs(3, k, step, steps); }
static void gru_one(const block *k, int64_t step, int64_t slot) { gru_step(1, k, step, slot); }
static void gru_pair(const block *k, int64_t step, int64_t slot) { gru_step(2, k, step, slot); }
static void gru_some(const block *k, int64_t step, int64_t slot) { gru_step(SOME, k, step, slot); }
static void gru_many(const block *k, int64_t step, int64_t slot) { gru_step(ROWS, k, step, slot); }
static void gru_candidates_one(const block *k, int64_t step, int64_t slot) {
  walk(1, k, step, slot, gru_candidate_panels);
}
static void gru_candidates_pair(const block *k, int64_t step, int64_t slot) {
  walk(2, k, step, slot, gru_candidate_panels);
}
static void gru_candidates_some(const block *k, int64_t step, int64_t slot) {
  walk(SOME, k, step, slot, gru_candidate_panels);
}
static void gru_candidates_many(const block *k, int64_t step, int64_t slot) {
  walk(ROWS, k, step, slot, gru_candidate_panels);
}
V_TEMPLATE void gru_step_woven(int steps, const block *k, int64_t step, int64_t slot) {
  piece p;
  if (!has_piece(3, steps, k, step, &p)) gru_one(k, step, slot);
  else if (k->l->linear_before_reset) walk_beside(&p, k, step, slot, gru_panels);
  else walk_beside(&p, k, step, slot, gru_reset_panels);
}
static void gru_woven(const block *k, int64_t step, int64_t slot) { gru_step_woven(SHORT, k, step, slot); }
static void gru_woven_long(const block *k, int64_t step, int64_t slot) { gru_step_woven(LONG, k, step, slot); }
static void gru_begin(const block *k, int64_t step, int64_t steps) {
  (void)step;
  if (steps == SHORT) first_pieces(3, SHORT, k);
  else first_pieces(3, LONG, k);
}
const recurrent_cell KERN_NAME(gru_cell) = {
    .gates = 3,
    .rows = ROWS,
    .inputs = gru_inputs,
    .step = {{gru_one, gru_candidates_one},
             {PAIRS ? gru_pair : gru_many, PAIRS ? gru_candidates_pair : gru_candidates_many},
             {SOME < ROWS ? gru_some : gru_many, SOME < ROWS ? gru_candidates_some : gru_candidates_many},
             {gru_many, gru_candidates_many}},
    .turn = turn,
    .begin = WEAVE ? gru_begin : NULL,
    .woven = {{WEAVE ? gru_woven : NULL, gru_candidates_one}, {WEAVE ? gru_woven_long : NULL, gru_candidates_one}}};
