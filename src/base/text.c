/* text.c -- string slices, and the growing buffer. */
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

base_str base_str_of(const char *text) { return (base_str){text ? text : "", text ? strlen(text) : 0}; }

bool base_str_equal(base_str a, base_str b) {
  return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

bool base_str_is(base_str a, const char *text) { return base_str_equal(a, base_str_of(text)); }

bool base_str_starts(base_str a, const char *prefix) {
  size_t n = strlen(prefix);
  return a.length >= n && memcmp(a.at, prefix, n) == 0;
}

bool base_str_ends(base_str a, const char *suffix) {
  size_t n = strlen(suffix);
  return a.length >= n && memcmp(a.at + a.length - n, suffix, n) == 0;
}

base_str base_str_cut(base_str *text, char end) {
  const char *found = text->length ? memchr(text->at, end, text->length) : NULL;
  const base_str word = {text->at, found ? (size_t)(found - text->at) : text->length};
  const size_t taken = word.length + (found != NULL);
  if (taken) text->at += taken;
  text->length -= taken;
  return word;
}

bool base_str_int(base_str a, int64_t *value) {
  size_t i = a.length && (a.at[0] == '-' || a.at[0] == '+');
  bool negative = i && a.at[0] == '-';
  if (i == a.length) return false;
  int64_t v = 0;
  for (; i < a.length; i++) {
    int digit = a.at[i] - '0';
    if (digit < 0 || digit > 9) return false;
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, negative ? -digit : digit, &v)) return false;
  }
  *value = v;
  return true;
}

static bool text_room(base_text *text, size_t more) {
  if (text->failed) return false;
  if (text->cap - text->length > more) return true;
  size_t cap = text->cap ? text->cap : 256;
  while (cap - text->length <= more && cap < SIZE_MAX / 2) cap *= 2;
  char *at = cap - text->length > more ? base_alloc(text->allocator, cap) : NULL;
  if (!at) {
    text->failed = true;
    return false;
  }
  if (text->length) memcpy(at, text->at, text->length);
  at[text->length] = 0;
  base_free(text->allocator, text->at, text->cap);
  text->at = at;
  text->cap = cap;
  return true;
}

void base_text_add(base_text *text, const char *bytes, size_t count) {
  if (!text_room(text, count)) return;
  if (count) memcpy(text->at + text->length, bytes, count);
  text->length += count;
  text->at[text->length] = 0;
}

void base_text_print(base_text *text, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  if (length >= 0 && text_room(text, (size_t)length)) {
    vsnprintf(text->at + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
  va_end(args);
}

bool base_utf8_next(const uint8_t **at, const uint8_t *end, uint32_t *code) {
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000}; /* a longer form of what is below is refused */
  const uint8_t first = *(*at)++;
  const int more = first < 0x80 ? 0 : first < 0xc2 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : -1;
  if (more < 0 || end - *at < more) return false;
  *code = more == 0 ? first : first & (0x3fu >> more);
  for (int i = 0; i < more; i++, ++*at) {
    if ((**at & 0xc0) != 0x80) return false;
    *code = *code << 6 | (**at & 0x3f);
  }
  return *code >= least[more] && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff);
}

void base_text_quote(base_text *text, const char *bytes, size_t count) {
  base_text_add(text, "\"", 1);
  for (size_t i = 0; i < count; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c == '"' || c == '\\') base_text_print(text, "\\%c", c);
    else if (c < 0x20) base_text_print(text, "\\u%04x", c);
    else base_text_add(text, &bytes[i], 1);
  }
  base_text_add(text, "\"", 1);
}

/* Four hexadecimal digits after \\u. */
static bool is_code(const char *at, const char *end) {
  if (end - at < 6 || at[1] != 'u') return false;
  for (int i = 2; i < 6; i++)
    if (!isxdigit((unsigned char)at[i])) return false;
  return true;
}

char *base_text_unquote(base_arena *arena, const char **at, const char *end, size_t *length) {
  const char *close = *at;
  while (close < end && *close != '"') close += *close == '\\' && end - close > 1 ? 2 : 1;
  char *to = close < end ? base_new(arena, char, (size_t)(close - *at) + 1) : NULL;
  if (!to) return NULL;
  size_t n = 0;
  for (const char *from = *at; from < close;) {
    if (*from == '\\' && is_code(from, close)) {
      char digits[5] = {from[2], from[3], from[4], from[5], 0};
      to[n++] = (char)strtol(digits, NULL, 16);
      from += 6;
      continue;
    }
    from += *from == '\\';
    to[n++] = *from++;
  }
  *at = close + 1;
  *length = n;
  return to;
}

void base_text_free(base_text *text) {
  base_free(text->allocator, text->at, text->cap);
  *text = (base_text){.allocator = text->allocator};
}

bool base_str_listed(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; at && *at;) {
    size_t word = strcspn(at, ",");
    if (word == n && memcmp(at, name, n) == 0) return true;
    at += word + (at[word] == ',');
  }
  return false;
}

base_str base_node_name(const char *origin) {
  if (strncmp(origin, "node ", 5) == 0) origin += 5;
  const char *behind = strstr(origin, " (");
  return (base_str){origin, behind && behind > origin ? (size_t)(behind - origin) : strlen(origin)};
}
