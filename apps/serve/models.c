/* models.c -- the table of models and their versions, sorted by name. */
#include <stdlib.h>
#include <string.h>

#include "server.h"

serve_model *serve_find_model(const serve_server *server, const char *name) {
  uint32_t low = 0, high = server->model_count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    const int order = strcmp(server->models[middle]->name, name);
    if (order == 0) return server->models[middle];
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return NULL;
}

serve_version *serve_find_version(const serve_server *server, const char *name, const char *number) {
  const serve_model *m = serve_find_model(server, name);
  if (!m) return NULL;
  if (!number) return m->versions[m->current];
  for (uint32_t i = 0; i < m->count; i++)
    if (strcmp(m->versions[i]->number, number) == 0) return m->versions[i];
  return NULL;
}

void serve_keep(serve_version *v) { v->refs++; }

static void free_it(serve_job *job) { serve_free_version(job->order); }

void serve_release(serve_version *v) {
  if (!v || --v->refs) return;
  serve_python_retire(v);
  v->freeing = (serve_job){.server = v->server, .order = v};
  serve_order(&v->freeing, free_it);
}

void serve_free_job(serve_job *job) {
  serve_free_body(job);
  base_text_free(&job->reply);
  base_arena_free(job->arena);
  if (job->watched) job->server->listeners--;
  serve_release(job->version);
  *job = (serve_job){0};
}

serve_version *serve_find(serve_job *job, const char *name, const char *number) {
  serve_version *v = serve_find_version(job->server, name, number);
  if (v) {
    serve_keep(v);
    job->version = v;
  } else if (!serve_find_model(job->server, name)) {
    serve_refuse_as(job, 404, "ModelNotFoundException", "Model not found: %s", name);
  } else {
    serve_refuse_as(job, 404, "ModelVersionNotFoundException", "Model version: %s does not exist for model: %s", number,
                    name);
  }
  return v;
}

bool serve_is_ready(const serve_version *v) { return v->max_workers > 0 && (!v->python || serve_python_works(v)); }

/* A longer table with room at `at`; the old one is kept where memory runs out. */
static bool insert(void ***table, uint32_t *count, uint32_t at, void *item) {
  void **longer = realloc(*table, (*count + 1) * sizeof *longer);
  if (!longer) return false;
  memmove(longer + at + 1, longer + at, (*count - at) * sizeof *longer);
  longer[at] = item;
  *table = longer;
  ++*count;
  return true;
}

static serve_model *add_model(serve_server *server, const char *name) {
  serve_model *m = calloc(1, sizeof *m);
  uint32_t at = 0;
  if (!m || !(m->name = strdup(name))) {
    free(m);
    return NULL;
  }
  while (at < server->model_count && strcmp(server->models[at]->name, name) < 0) at++;
  if (insert((void ***)&server->models, &server->model_count, at, m)) return m;
  free(m->name);
  free(m);
  return NULL;
}

static void free_model(serve_model *m) {
  free(m->versions);
  free(m->name);
  free(m);
}

static void remove_model(serve_server *server, serve_model *m) {
  uint32_t at = 0;
  while (server->models[at] != m) at++;
  server->model_count--;
  memmove(&server->models[at], &server->models[at + 1], (server->model_count - at) * sizeof(serve_model *));
  free_model(m);
}

void serve_free_models(serve_server *server) {
  for (uint32_t i = 0; i < server->model_count; i++) {
    serve_model *m = server->models[i];
    for (uint32_t j = 0; j < m->count; j++) serve_free_version(m->versions[j]);
    free_model(m);
  }
  free(server->models);
}

td_status serve_add_version(serve_server *server, serve_version *v, td_error *err) {
  serve_model *m = serve_find_model(server, v->name);
  if (serve_find_version(server, v->name, v->number))
    return base_fail(err, TD_BAD_ARGUMENT, v->name, -1, "version %s is registered already", v->number);
  if (!m) m = add_model(server, v->name);
  if (!m) return base_no_memory(err, "a model");
  if (!insert((void ***)&m->versions, &m->count, m->count, v)) {
    if (!m->count) remove_model(server, m);
    return base_no_memory(err, "a version");
  }
  serve_keep(v);
  serve_note_health(server);
  return TD_OK;
}

void serve_remove_version(serve_server *server, serve_model *m, uint32_t index) {
  serve_version *v = m->versions[index];
  m->count--;
  memmove(&m->versions[index], &m->versions[index + 1], (m->count - index) * sizeof(serve_version *));
  if (m->current > index) m->current--;
  if (!m->count) remove_model(server, m);
  serve_note_health(server);
  serve_end_sequences(server, v);
  serve_release(v);
}
