/* lower_strided.c -- views of elements at steps through a cell's memory: as_strided, diagonals, windows; and the views
 * that prims have. */
#include "import/aten/lower_view_priv.h"

#include <string.h>

/* Element offsets sum over dims of first[d] + i * stride[d], for sizes known now. */
static ir_value offsets(aten_args *c, const int64_t *size, const int64_t *stride, uint32_t rank, int64_t first) {
  int64_t count = 1, index[BASE_MAX_RANK] = {0};
  if (rank > BASE_MAX_RANK || !base_numel((int32_t)rank, size, &count) || count > (1 << 26)) {
    aten_refuse(c, "a view of too many elements");
    return IR_NO_VALUE;
  }
  int64_t *at = ir_build_alloc(c->b, (size_t)count * sizeof *at);
  for (int64_t i = 0, step; at && i < count; i++) {
    at[i] = first;
    for (uint32_t d = 0; d < rank; d++)
      if (!base_mul_i64(index[d], stride[d], &step) || !base_add_i64(at[i], step, &at[i])) {
        aten_refuse(c, "strides that lead out of all memory");
        return IR_NO_VALUE;
      }
    for (uint32_t d = rank; d-- > 0 && ++index[d] == size[d];) index[d] = 0;
  }
  base_tensor t = base_tensor_of(at, TD_I64, (int32_t)rank, size);
  return at ? ir_build_constant(c->b, &t) : IR_NO_VALUE;
}

/* Of a tensor with one size other than 1 every order of its axes is the same memory. */
static bool is_line(aten_args *c, const aten_tensor *base) {
  aten_value whole = aten_handle(c->a, base);
  const ir_type *type = ir_build_type(c->b, aten_read(c->a, &whole));
  int32_t longer = 0;
  if (ir_build_failed(c->b) || type->rank == IR_UNRANKED) return false;
  for (int32_t i = 0; i < type->rank; i++) longer += type->dims[i] != 1;
  return longer <= 1;
}

/* Where the elements of a view lie in its cell, whose contents are dense; in elements. */
typedef struct layout {
  int32_t rank;
  int64_t dims[BASE_MAX_RANK], strides[BASE_MAX_RANK], first;
} layout;

static bool is_dense(const layout *l) {
  int64_t dense[BASE_MAX_RANK];
  base_strides(l->rank, l->dims, dense);
  for (int32_t i = 0; i < l->rank; i++)
    if (l->dims[i] != 1 && l->strides[i] != dense[i]) return false;
  return true;
}

/* The strides of `of`, whose sizes of 1 may have come or gone in `to`; else only what is dense stays known. */
static bool lay_reshaped(const layout *of, layout *to) {
  base_strides(to->rank, to->dims, to->strides);
  if (is_dense(of)) return true;
  int32_t k = 0;
  for (int32_t i = 0; i < to->rank; i++) {
    if (to->dims[i] == 1) continue;
    while (k < of->rank && of->dims[k] == 1) k++;
    if (k == of->rank || of->dims[k] != to->dims[i]) return false;
    to->strides[i] = of->strides[k++];
  }
  while (k < of->rank && of->dims[k] == 1) k++;
  return k == of->rank;
}

static bool lay_sliced(aten_args *c, const aten_tensor *t, const layout *of, layout *to) {
  base_tensor start, step;
  const int64_t axis = t->dim < 0 ? t->dim + of->rank : t->dim;
  if (!aten_evaluate(c->a, t->start, &start) || !aten_evaluate(c->a, t->step, &step)) return false;
  const int64_t size = of->dims[axis], by = base_load_i64(TD_I64, step.data, 0);
  int64_t from = base_load_i64(TD_I64, start.data, 0);
  if (from < 0) from += size;
  from = from < 0 ? 0 : base_min_i64(from, size);
  memcpy(to->strides, of->strides, sizeof to->strides);
  if (!base_mul_i64(of->strides[axis], by, &to->strides[axis])) return false;
  return base_mul_i64(from, of->strides[axis], &from) && base_add_i64(to->first, from, &to->first);
}

