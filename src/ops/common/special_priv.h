/* special_priv.h -- special functions of real numbers, in double: gamma, error and Bessel functions and their
 * relatives, and orthogonal polynomials. Relative errors stay near 1e-13 away from zeros of the function; what has no
 * value is NaN.
 */
#ifndef OPS_SPECIAL_PRIV_H
#define OPS_SPECIAL_PRIV_H

typedef double (*ops_function)(double x);
typedef double (*ops_function2)(double x, double y);

double ops_lgamma(double x);
double ops_digamma(double x);
double ops_zeta(double s, double q); /* Hurwitz's: the sum of (q + k)^-s over k >= 0 */
double ops_polygamma(double n, double x);
double ops_igamma(double a, double x);  /* regularised, lower */
double ops_igammac(double a, double x); /* regularised, upper */

double ops_erfinv(double y);
double ops_erfcx(double x); /* exp(x x) erfc(x) */
double ops_ndtri(double p); /* quantiles of the normal distribution */
double ops_log_ndtr(double x);

double ops_i0e(double x); /* scaled by exp(-|x|) */
double ops_i1e(double x);
double ops_i0(double x);
double ops_i1(double x);
double ops_k0e(double x); /* scaled by exp(x) */
double ops_k1e(double x);
double ops_k0(double x);
double ops_k1(double x);
double ops_spherical_j0(double x);
double ops_airy_ai(double x);

/* A polynomial of each degree by its recurrence over the two before. NULL: there is none of that name. */
typedef struct ops_polynomial ops_polynomial;
const ops_polynomial *ops_find_polynomial(const char *name);
/* 0 of a negative degree; NaN of one past a million. */
double ops_polynomial_at(const ops_polynomial *p, double x, double degree);
#endif
