/* recurrent.c -- KERN_LSTM, KERN_GRU: whole layers over time (td::lstm_packed, td::gru_packed; weights as recurrent.h
 * says). A task is one direction of a block of up to ROWS sequences. The input's part of all gates is a product over
 * many steps at once; then each step multiplies the states with the panels of r, the sums of a panel's units stay in
 * registers, and the cell is computed on them there. Every sum is bias, then the inputs, then the states, each in
 * order. */
#include "kernels/math_priv.h"

#include "base/size.h"
#include "kernels/recurrent.h"

enum { X, W, R, BIAS, H0, C0 };
enum { HIDDEN, PANEL, DIRECTIONS, REVERSE, BATCH_FIRST, LINEAR_BEFORE_RESET };
/* Sequences of a block; times the four gates of an LSTM they fill the registers. */
enum { ROWS = V_REGISTERS == 32 ? 6 : 3, GATES_MAX = 4 };
enum { SUMS_BYTES = 1 << 17 }; /* of a chunk of steps: half of the smaller second-level caches */

typedef struct layer {
  const base_call *call;
  const base_tensor *x, *h0, *c0; /* h0, c0: NULL: zeros */
  float *y, *last, *last_memory;  /* NULL: not wanted */
  int64_t time, batch, input, hidden, padded, dirs, gates, chunk;
  bool reverse, batch_first, linear_before_reset;
} layer;

/* One block: its place in the layer, and its scratch. Rows past `count` are computed and dropped. */
typedef struct block {
  const layer *l;
  const float *w, *r, *bias; /* of its direction; bias may be NULL */
  int64_t direction, first, count;
  bool backward;
  float *sums;         /* [steps of a chunk, count, panels, gates, V_LANES] */
  float *state, *next; /* [ROWS, padded] */
  float *memory;       /* the same: c of an LSTM, z of a GRU */
  float *kept;         /* the same: the reset state of a GRU */
} block;

/* acc[row][i] += sum over k of a[row][k] b[k][i], i < `gates` vectors of `width` in a row of the panel. */
V_INLINE void multiply(int rows, int gates, int width, const float *const *a, const float *b, int64_t k, vf *acc) {
  for (int64_t i = 0; i < k; i++, b += width * V_LANES) {
    vf column[GATES_MAX];
    V_UNROLL
    for (int g = 0; g < gates; g++) column[g] = v_load(b + g * V_LANES);
    V_UNROLL
    for (int row = 0; row < rows; row++) {
      vf value = v_set(a[row][i]);
      V_UNROLL
      for (int g = 0; g < gates; g++) acc[row * gates + g] = v_fma(value, column[g], acc[row * gates + g]);
    }
  }
}

/* ---- inputs ---- */

static const float *input_row(const block *k, int64_t row, int64_t step) {
  const layer *l = k->l;
  int64_t t = step + row / k->count, b = k->first + row % k->count;
  if (k->backward) t = l->time - 1 - t;
  return (const float *)l->x->data + t * l->x->strides[l->batch_first] + b * l->x->strides[!l->batch_first];
}

/* The inputs' part of one panel for `count` rows from row `first` of the chunk on. */
V_INLINE void input_tile(int rows, int gates, const block *k, int64_t panel, int64_t step, int64_t first,
                         int64_t count) {
  const layer *l = k->l;
  const float *a[ROWS], *bias = k->bias ? k->bias + panel * KERN_RECURRENT_BIASES * V_LANES : NULL;
  vf acc[ROWS * GATES_MAX];
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    a[row] = input_row(k, base_min_i64(first + row, first + count - 1), step);
    V_UNROLL
    for (int g = 0; g < gates; g++) acc[row * gates + g] = bias ? v_load(bias + g * V_LANES) : v_zero();
  }
  multiply(rows, gates, gates, a, k->w + panel * l->input * gates * V_LANES, l->input, acc);
  float *to = k->sums + first * l->padded * gates + panel * gates * V_LANES;
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    if (row >= count) break;
    V_UNROLL
    for (int g = 0; g < gates; g++) v_store(to + row * l->padded * gates + g * V_LANES, acc[row * gates + g]);
  }
}

V_INLINE void multiply_inputs(int gates, const block *k, int64_t step, int64_t steps) {
  int64_t rows = steps * k->count, panels = k->l->padded / V_LANES;
  for (int64_t panel = 0; panel < panels; panel++) {
    for (int64_t first = 0; first < rows; first += ROWS) {
      int64_t count = base_min_i64(ROWS, rows - first);
      if (count == 1) input_tile(1, gates, k, panel, step, first, 1);
      else input_tile(ROWS, gates, k, panel, step, first, count);
    }
  }
}

/* ---- cells ---- */

