/* h2.c -- HTTP/2: streams become jobs, and jobs replies. nghttp2 has the frames, the windows and the compression of
 * headers; its own bound on resets is on. Bounds of ours: streams at once, bytes of bodies that wait, fields. */
#include "h2.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "resets.h"
#include "reply.h"

enum { MOST_STREAMS = 128, WINDOW = 1 << 20, FIELD_BYTES = 16384, GRPC_HEAD = 5, MOST_FIELDS = 16 };

typedef struct stream {
  serve_job job;
  serve_h2 *h;        /* NULL: its connection is gone */
  serve_parts parts;  /* of a reply of REST that begins before it is whole */
  serve_calls *calls; /* of several messages; NULL: it is one request with one reply */
  size_t kept;        /* bytes of the window that its client gets back when calls have room */
  struct stream *before, *after;
  int32_t id;
  bool is_grpc, is_packed, in_flight; /* is_packed: gRPC messages of it may be gzip */
  bool is_refused;                    /* too large: its bytes are thrown away */
  bool is_reset;                      /* it took too long */
  bool is_last;                       /* of health: what it tells now ends it */
  uint64_t replied_ns, moved_ns;      /* when its reply was ready, 0: it is not; when a byte of it moved last */
  size_t fields, sent;                /* bytes of header fields; of the reply */
  BASE_VEC(http_field) all;           /* header fields */
  base_str length, coding;            /* of REST: Inference-Header-Content-Length, Content-Encoding */
  base_str request_id, parent;        /* X-Request-Id, traceparent */
  uint8_t head[GRPC_HEAD];
  char texts[3][256]; /* of the reply's fields */
} stream;

struct serve_h2 {
  nghttp2_session *session;
  serve_server *server;
  serve_loop *loop;
  serve_channel *channel;
  const char *client;
  uint32_t roles, streams, listeners; /* listeners: streams that are told of health */
  bool blocked, sending;              /* sending: within serve_h2_send */
  bool is_broken;                     /* there was no memory to say what its client waits for */
  bool is_ending;                     /* no new requests; then, once there are no streams: */
  serve_frames frames;
  bool is_asked, has_read; /* the client is asked whether it has read all, and has */
  size_t waiting;          /* bytes of bodies, but for those of streams with calls */
  stream *first;
  void (*ready)(void *owner);
  void *owner;
};

static void split_query(serve_job *job) {
  const char *query = job->path.length ? memchr(job->path.at, '?', job->path.length) : NULL;
  if (!query) return;
  const size_t length = (size_t)(query - job->path.at);
  job->query = (base_str){query + 1, job->path.length - length - 1};
  job->path.length = length;
}

/* What nghttp2 made of a reply: a stream without one would wait, so the connection ends. */
static void check(serve_h2 *h, int result) {
  if (nghttp2_is_fatal(result)) h->is_broken = true;
}

/* It ends here, answered or not. */
static void free_stream(stream *s) {
  const size_t head = s->is_grpc && !s->calls ? GRPC_HEAD : 0;
  if (!s->job.status) { /* its client left before the request was whole */
    s->job.status = 499;
    split_query(&s->job);
  }
  if (!s->job.id[0]) serve_name_request(&s->job, s->request_id, s->parent);
  serve_log_request(s->job.server->log, &s->job, s->sent > head ? s->sent - head : 0);
  serve_calls_free(s->calls);
  serve_parts_drop(&s->parts);
  serve_free_job(&s->job);
  free(s);
}

/* Is nothing of it computed? */
static bool is_idle(const stream *s) { return !s->in_flight && (!s->calls || serve_calls_idle(s->calls)); }

static void unlink_stream(stream *s) {
  serve_h2 *h = s->h;
  if (s->before) s->before->after = s->after;
  else h->first = s->after;
  if (s->job.watched) h->listeners--;
  if (s->after) s->after->before = s->before;
  h->streams--;
  if (s->calls) serve_calls_cancel(s->calls);
  else h->waiting -= s->job.cap;
  s->h = NULL;
  if (s->in_flight) serve_cancel(&s->job);
}

