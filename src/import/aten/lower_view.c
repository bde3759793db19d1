/* lower_view.c -- views: handles onto the same cell. Whether reshape, contiguous and flatten show or copy depends on
 * strides: where these are not known, the result is a cell that may be the same (aten_maybe_alias). */
#include "import/aten/lower_view_priv.h"

#include <string.h>

/* A shape of the program as one of the graph: complex numbers have a last axis of 2. */
static ir_value full_shape(aten_args *c, ir_value shape) {
  if (!is_complex(c)) return shape;
  return aten_cat(c->a, (ir_value[]){shape, ir_build_ints(c->b, (int64_t[]){2}, 1)}, 2, 0);
}

/* The same memory, as a tensor of its own: squeeze_ of one leaves the other as it is. */
aten_value aten_lower_alias(aten_args *c) {
  return c->args[0].kind == ATEN_TENSOR ? aten_alias(c->a, &c->args[0]) : c->args[0];
}

/* ---- the same order ---- */

/* Sizes with one -1 are made explicit, so that writing back through the view has them. */
static aten_value reshape_to(aten_args *c, ir_value shape) {
  return aten_view_reshape(c->a, self(c), full_shape(c, shape));
}

aten_value aten_lower_view(aten_args *c) { return reshape_to(c, aten_ints_value(c, 1)); }
/* view(dtype): by bits */
aten_value aten_lower_view_dtype(aten_args *c) {
  td_dtype d = aten_get_dtype(c, 1, TD_F32);
  ir_value x = aten_in(c, 0);
  if (aten_value_dtype(c->a, x) == d) return c->args[0];
  return aten_maybe_alias(c->a, self(c), IR_EMIT_ARGS(c->b, "td::bit_cast", &x, 1, ARG_DTYPE("dtype", d)), ATEN_UNSURE);
}

/* A view where the tensor is contiguous, else what may be one. */
static aten_value reshape_or_copy(aten_args *c, ir_value shape) {
  if (self(c)->u.tensor->dense == ATEN_DENSE) return reshape_to(c, shape);
  return aten_maybe_alias(c->a, self(c), IR_EMIT(c->b, "aten::view", read(c), full_shape(c, shape)), ATEN_UNSURE);
}
aten_value aten_lower_reshape(aten_args *c) { return reshape_or_copy(c, aten_ints_value(c, 1)); }
aten_value aten_lower_reshape_as(aten_args *c) { return reshape_or_copy(c, aten_shape(c->a, aten_in(c, 1))); }
aten_value aten_lower_view_as(aten_args *c) { return reshape_to(c, aten_shape(c->a, aten_in(c, 1))); }

aten_value aten_lower_contiguous(aten_args *c) {
  if (self(c)->u.tensor->dense == ATEN_DENSE && (!aten_has(c, 1) || aten_get_int(c, 1) < 2)) return *self(c);
  return aten_maybe_alias(c->a, self(c), read(c), aten_has(c, 1) && aten_get_int(c, 1) >= 2 ? ATEN_UNSURE : ATEN_DENSE);
}

/* Sizes [from, to) of x as an i64 vector. */
static ir_value sizes(aten_args *c, ir_value x, int64_t from, int64_t to) {
  return aten_slice(c->a, aten_shape(c->a, x), 0, from, to, 1);
}

/* (self, start_dim, end_dim) */
aten_value aten_lower_flatten(aten_args *c) {
  int32_t rank = rank_of(c);
  if (rank == 0) return reshape_to(c, ir_build_ints(c->b, (int64_t[]){1}, 1));
  int64_t start = c->schema->count > 1 ? ir_build_axis(c->b, aten_get_int(c, 1), rank) : 0;
  int64_t end = c->schema->count > 2 ? ir_build_axis(c->b, aten_get_int(c, 2), rank) : rank - 1;
  if (start == end || ir_build_failed(c->b)) return *self(c);
  ir_value x = read(c), parts[3], minus = ir_build_ints(c->b, (int64_t[]){-1}, 1);
  uint32_t n = 0;
  if (start > 0) parts[n++] = sizes(c, x, 0, start);
  parts[n++] = minus;
  if (end < rank - 1) parts[n++] = sizes(c, x, end + 1, rank);
  return reshape_or_copy(c, aten_cat(c->a, parts, n, 0));
}

