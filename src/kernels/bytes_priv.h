/* bytes_priv.h -- the vocabulary of products of 8-bit integers: sums of i32 in the lanes of a vector, BYTES_DEPTH
 * products added to each by one instruction or two.
 *
 * Elements of x are byte_x, from 0 to 255, BYTES_DEPTH of them in 32 bits; weights are i8 (pack_i8.h). With VNNI both
 * are bytes. Without, x is widened to 16 bits where rows are gathered, and weights as they are loaded: instructions
 * that multiply bytes there (vpmaddubsw) saturate their sums. */
#ifndef KERNELS_BYTES_PRIV_H
#define KERNELS_BYTES_PRIV_H
#include "kernels/simd_priv.h"

#if defined V_AVX512
enum { BYTES_DEPTH = 4 };
typedef uint8_t byte_x;
V_INLINE vi b_load(const int8_t *p) { return _mm512_loadu_si512(p); }
/* gcc 12 keeps the sums of its own intrinsic in too many registers. */
V_INLINE vi b_dot(vi sum, vi x, vi w) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
  return sum;
}
V_INLINE vi b_load_i32(const int32_t *p) { return _mm512_loadu_si512(p); }
V_INLINE void b_store_i32(int32_t *p, vi a) { _mm512_storeu_si512(p, a); }
/* The first n lanes, each of 0 to 255 or of -128 to 127. */
V_INLINE void b_store(uint8_t *p, vi a, int64_t n) { _mm512_mask_cvtepi32_storeu_epi8(p, v_first(n), a); }
V_INLINE void b_store_x(byte_x *p, vi a, int64_t n) { b_store(p, a, n); }
/* B_COPIED elements as they are read, each bit of `flip` turned over. */
enum { B_COPIED = 16 };
V_INLINE void b_copy(byte_x *to, const uint8_t *from, uint8_t flip) {
  const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
  _mm_storeu_si128((__m128i *)(void *)to, _mm_xor_si128(bytes, _mm_set1_epi8((char)flip)));
}
#else
enum { BYTES_DEPTH = 2 };
typedef int16_t byte_x;
V_INLINE vi b_load(const int8_t *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p)); }
V_INLINE vi b_dot(vi sum, vi x, vi w) { return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w)); }
V_INLINE vi b_load_i32(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
V_INLINE void b_store_i32(int32_t *p, vi a) { _mm256_storeu_si256((__m256i *)(void *)p, a); }
V_INLINE __m128i b_narrow(vi a) { return _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)); }
V_INLINE void b_store(uint8_t *p, vi a, int64_t n) {
  const __m128i words = b_narrow(vi_and(a, vi_set(255)));
  uint8_t bytes[16];
  _mm_storeu_si128((__m128i *)(void *)bytes, _mm_packus_epi16(words, words));
  memcpy(p, bytes, (size_t)n);
}
V_INLINE void b_store_x(byte_x *p, vi a, int64_t n) {
  byte_x words[8];
  _mm_storeu_si128((__m128i *)(void *)words, b_narrow(a));
  memcpy(p, words, (size_t)n * sizeof *p);
}
enum { B_COPIED = 16 };
V_INLINE void b_copy(byte_x *to, const uint8_t *from, uint8_t flip) {
  const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
  const __m128i turned = _mm_xor_si128(bytes, _mm_set1_epi8((char)flip));
  _mm256_storeu_si256((__m256i *)(void *)to, _mm256_cvtepu8_epi16(turned));
}
#endif
#endif