/* ---- replies ---- */

static nghttp2_nv field(const char *name, const char *value) {
  return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                      NGHTTP2_NV_FLAG_NONE};
}

/* grpc-message: percent-encoded but for printable ASCII. */
static void encode_message(char *to, size_t room, const char *text, size_t length) {
  size_t at = 0;
  for (size_t i = 0; i < length && at + 4 < room; i++) {
    const uint8_t c = (uint8_t)text[i];
    if (c >= 0x20 && c < 0x7f && c != '%') to[at++] = (char)c;
    else at += (size_t)snprintf(to + at, 4, "%%%02X", c);
  }
  to[at] = 0;
}

static size_t reply_bytes(const stream *s) { return (s->is_grpc ? GRPC_HEAD : 0) + s->job.reply.length; }

/* It tells health, has told all, and waits for a change. */
static bool is_waiting(const stream *s) { return s->job.watched && s->replied_ns && s->sent == reply_bytes(s); }

static ssize_t read_reply(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                          nghttp2_data_source *source, void *user) {
  (void)user;
  stream *s = source->ptr;
  const size_t head = s->is_grpc ? GRPC_HEAD : 0, all = reply_bytes(s);
  size_t put = 0;
  s->moved_ns = sys_clock_ns();
  while (put < room && s->sent < all) {
    const bool in_head = s->sent < head;
    const char *from = in_head ? (const char *)s->head + s->sent : s->job.reply.at + (s->sent - head);
    const size_t left = (in_head ? head : all) - s->sent, count = left < room - put ? left : room - put;
    memcpy(to + put, from, count);
    put += count;
    s->sent += count;
  }
  if (s->sent < all) return (ssize_t)put;
  if (s->job.watched && !s->is_last) return put ? (ssize_t)put : NGHTTP2_ERR_DEFERRED;
  *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (s->is_grpc) {
    const nghttp2_nv trailer = field("grpc-status", s->job.watched ? "14" : "0"); /* SERVE_GRPC_UNAVAILABLE */
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    check(s->h, nghttp2_submit_trailer(session, id, &trailer, 1));
  }
  return (ssize_t)put;
}

static void write_length(stream *s) {
  for (int i = 0; i < 4; i++) s->head[1 + i] = (uint8_t)(s->job.reply.length >> (24 - 8 * i));
}

static void submit_grpc(stream *s, const nghttp2_data_provider *reply) {
  const serve_job *job = &s->job;
  nghttp2_nv fields[MOST_FIELDS] = {field(":status", "200"), field("content-type", "application/grpc"),
                                    field("x-request-id", job->id)};
  if (job->status < 300) {
    write_length(s);
    check(s->h, nghttp2_submit_response(s->h->session, s->id, fields, 3, reply));
    return;
  }
  snprintf(s->texts[0], sizeof s->texts[0], "%u", serve_grpc_status(job));
  encode_message(s->texts[1], sizeof s->texts[1], job->reply.at ? job->reply.at : "", job->reply.length);
  fields[3] = field("grpc-status", s->texts[0]);
  fields[4] = field("grpc-message", s->texts[1]);
  check(s->h, nghttp2_submit_response(s->h->session, s->id, fields, 5, NULL));
}

