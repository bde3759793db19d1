/* processes.c -- the instances: started on their CPUs, waited for, stopped or started again.
 *
 * Signals are blocked here and taken one by one with sigtimedwait, so that nothing runs in a handler. An instance stays
 * in our process group: what a terminal sends reaches it without us, and what a process sends us is passed on. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"
#include "sys/sys.h"

enum { GRACE_MS = 10000, LONGEST_BACK_OFF_MS = 60000, STEADY_MS = 60000 };

typedef struct worker {
  pid_t pid; /* 0: does not run */
  int64_t restarts;
  uint64_t began_ms, next_ms; /* of its last start; when it is to start again, 0: not */
  bool ended;
} worker;

typedef struct crew {
  const launch_plan *plan;
  base_arena *arena;
  worker *workers;
  uint32_t left; /* workers that run or will again */
  int code;      /* of the first failure */
  bool stopping;
  uint64_t kill_ms; /* when those that have not ended are killed; 0: not */
  sigset_t signals, before;
  td_error *err;
} crew;

static uint64_t now_ms(void) { return sys_clock_ns() / 1000000; }

static void say(const char *text, uint32_t index) { fprintf(stderr, "treadle launch: instance %u %s\n", index, text); }

/* ---- in the child, before the program: what fails is told, not fatal ---- */

static bool place(const launch_instance *in) {
  cpu_set_t sets[SYS_MOST_CPUS / CPU_SETSIZE];
  CPU_ZERO_S(sizeof sets, sets);
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++)
    if (sys_set_has(&in->cpus, i)) CPU_SET_S((size_t)i, sizeof sets, sets);
  return sched_setaffinity(0, sizeof sets, sets) == 0;
}

static bool set_policy(int mode, const launch_instance *in) {
  unsigned long nodes[SYS_MOST_CPUS / (8 * sizeof(unsigned long))];
  memcpy(nodes, in->nodes.words, sizeof nodes);
  return syscall(SYS_set_mempolicy, mode, nodes, (unsigned long)SYS_MOST_CPUS) == 0;
}

/* From strict over preferred to none: containers forbid nodes (EINVAL) and the call (EPERM). */
static void bind_memory(const launch_plan *plan, const launch_instance *in) {
  char text[160];
  if (plan->numa == LAUNCH_NUMA_NONE) return;
  if (plan->numa == LAUNCH_NUMA_STRICT) {
    if (set_policy(MPOL_BIND, in)) return;
    snprintf(text, sizeof text, "gets memory of its nodes by preference only: strictly is refused (%s)",
             strerror(errno));
    say(text, in->index);
  }
  if (set_policy(MPOL_PREFERRED_MANY, in) || set_policy(MPOL_PREFERRED, in)) return;
  snprintf(text, sizeof text, "gets memory of any node: a preference is refused (%s)", strerror(errno));
  say(text, in->index);
}

static void set_variables(const launch_variables *list) {
  for (uint32_t i = 0; i < list->count; i++) setenv(list->at[i].name, list->at[i].value, 1);
}

static bool open_log(const char *path) {
  if (!path) return true;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return file >= 0 && dup2(file, 1) >= 0 && dup2(file, 2) >= 0;
}

static _Noreturn void become(const crew *c, uint32_t i, int tell) {
  const launch_plan *plan = c->plan;
  const launch_instance *in = &plan->layout.instances[i];
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (parent == 1) _exit(1); /* it ended before it could be watched */
  if (plan->pin && !place(in)) say("runs on any CPU: the system refuses to keep it on its own", in->index);
  bind_memory(plan, in);
  set_variables(&plan->shared);
  set_variables(&plan->own[i]);
  sigprocmask(SIG_SETMASK, &c->before, NULL);
  if (open_log(plan->logs[i])) execvp(plan->command[0], plan->command);
  const int reason = errno;
  if (write(tell, &reason, sizeof reason) < 0) _exit(126);
  _exit(127);
}

/* ---- starting ---- */

/* The child's reason not to become the program comes through a pipe that success closes. */
static td_status start(crew *c, uint32_t i) {
  int ends[2], reason = 0;
  worker *w = &c->workers[i];
  const uint32_t index = c->plan->layout.instances[i].index;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return base_fail(c->err, TD_NO_RESOURCE, NULL, -1, "instance %u cannot start: %s", index, strerror(errno));
  const pid_t pid = fork();
  if (pid == 0) become(c, i, ends[1]);
  const int failed = pid < 0 ? errno : 0;
  close(ends[1]);
  ssize_t got = 0;
  if (!failed) do
      got = read(ends[0], &reason, sizeof reason);
    while (got < 0 && errno == EINTR);
  close(ends[0]);
  if (failed)
    return base_fail(c->err, TD_NO_RESOURCE, NULL, -1, "instance %u cannot start: %s", index, strerror(failed));
  if (got == sizeof reason) {
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
    return base_fail(c->err, TD_BAD_ARGUMENT, NULL, -1, "instance %u cannot run %s: %s", index,
                     c->plan->logs[i] ? "with its log" : c->plan->command[0], strerror(reason));
  }
  w->pid = pid;
  w->began_ms = now_ms();
  w->next_ms = 0;
  return TD_OK;
}

/* ---- signals and ends ---- */

static void send_all(const crew *c, int number) {
  for (uint32_t i = 0; i < c->plan->layout.count; i++)
    if (c->workers[i].pid) kill(c->workers[i].pid, number);
}

static void stop_all(crew *c, int number) {
  if (c->kill_ms == 0) c->kill_ms = now_ms() + GRACE_MS;
  c->stopping = true;
  send_all(c, number);
  for (uint32_t i = 0; i < c->plan->layout.count; i++) {
    worker *w = &c->workers[i];
    if (!w->ended && !w->pid) c->left--, w->ended = true; /* waits to start again */
  }
}

