/* case_table.c -- the test cases of all operators, by id. Nothing but tests may refer to it: it is what keeps the
 * cases in a program. */
#include "ops/common/ops_priv.h"
#include "ops/ops.h"

#define OPS(file) extern const ops_cases_row ops_##file##_cases[];
#include "ops/ops.def"
#undef OPS

static const ops_cases_row *const files[] = {
#define OPS(file) ops_##file##_cases,
#include "ops/ops.def"
#undef OPS
};

ir_cases ops_cases(ir_op_id op) {
  for (size_t f = 0; f < sizeof files / sizeof *files; f++)
    for (const ops_cases_row *row = files[f]; row->op; row++)
      if (row->op == op) return row->cases;
  return NULL;
}
