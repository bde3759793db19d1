/* doubles_priv.h -- functions of f64 for generated code, in halves of a vector: the text that follows the prelude where
 * a loop needs it, over what math_double_priv.h says. Within 2 ULP of f64, tanh and silu within 3, gelu of x
 * (tests/codegen/test_functions.c holds them), and what libm gives at both ends of the range; of machines that do not
 * fuse multiplications and additions they are libm's, an element at a time. */
typedef union d_halves {
  vd whole;
  vh half[2];
} d_halves;
#if V_FUSED
#define D_FUNCTION(name, of_half)               \
  V_INLINE vd d_##name(vd x) {                  \
    d_halves a = {.whole = x};                  \
    V_FOR(i, 2) a.half[i] = of_half(a.half[i]); \
    return a.whole;                             \
  }
#define D_PAIR(name, of_half)                              \
  V_INLINE vd d_##name(vd x, vd y) {                       \
    d_halves a = {.whole = x}, b = {.whole = y};           \
    V_FOR(i, 2) a.half[i] = of_half(a.half[i], b.half[i]); \
    return a.whole;                                        \
  }
#else
#define D_FUNCTION(name, of_half) \
  V_INLINE vd d_##name(vd x) { return d_far(TD_##name, x, x); }
#define D_PAIR(name, of_half) \
  V_INLINE vd d_##name(vd x, vd y) { return d_far(TD_##name, x, y); }
#endif

/* ---- terms: Chebyshev fits, as those of math_double_priv.h ---- */

H_POLYNOMIAL(h_log_later_terms, 8, 0x1.999999999999ap-2, 0x1.2492492492522p-2, 0x1.c71c71c6ea871p-3,
             0x1.745d177aad02ap-3, 0x1.3b1395c881220p-3, 0x1.1118c9ee5b8a4p-3, 0x1.df7c5bc7c7563p-4,
             0x1.e032e4d8436a1p-4)
H_POLYNOMIAL(h_sin_terms, 7, -0x1.5555555555555p-3, 0x1.1111111111110p-7, -0x1.a01a01a019880p-13, 0x1.71de3a544a6cep-19,
             -0x1.ae6453ecab5c4p-26, 0x1.612161267019ep-33, -0x1.ab066192d3e8fp-41)
H_POLYNOMIAL(h_cos_terms, 6, 0x1.5555555555555p-5, -0x1.6c16c16c1691fp-10, 0x1.a01a019f3dde1p-16,
             -0x1.27e4fa0241f7cp-22, 0x1.1eeb52a201da3p-29, -0x1.906dbf4fda044p-37)
H_POLYNOMIAL(h_erf_terms, 13, 0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b30p-4, -0x1.b82ce31284e00p-6,
             0x1.565bcd0dbaa38p-8, -0x1.c02db3dac435fp-11, 0x1.f9a321d5b8e1ep-14, -0x1.f4d1e3183f7aep-17,
             0x1.b9df224ca4b97p-20, -0x1.5f1ecb6f0764cp-23, 0x1.f7b4bf3b13964p-27, -0x1.389d4f2641625p-30,
             0x1.05ffd737fb32ep-34)

/* ---- exponentials and logarithms ---- */

V_INLINE vh h_expm1(vh x) {
  const vh y = h_select((vhl)(x > h_set(600)), h_exp(x), h_expm1_low(x));
  return h_select((vhl)(x == (vh){0}), x, y); /* -0 too */
}
/* log2(e) in two parts: powers of 2 come out exact. */
V_INLINE vh h_log2(vh x) {
  vh e, f = h_log_split(x, &e), half = f * f * 0.5, y = f - (half - h_log_rest(f));
  return h_log_ends(x, h_fma(y, h_set(0x1.71547652b82fep+0), h_fma(y, h_set(0x1.777d0ffda0d24p-56), e)));
}
V_INLINE vh h_log10(vh x) {
  vh e, f = h_log_split(x, &e), half = f * f * 0.5, y = f - (half - h_log_rest(f));
  y = h_fma(y, h_set(0x1.bcb7b1526e50ep-2), h_fma(e, h_set(0x1.3fde623e2566bp-43), y * 0x1.95355baaafad3p-57));
  return h_log_ends(x, h_fma(e, h_set(0x1.34413509f7000p-2), y));
}
/* What rounding took from 1 + x is put back (Kahan). */
V_INLINE vh h_log1p(vh x) {
  const vh u = x + 1, y = h_log(u), lost = (x - (u - 1)) / u;
  return h_select((vhl)(x == (vh){0}), x, y + h_select((vhl)(h_abs(y) < h_set(INFINITY)), lost, (vh){0}));
}
/* log(exp(x) + exp(y)). */
V_INLINE vh h_logaddexp(vh x, vh y) {
  const vh most = h_select((vhl)(x != x) | (vhl)(x > y), x, y), apart = h_abs(x - y);
  return h_select((vhl)(h_abs(most) < h_set(INFINITY)), most + h_log1p(h_exp(-apart)), most);
}

