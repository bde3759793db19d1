/* lift.c -- views in front of the loops that make what they show, and no views where operands broadcast by themselves:
 * what loops read is seen through views for nothing, what they write is not.
 *
 *     permute(mul(x, y))    -> mul(permute(x), permute(y))
 *     view(add(x, [n, 1]))  -> add(view(x), view([n, 1]))    where merged and split axes broadcast together
 *     add(x, expand(y))     -> add(x, y)
 *     softmax(view(add(x))) -> view(softmax(add(x)))         where rows stay rows
 *
 * It is done in front of what runs as a loop itself, and of permutations in front of views, which would be copies: then
 * the loops become one, or the copy is the loop's own. Only where nobody else uses what is passed by.
 * Requires: a verified graph. Keeps: types, numbers. Breaks: nothing. */
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_OPERANDS = 8, MAX_DEPTH = 24 };

static bool is_loop(const ir_node_def *node) {
  return node->op && node->op->lower && node->op->flags & IR_OP_ELEMENTWISE && node->out_count == 1 &&
         node->in_count <= MAX_OPERANDS;
}

static bool is_ranked(const ir_type *t) { return t->kind <= IR_BOOL && t->rank >= 0; }

/* ---- operands ---- */

/* Axis `axis` of `rank` of an operand that is aligned at the last; 1 where it has none. */
static base_dim dim_of(const ir_type *t, int32_t rank, int32_t axis) {
  const int32_t at = axis - (rank - t->rank);
  return at < 0 ? 1 : t->dims[at];
}

static bool is_one(const ir_type *t) {
  for (int32_t i = 0; i < t->rank; i++)
    if (t->dims[i] != 1) return false;
  return true;
}

/* A view of `v` that is told by constants. */
static td_status add_with_ints(passes_edit *e, ir_node at, ir_op_id op, ir_value v, const int64_t *ints, uint32_t count,
                               ir_value *out) {
  ir_value in[2] = {v};
  TRY(ir_add_ints(e->graph, ints, count, &in[1], e->err));
  return passes_add(e, at, op, (ir_new_node){.in = in, .in_count = 2}, NULL, out);
}

static td_status permute_operand(passes_edit *e, ir_node at, const ir_node_def *permute, int32_t rank, ir_value *v,
                                 bool *done) {
  int64_t order[BASE_MAX_RANK], front[BASE_MAX_RANK];
  const ir_type *t = ir_type_of(e->graph, *v);
  const int32_t missing = rank - t->rank;
  bool moves = false;
  *done = passes_order(permute, rank, order);
  for (int32_t i = missing; *done && i < rank; i++) moves |= order[i] != i;
  if (!*done || is_one(t) || !moves) return TD_OK;
  ir_value in[1] = {*v};
  if (missing > 0) {
    for (int32_t i = 0; i < missing; i++) front[i] = i;
    TRY(add_with_ints(e, at, OP_aten_unsqueeze, in[0], front, (uint32_t)missing, &in[0]));
  }
  return passes_permute(e, at, in[0], order, v);
}

/* Axes [from, from_end) become [to, to_end). */
typedef struct group {
  int32_t from, from_end, to, to_end;
} group;

static base_dim product(base_dims *dims, const base_dim *of, int32_t first, int32_t end) {
  base_dim p = 1;
  for (int32_t i = first; i < end; i++) p = base_dim_mul(dims, p, of[i]);
  return p;
}

/* The next group of a reshape: the fewest axes, at least one, with as many elements on both sides. */
static bool next_group(base_dims *dims, const ir_type *from, const ir_type *to, group *g) {
  g->from = g->from_end;
  g->to = g->to_end;
  const bool left = g->from < from->rank, right = g->to < to->rank;
  g->from_end += left && (from->dims[g->from] == 1 || (right && to->dims[g->to] != 1));
  g->to_end += right && (to->dims[g->to] == 1 || g->from_end > g->from);
  for (;;) {
    const base_dim a = product(dims, from->dims, g->from, g->from_end), b = product(dims, to->dims, g->to, g->to_end);
    if (a == b) return g->from_end > g->from || g->to_end > g->to;
    if (!base_dim_known(a) || !base_dim_known(b) || a == 0 || b == 0) return false;
    if (a < b && g->from_end < from->rank) g->from_end++;
    else if (b < a && g->to_end < to->rank) g->to_end++;
    else return false;
  }
}

