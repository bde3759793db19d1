/* session.c -- the engine's sessions. A session keeps the most memory that a request's sizes ever asked for: what it
 * has beyond its first run is counted with what requests hold, and given back when that becomes much. */
#include <stdlib.h>

#include "server.h"

/* Threads of a worker's share, for the sequences that take turns with them. */
struct serve_pool {
  serve_pool *next;
  td_pool *pool;
  uint32_t threads, index;
};

struct serve_session {
  serve_server *server;
  const td_model *model;
  td_session *run;
  td_pool *pool; /* NULL: threads of its own */
  bool is_kept;
  uint32_t threads;
  uint64_t first, bytes; /* of the first run; the most of all */
};

static td_status make(const serve_session *s, td_session **out, td_error *err) {
  const td_session_options options = {.size = sizeof options, .threads = s->threads, .pool = s->pool};
  return td_session_new(s->model, &options, out, err);
}

/* One that is as `as` says. */
static td_status open_session(const serve_session *as, serve_session **out, td_error *err) {
  serve_session *s = calloc(1, sizeof *s);
  *out = NULL;
  if (!s) return base_no_memory(err, "a session");
  *s = *as;
  const td_status status = make(s, &s->run, err);
  if (status == TD_OK) *out = s;
  else free(s);
  return status;
}

td_status serve_session_new(serve_server *server, const td_model *model, uint32_t threads, uint64_t first,
                            serve_session **out, td_error *err) {
  const serve_session as = {.server = server, .model = model, .threads = threads, .first = first};
  return open_session(&as, out, err);
}

td_status serve_make_pools(serve_version *v, uint32_t workers, td_error *err) {
  if (v->threads < 2 || !td_model_state_count(v->model)) return TD_OK; /* a caller's thread is all they have */
  for (uint32_t i = 0; i < workers; i++) {
    const td_pool_options options = {.size = sizeof options, .threads = v->threads};
    const serve_pool *same = v->pools; /* the loader alone adds to them */
    while (same && (same->threads != v->threads || same->index != i)) same = same->next;
    if (same) continue;
    serve_pool *own = calloc(1, sizeof *own);
    if (!own) return base_no_memory(err, "threads");
    const td_status status = td_pool_new(&options, &own->pool, err);
    if (status != TD_OK) {
      free(own);
      return status;
    }
    own->threads = v->threads;
    own->index = i;
    pthread_mutex_lock(&v->server->lock);
    own->next = v->pools;
    v->pools = own;
    pthread_mutex_unlock(&v->server->lock);
  }
  return TD_OK;
}

void serve_free_pools(serve_version *v) {
  for (serve_pool *one = v->pools, *next; one; one = next) {
    next = one->next;
    td_pool_free(one->pool);
    free(one);
  }
}

/* By turns, one for each worker: all that compute at once have no more threads than the workers would. */
static td_pool *take_pool(serve_version *v) {
  uint32_t count = 0;
  td_pool *taken = NULL;
  pthread_mutex_lock(&v->server->lock);
  for (const serve_pool *one = v->pools; one; one = one->next)
    count += one->threads == v->threads && one->index < v->session_count;
  for (const serve_pool *one = v->pools; one; one = one->next)
    if (count && one->threads == v->threads && one->index == v->next_pool % count) taken = one->pool;
  v->next_pool++;
  pthread_mutex_unlock(&v->server->lock);
  return taken;
}

td_status serve_session_new_kept(serve_version *v, serve_session **out, td_error *err) {
  const serve_session as = {
      .server = v->server, .model = v->model, .threads = 1, .is_kept = true, .pool = take_pool(v)};
  return open_session(&as, out, err);
}

td_session *serve_session_run(const serve_session *s) { return s->run; }
uint64_t serve_session_first(const serve_session *s) { return s->first; }

static uint64_t growth(const serve_session *s) { return s->bytes > s->first ? s->bytes - s->first : 0; }

static void set_bytes(serve_session *s, uint64_t bytes) {
  const uint64_t before = growth(s);
  s->bytes = bytes;
  if (s->is_kept) serve_keep_bytes(s->server, growth(s), before);
  else serve_hold(s->server, growth(s), before);
}

void serve_session_settle(serve_session *s) {
  td_session_stats stats = {.size = sizeof stats};
  td_session *fresh;
  if (td_session_get_stats(s->run, &stats, NULL) != TD_OK || (!stats.runs && !s->is_kept)) return;
  const uint64_t bytes = stats.arena_bytes + stats.tail_bytes + stats.state_bytes;
  if (!s->first && !s->is_kept) s->first = bytes + 1; /* also where it has none */
  if (bytes > s->bytes) set_bytes(s, bytes);
  const uint64_t others = serve_held(s->server) - serve_kept(s->server);
  if (s->is_kept || !growth(s) || others <= (uint64_t)s->server->options.most_held / 2) return;
  if (make(s, &fresh, NULL) != TD_OK) return; /* it stays as it is */
  td_session_free(s->run);
  s->run = fresh;
  set_bytes(s, 0);
}

void serve_session_free(serve_session *s) {
  if (!s) return;
  set_bytes(s, 0);
  td_session_free(s->run);
  free(s);
}
