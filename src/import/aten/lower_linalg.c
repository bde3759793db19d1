/* lower_linalg.c -- systems of equations, determinants, eigenvalues and singular values, from a few factorisations. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <string.h>

static ir_value transpose(aten_args *c, ir_value x) { return aten_swap(c->a, x, -2, -1); }
static bool flag(aten_args *c, const char *name) {
  int64_t i = aten_position(c, name);
  return i >= 0 && aten_get_bool(c, (uint32_t)i);
}

/* All but the last `tail` dimensions of x. */
static ir_value leading(aten_args *c, ir_value x, int64_t tail) {
  return aten_slice(c->a, aten_shape(c->a, x), 0, 0, -tail, 1);
}
/* The unit matrices of x's rows, as many as there are matrices. */
static ir_value unit_like(aten_args *c, ir_value x) {
  aten_value rows = aten_size(c->a, x, -2);
  ir_value size = aten_vector(c->a, &rows, 1), shape = aten_cat(c->a, (ir_value[]){size, size}, 2, 0);
  ir_value eye = IR_EMIT(c->b, "td::eye_like", aten_full(c->a, shape, aten_scalar_like(c->a, x, 0)));
  return aten_expand(c->a, eye, aten_cat(c->a, (ir_value[]){leading(c, x, 2), shape}, 2, 0));
}
/* Two operands' matrices broadcast to one count; vectors are none. */
static void meet(aten_args *c, ir_value *x, ir_value *y) {
  ir_value zero = ir_build_scalar(c->b, TD_BOOL, 0);
  ir_value some = aten_binary(c->a, "aten::logical_or", aten_full(c->a, leading(c, *x, 2), zero),
                              aten_full(c->a, leading(c, *y, 2), zero));
  ir_value lead = aten_shape(c->a, some), *v[] = {x, y};
  for (uint32_t i = 0; i < 2; i++) {
    ir_value tail = aten_slice(c->a, aten_shape(c->a, *v[i]), 0, -2, INT64_MAX, 1);
    *v[i] = aten_expand(c->a, *v[i], aten_cat(c->a, (ir_value[]){lead, tail}, 2, 0));
  }
}
static ir_value solve_triangular(aten_args *c, ir_value a, ir_value b, bool upper, bool unit) {
  if (ir_build_failed(c->b)) return IR_NO_VALUE;
  meet(c, &a, &b);
  return IR_EMIT_ARGS(c->b, "aten::linalg_solve_triangular", ((ir_value[]){a, b}), 2, ARG_BOOL("upper", upper),
                      ARG_BOOL("unitriangular", unit));
}
/* X with X A = B where it stands on the left side of A: the same of what is transposed. */
static ir_value solve_right(aten_args *c, ir_value a, ir_value b, bool upper, bool unit) {
  return transpose(c, solve_triangular(c, transpose(c, a), transpose(c, b), !upper, unit));
}

/* ---- L U ---- */

typedef struct lu {
  ir_value factors, pivots, info;
} lu;

