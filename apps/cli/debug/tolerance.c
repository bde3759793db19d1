/* tolerance.c -- element by element comparison of recorded and computed values. */
#include "tolerance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One pair of elements. Returns whether it passes; *difference is infinite where there is no number for it. */
static bool compare_numbers(const base_tensor *got, int64_t at, const base_tensor *expected, int64_t expected_at,
                            const cli_tolerance *tolerance, double *difference) {
  *difference = 0;
  td_dtype dtype = got->dtype;
  bool is_float = base_is_float(dtype);
  if (!is_float && base_load_i64(dtype, got->data, at) == base_load_i64(dtype, expected->data, expected_at)) {
    return true;
  }
  double a = base_load_f64(dtype, got->data, at), b = base_load_f64(dtype, expected->data, expected_at);
  if (is_float && (a == b || (isnan(a) && isnan(b)))) return true;
  *difference = isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
  bool exact = dtype == TD_BOOL || (!is_float && tolerance->exact_integers);
  return !exact && isfinite(*difference) && *difference <= tolerance->atol + tolerance->rtol * fabs(b);
}

static bool compare_strings(const base_tensor *got, int64_t at, const base_tensor *expected, int64_t expected_at) {
  const base_str *a = got->data, *b = expected->data;
  return base_str_equal(a[at], b[expected_at]);
}

typedef struct worst_element {
  int64_t count; /* of elements that fail */
  double difference;
  int64_t at, expected_at; /* element offsets */
  int64_t index[BASE_MAX_RANK];
} worst_element;

static void print_element(const base_tensor *t, int64_t at, char *text, size_t size) {
  if (t->dtype == TD_STRING) {
    const base_str *strings = t->data;
    snprintf(text, size, "'%.*s'", (int)base_min_i64((int64_t)strings[at].length, 60), strings[at].at);
  } else if (base_is_float(t->dtype)) {
    snprintf(text, size, "%.9g", base_load_f64(t->dtype, t->data, at));
  } else {
    snprintf(text, size, "%lld", (long long)base_load_i64(t->dtype, t->data, at));
  }
}

static td_status differ(const base_tensor *got, const base_tensor *expected, const worst_element *worst,
                        td_error *err) {
  char index[BASE_MAX_RANK * 22 + 2] = "", a[80], b[80];
  size_t length = 0;
  for (int32_t i = 0; i < got->rank; i++) {
    length +=
        (size_t)snprintf(index + length, sizeof index - length, "%s%lld", i ? "," : "", (long long)worst->index[i]);
  }
  print_element(got, worst->at, a, sizeof a);
  print_element(expected, worst->expected_at, b, sizeof b);
  return base_fail(err, TD_ANSWER_NO, NULL, -1,
                   "%lld of %lld elements differ; worst at [%s]: got %s, expected %s, difference %.3g",
                   (long long)worst->count, (long long)base_tensor_numel(got), index, a, b, worst->difference);
}

static td_status compare_tensors(const base_tensor *got, const base_tensor *expected, const cli_tolerance *tolerance,
                                 td_error *err) {
  bool same_shape = got->rank == expected->rank && got->dtype == expected->dtype;
  for (int32_t i = 0; same_shape && i < got->rank; i++) same_shape = got->dims[i] == expected->dims[i];
  if (!same_shape) {
    char a[256], b[256];
    return base_fail(err, TD_ANSWER_NO, NULL, -1, "got %s, expected %s", base_tensor_describe(got, a, sizeof a),
                     base_tensor_describe(expected, b, sizeof b));
  }
  worst_element worst = {0};
  base_walk w;
  const int64_t *strides[] = {got->strides, expected->strides};
  base_walk_start(&w, got->rank, got->dims, 2, strides);
  if (!w.count) return TD_OK;
  do {
    double difference = INFINITY;
    bool passes = got->dtype == TD_STRING
                      ? compare_strings(got, w.offset[0], expected, w.offset[1])
                      : compare_numbers(got, w.offset[0], expected, w.offset[1], tolerance, &difference);
    if (passes) continue;
    if (worst.count++ && difference <= worst.difference) continue;
    worst.difference = difference;
    worst.at = w.offset[0];
    worst.expected_at = w.offset[1];
    memcpy(worst.index, w.index, sizeof worst.index);
  } while (base_walk_next(&w));
  return worst.count ? differ(got, expected, &worst, err) : TD_OK;
}

/* A value as the list of its tensors. */
static base_list items_of(const base_value *value, base_value *single) {
  if (value->kind == BASE_LIST) return value->list;
  *single = *value;
  return (base_list){.items = single, .count = value->kind == BASE_TENSOR};
}

td_status cli_within(const base_value *got, const base_value *expected, const cli_tolerance *tolerance, td_error *err) {
  if (got->kind == BASE_TENSOR && expected->kind == BASE_TENSOR) {
    return compare_tensors(&got->tensor, &expected->tensor, tolerance, err);
  }
  if (got->kind == BASE_TENSOR) {
    return base_fail(err, TD_ANSWER_NO, NULL, -1, "got a tensor, expected %s",
                     expected->kind == BASE_LIST ? "a list" : "nothing");
  }
  base_value got_single, expected_single;
  base_list a = items_of(got, &got_single), b = items_of(expected, &expected_single);
  if (a.count != b.count) {
    return base_fail(err, TD_ANSWER_NO, NULL, -1, "got %lld items, expected %lld", (long long)a.count,
                     (long long)b.count);
  }
  for (int64_t i = 0; i < a.count; i++) {
    if (a.items[i].kind != BASE_TENSOR || b.items[i].kind != BASE_TENSOR) {
      return base_fail(err, TD_ANSWER_NO, NULL, -1, "item %lld is not a tensor", (long long)i);
    }
    td_status status = compare_tensors(&a.items[i].tensor, &b.items[i].tensor, tolerance, err);
    if (status != TD_OK) return base_error_name(err, status, "item %lld", (long long)i);
  }
  return TD_OK;
}
