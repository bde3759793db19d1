/* restore.c -- a saved plan, made ready to run. That its functions suit their operands is found out as the compiler
 * finds it: an operator is asked again which kernel it has for what the plan says of its operands. */
#include "compile/compile_priv.h"
#include "plan/file.h"

#include <string.h>

static td_status unfit(const plan_exe *plan, uint32_t number, const char *what, td_error *err) {
  const plan_step *s = &plan->steps.at[number];
  return base_fail(err, TD_BAD_FILE, plan_name(plan, s->name), -1, "the plan is damaged: step %u (%s): %s", number,
                   plan->here.links.at[s->function].name, what);
}

static bool present(const plan_exe *plan, const plan_step *s, uint32_t i) {
  return i < s->in_count && plan->operands.at[s->in + i] != PLAN_NONE;
}

static bool suit_count(const plan_exe *plan, const plan_step *s, const ir_op *op) {
  if (s->in_count > op->max_in && op->max_in != IR_VARIADIC) return false;
  for (uint32_t i = 0; i < op->min_in; i++)
    if (!present(plan, s, i)) return false;
  if (s->out_count > op->out_count && op->out_count != IR_VARIADIC) return false;
  return s->out_count || op->out_count == 0 || op->out_count == IR_VARIADIC;
}

static bool suit_attrs(const base_attrs *attrs, const ir_op *op) {
  if (!attrs || attrs->count != op->attr_count) return false;
  for (uint32_t i = 0; i < attrs->count; i++) {
    const ir_attr *spec = &op->attrs[i];
    const uint32_t kind = attrs->at[i].kind;
    if (kind != (uint32_t)spec->kind && !(kind == BASE_ATTR_NONE && spec->optional)) return false;
    if (kind == BASE_ATTR_DTYPE && (uint64_t)attrs->at[i].u.i >= TD_DTYPE_COUNT) return false;
  }
  return true;
}

/* What the plan says of a slot. */
static void describe(const plan_exe *plan, uint32_t slot, ir_info *info, base_tensor *constant) {
  const plan_slot *s = &plan->slots.at[slot];
  *info = (ir_info){.type = s->dtype == TD_INVALID ? (ir_type){.kind = IR_LIST} : ir_unranked(s->dtype)};
  if (s->dtype == TD_INVALID || s->rank < 0) return;
  info->type = ir_tensor(s->dtype, s->rank, s->dims);
  if (s->place != PLAN_CONST) return;
  *constant = base_tensor_of((void *)(uintptr_t)plan_constant(plan, s), s->dtype, s->rank, s->dims);
  memcpy(constant->strides, s->strides, sizeof constant->strides);
  info->constant = constant;
}

typedef struct described {
  ir_info *infos;
  const ir_info **in;
  base_tensor *constants;
} described;

static td_status check_kernel(const plan_exe *plan, uint32_t number, const ir_op *op, base_arena *scratch,
                              td_error *err) {
  const plan_step *s = &plan->steps.at[number];
  const size_t count = (size_t)s->in_count + s->out_count + 1;
  described d = {base_new(scratch, ir_info, count), base_new(scratch, const ir_info *, count),
                 base_new(scratch, base_tensor, count)};
  if (!d.infos || !d.in || !d.constants) return base_no_memory(err, "a plan");
  for (uint32_t i = 0; i < s->in_count + s->out_count; i++) {
    const uint32_t slot = plan_operand(plan, s, i);
    if (slot != PLAN_NONE) describe(plan, slot, &d.infos[i], &d.constants[i]);
    d.in[i] = slot == PLAN_NONE ? NULL : &d.infos[i];
  }
  const ir_kernel_query query = {plan_attrs(plan, s->attrs), d.in,         s->in_count,
                                 d.infos + s->in_count,      s->out_count, plan->isa};
  const kern_row *row = op->kernel ? op->kernel(&query) : NULL;
  if (row && strcmp(row->name, plan_name(plan, plan->functions.at[s->function].kernel)) == 0) return TD_OK;
  return unfit(plan, number, "its kernel is not for these operands", err);
}

