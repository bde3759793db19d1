/* machine.c -- what this machine and this process are, from /proc, /sys, CPUID and the affinity mask. */
#include "sys/sys_priv.h"

#include <ctype.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void sys_read_text(const char *path, char *text, size_t size) {
  size_t length = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  while (file >= 0 && length < size - 1) {
    ssize_t got = read(file, text + length, size - 1 - length);
    if (got <= 0) break;
    length += (size_t)got;
  }
  if (file >= 0) close(file);
  text[length] = 0;
}

void sys_field(const char *text, const char *key, char *value, size_t size) {
  size_t key_length = strlen(key);
  value[0] = 0;
  for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
    if (strncmp(line, key, key_length) != 0) continue;
    const char *at = line + key_length;
    at += strspn(at, " \t");
    if (*at != ':') continue;
    at += 1 + strspn(at + 1, " \t");
    snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
    return;
  }
}

uint64_t sys_parse_bytes(const char *text) {
  char *unit;
  if (!isdigit((unsigned char)*text)) return 0;
  uint64_t number = strtoull(text, &unit, 10);
  unit += strspn(unit, " ");
  switch (*unit) {
    case 'K':
    case 'k': return number << 10;
    case 'M': return number << 20;
    case 'G': return number << 30;
    default: return number;
  }
}

uint64_t sys_bytes_field(const char *text, const char *key) {
  char value[64];
  sys_field(text, key, value, sizeof value);
  return sys_parse_bytes(value);
}

void sys_memory_parse(const char *status, sys_memory *memory) {
  *memory = (sys_memory){.anon_bytes = sys_bytes_field(status, "RssAnon"),
                         .file_bytes = sys_bytes_field(status, "RssFile"),
                         .peak_bytes = sys_bytes_field(status, "VmHWM")};
}

bool sys_memory_now(sys_memory *memory) {
  char text[4096];
  sys_read_text("/proc/self/status", text, sizeof text);
  sys_memory_parse(text, memory);
  return memory->peak_bytes > 0;
}

/* CPUs of the affinity mask; `*first` is the lowest of them. */
static uint32_t allowed_cpus(int *first) {
  cpu_set_t sets[8]; /* 8192 CPUs, the most that Linux is built for */
  *first = 0;
  if (sched_getaffinity(0, sizeof sets, sets) != 0) return 1;
  while (*first < 8 * CPU_SETSIZE - 1 && !CPU_ISSET_S((size_t)*first, sizeof sets, sets)) ++*first;
  return (uint32_t)CPU_COUNT_S(sizeof sets, sets);
}

/* The lowest CPU of the core that `cpu` is part of. */
static uint32_t first_sibling(uint32_t cpu) {
  char path[128], siblings[256];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
  sys_read_text(path, siblings, sizeof siblings);
  return isdigit((unsigned char)*siblings) ? (uint32_t)strtoul(siblings, NULL, 10) : cpu;
}

/* `thread` 0: the caller. */
static uint32_t cpus_of(pid_t thread, uint32_t *cpus, uint32_t most) {
  cpu_set_t sets[8], cores[8];
  uint32_t count = 0;
  if (sched_getaffinity(thread, sizeof sets, sets) != 0) return 0;
  CPU_ZERO_S(sizeof cores, cores);
  for (uint32_t cpu = 0; cpu < 8 * CPU_SETSIZE && count < most; cpu++) {
    if (!CPU_ISSET_S((size_t)cpu, sizeof sets, sets)) continue;
    size_t core = first_sibling(cpu);
    if (core >= 8 * CPU_SETSIZE || CPU_ISSET_S(core, sizeof cores, cores)) continue;
    CPU_SET_S(core, sizeof cores, cores);
    CPU_CLR_S((size_t)cpu, sizeof sets, sets);
    cpus[count++] = cpu;
  }
  for (uint32_t cpu = 0; cpu < 8 * CPU_SETSIZE && count < most; cpu++)
    if (CPU_ISSET_S((size_t)cpu, sizeof sets, sets)) cpus[count++] = cpu;
  return count;
}

