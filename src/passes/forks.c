/* forks.c -- tasks that are too small for a thread of their own run where they are forked: their nodes take the place
 * of the fork, and what they give that of the waits. Where futures go through lists or regions, that is done of all
 * tasks of the graph or of none, and all that was a future is what it would have given. Requires: a verified graph.
 * Keeps: every value, and which error ends the run. Breaks: nothing. */
#include "ir/cost.h"
#include "passes/passes_priv.h"

#include <string.h>

typedef struct state {
  ir_graph *graph;
  const base_speed *speed;
  base_arena *scratch;
  bool *strayed; /* per value: a future that something else than a wait uses, or what a wait gives that is used whole */
  bool *awaited; /* per value: a future that is waited for in the block of its fork */
  bool *dissolve; /* per node: a fork that goes */
  uint32_t *changes;
  bool failed; /* out of memory */
} state;

static bool is_region(const ir_node_def *node, ir_region_kind kind) { return node->op && node->op->region == kind; }
static bool is_item(const ir_node_def *node) { return node->op && node->op->id == OP_td_tuple_at; }

/* ---- how large? -------------------------------------------------------------------------------------------------- */

static bool plain_ns(state *s, const ir_node_def *node, double *ns) {
  const ir_graph *g = s->graph;
  const ir_info **in = base_new(s->scratch, const ir_info *, node->in_count + (size_t)1);
  ir_info *out = base_new(s->scratch, ir_info, node->out_count + (size_t)1);
  ir_work work;
  s->failed |= !in || !out;
  if (s->failed) return false;
  for (uint32_t i = 0; i < node->in_count; i++) in[i] = node->in[i].id ? &ir_value_of(g, node->in[i])->info : NULL;
  for (uint32_t i = 0; i < node->out_count; i++) out[i] = ir_value_of(g, node->out[i])->info;
  if (!ir_cost(node->op, node->attrs, in, node->in_count, out, node->out_count, &work)) return false;
  *ns += base_work_ns(s->speed, work.flops, work.bytes);
  return true;
}

static double iterations_of(const ir_graph *g, const ir_node_def *loop) {
  const ir_info *trips = loop->in[0].id ? &ir_value_of(g, loop->in[0])->info : NULL;
  const bool known = trips && trips->ints && base_dim_known(trips->ints[0]);
  return known ? (double)trips->ints[0] : BASE_ITERATIONS;
}

/* False: sizes are not known. */
static bool add_block_ns(state *s, ir_block block, double *ns) {
  const ir_block_def *def = ir_block_of(s->graph, block);
  for (uint32_t i = 0; i < def->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(s->graph, def->nodes.at[i]);
    double inside = 0;
    *ns += s->speed->step_ns;
    for (uint32_t b = 0; b < node->block_count; b++)
      if (!add_block_ns(s, node->blocks[b], &inside)) return false;
    *ns += is_region(node, IR_REGION_LOOP) ? iterations_of(s->graph, node) * inside : inside;
    if (!node->block_count && !(node->op->flags & IR_OP_HOST) && !plain_ns(s, node, ns)) return false;
  }
  return true;
}

static bool is_small(state *s, const ir_node_def *fork) {
  double ns = 0;
  return add_block_ns(s, fork->blocks[0], &ns) && ns < s->speed->task_ns;
}

/* May what stands in the block end the run? Then only in front of a wait that would do so, too. */
static bool cannot_fail(const ir_graph *g, ir_block block) {
  const ir_block_def *def = ir_block_of(g, block);
  for (uint32_t i = 0; i < def->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(g, def->nodes.at[i]);
    const bool known = node->op->flags & (IR_OP_ELEMENTWISE | IR_OP_VIEW) || is_region(node, IR_REGION_WAIT) ||
                       is_region(node, IR_REGION_FORK);
    if (!known || (node->block_count && !cannot_fail(g, node->blocks[0]))) return false;
  }
  return true;
}

/* ---- what futures are used for ----------------------------------------------------------------------------------- */

static void note_operand(state *s, const ir_node_def *node, uint32_t index) {
  const ir_graph *g = s->graph;
  const ir_value v = node->in[index];
  const ir_node from = v.id ? ir_value_of(g, v)->node : (ir_node){0};
  const ir_node_def *maker = from.id ? ir_node_of(g, from) : NULL;
  if (!maker) return;
  if (is_region(maker, IR_REGION_WAIT) && !is_item(node)) s->strayed[v.id] = true;
  if (!is_region(maker, IR_REGION_FORK)) return;
  if (!is_region(node, IR_REGION_WAIT)) s->strayed[v.id] = true;
  else s->awaited[v.id] |= maker->parent.id == node->parent.id;
}

