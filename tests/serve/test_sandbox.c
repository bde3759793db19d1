/* test_sandbox.c -- in a process of its own with the filter: what is not listed fails as it should and does no more,
 * and what the server, compilers and Python handlers need still works. The process beside the server starts, ends and
 * tells of programs that the server itself can no more start, and dies with it. */
#include "test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox.h"
#include "spawner.h"

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
  int pair[2];
  pthread_t thread;
  CHECK(pipe(pair) == 0);
  CHECK(write(pair[1], "x", 1) == 1);
  CHECK(pthread_create(&thread, NULL, sleep_on, &pair[0]) == 0);
  void *result = NULL;
  CHECK(pthread_join(thread, &result) == 0 && result);
  CHECK(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  return 0;
}

static int starts_programs(void) {
  int status = -1;
  FILE *child = popen("echo started", "r");
  char line[16] = "";
  CHECK(child && fgets(line, sizeof line, child));
  status = pclose(child);
  CHECK(status == 0);
  return 0;
}

static int starts_none(void) {
  static char *const words[] = {"/bin/true", NULL}, *const none[] = {NULL};
  CHECK(execve(words[0], words, none) == -1 && errno == EPERM);
  CHECK(is_closed(SYS_execve, 0, 0) && is_closed(SYS_execveat, -1, 0));
#if !SERVE_IS_TRACED
  CHECK(is_closed(SYS_clone, SIGCHLD, 0));
  CHECK(!popen("echo started", "r"));
#endif
#ifdef __x86_64__
  CHECK(is_closed(SYS_fork, 0, 0) && is_closed(SYS_vfork, 0, 0));
#endif
  return 0;
}

static int with_compilers(void) {
  int pair[2];
  CHECK(serve_close_calls(SERVE_CALLS_OF_COMPILERS));
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  CHECK(is_closed(SYS_socket, AF_UNIX, SOCK_STREAM) && is_closed(SYS_connect, -1, 0) && is_closed(SYS_bind, -1, 0));
  const int wrong = closed();
  return wrong ? wrong : starts_programs();
}

static int with_network(void) {
  int pair[2];
  CHECK(serve_close_calls(SERVE_CALLS_OF_HANDLERS));
  static const int families[] = {AF_UNIX, AF_INET, AF_NETLINK};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) CHECK(socket(families[i], SOCK_DGRAM, 0) >= 0);
  CHECK(fails(SYS_socket, AF_PACKET, SOCK_RAW, EAFNOSUPPORT));
  CHECK(fails(SYS_socket, AF_ALG, SOCK_SEQPACKET, EAFNOSUPPORT));
  CHECK(fails(SYS_socket, AF_VSOCK, SOCK_STREAM, EAFNOSUPPORT));
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  for (size_t i = 0; i < sizeof rarely / sizeof *rarely; i++) CHECK(!is_closed(rarely[i], -1, -1));
  int wrong = closed();
  if (!wrong) wrong = open_still();
  return wrong ? wrong : starts_programs();
}

static int without_network(void) {
  int pair[2];
  pthread_t thread;
  void *result = NULL;
  CHECK(pipe(pair) == 0);
  CHECK(pthread_create(&thread, NULL, sleep_on, &pair[0]) == 0);
  CHECK(serve_close_calls(SERVE_CALLS_OF_SERVER));
  CHECK(write(pair[1], "x", 1) == 1);
  CHECK(pthread_join(thread, &result) == 0 && result);
  for (size_t i = 0; i < sizeof rarely / sizeof *rarely; i++) CHECK(is_closed(rarely[i], -1, -1));
  int wrong = closed();
  if (!wrong) wrong = open_still();
  return wrong ? wrong : starts_none();
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
  CHECK(!serve_close_calls(SERVE_CALLS_OF_SERVER));
  CHECK(!is_closed(SYS_socket, AF_UNIX, SOCK_STREAM));
  return 0;
}

/* ---- the process beside the server ---- */

/* A program with the words of a worker, which does what the last of them, the name of a model, says; `path` is of the
 * test's own. */
static void write_worker(char *path) {
  static const char text[] =
      "#!/bin/sh\n"
      "case $4 in\n"
      "ask) read line <&3; echo \"$line of ${3##*/}, $OMP_NUM_THREADS threads\" >&3; echo printed; exit 5;;\n"
      "sleep) sleep 100 >/dev/null 2>&1 3>&- & echo $! >&3; wait;;\n"
      "esac\n";
  const int fd = mkstemp(path);
  assert_true(fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1);
  assert_int_equal(fchmod(fd, 0700), 0);
  assert_int_equal(close(fd), 0);
}

static char worker_path[] = "/tmp/treadle-worker-XXXXXX";

