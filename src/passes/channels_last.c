/* channels_last.c -- one layout for images, [N, spatial..., C], from the first convolution to the last.
 *
 * A convolution becomes td::conv between two permutations; then every operator that can, takes the tensor in front of
 * the permutation and puts a permutation behind itself, which so moves down to where the graph ends or where a
 * permutation meets its inverse and both go:
 *
 *     y = aten::convolution(x)   ->   y = first(td::conv(last(x)))
 *     relu(first(t))             ->   first(relu(t))
 *     last(first(t))             ->   t
 *
 * where first permutes [N, spatial..., C] to [N, C, spatial...] and last is its inverse.
 * Requires: a verified graph; weights and padding known. Keeps: types of what is not rewritten, numbers. Breaks:
 * nothing. */
#include "passes/passes_priv.h"

#include <math.h>
#include <string.h>

/* ---- the two permutations: passes_order_last and passes_order_first ---- */

static bool is_empty(const ir_type *t) {
  bool empty = false;
  for (int32_t i = 0; i < t->rank; i++) empty |= t->dims[i] == 0;
  return empty;
}

/* Axis of the tensor with channels last for axis `a` of the one with channels first. */
static int64_t axis_last(int64_t a, int32_t rank) {
  if (a < 0) a += rank;
  return a == 0 ? 0 : a == 1 ? rank - 1 : a - 1;
}

static int32_t rank_of(const passes_edit *e, ir_value v) { return ir_type_of(e->graph, v)->rank; }

/* The tensor with channels last that `v` shows with channels first; none: it does not come from one. */
ir_value passes_source_last(passes_edit *e, ir_value v) {
  const ir_node_def *node = passes_producer(e, v, OP_aten_permute);
  uint32_t count;
  const int64_t *have = node ? passes_ints(node, "dims", &count) : NULL;
  int64_t want[BASE_MAX_RANK];
  int32_t rank = node ? rank_of(e, v) : 0;
  if (rank < 3 || count != (uint32_t)rank) return IR_NO_VALUE;
  passes_order_first(rank, want);
  return memcmp(have, want, (size_t)rank * sizeof *want) == 0 ? node->in[0] : IR_NO_VALUE;
}

/* `v` with channels last: what it came from, or permuted. */
td_status passes_to_last(passes_edit *e, ir_node at, ir_value v, ir_value *out) {
  int64_t order[BASE_MAX_RANK];
  *out = passes_source_last(e, v);
  if (out->id) return TD_OK;
  passes_order_last(rank_of(e, v), order);
  return passes_permute(e, at, v, order, out);
}

/* `made`, with channels last, takes the place of `node`. */
td_status passes_take_last(passes_edit *e, ir_node node, ir_value made) {
  int64_t order[BASE_MAX_RANK];
  ir_value shown;
  passes_order_first(rank_of(e, made), order);
  TRY(passes_permute(e, node, made, order, &shown));
  return passes_take_place(e, node, shown);
}

/* ---- operators that permutations pass ---- */

/* The node again, over `in`, its attributes but for those of `changed`. */
static td_status again(passes_edit *e, ir_node id, const ir_value *in, const base_arg *changed, uint32_t changes) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  base_arg *args = base_new(e->scratch, base_arg, (size_t)node->op->attr_count + 1);
  if (!args) return base_no_memory(e->err, "a pass");
  uint32_t count = ir_node_args(node, args);
  for (uint32_t i = 0; i < changes; i++) *passes_arg(args, count, changed[i].name) = changed[i];
  const ir_new_node spec = {.in = in, .in_count = node->in_count, .args = args, .arg_count = count};
  ir_value made;
  TRY(passes_add(e, id, node->op->id, spec, NULL, &made));
  return passes_take_last(e, id, made);
}

