/* lower_control.c -- If, Loop, Scan and SequenceMap to prim::If and prim::Loop. What a body does is lowered into blocks
 * of their own before the region that owns them exists, because its types follow from them.
 *
 * Types of carried values are a fixed point: the body is lowered for the types of the initial values; where a result is
 * of another type, what differs is opened (an open size, then an open rank) and the body is lowered again. What is
 * collected over the iterations goes through lists. */
#include "import/onnx/state_priv.h"

#include <string.h>

/* ---- types ---- */

static bool fail_types(onnx_node *n, const ir_type *a, const ir_type *b) {
  onnx_fail(n, TD_BAD_FILE, "a value is %s in one place and %s in another", base_dtype(a->dtype)->name,
            base_dtype(b->dtype)->name);
  return false;
}

/* The element type of both, or TD_INVALID when they differ; TD_INVALID gives way. */
static td_dtype common_dtype(onnx_node *n, const ir_type *a, const ir_type *b) {
  if (a->dtype == b->dtype || b->dtype == TD_INVALID) return a->dtype;
  if (a->dtype != TD_INVALID) fail_types(n, a, b);
  return b->dtype;
}

/* What an empty optional or list would hold when nothing says so. */
static bool is_unknown(const ir_type *t) {
  return t->kind == IR_TENSOR && t->dtype == TD_INVALID && t->rank == IR_UNRANKED;
}

static bool is_holder(const ir_type *t) { return (t->kind == IR_LIST || t->kind == IR_OPTIONAL) && t->elem; }

/* What both say. Sizes that differ are open: a new symbol, or within a list, whose items may all differ, no shape at
 * all. */
static ir_type join_types(onnx_node *n, const ir_type *a, const ir_type *b, bool in_list);

static ir_type join_holders(onnx_node *n, const ir_type *a, const ir_type *b) {
  const ir_type *holder = is_holder(a) ? a : b;
  bool both = is_holder(a) && is_holder(b) && a->kind == b->kind;
  const ir_type *x = both || holder == a ? a->elem : a, *y = both || holder == b ? b->elem : b;
  ir_type *elem = onnx_alloc(n, sizeof *elem);
  if (!both && holder->kind == IR_LIST && (a->kind == IR_TENSOR || b->kind == IR_TENSOR))
    onnx_fail(n, TD_BAD_FILE, "a value is a tensor in one place and a sequence in another");
  if (!elem || onnx_failed(n)) return *holder;
  /* An optional of a list and a list: the list is its element. */
  if (!both && is_holder(a) && is_holder(b)) {
    holder = a->kind == IR_OPTIONAL ? a : b;
    x = holder->elem;
    y = holder == a ? b : a;
  }
  *elem = join_types(n, x, y, true);
  return (ir_type){.kind = holder->kind, .elem = elem};
}

static ir_type join_types(onnx_node *n, const ir_type *a, const ir_type *b, bool in_list) {
  if (onnx_failed(n) || ir_type_equal(a, b) || is_unknown(b)) return *a;
  if (is_unknown(a)) return *b;
  if (is_holder(a) || is_holder(b)) return join_holders(n, a, b);
  td_dtype dtype = common_dtype(n, a, b);
  if (a->rank != b->rank || a->rank == IR_UNRANKED || in_list) return ir_unranked(dtype);
  ir_type type = *a;
  type.dtype = dtype;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) type.dims[i] = base_dim_fresh(&n->im->graph->dims);
  return type;
}

/* ---- blocks ---- */

static ir_block new_block(onnx_node *n) {
  ir_block block = {0};
  if (!onnx_failed(n)) onnx_take(n, ir_add_block(n->im->graph, (ir_node){0}, &block, n->im->err));
  return block;
}

static ir_value new_param(onnx_node *n, ir_block block, const ir_type *type) {
  ir_value value = IR_NO_VALUE;
  if (!onnx_failed(n)) onnx_take(n, ir_add_param(n->im->graph, block, type, NULL, &value, n->im->err));
  return value;
}

static void add_result(onnx_node *n, ir_block block, ir_value value) {
  if (!onnx_failed(n)) onnx_take(n, ir_add_result(n->im->graph, block, value, n->im->err));
}

