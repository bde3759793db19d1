/* queue.c -- the queues between the loops and the threads: of each version, of the loader, and of what is done; and the
 * line in which versions wait for a thread. */
#include "queue.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sequence.h"

td_status serve_open_queues(serve_server *server, td_error *err) {
  pthread_mutexattr_t recursive;
  bool works = true;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&server->tables, &recursive);
  pthread_mutex_init(&server->lock, NULL);
  pthread_cond_init(&server->more, NULL);
  pthread_cond_init(&server->load_more, NULL);
  pthread_cond_init(&server->settled, NULL);
  for (int64_t i = 0; i < server->options.io_threads; i++) {
    server->loops[i] = (serve_loop){.server = server, .event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    works = works && server->loops[i].event >= 0;
  }
  if (works) return TD_OK;
  serve_close_queues(server);
  return base_no_memory(err, "an event");
}

void serve_close_queues(serve_server *server) {
  for (int64_t i = 0; i < server->options.io_threads; i++)
    if (server->loops[i].event >= 0) close(server->loops[i].event);
}

void serve_done(serve_job *job) {
  serve_server *server = job->server;
  serve_loop *loop = job->loop;
  pthread_mutex_lock(&server->lock);
  job->next = NULL;
  if (loop->done) loop->done_last->next = job;
  else loop->done = job;
  loop->done_last = job;
  pthread_mutex_unlock(&server->lock);
  serve_wake(loop);
}

void serve_wake(const serve_loop *loop) {
  if (write(loop->event, &(uint64_t){1}, 8) != 8) return; /* the counter is full: the loop is awake */
}

static void deliver(serve_job *part) {
  serve_job *job = part->order;
  job->extend(job, part);
}

void serve_give_part(serve_job *job, int32_t status, const char *type, base_str bytes) {
  if (job->reply.failed || __atomic_load_n(&job->cancel, __ATOMIC_RELAXED)) return;
  serve_job *part = job->extend ? calloc(1, sizeof *part) : NULL;
  if (!job->extend) base_text_add(&job->reply, bytes.at, bytes.length);
  else if (!part) job->reply.failed = true;
  if (!part) return;
  serve_begin_job(part, job->loop);
  base_text_add(&part->reply, bytes.at, bytes.length);
  if (part->reply.failed) { /* the rest would be no reply without it */
    job->is_over = part->is_over;
    job->reply.failed = true;
    serve_free_job(part);
    free(part);
    return;
  }
  if (!job->is_parted && type) job->type = type;
  job->is_parted = true;
  part->status = status;
  part->type = job->type; /* the loop reads no more of the job's until that comes back, as an error may be */
  part->respond = deliver;
  part->order = job;
  serve_done(part);
}

void serve_note_health(serve_server *server) {
  __atomic_add_fetch(&server->health_changes, 1, __ATOMIC_RELEASE);
  for (int64_t i = 0; i < server->options.io_threads; i++) serve_wake(&server->loops[i]);
}

static void append_waiting(serve_version *v) {
  serve_version **at = &v->server->waiting;
  while (*at) at = &(*at)->next_waiting;
  *at = v;
  v->next_waiting = NULL;
  v->waiting = true;
}

uint32_t queue_cpus(const serve_version *v) { return v->python ? v->threads : 1; }

/* How much of what its workers weigh it computes now, against another. */
static bool has_less(const serve_version *a, const serve_version *b) {
  const uint64_t x = a->session_count - a->idle_count, y = b->session_count - b->idle_count;
  return x * b->workers < y * a->workers;
}

serve_version *queue_take_version(serve_server *server) {
  serve_version **at = NULL;
  for (serve_version **other = &server->waiting; *other; other = &(*other)->next_waiting)
    if ((*other)->idle_count && (!at || has_less(*other, *at))) at = other;
  serve_version *v = at ? *at : NULL;
  if (!v || (server->busy && server->busy + queue_cpus(v) > (uint32_t)server->options.workers)) return NULL;
  *at = v->next_waiting;
  v->waiting = false;
  server->busy += queue_cpus(v);
  return v;
}

/* Where the first job stands that can be computed: no other one of its sequence is; *before: the job in front of it.
 * NULL: there is none. */
static serve_job **find_ready(serve_version *v, serve_job **before) {
  *before = NULL;
  for (serve_job **at = &v->first; *at; at = &(*at)->next) {
    if (!(*at)->sequence || !(*at)->sequence->is_busy) return at;
    *before = *at;
  }
  return NULL;
}

void queue_settle(serve_version *v) {
  serve_job *before;
  const bool is_ready = find_ready(v, &before) != NULL;
  if (is_ready && !v->waiting) append_waiting(v);
  if (is_ready || !v->waiting) return;
  serve_version **line = &v->server->waiting;
  while (*line != v) line = &(*line)->next_waiting;
  *line = v->next_waiting;
  v->waiting = false;
}

