/* pool_priv.h -- pools of threads (pool.c), and the teams that sessions make of them (team.c). Who
 * the threads are: executor_priv.h. */
#ifndef RUNTIME_POOL_PRIV_H
#define RUNTIME_POOL_PRIV_H
#include "runtime/runtime.h"
#include "runtime/stack_priv.h"
#include "sys/sys.h"
#include "sys/topology.h"

enum { RUN_LINE = 64 };

typedef struct run_team run_team;
typedef struct run_worker run_worker;
typedef td_status (*run_job)(void *user, run_worker *worker, uint32_t workers);

/* One thread of a pool, or the caller at the head of a team, who has no thread, scratch, order or state here. */
struct run_worker {
  run_pool *pool;
  _Atomic(run_team *) team;   /* that it belongs to; NULL: none. Changed under the pool's lock while it is idle */
  uint32_t index;             /* in the team: 0 leads */
  uint32_t cpu;               /* where it is kept; UINT32_MAX: anywhere. Of the pool's first: the CPU that is left */
  run_worker *below, *beside; /* in the tree: the first that it tells, the next that is told by the same */
  sys_thread thread;
  run_stack scratch;
  td_error err;
  _Alignas(RUN_LINE) _Atomic uint64_t order; /* number of the last; written by who is above it */
  _Alignas(RUN_LINE) _Atomic uint64_t state;
  td_status status;        /* of its part; written before `state` says that it is done, as is the next */
  uint32_t tried;          /* its own: see run_crew_waits */
  run_worker *failed;      /* the first of it and those below it whose part failed; NULL: none */
  _Atomic uint32_t asleep; /* or about to be */
  _Alignas(RUN_LINE) _Atomic uint32_t wakes; /* what it sleeps on */
};

struct run_pool {
  td_allocator allocator;
  uint32_t threads, capacity; /* a caller's included; there is room for */
  bool crowded;               /* more threads than CPUs: who waits lets others run */
  bool pins;                  /* workers are kept on CPUs */
  bool named;                 /* the caller said on which */
  uint64_t spin_ns;           /* between inferences */
  _Atomic uint32_t caches;    /* L3 caches that its CPUs lie in; 0: nobody has counted them */
  _Atomic uint64_t look_ns;   /* from one look at affinity and quota to the next */
  run_worker *workers;        /* the first stands for the caller */
  uint32_t *cpus, cpu_count;  /* that it may use */
  uint32_t interop;           /* threads that run tasks, the caller's included: workers first, then a crew's own */
  struct run_crew *_Atomic crew;
  atomic_flag making_crew;
  _Alignas(RUN_LINE) atomic_flag lock;                 /* of what follows, and of who belongs to which team */
  run_team *teams;                                     /* that run now, in the order they began */
  uint64_t weight;                                     /* of these together */
  _Atomic uint32_t limit;                              /* threads that may compute at a time; written with the lock */
  uint64_t crowd_ns;                                   /* when two teams ran at a time last */
  sys_share share;                                     /* of the process, as it was seen last */
  _Alignas(RUN_LINE) _Atomic uint32_t active, changes; /* teams that run; how often that, or the limit, has changed */
  _Atomic uint64_t looked_ns;
};

/* What a session has of a pool: while it runs, its caller's thread and a share of the workers. */
struct run_team {
  run_pool *pool;
  run_worker leader;
  run_team *next;        /* that runs */
  bool runs, sated;      /* sated: its share is the most that it takes (team.c, with the lock) */
  uint32_t weight, most; /* threads that it takes at most */
  uint32_t count;        /* members, the leader included */
  uint32_t seen;         /* pool->changes that its members are right for; 0: look again */
  run_job job;           /* written by the leader before its orders, as are the next three */
  void *user;
  uint32_t workers, jobs; /* that take part; since the lanes were clear */
  base_lane *lanes;       /* one per thread of the pool */
};

/* ---- pool.c ---- */

void run_pool_lock(run_pool *pool);
void run_pool_unlock(run_pool *pool);
/* With the lock: these are the CPUs now. */
void run_pool_settle_cpus(run_pool *pool, const uint32_t *cpus, uint32_t count);
/* How many L3 caches the CPUs lie in, one CPU per thread. The machine is read for that, which takes a millisecond for
 * some CPUs, unless run_pool_count_caches was given one. */
uint32_t run_pool_caches(run_pool *pool);
void run_pool_count_caches(run_pool *pool, const sys_topology *machine);
/* What affinity and quota of the process say, where the last look was long ago. A worker that waits finds out, since
 * nobody waits for it meanwhile. */
void run_pool_look_around(run_pool *pool, uint64_t now_ns);
/* Keeps a thread that calls sessions of the pool on the pool's CPUs, where somebody has named these. */
void run_pool_keep(run_pool *pool, const sys_thread *thread);
size_t run_pool_scratch(const run_pool *pool); /* most bytes that the scratch of all workers held */

/* ---- team.c ---- */

/* Of a session that uses the pool: it gets a share by `weight` when others run at the same time. */
td_status run_team_new(run_pool *pool, uint32_t weight, run_team **team, td_error *err);
void run_team_free(run_team *team); /* it does not run; NULL allowed */
/* A run begins, on this thread; with `wake` its workers wake up, since they will be needed. */
void run_team_enter(run_team *team, bool wake);
void run_team_leave(run_team *team);
/* How many threads the team has now, the caller's included. Between jobs, of a run: takes what others have given back,
 * and gives back what others are to have. */
uint32_t run_team_threads(run_team *team);
/* Calls `job` on the first `workers` of these, the caller's among them, and waits for their end. Threads that have not
 * begun when those above them are through are left out, so the calls must share their tasks out by the lanes of
 * run_team_call. The error of the lowest worker that failed; the caller's job fills `err` itself, others worker->err.
 */
td_status run_team_share(run_team *team, uint32_t workers, run_job job, void *user, td_error *err);
/* `step` as the call of a worker in the job at hand: of its share of the tasks. */
base_call run_team_call(const run_worker *worker, uint32_t workers, const base_call *step);
#endif
