/* manage.c -- TorchServe's management routes, and KServe's model repository. What takes time is done by the loader; the
 * table of models changes when the loader has given the job back. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fmt/json.h"
#include "server.h"

/* What a route asks of the loader, and what came of it. */
typedef struct order {
  const char *name, *url, *path;
  serve_version *version; /* loaded, not yet in the table */
  uint32_t workers;
  serve_config config; /* of what is registered */
  bool synchronous;
  td_status status;
  td_error err;
} order;

static order *new_order(serve_job *job) {
  order *o = base_new(job->arena, order, 1);
  if (o) *o = (order){.config = SERVE_SAYS_NOTHING, .err = {.offset = -1}};
  else serve_refuse(job, 507, "out of memory");
  job->order = o;
  return o;
}

/* ---- what a request says ---- */

/* A JSON body says the same as the query, with numbers and truths of JSON or as texts. NULL: it is not there. */
const char *serve_parameter(serve_job *job, const fmt_json *body, const char *name) {
  const char *value = serve_query(job, name);
  const fmt_json *said = fmt_json_get(body, name);
  if (value || !said || fmt_json_is(said, FMT_JSON_NULL)) return value;
  if (fmt_json_is(said, FMT_JSON_INT)) return base_arena_format(job->arena, "%lld", (long long)said->u.i);
  if (fmt_json_is(said, FMT_JSON_TRUE)) return "true";
  if (fmt_json_is(said, FMT_JSON_FALSE)) return "false";
  const char *text = fmt_json_text(said);
  return text ? text : ""; /* nothing that can be meant: a number is refused, a file is not there */
}

bool serve_read_parameters(serve_job *job, const fmt_json **body) {
  td_error err = {.offset = -1};
  *body = NULL;
  if (!job->count || job->body[0] != '{') return true;
  if (fmt_json_read(job->arena, "the request", job->body, job->count, body, &err) == TD_OK) return true;
  serve_fail(job, TD_BAD_FILE, &err);
  return false;
}

bool serve_number(serve_job *job, const fmt_json *body, const char *name, int64_t low, int64_t high, int64_t otherwise,
                  int64_t *value) {
  const char *text = serve_parameter(job, body, name);
  *value = otherwise;
  if (!text || (!body && !*text)) return true; /* `limit=` says nothing */
  if (base_str_int(base_str_of(text), value) && *value >= low && *value <= high) return true;
  serve_refuse(job, 400, "%s is no number from %lld to %lld", name, (long long)low, (long long)high);
  return false;
}

/* ---- register ---- */

static void load(serve_job *job) {
  order *o = job->order;
  o->status = serve_load(job->server, o->name, o->url, o->path, &o->version, &o->err);
  if (o->status == TD_OK) {
    serve_configure(o->version, &o->config);
    o->workers = o->version->max_workers;
    o->status = serve_scale(o->version, o->workers, &o->err);
    if (o->status != TD_OK) serve_free_version(o->version);
  }
  if (o->status != TD_OK) {
    o->version = NULL;
    serve_hide_store(job->server, &o->err);
  }
  serve_done(job);
}

static void free_loaded(serve_job *job) {
  serve_free_version(((order *)job->order)->version);
  serve_done(job);
}

/* The version stays out: the loader frees it, and the job comes back once more. */
static serve_job *give_up(serve_job *job) {
  job->finish = NULL;
  serve_order(job, free_loaded);
  return NULL;
}

static serve_job *registered(serve_job *job) {
  order *o = job->order;
  serve_version *v = o->version;
  if (!v) {
    serve_fail(job, o->status, &o->err);
  } else if (serve_find_version(job->server, v->name, v->number)) {
    serve_refuse(job, 409, "Model version %s is already registered for model %s", v->number, v->name);
    return give_up(job);
  } else if (serve_add_version(job->server, v, &o->err) != TD_OK) {
    serve_fail(job, TD_NO_RESOURCE, &o->err);
    return give_up(job);
  } else {
    const char *hint = o->workers ? "" : ". Use scale workers API to add workers for the model.";
    serve_answer(job, 200,
                 "{\n  \"status\": \"Model \\\"%s\\\" Version: %s registered with %u initial workers%s\"\n}\n", v->name,
                 v->number, o->workers, hint);
  }
  return job;
}

