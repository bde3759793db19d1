/* vocabulary_priv.h -- the vocabulary of kernels/simd_priv.h without a header, for generated code: what the compiler
 * has built in. It is no part of the library: its text opens each generated file, and tests compile it. */
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
typedef uint32_t vu __attribute__((vector_size(V_BYTES), may_alias));
typedef float vf_any __attribute__((vector_size(V_BYTES), may_alias, aligned(4)));
typedef int32_t vi_any __attribute__((vector_size(V_BYTES), may_alias, aligned(4)));

V_INLINE vf v_load(const float *p) { return *(const vf_any *)p; }
V_INLINE void v_store(float *p, vf a) { *(vf_any *)p = a; }
V_INLINE vf v_zero(void) { return (vf){0}; }
V_INLINE vf v_set(float x) { return x - (vf){0}; }
V_INLINE vi vi_set(int32_t x) { return x - (vi){0}; }
V_INLINE vf v_add(vf a, vf b) { return a + b; }
V_INLINE vf v_sub(vf a, vf b) { return a - b; }
V_INLINE vf v_mul(vf a, vf b) { return a * b; }
V_INLINE vf v_div(vf a, vf b) { return a / b; }
V_INLINE vi v_as_int(vf a) { return (vi)a; }
V_INLINE vf v_as_float(vi a) { return (vf)a; }
V_INLINE vi vi_add(vi a, vi b) { return (vi)((vu)a + (vu)b); }
V_INLINE vi vi_sub(vi a, vi b) { return (vi)((vu)a - (vu)b); }
V_INLINE vi vi_and(vi a, vi b) { return a & b; }
V_INLINE vi vi_andnot(vi a, vi b) { return ~a & b; }
V_INLINE vi vi_or(vi a, vi b) { return a | b; }
V_INLINE vi vi_xor(vi a, vi b) { return a ^ b; }
V_INLINE vi vi_shl(vi a, uint32_t n) { return (vi)((vu)a << n); }
V_INLINE vi vi_shr(vi a, uint32_t n) { return a >> (int32_t)n; }
V_INLINE vf v_from_int(vi a) { return __builtin_convertvector(a, vf); }
/* Lane i is table[index[i] % 8]. Compilers take a loop for what it says: an element after the other. */
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
V_INLINE vf v_load_n(const float *p, int64_t n) { return __builtin_ia32_loadups512_mask(p, v_zero(), v_first(n)); }
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
  return lanes < vi_set((int32_t)n);
}
V_INLINE vm v_eq(vf a, vf b) { return a == b; }
V_INLINE vm v_lt(vf a, vf b) { return a < b; }
V_INLINE vm v_le(vf a, vf b) { return a <= b; }
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
  vf a = v_zero();
  for (int64_t i = 0; i < n; i++) a[i] = p[i];
  return a;
}
V_INLINE void v_store_n(float *p, vf a, int64_t n) {
  for (int64_t i = 0; i < n; i++) p[i] = a[i];
}
V_INLINE vf v_select(vm m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }
#if V_FUSED
V_INLINE vf v_fma(vf a, vf b, vf c) {
  V_EACH(i) a[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return a;
}
#else
V_INLINE vf v_fma(vf a, vf b, vf c) { return a * b + c; }
#endif
V_INLINE vf v_fnma(vf a, vf b, vf c) { return v_fma(-a, b, c); }
V_INLINE vf v_min(vf a, vf b) { return v_select(a < b, a, b); }
V_INLINE vf v_max(vf a, vf b) { return v_select(a > b, a, b); }
#define V_LANEWISE(name, function)   \
  V_INLINE vf name(vf a) {           \
    V_EACH(i) a[i] = function(a[i]); \
    return a;                        \
  }
V_LANEWISE(v_sqrt, __builtin_sqrtf)
V_LANEWISE(v_round, __builtin_rintf)
V_LANEWISE(v_floor, __builtin_floorf)
V_LANEWISE(v_ceil, __builtin_ceilf)
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
V_INLINE vi v_to_int(vf a) { return __builtin_convertvector(v_round(a), vi); }
V_INLINE vf v_nan_max(vf a, vf b) { return v_select(v_eq(a, a), v_max(a, b), a); }
V_INLINE vf v_nan_min(vf a, vf b) { return v_select(v_eq(a, a), v_min(a, b), a); }

/* ---- other types: d for double, i and l for whole numbers of 32 and 64 bits, b for truth, all bits of 32. A vector
 * has V_LANES elements of each, so that those of 8 bytes are two registers. ---- */
typedef double vd __attribute__((vector_size(2 * V_BYTES), may_alias));
typedef int64_t vl __attribute__((vector_size(2 * V_BYTES), may_alias));
typedef uint64_t vul __attribute__((vector_size(2 * V_BYTES), may_alias));
typedef double vd_any __attribute__((vector_size(2 * V_BYTES), may_alias, aligned(8)));
typedef int64_t vl_any __attribute__((vector_size(2 * V_BYTES), may_alias, aligned(8)));
typedef uint8_t vb __attribute__((vector_size(V_LANES), may_alias, aligned(1)));

/* Words of type p, with elements T, vectors V, the same without a sign U, and masks M. */
#define V_TYPE(p, T, V, U, M)                                                                      \
  V_INLINE V p##_load(const T *at) { return *(const V##_any *)at; }                                \
  V_INLINE void p##_store(T *at, V a) { *(V##_any *)at = a; }                                      \
  V_INLINE V p##_zero(void) { return (V){0}; }                                                     \
  V_INLINE V p##_set(T x) { return x - (V){0}; }                                                   \
  V_INLINE V p##_add(V a, V b) { return (V)((U)a + (U)b); }                                        \
  V_INLINE V p##_sub(V a, V b) { return (V)((U)a - (U)b); }                                        \
  V_INLINE V p##_mul(V a, V b) { return (V)((U)a * (U)b); }                                        \
  V_INLINE M p##_eq(V a, V b) { return (M)(a == b); }                                              \
  V_INLINE M p##_lt(V a, V b) { return (M)(a < b); }                                               \
  V_INLINE M p##_le(V a, V b) { return (M)(a <= b); }                                              \
  V_INLINE V p##_select(M m, V a, V b) { return (V)((m & (M)a) | (~m & (M)b)); }                   \
  V_INLINE V p##_min(V a, V b) { return p##_select((M)(a < b), a, b); }                            \
  V_INLINE V p##_max(V a, V b) { return p##_select((M)(a > b), a, b); }                            \
  V_INLINE V p##_nan_min(V a, V b) { return p##_select((M)(a == a) & ~(M)(a < b), b, a); }         \
  V_INLINE V p##_nan_max(V a, V b) { return p##_select((M)(a == a) & ~(M)(a > b), b, a); }         \
  V_INLINE V p##_relu(V a) { return p##_select((M)(a < (V){0}), (V){0}, a); }                      \
  V_INLINE vi p##_truth(M m) { return __builtin_convertvector(m, vi); }                            \
  V_INLINE vi p##_untruth(M m) { return ~__builtin_convertvector(m, vi); }                         \
  V_INLINE V p##_where(vi x, V y, V z) { return p##_select(__builtin_convertvector(x, M), y, z); } \
  V_INLINE M p##_first(int64_t n) {                                                                \
    M lanes;                                                                                       \
    V_EACH(i) lanes[i] = i < n ? -1 : 0;                                                           \
    return lanes;                                                                                  \
  }
