/* qlinear.c -- products and convolutions of 8-bit integers with zero points. Sums are computed in double, which holds
 * every sum of 8-bit products exactly, and become i32 (wrapping) or are scaled, rounded half to even and saturated.
 *
 *     td::matmul_integer                (a - a0) (b - b0), i32 (ONNX MatMulInteger 10)
 *     td::conv_integer                  the same of a convolution (ONNX ConvInteger 10)
 *     td::qlinear_matmul, qlinear_conv  sat(round(sa sb / sy (bias + sum of (a - a0) (b - b0))) + y0) (ONNX
 *                                       QLinearMatMul, QLinearConv 10, com.microsoft QGemm 1); bias: of each column or
 *                                       channel, or absent */
#include "ops/common/convolution_priv.h"

#include <math.h>

static const ir_attr conv_attrs[] = {CONV_ATTR_ROWS};

/* Strides of a scale or zero point over `rank` dims: one number; one per element of `axis`; or broadcast. */
static td_status parameter_strides(const base_call *call, uint32_t i, int32_t rank, const int64_t *dims, int32_t axis,
                                   int64_t *strides) {
  const base_tensor *t = base_in(call, i);
  for (int32_t k = 0; k < rank; k++) strides[k] = 0;
  if (!t || base_tensor_numel(t) == 1) return TD_OK;
  if (t->rank == 1 && axis >= 0 && t->dims[0] == dims[axis]) {
    strides[axis] = t->strides[0];
    return TD_OK;
  }
  for (int32_t k = 0; k < t->rank; k++)
    if (t->rank > rank || (t->dims[k] != 1 && t->dims[k] != dims[rank - t->rank + k]))
      return ops_fail(call, "the shape of operand %u (scale or zero point) does not fit", i);
  ops_broadcast_strides(t, rank, dims, strides);
  return TD_OK;
}

/* Operand `i` minus its zero point (operand `zero`, may be absent), as dense doubles. */
static td_status centred(const base_call *call, uint32_t i, uint32_t zero, int32_t axis, base_tensor *to) {
  const base_tensor *from = base_in(call, i), *z = base_in(call, zero);
  double *values = base_call_scratch(call, (size_t)base_tensor_numel(from), sizeof *values);
  if (!values) return base_no_memory(call->err, "scratch");
  *to = base_tensor_of(values, TD_F64, from->rank, from->dims);
  int64_t zero_strides[BASE_MAX_RANK], length, step[2];
  TRY(parameter_strides(call, zero, from->rank, from->dims, axis, zero_strides));
  base_walk w;
  base_walk_rows(&w, from->rank, from->dims, 2, (const int64_t *[]){from->strides, zero_strides}, &length, step);
  if (!w.count) return TD_OK;
  do {
    ops_row_get_f64(from, w.offset[0], step[0], length, values);
    for (int64_t k = 0; z && k < length; k++) values[k] -= base_load_f64(z->dtype, z->data, w.offset[1] + k * step[1]);
    values += length;
  } while (base_walk_next(&w));
  return TD_OK;
}

static td_status store_i32(const base_call *call, const double *sums) {
  const base_tensor *y = base_out(call, 0);
  for (int64_t k = 0; k < base_tensor_numel(y); k++) base_store_i64(TD_I32, y->data, k, (int64_t)sums[k]);
  return TD_OK;
}

/* Least and largest value of an integer type of at most 16 bits. */
static void limits(td_dtype dtype, double *least, double *most) {
  int bits = base_dtype(dtype)->bits;
  bool is_signed = base_dtype(dtype)->is_signed;
  *least = is_signed ? -ldexp(1, bits - 1) : 0;
  *most = ldexp(1, is_signed ? bits - 1 : bits) - 1;
}

/* Operands of a requantisation: scales of both factors and of the result, zero point of the result. */
typedef struct requantisation {
  uint32_t a_scale, b_scale, y_scale, y_zero;
  int32_t a_axis, b_axis; /* of the result, along which a scale may vary */
} requantisation;

static double number_at(const base_call *call, uint32_t i, int64_t at, double fallback) {
  const base_tensor *t = base_in(call, i);
  return t ? base_load_f64(t->dtype, t->data, at) : fallback;
}

