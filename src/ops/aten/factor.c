/* factor.c -- matrices as products: L U with row exchanges, Cholesky's, Householder's reflections, and what is solved
 * with them. All in double, rounded once. Matrices without a factor are not refused: `info` says where it ended.
 *
 *     aten::linalg_lu_factor_ex         A = P L U, partial pivoting (PyTorch linalg_lu_factor_ex)
 *     td::pivot_rows                    the permutation that a list of row exchanges makes
 *     aten::linalg_cholesky_ex          A = L L^T, of a positive definite A (PyTorch linalg_cholesky_ex)
 *     aten::linalg_solve_triangular     X with A X = B (PyTorch linalg_solve_triangular)
 *     aten::geqrf                       A = Q R, Q as Householder reflections (LAPACK geqrf)
 *     aten::linalg_householder_product  the columns of Q = H1 H2 ... (LAPACK orgqr) */
#include "ops/common/matrices_priv.h"

#include <math.h>
#include <string.h>

static td_status no_scratch(const base_call *call) { return base_no_memory(call->err, "scratch"); }

/* ---- aten::linalg_lu_factor_ex (A [.., m, n]) -> LU, pivots (i32, from 1), info (i32) ---- */

static void swap_rows(double *m, int64_t columns, int64_t a, int64_t b) {
  for (int64_t k = 0; a != b && k < columns; k++) {
    double kept = m[a * columns + k];
    m[a * columns + k] = m[b * columns + k];
    m[b * columns + k] = kept;
  }
}

/* In place; gives the number, from 1, of the first pivot that is 0, or 0. */
static int32_t lu_factor(double *m, int64_t rows, int64_t columns, int32_t *pivots) {
  int32_t info = 0;
  for (int64_t c = 0; c < base_min_i64(rows, columns); c++) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < rows; r++)
      if (fabs(m[r * columns + c]) > fabs(m[pivot * columns + c])) pivot = r;
    pivots[c] = (int32_t)pivot + 1;
    if (m[pivot * columns + c] == 0) {
      if (!info) info = (int32_t)c + 1;
      continue;
    }
    swap_rows(m, columns, c, pivot);
    for (int64_t r = c + 1; r < rows; r++) {
      double factor = m[r * columns + c] /= m[c * columns + c];
      for (int64_t k = c + 1; factor != 0 && k < columns; k++) m[r * columns + k] -= factor * m[c * columns + k];
    }
  }
  return info;
}

static td_status lu_reference(const base_call *call) {
  const base_tensor *pivots = base_out(call, 1), *info = base_out(call, 2);
  ops_matrices m = ops_matrices_of(base_in(call, 0));
  const base_f64 *from = ops_dense_f64(call, 0);
  int64_t size = m.rows * m.columns, least = base_min_i64(m.rows, m.columns);
  double *all = base_call_scratch(call, (size_t)(m.count * size), sizeof *all);
  int32_t *at = base_call_scratch(call, (size_t)least, sizeof *at);
  if (!from || !all || !at) return no_scratch(call);
  if (size) memcpy(all, from, (size_t)(m.count * size) * sizeof *all);
  for (int64_t i = 0; i < m.count; i++) {
    int32_t end = lu_factor(all + i * size, m.rows, m.columns, at);
    if (info) base_store_i64(TD_I32, info->data, i, end);
    for (int64_t k = 0; pivots && k < least; k++) base_store_i64(TD_I32, pivots->data, i * least + k, at[k]);
  }
  ops_put(call, 0, TD_F64, all);
  return TD_OK;
}

static td_status infer_lu(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  TRY(ops_infer_matrices(ctx, 0, false));
  TRY(ops_infer_same(ctx));
  if (x->rank == IR_UNRANKED) {
    TRY(ir_out_unranked(ctx, 1, TD_I32));
    return ir_out_unranked(ctx, 2, TD_I32);
  }
  base_dim least = ops_least_dim(ctx, x->dims[x->rank - 2], x->dims[x->rank - 1]);
  TRY(ops_out_matrices(ctx, 1, TD_I32, 1, &least));
  return ops_out_matrices(ctx, 2, TD_I32, 0, NULL);
}

