/* math_text_priv.h -- the functions of math_priv.h, whose text opens generated code, too: no other header. */
#define LN2_HIGH 0.693359375f
#define LN2_LOW (-2.12194440e-4f)
#define LN2 0.693147182f
#define LOG2_E 1.44269504f

/* Functions of many steps: called where code is to be small rather than fast. */
#ifdef KERN_SMALL
#define V_MATH static __attribute__((noinline, unused))
#else
#define V_MATH V_INLINE
#endif

/* ---- exponentials ---- */

/* a * 2^n for whole n in [-252, 254]; a result that is no normal number is rounded once. */
#if defined V_AVX512
V_INLINE vf v_scale(vf a, vf n) { return _mm512_scalef_ps(a, n); }
V_INLINE vf v_scale_normal(vf a, vf n) { return _mm512_scalef_ps(a, n); }
#else
V_INLINE vf v_scale(vf a, vf n) {
  vi whole = v_to_int(n), half = vi_shr(whole, 1), bias = vi_set(127);
  vf first = v_as_float(vi_shl(vi_add(half, bias), 23));
  vf second = v_as_float(vi_shl(vi_add(vi_sub(whole, half), bias), 23));
  return v_mul(v_mul(a, first), second);
}
/* The same where a and the result are normal numbers. */
V_INLINE vf v_scale_normal(vf a, vf n) { return v_as_float(vi_add(v_as_int(a), vi_shl(v_to_int(n), 23))); }
#endif

/* x = n ln 2 + r, |r| <= ln(2) / 2, n whole. */
V_INLINE vf v_exp_reduce(vf x, vf *n) {
  *n = v_round(v_mul(x, v_set(LOG2_E)));
  return v_fnma(*n, v_set(LN2_LOW), v_fnma(*n, v_set(LN2_HIGH), x));
}
/* exp(r) - 1 for such r: 3e-9 relative to exp(r). */
V_INLINE vf v_exp_core(vf r) {
  vf q = v_fma(v_set(0.00138141715f), r, v_set(0.0083689224975f));
  q = v_fma(q, r, v_set(0.041668407619f));
  q = v_fma(q, r, v_set(0.16666519642f));
  q = v_fma(q, r, v_set(0.49999994040f));
  return v_fma(v_mul(r, r), q, r);
}
V_MATH vf v_exp(vf x) {
  vf n, r = v_exp_reduce(v_min(v_set(89), v_max(v_set(-104), x)), &n);
  return v_scale(v_add(v_exp_core(r), v_set(1)), n);
}
/* exp(x) for x <= 88; results below the normal numbers become 0. What softmax and sigmoids use: denormals would cost
 * them time and tell nothing. */
V_MATH vf v_exp_flush(vf x) {
  const vf least = v_set(-87.336544f);
  vf n, r = v_exp_reduce(v_max(least, x), &n), y = v_scale_normal(v_add(v_exp_core(r), v_set(1)), n);
  return v_select(v_le(x, least), v_zero(), y);
}
/* exp(x) - 1 for x <= 87, relative to the result. */
V_MATH vf v_expm1_low(vf x) {
  vf n, r = v_exp_reduce(v_max(v_set(-40), x), &n), power = v_pow2(n);
  return v_fma(v_exp_core(r), power, v_sub(power, v_set(1)));
}
V_MATH vf v_expm1(vf x) {
  const vf most = v_set(80); /* from here on -1 changes nothing */
  return v_select(v_lt(most, x), v_exp(x), v_expm1_low(v_min(most, x)));
}

/* ---- logarithms ---- */

