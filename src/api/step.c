/* step.c -- the steps of a run: who watches them, and what each has to do. */
#include "api/api_priv.h"
#include "ir/cost.h"

td_status td_session_observe(td_session *session, const td_observer *observer, td_error *err) {
  if (!session) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_observe needs a session");
  td_observer own = {0};
  TRY(api_read_options(&own, sizeof own, observer, err));
  run_observe(session->run, observer ? &own : NULL);
  return TD_OK;
}

/* What of a value the work is found from; zeroed for what is no tensor. */
static ir_info info_of(const base_value *value) {
  if (value->kind != BASE_TENSOR) return (ir_info){.type = {.kind = IR_LIST}};
  return (ir_info){.type = ir_tensor(value->tensor.dtype, value->tensor.rank, value->tensor.dims)};
}

static double bytes_of(const base_value *value) {
  return value && value->kind == BASE_TENSOR ? (double)base_tensor_bytes(&value->tensor) : 0;
}

static bool constant(const plan_exe *plan, uint32_t slot) {
  return plan->slots.at[plan->slots.at[slot].root].place == PLAN_CONST;
}

static void count_bytes(const td_session *s, const plan_step *step, const ir_op *op, td_step *to) {
  const plan_exe *plan = run_plan_in_use(s->run);
  const uint32_t *in = plan->operands.at + step->in, *out = plan->operands.at + step->out;
  for (uint32_t i = 0; i < step->out_count; i++)
    if (out[i] != PLAN_NONE) to->write_bytes += bytes_of(run_slot(s->run, out[i]));
  for (uint32_t i = 0; i < step->in_count; i++) {
    if (in[i] == PLAN_NONE) continue;
    /* Of a table that is looked up, only what comes out is read. */
    double bytes = op && i == 0 && op->flags & IR_OP_LOOKUP ? to->write_bytes : bytes_of(run_slot(s->run, in[i]));
    *(constant(plan, in[i]) ? &to->const_bytes : &to->read_bytes) += bytes;
  }
}

static td_status count_flops(const td_session *s, const plan_step *step, const ir_op *op, td_step *to, td_error *err) {
  const plan_exe *plan = run_plan_in_use(s->run);
  const uint32_t *slots[] = {plan->operands.at + step->in, plan->operands.at + step->out};
  const size_t count = (size_t)step->in_count + step->out_count;
  const size_t bytes = count * (sizeof(ir_info) + sizeof(ir_info *));
  ir_info *infos = base_alloc(&s->allocator, bytes);
  if (!infos) return base_no_memory(err, "a step");
  const ir_info **in = (const ir_info **)(void *)(infos + count);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t slot = i < step->in_count ? slots[0][i] : slots[1][i - step->in_count];
    infos[i] = slot == PLAN_NONE ? (ir_info){.type = ir_tensor(TD_F32, 0, NULL)} : info_of(run_slot(s->run, slot));
    in[i] = slot == PLAN_NONE ? NULL : &infos[i];
  }
  ir_work work;
  ir_cost(op, plan_attrs(plan, step->attrs), in, step->in_count, infos + step->in_count, step->out_count, &work);
  to->flops = work.flops;
  base_free(&s->allocator, infos, bytes);
  return TD_OK;
}

/* What a kernel's row says; others widen their elements first. */
static td_dtype multiplied_by(const char *kernel) {
  const kern_row *row = kern_find(kernel);
  const td_dtype x = row ? (td_dtype)kern_signature_of(row)->x : TD_INVALID;
  return x == TD_INVALID ? TD_F32 : x;
}

td_status td_session_get_step(const td_session *session, size_t index, td_step *step, td_error *err) {
  if (!session || !step)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_get_step needs a session and a struct");
  uint32_t number;
  const plan_exe *plan = api_plan_of(session->model, index, &number);
  if (!plan)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no step %zu; the model has %u", index,
                     session->model->stats.steps);
  const bool ran = plan == run_plan_in_use(session->run) && run_slot(session->run, 0) != NULL;
  const plan_step *s = &plan->steps.at[number];
  const plan_exe *told = api_told_plan_of(session->model, index, &number);
  td_step to = {.name = plan_name(told, told->steps.at[number].name),
                .op = "",
                .kernel = "",
                .origins = s->origin_count,
                .multiplied = TD_F32,
                .variant = plan->here.label};
  if (s->kind == PLAN_CALL || s->kind == PLAN_SHOW) {
    const plan_link *f = &plan->here.links.at[s->function];
    const ir_op *op = f->op;
    to.kernel = f->name;
    to.multiplied = multiplied_by(f->name);
    if (op) to.op = op->name;
    if (s->kind == PLAN_CALL && ran) count_bytes(session, s, op, &to);
    if (s->kind == PLAN_CALL && ran && op) TRY(count_flops(session, s, op, &to, err));
  }
  return api_write_stats(step, &to, sizeof to, err);
}

const char *td_session_step_origin(const td_session *session, size_t index, size_t origin) {
  uint32_t number = 0;
  const plan_exe *plan = session ? api_told_plan_of(session->model, index, &number) : NULL;
  if (!plan || origin >= plan->steps.at[number].origin_count) return NULL;
  return plan_origin(plan, &plan->steps.at[number], (uint32_t)origin);
}
