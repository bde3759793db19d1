/* link.c -- names of functions to functions: once, when a plan is made or loaded. */
#include "plan/plan.h"

/* What a role needs to be known, and which of it a step then calls. */
typedef enum demand { NO, MAY, MUST } demand;
static const struct {
  demand op, kernel, code;
} demands[PLAN_ROLE_COUNT] = {
    [PLAN_REFERENCE] = {MUST, NO, NO},   [PLAN_SHOWS] = {MUST, NO, NO}, [PLAN_KERNEL] = {MAY, MUST, NO},
    [PLAN_GENERATED] = {MAY, MUST, MAY}, [PLAN_COPY] = {NO, MAY, NO},   [PLAN_COPY_TAIL] = {NO, NO, NO},
};

typedef struct found {
  plan_operator op;
  plan_kernel kernel;
  plan_generated code;
} found;

static td_status find_operator(const plan_exe *plan, const plan_function *f, const plan_symbols *symbols, found *to,
                               td_error *err) {
  const char *name = plan_name(plan, f->op);
  const demand wanted = demands[f->role].op;
  if ((wanted == NO) != (f->op == 0))
    return base_fail(err, TD_BAD_FILE, name, -1, "a function of the plan has an operator too many or too few: %s",
                     name);
  if (wanted == NO || symbols->find_operator(symbols->user, name, &to->op)) return TD_OK;
  if (wanted == MAY && !symbols->knows_operators) return TD_OK;
  return base_fail(err, TD_UNSUPPORTED, name, -1, "the plan needs the operator %s, which is not known here", name);
}

static td_status find_kernel(const plan_exe *plan, const plan_function *f, const plan_symbols *symbols, found *to,
                             td_error *err) {
  const char *name = plan_name(plan, f->kernel);
  const demand wanted = demands[f->role].kernel;
  if ((wanted == NO && f->kernel) || (wanted == MUST && !f->kernel))
    return base_fail(err, TD_BAD_FILE, name, -1, "a function of the plan has a kernel too many or too few: %s", name);
  if (!f->kernel || symbols->find_kernel(symbols->user, name, &to->kernel)) return TD_OK;
  return base_fail(err, TD_UNSUPPORTED, name, -1,
                   "the plan needs the kernel %s, which this version of the library does not have, or whose "
                   "instruction set this CPU does not have",
                   name);
}

/* The function that a role calls; NULL: the operator has none. */
static base_call_fn run_of(const plan_function *f, const plan_symbols *symbols, const found *have) {
  const base_call_fn by_role[PLAN_ROLE_COUNT] = {
      [PLAN_REFERENCE] = have->op.reference,
      [PLAN_SHOWS] = have->op.view,
      [PLAN_KERNEL] = have->kernel.run,
      [PLAN_GENERATED] = have->code.run ? have->code.run : have->kernel.run,
      [PLAN_COPY] = have->kernel.run ? have->kernel.run : symbols->copy,
      [PLAN_COPY_TAIL] = symbols->copy_tail,
  };
  return by_role[f->role];
}

td_status plan_link_function(plan_exe *plan, uint32_t index, const plan_symbols *symbols, td_error *err) {
  const plan_function *f = &plan->functions.at[index];
  found have = {0};
  if (f->role >= PLAN_ROLE_COUNT || f->op >= plan->names.count || f->kernel >= plan->names.count ||
      f->code >= plan->names.count || (f->code && demands[f->role].code == NO))
    return base_fail(err, TD_BAD_FILE, NULL, -1, "the plan is damaged: function %u", index);
  TRY(find_operator(plan, f, symbols, &have, err));
  TRY(find_kernel(plan, f, symbols, &have, err));
  if (f->code && symbols->find_code) symbols->find_code(symbols->user, plan_name(plan, f->code), &have.code);
  const bool copies = f->role == PLAN_COPY || f->role == PLAN_COPY_TAIL;
  plan_link *link = &plan->here.links.at[index];
  *link = (plan_link){.name = have.code.run ? plan_name(plan, f->code)
                              : f->kernel   ? plan_name(plan, f->kernel)
                              : copies      ? "copy"
                                            : plan_name(plan, f->op),
                      .op = have.op.op,
                      .run = run_of(f, symbols, &have),
                      .define = have.op.define,
                      .check = f->role == PLAN_COPY ? symbols->copy_check : have.op.check,
                      .parallel = have.kernel.parallel,
                      .in_place = have.op.in_place | have.kernel.in_place,
                      .appends = have.kernel.appends,
                      .takes = f->kernel                                      ? have.kernel.takes
                               : f->role == PLAN_SHOWS && have.op.shows_dense ? 0
                                                                              : PLAN_STRIDED,
                      .gives = f->kernel ? have.kernel.gives : PLAN_STRIDED,
                      .program = have.op.program,
                      .tells_sources = have.op.tells_sources,
                      .code = have.code.body,
                      .work = copies ? symbols->copy_work : have.op.work};
  plan->needs |= have.kernel.isa;
  if (link->run) return TD_OK;
  return base_fail(err, TD_BAD_FILE, link->name, -1, "the plan asks of %s what it cannot do", link->name);
}
