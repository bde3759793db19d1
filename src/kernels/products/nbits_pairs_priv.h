/* nbits_pairs_priv.h -- weights of few bits (pack_nbits.h) as pairs of bf16 (pack.h). */
#ifndef KERNELS_NBITS_PAIRS_PRIV_H
#define KERNELS_NBITS_PAIRS_PRIV_H
#include "kernels/products/pack_nbits.h"
#include "kernels/simd/simd_priv.h"

/* A whole word of a panel, of which the last pairs may stand behind k. */
enum { NBITS_WORD_PAIRS = 4 };
/* Panels [panel, panel + panels) of packed weights, each of `stored` rows: what is behind k is zeros. `to` has room for
 * NBITS_WORD_PAIRS rows of pairs more. */
void KERN_PART_NAME(nbits_pairs)(const kern_nbits *l, const uint8_t *w, int64_t panel, int64_t panels, int64_t stored,
                                 char *to);
#endif
