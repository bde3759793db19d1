/* rows_priv.h -- sums over rows of floats. A row is added up in pieces of ROW_PIECE elements, within a piece by four
 * vectors of partial sums: an order that depends on its length alone, and errors that do not grow with it. */
#ifndef KERNELS_WIDE_ROWS_PRIV_H
#define KERNELS_WIDE_ROWS_PRIV_H
#include "kernels/simd/math_priv.h"
#include "kernels/tasks_priv.h"

enum { ROW_PIECE = 4096, ROW_TASK = 8192 /* elements of a task */ };

/* v_load_or and v_store_n for 0 < n, which are slow where they are masked: mostly n == V_LANES. */
V_INLINE vf row_load(const float *p, int64_t n, vf rest) { return n < V_LANES ? v_load_or(p, n, rest) : v_load(p); }
V_INLINE void row_store(float *p, vf a, int64_t n) {
  if (n < V_LANES) v_store_n(p, a, n);
  else v_store(p, a);
}

/* float name(const float *row, int64_t n, vf a): the sum of `value`, which says it for a vector `x` of the row; `rest`
 * is an x that adds nothing. */
#define ROW_SUM(name, rest, value)                                                    \
  static inline vf name##_piece(const float *row, int64_t n, vf a) {                  \
    vf sum0 = v_zero(), sum1 = v_zero(), sum2 = v_zero(), sum3 = v_zero();            \
    int64_t i = 0;                                                                    \
    (void)a;                                                                          \
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {                                  \
      vf x = v_load(row + i);                                                         \
      sum0 = v_add(sum0, value);                                                      \
      x = v_load(row + i + V_LANES);                                                  \
      sum1 = v_add(sum1, value);                                                      \
      x = v_load(row + i + 2 * V_LANES);                                              \
      sum2 = v_add(sum2, value);                                                      \
      x = v_load(row + i + 3 * V_LANES);                                              \
      sum3 = v_add(sum3, value);                                                      \
    }                                                                                 \
    for (; i < n; i += V_LANES) {                                                     \
      vf x = v_load_or(row + i, base_min_i64(V_LANES, n - i), rest);                  \
      sum0 = v_add(sum0, value);                                                      \
    }                                                                                 \
    return v_add(v_add(sum0, sum1), v_add(sum2, sum3));                               \
  }                                                                                   \
  static inline float name(const float *row, int64_t n, vf a) {                       \
    vf total = v_zero();                                                              \
    for (int64_t i = 0; i < n; i += ROW_PIECE)                                        \
      total = v_add(total, name##_piece(row + i, base_min_i64(ROW_PIECE, n - i), a)); \
    return v_sum(total);                                                              \
  }

/* How many tasks `rows` rows of `length` elements make for so many workers, and how many rows one of them has. */
static inline uint32_t row_tasks(int64_t rows, int64_t length, uint32_t workers, int64_t *each) {
  const int64_t size = kern_task_size(ROW_TASK, workers);
  *each = length < size ? size / base_max_i64(length, 1) : 1;
  return (uint32_t)((rows + *each - 1) / *each);
}
#endif
