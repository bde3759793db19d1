/* nbits_words_priv.h -- weights of pack_nbits.h in vectors: a number is made of its bits by a look-up where the level
 * has one of 16 floats, else by two shifts; one f32 comes of it on either way. */
#ifndef KERNELS_NBITS_WORDS_PRIV_H
#define KERNELS_NBITS_WORDS_PRIV_H
#include "kernels/products/pack_nbits.h"
#include "kernels/simd/simd_priv.h"

/* What words become numbers by: q - 2^(bits - 1). */
typedef struct decoder {
  vf table; /* of all numbers of 4 bits */
  vi flip;  /* makes whole numbers with a sign of those without */
} decoder;

#if defined V_AVX512
enum { LOOKS_UP = 1 };
#else
enum { LOOKS_UP = 0 };
#endif

V_INLINE decoder decoder_of(const int bits) {
  static const float numbers[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  const bool looks_up = LOOKS_UP && bits == 4;
  return (decoder){.table = looks_up ? v_load(numbers) : v_zero(),
                   .flip = vi_set(looks_up ? 0 : (int32_t)(bits == 4 ? 0x88888888 : 0x80808080))};
}

V_INLINE vi load_words(const uint8_t *from, const decoder *d, const int bits) {
  const vi words = v_as_int(v_load((const float *)(const void *)from));
  return LOOKS_UP && bits == 4 ? words : vi_xor(words, d->flip);
}

/* The number that begins at bit `at` of each word. */
V_INLINE vf number(vi words, const decoder *d, uint32_t at, const int bits) {
  if (LOOKS_UP && bits == 4) return v_permute(d->table, vi_shr(words, at));
  return v_from_int(vi_shr(vi_shl(words, 32 - (uint32_t)bits - at), 32 - (uint32_t)bits));
}

enum { BYTES = 4 }; /* of a word; of 4 bits it has two rounds of elements, one in each half of its bytes */

/* One block's numbers of a panel. */
typedef struct block_numbers {
  vf scale, zero;
} block_numbers;

V_INLINE block_numbers numbers_of(const kern_nbits *l, const uint8_t *b, const decoder *d, int64_t panel, int64_t block,
                                  const int bits) {
  const uint8_t *zeros = b + l->zeros_at + (panel * l->zero_words + block / l->per) * V_LANES * 4;
  const float *scales = (const float *)(const void *)b + (panel * l->blocks + block) * V_LANES;
  const uint32_t in = (uint32_t)(block % l->per), at = in % BYTES * 8 + in / BYTES * 4;
  return (block_numbers){.scale = v_load(scales),
                         .zero = l->zeros ? number(load_words(zeros, d, bits), d, at, bits) : v_zero()};
}

V_INLINE const uint8_t *words_at(const kern_nbits *l, const uint8_t *b, int64_t panel, int64_t k) {
  return b + l->words_at + (panel * l->words + k / l->per) * V_LANES * 4;
}
#endif
