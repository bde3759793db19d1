/* spawner.c -- the process that starts compilers and Python workers. It comes of one that was forked before there were
 * threads, models or connections (keeper.c), and takes one order after the other over a socket: which program, its
 * words, and the descriptor that it prints to. The answer brings the program's number and one end of a pair of sockets,
 * its line: over it goes the state in which it ended, and who ends or loses the other side has it killed, with its
 * process group. So neither side has to find a program by a number that may be another's by now. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "order.h"

enum { MOST_PROGRAMS = 1024, MOST_VARIABLES = 1024, COUNTS = 3 };

/* ---- a program ---- */

typedef struct command {
  char *words[ORDER_WORDS + 8], *variables[MOST_VARIABLES + COUNTS + 1];
  char room[COUNTS][64], temporary[4200];
  const char *complaint;
} command;

/* The server's variables, and how many threads the libraries of numbers are to have. */
static void take_over_variables(command *c, uint32_t threads) {
  static const char *const counts[COUNTS] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"};
  size_t count = 0;
  while (environ[count] && count < MOST_VARIABLES) {
    c->variables[count] = environ[count];
    count++;
  }
  for (int i = 0; i < COUNTS; i++) {
    if (getenv(counts[i])) continue;
    snprintf(c->room[i], sizeof c->room[i], "%s=%u", counts[i], threads);
    c->variables[count++] = c->room[i];
  }
  c->variables[count] = NULL;
}

/* False: it is nothing that may be started. */
static bool write_command(command *c, const spawner_plan *plan, const order *o, size_t bytes) {
  static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", locale[] = "LC_ALL=C", no_files[] = "-B",
              no_buffer[] = "-u";
  const char *words[ORDER_WORDS];
  const bool is_worker = o->program == SPAWNER_WORKER;
  size_t count = 0, given;
  if (!order_split(o->words, bytes, words, &given) || !order_is_allowed(plan, words, given, o->program)) return false;
  if (!o->threads || o->threads > ORDER_THREADS) return false;
  c->words[count++] = (char *)(uintptr_t)(is_worker ? plan->python : plan->compiler);
  if (is_worker) {
    c->words[count++] = no_files;
    c->words[count++] = no_buffer;
    c->complaint = "this Python cannot be run: name another with --python FILE\n";
    take_over_variables(c, o->threads);
  } else {
    snprintf(c->temporary, sizeof c->temporary, "TMPDIR=%s", plan->cache);
    memcpy(c->variables, (char *[]){path, locale, c->temporary, NULL}, 4 * sizeof *c->variables);
    c->complaint = "this compiler cannot be run\n";
  }
  memcpy(c->words + count, words, given * sizeof *words);
  c->words[count + given] = NULL;
  return true;
}

/* In the child: it has no descriptors but `output` and `socket` (-1: none), and ends with the process. */
static _Noreturn void become(const command *c, int output, int socket, uint64_t most_data, pid_t parent) {
  sigset_t none;
  const struct rlimit none_left = {0, 0}, limited = {(rlim_t)most_data, (rlim_t)most_data};
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127); /* it ended before that */
  /* out of the way of the descriptors 0 to 3 first; 0 is nowhere, as it is for the process */
  const int out = fcntl(output, F_DUPFD, 10), own = socket >= 0 ? fcntl(socket, F_DUPFD, 10) : -1;
  if (out < 0 || (socket >= 0 && own < 0)) _exit(127);
  dup2(out, 1);
  dup2(out, 2);
  close(ORDER_DESCRIPTOR);
  if (own >= 0) dup2(own, 3);
  if (close_range(4, ~0u, 0) != 0)
    for (int fd = 4; fd < 65536; fd++) close(fd);
  setrlimit(RLIMIT_CORE, &none_left);
  if (most_data) setrlimit(RLIMIT_DATA, &limited);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGCHLD, SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execvpe(c->words[0], c->words, c->variables);
  if (write(2, c->complaint, strlen(c->complaint)) < 0) _exit(126);
  _exit(127);
}

/* ---- the process ---- */

typedef struct program {
  pid_t pid;
  int line;
  bool is_killed;
} program;

typedef struct spawner {
  const spawner_plan *plan;
  program all[MOST_PROGRAMS];
  size_t count;
  order order;
  command command;
} spawner;

