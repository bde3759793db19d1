/* lower_composite.c -- PyTorch's operators that are said in other calls of it: these promote, broadcast and take views
 * as they do when a program calls them. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <string.h>

#define CALL ATEN_CALL
static const aten_value none = {.kind = ATEN_NONE};

static aten_value list_of(aten_args *c, const int64_t *ints, uint32_t count) {
  aten_value list = aten_list_of(c->a, NULL, 0);
  for (uint32_t i = 0; i < count; i++) aten_list_append(c->a, list.u.list, aten_int(ints[i]));
  return list;
}
static int32_t rank_of(aten_args *c, const aten_value *v) {
  return ir_build_failed(c->b) ? 0 : aten_rank(c->a, aten_read(c->a, v));
}
static aten_value size_of(aten_args *c, const aten_value *v, int64_t dim) {
  return ir_build_failed(c->b) ? aten_int(0) : aten_size(c->a, aten_read(c->a, v), dim);
}
static aten_value keyword(aten_args *c, const char *name) {
  const int64_t i = aten_position(c, name);
  return i < 0 ? none : c->args[i];
}

/* self * 2^other; of a whole `other`, in self's type */
aten_value aten_lower_ldexp(aten_args *c) {
  aten_value other = c->args[1];
  const td_dtype d = aten_is_complex(&c->args[0]) ? TD_INVALID : aten_dtype_in(c, 0);
  if (base_is_float(d) && base_is_int(aten_dtype_in(c, 1))) other = aten_ret(c, ir_build_cast(c->b, aten_in(c, 1), d));
  return CALL(c, "aten::mul", c->args[0], CALL(c, "aten::pow", aten_float(2), other));
}

/* (y, x | dx, dim), and cumulative_trapezoid (data): means of neighbours times the steps between them, summed */
aten_value aten_lower_trapezoid(aten_args *c) {
  const aten_value y = c->args[0];
  aten_value step = c->args[1], dim = c->args[2];
  const int32_t rank = rank_of(c, &y);
  const int64_t axis = ir_build_axis(c->b, aten_get_int(c, 2), rank) - rank;
  const aten_value size = size_of(c, &y, axis);
  if (aten_is_known(&size) && size.u.i == 0 && !c->row->data) return CALL(c, "aten::sum", y, list_of(c, &axis, 1));
  if (step.kind == ATEN_TENSOR && !ir_build_failed(c->b)) {
    const bool line = rank_of(c, &step) == 1;
    step = CALL(c, "aten::diff", step, aten_int(1), aten_int(line ? -1 : axis));
    for (int64_t i = -1; line && i > axis && !ir_build_failed(c->b); i--)
      step = CALL(c, "aten::unsqueeze", step, aten_int(-1));
  }
  aten_value left = CALL(c, "aten::slice", y, dim, aten_int(0), aten_int(-1), aten_int(1)),
             right = CALL(c, "aten::slice", y, dim, aten_int(1), aten_int(INT64_MAX), aten_int(1));
  aten_value area = CALL(c, "aten::mul", CALL(c, "aten::add", left, right), step);
  aten_value sum = c->row->data ? CALL(c, "aten::cumsum", area, dim) : CALL(c, "aten::sum", area, list_of(c, &axis, 1));
  return CALL(c, "aten::div", sum, aten_int(2));
}

/* Matrices (vectors are rows) along the diagonal of one. */
aten_value aten_lower_block_diag(aten_args *c) {
  const uint32_t count = aten_list_count(c, 0);
  const aten_value *items = aten_items(c, 0);
  aten_mix mix = {0};
  for (uint32_t i = 0; i < count && !ir_build_failed(c->b); i++) aten_mix_value(c->a, &mix, &items[i]);
  const td_dtype d = aten_mix_result(&mix);
  aten_value rows = aten_list_of(c->a, NULL, 0), all = aten_int(0), before = aten_int(0);
  aten_value *blocks = aten_alloc(c->a, ((size_t)count + 1) * sizeof *blocks);
  for (uint32_t i = 0; blocks && i < count && !ir_build_failed(c->b); i++) {
    blocks[i] = aten_is_complex(&items[i]) ? items[i] : aten_fresh(c->a, aten_as(c->a, &items[i], d), ATEN_DENSE);
    if (rank_of(c, &blocks[i]) != 2) blocks[i] = CALL(c, "aten::reshape", blocks[i], list_of(c, (int64_t[]){1, -1}, 2));
    all = aten_int_op(c->a, "add", all, size_of(c, &blocks[i], 1));
  }
  for (uint32_t i = 0; blocks && i < count && !ir_build_failed(c->b); i++) {
    const aten_value own = size_of(c, &blocks[i], 1), end = aten_int_op(c->a, "add", before, own);
    const aten_value pads[] = {before, aten_int_op(c->a, "sub", all, end)};
    aten_list_append(c->a, rows.u.list,
                     CALL(c, "aten::constant_pad_nd", blocks[i], aten_list_of(c->a, pads, 2), aten_int(0)));
    before = end;
  }
  return CALL(c, "aten::cat", rows, aten_int(0));
}

