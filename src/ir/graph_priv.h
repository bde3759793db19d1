/* graph_priv.h -- shared by the files that build graphs. */
#ifndef IR_GRAPH_PRIV_H
#define IR_GRAPH_PRIV_H
#include "ir/graph.h"

/* Computes the contents of a small integer result whose operands are known in full, where the operator's own inference
 * did not: whatever a model does to constants before it uses them as a size is then known. */
td_status ir_learn_contents(ir_graph *g, const ir_op *op, const base_attrs *attrs, const ir_info *const *in,
                            uint32_t in_count, ir_info *out, td_error *err);
#endif
