/* Heads and chunks of HTTP: whatever the bytes, and however they are cut, the outcome is the same. The first byte says
 * where they are cut. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void heads(const char *bytes, size_t size, size_t step) {
  static http_head whole, parts;
  http_scan scan = {0}, again = {0};
  const int32_t expected = http_read_head(bytes, size, &scan, &whole);
  int32_t got = 0;
  for (size_t count = 0; got == 0 && count < size;) {
    count = count + step < size ? count + step : size;
    got = http_read_head(bytes, count, &again, &parts);
  }
  assert(got == expected);
  if (got > 0) assert(parts.count == whole.count && parts.length == whole.length && parts.chunked == whole.chunked);
}

static size_t chunks(const char *bytes, size_t size, size_t step, http_step *last) {
  http_chunks c = {0};
  size_t total = 0;
  *last = HTTP_MORE;
  for (size_t at = 0, count = 0; *last != HTTP_BAD && *last != HTTP_END && (count < size || at < count);) {
    size_t used;
    base_str part;
    if (at == count) count = count + step < size ? count + step : size;
    *last = http_read_chunks(&c, bytes + at, count - at, &used, &part);
    at += used;
    if (*last == HTTP_DATA) total += part.length;
    assert(at <= count);
  }
  return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  const size_t step = 1 + data[0] % 64;
  const char *bytes = (const char *)data + 1;
  http_step whole, cut;
  heads(bytes, size - 1, step);
  const size_t expected = chunks(bytes, size - 1, size, &whole), got = chunks(bytes, size - 1, step, &cut);
  assert((whole == HTTP_BAD) == (cut == HTTP_BAD) && expected == got);
  return 0;
}
