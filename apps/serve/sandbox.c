/* sandbox.c -- a seccomp filter: system calls that neither the server nor what it starts (a C compiler, Python
 * handlers) has a use for fail with EPERM, and the kernel's audit log has a line of each. Calls that are not named are
 * allowed, so that a newer C library, compiler or Python still works. */
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
#define HAS_FILTER 1
#endif

#include "sandbox.h"

#ifdef HAS_FILTER

#ifdef __x86_64__
enum { ARCHITECTURE = AUDIT_ARCH_X86_64, FOREIGN = 0x40000000 }; /* FOREIGN: numbers of x32, which nobody uses */
#else
enum { ARCHITECTURE = AUDIT_ARCH_AARCH64, FOREIGN = 0x7fffffff };
#endif

/* LeakSanitizer looks at the threads by ptrace when the process ends. */
#if defined(__SANITIZE_ADDRESS__)
#define IS_TRACED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_TRACED 1
#endif
#endif

static const int denied[] = {
    /* the machine, and the kernel itself */
    SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_bpf, SYS_perf_event_open,
    SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_syslog, SYS_acct, SYS_swapon,
    SYS_swapoff, SYS_quotactl, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_sethostname,
    SYS_setdomainname, SYS_fanotify_init, SYS_personality,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef __x86_64__
    SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
    /* other name spaces and roots */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns, SYS_name_to_handle_at,
    SYS_open_by_handle_at,
#ifdef SYS_open_tree
    SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
#endif
    /* other processes' memory, and the kernel's keys */
    SYS_process_vm_readv, SYS_process_vm_writev, SYS_add_key, SYS_request_key, SYS_keyctl,
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
#ifndef IS_TRACED
    SYS_ptrace,
#endif
    /* other users */
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups, SYS_setfsuid,
    SYS_setfsgid, SYS_capset};

/* Once all addresses listen no socket to elsewhere is made any more; pairs of sockets are. */
static const int network[] = {SYS_socket, SYS_connect, SYS_bind, SYS_listen};

enum { COUNT = sizeof denied / sizeof *denied, NETWORK = sizeof network / sizeof *network, MOST = 160 };

typedef struct program {
  struct sock_filter code[MOST];
  unsigned short count;
} program;

static void add(program *p, struct sock_filter step) { p->code[p->count++] = step; }

static void give(program *p, unsigned int action) { add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action)); }

/* The number that is loaded is this one: `action`. */
static void decide(program *p, unsigned int number, unsigned int action) {
  add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
  give(p, action);
}

static void load(program *p, size_t offset) {
  add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned int)offset));
}

static void write_program(program *p, bool has_network) {
  const unsigned int refused = SECCOMP_RET_ERRNO | EPERM;
  load(p, offsetof(struct seccomp_data, arch));
  add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
  give(p, refused);
  load(p, offsetof(struct seccomp_data, nr));
  add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN, 0, 1));
  give(p, refused);
  for (int i = 0; i < COUNT; i++) decide(p, (unsigned int)denied[i], refused);
  for (int i = 0; i < NETWORK && !has_network; i++) decide(p, (unsigned int)network[i], refused);
#ifdef SYS_clone3
  decide(p, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS); /* its flags cannot be seen: the C library takes clone then */
#endif
  /* clone with flags that make name spaces: CLONE_NEWNS to CLONE_NEWNET, CLONE_NEWCGROUP */
  add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
  load(p, offsetof(struct seccomp_data, args[0]));
  add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x7e020000, 0, 1));
  give(p, refused);
  give(p, SECCOMP_RET_ALLOW);
}

bool serve_close_calls(bool has_network) {
  program p = {.count = 0};
  write_program(&p, has_network);
  const struct sock_fprog all = {p.count, p.code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  /* of all threads; a kernel that cannot log does it without */
  const unsigned int flags[] = {SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG, SECCOMP_FILTER_FLAG_TSYNC};
  for (int i = 0; i < 2; i++)
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags[i], &all) == 0) return true;
  return false;
}

#else

bool serve_close_calls(bool has_network) {
  (void)has_network;
  return false;
}

#endif
