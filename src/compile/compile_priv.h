/* compile_priv.h -- the state of one lowering. */
#ifndef COMPILE_COMPILE_PRIV_H
#define COMPILE_COMPILE_PRIV_H
#include "compile/compile.h"

typedef struct lowering {
  const ir_graph *graph;
  const compile_setting *setting;
  plan_exe *plan;
  base_arena *scratch;
  uint32_t *slot_of; /* per value; PLAN_NONE: none yet */
  bool *strided;     /* per slot: a view or constant that may not be dense */
  uint32_t strided_cap;
  uint32_t *uses;  /* per value */
  bool open_sizes; /* some step's work is not known */
  td_error *err;
} lowering;

/* Steps and slots for every node of the graph, outputs included. */
td_status lower_graph(lowering *l);
/* Sets first and last of arena roots; with `in_place`, lets results take the place of operands that die at their step.
 */
td_status lower_lifetimes(plan_exe *plan, base_arena *scratch, bool in_place, td_error *err);
/* The copy step: dense copy of any value. */
extern const plan_function lower_copy_planned, lower_copy_tail;
#endif
