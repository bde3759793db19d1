/* member.c -- what member.h says: strings are passed over, and brackets counted. */
#include "member.h"

#include <string.h>

/* Behind the text that begins at `at`; NULL: it does not end. */
static const char *skip_text(const char *at, const char *end) {
  bool is_escaped = false;
  for (at++; at < end; at++) {
    if (*at == '"' && !is_escaped) return at + 1;
    is_escaped = *at == '\\' && !is_escaped;
  }
  return NULL;
}

/* Behind the value that begins at `at`, of any kind; NULL: it does not end. */
static const char *skip_value(const char *at, const char *end) {
  int64_t depth = 0;
  while (at && at < end) {
    if (*at == '"') {
      at = skip_text(at, end);
      if (!depth) return at;
      continue;
    }
    if (!depth && (*at == ',' || *at == '}')) return at; /* of a number, or a word */
    depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
    at++;
    if (!depth && (at[-1] == '}' || at[-1] == ']')) return at;
  }
  return NULL;
}

static const char *skip_blanks(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) at++;
  return at;
}

base_str serve_find_member(base_str document, const char *name) {
  const char *at = document.at, *end = at + document.length;
  char before = '{'; /* what a member stands behind */
  for (;;) {
    at = skip_blanks(at, end);
    if (at == end || *at != before) break;
    const char *key = skip_blanks(at + 1, end), *stop = key < end && *key == '"' ? skip_text(key, end) : NULL;
    const char *colon = stop ? skip_blanks(stop, end) : end;
    if (colon == end || *colon != ':') break;
    const char *value = skip_blanks(colon + 1, end), *next = skip_value(value, end);
    if (!next) break;
    if (base_str_is((base_str){key + 1, (size_t)(stop - key) - 2}, name))
      return (base_str){value, (size_t)(next - value)};
    at = next;
    before = ',';
  }
  return (base_str){NULL, 0};
}
