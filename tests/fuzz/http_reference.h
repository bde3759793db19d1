/* http_reference.h -- requests of HTTP/1 read a second time, as the grammar of RFC 9112 has them: a whole text, rule by
 * rule, without anything of http.c. Limits are not its business, but for those that few bytes reach. */
#ifndef TESTS_FUZZ_HTTP_REFERENCE_H
#define TESTS_FUZZ_HTTP_REFERENCE_H
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REFERENCE_DIGITS "0123456789"
#define REFERENCE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define REFERENCE_TOKEN REFERENCE_DIGITS REFERENCE_LETTERS "!#$%&'*+-.^_`|~"
#define REFERENCE_HOST REFERENCE_DIGITS REFERENCE_LETTERS "-._~%!$&'()*+,;=:[]" /* unreserved, sub-delims, ... */
#define REFERENCE_TARGET REFERENCE_DIGITS REFERENCE_LETTERS "!\"$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
enum { REFERENCE_FIELDS = 100, REFERENCE_METHOD = 32, REFERENCE_DIGITS_OF_LENGTH = 18 };

typedef struct reference_part {
  size_t at, count; /* in the text */
} reference_part;

typedef struct reference_head {
  const char *text;
  reference_part method, target, names[REFERENCE_FIELDS], values[REFERENCE_FIELDS];
  size_t count, length; /* length: of the head */
  int minor;
  bool keep_alive, is_chunked, has_length, expects_continue;
  uint64_t body;
} reference_head;

/* Number `index` of the fields with this name; NULL: there are not so many. */
static const reference_part *reference_field(const reference_head *r, const char *name, size_t index) {
  for (size_t i = 0; i < r->count; i++)
    if (r->names[i].count == strlen(name) && strncasecmp(r->text + r->names[i].at, name, strlen(name)) == 0 &&
        index-- == 0)
      return &r->values[i];
  return NULL;
}

static bool reference_is(const reference_head *r, const reference_part *part, const char *word) {
  return part && part->count == strlen(word) && strncasecmp(r->text + part->at, word, part->count) == 0;
}

/* Is the word an element of a list that fields of this name have? */
static bool reference_lists(const reference_head *r, const char *name, const char *word) {
  const reference_part *value;
  for (size_t i = 0; (value = reference_field(r, name, i)) != NULL; i++) {
    const size_t end = value->at + value->count;
    for (size_t at = value->at; at < end;) {
      at += strspn(r->text + at, ", \t");
      size_t stop = at + strcspn(r->text + at, ",\r");
      const size_t next = stop;
      while (stop > at && strchr(" \t", r->text[stop - 1])) stop--;
      if (at < end && reference_is(r, &(reference_part){at, stop - at}, word)) return true;
      at = next;
    }
  }
  return false;
}

/* The request line at `at`: where the next line begins. 0: it is none. */
static size_t reference_line(reference_head *r, size_t at) {
  const char *text = r->text;
  r->method = (reference_part){at, strspn(text + at, REFERENCE_TOKEN)};
  at += r->method.count;
  if (!r->method.count || r->method.count > REFERENCE_METHOD || text[at++] != ' ') return 0;
  r->target = (reference_part){at, strspn(text + at, REFERENCE_TARGET)};
  at += r->target.count;
  if (!r->target.count || text[at] != ' ') return 0;
  if (strncmp(text + at, " HTTP/1.0\r\n", 11) != 0 && strncmp(text + at, " HTTP/1.1\r\n", 11) != 0) return 0;
  r->minor = text[at + 8] - '0';
  return at + 11;
}

/* "/path", "*" of OPTIONS, or "http://host/path", of which the path is left. */
static bool reference_target(reference_head *r) {
  const char *target = r->text + r->target.at;
  const size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
  if (*target == '/') return true;
  if (!scheme) return strncmp(target, "* ", 2) == 0 && strncmp(r->text + r->method.at, "OPTIONS ", 8) == 0;
  const size_t host = strspn(target + scheme, REFERENCE_HOST);
  if (!host || target[scheme] == ':' || target[scheme + host] != '/') return false;
  r->target.at += scheme + host;
  r->target.count -= scheme + host;
  return true;
}

/* The field at `at`: where the next line begins. 0: it is none, or there is no room. */
static size_t reference_add(reference_head *r, size_t at) {
  const char *text = r->text;
  const reference_part name = {at, strspn(text + at, REFERENCE_TOKEN)};
  at += name.count;
  if (!name.count || text[at++] != ':' || r->count == REFERENCE_FIELDS) return 0;
  at += strspn(text + at, " \t");
  reference_part value = {at, strcspn(text + at, "\r")};
  for (size_t i = 0; i < value.count; i++)
    if (iscntrl((unsigned char)text[at + i]) && text[at + i] != '\t') return 0;
  at += value.count + 2;
  while (value.count && strchr(" \t", text[value.at + value.count - 1])) value.count--;
  r->names[r->count] = name;
  r->values[r->count++] = value;
  return at;
}

