/* quantize.c -- between real numbers and small integers (or small floats): q = round(x / scale) + zero point,
 * saturated. Rounding is half to even; x / scale is taken in float, so that ties fall as they do elsewhere.
 *
 * x is seen as [outer, along, inner] around `axis`. Scale and zero point are one element; or one per element of
 * `along`, as a vector or with a 1 for each axis behind it; or, with block_size, of x's rank with one element per block
 * of `along`.
 *
 *     td::quantize_linear          q = sat(round(x / scale) + zero) (ONNX QuantizeLinear 10)
 *     td::dequantize_linear        x = (q - zero) scale (ONNX DequantizeLinear 10)
 *     td::dynamic_quantize_linear  scale and zero from the range of x: (max(x, 0) - min(x, 0)) / 255 (ONNX 11) */
#include "ops/common/lower_priv.h"

#include <math.h>

enum { AXIS, BLOCK, DTYPE, SATURATE };
static const ir_attr quantize_attrs[] = {ATTR_INT("axis", 1), ATTR_INT("block_size", 0), ATTR_DTYPE("dtype"),
                                         ATTR_BOOL("saturate", 1)};

typedef struct layout {
  int64_t outer, along, inner;
  int64_t scale_outer, scale_along, scale_inner; /* strides of the dense scale; 0: shared */
  int64_t block;                                 /* elements of `along` per scale element */
  const base_f64 *scale;
  const base_f64 *zero; /* or NULL */
} layout;

/* Has it one element per element of `along`, with a 1 for each of the `behind` axes behind it? */
static bool is_along(const base_tensor *scale, int64_t along, int32_t behind) {
  if (scale->rank != behind + 1 || scale->dims[0] != along) return false;
  for (int32_t i = 1; i <= behind; i++)
    if (scale->dims[i] != 1) return false;
  return true;
}

static td_status place_scale(const base_call *call, layout *l, int32_t axis) {
  const base_tensor *x = base_in(call, 0), *scale = base_in(call, 1);
  int64_t count = base_tensor_numel(scale), block = base_attr_int(call->attrs, BLOCK);
  l->block = 1;
  if (count == 1) return TD_OK;
  if (!block && is_along(scale, l->along, x->rank - 1 - axis)) {
    l->scale_along = 1;
    return TD_OK;
  }
  if (scale->rank == 1 && !(block && x->rank == 1)) {
    l->scale_along = 1;
    if (count == l->along) return TD_OK;
    return ops_fail(call, "%lld scales for %lld slices", (long long)count, (long long)l->along);
  }
  if (scale->rank != x->rank) return ops_fail(call, "the scale has rank %d, x rank %d", scale->rank, x->rank);
  for (int32_t i = 0; i < x->rank; i++)
    if (i != axis && scale->dims[i] != x->dims[i]) return ops_fail(call, "scale and x differ in dimension %d", i);
  int64_t blocks = scale->dims[axis];
  if (!block) block = blocks ? (l->along + blocks - 1) / blocks : 1;
  if (block < 1 || (l->along + block - 1) / block != blocks)
    return ops_fail(call, "%lld blocks of %lld for %lld elements", (long long)blocks, (long long)block,
                    (long long)l->along);
  l->block = block;
  l->scale_inner = 1;
  l->scale_along = l->inner;
  l->scale_outer = l->inner * blocks;
  return TD_OK;
}

static td_status layout_start(const base_call *call, layout *l) {
  const base_tensor *x = base_in(call, 0), *scale = base_in(call, 1), *zero = base_in(call, 2);
  int64_t axis = base_attr_int(call->attrs, AXIS);
  if (axis < 0) axis += x->rank;
  bool shared = base_tensor_numel(scale) == 1;
  if (!shared && (axis < 0 || axis >= x->rank)) return ops_fail(call, "the axis is outside the rank %d", x->rank);
  *l = (layout){.outer = 1, .along = 1, .inner = 1};
  for (int32_t i = 0; i < x->rank; i++) *(i < axis ? &l->outer : i > axis ? &l->inner : &l->along) *= x->dims[i];
  TRY(place_scale(call, l, (int32_t)axis));
  if (zero && base_tensor_numel(zero) != base_tensor_numel(scale))
    return ops_fail(call, "scale and zero point differ in size");
  l->scale = ops_dense_f64(call, 1);
  l->zero = ops_dense_f64(call, 2);
  return l->scale && (l->zero || !zero) ? TD_OK : base_no_memory(call->err, "scratch");
}

