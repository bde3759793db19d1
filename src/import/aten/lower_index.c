/* lower_index.c -- elements by position: advanced indexing and its writes, gather and scatter, masks, search. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <string.h>

static ir_value with_dim(aten_args *c, const char *op, ir_value x, ir_value index, int64_t dim) {
  return IR_EMIT_ARGS(c->b, op, ((ir_value[]){x, index}), 2, ARG_INT("dim", dim));
}
static ir_value line(aten_args *c, ir_value x) { return aten_reshape(c->a, x, (int64_t[]){-1}, 1); }
static ir_value at_least_1d(aten_args *c, ir_value x) { return aten_rank(c->a, x) ? x : line(c, x); }

/* ---- advanced indexing ---- */

/* x[indices] brought to one form: `order` puts the indexed dimensions of x in front, `tuples` [..., k] says where. */
typedef struct lookup {
  int64_t order[BASE_MAX_RANK];
  uint32_t count; /* indexed dimensions */
  int32_t rank;   /* of x */
  int32_t lead;   /* dimensions of x that stand in front of the indices' in the result */
  int32_t index_rank;
  int64_t dims[BASE_MAX_RANK]; /* that are indexed */
  ir_value index[BASE_MAX_RANK];
} lookup;

/* Adds the index of dimension `dim`. A mask stands for the positions where it holds, over as many dimensions as it has.
 */
static int32_t add_index(aten_args *c, lookup *l, int32_t dim, ir_value index) {
  td_dtype d = aten_value_dtype(c->a, index);
  int32_t rank = aten_rank(c->a, index);
  bool is_mask = d == TD_BOOL || d == TD_U8;
  int32_t takes = is_mask ? rank : 1;
  if (ir_build_failed(c->b) || dim + takes > l->rank || takes == 0) {
    aten_refuse(c, "too many indices, or a mask of rank 0");
    return dim;
  }
  ir_value where = is_mask ? IR_EMIT(c->b, "aten::nonzero", ir_build_cast(c->b, index, TD_BOOL)) : IR_NO_VALUE;
  for (int32_t i = 0; i < takes; i++) {
    ir_value at = is_mask ? aten_select(c->a, where, 1, i) : ir_build_cast(c->b, index, TD_I64);
    l->dims[l->count] = dim + i;
    l->index[l->count++] = at;
  }
  return dim + takes;
}

static bool read_lookup(aten_args *c, ir_value x, lookup *l) {
  const aten_value *items = aten_items(c, 1);
  uint32_t count = aten_list_count(c, 1);
  int32_t dim = 0, next = 0;
  *l = (lookup){.rank = aten_rank(c->a, x)};
  for (uint32_t i = 0; i < count && !ir_build_failed(c->b); i++) {
    if (items[i].kind == ATEN_NONE) dim++;
    else dim = add_index(c, l, dim, aten_read(c->a, &items[i]));
  }
  if (ir_build_failed(c->b) || dim > l->rank) return false;
  for (uint32_t i = 0; i < l->count; i++) l->order[next++] = l->dims[i];
  for (int32_t i = 0; i < l->rank; i++) {
    bool indexed = false;
    for (uint32_t k = 0; k < l->count; k++) indexed = indexed || l->dims[k] == i;
    if (!indexed) l->order[next++] = i;
  }
  bool adjacent = true;
  for (uint32_t i = 1; i < l->count; i++) adjacent = adjacent && l->dims[i] == l->dims[i - 1] + 1;
  l->lead = adjacent && l->count ? (int32_t)l->dims[0] : 0;
  for (uint32_t i = 0; i < l->count; i++) {
    int32_t rank = aten_rank(c->a, l->index[i]);
    if (rank > l->index_rank) l->index_rank = rank;
  }
  return !ir_build_failed(c->b);
}

/* The indices broadcast together, as tuples along a last axis. */
static ir_value tuples_of(aten_args *c, const lookup *l) {
  ir_value columns[BASE_MAX_RANK], shape = aten_shape(c->a, l->index[0]);
  if (l->count > 1) {
    ir_value sum = l->index[0];
    for (uint32_t i = 1; i < l->count; i++) sum = aten_binary(c->a, "aten::add", sum, l->index[i]);
    shape = aten_shape(c->a, sum);
  }
  for (uint32_t i = 0; i < l->count; i++) {
    ir_value wide = l->count > 1 ? aten_expand(c->a, l->index[i], shape) : l->index[i];
    columns[i] = aten_unsqueeze(c->a, wide, -1);
  }
  return aten_cat(c->a, columns, l->count, -1);
}

/* The result of a lookup is [index dims, others]; PyTorch puts the index dims where the indexed ones stood when these
 * are neighbours. `back` gives the permutation from the program's order to ours, else from ours. */
