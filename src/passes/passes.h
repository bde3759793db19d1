/* passes.h -- the graph passes, in order. */
#ifndef PASSES_PASSES_H
#define PASSES_PASSES_H
#include "ir/ir.h"
#include "kernels/kernels.h"

enum { PASSES_MAX = 40 };

/* Channels below which rows of a transposed convolution, written a stride of pixels apart, are too short for more than
 * two instructions an element: vectors would be nearly empty. Such work stands in a step of its own. */
enum { PASSES_SHORT_ROWS = 8 };

/* What the passes may assume and must leave out. */
typedef struct passes_setting {
  const char *disabled; /* names, comma-separated, or NULL */
  bool kernels;         /* the result runs on kernels: run the passes that make their operators, too */
  kern_math math;       /* which algorithms may round otherwise than a plain sum */
  uint32_t isa;         /* BASE_ISA_* that kernels may use */
  /* Calls task(arg, i) for every i < count, on several threads at once; NULL: they are called in turn. */
  void (*share)(uint32_t count, void (*task)(void *arg, uint32_t i), void *arg);
  /* Sees the graph after each pass that changed it; NULL: nobody. Anything but TD_OK ends the run. */
  td_status (*seen)(void *user, const char *pass, const ir_graph *graph, td_error *err);
  void *seen_user;
  /* For tests: puts `fault` into what a pass that changed the graph has left. Nodes from number `first` on are those it
   * made. NULL: nobody does. */
  td_status (*spoil)(const char *fault, const char *pass, ir_graph *graph, uint32_t first, td_error *err);
  const char *fault;
} passes_setting;

typedef struct passes_row {
  const char *name;    /* "fold" */
  const char *purpose; /* one line for `treadle info` */
  bool kernels;        /* runs only where the result runs on kernels */
  /* Adds to *changes what it did: nodes removed, made or rewritten. */
  td_status (*run)(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err);
} passes_row;

/* All passes in the order they run; *count of them. */
const passes_row *passes_list(uint32_t *count);
/* Runs them all but those that `setting` leaves out; an unknown name there is TD_BAD_ARGUMENT. After any other failure
 * the graph is only good for ir_graph_free. changes[i]: what pass i of the list did; room for PASSES_MAX. */
td_status passes_run(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err);

enum { PASSES_ATTRS = 24 }; /* no operator has more attributes */
/* The attributes of `node` as arguments for a new node, absent ones left out; `args` has room for PASSES_ATTRS. Gives
 * their number. */
uint32_t passes_args(const ir_node_def *node, base_arg *args);
/* The argument called `name` among `count`. */
base_arg *passes_arg(base_arg *args, uint32_t count, const char *name);
#endif
