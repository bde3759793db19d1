/* runtime.h -- pools of threads, and sessions over a plan. */
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H
#include "plan/bind.h"

/* ---- pools (pool.c) ---- */

typedef struct run_pool run_pool;
/* A pool of `threads` threads, the caller's included (0: what affinity and quota allow), that spin for `spin_us`
 * microseconds after a run before they sleep (0: 100). The pool is smaller if the system refuses threads. */
td_status run_pool_new(uint32_t threads, uint32_t spin_us, const td_allocator *allocator, run_pool **pool,
                       td_error *err);
/* Before a session uses the pool: `threads` threads, the caller's included, run the tasks that a plan forks. At first:
 * as many as the pool has. */
void run_pool_set_interop(run_pool *pool, uint32_t threads);
enum { RUN_MOST_THREADS = 1024 };
typedef struct run_cpus {
  uint32_t at[RUN_MOST_THREADS], count; /* by the system's numbers */
} run_cpus;
/* The CPUs that `text` names: "0-3,8" by number; "cores 0-3", "node 1" or "socket 0", one hardware thread of each core,
 * or, with `smt`, all (places.c). Errors: TD_BAD_ARGUMENT where one is not there or not allowed. */
td_status run_find_cpus(const char *text, bool smt, const td_allocator *allocator, run_cpus *found, td_error *err);
typedef struct run_pool_options {
  uint32_t threads, spin_us; /* as above; of given CPUs 0: as many as they and the quota allow */
  const char *name;          /* of its threads, for debuggers; NULL: the library's */
  const run_cpus *cpus;      /* NULL: those that affinity allows */
} run_pool_options;
td_status run_pool_new_on(const run_pool_options *options, const td_allocator *allocator, run_pool **pool,
                          td_error *err);
/* Calls task(arg, i) once for each i < count, on this thread and others. Needs no pool. */
void run_in_parallel(uint32_t count, void (*task)(void *arg, uint32_t i), void *arg);
uint32_t run_usable_threads(void);  /* what affinity and quota allow */
void run_pool_free(run_pool *pool); /* no session may use it any more; NULL allowed */
/* A thread that computes something of its own on one of the pool's cores between enter and leave. NULL: nobody. */
typedef struct run_team run_guest;
td_status run_guest_new(run_pool *pool, run_guest **guest, td_error *err);
void run_guest_enter(run_guest *guest);
void run_guest_leave(run_guest *guest);
void run_guest_free(run_guest *guest);
uint32_t run_pool_threads(const run_pool *pool); /* those there are, the caller's included */

/* ---- sessions ---- */

typedef struct run_session run_session;

/* A session of `plan` and its variants, which must outlive it. One caller at a time; many sessions of one plan in
 * parallel. Steps that can are shared out among the threads of `pool` (which must outlive the session): all that it
 * has, or, while other sessions use it, a share by weight. NULL: the caller's thread computes alone. */
td_status run_session_new(const plan_exe *plan, const td_allocator *allocator, run_pool *pool, run_session **session,
                          td_error *err);
void run_session_free(run_session *session); /* NULL allowed */
/* From the next run on `hear` receives what the model prints, from any of the session's threads; may be NULL. */
typedef void (*run_hear)(void *user, const char *text, size_t length);
void run_hear_prints(run_session *session, run_hear hear, void *user);

/* Binds input `index` without copying; `value` must stay valid until the run returns. Rank and dtype are checked. A
 * tensor that is not dense is copied at every run; items of lists must be dense. */
td_status run_set_input(run_session *session, uint32_t index, const base_value *value, td_error *err);
/* Unbinds input `index`. */
td_status run_clear_input(run_session *session, uint32_t index, td_error *err);
/* Room for `count` values that lives until the next call for the same input: the items of a list input. What was bound
 * there before is not any more. */
base_value *run_list_items(run_session *session, uint32_t index, size_t count);

/* Output `index` of the runs from now on goes to `memory` (dense, of a type with whole bytes; NULL: to the session's
 * own), which must be valid until it is given up. Dtype, rank and fixed dimensions are checked here, others at a run.
 */
