/* eigen.c -- eigenvalues of symmetric matrices, singular values, exponentials of matrices. Rotations after Jacobi, in
 * double: slow where matrices are large, exact where they are not.
 *
 *     aten::_linalg_eigh       A = V diag(w) V^T, w ascending (PyTorch _linalg_eigh; Jacobi 1846)
 *     aten::_linalg_svd        A = U diag(s) V^T, s descending (PyTorch _linalg_svd; one-sided Jacobi, Hestenes 1958)
 *     aten::linalg_matrix_exp  sum of A^k / k! (PyTorch linalg_matrix_exp) */
#include "ops/common/matrices_priv.h"

#include <math.h>
#include <string.h>

enum { MOST_SWEEPS = 60 };

/* Cosine and sine of the rotation that makes the symmetric [[a, c], [c, b]] diagonal. */
static void rotation(double a, double b, double c, double *cosine, double *sine) {
  double theta = (b - a) / (2 * c), t = 1 / (fabs(theta) + hypot(theta, 1));
  if (theta < 0) t = -t;
  *cosine = 1 / hypot(t, 1);
  *sine = t * *cosine;
}

/* Two vectors of `count` elements, `step` apart, become x cos - y sin and x sin + y cos. */
static void rotate(double *x, double *y, int64_t count, int64_t step, double cosine, double sine) {
  for (int64_t k = 0; k < count * step; k += step) {
    double kept = x[k];
    x[k] = cosine * kept - sine * y[k];
    y[k] = sine * kept + cosine * y[k];
  }
}

/* order[] of `count` values, ascending or descending. */
static void order_values(const double *values, int64_t count, bool descending, int64_t *order) {
  for (int64_t i = 0; i < count; i++) {
    int64_t at = i;
    for (; at > 0; at--) {
      double before = values[order[at - 1]];
      if (descending ? before >= values[i] : before <= values[i]) break;
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
}

/* ---- aten::_linalg_eigh (A [.., n, n]) {upper}: of one triangle -> values ascending, vectors as columns ---- */

static const ir_attr upper_attrs[] = {ATTR_BOOL("upper", 0)};

/* `m` becomes diagonal, the rows of `vectors` its eigenvectors. */
static void diagonalise(double *m, double *vectors, int64_t n) {
  for (int64_t k = 0; k < n * n; k++) vectors[k] = k / n == k % n;
  for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
    bool rotated = false;
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = p + 1; q < n; q++) {
        double off = m[p * n + q], cosine, sine;
        if (!(fabs(off) > 1e-17 * sqrt(fabs(m[p * n + p] * m[q * n + q]))) || fabs(off) < 1e-300) continue;
        rotation(m[p * n + p], m[q * n + q], off, &cosine, &sine);
        rotate(m + p, m + q, n, n, cosine, sine);
        rotate(m + p * n, m + q * n, n, 1, cosine, sine);
        m[p * n + q] = m[q * n + p] = 0;
        rotate(vectors + p * n, vectors + q * n, n, 1, cosine, sine);
        rotated = true;
      }
    if (!rotated) return;
  }
}
static td_status eigh_reference(const base_call *call) {
  const base_tensor *values = base_out(call, 0), *vectors = base_out(call, 1);
  ops_matrices m = ops_matrices_of(base_in(call, 0));
  TRY(ops_check_square(call, &m));
  bool upper = base_attr_int(call->attrs, 0);
  int64_t n = m.rows, size = n * n;
  const base_f64 *from = ops_dense_f64(call, 0);
  double *one = base_call_scratch(call, (size_t)size, 2 * sizeof *one),
         *diagonal = base_call_scratch(call, (size_t)n, sizeof *diagonal);
  int64_t *order = base_call_scratch(call, (size_t)n, sizeof *order);
  if (!from || !one || !order || !diagonal) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < m.count; i++) {
    for (int64_t k = 0; k < size; k++) {
      bool above = k % n > k / n;
      one[k] = from[i * size + (above == upper ? k : k % n * n + k / n)];
    }
    diagonalise(one, one + size, n);
    for (int64_t k = 0; k < n; k++) diagonal[k] = one[k * n + k];
    order_values(diagonal, n, false, order);
    for (int64_t k = 0; k < n; k++) {
      if (values) base_store_f64(values->dtype, values->data, i * n + k, diagonal[order[k]]);
      for (int64_t r = 0; vectors && r < n; r++)
        base_store_f64(vectors->dtype, vectors->data, i * size + r * n + k, one[size + order[k] * n + r]);
    }
  }
  return TD_OK;
}
static td_status infer_eigh(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  TRY(ops_infer_matrices(ctx, 0, true));
  TRY(ir_out_like(ctx, 1, 0, TD_INVALID));
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  return ops_out_matrices(ctx, 0, x->dtype, 1, &x->dims[x->rank - 1]);
}

