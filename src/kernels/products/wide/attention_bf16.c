/* attention_bf16.c -- KERN_ATTENTION on 16 bits: scaled queries, keys, values and powers are rounded to bf16, scores,
 * the softmax and sums are f32. Both products are those of attention.c, of pairs of neighbours along what is summed:
 *
 *     scores [keys, queries] = k [keys, size] x (scale q)^T [size, queries]
 *     out [queries, values]  = powers^T x v [keys, values] */
#include "kernels/products/attention_pairs_priv.h"
#include "kernels/products/pack.h"

enum {
  ROWS = V_REGISTERS >= 32 ? 6 : 4,
  VECTORS = V_REGISTERS >= 32 ? 4 : 2, /* of a tile: as in attention.c */
  POWERS = ATTENTION_KEYS / 2 + 1      /* pairs of keys, the first of which may not count */
};

typedef struct pairs {
  int64_t stored;           /* numbers of a query and a key: whole pairs */
  int64_t k_pitch, v_pitch; /* numbers from key to key; words from pair to pair */
  uint16_t *k;              /* [keys, stored] */
  float *v;                 /* [pair of keys][value] */
  uint32_t *q, *powers;     /* [panel][pair][query of the panel] */
  int64_t taken;            /* the sample and group that k and v are of; -1: none */
} pairs;

static void take_queries(const attention_work *w, int64_t b, int64_t h, int64_t first, int64_t count) {
  const pairs *own = w->own;
  const float *from = attention_head(&w->q, b, h) + first * w->q.strides[ATTENTION_ROWS];
  attention_pair_queries(w, from, count, own->stored / 2, own->q);
}

static void take_values(const attention_work *w, const float *from) {
  const pairs *own = w->own;
  const int64_t row = w->v->strides[ATTENTION_ROWS], step = w->v->strides[ATTENTION_SIZE];
  float *to = own->v;
  for (int64_t r = 0; r < w->keys; r += 2, to += own->v_pitch)
    for (int64_t e = 0; e < w->values; e += V_LANES) {
      const vf first = attention_some(from + r * row, step, e, w->values);
      const vf second = r + 1 < w->keys ? attention_some(from + (r + 1) * row, step, e, w->values) : v_zero();
      v_store(to + e, p_interleave(first, second));
    }
}

static void take_keys(const attention_work *w, int64_t b, int64_t g) {
  pairs *own = w->own;
  if (own->taken == b * w->groups + g) return;
  own->taken = b * w->groups + g;
  attention_pair_keys(w, attention_head(w->k, b, g), own->stored, own->k_pitch, own->k);
  take_values(w, attention_head(w->v, b, g));
}

/* c[r] = c[r] keep[r] or 0, + the sum over k of a[r][k a_step] b[k], then times end[r]. Rows that are missing are the
 * last one again. */
typedef struct product {
  const float *a[ROWS], *b;            /* words: pairs */
  int64_t a_step, b_step, b_vector, k; /* words: to the next pair; from vector to vector of b */
  float *c[ROWS];
  int64_t last;                        /* lanes of the last vector of c that exist; b has them all */
  const float *keep[ROWS], *end[ROWS]; /* of the first row NULL: there are none */
} product;

V_TEMPLATE void multiply(const product *p, const int vectors) {
  vf sum[ROWS * VECTORS];
  const float *b = p->b, *a[ROWS];
  V_FOR(i, ROWS * vectors) sum[i] = v_zero();
  V_FOR(r, ROWS) a[r] = p->a[r];
  if (p->keep[0])
    for (int r = 0; r < ROWS; r++)
      for (int v = 0; v < vectors; v++)
        sum[r * vectors + v] =
            v_mul(v_load_n(p->c[r] + v * V_LANES, v + 1 < vectors ? V_LANES : p->last), v_set(*p->keep[r]));
  const int64_t end = p->k * p->a_step, a_step = p->a_step, b_step = p->b_step, b_vector = p->b_vector;
  for (int64_t k = 0; k < end; k += a_step, b += b_step) {
    V_OPAQUE(k);
    vf column[VECTORS];
    V_FOR(v, vectors) column[v] = v_load(b + v * b_vector);
    V_FOR(r, ROWS) {
      const vf element = v_set(a[r][k]);
      V_FOR(v, vectors) sum[r * vectors + v] = p_dot(sum[r * vectors + v], element, column[v]);
    }
  }
  vf sums[ROWS * VECTORS];
  V_FOR(i, ROWS * vectors) sums[i] = sum[i];
  for (int r = 0; r < ROWS; r++) {
    const vf by = v_set(p->end[0] ? *p->end[r] : 1);
    for (int v = 0; v < vectors; v++)
      v_store_n(p->c[r] + v * V_LANES, v_mul(sums[r * vectors + v], by), v + 1 < vectors ? V_LANES : p->last);
  }
}

