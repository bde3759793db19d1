/* grpc.c -- the gRPC services: KServe's inference.GRPCInferenceService (raw tensors in and out, typed ones in), health,
 * and TorchServe's inference and management, whose messages hold what the REST routes answer. */
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "fmt/wire.h"
#include "h2.h"

enum { MOST_TEXT = 4096, MOST_LISTENERS = 256 };

/* gRPC's statuses. */
enum {
  CANCELLED = 1,
  INVALID_ARGUMENT = 3,
  DEADLINE_EXCEEDED = 4,
  NOT_FOUND = 5,
  ALREADY_EXISTS = 6,
  PERMISSION_DENIED = 7,
  RESOURCE_EXHAUSTED = 8,
  FAILED_PRECONDITION = 9,
  UNIMPLEMENTED = 12,
  INTERNAL = 13,
  UNAUTHENTICATED = 16
};

static const struct {
  int32_t http;
  uint32_t grpc;
} statuses[] = {{400, INVALID_ARGUMENT},   {401, UNAUTHENTICATED},     {403, PERMISSION_DENIED},
                {404, NOT_FOUND},          {405, FAILED_PRECONDITION}, {409, ALREADY_EXISTS},
                {413, RESOURCE_EXHAUSTED}, {415, UNIMPLEMENTED},       {429, RESOURCE_EXHAUSTED},
                {499, CANCELLED},          {501, UNIMPLEMENTED},       {503, SERVE_GRPC_UNAVAILABLE},
                {504, DEADLINE_EXCEEDED},  {507, RESOURCE_EXHAUSTED}};

uint32_t serve_grpc_status(const serve_job *job) {
  if (job->is_full || (job->is_over && job->status == 503)) return RESOURCE_EXHAUSTED;
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
    if (statuses[i].http == job->status) return statuses[i].grpc;
  return INTERNAL;
}

static bool bad_message(serve_job *job, const td_error *err) {
  serve_refuse(job, 400, "the message is damaged: %s", err->text);
  return true;
}

static td_status bad(td_error *err, const char *name, const char *text) {
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "%s", text);
}

/* The texts of a message's fields 1 to `count`, in the arena; those that are empty or not there are NULL. */
static td_status read_texts(serve_job *job, const char **texts, uint32_t count, td_error *err) {
  fmt_wire w = fmt_wire_of(job->body, job->count);
  while (fmt_wire_more(&w)) {
    fmt_field f;
    base_str text;
    TRY(fmt_wire_next(&w, &f, err));
    if (f.number > count || f.type != FMT_BYTES) continue;
    TRY(fmt_field_str(&f, "a text", &text, err));
    if (text.length > MOST_TEXT) return bad(err, NULL, "a text is too long");
    char *copy = base_arena_slice(job->arena, text.at, text.length);
    if (!copy) return base_no_memory(err, "a text");
    texts[f.number - 1] = text.length && !memchr(copy, 0, text.length) ? copy : NULL;
  }
  return TD_OK;
}

/* ---- KServe: health and descriptions ---- */

static bool say_true(serve_job *job) {
  fmt_put_int(&job->reply, 1, 1);
  job->status = 200;
  return true;
}

static bool server_ready(serve_job *job) {
  if (!job->server->draining) return say_true(job);
  job->status = 200; /* false is not written */
  return true;
}