/* ---- td::pivot_rows (pivots [.., k], {rows}) -> i64 [.., rows]: which row of A each row of L U is ---- */

static td_status pivot_rows_reference(const base_call *call) {
  const base_tensor *pivots = base_in(call, 0), *out = base_out(call, 0);
  int64_t count = pivots->dims[pivots->rank - 1], rows = out->dims[out->rank - 1], all = base_tensor_numel(out);
  const base_i64 *from = ops_dense_i64(call, 0);
  base_i64 *to = out->data;
  if (!from) return no_scratch(call);
  for (int64_t base = 0, at = 0; base < all; base += rows, at += count) {
    for (int64_t r = 0; r < rows; r++) to[base + r] = r;
    for (int64_t k = 0; k < count; k++) {
      int64_t other = from[at + k] - 1;
      if (k >= rows || other < 0 || other >= rows)
        return ops_fail(call, "pivot %lld of %lld rows", (long long)from[at + k], (long long)rows);
      int64_t kept = to[base + k];
      to[base + k] = to[base + other];
      to[base + other] = kept;
    }
  }
  return TD_OK;
}
static td_status infer_pivot_rows(ir_infer *ctx) {
  ir_type type = ir_in(ctx, 0)->type;
  const base_dim *rows;
  uint32_t count;
  if (!base_is_int(type.dtype)) return ir_infer_fail(ctx, "pivots of %s", td_dtype_name(type.dtype));
  if (type.rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, TD_I64);
  if (type.rank < 1) return ir_infer_fail(ctx, "pivots of rank 0");
  bool known = ir_in_ints(ctx, 1, &rows, &count) && count == 1;
  type.dims[type.rank - 1] = known ? rows[0] : ir_fresh(ctx);
  return ir_out(ctx, 0, TD_I64, type.rank, type.dims);
}

/* ---- aten::linalg_cholesky_ex (A [.., n, n]) {upper} -> L, info ---- */

static const ir_attr upper_attrs[] = {ATTR_BOOL("upper", 0)};

/* The lower triangle of `m` becomes L, the rest 0; gives the first minor, from 1, that is not positive, or 0. */
static int32_t cholesky(double *m, int64_t n) {
  int32_t info = 0;
  for (int64_t r = 0; r < n; r++)
    for (int64_t c = 0; c < n; c++) {
      if (c > r || info) {
        m[r * n + c] = c > r ? 0 : m[r * n + c];
        continue;
      }
      double sum = m[r * n + c];
      for (int64_t k = 0; k < c; k++) sum -= m[r * n + k] * m[c * n + k];
      if (c == r && !(sum > 0)) info = (int32_t)r + 1;
      else m[r * n + c] = c == r ? sqrt(sum) : sum / m[c * n + c];
    }
  return info;
}

static td_status cholesky_reference(const base_call *call) {
  const base_tensor *info = base_out(call, 1);
  ops_matrices m = ops_matrices_of(base_in(call, 0));
  TRY(ops_check_square(call, &m));
  bool upper = base_attr_int(call->attrs, 0);
  const base_f64 *from = ops_dense_f64(call, 0);
  int64_t n = m.rows, size = n * n;
  double *all = base_call_scratch(call, (size_t)(m.count * size), sizeof *all);
  double *one = base_call_scratch(call, (size_t)size, sizeof *one);
  if (!from || !all || !one) return no_scratch(call);
  for (int64_t i = 0; i < m.count; i++) {
    for (int64_t k = 0; k < size; k++) one[k] = from[i * size + (upper ? k % n * n + k / n : k)];
    int32_t end = cholesky(one, n);
    if (info) base_store_i64(TD_I32, info->data, i, end);
    for (int64_t k = 0; k < size; k++) all[i * size + k] = one[upper ? k % n * n + k / n : k];
  }
  ops_put(call, 0, TD_F64, all);
  return TD_OK;
}
static td_status infer_cholesky(ir_infer *ctx) {
  TRY(ops_infer_matrices(ctx, 0, true));
  TRY(ops_infer_same(ctx));
  if (ir_in(ctx, 0)->type.rank == IR_UNRANKED) return ir_out_unranked(ctx, 1, TD_I32);
  return ops_out_matrices(ctx, 1, TD_I32, 0, NULL);
}

