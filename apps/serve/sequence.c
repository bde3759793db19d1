/* sequence.c -- the table of sequences: which one a request belongs to, when one begins, ends or has been idle for too
 * long. All under server->tables, but for what a request says and sequence_open. */
#include "sequence.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- what a request says ---- */

/* Also of ids by which nothing is to be found: texts of KServe, numbers of Triton, which may not be 0. */
bool serve_name_sequence(serve_job *job, base_str id, bool starts, bool ends) {
  const serve_version *v = job->version;
  if (!v->model || !td_model_state_count(v->model)) return true; /* each of its answers stands alone */
  const bool is_named = id.length && !base_str_is(id, "0");
  if (!is_named && (id.at || starts || ends)) {
    serve_refuse(job, 400, "inference request to model '%s' must specify a non-zero or non-empty correlation ID",
                 v->name);
    return false;
  }
  if (id.length > SEQUENCE_ID_BYTES || (is_named && memchr(id.at, 0, id.length))) {
    serve_refuse(job, 400, "the id of a sequence has more than %d bytes, or a NUL", SEQUENCE_ID_BYTES);
    return false;
  }
  if (!is_named) return true;
  td_error err = {.offset = -1};
  const char *copy = base_arena_slice(job->arena, id.at, id.length); /* it may be told when the body is gone */
  if (!copy) {
    serve_fail(job, base_no_memory(&err, "a sequence"), &err);
    return false;
  }
  job->sequence_id = (base_str){copy, id.length};
  job->starts = starts;
  job->ends = ends;
  return true;
}

static base_str field_of(const serve_job *job, const char *name) {
  const size_t length = strlen(name);
  for (uint32_t i = 0; i < job->field_count; i++)
    if (job->fields[i].name.length == length && strncasecmp(job->fields[i].name.at, name, length) == 0)
      return job->fields[i].value;
  return (base_str){NULL, 0};
}

bool serve_is_true(base_str text) { return text.length == 4 && strncasecmp(text.at, "true", 4) == 0; }

bool serve_name_by_fields(serve_job *job) {
  job->begins = true;
  return serve_name_sequence(job, field_of(job, SERVE_SEQUENCE_ID), serve_is_true(field_of(job, SERVE_SEQUENCE_START)),
                             serve_is_true(field_of(job, SERVE_SEQUENCE_END)));
}

/* ---- the table ---- */

static serve_sequence **place_of(serve_server *server, const char *name, base_str id) {
  const uint64_t hash = base_hash(id.at, id.length, base_hash(name, strlen(name), server->started_ns));
  return &server->sequences[hash % SERVE_SEQUENCE_PLACES];
}

/* Where the first one of a place, from `at` on, stands with this id; *result is NULL where there is none. A request
 * that names no version is of the sequence with its id, whatever version that began with. */
static serve_sequence **find(serve_sequence **at, base_str id, const serve_version *v, bool names_version) {
  for (; *at; at = &(*at)->next)
    if (base_str_is(id, (*at)->id) && strcmp((*at)->version->name, v->name) == 0 &&
        (!names_version || strcmp((*at)->version->number, v->number) == 0))
      break;
  return at;
}

static void take_out(serve_sequence **at) {
  serve_sequence *s = *at;
  *at = s->next;
  s->is_out = true;
}

static void free_now(serve_sequence *s) {
  serve_session_free(s->session);
  free(s);
}

static void free_it(serve_job *job) { free_now(job->order); }

/* It is in no table and has no requests. Its session may be large: the loader frees it, before its version. */
static void drop(serve_sequence *s, bool timed_out) {
  serve_version *v = s->version;
  if (s->is_counted) ++*(timed_out ? &v->timed_out_sequences : &v->ended_sequences);
  v->sequences--;
  s->freeing = (serve_job){.server = v->server, .order = s};
  if (v->server->stop) free_now(s); /* no thread runs any more */
  else serve_order(&s->freeing, free_it);
  serve_release(v);
}

/* What it still has to do is done; then it is gone. */
static void retire(serve_sequence **at, bool timed_out) {
  serve_sequence *s = *at;
  take_out(at);
  if (!s->jobs) drop(s, timed_out);
}

static bool is_late(const serve_sequence *s, uint64_t now) {
  const serve_version *v = s->version;
  return now - s->used_ns > v->sequence_idle_ms * 1000000u ||
         (v->sequence_limit_ms && now - s->begun_ns > v->sequence_limit_ms * 1000000u);
}

