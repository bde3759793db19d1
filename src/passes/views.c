/* views.c -- fewer views, and none in the way of an epilogue:
 *
 *     permute(permute(x))        -> permute(x), or x
 *     permute(x)                 -> view(x)             where only axes of one element change places
 *     view(view(x))              -> view(x)
 *     view(linear(x, W, b))      -> linear(view(x), W, b)   where the features stay, so that an addition can follow
 *     index_select(x, 1)         -> squeeze(slice(x))       and so for constants that are evenly spaced
 *     index_select(x, 4 5 0 1)   -> view(index_select(view(x, [-1, 2]), 2 0))   single elements that are whole rows
 *     scatter_nd(x, [[1, 2]], y) -> view(scatter_nd(view(x, [-1]), [[5]], y))   places that constants tell
 *     gather_nd(x, i)            -> index_select(x, squeeze(i))   where tuples are of one index
 *     squeeze(slice(permute(x))) -> permute(squeeze(slice(x)))   of the first axis: samples stay in front
 *     repeat(x)                  -> expand(x)               where only axes of one element are repeated
 *
 * Requires: a verified graph. Keeps: types, numbers. Breaks: nothing. */
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_OPERANDS = 3 }; /* of a linear that is moved */

static td_status add(passes_edit *e, ir_node at, ir_op_id op, const ir_value *in, uint32_t in_count, ir_value *out) {
  return passes_add(e, at, op, (ir_new_node){.in = in, .in_count = in_count}, NULL, out);
}

static bool is_dense(passes_edit *e, ir_value v) {
  ir_node made_by = ir_value_of(e->graph, v)->node;
  const ir_node_def *node = made_by.id ? ir_node_of(e->graph, made_by) : NULL;
  return !node || !node->op || !(node->op->flags & IR_OP_VIEW);
}

/* A linear whose features a view of its result leaves alone, and whose operand can be viewed as it has; NULL: `v` is
 * none. */
static const ir_node_def *movable_linear(passes_edit *e, ir_value v, const ir_type *type) {
  const ir_type *t = ir_type_of(e->graph, v);
  const ir_node_def *node = passes_only_producer(e, v, OP_td_linear);
  const ir_type *x = node ? ir_type_of(e->graph, node->in[0]) : NULL;
  bool same = x && t->rank > 0 && type->rank > 0 && t->dims[t->rank - 1] == type->dims[type->rank - 1];
  same = same && x->rank > 0 && base_dim_known(x->dims[x->rank - 1]) && x->dims[x->rank - 1] > 0;
  return same && node->in_count <= MAX_OPERANDS && is_dense(e, node->in[0]) ? node : NULL;
}

/* `v`, dense, with the dims of `type`; only the last axis of what a linear takes may differ. None: a view does not say
 * these. */
static td_status reshape(passes_edit *e, ir_node at, ir_value v, const ir_type *type, ir_value *out) {
  const ir_node_def *node;
  bool alone = true; /* nobody else sees what is passed by */
  while ((node = passes_producer(e, v, OP_aten_view)) && is_dense(e, node->in[0])) {
    alone = alone && passes_uses(e, v) == 1;
    v = node->in[0];
  }
  *out = v;
  if (ir_type_equal(ir_type_of(e->graph, v), type)) return TD_OK;
  if (alone && (node = movable_linear(e, v, type))) {
    const ir_node_def linear = *node;
    ir_type inner = *type;
    const ir_type *x = ir_type_of(e->graph, linear.in[0]);
    ir_value in[MAX_OPERANDS];
    base_arg args[IR_NODE_ARGS];
    inner.dims[inner.rank - 1] = x->dims[x->rank - 1];
    for (uint32_t i = 0; i < linear.in_count; i++) in[i] = linear.in[i];
    TRY(reshape(e, at, linear.in[0], &inner, &in[0]));
    const ir_new_node spec = {
        .in = in, .in_count = linear.in_count, .args = args, .arg_count = ir_node_args(&linear, args)};
    if (in[0].id) return passes_add(e, at, OP_td_linear, spec, &linear, out);
  }
  return passes_view(e, at, v, type, out);
}

