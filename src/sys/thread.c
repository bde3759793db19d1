/* thread.c -- the clock, threads, and how they wait for each other. */
#include "sys/sys.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t sys_clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *enter(void *argument) {
  sys_thread *thread = argument;
  thread->run(thread->user);
  return NULL;
}

td_status sys_thread_start(sys_thread *thread, void (*run)(void *user), void *user, td_error *err) {
  thread->run = run;
  thread->user = user;
  int reason = pthread_create(&thread->handle, NULL, enter, thread);
  char text[128];
  if (reason == 0) return TD_OK;
  return base_fail(err, TD_NO_RESOURCE, NULL, -1, "cannot start a thread: %s", strerror_r(reason, text, sizeof text));
}

void sys_thread_join(sys_thread *thread) { pthread_join(thread->handle, NULL); }

bool sys_thread_pin(uint32_t index) {
  cpu_set_t allowed[8], one[8]; /* 8192 CPUs, the most that Linux is built for */
  if (sched_getaffinity(0, sizeof allowed, allowed) != 0) return false;
  for (size_t cpu = 0; cpu < 8 * CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET_S(cpu, sizeof allowed, allowed) || index-- > 0) continue;
    CPU_ZERO_S(sizeof one, one);
    CPU_SET_S(cpu, sizeof one, one);
    return sched_setaffinity(0, sizeof one, one) == 0;
  }
  return false;
}

bool sys_thread_keep(const sys_thread *thread, const uint32_t *cpus, uint32_t count) {
  cpu_set_t set[8];
  CPU_ZERO_S(sizeof set, set);
  for (uint32_t i = 0; i < count; i++)
    if (cpus[i] < 8 * CPU_SETSIZE) CPU_SET_S((size_t)cpus[i], sizeof set, set);
  return pthread_setaffinity_np(thread->handle, sizeof set, set) == 0;
}

bool sys_thread_move(const sys_thread *thread, uint32_t cpu) { return sys_thread_keep(thread, &cpu, 1); }

void sys_thread_name(const sys_thread *thread, const char *name) {
  char text[16];
  snprintf(text, sizeof text, "%s", name);
  pthread_setname_np(thread->handle, text);
}

uint32_t sys_cpu_now(void) {
  int cpu = sched_getcpu();
  return cpu < 0 ? UINT32_MAX : (uint32_t)cpu;
}

void sys_yield(void) { sched_yield(); }

void sys_wait_until(_Atomic uint32_t *word, uint32_t expected, uint64_t until_ns) {
  const struct timespec end = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, until_ns ? &end : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
}

void sys_wait(_Atomic uint32_t *word, uint32_t expected) { sys_wait_until(word, expected, 0); }

void sys_event_add(int32_t event) {
  const uint64_t one = 1;
  while (write(event, &one, sizeof one) < 0 && errno == EINTR) {}
}

void sys_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }
