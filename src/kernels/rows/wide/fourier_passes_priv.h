/* fourier_passes_priv.h -- Fourier transforms of V_LANES rows side by side: an element is a vector of real parts and
 * one of imaginary parts, so that every row is computed alike, whoever its neighbours are. A transform the other way is
 * the same one with the parts exchanged: `re` says where real parts stand. */
#ifndef KERNELS_WIDE_FOURIER_PASSES_PRIV_H
#define KERNELS_WIDE_FOURIER_PASSES_PRIV_H
#include "kernels/rows/rows.h"
#include "kernels/simd/simd_priv.h"

enum { PAIR = 2 * V_LANES, ODD_HALF = KERN_FOURIER_RADIX / 2 };

typedef struct vc {
  vf re, im;
} vc;

/* One pass: of sequences of radix * m elements, `s` of them in turn, radix times as many of m elements. */
typedef struct fourier_pass {
  const float *x;
  float *y;
  const float *roots, *w; /* of an odd radix; factors of element p: w + 2 (radix - 1) p */
  int64_t radix, m, s, re;
} fourier_pass;

V_INLINE vc vc_load(const float *at, int64_t re) { return (vc){v_load(at + re), v_load(at + V_LANES - re)}; }
V_INLINE void vc_store(float *at, vc z, int64_t re) {
  v_store(at + re, z.re);
  v_store(at + V_LANES - re, z.im);
}
V_INLINE vc vc_add(vc a, vc b) { return (vc){v_add(a.re, b.re), v_add(a.im, b.im)}; }
V_INLINE vc vc_sub(vc a, vc b) { return (vc){v_sub(a.re, b.re), v_sub(a.im, b.im)}; }
V_INLINE vc vc_mul(vc z, vf re, vf im) {
  return (vc){v_fnma(z.im, im, v_mul(z.re, re)), v_fma(z.im, re, v_mul(z.re, im))};
}
V_INLINE vc vc_times(vc z, const float *w) { return vc_mul(z, v_set(w[0]), v_set(w[1])); }
/* a + b i, a - b i */
V_INLINE vc vc_add_rotated(vc a, vc b) { return (vc){v_sub(a.re, b.im), v_add(a.im, b.re)}; }
V_INLINE vc vc_sub_rotated(vc a, vc b) { return (vc){v_add(a.re, b.im), v_sub(a.im, b.re)}; }

V_INLINE vc pass_in(const fourier_pass *a, int64_t k, int64_t i) {
  return vc_load(a->x + (k + a->s * a->m * i) * PAIR, a->re);
}
/* Result j of element p; `first`: p is 0, and factors are 1. */
V_INLINE void pass_out(const fourier_pass *a, int64_t p, int64_t q, int64_t j, vc z, bool first) {
  if (!first && j) z = vc_times(z, a->w + 2 * ((a->radix - 1) * p + j - 1));
  vc_store(a->y + (q + a->s * (a->radix * p + j)) * PAIR, z, a->re);
}

/* The butterflies of element p; by value: nothing that is stored can change it. */
V_INLINE void radix_2(const fourier_pass a, int64_t p) {
  for (int64_t q = 0; q < a.s; q++) {
    const vc x0 = pass_in(&a, q + a.s * p, 0), x1 = pass_in(&a, q + a.s * p, 1);
    pass_out(&a, p, q, 0, vc_add(x0, x1), false);
    pass_out(&a, p, q, 1, vc_sub(x0, x1), false);
  }
}

V_INLINE void radix_4(const fourier_pass a, int64_t p, const bool first) {
  for (int64_t q = 0; q < a.s; q++) {
    const int64_t k = q + a.s * p;
    const vc x0 = pass_in(&a, k, 0), x1 = pass_in(&a, k, 1), x2 = pass_in(&a, k, 2), x3 = pass_in(&a, k, 3);
    const vc even = vc_add(x0, x2), odd = vc_add(x1, x3), across = vc_sub(x0, x2), rotated = vc_sub(x1, x3);
    pass_out(&a, p, q, 0, vc_add(even, odd), first);
    pass_out(&a, p, q, 1, vc_sub_rotated(across, rotated), first);
    pass_out(&a, p, q, 2, vc_sub(even, odd), first);
    pass_out(&a, p, q, 3, vc_add_rotated(across, rotated), first);
  }
}