static ir_value place(aten_args *c, const lookup *l, ir_value y, bool back) {
  int64_t order[BASE_MAX_RANK];
  int32_t rank = l->index_rank + l->rank - (int32_t)l->count;
  if (l->lead == 0 || rank > BASE_MAX_RANK) return y;
  for (int32_t i = 0; i < rank; i++) {
    int32_t ours = i < l->lead ? l->index_rank + i : i < l->lead + l->index_rank ? i - l->lead : i;
    if (back) order[ours] = i;
    else order[i] = ours;
  }
  return aten_permute(c->a, y, order, (uint32_t)rank);
}

aten_value aten_lower_index(aten_args *c) {
  ir_value x = aten_in(c, 0);
  lookup l;
  if (!read_lookup(c, x, &l)) return ATEN_NOTHING;
  if (!l.count) return aten_ret(c, x);
  if (l.count == 1) return aten_ret(c, with_dim(c, "aten::index_select", x, l.index[0], l.dims[0]));
  ir_value front = aten_permute(c->a, x, l.order, (uint32_t)l.rank);
  return aten_ret(c, place(c, &l, IR_EMIT(c->b, "td::gather_nd", front, tuples_of(c, &l)), false));
}

/* (self, indices, values, accumulate) */
aten_value aten_lower_index_put(aten_args *c) {
  ir_value x = aten_in(c, 0), values = ir_build_cast(c->b, aten_in(c, 2), aten_value_dtype(c->a, x));
  bool adds = aten_get_bool(c, 3);
  const aten_value *items = aten_items(c, 1);
  const ir_type *v = ir_build_type(c->b, values);
  if (aten_list_count(c, 1) == 1 && items[0].kind == ATEN_TENSOR && !adds && v->rank == 0) {
    ir_value mask = aten_read(c->a, &items[0]);
    if (aten_value_dtype(c->a, mask) == TD_BOOL) { /* a mask, and one number */
      int32_t more = aten_rank(c->a, x) - aten_rank(c->a, mask);
      for (int32_t i = 0; i < more && !ir_build_failed(c->b); i++) mask = aten_unsqueeze(c->a, mask, -1);
      return aten_ret(c, IR_EMIT(c->b, "aten::where", mask, values, x));
    }
  }
  lookup l;
  int64_t inverse[BASE_MAX_RANK];
  if (!read_lookup(c, x, &l)) return ATEN_NOTHING;
  if (!l.count) return aten_ret(c, aten_expand(c->a, values, aten_shape(c->a, x)));
  ir_value front = aten_permute(c->a, x, l.order, (uint32_t)l.rank), tuples = tuples_of(c, &l);
  ir_value there = place(c, &l, IR_EMIT(c->b, "td::gather_nd", front, tuples), false);
  ir_value updates = place(c, &l, aten_expand(c->a, values, aten_shape(c->a, there)), true);
  front = IR_EMIT_ARGS(c->b, "td::scatter_nd", ((ir_value[]){front, tuples, updates}), 3,
                       ARG_STR("reduce", adds ? "add" : "none"));
  for (int32_t i = 0; i < l.rank; i++) inverse[l.order[i]] = i;
  return aten_ret(c, aten_permute(c->a, front, inverse, (uint32_t)l.rank));
}

/* ---- along one dimension ---- */

