/* test_sandbox.c -- in a process of its own with the filter: what is closed fails with EPERM and does no more, and what
 * the server, compilers and Python handlers need still works. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "sandbox.h"

static bool is_closed(long number, long a, long b) {
  errno = 0;
  return syscall(number, a, b, 0, 0, 0) == -1 && errno == EPERM;
}

static void *sleep_on(void *pipe_end) {
  char byte;
  if (read(*(int *)pipe_end, &byte, 1) != 1) return NULL;
  return is_closed(SYS_unshare, 0, 0) ? pipe_end : NULL; /* it ran before the filter came */
}

/* The number of the line where something is not as it should be; 0: all is. */
#define CHECK(condition) \
  if (!(condition)) return __LINE__ % 250 + 1

static int closed(void) {
  CHECK(is_closed(SYS_unshare, 0, 0)); /* without a flag it would be allowed */
  CHECK(is_closed(SYS_bpf, 0, 0));
  CHECK(is_closed(SYS_io_uring_setup, 1, 0));
  CHECK(is_closed(SYS_perf_event_open, 0, 0));
  CHECK(is_closed(SYS_userfaultfd, 0, 0));
  CHECK(is_closed(SYS_process_vm_readv, getpid(), 0));
  CHECK(is_closed(SYS_setuid, getuid(), 0)); /* else everyone may become who he is */
  CHECK(is_closed(SYS_keyctl, 0, 0));
  CHECK(is_closed(SYS_mount, 0, 0));
  CHECK(is_closed(SYS_personality, 0xffffffff, 0));
  CHECK(is_closed(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0));
  CHECK(is_closed(SYS_clone, CLONE_NEWNET | SIGCHLD, 0));
  return 0;
}

static int open_still(void) {
  int pair[2], status = -1;
  pthread_t thread;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  CHECK(write(pair[0], "x", 1) == 1);
  CHECK(pthread_create(&thread, NULL, sleep_on, &pair[1]) == 0);
  void *result = NULL;
  CHECK(pthread_join(thread, &result) == 0 && result);
  CHECK(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  FILE *child = popen("echo started", "r"); /* as compilers and workers are */
  char line[16] = "";
  CHECK(child && fgets(line, sizeof line, child));
  status = pclose(child);
  CHECK(status == 0);
  return 0;
}

static int with_network(void) {
  CHECK(serve_close_calls(true));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0);
  const int wrong = closed();
  return wrong ? wrong : open_still();
}

static int without_network(void) {
  int pair[2];
  pthread_t thread;
  void *result = NULL;
  CHECK(pipe(pair) == 0);
  CHECK(pthread_create(&thread, NULL, sleep_on, &pair[0]) == 0);
  CHECK(serve_close_calls(false));
  CHECK(write(pair[1], "x", 1) == 1);
  CHECK(pthread_join(thread, &result) == 0 && result);
  CHECK(is_closed(SYS_socket, AF_INET, SOCK_STREAM));
  CHECK(is_closed(SYS_connect, 0, 0));
  CHECK(is_closed(SYS_listen, 0, 0));
  const int wrong = closed();
  return wrong ? wrong : open_still();
}

static void in_a_child(int (*check)(void)) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0) _exit(check());
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void handlers_have_a_network(void **state) {
  (void)state;
  in_a_child(with_network);
}

static void servers_have_what_they_listen_on(void **state) {
  (void)state;
  in_a_child(without_network);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(handlers_have_a_network),
                                     cmocka_unit_test(servers_have_what_they_listen_on)};
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
  return cmocka_run_group_tests(tests, NULL, NULL);
#else
  (void)tests;
  return 0; /* there is no filter */
#endif
}