V_TYPE(d, double, vd, vd, vl)
V_TYPE(l, int64_t, vl, vul, vl)
V_TYPE(i, int32_t, vi, vu, vi)
V_INLINE vi i_load_n(const int32_t *at, int64_t n) { return (vi)v_load_n((const float *)at, n); }
V_INLINE void i_store_n(int32_t *at, vi a, int64_t n) { v_store_n((float *)at, (vf)a, n); }
/* Elements of 8 bytes as pairs of 4. */
typedef union v_pair {
  vl whole;
  vf half[2];
} v_pair;
V_INLINE vl l_load_n(const int64_t *at, int64_t n) {
  const int64_t low = n < V_LANES / 2 ? n : V_LANES / 2;
  const v_pair a = {
      .half = {v_load_n((const float *)at, 2 * low), v_load_n((const float *)(at + V_LANES / 2), 2 * (n - low))}};
  return a.whole;
}
V_INLINE void l_store_n(int64_t *at, vl x, int64_t n) {
  const int64_t low = n < V_LANES / 2 ? n : V_LANES / 2;
  const v_pair a = {.whole = x};
  v_store_n((float *)at, a.half[0], 2 * low);
  v_store_n((float *)(at + V_LANES / 2), a.half[1], 2 * (n - low));
}
V_INLINE vd d_load_n(const double *at, int64_t n) { return (vd)l_load_n((const int64_t *)at, n); }
V_INLINE void d_store_n(double *at, vd a, int64_t n) { l_store_n((int64_t *)at, (vl)a, n); }
#define V_WHOLE(p, V, U)                                                    \
  V_INLINE V p##_neg(V a) { return (V)(-(U)a); }                            \
  V_INLINE V p##_abs(V a) { return p##_select(a < (V){0}, p##_neg(a), a); } \
  V_INLINE V p##_bit_and(V a, V b) { return a & b; }                        \
  V_INLINE V p##_bit_or(V a, V b) { return a | b; }                         \
  V_INLINE V p##_bit_xor(V a, V b) { return a ^ b; }                        \
  V_INLINE V p##_bit_not(V a) { return ~a; }
