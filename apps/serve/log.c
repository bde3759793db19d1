/* log.c -- the access log: a line of JSON for each request. Loops put lines into a buffer, a thread of the
 * log writes them out: a disk or a reader that is slow costs lines, which are counted, and never holds up requests. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server.h"

enum {
  BUFFER_BYTES = 1 << 20, /* of lines that wait; there are two */
  GATHER_MS = 50,         /* that a line may wait for others */
  PIPE_BYTES = 4096,      /* that a pipe takes at once when poll says that it takes any */
  PATIENCE_MS = 1000,     /* at the end, for a reader that does not read */
  LINE_PATH = 2048        /* bytes of a path that are logged */
};

struct serve_log {
  const char *path; /* NULL: standard output */
  int fd;
  bool is_file, torn; /* torn: the last line was written in part */
  sys_thread thread;
  pthread_mutex_t lock;
  pthread_cond_t more;
  /* ---- under the lock ---- */
  base_text line;          /* that is being put in */
  char *filling, *writing; /* `writing` is the thread's */
  size_t count;            /* bytes of `filling` */
  bool stop, reopen;
  uint64_t lost;
};

/* ---- texts of clients ---- */

void serve_quote(base_text *to, base_str text) {
  base_text_add(to, "\"", 1);
  const uint8_t *from = (const uint8_t *)text.at, *end = from ? from + text.length : from; /* NULL: there is none */
  while (from < end) {
    const uint8_t *at = from;
    uint32_t code;
    const bool whole = base_utf8_next(&at, end, &code);
    if (!whole) base_text_add(to, "\\ufffd", 6);
    else if (code == '"' || code == '\\') base_text_print(to, "\\%c", (char)code);
    else if (code < 0x20 || (code >= 0x7f && code < 0xa0)) base_text_print(to, "\\u%04x", code);
    else base_text_add(to, (const char *)from, (size_t)(at - from));
    from = whole ? at : from + 1;
  }
  base_text_add(to, "\"", 1);
}

/* ---- a request's id ---- */

static bool is_visible(base_str text) {
  for (size_t i = 0; i < text.length; i++)
    if (text.at[i] <= ' ' || text.at[i] > '~') return false; /* bytes above 0x7f are negative */
  return text.length > 0;
}

/* The trace id of "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"; at == NULL: there is none. */
static base_str trace_of(base_str parent) {
  enum { VERSION = 2, TRACE = 32, SPAN = 16, LEAST = 55 };
  static const char digits[] = "0123456789abcdef-", zeros[] = "00000000000000000000000000000000";
  if (parent.length < LEAST || parent.at[2] != '-' || parent.at[35] != '-' || parent.at[52] != '-')
    return (base_str){0};
  const base_str trace = {parent.at + VERSION + 1, TRACE};
  for (size_t i = 0; i < LEAST; i++) {
    const bool dash = i == VERSION || i == VERSION + 1 + TRACE || i == VERSION + 2 + TRACE + SPAN;
    if (!parent.at[i] || !strchr(digits, parent.at[i]) || (parent.at[i] == '-') != dash) return (base_str){0};
  }
  return memcmp(parent.at, "ff", 2) == 0 || memcmp(trace.at, zeros, TRACE) == 0 ? (base_str){0} : trace;
}

void serve_name_request(serve_job *job, base_str id, base_str parent) {
  const base_str trace = trace_of(parent);
  if (id.length < sizeof job->id && is_visible(id)) snprintf(job->id, sizeof job->id, "%.*s", (int)id.length, id.at);
  else if (trace.at) snprintf(job->id, sizeof job->id, "%.*s", (int)trace.length, trace.at);
  else
    snprintf(job->id, sizeof job->id, "%016llx%016llx", (unsigned long long)job->server->started_ns,
             (unsigned long long)++job->server->requests);
}

/* ---- lines ---- */

static void print_text(base_text *to, const char *key, base_str value) {
  base_text_print(to, ",\"%s\":", key);
  serve_quote(to, value);
}

