/* matmul.c -- matrix products: aten::matmul with NumPy's rules (batches broadcast; operands of rank 1 are rows or
 * columns), behind which a chain may follow (kernels/epilogue.h), and td::gemm, alpha A B + beta C on matrices. f16 and
 * bf16 are summed in f32 and rounded once; integers wrap.
 *
 *     aten::matmul  y[.., i, j] = sum over k of a[.., i, k] b[.., k, j] (ONNX MatMul 1)
 *     td::gemm      alpha op(A) op(B) + beta C, op: identity or transpose (ONNX Gemm 7) */
#include "kernels/kernels.h"
#include "ops/common/epilogue_priv.h"
#include "ops/common/gemm_priv.h"

#include <string.h>

/* C[batch] = A[batch] B[batch]: sizes and strides (in elements), C dense. */
typedef struct product {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column;
  int32_t rank; /* of the batch */
  int64_t dims[BASE_MAX_RANK], a_strides[BASE_MAX_RANK], b_strides[BASE_MAX_RANK], c_strides[BASE_MAX_RANK];
  const void *a, *b;
  void *c;
} product;

#define PRODUCT_RUN(NAME, T, U)                                                         \
  static td_status run_##NAME(const base_call *call, const product *p) {                \
    gemm_##NAME g = {.m = p->m,                                                         \
                     .n = p->n,                                                         \
                     .k = p->k,                                                         \
                     .a_row = p->a_row,                                                 \
                     .a_column = p->a_column,                                           \
                     .b_row = p->b_row,                                                 \
                     .b_column = p->b_column,                                           \
                     .c_row = p->n};                                                    \
    base_walk w;                                                                        \
    const int64_t *strides[] = {p->a_strides, p->b_strides, p->c_strides};              \
    base_walk_start(&w, p->rank, p->dims, 3, strides);                                  \
    if (!w.count || !p->m || !p->n) return TD_OK;                                       \
    if (!ops_gemm_matrix_##NAME(call, &g)) return base_no_memory(call->err, "scratch"); \
    do {                                                                                \
      g.a = (const U *)p->a + w.offset[0];                                              \
      g.b = (const U *)p->b + w.offset[1];                                              \
      g.c = (U *)p->c + w.offset[2];                                                    \
      ops_gemm_##NAME(&g);                                                              \
    } while (base_walk_next(&w));                                                       \
    return TD_OK;                                                                       \
  }
PRODUCT_RUN(f32, float, base_f32)
PRODUCT_RUN(f64, double, base_f64)
PRODUCT_RUN(u64, uint64_t, base_u64)

static td_status run(const base_call *call, td_dtype dtype, const product *p) {
  if (dtype == TD_F32) return run_f32(call, p);
  return dtype == TD_F64 ? run_f64(call, p) : run_u64(call, p);
}

/* Where output 0 is summed: its own memory or scratch. */
static void *take_sums(const base_call *call, td_dtype dtype) {
  if (dtype == TD_F32) return ops_take_f32(call, 0);
  return dtype == TD_F64 ? (void *)ops_take_f64(call, 0) : (void *)ops_take_i64(call, 0);
}

/* ---- aten::matmul ---- */

td_status ops_infer_matmul(ir_infer *ctx, uint32_t a_index, uint32_t b_index, td_dtype dtype) {
  const ir_type *a = &ir_in(ctx, a_index)->type, *b = &ir_in(ctx, b_index)->type;
  if (a->rank == IR_UNRANKED || b->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, dtype);
  if (a->rank == 0 || b->rank == 0) return ir_infer_fail(ctx, "an operand of rank 0 has no matrix product");
  base_dim ka = a->dims[a->rank - 1], kb = b->dims[b->rank > 1 ? b->rank - 2 : 0];
  if (ops_dims_differ(ka, kb))
    return ir_infer_fail(ctx, "inner sizes %lld and %lld differ", (long long)ka, (long long)kb);
  int32_t rank = 0, a_batch = a->rank > 2 ? a->rank - 2 : 0, b_batch = b->rank > 2 ? b->rank - 2 : 0;
  base_dim dims[BASE_MAX_RANK + 2];
  if (!ops_broadcast_dims(ctx->dims, a_batch, a->dims, b_batch, b->dims, &rank, dims))
    return ir_infer_fail(ctx, "batch sizes do not broadcast");
  if (a->rank > 1) dims[rank++] = a->dims[a->rank - 2];
  if (b->rank > 1) dims[rank++] = b->dims[b->rank - 1];
  return ir_out(ctx, 0, dtype, rank, dims);
}

