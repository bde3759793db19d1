/* conv_table_priv.h -- what conv.c cuts layers and fills its table of pixels with. */
#ifndef KERNELS_CONV_TABLE_PRIV_H
#define KERNELS_CONV_TABLE_PRIV_H
#include "kernels/simd/simd_priv.h"

/* A number in parts of nearly one size: the first `more` of them have one more than `each`. No division per part. */
typedef struct cut {
  int64_t each, more;
} cut;

V_INLINE cut cut_into(int64_t parts, int64_t total) { return (cut){total / parts, total % parts}; }
V_INLINE int64_t cut_at(const cut *c, int64_t part) { return part * c->each + base_min_i64(part, c->more); }
V_INLINE int64_t cut_size(const cut *c, int64_t part) { return c->each + (part < c->more); }

/* to[r] = from + r * step, both ends of which are inside of something. */
V_INLINE void fill_places(const float **to, const float *from, int64_t step, int64_t count) {
  enum { TOGETHER = 4 };
  typedef uintptr_t places __attribute__((vector_size(TOGETHER * sizeof(uintptr_t))));
  const uintptr_t by = (uintptr_t)step * sizeof *from;
  places at = (uintptr_t)from + (places){0, 1, 2, 3} * by;
  int64_t r = 0;
  for (; r + TOGETHER <= count; r += TOGETHER, at += TOGETHER * by) memcpy(to + r, &at, sizeof at);
  for (; r < count; r++) to[r] = from + r * step;
}
#endif
