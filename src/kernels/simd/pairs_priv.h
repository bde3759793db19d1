/* pairs_priv.h -- the vocabulary of products of bf16: f32 sums in the lanes of a vector, and a pair of products added
 * to each by one instruction. A pair of neighbours along k is one word of 32 bits, the first in its low half.
 *
 *     sum = fma(second of a, second of b, sum);  sum = fma(first of a, first of b, sum)
 *
 * each rounded to nearest even. The instruction takes subnormal numbers for zero, and makes none; the other form, by
 * which the kernels are tested where there is no such instruction, keeps them. */
#ifndef KERNELS_PAIRS_PRIV_H
#define KERNELS_PAIRS_PRIV_H
#include "kernels/simd/simd_priv.h"
#include "kernels/simd/wide/narrow_priv.h"

#if defined __AVX512BF16__
V_INLINE vf p_dot(vf sum, vf a, vf b) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}
/* The same of the low half alone; the rest of the sum is anything. */
V_INLINE vf p_dot_low(vf sum, vf a, vf b) {
  __asm__("vdpbf16ps %t2, %t1, %t0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}
/* Two vectors, rounded, one behind the other. */
V_INLINE vf p_round_two(vf low, vf high) {
  vf pairs;
  __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(pairs) : "v"(high), "v"(low));
  return pairs;
}
/* Two vectors, rounded, as pairs of a number of each. */
V_INLINE vf p_interleave(vf first, vf second) {
  static const uint16_t order[] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                   8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return (vf)_mm512_permutexvar_epi16(_mm512_loadu_si512(order), (__m512i)p_round_two(first, second));
}
/* A vector, rounded. */
V_INLINE lanes_bf16 p_round(vf x) {
  lanes_bf16 rounded;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(x));
  return rounded;
}
#else
V_INLINE vf p_first(vf a) { return v_as_float(vi_shl(v_as_int(a), 16)); }
V_INLINE vf p_second(vf a) { return v_as_float(vi_and(v_as_int(a), vi_set((int32_t)0xffff0000))); }
V_INLINE vf p_dot(vf sum, vf a, vf b) { return v_fma(p_first(a), p_first(b), v_fma(p_second(a), p_second(b), sum)); }
V_INLINE vf p_dot_low(vf sum, vf a, vf b) { return p_dot(sum, a, b); }
V_INLINE lanes_bf16 p_round(vf x) {
  words bits;
  memcpy(&bits, &x, sizeof bits);
  return bf16_of(bits);
}
V_INLINE vf p_interleave(vf first, vf second) {
  const words pairs = of_16((lanes_u16)p_round(first)) | of_16((lanes_u16)p_round(second)) << 16;
  vf both;
  memcpy(&both, &pairs, sizeof both);
  return both;
}
V_INLINE vf p_round_two(vf low, vf high) {
  const lanes_bf16 pairs[] = {p_round(low), p_round(high)};
  vf both;
  memcpy(&both, pairs, sizeof both);
  return both;
}
#endif
/* V_LANES pairs from as many times two floats. */
V_INLINE vf p_narrow(const float *from) { return p_round_two(v_load(from), v_load(from + V_LANES)); }
V_INLINE vf p_widen(lanes_bf16 x) {
  const words bits = words_of_bf16(x);
  vf wide;
  memcpy(&wide, &bits, sizeof wide);
  return wide;
}
/* The first n numbers, at most a vector's. */
V_INLINE vf p_load_whole(const uint16_t *from) {
  lanes_bf16 some;
  memcpy(&some, from, sizeof some);
  return p_widen(some);
}
V_INLINE void p_store_whole(uint16_t *to, vf x) {
  const lanes_bf16 some = p_round(x);
  memcpy(to, &some, sizeof some);
}
V_INLINE vf p_load(const uint16_t *from, int64_t n) {
  lanes_bf16 some = {0};
#if defined V_AVX512
  some = (lanes_bf16)_mm256_maskz_loadu_epi16(v_first(n), from);
#else
  memcpy(&some, from, (size_t)n * sizeof *from);
#endif
  return p_widen(some);
}
V_INLINE void p_store(uint16_t *to, vf x, int64_t n) {
  const lanes_bf16 some = p_round(x);
#if defined V_AVX512
  _mm256_mask_storeu_epi16(to, v_first(n), (__m256i)some);
#else
  memcpy(to, &some, (size_t)n * sizeof *to);
#endif
}
/* n floats, rounded. */
V_INLINE void p_round_row(uint16_t *to, const float *from, int64_t n) {
  for (; n >= 2 * V_LANES; n -= 2 * V_LANES, from += 2 * V_LANES, to += 2 * V_LANES) {
    const vf pairs = p_narrow(from);
    memcpy(to, &pairs, sizeof pairs);
  }
  for (int64_t i = 0; i < n; i += V_LANES) {
    const int64_t lanes = base_min_i64(V_LANES, n - i);
    p_store(to + i, v_load_n(from + i, lanes), lanes);
  }
}
/* n numbers as floats. */
V_INLINE void p_widen_row(float *to, const uint16_t *from, int64_t n) {
  for (; n >= V_LANES; n -= V_LANES, from += V_LANES, to += V_LANES) v_store(to, p_load_whole(from));
  if (n > 0) v_store_n(to, p_load(from, n), n);
}
#endif
