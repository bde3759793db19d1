/* load.c -- versions of models: loaded, warmed, scaled, freed; on the loader's thread, or before it starts. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "bundle.h"

enum { START_SECONDS = 120 }; /* in which a process of a Python handler has to be ready, as TorchServe has it */
enum { SEQUENCE_QUEUE = 16 };

void serve_free_version(serve_version *v) {
  if (!v) return;
  serve_python_free(v);
  for (uint32_t i = 0; i < v->idle_count; i++) serve_session_free(v->idle[i]);
  td_model_free(v->model);
  sys_unmap(&v->archive);
  sys_unmap(&v->inflated);
  base_free(&base_libc_allocator, v->idle, SERVE_MOST_WORKERS * sizeof *v->idle);
  base_arena_free(v->arena);
}

void serve_configure(serve_version *v, const serve_config *c) {
  if (c->min_workers >= 0) v->min_workers = (uint32_t)c->min_workers;
  if (c->max_workers >= 0) v->max_workers = (uint32_t)c->max_workers;
  else if (c->min_workers >= 0) v->max_workers = (uint32_t)c->min_workers;
  if (v->min_workers > v->max_workers) v->min_workers = v->max_workers; /* else it could not be healthy */
  if (c->batch >= 0) v->batch_size = (uint32_t)c->batch;
  if (c->delay_ms >= 0) v->delay_ms = (uint64_t)c->delay_ms;
  if (c->timeout_s >= 0) v->limit_ns = (uint64_t)c->timeout_s * 1000000000u;
  if (c->start_s >= 0) v->start_ns = (uint64_t)c->start_s * 1000000000u;
  if (c->client_ms >= 0) v->client_ms = (uint64_t)c->client_ms;
  if (c->queue >= 0) v->queue_limit = (uint32_t)c->queue;
  if (c->sequences > 0) v->most_sequences = (uint32_t)c->sequences; /* 0, as TorchServe has it, says nothing */
  if (c->sequence_queue > 0) v->sequence_queue = (uint32_t)c->sequence_queue;
  if (c->sequence_idle_ms > 0) v->sequence_idle_ms = (uint64_t)c->sequence_idle_ms;
  if (c->sequence_limit_ms >= 0) v->sequence_limit_ms = (uint64_t)c->sequence_limit_ms;
}

static serve_version *new_version(serve_server *server, const char *name, const char *url) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  serve_version *v = arena ? base_new(arena, serve_version, 1) : NULL;
  if (!v) {
    base_arena_free(arena);
    return NULL;
  }
  const char *slash = strrchr(url, '/'), *file = slash ? slash + 1 : url, *dot = strrchr(file, '.');
  *v = (serve_version){.arena = arena, .server = server, .number = "1", .runtime = "c", .loaded_s = time(NULL)};
  v->name = name ? base_arena_slice(arena, name, strlen(name))
                 : base_arena_slice(arena, file, dot && dot > file ? (size_t)(dot - file) : strlen(file));
  v->url = base_arena_slice(arena, url, strlen(url));
  v->idle = base_alloc(&base_libc_allocator, SERVE_MOST_WORKERS * sizeof *v->idle);
  v->batch_rows = 1;
  const serve_options *o = &server->options;
  serve_configure(v, &(serve_config){o->start_workers, o->start_workers, o->batch, o->delay_ms, o->timeout_s, o->queue,
                                     -1, START_SECONDS, o->sequences, SEQUENCE_QUEUE, o->sequence_idle_ms, 0});
  if (v->name && v->url && v->idle) return v;
  serve_free_version(v);
  return NULL;
}

static bool is_name(const char *name) {
  const char *allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
  return *name && *name != '.' && *name != '-' && *name != '_' && !name[strspn(name, allowed)];
}

/* `status`: what came of loading it so far. */
static td_status give_version(serve_version *v, td_status status, serve_version **out, td_error *err) {
  if (status == TD_OK && !is_name(v->name))
    status = base_fail(err, TD_BAD_ARGUMENT, v->name, -1, "is no name for a model: letters, digits, and . - _ within");
  if (status == TD_OK) *out = v;
  else serve_free_version(v);
  return status;
}

td_status serve_load(serve_server *server, const char *name, const char *url, const char *path, serve_version **out,
                     td_error *err) {
  serve_version *v = new_version(server, name, url);
  *out = NULL;
  if (!v) return base_no_memory(err, "a model");
  td_status status = TD_OK;
  if (bundle_is_archive(path)) {
    status = serve_open_archive(v, path, name != NULL, err);
  } else {
    status = td_model_load(path, &server->load, &v->model, err);
  }
  return give_version(v, status, out, err);
}