/* False: sizes that only running can tell, or a view that has no strides. */
static bool lay_out(aten_args *c, const aten_tensor *t, uint32_t depth, layout *l) {
  enum { MAX_VIEWS = 64 };
  layout of;
  aten_value shown = aten_handle(c->a, t);
  const ir_type *type = ir_build_type(c->b, aten_read(c->a, &shown));
  if (ir_build_failed(c->b) || type->rank == IR_UNRANKED || depth > MAX_VIEWS) return false;
  *l = (layout){.rank = type->rank};
  for (int32_t i = 0; i < l->rank; i++) {
    if (!base_dim_known(type->dims[i])) return false;
    l->dims[i] = type->dims[i];
  }
  base_strides(l->rank, l->dims, l->strides);
  if (!t->base) return true;
  if (!lay_out(c, t->base, depth + 1, &of)) return false;
  l->first = of.first;
  if (t->kind == ATEN_VIEW_RESHAPE) return lay_reshaped(&of, l);
  if (t->kind == ATEN_VIEW_SLICE) return lay_sliced(c, t, &of, l);
  if (t->kind == ATEN_VIEW_GATHER) return false;
  for (int32_t i = 0; i < l->rank; i++) {
    const int32_t k = t->kind == ATEN_VIEW_PERMUTE ? (int32_t)(t->order[i] + (t->order[i] < 0 ? l->rank : 0))
                                                   : i - (l->rank - of.rank);
    l->strides[i] = k >= 0 && of.dims[k] == l->dims[i] ? of.strides[k] : 0;
  }
  return true;
}

/* (self, size, stride, storage_offset?) over the storage, which is the cell's contents if these are dense. */
aten_value aten_lower_as_strided(aten_args *c) {
  uint32_t count, stride_count;
  const int64_t *size = aten_get_ints(c, 1, &count), *stride = aten_get_ints(c, 2, &stride_count);
  const aten_tensor *t = self(c)->u.tensor, *base = t;
  while (base->base) base = base->base;
  bool is_whole = true; /* it begins where its storage does */
  for (const aten_tensor *v = t; v->base; v = v->base) is_whole = is_whole && v->kind == ATEN_VIEW_RESHAPE;
  layout place = {.first = 0};
  is_whole = is_whole || aten_has(c, 3) || lay_out(c, t, 0, &place);
  if ((base->dense != ATEN_DENSE && !is_line(c, base)) || !is_whole || count != stride_count || t->is_complex ||
      t->quant) {
    aten_refuse(c, "the memory behind the tensor is not known to be contiguous");
    return ATEN_NOTHING;
  }
  int64_t first = aten_has(c, 3) ? aten_get_int(c, 3) : place.first;
  ir_value index = offsets(c, size, stride, count, first);
  aten_value whole = aten_handle(c->a, base);
  return ir_build_failed(c->b) ? ATEN_NOTHING : aten_view_gather(c->a, &whole, index);
}

/* Self flattened, where its memory stands in the order of its elements; none otherwise. */
static ir_value in_order(aten_args *c) {
  const aten_tensor *t = self(c)->u.tensor;
  while (t->base && t->kind == ATEN_VIEW_RESHAPE) t = t->base;
  if (!t->base && !t->is_complex && !t->quant && (t->dense == ATEN_DENSE || is_line(c, t)))
    return aten_reshape(c->a, read(c), (int64_t[]){-1}, 1);
  aten_refuse(c, "the memory behind the tensor is not known to be contiguous");
  return IR_NO_VALUE;
}

/* as_strided_scatter(self, src, size, stride, storage_offset?): src at these places of the memory */
aten_value aten_lower_as_strided_scatter(aten_args *c) {
  uint32_t count, stride_count;
  const int64_t *size = aten_get_ints(c, 2, &count), *stride = aten_get_ints(c, 3, &stride_count);
  if (count != stride_count) aten_refuse(c, "%u sizes, %u strides", count, stride_count);
  ir_value flat = in_order(c);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  ir_value index = offsets(c, size, stride, count, aten_has(c, 4) ? aten_get_int(c, 4) : 0);
  ir_value src = ir_build_cast(c->b, aten_in(c, 1), aten_value_dtype(c->a, flat));
  ir_value from = aten_expand(c->a, src, ir_build_ints(c->b, size, count));
  ir_value in[] = {flat, aten_reshape(c->a, index, (int64_t[]){-1}, 1), aten_reshape(c->a, from, (int64_t[]){-1}, 1)};
  ir_value y = IR_EMIT_ARGS(c->b, "aten::scatter", in, 3, ARG_INT("dim", 0));
  return aten_ret(c, IR_EMIT(c->b, "aten::view", y, aten_shape(c->a, read(c))));
}

