/* isolate.h -- work in a process of its own, whose end, however bad, is a result. */
#ifndef COMMON_ISOLATE_H
#define COMMON_ISOLATE_H
#include "base/base.h"

typedef struct app_end {
  bool done;     /* the work was finished, and the process ended well */
  int signal;    /* that ended it; 0: none */
  int exit_code; /* where no signal did */
  bool late;     /* it was ended because its time was over */
} app_end;

/* Calls work(user, result) in a child process that has `limit_s` seconds (0: any time); `result`, of `size` bytes,
 * comes back as it was when the child ended. Seconds are those that the calling thread computes, or all threads on all
 * CPUs, or in a row in which nobody does, so that a busy machine ends nothing early. The child ends with exit(), so
 * that a leak checker still speaks up. TD_NO_RESOURCE: there is no process to be had. Threads of the caller are not in
 * the child: no pool may be in use. */
td_status app_run_isolated(void (*work)(void *user, void *result), void *user, void *result, size_t size,
                           unsigned limit_s, app_end *end, td_error *err);
#endif