/* Gives finished blocks to the region `op` that is added to the current block. */
static void add_region(onnx_node *n, const char *op, const ir_value *in, uint32_t in_count, const ir_type *types,
                       uint32_t out_count, const ir_block *blocks, uint32_t block_count, ir_value *outs) {
  ir_graph *g = n->im->graph;
  if (onnx_failed(n)) return;
  ir_new_node spec = {.op = ir_opset_find(g->ops, op),
                      .in = in,
                      .in_count = in_count,
                      .out_count = out_count,
                      .origins = {&n->origin, 1},
                      .out_types = types};
  ir_node node = {0};
  ir_block *owned = onnx_alloc(n, block_count * sizeof *owned);
  if (!owned) return;
  if (!spec.op) onnx_fail(n, TD_UNSUPPORTED, "it needs the operator %s, which is not there", op);
  else onnx_take(n, ir_add_node(g, n->scope->block, &spec, &node, NULL, n->im->err));
  if (onnx_failed(n)) return;
  for (uint32_t i = 0; i < block_count; i++) {
    owned[i] = blocks[i];
    ir_block_of(g, blocks[i])->owner = node;
  }
  ir_node_of(g, node)->blocks = owned;
  ir_node_of(g, node)->block_count = block_count;
  if (out_count) memcpy(outs, ir_node_of(g, node)->out, out_count * sizeof *outs);
}

/* Empties a block of an earlier round; nothing outside of it uses its values. */
static void discard_block(ir_graph *g, ir_block block) {
  ir_block_def *def = ir_block_of(g, block);
  for (uint32_t i = 0; i < def->nodes.count; i++) {
    ir_node_def *node = ir_node_of(g, def->nodes.at[i]);
    for (uint32_t k = 0; k < node->block_count; k++) discard_block(g, node->blocks[k]);
    node->op = NULL;
  }
  def->nodes.count = def->results.count = def->params.count = 0;
}

/* A one-element tensor as a number or flag of rank 0. */
static ir_value to_scalar(onnx_node *n, ir_value v, td_dtype dtype, const char *what) {
  const ir_type *type = onnx_type(n, v);
  if (onnx_failed(n) || !v.id) return v;
  if (type->kind != IR_TENSOR || type->dtype != dtype)
    onnx_fail(n, TD_BAD_FILE, "the %s must be of type %s", what, td_dtype_name(dtype));
  return type->rank == 0 ? v : ONNX_EMIT(n, "aten::view", v, onnx_ints(n, NULL, 0));
}

/* ---- If ---- */

/* Lowers a branch into the current block. */
static ir_value *lower_branch(onnx_node *n, const onnx_bound *branch) {
  ir_value *results = onnx_alloc(n, branch->attr->graph->outputs.count * sizeof *results);
  if (results) onnx_take(n, onnx_lower_body(n, branch, n->scope->block, NULL, 0, results));
  return onnx_failed(n) ? NULL : results;
}

static ir_value *lower_branch_block(onnx_node *n, const onnx_bound *branch, ir_block *block) {
  ir_block outer = n->scope->block;
  *block = new_block(n);
  if (onnx_failed(n)) return NULL;
  n->scope->block = *block;
  ir_value *results = lower_branch(n, branch);
  n->scope->block = outer;
  for (uint32_t i = 0; results && i < branch->attr->graph->outputs.count; i++) add_result(n, *block, results[i]);
  return results;
}

static void lower_both(onnx_node *n, ir_value cond, const onnx_bound *const *branches, uint32_t count) {
  ir_block blocks[2];
  ir_value *results[2], *outs = onnx_alloc(n, count * sizeof *outs);
  ir_type *types = onnx_alloc(n, count * sizeof *types);
  for (uint32_t i = 0; i < 2; i++) results[i] = lower_branch_block(n, branches[i], &blocks[i]);
  if (onnx_failed(n)) return;
  for (uint32_t i = 0; i < count; i++)
    types[i] = join_types(n, onnx_type(n, results[0][i]), onnx_type(n, results[1][i]), false);
  add_region(n, "prim::If", &cond, 1, types, count, blocks, 2, outs);
  for (uint32_t i = 0; i < count; i++) onnx_out(n, i, outs[i]);
}

