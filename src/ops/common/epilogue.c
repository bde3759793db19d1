/* epilogue.c -- epilogues of operators: shapes, the plain-loop definition, test operands. */
#include "kernels/loops/loops.h"
#include "kernels/products/products.h"
#include "loop/loop.h"
#include "ops/common/epilogue_priv.h"

#include <string.h>

/* Operand `i` is of this type and has these dims, where it is there and they are known. */
static td_status check_operand(ir_infer *ctx, uint32_t i, td_dtype dtype, int32_t rank, const base_dim *dims) {
  const ir_info *in = ir_in(ctx, i);
  if (!in) return TD_OK;
  if (in->type.dtype != dtype) return ir_infer_fail(ctx, "operand %u is not %s", i, td_dtype_name(dtype));
  if (in->type.rank == IR_UNRANKED) return TD_OK;
  bool fits = in->type.rank == rank;
  for (int32_t k = 0; fits && k < rank; k++) fits = !ops_dims_differ(in->type.dims[k], dims[k]);
  return fits ? TD_OK : ir_infer_fail(ctx, "operand %u does not fit the result", i);
}

td_status ops_out_unranked_sums(ir_infer *ctx) {
  if (ctx->out_count > 1) return ir_infer_fail(ctx, "it has one result, where its rank is not known");
  return ir_out_unranked(ctx, 0, TD_F32);
}

td_status ops_infer_chain(ir_infer *ctx, uint32_t fixed) {
  const bool front = kern_chain_in_front(ctx->attrs);
  const ir_type *out = front ? &ir_in(ctx, 0)->type : &ctx->out[0].type; /* the program's result */
  base_program p;
  uint32_t count;
  const int64_t *words = base_attr_ints(ctx->attrs, ctx->attrs->count - 1, &count);
  if (front && !(ctx->op->flags & IR_OP_FRONT)) return ir_infer_fail(ctx, "it takes no chain in front");
  if (!count && (ctx->in_count > fixed || ctx->out_count > 1))
    return ir_infer_fail(ctx, "operands or results of a chain that is not there");
  if (!count) return TD_OK;
  const char *wrong = kern_chain_read(words, count, front, &p);
  if (wrong) return ir_infer_fail(ctx, "the chain is damaged: %s", wrong);
  if (ctx->out_count > p.out_count) return ir_infer_fail(ctx, "the chain has %u results", p.out_count);
  for (uint32_t k = 1; k < ctx->out_count; k++) ctx->out[k].type = *out;
  const uint32_t others = p.in_count - 1u, first = ctx->in_count - others;
  if (p.rank != out->rank || (others && ctx->in_count < fixed + others))
    return ir_infer_fail(ctx, "the chain is for another rank or other operands");
  for (uint32_t k = first; k < ctx->in_count; k++) {
    const ir_type *t = ctx->in[k] ? &ctx->in[k]->type : NULL;
    if (!t || t->kind > IR_BOOL || t->rank > out->rank) return ir_infer_fail(ctx, "operand %u is no chain's", k);
    for (int32_t i = 0; i < t->rank; i++) {
      const base_dim dim = t->dims[i], whole = out->dims[out->rank - t->rank + i];
      if (dim != 1 && ops_dims_differ(dim, whole)) return ir_infer_fail(ctx, "operand %u does not fit the result", k);
    }
  }
  return TD_OK;
}

td_status ops_infer_epilogue(ir_infer *ctx, td_dtype residual) {
  const ir_type *out = &ctx->out[0].type;
  const char *act = base_attr_str(ctx->attrs, ctx->attrs->count - KERN_EPILOGUE_ATTRS + KERN_EPILOGUE_ACT);
  if (kern_act_find(act) == KERN_ACT_COUNT) return ir_infer_fail(ctx, "there is no activation '%s'", act);
  const td_dtype result = kern_result_type(ctx->attrs);
  if (result != TD_F32 && out->dtype != result)
    return ir_infer_fail(ctx, "its result cannot be %s", td_dtype_name(result));
  if (out->rank == IR_UNRANKED) return ops_infer_chain(ctx, KERN_CHAIN_END);
  TRY(check_operand(ctx, KERN_IN_RESIDUAL, residual, out->rank, out->dims));
  const base_dim *last = &out->dims[out->rank - 1];
  TRY(check_operand(ctx, KERN_IN_BIAS, TD_F32, 1, last));
  TRY(check_operand(ctx, KERN_IN_SCALE, TD_F32, 1, last));
  TRY(check_operand(ctx, KERN_IN_SHIFT, TD_F32, 1, last));
  return ops_infer_chain(ctx, ctx->op->max_in - (BASE_PROGRAM_OPERANDS - 1));
}

