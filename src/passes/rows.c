/* rows.c -- of a value of which everybody uses the same one row, only that row is computed:
 *
 *     select(linear(norm(x)), 0)                    -> linear(norm(select(x, 0)))
 *     select(linear(attention(q, k, v)), 0)         -> linear(attention(select(q, 0), k, v))
 *
 * as a classifier reads the first token alone of its last layer. A row is what one index along one axis picks; it keeps
 * that axis, one element long. Nodes are gone through from the last to the first: where all uses of a node's results
 * want one row, and the operator makes a row of rows (along an axis that it does not work along), the node wants that
 * row of its operands. Then, from the first to the last, such nodes are made anew on rows.
 *
 * Requires: a verified graph; nodes of the graph's own block; constant indices. Keeps: types. Breaks: bit equality:
 * kernels may add otherwise for one row than for many. */
#include "kernels/kernels.h"
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_OPERANDS = 8, WHOLE = -1 };

typedef struct row {
  int32_t axis;
  int64_t index; /* from the front where the size is known */
} row;

/* What is known of a value. */
typedef struct wish {
  uint32_t count; /* of uses that want `row` and nothing else */
  bool differ;    /* others want another row */
  row row;
  ir_value narrow; /* the row, once it is made */
} wish;

typedef struct narrowing {
  BASE_VEC(ir_node) nodes; /* as they stand */
  BASE_VEC(ir_node) picks; /* of them those that take one row */
  wish *wishes;            /* by value id */
  bool *taken;             /* by node id: will be made anew */
} narrowing;

/* ---- operators that make rows of rows: the axis of each operand that holds them, WHOLE: none ---- */

typedef bool rows_of(passes_edit *e, const ir_node_def *node, int32_t axis, int32_t *axes);

static const ir_type *type_of(const passes_edit *e, const ir_node_def *node, uint32_t i) {
  return i < node->in_count && node->in[i].id ? ir_type_of(e->graph, node->in[i]) : NULL;
}

/* An operand that is broadcast to the result. */
static bool broadcast_axis(const ir_type *in, const ir_type *out, int32_t axis, int32_t *at) {
  int32_t i = axis - (out->rank - in->rank);
  *at = i >= 0 && in->dims[i] != 1 ? i : WHOLE;
  return in->rank >= 0 && in->rank <= out->rank && (*at == WHOLE || in->dims[i] == out->dims[axis]);
}

static bool elementwise_rows(passes_edit *e, const ir_node_def *node, int32_t axis, int32_t *axes) {
  const ir_type *out = ir_type_of(e->graph, node->out[0]);
  bool fits = !(node->op->flags & (IR_OP_RANDOM | IR_OP_DEFINES));
  for (uint32_t i = 0; fits && i < node->in_count; i++)
    fits = !type_of(e, node, i) || broadcast_axis(type_of(e, node, i), out, axis, &axes[i]);
  return fits;
}

static bool linear_rows(passes_edit *e, const ir_node_def *node, int32_t axis, int32_t *axes) {
  const ir_type *out = ir_type_of(e->graph, node->out[0]), *residual = type_of(e, node, KERN_IN_RESIDUAL);
  axes[0] = axis;
  if (residual) axes[KERN_IN_RESIDUAL] = axis;
  return axis < out->rank - 1 && type_of(e, node, 0)->rank == out->rank && (!residual || ir_type_equal(residual, out));
}

static bool norm_rows(passes_edit *e, const ir_node_def *node, int32_t axis, int32_t *axes) {
  int64_t over = passes_int(node, "axis"), rank = ir_type_of(e->graph, node->out[0])->rank;
  axes[0] = axis;
  return axis < (over < 0 ? over + rank : over);
}

static bool add_norm_rows(passes_edit *e, const ir_node_def *node, int32_t axis, int32_t *axes) {
  axes[0] = axes[1] = axis;
  return axis < ir_type_of(e->graph, node->out[0])->rank - 1;
}

/* Queries: keys and values stay whole. */
static bool attention_rows(passes_edit *e, const ir_node_def *node, int32_t axis, int32_t *axes) {
  enum { Q, MASKS = 3, END = 5, QUERIES = 1 };
  const ir_type *q = type_of(e, node, Q);
  const ir_type scores = {.rank = 4, .dims = {BASE_DIM_NONE, BASE_DIM_NONE, q->dims[QUERIES], BASE_DIM_NONE}};
  axes[Q] = QUERIES;
  bool fits = axis == QUERIES && !passes_int(node, "causal") && passes_int(node, "left") < 0;
  for (uint32_t i = MASKS; fits && i < END; i++) {
    const ir_type *mask = type_of(e, node, i);
    fits = !mask || broadcast_axis(mask, &scores, 2, &axes[i]);
  }
  return fits;
}

static bool permute_rows(passes_edit *e, const ir_node_def *node, int32_t axis, int32_t *axes) {
  int64_t order[BASE_MAX_RANK];
  const ir_type *out = ir_type_of(e->graph, node->out[0]);
  if (!passes_order(node, out->rank, order)) return false;
  axes[0] = (int32_t)order[axis];
  return true;
}