td_status serve_load_function(serve_server *server, const char *name, const char *url, const char *path,
                              const char *handler, serve_version **out, td_error *err) {
  serve_version *v = new_version(server, name, url);
  *out = NULL;
  if (!v) return base_no_memory(err, "a function");
  const td_status status = serve_open_function(v, path, handler, err);
  return give_version(v, status, out, err);
}

/* The first one runs the model on zeros. */
static td_status make_session(serve_version *v, void **out, td_error *err) {
  serve_session *session;
  TRY(serve_session_new(v->server, v->model, v->first_bytes, &session, err));
  const td_status status = v->session_count ? TD_OK : serve_warm(v, serve_session_run(session), err);
  serve_session_settle(session);
  if (status == TD_OK) *out = session;
  else serve_session_free(session);
  return status;
}

static void free_session(serve_version *v, void *session) {
  if (v->python) {
    serve_python_end(v, session);
    return;
  }
  serve_profile_lose(v, session);
  serve_session_free(session);
}

/* Weights are packed by now. What is read of the others comes from its file again. */
static void give_back(const sys_mapping *mapping) {
  if (mapping->size) sys_give_back((void *)(uintptr_t)mapping->bytes, mapping->size);
}

static td_status add_sessions(serve_version *v, uint32_t count, td_error *err) {
  while (v->session_count < count) {
    void *session;
    TRY(make_session(v, &session, err));
    pthread_mutex_lock(&v->server->lock);
    v->first_bytes = serve_session_first(session);
    v->idle[v->idle_count++] = session;
    v->session_count++;
    pthread_cond_signal(&v->server->more);
    pthread_mutex_unlock(&v->server->lock);
  }
  give_back(&v->archive);
  give_back(&v->inflated);
  return TD_OK;
}

/* Frees sessions down to `count`, each once no thread has it; those of Python handlers may end by themselves. */
static td_status remove_sessions(serve_version *v, uint32_t count, td_error *err) {
  serve_server *server = v->server;
  for (;;) {
    void *session = NULL;
    pthread_mutex_lock(&server->lock);
    while (v->session_count > count && !v->idle_count && !server->stop)
      pthread_cond_wait(&server->settled, &server->lock);
    const bool done = v->session_count <= count;
    if (!done && v->idle_count) {
      session = v->idle[--v->idle_count];
      v->session_count--;
    }
    pthread_mutex_unlock(&server->lock);
    if (done) return TD_OK;
    if (!session) return base_fail(err, TD_NO_RESOURCE, v->name, -1, "the server ends");
    free_session(v, session);
  }
}

uint32_t serve_workers(const serve_version *v) {
  return v->python ? v->session_count : v->session_count ? v->workers : 0;
}

/* Processes of a Python handler have a number of threads for good: with another number of workers they may have to be
 * started anew. Of sessions there is one for each CPU, however many workers. */
td_status serve_scale(serve_version *v, uint32_t workers, td_error *err) {
  const uint32_t cpus = (uint32_t)v->server->options.workers, threads = workers && workers < cpus ? cpus / workers : 1;
  const uint32_t count = v->python ? workers : workers ? cpus : 0;
  if (v->python) serve_python_forget_missing(v);
  TRY(remove_sessions(v, v->python && threads != v->threads ? 0 : count, err));
  pthread_mutex_lock(&v->server->lock);
  v->workers = workers;
  v->threads = threads;
  pthread_mutex_unlock(&v->server->lock);
  return v->python ? serve_python_start(v, count, err) : add_sessions(v, count, err);
}

static const char *path_in(const char *store, base_arena *arena, const char *url) {
  if (!strncmp(url, "file://", 7)) url += 7;
  if (!store || !*url || strchr(url, '/') || strchr(url, '\\') || *url == '.' || strstr(url, "://")) return NULL;
  return base_arena_format(arena, "%s/%s", store, url);
}

const char *serve_store_path(const serve_server *server, base_arena *arena, const char *url) {
  return path_in(server->options.model_store, arena, url);
}

static const char *workflow_store(const serve_server *server) {
  return server->options.workflow_store ? server->options.workflow_store : server->options.model_store;
}

