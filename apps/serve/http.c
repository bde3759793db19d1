/* http.c -- the parser: heads in two passes (find the end, then read lines), chunks byte by byte. */
#include "http.h"

#include <string.h>
#include <strings.h>

static bool is_token(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool all_token(base_str s) {
  for (size_t i = 0; i < s.length; i++)
    if (!is_token(s.at[i])) return false;
  return s.length > 0;
}

/* May it stand in a value? Bytes above 0x7f may. */
static bool is_text(char c) { return c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f); }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* A host and a port have no other bytes; which of them form one is not looked at. */
static bool all_host(base_str s) {
  for (size_t i = 0; i < s.length; i++)
    if (strchr("#^`|", s.at[i]) || !(is_token(s.at[i]) || strchr("()[],;=:", s.at[i]))) return false;
  return true;
}

static bool is_word(base_str s, const char *word) {
  return s.length == strlen(word) && strncasecmp(s.at, word, s.length) == 0;
}

static base_str trim(base_str s) {
  while (s.length && (s.at[0] == ' ' || s.at[0] == '\t')) s.at++, s.length--;
  while (s.length && (s.at[s.length - 1] == ' ' || s.at[s.length - 1] == '\t')) s.length--;
  return s;
}

/* Positive: the length of the head. Lines end in CR LF, and neither stands elsewhere. */
static int32_t find_end(const char *bytes, size_t count, http_scan *scan) {
  for (; scan->seen < count; scan->seen++) {
    const char c = bytes[scan->seen];
    if (scan->seen >= HTTP_HEAD_BYTES) return -431;
    if (scan->seen - scan->line > HTTP_LINE_BYTES) return scan->line <= 2 ? -414 : -431;
    if (c == 0) return -400;
    if (c != '\n' && scan->seen > 0 && bytes[scan->seen - 1] == '\r') return -400;
    if (c != '\n') continue;
    if (scan->seen == 0 || bytes[scan->seen - 1] != '\r') return -400;
    const bool empty = scan->seen - scan->line == 1;
    if (empty && scan->line > 2) return (int32_t)(scan->seen + 1);
    if (empty && scan->line == 2) return -400; /* one empty line in front is forgiven */
    scan->line = scan->seen + 1;
  }
  return 0;
}

/* The line at *at, without its end; moves on behind it. */
static base_str next_line(const char *bytes, size_t *at) {
  const char *begin = bytes + *at, *end = begin;
  while (*end != '\r') end++;
  *at = (size_t)(end - bytes) + 2;
  return (base_str){begin, (size_t)(end - begin)};
}

/* "http://host:1/path?query" becomes the path and what follows. False: it has no host, or no path. */
static bool strip_authority(base_str *target) {
  static const char *const schemes[] = {"http://", "https://"};
  for (size_t i = 0; i < 2; i++) {
    const size_t n = strlen(schemes[i]);
    if (target->length <= n || strncasecmp(target->at, schemes[i], n) != 0) continue;
    const char *host = target->at + n, *path = memchr(host, '/', target->length - n);
    if (!path || path == host || *host == ':' || !all_host((base_str){host, (size_t)(path - host)})) return false;
    *target = (base_str){path, target->length - (size_t)(path - target->at)};
    return true;
  }
  return false;
}

static int32_t read_request_line(base_str line, http_head *head) {
  head->method = base_str_cut(&line, ' ');
  head->target = base_str_cut(&line, ' ');
  if (!all_token(head->method) || head->method.length > 32) return -400;
  for (size_t i = 0; i < head->target.length; i++)
    if (head->target.at[i] <= ' ' || head->target.at[i] >= 0x7f || head->target.at[i] == '#')
      return -400; /* bytes above 0x7f are negative; what is behind a # some would not read */
  if (line.length != 8 || memcmp(line.at, "HTTP/", 5) != 0 || line.at[6] != '.') return -400;
  if (!is_digit(line.at[5]) || !is_digit(line.at[7])) return -400;
  if (line.at[5] != '1' || line.at[7] > '1') return -505;
  head->minor = (uint32_t)(line.at[7] - '0');
  if (base_str_is(head->target, "*")) return base_str_is(head->method, "OPTIONS") ? 1 : -400;
  if (head->target.length && head->target.at[0] == '/') return 1;
  return strip_authority(&head->target) ? 1 : -400;
}

