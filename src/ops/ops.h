/* ops.h -- the operator set, for whoever puts a compiler together. */
#ifndef OPS_OPS_H
#define OPS_OPS_H
#include "ir/ir.h"

/* All operators in `arena`. NULL: out of memory. */
const ir_opset *ops_set(base_arena *arena);
/* What makes the test cases of the operator; NULL: it has none. */
ir_cases ops_cases(ir_op_id op);
#endif