/* A constant that broadcasts to `rank` dims, with channels last: the same elements, seen otherwise. */
static td_status constant_last(passes_edit *e, const base_tensor *t, int32_t rank, ir_value *v) {
  int64_t order[BASE_MAX_RANK];
  base_tensor padded = *t, moved;
  padded.rank = rank;
  for (int32_t i = 0; i < rank; i++) {
    int32_t from = i - (rank - t->rank);
    padded.dims[i] = from < 0 ? 1 : t->dims[from];
    padded.strides[i] = from < 0 ? 0 : t->strides[from];
  }
  moved = padded;
  passes_order_last(rank, order);
  for (int32_t i = 0; i < rank; i++) {
    moved.dims[i] = padded.dims[order[i]];
    moved.strides[i] = padded.strides[order[i]];
  }
  return ir_add_constant(e->graph, &moved, NULL, v, e->err);
}

/* Can operand `v` of an elementwise operator over `rank` dims be had with channels last? */
static bool can_follow(const passes_edit *e, ir_value v, int32_t rank) {
  if (!v.id) return true;
  const base_tensor *t = passes_constant_value(e, v);
  return t ? t->rank <= rank : rank_of(e, v) == rank;
}

static td_status follow(passes_edit *e, ir_node at, ir_value v, int32_t rank, ir_value *out) {
  const base_tensor *t = passes_constant_value(e, v);
  *out = v;
  if (!v.id || (t && base_tensor_numel(t) == 1)) return TD_OK;
  return t ? constant_last(e, t, rank, out) : passes_to_last(e, at, v, out);
}

static td_status visit_elementwise(passes_edit *e, ir_node id, const ir_node_def *node) {
  int32_t rank = rank_of(e, node->out[0]);
  bool leads = false;
  ir_value in[8];
  if (node->out_count != 1 || node->in_count > 8) return TD_OK;
  for (uint32_t i = 0; i < node->in_count; i++) {
    if (!can_follow(e, node->in[i], rank)) return TD_OK;
    /* One that only broadcasts does not decide for the others. */
    leads |= node->in[i].id && passes_source_last(e, node->in[i]).id && rank_of(e, node->in[i]) == rank &&
             memcmp(ir_type_of(e->graph, node->in[i])->dims, ir_type_of(e->graph, node->out[0])->dims,
                    (size_t)rank * sizeof(base_dim)) == 0;
  }
  if (!leads) return TD_OK;
  for (uint32_t i = 0; i < node->in_count; i++) TRY(follow(e, id, ir_node_of(e->graph, id)->in[i], rank, &in[i]));
  return again(e, id, in, NULL, 0);
}

/* One scale for all elements: the axis says nothing. */
static td_status visit_scaled(passes_edit *e, ir_node id, const ir_node_def *node) {
  const base_tensor *scale = passes_constant(e, node, 1);
  return scale && base_tensor_numel(scale) == 1 ? visit_elementwise(e, id, node) : TD_OK;
}

static bool has_attr(const ir_op *op, const char *name) {
  return op->attr_count && strcmp(op->attrs[passes_attr(op, name)].name, name) == 0;
}

static bool is_window(const ir_node_def *node) {
  uint32_t count;
  bool pool = node->op->id == OP_td_max_pool || node->op->id == OP_td_avg_pool;
  if (pool) passes_ints(node, "kernel_size", &count);
  return pool && count > 0;
}

/* Operators with an attribute `channels_last`: pools, group norm. Windows have kernels for channels last alone. */
td_status passes_image_last(passes_edit *e, ir_node id, const ir_node_def *node) {
  ir_value in[8];
  if (!has_attr(node->op, "channels_last") || passes_int(node, "channels_last") || node->in_count > 8) return TD_OK;
  for (uint32_t i = 1; i < node->out_count; i++)
    if (passes_uses(e, node->out[i])) return TD_OK;
  memcpy(in, node->in, node->in_count * sizeof *in);
  const ir_type *x = ir_type_of(e->graph, in[0]);
  in[0] = passes_source_last(e, in[0]);
  if (!in[0].id && (!is_window(node) || x->dtype != TD_F32 || x->rank < 3)) return TD_OK;
  if (!in[0].id) TRY(passes_to_last(e, id, node->in[0], &in[0]));
  const base_arg changed = {.name = "channels_last", .kind = BASE_ATTR_BOOL, .i = 1};
  return again(e, id, in, &changed, 1);
}