static const ir_attr matmul_attrs[] = {KERN_MATMUL_LIST(OPS_ATTR_ROW)};

static td_status infer_matmul(ir_infer *ctx) {
  TRY(ops_same_dtype(ctx, 0, 1));
  TRY(ops_infer_matmul(ctx, 0, 1, ir_in(ctx, 0)->type.dtype));
  if (ops_has_pairs(ctx->attrs) && ctx->out[0].type.dtype != TD_F32) return ir_infer_fail(ctx, "pairs are made of f32");
  if (base_attr_has(ctx->attrs, KERN_MATMUL_CHAIN) &&
      (ctx->out[0].type.dtype != TD_F32 || ir_in(ctx, 1)->type.rank < 2))
    return ir_infer_fail(ctx, "a chain follows rows of f32 alone");
  return ops_infer_chain(ctx, 2);
}

/* Strides of the leading dims of `t`, without `matrix` trailing ones, read as the batch `dims`. */
static void batch_strides(const base_tensor *t, int32_t matrix, int32_t rank, const int64_t *dims, int64_t *strides) {
  base_tensor batch = *t;
  batch.rank = t->rank > matrix ? t->rank - matrix : 0;
  ops_broadcast_strides(&batch, rank, dims, strides);
}

static void describe_matmul(const base_tensor *a, const base_tensor *b, const base_tensor *out, product *p) {
  int32_t ar = a->rank, br = b->rank;
  p->k = a->dims[ar - 1];
  p->a_column = a->strides[ar - 1];
  p->m = ar > 1 ? a->dims[ar - 2] : 1;
  p->a_row = ar > 1 ? a->strides[ar - 2] : 0;
  p->n = br > 1 ? b->dims[br - 1] : 1;
  p->b_row = b->strides[br > 1 ? br - 2 : 0];
  p->b_column = br > 1 ? b->strides[br - 1] : 1;
  p->rank = out->rank - (ar > 1) - (br > 1);
  memcpy(p->dims, out->dims, sizeof p->dims);
  batch_strides(a, 2, p->rank, p->dims, p->a_strides);
  batch_strides(b, 2, p->rank, p->dims, p->b_strides);
  base_strides(p->rank, p->dims, p->c_strides);
  for (int32_t i = 0; i < p->rank; i++) p->c_strides[i] *= p->m * p->n;
  /* Rows of a dense A against one B are one tall matrix: B is packed once. */
  if (br <= 2 && ar > 2 && base_tensor_contiguous(a)) {
    for (int32_t i = 0; i < p->rank; i++) p->m *= p->dims[i];
    p->rank = 0;
    p->a_row = p->k; /* the stride of a dim of size 1 says nothing */
    p->a_column = 1;
  }
}

td_status ops_multiply(const base_call *call, const base_tensor *a, const base_tensor *b, const base_tensor *shape,
                       void *c) {
  int64_t ka = a->dims[a->rank - 1], kb = b->dims[b->rank > 1 ? b->rank - 2 : 0], count = base_tensor_numel(shape);
  product p = {.a = a->data, .b = b->data, .c = c};
  if (ka != kb) return ops_fail(call, "inner sizes %lld and %lld differ", (long long)ka, (long long)kb);
  describe_matmul(a, b, shape, &p);
  if (count) memset(c, 0, (size_t)count * (a->dtype == TD_F32 ? 4 : 8));
  return run(call, a->dtype, &p);
}

bool ops_has_pairs(const base_attrs *attrs) {
  return base_attr_has(attrs, KERN_MATMUL_PAIRS) && base_attr_int(attrs, KERN_MATMUL_PAIRS);
}

bool ops_matmul_operand(const base_call *call, uint32_t i, td_dtype dtype, base_tensor *t) {
  if (!ops_has_pairs(call->attrs)) return ops_typed(call, i, dtype, t);
  const base_tensor *given = base_in(call, i);
  const base_f32 *rounded = ops_rounded_f32(call, i);
  *t = base_tensor_of((void *)(uintptr_t)rounded, TD_F32, given->rank, given->dims);
  return rounded != NULL;
}

const kern_row *ops_matmul_kernel(const ir_kernel_query *query) {
  if (query->out[0].type.dtype != TD_F32) return NULL;
  return kern_select(KERN_MATMUL, ops_has_pairs(query->attrs) ? TD_BF16 : TD_F32, query->isa);
}

