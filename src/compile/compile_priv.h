/* compile_priv.h -- the state of one lowering. */
#ifndef COMPILE_COMPILE_PRIV_H
#define COMPILE_COMPILE_PRIV_H
#include "compile/compile.h"

#include <string.h>

struct kern_row;

/* How the elements of a slot lie: densely; the last dimension densely, in rows of one pitch; in any way. */
enum { LOWER_DENSE, LOWER_PITCHED, LOWER_STRIDED };

/* A value that is made inside the result of a join: from `at` on along `axis` of `whole`. See join.c. */
typedef struct lower_part {
  ir_value whole; /* none: the value has a place of its own */
  int64_t at;
  int32_t axis;
  bool made_there; /* by its own step; else that makes it elsewhere, and it is copied */
  bool joined;     /* the value is a join whose operands are parts of it, or of its whole */
} lower_part;

typedef struct lowering {
  const ir_graph *graph;
  const compile_setting *setting;
  plan_exe *plan;
  base_arena *scratch;
  uint32_t *slot_of;    /* per value; PLAN_NONE: none yet */
  uint32_t *segment_of; /* per segment of the graph; PLAN_NONE: none yet */
  uint8_t *layout;      /* per slot: LOWER_*, as far as it is known now */
  uint32_t layout_cap;
  lower_part *parts;                    /* per value */
  uint32_t *uses;                       /* per value */
  bool *held;                           /* per value: a list of a loop or task holds it, which it is to last for */
  uint32_t *generated;                  /* per node: its number among `kernels` + 1; 0: no code was generated */
  const struct codegen_kernel *kernels; /* generated functions */
  uint32_t kernel_count;
  bool open_sizes; /* some step's work is not known */
  td_error *err;
} lowering;

/* The passes of the setting's backend; `changes` as in compile_graph. */
td_status compile_run_passes(ir_graph *graph, const compile_setting *setting, uint32_t *changes, td_error *err);
/* Was a node told to be joined with no other? Nodes that were joined have the origins of all. */
bool lower_stands_alone(const compile_setting *setting, const ir_origins *origins);
/* Was its loop told to be behind no product? */
bool lower_stays_loop(const compile_setting *setting, const ir_origins *origins);
/* Does the setting want loops to be fused? */
bool compile_fuses(const compile_setting *setting);
/* Makes one node of those that can run as one loop. */
td_status lower_fuse(ir_graph *graph, const compile_setting *setting, base_arena *scratch, td_error *err);
/* Steps and slots for every node of the graph, outputs included. */
td_status lower_graph(lowering *l);
/* Sizes are known once the input shapes are. */
bool lower_is_planned(const lowering *l, const ir_type *type);
/* The kernel that the node is run by; NULL: its reference. */
td_status lower_find_kernel(lowering *l, const ir_node_def *node, const struct kern_row **kernel);
/* Fills l->parts. */
td_status lower_find_joins(lowering *l);
/* Fused loops, of a graph or of a saved plan, that get functions of machine code (code.c). */
typedef struct lower_code {
  plan_exe *plan; /* takes the code that is loaded; its sizes */
  const compile_setting *setting;
  base_arena *scratch;
  BASE_VEC(struct codegen_kernel) kernels;
  td_error *err;
} lower_code;

/* One of them: its program, the types of its operands, and the names of the nodes that it stands for. */
typedef struct lower_fused_loop {
  const base_attrs *attrs;
  const int64_t *words; /* its program */
  uint32_t word_count;
  bool chain; /* of a product: operand 0 is the product's result, or, `front`, that of the product, too */
  bool front;
  uint32_t in_count;
  const int32_t *ranks;        /* -1: known to nobody */
  const base_dim *const *dims; /* per operand */
  const char *const *origins;
  uint32_t origin_count;
} lower_fused_loop;

/* Is the operator a fused loop? */
static inline bool lower_is_loop(const char *op) {
  return strcmp(op, "td::fused") == 0 || strcmp(op, "td::fused_rows") == 0;
}
/* May nodes of the operator have a chain? */
bool lower_has_chain(const ir_op *op);
/* Fills attrs, words, chain and in_count: of the program in the attributes of `op`, or of the chain in its epilogue.
 * False: it has none, or its operands are not among `in_count`. */
