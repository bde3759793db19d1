/* frame_priv.h -- what walking steps needs: a frame has the values of all slots and the prepared calls of all steps. */
#ifndef RUNTIME_FRAME_PRIV_H
#define RUNTIME_FRAME_PRIV_H
#include "runtime/bound_priv.h"
#include "runtime/stack_priv.h"

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

/* ---- frame.c ---- */

/* Room for values and calls of the session's plan, which are prepared; stacks are not opened. Memory is the arena's. */
td_status run_prepare_frame(run_frame *f, run_session *s, base_arena *arena, td_error *err);
/* Machine code that has come since takes its place in the frame's steps. Not while they run. */
void run_take_code(run_frame *frame);
/* Values of the active binding, in the frame's memory, which grows if it must. */
td_status run_activate_frame(run_frame *f, const run_bound *bound, td_error *err);
/* The same of one slot. */
void run_reset_value(run_frame *f, const run_bound *bound, uint32_t slot);
void run_close_frame(run_frame *f); /* its stacks and planned memory */

/* ---- values in the tail (tail.c) ---- */

/* Deep copy of a value into the tail. */
td_status run_keep(run_frame *f, const base_value *from, base_value *to);
/* Moves the tail values of `slots` down to `mark` and drops everything else above it. */
td_status run_compact(run_frame *f, const uint32_t *slots, uint32_t count, size_t mark);
/* Is less than half of what lies above the mark theirs? Lists whose items all stay are not copied again and again. */
bool run_should_compact(const run_frame *f, const uint32_t *slots, uint32_t count, size_t mark);
#endif