/* The dims that operand `t` has behind the reshape. False: it has some of the axes of a group alone. */
static bool reshaped(base_dims *dims, const ir_type *t, const ir_type *from, const ir_type *to, ir_type *result) {
  group g = {0};
  *result = *to;
  result->dtype = t->dtype;
  while (g.from_end < from->rank || g.to_end < to->rank) {
    bool all = true, none = true;
    if (!next_group(dims, from, to, &g)) return false;
    for (int32_t i = g.from; i < g.from_end; i++) {
      all &= dim_of(t, from->rank, i) == from->dims[i];
      none &= dim_of(t, from->rank, i) == 1;
    }
    if (!all && !none) return false;
    for (int32_t i = g.to; i < g.to_end && !all; i++) result->dims[i] = 1;
  }
  int32_t drop = 0;
  while (t->rank < from->rank && drop < result->rank && result->dims[drop] == 1) drop++;
  result->rank -= drop;
  memmove(result->dims, result->dims + drop, (size_t)result->rank * sizeof *result->dims);
  return true;
}

static bool is_dense(const passes_edit *e, ir_value v) {
  const ir_node made_by = ir_value_of(e->graph, v)->node;
  return !made_by.id || !(ir_node_of(e->graph, made_by)->op->flags & IR_OP_VIEW);
}

/* `v`, of any strides, with the dims of `result`, where only axes of one element come and go. *done: it is so. */
static td_status move_ones(passes_edit *e, ir_node at, const ir_type *result, ir_value *v, bool *done) {
  const ir_type t = *ir_type_of(e->graph, *v);
  int64_t gone[BASE_MAX_RANK], come[BASE_MAX_RANK];
  uint32_t gone_count = 0, come_count = 0;
  int32_t i = 0, k = 0;
  for (*done = true; *done && (i < t.rank || k < result->rank);) {
    if (i < t.rank && t.dims[i] == 1) gone[gone_count++] = i++;
    else if (k < result->rank && result->dims[k] == 1) come[come_count++] = k++;
    else *done = i < t.rank && k < result->rank && t.dims[i++] == result->dims[k++];
  }
  if (*done && gone_count) TRY(add_with_ints(e, at, OP_aten_squeeze, *v, gone, gone_count, v));
  if (*done && come_count) TRY(add_with_ints(e, at, OP_aten_unsqueeze, *v, come, come_count, v));
  return TD_OK;
}

static td_status reshape_operand(passes_edit *e, ir_node at, const ir_type *from, const ir_type *to, ir_value *v,
                                 bool *done) {
  ir_type result;
  const ir_type *t = ir_type_of(e->graph, *v);
  *done = reshaped(&e->graph->dims, t, from, to, &result);
  if (!*done || ir_type_equal(t, &result)) return TD_OK;
  if (!is_dense(e, *v)) return move_ones(e, at, &result, v, done);
  ir_value viewed;
  TRY(passes_view(e, at, *v, &result, &viewed));
  *done = viewed.id != 0;
  if (*done) *v = viewed;
  return TD_OK;
}

/* ---- one view ---- */

/* The view that gives `v` to one user alone, over a loop that gives it to the view alone. NULL: there is none. */
static ir_node_def *view_of_loop(passes_edit *e, ir_value v, ir_node_def **loop) {
  static const ir_op_id views[] = {OP_aten_permute, OP_aten_view, OP_aten_unsqueeze, OP_aten_squeeze};
  ir_node_def *view = NULL;
  for (size_t i = 0; !view && i < sizeof views / sizeof *views; i++) view = passes_only_producer(e, v, views[i]);
  if (!view || !is_ranked(ir_type_of(e->graph, v)) || passes_uses(e, view->in[0]) != 1) return NULL;
  const ir_node made_by = ir_value_of(e->graph, view->in[0])->node;
  *loop = made_by.id ? ir_node_of(e->graph, made_by) : NULL;
  if (!*loop || !is_loop(*loop) || (*loop)->parent.id != view->parent.id) return NULL;
  ir_refresh(e->graph, made_by);
  for (uint32_t i = 0; i < (*loop)->in_count; i++)
    if ((*loop)->in[i].id && !is_ranked(ir_type_of(e->graph, (*loop)->in[i]))) return NULL;
  return view;
}

