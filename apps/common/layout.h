/* layout.h -- which CPUs each of several instances of a program has: pure arithmetic on a topology, also of machines
 * that are not here. All memory is of one arena. */
#ifndef COMMON_LAYOUT_H
#define COMMON_LAYOUT_H
#include "sys/topology.h"

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

/* Never an empty instance, never fewer than asked for: then an error with the arithmetic. */
td_status launch_lay_out(const sys_topology *machine, const launch_request *request, base_arena *arena,
                         launch_layout *layout, td_error *err);
td_status launch_note(base_arena *arena, launch_notes *notes, const char *format, ...) BASE_PRINTF(3, 4);
/* "0-3,8", in the arena. NULL: out of memory. */
const char *launch_list(base_arena *arena, const sys_cpu_set *set);
#endif
