/* print.c -- the fused loops of a graph as text, and why what could be in one, or moves data alone, is in none. */
#include "fuse/fuse_priv.h"
#include "kernels/loops/loops.h"

#include <string.h>

typedef struct printing {
  const ir_graph *graph;
  const fuse_setting *setting;
  base_arena *scratch;
  base_text *text;
} printing;

static bool is_fused(const ir_node_def *node) { return node->op->flags & IR_OP_LOOP; }

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
  const int64_t *words = base_attr_ints(node->attrs, KERN_FUSED_PROGRAM, &count);
  if (base_program_read(words, count, &p)) return;
  base_text_print(text, "# loop %u: ", number);
  print_origins(node, text);
  print_values(graph, "operand", node->in, node->in_count, text);
  print_values(graph, "result", node->out, node->out_count, text);
  loop_print(&p, text);
}

/* What a product computes of its result, or of its operand, as remarks: a chain is its product's, and not edited here.
 */
static void print_chain(const ir_node_def *node, base_text *text) {
  fuse_loop loop;
  base_program p;
  if (!fuse_program_of(node->op, node->attrs, node->in_count, &loop) || !loop.chain ||
      base_program_read(loop.words, loop.word_count, &p))
    return;
  base_text lines = {.allocator = text->allocator};
  loop_print(&p, &lines);
  base_text_print(text, "# chain %s ", loop.front ? "in front of" : "behind");
  print_origins(node, text);
  for (size_t at = 0, end; at < lines.length; at = end + 1) {
    for (end = at; end < lines.length && lines.at[end] != '\n';) end++;
    base_text_print(text, "#   %.*s\n", (int)(end - at), lines.at + at);
  }
  text->failed |= lines.failed;
  base_text_free(&lines);
}

/* Why a node that is no candidate for a loop moves data. NULL: it does not. */
static const char *why_it_moves(const ir_graph *graph, const ir_node_def *node) {
  const ir_node made_by = node->in_count && node->in[0].id ? ir_value_of(graph, node->in[0])->node : (ir_node){0};
  const ir_node_def *from = made_by.id ? ir_node_of(graph, made_by) : NULL;
  if (node->op->flags & IR_OP_JOIN) return "a concatenation: operands that cannot be made in place are copied";
  if (node->op->flags & IR_OP_LOOKUP) return "what it reads depends on data";
  if (node->op->flags & IR_OP_VIEW_DENSE && from && from->op->flags & IR_OP_VIEW)
    return "a transposing copy that neither a view nor a loop can replace";
  return NULL;
}

/* Why a product that reads it does not make it; NULL: there is none. */
static const char *why_not_in_front(const printing *p, const ir_node_def *node) {
  const ir_block_def *block = ir_block_of(p->graph, node->parent);
  for (uint32_t i = 0; i < block->nodes.count; i++) {
    const ir_node_def *user = ir_node_of(p->graph, block->nodes.at[i]);
    if (user->op && user->in_count && user->in[0].id == node->out[0].id && user->op->flags & IR_OP_CHAIN)
      return fuse_why_no_front(p->graph, p->setting, p->scratch, user);
  }
  return NULL;
}

/* What fuse_groups said of the node; NULL: nothing. */
static const char *told(const fuse_log *log, uint32_t id) { return id < log->count ? log->why[id] : NULL; }

static void print_alone(const printing *p, uint32_t id) {
  const ir_node_def *node = ir_node_of(p->graph, (ir_node){id});
  const bool could = node->op->lower || node->op->flags & IR_OP_ELEMENTWISE;
  const char *why = could ? told(p->setting->log, id) : why_it_moves(p->graph, node);
  const char *in_front = could && why && strcmp(why, FUSE_NOTHING_BESIDE) == 0 ? why_not_in_front(p, node) : NULL;
  if (in_front) why = in_front;
  if (is_fused(node) || (!could && !why)) return;
  base_text_print(p->text, "# unfused: %s, %s: ", node->op->name, why ? why : "");
  print_origins(node, p->text);
}

static void print_loops(const printing *p) {
  uint32_t number = 0;
  for (uint32_t b = 0; b < p->graph->blocks.count; b++) {
    const ir_block_def *block = ir_block_of(p->graph, (ir_block){b});
    for (uint32_t i = 0; i < block->nodes.count; i++) {
      const ir_node_def *node = ir_node_of(p->graph, block->nodes.at[i]);
      if (is_fused(node)) print_fused(p->graph, node, number++, p->text);
      else if (p->setting->log) print_alone(p, block->nodes.at[i].id);
      if (node->op && node->op->flags & IR_OP_CHAIN) print_chain(node, p->text);
    }
  }
}

td_status fuse_print(const ir_graph *graph, const fuse_setting *setting, base_text *text, td_error *err) {
  const printing p = {graph, setting, base_arena_new_brief(base_arena_allocator(graph->arena)), text};
  if (!p.scratch) return base_no_memory(err, "fused loops");
  print_loops(&p);
  base_arena_free(p.scratch);
  return TD_OK;
}
