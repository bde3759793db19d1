/* route.c -- which answer a method and a path ask for: a table of patterns, in which {} stands for one part. */
#include "server.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PARTS = 4 };

bool serve_is_torch(base_str path) { return !base_str_starts(path, "/v1/") && !base_str_starts(path, "/v2"); }

/* ---- KServe's descriptions ---- */

static void describe_values(serve_job *job, const char *what, bool inputs) {
  const td_model *model = job->version->model;
  const size_t count = !model ? 0 : inputs ? td_model_input_count(model) : td_model_output_count(model);
  base_text_print(&job->reply, ",\"%s\":[", what);
  for (size_t i = 0; i < count; i++) {
    td_value_info info = {.size = sizeof info};
    if ((inputs ? td_model_input : td_model_output)(model, i, &info, NULL) != TD_OK) continue;
    const char *type = serve_datatype(info.dtype);
    base_text_print(&job->reply, "%s{\"name\":", i ? "," : "");
    base_text_quote(&job->reply, info.name, strlen(info.name));
    base_text_print(&job->reply, ",\"datatype\":\"%s\",\"shape\":[", type ? type : "");
    for (int32_t d = 0; d < info.rank; d++)
      base_text_print(&job->reply, "%s%lld", d ? "," : "", (long long)info.dims[d]);
    base_text_print(&job->reply, "]}");
  }
  base_text_print(&job->reply, "]");
}

static bool describe(serve_job *job, char **parts) {
  if (!serve_find(job, parts[0], parts[1])) return true;
  const serve_model *m = serve_find_model(job->server, parts[0]);
  base_text_print(&job->reply, "{\"name\":\"%s\",\"versions\":[", m->name); /* names need no quoting */
  for (uint32_t i = 0; i < m->count; i++)
    base_text_print(&job->reply, "%s\"%s\"", i ? "," : "", m->versions[i]->number);
  base_text_print(&job->reply, "],\"platform\":\"treadle\"");
  describe_values(job, "inputs", true);
  describe_values(job, "outputs", false);
  serve_answer(job, 200, "}");
  return true;
}

static bool model_ready(serve_job *job, char **parts) {
  if (!serve_find(job, parts[0], parts[1])) return true;
  const serve_version *v = job->version;
  const bool ready = !job->server->draining && serve_is_ready(v);
  serve_answer(job, ready ? 200 : 503, "{\"name\":\"%s\",\"ready\":%s}", job->version->name, ready ? "true" : "false");
  return true;
}

static bool server_about(serve_job *job, char **parts) {
  (void)parts;
  serve_answer(job, 200,
               "{\"name\":\"treadle\",\"version\":\"%s\",\"extensions\":[\"binary_tensor_data\",\"model_repository\","
               "\"sequence\"]}",
               td_version());
  return true;
}

/* ---- health ---- */

static bool live(serve_job *job, char **parts) {
  (void)parts;
  serve_answer(job, 200, "{\"live\":true}");
  return true;
}

static bool ready(serve_job *job, char **parts) {
  (void)parts;
  const bool up = !job->server->draining;
  serve_answer(job, up ? 200 : 503, "{\"ready\":%s}", up ? "true" : "false");
  return true;
}

/* Healthy: the default version of each model has the workers that it is to have at least. */
bool serve_ping(serve_job *job, char **parts) {
  (void)parts;
  const serve_server *server = job->server;
  bool up = !server->draining;
  pthread_mutex_lock(&job->server->lock);
  for (uint32_t i = 0; i < server->model_count; i++) {
    const serve_version *v = server->models[i]->versions[server->models[i]->current];
    up = up && serve_workers(v) >= v->min_workers;
  }
  pthread_mutex_unlock(&job->server->lock);
  serve_answer(job, up ? 200 : 500, "{\n  \"status\": \"%s\"\n}\n", up ? "Healthy" : "Unhealthy");
  return true;
}

static bool metrics(serve_job *job, char **parts) {
  (void)parts;
  serve_spare_figures(job);
  serve_metrics(job);
  return true;
}

static bool renew_key(serve_job *job, char **parts) {
  (void)parts;
  serve_renew_key(job);
  return true;
}

/* ---- inference ---- */

