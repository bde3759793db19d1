/* parallel_priv.h -- what a runtime of threads that is not ours has to give (parallel_openmp.c, parallel_tbb.cpp); C++
 * reads this, too. */
#ifndef RUNTIME_PARALLEL_PRIV_H
#define RUNTIME_PARALLEL_PRIV_H
#include <stdint.h>

/* Calls part(user, i) for i < parts, part 0 on this thread and the others on threads of the runtime, at most once each;
 * those that have not begun when part 0 is through may be left out. Returns when all that have begun are over. */
void run_parallel(uint32_t parts, void (*part)(void *user, uint32_t i), void *user);
#endif
