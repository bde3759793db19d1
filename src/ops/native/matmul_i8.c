/* matmul_i8.c -- td::matmul_i8(x [..., m, k], w [..., k, n]) -> [..., m, n], of two operands of 8 bits, neither of them
 * weights: the sums over k of (x - x_zero) (w - w_zero) in integers, times x_scale w_scale, through an activation or a
 * chain, and (y_scale > 0) quantised, as those of td::linear_i8 are. Batches broadcast as aten::matmul's. Passes make
 * it. */
#include "ops/common/gemm_priv.h"
#include "ops/common/i8_priv.h"

#include <math.h>
#include <string.h>

static const ir_attr attrs[] = {KERN_MATMUL_I8_LIST(OPS_ATTR_ROW) KERN_I8_LIST(OPS_ATTR_ROW)
                                    KERN_EPILOGUE_LIST(OPS_ATTR_ROW)};

static td_status infer(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type, *w = &ir_in(ctx, 1)->type;
  const double scale = base_attr_float(ctx->attrs, KERN_MATMUL_I8_SCALE);
  const int64_t zero = base_attr_int(ctx->attrs, KERN_MATMUL_I8_ZERO);
  td_dtype dtype;
  TRY(ops_i8_check(ctx, &dtype));
  if (x->dtype == TD_F32 || (w->dtype != TD_U8 && w->dtype != TD_I8))
    return ir_infer_fail(ctx, "both operands must be of 8 bits");
  if (!(scale > 0) || !isfinite((float)scale) || zero < 0 || zero > UINT8_MAX)
    return ir_infer_fail(ctx, "a scale or zero point is out of range");
  for (uint32_t i = KERN_IN_BIAS; i < KERN_EPILOGUE_END; i++)
    if (ir_in(ctx, i)) return ir_infer_fail(ctx, "no vectors and no residual are taken");
  if (kern_chain_in_front(ctx->attrs)) return ir_infer_fail(ctx, "a chain in front of a product that takes none");
  if (x->rank < 2 || w->rank < 2) return ir_infer_fail(ctx, "both operands must be matrices, or batches of these");
  const base_dim k = x->dims[x->rank - 1];
  if (base_dim_known(k) && k > KERN_MATMUL_I8_MAX_K)
    return ir_infer_fail(ctx, "%lld elements a row: at most %d are summed", (long long)k, KERN_MATMUL_I8_MAX_K);
  TRY(ops_infer_matmul(ctx, 0, 1, dtype));
  return ops_i8_infer_epilogue(ctx);
}

/* Operand `i` less its zero point, of unsigned bytes; NULL: out of memory. */
static int64_t *centred(const base_call *call, uint32_t i, int64_t zero) {
  const base_tensor *t = base_in(call, i);
  base_tensor wide;
  if (!ops_typed(call, i, TD_I64, &wide)) return NULL;
  int64_t *to = base_call_scratch(call, (size_t)base_tensor_numel(t), sizeof *to);
  for (int64_t at = 0; to && at < base_tensor_numel(t); at++)
    to[at] = ((const base_i64 *)wide.data)[at] + (t->dtype == TD_I8 ? 128 : 0) - zero;
  return to;
}

static td_status reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *w = base_in(call, 1), *out = base_out(call, 0);
  const kern_i8_scales s = kern_i8_scales_of(call->attrs);
  const int64_t count = base_tensor_numel(out), n = out->dims[out->rank - 1];
  if (count == 0) return TD_OK;
  int64_t *a = centred(call, 0, (int64_t)s.x_zero),
          *b = centred(call, 1, base_attr_int(call->attrs, KERN_MATMUL_I8_ZERO));
  int64_t *wide = base_call_scratch(call, (size_t)count, sizeof *wide);
  int32_t *sums = base_call_scratch(call, (size_t)count, sizeof *sums);
  float *by = base_call_scratch(call, (size_t)n, sizeof *by);
  if (!a || !b || !wide || !sums || !by) return base_no_memory(call->err, "scratch");
  const base_tensor left = base_tensor_of(a, TD_I64, x->rank, x->dims),
                    right = base_tensor_of(b, TD_I64, w->rank, w->dims);
  TRY(ops_multiply(call, &left, &right, out, wide));
  for (int64_t i = 0; i < count; i++) sums[i] = (int32_t)wide[i];
  for (int64_t i = 0; i < n; i++) by[i] = (float)base_attr_float(call->attrs, KERN_MATMUL_I8_SCALE);
  return ops_i8_finish_scaled(call, &s, sums, by);
}