/* x = 2^*e (1 + *f), 1 + *f in [sqrt(1/2), sqrt(2)), for normal and smaller x > 0. Gives log(1 + f) - f + f^2 / 2. */
V_MATH vf v_log_parts(vf x, vf *e, vf *f) {
  const vi root_half = vi_set(0x3f3504f3);
  vm tiny = v_lt(x, v_set(0x1p-126f));
  vf normal = v_select(tiny, v_mul(x, v_set(0x1p24f)), x);
  vi bits = vi_sub(v_as_int(normal), root_half);
  *e = v_sub(v_from_int(vi_shr(bits, 23)), v_select(tiny, v_set(24), v_zero()));
  *f = v_sub(v_as_float(vi_add(vi_and(bits, vi_set(0x007fffff)), root_half)), v_set(1));
  vf q = v_fma(v_set(-0.07640226930f), *f, v_set(0.12770308554f));
  q = v_fma(q, *f, v_set(-0.13162195683f));
  q = v_fma(q, *f, v_set(0.14200735092f));
  q = v_fma(q, *f, v_set(-0.16623060405f));
  q = v_fma(q, *f, v_set(0.20001259446f));
  q = v_fma(q, *f, v_set(-0.25000828505f));
  q = v_fma(q, *f, v_set(0.33333331347f));
  return v_mul(v_mul(v_mul(*f, *f), *f), q);
}
/* The logarithm y of x, where x is positive and finite, with what it is elsewhere. */
V_INLINE vf v_log_ends(vf x, vf y) {
  y = v_select(v_lt(x, v_set(INFINITY)), y, x); /* infinity and what is not a number */
  y = v_select(v_lt(x, v_zero()), v_set(NAN), y);
  return v_select(v_eq(x, v_zero()), v_set(-INFINITY), y);
}
V_MATH vf v_log(vf x) {
  vf e, f, y = v_log_parts(x, &e, &f);
  y = v_fma(e, v_set(LN2_LOW), y);
  y = v_add(v_fnma(v_mul(f, f), v_set(0.5f), y), f);
  return v_log_ends(x, v_fma(e, v_set(LN2_HIGH), y));
}
/* 2.5 ULP, as v_log10. */
V_MATH vf v_log2(vf x) {
  vf e, f, y = v_log_parts(x, &e, &f);
  y = v_add(v_fnma(v_mul(f, f), v_set(0.5f), y), f);
  return v_log_ends(x, v_add(v_fma(y, v_set(0.442695041f), y), e));
}
/* log10(2) is split so that e times its first part is exact. */
V_MATH vf v_log10(vf x) {
  vf e, f, y = v_log_parts(x, &e, &f);
  y = v_mul(v_add(v_fnma(v_mul(f, f), v_set(0.5f), y), f), v_set(0.434294482f));
  return v_log_ends(x, v_fma(e, v_set(0.301025390625f), v_fma(e, v_set(4.60503907e-6f), y)));
}
/* log(1 + x) for x in [0, 1], relative to the result: the rounding error of 1 + x is put back (Kahan). */
V_MATH vf v_log1p_unit(vf x) {
  vf u = v_add(x, v_set(1)), lost = v_sub(x, v_sub(u, v_set(1)));
  return v_add(v_log(u), v_div(lost, u));
}
/* The same for any x: of -1 and infinity there is nothing to put back. */
V_MATH vf v_log1p(vf x) {
  vf u = v_add(x, v_set(1)), y = v_log(u), lost = v_div(v_sub(x, v_sub(u, v_set(1))), u);
  return v_add(y, v_select(v_lt(v_abs(y), v_set(INFINITY)), lost, v_zero()));
}

/* ---- sine and cosine ---- */

/* x = n pi/2 + r + *low, |r| <= 0.81, for |x| <= V_TURNS. pi/2 is split so that n times a part is exact, and what is
 * left of x too (Cody & Waite), down to 2^-40, where r is as small as it gets; fused, but for the last rounding of r.
 */
