/* recurrent.c -- KERN_LSTM, KERN_GRU, KERN_RNN: whole layers over time (td::lstm_packed, td::gru_packed,
 * td::rnn_packed; weights as recurrent.h says). A task is a block (recurrent_priv.h): one direction of up to
 * RECURRENT_ROWS sequences. Where there are fewer of them than workers, all workers compute one block after the other
 * together, each some panels of every step. */
#include "kernels/products/recurrent_priv.h"
#include "kernels/simd/pairs_priv.h"
#include "kernels/tuning.h"

#include "base/size.h"
#include "base/team.h"

typedef recurrent_layer layer;
typedef recurrent_block block;
typedef recurrent_cell cell;
enum { X, W, R, BIAS, H0, C0, LENGTHS, PEEPHOLES };
enum { ROWS = RECURRENT_ROWS, SOME = RECURRENT_SOME };
enum {
  SUMS_BYTES = 1 << 17, /* of a chunk of steps: half of the smaller second-level caches, */
  SUMS_SHARE = 4,       /* or this part of r, so that the inputs' weights seldom drive r out of a cache */
  NEAR_BYTES = 1 << 18, /* what stays in most second-level caches */
  SHORT_STEPS = 2 * RECURRENT_SHORT_STEPS, /* from which a sequence is woven */
  LONG_STEPS = 4 * RECURRENT_LONG_STEPS,   /* from which its chunks are long, where r is not near */
  SHARED_STEP = 3 << 14, /* multiplications of a step from which workers share it: some us, and a round takes 0.3; */
  SHARED_TILES = 3 << 16 /* of 16 or 8 bits */
};

/* ---- blocks ---- */

static void read_state(const block *k, const base_tensor *from, float *to) {
  const layer *l = k->l;
  memset(to, 0, (size_t)(l->rows * l->padded) * sizeof *to);
  for (int64_t row = 0; from && row < k->count; row++) {
    int64_t sequence = (k->first + row) * from->strides[!l->batch_first];
    const float *at = (const float *)from->data + sequence + k->direction * from->strides[l->batch_first];
    for (int64_t i = 0; i < l->hidden; i++) to[row * l->padded + i] = at[i * from->strides[2]];
  }
}

static void write_row(const block *k, int64_t row, const float *from, float *to) {
  const layer *l = k->l;
  int64_t b = k->first + row, at = l->batch_first ? b * l->dirs + k->direction : k->direction * l->batch + b;
  if (to) memcpy(to + at * l->hidden, from + row * l->padded, (size_t)l->hidden * sizeof *to);
}

/* The last states of sequences that have `length` steps. */
static void write_states(const block *k, int64_t length) {
  for (int64_t row = 0; row < k->count; row++) {
    if (recurrent_length(k, row) != length) continue;
    write_row(k, row, k->state, k->l->last);
    write_row(k, row, k->memory, k->l->last_memory);
  }
}

/* Zeros behind the last step of each sequence. */
static void write_zeros(const block *k) {
  const layer *l = k->l;
  for (int64_t row = 0; l->y && row < k->count; row++)
    for (int64_t t = recurrent_length(k, row); t < l->time; t++) {
      const int64_t b = k->first + row, step = l->batch_first ? b * l->time + t : t;
      const int64_t at = step * l->dirs + k->direction;
      memset(l->y + (l->batch_first ? at : at * l->batch + b) * l->hidden, 0, (size_t)l->hidden * sizeof *l->y);
    }
}

static void swap_states(block *k) {
  float *state = k->next;
  k->next = k->state;
  k->state = state;
}

/* ---- panels ---- */

typedef struct round_of {
  const block *k;
  recurrent_panels *run;
  int64_t step, other;
} round_of;

/* Even numbers of panels: a sequence alone walks two at once. */
static void run_piece(const void *user, uint32_t piece, uint32_t pieces) {
  const round_of *r = user;
  const int64_t panels = r->k->l->panels;
  block k = *r->k;
  k.panel = panels * piece / pieces / 2 * 2;
  k.panel_end = piece + 1 == pieces ? panels : panels * (piece + 1) / pieces / 2 * 2;
  r->run(&k, r->step, r->other);
}

static void run_panels(const block *k, recurrent_panels *run, int64_t step, int64_t other) {
  const round_of r = {k, run, step, other};
  if (k->l->together) base_team_do(k->l->call, run_piece, &r);
  else run(k, step, other);
}

/* The state in bf16; or as two such numbers, whose sum it is but for 2^-17 of it: tiles have room for more rows than
 * sequences are mostly many. Of what is not finite, or rounds to that, rounding takes nothing. */
