/* halves_priv.h -- rows of f16 and bf16 to floats and back, a vector at a time, on any level: in vectors of the
 * compiler, as the formats say. Rounds to nearest, ties to even. */
#ifndef KERNELS_WIDE_HALVES_PRIV_H
#define KERNELS_WIDE_HALVES_PRIV_H
#include "kernels/simd_priv.h"

typedef uint16_t halves __attribute__((vector_size(2 * V_LANES)));
typedef uint32_t words __attribute__((vector_size(4 * V_LANES)));
typedef float floats __attribute__((vector_size(4 * V_LANES)));

static inline words bf16_words(words x) { return x << 16; }

/* Halves have 5 bits of exponent around 15, floats 8 around 127: 2^112 lies between, subnormal halves too. */
static inline words f16_words(words x) {
  const words sign = (x & 0x8000) << 16, rest = x & 0x7fff;
  const floats moved = (floats)(rest << 13) * 0x1p112f;
  return sign | (words)moved | ((words)(rest >= 0x7c00) & 0x7f800000);
}

static inline words words_bf16(words x) {
  const words nan = (words)((x & 0x7fffffff) > 0x7f800000);
  return (((x + 0x7fff + (x >> 16 & 1)) >> 16) & ~nan) | ((x >> 16 | 0x40) & nan);
}

static inline words words_f16(words x) {
  const words sign = x >> 16 & 0x8000, rest = x & 0x7fffffff;
  const words normal = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
  /* Adding one half leaves the bits of a subnormal half, rounded, in the lowest bits. */
  const words small = (words)((floats)rest + 0.5f) - 0x3f000000;
  const words is_small = (words)(rest < 0x38800000), is_large = (words)(rest >= 0x47800000),
              is_nan = (words)(rest > 0x7f800000);
  words half = (small & is_small) | (normal & ~is_small);
  half = (half & ~is_large) | (is_large & 0x7c00) | (is_nan & 0x200);
  return half | sign;
}

#define HALVES_ROWS(name)                                            \
  static void read_##name(float *to, const void *from, int64_t n) {  \
    const uint16_t *at = from;                                       \
    int64_t i = 0;                                                   \
    halves half = {0};                                               \
    words word;                                                      \
    for (; i + V_LANES <= n; i += V_LANES) {                         \
      memcpy(&half, at + i, sizeof half);                            \
      word = name##_words(__builtin_convertvector(half, words));     \
      memcpy(to + i, &word, sizeof word);                            \
    }                                                                \
    if (i == n) return;                                              \
    memcpy(&half, at + i, (size_t)(n - i) * sizeof *at);             \
    word = name##_words(__builtin_convertvector(half, words));       \
    memcpy(to + i, &word, (size_t)(n - i) * sizeof *to);             \
  }                                                                  \
  static void write_##name(void *to, const float *from, int64_t n) { \
    uint16_t *at = to;                                               \
    int64_t i = 0;                                                   \
    halves half;                                                     \
    words word = {0};                                                \
    for (; i + V_LANES <= n; i += V_LANES) {                         \
      memcpy(&word, from + i, sizeof word);                          \
      half = __builtin_convertvector(words_##name(word), halves);    \
      memcpy(at + i, &half, sizeof half);                            \
    }                                                                \
    if (i == n) return;                                              \
    memcpy(&word, from + i, (size_t)(n - i) * sizeof *from);         \
    half = __builtin_convertvector(words_##name(word), halves);      \
    memcpy(at + i, &half, (size_t)(n - i) * sizeof *at);             \
  }
HALVES_ROWS(f16)
HALVES_ROWS(bf16)
#undef HALVES_ROWS
#endif
