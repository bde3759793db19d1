/* worker.c -- a model's queue and the threads that compute, each with a session of one thread. */
#include "server.h"

#include <unistd.h>

static void give_back(serve_server *server, serve_job *job) {
  pthread_mutex_lock(&server->done_lock);
  job->next = server->done;
  server->done = job;
  pthread_mutex_unlock(&server->done_lock);
  if (write(server->done_event, &(uint64_t){1}, 8) != 8) return; /* the counter is full: the loop is awake */
}

static void work(void *user) {
  serve_model *m = user;
  pthread_mutex_lock(&m->lock);
  td_session *session = m->sessions[m->workers++];
  for (;;) {
    while (!m->first && !m->stop) pthread_cond_wait(&m->more, &m->lock);
    serve_job *job = m->first;
    if (!job) break;
    m->first = job->next;
    m->depth--;
    pthread_mutex_unlock(&m->lock);
    const uint64_t begin = sys_clock_ns(), queued = job->deadline_ns - m->server->limit_ns;
    const bool late = begin > job->deadline_ns;
    if (late) serve_refuse(job, 504, "the request waited too long for its turn");
    else job->compute(job, session);
    const uint64_t over = sys_clock_ns();
    pthread_mutex_lock(&m->lock);
    if (!late) {
      serve_count(&m->queue_time, begin - queued);
      serve_count(&m->compute_time, over - begin);
    }
    pthread_mutex_unlock(&m->lock);
    give_back(m->server, job); /* who has the reply finds it counted */
    pthread_mutex_lock(&m->lock);
  }
  pthread_mutex_unlock(&m->lock);
}

td_status serve_start_workers(serve_model *m, td_error *err) {
  const uint32_t count = m->server->workers;
  const td_session_options options = {.size = sizeof options, .threads = 1};
  pthread_mutex_init(&m->lock, NULL);
  pthread_cond_init(&m->more, NULL);
  for (uint32_t i = 0; i < count; i++) TRY(td_session_new(m->model, &options, &m->sessions[i], err));
  for (uint32_t i = 0; i < count; i++) TRY(sys_thread_start(&m->threads[i], work, m, err));
  return TD_OK;
}

void serve_stop_workers(serve_model *m) {
  pthread_mutex_lock(&m->lock);
  m->stop = true;
  pthread_cond_broadcast(&m->more);
  pthread_mutex_unlock(&m->lock);
  for (uint32_t i = 0; i < m->server->workers; i++) {
    sys_thread_join(&m->threads[i]);
    td_session_free(m->sessions[i]);
  }
  td_model_free(m->model);
  sys_unmap(&m->archive);
}

bool serve_queue(serve_job *job, uint32_t most) {
  serve_model *m = job->model;
  pthread_mutex_lock(&m->lock);
  const bool room = m->depth < most;
  if (room) {
    job->next = NULL;
    if (m->first) m->last->next = job;
    else m->first = job;
    m->last = job;
    m->depth++;
    pthread_cond_signal(&m->more);
  }
  pthread_mutex_unlock(&m->lock);
  return room;
}