static void note_uses(state *s) {
  const ir_graph *g = s->graph;
  for (uint32_t n = 1; n < g->nodes.count; n++)
    for (uint32_t i = 0; g->nodes.at[n].op && i < g->nodes.at[n].in_count; i++) note_operand(s, &g->nodes.at[n], i);
  for (uint32_t b = 1; b < g->blocks.count; b++)
    for (uint32_t i = 0; i < g->blocks.at[b].results.count; i++) s->strayed[g->blocks.at[b].results.at[i].id] = true;
  /* A tuple that is used whole stays one: its future strays. */
  for (uint32_t n = 1; n < g->nodes.count; n++) {
    const ir_node_def *node = &g->nodes.at[n];
    if (is_region(node, IR_REGION_WAIT) && ir_type_of(g, node->out[0])->kind == IR_TUPLE && s->strayed[node->out[0].id])
      s->strayed[node->in[0].id] = true;
  }
}

/* ---- which go ---------------------------------------------------------------------------------------------------- */

/* All that are left, where each of them is small, gives one thing and cannot fail. */
static bool all_can_go(state *s) {
  const ir_graph *g = s->graph;
  for (uint32_t n = 1; n < g->nodes.count; n++) {
    const ir_node_def *node = &g->nodes.at[n];
    if (!is_region(node, IR_REGION_FORK) || s->dissolve[n]) continue;
    if (ir_block_of(g, node->blocks[0])->results.count != 1 || !cannot_fail(g, node->blocks[0]) || !is_small(s, node))
      return false;
  }
  return true;
}

static bool choose(state *s, bool *all) {
  const ir_graph *g = s->graph;
  bool any = false, left = false;
  for (uint32_t n = 1; n < g->nodes.count && !s->failed; n++) {
    const ir_node_def *node = &g->nodes.at[n];
    if (!is_region(node, IR_REGION_FORK)) continue;
    const uint32_t future = node->out[0].id;
    s->dissolve[n] = !s->strayed[future] && s->awaited[future] && is_small(s, node);
    any |= s->dissolve[n];
    left |= !s->dissolve[n];
  }
  *all = left && all_can_go(s);
  for (uint32_t n = 1; n < g->nodes.count && *all; n++) s->dissolve[n] = is_region(&g->nodes.at[n], IR_REGION_FORK);
  return any || *all;
}

/* ---- dissolving -------------------------------------------------------------------------------------------------- */

typedef BASE_VEC(ir_node) node_list;

static void collect(state *s, ir_block block, ir_block into, node_list *nodes) {
  const ir_block_def *def = ir_block_of(s->graph, block);
  for (uint32_t i = 0; i < def->nodes.count && !s->failed; i++) {
    const ir_node id = def->nodes.at[i];
    if (s->dissolve[id.id]) {
      collect(s, ir_node_of(s->graph, id)->blocks[0], into, nodes);
      continue;
    }
    ir_node *slot = base_vec_push(s->scratch, nodes);
    s->failed |= !slot;
    if (slot) *slot = id;
    ir_node_of(s->graph, id)->parent = into;
  }
}

/* Blocks that stay get the nodes of forks that go, inner ones too. Those had their nodes in front of their waits. */
static void move_nodes(state *s) {
  ir_graph *g = s->graph;
  for (uint32_t b = 1; b < g->blocks.count && !s->failed; b++) {
    ir_block_def *def = &g->blocks.at[b];
    if (def->owner.id && s->dissolve[def->owner.id]) continue;
    node_list nodes = {0};
    collect(s, (ir_block){b}, (ir_block){b}, &nodes);
    def->nodes.count = 0;
    for (uint32_t i = 0; i < nodes.count && !s->failed; i++) {
      ir_node *slot = base_vec_push(g->arena, &def->nodes);
      s->failed |= !slot;
      if (slot) *slot = nodes.at[i];
    }
  }
}