/* gather(self, dim, index) */
aten_value aten_lower_gather(aten_args *c) {
  ir_value x = at_least_1d(c, aten_in(c, 0)), index = aten_in(c, 2);
  const ir_type *type = ir_build_type(c->b, index);
  for (int32_t i = 0; i < type->rank && !ir_build_failed(c->b); i++)
    if (type->dims[i] == 0) /* an empty index may have any rank */
      return aten_ret(c, aten_full(c->a, aten_shape(c->a, index), aten_scalar_like(c->a, x, 0)));
  bool scalar = aten_rank(c->a, index) == 0;
  ir_value y = with_dim(c, "aten::gather", x, at_least_1d(c, index), aten_get_int(c, 1));
  return aten_ret(c, scalar ? aten_reshape(c->a, y, NULL, 0) : y);
}
/* take_along_dim(self, indices, dim?) */
/* The sizes of v, with 1 for that of an axis. */
static ir_value sizes_but(aten_args *c, ir_value v, int64_t axis) {
  ir_value shape = aten_shape(c->a, v), one = ir_build_ints(c->b, (int64_t[]){1}, 1);
  ir_value parts[] = {aten_slice(c->a, shape, 0, 0, axis, 1), one, aten_slice(c->a, shape, 0, axis + 1, INT64_MAX, 1)};
  return aten_cat(c->a, parts, 3, 0);
}
aten_value aten_lower_take_along_dim(aten_args *c) {
  ir_value x = aten_in(c, 0), index = aten_in(c, 1);
  if (!aten_has(c, 2)) return aten_ret(c, with_dim(c, "aten::gather", line(c, x), line(c, index), 0));
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 2), aten_rank(c->a, x));
  /* both broadcast, but for the axis itself */
  ir_value x_wide = aten_full(c->a, sizes_but(c, index, dim), ir_build_scalar(c->b, TD_BOOL, 0));
  ir_value index_wide = aten_full(c->a, sizes_but(c, x, dim), ir_build_scalar(c->b, TD_BOOL, 0));
  ir_value for_x = aten_full(c->a, aten_shape(c->a, x), ir_build_scalar(c->b, TD_BOOL, 0));
  ir_value for_index = aten_full(c->a, aten_shape(c->a, index), ir_build_scalar(c->b, TD_BOOL, 0));
  x = aten_expand(c->a, x, aten_shape(c->a, aten_binary(c->a, "aten::logical_or", x_wide, for_x)));
  index = aten_expand(c->a, index, aten_shape(c->a, aten_binary(c->a, "aten::logical_or", index_wide, for_index)));
  return aten_ret(c, with_dim(c, "aten::gather", x, index, dim));
}
/* index_select(self, dim, index) */
aten_value aten_lower_index_select(aten_args *c) {
  ir_value x = aten_in(c, 0), index = at_least_1d(c, aten_in(c, 2));
  if (aten_rank(c->a, x) == 0) return aten_ret(c, x);
  return aten_ret(c, with_dim(c, "aten::index_select", x, index, aten_get_int(c, 1)));
}
/* take(self, index): of the flattened tensor */
aten_value aten_lower_take(aten_args *c) {
  return aten_ret(c, with_dim(c, "aten::index_select", line(c, aten_in(c, 0)), aten_in(c, 1), 0));
}
/* embedding(weight, indices, ...) */
aten_value aten_lower_embedding(aten_args *c) {
  return aten_ret(c, with_dim(c, "aten::index_select", aten_in(c, 0), aten_in(c, 1), 0));
}