/* (self, dim, sizes) */
aten_value aten_lower_unflatten(aten_args *c) {
  int32_t rank = rank_of(c);
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 1), rank);
  ir_value x = read(c), parts[3];
  uint32_t n = 0;
  if (dim > 0) parts[n++] = sizes(c, x, 0, dim);
  parts[n++] = aten_ints_value(c, 2);
  if (dim < rank - 1) parts[n++] = sizes(c, x, dim + 1, rank);
  return reshape_to(c, aten_cat(c->a, parts, n, 0));
}

aten_value aten_lower_ravel(aten_args *c) { return reshape_or_copy(c, ir_build_ints(c->b, (int64_t[]){-1}, 1)); }

/* The caller's own size `name` must not be 1: known before it runs. */
static void guard_axis(aten_args *c, base_dim size, const char *name) {
  const char *what = base_arena_format(
      c->a->arena,
      "%s must not be 1: %s (%s) would drop that dimension, and how many there are must be known before it", name,
      c->name, c->b->frame ? c->b->frame->name : "");
  const base_guard guard = {.left = size, .right = 1, .relation = BASE_NE, .text = what};
  if (what) ir_build_take(c->b, ir_add_guard(c->b->graph, &guard, c->b->err));
  else ir_build_take(c->b, base_no_memory(c->b->err, "a condition"));
}

/* The run ends where `axis` is not what it was taken for. */
static void check_axis(aten_args *c, ir_value x, int32_t axis, bool goes) {
  const aten_value at = aten_size(c->a, x, axis);
  const ir_value holds = aten_with_scalar(c->a, goes ? "aten::ne" : "aten::eq", aten_graph_value(c->a, &at), 1);
  IR_EMIT_ARGS(
      c->b, "td::refuse", &holds, 1,
      ARG_STR("message", goes ? "a dimension that was to have one element has not, so it is not dropped: how "
                                "many there are must be known before the model runs"
                              : "a dimension has one element, and would be dropped: how many there are must be "
                                "known before the model runs"));
}

/* Does `axis`, of open size, go? `named`: the program says which axis. */
static bool drops_open(aten_args *c, ir_value x, int32_t axis, bool named) {
  const base_dims *dims = &c->b->graph->dims;
  const base_dim size = ir_build_type(c->b, x)->dims[axis];
  const char *callers = base_dim_from_data(dims, size) ? NULL : base_dim_symbol_name(dims, size);
  const bool goes = named && !callers && c->a->squeeze == ATEN_SQUEEZE_GOES;
  if (c->a->squeeze == ATEN_SQUEEZE_GUARDED) return false;
  c->a->kept_open = c->a->kept_open || (named && !callers && !goes);
  if (callers && c->b->block.id == c->b->graph->top.id) guard_axis(c, size, callers);
  else check_axis(c, x, axis, goes);
  return goes;
}

