/* simd_avx512_priv.h -- the vocabulary on AVX-512 F, BW, VL, DQ. */
#ifndef KERNELS_SIMD_AVX512_PRIV_H
#define KERNELS_SIMD_AVX512_PRIV_H
#include <immintrin.h>

#define V_AVX512 1
#define V_NATIVE 1
#define V_MASKED 1
#define V_REGISTERS 32
enum { V_LANES = 16, V_FUSED = 1 };
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

V_INLINE vm v_first(int64_t n) { return (vm)((1u << n) - 1); }
V_INLINE void v_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
V_INLINE void v_stream(float *p, vf a) { _mm512_stream_ps(p, a); }
V_INLINE void v_fence(void) { _mm_sfence(); }
V_INLINE vf v_load_n(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(v_first(n), p); }
V_INLINE vf v_load_or(const float *p, int64_t n, vf rest) { return _mm512_mask_loadu_ps(rest, v_first(n), p); }
V_INLINE void v_store_n(float *p, vf a, int64_t n) { _mm512_mask_storeu_ps(p, v_first(n), a); }
V_INLINE vf v_keep(vf a) {
  __asm__("" : "+v"(a));
  return a;
}
V_INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
V_INLINE vf v_fma_low(vf a, vf b, vf c) {
  return _mm512_zextps256_ps512(
      _mm256_fmadd_ps(_mm512_castps512_ps256(a), _mm512_castps512_ps256(b), _mm512_castps512_ps256(c)));
}
V_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
V_INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
V_INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
V_INLINE vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
V_INLINE vf v_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#define V_HALVES 1 /* has v_half: the nearest number that f16 has */
V_INLINE vf v_half(vf a) { return _mm512_cvtph_ps(_mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); }
V_INLINE vf v_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
V_INLINE vf v_ceil(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
V_INLINE vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
V_INLINE bool v_any(vm m) { return m != 0; }
V_INLINE vm v_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
V_INLINE vm v_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
V_INLINE vf v_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
V_INLINE float v_sum(vf a) { return _mm512_reduce_add_ps(a); }
V_INLINE float v_highest(vf a) { return _mm512_reduce_max_ps(a); }
V_INLINE float v_lowest(vf a) { return _mm512_reduce_min_ps(a); }
V_INLINE vf v_permute(vf a, vi index) { return _mm512_permutexvar_ps(index, a); }
V_INLINE vf v_gather(const float *from, const int32_t *index, int64_t n) {
  vm first = v_first(n);
  vi at = _mm512_maskz_loadu_epi32(first, index);
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), first, at, from, 4);
}
V_INLINE vi v_to_int(vf a) { return _mm512_cvtps_epi32(a); }
V_INLINE vi vi_shl(vi a, uint32_t n) { return _mm512_slli_epi32(a, n); }
V_INLINE vi vi_shr(vi a, uint32_t n) { return _mm512_srai_epi32(a, n); }
V_INLINE vi v_lookup(const int32_t table[8], vi index) {
  __m512i twice = _mm512_broadcast_i32x8(_mm256_loadu_si256((const __m256i *)(const void *)table));
  return _mm512_permutexvar_epi32(index, twice);
}
V_INLINE void v_transpose(vf *r) {
  vf t[16];
  V_UNROLL
  for (int i = 0; i < 8; i++) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  V_UNROLL
  for (int i = 0; i < 8; i++) { /* r[4 q + j]: lane of four L holds column 4 L + j of rows 4 q to 4 q + 3 */
    __m512d low = _mm512_castps_pd(t[i / 2 * 4 + i % 2]), high = _mm512_castps_pd(t[i / 2 * 4 + i % 2 + 2]);
    r[2 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
    r[2 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
  }
  V_UNROLL
  for (int j = 0; j < 4; j++) {
    vf even = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88), odd = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
    t[j] = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88), t[4 + j] = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
    r[j] = _mm512_shuffle_f32x4(even, t[j], 0x88);
    r[4 + j] = _mm512_shuffle_f32x4(odd, t[4 + j], 0x88);
    r[8 + j] = _mm512_shuffle_f32x4(even, t[j], 0xdd);
    r[12 + j] = _mm512_shuffle_f32x4(odd, t[4 + j], 0xdd);
  }
}
#endif
