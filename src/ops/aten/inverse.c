/* inverse.c -- aten::linalg_inv: the inverse of each square matrix of the last two dims, by elimination with partial
 * pivoting in double. A singular matrix is refused.
 *
 * y = A^-1. PyTorch linalg_inv; com.microsoft Inverse 1. */
#include "ops/common/ops_priv.h"

#include <math.h>

static td_status infer_inverse(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  if (!base_is_float(x->dtype)) return ir_infer_fail(ctx, "the inverse of a matrix of %s", td_dtype_name(x->dtype));
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (x->rank < 2) return ir_infer_fail(ctx, "an operand of rank %d is no matrix", x->rank);
  base_dim rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  if (base_dim_known(rows) && base_dim_known(columns) && rows != columns)
    return ir_infer_fail(ctx, "a matrix of %lld by %lld is not square", (long long)rows, (long long)columns);
  return ops_infer_same(ctx);
}

static void swap_rows(double *m, int64_t n, int64_t a, int64_t b) {
  for (int64_t k = 0; k < n; k++) {
    double kept = m[a * n + k];
    m[a * n + k] = m[b * n + k];
    m[b * n + k] = kept;
  }
}

/* Turns `m` into the unit matrix and `inverse`, the unit matrix, into the inverse of `m`. False: singular. */
static bool invert(double *m, double *inverse, int64_t n) {
  for (int64_t column = 0; column < n; column++) {
    int64_t pivot = column;
    for (int64_t i = column + 1; i < n; i++)
      if (fabs(m[i * n + column]) > fabs(m[pivot * n + column])) pivot = i;
    double value = m[pivot * n + column];
    if (value == 0 || isnan(value)) return false;
    swap_rows(m, n, pivot, column);
    swap_rows(inverse, n, pivot, column);
    for (int64_t k = 0; k < n; k++) {
      m[column * n + k] /= value;
      inverse[column * n + k] /= value;
    }
    for (int64_t i = 0; i < n; i++) {
      double factor = i == column ? 0 : m[i * n + column];
      for (int64_t k = 0; factor != 0 && k < n; k++) {
        m[i * n + k] -= factor * m[column * n + k];
        inverse[i * n + k] -= factor * inverse[column * n + k];
      }
    }
  }
  return true;
}

static td_status inverse_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  int64_t n = x->dims[x->rank - 1], count = base_tensor_numel(x);
  if (count == 0) return TD_OK;
  if (x->dims[x->rank - 2] != n) return ops_fail(call, "the matrices are not square");
  const base_f64 *from = ops_dense_f64(call, 0);
  base_f64 *to = ops_take_f64(call, 0);
  double *m = base_call_scratch(call, (size_t)(n * n), 2 * sizeof *m);
  if (!from || !to || !m) return base_no_memory(call->err, "scratch");
  double *inverse = m + n * n;
  for (int64_t at = 0; at < count; at += n * n) {
    for (int64_t k = 0; k < n * n; k++) {
      m[k] = from[at + k];
      inverse[k] = k / n == k % n;
    }
    if (!invert(m, inverse, n)) return ops_fail(call, "matrix %lld is singular", (long long)(at / (n * n)));
    for (int64_t k = 0; k < n * n; k++) to[at + k] = inverse[k];
  }
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

static bool cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16};
  if (number >= 3 * OPS_COUNT(dtypes)) return false;
  static const int64_t sizes[] = {1, 5, 0};
  int64_t n = sizes[number % 3], dims[] = {2, n, n};
  return ops_case_in(c, dtypes[number / 3], 3, dims, OPS_UNIT, number);
}

static const ir_alias aliases[] = {{"com.microsoft", "Inverse", 1, NULL}};

OPS_DECLARE(inverse);
const ir_op ops_inverse[] = {
    {.id = OPERATOR(aten, linalg_inv),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .infer = infer_inverse,
     .reference = inverse_reference,
     .rtol = 1e-4f,
     .atol = 1e-4f,
     .aliases = aliases,
     .alias_count = OPS_COUNT(aliases)},
};
OPS_TABLE(inverse);
OPS_CASES(inverse) = {
    {OP_aten_linalg_inv, cases},
    {0},
};
