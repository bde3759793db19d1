/* types_priv.h -- the vocabulary of generated code, continued: the words of simd.def for other types, casts, scans, and
 * what whoever loads the code gives it. */
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

#define V_WORD(p, word, result, operands, value) \
  V_INLINE result p##_##word operands { return value; }
#define V_TYPE(p, T, V, U, M)                                 \
  TYPE_NUMBER(V_WORD, p, T, V, U, M)                          \
  V_INLINE void p##_store(T *at, V a) { *(V##_any *)at = a; } \
  V_INLINE M p##_first(int64_t n) {                           \
    M lanes;                                                  \
    V_EACH(i) lanes[i] = i < n ? -1 : 0;                      \
    return lanes;                                             \
  }
V_TYPE(d, double, vd, vd, vl)
V_TYPE(l, int64_t, vl, vul, vl)
V_TYPE(i, int32_t, vi, vu, vi)
TYPE_WHOLE(V_WORD, l, vl, vul)
TYPE_WHOLE(V_WORD, i, vi, vu)
TYPE_DOUBLE(V_WORD, d)
TYPE_TRUTH(V_WORD, b)
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
V_INLINE vi b_first(int64_t n) { return i_first(n); }

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