/* What the fields say of the body and of the connection. */
static bool reference_framing(reference_head *r) {
  const reference_part *host = reference_field(r, "host", 0), *coding = reference_field(r, "transfer-encoding", 0);
  const reference_part *length = reference_field(r, "content-length", 0), *part;
  if (host ? strspn(r->text + host->at, REFERENCE_HOST) < host->count : r->minor == 1) return false;
  if (reference_field(r, "host", 1) || reference_field(r, "transfer-encoding", 1) ||
      reference_field(r, "content-length", 1))
    return false;
  r->is_chunked = coding != NULL;
  if (coding && (r->minor == 0 || !reference_is(r, coding, "chunked"))) return false;
  if (length) {
    const size_t digits = strspn(r->text + length->at, REFERENCE_DIGITS);
    if (!digits || digits < length->count || digits > REFERENCE_DIGITS_OF_LENGTH || r->is_chunked) return false;
    r->has_length = true;
    r->body = strtoull(r->text + length->at, NULL, 10);
  }
  for (size_t i = 0; (part = reference_field(r, "expect", i)) != NULL; i++) {
    if (!reference_is(r, part, "100-continue")) return false;
    r->expects_continue = r->minor == 1;
  }
  const bool stays = r->minor == 1 || reference_lists(r, "connection", "keep-alive");
  r->keep_alive = stays && !reference_lists(r, "connection", "close");
  return true;
}

/* Lines end in CR LF, and neither these nor a NUL stand elsewhere. */
static bool reference_lines(const char *text, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!text[i] || (text[i] == '\n' && (i == 0 || text[i - 1] != '\r'))) return false;
    if (text[i] == '\r' && i + 1 < count && text[i + 1] != '\n') return false;
  }
  return true;
}

/* `text`: `size` bytes and a NUL. 1: a head; 0: it goes on; -1: it is refused. */
static int reference_read(const char *text, size_t size, reference_head *r) {
  *r = (reference_head){.text = text};
  size_t at = strncmp(text, "\r\n", 2) == 0 ? 2 : 0;
  if (strncmp(text, "\r\n\r\n", 4) == 0) return -1;
  const char *end = strstr(text + at, "\r\n\r\n");
  r->length = end ? (size_t)(end - text) + 4 : size;
  if (!reference_lines(text, r->length)) return -1;
  if (!end) return 0;
  if (!(at = reference_line(r, at)) || !reference_target(r)) return -1;
  while (at < r->length - 2)
    if (!(at = reference_add(r, at))) return -1;
  return reference_framing(r) ? 1 : -1;
}

/* ---- a body in chunks ---- */

/* What is left of the text. `state`: 1: all has been as it is to be; 0: it ended too early; -1: it is refused. */
typedef struct reference_rest {
  const char *at, *end;
  int state;
} reference_rest;

static void reference_take(reference_rest *r, const char *word) {
  for (; r->state > 0 && *word; word++) {
    if (r->at == r->end) r->state = 0;
    else if (*r->at++ != *word) r->state = -1;
  }
}

/* As many bytes as there are of the kind, behind which there is another one. */
static size_t reference_run(reference_rest *r, bool (*is_one)(char)) {
  const char *begin = r->at;
  while (r->at < r->end && is_one(*r->at)) r->at++;
  return (size_t)(r->at - begin);
}

static bool reference_hex(char c) { return isxdigit((unsigned char)c); }
static bool reference_token(char c) { return c && strchr(REFERENCE_TOKEN, c); }
static bool reference_text(char c) { return c == '\t' || !iscntrl((unsigned char)c); }

/* The line of a chunk's length, which may be 0. */
static uint64_t reference_size(reference_rest *r) {
  enum { MOST_DIGITS = 15, MOST_EXTENSION = 256 };
  char digits[MOST_DIGITS + 1] = {0};
  const char *begin = r->at;
  const size_t count = reference_run(r, reference_hex);
  if (count > MOST_DIGITS || (!count && r->at < r->end)) {
    r->state = -1;
    return 0;
  }
  memcpy(digits, begin, count);
  if (r->at < r->end && *r->at == ';') {
    r->at++;
    if (reference_run(r, reference_text) > MOST_EXTENSION) r->state = -1;
  }
  reference_take(r, "\r\n");
  return strtoull(digits, NULL, 16);
}

/* Returns the state; `data` has room for all bytes of the text, and gets those that chunks hold. */
static int reference_chunks(const char *text, size_t size, char *data, size_t *count, size_t *used) {
  reference_rest r = {text, text + size, 1};
  uint64_t left = 1;
  *count = 0;
  while (r.state > 0 && left) {
    left = reference_size(&r);
    if (r.state <= 0 || !left) break;
    const size_t there = (size_t)(r.end - r.at), part = left < there ? (size_t)left : there;
    memcpy(data + *count, r.at, part);
    *count += part;
    r.at += part;
    if (part < left) r.state = 0;
    reference_take(&r, "\r\n");
  }
  while (r.state > 0 && (r.at == r.end || *r.at != '\r')) { /* trailers */
    if (!reference_run(&r, reference_token) && r.at < r.end) r.state = -1;
    reference_take(&r, ":");
    reference_run(&r, reference_text);
    reference_take(&r, "\r\n");
  }
  reference_take(&r, "\r\n");
  *used = (size_t)(r.at - text);
  return r.state;
}
#endif
