/* explain.c -- the fused loops of a graph as text, and why what could be one stands alone: the search runs again, over
 * what it has left. */
#include "compile/fuse_priv.h"

#include <string.h>

static bool is_fused(const ir_node_def *node) {
  return strcmp(node->op->name, "td::fused") == 0 || strcmp(node->op->name, "td::fused_rows") == 0;
}

static void print_origins(const ir_node_def *node, base_text *text) {
  for (uint32_t i = 0; i < node->origins.count; i++)
    base_text_print(text, "%s\"%s\"", i ? " " : "", node->origins.names[i]);
  base_text_print(text, "\n");
}

static void print_values(const ir_graph *graph, const char *what, const ir_value *values, uint32_t count,
                         base_text *text) {
  for (uint32_t i = 0; i < count; i++) {
    const ir_value_def *def = ir_value_of(graph, values[i]);
    base_text_print(text, "#   %s %u: ", what, i);
    ir_type_print(&graph->dims, &def->info.type, text);
    base_text_print(text, "%s%s%s\n", def->name ? " \"" : "", def->name ? def->name : "", def->name ? "\"" : "");
  }
}

static void print_fused(const ir_graph *graph, const ir_node_def *node, uint32_t number, base_text *text) {
  base_program p;
  uint32_t count;
  const int64_t *words = base_attr_ints(node->attrs, 0, &count);
  if (base_program_read(words, count, &p)) return;
  base_text_print(text, "# loop %u: ", number);
  print_origins(node, text);
  print_values(graph, "operand", node->in, node->in_count, text);
  print_values(graph, "result", node->out, node->out_count, text);
  loop_print(&p, text);
}

static void print_alone(const fuse_state *f, uint32_t id, base_text *text) {
  const ir_node_def *node = ir_node_of(f->graph, (ir_node){id});
  if (is_fused(node) || !(node->op->lower || node->op->flags & IR_OP_ELEMENTWISE)) return;
  base_text_print(text, "# alone: %s, %s: ", node->op->name, f->why[id] ? f->why[id] : "");
  print_origins(node, text);
}

td_status compile_explain_loops(ir_graph *graph, const compile_setting *setting, const td_allocator *allocator,
                                base_text *text, td_error *err) {
  base_arena *scratch = base_arena_new(allocator);
  fuse_built *built = scratch ? base_new(scratch, fuse_built, 1) : NULL;
  fuse_state f;
  uint32_t number = 0;
  td_status status = built ? fuse_start(&f, graph, setting, scratch, err) : base_no_memory(err, "fused loops");
  if (status == TD_OK) f.why = base_new(scratch, const char *, (size_t)graph->nodes.count + 1);
  if (status == TD_OK && !f.why) status = base_no_memory(err, "fused loops");
  for (uint32_t b = 0; status == TD_OK && b < graph->blocks.count; b++) {
    const ir_block_def *block = ir_block_of(graph, (ir_block){b});
    if (setting->backend->fuses) status = fuse_find(&f, (ir_block){b}, built);
    for (uint32_t i = 0; status == TD_OK && i < block->nodes.count; i++) {
      const ir_node_def *node = ir_node_of(graph, block->nodes.at[i]);
      if (is_fused(node)) print_fused(graph, node, number++, text);
      else if (setting->backend->fuses) print_alone(&f, block->nodes.at[i].id, text);
    }
    for (uint32_t i = 0; status == TD_OK && i < block->nodes.count; i++) f.index[block->nodes.at[i].id] = 0;
  }
  base_arena_free(scratch);
  return status;
}