static int32_t read_field(base_str line, http_head *head) {
  const char *colon = memchr(line.at, ':', line.length);
  if (!colon) return -400;
  if (head->count == HTTP_FIELDS) return -431;
  http_field field = {.name = {line.at, (size_t)(colon - line.at)}};
  field.value = trim((base_str){colon + 1, line.length - field.name.length - 1});
  if (!all_token(field.name)) return -400; /* also a line that goes on from the one before it */
  for (size_t i = 0; i < field.value.length; i++)
    if (!is_text(field.value.at[i])) return -400;
  head->fields[head->count++] = field;
  return 1;
}

static int32_t read_length(base_str value, http_head *head) {
  uint64_t length = 0;
  if (!value.length || value.length > 18) return -400;
  for (size_t i = 0; i < value.length; i++) {
    if (!is_digit(value.at[i])) return -400;
    length = length * 10 + (uint64_t)(value.at[i] - '0');
  }
  if (head->has_length) return -400;
  head->has_length = true;
  head->length = length;
  return 1;
}

/* What the fields say of the body and the connection. */
static int32_t read_framing(http_head *head) {
  uint32_t hosts = 0;
  head->keep_alive = head->minor == 1;
  for (uint32_t i = 0; i < head->count; i++) {
    const base_str name = head->fields[i].name, value = head->fields[i].value;
    if (is_word(name, "host") && (hosts++ > 0 || !all_host(value))) return -400;
    if (is_word(name, "content-length") && read_length(value, head) < 0) return -400;
    if (is_word(name, "transfer-encoding")) {
      if (head->minor == 0 || head->chunked) return -400;
      if (!is_word(value, "chunked")) return -501;
      head->chunked = true;
    }
    if (is_word(name, "connection") && head->minor == 0 && http_lists(value, "keep-alive")) head->keep_alive = true;
    if (is_word(name, "expect")) {
      if (!is_word(value, "100-continue")) return -417;
      head->expects_continue = head->minor == 1;
    }
  }
  for (uint32_t i = 0; i < head->count; i++)
    if (is_word(head->fields[i].name, "connection") && http_lists(head->fields[i].value, "close"))
      head->keep_alive = false;
  if (hosts == 0 && head->minor == 1) return -400;
  return head->chunked && head->has_length ? -400 : 1;
}

int32_t http_read_head(const char *bytes, size_t count, http_scan *scan, http_head *head) {
  const int32_t length = find_end(bytes, count, scan);
  if (length <= 0) return length;
  size_t at = bytes[0] == '\r' ? 2 : 0;
  memset(head, 0, offsetof(http_head, fields));
  int32_t status = read_request_line(next_line(bytes, &at), head);
  while (status > 0 && at + 2 < (size_t)length) status = read_field(next_line(bytes, &at), head);
  if (status > 0) status = read_framing(head);
  return status > 0 ? length : status;
}

base_str http_find(const http_head *head, const char *name) {
  for (uint32_t i = 0; i < head->count; i++)
    if (is_word(head->fields[i].name, name)) return head->fields[i].value;
  return (base_str){0};
}

bool http_lists(base_str list, const char *word) {
  while (list.length)
    if (is_word(trim(base_str_cut(&list, ',')), word)) return true;
  return false;
}

/* ---- chunks ---- */

enum {
  SIZE,
  EXTENSION,
  SIZE_END,
  DATA,
  DATA_CR,
  DATA_LF,
  TRAILER,
  TRAILER_NAME,
  TRAILER_REST,
  TRAILER_LF,
  LAST_LF,
  OVER
};
enum { SIZE_DIGITS = 15, EXTENSION_BYTES = 256, TRAILER_BYTES = 8192 };

