/* graph.c -- construction and edits. */
#include "ir/graph_priv.h"
#include "ir/eval.h"
#include "base/size.h"

#include <string.h>

bool ir_origins_have(const ir_origins *origins, base_str name) {
  for (uint32_t i = 0; i < origins->count; i++)
    if (base_str_equal(base_node_name(origins->names[i]), name)) return true;
  return false;
}

bool ir_origins_listed(const ir_origins *origins, const char *list) {
  for (const char *at = list; at && *at;) {
    const base_str word = {at, strcspn(at, ",")};
    if (ir_origins_have(origins, word)) return true;
    at += word.length + (at[word.length] == ',');
  }
  return false;
}

ir_graph *ir_graph_new(const td_allocator *allocator, const ir_opset *ops) {
  base_arena *arena = base_arena_new_brief(allocator);
  ir_graph *g = arena ? base_new(arena, ir_graph, 1) : NULL;
  if (!g) {
    base_arena_free(arena);
    return NULL;
  }
  g->arena = g->constants = arena;
  g->ops = ops;
  g->dims.arena = arena;
  const void *no_value = base_vec_push(arena, &g->values), *no_node = base_vec_push(arena, &g->nodes),
             *no_block = base_vec_push(arena, &g->blocks);
  if (!no_value || !no_node || !no_block || ir_add_block(g, (ir_node){0}, &g->top, NULL) != TD_OK) {
    base_arena_free(arena);
    return NULL;
  }
  return g;
}

void ir_graph_free(ir_graph *graph) {
  if (graph) base_arena_free(graph->arena);
}

td_status ir_add_block(ir_graph *g, ir_node owner, ir_block *block, td_error *err) {
  ir_block_def *def = base_vec_push(g->arena, &g->blocks);
  if (!def) return base_no_memory(err, "a block of the graph");
  def->owner = owner;
  *block = (ir_block){g->blocks.count - 1};
  if (!owner.id) return TD_OK;
  ir_node_def *node = ir_node_of(g, owner);
  ir_block *blocks = base_new(g->arena, ir_block, node->block_count + 1);
  if (!blocks) return base_no_memory(err, "a block of the graph");
  if (node->block_count) memcpy(blocks, node->blocks, node->block_count * sizeof *blocks);
  blocks[node->block_count++] = *block;
  node->blocks = blocks;
  return TD_OK;
}

static td_status add_value(ir_graph *g, const ir_info *info, ir_value *value, td_error *err) {
  if (!ir_is_countable(&info->type)) return base_fail(err, TD_BAD_FILE, NULL, -1, "a tensor's elements are too many");
  ir_value_def *def = base_vec_push(g->arena, &g->values);
  if (!def) return base_no_memory(err, "a value of the graph");
  def->info = *info;
  *value = (ir_value){g->values.count - 1};
  return TD_OK;
}

td_status ir_add_param(ir_graph *g, ir_block block, const ir_type *type, const char *name, ir_value *value,
                       td_error *err) {
  ir_info info = {.type = *type};
  TRY(add_value(g, &info, value, err));
  ir_block_def *def = ir_block_of(g, block);
  ir_value *slot = base_vec_push(g->arena, &def->params);
  if (!slot) return base_no_memory(err, "a parameter of a block");
  *slot = *value;
  ir_value_def *v = ir_value_of(g, *value);
  v->block = block;
  v->index = def->params.count - 1;
  v->name = name ? base_arena_text(g->arena, name) : NULL;
  return name && !v->name ? base_no_memory(err, "a name") : TD_OK;
}

td_status ir_add_result(ir_graph *g, ir_block block, ir_value value, td_error *err) {
  ir_value *slot = base_vec_push(g->arena, &ir_block_of(g, block)->results);
  if (!slot) return base_no_memory(err, "a result of a block");
  *slot = value;
  return TD_OK;
}

/* Moves the last of `count` values to place `at`, and those behind it up. */
static void put_before(ir_value *values, uint32_t at, uint32_t count) {
  const ir_value last = values[count - 1];
  memmove(values + at + 1, values + at, (count - 1 - at) * sizeof *values);
  values[at] = last;
}