static void submit_rest(stream *s, const nghttp2_data_provider *reply) {
  const serve_job *job = &s->job;
  const bool whole = !s->parts.is_begun; /* else it is still computed */
  const int32_t status = whole ? job->status : s->parts.status;
  const size_t json = whole ? job->reply_json : 0;
  const char *type = !whole ? s->parts.type : json ? "application/octet-stream" : job->type;
  nghttp2_nv fields[MOST_FIELDS];
  size_t count = 0;
  snprintf(s->texts[0], sizeof s->texts[0], "%d", status);
  if (whole) snprintf(s->texts[1], sizeof s->texts[1], "%zu", job->reply.length);
  fields[count++] = field(":status", s->texts[0]);
  fields[count++] = field("content-type", type);
  if (whole) fields[count++] = field("content-length", s->texts[1]);
  fields[count++] = field("x-request-id", job->id);
  fields[count++] = field("cache-control", "no-cache; no-store, must-revalidate, private");
  for (int i = 0; i < SERVE_CORS; i++)
    if (job->server->options.cors[i]) fields[count++] = field(serve_cors_fields[i], job->server->options.cors[i]);
  if (status == 503) fields[count++] = field("retry-after", "1");
  if (status == 401) fields[count++] = field("www-authenticate", "Bearer");
  if (job->allow) fields[count++] = field("allow", job->allow);
  if (job->policy) {
    fields[count++] = field("content-security-policy", job->policy);
    fields[count++] = field("x-content-type-options", "nosniff");
    fields[count++] = field("referrer-policy", "no-referrer");
  }
  if (json) {
    snprintf(s->texts[2], sizeof s->texts[2], "%zu", json);
    fields[count++] = field("inference-header-content-length", s->texts[2]);
  }
  check(s->h,
        nghttp2_submit_response(s->h->session, s->id, fields, count, base_str_is(job->method, "HEAD") ? NULL : reply));
}

/* A reply of REST in parts: a stream that ends in the middle of it is reset. */
static ssize_t read_parts(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                          nghttp2_data_source *source, void *user) {
  (void)session;
  (void)id;
  (void)user;
  stream *s = source->ptr;
  base_str piece;
  size_t put = 0;
  for (bool more; put < room && serve_parts_next(&s->parts, &piece, &more);) {
    const size_t count = piece.length < room - put ? piece.length : room - put;
    memcpy(to + put, piece.at, count);
    serve_parts_took(&s->parts, count);
    put += count;
  }
  s->sent += put;
  const bool over = serve_parts_over(&s->parts), cut = s->parts.is_cut;
  if (over && cut && !put) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* RST_STREAM, INTERNAL_ERROR */
  if (over && !cut) *flags |= NGHTTP2_DATA_FLAG_EOF;
  else if (!put) return NGHTTP2_ERR_DEFERRED;
  return (ssize_t)put;
}

static void extend(serve_job *job, serve_job *part) {
  stream *s = job->owner;
  serve_h2 *h = s->h;
  const nghttp2_data_provider parts = {{.ptr = s}, read_parts};
  if (!h) { /* nobody waits */
    serve_free_part(part);
    return;
  }
  const bool begins = !s->parts.is_begun;
  serve_parts_add(&s->parts, part);
  if (begins) {
    s->replied_ns = sys_clock_ns();
    submit_rest(s, &parts);
  } else {
    nghttp2_session_resume_data(h->session, s->id);
  }
  h->ready(h->owner);
}

static void respond(serve_job *job) {
  stream *s = job->owner;
  serve_h2 *h = s->h;
  const nghttp2_data_provider reply = {{.ptr = s}, read_reply};
  s->in_flight = false;
  s->replied_ns = s->moved_ns = sys_clock_ns();
  if (!h) { /* nobody waits */
    free_stream(s);
    return;
  }
  if (s->is_grpc) serve_grpc_shape(job);
  if (job->reply.failed || (s->is_grpc && job->reply.length > UINT32_MAX)) {
    job->status = job->is_over ? 503 : 507;
    job->reply.length = 0;
  }
  job->grpc_status = job->status < 300 ? 0 : (int32_t)serve_grpc_status(job);
  job->server->replies[job->status < 300 ? 0 : job->status < 500 ? 1 : 2]++;
  if (s->parts.is_begun) {
    serve_parts_end(&s->parts, job);
    nghttp2_session_resume_data(h->session, s->id);
  } else {
    (s->is_grpc ? submit_grpc : submit_rest)(s, &reply);
  }
  h->ready(h->owner);
}

/* ---- streams of several messages ---- */