static void lower_if(onnx_node *n) {
  const onnx_bound *branches[2] = {onnx_attr_graph(n, "then_branch"), onnx_attr_graph(n, "else_branch")};
  if (!onnx_has(n, 0)) onnx_fail(n, TD_BAD_FILE, "the condition is missing");
  if (onnx_failed(n)) return;
  uint32_t count = branches[0]->attr->graph->outputs.count, known_count;
  const int64_t *known;
  if (branches[1]->attr->graph->outputs.count != count || n->out_count > count)
    onnx_fail(n, TD_BAD_FILE, "the branches must have as many outputs as the node");
  ir_value cond = onnx_in(n, 0);
  if (onnx_known_ints(n, cond, &known, &known_count) && known_count == 1) {
    ir_value *results = lower_branch(n, branches[known[0] == 0]);
    for (uint32_t i = 0; results && i < count; i++) onnx_out(n, i, results[i]);
    return;
  }
  cond = to_scalar(n, cond, TD_BOOL, "condition");
  if (!onnx_failed(n)) lower_both(n, cond, branches, count);
}

/* ---- loops ---- */

enum { PRECISE_ROUNDS = 4, MAX_ROUNDS = PRECISE_ROUNDS + 3 };

typedef struct loop loop;

/* A loop to build. The body is lowered into the current block: it gets the iteration's number and the carried values,
 * and gives results: whether to go on (none: yes), the carried values, what is collected. */
struct loop {
  onnx_node *n;
  void (*lower)(loop *l, ir_value iteration, const ir_value *carried, ir_value *results);
  const void *user;
  ir_value trips, cond; /* may be absent */
  const ir_value *initial;
  uint32_t carried, collected;
  ir_type *types; /* of the carried values so far */
  uint16_t *open; /* bit i: dimension i may change from one iteration to the next */
  ir_value *params, *results;
  ir_value *outs; /* carried values, then lists of what was collected */
  ir_type *items; /* of what is collected */
};

/* `type` with symbols of its own for the open dimensions. */
static ir_type instance(const loop *l, uint32_t i) {
  ir_type type = l->types[i];
  for (int32_t d = 0; type.kind == IR_TENSOR && d < type.rank; d++)
    if (l->open[i] >> d & 1) type.dims[d] = base_dim_fresh(&l->n->im->graph->dims);
  return type;
}

/* Opens what the result of an iteration does not have in common with the carried value. True when that was nothing. */
static bool fits(loop *l, uint32_t i) {
  ir_type *type = &l->types[i];
  const ir_type *result = onnx_type(l->n, l->results[1 + i]);
  if (is_holder(type) || is_holder(result)) {
    ir_type joined = join_types(l->n, type, result, false);
    bool same = ir_type_equal(&joined, type);
    *type = joined;
    return same;
  }
  td_dtype dtype = common_dtype(l->n, type, result);
  bool same = dtype == type->dtype;
  type->dtype = dtype;
  if (type->rank == IR_UNRANKED) return same;
  if (type->rank != result->rank) {
    *type = ir_unranked(dtype);
    return false;
  }
  for (int32_t d = 0; d < type->rank; d++) {
    if (l->open[i] >> d & 1 || type->dims[d] == result->dims[d]) continue;
    l->open[i] = (uint16_t)(l->open[i] | 1u << d);
    same = false;
  }
  return same;
}

/* When types still change after a few rounds (values that move from one place to the next), all shapes are opened. */
static void open_all(loop *l, bool ranks) {
  for (uint32_t i = 0; i < l->carried; i++) {
    l->open[i] = (1u << BASE_MAX_RANK) - 1;
    if (ranks && l->types[i].kind == IR_TENSOR) l->types[i] = ir_unranked(l->types[i].dtype);
  }
}

static bool lower_round(loop *l, ir_block *block) {
  onnx_node *n = l->n;
  ir_block outer = n->scope->block;
  const ir_type number = ir_tensor(TD_I64, 0, NULL);
  *block = new_block(n);
  ir_value iteration = new_param(n, *block, &number);
  for (uint32_t i = 0; i < l->carried; i++) {
    ir_type type = instance(l, i);
    l->params[i] = new_param(n, *block, &type);
  }
  memset(l->results, 0, (1 + l->carried + l->collected) * sizeof *l->results);
  if (onnx_failed(n)) return true;
  n->scope->block = *block;
  l->lower(l, iteration, l->params, l->results);
  n->scope->block = outer;
  bool all = true;
  for (uint32_t i = 0; i < l->carried && !onnx_failed(n); i++) all &= fits(l, i);
  return all;
}