/* squeeze of the axes in `drop` whose size is 1. */
static aten_value squeeze_axes(aten_args *c, const bool *drop, bool named) {
  int32_t rank = rank_of(c);
  const ir_type type = *ir_build_type(c->b, read(c));
  int64_t keep[BASE_MAX_RANK];
  uint32_t kept = 0;
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  for (int32_t i = 0; i < rank; i++) {
    const bool is_open = drop[i] && !base_dim_known(type.dims[i]);
    if (is_open ? !drops_open(c, read(c), i, named) : !drop[i] || type.dims[i] != 1) keep[kept++] = i;
  }
  if (kept == (uint32_t)rank) return *self(c);
  ir_value shape = aten_shape(c->a, read(c));
  ir_value index = ir_build_ints(c->b, keep, kept);
  ir_value to =
      kept ? IR_EMIT_ARGS(c->b, "aten::index_select", ((ir_value[]){shape, index}), 2, ARG_INT("dim", 0)) : index;
  return reshape_to(c, to);
}
/* (self), (self, dim), (self, dims) */
aten_value aten_lower_squeeze(aten_args *c) {
  int32_t rank = rank_of(c);
  bool drop[BASE_MAX_RANK] = {false};
  uint32_t count = 1;
  int64_t one = 0;
  const int64_t *dims = &one;
  if (c->schema->count == 1)
    for (int32_t i = 0; i < rank; i++) drop[i] = true;
  else if (c->args[1].kind == ATEN_LIST) dims = aten_get_ints(c, 1, &count);
  else one = aten_get_int(c, 1);
  for (uint32_t i = 0; c->schema->count > 1 && i < count && rank && !ir_build_failed(c->b); i++)
    drop[ir_build_axis(c->b, dims[i], rank)] = true;
  return squeeze_axes(c, drop, c->schema->count > 1);
}
aten_value aten_lower_unsqueeze(aten_args *c) {
  int32_t rank = rank_of(c);
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 1), rank + 1);
  ir_value x = read(c), parts[3];
  uint32_t n = 0;
  if (dim > 0) parts[n++] = sizes(c, x, 0, dim);
  parts[n++] = ir_build_ints(c->b, (int64_t[]){1}, 1);
  if (dim < rank) parts[n++] = sizes(c, x, dim, rank);
  return reshape_to(c, aten_cat(c->a, parts, n, 0));
}

/* data: the rank at least */
aten_value aten_lower_atleast(aten_args *c) {
  int32_t rank = rank_of(c), least = c->row->data[0] - '0';
  if (rank >= least) return *self(c);
  ir_value one = ir_build_ints(c->b, (int64_t[]){1, 1, 1}, (uint32_t)(least - rank)), shape = aten_shape(c->a, read(c));
  if (least == 3 && rank == 2) return reshape_to(c, aten_cat(c->a, (ir_value[]){shape, one}, 2, 0));
  if (least == 3 && rank == 1) {
    ir_value side = ir_build_ints(c->b, (int64_t[]){1}, 1);
    return reshape_to(c, aten_cat(c->a, (ir_value[]){side, shape, side}, 3, 0));
  }
  return reshape_to(c, aten_cat(c->a, (ir_value[]){one, shape}, 2, 0));
}

/* ---- permuted ---- */

static aten_value permuted(aten_args *c, int64_t *order, int32_t rank) {
  if (is_complex(c)) order[rank] = rank;
  return aten_view_permute(c->a, self(c), order, (uint32_t)rank + (is_complex(c) ? 1 : 0));
}

aten_value aten_lower_permute(aten_args *c) {
  uint32_t count;
  int64_t order[BASE_MAX_RANK + 1];
  const int64_t *dims = aten_get_ints(c, 1, &count);
  if (count > BASE_MAX_RANK || (int32_t)count != rank_of(c)) {
    aten_refuse(c, "%u axes for a tensor of rank %d", count, rank_of(c));
    return ATEN_NOTHING;
  }
  for (uint32_t i = 0; i < count; i++) order[i] = ir_build_axis(c->b, dims[i], (int32_t)count);
  return permuted(c, order, (int32_t)count);
}

