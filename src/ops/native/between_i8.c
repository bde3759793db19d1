/* between_i8.c -- what stands between products of 8-bit integers. Passes make it; attributes: kernels/attrs.h.
 *
 *     td::lookup_i8(x)    table[x], x's bits as a number of 0 to 255
 *     td::add_i8(a, b)    round(fma(a - a_zero, a_scale / y_scale, (b - b_zero) * (b_scale / y_scale))) + y_zero
 *     td::mul_i8(a, b)    round((a - a_zero) * (b - b_zero) * (a_scale * b_scale / y_scale)) + y_zero
 *     td::softmax_i8(x)   round(e / (y_scale * sum of e)) + y_zero, e = exp((x - largest x) * x_scale), by rows
 *
 * Sums and products in f32, operation by operation, within least and most, operands broadcast; a and b as numbers of 0
 * to 255 (of i8: plus 128). Their arithmetic is that of ONNX Runtime's QLinearAdd and QLinearMul. */
#include "kernels/rows/rows.h"
#include "kernels/kernels.h"
#include "ops/common/ops_priv.h"

#include <math.h>

static const ir_attr lookup_attrs[] = {KERN_LOOKUP_I8_LIST(OPS_ATTR_ROW)};
static const ir_attr binary_attrs[] = {KERN_BINARY_I8_LIST(OPS_ATTR_ROW)};
static const ir_attr softmax_attrs[] = {KERN_SOFTMAX_I8_LIST(OPS_ATTR_ROW)};

static bool is_bytes(const ir_info *in) { return in->type.dtype == TD_U8 || in->type.dtype == TD_I8; }

static const kern_row *select_bytes(const ir_kernel_query *query, kern_family family) {
  return kern_select(family, TD_I8, query->isa);
}

/* ---- tables ---- */

static td_status infer_lookup(ir_infer *ctx) {
  uint32_t count;
  base_attr_ints(ctx->attrs, KERN_LOOKUP_TABLE, &count);
  if (!is_bytes(ir_in(ctx, 0))) return ir_infer_fail(ctx, "x must be of 8 bits");
  if (count != KERN_LOOKUP_NUMBERS) return ir_infer_fail(ctx, "a table of %u numbers, not 32", count);
  return ir_out_like(ctx, 0, 0, base_attr_int(ctx->attrs, KERN_LOOKUP_SIGNED) ? TD_I8 : TD_U8);
}

static td_status lookup_reference(const base_call *call) {
  uint32_t numbers;
  const int64_t *table = base_attr_ints(call->attrs, KERN_LOOKUP_TABLE, &numbers);
  const uint8_t *x = ops_dense(call, 0);
  const int64_t count = base_tensor_numel(base_out(call, 0));
  if (!x) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < count; i++)
    ((uint8_t *)base_out(call, 0)->data)[i] = (uint8_t)((uint64_t)table[x[i] / 8] >> x[i] % 8 * 8);
  return TD_OK;
}

static const kern_row *lookup_kernel(const ir_kernel_query *query) { return select_bytes(query, KERN_LOOKUP_I8); }

/* ---- sums and products ---- */

static td_status infer_binary(ir_infer *ctx) {
  const base_attrs *a = ctx->attrs;
  const bool is_signed = base_attr_int(a, KERN_BINARY_SIGNED) != 0;
  const int64_t low = is_signed ? -128 : 0, zero = base_attr_int(a, KERN_BINARY_Y_ZERO),
                least = base_attr_int(a, KERN_BINARY_LEAST), most = base_attr_int(a, KERN_BINARY_MOST);
  const float x = (float)base_attr_float(a, KERN_BINARY_A_SCALE), y = (float)base_attr_float(a, KERN_BINARY_B_SCALE),
              by = 1 / (float)base_attr_float(a, KERN_BINARY_Y_SCALE);
  if (!is_bytes(ir_in(ctx, 0)) || !is_bytes(ir_in(ctx, 1))) return ir_infer_fail(ctx, "operands must be of 8 bits");
  if (!isfinite(x * y * by) || !isfinite(x * by) || !isfinite(y * by) || zero < low || zero > low + 255 ||
      least < low || most < least || most > low + 255 || base_attr_int(a, KERN_BINARY_A_ZERO) < 0 ||
      base_attr_int(a, KERN_BINARY_A_ZERO) > 255 || base_attr_int(a, KERN_BINARY_B_ZERO) < 0 ||
      base_attr_int(a, KERN_BINARY_B_ZERO) > 255)
    return ir_infer_fail(ctx, "a scale, zero point or limit is out of range");
  return ops_infer_broadcast(ctx, 2, is_signed ? TD_I8 : TD_U8);
}

