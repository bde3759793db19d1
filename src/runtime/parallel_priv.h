/* parallel_priv.h -- what a runtime of threads has to give: ours (parallel_native.c), or another (parallel_openmp.c,
 * parallel_tbb.cpp). C++ reads this, too. */
#ifndef RUNTIME_PARALLEL_PRIV_H
#define RUNTIME_PARALLEL_PRIV_H
#include <stdint.h>

/* The thread sanitizer does not see how other runtimes, which it has not compiled, hand work over and join: who
 * uses run_parallel tells it what that promises. */
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define RUN_GIVES(at) __tsan_release(at)
#define RUN_TAKES(at) __tsan_acquire(at)
#else
#define RUN_GIVES(at) ((void)(at))
#define RUN_TAKES(at) ((void)(at))
#endif

/* Calls part(user, i) for i < parts, part 0 on this thread and the others on threads of the runtime, at most once each;
 * those that have not begun when part 0 is through may be left out. Returns when all that have begun are over. */
void run_parallel(uint32_t parts, void (*part)(void *user, uint32_t i), void *user);
#endif