static const kern_row *kernel(const ir_kernel_query *query) { return ops_i8_kernel(KERN_MATMUL_I8, query); }

/* Shapes around the tiles and chunks of all levels, batches that do and do not broadcast; both signs of both operands,
 * zero points of w that are and are not its middle. */
static const struct {
  int32_t x_rank, w_rank;
  int64_t x[4], w[4];
} shapes[] = {{2, 2, {1, 1}, {1, 1}},
              {2, 2, {0, 4}, {4, 3}},
              {2, 2, {3, 0}, {0, 5}},
              {2, 2, {7, 130}, {130, 33}},
              {3, 3, {2, 13, 64}, {2, 64, 49}},
              {3, 3, {3, 49, 49}, {3, 49, 64}},
              {4, 4, {1, 3, 97, 8}, {1, 3, 8, 97}},
              {4, 4, {2, 2, 5, 67}, {1, 2, 67, 80}},
              {3, 2, {4, 6, 20}, {20, 129}},
              {4, 3, {2, 3, 50, 24}, {3, 24, 1}},
              {2, 3, {12, 31}, {2, 31, 16}},
              {2, 2, {61, 300}, {300, 23}}};

static bool cases(ir_case *c, uint32_t number) {
  enum { KINDS = 4, FORMS = 2 };
  static const td_dtype types[KINDS][2] = {{TD_U8, TD_U8}, {TD_I8, TD_I8}, {TD_U8, TD_I8}, {TD_I8, TD_U8}};
  static const int64_t forms[FORMS][2] = {{8, 2}, {16, 4}};
  static const kern_act acts[] = {KERN_ACT_none, KERN_ACT_relu, KERN_ACT_clamp, KERN_ACT_leaky_relu};
  const uint32_t shape = number / (KINDS * FORMS), kind = number / FORMS % KINDS, form = number % FORMS;
  if (shape >= OPS_COUNT(shapes)) return false;
  const int32_t x_rank = shapes[shape].x_rank, w_rank = shapes[shape].w_rank;
  const int64_t *x = shapes[shape].x, *w = shapes[shape].w;
  const bool bytes = (shape + kind) % 3 != 0, is_signed = bytes && kind == 1;
  int64_t y[4];
  const int32_t rank = ops_case_matmul_dims(x_rank, x, w_rank, w, y);
  if (!ops_case_in(c, types[kind][0], x_rank, x, OPS_SPECIAL, number) ||
      !ops_case_in(c, types[kind][1], w_rank, w, OPS_SPECIAL, number + 1))
    return false;
  ops_case_arg(c, ARG_FLOAT("w_scale", 1.0 / 32));
  ops_case_arg(c, ARG_INT("w_zero", shape % 2 ? 128 : 77));
  ops_case_arg(c, ARG_INT("panel8", forms[form][0]));
  ops_case_arg(c, ARG_INT("depth", forms[form][1]));
  ops_case_arg(c, ARG_FLOAT("x_scale", 1.0 / 64));
  ops_case_arg(c, ARG_INT("x_zero", shape % 4 == 3 ? 0 : 131));
  ops_case_arg(c, ARG_FLOAT("y_scale", bytes ? 0.37 : 0));
  ops_case_arg(c, ARG_INT("y_zero", is_signed ? -3 : bytes ? 100 : 0));
  ops_case_arg(c, ARG_BOOL("y_signed", is_signed));
  return ops_case_epilogue(c, !bytes && kind != 1 ? CHAIN : 0, acts[(shape + number) % 4], false, rank, y);
}

OPS_DECLARE(matmul_i8);
const ir_op ops_matmul_i8[] = {
    {.id = OPERATOR(td, matmul_i8),
     .min_in = 2,
     .max_in = KERN_CHAIN_END,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN,
     .attrs = attrs,
     .attr_count = OPS_COUNT(attrs),
     .infer = infer,
     .reference = reference,
     .kernel = kernel,
     .flops = ops_flops_linear,
     .rtol = 1e-5f,
     .atol = 1e-5f},
};
OPS_TABLE(matmul_i8);
OPS_CASES(matmul_i8) = {
    {OP_td_matmul_i8, cases},
    {0},
};
