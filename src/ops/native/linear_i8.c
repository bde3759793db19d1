/* linear_i8.c -- td::linear_i8(x [..., k], w, bias?, residual?, scale?, shift?) -> [..., n]: the sums over k of
 * (x_q - x_zero) w in integers, times x_scale and each column's scale, through an epilogue, and (y_scale > 0)
 * quantised; kern_i8_direct says how where all stays in 8 bits. x_q is x, or x quantised where it is f32. Passes make
 * it; weights: kernels/products/pack_i8.h. */
#include "ops/common/i8_priv.h"

#include <string.h>

static const ir_attr attrs[] = {KERN_LINEAR_I8_LIST(OPS_ATTR_ROW) KERN_I8_LIST(OPS_ATTR_ROW)
                                    KERN_EPILOGUE_LIST(OPS_ATTR_ROW)};

static td_status infer(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type, *w = &ir_in(ctx, 1)->type;
  const int64_t n = base_attr_int(ctx->attrs, KERN_LINEAR_I8_COLUMNS);
  const kern_i8_scales s = kern_i8_scales_of(ctx->attrs);
  td_dtype dtype;
  TRY(ops_i8_check_packed(ctx, &dtype));
  if (kern_chain_in_front(ctx->attrs)) return ir_infer_fail(ctx, "a chain in front of a product that takes none");
  if (x->rank == IR_UNRANKED) return ir_infer_fail(ctx, "the rank of x must be known");
  if (x->rank == 0) return ir_infer_fail(ctx, "x needs a last dimension");
  base_dim dims[BASE_MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  const base_dim k = dims[x->rank - 1];
  kern_i8_layout l;
  if (n < 0 || w->rank != 1 || (base_dim_known(k) && !kern_i8_layout_of(n, k, s.panel, s.depth, &l)))
    return ir_infer_fail(ctx, "n or the packed weights are out of range");
  if (base_dim_known(k) && base_dim_known(w->dims[0]) && w->dims[0] != l.size)
    return ir_infer_fail(ctx, "packed weights of the wrong length %lld", (long long)w->dims[0]);
  dims[x->rank - 1] = n;
  TRY(ir_out(ctx, 0, dtype, x->rank, dims));
  return ops_i8_infer_epilogue(ctx);
}

static td_status reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const int64_t count = base_tensor_numel(out), k = x->dims[x->rank - 1], n = out->dims[out->rank - 1];
  kern_i8_scales s = kern_i8_scales_of(call->attrs);
  kern_i8_layout l;
  if (count == 0) return TD_OK;
  if (!kern_i8_layout_of(n, k, s.panel, s.depth, &l)) return ops_fail(call, "%lld elements a row", (long long)k);
  const uint8_t *q = ops_i8_values(call, &s), *w = base_in(call, 1)->data;
  int32_t *sums = base_call_scratch(call, (size_t)count, sizeof *sums);
  if (!q || !sums) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < count; i++) {
    sums[i] = 0;
    for (int64_t j = 0; j < k; j++)
      sums[i] += (q[i / n * k + j] - (int)s.x_zero) * (kern_i8_weight(&l, w, 0, i % n, j) - s.w_shift);
  }
  return ops_i8_finish(call, &l, &s, sums);
}

static const kern_row *kernel(const ir_kernel_query *query) { return ops_i8_kernel(KERN_LINEAR_I8, query); }

/* Shapes around the tiles and chunks of all levels, without an epilogue and with some. */
static bool cases(ir_case *c, uint32_t number) {
  static const int64_t shapes[][3] = {
      {1, 1, 1},   {0, 3, 4},   {3, 0, 5},    {4, 3, 0},     {1, 7, 129},  {2, 5, 33},  {6, 13, 64},  {7, 8, 48},
      {13, 5, 31}, {23, 9, 16}, {49, 40, 80}, {97, 11, 113}, {50, 70, 24}, {5, 31, 65}, {8, 256, 96}, {61, 300, 23}};
  static const uint32_t parts[] = {0, BIAS, BIAS | RESIDUAL, SCALE | SHIFT, BIAS | CHAIN};
  static const kern_act acts[] = {KERN_ACT_none, KERN_ACT_relu, KERN_ACT_clamp, KERN_ACT_leaky_relu};
  const uint32_t shape = number / OPS_I8_VARIANTS, variant = number % OPS_I8_VARIANTS;
  if (shape >= OPS_COUNT(shapes)) return false;
  const int64_t m = shapes[shape][0], k = shapes[shape][1], n = shapes[shape][2], x[] = {2, m, k}, y[] = {2, m, n};
  ops_case_arg(c, ARG_INT("n", n));
  const kern_i8_window matrix = {1, k, n, {1, 1, 1}};
  if (!ops_case_i8(c, &matrix, 3, x, variant)) return false;
  const bool bytes = variant / OPS_I8_FORMS >= 2 && variant / OPS_I8_FORMS < 5;
  const uint32_t which = bytes ? shape % 3 : shape % 5;
  return ops_case_epilogue(c, parts[which], acts[(shape + variant) % 4], false, 3, y);
}

OPS_DECLARE(linear_i8);
const ir_op ops_linear_i8[] = {
    {.id = OPERATOR(td, linear_i8),
     .min_in = 2,
     .max_in = KERN_CHAIN_END,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN | IR_OP_EPILOGUE,
     .attrs = attrs,
     .attr_count = OPS_COUNT(attrs),
     .infer = infer,
     .reference = reference,
     .kernel = kernel,
     .flops = ops_flops_linear,
     .rtol = 1e-5f,
     .atol = 1e-5f},
};
OPS_TABLE(linear_i8);
OPS_CASES(linear_i8) = {
    {OP_td_linear_i8, cases},
    {0},
};
