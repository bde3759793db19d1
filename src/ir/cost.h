/* cost.h -- what one application of an operator has to do at least: the numbers a roofline is drawn with. */
#ifndef IR_COST_H
#define IR_COST_H
#include "ir/op.h"

typedef struct ir_work {
  double flops; /* additions and multiplications, each one; another elementary function counts as one */
  double bytes; /* operands read once and results written once; a view moves nothing */
} ir_work;

/* False, and zeros, when a size is not known (open dims, data-defined sizes) or the operator is a region. */
bool ir_cost(const ir_op *op, const base_attrs *attrs, const ir_info *const *in, uint32_t in_count, const ir_info *out,
             uint32_t out_count, ir_work *work);
#endif