/* Where row `row` of the block finds its sums of inputs at `step` of the chunk, and puts its state. */
V_INLINE const float *sums_of(const block *k, int row, int64_t step, int64_t panel) {
  const layer *l = k->l;
  int64_t at = step * k->count + base_min_i64(row, k->count - 1);
  return k->sums + at * l->padded * l->gates + panel * l->gates * V_LANES;
}

V_INLINE void put_state(const block *k, int row, int64_t t, int64_t panel, vf state) {
  const layer *l = k->l;
  v_store(k->next + row * l->padded + panel * V_LANES, state);
  if (!l->y || row >= k->count) return;
  int64_t b = k->first + row;
  int64_t at =
      l->batch_first ? (b * l->time + t) * l->dirs + k->direction : (t * l->dirs + k->direction) * l->batch + b;
  v_store_n(l->y + at * l->hidden + panel * V_LANES, state, base_min_i64(V_LANES, l->hidden - panel * V_LANES));
}

/* The sums of `gates` gates from gate `first` on, of one panel at one step: inputs' part and states' part. */
V_INLINE void gate_sums(int rows, int first, int gates, int width, const block *k, const float *states, int64_t step,
                        int64_t panel, vf *acc) {
  const layer *l = k->l;
  const float *a[ROWS];
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    a[row] = states + row * l->padded;
    V_UNROLL
    for (int g = 0; g < gates; g++) acc[row * gates + g] = v_load(sums_of(k, row, step, panel) + (first + g) * V_LANES);
  }
  multiply(rows, gates, width, a, k->r + (panel * l->hidden * width + first) * V_LANES, l->hidden, acc);
}

V_INLINE void lstm_panel(int rows, const block *k, int64_t step, int64_t t, int64_t panel) {
  vf acc[ROWS * 4];
  gate_sums(rows, 0, 4, 4, k, k->state, step, panel, acc);
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    float *memory = k->memory + row * k->l->padded + panel * V_LANES;
    vf in = v_sigmoid(acc[row * 4]), out = v_sigmoid(acc[row * 4 + 1]), forget = v_sigmoid(acc[row * 4 + 2]);
    vf c = v_fma(forget, v_load(memory), v_mul(in, v_tanh(acc[row * 4 + 3])));
    v_store(memory, c);
    put_state(k, row, t, panel, v_mul(out, v_tanh(c)));
  }
}

/* (1 - z) candidate + z state */
V_INLINE vf gru_blend(vf z, vf candidate, vf state) { return v_fma(z, v_sub(state, candidate), candidate); }

/* The candidate's state product is taken before the reset gate. */
V_INLINE void gru_panel(int rows, const block *k, int64_t step, int64_t t, int64_t panel) {
  const float *bias = k->bias ? k->bias + (panel * KERN_RECURRENT_BIASES + 3) * V_LANES : NULL;
  vf acc[ROWS * 3], own = bias ? v_load(bias) : v_zero(), inputs[ROWS];
  const float *a[ROWS];
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    const float *sums = sums_of(k, row, step, panel);
    a[row] = k->state + row * k->l->padded;
    acc[row * 3] = v_load(sums);
    acc[row * 3 + 1] = v_load(sums + V_LANES);
    acc[row * 3 + 2] = own;
    inputs[row] = v_load(sums + 2 * V_LANES);
  }
  multiply(rows, 3, 3, a, k->r + panel * k->l->hidden * 3 * V_LANES, k->l->hidden, acc);
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    vf z = v_sigmoid(acc[row * 3]), reset = v_sigmoid(acc[row * 3 + 1]);
    vf candidate = v_tanh(v_fma(reset, acc[row * 3 + 2], inputs[row]));
    put_state(k, row, t, panel, gru_blend(z, candidate, v_load(a[row] + panel * V_LANES)));
  }
}

/* The reset gate comes first: z and the reset state of all panels, */
V_INLINE void gru_reset_panel(int rows, const block *k, int64_t step, int64_t panel) {
  vf acc[ROWS * 2];
  gate_sums(rows, 0, 2, 3, k, k->state, step, panel, acc);
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    int64_t at = row * k->l->padded + panel * V_LANES;
    v_store(k->memory + at, v_sigmoid(acc[row * 2]));
    v_store(k->kept + at, v_mul(v_sigmoid(acc[row * 2 + 1]), v_load(k->state + at)));
  }
}

/* then the candidates. */
V_INLINE void gru_candidate_panel(int rows, const block *k, int64_t step, int64_t t, int64_t panel) {
  vf acc[ROWS];
  gate_sums(rows, 2, 1, 3, k, k->kept, step, panel, acc);
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    int64_t at = row * k->l->padded + panel * V_LANES;
    put_state(k, row, t, panel, gru_blend(v_load(k->memory + at), v_tanh(acc[row]), v_load(k->state + at)));
  }
}