/* ---- aten::_linalg_svd (A [.., m, n]) {full_matrices} -> U, singular values descending, V^T ---- */

static const ir_attr svd_attrs[] = {ATTR_BOOL("full_matrices", 0)};

static double product(const double *x, const double *y, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; k++) sum += x[k] * y[k];
  return sum;
}

/* Rotates the `count` rows of `length` of `w` until they are orthogonal, and those of the unit matrix `v` with them. */
static void orthogonalise(double *w, double *v, int64_t count, int64_t length) {
  for (int64_t k = 0; k < count * count; k++) v[k] = k / count == k % count;
  for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
    bool rotated = false;
    for (int64_t p = 0; p < count; p++)
      for (int64_t q = p + 1; q < count; q++) {
        double *x = w + p * length, *y = w + q * length, cosine, sine;
        double a = product(x, x, length), b = product(y, y, length), c = product(x, y, length);
        if (!(fabs(c) > 1e-16 * sqrt(a) * sqrt(b)) || fabs(c) < 1e-300) continue;
        rotation(a, b, c, &cosine, &sine);
        rotate(x, y, length, 1, cosine, sine);
        rotate(v + p * count, v + q * count, count, 1, cosine, sine);
        rotated = true;
      }
    if (!rotated) return;
  }
}

/* Makes row `at` of `rows`, of `length`, one more of unit length that is orthogonal to those in front of it. */
static void complete(double *rows, int64_t at, int64_t length) {
  double *row = rows + at * length, enough = 0.9 * sqrt((double)(length - at) / (double)length);
  for (int64_t unit = 0; unit < length; unit++) {
    for (int64_t k = 0; k < length; k++) row[k] = k == unit;
    for (int64_t k = 0; k < 2 * at; k++) { /* twice: the second time takes what rounding left */
      const double *other = rows + k % at * length;
      double share = product(row, other, length);
      for (int64_t j = 0; j < length; j++) row[j] -= share * other[j];
    }
    double norm = sqrt(product(row, row, length));
    if (!(norm > enough)) continue;
    for (int64_t k = 0; k < length; k++) row[k] /= norm;
    return;
  }
}

typedef struct svd_room {
  int64_t longer, shorter, kept; /* kept: rows of `left` that are wanted */
  double *w, *v, *left, *right, *values;
  int64_t *order;
} svd_room;

/* Of shorter rows of `longer` in `w`: left singular vectors (as rows of `longer`), values, right ones (of `shorter`).
 */
static void decompose(svd_room *s) {
  orthogonalise(s->w, s->v, s->shorter, s->longer);
  double largest = 0;
  for (int64_t k = 0; k < s->shorter; k++) {
    const double *row = s->w + k * s->longer;
    s->values[k] = sqrt(product(row, row, s->longer));
    largest = fmax(largest, s->values[k]);
  }
  order_values(s->values, s->shorter, true, s->order);
  for (int64_t k = 0; k < s->kept; k++) {
    double value = k < s->shorter ? s->values[s->order[k]] : 0;
    if (k < s->shorter)
      memcpy(s->right + k * s->shorter, s->v + s->order[k] * s->shorter, (size_t)s->shorter * sizeof *s->right);
    if (!(value <= 1e-15 * (double)s->longer * largest))
      for (int64_t j = 0; j < s->longer; j++) s->left[k * s->longer + j] = s->w[s->order[k] * s->longer + j] / value;
    else complete(s->left, k, s->longer);
  }
}