/* Calls `row` for every stretch of `inner` elements. `at`: of x; `s`: of the scale, `step` apart. */
typedef void (*row_fn)(const void *user, const layout *l, int64_t at, int64_t s, int64_t step);

static void each_row(const layout *l, row_fn row, const void *user) {
  for (int64_t o = 0; o < l->outer; o++)
    for (int64_t a = 0; a < l->along; a++)
      row(user, l, (o * l->along + a) * l->inner, o * l->scale_outer + a / l->block * l->scale_along, l->scale_inner);
}

/* Loops take one scale, or one per element of an axis that has a 1 for each one behind it; *zero: the zero point in
 * f32, or LOOP_NONE without one. */
static bool lower_scale(const ir_kernel_query *query, loop_build *b, uint16_t *zero) {
  const ir_type *x = &query->in[0]->type, *scale = &query->in[1]->type;
  const bool one = query->in[1]->constant && base_tensor_numel(query->in[1]->constant) == 1;
  const int64_t axis = base_attr_int(query->attrs, AXIS);
  const int64_t behind = axis < 0 ? -1 - axis : x->rank - 1 - axis;
  bool broadcast = scale->rank == behind + 1 && !base_attr_int(query->attrs, BLOCK);
  for (int32_t i = 1; broadcast && i < scale->rank; i++) broadcast = scale->dims[i] == 1;
  double number = 0;
  *zero = LOOP_NONE;
  if (!(one || scale->rank == 0 || broadcast) || b->in[1] == LOOP_NONE || loop_type_of(b, b->in[1]) != BASE_TYPE_F32)
    return false;
  if (query->in_count < 3 || !query->in[2]) return true;
  if (ops_lower_number(query, 2, &number)) *zero = loop_float(b, BASE_TYPE_F32, number);
  else *zero = loop_cast(b, b->in[2], BASE_TYPE_F32);
  return *zero != LOOP_NONE;
}

/* f32 has all differences of what it holds: of whole numbers of 8 and 16 bits. */
static bool is_narrow(td_dtype dtype) {
  const int bits = base_dtype(dtype)->bits;
  return base_is_int(dtype) && (bits == 8 || bits == 16);
}

/* ---- quantize ---- */

typedef struct quantizer {
  td_dtype from, to;
  const void *x;
  void *out;
  bool saturate;
  double least, largest; /* of an integer type */
} quantizer;

static void quantize_row(const void *user, const layout *l, int64_t at, int64_t s, int64_t step) {
  const quantizer *q = user;
  bool is_int = base_is_int(q->to);
  for (int64_t k = 0; k < l->inner; k++) {
    double x = base_load_f64(q->from, q->x, at + k), zero = l->zero ? l->zero[s + k * step] : 0;
    double ratio = (double)((float)x / (float)l->scale[s + k * step]);
    if (is_int) base_store_f64(q->to, q->out, at + k, fmin(fmax(nearbyint(ratio) + zero, q->least), q->largest));
    else if (q->to == TD_F4E2M1) base_store_f64(q->to, q->out, at + k, ratio + zero);
    else ((uint8_t *)q->out)[at + k] = base_f64_to_small(q->to, ratio + zero, q->saturate);
  }
}

static td_status quantize_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const base_dtype_info *d = base_dtype(out->dtype);
  layout l;
  if (base_tensor_numel(x) == 0) return TD_OK;
  TRY(layout_start(call, &l));
  quantizer q = {.from = x->dtype,
                 .to = out->dtype,
                 .x = ops_dense(call, 0),
                 .out = out->data,
                 .saturate = base_attr_int(call->attrs, SATURATE),
                 .least = d->is_signed ? -ldexp(1, d->bits - 1) : 0,
                 .largest = ldexp(1, d->bits - (d->is_signed ? 1 : 0)) - 1};
  if (!q.x) return base_no_memory(call->err, "scratch");
  each_row(&l, quantize_row, &q);
  return TD_OK;
}

