/* worker.c -- a process with a Python handler: its start, frames over its socket, the lines that it prints, its end. It
 * has no descriptors but that socket and the pipe that its lines go to, and it ends with the thread that started it. */
#include "worker.h"

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
#include <time.h>
#include <unistd.h>

enum { SLICE_MS = 50, LINE_BYTES = 4096, END_MS = 200, MOST_VARIABLES = 1024 };

/* ---- what it prints ---- */

static void print_line(const serve_worker *w, char *line, size_t length) {
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)line[i] < ' ' && line[i] != '\t') line[i] = '?'; /* one line stays one line */
  if (length)
    fprintf(stderr, "treadle-serve: model %s, worker %d: %.*s\n", w->version->name, (int)atomic_load(&w->pid),
            (int)length, line);
}

/* Prints the whole lines at the front; a line that fills the room is cut. How many bytes are left. */
static size_t print_lines(const serve_worker *w, char *text, size_t count) {
  char *at = text, *end;
  while ((end = memchr(at, '\n', count))) {
    print_line(w, at, (size_t)(end - at));
    count -= (size_t)(end + 1 - at);
    at = end + 1;
  }
  if (count == LINE_BYTES) {
    print_line(w, at, count);
    count = 0;
  }
  memmove(text, at, count);
  return count;
}

static void copy_lines(void *user) {
  serve_worker *w = user;
  char text[LINE_BYTES];
  size_t count = 0;
  for (;;) {
    struct pollfd p = {.fd = w->log, .events = POLLIN};
    const bool last = atomic_load(&w->stop);
    if (poll(&p, 1, last ? 0 : SLICE_MS) <= 0) {
      if (last) break;
      continue;
    }
    const ssize_t got = read(w->log, text + count, sizeof text - count);
    if (got <= 0) break;
    count = print_lines(w, text, count + (size_t)got);
  }
  print_line(w, text, count);
}

/* ---- the start ---- */

/* In the child: only what is safe between fork and exec. */
static void become(const serve_worker *w, int socket, int log, pid_t parent, char *const *argv, char *const *env) {
  sigset_t none;
  const int nowhere = open("/dev/null", O_RDONLY);
  const rlim_t most = (rlim_t)w->version->server->options.python_memory << 20;
  const struct rlimit none_left = {0, 0}, limited = {most, most};
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127); /* it ended before that */
  /* out of the way of the descriptors 0 to 3 first */
  const int own = fcntl(socket, F_DUPFD, 10), out = fcntl(log, F_DUPFD, 10), in = fcntl(nowhere, F_DUPFD, 10);
  if (own < 0 || out < 0 || in < 0) _exit(127);
  dup2(in, 0);
  dup2(out, 1);
  dup2(out, 2);
  dup2(own, 3);
  if (close_range(4, ~0u, 0) != 0)
    for (int fd = 4; fd < 65536; fd++) close(fd);
  setrlimit(RLIMIT_CORE, &none_left);
  if (most) setrlimit(RLIMIT_DATA, &limited);
  signal(SIGPIPE, SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execvpe(argv[0], argv, env);
  static const char text[] = "this Python cannot be run: name another with --python FILE\n";
  if (write(2, text, sizeof text - 1) < 0) _exit(126);
  _exit(127);
}

