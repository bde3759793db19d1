/* observe.c -- what range of a tensor 256 steps are to cover. Values beyond it become its ends. */
#include "quantize.h"

#include <float.h>
#include <math.h>
#include <string.h>

const quant_range *quant_range_of(const quant_ranges *r, const char *name) {
  const uint32_t *at = base_map_get(&r->index, base_str_of(name));
  return at && r->at.at[*at].seen && r->at.at[*at].is_f32 ? &r->at.at[*at] : NULL;
}

void quant_observe(quant_range *r, const float *x, int64_t count, bool histogram) {
  const float by = r->high > r->low ? QUANT_BINS / (r->high - r->low) : 0;
  float low = r->low, high = r->high;
  for (int64_t i = 0; i < count && !histogram; i++) { /* comparisons leave NaN out */
    low = x[i] < low && x[i] >= -FLT_MAX ? x[i] : low;
    high = x[i] > high && x[i] <= FLT_MAX ? x[i] : high;
  }
  r->low = low;
  r->high = high;
  for (int64_t i = 0; i < count && histogram; i++) {
    const float at = (x[i] - low) * by;
    if (isfinite(x[i])) r->bins[at < 0 ? 0 : at >= QUANT_BINS ? QUANT_BINS - 1 : (int)at]++;
  }
  r->seen = true;
}

static double middle(const quant_range *r, int bin) {
  return (double)r->low + ((double)r->high - (double)r->low) * (bin + 0.5) / QUANT_BINS;
}

/* What is left when each tail loses 1 of 20,000 values. */
static void by_percentile(const quant_range *r, float *low, float *high) {
  uint64_t all = 0, left = 0, right = 0;
  int first = 0, last = QUANT_BINS - 1;
  for (int i = 0; i < QUANT_BINS; i++) all += r->bins[i];
  const uint64_t most = all / 20000;
  while (first < last && left + r->bins[first] <= most) left += r->bins[first++];
  while (last > first && right + r->bins[last] <= most) right += r->bins[last--];
  const double step = ((double)r->high - (double)r->low) / QUANT_BINS;
  *low = (float)((double)r->low + first * step);
  *high = (float)((double)r->low + (last + 1) * step);
}

/* The mean of squared errors, or the divergence of what 256 steps make of the distribution. */
static double error_of(const quant_range *r, double low, double high) {
  const double scale = (high - low) / 255;
  double error = 0;
  for (int i = 0; i < QUANT_BINS; i++) {
    const double x = middle(r, i), q = fmin(fmax(nearbyint((x - low) / scale), 0), 255) * scale + low;
    error += (double)r->bins[i] * (x - q) * (x - q);
  }
  return error;
}

static double divergence_of(const quant_range *r, double low, double high) {
  double sums[256] = {0}, used[256] = {0}, all = 0, kept = 0, result = 0;
  const double scale = (high - low) / 255;
  for (int i = 0; i < QUANT_BINS; i++) {
    const int q = (int)fmin(fmax(nearbyint((middle(r, i) - low) / scale), 0), 255);
    sums[q] += (double)r->bins[i];
    used[q] += r->bins[i] > 0;
    all += (double)r->bins[i];
  }
  for (int i = 0; i < QUANT_BINS; i++) {
    const double x = middle(r, i), p = (double)r->bins[i] / fmax(all, 1);
    const int q = (int)fmin(fmax(nearbyint((x - low) / scale), 0), 255);
    const bool inside = x >= low && x <= high;
    kept += inside ? p : 0;
    if (p > 0) result += p * log(p / (inside ? fmax(sums[q] / used[q] / all, 1e-9) : 1e-9));
  }
  return result + (1 - kept);
}

/* Of ranges smaller by a part of itself, the best. */
static void by_search(const quant_range *r, double (*cost)(const quant_range *, double, double), float *low,
                      float *high) {
  double best = INFINITY;
  const float from = r->low, to = r->high;
  for (int part = 100; part >= 20; part--) {
    const double a = (double)from * part / 100, b = (double)to * part / 100, c = cost(r, a, b);
    if (c >= best) continue;
    best = c;
    *low = (float)a;
    *high = (float)b;
  }
}

void quant_choose(quant_range *r, quant_observer observer) {
  float low = fminf(r->low, 0), high = fmaxf(r->high, 0);
  if (r->bins && r->high > r->low) {
    if (observer == QUANT_PERCENTILE) by_percentile(r, &low, &high);
    if (observer == QUANT_MSE) by_search(r, error_of, &low, &high);
    if (observer == QUANT_ENTROPY) by_search(r, divergence_of, &low, &high);
  }
  low = fminf(low, 0);
  high = fmaxf(high, 0);
  r->scale = high > low ? (high - low) / 255 : 1;
  if (!(r->scale >= 1e-30f)) r->scale = 1;
  r->zero = (int32_t)fminf(fmaxf(nearbyintf(-low / r->scale), 0), 255);
}
