/* text.h -- strings: a borrowed slice (base_str) and a growing buffer (base_text). */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H
#include "base/mem.h"

/* Bytes that somebody else owns; not NUL-terminated. Same layout as an element of a TD_STRING tensor. */
typedef td_string base_str;
#define BASE_STR(literal) ((base_str){(literal), sizeof(literal) - 1})
base_str base_str_of(const char *text); /* NULL gives the empty string */
bool base_str_equal(base_str a, base_str b);
bool base_str_is(base_str a, const char *text);
bool base_str_starts(base_str a, const char *prefix);
bool base_str_ends(base_str a, const char *suffix);
/* Cuts what stands in front of the first `end` off *text, that one included; all, where there is none. */
base_str base_str_cut(base_str *text, char end);
/* Parses the whole of `a` as a decimal integer, sign allowed; false when it is none or does not fit. */
bool base_str_int(base_str a, int64_t *value);

/* The name of a node as its user wrote it, within the origin "node /conv1 (Conv)": /conv1. */
base_str base_node_name(const char *origin);
/* Is `name` one of the names in `list`, which commas separate? NULL lists nothing. */
bool base_str_listed(const char *list, const char *name);

/* The character of UTF-8 at *at, which goes behind it (RFC 3629). False: there is none, and *at is somewhere up
 * to `end`. Needs *at < end. */
bool base_utf8_next(const uint8_t **at, const uint8_t *end, uint32_t *code);

/* A growing NUL-terminated buffer. Start with {.allocator = a}. When memory runs out `failed` is set, later calls do
 * nothing, and the text so far stays valid: check once at the end. */
typedef struct base_text {
  const td_allocator *allocator;
  char *at; /* NULL while empty */
  size_t length, cap;
  bool failed;
} base_text;
void base_text_add(base_text *text, const char *bytes, size_t count);
void base_text_print(base_text *text, const char *format, ...) BASE_PRINTF(2, 3);
/* `bytes` as a JSON string, quotes included; bytes above 0x7f go through as they are. */
void base_text_quote(base_text *text, const char *bytes, size_t count);
/* Reads what base_text_quote wrote: *at stands behind the opening quote and goes behind the closing one. The bytes, a
 * NUL after them, are in `arena`. NULL: no closing quote, or out of memory. */
char *base_text_unquote(base_arena *arena, const char **at, const char *end, size_t *length);
void base_text_free(base_text *text);
#endif