/* The server's variables, and how many threads the libraries of numbers are to have. */
static char **make_environment(base_arena *arena, uint32_t threads) {
  static const char *const counts[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"};
  char **env = base_new(arena, char *, MOST_VARIABLES + 4);
  size_t count = 0;
  if (!env) return NULL;
  while (environ[count] && count < MOST_VARIABLES) {
    env[count] = environ[count];
    count++;
  }
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    if (!getenv(counts[i]) && !(env[count++] = base_arena_format(arena, "%s=%u", counts[i], threads))) return NULL;
  return env;
}

static td_status spawn(serve_worker *w, base_arena *arena, int theirs, int log, td_error *err) {
  const serve_options *o = &w->version->server->options;
  const char *script = base_arena_format(arena, "%s/shim/worker.py", w->version->python->folder);
  const char *python = o->python ? o->python : "python3";
  char **env = make_environment(arena, w->version->threads ? w->version->threads : 1);
  if (!script || !env) return base_no_memory(err, "a worker");
  union {
    const char *in[6];
    char *out[6];
  } argv = {{python, "-B", "-u", script, w->version->name, NULL}};
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) become(w, theirs, log, parent, argv.out, env);
  if (pid < 0) return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no process for a worker: %s", strerror(errno));
  atomic_store(&w->pid, pid);
  return TD_OK;
}

td_status worker_start(serve_version *v, serve_worker **out, td_error *err) {
  serve_worker *w = calloc(1, sizeof *w);
  base_arena *arena = w ? base_arena_new(&base_libc_allocator) : NULL;
  int sockets[2] = {-1, -1}, log[2] = {-1, -1};
  td_status status = TD_OK;
  *out = NULL;
  if (!arena) {
    free(w);
    return base_no_memory(err, "a worker");
  }
  *w = (serve_worker){.version = v, .fd = -1, .log = -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0 || pipe2(log, O_CLOEXEC) != 0)
    status = base_fail(err, TD_NO_RESOURCE, NULL, -1, "no descriptors for a worker: %s", strerror(errno));
  w->fd = sockets[0];
  w->log = log[0];
  if (status == TD_OK) status = spawn(w, arena, sockets[1], log[1], err);
  if (sockets[1] >= 0) close(sockets[1]);
  if (log[1] >= 0) close(log[1]);
  if (status == TD_OK) fcntl(w->fd, F_SETFL, O_NONBLOCK);
  if (status == TD_OK) status = sys_thread_start(&w->logger, copy_lines, w, err);
  w->logs = status == TD_OK;
  base_arena_free(arena);
  if (status == TD_OK) *out = w;
  else worker_end(w);
  return status;
}

/* ---- the end ---- */

