/* round.c -- rounding by second moments.
 *
 * With H = R' R (Cholesky), the error of a row of weights d is |R d|^2: going from the last element to the first, each
 * is rounded where the errors of those behind it, which the moments tie to it, are made up for. This is GPTQ (Frantar
 * et al., arXiv 2210.17323), which is Babai's nearest plane for the lattice of R. */
#include "fit.h"

#include <math.h>

/* R from the upper triangle of h, in place, and R' in the lower one. */
static bool factor(double *h, int64_t k) {
  for (int64_t j = 0; j < k; j++) {
    double *restrict row = h + j * k;
    if (!(row[j] > 0) || !isfinite(row[j])) return false;
    const double root = sqrt(row[j]);
    for (int64_t i = j; i < k; i++) row[i] /= root;
    for (int64_t i = j + 1; i < k; i++) {
      const double by = row[i];
      double *restrict to = h + i * k;
      for (int64_t c = i; c < k && by != 0; c++) to[c] -= by * row[c];
    }
  }
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = 0; j < i; j++) h[i * k + j] = h[j * k + i];
  return true;
}

/* What no sample tells apart must not be rounded far: a part of the mean is added to each square. */
static void damp(double *h, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < k; i++) sum += h[i * k + i];
  for (int64_t i = 0; i < k; i++) h[i * k + i] += fmax(0.01 * sum / (double)k, 1e-30);
}

bool quant_round_rows(const double *w, int64_t n, int64_t k, const float *scales, double *moments, double *room,
                      int8_t *rounded) {
  damp(moments, k);
  if (!factor(moments, k)) return false;
  for (int64_t row = 0; row < n; row++) {
    const double *x = w + row * k, scale = (double)scales[row];
    double *restrict owed = room;
    for (int64_t i = 0; i < k; i++) owed[i] = 0;
    for (int64_t i = k; i-- > 0;) {
      const double *restrict tied = moments + i * k;
      const double q = fmin(fmax(nearbyint((x[i] + owed[i] / tied[i]) / scale), -127), 127), d = x[i] - q * scale;
      rounded[row * k + i] = (int8_t)q;
      for (int64_t j = 0; j < i; j++) owed[j] += tied[j] * d;
    }
  }
  return true;
}
