/* narrow_priv.h -- rows of elements that are wider where loops compute with them: f16 and bf16 as floats, whole numbers
 * of 1 and 2 bytes as int32. A vector at a time, on any level, in vectors of the compiler where the level has no
 * instruction. Floats are rounded to nearest, ties to even; whole numbers are cut, and wrap so. */
#ifndef KERNELS_WIDE_NARROW_PRIV_H
#define KERNELS_WIDE_NARROW_PRIV_H
#include "kernels/simd/simd_priv.h"

typedef uint32_t words __attribute__((vector_size(4 * V_LANES)));
typedef int32_t lanes_i32 __attribute__((vector_size(4 * V_LANES)));
typedef float floats __attribute__((vector_size(4 * V_LANES)));
typedef uint16_t lanes_f16 __attribute__((vector_size(2 * V_LANES)));
typedef uint16_t lanes_bf16 __attribute__((vector_size(2 * V_LANES)));
typedef uint16_t lanes_u16 __attribute__((vector_size(2 * V_LANES)));
typedef int16_t lanes_i16 __attribute__((vector_size(2 * V_LANES)));
typedef uint8_t lanes_u8 __attribute__((vector_size(V_LANES)));
typedef int8_t lanes_i8 __attribute__((vector_size(V_LANES)));

/* The low 16 and the low 8 bits of each word, and words of these bits. */
#if defined V_AVX512
V_INLINE lanes_u16 low_16(words x) { return (lanes_u16)_mm512_cvtepi32_epi16((__m512i)x); }
V_INLINE lanes_u8 low_8(words x) { return (lanes_u8)_mm512_cvtepi32_epi8((__m512i)x); }
V_INLINE words of_16(lanes_u16 x) { return (words)_mm512_cvtepu16_epi32((__m256i)x); }
V_INLINE words of_8(lanes_u8 x) { return (words)_mm512_cvtepu8_epi32((__m128i)x); }
V_INLINE words words_of_f16(lanes_f16 x) { return (words)_mm512_cvtph_ps((__m256i)x); }
V_INLINE lanes_f16 f16_of(words x) { return (lanes_f16)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT); }
#elif defined V_AVX2
V_INLINE lanes_u16 low_16(words x) {
  const __m256i low = (__m256i)(x & 0xffff), halves = _mm256_packus_epi32(low, low); /* in each half of the vector */
  return (lanes_u16)_mm256_castsi256_si128(_mm256_permute4x64_epi64(halves, 0x08));
}
V_INLINE lanes_u8 low_8(words x) {
  const __m128i halves = (__m128i)low_16(x & 0xff), bytes = _mm_packus_epi16(halves, halves);
  lanes_u8 low;
  memcpy(&low, &bytes, sizeof low);
  return low;
}
V_INLINE words of_16(lanes_u16 x) { return (words)_mm256_cvtepu16_epi32((__m128i)x); }
V_INLINE words of_8(lanes_u8 x) {
  int64_t bytes;
  memcpy(&bytes, &x, sizeof bytes);
  return (words)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes));
}
V_INLINE words words_of_f16(lanes_f16 x) { return (words)_mm256_cvtph_ps((__m128i)x); }
V_INLINE lanes_f16 f16_of(words x) { return (lanes_f16)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT); }
#else
V_INLINE lanes_u16 low_16(words x) { return __builtin_convertvector(x, lanes_u16); }
V_INLINE lanes_u8 low_8(words x) { return __builtin_convertvector(x, lanes_u8); }
V_INLINE words of_16(lanes_u16 x) { return __builtin_convertvector(x, words); }
V_INLINE words of_8(lanes_u8 x) { return __builtin_convertvector(x, words); }
/* Halves have 5 bits of exponent around 15, floats 8 around 127: 2^112 lies between, subnormal halves too. */
V_INLINE words words_of_f16(lanes_f16 half) {
  const words x = of_16(half), sign = (x & 0x8000) << 16, rest = x & 0x7fff;
  const floats moved = (floats)(rest << 13) * 0x1p112f;
  return sign | (words)moved | ((words)(rest >= 0x7c00) & 0x7f800000);
}

