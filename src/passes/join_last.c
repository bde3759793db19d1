/* join_last.c -- loops behind a join work on its parts, so that the join is made at the end, in place, and costs
 * nothing:
 *
 *     mul(cat(neg(x), y), z)  -> cat(mul(neg(x), slice(z)), mul(y, slice(z)))
 *
 * so for positions whose halves are rotated, and rolls. Where products make all parts they stand in their join
 * already. Requires: a verified graph; parts of known length; a join nobody else uses. Keeps: types, numbers. Breaks:
 * nothing. */
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_PARTS = 4, MAX_OPERANDS = 4, MAX_DEPTH = 8 };

/* An operand's join, if the loop may go into it. */
typedef struct joined {
  ir_node_def join;
  int32_t axis; /* of the join, counted from the last: -1, -2, ... */
} joined;

static bool is_ranked(const ir_type *t) { return t->kind <= IR_BOOL && t->rank > 0; }

static bool find_join(passes_edit *e, ir_value v, joined *j) {
  const ir_node_def *join = v.id ? passes_only_producer(e, v, OP_aten_cat) : NULL;
  if (!join || join->in_count < 2 || join->in_count > MAX_PARTS || !is_ranked(ir_type_of(e->graph, v))) return false;
  const int32_t rank = ir_type_of(e->graph, v)->rank;
  const int64_t dim = base_attr_int(join->attrs, KERN_CAT_DIM);
  bool moves = false; /* some part is not where it belongs when it is made */
  *j = (joined){.join = *join, .axis = (int32_t)(dim < 0 ? dim : dim - rank)};
  for (uint32_t i = 0; i < j->join.in_count; i++) {
    const ir_value part = j->join.in[i];
    const ir_type *t = ir_type_of(e->graph, part);
    const ir_node made_by = ir_value_of(e->graph, part)->node;
    const ir_node_def *maker = made_by.id ? ir_node_of(e->graph, made_by) : NULL;
    if (t->rank != rank || !base_dim_known(t->dims[rank + j->axis]) || t->dims[rank + j->axis] == 0) return false;
    moves |= !maker || !maker->op || maker->op->flags & IR_OP_VIEW || maker->op->lower || passes_uses(e, part) != 1;
  }
  return moves;
}

static bool is_loop(const passes_edit *e, const ir_node_def *node) {
  bool ranked = node->op && node->op->lower && node->op->flags & IR_OP_ELEMENTWISE && node->out_count == 1 &&
                node->in_count <= MAX_OPERANDS && is_ranked(ir_type_of(e->graph, node->out[0]));
  for (uint32_t i = 0; i < node->in_count && ranked; i++)
    ranked = !node->in[i].id || ir_type_of(e->graph, node->in[i])->rank >= 0;
  return ranked;
}

/* Elements [first, end) along an axis, counted from the last. */
typedef struct span {
  int32_t axis;
  int64_t first, end;
  uint32_t depth; /* of loops that it has gone into */
} span;

/* The loop, used once, that gives `v`, in *loop, its operands up to date; false: something else does, or it is too
 * deep.
 */
static bool loop_behind(passes_edit *e, ir_value v, uint32_t depth, ir_node_def *loop) {
  const ir_node made_by = ir_value_of(e->graph, v)->node;
  if (!made_by.id || passes_uses(e, v) != 1 || depth >= MAX_DEPTH || !is_loop(e, ir_node_of(e->graph, made_by)))
    return false;
  ir_refresh(e->graph, made_by);
  *loop = *ir_node_of(e->graph, made_by);
  return true;
}

static bool have_spans(passes_edit *e, const ir_node_def *loop, uint32_t operand, int32_t axis, uint32_t depth);