void KERN_NAME(recurrent_halves)(block *k) {
  const layer *l = k->l;
  const int64_t pitch = kern_recurrent_tiled(l->hidden);
  for (int64_t row = 0; row < k->count; row++) {
    const float *state = k->state + row * l->padded;
    uint16_t *to = k->halves + row * pitch, *rest = to + k->count * pitch;
    for (int64_t i = 0; i < l->hidden; i += V_LANES) {
      const vf x = v_load(state + i), high = p_widen(p_round(x));
      const vm finite = v_lt(v_abs(high), v_set(INFINITY));
      const int64_t lanes = base_min_i64(V_LANES, l->hidden - i);
      p_store(to + i, high, lanes);
      if (l->rests) p_store(rest + i, v_select(finite, v_sub(x, high), v_zero()), lanes);
    }
  }
}

static void run_step(block *k, recurrent_panels *const *phases, int64_t step, int64_t slot) {
  if (k->l->prepare) k->l->prepare(k);
  run_panels(k, phases[0], step, slot);
  if (phases[1] && !k->l->linear_before_reset) run_panels(k, phases[1], step, slot);
  swap_states(k);
}

/* ---- steps ---- */

/* Those of a chunk that are x, side by side. */
static void copy_sums(const block *k, int64_t step, int64_t steps) {
  const int64_t width = k->l->width;
  for (int64_t row = 0; row < steps * k->count; row++)
    memcpy(k->sums + row * width, recurrent_input(k, row, step) + k->direction * width, (size_t)width * sizeof(float));
}

static void run_chunks(const cell *c, block *k) {
  const layer *l = k->l;
  const int size = k->count <= 2 ? (int)k->count - 1 : k->count <= SOME ? 2 : 3;
  for (int64_t step = 0; step < k->time; step += l->chunk) {
    int64_t steps = base_min_i64(l->chunk, k->time - step);
    if (l->made) copy_sums(k, step, steps);
    else run_panels(k, c->inputs, step, steps);
    for (int64_t i = 0; i < steps; i++) {
      if (l->lengths) write_states(k, step + i);
      run_step(k, c->step[size], step + i, i);
    }
  }
}

static void run_woven(const cell *c, block *k) {
  const int pieces = k->l->pieces;
  const int64_t steps = pieces == RECURRENT_LONG ? RECURRENT_LONG_STEPS : RECURRENT_SHORT_STEPS;
  c->turn(k, 0);
  run_panels(k, c->begin, 0, steps);
  for (int64_t step = 0; step < k->time; step++) {
    const int64_t next = step + steps;
    if (next < k->time && next % base_max_i64(V_LANES, steps) == 0) c->turn(k, next);
    run_step(k, c->woven[pieces], step, step % (2 * steps));
  }
}

