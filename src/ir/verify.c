/* verify.c -- the invariants of graph.h, checked. */
#include "ir/graph.h"

#include <string.h>

enum scope { UNDEFINED, VISIBLE, CLOSED /* its block has ended */ };

typedef struct checker {
  const ir_graph *g;
  uint8_t *defined; /* per value: a scope */
  td_error *err;
} checker;

static td_status broken(checker *c, const ir_node_def *node, const char *what, uint32_t index) {
  return base_fail(c->err, TD_INTERNAL, node && node->origins.count ? node->origins.names[0] : NULL, -1,
                   "the graph is damaged: %s: %s %u", node && node->op ? node->op->name : "block", what, index);
}

static bool usable(const checker *c, ir_value v) {
  if (v.id >= c->g->values.count) return false;
  return c->defined[v.id] == VISIBLE || (ir_value_of(c->g, v)->info.constant && !ir_value_of(c->g, v)->node.id);
}

static td_status define(checker *c, const ir_node_def *node, ir_value v, uint32_t index) {
  if (!v.id || v.id >= c->g->values.count || c->defined[v.id] != UNDEFINED)
    return broken(c, node, "defines a bad value as", index);
  c->defined[v.id] = VISIBLE;
  return TD_OK;
}

static td_status check_type(checker *c, const ir_node_def *node, const ir_type *t, uint32_t index) {
  bool tensor = t->kind == IR_TENSOR;
  if (t->kind >= IR_KIND_COUNT || (tensor && (t->rank < IR_UNRANKED || t->rank > BASE_MAX_RANK)))
    return broken(c, node, "bad type of output", index);
  if (tensor && (t->dtype <= TD_INVALID || t->dtype >= TD_DTYPE_COUNT))
    return broken(c, node, "no element type of output", index);
  for (int32_t i = 0; tensor && i < t->rank; i++)
    if (t->dims[i] == BASE_DIM_NONE) return broken(c, node, "a size is missing of output", index);
  if (t->kind == IR_CLASS && (!t->name || (t->count && !t->names)))
    return broken(c, node, "a class without names of output", index);
  if (t->count && !t->elem) return broken(c, node, "no types of elements of output", index);
  return TD_OK;
}

static td_status check_block(checker *c, ir_block block);

/* What a nested block defines is seen by nobody after it. */
static void close_block(checker *c, const ir_block_def *block) {
  for (uint32_t i = 0; i < block->params.count; i++) c->defined[block->params.at[i].id] = CLOSED;
  for (uint32_t i = 0; i < block->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(c->g, block->nodes.at[i]);
    for (uint32_t k = 0; k < node->out_count; k++) c->defined[node->out[k].id] = CLOSED;
  }
}

/* The number of an iteration is written as an i64 of rank 0. */
static bool is_counter(const ir_type *type) {
  return type->kind == IR_TENSOR && type->dtype == TD_I64 && type->rank == 0;
}

/* What graph.h says of each kind of region. */
typedef struct region_rule {
  uint32_t blocks;
  bool counts;     /* parameter 0 is the number of the iteration; the operands are two more than the outputs */
  bool carries;    /* as many parameters, behind the counter, as outputs */
  uint32_t before; /* results in front of those that go to the outputs */
  bool promises;   /* the one output is a future of the results */
} region_rule;

static const region_rule rules[] = {[IR_REGION_IF] = {.blocks = 2},
                                    [IR_REGION_LOOP] = {.blocks = 1, .counts = true, .carries = true, .before = 1},
                                    [IR_REGION_FORK] = {.blocks = 1, .promises = true}};

/* A future of the type of one result, or of a tuple of several. */
static bool is_promise(const ir_type *type, const ir_block_def *block) {
  if (type->kind != IR_FUTURE || !type->elem) return false;
  uint32_t count = block->results.count;
  return count == 1 || (type->elem->kind == IR_TUPLE && ir_type_elems(type->elem) == count);
}