#if V_REGISTERS >= 32
#define EACH_TILE(X) X(1) X(2) X(3) X(4)
#else
#define EACH_TILE(X) X(1) X(2)
#endif
#define TILE(vectors) \
  static void tile_##vectors(const product *p) { multiply(p, vectors); }
EACH_TILE(TILE)
#define ENTRY(vectors) tile_##vectors,
static void (*const tiles[VECTORS])(const product *p) = {EACH_TILE(ENTRY)};

static void multiply_keys(const attention_work *w, int64_t first, int64_t count, int64_t queries) {
  const pairs *own = w->own;
  const int64_t depth = own->stored / 2, vectors = base_ceil_div(queries, V_LANES);
  for (int64_t j = 0; j < count; j += ROWS)
    for (int64_t v = 0; v < vectors; v += VECTORS) {
      product p = {.b = (const float *)(const void *)own->q + v * depth * V_LANES,
                   .a_step = 1,
                   .b_step = V_LANES,
                   .b_vector = depth * V_LANES,
                   .k = depth,
                   .last = V_LANES};
      for (int64_t r = 0; r < ROWS; r++) {
        const int64_t key = base_min_i64(j + r, count - 1);
        p.a[r] = (const float *)(const void *)(own->k + (first + key) * own->k_pitch);
        p.c[r] = w->scores + key * ATTENTION_PITCH + v * V_LANES;
      }
      tiles[base_min_i64(vectors - v, VECTORS) - 1](&p);
    }
}

static void multiply_values(const attention_work *w, int64_t first, int64_t count, int64_t queries, int ends,
                            attention_output out) {
  const pairs *own = w->own;
  const int64_t skip = first % 2, depth = base_ceil_div(count + skip, 2);
  attention_pair_powers(w, count, skip, depth, queries, POWERS * V_LANES, own->powers);
  for (int64_t e = 0; e < w->values; e += VECTORS * V_LANES) {
    const int64_t columns = base_min_i64(w->values - e, VECTORS * V_LANES), vectors = base_ceil_div(columns, V_LANES);
    for (int64_t i = 0; i < queries; i += ROWS) {
      product p = {.b = own->v + first / 2 * own->v_pitch + e,
                   .a_step = V_LANES,
                   .b_step = own->v_pitch,
                   .b_vector = V_LANES,
                   .k = depth,
                   .last = columns - (vectors - 1) * V_LANES};
      for (int64_t r = 0; r < ROWS; r++) {
        const int64_t query = base_min_i64(i + r, queries - 1);
        p.a[r] = (const float *)(const void *)own->powers + query / V_LANES * POWERS * V_LANES + query % V_LANES;
        p.c[r] = out.at + query * out.pitch + e;
        p.keep[r] = ends & ATTENTION_BEGIN ? NULL : w->keep + query;
        p.end[r] = ends & ATTENTION_END ? w->sum + query : NULL;
      }
      tiles[vectors - 1](&p);
    }
  }
}

static td_status take_scratch(const base_call *call, attention_work *w) {
  pairs *own = base_call_scratch(call, 1, sizeof *own);
  if (!own) return base_no_memory(call->err, "scratch");
  const int64_t stored = kern_pairs_depth(w->size), values = base_ceil_div(w->values, V_LANES) * V_LANES;
  *own = (pairs){.stored = stored, .k_pitch = stored, .v_pitch = values, .taken = -1};
  own->k = base_call_scratch(call, (size_t)w->keys, (size_t)stored * sizeof *own->k);
  own->v = base_call_scratch(call, (size_t)base_ceil_div(w->keys, 2), (size_t)values * sizeof *own->v);
  own->q = base_call_scratch(call, ATTENTION_QUERIES, (size_t)stored * sizeof *own->k);
  own->powers = base_call_scratch(call, POWERS, ATTENTION_QUERIES * sizeof *own->powers);
  w->own = own;
  if (!own->k || !own->v || !own->q || !own->powers) return base_no_memory(call->err, "scratch");
  return TD_OK;
}

td_status KERN_PART_NAME(attention_bf16)(const base_call *call) {
  static const attention_products products = {take_scratch,  take_queries,    take_keys,
                                              multiply_keys, multiply_values, NULL};
  const int64_t queries = base_in(call, 0)->dims[ATTENTION_ROWS];
  return queries < ATTENTION_FEW_QUERIES ? KERN_NAME(attention)(call) : KERN_NAME(attention_by)(call, &products);
}