static aten_value swapped(aten_args *c, int64_t d0, int64_t d1) {
  int32_t rank = rank_of(c);
  int64_t order[BASE_MAX_RANK + 1];
  if (rank == 0) return *self(c);
  d0 = ir_build_axis(c->b, d0, rank);
  d1 = ir_build_axis(c->b, d1, rank);
  for (int32_t i = 0; i < rank; i++) order[i] = i == d0 ? d1 : i == d1 ? d0 : i;
  return permuted(c, order, rank);
}
aten_value aten_lower_transpose(aten_args *c) { return swapped(c, aten_get_int(c, 1), aten_get_int(c, 2)); }
aten_value aten_lower_t(aten_args *c) { return rank_of(c) < 2 ? *self(c) : swapped(c, 0, 1); }
/* data "H": conjugated, too */
aten_value aten_lower_mt(aten_args *c) {
  if (!is_complex(c) || !c->row->data) return swapped(c, -2, -1);
  const aten_value transposed = swapped(c, -2, -1);
  aten_args other = *c;
  other.args = &transposed;
  return ir_build_failed(c->b) ? ATEN_NOTHING : aten_lower_conj(&other);
}
/* All axes in the other order. */
aten_value aten_lower_numpy_t(aten_args *c) {
  int32_t rank = rank_of(c);
  int64_t order[BASE_MAX_RANK + 1];
  for (int32_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
  return permuted(c, order, rank);
}

/* (self, source, destination), each an int or a list */
aten_value aten_lower_movedim(aten_args *c) {
  int32_t rank = rank_of(c);
  uint32_t count = 1, to_count = 1;
  int64_t one[2], order[BASE_MAX_RANK + 1];
  bool is_list = c->args[1].kind == ATEN_LIST, moved[BASE_MAX_RANK] = {false}, filled[BASE_MAX_RANK] = {false};
  if (!is_list)
    for (uint32_t i = 0; i < 2; i++) one[i] = aten_get_int(c, i + 1);
  const int64_t *from = is_list ? aten_get_ints(c, 1, &count) : &one[0];
  const int64_t *to = is_list ? aten_get_ints(c, 2, &to_count) : &one[1];
  if (count != to_count || count > (uint32_t)rank) aten_refuse(c, "as many sources as destinations are needed");
  for (uint32_t i = 0; i < count && !ir_build_failed(c->b); i++) {
    int64_t f = ir_build_axis(c->b, from[i], rank), t = ir_build_axis(c->b, to[i], rank);
    order[t] = f;
    moved[f] = filled[t] = true;
  }
  for (int32_t i = 0, next = 0; i < rank && !ir_build_failed(c->b); i++) {
    if (filled[i]) continue;
    while (next < rank && moved[next]) next++;
    order[i] = next++;
  }
  return ir_build_failed(c->b) ? ATEN_NOTHING : permuted(c, order, rank);
}

/* ---- parts ---- */

/* (self, dim, start?, end?, step) */
aten_value aten_lower_slice(aten_args *c) {
  int32_t rank = rank_of(c);
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 1), rank);
  const aten_value *start = &c->args[2], *end = &c->args[3];
  bool from_start = start->kind == ATEN_NONE || (aten_is_known(start) && start->u.i == 0);
  bool to_end = end->kind == ATEN_NONE || (aten_is_known(end) && end->u.i == INT64_MAX);
  bool whole = aten_is_known(&c->args[4]) && c->args[4].u.i == 1;
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  if (from_start && to_end && whole) return *self(c);
  ir_value first = start->kind == ATEN_NONE ? i64(c, 0) : aten_vector(c->a, start, 1);
  ir_value last = end->kind == ATEN_NONE ? i64(c, INT64_MAX) : aten_vector(c->a, end, 1);
  return aten_view_slice(c->a, self(c), dim, first, last, aten_vector(c->a, &c->args[4], 1));
}

/* `of` without its axis `dim`, which has one element. */
static aten_value drop_axis(aten_args *c, const aten_value *of, int64_t dim) {
  ir_value v = aten_read(c->a, of);
  int32_t rank = aten_rank(c->a, v);
  ir_value parts[2], shape = aten_shape(c->a, v);
  uint32_t n = 0;
  if (dim > 0) parts[n++] = aten_slice(c->a, shape, 0, 0, dim, 1);
  if (dim < rank - 1) parts[n++] = aten_slice(c->a, shape, 0, dim + 1, rank, 1);
  ir_value to = n ? aten_cat(c->a, parts, n, 0) : ir_build_ints(c->b, NULL, 0);
  return aten_view_reshape(c->a, of, to);
}