static td_status requantise(const base_call *call, const double *sums, const requantisation *r) {
  const base_tensor *y = base_out(call, 0);
  int64_t a_strides[BASE_MAX_RANK], b_strides[BASE_MAX_RANK], length, step[2];
  TRY(parameter_strides(call, r->a_scale, y->rank, y->dims, r->a_axis, a_strides));
  TRY(parameter_strides(call, r->b_scale, y->rank, y->dims, r->b_axis, b_strides));
  if (base_tensor_numel(base_in(call, r->y_scale)) != 1) return ops_fail(call, "the result's scale must be one number");
  if (base_in(call, r->y_zero) && base_tensor_numel(base_in(call, r->y_zero)) != 1)
    return ops_fail(call, "the result's zero point must be one number");
  double least, most, zero = number_at(call, r->y_zero, 0, 0);
  float y_scale = (float)number_at(call, r->y_scale, 0, 1);
  limits(y->dtype, &least, &most);
  base_walk w;
  base_walk_rows(&w, y->rank, y->dims, 2, (const int64_t *[]){a_strides, b_strides}, &length, step);
  if (!w.count) return TD_OK;
  int64_t at = 0;
  do {
    for (int64_t k = 0; k < length; k++, at++) {
      float a = (float)number_at(call, r->a_scale, w.offset[0] + k * step[0], 1);
      float b = (float)number_at(call, r->b_scale, w.offset[1] + k * step[1], 1);
      double value = nearbyint((double)((float)sums[at] * (a * b / y_scale))) + zero;
      base_store_i64(y->dtype, y->data, at, (int64_t)fmin(fmax(value, least), most)); /* NaN: the least */
    }
  } while (base_walk_next(&w));
  return TD_OK;
}

/* ---- products ---- */

static bool is_small(td_dtype dtype) {
  return !base_is_float(dtype) && dtype != TD_BOOL && base_dtype(dtype)->bits <= 16;
}

/* Both factors and the result, unless it is the sum itself, are integers of at most 16 bits. */
static td_status check_small(ir_infer *ctx, uint32_t a, uint32_t b, td_dtype result) {
  td_dtype dtypes[] = {ir_in(ctx, a)->type.dtype, ir_in(ctx, b)->type.dtype, result};
  for (int i = 0; i < (result == TD_I32 ? 2 : 3); i++)
    if (!is_small(dtypes[i]))
      return base_fail(ctx->err, TD_UNSUPPORTED, NULL, -1, "%s: element type %s; integers of 8 bits are supported",
                       ctx->op->name, td_dtype_name(dtypes[i]));
  return TD_OK;
}

static td_status multiply(const base_call *call, uint32_t a_index, uint32_t a_zero, uint32_t b_index, uint32_t b_zero,
                          double **sums) {
  base_tensor a, b;
  *sums = NULL;
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(centred(call, a_index, a_zero, base_in(call, a_index)->rank - 2, &a));
  TRY(centred(call, b_index, b_zero, base_in(call, b_index)->rank - 1, &b));
  *sums = base_call_scratch(call, (size_t)base_tensor_numel(base_out(call, 0)), sizeof **sums);
  return *sums ? ops_multiply(call, &a, &b, base_out(call, 0), *sums) : base_no_memory(call->err, "scratch");
}

static td_status infer_matmul_integer(ir_infer *ctx) {
  TRY(check_small(ctx, 0, 1, TD_I32));
  return ops_infer_matmul(ctx, 0, 1, TD_I32);
}

static td_status matmul_integer_reference(const base_call *call) {
  double *sums;
  TRY(multiply(call, 0, 2, 1, 3, &sums));
  return store_i32(call, sums);
}

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO, BIAS };

/* The result has the type of its zero point. */
static td_dtype result_dtype(const ir_infer *ctx) {
  return ir_in(ctx, Y_ZERO) ? ir_in(ctx, Y_ZERO)->type.dtype : ir_in(ctx, A)->type.dtype;
}

static td_status infer_qlinear_matmul(ir_infer *ctx) {
  TRY(check_small(ctx, A, B, result_dtype(ctx)));
  return ops_infer_matmul(ctx, A, B, result_dtype(ctx));
}

