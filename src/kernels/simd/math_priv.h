/* math_priv.h -- exp, log, erf and the activations of acts.def over the vocabulary of simd_priv.h.
 *
 * Errors are measured over the range of f32 (tests/kernels/test_math.c holds them): exp, log, sigmoid, sine,
 * cosine, expm1 and log1p <= 2 ULP; tanh, erf and the rest as said beside them. What is not a number stays so;
 * infinities and both ends of the range give what libm gives, but where a function says that it flushes.
 *
 * Polynomials are minimax fits by Lawson's reweighted least squares on 400 Chebyshev nodes, rounded to f32; quotients
 * the same, linearised (Lawson 1961; Rice & Usow 1968). ln 2 is split as by Cody & Waite: n * LN2_HIGH is exact. */
#ifndef KERNELS_MATH_PRIV_H
#define KERNELS_MATH_PRIV_H
#include "kernels/simd/simd_priv.h"

#include "kernels/simd/math_text_priv.h"

/* ---- activations by name: v_act_<name>(a, b, x) for each of acts.def ---- */

V_INLINE vf v_act_none(vf a, vf b, vf x) { return (void)a, (void)b, x; }
V_INLINE vf v_act_relu(vf a, vf b, vf x) { return (void)a, (void)b, v_relu(x); }
V_INLINE vf v_act_clamp(vf a, vf b, vf x) { return v_clamp(a, b, x); }
V_INLINE vf v_act_leaky_relu(vf a, vf b, vf x) { return (void)b, v_leaky_relu(a, x); }
V_INLINE vf v_act_sigmoid(vf a, vf b, vf x) { return (void)a, (void)b, v_sigmoid(x); }
V_INLINE vf v_act_tanh(vf a, vf b, vf x) { return (void)a, (void)b, v_tanh(x); }
V_INLINE vf v_act_gelu(vf a, vf b, vf x) { return (void)a, (void)b, v_gelu(x); }
V_INLINE vf v_act_gelu_tanh(vf a, vf b, vf x) { return (void)a, (void)b, v_gelu_tanh(x); }
V_INLINE vf v_act_silu(vf a, vf b, vf x) { return (void)a, (void)b, v_silu(x); }
V_INLINE vf v_act_hard_sigmoid(vf a, vf b, vf x) { return v_hard_sigmoid(a, b, x); }
V_INLINE vf v_act_hardswish(vf a, vf b, vf x) { return (void)a, (void)b, v_hardswish(x); }

V_INLINE vf v_act_clamp_f16(vf a, vf b, vf x) { return v_clamp(a, b, v_round_f16(x)); }
V_INLINE vf v_act_silu_f16(vf a, vf b, vf x) { return (void)a, (void)b, v_silu(v_round_f16(x)); }

/* ---- those that divide, within 2^-13: an estimate of the reciprocal is a factor ---- */

#if defined V_AVX512
V_INLINE vf v_near_quotient(vf x, vf d) { return v_mul(x, _mm512_rcp14_ps(d)); }
V_INLINE vf v_near_silu(vf x) { return v_near_quotient(x, v_silu_d(x)); }
V_INLINE vf v_near_sigmoid(vf x) { return v_near_quotient(v_set(1), v_silu_d(x)); }
V_INLINE vf v_near_gelu_tanh(vf x) { return v_near_quotient(x, v_gelu_tanh_d(x)); }
V_INLINE vf v_near_tanh(vf x) {
  vf d, y = v_tanh_parts(x, &d);
  return v_within_one(v_near_quotient(y, d));
}
#endif

/* act, in place, on `rows` rows of n floats, by kern_act: kern_act_rows_<level> of simd/wide/act.c. For what lies in
 * L1: where it can stay in registers, a loop per activation over v_act_<name> is better. */
typedef void (*kern_act_rows)(float *first, int64_t pitch, int64_t rows, int64_t n, float a, float b);
extern const kern_act_rows KERN_NAME(act_rows)[KERN_ACT_COUNT];
/* The same for results that are rounded to bf16, or go on to such: within 2^-13 of the value, where that is quicker. */
extern const kern_act_rows KERN_NAME(act_rows_near)[KERN_ACT_COUNT];
#endif
