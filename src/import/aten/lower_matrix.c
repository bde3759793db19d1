/* lower_matrix.c -- products of matrices and what is made of them. */
#include "import/aten/aten_priv.h"

#include <string.h>

static ir_value product(aten_args *c, ir_value x, ir_value y) { return IR_EMIT(c->b, "aten::matmul", x, y); }

/* mm, bmm, matmul, mv, dot, inner */
aten_value aten_lower_matmul(aten_args *c) {
  ir_value x = aten_in(c, 0), y = aten_in(c, 1);
  if (aten_value_dtype(c->a, x) == TD_BOOL) aten_refuse(c, "products of truth values");
  return aten_ret(c, product(c, x, y));
}
/* products of 8-bit integers, in i32 */
aten_value aten_lower_int_mm(aten_args *c) {
  return aten_ret(c, IR_EMIT(c->b, "td::matmul_integer", aten_in(c, 0), aten_in(c, 1)));
}
/* Rows (axis 0) or columns (1) of group `g` of `count`: from where the one before ends to offs[g]. The last group takes
 * what is left, which nobody may look at, unless it would be summed along. */
static ir_value group_of(aten_args *c, ir_value v, int64_t axis, ir_value offs, int64_t g, bool rest) {
  ir_value begin = g ? aten_slice(c->a, offs, 0, g - 1, g, 1) : ir_build_ints(c->b, (int64_t[]){0}, 1);
  ir_value end = rest ? ir_build_ints(c->b, (int64_t[]){INT64_MAX}, 1) : aten_slice(c->a, offs, 0, g, g + 1, 1);
  return IR_EMIT(c->b, "aten::slice", v, begin, end, ir_build_ints(c->b, &axis, 1),
                 ir_build_ints(c->b, (int64_t[]){1}, 1));
}
/* _grouped_mm(self, mat2, offs?), grouped_mm_fallback(input, weight, offs) of transformers: products of groups of rows,
 * of columns, or of both along the axis that is summed. */