void serve_refuse_unscaled(serve_job *job) {
  serve_refuse(job, 503, "model %s has no workers: scale it up", job->version->name);
}

/* Has the version somebody who can compute it? Else the job is refused. */
static bool has_workers(serve_job *job) {
  if (!job->version->max_workers) {
    serve_refuse_unscaled(job);
    return false;
  }
  if (job->version->python && !serve_python_works(job->version)) {
    serve_refuse(job, 503, "the workers of model %s have ended and cannot be started: the server's log says why",
                 job->version->name);
    return false;
  }
  return true;
}

static bool enter(serve_job *job, const serve_protocol *protocol) {
  job->protocol = protocol;
  if (job->version->python && protocol) {
    serve_refuse(job, 400, "model %s has a Python handler, which takes no tensors: POST to /predictions/%s",
                 job->version->name, job->version->name);
    return true;
  }
  if (!serve_join_sequence(job)) return true;
  if (has_workers(job)) {
    if (serve_queue_shadowed(job)) return false;
    job->is_full = true;
    serve_refuse(job, 503, "the queue of model %s is full: try again later", job->version->name);
  }
  serve_leave_sequence(job);
  return true;
}

bool serve_enter(serve_job *job, const serve_protocol *protocol) {
  serve_server *server = job->server; /* the job may be another thread's then */
  pthread_mutex_lock(&server->tables);
  const bool answered = enter(job, protocol);
  pthread_mutex_unlock(&server->tables);
  return answered;
}

static bool compute(serve_job *job, char **parts, const serve_protocol *protocol) {
  return !serve_find_turn(job, parts[0], parts[1]) || serve_enter(job, protocol);
}

static bool infer(serve_job *job, char **parts) {
  return !serve_find_turn(job, parts[0], parts[1]) || !serve_name_v2(job) || serve_enter(job, &serve_v2);
}

bool serve_predict(serve_job *job) {
  const serve_handler *handler = job->version->handler;
  if (job->version->python) return serve_enter(job, NULL);
  if (!job->is_grpc && !serve_name_by_fields(job)) return true;
  return serve_enter(job, handler ? handler->protocol : &serve_prediction);
}

static bool predict(serve_job *job, char **parts) {
  return !serve_find_turn(job, parts[0], parts[1]) || serve_predict(job);
}

/* SageMaker's: the query names the model, or there is one alone. */
static bool invocations(serve_job *job, char **parts) {
  serve_server *server = job->server;
  const char *name = serve_query(job, "model_name");
  pthread_mutex_lock(&server->tables);
  if (!name && server->model_count == 1) name = server->models[0]->name;
  parts[0] = name ? base_arena_text(job->arena, name) : NULL;
  pthread_mutex_unlock(&server->tables);
  if (parts[0]) return predict(job, parts);
  serve_refuse(job, 400, "Parameter model_name is required.");
  return true;
}

/* A Python handler explains where its class can. Others fail as TorchServe's do that cannot. */
static bool explain(serve_job *job, char **parts) {
  if (!serve_find_turn(job, parts[0], parts[1])) return true;
  job->explains = true;
  if (job->version->python) return serve_predict(job);
  serve_refuse_as(job, job->is_torch ? 503 : 501, "InternalServerException",
                  "Prediction failed: the built-in handlers have no explanations; a Python handler with get_insights "
                  "can have them");
  return true;
}

/* ---- KServe's first protocol ---- */

static bool v1_list(serve_job *job, char **parts) {
  (void)parts;
  base_text_print(&job->reply, "{\"models\":[");
  for (uint32_t i = 0; i < job->server->model_count; i++)
    base_text_print(&job->reply, "%s\"%s\"", i ? "," : "", job->server->models[i]->name);
  serve_answer(job, 200, "]}");
  return true;
}

static bool v1_predict(serve_job *job, char **parts) { return compute(job, parts, &serve_v1); }

/* ---- the table ---- */

static bool describe_api(serve_job *job, char **parts);
static bool describe_model_api(serve_job *job, char **parts);

/* Errors as TorchServe's; needs no token; needs --enable-model-api; needs the key for inference, at whatever address;
 * takes server->tables where it needs them, since it reads the body. */
