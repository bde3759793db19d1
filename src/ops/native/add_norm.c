/* add_norm.c -- what passes make of additions and normalisations next to each other. */
#include "ops/common/kernel_priv.h"
#include "ops/common/lower_priv.h"

#include <math.h>
#include <string.h>

/* ---- td::add_layer_norm(x, y, weight?, bias?): the layer norm of x + y over the last dimension, and x + y ---- */

enum { X, Y, WEIGHT, BIAS };
static const ir_attr add_layer_attrs[] = {KERN_ADD_NORM_LIST(OPS_ATTR_ROW)};

static td_status add_layer_reference(const base_call *call) {
  const base_tensor *x = base_in(call, X), *out = base_out(call, 0), *sum = base_out(call, 1);
  int64_t count = base_tensor_numel(x), n = x->dims[x->rank - 1];
  const base_f64 *a = ops_dense_f64(call, X), *b = ops_dense_f64(call, Y), *weight = ops_dense_f64(call, WEIGHT),
                 *bias = ops_dense_f64(call, BIAS);
  double *row = base_call_scratch(call, (size_t)n, sizeof *row);
  if (!a || !b || !row || (base_in(call, WEIGHT) && !weight) || (base_in(call, BIAS) && !bias))
    return base_no_memory(call->err, "scratch");
  for (int64_t at = 0; at < count; at += n) {
    double mean = 0, spread = 0;
    for (int64_t k = 0; k < n; k++) mean += row[k] = a[at + k] + b[at + k];
    if (sum) ops_row_put_f64(sum, at, 1, n, row);
    mean /= (double)n;
    for (int64_t k = 0; k < n; k++) spread += (row[k] - mean) * (row[k] - mean);
    double inverse = 1 / sqrt(spread / (double)n + base_attr_float(call->attrs, KERN_ADD_NORM_EPS));
    for (int64_t k = 0; k < n; k++)
      row[k] = (row[k] - mean) * inverse * (weight ? weight[k] : 1) + (bias ? bias[k] : 0);
    if (out) ops_row_put_f64(out, at, 1, n, row);
  }
  return TD_OK;
}

/* Operand `i`, where it is there, is a vector as long as x's last dimension. */
static td_status check_vector(ir_infer *ctx, uint32_t i) {
  const ir_info *v = ir_in(ctx, i);
  const ir_type *x = &ir_in(ctx, X)->type;
  if (!v || v->type.rank == IR_UNRANKED) return TD_OK;
  base_dim length = v->type.rank == 1 ? v->type.dims[0] : BASE_DIM_NONE, n = x->dims[x->rank - 1];
  if (v->type.rank != 1 || ops_dims_differ(length, n))
    return ir_infer_fail(ctx, "operand %u does not fit the last dimension", i);
  return ops_same_dtype(ctx, X, i);
}

static td_status check_rows(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, X)->type;
  if (!base_is_float(x->dtype)) return ir_infer_fail(ctx, "a floating-point type is needed");
  if (x->rank == 0) return ir_infer_fail(ctx, "an operand without dimensions");
  return TD_OK;
}

static td_status infer_add_layer(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, X)->type, *y = &ir_in(ctx, Y)->type;
  TRY(check_rows(ctx));
  TRY(ops_same_dtype(ctx, X, Y));
  if (x->rank != IR_UNRANKED) {
    TRY(check_vector(ctx, WEIGHT));
    TRY(check_vector(ctx, BIAS));
  }
  bool differ = x->rank != y->rank;
  for (int32_t i = 0; !differ && i < x->rank; i++) differ = ops_dims_differ(x->dims[i], y->dims[i]);
  if (differ && x->rank != IR_UNRANKED && y->rank != IR_UNRANKED)
    return ir_infer_fail(ctx, "operands of different dimensions");
  for (uint32_t i = 0; i < ctx->out_count; i++) TRY(ir_out_like(ctx, i, X, TD_INVALID));
  return TD_OK;
}

/* ---- td::scale_shift(x [..., C], scale [C], shift [C]): act(x * scale + shift), act "none" or "relu" ---- */

enum { SCALE = 1, SHIFT };
static const ir_attr scale_shift_attrs[] = {KERN_SCALE_SHIFT_LIST(OPS_ATTR_ROW)};

static td_status scale_shift_reference(const base_call *call) {
  const base_tensor *x = base_in(call, X), *out = base_out(call, 0);
  int64_t count = base_tensor_numel(x), n = x->dims[x->rank - 1];
  const base_f64 *from = ops_dense_f64(call, X), *scale = ops_dense_f64(call, SCALE),
                 *shift = ops_dense_f64(call, SHIFT);
  double *row = base_call_scratch(call, (size_t)n, sizeof *row);
  if (!from || !scale || !shift || !row) return base_no_memory(call->err, "scratch");
  kern_act act = kern_act_find(base_attr_str(call->attrs, KERN_SCALE_SHIFT_ACT));
  for (int64_t at = 0; at < count; at += n) {
    for (int64_t k = 0; k < n; k++) row[k] = kern_act_apply(act, 0, 0, from[at + k] * scale[k] + shift[k]);
    ops_row_put_f64(out, at, 1, n, row);
  }
  return TD_OK;
}

