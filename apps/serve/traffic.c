/* traffic.c -- shares of a model's requests for versions that are not its default one: some are answered by such a
 * version (split), others are answered by the default version while a copy runs on such a version, whose outputs are
 * only compared (shadow). Both go by turns, not by chance: of 100 requests exactly so many.
 *
 * The two requests of a pair are computed by any threads. Each writes its outputs by a protocol of the pair: the first
 * one leaves a copy, the second one compares. When both are back, on the same loop, the figures are noted. */
#include <math.h>
#include <string.h>

#include "server.h"

enum { MOST_COMPARED = 1 << 24 }; /* bytes of outputs; larger ones are not compared */

struct serve_pair {
  serve_version *version;      /* of the copy; a reference is held */
  const serve_protocol *asked; /* of the request */
  serve_protocol own, copied;  /* what it and its copy have instead */
  uint32_t left;               /* jobs that are not back */
  bool is_dropped;             /* the copy found no room */
  serve_job kept;              /* no request: counts what is kept of outputs */
  int32_t status[2];           /* of the request and of its copy */
  uint64_t ns[2];              /* that they waited and were computed */
  pthread_mutex_t lock;
  /* ---- under the lock ---- */
  base_arena *arena; /* of the outputs that came first */
  td_tensor *first;  /* NULL: none have come */
  size_t count;
  bool is_lost, is_compared; /* is_lost: they are too large to be kept, or memory ran out */
  double difference;
};

/* ---- outputs, on compute threads ---- */

static size_t bytes_of(const td_tensor *t) {
  int64_t count;
  size_t bytes;
  if (t->dtype == TD_INVALID || t->dtype == TD_STRING) return 0;
  return base_numel(t->rank, t->dims, &count) && base_dtype_bytes(t->dtype, count, &bytes) ? bytes : 0;
}

static bool keep_outputs(serve_pair *p, const td_tensor *outputs, size_t count) {
  size_t all = 0;
  for (size_t i = 0; i < count; i++) all += bytes_of(&outputs[i]);
  p->arena = all <= MOST_COMPARED ? base_arena_new(&p->kept.memory) : NULL;
  td_tensor *kept = p->arena ? base_new(p->arena, td_tensor, count + 1) : NULL;
  for (size_t i = 0; kept && i < count; i++) {
    const size_t bytes = bytes_of(&outputs[i]);
    kept[i] = outputs[i];
    kept[i].data = base_arena_alloc_uncleared(p->arena, bytes + 1, 64);
    if (!kept[i].data) return false;
    if (bytes) memcpy(kept[i].data, outputs[i].data, bytes);
  }
  p->count = count;
  p->first = kept;
  return kept != NULL;
}

/* The largest difference of two numbers that stand at the same place; infinite where one is no number, or where types
 * or sizes differ. Texts are not compared. */
static double compare(const td_tensor *a, const td_tensor *b) {
  double most = 0;
  int64_t count;
  if (a->dtype != b->dtype || a->rank != b->rank) return INFINITY;
  if (memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0) return INFINITY;
  if (!bytes_of(a) || !base_numel(a->rank, a->dims, &count)) return 0;
  for (int64_t i = 0; i < count; i++) {
    const double x = base_load_f64(a->dtype, a->data, i), y = base_load_f64(b->dtype, b->data, i);
    if (x == y || (isnan(x) && isnan(y))) continue;
    const double distance = fabs(x - y);
    most = isnan(distance) ? INFINITY : fmax(most, distance);
  }
  return most;
}

static void note_outputs(serve_job *job, const td_tensor *outputs) {
  serve_pair *p = job->pair;
  const size_t count = td_model_output_count(job->version->model);
  pthread_mutex_lock(&p->lock);
  if (p->first) {
    p->is_compared = true;
    p->difference = count == p->count ? 0 : INFINITY;
    for (size_t i = 0; i < count && count == p->count; i++)
      p->difference = fmax(p->difference, compare(&p->first[i], &outputs[i]));
  } else if (!p->is_lost) {
    p->is_lost = !keep_outputs(p, outputs, count);
  }
  pthread_mutex_unlock(&p->lock);
}

static td_status write_both(serve_job *job, const td_tensor *outputs, td_error *err) {
  note_outputs(job, outputs);
  return job->pair->asked->write(job, outputs, err);
}

static td_status write_nothing(serve_job *job, const td_tensor *outputs, td_error *err) {
  (void)err;
  note_outputs(job, outputs);
  return TD_OK;
}

/* ---- pairs, under server->tables ---- */

static void forget_copy(serve_job *job) {
  job->server->copies--;
  serve_free_job(job);
  base_free(&base_libc_allocator, job, sizeof *job);
}