static ssize_t read_calls(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                          nghttp2_data_source *source, void *user) {
  (void)user;
  stream *s = source->ptr;
  const size_t put = serve_calls_read(s->calls, to, room);
  const char *text;
  const int32_t status = serve_calls_status(s->calls, &text);
  s->moved_ns = sys_clock_ns();
  s->sent += put;
  if (status < 0) return put ? (ssize_t)put : NGHTTP2_ERR_DEFERRED;
  s->job.grpc_status = status;
  snprintf(s->texts[0], sizeof s->texts[0], "%d", status);
  encode_message(s->texts[1], sizeof s->texts[1], text, strlen(text));
  const nghttp2_nv trailers[] = {field("grpc-status", s->texts[0]), field("grpc-message", s->texts[1])};
  *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  check(s->h, nghttp2_submit_trailer(session, id, trailers, status ? 2 : 1));
  return (ssize_t)put;
}

static void calls_ready(void *owner) {
  stream *s = owner;
  serve_h2 *h = s->h;
  if (!h) { /* nobody waits */
    if (is_idle(s)) free_stream(s);
    return;
  }
  s->moved_ns = sys_clock_ns();
  nghttp2_session_resume_data(h->session, s->id);
  if (!h->sending) h->ready(h->owner);
}

/* Begins what has come and has room, and has the client send more. How much it was. */
static uint32_t begin_calls(stream *s) {
  nghttp2_session *session = s->h->session;
  uint32_t begun = serve_calls_begin(s->calls);
  if (s->kept && serve_calls_has_room(s->calls)) {
    nghttp2_session_consume_stream(session, s->id, s->kept);
    s->kept = 0;
    begun++;
  }
  if (serve_calls_status(s->calls, &(const char *){NULL}) >= 0)
    begun += nghttp2_session_resume_data(session, s->id) == 0;
  return begun;
}

/* Calls that waited for room, which replies that were sent have left. */
static uint32_t go_on(serve_h2 *h) {
  uint32_t begun = 0;
  for (stream *s = h->first; s; s = s->after)
    if (s->calls) begun += begin_calls(s);
  return begun;
}

/* Replies begin at once: what they are follows message by message. */
static void open_calls(stream *s, uint32_t kind) {
  serve_job *job = &s->job;
  const nghttp2_data_provider replies = {{.ptr = s}, read_calls};
  const nghttp2_nv fields[] = {field(":status", "200"), field("content-type", "application/grpc"),
                               field("x-request-id", job->id)};
  job->is_grpc = true;
  job->is_torch = serve_is_torch(job->path);
  job->status = 200;
  serve_name_request(job, s->request_id, s->parent);
  s->calls = serve_calls_open(job, kind, s->is_packed, calls_ready, s);
  check(s->h, s->calls ? nghttp2_submit_response(s->h->session, s->id, fields, 3, &replies)
                       : nghttp2_submit_rst_stream(s->h->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_INTERNAL_ERROR));
}

/* ---- requests ---- */

/* Bodies of all streams together are bounded, too. */
static bool add_body(stream *s, const uint8_t *bytes, size_t count) {
  const size_t all = 2 * (size_t)s->job.server->options.most_bytes + WINDOW, before = s->job.cap;
  const bool added = serve_add_body(&s->job, bytes, count, s->h->waiting < all ? all - s->h->waiting : 0);
  s->h->waiting += s->job.cap - before;
  if (!added) { /* what comes is thrown away, and so is what came */
    s->h->waiting -= s->job.cap;
    serve_free_body(&s->job);
  }
  return added;
}

static bool decode(stream *s, base_str coding) {
  const size_t cap = s->job.cap;
  const bool decoded = serve_decode(&s->job, coding);
  s->h->waiting += s->job.cap - cap;
  return decoded;
}

/* The body is a message without its head. False: it is refused. */
static bool take_message(stream *s) {
  serve_job *job = &s->job;
  if (job->count < GRPC_HEAD) {
    serve_refuse(job, 400, "the request has no message");
    return false;
  }
  const uint8_t *head = (const uint8_t *)job->body;
  const uint32_t length = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
  const bool packed = head[0] == 1;
  if (head[0] > 1 || length != job->count - GRPC_HEAD || (packed && !s->is_packed)) {
    serve_refuse(job, 400, "the request is not one message");
    return false;
  }
  job->count = length;
  memmove(job->body, job->body + GRPC_HEAD, length);
  if (!packed) return true;
  return decode(s, BASE_STR("gzip"));
}

