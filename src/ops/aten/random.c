/* random.c -- numbers from a fixed generator: the same for the same seed in every run and on every machine, so that a
 * model that draws them still gives one answer. Element i depends on the seed and i alone (splitmix64, Steele et al.
 * 2014).
 *
 *     aten::rand, randn  uniform in [low, high), normal by Box and Muller 1958 (ONNX RandomUniform, RandomNormal 1)
 *     aten::bernoulli    1 with probability p (ONNX Bernoulli 15)
 *     aten::multinomial  class k with probability exp(x[k]) / sum of exp(x) (ONNX Multinomial 7) */
#include "ops/common/ops_priv.h"

#include <math.h>

/* 53 random bits in [0, 1). */
static double uniform(uint64_t seed, int64_t index) {
  uint64_t z = seed + ((uint64_t)index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Box and Muller 1958; the first number is in (0, 1]. */
static double normal(uint64_t seed, int64_t index) {
  double radius = sqrt(-2 * log(1 - uniform(seed, 2 * index)));
  return radius * cos(6.283185307179586 * uniform(seed, 2 * index + 1));
}

static uint64_t seed_of(const base_call *call, uint32_t attr) { return (uint64_t)base_attr_int(call->attrs, attr); }

/* ---- aten::rand, aten::randn (shape): low + (high - low) u, mean + scale n ---- */

enum { DTYPE, SEED, OFFSET, SPREAD };
static const ir_attr rand_attrs[] = {ATTR_DTYPE("dtype"), ATTR_INT("seed", 0), ATTR_FLOAT("low", 0),
                                     ATTR_FLOAT("high", 1)};
static const ir_attr randn_attrs[] = {ATTR_DTYPE("dtype"), ATTR_INT("seed", 0), ATTR_FLOAT("mean", 0),
                                      ATTR_FLOAT("scale", 1)};

static td_status infer_shape(ir_infer *ctx) {
  td_dtype dtype = (td_dtype)base_attr_int(ctx->attrs, DTYPE);
  const base_dim *dims;
  uint32_t rank;
  if (!base_is_float(dtype)) return ir_infer_fail(ctx, "random numbers of type %s", td_dtype_name(dtype));
  if (ir_in_ints(ctx, 0, &dims, &rank)) return ir_out(ctx, 0, dtype, (int32_t)rank, dims);
  return ir_out_unranked(ctx, 0, dtype);
}

static td_status rand_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  double low = base_attr_float(call->attrs, OFFSET), high = base_attr_float(call->attrs, SPREAD);
  for (int64_t i = 0; i < base_tensor_numel(out); i++)
    base_store_f64(out->dtype, out->data, i, low + (high - low) * uniform(seed_of(call, SEED), i));
  return TD_OK;
}

static td_status randn_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  double mean = base_attr_float(call->attrs, OFFSET), scale = base_attr_float(call->attrs, SPREAD);
  for (int64_t i = 0; i < base_tensor_numel(out); i++)
    base_store_f64(out->dtype, out->data, i, mean + scale * normal(seed_of(call, SEED), i));
  return TD_OK;
}

static bool shape_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16};
  static const int64_t dims[] = {3, 5}, empty[] = {0};
  if (number >= 2 * OPS_COUNT(dtypes)) return false;
  ops_case_arg(c, ARG_DTYPE("dtype", dtypes[number / 2]));
  ops_case_arg(c, ARG_INT("seed", number));
  return number % 2 ? ops_case_ints(c, dims, 2) : ops_case_ints(c, empty, 1);
}

/* ---- aten::bernoulli (p): 1 with probability p, else 0 ---- */

static const ir_attr bernoulli_attrs[] = {ATTR_DTYPE("dtype"), ATTR_INT("seed", 0)};

static td_status infer_bernoulli(ir_infer *ctx) {
  return ir_out_like(ctx, 0, 0, (td_dtype)base_attr_int(ctx->attrs, DTYPE));
}

