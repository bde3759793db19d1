/* topology.h -- the CPUs of a machine and how they hang together: read from the system, or from a text about another
 * machine, so that every layout can be tested on any machine. */
#ifndef SYS_TOPOLOGY_H
#define SYS_TOPOLOGY_H
#include "base/base.h"

enum { SYS_MOST_CPUS = 8192 }; /* the most that Linux is built for */

/* One CPU that is online: a hardware thread of a core. */
typedef struct sys_cpu {
  uint32_t number;  /* the system's */
  uint32_t core;    /* counted from 0 by package, node, L3 cache and lowest CPU number */
  uint32_t thread;  /* which of its core's CPUs, counted from 0 by number */
  uint32_t package; /* the system's number */
  uint32_t node;    /* of memory, the system's number */
  uint32_t l3;      /* counted from 0 in the order of cores */
  bool efficient;   /* of a core made for little power, slower than others of this machine */
  bool allowed;     /* by the affinity of the calling thread, which cpusets narrow */
} sys_cpu;

/* Plain data in the arena that it was read into. Any thread may read it. */
typedef struct sys_topology {
  sys_cpu *cpus;                        /* in the order of cores, a core's threads behind one another */
  uint32_t count;                       /* at least 1 */
  uint32_t cores, packages, nodes, l3s; /* how many there are */
  uint32_t allowed;                     /* CPUs */
  double quota_cpus;                    /* CPU time per time that cgroups allow; 0: no limit */
  bool here;                            /* the machine that runs us */
} sys_topology;

/* This machine, with this thread's affinity and this process's cgroups. `root` stands in front of /sys and /proc (""
 * for the real ones); of a recorded tree the affinity is that of its /proc/self/status. Without a /sys every CPU is a
 * core of one package, node and cache. */
td_status sys_topology_read(const char *root, base_arena *arena, sys_topology *topology, td_error *err);
/* A machine from text: XML as hwloc's lstopo writes it, or statements divided by ';' or newlines, '#' to the end of a
 * line being a comment:
 *   package:2 [numa] core:28 pu:2(indexes=core:package)    hwloc's synthetic description, which must be first
 *   efficient LIST    CPUs of efficiency cores             offline LIST    CPUs that are not there
 *   allowed LIST      affinity; all by default             quota NUMBER    of cgroups, in CPUs
 * Errors say where in the text, and why. */
td_status sys_topology_parse(base_str text, base_arena *arena, sys_topology *topology, td_error *err);
/* The same from the file of that name, or, if there is none, from `text` itself. */
td_status sys_topology_load(const char *text, base_arena *arena, sys_topology *topology, td_error *err);
/* The CPU of that number; NULL: there is none. */
const sys_cpu *sys_topology_find(const sys_topology *topology, uint32_t number);

/* How many L3 caches these CPUs lie in; those that are not there lie in none. */
uint32_t sys_topology_caches(const sys_topology *topology, const uint32_t *cpus, uint32_t count);

/* A set of numbers below SYS_MOST_CPUS, as "0-3,8-9" writes it. */
typedef struct sys_cpu_set {
  uint64_t words[SYS_MOST_CPUS / 64];
} sys_cpu_set;
void sys_set_add(sys_cpu_set *set, uint32_t number);
bool sys_set_has(const sys_cpu_set *set, uint32_t number);
uint32_t sys_set_count(const sys_cpu_set *set);
/* Adds what the list says. False: it is none; blanks around it are allowed, an empty one is not. */
bool sys_set_parse(base_str list, sys_cpu_set *set);
/* "0-3,8-9"; "" for none. */
void sys_set_print(const sys_cpu_set *set, base_text *text);
#endif