/* Every choice of one element of each vector, a row each. */
aten_value aten_lower_cartesian_prod(aten_args *c) {
  aten_value grids = CALL(c, "aten::meshgrid", c->args[0]), columns = aten_list_of(c->a, NULL, 0);
  if (ir_build_failed(c->b)) return none;
  if (grids.u.list->items.count == 1) return grids.u.list->items.at[0];
  for (uint32_t i = 0; i < grids.u.list->items.count && !ir_build_failed(c->b); i++)
    aten_list_append(c->a, columns.u.list,
                     CALL(c, "aten::reshape", grids.u.list->items.at[i], list_of(c, (int64_t[]){-1}, 1)));
  return CALL(c, "aten::stack", columns, aten_int(-1));
}

aten_value aten_lower_diagflat(aten_args *c) {
  return CALL(c, "aten::diag_embed", CALL(c, "aten::reshape", c->args[0], list_of(c, (int64_t[]){-1}, 1)), c->args[1]);
}
/* vecdot(x, y, dim) */
aten_value aten_lower_vecdot(aten_args *c) {
  aten_value x = aten_is_complex(&c->args[0]) ? CALL(c, "aten::conj", c->args[0]) : c->args[0];
  const int64_t dim = aten_get_int(c, 2);
  return CALL(c, "aten::sum", CALL(c, "aten::mul", x, c->args[1]), list_of(c, &dim, 1));
}
/* vander(x, N): powers 0 to N - 1 */
aten_value aten_lower_vander(aten_args *c) {
  const int64_t line = -1;
  const aten_value x = rank_of(c, &c->args[0]) ? c->args[0]
                                               : CALL(c, "aten::reshape", c->args[0], list_of(c, &line, 1)),
                   n = aten_has(c, 1) ? c->args[1] : size_of(c, &x, -1);
  return CALL(c, "aten::pow", CALL(c, "aten::unsqueeze", x, aten_int(-1)), CALL(c, "aten::arange", n));
}
/* renorm(self, p, dim, maxnorm): what stands at one index of dim is shrunk to that norm */
aten_value aten_lower_renorm(aten_args *c) {
  const aten_value x = c->args[0];
  const int32_t rank = rank_of(c, &x);
  const int64_t dim = ir_build_axis(c->b, aten_get_int(c, 2), rank);
  int64_t others[BASE_MAX_RANK];
  uint32_t count = 0;
  for (int32_t i = 0; i < rank; i++)
    if (i != dim) others[count++] = i;
  if (ir_build_failed(c->b)) return none;
  aten_value size = CALL(c, "aten::linalg_vector_norm", x, c->args[1], list_of(c, others, count), aten_bool(true));
  aten_value factor =
      CALL(c, "aten::mul", CALL(c, "aten::reciprocal", CALL(c, "aten::add", size, aten_float(1e-7))), c->args[3]);
  aten_value large = CALL(c, "aten::gt", size, c->args[3]);
  return CALL(c, "aten::mul", x, CALL(c, "aten::where", large, factor, CALL(c, "aten::ones_like", factor)));
}
/* sum_to_size(self, size): what was broadcast to get self's sizes is summed */
aten_value aten_lower_sum_to_size(aten_args *c) {
  uint32_t count;
  const int64_t *size = aten_get_ints(c, 1, &count);
  const int32_t rank = aten_rank_in(c, 0);
  int64_t sums[BASE_MAX_RANK];
  uint32_t summed = 0;
  if (ir_build_failed(c->b)) return none;
  if (count > (uint32_t)rank) aten_refuse(c, "%u sizes for a tensor of rank %d", count, rank);
  for (int32_t i = 0; i < rank && count <= (uint32_t)rank; i++)
    if (i < rank - (int32_t)count || size[i - (rank - (int32_t)count)] == 1) sums[summed++] = i;
  aten_value y = summed ? CALL(c, "aten::sum", c->args[0], list_of(c, sums, summed), aten_bool(true)) : c->args[0];
  return CALL(c, "aten::reshape", y, c->args[1]);
}

/* ---- norms of matrices ---- */

