/* metrics.c -- distances between two tensors, in one walk. */
#include "metrics.h"

#include <float.h>
#include <math.h>

/* Bits behind the leading one of a type's numbers; 0: integers. */
static int precision_of(td_dtype dtype) {
  static const int bits[TD_DTYPE_COUNT] = {[TD_F64] = 52, [TD_F32] = 23, [TD_F16] = 10, [TD_BF16] = 7};
  return bits[dtype];
}

static double unit_in_last_place(double value, int precision) {
  if (precision == 0) return 1;
  int exponent;
  frexp(value == 0 ? FLT_MIN : value, &exponent);
  return ldexp(1, exponent - 1 - precision);
}

static void add_pair(cli_metrics *m, double got, double expected, const cli_tolerance *tolerance, int precision) {
  m->count++;
  m->finite_got &= isfinite(got) != 0;
  m->finite_expected &= isfinite(expected) != 0;
  if (got == expected || (isnan(got) && isnan(expected))) {
    if (isfinite(expected)) m->largest = fmax(m->largest, fabs(expected));
    return;
  }
  if (!isfinite(got) || !isfinite(expected)) {
    m->unlike++;
    m->failed++;
    return;
  }
  const double difference = fabs(got - expected), larger = fmax(fabs(got), fabs(expected));
  m->largest = fmax(m->largest, fabs(expected));
  m->absolute = fmax(m->absolute, difference);
  m->relative = fmax(m->relative, difference / larger);
  m->ulp = fmax(m->ulp, difference / unit_in_last_place(expected, precision));
  m->failed += difference > tolerance->atol + tolerance->rtol * fabs(expected);
}

static bool same_type(const base_tensor *a, const base_tensor *b) {
  bool same = a->rank == b->rank && a->dtype == b->dtype && a->dtype != TD_STRING;
  for (int32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
  return same;
}

cli_metrics cli_measure_difference(const base_tensor *got, const base_tensor *expected,
                                   const cli_tolerance *tolerance) {
  cli_metrics m = {.cosine = 1, .finite_expected = true, .finite_got = true};
  if (!same_type(got, expected)) {
    m.other_type = true;
    return m;
  }
  const int precision = precision_of(expected->dtype);
  double dot = 0, got_square = 0, expected_square = 0;
  base_walk w;
  const int64_t *strides[] = {got->strides, expected->strides};
  base_walk_start(&w, got->rank, got->dims, 2, strides);
  for (int64_t i = 0; i < w.count; i++, base_walk_next(&w)) {
    const double a = base_load_f64(got->dtype, got->data, w.offset[0]);
    const double b = base_load_f64(expected->dtype, expected->data, w.offset[1]);
    add_pair(&m, a, b, tolerance, precision);
    if (!isfinite(a) || !isfinite(b)) continue;
    dot += a * b;
    got_square += a * a;
    expected_square += b * b;
  }
  if (got_square > 0 || expected_square > 0) m.cosine = dot / sqrt(got_square * expected_square);
  return m;
}