/* One scale that is known, and above 0: one function for all but the zero point, which also makes 0 of -0. */
static bool lower_known_scale(const ir_kernel_query *query, loop_build *b, double low, double most) {
  static const double least_scale = 0x1p-100; /* so that no quotient is near the ends of f32 */
  double scale, zero = 0;
  const bool shifted = query->in_count > 2 && query->in[2];
  if (!ops_lower_number(query, 1, &scale) || (shifted && !ops_lower_number(query, 2, &zero)) || scale < least_scale ||
      scale > 1 / least_scale)
    return false;
  const double numbers[] = {scale, low - zero, most - zero};
  uint16_t q = loop_scalar(b, BASE_SCALAR_quantise, b->in[0], LOOP_NONE, LOOP_NONE, numbers, 3);
  if (zero != 0 || low < 0) q = loop_binary(b, BASE_SCALAR_add, q, loop_float(b, BASE_TYPE_F32, zero));
  b->out = loop_cast(b, q, base_type_of(query->out[0].type.dtype));
  return b->out != LOOP_NONE;
}

/* What is no number becomes the least value. */
static bool lower_quantize(const ir_kernel_query *query, loop_build *b) {
  const td_dtype to = query->out[0].type.dtype;
  const base_dtype_info *info = base_dtype(to);
  uint16_t zero;
  if (!is_narrow(to) || loop_type_of(b, b->in[0]) != BASE_TYPE_F32 || !lower_scale(query, b, &zero)) return false;
  const double values = ldexp(1, (int)info->bits), low = info->is_signed ? -values / 2 : 0;
  if (lower_known_scale(query, b, low, low + values - 1)) return true;
  const uint16_t least = loop_float(b, BASE_TYPE_F32, low), most = loop_float(b, BASE_TYPE_F32, low + values - 1);
  uint16_t q = loop_unary(b, BASE_SCALAR_round, loop_binary(b, BASE_SCALAR_div, b->in[0], b->in[1]));
  if (zero != LOOP_NONE) q = loop_binary(b, BASE_SCALAR_add, q, zero);
  q = loop_scalar(b, BASE_SCALAR_where, loop_binary(b, BASE_SCALAR_le, least, q), q, least, NULL, 0);
  b->out = loop_cast(b, loop_binary(b, BASE_SCALAR_minimum, q, most), base_type_of(to));
  return b->out != LOOP_NONE;
}

static td_status infer_quantize(ir_infer *ctx) {
  td_dtype to = (td_dtype)base_attr_int(ctx->attrs, DTYPE), from = ir_in(ctx, 0)->type.dtype;
  const ir_info *zero = ir_in(ctx, 2);
  bool small = base_is_int(to) ? base_dtype(to)->bits <= 16 : base_dtype(to)->is_storage;
  if (!small) return ir_infer_fail(ctx, "%s is no type to quantise to", td_dtype_name(to));
  if (!base_is_float(from) && !base_is_int(from))
    return ir_infer_fail(ctx, "operand of %s; a number is needed", td_dtype_name(from));
  if (zero && zero->type.dtype != to) return ir_infer_fail(ctx, "the zero point must be %s", td_dtype_name(to));
  return ir_out_like(ctx, 0, 0, to);
}

/* ---- dequantize ---- */

static void dequantize_row(const void *user, const layout *l, int64_t at, int64_t s, int64_t step) {
  const quantizer *q = user;
  for (int64_t k = 0; k < l->inner; k++) {
    double zero = l->zero ? l->zero[s + k * step] : 0;
    base_store_f64(q->to, q->out, at + k, (base_load_f64(q->from, q->x, at + k) - zero) * l->scale[s + k * step]);
  }
}

static td_status dequantize_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  layout l;
  if (base_tensor_numel(x) == 0) return TD_OK;
  TRY(layout_start(call, &l));
  quantizer q = {.from = x->dtype, .to = out->dtype, .x = ops_dense(call, 0), .out = out->data};
  if (!q.x) return base_no_memory(call->err, "scratch");
  each_row(&l, dequantize_row, &q);
  return TD_OK;
}

