/* sort.c -- the order in which a graph's nodes can be lowered. The file's order is kept where it is sound; where a
 * sloppy exporter wrote a node before what it uses, the used node comes first. A node uses what its subgraphs use. Each
 * node and each use is seen once per graph around it. */
#include "import/onnx/state_priv.h"

typedef struct uses {
  const onnx_scope *scope;
  onnx_import *im;
  const onnx_graph *graph;
  base_map producers;    /* name -> node */
  BASE_VEC(uint32_t) at; /* nodes that are used */
  uint32_t *start;       /* of each node's uses; one more entry */
  bool is_sound;         /* no use of a later node so far */
} uses;

static td_status at_node(const uses *u, const onnx_record *r, td_status status) {
  base_str op = r->op_type, name = r->name;
  const onnx_scope *s = u->scope;
  if (name.length)
    return base_error_name(s->im->err, status, "node %s%.*s (%.*s)", s->prefix, (int)name.length, name.at,
                           (int)op.length, op.at);
  return base_error_name(s->im->err, status, "node %s%.*s_%u (%.*s)", s->path, (int)op.length, op.at, r->index,
                         (int)op.length, op.at);
}

static td_status find_producers(uses *u) {
  for (uint32_t i = 0; i < u->graph->nodes.count; i++) {
    const onnx_record *r = &u->graph->nodes.at[i];
    for (uint32_t k = 0; k < r->out.count; k++) {
      bool existed = false;
      if (!r->out.at[k].length) continue;
      if (!base_map_put(&u->producers, u->im->arena, r->out.at[k], i, &existed))
        return base_no_memory(u->im->err, "names");
      if (existed || onnx_lookup(u->scope, r->out.at[k])) return at_node(u, r, onnx_defined_twice(u->im, r->out.at[k]));
    }
  }
  return TD_OK;
}

/* What the inputs and initializers of a subgraph are called, and those of the subgraphs around it. */
typedef struct hidden {
  base_map names;
  const struct hidden *around;
} hidden;

static td_status hide(uses *u, const onnx_graph *graph, hidden *h) {
  for (uint32_t i = 0; i < graph->inputs.count; i++)
    if (!base_map_put(&h->names, u->im->arena, graph->inputs.at[i].name, 0, NULL))
      return base_no_memory(u->im->err, "names");
  for (uint32_t i = 0; i < graph->initializers.count; i++)
    if (!base_map_put(&h->names, u->im->arena, graph->initializers.at[i].name, 0, NULL))
      return base_no_memory(u->im->err, "names");
  return TD_OK;
}

static td_status add_use(uses *u, uint32_t user, base_str name, const hidden *around) {
  const uint32_t *producer = base_map_get(&u->producers, name);
  if (!producer) return TD_OK;
  for (const hidden *h = around; h; h = h->around)
    if (base_map_get(&h->names, name)) return TD_OK;
  if (*producer >= user) u->is_sound = false;
  uint32_t *slot = base_vec_push(u->im->arena, &u->at);
  if (!slot) return base_no_memory(u->im->err, "the order of nodes");
  *slot = *producer;
  return TD_OK;
}

/* Uses of `r`, on behalf of node `user`, which `r` is or is nested in. */
static td_status add_uses(uses *u, uint32_t user, const onnx_record *r, const hidden *around) {
  for (uint32_t i = 0; i < r->in.count; i++) TRY(add_use(u, user, r->in.at[i], around));
  for (uint32_t i = 0; i < r->attrs.count; i++) {
    const onnx_graph *nested = r->attrs.at[i].graph;
    hidden own = {.around = around};
    if (nested) TRY(hide(u, nested, &own));
    for (uint32_t k = 0; nested && k < nested->nodes.count; k++) TRY(add_uses(u, user, &nested->nodes.at[k], &own));
    for (uint32_t k = 0; nested && k < nested->outputs.count; k++)
      TRY(add_use(u, user, nested->outputs.at[k].name, &own));
  }
  return TD_OK;
}

typedef struct frame {
  uint32_t node, next; /* the use to look at next */
} frame;

/* Depth first from `root`, without recursion: a chain may be as long as the file. */
static td_status visit(uses *u, uint32_t root, uint8_t *state, frame *stack, uint32_t *order, uint32_t *placed) {
  enum { UNSEEN, ENTERED, PLACED };
  uint32_t depth = 0;
  if (state[root] != UNSEEN) return TD_OK;
  stack[depth++] = (frame){root, u->start[root]};
  state[root] = ENTERED;
  while (depth) {
    frame *top = &stack[depth - 1];
    if (top->next == u->start[top->node + 1]) {
      state[top->node] = PLACED;
      order[(*placed)++] = top->node;
      depth--;
      continue;
    }
    uint32_t used = u->at.at[top->next++];
    if (state[used] == ENTERED)
      return at_node(
          u, &u->graph->nodes.at[used],
          base_fail(u->im->err, TD_BAD_FILE, NULL, -1, "the node needs its own result: the graph has a cycle"));
    if (state[used] == PLACED) continue;
    state[used] = ENTERED;
    stack[depth++] = (frame){used, u->start[used]};
  }
  return TD_OK;
}

td_status onnx_sort(const onnx_scope *scope, onnx_graph *graph) {
  onnx_import *im = scope->im;
  uint32_t count = graph->nodes.count, placed = 0;
  if (graph->order) return TD_OK;
  uses u = {.scope = scope, .im = im, .graph = graph, .is_sound = true};
  u.start = base_new(im->arena, uint32_t, (size_t)count + 1);
  uint32_t *order = base_new(im->arena, uint32_t, (size_t)count + 1);
  if (!u.start || !order) return base_no_memory(im->err, "the order of nodes");
  TRY(find_producers(&u));
  for (uint32_t i = 0; i < count; i++) {
    TRY(add_uses(&u, i, &graph->nodes.at[i], NULL));
    u.start[i + 1] = u.at.count;
    order[i] = i;
  }
  if (!u.is_sound) {
    uint8_t *state = base_new(im->arena, uint8_t, count);
    frame *stack = base_new(im->arena, frame, count);
    if (!state || !stack) return base_no_memory(im->err, "the order of nodes");
    for (uint32_t i = 0; i < count; i++) TRY(visit(&u, i, state, stack, order, &placed));
  }
  graph->order = order;
  return TD_OK;
}
