/* code.c -- machine code that was generated for a model: where it is, and telling it to Linux's perf. */
#include <treadle/experimental.h>

#include <string.h>

#include "api/api_priv.h"
#include "profile/perf.h"
#include "sys/code.h"

td_status td_model_code(const td_model *model, size_t step, td_code *code, td_error *err) {
  if (!model || !code) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_code needs a model and a struct");
  uint32_t number;
  const plan_exe *plan = api_plan_of(model, step, &number);
  if (!plan)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no step %zu; the model has %u", step,
                     model->stats.steps);
  plan_code place;
  const plan_step *s = &plan->steps.at[number];
  if (!plan_code_of(plan, s, &place)) return TD_ANSWER_NO;
  const td_code to = {.name = plan_name(plan, plan->functions.at[s->function].code),
                      .address = place.at,
                      .bytes = place.bytes,
                      .source = place.source,
                      .line = place.line};
  return api_write_stats(code, &to, sizeof to, err);
}

td_status td_model_output_step(const td_model *model, size_t index, size_t *step, td_error *err) {
  if (!model || !step || index >= model->plan->outputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_output_step needs a model, an output and a place");
  const plan_exe *plan = model->plan;
  const uint32_t slot = plan->outputs.at[index].slot;
  for (uint32_t i = plan->steps.count; i-- > 0;) {
    const plan_step *s = &plan->steps.at[i];
    for (uint32_t k = 0; k < s->out_count; k++)
      if (plan->operands.at[s->out + k] == slot) return *step = i, TD_OK;
  }
  return TD_ANSWER_NO;
}

/* "fused_add_mul_0 (/layer1/add +3)": a function and what it stands for, of all steps that call it. */
static const char *full_name(const plan_exe *plan, uint32_t function, const plan_step *first, base_arena *arena) {
  uint32_t nodes = 0;
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const plan_step *s = &plan->steps.at[i];
    if (s->kind == PLAN_CALL && s->function == function) nodes += s->origin_count;
  }
  const base_str node = base_node_name(plan_name(plan, first->name));
  char *name = base_arena_format(arena, "%s (%.*s +%u)", plan_name(plan, plan->functions.at[function].code),
                                 (int)base_min_i64((int64_t)node.length, 200), node.at, nodes ? nodes - 1 : 0);
  for (char *c = name; c && *c; c++)
    if ((unsigned char)*c < ' ') *c = '_';
  return name;
}

/* Every function of a plan once. */
static td_status list_code(const plan_exe *plan, base_arena *arena, prof_code *all, uint32_t *count, td_error *err) {
  uint8_t *seen = base_new(arena, uint8_t, (size_t)plan->functions.count + 1);
  if (!seen) return base_no_memory(err, "code");
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const plan_step *s = &plan->steps.at[i];
    plan_code place;
    if (!plan_code_of(plan, s, &place) || seen[s->function]) continue;
    seen[s->function] = 1;
    const char *name = full_name(plan, s->function, s, arena);
    if (!name) return base_no_memory(err, "code");
    all[(*count)++] = (prof_code){name, place.at, place.bytes, place.source, place.line};
  }
  return TD_OK;
}

static td_status tell(const td_model *model, bool map, base_arena *arena, td_write_fn write, void *user,
                      td_error *err) {
  size_t most = 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan_count(model->plan); i++) most += plan_at(model->plan, i)->functions.count;
  prof_code *code = base_new(arena, prof_code, most + 1);
  if (!code) return base_no_memory(err, "code");
  for (uint32_t i = 0; i < plan_count(model->plan); i++)
    TRY(list_code(plan_at(model->plan, i), arena, code, &count, err));
  const prof_process process = {(uint32_t)sys_process_id(), (uint32_t)sys_process_id(), sys_clock_ns()};
  const td_status status = map ? prof_write_map(code, count, &model->allocator, write, user)
                               : prof_write_jitdump(code, count, &process, &model->allocator, write, user);
  return status == TD_OK ? TD_OK : base_fail(err, status, NULL, -1, "the perf map could not be written");
}

td_status td_model_tell_perf(const td_model *model, const char *form, td_write_fn write, void *user, td_error *err) {
  if (!model || !form || !write)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_tell_perf needs a model, a form, and a place for it");
  const bool map = strcmp(form, "map") == 0;
  if (!map && strcmp(form, "jitdump") != 0)
    return base_fail(err, TD_BAD_ARGUMENT, form, -1, "perf knows no form %s; there are map and jitdump", form);
  base_arena *arena = base_arena_new(&model->allocator);
  if (!arena) return base_no_memory(err, "code");
  const td_status status = tell(model, map, arena, write, user, err);
  base_arena_free(arena);
  return status;
}