static td_status check_region(checker *c, const ir_node_def *node) {
  if (!(node->op->flags & IR_OP_REGION))
    return node->block_count ? broken(c, node, "has blocks:", node->block_count) : TD_OK;
  const region_rule *rule = &rules[node->op->region];
  if (node->block_count != rule->blocks) return broken(c, node, "wrong number of blocks:", node->block_count);
  if (rule->counts && node->in_count != node->out_count + 2)
    return broken(c, node, "wrong number of operands:", node->in_count);
  if (rule->promises && node->out_count != 1) return broken(c, node, "wrong number of outputs:", node->out_count);
  for (uint32_t b = 0; b < node->block_count; b++) {
    const ir_block_def *block = ir_block_of(c->g, node->blocks[b]);
    uint32_t params = (rule->counts ? 1 : 0) + (rule->carries ? node->out_count : 0);
    bool fits = rule->promises ? is_promise(ir_type_of(c->g, node->out[0]), block)
                               : block->results.count == node->out_count + rule->before;
    if (!fits || block->params.count != params) return broken(c, node, "wrong signature of block", b);
    if (rule->counts && !is_counter(ir_type_of(c->g, block->params.at[0])))
      return broken(c, node, "no iteration number in block", b);
    TRY(check_block(c, node->blocks[b]));
    close_block(c, block);
  }
  return TD_OK;
}

static td_status check_node(checker *c, ir_node id, ir_block parent) {
  if (!id.id || id.id >= c->g->nodes.count) return broken(c, NULL, "no such node", id.id);
  const ir_node_def *node = ir_node_of(c->g, id);
  if (!node->op || node->parent.id != parent.id) return broken(c, node, "misplaced node", id.id);
  for (uint32_t i = 0; i < node->in_count; i++)
    if (node->in[i].id && !usable(c, node->in[i])) return broken(c, node, "uses before its definition operand", i);
  for (uint32_t i = 0; i < node->op->min_in && !(node->op->flags & IR_OP_REGION); i++)
    if (i >= node->in_count || !node->in[i].id) return broken(c, node, "is without operand", i);
  TRY(check_region(c, node));
  for (uint32_t i = 0; i < node->out_count; i++) {
    TRY(define(c, node, node->out[i], i));
    TRY(check_type(c, node, ir_type_of(c->g, node->out[i]), i));
  }
  return TD_OK;
}

static td_status check_block(checker *c, ir_block block) {
  const ir_block_def *def = ir_block_of(c->g, block);
  for (uint32_t i = 0; i < def->params.count; i++) TRY(define(c, NULL, def->params.at[i], i));
  for (uint32_t i = 0; i < def->nodes.count; i++) TRY(check_node(c, def->nodes.at[i], block));
  for (uint32_t i = 0; i < def->results.count; i++)
    if (!usable(c, def->results.at[i])) return broken(c, NULL, "uses before its definition result", i);
  return TD_OK;
}

/* One per input, a constant of its element type or none. */
static td_status check_defaults(checker *c) {
  const ir_block_def *top = ir_block_of(c->g, c->g->top);
  if ((size_t)c->g->input_defaults.count + c->g->states.count != top->params.count)
    return broken(c, NULL, "defaults:", c->g->input_defaults.count);
  for (uint32_t i = 0; i < c->g->input_defaults.count; i++) {
    ir_value v = c->g->input_defaults.at[i];
    if (!v.id) continue;
    const ir_type *type = ir_type_of(c->g, top->params.at[i]);
    const base_tensor *t = v.id < c->g->values.count ? ir_value_of(c->g, v)->info.constant : NULL;
    if (!t || type->kind != IR_TENSOR || type->dtype != t->dtype || (type->rank >= 0 && type->rank != t->rank))
      return broken(c, NULL, "bad default of input", i);
  }
  return TD_OK;
}

/* ---- session state ---- */

static bool is_tensor(const ir_type *type) { return type->kind <= IR_BOOL; }

/* May a tensor of type `b` stand where `a` is expected? Sizes that are not known are looked at when it is stored. */
static bool tensor_fits(const ir_type *a, const ir_type *b) {
  if (!is_tensor(b) || a->dtype != b->dtype || (a->rank >= 0 && b->rank >= 0 && a->rank != b->rank)) return false;
  for (int32_t i = 0; i < a->rank && i < b->rank; i++)
    if (base_dim_known(a->dims[i]) && base_dim_known(b->dims[i]) && a->dims[i] != b->dims[i]) return false;
  return true;
}

static bool fits(const ir_type *a, const ir_type *b) {
  if (is_tensor(a)) return tensor_fits(a, b);
  if (a->kind == IR_OPTIONAL) {
    if (b->kind == IR_NONE || !a->elem) return true;
    return fits(a->elem, b->kind == IR_OPTIONAL && b->elem ? b->elem : b);
  }
  if (a->kind != b->kind || ir_type_elems(a) != ir_type_elems(b)) return !a->elem && a->kind == b->kind;
  for (uint32_t i = 0; i < ir_type_elems(a); i++) {
    const bool open = is_tensor(&b->elem[i]) && b->elem[i].dtype == TD_INVALID; /* of an empty list */
    if (!open && !fits(&a->elem[i], &b->elem[i])) return false;
  }
  return true;
}

