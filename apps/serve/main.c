/* main.c -- `treadle-serve`: options, threads, models, and then the loop. TorchServe's --start goes into the background
 * once the server listens, and --stop ends what was started so on the same address. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <treadle/defaults.h>

#include "sandbox.h"
#include "server.h"
#include "spawner.h"

enum { STOP_SECONDS = 60 };

/* ---- the file with the number of a process in the background: one for each address ---- */

static void pid_path(const serve_server *s, char *path, size_t size) {
  const serve_address *a = &s->options.addresses[0];
  const char *folder = getenv("XDG_RUNTIME_DIR");
  uint32_t sum = 0;
  for (const char *at = a->host; *at; at++) sum = sum * 31 + (uint8_t)*at;
  snprintf(path, size, "%s/treadle-serve-%u-%u-%u.pid", folder && *folder ? folder : "/tmp", (unsigned)getuid(),
           a->port, sum);
}

static void close_calls(void) {
  if (!serve_close_calls(SERVE_CALLS_OF_SERVER))
    fputs("treadle-serve: seccomp filters cannot be had here: the server runs without one\n", stderr);
}

static void ready(serve_server *s) {
  char path[512], text[32];
  close_calls(); /* no socket is made and no program started from now on */
  if (!s->options.start) return;
  pid_path(s, path, sizeof path);
  unlink(path);
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  const int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
  if (file < 0 || write(file, text, (size_t)length) != length)
    fprintf(stderr, "treadle-serve: %s cannot be written: treadle serve --stop will not find this server\n", path);
  if (file >= 0) close(file);
  if (s->options.foreground) return;
  const int nowhere = open("/dev/null", O_RDWR);
  if (nowhere < 0) return;
  dup2(nowhere, 0);
  dup2(nowhere, 1); /* who waits for the end of this pipe knows that the server listens */
  close(nowhere);
}

static td_status stop_other(const serve_server *s, td_error *err) {
  char path[512];
  int pid = 0;
  pid_path(s, path, sizeof path);
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat about;
  const bool own = fd >= 0 && fstat(fd, &about) == 0 && about.st_uid == getuid(); /* the folder may be everybody's */
  FILE *file = own ? fdopen(fd, "r") : NULL;
  if (file && fscanf(file, "%d", &pid) != 1) pid = 0;
  if (file) fclose(file);
  else if (fd >= 0) close(fd);
  if (pid < 2 || kill(pid, SIGTERM) != 0)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "no server that --start has started listens there");
  for (int i = 0; i < STOP_SECONDS * 20 && kill(pid, 0) == 0; i++) nanosleep(&(struct timespec){0, 50000000}, NULL);
  if (kill(pid, 0) == 0) return base_fail(err, TD_NO_RESOURCE, NULL, -1, "process %d does not end", pid);
  unlink(path);
  puts("the server has stopped");
  return TD_OK;
}

/* In the parent: passes on what the server prints, and ends when it listens or has ended. */
static int wait_for_start(pid_t child, int from) {
  char line[512];
  int status = 0;
  FILE *lines = fdopen(from, "r");
  bool listens = false;
  while (lines && fgets(line, sizeof line, lines)) {
    fputs(line, stdout);
    listens = true;
  }
  if (listens) return 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 6;
}

/* True: this is the server's process. */
static bool go_into_background(int *result) {
  int ends[2];
  if (pipe(ends) != 0) return true; /* stays in the foreground */
  fflush(stdout);
  const pid_t child = fork();
  if (child < 0) return true;
  if (child > 0) {
    close(ends[1]);
    *result = wait_for_start(child, ends[0]);
    return false;
  }
  setsid();
  close(ends[0]);
  dup2(ends[1], 1);
  close(ends[1]);
  return true;
}

/* ---- the server ---- */

/* A quarter of the memory: models, their sessions and Python handlers need the rest. */
static int64_t default_held(void) {
  enum { UNKNOWN = 1 << 30 };
  const uint64_t quarter = sys_memory_limit_read() / 4;
  return quarter ? (int64_t)quarter : UNKNOWN;
}

/* One I/O thread has time for the requests of so many CPUs, if each of these takes a millisecond of one. TorchServe's
 * key counts what each CPU would have there: no more than there are CPUs. */
static int64_t default_io_threads(const serve_options *o) {
  enum { CPUS = 16 };
  int64_t count = o->workers / CPUS;
  if (o->netty_threads) count = o->netty_threads < o->workers ? o->netty_threads : o->workers;
  return count < 1 ? 1 : count < SERVE_MOST_LOOPS ? count : SERVE_MOST_LOOPS;
}

