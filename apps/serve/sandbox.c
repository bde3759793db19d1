/* sandbox.c -- seccomp filters: the server, and the process that starts programs for it (a C compiler, Python handlers)
 * with those, have the system calls of the lists below and no others. What is not listed fails, and nobody is ended for
 * it: calls that kernels had before 5.1 with EPERM; later ones with ENOSYS as on a kernel that has not got them, since
 * C libraries and programs then go another way. The kernel's audit log has a line of each. */
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#define HAS_FILTER 1
#endif

#include "sandbox.h"

#ifdef HAS_FILTER

#ifdef __x86_64__
enum { ARCHITECTURE = AUDIT_ARCH_X86_64 };
#else
enum { ARCHITECTURE = AUDIT_ARCH_AARCH64 };
#endif

/* From 424 on calls have one number on every architecture. They are written here because headers may be older than the
 * kernel and the C library that the program meets. */
enum {
  FIRST_LATE = 424,
  CALL_pidfd_send_signal = 424,
  CALL_pidfd_open = 434,
  CALL_close_range = 436,
  CALL_openat2 = 437,
  CALL_faccessat2 = 439,
  CALL_epoll_pwait2 = 441,
  CALL_landlock_create_ruleset = 444,
  CALL_landlock_add_rule = 445,
  CALL_landlock_restrict_self = 446,
  CALL_futex_waitv = 449,
  CALL_set_mempolicy_home_node = 450,
  CALL_fchmodat2 = 452,
  CALL_map_shadow_stack = 453,
  CALL_futex_wake = 454,
  CALL_futex_wait = 455,
  CALL_futex_requeue = 456,
  CALL_mseal = 462,
  NUMBERS = 512
};

/* Of the server, the engine and the libraries below them, and of what it has started. Where a C library chooses among
 * several calls for one thing, all are here. */
static const short of_server[] = {
    /* files */
    SYS_read,
    SYS_write,
    SYS_pread64,
    SYS_pwrite64,
    SYS_readv,
    SYS_writev,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_openat,
    CALL_openat2,
    SYS_close,
    CALL_close_range,
    SYS_lseek,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_faccessat,
    CALL_faccessat2,
    SYS_fcntl,
    SYS_ioctl,
    SYS_dup,
    SYS_dup3,
    SYS_pipe2,
    SYS_flock,
    SYS_fsync,
    SYS_fdatasync,
    SYS_ftruncate,
    SYS_truncate,
    SYS_fallocate,
    SYS_fadvise64,
    SYS_readahead,
    SYS_getdents64,
    SYS_getcwd,
    SYS_chdir,
    SYS_fchdir,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_readlinkat,
    SYS_fchmod,
    SYS_fchmodat,
    CALL_fchmodat2,
    SYS_utimensat,
    SYS_umask,
    SYS_copy_file_range,
    SYS_sendfile,
    SYS_memfd_create,
    /* connections that are there */
    SYS_accept,
    SYS_accept4,
    SYS_recvfrom,
    SYS_sendto,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_shutdown,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    /* waiting */
    SYS_ppoll,
    SYS_pselect6,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    CALL_epoll_pwait2,
    SYS_eventfd2,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_restart_syscall,
    SYS_sched_yield,
    SYS_futex,
    CALL_futex_waitv,
    CALL_futex_wake,
    CALL_futex_wait,
    CALL_futex_requeue,
    /* memory */
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_msync,
    SYS_mincore,
    SYS_membarrier,
    CALL_mseal,
    CALL_map_shadow_stack,
    /* threads and processes; `clone` is looked at more closely */
    SYS_clone,
    SYS_exit,
    SYS_exit_group,
    SYS_wait4,
    SYS_waitid,
    SYS_kill,
    SYS_tgkill,
    SYS_tkill,
    SYS_set_tid_address,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_rseq,
    SYS_prctl,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_getcpu,
    SYS_getpgid,
    SYS_getsid,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getresuid,
    SYS_getresgid,
    SYS_getgroups,
    /* signals */
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigpending,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_setitimer,
    SYS_getitimer,
    /* limits, clocks, chance */
    SYS_prlimit64,
    SYS_getrlimit,
    SYS_setrlimit,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_uname,
    SYS_times,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_getrandom,
#ifdef __x86_64__
    /* older names for what is above */
    SYS_open,
    SYS_creat,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_dup2,
    SYS_pipe,
    SYS_getdents,
    SYS_mkdir,
    SYS_rmdir,
    SYS_unlink,
    SYS_rename,
    SYS_link,
    SYS_symlink,
    SYS_readlink,
    SYS_chmod,
    SYS_poll,
    SYS_select,
    SYS_epoll_create,
    SYS_epoll_wait,
    SYS_eventfd,
    SYS_getpgrp,
    SYS_pause,
    SYS_alarm,
    SYS_time,
    SYS_arch_prctl,
#endif
};