aten_value aten_lower_grouped(aten_args *c) {
  ir_value x = aten_in(c, 0), y = aten_in(c, 1), parts[256], axes[2];
  const int32_t rank[] = {aten_rank(c->a, x), aten_rank(c->a, y)};
  if (aten_has(c, 3)) aten_refuse(c, "with a bias");
  if (!aten_has(c, 2)) return ir_build_failed(c->b) ? ATEN_NOTHING : aten_ret(c, product(c, x, y));
  ir_value offs = ir_build_cast(c->b, aten_in(c, 2), TD_I64);
  const ir_type *type = ir_build_type(c->b, offs);
  const int64_t count = ir_build_failed(c->b) || type->rank != 1 ? -1 : type->dims[0];
  const bool both = rank[0] == 2 && rank[1] == 2;
  if (count < 1 || count > (int64_t)(sizeof parts / sizeof *parts) || rank[0] + rank[1] > 5)
    aten_refuse(c, "of groups whose number is not known, or above %d", (int)(sizeof parts / sizeof *parts));
  for (int64_t g = 0; g < count && !ir_build_failed(c->b); g++) {
    const bool rest = g + 1 == count && !both;
    ir_value part_x = rank[0] == 3 ? aten_select(c->a, x, 0, g) : group_of(c, x, both, offs, g, rest);
    ir_value part_y = rank[1] == 3 ? aten_select(c->a, y, 0, g) : group_of(c, y, rank[0] == 3, offs, g, rest);
    parts[g] = product(c, part_x, part_y);
    if (both) parts[g] = aten_unsqueeze(c->a, parts[g], 0);
  }
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  ir_value all = aten_cat(c->a, parts, (uint32_t)count, rank[0] == 3 ? 1 : 0);
  if (both) return aten_ret(c, all);
  axes[0] = aten_slice(c->a, aten_shape(c->a, x), 0, -2, -1, 1); /* whose sum of sizes is known again */
  axes[1] = aten_slice(c->a, aten_shape(c->a, y), 0, -1, INT64_MAX, 1);
  return aten_ret(c, IR_EMIT(c->b, "aten::view", all, aten_cat(c->a, axes, 2, 0)));
}
/* Sums along the last axes of both. */
aten_value aten_lower_inner(aten_args *c) {
  ir_value x = aten_in(c, 0), y = aten_in(c, 1);
  int32_t rank = aten_rank(c->a, x), other = aten_rank(c->a, y);
  if (rank == 0 || other == 0) return aten_ret(c, aten_binary(c->a, "aten::mul", x, y));
  if (other == 1) return aten_ret(c, product(c, x, y));
  ir_value lead[] = {aten_slice(c->a, aten_shape(c->a, x), 0, 0, -1, 1),
                     aten_slice(c->a, aten_shape(c->a, y), 0, 0, -1, 1)};
  ir_value last = aten_slice(c->a, aten_shape(c->a, x), 0, -1, INT64_MAX, 1),
           any = ir_build_ints(c->b, (int64_t[]){-1}, 1);
  ir_value flat = aten_cat(c->a, (ir_value[]){any, last}, 2, 0);
  ir_value p =
      product(c, IR_EMIT(c->b, "aten::view", x, flat), aten_swap(c->a, IR_EMIT(c->b, "aten::view", y, flat), 0, 1));
  return aten_ret(c, IR_EMIT(c->b, "aten::view", p, aten_cat(c->a, lead, 2, 0)));
}
/* kron of two tensors of one rank */
aten_value aten_lower_kron(aten_args *c) {
  ir_value v[] = {aten_in(c, 0), aten_in(c, 1)};
  int32_t rank[] = {aten_rank(c->a, v[0]), aten_rank(c->a, v[1])}, n = rank[0] > rank[1] ? rank[0] : rank[1];
  aten_value to[BASE_MAX_RANK];
  for (uint32_t s = 0; s < 2; s++)
    for (int32_t i = rank[s]; i < n; i++) v[s] = aten_unsqueeze(c->a, v[s], 0);
  if (2 * n > BASE_MAX_RANK) aten_refuse(c, "tensors of rank %d", n);
  for (int32_t i = 0; i < n && !ir_build_failed(c->b); i++)
    to[i] = aten_int_op(c->a, "mul", aten_size(c->a, v[0], i), aten_size(c->a, v[1], i));
  for (int32_t i = n; i-- > 0 && !ir_build_failed(c->b);) {
    v[0] = aten_unsqueeze(c->a, v[0], i + 1);
    v[1] = aten_unsqueeze(c->a, v[1], i);
  }
  aten_mix m = {0};
  for (uint32_t s = 0; s < 2; s++) aten_mix_tensor(c->a, &m, v[s]);
  td_dtype d = aten_mix_result(&m);
  ir_value p = aten_binary(c->a, "aten::mul", ir_build_cast(c->b, v[0], d), ir_build_cast(c->b, v[1], d));
  return ir_build_failed(c->b) ? ATEN_NOTHING
                               : aten_ret(c, IR_EMIT(c->b, "aten::view", p, aten_vector(c->a, to, (uint32_t)n)));
}
/* x w^T + b */
ir_value aten_linear(aten *a, ir_value x, ir_value w, ir_value bias) {
  ir_value transposed = aten_rank(a, w) == 1 ? w : aten_swap(a, w, 0, 1);
  ir_value y = IR_EMIT(a->b, "aten::matmul", x, transposed);
  return bias.id ? IR_EMIT(a->b, "aten::add", y, bias) : y;
}
aten_value aten_lower_linear(aten_args *c) {
  ir_value x = aten_in(c, 0), w = aten_in(c, 1);
  const ir_value bias = aten_has(c, 2) ? ir_build_cast(c->b, aten_in(c, 2), aten_value_dtype(c->a, x)) : IR_NO_VALUE;
  return aten_ret(c, aten_linear(c->a, x, w, bias));
}

