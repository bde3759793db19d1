/* numbers.c -- elements of tensors as JSON. */
#include "server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool serve_print_float(base_text *to, double value, bool is_f64) {
  char text[40];
  if (!isfinite(value)) return false;
  for (int digits = is_f64 ? 15 : 6;; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (digits == 17 || (is_f64 ? strtod(text, NULL) == value : strtof(text, NULL) == (float)value)) break;
  }
  base_text_print(to, strpbrk(text, ".e") ? "%s" : "%s.0", text);
  return true;
}

bool serve_print_element(base_text *to, const td_tensor *t, int64_t i) {
  if (base_is_float(t->dtype)) return serve_print_float(to, base_load_f64(t->dtype, t->data, i), t->dtype == TD_F64);
  if (t->dtype == TD_STRING) {
    const td_string s = ((const td_string *)t->data)[i];
    base_text_quote(to, s.at, s.length);
  } else if (t->dtype == TD_BOOL) {
    base_text_print(to, "%s", base_load_i64(TD_BOOL, t->data, i) ? "true" : "false");
  } else if (t->dtype == TD_U64) {
    base_text_print(to, "%llu", (unsigned long long)((const base_u64 *)t->data)[i]);
  } else {
    base_text_print(to, "%lld", (long long)base_load_i64(t->dtype, t->data, i));
  }
  return true;
}
