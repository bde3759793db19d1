/* bound_priv.h -- what a session knows for one combination of input shapes. */
#ifndef RUNTIME_BOUND_PRIV_H
#define RUNTIME_BOUND_PRIV_H
#include "runtime/runtime.h"

enum { RUN_BINDINGS = 16 };

/* What is known of a step under a binding. */
enum {
  RUN_CHECKED = 1 /* its sizes were compared with its operands' values */,
  RUN_SHOWN = 2 /* need not run again */
};

typedef struct run_shares run_shares; /* parts_priv.h */

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

/* The combinations of input shapes that were seen. */
typedef struct run_bounds {
  run_bound at[RUN_BINDINGS];
  uint32_t count;
  run_bound *active;
  uint64_t activated; /* how often one was made active so far */
  int64_t *key;       /* scratch for look-up */
  size_t cache;       /* bytes of one that steps may count on, see plan_means */
} run_bounds;
#endif
