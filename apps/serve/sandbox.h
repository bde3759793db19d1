/* sandbox.h -- what the process may ask of the kernel from now on. */
#ifndef SERVE_SANDBOX_H
#define SERVE_SANDBOX_H
#include <stdbool.h>

/* System calls that are not listed in sandbox.c fail, in all threads and in processes that they start, for good: with
 * EPERM, or ENOSYS where they are new. `has_network`: they may make sockets, and have what programs of others, Python
 * handlers, may ask for. False: filters cannot be had, and all calls are as before. */
bool serve_close_calls(bool has_network);
#endif
