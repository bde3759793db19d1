/* compile.h -- graph in, plan out. */
#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H
#include "ir/ir.h"
#include "plan/plan.h"

/* A rung of the ladder; each is the oracle of the next. */
typedef struct compile_backend {
  const char *name;
  const char *purpose; /* one line for `treadle info` */
  bool passes;         /* run the graph passes */
  bool in_place;       /* let steps write over operands that die there */
} compile_backend;
/* The rungs, slowest first; *count of them. The last is the default. */
const compile_backend *compile_backends(uint32_t *count);
/* NULL name: the default. NULL result: no such backend. */
const compile_backend *compile_find_backend(const char *name);

/* Runs the passes of `backend` on `graph` (which changes, and must outlive the plan: constants stay where they are) and
 * lowers it. `disabled` names passes to leave out, comma-separated, or NULL. Errors name the node or the unknown pass.
 */
td_status compile_graph(ir_graph *graph, const compile_backend *backend, const char *disabled,
                        const td_allocator *allocator, plan_exe **plan, td_error *err);
#endif
