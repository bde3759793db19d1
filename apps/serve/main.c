/* main.c -- `treadle-serve`: options, models, workers, and then the loop. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <treadle/defaults.h>

#include "server.h"

static const char usage[] =
    "usage: treadle serve [OPTION...] [NAME=]MODEL...\n\n"
    "Serves models on 127.0.0.1: KServe's V2 protocol (/v2/models/NAME/infer, JSON and binary tensors), and "
    "TorchServe's\n"
    "/ping and /predictions/NAME (a picture in, the five likeliest classes out). A model is called as its file is,\n"
    "without the ending; it may be a .mar archive with the handler image_classifier. There is no authentication and no "
    "TLS: only this machine can connect.\n\n"
    "  --port N          where to listen; default 8080; 0: any, which is printed\n"
    "  --workers N       requests of a model that are computed at the same time, a thread each; default: usable CPUs\n"
    "  --queue N         requests that may wait for a model; more are answered 503; default 100\n"
    "  --timeout S       seconds that a request may wait before it is answered 504; default 120\n"
    "  --most-bytes N    of a request's body; more are answered 413; default 67108864\n"
    "  --drain S         seconds that requests in flight have after SIGTERM; default 25\n";

static td_status number(const char *text, int64_t low, int64_t high, int64_t *value, td_error *err) {
  if (base_str_int(base_str_of(text), value) && *value >= low && *value <= high) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, text, -1, "is no number from %lld to %lld", (long long)low, (long long)high);
}

static td_status read_options(int count, char **words, serve_server *s, bool *help, td_error *err) {
  static const struct option options[] = {
      {"port", 1, NULL, 'p'},       {"workers", 1, NULL, 'w'}, {"queue", 1, NULL, 'q'}, {"timeout", 1, NULL, 't'},
      {"most-bytes", 1, NULL, 'b'}, {"drain", 1, NULL, 'd'},   {"help", 0, NULL, 'h'},  {0}};
  int64_t v = 0;
  for (int c; (c = getopt_long(count, words, "h", options, NULL)) != -1;) {
    switch (c) {
      case 'p':
        TRY(number(optarg, 0, 65535, &v, err));
        s->port = (uint16_t)v;
        break;
      case 'w':
        TRY(number(optarg, 1, 1024, &v, err));
        s->workers = (uint32_t)v;
        break;
      case 'q':
        TRY(number(optarg, 1, 65536, &v, err));
        s->queue = (uint32_t)v;
        break;
      case 't':
        TRY(number(optarg, 1, 86400, &v, err));
        s->limit_ns = (uint64_t)v * 1000000000u;
        break;
      case 'b':
        TRY(number(optarg, 1, (int64_t)1 << 40, &v, err));
        s->most_bytes = (size_t)v;
        break;
      case 'd':
        TRY(number(optarg, 0, 86400, &v, err));
        s->drain_seconds = (uint32_t)v;
        break;
      case 'h': *help = true; break;
      default: return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "see treadle serve --help");
    }
  }
  return *help || optind < count ? TD_OK : base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "name a model to serve");
}

static td_status open_model(serve_server *s, serve_model *m, const char *word, base_arena *arena, td_error *err) {
  const char *equals = strchr(word, '='), *path = equals ? equals + 1 : word, *slash = strrchr(path, '/');
  const char *file = slash ? slash + 1 : path, *dot = strrchr(file, '.');
  m->server = s;
  m->name = equals ? base_arena_slice(arena, word, (size_t)(equals - word))
                   : base_arena_slice(arena, file, dot && dot > file ? (size_t)(dot - file) : strlen(file));
  m->threads = base_new(arena, sys_thread, s->workers);
  m->sessions = base_new(arena, td_session *, s->workers);
  if (!m->name || !m->threads || !m->sessions) return base_no_memory(err, "a model");
  for (const serve_model *other = s->models; other < m; other++)
    if (strcmp(other->name, m->name) == 0)
      return base_fail(err, TD_BAD_ARGUMENT, m->name, -1, "two models are called so");
  const bool is_archive = base_str_ends(base_str_of(path), ".mar");
  const td_status status =
      is_archive ? serve_open_archive(m, arena, path, err) : td_model_load(path, &s->load, &m->model, err);
  if (status != TD_OK) return base_error_name(err, status, "%s", path);
  TRY(serve_start_workers(m, err));
  s->model_count++;
  return TD_OK;
}

static td_status serve(serve_server *s, char **words, int count, base_arena *arena, td_error *err) {
  td_status status = TD_OK;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, NULL); /* of all threads: the loop reads them */
  if (!s->workers) s->workers = sys_threads_read();
  s->models = base_new(arena, serve_model, (size_t)count);
  s->done_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  pthread_mutex_init(&s->done_lock, NULL);
  if (!s->models || s->done_event < 0) return base_no_memory(err, "models");
  for (int i = 0; status == TD_OK && i < count; i++) status = open_model(s, &s->models[i], words[i], arena, err);
  if (status == TD_OK) status = serve_run(s, err);
  for (uint32_t i = 0; i < s->model_count; i++) serve_stop_workers(&s->models[i]);
  close(s->done_event);
  return status;
}

int main(int count, char **words) {
  serve_server server = {
      .port = 8080, .queue = 100, .drain_seconds = 25, .most_bytes = 1 << 26, .limit_ns = 120000000000u};
  td_error err = {.offset = -1};
  td_defaults room;
  bool help = false;
  server.load = (td_load_options){.size = sizeof server.load, .tiered = 1};
  td_load_defaults(&server.load, &room);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  td_status status = arena ? read_options(count, words, &server, &help, &err) : base_no_memory(&err, "a start");
  if (status == TD_OK && help) fputs(usage, stdout);
  else if (status == TD_OK) status = serve(&server, words + optind, count - optind, arena, &err);
  if (status != TD_OK) fprintf(stderr, "treadle-serve: %s%s%s\n", err.name, err.name[0] ? ": " : "", err.text);
  base_arena_free(arena);
  return (int)status;
}
