/* environment.c -- what instances find in their environment: threads, OpenMP, preloaded libraries. What the user has
 * set himself stays, and is told. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

typedef struct maker {
  const launch_words *given;
  base_arena *arena;
  launch_plan *plan;
  td_error *err;
  base_text preload;
} maker;

/* ---- libraries ---- */

/* Folders where libraries stand, the user's own before the system's. */
static const struct {
  const char *variable, *folder;
} places[] = {{"CONDA_PREFIX", "/lib"},
              {"VIRTUAL_ENV", "/lib"},
              {"HOME", "/.local/lib"},
              {NULL, "/usr/local/lib"},
              {NULL, "/usr/local/lib64"},
              {NULL, "/usr/lib"},
              {NULL, "/usr/lib64"},
              {NULL, "/usr/lib/x86_64-linux-gnu"},
              {NULL, "/usr/lib/aarch64-linux-gnu"}};

/* libNAME.so, or libNAME.so.4.5: distributions keep the plain name for developers. */
static bool is_library(const char *file, const char *name) {
  const size_t length = strlen(name);
  if (strncmp(file, "lib", 3) != 0 || strncmp(file + 3, name, length) != 0) return false;
  file += 3 + length;
  return strncmp(file, ".so", 3) == 0 && strspn(file + 3, ".0123456789") == strlen(file + 3);
}

/* The file of the library in a folder: the plain name, else the highest by its text. NULL: none. */
static const char *find_in(base_arena *arena, const char *folder, const char *name) {
  DIR *listing = opendir(folder);
  char best[256] = "";
  if (!listing) return NULL;
  for (const struct dirent *entry; (entry = readdir(listing));) {
    const size_t length = strlen(entry->d_name);
    if (length >= sizeof best || !is_library(entry->d_name, name)) continue;
    const bool plain = strcmp(entry->d_name + length - 3, ".so") == 0;
    if (plain || strcmp(entry->d_name, best) > 0) memcpy(best, entry->d_name, length + 1);
    if (plain) break;
  }
  closedir(listing);
  const char *path = *best ? base_arena_format(arena, "%s/%s", folder, best) : NULL;
  return path && access(path, R_OK) == 0 ? path : NULL;
}

/* `names` are spellings of one library, by preference. */
static const char *find_library(base_arena *arena, const char *const *names) {
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const char *before = places[i].variable ? getenv(places[i].variable) : "";
    if (!before || (places[i].variable && !*before)) continue;
    const char *folder = base_arena_format(arena, "%s%s", before, places[i].folder);
    for (const char *const *name = names; folder && *name; name++) {
      const char *path = find_in(arena, folder, *name);
      if (path) return path;
    }
  }
  return NULL;
}

static td_status preload(maker *m, const char *path) {
  base_text_print(&m->preload, "%s%s", m->preload.length ? ":" : "", path);
  return m->preload.failed ? base_no_memory(m->err, "the environment") : TD_OK;
}

/* What the user preloads, but for files that are not there, of which each program would warn. */
static td_status keep_preloaded(maker *m) {
  const char *at = getenv("LD_PRELOAD");
  while (at && *at) {
    const size_t length = strcspn(at, ": ");
    char *path = base_arena_slice(m->arena, at, length);
    if (!path) return base_no_memory(m->err, "the environment");
    if (length && strchr(path, '/') && access(path, R_OK) != 0)
      TRY(launch_note(m->arena, &m->plan->layout.notes, "LD_PRELOAD: %s is not there and is left out", path));
    else if (length) TRY(preload(m, path));
    at += length + (at[length] != 0);
  }
  return TD_OK;
}

/* ---- variables ---- */

static td_status set(maker *m, launch_variables *list, const char *name, const char *value) {
  const char *mine = getenv(name);
  if (!value) return base_no_memory(m->err, "the environment");
  if (mine && strcmp(name, "LD_PRELOAD") != 0) {
    if (list == &m->plan->shared || list == m->plan->own)
      return launch_note(m->arena, &m->plan->layout.notes, "%s=%s is yours and stays; else it were %s", name, mine,
                         value);
    return TD_OK;
  }
  launch_variable *v = base_vec_push(m->arena, list);
  if (!v) return base_no_memory(m->err, "the environment");
  *v = (launch_variable){name, value};
  return TD_OK;
}

static const char *choice(const maker *m, launch_option option) {
  return m->given->given[option] ? m->given->given[option] : "auto";
}

