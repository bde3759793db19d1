/* pairs_panels_priv.h -- a matrix of floats, of any strides, as panels of pairs of bf16: [pair][column] of V_LANES
 * columns, what lacks in the last pair and the last panel zeros. */
#ifndef KERNELS_PAIRS_PANELS_PRIV_H
#define KERNELS_PAIRS_PANELS_PRIV_H
#include "kernels/products/pack.h"
#include "kernels/simd/pairs_priv.h"

/* Rows 2 `pair` and the next of some columns that lie side by side, as pairs. */
V_INLINE vf pairs_of_rows(const kern_matrix *m, const float *from, int64_t pair, int64_t columns) {
  const float *row = from + 2 * pair * m->k_stride;
  const vf first = 2 * pair < m->k ? v_load_n(row, columns) : v_zero();
  return p_interleave(first, 2 * pair + 1 < m->k ? v_load_n(row + m->k_stride, columns) : v_zero());
}

/* Numbers [k, k + V_LANES) of a column, zeros behind the last. */
V_INLINE vf pairs_numbers_of(const kern_matrix *m, const float *column, int64_t k) {
  const int64_t n = base_min_i64(V_LANES, m->k - k);
  if (n <= 0) return v_zero();
  if (m->k_stride == 1) return v_load_n(column + k, n);
  float some[V_LANES] = {0};
  for (int64_t i = 0; i < n; i++) some[i] = column[(k + i) * m->k_stride];
  return v_load(some);
}

/* Panels [first, first + panels), of so many pairs each, one behind the other. */
static void pairs_pack(const kern_matrix *m, int64_t first, int64_t panels, int64_t pairs, float *to) {
  const float *from = (const float *)m->data + first * V_LANES * m->n_stride;
  for (int64_t i = 0; i < panels; i++, from += V_LANES * m->n_stride, to += pairs * V_LANES) {
    const int64_t columns = base_min_i64(V_LANES, m->n - (first + i) * V_LANES);
    if (m->n_stride == 1) {
      for (int64_t pair = 0; pair < pairs; pair++) v_store(to + pair * V_LANES, pairs_of_rows(m, from, pair, columns));
      continue;
    }
    for (int64_t pair = 0; pair < pairs; pair += V_LANES) {
      vf square[V_LANES];
      for (int64_t c = 0; c < V_LANES; c++) {
        const float *column = from + c * m->n_stride;
        square[c] = c < columns ? p_round_two(pairs_numbers_of(m, column, 2 * pair),
                                              pairs_numbers_of(m, column, 2 * pair + V_LANES))
                                : v_zero();
      }
      v_transpose(square);
      for (int64_t k = 0; k < base_min_i64(V_LANES, pairs - pair); k++) v_store(to + (pair + k) * V_LANES, square[k]);
    }
  }
}
#endif
