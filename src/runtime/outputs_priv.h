/* outputs_priv.h -- outputs in the caller's memory (outputs.c). */
#ifndef RUNTIME_OUTPUTS_PRIV_H
#define RUNTIME_OUTPUTS_PRIV_H
#include "runtime/runtime.h"

/* Where the caller wants an output. */
typedef struct run_target {
  base_value value; /* a dense tensor in the caller's memory */
  bool bound;
  bool placed; /* steps write there; else it is copied there at the end of a run */
} run_target;

/* Where the caller wants outputs. */
typedef struct run_targets {
  run_target *at; /* per output */
  uint32_t count; /* that are bound */
  bool moved;     /* one was bound or given up since the last run */
} run_targets;

/* The outputs of a run whose inputs are taken: steps write to targets where that is the same as to the arena. */
td_status run_place_outputs(run_session *s, td_error *err);
/* What was not written to its target is copied there. */
td_status run_deliver_outputs(run_session *s, td_error *err);
/* Moves the memory of root `root`, an arena slot, and of all that shares it. */
void run_move_root(run_session *s, uint32_t root, char *to);
/* Is it a step of a batch, parts of which read the operands of others that are computed later? */
bool run_is_in_batch(const plan_exe *plan, uint32_t step);
#endif