static bool route_rest(stream *s) {
  serve_job *job = &s->job;
  if (s->coding.at && !decode(s, s->coding)) return true;
  if (!s->length.at ||
      (base_str_int(s->length, &job->json_count) && job->json_count >= 0 && (size_t)job->json_count <= job->count))
    return serve_route(job);
  serve_refuse(job, 400, "Inference-Header-Content-Length is no length within the body");
  return true;
}

static void dispatch(stream *s) {
  serve_job *job = &s->job;
  bool answered = true;
  s->in_flight = true;
  serve_name_request(job, s->request_id, s->parent);
  job->is_grpc = s->is_grpc;
  job->is_torch = serve_is_torch(job->path);
  if (!s->is_grpc && !base_str_is(job->method, "HEAD")) job->extend = extend;
  if (s->is_refused && job->is_over) serve_refuse_memory(job);
  else if (s->is_refused && job->is_short) serve_refuse(job, 507, "out of memory");
  else if (s->is_refused) serve_refuse(job, 413, "the request is too large");
  else if (!s->is_grpc) answered = route_rest(s);
  else if (take_message(s)) answered = serve_grpc(job);
  if (job->watched) s->h->listeners++;
  if (answered) respond(job);
}

/* ---- nghttp2's calls ---- */

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  serve_h2 *h = user;
  if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  stream *s = calloc(1, sizeof *s);
  if (!s) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  s->job = (serve_job){.owner = s, .respond = respond};
  serve_begin_job(&s->job, h->loop);
  base_arena *arena = s->job.arena = base_arena_new(&s->job.memory);
  if (!arena) {
    free(s);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  s->job.roles = h->roles;
  s->job.type = "application/json";
  s->job.json_count = -1;
  s->job.begun_ns = s->moved_ns = sys_clock_ns();
  s->job.client = base_arena_text(arena, h->client); /* a stream may outlive its connection */
  s->h = h;
  s->id = frame->hd.stream_id;
  s->after = h->first;
  if (h->first) h->first->before = s;
  h->first = s;
  h->streams++;
  nghttp2_session_set_stream_user_data(session, s->id, s);
  return 0;
}

/* grpc-timeout: a number and a unit; in ns. 0: it is damaged. */
static uint64_t timeout_of(base_str text) {
  static const struct {
    char unit;
    uint64_t ns;
  } units[] = {{'H', 3600000000000u}, {'M', 60000000000u}, {'S', 1000000000u},
               {'m', 1000000u},       {'u', 1000u},        {'n', 1u}};
  int64_t value;
  if (text.length < 2 || text.length > 9 || !base_str_int((base_str){text.at, text.length - 1}, &value) || value < 0)
    return 0;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (units[i].unit == text.at[text.length - 1]) {
      const uint64_t most = UINT64_MAX / 4 / units[i].ns; /* added to the time it is now */
      return ((uint64_t)value < most ? (uint64_t)value : most) * units[i].ns + 1;
    }
  return 0;
}