/* Greatest (or least, where `least`) singular value, or the sum of all, of the matrices along two axes. */
static aten_value singular(aten_args *c, aten_value x, const int64_t *dims, const char *how, bool keep) {
  const int64_t last[] = {-2, -1}, one = -1;
  aten_value moved = CALL(c, "aten::movedim", x, list_of(c, dims, 2), list_of(c, last, 2));
  aten_value s = CALL(c, "aten::linalg_svdvals", moved);
  s = CALL(c, how, s, list_of(c, &one, 1), aten_bool(false));
  const int32_t rank = rank_of(c, &x);
  const int64_t a = ir_build_axis(c->b, dims[0], rank), b = ir_build_axis(c->b, dims[1], rank);
  if (!keep || ir_build_failed(c->b)) return s;
  s = CALL(c, "aten::unsqueeze", s, aten_int(base_min_i64(a, b)));
  return CALL(c, "aten::unsqueeze", s, aten_int(base_max_i64(a, b)));
}

/* linalg_matrix_norm(self, ord, dim, keepdim, dtype): ord is 1, 2, inf, these negated, "fro" or "nuc" */
aten_value aten_lower_matrix_norm(aten_args *c) {
  const aten_value ord = c->args[1], keep = c->args[3];
  const bool named = ord.kind == ATEN_STR;
  const char *name = named ? aten_get_str(c, 1) : "";
  const double p = named ? 0 : aten_get_float(c, 1);
  uint32_t count;
  const int64_t *dims = aten_get_ints(c, 2, &count);
  aten_value x = aten_has(c, 4) ? CALL(c, "aten::to", c->args[0], c->args[4]) : c->args[0];
  if (count != 2 && !ir_build_failed(c->b)) aten_refuse(c, "%u axes", count);
  if (ir_build_failed(c->b)) return none;
  if (strcmp(name, "fro") == 0) return CALL(c, "aten::linalg_vector_norm", x, aten_int(2), c->args[2], keep);
  if (strcmp(name, "nuc") == 0) return singular(c, x, dims, "aten::sum", aten_get_bool(c, 3));
  const char *most = p > 0 ? "aten::amax" : "aten::amin";
  if (p == 2 || p == -2) return singular(c, x, dims, most, aten_get_bool(c, 3));
  if (fabs(p) != 1 && !isinf(p)) {
    aten_refuse(c, "this order");
    return none;
  }
  const int32_t rank = rank_of(c, &x);
  const bool by_rows = fabs(p) != 1;
  const int64_t in = ir_build_axis(c->b, dims[by_rows], rank), out = ir_build_axis(c->b, dims[!by_rows], rank);
  aten_value sums = CALL(c, "aten::sum", CALL(c, "aten::abs", x), list_of(c, &in, 1), aten_bool(true));
  aten_value y = CALL(c, most, sums, list_of(c, &out, 1), aten_bool(true));
  if (aten_get_bool(c, 3)) return y;
  y = CALL(c, "aten::squeeze", y, aten_int(base_max_i64(in, out)));
  return CALL(c, "aten::squeeze", y, aten_int(base_min_i64(in, out)));
}

/* linalg_norm(self, ord?, dim?, keepdim, dtype): of matrices where an order and two axes are given */
aten_value aten_lower_linalg_norm(aten_args *c) {
  const int64_t last[] = {-2, -1};
  const bool matrix = aten_has(c, 2) ? aten_list_count(c, 2) == 2 : aten_rank_in(c, 0) == 2;
  if (!aten_has(c, 1) || !matrix) return aten_lower_norm(c);
  const aten_keyword dtype = {BASE_STR("dtype"), c->args[4]};
  const aten_value args[] = {c->args[0], c->args[1], aten_has(c, 2) ? c->args[2] : list_of(c, last, 2), c->args[3]};
  return aten_call(c->a, "aten::linalg_matrix_norm", NULL, args, 4, &dtype, 1);
}

/* linalg_cond(self, p?) */
aten_value aten_lower_cond(aten_args *c) {
  const aten_value x = c->args[0], p = aten_has(c, 1) ? c->args[1] : aten_int(2);
  const double order = p.kind == ATEN_INT ? (double)p.u.i : p.kind == ATEN_FLOAT ? p.u.f : 0;
  const int64_t last[] = {-2, -1};
  if (aten_is_empty(c->a, aten_in(c, 0))) return CALL(c, "aten::sum", x, list_of(c, last, 2)); /* 0 */
  if (order == 2 || order == -2) {
    aten_value most = singular(c, x, last, "aten::amax", false), least = singular(c, x, last, "aten::amin", false);
    return order > 0 ? CALL(c, "aten::div", most, least) : CALL(c, "aten::div", least, most);
  }
  aten_value axes = list_of(c, last, 2), inverse = CALL(c, "aten::linalg_inv", x);
  return CALL(c, "aten::mul", CALL(c, "aten::linalg_matrix_norm", x, p, axes),
              CALL(c, "aten::linalg_matrix_norm", inverse, p, axes));
}

