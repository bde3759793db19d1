/* lower.h -- from a graph to a plan: a slot for every value, a step for every node. */
#ifndef LOWER_LOWER_H
#define LOWER_LOWER_H
#include "ir/ir.h"
#include "kernels/kernels.h"
#include "plan/plan.h"

typedef struct lower_setting {
  uint32_t isa;                 /* BASE_ISA_* that kernels may use */
  bool kernels;                 /* kernels take the place of references where there are some */
  const char *disabled_kernels; /* names, comma-separated, or NULL: their steps run references */
  const plan_symbols *symbols;  /* of what steps call */
  const uint32_t *generated;    /* per node: the number of its generated code + 1; 0: it has none */
  const char *const *code;      /* names of generated code */
} lower_setting;

/* Fills a plan, whose dims are those of the graph, or go on from there: steps and slots for every node of the graph,
 * outputs included, and what follows from them: sizes, captures, lifetimes, batches. Errors name the node. */
td_status lower_graph(const ir_graph *graph, const lower_setting *setting, plan_exe *plan, base_arena *scratch,
                      td_error *err);
/* The kernel that the node is run by; NULL: its reference. */
td_status lower_find_kernel(const ir_graph *graph, const lower_setting *setting, const ir_node_def *node,
                            base_arena *scratch, const kern_row **kernel, td_error *err);
/* Finds the batches of the plan, whose lifetimes are set: steps that may run on a few samples at a time. */
td_status lower_find_batches(plan_exe *plan, base_arena *scratch, td_error *err);
#endif
