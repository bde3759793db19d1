/* compile_priv.h -- machine code for fused loops, faults for tests, and what a plan needs besides its steps. */
#ifndef COMPILE_COMPILE_PRIV_H
#define COMPILE_COMPILE_PRIV_H
#include "compile/compile.h"
#include "fuse/fuse.h"
#include "lower/lower.h"

#include <string.h>

/* Fused loops, of a graph or of a saved plan, that get functions of machine code (code.c). */
typedef struct compile_code {
  plan_exe *plan; /* takes the code that is loaded; its sizes */
  const compile_setting *setting;
  base_arena *scratch;
  BASE_VEC(struct codegen_kernel) kernels;
  td_error *err;
} compile_code;

/* One of them: its program, the types of its operands, and the names of the nodes that it stands for. */
typedef struct compile_loop {
  fuse_loop program;
  const int32_t *ranks;        /* -1: known to nobody */
  const base_dim *const *dims; /* per operand */
  const char *const *origins;
  uint32_t origin_count;
} compile_loop;

/* What was generated for a graph. */
typedef struct compile_generated {
  uint32_t *number;                     /* per node: of its function among `kernels` + 1; 0: it has none */
  const struct codegen_kernel *kernels; /* generated functions */
  const char **names;                   /* theirs */
  uint32_t count;
} compile_generated;

/* Does the setting have a compiler for them? */
bool compile_makes_code(const compile_setting *setting);
/* *number: of its kernel among code->kernels + 1; 0: it has to be interpreted. */
td_status compile_add_loop(compile_code *code, const compile_loop *loop, uint32_t *number);
/* Compiles and loads what was added. *loaded false: there is nothing, or it is interpreted and the caller was warned.
 */
td_status compile_load_code(compile_code *code, bool *loaded);
/* Code for the fused loops of a graph, where the setting has a compiler for it. */
td_status compile_generate(const ir_graph *graph, compile_code *code, compile_generated *made);
/* The same for the steps of a plan that was saved. */
td_status compile_recode(plan_exe *plan, const ir_opset *ops, const compile_setting *setting, base_arena *scratch,
                         td_error *err);
/* The same, made by a thread of its own once compile_start_tier is called: *tiered. The plan owns what does that, and
 * ends it with itself. False: not asked for, or not with this setting. */
td_status compile_make_tier(compile_code *code, bool *tiered);
/* Starts what compile_make_tier made, of a plan that is complete; nothing if there is none. */
td_status compile_start_tier(plan_exe *plan, td_error *err);
/* Loads the objects of a saved plan. *kernels: one per function that has code, in `scratch`. Where they cannot be
 * loaded here the plan goes on without, and the caller is warned. */
td_status compile_open_code(plan_exe *plan, const compile_setting *setting, base_arena *scratch, const ir_opset *ops,
                            struct codegen_kernel **kernels, uint32_t *count, td_error *err);
/* Constants of a variant in the arena `own`, which is about to go: each becomes one of equal bytes that the general
 * plan or another variant has, or moves to the variant's memory (share.c). */
td_status compile_share_constants(plan_exe *variant, const plan_exe *general, const base_arena *own, td_error *err);
/* What is not the plan's own, but this machine's: tuning, and the name of the instruction sets it uses. */
void compile_finish(plan_exe *plan, const compile_setting *setting);
#ifdef TREADLE_INJECT
/* Puts in the fault that `text` describes; see inject.c. NULL or "": none. */
td_status compile_inject(const char *text, ir_graph *graph, td_error *err);
/* The same for faults of passes, behind `pass`, which made the nodes from number `first` on; as passes_setting.spoil.
 */
td_status compile_spoil(const char *text, const char *pass, ir_graph *graph, uint32_t first, td_error *err);
/* Takes out faults of nodes that run on references, as `lower` will have it. */
td_status compile_inject_end(ir_graph *graph, const lower_setting *lower, base_arena *scratch, td_error *err);
/* The operator of faults, which is in no set; NULL: it is not called so. */
const ir_op *compile_injected(const char *name);
#else
static inline td_status compile_inject(const char *text, ir_graph *graph, td_error *err) {
  (void)graph;
  if (!text || !*text) return TD_OK;
  return base_fail(err, TD_UNSUPPORTED, NULL, -1,
                   "this build has no faults to put in; configure it with -DTREADLE_INJECT=ON");
}
static inline td_status compile_spoil(const char *text, const char *pass, ir_graph *graph, uint32_t first,
                                      td_error *err) {
  (void)text, (void)pass, (void)graph, (void)first, (void)err;
  return TD_OK;
}
static inline td_status compile_inject_end(ir_graph *graph, const lower_setting *lower, base_arena *scratch,
                                           td_error *err) {
  return (void)graph, (void)lower, (void)scratch, (void)err, TD_OK;
}
static inline const ir_op *compile_injected(const char *name) { return (void)name, NULL; }
#endif
#endif