/* linalg_matrix_rank(self, tol | atol, rtol, hermitian): singular values above the larger of atol and rtol times the
 * greatest; rtol by default the type's epsilon times the larger size, or 0 where another bound is given */
aten_value aten_lower_matrix_rank(aten_args *c) {
  const aten_value x = c->args[0], tol = keyword(c, "tol");
  aten_value atol = tol.kind == ATEN_NONE ? keyword(c, "atol") : tol, rtol = keyword(c, "rtol");
  const aten_value hermitian = keyword(c, "hermitian");
  const int64_t last = -1;
  const bool single = aten_dtype_in(c, 0) != TD_F64, empty = aten_is_empty(c->a, aten_in(c, 0)); /* of any sizes */
  aten_value s = hermitian.u.b && !empty ? CALL(c, "aten::abs", CALL(c, "aten::linalg_eigvalsh", x))
                                         : CALL(c, "aten::linalg_svdvals", x);
  if (rtol.kind == ATEN_NONE && atol.kind == ATEN_NONE) {
    const aten_value rows = size_of(c, &x, -2), columns = size_of(c, &x, -1);
    if (rows.graph.id || columns.graph.id) aten_refuse(c, "of sizes that are not known");
    rtol = aten_float((single ? 0x1p-23 : 0x1p-52) * (double)base_max_i64(rows.u.i, columns.u.i));
  }
  aten_value bound = CALL(c, "aten::mul", CALL(c, "aten::amax", s, list_of(c, &last, 1), aten_bool(true)),
                          rtol.kind == ATEN_NONE ? aten_float(0) : rtol);
  if (rtol.kind == ATEN_TENSOR && rank_of(c, &rtol))
    bound = CALL(c, "aten::unsqueeze", CALL(c, "aten::mul", CALL(c, "aten::amax", s, list_of(c, &last, 1)), rtol),
                 aten_int(-1));
  if (atol.kind == ATEN_TENSOR && rank_of(c, &atol)) atol = CALL(c, "aten::unsqueeze", atol, aten_int(-1));
  if (atol.kind == ATEN_TENSOR) bound = CALL(c, "aten::maximum", bound, atol);
  else if (atol.kind != ATEN_NONE) bound = CALL(c, "aten::clamp", bound, atol);
  return CALL(c, "aten::sum", CALL(c, "aten::gt", s, bound), list_of(c, &last, 1));
}

static aten_value transpose(aten_args *c, aten_value v) {
  return CALL(c, "aten::transpose", v, aten_int(-2), aten_int(-1));
}
/* V diag(s) V^T */
static aten_value around(aten_args *c, aten_value v, aten_value s) {
  return CALL(c, "aten::matmul", CALL(c, "aten::mul", v, CALL(c, "aten::unsqueeze", s, aten_int(-2))), transpose(c, v));
}
/* linalg_polar(A): U H with U = W V^T and H = V S V^T of A = W S V^T */
aten_value aten_lower_linalg_polar(aten_args *c) {
  const aten_value svd = CALL(c, "aten::linalg_svd", c->args[0], aten_bool(false));
  if (ir_build_failed(c->b)) return none;
  const aten_value *part = svd.u.list->items.at;
  const aten_value both[] = {CALL(c, "aten::matmul", part[0], part[2]), around(c, transpose(c, part[2]), part[1])};
  return aten_tuple_of(c->a, both, 2);
}
/* linalg_matrix_sqrth(self): of the lower triangle of a symmetric matrix */
aten_value aten_lower_matrix_sqrth(aten_args *c) {
  const aten_value eigen = CALL(c, "aten::linalg_eigh", c->args[0]);
  if (ir_build_failed(c->b)) return none;
  return around(c, eigen.u.list->items.at[1], CALL(c, "aten::sqrt", eigen.u.list->items.at[0]));
}

/* ---- quantiles ---- */

/* Elements of sorted rows (along the last axis) at `at` [.., k]. */
static aten_value taken(aten_args *c, aten_value sorted, aten_value at) {
  return CALL(c, "aten::gather", sorted, aten_int(-1), CALL(c, "aten::to", at, aten_int(4)));
}

