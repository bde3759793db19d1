/* prim.c -- regions: operators with blocks. The executor runs them; they have no reference and their outputs' types are
 * given by whoever builds them. */
#include "ops/ops_priv.h"

OPS_DECLARE(prim);
const ir_op ops_prim[] = {
    {.name = "prim::If", .min_in = 1, .max_in = 1, .out_count = IR_VARIADIC, .flags = IR_OP_REGION},
    {.name = "prim::Loop", .min_in = 2, .max_in = IR_VARIADIC, .out_count = IR_VARIADIC, .flags = IR_OP_REGION},
};
OPS_TABLE(prim);