static td_status replace_waits(state *s, ir_node id, td_error *err) {
  ir_graph *g = s->graph;
  const ir_node_def *node = ir_node_of(g, id);
  const bool item = is_item(node);
  const ir_node wait = item ? ir_value_of(g, node->in[0])->node : id;
  if (!wait.id || !is_region(ir_node_of(g, wait), IR_REGION_WAIT)) return TD_OK;
  const ir_node from = ir_value_of(g, ir_node_of(g, wait)->in[0])->node;
  if (!from.id || !s->dissolve[from.id]) return TD_OK;
  const ir_block_def *block = ir_block_of(g, ir_node_of(g, from)->blocks[0]);
  const int64_t index = item ? passes_int(node, "index") : 0;
  if (item || block->results.count == 1) TRY(ir_replace_value(g, node->out[0], block->results.at[index], err));
  if (item) ir_remove_node(g, id);
  ++*s->changes;
  return TD_OK;
}

static ir_type given(const ir_type *type) { return type->kind == IR_FUTURE ? *type->elem : *type; }

/* Where no futures are left: lists hold what they gave. */
static void retype(state *s, ir_type *type) {
  const uint32_t count = type->elem ? ir_type_elems(type) : 0;
  *type = given(type);
  ir_type *elems = count && type->kind != IR_TENSOR && type->elem ? base_new(s->graph->arena, ir_type, count) : NULL;
  if (!elems) return;
  for (uint32_t i = 0; i < count; i++) {
    elems[i] = type->elem[i];
    retype(s, &elems[i]);
  }
  type->elem = elems;
}

static td_status erase_futures(state *s, td_error *err) {
  ir_graph *g = s->graph;
  for (uint32_t n = 1; n < g->nodes.count; n++) {
    const ir_node_def *node = &g->nodes.at[n];
    const ir_value result = s->dissolve[n]   ? ir_block_of(g, node->blocks[0])->results.at[0]
                            : node->in_count ? node->in[0]
                                             : IR_NO_VALUE;
    if (!s->dissolve[n] && !is_region(node, IR_REGION_WAIT)) continue;
    TRY(ir_replace_value(g, node->out[0], result, err));
    ++*s->changes;
  }
  for (uint32_t v = 1; v < g->values.count; v++) retype(s, &g->values.at[v].info.type);
  return TD_OK;
}

static td_status dissolve(state *s, bool all, td_error *err) {
  ir_graph *g = s->graph;
  move_nodes(s);
  if (s->failed) return base_no_memory(err, "the tasks of a graph");
  for (uint32_t n = 1; n < g->nodes.count && !all; n++)
    if (g->nodes.at[n].op) TRY(replace_waits(s, (ir_node){n}, err));
  if (all) TRY(erase_futures(s, err));
  /* Waits that gave way, and their forks, whose blocks are empty now. */
  for (uint32_t n = 1; n < g->nodes.count; n++) {
    const ir_node_def *node = &g->nodes.at[n];
    const ir_node from = is_region(node, IR_REGION_WAIT) ? ir_value_of(g, node->in[0])->node : (ir_node){0};
    const bool gave = is_region(node, IR_REGION_WAIT) && (all || (from.id && s->dissolve[from.id]));
    if (gave) ir_remove_node(g, (ir_node){n});
  }
  for (uint32_t n = 1; n < g->nodes.count; n++) {
    if (!s->dissolve[n]) continue;
    ir_block_of(g, g->nodes.at[n].blocks[0])->nodes.count = 0;
    ir_remove_node(g, (ir_node){n});
  }
  ir_settle(g);
  return TD_OK;
}

td_status passes_forks(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  bool any = false, all = false;
  (void)setting;
  for (uint32_t n = 1; n < graph->nodes.count; n++) any |= is_region(&graph->nodes.at[n], IR_REGION_FORK);
  if (!any) return TD_OK;
  state s = {.graph = graph,
             .speed = base_speed_or_default(setting->speed),
             .changes = changes,
             .scratch = base_arena_new(base_arena_allocator(graph->arena))};
  s.strayed = s.scratch ? base_new(s.scratch, bool, graph->values.count) : NULL;
  s.awaited = s.scratch ? base_new(s.scratch, bool, graph->values.count) : NULL;
  s.dissolve = s.scratch ? base_new(s.scratch, bool, graph->nodes.count) : NULL;
  s.failed = !s.strayed || !s.awaited || !s.dissolve;
  td_status status = TD_OK;
  if (!s.failed) note_uses(&s);
  if (!s.failed && choose(&s, &all) && !s.failed) status = dissolve(&s, all, err);
  if (s.failed && status == TD_OK) status = base_no_memory(err, "the tasks of a graph");
  base_arena_free(s.scratch);
  return status;
}
