/* control.c -- higher-order operators: graphs as arguments. cond becomes prim::If; while_loop, map and scan become
 * prim::Loop; what only wraps a graph (no_grad, checkpoints) is run in place. A graph sees its operands alone, which
 * are read before the region; what it makes ends with it. */
#include <string.h>

#include "import/pt2/pt2_priv.h"

enum { MAX_GRAPHS = 2 };

/* The arguments of a higher-order operator: graphs, and what stands before and behind them. */
typedef struct region {
  const fmt_json *graphs[MAX_GRAPHS];
  uint32_t graph_count;
  aten_value *before, *operands; /* `before` the first graph, and behind it; lists are opened by who reads them */
  uint32_t before_count, operand_count;
} region;

static bool read_region(pt2 *p, pt2_scope *s, const fmt_json *node, uint32_t graphs, region *r) {
  const fmt_json *inputs = fmt_json_get(node, "inputs");
  size_t count = fmt_json_count(inputs);
  *r = (region){.before = pt2_alloc(p, (count + 1) * sizeof *r->before),
                .operands = pt2_alloc(p, (count + 1) * sizeof *r->operands)};
  for (size_t i = 0; i < count && !pt2_failed(p); i++) {
    const fmt_json *arg = fmt_json_get(fmt_json_at(inputs, i), "arg");
    const fmt_json *graph = fmt_json_get(fmt_json_get(arg, "as_graph"), "graph");
    if (graph && r->graph_count < MAX_GRAPHS) r->graphs[r->graph_count++] = graph;
    else if (r->graph_count) r->operands[r->operand_count++] = pt2_argument(p, s, arg);
    else r->before[r->before_count++] = pt2_argument(p, s, arg);
  }
  if (r->graph_count != graphs) pt2_fail(p, "the operator takes %u graphs and is given %u", graphs, r->graph_count);
  return !pt2_failed(p);
}

/* The items of lists, and what is no list itself, in one row. */
static aten_value *flatten(pt2 *p, const aten_value *values, uint32_t count, uint32_t *flat_count) {
  size_t total = 0;
  for (uint32_t i = 0; i < count; i++)
    total += values[i].kind == ATEN_LIST || values[i].kind == ATEN_TUPLE ? values[i].u.list->items.count : 1;
  aten_value *flat = pt2_alloc(p, (total + 1) * sizeof *flat);
  *flat_count = 0;
  for (uint32_t i = 0; flat && i < count; i++) {
    bool list = values[i].kind == ATEN_LIST || values[i].kind == ATEN_TUPLE;
    const aten_value *items = list ? values[i].u.list->items.at : &values[i];
    for (uint32_t k = 0; k < (list ? values[i].u.list->items.count : 1); k++) flat[(*flat_count)++] = items[k];
  }
  return flat;
}

/* A value of the graph as one of the program: rank-0 values that were numbers are numbers again. */
static aten_value wrap(pt2 *p, const aten_value *like, ir_value value) {
  if (aten_is_complex(like)) return aten_of_complex(p->a, value);
  return like->kind == ATEN_TENSOR ? aten_of(p->a, value, true) : aten_number(p->a, value);
}

/* Tensors are read here, so that the region need not; what is known stays as it is. */
static void fix_operands(pt2 *p, aten_value *values, uint32_t count) {
  for (uint32_t i = 0; i < count && !pt2_failed(p); i++)
    if (values[i].kind == ATEN_TENSOR) values[i] = wrap(p, &values[i], aten_read(p->a, &values[i]));
}

/* ---- a graph with operands ---- */

static const char *name_of(const fmt_json *argument) {
  const char *tag;
  const fmt_json *inner = pt2_union(argument, &tag);
  const char *name = pt2_text(inner, "name");
  return name ? name : pt2_text(inner, "as_name");
}

