/* choose.c -- choosing between values: where (any element type) and clamp.
 *
 *     aten::where  y = a where the condition holds, else b (ONNX Where 9)
 *     aten::clamp  y = min(max(x, low), high); either bound may be absent (ONNX Clip 11) */
#include "ops/common/kernel_priv.h"
#include "ops/common/lower_priv.h"

#include <math.h>
#include <string.h>

/* ---- aten::where(condition, a, b) ---- */

/* One row; the common element sizes get their own loop. */
static void where_row(const uint8_t *c, int64_t c_step, const char *a, int64_t a_step, const char *b, int64_t b_step,
                      char *out, int64_t out_step, int64_t count, int64_t size) {
  if (size == 4)
    for (int64_t k = 0; k < count; k++)
      ((base_u32 *)out)[k * out_step] =
          c[k * c_step] ? ((const base_u32 *)a)[k * a_step] : ((const base_u32 *)b)[k * b_step];
  else
    for (int64_t k = 0; k < count; k++)
      memmove(out + k * out_step * size, c[k * c_step] ? a + k * a_step * size : b + k * b_step * size, (size_t)size);
}

static td_status where_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  int64_t size = base_dtype(out->dtype)->bits / 8, length, step[4], strides[3][BASE_MAX_RANK];
  const int64_t *at[4] = {out->strides, strides[0], strides[1], strides[2]};
  for (uint32_t i = 0; i < 3; i++) ops_broadcast_strides(base_in(call, i), out->rank, out->dims, strides[i]);
  base_walk w;
  base_walk_rows(&w, out->rank, out->dims, 4, at, &length, step);
  if (!w.count) return TD_OK;
  do {
    where_row((const uint8_t *)base_in(call, 0)->data + w.offset[1], step[1],
              (const char *)base_in(call, 1)->data + w.offset[2] * size, step[2],
              (const char *)base_in(call, 2)->data + w.offset[3] * size, step[3],
              (char *)out->data + w.offset[0] * size, step[0], length, size);
  } while (base_walk_next(&w));
  return TD_OK;
}

/* Sizes selected by a condition that is known. */
static void where_ints(ir_infer *ctx) {
  const base_dim *ints[3];
  uint32_t counts[3], n = 1;
  const ir_type *out = &ctx->out[0].type;
  if (!ctx->arena || out->rank > 1 || out->rank < 0 || !base_is_int(out->dtype)) return;
  for (uint32_t i = 0; i < 3; i++) {
    if (!ir_in_ints(ctx, i, &ints[i], &counts[i])) return;
    if (counts[i] != 1) n = counts[i];
  }
  for (uint32_t k = 0; k < n; k++)
    if (!base_dim_known(ints[0][counts[0] == 1 ? 0 : k])) return;
  base_dim *to = ir_out_ints(ctx, 0, n);
  for (uint32_t k = 0; to && k < n; k++) {
    uint32_t from = ints[0][counts[0] == 1 ? 0 : k] ? 1 : 2;
    to[k] = ints[from][counts[from] == 1 ? 0 : k];
  }
}

static td_status infer_where(ir_infer *ctx) {
  if (ir_in(ctx, 0)->type.dtype != TD_BOOL) return ir_infer_fail(ctx, "the condition must be bool");
  TRY(ops_same_dtype(ctx, 1, 2));
  td_dtype dtype = ir_in(ctx, 1)->type.dtype;
  if (base_dtype(dtype)->bits < 8) return ir_infer_fail(ctx, "elements of %s are not supported", td_dtype_name(dtype));
  TRY(ops_infer_broadcast(ctx, 3, dtype));
  where_ints(ctx);
  return TD_OK;
}

