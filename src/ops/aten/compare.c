/* compare.c -- comparisons (result bool; strings compare for equality), logic on truth values (non-zero is true; result
 * bool), and bits of integers. Operands broadcast. Shifts by the width or more give zero (or all sign bits).
 *
 *     aten::eq, ne, lt, le, gt, ge                x = y, x != y, x < y, x <= y, x > y, x >= y (ONNX Equal 7 ...
 *                                                 GreaterOrEqual 12)
 *     aten::logical_and, logical_or, logical_xor  of x != 0 and y != 0 (ONNX And, Or, Xor 7)
 *     aten::bitwise_and, bitwise_or, bitwise_xor  of the bits of x and y (ONNX BitwiseAnd, BitwiseOr, BitwiseXor 18)
 *     aten::__lshift__, __rshift__                x 2^y, floor(x / 2^y) (ONNX BitShift 11) */
#include "ops/common/lower_priv.h"

typedef struct compare_body {
  ops_map_f64 f;
  ops_map_i64 i; /* `user` is a const td_dtype *: of the operands */
} compare_body;

#define BODY_F(NAME, EXPR)                                                                  \
  static void NAME(const void *user, int64_t count, const double *const *in, double *out) { \
    (void)user;                                                                             \
    for (int64_t k = 0; k < count; k++) {                                                   \
      double a = in[0][k], b = in[1][k];                                                    \
      out[k] = (EXPR);                                                                      \
    }                                                                                       \
  }
#define BODY_I(NAME, EXPR)                                                                    \
  static void NAME(const void *user, int64_t count, const int64_t *const *in, int64_t *out) { \
    td_dtype dtype = *(const td_dtype *)user;                                                 \
    (void)dtype;                                                                              \
    for (int64_t k = 0; k < count; k++) {                                                     \
      int64_t a = in[0][k], b = in[1][k];                                                     \
      out[k] = (EXPR);                                                                        \
    }                                                                                         \
  }

static bool less(int64_t a, int64_t b, td_dtype dtype) { return dtype == TD_U64 ? (uint64_t)a < (uint64_t)b : a < b; }

static int64_t shift_left(int64_t a, int64_t by, td_dtype dtype) {
  return (uint64_t)by >= base_dtype(dtype)->bits ? 0 : (int64_t)((uint64_t)a << by);
}

static int64_t shift_right(int64_t a, int64_t by, td_dtype dtype) {
  bool is_signed = base_dtype(dtype)->is_signed;
  if ((uint64_t)by >= base_dtype(dtype)->bits) return is_signed && a < 0 ? -1 : 0;
  return is_signed ? a >> by : (int64_t)((uint64_t)a >> by);
}

BODY_F(eq_f, a == b)
BODY_I(eq_i, a == b)
BODY_F(ne_f, a != b)
BODY_I(ne_i, a != b)
BODY_F(lt_f, a < b)
BODY_I(lt_i, less(a, b, dtype))
BODY_F(le_f, a <= b)
BODY_I(le_i, !less(b, a, dtype))
BODY_F(gt_f, a > b)
BODY_I(gt_i, less(b, a, dtype))
BODY_F(ge_f, a >= b)
BODY_I(ge_i, !less(a, b, dtype))
BODY_F(logical_and_f, a != 0 && b != 0)
BODY_I(logical_and_i, a != 0 && b != 0)
BODY_F(logical_or_f, a != 0 || b != 0)
BODY_I(logical_or_i, a != 0 || b != 0)
BODY_F(logical_xor_f, (a != 0) != (b != 0))
BODY_I(logical_xor_i, (a != 0) != (b != 0))
BODY_I(bitwise_and_i, a &b)
BODY_I(bitwise_or_i, a | b)
BODY_I(bitwise_xor_i, a ^ b)
BODY_I(lshift_i, shift_left(a, b, dtype))
BODY_I(rshift_i, shift_right(a, b, dtype))

/* out = (a == b) == wanted */
static td_status compare_strings(const base_call *call, bool wanted) {
  const base_tensor *out = base_out(call, 0), *t[] = {base_in(call, 0), base_in(call, 1)};
  int64_t strides[2][BASE_MAX_RANK];
  for (int i = 0; i < 2; i++) ops_broadcast_strides(t[i], out->rank, out->dims, strides[i]);
  const int64_t *at[] = {out->strides, strides[0], strides[1]};
  base_walk w;
  base_walk_start(&w, out->rank, out->dims, 3, at);
  if (!w.count) return TD_OK;
  do {
    base_str a = ((const base_str *)t[0]->data)[w.offset[1]], b = ((const base_str *)t[1]->data)[w.offset[2]];
    ((uint8_t *)out->data)[w.offset[0]] = base_str_equal(a, b) == wanted;
  } while (base_walk_next(&w));
  return TD_OK;
}

static td_status run(const base_call *call, const compare_body *body) {
  td_dtype dtype = base_in(call, 0)->dtype;
  if (dtype == TD_STRING) return compare_strings(call, body->f == eq_f);
  return base_is_float(dtype) ? ops_elementwise_f64(call, 2, body->f, &dtype)
                              : ops_elementwise_i64(call, 2, body->i, &dtype);
}