/* The step that the compiler adds by itself: of one value, by a kernel for its type. */
static td_status check_copy(const plan_exe *plan, uint32_t number, td_error *err) {
  const plan_step *s = &plan->steps.at[number];
  const plan_function *f = &plan->functions.at[s->function];
  bool fits = s->in_count == 1 && s->out_count == 1 && present(plan, s, 0) && plan->operands.at[s->out] != PLAN_NONE &&
              (f->role == PLAN_COPY_TAIL) == (s->defines != 0);
  if (fits && f->kernel) {
    const kern_row *row = kern_select(KERN_COPY, plan->slots.at[plan->operands.at[s->out]].dtype, plan->isa);
    fits = row && strcmp(row->name, plan_name(plan, f->kernel)) == 0;
  }
  return fits ? TD_OK : unfit(plan, number, "it is no copy of one value", err);
}

static td_status check_step(const plan_exe *plan, uint32_t number, base_arena *scratch, td_error *err) {
  const plan_step *s = &plan->steps.at[number];
  const plan_function *f = &plan->functions.at[s->function];
  const ir_op *op = plan->here.links.at[s->function].op;
  if ((s->kind == PLAN_SHOW) != (f->role == PLAN_SHOWS))
    return unfit(plan, number, "it is called as what it is not", err);
  if (!op) return check_copy(plan, number, err);
  if (!suit_count(plan, s, op)) return unfit(plan, number, "it has too many or too few operands", err);
  if (!suit_attrs(plan_attrs(plan, s->attrs), op)) return unfit(plan, number, "its attributes are others'", err);
  if (s->kind == PLAN_SHOW && base_dtype(plan->slots.at[plan->operands.at[s->in]].dtype)->bits < 8)
    return unfit(plan, number, "parts of bytes cannot be shown", err);
  return f->kernel ? check_kernel(plan, number, op, scratch, err) : TD_OK;
}

static td_status check_steps(const plan_exe *plan, base_arena *scratch, td_error *err) {
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const plan_step *s = &plan->steps.at[i];
    if (s->kind == PLAN_CALL || s->kind == PLAN_SHOW) TRY(check_step(plan, i, scratch, err));
  }
  return TD_OK;
}

static td_status restore(plan_exe *plan, const ir_opset *ops, const compile_setting *setting, base_arena *scratch,
                         td_error *err) {
  struct codegen_kernel *kernels = NULL;
  uint32_t count;
  TRY(compile_open_code(plan, setting, scratch, ops, &kernels, &count, err));
  const compile_names names = {ops, setting->isa | BASE_ISA_VECTOR, kernels, count};
  const plan_symbols symbols = compile_symbols(&names);
  TRY(plan_complete(plan, &symbols, err));
  TRY(check_steps(plan, scratch, err));
  if (!plan->here.code) TRY(compile_recode(plan, ops, setting, scratch, err));
  return plan->aligned_inputs ? lower_find_batches(plan, scratch, err) : TD_OK;
}

static td_status restore_one(plan_exe *plan, const ir_opset *ops, const compile_setting *setting, td_error *err) {
  base_arena *scratch = base_arena_new(base_arena_allocator(plan->arena));
  td_status status = scratch ? restore(plan, ops, setting, scratch, err) : base_no_memory(err, "a plan");
  base_arena_free(scratch);
  if (status == TD_OK) compile_finish(plan, setting);
  if (status == TD_OK) status = compile_start_tier(plan, err);
  return status;
}

td_status compile_restore(plan_exe *plan, const ir_opset *ops, const compile_setting *setting, td_error *err) {
  TRY(restore_one(plan, ops, setting, err));
  for (uint32_t i = 0; i < plan->here.variants.count; i++) {
    TRY(restore_one(plan->here.variants.at[i], ops, setting, err));
    TRY(plan_check_variant(plan, plan->here.variants.at[i], err));
  }
  return TD_OK;
}
