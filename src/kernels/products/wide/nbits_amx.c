/* nbits_amx.c -- weights of few bits as tiles of AMX read them: pairs of bf16. */
#include "kernels/products/nbits_pairs_priv.h"
#include "kernels/products/nbits_words_priv.h"
#include "kernels/simd/pairs_priv.h"

enum { AHEAD = 2048 }; /* bytes by which words are fetched ahead */

/* Pairs of a panel, as many as whole words hold. Numbers of a word that are neighbours along k begin a byte apart. */
V_TEMPLATE void unpack(const nbits_panels *n, int64_t panel, char *to, const int bits) {
  const kern_nbits *l = n->l;
  const decoder d = decoder_of(bits);
  const uint8_t *from = words_at(l, n->w, panel, 0);
  for (int64_t block = 0, word = 0; block < l->blocks; block++) {
    const int64_t end = base_min_i64(l->words, (block + 1) * l->block / l->per);
    const block_numbers of_block = numbers_of(l, n->w, &d, panel, block, bits);
    const vf scale = n->whole ? v_set(1) : of_block.scale;
    for (; word < end; word++, from += V_LANES * 4) {
      vi some = load_words(from, &d, bits);
      __builtin_prefetch(from + AHEAD);
      for (int round = bits; round <= 8; round += 4, to += BYTES / 2 * V_LANES * 4) {
        vf q[BYTES];
        V_FOR(i, BYTES) q[i] = v_mul(v_sub(number(some, &d, (uint32_t)i * 8, bits), of_block.zero), scale);
        V_FOR(i, BYTES / 2) {
          const vf pairs = p_interleave(q[2 * i], q[2 * i + 1]);
          memcpy(to + i * V_LANES * 4, &pairs, sizeof pairs);
        }
        some = vi_shr(some, 4);
      }
    }
  }
}

void KERN_PART_NAME(nbits_pairs)(const nbits_panels *n, char *to) {
  const int64_t row = V_LANES * 4, k = n->l->k, stored = n->stored / 2, pairs = (k + 1) / 2;
  for (int64_t p = n->panel; p < n->panel + n->panels; p++, to += stored * row) {
    if (n->l->bits == 4) unpack(n, p, to, 4);
    else unpack(n, p, to, 8);
    /* What stands behind k: zeros, which a scale that is no number has not made. */
    memset(to + pairs * row, 0, (size_t)((stored - pairs) * row));
    for (int64_t i = 0; k % 2 && i < V_LANES; i++) memset(to + (pairs - 1) * row + i * 4 + 2, 0, sizeof(uint16_t));
  }
}
