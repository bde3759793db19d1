/* launch_options.h -- the options of the launcher: what they are called, and what they ask of the layout. */
#ifndef COMMON_LAUNCH_OPTIONS_H
#define COMMON_LAUNCH_OPTIONS_H
#include "common/layout.h"

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

/* launch_request.c: what is asked of the layout. */
td_status launch_read_request(const launch_words *words, launch_request *request, td_error *err);
#endif