/* Lowers the body until its types are a fixed point. */
static ir_block settle(loop *l) {
  ir_graph *g = l->n->im->graph;
  ir_block block = {0};
  for (uint32_t round = 0; round < MAX_ROUNDS && !onnx_failed(l->n); round++) {
    uint32_t first_value = g->values.count;
    if (lower_round(l, &block)) return block;
    onnx_forget_names(l->n->im, first_value);
    discard_block(g, block);
    if (round >= PRECISE_ROUNDS) open_all(l, round > PRECISE_ROUNDS);
    onnx_take(l->n, onnx_check_memory(l->n->im));
  }
  onnx_fail(l->n, TD_UNSUPPORTED, "the types of the values that the loop carries could not be found");
  return block;
}

/* Lists grow by one item per iteration: a parameter, and a result with the item appended. */
static void add_lists(loop *l, ir_block block) {
  onnx_node *n = l->n;
  ir_block outer = n->scope->block;
  n->scope->block = block;
  for (uint32_t i = 0; i < l->collected && !onnx_failed(n); i++) {
    ir_value item = l->results[1 + l->carried + i];
    l->items[i] = *onnx_type(n, item);
    if (l->items[i].kind != IR_TENSOR) onnx_fail(n, TD_UNSUPPORTED, "only tensors can be collected over iterations");
    ir_type *elem = onnx_alloc(n, sizeof *elem);
    if (!elem) break;
    *elem = ir_unranked(l->items[i].dtype);
    ir_type list = {.kind = IR_LIST, .elem = elem};
    ir_value param = new_param(n, block, &list);
    l->results[1 + l->carried + i] = ONNX_EMIT(n, "aten::append", param, item);
  }
  n->scope->block = outer;
}

static bool prepare(loop *l) {
  onnx_node *n = l->n;
  size_t carried = l->carried, all = carried + l->collected;
  l->types = onnx_alloc(n, carried * sizeof *l->types);
  l->open = onnx_alloc(n, carried * sizeof *l->open);
  l->params = onnx_alloc(n, carried * sizeof *l->params);
  l->results = onnx_alloc(n, (all + 1) * sizeof *l->results);
  l->outs = onnx_alloc(n, all * sizeof *l->outs);
  l->items = onnx_alloc(n, l->collected * sizeof *l->items);
  for (uint32_t i = 0; i < l->carried && !onnx_failed(n); i++) {
    if (!l->initial[i].id) onnx_fail(n, TD_BAD_FILE, "an initial value is missing");
    l->types[i] = *onnx_type(n, l->initial[i]);
  }
  return !onnx_failed(n);
}

/* Adds prim::Loop to the current block and fills l->outs and l->items. */
static void build_loop(loop *l) {
  onnx_node *n = l->n;
  if (!prepare(l)) return;
  uint32_t all = l->carried + l->collected;
  ir_block block = settle(l);
  add_lists(l, block);
  ir_value *in = onnx_alloc(n, (2 + (size_t)all) * sizeof *in);
  ir_type *types = onnx_alloc(n, all * sizeof *types);
  if (onnx_failed(n)) return;
  add_result(n, block, l->results[0].id ? l->results[0] : onnx_scalar(n, TD_BOOL, 1));
  in[0] = l->trips;
  in[1] = l->cond;
  for (uint32_t i = 0; i < all && !onnx_failed(n); i++) {
    bool is_list = i >= l->carried;
    add_result(n, block, l->results[1 + i]);
    in[2 + i] = is_list ? ONNX_EMIT_ARGS(n, "td::list_new", NULL, 0, ARG_DTYPE("dtype", l->items[i - l->carried].dtype))
                        : l->initial[i];
    types[i] = is_list ? *onnx_type(n, in[2 + i]) : instance(l, i);
  }
  add_region(n, "prim::Loop", in, 2 + all, types, all, &block, 1, l->outs);
}

/* What was collected as item `i`, stacked along a new axis. */
static ir_value stack_items(loop *l, uint32_t i, int64_t axis) {
  onnx_node *n = l->n;
  const ir_type *item = &l->items[i];
  int64_t dims[BASE_MAX_RANK];
  for (int32_t d = 0; d < item->rank; d++) dims[d] = base_dim_known(item->dims[d]) ? item->dims[d] : -1;
  base_arg args[] = {ARG_INT("dim", axis), ARG_INT("new_axis", 1), ARG_DTYPE("dtype", item->dtype),
                     ARG_INTS("dims", dims, item->rank)};
  return onnx_emit(n, "td::stack_list", &l->outs[l->carried + i], 1, args, item->rank == IR_UNRANKED ? 3 : 4);
}