/* A view that keeps the order of elements: before and behind the axis the same sizes, but for ones. */
static bool view_rows(passes_edit *e, const ir_node_def *node, int32_t axis, int32_t *axes) {
  const ir_type *in = type_of(e, node, 0), *out = ir_type_of(e->graph, node->out[0]);
  int32_t i = 0;
  for (int32_t k = 0; k <= axis; k++) {
    if (k < axis && out->dims[k] == 1) continue;
    while (i < in->rank && in->dims[i] == 1) i++;
    if (i >= in->rank || in->dims[i] != out->dims[k]) return false;
    if (k < axis) i++;
  }
  axes[0] = i;
  return true;
}

static const struct rule {
  ir_op_id op;
  rows_of *rows;
  bool shape; /* an operator on sizes alone: made anew as a view */
} operators[] = {
    {OP_td_linear, linear_rows, false},           {OP_td_attention, attention_rows, false},
    {OP_td_add_layer_norm, add_norm_rows, false}, {OP_aten_native_layer_norm, norm_rows, false},
    {OP_aten_permute, permute_rows, false},       {OP_aten_view, view_rows, true},
    {OP_aten_unflatten, view_rows, true},         {OP_aten_squeeze, view_rows, true},
    {OP_aten_unsqueeze, view_rows, true},
};

static const struct rule *rule_of(const ir_op *op) {
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    if (op->id == operators[i].op) return &operators[i];
  return NULL;
}

static bool is_shape(const ir_op *op) {
  const struct rule *rule = rule_of(op);
  return rule && rule->shape;
}

static bool operand_axes(passes_edit *e, const ir_node_def *node, int32_t axis, int32_t *axes) {
  if (node->in_count > MAX_OPERANDS) return false;
  for (uint32_t i = 0; i < node->in_count; i++) axes[i] = WHOLE;
  const struct rule *rule = rule_of(node->op);
  if (rule) return rule->rows(e, node, axis, axes);
  return node->op->flags & IR_OP_ELEMENTWISE && elementwise_rows(e, node, axis, axes);
}

/* ---- what is wanted ---- */

static void want(passes_edit *e, ir_value v, row r) {
  narrowing *n = e->user;
  wish *w = &n->wishes[v.id];
  w->differ = w->differ || (w->count && (w->row.axis != r.axis || w->row.index != r.index));
  w->row = r;
  w->count++;
}

/* The one row that all uses of the node's results want. */
static bool wanted_row(const passes_edit *e, const ir_node_def *node, row *r) {
  const narrowing *n = e->user;
  bool any = false;
  for (uint32_t i = 0; i < node->out_count; i++) {
    const wish *w = &n->wishes[node->out[i].id];
    if (!passes_uses(e, node->out[i])) continue;
    if (w->count != passes_uses(e, node->out[i]) || w->differ) return false;
    if (any && (w->row.axis != r->axis || w->row.index != r->index)) return false;
    *r = w->row;
    any = true;
  }
  return any;
}

static ir_type row_type(const ir_type *whole, row r) {
  ir_type type = *whole;
  type.dims[r.axis] = 1;
  return type;
}

static void spread(passes_edit *e, ir_node id) {
  narrowing *n = e->user;
  const ir_node_def *node = ir_node_of(e->graph, id);
  int32_t axes[MAX_OPERANDS];
  int64_t sizes[BASE_MAX_RANK];
  row r;
  if (!wanted_row(e, node, &r) || !operand_axes(e, node, r.axis, axes)) return;
  if (is_shape(node->op)) {
    const ir_type *x = ir_type_of(e->graph, node->in[0]), type = row_type(ir_type_of(e->graph, node->out[0]), r);
    const ir_type from = axes[0] == WHOLE ? *x : row_type(x, (row){axes[0], r.index});
    if (!passes_view_sizes(&from, &type, sizes)) return;
  }
  for (uint32_t i = 0; i < node->in_count; i++)
    if (axes[i] != WHOLE) want(e, node->in[i], (row){axes[i], r.index});
  n->taken[id.id] = true;
}

/* A view of what stays whole is no work saved. */
static void leave_views(passes_edit *e, ir_node id) {
  narrowing *n = e->user;
  const ir_node_def *node = ir_node_of(e->graph, id);
  if (n->taken[id.id] && node->op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE))
    n->taken[id.id] = n->taken[ir_value_of(e->graph, node->in[0])->node.id];
}

/* ---- rows ---- */

/* Row `r` of `v`, in front of `at`. Where all want one row of it, it is made once. */
static td_status narrow(passes_edit *e, ir_node at, ir_value v, row r, ir_value *out) {
  narrowing *n = e->user;
  wish *w = &n->wishes[v.id];
  *out = w->narrow;
  if (w->narrow.id && !w->differ) return TD_OK;
  ir_value index;
  TRY(ir_add_ints(e->graph, &r.index, 1, &index, e->err));
  TRY(passes_select(e, at, v, r.axis, index, out));
  w->narrow = *out;
  return TD_OK;
}

