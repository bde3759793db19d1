/* attention.c -- td::attention: q, k and v of any strides, the masks too.
 *
 * A task is a block of queries of one head. The block is transposed, so that a vector holds several queries: then keys
 * and values are read as they lie, the softmax of a query runs down the lanes and never across them, and both products
 * are one kind of tile, an element of one side times vectors of the other:
 *
 *     scores [keys, queries] = k [keys, size] x (scale q)^T [size, queries]
 *     out [queries, values]  = scores^T x v [keys, values]
 *
 * Keys come in blocks of KEYS; what was summed before is scaled down as a larger score appears (Milakov & Gimelshein
 * 2018). The sums of a query depend on the number of keys, never on which queries stand beside it. */
#include "kernels/products/attention_tile_priv.h"
#include "kernels/simd/math_priv.h"

enum { Q, K, V, MASK, LAST = MASK + ATTENTION_MASKS, SINKS };
enum {
  QUERIES = ATTENTION_QUERIES,
  PITCH = ATTENTION_PITCH,
  PAIR = 2 /* vectors of queries softened together: their steps do not wait for each other */
};

ATTENTION_TILES(false)

void KERN_NAME(attention_scores)(const attention_work *w, const attention_tiles *some, const attention_tile *t,
                                 int64_t count, int64_t queries) {
  const int64_t vectors = base_ceil_div(queries, V_LANES);
  attention_tile tile = *t;
  tile.last = V_LANES;
  tile.c_row = PITCH;
  for (int64_t j = 0; j < count; j += ATTENTION_ROWS_OF_TILE, tile.a += ATTENTION_ROWS_OF_TILE * t->a_row) {
    tile.rows = base_min_i64(count - j, ATTENTION_ROWS_OF_TILE);
    for (int64_t v = 0; v < vectors; v += ATTENTION_VECTORS) {
      tile.b = t->b + v * t->b_vector;
      tile.c = w->scores + j * PITCH + v * V_LANES;
      (*some)[tile.rows > 1][base_min_i64(vectors - v, ATTENTION_VECTORS) - 1](&tile);
    }
  }
}

void KERN_NAME(attention_values)(const attention_work *w, const attention_tiles *some, const attention_tile *t,
                                 int64_t queries, int ends, attention_output out) {
  attention_tile tile = *t;
  tile.c_row = out.pitch;
  for (int64_t e = 0; e < w->values; e += ATTENTION_VECTORS * V_LANES) {
    const int64_t columns = base_min_i64(w->values - e, ATTENTION_VECTORS * V_LANES),
                  vectors = base_ceil_div(columns, V_LANES);
    tile.b = t->b + e;
    tile.last = columns - (vectors - 1) * V_LANES;
    for (int64_t i = 0; i < queries; i += ATTENTION_ROWS_OF_TILE) {
      tile.rows = base_min_i64(queries - i, ATTENTION_ROWS_OF_TILE);
      tile.a = t->a + i;
      tile.c = out.at + i * out.pitch + e;
      tile.keep = ends & ATTENTION_BEGIN ? NULL : w->keep + i;
      tile.end = ends & ATTENTION_END ? w->sum + i : NULL;
      (*some)[tile.rows > 1][vectors - 1](&tile);
    }
  }
}

/* One head's rows of an operand. */
typedef struct rows_of {
  const float *at;
  int64_t pitch;
} rows_of;

/* Scratch of products of f32. */
typedef struct plain {
  float *queries;         /* [size, PITCH]: a block of queries, transposed and scaled */
  float *k_copy, *v_copy; /* dense rows, v's padded to whole vectors; NULL: read in place */
  int64_t copied;         /* the sample and group that the copies are of; -1: none */
  rows_of k, v;           /* of the head */
} plain;

/* A score under an element of a mask. */
V_INLINE vf mask_score(vf score, vf mask, bool replaces) {
  return replaces ? v_select(v_eq(mask, v_zero()), score, mask) : v_add(score, mask);
}

