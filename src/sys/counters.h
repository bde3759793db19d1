/* counters.h -- hardware counters of the calling thread. The functions are a table, so that tests can play a machine.
 */
#ifndef SYS_COUNTERS_H
#define SYS_COUNTERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sys_event {
  const char *name;
  uint32_t type; /* of perf_event_attr: SYS_HARDWARE, SYS_RAW */
  uint64_t config;
} sys_event;
enum { SYS_HARDWARE = 0, SYS_RAW = 4 };

typedef struct sys_counters {
  void *user;
  /* A counter, user mode alone, in the group that `leader` leads (-1: it leads one, and does not count yet). A handle,
   * or the negative error number. */
  int (*open)(void *user, const sys_event *event, int leader);
  bool (*set)(void *user, int leader, bool on); /* off also keeps counts; on begins at 0 */
  /* Counts of the group in the order they were opened; *share: of the time that they were counted in, 0 to 1. */
  bool (*read)(void *user, int leader, uint64_t *counts, uint32_t count, double *share);
  void (*close)(void *user, int handle);
  int paranoid; /* kernel.perf_event_paranoid; INT32_MIN: unknown */
  bool has_pmu; /* the kernel knows counters of the CPU */
  bool smt;     /* two threads share a core */
} sys_counters;

/* Those of this machine. */
sys_counters sys_counters_here(void);
#endif