#define V_TURNS (V_FUSED ? 0x1p17f : 0x1p13f)
V_INLINE vf v_turn_reduce(vf x, vf n, vf *low) {
  if (V_FUSED) {
    *low = v_mul(n, v_set(0x1.ee59dap-50f));
    return v_fma(n, v_set(0x1.777a5cp-25f), v_fnma(n, v_set(0x1.921fb6p0f), x));
  }
  vf left = v_sub(v_sub(x, v_mul(n, v_set(0x1.92p0f))), v_mul(n, v_set(0x1.fb4p-12f)));
  vf part = v_mul(n, v_set(0x1.444p-24f)), r = v_sub(left, part);
  *low = v_sub(v_sub(v_sub(v_sub(left, r), part), v_mul(n, v_set(0x1.68cp-39f))), v_mul(n, v_set(0x1.1a6264p-54f)));
  return r;
}
/* sin(x + quarters pi/2) for |x| <= V_TURNS. */
V_MATH vf v_wave(vf x, int32_t quarters) {
  const vf one = v_set(1), half = v_set(0.5f);
  vf n = v_round(v_mul(x, v_set(0.636619772f))), low, r = v_turn_reduce(x, n, &low), z = v_mul(r, r);
  vi turn = vi_add(v_to_int(n), vi_set(quarters));
  vf p = v_fma(v_set(-0.0001949543075f), z, v_set(0.008332013153f));
  vf odd = v_add(r, v_fma(v_mul(r, z), v_fma(p, z, v_set(-0.1666665226f)), low));
  vf q = v_fma(v_fma(v_set(2.441144898e-05f), z, v_set(-0.00138871267f)), z, v_set(0.04166664183f));
  vf high = v_fnma(half, z, one), lost = v_fnma(half, z, v_sub(one, high));
  vf even = v_add(high, v_fma(v_mul(z, z), q, v_fnma(r, low, lost)));
  vf y = v_select(v_eq(v_from_int(vi_and(turn, vi_set(1))), v_zero()), odd, even);
  return v_as_float(vi_xor(v_as_int(y), vi_and(vi_shl(turn, 30), vi_set(INT32_MIN))));
}
/* 1.5 ULP. Lanes beyond V_TURNS are libm's, and no others: what stands beside an element does not change it. */
V_MATH vf v_sin(vf x) {
  const vm far = v_lt(v_set(V_TURNS), v_abs(x));
  const vf y = v_wave(x, 0);
  return v_any(far) ? v_select(far, V_FAR(sin, x), y) : y;
}
V_MATH vf v_cos(vf x) {
  const vm far = v_lt(v_set(V_TURNS), v_abs(x));
  const vf y = v_wave(x, 1);
  return v_any(far) ? v_select(far, V_FAR(cos, x), y) : y;
}

/* ---- sigmoids ---- */

/* q = e / (1 + e) with e = exp(-|x|), or 1 - q where x > 0. What rounding took from e and from 1 + e is put back by one
 * step of Newton's method on the quotient, whose derivative is 1 / (1 + e) = 1 - q. */
V_MATH vf v_sigmoid(vf x) {
  const vf one = v_set(1), least = v_set(-87.336544f);
  vf y = v_neg(v_abs(x)), n, core = v_exp_core(v_exp_reduce(v_max(least, y), &n)), power = v_pow2(n);
  vf high = v_add(one, core), low = v_sub(core, v_sub(high, one));
  vf e = v_mul(power, high), e_low = v_mul(power, low);
  vf d = v_add(one, e), d_low = v_add(v_sub(e, v_sub(d, one)), e_low), q = v_div(e, d);
  vf left = v_add(v_fnma(q, d, e), v_fnma(q, d_low, e_low));
  q = v_select(v_le(y, least), v_zero(), v_fma(left, v_sub(one, q), q));
  return v_select(v_lt(x, v_zero()), q, v_sub(one, q));
}
/* x P(x^2) and *d = Q(x^2). */
V_INLINE vf v_tanh_parts(vf x, vf *d) {
  vf t = v_min(v_set(8.9f), v_max(v_set(-8.9f), x)), z = v_mul(t, t);
  vf p = v_fma(v_set(1.35985365e-08f), z, v_set(2.07885023e-05f));
  vf q = v_fma(v_set(7.87733427e-07f), z, v_set(0.000330362411f));
  p = v_fma(p, z, v_set(0.00350666768f));
  q = v_fma(q, z, v_set(0.0259193368f));
  p = v_fma(p, z, v_set(0.133904204f));
  q = v_fma(q, z, v_set(0.467237413f));
  p = v_fma(p, z, v_set(1));
  *d = v_fma(q, z, v_set(1));
  return v_mul(t, p);
}
V_INLINE vf v_within_one(vf x) { return v_min(v_set(1), v_max(v_set(-1), x)); }
/* x P(x^2) / Q(x^2), 4.5 ULP, up to where tanh is within an ULP of 1; there the quotient is 1 or more, and is cut. */
V_MATH vf v_tanh(vf x) {
  vf d, y = v_tanh_parts(x, &d);
  return v_within_one(v_div(y, d));
}