static td_status reshape_instead(passes_edit *e, ir_node at, ir_value v) {
  ir_value old = ir_node_of(e->graph, at)->out[0], out;
  const ir_type type = *ir_type_of(e->graph, old);
  TRY(reshape(e, at, v, &type, &out));
  return out.id && ir_type_equal(ir_type_of(e->graph, out), &type) ? passes_take_place(e, at, out) : TD_OK;
}

static td_status visit_view(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *type = ir_type_of(e->graph, node->out[0]), *from = ir_type_of(e->graph, node->in[0]);
  const ir_node_def *inner = passes_producer(e, node->in[0], OP_aten_view);
  if (type->rank < 0 || from->rank < 0) return TD_OK;
  bool collapses = inner && is_dense(e, inner->in[0]);
  return collapses || movable_linear(e, node->in[0], type) ? reshape_instead(e, id, node->in[0]) : TD_OK;
}

static bool is_identity(const int64_t *order, int32_t rank) {
  int32_t i = 0;
  while (i < rank && order[i] == i) i++;
  return i == rank;
}

/* Axes of more than one element keep their order. */
static bool moves_nothing(const ir_type *from, const int64_t *order) {
  int64_t last = -1;
  for (int32_t i = 0; i < from->rank; i++) {
    if (from->dims[order[i]] == 1) continue;
    if (order[i] < last) return false;
    last = order[i];
  }
  return true;
}

static td_status visit_permute(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *type = ir_type_of(e->graph, node->in[0]);
  int64_t order[BASE_MAX_RANK], inner[BASE_MAX_RANK];
  const int32_t rank = type->rank;
  ir_value source = node->in[0], out;
  if (!passes_order(node, rank, order)) return TD_OK;
  const ir_node_def *before = passes_producer(e, source, OP_aten_permute);
  if (before && passes_order(before, rank, inner)) {
    for (int32_t i = 0; i < rank; i++) order[i] = inner[order[i]];
    source = before->in[0];
    type = ir_type_of(e->graph, source);
  }
  if (is_identity(order, rank)) return passes_take_place(e, id, source);
  if (is_dense(e, source) && moves_nothing(type, order)) return reshape_instead(e, id, source);
  if (!before) return TD_OK;
  const base_arg dims = ARG_INTS("dims", order, rank);
  const ir_new_node spec = {.in = &source, .in_count = 1, .args = &dims, .arg_count = 1};
  TRY(passes_add(e, id, OP_aten_permute, spec, NULL, &out));
  return passes_take_place(e, id, out);
}

