/* session.c -- the engine's sessions. A session keeps the most memory that a request's sizes ever asked for: what it
 * has beyond its first run is counted with what requests hold, and given back when that becomes much. */
#include <stdlib.h>

#include "server.h"

struct serve_session {
  serve_server *server;
  const td_model *model;
  td_session *run;
  td_profile *profile; /* NULL: it is not watched */
  bool is_kept;
  uint64_t first, bytes; /* of the first run; the most of all */
};

/* The threads of all sessions, made when the first of these is. */
static td_status find_pool(serve_server *server, td_pool **pool, td_error *err) {
  const td_pool_options options = {.size = sizeof options, .threads = (uint32_t)server->options.workers};
  td_status status = TD_OK;
  pthread_mutex_lock(&server->lock);
  if (!server->pool) status = td_pool_new(&options, &server->pool, err);
  *pool = server->pool;
  pthread_mutex_unlock(&server->lock);
  return status;
}

static td_status make(const serve_session *s, td_session **out, td_error *err) {
  td_session_options options = {.size = sizeof options, .threads = s->server->options.workers > 1 ? 0 : 1};
  if (s->server->options.workers > 1) TRY(find_pool(s->server, &options.pool, err));
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

td_status serve_session_new(serve_server *server, const td_model *model, uint64_t first, serve_session **out,
                            td_error *err) {
  const serve_session as = {.server = server, .model = model, .first = first};
  return open_session(&as, out, err);
}

td_status serve_session_new_kept(serve_version *v, serve_session **out, td_error *err) {
  const serve_session as = {.server = v->server, .model = v->model, .is_kept = true};
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
  if (s->is_kept || s->profile || !growth(s) || others <= (uint64_t)s->server->options.most_held / 2) return;
  if (make(s, &fresh, NULL) != TD_OK) return; /* it stays as it is */
  td_session_free(s->run);
  s->run = fresh;
  set_bytes(s, 0);
}

td_status serve_session_watch(serve_session *s, td_error *err) {
  const td_profile_options options = {.size = sizeof options, .records = 1};
  return td_profile_new(s->run, &options, &s->profile, err);
}

void serve_session_unwatch(serve_session *s) {
  td_profile_free(s->profile);
  s->profile = NULL;
}

td_profile *serve_session_profile(const serve_session *s) { return s->profile; }

void serve_session_free(serve_session *s) {
  if (!s) return;
  set_bytes(s, 0);
  td_session_free(s->run);
  free(s);
}
