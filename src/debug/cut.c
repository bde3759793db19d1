/* cut.c -- a part of a graph. The graph itself is edited: nodes that go are removed, what they made for others becomes
 * inputs, and the types of all that is left are inferred anew, from the front. */
#include <string.h>

#include "debug/debug.h"

enum { KEPT_BYTES = 64 /* constants of so many stay what they are: sizes, scales */ };

typedef struct cutting {
  ir_graph *g;
  td_cut *cut;
  base_arena *scratch;
  uint32_t count;      /* nodes of the graph's own block */
  uint8_t *keep;       /* of them */
  uint32_t *place;     /* per node id: its place in that block + 1; 0: elsewhere */
  uint8_t *was_read;   /* per value: by a node, or as an output */
  uint8_t *is_read;    /* per value: by a node that stays */
  const char **output; /* per value: its name as the graph's output, or NULL */
  td_error *err;
} cutting;

static const ir_node_def *node_at(const cutting *c, uint32_t i) {
  return ir_node_of(c->g, ir_block_of(c->g, c->g->top)->nodes.at[i]);
}

/* ---- who reads what ---- */

typedef void (*visit_fn)(cutting *c, ir_value v);

/* Visits what a node of any block reads, and what the blocks in it read and yield. */
static void each_read(cutting *c, const ir_node_def *node, visit_fn visit) {
  for (uint32_t i = 0; i < node->in_count; i++)
    if (node->in[i].id) visit(c, node->in[i]);
  for (uint32_t b = 0; b < node->block_count; b++) {
    const ir_block_def *block = ir_block_of(c->g, node->blocks[b]);
    for (uint32_t i = 0; i < block->nodes.count; i++) each_read(c, ir_node_of(c->g, block->nodes.at[i]), visit);
    for (uint32_t i = 0; i < block->results.count; i++)
      if (block->results.at[i].id) visit(c, block->results.at[i]);
  }
}

static void note_was_read(cutting *c, ir_value v) { c->was_read[v.id] = 1; }
static void note_is_read(cutting *c, ir_value v) { c->is_read[v.id] = 1; }

/* Place + 1 of the node that makes `v`; 0: none of the graph's own block. */
static uint32_t maker_of(const cutting *c, ir_value v) { return c->place[ir_value_of(c->g, v)->node.id]; }

/* Values that no file of inputs can hold come with the node that makes them. */
static void keep_maker_of_list(cutting *c, ir_value v) {
  const ir_type *type = ir_type_of(c->g, v);
  const uint32_t maker = maker_of(c, v);
  if (maker && (type->kind != IR_TENSOR || type->dtype == TD_STRING)) c->keep[maker - 1] = 1;
}

/* ---- which nodes stay ---- */

static const char *name_of(const cutting *c, ir_value v) {
  if (c->output[v.id]) return c->output[v.id];
  return debug_tap_name(c->g, maker_of(c, v) - 1, ir_value_of(c->g, v)->index);
}

static void note_needed(cutting *c, ir_value v) {
  if (maker_of(c, v)) c->is_read[v.id] = 1;
}

/* Of the nodes that may stay those that make the output called `wanted`. */
static td_status keep_needed(cutting *c, const char *wanted) {
  ir_value found = IR_NO_VALUE;
  for (uint32_t i = 0; i < c->count; i++)
    for (uint32_t k = 0; c->keep[i] && k < node_at(c, i)->out_count; k++) {
      const char *name = name_of(c, node_at(c, i)->out[k]);
      if (!name) return base_no_memory(c->err, "a name");
      if (strcmp(name, wanted) == 0) found = node_at(c, i)->out[k];
    }
  if (!found.id) return base_fail(c->err, TD_BAD_ARGUMENT, wanted, -1, "no node that stays makes this output");
  c->is_read[found.id] = 1;
  for (uint32_t i = c->count; i-- > 0;) {
    bool needed = false;
    for (uint32_t k = 0; k < node_at(c, i)->out_count; k++) needed |= c->is_read[node_at(c, i)->out[k].id];
    c->keep[i] &= needed;
    if (c->keep[i]) each_read(c, node_at(c, i), note_needed);
  }
  return TD_OK;
}

