/* apart.c -- work in a process of its own. The result stands in memory that both processes see: what the child had
 * written when a signal ended it is there. */
#include "apart.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct shared {
  bool done;
  _Alignas(64) char result[];
} shared;

td_status cli_run_apart(void (*work)(void *user, void *result), void *user, void *result, size_t size, unsigned limit_s,
                        cli_end *end, td_error *err) {
  shared *both = mmap(NULL, sizeof *both + size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  *end = (cli_end){0};
  if (both == MAP_FAILED) return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no memory: %s", strerror(errno));
  memcpy(both->result, result, size);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    alarm(limit_s);
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
