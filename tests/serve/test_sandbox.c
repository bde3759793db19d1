/* test_sandbox.c -- in a process of its own with the filter: what is not listed fails as it should and does no more,
 * and what the server, compilers and Python handlers need still works. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "sandbox.h"

static bool fails(long number, long a, long b, int with) {
  errno = 0;
  return syscall(number, a, b, 0, 0, 0) == -1 && errno == with;
}

static bool is_closed(long number, long a, long b) { return fails(number, a, b, EPERM); }

static void *sleep_on(void *pipe_end) {
  char byte;
  if (read(*(int *)pipe_end, &byte, 1) != 1) return NULL;
  return is_closed(SYS_unshare, 0, 0) ? pipe_end : NULL; /* it ran before the filter came */
}

/* The number of the line where something is not as it should be; 0: all is. */
#define CHECK(condition) \
  if (!(condition)) return __LINE__ % 250 + 1

/* Calls that nothing has a use for: what fails as it should may not have been asked of the kernel, whose answer to
 * these arguments would be another for most of them. */
static const short never[] = {SYS_unshare,
                              SYS_setns,
                              SYS_mount,
                              SYS_umount2,
                              SYS_pivot_root,
                              SYS_chroot,
                              SYS_bpf,
                              SYS_perf_event_open,
                              SYS_userfaultfd,
                              SYS_process_vm_readv,
                              SYS_process_vm_writev,
                              SYS_kcmp,
                              SYS_keyctl,
                              SYS_add_key,
                              SYS_request_key,
                              SYS_setuid,
                              SYS_setgid,
                              SYS_setreuid,
                              SYS_setregid,
                              SYS_setresuid,
                              SYS_setresgid,
                              SYS_setgroups,
                              SYS_setfsuid,
                              SYS_setfsgid,
                              SYS_capset,
                              SYS_personality,
                              SYS_io_setup,
                              SYS_io_submit,
                              SYS_name_to_handle_at,
                              SYS_open_by_handle_at,
                              SYS_fanotify_init,
                              SYS_init_module,
                              SYS_finit_module,
                              SYS_delete_module,
                              SYS_kexec_load,
                              SYS_swapon,
                              SYS_swapoff,
                              SYS_acct,
                              SYS_syslog,
                              SYS_quotactl,
                              SYS_vhangup,
                              SYS_sethostname,
                              SYS_setdomainname,
                              SYS_settimeofday,
                              SYS_clock_settime,
                              SYS_clock_adjtime,
                              SYS_adjtimex,
                              SYS_move_pages,
                              SYS_migrate_pages,
                              SYS_remap_file_pages,
                              SYS_nfsservctl};

/* Without Python handlers there is no use for these either. */
static const short rarely[] = {SYS_socket, SYS_socketpair, SYS_connect,     SYS_bind,         SYS_listen,
                               SYS_shmget, SYS_mlockall,   SYS_setpriority, SYS_timer_create, SYS_inotify_init1,
                               SYS_setsid, SYS_mbind,      SYS_seccomp,     SYS_mknodat,      SYS_fsetxattr};

/* Numbers since 5.1: io_uring_setup, open_tree, fsopen, clone3, pidfd_getfd, mount_setattr, memfd_secret, one to come.
 */
static const short late[] = {425, 428, 430, 435, 438, 442, 447, 511};

static int closed(void) {
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    if (!is_closed(never[i], 0, 0)) return (int)i + 1;
  for (size_t i = 0; i < sizeof late / sizeof *late; i++) CHECK(fails(late[i], 0, 0, ENOSYS));
  CHECK(fails(100000, 0, 0, ENOSYS));
#ifdef __x86_64__
  CHECK(fails(0x40000000 + SYS_getpid, 0, 0, ENOSYS)); /* of x32, where it would give a number */
#endif
  CHECK(is_closed(SYS_setuid, getuid(), 0)); /* else everyone may become who he is */
  CHECK(is_closed(SYS_personality, 0xffffffff, 0));
  CHECK(is_closed(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0));
  CHECK(is_closed(SYS_clone, CLONE_NEWNET | SIGCHLD, 0));
  CHECK(is_closed(SYS_ioctl, -1, TIOCSTI)); /* else EBADF */
  CHECK(is_closed(SYS_ioctl, -1, TIOCLINUX));
  CHECK(fails(SYS_ioctl, -1, FIONREAD, EBADF));
  return 0;
}

static int open_still(void) {
  int pair[2], status = -1;
  pthread_t thread;
  CHECK(pipe(pair) == 0);
  CHECK(write(pair[1], "x", 1) == 1);
  CHECK(pthread_create(&thread, NULL, sleep_on, &pair[0]) == 0);
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
  int pair[2];
  CHECK(serve_close_calls(true));
  static const int families[] = {AF_UNIX, AF_INET, AF_NETLINK};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) CHECK(socket(families[i], SOCK_DGRAM, 0) >= 0);
  CHECK(fails(SYS_socket, AF_PACKET, SOCK_RAW, EAFNOSUPPORT));
  CHECK(fails(SYS_socket, AF_ALG, SOCK_SEQPACKET, EAFNOSUPPORT));
  CHECK(fails(SYS_socket, AF_VSOCK, SOCK_STREAM, EAFNOSUPPORT));
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  for (size_t i = 0; i < sizeof rarely / sizeof *rarely; i++) CHECK(!is_closed(rarely[i], -1, -1));
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
  for (size_t i = 0; i < sizeof rarely / sizeof *rarely; i++) CHECK(is_closed(rarely[i], -1, -1));
  const int wrong = closed();
  return wrong ? wrong : open_still();
}

/* As in a container whose own filter refuses filters. */
static int refused(void) {
  struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                               BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog all = {sizeof code / sizeof *code, code};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0) == 0);
  CHECK(!serve_close_calls(false));
  CHECK(!is_closed(SYS_socket, AF_UNIX, SOCK_STREAM));
  return 0;
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

static void servers_run_without_a_filter(void **state) {
  (void)state;
  in_a_child(refused);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(handlers_have_a_network),
                                     cmocka_unit_test(servers_have_what_they_listen_on),
                                     cmocka_unit_test(servers_run_without_a_filter)};
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
  return cmocka_run_group_tests(tests, NULL, NULL);
#else
  (void)tests;
  return 0; /* there is no filter */
#endif
}
