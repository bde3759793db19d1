/* generate.c -- machine code for the fused loops of a graph. Loops of one program and one form share a function. Where
 * there is no compiler, or it fails, they are interpreted, and the caller is told once. */
#include "codegen/codegen.h"
#include "compile/compile_priv.h"
#include "loop/loop.h"
#include "sys/sys.h"

#include <string.h>

typedef struct generating {
  lowering *l;
  BASE_VEC(codegen_kernel) kernels;
} generating;

/* Operands that stay as they are along a row, as their types tell. */
static uint64_t still_operands(const lowering *l, const ir_node_def *node, const base_program *p) {
  int32_t ranks[BASE_PROGRAM_OPERANDS], axis = p->rank - 1;
  const base_dim *dims[BASE_PROGRAM_OPERANDS];
  base_dim sizes[BASE_MAX_RANK];
  uint64_t still = 0;
  for (uint32_t k = 0; k < p->in_count; k++) {
    ranks[k] = ir_type_of(l->graph, node->in[k])->rank;
    dims[k] = ir_type_of(l->graph, node->in[k])->dims;
  }
  base_dims *table = &l->plan->dims;
  if (!loop_space(p, table, ranks, dims, sizes)) return 0;
  /* Without an axis of its own a row is the innermost dimension that is not 1. */
  while (!p->row_axes && axis > 0 && sizes[axis] == 1) axis--;
  const int32_t first = p->row_axes ? p->rank - p->row_axes : axis;
  for (uint32_t k = 0; k < p->in_count; k++) {
    bool moves = false;
    for (int32_t a = first < 0 ? 0 : first; a <= (p->row_axes ? p->rank - 1 : axis); a++) {
      const int32_t at = a - p->rank + ranks[k];
      moves |= at >= 0 && dims[k][at] != 1;
    }
    if (!moves) still |= (uint64_t)1 << k;
  }
  return still;
}

/* Adds the node's names to those of a kernel. */
static td_status add_origins(lowering *l, const ir_node_def *node, codegen_kernel *k) {
  const uint32_t count = k->origin_count + node->origins.count;
  const char **names = base_new(l->scratch, const char *, count + 1);
  if (!names) return base_no_memory(l->err, "origins");
  for (uint32_t i = 0; i < count; i++)
    names[i] = i < k->origin_count ? k->origins[i] : node->origins.names[i - k->origin_count];
  k->origins = names;
  k->origin_count = count;
  return TD_OK;
}

static td_status add_node(generating *g, uint32_t id, const ir_node_def *node) {
  lowering *l = g->l;
  base_program *p = base_new(l->scratch, base_program, 1);
  uint32_t count, i = 0;
  if (!p) return base_no_memory(l->err, "fused loops");
  const int64_t *words = base_attr_ints(node->attrs, 0, &count);
  if (base_program_read(words, count, p)) return TD_OK;
  const uint64_t scalars = still_operands(l, node, p);
  while (i < g->kernels.count &&
         (g->kernels.at[i].scalars != scalars || !base_program_equal(g->kernels.at[i].program, p)))
    i++;
  if (i == g->kernels.count) {
    codegen_kernel *k = base_vec_push(l->scratch, &g->kernels);
    if (!k) return base_no_memory(l->err, "fused loops");
    *k = (codegen_kernel){.program = p, .scalars = scalars};
  }
  l->generated[id] = i + 1;
  return add_origins(l, node, &g->kernels.at[i]);
}

static void release(void *code) { codegen_free(code); }

td_status lower_generate(lowering *l) {
  generating g = {.l = l};
  const compile_setting *s = l->setting;
  codegen_code *code = NULL;
  td_error err = {0};
  l->generated = base_new(l->scratch, uint32_t, (size_t)l->graph->nodes.count + 1);
  if (!l->generated) return base_no_memory(l->err, "fused loops");
  if (!s->backend->generates || !s->cc || !s->cache) return TD_OK;
  for (uint32_t i = 1; i < l->graph->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(l->graph, (ir_node){i});
    if (node->op && (strcmp(node->op->name, "td::fused") == 0 || strcmp(node->op->name, "td::fused_rows") == 0))
      TRY(add_node(&g, i, node));
  }
  if (g.kernels.count == 0) return TD_OK;
  sys_machine machine;
  sys_machine_read(&machine);
  const codegen_setting setting = {.cc = s->cc,
                                   .cache = s->cache,
                                   .isa = s->isa,
                                   .jobs = machine.threads,
                                   .coded = s->coded,
                                   .coded_user = s->seen_user,
                                   .edited = s->edited};
  const td_status status = codegen_load(g.kernels.at, g.kernels.count, &setting, l->plan->arena, &code, &err);
  l->kernels = g.kernels.at;
  if (status == TD_OK) {
    l->kernel_count = g.kernels.count;
    l->plan->code = code;
    l->plan->release_code = release;
    return TD_OK;
  }
  memset(l->generated, 0, ((size_t)l->graph->nodes.count + 1) * sizeof *l->generated);
  if (s->strict || base_arena_failed(l->plan->arena)) {
    if (l->err) *l->err = err;
    return status;
  }
  if (s->warn) s->warn(s->warn_user, err.text);
  return TD_OK;
}