/* ---- aten::linalg_solve_triangular (A [.., n, n], B [.., n, k]) {upper, unitriangular} -> X with A X = B ---- */

enum { SOLVE_UPPER, SOLVE_UNIT };
static const ir_attr solve_attrs[] = {ATTR_BOOL("upper", 0), ATTR_BOOL("unitriangular", 0)};

static void solve_triangle(const base_f64 *a, int64_t n, double *b, int64_t columns, bool upper, bool unit) {
  for (int64_t i = 0; i < n; i++) {
    int64_t r = upper ? n - 1 - i : i, first = upper ? r + 1 : 0, end = upper ? n : r;
    for (int64_t k = first; k < end; k++)
      for (int64_t c = 0; c < columns; c++) b[r * columns + c] -= a[r * n + k] * b[k * columns + c];
    for (int64_t c = 0; !unit && c < columns; c++) b[r * columns + c] /= a[r * n + r];
  }
}
static td_status solve_reference(const base_call *call) {
  ops_matrices a = ops_matrices_of(base_in(call, 0)), b = ops_matrices_of(base_in(call, 1));
  TRY(ops_check_square(call, &a));
  if (a.count != b.count || a.rows != b.rows)
    return ops_fail(call, "matrices of %lld rows, right sides of %lld", (long long)a.rows, (long long)b.rows);
  const base_f64 *from = ops_dense_f64(call, 0), *right = ops_dense_f64(call, 1);
  int64_t size = b.rows * b.columns;
  double *all = base_call_scratch(call, (size_t)(b.count * size), sizeof *all);
  if (!from || !right || !all) return no_scratch(call);
  if (size) memcpy(all, right, (size_t)(b.count * size) * sizeof *all);
  for (int64_t i = 0; i < b.count; i++)
    solve_triangle(from + i * a.rows * a.rows, a.rows, all + i * size, b.columns,
                   base_attr_int(call->attrs, SOLVE_UPPER), base_attr_int(call->attrs, SOLVE_UNIT));
  ops_put(call, 0, TD_F64, all);
  return TD_OK;
}
static td_status infer_solve(ir_infer *ctx) {
  const ir_type *a = &ir_in(ctx, 0)->type, *b = &ir_in(ctx, 1)->type;
  TRY(ops_infer_matrices(ctx, 0, true));
  TRY(ops_infer_matrices(ctx, 1, false));
  TRY(ops_same_dtype(ctx, 0, 1));
  if (a->rank != IR_UNRANKED && b->rank != IR_UNRANKED) {
    if (a->rank != b->rank) return ir_infer_fail(ctx, "operands of rank %d and %d", a->rank, b->rank);
    for (int32_t i = 0; i < a->rank - 1; i++)
      if (ops_dims_differ(a->dims[i], b->dims[i])) return ir_infer_fail(ctx, "dimension %d differs", i);
  }
  return ir_out_like(ctx, 0, 1, TD_INVALID);
}

/* ---- aten::geqrf (A [.., m, n]) -> R above the diagonal and reflections below it, their factors ---- */

