/* thread.c -- the clock and threads. */
#include "sys/sys.h"

#include <string.h>
#include <time.h>

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
