/* calls.c -- the messages of one gRPC stream. A message is five bytes of head, the first of which says whether it is
 * packed and the others its length, and as many bytes. Bounds: calls at once, of which a client that does not read its
 * replies has no more either; bytes of their messages; all of it is of the bytes that requests may hold together. */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h2.h"
#include "reply.h"

enum { HEAD = 5, MOST_CALLS = 16, FIRST_BYTES = 4096 };

typedef struct call {
  serve_job job;
  serve_calls *calls;
  struct call *next;
  size_t bytes;            /* of its message */
  serve_job *parts, *last; /* of the reply, that came before it is whole */
  bool is_done;
} call;

struct serve_calls {
  serve_job *stream;
  uint32_t kind, count, computed; /* calls there are, and those that are in a queue or computed */
  uint64_t taken;                 /* messages */
  bool is_packed, is_whole, is_stopped, is_cancelled;
  call *first, *last;
  size_t bytes; /* of the messages of these calls */
  size_t at;    /* of the stream's body, where what was not taken yet begins */
  size_t sent;  /* of what goes out now, its head included */
  uint8_t head[HEAD];
  uint64_t begun_ns, replied_ns; /* of what arrives and of what goes out */
  int32_t status;                /* of gRPC, with which it ends early; 0: it does not */
  char text[256];
  void (*ready)(void *owner);
  void *owner;
};

serve_calls *serve_calls_open(serve_job *stream, uint32_t kind, bool is_packed, void (*ready)(void *owner),
                              void *owner) {
  serve_calls *c = calloc(1, sizeof *c);
  if (c) *c = (serve_calls){.stream = stream, .kind = kind, .is_packed = is_packed, .ready = ready, .owner = owner};
  return c;
}

/* Bytes that have come and are not taken. */
static size_t left(const serve_calls *c) { return c->stream->count - c->at; }

static void end(serve_calls *c, int32_t status, const char *text, size_t length) {
  if (c->status) return;
  c->status = status;
  snprintf(c->text, sizeof c->text, "%.*s", (int)length, text);
  serve_free_body(c->stream);
  c->at = 0;
}

/* By the error that a job was answered with. */
static void end_by(serve_calls *c, const serve_job *job) {
  end(c, (int32_t)serve_grpc_status(job), job->reply.at ? job->reply.at : "", job->reply.length);
}

static void refuse(serve_calls *c, int32_t status, const char *text) {
  serve_job *job = c->stream;
  if (job->is_over) serve_refuse_memory(job);
  else serve_refuse(job, status, "%s", text);
  end_by(c, job);
  job->reply.length = 0;
  job->status = 200;
}

/* ---- replies ---- */

static void free_call(call *one) {
  serve_calls *c = one->calls;
  for (serve_job *part = one->parts, *next; part; part = next) {
    next = part->next;
    serve_free_part(part);
  }
  c->bytes -= one->bytes;
  c->count--;
  serve_free_job(&one->job);
  free(one);
}

static void pop(serve_calls *c) {
  call *one = c->first;
  c->first = one->next;
  if (!c->first) c->last = NULL;
  free_call(one);
}

/* What goes out next; NULL: nothing is ready. */
static serve_job *ready_part(const serve_calls *c) {
  call *one = c->first;
  if (!one) return NULL;
  return one->parts ? one->parts : one->is_done ? &one->job : NULL;
}

/* The reply of a job as a message. False: the stream ends by it. */
static bool shape(serve_job *job) {
  serve_grpc_shape(job);
  if (job->reply.failed || job->reply.length > UINT32_MAX) {
    job->reply.failed = false;
    job->shape = SERVE_PLAIN;
    job->status = job->is_over ? 503 : 507;
    serve_refuse(job, job->status, "there is no memory for the reply");
  }
  job->grpc_status = job->status < 300 ? 0 : (int32_t)serve_grpc_status(job);
  return job->status < 300 || job->shape >= SERVE_STREAMED;
}

/* For the figures, and what the access log says of the stream. */
static void note(serve_calls *c, const serve_job *job) {
  serve_job *stream = c->stream;
  stream->server->replies[job->status < 300 ? 0 : job->status < 500 ? 1 : 2]++;
  if (c->kind & SERVE_TAKES_MANY) return; /* it may use many models, and not hold them as long as it lasts */
  stream->queued_ns = job->queued_ns;
  stream->computed_ns = job->computed_ns;
  stream->version = job->version;
  if (job->version) serve_keep(stream->version);
}