enum { TORCH = 1, OPEN = 2, API = 4, INFERS = 8, READS = 16 };

static const struct route {
  const char *methods, *pattern;
  uint32_t role, flags;
  bool (*answer)(serve_job *job, char **parts); /* as serve_route */
  const char *about;
} routes[] = {
    {"GET, HEAD", "/ping", SERVE_INFER | SERVE_MANAGE | SERVE_METRICS, TORCH | OPEN, serve_ping,
     "health, as TorchServe has it"},
    {"GET, HEAD", "/v2/health/live", SERVE_INFER | SERVE_MANAGE | SERVE_METRICS, OPEN, live, "is the process alive?"},
    {"GET, HEAD", "/v2/health/ready", SERVE_INFER | SERVE_MANAGE | SERVE_METRICS, OPEN, ready,
     "are requests to be sent?"},
    {"GET, HEAD", "/v2", SERVE_INFER, OPEN, server_about, "what the server is"},
    {"GET, HEAD", "/v2/", SERVE_INFER, OPEN, server_about, "what the server is"},
    {"GET, HEAD", "/v2/models/{}", SERVE_INFER, 0, describe, "versions, inputs and outputs of a model"},
    {"GET, HEAD", "/v2/models/{}/versions/{}", SERVE_INFER, 0, describe, "the same of a version"},
    {"GET, HEAD", "/v2/models/{}/ready", SERVE_INFER, OPEN, model_ready, "is the model ready?"},
    {"GET, HEAD", "/v2/models/{}/versions/{}/ready", SERVE_INFER, OPEN, model_ready, "is the version ready?"},
    {"POST", "/v2/models/{}/infer", SERVE_INFER, READS, infer, "inference by tensors"},
    {"POST", "/v2/models/{}/versions/{}/infer", SERVE_INFER, READS, infer, "inference by tensors"},
    {"POST", "/v2/repository/index", SERVE_INFER | SERVE_MANAGE, 0, serve_repository, "the models"},
    {"POST", "/v2/repository/models/{}/load", SERVE_MANAGE, API, serve_repository_load, "load or replace a model"},
    {"POST", "/v2/repository/models/{}/unload", SERVE_MANAGE, API, serve_repository_unload, "remove a model"},
    {"POST, PUT", "/predictions/{}", SERVE_INFER, TORCH | READS, predict, "inference by the model's handler"},
    {"POST, PUT", "/predictions/{}/{}", SERVE_INFER, TORCH | READS, predict, "inference by the version's handler"},
    {"POST, PUT", "/models/{}/invoke", SERVE_INFER, TORCH | READS, predict, "inference by the model's handler"},
    {"POST, PUT", "/invocations", SERVE_INFER, TORCH | READS, invocations,
     "inference by a model's handler, as SageMaker asks"},
    {"POST, PUT", "/{}/predict", SERVE_INFER, TORCH | READS, predict, "inference by the model's handler"},
    {"POST, PUT", "/{}/{}/predict", SERVE_INFER, TORCH | READS, predict, "inference by the version's handler"},
    {"POST, PUT", "/explanations/{}", SERVE_INFER, TORCH | READS, explain, "why the model's handler answers so"},
    {"POST, PUT", "/explanations/{}/{}", SERVE_INFER, TORCH | READS, explain, "why the version's handler answers so"},
    {"GET, HEAD", "/v1/models", SERVE_INFER, 0, v1_list, "the models"},
    {"GET, HEAD", "/v1/models/{}", SERVE_INFER, OPEN, model_ready, "is the model ready?"},
    {"POST", "/v1/models/{}:predict", SERVE_INFER, READS, v1_predict, "inference by rows of JSON"},
    {"POST", "/v1/models/{}:explain", SERVE_INFER, READS, explain, "why the model's handler answers so"},
    {"GET, HEAD", "/metrics", SERVE_METRICS, TORCH | OPEN, metrics, "figures as Prometheus' text"},
    {"POST, PUT", "/wfpredict/{}", SERVE_INFER, TORCH, serve_ask_workflow, "inference by a workflow"},
    {"POST", "/workflows", SERVE_MANAGE, TORCH | API, serve_register_workflow, "register a workflow"},
    {"GET, HEAD", "/workflows", SERVE_MANAGE, TORCH, serve_list_workflows, "the workflows"},
    {"GET, HEAD", "/workflows/{}", SERVE_MANAGE, TORCH, serve_describe_workflow, "nodes of a workflow"},
    {"DELETE", "/workflows/{}", SERVE_MANAGE, TORCH | API, serve_unregister_workflow,
     "remove a workflow, and its models"},
    {"POST", "/models", SERVE_MANAGE, TORCH | API, serve_register, "register a model"},
    {"GET, HEAD", "/models", SERVE_MANAGE, TORCH, serve_list, "the models"},
    {"GET, HEAD", "/models/{}", SERVE_MANAGE, TORCH, serve_describe, "workers and queue of a model"},
    {"GET, HEAD", "/models/{}/{}", SERVE_MANAGE, TORCH, serve_describe, "workers and queue of a model"},
    {"PUT", "/models/{}", SERVE_MANAGE, TORCH, serve_scale_workers, "scale a model"},
    {"PUT", "/models/{}/{}", SERVE_MANAGE, TORCH, serve_scale_workers, "scale a model"},
    {"PUT", "/models/{}/{}/set-default", SERVE_MANAGE, TORCH, serve_set_default, "make a version the default"},
    {"PUT", "/models/{}/{}/traffic", SERVE_MANAGE, TORCH, serve_set_traffic,
     "share of a model's requests for a version, or copies of them"},
    {"POST", "/models/{}/profile", SERVE_MANAGE, TORCH, serve_ask_profile, "where the time of the next requests goes"},
    {"POST", "/models/{}/{}/profile", SERVE_MANAGE, TORCH, serve_ask_profile,
     "where the time of the next requests goes"},
    {"DELETE", "/models/{}", SERVE_MANAGE, TORCH | API, serve_unregister, "remove a model"},
    {"DELETE", "/models/{}/{}", SERVE_MANAGE, TORCH | API, serve_unregister, "remove a model"},
    {"GET, HEAD", "/token", SERVE_MANAGE, TORCH | OPEN, renew_key, "a new key"},
    {"GET, HEAD", "/", SERVE_MANAGE, TORCH | OPEN, serve_page, "the page about the server"},
    {"GET, HEAD", "/page/metrics", SERVE_MANAGE, TORCH, metrics, "figures as Prometheus' text, for the page"},
    {"GET, HEAD", "/page/models/{}/{}", SERVE_MANAGE, TORCH, describe, "inputs and outputs of a version, for the page"},
    {"POST", "/page/predictions/{}/{}", SERVE_MANAGE, TORCH | INFERS | READS, predict,
     "inference by the handler, for the page"},
    {"POST", "/page/infer/{}/{}", SERVE_MANAGE, TORCH | INFERS | READS, infer, "inference by tensors, for the page"},
    {"POST", "/page/wfpredict/{}", SERVE_MANAGE, TORCH | INFERS, serve_ask_workflow,
     "inference by a workflow, for the page"},
    {"OPTIONS", "/", SERVE_INFER | SERVE_MANAGE | SERVE_METRICS, TORCH | OPEN, describe_api, "this description"},
    {"GET, HEAD, OPTIONS", "/api-description", SERVE_INFER | SERVE_MANAGE | SERVE_METRICS, TORCH | OPEN, describe_api,
     "this description"},
    {"OPTIONS", "/predictions/{}", SERVE_INFER, TORCH | OPEN, describe_model_api,
     "the description of a model's routes"},
    {"OPTIONS", "/predictions/{}/{}", SERVE_INFER, TORCH | OPEN, describe_model_api,
     "the description of a version's routes"},
};
enum { ROUTES = sizeof routes / sizeof *routes };

