/* runtime_priv.h -- the session and its parts. */
#ifndef RUNTIME_RUNTIME_PRIV_H
#define RUNTIME_RUNTIME_PRIV_H
#include "runtime/runtime.h"
#include "sys/sys.h"

/* A reservation used as a stack of bytes. */
typedef struct run_stack {
  char *base;
  size_t size, used, peak;
} run_stack;
td_status run_stack_open(run_stack *s, td_error *err);
void run_stack_close(run_stack *s);
void *run_stack_take(run_stack *s, size_t bytes); /* 64-byte aligned, not cleared; NULL when full */
void run_stack_cut(run_stack *s, size_t used);    /* drops what was taken since; gives far pages back */

/* ---- the pool (pool.c) ---- */

/* One thread of a pool. What its steps need is its own; `state` settles who takes part in a step, see pool.c. */
typedef struct run_worker {
  run_pool *pool;
  uint32_t index; /* 0: the caller, who has no thread, scratch or state here */
  uint32_t cpu;   /* where it is kept, or was seen last; UINT32_MAX: anywhere. The caller's */
  sys_thread thread;
  run_stack scratch;
  td_error err;
  _Alignas(64) _Atomic uint64_t state;
  td_status status; /* of its part; written by the worker before `state` says that it is done */
} run_worker;
typedef td_status (*run_job)(void *user, run_worker *worker, uint32_t workers);

/* Takes the pool for a run and wakes its threads. False: another session has it. */
bool run_pool_enter(run_pool *pool);
void run_pool_leave(run_pool *pool);
/* Between these two: calls `job` on the first `workers` threads, the caller's among them, and waits for their end.
 * Threads that have not begun when the caller's call returns are left out, so the calls must share their tasks out by
 * the lanes of run_pool_call. The error of the lowest worker that failed; the caller's job fills `err` itself, others
 * worker->err.
 */
td_status run_pool_share(run_pool *pool, uint32_t workers, run_job job, void *user, td_error *err);
/* `step` as the call of a worker in the job at hand: of its share of the tasks. */
base_call run_pool_call(const run_worker *worker, uint32_t workers, const base_call *step);
run_worker *run_pool_worker(run_pool *pool, uint32_t index); /* below run_pool_threads */
size_t run_pool_scratch(const run_pool *pool);               /* most bytes that the scratch of all workers held */

/* ---- the session ---- */

enum { RUN_BINDINGS = 16 };

/* A step, prepared. Of IF, LOOP and END the kind alone counts. */
typedef struct run_step {
  base_call call;
  base_call_fn run;
  uint32_t kind; /* plan_kind */
  bool defines;
  bool varies; /* some operand is in the tail, some output is not: the sizes are compared at every run */
  bool fixed;  /* SHOW: depends on nothing that changes while a binding is active; shown once */
} run_step;

/* What is known of a step under a binding. */
enum {
  RUN_CHECKED = 1 /* its sizes were compared with its operands' values */,
  RUN_SHOWN = 2 /* need not run again */
};

typedef struct run_shares run_shares; /* shares.c */

/* One seen combination of input shapes. */
typedef struct run_bound {
  base_arena *arena;
  int64_t *key; /* rank and dims of every input, in order; in the arena */
  plan_binding binding;
  uint8_t *known;     /* per step: RUN_CHECKED, RUN_SHOWN */
  uint16_t *threads;  /* per step: how many it is worth; 0 before that is known */
  void **wholes;      /* where the slices of the parts that run now begin as a whole */
  run_shares *shares; /* per plan_shares of the binding */
  uint16_t most_threads;
  uint64_t used; /* run number, for eviction */
} run_bound;

struct run_session {
  const plan_exe *plan;
  td_allocator allocator;
  base_arena *arena;     /* everything of fixed size */
  base_value *values;    /* per slot */
  base_value **pointers; /* per operand of the plan: into values, or NULL */
  run_step *steps;
  base_value *inputs; /* as set by the caller */
  bool *input_set;
  bool inputs_moved;  /* an input was set since the last run */
  bool any_unaligned; /* some input lies where its elements are not aligned, and the plan wants them to be */
  base_value **lists; /* per input: items given by the caller */
  size_t *list_caps;
  int64_t *key; /* scratch for look-up */
  size_t cache; /* bytes of one that steps may count on, see plan_means */
  run_bound bounds[RUN_BINDINGS];
  uint32_t bound_count;
  run_bound *active;
  char *memory; /* the arena of planned offsets */
  size_t memory_bytes;
  run_stack tail, scratch;
  run_pool *pool;                                       /* NULL: the caller's thread alone */
  enum { RUN_UNDECIDED, RUN_TOGETHER, RUN_ALONE } team; /* of the run in progress: did it get the pool? */
  td_error error;                                       /* of the run in progress */
  td_observer observer;
  bool observed;
  uint64_t *spent; /* per step that runs in parts now: ns so far */
  uint64_t runs;
  bool ran; /* outputs are valid */
};

/* Runs steps [first, end). */
td_status run_steps(run_session *s, uint32_t first, uint32_t end);
/* Runs step `number`, a CALL or SHOW, on what its operands hold now; the observer hears of it. */
td_status run_call(run_session *s, uint32_t number);
/* Of a step that comes again for the next part: adds its time to `spent`, if anybody wants to know. */
td_status run_call_part(run_session *s, uint32_t number);
/* Compares the planned sizes of step `number` with what its operands say, unless that was done and holds. */
td_status run_check(run_session *s, uint32_t number);
/* Makes `call` a worker's, with that one's memory and error. */
void run_give_call(base_call *call, run_worker *worker);
size_t run_find_cache(void); /* see plan_means */
/* Room for what run_parts keeps, for all parts of the binding. */
td_status run_prepare_parts(run_bound *bound, td_error *err);
/* Runs the steps of `parts`, part by part (parts.c). */
td_status run_parts(run_session *s, const plan_parts *parts);
/* Makes sizes and views of steps [first, end) known, for all samples: a view needs no more than addresses. */
td_status run_prepare_range(run_session *s, uint32_t first, uint32_t end);
/* The observer, if there is one, hears of steps [first, end): before they run in parts, and after the last part. */
void run_range_begins(run_session *s, uint32_t first, uint32_t end);
void run_range_ends(run_session *s, uint32_t first, uint32_t end);
/* The shares of `parts`, if it is the first of them; NULL: it is in none. */
const run_shares *run_shares_at(const run_session *s, uint32_t parts);
td_status run_prepare_shares(run_session *s, run_bound *bound, td_error *err);
/* Runs all their steps; *end: the step behind them (shares.c). */
td_status run_all_shares(run_session *s, const run_shares *h, uint32_t *end);
/* Time of what runs on one thread: that of the thread, where less of it than of the clock has passed. */
typedef struct run_watch {
  uint64_t clock_ns, thread_ns;
} run_watch;
run_watch run_watch_start(void);
uint64_t run_watch_ns(const run_watch *watch, bool alone); /* `alone`: no other thread has taken part */
/* Takes the pool for this run, unless that was tried before. */
void run_gather_team(run_session *s);
/* Stores `from` (in slot `source`) into slot `target`: by copy where the target is planned or the source will be
 * reused. */
td_status run_assign(run_session *s, uint32_t target, uint32_t source);
/* Deep copy of a value into the tail. */
td_status run_keep(run_session *s, const base_value *from, base_value *to);
/* Moves the tail values of `slots` down to `mark` and drops everything else above it. */
td_status run_compact(run_session *s, const uint32_t *slots, uint32_t count, size_t mark);
#endif
