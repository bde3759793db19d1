/* queue.c -- runs of a session beside the caller: one thread computes them in the order they were put.
 *
 * A future has two holders: the queue, until the run is over, and whoever was given it. Its memory goes back to the
 * queue's list of idle ones, so that a client that keeps some runs in flight allocates nothing after the first; the
 * queue's own memory lasts until the last holder is gone, as futures may be read after their session is freed. */
#include "base/team.h"
#include "runtime/steps_priv.h"

#include <string.h>

enum { SPIN_NS = 20000 };

struct run_future {
  run_queue *queue;
  run_future *next; /* in line, or idle */
  run_request request;
  int32_t cancelled;     /* written atomically; the run looks at it between steps */
  _Atomic uint32_t over; /* what waiters sleep on */
  uint32_t holders;      /* under the queue's lock */
  td_status status;
  td_error err;
};

struct run_queue {
  td_allocator allocator;
  run_session *session;
  run_tell tell;
  const td_model *model;
  sys_thread thread;
  uint32_t inputs, outputs; /* of the model */
  atomic_flag lock;         /* of the next five, and of holders */
  run_future *first, *last; /* in line */
  run_future *running;
  run_future *idle;
  uint32_t futures; /* that are held, and one for the session */
  bool ends;
  _Atomic uint32_t news, pending; /* futures put so far, which the thread sleeps on; that are not over */
};

static void lock(run_queue *q) {
  while (atomic_flag_test_and_set_explicit(&q->lock, memory_order_acquire)) sys_yield();
}
static void unlock(run_queue *q) { atomic_flag_clear_explicit(&q->lock, memory_order_release); }

/* ---- futures ---- */

static size_t future_bytes(const run_queue *q) {
  return sizeof(run_future) + q->inputs * sizeof(base_value) + q->outputs * sizeof(base_tensor);
}

/* The last holder of the queue frees it. Called with the lock, which is gone afterwards. */
static void drop_queue(run_queue *q) {
  const bool last = --q->futures == 0;
  unlock(q);
  if (!last) return;
  const td_allocator allocator = q->allocator;
  for (run_future *f = q->idle, *next; f; f = next) {
    next = f->next;
    base_free(&allocator, f, future_bytes(q));
  }
  base_free(&allocator, q, sizeof *q);
}

static void drop(run_future *f) {
  run_queue *q = f->queue;
  lock(q);
  if (--f->holders) {
    unlock(q);
    return;
  }
  f->next = q->idle;
  q->idle = f;
  drop_queue(q);
}

/* With one holder, and a hold on the queue. What it takes and gives stands behind it. NULL: out of memory. */
static run_future *take_future(run_queue *q) {
  lock(q);
  run_future *f = q->idle;
  if (f) q->idle = f->next;
  q->futures++;
  unlock(q);
  if (!f) f = base_alloc(&q->allocator, future_bytes(q));
  if (!f) {
    lock(q);
    drop_queue(q);
    return NULL;
  }
  base_value *inputs = (base_value *)(void *)(f + 1);
  base_tensor *outputs = (base_tensor *)(void *)(inputs + q->inputs);
  *f = (run_future){.queue = q, .holders = 1, .request = {.inputs = inputs, .outputs = outputs}};
  return f;
}

/* ---- the thread ---- */

static td_status bind(run_session *s, const run_request *r, td_error *err) {
  for (uint32_t i = 0; i < r->input_count; i++)
    if (r->inputs[i].kind != BASE_NOTHING) TRY(run_set_input(s, i, &r->inputs[i], err));
  for (uint32_t i = 0; i < r->output_count; i++)
    if (r->outputs[i].dtype != TD_INVALID) TRY(run_bind_output(s, i, &r->outputs[i], err));
  return TD_OK;
}

/* Memory that was given for this run alone. */
static void unbind(run_session *s, const run_request *r) {
  td_error unused;
  for (uint32_t i = 0; i < r->output_count; i++)
    if (r->outputs[i].dtype != TD_INVALID) run_bind_output(s, i, NULL, &unused);
}

static td_status compute(run_session *s, run_future *f) {
  TRY(run_find_end(&f->request.until, &f->err));
  TRY(bind(s, &f->request, &f->err));
  return run_session_run_until(s, f->request.until, &f->err);
}