/* exp(-x) = *power times the result for |x| <= 87, 3e-7 relative, where no more is needed. -x = (n + i/8) ln 2 - s with
 * |s| <= ln(2) / 16: 2^(i/8) comes from a table (Tang 1989), and three terms do for exp(-s). Adding `eighths`, whose
 * last bit is an eighth, rounds to n + i/8 and leaves 8 n + i in the low bits. `near`: x where it is in that range. */
V_INLINE vf v_exp_neg_parts(vf near, vf x, vf *power) {
  /* The bits of 2^(i/8), less the i that stands in the place of its exponent when 8 n + i is shifted to it. */
  static const int32_t powers[8] = {0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7,
                                    0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7};
  const vf eighths = v_set(0x1.8p20f);
  vf t = v_fma(near, v_set(-LOG2_E), eighths), n = v_sub(t, eighths);
  vf s = V_FUSED ? v_fma(n, v_set(LN2), x) : v_fma(n, v_set(LN2_LOW), v_fma(n, v_set(LN2_HIGH), x));
  *power = v_as_float(vi_add(v_lookup(powers, v_as_int(t)), vi_shl(v_as_int(t), 20)));
  vf p = v_fma(v_set(-0.16667569946f), s, v_set(0.50006474855f));
  return v_fma(v_fma(p, s, v_set(-1)), s, v_set(1));
}
/* exp(-x) for x >= -87; 0 from 87 on. */
V_MATH vf v_exp_neg(vf x) {
  const vf most = v_set(87);
  vf near = v_min(most, x), power, p = v_exp_neg_parts(near, near, &power);
  return v_select(v_le(most, x), v_zero(), v_mul(power, p));
}
/* For x <= 88. Below -88 the polynomial takes what is left of x, up to infinity. */
V_MATH vf v_one_plus_exp_neg(vf x) {
  vf power, p = v_exp_neg_parts(v_max(v_set(-88), x), x, &power);
  return v_fma(power, p, v_set(1));
}
/* x / d = x sigmoid(x): 4 ULP, below -20 up to 7; NaN of -inf, as of all these products. */
V_INLINE vf v_silu_d(vf x) { return v_one_plus_exp_neg(v_min(v_set(87), x)); }
V_MATH vf v_silu(vf x) { return v_div(x, v_silu_d(x)); }
/* x / d = x (1 + tanh(u)) / 2 = x sigmoid(2 u); below -10 less than 1e-34 in place of 0. */
V_INLINE vf v_gelu_tanh_d(vf x) {
  vf t = v_min(v_set(10), x);
  return v_one_plus_exp_neg(v_mul(t, v_fma(v_mul(t, t), v_set(0.0713548162726f), v_set(1.59576912161f))));
}
V_MATH vf v_gelu_tanh(vf x) { return v_div(x, v_gelu_tanh_d(x)); }
/* log(1 + exp(x)). */
V_MATH vf v_softplus(vf x) { return v_add(v_max(v_zero(), x), v_log1p_unit(v_exp_flush(v_neg(v_abs(x))))); }

/* x tanh(log(1 + exp(x))) = x w / (w + 2) with w = e (e + 2), e = exp(x). */
V_MATH vf v_mish(vf x) {
  vf e = v_exp_flush(v_min(v_set(20), x)), w = v_mul(e, v_add(e, v_set(2)));
  return v_mul(x, v_div(w, v_add(w, v_set(2))));
}

/* ---- the error function ---- */