bool worker_has_ended(const serve_worker *w) {
  struct pollfd p = {.fd = w->fd};
  siginfo_t info = {.si_pid = 0};
  if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR))) return true;
  /* a process that it has started may hold the socket */
  return waitid(P_PID, (id_t)atomic_load(&w->pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Waits for the end of the process, which gets a moment for it, and is then killed with all that it has started. */
static void reap(serve_worker *w) {
  const pid_t pid = atomic_load(&w->pid);
  pid_t done = 0;
  if (!pid) return;
  for (int i = 0; i < END_MS / 10 && !w->killed && (done = waitpid(pid, &w->state, WNOHANG)) == 0; i++)
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  w->killed = w->killed || done == 0;
  kill(-pid, SIGKILL);
  while (done == 0 && waitpid(pid, &w->state, 0) < 0 && errno == EINTR) continue;
  atomic_store(&w->stop, true);
  if (w->logs) sys_thread_join(&w->logger);
  w->logs = false;
  atomic_store(&w->pid, 0);
}

void worker_tell_end(serve_worker *w, char *text, size_t size) {
  reap(w);
  if (w->killed) snprintf(text, size, "it was killed");
  else if (WIFSIGNALED(w->state)) snprintf(text, size, "it was ended by signal %d", WTERMSIG(w->state));
  else snprintf(text, size, "it ended with status %d", WEXITSTATUS(w->state));
}

void worker_end(serve_worker *w) {
  if (!w) return;
  const pid_t pid = atomic_load(&w->pid);
  if (pid && !worker_has_ended(w)) {
    w->killed = true;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* before it was in a group of its own */
  }
  reap(w);
  if (w->fd >= 0) close(w->fd);
  if (w->log >= 0) close(w->log);
  serve_session_free(w->session);
  free(w);
}

/* ---- frames ---- */

static td_status has_ended(td_error *err) { return base_fail(err, TD_NO_RESOURCE, NULL, -1, "the worker has ended"); }

/* Waits until the socket can be read or written. */
static td_status wait_for(const serve_worker *w, int16_t events, const worker_wait *wait, td_error *err) {
  for (;;) {
    struct pollfd p = {.fd = w->fd, .events = events};
    const int found = poll(&p, 1, SLICE_MS);
    if (found > 0) return TD_OK; /* also where it has ended: what is done next says so */
    if ((found < 0 && errno != EINTR) || worker_has_ended(w)) return has_ended(err);
    if (sys_clock_ns() > wait->until_ns)
      return base_fail(err, TD_TIMED_OUT, NULL, -1, "the worker does not answer in time");
    if (!wait->goes_on(wait->user)) return base_fail(err, TD_CANCELLED, NULL, -1, "the server ends");
  }
}

static td_status send_all(const serve_worker *w, const char *from, size_t count, const worker_wait *wait,
                          td_error *err) {
  while (count) {
    const ssize_t put = send(w->fd, from, count, MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN && errno != EINTR) return has_ended(err);
    if (put < 0) TRY(wait_for(w, POLLOUT, wait, err));
    if (put < 0) continue;
    from += put;
    count -= (size_t)put;
  }
  return TD_OK;
}

static td_status receive_all(const serve_worker *w, char *to, size_t count, const worker_wait *wait, td_error *err) {
  while (count) {
    const ssize_t got = recv(w->fd, to, count, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return has_ended(err);
    if (got < 0) TRY(wait_for(w, POLLIN, wait, err));
    if (got < 0) continue;
    to += got;
    count -= (size_t)got;
  }
  return TD_OK;
}

td_status worker_send(serve_worker *w, frame_kind kind, base_str text, const base_str *parts, size_t count,
                      const worker_wait *wait, td_error *err) {
  uint8_t head[FRAME_HEAD];
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += parts[i].length;
  if (text.length > FRAME_MOST_TEXT)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "the request's fields are too long");
  frame_write_head(head, &(frame_head){kind, (uint32_t)text.length, bytes});
  TRY(send_all(w, (const char *)head, FRAME_HEAD, wait, err));
  TRY(send_all(w, text.at, text.length, wait, err));
  for (size_t i = 0; i < count; i++) TRY(send_all(w, parts[i].at, parts[i].length, wait, err));
  return TD_OK;
}

/* What has no room is thrown away, so that the next frame can be read. */
static td_status read_away(serve_worker *w, uint64_t bytes, const worker_wait *wait, td_error *err) {
  char away[16384];
  while (bytes) {
    const size_t part = bytes < sizeof away ? (size_t)bytes : sizeof away;
    TRY(receive_all(w, away, part, wait, err));
    bytes -= part;
  }
  return TD_OK;
}

td_status worker_receive(serve_worker *w, base_arena *arena, uint64_t most, const worker_wait *wait, frame *out,
                         td_error *err) {
  uint8_t bytes[FRAME_HEAD];
  frame_head head;
  *out = (frame){0};
  TRY(receive_all(w, (char *)bytes, FRAME_HEAD, wait, err));
  TRY(frame_read_head(bytes, most, &head, err));
  char *text = base_arena_alloc_uncleared(arena, (size_t)head.text + 1, 16);
  char *rest = base_arena_alloc_uncleared(arena, (size_t)head.bytes + 1, 64);
  if (!text || !rest) {
    TRY(read_away(w, head.text + head.bytes, wait, err));
    out->kind = head.kind;
    return base_no_memory(err, "a worker's frame");
  }
  TRY(receive_all(w, text, head.text, wait, err));
  TRY(receive_all(w, rest, (size_t)head.bytes, wait, err));
  out->kind = head.kind;
  return frame_read(arena, &head, text, rest, out, err);
}
