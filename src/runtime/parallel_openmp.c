/* parallel_openmp.c -- OpenMP's threads. Inside of a parallel region of the caller's there is one, unless it nests. */
#include "runtime/parallel_priv.h"

#include <omp.h>

void run_parallel(uint32_t parts, void (*part)(void *user, uint32_t i), void *user) {
  (void)parts; /* who reads this file without OpenMP sees no other use */
#pragma omp parallel num_threads((int)parts)
  part(user, (uint32_t)omp_get_thread_num());
}