/* quantile(self, q, dim?, keepdim, interpolation), and nanquantile (data), which leaves out what is NaN. */
aten_value aten_lower_quantile(aten_args *c) {
  aten_value x = c->args[0], q = c->args[1];
  const bool all = !aten_has(c, 2) || rank_of(c, &x) == 0, number = q.kind != ATEN_TENSOR || rank_of(c, &q) == 0;
  const int32_t rank = rank_of(c, &x);
  const char *how = aten_get_str(c, 4);
  const int64_t dim = all ? 0 : ir_build_axis(c->b, aten_get_int(c, 2), rank), one = -1;
  if (ir_build_failed(c->b)) return none;
  if (q.kind != ATEN_TENSOR) q = CALL(c, "aten::full_like", CALL(c, "aten::sum", x), q);
  q = CALL(c, "aten::reshape", q, list_of(c, &one, 1));
  x = all ? CALL(c, "aten::reshape", x, list_of(c, &one, 1)) : CALL(c, "aten::movedim", x, aten_int(dim), aten_int(-1));
  aten_value lacks = CALL(c, "aten::isnan", x), sorted = CALL(c, "aten::sort", x, aten_int(-1));
  if (ir_build_failed(c->b)) return none;
  sorted = sorted.u.list->items.at[0];
  aten_value n = CALL(c, "aten::sum", CALL(c, "aten::logical_not", lacks), list_of(c, &one, 1), aten_bool(true));
  if (!c->row->data) n = CALL(c, "aten::full_like", n, size_of(c, &x, -1));
  aten_value at = CALL(c, "aten::mul", CALL(c, "aten::clamp", CALL(c, "aten::sub", n, aten_int(1)), aten_int(0)), q);
  aten_value low = CALL(c, "aten::floor", at), high = CALL(c, "aten::ceil", at), y;
  if (strcmp(how, "lower") == 0) y = taken(c, sorted, low);
  else if (strcmp(how, "higher") == 0) y = taken(c, sorted, high);
  else if (strcmp(how, "nearest") == 0) y = taken(c, sorted, CALL(c, "aten::round", at));
  else {
    aten_value weight =
        strcmp(how, "midpoint") == 0 ? CALL(c, "aten::full_like", at, aten_float(0.5)) : CALL(c, "aten::sub", at, low);
    y = CALL(c, "aten::lerp", taken(c, sorted, low), taken(c, sorted, high), weight);
  }
  if (!c->row->data) { /* one NaN makes the row's all NaN */
    aten_value any = CALL(c, "aten::any", lacks, aten_int(-1), aten_bool(true));
    y = CALL(c, "aten::masked_fill", y, any, aten_float((double)NAN));
  }
  if (aten_get_bool(c, 3) && rank) {
    for (int32_t i = 1; all && i < rank; i++) y = CALL(c, "aten::unsqueeze", y, aten_int(0));
    y = CALL(c, "aten::movedim", CALL(c, "aten::unsqueeze", y, aten_int(-2)), aten_int(-2), aten_int(dim));
  }
  return number ? CALL(c, "aten::squeeze", y, aten_int(-1)) : CALL(c, "aten::movedim", y, aten_int(-1), aten_int(0));
}

/* Sizes of `v` from axis `from` to before `to`, as a list. */
static aten_value sizes_of(aten_args *c, const aten_value *v, int32_t from, int32_t to) {
  aten_value list = aten_list_of(c->a, NULL, 0);
  for (int32_t i = from; i < to && !ir_build_failed(c->b); i++) aten_list_append(c->a, list.u.list, size_of(c, v, i));
  return list;
}
static aten_value product_of(aten_args *c, const aten_value *sizes) {
  aten_value n = aten_int(1);
  for (uint32_t i = 0; i < sizes->u.list->items.count; i++) n = aten_int_op(c->a, "mul", n, sizes->u.list->items.at[i]);
  return n;
}

/* linalg_tensorinv(self, ind): the inverse of the matrix whose rows are the first `ind` axes */
aten_value aten_lower_tensorinv(aten_args *c) {
  const aten_value x = c->args[0];
  const int64_t ind = aten_get_int(c, 1);
  const int32_t rank = rank_of(c, &x);
  if (ind < 1 || ind > rank) aten_refuse(c, "%lld of %d axes", (long long)ind, rank);
  if (ir_build_failed(c->b)) return none;
  aten_value rows = sizes_of(c, &x, 0, (int32_t)ind), columns = sizes_of(c, &x, (int32_t)ind, rank);
  const aten_value both[] = {product_of(c, &rows), product_of(c, &columns)};
  aten_value inverse = CALL(c, "aten::linalg_inv", CALL(c, "aten::reshape", x, aten_list_of(c->a, both, 2)));
  return CALL(c, "aten::reshape", inverse, CALL(c, "aten::add", columns, rows));
}

