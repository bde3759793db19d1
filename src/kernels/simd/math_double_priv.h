/* math_double_priv.h -- functions that need more than f32 has, in doubles: of f32, where a vector is widened in two
 * halves, computed and rounded once; and, in generated code, of f64.
 *
 * A half, vh, is one register of doubles: half as many as a vector has lanes. What is said to be of f32 takes and gives
 * doubles, and is right to 2^-38 of the result for operands that are f32; the rest is within 2 ULP of f64 where
 * multiplications and additions are fused. Polynomials are Chebyshev fits in 130 digits, rounded to f64. */
#ifndef KERNELS_MATH_DOUBLE_PRIV_H
#define KERNELS_MATH_DOUBLE_PRIV_H
#include "kernels/simd/math_priv.h"

#if V_BYTES == 4 /* one lane has no halves: libm's */
#define V_LIBM(name, function, ...) \
  V_INLINE vf name(__VA_ARGS__) {   \
    function;                       \
    return x;                       \
  }
V_LIBM(v_sinh, x[0] = (float)sinh((double)x[0]), vf x)
V_LIBM(v_cosh, x[0] = (float)cosh((double)x[0]), vf x)
V_LIBM(v_atan, x[0] = (float)atan((double)x[0]), vf x)
V_LIBM(v_asin, x[0] = (float)asin((double)x[0]), vf x)
V_LIBM(v_acos, x[0] = (float)acos((double)x[0]), vf x)
V_LIBM(v_erfc, x[0] = (float)erfc((double)x[0]), vf x)
V_LIBM(v_atan2, x[0] = (float)atan2((double)x[0], (double)y[0]), vf x, vf y)
V_LIBM(v_pow, x[0] = (float)pow((double)x[0], (double)y[0]), vf x, vf y)
#else
/* A function that several others call: large, and no copies of it are wanted where they would be read by nobody. */
#define V_SHARED static __attribute__((noinline, unused))

#include "kernels/simd/math_double_text_priv.h"
#endif
#endif
