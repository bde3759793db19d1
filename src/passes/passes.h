/* passes.h -- the graph passes, in order. */
#ifndef PASSES_PASSES_H
#define PASSES_PASSES_H
#include "ir/ir.h"

typedef struct passes_row {
  const char *name;    /* "fold" */
  const char *purpose; /* one line for `treadle info` */
  td_status (*run)(ir_graph *graph, uint32_t *changes, td_error *err);
} passes_row;

/* All passes in the order they run; *count of them. */
const passes_row *passes_list(uint32_t *count);
/* Runs them all but those named in `disabled` (comma-separated, or NULL); an unknown name is TD_BAD_ARGUMENT. After any
 * other failure the graph is only good for ir_graph_free. */
td_status passes_run(ir_graph *graph, const char *disabled, td_error *err);
#endif