static aten_value select_at(aten_args *c, int64_t dim, const aten_value *index) {
  ir_value first = aten_vector(c->a, index, 1), last;
  if (aten_is_known(index)) last = i64(c, index->u.i == -1 || index->u.i == INT64_MAX ? INT64_MAX : index->u.i + 1);
  else { /* the last one is behind -1 */ ir_value next = aten_with_scalar(c->a, "aten::add", first, 1);
    last = IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::eq", next, 0), i64(c, INT64_MAX), next);
  }
  const ir_type *type = ir_build_type(c->b, read(c));
  if (aten_is_known(index) && !ir_build_failed(c->b) && base_dim_known(type->dims[dim]) &&
      (index->u.i >= type->dims[dim] || index->u.i < -type->dims[dim]))
    aten_refuse(c, "index %lld of an axis of %lld", (long long)index->u.i, (long long)type->dims[dim]);
  if (!aten_is_known(index)) { /* one element, whatever the index: inference cannot see it */
    ir_value at = IR_EMIT(
        c->b, "aten::where", aten_with_scalar(c->a, "aten::lt", first, 0),
        aten_binary(c->a, "aten::add", first, aten_slice(c->a, aten_shape(c->a, read(c)), 0, dim, dim + 1, 1)), first);
    first = at;
    last = aten_with_scalar(c->a, "aten::add", at, 1);
  }
  aten_value part = aten_view_slice(c->a, self(c), dim, first, last, i64(c, 1));
  return drop_axis(c, &part, dim);
}
aten_value aten_lower_select(aten_args *c) {
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 1), rank_of(c));
  return ir_build_failed(c->b) ? ATEN_NOTHING : select_at(c, dim, &c->args[2]);
}

/* (self, dim, start, length) */
aten_value aten_lower_narrow(aten_args *c) {
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 1), rank_of(c));
  aten_value start = c->args[2];
  if (start.kind == ATEN_TENSOR)
    start = aten_number(c->a, ir_build_to_scalar(c->b, aten_as(c->a, &start, TD_I64), TD_I64, "start"));
  if (aten_is_known(&start) && start.u.i < 0) start = aten_int_op(c->a, "add", start, aten_size(c->a, read(c), dim));
  aten_value end = aten_int_op(c->a, "add", start, c->args[3]);
  return aten_view_slice(c->a, self(c), dim, aten_vector(c->a, &start, 1), aten_vector(c->a, &end, 1), i64(c, 1));
}

/* Pieces of known bounds along dim, as a list of views. */
static void add_piece(aten_args *c, aten_value *list, int64_t dim, int64_t from, int64_t to) {
  aten_list_append(c->a, list->u.list, aten_view_slice(c->a, self(c), dim, i64(c, from), i64(c, to), i64(c, 1)));
}

enum { MAX_PIECES = 1 << 16 };

/* At least `least` of them: chunks of nothing are as many as were asked for. */
static aten_value pieces_of(aten_args *c, int64_t dim, int64_t size, int64_t each, int64_t least) {
  aten_value list = aten_list_of(c->a, NULL, 0);
  if (each <= 0 || size / (each ? each : 1) > MAX_PIECES || (size == 0 && least > MAX_PIECES)) {
    if (each == 0 && size == 0) add_piece(c, &list, dim, 0, 0);
    else aten_refuse(c, "pieces of %lld elements", (long long)each);
    return list;
  }
  for (int64_t at = 0, end, n = 0; at < size || n < least; at = end, n++) {
    end = each < size - at ? at + each : size;
    add_piece(c, &list, dim, at, end);
  }
  return list;
}

int64_t aten_known_size(aten_args *c, int64_t dim) {
  aten_value size = aten_size(c->a, read(c), dim);
  if (!aten_is_known(&size)) {
    aten_refuse(c, "the size of axis %lld must be known before the model runs: it says how many tensors come out",
                (long long)dim);
    return 0;
  }
  return size.u.i;
}

/* Equal pieces where the size is open: as many as were asked for. */
static aten_value open_chunks(aten_args *c, int64_t dim, int64_t parts, bool even) {
  aten_value list = aten_list_of(c->a, NULL, 0);
  aten_value size = aten_size(c->a, read(c), dim), each = size, at = aten_int(0);
  if (parts < 1 || parts > MAX_PIECES) aten_refuse(c, "%lld parts", (long long)parts);
  if (ir_build_failed(c->b)) return list;
  if (!even) each = aten_int_op(c->a, "add", each, aten_int(parts - 1));
  each = aten_int_op(c->a, "floor_divide", each, aten_int(parts));
  for (int64_t i = 0; i < parts && !ir_build_failed(c->b); i++) {
    aten_value end = i == parts - 1 ? size : aten_int_op(c->a, "add", at, each);
    aten_list_append(
        c->a, list.u.list,
        aten_view_slice(c->a, self(c), dim, aten_vector(c->a, &at, 1), aten_vector(c->a, &end, 1), i64(c, 1)));
    at = end;
  }
  return list;
}

