/* threads.h -- who decides how many threads a command computes with. */
#ifndef CLI_THREADS_H
#define CLI_THREADS_H
#include "cli.h"

typedef struct cli_threads {
  uint32_t count;       /* 0: as many as affinity and quota allow */
  const char *variable; /* what said it, "--threads" or a variable of the environment; NULL: nobody */
} cli_threads;
/* --threads, else TREADLE_NUM_THREADS, else OMP_NUM_THREADS, else MKL_NUM_THREADS; the last two never ask for more
 * than there are. */
td_status cli_threads_of(const cli_args *args, cli_threads *threads, td_error *err);
#endif
