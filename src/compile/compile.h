/* compile.h -- graph in, plan out. */
#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H
#include "ir/ir.h"
#include "kernels/kernels.h"
#include "plan/plan.h"

/* A backend; each is checked against the one before it. */
typedef struct compile_backend {
  const char *name;
  const char *purpose; /* one line for `treadle info` */
  bool passes;         /* run the graph passes */
  bool in_place;       /* let steps overwrite operands whose live range ends there */
  bool kernels;        /* kernels take the place of references where there are some */
  bool fuses;          /* operators run as one loop where they can */
  bool generates;      /* these loops become machine code */
} compile_backend;
/* The backends, slowest first; *count of them. The last is the default. */
const compile_backend *compile_backends(uint32_t *count);
/* NULL name: the default. NULL result: no such backend. */
const compile_backend *compile_find_backend(const char *name);

typedef struct compile_setting {
  /* Read where they are used; texts may be NULL, not empty. Where cc or cache is NULL, fused loops are interpreted;
   * warn is called with `tiered` from another thread. What they name is not read, but the next five. */
  td_load_options options;
  const compile_backend *backend;
  uint32_t isa; /* BASE_ISA_* that kernels may use */
  kern_math math;
  kern_precision precision;
  const kern_tuning *tuning; /* copied; NULL: the kernels' defaults */
  int64_t front_least;       /* least elements of a sample for a loop in front of a product; 0: as was measured */
  const plan_exe *general;   /* make a variant of this plan, sharing equal constants with it and its variants; NULL:
                                make a general plan */
  /* Receives the graph after each pass that changed it; may be NULL. Any result but TD_OK stops the compilation. */
  td_status (*seen)(void *user, const char *stage, const ir_graph *graph, td_error *err);
  /* Receives the files of generated code and their compiler commands; may be NULL. */
  td_status (*coded)(void *user, const char *name, const char *bytes, size_t count);
  void *seen_user; /* of both */
  /* Calls task(arg, i) once for each i < count, on several threads; NULL: passes do it on the caller's. */
  void (*share)(uint32_t count, void (*task)(void *arg, uint32_t i), void *arg);
} compile_setting;

/* Operators and kernels of a process by name, which plans are linked with. The symbols point at `names`. */
typedef struct compile_names {
  const ir_opset *ops;
  uint32_t isa;                           /* BASE_ISA_* that kernels may use */
  const struct codegen_kernel *generated; /* loaded machine code */
  uint32_t generated_count;
} compile_names;
plan_symbols compile_symbols(const compile_names *names);

/* Runs the passes of the backend on `graph` (which changes) and lowers it. The plan needs neither the graph nor what
 * lies in its arena; constants in other segments of it, such as mapped files, stay where they are. `changes`, room for
 * PASSES_MAX counts or NULL: what each pass did. Errors name the node or the unknown pass.
 */
td_status compile_graph(ir_graph *graph, const compile_setting *setting, const td_allocator *allocator,
                        uint32_t *changes, plan_exe **plan, td_error *err);
/* Turns an imported graph into what compile_graph lowers, for display. */
td_status compile_rewrite(ir_graph *graph, const compile_setting *setting, td_error *err);
/* The version of the contract between generated code and this library: of plan_source. */
uint64_t compile_contract(void);
/* Makes a plan that plan_open read, and its variants, runnable: links it, loads its machine code if it has some (so it
 * is trusted), recomputes what is not saved, and checks that its functions fit their operands, as the file is
 * untrusted. TD_BAD_FILE names the step. Of the setting isa, tuning, and the fields for generated code are
 * used. */
td_status compile_restore(plan_exe *plan, const ir_opset *ops, const compile_setting *setting, td_error *err);
/* The fused loops that compile_graph makes of an imported graph, as text. With `why`, each fusion decision, and why
 * unfused nodes were left alone. The graph becomes what compile_graph would make of
 * it.
 */
td_status compile_explain_loops(ir_graph *graph, const compile_setting *setting, bool why,
                                const td_allocator *allocator, base_text *text, td_error *err);
#endif