static void map(const void *user, int64_t count, const int64_t *const *in, int64_t *out) {
  const kern_binary_i8 *b = user;
  for (int64_t i = 0; i < count; i++) {
    const float x = (float)(in[0][i] + b->flip[0]) - b->zero[0], y = (float)(in[1][i] + b->flip[1]) - b->zero[1];
    const float t = nearbyintf(b->adds ? fmaf(x, b->by[0], y * b->by[1]) : x * y * b->by[0]);
    out[i] = (int64_t)fminf(fmaxf(t + (float)b->y_zero, (float)b->least), (float)b->most);
  }
}

static td_status run_binary(const base_call *call, bool adds) {
  const kern_binary_i8 b = kern_binary_i8_of(call, adds);
  return ops_elementwise_i64(call, 2, map, &b);
}

static td_status add_reference(const base_call *call) { return run_binary(call, true); }
static td_status mul_reference(const base_call *call) { return run_binary(call, false); }
static const kern_row *add_kernel(const ir_kernel_query *query) { return select_bytes(query, KERN_ADD_I8); }
static const kern_row *mul_kernel(const ir_kernel_query *query) { return select_bytes(query, KERN_MUL_I8); }

/* ---- softmax ---- */

static td_status infer_softmax(ir_infer *ctx) {
  const base_attrs *a = ctx->attrs;
  const double x_scale = base_attr_float(a, KERN_SOFTMAX_I8_X_SCALE),
               y_scale = base_attr_float(a, KERN_SOFTMAX_I8_Y_SCALE);
  const bool is_signed = base_attr_int(a, KERN_SOFTMAX_I8_SIGNED) != 0;
  const int64_t low = is_signed ? -128 : 0, zero = base_attr_int(a, KERN_SOFTMAX_I8_Y_ZERO);
  if (!is_bytes(ir_in(ctx, 0))) return ir_infer_fail(ctx, "x must be of 8 bits");
  if (ir_in(ctx, 0)->type.rank == 0) return ir_infer_fail(ctx, "x needs a last dimension");
  if (!(x_scale > 0) || !isfinite((float)x_scale) || !(y_scale > 0) || !isfinite(1 / (float)y_scale) || zero < low ||
      zero > low + 255)
    return ir_infer_fail(ctx, "a scale or zero point is out of range");
  return ir_out_like(ctx, 0, 0, is_signed ? TD_I8 : TD_U8);
}

static td_status softmax_reference(const base_call *call) {
  const base_attrs *a = call->attrs;
  const base_tensor *out = base_out(call, 0);
  const double x_scale = base_attr_float(a, KERN_SOFTMAX_I8_X_SCALE),
               y_scale = base_attr_float(a, KERN_SOFTMAX_I8_Y_SCALE);
  const int flip = base_in(call, 0)->dtype == TD_I8 ? 128 : 0, low = out->dtype == TD_I8 ? -128 : 0;
  const double zero = (double)base_attr_int(a, KERN_SOFTMAX_I8_Y_ZERO);
  const int64_t count = base_tensor_numel(out), n = out->dims[out->rank - 1];
  const uint8_t *x = ops_dense(call, 0);
  uint8_t *to = out->data;
  if (!x) return base_no_memory(call->err, "scratch");
  for (int64_t row = 0; row < count; row += n) {
    int largest = 0;
    double sum = 0;
    for (int64_t i = row; i < row + n; i++) largest = (x[i] ^ flip) > largest ? x[i] ^ flip : largest;
    for (int64_t i = row; i < row + n; i++) sum += exp(((x[i] ^ flip) - largest) * x_scale);
    for (int64_t i = row; i < row + n; i++) {
      const double t = nearbyint(exp(((x[i] ^ flip) - largest) * x_scale) / (y_scale * sum)) + zero;
      to[i] = (uint8_t)(int)fmin(fmax(t, low), low + 255);
    }
  }
  return TD_OK;
}

static const kern_row *softmax_kernel(const ir_kernel_query *query) { return select_bytes(query, KERN_SOFTMAX_I8); }

/* ---- cases ---- */

static const int64_t lengths[] = {0, 1, 15, 16, 17, 63, 64, 65, 127, 200, 1030};

static bool lookup_cases(ir_case *c, uint32_t number) {
  if (number >= OPS_COUNT(lengths)) return false;
  int64_t *table = base_new(c->arena, int64_t, KERN_LOOKUP_NUMBERS);
  if (!table) return false;
  for (int i = 0; i < KERN_LOOKUP_NUMBERS; i++)
    table[i] = (int64_t)((uint64_t)(i + 7) * 0x9e3779b97f4a7c15u + (uint64_t)number);
  ops_case_arg(c, ARG_INTS("table", table, KERN_LOOKUP_NUMBERS));
  ops_case_arg(c, ARG_BOOL("y_signed", number % 2));
  return ops_case_in(c, number % 3 ? TD_U8 : TD_I8, OPS_DIMS(lengths[number]), OPS_SPECIAL, number);
}

