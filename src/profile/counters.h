/* counters.h -- counting runs with hardware counters, as far down the ladder as the machine asks for: top-down
 * analysis, instructions per cycle and caches, time alone. */
#ifndef PROFILE_COUNTERS_H
#define PROFILE_COUNTERS_H
#include "profile/topdown.h"

typedef td_status (*prof_run_fn)(void *user, td_error *err); /* one run in steady state */

typedef struct prof_counting {
  const sys_counters *counters;
  const prof_family *family; /* NULL: a CPU that is not known */
  const char *cpu;           /* its name, for people */
  const char *level;         /* "tma", "tma1" to "tma3" (the levels up to that one alone), or "ipc": where to begin */
  uint32_t runs;             /* for each group of events */
  prof_run_fn run;
  void *user;
  /* For counts by thread and by class of work; `observe` NULL: there are none. */
  void (*observe)(void *user, const td_observer *observer); /* of the runs; NULL: nobody */
  const char *(*class_of_step)(void *user, uint32_t step);
  uint32_t threads, steps;
} prof_counting;

/* Runs, and writes what was counted: of whole runs on the calling thread, and of the parts of steps by thread and by
 * class of work. Where a rung is not there, writes exactly why and what would lift it, and takes the next. Errors:
 * those of runs and of `write`. */
td_status prof_count(const prof_counting *counting, const td_allocator *allocator, td_write_fn write, void *user,
                     td_error *err);
#endif