static td_status start_spawner(const serve_server *s, td_error *err) {
  const serve_options *o = &s->options;
  const char *python = o->python ? o->python : "python3";
  char *folders = realpath(serve_temporary(), NULL);
  const spawner_plan plan = {s->load.cc, s->load.cache, o->python_handlers ? python : NULL, folders,
                             (uint64_t)o->python_memory << 20};
  const td_status status = spawner_start(&plan, err);
  free(folders);
  return status;
}

static td_status serve(serve_server *s, char **words, int count, base_arena *arena, td_error *err) {
  sigset_t set;
  char path[512];
  TRY(serve_use_cores(&s->options, arena, err)); /* while there are no threads */
  s->load.node_copies = s->options.node_copies;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, NULL); /* of all threads: the loop reads them */
  signal(SIGPIPE, SIG_IGN);               /* OpenSSL writes to sockets that the other side has closed */
  if (!s->options.workers) s->options.workers = sys_threads_read();
  if (!s->options.most_held) s->options.most_held = default_held();
  if (s->options.start_workers < 0) s->options.start_workers = s->options.workers;
  if (!s->options.io_threads) s->options.io_threads = default_io_threads(&s->options);
  s->started_ns = (uint64_t)time(NULL) * 1000000007u ^ (uint64_t)getpid();
  TRY(serve_open_queues(s, err));
  td_status status = start_spawner(s, err); /* while there are no threads: the log has one */
  if (status == TD_OK && s->options.access_log) status = serve_log_open(s->options.access_log, &s->log, err);
  if (status == TD_OK) status = serve_make_keys(s, err);
  if (status == TD_OK) status = serve_load_start(s, words, count, arena, err);
  if (status == TD_OK) status = serve_start_threads(s, arena, err);
  if (status == TD_OK) status = serve_run(s, ready, err);
  serve_end_sequences(s, NULL); /* the loader frees them before it ends */
  serve_stop_threads(s);
  for (int64_t i = 0; i < s->options.io_threads; i++) serve_take_done(&s->loops[i]); /* whose clients had gone */
  serve_free_workflows(s);
  serve_free_models(s);
  td_pool_free(s->pool);
  serve_log_close(s->log);
  spawner_end();
  serve_close_queues(s);
  pid_path(s, path, sizeof path);
  if (s->options.start) unlink(path);
  return status;
}

static td_status start(serve_server *s, char **words, int *result, base_arena *arena, td_error *err) {
  int count = 0;
  const serve_options *o = &s->options;
  while (words[count]) count++;
  if (o->help) fputs(serve_usage, stdout);
  else if (o->version) printf("treadle %s\n", td_version());
  if (o->help || o->version) return TD_OK;
  if (o->stop) return stop_other(s, err);
  if (!count && !o->models && !o->model_store)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "name a model to serve, or a --model-store to register models from");
  if (o->start && !o->foreground && !go_into_background(result)) return TD_OK;
  return serve(s, words, count, arena, err);
}

/* Bodies, inputs and replies come and go with each request: memory that is given back to the system in between costs a
 * page fault for every 4 KiB of the next one, more than all else that a request of some 100 KiB costs. */
static void keep_memory(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
}

int main(int count, char **words) {
  serve_server server = {.options = {.queue = 100,
                                     .drain_s = 25,
                                     .most_bytes = 1 << 26,
                                     .timeout_s = 120,
                                     .transfer_s = 30,
                                     .batch = 1,
                                     .delay_ms = 100,
                                     .sequences = 100,
                                     .sequence_idle_ms = 60000,
                                     .start_workers = -1}};
  td_error err = {.offset = -1};
  td_defaults room;
  int result = 0;
  keep_memory();
  server.load = (td_load_options){.size = sizeof server.load, .tiered = 1};
  td_load_defaults(&server.load, &room);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  td_status status =
      arena ? serve_read_options(count - 1, words + 1, arena, &server.options, &err) : base_no_memory(&err, "a start");
  if (status == TD_OK) status = start(&server, words + 1, &result, arena, &err);
  if (status != TD_OK) fprintf(stderr, "treadle-serve: %s%s%s\n", err.name, err.name[0] ? ": " : "", err.text);
  base_arena_free(arena);
  return status == TD_OK ? result : (int)status;
}