static td_status infer_compare(ir_infer *ctx) {
  TRY(ops_same_dtype(ctx, 0, 1));
  return ops_infer_broadcast(ctx, 2, TD_BOOL);
}

static td_status infer_bits(ir_infer *ctx) {
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  TRY(ops_same_dtype(ctx, 0, 1));
  if (base_is_float(dtype) || dtype == TD_STRING) return ir_infer_fail(ctx, "operands must be integers or bool");
  return ops_infer_broadcast(ctx, 2, dtype);
}

/* 1 or 0 where two sizes are surely equal or surely not, else -1. */
static int sizes_equal(const base_dims *dims, base_dim a, base_dim b) {
  if (a == b) return 1;
  if (base_dim_known(a) && base_dim_known(b)) return 0;
  bool a_negative = base_dim_known(a) && a < 0, b_negative = base_dim_known(b) && b < 0;
  bool differ = (a_negative && base_dim_not_negative(dims, b)) || (b_negative && base_dim_not_negative(dims, a));
  return differ ? 0 : -1;
}

/* Exporters test shapes for -1 and select with the result. */
static void equal_ints(ir_infer *ctx, bool wanted) {
  const base_dim *a, *b;
  uint32_t an, bn;
  base_dim result[IR_MAX_INTS];
  const ir_type *out = &ctx->out[0].type;
  if (!ctx->arena || out->rank > 1 || out->rank < 0) return;
  if (!ir_in_ints(ctx, 0, &a, &an) || !ir_in_ints(ctx, 1, &b, &bn)) return;
  uint32_t n = an == 1 ? bn : an;
  if (bn != n && bn != 1) return;
  for (uint32_t i = 0; i < n; i++) {
    int equal = sizes_equal(ctx->dims, a[an == 1 ? 0 : i], b[bn == 1 ? 0 : i]);
    if (equal < 0) return;
    result[i] = equal == wanted;
  }
  base_dim *to = ir_out_ints(ctx, 0, n);
  for (uint32_t i = 0; to && i < n; i++) to[i] = result[i];
}

static td_status infer_equality(ir_infer *ctx, bool wanted) {
  TRY(ops_same_dtype(ctx, 0, 1));
  TRY(ops_infer_broadcast(ctx, 2, TD_BOOL));
  equal_ints(ctx, wanted);
  return TD_OK;
}
static td_status infer_eq(ir_infer *ctx) { return infer_equality(ctx, true); }
static td_status infer_ne(ir_infer *ctx) { return infer_equality(ctx, false); }

static bool bit_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_I64, TD_I32, TD_U8, TD_U64, TD_I8};
  if (number >= 3 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 3];
  switch (number % 3) {
    case 0:
      return ops_case_in(c, d, OPS_DIMS(2, 1, 5), OPS_SPECIAL, 3) && ops_case_in(c, d, OPS_DIMS(3, 1), OPS_POSITIVE, 4);
    case 1: return ops_case_in(c, d, OPS_DIMS(0), OPS_NORMAL, 5) && ops_case_in(c, d, 0, NULL, OPS_POSITIVE, 6);
    default: return ops_case_in(c, d, OPS_DIMS(17), OPS_SPECIAL, 7) && ops_case_in(c, d, OPS_DIMS(17), OPS_INDEX, 8);
  }
}

static bool cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_BF16, TD_I64, TD_U64, TD_BOOL};
  if (number >= 3 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 3];
  switch (number % 3) {
    case 0: return ops_case_in(c, d, OPS_DIMS(7, 1), OPS_NORMAL, 1) && ops_case_in(c, d, OPS_DIMS(5), OPS_NORMAL, 2);
    case 1:
      return ops_case_in(c, d, OPS_DIMS(13, 17), OPS_SPECIAL, 3) && ops_case_in(c, d, OPS_DIMS(17), OPS_SPECIAL, 4);
    default: return ops_case_in(c, d, OPS_DIMS(0, 3), OPS_NORMAL, 5) && ops_case_in(c, d, 0, NULL, OPS_NORMAL, 6);
  }
}

static bool lower_gt(const ir_kernel_query *query, loop_build *b) {
  return (void)query, ops_lower_swapped(b, BASE_SCALAR_lt);
}
static bool lower_ge(const ir_kernel_query *query, loop_build *b) {
  return (void)query, ops_lower_swapped(b, BASE_SCALAR_le);
}

/* Of truth values, whatever the operands are. */
#define LOGIC(name)                                                                     \
  static bool lower_logical_##name(const ir_kernel_query *query, loop_build *b) {       \
    for (uint32_t i = 0; i < 2; i++) b->in[i] = loop_cast(b, b->in[i], BASE_TYPE_BOOL); \
    return ops_lower_bitwise_##name(query, b);                                          \
  }
LOGIC(and)
LOGIC(or)
LOGIC(xor)