static bool lower_dequantize(const ir_kernel_query *query, loop_build *b) {
  uint16_t zero;
  if (!is_narrow(query->in[0]->type.dtype) || query->out[0].type.dtype != TD_F32 || b->in[0] == LOOP_NONE ||
      !lower_scale(query, b, &zero))
    return false;
  uint16_t x = loop_cast(b, b->in[0], BASE_TYPE_F32);
  if (zero != LOOP_NONE) x = loop_binary(b, BASE_SCALAR_sub, x, zero);
  b->out = loop_binary(b, BASE_SCALAR_mul, x, b->in[1]);
  return b->out != LOOP_NONE;
}

static td_status infer_dequantize(ir_infer *ctx) {
  td_dtype to = (td_dtype)base_attr_int(ctx->attrs, DTYPE);
  if (!base_is_float(to) || base_dtype(to)->is_storage)
    return ir_infer_fail(ctx, "%s is no type to compute in", td_dtype_name(to));
  TRY(ops_same_dtype(ctx, 0, 2));
  return ir_out_like(ctx, 0, 0, to);
}

/* ---- dynamic quantize: x f32 -> u8, scale f32, zero point u8; the range always holds zero ----
 * reduce_range: 7 bits, as PyTorch's kernels for x86 ask for; least: of the scale */

enum { REDUCE_RANGE, LEAST };
static const ir_attr dynamic_attrs[] = {ATTR_BOOL("reduce_range", 0), ATTR_FLOAT("least", 0)};

static td_status dynamic_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0), *y_scale = base_out(call, 1),
                    *y_zero = base_out(call, 2);
  const base_f32 *data = ops_dense_f32(call, 0);
  if (!data) return base_no_memory(call->err, "scratch");
  int64_t count = base_tensor_numel(x);
  float least = 0, largest = 0;
  for (int64_t k = 0; k < count; k++) {
    if (data[k] < least) least = data[k];
    if (data[k] > largest) largest = data[k];
  }
  const float top = base_attr_int(call->attrs, REDUCE_RANGE) ? 127 : 255;
  float scale = fmaxf((largest - least) / top, (float)base_attr_float(call->attrs, LEAST)),
        zero = scale > 0 ? nearbyintf(fminf(fmaxf(-least / scale, 0), top)) : 0;
  if (y_scale) base_store_f64(TD_F32, y_scale->data, 0, (double)scale);
  if (y_zero) base_store_f64(TD_U8, y_zero->data, 0, (double)zero);
  for (int64_t k = 0; y && k < count; k++) {
    float q = scale > 0 ? nearbyintf(data[k] / scale) + zero : zero;
    ((uint8_t *)y->data)[k] = (uint8_t)fminf(fmaxf(q, 0), 255);
  }
  return TD_OK;
}

static td_status infer_dynamic(ir_infer *ctx) {
  if (ir_in(ctx, 0)->type.dtype != TD_F32) return ir_infer_fail(ctx, "the operand must be f32");
  TRY(ir_out_like(ctx, 0, 0, TD_U8));
  TRY(ir_out(ctx, 1, TD_F32, 0, NULL));
  return ir_out(ctx, 2, TD_U8, 0, NULL);
}

static const kern_row *dynamic_kernel(const ir_kernel_query *query) {
  return kern_select(KERN_DYNAMIC_QUANTIZE, TD_I8, query->isa);
}

/* ---- cases ---- */

static const td_dtype small_dtypes[] = {TD_U8, TD_I8, TD_U16, TD_I4, TD_F8E4M3FN};

