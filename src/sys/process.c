/* process.c -- running another program: in a process group of its own, so that it can be ended with all it started. */
#include "sys/code.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

td_status sys_process_start(sys_process *process, const char *const *argv, const char *output, const char *folder,
                            td_error *err) {
  char temporary[4096 + 8];
  char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", locale[] = "LC_ALL=C";
  snprintf(temporary, sizeof temporary, "TMPDIR=%s", folder);
  char *const environment[] = {path, locale, temporary, NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  pid_t pid;
  if (posix_spawn_file_actions_init(&files)) return base_no_memory(err, "a process");
  if (posix_spawnattr_init(&attributes)) {
    posix_spawn_file_actions_destroy(&files);
    return base_no_memory(err, "a process");
  }
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  union {
    const char *const *in;
    char *const *out;
  } arguments = {argv}; /* posix_spawn does not write to them */
  const int failed = posix_spawn(&pid, argv[0], &files, &attributes, arguments.out, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failed) return base_fail(err, TD_NO_RESOURCE, argv[0], -1, "cannot start %s: %s", argv[0], strerror(failed));
  process->id = pid;
  return TD_OK;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void sys_process_wait(const sys_process *process, uint32_t limit_ms, const _Atomic bool *stop, int *code) {
  const double end = now_ms() + limit_ms;
  int state = 0;
  bool killed = false;
  for (;;) {
    const pid_t done = waitpid(process->id, &state, killed ? 0 : WNOHANG);
    if (done == process->id) break;
    if (done < 0 && errno != EINTR) { /* somebody else has waited for it */
      *code = -1;
      return;
    }
    if (!killed && (now_ms() > end || (stop && atomic_load_explicit(stop, memory_order_relaxed)))) {
      kill(-process->id, SIGKILL);
      killed = true;
    }
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
  }
  *code = killed ? -1 : WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}
