/* shapes.c -- operands of steps, as PyTorch's traces write them and as people read them. */
#include <treadle/experimental.h>

#include <stdio.h>

#include "api/api_priv.h"

/* Names of element types there; others have our own. */
static const struct {
  td_dtype dtype;
  const char *name;
} types[] = {{TD_F32, "float"},        {TD_F64, "double"}, {TD_F16, "c10::Half"}, {TD_BF16, "c10::BFloat16"},
             {TD_I64, "long int"},     {TD_I32, "int"},    {TD_I16, "short int"}, {TD_I8, "signed char"},
             {TD_U8, "unsigned char"}, {TD_BOOL, "bool"}};

static const char *type_name(td_dtype dtype) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].dtype == dtype) return types[i].name;
  return td_dtype_name(dtype);
}

/* A step, and the plan that it is of. */
typedef struct placed {
  const plan_exe *plan;
  const plan_step *step;
} placed;

static placed find_step(const td_session *s, uint32_t index) {
  uint32_t number;
  const plan_exe *plan = api_plan_of(s->model, index, &number);
  return (placed){plan, &plan->steps.at[number]};
}

/* Operand `i` of the step, results behind them; NULL: it is absent, no tensor, or its plan has not run last. */
static const base_tensor *operand(const td_session *s, placed at, uint32_t i) {
  const uint32_t slot = plan_operand(at.plan, at.step, i);
  const base_value *value = slot == PLAN_NONE || at.plan != run_plan_in_use(s->run) ? NULL : run_slot(s->run, slot);
  return value && value->kind == BASE_TENSOR ? &value->tensor : NULL;
}

static uint32_t operands(placed at) {
  return at.step->kind == PLAN_CALL || at.step->kind == PLAN_SHOW ? at.step->in_count : 0;
}

void api_print_dims(const td_session *session, uint32_t index, base_text *text) {
  const placed step = find_step(session, index);
  base_text_print(text, "[");
  for (uint32_t i = 0; i < operands(step); i++) {
    const base_tensor *t = operand(session, step, i);
    base_text_print(text, i ? ", [" : "[");
    for (int32_t k = 0; t && k < t->rank; k++) base_text_print(text, k ? ", %lld" : "%lld", (long long)t->dims[k]);
    base_text_print(text, "]");
  }
  base_text_print(text, "]");
}

void api_print_types(const td_session *session, uint32_t index, base_text *text) {
  const placed step = find_step(session, index);
  base_text_print(text, "[");
  for (uint32_t i = 0; i < operands(step); i++) {
    const base_tensor *t = operand(session, step, i);
    base_text_print(text, "%s\"%s\"", i ? ", " : "", t ? type_name(t->dtype) : "");
  }
  base_text_print(text, "]");
}

td_status td_session_step_shapes(const td_session *session, size_t index, char *text, size_t size, td_error *err) {
  if (!session || !text || size == 0 || index >= session->model->stats.steps)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_step_shapes needs a session, a step, and room");
  const placed step = find_step(session, (uint32_t)index);
  const uint32_t ins = operands(step), all = ins ? ins + step.step->out_count : 0;
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < all && used < size; i++) {
    char one[160] = "-";
    const base_tensor *t = operand(session, step, i);
    if (t) base_tensor_describe(t, one, sizeof one);
    used += (size_t)snprintf(text + used, size - used, "%s%s", i == ins ? " -> " : i ? " " : "", one);
  }
  return TD_OK;
}
