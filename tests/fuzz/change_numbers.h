/* change_numbers.h -- for targets whose inputs are texts with numbers: beside libFuzzer's own changes, one of the
 * text's numbers becomes one at an end of its range. libFuzzer finds those by luck alone, and sizes and indices that a
 * script tells overflow there. A target that includes this has it; replay.c makes some of these changes, too. */
#ifndef TESTS_FUZZ_CHANGE_NUMBERS_H
#define TESTS_FUZZ_CHANGE_NUMBERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* libFuzzer's interface. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

static inline bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static inline bool is_word(uint8_t c) {
  return is_digit(c) || c == '_' || c == '.' || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Where number `index` of the text begins, and its length with its sign; the count of numbers where there is no such.
 */
static inline size_t find_number(const uint8_t *data, size_t size, size_t index, size_t *at, size_t *length) {
  size_t count = 0;
  for (size_t i = 0; i < size; i++) {
    if (!is_digit(data[i]) || (i > 0 && is_word(data[i - 1]))) continue;
    size_t end = i;
    while (end < size && is_digit(data[end])) end++;
    *at = i > 0 && data[i - 1] == '-' ? i - 1 : i;
    *length = end - *at;
    if (count++ == index) return count;
    i = end;
  }
  return count;
}

/* A number of the text at `at`, with its sign, becomes `text`; false: there is no room. */
static inline bool put_number(uint8_t *data, size_t *size, size_t max_size, size_t at, size_t length,
                              const char *text) {
  const size_t put = strlen(text);
  if (put > length && put - length > max_size - *size) return false;
  memmove(data + at + put, data + at + length, *size - at - length);
  memcpy(data + at, text, put);
  *size += put - length;
  return true;
}

/* Every number that is written as that at `at` becomes `text`: a size of a type stands in other types, too, and one
 * that changes alone is refused for that, before anything computes with it. */
static inline void put_everywhere(uint8_t *data, size_t *size, size_t max_size, size_t at, size_t length,
                                  const char *text) {
  char old[32];
  if (length > sizeof old) return;
  memcpy(old, data + at, length);
  for (size_t from = 0, where = 0, found = 0; find_number(data + from, *size - from, 0, &where, &found) == 1;) {
    where += from;
    const bool same = found == length && memcmp(data + where, old, length) == 0;
    if (same && !put_number(data, size, max_size, where, found, text)) return;
    from = where + (same ? strlen(text) : found);
  }
}

/* A change of the text by `seed`, of one number, or for an odd one of all that are written as that; false: it has no
 * numbers, or no room. */
static inline bool change_number(uint8_t *data, size_t *size, size_t max_size, unsigned int seed) {
  static const char *const ends[] = {"9223372036854775807",
                                     "-9223372036854775808",
                                     "9223372036854775806",
                                     "4611686018427387904",
                                     "2147483648",
                                     "-2147483649",
                                     "4294967295",
                                     "-1",
                                     "0"};
  enum { ENDS = sizeof ends / sizeof *ends };
  const unsigned int which = seed / 2;
  size_t at = 0, length = 0;
  const size_t count = find_number(data, *size, SIZE_MAX, &at, &length);
  if (count == 0) return false;
  find_number(data, *size, which / ENDS % count, &at, &length);
  const char *text = ends[which % ENDS];
  if (seed % 2 == 0) return put_number(data, size, max_size, at, length, text);
  put_everywhere(data, size, max_size, at, length, text);
  return true;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
  const bool archive = size >= 2 && memcmp(data, "PK", 2) == 0; /* its numbers stand behind sums of its bytes */
  if (seed % 2 == 0 && !archive && max_size > 32 && change_number(data, &size, max_size, seed / 2)) return size;
  return LLVMFuzzerMutate(data, size, max_size);
}
#endif
