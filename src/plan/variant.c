/* variant.c -- variants of a plan for particular sizes: they take what the plan takes and give what it gives, faster.
 */
#include "plan/plan.h"

#include <string.h>

/* "batch=8 seq=128", in the variant's arena; NULL: out of memory. */
static const char *make_label(const plan_exe *plan, const plan_exe *variant) {
  const char *label = "";
  for (uint32_t i = 0; i < variant->sizes.count && label; i++) {
    const plan_size *size = &variant->sizes.at[i];
    label = base_arena_format(variant->arena, "%s%s%s=%lld", label, i ? " " : "",
                              plan->dims.symbols.at[size->symbol].name, (long long)size->value);
  }
  return label;
}

/* Sizes may be better known to the variant. */
static bool same_port(const plan_exe *plan, const plan_port *a, const plan_exe *variant, const plan_port *b) {
  const plan_slot *x = &plan->slots.at[a->slot], *y = &variant->slots.at[b->slot];
  return strcmp(plan_name(plan, a->name), plan_name(variant, b->name)) == 0 && a->kind == b->kind &&
         a->takes == b->takes && a->dtype == b->dtype && x->dtype == y->dtype && x->rank == y->rank &&
         (a->fallback == PLAN_NONE) == (b->fallback == PLAN_NONE);
}

static bool same_ports(const plan_exe *plan, const plan_exe *variant) {
  if (plan->inputs.count != variant->inputs.count || plan->outputs.count != variant->outputs.count ||
      plan->states.count != variant->states.count)
    return false;
  for (uint32_t i = 0; i < plan_given_count(plan); i++)
    if (!same_port(plan, plan_given(plan, i), variant, plan_given(variant, i))) return false;
  for (uint32_t i = 0; i < plan->outputs.count; i++) {
    const plan_port *a = &plan->outputs.at[i], *b = &variant->outputs.at[i];
    if (a->kind != b->kind || a->dtype != b->dtype || a->is_complex != b->is_complex) return false;
  }
  return true;
}

static bool sound_sizes(const plan_exe *plan, const plan_exe *variant) {
  for (uint32_t i = 0; i < variant->sizes.count; i++)
    if (variant->sizes.at[i].symbol >= plan->dims.symbols.count || variant->sizes.at[i].value < 0) return false;
  return variant->sizes.count > 0;
}

td_status plan_check_variant(const plan_exe *plan, plan_exe *variant, td_error *err) {
  if (!sound_sizes(plan, variant) || !same_ports(plan, variant))
    return base_fail(err, TD_BAD_FILE, NULL, -1, "the plan is damaged: a variant of it takes or gives something else");
  variant->here.label = make_label(plan, variant);
  return variant->here.label ? TD_OK : base_no_memory(err, "a variant");
}

td_status plan_add_variant(plan_exe *plan, plan_exe *variant, td_error *err) {
  TRY(plan_check_variant(plan, variant, err));
  plan_exe **to = base_vec_push(plan->arena, &plan->here.variants);
  if (!to) return base_no_memory(err, "a variant");
  *to = variant;
  return TD_OK;
}