static void finish(run_queue *q, run_future *f) {
  const run_request *r = &f->request;
  if (r->done) r->done(r->user, f->status, f->status == TD_OK ? NULL : &f->err);
  unbind(q->session, r);
  const int32_t event = r->event;
  lock(q);
  q->running = NULL;
  unlock(q);
  atomic_fetch_sub(&q->pending, 1); /* first: who has waited may use the session */
  atomic_store_explicit(&f->over, 1, memory_order_release);
  sys_wake(&f->over);
  drop(f);
  if (event) sys_event_add(event);
}

/* The next in line. NULL: there is none. */
static run_future *next_in_line(run_queue *q, bool *ends) {
  lock(q);
  run_future *f = q->first;
  if (f) q->first = f->next;
  q->running = f;
  *ends = q->ends;
  unlock(q);
  return f;
}

static void rest(run_queue *q, uint32_t seen) {
  const uint64_t began = sys_clock_ns();
  while (sys_clock_ns() - began < SPIN_NS) {
    if (atomic_load(&q->news) != seen) return;
    base_pause();
  }
  sys_wait(&q->news, seen);
}

/* `news` is read before all that it tells of. */
static void work(void *user) {
  run_queue *q = user;
  for (;;) {
    bool ends;
    const uint32_t seen = atomic_load(&q->news);
    run_future *f = next_in_line(q, &ends);
    if (f) {
      f->status = q->tell(q->model, compute(q->session, f), &f->err);
      finish(q, f);
    } else if (ends) {
      return;
    } else {
      rest(q, seen);
    }
  }
}

/* ---- callers ---- */

td_status run_queue_new(run_session *session, run_tell tell, const td_model *model, run_queue **queue, td_error *err) {
  run_queue *q = base_alloc(&session->allocator, sizeof *q);
  if (!q) return base_no_memory(err, "a queue of runs");
  memset(q, 0, sizeof *q);
  q->allocator = session->allocator;
  q->session = session;
  q->tell = tell;
  q->model = model;
  q->inputs = session->plans.general->inputs.count;
  q->outputs = session->plans.general->outputs.count;
  q->futures = 1;
  atomic_flag_clear(&q->lock);
  const td_status status = sys_thread_start(&q->thread, work, q, err);
  if (status == TD_OK && session->threads.pool) run_pool_keep(session->threads.pool, &q->thread);
  if (status == TD_OK) *queue = q;
  else base_free(&session->allocator, q, sizeof *q);
  return status;
}

static void wake(run_queue *q) {
  atomic_fetch_add(&q->news, 1);
  sys_wake(&q->news);
}

void run_queue_free(run_queue *q) {
  if (!q) return;
  lock(q);
  q->ends = true;
  for (run_future *f = q->first; f; f = f->next) __atomic_store_n(&f->cancelled, 1, __ATOMIC_RELEASE);
  if (q->running) __atomic_store_n(&q->running->cancelled, 1, __ATOMIC_RELEASE);
  unlock(q);
  wake(q);
  sys_thread_join(&q->thread);
  lock(q);
  drop_queue(q);
}

bool run_queue_busy(run_queue *q) { return q && atomic_load(&q->pending); }

run_future *run_queue_take(run_queue *q, run_request **request) {
  run_future *f = take_future(q);
  if (f) *request = &f->request;
  return f;
}

void run_queue_put(run_future *f) {
  run_queue *q = f->queue;
  f->request.until.cancel[1] = &f->cancelled;
  atomic_fetch_add(&q->pending, 1);
  lock(q);
  f->holders++;
  if (q->first) q->last->next = f;
  else q->first = f;
  q->last = f;
  unlock(q);
  wake(q);
}

td_status run_future_wait(run_future *f, uint64_t until_ns, td_error *err) {
  for (;;) {
    if (atomic_load_explicit(&f->over, memory_order_acquire)) break;
    if (until_ns && sys_clock_ns() >= until_ns) return TD_ANSWER_NO;
    sys_wait_until(&f->over, 0, until_ns);
  }
  if (f->status != TD_OK && err) *err = f->err;
  return f->status;
}

void run_future_cancel(run_future *f) { __atomic_store_n(&f->cancelled, 1, __ATOMIC_RELEASE); }

void run_future_free(run_future *f) {
  if (f) drop(f);
}
