/* math_double_text_priv.h -- the functions of math_double_priv.h, likewise a text of generated code. */
typedef double vh __attribute__((vector_size(V_LANES * 4), may_alias));
typedef int64_t vhl __attribute__((vector_size(V_LANES * 4), may_alias));
typedef uint64_t vhu __attribute__((vector_size(V_LANES * 4), may_alias));
typedef float vhf __attribute__((vector_size(V_LANES * 2), may_alias));
#define H_EACH(i) for (int i = 0; i < V_LANES / 2; i++)

/* ---- words ---- */

V_INLINE vh h_set(double x) { return x - (vh){0}; }
V_INLINE vh h_select(vhl m, vh a, vh b) { return (vh)((m & (vhl)a) | (~m & (vhl)b)); }
V_INLINE vh h_abs(vh x) { return (vh)((vhl)x & (INT64_MAX - (vhl){0})); }
V_INLINE vh h_copysign(vh a, vh b) {
  const vhl sign = INT64_MIN - (vhl){0};
  return (vh)(((vhl)a & ~sign) | ((vhl)b & sign));
}
/* A NaN in x is let through. */
V_INLINE vh h_clamp(vh x, double low, double high) {
  x = h_select((vhl)(x < h_set(low)), h_set(low), x);
  return h_select((vhl)(x > h_set(high)), h_set(high), x);
}
#if defined __AVX512F__ && defined __AVX512DQ__ && !defined __clang__
V_INLINE vh h_fma(vh a, vh b, vh c) { return __builtin_ia32_vfmaddpd512_mask(a, b, c, 255, 4); }
V_INLINE vh h_sqrt(vh a) { return __builtin_ia32_sqrtpd512_mask(a, a, -1, 4); }
#elif defined __AVX2__ && defined __FMA__ && !defined __clang__
V_INLINE vh h_fma(vh a, vh b, vh c) { return __builtin_ia32_vfmaddpd256(a, b, c); }
V_INLINE vh h_sqrt(vh a) { return __builtin_ia32_sqrtpd256(a); }
#else
V_INLINE vh h_fma(vh a, vh b, vh c) {
  if (!V_FUSED) return a * b + c;
  H_EACH(i) a[i] = __builtin_fma(a[i], b[i], c[i]);
  return a;
}
V_INLINE vh h_sqrt(vh a) {
  H_EACH(i) a[i] = __builtin_sqrt(a[i]);
  return a;
}
#endif
/* To the nearest whole number, |x| < 2^51. */
V_INLINE vh h_round(vh x) { return (x + 0x1.8p52) - 0x1.8p52; }
/* The same of any x >= 0. */
V_INLINE vh h_round_up_from_0(vh x) { return h_select((vhl)(x < h_set(0x1p52)), (x + 0x1p52) - 0x1p52, x); }
/* 2^n for whole n in [-1022, 1023]. */
V_INLINE vh h_pow2(vh n) { return (vh)(((vhu)(n + 0x1.8p52) + 1023) << 52); }
/* c[0] + c[1] x + ... */
#define H_POLYNOMIAL(name, count, ...)                            \
  V_INLINE vh name(vh x) {                                        \
    static const double c[count] = {__VA_ARGS__};                 \
    vh y = h_set(c[(count)-1]);                                   \
    V_FOR(i, (count)-1) y = h_fma(y, x, h_set(c[(count)-2 - i])); \
    return y;                                                     \
  }
H_POLYNOMIAL(h_exp_terms, 11, 0x1.0000000000000p-1, 0x1.5555555555557p-3, 0x1.5555555555556p-5, 0x1.111111111007ap-7,
             0x1.6c16c16c1629dp-10, 0x1.a01a01ac1cfa8p-13, 0x1.a01a01a6f6cefp-16, 0x1.71de018a0d245p-19,
             0x1.27e4db04b53c8p-22, 0x1.af4f451d9ec2bp-26, 0x1.1f73c9e1e5554p-29)
H_POLYNOMIAL(h_log_terms, 7, 0x1.5555555555558p-1, 0x1.99999999952b2p-2, 0x1.2492492df6947p-2, 0x1.c71c62debf86bp-3,
             0x1.7462b69705382p-3, 0x1.39fe208c33457p-3, 0x1.2b5b5fb2eac92p-3)
H_POLYNOMIAL(h_atan_terms, 8, -0x1.55555555525d5p-2, 0x1.9999998849aafp-3, -0x1.249240d225f4fp-3, 0x1.c71960fb12addp-4,
             -0x1.7415871db67d0p-4, 0x1.377c65145e4d9p-4, -0x1.edb21ec623742p-5, 0x1.0ddf6121afe09p-5)
