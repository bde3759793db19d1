/* record.h -- the tasks that kernels really cut a plan's steps into for a number of workers, each timed: kernels are
 * called as the first of so many workers, and take the tasks of all, one after the other. Programs that use it are
 * linked with base_call_take, base_team_do, sys_cpu_now and sys_topology_read wrapped (--wrap=NAME). */
#ifndef BENCH_RECORD_H
#define BENCH_RECORD_H
#include "bench/walk.h"
#include "runtime/session_priv.h"

typedef struct recording {
  run_session *session;
  uint32_t threads;
  walk_call *calls; /* in the order of the run, with the least times seen */
  uint32_t count, capacity;
  base_call_fn *real; /* per step */
  base_lane *lanes;
  uint32_t runs, steps;
  /* Of the run in progress. */
  uint32_t at, step;
  bool fresh;         /* what is known of the call does not count */
  bool long_tasks;    /* the call's tasks are worth the thread's own clock */
  double clock_ns[2]; /* what it costs to look at the system's clock, and at the thread's */
  int64_t task;       /* tasks of the call so far */
  bool in_rounds;     /* they are workers' pieces of all rounds of a team */
  uint64_t last_ns;   /* when the last task ended, or the call began */
  bool watched;       /* it is seen who writes which line: times do not count */
  bool counted;       /* and how many: they take the place of times */
  uint32_t left;      /* calls of the share at hand; 0: none is at hand */
  double share_ns;
  const char *result; /* of the call that is watched */
  double spent_ns;    /* in steps' functions so far */
} recording;

/* Of a session of one thread that has run: from now on its steps are recorded as for `threads`. Exits for lack of
 * memory, as does what follows. */
void record_open(recording *r, run_session *session, uint32_t threads);
/* Before and after each run. The first brings pages and caches up: it is not counted. */
void record_begin(recording *r);
void record_end(recording *r);
/* Between two runs: the next one is watched. */
void record_watch(recording *r);
/* The same, and tasks have numbers of lines instead of times from then on: those of their step's first result that
 * they write. Of steps that write in the memory of an operand all tasks count alike. */
void record_count(recording *r);
/* The session is as before; calls are kept. */
void record_stop(recording *r);
void record_free(recording *r);

/* What the system says, for as long as they are set: a CPU that the caller runs on, a machine that it is. */
extern _Thread_local uint32_t record_cpu; /* UINT32_MAX: the true one */
struct sys_topology;
extern _Thread_local const struct sys_topology *record_machine; /* NULL: the true one */
void *record_get(size_t count, size_t bytes);                   /* zeroed */
#endif
