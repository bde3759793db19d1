/* simd_avx2_priv.h -- the vocabulary on AVX2 and FMA. A mask is a vector of all-ones and all-zeros lanes. */
#ifndef KERNELS_SIMD_AVX2_PRIV_H
#define KERNELS_SIMD_AVX2_PRIV_H
#include <immintrin.h>

#define V_AVX2 1
#define V_NATIVE 1
#define V_MASKED 0
#define V_REGISTERS 16
enum { V_LANES = 8, V_FUSED = 1 };
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;

V_INLINE vi v_first(int64_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lanes);
}
V_INLINE void v_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
V_INLINE void v_stream(float *p, vf a) { _mm256_stream_ps(p, a); }
V_INLINE void v_fence(void) { _mm_sfence(); }
V_INLINE vf v_load_n(const float *p, int64_t n) { return _mm256_maskload_ps(p, v_first(n)); }
V_INLINE vf v_load_or(const float *p, int64_t n, vf rest) {
  vi first = v_first(n);
  return _mm256_blendv_ps(rest, _mm256_maskload_ps(p, first), _mm256_castsi256_ps(first));
}
V_INLINE void v_store_n(float *p, vf a, int64_t n) { _mm256_maskstore_ps(p, v_first(n), a); }
V_INLINE vf v_keep(vf a) {
  __asm__("" : "+x"(a));
  return a;
}
V_INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
V_INLINE vf v_fma_low(vf a, vf b, vf c) { return v_fma(a, b, c); }
V_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
V_INLINE vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
V_INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
V_INLINE vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
V_INLINE vf v_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#define V_HALVES 1
V_INLINE vf v_half(vf a) { return _mm256_cvtph_ps(_mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)); }
V_INLINE vf v_floor(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
V_INLINE vf v_ceil(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
V_INLINE vm v_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
V_INLINE bool v_any(vm m) { return _mm256_movemask_ps(m) != 0; }
V_INLINE vm v_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
V_INLINE vm v_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
V_INLINE vf v_select(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
V_INLINE float v_sum(vf a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
V_INLINE float v_highest(vf a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
V_INLINE float v_lowest(vf a) {
  __m128 s = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_min_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_min_ss(s, _mm_movehdup_ps(s)));
}
V_INLINE vf v_permute(vf a, vi index) { return _mm256_permutevar8x32_ps(a, index); }
V_INLINE vf v_gather(const float *from, const int32_t *index, int64_t n) {
  vi first = v_first(n), at = _mm256_maskload_epi32(index, first);
  return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), from, at, _mm256_castsi256_ps(first), 4);
}
V_INLINE vi v_to_int(vf a) { return _mm256_cvtps_epi32(a); }
V_INLINE vi vi_shl(vi a, uint32_t n) { return _mm256_slli_epi32(a, (int)n); }
V_INLINE vi vi_shr(vi a, uint32_t n) { return _mm256_srai_epi32(a, (int)n); }
V_INLINE vi v_lookup(const int32_t table[8], vi index) {
  return _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(const void *)table), index);
}
V_INLINE void v_transpose(vf *r) {
  vf t[8];
  V_UNROLL
  for (int i = 0; i < 4; i++) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  V_UNROLL
  for (int i = 0; i < 4; i++) { /* r[4 q + j]: half L holds column 4 L + j of rows 4 q to 4 q + 3 */
    __m256d low = _mm256_castps_pd(t[i / 2 * 4 + i % 2]), high = _mm256_castps_pd(t[i / 2 * 4 + i % 2 + 2]);
    r[2 * i] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
    r[2 * i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
  }
  V_UNROLL
  for (int j = 0; j < 4; j++) {
    t[j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x20);
    r[4 + j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x31);
    r[j] = t[j];
  }
}
#endif
