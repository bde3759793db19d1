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

enum { RUN_BINDINGS = 16 };

/* One seen combination of input shapes. */
typedef struct run_bound {
  base_arena *arena;
  int64_t *key; /* rank and dims of every input, in order; in the arena */
  plan_binding binding;
  bool *checked; /* per step: its sizes were compared with its operands' values once */
  uint64_t used; /* run number, for eviction */
} run_bound;

struct run_session {
  const plan_exe *plan;
  td_allocator allocator;
  base_arena *arena;     /* everything of fixed size */
  base_value *values;    /* per slot */
  base_value **pointers; /* per operand of the plan: into values, or NULL */
  base_call *calls;      /* per step */
  base_value *inputs;    /* as set by the caller */
  bool *input_set;
  base_value **lists; /* per input: items given by the caller */
  size_t *list_caps;
  int64_t *key; /* scratch for look-up */
  run_bound bounds[RUN_BINDINGS];
  uint32_t bound_count;
  run_bound *active;
  char *memory; /* the arena of planned offsets */
  size_t memory_bytes;
  run_stack tail, scratch;
  td_error *err; /* of the run in progress */
  td_observer observer;
  bool observed;
  uint64_t runs;
  bool ran; /* outputs are valid */
};

/* Runs steps [first, end). */
td_status run_steps(run_session *s, uint32_t first, uint32_t end);
/* Stores `from` (in slot `source`) into slot `target`: by copy where the target is planned or the source will be
 * reused. */
td_status run_assign(run_session *s, uint32_t target, uint32_t source);
/* Deep copy of a value into the tail. */
td_status run_keep(run_session *s, const base_value *from, base_value *to);
/* Moves the tail values of `slots` down to `mark` and drops everything else above it. */
td_status run_compact(run_session *s, const uint32_t *slots, uint32_t count, size_t mark);
#endif
