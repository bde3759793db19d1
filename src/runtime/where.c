/* where.c -- at which step a run has failed, told in the user's words first: node of the model, then what it has
 * become: node of the compiled graph, kernel, and of generated code the line of its C text. */
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runtime/steps_priv.h"

enum { SHOWN = 4 /* nodes that are named */ };

static void put(td_error *err, const char *format, ...) BASE_PRINTF(2, 3);

/* Adds to the text; what does not fit is cut off. */
static void put(td_error *err, const char *format, ...) {
  const size_t used = strlen(err->text);
  va_list args;
  va_start(args, format);
  vsnprintf(err->text + used, sizeof err->text - used, format, args);
  va_end(args);
}

static void put_nodes(const plan_exe *plan, const plan_step *step, td_error *err) {
  if (step->origin_count < 2) return;
  put(err, " of %u nodes (", step->origin_count);
  for (uint32_t i = 0; i < step->origin_count && i < SHOWN; i++) {
    const base_str node = base_node_name(plan_origin(plan, step, i));
    put(err, "%s%.*s", i ? ", " : "", (int)base_min_i64((int64_t)node.length, 120), node.at);
  }
  put(err, step->origin_count > SHOWN ? ", ...)" : ")");
}

/* The node of a fused loop whose operation is at fault, where the kernel told which that is (kernels/loops/loops.h) and
 * the loop knows where it came from; else the step's first. */
static base_str name_of(const plan_exe *plan, const plan_step *step, td_error *err) {
  const bool call = step->kind == PLAN_CALL;
  const int64_t at = err->offset;
  const base_str first = {plan_name(plan, step->name), strlen(plan_name(plan, step->name))};
  uint32_t count = 0;
  if (!call || !plan->here.links.at[step->function].tells_sources || at < 0) return first;
  err->offset = -1;
  const base_attrs *attrs = plan_attrs(plan, step->attrs);
  const int64_t *from = attrs->count > KERN_FUSED_FROM ? base_attr_ints(attrs, KERN_FUSED_FROM, &count) : NULL;
  const bool known = at < count && from[at] >= 0 && from[at] < step->origin_count;
  return known ? base_node_name(plan_origin(plan, step, (uint32_t)from[at])) : first;
}

td_status run_name_step(const plan_exe *plan, uint32_t number, td_status status, td_error *err) {
  const plan_step *step = &plan->steps.at[number];
  if (status == TD_OK || !err || err->name[0] || !*plan_name(plan, step->name)) return status;
  const base_str name = name_of(plan, step, err);
  snprintf(err->name, sizeof err->name, "%.*s", (int)base_min_i64((int64_t)name.length, INT32_MAX), name.at);
  if (step->kind != PLAN_CALL && step->kind != PLAN_SHOW) return status;
  const plan_function *f = &plan->functions.at[step->function];
  const char *op = plan_name(plan, f->op), *kernel = plan->here.links.at[step->function].name;
  plan_code code;
  put(err, *plan->here.label ? "; step %u for %s" : "; step %u", number, plan->here.label);
  if (*op) put(err, ", graph node %s", op);
  put_nodes(plan, step, err);
  if (strcmp(op, kernel) != 0) put(err, ", kernel %s", kernel);
  if (plan_code_of(plan, step, &code) && code.source) put(err, ", generated code %s:%u", code.source, code.line);
  return status;
}
