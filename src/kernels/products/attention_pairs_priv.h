/* attention_pairs_priv.h -- queries, keys and powers of td::attention as pairs of bf16: what its forms on 16 bits
 * share. */
#ifndef KERNELS_ATTENTION_PAIRS_PRIV_H
#define KERNELS_ATTENTION_PAIRS_PRIV_H
#include "kernels/products/attention_priv.h"
#include "kernels/simd/pairs_priv.h"

enum { ATTENTION_PAIRS_ROW = 2 * V_LANES /* numbers of a vector of bf16 */ };

/* Numbers [at, at + V_LANES) of a row of `size`, zeros behind them. */
V_INLINE vf attention_some(const float *row, int64_t step, int64_t at, int64_t size) {
  return at < size ? attention_load(row + at * step, step, base_min_i64(size - at, V_LANES)) : v_zero();
}

/* Numbers [at, at + ATTENTION_PAIRS_ROW) of a row of `size`, zeros behind them, times `scale`, as bf16. */
V_INLINE vf attention_round_some(const float *row, int64_t step, int64_t at, int64_t size, vf scale) {
  return p_round_two(v_mul(attention_some(row, step, at, size), scale),
                     v_mul(attention_some(row, step, at + V_LANES, size), scale));
}

/* Scaled queries of a head, `count` from `first` on: [panel of V_LANES queries][pair][query of the panel], of so many
 * pairs. */
static void attention_pair_queries(const attention_work *w, int64_t b, int64_t h, int64_t first, int64_t count,
                                   int64_t pairs, uint32_t *queries) {
  const int64_t row = w->q.strides[ATTENTION_ROWS], step = w->q.strides[ATTENTION_SIZE];
  const float *from = attention_head(&w->q, b, h) + first * row;
  const vf scale = v_set(w->scale);
  for (int64_t i = 0; i < count; i += V_LANES)
    for (int64_t at = 0; at < pairs; at += V_LANES) {
      uint32_t *to = queries + (i / V_LANES * pairs + at) * V_LANES;
      vf square[V_LANES];
      for (int64_t r = 0; r < V_LANES; r++)
        square[r] = i + r < count ? attention_round_some(from + (i + r) * row, step, 2 * at, w->size, scale) : v_zero();
      v_transpose(square);
      for (int64_t r = 0; r < base_min_i64(V_LANES, pairs - at); r++) memcpy(to + r * V_LANES, &square[r], sizeof(vf));
    }
}

/* Keys of a head, rows of `stored` numbers, `pitch` apart. */
static void attention_pair_keys(const attention_work *w, const float *from, int64_t stored, int64_t pitch,
                                uint16_t *keys) {
  const int64_t row = w->k->strides[ATTENTION_ROWS], step = w->k->strides[ATTENTION_SIZE];
  for (int64_t r = 0; r < w->keys; r++)
    for (int64_t at = 0; at < stored; at += ATTENTION_PAIRS_ROW) {
      const vf pairs = attention_round_some(from + r * row, step, at, w->size, v_set(1));
      memcpy(keys + r * pitch + at, &pairs, (size_t)base_min_i64(ATTENTION_PAIRS_ROW, stored - at) * sizeof *keys);
    }
}

/* Rows of scores that became powers as pairs of rows, zeros in place of `skip` rows in front of them, and behind them:
 * words of V_LANES queries, `step` apart from pair to pair, `panel` from vector to vector. */
static void attention_pair_powers(const attention_work *w, int64_t count, int64_t skip, int64_t pairs, int64_t queries,
                                  uint32_t *powers, int64_t step, int64_t panel) {
  for (int64_t i = 0; i < queries; i += V_LANES, powers += panel)
    for (int64_t j = 0; j < pairs; j++) {
      const int64_t row = 2 * j - skip, next = row + 1;
      const float *scores = w->scores + i;
      const vf first = row >= 0 && row < count ? v_load(scores + row * ATTENTION_PITCH) : v_zero();
      const vf both = p_interleave(first, next < count ? v_load(scores + next * ATTENTION_PITCH) : v_zero());
      memcpy(powers + j * step, &both, sizeof both);
    }
}
#endif