td_status run_bind_output(run_session *session, uint32_t index, const base_tensor *memory, td_error *err);
/* What output `index` will be for the inputs that are set: dtype and dims, no data. *known false: only running can
 * tell. The outputs of the last run are gone. */
td_status run_predict_output(run_session *session, uint32_t index, base_tensor *tensor, bool *known, td_error *err);

/* Limits of a run, checked between steps on every thread that walks them. Zeroed: none. */
typedef struct run_until {
  uint64_t deadline_ns;     /* of sys_clock_ns: TD_TIMED_OUT from then on; 0: none */
  const int32_t *cancel[2]; /* a word that is not 0: TD_CANCELLED; read atomically; NULL: none. The second
                             * is the queue's (run_request) */
} run_until;
td_status run_session_run(run_session *session, td_error *err);
td_status run_session_run_until(run_session *session, run_until until, td_error *err);
/* Output `index` of the last run: dense tensors, valid until the next run; of one that is bound, the caller's memory.
 */
td_status run_output(const run_session *session, uint32_t index, const base_value **value, td_error *err);

/* ---- asynchronous runs (queue.c) ---- */

/* A queue of one session's runs, which a thread of the session computes in order. */
typedef struct run_queue run_queue;
typedef struct run_future run_future;

/* Inputs and outputs of a run: checked and bound when it starts. The arrays have room for all of the model. */
typedef struct run_request {
  base_value *inputs; /* of the first `input_count`; of kind BASE_NOTHING: as it is set */
  uint32_t input_count;
  base_tensor *outputs; /* memory for the first `output_count`; of no dtype: the session's */
  uint32_t output_count;
  run_until until;
  void (*done)(void *user, td_status status, const td_error *err); /* called on the queue's thread; may be NULL */
  void *user;
  int32_t event; /* an eventfd, to which one is added; 0: none */
} run_request;

/* Words an error of a run for users; returns `status`. */
typedef td_status (*run_tell)(const td_model *model, td_status status, td_error *err);
/* Starts the thread. The session must outlive the queue, and is the queue's alone until run_queue_busy says no. */
td_status run_queue_new(run_session *session, run_tell tell, const td_model *model, run_queue **queue, td_error *err);
/* Cancels the running and the queued runs: TD_CANCELLED. Futures stay valid. NULL allowed. */
void run_queue_free(run_queue *queue);
bool run_queue_busy(run_queue *queue); /* a run is in progress or queued; NULL: no */
/* A run that is not queued yet: fill in its request. Owned by the caller until run_future_free. Thread-safe, as are the
 * next two. NULL: out of memory. */
run_future *run_queue_take(run_queue *queue, run_request **request);
void run_queue_put(run_future *future); /* appends it to the queue */
/* The status of the run, once `done` has been called; TD_ANSWER_NO: it is not over at `until_ns` (0: no limit). Any
 * thread, but not in `done`. */
td_status run_future_wait(run_future *future, uint64_t until_ns, td_error *err);
void run_future_cancel(run_future *future); /* ends it between two steps, or before the first; any thread */
void run_future_free(run_future *future);   /* the run goes on; NULL allowed */

/* ---- weights near each CPU (copies.c) ---- */

/* Copies of a plan's constants in the memory of each NUMA node that this process may use, for all of its sessions:
 * plan->here.copies, set before the first of these. `machine`: "here", or that of sys_topology_load. The plan outlives
 * them.
 */
typedef struct run_copies run_copies;
td_status run_copies_new(const plan_exe *plan, const char *machine, const td_allocator *allocator, run_copies **copies,
                         td_error *err);
void run_copies_free(run_copies *copies); /* NULL allowed, as in the next two */
uint32_t run_copies_nodes(const run_copies *copies);
uint64_t run_copies_bytes(const run_copies *copies); /* beside the plan's own, of all together */

/* ---- a batch over streams of cores (streams.c) ---- */