static td_status lift(passes_edit *e, ir_value v, uint32_t depth);

/* The view that gives `v` goes in front of the loop behind it, and on from there. */
static td_status lift_one(passes_edit *e, ir_value v, uint32_t depth, bool *lifted) {
  ir_node_def *node, *found = view_of_loop(e, v, &node);
  *lifted = false;
  if (!found) return TD_OK;
  const ir_node_def view = *found, loop = *node;
  const ir_node at = ir_value_of(e->graph, v)->node;
  const ir_type from = *ir_type_of(e->graph, view.in[0]), to = *ir_type_of(e->graph, v);
  const bool permutes = view.op->id == OP_aten_permute;
  ir_value in[MAX_OPERANDS], out;
  base_arg args[IR_NODE_ARGS];
  uint32_t seen = 0;
  for (*lifted = true; seen < loop.in_count && *lifted; seen++) {
    in[seen] = loop.in[seen];
    if (!in[seen].id) continue;
    if (permutes) TRY(permute_operand(e, at, &view, from.rank, &in[seen], lifted));
    else TRY(reshape_operand(e, at, &from, &to, &in[seen], lifted));
  }
  for (uint32_t i = 0; i < seen && !*lifted; i++)
    if (in[i].id != loop.in[i].id) passes_drop(e, in[i]);
  if (!*lifted) return TD_OK;
  const ir_new_node spec = {.in = in, .in_count = loop.in_count, .args = args, .arg_count = ir_node_args(&loop, args)};
  TRY(passes_add(e, at, loop.op->id, spec, &loop, &out));
  *lifted = ir_type_equal(ir_type_of(e->graph, out), &to);
  if (!*lifted) {
    passes_drop(e, out);
    return TD_OK;
  }
  TRY(passes_take_place(e, at, out));
  for (uint32_t i = 0; i < loop.in_count; i++)
    if (in[i].id) TRY(lift(e, in[i], depth + 1));
  return TD_OK;
}

/* Views of views: the inner ones first. */
static td_status lift(passes_edit *e, ir_value v, uint32_t depth) {
  const ir_node made_by = ir_value_of(e->graph, v)->node;
  const ir_node_def *node = made_by.id ? ir_node_of(e->graph, made_by) : NULL;
  bool lifted;
  if (depth > MAX_DEPTH || !node || !(node->op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE)) || passes_uses(e, v) != 1)
    return TD_OK;
  TRY(lift(e, node->in[0], depth + 1));
  return lift_one(e, v, depth, &lifted);
}

/* ---- operands that broadcast by themselves ---- */

/* Do operands `in` alone, in place of those of `node`, give its result? */
static bool broadcasts(const passes_edit *e, const ir_node_def *node, const ir_value *in) {
  const ir_type *out = ir_type_of(e->graph, node->out[0]);
  bool rank = false;
  for (uint32_t k = 0; k < node->in_count; k++) rank |= in[k].id && ir_type_of(e->graph, in[k])->rank == out->rank;
  for (int32_t axis = 0; axis < out->rank; axis++) {
    bool found = out->dims[axis] == 1;
    for (uint32_t k = 0; k < node->in_count && !found; k++)
      found = in[k].id && dim_of(ir_type_of(e->graph, in[k]), out->rank, axis) == out->dims[axis];
    if (!found) return false;
  }
  return rank;
}