static td_status matmul_reference(const base_call *call) {
  td_dtype dtype = ops_sum_dtype(base_out(call, 0)->dtype);
  base_tensor a, b;
  if (!ops_matmul_operand(call, 0, dtype, &a) || !ops_matmul_operand(call, 1, dtype, &b))
    return base_no_memory(call->err, "scratch");
  void *c = take_sums(call, dtype);
  if (!c) return base_no_memory(call->err, "scratch");
  TRY(ops_multiply(call, &a, &b, base_out(call, 0), c));
  ops_put(call, 0, dtype, c);
  return ops_apply_chain(call);
}

static double number_or(base_dim d) { return base_dim_known(d) ? (double)d : 1; }

static double flops_matmul(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)attrs;
  const ir_type *a = &in[0]->type;
  if (a->rank < 1 || out->type.rank < 0) return 0;
  double flops = 2 * number_or(a->dims[a->rank - 1]);
  for (int32_t i = 0; i < out->type.rank; i++) flops *= number_or(out->type.dims[i]);
  return flops;
}

/* f32 shapes around the tiles of the kernels, and batches that can and cannot be merged into rows. */
static const struct {
  int32_t a_rank, b_rank;
  int64_t a[4], b[4];
} f32_shapes[] = {{2, 2, {1, 300}, {300, 129}},
                  {2, 2, {25, 33}, {33, 47}},
                  {2, 2, {0, 4}, {4, 3}},
                  {2, 2, {97, 1}, {1, 65}},
                  {1, 2, {40}, {40, 81}},
                  {2, 1, {50, 17}, {17}},
                  {4, 3, {2, 3, 5, 24}, {1, 24, 9}},
                  {3, 4, {3, 13, 8}, {2, 1, 8, 70}},
                  {4, 4, {2, 1, 6, 7}, {1, 3, 7, 16}},
                  {4, 2, {2, 1, 1, 19}, {19, 34}},
                  {3, 3, {0, 2, 3}, {0, 3, 2}},
                  {4, 4, {1, 12, 31, 16}, {1, 12, 16, 31}},
                  {4, 4, {3, 5, 16, 8}, {3, 1, 8, 1}},
                  {4, 4, {2, 7, 3, 9}, {1, 7, 9, 16}}};

enum { F32_CASES = 2 * OPS_COUNT(f32_shapes) };

int32_t ops_case_matmul_dims(int32_t a_rank, const int64_t *a, int32_t b_rank, const int64_t *b, int64_t *y) {
  const int32_t rank = a_rank == 1 ? b_rank - 1 : a_rank > b_rank ? a_rank : b_rank;
  for (int32_t i = 0; i < rank - 2; i++) {
    const int64_t of_a = i + a_rank - rank < 0 ? 1 : a[i + a_rank - rank];
    y[i] = of_a != 1 || i + b_rank - rank < 0 ? of_a : b[i + b_rank - rank];
  }
  if (rank > 1) y[rank - 2] = a[a_rank - 2];
  y[rank - 1] = b[b_rank - 1];
  return rank;
}

/* Of f32, without a chain and then with one. */
static bool case_f32(ir_case *c, uint32_t number) {
  const uint32_t which = number % OPS_COUNT(f32_shapes);
  const int32_t a_rank = f32_shapes[which].a_rank, b_rank = f32_shapes[which].b_rank;
  const int64_t *a = f32_shapes[which].a, *b = f32_shapes[which].b;
  int64_t y[4] = {0};
  if (number >= F32_CASES) return false;
  if (!ops_case_in(c, TD_F32, a_rank, a, OPS_NORMAL, 13) || !ops_case_in(c, TD_F32, b_rank, b, OPS_NORMAL, 14))
    return false;
  if (number < OPS_COUNT(f32_shapes) || b_rank == 1) return true;
  const int32_t rank = ops_case_matmul_dims(a_rank, a, b_rank, b, y);
  return ops_case_chain(c, rank, y);
}