void serve_print_request(base_text *to, const serve_job *job, const struct timespec *when, uint64_t bytes_out) {
  char date[32];
  struct tm tm;
  const base_str path = {job->path.at, job->path.length < LINE_PATH ? job->path.length : LINE_PATH};
  gmtime_r(&when->tv_sec, &tm);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
  base_text_print(to, "{\"time\":\"%s.%03dZ\"", date, (int)(when->tv_nsec / 1000000));
  print_text(to, "client", base_str_of(job->client));
  print_text(to, "method", job->method);
  print_text(to, "path", path);
  base_text_print(to, ",\"status\":%d", job->status);
  if (job->is_grpc) base_text_print(to, ",\"grpc_status\":%d", job->grpc_status);
  if (job->version) {
    print_text(to, "model", base_str_of(job->version->name));
    print_text(to, "version", base_str_of(job->version->number));
  }
  base_text_print(to, ",\"bytes_in\":%llu,\"bytes_out\":%llu,\"duration_us\":%llu", (unsigned long long)job->received,
                  (unsigned long long)bytes_out, (unsigned long long)((sys_clock_ns() - job->begun_ns) / 1000));
  if (job->computed_ns)
    base_text_print(to, ",\"queue_us\":%llu,\"inference_us\":%llu", (unsigned long long)(job->queued_ns / 1000),
                    (unsigned long long)(job->computed_ns / 1000));
  print_text(to, "request_id", base_str_of(job->id));
  base_text_add(to, "}\n", 2);
}

void serve_log_request(serve_log *log, const serve_job *job, uint64_t bytes_out) {
  struct timespec now;
  if (!log) return;
  clock_gettime(CLOCK_REALTIME, &now);
  pthread_mutex_lock(&log->lock);
  log->line.length = 0;
  serve_print_request(&log->line, job, &now, bytes_out);
  if (log->line.failed || log->line.length > BUFFER_BYTES - log->count) {
    log->lost++;
  } else {
    const size_t before = log->count;
    memcpy(log->filling + before, log->line.at, log->line.length);
    log->count += log->line.length;
    if (!before || (before < BUFFER_BYTES / 2 && log->count >= BUFFER_BYTES / 2)) pthread_cond_signal(&log->more);
  }
  if (log->line.failed) {
    base_text_free(&log->line);
    log->line = (base_text){.allocator = &base_libc_allocator};
  }
  pthread_mutex_unlock(&log->lock);
}

/* ---- the thread that writes ---- */

static int open_file(const char *path) {
  return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
}

static bool stops(serve_log *log) {
  pthread_mutex_lock(&log->lock);
  const bool stop = log->stop;
  pthread_mutex_unlock(&log->lock);
  return stop;
}

/* Waits until a pipe or a terminal takes more. False: the log is at its end, and nobody reads it. */
static bool wait_for_room(serve_log *log) {
  enum { STEP_MS = 100 };
  struct pollfd at = {.fd = log->fd, .events = POLLOUT};
  for (int waited = 0; !log->is_file && poll(&at, 1, STEP_MS) == 0;) {
    if (stops(log)) waited += STEP_MS;
    if (waited >= PATIENCE_MS) return false;
  }
  return true;
}

/* The bytes that were written. */
static size_t write_all(serve_log *log, const char *bytes, size_t count) {
  size_t done = 0;
  while (done < count && wait_for_room(log)) {
    const size_t left = count - done;
    const ssize_t put = write(log->fd, bytes + done, log->is_file || left < PIPE_BYTES ? left : PIPE_BYTES);
    if (put > 0) done += (size_t)put;
    else if (put < 0 && errno != EINTR && errno != EAGAIN) break;
  }
  return done;
}

/* A line that was cut ends before the next one begins, so that those behind it can be read. */
static void write_lines(serve_log *log, const char *bytes, size_t count) {
  uint64_t lost = 0;
  if (log->torn && write_all(log, "\n", 1)) log->torn = false;
  const size_t done = log->torn ? 0 : write_all(log, bytes, count);
  if (done) log->torn = bytes[done - 1] != '\n';
  for (size_t i = done; i < count; i++) lost += bytes[i] == '\n';
  if (!lost) return;
  pthread_mutex_lock(&log->lock);
  log->lost += lost;
  pthread_mutex_unlock(&log->lock);
}