/* The reflection 1 - tau v v^T that leaves of column `c` from row `c` on one element; v begins with 1. */
static double reflect(double *m, int64_t rows, int64_t columns, int64_t c) {
  double rest = 0, head = m[c * columns + c];
  for (int64_t r = c + 1; r < rows; r++) rest = hypot(rest, m[r * columns + c]);
  if (rest == 0) return 0;
  double left = -copysign(hypot(head, rest), head), tau = (left - head) / left;
  for (int64_t r = c + 1; r < rows; r++) m[r * columns + c] /= head - left;
  m[c * columns + c] = left;
  for (int64_t k = c + 1; k < columns; k++) {
    double sum = m[c * columns + k];
    for (int64_t r = c + 1; r < rows; r++) sum += m[r * columns + c] * m[r * columns + k];
    m[c * columns + k] -= tau * sum;
    for (int64_t r = c + 1; r < rows; r++) m[r * columns + k] -= tau * sum * m[r * columns + c];
  }
  return tau;
}
static td_status geqrf_reference(const base_call *call) {
  ops_matrices m = ops_matrices_of(base_in(call, 0));
  const base_f64 *from = ops_dense_f64(call, 0);
  int64_t size = m.rows * m.columns, least = base_min_i64(m.rows, m.columns);
  double *all = base_call_scratch(call, (size_t)(m.count * size), sizeof *all);
  double *taus = base_call_scratch(call, (size_t)(m.count * least), sizeof *taus);
  if (!from || !all || !taus) return no_scratch(call);
  if (size) memcpy(all, from, (size_t)(m.count * size) * sizeof *all);
  for (int64_t i = 0; i < m.count; i++)
    for (int64_t c = 0; c < least; c++) taus[i * least + c] = reflect(all + i * size, m.rows, m.columns, c);
  ops_put(call, 0, TD_F64, all);
  if (base_out(call, 1)) ops_put(call, 1, TD_F64, taus);
  return TD_OK;
}
static td_status infer_geqrf(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  TRY(ops_infer_matrices(ctx, 0, false));
  TRY(ops_infer_same(ctx));
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 1, x->dtype);
  base_dim least = ops_least_dim(ctx, x->dims[x->rank - 2], x->dims[x->rank - 1]);
  return ops_out_matrices(ctx, 1, x->dtype, 1, &least);
}

/* ---- aten::linalg_householder_product (reflections [.., m, n], factors [.., k]) -> their product's first n columns */

static void multiply_out(const base_f64 *v, const base_f64 *taus, int64_t count, double *q, int64_t rows,
                         int64_t columns) {
  for (int64_t k = 0; k < rows * columns; k++) q[k] = k / columns == k % columns;
  for (int64_t i = count; i-- > 0;)
    for (int64_t c = 0; c < columns; c++) {
      double sum = q[i * columns + c];
      for (int64_t r = i + 1; r < rows; r++) sum += v[r * columns + i] * q[r * columns + c];
      q[i * columns + c] -= taus[i] * sum;
      for (int64_t r = i + 1; r < rows; r++) q[r * columns + c] -= taus[i] * sum * v[r * columns + i];
    }
}
static td_status householder_reference(const base_call *call) {
  const base_tensor *factors = base_in(call, 1);
  ops_matrices m = ops_matrices_of(base_in(call, 0));
  int64_t size = m.rows * m.columns, count = factors->dims[factors->rank - 1];
  if (m.columns > m.rows || count > m.columns || base_tensor_numel(factors) != m.count * count)
    return ops_fail(call, "%lld reflections in matrices of %lld by %lld", (long long)count, (long long)m.rows,
                    (long long)m.columns);
  const base_f64 *from = ops_dense_f64(call, 0), *taus = ops_dense_f64(call, 1);
  double *all = base_call_scratch(call, (size_t)(m.count * size), sizeof *all);
  if (!from || !taus || !all) return no_scratch(call);
  for (int64_t i = 0; i < m.count; i++)
    multiply_out(from + i * size, taus + i * count, count, all + i * size, m.rows, m.columns);
  ops_put(call, 0, TD_F64, all);
  return TD_OK;
}
static td_status infer_householder(ir_infer *ctx) {
  TRY(ops_infer_matrices(ctx, 0, false));
  TRY(ops_same_dtype(ctx, 0, 1));
  if (ir_in(ctx, 1)->type.rank == 0) return ir_infer_fail(ctx, "factors of rank 0");
  return ops_infer_same(ctx);
}

/* ---- work and cases ---- */

static double factor_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)out;
  (void)attrs;
  return ops_cubic_flops(in, 1);
}
static double reflection_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)out;
  (void)attrs;
  return ops_cubic_flops(in, 2);
}

static const int64_t sizes[][2] = {{3, 3}, {1, 1}, {5, 3}, {3, 5}, {0, 2}, {7, 7}};

