/* linear_attention.c -- KERN_LINEAR_ATTENTION: td::linear_attention (ops/aten/linear_attention.c).
 *
 * A column of a head's state meets no other column: a task is a block of columns of one head, which stays in L1 over
 * all rows. A row goes over it twice: what the state has for its key; then the step and the products with the queries.
 * The first row reads the past and writes the new state. */
#include "kernels/simd/simd_priv.h"
#include "kernels/tasks_priv.h"

enum { QUERY, KEY, VALUE, PAST, KEEP, BETA, OPERANDS };
enum { VECTORS = 4, COLUMNS = VECTORS * V_LANES /* of a block */ };

typedef struct job {
  const float *in[OPERANDS]; /* NULL: absent */
  int64_t pitch[OPERANDS];   /* between rows */
  float *y, *state;          /* state NULL: nobody wants it */
  int64_t batch, rows, heads, query_heads, key_heads, keys, values;
  bool keep_each, beta_each; /* a factor per key; per head */
  float scale;
} job;

/* A block: columns [first, first + lanes of all) of head h of sample b. */
typedef struct block {
  int64_t b, h, first, lanes[VECTORS];
  const float *past;
  float *state;
  int64_t past_pitch, state_pitch; /* between keys */
} block;

typedef struct columns {
  vf at[VECTORS];
} columns;

V_INLINE columns load(const block *k, const float *from, const bool whole) {
  columns c;
  V_FOR(u, VECTORS) c.at[u] = whole ? v_load(from + u * V_LANES) : v_load_n(from + u * V_LANES, k->lanes[u]);
  return c;
}

V_INLINE void store(const block *k, float *to, columns c, const bool whole) {
  V_FOR(u, VECTORS) {
    if (whole) v_store(to + u * V_LANES, c.at[u]);
    else v_store_n(to + u * V_LANES, c.at[u], k->lanes[u]);
  }
}

V_INLINE columns fill(float x) {
  columns c;
  V_FOR(u, VECTORS) c.at[u] = v_set(x);
  return c;
}

/* to + x c */
V_INLINE void add(columns *to, float x, columns c) {
  const vf by = v_set(x);
  V_FOR(u, VECTORS) to->at[u] = v_fma(by, c.at[u], to->at[u]);
}

V_INLINE columns times(columns c, float x) {
  const vf by = v_set(x);
  V_FOR(u, VECTORS) c.at[u] = v_mul(c.at[u], by);
  return c;
}

/* The state before a row, NULL: zeros, and what it is multiplied by: key i by keep[i * step]. */
typedef struct before {
  const float *at, *keep;
  int64_t pitch, step;
} before;

/* What the state has for the key. */
V_INLINE columns meet(const block *k, before s, const float *key, const int64_t keys, const bool whole) {
  columns met = fill(0);
  for (int64_t i = 0; s.at && i < keys; i++)
    add(&met, key[i], times(load(k, s.at + i * s.pitch, whole), s.keep[i * s.step]));
  return met;
}

/* The state after the row; what it gives the query. */
V_INLINE columns take_step(const block *k, before s, const float *key, const float *query, const int64_t keys,
                           columns step, const bool whole) {
  const int64_t pitch = k->state_pitch;
  float *state = k->state;
  columns sum = fill(0);
  for (int64_t i = 0; i < keys; i++) {
    columns c = s.at ? times(load(k, s.at + i * s.pitch, whole), s.keep[i * s.step]) : fill(0);
    add(&c, key[i], step);
    store(k, state + i * pitch, c, whole);
    add(&sum, query[i], c);
  }
  return sum;
}

V_INLINE columns ask(const block *k, const float *query, const int64_t keys, const bool whole) {
  const int64_t pitch = k->state_pitch;
  const float *state = k->state;
  columns sum = fill(0);
  for (int64_t i = 0; i < keys; i++) add(&sum, query[i], load(k, state + i * pitch, whole));
  return sum;
}

V_INLINE void do_row(const job *j, const block *k, int64_t row, const float *from, int64_t pitch, const bool whole) {
  static const float one = 1;
  const int64_t keys = j->keys, outs = base_max_i64(j->heads, j->query_heads), group = outs / j->heads;
  const float *key = j->in[KEY] + row * j->pitch[KEY] + k->h / (j->heads / j->key_heads) * keys;
  const float *keep = j->in[KEEP] ? j->in[KEEP] + row * j->pitch[KEEP] + k->h * (j->keep_each ? keys : 1) : &one;
  const before s = {from, keep, pitch, j->keep_each};
  columns step = load(k, j->in[VALUE] + row * j->pitch[VALUE] + k->h * j->values + k->first, whole);
  if (j->in[BETA]) {
    const vf beta = v_set(j->in[BETA][row * j->pitch[BETA] + (j->beta_each ? k->h : 0)]);
    const columns met = meet(k, s, key, keys, whole);
    V_FOR(u, VECTORS) step.at[u] = v_mul(beta, v_sub(step.at[u], met.at[u]));
  }
  for (int64_t o = k->h * group; o < (k->h + 1) * group; o++) {
    const float *query = j->in[QUERY] + row * j->pitch[QUERY] + o / (outs / j->query_heads) * keys;
    const columns y = o == k->h * group ? take_step(k, s, key, query, keys, step, whole) : ask(k, query, keys, whole);
    store(k, j->y + (row * outs + o) * j->values + k->first, times(y, j->scale), whole);
  }
}

