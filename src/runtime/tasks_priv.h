/* tasks_priv.h -- tasks of a session's run: the blocks of forks (tasks.c). Who runs them: crew_priv.h. */
#ifndef RUNTIME_TASKS_PRIV_H
#define RUNTIME_TASKS_PRIV_H
#include "runtime/crew_priv.h"
#include "runtime/frame_priv.h"

/* What a session has of them. */
typedef struct run_tasks {
  run_crew *crew;    /* NULL: every task runs where it is forked */
  bool *pays;        /* per FORK step: the crew had better run it, under the active binding */
  bool force;        /* for tests: it always had */
  atomic_flag lock;  /* of the next four */
  run_stack results; /* memory of this run's tasks */
  run_task *newest;  /* of this run */
  run_frame *idle;
  uint32_t frames;         /* that were made */
  _Atomic uint32_t beside; /* tasks that run, or are to, in frames of their own */
  /* Threads besides the caller's that run its tasks now, and may: of the pool's cores, those that its team has. */
  _Atomic uint32_t helping, most_helping;
} run_tasks;

td_status run_open_tasks(run_session *s, td_error *err);
void run_close_tasks(run_session *s);
void run_weigh_tasks(run_session *s); /* when sizes are known */
td_status run_fork(run_frame *f, uint32_t number);
td_status run_wait(run_frame *f, uint32_t number);
/* No task of the run runs any more afterwards. */
void run_end_tasks(run_session *s);
#endif
