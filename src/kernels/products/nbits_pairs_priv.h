/* nbits_pairs_priv.h -- weights of few bits (pack_nbits.h) as pairs of bf16 (pack.h). */
#ifndef KERNELS_NBITS_PAIRS_PRIV_H
#define KERNELS_NBITS_PAIRS_PRIV_H
#include "kernels/products/pack_nbits.h"
#include "kernels/simd/simd_priv.h"

/* Panels [panel, panel + panels) of packed weights, rounded; or `whole`, their numbers less the zero points. Each has
 * `stored` rows: what is behind k is zeros. `to` has room for four rows of pairs more: whole words are written. */
typedef struct nbits_panels {
  const kern_nbits *l;
  const uint8_t *w;
  int64_t panel, panels, stored;
  bool whole;
} nbits_panels;
void KERN_PART_NAME(nbits_pairs)(const nbits_panels *n, char *to);
#endif
