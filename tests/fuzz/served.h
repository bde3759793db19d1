/* served.h -- what the fuzz targets of whole requests share: a server with one model and no threads. What requests
 * leave in its queues is done here, between them. */
#ifndef TESTS_FUZZ_SERVED_H
#define TESTS_FUZZ_SERVED_H
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline td_status serve_net(serve_server *server, td_error *err) {
  serve_version *v;
  TRY(serve_open_queues(server, err));
  TRY(serve_load(server, "net", "net.tdir", "tests/fuzz/served.tdir", &v, err));
  TRY(serve_scale(v, 1, err));
  return serve_add_version(server, v, err);
}

/* The one server of all inputs. */
static inline serve_server *served(void) {
  static serve_server server = {.options = {.queue = 8,
                                            .timeout_s = 120,
                                            .transfer_s = 30,
                                            .batch = 1,
                                            .workers = 1,
                                            .io_threads = 1,
                                            .start_workers = 1,
                                            .most_bytes = 1 << 16,
                                            .most_held = 1 << 24,
                                            .sequences = 4}};
  td_error err = {.offset = -1};
  if (server.model_count) return &server;
  server.load = (td_load_options){.size = sizeof server.load, .backend = "aot_eager"};
  if (serve_net(&server, &err) != TD_OK) abort();
  return &server;
}

/* What compute threads and the loader would do, until there is no more of it. */
static inline void work_off(serve_server *server) {
  serve_version *v = server->models[0]->versions[0];
  td_error err = {.offset = -1};
  for (bool more = true; more;) {
    serve_job *next, *job = serve_take_queue(v);
    more = job != NULL;
    for (; job; job = next) {
      next = job->next;
      if (v->idle_count) serve_compute(&job, 1, serve_session_run(v->idle[0]), NULL);
      else serve_refuse(job, 503, "there are no workers");
      serve_done(job);
    }
    while ((job = server->load_first)) {
      server->load_first = job->next;
      job->work(job);
      more = true;
    }
    serve_take_done(server->loops);
  }
  if (v->session_count != 1 && serve_scale(v, 1, &err) != TD_OK) abort(); /* a request may have scaled it */
}
#endif
