/* nbits_pairs_priv.h -- weights of few bits (pack_nbits.h) as pairs of bf16 (pack.h). */
#ifndef KERNELS_NBITS_PAIRS_PRIV_H
#define KERNELS_NBITS_PAIRS_PRIV_H
#include "kernels/products/pack_nbits.h"
#include "kernels/simd/simd_priv.h"

/* A whole word of a panel, of which the last pairs may stand behind k. */
enum { NBITS_WORD_PAIRS = 4 };
/* Panels [panel, panel + panels) of packed weights, rounded; or `whole`, their numbers less the zero points. Each has
 * `stored` rows: what is behind k is zeros. `to` has room for NBITS_WORD_PAIRS rows of pairs more. */
typedef struct nbits_panels {
  const kern_nbits *l;
  const uint8_t *w;
  int64_t panel, panels, stored;
  bool whole;
} nbits_panels;
void KERN_PART_NAME(nbits_pairs)(const nbits_panels *n, char *to);
#endif