static bool is_bf16(const ir_info *info) { return info && info->type.dtype == TD_BF16; }

td_status ops_infer_product(ir_infer *ctx, bool pairs, int32_t rank, const base_dim *dims) {
  const td_dtype result = kern_result_type(ctx->attrs);
  const bool front = kern_chain_in_front(ctx->attrs), chain = base_attr_has(ctx->attrs, ctx->attrs->count - 1);
  const bool residual = is_bf16(ir_in(ctx, KERN_IN_RESIDUAL));
  if (is_bf16(ir_in(ctx, 0)) && front) return ir_infer_fail(ctx, "a chain in front makes x of f32");
  if (result != TD_F32 && (!pairs || result != TD_BF16 || (chain && !front)))
    return ir_infer_fail(ctx, "its result cannot be %s", td_dtype_name(result));
  TRY(ir_out(ctx, 0, result, rank, dims));
  return ops_infer_epilogue(ctx, pairs && residual ? TD_BF16 : TD_F32);
}

td_status ops_apply_chain(const base_call *call) {
  const base_value *in[BASE_PROGRAM_OPERANDS];
  base_program p;
  uint32_t count;
  const int64_t *words = base_attr_ints(call->attrs, call->attrs->count - 1, &count);
  if (!count || kern_chain_in_front(call->attrs)) return TD_OK;
  const char *wrong = kern_chain_read(words, count, false, &p);
  if (wrong || call->in_count + 1u < p.in_count) return ops_fail(call, "the chain is damaged: %s", wrong ? wrong : "");
  in[0] = call->out[0];
  for (uint32_t k = 1; k < p.in_count; k++) in[k] = call->in[call->in_count - p.in_count + k];
  base_call of_program = *call;
  of_program.in = in;
  of_program.in_count = p.in_count;
  return loop_run_plain(&of_program, &p);
}

td_status ops_run_front(const base_call **call, ops_front *f) {
  const base_call *whole = *call;
  const base_tensor *x = base_in(whole, 0);
  const base_value *in[BASE_PROGRAM_OPERANDS];
  base_value *out[] = {&f->x};
  base_program p;
  uint32_t count;
  if (!kern_chain_in_front(whole->attrs)) return TD_OK;
  const int64_t *words = base_attr_ints(whole->attrs, whole->attrs->count - 1, &count);
  const char *wrong = kern_chain_read(words, count, true, &p);
  if (wrong || whole->in_count < p.in_count || whole->in_count > KERN_CHAIN_END)
    return ops_fail(whole, "the chain is damaged: %s", wrong ? wrong : "");
  float *made = base_call_scratch(whole, (size_t)base_tensor_numel(x), sizeof *made);
  if (!made) return base_no_memory(whole->err, "scratch");
  f->x = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(made, TD_F32, x->rank, x->dims)};
  for (uint32_t k = 0; k < p.in_count; k++) in[k] = whole->in[k ? whole->in_count - p.in_count + k : 0];
  base_call of_program = *whole;
  of_program.in = in;
  of_program.in_count = p.in_count;
  of_program.out = out;
  of_program.out_count = 1;
  TRY(loop_run_plain(&of_program, &p));
  memcpy(f->in, whole->in, whole->in_count * sizeof(f->in[0]));
  f->in[0] = &f->x;
  f->call = *whole;
  f->call.in = f->in;
  *call = &f->call;
  return TD_OK;
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
    if (out->dtype == TD_BF16) ((uint16_t *)out->data)[i] = base_f32_to_bf16((float)t);
    else y[i] = (float)t;
  }
  return ops_apply_chain(call);
}

bool ops_case_chain(ir_case *c, int32_t rank, const int64_t *dims) {
  int64_t a[BASE_MAX_RANK], b[BASE_MAX_RANK];
  loop_build l;
  for (int32_t i = 0; i < rank; i++) {
    a[i] = i == 0 || i == rank - 1 ? dims[i] : 1;
    b[i] = i < rank - 1 ? dims[i] : 1;
  }
  loop_start(&l, (uint8_t)rank, 0);
  const uint16_t t = loop_unary(&l, BASE_SCALAR_mish, loop_load(&l, 0, BASE_TYPE_F32, false));
  const uint16_t scaled = loop_binary(&l, BASE_SCALAR_mul, t, loop_load(&l, 1, BASE_TYPE_F32, false));
  const uint16_t less = loop_load(&l, 2, BASE_TYPE_F32, false);
  loop_store(&l, loop_binary(&l, BASE_SCALAR_sub, scaled, less), TD_F32, false);
  loop_store(&l, t, TD_F32, false);
  int64_t *words = loop_finish(&l) ? base_new(c->arena, int64_t, base_program_size(&l.program)) : NULL;
  if (!words) return false;
  base_program_write(&l.program, words);
  ops_case_arg(c, ARG_INTS("chain", words, base_program_size(&l.program)));
  return ops_case_in(c, TD_F32, rank, a, OPS_NORMAL, 50) && ops_case_in(c, TD_F32, rank, b, OPS_NORMAL, 51);
}

