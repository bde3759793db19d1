/* recode.c -- machine code for the fused loops of a saved plan: steps that a kernel would interpret get functions.
 * Loops of one program and one form share a function. Where there is no compiler, or it fails, they are interpreted,
 * and the caller is told once. */
#include "codegen/codegen.h"
#include "compile/compile_priv.h"
#include "loop/loop.h"
#include "sys/sys.h"

#include <string.h>

typedef struct generating {
  plan_exe *plan;
  const compile_setting *setting;
  base_arena *scratch;
  uint32_t *number; /* per step: of its kernel + 1; 0: none */
  BASE_VEC(codegen_kernel) kernels;
  td_error *err;
} generating;

/* Operands that stay as they are along a row, as their types tell. */
static uint64_t still_operands(plan_exe *plan, const plan_step *s, const base_program *p) {
  int32_t ranks[BASE_PROGRAM_OPERANDS], axis = p->rank - 1;
  const base_dim *dims[BASE_PROGRAM_OPERANDS];
  base_dim sizes[BASE_MAX_RANK];
  uint64_t still = 0;
  for (uint32_t k = 0; k < p->in_count; k++) {
    const plan_slot *slot = &plan->slots.at[plan->operands.at[s->in + k]];
    if (slot->rank < 0) return 0;
    ranks[k] = slot->rank;
    dims[k] = slot->dims;
  }
  if (!loop_space(p, &plan->dims, ranks, dims, sizes)) return 0;
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

/* Adds the step's names to those of a kernel. */
static td_status add_origins(generating *g, const plan_step *s, codegen_kernel *k) {
  const uint32_t count = k->origin_count + s->origin_count;
  const char **names = base_new(g->scratch, const char *, (size_t)count + 1);
  if (!names) return base_no_memory(g->err, "origins");
  for (uint32_t i = 0; i < count; i++)
    names[i] = i < k->origin_count ? k->origins[i] : plan_origin(g->plan, s, i - k->origin_count);
  k->origins = names;
  k->origin_count = count;
  return TD_OK;
}

static td_status add_step(generating *g, uint32_t index) {
  const plan_step *s = &g->plan->steps.at[index];
  base_program *p = base_new(g->scratch, base_program, 1);
  uint32_t count, i = 0;
  if (!p) return base_no_memory(g->err, "fused loops");
  const int64_t *words = base_attr_ints(plan_attrs(g->plan, s->attrs), 0, &count);
  if (base_program_read(words, count, p) || p->in_count != s->in_count) return TD_OK;
  for (uint32_t k = 0; k < s->in_count; k++)
    if (g->plan->operands.at[s->in + k] == PLAN_NONE) return TD_OK;
  const uint64_t scalars = still_operands(g->plan, s, p);
  while (i < g->kernels.count &&
         (g->kernels.at[i].scalars != scalars || !base_program_equal(g->kernels.at[i].program, p)))
    i++;
  if (i == g->kernels.count) {
    codegen_kernel *k = base_vec_push(g->scratch, &g->kernels);
    if (!k) return base_no_memory(g->err, "fused loops");
    *k = (codegen_kernel){.program = p, .scalars = scalars};
  }
  g->number[index] = i + 1;
  return add_origins(g, s, &g->kernels.at[i]);
}

static bool is_interpreted(const plan_exe *plan, const plan_step *s) {
  if (s->kind != PLAN_CALL || plan->functions.at[s->function].role != PLAN_KERNEL) return false;
  const char *op = plan_name(plan, plan->functions.at[s->function].op);
  return strcmp(op, "td::fused") == 0 || strcmp(op, "td::fused_rows") == 0;
}

/* The steps call their functions from now on. */
static td_status use_code(generating *g, const plan_symbols *symbols) {
  for (uint32_t i = 0; i < g->plan->steps.count; i++) {
    if (!g->number[i]) continue;
    plan_step *s = &g->plan->steps.at[i];
    const char *name = g->kernels.at[g->number[i] - 1].name;
    if (base_str_listed(g->setting->disabled_kernels, name)) continue;
    plan_function f = g->plan->functions.at[s->function];
    f.role = PLAN_GENERATED;
    f.code = plan_add_name(g->plan, name);
    if (f.code == PLAN_NONE) return base_no_memory(g->err, "a name");
    TRY(plan_add_function(g->plan, &f, symbols, &s->function, g->err));
  }
  return TD_OK;
}

static void release(void *code) { codegen_free(code); }

static td_status load_code(generating *g, const ir_opset *ops) {
  const compile_setting *s = g->setting;
  codegen_code *code = NULL;
  td_error err = {0};
  sys_machine machine;
  sys_machine_read(&machine);
  const codegen_setting setting = {.cc = s->cc, .cache = s->cache, .isa = s->isa, .jobs = machine.threads};
  const td_status status = codegen_load(g->kernels.at, g->kernels.count, &setting, g->plan->arena, &code, &err);
  if (status == TD_OK) {
    g->plan->code = code;
    g->plan->release_code = release;
    const compile_names names = {ops, s->isa | BASE_ISA_VECTOR, g->kernels.at, g->kernels.count};
    const plan_symbols symbols = compile_symbols(&names);
    return use_code(g, &symbols);
  }
  if (s->strict || base_arena_failed(g->plan->arena)) {
    if (g->err) *g->err = err;
    return status;
  }
  if (s->warn) s->warn(s->warn_user, err.text);
  return TD_OK;
}

td_status lower_recode(plan_exe *plan, const ir_opset *ops, const compile_setting *setting, base_arena *scratch,
                       td_error *err) {
  if (!setting->backend->generates || !setting->cc || !setting->cache) return TD_OK;
  generating g = {.plan = plan,
                  .setting = setting,
                  .scratch = scratch,
                  .number = base_new(scratch, uint32_t, (size_t)plan->steps.count + 1),
                  .err = err};
  if (!g.number) return base_no_memory(err, "fused loops");
  for (uint32_t i = 0; i < plan->steps.count; i++)
    if (is_interpreted(plan, &plan->steps.at[i])) TRY(add_step(&g, i));
  return g.kernels.count ? load_code(&g, ops) : TD_OK;
}