/* log(x) = the result + *low, to 2^-66, for finite x > 0 (the first terms in two parts). */
V_INLINE vh h_log_sum(vh x, vh *low) {
  vh e, f = h_log_split(x, &e), u = f + 2, u_low = f - (u - 2), s = f / u;
  const vh s_low = (h_fma(-s, u, f) - s * u_low) / u, third = h_set(0x1.5555555555555p-1);
  const vh z = s * s, z_low = h_fma(s, s, -z) + s * s_low * 2, rest = z * h_log_later_terms(z);
  const vh t = third + rest, t_low = ((third - t) + rest) + 0x1.5555555555555p-55;
  const vh w = z * t, w_low = h_fma(z, t, -w) + (z * t_low + z_low * t);
  const vh v = s * w, v_low = h_fma(s, w, -v) + (s * w_low + s_low * w);
  const vh y = s * 2 + v, y_low = ((s * 2 - y) + v) + (s_low * 2 + v_low), high = e * 0x1.62e42fefa3800p-1;
  const vh sum = high + y;
  *low = ((high - sum) + y) + h_fma(e, h_set(0x1.ef35793c76730p-45), y_low);
  return sum;
}
V_INLINE vh h_power(vh x, vh y) {
  vh low, log = h_log_sum(h_abs(x), &low), p = y * log, p_low = h_fma(y, log, -p) + y * low;
  const vhl inside = (vhl)(h_abs(p) < h_set(1000));
  const vhl ends = (vhl)(x == (vh){0}) | (vhl)(h_abs(x) == h_set(INFINITY)) | (vhl)(x != x);
  p = h_select(ends, y * h_log_ends(h_abs(x), log), p);
  return h_pow_ends(x, y, h_exp_sum(p, h_select(inside & ~ends, p_low, (vh){0})));
}

/* ---- sine and cosine ---- */

#define D_TURNS 0x1p30
/* sin(x + quarters pi/2) for |x| <= D_TURNS: pi/2 in three parts, what is left in two. */
V_INLINE vh h_wave(vh x, int64_t quarters) {
  const vh n = h_round(x * 0x1.45f306dc9c883p-1), near = h_fma(n, h_set(-0x1.921fb54442d18p+0), x); /* exact */
  const vh part = n * 0x1.1a62633145c07p-54, part_low = h_fma(n, h_set(0x1.1a62633145c07p-54), -part);
  const vh r = near - part, back = r - near, z = r * r, half = z * 0.5, one = h_set(1);
  const vh low = (near - (r - back)) - (part + back) - h_fma(n, h_set(-0x1.f1976b7ed8fbcp-110), part_low);
  const vh odd = r + h_fma(r * z, h_sin_terms(z), low);
  const vh high = one - half, even = high + ((one - high - half) + h_fma(z * z, h_cos_terms(z), -r * low));
  const vhl turn = (vhl)(n + 0x1.8p52) + quarters, negative = (turn & 2) << 62;
  return (vh)((vhl)h_select(-(turn & 1), even, odd) ^ negative);
}
V_INLINE vh h_sin_near(vh x) { return h_select((vhl)(x == (vh){0}), x, h_wave(x, 0)); }
V_INLINE vh h_cos_near(vh x) { return h_wave(x, 1); }

/* ---- sigmoids and the error function ---- */