/* Queries: times their scale. Masks: what is there under them. */
enum { TURN_QUERIES, TURN_ADDING, TURN_REPLACING };

/* `count` <= V_LANES rows of `size` elements as `size` vectors, the c-th at to + c * PITCH; `how`: TURN_... */
V_TEMPLATE void turn_over(const float *from, int64_t row, int64_t step, int64_t count, int64_t size, int how,
                          float scale, float *to) {
  for (int64_t c = 0; c < size; c += V_LANES) {
    vf square[V_LANES];
    int64_t columns = base_min_i64(size - c, V_LANES);
    for (int64_t r = 0; r < V_LANES; r++)
      square[r] = r < count ? attention_load(from + r * row + c * step, step, columns) : v_zero();
    v_transpose(square);
    for (int64_t i = 0; i < columns; i++) {
      float *vector = to + (c + i) * PITCH;
      v_store(vector, how == TURN_QUERIES ? v_mul(square[i], v_set(scale))
                                          : mask_score(v_load(vector), square[i], how == TURN_REPLACING));
    }
  }
}

static void take_queries(const attention_work *w, int64_t b, int64_t h, int64_t first, int64_t count) {
  const float *from = attention_head(&w->q, b, h);
  int64_t row = w->q.strides[ATTENTION_ROWS];
  for (int64_t i = 0; i < count; i += V_LANES)
    turn_over(from + (first + i) * row, row, w->q.strides[ATTENTION_SIZE], base_min_i64(count - i, V_LANES), w->size,
              TURN_QUERIES, w->scale, ((plain *)w->own)->queries + i);
}

static void copy_rows(const base_tensor *t, int64_t b, int64_t g, int64_t rows, int64_t size, int64_t pitch,
                      float *to) {
  const float *from = attention_head(t, b, g);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < pitch; i++)
      to[r * pitch + i] = i < size ? from[r * t->strides[ATTENTION_ROWS] + i * t->strides[ATTENTION_SIZE]] : 0;
}

static int64_t whole_vectors(int64_t n) { return (n + V_LANES - 1) / V_LANES * V_LANES; }

static void take_keys(const attention_work *w, int64_t b, int64_t g) {
  plain *own = w->own;
  own->k = (rows_of){attention_head(w->k, b, g), w->k->strides[ATTENTION_ROWS]};
  own->v = (rows_of){attention_head(w->v, b, g), w->v->strides[ATTENTION_ROWS]};
  bool fresh = own->copied != b * w->groups + g;
  own->copied = b * w->groups + g;
  if (own->k_copy) {
    if (fresh) copy_rows(w->k, b, g, w->keys, w->size, w->size, own->k_copy);
    own->k = (rows_of){own->k_copy, w->size};
  }
  if (own->v_copy) {
    int64_t pitch = whole_vectors(w->values);
    if (fresh) copy_rows(w->v, b, g, w->keys, w->values, pitch, own->v_copy);
    own->v = (rows_of){own->v_copy, pitch};
  }
}

static void multiply_keys(const attention_work *w, int64_t first, int64_t count, int64_t queries) {
  const plain *own = w->own;
  const attention_tile t = {.a = own->k.at + first * own->k.pitch,
                            .a_row = own->k.pitch,
                            .a_step = 1,
                            .b = own->queries,
                            .b_step = PITCH,
                            .b_vector = V_LANES,
                            .k = w->size};
  KERN_NAME(attention_scores)(w, &tiles, &t, count, queries);
}

/* A mask as the softmax applies it: rows of keys, of one element for all queries or of one for each (`each`). */
typedef struct mask_rows {
  const float *at;
  int64_t pitch;
  bool each, replaces;
} mask_rows;

static bool lies_over_queries(const attention_mask *m) { return m->strides[2] == 0 || m->strides[2] == 1; }

/* What masks have for `queries` queries from `query` on and keys from `key` on: rows lie as the softmax takes them, or
 * are transposed and applied to the scores here, with those in front of them where order matters. Returns how many are
 * left to the softmax. */