static lu factor(aten_args *c, ir_value a) {
  ir_value out[3];
  ir_emit_many(c->b, "aten::linalg_lu_factor_ex", &a, 1, NULL, 0, out, 3);
  return (lu){out[0], out[1], out[2]};
}
/* Which row of A each row of L U is. */
static ir_value pivot_rows(aten_args *c, ir_value pivots, ir_value factors) {
  aten_value rows = aten_size(c->a, factors, -2);
  return IR_EMIT(c->b, "td::pivot_rows", pivots, aten_vector(c->a, &rows, 1));
}
/* P as a matrix: 1 where row r of A is row k of L U. */
static ir_value permutation(aten_args *c, ir_value pivots, ir_value factors) {
  aten_value rows = aten_size(c->a, factors, -2);
  ir_value at = IR_EMIT(c->b, "aten::arange", ir_build_int(c->b, 0), aten_number_value(c->a, &rows, TD_I64),
                        ir_build_int(c->b, 1));
  ir_value same = aten_binary(c->a, "aten::eq", aten_unsqueeze(c->a, at, -1),
                              aten_unsqueeze(c->a, pivot_rows(c, pivots, factors), -2));
  return ir_build_cast(c->b, same, aten_value_dtype(c->a, factors));
}
/* A X = B, or A^T X = B. */
static ir_value lu_solve(aten_args *c, const lu *f, ir_value b, bool transposed) {
  ir_value p = permutation(c, f->pivots, f->factors);
  if (transposed) { /* A^T = U^T L^T P^T */
    ir_value t = transpose(c, f->factors), y = solve_triangular(c, t, b, false, false);
    return IR_EMIT(c->b, "aten::matmul", p, solve_triangular(c, t, y, true, true));
  }
  ir_value y = solve_triangular(c, f->factors, IR_EMIT(c->b, "aten::matmul", transpose(c, p), b), false, true);
  return solve_triangular(c, f->factors, y, true, false);
}
static ir_value lu_solve_side(aten_args *c, const lu *f, ir_value b, bool left, bool transposed) {
  return left ? lu_solve(c, f, b, transposed) : transpose(c, lu_solve(c, f, transpose(c, b), !transposed));
}

/* The run ends where an operand of `info` is not 0 and the program asks for that. */
static void check_info(aten_args *c, ir_value info, const char *what) {
  ir_value bad = aten_with_scalar(c->a, "aten::ne", info, 0), flat = aten_reshape(c->a, bad, (int64_t[]){-1}, 1);
  ir_value any = IR_EMIT_ARGS(c->b, "aten::any", &flat, 1, ARG_BOOL("keepdim", 0));
  IR_EMIT_ARGS(c->b, "td::refuse", &any, 1, ARG_STR("message", what));
}
static const char *const no_solution = "a matrix is singular, not positive definite, or its iteration does not end";
aten_value aten_lower_linalg_check(aten_args *c) {
  check_info(c, aten_in(c, 0), no_solution);
  return ATEN_NOTHING;
}
static aten_value checked(aten_args *c, const ir_value *v, uint32_t count) {
  if (flag(c, "check_errors")) check_info(c, v[count - 1], no_solution);
  return aten_ret_many(c, v, count);
}

aten_value aten_lower_lu_factor(aten_args *c) { /* data: without info, which is looked at */
  if (!flag(c, "pivot")) aten_refuse(c, "factors without pivots");
  lu f = factor(c, aten_in(c, 0));
  if (!c->row->data) return checked(c, (ir_value[]){f.factors, f.pivots, f.info}, 3);
  check_info(c, f.info, no_solution);
  return aten_ret_many(c, (ir_value[]){f.factors, f.pivots}, 2);
}

static aten_value unpack(aten_args *c, const lu *f) {
  ir_value below = IR_EMIT(c->b, "aten::tril", f->factors), above = IR_EMIT(c->b, "aten::triu", f->factors);
  aten_value least = aten_size(c->a, f->pivots, -1), zero = aten_int(0);
  ir_value none = aten_vector(c->a, &zero, 1), end = aten_vector(c->a, &least, 1);
  int32_t rank = aten_rank(c->a, f->factors);
  ir_value last = ir_build_ints(c->b, (int64_t[]){rank - 1}, 1), before = ir_build_ints(c->b, (int64_t[]){rank - 2}, 1);
  below = IR_EMIT(c->b, "aten::slice", below, none, end, last);
  above = IR_EMIT(c->b, "aten::slice", above, none, end, before);
  /* ones on the diagonal of L */
  ir_value eye = IR_EMIT(c->b, "td::eye_like",
                         aten_full(c->a, aten_slice(c->a, aten_shape(c->a, below), 0, -2, INT64_MAX, 1),
                                   aten_scalar_like(c->a, below, 0)));
  below = IR_EMIT(c->b, "aten::where", ir_build_cast(c->b, eye, TD_BOOL), eye, below);
  return aten_ret_many(c, (ir_value[]){permutation(c, f->pivots, f->factors), below, above}, 3);
}
aten_value aten_lower_linalg_lu(aten_args *c) {
  if (!flag(c, "pivot")) aten_refuse(c, "factors without pivots");
  lu f = factor(c, aten_in(c, 0));
  return unpack(c, &f);
}
aten_value aten_lower_lu_unpack(aten_args *c) {
  lu f = {aten_in(c, 0), aten_in(c, 1), IR_NO_VALUE};
  return unpack(c, &f);
}
/* linalg_lu_solve(LU, pivots, B, *, left, adjoint); lu_solve(self, LU, pivots) */
aten_value aten_lower_lu_solve(aten_args *c) {
  bool old = c->row->data != NULL;
  lu f = {aten_in(c, old ? 1 : 0), aten_in(c, old ? 2 : 1), IR_NO_VALUE};
  return aten_ret(c, lu_solve_side(c, &f, aten_in(c, old ? 0 : 2), old || flag(c, "left"), flag(c, "adjoint")));
}