aten_value aten_lower_chunk(aten_args *c) {
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 2), rank_of(c)), parts = aten_get_int(c, 1);
  aten_value size = aten_size(c->a, read(c), dim);
  if (!aten_is_known(&size)) return open_chunks(c, dim, parts, false);
  if (parts < 1) aten_refuse(c, "%lld chunks", (long long)parts);
  int64_t each = ir_build_failed(c->b) ? 1 : size.u.i / parts + (size.u.i % parts != 0);
  return pieces_of(c, dim, size.u.i, each ? each : 1, size.u.i ? 1 : parts);
}

/* (self, int or ints, dim) */
aten_value aten_lower_split(aten_args *c) {
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 2), rank_of(c));
  if (c->args[1].kind != ATEN_LIST) {
    if (aten_is_known(&c->args[1])) return pieces_of(c, dim, aten_known_size(c, dim), aten_get_int(c, 1), 1);
    aten_refuse(c, "the size of a piece must be known before the model runs");
    return ATEN_NOTHING;
  }
  aten_value list = aten_list_of(c->a, NULL, 0), at = aten_int(0);
  const aten_value *items = aten_items(c, 1);
  for (uint32_t i = 0; i < aten_list_count(c, 1); i++) {
    aten_value end = aten_int_op(c->a, "add", at, items[i]);
    aten_list_append(
        c->a, list.u.list,
        aten_view_slice(c->a, self(c), dim, aten_vector(c->a, &at, 1), aten_vector(c->a, &end, 1), i64(c, 1)));
    at = end;
  }
  return list;
}

/* (self, sections or indices, dim); data: the axis, where it is none of the arguments' */
aten_value aten_lower_tensor_split(aten_args *c) {
  int64_t dim = c->row->data ? c->row->data[0] - '0' : aten_get_int(c, 2);
  if (c->row->data && c->row->data[0] == '1' && rank_of(c) == 1) dim = 0; /* hsplit */
  dim = ir_build_axis(c->b, dim, rank_of(c));
  int64_t size = aten_known_size(c, dim), at = 0;
  aten_value list = aten_list_of(c->a, NULL, 0);
  bool is_tensor = c->args[1].kind == ATEN_TENSOR; /* of rank 1: bounds; of rank 0: how many */
  if (c->args[1].kind == ATEN_LIST || (is_tensor && aten_rank_in(c, 1) == 1)) {
    uint32_t count = 0;
    const int64_t *bounds = NULL;
    if (!is_tensor) bounds = aten_get_ints(c, 1, &count);
    else if (!ir_build_known_ints(c->b, aten_in(c, 1), &bounds, &count))
      aten_refuse(c, "bounds must be known before the model runs");
    for (uint32_t i = 0; i <= count && !ir_build_failed(c->b); i++) {
      int64_t end = i == count      ? size
                    : bounds[i] < 0 ? base_max_i64(bounds[i] + size, 0)
                                    : base_min_i64(bounds[i], size);
      add_piece(c, &list, dim, at, base_max_i64(at, end));
      at = end;
    }
    return list;
  }
  int64_t parts = 0;
  if (!is_tensor) parts = aten_get_int(c, 1);
  else if (!ir_build_known_int(c->b, aten_in(c, 1), &parts))
    aten_refuse(c, "the number of parts must be known before the model runs");
  if (parts < 1 || parts > MAX_PIECES) aten_refuse(c, "%lld parts", (long long)parts);
  for (int64_t i = 0; i < parts && !ir_build_failed(c->b); i++) {
    int64_t end = at + size / parts + (i < size % parts);
    add_piece(c, &list, dim, at, end);
    at = end;
  }
  return list;
}