/* As main.c does it with --python-handlers. */
static bool become_server(void) {
  const spawner_plan plan = {.compiler = "/bin/echo", .cache = "/c", .python = worker_path, .folders = "/f"};
  td_error err;
  unsetenv("OMP_NUM_THREADS");
  return spawner_start(&plan, &err) == TD_OK && serve_close_calls(SERVE_CALLS_OF_SERVER);
}

static bool run(const char *name, int output, spawned *out) {
  static const char script[] = "/f/treadle-serve-abcdef/shim/worker.py";
  td_error err;
  return spawner_run(SPAWNER_WORKER, (const char *const[]){script, name, NULL}, 3, output, out, &err) == TD_OK;
}

static bool run_compiler(const char *option, int output, spawned *out) {
  static const char made[] = "/c/0123456789abcdef0123456789abcdef.1.2.tmp",
                    source[] = "/c/0123456789abcdef0123456789abcdef.c";
  const char *words[] = {"-x",
                         "c",
                         "-std=gnu11",
                         option,
                         "-w",
                         "-fPIC",
                         "-shared",
                         "-nostdlib",
                         "-ffp-contract=off",
                         "-fno-math-errno",
                         "-fno-trapping-math",
                         "-o",
                         made,
                         source,
                         NULL};
  td_error err;
  return spawner_run(SPAWNER_COMPILER, words, 1, output, out, &err) == TD_OK;
}

/* Its next line; false: there is none. */
static bool reads(int fd, char *line, size_t size) {
  size_t count = 0;
  while (count < size - 1 && read(fd, line + count, 1) == 1 && line[count] != '\n') count++;
  line[count] = 0;
  return count > 0;
}

static bool is_gone(int pid) {
  for (int i = 0; i < 500; i++) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (file && !fgets(line, sizeof line, file)) line[0] = 0;
    if (file) fclose(file);
    if (!file || strstr(line, ") Z ")) return true;
    usleep(10000);
  }
  return false;
}