static td_status bernoulli_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  const base_f64 *p = ops_dense_f64(call, 0);
  if (!p) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < base_tensor_numel(out); i++)
    base_store_f64(out->dtype, out->data, i, uniform(seed_of(call, SEED), i) < p[i]);
  return TD_OK;
}

static bool bernoulli_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_BOOL, TD_I32};
  if (number >= OPS_COUNT(dtypes)) return false;
  ops_case_arg(c, ARG_DTYPE("dtype", dtypes[number]));
  return ops_case_in(c, TD_F32, OPS_DIMS(2, 7), OPS_UNIT, number);
}

/* ---- aten::multinomial (log weights [batch, classes]): num_samples class numbers per row, with replacement ---- */

enum { SAMPLES = 2 };
static const ir_attr multinomial_attrs[] = {ATTR_DTYPE("dtype"), ATTR_INT("seed", 0), ATTR_INT("num_samples", 1)};

static td_status infer_multinomial(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  td_dtype dtype = (td_dtype)base_attr_int(ctx->attrs, DTYPE);
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, dtype);
  if (x->rank != 2) return ir_infer_fail(ctx, "an operand of rank %d; [batch, classes] is meaningful", x->rank);
  return ir_out(ctx, 0, dtype, 2, (base_dim[]){x->dims[0], base_attr_int(ctx->attrs, SAMPLES)});
}

/* The class at which the running sum of weights passes `share` of the total. */
static int64_t pick(const base_f64 *row, int64_t classes, double most, double share) {
  double total = 0, sum = 0;
  for (int64_t k = 0; k < classes; k++) total += exp(row[k] - most);
  for (int64_t k = 0; k < classes; k++) {
    sum += exp(row[k] - most);
    if (sum > share * total) return k;
  }
  return classes - 1;
}

static td_status multinomial_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const base_f64 *weights = ops_dense_f64(call, 0);
  if (!weights) return base_no_memory(call->err, "scratch");
  int64_t classes = x->dims[1], samples = out->dims[1];
  if (classes == 0 && base_tensor_numel(out)) return ops_fail(call, "there is no class to draw");
  for (int64_t i = 0; i < base_tensor_numel(out); i++) {
    const base_f64 *row = weights + i / samples * classes;
    double most = row[0];
    for (int64_t k = 1; k < classes; k++) most = row[k] > most ? row[k] : most;
    base_store_i64(out->dtype, out->data, i, pick(row, classes, most, uniform(seed_of(call, SEED), i)));
  }
  return TD_OK;
}

static bool multinomial_cases(ir_case *c, uint32_t number) {
  if (number >= 3) return false;
  ops_case_arg(c, ARG_DTYPE("dtype", number ? TD_I64 : TD_I32));
  ops_case_arg(c, ARG_INT("num_samples", 5 * number));
  return ops_case_in(c, TD_F32, OPS_DIMS(3, 4), OPS_NORMAL, number);
}

#define RANDOM(SPACE, NAME, ATTRS, INFER, RUN)                                                                      \
  {                                                                                                                 \
    .id = OPERATOR(SPACE, NAME), .min_in = 1, .max_in = 1, .out_count = 1, .flags = IR_OP_RANDOM, .attrs = (ATTRS), \
    .attr_count = OPS_COUNT(ATTRS), .infer = (INFER), .reference = (RUN)                                            \
  }
OPS_DECLARE(random);
const ir_op ops_random[] = {
    RANDOM(aten, rand, rand_attrs, infer_shape, rand_reference),
    RANDOM(aten, randn, randn_attrs, infer_shape, randn_reference),
    RANDOM(aten, bernoulli, bernoulli_attrs, infer_bernoulli, bernoulli_reference),
    RANDOM(aten, multinomial, multinomial_attrs, infer_multinomial, multinomial_reference),
};
OPS_TABLE(random);
OPS_CASES(random) = {
    {OP_aten_rand, shape_cases},
    {OP_aten_randn, shape_cases},
    {OP_aten_bernoulli, bernoulli_cases},
    {OP_aten_multinomial, multinomial_cases},
    {0},
};