static const char *reduction(aten_args *c, uint32_t i) {
  static const char *const names[][2] = {{"add", "add"},  {"sum", "add"},  {"mean", "add"},
                                         {"prod", "mul"}, {"amax", "max"}, {"amin", "min"},
                                         {"max", "max"},  {"min", "min"},  {"multiply", "mul"}};
  const char *name = aten_get_str(c, i);
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (strcmp(name, names[k][0]) == 0) return names[k][1];
  aten_refuse(c, "the reduction \"%s\"", name);
  return "none";
}
static ir_value scatter(aten_args *c, ir_value x, ir_value index, ir_value updates, int64_t dim, const char *reduce) {
  return IR_EMIT_ARGS(c->b, "aten::scatter", ((ir_value[]){x, index, updates}), 3, ARG_INT("dim", dim),
                      ARG_STR("reduce", reduce));
}
/* scatter(self, dim, index, src or value, *, reduce?), scatter_add; data "add" */
/* As much of `updates`, which may be larger, as the index has places. */
static ir_value as_large(aten_args *c, ir_value updates, ir_value index) {
  const ir_type u = *ir_build_type(c->b, updates), i = *ir_build_type(c->b, index);
  for (int32_t k = 0; k < u.rank && u.rank == i.rank; k++) {
    if (u.dims[k] == i.dims[k]) continue;
    aten_value size = aten_size(c->a, index, k);
    updates = IR_EMIT(c->b, "aten::slice", updates, ir_build_ints(c->b, (int64_t[]){0}, 1), aten_vector(c->a, &size, 1),
                      ir_build_ints(c->b, (int64_t[]){k}, 1));
  }
  return updates;
}
aten_value aten_lower_scatter(aten_args *c) {
  ir_value x = aten_in(c, 0), index = aten_in(c, 2), updates;
  td_dtype d = aten_value_dtype(c->a, x);
  bool scalar = aten_rank(c->a, x) == 0;
  index = at_least_1d(c, index);
  if (c->args[3].kind == ATEN_TENSOR)
    updates = as_large(c, at_least_1d(c, ir_build_cast(c->b, aten_in(c, 3), d)), index);
  else updates = aten_full(c->a, aten_shape(c->a, index), aten_get_number(c, 3, d));
  const char *reduce = c->row->data ? c->row->data : c->schema->count > 4 ? reduction(c, 4) : "none";
  ir_value y = scatter(c, at_least_1d(c, x), index, updates, aten_get_int(c, 1), reduce);
  return aten_ret(c, scalar ? aten_reshape(c->a, y, NULL, 0) : y);
}
/* What a reduction leaves as it is, rank 0 of `d`. */
static ir_value neutral_of(aten_args *c, const char *how, td_dtype d) {
  bool largest = strcmp(how, "max") == 0, least = strcmp(how, "min") == 0;
  if (!largest && !least) return ir_build_scalar(c->b, d, strcmp(how, "mul") == 0 ? 1 : 0);
  if (base_is_float(d)) return ir_build_scalar(c->b, d, largest ? -INFINITY : INFINITY);
  int bits = d == TD_BOOL ? 1 : base_dtype(d)->bits;
  uint64_t all = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
  bool is_signed = base_dtype(d)->is_signed;
  int64_t most = (int64_t)(is_signed ? all >> 1 : all);
  aten_value limit = aten_int(largest ? (is_signed ? -most - 1 : 0) : most);
  return aten_number_value(c->a, &limit, d);
}
/* scatter_reduce(self, dim, index, src, reduce, *, include_self) */
aten_value aten_lower_scatter_reduce(aten_args *c) {
  const bool scalar = aten_rank_in(c, 0) == 0;
  ir_value x = at_least_1d(c, aten_in(c, 0)), index = at_least_1d(c, aten_in(c, 2)),
           src = at_least_1d(c, ir_build_cast(c->b, aten_in(c, 3), aten_value_dtype(c->a, x)));
  src = as_large(c, src, index);
  const char *name = aten_get_str(c, 4);
  int64_t dim = aten_get_int(c, 1);
  bool is_mean = strcmp(name, "mean") == 0, includes = aten_get_bool(c, 5);
  const char *how = reduction(c, 4);
  td_dtype d = aten_value_dtype(c->a, x);
  if (!includes) { /* elements that are written begin at what changes nothing */
    ir_value fill = aten_full(c->a, aten_shape(c->a, index), neutral_of(c, how, d));
    x = scatter(c, x, index, fill, dim, "none");
  }
  ir_value y = scatter(c, x, index, src, dim, how);
  if (is_mean) {
    ir_value ones = aten_full(c->a, aten_shape(c->a, index), ir_build_scalar(c->b, d, 1));
    ir_value start = aten_full(c->a, aten_shape(c->a, x), ir_build_scalar(c->b, d, includes ? 1 : 0));
    ir_value n = scatter(c, start, index, ones, dim, "add");
    n = aten_binary(c->a, "aten::maximum", n, aten_scalar_like(c->a, n, 1));
    y = base_is_float(d) ? aten_binary(c->a, "aten::div", y, n)
                         : IR_EMIT_ARGS(c->b, "aten::div", ((ir_value[]){y, n}), 2, ARG_STR("rounding_mode", "floor"));
  }
  return aten_ret(c, scalar ? aten_reshape(c->a, y, NULL, 0) : y);
}
/* index_reduce(self, dim, index, source, reduce, *, include_self): scatter_reduce of whole slices */
aten_value aten_lower_index_reduce(aten_args *c) {
  ir_value index = at_least_1d(c, aten_in(c, 2)), source = at_least_1d(c, aten_in(c, 3));
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 1), aten_rank(c->a, source));
  for (int32_t i = 0; i < aten_rank(c->a, source) && !ir_build_failed(c->b); i++)
    if (i != dim) index = aten_unsqueeze(c->a, index, i);
  const aten_value args[] = {aten_fresh(c->a, at_least_1d(c, aten_in(c, 0)), ATEN_UNSURE), aten_int(dim),
                             aten_fresh(c->a, aten_expand(c->a, index, aten_shape(c->a, source)), ATEN_UNSURE),
                             aten_fresh(c->a, source, ATEN_UNSURE), c->args[4]};
  const aten_keyword includes = {BASE_STR("include_self"), c->args[5]};
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  aten_value y = aten_call(c->a, "aten::scatter_reduce", "two", args, 5, &includes, 1);
  return ir_build_failed(c->b) || aten_rank_in(c, 0) ? y
                                                     : aten_ret(c, aten_reshape(c->a, aten_read(c->a, &y), NULL, 0));
}
/* put(self, index, source, accumulate): into the flattened tensor */
aten_value aten_lower_put(aten_args *c) {
  ir_value x = aten_in(c, 0), flat = line(c, x), at = aten_unsqueeze(c->a, line(c, aten_in(c, 1)), 1),
           source = line(c, ir_build_cast(c->b, aten_in(c, 2), aten_value_dtype(c->a, x)));
  ir_value y = IR_EMIT_ARGS(c->b, "td::scatter_nd", ((ir_value[]){flat, at, source}), 3,
                            ARG_STR("reduce", aten_get_bool(c, 3) ? "add" : "none"));
  return aten_ret(c, IR_EMIT(c->b, "aten::view", y, aten_shape(c->a, x)));
}

