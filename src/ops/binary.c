/* binary.c -- arithmetic on two broadcast operands. Floats are computed in double and rounded once; integers wrap.
 * Division: floats divide; integers truncate toward zero (rounding "trunc"). Division of an integer by zero gives zero. */
#include "ops/ops_priv.h"

#include <math.h>

typedef struct binary_body {
  ops_map_f64 f;
  ops_map_i64 i;
} binary_body;

#define BODY_F(NAME, EXPR)                                                                                \
  static void NAME(const void *user, int64_t count, const double *const *in, double *out) {               \
    (void)user;                                                                                           \
    for (int64_t k = 0; k < count; k++) {                                                                 \
      double a = in[0][k], b = in[1][k];                                                                  \
      out[k] = (EXPR);                                                                                    \
    }                                                                                                     \
  }
#define BODY_I(NAME, EXPR)                                                                                \
  static void NAME(const void *user, int64_t count, const int64_t *const *in, int64_t *out) {             \
    (void)user;                                                                                           \
    for (int64_t k = 0; k < count; k++) {                                                                 \
      uint64_t a = (uint64_t)in[0][k], b = (uint64_t)in[1][k];                                            \
      out[k] = (int64_t)(EXPR);                                                                           \
    }                                                                                                     \
  }
BODY_F(add_f, a + b)
BODY_I(add_i, a + b)
BODY_F(mul_f, a *b)
BODY_I(mul_i, a *b)

static const binary_body add_body = {add_f, add_i}, mul_body = {mul_f, mul_i};

static td_status run(const base_call *call, const binary_body *body) {
  return base_is_float(base_out(call, 0)->dtype) ? ops_elementwise_f64(call, 2, body->f, NULL)
                                                 : ops_elementwise_i64(call, 2, body->i, NULL);
}
static td_status add_reference(const base_call *call) { return run(call, &add_body); }
static td_status mul_reference(const base_call *call) { return run(call, &mul_body); }

static td_status infer_arithmetic(ir_infer *ctx, base_dim_op on_sizes) {
  TRY(ops_same_dtype(ctx, 0, 1));
  TRY(ops_infer_broadcast(ctx, 2, ir_in(ctx, 0)->type.dtype));
  ops_ints_binary(ctx, on_sizes);
  return TD_OK;
}
static td_status infer_add(ir_infer *ctx) { return infer_arithmetic(ctx, BASE_DIM_ADD); }
static td_status infer_mul(ir_infer *ctx) { return infer_arithmetic(ctx, BASE_DIM_MUL); }

static bool cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16, TD_I64, TD_I32, TD_U8};
  if (number >= 4 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 4];
  switch (number % 4) {
    case 0: return ops_case_in(c, d, 0, NULL, OPS_NORMAL, 1) && ops_case_in(c, d, OPS_DIMS(3), OPS_NORMAL, 2);
    case 1: return ops_case_in(c, d, OPS_DIMS(2, 1, 5), OPS_SPECIAL, 3) && ops_case_in(c, d, OPS_DIMS(3, 1), OPS_SPECIAL, 4);
    case 2: return ops_case_in(c, d, OPS_DIMS(0, 3), OPS_NORMAL, 5) && ops_case_in(c, d, OPS_DIMS(1), OPS_NORMAL, 6);
    default: return ops_case_in(c, d, OPS_DIMS(7, 13), OPS_NORMAL, 7) && ops_case_in(c, d, OPS_DIMS(7, 13), OPS_NORMAL, 8);
  }
}

static const ir_alias add_aliases[] = {{"onnx", "Add", 7, NULL}};
static const ir_alias mul_aliases[] = {{"onnx", "Mul", 7, NULL}};

#define BINARY_FLAGS (IR_OP_ELEMENTWISE | IR_OP_IN_PLACE | IR_OP_COMMUTATIVE)
OPS_DECLARE(binary);
const ir_op ops_binary[] = {
    {.name = "aten::add", .min_in = 2, .max_in = 2, .out_count = 1, .flags = BINARY_FLAGS, .infer = infer_add,
     .reference = add_reference, .cases = cases, .aliases = add_aliases, .alias_count = OPS_COUNT(add_aliases)},
    {.name = "aten::mul", .min_in = 2, .max_in = 2, .out_count = 1, .flags = BINARY_FLAGS, .infer = infer_mul,
     .reference = mul_reference, .cases = cases, .aliases = mul_aliases, .alias_count = OPS_COUNT(mul_aliases)},
};
OPS_TABLE(binary);
