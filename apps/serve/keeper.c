/* keeper.c -- the process that makes the one that starts programs (spawner.c), and the server's calls to both. The
 * server can fork nothing once it listens, so it forks the keeper at its start, which forks a spawner whenever the
 * server asks for one, and hands the server its socket: at the first order, and when the spawner has ended or does not
 * answer, which is then killed. The keeper does nothing else and starts no program itself. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "order.h"
#include "sandbox.h"

enum { ANSWER_S = 20 };

/* ---- the process ---- */

/* Programs of the spawner before it end with that. False: the server has ended. */
static bool renew(const spawner_plan *plan, pid_t *spawner) {
  char asked;
  int none[2], pair[2] = {-1, -1};
  const ssize_t got = order_take(ORDER_DESCRIPTOR, &asked, sizeof asked, none);
  order_close(none);
  if (got == 0 || (got < 0 && errno != EBADMSG)) return false;
  if (*spawner > 0) kill(*spawner, SIGKILL);
  if (*spawner > 0) waitpid(*spawner, NULL, 0);
  const bool has_pair = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0;
  *spawner = has_pair ? fork() : -1;
  if (*spawner == 0) spawner_serve(plan, pair[1]);
  const int32_t error = *spawner > 0 ? 0 : errno;
  const bool sent = order_put(ORDER_DESCRIPTOR, &error, sizeof error, pair, *spawner > 0);
  order_close(pair);
  return sent;
}

static void wake(int signal) { (void)signal; }

/* The spawner ends by itself when the server does, and has ended what it started before the keeper ends. */
static _Noreturn void keep(const spawner_plan *plan, int orders) {
  pid_t spawner = 0;
  sigset_t ended, awake;
  prctl(PR_SET_NAME, "treadle-keeper");
  if (!order_descriptors(orders)) _exit(1);
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, &awake);
  sigdelset(&awake, SIGCHLD);
  sigaction(SIGCHLD, &(struct sigaction){.sa_handler = wake}, NULL);
  serve_close_calls(plan->python ? SERVE_CALLS_OF_HANDLERS : SERVE_CALLS_OF_COMPILERS); /* its children's, too */
  for (;;) {
    if (spawner > 0 && waitpid(spawner, NULL, WNOHANG) == spawner) spawner = 0;
    struct pollfd polled = {.fd = ORDER_DESCRIPTOR, .events = POLLIN};
    if (ppoll(&polled, 1, NULL, &awake) < 0) continue; /* the spawner has ended */
    if (!renew(plan, &spawner)) break;
  }
  while (waitpid(-1, NULL, 0) > 0) continue;
  _exit(0);
}

/* ---- the server's side ---- */

static struct {
  pthread_mutex_t lock;
  pid_t pid;
  int keeper, spawner; /* sockets; -1: there is none */
} own = {PTHREAD_MUTEX_INITIALIZER, 0, -1, -1};

static void limit_answers(int fd) {
  const struct timeval limit = {.tv_sec = ANSWER_S};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

static void lose(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

td_status spawner_start(const spawner_plan *plan, td_error *err) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no sockets: %s", strerror(errno));
  const pid_t pid = fork();
  if (pid == 0) keep(plan, pair[1]);
  const int error = errno;
  close(pair[1]);
  if (pid < 0) {
    close(pair[0]);
    return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no process beside the server: %s", strerror(error));
  }
  limit_answers(pair[0]);
  own.pid = pid;
  own.keeper = pair[0];
  return TD_OK;
}

void spawner_end(void) {
  pthread_mutex_lock(&own.lock);
  lose(&own.spawner);
  lose(&own.keeper);
  pthread_mutex_unlock(&own.lock);
  if (own.pid) waitpid(own.pid, NULL, 0);
  own.pid = 0;
}

/* Under the lock: a new spawner. The keeper is given up with an answer that does not come, which would be taken for
 * that to the next question. *error: why there is none; 0: the keeper has ended. */
static bool have_spawner(int *error) {
  int fds[2] = {-1, -1};
  int32_t said = 0;
  lose(&own.spawner);
  *error = 0;
  const bool done = own.keeper >= 0 && order_put(own.keeper, "", 1, NULL, 0) &&
                    order_take(own.keeper, &said, sizeof said, fds) == sizeof said;
  if (!done) {
    lose(&own.keeper);
    return false;
  }
  *error = said ? said : EMFILE; /* without room for its descriptor */
  own.spawner = fds[0];
  if (own.spawner >= 0) limit_answers(own.spawner);
  return own.spawner >= 0;
}

/* Sends the order and has the answer, of a second spawner where the first has ended or does not answer. One that came
 * too late would come in place of the next one's: with it the spawner is given up. The order is carried out at most
 * once, since what a spawner has started ends with it. *error as have_spawner has it. */
static bool ask(const order *o, size_t bytes, int output, answer *a, int fds[2], int *error) {
  bool done = false;
  *error = 0;
  pthread_mutex_lock(&own.lock);
  for (int i = 0; i < 2; i++) {
    if ((i || own.spawner < 0) && !have_spawner(error)) break;
    done = order_put(own.spawner, o, bytes, &output, 1) && order_take(own.spawner, a, sizeof *a, fds) == sizeof *a;
    if (done) break;
    order_close(fds);
    fds[0] = fds[1] = -1;
  }
  if (!done) lose(&own.spawner);
  pthread_mutex_unlock(&own.lock);
  return done;
}

static td_status no_process(int error, td_error *err) {
  if (error) return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no process: %s", strerror(error));
  return base_fail(err, TD_NO_RESOURCE, NULL, -1,
                   "the process that starts programs for the server has ended: restart the server");
}

td_status spawner_run(spawner_program which, const char *const *words, uint32_t threads, int output, spawned *out,
                      td_error *err) {
  order *o = calloc(1, sizeof *o);
  size_t bytes = 0;
  int fds[2] = {-1, -1}, error = 0;
  answer a = {0};
  if (!o) return base_no_memory(err, "a process");
  *o = (order){.program = which, .threads = threads};
  for (; *words; words++) {
    const size_t count = strlen(*words) + 1;
    if (count > sizeof o->words - bytes) break;
    memcpy(o->words + bytes, *words, count);
    bytes += count;
  }
  const bool fits = !*words, done = fits && ask(o, offsetof(order, words) + bytes, output, &a, fds, &error);
  free(o);
  if (!fits) return base_fail(err, TD_NO_RESOURCE, NULL, -1, "too many words for a program");
  if (!done) return no_process(error, err);
  *out = (spawned){a.pid, fds[0], fds[1]};
  if (!a.error && fds[0] >= 0 && (which == SPAWNER_COMPILER || fds[1] >= 0)) return TD_OK;
  order_close(fds);
  return no_process(a.error ? a.error : EMFILE, err);
}

bool spawned_has_ended(int line) { return poll(&(struct pollfd){.fd = line, .events = POLLIN}, 1, 0) > 0; }

bool spawned_wait(int line, int ms, int *state) {
  struct pollfd p = {.fd = line, .events = POLLIN};
  if (poll(&p, 1, ms) <= 0) return false;
  if (recv(line, state, sizeof *state, 0) != sizeof *state) *state = SPAWNER_ENDED;
  return true;
}

void spawned_kill(int line) { shutdown(line, SHUT_WR); }