/* Runs `graph` on the operands; gives its outputs, *count of them. */
static aten_value *run_graph(pt2 *p, const pt2_scope *outer, const fmt_json *graph, const aten_value *operands,
                             uint32_t operand_count, uint32_t *count) {
  const fmt_json *inputs = fmt_json_get(graph, "inputs"), *outputs = fmt_json_get(graph, "outputs");
  pt2_scope *s = pt2_alloc(p, sizeof *s);
  *count = (uint32_t)fmt_json_count(outputs);
  aten_value *results = pt2_alloc(p, (*count + 1u) * sizeof *results);
  if (fmt_json_count(inputs) != operand_count)
    pt2_fail(p, "a graph takes %zu operands and is given %u", fmt_json_count(inputs), operand_count);
  if (pt2_failed(p)) return NULL;
  s->depth = outer->depth + 1;
  for (uint32_t i = 0; i < operand_count; i++) {
    const char *name = name_of(fmt_json_at(inputs, i));
    if (name) pt2_bind(p, s, name, operands[i]);
  }
  pt2_run_nodes(p, s, graph);
  for (uint32_t i = 0; i < *count && !pt2_failed(p); i++) results[i] = pt2_argument(p, s, fmt_json_at(outputs, i));
  return pt2_failed(p) ? NULL : results;
}

static void give(pt2 *p, pt2_scope *s, const fmt_json *node, const aten_value *values, uint32_t count) {
  const fmt_json *outputs = fmt_json_get(node, "outputs");
  const char *tag;
  pt2_union(fmt_json_at(outputs, 0), &tag);
  bool list = strcmp(tag, "as_tensors") == 0;
  if (pt2_failed(p)) return;
  pt2_bind_outputs(p, s, node, list ? aten_list_of(p->a, values, count) : aten_tuple_of(p->a, values, count));
}

/* ---- cond ---- */

typedef struct branches {
  pt2 *p;
  const pt2_scope *outer;
  const region *r;
  const aten_value *operands;
  uint32_t operand_count, count;
  aten_value *like; /* one per output */
} branches;

static void build_branch(ir_build *b, void *user, uint32_t which, ir_value *results) {
  branches *both = user;
  pt2 *p = both->p;
  uint32_t count;
  (void)b;
  aten_mark mark = aten_mark_now(p->a);
  aten_value *values = run_graph(p, both->outer, both->r->graphs[which], both->operands, both->operand_count, &count);
  if (values && count != both->count) pt2_fail(p, "the branches give different numbers of results");
  for (uint32_t i = 0; i < both->count && !pt2_failed(p); i++) {
    results[i] = aten_graph_value(p->a, &values[i]);
    both->like[i] = values[i];
  }
  aten_rollback(p->a, mark);
}

static void run_cond(pt2 *p, pt2_scope *s, const fmt_json *node) {
  region r;
  if (!read_region(p, s, node, 2, &r)) return;
  branches both = {.p = p, .outer = s, .r = &r};
  both.count = (uint32_t)fmt_json_count(fmt_json_get(r.graphs[0], "outputs"));
  both.like = pt2_alloc(p, (both.count + 1u) * sizeof *both.like);
  aten_value *operands = flatten(p, r.operands, r.operand_count, &both.operand_count);
  ir_value *outs = pt2_alloc(p, (both.count + 1u) * sizeof *outs);
  if (r.before_count != 1) pt2_fail(p, "the condition is missing");
  if (pt2_failed(p)) return;
  fix_operands(p, operands, both.operand_count);
  both.operands = operands;
  ir_build_if(&p->b, aten_graph_value(p->a, &r.before[0]), build_branch, &both, both.count, outs);
  for (uint32_t i = 0; i < both.count && !pt2_failed(p); i++) both.like[i] = wrap(p, &both.like[i], outs[i]);
  give(p, s, node, both.like, both.count);
}

/* ---- loops ---- */

/* What the body of a loop is made from. */
typedef struct loop_body {
  pt2 *p;
  const pt2_scope *outer;
  const fmt_json *condition, *body; /* no condition: the number of iterations is known before */
  const aten_value *like;           /* the carried values at first */
  const aten_value *scanned;        /* one slice of each goes into an iteration */
  const aten_value *others;         /* that every iteration gets */
  uint32_t carried, scanned_count, other_count;
} loop_body;

/* Operands of one iteration: carried, scanned, others. */
static aten_value *body_operands(loop_body *t, ir_value iteration, const aten_value *carried, bool scans,
                                 uint32_t *count) {
  pt2 *p = t->p;
  aten_value *operands = pt2_alloc(p, ((size_t)t->carried + t->scanned_count + t->other_count + 1) * sizeof *operands);
  *count = 0;
  for (uint32_t i = 0; operands && i < t->carried; i++) operands[(*count)++] = carried[i];
  for (uint32_t i = 0; operands && scans && i < t->scanned_count && !pt2_failed(p); i++) {
    const aten_value args[] = {t->scanned[i], aten_int(0), aten_number(p->a, iteration)};
    operands[(*count)++] = aten_call(p->a, "aten::select", "int", args, 3, NULL, 0);
  }
  for (uint32_t i = 0; operands && i < t->other_count; i++) operands[(*count)++] = t->others[i];
  return operands;
}

