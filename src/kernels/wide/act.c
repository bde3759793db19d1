/* act.c -- activations on rows of floats in place: one loop per name of acts.def, and the table of them. */
#include "kernels/math_priv.h"

#define ACT(name)                                                                                   \
  static void rows_##name(float *first, int64_t pitch, int64_t rows, int64_t n, float x, float y) { \
    const vf a = v_set(x), b = v_set(y);                                                            \
    for (float *row = first; rows > 0; rows--, row += pitch) {                                      \
      int64_t i = 0;                                                                                \
      for (; i + V_LANES <= n; i += V_LANES) v_store(row + i, v_act_##name(a, b, v_load(row + i))); \
      if (i < n) v_store_n(row + i, v_act_##name(a, b, v_load_n(row + i, n - i)), n - i);           \
    }                                                                                               \
  }
#include "kernels/acts.def"
#undef ACT

const kern_act_rows KERN_NAME(act_rows)[KERN_ACT_COUNT] = {
#define ACT(name) rows_##name,
#include "kernels/acts.def"
#undef ACT
};