/* ---- Loop ---- */

/* Some exporters declare the iteration number and the condition as vectors of one element. */
static ir_value as_declared(onnx_node *n, ir_value v, const onnx_value_info *input) {
  ir_type type;
  if (onnx_failed(n) || !fmt_wire_more(&input->type)) return v;
  onnx_take(n, onnx_read_type(n->im, input->type, input->name, &type));
  if (onnx_failed(n) || type.kind != IR_TENSOR || type.rank != 1) return v;
  return ONNX_EMIT(n, "aten::view", v, onnx_ints(n, (int64_t[]){1}, 1));
}

static void loop_body(loop *l, ir_value iteration, const ir_value *carried, ir_value *results) {
  onnx_node *n = l->n;
  const onnx_bound *body = l->user;
  const onnx_graph *graph = body->attr->graph;
  ir_value *params = onnx_alloc(n, graph->inputs.count * sizeof *params);
  if (!params) return;
  params[0] = as_declared(n, iteration, &graph->inputs.at[0]);
  /* An iteration only runs while the condition holds. */
  params[1] = as_declared(n, onnx_scalar(n, TD_BOOL, 1), &graph->inputs.at[1]);
  for (uint32_t i = 0; i < l->carried; i++) params[2 + i] = carried[i];
  if (!onnx_failed(n)) onnx_take(n, onnx_lower_body(n, body, n->scope->block, params, graph->inputs.count, results));
  results[0] = to_scalar(n, results[0], TD_BOOL, "condition");
}

static void lower_loop(onnx_node *n) {
  const onnx_bound *body = onnx_attr_graph(n, "body");
  if (!body) return;
  const onnx_graph *graph = body->attr->graph;
  uint32_t carried = n->record->in.count > 2 ? n->record->in.count - 2 : 0;
  if (graph->inputs.count != carried + 2 || graph->outputs.count < carried + 1 ||
      n->out_count > graph->outputs.count - 1) {
    onnx_fail(n, TD_BAD_FILE, "the body has %u inputs and %u outputs, which does not fit the node's %u and %u",
              graph->inputs.count, graph->outputs.count, n->record->in.count, n->out_count);
    return;
  }
  loop l = {.n = n,
            .lower = loop_body,
            .user = body,
            .initial = n->in + 2,
            .carried = carried,
            .collected = graph->outputs.count - 1 - carried};
  l.trips = to_scalar(n, onnx_in(n, 0), TD_I64, "trip count");
  l.cond = to_scalar(n, onnx_in(n, 1), TD_BOOL, "condition");
  build_loop(&l);
  for (uint32_t i = 0; i < n->out_count && !onnx_failed(n); i++)
    if (onnx_wants(n, i)) onnx_out(n, i, i < carried ? l.outs[i] : stack_items(&l, i - carried, 0));
}

/* ---- Scan: the scanned tensors are taken apart into lists before the loop ---- */

typedef struct scan {
  const onnx_bound *body;
  uint32_t states, inputs, outputs;
  const ir_value *scanned;                                      /* as many as inputs */
  const ir_value *initial;                                      /* as many as states */
  const int64_t *directions, *axes, *out_directions, *out_axes; /* NULL: all 0 */
  ir_value *lists;                                              /* of `scanned`, per iteration */
  ir_value lengths, length; /* Scan-8: list of iterations per row, and that of this row; none: all */
} scan;

static int64_t entry(const int64_t *list, uint32_t i) { return list ? list[i] : 0; }

static ir_value take_apart(onnx_node *n, ir_value tensor, int64_t axis) {
  return ONNX_EMIT_ARGS(n, "td::split_to_list", &tensor, 1, ARG_INT("dim", axis), ARG_INT("keepdims", 0));
}

/* Past the end of a short row states stay as they are and outputs are 0. */
static void stop_at_length(loop *l, const scan *s, ir_value iteration, const ir_value *carried, ir_value *results) {
  onnx_node *n = l->n;
  ir_value active = ONNX_EMIT(n, "aten::lt", iteration, s->length);
  for (uint32_t i = 0; i < s->states + s->outputs && !onnx_failed(n); i++) {
    ir_value idle = i < s->states ? carried[i] : onnx_scalar(n, onnx_type_dtype(n, results[i]), 0);
    results[i] = ONNX_EMIT(n, "aten::where", active, results[i], idle);
  }
}