/* B is one vector per matrix: of rank 1, or of one rank less than A with A's leading dimensions. */
static bool is_vector(aten_args *c, ir_value a, ir_value b) {
  const ir_type *x = ir_build_type(c->b, a), *y = ir_build_type(c->b, b);
  if (y->rank == 1) return true;
  if (y->rank != x->rank - 1) return false;
  for (int32_t i = 0; i < y->rank; i++)
    if (x->dims[i] != y->dims[i]) return false;
  return true;
}
/* linalg_solve, linalg_solve_ex, _linalg_solve_ex (A, B, *, left, check_errors); data: how many results */
aten_value aten_lower_linalg_solve(aten_args *c) {
  ir_value a = aten_in(c, 0), b = aten_in(c, 1);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  bool vector = is_vector(c, a, b);
  lu f = factor(c, a);
  ir_value x = lu_solve_side(c, &f, vector ? aten_unsqueeze(c->a, b, -1) : b, vector || flag(c, "left"), false);
  if (vector) x = aten_squeeze(c->a, x, -1);
  if (c->row->data[0] == '4') return checked(c, (ir_value[]){x, f.factors, f.pivots, f.info}, 4);
  if (c->row->data[0] == '2') return checked(c, (ir_value[]){x, f.info}, 2);
  check_info(c, f.info, no_solution);
  return aten_ret(c, x);
}
aten_value aten_lower_linalg_inv_ex(aten_args *c) {
  ir_value a = aten_in(c, 0);
  lu f = factor(c, a);
  return checked(c, (ir_value[]){lu_solve(c, &f, unit_like(c, a), false), f.info}, 2);
}