static bool cases_matmul(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16, TD_I64, TD_I32, TD_U8};
  enum { SMALL = 6 * OPS_COUNT(dtypes), PAIRS = SMALL + F32_CASES };
  if (number >= PAIRS) ops_case_arg(c, ARG_BOOL("pairs", true)); /* the same again */
  if (number >= SMALL) return case_f32(c, number - (number >= PAIRS ? PAIRS : SMALL));
  td_dtype d = dtypes[number / 6];
  switch (number % 6) {
    case 0: return ops_case_in(c, d, OPS_DIMS(5), OPS_NORMAL, 1) && ops_case_in(c, d, OPS_DIMS(5), OPS_NORMAL, 2);
    case 1:
      return ops_case_in(c, d, OPS_DIMS(3, 131), OPS_NORMAL, 3) && ops_case_in(c, d, OPS_DIMS(131, 2), OPS_NORMAL, 4);
    case 2:
      return ops_case_in(c, d, OPS_DIMS(2, 1, 3, 4), OPS_NORMAL, 5) &&
             ops_case_in(c, d, OPS_DIMS(3, 4, 5), OPS_NORMAL, 6);
    case 3: return ops_case_in(c, d, OPS_DIMS(3, 0), OPS_NORMAL, 7) && ops_case_in(c, d, OPS_DIMS(0, 2), OPS_NORMAL, 8);
    case 4:
      return ops_case_in(c, d, OPS_DIMS(4), OPS_NORMAL, 9) && ops_case_in(c, d, OPS_DIMS(2, 4, 3), OPS_NORMAL, 10);
    default:
      return ops_case_in(c, d, OPS_DIMS(2, 7, 13), OPS_NORMAL, 11) &&
             ops_case_in(c, d, OPS_DIMS(13, 257), OPS_NORMAL, 12);
  }
}

/* ---- td::gemm ---- */

static const ir_attr gemm_attrs[] = {KERN_GEMM_LIST(OPS_ATTR_ROW)};

static td_status infer_gemm(ir_infer *ctx) {
  const ir_type *a = &ir_in(ctx, 0)->type, *b = &ir_in(ctx, 1)->type;
  TRY(ops_same_dtype(ctx, 0, 1));
  TRY(ops_same_dtype(ctx, 0, 2));
  if (a->rank == IR_UNRANKED || b->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, a->dtype);
  if (a->rank != 2 || b->rank != 2)
    return ir_infer_fail(ctx, "A and B must be matrices, not of rank %d and %d", a->rank, b->rank);
  bool ta = base_attr_int(ctx->attrs, KERN_GEMM_TRANS_A), tb = base_attr_int(ctx->attrs, KERN_GEMM_TRANS_B);
  base_dim ka = a->dims[!ta], kb = b->dims[tb];
  if (ops_dims_differ(ka, kb))
    return ir_infer_fail(ctx, "inner sizes %lld and %lld differ", (long long)ka, (long long)kb);
  TRY(ir_out(ctx, 0, a->dtype, 2, (base_dim[]){a->dims[ta], b->dims[!tb]}));
  const ir_type *c = ir_in(ctx, 2) ? &ir_in(ctx, 2)->type : NULL, *out = &ctx->out[0].type;
  if (c && c->rank > 2) return ir_infer_fail(ctx, "C has rank %d; at most 2 is meaningful", c->rank);
  for (int32_t i = 0; c && i < c->rank; i++) {
    base_dim own = c->dims[i], wanted = out->dims[i + 2 - c->rank];
    if (own != 1 && ops_dims_differ(own, wanted)) return ir_infer_fail(ctx, "C does not broadcast to the result");
  }
  return TD_OK;
}

/* out = beta C + alpha sums, as out's dtype. */
static void finish_gemm(const base_call *call, td_dtype dtype, void *sums) {
  const base_tensor *out = base_out(call, 0), *c = base_in(call, 2);
  double alpha = base_attr_float(call->attrs, KERN_GEMM_ALPHA), beta = base_attr_float(call->attrs, KERN_GEMM_BETA);
  int64_t strides[2] = {0};
  if (c) ops_broadcast_strides(c, 2, out->dims, strides);
  for (int64_t i = 0; i < out->dims[0]; i++) {
    for (int64_t j = 0; j < out->dims[1]; j++) {
      int64_t at = i * out->dims[1] + j, from = i * strides[0] + j * strides[1];
      if (dtype == TD_I64) {
        double scaled = alpha == 1 ? 0 : alpha * (double)((base_i64 *)sums)[at];
        int64_t sum = alpha == 1 ? ((base_i64 *)sums)[at] : (int64_t)scaled;
        int64_t add = !c          ? 0
                      : beta == 1 ? base_load_i64(c->dtype, c->data, from)
                                  : (int64_t)(beta * base_load_f64(c->dtype, c->data, from));
        ((base_i64 *)sums)[at] = (int64_t)((uint64_t)sum + (uint64_t)add);
        continue;
      }
      double sum = alpha * base_load_f64(dtype, sums, at);
      if (c) sum += beta * base_load_f64(c->dtype, c->data, from);
      base_store_f64(dtype, sums, at, sum);
    }
  }
}