/* The slice that an index takes of an axis of `size`: every `step`-th from `first` on. False: it is none. */
static bool index_slice(const base_tensor *index, int64_t size, int64_t *first, int64_t *step) {
  const int64_t count = base_tensor_numel(index);
  if (count == 0 || index->rank > 1) return false;
  *step = 1;
  for (int64_t i = 0; i < count; i++) {
    const int64_t given = base_load_i64(index->dtype, index->data, i * (index->rank ? index->strides[0] : 0));
    const int64_t k = given < 0 ? given + size : given;
    if (k < 0 || k >= size) return false;
    if (i == 0) *first = k;
    if (i == 1) *step = k - *first;
    if (*step == 0 || k != *first + i * *step) return false;
  }
  return true;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* `count` whole numbers as a constant: those at `values`, one in `every`, and divided by as much. */
static td_status add_places(passes_edit *e, const int64_t *values, int64_t every, int32_t rank, const int64_t *dims,
                            ir_value *out) {
  base_tensor t = base_tensor_of(NULL, TD_I64, rank, dims);
  const int64_t count = base_tensor_numel(&t);
  int64_t *to = base_arena_alloc(e->graph->arena, base_tensor_bytes(&t));
  if (!to) return base_no_memory(e->err, "indices");
  for (int64_t i = 0; i < count; i++) to[i] = values[i * every] / every;
  t.data = to;
  return ir_add_constant(e->graph, &t, NULL, out, e->err);
}

/* `v`, known sizes, with others. */
static td_status view_as(passes_edit *e, ir_node at, const int64_t *dims, int32_t rank, ir_value *v) {
  ir_value in[2] = {*v};
  const ir_type *type = ir_type_of(e->graph, *v);
  if (type->rank == rank && memcmp(type->dims, dims, (size_t)rank * sizeof *dims) == 0) return TD_OK;
  TRY(ir_add_ints(e->graph, dims, (uint32_t)rank, &in[1], e->err));
  return add(e, at, OP_aten_view, in, 2, v);
}

/* Elements of a vector of `size` that an index takes are rows of so many, where that is a matrix: places[] has them
 * all. Less than 2: they are not. */
static int64_t row_of_places(const base_tensor *index, int64_t size, int64_t *places) {
  const int64_t count = base_tensor_numel(index);
  int64_t row = common_divisor(size, count);
  for (int64_t i = 0; i < count && row > 1; i++) {
    const int64_t given = base_load_i64(index->dtype, index->data, i), k = given < 0 ? given + size : given;
    if (k < 0 || k >= size) return 0;
    if (i == 0 || k != places[i - 1] + 1) row = common_divisor(common_divisor(row, k), i);
    places[i] = k;
  }
  return row;
}

static td_status select_rows(passes_edit *e, ir_node id, const ir_node_def *node, const base_tensor *index) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]), type = *ir_type_of(e->graph, node->out[0]);
  const int64_t count = base_tensor_numel(index), size = x->rank == 1 ? x->dims[0] : 0;
  ir_value in[2] = {node->in[0]}, out;
  if (!base_is_float(x->dtype) || size < 2 || !base_dim_known(size) || count < 2 || !base_tensor_contiguous(index))
    return TD_OK;
  int64_t *places = base_arena_alloc(e->graph->arena, (size_t)count * sizeof *places);
  if (!places) return base_no_memory(e->err, "indices");
  const int64_t row = row_of_places(index, size, places), rows = count / base_max_i64(row, 1);
  if (row < 2) return TD_OK;
  TRY(add_places(e, places, row, 1, &rows, &in[1]));
  TRY(view_as(e, id, (int64_t[]){size / row, row}, 2, &in[0]));
  TRY(passes_select(e, id, in[0], 0, in[1], &out));
  TRY(view_as(e, id, type.dims, type.rank, &out));
  return passes_take_place(e, id, out);
}

/* Where in the first `tuple` axes of x the tuples of an index point. False: some are outside. */
static bool flat_places(const ir_type *x, const base_tensor *index, int64_t tuple, int64_t *places) {
  const int64_t count = base_tensor_numel(index) / tuple;
  for (int64_t i = 0; i < count; i++) {
    places[i] = 0;
    for (int64_t k = 0; k < tuple; k++) {
      const int64_t given = base_load_i64(index->dtype, index->data, i * tuple + k);
      const int64_t at = given < 0 ? given + x->dims[k] : given;
      if (at < 0 || at >= x->dims[k]) return false;
      places[i] = places[i] * x->dims[k] + at;
    }
  }
  return true;
}