/* The node on rows. */
static td_status make_anew(passes_edit *e, ir_node id) {
  narrowing *n = e->user;
  const ir_node_def node = *ir_node_of(e->graph, id);
  ir_value in[MAX_OPERANDS], made;
  int32_t axes[MAX_OPERANDS];
  row r = {0, 0};
  wanted_row(e, &node, &r);
  operand_axes(e, &node, r.axis, axes);
  for (uint32_t i = 0; i < node.in_count; i++) {
    in[i] = node.in[i];
    if (axes[i] != WHOLE) TRY(narrow(e, id, node.in[i], (row){axes[i], r.index}, &in[i]));
  }
  ++*e->changes;
  if (is_shape(node.op)) {
    const ir_type type = row_type(ir_type_of(e->graph, node.out[0]), r);
    return passes_view(e, id, in[0], &type, &n->wishes[node.out[0].id].narrow);
  }
  base_arg args[IR_NODE_ARGS];
  const uint32_t count = ir_node_args(&node, args);
  const ir_new_node spec = {
      .in = in, .in_count = node.in_count, .out_count = node.out_count, .args = args, .arg_count = count};
  TRY(passes_add(e, id, node.op->id, spec, NULL, &made));
  const ir_node_def *anew = ir_node_of(e->graph, ir_value_of(e->graph, made)->node);
  for (uint32_t i = 0; i < node.out_count; i++) n->wishes[node.out[i].id].narrow = anew->out[i];
  return TD_OK;
}

/* What took a row has it now. */
static td_status replace_pick(passes_edit *e, ir_node id) {
  const narrowing *n = e->user;
  const ir_node_def *node = ir_node_of(e->graph, id);
  const ir_value whole = node->in[0], out = node->out[0];
  ir_value one = n->wishes[whole.id].narrow;
  if (!n->taken[ir_value_of(e->graph, whole)->node.id]) return TD_OK;
  const ir_type type = *ir_type_of(e->graph, out);
  if (!ir_type_equal(ir_type_of(e->graph, one), &type)) TRY(passes_view(e, id, one, &type, &one));
  return passes_take_place(e, id, one);
}

/* ---- the pass ---- */

/* An index_select or a slice that takes one row of more than one. */
static bool is_pick(const passes_edit *e, const ir_node_def *node, row *r) {
  int64_t sizes[BASE_MAX_RANK];
  const bool slice = node->op->id == OP_aten_slice;
  double index, axis = 0;
  if (!slice && node->op->id != OP_aten_index_select) return false;
  const ir_type *type = ir_type_of(e->graph, node->in[0]), *out = ir_type_of(e->graph, node->out[0]);
  if (type->rank < 1 || !passes_number(e, node->in[1], &index)) return false;
  if (!slice) axis = (double)passes_int(node, "dim");
  else if (node->in_count > 3 && node->in[3].id && !passes_number(e, node->in[3], &axis)) return false;
  *r = (row){(int32_t)axis + (axis < 0 ? type->rank : 0), (int64_t)index};
  const ir_type narrow = row_type(type, *r);
  if (!passes_view_sizes(&narrow, out, sizes)) return false;
  const base_dim size = type->dims[r->axis];
  if (!base_dim_known(size)) return !slice;
  if (index < 0) r->index += size;
  return size > 1 && r->index >= 0 && r->index < size && (!slice || out->dims[r->axis] == 1);
}

static td_status visit(passes_edit *e, ir_node id) {
  narrowing *n = e->user;
  const ir_node_def *node = ir_node_of(e->graph, id);
  row r;
  if (!n->wishes) {
    n->wishes = base_new(e->scratch, wish, e->graph->values.count);
    n->taken = base_new(e->scratch, bool, e->graph->nodes.count);
    if (!n->wishes || !n->taken) return base_no_memory(e->err, "a pass");
  }
  if (node->parent.id != e->graph->top.id) return TD_OK;
  const bool pick = is_pick(e, node, &r);
  if (pick) want(e, node->in[0], r);
  ir_node *place = base_vec_push(e->scratch, &n->nodes), *other = pick ? base_vec_push(e->scratch, &n->picks) : NULL;
  if (!place || (pick && !other)) return base_no_memory(e->err, "a pass");
  *place = id;
  if (pick) *other = id;
  return TD_OK;
}

static td_status finish(passes_edit *e) {
  const narrowing *n = e->user;
  for (uint32_t i = n->nodes.count; i-- > 0;) spread(e, n->nodes.at[i]);
  for (uint32_t i = 0; i < n->nodes.count; i++) leave_views(e, n->nodes.at[i]);
  for (uint32_t i = 0; i < n->nodes.count; i++)
    if (n->taken[n->nodes.at[i].id]) TRY(make_anew(e, n->nodes.at[i]));
  for (uint32_t i = 0; i < n->picks.count; i++) TRY(replace_pick(e, n->picks.at[i]));
  return TD_OK;
}

td_status passes_rows(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  narrowing n = {.wishes = NULL};
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &n};
  return passes_walk(&e, visit, finish);
}