H_POLYNOMIAL(h_erfc_terms, 24, 0x1.3ccda0b5d5dc2p+0, -0x1.1f367683f89a7p-3, 0x1.d5f29481596c2p-9, 0x1.510169d096820p-4,
             -0x1.bda9309a27bdap-4, 0x1.7a14188a99c7cp-4, -0x1.e0d0fa6e28960p-5, 0x1.d0b0037da7358p-6,
             -0x1.3f603c2bbee97p-7, 0x1.cc3a0e50fcd7fp-10, 0x1.33fb1d1502b40p-12, -0x1.303fa4af46391p-12,
             0x1.b14551a4cafb2p-15, 0x1.778caaee21353p-16, -0x1.80143d25934a5p-17, -0x1.05b171a5364f7p-20,
             0x1.d752841b89653p-20, -0x1.ce179013f6883p-25, -0x1.1a8b11af503efp-22, 0x1.39c750a393018p-26,
             0x1.5f6cf4be694c6p-25, 0x1.a54d5bc370666p-33, -0x1.5b6445fecfd7cp-28, -0x1.10b7474af9eb2p-30)

/* ---- exponentials ---- */

/* exp(x + low) = 2^*n (1 + the result), for |x| < 1100 and a low that is small. */
V_INLINE vh h_exp_parts(vh x, vh low, vh *n) {
  *n = h_round(x * 0x1.71547652b82fep+0);
  vh r = h_fma(*n, h_set(-0x1.62e42fefa3800p-1), x);
  r = h_fma(*n, h_set(-0x1.ef35793c76730p-45), r) + low;
  return h_fma(r * r, h_exp_terms(r), r);
}
/* exp(x + low), for a low that is small: denormals too. */
V_SHARED vh h_exp_sum(vh x, vh low) {
  vh n, core = h_exp_parts(h_clamp(x, -746, 710), low, &n), half = h_round(n * 0.5);
  return h_fma(core, h_pow2(half), h_pow2(half)) * h_pow2(n - half);
}
V_INLINE vh h_exp(vh x) { return h_exp_sum(x, (vh){0}); }
/* exp(x) - 1, for x <= 700. */
V_SHARED vh h_expm1_low(vh x) {
  vh n, core = h_exp_parts(h_clamp(x, -60, 700), (vh){0}, &n), power = h_pow2(n);
  return h_fma(core, power, power - 1);
}
/* Of f32. */
V_SHARED vh h_sinh(vh x) {
  const vh e = h_expm1_low(h_clamp(h_abs(x), 0, 700));
  return h_copysign((e + e / (e + 1)) * 0.5, x);
}
V_SHARED vh h_cosh(vh x) {
  const vh e = h_exp(h_abs(h_clamp(x, -700, 700)));
  return (e + 1 / e) * 0.5;
}

/* ---- logarithms ---- */

/* x = 2^*e (1 + the result), in [sqrt(1/2), sqrt(2)), for finite x > 0. */
V_INLINE vh h_log_split(vh x, vh *e) {
  const vhl tiny = (vhl)(x < h_set(0x1p-1022));
  const vhu root_half = 0x3fe6a09e667f3bcdull - (vhu){0};
  const vhu bits = (vhu)h_select(tiny, x * 0x1p54, x) - root_half + ((vhu){0} + (1023ull << 52));
  *e = ((vh)((bits >> 52) | (vhu)h_set(0x1p52)) - (0x1p52 + 1023)) - h_select(tiny, h_set(54), (vh){0});
  return (vh)((bits & ((1ull << 52) - 1)) + root_half) - 1;
}
/* The logarithm y of x, where x is positive and finite, with what it is elsewhere. */
V_INLINE vh h_log_ends(vh x, vh y) {
  y = h_select((vhl)(x < h_set(INFINITY)), y, x);
  y = h_select((vhl)(x < (vh){0}), h_set(NAN), y);
  return h_select((vhl)(x == (vh){0}), h_set(-INFINITY), y);
}
/* log(1 + f) = f - f^2 / 2 + the result; s = f / (2 + f), as usual. */
V_INLINE vh h_log_rest(vh f) {
  const vh s = f / (f + 2), z = s * s;
  return s * h_fma(z, h_log_terms(z), f * f * 0.5);
}
V_SHARED vh h_log(vh x) {
  vh e, f = h_log_split(x, &e), half = f * f * 0.5;
  const vh rest = h_fma(e, h_set(0x1.ef35793c76730p-45), h_log_rest(f));
  return h_log_ends(x, h_fma(e, h_set(0x1.62e42fefa3800p-1), f - (half - rest)));
}

/* ---- powers ---- */