/* linalg_tensorsolve(self, other, dims?): X with tensordot(self, X) = other; `dims` of self are moved behind */
aten_value aten_lower_tensorsolve(aten_args *c) {
  aten_value x = c->args[0], y = c->args[1];
  const int32_t rank = rank_of(c, &x), rows = rank_of(c, &y);
  if (aten_has(c, 2)) {
    const uint32_t count = aten_list_count(c, 2);
    aten_value behind = aten_list_of(c->a, NULL, 0);
    for (uint32_t i = 0; i < count; i++) aten_list_append(c->a, behind.u.list, aten_int((int64_t)i - count));
    x = CALL(c, "aten::movedim", x, c->args[2], behind);
  }
  if (rows > rank) aten_refuse(c, "a right side of more axes than the left has");
  if (ir_build_failed(c->b)) return none;
  aten_value columns = sizes_of(c, &x, rows, rank);
  const aten_value n = product_of(c, &columns), both[] = {n, n}, line[] = {n};
  aten_value a = CALL(c, "aten::reshape", x, aten_list_of(c->a, both, 2)),
             b = CALL(c, "aten::reshape", y, aten_list_of(c->a, line, 1));
  return CALL(c, "aten::reshape", CALL(c, "aten::linalg_solve", a, b), columns);
}

/* native_batch_norm, _native_batch_norm_legit (input, weight?, bias?, running mean?, running variance?, training,
 * momentum, eps): of statistics that are kept, or of the input's own where none are */
aten_value aten_lower_native_batch_norm(aten_args *c) {
  const aten_value *v = c->args;
  if (!aten_get_bool(c, 5) && (!aten_has(c, 3) || !aten_has(c, 4))) aten_refuse(c, "no statistics are given");
  if (ir_build_failed(c->b)) return none;
  if (!aten_get_bool(c, 5))
    return CALL(c, "aten::_native_batch_norm_legit_no_training", v[0], v[1], v[2], v[3], v[4], v[6], v[7]);
  if (aten_has(c, 3)) aten_refuse(c, "training changes the statistics that are kept");
  return CALL(c, "aten::_native_batch_norm_legit", v[0], v[1], v[2], v[5], v[6], v[7]);
}

/* linspace, logspace (data) of ends that are tensors: from each end to the middle, as PyTorch counts */
aten_value aten_lower_linspace_tensor(aten_args *c) {
  const int64_t steps = aten_get_int(c, 2), dtype = aten_position(c, "dtype");
  const aten_value type = aten_has(c, (uint32_t)dtype) ? c->args[dtype] : aten_int(6);
  const aten_value exact = aten_int(type.u.i == 7 ? 7 : 6);
  if (steps < 0) aten_refuse(c, "%lld steps", (long long)steps);
  if (ir_build_failed(c->b)) return none;
  aten_value ends[2];
  for (uint32_t i = 0; i < 2; i++)
    ends[i] = c->args[i].kind == ATEN_TENSOR
                  ? CALL(c, "aten::to", c->args[i], exact, aten_bool(false), aten_bool(false))
                  : aten_fresh(c->a, aten_number_value(c->a, &c->args[i], aten_dtype(c->a, exact.u.i)), ATEN_DENSE);
  aten_value at =
      CALL(c, "aten::to", CALL(c, "aten::arange", aten_int(steps)), exact, aten_bool(false), aten_bool(false));
  aten_value step = CALL(c, "aten::div", CALL(c, "aten::sub", ends[1], ends[0]), aten_int(steps > 1 ? steps - 1 : 1));
  aten_value up = CALL(c, "aten::add", ends[0], CALL(c, "aten::mul", step, at));
  aten_value back = CALL(c, "aten::rsub", at, aten_int(steps - 1));
  aten_value down = CALL(c, "aten::sub", ends[1], CALL(c, "aten::mul", step, back));
  aten_value first = CALL(c, "aten::lt", at, aten_int(steps == 1 ? 1 : steps / 2));
  aten_value y = CALL(c, "aten::where", first, up, down);
  if (c->row->data) y = CALL(c, "aten::pow", c->args[3], y);
  return CALL(c, "aten::to", y, type, aten_bool(false), aten_bool(false));
}

/* Without columns every residual of `gels` is 0 in PyTorch, which asks LAPACK nothing then; other drivers sum squares.
 */
static bool gives_no_residuals(const char *driver, const aten_value *columns) {
  return strcmp(driver, "gels") == 0 && columns->u.i == 0;
}

