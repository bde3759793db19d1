/* measure.c -- benchmarks side by side, each a process on CPUs of its own. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sweep.h"

typedef struct child {
  pid_t pid;
  int output;
} child;

static void place(const launch_instance *in) {
  cpu_set_t sets[SYS_MOST_CPUS / CPU_SETSIZE];
  CPU_ZERO_S(sizeof sets, sets);
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++)
    if (sys_set_has(&in->cpus, i)) CPU_SET_S((size_t)i, sizeof sets, sets);
  if (sched_setaffinity(0, sizeof sets, sets) != 0) fprintf(stderr, "treadle bench: an instance is not pinned\n");
}

static td_status start(char *const *argv, const launch_instance *in, child *c, td_error *err) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return base_fail(err, TD_NO_RESOURCE, NULL, -1, "a benchmark cannot start: %s", strerror(errno));
  c->pid = fork();
  if (c->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    place(in);
    if (dup2(ends[1], 1) >= 0) execv(argv[0], argv);
    _exit(127);
  }
  close(ends[1]);
  c->output = ends[0];
  if (c->pid > 0) return TD_OK;
  close(ends[0]);
  return base_fail(err, TD_NO_RESOURCE, NULL, -1, "a benchmark cannot start: %s", strerror(errno));
}

/* Waits for the end; what it printed, or an error. */
static td_status finish(child *c, json_t **figures, td_error *err) {
  int state = 0;
  FILE *file = fdopen(c->output, "r");
  *figures = file ? json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
  if (file) fclose(file);
  else close(c->output);
  while (waitpid(c->pid, &state, 0) < 0 && errno == EINTR) continue;
  c->pid = 0;
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0 && *figures) return TD_OK;
  return base_fail(err, WIFEXITED(state) && WEXITSTATUS(state) ? (td_status)WEXITSTATUS(state) : TD_INTERNAL, NULL, -1,
                   "a benchmark of the sweep failed; its own error stands above");
}

static double real_at(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void add(sweep_row *row, const json_t *figures, double *p50) {
  const json_t *latency = json_object_get(figures, "latency_ms");
  const double p99 = real_at(latency, "p99");
  *p50 = real_at(latency, "p50");
  if (p99 > row->p99_ms) row->p99_ms = p99;
  row->per_s += real_at(figures, "throughput");
  row->anon_kib += real_at(figures, "anon_peak_kib");
  row->threads = (uint32_t)real_at(figures, "threads");
}

td_status sweep_measure(char *const *argv, const launch_layout *layout, base_arena *arena, sweep_row *row,
                        td_error *err) {
  child *children = base_new(arena, child, layout->count);
  double *p50 = base_new(arena, double, layout->count);
  uint32_t started = 0;
  td_status status = TD_OK;
  if (!children || !p50) return base_no_memory(err, "benchmarks");
  for (; started < layout->count && status == TD_OK; started++) {
    status = start(argv, &layout->instances[started], &children[started], err);
    if (status != TD_OK) break;
  }
  for (uint32_t i = 0; i < started; i++) {
    json_t *figures = NULL;
    td_error later = {.offset = -1};
    const td_status one = finish(&children[i], &figures, status == TD_OK ? err : &later);
    if (one == TD_OK) add(row, figures, &p50[i]);
    json_decref(figures);
    if (status == TD_OK) status = one;
  }
  row->instances = layout->count;
  qsort(p50, started, sizeof *p50, by_value);
  if (started) {
    row->p50_ms = p50[started / 2];
    row->best_p50_ms = p50[0];
    row->worst_p50_ms = p50[started - 1];
  }
  return status;
}