static int take_masks(const attention_work *w, int64_t b, int64_t h, int64_t query, int64_t queries, int64_t key,
                      int64_t count, mask_rows *rows) {
  int taken = 0;
  const attention_mask *last = &w->masks[ATTENTION_MASKS - 1];
  const bool ordered = w->masks[0].replaces || last->replaces,
             all_here = ordered && last->data && !lies_over_queries(last);
  for (int m = 0; m < ATTENTION_MASKS; m++) {
    const int64_t *s = w->masks[m].strides;
    const bool replaces = w->masks[m].replaces;
    if (!w->masks[m].data) continue;
    const float *mask = w->masks[m].data + b % w->masks[m].samples * s[0] + h * s[1] + query * s[2] + key * s[3];
    if (lies_over_queries(&w->masks[m]) && !all_here) {
      rows[taken++] = (mask_rows){mask, s[3], s[2] == 1, replaces};
      continue;
    }
    for (int64_t i = 0; i < queries; i += V_LANES)
      turn_over(mask + i * s[2], s[2], s[3], base_min_i64(queries - i, V_LANES), count,
                replaces ? TURN_REPLACING : TURN_ADDING, 1, w->scores + i);
  }
  return taken;
}

/* Hides the keys behind each query, and those too far in front of it. `ahead`: the first key's place past the first
 * query's. */
static void hide_keys(const attention_work *w, int64_t count, int64_t queries, int64_t ahead) {
  for (int64_t j = w->causal ? base_max_i64(1 - ahead, 0) : count; j < count; j++)
    for (int64_t i = 0; i < base_min_i64(ahead + j, queries); i++) w->scores[j * PITCH + i] = -INFINITY;
  for (int64_t j = 0; w->left >= 0 && j < count; j++)
    for (int64_t i = base_max_i64(ahead + j + w->left + 1, 0); i < queries; i++) w->scores[j * PITCH + i] = -INFINITY;
}

/* Scores of `vectors` <= PAIR vectors of queries, of which `queries` exist, become exp(score - the largest so far). */
V_TEMPLATE void soften_some(const attention_work *w, const mask_rows *masks, int mask_count, int64_t count, int64_t at,
                            int64_t queries, const int vectors) {
  float *scores = w->scores + at;
  vf most[PAIR], base[PAIR], sum[PAIR];
  V_FOR(v, vectors) most[v] = v_load(w->most + at + v * V_LANES);
  for (int64_t j = 0; j < count; j++) V_FOR(v, vectors) {
      float *from = scores + j * PITCH + v * V_LANES;
      vf score = v_load(from);
      for (int m = 0; m < mask_count; m++) {
        const float *row = masks[m].at + j * masks[m].pitch;
        vf mask;
        if (!masks[m].each) mask = v_set(*row);
        else if (v + 1 < vectors) mask = v_load(row + at + v * V_LANES);
        else mask = v_load_n(row + at + v * V_LANES, queries - (vectors - 1) * V_LANES);
        score = mask_score(score, mask, masks[m].replaces);
      }
      if (mask_count) v_store(from, score);
      most[v] = v_max(most[v], score);
    }
  V_FOR(v, vectors) {
    const int64_t to = at + v * V_LANES;
    base[v] = v_select(v_eq(most[v], v_set(-INFINITY)), v_zero(), most[v]);
    vf keep = v_exp_neg(v_sub(base[v], v_load(w->most + to)));
    sum[v] = v_mul(v_load(w->sum + to), keep);
    v_store(w->most + to, most[v]);
    v_store(w->keep + to, keep);
  }
  for (int64_t j = 0; j < count; j++) V_FOR(v, vectors) {
      float *from = scores + j * PITCH + v * V_LANES;
      vf power = v_exp_neg(v_sub(base[v], v_load(from)));
      v_store(from, power);
      sum[v] = v_add(sum[v], power);
    }
  V_FOR(v, vectors) v_store(w->sum + at + v * V_LANES, sum[v]);
}