const char *serve_workflow_path(const serve_server *server, base_arena *arena, const char *url) {
  return path_in(workflow_store(server), arena, url);
}

void serve_hide_store(const serve_server *server, td_error *err) {
  const char *stores[] = {server->options.model_store, workflow_store(server)};
  for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
    const size_t length = stores[i] ? strlen(stores[i]) : 0;
    if (!length || strncmp(err->name, stores[i], length) != 0 || err->name[length] != '/') continue;
    memmove(err->name, err->name + length + 1, strlen(err->name + length + 1) + 1);
    return;
  }
}

static const char *const endings[] = {".mar", ".tar.gz", ".onnx", ".pt2", ".pt", ".tdl", ".tdir"};

const char *serve_find_in_store(const serve_server *server, base_arena *arena, const char *name) {
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    const char *url = base_arena_format(arena, "%s%s", name, endings[i]);
    const char *path = url ? serve_store_path(server, arena, url) : NULL;
    sys_mapping there;
    if (!path || sys_file_map(path, &there, NULL) != TD_OK) continue;
    sys_unmap(&there);
    return url;
  }
  return NULL;
}

/* ---- at the start ---- */

static bool is_model(const char *file) {
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    if (base_str_ends(base_str_of(file), endings[i])) return true;
  return false;
}

/* The model in a folder, as engines hand one over; a path that is no folder is that path. */
static td_status find_in_folder(base_arena *arena, const char **path, td_error *err) {
  DIR *folder = bundle_is_archive(*path) ? NULL : opendir(*path);
  const char *found = NULL;
  bool several = false;
  if (!folder) return TD_OK;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!is_model(entry->d_name)) continue;
    several = found != NULL;
    found = base_arena_format(arena, "%s/%s", *path, entry->d_name);
    if (several || !found) break;
  }
  closedir(folder);
  if (!found || several)
    return base_fail(err, TD_BAD_FILE, *path, -1, "has %s model in it: name the file",
                     several ? "more than one" : "no");
  *path = found;
  return TD_OK;
}

static td_status load_one(serve_server *server, const char *name, const char *url, const char *path, td_error *err) {
  serve_version *v;
  td_status status = serve_load(server, name, url, path, &v, err);
  if (status != TD_OK) return base_error_name(err, status, "%s", path);
  v->at_start = true;
  status = serve_scale(v, v->max_workers, err);
  if (status == TD_OK) status = serve_add_version(server, v, err);
  if (status != TD_OK) serve_free_version(v);
  return status == TD_OK ? TD_OK : base_error_name(err, status, "%s", path);
}

static td_status load_word(serve_server *server, const char *word, bool in_store, base_arena *arena, td_error *err) {
  const char *equals = strchr(word, '='), *url = equals ? equals + 1 : word, *path = url;
  const char *name = equals ? base_arena_slice(arena, word, (size_t)(equals - word)) : NULL;
  if (in_store && !strchr(url, '/')) path = serve_store_path(server, arena, url);
  if (!path || (equals && !name))
    return base_fail(err, TD_BAD_ARGUMENT, url, -1, "is no file of the model store: give --model-store FOLDER");
  TRY(find_in_folder(arena, &path, err));
  return load_one(server, name, url, path, err);
}

static td_status load_all(serve_server *server, base_arena *arena, td_error *err) {
  DIR *folder = opendir(server->options.model_store ? server->options.model_store : "");
  td_status status = TD_OK;
  if (!folder) return base_fail(err, TD_BAD_FILE, server->options.model_store, -1, "no folder of models can be read");
  for (struct dirent *entry; status == TD_OK && (entry = readdir(folder));)
    if (is_model(entry->d_name)) status = load_word(server, entry->d_name, true, arena, err);
  closedir(folder);
  return status;
}

td_status serve_load_start(serve_server *server, char **words, int count, base_arena *arena, td_error *err) {
  const char *models = server->options.models ? server->options.models : "";
  if (strcmp(models, "all") == 0 || strcmp(models, "ALL") == 0) TRY(load_all(server, arena, err));
  else
    while (*models) {
      const size_t length = strcspn(models, ", ");
      const char *word = base_arena_slice(arena, models, length);
      if (!word) return base_no_memory(err, "a name");
      if (length) TRY(load_word(server, word, true, arena, err));
      models += length + (models[length] != 0);
    }
  for (int i = 0; i < count; i++) TRY(load_word(server, words[i], false, arena, err));
  return TD_OK;
}
