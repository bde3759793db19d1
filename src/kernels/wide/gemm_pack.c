/* gemm_pack.c -- operands of products that come at any strides, brought in order: square by square where one of the
 * strides is 1. */
#include "kernels/gemm_priv.h"

/* A matrix whose rows are dense: some rows at a time, so that it is read in order. */
static void pack_dense_rows(float *to, const kern_matrix *m) {
  enum { ROWS = 32 };
  for (int64_t first = 0; first < m->k; first += ROWS)
    for (int64_t n = 0; n < m->n; n += V_LANES) {
      int64_t columns = base_min_i64(V_LANES, m->n - n), end = base_min_i64(m->k, first + ROWS);
      const float *from = m->data + n;
      float *panel = to + n * m->k;
      for (int64_t k = first; k < end; k++) {
        const float *row = from + k * m->k_stride;
        v_store(panel + k * V_LANES, columns == V_LANES ? v_load(row) : v_load_n(row, columns));
      }
    }
}

void KERN_NAME(gemm_pack)(float *to, const kern_matrix *m) {
  if (m->n_stride == 1) {
    pack_dense_rows(to, m);
    return;
  }
  for (int64_t n = 0; n < m->n; n += V_LANES, to += m->k * V_LANES) {
    int64_t columns = base_min_i64(V_LANES, m->n - n), k = 0;
    const float *from = m->data + n * m->n_stride;
    if (m->k_stride == 1 && columns == V_LANES)
      for (; k + V_LANES <= m->k; k += V_LANES) v_transpose_square(to + k * V_LANES, V_LANES, from + k, m->n_stride);
    const kern_matrix rest = {from + k * m->k_stride, m->k - k, columns, m->k_stride, m->n_stride};
    kern_pack(to + k * V_LANES, &rest, NULL, V_LANES, 0, 1);
  }
}

void KERN_NAME(gemm_rows)(float *to, const kern_matrix *m) {
  for (int64_t k = 0; k < m->k; k++) {
    bool squares = m->k_stride == 1 && m->k - k >= V_LANES;
    int64_t n = 0;
    if (squares) {
      for (; n + V_LANES <= m->n; n += V_LANES)
        v_transpose_square(to + k * m->n + n, m->n, m->data + k + n * m->n_stride, m->n_stride);
    }
    int64_t rows = squares ? V_LANES : 1;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = n; j < m->n; j++) to[(k + i) * m->n + j] = m->data[(k + i) * m->k_stride + j * m->n_stride];
    k += rows - 1;
  }
}