/* index_add, index_copy, index_fill (self, dim, index, source, ...); data: how rows are combined */
aten_value aten_lower_index_rows(aten_args *c) {
  ir_value x = aten_in(c, 0), index = at_least_1d(c, aten_in(c, 2)), source;
  td_dtype d = aten_value_dtype(c->a, x);
  bool scalar = aten_rank(c->a, x) == 0;
  if (aten_is_empty(c->a, x)) return aten_ret(c, x); /* wherever the indices point */
  x = at_least_1d(c, x);
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 1), aten_rank(c->a, x));
  ir_value front = aten_swap(c->a, x, 0, dim), tuples = aten_unsqueeze(c->a, ir_build_cast(c->b, index, TD_I64), 1);
  ir_value there = IR_EMIT(c->b, "td::gather_nd", front, tuples);
  if (c->args[3].kind == ATEN_TENSOR && strcmp(c->row->data, "fill") != 0) {
    source = ir_build_cast(c->b, aten_in(c, 3), d);
    source = scalar || aten_rank(c->a, source) == 0 ? aten_reshape(c->a, source, (int64_t[]){1}, 1)
                                                    : aten_swap(c->a, source, 0, dim);
    if (c->schema->count > 4) source = aten_binary(c->a, "aten::mul", source, aten_get_number(c, 4, d));
  } else source = aten_full(c->a, aten_shape(c->a, there), aten_as(c->a, &c->args[3], d));
  bool adds = strcmp(c->row->data, "add") == 0;
  front = IR_EMIT_ARGS(c->b, "td::scatter_nd", ((ir_value[]){front, tuples, source}), 3,
                       ARG_STR("reduce", adds ? "add" : "none"));
  ir_value y = aten_swap(c->a, front, 0, dim);
  return aten_ret(c, scalar ? aten_reshape(c->a, y, NULL, 0) : y);
}

/* ---- masks ---- */

aten_value aten_lower_nonzero(aten_args *c) { return aten_ret(c, IR_EMIT(c->b, "aten::nonzero", aten_in(c, 0))); }
/* nonzero_static(self, *, size, fill_value): the first `size` positions, filled up */
aten_value aten_lower_nonzero_static(aten_args *c) {
  ir_value x = aten_in(c, 0);
  int32_t rank = aten_rank(c->a, x);
  aten_value sizes[] = {c->args[1], aten_int(rank)}, zero = aten_int(0);
  ir_value fill = aten_full(c->a, aten_vector(c->a, sizes, 2), aten_get_number(c, 2, TD_I64));
  ir_value y = aten_cat(c->a, (ir_value[]){IR_EMIT(c->b, "aten::nonzero", x), fill}, 2, 0);
  return aten_ret(c, IR_EMIT(c->b, "aten::slice", y, aten_vector(c->a, &zero, 1), aten_vector(c->a, sizes, 1),
                             ir_build_ints(c->b, (int64_t[]){0}, 1)));
}
aten_value aten_lower_nonzero_numpy(aten_args *c) {
  ir_value x = at_least_1d(c, aten_in(c, 0)), rows = IR_EMIT(c->b, "aten::nonzero", x);
  aten_value list = aten_list_of(c->a, NULL, 0);
  int32_t rank = aten_rank(c->a, x);
  for (int32_t i = 0; i < rank; i++) aten_list_append(c->a, list.u.list, aten_ret(c, aten_select(c->a, rows, 1, i)));
  return list;
}
static void broadcast_pair(aten_args *c, ir_value *x, ir_value *mask) {
  *mask = ir_build_cast(c->b, *mask, TD_BOOL);
  ir_value zero = aten_full(c->a, aten_shape(c->a, *x), ir_build_scalar(c->b, TD_BOOL, 0));
  *mask = aten_binary(c->a, "aten::logical_or", *mask, zero);
  *x = aten_expand(c->a, *x, aten_shape(c->a, *mask));
}
aten_value aten_lower_masked_select(aten_args *c) {
  ir_value x = aten_in(c, 0), mask = aten_in(c, 1);
  broadcast_pair(c, &x, &mask);
  return aten_ret(c,
                  IR_EMIT_ARGS(c->b, "td::compress", ((ir_value[]){line(c, x), line(c, mask)}), 2, ARG_INT("dim", 0)));
}
/* (self, mask, source): the k-th element where the mask holds becomes the k-th of source */
aten_value aten_lower_masked_scatter(aten_args *c) {
  ir_value x = aten_in(c, 0), mask = aten_in(c, 1),
           source = line(c, ir_build_cast(c->b, aten_in(c, 2), aten_value_dtype(c->a, x)));
  broadcast_pair(c, &x, &mask);
  ir_value flat = ir_build_cast(c->b, line(c, mask), TD_I64);
  ir_value at = aten_binary(c->a, "aten::mul", IR_EMIT(c->b, "aten::cumsum", flat, ir_build_int(c->b, 0)), flat);
  ir_value zero = aten_full(c->a, ir_build_ints(c->b, (int64_t[]){1}, 1), aten_scalar_like(c->a, source, 0));
  source =
      aten_cat(c->a, (ir_value[]){zero, source}, 2, 0); /* what is not masked picks the zero: a source may be empty */
  ir_value gathered =
      IR_EMIT(c->b, "aten::view", with_dim(c, "aten::index_select", source, at, 0), aten_shape(c->a, x));
  return aten_ret(c, IR_EMIT(c->b, "aten::where", mask, gathered, x));
}