V_INLINE lanes_f16 f16_of(words x) {
  const words sign = x >> 16 & 0x8000, rest = x & 0x7fffffff;
  const words normal = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
  /* Adding one half leaves the bits of a subnormal half, rounded, in the lowest bits. */
  const words small = (words)((floats)rest + 0.5f) - 0x3f000000;
  const words is_small = (words)(rest < 0x38800000), is_large = (words)(rest >= 0x47800000),
              is_nan = (words)(rest > 0x7f800000);
  words half = (small & is_small) | (normal & ~is_small);
  half = (half & ~is_large) | (is_large & 0x7c00) | (is_nan & 0x200);
  return low_16(half | sign);
}
#endif

V_INLINE words words_of_bf16(lanes_bf16 x) { return of_16(x) << 16; }
V_INLINE lanes_bf16 bf16_of(words x) {
  const words nan = (words)((x & 0x7fffffff) > 0x7f800000);
  const words half = (((x + 0x7fff + (x >> 16 & 1)) >> 16) & ~nan) | ((x >> 16 | 0x40) & nan);
  return low_16(half);
}
V_INLINE words words_of_u16(lanes_u16 x) { return of_16(x); }
V_INLINE lanes_u16 u16_of(words x) { return low_16(x); }
V_INLINE words words_of_i16(lanes_i16 x) { return (words)((lanes_i32)(of_16((lanes_u16)x) << 16) >> 16); }
V_INLINE lanes_i16 i16_of(words x) { return (lanes_i16)low_16(x); }
V_INLINE words words_of_u8(lanes_u8 x) { return of_8(x); }
V_INLINE lanes_u8 u8_of(words x) { return low_8(x); }
V_INLINE words words_of_i8(lanes_i8 x) { return (words)((lanes_i32)(of_8((lanes_u8)x) << 24) >> 24); }
V_INLINE lanes_i8 i8_of(words x) { return (lanes_i8)low_8(x); }

/* read_<name>, write_<name>: n elements, each side dense and of any alignment. */
#define NARROW_ROWS(name)                                                                   \
  static __attribute__((unused)) void read_##name(void *to, const void *from, int64_t n) {  \
    const size_t each = sizeof(lanes_##name) / V_LANES;                                     \
    const char *at = from;                                                                  \
    float *out = to;                                                                        \
    for (; n >= V_LANES; n -= V_LANES, at += sizeof(lanes_##name)) {                        \
      lanes_##name few;                                                                     \
      memcpy(&few, at, sizeof few);                                                         \
      const words many = words_of_##name(few);                                              \
      memcpy(out, &many, sizeof many);                                                      \
      out += V_LANES;                                                                       \
    }                                                                                       \
    if (n <= 0) return;                                                                     \
    lanes_##name rest = {0};                                                                \
    memcpy(&rest, at, (size_t)n *each);                                                     \
    const words last = words_of_##name(rest);                                               \
    memcpy(out, &last, (size_t)n * sizeof *out);                                            \
  }                                                                                         \
  static __attribute__((unused)) void write_##name(void *to, const void *from, int64_t n) { \
    const size_t each = sizeof(lanes_##name) / V_LANES;                                     \
    const float *at = from;                                                                 \
    char *out = to;                                                                         \
    for (; n >= V_LANES; n -= V_LANES, at += V_LANES) {                                     \
      words many;                                                                           \
      memcpy(&many, at, sizeof many);                                                       \
      const lanes_##name few = name##_of(many);                                             \
      memcpy(out, &few, sizeof few);                                                        \
      out += sizeof few;                                                                    \
    }                                                                                       \
    if (n <= 0) return;                                                                     \
    words rest = {0};                                                                       \
    memcpy(&rest, at, (size_t)n * sizeof *at);                                              \
    const lanes_##name last = name##_of(rest);                                              \
    memcpy(out, &last, (size_t)n *each);                                                    \
  }
NARROW_ROWS(f16)
NARROW_ROWS(bf16)
NARROW_ROWS(u16)
NARROW_ROWS(i16)
NARROW_ROWS(u8)
NARROW_ROWS(i8)
#undef NARROW_ROWS
#endif
