/* places.c -- the CPUs that somebody means by "0-3,8", "node 1" or "socket 0". */
#include "runtime/pool_priv.h"
#include "sys/topology.h"

#include <string.h>

/* What stands in front of a list, and which number of a CPU it speaks of. */
static const struct {
  const char *word;
  size_t member;
} places[] = {{"cores ", offsetof(sys_cpu, core)},
              {"node ", offsetof(sys_cpu, node)},
              {"socket ", offsetof(sys_cpu, package)},
              {"", offsetof(sys_cpu, number)}};

static uint32_t number_of(const sys_cpu *cpu, size_t member) {
  uint32_t number;
  memcpy(&number, (const char *)cpu + member, sizeof number);
  return number;
}

/* Of whole cores, nodes and sockets one hardware thread of each core, unless all are wanted, and no efficiency cores.
 */
static bool is_meant(const sys_cpu *cpu, size_t member, const sys_cpu_set *set, bool smt) {
  if (!sys_set_has(set, number_of(cpu, member))) return false;
  if (member == offsetof(sys_cpu, number)) return true;
  return cpu->allowed && (smt || cpu->thread == 0) && (member == offsetof(sys_cpu, core) || !cpu->efficient);
}

static td_status find(const sys_topology *machine, const char *text, bool smt, run_cpus *found, td_error *err) {
  sys_cpu_set set = {{0}};
  uint32_t place = 0;
  while (strncmp(text, places[place].word, strlen(places[place].word)) != 0) place++;
  const char *list = text + strlen(places[place].word);
  if (!sys_set_parse((base_str){list, strlen(list)}, &set))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "\"%s\" names no CPUs: \"0-3,8\", \"cores 0-3\", \"node 1\" or \"socket 0\" do", text);
  found->count = 0;
  uint32_t asked = sys_set_count(&set);
  for (uint32_t i = 0; i < machine->count && found->count < RUN_MOST_THREADS; i++) {
    const sys_cpu *cpu = &machine->cpus[i];
    if (!is_meant(cpu, places[place].member, &set, smt)) continue;
    if (!cpu->allowed)
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "the affinity of this thread does not allow CPU %u of \"%s\"",
                       cpu->number, text);
    found->at[found->count++] = cpu->number;
    asked -= asked > 0;
  }
  if (found->count && (*places[place].word || !asked)) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "\"%s\" names %s that are not there, or not allowed", text,
                   *places[place].word ? places[place].word : "CPUs");
}

td_status run_find_cpus(const char *text, bool smt, const td_allocator *allocator, run_cpus *found, td_error *err) {
  sys_topology machine;
  base_arena *arena = base_arena_new(allocator);
  if (!arena) return base_no_memory(err, "the CPUs of a pool");
  td_status status = sys_topology_read("", arena, &machine, err);
  if (status == TD_OK) status = find(&machine, text, smt, found, err);
  base_arena_free(arena);
  return status;
}