static td_status choose_nodes(cutting *c) {
  const ir_block_def *top = ir_block_of(c->g, c->g->top);
  memset(c->keep, 1, c->count);
  if (c->cut->keep) memcpy(c->keep, c->cut->keep, c->count);
  for (uint32_t i = 0; i < c->g->output_names.count; i++) {
    c->was_read[top->results.at[i].id] = 1;
    if (!c->output[top->results.at[i].id]) c->output[top->results.at[i].id] = c->g->output_names.at[i];
  }
  for (uint32_t i = 0; i < c->count; i++) each_read(c, node_at(c, i), note_was_read);
  if (c->cut->output) TRY(keep_needed(c, c->cut->output));
  for (uint32_t i = c->count; i-- > 0;)
    if (c->keep[i]) each_read(c, node_at(c, i), keep_maker_of_list);
  memset(c->is_read, 0, c->g->values.count);
  for (uint32_t i = 0; i < c->count; i++)
    if (c->keep[i]) each_read(c, node_at(c, i), note_is_read);
  if (c->cut->keep) memcpy(c->cut->keep, c->keep, c->count);
  return TD_OK;
}

/* ---- inputs and outputs ---- */

/* The type as that of an input: sizes that only other nodes know become sizes of its own. */
static td_status input_type(cutting *c, const char *name, ir_type *type) {
  for (int32_t i = 0; i < type->rank; i++) {
    const base_dim d = type->dims[i];
    if (base_dim_known(d)) continue;
    const bool symbol = d != BASE_DIM_NONE && c->g->dims.nodes.at[d - (BASE_DIM_NONE + 1)].op == BASE_DIM_SYMBOL &&
                        !base_dim_from_data(&c->g->dims, d);
    if (symbol) continue;
    const char *own = base_arena_format(c->g->arena, "%s.%d", name, i);
    type->dims[i] = own ? base_dim_symbol(&c->g->dims, own) : BASE_DIM_NONE;
    if (type->dims[i] == BASE_DIM_NONE) return base_no_memory(c->err, "a size");
  }
  return TD_OK;
}

/* What a value of a node that goes is replaced by. */
static td_status stand_in(cutting *c, ir_value v, ir_value *with) {
  const ir_value_def *def = ir_value_of(c->g, v);
  const char *name = name_of(c, v);
  base_tensor tensor;
  bool known = false;
  if (!name) return base_no_memory(c->err, "a name");
  if (def->info.ints) TRY(ir_tensor_of_ints(c->g->arena, &def->info, &tensor, &known, c->err));
  if (known) return ir_add_constant(c->g, &tensor, NULL, with, c->err);
  ir_type type = def->info.type;
  TRY(input_type(c, name, &type));
  return ir_add_input(c->g, &type, name, IR_NO_VALUE, with, c->err);
}

static td_status replace_results(cutting *c, uint32_t index) {
  for (uint32_t k = 0; k < node_at(c, index)->out_count; k++) {
    const ir_value v = node_at(c, index)->out[k];
    ir_value with;
    if (!c->is_read[v.id]) continue;
    TRY(stand_in(c, v, &with));
    TRY(ir_replace_value(c->g, v, with, c->err));
  }
  return TD_OK;
}

/* Outputs are those that were and are still made, and what has lost its last reader. */
static td_status make_outputs(cutting *c, const char *only) {
  ir_graph *g = c->g;
  g->output_names.count = g->complex_outputs.count = 0;
  ir_block_of(g, g->top)->results.count = 0;
  for (uint32_t i = 0; i < c->count; i++)
    for (uint32_t k = 0; c->keep[i] && k < node_at(c, i)->out_count; k++) {
      const ir_value v = node_at(c, i)->out[k];
      const ir_type *type = ir_type_of(g, v);
      const bool ends = c->was_read[v.id] && !c->is_read[v.id] && type->kind == IR_TENSOR && type->dtype != TD_STRING;
      const char *name = c->output[v.id] || ends ? name_of(c, v) : NULL;
      if (!c->output[v.id] && !ends) continue;
      if (!name) return base_no_memory(c->err, "a name");
      if (!only || strcmp(only, name) == 0) TRY(ir_add_output(g, v, name, c->err));
    }
  if (g->output_names.count) return TD_OK;
  return base_fail(c->err, TD_BAD_ARGUMENT, NULL, -1, "nothing that could be an output is left of the graph");
}

