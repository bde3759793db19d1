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
  bool kernels;        /* kernels take the place of references where there are some */
} compile_backend;
/* The rungs, slowest first; *count of them. The last is the default. */
const compile_backend *compile_backends(uint32_t *count);
/* NULL name: the default. NULL result: no such backend. */
const compile_backend *compile_find_backend(const char *name);

typedef struct compile_setting {
  const compile_backend *backend;
  const char *disabled; /* passes to leave out, comma-separated, or NULL */
  uint32_t isa;         /* BASE_ISA_* that kernels may use */
  bool exact;           /* no Winograd, no Strassen */
} compile_setting;

/* Runs the passes of the backend on `graph` (which changes, and must outlive the plan: constants stay where they are)
 * and lowers it. `changes`, room for PASSES_MAX counts or NULL: what each pass did. Errors name the node or the unknown
 * pass.
 */
td_status compile_graph(ir_graph *graph, const compile_setting *setting, const td_allocator *allocator,
                        uint32_t *changes, plan_exe **plan, td_error *err);
#endif