/* Sessions of one plan, each on a part of a pool's threads, that share a batch. */
typedef struct run_streams run_streams;
/* A batch: `samples` along dimension 0 of every input, but for those whose bit is set in `whole`, and some rows for
 * each along that of every output. Tensors dense, of whole bytes. */
typedef struct run_batch {
  const base_value *inputs;
  uint32_t input_count;
  uint64_t whole;
  const base_tensor *outputs; /* memory for all of the model, written in place */
  uint32_t output_count;
  run_until until;
} run_batch;
/* So many streams, at most one for each thread of the pool; 0: as many as pays. A plan that keeps state is refused. The
 * pool and the plan outlive it. */
td_status run_streams_new(const plan_exe *plan, run_pool *pool, uint32_t most, const td_allocator *allocator,
                          run_streams **streams, td_error *err);
void run_streams_free(run_streams *streams); /* NULL allowed */
/* One caller at a time. The first streams have one sample more where it does not come out even. The error of the first
 * stream that failed; the others end early. */
td_status run_streams_run(run_streams *streams, const run_batch *batch, td_error *err);
/* What output `index` will be for these inputs, as run_predict_output; outputs need not be there. */
td_status run_streams_predict(run_streams *streams, const run_batch *batch, uint32_t index, base_tensor *tensor,
                              bool *known, td_error *err);
/* The number of streams for batches of `samples`: by a model of the gain from more threads per sample, or as was
 * measured. */
uint32_t run_streams_count(const run_streams *streams, int64_t samples);
/* Runs the batch over 1, 2, 4, ... and the most streams, three times each, and keeps what was fastest for its size. */
td_status run_streams_tune(run_streams *streams, const run_batch *batch, uint32_t *best, td_error *err);

/* ---- session state: kept from one run to the next, of this session alone ---- */

/* Resets all state to that of the first run. After an error it is unchanged. */
td_status run_reset_states(run_session *session, td_error *err);
/* State `index`, dense: valid until the next run, reset or change. */
td_status run_state_value(const run_session *session, uint32_t index, const base_value **value, td_error *err);
/* Copies `value` (tensors dense) into state `index`; rank, dtype and fixed sizes are checked. */
td_status run_set_state(run_session *session, uint32_t index, const base_value *value, td_error *err);

typedef struct run_stats {
  size_t arena_bytes, arena_lower; /* of the shapes bound last */
  size_t tail_peak;                /* most bytes that tail and scratch held */
  uint64_t runs;
  uint32_t threads; /* most that one step of the shapes bound last is shared out to; before a run: of the pool */
  uint64_t state_bytes, state_copied; /* memory of session state; of it, what the last run copied */
} run_stats;
run_stats run_session_stats(const run_session *session);
/* Most threads that can take part in a run, the caller's included. */
uint32_t run_session_threads(const run_session *session);
/* Before its first run: takes no more threads of the pool than that, the caller's included. */
void run_session_set_most(run_session *session, uint32_t threads);
void run_session_set_weight(run_session *session, uint32_t weight); /* at first 1; not while it runs */
uint32_t run_session_crew(const run_session *session);              /* of these, those that run tasks alone, the last */

/* From the next run on, `observer` (copied; NULL: nobody) hears of every step: of a variant's by numbers behind those
 * of the plans before it (plan_at). */
void run_observe(run_session *session, const td_observer *observer);
td_observer run_observer(const run_session *session); /* zeroed: nobody */
/* The plan, general or a variant, that ran last or is bound. */
const plan_exe *run_plan_in_use(const run_session *session);
/* Sizes and places for the shapes bound last, of that plan; NULL: none were. Valid until the next run or change of an
 * input. */
const plan_binding *run_active_binding(const run_session *session);
/* What slot `slot` of that plan holds since the last run; NULL: there was none, or it failed. Its data may be
 * overwritten, its sizes hold. An observer may ask for what a step that has ended reads and makes. */
const base_value *run_slot(const run_session *session, uint32_t slot);
/* For people: the steps that sessions of `plan` run in parts on one thread of this machine; nothing where input sizes
 * are open. */
void run_print_parts(const plan_exe *plan, const td_allocator *allocator, base_text *text);
#endif