static bool use_file(serve_log *log, int fd) {
  struct stat about;
  if (fd < 0 || fstat(fd, &about) != 0) return false;
  log->fd = fd;
  log->is_file = S_ISREG(about.st_mode);
  log->torn = false;
  return true;
}

static void open_again(serve_log *log) {
  const int before = log->fd, fresh = log->path ? open_file(log->path) : -1;
  if (!log->path) return;
  if (use_file(log, fresh)) close(before);
  else
    fprintf(stderr, "treadle-serve: %s: cannot be opened: %s; lines go where they went before\n", log->path,
            strerror(errno));
}

static void gather(serve_log *log) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += GATHER_MS * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  while (!log->stop && !log->reopen && log->count < BUFFER_BYTES / 2)
    if (pthread_cond_timedwait(&log->more, &log->lock, &until) != 0) return;
}

static void run(void *user) {
  serve_log *log = user;
  pthread_mutex_lock(&log->lock);
  while (!log->stop || log->count || log->reopen) {
    while (!log->stop && !log->reopen && !log->count) pthread_cond_wait(&log->more, &log->lock);
    gather(log);
    const size_t count = log->count;
    const bool reopen = log->reopen;
    char *lines = log->filling;
    log->filling = log->writing;
    log->writing = lines;
    log->count = 0;
    log->reopen = false;
    pthread_mutex_unlock(&log->lock);
    write_lines(log, lines, count);
    if (reopen) open_again(log); /* lines from before are in the file from before */
    pthread_mutex_lock(&log->lock);
  }
  pthread_mutex_unlock(&log->lock);
}

/* ---- for the server ---- */

static void free_log(serve_log *log) {
  if (log->path && log->fd >= 0) close(log->fd);
  base_text_free(&log->line);
  base_free(&base_libc_allocator, log->filling, BUFFER_BYTES);
  base_free(&base_libc_allocator, log->writing, BUFFER_BYTES);
  base_free(&base_libc_allocator, log, sizeof *log);
}

td_status serve_log_open(const char *path, serve_log **out, td_error *err) {
  serve_log *log = base_alloc(&base_libc_allocator, sizeof *log);
  pthread_condattr_t clock;
  *out = NULL;
  if (!log) return base_no_memory(err, "the access log");
  *log = (serve_log){.path = strcmp(path, "-") == 0 ? NULL : path, .fd = -1};
  log->line = (base_text){.allocator = &base_libc_allocator};
  log->filling = base_alloc(&base_libc_allocator, BUFFER_BYTES);
  log->writing = base_alloc(&base_libc_allocator, BUFFER_BYTES);
  pthread_mutex_init(&log->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&log->more, &clock);
  td_status status = TD_OK;
  if (!log->filling || !log->writing) status = base_no_memory(err, "the access log");
  else if (!use_file(log, log->path ? open_file(path) : STDOUT_FILENO))
    status = base_fail(err, TD_BAD_ARGUMENT, path, -1,
                       "the access log cannot be opened: %s: name a file that this user can write", strerror(errno));
  if (status == TD_OK) status = sys_thread_start(&log->thread, run, log, err);
  if (status == TD_OK) *out = log;
  else free_log(log);
  return status;
}

void serve_log_reopen(serve_log *log) {
  if (!log) return;
  pthread_mutex_lock(&log->lock);
  log->reopen = true;
  pthread_cond_signal(&log->more);
  pthread_mutex_unlock(&log->lock);
}

uint64_t serve_log_lost(serve_log *log) {
  if (!log) return 0;
  pthread_mutex_lock(&log->lock);
  const uint64_t lost = log->lost;
  pthread_mutex_unlock(&log->lock);
  return lost;
}

void serve_log_close(serve_log *log) {
  if (!log) return;
  pthread_mutex_lock(&log->lock);
  log->stop = true;
  pthread_cond_signal(&log->more);
  pthread_mutex_unlock(&log->lock);
  sys_thread_join(&log->thread);
  free_log(log);
}