/* Element k of row r of `rows`, into a matrix whose columns (transposed: rows) they are. */
static void put_vectors(const base_tensor *out, int64_t at, const double *rows, int64_t count, int64_t length,
                        bool transposed) {
  for (int64_t r = 0; out && r < count; r++)
    for (int64_t k = 0; k < length; k++)
      base_store_f64(out->dtype, out->data, at + (transposed ? r * length + k : k * count + r), rows[r * length + k]);
}

static td_status svd_reference(const base_call *call) {
  const base_tensor *u = base_out(call, 0), *values = base_out(call, 1), *vh = base_out(call, 2);
  ops_matrices m = ops_matrices_of(base_in(call, 0));
  bool wide = m.columns > m.rows, full = base_attr_int(call->attrs, 0);
  svd_room s = {.longer = base_max_i64(m.rows, m.columns), .shorter = base_min_i64(m.rows, m.columns)};
  s.kept = full ? s.longer : s.shorter;
  int64_t size = m.rows * m.columns;
  const base_f64 *from = ops_dense_f64(call, 0);
  s.w = base_call_scratch(call, (size_t)size, sizeof *s.w);
  s.v = base_call_scratch(call, (size_t)(s.shorter * s.shorter), 2 * sizeof *s.v);
  s.right = s.v + s.shorter * s.shorter;
  s.left = base_call_scratch(call, (size_t)(s.kept * s.longer), sizeof *s.left);
  s.values = base_call_scratch(call, (size_t)s.shorter, sizeof *s.values);
  s.order = base_call_scratch(call, (size_t)s.shorter, sizeof *s.order);
  if (!from || !s.w || !s.v || !s.left || !s.values || !s.order) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < m.count; i++) {
    for (int64_t k = 0; k < size; k++) s.w[k] = from[i * size + (wide ? k : k % s.longer * m.columns + k / s.longer)];
    decompose(&s);
    for (int64_t k = 0; values && k < s.shorter; k++)
      base_store_f64(values->dtype, values->data, i * s.shorter + k, s.values[s.order[k]]);
    const double *left = wide ? s.right : s.left, *right = wide ? s.left : s.right;
    int64_t lefts = wide ? s.shorter : s.kept, rights = wide ? s.kept : s.shorter;
    put_vectors(u, i * m.rows * lefts, left, lefts, m.rows, false);
    put_vectors(vh, i * rights * m.columns, right, rights, m.columns, true);
  }
  return TD_OK;
}
static td_status infer_svd(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  TRY(ops_infer_matrices(ctx, 0, false));
  if (x->rank == IR_UNRANKED) {
    for (uint32_t i = 0; i < 3; i++) TRY(ir_out_unranked(ctx, i, x->dtype));
    return TD_OK;
  }
  base_dim rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1], least = ops_least_dim(ctx, rows, columns);
  bool full = base_attr_int(ctx->attrs, 0);
  TRY(ops_out_matrices(ctx, 0, x->dtype, 2, (base_dim[]){rows, full ? rows : least}));
  TRY(ops_out_matrices(ctx, 1, x->dtype, 1, &least));
  return ops_out_matrices(ctx, 2, x->dtype, 2, (base_dim[]){full ? columns : least, columns});
}

/* ---- aten::linalg_matrix_exp (A [.., n, n]): Taylor's series of A / 2^s, squared s times ---- */

enum { TAYLOR_TERMS = 18, MOST_SQUARINGS = 1100 };

static void multiply(const double *a, const double *b, double *c, int64_t n) {
  memset(c, 0, (size_t)(n * n) * sizeof *c);
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < n; k++)
      for (int64_t j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
}