static td_status visit_cat(passes_edit *e, ir_node id, const ir_node_def *node) {
  int32_t rank = rank_of(e, node->out[0]);
  uint32_t count = node->in_count, found = 0;
  ir_value *in = base_new(e->scratch, ir_value, (size_t)count + 1);
  if (!in) return base_no_memory(e->err, "a pass");
  for (uint32_t i = 0; i < count; i++) {
    if (rank_of(e, node->in[i]) != rank || passes_constant(e, node, i)) return TD_OK;
    found += passes_source_last(e, node->in[i]).id != 0;
  }
  if (!found) return TD_OK;
  const base_arg dim = ARG_INT("dim", axis_last(passes_int(node, "dim"), rank));
  for (uint32_t i = 0; i < count; i++) TRY(passes_to_last(e, id, ir_node_of(e->graph, id)->in[i], &in[i]));
  return again(e, id, in, &dim, 1);
}

/* softmax, chunk: one axis. */
static td_status visit_axis(passes_edit *e, ir_node id, const ir_node_def *node) {
  ir_value in = passes_source_last(e, node->in[0]);
  if (!in.id || node->in_count != 1 || node->out_count != 1) return TD_OK;
  const base_arg dim = ARG_INT("dim", axis_last(passes_int(node, "dim"), rank_of(e, in)));
  return again(e, id, &in, &dim, 1);
}

/* Where the axes of `rank` that are not in `mask`, of the tensor with channels last, stand among themselves, in the
 * order they have with channels first; how many. */
static int32_t order_of_rest(int32_t rank, uint32_t mask, int64_t *order) {
  int32_t rest = 0;
  for (int32_t a = 0; a < rank; a++) {
    const int64_t last = axis_last(a, rank);
    if (!(mask >> last & 1)) order[rest++] = last - __builtin_popcount(mask & ((1u << last) - 1));
  }
  return rest;
}

/* Reductions over named axes. Those that go leave the others in another order, unless they are all spatial ones. */
static td_status visit_reduction(passes_edit *e, ir_node id, const ir_node_def *node) {
  ir_value in = passes_source_last(e, node->in[0]), made;
  uint32_t count, mask = 0;
  const int64_t *dims = passes_ints(node, "dim", &count);
  int64_t mapped[BASE_MAX_RANK], order[BASE_MAX_RANK];
  if (!in.id || node->in_count != 1 || node->out_count != 1 || count == 0 || count > BASE_MAX_RANK) return TD_OK;
  const int32_t rank = rank_of(e, in);
  for (uint32_t i = 0; i < count; i++) {
    mapped[i] = axis_last(dims[i], rank);
    mask |= 1u << mapped[i]; /* an axis may stand twice */
  }
  const base_arg args[] = {ARG_INTS("dim", mapped, count), ARG_BOOL("keepdim", false)};
  if (passes_int(node, "keepdim")) return again(e, id, &in, args, 1);
  if ((uint32_t)__builtin_popcount(mask) != count) return TD_OK;
  TRY(passes_add(e, id, node->op->id, (ir_new_node){.in = &in, .in_count = 1, .args = args, .arg_count = 2}, NULL,
                 &made));
  const int32_t rest = order_of_rest(rank, mask, order);
  bool moves = false;
  for (int32_t i = 0; i < rest; i++) moves |= order[i] != i;
  if (moves)
    TRY(passes_add(
        e, id, OP_aten_permute,
        (ir_new_node){
            .in = &made, .in_count = 1, .args = (base_arg[]){ARG_INTS("dims", order, (uint32_t)rest)}, .arg_count = 1},
        NULL, &made));
  return passes_take_place(e, id, made);
}