td_status ir_add_input(ir_graph *g, const ir_type *type, const char *name, ir_value fallback, ir_value *value,
                       td_error *err) {
  TRY(ir_add_param(g, g->top, type, name, value, err));
  ir_value *slot = base_vec_push(g->arena, &g->input_defaults);
  if (!slot) return base_no_memory(err, "an input");
  *slot = fallback;
  ir_value *params = ir_block_of(g, g->top)->params.at;
  const uint32_t own = g->input_defaults.count - 1, count = ir_block_of(g, g->top)->params.count;
  put_before(params, own, count);
  for (uint32_t i = own; i < count; i++) ir_value_of(g, params[i])->index = i;
  return TD_OK;
}

td_status ir_add_output(ir_graph *g, ir_value value, const char *name, td_error *err) {
  TRY(ir_add_result(g, g->top, value, err));
  const char **slot = base_vec_push(g->arena, &g->output_names);
  if (slot) *slot = base_arena_text(g->arena, name);
  if (!slot || !*slot) return base_no_memory(err, "an output");
  put_before(ir_block_of(g, g->top)->results.at, g->output_names.count - 1, ir_block_of(g, g->top)->results.count);
  return TD_OK;
}

td_status ir_mark_complex(ir_graph *g, td_error *err) {
  uint32_t *slot = base_vec_push(g->arena, &g->complex_outputs);
  if (!slot) return base_no_memory(err, "an output");
  *slot = g->output_names.count - 1;
  return TD_OK;
}

bool ir_output_is_complex(const ir_graph *g, uint32_t index) {
  for (uint32_t i = 0; i < g->complex_outputs.count; i++)
    if (g->complex_outputs.at[i] == index) return true;
  return false;
}

td_status ir_add_guard(ir_graph *g, const base_guard *guard, td_error *err) {
  base_guard *slot = base_vec_push(g->arena, &g->guards);
  char *text = slot ? base_arena_text(g->arena, guard->text) : NULL;
  if (!text) return base_no_memory(err, "a condition of the inputs");
  *slot = *guard;
  slot->text = text;
  return TD_OK;
}

bool ir_find_segment(const ir_graph *g, const void *data, uint32_t *index, size_t *offset) {
  uintptr_t at = (uintptr_t)data;
  for (uint32_t i = 0; i < g->segments.count; i++) {
    uintptr_t base = (uintptr_t)g->segments.at[i].base;
    if (at < base || at - base >= g->segments.at[i].bytes) continue;
    *index = i;
    *offset = at - base;
    return true;
  }
  return false;
}

td_status ir_add_constant(ir_graph *g, const base_tensor *tensor, const char *name, ir_value *value, td_error *err) {
  base_tensor *copy = base_arena_copy(g->arena, tensor, sizeof *tensor);
  if (!copy) return base_no_memory(err, "a constant");
  base_dim dims[BASE_MAX_RANK];
  int64_t count;
  if (!base_numel(tensor->rank, tensor->dims, &count))
    return base_fail(err, TD_BAD_FILE, name, -1, "the size of a constant overflows");
  for (int32_t i = 0; i < tensor->rank; i++) dims[i] = tensor->dims[i];
  ir_info info = {.type = ir_tensor(tensor->dtype, tensor->rank, dims), .constant = copy};
  if (count <= IR_MAX_INTS && !base_is_float(tensor->dtype) && tensor->dtype != TD_STRING) {
    base_dim *ints = base_new(g->arena, base_dim, count ? (size_t)count : 1);
    if (!ints) return base_no_memory(err, "a constant");
    ir_info whole = {.type = info.type, .constant = copy};
    const ir_info *in[] = {&whole};
    ir_infer ctx = {.in = in, .in_count = 1, .arena = g->arena, .err = err};
    const base_dim *read;
    uint32_t n;
    if (ir_in_ints(&ctx, 0, &read, &n)) {
      if (n) memcpy(ints, read, n * sizeof *ints);
      info.ints = ints;
      info.int_count = n;
    }
  }
  TRY(add_value(g, &info, value, err));
  ir_value_def *def = ir_value_of(g, *value);
  if (name) def->name = base_arena_text(g->arena, name);
  return name && !def->name ? base_no_memory(err, "a name") : TD_OK;
}

