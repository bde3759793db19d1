/* launch.h -- `treadle-launch`, which `treadle launch` runs: instances of a program, each on cores of its own.
 *
 * options (../common/launch_options.h) -> layout (../common/layout.h) -> environment -> processes. Every
 * part but the last works for machines that are not here. All memory is of one arena. */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H
#include <jansson.h>

#include "common/launch_options.h"

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
