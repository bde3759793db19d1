/* Heads and chunks of HTTP: whatever the bytes, and however they are cut, the outcome is the same, and it is that of a
 * second parser. The first byte says where they are cut. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "http.h"
#include "http_reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same_part(const char *text, base_str got, reference_part expected) {
  assert(got.length == expected.count && (!got.length || (size_t)(got.at - text) == expected.at));
}

static void same_head(const char *text, const http_head *got, const reference_head *expected) {
  same_part(text, got->method, expected->method);
  same_part(text, got->target, expected->target);
  assert(got->minor == (uint32_t)expected->minor && got->count == expected->count);
  for (uint32_t i = 0; i < got->count; i++) {
    same_part(text, got->fields[i].name, expected->names[i]);
    same_part(text, got->fields[i].value, expected->values[i]);
  }
  assert(got->chunked == expected->is_chunked && got->has_length == expected->has_length);
  assert(!got->has_length || got->length == expected->body);
  assert(got->keep_alive == expected->keep_alive && got->expects_continue == expected->expects_continue);
}

/* `text`: `size` bytes and a NUL. */
static void heads(const char *text, size_t size, size_t step) {
  static http_head whole, parts;
  static reference_head reference;
  http_scan scan = {0}, again = {0};
  const int32_t expected = http_read_head(text, size, &scan, &whole);
  int32_t got = 0;
  for (size_t count = 0; got == 0 && count < size;) {
    count = count + step < size ? count + step : size;
    got = http_read_head(text, count, &again, &parts);
  }
  assert(got == expected);
  if (got > 0) assert(parts.count == whole.count && parts.length == whole.length && parts.chunked == whole.chunked);
  if (size > HTTP_LINE_BYTES) return; /* beyond limits that the second one has not */
  const int second = reference_read(text, size, &reference);
  assert(second > 0 ? got > 0 && (size_t)got == reference.length : second == 0 ? got == 0 : got < 0);
  if (got > 0) same_head(text, &whole, &reference);
}

/* The data of chunks that are given `step` bytes at a time; *used: bytes that were looked at. */
static size_t chunks(const char *text, size_t size, size_t step, char *data, size_t *used, http_step *last) {
  http_chunks c = {0};
  size_t total = 0, at = 0;
  *last = HTTP_MORE;
  for (size_t count = 0; *last != HTTP_BAD && *last != HTTP_END && (count < size || at < count);) {
    size_t taken;
    base_str part;
    if (at == count) count = count + step < size ? count + step : size;
    *last = http_read_chunks(&c, text + at, count - at, &taken, &part);
    at += taken;
    assert(at <= count);
    if (*last != HTTP_DATA) continue;
    memcpy(data + total, part.at, part.length);
    total += part.length;
  }
  *used = at;
  return total;
}

static void bodies(const char *text, size_t size, size_t step) {
  char *data = malloc(3 * size + 1), *again = data + size, *second = again + size;
  http_step whole, cut;
  size_t used, used_cut, used_second, count;
  if (!data) abort();
  const size_t expected = chunks(text, size, size, data, &used, &whole);
  const size_t got = chunks(text, size, step, again, &used_cut, &cut);
  assert((whole == HTTP_BAD) == (cut == HTTP_BAD) && (whole == HTTP_END) == (cut == HTTP_END) && used == used_cut);
  assert(expected == got && memcmp(data, again, got) == 0);
  if (size <= HTTP_LINE_BYTES) {
    const int state = reference_chunks(text, size, second, &count, &used_second);
    assert(state > 0 ? whole == HTTP_END && used == used_second : (state < 0) == (whole == HTTP_BAD));
    assert(expected == count && memcmp(data, second, count) == 0);
  }
  free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  const size_t step = 1 + data[0] % 64;
  char *text = malloc(size); /* of its own, so that who reads beyond it is seen */
  if (!text) abort();
  memcpy(text, data + 1, size - 1);
  text[size - 1] = 0;
  heads(text, size - 1, step);
  bodies(text, size - 1, step);
  free(text);
  return 0;
}