/* Numbers of what is to be registered. False: one is refused. */
static bool read_config(serve_job *job, const fmt_json *body, serve_config *config) {
  const struct {
    const char *name;
    int64_t low, high, *to;
  } numbers[] = {{"initial_workers", 0, SERVE_MOST_WORKERS, &config->min_workers},
                 {"batch_size", 1, SERVE_MOST_BATCH, &config->batch},
                 {"max_batch_delay", 0, 1 << 30, &config->delay_ms},
                 {"response_timeout", 1, 86400, &config->timeout_s},
                 {"startup_timeout", 1, 86400, &config->start_s}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (!serve_number(job, body, numbers[i].name, numbers[i].low, numbers[i].high, -1, numbers[i].to)) return false;
  return true;
}

/* That is what TorchServe knows, and starts a Python for; here a handler is what its archive says. False: it is none.
 */
static bool is_runtime(const char *name) {
  static const char *const names[] = {"python", "python2", "python3", "LSP"};
  for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return !name;
}

static bool read_order(serve_job *job, order *o) {
  const fmt_json *body;
  if (!serve_read_parameters(job, &body)) return false;
  const char *synchronous = serve_parameter(job, body, "synchronous");
  o->url = serve_parameter(job, body, "url");
  o->name = serve_parameter(job, body, "model_name");
  o->synchronous = !synchronous || strcmp(synchronous, "false") != 0;
  const char *runtime = serve_parameter(job, body, "runtime");
  if (!read_config(job, body, &o->config)) return false;
  if (!is_runtime(runtime)) {
    serve_refuse(job, 400, "Invalid RuntimeType value: %s", runtime);
    return false;
  }
  if (!o->url) serve_refuse(job, 400, "Parameter url is required.");
  return o->url != NULL;
}

/* Of an order that nobody waits for: what went wrong is told to whoever reads standard error. */
static void forget(serve_job *job) {
  const order *o = job->order;
  if (job->status >= 300)
    fprintf(stderr, "treadle-serve: %s is not registered: %.*s\n", o->url, (int)job->reply.length,
            job->reply.at ? job->reply.at : "");
  serve_free_job(job);
  base_free(&base_libc_allocator, job, sizeof *job);
}

/* The same order by a job of its own, which outlives the request. */
static bool register_later(serve_job *job, const order *o) {
  serve_job *own = base_alloc(&base_libc_allocator, sizeof *own);
  base_arena *arena = own ? base_arena_new(&base_libc_allocator) : NULL;
  order *copy = arena ? base_new(arena, order, 1) : NULL;
  if (copy) {
    *copy = *o;
    copy->name = o->name ? base_arena_text(arena, o->name) : NULL;
    copy->url = base_arena_text(arena, o->url);
    copy->path = base_arena_text(arena, o->path);
  }
  if (!copy || (o->name && !copy->name) || !copy->url || !copy->path) {
    base_arena_free(arena);
    base_free(&base_libc_allocator, own, sizeof *own);
    serve_refuse(job, 507, "out of memory");
    return true;
  }
  *own = (serve_job){.server = job->server, .loop = job->loop, .arena = arena, .order = copy};
  own->reply = (base_text){.allocator = &base_libc_allocator};
  own->finish = registered;
  own->respond = forget;
  serve_order(own, load);
  serve_answer(job, 202, "{\n  \"status\": \"Processing worker updates...\"\n}\n");
  return true;
}

bool serve_register(serve_job *job, char **parts) {
  (void)parts;
  order *o = new_order(job);
  if (!o || !read_order(job, o)) return true;
  o->path = serve_store_path(job->server, job->arena, o->url);
  if (!o->path || access(o->path, F_OK) != 0) {
    serve_refuse_as(job, 404, "ModelNotFoundException",
                    "%s is no file of the model store, and nothing is fetched from elsewhere", o->url);
    return true;
  }
  if (!o->synchronous) return register_later(job, o);
  job->finish = registered;
  serve_order(job, load);
  return false;
}

/* ---- scale ---- */

static void scale(serve_job *job) {
  order *o = job->order;
  o->status = serve_scale(o->version, o->workers, &o->err);
  serve_done(job);
}

/* Who waits for workers that are not to come is told at once, as those are who ask later. */
static void refuse_waiting(serve_version *v) {
  for (serve_job *job = serve_take_queue(v), *next; job; job = next) {
    next = job->next;
    serve_refuse_unscaled(job);
    serve_done(job);
  }
}

static serve_job *scaled(serve_job *job) {
  order *o = job->order;
  if (!o->version->max_workers) refuse_waiting(o->version);
  if (o->status != TD_OK) serve_fail(job, o->status, &o->err);
  else if (o->synchronous)
    serve_answer(job, 200, "{\n  \"status\": \"Workers scaled to %u for model: %s\"\n}\n", o->workers,
                 o->version->name);
  else serve_answer(job, 202, "{\n  \"status\": \"Processing worker updates...\"\n}\n");
  return job;
}

bool serve_scale_workers(serve_job *job, char **parts) {
  int64_t least, most;
  serve_version *v = serve_find(job, parts[0], parts[1]);
  if (!v || !serve_number(job, NULL, "min_worker", 0, SERVE_MOST_WORKERS, 1, &least)) return true;
  if (!serve_number(job, NULL, "max_worker", 0, SERVE_MOST_WORKERS, least, &most)) return true;
  if (most < least) {
    serve_refuse(job, 400, "max_worker cannot be less than min_worker.");
    return true;
  }
  order *o = new_order(job);
  if (!o) return true;
  const char *synchronous = serve_query(job, "synchronous");
  o->synchronous = synchronous && strcmp(synchronous, "true") == 0;
  o->version = v;
  o->workers = (uint32_t)most;
  pthread_mutex_lock(&job->server->lock);
  v->min_workers = (uint32_t)least;
  v->max_workers = (uint32_t)most;
  pthread_mutex_unlock(&job->server->lock);
  serve_note_health(job->server);
  job->finish = scaled;
  serve_order(job, scale);
  return false;
}

/* ---- list and describe ---- */

bool serve_answer_page(serve_job *job, const char *kind, uint32_t count, serve_entry *entry) {
  int64_t most, first;
  if (!serve_number(job, NULL, "limit", 1, 100, 100, &most) ||
      !serve_number(job, NULL, "next_page_token", 0, 1 << 30, 0, &first))
    return true;
  const int64_t next = first + most;
  base_text_print(&job->reply, "{\n");
  if (next < count) base_text_print(&job->reply, "  \"nextPageToken\": \"%lld\",\n", (long long)next);
  base_text_print(&job->reply, "  \"%ss\": [", kind);
  for (int64_t i = first; i < count && i < next; i++) {
    const char *url, *name = entry(job->server, (uint32_t)i, &url);
    base_text_print(&job->reply, "%s\n    {\n      \"%sName\": \"%s\",\n      \"%sUrl\": ", i > first ? "," : "", kind,
                    name, kind); /* names need no quoting */
    base_text_quote(&job->reply, url, strlen(url));
    base_text_print(&job->reply, "\n    }");
  }
  serve_answer(job, 200, "\n  ]\n}\n");
  return true;
}

static const char *model_entry(const serve_server *server, uint32_t i, const char **url) {
  const serve_version *v = server->models[i]->versions[server->models[i]->current];
  *url = v->url;
  return v->name;
}

bool serve_list(serve_job *job, char **parts) {
  (void)parts;
  return serve_answer_page(job, "model", job->server->model_count, model_entry);
}

static void print_workers(base_text *to, const serve_version *v) {
  char when[40];
  struct tm tm;
  const time_t loaded = (time_t)v->loaded_s;
  gmtime_r(&loaded, &tm);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
  base_text_print(to, "    \"workers\": [");
  for (uint32_t i = 0; i < serve_workers(v); i++) {
    uint64_t memory = 0;
    const int pid = v->python ? serve_python_process(v, i, &memory) : (int)getpid();
    base_text_print(
        to,
        "%s\n      {\n        \"id\": \"%u\",\n        \"startTime\": \"%s\",\n        \"status\": \"READY\",\n"
        "        \"memoryUsage\": %llu,\n        \"pid\": %d,\n        \"gpu\": false\n      }",
        i ? "," : "", 9000 + i, when, (unsigned long long)memory, pid);
  }
  base_text_print(to, "\n    ],\n");
}

/* 0 where a model has no sequences, as TorchServe tells it. */
static void print_sequences(base_text *to, const serve_version *v) {
  const bool has = v->model && td_model_state_count(v->model);
  base_text_print(to,
                  "    \"stateful\": %s,\n    \"sequenceMaxIdleMSec\": %llu,\n    \"sequenceTimeoutMSec\": %llu,\n"
                  "    \"maxNumSequence\": %u,\n    \"maxSequenceJobQueueSize\": %u,\n",
                  has ? "true" : "false", has ? (unsigned long long)v->sequence_idle_ms : 0,
                  has ? (unsigned long long)v->sequence_limit_ms : 0, has ? v->most_sequences : 0,
                  has ? v->sequence_queue : 0);
}

static void print_version(base_text *to, const serve_version *v) {
  base_text_print(to, "  {\n    \"modelName\": \"%s\",\n    \"modelVersion\": ", v->name);
  base_text_quote(to, v->number, strlen(v->number));
  base_text_print(to, ",\n    \"modelUrl\": ");
  base_text_quote(to, v->url, strlen(v->url));
  base_text_print(
      to,
      ",\n    \"runtime\": \"%s\",\n    \"minWorkers\": %u,\n    \"maxWorkers\": %u,\n    \"batchSize\": %u,\n"
      "    \"maxBatchDelay\": %llu,\n    \"responseTimeout\": %llu,\n    \"startupTimeout\": %llu,\n    "
      "\"clientTimeoutInMills\": %llu,\n",
      v->runtime, v->min_workers, v->max_workers, v->batch_size, (unsigned long long)v->delay_ms,
      (unsigned long long)(v->limit_ns / 1000000000u), (unsigned long long)(v->start_ns / 1000000000u),
      (unsigned long long)v->client_ms);
  print_sequences(to, v);
  base_text_print(to, "    \"loadedAtStartup\": %s,\n", v->at_start ? "true" : "false");
  if (v->split || v->shadow)
    base_text_print(to, "    \"trafficSplit\": %u,\n    \"trafficShadow\": %u,\n", v->split, v->shadow);
  print_workers(to, v);
  base_text_print(
      to, "    \"jobQueueStatus\": {\n      \"remainingCapacity\": %u,\n      \"pendingRequests\": %u\n    }\n  }",
      v->queue_limit - v->depth, v->depth);
}

bool serve_describe(serve_job *job, char **parts) {
  const bool all = parts[1] && strcmp(parts[1], "all") == 0;
  const serve_version *v = serve_find(job, parts[0], all ? NULL : parts[1]);
  if (!v) return true;
  const serve_model *m = serve_find_model(job->server, parts[0]);
  base_text_print(&job->reply, "[\n");
  pthread_mutex_lock(&job->server->lock);
  for (uint32_t i = 0, told = 0; i < m->count; i++) {
    if (!all && m->versions[i] != v) continue;
    if (told++) base_text_print(&job->reply, ",\n");
    print_version(&job->reply, m->versions[i]);
  }
  pthread_mutex_unlock(&job->server->lock);
  serve_answer(job, 200, "\n]\n");
  return true;
}

/* ---- delete, default ---- */

bool serve_unregister(serve_job *job, char **parts) {
  serve_version *v = serve_find(job, parts[0], parts[1]);
  if (!v) return true;
  serve_model *m = serve_find_model(job->server, parts[0]);
  uint32_t index = 0;
  while (m->versions[index] != v) index++;
  if (index == m->current && m->count > 1) {
    serve_refuse(job, 403, "Can't unregister default version: %s", v->number);
    return true;
  }
  const char *name = base_arena_text(job->arena, m->name);
  serve_remove_version(job->server, m, index);
  serve_answer(job, 200, "{\n  \"status\": \"Model \\\"%s\\\" unregistered\"\n}\n", name ? name : "");
  return true;
}

bool serve_set_default(serve_job *job, char **parts) {
  serve_version *v = serve_find(job, parts[0], parts[1]);
  if (!v) return true;
  serve_model *m = serve_find_model(job->server, parts[0]);
  for (uint32_t i = 0; i < m->count; i++)
    if (m->versions[i] == v) m->current = i;
  serve_note_health(job->server);
  v->split = v->shadow = 0; /* it has them all */
  serve_answer(job, 200,
               "{\n  \"status\": \"Default version successfully updated for model \\\"%s\\\" to \\\"%s\\\"\"\n}\n",
               m->name, v->number);
  return true;
}

/* Of 100 requests for no version so many to this one, or copies of so many; 0: none any more. */
bool serve_set_traffic(serve_job *job, char **parts) {
  int64_t split, shadow, all = 0;
  serve_version *v = serve_find(job, parts[0], parts[1]);
  if (!v || !serve_number(job, NULL, "split", 0, 100, 0, &split) ||
      !serve_number(job, NULL, "shadow", 0, 100, 0, &shadow))
    return true;
  const serve_model *m = serve_find_model(job->server, parts[0]);
  for (uint32_t i = 0; i < m->count; i++) all += m->versions[i] == v ? split : m->versions[i]->split;
  if (v == m->versions[m->current])
    serve_refuse(job, 400, "version %s is the default one: name the version that is to have a share", v->number);
  else if (all > 100) serve_refuse(job, 400, "the versions of model %s would share %lld %%", v->name, (long long)all);
  else if (shadow && (v->python || m->versions[m->current]->python))
    serve_refuse(job, 400, "replies of Python handlers are not compared: use split");
  else {
    v->split = (uint32_t)split;
    v->shadow = (uint32_t)shadow;
    v->split_turn = v->shadow_turn = 0;
    serve_answer(job, 200, "{\n  \"status\": \"Version %s of model %s answers %u %% and shadows %u %%\"\n}\n",
                 v->number, v->name, v->split, v->shadow);
  }
  return true;
}

/* ---- KServe's model repository ---- */

bool serve_repository(serve_job *job, char **parts) {
  (void)parts;
  const serve_server *server = job->server;
  bool first = true;
  base_text_print(&job->reply, "[");
  pthread_mutex_lock(&job->server->lock);
  for (uint32_t i = 0; i < server->model_count; i++)
    for (uint32_t j = 0; j < server->models[i]->count; j++) {
      const serve_version *v = server->models[i]->versions[j];
      base_text_print(&job->reply, "%s{\"name\":\"%s\",\"version\":\"%s\",\"state\":\"%s\",\"reason\":\"\"}",
                      first ? "" : ",", v->name, v->number, v->session_count ? "READY" : "UNAVAILABLE");
      first = false;
    }
  pthread_mutex_unlock(&job->server->lock);
  serve_answer(job, 200, "]");
  return true;
}

/* Loaded anew: the new version takes the place of the one of the same number, which ends when its jobs have. */
static serve_job *replaced(serve_job *job) {
  order *o = job->order;
  serve_version *v = o->version;
  if (!v) {
    serve_fail(job, o->status, &o->err);
    return job;
  }
  serve_model *m = serve_find_model(job->server, v->name);
  bool replaces = false;
  for (uint32_t i = 0; m && i < m->count; i++)
    if (strcmp(m->versions[i]->number, v->number) == 0) {
      serve_version *old = m->versions[i];
      serve_keep(v);
      v->split = old->split;
      v->shadow = old->shadow;
      m->versions[i] = v;
      serve_release(old);
      replaces = true;
    }
  if (!replaces && serve_add_version(job->server, v, &o->err) != TD_OK) {
    serve_fail(job, TD_NO_RESOURCE, &o->err);
    return give_up(job);
  }
  serve_answer(job, 200, "{\"name\":\"%s\",\"load\":true}", v->name);
  return job;
}

bool serve_repository_load(serve_job *job, char **parts) {
  const serve_version *v = serve_find_version(job->server, parts[0], NULL);
  order *o = new_order(job);
  if (!o) return true;
  o->name = parts[0];
  if (v) o->config.min_workers = v->max_workers;
  o->url = v ? v->url : serve_find_in_store(job->server, job->arena, parts[0]);
  o->path = o->url ? serve_store_path(job->server, job->arena, o->url) : NULL;
  if (!o->path) {
    serve_refuse(job, 404, "there is no file of model %s in the model store", parts[0]);
    return true;
  }
  job->finish = replaced;
  serve_order(job, load);
  return false;
}

bool serve_repository_unload(serve_job *job, char **parts) {
  serve_model *m = serve_find_model(job->server, parts[0]);
  if (!m) {
    serve_refuse(job, 404, "there is no model called %s", parts[0]);
    return true;
  }
  const char *name = base_arena_text(job->arena, m->name);
  for (uint32_t left = m->count; left; left--) serve_remove_version(job->server, m, left - 1);
  serve_answer(job, 200, "{\"name\":\"%s\",\"unload\":true}", name ? name : "");
  return true;
}