static void soften(const attention_work *w, const mask_rows *masks, int mask_count, int64_t count, int64_t queries) {
  int64_t i = 0;
  for (; i + V_LANES < queries; i += PAIR * V_LANES)
    soften_some(w, masks, mask_count, count, i, base_min_i64(queries - i, PAIR * V_LANES), PAIR);
  if (i < queries) soften_some(w, masks, mask_count, count, i, queries - i, 1);
}

static void multiply_values(const attention_work *w, int64_t first, int64_t count, int64_t queries, int ends,
                            attention_output out) {
  const rows_of values = ((const plain *)w->own)->v;
  const attention_tile t = {.a = w->scores,
                            .a_row = 1,
                            .a_step = PITCH,
                            .b = values.at + first * values.pitch,
                            .b_step = values.pitch,
                            .b_vector = V_LANES,
                            .k = count};
  KERN_NAME(attention_values)(w, &tiles, &t, queries, ends, out);
}

/* Sums become what rows are multiplied by at the end: infinity makes zeros what is no number. */
static void invert_sums(const attention_work *w) {
  const vf of_none = v_set(w->rows == KERN_ATTENTION_PLAIN ? INFINITY : 0);
  for (int64_t i = 0; i < QUERIES; i += V_LANES) {
    vf sum = v_load(w->sum + i);
    v_store(w->sum + i, v_select(v_eq(sum, v_zero()), of_none, v_div(v_set(1), sum)));
  }
}

/* Rows of results whose sums are no numbers. */
static void clear_rows(const attention_work *w, int64_t queries, attention_output out) {
  for (int64_t i = 0; i < queries; i++)
    if (isnan(w->sum[i])) memset(out.at + i * out.pitch, 0, (size_t)w->values * sizeof *out.at);
}

/* Rows that see no key. */
static void fill_rows(const attention_work *w, int64_t queries, attention_output out) {
  for (int64_t i = 0; i < queries; i++)
    for (int64_t e = 0; e < w->values; e++)
      out.at[i * out.pitch + e] = w->rows == KERN_ATTENTION_PLAIN && !w->sinks ? NAN : 0;
}

/* What rows have seen before the first key: nothing, or the sink of their head. Where all queries stand in one place,
 * they are heads. */
static void begin_rows(const attention_work *w, int64_t h, int64_t first, int64_t queries) {
  for (int64_t i = 0; i < QUERIES; i++) {
    const float *sink = w->sinks && i < queries ? w->sinks + (w->places == 1 ? h * w->queries + first + i : h) : NULL;
    w->most[i] = sink ? *sink : -INFINITY;
    w->sum[i] = w->most[i] == -INFINITY ? 0 : 1;
  }
}

static void cap_scores(const attention_work *w, int64_t count, int64_t queries) {
  const vf cap = v_set(w->softcap), inverse = v_set(1 / w->softcap);
  for (int64_t j = 0; j < count; j++)
    for (int64_t i = 0; i < queries; i += V_LANES) {
      float *score = w->scores + j * PITCH + i;
      v_store(score, v_mul(cap, v_tanh(v_mul(v_load(score), inverse))));
    }
}

/* Keys of sample `b` that are in use. */
static int64_t used_keys(const attention_work *w, int64_t b) {
  if (!w->last) return w->keys;
  const int64_t last = base_load_i64(w->last->dtype, w->last->data, b * w->last->strides[0]);
  return base_min_i64(last, INT32_MAX) + 1; /* so many are never there */
}

