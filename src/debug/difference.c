/* difference.c -- distances between two values, in one walk. */
#include <float.h>
#include <math.h>

#include "debug/compare_priv.h"

static base_tensor view_of(const td_tensor *t) { return base_tensor_of(t->data, t->dtype, t->rank, t->dims); }

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

static void add_pair(td_difference *d, double got, double expected, const debug_tolerance *tolerance, int precision) {
  d->count++;
  if (got == expected || (isnan(got) && isnan(expected))) {
    if (isfinite(expected)) d->largest = fmax(d->largest, fabs(expected));
    return;
  }
  if (!isfinite(got) || !isfinite(expected)) {
    d->unlike++;
    d->failed++;
    return;
  }
  const double difference = fabs(got - expected), larger = fmax(fabs(got), fabs(expected));
  d->largest = fmax(d->largest, fabs(expected));
  d->absolute = fmax(d->absolute, difference);
  d->relative = fmax(d->relative, difference / larger);
  d->ulp = fmax(d->ulp, difference / unit_in_last_place(expected, precision));
  d->failed += difference > tolerance->atol + tolerance->rtol * fabs(expected);
}

static bool same_type(const td_tensor *a, const td_tensor *b) {
  bool same = a->rank == b->rank && a->dtype == b->dtype && a->dtype != TD_STRING;
  for (int32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
  return same;
}

static td_difference measure(const td_tensor *got, const td_tensor *expected, const debug_tolerance *tolerance) {
  td_difference d = {.cosine = 1, .other_type = !same_type(got, expected)};
  if (d.other_type) return d;
  const int precision = precision_of(expected->dtype);
  const base_tensor view = view_of(got);
  double dot = 0, got_square = 0, expected_square = 0;
  for (int64_t i = 0, n = base_tensor_numel(&view); i < n; i++) {
    const double a = base_load_f64(got->dtype, got->data, i), b = base_load_f64(expected->dtype, expected->data, i);
    add_pair(&d, a, b, tolerance, precision);
    if (!isfinite(a) || !isfinite(b)) continue;
    dot += a * b;
    got_square += a * a;
    expected_square += b * b;
  }
  if (got_square > 0 || expected_square > 0) d.cosine = dot / sqrt(got_square * expected_square);
  return d;
}

static void join(td_difference *all, const td_difference *d) {
  all->count += d->count;
  all->failed += d->failed;
  all->unlike += d->unlike;
  all->largest = fmax(all->largest, d->largest);
  all->absolute = fmax(all->absolute, d->absolute);
  all->relative = fmax(all->relative, d->relative);
  all->ulp = fmax(all->ulp, d->ulp);
  all->cosine = fmin(all->cosine, d->cosine);
  all->other_type |= d->other_type;
}

bool debug_is_tensor(const td_named_value *value) { return !value->is_list && value->count == 1; }

td_difference debug_difference(const td_named_value *got, const td_named_value *expected,
                               const debug_tolerance *tolerance) {
  td_difference all = {.cosine = 1};
  all.other_type = debug_is_tensor(got) != debug_is_tensor(expected) || got->count != expected->count;
  for (size_t i = 0; !all.other_type && i < got->count; i++) {
    const td_difference d = measure(&got->items[i], &expected->items[i], tolerance);
    join(&all, &d);
  }
  all.size = sizeof all;
  all.name = expected->name;
  return all;
}

bool debug_differs(const td_difference *d) { return d->other_type || d->failed > 0; }

double debug_distance(const td_named_value *a, const td_named_value *b) {
  if (!debug_is_tensor(a) || !debug_is_tensor(b) || a->items->rank != b->items->rank) return -1;
  for (int32_t i = 0; i < a->items->rank; i++)
    if (a->items->dims[i] != b->items->dims[i]) return -1;
  const base_tensor of = view_of(a->items);
  const int64_t count = base_tensor_numel(&of);
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    const double d =
        base_load_f64(a->items->dtype, a->items->data, i) - base_load_f64(b->items->dtype, b->items->data, i);
    if (isfinite(d)) sum += d * d;
  }
  return count ? sqrt(sum / (double)count) : 0;
}
