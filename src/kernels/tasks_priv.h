/* tasks_priv.h -- how many tasks the work of a step is cut into. */
#ifndef KERNELS_TASKS_PRIV_H
#define KERNELS_TASKS_PRIV_H
#include "base/base.h"

/* Vector multiply-adds of a task, at least, so that handing it out costs little beside it: about 5 us. */
enum { KERN_TASK_WORK = 16384 };

/* Tasks that are wanted where there is work for them: three for each worker, so that those come out even that begin
 * late; as many for eight workers and fewer, so that what is cut there is cut alike. For cuts that change no bit. */
static inline int64_t kern_tasks_wanted(uint32_t workers) {
  enum { EACH = 3, FEW_WORKERS = 8 };
  return EACH * base_max_i64(workers, FEW_WORKERS);
}
#endif