/* For handlers, which may ask for any of them. */
static bool keep_field(stream *s, base_str key, base_str value) {
  const char *name = base_arena_slice(s->job.arena, key.at, key.length);
  http_field *field = name ? base_vec_push(s->job.arena, &s->all) : NULL;
  if (!field) return false;
  *field = (http_field){{name, key.length}, value};
  s->job.fields = s->all.at;
  s->job.field_count = s->all.count;
  return true;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t length, uint8_t flags, void *user) {
  (void)flags;
  (void)user;
  stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
  if (!s) return 0;
  serve_job *job = &s->job;
  const base_str key = {(const char *)name, name_length};
  char *text = base_arena_slice(job->arena, (const char *)value, length);
  s->fields += name_length + length;
  if (!text || s->fields > FIELD_BYTES) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  const base_str word = {text, length};
  if (!keep_field(s, key, word)) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  if (base_str_is(key, ":method")) job->method = word;
  else if (base_str_is(key, ":path")) job->path = word;
  else if (base_str_is(key, "authorization")) job->token = word;
  else if (base_str_is(key, ":authority") || base_str_is(key, "host")) job->host = word;
  else if (base_str_is(key, "origin")) job->origin = word;
  else if (base_str_is(key, "content-type")) s->is_grpc = base_str_starts(word, "application/grpc");
  else if (base_str_is(key, "x-request-id")) s->request_id = word;
  else if (base_str_is(key, "traceparent")) s->parent = word;
  else if (base_str_is(key, "content-encoding")) s->coding = word;
  else if (base_str_is(key, "inference-header-content-length")) s->length = word;
  else if (base_str_is(key, "grpc-encoding")) s->is_packed = base_str_is(word, "gzip");
  else if (base_str_is(key, "grpc-timeout")) job->limit_ns = timeout_of(word);
  return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t count,
                   void *user) {
  (void)flags;
  (void)user;
  stream *s = nghttp2_session_get_stream_user_data(session, id);
  nghttp2_session_consume_connection(session, count);
  if (s) s->moved_ns = sys_clock_ns();
  if (s && s->calls) {
    serve_calls_add(s->calls, bytes, count);
    s->kept += count;
    begin_calls(s);
    return 0;
  }
  nghttp2_session_consume_stream(session, id, count);
  if (s && !s->is_refused && !add_body(s, bytes, count)) s->is_refused = true;
  return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  serve_h2 *h = user;
  if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK)) h->has_read = h->is_asked;
  if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
  stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
  if (!s || s->in_flight) return 0;
  if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
    split_query(&s->job);
    const uint32_t kind = s->is_grpc ? serve_grpc_kind(&s->job) : 0;
    if (kind) open_calls(s, kind);
  }
  if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
  if (s->calls) {
    serve_calls_finish(s->calls);
    begin_calls(s);
  } else if (!s->job.status) {
    dispatch(s);
  }
  return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user) {
  (void)code;
  (void)user;
  stream *s = nghttp2_session_get_stream_user_data(session, id);
  if (!s) return 0;
  unlink_stream(s);
  if (is_idle(s)) free_stream(s);
  return 0;
}

static ssize_t on_send(nghttp2_session *session, const uint8_t *bytes, size_t count, int flags, void *user) {
  (void)session;
  (void)flags;
  serve_h2 *h = user;
  const ssize_t put = serve_send(h->channel, bytes, count, false);
  h->blocked = put < 0 && (errno == EAGAIN || errno == EINTR);
  if (put < 0) return h->blocked ? NGHTTP2_ERR_WOULDBLOCK : NGHTTP2_ERR_CALLBACK_FAILURE;
  return put;
}

/* ---- the connection ---- */

static bool make_session(serve_h2 *h) {
  nghttp2_session_callbacks *calls = NULL;
  nghttp2_option *option = NULL;
  bool made = nghttp2_session_callbacks_new(&calls) == 0 && nghttp2_option_new(&option) == 0;
  if (made) {
    nghttp2_session_callbacks_set_on_begin_headers_callback(calls, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
    nghttp2_session_callbacks_set_send_callback(calls, on_send);
    nghttp2_option_set_no_auto_window_update(option, 1); /* streams with calls give their windows back later */
    made = nghttp2_session_server_new2(&h->session, calls, h, option) == 0;
  }
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(calls);
  return made;
}

serve_h2 *serve_h2_open(serve_loop *loop, serve_channel *channel, const char *client, uint32_t roles,
                        void (*ready)(void *owner), void *owner) {
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, MOST_STREAMS},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
                                             {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, FIELD_BYTES}};
  serve_h2 *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  *h = (serve_h2){.frames = {.left = sizeof SERVE_H2_PREFACE - 1},
                  .server = loop->server,
                  .loop = loop,
                  .channel = channel,
                  .client = client,
                  .roles = roles,
                  .ready = ready,
                  .owner = owner};
  if (make_session(h) && nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, 3) == 0 &&
      nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, 16 * WINDOW) == 0)
    return h;
  serve_h2_close(h);
  return NULL;
}

