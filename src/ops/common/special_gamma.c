/* special_gamma.c -- the gamma function's logarithm, its derivatives and its incomplete forms. */
#include "ops/common/special_priv.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define PI 3.14159265358979323846

double ops_lgamma(double x) {
  int sign; /* lgamma keeps it in a global */
  return lgamma_r(x, &sign);
}

/* B(2 k) for k = 1, 2 ... */
static const double bernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
                                   -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};
enum { BERNOULLI_COUNT = sizeof bernoulli / sizeof *bernoulli };

/* Reflected below 0, raised to 10 and more by psi(x) = psi(x + 1) - 1 / x, and there the asymptotic series. */
double ops_digamma(double x) {
  if (x == 0) return copysign(INFINITY, -x);
  if (x < 0) {
    double fraction = x - floor(x);
    return fraction == 0 ? NAN : ops_digamma(1 - x) - PI / tan(PI * fraction);
  }
  double sum = 0;
  for (; x < 10; x++) sum -= 1 / x;
  double square = 1 / (x * x), power = square;
  sum += log(x) - 0.5 / x;
  for (int k = 0; k < 7; k++, power *= square) sum -= bernoulli[k] / (2 * k + 2) * power;
  return sum;
}

/* q > 0: the first terms, and the rest by Euler and Maclaurin's formula. */
static double zeta_right(double s, double q) {
  double sum = 0;
  for (int k = 0; k < 10 || q < 10; k++, q++) {
    double term = pow(q, -s);
    sum += term;
    if (fabs(term) <= 1e-17 * fabs(sum)) return sum;
  }
  double power = pow(q, -s), factor = s / (2 * q);
  sum += power * q / (s - 1) + power / 2;
  for (int k = 0; k < BERNOULLI_COUNT; k++) {
    double term = bernoulli[k] * factor * power;
    sum += term;
    if (fabs(term) <= 1e-17 * fabs(sum)) break;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / ((2 * k + 3) * (2 * k + 4) * q * q);
  }
  return sum;
}

double ops_zeta(double s, double q) {
  if (s == 1) return INFINITY;
  if (!(s > 1)) return NAN;
  if (q > 0) return isinf(q) ? 0 : zeta_right(s, q);
  if (q == floor(q)) return INFINITY;
  if (s != floor(s)) return NAN;
  /* The terms below 0 are those of -q - (count - 1), ... -q, up to their sign. */
  double count = floor(-q) + 1, below = zeta_right(s, 1 - q - count) - zeta_right(s, 1 - q);
  return zeta_right(s, q + count) + (fmod(s, 2) == 0 ? below : -below);
}

double ops_polygamma(double n, double x) {
  if (n == 0) return ops_digamma(x);
  double value = exp(ops_lgamma(n + 1)) * ops_zeta(n + 1, x);
  return fmod(n, 2) == 1 ? value : -value;
}

/* ---- incomplete ---- */

enum { MOST_TERMS = 20000 };

static double gamma_factor(double a, double x) { return exp(a * log(x) - x - ops_lgamma(a)); }

/* x^a exp(-x) / gamma(a + 1) sum of x^k / ((a + 1) ... (a + k)) */
static double lower_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (int k = 1; k < MOST_TERMS && fabs(term) > 1e-17 * fabs(sum); k++) {
    term *= x / (a + k);
    sum += term;
  }
  return sum * gamma_factor(a, x);
}

/* Legendre's continued fraction, by Lentz's way of keeping quotients instead of convergents. */
static double upper_fraction(double a, double x) {
  const double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, value = d;
  for (int k = 1; k < MOST_TERMS; k++) {
    double up = -k * (k - a);
    b += 2;
    d = up * d + b;
    c = b + up / c;
    d = 1 / (fabs(d) < tiny ? tiny : d);
    if (fabs(c) < tiny) c = tiny;
    value *= d * c;
    if (fabs(d * c - 1) < 1e-16) break;
  }
  return value * gamma_factor(a, x);
}

static double incomplete(double a, double x, bool upper) {
  if (!(x >= 0) || !(a >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return NAN;
  if (a == 0 || isinf(x)) return upper ? 0 : 1;
  if (x == 0 || isinf(a)) return upper ? 1 : 0;
  bool by_series = x < a + 1;
  double value = by_series ? lower_series(a, x) : upper_fraction(a, x);
  return by_series == upper ? 1 - value : value;
}
double ops_igamma(double a, double x) { return incomplete(a, x, false); }
double ops_igammac(double a, double x) { return incomplete(a, x, true); }
