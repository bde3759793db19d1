/* compiler.c -- in the server, in place of sys/process.c: compilers are started by the process beside it, since the
 * server itself has not got the system calls for that. The linker takes these functions and leaves the library's. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spawner.h"
#include "sys/code.h"
#include "sys/sys.h"

enum { SLICE_MS = 2, KILL_MS = 5000, NOT_RUN = 127 };

td_status sys_process_start(sys_process *process, const char *const *argv, const char *output, const char *folder,
                            td_error *err) {
  spawned program;
  (void)folder; /* the process knows it, and argv[0] */
  const int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return base_fail(err, TD_NO_RESOURCE, output, -1, "cannot be written: %s", strerror(errno));
  const td_status status = spawner_run(SPAWNER_COMPILER, argv + 1, 1, fd, &program, err);
  close(fd);
  if (status == TD_OK) process->id = program.line;
  return status;
}

void sys_process_wait(const sys_process *process, uint32_t limit_ms, const _Atomic bool *stop, int *code) {
  const uint64_t until = sys_clock_ns() + limit_ms * 1000000ull;
  int state = SPAWNER_ENDED;
  bool ended = false, goes_on = true;
  while (!ended && goes_on) {
    ended = spawned_wait(process->id, SLICE_MS, &state);
    goes_on = sys_clock_ns() <= until && !(stop && atomic_load_explicit(stop, memory_order_relaxed));
  }
  if (!ended) {
    spawned_kill(process->id);
    spawned_wait(process->id, KILL_MS, &state);
  }
  close(process->id);
  if (!ended) *code = -1;
  else if (state == SPAWNER_ENDED) *code = NOT_RUN;
  else *code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}