static td_status qlinear_matmul_reference(const base_call *call) {
  double *sums;
  int32_t rank = base_out(call, 0)->rank;
  TRY(multiply(call, A, A_ZERO, B, B_ZERO, &sums));
  const base_tensor *y = base_out(call, 0), *bias = base_in(call, BIAS);
  const int64_t count = base_tensor_numel(y), columns = rank ? y->dims[rank - 1] : 1;
  if (bias && (bias->rank != 1 || bias->dims[0] != columns))
    return ops_fail(call, "the bias has not one element per column");
  for (int64_t i = 0; bias && i < count; i++)
    sums[i] += base_load_f64(bias->dtype, bias->data, i % columns * bias->strides[0]);
  requantisation r = {A_SCALE, B_SCALE, Y_SCALE, Y_ZERO, rank - 2, rank - 1};
  return requantise(call, sums, &r);
}

/* ---- convolutions ---- */

static td_status convolve(const base_call *call, uint32_t x_index, uint32_t x_zero, uint32_t w_index, uint32_t w_zero,
                          uint32_t bias_index, double **sums) {
  const base_tensor *y = base_out(call, 0), *bias = base_in(call, bias_index);
  int64_t count = base_tensor_numel(y), size = 1;
  base_tensor x, w;
  convolution c;
  *sums = NULL;
  if (count == 0) return TD_OK;
  TRY(ops_convolution_make(call, base_in(call, x_index), base_in(call, w_index), y, &c));
  TRY(centred(call, x_index, x_zero, -1, &x));
  TRY(centred(call, w_index, w_zero, 0, &w));
  *sums = base_call_scratch(call, (size_t)count, sizeof **sums);
  if (!*sums) return base_no_memory(call->err, "scratch");
  if (bias && (bias->rank != 1 || bias->dims[0] != y->dims[1]))
    return ops_fail(call, "the bias has not one element per channel");
  for (int32_t i = 2; i < y->rank; i++) size *= y->dims[i];
  for (int64_t k = 0; k < count; k++)
    (*sums)[k] = bias ? base_load_f64(bias->dtype, bias->data, k / size % y->dims[1] * bias->strides[0]) : 0;
  return ops_convolve_f64(call, &c, x.data, w.data, *sums);
}

static td_status infer_conv_integer(ir_infer *ctx) {
  TRY(check_small(ctx, 0, 1, TD_I32));
  return ops_infer_convolution(ctx, 0, 1, TD_I32);
}

static td_status conv_integer_reference(const base_call *call) {
  double *sums;
  TRY(convolve(call, 0, 2, 1, 3, call->in_count, &sums));
  return store_i32(call, sums);
}

static td_status infer_qlinear_conv(ir_infer *ctx) {
  TRY(check_small(ctx, A, B, result_dtype(ctx)));
  return ops_infer_convolution(ctx, A, B, result_dtype(ctx));
}

static td_status qlinear_conv_reference(const base_call *call) {
  double *sums;
  TRY(convolve(call, A, A_ZERO, B, B_ZERO, BIAS, &sums));
  requantisation r = {A_SCALE, B_SCALE, Y_SCALE, Y_ZERO, -1, 1};
  return requantise(call, sums, &r);
}

/* ---- cases ---- */

static bool cases_matmul_integer(ir_case *c, uint32_t number) {
  switch (number) {
    case 0:
      return ops_case_in(c, TD_U8, OPS_DIMS(3, 5), OPS_SPECIAL, 1) &&
             ops_case_in(c, TD_I8, OPS_DIMS(5, 2), OPS_SPECIAL, 2);
    case 1:
      return ops_case_in(c, TD_I8, OPS_DIMS(2, 3, 7), OPS_SPECIAL, 3) &&
             ops_case_in(c, TD_U8, OPS_DIMS(7, 4), OPS_SPECIAL, 4) &&
             ops_case_in(c, TD_I8, OPS_DIMS(3), OPS_NORMAL, 5) && ops_case_in(c, TD_U8, OPS_DIMS(4), OPS_NORMAL, 6);
    default: return false;
  }
}