/* A shift by as many bits as the type has is told by its width: narrower types than loops know have another. */
static bool shifts(const ir_kernel_query *query) { return base_dtype(query->out[0].type.dtype)->bits >= 32; }
static bool lower_lshift(const ir_kernel_query *query, loop_build *b) {
  return shifts(query) && ops_lower_shift_left(query, b);
}
static bool lower_rshift(const ir_kernel_query *query, loop_build *b) {
  return shifts(query) && ops_lower_shift_right(query, b);
}

/* X(name, float body, integer body, operator, operands that may be strings, inference, cases, flags, ONNX name,
 * version, how it is lowered) */
#define LIST(X)                                                                                                        \
  X(eq, eq_f, eq_i, aten, eq, 3, infer_eq, cases, IR_OP_COMMUTATIVE, "Equal", 7, ops_lower_eq)                         \
  X(ne, ne_f, ne_i, aten, ne, 3, infer_ne, cases, IR_OP_COMMUTATIVE, NULL, 0, ops_lower_ne)                            \
  X(lt, lt_f, lt_i, aten, lt, 0, infer_compare, cases, 0, "Less", 7, ops_lower_lt)                                     \
  X(le, le_f, le_i, aten, le, 0, infer_compare, cases, 0, "LessOrEqual", 12, ops_lower_le)                             \
  X(gt, gt_f, gt_i, aten, gt, 0, infer_compare, cases, 0, "Greater", 7, lower_gt)                                      \
  X(ge, ge_f, ge_i, aten, ge, 0, infer_compare, cases, 0, "GreaterOrEqual", 12, lower_ge)                              \
  X(logical_and, logical_and_f, logical_and_i, aten, logical_and, 0, infer_compare, cases, IR_OP_COMMUTATIVE, "And",   \
    7, lower_logical_and)                                                                                              \
  X(logical_or, logical_or_f, logical_or_i, aten, logical_or, 0, infer_compare, cases, IR_OP_COMMUTATIVE, "Or", 7,     \
    lower_logical_or)                                                                                                  \
  X(logical_xor, logical_xor_f, logical_xor_i, aten, logical_xor, 0, infer_compare, cases, IR_OP_COMMUTATIVE, "Xor",   \
    7, lower_logical_xor)                                                                                              \
  X(bitwise_and, NULL, bitwise_and_i, aten, bitwise_and, 0, infer_bits, bit_cases, IR_OP_COMMUTATIVE | IR_OP_IN_PLACE, \
    "BitwiseAnd", 18, ops_lower_bitwise_and)                                                                           \
  X(bitwise_or, NULL, bitwise_or_i, aten, bitwise_or, 0, infer_bits, bit_cases, IR_OP_COMMUTATIVE | IR_OP_IN_PLACE,    \
    "BitwiseOr", 18, ops_lower_bitwise_or)                                                                             \
  X(bitwise_xor, NULL, bitwise_xor_i, aten, bitwise_xor, 0, infer_bits, bit_cases, IR_OP_COMMUTATIVE | IR_OP_IN_PLACE, \
    "BitwiseXor", 18, ops_lower_bitwise_xor)                                                                           \
  X(lshift, NULL, lshift_i, aten, __lshift__, 0, infer_bits, bit_cases, IR_OP_IN_PLACE, NULL, 0, lower_lshift)         \
  X(rshift, NULL, rshift_i, aten, __rshift__, 0, infer_bits, bit_cases, IR_OP_IN_PLACE, NULL, 0, lower_rshift)

#define DEFINE(NAME, F, I, SPACE, OP, STRINGS, INFER, CASES, FLAGS, ALIAS, SINCE, LOWER) \
  static td_status NAME##_reference(const base_call *call) {                             \
    static const compare_body body = {F, I};                                             \
    return run(call, &body);                                                             \
  }                                                                                      \
  static const ir_alias NAME##_aliases[] = {{"onnx", ALIAS, SINCE, NULL}};
LIST(DEFINE)

#define ROW(NAME, F, I, SPACE, OP, STRINGS, INFER, CASES, FLAGS, ALIAS, SINCE, LOWER) \
  {.id = OPERATOR(SPACE, OP),                                                         \
   .min_in = 2,                                                                       \
   .strings = STRINGS,                                                                \
   .max_in = 2,                                                                       \
   .out_count = 1,                                                                    \
   .flags = IR_OP_ELEMENTWISE | (FLAGS),                                              \
   .infer = INFER,                                                                    \
   .reference = NAME##_reference,                                                     \
   .lower = LOWER,                                                                    \
   .aliases = NAME##_aliases,                                                         \
   .alias_count = (SINCE) ? 1 : 0},
OPS_DECLARE(compare);
const ir_op ops_compare[] = {LIST(ROW)};
OPS_TABLE(compare);
#define CASES_ROW(NAME, F, I, SPACE, OP, STRINGS, INFER, CASES, ...) {OP_##SPACE##_##OP, CASES},
OPS_CASES(compare) = {
    LIST(CASES_ROW){0},
};
