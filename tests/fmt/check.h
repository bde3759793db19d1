/* check.h -- what the tests of this room share: cmocka, and hostile variants of a good file. */
#ifndef TESTS_FMT_CHECK_H
#define TESTS_FMT_CHECK_H
#include "test.h"

#include <stdio.h>

#include "base/lack.h"
#include "fmt/fmt.h"

/* Reads `size` bytes with the reader under test; the result only has to be an error with text, or fine. */
typedef td_status (*read_fn)(const td_allocator *allocator, const uint8_t *bytes, size_t size, td_error *err);

/* Reads a copy in a block of exactly that size, so that an address sanitizer sees each byte read beyond it. */
static inline td_status read_exact(read_fn read, const void *bytes, size_t size) {
  td_error err = {.offset = -1};
  uint8_t *copy = malloc(size ? size : 1);
  assert_non_null(copy);
  if (size) memcpy(copy, bytes, size);
  td_status status = read(&base_libc_allocator, copy, size, &err);
  if (status != TD_OK) {
    assert_int_equal(err.code, status);
    assert_true(err.text[0] != 0);
    assert_true(err.offset <= (int64_t)size);
    assert_int_not_equal(status, TD_INTERNAL);
  }
  free(copy);
  return status;
}

/* Every prefix of the file, and every single byte replaced by a few telling values. */
static inline void read_damaged(read_fn read, const void *bytes, size_t size) {
  static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
  assert_int_equal(read_exact(read, bytes, size), TD_OK);
  for (size_t i = 0; i < size; i++) read_exact(read, bytes, i);
  uint8_t *copy = malloc(size);
  assert_non_null(copy);
  memcpy(copy, bytes, size);
  for (size_t i = 0; i < size; i++)
    for (size_t k = 0; k < sizeof values; k++) {
      uint8_t old = copy[i];
      copy[i] = values[k];
      read_exact(read, copy, size);
      copy[i] = old;
    }
  free(copy);
}

typedef struct read_bytes {
  read_fn read;
  const void *bytes;
  size_t size;
} read_bytes;

static inline td_status read_within(const td_allocator *allocator, void *user) {
  const read_bytes *r = user;
  td_error err;
  return r->read(allocator, r->bytes, r->size, &err);
}

/* Makes each allocation fail in turn. */
static inline void read_without_memory(read_fn read, const void *bytes, size_t size) {
  fail_each_allocation(read_within, &(read_bytes){read, bytes, size}, false);
}

static inline base_text new_text(void) { return (base_text){.allocator = &base_libc_allocator}; }
#endif