static bool is_one(const aten_value *v) {
  return aten_is_known(v) && ((v->kind == ATEN_INT && v->u.i == 1) || (v->kind == ATEN_FLOAT && v->u.f == 1));
}
static bool is_zero(const aten_value *v) {
  return aten_is_known(v) && ((v->kind == ATEN_INT && v->u.i == 0) || (v->kind == ATEN_FLOAT && v->u.f == 0));
}
/* beta self, of its own sizes: what PyTorch gives for a matrix of no elements by a vector */
static aten_value only_self(aten_args *c, ir_value self, const aten_value *beta) {
  const td_dtype d = aten_value_dtype(c->a, aten_in(c, 1));
  self = ir_build_cast(c->b, self, d);
  if (is_zero(beta)) return aten_ret(c, aten_full(c->a, aten_shape(c->a, self), ir_build_scalar(c->b, d, 0)));
  return aten_ret(c, is_one(beta) ? self : aten_binary(c->a, "aten::mul", self, aten_number_value(c->a, beta, d)));
}
/* beta self + alpha (x y): addmm, baddbmm, addmv, addr ("outer"), addbmm ("sum") */
aten_value aten_lower_addmm(aten_args *c) {
  bool outer = c->row->data && strcmp(c->row->data, "outer") == 0;
  bool sums = c->row->data && strcmp(c->row->data, "sum") == 0;
  ir_value self = aten_in(c, 0), x = aten_in(c, 1), y = aten_in(c, 2);
  if (!outer && aten_rank(c->a, y) == 1 && aten_is_empty(c->a, x)) return only_self(c, self, &c->args[3]);
  const td_dtype given = aten_value_dtype(c->a, x);
  const td_dtype d = sums && (given == TD_F16 || given == TD_BF16) ? TD_F32 : given; /* one sum, rounded once */
  if (d != given) x = ir_build_cast(c->b, x, d), y = ir_build_cast(c->b, y, d);
  ir_value p = outer ? aten_binary(c->a, "aten::mul", aten_unsqueeze(c->a, x, 1), y) : product(c, x, y);
  if (sums) p = IR_EMIT_ARGS(c->b, "aten::sum", &p, 1, ARG_INTS("dim", (int64_t[]){0}, 1), ARG_BOOL("keepdim", false));
  const aten_value *beta = &c->args[3], *alpha = &c->args[4];
  if (!is_one(alpha)) p = aten_binary(c->a, "aten::mul", p, aten_number_value(c->a, alpha, d));
  if (is_zero(beta)) return aten_ret(c, ir_build_cast(c->b, p, given));
  self = ir_build_cast(c->b, self, d);
  if (!is_one(beta)) self = aten_binary(c->a, "aten::mul", self, aten_number_value(c->a, beta, d));
  return aten_ret(c, ir_build_cast(c->b, aten_binary(c->a, "aten::add", p, self), given));
}
aten_value aten_lower_outer(aten_args *c) {
  return aten_ret(c, aten_binary(c->a, "aten::mul", aten_unsqueeze(c->a, aten_in(c, 0), 1), aten_in(c, 1)));
}
aten_value aten_lower_einsum(aten_args *c) {
  uint32_t count;
  ir_value *v = aten_get_tensors(c, 1, &count);
  return aten_ret(c, IR_EMIT_ARGS(c->b, "aten::einsum", v, count, ARG_STR("equation", aten_get_str(c, 0))));
}
aten_value aten_lower_chain(aten_args *c) {
  uint32_t count;
  ir_value *v = aten_get_tensors(c, 0, &count);
  if (!count) return ATEN_NOTHING;
  ir_value y = v[0];
  for (uint32_t i = 1; i < count; i++) y = product(c, y, v[i]);
  return aten_ret(c, y);
}
/* (x1 [.., n], x2 [.., m], weight [k, n, m], bias?): x1 W_k x2 */
aten_value aten_lower_bilinear(aten_args *c) {
  ir_value in[] = {aten_in(c, 0), aten_in(c, 2), aten_in(c, 1)};
  ir_value y = IR_EMIT_ARGS(c->b, "aten::einsum", in, 3, ARG_STR("equation", "...n,knm,...m->...k"));
  return aten_ret(c, aten_has(c, 3) ? aten_binary(c->a, "aten::add", y, aten_in(c, 3)) : y);
}
/* det, inverse: data */
aten_value aten_lower_matrix_unary(aten_args *c) { return aten_ret(c, IR_EMIT(c->b, c->row->data, aten_in(c, 0))); }
/* Sum of the diagonal of a matrix. */
aten_value aten_lower_trace(aten_args *c) {
  ir_value x = aten_in(c, 0), eye = ir_build_cast(c->b, IR_EMIT(c->b, "td::eye_like", x), TD_BOOL);
  x = IR_EMIT(c->b, "aten::where", eye, x, aten_scalar_like(c->a, x, 0));
  if (!base_is_float(aten_value_dtype(c->a, x))) x = ir_build_cast(c->b, x, TD_I64);
  return aten_ret(c, IR_EMIT_ARGS(c->b, "aten::sum", &x, 1, ARG_BOOL("keepdim", false)));
}
/* cross(self, other, dim?): of vectors of three */
aten_value aten_lower_cross(aten_args *c) {
  ir_value x = aten_in(c, 0), y = aten_in(c, 1), part[3];
  int32_t rank = aten_rank(c->a, x);
  int64_t dim = -1;
  const ir_type *type = ir_build_type(c->b, x);
  if (aten_has(c, 2)) dim = ir_build_axis(c->b, aten_get_int(c, 2), rank);
  for (int32_t i = 0; i < rank && dim < 0; i++)
    if (type->dims[i] == 3) dim = i;
  if (dim < 0) aten_refuse(c, "no axis of three elements");
  for (int64_t i = 0; i < 3 && !ir_build_failed(c->b); i++) {
    int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    ir_value left =
        aten_binary(c->a, "aten::mul", aten_slice(c->a, x, dim, j, j + 1, 1), aten_slice(c->a, y, dim, k, k + 1, 1));
    ir_value right =
        aten_binary(c->a, "aten::mul", aten_slice(c->a, x, dim, k, k + 1, 1), aten_slice(c->a, y, dim, j, j + 1, 1));
    part[i] = aten_binary(c->a, "aten::sub", left, right);
  }
  return ir_build_failed(c->b) ? ATEN_NOTHING : aten_ret(c, aten_cat(c->a, part, 3, dim));
}
/* An axis of tensordot's of which the other side has one element is summed. */
static void sum_where_one(aten_args *c, ir_value *v) {
  uint32_t counts[2];
  const int64_t *dims[] = {aten_get_ints(c, 2, &counts[0]), aten_get_ints(c, 3, &counts[1])};
  for (uint32_t i = 0; i < counts[0] && counts[0] == counts[1] && !ir_build_failed(c->b); i++) {
    const aten_value sizes[] = {aten_size(c->a, v[0], dims[0][i]), aten_size(c->a, v[1], dims[1][i])};
    if (!aten_is_known(&sizes[0]) || !aten_is_known(&sizes[1]) || sizes[0].u.i == sizes[1].u.i) continue;
    for (uint32_t s = 0; s < 2; s++)
      if (sizes[!s].u.i == 1)
        v[s] = IR_EMIT_ARGS(c->b, "aten::sum", &v[s], 1, ARG_INTS("dim", &dims[s][i], 1), ARG_BOOL("keepdim", true));
  }
}
/* tensordot(self, other, dims_self, dims_other) */
aten_value aten_lower_tensordot(aten_args *c) {
  ir_value v[] = {aten_in(c, 0), aten_in(c, 1)}, lead[2], flat[2];
  sum_where_one(c, v);
  for (uint32_t s = 0; s < 2; s++) {
    uint32_t count, n = 0;
    const int64_t *dims = aten_get_ints(c, 2 + s, &count);
    int32_t rank = aten_rank(c->a, v[s]);
    int64_t order[BASE_MAX_RANK], free_axes[BASE_MAX_RANK], summed[BASE_MAX_RANK];
    bool is_summed[BASE_MAX_RANK] = {false};
    if (ir_build_failed(c->b) || count > (uint32_t)rank) return ATEN_NOTHING;
    for (uint32_t i = 0; i < count; i++) {
      summed[i] = ir_build_axis(c->b, dims[i], rank);
      is_summed[summed[i]] = true;
    }
    for (int32_t i = 0; i < rank; i++)
      if (!is_summed[i]) free_axes[n++] = i;
    for (uint32_t i = 0; i < n; i++) order[s ? count + i : i] = free_axes[i];
    for (uint32_t i = 0; i < count; i++) order[s ? i : n + i] = summed[i];
    ir_value shape = aten_shape(c->a, v[s]);
    lead[s] = IR_EMIT_ARGS(c->b, "aten::index_select", ((ir_value[]){shape, ir_build_ints(c->b, free_axes, n)}), 2,
                           ARG_INT("dim", 0));
    aten_value inner = aten_int(1);
    for (uint32_t i = 0; i < count; i++) inner = aten_int_op(c->a, "mul", inner, aten_size(c->a, v[s], summed[i]));
    aten_value to[] = {s ? inner : aten_int(-1), s ? aten_int(-1) : inner};
    flat[s] = IR_EMIT(c->b, "aten::view", aten_permute(c->a, v[s], order, (uint32_t)rank), aten_vector(c->a, to, 2));
  }
  return aten_ret(c, IR_EMIT(c->b, "aten::view", product(c, flat[0], flat[1]), aten_cat(c->a, lead, 2, 0)));
}
/* linalg_matrix_power(A, n): by squaring; of a negative n that of the inverse */
aten_value aten_lower_matrix_power(aten_args *c) {
  ir_value x = aten_in(c, 0), y = IR_NO_VALUE;
  int64_t n = aten_get_int(c, 1);
  if (n < 0) x = IR_EMIT(c->b, "aten::linalg_inv", x);
  for (; n != 0 && !ir_build_failed(c->b); n /= 2) {
    if (n % 2) y = y.id ? IR_EMIT(c->b, "aten::matmul", y, x) : x;
    if (n / 2) x = IR_EMIT(c->b, "aten::matmul", x, x);
  }
  if (!y.id) {
    const aten_value size = aten_size(c->a, x, -1), eye = ATEN_CALL(c, "aten::eye", size);
    y = aten_expand(c->a, aten_as(c->a, &eye, aten_value_dtype(c->a, x)), aten_shape(c->a, x));
  }
  return aten_ret(c, y);
}