/* Of a list, -1 is the last item. */
static ir_value last_position(onnx_node *n, const scan *s) {
  return s->length.id ? ONNX_EMIT(n, "aten::sub", s->length, onnx_int(n, 1)) : onnx_int(n, -1);
}

static void scan_body(loop *l, ir_value iteration, const ir_value *carried, ir_value *results) {
  onnx_node *n = l->n;
  const scan *s = l->user;
  uint32_t count = s->states + s->inputs;
  ir_value *params = onnx_alloc(n, count * sizeof *params);
  for (uint32_t i = 0; params && i < count && !onnx_failed(n); i++) {
    if (i < s->states) {
      params[i] = carried[i];
      continue;
    }
    uint32_t k = i - s->states;
    ir_value at = entry(s->directions, k) ? ONNX_EMIT(n, "aten::sub", last_position(n, s), iteration) : iteration;
    params[i] = ONNX_EMIT(n, "td::list_at", s->lists[k], at);
  }
  if (!onnx_failed(n)) onnx_take(n, onnx_lower_body(n, s->body, n->scope->block, params, count, results + 1));
  if (s->length.id) stop_at_length(l, s, iteration, carried, results + 1);
}

/* Outputs: final states, then what was collected. */
static void build_scan(onnx_node *n, scan *s, ir_value *outs) {
  s->lists = onnx_alloc(n, s->inputs * sizeof *s->lists);
  for (uint32_t i = 0; i < s->inputs && !onnx_failed(n); i++)
    s->lists[i] = take_apart(n, s->scanned[i], entry(s->axes, i));
  if (onnx_failed(n)) return;
  loop l = {
      .n = n, .lower = scan_body, .user = s, .initial = s->initial, .carried = s->states, .collected = s->outputs};
  l.trips = ONNX_EMIT(n, "td::list_len", s->lists[0]);
  build_loop(&l);
  for (uint32_t i = 0; i < s->states + s->outputs && !onnx_failed(n); i++) {
    if (i < s->states) {
      outs[i] = l.outs[i];
      continue;
    }
    uint32_t k = i - s->states;
    int64_t axis = entry(s->out_axes, k);
    outs[i] = stack_items(&l, k, axis);
    if (entry(s->out_directions, k)) outs[i] = ONNX_EMIT_ARGS(n, "aten::flip", &outs[i], 1, ARG_INTS("dims", &axis, 1));
  }
}

static const int64_t *scan_list(onnx_node *n, const char *name, uint32_t expected) {
  uint32_t count;
  const int64_t *list = onnx_attr_ints(n, name, &count);
  if (list && count != expected) onnx_fail(n, TD_BAD_FILE, "the attribute \"%s\" must have %u entries", name, expected);
  return list;
}

/* Fills `s` from a node whose states and scanned tensors start at input `first`. */
static void read_scan(onnx_node *n, uint32_t first, scan *s) {
  s->body = onnx_attr_graph(n, "body");
  int64_t inputs = onnx_attr_int(n, "num_scan_inputs", 0), total = (int64_t)n->in_count - first;
  if (onnx_failed(n)) return;
  const onnx_graph *graph = s->body->attr->graph;
  if (inputs < 1 || inputs > total) {
    onnx_fail(n, TD_BAD_FILE, "num_scan_inputs is %lld of %lld inputs", (long long)inputs, (long long)total);
    return;
  }
  s->inputs = (uint32_t)inputs;
  s->states = (uint32_t)(total - inputs);
  if (graph->inputs.count != total || graph->outputs.count < s->states || n->out_count > graph->outputs.count) {
    onnx_fail(n, TD_BAD_FILE, "the body's inputs and outputs do not fit the node's");
    return;
  }
  s->outputs = graph->outputs.count - s->states;
  s->initial = n->in + first;
  s->scanned = n->in + first + s->states;
  for (uint32_t i = 0; i < s->inputs; i++)
    if (!s->scanned[i].id) onnx_fail(n, TD_BAD_FILE, "a scanned input is missing");
}