/* Is `v` a result of the graph, and nothing else? */
static bool is_output(const passes_edit *e, ir_value v) {
  const ir_block_def *top = ir_block_of(e->graph, e->graph->top);
  uint32_t results = 0;
  for (uint32_t i = 0; i < top->results.count; i++) results += top->results.at[i].id == v.id;
  return results > 0 && results == passes_uses(e, v);
}

static bool grows(const passes_edit *e, const ir_node_def *node) {
  const int64_t from = ir_known_count(ir_type_of(e->graph, node->in[0]));
  return from >= 0 && ir_known_count(ir_type_of(e->graph, node->out[0])) > from;
}

/* What grows into a result of the graph is made as it leaves: its operand is less to permute. */
static td_status visit_resize(passes_edit *e, ir_node id, const ir_node_def *node) {
  ir_value in[4] = {passes_source_last(e, node->in[0])};
  uint32_t count;
  const int64_t *axes = passes_ints(node, "axes", &count);
  int64_t mapped[BASE_MAX_RANK];
  if (in[0].id && is_output(e, node->out[0]) && grows(e, node)) return TD_OK;
  if (!in[0].id || node->in_count > 4 || count > BASE_MAX_RANK) return TD_OK;
  int32_t rank = rank_of(e, in[0]);
  uint32_t all = count ? count : (uint32_t)rank;
  for (uint32_t i = 0; i < all; i++) mapped[i] = axis_last(count ? axes[i] : (int64_t)i, rank);
  for (uint32_t i = 1; i < node->in_count; i++) in[i] = node->in[i];
  const base_arg changed = ARG_INTS("axes", mapped, all);
  return again(e, id, in, &changed, 1);
}

/* A slice along constant axes. */
static td_status visit_slice(passes_edit *e, ir_node id, const ir_node_def *node) {
  ir_value in[5] = {passes_source_last(e, node->in[0])};
  if (!in[0].id || node->in_count > 5) return TD_OK;
  const base_tensor *axes = passes_constant(e, node, 3);
  int64_t mapped[BASE_MAX_RANK];
  if (!axes || base_tensor_numel(axes) > BASE_MAX_RANK) return TD_OK;
  for (int64_t i = 0; i < base_tensor_numel(axes); i++)
    mapped[i] = axis_last(base_load_i64(axes->dtype, axes->data, i), rank_of(e, in[0]));
  for (uint32_t i = 1; i < node->in_count; i++) in[i] = node->in[i];
  TRY(ir_add_ints(e->graph, mapped, (uint32_t)base_tensor_numel(axes), &in[3], e->err));
  return again(e, id, in, NULL, 0);
}

/* Borders: operands (x, pads, axes?), with a constant (x, pads, value?, axes?). Pads of all axes change their order. */
static td_status visit_pad(passes_edit *e, ir_node id, const ir_node_def *node) {
  const uint32_t at = node->op->id == OP_aten_constant_pad_nd ? 3 : 2;
  ir_value in[4] = {passes_source_last(e, node->in[0])};
  if (!in[0].id) return TD_OK;
  const bool named = node->in_count > at && node->in[at].id;
  const base_tensor *list = passes_constant(e, node, named ? at : 1);
  const int32_t rank = rank_of(e, in[0]);
  const int64_t count = list && list->rank <= 1 ? base_tensor_numel(list) : -1;
  int64_t mapped[2 * BASE_MAX_RANK];
  if (count < 0 || (named ? count > rank : count != 2 * (int64_t)rank)) return TD_OK;
  for (int64_t i = 0; i < count; i++) {
    const int64_t value = base_load_i64(list->dtype, list->data, list->rank ? i * list->strides[0] : 0);
    if (named) mapped[i] = axis_last(value, rank);
    else mapped[i / rank * rank + axis_last(i % rank, rank)] = value;
  }
  for (uint32_t i = 1; i < node->in_count; i++) in[i] = node->in[i];
  TRY(ir_add_ints(e->graph, mapped, (uint32_t)count, &in[named ? at : 1], e->err));
  return again(e, id, in, NULL, 0);
}

