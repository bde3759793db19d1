/* sys_priv.h -- the pure half of machine.c, cgroup.c and isa.c: facts from text and registers, for tests too. */
#ifndef SYS_SYS_PRIV_H
#define SYS_SYS_PRIV_H
#include "sys/sys.h"

enum { SYS_PATH_MAX = 4096, SYS_TEXT_MAX = 1 << 16 };

/* The text of a small file, NUL-terminated and cut at SYS_TEXT_MAX - 1 bytes; "" when it cannot be read. */
void sys_read_text(const char *path, char *text, size_t size);

/* 0, or the reason why not all was written. */
int sys_write_all(int file, const void *bytes, size_t count);

/* ---- isa.c ---- */

typedef struct sys_cpuid {
  uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx, leaf7_edx, leaf7_1_eax;
  uint64_t xcr0; /* register state that the system saves; 0 when it does not say */
  uint32_t leaf0_ebx, leaf0_ecx, leaf0_edx, leaf1_eax;
} sys_cpuid;
/* Vendor, family and model; nothing where the CPU does not say. */
void sys_cpu_of(const sys_cpuid *cpuid, sys_machine *machine);
uint32_t sys_isa_of(const sys_cpuid *cpuid);
/* Of the sets `isa` of a CPU of that name, those that are slow. */
uint32_t sys_slow_isa_of(const sys_machine *cpu, uint32_t isa);
void sys_cpuid_read(sys_cpuid *cpuid);

/* ---- cgroup.c ---- */

/* Where a limit of this process stands: `folder` and its parents up to `top`, both "" when there is no such place. */
typedef struct sys_cgroup {
  char folder[SYS_PATH_MAX], top[SYS_PATH_MAX];
} sys_cgroup;
/* From the texts of /proc/self/cgroup and /proc/self/mountinfo: the place in the hierarchy of the v1 controller `v1`
 * ("cpu"), or with NULL in the unified one (v2). */
void sys_cgroup_find(const char *cgroup, const char *mountinfo, const char *v1, sys_cgroup *place);
/* CPUs from the text of cpu.max, or of cpu.cfs_quota_us and cpu.cfs_period_us; 0: no limit. */
double sys_quota_v2(const char *cpu_max);
double sys_quota_v1(const char *quota_us, const char *period_us);
/* The least limit of all hierarchies and ancestors; 0: none. */
double sys_quota_read(void);
/* sys_memory_limit_read of a tree under `root`. */
uint64_t sys_memory_limit_under(const char *root);

/* ---- machine.c ---- */

/* The first value of `key` in text of lines "key : value", trimmed, into `value`; "" when there is none. */
void sys_field(const char *text, const char *key, char *value, size_t size);
/* "32K", "1024K", "32M", "1G" or plain bytes; 0 for what is none. */
uint64_t sys_parse_bytes(const char *text);
/* Both: the bytes of a field; 0: there is none. */
uint64_t sys_bytes_field(const char *text, const char *key);
void sys_memory_parse(const char *status, sys_memory *memory);
#endif