/* ---- the table as an OpenAPI document ---- */

/* What stands in a pattern's places. */
static const char *part_name(const char *pattern, uint32_t index) {
  if (strstr(pattern, "/w")) return "workflow_name";
  return index ? "model_version" : "model_name";
}

/* The pattern with the parts' names, and how many there are. */
static uint32_t print_pattern(base_text *to, const char *pattern) {
  uint32_t count = 0;
  base_text_print(to, "\"");
  for (const char *whole = pattern; *pattern; pattern++)
    if (*pattern != '}') base_text_print(to, "%c%s", *pattern, *pattern == '{' ? part_name(whole, count++) : "");
    else base_text_print(to, "}");
  base_text_print(to, "\"");
  return count;
}

static void print_methods(base_text *to, const struct route *route, uint32_t parts, bool *first) {
  for (const char *at = route->methods; *at; *first = false) {
    const size_t length = strcspn(at, ",");
    base_text_print(to, "%s\"", *first ? "" : ",");
    for (size_t i = 0; i < length; i++) base_text_print(to, "%c", at[i] | 0x20);
    base_text_print(to, "\":{\"summary\":\"%s\",\"parameters\":[", route->about);
    for (uint32_t i = 0; i < parts; i++)
      base_text_print(to, "%s{\"in\":\"path\",\"name\":\"%s\",\"required\":true,\"schema\":{\"type\":\"string\"}}",
                      i ? "," : "", part_name(route->pattern, i));
    base_text_print(to, "],\"responses\":{\"200\":{\"description\":\"done\"},\"default\":{\"description\":\"%s\"}}}",
                    "what is wrong, as JSON");
    at += length + (at[length] ? strlen(", ") : 0);
  }
}