static const struct {
  const char *name;
  const char *const files[4];
} allocators[] = {
    {"tcmalloc", {"tcmalloc", "tcmalloc_minimal"}}, {"jemalloc", {"jemalloc"}}, {"mimalloc", {"mimalloc"}}};

static td_status set_allocator(maker *m) {
  const char *const *given = m->given->given;
  const char *wanted = choice(m, LAUNCH_ALLOCATOR);
  const int switches = !!given[LAUNCH_TCMALLOC] + !!given[LAUNCH_JEMALLOC] + !!given[LAUNCH_LIBC_MALLOC];
  if (switches + !!given[LAUNCH_ALLOCATOR] > 1)
    return base_fail(m->err, TD_BAD_ARGUMENT, NULL, -1, "choose one allocator: --memory-allocator says which");
  if (switches) wanted = given[LAUNCH_TCMALLOC] ? "tcmalloc" : given[LAUNCH_JEMALLOC] ? "jemalloc" : "default";
  const bool any = strcmp(wanted, "auto") == 0;
  for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++) {
    const char *name = allocators[i].name;
    if (any ? i > 1 : strcmp(wanted, name) != 0) continue;
    const char *path = find_library(m->arena, allocators[i].files);
    if (!path && any) continue;
    if (!path)
      return base_fail(m->err, TD_NO_RESOURCE, NULL, -1,
                       "no lib%s.so* in $CONDA_PREFIX/lib, $VIRTUAL_ENV/lib, ~/.local/lib, /usr/local/lib or /usr/lib; "
                       "install it, or say --memory-allocator default",
                       name);
    TRY(preload(m, path));
    TRY(launch_note(m->arena, &m->plan->layout.notes, "allocator: %s, %s", name, path));
    if (strcmp(name, "jemalloc") != 0) return TD_OK;
    return set(m, &m->plan->shared, "MALLOC_CONF",
               given[LAUNCH_BENCHMARK] ? "oversize_threshold:1,background_thread:false,metadata_thp:always,"
                                         "dirty_decay_ms:-1,muzzy_decay_ms:-1"
                                       : "oversize_threshold:1,background_thread:true,metadata_thp:auto");
  }
  return TD_OK;
}

static td_status set_openmp(maker *m) {
  static const char *const files[] = {"iomp5", NULL};
  launch_variables *shared = &m->plan->shared;
  const char *wanted = m->given->given[LAUNCH_NO_IOMP] ? "default" : choice(m, LAUNCH_OMP);
  const char *path = strcmp(wanted, "default") != 0 ? find_library(m->arena, files) : NULL;
  if (!path && strcmp(wanted, "intel") == 0)
    return base_fail(m->err, TD_NO_RESOURCE, NULL, -1, "no libiomp5.so; install it, or say --omp-runtime default");
  if (!path) {
    TRY(set(m, shared, "OMP_SCHEDULE", "STATIC"));
    TRY(set(m, shared, "OMP_PROC_BIND", "CLOSE"));
  } else {
    TRY(preload(m, path));
    TRY(set(m, shared, "KMP_BLOCKTIME", "1"));
    if (m->plan->pin && !m->given->given[LAUNCH_LOGICAL])
      TRY(set(m, shared, "KMP_AFFINITY", "granularity=fine,compact,1,0"));
  }
  for (uint32_t i = 0; !m->plan->pin && i < m->plan->layout.count; i++) {
    const char *list = launch_list(m->arena, &m->plan->layout.instances[i].cpus);
    if (!list) return base_no_memory(m->err, "the environment");
    if (!path) TRY(set(m, &m->plan->own[i], "GOMP_CPU_AFFINITY", list));
    else
      TRY(set(m, &m->plan->own[i], "KMP_AFFINITY",
              base_arena_format(m->arena, "granularity=fine,proclist=[%s],explicit", list)));
  }
  return TD_OK;
}

/* ---- where and what ---- */

static td_status set_binding(maker *m) {
  const char *const *given = m->given->given;
  const char *manager = given[LAUNCH_MANAGER] ? given[LAUNCH_MANAGER] : "auto", *numa = given[LAUNCH_NUMA];
  if (given[LAUNCH_NO_NUMACTL]) manager = given[LAUNCH_NO_TASKSET] ? "none" : "taskset";
  m->plan->pin = strcmp(manager, "none") != 0;
  m->plan->numa = !m->plan->pin || strcmp(manager, "taskset") == 0 ? LAUNCH_NUMA_NONE : LAUNCH_NUMA_STRICT;
  if (numa)
    m->plan->numa = strcmp(numa, "strict") == 0      ? LAUNCH_NUMA_STRICT
                    : strcmp(numa, "preferred") == 0 ? LAUNCH_NUMA_PREFERRED
                                                     : LAUNCH_NUMA_NONE;
  if (m->plan->machine->nodes == 1) m->plan->numa = LAUNCH_NUMA_NONE; /* nothing to choose from */
  return TD_OK;
}

