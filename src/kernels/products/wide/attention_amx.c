/* attention_amx.c -- KERN_ATTENTION on 16 bits by tiles of AMX: scaled queries, keys, values and powers are rounded to
 * bf16, scores, the softmax and sums are f32. Both products have queries as columns, so that powers are pairs of rows
 * of scores, side by side as they lie:
 *
 *     scores [keys, queries] = k [keys, size] x (scale q)^T [size, queries]
 *     out^T [values, queries] = v^T [values, keys] x powers [keys, queries] */
#include "kernels/simd/amx_priv.h"
#include "kernels/products/attention_pairs_priv.h"
#include "kernels/products/pack.h"

enum {
  PANELS = ATTENTION_QUERIES / AMX_COLUMNS,
  POWER_ROWS = (ATTENTION_KEYS / 2 + AMX_ROWS - 1) / AMX_ROWS * AMX_ROWS, /* pairs of keys of whole blocks */
  FEW_QUERIES = 8 /* for which keys and values are not rounded */
};
_Static_assert((int)ATTENTION_QUERIES == (int)AMX_WIDTH, "a block of queries is as wide as sums");

typedef struct tiles {
  int64_t stored;           /* numbers of a query and a key: whole blocks of pairs */
  int64_t k_pitch, v_pitch; /* numbers from row to row */
  uint16_t *k, *v;          /* [keys, stored]; transposed, [values, keys and zeros] */
  uint32_t *q, *powers;     /* [panel][pair][query of the panel] */
  float *sums, *more;       /* [values, ATTENTION_PITCH]: of all blocks of keys, of one */
  int64_t taken;            /* the sample and group that k and v are of; -1: none */
} tiles;

static int64_t blocks_of(int64_t pairs) { return base_ceil_div(pairs, AMX_ROWS); }

static void take_queries(const attention_work *w, int64_t b, int64_t h, int64_t first, int64_t count) {
  const tiles *own = w->own;
  attention_pair_queries(w, b, h, first, count, own->stored / 2, own->q);
}

static void take_columns(const attention_work *w, const float *from) {
  const tiles *own = w->own;
  const int64_t row = w->v->strides[ATTENTION_ROWS], step = w->v->strides[ATTENTION_SIZE];
  for (int64_t e = 0; e < w->values; e += V_LANES)
    for (int64_t first = 0; first < own->v_pitch; first += V_LANES) {
      vf square[V_LANES];
      for (int64_t r = 0; r < V_LANES; r++)
        square[r] = first + r < w->keys ? attention_some(from + (first + r) * row, step, e, w->values) : v_zero();
      v_transpose(square);
      for (int64_t i = 0; i < base_min_i64(V_LANES, w->values - e); i++)
        p_store(own->v + (e + i) * own->v_pitch + first, square[i], V_LANES);
    }
}

static void take_keys(const attention_work *w, int64_t b, int64_t g) {
  tiles *own = w->own;
  if (own->taken == b * w->groups + g) return;
  own->taken = b * w->groups + g;
  attention_pair_keys(w, attention_head(w->k, b, g), own->stored, own->k_pitch, own->k);
  take_columns(w, attention_head(w->v, b, g));
}

/* Rows of A, `rows` of them `a_pitch` numbers apart, of so many pairs, whole blocks, times panels of queries, each
 * `panel` pairs long. */
static void multiply(const uint16_t *a, int64_t a_pitch, int64_t rows, const uint32_t *b, int64_t panel, int64_t pairs,
                     int64_t queries, float *sums) {
  const int64_t blocks = blocks_of(pairs), depth = pairs / blocks;
  static const int64_t run[] = {0};
  const int64_t tall = amx_even_rows(rows);
  const int64_t panels = base_ceil_div(queries, AMX_COLUMNS), step = panels == 3 ? 2 : panels;
  amx_begin(tall, depth);
  for (int64_t row = 0; row < rows; row += tall) {
    const int64_t from = base_min_i64(row, rows - tall);
    const char *at = (const char *)(a + from * a_pitch);
    product_tile t = {.a = {at, at + AMX_ROWS * a_pitch * (int64_t)sizeof *a},
                      .a_pitch = a_pitch * (int64_t)sizeof *a,
                      .a_block = depth * (int64_t)sizeof *b,
                      .run = run,
                      .runs = 1,
                      .blocks = blocks,
                      .b_block = depth * AMX_BYTES,
                      .b_panel = panel * AMX_BYTES,
                      .sums_pitch = ATTENTION_PITCH};
    for (int64_t i = 0, some; i < panels; i += some) {
      some = base_min_i64(step, panels - i);
      t.b = b + i * panel * AMX_COLUMNS;
      t.sums = sums + from * ATTENTION_PITCH + i * AMX_COLUMNS;
      KERN_PART_NAME(amx_bf16)(&t, tall, some);
    }
  }
}