static void begin_document(base_text *to) {
  base_text_print(to, "{\"openapi\":\"3.0.1\",\"info\":{\"title\":\"Treadle\",\"version\":\"%s\"},\"paths\":{",
                  td_version());
}

/* The routes of the address. */
static bool describe_api(serve_job *job, char **parts) {
  (void)parts;
  bool none = true;
  begin_document(&job->reply);
  for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
    size_t same = 0;
    while (strcmp(routes[same].pattern, routes[i].pattern) != 0) same++;
    if (!(routes[i].role & job->roles) || same < i) continue; /* it stands with the first of its pattern */
    bool first = true;
    base_text_print(&job->reply, "%s", none ? "" : ",");
    const uint32_t count = print_pattern(&job->reply, routes[i].pattern);
    base_text_print(&job->reply, ":{");
    for (size_t j = i; j < sizeof routes / sizeof *routes; j++)
      if (strcmp(routes[j].pattern, routes[i].pattern) == 0) print_methods(&job->reply, &routes[j], count, &first);
    base_text_print(&job->reply, "}");
    none = false;
  }
  serve_answer(job, 200, "}}");
  return true;
}

/* The two ways to ask a model, with its inputs and outputs. */
static bool describe_model_api(serve_job *job, char **parts) {
  if (!serve_find(job, parts[0], parts[1])) return true;
  const char *done = "\"responses\":{\"200\":{\"description\":\"the answer\"}}";
  base_text *to = &job->reply;
  begin_document(to);
  base_text_print(to, "\"/predictions/%s%s%s\":{\"post\":{", job->version->name, parts[1] ? "/" : "",
                  parts[1] ? job->version->number : "");
  base_text_print(
      to, "\"requestBody\":{\"content\":{\"*/*\":{\"schema\":{\"type\":\"string\",\"format\":\"binary\"}}}},%s}}",
      done);
  if (job->version->model) {
    base_text_print(to, ",\"/v2/models/%s/versions/%s/infer\":{\"post\":{", job->version->name, job->version->number);
    base_text_print(to, "\"requestBody\":{\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\"}}}},%s",
                    done);
    describe_values(job, "x-inputs", true);
    describe_values(job, "x-outputs", false);
    base_text_print(to, "}}");
  }
  serve_answer(job, 200, "}}");
  return true;
}

/* ---- which route it is ---- */

/* Does the path fit? `parts` gets what stands for {}, still encoded. */
static bool matches(const char *pattern, base_str path, base_str *parts) {
  const char *at = path.at, *end = at + path.length;
  uint32_t count = 0;
  while (*pattern) {
    if (pattern[0] == '{') {
      const bool has_verb = pattern[2] == ':'; /* in front of which is a name, and no name has a colon */
      const char *stop = at;
      while (stop < end && *stop != '/' && !(has_verb && *stop == ':')) stop++;
      if (stop == at) return false;
      parts[count++] = (base_str){at, (size_t)(stop - at)};
      at = stop;
      pattern += 2;
    } else if (at == end || *at++ != *pattern++) {
      return false;
    }
  }
  return at == end;
}

