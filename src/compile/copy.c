/* copy.c -- the one step the compiler adds by itself: a dense copy of a value that must not stay where it is. */
#include "compile/compile_priv.h"
#include "kernels/kernels.h"

/* Where no kernels are asked for, and where the type is not known before the run: one that any CPU runs. */
static td_status copy_planned(const base_call *call) {
  const kern_row *row = kern_select(KERN_COPY, base_in(call, 0)->dtype, 0);
  return row ? row->run(call) : base_fail(call->err, TD_INTERNAL, NULL, -1, "there is no kernel to copy this type");
}

static td_status copy_tail(const base_call *call) {
  const base_value *from = call->in[0];
  if (from->kind != BASE_TENSOR) {
    *call->out[0] = *from; /* lists and nothing: immutable, in the tail already */
    return TD_OK;
  }
  TRY(base_call_define(call, 0, from->tensor.dtype, from->tensor.rank, from->tensor.dims));
  return copy_planned(call);
}

void lower_copy_work(const base_call *call, double *flops, double *bytes) {
  *flops = 0;
  *bytes = 2.0 * (double)base_tensor_bytes(base_in(call, 0));
}

const plan_function lower_copy_planned = {.name = "copy", .run = copy_planned};
const plan_function lower_copy_tail = {.name = "copy", .run = copy_tail};
