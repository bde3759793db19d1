/* eval.h -- running one operator's reference outside a plan: the constant folder, tests, and the shape of a step at run
 * time. */
#ifndef IR_EVAL_H
#define IR_EVAL_H
#include "ir/op.h"

/* Infers with numbers alone and defines each output of `call` that has no memory yet (call->op is the ir_op). This is
 * the shape function of a step whose sizes only running can tell. */
td_status ir_define_outputs(const base_call *call);

/* Infers with numbers alone and compares with the dims that outputs already have: sizes planned from input shapes
 * against what the operands' values say. */
td_status ir_check_outputs(const base_call *call);

/* What a step has to do (see ir_cost) with the operands and outputs it has now; zeros when that is not known. */
void ir_call_work(const base_call *call, double *flops, double *bytes);

/* Runs `op` on `in` (values that live as long as the outputs are read); outputs are made in `arena` and written to
 * `out`, `out_count` of them. */
td_status ir_evaluate(const ir_op *op, const base_attrs *attrs, const base_value *const *in, uint32_t in_count,
                      base_arena *arena, base_value *out, uint32_t out_count, td_error *err);
/* What a VIEW or VIEW_DENSE operator shows of in[0], whose memory *shown shares; `type` is its result's, all sizes
 * known. Of VIEW_DENSE in[0] must be contiguous. */
td_status ir_show(const ir_op *op, const base_attrs *attrs, const base_value *const *in, uint32_t in_count,
                  base_arena *arena, const ir_type *type, base_tensor *shown, td_error *err);

/* Attributes in table order with defaults from `args` by name. `what` names the node in errors. */
td_status ir_make_attrs(base_arena *arena, const ir_op *op, const base_arg *args, uint32_t count,
                        const base_attrs **attrs, td_error *err);
#endif