/* One step of the block: `step` of the chunk, time t. Panels are walked to and fro: what was read last is still in the
 * first-level cache, which r often exceeds. */
V_INLINE int64_t turned(int64_t step, int64_t panels, int64_t i) { return step % 2 ? panels - 1 - i : i; }

V_INLINE void lstm_step(int rows, const block *k, int64_t step, int64_t t) {
  int64_t panels = k->l->padded / V_LANES;
  for (int64_t i = 0; i < panels; i++) lstm_panel(rows, k, step, t, turned(step, panels, i));
}

V_INLINE void gru_step(int rows, const block *k, int64_t step, int64_t t) {
  int64_t panels = k->l->padded / V_LANES;
  if (k->l->linear_before_reset) {
    for (int64_t i = 0; i < panels; i++) gru_panel(rows, k, step, t, turned(step, panels, i));
    return;
  }
  for (int64_t panel = 0; panel < panels; panel++) gru_reset_panel(rows, k, step, panel);
  for (int64_t panel = 0; panel < panels; panel++) gru_candidate_panel(rows, k, step, t, panel);
}

/* What differs between cells: a step of one sequence, and of ROWS. */
typedef struct cell {
  int64_t gates;
  void (*inputs)(const block *k, int64_t step, int64_t steps);
  void (*step[2])(const block *k, int64_t step, int64_t t);
} cell;

static void lstm_inputs(const block *k, int64_t step, int64_t steps) { multiply_inputs(4, k, step, steps); }
static void lstm_one(const block *k, int64_t step, int64_t t) { lstm_step(1, k, step, t); }
static void lstm_many(const block *k, int64_t step, int64_t t) { lstm_step(ROWS, k, step, t); }
static const cell lstm_cell = {4, lstm_inputs, {lstm_one, lstm_many}};

static void gru_inputs(const block *k, int64_t step, int64_t steps) { multiply_inputs(3, k, step, steps); }
static void gru_one(const block *k, int64_t step, int64_t t) { gru_step(1, k, step, t); }
static void gru_many(const block *k, int64_t step, int64_t t) { gru_step(ROWS, k, step, t); }
static const cell gru_cell = {3, gru_inputs, {gru_one, gru_many}};

/* ---- blocks ---- */

static void read_state(const block *k, const base_tensor *from, float *to) {
  const layer *l = k->l;
  memset(to, 0, (size_t)(ROWS * l->padded) * sizeof *to);
  for (int64_t row = 0; from && row < k->count; row++) {
    int64_t sequence = (k->first + row) * from->strides[!l->batch_first];
    const float *at = (const float *)from->data + sequence + k->direction * from->strides[l->batch_first];
    for (int64_t i = 0; i < l->hidden; i++) to[row * l->padded + i] = at[i * from->strides[2]];
  }
}

static void write_state(const block *k, const float *from, float *to) {
  const layer *l = k->l;
  for (int64_t row = 0; to && row < k->count; row++) {
    int64_t b = k->first + row, at = l->batch_first ? b * l->dirs + k->direction : k->direction * l->batch + b;
    memcpy(to + at * l->hidden, from + row * l->padded, (size_t)l->hidden * sizeof *to);
  }
}

static void run_block(const cell *c, block *k) {
  const layer *l = k->l;
  read_state(k, l->h0, k->state);
  read_state(k, l->c0, k->memory);
  memset(k->next, 0, (size_t)(ROWS * l->padded) * sizeof *k->next);
  for (int64_t step = 0; step < l->time; step += l->chunk) {
    int64_t steps = base_min_i64(l->chunk, l->time - step);
    c->inputs(k, step, steps);
    for (int64_t i = 0; i < steps; i++) {
      c->step[k->count > 1](k, i, k->backward ? l->time - 1 - step - i : step + i);
      float *state = k->next;
      k->next = k->state;
      k->state = state;
    }
  }
  write_state(k, k->state, l->last);
  write_state(k, k->memory, l->last_memory);
}

/* ---- layers ---- */

/* x with its last dimension dense. */
static td_status dense_rows(layer *l, base_tensor *copy) {
  const base_tensor *x = l->x;
  if (x->strides[2] == 1 || l->input == 1) return TD_OK;
  *copy = *x;
  copy->data = base_call_scratch(l->call, (size_t)base_tensor_numel(x), sizeof(float));
  if (!copy->data) return base_no_memory(l->call->err, "scratch");
  base_strides(copy->rank, copy->dims, copy->strides);
  base_tensor_copy(copy, x);
  l->x = copy;
  return TD_OK;
}