static td_status free_constants(cutting *c) {
  for (uint32_t v = 1, count = c->g->values.count; v < count; v++) {
    const ir_value_def *def = &c->g->values.at[v];
    const base_tensor *t = def->info.constant;
    ir_value input;
    if (!t || def->node.id || v >= count || !c->is_read[v] || base_tensor_bytes(t) <= KEPT_BYTES) continue;
    const char *name = def->name ? def->name : base_arena_format(c->g->arena, "constant %u", v);
    const ir_type type = def->info.type;
    if (!name) return base_no_memory(c->err, "a name");
    TRY(ir_add_input(c->g, &type, name, (ir_value){v}, &input, c->err));
    TRY(ir_replace_value(c->g, (ir_value){v}, input, c->err));
  }
  return TD_OK;
}

/* Nobody reads these inputs any more. */
static td_status bind_defaults(cutting *c) {
  for (uint32_t i = 0; i < c->g->input_defaults.count; i++) {
    const ir_value input = ir_block_of(c->g, c->g->top)->params.at[i], fallback = c->g->input_defaults.at[i];
    if (!fallback.id || !c->is_read[input.id]) continue;
    TRY(ir_replace_value(c->g, input, fallback, c->err));
    c->is_read[input.id] = 0;
  }
  return TD_OK;
}

static void drop_inputs(cutting *c, uint32_t before) {
  ir_graph *g = c->g;
  ir_block_def *top = ir_block_of(g, g->top);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < g->input_defaults.count; i++) {
    const ir_value v = top->params.at[i];
    if (v.id < before && !c->is_read[v.id]) continue;
    top->params.at[kept] = v;
    g->input_defaults.at[kept] = g->input_defaults.at[i];
    ir_value_of(g, v)->index = kept++;
  }
  top->params.count = g->input_defaults.count = kept;
}

/* ---- other sizes and types ---- */

static void set_input_types(cutting *c) {
  const ir_block_def *top = ir_block_of(c->g, c->g->top);
  for (uint32_t i = 0; i < top->params.count; i++) {
    ir_value_def *def = ir_value_of(c->g, top->params.at[i]);
    for (size_t k = 0; k < c->cut->input_count; k++) {
      const td_value_info *to = &c->cut->inputs[k];
      if (!def->name || strcmp(def->name, to->name) != 0 || def->info.type.kind != IR_TENSOR) continue;
      base_dim dims[BASE_MAX_RANK];
      for (int32_t d = 0; d < to->rank; d++) dims[d] = to->dims[d] < 0 ? def->info.type.dims[d] : to->dims[d];
      def->info.type = ir_tensor(to->dtype, to->rank, dims);
    }
  }
}

/* Sizes of inputs and constants, and of shapes that are constants themselves. */
static td_status shrink_sizes(cutting *c, int64_t from, int64_t to) {
  const ir_block_def *top = ir_block_of(c->g, c->g->top);
  for (uint32_t i = 0; i < top->params.count; i++) {
    ir_type *type = &ir_value_of(c->g, top->params.at[i])->info.type;
    for (int32_t d = 0; d < type->rank; d++)
      if (type->dims[d] == from) type->dims[d] = to;
  }
  for (uint32_t v = 1; v < c->g->values.count; v++) {
    ir_info *info = &c->g->values.at[v].info;
    if (!info->constant || base_dtype(info->constant->dtype)->bits < 8) continue;
    base_tensor *t = base_arena_copy(c->g->arena, info->constant, sizeof *t);
    if (!t) return base_no_memory(c->err, "a constant");
    for (int32_t d = 0; d < t->rank; d++)
      if (t->dims[d] == from) t->dims[d] = info->type.dims[d] = to;
    info->constant = t;
    if (t->dtype != TD_I64 || t->rank > 1 || !info->ints) continue;
    base_dim *ints = base_new(c->g->arena, base_dim, (size_t)info->int_count + 1);
    if (!ints) return base_no_memory(c->err, "a constant");
    info->int_count = (uint32_t)base_tensor_numel(t);
    for (uint32_t k = 0; k < info->int_count; k++) ints[k] = info->ints[k] == from ? to : info->ints[k];
    info->ints = ints;
    bool known;
    TRY(ir_tensor_of_ints(c->g->arena, info, t, &known, c->err));
  }
  return TD_OK;
}

