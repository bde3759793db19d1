/* debug.h -- looking into graphs. */
#ifndef DEBUG_DEBUG_H
#define DEBUG_DEBUG_H
#include "ir/ir.h"

/* Adds results of nodes of the graph's own block as outputs, behind those there are: of all nodes where `names` is "*",
 * else of those it lists, separated by commas; NULL or "": of none. Only tensors that are not outputs already. An
 * output is called as its node ("/conv1", further results "/conv1:1"); see README.md. Unknown names are
 * TD_BAD_ARGUMENT. */
td_status debug_add_taps(ir_graph *graph, const char *names, td_error *err);
#endif