static int32_t hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_size(http_chunks *c, char byte) {
  const int32_t digit = hex_digit(byte);
  if (digit >= 0) {
    c->left = c->left * 16 + (uint64_t)digit;
    return ++c->line <= SIZE_DIGITS;
  }
  if (c->line == 0) return false;
  c->line = 0;
  c->state = byte == '\r' ? SIZE_END : EXTENSION;
  return byte == '\r' || byte == ';';
}

/* One byte that is no data. False: it may not stand there. */
static bool read_mark(http_chunks *c, char byte) {
  switch (c->state) {
    case SIZE: return read_size(c, byte);
    case EXTENSION:
      if (byte == '\r') c->state = SIZE_END;
      return byte == '\r' || (is_text(byte) && ++c->line <= EXTENSION_BYTES);
    case SIZE_END: c->state = c->left ? DATA : TRAILER; return byte == '\n';
    case DATA_CR: c->state = DATA_LF; return byte == '\r';
    case DATA_LF:
      c->state = SIZE;
      c->line = 0;
      return byte == '\n';
    case TRAILER: c->state = byte == '\r' ? LAST_LF : TRAILER_NAME; return byte == '\r' || is_token(byte);
    case TRAILER_NAME:
      if (byte == ':') c->state = TRAILER_REST;
      return (byte == ':' || is_token(byte)) && ++c->trailer <= TRAILER_BYTES;
    case TRAILER_REST:
      if (byte == '\r') c->state = TRAILER_LF;
      return (byte == '\r' || is_text(byte)) && ++c->trailer <= TRAILER_BYTES;
    case TRAILER_LF: c->state = TRAILER; return byte == '\n';
    default: c->state = OVER; return byte == '\n';
  }
}

http_step http_read_chunks(http_chunks *c, const char *bytes, size_t count, size_t *used, base_str *data) {
  for (*used = 0; *used < count && c->state != OVER;) {
    if (c->state == DATA) {
      const size_t there = count - *used, part = there < c->left ? there : (size_t)c->left;
      *data = (base_str){bytes + *used, part};
      *used += part;
      c->left -= part;
      if (c->left == 0) c->state = DATA_CR;
      return HTTP_DATA;
    }
    if (!read_mark(c, bytes[(*used)++])) return HTTP_BAD;
  }
  return c->state == OVER ? HTTP_END : HTTP_MORE;
}

bool http_unescape(char *text, size_t *length) {
  size_t to = 0;
  for (size_t i = 0; i < *length; i++) {
    if (text[i] != '%') {
      text[to++] = text[i];
      continue;
    }
    const int32_t high = *length - i > 2 ? hex_digit(text[i + 1]) : -1;
    const int32_t low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0 || high * 16 + low == 0) return false;
    text[to++] = (char)(high * 16 + low);
    i += 2;
  }
  *length = to;
  return true;
}

const char *http_reason(int32_t status) {
  static const struct {
    int32_t status;
    const char *reason;
  } rows[] = {{200, "OK"},
              {202, "Accepted"},
              {400, "Bad Request"},
              {401, "Unauthorized"},
              {403, "Forbidden"},
              {404, "Not Found"},
              {405, "Method Not Allowed"},
              {408, "Request Timeout"},
              {409, "Conflict"},
              {413, "Content Too Large"},
              {414, "URI Too Long"},
              {415, "Unsupported Media Type"},
              {417, "Expectation Failed"},
              {421, "Misdirected Request"},
              {431, "Request Header Fields Too Large"},
              {499, "Client Closed Request"},
              {500, "Internal Server Error"},
              {501, "Not Implemented"},
              {503, "Service Unavailable"},
              {504, "Gateway Timeout"},
              {505, "HTTP Version Not Supported"},
              {507, "Insufficient Storage"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].status == status) return rows[i].reason;
  return "Unknown";
}