/* resize(self, size, *, memory_format?): the first elements in memory, which resize_ shows from then on */
aten_value aten_lower_resize(aten_args *c) {
  uint32_t count;
  int64_t numel = 1;
  const int64_t *size = aten_get_ints(c, 1, &count);
  if (!base_numel((int32_t)count, size, &numel)) aten_refuse(c, "too many elements");
  if (aten_has(c, 2) && aten_get_int(c, 2) != 0) aten_refuse(c, "another memory format");
  ir_value flat = in_order(c);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  aten_value there = aten_size(c->a, flat, 0);
  if (there.graph.id || there.u.i < numel) aten_refuse(c, "to more elements, of which nothing is known");
  aten_value y = aten_view_reshape(c->a, self(c), i64(c, -1));
  y = aten_view_slice(c->a, &y, 0, i64(c, 0), i64(c, numel), i64(c, 1));
  return aten_view_reshape(c->a, &y, ir_build_ints(c->b, size, count));
}

/* (self, offset, dim1, dim2): a step through the flattened matrix, so that it can be written to. */
aten_value aten_lower_diagonal(aten_args *c) {
  if (is_complex(c)) aten_refuse(c, "of complex numbers; diagonal_copy is supported");
  int32_t rank = rank_of(c);
  int64_t offset = aten_get_int(c, 1), d1 = ir_build_axis(c->b, aten_get_int(c, 2), rank),
          d2 = ir_build_axis(c->b, aten_get_int(c, 3), rank);
  int64_t order[BASE_MAX_RANK + 1], rows = aten_known_size(c, d1), cols = aten_known_size(c, d2), size;
  int32_t n = 0;
  if (d1 == d2 || rank < 2) aten_refuse(c, "two different axes are needed");
  if (!base_numel(2, (int64_t[]){rows, cols}, &size) || cols == INT64_MAX) aten_refuse(c, "too many elements");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  for (int32_t i = 0; i < rank; i++)
    if (i != d1 && i != d2) order[n++] = i;
  order[n] = d1;
  order[n + 1] = d2;
  int64_t length = offset >= 0 ? base_min_i64(rows, cols - offset) : base_min_i64(rows + offset, cols);
  if (length < 0) length = 0;
  const int64_t first = !length ? 0 : offset >= 0 ? offset : -offset * cols;
  aten_value v = aten_view_permute(c->a, self(c), order, (uint32_t)rank);
  ir_value lead = aten_slice(c->a, aten_shape(c->a, aten_read(c->a, &v)), 0, 0, n, 1);
  ir_value flat = aten_cat(c->a, (ir_value[]){lead, i64(c, size)}, 2, 0);
  v = aten_view_reshape(c->a, &v, n ? flat : i64(c, size));
  int64_t end = length ? first + (length - 1) * (cols + 1) + 1 : 0;
  return aten_view_slice(c->a, &v, n, i64(c, first), i64(c, end), i64(c, cols + 1));
}

/* diag_embed(self, offset, dim1, dim2): the last axis on a diagonal of zeros; diag of a vector (data) */
aten_value aten_lower_diag_embed(aten_args *c) {
  ir_value x = read(c);
  int32_t rank = rank_of(c);
  int64_t offset = base_max_i64(aten_get_int(c, 1), -INT64_MAX), away = offset < 0 ? -offset : offset;
  int64_t d1 = c->row->data ? 0 : ir_build_axis(c->b, aten_get_int(c, 2), rank + 1);
  int64_t d2 = c->row->data ? 1 : ir_build_axis(c->b, aten_get_int(c, 3), rank + 1);
  if (d1 > d2) { /* the other diagonal */
    int64_t swap = d1;
    d1 = d2;
    d2 = swap;
    offset = -offset;
  }
  aten_value size = aten_int_op(c->a, "add", aten_size(c->a, x, -1), aten_int(away)), sides[] = {size, size};
  ir_value lead = aten_slice(c->a, aten_shape(c->a, x), 0, 0, -1, 1), square = aten_vector(c->a, sides, 2);
  ir_value shape = rank > 1 ? aten_cat(c->a, (ir_value[]){lead, square}, 2, 0) : square;
  aten_value zeros = aten_fresh(c->a, aten_full(c->a, shape, aten_scalar_like(c->a, x, 0)), ATEN_DENSE);
  aten_value in[] = {zeros, aten_int(offset), aten_int(-2), aten_int(-1)};
  aten_value line = aten_call(c->a, "aten::diagonal", NULL, in, 4, NULL, 0);
  aten_write(c->a, &line, x);
  ir_value y = aten_read(c->a, &zeros);
  int64_t order[BASE_MAX_RANK + 1];
  for (int32_t i = 0, next = 0; i <= rank && !ir_build_failed(c->b); i++)
    order[i] = i == d1 ? rank - 1 : i == d2 ? rank : next++;
  return ir_build_failed(c->b) ? ATEN_NOTHING : aten_ret(c, aten_permute(c->a, y, order, (uint32_t)rank + 1));
}

