/* generate.c -- which nodes of a graph are fused loops that get machine code. */
#include "codegen/codegen.h"
#include "compile/compile_priv.h"

#include <string.h>

/* Operands of the program in a node: all of a loop's; of a chain, the node's result and its last operands. */
static td_status add_node(lowering *l, lower_code *code, uint32_t id, const ir_node_def *node) {
  int32_t ranks[BASE_PROGRAM_OPERANDS];
  const base_dim *dims[BASE_PROGRAM_OPERANDS];
  lower_fused_loop loop = {
      .ranks = ranks, .dims = dims, .origins = node->origins.names, .origin_count = node->origins.count};
  if (!lower_program_of(node->op, node->attrs, node->in_count, &loop)) return TD_OK;
  for (uint32_t k = 0; k < loop.in_count; k++) {
    const uint32_t at = loop.front && k == 0 ? 0 : node->in_count - loop.in_count + k;
    const ir_value v = loop.chain && !loop.front && k == 0 ? node->out[0] : node->in[at];
    ranks[k] = ir_type_of(l->graph, v)->rank;
    dims[k] = ir_type_of(l->graph, v)->dims;
  }
  return lower_add_loop(code, &loop, &l->generated[id]);
}

td_status lower_generate(lowering *l) {
  lower_code code = {.plan = l->plan, .setting = l->setting, .scratch = l->scratch, .err = l->err};
  const size_t count = (size_t)l->graph->nodes.count + 1;
  bool loaded;
  l->generated = base_new(l->scratch, uint32_t, count);
  if (!l->generated) return base_no_memory(l->err, "fused loops");
  if (!lower_makes_code(l->setting)) return TD_OK;
  for (uint32_t i = 1; i < l->graph->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(l->graph, (ir_node){i});
    if (node->op) TRY(add_node(l, &code, i, node));
  }
  TRY(lower_load_code(&code, &loaded));
  l->kernels = code.kernels.at;
  l->kernel_count = loaded ? code.kernels.count : 0;
  if (!loaded) memset(l->generated, 0, count * sizeof *l->generated);
  return TD_OK;
}