/* Of grpc.health.v1. */
enum { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

int32_t serve_grpc_health(serve_server *server, const char *service) {
  const bool is_server = !*service || !strcmp(service, "inference.GRPCInferenceService");
  if (is_server) return server->draining ? NOT_SERVING : SERVING;
  pthread_mutex_lock(&server->tables);
  const serve_version *v = serve_find_version(server, service, NULL);
  const int32_t health = !v ? SERVICE_UNKNOWN : server->draining || !serve_is_ready(v) ? NOT_SERVING : SERVING;
  pthread_mutex_unlock(&server->tables);
  return health;
}

void serve_grpc_tell_health(serve_job *job, int32_t health) {
  job->health = health;
  job->reply.length = 0;
  fmt_put_int(&job->reply, 1, health);
  job->status = 200;
}

static bool read_service(serve_job *job, const char **service) {
  td_error err = {.offset = -1};
  *service = NULL;
  if (read_texts(job, service, 1, &err) != TD_OK) return !bad_message(job, &err);
  if (!*service) *service = "";
  return true;
}

static bool health_check(serve_job *job) {
  const char *service;
  if (!read_service(job, &service)) return true;
  const int32_t health = serve_grpc_health(job->server, service);
  if (health == SERVICE_UNKNOWN) serve_refuse(job, 404, "there is no service called %s", service);
  else serve_grpc_tell_health(job, health);
  return true;
}

/* The stream goes on (serve_h2_watch). */
static bool health_watch(serve_job *job) {
  const char *service;
  if (!read_service(job, &service)) return true;
  if (job->server->listeners == MOST_LISTENERS) {
    serve_refuse(job, 429, "%d streams watch health already, as many as are allowed: ask with Check", MOST_LISTENERS);
    return true;
  }
  job->server->listeners++;
  job->watched = service;
  serve_grpc_tell_health(job, serve_grpc_health(job->server, job->watched));
  return true;
}

/* The version that fields 1 and 2 name. */
static bool find(serve_job *job, const char **texts) {
  return serve_find(job, texts[0] ? texts[0] : "", texts[1]) != NULL;
}

static bool model_ready(serve_job *job) {
  const char *texts[2] = {NULL, NULL};
  td_error err = {.offset = -1};
  if (read_texts(job, texts, 2, &err) != TD_OK) return bad_message(job, &err);
  if (!find(job, texts)) return true;
  if (!job->server->draining && serve_is_ready(job->version)) return say_true(job);
  job->status = 200;
  return true;
}

static bool server_metadata(serve_job *job) {
  fmt_put_str(&job->reply, 1, "treadle");
  fmt_put_str(&job->reply, 2, td_version());
  fmt_put_str(&job->reply, 3, "model_repository");
  fmt_put_str(&job->reply, 3, "sequence");
  job->status = 200;
  return true;
}

static void put_message(serve_job *job, uint32_t number, const base_text *message) {
  if (message->failed) job->reply.failed = true;
  fmt_put_bytes(&job->reply, number, message->at, message->length);
}

static void put_values(serve_job *job, uint32_t number, bool inputs) {
  const td_model *model = job->version->model;
  const size_t count = !model ? 0 : inputs ? td_model_input_count(model) : td_model_output_count(model);
  for (size_t i = 0; i < count; i++) {
    td_value_info info = {.size = sizeof info};
    base_text text = {.allocator = &base_libc_allocator}, shape = {.allocator = &base_libc_allocator};
    if ((inputs ? td_model_input : td_model_output)(model, i, &info, NULL) != TD_OK) continue;
    const char *type = serve_datatype(info.dtype);
    fmt_put_str(&text, 1, info.name);
    fmt_put_str(&text, 2, type ? type : "");
    for (int32_t d = 0; d < info.rank; d++) fmt_put_varint(&shape, (uint64_t)info.dims[d]);
    fmt_put_bytes(&text, 3, shape.at, shape.length);
    put_message(job, number, &text);
    base_text_free(&text);
    base_text_free(&shape);
  }
}

static bool model_metadata(serve_job *job) {
  const char *texts[2] = {NULL, NULL};
  td_error err = {.offset = -1};
  if (read_texts(job, texts, 2, &err) != TD_OK) return bad_message(job, &err);
  if (!find(job, texts)) return true;
  const serve_model *m = serve_find_model(job->server, texts[0]);
  fmt_put_str(&job->reply, 1, m->name);
  for (uint32_t i = 0; i < m->count; i++) fmt_put_str(&job->reply, 2, m->versions[i]->number);
  fmt_put_str(&job->reply, 3, "treadle");
  put_values(job, 4, true);
  put_values(job, 5, false);
  job->status = 200;
  return true;
}

/* ---- KServe: inference ---- */

static td_status put_output(serve_job *job, const td_tensor *outputs, size_t index, td_error *err) {
  td_value_info info = {.size = sizeof info};
  const td_tensor *t = &outputs[index];
  base_text text = {.allocator = &base_libc_allocator}, shape = {.allocator = &base_libc_allocator};
  int64_t count;
  size_t bytes;
  TRY(td_model_output(job->version->model, index, &info, err));
  const char *type = t->dtype == TD_INVALID ? NULL : serve_datatype(t->dtype);
  if (!type || !base_numel(t->rank, t->dims, &count) || !base_dtype_bytes(t->dtype, count, &bytes))
    return base_fail(err, TD_UNSUPPORTED, info.name, -1, "is of a type that the protocol does not have");
  fmt_put_str(&text, 1, info.name);
  fmt_put_str(&text, 2, type);
  for (int32_t d = 0; d < t->rank; d++) fmt_put_varint(&shape, (uint64_t)t->dims[d]);
  fmt_put_bytes(&text, 3, shape.at, shape.length);
  put_message(job, 5, &text);
  base_text_free(&text);
  base_text_free(&shape);
  return TD_OK;
}

/* Straight into the reply from where it was computed. */
static void put_raw(serve_job *job, const td_tensor *t) {
  int64_t count;
  size_t bytes;
  if (!base_numel(t->rank, t->dims, &count) || !base_dtype_bytes(t->dtype, count, &bytes))
    return; /* put_output fails */
  if (t->dtype != TD_STRING) {
    fmt_put_bytes(&job->reply, 6, t->data, bytes);
    return;
  }
  base_text text = {.allocator = &base_libc_allocator};
  serve_put_strings(&text, t, count);
  put_message(job, 6, &text);
  base_text_free(&text);
}

/* The name of an output that field 6 of a request asks for. */
static td_status asked_output(const serve_job *job, const fmt_field *f, size_t *index, td_error *err) {
  fmt_wire w;
  char name[256] = "";
  TRY(fmt_field_message(f, "an output", &w, err));
  while (fmt_wire_more(&w)) {
    fmt_field inner;
    base_str text;
    TRY(fmt_wire_next(&w, &inner, err));
    if (inner.number != 1) continue;
    TRY(fmt_field_str(&inner, "a name", &text, err));
    if (text.length >= sizeof name) return bad(err, NULL, "an output's name is too long");
    memcpy(name, text.at, text.length);
    name[text.length] = 0;
  }
  return td_model_find_output(job->version->model, name, index, err);
}

/* All descriptions, and then all contents, in the same order. */
static td_status write_reply(serve_job *job, const td_tensor *outputs, td_error *err) {
  fmt_wire w = fmt_wire_of(job->body, job->count);
  const size_t all = td_model_output_count(job->version->model);
  size_t asked = 0, *indices = base_new(job->arena, size_t, all + 1);
  if (!indices) return base_no_memory(err, "the reply");
  fmt_put_str(&job->reply, 1, job->version->name);
  fmt_put_str(&job->reply, 2, job->version->number);
  while (fmt_wire_more(&w)) {
    fmt_field f;
    size_t index;
    TRY(fmt_wire_next(&w, &f, err));
    if (f.number == 3 && f.type == FMT_BYTES) fmt_put_bytes(&job->reply, 3, f.bytes.at, fmt_wire_left(&f.bytes));
    if (f.number != 6 || f.type != FMT_BYTES) continue;
    TRY(asked_output(job, &f, &index, err));
    TRY(put_output(job, outputs, index, err));
    indices[asked++] = index;
  }
  for (size_t i = 0; !asked && i < all; i++) TRY(put_output(job, outputs, i, err));
  for (size_t i = 0; i < (asked ? asked : all); i++) put_raw(job, &outputs[asked ? indices[i] : i]);
  return TD_OK;
}

/* What cannot be replied is refused before it is computed, as in v2.c. */
static td_status read_infer(serve_job *job, td_error *err) {
  size_t index, asked = 0;
  for (fmt_wire w = fmt_wire_of(job->body, job->count); fmt_wire_more(&w);) {
    fmt_field f;
    TRY(fmt_wire_next(&w, &f, err));
    if (f.number != 6 || f.type != FMT_BYTES) continue;
    if (asked++ == td_model_output_count(job->version->model))
      return bad(err, NULL, "more outputs are asked for than the model has");
    TRY(asked_output(job, &f, &index, err));
  }
  return serve_grpc_read(job, err);
}

static const serve_protocol infer_protocol = {read_infer, write_reply};

/* The same for inference. */
static bool find_turn(serve_job *job, const char **texts) {
  return serve_find_turn(job, texts[0] ? texts[0] : "", texts[1]) != NULL;
}

static bool model_infer(serve_job *job) {
  const char *texts[2] = {NULL, NULL};
  td_error err = {.offset = -1};
  if (read_texts(job, texts, 2, &err) != TD_OK) return bad_message(job, &err);
  return !find_turn(job, texts) || !serve_grpc_name(job) || serve_enter(job, &infer_protocol);
}

/* Triton's bidirectional stream: who asks knows by a parameter that no more replies to the request come. */
static td_status write_streamed(serve_job *job, const td_tensor *outputs, td_error *err) {
  static const char key[] = "triton_final_response";
  base_text entry = {.allocator = &base_libc_allocator}, value = entry;
  TRY(write_reply(job, outputs, err));
  fmt_put_int(&value, 1, 1);
  fmt_put_str(&entry, 1, key);
  fmt_put_bytes(&entry, 2, value.at, value.length);
  put_message(job, 4, &entry);
  base_text_free(&value);
  base_text_free(&entry);
  return TD_OK;
}

static const serve_protocol stream_protocol = {read_infer, write_streamed};

static bool model_stream_infer(serve_job *job) {
  const char *texts[3] = {NULL, NULL, NULL};
  td_error err = {.offset = -1};
  job->shape = SERVE_STREAMED;
  if (read_texts(job, texts, 3, &err) != TD_OK) return bad_message(job, &err);
  job->order_name = texts[2];
  return !find_turn(job, texts) || !serve_grpc_name(job) || serve_enter(job, &stream_protocol);
}

/* ---- KServe: the repository ---- */

static bool repository_index(serve_job *job) {
  pthread_mutex_lock(&job->server->lock);
  for (uint32_t i = 0; i < job->server->model_count; i++)
    for (uint32_t j = 0; j < job->server->models[i]->count; j++) {
      const serve_version *v = job->server->models[i]->versions[j];
      base_text text = {.allocator = &base_libc_allocator};
      fmt_put_str(&text, 1, v->name);
      fmt_put_str(&text, 2, v->number);
      fmt_put_str(&text, 3, v->session_count ? "READY" : "UNAVAILABLE");
      put_message(job, 1, &text);
      base_text_free(&text);
    }
  pthread_mutex_unlock(&job->server->lock);
  job->status = 200;
  return true;
}

/* KServe has the model's name in field 1, Triton in field 2 behind that of a repository. */
static bool repository(serve_job *job, bool (*answer)(serve_job *, char **)) {
  const char *texts[2] = {NULL, NULL};
  td_error err = {.offset = -1};
  if (read_texts(job, texts, 2, &err) != TD_OK) return bad_message(job, &err);
  const char *name = texts[1] ? texts[1] : texts[0];
  if (!name) {
    serve_refuse(job, 400, "the request names no model");
    return true;
  }
  char *parts[2] = {base_arena_text(job->arena, name), NULL};
  job->shape = parts[0] ? SERVE_REPOSITORY : SERVE_PLAIN;
  job->order_name = parts[0];
  return answer(job, parts);
}

static bool repository_load(serve_job *job) { return repository(job, serve_repository_load); }
static bool repository_unload(serve_job *job) { return repository(job, serve_repository_unload); }

/* ---- TorchServe ---- */

/* A field's value as a query has it. */
static void put_value(base_text *query, const fmt_field *f, bool is_truth) {
  if (f->type == FMT_BYTES)
    for (const uint8_t *at = f->bytes.at; at < f->bytes.end; at++) base_text_print(query, "%%%02X", *at);
  else if (is_truth) base_text_print(query, "%s", f->value ? "true" : "false");
  else base_text_print(query, "%lld", (long long)(int32_t)f->value);
}

/* The fields of a message as parts of a path and as a query. `names`: by number from 1, what the REST route calls them;
 * "0" and "1": part of the path; NULL: has no meaning. */
static td_status read_fields(serve_job *job, const char *const *names, uint32_t count, char **parts, td_error *err) {
  fmt_wire w = fmt_wire_of(job->body, job->count);
  base_text query = {.allocator = &base_libc_allocator};
  td_status status = TD_OK;
  while (status == TD_OK && fmt_wire_more(&w)) {
    fmt_field f;
    status = fmt_wire_next(&w, &f, err);
    const char *name = status == TD_OK && f.number <= count ? names[f.number - 1] : NULL;
    if (!name) continue;
    if (f.type == FMT_BYTES && *name < '2') {
      char *part = base_arena_slice(job->arena, (const char *)f.bytes.at, fmt_wire_left(&f.bytes));
      parts[*name - '0'] = part && *part ? part : NULL;
    } else {
      base_text_print(&query, "%s%s=", query.length ? "&" : "", name);
      put_value(&query, &f, strcmp(name, "synchronous") == 0);
    }
  }
  if (status == TD_OK) {
    char *copy = base_arena_slice(job->arena, query.at ? query.at : "", query.length);
    if (!copy || query.failed) status = base_no_memory(err, "a request");
    else job->query = (base_str){copy, query.length};
  }
  base_text_free(&query);
  job->count = 0; /* the routes' own bodies are JSON */
  return status;
}

static bool manage(serve_job *job, const char *const *names, uint32_t count, bool needs_name,
                   bool (*answer)(serve_job *, char **)) {
  char *parts[2] = {NULL, NULL};
  td_error err = {.offset = -1};
  if (read_fields(job, names, count, parts, &err) != TD_OK) return bad_message(job, &err);
  job->shape = SERVE_WRAPPED;
  if (needs_name && !parts[0]) {
    serve_refuse(job, 400, "the request names no model");
    return true;
  }
  return answer(job, parts);
}

static bool describe(serve_job *job) {
  static const char *const names[] = {"0", "1", "customized"};
  return manage(job, names, 3, true, serve_describe);
}

static bool list(serve_job *job) {
  static const char *const names[] = {"limit", "next_page_token"};
  return manage(job, names, 2, false, serve_list);
}

static bool add_model(serve_job *job) {
  static const char *const names[] = {
      "batch_size",  NULL, "initial_workers", "max_batch_delay", "model_name", "response_timeout", NULL,
      "synchronous", "url"};
  return manage(job, names, 9, false, serve_register);
}

static bool scale(serve_job *job) {
  static const char *const names[] = {"0", "1", "max_worker", "min_worker", NULL, "synchronous"};
  return manage(job, names, 6, true, serve_scale_workers);
}

static bool set_default(serve_job *job) {
  static const char *const names[] = {"0", "1"};
  return manage(job, names, 2, true, serve_set_default);
}

static bool remove_model(serve_job *job) {
  static const char *const names[] = {"0", "1"};
  return manage(job, names, 2, true, serve_unregister);
}

static bool torch_ping(serve_job *job) {
  job->shape = SERVE_WRAPPED;
  return serve_ping(job, NULL);
}

/* PredictionsRequest: the input called `data`, else `body`, is what a REST body is; others have the names of its header
 * fields. */
static bool predict(serve_job *job) {
  const char *texts[2] = {NULL, NULL};
  td_error err = {.offset = -1};
  base_str input = {NULL, 0}, sequence = {NULL, 0};
  bool starts = false, ends = false;
  fmt_wire w = fmt_wire_of(job->body, job->count);
  if (read_texts(job, texts, 2, &err) != TD_OK) return bad_message(job, &err);
  while (fmt_wire_more(&w)) {
    fmt_field f, inner;
    base_str key = {NULL, 0}, value = {NULL, 0};
    if (fmt_wire_next(&w, &f, &err) != TD_OK) return bad_message(job, &err);
    if (f.number == 4 && f.type == FMT_BYTES) sequence = (base_str){(const char *)f.bytes.at, fmt_wire_left(&f.bytes)};
    if (f.number != 3 || f.type != FMT_BYTES) continue;
    for (fmt_wire entry = f.bytes; fmt_wire_more(&entry);) {
      if (fmt_wire_next(&entry, &inner, &err) != TD_OK) return bad_message(job, &err);
      if (inner.type != FMT_BYTES) continue;
      *(inner.number == 1 ? &key : &value) = (base_str){(const char *)inner.bytes.at, fmt_wire_left(&inner.bytes)};
    }
    if (base_str_is(key, "data") || (base_str_is(key, "body") && !input.at)) input = value;
    starts = starts || (base_str_is(key, SERVE_SEQUENCE_START) && serve_is_true(value));
    ends = ends || (base_str_is(key, SERVE_SEQUENCE_END) && serve_is_true(value));
  }
  if (!find_turn(job, texts)) return true;
  if (starts && !sequence.length) { /* its client learns the id by the reply */
    char *made = base_arena_format(job->arena, "ts-seq-%016llx%llx", (unsigned long long)job->server->started_ns,
                                   (unsigned long long)++job->server->requests);
    if (made) sequence = base_str_of(made);
  }
  if (job->version->python) { /* its handler has all inputs, and knows the sequences by itself */
    if (sequence.length) job->sequence_id = sequence;
    return serve_predict(job);
  }
  job->begins = true;
  if (!serve_name_sequence(job, sequence.length ? sequence : (base_str){NULL, 0}, starts, ends)) return true;
  job->count = input.length;
  if (input.length) memmove(job->body, input.at, input.length);
  return serve_predict(job);
}

static bool predictions(serve_job *job) {
  job->shape = SERVE_WRAPPED;
  return predict(job);
}

/* Both sides talk: what is wrong with a request is told in its place. */
static bool stream_predictions(serve_job *job) {
  job->shape = SERVE_TALKED;
  return predict(job);
}

/* ---- the table ---- */

/* Needs no token; needs --enable-model-api; takes and gives several messages; takes server->tables where it needs them,
 * since it reads the message. */
enum { OPEN = 1, API = 2, TAKES = 4, GIVES = 8, READS = 16 };
#define KSERVE "/inference.GRPCInferenceService/"
#define TORCH_OIP "/org.pytorch.serve.grpc.openinference.GRPCInferenceService/"
#define TORCH "/org.pytorch.serve.grpc.inference.InferenceAPIsService/"
#define MANAGE "/org.pytorch.serve.grpc.management.ManagementAPIsService/"

static const struct method {
  const char *path;
  uint32_t role, flags;
  bool (*answer)(serve_job *job);
} methods[] = {
    {KSERVE "ModelInfer", SERVE_INFER, READS, model_infer},
    {KSERVE "ModelStreamInfer", SERVE_INFER, TAKES | GIVES | READS, model_stream_infer},
    {KSERVE "ServerLive", SERVE_INFER, OPEN, say_true},
    {KSERVE "ServerReady", SERVE_INFER, OPEN, server_ready},
    {KSERVE "ModelReady", SERVE_INFER, OPEN, model_ready},
    {KSERVE "ServerMetadata", SERVE_INFER, OPEN, server_metadata},
    {KSERVE "ModelMetadata", SERVE_INFER, 0, model_metadata},
    {KSERVE "RepositoryIndex", SERVE_INFER, 0, repository_index},
    {KSERVE "RepositoryModelLoad", SERVE_MANAGE, API, repository_load},
    {KSERVE "RepositoryModelUnload", SERVE_MANAGE, API, repository_unload},
    {TORCH_OIP "ModelInfer", SERVE_INFER, READS, model_infer},
    {TORCH_OIP "ServerLive", SERVE_INFER, OPEN, say_true},
    {TORCH_OIP "ServerReady", SERVE_INFER, OPEN, server_ready},
    {TORCH_OIP "ModelReady", SERVE_INFER, OPEN, model_ready},
    {TORCH_OIP "ModelMetadata", SERVE_INFER, 0, model_metadata},
    {"/grpc.health.v1.Health/Check", SERVE_INFER | SERVE_MANAGE, OPEN, health_check},
    {"/grpc.health.v1.Health/Watch", SERVE_INFER | SERVE_MANAGE, OPEN, health_watch},
    {TORCH "Ping", SERVE_INFER, OPEN, torch_ping},
    {TORCH "Predictions", SERVE_INFER, READS, predictions},
    {TORCH "StreamPredictions", SERVE_INFER, GIVES | READS, predictions},
    {TORCH "StreamPredictions2", SERVE_INFER, TAKES | GIVES | READS, stream_predictions},
    {MANAGE "DescribeModel", SERVE_MANAGE, 0, describe},
    {MANAGE "ListModels", SERVE_MANAGE, 0, list},
    {MANAGE "RegisterModel", SERVE_MANAGE, API, add_model},
    {MANAGE "ScaleWorker", SERVE_MANAGE, 0, scale},
    {MANAGE "SetDefault", SERVE_MANAGE, 0, set_default},
    {MANAGE "UnregisterModel", SERVE_MANAGE, API, remove_model},
};

/* ModelStreamInferResponse: the reply, or what is wrong and with which request. */
static void shape_streamed(const serve_job *job, base_text *message) {
  const base_text *reply = &job->reply;
  if (job->status < 300) {
    fmt_put_bytes(message, 2, reply->at, reply->length);
    return;
  }
  base_text id = {.allocator = &base_libc_allocator};
  fmt_put_str(&id, 3, job->order_name ? job->order_name : "");
  fmt_put_bytes(message, 1, reply->at, reply->length);
  fmt_put_bytes(message, 2, id.at, id.length);
  if (id.failed) message->failed = true;
  base_text_free(&id);
}

/* PredictionResponse: the reply, or what is wrong as a google.rpc.Status; and of which sequence. */
static void shape_prediction(const serve_job *job, base_text *message) {
  if (job->status < 300) fmt_put_bytes(message, 1, job->reply.at, job->reply.length);
  if (job->sequence_id.at) fmt_put_bytes(message, 2, job->sequence_id.at, job->sequence_id.length);
  if (job->status < 300) return;
  base_text status = {.allocator = &base_libc_allocator};
  fmt_put_int(&status, 1, serve_grpc_status(job));
  fmt_put_bytes(&status, 2, job->reply.at, job->reply.length);
  fmt_put_bytes(message, 3, status.at, status.length);
  if (status.failed) message->failed = true;
  base_text_free(&status);
}

/* The reply of a REST handler as the message that the method gives. */
void serve_grpc_shape(serve_job *job) {
  if (job->shape == SERVE_PLAIN || (job->status >= 300 && job->shape < SERVE_STREAMED)) return;
  base_text message = {.allocator = job->reply.allocator, .failed = job->reply.failed};
  if (job->shape == SERVE_WRAPPED || job->shape == SERVE_TALKED) shape_prediction(job, &message);
  else if (job->shape == SERVE_STREAMED) shape_streamed(job, &message);
  else {
    fmt_put_str(&message, 1, job->order_name);
    fmt_put_int(&message, 2, 1);
  }
  base_text_free(&job->reply);
  job->reply = message;
}

static const struct method *find_method(const serve_job *job) {
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (base_str_is(job->path, methods[i].path) && (methods[i].role & job->roles)) return &methods[i];
  return NULL;
}

uint32_t serve_grpc_kind(const serve_job *job) {
  const struct method *m = find_method(job);
  if (!m) return 0;
  return (m->flags & TAKES ? SERVE_TAKES_MANY : 0) | (m->flags & GIVES ? SERVE_GIVES_MANY : 0);
}

/* May it be answered? Else it is refused. */
static bool admitted(serve_job *job, const struct method *m) {
  if (!(m->flags & OPEN) && !serve_allowed(job->server, job, m->role & SERVE_INFER ? SERVE_INFER : SERVE_MANAGE)) {
    serve_refuse(job, base_str_starts(job->path, "/org.") ? 403 : 401, "the token is missing or wrong");
    return false;
  }
  return !(m->flags & API) || serve_may_change(job);
}

bool serve_grpc(serve_job *job) {
  serve_server *server = job->server;
  const struct method *m = find_method(job);
  if (!m) {
    serve_refuse(job, 501, "there is no method %.*s at this address",
                 (int)(job->path.length < 200 ? job->path.length : 200), job->path.at);
    return true;
  }
  pthread_mutex_lock(&server->tables);
  const bool is_admitted = admitted(job, m), reads = m->flags & READS;
  const bool answered = !is_admitted || (!reads && m->answer(job));
  pthread_mutex_unlock(&server->tables);
  return is_admitted && reads ? m->answer(job) : answered;
}
