/* launch.h -- `treadle-launch`, which `treadle launch` runs: instances of a program, each on cores of its own.
 *
 * options -> layout (which CPUs each instance has: pure arithmetic on a topology) -> environment -> processes. Every
 * part but the last works for machines that are not here. All memory is of one arena. */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H
#include <jansson.h>

#include "sys/topology.h"

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

/* ---- layout (layout.c) ---- */

/* What stays beside the point of the plan: told to the user, in the order in which it came up. */
typedef BASE_VEC(const char *) launch_notes;

typedef struct launch_request {
  uint32_t instances;                /* 0: as many as fit */
  int64_t cores_each;                /* 0: shared evenly; -1: and the first have one more, so that none is idle */
  const char *cores, *nodes, *index; /* lists, NULL: all */
  bool logical, efficient, bind, share, close, latency, throughput;
} launch_request;

typedef struct launch_instance {
  uint32_t index; /* in the whole layout */
  uint32_t count; /* of CPUs */
  uint32_t threads;
  sys_cpu_set cpus, nodes;
} launch_instance;

typedef struct launch_layout {
  launch_instance *instances; /* those to start */
  uint32_t count;
  sys_cpu_set idle; /* CPUs that were asked for and no instance has */
  launch_notes notes;
} launch_layout;

td_status launch_read_request(const launch_words *words, launch_request *request, td_error *err);
/* Never an empty instance, never fewer than asked for: then an error with the arithmetic. */
td_status launch_lay_out(const sys_topology *machine, const launch_request *request, base_arena *arena,
                         launch_layout *layout, td_error *err);
td_status launch_note(base_arena *arena, launch_notes *notes, const char *format, ...) BASE_PRINTF(3, 4);
/* "0-3,8", in the arena. NULL: out of memory. */
const char *launch_list(base_arena *arena, const sys_cpu_set *set);

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