/* A batch norm that no convolution took in: one multiplication and addition per element. */
static td_status visit_batchnorm(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type type = *ir_type_of(e->graph, node->in[0]);
  ir_value in[3] = {passes_source_last(e, node->in[0])}, made;
  base_tensor vectors[2];
  bool fits;
  if (type.dtype != TD_F32 || type.rank < 2 || !base_dim_known(type.dims[1])) return TD_OK;
  TRY(passes_norm_vectors(e, node, type.dims[1], vectors, &fits));
  if (!fits) return TD_OK;
  if (in[0].id) {
    for (uint32_t i = 0; i < 2; i++) TRY(ir_add_constant(e->graph, &vectors[i], NULL, &in[1 + i], e->err));
    TRY(passes_add(e, id, OP_td_scale_shift, (ir_new_node){.in = in, .in_count = 3}, NULL, &made));
    return passes_take_last(e, id, made);
  }
  int64_t dims[BASE_MAX_RANK] = {type.dims[1]}; /* channels first: [C, 1...] broadcasts */
  for (int32_t i = 1; i < type.rank - 1; i++) dims[i] = 1;
  for (uint32_t i = 0; i < 2; i++) vectors[i] = base_tensor_of(vectors[i].data, TD_F32, type.rank - 1, dims);
  TRY(passes_affine(e, id, ir_node_of(e->graph, id)->in[0], vectors, &made));
  return passes_take_place(e, id, made);
}

/* ---- permutations and views ---- */

/* permute(permute(t)) is one permutation, or none. */
static td_status visit_permute(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def *inner = passes_producer(e, node->in[0], OP_aten_permute);
  uint32_t outer_count, inner_count;
  const int64_t *second = passes_ints(node, "dims", &outer_count);
  const int64_t *first = inner ? passes_ints(inner, "dims", &inner_count) : NULL;
  int64_t order[BASE_MAX_RANK];
  if (!first || outer_count != inner_count || outer_count == 0) return TD_OK;
  bool identity = true;
  for (uint32_t i = 0; i < outer_count; i++) {
    order[i] = first[second[i] < 0 ? second[i] + outer_count : second[i]];
    if (order[i] < 0) order[i] += outer_count;
    identity &= order[i] == (int64_t)i;
  }
  ir_value out = inner->in[0];
  if (!identity) TRY(passes_permute(e, id, out, order, &out));
  return passes_take_place(e, id, out);
}

static bool is_one(const passes_edit *e, ir_value v, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; i++)
    if (ir_type_of(e->graph, v)->dims[i] != 1) return false;
  return true;
}

/* [N, C, 1...] as [N, C] has its elements in the same order either way. */
static td_status flatten_pixel(passes_edit *e, ir_node id, ir_value t) {
  const base_arg axis = ARG_INT("axis", 1);
  ir_value made;
  TRY(passes_add(e, id, OP_td_flatten, (ir_new_node){.in = &t, .in_count = 1, .args = &axis, .arg_count = 1}, NULL,
                 &made));
  return passes_take_place(e, id, made);
}

/* `t`, channels last, viewed with the dims of `to` in that order; where several are open, by the sizes that the view
 * `id` is asked for. None: these do not say it. */