static td_status visit_scatter_nd(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def scatter = *node;
  const ir_type type = *ir_type_of(e->graph, node->in[0]);
  const base_tensor *index = passes_constant(e, node, 1);
  const int64_t tuple = index && index->rank > 0 ? index->dims[index->rank - 1] : 0;
  ir_value in[3] = {node->in[0], node->in[1], node->in[2]}, out;
  int64_t dims[BASE_MAX_RANK], lead[BASE_MAX_RANK], all = 1;
  base_arg args[IR_NODE_ARGS];
  if (tuple < 2 || tuple > type.rank || !base_is_float(type.dtype) || !base_tensor_contiguous(index)) return TD_OK;
  if (base_tensor_numel(index) == 0) return TD_OK;
  for (int32_t i = 0; i < type.rank; i++)
    if (!base_dim_known(type.dims[i]) || type.dims[i] < 1) return TD_OK;
  for (int64_t k = 0; k < tuple; k++)
    if (__builtin_mul_overflow(all, type.dims[k], &all)) return TD_OK;
  int64_t *places = base_arena_alloc(e->graph->arena, (size_t)(base_tensor_numel(index) / tuple) * sizeof *places);
  if (!places) return base_no_memory(e->err, "indices");
  if (!flat_places(&type, index, tuple, places)) return TD_OK;
  dims[0] = all;
  for (int64_t k = tuple; k < type.rank; k++) dims[k - tuple + 1] = type.dims[k];
  for (int32_t i = 0; i < index->rank; i++) lead[i] = i + 1 < index->rank ? index->dims[i] : 1;
  TRY(add_places(e, places, 1, index->rank, lead, &in[1]));
  TRY(view_as(e, id, dims, type.rank - (int32_t)tuple + 1, &in[0]));
  const ir_new_node spec = {.in = in, .in_count = 3, .args = args, .arg_count = ir_node_args(&scatter, args)};
  TRY(passes_add(e, id, OP_td_scatter_nd, spec, NULL, &out));
  TRY(view_as(e, id, type.dims, type.rank, &out));
  return passes_take_place(e, id, out);
}

/* What `v` has moved its first axis from, where one element of that is selected: *axis there, and the order in which
 * what is left of it has v's other axes. None: v keeps its first axis, or moves nothing. */
static ir_value unmoved(passes_edit *e, ir_value v, int64_t *axis, int64_t *left) {
  const ir_node_def *before = passes_producer(e, v, OP_aten_permute);
  const int32_t rank = ir_type_of(e->graph, v)->rank;
  int64_t order[BASE_MAX_RANK];
  if (!before || !passes_order(before, rank, order) || order[0] == 0) return IR_NO_VALUE;
  *axis = order[0];
  for (int32_t i = 1; i < rank; i++) left[i - 1] = order[i] - (order[i] > order[0]);
  return before->in[0];
}

static bool is_first_axis(const passes_edit *e, const ir_node_def *node, uint32_t i) {
  const base_tensor *axes = passes_constant(e, node, i);
  return axes && base_tensor_numel(axes) == 1 && base_load_i64(axes->dtype, axes->data, 0) == 0;
}

static td_status visit_squeeze(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def *slice = is_first_axis(e, node, 1) ? passes_only_producer(e, node->in[0], OP_aten_slice) : NULL;
  int64_t axis, left[BASE_MAX_RANK];
  ir_value in[5], out;
  if (!slice || !is_first_axis(e, slice, 3)) return TD_OK;
  const uint32_t count = slice->in_count;
  memcpy(in, slice->in, count * sizeof *in);
  in[0] = unmoved(e, in[0], &axis, left);
  if (!in[0].id) return TD_OK;
  TRY(ir_add_ints(e->graph, &axis, 1, &in[3], e->err));
  TRY(add(e, id, OP_aten_slice, in, count, &out));
  TRY(add(e, id, OP_aten_squeeze, (ir_value[]){out, in[3]}, 2, &out));
  TRY(passes_permute(e, id, out, left, &out));
  return passes_take_place(e, id, out);
}