static void attend(const attention_work *w, const attention_products *p, int64_t b, int64_t h, int64_t first) {
  const int64_t queries = base_min_i64(w->queries - first, w->block), used = used_keys(w, b);
  const bool alike = w->places == 1; /* all queries stand in one place */
  const int64_t place = (w->last ? base_max_i64(used - w->places, 0) : 0) + (alike ? 0 : first);
  const int64_t end = w->causal ? base_min_i64(used, place + (alike ? 1 : queries)) : used;
  const int64_t start = w->left < 0 ? 0 : base_max_i64(place - w->left, 0);
  attention_output out = {w->out + b * w->out_sample + h * w->out_head + first * w->out_row, w->out_row};
  begin_rows(w, h, first, queries);
  if (start >= end) {
    fill_rows(w, queries, out);
    return;
  }
  p->take_queries(w, b, h, first, queries);
  p->take_keys(w, b, h * w->groups / w->heads);
  for (int64_t j = start; j < end; j += ATTENTION_KEYS) {
    const int64_t count = base_min_i64(end - j, ATTENTION_KEYS);
    const int ends = (j == start ? ATTENTION_BEGIN : 0) | (j + count == end ? ATTENTION_END : 0);
    mask_rows masks[ATTENTION_MASKS];
    p->multiply_keys(w, j, count, queries);
    if (w->softcap != 0) cap_scores(w, count, queries);
    int mask_count = take_masks(w, b, h, first, queries, j, count, masks);
    if (!alike) hide_keys(w, count, queries, j - place);
    soften(w, masks, mask_count, count, queries);
    if (ends & ATTENTION_END) invert_sums(w);
    p->multiply_values(w, j, count, queries, ends, out);
  }
  if (w->rows == KERN_ATTENTION_GUARDED) clear_rows(w, queries, out);
}

static td_status take_floats(const base_call *call, attention_work *w) {
  plain *own = base_call_scratch(call, 1, sizeof *own);
  if (!own) return base_no_memory(call->err, "scratch");
  *own = (plain){.queries = base_call_scratch(call, (size_t)w->size, PITCH * sizeof(float)), .copied = -1};
  w->own = own;
  if (!own->queries) return base_no_memory(call->err, "scratch");
  if (w->k->strides[ATTENTION_SIZE] != 1) {
    own->k_copy = base_call_scratch(call, (size_t)w->keys, (size_t)w->size * sizeof(float));
    if (!own->k_copy) return base_no_memory(call->err, "scratch");
  }
  if (w->v->strides[ATTENTION_SIZE] != 1 || w->values % V_LANES) {
    own->v_copy = base_call_scratch(call, (size_t)w->keys, (size_t)whole_vectors(w->values) * sizeof(float));
    if (!own->v_copy) return base_no_memory(call->err, "scratch");
  }
  return TD_OK;
}

static td_status take_scratch(const base_call *call, attention_work *w) {
  float *rows = base_call_scratch(call, 3 * QUERIES + ATTENTION_ROWS_OF_TILE, sizeof *rows);
  w->scores = base_call_scratch(call, (size_t)base_min_i64(w->keys, ATTENTION_KEYS), PITCH * sizeof(float));
  if (!rows || !w->scores) return base_no_memory(call->err, "scratch");
  w->most = rows, w->sum = rows + QUERIES, w->keep = rows + 2 * QUERIES;
  return TD_OK;
}

static attention_mask broadcast_mask(const base_tensor *m, const int64_t *dims, bool replaces) {
  attention_mask mask = {.data = m ? m->data : NULL, .samples = 1, .replaces = replaces};
  for (int32_t i = 0; m && i < 4; i++) {
    int32_t own = i - (4 - m->rank);
    mask.strides[i] = own < 0 || m->dims[own] != dims[i] ? 0 : m->strides[own];
  }
  if (!m || m->rank < 4 || m->dims[0] < 1) return mask;
  mask.samples = m->dims[0];
  mask.strides[0] = m->strides[0];
  return mask;
}

/* One query of each head: the heads of a group, which read the same keys, are the queries of a block. */
static void take_heads_as_queries(attention_work *w) {
  const int64_t heads = w->heads / w->groups;
  w->q.strides[ATTENTION_ROWS] = w->q.strides[ATTENTION_HEADS];
  w->q.strides[ATTENTION_HEADS] *= heads;
  w->out_row = w->out_head;
  w->out_head *= heads;
  for (int m = 0; m < ATTENTION_MASKS; m++) {
    int64_t *strides = w->masks[m].strides;
    strides[2] = strides[1];
    strides[1] *= heads;
  }
  w->queries = heads;
  w->heads = w->groups;
}

