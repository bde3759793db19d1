/* prim.c -- regions: operators with blocks. The executor runs them; they have no reference and their outputs' types are
 * given by whoever builds them. prim::fork's block may run beside what follows it, until prim::wait wants its results;
 * prim::RaiseException ends the run with the user's message, td::refuse where its operand holds.
 *
 *     prim::If, Loop    one of two blocks by a condition; a block while its condition holds (ONNX If 1, Loop 1)
 *     prim::fork, wait  a task that runs its block; its results (TorchScript) */
#include "ops/common/ops_priv.h"

static const ir_attr raise_attrs[] = {ATTR_STR("message", "")};

static td_status infer_raise(ir_infer *ctx) { return ir_out(ctx, 0, TD_BOOL, 0, NULL); }
static td_status raise_reference(const base_call *call) {
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "the model raised: %s", base_attr_str(call->attrs, 0));
}

static td_status refuse_reference(const base_call *call) {
  const base_tensor *holds = base_in(call, 0);
  if (!base_load_i64(TD_BOOL, holds->data, 0)) return TD_OK;
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%s", base_attr_str(call->attrs, 0));
}
static td_status infer_refuse(ir_infer *ctx) {
  const ir_type *type = &ctx->in[0]->type;
  if (type->kind != IR_TENSOR || type->dtype != TD_BOOL || type->rank > 0)
    return ir_infer_fail(ctx, "operand 0 is no truth value");
  return ir_out(ctx, 0, TD_BOOL, 0, NULL);
}

static td_status infer_wait(ir_infer *ctx) {
  const ir_type *type = &ctx->in[0]->type;
  if (type->kind != IR_FUTURE || !type->elem) return ir_infer_fail(ctx, "operand 0 is nothing that can be waited for");
  ctx->out[0].type = *type->elem;
  return TD_OK;
}

/* A plan has steps of its own for it: a value alone does not say when it is there. */
static td_status wait_reference(const base_call *call) {
  return ops_fail(call, "a task is waited for outside of a plan");
}

OPS_DECLARE(prim);
const ir_op ops_prim[] = {
    {.id = OPERATOR(prim, If),
     .min_in = 1,
     .max_in = 1,
     .out_count = IR_VARIADIC,
     .flags = IR_OP_REGION,
     .region = IR_REGION_IF},
    {.id = OPERATOR(prim, Loop),
     .min_in = 2,
     .max_in = IR_VARIADIC,
     .out_count = IR_VARIADIC,
     .flags = IR_OP_REGION,
     .region = IR_REGION_LOOP},
    /* (): gives nothing worth having (false) */
    {.id = OPERATOR(prim, RaiseException),
     .out_count = 1,
     .flags = IR_OP_EFFECT | IR_OP_HOST,
     .attrs = raise_attrs,
     .attr_count = OPS_COUNT(raise_attrs),
     .infer = infer_raise,
     .reference = raise_reference},
    /* (bool): gives nothing worth having */
    {.id = OPERATOR(td, refuse),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .flags = IR_OP_EFFECT | IR_OP_HOST,
     .attrs = raise_attrs,
     .attr_count = OPS_COUNT(raise_attrs),
     .infer = infer_refuse,
     .reference = refuse_reference},
    {.id = OPERATOR(prim, fork), .out_count = 1, .flags = IR_OP_REGION, .region = IR_REGION_FORK},
    {.id = OPERATOR(prim, wait),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .flags = IR_OP_HOST | IR_OP_EFFECT, /* an error of the task comes out */
     .region = IR_REGION_WAIT,
     .infer = infer_wait,
     .reference = wait_reference},
};
OPS_TABLE(prim);
OPS_CASES(prim) = {{0}}; /* HOST operators and regions have none */