static void respond(serve_job *job) {
  call *one = job->owner;
  serve_calls *c = one->calls;
  c->computed--;
  one->is_done = true;
  if (c->is_cancelled) job->status = 499;
  else if (!shape(job)) end_by(c, job);
  note(c, job);
  if (one == c->first) c->replied_ns = sys_clock_ns();
  c->ready(c->owner);
}

static void extend(serve_job *job, serve_job *part) {
  call *one = job->owner;
  serve_calls *c = one->calls;
  part->shape = job->shape;
  part->status = 200;
  if (c->is_cancelled || c->status || !shape(part)) {
    if (!c->is_cancelled && !c->status) end_by(c, part);
    serve_free_part(part);
    return;
  }
  part->next = NULL;
  if (one->parts) one->last->next = part;
  else one->parts = part;
  one->last = part;
  if (part == ready_part(c)) c->replied_ns = sys_clock_ns();
  c->ready(c->owner);
}

/* The call that is in front has been sent as far as it is there. */
static void drop_part(serve_calls *c, serve_job *part) {
  call *one = c->first;
  c->sent = 0;
  c->replied_ns = sys_clock_ns();
  if (part == &one->job) {
    pop(c);
    return;
  }
  one->parts = part->next;
  serve_free_part(part);
}

size_t serve_calls_read(serve_calls *c, uint8_t *to, size_t room) {
  size_t put = 0;
  for (serve_job *part; put < room && (part = ready_part(c));) {
    const base_text *reply = &part->reply;
    if (part == &c->first->job && c->status && part->status >= 300 && part->shape < SERVE_STREAMED) {
      pop(c); /* it is the stream's status */
      continue;
    }
    if (!c->sent)
      for (int i = 0; i < 4; i++) c->head[1 + i] = (uint8_t)(reply->length >> (24 - 8 * i));
    const bool in_head = c->sent < HEAD;
    const char *from = in_head ? (const char *)c->head + c->sent : reply->at + (c->sent - HEAD);
    const size_t left = (in_head ? HEAD : HEAD + reply->length) - c->sent, most = room - put;
    const size_t count = left < most ? left : most;
    if (count) memcpy(to + put, from, count);
    put += count;
    c->sent += count;
    if (c->sent == HEAD + reply->length) drop_part(c, part);
  }
  return put;
}

int32_t serve_calls_status(const serve_calls *c, const char **text) {
  *text = c->text;
  if (c->first) return -1;
  if (c->status) return c->status;
  return c->is_whole && !left(c) ? 0 : -1;
}

/* ---- requests ---- */

void serve_calls_add(serve_calls *c, const void *bytes, size_t count) {
  serve_job *job = c->stream;
  if (c->status || c->is_stopped) return; /* it is thrown away */
  if (count > job->cap - job->count) {
    size_t wanted = base_max_size(job->cap * 2, FIRST_BYTES);
    wanted = base_max_size(wanted, job->count + count);
    if (!serve_grow_body(job, wanted)) {
      refuse(c, 507, "out of memory");
      return;
    }
  }
  if (!left(c)) c->begun_ns = sys_clock_ns();
  if (count) memcpy(job->body + job->count, bytes, count);
  job->count += count;
  job->received += count;
}

void serve_calls_finish(serve_calls *c) { c->is_whole = true; }

void serve_calls_stop(serve_calls *c) {
  static const char text[] = "the server ends";
  if (c->is_whole && !left(c)) return;
  c->is_stopped = true;
  end(c, SERVE_GRPC_UNAVAILABLE, text, sizeof text - 1);
}

void serve_calls_cancel(serve_calls *c) {
  c->is_cancelled = true;
  for (call *one = c->first; one; one = one->next)
    if (!one->is_done) serve_cancel(&one->job);
}

bool serve_calls_has_room(const serve_calls *c) {
  const size_t most = (size_t)c->stream->server->options.most_bytes;
  return c->status || (c->count < MOST_CALLS && c->bytes < most);
}

