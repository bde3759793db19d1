/* matmul_priv.h -- the products of a call of KERN_MATMUL. */
#ifndef KERNELS_MATMUL_PRIV_H
#define KERNELS_MATMUL_PRIV_H
#include "kernels/simd/simd_priv.h"

/* C[batch] = A[batch] B[batch]; C is dense. Strides are elements. */
typedef struct matmul_batches {
  int64_t m, n, k, count;
  int64_t a_row, a_column, b_row, b_column;
  int32_t rank; /* of the batch */
  int64_t dims[BASE_MAX_RANK], a_strides[BASE_MAX_RANK], b_strides[BASE_MAX_RANK];
  const float *a, *b;
  float *c;
} matmul_batches;

/* Batches with one B are rows of one, where they lie so. */
matmul_batches KERN_NAME(matmul_batches)(const base_call *call);

/* Element offset of batch `index`. */
V_INLINE int64_t matmul_offset(const matmul_batches *p, const int64_t *strides, int64_t index) {
  int64_t offset = 0;
  for (int32_t i = p->rank - 1; i >= 0; i--, index /= p->dims[i + 1]) offset += index % p->dims[i] * strides[i];
  return offset;
}
#endif