td_status ir_add_ints(ir_graph *g, const int64_t *ints, uint32_t count, ir_value *value, td_error *err) {
  int64_t dims[] = {count};
  void *data = base_arena_copy(g->arena, ints, count * sizeof *ints);
  if (!data) return base_no_memory(err, "a constant");
  base_tensor t = base_tensor_of(data, TD_I64, 1, dims);
  return ir_add_constant(g, &t, NULL, value, err);
}

td_status ir_add_scalar(ir_graph *g, td_dtype dtype, double number, ir_value *value, td_error *err) {
  void *data = base_arena_alloc(g->arena, sizeof(td_string));
  if (!data) return base_no_memory(err, "a constant");
  base_store_f64(dtype, data, 0, number);
  base_tensor t = base_tensor_of(data, dtype, 0, NULL);
  return ir_add_constant(g, &t, NULL, value, err);
}

static td_status copy_origins(ir_graph *g, const ir_origins *from, ir_origins *to, td_error *err) {
  const char **names = base_new(g->arena, const char *, from->count ? from->count : 1);
  if (!names) return base_no_memory(err, "an origin");
  for (uint32_t i = 0; i < from->count; i++) {
    names[i] = base_arena_text(g->arena, from->names[i]);
    if (!names[i]) return base_no_memory(err, "an origin");
  }
  *to = (ir_origins){names, from->count};
  return TD_OK;
}

static td_status check_operands(const ir_new_node *spec, uint32_t out_count, td_error *err) {
  const ir_op *op = spec->op;
  if (op->out_count != IR_VARIADIC && out_count > op->out_count)
    return base_fail(err, TD_BAD_FILE, NULL, -1, "%s has %u results, not %u", op->name, op->out_count, out_count);
  if (op->flags & IR_OP_REGION && out_count && !spec->out_types)
    return base_fail(err, TD_BAD_FILE, NULL, -1, "%s: the types of its results are missing", op->name);
  if (spec->in_count < op->min_in || (op->max_in != IR_VARIADIC && spec->in_count > op->max_in))
    return base_fail(err, TD_BAD_FILE, NULL, -1, "%s takes %u to %u operands and was given %u", op->name, op->min_in,
                     op->max_in, spec->in_count);
  for (uint32_t i = 0; i < op->min_in && !(op->flags & IR_OP_REGION); i++)
    if (!spec->in[i].id) return base_fail(err, TD_BAD_FILE, NULL, -1, "%s: operand %u is missing", op->name, i);
  return TD_OK;
}

/* What is known of the outputs of an operator on `values`, into `out` (zeroed). */
static td_status infer(ir_graph *g, const ir_op *op, const base_attrs *attrs, const ir_value *values, uint32_t in_count,
                       ir_info *out, uint32_t out_count, td_error *err) {
  const ir_info **in = base_new(g->arena, const ir_info *, in_count ? in_count : 1);
  if (!in) return base_no_memory(err, "a node");
  for (uint32_t i = 0; i < in_count; i++) in[i] = values[i].id ? &ir_value_of(g, values[i])->info : NULL;
  ir_infer ctx = {.op = op,
                  .attrs = attrs,
                  .in = in,
                  .in_count = in_count,
                  .out = out,
                  .out_count = out_count,
                  .dims = &g->dims,
                  .arena = g->arena,
                  .err = err};
  td_status status = ir_infer_outputs(&ctx);
  if (status == TD_OK && out_count == 1) status = ir_learn_contents(g, op, attrs, in, in_count, out, err);
  /* A size there was no memory for looks as if it were unknown. */
  return base_arena_failed(g->arena) ? base_no_memory(err, "a node") : status;
}

/* Does `fresh` say no more of a value than is known? */
static bool is_known_already(const ir_info *own, const ir_info *fresh) {
  if (!ir_type_equal(&own->type, &fresh->type)) return false;
  return !fresh->ints || (own->ints && own->int_count == fresh->int_count &&
                          memcmp(own->ints, fresh->ints, fresh->int_count * sizeof *own->ints) == 0);
}

