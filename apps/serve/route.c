/* route.c -- which answer a method and a path ask for. */
#include "server.h"

#include <stdio.h>
#include <string.h>

void serve_refuse(serve_job *job, int32_t status, const char *format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  job->reply.length = 0;
  job->reply_json = 0;
  job->status = status;
  job->type = "application/json";
  base_text_print(&job->reply, "{\"error\":");
  base_text_quote(&job->reply, text, strlen(text));
  base_text_print(&job->reply, "}");
}

static bool answer(serve_job *job, int32_t status, const char *text) {
  job->status = status;
  base_text_print(&job->reply, "%s", text);
  return true;
}

static void describe_values(serve_job *job, const char *what, bool inputs) {
  const td_model *model = job->model->model;
  const size_t count = inputs ? td_model_input_count(model) : td_model_output_count(model);
  base_text_print(&job->reply, ",\"%s\":[", what);
  for (size_t i = 0; i < count; i++) {
    td_value_info info;
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

static bool describe(serve_job *job) {
  base_text_print(&job->reply, "{\"name\":");
  base_text_quote(&job->reply, job->model->name, strlen(job->model->name));
  base_text_print(&job->reply, ",\"versions\":[\"1\"],\"platform\":\"treadle\"");
  describe_values(job, "inputs", true);
  describe_values(job, "outputs", false);
  return answer(job, 200, "}");
}

/* The next part of a path, decoded, in the arena; NULL: damaged. "": there is none. */
static char *part(serve_job *job, base_str *path) {
  if (path->length) path->at++, path->length--;
  size_t n = 0;
  while (n < path->length && path->at[n] != '/') n++;
  char *text = base_arena_slice(job->arena, path->at, n);
  *path = (base_str){path->at + n, path->length - n};
  if (!text || !http_unescape(text, &n)) return NULL;
  text[n] = 0;
  return text;
}

static bool compute(serve_server *server, serve_job *job, bool is_post, void (*run)(serve_job *, td_session *)) {
  if (!is_post) return serve_refuse(job, 405, "this route takes POST"), true;
  job->compute = run;
  job->deadline_ns = sys_clock_ns() + server->limit_ns;
  if (server->queue && serve_queue(job, server->queue)) return false;
  serve_refuse(job, 503, "the queue of model %s is full: try again later", job->model->name);
  return true;
}

static bool find_model(serve_server *server, serve_job *job, const char *name) {
  for (uint32_t i = 0; !job->model && i < server->model_count; i++)
    if (strcmp(server->models[i].name, name) == 0) job->model = &server->models[i];
  if (!job->model) serve_refuse(job, 404, "there is no model called %s", name);
  return job->model != NULL;
}

static bool route_model(serve_server *server, serve_job *job, bool is_post, base_str path) {
  const char *name = part(job, &path), *what = name ? part(job, &path) : NULL;
  if (!what) return serve_refuse(job, 400, "the path is damaged"), true;
  if (!find_model(server, job, name)) return true;
  if (strcmp(what, "versions") == 0) {
    const char *version = part(job, &path);
    if (!version || strcmp(version, "1") != 0)
      return serve_refuse(job, 404, "model %s has version 1 alone", name), true;
    what = part(job, &path);
  }
  if (what && !path.length && !*what) return describe(job);
  if (what && !path.length && strcmp(what, "infer") == 0) return compute(server, job, is_post, serve_infer);
  if (!what || path.length || strcmp(what, "ready") != 0) return serve_refuse(job, 404, "there is no such route"), true;
  base_text_print(&job->reply, "{\"name\":");
  base_text_quote(&job->reply, name, strlen(name));
  return answer(job, server->draining ? 503 : 200, server->draining ? ",\"ready\":false}" : ",\"ready\":true}");
}

bool serve_route(serve_server *server, const http_head *head, serve_job *job) {
  static const char v2[] = "/v2/models/", torch[] = "/predictions/";
  const bool up = !server->draining;
  base_str path = head->target;
  const char *query = memchr(path.at, '?', path.length);
  if (query) path.length = (size_t)(query - path.at);
  const bool is_post = base_str_is(head->method, "POST") || base_str_is(head->method, "PUT");
  const base_str count = http_find(head, "inference-header-content-length");
  const base_str coding = http_find(head, "content-encoding");
  job->type = "application/json";
  job->json_count = -1;
  if (coding.at && !base_str_is(coding, "identity"))
    return serve_refuse(job, 415, "compressed bodies are not read"), true;
  if (count.at &&
      (!base_str_int(count, &job->json_count) || job->json_count < 0 || (size_t)job->json_count > job->count))
    return serve_refuse(job, 400, "Inference-Header-Content-Length is no length within the body"), true;
  if (base_str_is(path, "/ping"))
    return answer(job, up ? 200 : 500,
                  up ? "{\n  \"status\": \"Healthy\"\n}\n" : "{\n  \"status\": \"Unhealthy\"\n}\n");
  if (base_str_is(path, "/v2/health/live")) return answer(job, 200, "{\"live\":true}");
  if (base_str_is(path, "/v2/health/ready"))
    return answer(job, up ? 200 : 503, up ? "{\"ready\":true}" : "{\"ready\":false}");
  if (base_str_is(path, "/v2") || base_str_is(path, "/v2/")) {
    base_text_print(&job->reply, "{\"name\":\"treadle\",\"version\":\"%s\"", td_version());
    return answer(job, 200, ",\"extensions\":[\"binary_tensor_data\"]}");
  }
  if (base_str_is(path, "/metrics")) {
    serve_print_metrics(server, &job->reply);
    job->type = "text/plain; version=0.0.4";
    return answer(job, 200, "");
  }
  if (base_str_starts(path, v2))
    return route_model(server, job, is_post, (base_str){path.at + sizeof v2 - 2, path.length - sizeof v2 + 2});
  if (!base_str_starts(path, torch)) return serve_refuse(job, 404, "there is no such route"), true;
  path = (base_str){path.at + sizeof torch - 2, path.length - sizeof torch + 2};
  const char *name = part(job, &path);
  if (!name || path.length) return serve_refuse(job, 404, "there is no such route"), true;
  return !find_model(server, job, name) || compute(server, job, is_post, serve_predict);
}