/* As v_sigmoid, but for what exp loses. */
V_INLINE vh h_sigmoid(vh x) {
  const vh e = h_exp(-h_abs(x)), d = e + 1, d_low = e - (d - 1), q = e / d;
  const vh closer = h_fma(h_fma(-q, d, e) - q * d_low, 1 - q, q);
  return h_select((vhl)(x < (vh){0}), closer, 1 - closer);
}
V_INLINE vh h_tanh(vh x) {
  const vh t = h_expm1(h_clamp(h_abs(x), 0, 30) * -2);
  return h_copysign(t / (t + 2), x);
}
/* From here down what is left is -0, and NaN of -inf. */
V_INLINE vh h_silu(vh x) {
  const vh a = h_select((vhl)(x < h_set(-800)), h_set(-800), x);
  return x * h_sigmoid(a);
}
V_INLINE vh h_softplus(vh x) { return h_select((vhl)(x < (vh){0}), (vh){0}, x) + h_log1p(h_exp(-h_abs(x))); }
V_INLINE vh h_mish(vh x) {
  const vh a = h_select((vhl)(x < h_set(-800)), h_set(-800), x);
  const vh e = h_exp(h_clamp(a, -800, 40)), w = e * (e + 2);
  return x * (w / (w + 2));
}
/* For |x| < 1. */
V_INLINE vh h_erf_near(vh x) { return h_fma(x, h_erf_terms(x * x), x); }
V_INLINE vh h_erf(vh x) {
  const vh a = h_abs(x);
  return h_select((vhl)(a < h_set(1)), h_erf_near(x), h_copysign(1 - h_erfc(a), x));
}
V_INLINE vh h_gelu(vh x) {
  const vh a = h_select((vhl)(x < h_set(-50)), h_set(-50), x), t = a * 0x1.6a09e667f3bcdp-1;
  return x * (h_select((vhl)(h_abs(t) < h_set(1)), h_erf_near(t) + 1, h_erfc(-t)) * 0.5);
}
V_INLINE vh h_gelu_tanh(vh x) {
  const vh t = h_clamp(x, -50, 50);
  return x * h_sigmoid(t * h_fma(t * t, h_set(0x1.2444f2a4d8b4bp-4), h_set(0x1.9884533d43651p+0)));
}

/* ---- whole numbers ---- */

V_INLINE vh h_nearest(vh x) { return h_copysign(h_round_up_from_0(h_abs(x)), x); }
V_INLINE vh h_floor(vh x) {
  const vh n = h_nearest(x);
  return h_select((vhl)(n > x), n - 1, n);
}
V_INLINE vh h_ceil(vh x) { return -h_floor(-x); }

#define D_OTHER(word)
TYPE_DOUBLE_FUNCTIONS(D_FUNCTION, D_PAIR, D_OTHER)
#if V_FUSED
D_FUNCTION(sin_near, h_sin_near)
D_FUNCTION(cos_near, h_cos_near)
/* Lanes beyond D_TURNS are libm's, and no others. */
#define D_WAVE(name)                                                                                            \
  V_INLINE vd d_##name(vd x) {                                                                                  \
    const vl far = (vl)(d_abs(x) > d_set(D_TURNS));                                                             \
    const vd y = d_##name##_near(x);                                                                            \
    return v_any(v_lt(v_set((float)D_TURNS), v_abs(d_to_v(x)))) ? d_select(far, d_far(TD_##name, x, x), y) : y; \
  }
D_WAVE(sin)
D_WAVE(cos)
#else
D_FUNCTION(sin, )
D_FUNCTION(cos, )
#endif
V_INLINE vd d_exp_flush(vd x) { return d_exp(x); }
V_INLINE vd d_expm1_low(vd x) { return d_expm1(x); }
V_INLINE vd d_copysign(vd a, vd b) { return (vd)(((vl)a & l_set(INT64_MAX)) | ((vl)b & l_set(INT64_MIN))); }
V_INLINE vd d_clamp(vd low, vd high, vd x) {
  const vd least = d_select(d_lt(x, low), low, x);
  return d_select(d_lt(high, least), high, least);
}
V_INLINE vd d_leaky_relu(vd a, vd x) { return d_select(d_lt(x, d_zero()), a * x, x); }
V_INLINE vd d_hard_sigmoid(vd a, vd b, vd x) { return d_clamp(d_zero(), d_set(1), a * x + b); }
V_INLINE vd d_hardswish(vd x) {
  const vd y = x * d_clamp(d_zero(), d_set(1), x / 6 + 0.5);
  return d_select(d_eq(x, d_set(-INFINITY)), d_set(-0.0), y);
}
V_INLINE vd d_over(vd x, vd y) { return x / y; }
V_INLINE vd d_softsign(vd x) { return x / (d_abs(x) + 1); }