aten_value aten_lower_unbind(aten_args *c) {
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 1), rank_of(c)), size = aten_known_size(c, dim);
  aten_value list = aten_list_of(c->a, NULL, 0);
  if (size > MAX_PIECES) aten_refuse(c, "%lld tensors", (long long)size);
  for (int64_t i = 0; i < size && !ir_build_failed(c->b); i++) {
    aten_value index = aten_int(i);
    aten_list_append(c->a, list.u.list, select_at(c, dim, &index));
  }
  return list;
}

/* ---- expanded ---- */

static aten_value expanded(aten_args *c, const aten_value *of, ir_value shape) {
  return aten_view_expand(c->a, of, shape);
}

/* (self, sizes, implicit): -1 keeps a size. */
aten_value aten_lower_expand(aten_args *c) {
  uint32_t count = aten_list_count(c, 1);
  int32_t rank = rank_of(c);
  const aten_value *items = aten_items(c, 1);
  aten_value *sizes_to = aten_alloc(c->a, ((size_t)count + 1) * sizeof *sizes_to);
  if (!sizes_to) return ATEN_NOTHING;
  if (!aten_is_known(&c->args[1]) || count < (uint32_t)rank) {
    aten_refuse(c, "%u sizes for a tensor of rank %d", count, rank);
    return ATEN_NOTHING;
  }
  for (uint32_t i = 0; i < count; i++) {
    bool keeps = aten_is_known(&items[i]) && items[i].u.i == -1;
    sizes_to[i] = keeps ? aten_size(c->a, read(c), (int64_t)i - ((int64_t)count - rank)) : items[i];
  }
  return expanded(c, self(c), full_shape(c, aten_vector(c->a, sizes_to, count)));
}
aten_value aten_lower_expand_as(aten_args *c) { return expanded(c, self(c), aten_shape(c->a, aten_in(c, 1))); }

/* The shape that tensors broadcast to: that of a sum of them, as i64 vector. */
static ir_value common_shape(aten_args *c, const ir_value *v, uint32_t count) {
  ir_value sum = IR_NO_VALUE;
  for (uint32_t i = 0; i < count; i++) {
    ir_value zero = aten_full(c->a, aten_shape(c->a, v[i]), ir_build_scalar(c->b, TD_BOOL, 0));
    sum = i ? aten_binary(c->a, "aten::logical_or", sum, zero) : zero;
  }
  return aten_shape(c->a, sum);
}
aten_value aten_lower_broadcast_tensors(aten_args *c) {
  uint32_t count;
  ir_value *v = aten_get_tensors(c, 0, &count);
  aten_value list = aten_list_of(c->a, NULL, 0);
  if (!count) return list;
  ir_value shape = common_shape(c, v, count);
  for (uint32_t i = 0; i < count; i++) aten_list_append(c->a, list.u.list, expanded(c, &aten_items(c, 0)[i], shape));
  return list;
}
/* (tensors, indexing?) */
aten_value aten_lower_meshgrid(aten_args *c) {
  uint32_t count = aten_list_count(c, 0);
  bool xy = c->schema->count > 1 && strcmp(aten_get_str(c, 1), "xy") == 0 && count > 1;
  aten_value list = aten_list_of(c->a, NULL, 0), size[BASE_MAX_RANK];
  const aten_value *items = aten_items(c, 0);
  if (count > BASE_MAX_RANK) {
    aten_refuse(c, "%u tensors", count);
    return list;
  }
  for (uint32_t i = 0; i < count; i++) {
    ir_value v = aten_read(c->a, &items[i]);
    size[xy && i < 2 ? 1 - i : i] = aten_rank(c->a, v) ? aten_size(c->a, v, 0) : aten_int(1);
  }
  ir_value shape = aten_vector(c->a, size, count);
  for (uint32_t i = 0; i < count; i++) {
    int64_t dims[BASE_MAX_RANK];
    for (uint32_t k = 0; k < count; k++) dims[k] = k == (xy && i < 2 ? 1 - i : i) ? -1 : 1;
    aten_value line = aten_view_reshape(c->a, &items[i], ir_build_ints(c->b, dims, count));
    aten_list_append(c->a, list.u.list, expanded(c, &line, shape));
  }
  return list;
}
