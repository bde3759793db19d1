/* copy.c -- the one step the compiler adds by itself: a dense copy of a value that must not stay where it is. */
#include "compile/compile_priv.h"

static td_status copy_planned(const base_call *call) {
  base_tensor_copy(base_out(call, 0), base_in(call, 0));
  return TD_OK;
}

static td_status copy_tail(const base_call *call) {
  const base_value *from = call->in[0];
  if (from->kind != BASE_TENSOR) {
    *call->out[0] = *from; /* lists and nothing: immutable, in the tail already */
    return TD_OK;
  }
  TRY(base_call_define(call, 0, from->tensor.dtype, from->tensor.rank, from->tensor.dims));
  base_tensor_copy(base_out(call, 0), &from->tensor);
  return TD_OK;
}

const plan_function lower_copy_planned = {.name = "copy", .run = copy_planned};
const plan_function lower_copy_tail = {.name = "copy", .run = copy_tail};