/* Of who starts programs, and of a C compiler, on top. Other ends than its own a pair of sockets does not reach. */
static const short of_programs[] = {
    SYS_execve, SYS_setpgid, SYS_setsid, SYS_socketpair,
#ifdef __x86_64__
    SYS_fork,   SYS_vfork,
#endif
};

/* Of somebody's Python and the libraries that it loads, on top: a network, and what programs ask for without rights of
 * their own. `socket` is looked at more closely. */
static const short of_handlers[] = {
    SYS_socket,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_sendmmsg,
    SYS_recvmmsg,
    /* files */
    SYS_fchown,
    SYS_fchownat,
    SYS_mknodat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fgetxattr,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_flistxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_sync,
    SYS_syncfs,
    SYS_sync_file_range,
    SYS_splice,
    SYS_tee,
    SYS_vmsplice,
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_inotify_rm_watch,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_mq_notify,
    SYS_mq_getsetattr,
    /* memory, shared too, and where it lies */
    SYS_mlock,
    SYS_mlock2,
    SYS_munlock,
    SYS_mlockall,
    SYS_munlockall,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_pkey_mprotect,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_shmdt,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mbind,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    CALL_set_mempolicy_home_node,
    /* processes, timers, signals */
    SYS_execveat,
    CALL_pidfd_open,
    CALL_pidfd_send_signal,
    SYS_getpriority,
    SYS_setpriority,
    SYS_ioprio_get,
    SYS_ioprio_set,
    SYS_sched_setparam,
    SYS_sched_setscheduler,
    SYS_sched_rr_get_interval,
    SYS_sched_getattr,
    SYS_sched_setattr,
    SYS_capget,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_gettime,
    SYS_timer_getoverrun,
    SYS_timer_delete,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_signalfd4,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    /* to confine itself further */
    SYS_seccomp,
    CALL_landlock_create_ruleset,
    CALL_landlock_add_rule,
    CALL_landlock_restrict_self,
#ifdef __x86_64__
    SYS_chown,
    SYS_lchown,
    SYS_mknod,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
    SYS_inotify_init,
    SYS_signalfd,
#endif
};

enum {
  OF_SERVER = sizeof of_server / sizeof *of_server,
  OF_PROGRAMS = sizeof of_programs / sizeof *of_programs,
  OF_HANDLERS = sizeof of_handlers / sizeof *of_handlers,
  /* the steps before the ranges, and at most two for each number on a list and the one after it */
  MOST = 64 + 4 * (OF_SERVER + OF_PROGRAMS + OF_HANDLERS),
  REFUSED = SECCOMP_RET_ERRNO | EPERM,
  MISSING = SECCOMP_RET_ERRNO | ENOSYS,
  NAME_SPACES = 0x7e020000 /* flags of clone: CLONE_NEWNS, CLONE_NEWCGROUP to CLONE_NEWNET */
};

typedef struct program {
  struct sock_filter code[MOST];
  unsigned short count;
} program;

static void add(program *p, struct sock_filter step) { p->code[p->count++] = step; }

static void give(program *p, unsigned int action) { add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action)); }