/* In front of one with the same id that it is to replace, once it has begun. NULL: the job is refused. */
static serve_sequence *begin(serve_job *job, bool replaces) {
  serve_version *v = job->version;
  if (!serve_find_version(job->server, v->name, v->number)) { /* since the request has found it */
    serve_refuse_as(job, 404, "ModelVersionNotFoundException", "Model version: %s does not exist for model: %s",
                    v->number, v->name);
    return NULL;
  }
  if (v->sequences >= v->most_sequences && !replaces) {
    job->is_full = true;
    serve_refuse(job, 503, "model %s has %u sequences, as many as it may: end one, or try again later", v->name,
                 v->sequences);
    return NULL;
  }
  serve_sequence *s = calloc(1, sizeof *s);
  if (!s) {
    serve_refuse(job, 507, "out of memory");
    return NULL;
  }
  memcpy(s->id, job->sequence_id.at, job->sequence_id.length);
  s->version = v;
  s->names_version = job->names_version;
  serve_keep(v);
  v->sequences++;
  s->begun_ns = s->used_ns = sys_clock_ns();
  serve_sequence **at = place_of(job->server, v->name, job->sequence_id);
  s->next = *at;
  *at = s;
  return s;
}

static void refuse_unknown(serve_job *job) {
  serve_refuse(
      job, 400,
      "inference request for sequence %.*s to model '%s' must specify the START flag on the first request of the "
      "sequence",
      (int)job->sequence_id.length, job->sequence_id.at, job->version->name);
}

bool serve_join_sequence(serve_job *job) {
  if (!job->sequence_id.at || job->version->python) return true;
  serve_sequence **at = place_of(job->server, job->version->name, job->sequence_id), *s;
  at = find(at, job->sequence_id, job->version, job->names_version);
  s = *at;
  if (s && !s->jobs && is_late(s, sys_clock_ns())) {
    retire(at, true);
    s = NULL;
  }
  if (!s && !job->starts && !job->begins) {
    refuse_unknown(job);
    return false;
  }
  if ((!s || job->starts) && !(s = begin(job, s != NULL))) return false;
  if (s->jobs > s->version->sequence_queue) {
    job->is_full = true;
    serve_refuse(job, 503, "%u requests of the sequence wait, as many as may: try again later", s->jobs - 1);
    return false;
  }
  s->jobs++;
  job->sequence = s;
  serve_keep(s->version);
  serve_release(job->version);
  job->version = s->version;
  return true;
}

/* Those before it that have its id end with that. */
static void note_begun(serve_sequence *s) {
  const base_str id = base_str_of(s->id);
  s->is_counted = true;
  s->version->started_sequences++;
  for (serve_sequence **at = &s->next; !s->is_out && *(at = find(at, id, s->version, s->names_version));)
    retire(at, false);
}

void serve_leave_sequence(serve_job *job) {
  serve_sequence *s = job->sequence;
  if (!s) return;
  job->sequence = NULL;
  s->jobs--;
  s->used_ns = sys_clock_ns();
  if (job->has_begun) note_begun(s);
  if (s->jobs || (s->has_begun && !s->is_over && !s->is_out)) return;
  serve_sequence **at = place_of(job->server, s->version->name, base_str_of(s->id));
  while (!s->is_out && *at != s) at = &(*at)->next;
  if (!s->is_out) take_out(at);
  drop(s, false);
}

void serve_sweep_sequences(serve_server *server) {
  const uint64_t now = sys_clock_ns();
  for (uint32_t i = 0; i < SERVE_SEQUENCE_PLACES; i++)
    for (serve_sequence **at = &server->sequences[i]; *at;)
      if (!(*at)->jobs && is_late(*at, now)) retire(at, true);
      else at = &(*at)->next;
}

void serve_end_sequences(serve_server *server, const serve_version *v) {
  for (uint32_t i = 0; i < SERVE_SEQUENCE_PLACES; i++)
    for (serve_sequence **at = &server->sequences[i]; *at;)
      if (!v || (*at)->version == v) retire(at, false);
      else at = &(*at)->next;
}

/* ---- where it is computed ---- */

/* All sequences together have half of what requests may hold, so that others are answered meanwhile. What one takes is
 * known by the version's first run, and then by what it has taken; a last request gives it back. */
static bool has_room(serve_job *job) {
  const serve_sequence *s = job->sequence;
  const uint64_t most = (uint64_t)job->server->options.most_held / 2, kept = serve_kept(job->server);
  pthread_mutex_lock(&job->server->lock);
  const uint64_t first = s->version->first_bytes;
  pthread_mutex_unlock(&job->server->lock);
  if (s->session ? job->ends || kept < most : first <= most && kept <= most - first) return true;
  job->is_full = true;
  if (!s->session && first > most)
    serve_refuse(job, 413, "a sequence takes %llu bytes, more than all may together (half of --most-held)",
                 (unsigned long long)first);
  else
    serve_refuse(job, 503,
                 "sequences hold as many bytes as they may (half of --most-held): end one, or try again later");
  return false;
}

bool sequence_open(serve_job *job) {
  serve_sequence *s = job->sequence;
  td_error err = {.offset = -1};
  if (s->is_over || (!s->has_begun && !job->starts && !job->begins)) {
    refuse_unknown(job);
    return false;
  }
  if (!has_room(job)) return false;
  const td_status status = s->session ? TD_OK : serve_session_new_kept(s->version, &s->session, &err);
  if (status != TD_OK) serve_fail(job, status, &err);
  return status == TD_OK;
}