static bool binary_cases(ir_case *c, uint32_t number) {
  static const int64_t dims[][2][4] = {{{2, 3, 5, 67}, {2, 3, 5, 67}}, {{2, 3, 5, 19}, {2, 1, 1, 19}},
                                       {{2, 7, 5, 16}, {2, 7, 1, 1}},  {{1, 1, 1, 1}, {1, 2, 3, 130}},
                                       {{3, 1, 4, 1}, {1, 5, 1, 33}},  {{1, 1, 0, 9}, {1, 1, 1, 9}}};
  const int64_t(*d)[4] = dims[number / 4 % OPS_COUNT(dims)];
  const bool is_signed = number % 4 > 1;
  if (number >= 4 * OPS_COUNT(dims)) return false;
  ops_case_arg(c, ARG_FLOAT("a_scale", 0.017));
  ops_case_arg(c, ARG_INT("a_zero", 113));
  ops_case_arg(c, ARG_FLOAT("b_scale", 0.043));
  ops_case_arg(c, ARG_INT("b_zero", 201));
  ops_case_arg(c, ARG_FLOAT("y_scale", number % 4 == 3 ? 0.0001 : 0.031)); /* most of the results saturate */
  ops_case_arg(c, ARG_INT("y_zero", is_signed ? -5 : 130));
  ops_case_arg(c, ARG_BOOL("y_signed", is_signed));
  ops_case_arg(c, ARG_INT("least", is_signed ? -128 : 12));
  ops_case_arg(c, ARG_INT("most", is_signed ? 127 : 240));
  return ops_case_in(c, number % 2 ? TD_U8 : TD_I8, 4, d[0], OPS_SPECIAL, number) &&
         ops_case_in(c, number % 3 ? TD_U8 : TD_I8, 4, d[1], OPS_SPECIAL, number + 9);
}

/* Scales that leave one element of a row, and that make all alike; results that saturate. */
static bool softmax_cases(ir_case *c, uint32_t number) {
  static const double scales[][2] = {{0.11, 1.0 / 256}, {0.0003, 1.0 / 512}, {3, 1.0 / 128}, {0.03, 1.0 / 40000}};
  const int64_t n = lengths[number % OPS_COUNT(lengths)];
  const uint32_t form = number / OPS_COUNT(lengths);
  if (form >= OPS_COUNT(scales)) return false;
  ops_case_arg(c, ARG_FLOAT("x_scale", scales[form][0]));
  ops_case_arg(c, ARG_FLOAT("y_scale", scales[form][1]));
  ops_case_arg(c, ARG_INT("y_zero", number % 2 ? -128 : 3));
  ops_case_arg(c, ARG_BOOL("y_signed", number % 2));
  return ops_case_in(c, number % 3 ? TD_U8 : TD_I8, OPS_DIMS(2, 3, n), OPS_SPECIAL, number);
}

OPS_DECLARE(between_i8);
const ir_op ops_between_i8[] = {
    {.id = OPERATOR(td, lookup_i8),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .flags = IR_OP_ELEMENTWISE,
     .attrs = lookup_attrs,
     .attr_count = OPS_COUNT(lookup_attrs),
     .infer = infer_lookup,
     .reference = lookup_reference,
     .kernel = lookup_kernel},
    {.id = OPERATOR(td, add_i8),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = IR_OP_ELEMENTWISE,
     .attrs = binary_attrs,
     .attr_count = OPS_COUNT(binary_attrs),
     .infer = infer_binary,
     .reference = add_reference,
     .kernel = add_kernel},
    {.id = OPERATOR(td, mul_i8),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = IR_OP_ELEMENTWISE,
     .attrs = binary_attrs,
     .attr_count = OPS_COUNT(binary_attrs),
     .infer = infer_binary,
     .reference = mul_reference,
     .kernel = mul_kernel},
    {.id = OPERATOR(td, softmax_i8),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = softmax_attrs,
     .attr_count = OPS_COUNT(softmax_attrs),
     .infer = infer_softmax,
     .reference = softmax_reference,
     .kernel = softmax_kernel,
     .atol = 1},
};
OPS_TABLE(between_i8);
OPS_CASES(between_i8) = {
    {OP_td_lookup_i8, lookup_cases},
    {OP_td_add_i8, binary_cases},
    {OP_td_mul_i8, binary_cases},
    {OP_td_softmax_i8, softmax_cases},
    {0},
};
