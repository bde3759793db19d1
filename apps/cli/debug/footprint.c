/* footprint.c -- allocations through a counting allocator, page faults as the system counts them. */
#include "footprint.h"

#include <sys/resource.h>

#include "sys/sys.h"

static void *count_alloc(void *user, size_t bytes, size_t align) {
  cli_footprint *f = user;
  atomic_fetch_add_explicit(&f->allocations, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&f->bytes, bytes, memory_order_relaxed);
  return sys_allocator.alloc(sys_allocator.user, bytes, align);
}

static void count_free(void *user, void *memory, size_t bytes) {
  (void)user;
  sys_allocator.free(sys_allocator.user, memory, bytes);
}

void cli_footprint_open(cli_footprint *f) {
  *f = (cli_footprint){.allocator = {.user = f, .alloc = count_alloc, .free = count_free}};
}

static void read_faults(uint64_t *minor, uint64_t *major) {
  struct rusage usage = {0};
  getrusage(RUSAGE_SELF, &usage);
  *minor = (uint64_t)usage.ru_minflt;
  *major = (uint64_t)usage.ru_majflt;
}

void cli_footprint_begin(cli_footprint *f) {
  atomic_store(&f->allocations, 0);
  atomic_store(&f->bytes, 0);
  read_faults(&f->minor_faults, &f->major_faults);
}

void cli_footprint_end(cli_footprint *f) {
  uint64_t minor, major;
  read_faults(&minor, &major);
  f->minor_faults = minor - f->minor_faults;
  f->major_faults = major - f->major_faults;
  f->counted = atomic_load(&f->allocations);
  f->counted_bytes = atomic_load(&f->bytes);
}

void cli_footprint_print(const cli_footprint *f, uint64_t runs) {
  const double each = runs ? 1 / (double)runs : 0;
  printf("allocations while runs were recorded: %llu, of %llu bytes\n", (unsigned long long)f->counted,
         (unsigned long long)f->counted_bytes);
  printf("page faults in a run: %.3g minor (memory touched for the first time), %.3g major (read from files)\n",
         each * (double)f->minor_faults, each * (double)f->major_faults);
}
