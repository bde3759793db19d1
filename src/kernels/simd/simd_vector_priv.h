/* simd_vector_priv.h -- the vocabulary on the compiler's vector extensions, V_BYTES wide: any CPU runs it. With 4 bytes
 * it is the scalar level. Multiplications and additions are fused by fmaf in neither: v_fma rounds twice. */
#ifndef KERNELS_SIMD_VECTOR_PRIV_H
#define KERNELS_SIMD_VECTOR_PRIV_H

#define V_BYTES (4 * KERN_LANES)
#define V_NATIVE 0
#define V_MASKED 0
#define V_REGISTERS 16
enum { V_LANES = V_BYTES / 4, V_FUSED = 0 };
typedef float vf __attribute__((vector_size(V_BYTES), may_alias));
typedef int32_t vi __attribute__((vector_size(V_BYTES), may_alias));
typedef vi vm;
#define V_EACH(i) for (int i = 0; i < V_LANES; i++)

V_INLINE void v_store(float *p, vf a) { memcpy(p, &a, sizeof a); }
V_INLINE void v_stream(float *p, vf a) { v_store(p, a); } /* there is no other way */
V_INLINE void v_fence(void) {}
V_INLINE vf v_keep(vf a) { return a; }
V_INLINE vf v_load_n(const float *p, int64_t n) {
  vf a = {0};
  if (n) memcpy(&a, p, (size_t)n * sizeof *p);
  return a;
}
V_INLINE vf v_load_or(const float *p, int64_t n, vf rest) {
  if (n) memcpy(&rest, p, (size_t)n * sizeof *p);
  return rest;
}
V_INLINE void v_store_n(float *p, vf a, int64_t n) {
  if (n) memcpy(p, &a, (size_t)n * sizeof *p);
}
V_INLINE vf v_fma(vf a, vf b, vf c) { return a * b + c; }
V_INLINE vf v_fma_low(vf a, vf b, vf c) { return v_fma(a, b, c); }
V_INLINE vf v_fnma(vf a, vf b, vf c) { return c - a * b; }
V_INLINE vf v_permute(vf a, vi index) {
  vf b;
  V_EACH(i) b[i] = a[index[i] & (V_LANES - 1)];
  return b;
}
V_INLINE vf v_gather(const float *from, const int32_t *index, int64_t n) {
  vf a = {0};
  for (int64_t i = 0; i < n; i++) a[i] = from[index[i]];
  return a;
}
V_INLINE bool v_any(vm m) {
  int32_t any = 0;
  V_EACH(i) any |= m[i];
  return any != 0;
}
V_INLINE float v_sum(vf a) { /* in halves, as the narrow instruction sets do */
  for (int half = V_LANES / 2; half; half /= 2)
    for (int i = 0; i < half; i++) a[i] += a[i + half];
  return a[0];
}
V_INLINE float v_highest(vf a) {
  float best = a[0];
  V_EACH(i) best = a[i] > best ? a[i] : best;
  return best;
}
V_INLINE float v_lowest(vf a) {
  float best = a[0];
  V_EACH(i) best = a[i] < best ? a[i] : best;
  return best;
}
V_INLINE vi v_to_int(vf a) {
  vi b;
  V_EACH(i) {
    float x = rintf(a[i]);
    b[i] = x >= -2147483648.0f && x < 2147483648.0f ? (int32_t)x : INT32_MIN;
  }
  return b;
}
V_INLINE vi vi_shl(vi a, uint32_t n) { return (vi)((vu)a << n); }
V_INLINE vi vi_shr(vi a, uint32_t n) { return a >> (int32_t)n; }
V_INLINE vi v_lookup(const int32_t table[8], vi index) {
  vi a;
  V_EACH(i) a[i] = table[index[i] & 7];
  return a;
}
V_INLINE void v_transpose(vf *r) {
  V_EACH(i)
  for (int j = 0; j < i; j++) {
    float kept = r[i][j];
    r[i][j] = r[j][i];
    r[j][i] = kept;
  }
}
#endif