/* The diagonal of square matrices, as vectors. */
static ir_value diagonal(aten_args *c, ir_value x) {
  ir_value zero = aten_scalar_like(c->a, x, 0), eye = ir_build_cast(c->b, unit_like(c, x), TD_BOOL);
  x = IR_EMIT(c->b, "aten::where", eye, x, zero);
  return IR_EMIT_ARGS(c->b, "aten::sum", &x, 1, ARG_INTS("dim", (int64_t[]){-1}, 1), ARG_BOOL("keepdim", 0));
}
static ir_value reduce_last(aten_args *c, const char *op, ir_value x) {
  return IR_EMIT_ARGS(c->b, op, &x, 1, ARG_INTS("dim", (int64_t[]){-1}, 1), ARG_BOOL("keepdim", 0));
}
/* -1 for an odd number of exchanges, else 1. */
static ir_value parity(aten_args *c, const lu *f) {
  aten_value n = aten_size(c->a, f->pivots, -1);
  ir_value at =
      IR_EMIT(c->b, "aten::arange", ir_build_int(c->b, 1),
              aten_with_scalar(c->a, "aten::add", aten_number_value(c->a, &n, TD_I64), 1), ir_build_int(c->b, 1));
  ir_value moved = aten_binary(c->a, "aten::ne", ir_build_cast(c->b, f->pivots, TD_I64), at);
  ir_value sign = IR_EMIT(c->b, "aten::where", moved, aten_scalar_like(c->a, f->factors, -1),
                          aten_scalar_like(c->a, f->factors, 1));
  return reduce_last(c, "aten::prod", sign);
}
/* _linalg_det(A) -> det, LU, pivots; data "log": sign, log|det|, LU, pivots; "s": these two; "l": logdet */
aten_value aten_lower_determinant(aten_args *c) {
  lu f = factor(c, aten_in(c, 0));
  ir_value d = diagonal(c, f.factors), sign = parity(c, &f);
  if (!c->row->data) {
    ir_value det = aten_binary(c->a, "aten::mul", sign, reduce_last(c, "aten::prod", d));
    return aten_ret_many(c, (ir_value[]){det, f.factors, f.pivots}, 3);
  }
  sign = aten_binary(c->a, "aten::mul", sign, reduce_last(c, "aten::prod", IR_EMIT(c->b, "aten::sign", d)));
  ir_value log = reduce_last(c, "aten::sum", IR_EMIT(c->b, "aten::log", IR_EMIT(c->b, "aten::abs", d)));
  if (strcmp(c->row->data, "log") == 0) return aten_ret_many(c, (ir_value[]){sign, log, f.factors, f.pivots}, 4);
  if (c->row->data[0] == 's') return aten_ret_many(c, (ir_value[]){sign, log}, 2);
  ir_value below = aten_with_scalar(c->a, "aten::lt", sign, 0);
  return aten_ret(c, IR_EMIT(c->b, "aten::where", below, aten_scalar_like(c->a, log, NAN), log));
}

/* ---- Cholesky ---- */

/* linalg_cholesky_ex(self, *, upper, check_errors); data: L alone, which there must be */
aten_value aten_lower_linalg_cholesky(aten_args *c) {
  ir_value a = aten_in(c, 0), out[2];
  base_arg arg = ARG_BOOL("upper", flag(c, "upper"));
  ir_emit_many(c->b, "aten::linalg_cholesky_ex", &a, 1, &arg, 1, out, 2);
  if (!c->row->data) return checked(c, out, 2);
  check_info(c, out[1], no_solution);
  return aten_ret(c, out[0]);
}
/* A X = B with A = L L^T, or U^T U */
static ir_value cholesky_solve(aten_args *c, ir_value factor, ir_value b, bool upper) {
  ir_value first = upper ? transpose(c, factor) : factor, second = upper ? factor : transpose(c, factor);
  return solve_triangular(c, second, solve_triangular(c, first, b, false, false), true, false);
}
aten_value aten_lower_cholesky_solve(aten_args *c) {
  return aten_ret(c, cholesky_solve(c, aten_in(c, 1), aten_in(c, 0), flag(c, "upper")));
}
aten_value aten_lower_cholesky_inverse(aten_args *c) {
  ir_value x = aten_in(c, 0);
  return aten_ret(c, cholesky_solve(c, x, unit_like(c, x), flag(c, "upper")));
}

/* ---- triangles ---- */

aten_value aten_lower_solve_triangular(aten_args *c) {
  ir_value a = aten_in(c, 0), b = aten_in(c, 1);
  bool upper = flag(c, "upper"), unit = flag(c, "unitriangular");
  return aten_ret(c, flag(c, "left") ? solve_triangular(c, a, b, upper, unit) : solve_right(c, a, b, upper, unit));
}
/* triangular_solve(self, A, upper, transpose, unitriangular) -> X, A */
aten_value aten_lower_triangular_solve(aten_args *c) {
  ir_value b = aten_in(c, 0), a = aten_in(c, 1);
  bool upper = flag(c, "upper"), of_transposed = flag(c, "transpose");
  ir_value x =
      solve_triangular(c, of_transposed ? transpose(c, a) : a, b, upper != of_transposed, flag(c, "unitriangular"));
  return aten_ret_many(c, (ir_value[]){x, a}, 2);
}