static bool has_method(const char *methods, base_str method) {
  for (const char *found = methods; *found;) {
    const size_t length = strcspn(found, ",");
    if (length == method.length && memcmp(found, method.at, length) == 0) return true;
    found += length + (found[length] ? strlen(", ") : 0);
  }
  return false;
}

/* The route of the path; `*known`: there are others, whose methods job->allow has. NULL: none. */
static const struct route *find_route(serve_job *job, base_str *parts, bool *known) {
  base_text methods = {.allocator = &job->memory};
  const struct route *found = NULL;
  for (size_t i = 0; i < ROUTES; i++) {
    base_str own[MOST_PARTS] = {0};
    if (!(routes[i].role & job->roles) || !matches(routes[i].pattern, job->path, own)) continue;
    found = &routes[i];
    memcpy(parts, own, sizeof own);
    if (has_method(found->methods, job->method)) break;
    base_text_print(&methods, "%s%s", methods.length ? ", " : "", found->methods);
    found = NULL;
  }
  *known = methods.length > 0;
  if (!found && *known) job->allow = base_arena_slice(job->arena, methods.at, methods.length);
  base_text_free(&methods);
  return found;
}

bool serve_may_change(serve_job *job) {
  if (job->server->options.model_api) return true;
  serve_refuse(job, 405, "models can be registered and deleted where the server was started with --enable-model-api");
  return false;
}

/* May it be answered? Else it is refused. */
static bool admitted(serve_job *job, const struct route *route) {
  const serve_server *server = job->server;
  const uint32_t role = route->role & SERVE_INFER ? SERVE_INFER : route->role;
  if (!(route->flags & OPEN) && !serve_allowed(server, job, route->flags & INFERS ? SERVE_INFER : role)) {
    serve_refuse_as(job, job->is_torch ? 400 : 401, "InvalidKeyException",
                    "Token Authorization failed. Token either incorrect, expired, or not provided correctly");
    return false;
  }
  if (role == SERVE_MANAGE && !(route->flags & OPEN) && !server->keys[0][0] && !serve_knows_page(job)) return false;
  return !(route->flags & API) || serve_may_change(job);
}

/* True: answered. */
static bool answer(serve_job *job, const struct route *route, char **parts) {
  serve_server *server = job->server;
  pthread_mutex_lock(&server->tables);
  const bool is_admitted = admitted(job, route), reads = route->flags & READS;
  const bool answered = !is_admitted || (!reads && route->answer(job, parts));
  pthread_mutex_unlock(&server->tables);
  return is_admitted && reads ? route->answer(job, parts) : answered;
}

static char *decoded(serve_job *job, const char *at, size_t length) {
  char *text = base_arena_slice(job->arena, at, length);
  if (!text || !http_unescape(text, &length)) return NULL;
  text[length] = 0;
  return text;
}

bool serve_route(serve_job *job) {
  base_str found[MOST_PARTS] = {0};
  char *parts[MOST_PARTS] = {0};
  bool known;
  job->is_torch = serve_is_torch(job->path);
  if (job->is_torch && job->path.length > 1 && base_str_ends(job->path, "/"))
    job->path.length--; /* as TorchServe does */
  const struct route *route = find_route(job, found, &known);
  if (!route && base_str_is(job->method, "OPTIONS") && (known || base_str_is(job->path, "*"))) {
    serve_answer(job, 200, "%s", ""); /* what a page in a browser asks before it sends such a request */
    return true;
  }
  if (!route && known) {
    serve_refuse(job, 405, "this route takes %s", job->allow ? job->allow : "other methods");
    return true;
  }
  if (!route) {
    serve_refuse(job, 404, "there is no such route");
    return true;
  }
  for (int i = 0; i < MOST_PARTS && found[i].at; i++)
    if (!(parts[i] = decoded(job, found[i].at, found[i].length))) {
      serve_refuse(job, 400, "the path is damaged");
      return true;
    }
  return answer(job, route, parts);
}
