/* results.h -- how many results a test asks an operator for. */
#ifndef TESTS_OPS_RESULTS_H
#define TESTS_OPS_RESULTS_H
#include "base/base.h"
#include "ir/ir.h"

/* Those that it has; of an operator with a chain those of the chain, or one; 2 where there may be any number. */
static inline uint32_t results_of(const ir_op *op, const base_attrs *attrs) {
  const bool chain = op->flags & IR_OP_CHAIN;
  base_program p;
  uint32_t count = 0;
  const int64_t *words = chain ? base_attr_ints(attrs, attrs->count - 1, &count) : NULL;
  if (chain) return count && !base_program_read(words, count, &p) ? p.out_count : 1;
  return op->out_count == IR_VARIADIC ? 2 : op->out_count;
}
#endif