/* Queries of a task: a block, or less where heads that share keys would leave workers idle; whole vectors. */
static int64_t queries_of_task(const attention_work *w, const base_call *call, int64_t batch) {
  const int64_t wanted = base_max_i64(1, base_ceil_div(call->workers, batch * w->heads));
  const int64_t share = base_ceil_div(w->queries, wanted);
  if (w->places > 1) return QUERIES;
  return base_min_i64(QUERIES, (share + V_LANES - 1) / V_LANES * V_LANES);
}

static td_status check_used(const attention_work *w, const base_call *call, int64_t batch) {
  if (!w->last) return TD_OK;
  if (w->last->rank != 1 || w->last->dims[0] != batch)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "attention: there is not one last key for each sample");
  for (int64_t b = 0; b < batch; b++)
    if (used_keys(w, b) < 0 || used_keys(w, b) > w->keys)
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1,
                       "attention: key %lld of sample %lld is outside of %lld keys", (long long)used_keys(w, b) - 1,
                       (long long)b, (long long)w->keys);
  return TD_OK;
}

td_status KERN_NAME(attention_by)(const base_call *call, const attention_products *p) {
  const int64_t *q = base_in(call, Q)->dims, *k = base_in(call, K)->dims, batch = q[ATTENTION_BATCH];
  const base_tensor *out = base_out(call, 0);
  attention_work w = {.q = *base_in(call, Q),
                      .k = base_in(call, K),
                      .v = base_in(call, V),
                      .out = out->data,
                      .queries = q[ATTENTION_ROWS],
                      .places = q[ATTENTION_ROWS],
                      .keys = k[ATTENTION_ROWS],
                      .heads = q[ATTENTION_HEADS],
                      .groups = k[ATTENTION_HEADS],
                      .size = q[ATTENTION_SIZE],
                      .values = base_in(call, V)->dims[ATTENTION_SIZE],
                      .scale = (float)base_attr_float(call->attrs, KERN_ATTENTION_SCALE),
                      .softcap = (float)base_attr_float(call->attrs, KERN_ATTENTION_SOFTCAP),
                      .sinks = base_in(call, SINKS) ? base_in(call, SINKS)->data : NULL,
                      .causal = base_attr_int(call->attrs, KERN_ATTENTION_CAUSAL) != 0,
                      .rows = base_attr_int(call->attrs, KERN_ATTENTION_ROWS),
                      .last = base_in(call, LAST),
                      .left = base_attr_int(call->attrs, KERN_ATTENTION_LEFT)};
  if (base_tensor_numel(out) == 0) return TD_OK;
  TRY(check_used(&w, call, batch));
  if (w.keys == 0) {
    if (base_call_first(call, 1) == 0) memset(w.out, 0, base_tensor_bytes(out));
    return TD_OK;
  }
  TRY(take_scratch(call, &w));
  TRY(p->take_scratch(call, &w));
  const int64_t scores[] = {batch, w.heads, w.queries, w.keys},
                replaces = base_attr_int(call->attrs, KERN_ATTENTION_REPLACES);
  for (uint32_t i = 0; i < ATTENTION_MASKS; i++)
    w.masks[i] = broadcast_mask(base_in(call, MASK + i), scores, replaces >> i & 1);
  w.out_head = w.values;
  w.out_row = w.heads * w.out_head;
  w.out_sample = w.queries * w.out_row;
  if (w.queries == 1) take_heads_as_queries(&w);
  w.block = queries_of_task(&w, call, batch);
  int64_t blocks = base_ceil_div(w.queries, w.block), tasks = batch * w.heads * blocks;
  if (tasks > UINT32_MAX / 2) return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "attention over too many rows");
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks))
    attend(&w, p, task / blocks / w.heads, task / blocks % w.heads, task % blocks * w.block);
  if (p->end) p->end();
  return TD_OK;
}

td_status KERN_NAME(attention)(const base_call *call) {
  static const attention_products products = {take_floats,   take_queries,    take_keys,
                                              multiply_keys, multiply_values, NULL};
  return KERN_NAME(attention_by)(call, &products);
}