static ir_value holds(loop_body *t, const aten_value *carried) {
  uint32_t count, results;
  const aten_value *operands = body_operands(t, IR_NO_VALUE, carried, false, &count);
  const aten_value *go = operands ? run_graph(t->p, t->outer, t->condition, operands, count, &results) : NULL;
  if (go && results != 1) pt2_fail(t->p, "the condition gives %u results", results);
  if (!go || pt2_failed(t->p)) return IR_NO_VALUE;
  return ir_build_to_scalar(&t->p->b, aten_graph_value(t->p->a, go), TD_BOOL, "condition");
}

static void build_turn(ir_build *b, ir_build_loop *l, ir_value iteration, const ir_value *carried, ir_value *results) {
  loop_body *t = l->user;
  pt2 *p = t->p;
  uint32_t count, given;
  (void)b;
  aten_mark mark = aten_mark_now(p->a);
  aten_value *values = pt2_alloc(p, (l->carried + 1u) * sizeof *values);
  for (uint32_t i = 0; values && i < l->carried; i++) values[i] = wrap(p, &t->like[i], carried[i]);
  const aten_value *operands = values ? body_operands(t, iteration, values, true, &given) : NULL;
  values = operands ? run_graph(p, t->outer, t->body, operands, given, &count) : NULL;
  if (values && count != l->carried + l->collected)
    pt2_fail(p, "the body gives %u results instead of %u", count, l->carried + l->collected);
  for (uint32_t i = 0; values && i < count && !pt2_failed(p); i++) {
    if (i >= l->carried && aten_is_complex(&values[i]))
      ir_build_fail(&p->b, TD_UNSUPPORTED, "a loop collects complex tensors, which is not supported");
    results[1 + i] = aten_graph_value(p->a, &values[i]);
  }
  for (uint32_t i = 0; values && t->condition && i < l->carried && !pt2_failed(p); i++)
    values[i] = wrap(p, &t->like[i], results[1 + i]);
  if (values && t->condition && !pt2_failed(p)) results[0] = holds(t, values);
  aten_rollback(p->a, mark);
}

/* Runs the loop; the carried values and the stacks of what was collected go to the node's outputs. */
static void run_loop(pt2 *p, pt2_scope *s, const fmt_json *node, loop_body *t, ir_value trips, uint32_t collected) {
  ir_value *initial = pt2_alloc(p, (t->carried + 1u) * sizeof *initial);
  uint32_t all = t->carried + collected;
  aten_value *outs = pt2_alloc(p, (all + 1u) * sizeof *outs);
  for (uint32_t i = 0; i < t->carried && !pt2_failed(p); i++) initial[i] = aten_graph_value(p->a, &t->like[i]);
  ir_build_loop l = {
      .body = build_turn, .user = t, .initial = initial, .carried = t->carried, .collected = collected, .trips = trips};
  if (t->condition && !pt2_failed(p)) l.cond = holds(t, t->like);
  if (!pt2_failed(p)) ir_build_run_loop(&p->b, &l);
  for (uint32_t i = 0; i < all && !pt2_failed(p); i++)
    outs[i] = i < t->carried ? wrap(p, &t->like[i], l.outs[i])
                             : aten_of(p->a, ir_build_stacked(&p->b, &l, i - t->carried, 0), true);
  give(p, s, node, outs, all);
}

/* How many slices a scanned tensor has. */
static ir_value length_of(pt2 *p, const aten_value *tensor) {
  const aten_value args[] = {*tensor, aten_int(0)};
  aten_value length = aten_call(p->a, "aten::sym_size", "int", args, 2, NULL, 0);
  return pt2_failed(p) ? IR_NO_VALUE : aten_graph_value(p->a, &length);
}