/* ---- reflections ---- */

static void reflections(aten_args *c, ir_value a, ir_value *out) {
  ir_emit_many(c->b, "aten::geqrf", &a, 1, NULL, 0, out, 2);
}
aten_value aten_lower_geqrf(aten_args *c) {
  ir_value out[2];
  reflections(c, aten_in(c, 0), out);
  return aten_ret_many(c, out, 2);
}
/* The first `end` of dimension -1 (or -2) of x, filled up with zeros where there are fewer. */
static ir_value sized(aten_args *c, ir_value x, int64_t dim, aten_value end) {
  aten_value zero = aten_int(0), size = aten_size(c->a, x, dim), more = aten_int_op(c->a, "sub", end, size);
  int64_t axis = aten_rank(c->a, x) + dim;
  ir_value on = ir_build_ints(c->b, &axis, 1), none = aten_vector(c->a, &zero, 1);
  x = IR_EMIT(c->b, "aten::slice", x, none, aten_vector(c->a, &end, 1), on);
  ir_value pad = aten_binary(c->a, "aten::maximum", aten_vector(c->a, &more, 1), none);
  return IR_EMIT(c->b, "aten::constant_pad_nd", x, aten_cat(c->a, (ir_value[]){none, pad}, 2, 0),
                 aten_scalar_like(c->a, x, 0), on);
}
static ir_value product_of(aten_args *c, ir_value reflection, ir_value factors) {
  return IR_EMIT(c->b, "aten::linalg_householder_product", reflection, factors);
}
aten_value aten_lower_householder_product(aten_args *c) {
  return aten_ret(c, product_of(c, aten_in(c, 0), aten_in(c, 1)));
}
/* linalg_qr(A, mode) */
aten_value aten_lower_linalg_qr(aten_args *c) {
  ir_value a = aten_in(c, 0), out[2];
  const char *mode = aten_get_str(c, 1);
  reflections(c, a, out);
  bool complete = strcmp(mode, "complete") == 0;
  aten_value rows = aten_size(c->a, a, -2), kept = complete ? rows : aten_size(c->a, out[1], -1);
  ir_value r = IR_EMIT(c->b, "aten::triu", out[0]), q;
  if (!complete) r = sized(c, r, -2, kept);
  if (strcmp(mode, "r") == 0) q = aten_full(c->a, ir_build_ints(c->b, (int64_t[]){0}, 1), aten_scalar_like(c->a, a, 0));
  else q = product_of(c, sized(c, out[0], -1, kept), out[1]);
  return aten_ret_many(c, (ir_value[]){q, r}, 2);
}
/* ormqr(self, factors, other, left, transpose): the whole Q times other */
aten_value aten_lower_ormqr(aten_args *c) {
  ir_value a = aten_in(c, 0), other = aten_in(c, 2);
  ir_value q = product_of(c, sized(c, a, -1, aten_size(c->a, a, -2)), aten_in(c, 1));
  if (flag(c, "transpose")) q = transpose(c, q);
  return aten_ret(c,
                  flag(c, "left") ? IR_EMIT(c->b, "aten::matmul", q, other) : IR_EMIT(c->b, "aten::matmul", other, q));
}

/* ---- eigenvalues and singular values ---- */

