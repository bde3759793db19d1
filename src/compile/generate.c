/* generate.c -- which nodes of a graph are fused loops that get machine code. */
#include "codegen/codegen.h"
#include "compile/compile_priv.h"

#include <string.h>

/* Operands of the program in a node: all of a loop's; of a chain, the node's result and its last operands. */
static td_status add_node(compile_code *code, const ir_graph *graph, const ir_node_def *node, uint32_t *number) {
  int32_t ranks[BASE_PROGRAM_OPERANDS];
  const base_dim *dims[BASE_PROGRAM_OPERANDS];
  compile_loop loop = {
      .ranks = ranks, .dims = dims, .origins = node->origins.names, .origin_count = node->origins.count};
  const fuse_loop *p = &loop.program;
  if (!fuse_program_of(node->op, node->attrs, node->in_count, &loop.program)) return TD_OK;
  for (uint32_t k = 0; k < p->in_count; k++) {
    const uint32_t at = p->front && k == 0 ? 0 : node->in_count - p->in_count + k;
    const ir_value v = p->chain && !p->front && k == 0 ? node->out[0] : node->in[at];
    ranks[k] = ir_type_of(graph, v)->rank;
    dims[k] = ir_type_of(graph, v)->dims;
  }
  return compile_add_loop(code, &loop, number);
}

/* In the order of the plan's steps: a saved plan, which is read in that order, then asks for the same files of code. */
static td_status add_block(compile_code *code, const ir_graph *graph, ir_block block, uint32_t *number) {
  const ir_block_def *b = ir_block_of(graph, block);
  for (uint32_t i = 0; i < b->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(graph, b->nodes.at[i]);
    if (!node->op) continue;
    TRY(add_node(code, graph, node, &number[b->nodes.at[i].id]));
    for (uint32_t k = 0; k < node->block_count; k++) TRY(add_block(code, graph, node->blocks[k], number));
  }
  return TD_OK;
}

td_status compile_generate(const ir_graph *graph, compile_code *code, compile_generated *made) {
  const size_t count = (size_t)graph->nodes.count + 1;
  bool loaded;
  *made = (compile_generated){.number = base_new(code->scratch, uint32_t, count)};
  if (!made->number) return base_no_memory(code->err, "fused loops");
  if (!compile_makes_code(code->setting)) return TD_OK;
  TRY(add_block(code, graph, graph->top, made->number));
  TRY(compile_load_code(code, &loaded));
  if (!loaded) {
    memset(made->number, 0, count * sizeof *made->number);
    return TD_OK;
  }
  made->kernels = code->kernels.at;
  made->count = code->kernels.count;
  made->names = base_new(code->scratch, const char *, (size_t)made->count + 1);
  if (!made->names) return base_no_memory(code->err, "fused loops");
  for (uint32_t i = 0; i < made->count; i++) made->names[i] = made->kernels[i].name;
  return TD_OK;
}
