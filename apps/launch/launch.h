/* launch.h -- `treadle-launch`, which `treadle launch` runs: instances of a program, each on cores of its own.
 *
 * options -> layout (../common/layout.h) -> environment -> processes. Every
 * part but the last works for machines that are not here. All memory is of one arena. */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H
#include <jansson.h>

#include "common/layout.h"

/* ---- options (options.c) ---- */

typedef enum launch_option {
  LAUNCH_INSTANCES,
  LAUNCH_CORES_EACH,
  LAUNCH_INDEX,
  LAUNCH_CORES,
  LAUNCH_NODES,
  LAUNCH_LOGICAL,
  LAUNCH_EFFICIENT,
  LAUNCH_BIND,
  LAUNCH_SHARE,
  LAUNCH_STRATEGY,
  LAUNCH_LATENCY,
  LAUNCH_THROUGHPUT,
  LAUNCH_NUMA,
  LAUNCH_MANAGER,
  LAUNCH_NO_NUMACTL,
  LAUNCH_NO_TASKSET,
  LAUNCH_ALLOCATOR,
  LAUNCH_TCMALLOC,
  LAUNCH_JEMALLOC,
  LAUNCH_LIBC_MALLOC,
  LAUNCH_OMP,
  LAUNCH_NO_IOMP,
  LAUNCH_BENCHMARK,
  LAUNCH_LOGS,
  LAUNCH_LOG_PREFIX,
  LAUNCH_FAILURE,
  LAUNCH_RESTARTS,
  LAUNCH_FILE,
  LAUNCH_MACHINE,
  LAUNCH_DRY,
  LAUNCH_JSON,
  LAUNCH_MODULE,
  LAUNCH_NO_PYTHON,
  LAUNCH_HELP,
  LAUNCH_CLUSTER,
  LAUNCH_REWRITE,
  LAUNCH_OPTIONS
} launch_option;

typedef struct launch_words {
  const char *given[LAUNCH_OPTIONS]; /* the value; "" of a switch; NULL: not given */
  char **program;                    /* the program and its arguments, ends with NULL */
  int program_count;
} launch_words;

/* Options up to the first word that is none, or `--`; the rest is the program. The options of a file (--options) count
 * where the line has none of them. */
td_status launch_parse(int count, char **words, base_arena *arena, launch_words *given, td_error *err);
void launch_print_help(void);

/* ---- what is asked of the layout (request.c) ---- */

td_status launch_read_request(const launch_words *words, launch_request *request, td_error *err);

/* ---- environment (environment.c) ---- */

typedef struct launch_variable {
  const char *name, *value;
} launch_variable;
typedef BASE_VEC(launch_variable) launch_variables;

typedef enum launch_numa { LAUNCH_NUMA_NONE, LAUNCH_NUMA_PREFERRED, LAUNCH_NUMA_STRICT } launch_numa;

typedef struct launch_plan {
  const sys_topology *machine;
  launch_layout layout;
  bool pin; /* instances are kept on their CPUs */
  launch_numa numa;
  launch_variables shared; /* of all instances; what the user set himself is not among them */
  launch_variables *own;   /* per instance of the layout */
  const char **logs;       /* per instance, a file for both outputs; NULL: none */
  char **command;          /* ends with NULL */
  const char *failure;     /* "stop", "continue" or "restart" */
  int64_t restarts;        /* most, of one instance */
} launch_plan;

td_status launch_make_environment(const launch_words *given, base_arena *arena, launch_plan *plan, td_error *err);

/* ---- what is printed (report.c), what is run (processes.c) ---- */
void launch_print_plan(const launch_plan *plan, base_arena *arena);
td_status launch_print_json(const launch_plan *plan, base_arena *arena, td_error *err);
/* Starts the instances and waits for them. *code: 0, or what the first that failed ended with, 128 + the signal. */
td_status launch_run(const launch_plan *plan, base_arena *arena, int *code, td_error *err);
#endif