/* linalg_lstsq(self, b, rcond?, driver?): by the pseudo-inverse, of the least norm where several fit. Where nothing is
 * to be solved PyTorch says rank 0. Residuals are
 * sums of squares, of the drivers that give them, where there are more rows than columns; a run in which these lack
 * rank is refused. */
aten_value aten_lower_lstsq(aten_args *c) {
  const aten_value a = c->args[0], rcond = aten_has(c, 2) ? c->args[2] : none;
  const int32_t rank = rank_of(c, &a);
  const bool vector = rank_of(c, &c->args[1]) < rank;
  const aten_value b = vector ? CALL(c, "aten::unsqueeze", c->args[1], aten_int(-1)) : c->args[1];
  const aten_keyword tolerance = {BASE_STR("rtol"), rcond};
  aten_value inverse = aten_call(c->a, "aten::linalg_pinv", NULL, &a, 1, &tolerance, rcond.kind != ATEN_NONE),
             found = aten_call(c->a, "aten::linalg_matrix_rank", NULL, &a, 1, &tolerance, rcond.kind != ATEN_NONE);
  aten_value x = CALL(c, "aten::matmul", inverse, b), rows = size_of(c, &a, -2), columns = size_of(c, &a, -1);
  if (!aten_is_known(&rows) || !aten_is_known(&columns)) aten_refuse(c, "of sizes that are not known");
  if (ir_build_failed(c->b)) return none;
  const int64_t nothing = 0, axis = -2;
  const char *driver = aten_get_str(c, 3);
  aten_value empty = CALL(c, "aten::new_zeros", x, list_of(c, &nothing, 1)), rest = empty, singular = empty;
  if (strcmp(driver, "gelss") == 0 || strcmp(driver, "gelsd") == 0) singular = CALL(c, "aten::linalg_svdvals", a);
  if (rows.u.i > columns.u.i && *driver && strcmp(driver, "gelsy") != 0) {
    aten_value lacks = CALL(c, "aten::any", CALL(c, "aten::lt", found, columns));
    ir_value bad = aten_read(c->a, &lacks);
    IR_EMIT_ARGS(c->b, "td::refuse", &bad, 1, ARG_STR("message", "linalg_lstsq of a matrix that lacks rank"));
    aten_value off = CALL(c, "aten::sub", CALL(c, "aten::matmul", a, x), b);
    rest = CALL(c, "aten::sum", CALL(c, "aten::mul", off, off), list_of(c, &axis, 1));
    if (gives_no_residuals(driver, &columns)) rest = CALL(c, "aten::zeros_like", rest);
  }
  if (aten_is_empty(c->a, aten_read(c->a, &a)) || aten_is_empty(c->a, aten_read(c->a, &b)))
    found = CALL(c, "aten::zeros_like", found);
  if (vector) x = CALL(c, "aten::squeeze", x, aten_int(-1));
  if (strcmp(driver, "gels") == 0) found = CALL(c, "aten::to", empty, aten_int(4), aten_bool(false), aten_bool(false));
  return aten_tuple_of(c->a, (aten_value[]){x, rest, found, singular}, 4);
}

/* Of two lists of sizes. What only running can tell is taken for the larger of the two, which `expand` checks. */
aten_value aten_lower_broadcast_shapes(aten_args *c) {
  const uint32_t counts[] = {aten_list_count(c, 0), aten_list_count(c, 1)};
  const uint32_t count = counts[0] > counts[1] ? counts[0] : counts[1];
  aten_value list = aten_list_of(c->a, NULL, 0);
  for (uint32_t i = count; i > 0 && !ir_build_failed(c->b); i--) { /* the i-th from the end */
    aten_value x = i <= counts[0] ? aten_items(c, 0)[counts[0] - i] : aten_int(1),
               y = i <= counts[1] ? aten_items(c, 1)[counts[1] - i] : aten_int(1);
    const bool known = aten_is_known(&x) && aten_is_known(&y);
    if (known && x.u.i != y.u.i && x.u.i != 1 && y.u.i != 1)
      aten_refuse(c, "sizes %lld and %lld", (long long)x.u.i, (long long)y.u.i);
    const bool second = aten_is_known(&x) ? x.u.i == 1 : aten_is_known(&y) && y.u.i != 1;
    aten_list_append(c->a, list.u.list, second ? y : x);
  }
  return list;
}

/* The same call of each of a list. */
aten_value aten_lower_each(aten_args *c) {
  const uint32_t count = aten_list_count(c, 0);
  aten_value list = aten_list_of(c->a, NULL, 0);
  for (uint32_t i = 0; i < count && !ir_build_failed(c->b); i++)
    aten_list_append(c->a, list.u.list, CALL(c, c->name, aten_items(c, 0)[i]));
  return list;
}