/* x P(x^2) / Q(x^2) up to where erf rounds to 1: the quotient within 2e-8, the result within 4e-7 relative. */
V_MATH vf v_erf(vf x) {
  vf t = v_min(v_set(3.92f), v_max(v_set(-3.92f), x)), z = v_mul(t, t);
  vf p = v_fma(v_set(2.050059492830769e-06f), z, v_set(0.00028487617964856327f));
  vf q = v_fma(v_set(3.809108602581546e-05f), z, v_set(0.00116249721031636f));
  p = v_fma(p, z, v_set(0.0037654871121048927f));
  q = v_fma(q, z, v_set(0.014968961477279663f));
  p = v_fma(p, z, v_set(0.052748315036296844f));
  q = v_fma(q, z, v_set(0.11410799622535706f));
  p = v_fma(p, z, v_set(0.19040392339229584f));
  q = v_fma(q, z, v_set(0.5020738244056702f));
  p = v_fma(p, z, v_set(1.1283791065216064f));
  q = v_fma(q, z, v_set(1));
  vf y = v_min(v_set(1), v_max(v_set(-1), v_div(v_mul(t, p), q)));
  return v_select(v_le(v_set(3.92f), v_abs(x)), v_copysign(v_set(1), x), y);
}
#if defined V_AVX512
/* x Phi(x) = max(x, 0) - a Phi(-a), a = |x|. For Phi(-a) the coefficients of a polynomial come from tables: one for
 * each 15th part of [0, 5.2], 1e-7, and none behind it, where Phi(-a) < 1e-7. Adding `whole`, whose last bit is 1,
 * rounds to the number of the part and leaves it in the low bits. The error is 2 ULP of x, as with the usual x (1 +
 * erf(x / sqrt 2)) / 2, not of the result where x < 0; below -5.2 the result is 0. */
V_MATH vf v_gelu(vf x) {
  static const float parts[5][16] = {
      {-0.00012099454f, -0.000295985636f, -0.000319977349f, -0.000212739571f, -6.32978699e-05f, 4.64776349e-05f,
       8.82120003e-05f, 7.97242174e-05f, 5.23748458e-05f, 2.74859685e-05f, 1.19703782e-05f, 4.41225347e-06f,
       1.39265933e-06f, 3.79281801e-07f, 8.95981458e-08f, 0},
      {0.00263240724f, 0.0017589028f, 0.000476926187f, -0.00061740604f, -0.00116745208f, -0.00118083751f,
       -0.000891209347f, -0.000544683251f, -0.000278827734f, -0.000121659192f, -4.57151982e-05f, -1.48930067e-05f,
       -4.2257393e-06f, -1.04774551e-06f, -2.27568293e-07f, 0},
      {0.00409314642f, 0.0108889695f, 0.0142709175f, 0.0139317028f, 0.0110759363f, 0.00742282998f, 0.00426545693f,
       0.00212209392f, 0.000919556362f, 0.000348452129f, 0.000115790201f, 3.3809989e-05f, 8.68804909e-06f,
       1.96702536e-06f, 3.92740191e-07f, 0},
      {-0.13623704f, -0.12081033f, -0.0949995145f, -0.0662439987f, -0.0409617424f, -0.0224603023f, -0.0109208487f,
       -0.00470867334f, -0.00180027843f, -0.000610347022f, -0.000183487587f, -4.89131453e-05f, -1.15619068e-05f,
       -2.42333635e-06f, -4.50374074e-07f, 0},
      {0.431194723f, 0.301531792f, 0.193062335f, 0.112501204f, 0.059379939f, 0.0282818824f, 0.0121190697f, 0.004661188f,
       0.00160609628f, 0.000495035085f, 0.000136319024f, 3.35040313e-05f, 7.34342393e-06f, 1.43437455e-06f,
       2.49539369e-07f, 0}};
  const vf whole = v_set(0x1.8p23f);
  vf a = v_min(v_set(5.25f), v_abs(x)), u = v_fma(a, v_set(15 / 5.2f), v_set(-0.5f));
  vf t = v_add(u, whole), r = v_sub(u, v_sub(t, whole)), q = v_permute(v_load(parts[0]), v_as_int(t));
  V_FOR(i, 4) q = v_fma(q, r, v_permute(v_load(parts[i + 1]), v_as_int(t)));
  return v_fnma(a, q, v_sub(x, v_min(x, v_zero()))); /* max(x, 0), and NaN of -inf */
}
#else
/* x Phi(x) with Phi(x) - 1/2 = x P(x^2) / Q(x^2), 2e-8 relative; below -5.6, where Phi < 2^-26, the result is -0. So
 * the error is 2 ULP of x, as with the usual x (1 + erf(x / sqrt 2)) / 2, not of the result where x < 0. */
