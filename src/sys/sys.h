/* sys.h -- the operating system, as far as the library needs it: files as memory, address space, time, threads, and
 * facts about the machine. Linux. */
#ifndef SYS_SYS_H
#define SYS_SYS_H
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- files as memory (map.c) ---- */

/* The bytes of a regular file, read-only. An empty file has size 0 and a valid `bytes`. Zeroed: nothing is mapped. */
typedef struct sys_mapping {
  const void *bytes;
  size_t size;
} sys_mapping;

/* Maps the regular file at `path`, until sys_unmap. The file must not shrink while it is mapped. Errors name the path:
 * TD_BAD_FILE with the system's reason, TD_NO_RESOURCE for lack of descriptors or address space. */
td_status sys_file_map(const char *path, sys_mapping *mapping, td_error *err);
/* Maps the file `location` of a document in `folder`: for names that a file from a stranger gives. `location` must be
 * relative, without "." or ".." components or backslashes, and reach a regular file beneath `folder` without passing a
 * symbolic link (none is followed, also not one that stays inside). `folder` itself may be a link. */
td_status sys_map_beneath(const char *folder, const char *location, sys_mapping *mapping, td_error *err);
/* Takes the mapping away and zeroes it. A zeroed mapping is allowed. */
void sys_unmap(sys_mapping *mapping);

/* ---- address space (reserve.c) ---- */

enum { SYS_RESERVE_LEAST = 1 << 26 };
/* Address space of `*bytes` bytes, zero, page-aligned, readable and writable; memory is committed page by page when it
 * is first touched. Where the system refuses, halves the size down to SYS_RESERVE_LEAST; `*bytes` becomes what it is.
 * NULL: refused. Give it back with sys_release. */
void *sys_reserve(size_t *bytes);
void sys_release(void *memory, size_t bytes);
/* Gives the whole pages inside the range back to the system; they read as zero afterwards. */
void sys_give_back(void *memory, size_t bytes);
/* Asks for large pages in the range, which fewer TLB entries cover. A wish: nothing depends on it. */
void sys_want_huge_pages(void *memory, size_t bytes);

/* The C library's allocator, but blocks of 2 MiB and more begin on a large page and ask for such. */
extern const td_allocator sys_allocator;

/* ---- time and threads (thread.c) ---- */

uint64_t sys_clock_ns(void); /* monotonic, from an arbitrary start */

typedef struct sys_thread {
  pthread_t handle;
  void (*run)(void *user);
  void *user;
} sys_thread;
/* Calls run(user) on a new thread. `*thread` must stay where it is until sys_thread_join, which waits for the end. */
td_status sys_thread_start(sys_thread *thread, void (*run)(void *user), void *user, td_error *err);
void sys_thread_join(sys_thread *thread);
/* Keeps the calling thread on CPU number `index` of those its affinity allows, counted from 0. False: there is none, or
 * the system refuses. */
bool sys_thread_pin(uint32_t index);
/* Moves another thread to the CPU that the system calls `cpu`, and keeps it there. False: the system refuses. */
bool sys_thread_move(const sys_thread *thread, uint32_t cpu);
/* The same for several CPUs. */
bool sys_thread_keep(const sys_thread *thread, const uint32_t *cpus, uint32_t count);
/* Names it for debuggers and `top`; at most 15 bytes count. */
void sys_thread_name(const sys_thread *thread, const char *name);
uint32_t sys_cpu_now(void); /* the system's number of the CPU that runs the caller; UINT32_MAX: unknown */
void sys_yield(void);       /* lets another thread have the CPU */
/* Adds one to the eventfd `event`, which wakes its pollers. Never blocks for long: a full one is readable anyhow. */
void sys_event_add(int32_t event);

/* Sleeps while *word is `expected`, until sys_wake; may also return for no reason. */
void sys_wait(_Atomic uint32_t *word, uint32_t expected);
/* The same until sys_clock_ns is `until_ns` at the latest; 0: without an end. */
void sys_wait_until(_Atomic uint32_t *word, uint32_t expected, uint64_t until_ns);
/* Ends the sleep of all threads of this process that wait for `word`. */
void sys_wake(_Atomic uint32_t *word);

/* ---- the machine (machine.c, cgroup.c, isa.c) ---- */

typedef struct sys_machine {
  char cpu_name[64];              /* "" when unknown */
  char cpu_vendor[16];            /* "GenuineIntel", "AuthenticAMD", ...; "" when unknown */
  uint32_t cpu_family, cpu_model; /* as CPUID says them; 0 when unknown */
  uint32_t isa;                   /* BASE_ISA_* bits that the CPU has and the system lets us use */
  uint32_t slow_isa;              /* of those, what this CPU runs slower than what it replaces: for who names it */
  uint32_t allowed_cpus;          /* logical CPUs that the affinity of this thread allows; at least 1 */
  double quota_cpus;              /* CPU time per time that cgroups allow, as a number of CPUs; 0: no limit */
  uint32_t threads;               /* usable: allowed CPUs capped by the whole CPUs of the quota, at least 1 */
  uint64_t l1d_bytes, l2_bytes, l3_bytes; /* of one instance, seen from one allowed CPU; 0: unknown */
  uint64_t memory_bytes;                  /* of the machine */
} sys_machine;
/* Reads everything again; what cannot be determined stays 0 or "". */
void sys_machine_read(sys_machine *machine);
/* Parts of it, at a fraction of the cost, which is paid whenever a model is loaded: `threads`; the caches; vendor,
 * family, model, isa and slow_isa. All else is 0 or "". */
uint32_t sys_threads_read(void);
void sys_caches_read(sys_machine *machine);
void sys_cpu_read(sys_machine *machine);
/* The numbers of at most `most` CPUs that the affinity of this thread allows: one of each core first, then their
 * siblings. How many there are in `cpus`. */
uint32_t sys_allowed_cpus(uint32_t *cpus, uint32_t most);
/* The same of the process: of its first thread, whose affinity is what tools change. */
uint32_t sys_process_cpus(uint32_t *cpus, uint32_t most);
/* Threads that so many CPUs and a quota (0: none) allow, at least 1. */
uint32_t sys_usable_threads(uint32_t allowed_cpus, double quota_cpus);
/* Is each of so many threads to be kept on a CPU of its own? Not where there are fewer, nor where a part of one is the
 * quota: that is better had on any CPU that is free. */
bool sys_keeps_threads(uint32_t threads, uint32_t cpus, double quota_cpus);

/* What the process may use now, to be compared with what it could before. */
typedef struct sys_share {
  uint32_t cpus; /* that the affinity of its first thread allows */
  uint64_t mark; /* of which these are */
  double quota_cpus;
} sys_share;
sys_share sys_process_share(void);

/* Bytes that this process may have: the least limit of its cgroups (memory.max), or all that the machine has; 0: the
 * system does not tell. */
uint64_t sys_memory_limit_read(void);

/* Memory of this process. */
typedef struct sys_memory {
  uint64_t anon_bytes; /* resident and not backed by a file */
  uint64_t file_bytes; /* resident pages of mapped files */
  uint64_t peak_bytes; /* the most that was ever resident, of both kinds */
} sys_memory;
/* False, and zeros, when the system does not tell. */
bool sys_memory_now(sys_memory *memory);
#endif
