/* transpose_priv.h -- blocks of floats, transposed in registers. */
#ifndef KERNELS_WIDE_TRANSPOSE_PRIV_H
#define KERNELS_WIDE_TRANSPOSE_PRIV_H
#include "kernels/simd/simd_priv.h"

/* to[i][k] = from[k][i], i < rows, k < columns; a row of `to` and a column of `from` are dense. `ahead`, not 0: what
 * stands so many floats behind in each column is wanted next, and hardware does not foresee it. */
void KERN_NAME(transpose_block)(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t rows,
                                int64_t columns, int64_t ahead);
#endif
