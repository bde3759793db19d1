/* lower_random.c -- ONNX operators that draw numbers. A seed of the node is used; without one every node of a kind
 * draws the same row, in every run: a model's answer must not change by itself. */
#include "import/onnx/onnx_priv.h"

static base_arg seed(onnx_node *n) {
  union {
    double f;
    int64_t i;
  } bits = {onnx_attr_float(n, "seed", 0)};
  return ARG_INT("seed", bits.i);
}

static td_dtype wanted(onnx_node *n, td_dtype fallback) {
  return onnx_attr_has(n, "dtype") ? onnx_dtype(n, onnx_attr_int(n, "dtype", 1)) : fallback;
}

static void uniform(onnx_node *n, ir_value shape, td_dtype dtype) {
  onnx_out(
      n, 0,
      ONNX_EMIT_ARGS(n, "aten::rand", &shape, 1, ARG_DTYPE("dtype", dtype), seed(n),
                     ARG_FLOAT("low", onnx_attr_float(n, "low", 0)), ARG_FLOAT("high", onnx_attr_float(n, "high", 1))));
}

static void normal(onnx_node *n, ir_value shape, td_dtype dtype) {
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "aten::randn", &shape, 1, ARG_DTYPE("dtype", dtype), seed(n),
                          ARG_FLOAT("mean", onnx_attr_float(n, "mean", 0)),
                          ARG_FLOAT("scale", onnx_attr_float(n, "scale", 1))));
}

static ir_value given_shape(onnx_node *n) {
  uint32_t count;
  const int64_t *dims = onnx_attr_ints(n, "shape", &count);
  return onnx_ints(n, dims, count);
}

static void lower_uniform(onnx_node *n) { uniform(n, given_shape(n), wanted(n, TD_F32)); }
static void lower_normal(onnx_node *n) { normal(n, given_shape(n), wanted(n, TD_F32)); }
static void lower_uniform_like(onnx_node *n) {
  uniform(n, ONNX_EMIT(n, "td::shape", onnx_in(n, 0)), wanted(n, onnx_type_dtype(n, onnx_in(n, 0))));
}
static void lower_normal_like(onnx_node *n) {
  normal(n, ONNX_EMIT(n, "td::shape", onnx_in(n, 0)), wanted(n, onnx_type_dtype(n, onnx_in(n, 0))));
}

static void lower_bernoulli(onnx_node *n) {
  ir_value p = onnx_in(n, 0);
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "aten::bernoulli", &p, 1, ARG_DTYPE("dtype", wanted(n, onnx_type_dtype(n, p))), seed(n)));
}

static void lower_multinomial(onnx_node *n) {
  ir_value x = onnx_in(n, 0);
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "aten::multinomial", &x, 1, ARG_DTYPE("dtype", wanted(n, TD_I32)), seed(n),
                          ARG_INT("num_samples", onnx_attr_int(n, "sample_size", 1))));
}

ONNX_DECLARE(random);
const onnx_lowering onnx_lower_random[] = {
    {"", "RandomUniform", 1, lower_uniform}, {"", "RandomUniformLike", 1, lower_uniform_like},
    {"", "RandomNormal", 1, lower_normal},   {"", "RandomNormalLike", 1, lower_normal_like},
    {"", "Bernoulli", 15, lower_bernoulli},  {"", "Multinomial", 7, lower_multinomial},
};
ONNX_TABLE(random);