V_WHOLE(l, vl, vul)
V_WHOLE(i, vi, vu)
V_INLINE vd d_neg(vd a) { return -a; }
V_INLINE vd d_abs(vd a) { return (vd)((vl)a & l_set(INT64_MAX)); }
V_INLINE vd d_div(vd a, vd b) { return a / b; }
V_INLINE vd d_sqrt(vd a) {
  V_EACH(i) a[i] = __builtin_sqrt(a[i]);
  return a;
}

V_INLINE vi b_set(int32_t x) { return vi_set(x); }
/* Bytes as lanes, and the low bytes of lanes. */
#if V_BYTES == 64 && !defined __clang__
typedef char vq __attribute__((vector_size(16)));
V_INLINE vi b_widen(vb a) { return (vi)__builtin_ia32_pmovzxbd512_mask((vq)a, (vi){0}, (unsigned short)-1); }
V_INLINE vb b_narrow(vi a) { return (vb)__builtin_ia32_pmovdb512_mask(a, (vq){0}, (unsigned short)-1); }
#elif V_BYTES == 32 && !defined __clang__
typedef char vq __attribute__((vector_size(16)));
typedef int64_t vq_words __attribute__((vector_size(16)));
typedef int32_t vq_lanes __attribute__((vector_size(16)));
V_INLINE vi b_widen(vb a) {
  const vq_words word = {(int64_t)a, 0};
  return (vi)__builtin_ia32_pmovzxbd256((vq)word);
}
V_INLINE vb b_narrow(vi a) { /* lanes are 0 or 1 */
  const vq_lanes low = __builtin_shufflevector(a, a, 0, 1, 2, 3), high = __builtin_shufflevector(a, a, 4, 5, 6, 7);
  const vq_words halves = (vq_words)__builtin_ia32_packssdw128(low, high);
  typedef short shorts __attribute__((vector_size(16)));
  return (vb)((vq_words)__builtin_ia32_packsswb128((shorts)halves, (shorts)halves))[0];
}
#else
V_INLINE vi b_widen(vb a) { return __builtin_convertvector(a, vi); }
V_INLINE vb b_narrow(vi a) { return __builtin_convertvector(a, vb); }
#endif
V_INLINE vi b_load(const uint8_t *at) { return (vi)(b_widen(*(const vb *)at) != (vi){0}); }
V_INLINE void b_store(uint8_t *at, vi a) { *(vb *)at = b_narrow(a & vi_set(1)); }
V_INLINE vi b_load_n(const uint8_t *at, int64_t n) {
  vi a = {0};
  for (int64_t i = 0; i < n; i++) a[i] = -(at[i] != 0);
  return a;
}
V_INLINE void b_store_n(uint8_t *at, vi a, int64_t n) {
  for (int64_t i = 0; i < n; i++) at[i] = (uint8_t)(a[i] & 1);
}
V_INLINE vi b_select(vi m, vi a, vi b) { return (m & a) | (~m & b); }
V_INLINE vi b_first(int64_t n) { return i_first(n); }
V_INLINE vi b_where(vi x, vi y, vi z) { return b_select(x, y, z); }
V_INLINE vi b_bit_and(vi a, vi b) { return a & b; }
V_INLINE vi b_bit_or(vi a, vi b) { return a | b; }
V_INLINE vi b_bit_xor(vi a, vi b) { return a ^ b; }
V_INLINE vi b_bit_not(vi a) { return ~a; }
V_INLINE vi b_nan_max(vi a, vi b) { return a | b; }
V_INLINE vi b_nan_min(vi a, vi b) { return a & b; }