/* A mask of columns or of rows over scores, past a piece of a row; the other operand a number or a tensor. */
static bool masked_cases(ir_case *c, uint32_t number) {
  if (number == 0)
    return ops_case_in(c, TD_BOOL, OPS_DIMS(2, 1, 1, 37), OPS_SPECIAL, 10) &&
           ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 5, 37), OPS_NORMAL, 11) &&
           ops_case_in(c, TD_F32, 0, NULL, OPS_NORMAL, 12);
  return number == 1 && ops_case_in(c, TD_BOOL, OPS_DIMS(3, 1), OPS_SPECIAL, 13) &&
         ops_case_in(c, TD_F32, OPS_DIMS(3, 1027), OPS_NORMAL, 14) &&
         ops_case_in(c, TD_F32, OPS_DIMS(1027), OPS_SPECIAL, 15);
}

static bool where_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_I64, TD_U8};
  if (number >= 3 * OPS_COUNT(dtypes)) return masked_cases(c, number - 3 * OPS_COUNT(dtypes));
  td_dtype d = dtypes[number / 3];
  switch (number % 3) {
    case 0:
      return ops_case_in(c, TD_BOOL, OPS_DIMS(7, 1), OPS_SPECIAL, 1) &&
             ops_case_in(c, d, OPS_DIMS(13), OPS_SPECIAL, 2) && ops_case_in(c, d, 0, NULL, OPS_NORMAL, 3);
    case 1:
      return ops_case_in(c, TD_BOOL, OPS_DIMS(3, 5), OPS_SPECIAL, 4) &&
             ops_case_in(c, d, OPS_DIMS(3, 5), OPS_SPECIAL, 5) && ops_case_in(c, d, OPS_DIMS(3, 5), OPS_NORMAL, 6);
    default:
      return ops_case_in(c, TD_BOOL, OPS_DIMS(1), OPS_SPECIAL, 7) && ops_case_in(c, d, OPS_DIMS(0, 3), OPS_NORMAL, 8) &&
             ops_case_in(c, d, OPS_DIMS(3), OPS_NORMAL, 9);
  }
}

/* ---- aten::clamp(x, min?, max?): min(max(x, min), max), so that max wins; NaN stays ---- */

static double at_least(double a, double low) { return a < low ? low : a; }
static double at_most(double a, double high) { return a > high ? high : a; }
static bool less(int64_t a, int64_t b, bool is_u64) { return is_u64 ? (uint64_t)a < (uint64_t)b : a < b; }

/* Which bounds there are; operands stand in the order x, min, max without gaps. */
typedef struct clamp_bounds {
  bool low, high, is_u64;
} clamp_bounds;

static void clamp_f64(const void *user, int64_t count, const double *const *in, double *out) {
  const clamp_bounds *has = user;
  const double *high = in[has->low ? 2 : 1];
  for (int64_t k = 0; k < count; k++) {
    double a = has->low ? at_least(in[0][k], in[1][k]) : in[0][k];
    out[k] = has->high ? at_most(a, high[k]) : a;
  }
}

static void clamp_f32(const void *user, int64_t count, const base_f32 *const *in, base_f32 *restrict out) {
  const clamp_bounds *has = user;
  const base_f32 *x = in[0], *low = in[1], *high = in[has->low ? 2 : 1];
  for (int64_t k = 0; k < count; k++) out[k] = has->low && x[k] < low[k] ? low[k] : x[k];
  for (int64_t k = 0; has->high && k < count; k++) out[k] = out[k] > high[k] ? high[k] : out[k];
}

static void clamp_i64(const void *user, int64_t count, const int64_t *const *in, int64_t *out) {
  const clamp_bounds *has = user;
  const int64_t *high = in[has->low ? 2 : 1];
  for (int64_t k = 0; k < count; k++) {
    int64_t a = has->low && less(in[0][k], in[1][k], has->is_u64) ? in[1][k] : in[0][k];
    out[k] = has->high && less(high[k], a, has->is_u64) ? high[k] : a;
  }
}