uint32_t sys_allowed_cpus(uint32_t *cpus, uint32_t most) { return cpus_of(0, cpus, most); }
uint32_t sys_process_cpus(uint32_t *cpus, uint32_t most) { return cpus_of(getpid(), cpus, most); }

sys_share sys_process_share(void) {
  cpu_set_t sets[8];
  sys_share share = {.quota_cpus = sys_quota_read()};
  const unsigned char *bytes = (const unsigned char *)sets;
  CPU_ZERO_S(sizeof sets, sets);
  if (sched_getaffinity(getpid(), sizeof sets, sets) != 0) return share;
  share.cpus = (uint32_t)CPU_COUNT_S(sizeof sets, sets);
  for (size_t i = 0; i < sizeof sets; i++) share.mark = (share.mark ^ bytes[i]) * 1099511628211u; /* FNV-1a */
  return share;
}

static void read_caches(int cpu, sys_machine *m) {
  for (int i = 0; i < 8; i++) {
    char path[128], level[16], type[32], size[32];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/level", cpu, i);
    sys_read_text(path, level, sizeof level);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/type", cpu, i);
    sys_read_text(path, type, sizeof type);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/size", cpu, i);
    sys_read_text(path, size, sizeof size);
    uint64_t *levels[] = {NULL, &m->l1d_bytes, &m->l2_bytes, &m->l3_bytes};
    uint64_t number = strtoull(level, NULL, 10);
    if (number >= 1 && number <= 3 && *type != 'I') *levels[number] = sys_parse_bytes(size);
  }
}

uint32_t sys_usable_threads(uint32_t allowed, double quota_cpus) {
  uint32_t threads = allowed;
  /* Rounded down: a thread that spins beyond the quota stalls all others when the quota is used up. */
  if (quota_cpus > 0 && quota_cpus < (double)allowed) threads = (uint32_t)quota_cpus;
  return threads ? threads : 1;
}

bool sys_keeps_threads(uint32_t threads, uint32_t cpus, double quota_cpus) {
  return threads <= cpus && (quota_cpus <= 0 || quota_cpus >= cpus || quota_cpus == (double)(uint32_t)quota_cpus);
}

uint32_t sys_threads_read(void) {
  int first;
  return sys_usable_threads(allowed_cpus(&first), sys_quota_read());
}

void sys_caches_read(sys_machine *machine) {
  int first;
  *machine = (sys_machine){0};
  allowed_cpus(&first);
  read_caches(first, machine);
}

enum { TILES = BASE_ISA_AMX_TILE | BASE_ISA_AMX_INT8 | BASE_ISA_AMX_BF16 };

/* Linux saves the tiles of a process that asked for it, once and for all its threads. False: it does not, so that the
 * first such instruction would end the process. Linux, Documentation/arch/x86/xstate.rst. */
static bool allow_tiles(void) {
#if defined __x86_64__ && defined SYS_arch_prctl
  enum { REQUEST = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
  return false;
#endif
}

void sys_cpu_read(sys_machine *machine) {
  sys_cpuid cpuid;
  *machine = (sys_machine){0};
  sys_cpuid_read(&cpuid);
  sys_cpu_of(&cpuid, machine);
  machine->isa = sys_isa_of(&cpuid);
  if ((machine->isa & TILES) && !allow_tiles()) machine->isa &= ~(uint32_t)TILES;
  machine->slow_isa = sys_slow_isa_of(machine, machine->isa);
}

void sys_machine_read(sys_machine *machine) {
  char text[4096];
  int first;
  sys_cpu_read(machine);
  sys_read_text("/proc/cpuinfo", text, sizeof text);
  sys_field(text, "model name", machine->cpu_name, sizeof machine->cpu_name);
  machine->allowed_cpus = allowed_cpus(&first);
  machine->quota_cpus = sys_quota_read();
  machine->threads = sys_usable_threads(machine->allowed_cpus, machine->quota_cpus);
  read_caches(first, machine);
  sys_read_text("/proc/meminfo", text, sizeof text);
  machine->memory_bytes = sys_bytes_field(text, "MemTotal");
}