/* ---- scans: each lane joined with those before it and with all of the vectors before, which *so_far has in each of
 * its lanes. V_UPn: the lanes moved up by k, where `start` comes in. ---- */
#define V_UP16(start, a, k)                                                                                         \
  __builtin_shufflevector(start, a, 16 - (k), 17 - (k), 18 - (k), 19 - (k), 20 - (k), 21 - (k), 22 - (k), 23 - (k), \
                          24 - (k), 25 - (k), 26 - (k), 27 - (k), 28 - (k), 29 - (k), 30 - (k), 31 - (k))
#define V_UP8(start, a, k) \
  __builtin_shufflevector(start, a, 8 - (k), 9 - (k), 10 - (k), 11 - (k), 12 - (k), 13 - (k), 14 - (k), 15 - (k))
#define V_UP4(start, a, k) __builtin_shufflevector(start, a, 4 - (k), 5 - (k), 6 - (k), 7 - (k))
#define V_UP2(start, a, k) __builtin_shufflevector(start, a, 2 - (k), 3 - (k))
#define V_PREFIX2(a, start, join) a = join(V_UP2(start, a, 1), a)
#define V_PREFIX4(a, start, join) a = join(V_UP4(start, a, 1), a), a = join(V_UP4(start, a, 2), a)
#define V_PREFIX8(a, start, join) \
  a = join(V_UP8(start, a, 1), a), a = join(V_UP8(start, a, 2), a), a = join(V_UP8(start, a, 4), a)
#define V_PREFIX16(a, start, join)                                                                      \
  a = join(V_UP16(start, a, 1), a), a = join(V_UP16(start, a, 2), a), a = join(V_UP16(start, a, 4), a), \
  a = join(V_UP16(start, a, 8), a)
#if V_BYTES == 64
#define V_PREFIX V_PREFIX16
#define V_PREFIX_HALF V_PREFIX8
#elif V_BYTES == 32
#define V_PREFIX V_PREFIX8
#define V_PREFIX_HALF V_PREFIX4
#else
#define V_PREFIX V_PREFIX4
#define V_PREFIX_HALF V_PREFIX2
#endif
/* The lanes in reverse order; and those of a scan moved up by one, where what was before it comes in. */
#define V_BACK(V, a)                         \
  do {                                       \
    const V forth = a;                       \
    V_EACH(i) a[i] = forth[V_LANES - 1 - i]; \
  } while (0)
