/* transpose.c -- the block of transpose_priv.h, once for all kernels: it is long, with its masks and its shuffles. */
#include "kernels/simd/wide/transpose_priv.h"

/* A square of which `rows` by `columns` are there, at least 1 each. Columns that are not there are the last one again:
 * a load costs less than a branch. Out of line, since addresses of whole squares take all registers. */
__attribute__((noinline)) static void transpose_part(float *to, int64_t to_step, const float *from, int64_t from_step,
                                                     int64_t rows, int64_t columns) {
  vf square[V_LANES];
  const float *last = from + (columns - 1) * from_step;
  V_FOR(i, V_LANES) {
    square[i] = v_load_n(from, rows);
    from = from == last ? last : from + from_step;
  }
  v_transpose(square);
  V_FOR(i, V_LANES) if (i < rows) v_store_n(to + i * to_step, square[i], columns);
}

void KERN_NAME(transpose_block)(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t rows,
                                int64_t columns, int64_t ahead) {
  for (int64_t i = 0; i < rows; i += V_LANES)
    for (int64_t k = 0; k < columns; k += V_LANES) {
      float *at = to + i * to_step + k;
      const float *source = from + k * from_step + i;
      for (int64_t c = 0; ahead && c < V_LANES; c++) __builtin_prefetch(source + c * from_step + ahead, 0, 2);
      if (rows - i >= V_LANES && columns - k >= V_LANES) v_transpose_square(at, to_step, source, from_step);
      else
        transpose_part(at, to_step, source, from_step, base_min_i64(V_LANES, rows - i),
                       base_min_i64(V_LANES, columns - k));
    }
}
