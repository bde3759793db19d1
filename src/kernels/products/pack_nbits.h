/* pack_nbits.h -- weights of 4 and 8 bits with a scale for each block of a column, as one constant of bytes:
 *
 *     f32 scales[panel][block][lane]
 *     u32 zeros[panel][block / per][lane]  zero points, where there are some
 *     u32 words[panel][k / per][lane]      per = 32 / bits elements of a column in a word
 *
 * A weight is (q - zero) * scale, rounded once: q from 0 to 2^bits - 1, zero 2^(bits - 1) where none are stored. Of 4
 * bits a word has the first four elements in the low halves of its bytes, the others in the high ones: four neighbours
 * are bytes after one `and`. k is padded to whole words, columns to whole panels, by weights of zero. */
#ifndef KERNELS_PACK_NBITS_H
#define KERNELS_PACK_NBITS_H
#include "kernels/kernels.h"
#include "kernels/products/pack.h"

typedef struct kern_nbits {
  int64_t n, k, bits, block, panel; /* panel: lanes */
  bool zeros;
  int64_t per, panels, blocks, words, zero_words; /* of a panel: blocks and rows of words */
  int64_t zeros_at, words_at, size;               /* bytes in front of each, and of all */
} kern_nbits;

/* Completes a layout of which n, k, bits, block, panel and zeros are set. False: they are out of range. */
bool kern_nbits_layout(kern_nbits *l);
/* By attributes of td::linear_nbits and the length of its rows; false as above. */
bool kern_nbits_of(const base_attrs *attrs, int64_t k, kern_nbits *l);
/* Numbers of 4 (the first in the low half of a byte) or 8 bits, `count` of them, as bytes, each with the bits of `flip`
 * inverted. */
void kern_nbits_read(const uint8_t *from, int64_t bits, int64_t count, uint8_t flip, uint8_t *to);
/* Writes column `n`: k numbers, and for each block a scale and (l->zeros) a zero point. `to`: l->size bytes, zeroed
 * before the first. Columns do not share bytes: callers may share them out. */
void kern_nbits_pack(const kern_nbits *l, int64_t n, const uint8_t *q, const float *scales, const uint8_t *zeros,
                     uint8_t *to);
/* Blocks of x as whole numbers of 8 or 16 bits with a sign: the largest of them; the factor that makes them, given the
 * largest magnitude of the block, and the scale that undoes it. */
static inline int kern_nbits_x_most(int64_t x_bits) { return (1 << (x_bits - 1)) - 1; }
static inline float kern_nbits_x_scale(float largest, int64_t x_bits, float *scale) {
  const bool counts = largest >= 1e-30f; /* else it is 0: the factor would be infinite */
  const float most = (float)kern_nbits_x_most(x_bits);
  *scale = counts ? largest / most : 0;
  return counts ? most / largest : 0;
}
/* Can the row of LINEAR_NBITS_I8 multiply such weights by whole numbers of so many bits? A block's sum must fit i32.
 * Without VNNI products of two bytes saturate but for weights of 4 bits, and those of 16 bits gain nothing. */
bool kern_nbits_has_whole(const kern_nbits *l, int64_t x_bits, const kern_row *row);
/* Less its zero point, the number of row k of column n; its block's scale. */
int kern_nbits_number(const kern_nbits *l, const uint8_t *packed, int64_t n, int64_t k, float *scale);
/* The weight of row k of column n; a row of x times column n. */
float kern_nbits_weight(const kern_nbits *l, const uint8_t *packed, int64_t n, int64_t k);
float kern_nbits_multiply(const kern_nbits *l, const uint8_t *packed, int64_t n, const base_f32 *x);
#endif