static td_status skip_expands(passes_edit *e, ir_node id, const ir_node_def *node) {
  ir_value in[MAX_OPERANDS], out;
  base_arg args[IR_NODE_ARGS];
  bool any = false;
  for (uint32_t i = 0; i < node->in_count; i++) {
    in[i] = node->in[i];
    if (in[i].id && !is_ranked(ir_type_of(e->graph, in[i]))) return TD_OK;
  }
  if (!is_ranked(ir_type_of(e->graph, node->out[0]))) return TD_OK;
  for (uint32_t i = 0; i < node->in_count; i++) {
    const ir_node_def *expand = passes_producer(e, in[i], OP_aten_expand);
    if (!expand || !is_ranked(ir_type_of(e->graph, expand->in[0]))) continue;
    in[i] = expand->in[0];
    if (broadcasts(e, node, in)) any = true;
    else in[i] = node->in[i];
  }
  if (!any) return TD_OK;
  const ir_node_def old = *node;
  const ir_new_node spec = {.in = in, .in_count = old.in_count, .args = args, .arg_count = ir_node_args(&old, args)};
  TRY(passes_add(e, id, old.op->id, spec, NULL, &out));
  if (ir_type_equal(ir_type_of(e->graph, out), ir_type_of(e->graph, old.out[0]))) return passes_take_place(e, id, out);
  passes_drop(e, out);
  return TD_OK;
}

/* ---- softmax ---- */

/* A softmax of rows, in front of a view that leaves rows alone: then it can run with the loop in front of the view. */
static td_status sink(passes_edit *e, ir_node id, const ir_node_def *softmax) {
  ir_node_def *loop;
  const ir_node_def *view = view_of_loop(e, softmax->in[0], &loop);
  if (!view || view->op->id == OP_aten_permute || passes_int(softmax, "flatten")) return TD_OK;
  const ir_type from = *ir_type_of(e->graph, view->in[0]), to = *ir_type_of(e->graph, softmax->out[0]);
  const int64_t dim = passes_int(softmax, "dim");
  int64_t sizes[BASE_MAX_RANK];
  group g = {0};
  if (from.rank == 0 || to.rank == 0 || (dim != -1 && dim != to.rank - 1) || !passes_view_sizes(&from, &to, sizes))
    return TD_OK;
  while (g.from_end < from.rank - 1 || g.to_end < to.rank - 1)
    if (!next_group(&e->graph->dims, &from, &to, &g)) return TD_OK;
  if (g.from_end != from.rank - 1 || g.to_end != to.rank - 1 || from.dims[from.rank - 1] != to.dims[to.rank - 1])
    return TD_OK;
  base_arg args[IR_NODE_ARGS];
  const ir_node_def old = *softmax;
  const uint32_t count = ir_node_args(&old, args);
  *passes_arg(args, count, "dim") = (base_arg)ARG_INT("dim", -1);
  const ir_value in = view->in[0];
  ir_value rows, out;
  TRY(passes_add(e, id, old.op->id, (ir_new_node){.in = &in, .in_count = 1, .args = args, .arg_count = count}, NULL,
                 &rows));
  TRY(passes_view(e, id, rows, &to, &out));
  if (ir_type_equal(ir_type_of(e->graph, out), &to)) return passes_take_place(e, id, out);
  passes_drop(e, out);
  return TD_OK;
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def node = *ir_node_of(e->graph, id);
  const bool copies = node.op->flags & IR_OP_VIEW_DENSE && passes_producer(e, node.in[0], OP_aten_permute);
  for (uint32_t i = 0; i < node.in_count && (node.op->lower || (copies && i == 0)); i++)
    if (ir_node_of(e->graph, id)->in[i].id) {
      ir_refresh(e->graph, id);
      TRY(lift(e, ir_node_of(e->graph, id)->in[i], 0));
    }
  ir_refresh(e->graph, id);
  if (node.op->id == OP_aten__softmax) return sink(e, id, ir_node_of(e->graph, id));
  return is_loop(ir_node_of(e->graph, id)) ? skip_expands(e, id, ir_node_of(e->graph, id)) : TD_OK;
}

td_status passes_lift(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
