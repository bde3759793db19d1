/* isolate.c -- work in a process of its own. The result stands in memory that both processes see: what the child had
 * written when a signal ended it is there. */
#include "common/isolate.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct shared {
  bool done;
  _Alignas(64) char result[];
} shared;

/* ---- the child's time ---- */

enum { IDLE_NS = 100000 }; /* of a second: what looking at the clocks takes */

/* What a child has left, for the handler of its alarm. */
static struct {
  clockid_t worker; /* time of the thread that does the work */
  int64_t own_ns, all_ns;
  unsigned idle_s, most_idle_s; /* seconds in a row in which nothing was done */
  int64_t used_ns;
} left;

static int64_t clock_ns(clockid_t clock) {
  struct timespec t = {0};
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Once a second. Seconds that a busy machine gave to others do not count. */
static void look_at_clocks(int number) {
  const int64_t used = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  left.idle_s = used - left.used_ns < IDLE_NS ? left.idle_s + 1 : 0;
  left.used_ns = used;
  if (clock_ns(left.worker) >= left.own_ns || used >= left.all_ns || left.idle_s >= left.most_idle_s) {
    signal(number, SIG_DFL);
    raise(number); /* ends the process when this function returns */
  } else alarm(1);
}

static void limit_time(unsigned limit_s) {
  cpu_set_t cpus;
  const int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  if (limit_s == 0 || pthread_getcpuclockid(pthread_self(), &left.worker) != 0) {
    alarm(limit_s);
    return;
  }
  left.own_ns = clock_ns(left.worker) + (int64_t)limit_s * 1000000000;
  left.used_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  left.all_ns = left.used_ns + (int64_t)limit_s * 1000000000 * count;
  left.most_idle_s = limit_s;
  const struct sigaction action = {.sa_handler = look_at_clocks, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  alarm(1);
}

/* ---- the child ---- */

td_status app_run_isolated(void (*work)(void *user, void *result), void *user, void *result, size_t size,
                           unsigned limit_s, app_end *end, td_error *err) {
  shared *both = mmap(NULL, sizeof *both + size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  *end = (app_end){0};
  if (both == MAP_FAILED) return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no memory: %s", strerror(errno));
  memcpy(both->result, result, size);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    limit_time(limit_s);
    work(user, both->result);
    both->done = true;
    exit(0);
  }
  int how = 0;
  while (child > 0 && waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
  const bool done = both->done;
  memcpy(result, both->result, size);
  munmap(both, sizeof *both + size);
  if (child < 0) return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no process: %s", strerror(errno));
  end->signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
  end->exit_code = WIFEXITED(how) ? WEXITSTATUS(how) : 0;
  end->late = end->signal == SIGALRM;
  end->done = done && !end->signal && !end->exit_code;
  return TD_OK;
}
