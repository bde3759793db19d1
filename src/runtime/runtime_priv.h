/* runtime_priv.h -- the session and its parts. */
#ifndef RUNTIME_RUNTIME_PRIV_H
#define RUNTIME_RUNTIME_PRIV_H
#include "plan/bind.h"
#include "runtime/crew_priv.h"
#include "runtime/pool_priv.h"

/* Names the step at which a run has failed, if the error does not name one yet, and tells in its text what the user's
 * node has become (where.c). Returns `status`. */
td_status run_name_step(const plan_exe *plan, uint32_t number, td_status status, td_error *err);

/* ---- the session ---- */

enum { RUN_BINDINGS = 16 };

/* A step, prepared. Of IF, LOOP and END the kind alone counts. */
typedef struct run_step {
  base_call call;
  base_call_fn run;
  uint32_t kind;     /* plan_kind */
  uint32_t function; /* of CALL, SHOW */
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

/* Where the caller wants an output (outputs.c). */
typedef struct run_target {
  base_value value; /* a dense tensor in the caller's memory */
  bool bound;
  bool placed; /* steps write there; else it is copied there at the end of a run */
} run_target;

/* What a session has ready for one of the plans (plan_at) that it may run. Of the one in use the session and its main
 * frame hold the values, and what is here is old. */
typedef struct run_ready {
  const plan_exe *plan;
  uint32_t first_step; /* of all plans' steps in a row: observers' number of its first */
  base_value *values;  /* of the main frame, as are the next three */
  base_value **pointers;
  struct run_step *steps;
  uint32_t changes;
  struct run_frame *idle;
  uint32_t frames;
} run_ready;

/* One seen combination of input shapes. */
typedef struct run_bound {
  base_arena *arena;
  int64_t *key;     /* rank and dims of every input, in order; in the arena */
  uint32_t variant; /* the plan that it is of, see plan_at */
  plan_binding binding;
  uint8_t *known;     /* of the main frame */
  uint16_t *threads;  /* per step: how many it takes; 0 before that is known */
  bool *spread;       /* per slot, if it is a root: several threads have written it last */
  void **wholes;      /* where the slices of the parts that run now begin as a whole */
  run_shares *shares; /* per plan_shares of the binding */
  uint16_t most_threads;
  uint64_t used; /* run number, for eviction */
} run_bound;

/* How the value that a run gives to a state gets there. */
typedef enum run_way {
  RUN_STAYS,      /* it is there */
  RUN_STRAIGHT,   /* copied */
  RUN_OVER_SPARE, /* copied to the second block, which becomes the first */
  RUN_BESIDE      /* made there, likewise */
} run_way;

/* What a session keeps of one state. Two blocks, so that a new value can be made of the old one and all states change
 * together, or none does. */
typedef struct run_state {
  base_value initial;  /* in constants */
  base_value next;     /* made, not yet in force */
  plan_making made;    /* where steps make it now */
  run_way way;         /* of the run that ends */
  void *block, *spare; /* `block` holds what is in force now */
  size_t block_bytes, spare_bytes;
} run_state;

/* All that walking steps needs: a session has one frame, a task that runs beside it another. Who has a frame has it
 * alone. */
typedef struct run_frame {
  run_session *session;
  const plan_exe *plan;
  base_value *values;    /* per slot */
  base_value **pointers; /* per operand of the plan: into values, or NULL */
  run_step *steps;
  uint8_t *known; /* per step: RUN_CHECKED, RUN_SHOWN, under the active binding */
  char *memory;   /* the arena of planned offsets */
  size_t memory_bytes;
  run_stack tail, scratch;
  td_error error;   /* of the run in progress */
  uint32_t thread;  /* that walks: 0 is the caller's */
  uint32_t changes; /* of plan->here.tier that its steps have */
  /* Of a task's frame. */
  base_arena *arena;
  uint64_t binding;    /* number of the binding that its values are of */
  uint32_t filled_for; /* FORK step of its last task */
  struct run_frame *next;
} run_frame;

/* ---- the fields of a session, by job ---- */

/* Which plan runs. */
typedef struct run_plans {
  const plan_exe *general; /* what the session takes and gives; it may have variants */
  run_ready *ready;        /* per plan */
  uint32_t variant;        /* which of them is in use */
  uint32_t first_step;     /* its own, see run_ready */
} run_plans;

/* What the caller has set for the next run. */
typedef struct run_given {
  base_value *inputs; /* behind them the states */
  bool *set;          /* per input */
  bool moved;         /* an input was set since the last run */
  bool any_unsuited;  /* some input is not dense, or not aligned where the plan wants that: see run_suits */
  base_value **lists; /* per input: items given by the caller */
  size_t *list_caps;
} run_given;

/* Where the caller wants outputs. */
typedef struct run_targets {
  run_target *at; /* per output */
  uint32_t count; /* that are bound */
  bool moved;     /* one was bound or given up since the last run */
} run_targets;

typedef struct run_states {
  run_state *at;
  uint64_t copied; /* bytes, by the last run */
} run_states;

/* The combinations of input shapes that were seen. */
typedef struct run_bounds {
  run_bound at[RUN_BINDINGS];
  uint32_t count;
  run_bound *active;
  uint64_t activated; /* how often one was made active so far */
  int64_t *key;       /* scratch for look-up */
  size_t cache;       /* bytes of one that steps may count on, see plan_means */
} run_bounds;

typedef struct run_threads {
  run_pool *pool; /* NULL: the caller's thread alone */
  run_team *team; /* of its threads */
} run_threads;

/* Who hears of runs. */
typedef struct run_watch {
  run_hear hears; /* what the model prints; NULL: nobody does */
  void *hears_user;
  td_observer observer;
  bool observed;
  bool running;    /* observers hear of steps, whose values are there */
  uint64_t *spent; /* per step that runs in parts now: ns so far */
} run_watch;

/* The run in progress, and those before. */
typedef struct run_now {
  run_until until;
  bool ends_early; /* `until` says something */
  bool ran;        /* outputs are valid */
  uint64_t runs;
} run_now;

/* See tasks.c. */
typedef struct run_tasks {
  run_crew *crew;    /* NULL: every task runs where it is forked */
  bool *pays;        /* per FORK step: the crew had better run it, under the active binding */
  bool force;        /* for tests: it always had */
  atomic_flag lock;  /* of the next four */
  run_stack results; /* memory of this run's tasks */
  run_task *newest;  /* of this run */
  run_frame *idle;
  uint32_t frames;         /* that were made */
  _Atomic uint32_t beside; /* tasks that run, or are to, in frames of their own */
  /* Threads besides the caller's that run its tasks now, and may: of the pool's cores, those that its team has. */
  _Atomic uint32_t helping, most_helping;
} run_tasks;

struct run_session {
  td_allocator allocator;
  base_arena *arena;    /* everything of fixed size */
  const plan_exe *plan; /* that runs: the general one or a variant */
  run_frame main;
  run_plans plans;
  run_given given;
  run_targets targets;
  run_states states;
  run_bounds bounds;
  run_threads threads;
  run_watch watch;
  run_now now;
  run_tasks tasks;
};

/* ---- weights near each CPU (copies.c) ---- */

/* Constants that follow one another, and where their copy is in each node's. */
typedef struct run_stretch {
  const char *at;
  size_t bytes, offset;
} run_stretch;

typedef struct run_node {
  uint32_t number, cpu; /* the system's, and that of one of its CPUs */
  char *memory;         /* NULL: the plan's own constants */
  size_t bytes;
} run_node;

struct run_copies {
  base_arena *arena;
  run_stretch *stretches; /* by address */
  uint32_t count;
  size_t bytes; /* of a copy */
  run_node *nodes;
  uint32_t node_count, own; /* own: that reads the plan's */
  uint32_t *node_of;        /* per CPU by the system's number: into nodes */
  uint32_t cpu_count;
};

enum { RUN_NEAR = 16 /* operands at most */ };
typedef struct run_near {
  base_call call;
  const base_value *in[RUN_NEAR];
  base_value values[RUN_NEAR];
} run_near;
/* The call with constants of the node that runs us; `call` itself where these are the plan's. */
const base_call *run_near_call(const run_copies *copies, const base_call *call, run_near *near);

/* ---- tasks (tasks.c) ---- */

td_status run_open_tasks(run_session *s, td_error *err);
void run_close_tasks(run_session *s);
void run_weigh_tasks(run_session *s); /* when sizes are known */
td_status run_fork(run_frame *f, uint32_t number);
td_status run_wait(run_frame *f, uint32_t number);
/* No task of the run runs any more afterwards. */
void run_end_tasks(run_session *s);

/* Deep copies, each in one block (state.c); futures stay what they are. Adds the bytes to *bytes; false: overflow. */
bool run_copy_bytes(const base_value *value, size_t *bytes);
/* Copies to *at on, which is moved on. */
base_value run_copy_value(const base_value *from, char **at);

/* ---- frames (frame.c) ---- */

/* Room for values and calls of the session's plan, which are prepared; stacks are not opened. Memory is the arena's. */
td_status run_prepare_frame(run_frame *f, run_session *s, base_arena *arena, td_error *err);
/* Machine code that has come since takes its place in the frame's steps. Not while they run. */
void run_take_code(run_frame *frame);
/* The same in the calls that threads have for themselves. */
void run_take_shared_code(run_session *session, run_bound *bound);
/* Values of the active binding, in the frame's memory, which grows if it must. */
td_status run_activate_frame(run_frame *f, const run_bound *bound, td_error *err);
/* The same of one slot. */
void run_reset_value(run_frame *f, const run_bound *bound, uint32_t slot);
void run_close_frame(run_frame *f); /* its stacks and planned memory */

/* Makes what the caller has set since the last run the values of the inputs, in the binding of their sizes. */
td_status run_take_inputs(run_session *s, td_error *err);
/* The outputs of a run whose inputs are taken: steps write to targets where that is the same as to the arena. */
td_status run_place_outputs(run_session *s, td_error *err);
/* Moves the memory of root `root`, an arena slot, and of all that shares it. */
void run_move_root(run_session *s, uint32_t root, char *to);
/* Is it a step of a batch, parts of which read the operands of others that are computed later? */
bool run_is_in_batch(const plan_exe *plan, uint32_t step);
/* What was not written to its target is copied there. */
td_status run_deliver_outputs(run_session *s, td_error *err);
/* Is the run's time up, or has somebody cancelled it? Then that is the error. */
td_status run_find_end(const run_until *until, td_error *err);
/* The same before step `number`, which the error names. */
td_status run_end_at(const run_session *s, uint32_t number, td_error *err);
static inline td_status run_go_on(const run_session *s, uint32_t number, td_error *err) {
  return s->now.ends_early ? run_end_at(s, number, err) : TD_OK;
}
/* Runs steps [first, end). */
td_status run_steps(run_frame *f, uint32_t first, uint32_t end);
/* Calls the function of step `number`, for one thread, which has `scratch`: the only place that does. `spent` (may be
 * NULL): its time is added, if anybody wants to know. */
td_status run_function(const run_session *s, uint32_t number, const base_call *call, run_stack *scratch,
                       uint32_t thread, uint64_t *spent);
/* Runs step `number`, a CALL or SHOW, on what its operands hold now. The observer hears of it; of a step that comes
 * again for the next part it hears later, and its time is added to *spent. */
td_status run_call(run_frame *f, uint32_t number, uint64_t *spent);

/* Threads that can compute its steps, the caller's included. */
uint32_t run_most_threads(const run_session *s);

/* ---- threads for a step (threads.c) ---- */

/* About how long the call takes on one thread. */
double run_estimate_ns(const base_speed *speed, const plan_link *function, const base_call *call);
/* On how many threads should the step run, under the active binding and after what ran before? The results are
 * the same on any number. */
uint16_t run_threads_for(const run_frame *f, uint32_t number);
/* Compares the planned sizes of step `number` with what its operands say, unless that was done and holds. */
td_status run_check(run_frame *f, uint32_t number);
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
/* Stores `from` (in slot `source`) into slot `target`: by copy where the target is planned or the source will be
 * reused. */
td_status run_assign(run_frame *f, uint32_t target, uint32_t source);
/* Does `value` fit what the model says of input `index`, or of the states behind them? */
td_status run_check_given(const plan_exe *plan, uint32_t index, const base_value *value, td_error *err);
/* What is stored when a run ends without an error (state.c). */
td_status run_open_states(run_session *s, td_error *err);
/* Do steps make some state in memory of the states, now or with the inputs that are taken? Then it is placed. */
bool run_places_states(const run_session *s);
td_status run_place_states(run_session *s, td_error *err);
td_status run_store_states(run_session *s);
uint64_t run_state_bytes(const run_session *s);
void run_close_states(run_session *s);
/* Deep copy of a value into the tail. */
td_status run_keep(run_frame *f, const base_value *from, base_value *to);
/* Moves the tail values of `slots` down to `mark` and drops everything else above it. */
td_status run_compact(run_frame *f, const uint32_t *slots, uint32_t count, size_t mark);
/* Is less than half of what lies above the mark theirs? Lists whose items all stay are not copied again and again. */
bool run_should_compact(const run_frame *f, const uint32_t *slots, uint32_t count, size_t mark);
#endif