static aten_value *opened(pt2 *p, const region *r, uint32_t first, uint32_t last, uint32_t *count) {
  *count = 0;
  if (first >= r->operand_count) return pt2_alloc(p, 1);
  uint32_t end = last < r->operand_count ? last : r->operand_count;
  aten_value *values = flatten(p, r->operands + first, end - first, count);
  if (values) fix_operands(p, values, *count);
  return values;
}

static void run_while(pt2 *p, pt2_scope *s, const fmt_json *node) {
  region r;
  if (!read_region(p, s, node, 2, &r)) return;
  loop_body t = {.p = p, .outer = s, .condition = r.graphs[0], .body = r.graphs[1]};
  t.like = opened(p, &r, 0, 1, &t.carried);
  t.others = opened(p, &r, 1, r.operand_count, &t.other_count);
  run_loop(p, s, node, &t, IR_NO_VALUE, 0);
}

/* map_impl(f, xs, others) and scan(f, initial, xs, others). */
static void run_over(pt2 *p, pt2_scope *s, const fmt_json *node, bool carries) {
  region r;
  if (!read_region(p, s, node, 1, &r)) return;
  loop_body t = {.p = p, .outer = s, .body = r.graphs[0]};
  uint32_t at = carries ? 1 : 0;
  if (carries) t.like = opened(p, &r, 0, 1, &t.carried);
  t.scanned = opened(p, &r, at, at + 1, &t.scanned_count);
  t.others = opened(p, &r, at + 1, r.operand_count, &t.other_count);
  size_t results = fmt_json_count(fmt_json_get(r.graphs[0], "outputs"));
  if (t.scanned_count == 0 || results < t.carried) pt2_fail(p, "there is nothing to go through");
  if (pt2_failed(p)) return;
  run_loop(p, s, node, &t, length_of(p, &t.scanned[0]), (uint32_t)results - t.carried);
}

static void run_map(pt2 *p, pt2_scope *s, const fmt_json *node) { run_over(p, s, node, false); }
static void run_scan(pt2 *p, pt2_scope *s, const fmt_json *node) { run_over(p, s, node, true); }

/* ---- graphs that are only wrapped ---- */

static void run_wrapped(pt2 *p, pt2_scope *s, const fmt_json *node) {
  region r;
  uint32_t count, operand_count;
  if (!read_region(p, s, node, 1, &r)) return;
  uint32_t first = r.operand_count && r.operands[0].kind == ATEN_STR ? 1 : 0; /* invoke_subgraph: an identifier */
  const aten_value *operands = flatten(p, r.operands + first, r.operand_count - first, &operand_count);
  const aten_value *values = operands ? run_graph(p, s, r.graphs[0], operands, operand_count, &count) : NULL;
  if (values) give(p, s, node, values, count);
}

/* (device type, dtype, enabled, cache, graph, operands): casts that autocast would do are not in the graph. */
static void run_autocast(pt2 *p, pt2_scope *s, const fmt_json *node) {
  region r;
  if (!read_region(p, s, node, 1, &r)) return;
  bool other_device =
      r.before_count > 0 && r.before[0].kind == ATEN_STR && !base_str_is(aten_str_of(&r.before[0]), "cpu");
  bool enabled = r.before_count < 3 || r.before[2].kind != ATEN_BOOL || r.before[2].u.b;
  if (enabled && !other_device)
    ir_build_fail(&p->b, TD_UNSUPPORTED,
                  "a region under torch.autocast is not supported; export the program with the casts in it "
                  "(run_decompositions), or without autocast");
  run_wrapped(p, s, node);
}

static const struct {
  const char *name;
  pt2_region_fn run;
} regions[] = {{"cond", run_cond},
               {"while_loop", run_while},
               {"map_impl", run_map},
               {"map", run_map},
               {"scan", run_scan},
               {"with_effects", pt2_run_with_effects},
               {"wrap", run_wrapped},
               {"wrap_with_set_grad_enabled", run_wrapped},
               {"wrap_with_autocast", run_autocast},
               {"wrap_activation_checkpoint", run_wrapped},
               {"tag_activation_checkpoint", run_wrapped},
               {"invoke_subgraph", run_wrapped}};

pt2_region_fn pt2_find_region(const char *name) {
  for (size_t i = 0; i < sizeof regions / sizeof *regions; i++)
    if (strcmp(name, regions[i].name) == 0) return regions[i].run;
  return NULL;
}
