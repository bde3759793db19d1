/* mix.c -- td::mix(w [n, k], x [batch..., k, m]) -> [batch..., n, m]: each matrix of x times constant weights from the
 * left, as token mixers want it: what stands along the rows of x is summed without x being transposed. A chain may
 * follow (kernels/epilogue.h). */
#include "kernels/kernels.h"
#include "ops/common/epilogue_priv.h"
#include "ops/common/gemm_priv.h"

#include <string.h>

enum { IN_W, IN_X, IN_END };
static const ir_attr attrs[] = {KERN_MATMUL_LIST(OPS_ATTR_ROW)};

static td_status infer(ir_infer *ctx) {
  const ir_type *w = &ir_in(ctx, IN_W)->type, *x = &ir_in(ctx, IN_X)->type;
  base_dim dims[BASE_MAX_RANK];
  if (w->dtype != TD_F32 || x->dtype != TD_F32) return ir_infer_fail(ctx, "operands must be f32");
  if (w->rank != 2 || x->rank < 3) return ir_infer_fail(ctx, "it takes a matrix of weights and matrices of rank 3 on");
  memcpy(dims, x->dims, sizeof dims);
  if (ops_dims_differ(w->dims[1], dims[x->rank - 2]))
    return ir_infer_fail(ctx, "weights have %lld columns, x has %lld rows", (long long)w->dims[1],
                         (long long)dims[x->rank - 2]);
  dims[x->rank - 2] = w->dims[0];
  TRY(ir_out(ctx, 0, TD_F32, x->rank, dims));
  return ops_infer_chain(ctx, IN_END);
}

static td_status reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  base_tensor w, x;
  if (!ops_matmul_operand(call, IN_W, TD_F32, &w) || !ops_matmul_operand(call, IN_X, TD_F32, &x))
    return base_no_memory(call->err, "scratch");
  TRY(ops_multiply(call, &w, &x, out, out->data));
  return ops_apply_chain(call);
}

static double flops(const ir_info *const *in, const ir_info *out, const base_attrs *a) {
  (void)a;
  const ir_type *w = &in[IN_W]->type;
  double total = base_dim_known(w->dims[1]) ? 2 * (double)w->dims[1] : 0;
  for (int32_t i = 0; i < out->type.rank; i++)
    total *= base_dim_known(out->type.dims[i]) ? (double)out->type.dims[i] : 1;
  return total;
}

/* ---- cases ---- */

static bool cases(ir_case *c, uint32_t number) {
  static const struct {
    int64_t n;
    int32_t rank;
    int64_t x[4];
  } shapes[] = {{1, 3, {1, 1, 1}},     {5, 3, {2, 7, 33}},  {49, 3, {1, 49, 96}},   {20, 4, {2, 3, 17, 16}},
                {13, 3, {3, 40, 130}}, {0, 3, {2, 3, 4}},   {6, 3, {0, 3, 4}},      {6, 3, {2, 0, 5}},
                {3, 3, {3, 4, 0}},     {70, 3, {2, 9, 1}},  {24, 4, {1, 2, 65, 7}}, {196, 3, {1, 196, 40}},
                {2, 3, {2, 300, 17}},  {12, 3, {5, 12, 64}}};
  if (number >= 3 * OPS_COUNT(shapes)) return false;
  const bool pairs = number >= 2 * OPS_COUNT(shapes);
  const uint32_t which = pairs ? number - 2 * OPS_COUNT(shapes) : number / 2;
  if (pairs) ops_case_arg(c, ARG_BOOL("pairs", true));
  const int32_t rank = shapes[which].rank;
  int64_t y[4], w[2] = {shapes[which].n, shapes[which].x[rank - 2]};
  memcpy(y, shapes[which].x, sizeof y);
  y[rank - 2] = shapes[which].n;
  return ops_case_in(c, TD_F32, 2, w, OPS_NORMAL, 1) && ops_case_in(c, TD_F32, rank, shapes[which].x, OPS_NORMAL, 2) &&
         (number % 2 == 0 || ops_case_chain(c, rank, y));
}

OPS_DECLARE(mix);
const ir_op ops_mix[] = {
    {.id = OPERATOR(td, mix),
     .min_in = IN_END,
     .max_in = IN_END + BASE_PROGRAM_OPERANDS - 1,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN,
     .attrs = attrs,
     .attr_count = OPS_COUNT(attrs),
     .by_sample = UINT8_MAX & ~(1 << IN_W),
     .infer = infer,
     .reference = reference,
     .kernel = ops_matmul_kernel,
     .flops = flops,
     .rtol = 1e-4f,
     .atol = 1e-4f},
};
OPS_TABLE(mix);
OPS_CASES(mix) = {
    {OP_td_mix, cases},
    {0},
};
