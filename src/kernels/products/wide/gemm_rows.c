/* gemm_rows.c -- rows of products that come at any strides, brought in order: square by square where one of the strides
 * is 1. */
#include "kernels/products/gemm_priv.h"

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
