/* crew_priv.h -- tasks and the threads that run them. */
#ifndef RUNTIME_CREW_PRIV_H
#define RUNTIME_CREW_PRIV_H
#include "runtime/runtime.h"

struct run_frame;

enum { RUN_TASK_QUEUED, RUN_TASK_RUNNING, RUN_TASK_DONE };

/* One run of a FORK step's block. In memory of its session that lasts until the next run. */
typedef struct run_task {
  base_value value; /* the result; first: futures point here */
  _Atomic uint32_t state;
  td_status status;        /* once it is done, as is what follows */
  td_error *error;         /* of one that failed; NULL: there was no memory for it */
  run_session *session;    /* whose it is */
  uint32_t step;           /* the FORK */
  bool free;               /* see plan_step */
  bool helped;             /* one of those that session->helping counts runs it */
  struct run_frame *frame; /* NULL: it runs where it was forked */
  struct run_task *next;   /* in the queue */
  struct run_task *older;  /* of the session */
} run_task;

/* True: the task is the caller's to run. */
static inline bool run_claim_task(run_task *task) {
  uint32_t state = RUN_TASK_QUEUED;
  return atomic_compare_exchange_strong(&task->state, &state, RUN_TASK_RUNNING);
}
/* Runs a task that was claimed, on thread number `thread`. */
void run_execute_task(run_task *task, uint32_t thread);

typedef struct run_crew run_crew;
/* Threads of somebody else's that take tasks when they have nothing to do. */
typedef struct run_helpers {
  uint32_t count;
  void (*wake)(void *user); /* there is a task */
  void *user;
} run_helpers;
/* `count` threads, or as many as the system gives, with numbers from `first` on, besides `helpers` (NULL: none). NULL:
 * nobody is there. */
run_crew *run_crew_new(uint32_t count, uint32_t first, const run_helpers *helpers, const td_allocator *allocator);
void run_crew_free(run_crew *crew);           /* no task or helper may be left; NULL allowed */
uint32_t run_crew_size(const run_crew *crew); /* helpers included */
/* Is there something in the queue that was not there, or could not be had, when run_crew_help left *tried? */
bool run_crew_waits(const run_crew *crew, const uint32_t *tried);
/* A helper runs the oldest task whose session may have one more thread, as `thread`. False: there was none; *tried:
 * when that was. */
bool run_crew_help(run_crew *crew, uint32_t thread, uint32_t *tried);
void run_crew_put(run_crew *crew, run_task *task); /* one that is QUEUED */
/* Claims the oldest task of the session that no future goes into; NULL: there is none. */
run_task *run_crew_take(run_crew *crew, const run_session *session);
/* Drops what the queue has of the session. */
void run_crew_forget(run_crew *crew, const run_session *session);
/* The crew of a pool, made when it is first asked for; NULL: it has none. */
run_crew *run_pool_crew(run_pool *pool);
#endif