/* Results k and radix - k of an odd radix, of sums and differences of elements that lie opposite each other. */
V_INLINE void radix_odd(const fourier_pass a, int64_t p, const int radix) {
  const int half = radix / 2;
  for (int64_t q = 0; q < a.s; q++) {
    vc sum[2], difference[2];
    const vc x0 = pass_in(&a, q + a.s * p, 0);
    vc total = x0;
    V_FOR(j, half) {
      const vc x = pass_in(&a, q + a.s * p, j + 1), y = pass_in(&a, q + a.s * p, radix - 1 - j);
      sum[j] = vc_add(x, y);
      difference[j] = vc_sub(x, y);
      total = vc_add(total, sum[j]);
    }
    pass_out(&a, p, q, 0, total, false);
    V_FOR(k, half) {
      vc even = x0, odd = {v_zero(), v_zero()};
      V_FOR(j, half) {
        const float *root = a.roots + 2 * ((j + 1) * (k + 1) % radix);
        const vf c = v_set(root[0]), s = v_set(root[1]);
        even = (vc){v_fma(sum[j].re, c, even.re), v_fma(sum[j].im, c, even.im)};
        odd = (vc){v_fma(difference[j].re, s, odd.re), v_fma(difference[j].im, s, odd.im)};
      }
      pass_out(&a, p, q, k + 1, vc_add_rotated(even, odd), false);
      pass_out(&a, p, q, radix - 1 - k, vc_sub_rotated(even, odd), false);
    }
  }
}

/* The same of any odd radix. */
static void radix_any(const fourier_pass a, int64_t p, int64_t q) {
  const int64_t half = a.radix / 2;
  vc sum[ODD_HALF], difference[ODD_HALF];
  const vc x0 = pass_in(&a, q + a.s * p, 0);
  vc total = x0;
  for (int64_t j = 0; j < half; j++) {
    const vc x = pass_in(&a, q + a.s * p, j + 1), y = pass_in(&a, q + a.s * p, a.radix - 1 - j);
    sum[j] = vc_add(x, y);
    difference[j] = vc_sub(x, y);
    total = vc_add(total, sum[j]);
  }
  pass_out(&a, p, q, 0, total, false);
  for (int64_t k = 1; k <= half; k++) {
    vc even = x0, odd = {v_zero(), v_zero()};
    for (int64_t j = 0, at = k; j < half; j++) {
      const vf c = v_set(a.roots[2 * at]), s = v_set(a.roots[2 * at + 1]);
      even = (vc){v_fma(sum[j].re, c, even.re), v_fma(sum[j].im, c, even.im)};
      odd = (vc){v_fma(difference[j].re, s, odd.re), v_fma(difference[j].im, s, odd.im)};
      at = at + k < a.radix ? at + k : at + k - a.radix;
    }
    pass_out(&a, p, q, k, vc_add_rotated(even, odd), false);
    pass_out(&a, p, q, a.radix - k, vc_sub_rotated(even, odd), false);
  }
}

static void run_pass(const fourier_pass *pass) {
  const fourier_pass a = *pass;
  if (a.radix == 4) {
    radix_4(a, 0, true);
    for (int64_t p = 1; p < a.m; p++) radix_4(a, p, false);
    return;
  }
  for (int64_t p = 0; p < a.m; p++)
    if (a.radix == 2) radix_2(a, p);
    else if (a.radix == 3) radix_odd(a, p, 3);
    else if (a.radix == 5) radix_odd(a, p, 5);
    else
      for (int64_t q = 0; q < a.s; q++) radix_any(a, p, q);
}

/* Transforms the line.points elements of x; gives the one of `x` and `spare` that holds the result. */
static inline float *run_line(const kern_fourier_line *line, const float *table, float *x, float *spare, int64_t re) {
  const float *at = table + line->table;
  int64_t n = line->points, s = 1;
  for (uint32_t i = 0; i < line->count; i++) {
    const int64_t radix = line->radix[i], m = n / radix;
    const float *roots = at;
    at += 2 * (radix % 2 ? radix : 0);
    run_pass(&(fourier_pass){.x = x, .y = spare, .roots = roots, .w = at, .radix = radix, .m = m, .s = s, .re = re});
    at += 2 * m * (radix - 1);
    float *result = spare;
    spare = x;
    x = result;
    n = m;
    s *= radix;
  }
  return x;
}
#endif