static bool matrix_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16};
  if (number >= 3 * OPS_COUNT(sizes)) return false;
  const int64_t *s = sizes[number % OPS_COUNT(sizes)];
  return ops_case_in(c, dtypes[number / OPS_COUNT(sizes)], OPS_DIMS(2, s[0], s[1]), OPS_NORMAL, number);
}
static bool pivot_cases(ir_case *c, uint32_t number) {
  int32_t pivots[] = {2, 3, 3, 1, 2, 3};
  if (number >= 2 || !ops_case_in(c, TD_I32, OPS_DIMS(2, 3), OPS_INDEX, number)) return false;
  memcpy(c->in[0].data, pivots, sizeof pivots);
  return ops_case_ints(c, (int64_t[]){3 + 2 * number}, 1);
}
/* A A^T + 1, so that there is a factor; and what has none. */
static bool cholesky_cases(ir_case *c, uint32_t number) {
  if (number >= 8) return false;
  int64_t n = number % 4 * 2;
  ops_case_arg(c, ARG_BOOL("upper", number / 4));
  if (!ops_case_in(c, number % 2 ? TD_F64 : TD_F32, OPS_DIMS(2, n, n), OPS_UNIT, number)) return false;
  base_tensor *t = &c->in[0];
  for (int64_t k = 0; number != 3 && k < 2 * n * n; k++)
    base_store_f64(t->dtype, t->data, k, k % (n * n) / n == k % n ? 4 + (double)n : 0.5);
  return true;
}
static bool solve_cases(ir_case *c, uint32_t number) {
  if (number >= 8) return false;
  int64_t n = number == 7 ? 0 : 1 + number;
  ops_case_arg(c, ARG_BOOL("upper", number % 2));
  ops_case_arg(c, ARG_BOOL("unitriangular", number / 2 % 2));
  td_dtype d = number % 3 ? TD_F32 : TD_F64;
  return ops_case_in(c, d, OPS_DIMS(2, n, n), OPS_POSITIVE, number) &&
         ops_case_in(c, d, OPS_DIMS(2, n, 3), OPS_NORMAL, number + 1);
}
static bool householder_cases(ir_case *c, uint32_t number) {
  static const int64_t shapes[][3] = {{4, 3, 3}, {4, 4, 2}, {1, 1, 1}, {3, 0, 0}};
  if (number >= OPS_COUNT(shapes)) return false;
  const int64_t *s = shapes[number];
  return ops_case_in(c, TD_F32, OPS_DIMS(2, s[0], s[1]), OPS_UNIT, number) &&
         ops_case_in(c, TD_F32, OPS_DIMS(2, s[2]), OPS_UNIT, number + 1);
}

OPS_DECLARE(factor);
const ir_op ops_factor[] = {
    {.id = OPERATOR(aten, linalg_lu_factor_ex),
     .min_in = 1,
     .max_in = 1,
     .out_count = 3,
     .infer = infer_lu,
     .reference = lu_reference,
     .flops = factor_flops,
     .rtol = 1e-4f},
    {.id = OPERATOR(td, pivot_rows),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .infer = infer_pivot_rows,
     .reference = pivot_rows_reference},
    {.id = OPERATOR(aten, linalg_cholesky_ex),
     .min_in = 1,
     .max_in = 1,
     .out_count = 2,
     .attrs = upper_attrs,
     .attr_count = OPS_COUNT(upper_attrs),
     .infer = infer_cholesky,
     .reference = cholesky_reference,
     .flops = factor_flops,
     .rtol = 1e-4f},
    {.id = OPERATOR(aten, linalg_solve_triangular),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = solve_attrs,
     .attr_count = OPS_COUNT(solve_attrs),
     .infer = infer_solve,
     .reference = solve_reference,
     .rtol = 1e-4f},
    {.id = OPERATOR(aten, geqrf),
     .min_in = 1,
     .max_in = 1,
     .out_count = 2,
     .infer = infer_geqrf,
     .reference = geqrf_reference,
     .flops = reflection_flops,
     .rtol = 1e-4f},
    {.id = OPERATOR(aten, linalg_householder_product),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .infer = infer_householder,
     .reference = householder_reference,
     .flops = reflection_flops,
     .rtol = 1e-4f},
};
OPS_TABLE(factor);
OPS_CASES(factor) = {
    {OP_aten_linalg_lu_factor_ex, matrix_cases},
    {OP_td_pivot_rows, pivot_cases},
    {OP_aten_linalg_cholesky_ex, cholesky_cases},
    {OP_aten_linalg_solve_triangular, solve_cases},
    {OP_aten_geqrf, matrix_cases},
    {OP_aten_linalg_householder_product, householder_cases},
    {0},
};