/* diag(self, diagonal) */
aten_value aten_lower_diag(aten_args *c) {
  if (rank_of(c) == 1) return aten_lower_diag_embed(c);
  aten_value in[] = {c->args[0], c->args[1]};
  return aten_call(c->a, "aten::diagonal_copy", NULL, in, 2, NULL, 0);
}

/* (self, dimension, size, step): windows along an axis, their elements in a last one */
aten_value aten_lower_unfold(aten_args *c) {
  int32_t rank = rank_of(c);
  int64_t dim = rank ? ir_build_axis(c->b, aten_get_int(c, 1), rank) : 0, size = aten_get_int(c, 2),
          step = aten_get_int(c, 3);
  int64_t length = rank ? aten_known_size(c, dim) : 1;
  if (size < 0 || step < 1 || size > length || length == INT64_MAX)
    aten_refuse(c, "windows of %lld at steps of %lld", (long long)size, (long long)step);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  int64_t windows = (length - size) / step + 1, order[BASE_MAX_RANK + 1];
  ir_value x = read(c);
  if (!rank) x = aten_reshape(c->a, x, (int64_t[]){1}, 1);
  ir_value index = offsets(c, (int64_t[]){windows, size}, (int64_t[]){step, 1}, 2, 0);
  ir_value y = IR_EMIT_ARGS(c->b, "aten::index_select", ((ir_value[]){x, index}), 2, ARG_INT("dim", dim));
  for (int32_t i = 0; i < rank + 1; i++) order[i] = i <= dim ? i : i + 1;
  order[rank] = dim + 1;
  y = rank ? aten_permute(c->a, y, order, (uint32_t)rank + 1) : aten_reshape(c->a, y, (int64_t[]){-1}, 1);
  return aten_maybe_alias(c->a, self(c), y, ATEN_UNSURE);
}

/* prims::broadcast_in_dim(a, shape, dimensions): axis i of a becomes axis dimensions[i] of shape */
aten_value aten_lower_broadcast_in_dim(aten_args *c) {
  uint32_t count, next = 0, rank = aten_list_count(c, 1);
  const int64_t *dims = aten_get_ints(c, 2, &count);
  ir_value x = aten_in(c, 0);
  if ((int32_t)count != aten_rank(c->a, x)) aten_refuse(c, "%u dimensions", count);
  for (uint32_t i = 0; i < rank && !ir_build_failed(c->b); i++) {
    if (next < count && dims[next] == i) next++;
    else x = aten_unsqueeze(c->a, x, i);
  }
  return aten_ret_strided(c, aten_expand(c->a, x, aten_ints_value(c, 1)));
}

/* prims::iota(length, *, start, step, dtype, ...) */
aten_value aten_lower_iota(aten_args *c) {
  aten_value end = aten_int_op(c->a, "add", c->args[1], aten_int_op(c->a, "mul", c->args[0], c->args[2]));
  ir_value in[] = {aten_int_value(c, 1), aten_number_value(c->a, &end, TD_I64), aten_int_value(c, 2)};
  ir_value at = ir_emit(c->b, "aten::arange", in, 3, NULL, 0);
  return aten_ret(c, ir_build_cast(c->b, at, aten_get_dtype(c, 3, TD_I64)));
}