V_MATH vf v_gelu(vf x) {
  const vf least = v_set(-5.6f);
  vf low = v_max(least, x), t = v_min(v_set(5.6f), low), z = v_mul(t, t);
  vf p = v_fma(v_set(2.229645978957251e-08f), z, v_set(6.289608791121282e-06f));
  vf q = v_fma(v_set(1.1796161061283783e-06f), z, v_set(7.334285328397527e-05f));
  p = v_fma(p, z, v_set(0.00016892778512556106f));
  q = v_fma(q, z, v_set(0.0018854854861274362f));
  p = v_fma(p, z, v_set(0.004677341319620609f));
  q = v_fma(q, z, v_set(0.028677547350525856f));
  p = v_fma(p, z, v_set(0.033929064869880676f));
  q = v_fma(q, z, v_set(0.2517138719558716f));
  p = v_fma(p, z, v_set(0.3989422619342804f));
  q = v_fma(q, z, v_set(1));
  vf phi = v_add(v_div(v_mul(t, p), q), v_set(0.5f));
  return v_mul(x, v_select(v_le(x, least), v_zero(), phi));
}
#endif

/* ---- by comparison ---- */

V_MATH vf v_softsign(vf x) { return v_div(x, v_add(v_set(1), v_abs(x))); }

V_INLINE vf v_relu(vf x) { return v_max(v_zero(), x); }
V_INLINE vf v_clamp(vf low, vf high, vf x) { return v_min(high, v_max(low, x)); }
V_INLINE vf v_leaky_relu(vf slope, vf x) { return v_select(v_lt(x, v_zero()), v_mul(slope, x), x); }
V_INLINE vf v_hard_sigmoid(vf a, vf b, vf x) { return v_clamp(v_zero(), v_set(1), v_fma(a, x, b)); }
V_INLINE vf v_hardswish(vf x) {
  vf gate = v_clamp(v_zero(), v_set(6), v_add(x, v_set(3)));
  return v_mul(x, v_mul(gate, v_set(1.0f / 6)));
}

/* x / y, rounded once, of what is far from the ends of the type's range. Made for a y of many x: a quotient by a
 * rounded reciprocal is corrected by what it leaves of x, which is exact (Brisebarre, Muller, Raina 2004, Accelerating
 * correctly rounded floating-point division when the divisor is known in advance). */
V_INLINE vf v_over(vf x, vf y) {
  if (!V_FUSED) return v_div(x, y);
  const vf reciprocal = v_div(v_set(1), y), near = v_mul(x, reciprocal);
  return v_fma(v_fnma(near, y, x), reciprocal, near);
}

/* ---- the nearest numbers of narrower types, ties to even ---- */

/* `bits` without the last `count`, rounded; what overflows is the next power of 2. */
V_INLINE vf v_round_bits(vi bits, uint32_t count) {
  const vi odd = vi_and(vi_shr(bits, count), vi_set(1)), below = vi_set((1 << (count - 1)) - 1);
  return v_as_float(vi_and(vi_add(bits, vi_add(below, odd)), vi_set(-(1 << count))));
}
V_INLINE vf v_round_bf16(vf x) { return v_select(v_eq(x, x), v_round_bits(v_as_int(x), 16), x); }
/* Below the normal numbers f16 has whole multiples of 2^-24, which is what the last bit of 0.5 stands for. */
#if defined V_HALVES
V_INLINE vf v_round_f16(vf x) { return v_half(x); }
#else
V_INLINE vf v_round_f16(vf x) {
  const vf size = v_abs(x), half = v_set(0.5f);
  vf y = v_select(v_lt(size, v_set(0x1p-14f)), v_sub(v_add(size, half), half), v_round_bits(v_as_int(size), 13));
  y = v_select(v_lt(y, v_set(0x1p16f)), y, v_set(INFINITY));
  return v_select(v_eq(x, x), v_copysign(y, x), x);
}
#endif
