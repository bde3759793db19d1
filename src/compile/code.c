/* code.c -- machine code for fused loops, whether they stand in a graph or in the steps of a saved plan. Loops of one
 * program and one form share a function. Where there is no compiler, or it fails, they are interpreted, and the caller
 * is told once. */
#include "codegen/codegen.h"
#include "compile/compile_priv.h"
#include "kernels/loops/loops.h"
#include "loop/loop.h"
#include "sys/sys.h"

bool compile_makes_code(const compile_setting *s) { return s->backend->generates && s->options.cc && s->options.cache; }

/* Of a row that ends with `axis`. A short one takes in what is outside of it, as kernels/loops/fused.c does, at least.
 */
static int32_t first_axis(const base_dim *sizes, int32_t axis) {
  int64_t length = 1, outermost = 0;
  while (outermost < axis && sizes[outermost] == 1) outermost++;
  for (; axis >= 0; axis--) {
    if (!base_dim_known(sizes[axis]) || sizes[axis] >= KERN_FUSED_SHORT) break;
    if ((length *= sizes[axis]) >= KERN_FUSED_SHORT) break;
    if (axis - 1 <= outermost || sizes[axis - 1] >= KERN_FUSED_FEW) break;
  }
  return axis;
}

/* Operands that stay as they are along a row, as their types tell. */
static uint64_t still_operands(base_dims *table, const compile_loop *loop, const base_program *p) {
  int32_t axis = p->rank - 1;
  const int32_t row_axes = loop->program.chain && !p->row_axes ? 1 : p->row_axes;
  base_dim sizes[BASE_MAX_RANK];
  uint64_t still = 0;
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  base_program_picks(p, picks);
  for (uint32_t k = 0; k < p->in_count; k++)
    if (loop->ranks[k] < 0) return 0;
  if (!loop_space(p, table, loop->ranks, loop->dims, sizes)) return 0;
  /* Without an axis of its own a row is the innermost dimension that is not 1. */
  while (!row_axes && axis > 0 && sizes[axis] == 1) axis--;
  const int32_t first = row_axes ? p->rank - p->behind - row_axes : first_axis(sizes, axis);
  for (uint32_t k = 0; k < p->in_count; k++) {
    bool moves = false;
    for (int32_t a = first < 0 ? 0 : first; a <= (row_axes ? p->rank - 1 - p->behind : axis); a++) {
      const int32_t at = base_program_axis(p, &picks[k], loop->ranks[k], a);
      moves |= picks[k].picks;
      moves |= at >= 0 && loop->dims[k][at] != 1;
    }
    const bool sums = loop->program.chain && k == 0; /* rows of one are run as one row of many */
    if (!moves && !picks[k].tells && !sums) still |= (uint64_t)1 << k;
  }
  return still;
}

/* Which origin each op came of. */
static const int64_t *sources_of(const compile_loop *loop, const base_program *p) {
  uint32_t count = 0;
  const int64_t *from = !loop->program.chain && loop->program.attrs->count > KERN_FUSED_FROM
                            ? base_attr_ints(loop->program.attrs, KERN_FUSED_FROM, &count)
                            : NULL;
  return count == p->count ? from : NULL;
}

/* Adds the loop's names to those of a kernel. */
static td_status add_origins(compile_code *c, const compile_loop *loop, codegen_kernel *k) {
  const uint32_t count = k->origin_count + loop->origin_count;
  const char **names = base_new(c->scratch, const char *, (size_t)count + 1);
  if (!names) return base_no_memory(c->err, "origins");
  for (uint32_t i = 0; i < count; i++)
    names[i] = i < k->origin_count ? k->origins[i] : loop->origins[i - k->origin_count];
  k->origins = names;
  k->origin_count = count;
  return TD_OK;
}

td_status compile_add_loop(compile_code *c, const compile_loop *loop, uint32_t *number) {
  base_program *p = base_new(c->scratch, base_program, 1);
  uint32_t i = 0;
  *number = 0;
  if (!p) return base_no_memory(c->err, "fused loops");
  if (base_program_read(loop->program.words, loop->program.word_count, p) || p->in_count != loop->program.in_count)
    return TD_OK;
  const uint64_t scalars = still_operands(&c->plan->dims, loop, p);
  while (i < c->kernels.count &&
         (c->kernels.at[i].scalars != scalars || c->kernels.at[i].chain != loop->program.chain ||
          !base_program_equal(c->kernels.at[i].program, p)))
    i++;
  if (i == c->kernels.count) {
    codegen_kernel *k = base_vec_push(c->scratch, &c->kernels);
    if (!k) return base_no_memory(c->err, "fused loops");
    *k = (codegen_kernel){.program = p, .scalars = scalars, .from = sources_of(loop, p), .chain = loop->program.chain};
  }
  *number = i + 1;
  return add_origins(c, loop, &c->kernels.at[i]);
}