static void do_block(const job *j, const block *k) {
  for (int64_t t = 0; t < j->rows; t++) {
    const float *from = t ? k->state : k->past;
    const int64_t pitch = t ? k->state_pitch : k->past_pitch, row = k->b * j->rows + t;
    if (k->lanes[VECTORS - 1] == V_LANES) do_row(j, k, row, from, pitch, true);
    else do_row(j, k, row, from, pitch, false);
  }
}

/* No row: the state stays. */
static void keep_block(const job *j, const block *k) {
  for (int64_t i = 0; i < j->keys; i++) {
    const columns c = k->past ? load(k, k->past + i * k->past_pitch, false) : fill(0);
    store(k, k->state + i * k->state_pitch, c, false);
  }
}

static bool read_job(const base_call *call, job *j) {
  const base_tensor *q = base_in(call, QUERY), *v = base_in(call, VALUE), *k = base_in(call, KEY);
  const base_tensor *keep = base_in(call, KEEP), *beta = base_in(call, BETA), *past = base_in(call, PAST);
  *j = (job){.y = base_out(call, 0)->data,
             .state = base_out(call, 1) ? base_out(call, 1)->data : NULL,
             .batch = q->dims[0],
             .rows = q->dims[1],
             .heads = base_attr_int(call->attrs, KERN_LINEAR_ATTENTION_HEADS),
             .query_heads = base_attr_int(call->attrs, KERN_LINEAR_ATTENTION_QUERY_HEADS),
             .scale = (float)base_attr_float(call->attrs, KERN_LINEAR_ATTENTION_SCALE)};
  j->keys = q->dims[2] / j->query_heads;
  j->values = v->dims[2] / j->heads;
  j->key_heads = j->keys ? k->dims[2] / j->keys : 0;
  j->keep_each = keep && keep->dims[2] > j->heads;
  j->beta_each = beta && beta->dims[2] > 1;
  for (uint32_t i = 0; i < OPERANDS; i++) {
    const base_tensor *t = base_in(call, i);
    if (!t) continue;
    j->in[i] = t->data;
    j->pitch[i] = kern_pitch(t);
    if (t->dims[0] != j->batch || (i != PAST && t->dims[1] != j->rows)) return false;
  }
  return j->keys * j->query_heads == q->dims[2] && j->values * j->heads == v->dims[2] && j->key_heads > 0 &&
         j->key_heads * j->keys == k->dims[2] && j->heads % j->key_heads == 0 &&
         (!past || (past->dims[1] == j->heads && past->dims[2] == j->keys && past->dims[3] == j->values)) &&
         (!keep || keep->dims[2] == j->heads || keep->dims[2] == j->heads * j->keys) &&
         (!beta || beta->dims[2] == j->heads || beta->dims[2] == 1);
}

static block block_of(const job *j, int64_t task, float *room) {
  const int64_t blocks = (j->values + COLUMNS - 1) / COLUMNS, head = task / blocks;
  block k = {.b = head / j->heads, .h = head % j->heads, .first = task % blocks * COLUMNS};
  for (int u = 0; u < VECTORS; u++)
    k.lanes[u] = base_max_i64(0, base_min_i64(V_LANES, j->values - k.first - u * V_LANES));
  k.past_pitch = j->pitch[PAST];
  k.past = j->in[PAST] ? j->in[PAST] + head * j->keys * k.past_pitch + k.first : NULL;
  k.state_pitch = room ? COLUMNS : j->values;
  k.state = room ? room : j->state + head * j->keys * j->values + k.first;
  return k;
}

td_status KERN_NAME(linear_attention)(const base_call *call) {
  job j;
  if (base_tensor_numel(base_in(call, VALUE)) == 0 && !base_out(call, 1)) return TD_OK;
  if (!read_job(call, &j))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "queries, keys, values and factors do not fit together");
  float *room = j.state ? NULL : base_call_scratch(call, (size_t)j.keys, COLUMNS * sizeof *room);
  if (!j.state && !room) return base_no_memory(call->err, "scratch");
  const int64_t tasks = j.batch * j.heads * ((j.values + COLUMNS - 1) / COLUMNS);
  for (int64_t t = base_call_first(call, tasks); t < tasks; t = base_call_next(call, t, tasks)) {
    const block k = block_of(&j, t, room);
    if (j.rows) do_block(&j, &k);
    else if (j.state) keep_block(&j, &k);
  }
  return TD_OK;
}