bool ops_case_front(ir_case *c, bool reduces) {
  const base_tensor x = c->in[0];
  int64_t a[BASE_MAX_RANK], b[BASE_MAX_RANK];
  loop_build l;
  for (int32_t i = 0; i < x.rank; i++) {
    a[i] = i == x.rank - 1 ? x.dims[i] : 1;
    b[i] = i < x.rank - 1 ? x.dims[i] : 1;
  }
  loop_start(&l, (uint8_t)x.rank, reduces);
  const uint16_t t = loop_load(&l, 0, BASE_TYPE_F32, false), by = loop_load(&l, 1, BASE_TYPE_F32, false);
  const uint16_t more = loop_load(&l, 2, BASE_TYPE_F32, reduces);
  uint16_t last;
  if (reduces) {
    const uint16_t mean = loop_binary(&l, BASE_SCALAR_div, loop_reduce(&l, BASE_COMBINE_SUM, t), loop_length(&l));
    last = loop_binary(&l, BASE_SCALAR_maximum, loop_binary(&l, BASE_SCALAR_sub, t, mean), by);
  } else {
    last = loop_unary(&l, BASE_SCALAR_relu, loop_binary(&l, BASE_SCALAR_mul, t, by));
  }
  loop_store(&l, loop_binary(&l, BASE_SCALAR_add, last, more), TD_F32, false);
  int64_t *words = loop_finish(&l) ? base_new(c->arena, int64_t, base_program_size(&l.program)) : NULL;
  if (!words) return false;
  base_program_write(&l.program, words);
  ops_case_arg(c, ARG_BOOL("in_front", true));
  ops_case_arg(c, ARG_INTS("chain", words, base_program_size(&l.program)));
  return ops_case_in(c, TD_F32, x.rank, a, OPS_NORMAL, 52) && ops_case_in(c, TD_F32, x.rank, b, OPS_NORMAL, 53);
}

bool ops_case_epilogue(ir_case *c, uint32_t parts, kern_act act, bool late, int32_t rank, const int64_t *dims) {
  for (uint32_t i = KERN_IN_BIAS; i < KERN_EPILOGUE_END && parts >> i; i++) {
    bool whole = i == KERN_IN_RESIDUAL;
    bool made = parts >> i & 1
                    ? ops_case_in(c, TD_F32, whole ? rank : 1, whole ? dims : dims + rank - 1, OPS_NORMAL, 40 + i)
                    : ops_case_absent(c);
    if (!made) return false;
  }
  if (parts & CHAIN && !ops_case_chain(c, rank, dims)) return false;
  if (parts & (FRONT | FRONT_ROWS) && !ops_case_front(c, parts & FRONT_ROWS)) return false;
  if (act == KERN_ACT_none) return true;
  ops_case_arg(c, ARG_STR("act", kern_act_name(act)));
  if (act == KERN_ACT_clamp) ops_case_arg(c, ARG_FLOAT("act_b", 0.75));
  if (act == KERN_ACT_leaky_relu || act == KERN_ACT_hard_sigmoid) ops_case_arg(c, ARG_FLOAT("act_a", 0.25));
  if (late) ops_case_arg(c, ARG_BOOL("act_late", true));
  return true;
}

static bool round_operand(ir_case *c, uint32_t i) {
  base_tensor *t = &c->in[i];
  uint16_t *to = base_new(c->arena, uint16_t, (size_t)base_tensor_numel(t) + 1);
  if (!to) return false;
  base_convert(TD_BF16, to, TD_F32, t->data, base_tensor_numel(t), false);
  *t = base_tensor_of(to, TD_BF16, t->rank, t->dims);
  return true;
}

bool ops_case_bf16(ir_case *c, uint32_t which, uint32_t parts) {
  if (which & BF16_RESULT && !(parts & CHAIN)) ops_case_arg(c, ARG_DTYPE("result", TD_BF16));
  if (which & BF16_X && !(parts & (FRONT | FRONT_ROWS)) && !round_operand(c, 0)) return false;
  return !(which & BF16_RESIDUAL && parts & RESIDUAL) || round_operand(c, KERN_IN_RESIDUAL);
}
