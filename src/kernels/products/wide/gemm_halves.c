/* gemm_halves.c -- panels of bf16 and f16 (pack.h), widened as they are multiplied, or into a block in cache. */
#include "kernels/products/gemm_priv.h"

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
/* Panels side by side: sums enough to hide their latency, reads enough to keep memory busy; of several rows as many as
 * registers hold. */
enum { STREAMS = 8, FEW_STREAMS = V_REGISTERS == 32 ? 4 : 2, SUMS = 16 };

/* Rows of x, and their sums, [count][panels of the part][V_LANES]. */
typedef struct few_rows {
  const float *at;
  int64_t pitch, count;
  float *sums;
} few_rows;

V_INLINE const uint16_t *panel_at(const gemm_narrow *w, int64_t panel, int64_t k) {
  const int64_t rows = *(const int64_t *)w->layout;
  return (const uint16_t *)(const void *)w->b + (panel * rows + k) * V_LANES;
}

/* `rows` rows times `panels` panels, from `first` of the part on; missing ones are the last one again. */
V_TEMPLATE void multiply(const gemm_narrow *w, const gemm_part *part, int64_t first, const few_rows *x,
                         vf (*load)(const uint16_t *), const int rows, const int panels) {
  const uint16_t *from[STREAMS];
  const float *row[GEMM_FEW_ROWS];
  float *to[SUMS];
  vf sum[SUMS];
  V_FOR(r, rows) row[r] = x->at + base_min_i64(r, x->count - 1) * x->pitch;
  V_FOR(p, panels) from[p] = panel_at(w, part->panel + base_min_i64(first + p, part->panels - 1), part->k0);
  V_FOR(i, rows * panels) {
    const int64_t r = base_min_i64(i / panels, x->count - 1), p = base_min_i64(first + i % panels, part->panels - 1);
    to[i] = x->sums + (r * part->panels + p) * V_LANES;
    sum[i] = v_load(to[i]);
  }
  for (int64_t k = 0; k < part->k1 - part->k0; k++) {
    vf b[STREAMS];
    V_FOR(p, panels) b[p] = load(from[p] + k * V_LANES);
    V_FOR(r, rows) {
      const vf a = v_set(row[r][k]);
      V_FOR(p, panels) sum[r * panels + p] = v_fma(a, b[p], sum[r * panels + p]);
    }
  }
  V_FOR(i, rows * panels) v_store(to[i], sum[i]);
}

V_TEMPLATE void multiply_rows(const gemm_narrow *w, const gemm_part *part, const few_rows *x,
                              vf (*load)(const uint16_t *)) {
  for (int64_t first = 0; first < part->panels; first += FEW_STREAMS)
    multiply(w, part, first, x, load, GEMM_FEW_ROWS, FEW_STREAMS);
}

V_TEMPLATE void widen(const gemm_narrow *w, const gemm_part *part, float *to, int64_t pitch,
                      vf (*load)(const uint16_t *)) {
  for (int64_t p = 0; p < part->panels; p++) {
    const uint16_t *from = panel_at(w, part->panel + p, part->k0);
    float *out = to + p * pitch;
    for (int64_t i = 0; i < (part->k1 - part->k0) * V_LANES; i += V_LANES) v_store(out + i, load(from + i));
  }
}

#define HALF(name)                                                                                            \
  static void multiply_##name(const gemm_narrow *w, const gemm_part *part, const float *x, float *sums) {     \
    multiply(w, part, 0, &(few_rows){x, 0, 1, sums}, load_##name, 1, STREAMS);                                \
  }                                                                                                           \
  static void multiply_few_##name(const gemm_narrow *w, const gemm_part *part, const float *x, int64_t pitch, \
                                  int64_t rows, float *sums) {                                                \
    multiply_rows(w, part, &(few_rows){x, pitch, rows, sums}, load_##name);                                   \
  }                                                                                                           \
  static void widen_##name(const gemm_narrow *w, const gemm_part *part, float *to, int64_t pitch) {           \
    widen(w, part, to, pitch, load_##name);                                                                   \
  }
HALF(bf16)
HALF(f16)

void KERN_NAME(gemm_halves)(td_dtype dtype, gemm_narrow *to) {
  to->multiply = dtype == TD_BF16 ? multiply_bf16 : multiply_f16;
  to->multiply_few = dtype == TD_BF16 ? multiply_few_bf16 : multiply_few_f16;
  to->widen = dtype == TD_BF16 ? widen_bf16 : widen_f16;
}
#else
void KERN_NAME(gemm_halves)(td_dtype dtype, gemm_narrow *to) { (void)dtype, (void)to; }
#endif
