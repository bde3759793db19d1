/* json.c -- what programs print as JSON. */
#include "common/json.h"

#include <math.h>

json_t *app_json_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *app_json_text(const char *text) {
  json_t *value = json_string(text);
  return value ? value : json_null();
}

json_t *app_json_dims(int32_t rank, const int64_t *dims) {
  if (rank < 0) return json_null();
  json_t *array = json_array();
  for (int32_t i = 0; i < rank; i++) app_json_set(array, NULL, dims[i] < 0 ? json_null() : json_integer(dims[i]));
  return array;
}

void app_json_set(json_t *object, const char *key, json_t *value) {
  if (key) {
    json_object_set_new_nocheck(object, key, value);
  } else {
    json_array_append_new(object, value);
  }
}

td_status app_print_json(json_t *root, size_t form, td_error *err) {
  int failed = root ? json_dumpf(root, stdout, form) : 0;
  json_decref(root);
  if (!root) return base_no_memory(err, "JSON");
  if (failed || putchar('\n') == EOF || fflush(stdout)) {
    return base_fail(err, TD_NO_RESOURCE, "standard output", -1, "cannot be written");
  }
  return TD_OK;
}
