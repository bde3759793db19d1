/* special_bessel.c -- the error function's inverse and scaled forms, Bessel functions, Airy's, and polynomials. */
#include "ops/common/special_priv.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define PI 3.14159265358979323846
#define SQRT_PI 1.77245385090551602730
#define SQRT_2 1.41421356237309504880

/* ---- the error function ---- */

/* x with erf(x) = y and erfc(x) = rest, for 0 <= y: Winitzki's estimate, then Halley's steps on whichever is small. */
static double error_inverse(double y, double rest) {
  const double a = 0.147;
  double logarithm = log(rest * (1 + y)), half = 2 / (PI * a) + logarithm / 2;
  double x = sqrt(fmax(sqrt(half * half - logarithm / a) - half, 0));
  for (int k = 0; k < 8; k++) {
    double away = y < 0.5 ? erf(x) - y : rest - erfc(x);
    double step = away / (2 / SQRT_PI * exp(-x * x));
    x -= step / (1 + x * step);
    if (fabs(step) <= 1e-16 * x) break;
  }
  return x;
}

double ops_erfinv(double y) {
  double size = fabs(y);
  if (!(size <= 1)) return NAN;
  return size == 1 ? copysign(INFINITY, y) : copysign(error_inverse(size, 1 - size), y);
}

double ops_erfcx(double x) {
  if (x < 25) return exp(x * x) * erfc(x);
  double square = 1 / (2 * x * x), term = 1, sum = 1;
  for (int k = 1; k < 8; k++) sum += term *= -(2 * k - 1) * square;
  return sum / (x * SQRT_PI);
}

double ops_ndtri(double p) {
  if (p == 0 || p == 1) return p == 0 ? -INFINITY : INFINITY;
  if (!(p > 0 && p < 1)) return NAN;
  return p < 0.5 ? -SQRT_2 * error_inverse(1 - 2 * p, 2 * p) : SQRT_2 * error_inverse(2 * p - 1, 2 * (1 - p));
}

double ops_log_ndtr(double x) {
  double t = x / SQRT_2;
  return x < -1 ? log(ops_erfcx(-t) / 2) - t * t : log1p(-erfc(t) / 2);
}

/* ---- Bessel functions ---- */

/* exp(-|x|) I(order, |x|): the power series, whose terms are all positive; far out the asymptotic one */
static double bessel_ie(int order, double x) {
  double sum = 1, term = 1;
  x = fabs(x);
  if (isinf(x)) return 0;
  if (x <= 30) {
    for (int k = 1; k < 200 && term > 1e-17 * sum; k++) sum += term *= x * x / 4 / (k * (double)(k + order));
    return sum * exp(-x) * (order ? x / 2 : 1);
  }
  for (int k = 1; k < 30 && fabs(term) > 1e-17; k++)
    sum += term *= ((2 * k - 1) * (2 * k - 1) - 4 * order * order) / (8 * k * x);
  return sum / sqrt(2 * PI * x);
}
double ops_i0e(double x) { return isnan(x) ? x : bessel_ie(0, x); }
double ops_i1e(double x) { return isnan(x) ? x : copysign(bessel_ie(1, x), x); }
double ops_i0(double x) { return isinf(x) ? INFINITY : ops_i0e(x) * exp(fabs(x)); }
double ops_i1(double x) { return isinf(x) ? x : ops_i1e(x) * exp(fabs(x)); }

/* exp(x) K(order, x): the integral of exp(-x (cosh t - 1)) cosh(order t) over t >= 0 by trapezoids, which for such an
 * integrand are as exact as doubles are. */
static double bessel_ke(double order, double x) {
  if (!(x > 0)) return x == 0 ? INFINITY : NAN;
  if (isinf(x)) return 0;
  double step = 0.125 / fmax(1, sqrt(x)), sum = 0.5, end = acosh(1 + 800 / x) + 1;
  for (double t = step; t < end; t += step) {
    double half = sinh(t / 2);
    sum += exp(-2 * x * half * half) * cosh(order * t);
  }
  return sum * step;
}
double ops_k0e(double x) { return bessel_ke(0, x); }
double ops_k1e(double x) { return bessel_ke(1, x); }
double ops_k0(double x) { return bessel_ke(0, x) * exp(-x); }
double ops_k1(double x) { return bessel_ke(1, x) * exp(-x); }

double ops_spherical_j0(double x) { return isinf(x) ? 0 : x == 0 ? 1 : sin(x) / x; }

/* ---- Airy's function ---- */