/* `room`: two matrices. The result stands in `y`. */
static void exponential(double *a, double *y, double *spare, int64_t n) {
  double norm = 0;
  int squarings = 0;
  for (int64_t r = 0; r < n; r++) {
    double sum = 0;
    for (int64_t c = 0; c < n; c++) sum += fabs(a[r * n + c]);
    norm = fmax(norm, sum);
  }
  for (; norm > 0.5 && squarings < MOST_SQUARINGS; norm /= 2) squarings++;
  for (int64_t k = 0; k < n * n; k++) {
    a[k] = ldexp(a[k], -squarings);
    y[k] = k / n == k % n;
  }
  for (int term = TAYLOR_TERMS; term > 0; term--) { /* 1 + A / 1 (1 + A / 2 (1 + ...)) */
    multiply(a, y, spare, n);
    for (int64_t k = 0; k < n * n; k++) y[k] = spare[k] / term + (k / n == k % n);
  }
  for (int i = 0; i < squarings; i++) {
    multiply(y, y, spare, n);
    memcpy(y, spare, (size_t)(n * n) * sizeof *y);
  }
}
static td_status exp_reference(const base_call *call) {
  ops_matrices m = ops_matrices_of(base_in(call, 0));
  TRY(ops_check_square(call, &m));
  int64_t n = m.rows, size = n * n;
  const base_f64 *from = ops_dense_f64(call, 0);
  double *room = base_call_scratch(call, (size_t)size, 2 * sizeof *room),
         *all = base_call_scratch(call, (size_t)(m.count * size), sizeof *all);
  if (!from || !room || !all) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < m.count && n; i++) {
    memcpy(room, from + i * size, (size_t)size * sizeof *room);
    exponential(room, all + i * size, room + size, n);
  }
  ops_put(call, 0, TD_F64, all);
  return TD_OK;
}
static td_status infer_exp(ir_infer *ctx) {
  TRY(ops_infer_matrices(ctx, 0, true));
  return ops_infer_same(ctx);
}

/* ---- work and cases ---- */

static double sweep_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)out;
  (void)attrs;
  return ops_cubic_flops(in, 60);
}
static double exp_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)out;
  (void)attrs;
  return ops_cubic_flops(in, 3 * TAYLOR_TERMS);
}

static bool square_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16};
  static const int64_t sizes[] = {1, 5, 0, 2};
  if (number >= 4 * OPS_COUNT(dtypes)) return false;
  int64_t n = sizes[number % 4];
  return ops_case_in(c, dtypes[number / 4], OPS_DIMS(2, n, n), OPS_NORMAL, number);
}
static bool eigh_cases(ir_case *c, uint32_t number) {
  ops_case_arg(c, ARG_BOOL("upper", number % 2));
  return square_cases(c, number);
}
static bool svd_cases(ir_case *c, uint32_t number) {
  static const int64_t sizes[][2] = {{3, 3}, {5, 2}, {2, 5}, {1, 1}, {0, 3}, {4, 0}};
  if (number >= 12) return false;
  const int64_t *s = sizes[number % 6];
  ops_case_arg(c, ARG_BOOL("full_matrices", number / 6));
  return ops_case_in(c, number % 2 ? TD_F32 : TD_F64, OPS_DIMS(2, s[0], s[1]), OPS_NORMAL, number);
}

OPS_DECLARE(eigen);
const ir_op ops_eigen[] = {
    {.id = OPERATOR(aten, _linalg_eigh),
     .min_in = 1,
     .max_in = 1,
     .out_count = 2,
     .attrs = upper_attrs,
     .attr_count = OPS_COUNT(upper_attrs),
     .infer = infer_eigh,
     .reference = eigh_reference,
     .flops = sweep_flops,
     .rtol = 1e-4f},
    {.id = OPERATOR(aten, _linalg_svd),
     .min_in = 1,
     .max_in = 1,
     .out_count = 3,
     .attrs = svd_attrs,
     .attr_count = OPS_COUNT(svd_attrs),
     .infer = infer_svd,
     .reference = svd_reference,
     .flops = sweep_flops,
     .rtol = 1e-4f},
    {.id = OPERATOR(aten, linalg_matrix_exp),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .infer = infer_exp,
     .reference = exp_reference,
     .flops = exp_flops,
     .rtol = 1e-4f},
};
OPS_TABLE(eigen);
OPS_CASES(eigen) = {
    {OP_aten__linalg_eigh, eigh_cases},
    {OP_aten__linalg_svd, svd_cases},
    {OP_aten_linalg_matrix_exp, square_cases},
    {0},
};