/* A call whose job has the stream's head. NULL: out of memory. */
static call *make_call(serve_calls *c) {
  const serve_job *stream = c->stream;
  call *one = calloc(1, sizeof *one);
  if (!one) return NULL;
  one->calls = c;
  one->job = (serve_job){.owner = one,
                         .respond = respond,
                         .extend = c->kind & SERVE_GIVES_MANY ? extend : NULL,
                         .client = stream->client,
                         .method = stream->method,
                         .path = stream->path,
                         .token = stream->token,
                         .host = stream->host,
                         .origin = stream->origin,
                         .roles = stream->roles,
                         .is_torch = stream->is_torch,
                         .is_grpc = true,
                         .fields = stream->fields,
                         .field_count = stream->field_count,
                         .type = stream->type,
                         .json_count = -1,
                         .begun_ns = sys_clock_ns()};
  memcpy(one->job.id, stream->id, sizeof one->job.id);
  serve_begin_job(&one->job, stream->loop);
  one->job.arena = base_arena_new(&one->job.memory);
  if (stream->limit_ns) { /* of which a part is over */
    const uint64_t end_ns = stream->begun_ns + stream->limit_ns, now = one->job.begun_ns;
    one->job.limit_ns = end_ns > now ? end_ns - now : 1;
  }
  if (c->last) c->last->next = one;
  else c->first = one;
  c->last = one;
  c->count++;
  return one;
}

static void begin(serve_calls *c, const char *message, size_t length, bool packed) {
  call *one = make_call(c);
  serve_job *job = one ? &one->job : c->stream;
  c->taken++;
  if (!one || !job->arena || !serve_grow_body(job, length + 1)) {
    if (job->is_over) serve_refuse_memory(job);
    else serve_refuse(job, 507, "out of memory");
    end_by(c, job);
    if (one) one->is_done = true;
    return;
  }
  if (length) memcpy(job->body, message, length);
  job->count = job->received = length;
  c->computed++;
  const bool is_there = !packed || serve_decode(job, BASE_STR("gzip"));
  c->bytes += one->bytes = job->count;
  if (!is_there || serve_grpc(job)) respond(job);
}

/* The length of the message in front, once its head has come; -1: it has not, or the stream ends by it. */
static int64_t next_length(serve_calls *c) {
  const serve_job *job = c->stream;
  if (left(c) < HEAD) {
    if (c->is_whole && left(c)) refuse(c, 400, "the last message is not whole");
    return -1;
  }
  const uint8_t *head = (const uint8_t *)job->body + c->at;
  const uint32_t length = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
  if (head[0] > 1 || (head[0] && !c->is_packed)) refuse(c, 400, "a message is packed in a way that was not said");
  else if (length > (uint64_t)job->server->options.most_bytes) refuse(c, 413, "the request is too large");
  else if (c->taken && !(c->kind & SERVE_TAKES_MANY)) refuse(c, 400, "the request is not one message");
  else if (c->is_whole && length > left(c) - HEAD) refuse(c, 400, "the last message is not whole");
  else return length;
  return -1;
}

/* Room for what comes next; a stream may wait for it for long. */
static void drop_taken(serve_calls *c) {
  serve_job *job = c->stream;
  if (!left(c)) serve_free_body(job);
  else if (c->at > left(c)) memmove(job->body, job->body + c->at, job->count -= c->at);
  else return;
  c->at = 0;
}

uint32_t serve_calls_begin(serve_calls *c) {
  const serve_job *job = c->stream;
  uint32_t begun = 0;
  while (!c->status && serve_calls_has_room(c)) {
    const int64_t next = next_length(c);
    const size_t length = (size_t)next;
    if (next < 0 || length > left(c) - HEAD) break;
    const char *head = job->body + c->at;
    c->at += HEAD + length;
    c->begun_ns = sys_clock_ns();
    begin(c, head + HEAD, length, head[0] != 0);
    begun++;
  }
  if (!c->status && c->is_whole && !c->taken && !(c->kind & SERVE_TAKES_MANY))
    refuse(c, 400, "the request has no message");
  if (begun && !c->status) drop_taken(c);
  return begun;
}

uint64_t serve_calls_moving(const serve_calls *c, uint64_t *bytes) {
  const bool replies = ready_part(c) != NULL;
  *bytes = replies ? c->sent : left(c);
  if (replies) return c->replied_ns;
  return left(c) && serve_calls_has_room(c) ? c->begun_ns : 0;
}

bool serve_calls_idle(const serve_calls *c) { return !c->computed; }

void serve_calls_free(serve_calls *c) {
  if (!c) return;
  while (c->first) pop(c);
  free(c);
}
