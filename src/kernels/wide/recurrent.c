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
/* Sequences of a block; times the four gates of an LSTM they fill the registers. One sequence alone walks PANELS panels
 * at once: the sums of one are too few to hide the latency of a multiplication. */
enum { ROWS = V_REGISTERS == 32 ? 6 : 3, PANELS = 2, GATES_MAX = 4 };
enum { SUMS_MAX = ROWS > PANELS ? ROWS *GATES_MAX : PANELS *GATES_MAX };
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

/* Side by side in registers: `panels` panels, `pitch` floats apart, `width` vectors in a row of each, of which the
 * first `gates` are read. */
typedef struct columns {
  int panels, gates, width;
  int64_t pitch;
} columns;

/* acc[row][panel][gate] += sum over k of a[row][k] b[panel][k][gate]. */
V_INLINE void multiply(int rows, columns c, const float *const *a, const float *b, int64_t k, vf *acc) {
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
  multiply(rows, (columns){1, gates, gates, 0}, a, k->w + panel * l->input * gates * V_LANES, l->input, acc);
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

/* The sums of `gates` of the `width` gates from gate `first` on, of panels from `panel` on at one step: inputs' part
 * and states' part. */
V_INLINE void gate_sums(int rows, int panels, int first, int gates, int width, const block *k, const float *states,
                        int64_t step, int64_t panel, vf *acc) {
  const layer *l = k->l;
  const columns c = {panels, gates, width, l->hidden * width * V_LANES};
  const float *a[ROWS];
  V_UNROLL
  for (int row = 0; row < rows; row++) {
    a[row] = states + row * l->padded;
    V_UNROLL
    for (int p = 0; p < panels; p++) {
      const float *sums = sums_of(k, row, step, panel + p) + first * V_LANES;
      V_UNROLL
      for (int g = 0; g < gates; g++) acc[(row * panels + p) * gates + g] = v_load(sums + g * V_LANES);
    }
  }
  multiply(rows, c, a, k->r + panel * c.pitch + first * V_LANES, l->hidden, acc);
}

/* d = 1 + exp(-x), x bounded so that a product of two of them is finite. With d of x, sigmoid(x) = 1 / d; with d of
 * 2 x, tanh(x) = (2 - d) / d. Within 3e-7, absolutely. */
V_INLINE vf gate(vf x) {
  const vf most = v_set(43);
  return v_one_plus_exp_neg(v_min(most, v_max(v_neg(most), x)));
}
V_INLINE vf gate_twice(vf x) { return gate(v_add(x, x)); }
V_INLINE vf over(vf d) { return v_sub(v_set(2), d); }
V_INLINE vf sigmoid_of(vf x) { return v_div(v_set(1), gate(x)); }
V_INLINE vf tanh_of(vf x) {
  vf d = gate_twice(x);
  return v_div(over(d), d);
}

V_INLINE void lstm_cell_of(const block *k, int row, int64_t t, int64_t panel, const vf *sums) {
  float *memory = k->memory + row * k->l->padded + panel * V_LANES;
  vf in = gate(sums[0]), out = gate(sums[1]), forget = gate(sums[2]), candidate = gate_twice(sums[3]);
  vf added = v_div(over(candidate), v_mul(in, candidate));
  vf c = v_add(v_div(v_load(memory), forget), added), bent = gate_twice(c);
  v_store(memory, c);
  put_state(k, row, t, panel, v_div(over(bent), v_mul(out, bent)));
}

V_INLINE void lstm_panels(int rows, int panels, const block *k, int64_t step, int64_t t, int64_t panel) {
  vf acc[SUMS_MAX];
  gate_sums(rows, panels, 0, 4, 4, k, k->state, step, panel, acc);
  V_UNROLL
  for (int i = 0; i < rows * panels; i++) lstm_cell_of(k, i / panels, t, panel + i % panels, acc + i * 4);
}

/* (1 - z) candidate + z state */
V_INLINE vf gru_blend(vf z, vf candidate, vf state) { return v_fma(z, v_sub(state, candidate), candidate); }

/* The candidate's state product is taken before the reset gate. */
V_INLINE void gru_panels(int rows, int panels, const block *k, int64_t step, int64_t t, int64_t panel) {
  const layer *l = k->l;
  const columns c = {panels, 3, 3, l->hidden * 3 * V_LANES};
  vf acc[SUMS_MAX];
  const float *a[ROWS];
  V_UNROLL
  for (int row = 0; row < rows; row++) a[row] = k->state + row * l->padded;
  V_UNROLL
  for (int i = 0; i < rows * panels; i++) {
    const float *sums = sums_of(k, i / panels, step, panel + i % panels);
    const float *bias = k->bias ? k->bias + ((panel + i % panels) * KERN_RECURRENT_BIASES + 3) * V_LANES : NULL;
    acc[i * 3] = v_load(sums);
    acc[i * 3 + 1] = v_load(sums + V_LANES);
    acc[i * 3 + 2] = bias ? v_load(bias) : v_zero();
  }
  multiply(rows, c, a, k->r + panel * c.pitch, l->hidden, acc);
  V_UNROLL
  for (int i = 0; i < rows * panels; i++) {
    int64_t at = panel + i % panels;
    vf inputs = v_load(sums_of(k, i / panels, step, at) + 2 * V_LANES);
    vf z = sigmoid_of(acc[i * 3]), reset = sigmoid_of(acc[i * 3 + 1]);
    vf candidate = tanh_of(v_fma(reset, acc[i * 3 + 2], inputs));
    put_state(k, i / panels, t, at, gru_blend(z, candidate, v_load(a[i / panels] + at * V_LANES)));
  }
}

/* The reset gate comes first: z and the reset state of all panels, */
V_INLINE void gru_reset_panels(int rows, int panels, const block *k, int64_t step, int64_t t, int64_t panel) {
  (void)t;
  vf acc[SUMS_MAX];
  gate_sums(rows, panels, 0, 2, 3, k, k->state, step, panel, acc);
  V_UNROLL
  for (int i = 0; i < rows * panels; i++) {
    int64_t at = i / panels * k->l->padded + (panel + i % panels) * V_LANES;
    v_store(k->memory + at, sigmoid_of(acc[i * 2]));
    v_store(k->kept + at, v_mul(sigmoid_of(acc[i * 2 + 1]), v_load(k->state + at)));
  }
}

/* then the candidates. */
V_INLINE void gru_candidate_panels(int rows, int panels, const block *k, int64_t step, int64_t t, int64_t panel) {
  vf acc[SUMS_MAX];
  gate_sums(rows, panels, 2, 1, 3, k, k->kept, step, panel, acc);
  V_UNROLL
  for (int i = 0; i < rows * panels; i++) {
    int64_t at = i / panels * k->l->padded + (panel + i % panels) * V_LANES;
    vf candidate = tanh_of(acc[i]);
    put_state(k, i / panels, t, panel + i % panels,
              gru_blend(v_load(k->memory + at), candidate, v_load(k->state + at)));
  }
}

/* All panels at one step of the block: `step` of the chunk, time t. They are walked to and fro: what was read last is
 * still in the first-level cache, which r often exceeds. */
typedef void panels_of(int rows, int panels, const block *k, int64_t step, int64_t t, int64_t panel);
V_INLINE void walk(int rows, const block *k, int64_t step, int64_t t, panels_of *of) {
  const int each = rows == 1 ? PANELS : 1;
  int64_t panels = k->l->padded / V_LANES, i = 0;
  for (; i + each <= panels; i += each) of(rows, each, k, step, t, step % 2 ? panels - each - i : i);
  for (; i < panels; i++) of(rows, 1, k, step, t, step % 2 ? panels - 1 - i : i);
}

V_INLINE void gru_step(int rows, const block *k, int64_t step, int64_t t) {
  if (k->l->linear_before_reset) {
    walk(rows, k, step, t, gru_panels);
    return;
  }
  walk(rows, k, step, t, gru_reset_panels);
  walk(rows, k, step, t, gru_candidate_panels);
}

/* What differs between cells: a step of one sequence, and of ROWS. */
typedef struct cell {
  int64_t gates;
  void (*inputs)(const block *k, int64_t step, int64_t steps);
  void (*step[2])(const block *k, int64_t step, int64_t t);
} cell;

static void lstm_inputs(const block *k, int64_t step, int64_t steps) { multiply_inputs(4, k, step, steps); }
static void lstm_one(const block *k, int64_t step, int64_t t) { walk(1, k, step, t, lstm_panels); }
static void lstm_many(const block *k, int64_t step, int64_t t) { walk(ROWS, k, step, t, lstm_panels); }
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
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks)) {
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
