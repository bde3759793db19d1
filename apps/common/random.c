/* random.c -- inputs that come from no file: seeded random data, and SHAPE:DTYPE:FILL descriptions.
 *
 * The numbers depend on the seed alone: splitmix64 (Steele, Lea, Flood 2014) and the Box-Muller transform. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/values.h"

static uint64_t next_bits(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* In (0, 1]. */
static double next_unit(uint64_t *state) { return ((double)(next_bits(state) >> 11) + 1) * 0x1p-53; }

static double next_normal(uint64_t *state) {
  double radius = sqrt(-2 * log(next_unit(state)));
  return radius * cos(2 * 3.14159265358979323846 * next_unit(state));
}

td_status app_fill_random(base_tensor *tensor, uint64_t seed, td_error *err) {
  if (tensor->dtype == TD_STRING) {
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "strings cannot be made up: give a file");
  }
  int64_t count = base_tensor_numel(tensor);
  uint64_t state = seed;
  bool is_float = base_is_float(tensor->dtype);
  uint64_t values = tensor->dtype == TD_BOOL ? 2 : 3;
  for (int64_t i = 0; i < count; i++) {
    if (is_float) {
      base_store_f64(tensor->dtype, tensor->data, i, next_normal(&state));
    } else {
      base_store_i64(tensor->dtype, tensor->data, i, (int64_t)(next_bits(&state) % values));
    }
  }
  return TD_OK;
}

/* Splits at the last two colons. */
static bool split_description(base_str text, base_str *shape, base_str *dtype, base_str *fill) {
  size_t ends[2], found = 0;
  for (size_t i = text.length; i > 0 && found < 2; i--) {
    if (text.at[i - 1] == ':') ends[found++] = i - 1;
  }
  if (found < 2) return false;
  *shape = (base_str){text.at, ends[1]};
  *dtype = (base_str){text.at + ends[1] + 1, ends[0] - ends[1] - 1};
  *fill = (base_str){text.at + ends[0] + 1, text.length - ends[0] - 1};
  return true;
}

static td_status fill_with(base_tensor *tensor, base_str fill, td_error *err) {
  char number[64];
  snprintf(number, sizeof number, "%.*s", (int)fill.length, fill.at);
  char *end;
  double value = strtod(number, &end);
  int64_t whole;
  bool is_whole = base_str_int(fill, &whole);
  if (end == number || *end || tensor->dtype == TD_STRING) {
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "'%s' is no value to fill with: a number or `random` is needed",
                     number);
  }
  int64_t count = base_tensor_numel(tensor);
  for (int64_t i = 0; i < count; i++) {
    if (is_whole) {
      base_store_i64(tensor->dtype, tensor->data, i, whole);
    } else {
      base_store_f64(tensor->dtype, tensor->data, i, value);
    }
  }
  return TD_OK;
}

td_status app_describe_value(base_str text, uint64_t seed, base_arena *arena, base_value *value, bool *is_description,
                             td_error *err) {
  base_str shape, dtype_name, fill;
  *is_description = split_description(text, &shape, &dtype_name, &fill);
  td_dtype dtype = *is_description ? base_dtype_from_name(dtype_name) : TD_INVALID;
  *is_description = dtype != TD_INVALID;
  if (!*is_description) return TD_OK;
  int32_t rank;
  int64_t dims[TD_MAX_RANK], count;
  size_t bytes;
  TRY(app_dims(shape, &rank, dims, err));
  if (!base_numel(rank, dims, &count) || !base_dtype_bytes(dtype, count, &bytes)) {
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "'%.*s' has too many elements", (int)shape.length, shape.at);
  }
  void *data = base_arena_alloc_aligned(arena, bytes ? bytes : 1, 64);
  if (!data) return base_no_memory(err, "an input");
  *value = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(data, dtype, rank, dims)};
  if (base_str_is(fill, "random")) return app_fill_random(&value->tensor, seed, err);
  return fill_with(&value->tensor, fill, err);
}
