/* vocabulary_priv.h -- the words of kernels/simd/simd.def without a header, for generated code: what the compiler has
 * built in. It is no part of the library: its text opens each generated file, that of simd.def follows, then
 * types_priv.h. */
typedef __INT8_TYPE__ int8_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
#define INT32_MAX 0x7fffffff
#define INT32_MIN (-INT32_MAX - 1)
#define INT64_MAX 0x7fffffffffffffffll
#define INT64_MIN (-INT64_MAX - 1)
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define V_INLINE static inline __attribute__((always_inline, unused))
#define V_SHARED V_INLINE
#if defined __clang__
#define V_FOR(i, n) _Pragma("clang loop unroll(full)") for (int i = 0; i < (n); i++)
#else
#define V_FOR(i, n) _Pragma("GCC unroll 32") for (int i = 0; i < (n); i++)
#endif
#if defined __AVX512F__ && defined __AVX512DQ__
#define V_BYTES 64
#elif defined __AVX2__ && defined __FMA__
#define V_BYTES 32
#else
#define V_BYTES 16
#endif
#if V_BYTES > 16
#define V_FUSED 1
#else
#define V_FUSED 0
#endif
#define V_LANES (V_BYTES / 4)
#define V_EACH(i) for (int i = 0; i < V_LANES; i++)
typedef float vf __attribute__((vector_size(V_BYTES), may_alias));
typedef int32_t vi __attribute__((vector_size(V_BYTES), may_alias));
typedef vi vs;
typedef uint32_t vu __attribute__((vector_size(V_BYTES), may_alias));
typedef float vf_any __attribute__((vector_size(V_BYTES), may_alias, aligned(4)));
typedef int32_t vi_any __attribute__((vector_size(V_BYTES), may_alias, aligned(4)));

V_INLINE void v_store(float *p, vf a) { *(vf_any *)p = a; }
V_INLINE vi vi_shl(vi a, uint32_t n) { return (vi)((vu)a << n); }
V_INLINE vi vi_shr(vi a, uint32_t n) { return a >> (int32_t)n; }
/* Compilers take a loop for what it says: an element after the other. */
#define V_TABLE(t) t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]
V_INLINE vi v_lookup(const int32_t table[8], vi index) {
#if V_BYTES == 16
  vi a;
  V_EACH(i) a[i] = table[index[i] & 7];
  return a;
#elif V_BYTES == 32 && defined __clang__
  return __builtin_ia32_permvarsi256((vi){V_TABLE(table)}, index);
#elif V_BYTES == 32
  return __builtin_shuffle((vi){V_TABLE(table)}, index);
#elif defined __clang__
  return __builtin_ia32_permvarsi512((vi){V_TABLE(table), V_TABLE(table)}, index);
#else
  return __builtin_shuffle((vi){V_TABLE(table), V_TABLE(table)}, index);
#endif
}
/* The lanes of a, rotated by half of them, a quarter, and so on, so that joining each with what was there joins all. */
#define V_TURN16(a, k)                                                                                              \
  __builtin_shufflevector(a, a, k, (k) + 1, (k) + 2, (k) + 3, (k) + 4, (k) + 5, (k) + 6, (k) + 7, (k) + 8, (k) + 9, \
                          (k) + 10, (k) + 11, (k) + 12, (k) + 13, (k) + 14, (k) + 15)
#define V_TURN8(a, k) __builtin_shufflevector(a, a, k, (k) + 1, (k) + 2, (k) + 3, (k) + 4, (k) + 5, (k) + 6, (k) + 7)
#define V_TURN4(a, k) __builtin_shufflevector(a, a, k, (k) + 1, (k) + 2, (k) + 3)
#if V_BYTES == 64
#define V_ACROSS(a, join) \
  a = join(a, V_TURN16(a, 8)), a = join(a, V_TURN16(a, 4)), a = join(a, V_TURN16(a, 2)), a = join(a, V_TURN16(a, 1))
#elif V_BYTES == 32
#define V_ACROSS(a, join) a = join(a, V_TURN8(a, 4)), a = join(a, V_TURN8(a, 2)), a = join(a, V_TURN8(a, 1))
#else
#define V_ACROSS(a, join) a = join(a, V_TURN4(a, 2)), a = join(a, V_TURN4(a, 1))
#endif