static void kill_program(program *p) {
  p->is_killed = true;
  kill(-p->pid, SIGKILL);
  kill(p->pid, SIGKILL); /* before it was in a group of its own */
}

/* Of those that have ended: what they have left running goes, too. */
static void reap(spawner *s) {
  for (;;) {
    siginfo_t info = {.si_pid = 0};
    size_t i = 0;
    int state = 0;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || !info.si_pid) return;
    kill(-info.si_pid, SIGKILL);
    waitpid(info.si_pid, &state, 0);
    while (i < s->count && s->all[i].pid != info.si_pid) i++;
    if (i == s->count) continue;
    send(s->all[i].line, &state, sizeof state, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(s->all[i].line);
    s->all[i] = s->all[--s->count];
  }
}

/* `theirs`: what goes to the server. What it answers. */
static answer start_program(spawner *s, size_t bytes, int output, int theirs[2]) {
  const bool is_worker = s->order.program == SPAWNER_WORKER;
  int line[2] = {-1, -1}, pair[2] = {-1, -1};
  if (output < 0 || !write_command(&s->command, s->plan, &s->order, bytes)) return (answer){.error = EPERM};
  if (s->count == MOST_PROGRAMS) return (answer){.error = EAGAIN};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) != 0) return (answer){.error = errno};
  const bool has_pair = !is_worker || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0;
  const pid_t parent = getpid(), pid = has_pair ? fork() : -1;
  if (pid == 0) become(&s->command, output, pair[1], is_worker ? s->plan->python_memory : 0, parent);
  const int error = errno;
  if (pair[1] >= 0) close(pair[1]);
  theirs[0] = line[0];
  theirs[1] = pair[0];
  if (pid > 0) s->all[s->count++] = (program){pid, line[1], false};
  else close(line[1]);
  return pid > 0 ? (answer){.pid = pid} : (answer){.error = error};
}

/* False: the server has ended. */
static bool take_order(spawner *s) {
  int came[2], theirs[2] = {-1, -1};
  const size_t head = offsetof(order, words);
  const ssize_t got = order_take(ORDER_DESCRIPTOR, &s->order, sizeof s->order, came);
  if (got == 0 || (got < 0 && errno != EBADMSG)) return false;
  answer a = {.error = EPERM};
  if (got >= (ssize_t)head && came[1] < 0) a = start_program(s, (size_t)got - head, came[0], theirs);
  const bool sent = order_put(ORDER_DESCRIPTOR, &a, sizeof a, theirs, theirs[1] >= 0 ? 2 : theirs[0] >= 0);
  order_close(came);
  order_close(theirs); /* an answer that was not sent ends the program */
  return sent;
}

static void wake(int signal) { (void)signal; }

static void attend(spawner *s) {
  static struct pollfd polled[MOST_PROGRAMS + 1];
  sigset_t awake;
  sigprocmask(SIG_SETMASK, NULL, &awake);
  sigdelset(&awake, SIGCHLD);
  for (;;) {
    reap(s);
    polled[0] = (struct pollfd){.fd = ORDER_DESCRIPTOR, .events = POLLIN};
    for (size_t i = 0; i < s->count; i++)
      polled[i + 1] = (struct pollfd){.fd = s->all[i].is_killed ? -1 : s->all[i].line, .events = POLLIN};
    const size_t count = s->count;
    if (ppoll(polled, count + 1, NULL, &awake) < 0) continue; /* one has ended */
    for (size_t i = 0; i < count; i++)
      if (polled[i + 1].revents) kill_program(&s->all[i]);
    if (polled[0].revents && !take_order(s)) return;
  }
}

/* Signals that end the server are blocked: its socket tells when there is no more use for this process, also where the
 * server is killed, since nobody else has the other end. So what workers have started goes then, too. */
_Noreturn void spawner_serve(const spawner_plan *plan, int orders) {
  static spawner s;
  sigset_t ended;
  s.plan = plan;
  prctl(PR_SET_NAME, "treadle-spawner");
  if (!order_descriptors(orders)) _exit(1);
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, NULL);
  sigaction(SIGCHLD, &(struct sigaction){.sa_handler = wake}, NULL);
  attend(&s);
  for (size_t i = 0; i < s.count; i++) kill_program(&s.all[i]);
  while (waitpid(-1, NULL, 0) > 0) continue;
  _exit(0);
}
