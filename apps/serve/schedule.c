/* schedule.c -- the threads that compute, and the one that loads.
 *
 * Compute threads belong to all models: however many are loaded, no more threads compute than there are CPUs. A version
 * has a session for each CPU, and all of these share the threads of one pool: a request that is alone has all CPUs, and
 * where each thread has one they have a CPU each. A thread takes what is there and waits for no more: a batch grows
 * while all threads are busy. */
#include "queue.h"
#include "sequence.h"

static void note_times(serve_version *v, serve_job **jobs, uint32_t count, uint64_t begin, uint64_t over) {
  for (uint32_t i = 0; i < count; i++) {
    jobs[i]->queued_ns = begin - jobs[i]->arrived_ns;
    jobs[i]->computed_ns = over - begin;
    serve_count(&v->queue_time, jobs[i]->queued_ns);
    if (jobs[i]->decoded_ns) serve_count(&v->decode_time, jobs[i]->decoded_ns);
    serve_count(&v->compute_time, jobs[i]->computed_ns);
    serve_count(&v->total_time, jobs[i]->queued_ns + jobs[i]->computed_ns);
  }
  serve_count(&v->batches, (uint64_t)count * 1000);
  uint32_t bucket = 0;
  while (count > 1u << bucket) bucket++;
  v->batch_sizes[bucket]++;
}

static void work(void *user) {
  serve_server *server = user;
  serve_job *jobs[SERVE_MOST_BATCH];
  td_guest *guest = NULL;
  pthread_mutex_lock(&server->lock);
  while (!server->stop) {
    serve_version *v = queue_take_version(server);
    if (!v) {
      pthread_cond_wait(&server->more, &server->lock);
      continue;
    }
    const uint32_t count = queue_take_jobs(v, jobs), cpus = queue_cpus(v);
    void *session;
    serve_profile *profile = serve_profile_take(v, &session);
    td_pool *pool = guest ? NULL : server->pool;
    queue_settle(v); /* others may have its next jobs */
    pthread_mutex_unlock(&server->lock);
    if (pool) td_guest_new(pool, &guest, NULL); /* without it runs have no core less */
    if (profile) serve_profile_begin(profile);
    const uint64_t begin = sys_clock_ns();
    uint32_t left = count; /* jobs that are still ours */
    bool is_there = true;
    const bool are_sequences = jobs[0]->sequence != NULL;
    if (v->python) is_there = serve_python_compute(jobs, &left, session);
    else if (are_sequences) sequence_compute(jobs, count, serve_session_run(session));
    else serve_compute(jobs, count, serve_session_run(session), guest);
    if (!v->python) serve_session_settle(session);
    const uint64_t over = sys_clock_ns();
    if (profile) serve_profile_count(profile, jobs, count);
    pthread_mutex_lock(&server->lock);
    if (profile && !serve_profile_give(profile)) profile = NULL; /* it goes on */
    if (left) note_times(v, jobs, left, begin, over);            /* who has the reply finds it counted */
    if (is_there) v->idle[v->idle_count++] = session;            /* else the version may be gone, too */
    server->busy -= cpus;
    for (uint32_t i = 0; are_sequences && i < count; i++) jobs[i]->sequence->is_busy = false;
    if (are_sequences) queue_settle(v);
    pthread_cond_broadcast(&server->settled);
    if (server->waiting) pthread_cond_broadcast(&server->more);
    pthread_mutex_unlock(&server->lock);
    for (uint32_t i = 0; i < left; i++) serve_done(jobs[i]); /* each holds a reference of the version until then */
    if (profile) serve_profile_end(profile);
    pthread_mutex_lock(&server->lock);
  }
  pthread_mutex_unlock(&server->lock);
  td_guest_free(guest);
}

static void load(void *user) {
  serve_server *server = user;
  pthread_mutex_lock(&server->lock);
  for (;;) {
    serve_job *job = server->load_first;
    if (job) {
      server->load_first = job->next;
      pthread_mutex_unlock(&server->lock);
      job->work(job);
      pthread_mutex_lock(&server->lock);
    } else if (server->stop) {
      break;
    } else {
      pthread_cond_wait(&server->load_more, &server->lock);
    }
  }
  pthread_mutex_unlock(&server->lock);
}

td_status serve_start_threads(serve_server *server, base_arena *arena, td_error *err) {
  const uint32_t count = (uint32_t)server->options.workers + 1;
  server->threads = base_new(arena, sys_thread, count);
  if (!server->threads) return base_no_memory(err, "threads");
  for (uint32_t i = 0; i < count; i++) {
    TRY(sys_thread_start(&server->threads[i], i + 1 < count ? work : load, server, err));
    server->started++;
  }
  return TD_OK;
}

void serve_stop_threads(serve_server *server) {
  pthread_mutex_lock(&server->lock);
  server->stop = true;
  pthread_cond_broadcast(&server->more);
  pthread_cond_broadcast(&server->load_more);
  pthread_cond_broadcast(&server->settled);
  pthread_mutex_unlock(&server->lock);
  for (uint32_t i = 0; i < server->started; i++) sys_thread_join(&server->threads[i]);
}

void serve_cancel(serve_job *job) {
  const td_error err = {.offset = -1};
  pthread_mutex_lock(&job->server->lock);
  const bool is_queued = queue_drop(job);
  if (!job->cancel && job->group && --job->group->waiting == 0)
    __atomic_store_n(&job->group->cancel, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&job->cancel, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&job->server->lock);
  if (job->flight) serve_cancel_flight(job->flight);
  if (!is_queued) return; /* it comes back from who has it */
  serve_fail(job, TD_CANCELLED, &err);
  serve_done(job);
}