#define V_BEFORE(a, before)                                \
  do {                                                     \
    for (int i = V_LANES - 1; i > 0; i--) a[i] = a[i - 1]; \
    a[0] = before[0];                                      \
  } while (0)
#define V_SCAN(p, V, name, join, first)        \
  V_INLINE V p##_scan_##name(V a, V *so_far) { \
    const V start = p##_set(first);            \
    V_PREFIX(a, start, p##_##join);            \
    a = p##_##join(*so_far, a);                \
    *so_far = p##_set(a[V_LANES - 1]);         \
    return a;                                  \
  }
V_SCAN(v, vf, sum, add, 0)
V_SCAN(v, vf, prod, mul, 1)
V_SCAN(v, vf, max, nan_max, -INFINITY)
V_SCAN(v, vf, min, nan_min, INFINITY)
V_SCAN(i, vi, sum, add, 0)
V_SCAN(i, vi, prod, mul, 1)
V_SCAN(i, vi, max, nan_max, INT32_MIN)
V_SCAN(i, vi, min, nan_min, INT32_MAX)
V_SCAN(b, vi, max, nan_max, 0)
V_SCAN(b, vi, min, nan_min, -1)
/* Of 8 bytes, a register behind the other; the largest and least, which are rare, a lane behind the other. */
typedef double vd_half __attribute__((vector_size(V_BYTES), may_alias));
typedef uint64_t vl_half __attribute__((vector_size(V_BYTES), may_alias));
#define V_SUM(x, y) ((x) + (y))
#define V_PRODUCT(x, y) ((x) * (y))
#define V_SCAN_HALVES(p, V, T, name, join, first)                            \
  V_INLINE V p##_scan_##name(V x, V *so_far) {                               \
    union {                                                                  \
      V whole;                                                               \
      V##_half half[2];                                                      \
    } a = {.whole = x};                                                      \
    const V##_half start = (T)(first) - (V##_half){0};                       \
    V_PREFIX_HALF(a.half[0], start, join);                                   \
    V_PREFIX_HALF(a.half[1], start, join);                                   \
    a.half[0] = join((T)(*so_far)[0], a.half[0]);                            \
    a.half[1] = join(a.half[0][V_LANES / 2 - 1], a.half[1]);                 \
    *so_far = p##_set((__typeof__((*so_far)[0]))a.half[1][V_LANES / 2 - 1]); \
    return a.whole;                                                          \
  }
V_SCAN_HALVES(d, vd, double, sum, V_SUM, 0)
V_SCAN_HALVES(d, vd, double, prod, V_PRODUCT, 1)
V_SCAN_HALVES(l, vl, uint64_t, sum, V_SUM, 0)
V_SCAN_HALVES(l, vl, uint64_t, prod, V_PRODUCT, 1)
#define V_SCAN_LANES(p, V, name, join)                                  \
  V_INLINE V p##_scan_##name(V a, V *so_far) {                          \
    V_EACH(i) a[i] = (*so_far = p##_##join(*so_far, p##_set(a[i])))[0]; \
    return a;                                                           \
  }
V_SCAN_LANES(d, vd, max, nan_max)
V_SCAN_LANES(d, vd, min, nan_min)
V_SCAN_LANES(l, vl, max, nan_max)
V_SCAN_LANES(l, vl, min, nan_min)

V_INLINE vi v_truth(vm m) { return (vi)v_select(m, (vf)vi_set(-1), v_zero()); }
V_INLINE vi v_untruth(vm m) { return (vi)v_select(m, v_zero(), (vf)vi_set(-1)); }
V_INLINE vf v_where(vi x, vf y, vf z) { return (vf)((x & (vi)y) | (~x & (vi)z)); }

#define V_CAST(name, from, to) \
  V_INLINE to name(from a) { return __builtin_convertvector(a, to); }