enum { SCALE_KINDS = 5 };
static bool scale_cases(ir_case *c, uint32_t kind, td_dtype zero) {
  if (kind == 0)
    return ops_case_in(c, TD_F32, 0, NULL, OPS_POSITIVE, 2) && ops_case_in(c, zero, 0, NULL, OPS_POSITIVE, 3);
  if (kind == 1)
    return ops_case_in(c, TD_F32, OPS_DIMS(6), OPS_POSITIVE, 4) && ops_case_in(c, zero, OPS_DIMS(6), OPS_POSITIVE, 5);
  if (kind == 2) {
    ops_case_arg(c, ARG_INT("axis", -1));
    return ops_case_in(c, TD_F32, OPS_DIMS(5), OPS_POSITIVE, 8) && ops_case_in(c, zero, OPS_DIMS(5), OPS_POSITIVE, 9);
  }
  if (kind == 3)
    return ops_case_in(c, TD_F32, OPS_DIMS(6, 1), OPS_POSITIVE, 4) &&
           ops_case_in(c, zero, OPS_DIMS(6, 1), OPS_POSITIVE, 5);
  ops_case_arg(c, ARG_INT("block_size", 4));
  return ops_case_in(c, TD_F32, OPS_DIMS(3, 2, 5), OPS_POSITIVE, 6) &&
         ops_case_in(c, zero, OPS_DIMS(3, 2, 5), OPS_POSITIVE, 7);
}

static bool quantize_cases(ir_case *c, uint32_t number) {
  if (number >= SCALE_KINDS * OPS_COUNT(small_dtypes)) return false;
  td_dtype d = small_dtypes[number / SCALE_KINDS];
  ops_case_arg(c, ARG_DTYPE("dtype", d));
  return ops_case_in(c, TD_F32, OPS_DIMS(3, 6, 5), OPS_SPECIAL, 1) && scale_cases(c, number % SCALE_KINDS, d);
}

static bool dequantize_cases(ir_case *c, uint32_t number) {
  if (number >= SCALE_KINDS * OPS_COUNT(small_dtypes)) return false;
  td_dtype d = small_dtypes[number / SCALE_KINDS];
  ops_case_arg(c, ARG_DTYPE("dtype", TD_F32));
  return ops_case_in(c, d, OPS_DIMS(3, 6, 5), OPS_SPECIAL, 1) && scale_cases(c, number % SCALE_KINDS, d);
}

static bool dynamic_cases(ir_case *c, uint32_t number) {
  if (number > 5) return false;
  if (number == 3) ops_case_arg(c, ARG_FLOAT("least", 0.25));
  if (number == 2) ops_case_arg(c, ARG_BOOL("reduce_range", true));
  return number == 1   ? ops_case_in(c, TD_F32, OPS_DIMS(0), OPS_NORMAL, 1)
         : number == 4 ? ops_case_in(c, TD_F32, OPS_DIMS(7, 5000), OPS_NORMAL, 3)
         : number == 5 ? ops_case_in(c, TD_F32, OPS_DIMS(5, 31), OPS_SPECIAL, 4)
                       : ops_case_in(c, TD_F32, OPS_DIMS(3, 17), OPS_NORMAL, 2);
}

static const ir_alias dynamic_aliases[] = {{"onnx", "DynamicQuantizeLinear", 11, NULL}};

OPS_DECLARE(quantize);
const ir_op ops_quantize[] = {
    {.id = OPERATOR(td, quantize_linear),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .attrs = quantize_attrs,
     .attr_count = OPS_COUNT(quantize_attrs),
     .infer = infer_quantize,
     .reference = quantize_reference,
     .lower = lower_quantize},
    {.id = OPERATOR(td, dequantize_linear),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .attrs = quantize_attrs,
     .attr_count = OPS_COUNT(quantize_attrs) - 1,
     .infer = infer_dequantize,
     .reference = dequantize_reference,
     .lower = lower_dequantize},
    {.id = OPERATOR(td, dynamic_quantize_linear),
     .min_in = 1,
     .max_in = 1,
     .out_count = 3,
     .attrs = dynamic_attrs,
     .attr_count = OPS_COUNT(dynamic_attrs),
     .infer = infer_dynamic,
     .reference = dynamic_reference,
     .kernel = dynamic_kernel,
     .aliases = dynamic_aliases,
     .alias_count = OPS_COUNT(dynamic_aliases)},
};
OPS_TABLE(quantize);
OPS_CASES(quantize) = {
    {OP_td_quantize_linear, quantize_cases},
    {OP_td_dequantize_linear, dequantize_cases},
    {OP_td_dynamic_quantize_linear, dynamic_cases},
    {0},
};