static td_status view_last(passes_edit *e, ir_node id, ir_value t, const ir_type *to, ir_value *made) {
  const ir_node_def node = *ir_node_of(e->graph, id);
  int64_t order[BASE_MAX_RANK];
  ir_type last = *to;
  ir_value in[2] = {t}, index;
  passes_order_last(to->rank, order);
  for (int32_t i = 0; i < to->rank; i++) last.dims[i] = to->dims[order[i]];
  TRY(passes_view(e, id, t, &last, made));
  if (made->id) return TD_OK;
  TRY(ir_add_ints(e->graph, order, (uint32_t)to->rank, &index, e->err));
  TRY(passes_select(e, id, node.in[1], 0, index, &in[1]));
  TRY(passes_add(e, id, OP_aten_view, (ir_new_node){.in = in, .in_count = 2}, NULL, made));
  if (ir_type_equal(ir_type_of(e->graph, *made), &last)) return TD_OK;
  passes_drop(e, *made);
  *made = IR_NO_VALUE;
  return TD_OK;
}

/* [N, C, spatial...] as [N, C, pixels]: the pixels merge with channels last too. */
static td_status merge_pixels(passes_edit *e, ir_node id, ir_value t, const ir_type *to) {
  static const int64_t swap[] = {0, 2, 1};
  ir_value made;
  TRY(view_last(e, id, t, to, &made));
  if (!made.id) return TD_OK;
  TRY(passes_permute(e, id, made, swap, &made));
  return passes_take_place(e, id, made);
}

/* The tokens [N, pixels, C] that `v` shows as [N, C, pixels]; none: it does not. */
static ir_value tokens(passes_edit *e, ir_value v) {
  const ir_node_def *node = passes_producer(e, v, OP_aten_permute);
  int64_t order[BASE_MAX_RANK];
  bool swaps = node && rank_of(e, v) == 3 && passes_order(node, 3, order) && order[0] == 0 && order[1] == 2;
  return swaps ? node->in[0] : IR_NO_VALUE;
}

/* Tokens that become an image are one with channels last already. */
static td_status split_pixels(passes_edit *e, ir_node id, ir_value t, const ir_type *to) {
  ir_value made;
  TRY(view_last(e, id, t, to, &made));
  return made.id ? passes_take_last(e, id, made) : TD_OK;
}

/* What view(permute(view(x))) interleaves the channels of in groups (channel shuffle), channels last; none: it does
 * something else. */
static ir_value shuffled(passes_edit *e, const ir_node_def *node, int64_t *groups) {
  const ir_node_def *permute = passes_producer(e, node->in[0], OP_aten_permute);
  const ir_node_def *split = permute ? passes_producer(e, permute->in[0], OP_aten_view) : NULL;
  const ir_value t = split ? passes_source_last(e, split->in[0]) : IR_NO_VALUE;
  int64_t order[BASE_MAX_RANK];
  if (!t.id) return t;
  const ir_type *from = ir_type_of(e->graph, split->in[0]), *parts = ir_type_of(e->graph, split->out[0]);
  bool fits = ir_type_equal(ir_type_of(e->graph, node->out[0]), from) && parts->rank == from->rank + 1 &&
              base_dim_known(from->dims[1]) && base_dim_known(parts->dims[1]) && parts->dims[1] > 0 &&
              parts->dims[2] == from->dims[1] / parts->dims[1] && parts->dims[0] == from->dims[0] &&
              passes_order(permute, parts->rank, order);
  for (int32_t i = 3; i < parts->rank && fits; i++) fits = parts->dims[i] == from->dims[i - 1];
  for (int32_t i = 0; i < parts->rank && fits; i++) fits = order[i] == (i == 1 || i == 2 ? 3 - i : i);
  *groups = parts->dims[1];
  return fits ? t : IR_NO_VALUE;
}