static td_status set_logs(maker *m) {
  const char *folder = m->given->given[LAUNCH_LOGS], *prefix = m->given->given[LAUNCH_LOG_PREFIX];
  char stamp[32];
  struct tm parts;
  const time_t now = time(NULL);
  m->plan->logs = base_new(m->arena, const char *, m->plan->layout.count);
  if (!m->plan->logs) return base_no_memory(m->err, "names of logs");
  if (!folder || !*folder) return TD_OK;
  strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", localtime_r(&now, &parts));
  for (uint32_t i = 0; i < m->plan->layout.count; i++) {
    const launch_instance *in = &m->plan->layout.instances[i];
    const char *list = launch_list(m->arena, &in->cpus);
    char *name = list ? base_arena_format(m->arena, "%s/%s_%s_instance_%u_cores_%s.log", folder,
                                          prefix ? prefix : "run", stamp, in->index, list)
                      : NULL;
    if (!name) return base_no_memory(m->err, "names of logs");
    for (char *c = strrchr(name, '/'); *c; c++)
      if (*c == ',') *c = '_';
    m->plan->logs[i] = name;
  }
  return TD_OK;
}

static td_status set_command(maker *m) {
  const launch_words *w = m->given;
  char **command = base_new(m->arena, char *, (size_t)w->program_count + 4);
  static char python[] = "python3", unbuffered[] = "-u", module[] = "-m";
  int at = 0;
  if (!command) return base_no_memory(m->err, "a command");
  m->plan->command = command;
  if (w->program_count == 0) return TD_OK;
  const size_t length = strlen(w->program[0]);
  const bool script = length > 3 && strcmp(w->program[0] + length - 3, ".py") == 0;
  if (w->given[LAUNCH_MODULE] || (script && !w->given[LAUNCH_NO_PYTHON])) {
    command[at++] = python;
    command[at++] = unbuffered;
    if (w->given[LAUNCH_MODULE]) command[at++] = module;
  }
  for (int i = 0; i < w->program_count; i++) command[at++] = w->program[i];
  return TD_OK;
}

static td_status set_threads(maker *m) {
  for (uint32_t i = 0; i < m->plan->layout.count; i++) {
    const char *threads = base_arena_format(m->arena, "%u", m->plan->layout.instances[i].threads);
    TRY(set(m, &m->plan->own[i], "OMP_NUM_THREADS", threads));
    TRY(set(m, &m->plan->own[i], "TREADLE_NUM_THREADS", threads));
  }
  return TD_OK;
}

static td_status make(maker *m) {
  int64_t restarts = 10;
  const char *const *given = m->given->given;
  m->plan->own = base_new(m->arena, launch_variables, m->plan->layout.count);
  if (!m->plan->own) return base_no_memory(m->err, "the environment");
  if (given[LAUNCH_RESTARTS] && (!base_str_int(base_str_of(given[LAUNCH_RESTARTS]), &restarts) || restarts < 0))
    return base_fail(m->err, TD_BAD_ARGUMENT, NULL, -1, "--max-restarts '%s' is no count", given[LAUNCH_RESTARTS]);
  m->plan->restarts = restarts;
  m->plan->failure = given[LAUNCH_FAILURE] ? given[LAUNCH_FAILURE] : "stop";
  TRY(set_binding(m));
  TRY(set_threads(m));
  TRY(keep_preloaded(m));
  TRY(set_allocator(m));
  TRY(set_openmp(m));
  if (m->preload.length) TRY(set(m, &m->plan->shared, "LD_PRELOAD", base_arena_text(m->arena, m->preload.at)));
  TRY(set_logs(m));
  return set_command(m);
}

td_status launch_make_environment(const launch_words *given, base_arena *arena, launch_plan *plan, td_error *err) {
  maker m = {.given = given, .arena = arena, .plan = plan, .err = err, .preload = {.allocator = &base_libc_allocator}};
  const td_status status = make(&m);
  base_text_free(&m.preload);
  return status;
}