bool serve_h2_receive(serve_h2 *h, const char *bytes, size_t count) {
  base_str from = {bytes, count}, part;
  while (serve_pass_frames(&h->frames, &from, &part)) {
    const ssize_t length = (ssize_t)part.length;
    if (length && nghttp2_session_mem_recv(h->session, (const uint8_t *)part.at, part.length) != length) return false;
  }
  return true;
}

/* The end of a connection: what the client sends to a socket that is closed resets it, and what it has not read is lost
 * then. It answers a PING when it has read all before it. */
static uint32_t ask_last(serve_h2 *h) {
  if (!h->is_ending || h->streams || h->is_asked) return 0;
  h->is_asked = true;
  return nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL) == 0;
}

/* What changed while a stream was still being told something else is told when that is sent. */
bool serve_h2_send(serve_h2 *h) {
  bool works;
  h->sending = true;
  do {
    h->blocked = false;
    works = nghttp2_session_send(h->session) == 0;
  } while (works && !h->blocked && serve_h2_watch(h) + go_on(h) + ask_last(h) > 0);
  h->sending = false;
  if (!works || h->is_broken) return false;
  if (h->is_ending && !h->streams) return h->blocked || !h->has_read;
  return nghttp2_session_want_read(h->session) || nghttp2_session_want_write(h->session); /* else it has failed */
}

int32_t serve_h2_expire(serve_h2 *h) {
  int32_t reset = 0;
  const uint64_t now = sys_clock_ns();
  for (stream *s = h->first; s; s = s->after) {
    const serve_job *job = &s->job;
    uint64_t bytes = s->replied_ns ? s->sent : job->received;
    const bool in_parts = s->parts.is_begun;
    if ((s->in_flight && !in_parts) || s->is_reset || is_waiting(s)) continue;
    const uint64_t begin_ns = s->calls        ? serve_calls_moving(s->calls, &bytes)
                              : s->replied_ns ? s->replied_ns
                                              : job->begun_ns;
    const uint64_t end_ns = in_parts ? serve_parts_expiry(&s->parts, h->server)
                                     : serve_transfer_end(h->server, begin_ns, s->moved_ns, bytes);
    if (!begin_ns || now <= end_ns) continue;
    if (h->blocked) return -1;
    if (!s->replied_ns) s->job.status = 408;
    s->is_reset = true;
    reset++;
    nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
  }
  return reset;
}

uint32_t serve_h2_watch(serve_h2 *h) {
  uint32_t told = 0;
  for (stream *s = h->listeners ? h->first : NULL; s; s = s->after) {
    if (!is_waiting(s)) continue; /* who is slow hears of the last change alone */
    const int32_t health = serve_grpc_health(h->server, s->job.watched);
    if (health == s->job.health) continue;
    serve_grpc_tell_health(&s->job, health);
    write_length(s);
    s->sent = 0;
    s->replied_ns = s->moved_ns = sys_clock_ns();
    told += nghttp2_session_resume_data(h->session, s->id) == 0;
  }
  return told;
}

bool serve_h2_blocked(const serve_h2 *h) { return h->blocked; }
uint32_t serve_h2_streams(const serve_h2 *h) { return h->streams; }

bool serve_h2_end(serve_h2 *h) {
  if (h->is_ending) return false;
  h->is_ending = true;
  nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h->session),
                        NGHTTP2_NO_ERROR, NULL, 0);
  for (stream *s = h->first; s; s = s->after) {
    if (!s->job.watched && !s->calls) continue;
    if (s->calls) serve_calls_stop(s->calls);
    s->is_last = true;
    nghttp2_session_resume_data(h->session, s->id);
  }
  return true;
}

void serve_h2_close(serve_h2 *h) {
  if (!h) return;
  while (h->first) {
    stream *s = h->first;
    unlink_stream(s);
    if (is_idle(s)) free_stream(s);
  }
  nghttp2_session_del(h->session);
  free(h);
}