/* x^y where `power` is |x|^y for finite |x| that are not 1, and numbers y. */
V_INLINE vh h_pow_ends(vh x, vh y, vh power) {
  const vh a = h_abs(x), b = h_abs(y), half = b * 0.5;
  const vhl whole = (vhl)(h_round_up_from_0(b) == b), odd = whole & ~(vhl)(h_round_up_from_0(half) == half);
  const vhl one = (vhl)(x == h_set(1)) | (vhl)(y == (vh){0}) | ((vhl)(a == h_set(1)) & (vhl)(b == h_set(INFINITY)));
  power = h_select((vhl)(x < (vh){0}) & (vhl)(a < h_set(INFINITY)) & ~whole, h_set(NAN), power);
  power = h_select((vhl)(y == y), power, y);
  /* Odd powers have x's sign; in bits, as clang 14 takes a wrong select of h_copysign for AVX-512. */
  power = (vh)((vhl)power | (odd & (vhl)x & (INT64_MIN - (vhl){0})));
  return h_select(one, h_set(1), power);
}
/* Of f32. */
V_SHARED vh h_pow(vh x, vh y) { return h_pow_ends(x, y, h_exp(y * h_log(h_abs(x)))); }

/* ---- inverse circular functions, of f32 ---- */

/* The angle of (x, y), from -pi to pi: that of the ratio of the smaller to the larger, or of what is left of it when
 * pi/4 is taken away. */
V_SHARED vh h_atan2(vh y, vh x) {
  const vh a = h_abs(x), b = h_abs(y), quarter = h_set(0x1.921fb54442d18p-1);
  const vhl low = (vhl)(b < a * 0.41421356237309503), middle = (vhl)(b < a * 2.4142135623730949) & ~low;
  const vhl still = ((vhl)(a == (vh){0}) & (vhl)(b == (vh){0}));
  const vhl ends = (vhl)(a == h_set(INFINITY)) & (vhl)(b == h_set(INFINITY));
  const vh over = h_select(low, b, h_select(middle, b - a, -a)), under = h_select(low, a, h_select(middle, a + b, b));
  const vh u = h_select(still | ends, (vh){0}, over / under), z = u * u;
  const vh base = h_select(still | low, (vh){0}, h_select(middle | ends, quarter, quarter * 2));
  const vh angle = base + h_fma(z * u, h_atan_terms(z), u);
  return h_copysign(h_select((vhl)((vhl)x < (vhl){0}), quarter * 4 - angle, angle), y);
}
V_INLINE vh h_atan(vh x) { return h_atan2(x, h_set(1)); }
V_INLINE vh h_asin(vh x) { return h_atan2(x, h_sqrt((1 - x) * (1 + x))); }
V_INLINE vh h_acos(vh x) { return h_atan2(h_sqrt((1 - x) * (1 + x)), x); }

/* ---- the error function ---- */

/* erfc(a) = exp(-a^2) P(t) / (1 + 2 a), t = (a - 3.75) / (a + 3.75), for a >= 0 (Shepherd & Laframboise 1981). */
V_SHARED vh h_erfc(vh x) {
  const vh a = h_clamp(h_abs(x), 0, 28), square = a * a;
  const vh lost = V_FUSED ? h_fma(a, a, -square) : (vh){0}; /* of f32 nothing */
  const vh y = h_exp_sum(-square, -lost) * h_erfc_terms((a - 3.75) / (a + 3.75)) / h_fma(h_set(2), a, h_set(1));
  return h_select((vhl)(x < (vh){0}), 2 - y, y);
}

/* ---- vectors of f32, in halves ---- */

typedef union v_halves {
  vf whole;
  vhf half[2];
} v_halves;
#define V_HALF(x, i) __builtin_convertvector((x).half[i], vh)
#define V_UNARY(name, function)                                                       \
  V_INLINE vf name(vf x) {                                                            \
    const v_halves from = {.whole = x};                                               \
    v_halves to;                                                                      \
    V_FOR(i, 2) to.half[i] = __builtin_convertvector(function(V_HALF(from, i)), vhf); \
    return to.whole;                                                                  \
  }
#define V_BINARY(name, function)                                                                 \
  V_INLINE vf name(vf x, vf y) {                                                                 \
    const v_halves a = {.whole = x}, b = {.whole = y};                                           \
    v_halves to;                                                                                 \
    V_FOR(i, 2) to.half[i] = __builtin_convertvector(function(V_HALF(a, i), V_HALF(b, i)), vhf); \
    return to.whole;                                                                             \
  }
V_UNARY(v_sinh, h_sinh)
V_UNARY(v_cosh, h_cosh)
V_UNARY(v_atan, h_atan)
V_UNARY(v_asin, h_asin)
V_UNARY(v_acos, h_acos)
V_UNARY(v_erfc, h_erfc)
V_BINARY(v_atan2, h_atan2)
V_BINARY(v_pow, h_pow)
