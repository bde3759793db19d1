/* memory.c -- one budget of bytes for all that requests hold: bodies, what they are decoded to, replies, and what
 * sessions have grown by for their sizes (session.c). Each job has an allocator that counts; what does not fit the
 * budget is refused, and the job knows that it was this. */
#include "server.h"

#include <stdlib.h>
#include <string.h>

/* A job may take a little beyond the budget, so that probes, management and refusals are answered while it is used up,
 * and one that asks for the figures as much as these need; all jobs together no more than RESERVE. */
enum { LITTLE = 16384, FIGURES = 1 << 20, RESERVE = 1 << 24, FIRST_BODY = 4096 };

static bool refuse(serve_job *job, uint64_t bytes) {
  job->refused_bytes = bytes;
  job->is_over = true;
  return false;
}

/* Counts so many bytes more. */
static bool count(serve_job *job, size_t bytes) {
  const uint64_t most = (uint64_t)job->server->options.most_held;
  if (bytes > most) return refuse(job, bytes);
  const uint64_t held = __atomic_add_fetch(&job->server->held, bytes, __ATOMIC_RELAXED);
  const bool is_beyond = held > most;
  if (is_beyond && (held > most + RESERVE || bytes > job->spare)) {
    __atomic_sub_fetch(&job->server->held, bytes, __ATOMIC_RELAXED);
    return refuse(job, bytes);
  }
  if (is_beyond) job->spare -= (uint32_t)bytes;
  job->held += bytes;
  return true;
}

static void discount(serve_job *job, size_t bytes) {
  job->held -= bytes;
  __atomic_sub_fetch(&job->server->held, bytes, __ATOMIC_RELAXED);
}

static void *take(void *user, size_t bytes, size_t align) {
  if (!count(user, bytes)) return NULL;
  void *memory = base_libc_allocator.alloc(NULL, bytes, align);
  if (!memory) discount(user, bytes);
  return memory;
}

static void give(void *user, void *memory, size_t bytes) {
  base_libc_allocator.free(NULL, memory, bytes);
  discount(user, bytes);
}

void serve_begin_job(serve_job *job, serve_loop *loop) {
  job->server = loop->server;
  job->loop = loop;
  job->spare = LITTLE;
  job->memory = (td_allocator){job, take, give};
  job->reply = (base_text){.allocator = &job->memory};
}

void serve_spare_figures(serve_job *job) { job->spare = FIGURES; }

/* In place where the C library can: a copy of a large body would need the room of both. */
bool serve_grow_body(serve_job *job, size_t cap) {
  const size_t more = cap - job->cap;
  if (!count(job, more)) return false;
  char *longer = realloc(job->body, cap);
  if (!longer) {
    discount(job, more);
    job->is_short = true;
    return false;
  }
  job->body = longer;
  job->cap = cap;
  return true;
}

bool serve_add_body(serve_job *job, const void *bytes, size_t count, size_t room) {
  if (count > (size_t)job->server->options.most_bytes - job->count) return false;
  if (count > job->cap - job->count || !job->body) {
    size_t wanted = base_max_size(job->cap * 2, FIRST_BODY);
    if (job->expected && wanted > job->expected) wanted = (size_t)job->expected;
    wanted = base_max_size(base_max_size(wanted, job->count + count), 1);
    if (wanted - job->cap > room || !serve_grow_body(job, wanted)) return false;
  }
  if (count) memcpy(job->body + job->count, bytes, count);
  job->count += count;
  job->received += count;
  return true;
}

void serve_drop_bytes(serve_job *job, char *body, size_t cap) {
  if (!body) return;
  free(body);
  discount(job, cap);
}

void serve_free_body(serve_job *job) {
  serve_drop_bytes(job, job->body, job->cap);
  job->body = NULL;
  job->count = job->cap = 0;
}

bool serve_has_room(serve_job *job, uint64_t bytes) {
  const uint64_t most = (uint64_t)job->server->options.most_held, held = serve_held(job->server);
  if (bytes <= LITTLE || (bytes <= most && held <= most - bytes)) return true;
  refuse(job, bytes);
  return false;
}

void serve_hold(serve_server *server, uint64_t bytes, uint64_t before) {
  __atomic_add_fetch(&server->held, bytes - before, __ATOMIC_RELAXED);
}

void serve_keep_bytes(serve_server *server, uint64_t bytes, uint64_t before) {
  serve_hold(server, bytes, before);
  __atomic_add_fetch(&server->kept, bytes - before, __ATOMIC_RELAXED);
}

uint64_t serve_kept(const serve_server *server) { return __atomic_load_n(&server->kept, __ATOMIC_RELAXED); }

uint64_t serve_held(const serve_server *server) { return __atomic_load_n(&server->held, __ATOMIC_RELAXED); }
