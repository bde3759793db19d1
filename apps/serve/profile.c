/* profile.c -- where the time of a version's next requests goes. One of its sessions is watched: the first one that is
 * taken, and from then on the one that is taken first where it is idle. With one worker these are all requests. The
 * thread that computes with the session counts, and writes the report; the first loop ends what will have none. */
#include <string.h>

#include "server.h"

enum { MOST_REQUESTS = 1000000, DEFAULT_REQUESTS = 20, MOST_SECONDS = 3600, DEFAULT_SECONDS = 60 };

/* Why there is no report. */
typedef enum ending { GOES_ON, LATE, CLIENT_GONE, MODEL_GONE, SCALED, SERVER_ENDS } ending;
static const struct {
  int32_t status;
  const char *what;
} endings[] = {[LATE] = {504, "the time was up"},
               [CLIENT_GONE] = {499, "the client had gone"},
               [MODEL_GONE] = {404, "the version was gone"},
               [SCALED] = {409, "the model was scaled"},
               [SERVER_ENDS] = {503, "the server ends"}};

struct serve_profile {
  serve_profile *next; /* in server->profiles */
  serve_job *job;      /* that asked for it */
  const char *form, *group;
  uint64_t until_ns;
  uint32_t wanted;
  /* ---- under server->lock ---- */
  void *session; /* serve_session; NULL: none has been taken yet */
  bool is_busy;  /* a thread computes with it */
  ending why;
  /* ---- of that thread; under the lock where there is none ---- */
  uint32_t count; /* requests that were answered */
  bool is_written;
  td_status failed;
  td_error err;
};

/* ---- on the thread that computes ---- */

serve_profile *serve_profile_take(serve_version *v, void **session) {
  serve_profile *p = v->profile;
  void **last = &v->idle[--v->idle_count];
  for (uint32_t i = 0; p && p->session && i < v->idle_count; i++)
    if (v->idle[i] == p->session) {
      v->idle[i] = *last;
      *last = p->session;
    }
  *session = *last;
  if (p && !p->session) p->session = *session;
  if (!p || p->session != *session) return NULL;
  p->is_busy = true;
  return p;
}

void serve_profile_begin(serve_profile *p) {
  if (!serve_session_profile(p->session)) p->failed = serve_session_watch(p->session, &p->err);
}

static td_status add_text(void *user, const char *bytes, size_t count) {
  base_text_add(user, bytes, count);
  return TD_OK;
}

/* The library's JSON begins with where the model's file lies, which is nobody's business. */
static td_status write_json(serve_profile *p, const td_profile_view *view, td_error *err) {
  static const char behind[] = "\", \"machine\": ";
  serve_job *job = p->job;
  base_text own = {.allocator = &job->memory};
  td_status status = td_profile_write(serve_session_profile(p->session), view, add_text, &own, err);
  base_text_add(&own, "", 1);
  const char *rest = status == TD_OK && !own.failed ? strstr(own.at, behind) : NULL;
  if (rest) {
    base_text_print(&job->reply, "{\"model\": \"%s\", \"version\": ", job->version->name); /* needs no quoting */
    base_text_quote(&job->reply, job->version->number, strlen(job->version->number));
    base_text_print(&job->reply, ", \"requests\": %u%s", p->count, rest + 1);
  } else if (status == TD_OK) {
    status = base_no_memory(err, "a profile");
  }
  base_text_free(&own);
  return status;
}

static td_status write_report(serve_profile *p, td_error *err) {
  const td_profile_view view = {.size = sizeof view, .form = p->form, .group = p->group};
  serve_job *job = p->job;
  job->status = 200;
  if (strcmp(p->form, "json") == 0) return write_json(p, &view, err);
  job->type = "text/plain; charset=utf-8";
  return td_profile_write(serve_session_profile(p->session), &view, add_text, &job->reply, err);
}

void serve_profile_count(serve_profile *p, serve_job *const *jobs, uint32_t count) {
  if (p->failed != TD_OK) return;
  for (uint32_t i = 0; i < count; i++) p->count += jobs[i]->status == 200;
  if (p->count < p->wanted) return;
  p->failed = write_report(p, &p->err);
  if (p->failed == TD_OK && p->job->reply.failed) p->failed = base_no_memory(&p->err, "a profile");
  p->is_written = p->failed == TD_OK;
}

/* With server->lock held: its session is anybody's again. */
static void leave(serve_version *v) {
  if (v->profile->session) serve_session_unwatch(v->profile->session);
  v->profile = NULL;
}