/* Goes on behind the next `other` steps where `condition` (BPF_JEQ ...) of what is loaded does not hold. */
static void unless(program *p, unsigned int condition, unsigned int with, unsigned char other) {
  add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_K | condition, with, 0, other));
}

static void load(program *p, size_t offset) {
  add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned int)offset));
}

/* Calls that are listed, and whose arguments can be more than what they are listed for. The kernel compares the lower
 * half of an argument where the argument is an int, and so is it done here. */
static void look_closer(program *p, serve_calls calls) {
  static const unsigned int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}; /* names of hosts need the last */
  const size_t first = offsetof(struct seccomp_data, args[0]), second = offsetof(struct seccomp_data, args[1]);
  const bool threads_alone = calls == SERVE_CALLS_OF_SERVER && !SERVE_IS_TRACED;
  unless(p, BPF_JEQ, SYS_clone, threads_alone ? 6 : 4);
  load(p, first);
  unless(p, BPF_JSET, NAME_SPACES, 1);
  give(p, REFUSED);
  if (threads_alone) unless(p, BPF_JSET, CLONE_THREAD, 1);
  give(p, SECCOMP_RET_ALLOW);
  if (threads_alone) give(p, REFUSED);
  unless(p, BPF_JEQ, SYS_ioctl, 6); /* keys pressed for whoever has the terminal */
  load(p, second);
  unless(p, BPF_JEQ, TIOCSTI, 1);
  give(p, REFUSED);
  unless(p, BPF_JEQ, TIOCLINUX, 1);
  give(p, REFUSED);
  give(p, SECCOMP_RET_ALLOW);
  if (calls != SERVE_CALLS_OF_HANDLERS) return;
  enum { FAMILIES = sizeof families / sizeof *families };
  unless(p, BPF_JEQ, SYS_socket, 2 + 2 * FAMILIES);
  load(p, first);
  for (int i = 0; i < FAMILIES; i++) {
    unless(p, BPF_JEQ, families[i], 1);
    give(p, SECCOMP_RET_ALLOW);
  }
  give(p, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
}

/* Numbers in order: one comparison for each range that is treated alike. */
static void write_program(program *p, serve_calls calls) {
  bool listed[NUMBERS] = {false};
  for (int i = 0; i < OF_SERVER; i++) listed[of_server[i]] = true;
  for (int i = 0; i < OF_PROGRAMS && calls >= SERVE_CALLS_OF_COMPILERS; i++) listed[of_programs[i]] = true;
  for (int i = 0; i < OF_HANDLERS && calls >= SERVE_CALLS_OF_HANDLERS; i++) listed[of_handlers[i]] = true;
  if (calls == SERVE_CALLS_OF_SERVER) listed[SYS_ptrace] = SERVE_IS_TRACED; /* the others end without that look */
  load(p, offsetof(struct seccomp_data, arch));
  add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
  give(p, REFUSED);
  load(p, offsetof(struct seccomp_data, nr));
  look_closer(p, calls);
  unsigned int action = listed[0] ? SECCOMP_RET_ALLOW : REFUSED;
  for (unsigned int i = 1; i < NUMBERS; i++) {
    const unsigned int next = listed[i] ? SECCOMP_RET_ALLOW : i < FIRST_LATE ? REFUSED : MISSING;
    if (next == action) continue;
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, i, 1, 0));
    give(p, action);
    action = next;
  }
  give(p, MISSING);
}

bool serve_close_calls(serve_calls calls) {
  program p = {.count = 0};
  write_program(&p, calls);
  const struct sock_fprog all = {p.count, p.code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  /* of all threads; a kernel that cannot log does it without */
  const unsigned int flags[] = {SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG, SECCOMP_FILTER_FLAG_TSYNC};
  for (int i = 0; i < 2; i++)
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags[i], &all) == 0) return true;
  return false;
}

#else

bool serve_close_calls(serve_calls calls) {
  (void)calls;
  return false;
}

#endif