/* data: how many results */
aten_value aten_lower_linalg_eigh(aten_args *c) {
  ir_value a = aten_in(c, 0), out[2];
  const char *triangle = aten_get_str(c, 1);
  base_arg arg = ARG_BOOL("upper", triangle[0] == 'U' || triangle[0] == 'u');
  ir_emit_many(c->b, "aten::_linalg_eigh", &a, 1, &arg, 1, out, 2);
  return c->row->data[0] == '1' ? aten_ret(c, out[0]) : aten_ret_many(c, out, 2);
}
/* linalg_svd, _linalg_svd, svd (V instead of its transposed, `some` instead of `full_matrices`), svdvals ("1") */
aten_value aten_lower_linalg_svd(aten_args *c) {
  ir_value a = aten_in(c, 0), out[3];
  bool old = c->row->data[0] == 'v', one = c->row->data[0] == '1',
       full = old ? !flag(c, "some") : flag(c, "full_matrices"), vectors = true;
  if (aten_position(c, "compute_uv") >= 0) vectors = flag(c, "compute_uv");
  base_arg arg = ARG_BOOL("full_matrices", full && vectors);
  ir_emit_many(c->b, "aten::_linalg_svd", &a, 1, &arg, 1, out, 3);
  if (one) return aten_ret(c, out[1]);
  if (old) out[2] = transpose(c, out[2]);
  ir_value none =
      vectors ? IR_NO_VALUE : aten_full(c->a, ir_build_ints(c->b, (int64_t[]){0}, 1), aten_scalar_like(c->a, a, 0));
  for (uint32_t i = 0; i < 3 && !vectors; i += 2) out[i] = none;
  return aten_ret_many(c, out, 3);
}

/* Tolerance of singular values: a number, a tensor of one per matrix, or (None) `fallback`. */
static ir_value tolerance(aten_args *c, const char *name, ir_value like, double fallback) {
  int64_t i = aten_position(c, name);
  if (i < 0 || !aten_has(c, (uint32_t)i)) return aten_scalar_like(c->a, like, fallback);
  ir_value t = aten_as(c->a, &c->args[i], aten_value_dtype(c->a, like));
  return aten_rank(c->a, t) ? aten_unsqueeze(c->a, t, -1) : t;
}
/* The pseudoinverse (self, atol and rtol or rcond, hermitian): V S^-1 U^T over the singular values above max(atol, rtol
 * times the largest one). */
aten_value aten_lower_linalg_pinv(aten_args *c) {
  ir_value a = aten_in(c, 0), out[3];
  base_arg none = ARG_BOOL("full_matrices", 0);
  if (flag(c, "hermitian") && !aten_is_empty(c->a, a)) /* what stands above the diagonal is not looked at */
    a = aten_binary(c->a, "aten::add", IR_EMIT(c->b, "aten::tril", a),
                    transpose(c, IR_EMIT(c->b, "aten::tril", a, ir_build_ints(c->b, (int64_t[]){-1}, 1))));
  ir_emit_many(c->b, "aten::_linalg_svd", &a, 1, &none, 1, out, 3);
  const ir_type *type = ir_build_type(c->b, a);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  base_dim rows = type->dims[type->rank - 2], columns = type->dims[type->rank - 1];
  if (!base_dim_known(rows) || !base_dim_known(columns)) aten_refuse(c, "a matrix of open size");
  bool has_atol = aten_position(c, "atol") >= 0 && aten_has(c, (uint32_t)aten_position(c, "atol"));
  double step = type->dtype == TD_F64 ? 0x1p-52 : 0x1p-23,
         rtol = has_atol ? 0 : step * (double)(rows > columns ? rows : columns);
  ir_value relative = tolerance(c, aten_position(c, "rcond") >= 0 ? "rcond" : "rtol", out[1], rtol);
  if (rows == 0 || columns == 0) return aten_ret(c, transpose(c, a));
  ir_value least = aten_binary(c->a, "aten::mul", relative, aten_slice(c->a, out[1], -1, 0, 1, 1));
  least = aten_binary(c->a, "aten::maximum", least, tolerance(c, "atol", out[1], 0));
  ir_value kept = aten_binary(c->a, "aten::gt", out[1], least);
  ir_value by =
      IR_EMIT(c->b, "aten::where", kept, IR_EMIT(c->b, "aten::reciprocal", out[1]), aten_scalar_like(c->a, a, 0));
  ir_value v = aten_binary(c->a, "aten::mul", transpose(c, out[2]), aten_unsqueeze(c->a, by, -2));
  return aten_ret(c, IR_EMIT(c->b, "aten::matmul", v, transpose(c, out[0])));
}
