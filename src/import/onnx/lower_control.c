/* lower_control.c -- If, Loop, Scan and SequenceMap to prim::If and prim::Loop. What a body does is lowered into blocks
 * by the builder (ir/build.h), which finds their types; what is collected over the iterations goes through lists. */
#include "import/onnx/state_priv.h"

#include <string.h>

/* ---- If ---- */

typedef struct branches {
  onnx_node *n;
  const onnx_bound *at[2]; /* then, else */
} branches;

/* Lowers a branch into the builder's block. */
static void lower_branch(ir_build *b, void *user, uint32_t which, ir_value *results) {
  const branches *both = user;
  onnx_take(both->n, onnx_lower_body(both->n, both->at[which], b->block, NULL, 0, results));
}

static void lower_if(onnx_node *n) {
  branches both = {n, {onnx_attr_graph(n, "then_branch"), onnx_attr_graph(n, "else_branch")}};
  if (!onnx_has(n, 0)) onnx_fail(n, TD_BAD_FILE, "the condition is missing");
  if (onnx_failed(n)) return;
  uint32_t count = both.at[0]->attr->graph->outputs.count;
  if (both.at[1]->attr->graph->outputs.count != count || n->out_count > count)
    onnx_fail(n, TD_BAD_FILE, "the branches must have as many outputs as the node");
  ir_value *outs = onnx_alloc(n, count * sizeof *outs);
  if (outs) ir_build_if(&n->b, onnx_in(n, 0), lower_branch, &both, count, outs);
  for (uint32_t i = 0; outs && i < count; i++) onnx_out(n, i, outs[i]);
}

/* ---- Loop ---- */

/* What the body of a loop is made from. */
typedef struct loop_user {
  onnx_node *n;
  const void *body; /* an onnx_bound or a scan */
} loop_user;

static onnx_node *node_of(const ir_build_loop *l) { return ((const loop_user *)l->user)->n; }
static const void *body_of(const ir_build_loop *l) { return ((const loop_user *)l->user)->body; }

/* Some exporters declare the iteration number and the condition as vectors of one element. */
static ir_value as_declared(onnx_node *n, ir_value v, const onnx_value_info *input) {
  ir_type type;
  if (onnx_failed(n) || !fmt_wire_more(&input->type)) return v;
  onnx_take(n, onnx_read_type(n->im, input->type, input->name, &type));
  if (onnx_failed(n) || type.kind != IR_TENSOR || type.rank != 1) return v;
  return ONNX_EMIT(n, "aten::view", v, onnx_ints(n, (int64_t[]){1}, 1));
}

static void loop_body(ir_build *b, ir_build_loop *l, ir_value iteration, const ir_value *carried, ir_value *results) {
  onnx_node *n = node_of(l);
  const onnx_bound *body = body_of(l);
  const onnx_graph *graph = body->attr->graph;
  ir_value *params = onnx_alloc(n, graph->inputs.count * sizeof *params);
  if (!params) return;
  params[0] = as_declared(n, iteration, &graph->inputs.at[0]);
  /* An iteration only runs while the condition holds. */
  params[1] = as_declared(n, onnx_scalar(n, TD_BOOL, 1), &graph->inputs.at[1]);
  for (uint32_t i = 0; i < l->carried; i++) params[2 + i] = carried[i];
  if (!onnx_failed(n)) onnx_take(n, onnx_lower_body(n, body, b->block, params, graph->inputs.count, results));
  results[0] = ir_build_to_scalar(&n->b, results[0], TD_BOOL, "condition");
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
  loop_user user = {n, body};
  ir_build_loop l = {.body = loop_body,
                     .user = &user,
                     .initial = onnx_all_in(n) + 2,
                     .carried = carried,
                     .collected = graph->outputs.count - 1 - carried};
  l.trips = ir_build_to_scalar(&n->b, onnx_in(n, 0), TD_I64, "trip count");
  l.cond = ir_build_to_scalar(&n->b, onnx_in(n, 1), TD_BOOL, "condition");
  ir_build_run_loop(&n->b, &l);
  for (uint32_t i = 0; i < n->out_count && !onnx_failed(n); i++)
    if (onnx_wants(n, i)) onnx_out(n, i, i < carried ? l.outs[i] : ir_build_stacked(&n->b, &l, i - carried, 0));
}