static td_status check_sizes(const layer *l) {
  const base_attrs *attrs = l->call->attrs;
  kern_recurrent r = {l->dirs, l->gates, l->hidden, base_attr_int(attrs, PANEL)};
  const base_tensor *bias = base_in(l->call, BIAS);
  const base_tensor *states[] = {l->h0, l->c0};
  size_t w, u, b;
  bool fits = r.panel == V_LANES && kern_recurrent_count(&r, l->input, &w) && kern_recurrent_count(&r, l->hidden, &u) &&
              kern_recurrent_bias_count(&r, &b) && (size_t)base_tensor_numel(base_in(l->call, W)) == w &&
              (size_t)base_tensor_numel(base_in(l->call, R)) == u && (!bias || (size_t)base_tensor_numel(bias) == b);
  for (int i = 0; i < 2; i++)
    fits = fits && (!states[i] || (states[i]->rank == 3 && states[i]->dims[l->batch_first] == l->dirs &&
                                   states[i]->dims[!l->batch_first] == l->batch && states[i]->dims[2] == l->hidden));
  return fits ? TD_OK
              : base_fail(l->call->err, TD_BAD_ARGUMENT, NULL, -1,
                          "the packed weights or the initial states do not fit the sizes of x; pack them anew");
}

static td_status open_layer(const base_call *call, const cell *c, layer *l, base_tensor *copy) {
  const base_attrs *attrs = call->attrs;
  const base_tensor *x = base_in(call, X);
  *l = (layer){.call = call,
               .x = x,
               .h0 = base_in(call, H0),
               .c0 = base_in(call, C0),
               .y = base_out(call, 0) ? base_out(call, 0)->data : NULL,
               .last = base_out(call, 1) ? base_out(call, 1)->data : NULL,
               .last_memory = base_out(call, 2) ? base_out(call, 2)->data : NULL,
               .hidden = base_attr_int(attrs, HIDDEN),
               .dirs = base_attr_int(attrs, DIRECTIONS),
               .reverse = base_attr_int(attrs, REVERSE),
               .batch_first = base_attr_int(attrs, BATCH_FIRST),
               .linear_before_reset = c == &gru_cell && base_attr_int(attrs, LINEAR_BEFORE_RESET),
               .gates = c->gates,
               .input = x->dims[2]};
  l->time = x->dims[l->batch_first];
  l->batch = x->dims[!l->batch_first];
  l->padded = (l->hidden + V_LANES - 1) / V_LANES * V_LANES;
  TRY(check_sizes(l));
  int64_t step = (int64_t)sizeof(float) * l->gates * l->padded * base_min_i64(ROWS, l->batch);
  l->chunk = step ? base_min_i64(base_max_i64(SUMS_BYTES / step, ROWS), l->time) : 1;
  return dense_rows(l, copy);
}

static td_status open_block(const layer *l, block *k) {
  size_t states = (size_t)(ROWS * l->padded), step = (size_t)(base_min_i64(ROWS, l->batch) * l->gates * l->padded);
  *k = (block){.l = l};
  k->sums = base_call_scratch(l->call, (size_t)l->chunk, step * sizeof(float));
  k->state = base_call_scratch(l->call, states, sizeof(float));
  k->next = base_call_scratch(l->call, states, sizeof(float));
  k->memory = base_call_scratch(l->call, states, sizeof(float));
  k->kept = base_call_scratch(l->call, states, sizeof(float));
  return k->sums && k->state && k->next && k->memory && k->kept ? TD_OK : base_no_memory(l->call->err, "scratch");
}

static td_status run(const base_call *call, const cell *c) {
  layer l;
  block k;
  base_tensor copy;
  TRY(open_layer(call, c, &l, &copy));
  if (l.batch == 0 || l.hidden == 0) return TD_OK;
  TRY(open_block(&l, &k));
  const float *w = base_in(call, W)->data, *r = base_in(call, R)->data;
  const base_tensor *bias = base_in(call, BIAS);
  int64_t blocks = (l.batch + ROWS - 1) / ROWS;
  uint32_t tasks = (uint32_t)base_min_i64(l.dirs * blocks, UINT32_MAX - 64);
  for (uint32_t task = base_call_first(call); task < tasks; task = base_call_next(call, task)) {
    k.direction = task / blocks;
    k.first = task % blocks * ROWS;
    k.count = base_min_i64(ROWS, l.batch - k.first);
    k.backward = l.reverse || k.direction == 1;
    k.w = w + k.direction * l.padded * l.gates * l.input;
    k.r = r + k.direction * l.padded * l.gates * l.hidden;
    k.bias = bias ? (const float *)bias->data + k.direction * l.padded * KERN_RECURRENT_BIASES : NULL;
    run_block(c, &k);
  }
  return TD_OK;
}

td_status KERN_NAME(lstm)(const base_call *call) { return run(call, &lstm_cell); }
td_status KERN_NAME(gru)(const base_call *call) { return run(call, &gru_cell); }