static td_status visit_index_select(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *type = ir_type_of(e->graph, node->in[0]);
  const base_tensor *index = passes_constant(e, node, 1);
  int64_t axis = base_attr_int(node->attrs, 0), first = 0, step, end;
  if (!index || type->rank <= 0 || base_dtype(type->dtype)->bits < 8) return TD_OK;
  if (!base_is_float(type->dtype) && type->rank < 2) return TD_OK; /* sizes stay as they are */
  if (axis < 0) axis += type->rank;
  if (axis < 0 || axis >= type->rank || !base_dim_known(type->dims[axis])) return TD_OK;
  if (!index_slice(index, type->dims[axis], &first, &step)) return select_rows(e, id, node, index);
  end = first + step * base_tensor_numel(index);
  if (end < 0) end = INT64_MIN; /* -1 would count from the end */
  const bool drops = index->rank == 0;
  int64_t left[BASE_MAX_RANK];
  const ir_value from = drops && axis == 0 ? unmoved(e, node->in[0], &axis, left) : IR_NO_VALUE;
  const int64_t ints[] = {first, end, axis, step};
  ir_value in[5] = {from.id ? from : node->in[0]}, out;
  for (uint32_t i = 0; i < 4; i++) TRY(ir_add_ints(e->graph, &ints[i], 1, &in[1 + i], e->err));
  TRY(add(e, id, OP_aten_slice, in, 5, &out));
  in[0] = out;
  if (drops) TRY(add(e, id, OP_aten_squeeze, (ir_value[]){out, in[3]}, 2, &out));
  if (from.id) TRY(passes_permute(e, id, out, left, &out));
  if (ir_type_equal(ir_type_of(e->graph, out), ir_type_of(e->graph, ir_node_of(e->graph, id)->out[0])))
    return passes_take_place(e, id, out);
  passes_drop(e, out);
  return TD_OK;
}

static td_status visit_gather_nd(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]), *tuples = ir_type_of(e->graph, node->in[1]);
  const int64_t last = tuples->rank - 1;
  ir_value in[2] = {node->in[1]}, out;
  if (passes_int(node, "batch_dims") || x->rank < 1 || !base_is_float(x->dtype) || last < 0 || tuples->dims[last] != 1)
    return TD_OK;
  TRY(ir_add_ints(e->graph, &last, 1, &in[1], e->err));
  TRY(add(e, id, OP_aten_squeeze, in, 2, &out));
  in[0] = ir_node_of(e->graph, id)->in[0];
  in[1] = out;
  TRY(add(e, id, OP_aten_index_select, in, 2, &out));
  return passes_take_place(e, id, out);
}

static td_status visit_repeat(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]), *type = ir_type_of(e->graph, node->out[0]);
  const base_tensor *repeats = passes_constant(e, node, 1);
  const int32_t more = type->rank - x->rank;
  int64_t sizes[BASE_MAX_RANK];
  ir_value in[2] = {node->in[0]}, out;
  if (!repeats || repeats->rank != 1 || x->rank < 0 || more < 0 || repeats->dims[0] != type->rank ||
      !base_is_float(x->dtype) || base_dtype(x->dtype)->bits < 8)
    return TD_OK;
  for (int32_t i = 0; i < type->rank; i++) {
    const int64_t times = base_load_i64(repeats->dtype, repeats->data, i * repeats->strides[0]);
    const bool single = i < more || x->dims[i - more] == 1;
    if (times < 1 || (times > 1 && !single)) return TD_OK;
    sizes[i] = single ? times : -1;
  }
  TRY(ir_add_ints(e->graph, sizes, (uint32_t)type->rank, &in[1], e->err));
  TRY(add(e, id, OP_aten_expand, in, 2, &out));
  return passes_take_place(e, id, out);
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_aten_permute, visit_permute},
                                      {OP_aten_view, visit_view},
                                      {OP_aten_index_select, visit_index_select},
                                      {OP_td_gather_nd, visit_gather_nd},
                                      {OP_td_scatter_nd, visit_scatter_nd},
                                      {OP_aten_repeat, visit_repeat},
                                      {OP_aten_squeeze, visit_squeeze}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_views(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
