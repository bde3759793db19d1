/* passes.h -- the graph passes, in order. */
#ifndef PASSES_PASSES_H
#define PASSES_PASSES_H
#include "fuse/fuse.h"
#include "ir/ir.h"
#include "kernels/kernels.h"

enum { PASSES_MAX = 56 };

/* Where a pass runs: everywhere; where the result runs on kernels; where operators run as one loop. */
typedef enum passes_when { PASSES_ALWAYS, PASSES_KERNELS, PASSES_LOOPS } passes_when;

/* What the passes may assume and must leave out. */
typedef struct passes_setting {
  const char *disabled;     /* names, comma-separated, or NULL */
  bool kernels;             /* the result runs on kernels: run the passes that make their operators, too */
  bool loops;               /* operators run as one loop where they can */
  kern_precision precision; /* of constant weights of products */
  const char *keep_f32;     /* nodes that it leaves as they are, comma-separated, or NULL */
  kern_math math;           /* which algorithms may round otherwise than a plain sum */
  uint32_t isa;             /* BASE_ISA_* that kernels may use */
  const base_speed *speed;  /* of this machine; NULL: nothing is known of it */
  fuse_setting fuse;        /* of the passes that make loops */
  /* Calls task(arg, i) for every i < count, on several threads at once; NULL: they are called in turn. */
  void (*share)(uint32_t count, void (*task)(void *arg, uint32_t i), void *arg);
  /* Receives the graph after each pass that changed it; may be NULL. Any result but TD_OK stops. */
  td_status (*seen)(void *user, const char *pass, const ir_graph *graph, td_error *err);
  void *seen_user;
  /* For tests: puts `fault` into what a pass that changed the graph has left. Nodes from number `first` on are those it
   * made. NULL: nobody does. */
  td_status (*spoil)(const char *fault, const char *pass, ir_graph *graph, uint32_t first, td_error *err);
  /* The same for faults of kernels, once, in front of the passes that make loops. NULL: nobody does. */
  td_status (*inject)(const char *fault, ir_graph *graph, td_error *err);
  const char *fault;
} passes_setting;

typedef struct passes_row {
  const char *name;    /* "fold" */
  const char *purpose; /* one line for `treadle info` */
  passes_when when;
  /* Adds to *changes what it did: nodes removed, made or rewritten. */
  td_status (*run)(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err);
} passes_row;

/* All passes in the order they run; *count of them. */
const passes_row *passes_list(uint32_t *count);
/* Does the pass run where its name is not disabled? */
bool passes_runs(const passes_row *row, const passes_setting *setting);
/* Runs them all but those that `setting` leaves out; an unknown name there is TD_BAD_ARGUMENT. After any other failure
 * the graph is only good for ir_graph_free. changes[i]: what pass i of the list did; room for PASSES_MAX. */
td_status passes_run(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err);

/* The argument called `name` among `count`. NULL: there is none. */
base_arg *passes_find_arg(base_arg *args, uint32_t count, const char *name);
/* The same of one that is there. */
base_arg *passes_arg(base_arg *args, uint32_t count, const char *name);
#endif