static void plan_restart(crew *c, worker *w, uint32_t index) {
  char text[96];
  if (now_ms() - w->began_ms > STEADY_MS) w->restarts = 0;
  if (w->restarts == c->plan->restarts) {
    say("failed too often, and is not started again", index);
    w->ended = true;
    c->left--;
    return;
  }
  const int64_t step = w->restarts < 16 ? w->restarts : 16;
  uint64_t wait = UINT64_C(100) << step;
  if (wait > LONGEST_BACK_OFF_MS) wait = LONGEST_BACK_OFF_MS;
  w->restarts++;
  w->next_ms = now_ms() + wait;
  snprintf(text, sizeof text, "starts again in %.1f s", (double)wait * 1e-3);
  say(text, index);
}

static void take_end(crew *c, uint32_t i, int state) {
  char text[96];
  worker *w = &c->workers[i];
  const uint32_t index = c->plan->layout.instances[i].index;
  const int code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  w->pid = 0;
  if (code && !c->stopping) {
    if (WIFEXITED(state)) snprintf(text, sizeof text, "ended with status %d", code);
    else snprintf(text, sizeof text, "was ended by signal %d", WTERMSIG(state));
    say(text, index);
  }
  if (code && !c->stopping && strcmp(c->plan->failure, "restart") == 0) {
    plan_restart(c, w, index);
    if (w->ended && !c->code) c->code = code;
    return;
  }
  w->ended = true;
  c->left--;
  if (code && !c->code) c->code = code;
  if (code && !c->stopping && strcmp(c->plan->failure, "stop") == 0) stop_all(c, SIGTERM);
}

static void reap(crew *c) {
  int state;
  for (pid_t pid; (pid = waitpid(-1, &state, WNOHANG)) > 0;)
    for (uint32_t i = 0; i < c->plan->layout.count; i++)
      if (c->workers[i].pid == pid) take_end(c, i, state);
}

static void take_signal(crew *c, const siginfo_t *info) {
  const int number = info->si_signo;
  if (number == SIGCHLD) return;
  const bool passed = info->si_code == SI_KERNEL; /* a terminal's: the whole group has it */
  if (number == SIGUSR1 || number == SIGUSR2 || number == SIGHUP) {
    if (!passed) send_all(c, number);
    return;
  }
  c->code = c->code ? c->code : 128 + number;
  stop_all(c, passed ? 0 : number);
}

/* ---- the wait ---- */

/* Milliseconds to the next thing to do. */
static uint64_t patience(const crew *c) {
  uint64_t next = c->kill_ms ? c->kill_ms : UINT64_MAX;
  const uint64_t now = now_ms();
  for (uint32_t i = 0; i < c->plan->layout.count; i++)
    if (c->workers[i].next_ms && c->workers[i].next_ms < next) next = c->workers[i].next_ms;
  if (next == UINT64_MAX) return 1000;
  return next > now ? next - now : 0;
}

static td_status start_due(crew *c) {
  for (uint32_t i = 0; i < c->plan->layout.count; i++) {
    worker *w = &c->workers[i];
    if (!w->ended && w->next_ms && w->next_ms <= now_ms()) TRY(start(c, i));
  }
  return TD_OK;
}

static td_status watch(crew *c) {
  while (c->left) {
    siginfo_t info;
    const uint64_t ms = patience(c);
    const struct timespec limit = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    if (sigtimedwait(&c->signals, &info, &limit) > 0) take_signal(c, &info);
    reap(c);
    if (c->kill_ms && now_ms() >= c->kill_ms) {
      send_all(c, SIGKILL);
      c->kill_ms = now_ms() + GRACE_MS;
    }
    TRY(start_due(c));
  }
  return TD_OK;
}

static void block_signals(crew *c) {
  static const int watched[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT};
  sigemptyset(&c->signals);
  for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) sigaddset(&c->signals, watched[i]);
  sigprocmask(SIG_BLOCK, &c->signals, &c->before);
  signal(SIGCHLD, SIG_DFL); /* ignored by whoever started us, it would hide how instances end */
}

static td_status make_log_folder(const launch_plan *plan, base_arena *arena, td_error *err) {
  if (!plan->logs[0]) return TD_OK;
  char *folder = base_arena_text(arena, plan->logs[0]);
  if (!folder) return base_no_memory(err, "a folder's name");
  *strrchr(folder, '/') = 0;
  if (*folder == 0 || mkdir(folder, 0755) == 0 || errno == EEXIST) return TD_OK;
  return base_fail(err, TD_NO_RESOURCE, folder, -1, "the folder of the logs cannot be made: %s", strerror(errno));
}

td_status launch_run(const launch_plan *plan, base_arena *arena, int *code, td_error *err) {
  crew c = {.plan = plan, .arena = arena, .left = plan->layout.count, .err = err};
  c.workers = base_new(arena, worker, plan->layout.count);
  if (!c.workers) return base_no_memory(err, "instances");
  TRY(make_log_folder(plan, arena, err));
  block_signals(&c);
  td_status status = TD_OK;
  for (uint32_t i = 0; i < plan->layout.count && status == TD_OK; i++) status = start(&c, i);
  if (status != TD_OK) { /* those that run are stopped; those that did not start are none to wait for */
    stop_all(&c, SIGTERM);
    td_error ignored = {.offset = -1};
    c.err = &ignored;
  }
  const td_status watched = watch(&c);
  if (status == TD_OK && watched != TD_OK) {
    stop_all(&c, SIGTERM);
    td_error ignored = {.offset = -1};
    c.err = &ignored;
    watch(&c);
    status = watched;
  }
  *code = c.code;
  return status;
}