static void note_pair(const serve_pair *p) {
  serve_compared *c = &p->version->compared;
  if (p->status[0] != 200) return; /* nothing to compare with */
  if (p->is_dropped || p->is_lost) c->dropped++;
  else if (p->status[1] != 200) c->failed++;
  else if (p->is_compared) {
    c->count++;
    c->difference = fmax(c->difference, p->difference);
    c->default_us += p->ns[0] / 1000;
    c->own_us += p->ns[1] / 1000;
  }
}

void serve_end_pair(serve_job *job) {
  serve_pair *p = job->pair;
  if (!p) return;
  job->pair = NULL;
  job->protocol = p->asked;
  p->status[job->is_copy] = job->status;
  p->ns[job->is_copy] = job->queued_ns + job->computed_ns;
  if (--p->left) return;
  note_pair(p);
  serve_release(p->version);
  pthread_mutex_destroy(&p->lock);
  base_arena_free(p->arena);
  base_free(&base_libc_allocator, p, sizeof *p);
}

/* A job of the same body for `v`. NULL: no room. */
static serve_job *copy_request(const serve_job *job, serve_version *v) {
  serve_job *copy = base_alloc(&base_libc_allocator, sizeof *copy);
  if (!copy) return NULL;
  *copy = (serve_job){.respond = forget_copy, .client = "copy", .json_count = job->json_count, .is_copy = true};
  copy->limit_ns = job->limit_ns;
  serve_begin_job(copy, job->loop);
  serve_keep(v);
  copy->version = v;
  job->server->copies++;
  copy->arena = base_arena_new(&copy->memory);
  if (copy->arena && (!job->count || serve_grow_body(copy, job->count))) {
    if (job->count) memcpy(copy->body, job->body, job->count);
    copy->count = job->count;
    return copy;
  }
  forget_copy(copy);
  return NULL;
}

static serve_job *begin_pair(serve_job *job, serve_version *v) {
  serve_job *copy = copy_request(job, v);
  serve_pair *p = copy ? base_alloc(&base_libc_allocator, sizeof *p) : NULL;
  if (!p) {
    if (copy) forget_copy(copy);
    v->compared.dropped++;
    return NULL;
  }
  *p = (serve_pair){.version = v, .asked = job->protocol, .left = 2};
  serve_begin_job(&p->kept, job->loop);
  p->own = (serve_protocol){p->asked->read, write_both};
  p->copied = (serve_protocol){p->asked->read, write_nothing};
  pthread_mutex_init(&p->lock, NULL);
  serve_keep(v);
  job->pair = copy->pair = p;
  job->protocol = &p->own;
  copy->protocol = &p->copied;
  return copy;
}

/* ---- turns ---- */

/* The version whose turn it is by its `share` (percent) and `turn`; NULL: it is that of the default one. */
static serve_version *take_turn(const serve_model *m, bool shadow) {
  serve_version *taken = NULL;
  for (uint32_t i = 0; i < m->count; i++) {
    serve_version *v = m->versions[i];
    const uint32_t share = shadow ? v->shadow : v->split;
    uint32_t *turn = shadow ? &v->shadow_turn : &v->split_turn;
    if (i == m->current || !share || !serve_is_ready(v)) continue;
    *turn += share;
    if (taken || *turn < 100) continue;
    *turn -= 100;
    taken = v;
  }
  return taken;
}

static serve_version *find_turn(serve_job *job, const char *name, const char *number) {
  serve_version *v = serve_find(job, name, number);
  job->names_version = number != NULL;
  if (!v || number) return v;
  serve_version *other = take_turn(serve_find_model(job->server, name), false);
  job->is_default = !other;
  if (!other) return v;
  serve_keep(other);
  serve_release(v);
  job->version = other;
  return other;
}

serve_version *serve_find_turn(serve_job *job, const char *name, const char *number) {
  serve_server *server = job->server;
  pthread_mutex_lock(&server->tables);
  serve_version *v = find_turn(job, name, number);
  pthread_mutex_unlock(&server->tables);
  return v;
}

bool serve_queue_shadowed(serve_job *job) {
  const serve_model *m = job->is_default && !job->sequence ? serve_find_model(job->server, job->version->name) : NULL;
  serve_version *v = m && job->protocol && !job->server->draining ? take_turn(m, true) : NULL;
  serve_job *copy = v ? begin_pair(job, v) : NULL;
  const bool queued = serve_queue(job);
  if (!copy) return queued;
  if (queued && serve_queue(copy)) return true;
  copy->pair->is_dropped = true;
  if (!queued) serve_end_pair(job);
  serve_end_pair(copy);
  forget_copy(copy);
  return queued;
}
