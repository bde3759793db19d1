/* copies_priv.h -- weights near each CPU: copies of constants, and the calls that read them (copies.c). */
#ifndef RUNTIME_COPIES_PRIV_H
#define RUNTIME_COPIES_PRIV_H
#include "runtime/runtime.h"

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
#endif