static td_status edit(cutting *c) {
  const uint32_t before = c->g->values.count;
  TRY(choose_nodes(c));
  for (uint32_t i = 0; i < c->count; i++)
    if (!c->keep[i]) TRY(replace_results(c, i));
  TRY(make_outputs(c, c->cut->output));
  if (c->cut->free_constants > 0) TRY(free_constants(c));
  if (c->cut->free_constants < 0) TRY(bind_defaults(c));
  drop_inputs(c, before);
  for (uint32_t i = 0; i < c->count; i++)
    if (!c->keep[i]) ir_remove_node(c->g, ir_block_of(c->g, c->g->top)->nodes.at[i]);
  c->g->guards.count = 0; /* of inputs that may be gone */
  ir_settle(c->g);
  set_input_types(c);
  if (c->cut->size_from) TRY(shrink_sizes(c, c->cut->size_from, c->cut->size_to));
  if (c->cut->dtype_from) return debug_retype(c->g, c->cut->dtype_from, c->cut->dtype_to, c->err);
  return debug_infer_again(c->g, c->err);
}

/* ---- session state ---- */

static bool is_input_name(const ir_graph *g, const char *name) {
  const ir_block_def *top = ir_block_of(g, g->top);
  for (uint32_t i = 0; i < g->input_defaults.count; i++) {
    const char *other = ir_value_of(g, top->params.at[i])->name;
    if (other && strcmp(other, name) == 0) return true;
  }
  return false;
}

/* What is kept from run to run becomes an input, by default what it is in the first run, and an output: of a run, that
 * is all there is to it. Parameters and results of the graph stand in that order already. */
static td_status free_states(ir_graph *g, td_error *err) {
  for (uint32_t i = 0; i < g->states.count; i++) {
    ir_value_def *def = ir_value_of(g, ir_block_of(g, g->top)->params.at[g->input_defaults.count]);
    const ir_initial *initial = &g->states.at[i];
    if (initial->list || !initial->value.id || def->info.type.kind != IR_TENSOR)
      return base_fail(err, TD_UNSUPPORTED, def->name, -1,
                       "a graph that keeps something else than tensors from run to run cannot be cut");
    const char *name = def->name ? def->name : "state";
    if (is_input_name(g, name)) def->name = base_arena_format(g->arena, "%s.state", name);
    const char *after = base_arena_format(g->arena, "%s.after", name);
    ir_value *fallback = base_vec_push(g->arena, &g->input_defaults);
    const char **output = base_vec_push(g->arena, &g->output_names);
    if (!def->name || !after || !fallback || !output) return base_no_memory(err, "a state");
    *fallback = initial->value;
    *output = after;
  }
  g->states.count = 0;
  return TD_OK;
}

td_status debug_cut(ir_graph *g, td_cut *cut, td_error *err) {
  TRY(free_states(g, err));
  const ir_block_def *top = ir_block_of(g, g->top);
  cut->node_count = top->nodes.count;
  if (cut->keep && cut->keep_count != top->nodes.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "the graph has %u nodes, not %zu", top->nodes.count,
                     cut->keep_count);
  if (cut->size_from && (cut->size_to < 1 || cut->size_to >= cut->size_from))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "sizes can only become smaller, and not 0");
  base_arena *scratch = base_arena_new(base_arena_allocator(g->arena));
  if (!scratch) return base_no_memory(err, "a cut");
  const size_t values = g->values.count;
  cutting c = {.g = g,
               .cut = cut,
               .scratch = scratch,
               .count = top->nodes.count,
               .keep = base_new(scratch, uint8_t, (size_t)top->nodes.count + 1),
               .place = base_new(scratch, uint32_t, g->nodes.count),
               .was_read = base_new(scratch, uint8_t, values),
               .is_read = base_new(scratch, uint8_t, values),
               .output = base_new(scratch, const char *, values),
               .err = err};
  const bool room = c.keep && c.place && c.was_read && c.is_read && c.output;
  for (uint32_t i = 0; room && i < c.count; i++) c.place[top->nodes.at[i].id] = i + 1;
  td_status status = room ? edit(&c) : base_no_memory(err, "a cut");
  base_arena_free(scratch);
  return status == TD_OK ? ir_verify(g, err) : status;
}