/* May a part of `v` along the axis be taken? An operand of open size may be broadcast, or not. */
static bool has_span(passes_edit *e, ir_value v, int32_t axis, uint32_t depth) {
  const ir_type *t = ir_type_of(e->graph, v);
  const int32_t own = t->rank + axis;
  ir_node_def loop;
  if (own < 0 || t->dims[own] == 1) return true;
  if (!base_dim_known(t->dims[own])) return false;
  return !loop_behind(e, v, depth, &loop) || have_spans(e, &loop, loop.in_count, axis, depth + 1);
}

/* The same of all operands of a loop but `operand`, if it has that one. */
static bool have_spans(passes_edit *e, const ir_node_def *loop, uint32_t operand, int32_t axis, uint32_t depth) {
  for (uint32_t k = 0; k < loop->in_count; k++)
    if (k != operand && loop->in[k].id && !has_span(e, loop->in[k], axis, depth)) return false;
  return true;
}

static td_status add_loop(passes_edit *e, ir_node at, const ir_node_def *loop, uint32_t operand, ir_value part, span of,
                          ir_value *out);

/* The span of an operand; all of it, where it broadcasts. A loop that nobody else uses makes the span alone. */
static td_status take_span(passes_edit *e, ir_node at, span of, ir_value *v) {
  const ir_type *t = ir_type_of(e->graph, *v);
  const int32_t own = t->rank + of.axis;
  if (own < 0 || t->dims[own] == 1) return TD_OK;
  ir_node_def loop;
  if (loop_behind(e, *v, of.depth, &loop)) {
    of.depth++;
    return add_loop(e, at, &loop, loop.in_count, IR_NO_VALUE, of, v);
  }
  return passes_slice(e, at, *v, own, of.first, of.end, v);
}

/* The span of a loop's result, with `part` as that of its operand `operand`, if it has that one. */
static td_status add_loop(passes_edit *e, ir_node at, const ir_node_def *loop, uint32_t operand, ir_value part, span of,
                          ir_value *out) {
  ir_value in[MAX_OPERANDS];
  base_arg args[IR_NODE_ARGS];
  for (uint32_t k = 0; k < loop->in_count; k++) {
    in[k] = k == operand ? part : loop->in[k];
    if (k != operand && in[k].id) TRY(take_span(e, at, of, &in[k]));
  }
  const ir_new_node spec = {.in = in, .in_count = loop->in_count, .args = args, .arg_count = ir_node_args(loop, args)};
  return passes_add(e, at, loop->op->id, spec, loop, out);
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def loop = *ir_node_of(e->graph, id);
  joined j;
  uint32_t operand = 0;
  if (!is_loop(e, &loop)) return TD_OK;
  while (operand < loop.in_count && !find_join(e, loop.in[operand], &j)) operand++;
  if (operand == loop.in_count) return TD_OK;
  const ir_type *of = ir_type_of(e->graph, loop.in[operand]), *type = ir_type_of(e->graph, loop.out[0]);
  if (of->rank != type->rank || of->dims[of->rank + j.axis] != type->dims[type->rank + j.axis]) return TD_OK;
  if (!have_spans(e, &loop, operand, j.axis, 0)) return TD_OK;
  const int32_t rank = type->rank;
  ir_value parts[MAX_PARTS], out;
  int64_t first = 0;
  for (uint32_t i = 0; i < j.join.in_count; i++) {
    const int64_t count = ir_type_of(e->graph, j.join.in[i])->dims[rank + j.axis];
    TRY(add_loop(e, id, &loop, operand, j.join.in[i], (span){j.axis, first, first + count, 0}, &parts[i]));
    first += count;
  }
  const ir_new_node spec = {
      .in = parts, .in_count = j.join.in_count, .args = (base_arg[]){ARG_INT("dim", rank + j.axis)}, .arg_count = 1};
  TRY(passes_add(e, id, OP_aten_cat, spec, &j.join, &out));
  if (ir_type_equal(ir_type_of(e->graph, out), ir_type_of(e->graph, loop.out[0]))) return passes_take_place(e, id, out);
  passes_drop(e, out);
  return TD_OK;
}

td_status passes_join_last(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