td_status ir_infer_again(ir_graph *g, ir_node node, bool *changed, td_error *err) {
  const ir_node_def *def = ir_node_of(g, node);
  *changed = false;
  if (def->op->flags & IR_OP_REGION) return TD_OK;
  ir_info *infos = base_new(g->arena, ir_info, def->out_count + 1);
  if (!infos) return base_no_memory(err, "types");
  TRY(infer(g, def->op, def->attrs, def->in, def->in_count, infos, def->out_count, err));
  for (uint32_t i = 0; i < def->out_count; i++) {
    ir_info *own = &ir_value_of(g, def->out[i])->info;
    if (is_known_already(own, &infos[i])) continue;
    own->type = infos[i].type;
    own->ints = infos[i].ints;
    own->int_count = infos[i].int_count;
    *changed = true;
  }
  return TD_OK;
}

static td_status add_outputs(ir_graph *g, ir_node node, const ir_info *out, uint32_t out_count, ir_value *values,
                             td_error *err) {
  for (uint32_t i = 0; i < out_count; i++) {
    TRY(add_value(g, &out[i], &values[i], err));
    ir_value_def *def = ir_value_of(g, values[i]);
    def->node = node;
    def->index = i;
  }
  return TD_OK;
}

/* Notes that `node` stands in front of its anchor. Lists are one level deep: in front of a node that is itself in a
 * list means ahead of it in that list. */
static td_status place_before(ir_graph *g, ir_node node, ir_node anchor, td_error *err) {
  while (g->order.count < g->nodes.count) {
    const ir_node *room = base_vec_push(g->arena, &g->order);
    if (!room) return base_no_memory(err, "a node");
  }
  ir_node head = ir_node_of(g, anchor)->before.id ? ir_node_of(g, anchor)->before : anchor;
  ir_node *link = &ir_node_of(g, head)->ahead;
  while (link->id && link->id != anchor.id) link = &ir_node_of(g, *link)->next_ahead;
  ir_node_of(g, node)->before = head;
  ir_node_of(g, node)->next_ahead = *link;
  *link = node;
  return TD_OK;
}

td_status ir_add_node(ir_graph *g, ir_block block, const ir_new_node *spec, ir_node *node, ir_value *out,
                      td_error *err) {
  uint32_t out_count = spec->out_count ? spec->out_count : (spec->op->flags & IR_OP_REGION ? 0 : 1);
  TRY(check_operands(spec, out_count, err));
  const base_attrs *attrs;
  TRY(ir_make_attrs(g->arena, spec->op, spec->args, spec->arg_count, &attrs, err));
  ir_info *infos = base_new(g->arena, ir_info, out_count ? out_count : 1);
  ir_value *values = base_new(g->arena, ir_value, out_count ? out_count : 1);
  ir_value *in = base_arena_copy(g->arena, spec->in, spec->in_count * sizeof *in);
  ir_origins origins;
  if (!infos || !values || !in) return base_no_memory(err, "a node");
  for (uint32_t i = 0; spec->out_types && i < out_count; i++) infos[i].type = spec->out_types[i];
  if (!spec->out_types && out_count) TRY(infer(g, spec->op, attrs, spec->in, spec->in_count, infos, out_count, err));
  TRY(copy_origins(g, &spec->origins, &origins, err));
  ir_node_def *def = base_vec_push(g->arena, &g->nodes);
  ir_node id = {g->nodes.count - 1};
  ir_node *slot = def ? base_vec_push(g->arena, &ir_block_of(g, block)->nodes) : NULL;
  if (!slot) return base_no_memory(err, "a node");
  TRY(add_outputs(g, id, infos, out_count, values, err));
  *def = (ir_node_def){.op = spec->op,
                       .in = in,
                       .out = values,
                       .in_count = spec->in_count,
                       .out_count = out_count,
                       .attrs = attrs,
                       .parent = block,
                       .origins = origins};
  *slot = id;
  if (spec->before.id) TRY(place_before(g, id, spec->before, err));
  if (node) *node = id;
  if (out) *out = out_count ? values[0] : IR_NO_VALUE;
  return TD_OK;
}

td_status ir_replace_value(ir_graph *g, ir_value old, ir_value with, td_error *err) {
  while (g->replaced.count <= old.id) {
    ir_value *slot = base_vec_push(g->arena, &g->replaced);
    if (!slot) return base_no_memory(err, "an edit of the graph");
    *slot = IR_NO_VALUE; /* there may be one of the edits that ir_settle has carried out */
  }
  g->replaced.at[old.id] = with;
  return TD_OK;
}