static bool initial_fits(const checker *c, const ir_type *type, const ir_initial *initial);

static bool items_fit(const checker *c, const ir_type *type, const ir_initial *initial) {
  const uint32_t elems = ir_type_elems(type);
  if ((type->kind == IR_TUPLE || type->kind == IR_CLASS) && initial->count != elems) return false;
  if (type->kind == IR_DICT && initial->count % 2) return false;
  for (uint32_t i = 0; elems && i < initial->count; i++)
    if (!initial_fits(c, &type->elem[i % elems], &initial->items[i])) return false;
  return true;
}

static bool initial_fits(const checker *c, const ir_type *type, const ir_initial *initial) {
  if (type->kind == IR_OPTIONAL) {
    if (!initial->list && !initial->value.id) return true;
    return !type->elem || initial_fits(c, type->elem, initial);
  }
  if (initial->list)
    return (type->kind == IR_LIST || type->kind == IR_TUPLE || type->kind == IR_DICT || type->kind == IR_CLASS) &&
           items_fit(c, type, initial);
  if (!initial->value.id) return type->kind == IR_NONE;
  if (initial->value.id >= c->g->values.count) return false;
  const ir_value_def *def = ir_value_of(c->g, initial->value);
  return def->info.constant && is_tensor(type) && tensor_fits(type, &def->info.type);
}

static bool holds_future(const ir_type *type) {
  bool holds = type->kind == IR_FUTURE;
  for (uint32_t i = 0; !holds && type->elem && i < ir_type_elems(type); i++) holds = holds_future(&type->elem[i]);
  return holds;
}

/* A task ends with its run: nothing of it goes in or out, or is kept. */
static td_status check_futures(checker *c) {
  const ir_block_def *top = ir_block_of(c->g, c->g->top);
  for (uint32_t i = 0; i < top->params.count; i++)
    if (holds_future(ir_type_of(c->g, top->params.at[i]))) return broken(c, NULL, "a future goes in as input", i);
  for (uint32_t i = 0; i < top->results.count; i++)
    if (holds_future(ir_type_of(c->g, top->results.at[i]))) return broken(c, NULL, "a future goes out as output", i);
  return TD_OK;
}

static td_status check_states(checker *c) {
  const ir_graph *g = c->g;
  for (uint32_t i = 0; i < g->states.count; i++) {
    const ir_value_def *def = ir_value_of(g, ir_state_before(g, i));
    if (!def->name) return broken(c, NULL, "no name of state", i);
    if (!initial_fits(c, &def->info.type, &g->states.at[i])) return broken(c, NULL, "bad first value of state", i);
    if (!fits(&def->info.type, ir_type_of(g, ir_state_after(g, i))))
      return broken(c, NULL, "what is stored does not fit state", i);
  }
  return TD_OK;
}

static td_status check_complex(checker *c) {
  const ir_graph *g = c->g;
  for (uint32_t i = 0; i < g->complex_outputs.count; i++) {
    const uint32_t at = g->complex_outputs.at[i];
    if (at >= g->output_names.count || !ir_holds_pairs(ir_type_of(g, ir_block_of(g, g->top)->results.at[at])))
      return broken(c, NULL, "no pairs in the complex output", at);
  }
  return TD_OK;
}

td_status ir_verify(const ir_graph *g, td_error *err) {
  const td_allocator *allocator = base_arena_allocator(g->arena);
  checker c = {.g = g, .err = err, .defined = base_alloc(allocator, g->values.count)};
  if (!c.defined) return base_no_memory(err, "the verifier");
  memset(c.defined, 0, g->values.count);
  td_status status = check_block(&c, g->top);
  if (status == TD_OK) status = check_defaults(&c);
  if (status == TD_OK && (size_t)g->output_names.count + g->states.count != ir_block_of(g, g->top)->results.count)
    status = broken(&c, NULL, "outputs without names:", g->output_names.count);
  if (status == TD_OK) status = check_complex(&c);
  if (status == TD_OK) status = check_futures(&c);
  if (status == TD_OK) status = check_states(&c);
  base_free(allocator, c.defined, g->values.count);
  return status;
}
