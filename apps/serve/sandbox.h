/* sandbox.h -- what the process may ask of the kernel from now on. */
#ifndef SERVE_SANDBOX_H
#define SERVE_SANDBOX_H
#include <stdbool.h>

/* Each has those of the one before, and more. */
typedef enum serve_calls {
  SERVE_CALLS_OF_SERVER,    /* no program can be started, no socket made */
  SERVE_CALLS_OF_COMPILERS, /* and of who starts them */
  SERVE_CALLS_OF_HANDLERS   /* a network too, and what programs of others may ask for */
} serve_calls;

/* System calls that are not listed for `calls` in sandbox.c fail, in all threads and in processes that they start, for
 * good: with EPERM, or ENOSYS where they are new. False: filters cannot be had, and all calls are as before. */
bool serve_close_calls(serve_calls calls);
#endif
