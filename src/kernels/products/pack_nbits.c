/* pack_nbits.c -- weights of few bits, packed and read again. */
#include "kernels/products/pack_nbits.h"

#include <string.h>

bool kern_nbits_of(const base_attrs *attrs, int64_t k, kern_nbits *l) {
  *l = (kern_nbits){.n = base_attr_int(attrs, KERN_NBITS_COLUMNS),
                    .k = k,
                    .bits = base_attr_int(attrs, KERN_NBITS_BITS),
                    .block = base_attr_int(attrs, KERN_NBITS_BLOCK),
                    .panel = base_attr_int(attrs, KERN_NBITS_PANEL),
                    .zeros = base_attr_int(attrs, KERN_NBITS_ZEROS) != 0};
  return kern_nbits_layout(l);
}

bool kern_nbits_layout(kern_nbits *l) {
  if ((l->bits != 4 && l->bits != 8) || l->n < 0 || l->n > INT32_MAX || l->k < 0 || l->k > INT32_MAX || l->block < 8 ||
      l->block > INT32_MAX || l->block % 8 || l->panel < 1 || l->panel > KERN_MAX_PANEL)
    return false;
  l->per = 32 / l->bits;
  l->panels = (l->n + l->panel - 1) / l->panel;
  l->blocks = (l->k + l->block - 1) / l->block;
  l->words = (l->k + l->per - 1) / l->per;
  l->zero_words = l->zeros ? (l->blocks + l->per - 1) / l->per : 0;
  const int64_t row = l->panels * l->panel * 4; /* bytes, below 2^34: no product below reaches 2^63 */
  l->zeros_at = l->blocks * row;
  l->words_at = l->zeros_at + l->zero_words * row;
  l->size = l->words_at + l->words * row;
  return true;
}

/* The first bit of element i of a word. */
static int bit_of(const kern_nbits *l, int64_t i) { return (int)(l->bits == 4 ? i % 4 * 8 + i / 4 * 4 : i * 8); }

/* Where element i of the weights or zero points of a column stands: its word's first byte, and the bit there. */
static int64_t word_at(const kern_nbits *l, int64_t from, int64_t rows, int64_t n, int64_t i, int *bit) {
  *bit = bit_of(l, i % l->per);
  return from + ((n / l->panel * rows + i / l->per) * l->panel + n % l->panel) * 4;
}

/* Adds `value` to what stands there. */
static void put(uint8_t *to, int bit, uint8_t value) {
  uint32_t word;
  memcpy(&word, to, sizeof word);
  word |= (uint32_t)value << bit;
  memcpy(to, &word, sizeof word);
}

static int get(const uint8_t *from, int bit, int64_t bits) {
  uint32_t word;
  memcpy(&word, from, sizeof word);
  return (int)(word >> bit & ((1u << bits) - 1));
}

static int64_t scale_at(const kern_nbits *l, int64_t n, int64_t block) {
  return ((n / l->panel * l->blocks + block) * l->panel + n % l->panel) * 4;
}

/* Eight numbers of 4 bits as bytes. */
static uint64_t eight_bytes(const uint8_t *from) {
  uint32_t word;
  memcpy(&word, from, sizeof word);
  uint64_t apart = word;
  apart = (apart | apart << 16) & 0x0000ffff0000ffff;
  apart = (apart | apart << 8) & 0x00ff00ff00ff00ff;
  return (apart | apart << 4) & 0x0f0f0f0f0f0f0f0f;
}

void kern_nbits_read(const uint8_t *from, int64_t bits, int64_t count, uint8_t flip, uint8_t *to) {
  int64_t i = 0;
  for (; bits == 8 && i < count; i++) to[i] = from[i] ^ flip;
  for (; i + 8 <= count; i += 8) {
    const uint64_t bytes = eight_bytes(from + i / 2) ^ flip * UINT64_C(0x0101010101010101);
    memcpy(to + i, &bytes, sizeof bytes);
  }
  for (; i < count; i++) to[i] = (from[i / 2] >> (i % 2 * 4) & 15) ^ flip;
}

/* Four neighbours in the bytes of a word; of 4 bits the next four in their high halves. */
static uint32_t whole_word(const uint8_t *q, int64_t bits) {
  const uint32_t low = q[0] | (uint32_t)q[1] << 8 | (uint32_t)q[2] << 16 | (uint32_t)q[3] << 24;
  if (bits == 8) return low;
  return low | (q[4] | (uint32_t)q[5] << 8 | (uint32_t)q[6] << 16 | (uint32_t)q[7] << 24) << 4;
}

void kern_nbits_pack(const kern_nbits *l, int64_t n, const uint8_t *q, const float *scales, const uint8_t *zeros,
                     uint8_t *to) {
  const uint8_t middle = (uint8_t)(1 << (l->bits - 1));
  int bit = 0;
  uint8_t *at = to + word_at(l, l->words_at, l->words, n, 0, &bit);
  for (int64_t first = 0; first < l->k; first += l->per, at += 4 * l->panel) {
    const uint8_t none = l->zeros ? zeros[l->blocks - 1] : middle;
    uint32_t word = 0;
    if (first + l->per <= l->k) word = whole_word(q + first, l->bits);
    else
      for (int64_t i = 0; i < l->per; i++) word |= (uint32_t)(first + i < l->k ? q[first + i] : none) << bit_of(l, i);
    memcpy(at, &word, sizeof word);
  }
  for (int64_t b = 0; b < l->blocks; b++) {
    memcpy(to + scale_at(l, n, b), scales + b, sizeof *scales);
    if (!l->zeros) continue;
    at = to + word_at(l, l->zeros_at, l->zero_words, n, b, &bit);
    put(at, bit, zeros[b]);
  }
}

int kern_nbits_number(const kern_nbits *l, const uint8_t *packed, int64_t n, int64_t k, float *scale) {
  const int64_t block = k / l->block;
  int bit = 0, zero = 1 << (l->bits - 1);
  memcpy(scale, packed + scale_at(l, n, block), sizeof *scale);
  if (l->zeros) {
    const uint8_t *at = packed + word_at(l, l->zeros_at, l->zero_words, n, block, &bit);
    zero = get(at, bit, l->bits);
  }
  const uint8_t *at = packed + word_at(l, l->words_at, l->words, n, k, &bit);
  return get(at, bit, l->bits) - zero;
}

float kern_nbits_weight(const kern_nbits *l, const uint8_t *packed, int64_t n, int64_t k) {
  float scale;
  const int number = kern_nbits_number(l, packed, n, k, &scale);
  return (float)number * scale;
}

float kern_nbits_multiply(const kern_nbits *l, const uint8_t *packed, int64_t n, const base_f32 *x) {
  float sum = 0;
  for (int64_t k = 0; k < l->k; k++) sum += x[k] * kern_nbits_weight(l, packed, n, k);
  return sum;
}

bool kern_nbits_has_whole(const kern_nbits *l, int64_t x_bits, const kern_row *row) {
  const int64_t largest = ((1 << l->bits) - 1) * kern_nbits_x_most(x_bits);
  return l->block <= INT32_MAX / largest && (row->signature == KERN_OF_FOURS || (l->bits == 4 && x_bits == 8));
}