bool serve_profile_give(serve_profile *p) {
  p->is_busy = false;
  const bool is_over = p->is_written || p->failed != TD_OK || p->why != GOES_ON;
  if (is_over) leave(p->job->version);
  return is_over;
}

void serve_profile_end(serve_profile *p) {
  serve_job *job = p->job;
  if (p->failed != TD_OK) serve_fail(job, p->failed, &p->err);
  else if (!p->is_written)
    serve_refuse(job, endings[p->why].status, "%s after %u of %u requests", endings[p->why].what, p->count, p->wanted);
  serve_done(job);
}

/* ---- without a report ---- */

/* `session`: of which it has to be; NULL: of any. Where a thread computes with it, that ends it. */
static void stop(serve_version *v, serve_profile *p, const void *session, ending why) {
  pthread_mutex_lock(&v->server->lock);
  if (session) p = v->profile;
  const bool is_meant = p && v->profile == p && (!session || p->session == session);
  if (is_meant) p->why = why;
  const bool is_over = is_meant && !p->is_busy;
  if (is_over) leave(v);
  pthread_mutex_unlock(&v->server->lock);
  if (is_over) serve_profile_end(p);
}

void serve_profile_lose(serve_version *v, const void *session) { stop(v, NULL, session, SCALED); }

static ending reason(const serve_profile *p, uint64_t now) {
  const serve_job *job = p->job;
  const serve_version *v = job->version;
  if (__atomic_load_n(&job->cancel, __ATOMIC_RELAXED)) return CLIENT_GONE;
  if (job->server->draining) return SERVER_ENDS;
  if (serve_find_version(job->server, v->name, v->number) != v) return MODEL_GONE;
  return now > p->until_ns ? LATE : GOES_ON;
}

void serve_sweep_profiles(serve_server *server) {
  const uint64_t now = sys_clock_ns();
  for (serve_profile *p = server->profiles; p; p = p->next) {
    const ending why = reason(p, now);
    if (why != GOES_ON) stop(p->job->version, p, NULL, why);
  }
}

/* ---- the route ---- */

static serve_job *come_back(serve_job *job) {
  serve_profile **at = &job->server->profiles;
  while ((*at)->job != job) at = &(*at)->next;
  *at = (*at)->next;
  return job;
}

/* One of `names`, of which the first one is the default; NULL: it is refused. */
static const char *choose(serve_job *job, const char *name, const char *const *names) {
  const char *asked = serve_query(job, name);
  if (!asked) return names[0];
  for (; *names; names++)
    if (strcmp(asked, *names) == 0) return *names;
  serve_refuse(job, 400, "there is no %s %s", name, asked);
  return NULL;
}

static bool can_profile(serve_job *job) {
  const serve_version *v = job->version;
  if (v->python) serve_refuse(job, 400, "model %s has a Python handler: it is not profiled here", v->name);
  else if (td_model_state_count(v->model))
    serve_refuse(job, 400, "model %s has state: its sequences' sessions are not profiled", v->name);
  else if (!serve_is_ready(v)) serve_refuse_unscaled(job);
  else return true;
  return false;
}

bool serve_ask_profile(serve_job *job, char **parts) {
  static const char *const forms[] = {"json", "table", NULL};
  static const char *const groups[] = {"node", "op", "kernel", "class", "module", "origin", NULL};
  int64_t wanted, seconds;
  serve_version *v = serve_find(job, parts[0], parts[1]);
  if (!v || !can_profile(job) || !serve_number(job, NULL, "requests", 1, MOST_REQUESTS, DEFAULT_REQUESTS, &wanted) ||
      !serve_number(job, NULL, "timeout", 1, MOST_SECONDS, DEFAULT_SECONDS, &seconds))
    return true;
  const char *form = choose(job, "form", forms), *group = form ? choose(job, "group", groups) : NULL;
  if (!group) return true;
  serve_profile *p = base_new(job->arena, serve_profile, 1);
  if (!p) {
    serve_refuse(job, 507, "out of memory");
    return true;
  }
  *p = (serve_profile){.job = job, .form = form, .group = group, .wanted = (uint32_t)wanted, .err = {.offset = -1}};
  p->until_ns = sys_clock_ns() + (uint64_t)seconds * 1000000000u;
  pthread_mutex_lock(&job->server->lock);
  const bool is_free = !v->profile;
  if (is_free) v->profile = p;
  pthread_mutex_unlock(&job->server->lock);
  if (!is_free) {
    serve_refuse(job, 409, "a profile of version %s of model %s is being recorded", v->number, v->name);
    return true;
  }
  p->next = job->server->profiles;
  job->server->profiles = p;
  job->finish = come_back;
  return false;
}
