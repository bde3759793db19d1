/* zip_priv.h -- two to four rows of floats made one, element by element in turn, and the reverse: the channels of an
 * image of few, and blocks of pixels. Vectors at once: as many come as go, and lanes are gathered by tables. */
#ifndef KERNELS_WIDE_ZIP_PRIV_H
#define KERNELS_WIDE_ZIP_PRIV_H
#include "kernels/simd/simd_priv.h"

enum { ZIP_LEAST = 2, ZIP_MOST = 4 };

/* Lane i of vector a that goes is lane `lane` of vector `from` of those that come. */
typedef struct zip_table {
  vi lane[ZIP_MOST];
  vf from[ZIP_MOST];
} zip_table;

/* For `zip`. */
static inline void zip_fill(zip_table *t, int64_t rows, bool apart) {
  for (int64_t a = 0; a < rows; a++) {
    int32_t lane[V_LANES];
    float from[V_LANES];
    for (int64_t i = 0; i < V_LANES; i++) {
      const int64_t at = apart ? i * rows + a : a * V_LANES + i;
      lane[i] = (int32_t)(apart ? at % V_LANES : at / rows);
      from[i] = (float)(apart ? at / V_LANES : at % rows);
    }
    memcpy(&t->lane[a], lane, sizeof lane);
    t->from[a] = v_load(from);
  }
}

V_INLINE void zip_vectors(const zip_table *t, float *to, int64_t to_step, const float *from, int64_t from_step,
                          const int rows) {
  vf come[ZIP_MOST];
  V_FOR(b, rows) come[b] = v_load(from + b * from_step);
  V_FOR(a, rows) {
    vf go = v_permute(come[0], t->lane[a]);
    V_FOR(b, rows - 1)
    go = v_select(v_eq(t->from[a], v_set((float)(b + 1))), v_permute(come[b + 1], t->lane[a]), go);
    v_store(to + a * to_step, go);
  }
}

V_INLINE void zip_run(const zip_table *t, float *to, const float *from, int64_t step, const int rows, int64_t count,
                      const bool apart) {
  const zip_table own = *t; /* which nothing that is stored can change */
  int64_t i = 0;
  for (; i + V_LANES <= count; i += V_LANES)
    if (apart) zip_vectors(&own, to + i, step, from + i * rows, V_LANES, rows);
    else zip_vectors(&own, to + i * rows, V_LANES, from + i, step, rows);
  for (; i < count; i++)
    for (int64_t r = 0; r < rows; r++)
      if (apart) to[r * step + i] = from[i * rows + r];
      else to[i * rows + r] = from[r * step + i];
}

/* to[i * rows + r] = from[r * step + i], i < count; `apart`: to[r * step + i] = from[i * rows + r]. */
static inline void zip(const zip_table *t, float *to, const float *from, int64_t step, int64_t rows, int64_t count,
                       bool apart) {
  if (rows == 2 && apart) zip_run(t, to, from, step, 2, count, true);
  else if (rows == 3 && apart) zip_run(t, to, from, step, 3, count, true);
  else if (apart) zip_run(t, to, from, step, 4, count, true);
  else if (rows == 2) zip_run(t, to, from, step, 2, count, false);
  else if (rows == 3) zip_run(t, to, from, step, 3, count, false);
  else zip_run(t, to, from, step, 4, count, false);
}
#endif