#if V_BYTES == 64 && !defined __clang__
typedef unsigned short vm;
#define V_ALL ((unsigned short)-1)
V_INLINE vm v_first(int64_t n) { return (vm)((1u << n) - 1); }
V_INLINE vf v_load_n(const float *p, int64_t n) { return __builtin_ia32_loadups512_mask(p, (vf){0}, v_first(n)); }
V_INLINE void v_store_n(float *p, vf a, int64_t n) { __builtin_ia32_storeups512_mask(p, a, v_first(n)); }
V_INLINE vf v_fma(vf a, vf b, vf c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, V_ALL, 4); }
V_INLINE vf v_fnma(vf a, vf b, vf c) { return __builtin_ia32_vfmaddps512_mask(-a, b, c, V_ALL, 4); }
V_INLINE vf v_min(vf a, vf b) { return __builtin_ia32_minps512_mask(a, b, a, V_ALL, 4); }
V_INLINE vf v_max(vf a, vf b) { return __builtin_ia32_maxps512_mask(a, b, a, V_ALL, 4); }
V_INLINE vf v_sqrt(vf a) { return __builtin_ia32_sqrtps512_mask(a, a, V_ALL, 4); }
V_INLINE vf v_round(vf a) { return __builtin_ia32_rndscaleps_mask(a, 8, a, V_ALL, 4); }
#define V_HALVES 1
V_INLINE vf v_half(vf a) {
  typedef short halves __attribute__((vector_size(32)));
  const halves none = {0};
  return __builtin_ia32_vcvtph2ps512_mask(__builtin_ia32_vcvtps2ph512_mask(a, 8, none, V_ALL), a, V_ALL, 4);
}
V_INLINE vf v_floor(vf a) { return __builtin_ia32_rndscaleps_mask(a, 9, a, V_ALL, 4); }
V_INLINE vf v_ceil(vf a) { return __builtin_ia32_rndscaleps_mask(a, 10, a, V_ALL, 4); }
V_INLINE vm v_eq(vf a, vf b) { return __builtin_ia32_cmpps512_mask(a, b, 0, V_ALL, 4); }
V_INLINE vm v_lt(vf a, vf b) { return __builtin_ia32_cmpps512_mask(a, b, 17, V_ALL, 4); }
V_INLINE vm v_le(vf a, vf b) { return __builtin_ia32_cmpps512_mask(a, b, 18, V_ALL, 4); }
V_INLINE vf v_select(vm m, vf a, vf b) { return __builtin_ia32_blendmps_512_mask(b, a, m); }
V_INLINE _Bool v_any(vm m) { return m != 0; }
#else
typedef vi vm;
V_INLINE vm v_first(int64_t n) {
  vi lanes;
  V_EACH(i) lanes[i] = i;
  return lanes < (int32_t)n - (vi){0};
}
V_INLINE _Bool v_any(vm m) {
  int32_t any = 0;
  V_EACH(i) any |= m[i];
  return any != 0;
}
#if V_BYTES == 32 && !defined __clang__
V_INLINE vf v_load_n(const float *p, int64_t n) { return __builtin_ia32_maskloadps256((const vf *)p, v_first(n)); }
V_INLINE void v_store_n(float *p, vf a, int64_t n) { __builtin_ia32_maskstoreps256((vf *)p, v_first(n), a); }
V_INLINE vf v_select(vm m, vf a, vf b) { return __builtin_ia32_blendvps256(b, a, (vf)m); }
V_INLINE vf v_fma(vf a, vf b, vf c) { return __builtin_ia32_vfmaddps256(a, b, c); }
V_INLINE vf v_fnma(vf a, vf b, vf c) { return __builtin_ia32_vfmaddps256(-a, b, c); }
V_INLINE vf v_min(vf a, vf b) { return __builtin_ia32_minps256(a, b); }
V_INLINE vf v_max(vf a, vf b) { return __builtin_ia32_maxps256(a, b); }
V_INLINE vf v_sqrt(vf a) { return __builtin_ia32_sqrtps256(a); }
V_INLINE vf v_round(vf a) { return __builtin_ia32_roundps256(a, 8); }
#define V_HALVES 1
V_INLINE vf v_half(vf a) { return __builtin_ia32_vcvtph2ps256(__builtin_ia32_vcvtps2ph256(a, 0)); }
V_INLINE vf v_floor(vf a) { return __builtin_ia32_roundps256(a, 9); }
V_INLINE vf v_ceil(vf a) { return __builtin_ia32_roundps256(a, 10); }
#else
V_INLINE vf v_load_n(const float *p, int64_t n) {
  vf a = {0};
  for (int64_t i = 0; i < n; i++) a[i] = p[i];
  return a;
}
V_INLINE void v_store_n(float *p, vf a, int64_t n) {
  for (int64_t i = 0; i < n; i++) p[i] = a[i];
}
#if V_FUSED
V_INLINE vf v_fma(vf a, vf b, vf c) {
  V_EACH(i) a[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return a;
}
#else
V_INLINE vf v_fma(vf a, vf b, vf c) { return a * b + c; }
#endif
V_INLINE vf v_fnma(vf a, vf b, vf c) { return v_fma(-a, b, c); }
#endif
#endif
/* Stores past the caches, to a multiple of V_BYTES; v_fence stands between them and whoever reads. */
#if defined __clang__
V_INLINE void v_stream(float *p, vf a) { __builtin_nontemporal_store(a, (vf *)p); }
#elif V_BYTES == 64
V_INLINE void v_stream(float *p, vf a) { __builtin_ia32_movntps512(p, a); }
#elif V_BYTES == 32
V_INLINE void v_stream(float *p, vf a) { __builtin_ia32_movntps256(p, a); }
#else
V_INLINE void v_stream(float *p, vf a) { v_store(p, a); }
#endif
V_INLINE void v_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#define OWN(result, word, operands) V_INLINE result word operands;
#define SAME(result, word, operands, value) \
  V_INLINE result word operands { return value; }
#if V_BYTES > 16 && !defined __clang__
#define PLAIN(result, word, operands, value) OWN(result, word, operands)
#define EACH(word, function) OWN(vf, word, (vf a))
#else
#define PLAIN SAME
#define EACH(word, function)         \
  V_INLINE vf word(vf a) {           \
    V_EACH(i) a[i] = function(a[i]); \
    return a;                        \
  }
#endif
#if V_BYTES > 32 && !defined __clang__
#define COMPARE(word, operator) OWN(vm, word, (vf a, vf b))
#else
#define COMPARE(word, operator) SAME(vm, word, (vf a, vf b), a operator b)
#endif
