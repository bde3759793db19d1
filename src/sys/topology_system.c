/* topology_system.c -- this machine's CPUs, from /sys, as the kernel documents it (sysfs-devices-system-cpu). What is
 * not there (containers mask /sys and /proc) makes a CPU a core of its own, of package, node and cache 0. */
#include "sys/topology_priv.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys_priv.h"

enum { LIST_MAX = 8192 };

/* A small file under `root`; false: not there or empty. */
static bool read_under(const char *root, const char *path, char *text) {
  char full[SYS_PATH_MAX];
  if (snprintf(full, sizeof full, "%s%s", root, path) >= (int)sizeof full) return false;
  sys_read_text(full, text, LIST_MAX);
  return text[0] != 0;
}

static bool read_set(const char *root, const char *path, sys_cpu_set *set) {
  char text[LIST_MAX];
  *set = (sys_cpu_set){0};
  return read_under(root, path, text) && sys_set_parse(base_str_of(text), set);
}

static bool read_number(const char *root, const char *path, uint32_t *number) {
  char text[LIST_MAX], *end;
  if (!read_under(root, path, text)) return false;
  const unsigned long value = strtoul(text, &end, 10);
  if (end == text || text[0] == '-' || value > UINT32_MAX) return false;
  *number = (uint32_t)value;
  return true;
}

static uint32_t lowest(const sys_cpu_set *set) {
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++)
    if (sys_set_has(set, i)) return i;
  return UINT32_MAX;
}

/* The affinity of this thread, or of a recorded process. */
static void read_allowed(const char *root, sys_cpu_set *allowed) {
  char status[LIST_MAX], list[4096];
  *allowed = (sys_cpu_set){0};
  if (*root) {
    if (!read_under(root, "/proc/self/status", status)) return;
    sys_field(status, "Cpus_allowed_list", list, sizeof list);
    if (!sys_set_parse(base_str_of(list), allowed)) *allowed = (sys_cpu_set){0};
    return;
  }
  cpu_set_t sets[SYS_MOST_CPUS / CPU_SETSIZE];
  if (sched_getaffinity(0, sizeof sets, sets) != 0) return;
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++)
    if (CPU_ISSET_S((size_t)i, sizeof sets, sets)) sys_set_add(allowed, i);
}

static void read_cpu(const char *root, sys_found_cpu *cpu) {
  char path[160];
  sys_cpu_set set;
  uint32_t level;
  static const char base[] = "/sys/devices/system/cpu/cpu";
  snprintf(path, sizeof path, "%s%u/topology/physical_package_id", base, cpu->number);
  if (!read_number(root, path, &cpu->package)) cpu->package = 0;
  snprintf(path, sizeof path, "%s%u/topology/thread_siblings_list", base, cpu->number);
  cpu->core_key = read_set(root, path, &set) && sys_set_has(&set, cpu->number) ? lowest(&set) : cpu->number;
  cpu->l3_key = UINT32_MAX - cpu->package; /* where no cache is told, a package is one */
  for (int i = 0; i < 8; i++) {
    snprintf(path, sizeof path, "%s%u/cache/index%d/level", base, cpu->number, i);
    if (!read_number(root, path, &level)) break;
    snprintf(path, sizeof path, "%s%u/cache/index%d/shared_cpu_list", base, cpu->number, i);
    if (level == 3 && read_set(root, path, &set)) cpu->l3_key = lowest(&set);
  }
}

static void read_nodes(const char *root, sys_found_cpus *found) {
  sys_cpu_set nodes, cpus;
  if (!read_set(root, "/sys/devices/system/node/online", &nodes)) return;
  for (uint32_t node = 0; node < SYS_MOST_CPUS; node++) {
    char path[160];
    if (!sys_set_has(&nodes, node)) continue;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", node);
    if (!read_set(root, path, &cpus)) continue;
    for (uint32_t i = 0; i < found->count; i++)
      if (sys_set_has(&cpus, found->at[i].number)) found->at[i].node = node;
  }
}

/* What this CPU can do at most, in units that are comparable within a machine; 0: not told. */
static uint32_t capacity_of(const char *root, uint32_t cpu) {
  char path[160];
  uint32_t capacity = 0;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpu_capacity", cpu);
  if (read_number(root, path, &capacity)) return capacity;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpufreq/cpuinfo_max_freq", cpu);
  return read_number(root, path, &capacity) ? capacity : 0;
}

static int ascending(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Efficiency cores: as the kernel lists them (hybrid x86), or those beneath the highest gap of at least 15 % of the
 * fastest one's capacity: the fastest cores of one kind differ by less. */
static td_status find_efficient(const char *root, base_arena *arena, sys_found_cpus *found, td_error *err) {
  sys_cpu_set atoms;
  if (read_set(root, "/sys/devices/cpu_atom/cpus", &atoms)) {
    for (uint32_t i = 0; i < found->count; i++) found->at[i].efficient = sys_set_has(&atoms, found->at[i].number);
    return TD_OK;
  }
  uint32_t *capacities = base_new(arena, uint32_t, 2 * (size_t)found->count), *sorted = capacities + found->count;
  if (!capacities) return base_no_memory(err, "a topology");
  for (uint32_t i = 0; i < found->count; i++) sorted[i] = capacities[i] = capacity_of(root, found->at[i].number);
  qsort(sorted, found->count, sizeof *sorted, ascending);
  if (sorted[0] == 0) return TD_OK;
  const uint32_t most = sorted[found->count - 1];
  for (uint32_t i = found->count; i-- > 1;) {
    if ((double)(sorted[i] - sorted[i - 1]) < 0.15 * most) continue;
    for (uint32_t k = 0; k < found->count; k++) found->at[k].efficient = capacities[k] < sorted[i];
    break;
  }
  return TD_OK;
}

td_status sys_topology_read(const char *root, base_arena *arena, sys_topology *t, td_error *err) {
  sys_found_cpus found = {0};
  sys_cpu_set online, allowed;
  read_allowed(root, &allowed);
  if (!read_set(root, "/sys/devices/system/cpu/online", &online)) online = allowed;
  bool any = false;
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++) any |= sys_set_has(&online, i) && sys_set_has(&allowed, i);
  if (sys_set_count(&online) == 0) sys_set_add(&online, 0);
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++) {
    if (!sys_set_has(&online, i)) continue;
    sys_found_cpu *cpu = base_vec_push(arena, &found);
    if (!cpu) return base_no_memory(err, "a topology");
    *cpu = (sys_found_cpu){.number = i, .allowed = !any || sys_set_has(&allowed, i)};
    read_cpu(root, cpu);
  }
  read_nodes(root, &found);
  TRY(find_efficient(root, arena, &found, err));
  TRY(sys_topology_of(&found, arena, t, err));
  t->quota_cpus = sys_quota_under(root);
  t->here = !*root;
  return TD_OK;
}
