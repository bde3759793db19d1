/* check_child.c -- one case in a process of its own.
 *
 * The child sends its result through a pipe and ends with exit(), so that a leak checker still speaks up. An alarm ends
 * it when the time is over. Whatever else ends it (a signal, an exit status) is the result. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "measure.h"

/* Sends the result whole; the parent treats a short one as none. */
static _Noreturn void child_main(const char *folder, const check_settings *settings, int to) {
  alarm(settings->limit_s);
  check_result result;
  memset(&result, 0, sizeof result); /* padding is sent too */
  result.err.offset = -1;
  double start = cli_now_ms();
  result.status = check_case(folder, settings, &result.err);
  result.ms = cli_now_ms() - start;
  const char *bytes = (const char *)&result;
  for (size_t sent = 0; sent < sizeof result;) {
    ssize_t n = write(to, bytes + sent, sizeof result - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    sent += (size_t)n;
  }
  close(to);
  exit(0);
}

static bool receive(int from, check_result *result) {
  char *bytes = (char *)result;
  for (size_t got = 0; got < sizeof *result;) {
    ssize_t n = read(from, bytes + got, sizeof *result - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    got += (size_t)n;
  }
  return true;
}

/* What became of a child whose result did not come, or who failed after sending it. */
static void judge_end(int how, bool received, unsigned limit_s, check_result *result) {
  td_error *err = &result->err;
  if (WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM) {
    result->status = base_fail(err, TD_NO_RESOURCE, NULL, -1, "not done after %u s (--time-limit)", limit_s);
  } else if (WIFSIGNALED(how)) {
    result->status = base_fail(err, TD_INTERNAL, NULL, -1, "crashed: %s", strsignal(WTERMSIG(how)));
  } else if (!received || WEXITSTATUS(how)) {
    result->status = base_fail(err, TD_INTERNAL, NULL, -1, "ended with exit status %d", WEXITSTATUS(how));
  }
}

void check_case_apart(const char *folder, const check_settings *settings, check_result *result) {
  *result = (check_result){.err.offset = -1};
  int ends[2];
  fflush(NULL);
  if (pipe(ends) != 0) {
    result->status = base_fail(&result->err, TD_NO_RESOURCE, NULL, -1, "no pipe: %s", strerror(errno));
    return;
  }
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    child_main(folder, settings, ends[1]);
  }
  close(ends[1]);
  bool received = child > 0 && receive(ends[0], result);
  close(ends[0]);
  if (child < 0) {
    result->status = base_fail(&result->err, TD_NO_RESOURCE, NULL, -1, "no process: %s", strerror(errno));
    return;
  }
  int how = 0;
  while (waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
  judge_end(how, received, settings->limit_s, result);
}