static void release(void *code) { codegen_free(code); }

static bool locate(const void *code, const char *name, plan_code *place) {
  const codegen_place *found = codegen_find_place(code, name);
  if (found) *place = (plan_code){found->at, found->bytes, found->source, found->line};
  return found && found->at;
}

static void take_code(plan_exe *plan, codegen_code *code) {
  plan->here.code = code;
  plan->here.release_code = release;
  plan->here.locate_code = locate;
}

/* The plan keeps the objects that its code came of. */
static td_status keep_objects(plan_exe *plan, const codegen_code *code, td_error *err) {
  codegen_object object;
  plan->contract = codegen_contract();
  plan->needs |= codegen_needs(plan->isa);
  for (uint32_t i = 0; code && codegen_object_at(code, i, &object); i++) {
    plan_object *to = base_vec_push(plan->arena, &plan->objects);
    if (!to) return base_no_memory(err, "code");
    *to = (plan_object){object.bytes, object.size};
  }
  return TD_OK;
}

td_status compile_load_code(compile_code *c, bool *loaded) {
  const compile_setting *s = c->setting;
  codegen_code *code = NULL;
  td_error err = {0};
  *loaded = false;
  if (c->kernels.count == 0) return TD_OK;
  if (!codegen_name(c->kernels.at, c->kernels.count, c->plan->arena)) return base_no_memory(c->err, "fused loops");
  TRY(compile_make_tier(c, loaded));
  if (*loaded) return TD_OK;
  const codegen_setting setting = {.cc = s->options.cc,
                                   .cache = s->options.cache,
                                   .isa = s->isa,
                                   .jobs = sys_threads_read(),
                                   .limit_ms = s->options.cc_limit_ms,
                                   .keep = s->options.for_file,
                                   .coded = s->coded,
                                   .coded_user = s->seen_user,
                                   .edited = s->options.edited};
  const td_status status = codegen_load(c->kernels.at, c->kernels.count, &setting, c->plan->arena, &code, &err);
  take_code(c->plan, code);
  *loaded = code != NULL;
  if (s->options.for_file) TRY(keep_objects(c->plan, code, c->err));
  if (status == TD_OK) return TD_OK;
  if (s->options.strict || base_arena_failed(c->plan->arena)) {
    if (c->err) *c->err = err;
    return status;
  }
  if (s->options.warn) s->options.warn(s->options.warn_user, err.text);
  return TD_OK;
}

/* A kernel for each function of the plan that has code. */
static td_status name_functions(const plan_exe *plan, const ir_opset *ops, base_arena *scratch,
                                codegen_kernel **kernels, uint32_t *count, td_error *err) {
  *kernels = base_new(scratch, codegen_kernel, (size_t)plan->functions.count + 1);
  if (!*kernels) return base_no_memory(err, "code");
  for (uint32_t i = 0; i < plan->functions.count; i++) {
    const plan_function *f = &plan->functions.at[i];
    if (f->role != PLAN_GENERATED) continue;
    if (f->code >= plan->names.count || f->op >= plan->names.count)
      return base_fail(err, TD_BAD_FILE, NULL, -1, "the plan is damaged: function %u", i);
    const ir_op *op = ir_opset_find(ops, plan_name(plan, f->op));
    const bool chain = op && op->flags & IR_OP_CHAIN;
    (*kernels)[(*count)++] = (codegen_kernel){.name = plan_name(plan, f->code), .chain = chain};
  }
  return TD_OK;
}

td_status compile_open_code(plan_exe *plan, const compile_setting *s, base_arena *scratch, const ir_opset *ops,
                            codegen_kernel **kernels, uint32_t *count, td_error *err) {
  *count = 0;
  if (!plan->objects.count) return TD_OK;
  TRY(name_functions(plan, ops, scratch, kernels, count, err));
  codegen_object *objects = base_new(scratch, codegen_object, plan->objects.count);
  codegen_code *code = NULL;
  td_error why = {0};
  if (!objects) return base_no_memory(err, "code");
  for (uint32_t i = 0; i < plan->objects.count; i++)
    objects[i] = (codegen_object){plan->objects.at[i].bytes, plan->objects.at[i].size};
  const td_status status =
      codegen_open(objects, plan->objects.count, plan->isa, *kernels, *count, plan->arena, &code, &why);
  if (status == TD_OK) {
    take_code(plan, code);
    plan->needs |= codegen_needs(plan->isa);
    return TD_OK;
  }
  if (status == TD_NO_RESOURCE && !s->options.strict && !base_arena_failed(plan->arena)) {
    if (s->options.warn) s->options.warn(s->options.warn_user, why.text);
    *count = plan->objects.count = 0;
    return TD_OK;
  }
  if (err) *err = why;
  return status;
}

uint64_t compile_contract(void) { return codegen_contract(); }
