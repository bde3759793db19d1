/* answer.c -- what a reply says of itself: a status, and an error as the route's protocol writes it; and what a
 * request's query says. */
#include "server.h"

#include <stdio.h>
#include <string.h>

/* TorchServe's exception of a status. */
static const struct {
  int32_t status;
  const char *type;
} exceptions[] = {
    {400, "BadRequestException"},       {403, "IllegalArgumentException"},    {404, "ResourceNotFoundException"},
    {405, "MethodNotAllowedException"}, {408, "RequestTimeoutException"},     {409, "ConflictStatusException"},
    {413, "TooLongFrameException"},     {421, "BadRequestException"},         {503, "ServiceUnavailableException"},
    {504, "RequestTimeoutException"},   {507, "InsufficientStorageException"}};

static const char *exception_of(int32_t status) {
  for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
    if (exceptions[i].status == status) return exceptions[i].type;
  return "InternalServerException";
}

/* Where memory ended while the request was read, what it lacks may be what there was no room for: no client is blamed.
 */
static void refuse(serve_job *job, int32_t status, const char *type, const char *format, va_list args) {
  char text[2048];
  vsnprintf(text, sizeof text, format, args);
  if (status < 500 && status != 413 && job->arena && base_arena_failed(job->arena)) {
    status = job->is_over ? 503 : 507;
    type = NULL;
    strcpy(text, "out of memory");
  }
  job->reply.length = 0;
  job->reply_json = 0;
  job->status = status;
  job->type = "application/json";
  if (job->is_grpc) {
    base_text_add(&job->reply, text, strlen(text));
    return;
  }
  if (job->is_torch)
    base_text_print(&job->reply, "{\n  \"code\": %d,\n  \"type\": \"%s\",\n  \"message\": ", status,
                    type ? type : exception_of(status));
  else base_text_print(&job->reply, "{\"error\":");
  base_text_quote(&job->reply, text, strlen(text));
  base_text_print(&job->reply, job->is_torch ? "\n}\n" : "}");
}

void serve_refuse(serve_job *job, int32_t status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  refuse(job, status, NULL, format, args);
  va_end(args);
}

void serve_refuse_as(serve_job *job, int32_t status, const char *type, const char *format, ...) {
  va_list args;
  va_start(args, format);
  refuse(job, status, type, format, args);
  va_end(args);
}

void serve_refuse_memory(serve_job *job) {
  const uint64_t most = (uint64_t)job->server->options.most_held;
  const bool alone = job->refused_bytes > most || job->held > most - job->refused_bytes;
  if (alone)
    serve_refuse(job, 413, "the request takes more memory than all requests may together (--most-held, %llu bytes)",
                 (unsigned long long)most);
  else serve_refuse(job, 503, "the server holds as many bytes of requests as it may (--most-held): try again later");
}

void serve_fail(serve_job *job, td_status status, const td_error *err) {
  if (status == TD_CANCELLED || status == TD_TIMED_OUT) {
    const bool gone = status == TD_CANCELLED;
    serve_refuse(job, gone ? 499 : 504, "%s", gone ? "the client has gone" : "the request's time is up");
    return;
  }
  if (job->is_over) {
    serve_refuse_memory(job);
    return;
  }
  const bool asked_wrong = status == TD_BAD_ARGUMENT || status == TD_BAD_FILE || status == TD_UNSUPPORTED;
  const int32_t code = asked_wrong ? 400 : status == TD_NO_RESOURCE ? 507 : 500;
  serve_refuse(job, code, "%s%s%s", err->name, err->name[0] ? ": " : "", err->text);
}

void serve_answer(serve_job *job, int32_t status, const char *format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  job->status = status;
  base_text_add(&job->reply, text, strlen(text));
}

const char *serve_query(const serve_job *job, const char *name) {
  const size_t length = strlen(name);
  if (!job->query.at) return NULL;
  for (const char *at = job->query.at, *end = at + job->query.length; at < end;) {
    const char *next = memchr(at, '&', (size_t)(end - at));
    const size_t count = (size_t)((next ? next : end) - at);
    if (count > length && at[length] == '=' && memcmp(at, name, length) == 0) {
      char *text = base_arena_slice(job->arena, at + length + 1, count - length - 1);
      size_t left = count - length - 1;
      for (char *plus = text; plus && (plus = memchr(plus, '+', (size_t)(text + left - plus)));) *plus = ' ';
      if (!text || !http_unescape(text, &left)) return NULL;
      text[left] = 0;
      return text;
    }
    at += count + 1;
  }
  return NULL;
}
