/* worker.c -- a process with a Python handler: its start, frames over its socket, the lines that it prints, its end. It
 * has no descriptors but that socket and the pipe that its lines go to, and it ends with the process that started it
 * (spawner.c). */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLICE_MS = 50, LINE_BYTES = 4096, END_MS = 200, KILL_MS = 5000 };

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

/* The process beside the server starts it, since the server cannot. */
static td_status spawn(serve_worker *w, base_arena *arena, int log, td_error *err) {
  const serve_version *v = w->version;
  const char *script = base_arena_format(arena, "%s/shim/worker.py", v->python->folder);
  spawned program;
  if (!script) return base_no_memory(err, "a worker");
  TRY(spawner_run(SPAWNER_WORKER, (const char *const[]){script, v->name, NULL}, v->threads, log, &program, err));
  w->fd = program.socket;
  w->line = program.line;
  atomic_store(&w->pid, program.pid);
  return TD_OK;
}

td_status worker_start(serve_version *v, serve_worker **out, td_error *err) {
  serve_worker *w = calloc(1, sizeof *w);
  base_arena *arena = w ? base_arena_new(&base_libc_allocator) : NULL;
  int log[2] = {-1, -1};
  td_status status = TD_OK;
  *out = NULL;
  if (!arena) {
    free(w);
    return base_no_memory(err, "a worker");
  }
  *w = (serve_worker){.version = v, .fd = -1, .line = -1, .log = -1};
  if (pipe2(log, O_CLOEXEC) != 0)
    status = base_fail(err, TD_NO_RESOURCE, NULL, -1, "no descriptors for a worker: %s", strerror(errno));
  w->log = log[0];
  if (status == TD_OK) status = spawn(w, arena, log[1], err);
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
  if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR))) return true;
  /* a process that it has started may hold the socket */
  return spawned_has_ended(w->line);
}

/* Waits for the end of the process, which gets a moment for it, and is then killed with all that it has started. */
static void reap(serve_worker *w) {
  if (!atomic_load(&w->pid)) return;
  if (w->killed || !spawned_wait(w->line, END_MS, &w->state)) {
    w->killed = true;
    spawned_kill(w->line);
    spawned_wait(w->line, KILL_MS, &w->state);
  }
  atomic_store(&w->stop, true);
  if (w->logs) sys_thread_join(&w->logger);
  w->logs = false;
  atomic_store(&w->pid, 0);
}

void worker_tell_end(serve_worker *w, char *text, size_t size) {
  reap(w);
  if (w->killed) snprintf(text, size, "it was killed");
  else if (w->state == SPAWNER_ENDED) snprintf(text, size, "the process that had started it has ended");
  else if (WIFSIGNALED(w->state)) snprintf(text, size, "it was ended by signal %d", WTERMSIG(w->state));
  else snprintf(text, size, "it ended with status %d", WEXITSTATUS(w->state));
}

void worker_end(serve_worker *w) {
  if (!w) return;
  if (atomic_load(&w->pid) && !worker_has_ended(w)) w->killed = true;
  reap(w);
  if (w->fd >= 0) close(w->fd);
  if (w->line >= 0) close(w->line);
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
