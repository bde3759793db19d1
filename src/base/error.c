/* error.c -- errors filled in, and their names. */
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

td_status base_vfail(td_error *err, td_status code, const char *name, int64_t offset, const char *format,
                     va_list args) {
  if (!err) return code;
  err->code = code;
  err->offset = offset;
  snprintf(err->name, sizeof err->name, "%s", name ? name : "");
  vsnprintf(err->text, sizeof err->text, format, args);
  return code;
}

td_status base_fail(td_error *err, td_status code, const char *name, int64_t offset, const char *format, ...) {
  va_list args;
  va_start(args, format);
  base_vfail(err, code, name, offset, format, args);
  va_end(args);
  return code;
}

td_status base_no_memory(td_error *err, const char *what) {
  return base_fail(err, TD_NO_RESOURCE, NULL, -1, "out of memory: %s", what);
}

td_status base_error_name(td_error *err, td_status status, const char *format, ...) {
  if (status == TD_OK || !err || err->name[0]) return status;
  va_list args;
  va_start(args, format);
  vsnprintf(err->name, sizeof err->name, format, args);
  va_end(args);
  return status;
}

const char *td_status_name(td_status status) {
  static const char *const names[] = {
      "ok", "no", "bad argument", "bad file", "unsupported", "no resource", "internal error", "cancelled", "timed out"};
  size_t count = sizeof names / sizeof *names;
  return (size_t)status < count ? names[status] : "unknown status";
}

#ifdef TREADLE_ASSERT
void base_assert_failed(const char *text, const char *file, int line) {
  fprintf(stderr, "%s:%d: an invariant is broken: %s\n", file, line, text);
  abort();
}
#endif