/* resize_as_(self, the_template) */
aten_value aten_lower_resize_as(aten_args *c) {
  return CALL(c, "aten::resize_", c->args[0], CALL(c, "aten::size", c->args[1]));
}

/* _unsafe_masked_index(self, mask, indices, fill): index where the mask holds, whose indices alone are within their
 * axes */
aten_value aten_lower_masked_index(aten_args *c) {
  const uint32_t count = aten_list_count(c, 2);
  const aten_value *items = aten_items(c, 2);
  aten_value inside = aten_list_of(c->a, NULL, 0);
  if (aten_is_empty(c->a, aten_in(c, 0))) /* the mask holds nowhere */
    return CALL(c, "aten::new_full", c->args[0], CALL(c, "aten::size", c->args[1]), c->args[3]);
  for (uint32_t i = 0; i < count && !ir_build_failed(c->b); i++) {
    const aten_value size = size_of(c, &c->args[0], i);
    const aten_value least = aten_int_op(c->a, "sub", aten_int(0), size),
                     most = aten_int_op(c->a, "sub", size, aten_int(1));
    const bool given = items[i].kind == ATEN_TENSOR;
    aten_list_append(c->a, inside.u.list, given ? CALL(c, "aten::clamp", items[i], least, most) : items[i]);
  }
  aten_value found = CALL(c, "aten::index", c->args[0], inside);
  return CALL(c, "aten::masked_fill", found, CALL(c, "aten::logical_not", c->args[1]), c->args[3]);
}

/* cov(self, correction, fweights?, aweights?): rows are variables */
aten_value aten_lower_cov(aten_args *c) {
  const int64_t line[] = {1, -1}, one = 1;
  const int32_t rank = rank_of(c, &c->args[0]);
  aten_value x = rank == 2 ? c->args[0] : CALL(c, "aten::reshape", c->args[0], list_of(c, line, 2));
  const aten_value often = c->args[2], weighs = c->args[3], along = list_of(c, &one, 1);
  if (rank > 2) aten_refuse(c, "a tensor of rank %d", rank);
  aten_value w = often.kind == ATEN_NONE    ? weighs
                 : weighs.kind == ATEN_NONE ? often
                                            : CALL(c, "aten::mul", often, weighs);
  const bool weighed = w.kind != ATEN_NONE;
  aten_value sum = weighed ? CALL(c, "aten::sum", w) : size_of(c, &x, 1), share = c->args[1];
  if (weighs.kind != ATEN_NONE)
    share =
        CALL(c, "aten::mul", CALL(c, "aten::div", CALL(c, "aten::sum", CALL(c, "aten::mul", w, weighs)), sum), share);
  aten_value scaled = weighed ? CALL(c, "aten::mul", x, w) : x;
  aten_value mean = CALL(c, "aten::div", CALL(c, "aten::sum", scaled, along, aten_bool(true)), sum);
  x = CALL(c, "aten::sub", x, mean);
  aten_value other = CALL(c, "aten::t", weighed ? CALL(c, "aten::mul", x, w) : x);
  if (aten_is_complex(&other)) other = CALL(c, "aten::conj", other);
  aten_value size = CALL(c, "aten::sub", sum, share);
  if (size.kind == ATEN_TENSOR) size = CALL(c, "aten::clamp", size, aten_int(0));
  else if (aten_is_known(&size) && size.kind == ATEN_INT && size.u.i < 0) size = aten_int(0);
  return CALL(c, "aten::squeeze", CALL(c, "aten::div", CALL(c, "aten::matmul", x, other), size));
}
/* corrcoef(self): covariances by the deviations of both */
aten_value aten_lower_corrcoef(aten_args *c) {
  aten_value y = CALL(c, "aten::cov", c->args[0]);
  if (aten_is_complex(&y)) aten_refuse(c, "of complex numbers");
  if (rank_of(c, &y) == 0) return CALL(c, "aten::div", y, y);
  aten_value d = CALL(c, "aten::sqrt", CALL(c, "aten::diagonal", y));
  y = CALL(c, "aten::div", CALL(c, "aten::div", y, CALL(c, "aten::unsqueeze", d, aten_int(1))), d);
  return CALL(c, "aten::clamp", y, aten_int(-1), aten_int(1));
}

aten_value aten_lower_isreal(aten_args *c) {
  if (!aten_is_complex(&c->args[0]))
    return CALL(c, "aten::logical_not", CALL(c, "aten::zeros_like", c->args[0])); /* NaN is real, too */
  return CALL(c, "aten::eq", CALL(c, "aten::imag", c->args[0]), aten_int(0));
}