V_CAST(v_to_d, vf, vd)
V_CAST(d_to_v, vd, vf)
V_CAST(i_to_v, vi, vf)
V_CAST(i_to_d, vi, vd)
V_CAST(i_to_l, vi, vl)
V_CAST(l_to_v, vl, vf)
V_CAST(l_to_d, vl, vd)
V_CAST(l_to_i, vl, vi)
/* Casts of floats to whole numbers: toward zero, and at the ends of the type; what is not a number is 0. */
V_INLINE vf v_before(vf end, vf a) { return v_select(v_lt(a, end), v_max(v_sub(v_zero(), end), a), v_zero()); }
V_INLINE vi v_to_i(vf a) {
  const vf end = v_set(0x1p31f);
  const vi cut = __builtin_convertvector(v_before(end, a), vi);
  return (vi)v_select(v_le(end, a), (vf)vi_set(INT32_MAX), (vf)cut);
}
V_INLINE vl v_to_l(vf a) {
  const vf end = v_set(0x1p63f);
  const vl cut = __builtin_convertvector(v_before(end, a), vl);
  return cut | (__builtin_convertvector(v_truth(v_le(end, a)), vl) & l_set(INT64_MAX));
}
/* The same of type V with masks M; from `end` on: `most`. */
#define V_CUT(name, V, M, end, to, most)                                                                \
  V_INLINE to name(V a) {                                                                               \
    const V high = (end) - (V){0}, low = -high;                                                         \
    const M over = a >= high, below = a < low, inside = (M)(a == a) & ~over & ~below;                   \
    const V cut = (V)(((M)a & inside) | ((M)low & below));                                              \
    return __builtin_convertvector(cut, to) | (__builtin_convertvector(over, to) & ((most) - (to){0})); \
  }
V_CUT(d_to_i, vd, vl, 0x1p31, vi, INT32_MAX)
V_CUT(d_to_l, vd, vl, 0x1p63, vl, INT64_MAX)
V_INLINE vi v_to_b(vf a) { return v_untruth(v_eq(a, v_zero())); }
V_INLINE vi d_to_b(vd a) { return d_untruth(d_eq(a, d_zero())); }
V_INLINE vi i_to_b(vi a) { return (vi)(a != (vi){0}); }
V_INLINE vi l_to_b(vl a) { return l_untruth(l_eq(a, l_zero())); }
V_INLINE vi b_to_i(vi a) { return a & vi_set(1); }
V_INLINE vf b_to_v(vi a) { return (vf)(a & (vi)v_set(1)); }
V_INLINE vd b_to_d(vi a) { return i_to_d(b_to_i(a)); }
V_INLINE vl b_to_l(vi a) { return i_to_l(b_to_i(a)); }

/* ---- what whoever loads the code gives it ---- */
struct td_code;
typedef struct td_source {
  const void *at;
  int64_t step;
} td_source;
struct {
  int (*run)(const void *call, const void *level, const struct td_code *code);
  const void *level;
  void (*apply)(uint32_t function, uint32_t from, uint32_t to, const double *p, void *out, const td_source *in,
                int64_t n);
} td_link;
static __attribute__((noinline, cold, unused)) vf v_far(uint32_t function, vf x) {
  const double p[3] = {0};
  const td_source in[3] = {{&x, 1}, {&x, 1}, {&x, 1}};
  vf y;
  td_link.apply(function, 0, 0, p, &y, in, V_LANES);
  return y;
}
#define V_FAR(function, x) v_far(TD_##function, x)
static __attribute__((noinline, cold, unused)) vd d_far(uint32_t function, vd x, vd y) {
  const double p[3] = {0};
  const td_source in[3] = {{&x, 1}, {&y, 1}, {&x, 1}};
  vd z;
  td_link.apply(function, 1, 1, p, &z, in, V_LANES);
  return z;
}