bool lower_program_of(const ir_op *op, const base_attrs *attrs, uint32_t in_count, lower_fused_loop *loop);
/* Moves fused loops behind products into their epilogues, where that saves more than it costs. `log` (may be NULL) gets
 * each decision. */
td_status lower_chain(ir_graph *graph, const compile_setting *setting, base_arena *scratch, base_text *log,
                      td_error *err);
/* Does the setting have a compiler for them? */
bool lower_makes_code(const compile_setting *setting);
/* *number: of its kernel among code->kernels + 1; 0: it has to be interpreted. */
td_status lower_add_loop(lower_code *code, const lower_fused_loop *loop, uint32_t *number);
/* Compiles and loads what was added. *loaded false: there is nothing, or it is interpreted and the caller was warned.
 */
td_status lower_load_code(lower_code *code, bool *loaded);
/* Fills l->generated and l->kernels: code for the fused loops, where the setting has a compiler for it. */
td_status lower_generate(lowering *l);
/* The same for the steps of a plan that was saved. */
td_status lower_recode(plan_exe *plan, const ir_opset *ops, const compile_setting *setting, base_arena *scratch,
                       td_error *err);
/* The same, made by a thread of its own once lower_start_tier is called: *tiered. The plan owns what does that, and
 * ends it with itself. False: not asked for, or not with this setting. */
td_status lower_make_tier(lower_code *code, bool *tiered);
/* Starts what lower_make_tier made, of a plan that is complete; nothing if there is none. */
td_status lower_start_tier(plan_exe *plan, td_error *err);
/* Loads the objects of a saved plan. *kernels: one per function that has code, in `scratch`. Where they cannot be
 * loaded here the plan goes on without, and the caller is warned. */
td_status lower_open_code(plan_exe *plan, const compile_setting *setting, base_arena *scratch,
                          struct codegen_kernel **kernels, uint32_t *count, td_error *err);
/* Constants of a variant in the arena `own`, which is about to go: each becomes one of equal bytes that the general
 * plan or another variant has, or moves to the variant's memory (share.c). */
td_status lower_share_constants(plan_exe *variant, const plan_exe *general, const base_arena *own, td_error *err);
/* What is not the plan's own, but this machine's: tuning, and the name of the instruction sets it uses. */
void lower_finish(plan_exe *plan, const compile_setting *setting);
/* Finds the batches of the plan, whose lifetimes are set: steps that may run on a few samples at a time. */
td_status lower_find_batches(plan_exe *plan, base_arena *scratch, td_error *err);
#ifdef TREADLE_INJECT
/* Puts in the fault that `text` describes; see inject.c. NULL or "": none. */
td_status lower_inject(ir_graph *graph, const char *text, base_arena *scratch, td_error *err);
/* The same for faults of passes, behind `pass`, which made the nodes from number `first` on; as passes_setting.spoil.
 */
td_status lower_spoil(const char *text, const char *pass, ir_graph *graph, uint32_t first, td_error *err);
/* Takes out faults of nodes that run on references. To be called when generated code is there. */
td_status lower_inject_end(lowering *l, ir_graph *graph);
/* The operator of faults, which is in no set; NULL: it is not called so. */
const ir_op *lower_injected(const char *name);
#else
static inline td_status lower_inject(ir_graph *graph, const char *text, base_arena *scratch, td_error *err) {
  (void)graph, (void)scratch;
  if (!text || !*text) return TD_OK;
  return base_fail(err, TD_UNSUPPORTED, NULL, -1,
                   "this build has no faults to put in; configure it with -DTREADLE_INJECT=ON");
}
static inline td_status lower_spoil(const char *text, const char *pass, ir_graph *graph, uint32_t first,
                                    td_error *err) {
  (void)text, (void)pass, (void)graph, (void)first, (void)err;
  return TD_OK;
}
static inline td_status lower_inject_end(lowering *l, ir_graph *graph) { return (void)l, (void)graph, TD_OK; }
static inline const ir_op *lower_injected(const char *name) { return (void)name, NULL; }
#endif
#endif