/* What stands for `v` now. Chains are shortened on the way. */
static ir_value current(ir_graph *g, ir_value v) {
  ir_value last = v;
  while (last.id < g->replaced.count && g->replaced.at[last.id].id) last = g->replaced.at[last.id];
  while (v.id != last.id) {
    ir_value next = g->replaced.at[v.id];
    g->replaced.at[v.id] = last;
    v = next;
  }
  return last;
}

void ir_refresh(ir_graph *g, ir_node node) {
  ir_node_def *def = ir_node_of(g, node);
  for (uint32_t i = 0; i < def->in_count; i++) def->in[i] = current(g, def->in[i]);
}

void ir_remove_node(ir_graph *g, ir_node node) {
  ir_node_def *def = ir_node_of(g, node);
  for (uint32_t b = 0; def->op && b < def->block_count; b++)
    for (uint32_t i = 0; i < ir_block_of(g, def->blocks[b])->nodes.count; i++)
      ir_remove_node(g, ir_block_of(g, def->blocks[b])->nodes.at[i]);
  def->op = NULL;
}

/* Brings the nodes that were added `before` others to their places. */
static void settle_order(ir_graph *g, ir_block_def *block) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < block->nodes.count; i++) {
    ir_node_def *def = ir_node_of(g, block->nodes.at[i]);
    if (def->before.id) continue; /* comes with its anchor */
    for (ir_node n = def->ahead; n.id; n = ir_node_of(g, n)->next_ahead) g->order.at[count++] = n;
    g->order.at[count++] = block->nodes.at[i];
    def->ahead = (ir_node){0};
  }
  for (uint32_t i = 0; i < count; i++) {
    block->nodes.at[i] = g->order.at[i];
    ir_node_of(g, g->order.at[i])->before = ir_node_of(g, g->order.at[i])->next_ahead = (ir_node){0};
  }
}

void ir_settle(ir_graph *g) {
  for (uint32_t n = 1; n < g->nodes.count; n++)
    if (g->nodes.at[n].op) ir_refresh(g, (ir_node){n});
  for (uint32_t b = 1; b < g->blocks.count; b++) {
    ir_block_def *block = &g->blocks.at[b];
    uint32_t kept = 0;
    if (g->order.count) settle_order(g, block);
    for (uint32_t i = 0; i < block->nodes.count; i++)
      if (ir_node_of(g, block->nodes.at[i])->op) block->nodes.at[kept++] = block->nodes.at[i];
    block->nodes.count = kept;
    for (uint32_t i = 0; i < block->results.count; i++) block->results.at[i] = current(g, block->results.at[i]);
  }
  g->replaced.count = 0;
  g->order.count = 0;
}

static void drop_value(ir_graph *g, ir_value *values, uint32_t at, uint32_t count) {
  memmove(values + at, values + at + 1, (count - 1 - at) * sizeof *values);
  for (uint32_t i = at; g && i + 1 < count; i++) ir_value_of(g, values[i])->index = i;
}

void ir_drop_carried(ir_graph *g, ir_node loop, uint32_t at) {
  enum { OPERANDS_BEFORE = 2, INSIDE_BEFORE = 1 };
  ir_node_def *node = ir_node_of(g, loop);
  ir_block_def *body = ir_block_of(g, node->blocks[0]);
  drop_value(NULL, node->in, OPERANDS_BEFORE + at, node->in_count--);
  drop_value(g, node->out, at, node->out_count--);
  drop_value(g, body->params.at, INSIDE_BEFORE + at, body->params.count--);
  drop_value(NULL, body->results.at, INSIDE_BEFORE + at, body->results.count--);
}

void ir_count_uses(const ir_graph *g, uint32_t *counts) {
  memset(counts, 0, g->values.count * sizeof *counts);
  for (uint32_t n = 1; n < g->nodes.count; n++)
    for (uint32_t i = 0; g->nodes.at[n].op && i < g->nodes.at[n].in_count; i++) counts[g->nodes.at[n].in[i].id]++;
  for (uint32_t b = 1; b < g->blocks.count; b++) {
    bool removed = g->blocks.at[b].owner.id && !ir_node_of(g, g->blocks.at[b].owner)->op;
    for (uint32_t i = 0; !removed && i < g->blocks.at[b].results.count; i++) counts[g->blocks.at[b].results.at[i].id]++;
  }
}