static void run_block(const cell *c, block *k) {
  const layer *l = k->l;
  k->time = recurrent_length(k, 0);
  for (int64_t row = 1; row < k->count; row++) k->time = base_max_i64(k->time, recurrent_length(k, row));
  read_state(k, l->h0, k->state);
  read_state(k, l->c0, k->memory);
  memset(k->next, 0, (size_t)(l->rows * l->padded) * sizeof *k->next);
  if (l->weave && k->count == 1 && k->time > 0) run_woven(c, k);
  else run_chunks(c, k);
  write_states(k, k->time);
  write_zeros(k);
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

/* The lengths as numbers side by side. */
static td_status read_lengths(layer *l) {
  const base_tensor *lengths = base_in(l->call, LENGTHS);
  if (!lengths) return TD_OK;
  int64_t *to = base_call_scratch(l->call, (size_t)l->batch, sizeof *to);
  if (!to) return base_no_memory(l->call->err, "scratch");
  if (base_tensor_numel(lengths) != l->batch)
    return base_fail(l->call->err, TD_BAD_ARGUMENT, NULL, -1, "%lld sequences have %lld lengths", (long long)l->batch,
                     (long long)base_tensor_numel(lengths));
  for (int64_t b = 0; b < l->batch; b++) {
    to[b] = base_load_i64(lengths->dtype, lengths->data, b * lengths->strides[0]);
    if (to[b] < 0 || to[b] > l->time)
      return base_fail(l->call->err, TD_BAD_ARGUMENT, NULL, -1, "a sequence length is outside [0, %lld]",
                       (long long)l->time);
  }
  l->lengths = to;
  return TD_OK;
}

/* Elements of r. */
static bool count_states(layer *l, const kern_recurrent *r, size_t *count) {
  if (l->states == TD_F32) return kern_recurrent_count(r, l->hidden, count);
  if (l->states == TD_BF16) return kern_recurrent_tile_count(r, l->hidden, count);
  if (!kern_recurrent_bytes(r, l->hidden, base_attr_int(l->call->attrs, KERN_LSTM_DEPTH), &l->bytes)) return false;
  *count = (size_t)l->bytes.size;
  return true;
}

static td_status check_sizes(layer *l) {
  const base_attrs *attrs = l->call->attrs;
  kern_recurrent r = {l->dirs, l->plain ? 1 : l->gates, l->hidden, base_attr_int(attrs, KERN_RECURRENT_PANEL)};
  const base_tensor *bias = base_in(l->call, BIAS);
  const base_tensor *states[] = {l->h0, l->c0};
  size_t w, u, b, p;
  const base_tensor *weights = base_in(l->call, W), *peepholes = base_in(l->call, PEEPHOLES);
  bool fits = r.panel == l->units && kern_recurrent_count(&r, l->input, &w) && (!l->prepare || l->made) &&
              count_states(l, &r, &u) && kern_recurrent_bias_count(&r, &b) &&
              (weights ? (size_t)base_tensor_numel(weights) == w : l->input == kern_recurrent_columns(&r)) &&
              (size_t)base_tensor_numel(base_in(l->call, R)) == u && (!bias || (size_t)base_tensor_numel(bias) == b) &&
              (!peepholes ||
               (l->gates == 4 && kern_recurrent_peephole_count(&r, &p) && (size_t)base_tensor_numel(peepholes) == p));
  for (int i = 0; i < 2; i++)
    fits = fits && (!states[i] || (states[i]->rank == 3 && states[i]->dims[l->batch_first] == l->dirs &&
                                   states[i]->dims[!l->batch_first] == l->batch && states[i]->dims[2] == l->hidden));
  return fits ? TD_OK
              : base_fail(l->call->err, TD_BAD_ARGUMENT, NULL, -1,
                          "the packed weights or the initial states do not fit the sizes of x; pack them anew");
}

/* Of r, in one direction. */
static int64_t state_bytes(const layer *l) {
  if (l->states == TD_BF16) return kern_recurrent_tiled(l->hidden) * l->width * 2;
  return l->hidden * l->width * (l->states == TD_F32 ? (int64_t)sizeof(float) : 1);
}

static td_status open_layer(const base_call *call, const cell *c, bool plain, layer *l) {
  const base_attrs *attrs = call->attrs;
  const base_tensor *x = base_in(call, X);
  *l = (layer){.call = call,
               .x = x,
               .h0 = base_in(call, H0),
               .c0 = base_in(call, C0),
               .y = base_out(call, 0) ? base_out(call, 0)->data : NULL,
               .last = base_out(call, 1) ? base_out(call, 1)->data : NULL,
               .last_memory = base_out(call, 2) ? base_out(call, 2)->data : NULL,
               .hidden = base_attr_int(attrs, KERN_RECURRENT_HIDDEN),
               .dirs = base_attr_int(attrs, KERN_RECURRENT_DIRECTIONS),
               .reverse = base_attr_int(attrs, KERN_RECURRENT_REVERSE),
               .batch_first = base_attr_int(attrs, KERN_RECURRENT_BATCH_FIRST),
               .linear_before_reset = c->gates == 3 && base_attr_int(attrs, KERN_GRU_LINEAR_BEFORE_RESET),
               .plain = plain,
               .relu = plain && base_attr_int(attrs, KERN_RNN_RELU),
               .gates = c->gates,
               .units = plain ? KERN_PLAIN_VECTORS * V_LANES : V_LANES,
               .input = x->dims[2]};
  l->time = x->dims[l->batch_first];
  l->batch = x->dims[!l->batch_first];
  l->panels = (l->hidden + l->units - 1) / l->units;
  l->padded = l->panels * l->units;
  l->width = l->panels * l->gates * V_LANES;
  l->made = !base_in(call, W);
  l->states = base_in(call, R)->dtype;
  l->prepare = c->prepare;
  l->rests = c->rests;
  l->rows = c->rows;
  l->weave = !l->made && c->begin && l->time >= SHORT_STEPS && state_bytes(l) <= kern_tuning_of(call)->woven_bytes;
  l->pieces = l->time >= LONG_STEPS && state_bytes(l) >= NEAR_BYTES ? RECURRENT_LONG : RECURRENT_SHORT;
  int64_t step = (int64_t)sizeof(float) * l->width * base_min_i64(l->rows, l->batch);
  const int64_t sums = base_max_i64(SUMS_BYTES, state_bytes(l) / SUMS_SHARE);
  l->chunk = step ? base_min_i64(base_max_i64(sums / step, l->rows), l->time) : 1;
  return check_sizes(l);
}

static td_status open_block(const layer *l, block *k) {
  size_t states = (size_t)(l->rows * l->padded), step = (size_t)l->width;
  int64_t steps = base_max_i64(l->chunk * base_min_i64(l->rows, l->batch), RECURRENT_RING);
  *k = (block){.l = l, .panel_end = l->panels};
  k->sums = base_call_scratch(l->call, (size_t)steps, step * sizeof(float));
  k->transposed = base_call_scratch(l->call, (size_t)l->input, V_LANES * sizeof(float));
  k->state = base_call_scratch(l->call, states, sizeof(float));
  k->next = base_call_scratch(l->call, states, sizeof(float));
  k->memory = base_call_scratch(l->call, states, sizeof(float));
  k->kept = base_call_scratch(l->call, states, sizeof(float));
  const size_t halves = l->prepare ? (size_t)(2 * l->rows * kern_recurrent_tiled(l->hidden)) : 0;
  k->halves = base_call_scratch(l->call, halves, sizeof *k->halves);
  if (k->halves) memset(k->halves, 0, halves * sizeof *k->halves); /* also behind a state */
  return k->sums && k->transposed && k->state && k->next && k->memory && k->kept && k->halves
             ? TD_OK
             : base_no_memory(l->call->err, "scratch");
}

/* How many of the last sequences, too few to fill a block, are blocks of their own: woven, one beside a pair takes less
 * than a block of more does, if r stays near. */
static int64_t lone_sequences(const layer *l) {
  const int64_t rest = l->batch % ROWS;
  return l->weave && (rest == 1 || rest == 3) && state_bytes(l) <= NEAR_BYTES ? 1 : 0;
}

/* How many sequences of `count` a block has, so that fewest are computed and dropped. */
static int64_t block_rows(const layer *l, int64_t count) {
  if (l->prepare) return base_max_i64(base_ceil_div(count, base_ceil_div(count, l->rows)), 1);
  const int64_t some = SOME, most = ROWS;
  return (count + some - 1) / some * some < (count + most - 1) / most * most ? some : most;
}

/* How a layer is cut into blocks. */
typedef struct blocks_of {
  int64_t lone, rows, shared, count; /* blocks of one sequence; sequences of the others; these; in a direction */
} blocks_of;

static blocks_of cut(const layer *l) {
  blocks_of b = {.lone = lone_sequences(l)};
  b.rows = block_rows(l, l->batch - b.lone);
  b.shared = (l->batch - b.lone + b.rows - 1) / b.rows;
  b.count = b.shared + b.lone;
  return b;
}

static td_status run_blocks(layer *l, const cell *c, const blocks_of *b) {
  const base_call *call = l->call;
  block k;
  base_tensor copy;
  TRY(read_lengths(l));
  TRY(dense_rows(l, &copy));
  TRY(open_block(l, &k));
  const float *w = l->made ? NULL : base_in(call, W)->data;
  const base_tensor *bias = base_in(call, BIAS), *peepholes = base_in(call, PEEPHOLES);
  uint32_t tasks = (uint32_t)base_min_i64(l->dirs * b->count, UINT32_MAX - 64);
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks)) {
    int64_t number = task % b->count;
    k.direction = task / b->count;
    k.first = number < b->shared ? number * b->rows : l->batch - (b->count - number);
    k.count = number < b->shared ? base_min_i64(b->rows, l->batch - b->lone - k.first) : 1;
    k.backward = l->reverse || k.direction == 1;
    k.w = l->made ? NULL : w + k.direction * l->width * l->input;
    k.r = (const char *)base_in(call, R)->data + (l->bytes.size ? 0 : k.direction * state_bytes(l));
    k.bias = bias ? (const float *)bias->data + k.direction * l->padded * KERN_RECURRENT_BIASES : NULL;
    k.peepholes =
        peepholes ? (const float *)peepholes->data + k.direction * l->padded * KERN_RECURRENT_PEEPHOLES : NULL;
    run_block(c, &k);
  }
  return TD_OK;
}

static td_status run(const base_call *call, const cell *c, bool plain) {
  layer l;
  TRY(open_layer(call, c, plain, &l));
  if (l.batch == 0 || l.hidden == 0) return TD_OK;
  const blocks_of b = cut(&l);
  l.together = call->lanes && l.dirs * b.count < call->workers &&
               l.width * l.hidden * base_min_i64(l.batch, b.rows) >= (l.prepare ? SHARED_TILES : SHARED_STEP);
  if (l.together && call->worker) {
    base_team_follow(call);
    return TD_OK;
  }
  const td_status status = run_blocks(&l, c, &b);
  if (l.together) base_team_end(call);
  return status;
}

td_status KERN_NAME(recurrent_by)(const base_call *call, const cell *c) { return run(call, c, false); }
td_status KERN_NAME(lstm)(const base_call *call) { return run(call, &KERN_NAME(lstm_cell), false); }
td_status KERN_NAME(gru)(const base_call *call) { return run(call, &KERN_NAME(gru_cell), false); }
td_status KERN_NAME(rnn)(const base_call *call) { return run(call, &KERN_NAME(lstm_cell), true); }
