/* reply.c -- the head of HTTP/1's replies, and bodies in parts: what a Python handler gives before its reply is whole
 * goes out at once. A body that is cut never looks whole: HTTP/1.1 lacks the last chunk, HTTP/2 resets the stream. */
#include "reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the head ---- */

typedef struct text {
  char *at;
  size_t length;
} text;

static void add_field(text *t, const char *format, ...) BASE_PRINTF(2, 3);
static void add_field(text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  t->length += (size_t)vsnprintf(t->at + t->length, SERVE_REPLY_HEAD - t->length, format, args);
  va_end(args);
}

/* Of a reply that is whole, from what only such a one has. */
static void add_whole(text *t, const serve_job *job) {
  add_field(t, "Content-Length: %zu\r\n", job->reply.length);
  if (job->reply_json) add_field(t, "Inference-Header-Content-Length: %zu\r\n", job->reply_json);
  if (job->allow) add_field(t, "Allow: %.200s\r\n", job->allow);
  if (job->status == 401) add_field(t, "WWW-Authenticate: Bearer\r\n");
  if (job->policy)
    add_field(t, "Content-Security-Policy: %s\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n",
              job->policy);
  if (job->status == 503 || job->status == 429) add_field(t, "Retry-After: 1\r\n");
}

size_t serve_write_head(char to[SERVE_REPLY_HEAD], const serve_job *job, const serve_parts *p, bool closes) {
  const serve_options *o = &job->server->options;
  const int32_t status = p->is_begun ? p->status : job->status;
  const char *type = p->is_begun ? p->type : job->reply_json ? "application/octet-stream" : job->type;
  text t = {to, 0};
  add_field(&t, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nx-request-id: %s\r\n", status, http_reason(status), type,
            job->id);
  add_field(&t, "Cache-Control: no-cache; no-store, must-revalidate, private\r\n");
  if (p->is_begun) add_field(&t, "Transfer-Encoding: chunked\r\n");
  else add_whole(&t, job);
  for (int i = 0; i < SERVE_CORS; i++)
    if (o->cors[i]) add_field(&t, "%s: %s\r\n", serve_cors_fields[i], o->cors[i]);
  add_field(&t, "Connection: %s\r\n\r\n", closes ? "close" : "keep-alive");
  return t.length;
}

/* ---- parts ---- */

static const char mark[] = "0\r\n\r\n", line_end[] = "\r\n";
enum { MARK = sizeof mark - 1, LINE_END = sizeof line_end - 1 };

void serve_free_part(serve_job *part) {
  serve_free_job(part);
  free(part);
}

static const base_text *in_front(const serve_parts *p) { return p->first ? &p->first->reply : p->rest; }

static bool has_mark(const serve_parts *p) { return p->is_chunked && p->is_ended && !p->is_cut; }

static bool is_waiting(const serve_parts *p) { return in_front(p) || (has_mark(p) && p->sent < MARK); }

/* Something is to be sent where nothing was. */
static void begin_wait(serve_parts *p) {
  p->since_ns = p->moved_ns = sys_clock_ns();
  p->moved = 0;
}

void serve_parts_add(serve_parts *p, serve_job *part) {
  if (!p->is_begun) {
    p->status = part->status;
    p->type = part->type;
  }
  if (!p->is_begun || !is_waiting(p)) begin_wait(p);
  p->is_begun = true;
  if (!part->reply.length) { /* as a chunk it would be the mark */
    serve_free_part(part);
    return;
  }
  part->next = NULL;
  if (p->first) p->last->next = part;
  else p->first = part;
  p->last = part;
}

void serve_parts_end(serve_parts *p, const serve_job *job) {
  if (!is_waiting(p)) begin_wait(p);
  p->is_ended = true;
  p->is_cut = job->status >= 300 || job->reply.failed;
  p->rest = p->is_cut || !job->reply.length ? NULL : &job->reply;
}

bool serve_parts_next(serve_parts *p, base_str *piece, bool *more) {
  const base_text *t = in_front(p);
  *more = false;
  if (!t) {
    if (!has_mark(p) || p->sent >= MARK) return false;
    *piece = (base_str){mark + p->sent, MARK - p->sent};
    return true;
  }
  const size_t head = p->is_chunked ? (size_t)snprintf(p->head, sizeof p->head, "%zx\r\n", t->length) : 0;
  const size_t body = head + t->length, all = p->is_chunked ? body + LINE_END : body;
  if (p->sent < head) *piece = (base_str){p->head + p->sent, head - p->sent};
  else if (p->sent < body) *piece = (base_str){t->at + (p->sent - head), body - p->sent};
  else *piece = (base_str){line_end + (p->sent - body), all - p->sent};
  *more = p->sent + piece->length < all || (p->first && (p->first->next || p->rest)) || has_mark(p);
  return true;
}

/* What is in front has gone. */
static void pop(serve_parts *p) {
  serve_job *part = p->first;
  p->sent = 0;
  if (!part) {
    p->rest = NULL;
    return;
  }
  p->first = part->next;
  serve_free_part(part);
}

void serve_parts_took(serve_parts *p, size_t count) {
  const base_text *t = in_front(p);
  p->sent += count;
  p->moved += count;
  p->moved_ns = sys_clock_ns();
  if (!t) return;
  const size_t head = p->is_chunked ? strlen(p->head) + LINE_END : 0; /* and the end of its line */
  if (p->sent < head + t->length) return;
  p->bytes += t->length;
  pop(p);
}

bool serve_parts_over(const serve_parts *p) { return p->is_ended && !is_waiting(p); }

uint64_t serve_parts_expiry(const serve_parts *p, const serve_server *server) {
  return is_waiting(p) ? serve_transfer_end(server, p->since_ns, p->moved_ns, p->moved) : UINT64_MAX;
}

void serve_parts_drop(serve_parts *p) {
  while (p->first) pop(p);
  p->rest = NULL;
}

enum { SLOWEST_BYTES = 16384 }; /* a second */

/* A byte from time to time gains little; what a socket's buffer took at first gains nothing when no more is taken. */
uint64_t serve_transfer_end(const serve_server *server, uint64_t begin_ns, uint64_t moved_ns, uint64_t bytes) {
  const uint64_t all = begin_ns + ((uint64_t)server->options.transfer_s + bytes / SLOWEST_BYTES) * SECOND_NS;
  const uint64_t next = moved_ns + (uint64_t)server->options.transfer_s * SECOND_NS;
  return all < next ? all : next;
}
