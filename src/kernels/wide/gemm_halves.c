/* gemm_halves.c -- panels of bf16 and f16 (pack.h), widened as they are multiplied, or into a block in cache. */
#include "kernels/gemm_priv.h"

#if defined V_AVX512
V_INLINE vf load_bf16(const uint16_t *p) {
  return v_as_float(vi_shl(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)), 16));
}
V_INLINE vf load_f16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
#elif defined V_AVX2
V_INLINE vf load_bf16(const uint16_t *p) {
  return v_as_float(vi_shl(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)), 16));
}
V_INLINE vf load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }
#endif

#if defined V_AVX512 || defined V_AVX2
enum { STREAMS = 8 }; /* panels side by side: sums enough to hide their latency, reads enough to keep memory busy */

V_INLINE const uint16_t *panel_at(const gemm_narrow *w, int64_t panel, int64_t k) {
  const int64_t rows = *(const int64_t *)w->layout;
  return (const uint16_t *)(const void *)w->b + (panel * rows + k) * V_LANES;
}

V_TEMPLATE void multiply(const gemm_narrow *w, const gemm_part *part, const float *x, float *sums,
                         vf (*load)(const uint16_t *)) {
  const uint16_t *from[STREAMS];
  vf sum[STREAMS];
  V_FOR(p, STREAMS) { /* missing ones are the last one again */
    const int64_t panel = base_min_i64(p, part->panels - 1);
    from[p] = panel_at(w, part->panel + panel, part->k0);
    sum[p] = v_load(sums + panel * V_LANES);
  }
  for (int64_t k = 0; k < part->k1 - part->k0; k++) {
    const vf a = v_set(x[k]);
    V_FOR(p, STREAMS) sum[p] = v_fma(a, load(from[p] + k * V_LANES), sum[p]);
  }
  V_FOR(p, STREAMS) v_store(sums + base_min_i64(p, part->panels - 1) * V_LANES, sum[p]);
}

V_TEMPLATE void widen(const gemm_narrow *w, const gemm_part *part, float *to, int64_t pitch,
                      vf (*load)(const uint16_t *)) {
  for (int64_t p = 0; p < part->panels; p++) {
    const uint16_t *from = panel_at(w, part->panel + p, part->k0);
    float *out = to + p * pitch;
    for (int64_t i = 0; i < (part->k1 - part->k0) * V_LANES; i += V_LANES) v_store(out + i, load(from + i));
  }
}

#define HALF(name)                                                                                        \
  static void multiply_##name(const gemm_narrow *w, const gemm_part *part, const float *x, float *sums) { \
    multiply(w, part, x, sums, load_##name);                                                              \
  }                                                                                                       \
  static void widen_##name(const gemm_narrow *w, const gemm_part *part, float *to, int64_t pitch) {       \
    widen(w, part, to, pitch, load_##name);                                                               \
  }
HALF(bf16)
HALF(f16)

void KERN_NAME(gemm_halves)(td_dtype dtype, gemm_narrow *to) {
  to->multiply = dtype == TD_BF16 ? multiply_bf16 : multiply_f16;
  to->widen = dtype == TD_BF16 ? widen_bf16 : widen_f16;
}
#else
void KERN_NAME(gemm_halves)(td_dtype dtype, gemm_narrow *to) { (void)dtype, (void)to; }
#endif
