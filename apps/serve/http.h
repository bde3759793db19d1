/* http.h -- HTTP/1.x requests as RFC 9112 writes them, strictly: what two parsers could read differently is refused.
 * The functions allocate nothing and keep no bytes; slices point into what the caller gave. */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H
#include "base/base.h"

enum { HTTP_FIELDS = 100, HTTP_LINE_BYTES = 8192, HTTP_HEAD_BYTES = 32768 };

typedef struct http_field {
  base_str name, value; /* without the blanks around it */
} http_field;

typedef struct http_head {
  base_str method, target; /* the target's path and query; "*" of OPTIONS */
  uint32_t minor;          /* of HTTP/1.x: 0 or 1 */
  uint32_t count;
  bool chunked, has_length, keep_alive, expects_continue;
  uint64_t length; /* of the body, where has_length */
  http_field fields[HTTP_FIELDS];
} http_head;

/* How far a head was looked through. Start zeroed. */
typedef struct http_scan {
  size_t seen, line; /* bytes looked at; where the line begins that is not complete */
} http_scan;

/* Reads the head of a request at the start of `bytes`, of which there may be more each time. Positive: it has so many
 * bytes, and `head` is filled. 0: it goes on. Negative: -STATUS, with which the request is to be refused. */
int32_t http_read_head(const char *bytes, size_t count, http_scan *scan, http_head *head);

/* The value of a field; at == NULL: there is none. `name` in small letters. */
base_str http_find(const http_head *head, const char *name);
/* Is `word` (in small letters) among the words of a list that commas separate? */
bool http_lists(base_str list, const char *word);

/* A body in chunks. Start zeroed. */
typedef struct http_chunks {
  uint32_t state, line; /* bytes of the line so far */
  uint64_t left;        /* of the chunk */
  uint32_t trailer;     /* bytes of trailers */
} http_chunks;
typedef enum http_step { HTTP_MORE, HTTP_DATA, HTTP_END, HTTP_BAD } http_step;
/* Takes `*used` of `count` bytes. HTTP_DATA: `data` is a part of the body, and the rest is to be given again. */
http_step http_read_chunks(http_chunks *chunks, const char *bytes, size_t count, size_t *used, base_str *data);

/* Decodes %XX in place; false where it is damaged or a NUL. */
bool http_unescape(char *text, size_t *length);
/* The reason phrase of a status. */
const char *http_reason(int32_t status);
#endif
