/* attention_tile_priv.h -- the tile under both products of td::attention: rows of one side, an element at a time, times
 * vectors of the other, of f32 or of pairs of bf16. */
#ifndef KERNELS_ATTENTION_TILE_PRIV_H
#define KERNELS_ATTENTION_TILE_PRIV_H
#include "kernels/products/attention_priv.h"
#include "kernels/simd/pairs_priv.h"

enum {
  ATTENTION_ROWS_OF_TILE = 6,
  ATTENTION_VECTORS = V_REGISTERS >= 32 ? 4 : 2 /* a tile, one of b and an element of a fill the registers */
};

/* c[r] = (c[r] keep[r] or 0, then + the sum over k of a[r a_row + k a_step] b[k b_step]) end[r] for `rows` rows. Those
 * that a tile has besides are the last one again, but for keep and end, which have numbers for all. */
typedef struct attention_tile {
  const float *a, *b; /* of pairs: words that are two numbers */
  int64_t rows, a_row, a_step, b_step, k;
  int64_t b_vector; /* from vector to vector of b */
  float *c;
  int64_t c_row, last;     /* last: lanes of the last vector of c that exist; b has them all */
  const float *keep, *end; /* NULL: 0, 1 */
} attention_tile;

V_TEMPLATE void attention_multiply(const attention_tile *t, const int rows, const int vectors, const bool pairs) {
  const bool whole = t->last == V_LANES;
  vf sum[ATTENTION_ROWS_OF_TILE * ATTENTION_VECTORS];
  const float *b = t->b, *a[ATTENTION_ROWS_OF_TILE], *row = t->a, *from = t->c;
  float *to = t->c + (t->rows - 1) * t->c_row;
  V_FOR(i, rows * vectors) sum[i] = v_zero();
  if (t->keep) V_FOR(r, rows) { /* by one pointer each: those of all rows would be held, in memory */
      const vf keep = v_set(t->keep[r]);
      V_FOR(v, vectors) {
        const float *at = from + v * V_LANES;
        sum[r * vectors + v] = v_mul(whole || v + 1 < vectors ? v_load(at) : v_load_n(at, t->last), keep);
      }
      from += r + 1 < t->rows ? t->c_row : 0;
      V_OPAQUE(from);
    }
  V_FOR(r, rows) {
    a[r] = row;
    row += r + 1 < t->rows ? t->a_row : 0;
  }
  const int64_t a_step = t->a_step, b_step = t->b_step, b_vector = t->b_vector, end = t->k * a_step;
  for (int64_t k = 0; k < end; k += a_step, b += b_step) {
    V_OPAQUE(k); /* one index for all rows: compilers would step every pointer on its own */
    vf column[ATTENTION_VECTORS];
    V_FOR(v, vectors) column[v] = v_load(b + v * b_vector);
    V_FOR(r, rows) {
      const vf element = v_set(a[r][k]);
      V_FOR(v, vectors) {
        const vf at = sum[r * vectors + v];
        sum[r * vectors + v] = pairs ? p_dot(at, element, column[v]) : v_fma(element, column[v], at);
      }
    }
  }
  V_FOR(i, rows) { /* the last of them first: a row comes behind those that stand for missing ones */
    const int r = rows - 1 - i;
    const vf by = v_set(t->end ? t->end[r] : 1);
    V_FOR(v, vectors) {
      const vf all = v_mul(sum[r * vectors + v], by);
      if (whole || v + 1 < vectors) v_store(to + v * V_LANES, all);
      else v_store_n(to + v * V_LANES, all, t->last);
    }
    to -= r < t->rows ? t->c_row : 0;
    V_OPAQUE(to);
  }
}

typedef void (*attention_tile_fn)(const attention_tile *t);
/* Of one row, which is all that a token on its own has, and of all; by vectors - 1. */
typedef attention_tile_fn attention_tiles[2][ATTENTION_VECTORS];
#if V_REGISTERS >= 32
#define ATTENTION_EACH_TILE(X, pairs) X(1, pairs) X(2, pairs) X(3, pairs) X(4, pairs)
#else
#define ATTENTION_EACH_TILE(X, pairs) X(1, pairs) X(2, pairs)
#endif
#define ATTENTION_TILE(vectors, pairs)                                                                \
  static void tile_1x##vectors(const attention_tile *t) { attention_multiply(t, 1, vectors, pairs); } \
  static void tile_6x##vectors(const attention_tile *t) {                                             \
    attention_multiply(t, ATTENTION_ROWS_OF_TILE, vectors, pairs);                                    \
  }
#define ATTENTION_ONE(vectors, pairs) tile_1x##vectors,
#define ATTENTION_ALL(vectors, pairs) tile_6x##vectors,
#define ATTENTION_TILES(pairs)                                                       \
  ATTENTION_EACH_TILE(ATTENTION_TILE, pairs)                                         \
  static const attention_tiles tiles = {{ATTENTION_EACH_TILE(ATTENTION_ONE, pairs)}, \
                                        {ATTENTION_EACH_TILE(ATTENTION_ALL, pairs)}};

/* A walk over tiles that begins with `t`: of `count` keys; of `queries` powers and all values. */
void KERN_NAME(attention_scores)(const attention_work *w, const attention_tiles *some, const attention_tile *t,
                                 int64_t count, int64_t queries);
void KERN_NAME(attention_values)(const attention_work *w, const attention_tiles *some, const attention_tile *t,
                                 int64_t queries, int ends, attention_output out);
#endif
