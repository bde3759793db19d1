/* sandbox.h -- what the process may ask of the kernel from now on. */
#ifndef SERVE_SANDBOX_H
#define SERVE_SANDBOX_H
#include <stdbool.h>

/* System calls without a use for a server fail with EPERM, in all threads and in processes that they start, for good.
 * Without `has_network` so do those that make sockets to elsewhere, or new ones that listen. False: the kernel has no
 * such filters, and nothing has changed. */
bool serve_close_calls(bool has_network);
#endif