/* Maclaurin's series of its two parts. */
static double airy_near(double x) {
  double cube = x * x * x, first = 1, second = x, f = 1, g = x;
  for (int k = 1; k < 100 && fabs(first) + fabs(second) > 1e-18 * (fabs(f) + fabs(g)); k++) {
    f += first *= cube / ((3.0 * k - 1) * (3.0 * k));
    g += second *= cube / ((3.0 * k) * (3.0 * k + 1));
  }
  return 0.35502805388781723926 * f - 0.25881940379280679841 * g;
}
/* The asymptotic series of large -x. */
static double airy_left(double x) {
  double zeta = 2.0 / 3 * -x * sqrt(-x), term = 1, parts[2] = {1, 0};
  for (int k = 1; k < 20 && fabs(term) > 1e-17; k++) {
    term *= (6.0 * k - 5) * (6.0 * k - 3) * (6.0 * k - 1) / (216.0 * k * (2 * k - 1) * zeta);
    parts[k % 2] += k / 2 % 2 ? -term : term;
  }
  double angle = zeta - PI / 4;
  return (cos(angle) * parts[0] + sin(angle) * parts[1]) / (SQRT_PI * sqrt(sqrt(-x)));
}
double ops_airy_ai(double x) {
  if (isinf(x) || isnan(x)) return NAN;
  if (x < -8) return airy_left(x);
  if (x < 1.5) return airy_near(x);
  double zeta = 2.0 / 3 * x * sqrt(x);
  return sqrt(x / 3) / PI * bessel_ke(1.0 / 3, zeta) * exp(-zeta);
}

/* ---- polynomials ---- */

typedef enum recurrence {            /* p(k + 1) from p(k) and p(k - 1) */
                          CHEBYSHEV, /* 2 x p(k) - p(k - 1) */
                          HERMITE,   /* by * (x p(k) - k p(k - 1)) */
                          LAGUERRE,  /* ((2 k + 1 - x) p(k) - k p(k - 1)) / (k + 1) */
                          LEGENDRE   /* ((2 k + 1) x p(k) - k p(k - 1)) / (k + 1) */
} recurrence;

struct ops_polynomial {
  const char *name;
  recurrence kind;
  double slope, start; /* p(1) is slope x + start */
  bool shifted;        /* of 2 x - 1 */
  double most;         /* degree past which doubles do not hold it */
};

static const ops_polynomial polynomials[] = {
    {"chebyshev_polynomial_t", CHEBYSHEV, 1, 0, false, 1e6},
    {"chebyshev_polynomial_u", CHEBYSHEV, 2, 0, false, 1e6},
    {"chebyshev_polynomial_v", CHEBYSHEV, 2, -1, false, 1e6},
    {"chebyshev_polynomial_w", CHEBYSHEV, 2, 1, false, 1e6},
    {"shifted_chebyshev_polynomial_t", CHEBYSHEV, 1, 0, true, 1e6},
    {"shifted_chebyshev_polynomial_u", CHEBYSHEV, 2, 0, true, 1e6},
    {"shifted_chebyshev_polynomial_v", CHEBYSHEV, 2, -1, true, 1e6},
    {"shifted_chebyshev_polynomial_w", CHEBYSHEV, 2, 1, true, 1e6},
    {"hermite_polynomial_h", HERMITE, 2, 0, false, 512},
    {"hermite_polynomial_he", HERMITE, 1, 0, false, 512},
    {"laguerre_polynomial_l", LAGUERRE, -1, 1, false, 1e6},
    {"legendre_polynomial_p", LEGENDRE, 1, 0, false, 1e6},
};

const ops_polynomial *ops_find_polynomial(const char *name) {
  for (size_t i = 0; i < sizeof polynomials / sizeof *polynomials; i++)
    if (strcmp(polynomials[i].name, name) == 0) return &polynomials[i];
  return NULL;
}

static double next_degree(const ops_polynomial *p, double x, double k, double now, double before) {
  if (p->kind == CHEBYSHEV) return 2 * x * now - before;
  if (p->kind == HERMITE) return p->slope * (x * now - k * before);
  return ((p->kind == LAGUERRE ? 2 * k + 1 - x : (2 * k + 1) * x) * now - k * before) / (k + 1);
}

double ops_polynomial_at(const ops_polynomial *p, double x, double degree) {
  degree = trunc(degree);
  if (degree < 0) return 0;
  if (isnan(x) || !(degree <= p->most)) return NAN;
  if (p->shifted) x = 2 * x - 1;
  double before = 1, now = p->slope * x + p->start;
  if (degree == 0) return before;
  for (double k = 1; k < degree; k++) {
    double next = next_degree(p, x, k, now, before);
    before = now;
    now = next;
  }
  return now;
}
