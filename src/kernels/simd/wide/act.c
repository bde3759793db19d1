/* act.c -- activations on rows of floats in place: one loop per name of acts.def, and the tables of them. */
#include "kernels/simd/math_priv.h"

/* Whole vectors of all rows are one loop, as tiles have many short rows; then what is left of each row. */
#define ROWS(name, act)                                                                      \
  static void name(float *first, int64_t pitch, int64_t rows, int64_t n, float x, float y) { \
    const vf a = v_set(x), b = v_set(y);                                                     \
    const int64_t whole = n / V_LANES * V_LANES;                                             \
    float *at = first, *row_end = first + whole;                                             \
    for (int64_t left = rows * whole; left > 0; left -= V_LANES) {                           \
      v_store(at, act(a, b, v_load(at)));                                                    \
      at += V_LANES;                                                                         \
      if (at == row_end) at += pitch - whole, row_end += pitch;                              \
    }                                                                                        \
    if (whole == n) return;                                                                  \
    for (at = first + whole; rows > 0; rows--, at += pitch)                                  \
      v_store_n(at, act(a, b, v_load_n(at, n - whole)), n - whole);                          \
  }
#define ACT(name) ROWS(rows_##name, v_act_##name)
#include "kernels/acts.def"
#undef ACT

const kern_act_rows KERN_NAME(act_rows)[KERN_ACT_COUNT] = {
#define ACT(name) rows_##name,
#include "kernels/acts.def"
#undef ACT
};

#if defined V_AVX512
#define ACT(name)
#define QUOTIENT(name)                                                                          \
  V_INLINE vf near_##name##_of(vf a, vf b, vf x) { return (void)a, (void)b, v_near_##name(x); } \
  ROWS(near_##name, near_##name##_of)
#include "kernels/acts.def"
#undef ACT
#define QUOTIENT(name) near_##name,
#endif
const kern_act_rows KERN_NAME(act_rows_near)[KERN_ACT_COUNT] = {
#define ACT(name) rows_##name,
#include "kernels/acts.def"
#undef ACT
};
