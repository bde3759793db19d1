/* dropout.c -- dropout whose training flag only running can tell: td::dropout(x, ratio?, training?) -> x, mask (true
 * where kept). Training with a ratio other than 0 drops elements at random and is refused. Where inference is certain
 * front ends leave dropout out.
 *
 * y = x, mask = 1 in inference; else x mask / (1 - ratio). ONNX Dropout 12; Srivastava et al. 2014. */
#include "ops/common/ops_priv.h"

#include <string.h>

/* Operand `i` as one number; `fallback` when it is absent. */
static double number_of(const base_call *call, uint32_t i, double fallback) {
  const base_tensor *t = base_in(call, i);
  return t && base_tensor_numel(t) == 1 ? base_load_f64(t->dtype, t->data, 0) : fallback;
}

static td_status dropout_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0), *mask = base_out(call, 1);
  if (number_of(call, 2, 0) != 0 && number_of(call, 1, 0.5) != 0)
    return base_fail(call->err, TD_UNSUPPORTED, NULL, -1,
                     "td::dropout: dropping elements at random (training) is not supported");
  if (y && base_tensor_numel(y)) base_tensor_copy(y, x);
  if (mask && base_tensor_numel(mask)) memset(mask->data, 1, base_tensor_bytes(mask));
  return TD_OK;
}

static td_status infer_dropout(ir_infer *ctx) {
  TRY(ops_infer_same(ctx));
  return ir_out_like(ctx, 1, 0, TD_BOOL);
}

static bool cases(ir_case *c, uint32_t number) {
  if (number == 0) return ops_case_in(c, TD_F32, OPS_DIMS(3, 5), OPS_SPECIAL, 1);
  return number == 1 && ops_case_in(c, TD_F16, OPS_DIMS(2, 0), OPS_NORMAL, 2);
}

OPS_DECLARE(dropout);
const ir_op ops_dropout[] = {
    {.id = OPERATOR(td, dropout),
     .min_in = 1,
     .max_in = 3,
     .out_count = 2,
     .infer = infer_dropout,
     .reference = dropout_reference},
};
OPS_TABLE(dropout);
OPS_CASES(dropout) = {
    {OP_td_dropout, cases},
    {0},
};