static td_status gemm_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  td_dtype dtype = ops_sum_dtype(out->dtype);
  bool ta = base_attr_int(call->attrs, KERN_GEMM_TRANS_A), tb = base_attr_int(call->attrs, KERN_GEMM_TRANS_B);
  base_tensor a, b;
  if (!ops_typed(call, 0, dtype, &a) || !ops_typed(call, 1, dtype, &b)) return base_no_memory(call->err, "scratch");
  if (a.dims[!ta] != b.dims[tb])
    return ops_fail(call, "inner sizes %lld and %lld differ", (long long)a.dims[!ta], (long long)b.dims[tb]);
  product p = {.m = out->dims[0],
               .n = out->dims[1],
               .k = a.dims[!ta],
               .a_row = a.strides[ta],
               .a_column = a.strides[!ta],
               .b_row = b.strides[tb],
               .b_column = b.strides[!tb],
               .a = a.data,
               .b = b.data};
  p.c = take_sums(call, dtype);
  if (!p.c) return base_no_memory(call->err, "scratch");
  int64_t count = base_tensor_numel(out);
  if (count) memset(p.c, 0, (size_t)count * (dtype == TD_F32 ? 4 : 8));
  TRY(run(call, dtype, &p));
  finish_gemm(call, dtype, p.c);
  ops_put(call, 0, dtype, p.c);
  return TD_OK;
}

static double flops_gemm(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  const ir_type *a = &in[0]->type;
  if (a->rank != 2 || out->type.rank != 2) return 0;
  return 2 * number_or(a->dims[!base_attr_int(attrs, KERN_GEMM_TRANS_A)]) * number_or(out->type.dims[0]) *
         number_or(out->type.dims[1]);
}

static bool cases_gemm(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16, TD_I32};
  if (number >= 4 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 4];
  uint32_t variant = number % 4;
  bool ta = variant & 1, tb = variant & 2;
  ops_case_arg(c, ARG_BOOL("trans_a", ta));
  ops_case_arg(c, ARG_BOOL("trans_b", tb));
  if (variant == 1) ops_case_arg(c, ARG_FLOAT("alpha", 0.5));
  if (variant == 2) ops_case_arg(c, ARG_FLOAT("beta", 2));
  int64_t a[] = {ta ? 5 : 3, ta ? 3 : 5}, b[] = {tb ? 7 : 5, tb ? 5 : 7};
  if (!ops_case_in(c, d, 2, a, OPS_NORMAL, 1) || !ops_case_in(c, d, 2, b, OPS_NORMAL, 2)) return false;
  if (variant == 0) return true;
  return variant == 1 ? ops_case_in(c, d, OPS_DIMS(7), OPS_NORMAL, 3)
                      : ops_case_in(c, d, OPS_DIMS(3, 1), OPS_NORMAL, 4);
}

static const kern_row *gemm_kernel(const ir_kernel_query *query) {
  return query->out[0].type.dtype == TD_F32 ? kern_select(KERN_GEMM, TD_F32, query->isa) : NULL;
}

static const ir_alias matmul_aliases[] = {{"onnx", "MatMul", 1, NULL}};

OPS_DECLARE(matmul);
const ir_op ops_matmul[] = {
    {.id = OPERATOR(aten, matmul),
     .min_in = 2,
     .max_in = 2 + BASE_PROGRAM_OPERANDS - 1,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN,
     .attrs = matmul_attrs,
     .attr_count = OPS_COUNT(matmul_attrs),
     .infer = infer_matmul,
     .reference = matmul_reference,
     .kernel = ops_matmul_kernel,
     .flops = flops_matmul,
     .rtol = 1e-4f,
     .atol = 1e-5f,
     .aliases = matmul_aliases,
     .alias_count = OPS_COUNT(matmul_aliases)},
    {.id = OPERATOR(td, gemm),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .attrs = gemm_attrs,
     .attr_count = OPS_COUNT(gemm_attrs),
     .infer = infer_gemm,
     .reference = gemm_reference,
     .kernel = gemm_kernel,
     .flops = flops_gemm,
     .rtol = 1e-4f,
     .atol = 1e-5f},
};
OPS_TABLE(matmul);
OPS_CASES(matmul) = {
    {OP_aten_matmul, cases_matmul},
    {OP_td_gemm, cases_gemm},
    {0},
};