/* The last axis as groups, these transposed, and one axis again: one copy. */
static td_status shuffle(passes_edit *e, ir_node id, ir_value t, int64_t groups) {
  const int32_t rank = rank_of(e, t);
  const int64_t channels = ir_type_of(e->graph, t)->dims[rank - 1], sizes[] = {groups, channels / groups};
  const base_arg split[] = {ARG_INT("dim", -1), ARG_INTS("sizes", sizes, 2)}, copies = ARG_BOOL("zero_copies", true);
  int64_t order[BASE_MAX_RANK], shape[BASE_MAX_RANK] = {0};
  ir_value in[2], made;
  for (int32_t i = 0; i < rank - 1; i++) order[i] = i;
  order[rank - 1] = rank;
  order[rank] = rank - 1;
  shape[rank - 1] = channels;
  const ir_new_node unflatten = {.in = &t, .in_count = 1, .args = split, .arg_count = 2};
  TRY(passes_add(e, id, OP_aten_unflatten, unflatten, NULL, &made));
  TRY(passes_permute(e, id, made, order, &in[0]));
  TRY(ir_add_ints(e->graph, shape, (uint32_t)rank, &in[1], e->err));
  const ir_new_node view = {.in = in, .in_count = 2, .args = &copies, .arg_count = 1};
  TRY(passes_add(e, id, OP_aten_view, view, NULL, &made));
  return passes_take_last(e, id, made);
}

static td_status visit_view(passes_edit *e, ir_node id, const ir_node_def *node) {
  int64_t groups;
  const ir_value grouped = shuffled(e, node, &groups);
  if (grouped.id) return shuffle(e, id, grouped, groups);
  ir_value t = passes_source_last(e, node->in[0]), sequence = tokens(e, node->in[0]);
  const ir_type *shown = ir_type_of(e->graph, node->out[0]), *of = ir_type_of(e->graph, node->in[0]);
  bool image = sequence.id && shown->rank > 3 && shown->dims[0] == of->dims[0] && shown->dims[1] == of->dims[1];
  if (image && !is_empty(shown)) return split_pixels(e, id, sequence, shown);
  if (!t.id) return TD_OK;
  const ir_type *from = ir_type_of(e->graph, node->in[0]), *to = ir_type_of(e->graph, node->out[0]);
  if (to->rank < 2 || to->dims[0] != from->dims[0] || to->dims[1] != from->dims[1]) return TD_OK;
  if (to->rank == 2 && is_one(e, node->in[0], 2, from->rank)) return flatten_pixel(e, id, t);
  bool merges = to->rank == 3 && from->rank > 3;
  return merges && !is_empty(to) ? merge_pixels(e, id, t, to) : TD_OK;
}

static const passes_rule rules[] = {
    {OP_aten_convolution, passes_convolution_last},
    {OP_td_max_pool, passes_image_last},
    {OP_td_avg_pool, passes_image_last},
    {OP_aten_native_group_norm, passes_image_last},
    {OP_aten__native_batch_norm_legit_no_training, visit_batchnorm},
    {OP_td_quantize_linear, visit_scaled},
    {OP_td_dequantize_linear, visit_scaled},
    {OP_aten_cat, visit_cat},
    {OP_aten__softmax, visit_axis},
    {OP_td_chunk, visit_axis},
    {OP_aten_mean, visit_reduction},
    {OP_aten_sum, visit_reduction},
    {OP_aten_amax, visit_reduction},
    {OP_td_resize, visit_resize},
    {OP_aten_constant_pad_nd, visit_pad},
    {OP_aten_reflection_pad, visit_pad},
    {OP_aten_replication_pad, visit_pad},
    {OP_aten_circular_pad, visit_pad},
    {OP_aten_slice, visit_slice},
    {OP_aten_permute, visit_permute},
    {OP_aten_view, visit_view},
    {OP_aten_squeeze, visit_view},
    {OP_td_flatten, visit_view},
};

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  if (!node->in_count || !node->in[0].id || ir_type_of(e->graph, node->in[0])->kind != IR_TENSOR) return TD_OK;
  bool elementwise = node->op->flags & IR_OP_ELEMENTWISE, found;
  TRY(passes_apply(e, id, rules, sizeof rules / sizeof *rules, &found));
  return !found && elementwise ? visit_elementwise(e, id, ir_node_of(e->graph, id)) : TD_OK;
}

td_status passes_channels_last(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
