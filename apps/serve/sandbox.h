/* sandbox.h -- what the process may ask of the kernel from now on. */
#ifndef SERVE_SANDBOX_H
#define SERVE_SANDBOX_H
#include <stdbool.h>

/* LeakSanitizer looks at the threads by ptrace, from a process of its own, when the server ends: its
 * filter leaves it that, and `clone` for it. */
#if defined(__SANITIZE_ADDRESS__)
#define SERVE_IS_TRACED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SERVE_IS_TRACED 1
#endif
#endif
#ifndef SERVE_IS_TRACED
#define SERVE_IS_TRACED 0
#endif

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