/* ---- search ---- */

/* How many of the sorted `edges` lie below each of `x` (or at it, with `right`); both broadcast, edges last. */
static ir_value count_below(aten_args *c, ir_value x, ir_value edges, bool right, td_dtype out) {
  td_dtype d = aten_promote_types(aten_value_dtype(c->a, x), aten_value_dtype(c->a, edges));
  ir_value in[] = {ir_build_cast(c->b, edges, d), ir_build_cast(c->b, x, d)};
  return ir_build_cast(c->b, IR_EMIT_ARGS(c->b, "td::search_sorted", in, 2, ARG_BOOL("right", right)), out);
}
/* bucketize(self, boundaries, *, out_int32, right) */
aten_value aten_lower_bucketize(aten_args *c) {
  ir_value x = aten_as(c->a, &c->args[0], c->args[0].kind == ATEN_TENSOR ? aten_dtype_in(c, 0) : TD_F32);
  return aten_ret(c, count_below(c, x, aten_in(c, 1), aten_get_bool(c, 3), aten_get_bool(c, 2) ? TD_I32 : TD_I64));
}
/* searchsorted(sorted_sequence, self, *, out_int32, right, side?, sorter?) */
aten_value aten_lower_searchsorted(aten_args *c) {
  ir_value edges = aten_in(c, 0);
  ir_value x = aten_as(c->a, &c->args[1], c->args[1].kind == ATEN_TENSOR ? aten_dtype_in(c, 1) : TD_F32);
  bool right = aten_get_bool(c, 3) || (aten_has(c, 4) && strcmp(aten_get_str(c, 4), "right") == 0);
  if (aten_has(c, 5)) edges = with_dim(c, "aten::gather", edges, aten_in(c, 5), -1);
  return aten_ret(c, count_below(c, x, edges, right, aten_get_bool(c, 2) ? TD_I32 : TD_I64));
}

/* ---- stretches ---- */

enum { SEGMENT_LENGTHS = 2, SEGMENT_OFFSETS = 4, SEGMENT_AXIS, SEGMENT_INITIAL = 7 };

/* Where the stretches begin along the axis, and where the last one ends. */
static ir_value segment_bounds(aten_args *c, int64_t axis) {
  if (aten_has(c, SEGMENT_OFFSETS)) return ir_build_cast(c->b, aten_in(c, SEGMENT_OFFSETS), TD_I64);
  if (!aten_has(c, SEGMENT_LENGTHS)) aten_refuse(c, "neither \"lengths\" nor \"offsets\" is given");
  ir_value lengths = ir_build_cast(c->b, aten_in(c, SEGMENT_LENGTHS), TD_I64);
  ir_value ends = IR_EMIT(c->b, "aten::cumsum", lengths, ir_build_int(c->b, axis));
  return IR_EMIT(c->b, "aten::constant_pad_nd", ends, ir_build_ints(c->b, (int64_t[]){1, 0}, 2), ir_build_int(c->b, 0),
                 ir_build_ints(c->b, &axis, 1));
}
/* For each element of x the number of bounds at or before it: its stretch, counted from 1. */
static ir_value segment_of(aten_args *c, ir_value x, ir_value bounds, int64_t axis) {
  aten_value n = aten_size(c->a, x, axis);
  ir_value at =
      IR_EMIT(c->b, "aten::arange", ir_build_int(c->b, 0), aten_number_value(c->a, &n, TD_I64), ir_build_int(c->b, 1));
  if (axis > 0)
    at = aten_expand(
        c->a, at,
        aten_cat(c->a, (ir_value[]){aten_slice(c->a, aten_shape(c->a, bounds), 0, 0, -1, 1), aten_vector(c->a, &n, 1)},
                 2, 0));
  ir_value stretch = count_below(c, at, bounds, true, TD_I64);
  for (int64_t i = axis + 1; i < aten_rank(c->a, x) && !ir_build_failed(c->b); i++)
    stretch = aten_unsqueeze(c->a, stretch, -1);
  return aten_expand(c->a, stretch, aten_shape(c->a, x));
}
/* segment_reduce(data, reduce, *, lengths?, indices?, offsets?, axis, unsafe, initial?): sums are taken in bins, of
 * which the first and the last are for what lies outside of all stretches */
