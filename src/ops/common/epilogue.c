/* epilogue.c -- epilogues of operators: shapes, the plain-loop definition, test operands. */
#include "ops/common/epilogue_priv.h"

/* Operand `i` is f32 and has these dims, where it is there and they are known. */
static td_status check_operand(ir_infer *ctx, uint32_t i, int32_t rank, const base_dim *dims) {
  const ir_info *in = ir_in(ctx, i);
  if (!in) return TD_OK;
  if (in->type.dtype != TD_F32) return ir_infer_fail(ctx, "operand %u is not f32", i);
  if (in->type.rank == IR_UNRANKED) return TD_OK;
  bool fits = in->type.rank == rank;
  for (int32_t k = 0; fits && k < rank; k++) fits = !ops_dims_differ(in->type.dims[k], dims[k]);
  return fits ? TD_OK : ir_infer_fail(ctx, "operand %u does not fit the result", i);
}

td_status ops_infer_epilogue(ir_infer *ctx) {
  const ir_type *out = &ctx->out[0].type;
  const char *act = base_attr_str(ctx->attrs, ctx->attrs->count - KERN_EPILOGUE_ATTRS);
  if (kern_act_find(act) == KERN_ACT_COUNT) return ir_infer_fail(ctx, "there is no activation '%s'", act);
  if (out->rank == IR_UNRANKED) return TD_OK;
  TRY(check_operand(ctx, KERN_IN_RESIDUAL, out->rank, out->dims));
  const base_dim *last = &out->dims[out->rank - 1];
  TRY(check_operand(ctx, KERN_IN_BIAS, 1, last));
  TRY(check_operand(ctx, KERN_IN_SCALE, 1, last));
  return check_operand(ctx, KERN_IN_SHIFT, 1, last);
}

td_status ops_apply_epilogue(const base_call *call, const base_f32 *sums) {
  const base_tensor *out = base_out(call, 0);
  kern_epilogue e = kern_epilogue_of(call);
  const base_f32 *part[KERN_EPILOGUE_END] = {NULL};
  for (uint32_t i = KERN_IN_BIAS; i < KERN_EPILOGUE_END; i++) {
    if (!base_in(call, i)) continue;
    part[i] = ops_dense_f32(call, i);
    if (!part[i]) return base_no_memory(call->err, "scratch");
  }
  const base_f32 *bias = part[KERN_IN_BIAS], *residual = part[KERN_IN_RESIDUAL], *scale = part[KERN_IN_SCALE],
                 *shift = part[KERN_IN_SHIFT];
  base_f32 *y = out->data;
  int64_t count = base_tensor_numel(out), columns = out->dims[out->rank - 1];
  for (int64_t i = 0; i < count; i++) {
    int64_t n = i % columns;
    double t = (double)sums[i];
    if (bias) t += (double)bias[n];
    if (!e.late) t = kern_act_apply(e.act, (double)e.a, (double)e.b, t);
    if (residual) t += (double)residual[i];
    if (scale) t *= (double)scale[n];
    if (shift) t += (double)shift[n];
    if (e.late) t = kern_act_apply(e.act, (double)e.a, (double)e.b, t);
    y[i] = (float)t;
  }
  return TD_OK;
}

bool ops_case_epilogue(ir_case *c, uint32_t parts, kern_act act, bool late, int32_t rank, const int64_t *dims) {
  for (uint32_t i = KERN_IN_BIAS; i < KERN_EPILOGUE_END && parts >> i; i++) {
    bool whole = i == KERN_IN_RESIDUAL;
    bool made = parts >> i & 1
                    ? ops_case_in(c, TD_F32, whole ? rank : 1, whole ? dims : dims + rank - 1, OPS_NORMAL, 40 + i)
                    : ops_case_absent(c);
    if (!made) return false;
  }
  if (act == KERN_ACT_none) return true;
  ops_case_arg(c, ARG_STR("act", kern_act_name(act)));
  if (act == KERN_ACT_clamp) ops_case_arg(c, ARG_FLOAT("act_b", 0.75));
  if (act == KERN_ACT_leaky_relu || act == KERN_ACT_hard_sigmoid) ops_case_arg(c, ARG_FLOAT("act_a", 0.25));
  if (late) ops_case_arg(c, ARG_BOOL("act_late", true));
  return true;
}