static void multiply_keys(const attention_work *w, int64_t first, int64_t count, int64_t queries) {
  const tiles *own = w->own;
  const int64_t pairs = own->stored / 2;
  if (pairs == 0) memset(w->scores, 0, (size_t)(count * ATTENTION_PITCH) * sizeof *w->scores);
  else multiply(own->k + first * own->k_pitch, own->k_pitch, count, own->q, pairs, pairs, queries, w->scores);
}

static void add_sums(const attention_work *w, int64_t queries) {
  const tiles *own = w->own;
  for (int64_t e = 0; e < w->values; e++)
    for (int64_t i = 0; i < queries; i += V_LANES) {
      float *sum = own->sums + e * ATTENTION_PITCH + i;
      v_store(sum, v_fma(v_load(sum), v_load(w->keep + i), v_load(own->more + e * ATTENTION_PITCH + i)));
    }
}

static void write_rows(const attention_work *w, int64_t queries, attention_output out) {
  const tiles *own = w->own;
  for (int64_t i = 0; i < queries; i += V_LANES) {
    const vf end = v_load(w->sum + i);
    for (int64_t e = 0; e < w->values; e += V_LANES) {
      const int64_t columns = base_min_i64(V_LANES, w->values - e);
      vf square[V_LANES];
      for (int64_t r = 0; r < V_LANES; r++)
        square[r] = r < columns ? v_mul(v_load(own->sums + (e + r) * ATTENTION_PITCH + i), end) : v_zero();
      v_transpose(square);
      for (int64_t r = 0; r < base_min_i64(V_LANES, queries - i); r++)
        v_store_n(out.at + (i + r) * out.pitch + e, square[r], columns);
    }
  }
}

static void multiply_values(const attention_work *w, int64_t first, int64_t count, int64_t queries, int ends,
                            attention_output out) {
  const tiles *own = w->own;
  const int64_t pairs = blocks_of(base_ceil_div(count, 2)) * AMX_ROWS;
  attention_pair_powers(w, count, 0, pairs, queries, own->powers, V_LANES, POWER_ROWS * V_LANES);
  multiply(own->v + first, own->v_pitch, w->values, own->powers, POWER_ROWS, pairs, queries,
           ends & ATTENTION_BEGIN ? own->sums : own->more);
  if (!(ends & ATTENTION_BEGIN)) add_sums(w, queries);
  if (ends & ATTENTION_END) write_rows(w, queries, out);
}

static td_status take_scratch(const base_call *call, attention_work *w) {
  tiles *own = base_call_scratch(call, 1, sizeof *own);
  if (!own) return base_no_memory(call->err, "scratch");
  const int64_t stored = kern_tiles_depth(w->size),
                keys = base_ceil_div(w->keys, ATTENTION_PAIRS_ROW) * ATTENTION_PAIRS_ROW;
  const size_t sums = (size_t)(w->values * ATTENTION_PITCH), pair = sizeof(uint16_t);
  *own = (tiles){
      .stored = stored, .taken = -1, .v_pitch = keys + ATTENTION_PAIRS_ROW, .k_pitch = stored + ATTENTION_PAIRS_ROW};
  own->k = base_call_scratch(call, (size_t)w->keys, (size_t)own->k_pitch * pair);
  own->v = base_call_scratch(call, (size_t)w->values, (size_t)own->v_pitch * pair);
  own->q = base_call_scratch(call, ATTENTION_QUERIES, (size_t)stored * pair);
  own->powers = base_call_scratch(call, POWER_ROWS, ATTENTION_QUERIES * sizeof *own->powers);
  own->sums = base_call_scratch(call, sums, sizeof *own->sums);
  own->more = base_call_scratch(call, sums, sizeof *own->more);
  w->own = own;
  if (!own->k || !own->v || !own->q || !own->powers || !own->sums || !own->more)
    return base_no_memory(call->err, "scratch");
  return TD_OK;
}

static void end(void) { amx_end(); }

td_status KERN_PART_NAME(attention_bf16_amx)(const base_call *call) {
  static const attention_products products = {take_scratch,  take_queries,    take_keys,
                                              multiply_keys, multiply_values, end};
  const int64_t queries = base_in(call, 0)->dims[ATTENTION_ROWS];
  return queries < FEW_QUERIES ? KERN_NAME(attention)(call) : KERN_NAME(attention_by)(call, &products);
}
