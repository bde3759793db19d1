/* json.h -- JSON that programs print; out of memory, values are left out. */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H
#include <jansson.h>

#include "base/base.h"

/* A finite number, or null; text in UTF-8, or null. */
json_t *app_json_real(double value);
json_t *app_json_text(const char *text);
json_t *app_json_dims(int32_t rank, const int64_t *dims);
/* Adds to an object, or to an array where `key` is NULL; takes over `value`. Out of memory, it is left out. */
void app_json_set(json_t *object, const char *key, json_t *value);
/* Prints to standard output and releases `root`; `form` as of json_dumpf, for most what APP_JSON is. */
#define APP_JSON (JSON_INDENT(1) | JSON_REAL_PRECISION(9))
td_status app_print_json(json_t *root, size_t form, td_error *err);
#endif
