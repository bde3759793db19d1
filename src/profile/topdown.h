/* topdown.h -- top-down analysis (Yasin 2014): where a core's slots for operations went, from hardware counters. */
#ifndef PROFILE_TOPDOWN_H
#define PROFILE_TOPDOWN_H
#include "base/base.h"
#include "sys/counters.h"

/* Numbers of nodes; their order is that of prof_nodes. Slots of levels 1 and 2 are parts of all slots, those of levels
 * 3 and 4 parts of all cycles. */
typedef enum prof_node_id {
  PROF_FRONTEND,
  PROF_FETCH_LATENCY,
  PROF_FETCH_BANDWIDTH,
  PROF_BAD_SPECULATION,
  PROF_MISPREDICTS,
  PROF_CLEARS,
  PROF_BACKEND,
  PROF_MEMORY,
  PROF_L1,
  PROF_L2,
  PROF_L3,
  PROF_DRAM,
  PROF_DRAM_BANDWIDTH,
  PROF_DRAM_LATENCY,
  PROF_STORES,
  PROF_CORE,
  PROF_DIVIDER,
  PROF_PORTS,
  PROF_AMX,
  PROF_RETIRING,
  PROF_LIGHT,
  PROF_HEAVY,
  PROF_SMT,
  PROF_NODES
} prof_node_id;

typedef struct prof_node {
  const char *area, *name;
  int level;
  prof_node_id parent; /* of itself at level 1 */
  double threshold;    /* the node counts where it and all above it are over theirs */
  const char *advice;  /* what to do, in plain words */
} prof_node;
extern const prof_node prof_nodes[PROF_NODES];

/* Events of one family of CPUs, in groups that are counted together. */
enum { PROF_MOST_EVENTS = 42, PROF_MOST_GROUPS = 10, PROF_GROUP_EVENTS = 9 };
typedef struct prof_group {
  uint8_t events[PROF_GROUP_EVENTS];
  uint8_t count;
  uint8_t level; /* the first one whose nodes need it */
} prof_group;
typedef struct prof_family {
  const char *name;   /* "Zen 4" */
  const char *vendor; /* as sys_machine has it */
  uint32_t family;
  struct {
    uint32_t first, last;
  } models[4]; /* a zeroed one ends them, unless it is the first: then all models */
  const sys_event *events;
  const prof_group *groups;
  uint32_t group_count;
  /* From counts per run to parts; NAN where the family does not tell. */
  void (*solve)(const double *counts, bool smt, double *nodes);
} prof_family;

/* NULL: the CPU is none of those that are known. */
const prof_family *prof_family_of(const char *vendor, uint32_t family, uint32_t model);
const prof_family *prof_family_at(size_t index); /* NULL behind the last */

/* Nodes of levels behind `level` become unknown. */
void prof_keep_levels(double *nodes, int level);
/* Which nodes are over their thresholds, and the deepest and largest of these. PROF_NODES: none. */
bool prof_node_counts(const double *nodes, prof_node_id node);
prof_node_id prof_worst_node(const double *nodes);
#endif