/* Takes the job that *at points to out of the queue. */
static serve_job *take_out(serve_version *v, serve_job **at, serve_job *before) {
  serve_job *job = *at;
  *at = job->next;
  if (v->last == job) v->last = before;
  job->is_queued = false;
  v->depth--;
  return job;
}

uint32_t queue_take_jobs(serve_version *v, serve_job **jobs) {
  serve_job *before, **at = find_ready(v, &before);
  uint32_t count = 0;
  const uint32_t most = v->batch_rows < SERVE_MOST_BATCH ? v->batch_rows : SERVE_MOST_BATCH;
  do {
    serve_job *job = jobs[count++] = take_out(v, at, before);
    if (job->sequence) job->sequence->is_busy = true;
    at = find_ready(v, &before);
  } while (at && count < most && !(*at)->sequence == !jobs[0]->sequence && (*at)->explains == jobs[0]->explains);
  return count;
}

bool queue_drop(serve_job *job) {
  serve_version *v = job->version;
  if (!job->is_queued) return false;
  serve_job **at = &v->first, *before = NULL;
  for (; *at != job; at = &(*at)->next) before = *at;
  take_out(v, at, before);
  queue_settle(v);
  return true;
}

void serve_limit(serve_job *job, uint64_t ns) {
  if (ns && job->arrived_ns + ns < job->deadline_ns) job->deadline_ns = job->arrived_ns + ns;
}

bool serve_queue(serve_job *job) {
  serve_version *v = job->version;
  serve_server *server = v->server;
  job->arrived_ns = sys_clock_ns();
  job->next = NULL;
  pthread_mutex_lock(&server->lock);
  job->deadline_ns = job->arrived_ns + v->limit_ns;
  if (v->python && !v->session_count) job->deadline_ns += v->start_ns; /* a process is started for it first */
  serve_limit(job, job->limit_ns);
  serve_limit(job, v->client_ms * 1000000u);
  const bool room = v->depth < v->queue_limit;
  if (room) {
    job->is_queued = true;
    if (v->first) v->last->next = job;
    else v->first = job;
    v->last = job;
    v->depth++;
    queue_settle(v);
  }
  pthread_mutex_unlock(&server->lock);
  if (room) pthread_cond_signal(&server->more); /* unlocked, so that who wakes does not wait at once */
  return room;
}

void serve_expire(serve_version *v) {
  const uint64_t now = sys_clock_ns();
  serve_job *late = NULL, *before = NULL, *next;
  pthread_mutex_lock(&v->server->lock);
  for (serve_job **at = &v->first; *at;)
    if ((*at)->deadline_ns < now) {
      serve_job *job = take_out(v, at, before);
      job->next = late;
      late = job;
    } else {
      before = *at;
      at = &before->next;
    }
  queue_settle(v);
  pthread_mutex_unlock(&v->server->lock);
  for (; late; late = next) {
    next = late->next;
    serve_refuse(late, 504, "the request waited too long for its turn");
    serve_done(late);
  }
}

void serve_begin_group(serve_group *group, serve_job **jobs, uint32_t count) {
  serve_server *server = jobs[0]->server;
  pthread_mutex_lock(&server->lock);
  *group = (serve_group){0};
  for (uint32_t i = 0; i < count; i++) {
    jobs[i]->group = group;
    group->waiting += !jobs[i]->cancel;
  }
  group->cancel = group->waiting == 0;
  pthread_mutex_unlock(&server->lock);
}

void serve_end_group(serve_job **jobs, uint32_t count) {
  serve_server *server = jobs[0]->server;
  pthread_mutex_lock(&server->lock);
  for (uint32_t i = 0; i < count; i++) jobs[i]->group = NULL;
  pthread_mutex_unlock(&server->lock);
}

serve_job *serve_take_queue(serve_version *v) {
  serve_job *taken = NULL;
  pthread_mutex_lock(&v->server->lock);
  while (v->first) {
    serve_job *job = take_out(v, &v->first, NULL);
    job->next = taken;
    taken = job;
  }
  queue_settle(v);
  pthread_mutex_unlock(&v->server->lock);
  return taken;
}

void serve_order_locked(serve_job *job, void (*call)(serve_job *)) {
  serve_server *server = job->server;
  job->work = call;
  job->next = NULL;
  if (server->load_first) server->load_last->next = job;
  else server->load_first = job;
  server->load_last = job;
  pthread_cond_broadcast(&server->load_more);
}

void serve_order(serve_job *job, void (*call)(serve_job *)) {
  serve_server *server = job->server;
  pthread_mutex_lock(&server->lock);
  serve_order_locked(job, call);
  pthread_mutex_unlock(&server->lock);
}