/* ---- Scan: the scanned tensors are split into lists before the loop ---- */

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
static void stop_at_length(onnx_node *n, const scan *s, ir_value iteration, const ir_value *carried,
                           ir_value *results) {
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

static void scan_body(ir_build *b, ir_build_loop *l, ir_value iteration, const ir_value *carried, ir_value *results) {
  onnx_node *n = node_of(l);
  const scan *s = body_of(l);
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
  if (!onnx_failed(n)) onnx_take(n, onnx_lower_body(n, s->body, b->block, params, count, results + 1));
  if (s->length.id) stop_at_length(n, s, iteration, carried, results + 1);
}

/* Outputs: final states, then what was collected. */
static void build_scan(onnx_node *n, scan *s, ir_value *outs) {
  s->lists = onnx_alloc(n, s->inputs * sizeof *s->lists);
  for (uint32_t i = 0; i < s->inputs && !onnx_failed(n); i++)
    s->lists[i] = take_apart(n, s->scanned[i], entry(s->axes, i));
  if (onnx_failed(n)) return;
  loop_user user = {n, s};
  ir_build_loop l = {
      .body = scan_body, .user = &user, .initial = s->initial, .carried = s->states, .collected = s->outputs};
  l.trips = ONNX_EMIT(n, "td::list_len", s->lists[0]);
  ir_build_run_loop(&n->b, &l);
  for (uint32_t i = 0; i < s->states + s->outputs && !onnx_failed(n); i++) {
    if (i < s->states) {
      outs[i] = l.outs[i];
      continue;
    }
    uint32_t k = i - s->states;
    int64_t axis = entry(s->out_axes, k);
    outs[i] = ir_build_stacked(&n->b, &l, k, axis);
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
  s->initial = onnx_all_in(n) + first;
  s->scanned = s->initial + s->states;
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
static void batch_body(ir_build *b, ir_build_loop *l, ir_value iteration, const ir_value *carried, ir_value *results) {
  onnx_node *n = node_of(l);
  scan s = *(const scan *)body_of(l);
  (void)b;
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
  loop_user user = {n, &s};
  ir_build_loop l = {.body = batch_body, .user = &user, .collected = s.states + s.outputs};
  if (onnx_failed(n)) return;
  l.trips = ONNX_EMIT(n, "td::list_len", s.lists[0]);
  ir_build_run_loop(&n->b, &l);
  for (uint32_t i = 0; i < n->out_count && !onnx_failed(n); i++) onnx_out(n, i, ir_build_stacked(&n->b, &l, i, 0));
}

/* ---- SequenceMap: the body per item of the first sequence; other inputs are sequences too, or tensors ---- */

static void map_body(ir_build *b, ir_build_loop *l, ir_value iteration, const ir_value *carried, ir_value *results) {
  onnx_node *n = node_of(l);
  const onnx_bound *body = body_of(l);
  ir_value *params = onnx_alloc(n, n->in_count * sizeof *params);
  (void)carried;
  for (uint32_t i = 0; params && i < n->in_count && !onnx_failed(n); i++) {
    const ir_value in = onnx_in(n, i);
    params[i] = onnx_type(n, in)->kind == IR_LIST ? ONNX_EMIT(n, "td::list_at", in, iteration) : in;
  }
  if (!onnx_failed(n)) onnx_take(n, onnx_lower_body(n, body, b->block, params, n->in_count, results + 1));
}

static void lower_sequence_map(onnx_node *n) {
  const onnx_bound *body = onnx_attr_graph(n, "body");
  if (!body) return;
  const onnx_graph *graph = body->attr->graph;
  bool sound = n->in_count && graph->inputs.count == n->in_count && n->out_count <= graph->outputs.count;
  if (!sound || onnx_type(n, onnx_in(n, 0))->kind != IR_LIST) {
    onnx_fail(n, TD_BAD_FILE, "the first input must be a sequence, and inputs and outputs must fit the body's");
    return;
  }
  loop_user user = {n, body};
  ir_build_loop l = {.body = map_body, .user = &user, .collected = graph->outputs.count};
  l.trips = ONNX_EMIT(n, "td::list_len", onnx_in(n, 0));
  ir_build_run_loop(&n->b, &l);
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
