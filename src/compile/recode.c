/* recode.c -- machine code for the fused loops of a saved plan: steps that a kernel would interpret get functions. */
#include "codegen/codegen.h"
#include "compile/compile_priv.h"

static td_status add_step(compile_code *code, const plan_step *s, uint32_t *number) {
  plan_exe *plan = code->plan;
  int32_t ranks[BASE_PROGRAM_OPERANDS];
  const base_dim *dims[BASE_PROGRAM_OPERANDS];
  const char **origins = base_new(code->scratch, const char *, (size_t)s->origin_count + 1);
  compile_loop loop = {.ranks = ranks, .dims = dims, .origins = origins, .origin_count = s->origin_count};
  const fuse_loop *p = &loop.program;
  if (!origins) return base_no_memory(code->err, "origins");
  const ir_op *op = plan->here.links.at[s->function].op;
  if (!op || !fuse_program_of(op, plan_attrs(plan, s->attrs), s->in_count, &loop.program)) return TD_OK;
  for (uint32_t k = 0; k < p->in_count; k++) {
    const uint32_t own = p->front ? s->in : s->out; /* the first, of a chain */
    const uint32_t at = plan->operands.at[p->chain && k == 0 ? own : s->in + s->in_count - p->in_count + k];
    if (at == PLAN_NONE) return TD_OK;
    ranks[k] = plan->slots.at[at].rank;
    dims[k] = plan->slots.at[at].dims;
  }
  for (uint32_t i = 0; i < s->origin_count; i++) origins[i] = plan_origin(plan, s, i);
  return compile_add_loop(code, &loop, number);
}

static bool is_interpreted(const plan_exe *plan, const plan_step *s) {
  const uint32_t role = s->kind == PLAN_CALL ? plan->functions.at[s->function].role : PLAN_ROLE_COUNT;
  return role == PLAN_KERNEL || role == PLAN_GENERATED;
}

/* The steps call their functions from now on; `number`: per step, as of compile_add_loop. */
static td_status use_code(compile_code *code, const ir_opset *ops, const uint32_t *number) {
  plan_exe *plan = code->plan;
  const compile_names names = {ops, code->setting->isa | BASE_ISA_VECTOR, code->kernels.at, code->kernels.count};
  const plan_symbols symbols = compile_symbols(&names);
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    if (!number[i]) continue;
    plan_step *s = &plan->steps.at[i];
    const char *name = code->kernels.at[number[i] - 1].name;
    if (base_str_listed(code->setting->options.disabled_kernels, name)) continue;
    plan_function f = plan->functions.at[s->function];
    f.role = PLAN_GENERATED;
    f.code = plan_add_name(plan, name);
    if (f.code == PLAN_NONE) return base_no_memory(code->err, "a name");
    TRY(plan_add_function(plan, &f, &symbols, &s->function, code->err));
  }
  return TD_OK;
}

td_status compile_recode(plan_exe *plan, const ir_opset *ops, const compile_setting *setting, base_arena *scratch,
                         td_error *err) {
  compile_code code = {.plan = plan, .setting = setting, .scratch = scratch, .err = err};
  bool loaded;
  if (!compile_makes_code(setting)) return TD_OK;
  uint32_t *number = base_new(scratch, uint32_t, (size_t)plan->steps.count + 1);
  if (!number) return base_no_memory(err, "fused loops");
  for (uint32_t i = 0; i < plan->steps.count; i++)
    if (is_interpreted(plan, &plan->steps.at[i])) TRY(add_step(&code, &plan->steps.at[i], &number[i]));
  TRY(compile_load_code(&code, &loaded));
  return loaded ? use_code(&code, ops, number) : TD_OK;
}