static bool scale_and_zero(ir_case *c, td_dtype dtype, int64_t count, uint64_t seed) {
  return ops_case_in(c, TD_F32, 1, &count, OPS_POSITIVE, seed) &&
         ops_case_in(c, dtype, 1, &count, OPS_NORMAL, seed + 1);
}

static bool cases_qlinear_matmul(ir_case *c, uint32_t number) {
  if (number >= 3) return false;
  td_dtype d = number ? TD_I8 : TD_U8;
  return ops_case_in(c, d, OPS_DIMS(3, 5), OPS_NORMAL, 1) && scale_and_zero(c, d, 1, 2) &&
         ops_case_in(c, d, OPS_DIMS(5, 4), OPS_NORMAL, 4) && scale_and_zero(c, d, number ? 4 : 1, 5) &&
         scale_and_zero(c, d, 1, 7) && (number < 2 || ops_case_in(c, TD_I32, OPS_DIMS(4), OPS_NORMAL, 9));
}

static bool cases_conv_integer(ir_case *c, uint32_t number) {
  if (number >= 2) return false;
  static const int64_t pads[] = {1, 0, 1, 1};
  if (number) ops_case_arg(c, ARG_INTS("padding", pads, 4));
  return ops_case_in(c, TD_U8, OPS_DIMS(1, 2, 5, 5), OPS_SPECIAL, 1) &&
         ops_case_in(c, TD_I8, OPS_DIMS(3, 2, 3, 2), OPS_SPECIAL, 2) &&
         ops_case_in(c, TD_U8, 0, NULL, OPS_POSITIVE, 3) &&
         (!number || ops_case_in(c, TD_I8, OPS_DIMS(3), OPS_NORMAL, 4));
}

static bool cases_qlinear_conv(ir_case *c, uint32_t number) {
  if (number >= 2) return false;
  return ops_case_in(c, TD_U8, OPS_DIMS(2, 2, 5, 4), OPS_SPECIAL, 1) && scale_and_zero(c, TD_U8, 1, 2) &&
         ops_case_in(c, TD_I8, OPS_DIMS(3, 2, 2, 2), OPS_NORMAL, 4) && scale_and_zero(c, TD_I8, number ? 3 : 1, 5) &&
         scale_and_zero(c, TD_U8, 1, 7);
}

static const ir_alias matmul_integer_aliases[] = {{"onnx", "MatMulInteger", 10, NULL}};
static const ir_alias qlinear_matmul_aliases[] = {{"onnx", "QLinearMatMul", 10, NULL}};

OPS_DECLARE(qlinear);
const ir_op ops_qlinear[] = {
    {.id = OPERATOR(td, matmul_integer),
     .min_in = 2,
     .max_in = 4,
     .out_count = 1,
     .infer = infer_matmul_integer,
     .reference = matmul_integer_reference,
     .aliases = matmul_integer_aliases,
     .alias_count = OPS_COUNT(matmul_integer_aliases)},
    {.id = OPERATOR(td, qlinear_matmul),
     .min_in = 8,
     .max_in = 9,
     .out_count = 1,
     .infer = infer_qlinear_matmul,
     .reference = qlinear_matmul_reference,
     .aliases = qlinear_matmul_aliases,
     .alias_count = OPS_COUNT(qlinear_matmul_aliases)},
    {.id = OPERATOR(td, conv_integer),
     .min_in = 2,
     .max_in = 4,
     .out_count = 1,
     .attrs = conv_attrs,
     .attr_count = OPS_COUNT(conv_attrs),
     .infer = infer_conv_integer,
     .reference = conv_integer_reference},
    {.id = OPERATOR(td, qlinear_conv),
     .min_in = 8,
     .max_in = 9,
     .out_count = 1,
     .attrs = conv_attrs,
     .attr_count = OPS_COUNT(conv_attrs),
     .infer = infer_qlinear_conv,
     .reference = qlinear_conv_reference},
};
OPS_TABLE(qlinear);
OPS_CASES(qlinear) = {
    {OP_td_matmul_integer, cases_matmul_integer},
    {OP_td_qlinear_matmul, cases_qlinear_matmul},
    {OP_td_conv_integer, cases_conv_integer},
    {OP_td_qlinear_conv, cases_qlinear_conv},
    {0},
};