static void lower_scan(onnx_node *n) {
  scan s = {0};
  read_scan(n, 0, &s);
  if (onnx_failed(n)) return;
  s.directions = scan_list(n, "scan_input_directions", s.inputs);
  s.axes = scan_list(n, "scan_input_axes", s.inputs);
  s.out_directions = scan_list(n, "scan_output_directions", s.outputs);
  s.out_axes = scan_list(n, "scan_output_axes", s.outputs);
  ir_value *outs = onnx_alloc(n, (s.states + s.outputs) * sizeof *outs);
  if (!onnx_failed(n)) build_scan(n, &s, outs);
  for (uint32_t i = 0; i < n->out_count && !onnx_failed(n); i++) onnx_out(n, i, outs[i]);
}

/* Scan-8 has a batch in front: a loop over the batch around the scan. */
static void batch_body(loop *l, ir_value iteration, const ir_value *carried, ir_value *results) {
  onnx_node *n = l->n;
  scan s = *(const scan *)l->user;
  uint32_t count = s.states + s.inputs;
  ir_value *rows = onnx_alloc(n, count * sizeof *rows);
  (void)carried;
  for (uint32_t i = 0; rows && i < count && !onnx_failed(n); i++)
    rows[i] = ONNX_EMIT(n, "td::list_at", s.lists[i], iteration);
  if (onnx_failed(n)) return;
  s.initial = rows;
  s.scanned = rows + s.states;
  if (s.lengths.id) s.length = ONNX_EMIT(n, "td::list_at", s.lengths, iteration);
  build_scan(n, &s, results + 1);
}

static void lower_scan_8(onnx_node *n) {
  scan s = {0};
  read_scan(n, 1, &s);
  if (onnx_failed(n)) return;
  if (onnx_has(n, 0)) s.lengths = take_apart(n, onnx_in(n, 0), 0);
  uint32_t count = s.states + s.inputs;
  s.directions = scan_list(n, "directions", s.inputs);
  s.lists = onnx_alloc(n, count * sizeof *s.lists);
  for (uint32_t i = 0; i < count && !onnx_failed(n); i++) s.lists[i] = take_apart(n, s.initial[i], 0);
  loop l = {.n = n, .lower = batch_body, .user = &s, .collected = s.states + s.outputs};
  if (onnx_failed(n)) return;
  l.trips = ONNX_EMIT(n, "td::list_len", s.lists[0]);
  build_loop(&l);
  for (uint32_t i = 0; i < n->out_count && !onnx_failed(n); i++) onnx_out(n, i, stack_items(&l, i, 0));
}

/* ---- SequenceMap: the body per item of the first sequence; other inputs are sequences too, or tensors ---- */

static void map_body(loop *l, ir_value iteration, const ir_value *carried, ir_value *results) {
  onnx_node *n = l->n;
  const onnx_bound *body = l->user;
  ir_value *params = onnx_alloc(n, n->in_count * sizeof *params);
  (void)carried;
  for (uint32_t i = 0; params && i < n->in_count && !onnx_failed(n); i++) {
    bool is_list = onnx_type(n, n->in[i])->kind == IR_LIST;
    params[i] = is_list ? ONNX_EMIT(n, "td::list_at", n->in[i], iteration) : n->in[i];
  }
  if (!onnx_failed(n)) onnx_take(n, onnx_lower_body(n, body, n->scope->block, params, n->in_count, results + 1));
}

static void lower_sequence_map(onnx_node *n) {
  const onnx_bound *body = onnx_attr_graph(n, "body");
  if (!body) return;
  const onnx_graph *graph = body->attr->graph;
  bool sound = n->in_count && graph->inputs.count == n->in_count && n->out_count <= graph->outputs.count;
  if (!sound || onnx_type(n, n->in[0])->kind != IR_LIST) {
    onnx_fail(n, TD_BAD_FILE, "the first input must be a sequence, and inputs and outputs must fit the body's");
    return;
  }
  loop l = {.n = n, .lower = map_body, .user = body, .collected = graph->outputs.count};
  l.trips = ONNX_EMIT(n, "td::list_len", n->in[0]);
  build_loop(&l);
  for (uint32_t i = 0; i < n->out_count && !onnx_failed(n); i++) onnx_out(n, i, l.outs[i]);
}

ONNX_DECLARE(control);
const onnx_lowering onnx_lower_control[] = {
    {"", "If", 1, lower_if},
    {"", "Loop", 1, lower_loop},
    {"", "Scan", 8, lower_scan_8},
    {"", "Scan", 9, lower_scan},
    {"", "SequenceMap", 17, lower_sequence_map},
};
ONNX_TABLE(control);
