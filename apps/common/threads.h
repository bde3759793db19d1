/* threads.h -- who decides how many threads a program computes with. */
#ifndef COMMON_THREADS_H
#define COMMON_THREADS_H
#include "base/base.h"

typedef struct app_threads {
  uint32_t count;       /* 0: as many as affinity and quota allow */
  const char *variable; /* what said it, "--threads" or a variable of the environment; NULL: nobody */
} app_threads;
/* `asked` (0: nobody), else TREADLE_NUM_THREADS, else OMP_NUM_THREADS, else MKL_NUM_THREADS; the last two never ask for
 * more than there are. */
td_status app_threads_of(uint32_t asked, app_threads *threads, td_error *err);
#endif