aten_value aten_lower_segment_reduce(aten_args *c) {
  ir_value x = aten_in(c, 0);
  const int32_t rank = aten_rank(c->a, x);
  const int64_t axis = ir_build_axis(c->b, aten_get_int(c, SEGMENT_AXIS), rank);
  const td_dtype d = aten_value_dtype(c->a, x);
  const char *how = reduction(c, 1);
  const bool given = aten_has(c, SEGMENT_INITIAL);
  ir_value bounds = segment_bounds(c, axis),
           start = given ? aten_get_number(c, SEGMENT_INITIAL, d) : neutral_of(c, how, d);
  if (aten_rank(c->a, bounds) != axis + 1) aten_refuse(c, "lengths of another rank than the axes up to \"axis\"");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  aten_value sizes[BASE_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) sizes[i] = aten_size(c->a, i == axis ? bounds : x, i);
  sizes[axis] = aten_int_op(c->a, "add", sizes[axis], aten_int(1));
  ir_value bins = aten_full(c->a, aten_vector(c->a, sizes, (uint32_t)rank), start);
  ir_value y = aten_slice(c->a, scatter(c, bins, segment_of(c, x, bounds, axis), x, axis, how), axis, 1, -1, 1);
  if (strcmp(aten_get_str(c, 1), "mean") == 0) { /* of nothing it is NaN, or the initial value */
    ir_value n = aten_binary(c->a, "aten::sub", aten_slice(c->a, bounds, axis, 1, INT64_MAX, 1),
                             aten_slice(c->a, bounds, axis, 0, -1, 1));
    if (given) n = aten_binary(c->a, "aten::maximum", n, ir_build_int(c->b, 1));
    for (int64_t i = axis + 1; i < rank; i++) n = aten_unsqueeze(c->a, n, -1);
    y = aten_binary(c->a, "aten::div", y, ir_build_cast(c->b, n, d));
  }
  return aten_ret(c, y);
}

/* isin(elements, test_elements, *, assume_unique, invert) */
aten_value aten_lower_isin(aten_args *c) {
  aten_mix m = {0};
  for (uint32_t i = 0; i < 2; i++) aten_mix_value(c->a, &m, &c->args[i]);
  td_dtype d = aten_mix_result(&m);
  ir_value x = aten_unsqueeze(c->a, aten_as(c->a, &c->args[0], d), -1), any = line(c, aten_as(c->a, &c->args[1], d));
  ir_value same = aten_binary(c->a, "aten::eq", x, any);
  int64_t last = -1;
  ir_value y = IR_EMIT_ARGS(c->b, "aten::any", &same, 1, ARG_INTS("dim", &last, 1), ARG_BOOL("keepdim", false));
  return aten_ret(c, aten_get_bool(c, 3) ? IR_EMIT(c->b, "aten::logical_not", y) : y);
}

/* _unique2(self, sorted, return_inverse, return_counts), unique_dim(self, dim, ...); always in order */
aten_value aten_lower_unique(aten_args *c) {
  bool by_dim = base_str_is(c->schema->params[1].name, "dim");
  ir_value x = aten_in(c, 0), out[4];
  base_arg args[] = {ARG_INT("sorted", 1), ARG_INT("dim", by_dim ? aten_get_int(c, 1) : 0)};
  ir_emit_many(c->b, "td::unique", &x, 1, args, by_dim ? 2 : 1, out, 4);
  ir_value inverse = by_dim ? out[2] : IR_EMIT(c->b, "aten::view", out[2], aten_shape(c->a, x));
  return aten_ret_many(c, (ir_value[]){out[0], inverse, out[3]}, 3);
}

/* unique_consecutive(self, return_inverse, return_counts, dim?) */
aten_value aten_lower_unique_consecutive(aten_args *c) {
  bool by_dim = aten_has(c, 3);
  ir_value x = aten_in(c, 0), out[4];
  base_arg args[] = {ARG_BOOL("consecutive", 1), ARG_INT("dim", by_dim ? aten_get_int(c, 3) : 0)};
  ir_emit_many(c->b, "td::unique", &x, 1, args, by_dim ? 2 : 1, out, 4);
  ir_value inverse = by_dim ? out[2] : IR_EMIT(c->b, "aten::view", out[2], aten_shape(c->a, x));
  return aten_ret_many(c, (ir_value[]){out[0], inverse, out[3]}, 3);
}

