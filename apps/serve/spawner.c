/* spawner.c -- the process that starts compilers and Python workers, and the server's calls to it. It is forked before
 * there are threads, models or connections, and takes one order after the other over a socket: which program, its
 * words, and the descriptor that it prints to. The answer brings the program's number and one end of a pair of sockets,
 * its line: over it goes the state in which it ended, and who ends or loses the other side has it killed, with its
 * process group. So neither side has to find a program by a number that may be another's by now. */
#include "spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox.h"

enum {
  MOST_PROGRAMS = 1024,
  MOST_WORDS = 256,
  MOST_VARIABLES = 1024,
  MOST_ORDER = 1 << 16,
  ANSWER_S = 20,
  ORDERS = 3, /* the descriptor in the process */
  COUNTS = 3
};

typedef struct order {
  spawner_program program;
  uint32_t threads;
  char words[MOST_ORDER]; /* each with its 0 */
} order;

typedef struct answer {
  pid_t pid;
  int32_t error; /* as errno has it; 0: it runs */
} answer;

/* ---- messages with descriptors ---- */

typedef union rights {
  struct cmsghdr head; /* aligns it */
  char bytes[CMSG_SPACE(2 * sizeof(int))];
} rights;

static bool put(int to, const void *bytes, size_t count, const int *fds, size_t fd_count) {
  rights room = {.bytes = {0}};
  struct iovec part = {(void *)(uintptr_t)bytes, count};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd_count) {
    message.msg_control = room.bytes;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof *fds);
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    *c = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(fd_count * sizeof *fds)};
    memcpy(CMSG_DATA(c), fds, fd_count * sizeof *fds);
  }
  ssize_t done;
  while ((done = sendmsg(to, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) continue;
  return done == (ssize_t)count;
}

/* Up to two descriptors; -1 for those that did not come. */
static ssize_t take(int from, void *to, size_t size, int fds[2]) {
  rights room = {.bytes = {0}};
  struct iovec part = {to, size};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
  ssize_t got;
  fds[0] = fds[1] = -1;
  while ((got = recvmsg(from, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) continue;
  const struct cmsghdr *c = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (c && c->cmsg_type == SCM_RIGHTS) memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
  return got;
}

static void close_both(const int fds[2]) {
  for (int i = 0; i < 2; i++)
    if (fds[i] >= 0) close(fds[i]);
}

/* ---- a program ---- */

typedef struct command {
  char *words[MOST_WORDS + 8], *variables[MOST_VARIABLES + COUNTS + 1];
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
static bool write_command(command *c, const spawner_plan *plan, order *o, size_t bytes) {
  static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", locale[] = "LC_ALL=C", no_files[] = "-B",
              no_buffer[] = "-u";
  const bool is_worker = o->program == SPAWNER_WORKER;
  const char *program = is_worker ? plan->python : plan->compiler;
  size_t count = 0;
  if (!program || (!is_worker && o->program != SPAWNER_COMPILER)) return false;
  c->words[count++] = (char *)(uintptr_t)program;
  if (is_worker) {
    c->words[count++] = no_files;
    c->words[count++] = no_buffer;
    c->complaint = "this Python cannot be run: name another with --python FILE\n";
    take_over_variables(c, o->threads);
  } else {
    snprintf(c->temporary, sizeof c->temporary, "TMPDIR=%s", plan->cache ? plan->cache : "/tmp");
    memcpy(c->variables, (char *[]){path, locale, c->temporary, NULL}, 4 * sizeof *c->variables);
    c->complaint = "this compiler cannot be run\n";
  }
  for (size_t at = 0; at < bytes; at += strlen(o->words + at) + 1) {
    if (count >= MOST_WORDS || !memchr(o->words + at, 0, bytes - at)) return false;
    c->words[count++] = o->words + at;
  }
  c->words[count] = NULL;
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
  close(ORDERS);
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
  if (output < 0 || !write_command(&s->command, s->plan, &s->order, bytes)) return (answer){.error = EINVAL};
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
  const ssize_t got = take(ORDERS, &s->order, sizeof s->order, came);
  if (got <= 0) return false;
  answer a = {.error = EINVAL};
  if ((size_t)got >= head) a = start_program(s, (size_t)got - head, came[0], theirs);
  const bool sent = put(ORDERS, &a, sizeof a, theirs, theirs[1] >= 0 ? 2 : theirs[0] >= 0);
  close_both(came);
  close_both(theirs); /* an answer that was not sent ends the program */
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
    polled[0] = (struct pollfd){.fd = ORDERS, .events = POLLIN};
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
static _Noreturn void be_spawner(const spawner_plan *plan, int orders) {
  static spawner s;
  sigset_t ended;
  s.plan = plan;
  prctl(PR_SET_NAME, "treadle-spawner");
  const int nowhere = open("/dev/null", O_RDWR), own = fcntl(orders, F_DUPFD, 10);
  if (nowhere < 0 || own < 0) _exit(1);
  dup2(nowhere, 0);
  dup2(nowhere, 1); /* the server's may be a pipe whose end somebody waits for */
  dup3(own, ORDERS, O_CLOEXEC);
  if (close_range(ORDERS + 1, ~0u, 0) != 0)
    for (int fd = ORDERS + 1; fd < 65536; fd++) close(fd);
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, NULL);
  sigaction(SIGCHLD, &(struct sigaction){.sa_handler = wake}, NULL);
  serve_close_calls(plan->python ? SERVE_CALLS_OF_HANDLERS : SERVE_CALLS_OF_COMPILERS);
  attend(&s);
  for (size_t i = 0; i < s.count; i++) kill_program(&s.all[i]);
  while (waitpid(-1, NULL, 0) > 0) continue;
  _exit(0);
}

/* ---- the server's side ---- */

static struct {
  pthread_mutex_t lock;
  pid_t pid;
  int fd;
} own = {PTHREAD_MUTEX_INITIALIZER, 0, -1};

td_status spawner_start(const spawner_plan *plan, td_error *err) {
  int pair[2];
  const struct timeval limit = {.tv_sec = ANSWER_S};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no sockets: %s", strerror(errno));
  const pid_t pid = fork();
  if (pid == 0) be_spawner(plan, pair[1]);
  const int error = errno;
  close(pair[1]);
  if (pid < 0) {
    close(pair[0]);
    return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no process beside the server: %s", strerror(error));
  }
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  own.pid = pid;
  own.fd = pair[0];
  return TD_OK;
}

void spawner_end(void) {
  pthread_mutex_lock(&own.lock);
  if (own.fd >= 0) close(own.fd);
  own.fd = -1;
  pthread_mutex_unlock(&own.lock);
  if (own.pid) waitpid(own.pid, NULL, 0);
  own.pid = 0;
}

/* Sends the order and has the answer. One that does not come would come in place of the next one's: with it the process
 * is given up, and whoever else waits for it sees its programs end. */
static bool ask(const order *o, size_t bytes, int output, answer *a, int fds[2]) {
  pthread_mutex_lock(&own.lock);
  const bool done = own.fd >= 0 && put(own.fd, o, bytes, &output, 1) && take(own.fd, a, sizeof *a, fds) == sizeof *a;
  if (!done && own.fd >= 0) {
    close(own.fd);
    own.fd = -1;
  }
  pthread_mutex_unlock(&own.lock);
  return done;
}

td_status spawner_run(spawner_program which, const char *const *words, uint32_t threads, int output, spawned *out,
                      td_error *err) {
  order *o = calloc(1, sizeof *o);
  size_t bytes = 0;
  int fds[2] = {-1, -1};
  answer a = {0};
  if (!o) return base_no_memory(err, "a process");
  *o = (order){.program = which, .threads = threads};
  for (; *words; words++) {
    const size_t count = strlen(*words) + 1;
    if (count > sizeof o->words - bytes) break;
    memcpy(o->words + bytes, *words, count);
    bytes += count;
  }
  const bool fits = !*words, done = fits && ask(o, offsetof(order, words) + bytes, output, &a, fds);
  free(o);
  if (!fits) return base_fail(err, TD_NO_RESOURCE, NULL, -1, "too many words for a program");
  if (!done)
    return base_fail(err, TD_NO_RESOURCE, NULL, -1,
                     "the process that starts programs for the server has ended: restart the server");
  *out = (spawned){a.pid, fds[0], fds[1]};
  if (!a.error && fds[0] >= 0 && (which == SPAWNER_COMPILER || fds[1] >= 0)) return TD_OK;
  close_both(fds);
  return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no process: %s", strerror(a.error ? a.error : EMFILE));
}

bool spawned_has_ended(int line) { return poll(&(struct pollfd){.fd = line, .events = POLLIN}, 1, 0) > 0; }

bool spawned_wait(int line, int ms, int *state) {
  struct pollfd p = {.fd = line, .events = POLLIN};
  if (poll(&p, 1, ms) <= 0) return false;
  if (recv(line, state, sizeof *state, 0) != sizeof *state) *state = SPAWNER_ENDED;
  return true;
}

void spawned_kill(int line) { shutdown(line, SHUT_WR); }
