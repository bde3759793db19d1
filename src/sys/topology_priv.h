/* topology_priv.h -- what the readers of topology.h share. */
#ifndef SYS_TOPOLOGY_PRIV_H
#define SYS_TOPOLOGY_PRIV_H
#include "sys/topology.h"

/* A CPU as a reader finds it: keys are any numbers that are equal for what is one. */
typedef struct sys_found_cpu {
  uint32_t number, core_key, package, node, l3_key;
  bool efficient, allowed;
} sys_found_cpu;
typedef BASE_VEC(sys_found_cpu) sys_found_cpus;

/* Orders and counts what was found, which it changes. */
td_status sys_topology_of(sys_found_cpus *found, base_arena *arena, sys_topology *topology, td_error *err);
/* The CPUs of hwloc's synthetic description, a line without ';'. */
td_status sys_synthetic_cpus(base_str text, base_arena *arena, sys_found_cpus *found, td_error *err);
/* The CPUs of hwloc's XML. */
td_status sys_xml_cpus(base_str text, base_arena *arena, sys_found_cpus *found, td_error *err);
/* The least limit of the cgroups of a tree under `root`. */
double sys_quota_under(const char *root);
#endif