/* ---- embedding_bag ---- */

/* Which bag each index belongs to: how many bags begin at or before it, less one. */
static ir_value bag_of(aten_args *c, ir_value indices, ir_value offsets) {
  aten_value n = aten_size(c->a, indices, 0);
  ir_value at =
      IR_EMIT(c->b, "aten::arange", ir_build_int(c->b, 0), aten_number_value(c->a, &n, TD_I64), ir_build_int(c->b, 1));
  return aten_with_scalar(c->a, "aten::sub", count_below(c, at, ir_build_cast(c->b, offsets, TD_I64), true, TD_I64), 1);
}
/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights?, include_last_offset, padding_idx)
 */
aten_value aten_lower_embedding_bag(aten_args *c) {
  ir_value weight = aten_in(c, 0), indices = line(c, aten_in(c, 1)), offsets = aten_in(c, 2);
  int64_t mode = aten_get_int(c, 4), padding = aten_position(c, "padding_idx"),
          last = aten_position(c, "include_last_offset");
  td_dtype d = aten_value_dtype(c->a, weight);
  if (last >= 0 && aten_get_bool(c, (uint32_t)last)) offsets = aten_slice(c->a, offsets, 0, 0, -1, 1);
  const bool empty = aten_is_empty(c->a, offsets); /* no bag takes any row */
  if (empty) indices = aten_slice(c->a, indices, 0, 0, 0, 1);
  ir_value bags = bag_of(c, indices, offsets), rows = with_dim(c, "aten::index_select", weight, indices, 0);
  ir_value keep = aten_full(c->a, aten_shape(c->a, indices), ir_build_scalar(c->b, d, 1));
  if (padding >= 0 && aten_has(c, (uint32_t)padding)) {
    int64_t at = aten_get_int(c, (uint32_t)padding);
    aten_value size = aten_size(c->a, weight, 0);
    bool none = at == -1 && strcmp(c->name, "aten::embedding_bag") != 0; /* the inner operators mean nothing by -1 */
    if (at < 0 && aten_is_known(&size)) at += size.u.i;
    if (!none) keep = ir_build_cast(c->b, aten_with_scalar(c->a, "aten::ne", indices, (double)at), d);
  }
  if (aten_has(c, 6) && !empty)
    rows = aten_binary(c->a, "aten::mul", rows, aten_unsqueeze(c->a, line(c, aten_in(c, 6)), 1));
  aten_value sizes[] = {aten_size(c->a, offsets, 0), aten_size(c->a, weight, 1)};
  ir_value tuples = aten_unsqueeze(c->a, bags, 1), shape = aten_vector(c->a, sizes, 2);
  ir_value none = aten_full(c->a, aten_vector(c->a, sizes, 1), ir_build_scalar(c->b, d, 0));
  ir_value n = IR_EMIT_ARGS(c->b, "td::scatter_nd", ((ir_value[]){none, tuples, keep}), 3, ARG_STR("reduce", "add")), y;
  ir_value column = aten_unsqueeze(c->a, n, 1);
  if (mode == 2) { /* the largest; of an empty bag 0 */
    ir_value out = aten_full(c->a, shape, ir_build_scalar(c->b, d, -INFINITY));
    ir_value stays = aten_with_scalar(c->a, "aten::ne", aten_unsqueeze(c->a, keep, 1), 0);
    rows = IR_EMIT(c->b, "aten::where", stays, rows, ir_build_scalar(c->b, d, -INFINITY));
    y = IR_EMIT_ARGS(c->b, "td::scatter_nd", ((ir_value[]){out, tuples, rows}), 3, ARG_STR("reduce", "max"));
    y = IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::gt", column, 0), y, ir_build_scalar(c->b, d, 0));
  } else {
    rows = aten_binary(c->a, "aten::mul", rows, aten_unsqueeze(c->a, keep, 1));
    ir_value out = aten_full(c->a, shape, ir_build_scalar(c->b, d, 0));
    y = IR_EMIT_ARGS(c->b, "td::scatter_nd", ((ir_value[]){out, tuples, rows}), 3, ARG_STR("reduce", "add"));
    if (mode == 1)
      y = aten_binary(c->a, "aten::div", y, aten_binary(c->a, "aten::maximum", column, ir_build_scalar(c->b, d, 1)));
  }
  return aten_ret_many(c, (ir_value[]){y, bags, ir_build_cast(c->b, n, TD_I64), offsets}, 4);
}
