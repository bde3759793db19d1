/* error.h -- failures as values. A function that can fail returns td_status and fills a caller-owned td_error, once,
 * where the failure is known best; callers pass it up with TRY. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H
#include <stdarg.h>
#include <stdbool.h>
#include <treadle/treadle.h>
#include "base/assert.h"

#if defined(__GNUC__)
#define BASE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define BASE_PRINTF(text, first)
#endif

/* Forwards a failure. The only macro that hides a return. */
#define TRY(expression)                           \
  do {                                            \
    td_status try_status_ = (expression);         \
    if (try_status_ != TD_OK) return try_status_; \
  } while (0)

/* Fills `err` (may be NULL) and returns `code`, so that `return base_fail(...)` reads well. `name` is the thing at
 * fault (file, node, key) or NULL; `offset` is bytes into the file, or -1. */
td_status base_fail(td_error *err, td_status code, const char *name, int64_t offset, const char *format, ...)
    BASE_PRINTF(5, 6);
td_status base_vfail(td_error *err, td_status code, const char *name, int64_t offset, const char *format, va_list args);

/* TD_NO_RESOURCE: `what` could not be allocated. */
td_status base_no_memory(td_error *err, const char *what);

/* Names the thing at fault if the error does not name one yet. Returns err->code. */
td_status base_error_name(td_error *err, td_status status, const char *format, ...) BASE_PRINTF(3, 4);
#endif
