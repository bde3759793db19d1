/* session_priv.h -- a session: the mutable state of runs, by job (session.c). */
#ifndef RUNTIME_SESSION_PRIV_H
#define RUNTIME_SESSION_PRIV_H
#include "runtime/outputs_priv.h"
#include "runtime/pool_priv.h"
#include "runtime/state_priv.h"
#include "runtime/tasks_priv.h"

/* What a session has ready for one of the plans (plan_at) that it may run. Of the one in use the session and its main
 * frame hold the values, and what is here is old. */
typedef struct run_ready {
  const plan_exe *plan;
  uint32_t first_step; /* of all plans' steps in a row: observers' number of its first */
  base_value *values;  /* of the main frame, as are the next three */
  base_value **pointers;
  run_step *steps;
  uint32_t changes;
  run_frame *idle;
  uint32_t frames;
} run_ready;

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

/* Makes what the caller has set since the last run the values of the inputs, in the binding of their sizes. */
td_status run_take_inputs(run_session *s, td_error *err);
/* Does `value` fit what the model says of input `index`, or of the states behind them? */
td_status run_check_given(const plan_exe *plan, uint32_t index, const base_value *value, td_error *err);
/* Threads that can compute its steps, the caller's included. */
uint32_t run_most_threads(const run_session *s);
#endif