static td_status clamp_reference(const base_call *call) {
  td_dtype dtype = base_out(call, 0)->dtype;
  clamp_bounds has = {base_in(call, 1) != NULL, base_in(call, 2) != NULL, dtype == TD_U64};
  const base_value *present[3] = {call->in[0]};
  uint32_t count = 1;
  if (has.low) present[count++] = call->in[1];
  if (has.high) present[count++] = call->in[2];
  base_call dense = *call;
  dense.in = present;
  dense.in_count = count;
  if (dtype == TD_F32) return ops_elementwise_f32(&dense, count, clamp_f32, &has);
  return base_is_float(dtype) ? ops_elementwise_f64(&dense, count, clamp_f64, &has)
                              : ops_elementwise_i64(&dense, count, clamp_i64, &has);
}

static td_status infer_clamp(ir_infer *ctx) {
  TRY(ops_same_dtype(ctx, 0, 1));
  TRY(ops_same_dtype(ctx, 0, 2));
  return ops_infer_broadcast(ctx, ctx->in_count, ir_in(ctx, 0)->type.dtype);
}

static bool clamp_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_BF16, TD_I8, TD_U64};
  if (number >= 4 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 4];
  bool low = number % 4 & 1, high = number % 4 & 2;
  return ops_case_in(c, d, OPS_DIMS(7, 13), number % 4 == 3 ? OPS_SPECIAL : OPS_NORMAL, 1) &&
         (low ? ops_case_in(c, d, 0, NULL, OPS_UNIT, 2) : ops_case_absent(c)) &&
         (high ? ops_case_in(c, d, 0, NULL, OPS_POSITIVE, 3) : ops_case_absent(c));
}

/* ---- kernels ---- */

static const kern_row *where_kernel(const ir_kernel_query *query) {
  return query->out[0].type.dtype == TD_F32 ? kern_select(KERN_WHERE, TD_F32, query->isa) : NULL;
}

static const kern_row *clamp_kernel(const ir_kernel_query *query) {
  for (uint32_t i = 1; i < query->in_count; i++)
    if (query->in[i] && !ops_kernel_single(query, i)) return NULL;
  return ops_kernel_clamp(query);
}

static bool lower_clamp(const ir_kernel_query *query, loop_build *b) {
  double numbers[2] = {-INFINITY, INFINITY};
  for (uint32_t i = 1; i < query->in_count; i++)
    if (query->in[i] && (!ops_lower_number(query, i, &numbers[i - 1]) || isnan(numbers[i - 1]))) return false;
  b->out = loop_scalar(b, BASE_SCALAR_clamp, b->in[0], LOOP_NONE, LOOP_NONE, numbers, 2);
  return true;
}

static const ir_alias where_aliases[] = {{"onnx", "Where", 9, NULL}};
static const ir_alias clamp_aliases[] = {{"onnx", "Clip", 11, NULL}};

OPS_DECLARE(choose);
const ir_op ops_choose[] = {
    {.id = OPERATOR(aten, where),
     .min_in = 3,
     .max_in = 3,
     .out_count = 1,
     .strings = 6,
     .flags = IR_OP_ELEMENTWISE | IR_OP_IN_PLACE,
     .infer = infer_where,
     .reference = where_reference,
     .kernel = where_kernel,
     .lower = ops_lower_where,
     .aliases = where_aliases,
     .alias_count = OPS_COUNT(where_aliases)},
    {.id = OPERATOR(aten, clamp),
     .min_in = 1,
     .max_in = 3,
     .out_count = 1,
     .flags = IR_OP_ELEMENTWISE | IR_OP_IN_PLACE,
     .infer = infer_clamp,
     .reference = clamp_reference,
     .kernel = clamp_kernel,
     .lower = lower_clamp,
     .aliases = clamp_aliases,
     .alias_count = OPS_COUNT(clamp_aliases)},
};
OPS_TABLE(choose);
OPS_CASES(choose) = {
    {OP_aten_where, where_cases},
    {OP_aten_clamp, clamp_cases},
    {0},
};