static td_status infer_scale_shift(ir_infer *ctx) {
  const char *act = base_attr_str(ctx->attrs, KERN_SCALE_SHIFT_ACT);
  if (strcmp(act, "none") != 0 && strcmp(act, "relu") != 0)
    return ir_infer_fail(ctx, "act \"%s\" is neither none nor relu", act);
  TRY(check_rows(ctx));
  if (ir_in(ctx, X)->type.rank != IR_UNRANKED) {
    TRY(check_vector(ctx, SCALE));
    TRY(check_vector(ctx, SHIFT));
  }
  return ops_infer_same(ctx);
}

/* ---- work, kernels, cases ---- */

static double flops_per_element(const ir_info *out, double each) {
  for (int32_t i = 0; i < out->type.rank; i++) each *= (double)out->type.dims[i];
  return each;
}
static double add_layer_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  return (void)in, (void)attrs, flops_per_element(out, 8);
}
static double scale_shift_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  return (void)in, (void)attrs, flops_per_element(out, 2);
}

static const kern_row *add_layer_kernel(const ir_kernel_query *query) {
  return ops_kernel_f32(query, KERN_ADD_LAYER_NORM);
}
static const kern_row *scale_shift_kernel(const ir_kernel_query *query) {
  return ops_kernel_f32(query, KERN_SCALE_SHIFT);
}

static bool lower_scale_shift(const ir_kernel_query *query, loop_build *b) {
  const uint16_t scaled = loop_binary(b, BASE_SCALAR_mul, b->in[X], b->in[SCALE]);
  b->out = loop_binary(b, BASE_SCALAR_add, scaled, b->in[SHIFT]);
  if (strcmp(base_attr_str(query->attrs, KERN_SCALE_SHIFT_ACT), "relu") == 0)
    b->out = loop_unary(b, BASE_SCALAR_relu, b->out);
  return true;
}

/* Lengths about a vector, and rows enough for several tasks. */
static const int64_t case_dims[][2] = {{3, 61}, {1, 1}, {5, 16}, {2, 127}, {0, 7}, {4, 0}, {37, 512}};
enum { SHAPES = sizeof case_dims / sizeof *case_dims };

static bool add_layer_cases(ir_case *c, uint32_t number) {
  if (number >= SHAPES * 4) return false;
  td_dtype d = number % SHAPES == 0 && number ? TD_F64 : TD_F32;
  const int64_t *dims = case_dims[number % SHAPES];
  bool ok = ops_case_in(c, d, 2, dims, OPS_NORMAL, 1) && ops_case_in(c, d, 2, dims, OPS_NORMAL, 2);
  uint32_t params = number / SHAPES; /* bit 0: weight, bit 1: bias */
  ok = ok && (params & 1 ? ops_case_in(c, d, 1, dims + 1, OPS_NORMAL, 3) : ops_case_absent(c));
  return ok && (params & 2 ? ops_case_in(c, d, 1, dims + 1, OPS_NORMAL, 4) : ops_case_absent(c));
}

static bool scale_shift_cases(ir_case *c, uint32_t number) {
  if (number >= SHAPES * 2 + 1) return false;
  td_dtype d = number == SHAPES * 2 ? TD_F16 : TD_F32;
  const int64_t *dims = case_dims[number % SHAPES];
  ops_case_arg(c, ARG_STR("act", number / SHAPES % 2 ? "relu" : "none"));
  return ops_case_in(c, d, 2, dims, number % SHAPES == 3 ? OPS_SPECIAL : OPS_NORMAL, 1) &&
         ops_case_in(c, d, 1, dims + 1, OPS_NORMAL, 2) && ops_case_in(c, d, 1, dims + 1, OPS_NORMAL, 3);
}

OPS_DECLARE(add_norm);
const ir_op ops_add_norm[] = {
    {.id = OPERATOR(td, add_layer_norm),
     .min_in = 2,
     .max_in = 4,
     .out_count = 2,
     .attrs = add_layer_attrs,
     .attr_count = OPS_COUNT(add_layer_attrs),
     .by_sample = 1 << X | 1 << Y,
     .infer = infer_add_layer,
     .reference = add_layer_reference,
     .kernel = add_layer_kernel,
     .flops = add_layer_flops,
     .rtol = 1e-5f,
     .atol = 1e-6f},
    {.id = OPERATOR(td, scale_shift),
     .min_in = 3,
     .max_in = 3,
     .out_count = 1,
     .attrs = scale_shift_attrs,
     .attr_count = OPS_COUNT(scale_shift_attrs),
     .by_sample = 1,
     .infer = infer_scale_shift,
     .reference = scale_shift_reference,
     .kernel = scale_shift_kernel,
     .lower = lower_scale_shift,
     .flops = scale_shift_flops,
     .rtol = 1e-5f,
     .atol = 1e-6f},
};
OPS_TABLE(add_norm);
OPS_CASES(add_norm) = {
    {OP_td_add_layer_norm, add_layer_cases},
    {OP_td_scale_shift, scale_shift_cases},
    {0},
};