static int with_spawner(void) {
  spawned one;
  char line[256];
  int state = 0, output[2];
  CHECK(pipe(output) == 0 && become_server());
  int wrong = starts_none();
  for (size_t i = 0; !wrong && i < sizeof rarely / sizeof *rarely; i++)
    if (!is_closed(rarely[i], -1, -1)) wrong = (int)i + 1;
  if (wrong) return wrong;
  CHECK(run("ask", output[1], &one) && one.pid > 0 && one.pid != getpid());
  CHECK(!spawned_has_ended(one.line));
  CHECK(write(one.socket, "word\n", 5) == 5);
  CHECK(reads(one.socket, line, sizeof line) && !strcmp(line, "word of worker.py, 3 threads"));
  CHECK(reads(output[0], line, sizeof line) && !strcmp(line, "printed"));
  CHECK(spawned_wait(one.line, 10000, &state) && WIFEXITED(state) && WEXITSTATUS(state) == 5);
  CHECK(is_gone(one.pid)); /* nobody has to wait for it */
  CHECK(run("sleep", output[1], &one));
  CHECK(reads(one.socket, line, sizeof line) && !spawned_wait(one.line, 50, &state));
  spawned_kill(one.line);
  CHECK(spawned_wait(one.line, 10000, &state) && WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
  CHECK(is_gone(atoi(line))); /* what it had started */
  CHECK(run_compiler("-O2", output[1], &one) && one.socket == -1);
  CHECK(reads(output[0], line, sizeof line) && !strncmp(line, "-x c -std=gnu11 -O2 ", 20));
  CHECK(spawned_wait(one.line, 10000, &state) && state == 0);
  CHECK(run("sleep", output[1], &one) && reads(one.socket, line, sizeof line));
  spawner_end();
  CHECK(is_gone(one.pid) && is_gone(atoi(line)));
  CHECK(!run("ask", output[1], &one));
  return 0;
}

/* The process that has started `of`; 0: it is unknown, or the server. */
static int parent_of(int of) {
  char path[64];
  int parent = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", of);
  FILE *file = fopen(path, "re");
  if (file && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1) parent = 0;
  if (file) fclose(file);
  return parent > 1 && parent != getpid() ? parent : 0;
}

/* Programs work: one of each kind. */
static int has_programs(void) {
  spawned one;
  int state = 0, output[2];
  char line[256];
  CHECK(pipe(output) == 0);
  CHECK(run("ask", output[1], &one) && write(one.socket, "word\n", 5) == 5);
  CHECK(reads(one.socket, line, sizeof line) && !strcmp(line, "word of worker.py, 3 threads"));
  CHECK(spawned_wait(one.line, 10000, &state) && WIFEXITED(state) && WEXITSTATUS(state) == 5);
  CHECK(run_compiler("-O2", output[1], &one) && spawned_wait(one.line, 10000, &state) && state == 0);
  return 0;
}

/* Another one takes its place, as often as it is killed, and what it had started is gone. */
static int spawner_dies(void) {
  spawned one;
  int state = 0, last = 0;
  char line[16];
  CHECK(become_server());
  for (int i = 0; i < 3; i++) {
    CHECK(run("sleep", 2, &one) && reads(one.socket, line, sizeof line));
    const int spawner = parent_of(one.pid);
    CHECK(spawner && kill(spawner, SIGKILL) == 0);
    CHECK(spawned_wait(one.line, 10000, &state) && state == SPAWNER_ENDED);
    CHECK(is_gone(one.pid) && is_gone(spawner));
    const int wrong = has_programs();
    if (wrong) return wrong;
    CHECK(run("sleep", 2, &one) && reads(one.socket, line, sizeof line));
    last = parent_of(one.pid);
    CHECK(last && last != spawner);
  }
  spawner_end();
  CHECK(is_gone(one.pid) && is_gone(last));
  CHECK(!run("ask", 2, &one));
  return 0;
}

/* Without the keeper the spawner goes on, and is the last one. */
static int keeper_dies(void) {
  spawned one;
  int state = 0;
  char line[16];
  CHECK(become_server());
  CHECK(run("sleep", 2, &one) && reads(one.socket, line, sizeof line));
  const int spawner = parent_of(one.pid), keeper = parent_of(spawner);
  CHECK(spawner && keeper && kill(keeper, SIGKILL) == 0);
  const int wrong = has_programs();
  if (wrong) return wrong;
  CHECK(kill(spawner, SIGKILL) == 0 && spawned_wait(one.line, 10000, &state) && state == SPAWNER_ENDED);
  CHECK(!run("ask", 2, &one)); /* and does not wait */
  CHECK(!run_compiler("-O2", 2, &one));
  spawner_end();
  return 0;
}

static int other_words(void) {
  spawned one;
  td_error err;
  CHECK(become_server());
  CHECK(!run_compiler("-fplugin=/tmp/x.so", 2, &one) && !run("", 2, &one));
  CHECK(spawner_run(SPAWNER_WORKER, (const char *const[]){"-c", "1", NULL}, 1, 2, &one, &err) == TD_NO_RESOURCE);
  CHECK(strstr(err.text, "not permitted"));
  return has_programs();
}

/* A server that is killed has no time to say so. */
static int server_dies(void) {
  int report[2], pids[2] = {0, 0}, status = 0;
  CHECK(pipe(report) == 0);
  const pid_t server = fork();
  if (server == 0) {
    spawned one;
    char line[16];
    const bool runs = become_server() && run("sleep", 2, &one);
    if (!runs || !reads(one.socket, line, sizeof line)) _exit(1);
    pids[0] = one.pid;
    pids[1] = atoi(line);
    if (write(report[1], pids, sizeof pids) < 0) _exit(1);
    for (;;) pause();
  }
  close(report[1]);
  CHECK(read(report[0], pids, sizeof pids) == sizeof pids);
  CHECK(kill(server, SIGKILL) == 0 && waitpid(server, &status, 0) == server);
  CHECK(is_gone(pids[0]) && is_gone(pids[1]));
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

static void compilers_have_programs_alone(void **state) {
  (void)state;
  in_a_child(with_compilers);
}

static void servers_with_handlers_start_nothing(void **state) {
  (void)state;
  in_a_child(with_spawner);
}

static void servers_outlive_the_spawner(void **state) {
  (void)state;
  in_a_child(spawner_dies);
}

static void spawners_outlive_the_keeper(void **state) {
  (void)state;
  in_a_child(keeper_dies);
}

static void servers_choose_no_words(void **state) {
  (void)state;
  in_a_child(other_words);
}

static void the_spawner_dies_with_the_server(void **state) {
  (void)state;
  in_a_child(server_dies);
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
                                     cmocka_unit_test(compilers_have_programs_alone),
                                     cmocka_unit_test(servers_with_handlers_start_nothing),
                                     cmocka_unit_test(servers_outlive_the_spawner),
                                     cmocka_unit_test(spawners_outlive_the_keeper),
                                     cmocka_unit_test(servers_choose_no_words),
                                     cmocka_unit_test(the_spawner_dies_with_the_server),
                                     cmocka_unit_test(servers_have_what_they_listen_on),
                                     cmocka_unit_test(servers_run_without_a_filter)};
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
  write_worker(worker_path);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(worker_path);
  return failed;
#else
  (void)tests;
  return 0; /* there is no filter */
#endif
}
